"""Find the regions of a page in reading order, and join words that were hyphenated at line ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .._reading_order.boxes import detect_text_direction
from ._page import (
    Box,
    Boxes,
    FoundRegion,
    FoundTable,
    PageContent,
    are_inside,
    box_around,
    gaps_between,
    turned_back,
)
from ._region_blocks import Block, blocks_of, pictures_of
from ._region_kinds import FIGURE, PageLook, is_captioned, kinds_of, levels_of
from ._text_lines import adjacent_addresses, lines_of, lines_of_words

# The largest number of words in one line of a picture label.
_MAX_LABEL_WORDS = 12
# The largest distance between a caption and its figure or table, in type sizes.
_CAPTION_REACH = 4.0

# Reading order: two parts may overlap by this share of the smaller part.
_SLACK = 0.1
# At least this share of the width of a part must be inside its column.
_HELD_SHARE = 0.9
# Pages with more parts are read row by row.
_MAX_PARTS = 600

# Kinds of regions that may be an address.
_TEXTS = ("Text", "Section-header")

_HYPHENATED = re.compile(r"(?P<word>[^\s]*[^\W_])(?P<hyphen>[-\u2010\u00ad])$")
_FIRST_WORD = re.compile(r"\w+")
_LETTERS = re.compile(r"[^\W\d_]+")
# Both halves of a compound have at least this many letters.
_MIN_LETTERS = 4


def find_regions(content: PageContent, tables: Sequence[FoundTable] = ()) -> list[FoundRegion]:
    """Find the regions of a page, such as titles, paragraphs, tables and pictures, in reading order.

    Words are joined into lines, and lines into paragraphs. Paragraphs are classified by type size and weight, position,
    bullets or numbers at the start, and neighbours. In reading order, page headers come first, then the columns one
    after the other, and last the footnotes and page footers. Captions come next to their figure or table.

    Args:
        content: The words, rules (straight lines) and pictures of an upright page.
        tables: Tables from `find_tables`. Each becomes a region of the kind ``"Table"``, with all words inside it.

    Returns:
        A list of regions in reading order. Each word is in at most one region.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.structure import PageContent, find_regions
        >>> boxes = np.array([[10, 10, 60, 30], [10, 60, 50, 70], [54, 60, 90, 70], [10, 73, 40, 83]], float)
        >>> page = PageContent(
        ...     100, 140, boxes, ("Title", "Some", "running", "text."), np.array([0, 1, 1, 2]), np.ones(4),
        ...     np.full(4, np.nan), np.array([True, False, False, False]),
        ... )
        >>> [(region.kind, region.words) for region in find_regions(page)]
        [('Title', (0,)), ('Text', (1, 2, 3))]
    """
    if detect_text_direction(content.texts) == "rtl":
        mirrored = [replace(table, box=_mirror_box(table.box, content.width)) for table in tables]
        found = _find_upright(_mirror(content), mirrored)
        # Mirroring twice can round a coordinate, but the region of a table has exactly the table's box.
        exact = {mirror.box: table.box for mirror, table in zip(mirrored, tables, strict=True)}
        return [
            replace(region, box=exact.get(region.box) or _mirror_box(region.box, content.width)) for region in found
        ]
    return _find_upright(content, tables)


def _find_upright(content: PageContent, tables: Sequence[FoundTable]) -> list[FoundRegion]:
    """Find the regions of a page that is read from left to right. Other pages must be mirrored first."""
    tables = [table for table in tables if not _is_figure(table, content)]
    table_boxes = np.array([table.box for table in tables], dtype=np.float64).reshape(-1, 4)
    of_table, free = _table_words(content, tables, table_boxes)
    is_sideways = content.turns[free] % 180 == 90
    sideways, free = free[is_sideways], free[~is_sideways]
    walls = np.concatenate([table_boxes, content.pictures])
    lines = lines_of(content, free, walls)
    if lines:
        sizes = np.repeat([line.size for line in lines], [max(1, len(line.text)) for line in lines])
        size = float(np.median(sizes))
    else:
        size = content.height / 60
    blocks = blocks_of(lines, content.horizontal_rules)
    rules = np.concatenate([content.horizontal_rules, content.vertical_rules])
    is_label = [_is_label(block) for block in blocks]
    pictures, labels = pictures_of(content.pictures, rules, blocks, is_label, table_boxes, size)
    labelling = {index for group in labels for index in group}
    letters = [len(content.texts[index]) for index in free]
    look = PageLook(
        content.width,
        content.height,
        size,
        float((content.is_bold[free] * letters).sum() / max(1, sum(letters))),
        pictures,
        [table.box for table in tables],
        content.horizontal_rules,
    )
    text = [block for index, block in enumerate(blocks) if index not in labelling]
    columns = _boxes([block for block in text if block.is_prose])
    text = [text[index] for index in order_of(_boxes(text), size, columns)]
    kinds = kinds_of(text, look)
    levels = levels_of(text, [kind for kind, _ in kinds])
    regions = [
        FoundRegion(kind, block.box, confidence, block.words, level)
        for block, (kind, confidence), level in zip(text, kinds, levels, strict=True)
    ]
    regions = _join_regions(regions, size)
    notes, labels_of = _sideways_text(content, sideways, pictures)
    for box, group, more in zip(pictures, labels, labels_of, strict=True):
        own = tuple(word for index in group for word in blocks[index].words) + more
        regions.append(FoundRegion("Picture", box, 0.8, own))
    for table, members in zip(tables, of_table, strict=True):
        regions.append(FoundRegion("Table", table.box, table.confidence, members))
    return _order_regions(regions, size, columns, content) + notes


def _sideways_text(
    content: PageContent, words: NDArray[np.int64], pictures: Sequence[Box]
) -> tuple[list[FoundRegion], list[tuple[int, ...]]]:
    """Find regions of text that is turned by 90 or 270 degrees.

    Turned words are handled separately, because they would split lines of upright text. Their regions come last in
    reading order. Return these regions, and the turned words in each of ``pictures``.
    """
    notes: list[FoundRegion] = []
    labels: list[tuple[int, ...]] = [()] * len(pictures)
    for turn in (270, 90):
        upright = content.turned_back(turn)
        lines = lines_of(upright, words[content.turns[words] == turn], np.zeros((0, 4)))
        for block in blocks_of(lines, upright.horizontal_rules):
            (box,) = turned_back(np.array([block.box]), upright.width, upright.height, 360 - turn).tolist()
            x, y = np.reshape(box, (2, 2)).mean(axis=0).tolist()
            homes = [number for number, (x0, y0, x1, y1) in enumerate(pictures) if x0 <= x <= x1 and y0 <= y <= y1]
            if homes:
                labels[homes[0]] += block.words
            else:
                notes.append(FoundRegion("Text", tuple(box), 0.8, block.words))
    return notes, labels


def _is_figure(table: FoundTable, content: PageContent) -> bool:
    """Return whether a table is part of a figure: it touches a picture, and a figure caption is below."""
    if len(content.pictures) == 0 or len(content.boxes) == 0:
        return False
    left, top, right, bottom = table.box
    height = float(np.median(content.boxes[:, 3] - content.boxes[:, 1]))
    pictures = content.pictures
    touching = (pictures[:, 0] <= right + height) & (pictures[:, 2] >= left - height)
    touching &= (pictures[:, 1] <= bottom + height) & (pictures[:, 3] >= top - height)
    tops = content.boxes[:, 1]
    below = np.flatnonzero((tops > bottom - 0.5 * height) & (tops < bottom + _CAPTION_REACH * height))
    if not touching.any() or len(below) == 0:
        return False
    row = below[tops[below] < tops[below].min() + 0.5 * height]
    return FIGURE.match(content.texts[row[content.boxes[row, 0].argmin()]]) is not None


def _boxes(parts: Sequence[Block | FoundRegion]) -> Boxes:
    return np.array([part.box for part in parts], dtype=np.float64).reshape(-1, 4)


def _is_label(block: Block) -> bool:
    if is_captioned(block) or block.is_prose:
        return False
    return max(len(line.words) for line in block.lines) <= _MAX_LABEL_WORDS


def _mirror_box(box: Box, width: float) -> Box:
    return width - box[2], box[1], width - box[0], box[3]


def _mirror(content: PageContent) -> PageContent:
    def flip(boxes: Boxes) -> Boxes:
        return np.stack([content.width - boxes[:, 2], boxes[:, 1], content.width - boxes[:, 0], boxes[:, 3]], axis=1)

    return replace(
        content,
        boxes=flip(content.boxes),
        horizontal_rules=flip(content.horizontal_rules),
        vertical_rules=flip(content.vertical_rules),
        pictures=flip(content.pictures),
    )


def _table_words(
    content: PageContent, tables: Sequence[FoundTable], table_boxes: Boxes
) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """Return the words of each table, and the words outside all tables."""
    free = np.ones(len(content.texts), dtype=bool)
    of_table = []
    for table in tables:
        named = dict.fromkeys(word for cell in table.cells for word in cell.words if free[word])
        free[list(named)] = False
        of_table.append(named)
    # Tables can overlap, so words of cells come first: they belong to their own table, even inside another one.
    for named, box in zip(of_table, table_boxes, strict=True):
        inside = np.flatnonzero(free & are_inside(content.boxes, box))
        named.update(dict.fromkeys(inside.tolist()))
        free[inside] = False
    return [tuple(named) for named in of_table], np.flatnonzero(free)


def _join_regions(regions: list[FoundRegion], size: float) -> list[FoundRegion]:
    """Join regions that are parts of one formula, one title, or one row of a page header or footer."""
    joined: list[FoundRegion] = []
    for region in regions:
        for index in range(len(joined) - 1, -1, -1):
            other = joined[index]
            if other.kind == region.kind and _are_one(other, region, size):
                box = box_around([other.box, region.box])
                joined[index] = replace(other, box=box, words=other.words + region.words)
                break
        else:
            joined.append(region)
    return joined


def _are_one(first: FoundRegion, second: FoundRegion, size: float) -> bool:
    (_, top, _, bottom), other = first.box, second.box
    across, down = gaps_between(first.box, other)
    level = min(bottom, other[3]) - max(top, other[1]) > 0.3 * min(bottom - top, other[3] - other[1])
    if first.kind in ("Page-header", "Page-footer"):
        return level
    if first.kind == "Formula":
        return level or (across < 3 * size and down < 0.8 * size)
    return first.kind == "Title" and across == 0 and down < 1.2 * (other[3] - other[1])


def _join_addresses(groups: list[list[FoundRegion]], content: PageContent) -> list[list[FoundRegion]]:
    """Join groups that are addresses next to each other into one group, so that nothing is read between them."""
    texts = [lines_of_words(content, group[0].words) if group[0].kind in _TEXTS else () for group in groups]
    adjacent = adjacent_addresses([group[0].box for group in groups], texts)
    chosen = {index for indices in adjacent for index in indices}
    joined = [[region for index in indices for region in groups[index]] for indices in adjacent]
    return [group for index, group in enumerate(groups) if index not in chosen] + joined


def _order_regions(regions: list[FoundRegion], size: float, columns: Boxes, content: PageContent) -> list[FoundRegion]:
    """Sort regions: page headers, body with captions next to figures and tables, footnotes, page footers."""

    def sort(chosen: list[FoundRegion]) -> list[FoundRegion]:
        return [chosen[index] for index in order_of(_boxes(chosen), size, columns)]

    by_kind: dict[str, list[FoundRegion]] = {kind: [] for kind in ("Page-header", "Caption", "Footnote", "Page-footer")}
    # A figure or table is sorted together with its captions.
    groups: list[list[FoundRegion]] = []
    for region in regions:
        if region.kind in by_kind:
            by_kind[region.kind].append(region)
        else:
            groups.append([region])
    for caption in by_kind["Caption"]:
        near = []
        for number, (target, *_) in enumerate(groups):
            across, down = gaps_between(caption.box, target.box)
            # Captions are usually above or below their figure, so horizontal distance counts twice.
            if target.kind in ("Picture", "Table") and down + 2 * across <= _CAPTION_REACH * size:
                near.append((down + 2 * across, number))
        if near:
            groups[min(near)[1]].append(caption)
        else:
            groups.append([caption])
    groups = _join_addresses(groups, content)
    outer = np.array([box_around([region.box for region in group]) for group in groups]).reshape(-1, 4)
    body = [region for index in order_of(outer, size, columns) for region in sort(groups[index])]
    return sort(by_kind["Page-header"]) + body + sort(by_kind["Footnote"]) + sort(by_kind["Page-footer"])


def order_of(boxes: Boxes, height: float, columns: Boxes) -> list[int]:
    """Return the indices of the parts of a page in reading order: columns one after the other, from left to right.

    If two parts overlap horizontally, the upper part is read first. Otherwise the left part is read first, unless it is
    below a third part that overlaps both horizontally, and the right part is above this third part (Breuel 2003, "High
    performance document layout analysis").

    Args:
        boxes: float64 (N, 4): the box of each part.
        height: Line height. It is used only on pages with very many parts, which are read row by row.
        columns: float64 (C, 4): boxes of running text. Narrower parts above or below such a box, for example headings,
            are treated as if they were as wide as the box.
    """
    number = len(boxes)
    if number > _MAX_PARTS:
        rows = np.floor((boxes[:, 1] + boxes[:, 3]) / 2 / max(height, 1e-6))
        return [int(index) for index in np.lexsort((boxes[:, 0], rows))]
    if number < 2:
        return list(range(number))
    before = _must_precede(_widen_to_columns(boxes, columns))
    waiting = before.sum(axis=0)
    pending = np.ones(number, dtype=bool)
    order: list[int] = []
    for _ in range(number):
        ready = np.flatnonzero(pending & (waiting == 0))
        if len(ready) == 0:
            # Overlapping parts can form a cycle. Break it at the part that must follow the fewest other parts.
            candidates = np.flatnonzero(pending)
            ready = candidates[waiting[candidates] == waiting[candidates].min()]
        chosen = int(ready[np.lexsort((boxes[ready, 0], boxes[ready, 1]))[0]])
        order.append(chosen)
        pending[chosen] = False
        waiting = waiting - before[chosen]
    return order


def _widen_to_columns(boxes: Boxes, columns: Boxes) -> Boxes:
    """Make each part as wide as the column of running text that it is in, but not so wide that it covers a neighbour.

    The column is the narrowest of ``columns`` that contains the part horizontally.
    """
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


def _must_precede(boxes: Boxes) -> NDArray[np.bool_]:
    """Return a matrix, bool (N, N), that is True at (i, j) if part i must be read before part j."""
    left, top, right, bottom = boxes.T
    widths, heights = np.maximum(right - left, 1e-6), np.maximum(bottom - top, 1e-6)
    across = np.minimum(right[:, None], right) - np.maximum(left[:, None], left)
    stacked = across > _SLACK * np.minimum(widths[:, None], widths)
    down = np.minimum(bottom[:, None], bottom) - np.maximum(top[:, None], top)
    level = down > 0.5 * np.minimum(heights[:, None], heights)
    middles = (top + bottom) / 2
    # Parts that overlap in both directions are nested, or their boxes are too large.
    above = stacked & ((middles[:, None] < middles) & ~level | level & (top[:, None] < top))
    to_left = ~stacked & (left[:, None] < left)
    parted = np.zeros_like(to_left)
    for part in range(len(boxes)):
        spans = stacked[part]
        if not spans.any():
            continue
        parted |= np.outer(spans & (middles > middles[part]), spans & (middles < middles[part]))
    before: NDArray[np.bool_] = above | (to_left & ~parted)
    np.fill_diagonal(before, False)
    return before


def mend_hyphenation(lines: Sequence[str], context: str = "") -> str:
    """Join the lines of a paragraph, and join the words that were hyphenated at line ends.

    The hyphen at a line end is removed, with some exceptions. It is kept if the next line starts with a capital or a
    digit, and in words that contain another hyphen. It is also kept in compounds such as "well-known". A word is a
    compound if the word with its hyphen, or both halves as separate words, occur inside a line or in ``context``.

    Args:
        lines: The lines of the paragraph, from first to last.
        context: Other text on the page, in which compounds are looked up; by default none.

    Returns:
        The paragraph as one line of text.

    Example:
        >>> from mediatensor.ocr.structure import mend_hyphenation
        >>> mend_hyphenation(["An exam-", "ple of Navier-", "Stokes and well-", "known text"], "a well-known page")
        'An example of Navier-Stokes and well-known text'
    """
    stripped = [line.strip() for line in lines]
    parts: list[str] = []
    for line, (num_dropped, separator) in zip(stripped, line_joints(stripped, context), strict=True):
        if num_dropped:
            parts[-1] = parts[-1][:-num_dropped]
        parts += filter(None, (separator, line))
    return "".join(parts)


def line_joints(lines: Sequence[str], context: str) -> Iterator[tuple[int, str]]:
    """Yield for each line how `mend_hyphenation` joins the line to the lines before it.

    Each item is the number of characters to drop at the end of the lines so far, and the separator to add to them.
    ``lines`` have no spaces at their ends.
    """
    # The first and last words of lines may be halves.
    inner = [" ".join(line.split()[1:-1]) for line in lines]
    whole = " ".join([context, *inner]).casefold()
    known = set(_LETTERS.findall(whole))
    # The end of the last word is enough, because a half of a compound is not longer than all known words. So the time
    # for each line does not grow with the word, if lines are joined to one long word.
    reach = max(map(len, known), default=0) + 2
    last_word, has_hyphen = "", False
    for line in lines:
        parted = _HYPHENATED.match(last_word)
        first = _FIRST_WORD.match(line)
        num_dropped, separator = 0, ""
        if not last_word or not line:
            pass
        elif parted is None or (parted["hyphen"] != "\u00ad" and first is None):
            separator = " "
        elif parted["hyphen"] == "\u00ad":
            num_dropped = 1
        else:
            stem, rest = _LETTERS.findall(parted["word"].casefold()), first[0] if first else ""
            keeps = not rest[:1].islower() or _is_compound(stem[-1] if stem else "", rest.casefold(), whole, known)
            keeps |= has_hyphen or "-" in parted["word"] or not parted["word"][-1].isalpha()
            num_dropped = 0 if keeps else 1
        yield num_dropped, separator
        if line:
            words = (last_word[: len(last_word) - num_dropped] + separator + line).split()
            has_hyphen = (has_hyphen and len(words) == 1) or "-" in words[-1][:-reach]
            last_word = words[-1][-reach:]


def _is_compound(first: str, second: str, whole: str, known: set[str]) -> bool:
    """Return whether ``first`` and ``second``, the halves of a hyphenated word, are a compound with a hyphen.

    They are a compound if ``whole``, the text of the page, contains them joined by a hyphen or as two separate words.
    ``known`` are all words of the page.
    """
    if f"{first}-{second}" in whole:
        return True
    if first + second in known:
        return False
    return min(len(first), len(second)) >= _MIN_LETTERS and {first, second} <= known
