"""Long strips of a page: boxes of overlapping tiles put together, and lines cut that are too long to be read at once.

Everything here is in pixels of the page.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .leftovers import joined

__all__ = ["long_lines_cut", "tiles_joined"]

FloatArray = NDArray[np.float64]

LONGEST_LINE = 70.0
"""Lines are cut that are longer than this, in heights: about 160 characters. A recogniser squeezes longer ones."""
CUT_REACH, GAP_WIDTH = 4.0, 0.2
"""A cut is at most so many heights from where the parts were equally long, in a gap of about this width in heights."""


def tiles_joined(parts: Sequence[FloatArray], tiles: Sequence[tuple[int, int]], axis: int) -> FloatArray:
    """The boxes of a long page that was looked at in overlapping tiles.

    Where two tiles meet, each box is taken from the tile that shows more around it. A line that runs across the meeting
    point, in the middle of what both show, is seen in part by each, and one box goes around both parts.

    Args:
        parts: For each tile its boxes (N, 5, 2), corners in pixels of the whole page, then (0, score).
        tiles: Where each begins and ends along the page, in pixels.
        axis: The direction of the tiles, 0 for x and 1 for y.

    Returns:
        Boxes (N', 5, 2).
    """
    result: list[FloatArray] = []
    meeting = -np.inf
    for number, part in enumerate(parts):
        next_meeting = (tiles[number][1] + tiles[number + 1][0]) / 2 if number + 1 < len(tiles) else np.inf
        for box in part:
            low, high = box[:4, axis].min(), box[:4, axis].max()
            if high <= meeting or low >= next_meeting:
                continue
            own, kept = box, []
            for other in result if low < meeting else ():
                both = joined(own, other) if other[:4, axis].max() > low else None
                if both is None:
                    kept.append(other)
                else:
                    own = both
            result = [*(kept if low < meeting else result), own]
        meeting = next_meeting
    return np.stack(result) if result else np.zeros((0, 5, 2))


def long_lines_cut(gray: NDArray[np.uint8], boxes: FloatArray, axis: int) -> FloatArray:
    """Boxes where lines too long to be read at once are cut between words.

    Args:
        gray: The page, (H, W).
        boxes: (N, 5, 2), corners in pixels, then (0, score).
        axis: The direction of the long lines, 0 for x and 1 for y.

    Returns:
        Boxes (N', 5, 2), the parts of a line one after the other.
    """
    result: list[FloatArray] = []
    for box in boxes:
        low, high = box[:4].min(axis=0), box[:4].max(axis=0)
        length, height = (high - low)[axis], max((high - low)[1 - axis], 1.0)
        number = int(np.ceil(length / (LONGEST_LINE * height)))
        if number < 2:
            result.append(box)
            continue
        (x0, y0), (x1, y1) = np.maximum(low, 0).astype(int), np.ceil(high).astype(int)
        part = gray[y0:y1, x0:x1]
        # The ink of a column is how far its levels are apart, whether it is dark on light or light on dark.
        ink = np.ptp(part.astype(np.int16), axis=axis)
        width = max(round(GAP_WIDTH * height), 1)
        of_gaps = np.convolve(ink, np.ones(width) / width, mode="same")
        reach, shares = CUT_REACH * height, [0.0]
        for cut in range(1, number):
            first = max(int(cut * len(ink) / number - reach), 0)
            nearby = of_gaps[first : int(cut * len(ink) / number + reach) + 1]
            shares.append((first + int(nearby.argmin()) + 0.5) / len(ink))
        shares.append(1.0)
        begin, end = (box[[0, 3]], box[[1, 2]]) if axis == 0 else (box[[0, 1]], box[[3, 2]])
        for left, right in itertools.pairwise(shares):
            a, b = begin + left * (end - begin), begin + right * (end - begin)
            corners = [a[0], b[0], b[1], a[1]] if axis == 0 else [a[0], a[1], b[1], b[0]]
            result.append(np.stack([*corners, box[4]]))
    return np.stack(result) if result else boxes
