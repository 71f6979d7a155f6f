"""Prepare the text of a page for table detection: runs of words, lines of runs, and column edges."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ._page import Box, PageContent, box_around

# Running text has at least this many words a line.
_PROSE_WORDS = 4.0
# In running text, at least this share of lines end because the next word would not fit.
_FULL_SHARE = 0.6

# At most this share of rows may have text across a column gap. Heads and titles often do.
_ACROSS_SHARE = 0.2

_SIGN_BEFORE = re.compile(r"[$€£¥(<>±~]+$")
_SIGN_AFTER = re.compile(r"[%‰)*†‡]+$")
_NUMBER = re.compile(
    r"""^[(\[<>≤≥~±+\-\u2010-\u2015\u2212$€£¥]*\s*       # signs and currencies
        (?:\d[\d.,'\u2019\u00a0\u202f\s/:]*|[.,]\d+)     # digits with points, commas, spaces
        \s*[%‰)\]*†‡§a-d°]{0,4}$                         # signs and marks of notes
        |^[-\u2010-\u2015\u2212.:*]{1,3}$|^n[./]?a\.?$   # no value
    """,
    re.VERBOSE | re.IGNORECASE,
)

_LEADER = re.compile(r"[.…·_]{3,}$")


@dataclass(frozen=True, slots=True)
class Run:
    """Words that follow each other on a line without a wide gap, from left to right, and the box around them."""

    x0: float
    y0: float
    x1: float
    y1: float
    words: tuple[int, ...]

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2


def type_height(boxes: NDArray[np.float64]) -> float:
    """Return the median word height, the unit in which gaps are measured; 1 if there are no words."""
    heights = boxes[:, 3] - boxes[:, 1]
    heights = heights[heights > 0]
    return float(np.median(heights)) if len(heights) else 1.0


def cut_leaders(content: PageContent, max_words: int) -> PageContent:
    """Cut off leaders, the dots between a label and its number, from the ends of word boxes.

    All words after the first ``max_words`` are dropped.
    """
    if len(content.boxes) > max_words:
        keep = slice(0, max_words)
        content = replace(
            content, boxes=content.boxes[keep], texts=content.texts[keep], line_ids=content.line_ids[keep],
            confidences=content.confidences[keep], font_sizes=content.font_sizes[keep], is_bold=content.is_bold[keep],
            turns=content.turns[keep],
        )  # fmt: skip
    boxes = content.boxes.copy()
    for word, text in enumerate(content.texts):
        leader = _LEADER.search(text)
        if leader:
            share = leader.start() / len(text)
            boxes[word, 2] = boxes[word, 0] + share * (boxes[word, 2] - boxes[word, 0])
    return replace(content, boxes=boxes)


def is_number(text: str) -> bool:
    """Return whether a text is a number, such as "(12%)", or stands for a missing one, such as "-" or "n.a."."""
    return _NUMBER.match(text.strip()) is not None


def runs_of(content: PageContent, words: Iterable[int], gap: float) -> list[Run]:
    """Divide ``words`` into runs: words that follow each other on a line, without a gap wider than ``gap``."""
    by_line: dict[int, list[int]] = defaultdict(list)
    for word in words:
        by_line[int(content.line_ids[word])].append(word)
    boxes, runs = content.boxes, []
    for members in by_line.values():
        members.sort(key=lambda word: boxes[word, 0])
        at, end = 0, -np.inf
        for number, word in enumerate(members):
            if number > at and boxes[word, 0] - end > gap:
                runs.append(join_run(boxes, members[at:number]))
                at, end = number, -np.inf
            end = max(end, boxes[word, 2])
        runs.append(join_run(boxes, members[at:]))
    return runs


def join_run(boxes: NDArray[np.float64], words: Sequence[int]) -> Run:
    return Run(*box_around(boxes[list(words)]), tuple(words))


def lines_of(runs: Sequence[Run]) -> list[list[Run]]:
    """Group runs (words without wide gaps) at the same height into lines, which are sorted from top to bottom.

    Each line is sorted from left to right.
    """
    lines: list[list[Run]] = []
    top = bottom = 0.0
    for run in sorted(runs, key=lambda run: run.middle):
        shared = min(bottom, run.y1) - max(top, run.y0)
        if lines and shared >= 0.5 * min(bottom - top, run.y1 - run.y0):
            lines[-1].append(run)
            count = len(lines[-1])
            # Use the means of top and bottom, so that a tall run does not take in the next line.
            top, bottom = top + (run.y0 - top) / count, bottom + (run.y1 - bottom) / count
        else:
            lines.append([run])
            top, bottom = run.y0, run.y1
    for line in lines:
        line.sort(key=lambda run: run.x0)
    return lines


def is_wrapped(content: PageContent, stack: Sequence[Run], em: float) -> bool:
    """Return whether the lines in ``stack`` are running text.

    Lines of running text are long, and most of them end where the next word would not fit.
    """
    right = max(run.x1 for run in stack)
    full = []
    for run, after in pairwise(stack):
        first = content.boxes[after.words[0]]
        full.append(run.x1 + 0.25 * em + (first[2] - first[0]) > right - 0.25 * em)
    # Only full lines count for the length, because short lines end paragraphs.
    lengths = [len(run.words) for run, is_full in zip(stack, full, strict=False) if is_full]
    if not lengths or len(lengths) < _FULL_SHARE * len(full):
        return False
    return float(np.mean(lengths)) >= _PROSE_WORDS and right - min(run.x0 for run in stack) >= 12 * em


#: Rules, float64 (N, 3): the position across the rule, then its start and end.
Segments = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TableArea:
    """An area of a page that may be a table, with its words and rules (straight lines).

    ``is_lattice`` is true if the rules are connected, as the borders of cells are.
    """

    box: Box
    words: Sequence[int]
    horizontal: Segments
    vertical: Segments
    is_lattice: bool


def column_edges(lines: Sequence[Sequence[Run]], ruled: Sequence[float], em: float, has_posts: bool) -> list[float]:
    """Return the positions of the column edges of a table: vertical rules, and gaps that continue from row to row.

    ``ruled`` are the positions of the vertical rules, and of the left and right edge of the table.
    """
    xs = [ruled[0]]
    height = lines[-1][0].y1 - lines[0][0].y0
    for left, right in pairwise(ruled):
        band = []
        for line in lines:
            # A run that extends beyond the band is a head over several columns.
            own = [
                run
                for run in line
                if left <= (run.x0 + run.x1) / 2 <= right and run.x0 > left - 0.5 * em and run.x1 < right + 0.5 * em
            ]
            if own:
                band.append(own)
        if band:
            xs += column_gaps(band, left, right, em, height if has_posts and len(ruled) > 2 else None)
        xs.append(right)
    return xs


def column_gaps(
    lines: Sequence[Sequence[Run]], left: float, right: float, em: float, closed_height: float | None = None
) -> list[float]:
    """Find columns between ``left`` and ``right`` by the gaps between their texts. Return the middle of each gap.

    ``closed_height`` is the height of the table if vertical rules separate other columns of the table, else None. If
    there are such rules, a gap separates columns only if there are texts on both sides of it over at least half of this
    height. Otherwise it is a gap inside a cell.
    """
    is_closed = closed_height is not None
    count = len(lines)
    if count < 2:
        # The parts of a single line may or may not be cells.
        return []
    allowed = 0 if is_closed or count < 4 else max(1, int(_ACROSS_SHARE * count))
    least = (1.0 if count < 3 else 0.7 if count < 6 else 0.5) * em
    if is_closed:
        least = max(least, 0.8 * em)
    step = em / 8
    size = min(int((right - left) / step) + 2, 20_000)
    step = (right - left) / (size - 1) if size > 1 else step
    change = np.zeros(size + 1, dtype=np.int64)
    bins = [
        [(max(0, int((run.x0 - left) / step)), min(size, max(0, int(np.ceil((run.x1 - left) / step))))) for run in line]
        for line in lines
    ]
    for line in bins:
        for first, last in line:
            change[first] += 1
            change[max(last, first + 1) if first < size else size] -= 1
    is_free = np.cumsum(change)[:size] <= allowed
    flips = np.nonzero(np.diff(np.concatenate([[False], is_free, [False]]).astype(np.int8)))[0].reshape(-1, 2)
    valleys = [(int(first), int(last)) for first, last in flips]
    if allowed:
        valleys = _split_valleys(valleys, bins)
    wide = [(first, last) for first, last in valleys if (last - first) * step >= least and first > 0 and last < size]
    edges = [left + (first + last) / 2 * step for first, last in wide]
    if closed_height is not None:
        several = [line[0].middle for line in lines if len(line) > 1]
        if not several or several[-1] - several[0] < 0.5 * closed_height:
            return []
    return _drop_weak_edges(_level_blocks(lines, em), edges, left, right, is_closed=is_closed)


def _split_valleys(
    valleys: Sequence[tuple[int, int]], bins: Sequence[Sequence[tuple[int, int]]]
) -> list[tuple[int, int]]:
    """Split gaps between columns at the few words inside them, which are the entries of a nearly empty column.

    ``valleys`` are the gaps, and ``bins`` the runs of each line, all as (start, end).
    """
    starts = np.array([first for first, _ in valleys])
    inside: list[list[tuple[int, int]]] = [[] for _ in valleys]
    for line in bins:
        for first, last in line:
            at = int(np.searchsorted(starts, first, side="right")) - 1
            if at >= 0 and first > valleys[at][0] and last < valleys[at][1]:
                inside[at].append((first, last))
    parted = []
    for (first, last), own in zip(valleys, inside, strict=True):
        at = first
        for start, end in sorted(own):
            if start > at:
                parted.append((at, start))
            at = max(at, end)
        parted.append((at, last))
    return parted


def _level_blocks(lines: Sequence[Sequence[Run]], em: float) -> list[list[Run]]:
    """Join lines that overlap vertically, for example a cell with one line of text next to cells with two lines."""
    blocks: list[list[Run]] = []
    bottom = -np.inf
    for line in lines:
        top = min(run.y0 for run in line)
        if blocks and top < bottom - 0.25 * em:
            blocks[-1] += line
        else:
            blocks.append(list(line))
            bottom = -np.inf
        bottom = max(bottom, *(run.y1 for run in line))
    return blocks


def _drop_weak_edges(
    lines: Sequence[Sequence[Run]], edges: list[float], left: float, right: float, *, is_closed: bool
) -> list[float]:
    """Drop column edges that have text on both sides in only a few lines, because they are chance gaps or indents."""
    count = len(lines)
    needed = max(2, int((0.5 if is_closed else 0.15) * count)) if count > 2 else 1
    edges = list(edges)
    while edges:
        bounds = np.array([left, *edges, right])
        both = np.zeros(len(edges), dtype=np.int64)
        filled = np.zeros(len(edges) + 1, dtype=np.int64)
        for line in lines:
            columns = [int(np.searchsorted(bounds, (run.x0 + run.x1) / 2)) - 1 for run in line]
            for column in columns:
                filled[min(max(column, 0), len(edges))] += 1
            for column in {*columns}:
                if column + 1 in columns and 0 <= column < len(edges):
                    both[column] += 1
        is_weak = both < needed
        if not is_closed:
            # A nearly empty column is judged only by the lines in which it has text.
            sparse = np.minimum(filled[:-1], filled[1:])
            is_weak &= (sparse == 0) | (both < np.maximum(1, 0.5 * sparse))
        if not is_weak.any():
            break
        weakest = int(both.argmin())
        del edges[weakest if is_weak[weakest] else int(is_weak.argmax())]
    return edges


def drop_sign_columns(
    content: PageContent, lines: Sequence[Sequence[Run]], xs: list[float], ruled: set[float]
) -> list[float]:
    """Join each column that has only currency signs, per cent signs or brackets to the adjacent column of numbers.

    Return the remaining column edges. Edges in ``ruled`` are always kept.
    """
    texts: list[list[str]] = [[] for _ in xs[1:]]
    for line in lines:
        for run in line:
            for word in run.words:
                at = bisect_left(xs, (content.boxes[word, 0] + content.boxes[word, 2]) / 2) - 1
                if 0 <= at < len(texts):
                    texts[at].append(content.texts[word])
    dropped = set()
    for at, own in enumerate(texts):
        if own and at + 1 < len(texts) and all(_SIGN_BEFORE.match(text) for text in own):
            dropped.add(xs[at + 1])
        elif own and at and all(_SIGN_AFTER.match(text) for text in own):
            dropped.add(xs[at])
    return [x for x in xs if x in ruled or x not in dropped]


def rule_places(rules: Segments, start: float, end: float, em: float) -> list[float]:
    """Return the positions that divide an area: its ``start``, the rules inside it, and its ``end``."""
    places = np.sort([at for at, _, _ in rules if start + 0.5 * em < at < end - 0.5 * em])
    return [start, *(float(places[first:last].mean()) for first, last in clusters(places, 0.5 * em)), end]


def clusters(values: NDArray[np.float64], reach: float) -> list[tuple[int, int]]:
    """Split sorted values into clusters at most ``reach`` wide, and return the index range of each."""
    parts, first = [], 0
    for at in range(1, len(values) + 1):
        if at == len(values) or values[at] - values[first] > reach:
            parts.append((first, at))
            first = at
    return parts
