"""Numbers, amounts and dates in tables: workbooks as openpyxl reads them, and CSV, against values written by hand."""

from __future__ import annotations

import csv
import datetime
import io
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lazy_modules import import_on_use
from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.io import Document, Page, Table
from mediatensor.ocr.structure import parse_value
from ocr_export_pages import table_of

openpyxl = import_on_use("openpyxl", reason="reads the workbooks")
pandas = import_on_use("pandas", reason="reads the CSV")

BOX = ((0.0, 0.0), (1.0, 1.0))
IMAGE = np.full((1000, 800, 3), 255, np.uint8)


def sheet_of(table: Table, **options: Any) -> Any:
    page = Page(IMAGE, [], 0, (1000, 800), tables=[table])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return openpyxl.load_workbook(io.BytesIO(page.export_as_xlsx(**options))).active


def column_of(texts: Sequence[str], head: str = "Sum") -> list[object]:
    """The values of a column below a head, as openpyxl reads them from a workbook."""
    sheet = sheet_of(table_of([[head], *([text] for text in texts)]))
    return [sheet.cell(row, 1).value for row in range(2, len(texts) + 2)]


def day(year: int, month: int, number: int) -> datetime.datetime:
    return datetime.datetime(year, month, number)


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1,284.50", "12"], [1284.5, 12]),
        (["1.284,50", "3.000", "0,5"], [1284.5, 3000, 0.5]),
        (["1 284,50", "12\u00a0000", "7"], [1284.5, 12000, 7]),
        (["1'284.50", "12\u2019000.00"], [1284.5, 12000.0]),
        (["1,284,000", "950"], [1284000, 950]),
        (["1284.500", "2,5"], ["1284.500", "2,5"]),  # proves both decimal marks
        (["1,284.5", "1,284"], [1284.5, 1284]),
        (["0.123", "1.234"], [0.123, 1.234]),
        (["12", "-3", "0.75"], [12, -3, 0.75]),
        (["-12", "\u22123.5", "\u20134"], [-12, -3.5, -4]),
        (["(1,284.50)", "5.00"], [-1284.5, 5.0]),
        (["1,284.50-", "5.00"], [-1284.5, 5.0]),
        (["15 %", "2.5%", "-1 %"], [0.15, 0.025, -0.01]),
        (["$1,284.50", "-$5.00", "($3.00)", "$-2.00"], [1284.5, -5.0, -3.0, -2.0]),
        (["1.284,50 \u20ac", "5,00 \u20ac"], [1284.5, 5.0]),
        (["\u20ac -5,00", "\u20ac 3,50", "\u20ac 2,00-"], [-5.0, 3.5, -2.0]),
        (["CHF 12", "EUR 1'000"], [12, 1000]),
        (["RM 8.20", "Rs. 1,250.00"], [8.2, 1250.0]),
        (["$12.50", "see note 3"], [12.5, "see note 3"]),
        (["100", "100 000"], [100, 100000]),
        (["12", "-", "n/a"], [12, "-", "n/a"]),
        (["2024-03-05", "5. M\u00e4rz 2024", "March 7, 2024"], [day(2024, 3, 5), day(2024, 3, 5), day(2024, 3, 7)]),
        (["03/04/2024", "17/04/2024"], [day(2024, 4, 3), day(2024, 4, 17)]),
        (["03/04/2024", "04/17/2024"], [day(2024, 3, 4), day(2024, 4, 17)]),
        (["05.03.2024", "6.3.2024"], [day(2024, 3, 5), day(2024, 3, 6)]),
        (["17/04/2024", "total"], [day(2024, 4, 17), "total"]),
    ],
)
def test_values(texts: list[str], values: list[object]) -> None:
    assert column_of(texts) == values


@pytest.mark.parametrize(
    "texts",
    [
        ["007", "8"],  # leading zeros
        ["2019", "2020", "2021"],
        ["104512", "104513"],  # part numbers
        ["4006381333931", "4006381333948"],  # EAN
        ["555 123 456", "555 987 654"],  # telephone numbers
        ["+49 30 1234567", "+49 89 7654321"],
        ["+491234567", "12"],
        ["DE89 3704 0044 0532 0130 00", "12"],
        ["4111 1111 1111 1111", "12"],
        ["12345678901234567890", "1"],  # more digits than a workbook stores
        ["192.168.100.200", "12"],
        ["1.2.3", "1.2"],
        ["1.284", "12"],  # 1284 or 1.284
        ["3.597", "119", "23.900"],
        ["1,284", "500"],
        ["$1,284", "$500"],
        ["1,28,50", "1"],
        ["1.284.50", "1"],
        ["1.50", "1,50"],
        ["12", "see note"],
        ["USD500", "USD501"],
        ["AB-1200", "AB-1300"],
        ["(1)", "(2)"],  # notes
        ["0.45", "(0.12)"],  # a standard error
        ["12-", "14-"],
        ["3-5", "6"],
        ["10:30", "11"],
        ["1/2", "2"],
        ["1e5", "2"],
        ["12.5 kg", "3"],
        ["=1+1", "2"],
        ["03/04/2024", "05/06/2024"],  # March or April
        ["17/04/2024", "04/17/2024"],
        ["17.04.24", "18.04.24"],  # which is the year?
        ["31/02/2024", "12"],
        ["March 2024", "12"],
    ],
)
def test_uncertain_columns_stay_text(texts: list[str]) -> None:
    assert column_of(texts) == texts
    assert list(csv.reader(io.StringIO(table_of([["Sum"], *([text] for text in texts)]).to_csv(values=True))))[1:] == [
        [text] for text in texts
    ]


@pytest.mark.parametrize(
    "head", ["Invoice no.", "Art.-Nr.", "Artikelnummer", "Customer ID", "Tel.", "ZIP", "Year", "N\u00ba"]
)
def test_heads_of_codes(head: str) -> None:
    assert column_of(["12", "815"], head) == ["12", "815"]


@pytest.mark.parametrize("head", ["Number of pieces", "Sales per year", "Notes", "Piano", "Price"])
def test_heads_of_quantities(head: str) -> None:
    assert column_of(["12", "815"], head) == [12, 815]


def test_the_rest_of_the_table_decides_the_decimal_mark() -> None:
    rows = [["Item", "Pieces", "Price"], ["tea", "1.284", "2,50"], ["salt", "12", "0,80"]]
    assert [[cell.value for cell in row] for row in sheet_of(table_of(rows)).iter_rows()] == [
        ["Item", "Pieces", "Price"],
        ["tea", 1284, 2.5],
        ["salt", 12, 0.8],
    ]
    other = [[text.replace(",", ".") for text in row] for row in rows]
    assert sheet_of(table_of(other)).cell(2, 2).value == 1.284


def test_a_first_row_of_text_is_not_a_value() -> None:
    sheet = sheet_of(table_of([["Item", "Price"], ["tea", "2.50"], ["salt", "0.80"]], num_header_rows=0))
    assert [sheet.cell(row, 2).value for row in (1, 2, 3)] == ["Price", 2.5, 0.8]


def test_formats_keep_the_look() -> None:
    """The parts of a format (ECMA-376, 18.8.31): for positive numbers, and after a semicolon for negative ones."""
    texts = ["1,284.50", "(3.00)", "7.00-", "-1.5", "12", "$5.00", "15.0 %", "CHF 1'284.50", "2.50 \u20ac"]
    sheet = sheet_of(table_of([["Sum"], *([text] for text in texts)]))
    assert [sheet.cell(row, 1).number_format for row in range(2, len(texts) + 2)] == [
        "#,##0.00",
        '0.00;"("0.00")"',
        '0.00;0.00"-"',
        "0.0",
        "General",
        '"$"0.00',
        '0.0" "%',
        '"CHF "#"\'"##0.00',
        '0.00" \u20ac"',
    ]
    dates = {
        "05.03.2024": 'dd"."mm"."yyyy',
        "5 March 2024": 'd" "mmmm" "yyyy',
        "2024-03-05": "yyyy-mm-dd",
        "3. Juni 2024": 'd". "mmmm" "yyyy',
        "5 Sept 2024": 'd" "mmm" "yyyy',
        "5 juil. 2024": 'd" "mmm". "yyyy',
    }
    sheet = sheet_of(table_of([["Date"], *([text] for text in dates)]))
    cells = [sheet.cell(row, 1) for row in range(2, len(dates) + 2)]
    assert [cell.number_format for cell in cells] == list(dates.values())
    assert all(cell.is_date for cell in cells)


def test_values_are_an_option() -> None:
    rows = [
        ["Item", "Price", "Date"],
        ["tea, green", "1.284,50 \u20ac", "17/04/2024"],
        ["salt", "5,00 \u20ac", "03/04/2024"],
    ]
    table = table_of(rows)
    plain = pandas.read_csv(io.StringIO(table.to_csv(values=True)), parse_dates=["Date"])
    assert plain["Price"].tolist() == [1284.5, 5.0]
    assert plain["Date"].tolist() == [pandas.Timestamp(2024, 4, 17), pandas.Timestamp(2024, 4, 3)]
    assert list(csv.reader(io.StringIO(table.to_csv()))) == rows
    document = Document([Page(IMAGE, [], 0, (1000, 800), tables=[table])])
    assert document.export_as("csv", values=True) == table.to_csv(values=True)
    assert [[cell.value for cell in row] for row in sheet_of(table, values=False).iter_rows()] == rows
    currencies = table_of([["Price", "Share"], ["$5.00", "15 %"], ["5.00 \u20ac", "2.5 %"]])
    assert currencies.to_csv(values=True) == "Price,Share\r\n$5.00,0.15\r\n5.00 \u20ac,0.025\r\n"


def test_joined_tables_are_one_table_whose_parts_prove_the_decimal_mark() -> None:
    head = ["Item", "Price"]
    tables = [
        table_of([head, ["tea", "1.284"]], (0.1, 0.7, 0.9, 0.95)),
        table_of([head, ["salt", "0,80"]], (0.1, 0.05, 0.9, 0.3)),
    ]
    document = Document([Page(IMAGE, [], number, (1000, 800), tables=[one]) for number, one in enumerate(tables)])
    book = openpyxl.load_workbook(io.BytesIO(document.export_as_xlsx(join_tables=True)))
    assert [list(sheet.values) for sheet in book] == [[("Item", "Price"), ("tea", 1284), ("salt", 0.8)]]
    assert document.export_as_csv(join_tables=True, values=True) == "Item,Price\r\ntea,1284\r\nsalt,0.80\r\n"
    apart = openpyxl.load_workbook(io.BytesIO(document.export_as_xlsx()))
    assert [sheet.cell(2, 2).value for sheet in apart] == ["1.284", 0.8]


def test_odd_tables() -> None:
    for table in (Table([], 0, 0, BOX), Table([], 2, 3, BOX), table_of([["only a head"]]), table_of([["5.00"]])):
        assert table.to_csv(values=True) == table.to_csv()
    texts = ["9" * 400 + ".5", "(" * 200, "1" + ",000" * 90, "\u0663\u0664", "$", "%", "-", "1 %%", '$1.00"']
    for text in texts:
        assert column_of([text]) == [text]


def test_parse_value_takes_the_decimal_mark() -> None:
    assert str(parse_value("number", "1.250", decimal_mark=".")) == "1.250"
    assert str(parse_value("number", "1.250", decimal_mark=",")) == "1250"
    assert str(parse_value("amount", "Rs. 1,250.5", decimal_mark=".")) == "1250.5"
    assert parse_value("number", "1.2.3", decimal_mark=".") is None
    with pytest.raises(InvalidArgumentError, match="decimal_mark is ';'"):
        parse_value("number", "1;5", decimal_mark=";")  # type: ignore[arg-type]
