"""The folder of indexes: each file is read for its index once in all processes, and no folder can stop a decoder."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import media
import mediatensor
from mediatensor._engine.video import (
    exact as _exact,  # This is private: nothing else shows how often an index is built.
)
from mediatensor.decoders import FrameIndex, VideoDecoder
from mediatensor.errors import InvalidArgumentError
from places import in_child, needs_fork

VARIABLE = "MEDIATENSOR_INDEX_CACHE"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Set the folder, which does not exist yet."""
    monkeypatch.setenv(VARIABLE, "to be restored")
    folder = tmp_path / "cache" / "of indexes"
    mediatensor.set_index_cache(folder)
    yield folder
    mediatensor.set_index_cache(None)


def recorded_scans(patch: pytest.MonkeyPatch) -> list[None]:
    """Return a list that grows with each index that is made."""
    made = []
    original = _exact.index_stream

    def counting(*args: Any) -> FrameIndex:
        made.append(None)
        return original(*args)

    patch.setattr(_exact, "index_stream", counting)
    return made


@pytest.fixture
def num_scans(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that counts the indexes made since its last call."""
    made = recorded_scans(monkeypatch)

    def count() -> int:
        number = len(made)
        made.clear()
        return number

    return count


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def scans_in_another_process(path: Path) -> tuple[int, int]:
    """Return (number of frames, number of indexes made) of a decoder."""
    with pytest.MonkeyPatch.context() as patch:
        made = recorded_scans(patch)
        return len(VideoDecoder(path)), len(made)


def test_setting_is_environment_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mediatensor.set_index_cache("here")
    assert mediatensor.get_index_cache() == os.environ[VARIABLE] == str(tmp_path / "here")
    mediatensor.set_index_cache(None)
    assert mediatensor.get_index_cache() is None
    assert VARIABLE not in os.environ
    monkeypatch.setenv(VARIABLE, "there")
    assert mediatensor.get_index_cache() == "there"
    with pytest.raises(InvalidArgumentError, match=r"folder must be the path of a folder, .* None"):
        mediatensor.set_index_cache("")
    assert mediatensor.get_index_cache() == "there"


def test_nothing_is_kept_without_a_folder(clip: Path, cache: Path, num_scans: Callable[[], int]) -> None:
    mediatensor.set_index_cache(None)
    assert len(VideoDecoder(clip)) == len(VideoDecoder(clip))
    assert num_scans() == 2
    assert files_in(cache) == []


@pytest.mark.parametrize("name", ["h264_b_pyramid", "ts_open_gop", "h264_field_pairs_ts"])
def test_second_decoder_makes_no_index(name: str, cache: Path, tmp_path: Path, num_scans: Callable[[], int]) -> None:
    path = media.make(name, tmp_path)
    first = VideoDecoder(path)
    frames = first.get_all_frames().data
    assert (num_scans(), len(files_in(cache))) == (1, 1)
    second = VideoDecoder(path)
    assert torch.equal(second.get_all_frames().data, frames)
    assert second.frame_index.settled == first.frame_index.settled
    assert num_scans() == 0


def test_one_file_serves_all_copies_and_each_stream_has_its_own(
    cache: Path, tmp_path: Path, num_scans: Callable[[], int]
) -> None:
    path = media.make("two_video_streams", tmp_path)
    copy = shutil.copy(path, tmp_path / "copy.mp4")
    for source in (path, copy, path.read_bytes()):
        len(VideoDecoder(source, stream_index=0))
    assert (num_scans(), len(files_in(cache))) == (1, 1)
    len(VideoDecoder(path, stream_index=1))
    assert (num_scans(), len(files_in(cache))) == (1, 2)


def test_changed_file_gets_new_index(cache: Path, tmp_path: Path, num_scans: Callable[[], int]) -> None:
    path = tmp_path / "clip.mkv"
    for num_frames in (20, 30):
        media.write_clip(media.ClipSpec("", container="matroska", num_frames=num_frames), path)
        assert len(VideoDecoder(path)) == num_frames
        assert num_scans() == 1


@pytest.mark.parametrize("damage", [lambda data: data[:50], lambda data: b"", lambda data: data[:-1] + b"?"])
def test_damaged_cache_files_are_written_again(
    damage: Callable[[bytes], bytes], clip: Path, cache: Path, num_scans: Callable[[], int]
) -> None:
    num_frames = len(VideoDecoder(clip))
    (file,) = files_in(cache)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert len(VideoDecoder(clip)) == num_frames
    assert num_scans() == 2
    assert file.read_bytes() == whole


def test_index_of_another_file_under_right_name_is_not_used(
    clip: Path, cache: Path, tmp_path: Path, num_scans: Callable[[], int]
) -> None:
    num_frames = len(VideoDecoder(clip))
    (file,) = files_in(cache)
    other = media.make("one_frame", tmp_path)
    VideoDecoder(other).frame_index.save(file)
    assert num_scans() == 2
    assert len(VideoDecoder(clip)) == num_frames
    assert num_scans() == 1


def test_unusable_folder_causes_one_warning(clip: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    mediatensor.set_index_cache(tmp_path / "file" / "no folder")
    message = r"no folder' \(Not a directory\).*set_index_cache or the environment variable MEDIATENSOR_INDEX_CACHE"
    with pytest.warns(UserWarning, match=message) as caught:
        num_frames = len(VideoDecoder(clip))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(VideoDecoder(clip)) == num_frames


def test_full_disk_causes_one_warning_and_leaves_nothing(
    clip: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.warns(UserWarning, match="No space left"):
            assert len(VideoDecoder(clip)) > 0
    assert files_in(cache) == []


@needs_fork
def test_pipe_instead_of_index_causes_one_warning(clip: Path, cache: Path, tmp_path: Path) -> None:
    """No process reads from the pipe, so writing to it would never end."""
    num_frames = len(VideoDecoder(clip))
    (file,) = files_in(cache)
    file.unlink()
    os.mkfifo(file)

    def decode() -> int:
        with pytest.warns(UserWarning, match="not a regular file"):
            return len(VideoDecoder(clip))

    assert in_child(tmp_path, decode) == num_frames
    assert files_in(cache) == [file]


def test_decoded_index_replaces_wrong_one(cache: Path, tmp_path: Path, num_scans: Callable[[], int]) -> None:
    path = media.make("lost_packets_av1", tmp_path)  # whose packets promise frames that do not come
    early, late = VideoDecoder(path), VideoDecoder(path)
    assert not early.frame_index.settled
    assert not late.frame_index.settled
    frames = early.get_all_frames().data
    assert early.frame_index.settled
    assert num_scans() == 1
    reopened = VideoDecoder(path)
    assert reopened.frame_index.settled
    assert torch.equal(reopened.get_all_frames().data, frames)
    assert num_scans() == 0
    assert len(files_in(cache)) == 1
    _exact.store_index(late.frame_index, late._video.identify)  # by a process that made its index before
    assert VideoDecoder(path).frame_index.settled


def test_tables_of_users_and_urls_are_not_kept(clip: Path, cache: Path) -> None:
    frames = [{"pts": 512 * n, "duration": 512, "key_frame": int(n % 10 == 0)} for n in range(30)]
    assert len(VideoDecoder(clip, custom_frame_mappings=json.dumps({"frames": frames}))) == 30
    assert len(VideoDecoder(f"file:{clip}")) > 0
    assert files_in(cache) == []


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_processes_share_one_scan(clip: Path, cache: Path) -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as one, context.Pool(1) as other:
        first = one.apply(scans_in_another_process, (clip,))
        second = other.apply(scans_in_another_process, (clip,))
    assert first == (len(VideoDecoder(clip)), 1)
    assert second == (len(VideoDecoder(clip)), 0)


@pytest.mark.slow
def test_processes_may_start_at_once(clip: Path, cache: Path) -> None:
    """New processes get the setting from their environment."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        results = pool.map(scans_in_another_process, [clip] * 8, chunksize=1)
        assert 1 <= sum(num_scans for _, num_scans in results) <= 2
    assert {num_frames for num_frames, _ in results} == {len(VideoDecoder(clip))}
    (file,) = files_in(cache)
    assert len(FrameIndex.load(file)) == results[0][0]
