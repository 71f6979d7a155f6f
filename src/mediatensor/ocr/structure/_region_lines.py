"""Group words at the same height into lines. Lines are split at gutters, the white space between columns of text."""
# ruff: noqa: RUF001 - bullets

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._page import Box, Boxes, PageContent, box_around

__all__ = ["BULLETS", "MARK", "TextLine", "lines_of", "lines_of_words"]

# Marks of list items: a bullet, a number, a letter, or a number in brackets.
BULLETS = frozenset("•‣◦▪■□●○–—-*·∙➢✓§")
MARK = re.compile(
    r"^(?:[•‣◦▪■□●○–—\-*·∙➢✓o§]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]|\[[\w+\-]{1,12}\]"
    r"|\d{1,2}(?:\.\d{1,2}){1,3}\.?)$"
)

# Two words on one line overlap vertically by this share of the smaller height. Words read as one line need to overlap
# less.
_LEVEL_OVERLAP = 0.5
_LEVEL_OVERLAP_KNOWN = 0.25
# In heights: the largest gap between words of a line, and the largest overlap.
_MAX_GAP = 2.2
_MAX_OVERLAP = 0.6
# (width of a gap in heights, number of lines that it must run along to be a gutter).
_GUTTERS = ((0.6, 6.0), (1.0, 3.0), (1.6, 2.0))
# The grid for gutters: cells per line height, and the largest number of cells in each direction.
_CELLS = 4
_MAX_CELLS = 2400
# A gutter has text on both sides within this distance, in cells.
_BESIDE = 12 * _CELLS
# Characters with descenders, and the largest ratio of the heights of words with and without them.
_DESCENDERS = frozenset("gjpqyQ,;()[]{}|ßç")
_MAX_RATIO = 2.5
# Letter heights are measured only if at least this many words have such letters.
_MIN_SAMPLE = 6
# Only this many candidates for the next word are compared. Only piled-up boxes have more.
_MAX_CANDIDATES = 24


@dataclass(frozen=True, eq=False)
class TextLine:
    """A line of text in one column.

    Attributes:
        words: Indices of the words, from left to right.
        box: Box around the words.
        size: Type size as stated in the file, otherwise estimated from the words.
        baseline: Position of the bottom of the line. Space for descenders is included even if no letter has one.
        bold: Share of the letters that are bold.
        texts: Texts of the words.
    """

    words: tuple[int, ...]
    box: Box
    size: float
    baseline: float
    bold: float
    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    @property
    def width(self) -> float:
        return self.box[2] - self.box[0]


def lines_of(page: PageContent, chosen: NDArray[np.int64], walls: Boxes) -> list[TextLine]:
    """Group the words with the indices ``chosen`` into lines. Lines are sorted from top to bottom.

    Lines are split at gutters between columns. A gutter ends at tables and pictures, whose boxes are the ``walls``.
    """
    if len(chosen) == 0:
        return []
    boxes = page.boxes[chosen]
    texts = [page.texts[index] for index in chosen]
    extents = _full_extents(boxes, texts)
    heights = np.maximum(extents[:, 1] - extents[:, 0], 1e-6)
    height = float(np.median(heights))
    following = _next_words(boxes, heights, height, page.line_ids[chosen])
    following = _cut_at_gutters(following, boxes, heights, height, walls, page)
    groups = _join_strays(_chains(following), boxes, height)
    sizes = page.font_sizes[chosen]
    sizes = np.where(np.isfinite(sizes), sizes, _type_sizes(boxes, extents, texts))
    lines = [_make_line(page, chosen[group], sizes[group], extents[group]) for group in groups]
    return sorted(lines, key=lambda line: (line.box[1], line.box[0]))


def _full_extents(boxes: Boxes, texts: list[str]) -> NDArray[np.float64]:
    """Return the top and bottom of each word as if it had letters with descenders, float64 (N, 2).

    Boxes may enclose only the ink. The missing height is then estimated from the words that have such letters.
    """
    heights = boxes[:, 3] - boxes[:, 1]
    hangs = np.array([any(character in _DESCENDERS for character in text) for text in texts])
    extents = boxes[:, 1::2].copy()
    if _MIN_SAMPLE <= hangs.sum() <= len(hangs) - _MIN_SAMPLE:
        ratio = np.median(heights[hangs]) / max(np.median(heights[~hangs]), 1e-6)
        extents[~hangs, 1] += (np.clip(ratio, 1, _MAX_RATIO) - 1) * heights[~hangs]
    return extents


def _type_sizes(boxes: Boxes, extents: NDArray[np.float64], texts: list[str]) -> NDArray[np.float64]:
    """Return the type size of each word, float64 (N,), estimated from its height and the width of its letters.

    Heights are imprecise, because text detectors work at a low resolution. Widths are more precise, because they are
    averages over many letters.
    """
    heights = np.maximum(extents[:, 1] - extents[:, 0], 1e-6)
    units = np.array([sum(map(_width_of, text)) for text in texts])
    widths = np.maximum(boxes[:, 2] - boxes[:, 0], 1e-6) / np.maximum(units, 0.2)
    long = units > 1.2
    if long.sum() < _MIN_SAMPLE:
        return heights
    scale = float(np.median(heights[long] / widths[long]))
    sizes: NDArray[np.float64] = np.where(long, np.sqrt(heights * widths * scale), heights)
    # Letter spacing or an unusual font makes widths less reliable than heights.
    return sizes.clip(0.8 * heights, 1.25 * heights)


def _width_of(character: str) -> float:
    """Return the typical width of a character, in type sizes."""
    if character in "ijl.,;:'!|()[]-":
        return 0.28
    if character in "frtI/":
        return 0.36
    if character in "mwMW":
        return 0.82
    return 0.67 if character.isupper() else 0.51


def _make_line(
    page: PageContent, words: NDArray[np.int64], sizes: NDArray[np.float64], extents: NDArray[np.float64]
) -> TextLine:
    order = np.argsort(page.boxes[words, 0], kind="stable")
    words, sizes, extents = words[order], sizes[order], extents[order]
    boxes = page.boxes[words]
    lengths = np.array([len(page.texts[index]) for index in words], dtype=np.float64)
    return TextLine(
        tuple(int(word) for word in words),
        box_around(boxes),
        max(_weighted_median(sizes, lengths), 1e-6),
        _weighted_median(extents[:, 1], lengths),
        float((page.is_bold[words] * lengths).sum() / max(1.0, lengths.sum())),
        tuple(page.texts[word] for word in words),
    )


def _weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order[min(len(values) - 1, int(np.searchsorted(sums, sums[-1] / 2)))]])


def _next_words(
    boxes: Boxes, heights: NDArray[np.float64], height: float, line_ids: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return, for each word, the index of the next word in its line, int64 (N,); -1 for the last word of a line."""
    middles = (boxes[:, 1] + boxes[:, 3]) / 2
    rows = np.floor(middles / height).astype(np.int64)
    order = np.lexsort((boxes[:, 0], rows))
    row_starts = np.searchsorted(rows[order], np.arange(rows.min() - 1, rows.max() + 3))
    lefts = boxes[order, 0]
    first_row = int(rows.min()) - 1
    best: dict[int, tuple[float, int]] = {}
    for word in range(len(boxes)):
        own = max(heights[word], height)
        reach = own * _MAX_GAP
        found: tuple[float, int] | None = None
        for row in range(int(rows[word]) - 1, int(rows[word]) + 2):
            start, stop = row_starts[row - first_row], row_starts[row - first_row + 1]
            begin = start + int(np.searchsorted(lefts[start:stop], boxes[word, 2] - _MAX_OVERLAP * own))
            end = start + int(np.searchsorted(lefts[start:stop], boxes[word, 2] + reach, side="right"))
            for place in range(begin, min(end, begin + _MAX_CANDIDATES)):
                other = int(order[place])
                if other == word or lefts[place] <= boxes[word, 0]:
                    continue
                common = min(boxes[word, 3], boxes[other, 3]) - max(boxes[word, 1], boxes[other, 1])
                share = _LEVEL_OVERLAP_KNOWN if line_ids[word] == line_ids[other] else _LEVEL_OVERLAP
                if common <= share * min(heights[word], heights[other]):
                    continue
                gap = float(lefts[place] - boxes[word, 2])
                # Overlapping words are seldom neighbours: an exponent may touch the line above.
                distance = max(gap, -2 * gap) + 0.5 * abs(float(middles[other] - middles[word]))
                if found is None or distance < found[0]:
                    found = (distance, other)
        if found is not None and (found[1] not in best or found[0] < best[found[1]][0]):
            best[found[1]] = (found[0], word)
    following = np.full(len(boxes), -1, dtype=np.int64)
    for other, (_, word) in best.items():
        following[word] = other
    return following


def _cut_at_gutters(
    following: NDArray[np.int64],
    boxes: Boxes,
    heights: NDArray[np.float64],
    height: float,
    walls: Boxes,
    page: PageContent,
) -> NDArray[np.int64]:
    """Split lines at gutters, the white space between columns of text.

    For each word, ``following`` has the index of the next word in the line. In the result, it is -1 for the last word
    before a gutter.
    """
    firsts = np.flatnonzero(following >= 0)
    gaps = boxes[following[firsts], 0] - boxes[firsts, 2]
    wide = gaps >= _GUTTERS[0][0] * heights[firsts]
    firsts, gaps = firsts[wide], gaps[wide]
    if len(firsts) == 0:
        return following
    lengths, cell = _gutter_lengths(boxes, height, walls, page)
    following = following.copy()
    for first, gap in zip(firsts.tolist(), gaps.tolist(), strict=True):
        second = int(following[first])
        row = int((boxes[first, 1] + boxes[first, 3]) / 2 / cell)
        start, stop = round(boxes[first, 2] / cell), max(round(boxes[second, 0] / cell), 1)
        run = lengths[min(row, len(lengths) - 1), min(start, stop - 1) : stop].max(initial=0) / _CELLS
        size = max(height, min(heights[first], heights[second]))
        if any(gap >= least * size and run >= lines for least, lines in _GUTTERS):
            following[first] = -1
    return following


def _gutter_lengths(boxes: Boxes, height: float, walls: Boxes, page: PageContent) -> tuple[NDArray[np.int32], float]:
    """Find gutters on a grid over the page.

    Return, for each cell of the grid, the length of the vertical white space through this cell, in cells. The length is
    0 if the cell has ink. Also return the side of a cell in the unit of the page.
    """
    cell = max(height / _CELLS, page.width / _MAX_CELLS, page.height / _MAX_CELLS)
    rows, columns = int(page.height / cell) + 2, int(page.width / cell) + 2
    ink = np.zeros((rows, columns), dtype=bool)
    for left, top, right, bottom in np.rint(boxes / cell).astype(np.int64).clip(0).tolist():
        ink[top : max(bottom, top + 1), left : max(right, left + 1)] = True
    places = np.arange(columns, dtype=np.int32)
    far = np.int32(-2 * _BESIDE)
    to_left = places - np.maximum.accumulate(np.where(ink, places, far), axis=1)
    to_right = np.minimum.accumulate(np.where(ink, places, columns - far)[:, ::-1], axis=1)[:, ::-1] - places
    beside = (to_left <= _BESIDE) & (to_right <= _BESIDE)
    for left, top, right, bottom in np.rint(walls / cell).astype(np.int64).clip(0).tolist():
        ink[top:bottom, left:right] = True
    # White space counts only if it is two cells wide.
    ink[:, :-1] |= ink[:, 1:]
    counts = np.cumsum(beside & ~ink, axis=0, dtype=np.int32)
    above = counts - np.maximum.accumulate(np.where(ink, counts, 0), axis=0)
    total = counts[-1]
    below = np.minimum.accumulate(np.where(ink, counts, total)[::-1], axis=0)[::-1] - counts
    lengths: NDArray[np.int32] = np.where(ink, 0, above + below)
    return lengths, cell


def _chains(following: NDArray[np.int64]) -> list[list[int]]:
    begins = np.ones(len(following), dtype=bool)
    begins[following[following >= 0]] = False
    seen = np.zeros(len(following), dtype=bool)
    chains = []
    # Words on top of each other can form a cycle, which is cut anywhere.
    for begin in [*np.flatnonzero(begins).tolist(), *range(len(following))]:
        chain = []
        word = begin
        while word >= 0 and not seen[word]:
            seen[word] = True
            chain.append(word)
            word = int(following[word])
        if chain:
            chains.append(chain)
    return chains


def _join_strays(chains: list[list[int]], boxes: Boxes, height: float) -> list[NDArray[np.int64]]:
    """Add small groups of words, such as subscripts and exponents, to the line that they overlap."""
    groups = [np.array(chain) for chain in chains]
    if len(groups) == 1:
        return groups
    outer = np.array([box_around(boxes[group]) for group in groups])
    widths, tall = outer[:, 2] - outer[:, 0], outer[:, 3] - outer[:, 1]
    order = np.argsort(outer[:, 1], kind="stable")
    tops = outer[order, 1]
    tallest = float(np.minimum(tall, 3 * height).max())
    target = np.arange(len(groups))
    for stray in np.flatnonzero((widths < 2.5 * height) & (tall < 3 * height)).tolist():
        begin = int(np.searchsorted(tops, outer[stray, 1] - tallest))
        end = int(np.searchsorted(tops, outer[stray, 3]))
        near = order[begin : min(end, begin + 40 * _MAX_CANDIDATES)]
        common = np.minimum(outer[near, 2:], outer[stray, 2:]) - np.maximum(outer[near, :2], outer[stray, :2])
        inside = (common[:, 0] > 0.3 * widths[stray]) & (common[:, 1] > 0.4 * tall[stray])
        inside &= (near != stray) & (widths[near] > 2 * widths[stray]) & (tall[near] < 3 * height)
        if inside.any():
            target[stray] = near[int(np.where(inside, common[:, 1], -1).argmax())]
    merged: dict[int, list[int]] = {}
    for index, group in enumerate(groups):
        home = index
        while target[home] != home:
            home = int(target[home])
        merged.setdefault(home, []).extend(group.tolist())
    return [np.array(group) for group in merged.values()]


def lines_of_words(content: PageContent, words: Sequence[int]) -> list[str]:
    """Return the text of each detected line among ``words``, in the order of their first words."""
    texts: dict[int, list[str]] = {}
    for word in words:
        texts.setdefault(int(content.line_ids[word]), []).append(content.texts[word])
    return [" ".join(line) for line in texts.values()]
