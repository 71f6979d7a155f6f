"""Test that confidences of words and lines are probabilities, and that they decide which lines are text."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from mediatensor.ocr.io import Line, Page, Word
from mediatensor.ocr.models._lines.words import word_confidence
from ocr_pages import RenderedPage, render_page
from ocr_reading import reader, text_page, words_of


def test_word_confidence_grows_with_every_character() -> None:
    generator = np.random.default_rng(3)
    for _ in range(200):
        word = generator.uniform(0, 1, generator.integers(1, 12)) ** 0.2
        surer = word.copy()
        surer[generator.integers(len(word))] += 0.3
        assert 0 <= word_confidence(word.tolist()) <= word_confidence(surer.clip(0, 1).tolist()) < 1
    # A longer word with the same character confidences is right less often.
    assert word_confidence([0.95] * 12) < word_confidence([0.95] * 3)
    assert word_confidence([0.0]) < 0.05
    assert 0.97 < word_confidence([1.0] * 5) < 1


def test_word_confidence_grows_with_the_height_of_print_unless_a_character_is_doubtful() -> None:
    heights = np.arange(2, 60)
    sure = np.array([word_confidence([0.99, 0.9], float(height)) for height in heights])
    assert (np.diff(sure) >= 0).all()
    assert sure[0] < 0.75 < 0.85 < sure[-1]
    # Below 10 pixels and above 38, height says nothing more.
    assert np.ptp(sure[heights <= 10]) == np.ptp(sure[heights >= 38]) == 0
    doubtful = [word_confidence([0.99, 0.4], float(height)) for height in heights]
    assert doubtful[-1] < doubtful[0]


@pytest.mark.parametrize("font_size", [8, 14, 22])
def test_confidences_of_a_page_follow_from_its_characters_and_the_height_of_its_words(font_size: float) -> None:
    sheet = text_page("Delivery note 2048", "Total: 1,250.00", font_size=font_size)
    (page,) = reader()([sheet.image]).pages
    lines = [line for block in page.blocks for line in block.lines]
    assert len(lines) == 2
    for line in lines:
        boxes = np.array([word.geometry for word in line.words]) * (sheet.image.shape[1], sheet.image.shape[0])
        height = float(np.median(boxes[:, 1, 1] - boxes[:, 0, 1]))
        for word in line.words:
            shares = np.clip([character.confidence for character in word.characters], 1e-4, 1 - 1e-5)
            weight = 0.63 * (np.clip(height, 10, 38) / 22) ** 0.65
            odds = np.exp(0.34) * (shares.min() / (1 - shares.min())) ** weight * np.prod(shares) ** 0.65
            assert word.confidence == pytest.approx(odds / (1 + odds), abs=2e-3)
        shares = [word.confidence for word in line.words]
        assert line.confidence == pytest.approx(np.prod(shares) ** 0.7 * min(shares) ** 0.3)


@cache
def damaged_pages() -> list[RenderedPage]:
    return [
        render_page(kind, seed, dpi=dpi, blur=blur, noise=noise, jpeg=30, size=(5, 3))
        for seed, (kind, dpi, blur, noise) in enumerate(
            [("letter", 72, 0.9, 12), ("letter", 100, 1.4, 30), ("columns", 90, 1.0, 10), ("letter", 100, 0.0, 0)]
        )
    ]


def read(number: int, min_confidence: float) -> Page:
    """Read a damaged page, with all lines that are at least so probably right."""
    (page,) = reader(min_confidence=min_confidence)([damaged_pages()[number].image]).pages
    return page


@cache
def read_everything(number: int) -> Page:
    return read(number, 0.0)


@pytest.mark.slow
def test_mean_confidence_equals_the_share_of_right_words() -> None:
    words: list[tuple[float, float, bool]] = []
    lines: list[tuple[float, float, bool]] = []
    for number, sheet in enumerate(damaged_pages()):
        page = read_everything(number)
        truth = {word.text for word in sheet.words}
        for line in (line for block in page.blocks for line in block.lines):
            right = [word.value in truth for word in line.words]
            sure = [character.confidence for word in line.words for character in word.characters]
            words += [
                (word.confidence, float(np.mean([c.confidence for c in word.characters])), is_right)
                for word, is_right in zip(line.words, right, strict=True)
            ]
            lines.append((line.confidence, float(np.mean(sure)), all(right)))
    fitted, raw, right = np.array(words, dtype=float).T
    assert 0.2 < right.mean() < 0.97  # else the pages say nothing
    assert abs(fitted.mean() - right.mean()) < 0.05
    # Confidences separate wrong words better than the mean of their characters does.
    assert fitted[right == 0].mean() < raw[right == 0].mean() - 0.1
    fitted, raw, right = np.array(lines, dtype=float).T
    assert abs(fitted.mean() - right.mean()) < min(0.12, raw.mean() - right.mean())


def line_of(*confidences: float) -> Line:
    turn = {"value": 0, "confidence": None}
    return Line([Word("a", value, ((0.1, 0.1), (0.2, 0.2)), 1.0, turn) for value in confidences])


def test_line_confidence_is_between_the_product_and_the_least_of_its_words() -> None:
    assert line_of(0.9, 0.5, 0.8).confidence == pytest.approx(0.36**0.7 * 0.5**0.3)
    assert line_of(0.5, 1.0).confidence == pytest.approx(0.5)
    for value in (0.0, 0.2, 0.5, 0.9, 1.0):
        assert line_of(value).confidence == pytest.approx(value)
    assert Line([]).confidence == 0.0
    assert line_of(0.0, 1.0).confidence == 0.0
    assert line_of(1.0, 1.0).confidence == 1.0
    assert line_of(1.2, -0.1, 1.0).confidence == 0.0
    assert "confidence" not in line_of(0.9).export()


def test_line_confidence_grows_with_every_word() -> None:
    generator = np.random.default_rng(4)
    for _ in range(200):
        words = generator.uniform(0, 1, generator.integers(1, 12)) ** 0.2
        surer = words.copy()
        surer[generator.integers(len(words))] += 0.3
        assert line_of(*words.tolist()).confidence <= line_of(*surer.clip(0, 1).tolist()).confidence <= 1


@pytest.mark.slow
def test_lines_below_the_expected_share_of_right_words_are_unread() -> None:
    page, strict = read_everything(1), read(1, 0.6)
    assert not any(line.reason == "low confidence" for line in page.unread)
    left_out = [line for line in strict.unread if line.reason == "low confidence"]
    assert left_out
    assert all(line.confidence < 0.6 for line in left_out)
    assert len(words_of(strict)) + sum(len(line.value.split()) for line in left_out) == len(words_of(page))
