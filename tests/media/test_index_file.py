"""Saved frame indexes: nothing is lost, frames do not change, and no file does harm."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import struct
import tracemalloc
import zlib
from base64 import b64decode
from collections.abc import Callable
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import media
from mediatensor._engine.containers.sample_tables import unread_packets
from mediatensor._engine.index.building import from_packets, from_table
from mediatensor.decoders import FrameIndex, VideoDecoder
from mediatensor.errors import FrameIndexError, MediaTensorError

# The described format, written a second time.
PREFIX = struct.Struct("<8sIIQ")

# Indexes from packets and from decoding, with every unusual property that an index can record.
CLIPS = [
    "h264_b_pyramid", "h264_open_gop", "hevc_open_gop_ts", "vp9_hidden_frames", "mp4_fragmented",
    "edit_list_both_ends", "edit_list_trims_key_frame", "h264_field_pairs_ts", "missing_pts_ts", "all_equal_pts_mkv",
    "ts_concatenated", "raw_h264_open_gop", "mpeg4_packed_b_frames", "damage_after_key_ts", "lost_key_frame_mkv",
    "truncated_mkv", "truncated_flv", "late_start_ts", "negative_pts_ts", "size_change_ts", "one_frame",
]  # fmt: skip


# An index that was made by decoding three frames, with two holes, as it was saved when the format was new.
SAVED_EARLIER = b64decode(
    "iU1USQ0KGgoDAAAAdgEAACQAAAAAAAAAeyJudW1fZnJhbWVzIjogMywgIm51bV9lbnRyaWVzIjogMSwgIm51bV9ob2xlcyI6IDIsICJ0aW1lX2Jh"
    "c2UiOiBbMSwgMTI4MDBdLCAic2V0dGxlZCI6IHRydWUsICJpc19jdXRfc2hvcnQiOiBmYWxzZSwgImlzX2F1dGhvcml0YXRpdmUiOiBmYWxzZSwg"
    "ImNvbHVtbnMiOiBbWzAsIDJdLCBbNTEyLCAwXSwgWzAsIDFdLCBbMCwgMl0sIFszLCAwXSwgWzAsIDBdLCBbMCwgMF0sIFstNTEyLCAwXSwgWzQ4"
    "LCAwXSwgWzEzMDAsIDBdLCBbMiwgMV0sIFs3MDAsIDJdLCBbMTAyNCwgMl0sIFs0LCAxXV0sICJhbm9tYWxpZXMiOiBbInRoZSBmcmFtZXMgd2Vy"
    "ZSBjb3VudGVkIGJ5IGRlY29kaW5nLCBiZWNhdXNlIG9mIGEgdGVzdCJdLCAibWFkZV9mcm9tIjogbnVsbH14nGNgYGJiZAABpv8MjAzsQAYnEHNA"
    "hJgYXZgZWP4CAB85Am272Xfw781OFPi5X1/cZcY9"
)


@pytest.fixture(scope="module")
def saved(clip: Path, folder: Path) -> bytes:
    VideoDecoder(clip).frame_index.save(folder / "whole.index")
    return (folder / "whole.index").read_bytes()


@pytest.fixture(scope="module")
def settled(folder: Path) -> bytes:
    VideoDecoder(media.make("h264_field_pairs_ts", folder)).frame_index.save(folder / "settled.index")
    return (folder / "settled.index").read_bytes()


def assert_equal(index: FrameIndex, other: FrameIndex) -> None:
    """Compare all values of two indexes, and their types."""
    for item in dataclasses.fields(FrameIndex):
        expected, found = getattr(index, item.name), getattr(other, item.name)
        assert type(found) is type(expected), item.name
        if isinstance(expected, np.ndarray):
            assert found.dtype == expected.dtype, item.name
            assert found.flags.writeable
            assert np.array_equal(found, expected), item.name
        else:
            assert found == expected, item.name


def assert_saved(index: FrameIndex, path: Path) -> None:
    index.save(path)
    assert_equal(index, FrameIndex.load(path))


def load(data: bytes, folder: Path) -> FrameIndex:
    path = folder / "some.index"
    path.write_bytes(data)
    return FrameIndex.load(path)


def parts_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return (header, columns as they are in the file)."""
    _, _, header_size, payload_size = PREFIX.unpack(data[: PREFIX.size])
    header = data[PREFIX.size : PREFIX.size + header_size]
    payload = data[PREFIX.size + header_size : PREFIX.size + header_size + payload_size]
    return json.loads(header), zlib.decompress(payload)


def test_files_that_were_saved_earlier_still_load(folder: Path) -> None:
    index = load(SAVED_EARLIER, folder)
    assert index.pts.tolist() == [0, 512, 1024]
    assert index.packet.tolist() == [0, 2, 1]
    assert (index.key_frame_position.tolist(), index.key_frame_bytes.tolist()) == ([48], [1300])
    assert index.fingerprint.tolist() == [7, 9, 8]
    assert (index.settled, index.anomalies) == (True, ("the frames were counted by decoding, because of a test",))
    assert [dataclasses.astuple(hole) for hole in index.holes] == [(2, 700 / 12800, 0.08, 4), (3, 0.12, 0.16, 1)]
    index.save(folder / "again.index")
    assert (folder / "again.index").read_bytes() == SAVED_EARLIER


def assembled(header: object, columns: bytes, *, version: int = 3) -> bytes:
    """Make a file with a right checksum of any contents."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    payload = zlib.compress(columns)
    data = PREFIX.pack(b"\x89MTI\r\n\x1a\n", version, len(text), len(payload)) + text + payload
    return data + blake2b(data, digest_size=16).digest()


# Nothing is lost


def final_index(name: str, folder: Path) -> FrameIndex:
    """Return the index of a clip after decoding has met all its damage."""
    decoder = VideoDecoder(media.make(name, folder), on_error="skip", on_size_change="scale")
    if media.CLIPS[name].expect == "frames":
        decoder.get_all_frames()
    return decoder.frame_index


@pytest.mark.parametrize("name", CLIPS)
def test_saved_index_is_loaded_unchanged(name: str, folder: Path) -> None:
    index = final_index(name, folder)
    assert_saved(index, folder / f"{name}.index")
    assert_equal(index, pickle.loads(pickle.dumps(index)))


def test_clips_cover_all_fields_of_an_index(folder: Path) -> None:
    indexes = [final_index(name, folder) for name in CLIPS]
    assert {index.settled for index in indexes} == {True, False}
    assert any(index.is_damaged.any() for index in indexes)
    assert any(index.anomalies for index in indexes)
    assert {int(d) for index in indexes for d in np.unique(index.disposable)} >= {0, 1}
    assert any(index.settled and index.codec_pts.tolist() != index.pts.tolist() for index in indexes)


def test_early_end_of_reading_is_saved(clip: Path, folder: Path) -> None:
    index = dataclasses.replace(VideoDecoder(clip).frame_index, is_cut_short=True, anomalies=("it stops", "\udcff"))
    assert_saved(index, folder / "short.index")


def test_user_table_can_be_saved(clip: Path, folder: Path) -> None:
    frames = [{"pts": 512 * n, "duration": 512, "key_frame": int(n % 10 == 0)} for n in range(30)]
    decoder = VideoDecoder(clip, custom_frame_mappings=json.dumps({"frames": frames}))
    assert_saved(decoder.frame_index, folder / "table.index")


def test_numbers_are_stored_as_little_endian_differences_by_byte(saved: bytes, clip: Path) -> None:
    header, columns = parts_of(saved)
    pts, width = header["columns"][0]
    assert width == 2, "512 ticks need two bytes"
    num_steps = header["num_frames"] - 1
    found = [pts]
    for n in range(num_steps):
        found.append(found[-1] + columns[n] + 256 * columns[num_steps + n])
    assert found == VideoDecoder(clip).frame_index.pts.tolist()


_TICKS = st.integers(-(2**61), 2**61) | st.integers(-300, 300) | st.integers(-40_000, 40_000)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames=st.lists(st.tuples(_TICKS, _TICKS.map(abs), st.booleans()), max_size=20) | st.just([(7, 7, True)] * 9))
def test_any_numbers_can_be_saved(frames: list[tuple[int, int, bool]], folder: Path) -> None:
    pts, duration, is_key = ([frame[i] for frame in frames] for i in range(3))
    index = from_table(pts, duration, is_key, Fraction(1, 90_000))
    assert_saved(index, folder / "numbers.index")


def test_long_index_takes_few_bytes(tmp_path: Path) -> None:
    num_frames = 100_000
    random = np.random.default_rng(0)
    numbers = np.arange(num_frames)
    sizes = random.integers(500, 60_000, num_frames)
    table = unread_packets(
        pts=numbers.reshape(-1, 4)[:, [0, 3, 1, 2]].ravel() * 512,
        dts=numbers * 512 - 1024,
        duration=np.full(num_frames, 512),
        size=sizes,
        position=np.cumsum(sizes),
        is_key=numbers % 240 == 0,
    )
    index, _ = from_packets(table, Fraction(1, 15360), Fraction(30))
    index = dataclasses.replace(index, disposable=(numbers % 4 > 1).astype(np.int8))
    index.save(tmp_path / "long.index")
    assert (tmp_path / "long.index").stat().st_size < num_frames
    assert_equal(index, FrameIndex.load(tmp_path / "long.index"))


@pytest.mark.parametrize("failing", ["open", "replace"])
def test_failed_save_leaves_old_file(
    failing: str, saved: bytes, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index"
    path.write_bytes(b"before")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    index = VideoDecoder(clip).frame_index
    with monkeypatch.context() as patch:
        patch.setattr("builtins.open" if failing == "open" else "os.replace", fail)
        with pytest.raises(FrameIndexError, match="No space left"):
            index.save(path)
    assert path.read_bytes() == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["index"]
    index.save(path)
    assert path.read_bytes() == saved
    assert [entry.name for entry in tmp_path.iterdir()] == ["index"]


# Files from strangers


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_truncated_and_altered_files_are_refused(data: st.DataObject, saved: bytes, folder: Path) -> None:
    at = data.draw(st.integers(0, len(saved) - 1))
    with pytest.raises(FrameIndexError):
        load(saved[:at], folder)
    with pytest.raises(FrameIndexError):
        load(saved[:at] + bytes([saved[at] ^ data.draw(st.integers(1, 255))]) + saved[at + 1 :], folder)
    with pytest.raises(FrameIndexError):
        load(saved + bytes(at + 1), folder)


def test_other_files_are_refused(clip: Path, tmp_path: Path) -> None:
    with pytest.raises(FrameIndexError, match="not a saved frame index"):
        FrameIndex.load(clip)
    with pytest.raises(FrameIndexError, match="not a regular file"):
        FrameIndex.load(tmp_path)
    with pytest.raises(FrameIndexError, match="No such file"):
        FrameIndex.load(tmp_path / "missing.index")
    with pytest.raises(FrameIndexError):
        FrameIndex.load("\0")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FrameIndexError, match="not a regular file"):
        FrameIndex.load(tmp_path / "pipe")


@pytest.mark.parametrize("version", [2, 4])
def test_files_of_another_version_are_refused_by_name(version: int, saved: bytes, folder: Path) -> None:
    with pytest.raises(FrameIndexError, match=f"version {version}; this library reads 3"):
        load(assembled(*parts_of(saved), version=version), folder)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_hostile_headers_are_refused_or_harmless(
    data: st.DataObject, saved: bytes, settled: bytes, folder: Path
) -> None:
    header, columns = parts_of(data.draw(st.sampled_from([saved, settled])))
    target = data.draw(st.sampled_from([header, header["made_from"]]))
    target[data.draw(st.sampled_from(sorted(target)))] = data.draw(JSON)
    try:
        index = load(assembled(header, columns), folder)
    except FrameIndexError:
        return
    repr(index), index.gop_bytes, index.average_fps, index.anomalies


@pytest.mark.parametrize(
    "header", [b"", b"{", b"[]", b"[" * 100_000, b"\xff", b'{"num_frames": 1' + b"0" * 5000 + b"}"]
)
def test_invalid_headers_are_refused(header: bytes, saved: bytes, folder: Path) -> None:
    with pytest.raises(FrameIndexError, match="header"):
        load(assembled(header, parts_of(saved)[1]), folder)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_hostile_columns_raise_only_known_errors(
    data: st.DataObject, saved: bytes, settled: bytes, clip: Path, folder: Path
) -> None:
    original, video = data.draw(st.sampled_from([(saved, clip), (settled, media.make("h264_field_pairs_ts", folder))]))
    header, columns = parts_of(original)
    altered = bytearray(columns)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(altered) - 1))
        altered[at] = data.draw(st.integers(0, 255))
    try:
        index = load(assembled(header, bytes(altered)), folder)
        decoder = VideoDecoder(video, frame_index=index, num_ffmpeg_threads=1)
        decoder.metadata, index.gop_bytes, index.frames_played_at([index.begin_seconds])
        for i in data.draw(st.permutations([0, 5, -1]), label="frames"):
            decoder[i]
    except MediaTensorError:
        pass


def test_loading_takes_no_more_memory_than_frames(saved: bytes, folder: Path) -> None:
    header, columns = parts_of(saved)
    many = {**header, "num_frames": 1 << 24, "num_entries": 1 << 24}
    bomb = assembled(header, bytes(50_000_000))
    tracemalloc.start()
    try:
        for data in (assembled(many, columns), assembled({**header, "num_frames": (1 << 24) + 1}, columns), bomb):
            with pytest.raises(FrameIndexError):
                load(data, folder)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def change(index: FrameIndex, **changes: Callable[[np.ndarray], None]) -> FrameIndex:
    arrays = {}
    for name, alter in changes.items():
        arrays[name] = getattr(index, name).copy()
        alter(arrays[name])
    return dataclasses.replace(index, **arrays)  # type: ignore[arg-type]


def put(place: int, value: int) -> Callable[[np.ndarray], None]:
    return lambda array: array.__setitem__(place, value)


@pytest.mark.parametrize(
    ("which", "changes", "problem"),
    [
        ("saved", {"pts": put(3, 0)}, "not in order"),
        ("saved", {"pts": put(-1, 1 << 62)}, "times that are out of range"),
        ("saved", {"duration": put(0, -(1 << 62))}, "times that are out of range"),
        ("saved", {"duration": put(0, -1)}, "negative durations"),
        ("saved", {"packet": put(3, -2)}, "packet numbers that are out of range"),
        ("saved", {"packet": put(3, 1 << 40)}, "packet numbers that are out of range"),
        ("saved", {"disposable": put(0, 2)}, "disposable"),
        ("saved", {"key_frame_packet": put(0, 1)}, "start decoding"),
        ("saved", {"key_frame_packet": put(-1, 0)}, "start decoding"),
        ("saved", {"key_frame_packet": put(-1, 1 << 40)}, "start decoding"),
        ("saved", {"key_frame_pts": put(-1, 1 << 62)}, "times of key frames"),
        ("saved", {"key_frame_position": put(-1, -2)}, "negative position"),
        ("settled", {"num_packets": put(0, -1)}, "numbers of decoded packets"),
        ("settled", {"num_packets": put(0, 1 << 20)}, "numbers of decoded packets"),
        ("settled", {"codec_pts": put(0, 1 << 62)}, "decoded times"),
        (None, {"hole_frame": put(0, 3)}, "holes that are not in order"),
        (None, {"hole_frame": put(1, 9)}, "holes that are not in order"),
        (None, {"hole_pts": put(1, 1 << 62)}, "times of holes"),
        (None, {"hole_end_pts": put(0, 0)}, "end before they begin"),
        (None, {"hole_num_packets": put(0, 0)}, "holes whose numbers of packets"),
    ],
)
def test_contradicting_parts_are_named(
    which: str | None,
    changes: dict[str, Any],
    problem: str,
    folder: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound = load(request.getfixturevalue(which) if which else SAVED_EARLIER, folder)
    index = change(sound, **changes)
    path = folder / "unsound.index"
    with pytest.raises(FrameIndexError, match=problem):
        index.save(path)
    with monkeypatch.context() as patch:
        patch.setattr("mediatensor._engine.index.index_file.find_inconsistency", lambda _: None)
        index.save(path)
    with pytest.raises(FrameIndexError, match=problem):
        FrameIndex.load(path)
