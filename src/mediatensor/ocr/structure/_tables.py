"""Find the tables of a page, and find out which tables continue on the next page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ._page import FoundTable, PageContent
from ._table_areas import join_rules, lattice_areas, open_areas, stack_areas, words_inside
from ._table_grid import build_table
from ._table_text import Run, Segments, TableArea, cut_leaders, is_wrapped, lines_of, runs_of, type_height

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
    if table.num_rows < 3 or _is_prose_table(content, table, em):
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
    """
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
