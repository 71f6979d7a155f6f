"""Test that lines in other scripts are read by the recognisers of these scripts."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lazy_modules import import_on_use
from mediatensor.errors import InvalidArgumentError, WeightsNotFoundError
from mediatensor.ocr.models import (
    crnn_mobilenet_v3_small,
    load_line_recognizer,
    ocr_predictor,
    ppocr_v6_small_reco,
    recognition_predictor,
)
from ocr_onnx_sessions import line_network, require_weights
from ocr_pages import render_text
from ocr_reading import words_of

onnx = import_on_use("onnx", reason="makes the files that are read here")
import_on_use("onnxruntime", reason="runs them")

ENGLISH = "All people are born free"
# The two lines mean "All people are born free" and "good day to all".
RUSSIAN = " ".join(
    "".join(chr(0x430 + letter) for letter in word)
    for word in ((2, 17, 5), (11, 30, 4, 8), (16, 14, 6, 4, 0, 30, 18, 17, 31), (17, 2, 14, 1, 14, 4, 13, 27, 12, 8))
)
GREEK = " ".join(
    "".join(chr(0x3B1 + letter) for letter in word)
    for word in ((10, 0, 11, 6, 12, 4, 16, 0), (18, 4), (14, 11, 14, 20, 18), (20, 14, 19, 18), (21, 8, 11, 14, 20, 18))
)
WIDTH = 8


def levels_model(path: Path, characters: list[str], weight: np.ndarray, bias: np.ndarray) -> Path:
    """Write an ONNX file of a network that scores classes by the darkness, from 0 to 1, of each 8 columns."""
    helper = onnx.helper
    arrays = {
        "w": np.full((1, 3, 1, 1), -1 / 6, np.float32),
        "b": np.array([0.5], np.float32),
        "axis": np.array([2], np.int64),
        "head": weight.astype(np.float32)[None],
        "bias": bias.astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["dark"], kernel_shape=[1, 1]),
        helper.make_node("AveragePool", ["dark"], ["mean"], kernel_shape=[48, WIDTH], strides=[48, WIDTH]),
        helper.make_node("Squeeze", ["mean", "axis"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["steps"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["steps", "head"], ["scores"]),
        helper.make_node("Add", ["scores", "bias"], ["out"]),
    ]
    onnx.save(line_network(nodes, arrays, len(characters) + 2, characters), path)
    return path


def word_marker(path: Path, character: str, sureness: float = 1e4) -> Path:
    """Return a reader that reads its character where there is ink, and a space elsewhere."""
    # Classes: the blank, the character, the space.
    return levels_model(path, [character], np.array([0, sureness, 0]), np.array([-1e4, -0.02 * sureness, 0]))


@pytest.fixture(scope="module")
def page() -> Any:
    require_weights()
    return render_text([ENGLISH, RUSSIAN, GREEK], dpi=100, font_size=18, margin=30)


def texts_by_line(read: Any, page: Any) -> list[set[str]]:
    """Return the words found on each drawn line, without signs.

    The readers here leave out most letters, and some of those resemble check boxes.
    """
    bands = [line.quad[:, 1] / len(page.image) for line in page.lines]
    words = [word for word in words_of(read) if word.value.isalpha()]
    middles = [(word.value, (word.geometry[0][1] + word.geometry[1][1]) / 2) for word in words]
    return [{value for value, middle in middles if band.min() < middle < band.max()} for band in bands]


def test_readers_read_the_lines_of_their_scripts(page: Any, tmp_path: Path) -> None:
    russian = word_marker(tmp_path / "cyrillic.onnx", "\u0448")
    greek = load_line_recognizer(word_marker(tmp_path / "greek.onnx", "\u03c8"))
    predictor = ocr_predictor(pretrained=True, shorter_side=192, script_readers={"Cyrillic": russian, "Greek": greek})
    (read,) = predictor([page.image]).pages
    assert texts_by_line(read, page) == [set(ENGLISH.split()), {"\u0448"}, {"\u03c8"}]
    assert not any(line.reason == "script" for line in read.unread)
    marks = [word for word in words_of(read) if word.value in "\u03c8\u0448"]
    assert all(word.confidence > 0.9 and 0 <= word.geometry[0][0] < word.geometry[1][0] <= 1 for word in marks)
    (again,) = pickle.loads(pickle.dumps(predictor))([page.image]).pages
    assert again.render() == read.render()


def test_line_without_a_reader_stays_unread(page: Any, tmp_path: Path) -> None:
    greek = word_marker(tmp_path / "greek.onnx", "\u03c8")
    predictor = ocr_predictor(pretrained=True, shorter_side=192, script_readers={"Greek": greek, "Cyrillic": None})
    (read,) = predictor([page.image]).pages
    assert texts_by_line(read, page) == [set(ENGLISH.split()), set(), {"\u03c8"}]
    assert [line.script for line in read.unread if line.reason == "script"] == ["Cyrillic"]


def test_low_confidence_of_a_reader_leaves_the_line_unread(page: Any, tmp_path: Path) -> None:
    unsure = word_marker(tmp_path / "unsure.onnx", "\u0448", sureness=0.01)
    predictor = ocr_predictor(
        pretrained=True, shorter_side=192, script_readers={"Cyrillic": unsure, "Greek": None}, min_confidence=0.7
    )
    (read,) = predictor([page.image]).pages
    assert texts_by_line(read, page) == [set(ENGLISH.split()), set(), set()]
    assert sorted(str(line.script) for line in read.unread) == ["Cyrillic", "Greek"]


def test_readers_move_with_the_predictor(tmp_path: Path) -> None:
    require_weights()
    path = word_marker(tmp_path / "slavic.onnx", "\u0448")
    predictor = ocr_predictor(pretrained=True, shorter_side=192, script_readers={"Cyrillic": path, "Greek": str(path)})
    readers = predictor.script_readers
    assert readers["Cyrillic"] is readers["Greek"]  # the file was loaded once
    assert next(predictor.to(torch.bfloat16).script_readers["Greek"].parameters()).dtype == torch.bfloat16


def test_onnx_reader_can_be_the_only_recogniser(page: Any, tmp_path: Path) -> None:
    model = load_line_recognizer(word_marker(tmp_path / "all.onnx", "\u0448"))
    predictor = ocr_predictor(reco_arch=model, pretrained=True)
    assert {word.value for word in words_of(predictor([page.image]).pages[0])} == {"\u0448"}
    assert predictor.reco_predictor.model.characters == ("\u0448", " ")


@pytest.mark.parametrize(
    ("readers", "error", "match"),
    [
        ({"Elvish": "a.onnx"}, InvalidArgumentError, "Elvish: scripts are Arabic, Armenian, .*Vietnamese"),
        ({"Greek": "gone.onnx"}, WeightsNotFoundError, r"gone\.onnx"),
        ({"Greek": "small"}, InvalidArgumentError, "the reader for Greek is a CRNN: give a recogniser of lines"),
    ],
)
def test_readers_are_checked(readers: dict[str, Any], error: type[Exception], match: str) -> None:
    require_weights()
    own = {script: crnn_mobilenet_v3_small() if reader == "small" else reader for script, reader in readers.items()}
    with pytest.raises(error, match=match):
        ocr_predictor(pretrained=True, shorter_side=192, script_readers=own)


def test_readers_need_a_recogniser_that_detects_scripts(tmp_path: Path) -> None:
    require_weights()
    path = word_marker(tmp_path / "greek.onnx", "\u03c8")
    for options in ({"vocab": "abc"}, {"reco_arch": ppocr_v6_small_reco(vocab="abc ")}):
        with pytest.raises(InvalidArgumentError, match="script_readers need the default recogniser"):
            ocr_predictor(pretrained=True, shorter_side=192, script_readers={"Greek": path}, **options)


@pytest.mark.parametrize(
    ("seen", "read"),
    [
        # Three Arabic letters in visual order, from the left, and in reading order.
        ("CBA", "ABC"),
        ("C BA", "AB C"),
        ("BA 12 C", "C 12 AB"),
        ("B x12 y3 A", "A x12 y3 B"),
        (".BA", "AB."),
        ("x12 y", "x12 y"),
    ],
)
def test_right_to_left_lines_are_in_reading_order(seen: str, read: str, tmp_path: Path) -> None:
    arabic = {letter: chr(0x628 + place) for place, letter in enumerate("ABC")}
    characters = [*arabic.values(), *"123xy.", *map(chr, range(0x634, 0x634 + 18))]
    levels = np.linspace(0, 1, len(characters) + 2)
    # The class of the nearest level has the highest score.
    path = levels_model(tmp_path / "arabic.onnx", characters, 2e5 * levels, -1e5 * levels**2)
    model = load_line_recognizer(path)
    assert model.right_to_left
    picture = np.full((48, 320, 3), 255, np.uint8)
    classes = {character: index + 1 for index, character in enumerate((*characters, " "))}
    for place, character in enumerate(seen):
        level = levels[classes[arabic.get(character, character)]]
        picture[:, 16 + 24 * place : 32 + 24 * place] = round(255 * (1 - level))
    ((text, confidence),) = recognition_predictor(model)([picture])
    assert text == "".join(arabic.get(character, character) for character in read)
    assert confidence > 0.9
