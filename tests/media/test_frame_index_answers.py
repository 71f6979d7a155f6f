"""Answers of a frame index, compared with plain loops over PyAV's packets and frames."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import media
from mediatensor._engine.index.building import from_table
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.decoders import FrameIndex, VideoDecoder
from mediatensor.errors import InvalidArgumentError, OutOfRangeError

# Intact streams whose packets are their frames; edit lists trim the second group.
WHOLE = [
    "h264_b_pyramid",
    "h264_open_gop",
    "h264_all_intra",
    "hevc_open_gop_mkv",
    "vp9",
    "mpeg2_closed_gop",
    "ts",
    "vfr_mkv",
    "gaps_mp4",
    "two_video_streams",
    "one_frame",
]
TRIMMED = ["edit_list_trims_closed_gop", "edit_list_both_ends", "edit_list_start"]


@dataclass(frozen=True)
class ListedPacket:
    pts: int
    size: int
    is_key: bool
    is_shown: bool


def list_packets(path: Path, stream_index: int) -> tuple[list[ListedPacket], Fraction]:
    """Return the packets of a stream in the file's order, and its time base."""
    with av.open(str(path)) as container:
        stream = container.streams[stream_index]
        packets = [
            ListedPacket(packet.pts, packet.size, packet.is_keyframe, not packet.is_discard)
            for packet in container.demux(stream)
            if packet.size
        ]
        return packets, stream.time_base


@pytest.fixture(scope="module")
def opened(folder: Path) -> Callable[[str], tuple[FrameIndex, list[ListedPacket], Fraction]]:
    def open_clip(name: str) -> tuple[FrameIndex, list[ListedPacket], Fraction]:
        path = media.make(name, folder)
        decoder = VideoDecoder(path)
        return decoder.frame_index, *list_packets(path, decoder.stream_index)

    return open_clip


def groups(flags: list[bool]) -> list[list[int]]:
    """Group the numbers 0, 1, ...; a group begins where a flag is set."""
    found: list[list[int]] = []
    for number, starts in enumerate(flags):
        if starts or not found:
            found.append([])
        found[-1].append(number)
    return found


@pytest.mark.parametrize("name", WHOLE + TRIMMED)
def test_frames_and_key_frames_match_packets(name: str, opened: Callable[..., tuple]) -> None:
    index, packets, time_base = opened(name)
    shown = sorted((packet for packet in packets if packet.is_shown), key=lambda packet: packet.pts)
    assert len(index) == len(shown)
    assert index.time_base == time_base
    assert index.pts.tolist() == [packet.pts for packet in shown]
    assert index.pts_seconds.tolist() == [float(packet.pts * time_base) for packet in shown]
    assert index.key_frame_indices.tolist() == [n for n, packet in enumerate(shown) if packet.is_key]


@pytest.mark.parametrize("name", WHOLE + TRIMMED)
def test_gops_go_from_key_frame_to_key_frame(name: str, opened: Callable[..., tuple]) -> None:
    index, packets, _ = opened(name)
    shown = sorted((packet for packet in packets if packet.is_shown), key=lambda packet: packet.pts)
    expected = groups([packet.is_key for packet in shown])
    assert index.gop_start_indices.tolist() == [gop[0] for gop in expected]
    assert index.gop_lengths.tolist() == [len(gop) for gop in expected]


@pytest.mark.parametrize("name", WHOLE)
def test_bytes_of_gop_match_its_packets(name: str, opened: Callable[..., tuple]) -> None:
    index, packets, _ = opened(name)
    expected = [sum(packets[n].size for n in gop) for gop in groups([packet.is_key for packet in packets])]
    assert index.gop_bytes.tolist() == expected


@pytest.mark.parametrize(
    "name", [*TRIMMED, "edit_list_trims_key_frame", "ts_concatenated", "h264_field_pairs_ts", "missing_pts_ts"]
)
def test_bytes_of_gops_sum_to_stream(name: str, opened: Callable[..., tuple]) -> None:
    index, packets, _ = opened(name)
    assert len(index.gop_bytes) == len(index.gop_lengths) == len(index.gop_start_indices)
    assert int(index.gop_lengths.sum()) == len(index)
    assert int(index.gop_bytes.sum()) == sum(packet.size for packet in packets)


@pytest.mark.parametrize("name", ["h264_b_pyramid", "vfr_mkv", "gaps_mp4", "late_start_mkv", "edit_list_both_ends"])
def test_the_frame_played_at_a_time_is_the_last_that_started(name: str, opened: Callable[..., tuple]) -> None:
    index, packets, time_base = opened(name)
    starts = sorted(float(packet.pts * time_base) for packet in packets if packet.is_shown)
    times = [index.begin_seconds + k / 200 * (index.end_seconds - index.begin_seconds) for k in range(200)]
    times += starts + [start - 1e-9 for start in starts[1:]]
    # Floats are compared to half a nanosecond.
    expected = [sum(start <= time + 0.5e-9 for start in starts) - 1 for time in times]
    assert [index.frame_played_at(time) for time in times] == expected
    assert torch.equal(index.frames_played_at(times), torch.tensor(expected))


@given(steps=st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
def test_gops_of_any_table(steps: list[tuple[int, bool]]) -> None:
    pts, keys, now = [], [], 0
    for step, is_key in steps:
        now += step
        pts.append(now)
        keys.append(is_key)
    index = from_table(pts, [1] * len(pts), keys, Fraction(1, 10))
    expected = groups(keys)
    assert index.gop_start_indices.tolist() == [gop[0] for gop in expected]
    assert index.gop_lengths.tolist() == [len(gop) for gop in expected]
    assert index.gop_bytes.tolist() == [-1] * len(expected), "a table of frames says nothing of bytes"


@pytest.mark.parametrize("seconds", [-0.001, 0.5, math.nan, math.inf])
def test_times_outside_the_stream_are_refused(seconds: float) -> None:
    index = from_table([0, 10, 20, 30, 40], [10] * 5, [True] * 5, Fraction(1, 100))
    assert index.frame_played_at(0.499) == 4
    with pytest.raises(OutOfRangeError, match=r"greater than or equal to 0\.0 and less than 0\.5"):
        index.frame_played_at(seconds)
    with pytest.raises(OutOfRangeError):
        index.frames_played_at([0.1, seconds])


def test_times_must_be_numbers() -> None:
    index = from_table([0, 10], [10, 10], [True, False], Fraction(1, 100))
    with pytest.raises(InvalidArgumentError):
        index.frame_played_at("now")  # type: ignore[arg-type]
    assert index.frames_played_at([]).shape == (0,)


def test_index_at_takes_tensors_of_every_type() -> None:
    index = from_table([0, 10, 20], [10] * 3, [True] * 3, Fraction(1, 100))
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        found = index.index_at(torch.tensor([[0.15], [-1.0]], dtype=dtype))
        assert (found.dtype, found.tolist()) == (torch.int64, [[1], [0]])
    assert index.index_at(torch.tensor(1)).tolist() == 2
    assert index.index_at(torch.zeros(0, 2)).shape == (0, 2)
    for unreadable in (torch.tensor(0.1, requires_grad=True), torch.empty(1, device="meta")):
        with pytest.raises(InvalidArgumentError, match="seconds must be a number"):
            index.index_at(unreadable)


def test_times_outside_the_stream_have_a_frame_but_nan_does_not() -> None:
    index = from_table([0, 10, 20], [10] * 3, [True, False, True], Fraction(1, 100))
    assert (index.index_at(-math.inf), index.index_at(math.inf)) == (0, 2)
    assert index.key_frame_seconds_for(math.inf) == 0.2
    for ask in (index.index_at, index.key_frame_seconds_for):
        for nan in (math.nan, np.float32("nan"), torch.tensor([0.1, math.nan]), torch.tensor(math.nan)):
            with pytest.raises(InvalidArgumentError):
                ask(nan)


def test_single_time_gives_single_index(tmp_path: Path) -> None:
    path = tmp_path / "one.mp4"
    write_test_pattern(path, width=64, height=48, num_frames=1)
    assert "1 frame, 1 key frame," in repr(VideoDecoder(path).frame_index)
