"""Searchable PDF from files: pages and images are copied unchanged, and text is added."""

from __future__ import annotations

import io
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import pdf_files
from mediatensor.errors import OpenError, PageError, SourceNotFoundError
from mediatensor.ocr import DocumentFile
from mediatensor.ocr.io import Block, Document, Line, Page, Pages, Word
from mediatensor.ocr.io._documents.pages import PageOfFile
from ocr_export_pages import noise
from processes import find_program

pdfium = pytest.importorskip("pypdfium2", reason="needs pypdfium2")

PLACES = {"north": (0.2, 0.1, 0.5, 0.16), "south": (0.55, 0.8, 0.9, 0.85)}


def read(pages: Pages, places: dict[str, tuple[float, ...]] = PLACES) -> Document:
    """A document in which these words were read on each page, at places relative to the page."""
    read_pages = []
    for index in range(len(pages)):
        lines = [
            Line([Word(text, 0.9, ((x0, y0), (x1, y1)), 0.9, {"value": 0, "confidence": None})])
            for text, (x0, y0, x1, y1) in places.items()
        ]
        shape = pages[index].shape[:2]
        read_pages.append(Page(PageOfFile(pages, index), [Block(lines)], index, shape))
    return Document(read_pages)


def drawn(data: bytes, number: int = 0, **options: Any) -> np.ndarray[Any, Any]:
    document = pdfium.PdfDocument(data, **{key: options.pop(key) for key in ("password",) if key in options})
    picture = document[number].render(rev_byteorder=True, **options).to_numpy()[..., :3].copy()
    document.close()
    return picture


def book() -> bytes:
    """Two pages with a title, a bookmark, a link, boxes that do not begin at 0, and contents that leave a matrix."""
    return pdf_files.assembled(
        [
            b"<</Type/Catalog/Pages 2 0 R/Outlines 9 0 R>>",
            b"<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2/MediaBox[100 50 712 842]/Resources<</Font<</F 7 0 R>>>>>>",
            b"<</Type/Page/Parent 2 0 R/Contents 5 0 R/Rotate 90/Annots[11 0 R]>>",
            b"<</Type/Page/Parent 2 0 R/Contents 6 0 R/CropBox[120 70 600 700]>>",
            pdf_files.stream(b"q 0.5 0 0 0.5 90 90 cm BT /F 24 Tf 272 500 Td (first) Tj ET 1 0 0 rg 0 0 99 99 re f"),
            pdf_files.stream(b"BT /F 24 Tf 172 400 Td (other) Tj ET"),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            b"<</Title(My title)/Author(Somebody)>>",
            b"<</Type/Outlines/First 10 0 R/Last 10 0 R/Count 1>>",
            b"<</Title(Chapter)/Parent 9 0 R/Dest[4 0 R/Fit]>>",
            b"<</Type/Annot/Subtype/Link/Rect[110 100 200 200]/Border[0 0 0]/Dest[4 0 R/Fit]>>",
        ],
        b"/Info 8 0 R",
    )


def assert_at_places(path: Path, number: int) -> None:
    found = {w.value: np.array(w.geometry).ravel() for w in DocumentFile.from_pdf(path).text_layer(number)}
    for text, place in PLACES.items():
        np.testing.assert_allclose(found[text], place, atol=0.004, err_msg=text)
    document = pdfium.PdfDocument(path)
    is_turned = document[number].get_rotation() != 0
    document.close()
    by_poppler = {word.value: word[1:] for word in pdf_files.pdftotext(path, number)}
    for text, place in PLACES.items():
        if is_turned:  # it gives the size of the page as if that were not turned
            assert text in by_poppler
        else:
            np.testing.assert_allclose(by_poppler[text], place, atol=0.004, err_msg=text)


# Pages of PDF files


def test_pdf_keeps_its_pages_with_links_and_bookmarks(tmp_path: Path) -> None:
    document = read(DocumentFile.from_pdf(book()))

    data = document.export_as_pdf(tmp_path / "out.pdf")

    result = pdfium.PdfDocument(data)
    assert result.get_metadata_value("Title") == "My title"
    assert [bookmark.get_title() for bookmark in result.get_toc()] == ["Chapter"]
    assert pdfium.raw.FPDFPage_GetAnnotCount(result[0]) == 1
    result.close()
    for number in range(2):
        assert np.array_equal(drawn(data, number), drawn(book(), number))
        assert_at_places(tmp_path / "out.pdf", number)
        text = [word.value for word in DocumentFile.from_pdf(data).text_layer(number)]
        assert sorted(text) == sorted([["first", "other"][number], *PLACES])


@pytest.mark.parametrize("options", [{"dpi": 50}, {"rotation": 90}, {"rotation": 180, "dpi": 61.3}])
def test_rendering_options_do_not_matter(options: dict[str, Any], tmp_path: Path) -> None:
    pages = DocumentFile.from_pdf(book(), **options)
    path = tmp_path / "out.pdf"
    read(pages).save_pdf(path)

    for number in range(2):
        found = DocumentFile.from_pdf(path, **options).text_layer(number)
        places = {word.value: np.array(word.geometry).ravel() for word in found}
        for text, place in PLACES.items():
            np.testing.assert_allclose(places[text], place, atol=0.004)


def test_words_of_cropped_pages_are_in_place() -> None:
    options = {"crop": (30, 60, 10, 90)}
    data = read(DocumentFile.from_pdf(book(), **options)).export_as_pdf()

    places = {w.value: np.array(w.geometry).ravel() for w in DocumentFile.from_pdf(data, **options).text_layer(1)}
    for text, place in PLACES.items():
        np.testing.assert_allclose(places[text], place, atol=0.004)


def test_some_pages_of_a_pdf_are_written() -> None:
    data = read(DocumentFile.from_pdf(book(), pages=[1])).export_as_pdf()

    result = pdfium.PdfDocument(data)
    assert len(result) == 1
    assert result.get_metadata_value("Title") == "My title"
    result.close()
    assert np.array_equal(drawn(data), drawn(book(), 1))
    other_way = read(DocumentFile.from_pdf(book(), pages=[1, 0, 1])).export_as_pdf()
    for place, number in enumerate([1, 0, 1]):
        assert np.array_equal(drawn(other_way, place), drawn(book(), number))


def test_an_encrypted_file_stays_encrypted() -> None:
    file = pdf_files.encrypted(pdf_files.text_page((72, 400, "hidden")), b"secret")

    data = read(DocumentFile.from_pdf(file, password="secret")).export_as_pdf()

    with pytest.raises(pdfium.PdfiumError):
        pdfium.PdfDocument(data)
    words = [word.value for word in DocumentFile.from_pdf(data, password="secret").text_layer(0)]
    assert sorted(words) == ["hidden", "north", "south"]
    assert np.array_equal(drawn(data, password="secret"), drawn(file, password="secret"))


def test_existing_text_is_not_written_again(tmp_path: Path) -> None:
    file = pdf_files.document([pdf_files.text_page((72, 400, "hello"))])
    path = tmp_path / "file.pdf"
    path.write_bytes(file)
    (hello,) = DocumentFile.from_pdf(file).text_layer(0)
    (x0, y0), (x1, y1) = hello.geometry
    places = {"he11o": (x0 - 0.01, y0 - 0.01, x1 + 0.01, y1 + 0.01), **PLACES}
    document = read(DocumentFile.from_pdf(path), places)

    for _ in range(2):  # the second time over its own source, which has the text by now
        document.save_pdf(path)
        words = [word.value for word in DocumentFile.from_pdf(path).text_layer(0)]
        assert sorted(words) == ["hello", "north", "south"]


def test_text_of_fields_is_not_written_again(tmp_path: Path) -> None:
    field, note = (pdf_files.Annotation(text, 100, bottom) for text, bottom in (("value", 600), ("note", 500)))
    content = pdf_files.text_page((72, 400, "hello"))
    path = tmp_path / "form.pdf"
    path.write_bytes(pdf_files.annotated(content, [field._replace(subtype="Widget"), note]))
    pages = DocumentFile.from_pdf(path)
    found = {word.value: np.array(word.geometry).ravel() for word in pages.text_layer(0)}
    assert set(found) == {"hello", "value", "note"}
    document = read(pages, {name: tuple(place.tolist()) for name, place in found.items()} | PLACES)

    for _ in range(2):  # the second time over its own source
        document.save_pdf(path)
        words = [word.value for word in DocumentFile.from_pdf(path).text_layer(0)]
        assert sorted(words) == ["hello", "north", "note", "south", "value"]
    by_poppler = [word.value for word in pdf_files.pdftotext(path)]
    assert sorted(by_poppler) == ["hello", "north", "note", "south", "value"]


def test_missing_or_changed_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "book.pdf"
    path.write_bytes(book())
    document = read(DocumentFile.from_pdf(path))
    copied = pickle.loads(pickle.dumps(document))
    assert copied.export() == document.export()
    text = [word.value for word in DocumentFile.from_pdf(copied.export_as_pdf()).text_layer(1)]
    assert sorted(text) == ["north", "other", "south"]

    path.write_bytes(pdf_files.document([b""]))
    with pytest.raises(PageError, match="1 pages now"):
        document.export_as_pdf()
    path.write_bytes(pdf_files.document([b"", b""]))
    with pytest.raises(PageError, match="pixels now"):
        document.export_as_pdf()
    path.unlink()
    with pytest.raises(SourceNotFoundError, match=r"book\.pdf"):
        document.export_as_pdf()
    path.mkdir()
    with pytest.raises(OpenError, match=r"book\.pdf"):
        document.export_as_pdf()


def test_unreadable_page_is_kept_without_reading_it() -> None:
    file = pdf_files.document([b"0 g 0 0 612 792 re f", b"/A BMC " * 300_000])
    pages = DocumentFile.from_pdf(file, timeout_seconds=30)
    good = read(pages[:1]).pages[0]
    bad = Page(PageOfFile(pages, 1, is_readable=False), [], 1, (0, 0), error="it takes too long")

    data = Document([good, bad]).export_as_pdf()

    result = pdfium.PdfDocument(data)
    assert [result.get_page_size(number) for number in range(2)] == [(612, 792)] * 2
    result.close()


def test_pages_of_several_files_are_combined(tmp_path: Path) -> None:
    Image.fromarray(noise((80, 120))).save(tmp_path / "page.png")
    pages = (
        DocumentFile.from_images(tmp_path / "page.png")
        + DocumentFile.from_pdf(book())
        + DocumentFile.from_pdf(pdf_files.document([pdf_files.text_page((72, 400, "third"))]))
    )
    path = tmp_path / "out.pdf"

    read(pages).save_pdf(path)

    result = DocumentFile.from_pdf(path)
    assert result.text_layer(3)[0].value == "third"
    assert len(result) == 4
    for number in range(4):
        assert_at_places(path, number)
        assert {"north", "south"} <= {word.value for word in result.text_layer(number)}


def test_pages_can_be_written_as_pictures() -> None:
    data = read(DocumentFile.from_pdf(book())).export_as_pdf(keep_pages=False)

    assert sorted(word.value for word in DocumentFile.from_pdf(data).text_layer(0)) == ["north", "south"]


# Image files


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def jpegs() -> dict[str, bytes]:
    picture = Image.fromarray(noise((90, 130)))
    return {
        "grey": encoded(picture.convert("L"), "JPEG", quality=92),
        "colour": encoded(picture, "JPEG", quality=92, progressive=True),
        "cmyk": encoded(picture.convert("CMYK"), "JPEG", quality=92),
        **{f"turned {turn}": encoded(picture, "JPEG", quality=92, exif=_turned(turn)) for turn in range(2, 9)},
    }


def _turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.mark.parametrize("name", jpegs())
def test_jpegs_are_not_encoded_again(name: str, tmp_path: Path) -> None:
    file, path = jpegs()[name], tmp_path / "out.pdf"
    pages = DocumentFile.from_images(file)

    data = read(pages).export_as_pdf(path)

    assert data.count(file) == 1
    shown = drawn(data, scale=2).astype(int)
    assert shown.shape == pages[0].shape
    # CMYK is turned into RGB in more than one way.
    assert np.abs(shown - pages[0])[2:-2, 2:-2].mean() < (25 if name == "cmyk" else 3)
    assert_at_places(path, 0)
    if name != "cmyk":
        subprocess.run([find_program("pdfimages"), "-all", path, tmp_path / "image"], check=True)
        assert (tmp_path / "image-000.jpg").read_bytes() == file


def lossless_files() -> dict[str, tuple[bytes, bool]]:
    """Files, and whether their data are copied unchanged."""
    picture = Image.fromarray(noise((90, 131)))
    bits = picture.convert("1")
    clear = picture.copy()
    clear.putalpha(128)
    return {
        "png colour": (encoded(picture, "PNG"), True),
        "png grey": (encoded(picture.convert("L"), "PNG"), True),
        "png bits": (encoded(bits, "PNG"), True),
        "png palette": (encoded(picture.quantize(40), "PNG"), True),
        "png alpha": (encoded(clear, "PNG"), False),
        "tiff g4": (encoded(bits, "TIFF", compression="group4"), True),
        "tiff lzw": (encoded(picture, "TIFF", compression="tiff_lzw"), True),
        "tiff deflate": (encoded(picture.convert("L"), "TIFF", compression="tiff_deflate"), True),
        "tiff plain": (encoded(picture, "TIFF"), False),
        "tiff turned": (encoded(bits, "TIFF", compression="group4", tiffinfo={274: 6}), True),
        "gif": (encoded(picture, "GIF"), False),
        "bmp": (encoded(picture, "BMP"), False),
    }


@pytest.mark.parametrize("name", lossless_files())
def test_lossless_files_stay_lossless(name: str) -> None:
    file, is_kept = lossless_files()[name]
    pages = DocumentFile.from_images(file)

    data = read(pages).export_as_pdf()

    document = pdfium.PdfDocument(data)
    (image,) = document[0].get_objects(filter=[pdfium.raw.FPDF_PAGEOBJ_IMAGE])
    pixels = image.get_bitmap().to_numpy()
    filters, stored = image.get_filters(), bytes(image.get_data())
    document.close()
    assert len(filters) == 1
    assert "DCTDecode" not in filters
    assert (stored in file) is is_kept
    shown = drawn(data, scale=2)
    assert shown.shape == pages[0].shape
    if "turned" not in name and pixels.ndim == 3 and pixels.shape[2] == 3:
        assert np.array_equal(pixels[..., ::-1], pages[0])
    elif "turned" not in name:
        grey = pixels if pixels.ndim == 2 else pixels[..., 0]
        assert np.array_equal(grey, pages[0][..., 0])


def test_scaled_images_keep_their_size() -> None:
    pages = DocumentFile.from_images(jpegs()["colour"], output_size=(45, 65))

    assert drawn(read(pages).export_as_pdf(), scale=2).shape == (45, 65, 3)
