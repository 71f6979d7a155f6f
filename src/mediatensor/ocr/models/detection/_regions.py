"""Connected regions of a bitmap, as horizontal runs of pixels.

Everything the post-processing asks of a region (bounding box, outline, mean of a map inside) follows from its runs,
with array operations over all regions at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....errors import MissingDependencyError

__all__ = ["MAX_REGIONS", "Regions", "find_regions", "open_bitmap"]

# More regions than any page has words. A map of noise has ten times as many, and every later stage would pay for each
# of them; beyond the limit the largest are kept.
MAX_REGIONS = 20_000


@dataclass(frozen=True)
class Regions:
    """Runs of pixels (R,) grouped by region; regions in the order their first pixels come in, row by row.

    Args:
        region: Region that each run belongs to, ascending from 0, int64.
        row: Row of each run, ascending within a region, int64.
        left: First column of each run, int64.
        right: Last column of each run, inclusive, int64.
        starts: Index of the first run of each region, int64 (N,).
    """

    region: NDArray[np.int64]
    row: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def bounds(self) -> NDArray[np.int64]:
        """First column, first row, last column, last row of each region (inclusive), int64 (N, 4)."""
        if not len(self):
            return np.zeros((0, 4), dtype=np.int64)
        ends = np.append(self.starts[1:], len(self.row)) - 1
        left = np.minimum.reduceat(self.left, self.starts)
        right = np.maximum.reduceat(self.right, self.starts)
        return np.stack([left, self.row[self.starts], right, self.row[ends]], axis=1)

    def means(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Mean of ``values`` (H, W) over the pixels of each region, float64 (N,)."""
        if not len(self):
            return np.zeros(0)
        before = np.zeros((values.shape[0], values.shape[1] + 1))
        np.cumsum(values, axis=1, dtype=np.float64, out=before[:, 1:])
        sums = before[self.row, self.right + 1] - before[self.row, self.left]
        pixels = np.add.reduceat(self.right - self.left + 1, self.starts)
        means: NDArray[np.float64] = np.add.reduceat(sums, self.starts) / pixels
        return means

    def select(self, keep: NDArray[np.bool_]) -> Regions:
        """The regions where ``keep`` (N,) is true, in the same order."""
        runs = keep[self.region]
        renumbered = np.cumsum(keep) - 1
        return _group(renumbered[self.region[runs]], self.row[runs], self.left[runs], self.right[runs])

    def outline(self) -> Regions:
        """One run per row and region, from the first to the last pixel of the region in that row."""
        if not len(self):
            return self
        new_row = np.diff(self.row, prepend=-1) != 0
        new_row[self.starts] = True
        first = np.flatnonzero(new_row)
        left = np.minimum.reduceat(self.left, first)
        right = np.maximum.reduceat(self.right, first)
        return _group(self.region[first], self.row[first], left, right)


def open_bitmap(bitmap: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Morphological opening of ``bitmap`` (H, W) by a 3 x 3 square: what no such square fits into disappears.

    Pixels outside count as set when eroding and as unset when dilating, so text that touches the border is kept.
    """
    eroded = bitmap.copy()
    for target, source in _neighbours(eroded, bitmap):
        target &= source
    vertical = eroded.copy()
    for target, source in _neighbours(vertical.T, eroded.T):
        target &= source
    grown = vertical.copy()
    for target, source in _neighbours(grown.T, vertical.T):
        target |= source
    opened = grown.copy()
    for target, source in _neighbours(opened, grown):
        target |= source
    return opened


def find_regions(bitmap: NDArray[np.bool_]) -> Regions:
    """The outer regions of ``bitmap`` (H, W): 8-connected, holes filled, nothing reported inside a hole.

    At most :data:`MAX_REGIONS`; of more, the largest.

    Raises:
        MissingDependencyError: if SciPy is not installed.
    """
    try:
        from scipy import ndimage
    except ImportError as error:
        raise MissingDependencyError(
            'Finding text regions needs SciPy: pip install "mediatensor[ocr]" brings it.'
        ) from error
    # Pixels that are unset but not part of the outside are holes. The margin joins what is outside into one region.
    background, pieces = ndimage.label(np.pad(~bitmap, 1, constant_values=True))
    filled = bitmap if pieces == 1 else background[1:-1, 1:-1] != background[0, 0]
    labels, count = ndimage.label(filled, structure=np.ones((3, 3), dtype=bool))
    change = np.diff(filled.astype(np.int8), axis=1, prepend=0, append=0)
    row, left = np.nonzero(change == 1)
    right = np.nonzero(change == -1)[1] - 1
    region = labels[row, left].astype(np.int64) - 1
    order = np.argsort(region, kind="stable")
    regions = _group(region[order], row[order], left[order], right[order])
    if count > MAX_REGIONS:
        pixels = np.add.reduceat(regions.right - regions.left + 1, regions.starts)
        keep = np.zeros(count, dtype=bool)
        # Stable, so that of equally large regions the same ones are kept everywhere.
        keep[np.argsort(-pixels, kind="stable")[:MAX_REGIONS]] = True
        regions = regions.select(keep)
    return regions


def _neighbours(
    target: NDArray[np.bool_], source: NDArray[np.bool_]
) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Pairs of views that put the pixel to the left and the one to the right of ``source`` onto ``target``."""
    return [(target[:, 1:], source[:, :-1]), (target[:, :-1], source[:, 1:])]


def _group(
    region: NDArray[np.int64], row: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]
) -> Regions:
    starts = np.flatnonzero(np.diff(region, prepend=-1))
    return Regions(region, row, left, right, starts)
