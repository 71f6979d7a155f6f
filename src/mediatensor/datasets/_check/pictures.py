"""What times, key frames and small pictures say of a video. Pure: arrays in, findings out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .findings import Finding

__all__ = ["PictureStatistics", "Times", "hash_of_pictures", "shown_span", "spans_of", "still_and_black", "timing"]

#: Stretches shorter than these happen in films: a pause, a fade.
MIN_FROZEN_SECONDS = MIN_BLACK_SECONDS = 2.0
# Levels of 255 on small pictures. Frames that an encoder was given twice differ by less, and any sensor's by more.
_FROZEN_MEAN, _FROZEN_MOST = 0.05, 2.0
_BLACK_MEAN, _BLACK_MOST = 12.0, 24.0
_MIN_GAP_SECONDS, _GAP_STEPS = 0.5, 5.0
# x264 puts a key frame at least every 250 frames, of which a random one costs 125.5.
_MOST_RANDOM_ACCESS_FRAMES = 150.0
_NUM_HASHED, _HASH_ROWS, _HASH_COLUMNS = 8, 8, 8
# Below that contrast a hash would be one of noise.
_MIN_HASHED_CONTRAST = 4.0


@dataclass(frozen=True)
class Times:
    """When frames are shown, and which of them are key frames.

    Attributes:
        pts_seconds: (N,), never decreasing.
        end_seconds: When the last one ends.
        tick_seconds: What the container counts times in.
        gop_lengths: Frames of each group of pictures.
        has_own_pace: Whether each picture has a time of its own, as in a GIF.
    """

    pts_seconds: NDArray[np.float64]
    end_seconds: float
    tick_seconds: float
    gop_lengths: NDArray[np.int64]
    has_own_pace: bool = False


@dataclass(frozen=True)
class PictureStatistics:
    """Numbers of each frame, as levels of 255 on a small gray picture.

    Attributes:
        mean: (N,).
        most: (N,), the brightest.
        mean_change: (N,), the mean difference from the frame before; infinite for the first.
        most_change: (N,), the largest one.
    """

    mean: NDArray[np.float32]
    most: NDArray[np.float32]
    mean_change: NDArray[np.float32]
    most_change: NDArray[np.float32]


def timing(times: Times) -> list[Finding]:
    """Times that repeat or leave gaps, frames that are not evenly spaced, and key frames that are far apart."""
    found = []
    pts, steps = times.pts_seconds, np.diff(times.pts_seconds)
    usual = float(np.median(steps)) if len(steps) else 0.0
    repeated = np.flatnonzero(steps <= 0)
    if len(repeated):
        at = float(pts[repeated[0]])
        found.append(Finding("repeated-times", f"{len(repeated)} frames have the time of the one before", at, at))
    least = np.inf if times.has_own_pace else max(_MIN_GAP_SECONDS, _GAP_STEPS * usual)
    for number in np.flatnonzero(steps > least):
        start, end = float(pts[number]), float(pts[number + 1])
        found.append(Finding("gap", f"no frame for {end - start:.2f} s; the usual step is {usual:.3f} s", start, end))
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
    """How many frames are decoded, on average, to get one: the mean of 1 to L in each group of L.

    >>> random_access_frames(np.array([1, 1])), random_access_frames(np.array([9]))
    (1.0, 5.0)
    """
    total = int(gop_lengths.sum())
    return float((gop_lengths * (gop_lengths + 1) / 2).sum() / total) if total else 0.0


def still_and_black(statistics: PictureStatistics, times: Times) -> list[Finding]:
    """Stretches in which the picture does not change, or is black."""
    if times.has_own_pace:
        return []
    is_black = (statistics.mean < _BLACK_MEAN) & (statistics.most < _BLACK_MOST)
    is_still = (statistics.mean_change < _FROZEN_MEAN) & (statistics.most_change <= _FROZEN_MOST) & ~is_black
    # The frame before the first that does not change is the same picture.
    is_still[:-1] |= is_still[1:] & ~is_black[:-1]
    found = []
    for kind, flags, least in (("frozen", is_still, MIN_FROZEN_SECONDS), ("black", is_black, MIN_BLACK_SECONDS)):
        for first, last in spans_of(flags):
            start, end = shown_span(times, first, last)
            if end - start >= least:
                found.append(Finding(kind, f"{kind} for {end - start:.2f} s", start, end))
    return found


def shown_span(times: Times, first: int, last: int) -> tuple[float, float]:
    """When frames [first, last) begin and end."""
    end = times.end_seconds if last >= len(times.pts_seconds) else float(times.pts_seconds[last])
    return float(times.pts_seconds[first]), end


def spans_of(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The runs [first, last) of true.

    >>> spans_of(np.array([True, False, True, True]))
    [(0, 1), (2, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def hashed_frames(num_frames: int) -> list[int]:
    """Which frames `hash_of_pictures` takes: in the middle of eight equal parts."""
    return [(2 * part + 1) * num_frames // (2 * _NUM_HASHED) for part in range(_NUM_HASHED)]


def hash_of_pictures(pictures: Sequence[NDArray[np.float32]]) -> str | None:
    """A hash that stays nearly the same when a video is encoded anew, in hexadecimal; ``None`` of plain pictures.

    Each bit says whether a part of a picture is brighter than its right neighbour (the difference hash).
    """
    if len(pictures) != _NUM_HASHED or max(float(picture.std()) for picture in pictures) < _MIN_HASHED_CONTRAST:
        return None
    bits = []
    for picture in pictures:
        rows = np.array_split(picture, _HASH_ROWS, axis=0)
        cells = [[part.mean() for part in np.array_split(row, _HASH_COLUMNS + 1, axis=1)] for row in rows]
        bits.append(np.diff(np.array(cells), axis=1) < 0)
    return np.packbits(np.array(bits).ravel()).tobytes().hex()
