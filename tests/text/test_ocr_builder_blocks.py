"""Test the grouping of words into detected lines and of lines into blocks, on pages laid out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mediatensor.ocr.models.builder import DocumentBuilder
from ocr_layout_cases import arguments_of
from ocr_pages import render_page
from ocr_word_pages import HEIGHT, TEXT, WIDTH, WordPage, form, one_column, receipt, two_columns, written


def lines_of(words: WordPage, ids: np.ndarray | None = None, **settings: Any) -> list[str]:
    document = DocumentBuilder(**settings)(**arguments_of(words.boxes, words.texts), line_ids=[ids])
    return [line.render() for block in document.pages[0].blocks for line in block.lines]


def blocks_of(words: WordPage, boxes: np.ndarray | None = None, **settings: Any) -> list[list[str]]:
    places = words.boxes if boxes is None else boxes
    document = DocumentBuilder(resolve_blocks=True, **settings)(**arguments_of(places, words.texts))
    return [[line.render() for line in block.lines] for block in document.pages[0].blocks]


def test_justified_gaps_do_not_split_detected_lines() -> None:
    # The gaps of the line are about one line height; most other gaps of the page are small.
    lines = [(80.0, 100.0 + 24 * row, 16.0, text) for row, text in enumerate(TEXT)]
    words = written([*lines, (80, 300, 40, "VERY  WIDE  TITLE")])
    assert lines_of(words)[-3:] == ["VERY", "WIDE", "TITLE"]
    assert lines_of(words, words.lines)[-1:] == ["VERY WIDE TITLE"]


def test_fields_of_a_form_part_even_if_they_were_detected_as_one_line() -> None:
    words = form()
    rows = np.unique((words.boxes[:, 1] * HEIGHT / 50).round(), return_inverse=True)[1]
    assert lines_of(words, rows) == lines_of(words)
    assert "Date of birth:" in lines_of(words, rows)


def test_a_detected_line_that_slopes_is_one_line() -> None:
    words = written([(40, 100, 20, "one two three four five six seven eight nine ten eleven twelve")])
    boxes = words.boxes.copy()
    boxes[:, 1::2] += np.linspace(0, 1.2 * 20 / HEIGHT, len(boxes))[:, None]
    sloping = WordPage(words.texts, boxes, words.lines)
    assert len(lines_of(sloping)) > 1
    assert lines_of(sloping, words.lines) == [" ".join(words.texts)]


def test_words_without_a_known_line_are_arranged_as_usual() -> None:
    words = receipt()
    assert lines_of(words, np.full(len(words.texts), -1)) == lines_of(words)
    # Any numbers can serve as ids, and ids of single words have no effect.
    assert lines_of(words, np.arange(len(words.texts)) * 10**9) == lines_of(words)


def test_a_gap_is_measured_from_the_end_of_all_words_before_it() -> None:
    boxes = np.array([[0.1, 0.1, 0.5, 0.12], [0.2, 0.1, 0.22, 0.12], [0.51, 0.1, 0.6, 0.12]])
    words = WordPage(["long", "within", "next"], boxes, np.zeros(3, dtype=int))
    assert lines_of(words) == ["long within next"]


def test_paragraphs_are_blocks() -> None:
    title, first, second = blocks_of(one_column())
    assert title == ["A Title Of The Page"]
    assert (first, second) == (list(TEXT), list(TEXT[:2]))


@pytest.mark.parametrize("angle", [None, 5, 90])
def test_columns_are_blocks(angle: float | None) -> None:
    words = two_columns()
    shape = (WIDTH, HEIGHT) if angle == 90 else (HEIGHT, WIDTH)
    places = words.boxes if angle is None else words.quads(angle)
    document = DocumentBuilder(resolve_blocks=True)(**arguments_of(places, words.texts, shape))
    rows = [TEXT[row % 4] for row in range(12)]
    assert [[line.render() for line in block.lines] for block in document.pages[0].blocks] == [
        ["A title over both of the columns"],
        rows,
        rows,
    ]


def test_fields_of_a_form_are_separate_blocks() -> None:
    assert blocks_of(form()) == [[line] for line in lines_of(form())]


def test_items_and_prices_of_a_receipt_are_two_columns() -> None:
    head, items, prices = blocks_of(receipt())
    assert head == ["THE SHOP", "12 Market Street", "Tel 555 0199"]
    assert items == ["MILK 1L", "BREAD", "BUTTER", "TOTAL"]
    assert prices == ["1.20", "2.49", "3.10", "6.79"]


def test_much_larger_headings_are_separate_blocks() -> None:
    text = [(80.0, 150.0 + 20 * row, 14.0, line) for row, line in enumerate(TEXT)]
    assert blocks_of(written([(80, 115, 30, "LARGE"), *text])) == [["LARGE"], list(TEXT)]
    assert blocks_of(written([(80, 126, 19, "LARGER"), *text])) == [["LARGER", *TEXT]]


def test_line_joins_the_only_line_above_or_an_aligned_one() -> None:
    indented = [(80.0, 100.0, 16.0, TEXT[0]), (200.0, 120.0, 16.0, "far in")]
    assert len(blocks_of(written(indented))) == 1
    # Of two lines below another, the one with the same left edge joins its block.
    fork = [(80.0, 100.0, 16.0, TEXT[0]), (80.0, 120.0, 16.0, "under it"), (230.0, 120.0, 16.0, "loose")]
    assert blocks_of(written(fork)) == [[TEXT[0], "under it"], ["loose"]]


def test_line_break_is_the_widest_gap_within_a_block() -> None:
    # Lines are 16 high, and the gaps between them 8: half a line height.
    lines = [(80.0, 100.0 + 24 * row, 16.0, text) for row, text in enumerate(TEXT)]
    assert [len(block) for block in blocks_of(written(lines), line_break=0.51)] == [4]
    assert [len(block) for block in blocks_of(written(lines), line_break=0.49)] == [1, 1, 1, 1]


def test_one_block_is_the_default() -> None:
    words = two_columns()
    assert len(DocumentBuilder()(**arguments_of(words.boxes, words.texts)).pages[0].blocks) == 1


def test_blocks_of_three_thousand_overlapping_words_are_found() -> None:
    boxes = np.tile([[0.1, 0.1, 0.2, 0.12]], (3000, 1))
    document = DocumentBuilder(resolve_blocks=True)(**arguments_of(boxes, ["word"] * 3000))
    assert sum(len(line.words) for line in document.pages[0].blocks[0].lines) == 3000
    flat = np.zeros((3000, 4))
    built = DocumentBuilder(resolve_blocks=True)(**arguments_of(flat, ["word"] * 3000)).pages[0]
    assert sum(len(line.words) for block in built.blocks for line in block.lines) == 3000


@pytest.mark.parametrize("kind", ["columns", "form", "letter"])
@pytest.mark.parametrize("degrees", [0.0, 2.0, -5.0, 15.0])
def test_skewed_page_of_straight_boxes_is_read_as_the_upright_one(kind: str, degrees: float) -> None:
    page = render_page(kind, 1, dpi=50, rotation=degrees)
    quads = page.relative_quads()
    boxes = np.concatenate([quads.min(axis=1), quads.max(axis=1)], axis=1)
    count = len(boxes)
    built = DocumentBuilder(keep_reading_order=True)(
        [page.image],
        [boxes],
        [np.ones(count)],
        [[(str(number), 1.0) for number in range(count)]],
        [page.image.shape[:2]],
        [[{"value": 0, "confidence": None}] * count],
        line_ids=[np.repeat(np.arange(len(page.lines)), [len(line.text.split(" ")) for line in page.lines])],
    ).pages[0]
    words = [word for block in built.blocks for line in block.lines for word in line.words]
    assert [word.value for word in words] == [str(number) for number in range(count)]
    assert np.allclose([np.ravel(word.geometry) for word in words], boxes)
    for block in built.blocks:
        own = np.array([np.ravel(word.geometry) for line in block.lines for word in line.words])
        assert np.allclose(np.ravel(block.geometry), [*own[:, :2].min(axis=0), *own[:, 2:].max(axis=0)])
    # A block is a paragraph, not the whole page.
    assert len(built.blocks) > 3
