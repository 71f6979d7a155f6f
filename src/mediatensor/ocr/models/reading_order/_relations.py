"""Which of two boxes is read first: relations between boxes, computed as they are asked for.

A matrix of all pairs would grow with the square of their number; here it is never held whole.
"""

from __future__ import annotations

import numpy as np

__all__ = ["Relations"]

# Whole-matrix questions are answered in slices of about this many pairs, which bounds the memory.
_PAIRS_AT_ONCE = 1 << 20


class Relations:
    """How boxes lie to each other, in a frame that is read from left to right and from top to bottom.

    Args:
        boxes: float64 ``(N, 4)``.
        x_overlap_threshold: Boxes that share more of the narrower one's width are stacked.
        y_overlap_threshold: Boxes that share more of the lower one's height are on one row.
    """

    def __init__(self, boxes: np.ndarray, x_overlap_threshold: float, y_overlap_threshold: float) -> None:
        self._x = boxes[:, 0::2].astype(np.float32)
        self._y = boxes[:, 1::2].astype(np.float32)
        self._x_threshold, self._y_threshold = x_overlap_threshold, y_overlap_threshold
        # Strict orders on both axes: of two boxes never each precedes the other.
        self._x_rank, self._y_rank = _ranks(boxes[:, 0], boxes[:, 2]), _ranks(boxes[:, 1], boxes[:, 3])

    def stacked(self, rows: np.ndarray, columns: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Bool ``(R, C)``: whether each pair overlaps horizontally, so that one is above the other."""
        stacked: np.ndarray = _overlaps(self._x, rows, columns) > self._x_threshold
        return stacked

    def level(self, rows: np.ndarray, columns: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Bool ``(R, C)``: whether each pair overlaps vertically, as words of one row do."""
        level: np.ndarray = _overlaps(self._y, rows, columns) > self._y_threshold
        return level

    def precedes(self, rows: np.ndarray) -> np.ndarray:
        """Bool ``(R, N)``: whether each of ``rows`` must be read before each box.

        That is (Breuel 2003, "High performance document layout analysis") the upper of two stacked boxes, and the
        left of two on one row that are not stacked.
        """
        stacked = self.stacked(rows)
        above = self._y_rank[rows][:, None] < self._y_rank
        left = self._x_rank[rows][:, None] < self._x_rank
        before: np.ndarray = np.where(stacked, above, self.level(rows) & left)
        return before

    def predecessors(self) -> np.ndarray:
        """int64 ``(N,)``: how many boxes must be read before each."""
        number = len(self._x)
        counts = np.zeros(number, dtype=np.int64)
        step = max(1, _PAIRS_AT_ONCE // number)
        for start in range(0, number, step):
            counts += self.precedes(np.arange(start, min(start + step, number))).sum(axis=0)
        return counts

    def columns(self, spanning: np.ndarray) -> np.ndarray:
        """int64 ``(N,)``: one number for all boxes that a chain of stacked ones connects.

        Args:
            spanning: Bool ``(N,)``, boxes that belong to no column and so connect none.
        """
        labels = np.arange(len(self._x))
        unseen = ~spanning
        for first in range(len(labels)):
            if not unseen[first]:
                continue
            unseen[first] = False
            frontier = np.array([first])
            while len(frontier):
                labels[frontier] = first
                frontier = self._reached(frontier, np.flatnonzero(unseen))
                unseen[frontier] = False
        return labels

    def _reached(self, frontier: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Those of ``others`` that are stacked with a box of ``frontier``."""
        found = np.zeros(len(others), dtype=bool)
        step = max(1, _PAIRS_AT_ONCE // max(1, len(others)))
        for start in range(0, len(frontier), step):
            found |= self.stacked(frontier[start : start + step], others).any(axis=0)
        return others[found]


def _overlaps(intervals: np.ndarray, rows: np.ndarray, columns: np.ndarray | slice) -> np.ndarray:
    """float32 ``(R, C)``: the common part of each two intervals, as a share of the shorter one."""
    starts, ends = intervals[:, 0], intervals[:, 1]
    common = np.minimum(ends[rows][:, None], ends[columns]) - np.maximum(starts[rows][:, None], starts[columns])
    lengths = ends - starts
    shorter = np.minimum(lengths[rows][:, None], lengths[columns])
    ratios: np.ndarray = common.clip(0) / shorter.clip(1e-9)
    return ratios


def _ranks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """int64 ``(N,)``: the place of each element when sorted by ``first``, then ``second``, then index."""
    order = np.lexsort((second, first))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks
