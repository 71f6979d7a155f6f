"""Lines that `mediatensor.ocr.drawing` draws: their fonts, their characters, and a reader's results."""

from __future__ import annotations

import random
import string
from pathlib import Path

import numpy as np
import pytest
from PIL import ImageFont

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.drawing import (
    LANGUAGES,
    STYLES,
    TEXTS,
    Face,
    LineLook,
    draw_line,
    draw_random_line,
    find_faces,
    random_text,
    read_texts,
)
from mediatensor.ocr.models import recognition_predictor
from ocr_onnx_sessions import require_weights

matplotlib = pytest.importorskip("matplotlib")

# Faces that are the same wherever matplotlib is.
FOLDER = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
FACES = find_faces([FOLDER / f"{name}.ttf" for name in ("DejaVuSans", "DejaVuSerif", "DejaVuSans-Bold", "STIXGeneral")])


@pytest.mark.parametrize("style", STYLES)
def test_the_same_source_gives_the_same_line(style: str) -> None:
    for make in (random.Random, np.random.default_rng):
        first, second, other = (
            draw_random_line(make(seed), languages=["de", "ru"], faces=FACES, style=style) for seed in (3, 3, 4)
        )
        assert first.text == second.text
        assert first.face == second.face
        np.testing.assert_array_equal(first.image, second.image)
        assert (first.text, first.look) != (other.text, other.look)
        assert first.image.dtype == np.uint8
        assert first.image.shape[2] == 3
        assert min(first.image.shape[:2]) >= 8


def test_a_face_has_what_freetype_draws() -> None:
    """The table of characters compared with images: characters that a font lacks all look the same."""
    wanted = string.ascii_letters + "äßłőșğşžđñæøåΩжЩђґẫơ€£№§" + "あ中한אبก"
    for face in FACES:
        # Without shaping, which puts letters together from their parts.
        font = ImageFont.truetype(face.file, 40, layout_engine=ImageFont.Layout.BASIC)
        missing = bytes(font.getmask("\U0010ffff"))
        for letter in wanted:
            assert face.has(letter) == (bytes(font.getmask(letter)) != missing), (face.name, letter)
        assert face.has(" \t") is True


def test_lines_are_drawn_in_faces_that_have_them() -> None:
    rng = random.Random(0)
    for language in LANGUAGES:
        for _ in range(3):
            try:
                line = draw_random_line(rng, languages=[language], faces=FACES)
            except InvalidArgumentError as error:
                assert language.startswith(("zh", "ja")), error  # noqa: PT017 - the only ones that these faces lack
            else:
                assert line.face.has(line.text)
    with pytest.raises(InvalidArgumentError, match="no face has all characters"):
        draw_line("中文", rng, faces=FACES)
    with pytest.raises(InvalidArgumentError, match="STIXGeneral lacks"):
        draw_line("中", rng, face=next(face for face in FACES if face.name == "STIXGeneral"))


def test_lines_have_only_the_given_characters() -> None:
    rng = random.Random(1)
    for characters in ("0123456789", "ABC", "абвгдежзик", "aeioutnrs"):
        texts = [random_text(rng, ["en", "ru"], characters) for _ in range(200)]
        assert set("".join(texts)) - {" "} == set(characters)
        assert all(texts)


def test_texts_of_a_language_use_all_its_letters() -> None:
    """Rare letters must occur: each letter of the sentences, small and capital, within some thousand lines."""
    for language in ("ru", "el", "vi", "de"):
        rng = random.Random(2)
        drawn = set("".join(random_text(rng, [language]) for _ in range(6000)))
        letters = {letter for letter in "".join(TEXTS[language]) if letter.isalpha()}
        assert letters <= drawn
    assert len({random_text(rng, ["fi"]) for _ in range(1000)}) > 800


@pytest.mark.parametrize("language", ["tr", "az"])
def test_capitals_of_turkish_keep_their_dots(language: str) -> None:
    rng = random.Random(4)
    drawn = [random_text(rng, [language]) for _ in range(2000)]
    # Python writes the small letter of a dotted capital as two characters, of which no alphabet has the second.
    assert not any("\N{COMBINING DOT ABOVE}" in text for text in drawn)
    # Words in the sentences that start with i must not occur with the capital letter that has no dot.
    words = {word for text in TEXTS[language] for word in text.split()}
    assert not {word for text in drawn for word in text.split() if word[0] == "I" and f"i{word[1:]}" in words}


def test_own_texts_are_drawn(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("Grüße aus Aachen\n\nZug 17 nach Ulm\n", encoding="utf-8")
    texts = read_texts(tmp_path / "own.txt")
    rng = random.Random(0)
    for _ in range(30):
        line = draw_random_line(rng, texts=texts, faces=FACES)
        assert any(line.text in text for text in texts)


def test_clean_lines_are_all_ink_and_margins() -> None:
    """The crop goes around the ink with the margins of its look; a plain drawing with Pillow says where ink is."""
    face = FACES[0]
    for text in ("Hxg", "Total: 12,50", "éÅ"):
        look = LineLook(em_px=40, margins=(0.25, 0.5, 0.75, 1.0))
        image = draw_line(text, random.Random(0), face=face, look=look).image
        left, top, right, bottom = ImageFont.truetype(face.file, 40).getmask(text).getbbox()
        rows, columns = np.nonzero(image[..., 0] < 128)
        before, after = columns.min(), image.shape[1] - 1 - columns.max()
        above, below = rows.min(), image.shape[0] - 1 - rows.max()
        np.testing.assert_allclose((before, above, after, below), (10, 20, 30, 40), atol=2)
        assert abs(columns.max() + 1 - columns.min() - (right - left)) <= 3
        assert abs(rows.max() + 1 - rows.min() - (bottom - top)) <= 3


@pytest.mark.parametrize("em_px", [20, 40])
def test_rows_of_dashes_with_negative_margins_have_pixels(em_px: int) -> None:
    look = LineLook(em_px=em_px, margins=(-0.04,) * 4, stretch=0.9)
    image = draw_line("----", random.Random(0), face=FACES[0], look=look).image
    assert image.shape[0] == 8
    assert image.min() < 128


def test_invalid_arguments_are_refused() -> None:
    rng = random.Random(0)
    with pytest.raises(InvalidArgumentError, match="style is 'oil'"):
        draw_random_line(rng, style="oil")
    with pytest.raises(InvalidArgumentError, match="language 'xx'"):
        draw_random_line(rng, languages=["xx"])
    with pytest.raises(InvalidArgumentError, match="languages is empty"):
        draw_random_line(rng, languages=[])
    with pytest.raises(InvalidArgumentError, match="characters has nothing"):
        draw_random_line(rng, characters=" ")
    with pytest.raises(InvalidArgumentError, match="no face"):
        draw_line("word", rng, faces=[])
    with pytest.raises(InvalidArgumentError, match="no face"):
        draw_random_line(rng, texts=[" "])
    with pytest.raises(InvalidArgumentError, match="damage has 'rain'"):
        draw_line("word", rng, look=LineLook(damage=(("rain", 1.0),)))
    for text in ("", "two\nlines"):
        with pytest.raises(InvalidArgumentError, match="text is"):
            draw_line(text, rng)
    with pytest.raises(FileNotFoundError, match="neither a font nor a folder"):
        find_faces("/no/such/folder")


def test_broken_font_has_no_characters(tmp_path: Path) -> None:
    for content in (b"", b"no font at all", (FOLDER / "DejaVuSans.ttf").read_bytes()[:3000]):
        (tmp_path / "broken.ttf").write_bytes(content)
        (face,) = find_faces(tmp_path)
        assert face.has("a") is False
        (tmp_path / "broken.ttf").rename(tmp_path / f"done-{len(content)}")
    assert Face("Pillow", "").has("plain") is True


@pytest.mark.slow
def test_the_default_reader_reads_clean_lines() -> None:
    """Few characters are wrong; a picture that were not the text's would have most wrong."""
    require_weights()
    reader, rng = recognition_predictor(pretrained=True), random.Random(5)
    lines = [draw_random_line(rng, languages=["en", "de", "fr"], faces=FACES, style="clean") for _ in range(24)]
    read = [text for text, _ in reader([line.image for line in lines])]
    same = sum(a.replace(" ", "") == b.text.replace(" ", "") for a, b in zip(read, lines, strict=True))
    assert same >= 17, [(a, b.text) for a, b in zip(read, lines, strict=True) if a != b.text]
