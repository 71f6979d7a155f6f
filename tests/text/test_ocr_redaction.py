"""Redacted documents: the text is neither in pixels nor in exports, and is not found when they are read again."""

from __future__ import annotations

import io
import json
import pickle
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

import pdf_files
from mediatensor.errors import InvalidArgumentError, OutOfRangeError, RedactionError
from mediatensor.ocr import DocumentFile
from mediatensor.ocr.io import (
    Block,
    Document,
    Field,
    KIEDocument,
    KIEPage,
    Line,
    Page,
    Prediction,
    Table,
    TableCell,
    UnreadLine,
    Word,
)
from ocr_pages import render_text, rotated
from ocr_reading import reader, words_of

pytestmark = pytest.mark.usefixtures("features_remembered_in_module")

UPRIGHT = {"value": 0, "confidence": None}
LINES = ("Letter of Anna Meyer to", "the bank: account AB4711 CD8253", "is closed. Kind regards")
SECRETS = ("Anna Meyer", re.compile(r"[A-Z]{2}\d{4}\s[A-Z]{2}\d{4}"))


def box(left: float, top: float, width: float = 0.15, height: float = 0.05) -> Any:
    return (left, top), (left + width, top + height)


def word_at(text: str, left: float, top: float, kind: type[Word] = Word) -> Any:
    return kind(text, 0.9, box(left, top), 0.9, UPRIGHT)


def line_of(text: str, top: float, left: float = 0.05) -> Line:
    return Line([word_at(word, left + 0.2 * number, top) for number, word in enumerate(text.split())])


def page_of(*texts: str, number: int = 0, **options: Any) -> Page:
    """A white page with a block of lines."""
    block = Block([line_of(text, 0.1 * (row + 1)) for row, text in enumerate(texts)])
    return Page(np.full((400, 600, 3), 255, np.uint8), [block], number, (400, 600), **options)


def stored_texts(document: Document) -> Iterator[tuple[str, bytes]]:
    """All exports of a document, decompressed, by format."""
    yield "pickle", pickle.dumps(document)
    yield "repr", repr(document).encode()
    yield "json", json.dumps(document.export(characters=True), ensure_ascii=False).encode()
    yield "stored order", json.dumps(document.export(reading_order=False), ensure_ascii=False).encode()
    for name in ("text", "markdown", "asciidoc", "html", "tsv", "csv"):
        yield name, document.export_as(name).encode()
    yield "hocr", b"".join(data for data, _ in document.export_as("hocr"))
    yield "alto", document.export_as("alto")[0]
    yield "chunks", "\n".join(chunk.text for chunk in document.chunks()).encode()
    if isinstance(document, KIEDocument):
        return
    yield "layout", document.render(layout=True).encode()
    with zipfile.ZipFile(io.BytesIO(document.export_as("xlsx"))) as book:
        yield "xlsx", b"".join(book.read(name) for name in book.namelist())
    if not any(0 in page.page.shape for page in document.pages):
        pdf = document.export_as("pdf")
        yield "pdf", pdf
        yield "streams", b"\n".join(decompressed(pdf))
        yield "pdftotext", pdf_files.poppler_text(pdf, "-layout").encode()


def decompressed(pdf: bytes) -> Iterator[bytes]:
    for match in re.finditer(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        try:
            yield zlib.decompressobj().decompress(match[1])
        except zlib.error:
            yield match[1]


def assert_nowhere(document: Document, *secrets: str) -> None:
    for name, data in stored_texts(document):
        text = re.sub(rb"\s+", b" ", data)
        for secret in secrets:
            codes = (secret.encode(), secret.encode("utf-16-be"), secret.encode("utf-16-be").hex().encode())
            assert not any(code.lower() in text.lower() for code in codes), (name, secret)


def inside(shape: tuple[int, ...], quad: np.ndarray) -> np.ndarray:
    mask = Image.new("L", (shape[1], shape[0]))
    ImageDraw.Draw(mask).polygon([(float(x), float(y)) for x, y in quad], fill=255)
    return np.asarray(mask) > 0


# Pixels, and what is read again


@pytest.mark.parametrize(
    ("degrees", "straight"), [pytest.param(0, True, marks=pytest.mark.slow), (180, True), (8, False)]
)
def test_ink_of_redacted_words_is_black_and_other_words_stay(degrees: float, straight: bool) -> None:
    page = rotated(render_text(LINES, dpi=100, font_size=14, margin=60), degrees)
    predictor = reader(assume_straight_pages=straight)
    document = predictor([page.image])
    assert document.find(*SECRETS)
    redacted = document.redact(*SECRETS, predictor=predictor)
    image = redacted.pages[0].page

    hidden = {"Anna", "Meyer", "AB4711", "CD8253"}
    for word in page.words:
        ink = inside(image.shape, word.quad) & (page.image.max(axis=2) < 128)
        if word.text in hidden:
            assert (image[inside(image.shape, word.quad)] == 0).mean() > 0.99, word.text
            assert (image[ink] == 0).all(), word.text
        else:
            assert (image[ink] == page.image[ink]).mean() > 0.9, word.text
    assert {word.value for word in words_of(document)} - {word.value for word in words_of(redacted)} == hidden
    assert predictor([image]).find(*hidden) == []
    assert len(document.find(*SECRETS)) == 2, "the document itself was changed"
    assert (document.pages[0].page == page.image).all()
    assert_nowhere(redacted, *hidden)


def secret_pdf(entries: str) -> bytes:
    """A page with secrets as text, as invisible text, as annotations and as metadata."""
    content = pdf_files.text_page((72, 640, "Letter of Anna Meyer"), (72, 600, "account AB4711 CD8253 closed"))
    file = pdf_files.annotated(
        content + b"\nBT 3 Tr /F 9 Tf 72 160 Td (hidden Meyer) Tj ET",
        [pdf_files.Annotation("Meyer", 72, 300), pdf_files.Annotation("Meyer", 72, 200, "Widget")],
        entries=entries,
    )
    metadata = b"99 0 obj\n<</Title(Anna Meyer)/Author(Meyer)>>\nendobj\n"
    entry = b"xref\n99 1\n%010d 00000 n \n" % len(file)
    previous = re.findall(rb"startxref\n(\d+)", file)[-1]
    trailer = b"trailer<</Size 100/Root 1 0 R/Info 99 0 R/Prev %b>>\nstartxref\n%d\n%%%%EOF\n"
    return file + metadata + entry + trailer % (previous, len(file + metadata))


def objects_of(pdf: bytes) -> bytes:
    return b"".join([pdf, *decompressed(pdf)])


@pytest.mark.parametrize(
    ("entries", "layer"),
    [
        ("", True), ("/Rotate 90", True), ("/CropBox[50 150 500 700]", False),
        pytest.param("/Rotate 90", False, marks=pytest.mark.slow),
    ],
    ids=["text layer", "rotated text layer", "cropped", "rotated"],
)  # fmt: skip
def test_pdf_file_is_written_again_without_its_contents(tmp_path: Path, entries: str, layer: bool) -> None:
    pages = DocumentFile.from_pdf(secret_pdf(entries), dpi=108)
    predictor = reader(text_layer=layer)
    document = predictor(pages)
    assert {match.query for match in document.find(*SECRETS, "Meyer")} == {0, 1, 2}
    redacted = document.redact(*SECRETS, "Meyer", predictor=predictor)
    assert_nowhere(redacted, "Anna Meyer", "Meyer", "AB4711", "CD8253")

    redacted.save_pdf(tmp_path / "redacted.pdf")
    again = DocumentFile.from_pdf(tmp_path / "redacted.pdf", dpi=108)
    assert again[0].shape == pages[0].shape, "the page has another size"
    layer_words = [word.value for word in again.text_layer(0)]
    assert "account" in layer_words
    assert not {"Anna", "Meyer", "AB4711", "CD8253"} & set(layer_words)
    read = predictor(again)
    assert "Letter of" in read.render()
    assert read.find(*SECRETS, "Meyer") == []
    originals = objects_of(document.export_as("pdf"))
    objects = objects_of((tmp_path / "redacted.pdf").read_bytes())
    for name in (b"/Annot", b"/AcroForm", b"/Title", b"/Author"):
        assert name in originals
        assert name not in objects


# What is found


@pytest.mark.parametrize(
    ("lines", "text", "removed"),
    [
        (["by Anna Meyer, Bonn"], "anna meyer", "Anna Meyer,"),
        (["by Anna", "Meyer in Bonn"], "Anna Meyer", "Anna Meyer"),
        (["by Anna", "Meyer in Bonn"], re.compile(r"Anna\sMeyer"), "Anna Meyer"),
        (["written by Mey-", "er in Bonn"], "Meyer", "Mey- er"),
        (["written by Mey\u00ad", "er in Bonn"], re.compile("Meyer"), "Mey\u00ad er"),
        (["the e-", "mail of Bonn"], "e-mail", "e- mail"),
        (["Meyers and Obermeyer came"], "Meyer", "Meyers Obermeyer"),
        (["Meyers and Obermeyer came"], re.compile(r"\bMeyer\w?\b"), "Meyers"),
        (["of Mu\u0308ller and o\ufb03ce"], "müller", "Mu\u0308ller"),
        (["of Mu\u0308ller and o\ufb03ce"], "office", "o\ufb03ce"),
        (["Tel. 0228-4711, room 12"], re.compile(r"\d{3,}"), "0228-4711,"),
        (["Tel. 0228", "room 12"], re.compile(r"^room.*$", re.MULTILINE), "room 12"),
        (["Anna Anna Meyer Meyer ends"], "Anna Meyer", "Anna Anna Meyer Meyer"),  # then neighbours
        (["of 東京", "都庁 here"], "東京都", "東京 都庁"),
        (["O'Brien O\u2019Brien O\u00b4Brien"], "o'brien", "O'Brien O\u2019Brien O\u00b4Brien"),
        (["O'Brien O\u2019Brien O\u00b4Brien"], "O\u00b4Brien", "O'Brien O\u2019Brien O\u00b4Brien"),
        (["O'Brien O\u2019Brien"], re.compile("O'Brien"), "O'Brien"),
        (["the „book” ends"], '"BOOK"', "„book”"),
        (
            ["Meyer\u2013Huber Meyer-Huber Meyer", "\u2212 Huber"],
            "meyer-huber",
            "Meyer\u2013Huber Meyer-Huber Meyer \u2212 Huber",
        ),
        (["Meyer-Huber ends"], "Meyer\u2014Huber", "Meyer-Huber"),
        (["Hauptstraße STRASSE STRAẞE has set"], "strasse", "Hauptstraße STRASSE STRAẞE"),
        (["has set Hassel Haßel"], "haß", "Hassel Haßel"),
        (["IBAN: DE89 3704", "0044 0532, paid"], "DE89370400440532", "DE89 3704 0044 0532,"),
        (["IBAN:DE89370400440532 paid"], "DE89 3704 0044 0532", "IBAN:DE89370400440532"),
        (["Julia Nowak has got to Ian"], "ian", "Ian"),  # the edges of other words are not ignored
    ],
)
def test_words_of_a_match_are_removed(lines: list[str], text: str | re.Pattern[str], removed: str) -> None:
    document = Document([page_of(*lines)])
    redacted = document.redact(text)
    words, left = words_of(document), words_of(redacted)
    assert " ".join(word.value for word in words if word not in left) == removed
    assert [word.value for word in words if word in left] == [word.value for word in left]
    assert redacted.find(text) == []
    image = redacted.pages[0].page
    for word in words:
        (left_side, top), (right, bottom) = np.array(word.geometry) * (600, 400)
        pixels = image[round(top) : round(bottom), round(left_side) : round(right)]
        assert (pixels == (0 if word not in left else 255)).all(), word.value


def test_matches_have_words_and_places() -> None:
    document = Document([page_of("sent by Anna"), page_of("Meyer, Bonn", number=1)])
    (match,) = document.find("Anna Meyer")
    assert (match.text, match.query) == ("Anna Meyer,", 0)
    assert match.places == ((0, box(0.45, 0.1)), (1, box(0.05, 0.1)))
    assert [match.query for match in document.find("Bonn", "Meyer")] == [0, 1]
    assert_nowhere(document.redact("Anna Meyer"), "Anna", "Meyer")


def test_matches_are_found_on_each_copy_of_a_page() -> None:
    page = page_of("Anna Meyer")
    assert [match.places[0][0] for match in Document([page, page]).find("Meyer")] == [0, 1]


def test_all_parts_of_a_page_are_redacted() -> None:
    cells = [
        TableCell("Anna Meyer", 0.9, box(0.1, 0.6, 0.4), 0, 0, 0, 0,
                  words=[word_at("Anna", 0.1, 0.6), word_at("Meyer", 0.3, 0.6)]),
        TableCell("Meyer & Co", 0.9, box(0.6, 0.6), 0, 0, 1, 1),
        TableCell("4711", 0.9, box(0.1, 0.7), 1, 1, 0, 0, words=[word_at("4711", 0.1, 0.7)]),
    ]  # fmt: skip
    page = page_of(
        "the letter of Meyer",
        tables=[Table(cells, 2, 2, box(0.1, 0.6, 0.7, 0.2))],
        fields=[
            Field("Name", "Meyer", 0.9, box(0.65, 0.1), box(0.25, 0.1), "name"),
            Field("Meyer", "7", 0.9, box(0.8, 0.8), box(0.6, 0.8)),
            Field("No.", "4711", 0.9, box(0.1, 0.7)),
        ],
        unread=[
            UnreadLine(box(0.05, 0.1, 0.9), "gaps", "the letter of Meyer", 0.5),
            UnreadLine(box(0.05, 0.9, 0.5), "low confidence", "from Mr Meyer", 0.1),
            UnreadLine(box(0.6, 0.9, 0.2), "no text"),
        ],
    )
    failed = Page(np.zeros((0, 0, 3), np.uint8), [], 1, (0, 0), error="Page 1 of Meyer.pdf cannot be read")
    redacted = Document([page, failed]).redact("Meyer")
    assert_nowhere(redacted, "Meyer")
    after, error_page = redacted.pages
    assert after.tables[0].to_grid() == [["Anna", ""], ["4711", ""]]
    assert [field.value for field in after.fields] == ["4711"]
    assert [(line.reason, line.value) for line in after.unread] == [("gaps", ""), ("no text", "")]
    assert error_page.error == "The page could not be read."
    for x, y in ((0.7, 0.12), (0.35, 0.62), (0.65, 0.62), (0.65, 0.82), (0.85, 0.82), (0.3, 0.92)):
        assert (after.page[round(400 * y), round(600 * x)] == 0).all(), (x, y)
    assert (after.page[round(400 * 0.72), round(600 * 0.12)] == 255).all()
    assert page.fields[0].value == cells[0].words[1].value == "Meyer"


def test_predictions_are_redacted() -> None:
    predictions = {"name": [word_at("Meyer", 0.1, 0.1, Prediction)], "total": [word_at("12", 0.5, 0.1, Prediction)]}
    document = KIEDocument([KIEPage(np.full((400, 600, 3), 255, np.uint8), predictions, 0, (400, 600))])
    redacted = document.redact("meyer")
    assert_nowhere(redacted, "Meyer")
    assert redacted.render().split() == ["total:", "12"]
    assert (redacted.pages[0].page[45, 90] == 0).all()


# Regions


@pytest.mark.parametrize(
    "regions",
    [
        {0: [(0.3, 0.12, 0.55, 0.4)]},
        {-2: [((0.3, 0.12), (0.55, 0.4))]},
        {0: np.array([[[0.3, 0.12], [0.55, 0.12], [0.3, 0.4], [0.55, 0.4]]])},
    ],
    ids=["box", "corners", "points"],
)
def test_words_that_a_region_touches_are_redacted(regions: Any) -> None:
    document = Document([page_of("one two three four"), page_of("five six", number=1)])
    redacted = document.redact(regions=regions)
    assert redacted.render().split() == ["one", "four", "five", "six"]
    image = redacted.pages[0].page
    assert (image[48:160, 180:330] == 0).all(), "the region"
    assert (image[40:60, 150:240] == 0).all(), "the whole word"
    assert (image[162:] == 255).all()
    assert (redacted.pages[1].page == 255).all()


def test_list_of_regions_is_for_all_pages() -> None:
    document = Document([page_of("one two"), page_of("three four", number=1)])
    assert document.redact(regions=[(0, 0, 0.2, 0.2)]).render().split() == ["two", "four"]


def test_parts_of_a_region_outside_of_the_page_are_ignored() -> None:
    document = Document([page_of("one two")])
    inside = document.redact(regions=[(0, 0, 0.2, 0.2)]).pages[0].page
    assert (document.redact(regions=[(-1, -0.5, 0.2, 0.2)]).pages[0].page == inside).all()


# Reading again


class _Reader:
    """Reads a word on a page as long as its place is white."""

    def __init__(self, text: str, left: float, *, always: bool = False) -> None:
        self.word = word_at(text, left, 0.1)
        self.always = always

    def __call__(self, images: list[np.ndarray]) -> Document:
        is_white = images[0][45, round(600 * self.word.geometry[0][0]) + 5].all()
        lines = [Line([self.word])] if is_white or self.always else []
        return Document([Page(images[0], [Block(lines)], 0, (400, 600))])


def test_text_that_is_found_again_is_redacted_as_well() -> None:
    document = Document([page_of("by Anna Moyor")])  # not read right
    redacted = document.redact("Anna", "Meyer", predictor=_Reader("Meyer", 0.45))
    assert redacted.render() == "by"
    assert (redacted.pages[0].page[45, 300] == 0).all()


def test_word_that_reaches_across_a_black_box_stays() -> None:
    read = _Reader("byMeyer", 0.05, always=True)
    read.word.geometry = box(0.05, 0.1, 0.55)
    redacted = Document([page_of("by Anna Meyer")]).redact("Anna", predictor=read)
    assert redacted.render() == "by Meyer"


@pytest.mark.parametrize(("text", "left"), [("Meyer", 0.8), ("x1", 0.25)], ids=["a match", "on black"])
def test_text_that_can_still_be_read_is_an_error(text: str, left: float) -> None:
    document = Document([page_of("nothing"), page_of("by Anna Meyer", number=1)])
    with pytest.raises(RedactionError, match=r"pages, counted from 0: (0, )?1\."):
        document.redact("Meyer", "Anna", predictor=_Reader(text, left, always=True))


# Odd input


def test_text_without_a_match_is_reported() -> None:
    with pytest.warns(UserWarning, match="Nothing matches 'Maier'"):
        redacted = Document([page_of("by Anna"), Page(np.zeros((8, 8, 3), np.uint8), [], 1, (8, 8))]).redact("Maier")
    assert redacted.render().split() == ["by", "Anna"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Document([]).redact(regions=[(0, 0, 1, 1)]).pages == []
        assert Document([]).find("Anna") == []


def test_document_without_images_is_redacted() -> None:
    document = Document.from_dict(json.loads(json.dumps(Document([page_of("by Anna")]).export())))
    redacted = document.redact("Anna")
    assert redacted.render() == "by"
    assert redacted.pages[0].page.size == 0


@pytest.mark.parametrize("pattern", ["", "  ", re.compile(""), re.compile(r"\d*"), re.compile(b"x"), 7, None])
def test_wrong_texts_are_refused(pattern: Any) -> None:
    document = Document([page_of("by Anna")])
    for call in (document.find, document.redact):
        with pytest.raises(InvalidArgumentError):
            call("Anna", pattern)
        with pytest.raises(InvalidArgumentError):
            call()
    for regions in ([], {}, {0: []}, iter(())):
        with pytest.raises(InvalidArgumentError, match="nothing to redact"):
            document.redact(regions=regions)


@pytest.mark.parametrize(
    "region",
    [
        (0.1, 0.1, 0.1, 0.2),
        (10, 20, 30, 40),
        (0.1, 0.2),
        "box",
        0.5,
        (0.1, 0.1, 0.2, float("nan")),
        (1, 0, 1.5, 1),
        (-0.5, 0.2, 0, 0.3),
        (0, 0, 2.5, 1),
    ],
)
def test_wrong_regions_are_refused(region: Any) -> None:
    document = Document([page_of("by Anna")])
    for regions in ({0: [region]}, [region], {"a": [(0, 0, 1, 1)]}, {0: 7}):
        with pytest.raises(InvalidArgumentError):
            document.redact(regions=regions)
    with pytest.raises(OutOfRangeError):
        document.redact(regions={1: [(0, 0, 1, 1)]})
