"""Where a picture has come to rest in another state than before: text that appeared shows there.

Text that is drawn into a film stands still over a picture that moves. Its strokes are edges that stay the same from one
moment to the next, and that were not there at the last look. What moves does not come to rest, and a picture that rests
does not change: of both, nothing has to be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Band", "ChangeWatch"]

Gray = npt.NDArray[np.uint8]

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
_UNSEEN = -1000  # differs from every brightness
"""Rows of cells above and below that are looked at, too."""


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
        self._before: npt.NDArray[np.int16] | None = None
        self._looked_at: npt.NDArray[np.int16] | None = None

    def see(self, luma: Gray) -> list[Band]:
        """Take the next picture.

        Args:
            luma: (H, W), some tenths of a second after the one before.

        Returns:
            The bands in which text may have appeared since they were last looked at, from top to bottom.
        """
        small = luma[:: self._step, :: self._step].astype(np.int16)
        before, self._before = self._before, small
        if before is None or self._looked_at is None or before.shape != small.shape:
            self._looked_at = np.full_like(small, _UNSEEN)
            return []
        news = np.abs(small - self._looked_at) > CHANGED
        news &= np.abs(small - before) <= AT_REST
        edges = np.zeros_like(news)
        edges[:, 1:-1] = np.abs(small[:, 2:] - small[:, :-2]) > EDGE
        news &= edges
        bands = self._bands(news)
        for band in bands:
            rows = slice(int(band.top * len(small)), int(np.ceil(band.bottom * len(small))))
            self._looked_at[rows] = small[rows]
        return bands

    def forget(self, box: Sequence[float]) -> None:
        """Take a part of the picture for not looked at: text in it has gone, and another one may stand there already.

        Args:
            box: xmin, ymin, xmax, ymax, relative.
        """
        if self._before is None or self._looked_at is None:
            return
        height, width = self._before.shape
        rows = slice(int(box[1] * height), int(np.ceil(box[3] * height)))
        columns = slice(int(box[0] * width), int(np.ceil(box[2] * width)))
        self._looked_at[rows, columns] = _UNSEEN

    def _bands(self, news: npt.NDArray[np.bool_]) -> list[Band]:
        height, width = news.shape
        rows, columns = -(-height // CELL), -(-width // CELL)
        padded = np.zeros((rows * CELL, columns * CELL), np.uint8)
        padded[:height, :width] = news
        cells = padded.reshape(rows, CELL, columns, CELL).sum(axis=(1, 3), dtype=np.int32)
        # Text stands on cells of two rows where its line lies across them.
        pairs = cells + np.concatenate([cells[1:], np.zeros((1, columns), np.int32)])
        sums = np.cumsum(np.pad(pairs, ((0, 0), (1, 0))), axis=1)
        window = min(WINDOW, columns)
        hits = (sums[:, window:] - sums[:, :-window]).max(axis=1) >= EDGES_IN_WINDOW
        marked = np.zeros(rows + 2 * MARGIN_CELLS, bool)
        for shift in range(2 * MARGIN_CELLS + 2):  # a hit is of its row and the next
            marked[shift : shift + rows] |= hits[: len(marked) - shift]
        marked = marked[MARGIN_CELLS : MARGIN_CELLS + rows]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
        return [
            Band(top * CELL / height, min(bottom * CELL / height, 1.0)) for top, bottom in edges.reshape(-1, 2).tolist()
        ]
