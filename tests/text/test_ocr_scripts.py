"""Test the built-in reader of Cyrillic, Greek and Vietnamese lines."""
# ruff: noqa: RUF001 - letters of several scripts

from __future__ import annotations

import unicodedata
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from mediatensor.ocr import DocumentFile, ocr_predictor
from mediatensor.ocr.models import ppocr_v6_small_reco_tuned
from mediatensor.ocr.utils import CharacterErrorRate
from ocr_onnx_sessions import needs_weights
from ocr_pages import render_page, render_text
from ocr_reading import text_page
from real_files import TEST_DATA

pytestmark = needs_weights

SENTENCES = {
    "Belarusian": "Трамвай павольна аб'ехаў плошчу",
    "Bulgarian": "Младата художничка нарисува чайки над брега",
    "Greek": "Ο γιατρός συμβούλεψε τον ασθενή· ήταν αργά",
    "Macedonian": "Ѕидот меѓу куќите е висок, џемпери",
    "Russian": "Врач посоветовал пить тёплый чай с имбирём",
    "Serbian": "Лекар је саветовао болеснику чај са ђумбиром",
    "Ukrainian": "Юна художниця намалювала грозове небо",
    "Vietnamese": "Nữ họa sĩ trẻ vẽ một con thuyền trên bờ đá",
}


def test_the_built_in_reader_reads_its_languages() -> None:
    sheet = render_text(list(SENTENCES.values()), dpi=110, font_size=14, margin=20)
    (page,) = ocr_predictor(pretrained=True, shorter_side=320)([sheet.image]).pages
    assert page.unread == []
    text = " ".join(page.render().split())
    errors = CharacterErrorRate()
    errors.update([" ".join(SENTENCES.values())], [text])
    rate = errors.summary()
    assert rate is not None
    assert rate < 0.03, text


def test_letters_of_a_line_are_of_one_script() -> None:
    readers = ocr_predictor(pretrained=True).script_readers
    for script, reader in readers.items():
        letters = [c for c in reader.vocab if c.isalpha() and not c.isascii()]
        named = {unicodedata.name(letter).split()[0] for letter in letters}
        assert named == {"LATIN" if script == "Vietnamese" else script.upper()}
    bodies = {id(reader.blocks) for reader in readers.values()}
    assert len(bodies) == 1, "the readers share their layers"


@pytest.mark.parametrize(
    "kind", [None, *(pytest.param(k, marks=pytest.mark.slow) for k in ("receipt", "letter", "form"))]
)
def test_reader_does_not_affect_other_pages(kind: str | None) -> None:
    pages = [text_page().image if kind is None else render_page(kind, seed=1).image]
    without = ocr_predictor(pretrained=True, script_readers=dict.fromkeys(("Cyrillic", "Greek", "Vietnamese")))
    assert len(without.script_readers) == 0
    assert ocr_predictor(pretrained=True)(pages).export() == without(pages).export()


@pytest.mark.parametrize(
    ("name", "text"), [("cyrillic.png", "Време је лепо данас."), ("el_rec.jpg", "Ωραίος καιρός σήμερα.")]
)
def test_pictures_of_other_projects_are_read(name: str, text: str) -> None:
    file = TEST_DATA / "scripts" / name
    if not file.exists():
        pytest.skip(f"{file} is not there")
    assert ocr_predictor(pretrained=True)(DocumentFile.from_images(file)).render() == text


def test_english_words_that_look_alike_in_cyrillic_are_read() -> None:
    words = ["TOBACCO", "UNCHANGED", "BLACK", "EXCHANGE", "COMPACT", "OCTOBER"]
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSerif.ttf"), 12)
    image = Image.new("RGB", (300, 40 + 40 * len(words)), "white")
    for row, word in enumerate(words):
        ImageDraw.Draw(image).text((30, 20 + 40 * row), word, font=font, fill=(60, 60, 60))
    (page,) = ocr_predictor(pretrained=True)([np.array(image)]).pages
    assert (page.render().split(), page.unread) == (words, [])


@pytest.mark.slow
def test_line_that_two_models_read_alike_is_kept() -> None:
    sheet = render_text([SENTENCES["Vietnamese"], SENTENCES["Vietnamese"]], dpi=150, font_size=14, margin=30)
    (unread,) = ocr_predictor(pretrained=True, script_readers={"Vietnamese": None})([sheet.image]).pages
    assert {line.reason for line in unread.unread} == {"script"}
    readers = {"Vietnamese": ppocr_v6_small_reco_tuned(pretrained=True)}
    (page,) = ocr_predictor(pretrained=True, script_readers=readers)([sheet.image]).pages
    assert page.unread == []
    assert page.render().split() == " ".join(line.value for line in unread.unread).split()


def test_state_of_a_predictor_excludes_the_reader() -> None:
    full, without = ocr_predictor(pretrained=True), ocr_predictor(pretrained=True, vocab="0123456789")
    assert not any("script_readers" in name for name in full.state_dict())
    full.load_state_dict(full.state_dict())
    assert {name.partition(".")[0] for name in full.state_dict()} == {
        name.partition(".")[0] for name in without.state_dict()
    }
