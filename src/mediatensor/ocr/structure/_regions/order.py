"""The order in which the parts of a page are read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._content import Boxes

__all__ = ["order_of"]

# Parts overlap by chance by no more than this share of the smaller one.
_SLACK = 0.1
# A part stands in a column that holds so much of its width.
_HELD_SHARE = 0.9
# More parts than a page has, in one list: they are read row by row.
_MAX_PARTS = 600


def order_of(boxes: Boxes, height: float, columns: Boxes) -> list[int]:
    """Order parts that are read from left to right, columns one after the other.

    Of two parts one above the other the upper one is read first; of two side by side the left one, unless a part
    between them spans both (Breuel 2003, "High performance document layout analysis").

    Args:
        boxes: float64 (N, 4).
        height: The height of a line, for pages with too many parts.
        columns: float64 (C, 4): running text. What stands above or below it fills its column, however short it is.

    Returns:
        The indices of the parts.
    """
    number = len(boxes)
    if number > _MAX_PARTS:
        rows = np.floor((boxes[:, 1] + boxes[:, 3]) / 2 / max(height, 1e-6))
        return [int(index) for index in np.lexsort((boxes[:, 0], rows))]
    if number < 2:
        return list(range(number))
    before = _before(_widened(boxes, columns))
    waiting = before.sum(axis=0)
    pending = np.ones(number, dtype=bool)
    order: list[int] = []
    for _ in range(number):
        ready = np.flatnonzero(pending & (waiting == 0))
        if len(ready) == 0:
            # Parts that overlap in odd ways can wait for each other in a circle: the one that waits least breaks it.
            candidates = np.flatnonzero(pending)
            ready = candidates[waiting[candidates] == waiting[candidates].min()]
        chosen = _next(ready, order[-1] if order else None, boxes)
        order.append(chosen)
        pending[chosen] = False
        waiting = waiting - before[chosen]
    return order


def _widened(boxes: Boxes, columns: Boxes) -> Boxes:
    """Parts as wide as the narrowest text that they stand above or below, up to what is beside them."""
    widened = boxes.copy()
    widths = columns[:, 2] - columns[:, 0]
    for index, (left, top, right, bottom) in enumerate(boxes):
        common = np.minimum(columns[:, 2], right) - np.maximum(columns[:, 0], left)
        holding = np.flatnonzero((common >= _HELD_SHARE * (right - left)) & (widths >= right - left))
        if len(holding) == 0:
            continue
        column = columns[holding[widths[holding].argmin()]]
        beside = np.minimum(boxes[:, 3], bottom) - np.maximum(boxes[:, 1], top) > _SLACK * (bottom - top)
        before, behind = beside & (boxes[:, 2] <= left), beside & (boxes[:, 0] >= right)
        widened[index, 0] = min(left, max(column[0], boxes[before, 2].max(initial=-np.inf)))
        widened[index, 2] = max(right, min(column[2], boxes[behind, 0].min(initial=np.inf)))
    return widened


def _before(boxes: Boxes) -> NDArray[np.bool_]:
    """Bool (N, N): whether a part must be read before another."""
    left, top, right, bottom = boxes.T
    widths, heights = np.maximum(right - left, 1e-6), np.maximum(bottom - top, 1e-6)
    across = np.minimum(right[:, None], right) - np.maximum(left[:, None], left)
    stacked = across > _SLACK * np.minimum(widths[:, None], widths)
    down = np.minimum(bottom[:, None], bottom) - np.maximum(top[:, None], top)
    level = down > 0.5 * np.minimum(heights[:, None], heights)
    middles = (top + bottom) / 2
    # Parts that overlap both ways lie within each other, or are boxes drawn too large.
    above = stacked & ((middles[:, None] < middles) & ~level | level & (top[:, None] < top))
    to_left = ~stacked & (left[:, None] < left)
    parted = np.zeros_like(to_left)
    for part in range(len(boxes)):
        spans = stacked[part]
        if not spans.any():
            continue
        higher, lower = spans & (middles < middles[part]) & (bottom <= bottom[part]), spans & (middles > middles[part])
        lower &= top >= top[part]
        both = np.outer(higher, lower)
        parted |= both | both.T
    before: NDArray[np.bool_] = above | (to_left & ~parted)
    np.fill_diagonal(before, False)
    return before


def _next(ready: NDArray[np.int64], last: int | None, boxes: Boxes) -> int:
    """The part that continues the column of the last one, or else the topmost of those furthest to the left."""
    if last is not None:
        across = np.minimum(boxes[ready, 2], boxes[last, 2]) - np.maximum(boxes[ready, 0], boxes[last, 0])
        below = ready[(across > 0) & (boxes[ready, 1] >= boxes[last, 1])]
        if len(below):
            ready = below
    return int(ready[np.lexsort((boxes[ready, 0], boxes[ready, 1]))[0]])
