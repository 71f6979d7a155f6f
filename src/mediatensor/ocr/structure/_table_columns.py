"""Find the columns of a table: between rules, and along gaps that continue through its lines."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ._page import Box, PageContent
from ._table_text import Run

# At most this share of rows may have text across a column gap. Heads and titles often do.
_ACROSS_SHARE = 0.2
# Narrower columns, in type heights, have no space for text.
_SLIT = 1.2

_SIGN_BEFORE = re.compile(r"[$€£¥(<>±~]+$")
_SIGN_AFTER = re.compile(r"[%‰)*†‡]+$")

#: Rules, float64 (N, 3): the position across the rule, then its start and end.
Segments = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TableArea:
    """The box of a table, with its words and rules. In a lattice, these rules are connected, like cell borders."""

    box: Box
    words: Sequence[int]
    horizontal: Segments
    vertical: Segments
    is_lattice: bool


def column_edges(lines: Sequence[Sequence[Run]], ruled: Sequence[float], em: float, has_posts: bool) -> list[float]:
    """Return the column edges: rules, and gaps that continue through the rows."""
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
    """Return the middles of the gaps between the columns of a band.

    ``closed_height`` is the height of a table that has rules next to the band. Between rules, only a gap that
    continues over most of the table separates columns; a shorter gap is inside a cell.
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
    """Split wide gaps at the few runs inside them, because these runs are the entries of a nearly empty column."""
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
    """Join lines that overlap vertically, such as a cell with one line next to cells with two lines."""
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
    """Drop edges that have text on both sides in only a few lines, such as chance gaps and indents."""
    count = len(lines)
    needed = max(2, int((0.5 if is_closed else 0.15) * count)) if count > 2 else 1
    edges = list(edges)
    while edges:
        bounds = np.array([left, *edges, right])
        both = np.zeros(len(edges), dtype=np.int64)
        for line in lines:
            columns = {int(np.searchsorted(bounds, (run.x0 + run.x1) / 2)) - 1 for run in line}
            for column in columns:
                if column + 1 in columns and 0 <= column < len(edges):
                    both[column] += 1
        weakest = int(np.argmin(both))
        if both[weakest] >= needed:
            break
        # A nearly empty column is judged only by the lines in which it has text.
        filled = np.zeros(len(edges) + 1, dtype=np.int64)
        for line in lines:
            for run in line:
                filled[min(max(int(np.searchsorted(bounds, (run.x0 + run.x1) / 2)) - 1, 0), len(edges))] += 1
        sparse = min(filled[weakest], filled[weakest + 1])
        if not is_closed and sparse and both[weakest] >= max(1, 0.5 * sparse):
            both[weakest] = needed
            strong = True
            for at in range(len(edges)):
                if both[at] >= needed:
                    continue
                low = min(filled[at], filled[at + 1])
                if not low or both[at] < max(1, 0.5 * low):
                    strong, weakest = False, at
                    break
            if strong:
                break
        del edges[weakest]
    return edges


def drop_sign_columns(
    content: PageContent, lines: Sequence[Sequence[Run]], xs: list[float], ruled: set[float]
) -> list[float]:
    """Join columns of only currency signs, per cent signs or brackets to the column with their numbers."""
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


def drop_slits(content: PageContent, words: Sequence[int], xs: list[float], em: float) -> list[float]:
    """Drop narrow columns without text, which are the space between a border and a shaded area."""
    middles = (content.boxes[list(words), 0] + content.boxes[list(words), 2]) / 2
    counts = np.histogram(middles, xs)[0]
    kept = [xs[0]]
    for at, right in enumerate(xs[1:]):
        if counts[at] == 0 and right - kept[-1] < _SLIT * em:
            # Keep the outer edge.
            if at + 2 == len(xs) and len(kept) > 1:
                kept[-1] = right
            continue
        kept.append(right)
    if kept[-1] != xs[-1]:
        kept.append(xs[-1])
    return kept


def rule_places(rules: Segments, start: float, end: float, em: float) -> list[float]:
    """Return the start of an area, the positions of the rules inside it, and its end."""
    inner = cluster_means([at for at, _, _ in rules if start + 0.5 * em < at < end - 0.5 * em], 0.5 * em)
    return [start, *inner, end]


def clusters(values: NDArray[np.float64], reach: float) -> list[tuple[int, int]]:
    """Split sorted values into clusters at most ``reach`` wide, and return the index range of each."""
    parts, first = [], 0
    for at in range(1, len(values) + 1):
        if at == len(values) or values[at] - values[first] > reach:
            parts.append((first, at))
            first = at
    return parts


def cluster_means(values: Sequence[float], reach: float) -> list[float]:
    """Return the means of clusters of values. Each cluster is at most ``reach`` wide."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    return [float(ordered[first:last].mean()) for first, last in clusters(ordered, reach)]
