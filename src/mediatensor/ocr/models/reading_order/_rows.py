"""Rows of cells: which lines that stand side by side are read across, as those of a table, a receipt or a form."""

from __future__ import annotations

import numpy as np

__all__ = ["row_numbers"]

# The relations cost the square of the number of lines, so beyond this one, which no page has but a hostile file may,
# every line is a row of its own.
_MAX_LINES = 4_000

# Lines are level if they share so much of the lower one's height and are of about one height.
_LEVEL_OVERLAP = 0.5
_MAX_HEIGHT_RATIO = 2.0
# How far neighbours may overlap in their row, in heights: boxes are not exact.
_MAX_OVERLAP = 0.5

# Prose: lines stacked closely that begin or end at one place, so many of them and so wide (in heights; a letter is half
# as wide as high), most of which fill their column.
_MIN_PROSE_LINES = 3
_MIN_PROSE_WIDTH = 5.0
_MAX_LEADING = 1.0
_ALIGNED_WITHIN = 1.5
_FULL_WIDTH = 0.8
_FULL_SHARE = 0.5

# Text at least so wide, in heights, has its column to itself; no wider than the other are numbers.
_WIDE = 18.0
_NARROW = 5.0

# Gaps that lie above each other and closer than this, in heights, are one gutter.
_GUTTER_REACH = 4.0


def row_numbers(boxes: np.ndarray) -> np.ndarray:
    """Gather lines into rows that are read across.

    Lines are neighbours in a row if they are level and nothing stands between them. Where text flows on both sides of
    the gap between them, it is the gutter of two columns, which are read one after the other. What text is shows in
    the lines above and below: it fills its column, line for line, where cells are short or end anywhere. A gap means
    what most gaps just above and below it do.

    Args:
        boxes: float64 ``(N, 4)``: upright lines, x and y in one unit, in a frame that is read from left to right.

    Returns:
        int64 ``(N,)``: lines with one number are a row.
    """
    number = len(boxes)
    alone = np.arange(number)
    if not 2 <= number <= _MAX_LINES:
        return alone
    heights = boxes[:, 3] - boxes[:, 1]
    height = float(np.median(heights))
    if not height > 0:
        return alone
    pairs = _neighbours(boxes, heights, height)
    if len(pairs) == 0:
        return alone
    columns = _part_columns(boxes, heights, height, pairs)
    return _joined(number, pairs[~_agreed(columns, boxes, pairs, height)])


def _part_columns(boxes: np.ndarray, heights: np.ndarray, height: float, pairs: np.ndarray) -> np.ndarray:
    """Bool ``(P,)``: whether the gap between neighbours looks like the gutter of columns.

    It does if text flows on both sides; or on one, as beside a table in its own column, unless a name stands before
    the first line of the text, or a number before or behind any line and nothing else beside it.
    """
    is_prose, begins = _prose(boxes, heights, height, pairs)
    prose, first = is_prose[pairs], begins[pairs]
    widths = boxes[pairs, 2] - boxes[pairs, 0]
    wide, narrow = widths >= _WIDE * height, widths <= _NARROW * height
    # Neither to the left of the left one nor to the right of the right one is there another.
    last = ~np.stack([np.isin(pairs[:, 0], pairs[:, 1]), np.isin(pairs[:, 1], pairs[:, 0])], axis=1)
    beside = prose & wide & ~(narrow & last)[:, ::-1]
    beside[:, 1] &= ~first[:, 1]
    columns: np.ndarray = prose.all(axis=1) | beside.any(axis=1)
    return columns


def _neighbours(boxes: np.ndarray, heights: np.ndarray, height: float) -> np.ndarray:
    """int64 ``(P, 2)``: lines that are level, and the next to the right of each."""
    found = []
    for index in range(len(boxes)):
        box = boxes[index]
        common = np.minimum(box[3], boxes[:, 3]) - np.maximum(box[1], boxes[:, 1])
        lower, higher = np.minimum(heights[index], heights), np.maximum(heights[index], heights)
        level = (common > _LEVEL_OVERLAP * lower) & (higher <= _MAX_HEIGHT_RATIO * lower)
        level &= (boxes[:, 0] >= box[2] - _MAX_OVERLAP * height) & (boxes[:, 0] > box[0])
        candidates = np.flatnonzero(level)
        if len(candidates):
            found.append((index, int(candidates[boxes[candidates, 0].argmin()])))
    # Of several lines that have the same one to their right, it goes with the nearest.
    nearest: dict[int, int] = {}
    for first, second in found:
        if second not in nearest or boxes[first, 2] > boxes[nearest[second], 2]:
            nearest[second] = first
    return np.array([(first, second) for second, first in nearest.items()], dtype=np.int64).reshape(-1, 2)


def _prose(boxes: np.ndarray, heights: np.ndarray, height: float, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bool ``(N,)`` twice: whether a line belongs to running text, and whether it begins a stack of lines."""
    widths = boxes[:, 2] - boxes[:, 0]
    beside: dict[int, list[int]] = {}
    for first, second in pairs.tolist():
        beside.setdefault(first, []).append(second)
        beside.setdefault(second, []).append(first)

    def spans(line: int, other: int) -> bool:
        """Whether a line lies over, or under, what stands beside another."""
        return any(
            min(boxes[line, 2], boxes[index, 2]) - max(boxes[line, 0], boxes[index, 0]) > 0.5 * widths[index]
            for index in beside.get(other, ())
        )

    links = []
    for index in range(len(boxes)):
        box = boxes[index]
        common = np.minimum(box[2], boxes[:, 2]) - np.maximum(box[0], boxes[:, 0])
        gaps = boxes[:, 1] - box[3]
        under = (boxes[:, 1] > (box[1] + box[3]) / 2) & (gaps <= _MAX_LEADING * height)
        under &= common > 0.5 * np.minimum(widths[index], widths)
        lower, higher = np.minimum(heights[index], heights), np.maximum(heights[index], heights)
        under &= higher <= _MAX_HEIGHT_RATIO * lower
        aligned = np.abs(boxes[:, [0, 2]] - box[[0, 2]]).min(axis=1) <= _ALIGNED_WITHIN * height
        candidates = np.flatnonzero(under & aligned)
        if len(candidates):
            below = int(candidates[boxes[candidates, 1].argmin()])
            if not spans(index, below) and not spans(below, index):
                links.append((index, below))
    stacks = _joined(len(boxes), np.array(links, dtype=np.int64).reshape(-1, 2))
    begins = np.ones(len(boxes), dtype=bool)
    begins[[second for _, second in links]] = False
    is_prose = np.zeros(len(boxes), dtype=bool)
    for stack in np.unique(stacks):
        members = np.flatnonzero(stacks == stack)
        if len(members) >= _MIN_PROSE_LINES:
            full = float(np.quantile(widths[members], 0.9))
            share = float((widths[members] >= _FULL_WIDTH * full).mean())
            is_prose[members] = full >= _MIN_PROSE_WIDTH * height and share >= _FULL_SHARE
    return is_prose, begins


def _agreed(columns: np.ndarray, boxes: np.ndarray, pairs: np.ndarray, height: float) -> np.ndarray:
    """Bool ``(P,)``: what at least half of the gaps say that lie above and below each, one a row, and it itself."""
    starts = boxes[pairs[:, 0], 2] - _MAX_OVERLAP * height
    ends = boxes[pairs[:, 1], 0] + _MAX_OVERLAP * height
    middles = (boxes[pairs, 1] + boxes[pairs, 3]).mean(axis=1) / 2
    chains = _joined(len(boxes), pairs)[pairs[:, 0]]
    agreed = np.empty(len(pairs), dtype=bool)
    for index in range(len(pairs)):
        common = np.minimum(ends, ends[index]) - np.maximum(starts, starts[index])
        common[index] = np.inf
        near = np.flatnonzero((np.abs(middles - middles[index]) <= _GUTTER_REACH * height) & (common > 0))
        near = near[np.argsort(-common[near], kind="stable")]
        votes = columns[near[np.unique(chains[near], return_index=True)[1]]]
        agreed[index] = 2 * votes.sum() >= len(votes)
    return agreed


def _joined(number: int, links: np.ndarray) -> np.ndarray:
    """int64 ``(N,)``: one number for all that links ``(L, 2)`` connect, the least index among them."""
    parents = list(range(number))

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    for first, second in links.tolist():
        one, other = root(first), root(second)
        parents[max(one, other)] = min(one, other)
    return np.array([root(index) for index in range(number)], dtype=np.int64)
