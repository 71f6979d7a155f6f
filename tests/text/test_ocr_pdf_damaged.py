"""PDF files that are damaged, encrypted or hostile, and other files: each has its error, and the rest is read."""

from __future__ import annotations

import io
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdf_files
from mediatensor.errors import (
    InvalidArgumentError,
    MissingDependencyError,
    OpenError,
    PageError,
    ReadError,
    SourceNotFoundError,
    SourceTypeError,
)
from mediatensor.ocr.io import read_pdf

# Private: a page with as many objects as the limit has takes PDFium a quarter of a minute.
from mediatensor.ocr.io._documents import pdfium as _pdfium
from ocr_export_pages import page_of

pytest.importorskip("pypdfium2", reason="needs pypdfium2")

SMALL = pdf_files.document([b"0 g 0 0 612 792 re f"], box="0 0 61.2 79.2")


# Not a PDF


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"hello", "looks like data that begins with b'hello'"),
        (b"\x89PNG\r\n\x1a\n" + bytes(60), "looks like a PNG image; use DocumentFile.from_images"),
        (b"II*\0" + bytes(60), "looks like a TIFF image; use DocumentFile.from_images"),
        (SMALL[:40], "damaged or has no pages"),
        (b"%PDF-1.7\n", "damaged or has no pages"),
        (pdf_files.document([]), "damaged or has no pages"),
    ],
)
def test_invalid_files_are_refused(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "file.pdf"
    path.write_bytes(data)
    for source in (data, path, io.BytesIO(data)):
        with pytest.raises(OpenError, match=words):
            read_pdf(source)


def test_invalid_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match=r"nowhere\.pdf"):
        read_pdf(tmp_path / "nowhere.pdf")
    with pytest.raises(OpenError, match="is a directory"):
        read_pdf(tmp_path)
    for wrong in (17, None, [SMALL], io.StringIO("%PDF")):
        with pytest.raises(SourceTypeError):
            read_pdf(wrong)
    closed = io.BytesIO(SMALL)
    closed.close()
    with pytest.raises(ReadError, match="closed"):
        read_pdf(closed)


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0}, {"scale": -1}, {"scale": float("nan")}, {"scale": "2"}, {"scale": True}, {"dpi": 0},
        {"dpi": float("inf")}, {"max_pixels": 0}, {"max_pixels": 1.5}, {"rotation": 45}, {"crop": (1, 2)},
        {"crop": (-1, 0, 0, 0)}, {"password": b"secret"},
    ],
)  # fmt: skip
def test_invalid_arguments_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        read_pdf(SMALL, **options)


def test_unknown_arguments_are_refused() -> None:
    for name in ("dpii", "rev_byteorder"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            read_pdf(SMALL, **{name: 1})


def test_missing_pypdfium2_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pypdfium2", None)
    for use_pdfium in (partial(read_pdf, SMALL), page_of().export_as_pdf):
        with pytest.raises(MissingDependencyError, match=r"mediatensor\[ocr\]"):
            use_pdfium()


# Passwords


def test_encrypted_file_needs_its_password() -> None:
    file = pdf_files.encrypted(pdf_files.text_page((72, 400, "hidden words")), b"secret")
    pages = read_pdf(file, password="secret")
    assert [word.value for word in pages.text_layer(0)] == ["hidden", "words"]
    assert pages[0].min() < 50
    with pytest.raises(OpenError, match="encrypted; pass password="):
        read_pdf(file)
    for wrong in ("", "Secret"):
        with pytest.raises(OpenError, match="password is not the right one"):
            read_pdf(file, password=wrong)
    assert read_pdf(SMALL, password="needless")[0].max() == 0


# Single pages that fail


def broken_in_the_middle() -> bytes:
    """Three pages, the second of which is not a page."""
    return pdf_files.assembled([
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R 9 0 R 3 0 R]/Count 3>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 61 79]>>",
    ])  # fmt: skip


def test_one_bad_page_does_not_lose_the_document() -> None:
    pages = read_pdf(broken_in_the_middle())
    assert len(pages) == 3
    found = []
    iterator = iter(pages)
    while True:
        try:
            found.append(next(iterator).shape)
        except PageError as error:
            found.append(str(error)[:24])
        except StopIteration:
            break
    assert found == [(158, 122, 3), "Page 1 (counted from 0) ", (158, 122, 3)]
    with pytest.raises(PageError, match="Page 1 "):
        pages.text_layer(1)
    assert pages.text_layer(2) == []


def test_a_page_of_absurd_size_is_refused_before_it_is_drawn() -> None:
    file = pdf_files.document([b""], box="0 0 2000000 2000000")
    pages = read_pdf(file)
    with pytest.raises(PageError, match=r"4000000x4000000 = 16000000000000 pixels, more than max_pixels = 178956970"):
        pages[0]
    assert pages.text_layer(0) == []
    assert read_pdf(file, scale=1e-4)[0].shape == (200, 200, 3)
    with pytest.raises(PageError, match="max_pixels = 100"):
        read_pdf(SMALL, max_pixels=100)[0]
    assert read_pdf(SMALL, max_pixels=None)[0].shape == (159, 123, 3)


@pytest.mark.parametrize("box", ["0 0 0 0", "0 0 0.01 0.01", "5 5 1 1", "a b c d"])
def test_invalid_page_boxes_are_handled(box: str) -> None:
    page = read_pdf(pdf_files.document([b""], box=box), scale=0.1)[0]
    assert page.shape[2] == 3
    assert min(page.shape) >= 1


def test_page_cropped_to_nothing_is_refused() -> None:
    with pytest.raises(PageError, match="Crop"):
        read_pdf(SMALL, crop=(40, 0, 40, 0))[0]


# Excessive sizes


@pytest.mark.slow
def test_page_of_a_million_objects_is_rendered() -> None:
    page = read_pdf(pdf_files.document([b"9 9 1 1 re f\n" * 1_000_000]), scale=0.1)
    assert page[0].shape == (80, 62, 3)
    assert page.text_layer(0) == []


def test_page_with_too_many_objects_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pdfium, "MAX_PAGE_OBJECTS", 1000)
    pages = read_pdf(pdf_files.document([b"9 9 1 1 re f\n" * 1001, b"9 9 1 1 re f\n" * 1000]), scale=0.1)
    for read in (pages.__getitem__, pages.text_layer):
        with pytest.raises(PageError, match="1001 objects, more than the 1000"):
            read(0)
    assert pages[1].shape == (80, 62, 3)


def test_page_with_too_many_characters_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pdfium, "MAX_PAGE_CHARACTERS", 20)
    pages = read_pdf(
        pdf_files.document([pdf_files.text_page((10, 10, "x" * 21)), pdf_files.text_page((9, 9, "x" * 20))])
    )
    with pytest.raises(PageError, match="21 characters, more than the 20"):
        pages.text_layer(0)
    assert [word.value for word in pages.text_layer(1)] == ["x" * 20]


def test_missing_pages_are_reported() -> None:
    file = pdf_files.assembled([
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 900000>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 61 79]>>",
    ])  # fmt: skip
    pages = read_pdf(file)
    assert len(pages) == 900000
    assert pages[0].shape == (158, 122, 3)
    with pytest.raises(PageError):
        pages[800000]


def test_recursive_pages_and_pictures_end() -> None:
    circle = pdf_files.assembled([
        b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Pages/Parent 2 0 R/Kids[2 0 R]/Count 1>>",
    ])  # fmt: skip
    with suppress(OpenError, PageError):
        read_pdf(circle)[0]
    file = pdf_files.assembled([
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 61 79]/Contents 4 0 R/Resources<</XObject<</X 5 0 R>>>>>>",
        pdf_files.stream(b"/X Do"),
        pdf_files.stream(
            b"0 g 0 0 9 9 re f /X Do", b"/Type/XObject/Subtype/Form/BBox[0 0 61 79]/Resources<</XObject<</X 5 0 R>>>>"
        ),
    ])  # fmt: skip
    assert read_pdf(file)[0].min() == 0


@pytest.mark.parametrize("seed", range(30))
def test_damaged_files_give_an_error_or_a_page(seed: int) -> None:
    """A file with changed bytes gives documented errors, or pages within the limit, and words on the page."""
    random = np.random.default_rng(seed)
    data = bytearray(pdf_files.document([pdf_files.text_page((9, 9, "words")), b"0 g 0 0 9 9 re f"], box="0 0 61 79"))
    for at in random.integers(0, len(data), 1 + seed):
        data[at] = random.integers(0, 256)
    try:
        pages = read_pdf(bytes(data), max_pixels=100_000)
    except OpenError:
        return
    for number in range(min(4, len(pages))):
        with suppress(PageError):
            height, width, num_channels = pages[number].shape
            assert 0 < height * width <= 100_000
            assert num_channels == 3
        with suppress(PageError):
            for word in pages.text_layer(number):
                assert word.value
                assert 0 <= np.min(word.geometry) <= np.max(word.geometry) <= 1
