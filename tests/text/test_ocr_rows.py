"""Cells of a row are read as one line, columns one after the other, and all exports have the same order."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import pdf_files
from mediatensor.ocr.io import Document, Page, Table, TableCell
from mediatensor.ocr.models.builder import DocumentBuilder
from ocr_export_pages import page_of, relative, word
from ocr_layout_cases import arguments_of
from ocr_pages import RenderedPage, render_page
from ocr_reading import reader
from ocr_word_pages import HEIGHT, TEXT, WIDTH, WordPage, form, receipt, shuffled, two_columns, written

pytestmark = pytest.mark.usefixtures("features_remembered_in_module")

GOODS = [("1762", "Spanner", "1", "7.95"), ("1041", "Roofing sheet", "12", "31.80"), ("77", "Nail", "250", "112.00")]


def table(top: float = 200) -> list[tuple[float, float, float, str]]:
    """Lines of a table of four columns, the last two of which end at one place."""
    lines = []
    for row, (code, item, count, price) in enumerate(GOODS):
        y = top + 30 * row
        lines += [(60, y, 16, code), (180, y + 1, 16, item)]
        lines += [(480 - 8 * len(count), y, 16, count), (700 - 8 * len(price), y - 1, 16, price)]
    return lines


def built(words: WordPage, boxes: np.ndarray | None = None, shape: tuple[int, int] = (HEIGHT, WIDTH)) -> Page:
    """Build a page from words in random order."""
    mixed = shuffled(len(words.texts))
    places = (words.boxes if boxes is None else boxes)[mixed]
    arguments = arguments_of(places, [words.texts[index] for index in mixed], shape)
    return DocumentBuilder(keep_reading_order=True)(**arguments).pages[0]


def words_of_lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def tree_words(page: Page) -> list[str]:
    return [word.value for block in page.blocks for line in block.lines for word in line.words]


def exported_words(page: Page) -> dict[str, list[str]]:
    """The words of each export, in its order, as programs that know the format take them from it."""
    body = ElementTree.fromstring(page.export_as("hocr")[0]).find("{http://www.w3.org/1999/xhtml}body")
    rows = csv.DictReader(io.StringIO(page.export_as("tsv")), delimiter="\t", quoting=csv.QUOTE_NONE)
    strings = ElementTree.fromstring(page.export_as("alto")[0]).iter("{http://www.loc.gov/standards/alto/ns-v4#}String")
    lines = [line for block in page.export_as("json")["blocks"] for line in block["lines"]]
    return {
        "text": page.render().split(),
        "markdown": page.export_as("markdown", escape=False).split(),
        "html": unescape(re.sub("<[^>]*>", " ", page.export_as("html"))).split(),
        "hocr": "".join(body.itertext()).split(),
        "alto": [string.attrib["CONTENT"] for string in strings],
        "tsv": [row["text"] for row in rows if row["level"] == "5"],
        "json": [word["value"] for line in lines for word in line["words"]],
    }


# The order of the tree


@pytest.mark.parametrize("angle", [None, 4, 90, 180])
@pytest.mark.parametrize("page", [two_columns, form, receipt])
def test_tree_and_exports_have_one_order(page: Any, angle: float | None) -> None:
    words = page()
    shape = (WIDTH, HEIGHT) if angle == 90 else (HEIGHT, WIDTH)
    read = built(words, None if angle is None else words.quads(angle), shape)

    expected = words.texts
    if page is two_columns:
        left = np.flatnonzero((words.lines > 0) & (words.lines % 2 == 1))
        right = np.flatnonzero((words.lines > 0) & (words.lines % 2 == 0))
        order = [*np.flatnonzero(words.lines == 0), *left, *right]
        expected = [words.texts[index] for index in order]
    assert tree_words(read) == expected
    for name, exported in exported_words(read).items():
        assert exported == expected, name
    restored = Document.from_dict(Document([read]).export(reading_order=False)).pages[0]
    assert restored.export() == read.export()
    assert restored.render() == read.render()


def test_words_from_right_to_left_are_in_the_order_in_which_they_are_read() -> None:
    page = built(written([(60, 100, 20, "עולם שלום"), (60, 130, 20, "שנייה שורה")]))

    assert tree_words(page) == ["שלום", "עולם", "שורה", "שנייה"]
    assert set(map(tuple, exported_words(page).values())) == {tuple(tree_words(page))}


def test_arranged_page_keeps_its_order_unless_a_direction_is_given() -> None:
    page = page_of(word("second", (10, 300, 90, 320)), word("first", (10, 10, 90, 30)))
    assert page.render() == "first\n\nsecond"

    page.in_reading_order = True

    assert page.render() == "second\nfirst"
    assert page.render(direction="ltr") == "first\n\nsecond"


def small_columns() -> RenderedPage:
    return render_page("columns", 2, size=(6, 2.6), font_size=11, dpi=100)


@pytest.mark.slow
def test_predictors_read_columns_into_a_tree_that_is_in_order() -> None:
    drawn = small_columns()

    page = reader()([drawn.image]).pages[0]

    assert tree_words(page) == [word.text for word in drawn.words]
    assert set(map(tuple, exported_words(page).values())) == {tuple(tree_words(page))}
    middle = 0.5
    sides = [(block.geometry[0][0] > middle, block.geometry[1][0] > middle) for block in page.blocks[1:]]
    assert all(starts == ends for starts, ends in sides)
    assert len(set(sides)) == 2
    # As docTR has it: one block, row by row.
    assert len(reader(keep_reading_order=False)([drawn.image]).pages[0].blocks) == 1


@pytest.mark.slow
def test_original_coordinates_do_not_change_the_order() -> None:
    drawn = small_columns()

    page = reader(straighten_pages=True, preserve_original_coords=True)([np.rot90(drawn.image, 2)]).pages[0]

    assert tree_words(page) == [word.text for word in drawn.words]
    assert set(map(tuple, exported_words(page).values())) == {tuple(tree_words(page))}


# Rows


@pytest.mark.parametrize("angle", [None, 0, 5, 90, 180])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            [
                (300, 60, 28, "THE SHOP"),
                *table(),
                (60, 320, 16, "TOTAL"),
                (660, 321, 16, "151.75"),
            ],
            ["THE SHOP", *(" ".join(row) for row in GOODS), "TOTAL 151.75"],
        ),
        (
            [(60, 150, 18, "Name:"), (330, 152, 18, "John Smith"), (60, 200, 18, "City:"), (330, 199, 18, "Rome")],
            ["Name: John Smith", "City: Rome"],
        ),
    ],
)
def test_cells_of_a_row_are_on_one_line(lines: Any, expected: list[str], angle: float | None) -> None:
    words = written(lines)
    shape = (WIDTH, HEIGHT) if angle == 90 else (HEIGHT, WIDTH)
    page = built(words, None if angle is None else words.quads(angle), shape)

    for text in (page.render(), page.export_as("md"), page.render(layout=True)):
        assert [" ".join(line) for line in words_of_lines(text)] == expected


def test_columns_of_cells_are_columns_of_the_text() -> None:
    (head, *rows) = built(written([(60, 100, 16, "Sold to you"), *table()])).render().split("\n\n")[-1].splitlines()
    rows = [head, *rows][-3:]

    assert {row.index(item) for row, (_, item, _, _) in zip(rows, GOODS, strict=True)} == {rows[0].index("Spanner")}
    for column in (2, 3):
        ends = {re.search(rf"{re.escape(cells[column])}(?= |$)", row).end() for row, cells in zip(rows, GOODS)}  # type: ignore[union-attr]  # noqa: B905
        assert len(ends) == 1
    assert all(re.split(" {2,}", row) == list(cells) for row, cells in zip(rows, GOODS, strict=True))


def test_a_table_is_one_block_with_a_line_for_each_cell() -> None:
    page = built(
        written([(60, 60, 28, "A TITLE"), *table(), *[(60, 400 + 22 * n, 16, line) for n, line in enumerate(TEXT)]])
    )

    assert [[line.render() for line in block.lines] for block in page.blocks] == [
        ["A TITLE"],
        [cell for row in GOODS for cell in row],
        list(TEXT),
    ]


def test_rows_are_found_on_a_page_that_lies_askew_in_straight_boxes() -> None:
    long = [(60.0, 60.0 + 22 * row, 16.0, f"{text} {text}") for row, text in enumerate(TEXT)]
    words = written([*long, *table()])
    boxes = words.boxes.copy()
    # Two degrees move the end of a line by more than its height.
    boxes[:, [1, 3]] += (0.035 * boxes[:, [0]] * WIDTH) / HEIGHT

    # The words of each line are known, as with a detector of lines.
    mixed = shuffled(len(words.texts))
    arguments = arguments_of(boxes[mixed], [words.texts[index] for index in mixed])
    page = DocumentBuilder(keep_reading_order=True)(**arguments, line_ids=[words.lines[mixed]]).pages[0]
    assert [" ".join(line) for line in words_of_lines(page.render())[-3:]] == [" ".join(row) for row in GOODS]


def columns_of_text(top: float, number: int = 8) -> list[tuple[float, float, float, str]]:
    return [(x, top + 22 * row, 16, TEXT[row % 4]) for row in range(number) for x in (60, 430)]


def test_text_columns_below_a_table_are_not_a_table() -> None:
    column = [TEXT[row % 4] for row in range(8)]
    rows = [" ".join(row) for row in GOODS]

    for lines, expected in (
        (columns_of_text(100), column + column),
        ([*table(100), *columns_of_text(260)], rows + column + column),
        ([*columns_of_text(60), *table(500)], column + column + rows),
    ):
        assert [" ".join(line) for line in words_of_lines(built(written(lines)).render())] == expected


def test_line_across_columns_is_a_separate_block() -> None:
    over, under = " ".join(TEXT[:3]), " ".join(TEXT[1:])
    lines = [(60, 80, 16, over), *columns_of_text(100), (60, 276, 16, under)]

    page = built(written(lines))

    column = [TEXT[row % 4] for row in range(8)]
    assert [[line.render() for line in block.lines] for block in page.blocks] == [[over], column, column, [under]]


def test_table_next_to_text_stays_in_its_column() -> None:
    text = " ".join(TEXT[:2])
    lines: list[tuple[float, float, float, str]] = [(400, 100 + 22 * row, 12, text) for row in range(8)]
    lines += [(x, 120 + 22 * row, 12, value) for row in range(4) for x, value in ((40, "Only"), (200, f"{row}.50"))]

    page = built(written(lines))

    read = [" ".join(line) for line in words_of_lines(page.render())]
    assert sorted(read) == sorted([f"Only {row}.50" for row in range(4)] + [text] * 8)


def test_heading_next_to_text_is_not_a_cell_but_a_name_is() -> None:
    text = " ".join(TEXT[:2])
    prose = [100 + 22 * row for row in range(8)]
    entries = [("ADC:", "converter"), ("CXI:", "camera"), ("DAC:", "converter of the other kind")]
    glossary: list[tuple[float, float, float, str]] = [(500, 100, 12, "GLOSSARY")]
    glossary += [(x, 144 + 22 * n, 12, part) for n, pair in enumerate(entries) for x, part in zip((450, 490), pair)]  # noqa: B905
    beside = built(written([*((40, y, 12, text) for y in prose), *glossary]))
    named = built(written([(40, 100, 12, "Brief description"), *((300, y, 12, text) for y in prose)]))

    assert words_of_lines(beside.render()) == [text.split()] * 8 + [
        ["GLOSSARY"],
        *(" ".join(e).split() for e in entries),
    ]
    assert words_of_lines(named.render()) == [["Brief", "description", *text.split()], *[text.split()] * 7]


def test_rows_from_right_to_left_begin_at_the_right() -> None:
    rows = [("חלב", "1.20"), ("לחם", "2.49"), ("חמאה", "13.10")]
    lines = [(x, 100 + 30 * n, 16, text) for n, row in enumerate(rows) for x, text in zip((600, 60), row, strict=True)]

    page = built(written(lines))

    assert words_of_lines(page.render()) == [list(row) for row in rows]
    assert words_of_lines(page.render(layout=True)) == [list(row) for row in rows]


def test_rows_stay_apart_in_formats_that_join_lines() -> None:
    page = built(written([(60, 100, 16, "1. one"), (600, 100, 16, "*"), (60, 130, 16, "+ two"), (600, 130, 16, "5")]))

    markdown, asciidoc = page.export_as("md"), page.export_as("adoc")

    assert re.fullmatch(r"1\\\. one +\\\*  \n\\\+ two +5", markdown)
    assert re.fullmatch(r"\{empty\}1\. one +&#42; \+\n.*5", asciidoc)
    assert page.export_as("html").count("<br>") == 1


def test_wide_characters_take_two_columns() -> None:
    page = page_of(
        word("牛乳一本", (20, 100, 84, 116)),
        word("1.20", (300, 100, 332, 116)),
        word("Bread!", (20, 124, 68, 140)),
        word("2.49", (300, 124, 332, 140)),
    )

    first, second = page.render().splitlines()

    assert second.index("2.49") - first.index("1.20") == 4


# The look of the page


def courier_pdf(lines: list[tuple[float, float, float, str]]) -> bytes:
    """A PDF page of `WIDTH` by `HEIGHT` points with these lines, (x, top, size, text), in Courier."""
    shown = []
    for x, top, size, text in lines:
        escaped = re.sub(r"([()\\])", r"\\\1", text)
        shown.append(f"BT /C {size} Tf {x} {HEIGHT - top - 0.8 * size} Td ({escaped}) Tj ET")
    fonts = "/Font<</C<</Type/Font/Subtype/Type1/BaseFont/Courier/Encoding/WinAnsiEncoding>>>>"
    return pdf_files.document(["\n".join(shown).encode("latin-1")], box=f"0 0 {WIDTH} {HEIGHT}", resources=fonts)


def courier_words(lines: list[tuple[float, float, float, str]]) -> WordPage:
    """The same lines as words with their boxes: letters of Courier are 0.6 of the size wide."""
    texts, boxes, numbers = [], [], []
    for number, (x, top, size, text) in enumerate(lines):
        for match in re.finditer(r"\S+", text):
            left, right = x + 0.6 * size * match.start(), x + 0.6 * size * match.end()
            texts.append(match[0])
            boxes.append((left / WIDTH, top / HEIGHT, right / WIDTH, (top + size) / HEIGHT))
            numbers.append(number)
    return WordPage(texts, np.array(boxes), np.array(numbers))


LOOKS = {
    "receipt": [
        (300, 60, 16, "THE SHOP"),
        (270, 80, 16, "12 Market Street"),
        *[
            (x, 140 + 20 * row, 16, text)
            for row, (item, price) in enumerate([("MILK 1L", "1.20"), ("BREAD", "12.49"), ("TOTAL", "113.69")])
            for x, text in ((60, item), (700 - 9.6 * len(price), price))
        ],
    ],
    "form": [
        (x, 100 + 40 * row, 16, text)
        for row, fields in enumerate([("Name:", "John Smith", "Date:", "01/02/1970"), ("City:", "Rome", "No.", "7")])
        for x, text in zip((60, 180, 430, 540), fields, strict=True)
    ],
    "columns": [(x, 100 + 20 * row, 12, TEXT[row % 4]) for row in range(8) for x in (60, 430)],
}


@pytest.mark.parametrize("look", LOOKS)
def test_layout_matches_pdftotext(look: str) -> None:
    theirs = pdf_files.poppler_text(courier_pdf(LOOKS[look]), "-layout")

    ours = built(courier_words(LOOKS[look])).render(layout=True).splitlines()

    assert words_of_lines("\n".join(ours)) == words_of_lines(theirs)
    # pdftotext shortens wide gaps. Here, each word is at its place on the page, in letters of Courier.
    words = courier_words(LOOKS[look])
    letter = 0.6 * LOOKS[look][0][2]
    lefts = (words.boxes[:, 0] - words.boxes[:, 0].min()) * WIDTH / letter
    order = np.lexsort((lefts, words.boxes[:, 1]))
    places = [match.start() for line in ours for match in re.finditer(r"\S+", line)]
    np.testing.assert_allclose(places, lefts[order], atol=1)


@pytest.mark.parametrize("kind", ["receipt", "form", "columns", "letter"])
def test_layout_of_drawn_pages_has_their_words_on_their_lines(kind: str) -> None:
    drawn = render_page(kind, 1, dpi=100)
    height, width = drawn.image.shape[:2]
    boxes = drawn.boxes() / (width, height, width, height)
    texts = [word.text for word in drawn.words]
    page = DocumentBuilder(keep_reading_order=True)(**arguments_of(boxes, texts, (height, width))).pages[0]

    # Which words are level follows from where their ink is.
    lines = words_of_lines(page.render(layout=True))
    assert sorted(word for line in lines for word in line) == sorted(texts)
    middles = {word.text: word.quad[:, 1].mean() for word in drawn.words if texts.count(word.text) == 1}
    line_middles = [[middles[word] for word in line if word in middles] for line in lines]
    spread = max(np.ptp(middle) for middle in line_middles if middle)
    line_height = np.median(drawn.boxes()[:, 3] - drawn.boxes()[:, 1])
    assert spread < 2 * line_height
    known = [np.mean(middle) for middle in line_middles if middle]
    assert known == sorted(known)


@pytest.mark.parametrize(("letters", "indent"), [(0.75, 0), (1, 0), (1.25, 1), (2, 2)])
def test_layout_aligns_lines_that_begin_within_a_letter(letters: float, indent: int) -> None:
    words = [word("milk", (0, 0, 0, 0)), word("butter", (0, 0, 0, 0))]
    # Letters are 1/64 wide, so that all numbers are exact.
    words[0].geometry = ((8 / 64, 8 / 64), (12 / 64, 10 / 64))
    words[1].geometry = (((8 + letters) / 64, 12 / 64), ((14 + letters) / 64, 14 / 64))
    page = page_of(*words)
    page.dimensions = (64, 64)
    assert page.render(layout=True) == "milk\n" + " " * indent + "butter"


def test_layout_has_tables_and_leaves_furniture_out() -> None:
    box = relative([(10, 100), (200, 140)])
    cells = [
        TableCell(text, 0.9, relative([(x, y), (x + 8 * len(text), y + 16)]), row, row, column, column)
        for text, x, y, row, column in (("milk", 10, 100, 0, 0), ("1.20", 160, 100, 0, 1), ("tea", 10, 120, 1, 0))
    ]
    page = page_of(word("above", (10, 60, 50, 76)), tables=[Table(cells, 2, 2, box)])

    assert words_of_lines(page.render(layout=True)) == [["above"], ["milk", "1.20"], ["tea"]]
    # Each line of a cell is a separate line. A rotated page has the same layout as the upright page.
    boxes = {"milk": (10, 100, 42, 116), "fresh": (10, 120, 50, 136), "1.20": (160, 120, 192, 136)}
    places = {text: word(text, place) for text, place in boxes.items()}
    cells = [
        TableCell("milk fresh", 0.9, box, 0, 0, 0, 0, words=[places["milk"], places["fresh"]]),
        TableCell("1.20", 0.9, box, 0, 0, 1, 1, words=[places["1.20"]]),
    ]
    page = page_of(tables=[Table(cells, 1, 2, box)])
    assert words_of_lines(page.render(layout=True)) == [["milk"], ["fresh", "1.20"]]
    upright = page.render(layout=True)
    for item in places.values():
        (left, top), (right, bottom) = item.geometry
        item.geometry = ((1 - bottom, left), (1 - top, right))
        item.crop_orientation = {"value": 90, "confidence": None}
    page.dimensions = page.dimensions[::-1]
    assert page.render(layout=True) == upright
    assert page_of().render(layout=True) == ""
