"""The tables of a document as CSV and as sheets of a workbook."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from ....errors import MissingDependencyError
from .._elements import DocumentBase, Element, Table

__all__ = ["tables_csv", "tables_xlsx"]

# What is a number in every country: no separators of thousands, no decimal comma, no zeros that a code begins with.
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,10})?")
# A workbook shows no more characters in a cell.
_MAX_CELL = 32_767
# Control characters, which XML cannot hold.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


def _tables(item: Element) -> Iterator[tuple[int, int, Table]]:
    """The tables of a page or document, with the numbers of their page and of themselves on it, from 1."""
    pages: list[Any] = item.pages if isinstance(item, DocumentBase) else [item]
    for page in pages:
        for number, table in enumerate(getattr(page, "tables", ()), 1):
            yield page.page_idx + 1, number, table


def tables_csv(item: Element) -> str:
    """The tables as CSV, one after the other, with an empty line between two."""
    return "\r\n".join(table.to_csv() for _, _, table in _tables(item))


def tables_xlsx(item: Element) -> bytes:
    """The tables as an Excel workbook, a sheet for each; an empty sheet where there is none.

    Raises:
        MissingDependencyError: if openpyxl is not installed.
    """
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise MissingDependencyError(
            'Writing workbooks needs openpyxl: pip install "mediatensor[tables]" (export_as("csv") does without).'
        ) from error
    book = Workbook()
    book.remove(book.active)
    for page, number, table in _tables(item):
        _fill(book.create_sheet(f"page {page} table {number}"), table)
    if not book.sheetnames:
        book.create_sheet("no tables")
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _fill(sheet: Any, table: Table) -> None:
    from openpyxl.styles import Alignment, Font

    num_header_rows = table.num_header_rows
    for row, texts in enumerate(table.to_grid(), 1):
        for column, text in enumerate(texts, 1):
            if not text:
                continue
            place = sheet.cell(row, column)
            if _NUMBER.fullmatch(text):
                place.value = float(text) if "." in text else int(text)
            else:
                place.value = _CONTROL.sub("", text)[:_MAX_CELL]
                # Text whatever it begins with: "=..." on a page is no formula.
                place.data_type = "s"
            place.alignment = Alignment(wrap_text="\n" in text, vertical="top")
            if row <= num_header_rows:
                place.font = Font(bold=True)
    for cell in table.cells:
        rows = max(cell.row_start, 0), min(cell.row_end, table.num_rows - 1)
        columns = max(cell.col_start, 0), min(cell.col_end, table.num_cols - 1)
        if rows[1] >= rows[0] and columns[1] >= columns[0] and (rows[1] > rows[0] or columns[1] > columns[0]):
            sheet.merge_cells(
                start_row=rows[0] + 1, end_row=rows[1] + 1, start_column=columns[0] + 1, end_column=columns[1] + 1
            )
    if num_header_rows:
        sheet.freeze_panes = sheet.cell(num_header_rows + 1, 1)
