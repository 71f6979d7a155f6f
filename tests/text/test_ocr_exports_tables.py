"""Tables as CSV, workbooks, frames, HTML and Markdown, and headings of several levels: read by other programs."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from lazy_modules import import_on_use
from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.io import Block, Document, LayoutElement, Line, Page, Table, TableCell, Word
from ocr_export_pages import HtmlParts, table_of

openpyxl = import_on_use("openpyxl", reason="reads the workbooks")

BOX = ((0.0, 0.2), (1.0, 0.4))
IMAGE = np.full((100, 100, 3), 255, np.uint8)


def cell(value: str, rows: tuple[int, int], columns: tuple[int, int], *, is_header: bool = False) -> TableCell:
    return TableCell(value, 0.9, BOX, *rows, *columns, is_header=is_header)


@pytest.fixture
def table() -> Table:
    """A head of two rows, in which one cell spans two columns and one spans both rows."""
    return Table(
        [
            cell("Item", (0, 1), (0, 0), is_header=True),
            cell("Price, net", (0, 0), (1, 2), is_header=True),
            cell("each", (1, 1), (1, 1), is_header=True),
            cell("all", (1, 1), (2, 2), is_header=True),
            cell('Tea "green"\nleaf', (2, 2), (0, 0)),
            cell("2.50", (2, 2), (1, 1)),
            cell("1,250.00", (2, 2), (2, 2)),
            cell("=1+1", (3, 3), (0, 0)),
            cell("007", (3, 3), (1, 1)),
            cell("-12", (3, 3), (2, 2)),
        ],
        4,
        3,
        BOX,
    )


@pytest.fixture
def document(table: Table) -> Document:
    second = Table([cell("single", (0, 0), (0, 0))], 1, 1, BOX)
    return Document([Page(IMAGE, [], 0, (100, 100), tables=[table]), Page(IMAGE, [], 1, (100, 100), tables=[second])])


def test_csv_reads_back(document: Document) -> None:
    rows = list(csv.reader(io.StringIO(document.export_as_csv(), newline=""), strict=True))
    assert rows == [
        ["Item", "Price, net", ""],
        ["", "each", "all"],
        ['Tea "green" leaf', "2.50", "1,250.00"],
        ["=1+1", "007", "-12"],
        [],
        ["single"],
    ]
    assert document.export_as("csv") == document.export_as_csv()
    assert Document([]).export_as_csv() == ""


def test_workbook_reads_back(document: Document, tmp_path: Path) -> None:
    """Codes stay texts, a formula on a page stays a text, and spans are merged."""
    document.export_as_xlsx(tmp_path / "tables.xlsx")
    book = openpyxl.load_workbook(tmp_path / "tables.xlsx")
    assert book.sheetnames == ["page 1 table 1", "page 2 table 1"]
    sheet = book["page 1 table 1"]
    assert sheet["A3"].value == 'Tea "green"\nleaf'
    assert [sheet[place].value for place in ("B3", "C3", "A4", "B4", "C4")] == [
        "2.50",
        1250.0,
        "=1+1",
        "007",
        -12,
    ]
    assert sheet["A4"].data_type == "s"
    assert {str(merged) for merged in sheet.merged_cells.ranges} == {"A1:A2", "B1:C1"}
    assert sheet["A1"].font.bold
    assert not sheet["A3"].font.bold
    assert sheet.freeze_panes == "A3"
    empty = openpyxl.load_workbook(io.BytesIO(Document([]).export_as_xlsx()))
    assert empty.sheetnames == ["no tables"]


def test_dataframe_has_the_head_as_column_names(table: Table) -> None:
    frame = table.to_dataframe()
    assert list(frame.columns) == ["Item", "Price, net each", "Price, net all"]
    assert frame.values.tolist() == [['Tea "green"\nleaf', "2.50", "1,250.00"], ["=1+1", "007", "-12"]]
    plain = Table([cell("a", (0, 0), (0, 0)), cell("b", (1, 1), (0, 0))], 2, 1, BOX)
    assert plain.to_dataframe().values.tolist() == [["a"], ["b"]]


def test_html_has_all_rows_of_the_head(document: Document) -> None:
    tags = HtmlParts(document.pages[0].export_as_html()).found
    heads = [(text, attributes) for tag, attributes, text in tags if tag == "th"]
    assert heads == [("Item", {"rowspan": "2"}), ("Price, net", {"colspan": "2"}), ("each", {}), ("all", {})]
    assert sum(tag == "td" for tag, _, _ in tags) == 6


def test_markdown_has_the_head_in_one_row(document: Document) -> None:
    lines = document.pages[0].export_as_markdown().splitlines()
    assert lines[0] == "| Item | Price, net each | Price, net all |"
    assert lines[1] == "| --- | --- | --- |"
    assert len(lines) == 4


def test_headings_have_levels() -> None:
    upright = {"value": 0, "confidence": None}
    kinds = [("Title", 0), ("Section-header", 1), ("Section-header", 3), ("Section-header", 9), ("Text", 0)]
    boxes = [((0.1, 0.1 * row), (0.5, 0.1 * row + 0.05)) for row in range(len(kinds))]
    blocks = [Block([Line([Word(f"w{row}", 0.9, box, 0.9, upright)])]) for row, box in enumerate(boxes)]
    layout = [LayoutElement(kind, 0.9, box, level=level) for (kind, level), box in zip(kinds, boxes, strict=True)]
    page = Page(IMAGE, blocks, 0, (100, 100), layout=layout, in_reading_order=True)
    assert page.export_as_markdown().split("\n\n") == ["# w0", "## w1", "#### w2", "###### w3", "w4"]
    assert [tag for tag, _, _ in HtmlParts(page.export_as_html()).found] == ["h1", "h2", "h4", "h6", "p"]
    assert page.export_as_asciidoc().split("\n\n")[:4] == ["== w0", "=== w1", "===== w2", "====== w3"]
    assert Page.from_dict(page.export()).export_as_markdown() == page.export_as_markdown()


def test_tables_that_continue_are_joined() -> None:
    """Across three pages with a head that is repeated; not if columns differ, or if there is text in between."""
    head = ["Item", "Price"]
    first = table_of([head, ["tea", "1"], ["milk", "2"]], (0.1, 0.7, 0.9, 0.95))
    second = table_of([head, ["salt", "3"]], (0.1, 0.05, 0.9, 0.95))
    third = table_of([head, ["rice", "4"]], (0.1, 0.05, 0.9, 0.3))
    other = table_of([head, ["nuts", "5"]], (0.1, 0.7, 0.9, 0.95), columns=(0.1, 0.7, 0.9))
    last = table_of([head, ["oats", "6"]], (0.1, 0.05, 0.9, 0.2))
    pages = [
        Page(IMAGE, [], number, (1000, 800), tables=tables)
        for number, tables in enumerate([[first], [second], [third, other], [last]])
    ]
    joined = Document(pages).joined_tables()
    assert [table.to_grid() for table in joined] == [
        [head, ["tea", "1"], ["milk", "2"], ["salt", "3"], ["rice", "4"]],
        [head, ["nuts", "5"]],
        [head, ["oats", "6"]],
    ]
    assert joined[0].num_header_rows == 1
    assert len(Document([pages[0], pages[2]]).joined_tables()) == 3, "the page between them is missing"


def test_stored_tables_with_cells_outside_of_their_grid_are_joined() -> None:
    head = ["Item", "Price"]
    tables = [
        table_of([head, ["tea", "1"]], (0.1, 0.7, 0.9, 0.95)),
        table_of([head, ["milk", "1"]], (0.1, 0.05, 0.9, 0.3)),
    ]
    pages = [Page(IMAGE, [], number, (1000, 800), tables=[table]) for number, table in enumerate(tables)]
    for page in pages:
        page.tables[0].cells += [cell("x", (1, 1), (1, 10**9)), cell("y", (10**9, 10**9), (0, 0))]
    (joined,) = Document(pages).joined_tables()
    assert [row[0] for row in joined.to_grid()] == ["Item", "tea", "milk"]
    for sides in ((10**12, 2), (2, 10**12), (-1, 2)):
        pages[1].tables[0].num_rows, pages[1].tables[0].num_cols = sides
        for export in (Document(pages).joined_tables, Document(pages).chunks):
            with pytest.raises(InvalidArgumentError, match="positions"):
                export()


def test_workbook_shows_numbers_as_they_were_read_and_drops_what_xml_cannot_hold() -> None:
    table = table_of([["1.10", "a\ufffeb"], ["12", "c\ud83d"], ["0.50", "d\uffff"]], num_header_rows=0)
    page = Page(IMAGE, [], 0, (100, 100), tables=[table])
    sheet = openpyxl.load_workbook(io.BytesIO(page.export_as_xlsx())).active
    assert [(sheet.cell(row, 1).value, sheet.cell(row, 1).number_format) for row in (1, 2, 3)] == [
        (1.1, "0.00"),
        (12, "General"),
        (0.5, "0.00"),
    ]
    assert [sheet.cell(row, 2).value for row in (1, 2, 3)] == ["ab", "c", "d"]


def test_hostile_tables_are_refused_or_written_quickly() -> None:
    """A stored table may state any sizes and spans. Memory must not grow with them."""
    for sides in ((10**12, 0), (10**12, -1), (-1, 5)):
        stored = {**Table([], 1, 1, BOX).export(), "num_rows": sides[0], "num_cols": sides[1]}
        with pytest.raises(InvalidArgumentError, match="positions"):
            Table.from_dict(stored).to_grid()
    spans = [cell("x", (0, 10**9), (0, 10**9)) for _ in range(50)]
    page = Page(IMAGE, [], 0, (100, 100), tables=[Table(spans, 200, 200, BOX)])
    html = page.export_as_html()
    assert html.count("<td") + html.count("<th") <= 1
    book = openpyxl.load_workbook(io.BytesIO(page.export_as_xlsx()))
    assert len(book.active.merged_cells.ranges) == 1
    wide = Page(IMAGE, [], 0, (100, 100), tables=[Table([cell("x", (0, 0), (19999, 19999))], 1, 20000, BOX)])
    with pytest.raises(InvalidArgumentError, match="does not fit into a sheet"):
        wide.export_as_xlsx()


def test_workbook_freezes_a_head_above_a_cell_that_spans_its_end() -> None:
    cells = [cell("Item", (0, 1), (0, 0), is_header=True), cell("Price", (0, 0), (1, 1), is_header=True)]
    table = Table([*cells, cell("2", (1, 1), (1, 1))], 2, 2, ((0.0, 0.0), (1.0, 1.0)))
    page = Page(np.zeros((8, 8, 3), np.uint8), [], 0, (8, 8), tables=[table])

    sheet = openpyxl.load_workbook(io.BytesIO(page.export_as_xlsx())).worksheets[0]

    assert sheet.freeze_panes == "A2"
