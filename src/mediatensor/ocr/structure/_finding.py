"""Find the tables of a page, and its whole structure: tables first, then the regions around them, then fields.

This module also finds out which tables continue on the next page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.checks import items_of, shown
from ...errors import InvalidArgumentError
from ._field_rules import FieldRule
from ._fields_asked import extract_fields
from ._fields_pairs import find_fields
from ._page import FoundField, FoundRegion, FoundTable, PageContent, PageStructure, are_inside, box_around
from ._regions import find_regions
from ._table_areas import join_rules, lattice_areas, open_areas, stack_areas, words_inside
from ._table_grid import build_table
from ._table_text import Run, Segments, TableArea, cut_leaders, is_wrapped, lines_of, runs_of, type_height
from ._text_lines import adjacent_addresses, lines_of_words

# Words beyond this number are ignored.
_MAX_WORDS = 100_000
# At most this share of a rule may cut through words.
_CUT_SHARE = 0.2
# A grid of which pictures cover a larger share is part of a picture.
_MAX_PICTURE_SHARE = 0.3
# Relation signs of formulas. A grid is not a table if it has at least this many of them, and they are at least this
# share of its words.
_RELATIONS = frozenset("=≤≥≈≡⇒→≠")
_MIN_RELATIONS = 4
_RELATION_SHARE = 0.05

# Regions that never contain keys.
_KINDS_WITHOUT_FIELDS = ("Caption", "Picture", "Formula")
# Regions that may contain keys or values.
_KINDS_WITH_FIELDS = frozenset({"Text", "Section-header", "List-item", "Page-header"})
# A picture with at least this many words may be the background of text.
_MANY_WORDS = 20
# A strip thinner than this share of the page, and nearly as long as the page, is the edge of a sheet.
_EDGE = 0.12
# The box around joined regions may cover at most this share of another region.
_MAX_COVERED = 0.3
# A region with this many lines, and on average this many words per line, is running text.
_MIN_LINES = 3
_MIN_WORDS = 5.0


def find_tables(content: PageContent) -> list[FoundTable]:
    """Find the tables of a page: fully ruled tables, tables with some rules, and tables with only gaps between columns.

    The three kinds are found one after the other. First, connected rules (straight lines) form a lattice, and each
    opening of the lattice is a cell. Second, horizontal rules with the same left and right ends can enclose a table
    whose columns are separated by gaps, as in scientific papers. Third, the remaining words are searched for
    consecutive rows of short texts with gaps at the same positions. Running text, lists and tables of contents are
    excluded. Tables inside other tables are not returned.

    Args:
        content: The words, rules (straight lines) and pictures of an upright page.

    Returns:
        A list of tables from top to bottom. The cells of each table cover its grid exactly once.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.structure import PageContent, find_tables
        >>> texts = ("City", "2001", "2011", "Rome", "2.5", "2.6", "Oslo", "0.5", "0.6", "Bern", "0.1", "0.1")
        >>> left, top = np.tile([0.0, 80.0, 130.0], 4), np.repeat([0.0, 15.0, 30.0, 45.0], 3)
        >>> boxes = np.stack([left, top, left + 25, top + 10], 1)
        >>> page = PageContent(
        ...     200.0, 100.0, boxes, texts, np.arange(12), np.ones(12), np.full(12, 10.0), np.zeros(12, dtype=bool)
        ... )
        >>> [(table.num_rows, table.num_cols) for table in find_tables(page)]
        [(4, 3)]
    """
    content = cut_leaders(content, _MAX_WORDS)
    if not len(content.boxes):
        return []
    em = type_height(content.boxes)
    horizontal = join_rules(content.horizontal_rules, True, em)
    vertical = join_rules(content.vertical_rules, False, em)
    horizontal, vertical = _drop_rules_through_words(content, horizontal, vertical, em)
    free = np.ones(len(content.boxes), dtype=bool)
    tables: list[FoundTable] = []
    areas, loose = lattice_areas(content, horizontal, vertical, em)
    areas += stack_areas(content, loose, vertical, em)
    for area in areas:
        area = replace(area, words=[word for word in area.words if free[word]])
        table = build_table(content, area, em)
        if table is not None and _is_table(content, table, area, em) and not _is_drawn(content, table):
            tables.append(table)
            free[words_inside(content, table.box)] = False
            # Words of a table can reach beyond its rules.
            free[area.words] = False
    for area in open_areas(content, free, [table.box for table in tables], em):
        table = build_table(content, area, em)
        if table is not None and _is_open_table(content, table, em) and not _is_drawn(content, table):
            tables.append(table)
            free[words_inside(content, table.box)] = False
    return sorted(tables, key=lambda table: (table.box[1], table.box[0]))


def _drop_rules_through_words(
    content: PageContent, horizontal: Segments, vertical: Segments, em: float
) -> tuple[Segments, Segments]:
    """Drop or shorten lines that cut through words, such as letter strokes, bars of charts and strikethrough."""
    boxes = content.boxes
    order = np.argsort(boxes[:, 0])
    lefts = boxes[order, 0]
    widest = float((boxes[:, 2] - boxes[:, 0]).max())
    kept = []
    for x, start, end in vertical:
        near = order[np.searchsorted(lefts, x - widest) : np.searchsorted(lefts, x)]
        own = boxes[near]
        middles = (own[:, 1] + own[:, 3]) / 2
        own = own[(middles > start) & (middles < end) & (own[:, 0] + 0.1 * em < x) & (own[:, 2] - 0.1 * em > x)]
        if len(own) and end - start < 3 * em:
            continue
        # A letter stroke may touch the ends of a rule.
        at_ends = (own[:, 1] < start + 1.5 * em) | (own[:, 3] > end - 1.5 * em)
        deep = (own[:, 0] + 0.35 * em < x) & (own[:, 2] - 0.35 * em > x)
        start, end = _longest_free_part(own[at_ends | deep], start, end)
        if end - start >= em:
            kept.append((x, start, end))
    vertical = np.array(kept).reshape(-1, 3)
    order = np.argsort(boxes[:, 1])
    tops = boxes[order, 1]
    highest = float((boxes[:, 3] - boxes[:, 1]).max())
    kept = []
    for y, start, end in horizontal:
        near = order[np.searchsorted(tops, y - highest) : np.searchsorted(tops, y)]
        own = boxes[near]
        height = own[:, 3] - own[:, 1]
        cut = (own[:, 1] + 0.3 * height < y) & (own[:, 3] - 0.3 * height > y)
        cut &= ((own[:, 0] + own[:, 2]) / 2 > start) & ((own[:, 0] + own[:, 2]) / 2 < end)
        if (own[cut, 2] - own[cut, 0]).sum() <= _CUT_SHARE * (end - start):
            kept.append((y, start, end))
    return np.array(kept).reshape(-1, 3), vertical


def _longest_free_part(words: NDArray[np.float64], start: float, end: float) -> tuple[float, float]:
    """Return the start and end of the longest part of a vertical rule that does not cut through any of ``words``.

    If the longest part is shorter than half of the rule, an empty part is returned.

    A rule that was found in an image can be too long, because letters that touch the rule appear to be part of it.
    """
    if not len(words):
        return start, end
    words = words[np.argsort(words[:, 1])]
    tops = np.append(words[:, 1], end)
    bottoms = np.insert(words[:, 3], 0, start)
    longest = int(np.argmax(tops - bottoms))
    free = float(bottoms[longest]), float(tops[longest])
    return free if free[1] - free[0] >= 0.5 * (end - start) else (start, start)


def _is_table(content: PageContent, table: FoundTable, area: TableArea, em: float) -> bool:
    """Return whether enough cells of a ruled area have text, and it is neither a form nor running text."""
    filled = [cell for cell in table.cells if cell.words]
    if len(filled) < 4 or len({cell.row_start for cell in filled}) < 2 or len({cell.col_start for cell in filled}) < 2:
        return False
    if _is_form(content, table):
        return False
    if not area.is_lattice and _is_prose_table(content, table, em):
        return False
    per_row = Counter(cell.row_start for cell in filled)
    # Rows with a single text may be the numbers along a chart axis.
    several = sum(many > 1 for many in per_row.values())
    return several >= 0.5 * len(per_row) and len(filled) >= 0.25 * len(table.cells)


def _is_drawn(content: PageContent, table: FoundTable) -> bool:
    """Return whether a supposed table is really a group of formulas, or part of a picture such as a chart."""
    box = np.array(table.box)
    # A picture that covers most of the page is a scan.
    sizes = (content.pictures[:, 2:] - content.pictures[:, :2]).prod(axis=1)
    pictures = content.pictures[sizes < 0.5 * content.width * content.height]
    common = np.minimum(pictures[:, 2:], box[2:]) - np.maximum(pictures[:, :2], box[:2])
    if common.clip(0).prod(axis=1).sum() > _MAX_PICTURE_SHARE * (box[2:] - box[:2]).prod():
        return True
    texts = [content.texts[word] for cell in table.cells for word in cell.words]
    relations = sum(text in _RELATIONS for text in texts)
    return relations >= _MIN_RELATIONS and relations >= _RELATION_SHARE * len(texts)


def _is_prose_table(content: PageContent, table: FoundTable, em: float) -> bool:
    """Return whether most words of a table are in columns of running text."""
    columns: list[list[int]] = [[] for _ in range(table.num_cols)]
    for cell in table.cells:
        if cell.col_start == cell.col_end:
            columns[cell.col_start] += cell.words
    prose = total = 0
    for words in columns:
        lines = [
            Run(line[0].x0, line[0].y0, line[-1].x1, line[-1].y1, tuple(word for run in line for word in run.words))
            for line in lines_of(runs_of(content, words, em))
        ]
        total += len(words)
        if len(lines) > 3 and is_wrapped(content, lines, em):
            prose += len(words)
    return 2 * prose > total


def _is_form(content: PageContent, table: FoundTable) -> bool:
    """Return whether a table is really a form, because many cells start with a label that ends with a colon."""
    filled = [cell for cell in table.cells if cell.words]
    labels = sum(any(content.texts[word].endswith(":") for word in cell.words[:4]) for cell in filled)
    return labels > 0.3 * len(filled)


def _is_open_table(content: PageContent, table: FoundTable, em: float) -> bool:
    filled = [cell for cell in table.cells if cell.words]
    if table.num_rows < 3 or _is_form(content, table) or _is_prose_table(content, table, em):
        return False
    return len(filled) >= 6 and len(filled) >= 0.4 * len(table.cells)


def join_tables(
    pages: Sequence[tuple[PageContent, Sequence[FoundTable]]],
) -> list[list[tuple[int, int, int]]]:
    """Find out which tables continue on the next page, for all pages of a document.

    The last table of a page continues in the first table of the next page if both have the same number of columns and
    the same column edges. On each of the two pages, up to two lines of text between the table and the page break are
    allowed, such as a footer or a header.

    Args:
        pages: For each page, its content and its tables from `find_tables`.

    Returns:
        A list with an item for each joined table. An item is the list of the table's parts, from the first page to the
        last. A part is a tuple (page index, index of the table on the page, index of the first row to use). The first
        row is above 0 if the page repeats head rows, so that they are skipped. A table that does not continue on
        another page has one part.

    Raises:
        InvalidArgumentError: ``pages`` has items of another type.
    """
    pages = items_of("pages", pages, of="pairs (content, tables)")
    for item in pages:
        if not (isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], PageContent)):
            raise InvalidArgumentError(
                f"pages must be pairs of a PageContent and a list of tables (got {shown(item)})."
            )
        if not isinstance(item[1], Sequence) or not all(isinstance(table, FoundTable) for table in item[1]):
            raise InvalidArgumentError(f"the tables of a page must be a list of FoundTable (got {shown(item[1])}).")
    joined: list[list[tuple[int, int, int]]] = []
    for page, (content, tables) in enumerate(pages):
        for number, table in enumerate(tables):
            before = joined[-1][-1] if joined else None
            if number == 0 and before and before[0] == page - 1:
                last_content, last_tables = pages[page - 1]
                if before[1] == len(last_tables) - 1 and _continues(last_content, last_tables[-1], content, table):
                    first_content, first_tables = pages[joined[-1][0][0]]
                    head = first_tables[joined[-1][0][1]]
                    joined[-1].append((page, number, _count_repeated_rows(first_content, head, content, table)))
                    continue
            joined.append([(page, number, 0)])
    return joined


def _continues(content: PageContent, table: FoundTable, next_content: PageContent, after: FoundTable) -> bool:
    """Return whether a table at the bottom of a page continues at the top of the next page."""
    if table.num_cols != after.num_cols:
        return False
    if table.box[3] < 0.6 * content.height or after.box[1] > 0.4 * next_content.height:
        return False
    em = type_height(content.boxes)
    below = np.nonzero(content.boxes[:, 1] > table.box[3])[0].tolist()
    above = np.nonzero(next_content.boxes[:, 3] < after.box[1])[0].tolist()
    if max(len(lines_of(runs_of(content, below, em))), len(lines_of(runs_of(next_content, above, em)))) > 2:
        return False
    edges, next_edges = _column_edges(table), _column_edges(after)
    return bool(np.abs(edges / content.width - next_edges / next_content.width).max() * content.width < 1.5 * em)


def _column_edges(table: FoundTable) -> NDArray[np.float64]:
    edges = np.zeros(table.num_cols + 1)
    for cell in table.cells:
        edges[cell.col_start], edges[cell.col_end + 1] = cell.box[0], cell.box[2]
    return edges


def _count_repeated_rows(content: PageContent, table: FoundTable, next_content: PageContent, after: FoundTable) -> int:
    """Count the rows at the top of ``after`` that repeat the first rows of ``table``, usually the table head."""

    def rows(content: PageContent, table: FoundTable) -> list[list[str]]:
        texts = [[""] * table.num_cols for _ in range(table.num_rows)]
        for cell in table.cells:
            texts[cell.row_start][cell.col_start] = "".join(content.texts[word] for word in cell.words).casefold()
        return texts

    repeated = 0
    for row, other in zip(rows(content, table), rows(next_content, after), strict=False):
        if row != other or not any(row):
            break
        repeated += 1
    return repeated if repeated < after.num_rows else 0


def find_structure(
    content: PageContent,
    *,
    layout: bool = True,
    tables: bool = True,
    fields: str | Sequence[FieldRule] | bool = False,
) -> PageStructure:
    """Find tables, regions and fields on a page.

    Args:
        content: The words, rules (straight lines) and pictures of an upright page.
        layout: Whether to return regions.
        tables: Whether to return tables. If false, there can still be regions of the kind ``"Table"``.
        fields: `FieldRule` objects, or the name of a rule set, for `extract_fields`. True or ``"all"`` finds all pairs
            of a key and a value. Pairs of a table header and a cell below it are left out, and so are pairs in
            captions, pictures and running text. On pages that are mostly running text, a key must end with a colon.
            False finds no fields.

    Returns:
        A `PageStructure` with the tables, regions and fields that were found.

    Raises:
        InvalidArgumentError: ``fields`` is not the name of a rule set, or contains something other than rules.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.structure import content_of_picture, find_structure
        >>> image = np.full((200, 300, 3), 255, np.uint8)
        >>> image[60:80, 30:90] = 0
        >>> content = content_of_picture(image, [(30, 60, 90, 80)], ["word"], [0], [1.0])
        >>> [region.words for region in find_structure(content).regions]
        [(0,)]
    """
    # Regions depend on the tables, even if the caller does not need tables.
    found = tuple(find_tables(content)) if layout or tables else ()
    content = _drop_backgrounds(content, found)
    regions = tuple(find_regions(content, found)) if layout else ()
    found = tuple(_add_words_of_region(content, table, regions) for table in found)
    wants_all = fields is True or fields == "all"
    pairs = _drop_chance_pairs(content, find_fields(content), found, regions) if layout or wants_all else []
    regions = _join_rows(content, regions, pairs)
    asked = pairs if wants_all else extract_fields(content, fields) if not isinstance(fields, bool) else []
    return PageStructure(content.width, content.height, regions, found if tables else (), tuple(asked))


def _add_words_of_region(content: PageContent, table: FoundTable, regions: Sequence[FoundRegion]) -> FoundTable:
    """Add words that are in the region of a table, but not in any of its cells, to the nearest cells."""
    known = {word for cell in table.cells for word in cell.words}
    of_table = (region for region in regions if region.kind == "Table" and region.box == table.box)
    missing = [word for region in of_table for word in region.words if word not in known]
    if not missing:
        return table
    boxes = np.array([cell.box for cell in table.cells])
    middles = (content.boxes[:, :2] + content.boxes[:, 2:]) / 2
    added: dict[int, list[int]] = {}
    for word in missing:
        away = np.maximum(np.maximum(boxes[:, :2] - middles[word], middles[word] - boxes[:, 2:]), 0)
        added.setdefault(int((away**2).sum(axis=1).argmin()), []).append(word)
    cells = tuple(
        replace(cell, words=(*cell.words, *added[number])) if number in added else cell
        for number, cell in enumerate(table.cells)
    )
    return replace(table, cells=cells)


def _drop_backgrounds(content: PageContent, tables: Sequence[FoundTable]) -> PageContent:
    """Drop pictures that are only the background of text: creased paper, shading, or edges of the sheet."""
    table_boxes = np.array([table.box for table in tables]).reshape(-1, 4)
    kept = []
    for picture in content.pictures:
        num_words = int(are_inside(content.boxes, picture).sum())
        across, down = (picture[2:] - picture[:2]) / (content.width, content.height)
        is_edge = min(across, down) < _EDGE and max(across, down) > 1 - _EDGE
        has_most = num_words >= _MANY_WORDS and 2 * num_words >= len(content.boxes)
        kept.append(not (are_inside(table_boxes, picture).any() or is_edge or has_most))
    return replace(content, pictures=content.pictures[kept]) if not all(kept) else content


def _drop_chance_pairs(
    content: PageContent,
    fields: Sequence[FoundField],
    tables: Sequence[FoundTable],
    regions: Sequence[FoundRegion],
) -> list[FoundField]:
    """Drop key-value pairs that are not fields of a form.

    These are pairs of a table header and a cell below it, pairs in captions, pictures and running text, and pairs of
    two addresses.
    """
    cells = [(number, cell) for number, table in enumerate(tables) for cell in table.cells]
    in_table = {word: number for number, cell in cells for word in cell.words}
    in_header = {word for _, cell in cells if cell.is_header for word in cell.words}
    in_prose: set[int] = set()
    for region in regions:
        if region.kind in _KINDS_WITHOUT_FIELDS or _is_prose(content, region):
            in_prose.update(region.words)
    texts = [lines_of_words(content, region.words) for region in regions]
    adjacent = adjacent_addresses([region.box for region in regions], texts)
    of_address = {word: index for group in adjacent for index in group for word in regions[index].words}
    is_form = 2 * len(in_prose) < len(content.texts)
    kept = []
    for field in fields:
        words = (*field.key_words, *field.value_words)
        is_of_table = in_header.intersection(field.key_words) and len({in_table.get(word, -1) for word in words}) == 1
        # The lines of an address are not the values of another address next to it.
        is_across = len({of_address.get(word, -1) for word in words}) > 1
        # On a page of running text, a key must end with a colon.
        if (
            not is_of_table
            and not is_across
            and not in_prose.intersection(words)
            and (is_form or field.key.rstrip().endswith(":"))
        ):
            kept.append(field)
    return kept


def _is_prose(content: PageContent, region: FoundRegion) -> bool:
    num_lines = len(np.unique(content.line_ids[list(region.words)]))
    is_text = region.kind in ("Text", "List-item", "Footnote")
    return is_text and num_lines >= _MIN_LINES and len(region.words) >= _MIN_WORDS * num_lines


def _join_rows(
    content: PageContent, regions: Sequence[FoundRegion], pairs: Sequence[FoundField]
) -> tuple[FoundRegion, ...]:
    """Join two regions that have a key and its value in the same row, because forms are read row by row."""
    home = {word: number for number, region in enumerate(regions) for word in region.words}
    leader = np.arange(len(regions))
    frames = np.array([region.box for region in regions]).reshape(-1, 4)
    for pair in pairs:
        if not pair.key_words or not pair.value_words:
            continue
        one, other = home.get(pair.key_words[0], -1), home.get(pair.value_words[0], -1)
        if min(one, other) < 0 or not {regions[one].kind, regions[other].kind} <= _KINDS_WITH_FIELDS:
            continue
        key, value = (content.boxes[list(words)] for words in (pair.key_words, pair.value_words))
        shared = min(key[:, 3].max(), value[:, 3].max()) - max(key[:, 1].min(), value[:, 1].min())
        if shared < 0.5 * min(np.ptp(key[:, [1, 3]]), np.ptp(value[:, [1, 3]])):
            continue
        first, last = sorted(leader[[one, other]].tolist())
        if first != last and not _encloses_another(frames, np.isin(leader, (first, last))):
            leader[leader == last] = first
    members: dict[int, list[int]] = {}
    for number, root in enumerate(leader.tolist()):
        members.setdefault(root, []).append(number)
    return tuple(
        regions[own[0]] if len(own) == 1 else _join_regions(content, [regions[number] for number in own])
        for own in members.values()
    )


def _encloses_another(frames: NDArray[np.float64], is_own: NDArray[np.bool_]) -> bool:
    """Return whether the box around the regions marked in ``is_own`` would cover much of another region."""
    low, high = frames[is_own, :2].min(axis=0), frames[is_own, 2:].max(axis=0)
    others = frames[~is_own]
    sides = np.minimum(others[:, 2:], high) - np.maximum(others[:, :2], low)
    areas = np.maximum((others[:, 2:] - others[:, :2]).prod(axis=1), 1e-9)
    return bool((sides.clip(0).prod(axis=1) > _MAX_COVERED * areas).any())


def _join_regions(content: PageContent, regions: Sequence[FoundRegion]) -> FoundRegion:
    """Join regions into one text region, with the words sorted row by row."""
    words = np.array([word for region in regions for word in region.words])
    boxes = content.boxes[words]
    middles = boxes[:, [1, 3]].mean(axis=1)
    order = np.argsort(middles, kind="stable")
    gaps = np.diff(middles[order], prepend=middles[order[0]]) > 0.5 * float(np.median(boxes[:, 3] - boxes[:, 1]))
    rows = np.empty(len(words), dtype=np.int64)
    rows[order] = np.cumsum(gaps)
    in_rows = tuple(words[np.lexsort((boxes[:, 0], rows))].tolist())
    confidence = min(region.confidence for region in regions)
    return FoundRegion("Text", box_around([region.box for region in regions]), confidence, in_rows)
