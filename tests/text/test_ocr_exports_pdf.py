"""Searchable PDF, read back by poppler's ``pdftotext`` and rendered again."""

from __future__ import annotations

import ctypes
import html
import io
import json
import re
import subprocess
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import pdf_files
from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr import DocumentFile
from mediatensor.ocr.io import Block, Document, Line, Page, PDFExporter, Table, TableCell, Word

# Private: a page that needs two fonts takes ten seconds.
from mediatensor.ocr.io._exports import searchable_pdf as _searchable_pdf
from ocr_export_pages import SIZE, empty_pages, kie_page, noise, page_of, relative, turned_word, word
from ocr_pages import PAGE_KINDS, RenderedPage, render_page, render_text
from ocr_pages_sheet import BOLD, MONO, SANS, SERIF, TIMES
from ocr_reading import reader, words_of
from pdf_files import poppler_text
from processes import find_program
from real_files import TEST_DATA

pytestmark = pytest.mark.usefixtures("features_remembered_in_module")

pdfium = pytest.importorskip("pypdfium2", reason="needs pypdfium2")

#: Pixels of the image to a point of the page.
SCALE = 144 / 72

Found = list[tuple[str, tuple[float, ...]]]


def find_words(data: bytes) -> Found:
    """The words of a PDF and their boxes in pixels of the images."""
    pattern = r'<word xMin="(.*?)" yMin="(.*?)" xMax="(.*?)" yMax="(.*?)">(.*?)</word>'
    matches = re.findall(pattern, poppler_text(data, "-bbox"))
    return [(html.unescape(text), tuple(SCALE * float(value) for value in box)) for *box, text in matches]


def box_of(item: Word) -> tuple[float, ...]:
    points = np.array(item.geometry) * (SIZE[1], SIZE[0])
    return (*points.min(axis=0), *points.max(axis=0))


def assert_found(found: Found, words: list[Word], tolerance: float = 1.0) -> None:
    assert sorted(text for text, _ in found) == sorted(item.value for item in words)
    places = dict(found)
    for item in words:
        np.testing.assert_allclose(places[item.value], box_of(item), atol=tolerance, err_msg=item.value)


def render(data: bytes, page: int = 0) -> np.ndarray[Any, Any]:
    document = pdfium.PdfDocument(data)
    picture = document[page].render(scale=SCALE, rev_byteorder=True).to_numpy()[..., :3].copy()
    document.close()
    return picture


# Text


def test_invisible_font_is_valid_and_has_a_unique_name() -> None:
    font_tools = pytest.importorskip("fontTools.ttLib", reason="reads fonts; matplotlib brings it")
    names = set()
    for text in ("one", "two"):
        document = pdfium.PdfDocument(PDFExporter().export(page_of(word(text, (20, 10, 120, 30)))))
        (item,) = document[0].get_objects([pdfium.raw.FPDF_PAGEOBJ_TEXT])
        font = pdfium.raw.FPDFTextObj_GetFont(item.raw)
        length = ctypes.c_size_t()
        pdfium.raw.FPDFFont_GetFontData(font, None, 0, length)
        data = (ctypes.c_uint8 * length.value)()
        pdfium.raw.FPDFFont_GetFontData(font, data, length.value, length)
        read = font_tools.TTFont(io.BytesIO(bytes(data)), checkChecksums=2)  # a wrong one raises
        assert [read["hmtx"][name] for name in read.getGlyphOrder()] == [(1000, 0), (1000, 0), (50, 0)]
        assert (read["hhea"].ascent, read["hhea"].descent, read["head"].unitsPerEm) == (800, -200, 1000)
        for table in sorted(read.keys()):
            read[table]  # each is read
        names.add(read["name"].getDebugName(6))
        document.close()
    assert len(names) == 2, "PDFium merges fonts of the same name"
    assert all(re.fullmatch("Invisible[0-9a-f]{8}", name) for name in names)


def test_words_are_found_where_they_are() -> None:
    texts = [
        "plain",
        "façade",
        "Straße",
        "Ωμέγα",
        "Жук",
        "漢字",
        "かな",
        "한글",
        "😀𠀀x",
        "]]><&\"'",
        "(\\)",
        "e\u0301t",
        "il1",
    ]
    words = [
        word(text, (20 + 7 * index, 10 + 28 * index, 120 + 3 * index, 30 + 28 * index))
        for index, text in enumerate(texts)
    ]

    assert_found(find_words(page_of(*words).export_as_pdf()), words)


def test_words_that_touch_stay_apart() -> None:
    words = [word("one", (10, 10, 60, 30)), word("two", (60, 10, 110, 30)), word("three", (108, 10, 200, 30))]
    page = Page(noise(), [Block([Line(words)])], 0, SIZE)

    assert_found(find_words(page.export_as_pdf()), words, tolerance=4)
    assert poppler_text(page.export_as_pdf()).strip() == "one two three"


def lost_words(words: list[str], data: bytes) -> list[str]:
    """The words that pdftotext does not find, in one order or the other."""
    lost: list[str] = []
    for options in ((), ("-raw",)):
        found = Counter(poppler_text(data, *options).split())
        missing = Counter(words) - found
        # Without -raw, a word that ends a line on a hyphen is joined with the next one.
        lost += [word for word in missing.elements() if options or not word.endswith("-")]
    return lost


def read_page(page: RenderedPage, margin: float) -> Page:
    """A page as from a predictor whose boxes extend beyond the ink by a share of its height."""
    height, width = page.image.shape[:2]
    words = []
    for box in page.words:
        top_left, top_right, _, bottom_left = box.quad
        across = (bottom_left - top_left) * margin
        along = (top_right - top_left) * (np.linalg.norm(across) / np.linalg.norm(top_right - top_left))
        grown = box.quad + np.array([-along - across, along - across, along + across, -along + across])
        geometry = tuple((float(x), float(y)) for x, y in grown / (width, height))
        words.append(Word(box.text, 0.9, geometry, 0.8, {"value": 0, "confidence": None}))
    return Page(page.image, [Block([Line([item], item.geometry)]) for item in words], 0, (height, width))


@pytest.mark.parametrize(
    ("kind", "rotation"),
    [*((kind, 0) for kind in PAGE_KINDS), ("columns", 3), *(("form", turn) for turn in (-2, 20, 90, 180, -90))],
)
def test_every_word_of_a_page_is_found_though_boxes_overlap(kind: str, rotation: float) -> None:
    drawn = render_page(kind, seed=1, dpi=72, rotation=rotation)
    data = read_page(drawn, margin=0.35).export_as_pdf(dpi=72)

    lost = lost_words([box.text for box in drawn.words], data)
    if abs(rotation) == 90:  # with -raw, poppler looks for ends of words only along x
        lost = [item for item in lost if item not in poppler_text(data, "-raw")]
    assert lost == []


@pytest.mark.parametrize("font_size", [5, 8, 40])
@pytest.mark.parametrize("font", [SANS, BOLD, SERIF, MONO, TIMES])
def test_every_word_is_found_in_any_font_and_size(font: str, font_size: float) -> None:
    lines = [
        "a b c d e f",
        "I l 1 | . , 'tis",
        "well-known re- efficient \ufb01ne",
        "12,50 EUR (net) 3 / 4 = 0.75",
        "é ü ß Ø",
    ]
    drawn = render_text(lines, dpi=72, font_size=font_size, font=font)
    page = read_page(drawn, margin=0.3)

    assert lost_words([box.text for box in drawn.words], page.export_as_pdf(dpi=72)) == []


@pytest.mark.parametrize("degrees", [0, 3, 90, 180, -90])
def test_every_word_is_found_by_pdfium(degrees: float) -> None:
    drawn = render_page("receipt", seed=3, dpi=72, rotation=degrees)
    data = read_page(drawn, margin=0.3).export_as_pdf(dpi=72)

    found = Counter(word.value for word in DocumentFile.from_pdf(data).text_layer(0))
    assert Counter(box.text for box in drawn.words) - found == Counter()


def test_adjacent_lines_without_spaces_are_found() -> None:
    words = [
        word("\u8a08\u7b97\u6a5f\u79d1\u5b78", (10, 10, 150, 40)),
        word("\u5716\u66f8\u9928", (150, 10, 230, 40)),
        word("\u30c6\u30b9\u30c8", (225, 11, 320, 42)),
        word("\ud55c\uad6d\uc5b4", (318, 9, 400, 41)),
    ]

    assert lost_words([item.value for item in words], page_of(*words).export_as_pdf()) == []


def test_words_of_read_pages_are_found() -> None:
    drawn = render_page("form", seed=2, dpi=80, size=(5, 5))
    document = reader()([drawn.image])

    words = [part for item in words_of(document) for part in item.value.split()]
    assert len(words) > 30
    assert lost_words(words, document.export_as_pdf()) == []


@pytest.mark.slow
def test_words_of_scanned_pages_are_found() -> None:
    folder = TEST_DATA / "ocr"
    known = (folder / "known.txt").read_text() if (folder / "known.txt").exists() else ""
    files = [*sorted((folder / "funsd" / "images").glob("*.png")), *sorted((folder / "sroie").rglob("*.jpg"))]
    files = [file for file in files if file.stem in known][::5]
    if not files:
        pytest.skip(f"needs scanned pages in {folder} (set MEDIATENSOR_TEST_DATA to the folder above)")
    for page in reader()(DocumentFile.from_images(files)).pages:
        words = [part for item in words_of(page) for part in item.value.split()]
        assert lost_words(words, page.export_as_pdf()) == []


def test_words_with_little_width_stay_whole() -> None:
    words = [word("internationalization", (10, 10, 40, 90)), word("dots", (100, 10, 100.5, 90))]

    assert_found(find_words(page_of(*words).export_as_pdf()), words)


# Skewed text is lower than its line.
@pytest.mark.parametrize(("degrees", "tolerance"), [(90, 1), (180, 1), (-90, 1), (-1, 6), (0.5, 6)])
def test_words_of_turned_and_skewed_pages_are_found(degrees: float, tolerance: float) -> None:
    words = [
        turned_word(text, (300 + 30 * index, 200 + 60 * index), (90, 20), degrees)
        for index, text in enumerate(["up", "öl"])
    ]

    assert_found(find_words(page_of(*words).export_as_pdf()), words, tolerance)


@pytest.mark.parametrize("degrees", [4, -8, 20, 45, 70, 130, -160])
def test_words_with_any_turn_stay_whole(degrees: float) -> None:
    texts = ["internationalization", "étude"]
    words = [
        turned_word(text, (300 - 90 * index, 150 + 100 * index), (140, 20), degrees) for index, text in enumerate(texts)
    ]

    found = find_words(page_of(*words).export_as_pdf())

    assert sorted(text for text, _ in found) == sorted(texts)
    # Compare along the axis nearest to the text. Across it, poppler's boxes have the height of the text at any angle.
    axis = 0 if abs(np.sin(np.radians(degrees))) < np.sin(np.radians(45)) else 1
    for item in words:
        extents = [dict(found)[item.value][axis::2], box_of(item)[axis::2]]
        np.testing.assert_allclose(*extents, atol=22 * abs(np.sin(np.radians(2 * degrees))))


@pytest.mark.parametrize("degrees", [0, 30, 90, 180])
def test_text_is_invisible_and_lies_over_its_quad(degrees: float) -> None:
    item = turned_word("abc", (300, 200), (90, 20), degrees)
    document = pdfium.PdfDocument(page_of(item, image=noise()).export_as_pdf(lossless=True))
    page = document[0]

    (text,) = page.get_objects(filter=[pdfium.raw.FPDF_PAGEOBJ_TEXT])
    assert pdfium.raw.FPDFTextObj_GetTextRenderMode(text.raw) == pdfium.raw.FPDF_TEXTRENDERMODE_INVISIBLE
    a, b, c, d, e, f = text.get_matrix().get()
    # Glyphs of the font are 1 wide, and extend from 0.2 below the baseline to 0.8 above it.
    length = 1 if 2 * np.hypot(a, b) > 80 else 3
    em = np.array([[0, 0.8], [length, 0.8], [length, -0.2], [0, -0.2]])
    placed = em @ [[a, b], [c, d]] + (e, f)
    placed = np.stack([placed[:, 0], SIZE[0] / SCALE - placed[:, 1]], axis=1) * SCALE
    expected = np.array(item.geometry) * (SIZE[1], SIZE[0])
    if degrees % 90:  # skewed text is lower, so that lines do not climb into each other
        middle = (expected[[0, 1]] + expected[[3, 2]]) / 2
        expected = middle[[0, 1, 1, 0]] + 0.6 * (expected - middle[[0, 1, 1, 0]])
    np.testing.assert_allclose(placed, expected, atol=0.1)
    document.close()


@pytest.mark.parametrize("degrees", [0, 10])
def test_right_to_left_text_is_extracted_in_order(degrees: float) -> None:
    # From left to right, the second word comes first. One of them has a number, which runs the other way.
    words = [turned_word("אבג12", (100, 100), (90, 20), degrees), turned_word("שלום", (200, 100), (90, 20), degrees)]
    page = Page(noise(), [Block([Line(words)])], 0, SIZE)

    data = page.export_as_pdf()

    document = pdfium.PdfDocument(data)
    seen = document[0].get_textpage().get_text_bounded()
    document.close()
    for text in (poppler_text(data), seen):
        assert "שלום" in text
        assert "אבג" in text
        assert "12" in text


def test_words_of_one_cell_share_its_box() -> None:
    cell = TableCell("two words", 0.9, relative([(20, 20), (200, 40)]), 0, 0, 0, 0)
    page = page_of(tables=[Table([cell], 1, 1, cell.geometry)])

    # Each has its share of the cell, by its number of characters.
    expected = [word("two", (20, 20, 80, 40)), word("words", (100, 20, 200, 40))]
    assert_found(find_words(page.export_as_pdf()), expected)


def table_of_words(degrees: int = 0) -> tuple[Table, list[Word]]:
    """A cell of two lines next to one of two words at its right edge, turned clockwise with the page."""
    texts = {"Green": (20, 20, 70, 36), "tea": (20, 44, 50, 60), "12": (260, 30, 280, 46), "kg": (284, 30, 300, 46)}
    words = [word(text, box) for text, box in texts.items()]
    spans = ((20, 20, 200, 60), (0, 0, 0, 0), words[:2]), ((200, 20, 300, 60), (0, 0, 1, 1), words[2:])
    cells = [
        TableCell(" ".join(item.value for item in own), 0.9, relative([box[:2], box[2:]]), *span, words=own)
        for box, span, own in spans
    ]
    table = Table(cells, 1, 2, relative([(20, 20), (300, 60)]))
    for element in (table, *cells, *words):
        for _ in range(degrees // 90):
            (left, top), (right, bottom) = element.geometry
            element.geometry = ((1 - bottom, left), (1 - top, right))
        if isinstance(element, Word):
            element.crop_orientation = {"value": degrees, "confidence": None}
    return table, words


@pytest.mark.parametrize("degrees", [0, 90])
def test_words_of_cells_are_where_they_were_found(degrees: int) -> None:
    table, words = table_of_words(degrees)
    assert_found(find_words(page_of(tables=[table]).export_as_pdf()), words, tolerance=2)


@pytest.mark.slow
def test_words_of_a_table_are_not_written_again(tmp_path: Path) -> None:
    """A file that was written by a program, read by its pixels or by its text; also after an export without words."""
    parts = ["0 0 0 RG 1 w"]
    parts += [f"60 {500 - 40 * row} m 480 {500 - 40 * row} l S" for row in range(4)]
    parts += [f"{left} 500 m {left} 380 l S" for left in (60, 240, 480)]
    rows = [["Item", "Weight"], ["Green tea", "12 kg net"], ["Black tea", "9 kg net"]]
    parts += [
        f"BT /F 14 Tf {left} {474 - 40 * row} Td ({text}) Tj ET"
        for row, texts in enumerate(rows)
        for left, text in zip((68, 380), texts, strict=True)
    ]
    source = tmp_path / "note.pdf"
    source.write_bytes(pdf_files.document(["\n".join(parts).encode()]))
    pages = DocumentFile.from_pdf(source, dpi=90)
    expected = sorted(word.value for word in pages.text_layer(0))
    for text_layer in (False, True):
        document = reader(detect_tables=True, text_layer=text_layer)(pages)
        (table,) = document.pages[0].tables
        assert table.to_grid() == rows
        old = Document.from_dict(json.loads(json.dumps(document.export())))
        old.pages[0].page = document.pages[0]._page
        for cell in old.pages[0].tables[0].cells:
            cell.words = []
        for one in (document, old):
            data = one.export_as_pdf()
            assert sorted(word.value for word in DocumentFile.from_pdf(data).text_layer(0)) == expected
            assert sorted(poppler_text(data).split()) == expected


def test_predictions_are_written_as_text() -> None:
    words = [word("one", (10, 10, 60, 30)), word("two", (10, 50, 60, 70))]

    assert_found(find_words(kie_page({"a": words[:1], "b": words[1:]}).export_as_pdf()), words)


def test_text_with_more_characters_than_codes_needs_several_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_searchable_pdf, "_MAX_CODES", 10)
    texts = [chr(code) + chr(code + 1) + "xyz" for code in range(0x4E00, 0x4E28, 2)]
    words = [word(text, (10, 20 * index, 110, 20 * index + 16)) for index, text in enumerate(texts)]

    assert_found(find_words(page_of(*words).export_as_pdf()), words)


# Images


def test_lossless_image_keeps_every_pixel() -> None:
    data = page_of(word("one", (10, 10, 60, 30)), image=noise()).export_as_pdf(lossless=True)

    assert np.array_equal(render(data), noise())


def test_another_program_finds_the_same_image(tmp_path: Path) -> None:
    program = find_program("pdfimages")
    page_of(word("one", (10, 10, 60, 30)), image=noise()).save_pdf(tmp_path / "page.pdf", lossless=True)

    subprocess.run([program, "-png", str(tmp_path / "page.pdf"), str(tmp_path / "image")], check=True)

    (path,) = tmp_path.glob("*.png")
    assert np.array_equal(np.asarray(Image.open(path).convert("RGB")), noise())


def test_quality_changes_the_image() -> None:
    page = page_of(image=noise())
    errors, sizes = [], []
    for quality in (20, 90):
        data = page.export_as_pdf(quality=quality)
        errors.append(float(np.abs(render(data).astype(int) - noise()).mean()))
        sizes.append(len(data))

    assert sizes[0] < sizes[1]
    assert errors[1] < errors[0]
    assert errors[1] < 2


def test_gray_pages_and_odd_sizes_are_written() -> None:
    rows, columns = np.mgrid[:61, :33]
    gray = np.repeat(((rows + columns) * 2).astype(np.uint8)[..., None], 3, axis=2)
    page = Page(gray, [], 0, (61, 33))

    for options in ({}, {"lossless": True}):
        document = pdfium.PdfDocument(page.export_as_pdf(**options))
        assert document[0].get_size() == (33 / SCALE, 61 / SCALE)
        (image,) = document[0].get_objects(filter=[pdfium.raw.FPDF_PAGEOBJ_IMAGE])
        assert image.get_px_size() == (33, 61)
        document.close()
        picture = render(page.export_as_pdf(**options))[:61, :33].astype(int)
        assert np.abs(picture - gray)[1:-1, 1:-1].mean() < 3


def test_tensors_are_written_as_images() -> None:
    tensor = torch.from_numpy(noise()).permute(2, 0, 1)

    for image in (tensor, tensor.permute(1, 2, 0)):
        assert np.array_equal(render(Page(image, [], 0, SIZE).export_as_pdf(lossless=True)), noise())


def test_words_follow_the_size_of_the_image() -> None:
    item = word("one", (20, 20, 120, 60))
    page = Page(noise(), [Block([Line([item])])], 0, (SIZE[0] * 3, SIZE[1] * 3))

    assert_found(find_words(page.export_as_pdf()), [item])


@pytest.mark.parametrize(
    ("shape", "dpi", "size"),
    [(SIZE, 300, (SIZE[1] * 72 / 300, SIZE[0] * 72 / 300)), ((2, 20_000), 72, (14_400, 1.44))],
    ids=["resolution", "reduced"],
)
def test_pages_have_the_size_of_their_resolution(shape: Any, dpi: int, size: Any) -> None:
    document = pdfium.PdfDocument(Page(np.zeros((*shape, 3), np.uint8), [], 0, shape).export_as_pdf(dpi=dpi))

    np.testing.assert_allclose(document[0].get_size(), size, rtol=1e-5)
    document.close()


# Documents and files


def test_documents_have_all_pages(tmp_path: Path) -> None:
    pages = [page_of(word(text, (10, 10, 60, 30)), image=noise()) for text in ("one", "two")]
    path = tmp_path / "out.pdf"

    data = Document(pages).export_as_pdf(path)

    assert path.read_bytes() == data
    assert [text.strip() for text in poppler_text(data).split("\f")] == ["one", "two", ""]
    pages[0].save_pdf(path, lossless=True)
    assert np.array_equal(render(path.read_bytes()), noise())
    assert poppler_text(Document(pages).export_as("pdf", dpi=72)).split() == ["one", "two"]


@pytest.mark.parametrize("case", list(empty_pages()))
def test_nearly_empty_pages_are_written(case: str) -> None:
    element = empty_pages()[case]

    document = pdfium.PdfDocument(element.export_as_pdf()) if not isinstance(element, Document) else None

    assert document is None or len(document) == 1


def test_a_page_that_could_not_be_read_is_blank() -> None:
    broken = Page(np.zeros((0, 0, 3), np.uint8), [], 1, (0, 0), error="damaged")
    document = Document([page_of(word("one", (10, 10, 60, 30))), broken])

    assert poppler_text(document.export_as_pdf()).count("\f") == 2
    assert render(document.export_as_pdf(), 1).min() == 255


def test_pages_without_images_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no image"):
        Page.from_dict(page_of().export()).export_as_pdf()
    with pytest.raises(InvalidArgumentError, match="float32"):
        Page(np.zeros((4, 4, 3), np.float32), [], 0, (4, 4)).export_as_pdf()


@pytest.mark.parametrize(
    "options", [{"dpi": 0}, {"dpi": float("nan")}, {"dpi": "144"}, {"quality": 0}, {"quality": 101}, {"quality": 90.5}]
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        PDFExporter(**options)


def test_threads_write_side_by_side() -> None:
    texts = [f"word{index}" for index in range(8)]
    barrier = threading.Barrier(4)

    def write(text: str) -> bytes:
        barrier.wait(timeout=60)
        return page_of(word(text, (10, 10, 60, 30)), image=noise()).export_as_pdf()

    with ThreadPoolExecutor(4) as pool:
        files = list(pool.map(write, texts))

    assert [poppler_text(data).strip() for data in files] == texts


def test_text_adds_little_to_the_file() -> None:
    words = [word("same", (60 * (i % 10), 16 * (i // 10), 60 * (i % 10) + 50, 16 * (i // 10) + 14)) for i in range(250)]

    sizes = [len(page_of(*items, image=noise()).export_as_pdf()) for items in (words, [])]

    assert sizes[0] - sizes[1] < 250 * 80
