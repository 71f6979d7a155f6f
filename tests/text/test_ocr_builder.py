"""Test documents that are built from words: lines as in docTR, no lost words, the same result in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.io.elements import Character
from mediatensor.ocr.models.builder import DocumentBuilder, KIEDocumentBuilder
from ocr_layout_cases import arguments_of, builder_cases, kie_arguments
from ocr_records import read_record
from ocr_word_pages import HEIGHT, PAGES, WIDTH, one_column, shuffled, two_columns

CASES = {name: (settings, arguments) for name, settings, arguments in builder_cases()}

RECORDED = read_record("layout")


def lines_of(document: Any) -> list[list[list[str]]]:
    return [[[word.value for word in line.words] for line in block.lines] for block in document.pages[0].blocks]


@pytest.mark.parametrize("name", CASES)
def test_lines_match_doctr(name: str) -> None:
    settings, arguments = CASES[name]
    assert lines_of(DocumentBuilder(**settings)(**arguments)) == RECORDED["lines"][name]


@pytest.mark.parametrize("name", CASES)
def test_predictions_are_sorted_as_by_doctr(name: str) -> None:
    page = KIEDocumentBuilder()(**kie_arguments(CASES[name][1])).pages[0]
    assert [prediction.value for prediction in page.predictions["words"]] == RECORDED["predictions"][name]


@pytest.mark.parametrize("name", PAGES)
def test_order_of_words_does_not_matter(name: str) -> None:
    words = PAGES[name]()
    generator = np.random.default_rng(0)
    expected = lines_of(DocumentBuilder(resolve_blocks=True)(**arguments_of(words.boxes, words.texts)))
    for _ in range(3):
        mixed = generator.permutation(len(words.texts))
        arguments = arguments_of(words.boxes[mixed], [words.texts[index] for index in mixed])
        assert lines_of(DocumentBuilder(resolve_blocks=True)(**arguments)) == expected


@pytest.mark.parametrize(
    "settings", [{}, {"resolve_blocks": True}, {"resolve_lines": False}, {"keep_reading_order": True}]
)
@pytest.mark.parametrize("angle", [None, 0, 5])
def test_every_word_keeps_its_score_and_characters(settings: dict[str, bool], angle: float | None) -> None:
    words = two_columns()
    mixed = shuffled(len(words.texts))
    places = words.boxes if angle is None else words.quads(angle)
    texts = [str(index) for index in range(len(mixed))]
    document = DocumentBuilder(**settings)(**arguments_of(places[mixed], texts))
    built = [word for block in document.pages[0].blocks for line in block.lines for word in line.words]
    assert sorted(int(word.value) for word in built) == list(range(len(mixed)))
    for word in built:
        index = int(word.value)
        assert np.asarray(word.geometry).reshape(-1).tolist() == places[mixed[index]].reshape(-1).tolist()
        assert word.confidence == 1 - index / 1000
        assert word.objectness_score == index / len(mixed)
        assert word.crop_orientation == {"value": 0, "confidence": index / 1000}


@pytest.mark.parametrize("angle", [90, 180, -90, 93, 177])
def test_lines_do_not_depend_on_the_turn_of_the_page(angle: float) -> None:
    words = two_columns()
    expected = lines_of(DocumentBuilder()(**arguments_of(words.boxes, words.texts)))
    shape = (WIDTH, HEIGHT) if angle % 180 == 90 else (HEIGHT, WIDTH)
    assert lines_of(DocumentBuilder()(**arguments_of(words.quads(angle), words.texts, shape))) == expected


@pytest.mark.parametrize("angle", [2, 12, -25, 93])
@pytest.mark.parametrize("name", PAGES)
def test_straight_boxes_do_not_change_the_lines_of_rotated_words(name: str, angle: float) -> None:
    """Where docTR computes lines from the straight boxes: 55 lines instead of 25 for two columns that slope by 5."""
    words = PAGES[name]()
    arguments = arguments_of(words.quads(angle), words.texts)
    lines = [lines_of(DocumentBuilder(export_as_straight_boxes=straight)(**arguments)) for straight in (False, True)]
    assert lines[0] == lines[1]
    assert sum(map(len, lines[1])) == len(set(words.lines.tolist()))


def test_upside_down_words_do_not_turn_the_page() -> None:
    words = one_column()
    quads = words.quads(180)
    flipped = np.arange(len(quads)) % 5 == 0
    quads[flipped] = np.roll(quads[flipped], 2, axis=1)
    expected = lines_of(DocumentBuilder()(**arguments_of(words.boxes, words.texts)))
    assert lines_of(DocumentBuilder()(**arguments_of(quads, words.texts))) == expected


def test_straight_boxes_enclose_rotated_ones_and_their_characters() -> None:
    words = one_column()
    quads = words.quads(5)
    characters = [[Character(text[0], 0.5, quad.tolist())] for text, quad in zip(words.texts, quads, strict=True)]
    document = DocumentBuilder(export_as_straight_boxes=True)(
        **arguments_of(quads, [str(index) for index in range(len(quads))]), characters=[characters]
    )
    built = [word for line in document.pages[0].blocks[0].lines for word in line.words]
    for word in built:
        quad = quads[int(word.value)]
        assert word.geometry == (tuple(quad.min(axis=0)), tuple(quad.max(axis=0)))
        (character,) = word.characters
        assert (character.value, character.geometry) == (words.texts[int(word.value)][0], word.geometry)


def test_reading_order_follows_columns() -> None:
    words = two_columns()
    document = DocumentBuilder(keep_reading_order=True)(**arguments_of(words.boxes, words.texts))
    title, left, right = document.pages[0].blocks
    assert title.render() == "A title over both of the columns"
    assert all(line.geometry[1][0] < 0.5 for line in left.lines)
    assert all(line.geometry[0][0] > 0.5 for line in right.lines)
    flat = DocumentBuilder(keep_reading_order=True, resolve_lines=False)(**arguments_of(words.boxes, words.texts))
    read = " ".join(block.render(" ") for block in document.pages[0].blocks)
    assert [len(block.lines) for block in flat.pages[0].blocks] == [1]
    assert flat.pages[0].blocks[0].render() == read


def test_pages_without_words_and_failed_pages_are_empty() -> None:
    empty = arguments_of(np.zeros((0, 4)), [])
    document = DocumentBuilder(resolve_blocks=True, keep_reading_order=True)(**empty, errors=["cannot be read"])
    assert (document.pages[0].blocks, document.pages[0].error) == ([], "cannot be read")
    assert KIEDocumentBuilder()(**kie_arguments(empty)).pages[0].predictions == {"words": []}
    assert DocumentBuilder()([], [], [], [], [], []).pages == []
    of_no_size = arguments_of(np.array([[0.1, 0.1, 0.2, 0.2]]), ["one"], (0, 0))
    assert lines_of(DocumentBuilder(resolve_blocks=True, keep_reading_order=True)(**of_no_size)) == [[["one"]]]


def test_documents_keep_facts_of_the_page() -> None:
    arguments = arguments_of(np.array([[0.1, 0.1, 0.2, 0.2]]), ["one"])
    region = {"boxes": np.array([[0.0, 0.0, 0.5, 0.5]]), "class_names": ["Text"], "scores": [0.75]}
    facts = {
        "orientations": [{"value": 90, "confidence": None}],
        "languages": [{"value": "en", "confidence": 0.5}],
        "regions": [region],
    }
    page = DocumentBuilder()(**arguments, **facts).pages[0]
    kie_page = KIEDocumentBuilder()(**kie_arguments(arguments), **facts).pages[0]
    for built in (page, kie_page):
        assert (built.orientation, built.language) == (facts["orientations"][0], facts["languages"][0])
        (element,) = built.layout
        assert (element.type, element.confidence, element.geometry) == ("Text", 0.75, ((0.0, 0.0), (0.5, 0.5)))


@pytest.mark.parametrize("builder", [DocumentBuilder(), KIEDocumentBuilder()])
@pytest.mark.parametrize("name", ["objectness_scores", "text_preds", "crop_orientations"])
def test_builder_refuses_arguments_of_other_lengths(builder: Any, name: str) -> None:
    arguments = arguments_of(np.array([[0.1, 0.1, 0.2, 0.2], [0.3, 0.1, 0.4, 0.2]]), ["one", "two"])
    shorter = {**arguments, name: [arguments[name][0][:1]]}
    fewer = {**arguments, name: []}
    if isinstance(builder, KIEDocumentBuilder):
        shorter = kie_arguments(shorter)
    else:
        with pytest.raises(InvalidArgumentError, match=f"lists of the same size.*{name}: 0"):
            builder(**fewer)
    with pytest.raises(InvalidArgumentError, match=f"2 boxes and 1 {name}"):
        builder(**shorter)


def test_bad_arguments_are_refused_by_name() -> None:
    arguments = arguments_of(np.array([[0.1, 0.1, 0.2, np.nan]]), ["one"])
    with pytest.raises(InvalidArgumentError, match=r"page 0 .*not finite"):
        DocumentBuilder()(**arguments)
    with pytest.raises(InvalidArgumentError, match=r"shape \(1, 3\)"):
        DocumentBuilder()(**{**arguments, "boxes": [np.zeros((1, 3))]})
    one = arguments_of(np.array([[0.1, 0.1, 0.2, 0.2]]), ["one"])
    with pytest.raises(InvalidArgumentError, match="this one cannot be read"):
        DocumentBuilder()(**one, tables=[{"cells": [{"geometry": (0, 0, 1, 1)}]}])
    with pytest.raises(InvalidArgumentError, match="tables has 2 items for 1 pages"):
        DocumentBuilder()(**one, tables=[None, None])
    with pytest.raises(InvalidArgumentError, match="line_ids has 2 items for 1 pages"):
        DocumentBuilder()(**arguments, line_ids=[None, None])
    with pytest.raises(InvalidArgumentError, match="paragraph_break=-1"):
        DocumentBuilder(paragraph_break=-1)


def test_repr_matches_doctr_with_our_setting() -> None:
    assert repr(DocumentBuilder(resolve_blocks=True)) == (
        "DocumentBuilder(resolve_lines=True, resolve_blocks=True, paragraph_break=0.035, "
        "export_as_straight_boxes=False, keep_reading_order=False, line_break=0.8)"
    )
