"""Tables: where rules or the alignment of words tell of one, and what its cells are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .._content import PageContent
from .._found import Box, FoundTable
from .grid import TableArea, build_table, column_gaps
from .open_areas import open_areas
from .rules import Lattice, Segments, find_lattices, joined_rules, stacks_of_rules
from .text import Run, is_wrapped, lines_of, prose_runs, runs_of, trimmed, type_height

__all__ = ["find_tables"]

# Pages of more words than this keep the rest out: no page has so many.
_MAX_WORDS = 100_000
# The share of rules that may cut through words.
_CUT_SHARE = 0.2

# Pictures that cover more of a grid than this, by area, are no contents of its cells.
_MAX_PICTURE_SHARE = 0.3
# The share of cells with text in grids that are tables, whatever their ground.
_FILLED_SHARE = 0.7
# Signs between the sides of formulas: so many, and so many of the words, are no table's.
_RELATIONS = frozenset("=≤≥≈≡⇒→≠")
_MIN_RELATIONS = 4
_RELATION_SHARE = 0.05


def find_tables(content: PageContent) -> list[FoundTable]:
    """Find the tables of a page: ruled, partly ruled, and open ones, whose columns only gaps part.

    Rules that hang together are a lattice, and each of its openings a cell. Rules of one width above each other bound
    tables whose columns are parted by gaps, as in papers. What is left is searched for rows of short texts whose gaps
    go on from row to row; running text, lists and tables of contents have none. Of tables in tables the outer is
    found.

    Args:
        content: The page.

    Returns:
        The tables, from the top. The cells of each cover its grid once.

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
    content = trimmed(content, _MAX_WORDS)
    if not len(content.boxes):
        return []
    em = type_height(content.boxes)
    horizontal = joined_rules(content.horizontal_rules, True, em)
    vertical = joined_rules(content.vertical_rules, False, em)
    horizontal, vertical = _between_words(content, horizontal, vertical, em)
    free = np.ones(len(content.boxes), dtype=bool)
    tables: list[FoundTable] = []
    prose = prose_runs(content, em)
    is_prose = np.zeros(len(content.boxes), dtype=bool)
    for run in prose:
        is_prose[list(run.words)] = True

    areas, loose = _lattice_areas(content, horizontal, vertical, em)
    areas += _stack_areas(content, loose, vertical, is_prose, [area.box for area in areas], em)
    for area in areas:
        area = replace(area, words=[word for word in area.words if free[word]])
        table = build_table(content, area, em)
        if table is not None and _is_table(content, table, area, em):
            if _is_drawn(content, table, is_ruled=area.is_lattice):
                continue
            _keep(content, table, tables, free)
    for area in open_areas(content, free, is_prose, [table.box for table in tables], em):
        table = build_table(content, area, em)
        if table is not None and _is_open_table(content, table, em) and not _is_drawn(content, table):
            _keep(content, table, tables, free)
    return sorted(tables, key=lambda table: (table.box[1], table.box[0]))


def _keep(content: PageContent, table: FoundTable, tables: list[FoundTable], free: NDArray[np.bool_]) -> None:
    tables.append(table)
    free[_inside(content, table.box)] = False


def _inside(content: PageContent, box: Box) -> NDArray[np.int64]:
    middles = (content.boxes[:, :2] + content.boxes[:, 2:]) / 2
    x0, y0, x1, y1 = box
    within = (middles[:, 0] >= x0) & (middles[:, 0] <= x1) & (middles[:, 1] >= y0) & (middles[:, 1] <= y1)
    return np.nonzero(within)[0]


def _between_words(
    content: PageContent, horizontal: Segments, vertical: Segments, em: float
) -> tuple[Segments, Segments]:
    """Leave out rules that go through words: strokes of letters, bars of charts, what is struck out."""
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
        # Letters that rules touch at their ends may be theirs by a stroke only.
        at_ends = (own[:, 1] < start + 1.5 * em) | (own[:, 3] > end - 1.5 * em)
        deep = (own[:, 0] + 0.35 * em < x) & (own[:, 2] - 0.35 * em > x)
        start, end = _longest_free(own[at_ends | deep], start, end)
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


def _longest_free(words: NDArray[np.float64], start: float, end: float) -> tuple[float, float]:
    """The longest part of a rule down that cuts no word; nothing, if that is less than half of it.

    In pictures rules run on into letters that touch them.
    """
    if not len(words):
        return start, end
    words = words[np.argsort(words[:, 1])]
    tops = np.append(words[:, 1], end)
    bottoms = np.insert(words[:, 3], 0, start)
    longest = int(np.argmax(tops - bottoms))
    free = float(bottoms[longest]), float(tops[longest])
    return free if free[1] - free[0] >= 0.5 * (end - start) else (start, start)


# Places ---------------------------------------------------------------------------------------------------------------


def _lattice_areas(
    content: PageContent, horizontal: Segments, vertical: Segments, em: float
) -> tuple[list[TableArea], Segments]:
    """The areas of rules that part columns as well as rows, and the rules across that do not."""
    areas, loose = [], [horizontal[:0]]
    lattices = find_lattices(horizontal, vertical, em)
    # The largest first: of tables in tables the outer wins.
    lattices.sort(key=lambda lattice: (lattice.box[0] - lattice.box[2]) * (lattice.box[3] - lattice.box[1]))
    used = {tuple(rule) for lattice in lattices for rule in lattice.horizontal.tolist()}
    loose += [np.array([rule]) for rule in horizontal.tolist() if tuple(rule) not in used]
    for lattice in lattices:
        lattice = _framed(content, lattice, em)
        x0, _, x1, _ = lattice.box
        within = (lattice.vertical[:, 0] > x0 + em) & (lattice.vertical[:, 0] < x1 - em)
        if not within.any() or len(lattice.horizontal) + len(lattice.vertical) < 3:
            # A frame, or bands with shaded ground: their edges across tell of rows all the same.
            loose.append(lattice.horizontal)
            continue
        words = _inside(content, lattice.box)
        if len(words) > 1:
            areas.append(TableArea(lattice.box, words.tolist(), lattice.horizontal, lattice.vertical, True))
    across = np.concatenate(loose)
    return areas, across[np.lexsort((across[:, 1], across[:, 0]))]


def _framed(content: PageContent, lattice: Lattice, em: float) -> Lattice:
    """Cut what sticks out of a frame: rules down that go on into a title above, or a note below."""
    x0, y0, x1, y1 = lattice.box
    full = lattice.horizontal[(lattice.horizontal[:, 1] < x0 + em) & (lattice.horizontal[:, 2] > x1 - em), 0]
    if len(full):
        for top, bottom in ((y0, float(full[0])), (float(full[-1]), y1)):
            lines = lines_of(runs_of(content, _inside(content, (x0, top, x1, bottom)), 1.5 * em))
            if bottom - top < 0.6 * em or all(len(line) == 1 for line in lines):
                y0, y1 = (bottom, y1) if bottom < y1 else (y0, top)
    return replace(lattice, box=(x0, y0, x1, y1))


def _stack_areas(
    content: PageContent,
    horizontal: Segments,
    vertical: Segments,
    is_prose: NDArray[np.bool_],
    taken: Sequence[Box],
    em: float,
) -> list[TableArea]:
    """The areas between rules of one width that hold columns, no running text."""
    areas = []
    for stack in stacks_of_rules(horizontal, em):
        left, right = float(stack[:, 1].min()), float(stack[:, 2].max())
        start = 0
        bands = []
        for upper, lower in pairwise(stack):
            words = _inside(content, (left - 0.5 * em, float(upper[0]), right + 0.5 * em, float(lower[0])))
            kind = _band_kind(content, words, right - left, is_prose, em)
            # The room between two tables, with no more than the title of the second.
            is_apart = kind == "little" and lower[0] - upper[0] > 2.5 * em and len(stack) > 3
            bands.append("other" if is_apart or _is_within(upper, lower, taken) else kind)
        at = 0
        while at < len(bands):
            end = at
            while end < len(bands) and bands[end] != "other":
                end += 1
            if end > at and "columns" in bands[at:end]:
                start = at
                box = (left, float(stack[start, 0]), right, float(stack[end, 0]))
                own = horizontal[(horizontal[:, 0] >= box[1] - 0.1 * em) & (horizontal[:, 0] <= box[3] + 0.1 * em)]
                own = own[(own[:, 1] >= left - em) & (own[:, 2] <= right + em)]
                words = _inside(content, (left - 0.5 * em, box[1], right + 0.5 * em, box[3]))
                inner = (vertical[:, 0] > left + em) & (vertical[:, 0] < right - em)
                inner &= (vertical[:, 1] >= box[1] - em) & (vertical[:, 2] <= box[3] + em)
                areas.append(TableArea(box, words.tolist(), own, vertical[inner], False))
            at = end + 1
    return areas


def _is_within(upper: NDArray[np.float64], lower: NDArray[np.float64], boxes: Sequence[Box]) -> bool:
    """Whether there is a part of a box between two rules."""
    left, right = max(upper[1], lower[1]), min(upper[2], lower[2])
    return any(x0 < right and x1 > left and y0 < lower[0] and y1 > upper[0] for x0, y0, x1, y1 in boxes)


def _prose_width(content: PageContent, words: NDArray[np.int64], em: float) -> float:
    """The width of most lines of running text, those that are level with each other together."""
    lines = lines_of(runs_of(content, words, 0.9 * em))
    return float(np.median([sum(run.x1 - run.x0 for run in line) for line in lines])) if lines else 0.0


def _band_kind(
    content: PageContent, words: NDArray[np.int64], wide: float, is_prose: NDArray[np.bool_], em: float
) -> str:
    """What stands between two rules: "columns", "little" (one line), or "other"."""
    if not len(words):
        return "little"
    own = content.boxes[words]
    if _prose_width(content, words[is_prose[words]], em) > 0.7 * wide:
        return "other"
    lines = lines_of(runs_of(content, words, 1.5 * em))
    if len(lines) > 1 and any(len(line) == 1 and line[0].x1 - line[0].x0 > 0.6 * wide for line in lines):
        return "other"
    lines = lines_of(runs_of(content, words, 0.9 * em))
    several = sum(len(line) > 1 for line in lines)
    if several >= 0.5 * len(lines) or column_gaps(lines, own[:, 0].min(), own[:, 2].max(), em):
        return "columns"
    return "little" if len(lines) <= 2 else "other"


# What is a table ------------------------------------------------------------------------------------------------------


def _is_table(content: PageContent, table: FoundTable, area: TableArea, em: float) -> bool:
    """Whether cells of a ruled area make a table: enough of them are filled, and not by running text."""
    filled = [cell for cell in table.cells if cell.words]
    if len(filled) < 4 or len({cell.row_start for cell in filled}) < 2 or len({cell.col_start for cell in filled}) < 2:
        return False
    if _is_form(content, table):
        return False
    if not area.is_lattice and _is_prose_table(content, table, em):
        return False
    per_row = Counter(cell.row_start for cell in filled)
    # The numbers along an axis stand alone.
    several = sum(many > 1 for many in per_row.values())
    return several >= 0.5 * len(per_row) and len(filled) >= 0.25 * len(table.cells)


def _is_drawn(content: PageContent, table: FoundTable, *, is_ruled: bool = False) -> bool:
    """Whether a grid is a picture, framed or with a grid of its own, or formulas below each other.

    The shaded cells of a table may pass for a picture: text in nearly all of them tells that they are none.
    """
    if is_ruled and sum(bool(cell.words) for cell in table.cells) >= _FILLED_SHARE * len(table.cells):
        return False
    box = np.array(table.box)
    # A picture of most of the page is the page itself, scanned.
    sizes = (content.pictures[:, 2:] - content.pictures[:, :2]).prod(axis=1)
    pictures = content.pictures[sizes < 0.5 * content.width * content.height]
    common = np.minimum(pictures[:, 2:], box[2:]) - np.maximum(pictures[:, :2], box[:2])
    if common.clip(0).prod(axis=1).sum() > _MAX_PICTURE_SHARE * (box[2:] - box[:2]).prod():
        return True
    texts = [content.texts[word] for cell in table.cells for word in cell.words]
    relations = sum(text in _RELATIONS for text in texts)
    return relations >= _MIN_RELATIONS and relations >= _RELATION_SHARE * len(texts)


def _is_prose_table(content: PageContent, table: FoundTable, em: float) -> bool:
    """Whether most of the words stand in columns of running text."""
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
    """Whether many cells begin with a label and a colon."""
    filled = [cell for cell in table.cells if cell.words]
    labels = sum(any(content.texts[word].endswith(":") for word in cell.words[:4]) for cell in filled)
    return labels > 0.3 * len(filled)


def _is_open_table(content: PageContent, table: FoundTable, em: float) -> bool:
    filled = [cell for cell in table.cells if cell.words]
    if table.num_rows < 3 or _is_prose_table(content, table, em):
        return False
    return len(filled) >= 6 and len(filled) >= 0.4 * len(table.cells)
