"""Group words at the same height into lines, rows and phrases, and recognise postal addresses in them.

Lines are split at gutters, the white space between columns of text. Fields are searched in rows and phrases.
"""
# ruff: noqa: RUF001 - bullets

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._field_rules import plain
from ._page import Box, Boxes, PageContent, box_around

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

# The largest gap between two phrases of a stack, in heights. Lines of an address may be spaced like this.
_STACK_GAP = 1.5

# A block of text is an address if at least this many of its lines look like part of one. On 80 generated pairs of
# addresses, 1 and 2 find 77 addresses of suppliers, and 3 finds none. The values of 150 receipts stay the same.
_MIN_ADDRESS_LINES = 2
_MAX_ADDRESS_LINES = 8
_MIN_LETTERS = 3
# Two addresses are next to each other if they overlap vertically by this share of the smaller height. On the same
# pages, 0.1 and 0.25 find 80 addresses of suppliers, 0.5 finds 77, and 0.8 finds 45.
_MIN_LEVEL = 0.25

_STREETS = re.compile(
    r"\b(?:jalan|jln|lorong|lrg|persiaran|taman|tmn|lot|blok|block|level|floor|unit|bandar|kampung|kg|seksyen|"
    r"street|st|road|rd|avenue|ave|lane|drive|boulevard|blvd|suite|square|plaza|mall|building|p\.?o\.? ?box|"
    r"\w*strasse|\w*str|\w*weg|\w*platz|\w*allee|rue|place|chemin|bp|calle|avenida|avda|plaza|paseo|via|piazza|"
    r"straat|\w*straat)\b|\b\d{4,6}\b|\b[a-z]{1,2}\d[a-z\d]? \d[a-z]{2}\b"
)
REGISTRATION = re.compile(
    r"^\W*(?:\(?(?:co(?:mpany)?\W{1,3}reg|co\W{1,3}no|reg|roc|brn|gst|sst)\b.*\d.*|\(?[\w-]*\d{4,}[ -]*\w{0,2}\W*)$"
)

# Words that follow an address, such as other contact details or the kind of document.
_ENDS = re.compile(
    r"\b(?:tel|telephone|phone|fax|hp|mobile|email|e-mail|gst|sst|vat|tax|ust|iva|tva|siret|(?:tax)?invoice|receipt|"
    r"bill|date|datum|fecha|cashier|www|http|https|rechnung|facture|factura|telefon|website|reg|roc|brn|customer|order|"
    r"table|doc|hotline|inv|quittung|recu|ticket|welcome|thank|member|counter|terminal|pos|time|salesperson)\b|@|\bwww\."
)

# A line that heads the address of a customer, not of the writer.
_CUSTOMERS = re.compile(
    r"^\W*(?:(?:bill(?:ed)?|sold|invoiced?|ship(?:ped)?|deliver(?:ed|y)?|customer|client)\b(?: address)?(?: to)?|to|an|"
    r"kunde|rechnung an|(?:rechnungs|liefer)(?:anschrift|adresse|empfaenger|empfanger)|"
    r"adresse de (?:facturation|livraison)|facture a|cliente|facturar a|destinataire|destinatario)\W*$"
)


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


@dataclass(frozen=True)
class Phrase:
    """Words that are next to each other in a row, without a wide gap or a rule (straight line) between them.

    ``words`` has their indices from left to right.
    """

    words: tuple[int, ...]
    box: Box

    @property
    def height(self) -> float:
        return self.box[3] - self.box[1]


@dataclass(frozen=True)
class Row:
    """Phrases that are side by side.

    ``text`` has one space between words and two spaces between phrases. ``starts`` has the offset of each word in
    ``text``.
    """

    phrases: tuple[Phrase, ...]
    words: tuple[int, ...]
    text: str
    starts: tuple[int, ...]
    box: Box

    def words_between(self, start: int, end: int) -> tuple[int, ...]:
        """Return the indices of the words that overlap ``text[start:end]``."""
        first = max(0, bisect_right(self.starts, start) - 1)
        return tuple(word for word, at in zip(self.words[first:], self.starts[first:], strict=True) if at < end)


def box_of_words(content: PageContent, words: Sequence[int]) -> Box:
    return box_around(content.boxes[list(words)])


def text_of_words(content: PageContent, words: Sequence[int]) -> str:
    return " ".join(content.texts[word].strip() for word in words)


def phrases_of(content: PageContent, *, gap: float = 1.0) -> list[Phrase]:
    """Split the text lines of a page into phrases, at vertical rules and at gaps wider than ``gap`` word heights."""
    filled = [index for index, text in enumerate(content.texts) if text.strip()]
    filled.sort(key=lambda index: (int(content.line_ids[index]), float(content.boxes[index, 0])))
    groups: list[list[int]] = []
    for index in filled:
        if groups and _is_same_phrase(content, groups[-1][-1], index, gap):
            groups[-1].append(index)
        else:
            groups.append([index])
    return [Phrase(tuple(group), box_of_words(content, group)) for group in groups]


def _is_same_phrase(content: PageContent, last: int, index: int, gap: float) -> bool:
    boxes, rules = content.boxes, content.vertical_rules
    height = min(boxes[last, 3] - boxes[last, 1], boxes[index, 3] - boxes[index, 1])
    space = boxes[index, 0] - boxes[last, 2]
    if (
        content.line_ids[last] != content.line_ids[index]
        or not -2 * height < space <= gap * _type_size(content, last, index)
        or _overlap(boxes[last], boxes[index]) <= 0.3 * height
    ):
        return False
    left, right = boxes[last, 2] - 0.25 * height, boxes[index, 0] + 0.25 * height
    middle = (boxes[index, 1] + boxes[index, 3]) / 2
    across = (rules[:, 0] + rules[:, 2]) / 2
    return not np.any((across > left) & (across < right) & (rules[:, 1] <= middle) & (rules[:, 3] >= middle))


def _type_size(content: PageContent, first: int, second: int) -> float:
    """Estimate the type size of two neighbouring words from their heights and their mean character width."""
    heights = content.boxes[[first, second], 3] - content.boxes[[first, second], 1]
    widths = content.boxes[[first, second], 2] - content.boxes[[first, second], 0]
    lengths = [len(content.texts[word].strip()) for word in (first, second)]
    letters = float(widths.sum()) / max(1, sum(lengths))
    return max(float(heights.max()), 1.6 * letters)


def rows_of(content: PageContent, phrases: Sequence[Phrase]) -> list[Row]:
    """Group phrases that are side by side into rows. Rows are sorted from top to bottom."""
    rows: list[list[Phrase]] = []
    open_rows: list[list[Phrase]] = []
    for phrase in sorted(phrases, key=lambda phrase: (phrase.box[1] + phrase.box[3], phrase.box[0])):
        open_rows = [row for row in open_rows if row[-1].box[3] > phrase.box[1] - 2 * phrase.height][-16:]
        best, best_share = None, 0.5
        for row in open_rows:
            # Scans are slightly skewed, so a phrase is compared only with its nearest neighbour in the row.
            nearest = min(row, key=lambda other: max(other.box[0] - phrase.box[2], phrase.box[0] - other.box[2]))
            share = _overlap(nearest.box, phrase.box) / max(1e-6, min(nearest.height, phrase.height))
            slack = 0.5 * min(nearest.height, phrase.height)
            beside = all(max(other.box[0] - phrase.box[2], phrase.box[0] - other.box[2]) > -slack for other in row)
            if share > best_share and beside:
                best, best_share = row, share
        if best is None:
            best = []
            rows.append(best)
            open_rows.append(best)
        best.append(phrase)
    return [_make_row(content, sorted(row, key=lambda phrase: phrase.box[0])) for row in rows]


def stacks_of(phrases: Sequence[Phrase]) -> list[list[Phrase]]:
    """Group phrases into stacks: phrases closely below each other that share a left edge, right edge or middle."""
    stacks: list[list[Phrase]] = []
    for phrase in sorted(phrases, key=lambda phrase: (phrase.box[1] + phrase.box[3], phrase.box[0])):
        left, top, right, _ = phrase.box
        for stack in reversed(stacks):
            x0, y0, x1, y1 = stack[-1].box
            height = min(phrase.height, y1 - y0)
            offset = min(abs(left - x0), abs(right - x1), abs(left + right - x0 - x1) / 2)
            if offset <= height and -0.5 * height < top - y1 <= _STACK_GAP * height:
                stack.append(phrase)
                break
        else:
            stacks.append([phrase])
    return stacks


def _make_row(content: PageContent, phrases: list[Phrase]) -> Row:
    text, starts, words = "", [], []
    for phrase in phrases:
        text += " " if text else ""
        for word in phrase.words:
            text += " " if text else ""
            starts.append(len(text))
            words.append(word)
            text += content.texts[word].strip()
    return Row(tuple(phrases), tuple(words), text, tuple(starts), box_of_words(content, words))


def _overlap(first: Sequence[float], second: Sequence[float]) -> float:
    return float(min(first[3], second[3]) - max(first[1], second[1]))


def ends_address(text: str) -> bool:
    """Return whether a line, normalised by `plain`, comes after an address, for example a line of contact details."""
    return _ENDS.search(text) is not None


def is_customer_heading(text: str) -> bool:
    """Return whether a line, normalised by `plain`, is the heading of a customer's address, such as "Bill to:"."""
    return _CUSTOMERS.match(text) is not None


def is_address(text: str) -> bool:
    """Return whether a line, normalised by `plain`, looks like part of an address."""
    return (bool(_STREETS.search(text)) and not REGISTRATION.match(text)) or bool(
        re.match(r"^\W*(?:no\W{0,3}[a-z]?\d|\d{1,5}[a-z]?\s?[,&]|\d{1,5}[a-z]?\s+[a-z]{3,})", text)
    )


def is_address_block(lines: Sequence[str]) -> bool:
    """Return whether lines, one below the other, begin with a postal address, with or without a heading and a name."""
    texts = [plain(line) for line in lines]
    if texts and (texts[0].rstrip().endswith(":") or is_customer_heading(texts[0])):
        del texts[0]
    length = next((number for number, text in enumerate(texts) if ends_address(text)), len(texts))
    texts = texts[: min(length, _MAX_ADDRESS_LINES + 1)]
    if len(texts) > _MAX_ADDRESS_LINES or any(sum(map(str.isalpha, text)) < _MIN_LETTERS for text in texts):
        return False
    return sum(map(is_address, texts)) >= _MIN_ADDRESS_LINES


def adjacent_addresses(boxes: Sequence[Box], texts: Sequence[Sequence[str]]) -> list[list[int]]:
    """Find address blocks that are next to each other, such as those of a supplier and a customer.

    Args:
        boxes: The box of each block of text on the page.
        texts: The lines of each block.

    Returns:
        For each group of such addresses, from top to bottom, the indices of its blocks from left to right.
    """
    found = [index for index, lines in enumerate(texts) if is_address_block(lines)]
    groups: list[list[int]] = []
    for index in sorted(found, key=lambda index: boxes[index][0]):
        left, top, _, bottom = boxes[index]
        for group in groups:
            _, y0, x1, y1 = boxes[group[-1]]
            if left >= x1 and min(bottom, y1) - max(top, y0) > _MIN_LEVEL * min(bottom - top, y1 - y0):
                group.append(index)
                break
        else:
            groups.append([index])
    return sorted((group for group in groups if len(group) > 1), key=lambda group: boxes[group[0]][1])
