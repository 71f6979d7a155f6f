"""Is every frame that a `VideoDecoder` gives, however it is asked for, the frame of a plain decode?"""

from __future__ import annotations

import bisect
import random
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import av
import numpy as np
import pytest
from torch import Tensor

import media
from mediatensor.decoders import VideoDecoder
from oracles import opened_stream, times_shown, undetermined_frames, upright_frames

# How many pixels a check may decode, roughly: it asks for fewer frames where each costs more.
_PIXELS = 8e7
# Clips of at most this many frames are short enough for many decoders.
_FEW_FRAMES = 40


@dataclass(frozen=True)
class Truth:
    """The frames of a plain decode in the order in which the codec gives them."""

    path: Path
    stream_index: int | None
    pts: list[int | None]  # in the stream's time base
    shapes: list[tuple[int, ...]]
    checksums: list[int]  # CRC-32 of each frame's RGB pixels
    pts_seconds: list[float | None]  # `None` if the codec gives none, or none that can be right
    num_probes: int  # how many frames a check may ask for one by one
    undetermined: frozenset[int] = frozenset()  # pixels depend on old memory: only their times are compared

    def __len__(self) -> int:
        return len(self.pts)

    @cached_property
    def random(self) -> random.Random:
        return random.Random(self.path.name)

    def open(self, num_ffmpeg_threads: int | None = 1) -> VideoDecoder:
        return VideoDecoder(
            self.path,
            stream_index=self.stream_index,
            dimension_order="NHWC",
            num_ffmpeg_threads=num_ffmpeg_threads,
            on_size_change="raise",
        )

    def some(self, count: int | None = None) -> list[int]:
        """Different indices in random order, as many as are affordable; the first and the last are among them."""
        count = min(len(self), count or self.num_probes)
        ends = [0, len(self) - 1][: len(self)]
        others = self.random.sample(range(1, max(1, len(self) - 1)), max(0, count - len(ends)))
        chosen = [*ends, *others]
        self.random.shuffle(chosen)
        return chosen


def find_truth(path: Path, stream_index: int | None = None) -> Truth:
    """Decode the file from its first packet to its last."""
    pts, shapes, checksums = [], [], []
    for time, rgb in upright_frames(path, stream_index):
        pts.append(time)
        shapes.append(rgb.shape)
        checksums.append(zlib.crc32(rgb))
    pts = times_shown(path, stream_index, pts)
    by_chance = undetermined_frames(path, stream_index) if path.stem in media.LEFT_TO_MEMORY else set()
    time_base, num_key_packets = _facts(path, stream_index)
    pixels_per_access = np.prod(shapes[0][:2]) * len(pts) / max(1, num_key_packets)
    return Truth(
        path,
        stream_index,
        pts,
        shapes,
        checksums,
        [None if time is None else time * time_base.numerator / time_base.denominator for time in pts],
        int(min(40, max(6, _PIXELS / pixels_per_access))),
        frozenset(by_chance),
    )


def _facts(path: Path, stream_index: int | None) -> tuple[av.AVRational, int]:
    """(time base, number of packets flagged as key frames)."""
    with opened_stream(path, "video", stream_index) as (container, stream):
        num_key_packets = 0
        with suppress(av.FFmpegError):  # a broken tail
            for packet in container.demux(stream):
                num_key_packets += packet.is_keyframe
        return stream.time_base, num_key_packets


def assert_same(truth: Truth, index: int, data: Tensor, pts_seconds: float | Tensor | None = None) -> None:
    """Fail unless ``data`` is frame ``index`` bit for bit, at the right time; say which frame it is instead."""
    pixels = np.ascontiguousarray(data.numpy())
    assert pixels.shape == truth.shapes[index], f"frame {index} has the wrong shape"
    checksum = zlib.crc32(pixels)
    if checksum != truth.checksums[index] and index not in truth.undetermined:
        same = [i for i, other in enumerate(truth.checksums) if other == checksum]
        pytest.fail(f"asked for frame {index} of {len(truth)}, got {f'frame {same}' if same else 'pixels of no frame'}")
    expected = truth.pts_seconds[index]
    if pts_seconds is not None and expected is not None:
        assert float(pts_seconds) == expected, f"frame {index} has the wrong time"


def assert_all_same(truth: Truth, indices: Sequence[int], data: Tensor, pts_seconds: Tensor | None = None) -> None:
    assert len(data) == len(indices)
    for row, index in enumerate(indices):
        assert_same(truth, index, data[row], None if pts_seconds is None else pts_seconds[row])


def check_length_and_times(truth: Truth) -> None:
    with truth.open() as decoder:
        assert len(decoder) == len(truth)
        times = decoder.frame_index.pts_seconds.tolist()
        assert len(times) == len(truth)
        assert times == sorted(times)
        wrong = [i for i, true in enumerate(truth.pts_seconds) if true not in (None, times[i])]
        assert not wrong, f"frames {wrong[:5]} have the wrong time in the index"
        assert decoder.metadata.num_frames == len(truth)
        assert (decoder.frame_index.duration_seconds >= 0).all()


def check_first_contact(truth: Truth) -> None:
    """A decoder that is asked for one frame and nothing else, with one thread or with three.

    Which frames, and with how many threads each, is drawn by lot.
    """
    count = 6
    if len(truth) <= _FEW_FRAMES:
        is_damaged = truth.path.stem in media.DAMAGED_CLIPS
        count = min(truth.num_probes, len(truth) // (2 if is_damaged else 3) + 1)
    for number, index in enumerate(truth.some(count)):
        with truth.open(num_ffmpeg_threads=3 if number % 2 else 1) as decoder:
            frame = decoder.get_frame_at(index)
            assert_same(truth, index, frame.data, frame.pts_seconds)


def check_random_order(truth: Truth) -> None:
    with truth.open() as decoder:
        for index in truth.some():
            frame = decoder.get_frame_at(index)
            assert_same(truth, index, frame.data, frame.pts_seconds)


def check_random_pairs(truth: Truth) -> None:
    """One frame, then one near it: with and without a seek."""
    last = len(truth) - 1
    with truth.open(num_ffmpeg_threads=3) as decoder:
        for first in truth.some(max(3, truth.num_probes // 2)):
            for index in (first, min(last, max(0, first + truth.random.randint(-20, 20)))):
                frame = decoder.get_frame_at(index)
                assert_same(truth, index, frame.data, frame.pts_seconds)


def check_backwards(truth: Truth) -> None:
    with truth.open() as decoder:
        last_ones = range(len(truth) - 1, max(-1, len(truth) - 1 - 3 * truth.num_probes), -1)
        for index, data in zip(last_ones, reversed(decoder), strict=False):
            assert_same(truth, index, data)
        for index in range(len(truth) - 1, max(-1, len(truth) - 1 - truth.num_probes // 2), -1):
            assert_same(truth, index, decoder[index])


def check_iteration(truth: Truth) -> None:
    """From start to end, with another frame in between."""
    with truth.open() as decoder:
        count = 0
        for index, data in enumerate(decoder):
            assert_same(truth, index, data)
            if index == len(truth) // 2:
                assert_same(truth, 0, decoder[0])
            count += 1
        assert count == len(truth)


def check_one_after_the_other(truth: Truth) -> None:
    """Neighbours in order, from the beginning and from further on. Each frame is the caller's own, to write into."""
    with truth.open() as decoder:
        for start in (0, 2 * len(truth) // 3):
            indices = range(start, min(len(truth), start + truth.num_probes))
            held = []
            for index in indices:
                held.append(decoder.get_frame_at(index))
                decoder[index].zero_()
            for index, frame in zip(indices, held, strict=True):
                assert_same(truth, index, frame.data, frame.pts_seconds)


def check_batches(truth: Truth) -> None:
    """Shuffled indices with duplicates and negative ones."""
    chosen = truth.some(max(4, truth.num_probes // 2))
    shuffled = [*chosen, *chosen[:2], chosen[0]]
    truth.random.shuffle(shuffled)
    with truth.open() as decoder:
        for indices in (shuffled, sorted(shuffled), sorted(shuffled, reverse=True)):
            batch = decoder.get_frames_at([i - len(truth) if i % 3 == 0 else i for i in indices])
            assert_all_same(truth, indices, batch.data, batch.pts_seconds)


def check_slices(truth: Truth) -> None:
    count = len(truth)
    reach = truth.num_probes  # memory is bounded as well
    with truth.open() as decoder:
        third = count // 3
        for start, stop, step in [(0, reach, 1), (third, third + reach, 4), (-5, None, 2), (1, -1, max(3, count // 8))]:
            indices = list(range(count)[start:stop:step])
            assert_all_same(truth, indices, decoder[start:stop:step])
            batch = decoder.get_frames_in_range(start, count if stop is None else stop, step)
            assert_all_same(truth, indices, batch.data, batch.pts_seconds)


def check_times(truth: Truth) -> None:
    """The frame shown at t is the last that started: at its pts, in the middle, and a nanosecond before the next."""
    with truth.open() as decoder:
        # Where the stream gives no times, the decoder's own count.
        starts = [
            made_up if true is None else true
            for true, made_up in zip(truth.pts_seconds, decoder.frame_index.pts_seconds.tolist(), strict=True)
        ]
        queries = []
        for index in truth.some(max(4, truth.num_probes // 3)):
            queries.append(starts[index])
            if index + 1 < len(truth) and starts[index + 1] > starts[index]:
                queries += [
                    (starts[index] + starts[index + 1]) / 2,
                    starts[index + 1] - 1e-9,
                ]
        shown = [bisect.bisect_right(starts, seconds) - 1 for seconds in queries]
        for seconds, index in zip(queries, shown, strict=True):
            frame = decoder.get_frame_played_at(seconds)
            assert_same(truth, index, frame.data, frame.pts_seconds)
        few = slice(0, 2 * truth.num_probes)
        batch = decoder.get_frames_played_at(queries[few])
        assert_all_same(truth, shown[few], batch.data, batch.pts_seconds)


def check_clip_after_end(truth: Truth) -> None:
    """After the codec was drained, frames of the beginning and the middle, which it must not take from before."""
    reach = min(len(truth), 8)
    with truth.open(num_ffmpeg_threads=2) as decoder:
        for start in (0, len(truth) // 2, 0):
            assert_same(truth, len(truth) - 1, decoder[-1])
            stop = min(len(truth), start + reach)
            batch = decoder.get_frames_in_range(start, stop)
            assert_all_same(truth, range(start, stop), batch.data, batch.pts_seconds)


CHECKS: list[Callable[[Truth], None]] = [
    check_length_and_times,
    check_first_contact,
    check_random_order,
    check_random_pairs,
    check_backwards,
    check_iteration,
    check_one_after_the_other,
    check_batches,
    check_slices,
    check_times,
    check_clip_after_end,
]
