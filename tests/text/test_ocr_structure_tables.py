"""Tables found by ruled lines and gaps, on pages whose tables are known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mediatensor.ocr.structure import FoundTable, PageContent, find_tables, join_tables
from ocr_field_pages import content_of_words

SIZE = 10.0


class Page:
    """A page to which words and ruled lines are added one by one."""

    def __init__(self, width: float = 600.0, height: float = 800.0) -> None:
        self.width, self.height = width, height
        self.boxes: list[tuple[float, float, float, float]] = []
        self.texts: list[str] = []
        self.lines: list[int] = []
        self.across: list[tuple[float, float, float, float]] = []
        self.down: list[tuple[float, float, float, float]] = []

    def write(self, x: float, y: float, text: str, align: str = "left") -> None:
        """A line of text; letters are half as wide as high."""
        wide = len(text) * SIZE / 2
        x -= {"left": 0.0, "centre": wide / 2, "right": wide}[align]
        for word in text.split(" "):
            if word:
                self.boxes.append((x, y, x + len(word) * SIZE / 2, y + SIZE))
                self.texts.append(word)
                self.lines.append(round(y))
            x += (len(word) + 1) * SIZE / 2

    def rule_across(self, x0: float, x1: float, y: float) -> None:
        self.across.append((x0, y - 0.5, x1, y + 0.5))

    def rule_down(self, x: float, y0: float, y1: float) -> None:
        self.down.append((x - 0.5, y0, x + 0.5, y1))

    def content(self) -> PageContent:
        return content_of_words(
            self.width, self.height, self.boxes, self.texts, self.lines, font_sizes=np.full(len(self.texts), SIZE),
            horizontal_rules=np.reshape(self.across, (-1, 4)), vertical_rules=np.reshape(self.down, (-1, 4)),
        )  # fmt: skip


def texts_of(page: Page, table: FoundTable) -> list[list[str]]:
    rows = [[""] * table.num_cols for _ in range(table.num_rows)]
    for cell in table.cells:
        rows[cell.row_start][cell.col_start] = " ".join(page.texts[word] for word in cell.words)
    return rows


def test_word_beyond_the_rules_of_a_table_is_not_in_the_table_next_to_it() -> None:
    page = Page()
    for row in range(4):
        for x, text in ((100, f"name{row}"), (200, f"{57 - row}"), (300, f"{31 + row}")):
            page.write(x, 100 + 16 * row, text)
        for x, text in ((345, f"{83 - row}"), (380, f"{12 + row}"), (420, f"{64 - row}")):
            page.write(x, 100 + 16 * row, text)
    page.write(324, 101, "9")
    for y in (97, 113, 165):
        page.rule_across(100, 322, y)
    tables = find_tables(page.content())
    words = [word for table in tables for cell in table.cells for word in cell.words]
    assert len(tables) == 2
    assert sorted(words) == list(range(len(page.texts)))


def assert_covered_once(table: FoundTable) -> None:
    covered = np.zeros((table.num_rows, table.num_cols), int)
    for cell in table.cells:
        covered[cell.row_start : cell.row_end + 1, cell.col_start : cell.col_end + 1] += 1
    assert (covered == 1).all()


def put(page: Page, rows: Sequence[Sequence[str]], xs: Sequence[float], y: float, pitch: float = 16.0) -> None:
    """Write rows of texts. The first column is left-aligned, and the others are right-aligned."""
    for row in rows:
        for column, text in enumerate(row):
            page.write(xs[column], y, text, "right" if column else "left")
        y += pitch


CITIES = [
    ["City", "2001", "2011", "2021"],
    ["Rome", "2 546", "2 617", "2 770"],
    ["Oslo", "508", "599", ""],
    ["New York", "8 008", "8 175", "8 804"],
    ["Bern", "122", "", "134"],
]


def test_continuous_gaps_separate_columns():
    page = Page()
    page.write(50, 60, "Table 1. Inhabitants of some cities")
    put(page, CITIES, [50, 240, 320, 400], 90)
    page.write(50, 190, "Thousands of people, by the offices of statistics.")
    (table,) = find_tables(page.content())
    assert texts_of(page, table) == CITIES
    assert_covered_once(table)


def test_every_opening_of_ruled_tables_is_a_cell():
    page = Page()
    xs, ys = [50, 150, 250, 350], [100, 120, 140, 170, 190]
    for y in ys:
        page.rule_across(150 if y == 120 else 50, 350, y)
    for x in xs:
        page.rule_down(x, 120 if x == 250 else 100, 190)
    page.write(55, 114, "Name")
    page.write(250, 105, "Both", "centre")
    for x, text in ((155, "One"), (255, "Two")):
        page.write(x, 125, text)
    for y, row in ((144, ("a long", "1.5", "n.a.")), (175, ("short", "", "2.5"))):
        for x, text in zip((55, 155, 255), row, strict=True):
            page.write(x, y, text)
    page.write(55, 157, "name")
    (table,) = find_tables(page.content())
    assert_covered_once(table)
    spans = {
        " ".join(page.texts[word] for word in cell.words): (cell.row_start, cell.row_end, cell.col_start, cell.col_end)
        for cell in table.cells
    }
    assert spans["Name"] == (0, 1, 0, 0)
    assert spans["Both"] == (0, 0, 1, 2)
    assert spans["a long name"] == (2, 2, 0, 0)
    assert [cell.is_header for cell in table.cells if cell.row_start > 1] == [False] * 6
    assert table.box == pytest.approx((50, 100, 350, 190), abs=1)


def test_rules_of_one_width_bound_a_table():
    page = Page()
    for y in (86, 106, 172):
        page.rule_across(40, 410, y)
    put(page, CITIES, [50, 240, 320, 400], 90)
    (table,) = find_tables(page.content())
    assert texts_of(page, table) == CITIES
    assert {cell.row_start for cell in table.cells if cell.is_header} == {0}


def test_adjacent_tables_are_separate():
    page = Page()
    for left in (50, 320):
        for y in range(100, 181, 20):
            page.rule_across(left, left + 200, y)
        for x in (0, 100, 200):
            page.rule_down(left + x, 100, 180)
        for row in range(4):
            page.write(left + 5, 105 + 20 * row, f"row {row}")
            page.write(left + 105, 105 + 20 * row, str(row * left))
    tables = find_tables(page.content())
    assert [(table.num_rows, table.num_cols) for table in tables] == [(4, 2), (4, 2)]
    assert tables[0].box[2] < tables[1].box[0]


TEXT = "the quick brown fox jumps over a lazy dog while all others are asleep in their quiet and warm homes"
WORDS = TEXT.split()


def prose(page: Page, left: float, right: float, y: float, lines: int, seed: int) -> None:
    """A justified paragraph."""
    rng = np.random.default_rng(seed)
    for _ in range(lines):
        words: list[str] = []
        while sum(len(word) + 1 for word in words) * SIZE / 2 < right - left - 8 * SIZE / 2:
            words.append(str(rng.choice(WORDS)))
        room = (right - left - sum(len(word) for word in words) * SIZE / 2) / (len(words) - 1)
        x = left
        for word in words:
            page.boxes.append((x, y, x + len(word) * SIZE / 2, y + SIZE))
            page.texts.append(word)
            page.lines.append(round(y * 10 + left))
            x += len(word) * SIZE / 2 + room
        y += 12


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_running_text_is_not_a_table(columns: int):
    page = Page()
    wide = 520 / columns
    for column in range(columns):
        prose(page, 40 + column * wide, 25 + (column + 1) * wide, 60, 40, column)
    assert find_tables(page.content()) == []


def test_lists_and_contents_pages_are_not_tables():
    page = Page()
    for number in range(8):
        page.write(50, 60 + 16 * number, f"{number + 1}.")
        page.write(75, 60 + 16 * number, "Buy " + WORDS[number])
        page.write(50, 400 + 16 * number, "Chapter " + WORDS[number])
        page.write(500, 400 + 16 * number, str(number * 7 + 1), "right")
    assert find_tables(page.content()) == []


@pytest.mark.parametrize("numeral", ["\N{SUPERSCRIPT TWO}", "1" * 5000])
def test_numerals_that_are_not_page_numbers_are_read_as_text(numeral: str):
    page = Page()
    put(page, [["Vintage", "5"], ["Scarborough", "7"], ["Advantage", "30"], ["HL-92", "9"]], [50, 200], 100)
    content = page.content()
    texts = tuple(numeral if text == "30" else text for text in content.texts)
    assert [(table.num_rows, table.num_cols) for table in find_tables(replace(content, texts=texts))] == [(4, 2)]


def test_pairs_of_labels_and_values_are_not_a_table():
    page = Page()
    rows = [
        ["Client: Brown", "Date: 1/19/82"],
        ["Product: Viceroy", "Place: Bern"],
        ["Report: 17", "Sent: 2/17/82"],
    ]
    put(page, rows, [50, 250], 100)
    assert find_tables(page.content()) == []


@pytest.mark.parametrize("last", [["37", "30", "23", "16"], ["Hamlet", "J. Anders", "a longer pack", "E. Barbee"]])
def test_two_columns_without_colons_are_a_table(last: list[str]):
    page = Page()
    rows = [list(row) for row in zip(["Project", "Leader", "Objective", "Assigned"], last, strict=True)]
    put(page, rows, [50, 250], 100)
    (table,) = find_tables(page.content())
    assert texts_of(page, table) == rows


@pytest.mark.parametrize("texts", [[], ["word"]])
def test_nearly_empty_pages_have_no_tables(texts: list[str]):
    page = Page()
    page.rule_across(50, 300, 100)
    page.rule_down(50, 100, 300)
    for text in texts:
        page.write(60, 110, text)
    assert find_tables(page.content()) == []


def test_ninety_columns_are_found():
    page = Page(90 * 40 + 100)
    put(page, [[str(100 * row + column) for column in range(90)] for row in range(6)], np.arange(90) * 40 + 60.0, 50)
    (table,) = find_tables(page.content())
    assert (table.num_rows, table.num_cols) == (6, 90)
    assert_covered_once(table)


def test_words_of_cells_follow_the_direction_of_the_script():
    page = Page()
    for y in (100, 120, 140):
        page.rule_across(50, 350, y)
    for x in (50, 200, 350):
        page.rule_down(x, 100, 140)
    for y in (105, 125):
        page.write(60, y, "12")
        page.write(340, y, "ראשונה מילה", "right")
    (table,) = find_tables(page.content())
    (label,) = [cell for cell in table.cells if cell.row_start == 0 and cell.col_start == 1]
    assert [page.texts[word] for word in label.words] == ["מילה", "ראשונה"]


def test_outer_of_nested_tables_is_found():
    page = Page()
    for left, top, step in ((50, 100, 100), (155, 205, 30)):
        for at in range(4):
            page.rule_across(left, left + 3 * step, top + at * step)
            page.rule_down(left + at * step, top, top + 3 * step)
    for row in range(3):
        for column in range(3):
            page.write(160 + 30 * column, 210 + 30 * row, "7")
            if (row, column) != (1, 1):
                page.write(60 + 100 * column, 110 + 100 * row, "text")
    (table,) = find_tables(page.content())
    assert (table.num_rows, table.num_cols) == (3, 3)


def test_time_grows_linearly_with_words():
    def seconds(rows: int) -> float:
        page = Page(4000, rows * 16.0 + 100)
        texts = [[f"{row}.{column}" for column in range(40)] for row in range(rows)]
        put(page, texts, np.arange(40) * 90 + 80.0, 50)
        for y in range(rows):
            page.rule_across(40, 3700, 48.0 + 16 * y)
        content = page.content()
        start = time.process_time()
        assert find_tables(content)
        return time.process_time() - start

    seconds(10)
    assert seconds(200) < 16 * max(seconds(40), 0.02)


def test_tables_continue_on_the_next_page():
    pages = []
    for number, top in enumerate((640, 60)):
        page = Page()
        put(page, [CITIES[0], *CITIES[1 + number :]], [50, 240, 320, 400], top)
        pages.append(page)
    found = [(page.content(), find_tables(page.content())) for page in pages]
    assert join_tables(found) == [[(0, 0, 0), (1, 0, 1)]]
    assert join_tables([found[1], found[0]]) == [[(0, 0, 0)], [(1, 0, 0)]], "from the top to the foot of the next"
    shifted = Page()
    put(shifted, CITIES, [150, 340, 420, 500], 60)
    other = (shifted.content(), find_tables(shifted.content()))
    assert join_tables([found[0], other]) == [[(0, 0, 0)], [(1, 0, 0)]]
