"""Compute the signature of a video, with which `copies.find_shared_parts` finds videos that share a part.

A signature has five samples per second. Each sample is a grid of 60 cells of the frame without its black bars. Cells do
not depend on the brightness and contrast of the video.
"""

from __future__ import annotations

import base64
import binascii
import zlib

import numpy as np
from numpy.typing import NDArray

SAMPLES_PER_SECOND = 5
NUM_ROWS, NUM_COLUMNS = 6, 10
NUM_CELLS = NUM_ROWS * NUM_COLUMNS
# Twelve hours. Later frames are not compared. This limits the size of a signature.
_MAX_SAMPLES = 12 * 3600 * SAMPLES_PER_SECOND
# Where there is no frame, the previous one counts for at most two seconds.
_MAX_HELD_SAMPLES = 2 * SAMPLES_PER_SECOND
# Bars are found in the first ten minutes, which bounds the memory for frames.
_NUM_SAMPLES_FOR_BARS = 600 * SAMPLES_PER_SECOND
_MAX_BAR_LEVEL, _MAX_BAR_SPREAD, _MAX_BAR_SHARE = 40.0, 4.0, 0.4
# A cell is stored as its distance from the median of the cells, in units of a 32nd of their spread.
UNITS, _MIN_SPREAD = 32, 6.0


class SignatureMaker:
    """Computes the signature of a video from small gray frames, which `add` takes in order."""

    def __init__(self) -> None:
        self._first_seconds: float | None = None
        self._open: dict[int, tuple[NDArray[np.float32], float]] = {}
        self._pictures: dict[int, NDArray[np.float32]] = {}
        self._cells: dict[int, NDArray[np.int8]] = {}
        self._weights: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
        self._spread = _MIN_SPREAD

    def add(self, pts_seconds: NDArray[np.float64], frames: NDArray[np.float32]) -> None:
        """Add frames of shape (N, H, W), with values from 0 to 255.

        A sample is a weighted mean of the frames less than a step from its time. A frame at the time of the sample has
        the weight 1, and one step away it has the weight 0. So a signature hardly depends on the frame rate.
        """
        if self._first_seconds is None:
            self._first_seconds = float(pts_seconds[0])
        steps = (pts_seconds - self._first_seconds) * SAMPLES_PER_SECOND
        is_early = (steps >= 0) & (steps < _MAX_SAMPLES - 1)
        steps, frames = steps[is_early], frames[is_early]
        if not len(steps):
            return
        before = np.floor(steps).astype(np.int64)
        numbers, place = np.unique(np.concatenate([before, before + 1]), return_inverse=True)
        share = (steps - before).astype(np.float32)
        weights = np.zeros((len(numbers), len(steps)), np.float32)
        columns = np.arange(len(steps))
        weights[place[: len(steps)], columns] = 1 - share
        weights[place[len(steps) :], columns] = share
        sums = (weights @ frames.reshape(len(frames), -1)).reshape(-1, *frames.shape[1:])
        for number, total, weight in zip(numbers.tolist(), sums, weights.sum(1).tolist(), strict=True):
            old = self._open.get(number)
            self._open[number] = (total, weight) if old is None else (old[0] + total, old[1] + weight)
        self._close(int(before[-1]))

    def finish(self) -> str | None:
        """Return the signature as text, or ``None`` if there are no frames."""
        self._close(_MAX_SAMPLES)
        self._reduce()
        if not self._cells:
            return None
        numbers = np.array(list(self._cells))
        last = np.repeat(numbers, np.diff(numbers, append=numbers[-1] + 1))
        cells = np.stack(list(self._cells.values()))
        held = np.arange(len(last)) - last
        rows = cells[np.searchsorted(numbers, last)]
        rows[held > _MAX_HELD_SAMPLES] = 0
        return _pack(rows)

    def _close(self, number: int) -> None:
        """Finish the samples before a number, to which no more frames will be added."""
        for sample in [sample for sample in self._open if sample < number]:
            total, weight = self._open.pop(sample)
            if weight > 0:
                self._pictures[sample] = total / weight
        if self._weights is not None or len(self._pictures) >= _NUM_SAMPLES_FOR_BARS:
            self._reduce()

    def _reduce(self) -> None:
        """Reduce the finished samples to cells."""
        if not self._pictures:
            return
        pictures = np.stack(list(self._pictures.values()))
        if self._weights is None:
            top, bottom = _find_bars(pictures)
            left, right = _find_bars(pictures.transpose(0, 2, 1))
            self._weights = (
                _mean_weights(pictures.shape[1], top, bottom, NUM_ROWS),
                _mean_weights(pictures.shape[2], left, right, NUM_COLUMNS),
            )
            self._spread = max(float(np.median(self._cells_of(pictures).std(1))), _MIN_SPREAD)
        # The median hardly changes if a caption or a logo covers a few cells.
        cells = self._cells_of(pictures)
        cells = (cells - np.median(cells, axis=1, keepdims=True)) * (UNITS / self._spread)
        self._cells.update(zip(self._pictures, np.clip(np.round(cells), -127, 127).astype(np.int8), strict=True))
        self._pictures.clear()

    def _cells_of(self, pictures: NDArray[np.float32]) -> NDArray[np.float32]:
        rows, columns = self._weights or (np.empty(0), np.empty(0))
        cells: NDArray[np.float32] = np.einsum("rh,nhw,cw->nrc", rows, pictures, columns, optimize=True)
        return cells.reshape(len(pictures), -1)


def _find_bars(pictures: NDArray[np.float32]) -> tuple[int, int]:
    """Return the range [first, last) of rows that are not black bars at the top and bottom of frames (N, H, W)."""
    num_rows = pictures.shape[1]
    # A subtitle in a bar covers only some of its pixels for some of the time.
    levels = np.percentile(pictures, (5, 90), axis=(0, 2))
    is_bar = (levels[1] <= _MAX_BAR_LEVEL) & (levels[1] - levels[0] <= _MAX_BAR_SPREAD)
    inside = np.flatnonzero(~is_bar)
    if not len(inside):
        return 0, num_rows
    # The row next to a bar can be a mixture of both.
    first, last = int(inside[0]), int(inside[-1]) + 1
    first, last = first + (first > 0), last - (last < num_rows)
    limit = int(_MAX_BAR_SHARE * num_rows)
    return min(first, limit), max(last, num_rows - limit)


def _mean_weights(size: int, first: int, last: int, count: int) -> NDArray[np.float32]:
    """Return weights (count, size) for the means of ``count`` equal parts of the pixels from ``first`` to ``last``."""
    edges = np.linspace(first, last, count + 1)[:, None]
    pixels = np.arange(size)
    covered = np.clip(edges[1:] - pixels, 0, 1) - np.clip(edges[:-1] - pixels, 0, 1)
    weights: NDArray[np.float32] = (covered * count / (last - first)).astype(np.float32)
    return weights


def _pack(cells: NDArray[np.int8]) -> str:
    changes = np.diff(cells.view(np.uint8), axis=0, prepend=np.uint8(0))
    return base64.b64encode(zlib.compress(changes.tobytes(), 6)).decode()


def cells_of(signature: str) -> NDArray[np.int8]:
    """Return the samples of a signature: cells of shape (N, 60), in units of 1/`UNITS`.

    A damaged signature has no samples.
    """
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(signature), _MAX_SAMPLES * NUM_CELLS)
    except (binascii.Error, zlib.error):
        data = b""
    whole = len(data) // NUM_CELLS * NUM_CELLS
    changes = np.frombuffer(data[:whole], np.uint8).reshape(-1, NUM_CELLS)
    cells: NDArray[np.int8] = np.cumsum(changes, axis=0, dtype=np.uint8).view(np.int8)
    return cells
