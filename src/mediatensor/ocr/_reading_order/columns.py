"""Distinguish columns of text, which are read one after the other, from rows of cells, which are read across."""

from __future__ import annotations

import numpy as np

from .geometry import component_roots

# Comparisons process about this many pairs of boxes, or of gutters and boxes, at a time, to bound memory.
_PAIRS_AT_ONCE = 1 << 20

# A form has at least this many rows.
_MIN_ROWS = 3
# In a form, at least this share of the lines of the side with fewer lines is level with a line of the other side.
_LEVEL_SHARE = 0.8
# In a form, gaps between lines are larger than _FIELD_GAP line heights, and keys fill at most _FIELD_FILL of the
# distance to their values. Two sides are also a table if one of them is at most _NARROW line heights wide.
_FIELD_GAP = 1.0
_FIELD_FILL = 0.6
_NARROW = 5.0
# A side is aligned if this share of its lines begins, or ends, within _COLUMN_ALIGNED_WITHIN heights of the median.
_ALIGNED_SHARE = 0.7
_COLUMN_ALIGNED_WITHIN = 2.0

# Time grows with the square of the number of lines. Only hostile files have more lines than this. Each of their lines
# is its own row.
_MAX_LINES = 4_000
# Lines are level if they overlap by this share of the smaller height and have similar heights.
_LEVEL_OVERLAP = 0.5
_MAX_HEIGHT_RATIO = 2.0
# Maximum horizontal overlap of neighbours in a row, in heights, because boxes are not exact.
_MAX_OVERLAP = 0.5
# Prose has at least this many lines of at least this width (in heights; a letter is half as wide as high). The lines
# are stacked closely and aligned at one edge, and most of them fill their column.
_MIN_PROSE_LINES = 3
_MIN_PROSE_WIDTH = 5.0
_MAX_LEADING = 1.0
_ALIGNED_WITHIN = 1.5
_FULL_WIDTH = 0.8
_FULL_SHARE = 0.5
# The gap next to prose of at least this width, in heights, is a gutter even if the other side is not prose.
_WIDE = 18.0
# Gaps that lie above each other, within this distance in heights, are treated as one gutter.
_GUTTER_REACH = 4.0


def has_text_columns(boxes: np.ndarray, width: float, horizontal: bool = True) -> bool:
    """Return whether a vertical line separates the boxes into columns that are read one after the other.

    The line lies in the middle half of the page and crosses at most 5 % of the boxes, or one box if 5 % is less than
    one.

    The result is false if the two sides look like a table. In a table, the boxes of each side are aligned, and most
    boxes of one side are level with a box of the other side. Moreover, either the boxes are short and spaced apart, as
    in a form, or one side is very narrow, as a column of prices or list numbers is. Vertical text
    (``horizontal=False``) is never a table.
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
    """Return x of the vertical line that crosses the fewest boxes; None if every vertical line crosses too many."""
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
    """Return whether ``left`` and ``right`` are the two sides of a form or table, not two columns of text."""
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
    """Return whether most lines of a side have about the same left edge, or about the same right edge."""
    edges = side[:, 0::2]
    near = np.abs(edges - np.median(edges, axis=0)) <= _COLUMN_ALIGNED_WITHIN * height
    return bool(near.mean(axis=0).max() >= _ALIGNED_SHARE)


def _median_gap(side: np.ndarray) -> float:
    order = np.argsort(side[:, 1], kind="stable")
    return float(np.median(side[order[1:], 1] - side[order[:-1], 3]))


def row_numbers(boxes: np.ndarray) -> np.ndarray:
    """Group lines into rows that are read across.

    Two lines at the same height with nothing between them are in one row, unless the gap between them is a gutter,
    which separates two columns of text. A gap looks like a gutter if the lines on both sides are prose. A stack
    consists of aligned lines, each closely below the one before it. The lines of a stack are prose if most of them fill
    their column. Table cells, in contrast, are short or differ in length. Each gap votes by what it looks like. A gap
    is a gutter if the majority of this gap and the gaps near it votes for a gutter.

    Args:
        boxes: float64 ``(N, 4)``: the upright boxes of lines, with x and y in the same unit. For text that reads from
            right to left, they must be mirrored.

    Returns:
        int64 ``(N,)``: the row number of each line.
    """
    number = len(boxes)
    alone = np.arange(number)
    if not 2 <= number <= _MAX_LINES:
        return alone
    heights = boxes[:, 3] - boxes[:, 1]
    height = float(np.median(heights))
    if not height > 0:
        return alone
    pairs = _neighbours(boxes, heights)
    if len(pairs) == 0:
        return alone
    columns = _look_like_gutters(boxes, height, pairs)
    return component_roots(number, pairs[~_vote_with_near_gaps(columns, boxes, pairs, height)])


def _look_like_gutters(boxes: np.ndarray, height: float, pairs: np.ndarray) -> np.ndarray:
    """Return bool ``(P,)``: whether the gap in each of the ``pairs`` of neighbours looks like a gutter.

    A gap looks like a gutter if both of its lines are prose. One line of prose is enough if it is wide, with two
    exceptions. In the first, the other line is narrow and at an end of its row, so it can be a number. In the second,
    the wide line is on the right and starts its paragraph, so the left line can be its label.
    """
    is_prose, begins = _prose(boxes, height, pairs)
    prose, first = is_prose[pairs], begins[pairs]
    widths = boxes[pairs, 2] - boxes[pairs, 0]
    wide, narrow = widths >= _WIDE * height, widths <= _NARROW * height
    # Each row has whether the left line is the first of its row, and whether the right line is the last.
    last = ~np.stack([np.isin(pairs[:, 0], pairs[:, 1]), np.isin(pairs[:, 1], pairs[:, 0])], axis=1)
    beside = prose & wide & ~(narrow & last)[:, ::-1]
    beside[:, 1] &= ~first[:, 1]
    columns: np.ndarray = prose.all(axis=1) | beside.any(axis=1)
    return columns


def _neighbours(boxes: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Return pairs of neighbours, int64 ``(P, 2)``: a line, and the next line to its right at the same height."""
    level_pairs = []
    for index in range(len(boxes)):
        box = boxes[index]
        common = np.minimum(box[3], boxes[:, 3]) - np.maximum(box[1], boxes[:, 1])
        lower, higher = np.minimum(heights[index], heights), np.maximum(heights[index], heights)
        level = (common > _LEVEL_OVERLAP * lower) & (higher <= _MAX_HEIGHT_RATIO * lower)
        level &= boxes[:, 0] > box[0]
        candidates = np.flatnonzero(level)
        if len(candidates):
            level_pairs.append((index, int(candidates[boxes[candidates, 0].argmin()])))
    # If several lines have the same right neighbour, only the nearest line keeps it.
    nearest: dict[int, int] = {}
    for first, second in level_pairs:
        if second not in nearest or boxes[first, 2] > boxes[nearest[second], 2]:
            nearest[second] = first
    return np.array([(first, second) for second, first in nearest.items()], dtype=np.int64).reshape(-1, 2)


def _prose(boxes: np.ndarray, height: float, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays, bool ``(N,)``: whether each line is prose, and whether it is the first of its stack.

    A stack consists of aligned lines, each closely below the one before it.
    """
    widths = boxes[:, 2] - boxes[:, 0]
    beside: dict[int, list[int]] = {}
    for first, second in pairs.tolist():
        beside.setdefault(first, []).append(second)
        beside.setdefault(second, []).append(first)

    def spans(line: int, other: int) -> bool:
        """Return whether ``line`` covers over half of the width of a line to the left or right of ``other``."""
        return any(
            min(boxes[line, 2], boxes[index, 2]) - max(boxes[line, 0], boxes[index, 0]) > 0.5 * widths[index]
            for index in beside.get(other, ())
        )

    links = []
    for index in range(len(boxes)):
        box = boxes[index]
        gaps = boxes[:, 1] - box[3]
        under = (boxes[:, 1] > (box[1] + box[3]) / 2) & (gaps <= _MAX_LEADING * height)
        aligned = np.abs(boxes[:, [0, 2]] - box[[0, 2]]).min(axis=1) <= _ALIGNED_WITHIN * height
        candidates = np.flatnonzero(under & aligned)
        if len(candidates):
            below = int(candidates[boxes[candidates, 1].argmin()])
            if not spans(index, below) and not spans(below, index):
                links.append((index, below))
    stacks = component_roots(len(boxes), np.array(links, dtype=np.int64).reshape(-1, 2))
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


def _vote_with_near_gaps(columns: np.ndarray, boxes: np.ndarray, pairs: np.ndarray, height: float) -> np.ndarray:
    """Return bool ``(P,)``: whether each gap is a gutter, by a vote of this gap and the gaps near it. A tie means yes.

    ``columns`` is the vote of each gap. If several of the near gaps are in one row, only the one that overlaps this gap
    most may vote.
    """
    starts = boxes[pairs[:, 0], 2] - _MAX_OVERLAP * height
    ends = boxes[pairs[:, 1], 0] + _MAX_OVERLAP * height
    middles = (boxes[pairs, 1] + boxes[pairs, 3]).mean(axis=1) / 2
    chains = component_roots(len(boxes), pairs)[pairs[:, 0]]
    agreed = np.empty(len(pairs), dtype=bool)
    for index in range(len(pairs)):
        common = np.minimum(ends, ends[index]) - np.maximum(starts, starts[index])
        common[index] = np.inf
        near = np.flatnonzero((np.abs(middles - middles[index]) <= _GUTTER_REACH * height) & (common > 0))
        near = near[np.argsort(-common[near], kind="stable")]
        votes = columns[near[np.unique(chains[near], return_index=True)[1]]]
        agreed[index] = 2 * votes.sum() >= len(votes)
    return agreed


class Relations:
    """Relative positions of boxes that are read from left to right and from top to bottom.

    Two boxes are *stacked* if one is above the other, and *level* if they are next to each other in a row. The methods
    compare each of R boxes with each of C boxes. ``rows`` and ``columns`` are the indices of these boxes.

    Args:
        boxes: float64 ``(N, 4)``.
        x_overlap_threshold: Two boxes count as stacked if they overlap horizontally by more than this share of the
            smaller width.
        y_overlap_threshold: Two boxes count as level if they overlap vertically by more than this share of the smaller
            height.
    """

    def __init__(self, boxes: np.ndarray, x_overlap_threshold: float, y_overlap_threshold: float) -> None:
        self._x = boxes[:, 0::2].astype(np.float32)
        self._y = boxes[:, 1::2].astype(np.float32)
        self._x_threshold, self._y_threshold = x_overlap_threshold, y_overlap_threshold
        # Ranks are strict orders on both axes, so two boxes never precede each other.
        self._x_rank, self._y_rank = _ranks(boxes[:, 0], boxes[:, 2]), _ranks(boxes[:, 1], boxes[:, 3])

    def stacked(self, rows: np.ndarray, columns: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return bool ``(R, C)``: whether each box of ``rows`` is above or below each box of ``columns``."""
        stacked: np.ndarray = _overlaps(self._x, rows, columns) > self._x_threshold
        return stacked

    def level(self, rows: np.ndarray, columns: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return bool ``(R, C)``: whether each box of ``rows`` is level with (next to) each box of ``columns``."""
        level: np.ndarray = _overlaps(self._y, rows, columns) > self._y_threshold
        return level

    def precedes(self, rows: np.ndarray) -> np.ndarray:
        """Return bool ``(R, N)``: whether each of the boxes ``rows`` must be read before each of the N boxes.

        Of two stacked boxes, the upper one comes first. Of two boxes that are level but not stacked, the left one comes
        first (Breuel 2003, "High performance document layout analysis").
        """
        stacked = self.stacked(rows)
        above = self._y_rank[rows][:, None] < self._y_rank
        left = self._x_rank[rows][:, None] < self._x_rank
        before: np.ndarray = np.where(stacked, above, self.level(rows) & left)
        return before

    def predecessors(self) -> np.ndarray:
        """Return int64 ``(N,)``: the number of boxes that must be read before each box."""
        number = len(self._x)
        counts = np.zeros(number, dtype=np.int64)
        step = max(1, _PAIRS_AT_ONCE // number)
        for start in range(0, number, step):
            counts += self.precedes(np.arange(start, min(start + step, number))).sum(axis=0)
        return counts

    def columns(self, spanning: np.ndarray) -> np.ndarray:
        """Return int64 ``(N,)``: the column number of each box.

        Boxes that are one below the other form a chain, which is one column.

        Args:
            spanning: Bool ``(N,)``: whether each box spans several columns. Such boxes do not belong to a chain.
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
                frontier = self._stacked_with(frontier, np.flatnonzero(unseen))
                unseen[frontier] = False
        return labels

    def _stacked_with(self, frontier: np.ndarray, others: np.ndarray) -> np.ndarray:
        is_stacked = np.zeros(len(others), dtype=bool)
        step = max(1, _PAIRS_AT_ONCE // max(1, len(others)))
        for start in range(0, len(frontier), step):
            is_stacked |= self.stacked(frontier[start : start + step], others).any(axis=0)
        return others[is_stacked]


def _overlaps(intervals: np.ndarray, rows: np.ndarray, columns: np.ndarray | slice) -> np.ndarray:
    """Return float32 ``(R, C)``: the overlap of each pair of intervals, as a share of the shorter one."""
    starts, ends = intervals[:, 0], intervals[:, 1]
    common = np.minimum(ends[rows][:, None], ends[columns]) - np.maximum(starts[rows][:, None], starts[columns])
    lengths = ends - starts
    shorter = np.minimum(lengths[rows][:, None], lengths[columns])
    ratios: np.ndarray = common.clip(0) / shorter.clip(1e-9)
    return ratios


def _ranks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return int64 ``(N,)``: the rank of each element when sorted by ``first``, then ``second``, then index."""
    order = np.lexsort((second, first))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks
