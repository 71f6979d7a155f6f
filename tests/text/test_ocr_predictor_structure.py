"""Structure of pages by the predictors: of pictures, of turned pages, and of PDF files that have words."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

import pdf_files
from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr import DocumentFile, kie_predictor, ocr_predictor
from mediatensor.ocr.io import Document
from mediatensor.ocr.models.predictor import OCRPredictor
from mediatensor.ocr.structure import FieldRule
from ocr_reading import reader, words_of
from pdf_files import assembled, stream
from pdf_files import document as pdf_document

pytestmark = pytest.mark.usefixtures("features_remembered_in_module")

HEAD = ["Item", "Amount", "Price"]
ROWS = [["Green tea", "2", "12.50"], ["Black tea", "1", "8.99"]]
TITLE = "Delivery note 2048"
TEXT = ["All goods were packed with care by hand and", "left our house in good order this morning."]
RULES = (FieldRule("total", labels=("Total",), kind="amount"),)


@cache
def picture() -> np.ndarray[Any, Any]:
    """A title, a paragraph of two lines, a ruled table, and a total."""
    image = Image.new("RGB", (900, 640), "white")
    draw = ImageDraw.Draw(image)
    body, large = ImageFont.load_default(24), ImageFont.load_default(44)
    draw.text((60, 40), TITLE, "black", large)
    for number, line in enumerate(TEXT):
        draw.text((60, 130 + 32 * number), line, "black", body)
    columns, top, height = [60, 380, 600, 840], 240, 60
    for row in range(4):
        draw.line((60, top + row * height, 840, top + row * height), "black", 2)
    for column in columns:
        draw.line((column, top, column, top + 3 * height), "black", 2)
    for row, texts in enumerate([HEAD, *ROWS]):
        for left, text in zip(columns, texts, strict=False):
            draw.text((left + 20, top + row * height + 16), text, "black", body)
    draw.text((60, 500), "Total:", "black", body)
    draw.text((620, 500), "$21.49", "black", body)
    return np.asarray(image)


@cache
def structured(quarters: int) -> Document:
    """Read the picture after a number of quarter turns."""
    image = np.rot90(picture(), quarters).copy()
    return reader(detect_layout=True, detect_tables=True)([image])


@pytest.mark.slow
def test_a_table_and_a_title_have_their_words() -> None:
    page = structured(0).pages[0]
    (table,) = page.tables
    assert table.to_grid() == [HEAD, *ROWS]
    assert np.allclose(np.ravel(table.geometry), [60 / 900, 240 / 640, 840 / 900, 420 / 640], atol=0.02)
    assert page.layout[0].type == "Title"
    assert [region.type for region in page.layout].count("Table") == 1
    blocks = [block.render() for block in page.blocks]
    assert blocks[0] == TITLE
    assert "\n".join(TEXT) in blocks
    words = " ".join(blocks)
    assert "Green" not in words
    markdown = page.export_as_markdown()
    assert markdown.startswith(f"# {TITLE}\n\n")
    assert "| Green tea | 2 | 12.50 |" in markdown


def test_without_structure_nothing_changes() -> None:
    page = reader()([picture()]).pages[0]
    assert not page.layout
    assert not page.tables
    assert not page.fields
    assert "layout" in page.export()
    assert "fields" not in page.export()


@pytest.mark.parametrize("quarters", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_turned_page_has_the_same_structure(quarters: int) -> None:
    """Regions and cells lie where they are on the page as it came."""
    upright, turned = (structured(turns).pages[0] for turns in (0, quarters))
    assert turned.tables[0].to_grid() == upright.tables[0].to_grid()
    assert [region.type for region in turned.layout] == [region.type for region in upright.layout]
    for one, other in zip(upright.layout, turned.layout, strict=True):
        corners = np.array(one.geometry)
        for _ in range(quarters):  # counter-clockwise, as rot90
            corners = np.stack([corners[:, 1], 1 - corners[:, 0]], axis=1)
        box = np.concatenate([corners.min(axis=0), corners.max(axis=0)])
        assert np.allclose(np.ravel(other.geometry), box, atol=0.02)


@pytest.mark.slow
def test_named_fields_are_found_on_pages_and_by_class() -> None:
    page = reader(fields=RULES)([picture()]).pages[0]
    (field,) = page.fields
    assert (field.name, field.value) == ("total", "$21.49")
    assert field.geometry[0][0] > 0.65
    assert not page.layout
    predictions = kie_predictor(pretrained=True, fields=RULES, shorter_side=192)([picture()]).pages[0].predictions
    assert [one.value for one in predictions["total"]] == ["$21.49"]
    assert "Delivery" in [one.value for one in predictions["words"]]


def test_kinds_of_regions_can_be_left_out() -> None:
    predictor = ocr_predictor(pretrained=True, detect_tables=True, ignore_regions=["Table", "title"], shorter_side=192)
    page = predictor([picture()]).pages[0]
    assert page.render().split()[:3] == TEXT[0].split()[:3]
    assert not page.tables


@pytest.mark.parametrize("make", [ocr_predictor, kie_predictor])
def test_fields_of_regions_that_are_left_out_are_left_out(make: Any) -> None:
    lines = [(72, 700 - 20 * number, TEXT[number % 2]) for number in range(12)]
    content = pdf_files.text_page(*lines, size=12) + b"\n" + pdf_files.text_page((72, 30, "Phone: 0123 456789"), size=9)
    options = {"pretrained": True, "detect_layout": True, "text_layer": True}
    fields = [
        [field.value for field in make(**options, ignore_regions=kinds)(pdf_document([content])).pages[0].fields]
        for kinds in (None, "Page-footer")
    ]
    assert fields == [["0123 456789"], []]


def test_unknown_kinds_and_fields_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'Tabel'.*Page-footer"):
        ocr_predictor(ignore_regions=["Tabel"])
    with pytest.raises(InvalidArgumentError, match="receit"):
        ocr_predictor(fields="receit")


def drawn_pdf(more: bytes = b"", entries: str = "") -> bytes:
    """The same table in vectors, with words."""
    parts = ["0 0 0 RG 1 w"]
    for row in range(4):
        parts.append(f"60 {500 - 30 * row} m 480 {500 - 30 * row} l S")
    for left in (60, 240, 360, 480):
        parts.append(f"{left} 500 m {left} 410 l S")
    parts.append(f"BT /F 26 Tf 60 700 Td ({TITLE}) Tj ET")
    for number, line in enumerate(TEXT):
        parts.append(f"BT /F 12 Tf 60 {620 - 16 * number} Td ({line}) Tj ET")
    for row, texts in enumerate([HEAD, *ROWS]):
        for left, text in zip((60, 240, 360), texts, strict=True):
            parts.append(f"BT /F 12 Tf {left + 8} {480 - 30 * row} Td ({text}) Tj ET")
    return pdf_document(["\n".join(parts).encode() + more], entries=entries)


def test_words_of_a_pdf_file_are_taken_as_they_are() -> None:
    predictor = reader(detect_layout=True, detect_tables=True, text_layer=True)
    document = predictor(DocumentFile.from_pdf(drawn_pdf()))
    page = document.pages[0]
    assert page.tables[0].to_grid() == [HEAD, *ROWS]
    assert page.blocks[0].render() == TITLE
    assert {word.confidence for block in page.blocks for line in block.lines for word in line.words} == {1.0}
    assert page.dimensions == page.page.shape[:2]


SIDE_NOTE = "archived under number 77"


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
@pytest.mark.parametrize("is_turned_by_file", [True, False])
def test_words_of_a_turned_pdf_page_are_in_reading_order(turn: int, is_turned_by_file: bool) -> None:
    note = f"BT /F 12 Tf 0 1 -1 0 40 300 Tm ({SIDE_NOTE}) Tj ET".encode()
    options: dict[str, Any] = {} if is_turned_by_file else {"rotation": turn}
    file = drawn_pdf(note, entries=f"/Rotate {turn}" if is_turned_by_file else "")
    pages = DocumentFile.from_pdf(file, **options)
    page = reader(text_layer=True)(pages).pages[0]
    lines = [line.render() for block in page.blocks for line in block.lines]
    assert set(lines) == {TITLE, *TEXT, *(text for row in [HEAD, *ROWS] for text in row), SIDE_NOTE}
    assert lines.index(TITLE) < lines.index(TEXT[0]) < lines.index(TEXT[1]) < lines.index(HEAD[0])
    assert page.orientation["value"] == {0: None, 90: 90, 180: 180, 270: -90}[turn]
    assert page.dimensions == pages[0].shape[:2]
    boxes = [(word.value, np.ravel(word.geometry)) for word in pages.text_layer(0)]
    for word in words_of(page):
        expected = (turn - 90) % 360 if word.value in SIDE_NOTE.split() else turn
        assert word.crop_orientation["value"] % 360 == expected
        letters = np.array([np.ravel(letter.geometry) for letter in word.characters])
        for box in (np.ravel(word.geometry), np.append(letters[:, :2].min(axis=0), letters[:, 2:].max(axis=0))):
            assert any(word.value == value and np.allclose(box, other, atol=1e-9) for value, other in boxes)


def test_a_turned_pdf_page_has_its_structure_where_it_is() -> None:
    predictor = reader(detect_layout=True, detect_tables=True, text_layer=True)
    upright, turned = (
        predictor(DocumentFile.from_pdf(drawn_pdf(entries=entries))).pages[0] for entries in ("", "/Rotate 90")
    )
    assert turned.tables[0].to_grid() == [HEAD, *ROWS]
    assert [region.type for region in turned.layout] == [region.type for region in upright.layout]
    for one, other in zip(upright.layout, turned.layout, strict=True):
        (left, top), (right, bottom) = one.geometry
        assert np.allclose(other.geometry, [(1 - bottom, left), (1 - top, right)], atol=1e-6)
    assert turned.export_as_markdown() == upright.export_as_markdown()
    words = [[word for cell in page.tables[0].cells for word in cell.words] for page in (upright, turned)]
    assert len(words[0]) == len(words[1]) == len(" ".join(" ".join(row) for row in [HEAD, *ROWS]).split())
    for word, other_word in zip(*words, strict=True):
        (left, top), (right, bottom) = word.geometry
        assert np.allclose(other_word.geometry, [(1 - bottom, left), (1 - top, right)], atol=1e-6)
        assert other_word.crop_orientation["value"] == 90


def test_a_turned_pdf_page_is_straightened() -> None:
    predictor = reader(text_layer=True, straighten_pages=True)
    upright, turned = (
        predictor(DocumentFile.from_pdf(drawn_pdf(entries=entries))).pages[0] for entries in ("", "/Rotate 270")
    )
    assert turned.orientation["value"] == -90
    assert np.abs(upright.page.astype(int) - turned.page).mean() < 2
    for one, other in zip(words_of(upright), words_of(turned), strict=True):
        assert one.value == other.value
        assert other.crop_orientation["value"] == 0
        assert np.allclose(one.geometry, other.geometry, atol=1e-6)


@pytest.mark.slow
def test_the_picture_on_a_turned_pdf_page_is_read_upright() -> None:
    document = reader(text_layer=True)(DocumentFile.from_pdf(with_picture(), dpi=150, rotation=90))
    words = {word.value: word for word in words_of(document)}
    assert {"Words", "file", "Delivery", "2048", "packed"} <= set(words)
    # The picture is 320 of 792 points high, 172 points below the top, and the word is 146 of 640 pixels below its top.
    assert np.mean(words["packed"].geometry, axis=0)[0] == pytest.approx(1 - (172 + 320 * 146 / 640) / 792, abs=0.01)


def with_picture() -> bytes:
    """A page of words, with the picture of the page above under them."""
    content = b"BT /F 12 Tf 60 740 Td (Words of the file) Tj ET q 450 0 0 320 60 300 cm /P Do Q"
    return page_with_picture(content, "0 0 612 792")


def page_with_picture(content: bytes, box: str, field: str = "") -> bytes:
    """A page on which the picture above is /P, perhaps with a filled-in field."""
    image = Image.fromarray(picture())
    packed = io.BytesIO()
    image.save(packed, "JPEG", quality=95)
    data = packed.getvalue()
    entries = f"/Subtype/Image/Width {image.width}/Height {image.height}/ColorSpace/DeviceRGB/BitsPerComponent 8"
    form = "/AcroForm<</Fields[8 0 R]/DR<</Font<</F 3 0 R>>>>/DA(/F 24 Tf)/NeedAppearances true>>" if field else ""
    page = f"<</Type/Page/Parent 2 0 R/MediaBox[{box}]/Contents 4 0 R/Resources 7 0 R"
    return assembled(
        [
            f"<</Type/Catalog/Pages 2 0 R{form}>>".encode(),
            b"<</Type/Pages/Kids[5 0 R]/Count 1>>",
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
            stream(content),
            f"{page}{'/Annots[8 0 R]' if field else ''}>>".encode(),
            f"<</Length {len(data)}/Type/XObject{entries}/Filter/DCTDecode>>stream\n".encode() + data + b"\nendstream",
            b"<</Font<</F 3 0 R>>/XObject<</P 6 0 R>>>>",
            f"<</Type/Annot/Subtype/Widget/FT/Tx/T(field)/V({field})/DA(/F 24 Tf)/Rect[500 10 800 50]/F 4>>".encode(),
        ]
    )


def test_pictures_on_a_page_of_words_are_read() -> None:
    document = reader(text_layer=True)(DocumentFile.from_pdf(with_picture(), dpi=100))
    words = {word.value: word.confidence for word in words_of(document)}
    assert {"Words", "of", "the", "file", "Delivery", "2048", "packed", "$21.49"} <= set(words)
    assert words["Words"] == 1.0
    assert words["packed"] < 1.0


def test_words_of_a_file_in_a_list_with_images_are_used() -> None:
    blank = np.full((20, 30, 3), 255, np.uint8)
    words = words_of(reader(text_layer=True)([blank, pdf_document([pdf_files.text_page((72, 700, "Hello"))])]))
    assert [(word.value, word.confidence) for word in words] == [("Hello", 1.0)]


@pytest.mark.slow
def test_a_page_without_words_is_read() -> None:
    scan = io.BytesIO()
    Image.fromarray(picture()).save(scan, "PDF", resolution=100)
    document = reader(text_layer=True)(DocumentFile.from_pdf(scan.getvalue()))
    assert document.pages[0].render().split()[:3] == TITLE.split()


def scanned(before: bytes, after: bytes, field: str = "") -> bytes:
    """The picture above as the scan of a whole page, with content before and after it, and a filled-in field."""
    return page_with_picture(before + b" q 900 0 0 640 0 0 cm /P Do Q " + after, "0 0 900 640", field)


def test_a_scan_to_which_words_were_added_is_read() -> None:
    stamp = b"BT /F 24 Tf 600 20 Td (Bates 00017) Tj ET"
    for file, added in ((scanned(b"", stamp), ["Bates", "00017"]), (scanned(b"", b"", "1,250.75"), ["1,250.75"])):
        document = reader(text_layer=True)(DocumentFile.from_pdf(file, dpi=72))
        words = {word.value: word.confidence for word in words_of(document)}
        assert {"Delivery", "2048", "packed", "$21.49"} <= set(words)
        assert [value for value, confidence in words.items() if confidence == 1.0] == added


def test_a_scan_whose_words_the_file_has_is_not_read_again() -> None:
    layer = b"BT /F 24 Tf %b 600 20 Td (searchable scan) Tj ET 0 Tr"
    for file in (scanned(b"", layer % b"3 Tr"), scanned(layer % b"", b"")):
        words = words_of(reader(text_layer=True)(DocumentFile.from_pdf(file)))
        assert [word.value for word in words] == ["searchable", "scan"]


class Regions(torch.nn.Module):
    """Stands for a network: it finds the title and the table where they are."""

    def forward(self, pages: Any) -> list[dict[str, Any]]:
        boxes = np.array([[60, 40, 480, 100], [60, 240, 840, 420]], np.float32) / (900, 640, 900, 640)
        return [{"class_names": ["Title", "Table"], "boxes": boxes, "scores": [0.9, 0.8]} for _ in pages]


class Cells(torch.nn.Module):
    """Finds the nine cells in the part of the page that it is given, by the black lines in it."""

    def forward(self, crops: Any) -> list[dict[str, Any]]:
        (crop,) = crops
        dark = crop.min(axis=2) < 100
        lines = [np.flatnonzero(dark.mean(axis=axis) > 0.5) for axis in (1, 0)]
        rows, columns = ([int(line) for line in found if line - 1 not in found] for found in lines)
        assert len(rows) == len(columns) == 4
        cells = [
            {
                "geometry": np.array([columns[column], rows[row], columns[column + 1], rows[row + 1]])
                / np.tile(crop.shape[1::-1], 2),
                "score": 0.7,
                "row_start": row,
                "row_end": row,
                "col_start": column,
                "col_end": column,
            }
            for row in range(3)
            for column in range(3)
        ]
        return [{"cells": cells, "num_rows": 3, "num_cols": 3}]


def test_networks_take_the_place_of_the_rules() -> None:
    """Cells come back from the part that was cut out to the page."""
    made = reader()
    predictor = OCRPredictor(
        made.det_predictor,
        made.reco_predictor,
        detect_layout=True,
        detect_tables=True,
        fields=False,
        layout_predictor=Regions(),
        table_predictor=Cells(),
    )
    page = predictor([picture()]).pages[0]
    assert [(region.type, region.confidence) for region in page.layout] == [("Title", 0.9), ("Table", 0.8)]
    (table,) = page.tables
    assert table.to_grid() == [HEAD, *ROWS]
    assert table.confidence == pytest.approx(0.7)
    assert np.allclose(np.ravel(table.geometry), [60 / 900, 240 / 640, 840 / 900, 420 / 640], atol=0.005)
    assert page.export_as_markdown().startswith(f"# {TITLE}\n\n")
    with pytest.raises(InvalidArgumentError, match="layout_arch"):
        OCRPredictor(made.det_predictor, made.reco_predictor, detect_tables=True, table_predictor=Cells())
