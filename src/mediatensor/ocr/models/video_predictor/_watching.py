"""Where a picture has come to rest in another state than before: text that appeared shows there.

Text that is drawn into a film stands still over a picture that moves. Its strokes are edges that stay the same from one
moment to the next, and that were not there at the last look. What moves does not come to rest, and a picture that rests
does not change: of both, nothing has to be looked at.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._presence import Gray

__all__ = ["AT_REST", "CELL", "EDGE", "Band", "ChangeWatch", "count_in_cells"]

SMALL_HEIGHT = 360
"""The height in pixels of the small pictures that are compared, about."""
AT_REST = 12
"""The most by which a pixel at rest differs from one moment to the next, of 255."""
CHANGED = 32
"""A pixel that has changed differs by more from what it was at the last look."""
EDGE = 36
"""Strokes differ by more from what is beside them."""
CELL = 8
"""Pixels on each side of the cells in which edges are counted."""
EDGES_IN_WINDOW = 36
"""The fewest pixels of edges, in a window of WINDOW cells on a row, that may be text."""
WINDOW = 5
MARGIN_CELLS = 3
"""Rows of cells above and below that are looked at, too."""
HESITANT_COMPARISONS = 2
"""For so many comparisons after a look at a part of the picture, only what rests there for twice as long is news.

Pictures that move by turns would be looked at again and again; a text that appears there waits no longer than that.
"""
KNOWN_MARGIN = 5
"""The outlines of known lines reach beyond their boxes by up to 1 / KNOWN_MARGIN of their height."""
_UNSEEN = -1000  # differs from every brightness


@dataclass(frozen=True)
class Band:
    """Rows of a picture, as fractions of its height."""

    top: float
    bottom: float


class ChangeWatch:
    """Compares pictures with the one before and with what was there at the last look.

    Args:
        height: Of the pictures that will be shown, in pixels.
    """

    def __init__(self, height: int) -> None:
        self._step = max(1, round(height / SMALL_HEIGHT))
        self._earlier: npt.NDArray[np.int16] | None = None
        self._before: npt.NDArray[np.int16] | None = None
        self._looked_at: npt.NDArray[np.int16] | None = None
        #: The parts of the picture in which text was looked for last, of each of the last comparisons.
        self._searched: deque[list[tuple[slice, slice]]] = deque(maxlen=HESITANT_COMPARISONS)

    def see(self, luma: Gray, known: Sequence[Sequence[int]] = ()) -> list[Band]:
        """Take the next picture.

        Args:
            luma: (H, W), some tenths of a second after the one before.
            known: left, top, right, bottom, in pixels, of lines that the picture shows and that are known already.

        Returns:
            The bands in which text may have appeared since they were last looked at, from top to bottom.
        """
        small = luma[:: self._step, :: self._step].astype(np.int16)
        earlier, before = self._earlier, self._before
        self._earlier, self._before = before, small
        if before is None or self._looked_at is None or before.shape != small.shape:
            self._looked_at = np.full_like(small, _UNSEEN)
            return []
        news = np.abs(small - self._looked_at) > CHANGED
        news &= np.abs(small - before) <= AT_REST
        if earlier is not None and earlier.shape == small.shape:
            for part in itertools.chain(*self._searched):
                news[part] &= np.abs(small[part] - earlier[part]) <= AT_REST
        edges = np.zeros_like(news)
        edges[:, 1:-1] = np.abs(small[:, 2:] - small[:, :-2]) > EDGE
        news &= edges
        for left, top, right, bottom in known:
            pad = (bottom - top) // KNOWN_MARGIN
            rows = slice(max(top - pad, 0) // self._step, (bottom + pad) // self._step + 1)
            news[rows, max(left - pad, 0) // self._step : (right + pad) // self._step + 1] = False
        bands = self._bands(news, [(top / len(luma), bottom / len(luma)) for _, top, _, bottom in known])
        parts = [_pixels((0, band.top, 1, band.bottom), *small.shape) for band in bands]
        for part in parts:
            self._looked_at[part] = small[part]
        self._searched.append(parts)
        return bands

    def forget(self, box: Sequence[float]) -> None:
        """Take a part of the picture for not looked at: text in it has gone, and another one may stand there already.

        Args:
            box: xmin, ymin, xmax, ymax, relative.
        """
        if self._before is None or self._looked_at is None:
            return
        gone = _pixels(box, *self._before.shape)
        self._looked_at[gone] = _UNSEEN
        for parts in self._searched:
            parts[:] = [part for part in parts if not all(map(_overlap, part, gone))]

    def _bands(self, news: npt.NDArray[np.bool_], known: Sequence[tuple[float, float]]) -> list[Band]:
        height = len(news)
        cells = count_in_cells(news)
        rows, columns = cells.shape
        # Text stands on cells of two rows where its line lies across them.
        pairs = cells + np.concatenate([cells[1:], np.zeros((1, columns), np.int32)])
        sums = np.cumsum(np.pad(pairs, ((0, 0), (1, 0))), axis=1)
        window = min(WINDOW, columns)
        hits = (sums[:, window:] - sums[:, :-window]).max(axis=1) >= EDGES_IN_WINDOW
        marked = np.zeros(rows + 2 * MARGIN_CELLS, bool)
        for shift in range(2 * MARGIN_CELLS + 2):  # a hit is of its row and the next
            marked[shift : shift + rows] |= hits[: len(marked) - shift]
        marked = marked[MARGIN_CELLS : MARGIN_CELLS + rows]
        # No known line is cut in two: its parts would be taken for other lines.
        spans = sorted(
            (max(int(above * height) // CELL - 1, 0), int(below * height) // CELL + 2) for above, below in known
        )
        for first, end in (*spans, *reversed(spans)):
            marked[first:end] |= marked[first:end].any()
        edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
        return [
            Band(top * CELL / height, min(bottom * CELL / height, 1.0)) for top, bottom in edges.reshape(-1, 2).tolist()
        ]


def count_in_cells(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    """How many pixels of each cell are marked: (rows, columns) of cells, of which the last may be cut off."""
    height, width = mask.shape
    rows, columns = -(-height // CELL), -(-width // CELL)
    padded = np.zeros((rows * CELL, columns * CELL), np.uint8)
    padded[:height, :width] = mask
    counts: npt.NDArray[np.int32] = padded.reshape(rows, CELL, columns, CELL).sum(axis=(1, 3), dtype=np.int32)
    return counts


def _pixels(box: Sequence[float], height: int, width: int) -> tuple[slice, slice]:
    """Rows and columns of a relative box in a picture."""
    left, top, right, bottom = box
    return (
        slice(int(top * height), int(np.ceil(bottom * height))),
        slice(int(left * width), int(np.ceil(right * width))),
    )


def _overlap(one: slice, other: slice) -> bool:
    return bool(one.start < other.stop and other.start < one.stop)
