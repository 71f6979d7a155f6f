"""Whether a page has columns of text, which are read one after the other, or of fields, which are read row by row."""

from __future__ import annotations

import numpy as np

__all__ = ["has_text_columns"]

# Candidate gutters are tried in slices of about this many (gutter, box) pairs, which bounds the memory.
_PAIRS_AT_ONCE = 1 << 20

# Fewer rows than this do not make a form.
_MIN_ROWS = 3
# The part of the lines of the shorter side that have a line of the other side level with them.
_LEVEL_SHARE = 0.8
# Fields are set apart by more than the height of a line and leave room before their values, where text fills its
# column; or one side is no wider, in heights, than numbers are.
_FIELD_GAP = 1.0
_FIELD_FILL = 0.6
_NARROW = 5.0
# Most lines of a side begin, or end, within so many heights of each other.
_ALIGNED_SHARE = 0.7
_ALIGNED_WITHIN = 2.0


def has_text_columns(boxes: np.ndarray, width: float, horizontal: bool = True) -> bool:
    """Tell whether a vertical line parts the boxes into columns that are to be read one after the other.

    The line lies in the middle half of the page and crosses next to no box. What it parts are not columns of text if
    both sides are aligned, line for line is level with one on the other side, and either the lines are short and set
    apart, as the fields of a form and their values, or one side is as narrow as the prices of a receipt or the numbers
    of a list.

    Args:
        boxes: float64 ``(N, 4)``, in a frame that is read from left to right.
        width: Of the page, or what is used of it, in the unit of the boxes.
        horizontal: Whether lines are written horizontally; forms with vertical lines are not told from text.

    Returns:
        Whether there are such columns.
    """
    gutter = _gutter(boxes, width)
    if gutter is None:
        return False
    if not horizontal:
        return True
    crossing = np.minimum(boxes[:, 2] - gutter, gutter - boxes[:, 0]) > 0.02 * width
    on_left = boxes[:, 0] + boxes[:, 2] <= 2 * gutter
    return not _is_table(boxes[on_left & ~crossing], boxes[~on_left & ~crossing])


def _gutter(boxes: np.ndarray, width: float) -> float | None:
    """The line that crosses the fewest boxes; None if there is none that crosses few enough."""
    number = len(boxes)
    if number < 3:
        return None
    left, right = boxes[:, 0], boxes[:, 2]
    low, high = left.min() + 0.25 * width, left.min() + 0.75 * width
    gutters = np.unique(right[(right >= low) & (right <= high)])
    on_left = np.searchsorted(np.sort((left + right) / 2), gutters, side="right")
    gutters = gutters[(on_left >= 0.25 * number) & (number - on_left >= 0.25 * number)]
    if len(gutters) == 0:
        return None
    step = max(1, _PAIRS_AT_ONCE // number)
    crossing = np.concatenate(
        [
            (np.minimum(right - part[:, None], part[:, None] - left) > 0.02 * width).sum(axis=1)
            for part in np.split(gutters, range(step, len(gutters), step))
        ]
    )
    best = int(crossing.argmin())
    return float(gutters[best]) if crossing[best] <= max(1, int(0.05 * number)) else None


def _is_table(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether the lines of two sides are fields with their values rather than text beside text."""
    if min(len(left), len(right)) < _MIN_ROWS:
        return False
    height = float(np.median(np.concatenate((left, right)) @ (0, -1, 0, 1)))
    if not (_is_aligned(left, height) and _is_aligned(right, height)):
        return False
    shorter, longer = sorted((left, right), key=len)
    middles = np.sort(longer[:, 1] + longer[:, 3]) / 2
    wanted = (shorter[:, 1] + shorter[:, 3]) / 2
    after = np.searchsorted(middles, wanted).clip(1, len(middles) - 1)
    distances = np.minimum(np.abs(middles[after] - wanted), np.abs(middles[after - 1] - wanted))
    if (distances < height / 2).mean() < _LEVEL_SHARE:
        return False
    if min(float(np.median(side[:, 2] - side[:, 0])) for side in (left, right)) <= _NARROW * height:
        return True
    pitch = float(np.median(right[:, 0]) - np.median(left[:, 0]))
    if np.median(left[:, 2] - left[:, 0]) > _FIELD_FILL * pitch:
        return False
    return min(_median_gap(left), _median_gap(right)) > _FIELD_GAP * height


def _is_aligned(side: np.ndarray, height: float) -> bool:
    """Whether most lines of a side begin at one place, or end at one."""
    edges = side[:, 0::2]
    near = np.abs(edges - np.median(edges, axis=0)) <= _ALIGNED_WITHIN * height
    return bool(near.mean(axis=0).max() >= _ALIGNED_SHARE)


def _median_gap(side: np.ndarray) -> float:
    """The median distance from one line of a side to the next below it."""
    order = np.argsort(side[:, 1], kind="stable")
    return float(np.median(side[order[1:], 1] - side[order[:-1], 3]))
