"""Test the search for missed spaces, on lines drawn by hand and in fonts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from mediatensor.ocr.models import recognition_predictor
from mediatensor.ocr.models._lines.words import find_missing_spaces
from ocr_onnx_sessions import require_weights

STEP, LETTER, GAP, SPACE = 8, 12, 3, 11


def drawn(text: str, chance: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw block letters, with peaks, centers, probabilities of spaces, and ink. ``|`` is a missed space."""
    ink = np.zeros((48, 16 + len(text) * (LETTER + SPACE)), bool)
    middles, spaces, x = [], np.full(ink.shape[1] // STEP, 1e-6), 16
    for character in text:
        if character == "|":
            spaces[(x + (SPACE - GAP) // 2) // STEP] = chance
            x += SPACE - GAP
            continue
        if character == " ":
            middles.append(x + (SPACE - GAP) / 2)
            x += SPACE - GAP
            continue
        ink[12:36, x : x + LETTER] = True
        middles.append(x + LETTER / 2)
        x += LETTER + GAP
    places = np.array(middles)
    return (places / STEP).astype(np.int64), places, spaces, ink[:, : x + 16]


@pytest.mark.parametrize(("chance", "found"), [(0.4, True), (0.05, True), (1e-4, False)])
def test_a_space_that_loses_narrowly_is_put_where_the_ink_has_a_gap(chance: float, found: bool) -> None:
    text = "some words here|and there"
    seen = find_missing_spaces(text.replace("|", ""), *drawn(text, chance))
    assert [space.index for space in seen] == ([text.index("|")] if found else [])
    assert all(0.5 < space.probability <= 1 for space in seen)


def test_the_inside_of_a_word_is_not_split_without_a_gap() -> None:
    text = "some words hereand there"
    peaks, middles, spaces, ink = drawn(text, 0.0)
    spaces[peaks[text.index("ean")] : peaks[text.index("and")] + 1] = 0.05
    assert find_missing_spaces(text, peaks, middles, spaces, ink) == []


@pytest.mark.parametrize(
    ("text", "num_found"), [('some words here.|"', 0), ('some words!|" he said', 0), ('some words.|"And here', 1)]
)
def test_closing_quotation_mark_is_not_separated_from_its_full_stop(text: str, num_found: int) -> None:
    assert len(find_missing_spaces(text.replace("|", ""), *drawn(text, 0.4))) == num_found


# The numbers of the rules were fitted to this recogniser.
READER = "ppocr_v6_small_reco"


def test_lines_without_letters_have_no_spaces() -> None:
    for text in ("", " ", "a", "ab", "   "):
        assert find_missing_spaces(text, *drawn(text, 0.5)) == []


def line_of(text: str, name: str, size: int, tracking: float = 0.0) -> np.ndarray:
    """Draw a line as detectors crop it, 1.5 times as high as its letters."""
    matplotlib = pytest.importorskip("matplotlib", reason="brings the fonts")
    font = ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf", size)
    width = round(font.getlength(text) + (2 + len(text) * max(tracking, 0)) * size)
    image = Image.new("RGB", (width, 2 * size), "white")
    pen, x = ImageDraw.Draw(image), 0.4 * size
    for place, character in enumerate(text):
        pen.text((x, 0.3 * size), character, font=font, fill="black")
        # The letters are kerned like the whole text.
        x += font.getlength(text[place : place + 2]) - font.getlength(text[place + 1 : place + 2]) + tracking * size
    pixels = np.asarray(image)
    columns = np.flatnonzero((pixels < 128).any(axis=(0, 2)))
    return pixels[: round(1.75 * size), max(0, columns[0] - size // 4) : columns[-1] + size // 4]


# Without the ink, each of these texts lacks one or more spaces.
@pytest.mark.parametrize(
    ("text", "name", "size", "tracking"),
    [
        ("käyttö [-f koko nimi] [-o toimisto] [-p puhelin] [-u] [-v] nimi", "STIXGeneral", 32, -0.03),
        ("for (i = 0; i < n; i++) { x[i] += y[i] * z; }", "DejaVuSerif", 32, -0.03),
        ("for (i = 0; i < n; i++) { x[i] += y[i] * z; }", "STIXGeneralBolIta", 32, -0.03),
        ("se dice falso. El valor. A la vez. Al final. Un", "DejaVuSerif", 14, -0.03),
        ("x = a * b + c / d - e; y = (z + 1) * 2;", "DejaVuSans-Oblique", 14, 0.0),
    ],
)
def test_lines_drawn_in_fonts_keep_their_spaces(text: str, name: str, size: int, tracking: float) -> None:
    require_weights()
    ((found, _),) = recognition_predictor(READER, pretrained=True)([line_of(text, name, size, tracking)])
    assert [len(word) for word in found.split()] == [len(word) for word in text.split()], found


@pytest.mark.parametrize(
    ("text", "name", "size", "tracking"),
    [
        ("THE LAST HARBOUR", "cmss10", 32, 0.8),
        ("Six months later", "STIXGeneral", 32, 0.8),
        ("NIGHT OVER OSLO", "cmr10", 32, 0.8),
        ("MAY 12", "STIXGeneral", 32, 0.8),
        ("A CAT", "DejaVuSans", 32, 1.0),
        ("A B C D E F G", "DejaVuSans", 16, 0.0),  # a list is not letterspaced
    ],
)
def test_words_of_letterspaced_lines_are_separated_by_wider_gaps(
    text: str, name: str, size: int, tracking: float
) -> None:
    require_weights()
    ((found, _),) = recognition_predictor(READER, pretrained=True)([line_of(text, name, size, tracking)])
    assert [len(word) for word in found.split()] == [len(word) for word in text.split()], found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DejaVuSans", "DejaVuSerif-Italic", "STIXGeneral"])
@pytest.mark.parametrize("tracking", [0.0, 0.08])
def test_long_compounds_and_numbers_are_not_split(name: str, tracking: float) -> None:
    require_weights()
    lines = [
        "Die Straßenverkehrszulassungsordnung gilt",
        "pitkä lentokonesuihkuturbiinimoottori",
        "de kindercarnavalsoptochtvoorbereiding",
        "am 31.01.2024 um 10:30 für 1.234,56 EUR",
    ]
    pictures = [line_of(line, name, size, tracking) for line in lines for size in (16, 30)]
    found = [text.count(" ") for text, _ in recognition_predictor(READER, pretrained=True)(pictures)]
    assert found == [line.count(" ") for line in lines for _ in range(2)]
