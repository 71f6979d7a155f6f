"""Test that check boxes and faint colons are found in the ink of a page, and nothing else is."""

from __future__ import annotations

import random

import numpy as np
import pytest
from PIL import Image

from mediatensor.ocr.datasets import VOCABS
from mediatensor.ocr.models import ocr_predictor
from mediatensor.ocr.models.utils import add_whitelist
from mediatensor.ocr.utils.metrics import box_iou
from ocr_onnx_sessions import needs_weights
from ocr_pages import RenderedPage, finished, render_text
from ocr_pages_sheet import MONO, SANS, TIMES, Sheet
from ocr_reading import reader, words_of

pytestmark = [needs_weights, pytest.mark.usefixtures("features_remembered_in_module")]

BOXES = frozenset("\u2610\u2611")
ANSWERS = ["Married", "Single", "Employed", "Student", "Approved", "Rejected"]


def draw_answers(dpi: float, mark: str, seed: int = 0) -> RenderedPage:
    """A form with three answers in each row, of which some are ticked."""
    rng = random.Random(seed)
    sheet = Sheet(360, 140, dpi, 12, rng)
    for row in range(4):
        y = 30 + 30 * row
        sheet.write(20, y, f"{row + 1}. Status", sheet.font(SANS))
        for column in range(3):
            x = 110 + 80 * column
            sheet.check_box(x, y - 9, 10, mark if rng.random() < 0.5 else "")
            sheet.write(x + 15, y, rng.choice(ANSWERS), sheet.font(SANS))
    return finished(sheet)


@pytest.mark.parametrize("dpi", [72, 150, 300])
@pytest.mark.parametrize("mark", ["cross", "tick"])
def test_check_boxes_are_words(dpi: float, mark: str) -> None:
    page = draw_answers(dpi, mark)
    height, width = page.image.shape[:2]
    expected = [(word.text, word.quad[[0, 2]].ravel() / [width, height, width, height]) for word in page.words]
    found = [(word.value, np.ravel(word.geometry)) for word in words_of(reader()([page.image]))]
    for text, box in expected:
        iou = box_iou(box[None], np.array([own for _, own in found]))[0]
        assert found[int(iou.argmax())][0] == text
        assert iou.max() > 0.4
    assert len(found) == len(expected)


def test_lines_have_no_gaps_where_check_boxes_were_found() -> None:
    page = draw_answers(150, "cross").image
    assert reader()([page]).pages[0].unread == []
    # The same boxes are gaps if the recogniser cannot return them.
    restricted = ocr_predictor(pretrained=True, vocab=VOCABS["english"])
    assert {line.reason for line in restricted([page]).pages[0].unread} == {"gaps"}


def test_check_boxes_stand_before_their_answers_in_the_text() -> None:
    page = draw_answers(150, "cross")
    rows = reader()([page.image]).pages[0].render().splitlines()
    texts = [line.text for line in page.lines]
    of_rows = ["".join(texts[start : start + 7]) for start in range(0, len(texts), 7)]
    assert [row.replace(" ", "") for row in rows] == [row.replace(" ", "") for row in of_rows]


def test_a_ticked_box_is_the_value_of_its_answer() -> None:
    sheet = Sheet(300, 60, 150, 12, random.Random(0))
    for x, answer, mark in ((20, "Yes", ""), (100, "No", "cross"), (180, "Unknown", "")):
        sheet.check_box(x, 24, 10, mark)
        sheet.write(x + 15, 33, answer, sheet.font(SANS))
    (page,) = reader(fields=True)([finished(sheet).image]).pages
    assert [(field.key, field.value) for field in page.fields] == [("No", "\u2611")]


def test_boxes_of_a_tilted_page_have_four_corners() -> None:
    page = draw_answers(150, "cross")
    turned = np.asarray(Image.fromarray(page.image).rotate(2, Image.Resampling.BICUBIC, fillcolor="white"))
    words = words_of(reader(assume_straight_pages=False)([turned]))
    boxes = [word for word in words if word.value in BOXES]
    assert len(boxes) == 12
    assert all(np.shape(word.geometry) == (4, 2) for word in words)


def test_a_restricted_reader_returns_no_check_boxes() -> None:
    page, predictor = draw_answers(150, "cross"), reader(shorter_side=190)
    assert any(word.value in BOXES for word in words_of(predictor([page.image])))
    with add_whitelist(predictor, VOCABS["english"]):
        assert BOXES.isdisjoint(word.value for word in words_of(predictor([page.image])))
    digits = ocr_predictor(pretrained=True, vocab="0123456789.")
    assert BOXES.isdisjoint(word.value for word in words_of(digits([page.image])))


def test_letters_cells_and_empty_pages_are_no_check_boxes() -> None:
    sheet = Sheet(300, 120, 150, 12, random.Random(0))
    sheet.write(20, 30, "D O 0 Q B 8 X x V o", sheet.font(SANS))
    for column in range(6):
        sheet.box(20 + 16 * column, 50, 36 + 16 * column, 66)
        sheet.write(24 + 16 * column, 63, str(column), sheet.font(SANS))
    for x, shade in ((20, 40), (150, 150)):
        sheet.box(x, 80, x + 12, 92, fill=shade)
        sheet.write(x + 20, 91, "a filled square", sheet.font(SANS))
    for picture in (finished(sheet).image, render_text(["Plain text"]).image, np.full((200, 300, 3), 255, np.uint8)):
        assert BOXES.isdisjoint(word.value for word in words_of(reader()([picture])))


@pytest.mark.parametrize("gap", [0, 4, 14])
def test_faint_colons_are_read(gap: float) -> None:
    sheet = Sheet(300, 150, 150, 12, random.Random(0))
    keys = ["Total Qty", "Cashier", "Doc No", "Discount"]
    for row, key in enumerate(keys):
        end = sheet.write(20, 30 + 30 * row, key, sheet.font(SANS))
        sheet.write(end + gap, 30 + 30 * row, ":", sheet.font(SANS), ink=215)
        sheet.write(170, 30 + 30 * row, f"{row + 3}.50", sheet.font(SANS))
    rows = reader()([finished(sheet).image]).pages[0].render().splitlines()
    assert [row.replace(" ", "") for row in rows] == [
        f"{key}:{row + 3}.50".replace(" ", "") for row, key in enumerate(keys)
    ]


@pytest.mark.parametrize(("gap", "sign"), [(0, ":"), (7, " :")])
def test_colon_with_a_narrow_space_belongs_to_its_word(gap: float, sign: str) -> None:
    # Letters of a fixed width have a space before the colon, though narrower than between words.
    sheet = Sheet(420, 170, 150, 12, random.Random(0))
    keys = ["PRODUCT", "QUANTITIES", "PERSONNEL", "MARKET"]
    for row, key in enumerate(keys):
        end = sheet.write(20, 30 + 34 * row, key, sheet.font(MONO))
        sheet.write(end + gap, 30 + 34 * row, ":", sheet.font(MONO))
        sheet.write(180, 30 + 34 * row, "some of them per day", sheet.font(MONO))
    text = reader()([finished(sheet).image]).pages[0].render()
    assert [key for key in keys if f"{key}{sign}" in text] == keys


@pytest.mark.parametrize("face", [SANS, TIMES, MONO])
@pytest.mark.parametrize("key", ["cc:", "CC:"])
def test_letters_that_look_the_same_in_both_cases_are_read_by_their_colon(key: str, face: str) -> None:
    sheet, names = Sheet(300, 100, 150, 12, random.Random(0)), ["W. Jackson", "R. Schultz"]
    for row, name in enumerate(names):
        sheet.write(20, 35 + 34 * row, key, sheet.font(face))
        sheet.write(70, 35 + 34 * row, name, sheet.font(face))
    values = [word.value for word in words_of(reader()([finished(sheet).image]))]
    assert values == [word for name in names for word in (key, *name.split())]


@pytest.mark.parametrize(
    ("parts", "gaps", "values"),
    [
        (["(", "42)"], [5], ["(42)"]),
        (["(", ")"], [12], ["()"]),
        (["(", "42)"], [25], ["(", "42)"]),
        (["(", "42", ")"], [5, 5], ["(", "42", ")"]),
    ],
)
def test_parentheses_are_joined_around_what_is_close(parts: list[str], gaps: list[float], values: list[str]) -> None:
    sheet = Sheet(300, 150, 150, 12, random.Random(0))
    for row in range(4):
        end = sheet.write(20, 35 + 30 * row, "Weight", sheet.font(MONO))
        for part, gap in zip(parts, [20, *gaps], strict=True):
            end = sheet.write(end + gap, 35 + 30 * row, part, sheet.font(MONO))
    assert [word.value for word in words_of(reader()([finished(sheet).image]))] == ["Weight", *values] * 4


def test_no_colon_is_added_to_other_dots() -> None:
    lines = ["i j % ! ? 12:30 ratio: a;b", "Chapter one ..... 12", "Chapter two ..... 30", "e.g. 3.5 = 7 / 2"]
    words = words_of(reader()([render_text(lines, dpi=150).image]))
    assert sum(word.value.count(":") for word in words) == 2


@pytest.mark.parametrize("sign", [".", ","])
@pytest.mark.parametrize(
    ("amounts", "x", "gap", "found"),
    [(6, 230, 3.5, "57.50"), (3, 230, 3.5, "57 50"), (6, 180, 3.5, "57 50"), (6, 228, 12, "57 50")],
    ids=["beside amounts", "few amounts", "elsewhere", "far apart"],
)
def test_points_that_were_not_printed_are_added_to_amounts(
    sign: str, amounts: int, x: float, gap: float, found: str
) -> None:
    sheet = Sheet(300, 220, 150, 12, random.Random(0))
    for row in range(amounts):
        sheet.write(20, 30 + 24 * row, f"Article {row + 1}", sheet.font(SANS))
        sheet.write(262, 30 + 24 * row, f"{row + 13}{sign}50", sheet.font(SANS), align="right")
    y = 40 + 24 * amounts
    sheet.write(20, y, "Date 24 Total", sheet.font(SANS))
    width = sheet.length("57", sheet.font(SANS)) + gap + sheet.length("50", sheet.font(SANS))
    start = 262 - width - (230 - x)
    sheet.write(sheet.write(start, y, "57", sheet.font(SANS)) + gap, y, "50", sheet.font(SANS))
    (page,) = reader()([finished(sheet).image]).pages
    last = page.render().splitlines()[-1]
    assert last.split() == ["Date", "24", "Total", *found.replace(".", sign).split()]


def test_letters_on_keys_are_no_check_boxes() -> None:
    sheet = Sheet(300, 80, 150, 12, random.Random(0))
    for place, letter in enumerate("ZXCVBNM"):
        x = 20 + 22 * place
        sheet.box(x, 20, x + 18, 38)
        sheet.write(x + 5, 33, letter, sheet.font(SANS))
    assert BOXES.isdisjoint(word.value for word in words_of(reader()([finished(sheet).image])))
