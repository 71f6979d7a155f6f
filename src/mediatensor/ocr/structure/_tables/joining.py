"""Tables that go on on the next page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._content import PageContent
from .._found import FoundTable
from .text import lines_of, runs_of, type_height

__all__ = ["join_tables"]


def join_tables(
    pages: Sequence[tuple[PageContent, Sequence[FoundTable]]],
) -> list[list[tuple[int, int, int]]]:
    """Find which tables go on on the next page.

    The last table of a page and the first of the next are one if both have as many columns, whose edges lie in the same
    places, with no more than two lines, a footer and a header, between them on either page. A head that is repeated is
    left out.

    Args:
        pages: The content of each page, and its tables, as `find_tables` gives them.

    Returns:
        For each table that there is then, in order, its parts: the number of the page, that of the table on the page,
        and the first row that counts, all from 0.
    """
    joined: list[list[tuple[int, int, int]]] = []
    for page, (content, tables) in enumerate(pages):
        for number, table in enumerate(tables):
            before = joined[-1][-1] if joined else None
            if number == 0 and before and before[0] == page - 1:
                last_content, last_tables = pages[page - 1]
                if before[1] == len(last_tables) - 1 and _goes_on(last_content, last_tables[-1], content, table):
                    first_content, first_tables = pages[joined[-1][0][0]]
                    head = first_tables[joined[-1][0][1]]
                    joined[-1].append((page, number, _repeated_rows(first_content, head, content, table)))
                    continue
            joined.append([(page, number, 0)])
    return joined


def _goes_on(content: PageContent, table: FoundTable, next_content: PageContent, after: FoundTable) -> bool:
    """Whether a table at the foot of a page goes on at the top of the next."""
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


def _repeated_rows(content: PageContent, table: FoundTable, next_content: PageContent, after: FoundTable) -> int:
    """How many rows at the top of a table repeat those of the other, as heads do."""

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
