"""Test lines that are found but not read: their reasons and exports."""

from __future__ import annotations

import copy
import json
import pickle
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mediatensor.cli import main
from mediatensor.ocr.io import Document, KIEPage, Page, UnreadLine
from mediatensor.ocr.models import kie_predictor, ocr_predictor
from mediatensor.ocr.models._lines.words import LineCharacters, find_left_over_ink
from mediatensor.ocr.utils import CharacterErrorRate, overlay
from mediatensor.ocr.utils.metrics import box_iou
from ocr_onnx_sessions import needs_weights
from ocr_pages import RenderedPage, render_text
from ocr_reading import reader, words_of

pytestmark = [needs_weights, pytest.mark.usefixtures("features_remembered_in_module")]

UNKNOWN = "Բոլոր մարդիկ ծնվում են ազատ"  # Armenian: "all people are born free"


def two_lines() -> RenderedPage:
    return render_text(["All people are born free", UNKNOWN], dpi=100, font_size=18, margin=30)


def read_page(**options: object) -> Page:
    (page,) = reader(**options)([two_lines().image]).pages
    return page


def true_box(page: RenderedPage, line: int) -> np.ndarray:
    quad = page.lines[line].quad / page.image.shape[1::-1]
    return np.array([[*quad.min(0), *quad.max(0)]])


def test_line_of_an_unknown_script_is_reported() -> None:
    page = read_page()
    assert [word.value for word in words_of(page)] == ["All", "people", "are", "born", "free"]
    (line,) = page.unread
    assert (line.reason, line.script, line.value, line.confidence) == (
        "script",
        "Armenian",
        line.value,
        line.confidence,
    )
    assert box_iou(true_box(two_lines(), 1), np.array(line.geometry).reshape(1, 4))[0, 0] > 0.4
    assert "unread=1" in repr(page)


def test_line_of_low_confidence_is_reported_with_its_text() -> None:
    predictor = copy.deepcopy(reader())
    predictor.min_confidence = 1.0
    (page,) = predictor([two_lines().image]).pages
    assert words_of(page) == []
    first, other = sorted(page.unread, key=lambda line: line.geometry[0][1])
    assert (first.reason, first.value) == ("low confidence", "All people are born free")
    assert 0.9 < first.confidence < 1
    assert first.script is None
    assert other.reason == "script"


def test_read_pages_report_nothing() -> None:
    (page,) = reader()([render_text(["All people", "are born free"], dpi=100, margin=30).image]).pages
    assert page.unread == []
    assert "unread" not in page.export()
    assert "unread" not in repr(page)


@pytest.mark.parametrize("quarters", [1, *(pytest.param(q, marks=pytest.mark.slow) for q in (2, 3))])
def test_places_refer_to_the_original_page(quarters: int) -> None:
    sheet = render_text(["All people are born free", "and equal in dignity", UNKNOWN], dpi=100, font_size=18, margin=30)
    turned = np.ascontiguousarray(np.rot90(sheet.image, quarters))
    for predictor in (reader(), reader(assume_straight_pages=False, export_as_straight_boxes=True)):
        (page,) = predictor([turned]).pages
        (line,) = page.unread
        points = sheet.lines[2].quad / sheet.image.shape[1::-1]
        for _ in range(quarters):
            points = np.stack([points[:, 1], 1 - points[:, 0]], axis=1)
        expected = np.array([[*points.min(0), *points.max(0)]])
        assert box_iou(expected, np.array(line.geometry).reshape(1, 4))[0, 0] > 0.4


def test_unread_lines_have_quads_on_rotated_pages() -> None:
    (line,) = read_page(assume_straight_pages=False).unread
    corners = np.array(line.geometry)
    assert corners.shape == (4, 2)
    assert corners[0, 0] < corners[1, 0]
    assert corners[0, 1] < corners[3, 1]


def test_exports_have_an_additional_key() -> None:
    page = read_page()
    exported = json.loads(json.dumps(page.export()))
    without = {key: value for key, value in exported.items() if key != "unread"}
    assert exported["unread"] == [json.loads(json.dumps(line.export())) for line in page.unread]
    assert set(exported["unread"][0]) == {"geometry", "reason", "value", "confidence", "script"}
    assert json.loads(json.dumps(Page.from_dict(exported).export())) == exported
    assert Page.from_dict(without).unread == []
    document = Document([page])
    for restored in (Document.from_dict(document.export()), pickle.loads(pickle.dumps(document))):
        assert restored.export() == document.export()
    assert UNKNOWN not in page.render()


def test_key_information_reports_unread_lines() -> None:
    (page,) = kie_predictor(pretrained=True, shorter_side=192)([two_lines().image]).pages
    assert [line.reason for line in page.unread] == ["script"]
    assert KIEPage.from_dict(page.export()).export() == page.export()


def test_stored_lines_are_checked() -> None:
    exported = UnreadLine(((0.1, 0.1), (0.3, 0.2)), "no text").export()
    assert UnreadLine.from_dict(exported).export() == exported
    with_script = UnreadLine(((0.1, 0.1), (0.3, 0.2)), "script", "M", 0.5, "Greek")
    assert UnreadLine.from_dict(with_script.export()).export() == with_script.export()
    assert "script" not in exported
    for key, value in (("geometry", [1]), ("reason", 3), ("confidence", "high"), ("script", 1)):
        with pytest.raises(ValueError, match=key):
            UnreadLine.from_dict({**exported, key: value})


def test_overlays_frame_unread_lines() -> None:
    page = read_page()
    with_frame = overlay(page, text="none")
    page.unread, lines = [], page.unread
    changed = (with_frame != overlay(page, text="none")).any(axis=2)
    height, width = changed.shape
    (left, top), (right, bottom) = lines[0].geometry
    rows, columns = np.nonzero(changed)
    assert rows.min() == pytest.approx(top * height, abs=2)
    assert rows.max() == pytest.approx(bottom * height, abs=2)
    assert columns.min() == pytest.approx(left * width, abs=2)
    assert columns.max() == pytest.approx(right * width, abs=2)


def test_command_reports_unread_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.fromarray(two_lines().image).rotate(180).save(tmp_path / "scan.png")
    assert main(["ocr", str(tmp_path / "scan.png"), "-o", str(tmp_path), "--format", "json"]) == 0
    said = "".join(capsys.readouterr())
    assert "scan.png: warning: 1 line in a script that cannot be read (Armenian), on page 1" in said
    assert "not read" not in said
    assert "scan.png: 1 page rotated, and read in the right direction: 1 (180 degrees)" in said
    (page,) = json.loads((tmp_path / "scan.json").read_text())["pages"]
    assert [(line["reason"], line["script"]) for line in page["unread"]] == [("script", "Armenian")]


#: A sentence in each language that the documentation says the default model reads, with its own letters.
SENTENCES = {
    "Czech": "Příliš tichý kůň úpěl své ódy",
    "Danish": "Høj bly gom vandt fræk sexquiz på åen",
    "Dutch": "Geïnde ideeën en coöperaties in één zin",
    "English": "The quick brown fox jumps over the lazy dog",
    "Estonian": "Põdur tšellomängija töötab öösel",
    "Finnish": "Törkyturpa pääsi hyvään työhön",
    "French": "Dès Noël où un zéphyr haï me vêt de glaçons",
    "German": "Zwölf Boxkämpfer jagen Eva über große Straßen",
    "Hungarian": "Minden emberi lény szabadon születik",
    "Icelandic": "Hver maður er borinn frjáls og jafn öðrum",
    "Italian": "Perché la città è così più bella di là",
    "Latvian": "Visi cilvēki piedzimst brīvi un vienlīdzīgi",
    "Lithuanian": "Visi žmonės gimsta laisvi ir lygūs",
    "Norwegian": "Alle mennesker er født frie på øya",
    "Polish": "Wszyscy ludzie rodzą się wolni, pchnąć łódź",
    "Portuguese": "Não há ações à margem da educação",
    "Romanian": "Toate ființele umane se nasc libere în țară",
    "Slovak": "Všetci ľudia sa rodia slobodní a rovní",
    "Slovenian": "Vsi ljudje se rodijo svobodni že čisto",
    "Spanish": "El niño comió una piña, ¿qué pasó ayer?",
    "Swedish": "Alla människor är födda fria på ön",
    "Turkish": "Bütün insanlar hür ve eşit doğarlar",
}


def test_sentences_in_many_languages_are_read() -> None:
    errors = CharacterErrorRate()
    sheet = render_text(list(SENTENCES.values()), dpi=100, font_size=16, margin=30)
    (page,) = reader()([sheet.image]).pages
    found = [line.render() for block in page.blocks for line in block.lines]
    for language, read in zip(SENTENCES, found, strict=True):
        own = CharacterErrorRate()
        own.update([SENTENCES[language]], [read])
        errors.update([SENTENCES[language]], [read])
        assert own.summary() <= 0.07, (language, read)
    assert errors.summary() < 0.01
    assert page.unread == []


def test_skipped_letters_are_reported_as_gaps() -> None:
    armenian = "".join(map(chr, range(0x561, 0x57A))) + " " + "".join(map(chr, range(0x57A, 0x587)))
    sheet = render_text(["All people are born free", armenian], dpi=100, font_size=18).image
    (page,) = reader(unreadable_scripts="read")([sheet]).pages
    assert {line.reason for line in page.unread} <= {"gaps", "no text", "low confidence"}
    assert len(page.unread) >= 1
    (page,) = reader()([sheet]).pages
    assert [line.script for line in page.unread] == ["Armenian"]


def test_one_character_of_a_long_line_is_a_gap() -> None:
    ink = np.zeros((32, 200), bool)
    ink[8:24, 4:196] = True
    one = LineCharacters(["."], np.array([0.95]), np.array([0.97]), np.array([0.97]))
    assert find_left_over_ink(one, ink) is not None
    wide = LineCharacters(["W"], np.array([0.1]), np.array([0.9]), np.array([0.97]))
    assert find_left_over_ink(wide, ink[:, :32]) is None


#: Sentences in scripts that the default recogniser cannot read, and of which DejaVu Sans has the letters.
UNREADABLE = {
    "Cyrillic": ("Каждый человек имеет право на жизнь", "Новый адрес: улица Мира, дом 12", "Свобода и равенство людей"),
    "Greek": ("Όλοι γεννιούνται ελεύθεροι και ίσοι", "Σήμερα πληρώνεις 25 ευρώ", "Καλημέρα και ευχαριστώ πολύ"),
    "Arabic": ("يولد جميع الناس أحرارا", "السعر اليوم مع الضريبة", "شارع المدرسة رقم 12"),
    "Hebrew": ("כל בני האדם נולדו שווים", "המחיר היום הוא 25", "רחוב הספר בירושלים"),
    "Georgian": ("ყველა ადამიანი იბადება თავისუფალი", "დღეს ახალი სახლი ვნახე", "წიგნი და სკოლა ქალაქში"),
    "Armenian": ("Բոլոր մարդիկ ծնվում են ազատ", "Այսօր նոր տուն տեսա", "Գիրք և դպրոց քաղաքում"),
    "Vietnamese": ("Tất cả mọi người đều bình đẳng", "Địa chỉ mới của bạn ở Hà Nội", "Tổng cộng phải trả một triệu"),
}


NONE = dict.fromkeys(("Cyrillic", "Greek", "Vietnamese"))


def test_lines_of_scripts_that_cannot_be_read_are_named() -> None:
    lines = [(script, text) for script, texts in UNREADABLE.items() for text in texts]
    sheet = render_text([text for _, text in lines], dpi=100, font_size=16, margin=30)
    (page,) = ocr_predictor(pretrained=True, shorter_side=192, script_readers=NONE)([sheet.image]).pages
    found = sorted(page.unread, key=lambda line: line.geometry[0][1])
    assert {line.reason for line in found} == {"script"}
    assert words_of(page) == []
    named = [line.script for line in found]
    assert len(named) == len(lines)
    right = sum(name == script for name, (script, _) in zip(named, lines, strict=True))
    assert right >= 0.9 * len(lines), named


def test_unreadable_scripts_are_read_as_look_alikes_on_request() -> None:
    page = read_page(unreadable_scripts="read", min_confidence=0.0)
    assert {line.reason for line in page.unread} <= {"no text", "gaps"}
    with pytest.raises(ValueError, match=r"unreadable_scripts \(leave\)"):
        reader(unreadable_scripts="leave")


def test_other_weights_and_vocabularies_do_not_report_scripts() -> None:
    model = copy.deepcopy(reader().reco_predictor.model)
    assert "Cyrillic" in model.script_classifier.names
    assert not any("script" in name for name in model.state_dict())
    model.train()
    with torch.no_grad():
        model.norm.weight += 0.01
    assert model.eval().script_classifier is None
    model.load_state_dict(reader().reco_predictor.model.state_dict())
    assert model.script_classifier is not None
    model.restrict_vocab("0123456789")
    assert model.script_classifier is None


def test_languages_need_all_letters() -> None:
    model = reader().reco_predictor.model
    languages = model.languages
    assert set(SENTENCES) - {"Norwegian"} <= set(languages.values())
    assert {"Maltese", "Latvian"} <= set(languages.values())
    assert not {"Uzbek", "Russian", "Greek", "Vietnamese", "Yoruba"} & set(languages.values())
    digits = copy.deepcopy(model)
    digits.restrict_vocab("0123456789")
    assert digits.languages == {}
    assert digits.scripts == {}


def test_scripts_follow_from_languages() -> None:
    model = reader().reco_predictor.model
    assert model.scripts == {"Latn": "Latin", "Hani": "Han", "Hira": "Hiragana", "Kana": "Katakana"}
    # The vocabulary has all common letters of these scripts, according to their Unicode names.
    known = {unicodedata.name(character, "").split(" ")[0] for character in model.characters if len(character) == 1}
    assert {"LATIN", "CJK", "HIRAGANA", "KATAKANA"} <= known
    assert not set(model.scripts.values()) & set(model.script_classifier.names)
    latin = copy.deepcopy(model)
    latin.restrict_vocab("".join(map(chr, range(0x20, 0x7F))))
    assert latin.scripts == {"Latn": "Latin"}
    assert "English" in latin.languages.values()
