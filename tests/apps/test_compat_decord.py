"""`mediatensor.compat.decord` compared with recorded calls of decord, and its extensions."""

from __future__ import annotations

import io
import json
import random
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import media
import media_audio
from decord_calls import CALLS, CLIP, FOLDER, LATE, UNEVEN, differences, outcome
from media_writing import ClipSpec, write_clip
from mediatensor.compat import decord
from mediatensor.decoders import AudioDecoder, VideoDecoder
from mediatensor.errors import InvalidArgumentError, IsolatedWorkerError

RECORDED: dict[str, Any] = json.loads((FOLDER / "decord.json").read_text(encoding="utf-8"))
FAILING = [name for name, value in RECORDED.items() if "raises" in str(value)]
# Tolerances in levels of 255: both libraries convert colours and resize with different filters.
MAX_LEVELS = {"size": 6.0, "width alone": 6.0, "height alone": 6.0, "larger": 6.0}
MAX_LEVELS |= {"loader: in order": 6.0, "loader: pairs": 6.0}
# Deliberate differences, as on the page "Coming from decord", with our results.
DIFFERENT: dict[str, Any] = {
    "sound: shape": [1, 57600],
    "sound: duration": 1.2,
    "sound: rate that is not given": 48_000,
}


@pytest.mark.parametrize(
    "name", [name for name, value in RECORDED.items() if name in CALLS and "raises" not in str(value)]
)
def test_results_match_decord(name: str) -> None:
    ours, theirs = outcome(decord, CALLS[name]), RECORDED[name]
    if name in DIFFERENT:
        assert ours == DIFFERENT[name] != theirs
        return
    if name == "sound: samples":  # the encoder's padding at the end is not audio
        assert (ours["shape"], theirs["shape"]) == ([1, 57600], [1, 58368])
        ours, theirs = ours["values"], theirs["values"]
        assert np.allclose(np.array(ours)[:, :57], np.array(theirs)[:, :57], atol=2e-3)
        return
    levels = MAX_LEVELS.get(name, 1.0)
    assert differences(ours, theirs, {"means": levels, "values": 2e-3, "": levels}) == []


def test_every_call_was_recorded() -> None:
    assert set(RECORDED) - set(CALLS) == {"decord for frames", "decord for sound"}
    assert set(CALLS) <= set(RECORDED)
    assert len(RECORDED) > 80


@pytest.mark.parametrize("name", FAILING)
def test_errors_have_decords_types(name: str) -> None:
    kinds: dict[str, type[Exception]] = {
        "IndexError": IndexError,
        "AssertionError": AssertionError,
        "TypeError": TypeError,
        "RuntimeError": RuntimeError,
        "StopIteration": StopIteration,
        "DECORDError": decord.DECORDError,
    }
    with pytest.raises(kinds[RECORDED[name]["raises"]]):
        CALLS[name](decord)


def test_times_count_from_the_first_frame(tmp_path: Path) -> None:
    path = tmp_path / "late.mkv"
    write_clip(ClipSpec("starts after 2 s", container="matroska", pts=range(50, 60), num_frames=10), path)
    assert VideoDecoder(path).metadata.begin_stream_seconds == 2.0
    # decord 0.6 and decord2 3.4 return the same.
    times = decord.VideoReader(str(path)).get_frame_timestamp([0, 5])
    assert np.allclose(times, [[0.0, 0.04], [0.2, 0.24]], atol=1e-6)


def test_version_is_that_of_decord() -> None:
    assert decord.__version__ == "0.6.0"


def test_bridges() -> None:
    reader = decord.VideoReader(CLIP)
    truth = VideoDecoder(CLIP, dimension_order="NHWC")[3:5]
    with decord.bridge.use_torch():
        tensor = reader.get_batch([3, 4])
        assert isinstance(tensor, torch.Tensor)
        assert torch.equal(tensor, truth)
        seen: list[Any] = []
        thread = threading.Thread(target=lambda: seen.append(reader[0]))
        thread.start()
        thread.join()
        assert isinstance(seen[0], torch.Tensor)  # a thread uses the main thread's bridge
    with decord.bridge.use_numpy():
        assert np.array_equal(reader.get_batch([3, 4]), truth.numpy())
    native = reader.get_batch([3, 4])
    assert np.array_equal(np.asarray(native), truth.numpy())
    assert torch.equal(torch.from_dlpack(native), truth)
    assert torch.equal(torch.utils.dlpack.from_dlpack(native.to_dlpack()), truth)
    decord.bridge.set_bridge("torch")
    decord.bridge.reset_bridge()
    assert isinstance(reader[0], decord.NDArray)


def test_slices_and_lists_that_name_no_frames() -> None:
    for reader in (decord.VideoReader(CLIP), decord.AudioReader(CLIP), decord.AVReader(CLIP)):
        for wrong in (slice(None, None, 0), slice("a", None)):
            with pytest.raises(InvalidArgumentError, match="not a slice"):
                reader[wrong]
    reader = decord.VideoReader(CLIP)
    for wrong in (slice(None, None, 0), [0, [1, 2]]):
        with pytest.raises(InvalidArgumentError):
            reader.get_frame_timestamp(wrong)
    assert np.array_equal(reader.get_frame_timestamp(slice(9, 2, -3)), reader.get_frame_timestamp([9, 6, 3]))
    assert reader.get_frame_timestamp(slice(5, 2)).shape == (0, 2)


def test_files_opened_as_text() -> None:
    for read in (decord.VideoReader, decord.AudioReader, decord.AVReader):
        with pytest.raises(decord.DECORDError, match="'rb'"):
            read(io.StringIO("text"))


@pytest.mark.usefixtures("forked_processes")
def test_a_time_limit_changes_nothing_else() -> None:
    with open(CLIP, "rb") as file:
        reader = decord.VideoReader(file, width=32, timeout_seconds=60)
    here = decord.VideoReader(CLIP, width=32)
    assert len(reader) == 30
    assert np.array_equal(reader.get_batch([29, 3]).asnumpy(), here.get_batch([29, 3]).asnumpy())
    assert np.array_equal(reader[7].asnumpy(), here[7].asnumpy())
    assert np.array_equal(reader.next().asnumpy(), here[8].asnumpy())
    with pytest.raises(InvalidArgumentError, match="timeout_seconds"):
        decord.VideoReader(CLIP, timeout_seconds=0)


@pytest.mark.usefixtures("forked_processes")
def test_a_call_that_takes_too_long_ends(tmp_path: Path) -> None:
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts connections, but never answers
        url = f"http://127.0.0.1:{server.getsockname()[1]}/video.mp4"
        with pytest.raises(IsolatedWorkerError, match=r"0\.5") as caught:
            decord.VideoReader(url, timeout_seconds=0.5)
    assert caught.value.reason == "timeout"
    assert time.monotonic() - began < 60


def test_frames_that_cannot_be_decoded(tmp_path: Path) -> None:
    path = media.make("damaged_packet_mpeg2_ts", tmp_path)
    truth = VideoDecoder(path, on_error="nearest")
    failed = {report.index for report in truth.get_all_frames().replaced}
    assert failed
    reader = decord.VideoReader(path)
    with pytest.warns(UserWarning, match=f"{min(failed)}"):
        frames = reader[:]
    assert np.array_equal(frames.asnumpy(), truth.get_all_frames().data.permute(0, 2, 3, 1).numpy())
    strict_reader = decord.VideoReader(path, fault_tol=0)
    for _ in range(2):  # a second try must not get the replacement
        with pytest.raises(decord.DECORDLimitReachedError, match=f"{len(failed)} frames"):
            strict_reader[:]
    with pytest.raises(decord.DECORDLimitReachedError):
        decord.VideoReader(path, fault_tol=0.5 / len(truth))[:]
    assert decord.VideoReader(path, fault_tol=len(failed))[:].shape == frames.shape


def test_missing_frames_are_replaced_by_the_nearest(tmp_path: Path) -> None:
    """Decoding shows that the file has fewer frames than packets, after its length has been returned."""
    path = media.make("lost_packets_mpeg4_b_frames_avi", tmp_path)
    reader = decord.VideoReader(path)
    with VideoDecoder(path) as decoder:
        times = reader.get_frame_timestamp(slice(None))[:, 0] + decoder.metadata.begin_stream_seconds
    with pytest.warns(UserWarning, match="cannot be decoded"):
        frames = [reader.next().asnumpy() for _ in range(len(reader))]
    with pytest.raises(StopIteration):
        reader.next()
    truth = VideoDecoder(path, on_error="nearest").get_all_frames()
    assert len(truth) < len(frames) == len(times)
    for frame, seconds in zip(frames, times, strict=True):
        nearest = int((truth.pts_seconds - seconds).abs().argmin())
        assert np.array_equal(frame, truth.data[nearest].permute(1, 2, 0).numpy())
    with pytest.warns(UserWarning, match="cannot be decoded"):
        assert np.array_equal(decord.VideoReader(path)[::-1].asnumpy(), np.stack(frames[::-1]))
    with pytest.raises(decord.DECORDLimitReachedError, match="2 frames"):
        decord.VideoReader(path, fault_tol=1)[:]


def test_audio_that_starts_late_is_padded_once() -> None:
    reader = decord.AudioReader(LATE)
    num_samples = reader.shape[1]
    first = reader[:100].asnumpy()
    assert reader.add_padding() == reader.add_padding() == 22944
    assert reader.shape == (1, num_samples + 22944)
    assert not reader[:22944].asnumpy().any()
    assert np.array_equal(reader[22944:23044].asnumpy(), first)


def test_audio_of_frames_is_complete_in_long_videos() -> None:
    sound, frames = decord.AVReader(CLIP)[:]
    assert frames.shape == (30, 48, 64, 3)
    assert [part.shape for part in sound] == [(1, 1764)] * 30  # 44,100 Hz at 25 frames a second
    joined = np.concatenate([part.asnumpy() for part in sound], 1)
    assert np.array_equal(joined, decord.AudioReader(CLIP, sample_rate=44_100)[: 30 * 1764].asnumpy())


def test_gaps_in_the_audio_of_frames_are_silent(tmp_path: Path) -> None:
    spec = replace(media_audio.ALL_CLIPS["gap_pcm_mkv"], video=2.0)
    path = media_audio.make_as(spec, "gap_pcm_with_video", tmp_path)
    sound, _ = decord.AVReader(path, sample_rate=0)[:]
    assert [part.shape for part in sound] == [(1, 4410)] * 20
    assert not any(part.asnumpy().any() for part in sound[11:15])
    decoder = AudioDecoder(path, num_channels=1)
    for number in (0, 9, 16, 19):
        played = decoder.get_samples_played_in_range(number / 10, (number + 1) / 10)
        assert np.array_equal(sound[number].asnumpy(), played.data.numpy())


def test_returned_arrays_belong_to_the_caller() -> None:
    sound = decord.AudioReader(CLIP)
    before = sound[:10].asnumpy().copy()
    sound[:10].asnumpy()[:] = 1
    sound[3].asnumpy()[:] = 1
    assert np.array_equal(sound[:10].asnumpy(), before)


@pytest.mark.parametrize("indices", [3, "abc", None, [None], [1e30]])
def test_what_crashes_decord_is_an_error(indices: Any) -> None:
    with pytest.raises((InvalidArgumentError, IndexError)):
        decord.VideoReader(UNEVEN).get_batch(indices)


@pytest.mark.usefixtures("forked_processes")
def test_a_loader_in_a_separate_process() -> None:
    options: Any = ([CLIP, UNEVEN], decord.cpu(0), (4, 24, 32, 3), 1, 3, 0)
    bounded = list(decord.VideoLoader(*options, timeout_seconds=60))
    for (frames, indices), (truth, where) in zip(bounded, decord.VideoLoader(*options), strict=True):
        assert np.array_equal(frames.asnumpy(), truth.asnumpy())
        assert np.array_equal(indices.asnumpy(), where.asnumpy())


def test_a_random_order_is_that_of_the_seed() -> None:
    def order(shuffle: int, seed: int) -> list[Any]:
        random.seed(seed)
        loader = decord.VideoLoader([CLIP, UNEVEN], decord.cpu(0), (2, 24, 32, 3), 0, 0, shuffle)
        return [indices.asnumpy()[0].tolist() for _, indices in loader]

    in_order = order(0, 1)
    for shuffle in (1, 2):
        found = order(shuffle, 1)
        assert found == order(shuffle, 1) != order(shuffle, 2)
        assert sorted(found) == in_order != found
    turns = order(1, 1)
    for number in (0, 1):
        assert [frame for video, frame in turns if video == number] == list(range(0, 28, 2))


def test_arguments_of_a_loader_that_are_not_accepted() -> None:
    given: dict[str, Any] = {"uris": [CLIP], "ctx": decord.cpu(0), "shape": (2, 24, 32, 3), "interval": 0, "skip": 0}
    for changes in ({"uris": CLIP}, {"ctx": 3}, {"ctx": []}, {"shape": (0, 24, 32, 3)}, {"interval": 0.5}):
        with pytest.raises(decord.DECORDError):
            decord.VideoLoader(**{**given, **changes}, shuffle=0)
    with pytest.raises(decord.DECORDError, match=r"nothing\.mp4"):
        decord.VideoLoader(**{**given, "uris": [CLIP, "nothing.mp4"]}, shuffle=0)
