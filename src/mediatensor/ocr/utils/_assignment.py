"""Which predicted box stands for which true one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidArgumentError, MissingDependencyError
from ._overlaps import Indices, Overlaps, overlaps

__all__ = ["Matches", "check_threshold", "match_boxes"]


class Matches(NamedTuple):
    """Pairs of a true and a predicted box.

    Attributes:
        truth: Index of the true box, (P,), in increasing order.
        prediction: Index of the predicted box, (P,).
        total_iou: Sum over all predictions of the IoU with the true box that each overlaps most.
    """

    truth: Indices
    prediction: Indices
    total_iou: float


def check_threshold(iou_thresh: float) -> float:
    """An IoU that makes a match, in (0, 1].

    Raises:
        InvalidArgumentError: if it is outside.
    """
    if not 0 < iou_thresh <= 1:
        raise InvalidArgumentError(f"iou_thresh must be in (0, 1], got {iou_thresh}")
    return iou_thresh


def match_boxes(gts: NDArray[Any], preds: NDArray[Any], iou_thresh: float, use_polygons: bool) -> Matches:
    """Pair true and predicted boxes one to one so that the sum of their IoU is the largest.

    Boxes that no chain of overlaps connects cannot compete, so each connected group is a problem of its own, small
    even on a page of thousands of words.

    Args:
        gts: True boxes (N, 4), or polygons (N, 4, 2).
        preds: Predicted boxes (M, 4), or polygons (M, 4, 2).
        iou_thresh: Pairs of less IoU are dropped, after pairing.
        use_polygons: Which kind of boxes.

    Raises:
        InvalidArgumentError: if the boxes have another shape.
        MissingDependencyError: if SciPy is not installed.
    """
    pairs = overlaps(gts, preds, use_polygons)
    best = np.zeros(len(preds))
    np.maximum.at(best, pairs.second, pairs.iou)
    chosen = _assign(pairs, len(gts), len(preds))
    chosen = chosen[pairs.iou[chosen] >= iou_thresh]
    return Matches(pairs.first[chosen], pairs.second[chosen], float(best.sum()))


def _assign(pairs: Overlaps, count: int, other_count: int) -> Indices:
    """Indices of the pairs that are chosen, in increasing order."""
    alone = (np.bincount(pairs.first, minlength=count)[pairs.first] == 1) & (
        np.bincount(pairs.second, minlength=other_count)[pairs.second] == 1
    )
    chosen = [np.flatnonzero(alone)]
    contested = np.flatnonzero(~alone)
    if contested.size:
        chosen += [group[_best_of(pairs, group)] for group in _groups(pairs, contested, count, other_count)]
    return np.sort(np.concatenate(chosen))


def _groups(pairs: Overlaps, contested: Indices, count: int, other_count: int) -> list[Indices]:
    """The contested pairs, split where no box is shared."""
    try:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components
    except ImportError:
        raise MissingDependencyError('Matching boxes needs SciPy: pip install "mediatensor[ocr]".') from None
    nodes = count + other_count
    links = (pairs.first[contested], pairs.second[contested] + count)
    graph = coo_array((np.ones(contested.size, dtype=np.int8), links), shape=(nodes, nodes))
    _, labels = connected_components(graph, directed=False)
    group = labels[pairs.first[contested]]
    order = np.argsort(group, kind="stable")
    borders = np.flatnonzero(np.diff(group[order])) + 1
    return np.split(contested[order], borders)


def _best_of(pairs: Overlaps, group: Indices) -> Indices:
    """Positions in the group of the pairs that make the largest sum."""
    from scipy.optimize import linear_sum_assignment

    rows, row_of = np.unique(pairs.first[group], return_inverse=True)
    columns, column_of = np.unique(pairs.second[group], return_inverse=True)
    position = np.full((rows.size, columns.size), -1, dtype=np.intp)
    position[row_of, column_of] = np.arange(group.size)
    gain = np.zeros(position.shape)
    gain[row_of, column_of] = pairs.iou[group]
    taken: Indices = position[linear_sum_assignment(gain, maximize=True)]
    return taken[taken >= 0]
