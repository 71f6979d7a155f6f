"""Export the tables of a document as CSV or as sheets of a workbook, and join tables that continue on the next page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from copy import copy
from decimal import Decimal
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from ....errors import InvalidArgumentError, MissingDependencyError
from ...structure import FoundCell, FoundTable, PageContent, join_tables
from ...utils.geometry import box_around
from .._elements.elements import Element
from .._elements.pages import DocumentBase, Table, TableCell, TextPage, check_grid_size
from .._elements.values import cell_values

_Document = TypeVar("_Document", bound=DocumentBase)

# Usual height of letters as a share of the page's height.
_TYPE_HEIGHT = 0.012
# Maximum numbers of rows and columns of a sheet.
_MAX_SHEET = (1_048_576, 16_384)
# Maximum number of characters that a workbook shows in a cell.
_MAX_CELL = 32_767
# Characters that XML cannot contain (XML 1.0, 2.2).
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def _tables(item: Element) -> Iterator[tuple[int, int, Table]]:
    """Yield (page number, number of the table on its page, table) for each table. Numbers start from 1."""
    pages: list[Any] = item.pages if isinstance(item, DocumentBase) else [item]
    for page in pages:
        for number, table in enumerate(getattr(page, "tables", ()), 1):
            yield page.page_idx + 1, number, table


def tables_csv(item: Element, *, values: bool, join_tables: bool) -> str:
    """Return all tables of a page or document as CSV, with an empty line after each table but the last."""
    item = with_joined_tables(item) if join_tables and isinstance(item, DocumentBase) else item
    return "\r\n".join(table.to_csv(values=values) for _, _, table in _tables(item))


def tables_xlsx(item: Element, *, values: bool, join_tables: bool) -> bytes:
    """Return all tables of a page or document as an Excel workbook with a sheet for each table. Needs openpyxl.

    If there are no tables, the workbook has one empty sheet.
    """
    item = with_joined_tables(item) if join_tables and isinstance(item, DocumentBase) else item
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise MissingDependencyError(
            'Writing workbooks needs openpyxl: pip install "mediatensor[tables]" (export_as("csv") does without).'
        ) from error
    book = Workbook()
    book.remove(book.active)
    for page, number, table in _tables(item):
        _fill(book.create_sheet(f"page {page} table {number}"), table, values)
    if not book.sheetnames:
        book.create_sheet("no tables")
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _fill(sheet: Any, table: Table, has_values: bool) -> None:
    from openpyxl.styles import Alignment, Font

    if table.num_rows > _MAX_SHEET[0] or table.num_cols > _MAX_SHEET[1]:
        raise InvalidArgumentError(
            f"A table of {table.num_rows} x {table.num_cols} cells does not fit into a sheet, which has up to "
            f'{_MAX_SHEET[0]} x {_MAX_SHEET[1]}: use export_as("csv").'
        )
    num_header_rows = table.num_header_rows
    grid = table.to_grid()
    values = cell_values(grid, num_header_rows) if has_values else [[None] * len(row) for row in grid]
    for row, texts in enumerate(grid, 1):
        for column, text in enumerate(texts, 1):
            if not text:
                continue
            place = sheet.cell(row, column)
            value = values[row - 1][column - 1]
            if value is not None:
                place.value = float(value.value) if isinstance(value.value, Decimal) else value.value
                if value.number_format:
                    place.number_format = value.number_format
            else:
                place.value = _NOT_XML.sub("", text)[:_MAX_CELL]
                # Force text: "=..." on a page is not a formula.
                place.data_type = "s"
            place.alignment = Alignment(wrap_text="\n" in text, vertical="top")
            if row <= num_header_rows:
                place.font = Font(bold=True)
    merged = np.zeros((table.num_rows, table.num_cols), dtype=bool)
    for cell in table.cells:
        rows = max(cell.row_start, 0), min(cell.row_end, table.num_rows - 1)
        columns = max(cell.col_start, 0), min(cell.col_end, table.num_cols - 1)
        area = merged[rows[0] : rows[1] + 1, columns[0] : columns[1] + 1]
        # Overlapping merged cells would make the file unreadable.
        if area.size > 1 and not area.any():
            area[:] = True
            sheet.merge_cells(
                start_row=rows[0] + 1, end_row=rows[1] + 1, start_column=columns[0] + 1, end_column=columns[1] + 1
            )
    if num_header_rows:
        sheet.freeze_panes = f"A{num_header_rows + 1}"


def joined_tables(document: DocumentBase) -> list[Table]:
    """Return the tables of a document as new tables, in which parts of a table on consecutive pages are joined.

    See `Document.joined_tables`.
    """
    return [table for page in with_joined_tables(document).pages for table in page.tables]


def with_joined_tables(document: _Document) -> _Document:
    """Return a copy of a document in which a table that continues on the next pages is only on its first page."""
    joined_document = copy(document)
    pages = [page for page in document.pages if isinstance(page, TextPage)]
    joined_document.pages = [page for page, _ in pages_with_joined_tables(pages)]
    return joined_document


def pages_with_joined_tables(pages: Sequence[TextPage]) -> list[tuple[TextPage, list[list[int]]]]:
    """Return copies of pages, in which a table that continues on the next pages is only on the first of them.

    Each copy comes with a list for each of its tables. The list has the ``page_idx`` of the page that each cell of the
    table comes from.
    """
    copies: list[tuple[TextPage, list[list[int]]]] = []
    for page in pages:
        page = copy(page)
        page.tables = []
        copies.append((page, []))
    is_first = [page.page_idx != before.page_idx + 1 for before, page in pairwise(pages)]
    bounds = [0, *(number for number, first in enumerate(is_first, 1) if first), len(pages)]
    for first, stop in pairwise(bounds):
        own = pages[first:stop]
        for parts in join_tables([_as_found(page) for page in own]):
            page, cell_pages = copies[first + parts[0][0]]
            table, numbers = _join_parts([(own[place], own[place].tables[at], row) for place, at, row in parts])
            page.tables.append(table)
            cell_pages.append(numbers)
    return copies


def _join_parts(parts: Sequence[tuple[TextPage, Table, int]]) -> tuple[Table, list[int]]:
    """Join the parts (page, table, first row to take) of a table, and return it with the ``page_idx`` of each cell."""
    cells: list[TableCell] = []
    cell_pages: list[int] = []
    num_rows = 0
    for page, table, first_row in parts:
        shift = num_rows - first_row
        for cell in table.cells:
            if cell.row_end >= first_row:
                cell = copy(cell)
                cell.row_start, cell.row_end = max(cell.row_start, first_row) + shift, cell.row_end + shift
                cell.words = list(cell.words)
                cells.append(cell)
                cell_pages.append(page.page_idx)
        num_rows += table.num_rows - first_row
    _, first, _ = parts[0]
    confidence = min(table.confidence for _, table, _ in parts)
    return Table(cells, num_rows, first.num_cols, first.geometry, confidence), cell_pages


def _as_found(page: TextPage) -> tuple[PageContent, list[FoundTable]]:
    """Convert a page and its tables to the types of `join_tables`. The text of a cell becomes one word."""
    height, width = page.dimensions
    words = [word for block in page.blocks for line in block.lines for word in line.words]
    boxes, texts = [box_around(word.geometry) for word in words], [word.value for word in words]
    found_tables = []
    for table in page.tables:
        check_grid_size(table)
        cells = []
        for cell in table.cells:
            spans = cell.row_start, cell.row_end, cell.col_start, cell.col_end
            is_in_grid = 0 <= spans[0] <= spans[1] < table.num_rows and 0 <= spans[2] <= spans[3] < table.num_cols
            if not is_in_grid:  # a stored table may have any cells
                continue
            box = box_around(cell.geometry)
            left, top, right, bottom = (box * (width, height, width, height)).tolist()
            members = (len(texts),) if cell.value else ()
            cells.append(FoundCell((left, top, right, bottom), *spans, members, cell.is_header))
            if cell.value:
                texts.append(cell.value)
                # A cell is higher than its letters, on whose height tolerances are based.
                middle, half = (box[1] + box[3]) / 2, min(box[3] - box[1], _TYPE_HEIGHT) / 2
                boxes.append(np.array([box[0], middle - half, box[2], middle + half]))
        left, top, right, bottom = (box_around(table.geometry) * (width, height, width, height)).tolist()
        found_tables.append(FoundTable((left, top, right, bottom), table.num_rows, table.num_cols, tuple(cells)))
    content = PageContent(
        float(width),
        float(height),
        np.array(boxes, dtype=np.float64).reshape(-1, 4) * (width, height, width, height),
        tuple(texts),
        np.arange(len(texts)),
        np.ones(len(texts)),
        np.full(len(texts), np.nan),
        np.zeros(len(texts), dtype=np.bool_),
    )
    return content, found_tables
