"""Colons that stand apart from their word, as on receipts: ``Discount  :  0.00``.

Detectors pass over ink so small. A box is made longer where two dots of one size stand one above the other beside its
end, on the band of its letters, with nothing else around them. The recogniser decides what the dots are.

Everything here is in pixels of the detector's input. Nothing knows a network.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .leftovers import MOST_LETTERS, InkLeftOver

__all__ = ["with_colons"]

FloatArray = NDArray[np.float64]

# All lengths are in heights of a box, which is about half as high again as its capitals.
SMALLEST_DOT, LARGEST_DOT = 0.04, 0.24
"""The sides of a dot."""
LEAST_FILL, LONGEST = 0.5, 2.0
"""The share of its bounds that a dot fills at least, and how many times as long as wide it is at most."""
MOST_UNLIKE = 1.6
"""How many times as large as the other one dot may be, each way."""
UPPER, LOWER, APART = (0.28, 0.55), (0.58, 0.92), (0.2, 0.48)
"""Where the middles of the dots are, from the top of the box, and how far apart."""
MOST_SLANT = 0.05
"""How far one dot may be to the side of the other."""
REACH = 1.3
"""How far the dots may be from the end of the box."""
PREFERRED = 0.4
"""How much nearer a colon must be to the beginning of one box than to the end of another: most stand behind a word."""
CLEAR = 0.12
"""The space around the dots that has no other ink."""
RULE_APART = 1.3
"""How far above or below there is no other dot, in distances of the two."""
MARGIN = 0.2
"""The space behind the dots that the box covers."""


def with_colons(boxes: FloatArray, ink: InkLeftOver) -> FloatArray:
    """Make boxes longer that have a colon beside them.

    Args:
        boxes: Boxes (N, 5, 2): corners in pixels, in the direction of reading, then (0, score).
        ink: What they do not cover.

    Returns:
        The boxes, in their order.
    """
    sizes = ink.bounds[:, 2:] - ink.bounds[:, :2]
    low, high = sizes.min(axis=1, initial=1 << 30), sizes.max(axis=1, initial=0)
    # A pixel more is no difference between small dots.
    is_dot = (low >= 2) & (high <= LONGEST * low + 1) & (ink.fill >= LEAST_FILL)
    if not len(boxes) or not 2 <= is_dot.sum() <= MOST_LETTERS:
        return boxes
    middles = (ink.bounds[:, :2] + ink.bounds[:, 2:]) / 2
    dots, dot_sizes = np.flatnonzero(is_dot), sizes[is_dot].astype(np.float64)
    nearest: dict[tuple[int, int], tuple[float, int, bool, float]] = {}
    for number, box in enumerate(boxes):
        along, across = box[1] - box[0], box[3] - box[0]
        width, height = float(np.hypot(*along)), float(np.hypot(*across))
        if width < height or height < 1:
            continue
        along, across = along / width, across / height
        x, y = (middles[dots] - box[0]) @ along, (middles[dots] - box[0]) @ across / height
        fits = (dot_sizes.max(axis=1) <= LARGEST_DOT * height) & (dot_sizes.max(axis=1) >= SMALLEST_DOT * height)
        fits &= (x > -REACH * height) & (x < width + REACH * height) & ((x < 0) | (x > width))
        uppers = np.flatnonzero(fits & (y > UPPER[0]) & (y < UPPER[1]))
        lowers = np.flatnonzero(fits & (y > LOWER[0]) & (y < LOWER[1]))
        if not len(uppers) or not len(lowers):
            continue
        apart = y[lowers] - y[uppers, None]
        pairs = (apart > APART[0]) & (apart < APART[1])
        pairs &= np.abs(x[lowers] - x[uppers, None]) <= MOST_SLANT * height + 1
        one, other = dot_sizes[uppers, None], dot_sizes[lowers]
        pairs &= (np.maximum(one, other) <= MOST_UNLIKE * np.minimum(one, other) + 1).all(axis=2)
        for upper, lower in zip(*np.nonzero(pairs), strict=True):
            first, second = int(dots[uppers[upper]]), int(dots[lowers[lower]])
            # Dots of a rule have more of their kind above or below.
            rows = y[np.abs(x - x[uppers[upper]]) <= MOST_SLANT * height + 1]
            near = RULE_APART * (y[lowers[lower]] - y[uppers[upper]])
            if ((rows >= y[uppers[upper]] - near) & (rows <= y[lowers[lower]] + near)).sum() > 2:
                continue
            if not _is_clear(first, second, ink, CLEAR * height):
                continue
            is_behind = bool(x[uppers[upper]] > width)
            far = [float(x[place]) for place in (uppers[upper], lowers[lower])]
            gap = max(far) - width if is_behind else -min(far)
            weighed = gap + (0 if is_behind else PREFERRED * height)
            if (first, second) not in nearest or weighed < nearest[first, second][0]:
                nearest[first, second] = weighed, number, is_behind, gap + MARGIN * height
    result = boxes.copy()
    for _, number, is_behind, length in sorted(nearest.values()):
        # The longest of several extensions is the last one.
        box = boxes[number]
        along = (box[1] - box[0]) / np.hypot(*(box[1] - box[0])) * length
        if is_behind:
            result[number, 1:3] = box[1:3] + along
        else:
            result[number, [0, 3]] = box[[0, 3]] - along
    return result


def _is_clear(upper: int, lower: int, ink: InkLeftOver, margin: float) -> bool:
    """Whether there is no other ink around two dots: dotted rules and dirt have more than two.

    Ink counts, not the bounds of pieces: those of a frame or of a scan's edge are around everything.
    """
    dots = ink.bounds[[upper, lower]]
    left, top = np.maximum(np.floor(dots[:, :2].min(axis=0) - margin), 0).astype(np.int64)
    right, bottom = np.ceil(dots[:, 2:].max(axis=0) + margin).astype(np.int64)
    own = round(float((ink.fill[[upper, lower]] * (dots[:, 2:] - dots[:, :2]).prod(axis=1)).sum()))
    return int(ink.pixels[top:bottom, left:right].sum()) == own
