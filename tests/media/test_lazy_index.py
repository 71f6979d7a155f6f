"""The first frames of a file are right before the rest was read, and little is read for them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import media
from exactness import assert_same, find_truth
from media_writing import ClipSpec, write_clip, x264
from mediatensor._engine.containers.sample_tables import NO_PTS, PacketTable, unread_packets
from mediatensor._engine.index.building import from_packets
from mediatensor._engine.index.indexing import certain_frames, packet_counts
from mediatensor.decoders import VideoDecoder
from mediatensor.transforms import CenterCrop, Resize

_NUM_FRAMES = 600
_LONG = ClipSpec("", options=x264("b-adapt=0:b-pyramid=normal"), num_frames=_NUM_FRAMES, size=(64, 48))

CLIPS = [name for name in media.VIDEO_CLIPS if media.CLIPS[name].container not in ("mp4", "mov", "3gp")]


@pytest.fixture(scope="module", params=["matroska", "mpegts", "flv", "nut"])
def long_clip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / f"long.{request.param}"
    write_clip(ClipSpec(**{**_LONG.__dict__, "container": request.param}), path)
    return path


def test_first_frames_need_few_packets(long_clip: Path, num_packets_read: Callable[[], int]) -> None:
    truth = find_truth(long_clip)
    num_packets_read()
    with truth.open() as decoder:
        assert_same(truth, 0, decoder[0])
        assert num_packets_read() < 150
        for index, data in enumerate(islice(decoder, 20)):
            assert_same(truth, index, data)
        assert num_packets_read() < 300
        assert len(decoder) == _NUM_FRAMES
        if long_clip.suffix == ".matroska":  # the headers of its blocks say the rest
            assert num_packets_read() < 150
        else:
            assert num_packets_read() >= _NUM_FRAMES, "or the count would say nothing"


def test_opening_to_resize_decodes_nothing(long_clip: Path, num_packets_read: Callable[[], int]) -> None:
    num_packets_read()
    with VideoDecoder(long_clip, transforms=[Resize((20, 30)), CenterCrop((10, 12))]) as decoder:
        assert num_packets_read() == 0
        assert decoder.get_frames_at([]).data.shape == (0, 3, 10, 12)
        assert decoder[0].shape == (3, 10, 12)
        assert decoder.metadata.width == 64
    with VideoDecoder(long_clip, transforms=[CenterCrop((10, 12))]):
        assert num_packets_read() > 0, "or the count would say nothing"


def test_iteration_is_exact_and_rereads_little(long_clip: Path, num_packets_read: Callable[[], int]) -> None:
    truth = find_truth(long_clip)
    num_packets_read()
    with truth.open() as decoder:
        count = 0
        for index, data in enumerate(decoder):
            assert_same(truth, index, data)
            count += 1
        assert count == _NUM_FRAMES
    assert num_packets_read() < 4 * _NUM_FRAMES


def test_batches_and_ranges_of_first_frames_need_few_packets(
    long_clip: Path, num_packets_read: Callable[[], int]
) -> None:
    with VideoDecoder(long_clip, num_ffmpeg_threads=1) as whole:
        frames = whole[:12]
        times = whole.frame_index.pts_seconds[:12].tolist()
    num_packets_read()
    for ask in (
        lambda decoder: decoder.get_frames_in_range(2, 12, 3),
        lambda decoder: decoder.get_frames_at([2, 5, 8, 11]),
    ):
        with VideoDecoder(long_clip, num_ffmpeg_threads=1) as decoder:
            batch = ask(decoder)
            assert num_packets_read() < 200
        assert (batch.data == frames[2:12:3]).all()
        assert batch.pts_seconds.tolist() == times[2:12:3]


@pytest.mark.parametrize("name", CLIPS)
def test_first_frames_match_plain_decode(name: str, folder: Path) -> None:
    """Request each frame first, and all frames in turn, without a call that needs the length."""
    path = media.make(name, folder)
    truth = find_truth(path)
    for index in range(min(len(truth), 4)):
        with truth.open() as decoder:
            frame = decoder.get_frame_at(index)
            assert_same(truth, index, frame.data, frame.pts_seconds)
    with truth.open() as decoder:
        for index, data in enumerate(islice(decoder, 12)):
            assert_same(truth, index, data)


@pytest.mark.parametrize("container", ["mpegts", "vob"])
@pytest.mark.parametrize("lengths", [(120, 120), (60, 240), (240, 60), (200, 45)])
def test_late_restart_of_time_is_found(container: str, lengths: tuple[int, int], tmp_path: Path) -> None:
    joined = tmp_path / "joined"
    parts = []
    for number, num_frames in enumerate(lengths):
        part = tmp_path / f"part{number}"
        spec = ClipSpec(
            "", "mpeg2video", container, options={"g": "12", "bf": "2"}, num_frames=num_frames, size=(64, 48),
            paint=lambda frame, width, height, shift=number: _picture(frame + 300 * shift, width, height),
        )  # fmt: skip
        write_clip(spec, part)
        parts.append(part.read_bytes())
    joined.write_bytes(b"".join(parts))
    truth = find_truth(joined)
    with truth.open() as decoder:
        for index in range(6):
            assert_same(truth, index, decoder[index])


def _picture(number: int, width: int, height: int) -> np.ndarray:
    rgb = np.zeros((height, width, 3), np.uint8)
    rgb[:, : width // 2] = number % 256
    rgb[:, width // 2 :] = number * 7 % 256
    return rgb


# The rule on plain arrays


def packets(pts: list[int | None]) -> PacketTable:
    numbers = np.arange(len(pts))
    times = np.array([NO_PTS if time is None else time for time in pts], np.int64)
    return unread_packets(
        pts=times,
        dts=numbers,
        duration=np.full_like(numbers, 10),
        size=np.full_like(numbers, 100),
        position=numbers * 100,
        is_key=numbers == 0,
    )


def certain_times(pts: list[int | None]) -> list[int] | None:
    index = certain_frames(packets(pts), Fraction(1, 100), Fraction(10))
    return None if index is None else index.pts.tolist()


def test_last_32_packets_leave_later_frames_open() -> None:
    assert certain_times([10 * n for n in range(40)]) == [10 * n for n in range(8)]
    assert certain_times([10 * n for n in range(32)]) is None


@pytest.mark.parametrize("pts", [[*range(60), None], [*range(60), 60, 60], [5, *range(6, 60), 0, *range(60, 99)]])
def test_any_doubt_needs_whole_index(pts: list[int | None]) -> None:
    assert certain_times(pts) is None


@given(order=st.lists(st.integers(0, 31), min_size=120, max_size=120), num_read=st.integers(33, 119))
def test_certain_frames_keep_their_places(order: list[int], num_read: int) -> None:
    """Test orders in which no packet is shown before one that is 32 or more packets ahead of it in the file."""
    late = [10 * (n + delay) for n, delay in enumerate(order)]
    pts = [0, *(10 + time * 200 + n for n, time in enumerate(late))]
    index = certain_frames(packets(pts[:num_read]), Fraction(1, 100), Fraction(10))
    whole, _ = from_packets(packets(pts), Fraction(1, 100), Fraction(10))
    assert index.pts.tolist() == whole.pts[: len(index)].tolist()
    assert index.packet.tolist() == whole.packet[: len(index)].tolist()


def test_steps_grow_and_end() -> None:
    first_steps = [packet_counts(n)[0] for n in range(1, 2049)]
    assert all(num_packets >= n + 32 for n, num_packets in enumerate(first_steps, 1))
    assert len(set(first_steps)) == 5
    assert packet_counts(2049) == []
