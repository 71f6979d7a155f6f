"""Checks of times, key frames and small frames of a video. Pure functions from arrays to findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .findings import Finding

#: Shorter spans are normal in films, for example pauses and fades.
MIN_FROZEN_SECONDS = MIN_BLACK_SECONDS = 2.0
# Levels out of 255 on small frames. Encoded repeats of a frame differ by less; two frames of any sensor differ by more.
_FROZEN_MEAN, _FROZEN_MOST = 0.05, 2.0
_BLACK_MEAN, _BLACK_MOST = 12.0, 24.0
# An encoder refreshes a still at key frames, in one or two frames. On a texture and a text slide in H.264 (crf 23 and
# 38), MPEG-2 and VP9, such frames changed by up to 1.2 levels on average and 7 at most. At crf 48 they changed by 3.5
# and 27, and count as another still. One more line on a slide changes it by 91 at most.
_REFRESH_FRAMES, _MIN_REFRESH_DISTANCE = 2, 8
_REFRESH_MEAN, _REFRESH_MOST = 2.0, 16.0
_MIN_GAP_SECONDS, _GAP_STEPS = 0.5, 5.0
# x264 writes a key frame at least every 250 frames, where a random frame requires decoding 125.5 frames.
_MOST_RANDOM_ACCESS_FRAMES = 150.0
# A repeated frame changes by less than this share of its neighbours' change, because an encoder refines it slightly. If
# the neighbours hardly move, as in drawn or filmed stills, no frame counts as a repeat.
_REPEATED_SHARE, _MIN_MOVING_MEAN = 0.1, 1.0
_NEIGHBOURS, _LEAST_STEP = 12, 0.3
# Longer runs are pauses of the scene. A single run is not a pattern.
_MOST_REPEATED_SECONDS, _MIN_REPEATED_PLACES = 0.5, 2
# After a lost frame the video jumps by two steps, after an inserted frame by one.
_JUMP = 1.4
# Repeats are regular if there are this many, if this share is at the same distance to within a frame, and if they span
# this share of the file.
_MIN_REGULAR, _REGULAR_SHARE, _REGULAR_SPREAD = 5, 0.9, 0.5
_FRAMES_NAMED = 5
_NUM_HASHED, _HASH_ROWS, _HASH_COLUMNS = 8, 8, 8
# A hash of frames with less contrast would describe only noise.
_MIN_HASHED_CONTRAST = 4.0


@dataclass(frozen=True)
class Times:
    """The times of frames, and groups of pictures.

    Attributes:
        pts_seconds: Times of the frames, (N,), never decreasing.
        end_seconds: End of the last frame.
        tick_seconds: Time unit of the container.
        gop_lengths: Number of frames of each group of pictures.
        has_own_pace: Whether each frame has its own duration, as in a GIF.
        stated_fps: Frames per second according to the header.
    """

    pts_seconds: NDArray[np.float64]
    end_seconds: float
    tick_seconds: float
    gop_lengths: NDArray[np.int64]
    has_own_pace: bool = False
    stated_fps: float | None = None


@dataclass(frozen=True)
class PictureStatistics:
    """Statistics of each frame, measured on a small gray copy of it, in levels from 0 to 255.

    Attributes:
        mean: (N,), the mean level.
        most: (N,), the brightest level.
        mean_change: (N,), the mean difference from the previous frame; infinite for the first frame.
        most_change: (N,), the largest difference from the previous frame.
    """

    mean: NDArray[np.float32]
    most: NDArray[np.float32]
    mean_change: NDArray[np.float32]
    most_change: NDArray[np.float32]


def check_times(times: Times) -> list[Finding]:
    """Return findings for repeated times, gaps, uneven frame durations, and distant key frames."""
    found = []
    pts, steps = times.pts_seconds, np.diff(times.pts_seconds)
    usual = float(np.median(steps)) if len(steps) else 0.0
    repeated = np.flatnonzero(steps <= 0)
    if len(repeated):
        first, last = int(repeated[0]) + 1, int(repeated[-1]) + 1
        text = f"{len(repeated)} frames have the time of the one before"
        found.append(Finding("repeated-times", text, **place_of(times, first, last + 1)))
    least = np.inf if times.has_own_pace else max(_MIN_GAP_SECONDS, _GAP_STEPS * usual)
    for number in np.flatnonzero(steps > least):
        start, end = float(pts[number]), float(pts[number + 1])
        text = f"no frame for {end - start:.2f} s; the usual step is {usual:.3f} s"
        found.append(Finding("gap", text, start, end, int(number), int(number) + 2))
    uneven = np.abs(steps - usual) > max(2.0 * times.tick_seconds, 0.05 * usual)
    if uneven.any():
        text = (
            f"{int(uneven.sum())} of {len(steps)} steps are not {usual:.4f} s: {steps.min():.4f} to {steps.max():.4f}"
        )
        found.append(Finding("variable-rate", text))
    cost = random_access_frames(times.gop_lengths)
    if cost > _MOST_RANDOM_ACCESS_FRAMES:
        longest = int(times.gop_lengths.max())
        found.append(
            Finding("sparse-key-frames", f"a random frame costs {cost:.0f}; up to {longest} lie between key frames")
        )
    return found


def random_access_frames(gop_lengths: NDArray[np.int64]) -> float:
    """Return the mean number of frames to decode for one random frame: the mean of 1 to L in each group of L.

    >>> random_access_frames(np.array([1, 1])), random_access_frames(np.array([9]))
    (1.0, 5.0)
    """
    total = int(gop_lengths.sum())
    return float((gop_lengths * (gop_lengths + 1) / 2).sum() / total) if total else 0.0


def find_still_and_black(statistics: PictureStatistics, times: Times) -> list[Finding]:
    """Return findings for spans of unchanged or black frames, with a separate span for each still."""
    if times.has_own_pace:
        return []
    is_black = (statistics.mean < _BLACK_MEAN) & (statistics.most < _BLACK_MOST)
    found = []
    for kind, spans, least in (
        ("frozen", _still_spans(statistics, is_black), MIN_FROZEN_SECONDS),
        ("black", spans_of(is_black), MIN_BLACK_SECONDS),
    ):
        for first, last in spans:
            seconds = _seconds(times, first, last)
            if seconds >= least:
                found.append(Finding(kind, f"{kind} for {seconds:.2f} s", **place_of(times, first, last)))
    return found


def _still_spans(statistics: PictureStatistics, is_black: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the ranges of frames [first, last) that show a still, with the frames in which an encoder refreshed it."""
    change, most = statistics.mean_change, statistics.most_change
    is_same = (change < _FROZEN_MEAN) & (most <= _FROZEN_MOST) & ~is_black
    spans: list[tuple[int, int]] = []
    length_before = 0
    for first, last in spans_of(is_same):
        between = slice(spans[-1][1], first) if spans else slice(0, 0)
        is_refreshed = (
            0 < between.stop - between.start <= _REFRESH_FRAMES
            and min(length_before, last - first) >= _MIN_REFRESH_DISTANCE
            and change[between].max() <= _REFRESH_MEAN
            and most[between].max() <= _REFRESH_MOST
            and not is_black[between].any()
        )
        if is_refreshed:
            spans[-1] = spans[-1][0], last
        else:
            # The still begins one frame before the first unchanged frame.
            spans.append((first if is_black[first - 1] else first - 1, last))
        length_before = last - first
    return spans


def find_repeats(statistics: PictureStatistics, times: Times) -> list[Finding]:
    """Return a finding for frames of a moving video that repeat the previous frame.

    After a repeat that replaces a lost frame, the video jumps, because the scene continued. After a frame that was
    inserted to raise the frame rate, it does not jump. Repeats at regular intervals do not indicate lost frames.
    """
    if times.has_own_pace or len(statistics.mean) < 3:
        return []
    is_same, usual = _find_unchanged(statistics)
    change = statistics.mean_change

    def is_amid_motion(first: int, last: int) -> bool:
        around = [at for at in (first - 1, last) if at < len(change)]
        return all(usual[at] >= _MIN_MOVING_MEAN and _LEAST_STEP * usual[at] <= change[at] < np.inf for at in around)

    runs = [
        (first, last)
        for first, last in spans_of(is_same)
        if _seconds(times, first, last) < _MOST_REPEATED_SECONDS and is_amid_motion(first, last)
    ]
    if len(runs) < _MIN_REPEATED_PLACES:
        return []
    numbers = np.array([number for first, last in runs for number in range(first, last)], np.int64)
    jumps = [change[last] / usual[last] for _, last in runs if last < len(change)]
    jump = float(np.median(jumps)) if jumps else 0.0
    named = ", ".join(map(str, numbers[:_FRAMES_NAMED])) + (" ..." if len(numbers) > _FRAMES_NAMED else "")
    place = place_of(times, int(numbers[0]), int(numbers[-1]) + 1)
    is_regular, step = _measure_regularity(numbers, len(change))
    if jump >= _JUMP and not (is_regular and step < 3):
        text = f"{len(numbers)} of {len(change)} frames repeat the one before, and the picture jumps after them"
        return [Finding("dropped-frames", f"{text}: frames {named}", **place)]
    text = f"{len(numbers)} of {len(change)} frames repeat the one before, without a jump"
    if is_regular:
        seconds = times.end_seconds - float(times.pts_seconds[0])
        rate = len(change) * (1 - 1 / step) / seconds if seconds > 0 else 0.0
        text += f", one in {step:.3g}: the content has about {rate:.4g} frames/s"
    return [Finding("repeated-frames", f"{text}: frames {named}", **place)]


def _find_unchanged(statistics: PictureStatistics) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Return a mask of frames that change far less than their neighbours, and the median change around each frame."""
    change, most = statistics.mean_change, statistics.most_change
    is_moving = change > _FROZEN_MEAN
    is_moving[0] = False
    usual, usual_most = (_median_around(values, is_moving) for values in (change, most))
    is_same = (change <= np.maximum(_FROZEN_MEAN, _REPEATED_SHARE * usual)) & (
        most <= np.maximum(_FROZEN_MOST, _REPEATED_SHARE * usual_most)
    )
    # Compute the median again without repeats that seemed to move because the encoder refined them.
    return is_same, _median_around(change, is_moving & ~is_same)


def _median_around(values: NDArray[np.float32], is_wanted: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return for each frame the median of the wanted values among its neighbours; 0 if less than a third are wanted."""
    width = 2 * _NEIGHBOURS + 1
    padded = np.pad(np.where(is_wanted, values, np.inf), _NEIGHBOURS, constant_values=np.inf)
    inside = np.pad(np.ones(len(values), bool), _NEIGHBOURS)
    ordered = np.sort(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)
    counts = np.isfinite(ordered).sum(1)
    present = np.lib.stride_tricks.sliding_window_view(inside, width).sum(1)
    medians = ordered[np.arange(len(values)), np.maximum(counts - 1, 0) // 2]
    result: NDArray[np.float32] = np.where(3 * counts >= present, medians, 0.0).astype(np.float32)
    return result


def _measure_regularity(numbers: NDArray[np.int64], num_frames: int) -> tuple[bool, float]:
    """Return whether repeated frames are at regular distances throughout the file, and their mean distance."""
    if len(numbers) < _MIN_REGULAR:
        return False, float(num_frames)
    steps = np.diff(numbers)
    lowest = int(np.floor(steps.mean()))
    is_usual = (steps >= lowest) & (steps <= lowest + 1)
    is_all_over = numbers[-1] - numbers[0] >= _REGULAR_SPREAD * num_frames
    return bool(is_all_over and is_usual.mean() >= _REGULAR_SHARE), float(steps.mean())


def place_of(times: Times, first: int, last: int) -> dict[str, Any]:
    """Return the range of frames [first, last) and its times, as arguments of `Finding`."""
    end = times.end_seconds if last >= len(times.pts_seconds) else float(times.pts_seconds[last])
    return {
        "start_seconds": float(times.pts_seconds[first]),
        "end_seconds": end,
        "start_frame": first,
        "end_frame": last,
    }


def _seconds(times: Times, first: int, last: int) -> float:
    place = place_of(times, first, last)
    return float(place["end_seconds"] - place["start_seconds"])


def spans_of(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the runs [first, last) of true values.

    >>> spans_of(np.array([True, False, True, True]))
    [(0, 1), (2, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def hashed_frames(num_frames: int) -> list[int]:
    """Return the frames for `hash_of_pictures`: the middle frames of eight equal parts."""
    return [(2 * part + 1) * num_frames // (2 * _NUM_HASHED) for part in range(_NUM_HASHED)]


def hash_of_pictures(pictures: Sequence[NDArray[np.float32]]) -> str | None:
    """Return a hexadecimal hash of frames, almost the same in another encoding; ``None`` if the frames lack contrast.

    Each bit is 1 if a part of a frame is brighter than its right neighbour (difference hash).
    """
    if len(pictures) != _NUM_HASHED or max(float(picture.std()) for picture in pictures) < _MIN_HASHED_CONTRAST:
        return None
    bits = []
    for picture in pictures:
        rows = np.array_split(picture, _HASH_ROWS, axis=0)
        cells = [[part.mean() for part in np.array_split(row, _HASH_COLUMNS + 1, axis=1)] for row in rows]
        bits.append(np.diff(np.array(cells), axis=1) < 0)
    return np.packbits(np.array(bits).ravel()).tobytes().hex()
