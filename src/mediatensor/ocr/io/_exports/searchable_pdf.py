"""Searchable PDF: pages of PDF files unchanged, other pages as images, each with an invisible text layer."""

from __future__ import annotations

import copy
import ctypes
import io
import math
import zlib
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....errors import EncodeError, InvalidArgumentError, PageError
from .._documents.images import ImageDocument
from .._documents.pages import PageOfFile
from .._documents.pdf import PdfDocument
from .._documents.pdfium import (
    OpenPdf,
    characters,
    import_pdfium,
    opened_page,
    pdfium_lock,
    relative_matrix,
    save_document,
)
from .._documents.picture_pdf import picture_pdf, pixels_as_jpeg, pixels_lossless
from .._elements.pages import page_origin, page_pixels
from .invisible_text import MAX_CODES, FontCodes, PlacedText, font_file, place_words
from .regions import document_pages, page_regions

_POINTS_PER_INCH = 72.0
# The largest side of a page that readers accept, and (height, width) in pixels of a page of unknown size.
_MAX_SIDE = 14_400.0
_BLANK_PAGE = (842, 595)
# Pixels; libjpeg refuses larger pictures, which are stored without loss.
_MAX_JPEG_SIDE = 65_500


class _Sheet(NamedTuple):
    """A page of the PDF to write, before its text is added.

    Attributes:
        origin: The PDF file that the page is copied from, and the page number in it; ``None`` if made from an image.
        size: Height and width in pixels, to which the positions of words refer.
        image_pdf: A PDF file with only this page, if the page is made from an image.
        scale: Points per pixel, if the page is made from an image.
    """

    page: Any
    origin: tuple[PdfDocument, int] | None
    size: tuple[int, int]
    image_pdf: bytes = b""
    scale: float = 1.0


class PDFExporter:
    """Export to searchable PDF.

    * A page of a PDF file is copied with its text, drawings, pictures and links, and the result keeps the file's title,
      bookmarks and password. Words that the page already has as text are not written again.
    * The data of an image file are embedded unchanged if PDF can show them: JPEG, PNG that is not interlaced, and TIFF
      in one strip, if not transparent. The pixels of other lossless files are embedded without loss.
    * All other pages, such as video frames and straightened pages, are stored as images. Pages that could not be read,
      and do not come from a PDF file, are blank.

    Words are placed where they were found, straight or turned, in any script. The original files are read again and
    must not have changed.

    Args:
        dpi: Pixels of an image per inch of paper; the default, 144, is the default resolution of rendered PDF pages. It
            is raised for pages that would be too large for a PDF, and has no effect on pages of PDF files.
        quality: Quality of JPEG images, from 1 to 100.
        lossless: Whether images are stored without loss instead of as JPEG; the file is then several times larger.
        direction: Reading direction: 'auto', 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
        keep_pages: Whether pages and images of files are copied; otherwise each page is stored as the image that was
            read.

    Raises:
        InvalidArgumentError: if ``dpi`` is not positive, or ``quality`` is not from 1 to 100.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, PDFExporter, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> PDFExporter().export(page)[:5]
        b'%PDF-'
    """

    def __init__(
        self,
        dpi: float = 144.0,
        quality: int = 90,
        lossless: bool = False,
        direction: str = "auto",
        *,
        keep_pages: bool = True,
    ) -> None:
        if not 0 < dpi < float("inf"):
            raise InvalidArgumentError(f"dpi = {dpi!r} should be a positive number of pixels per inch.")
        if not 1 <= quality <= 100:
            raise InvalidArgumentError(f"quality = {quality!r} should be from 1 to 100.")
        self.dpi = dpi
        self.quality = quality
        self.lossless = lossless
        self.direction = direction
        self.keep_pages = keep_pages

    def export(self, source: Any) -> bytes:
        """Export a page or a document.

        Args:
            source: A `Page`, `KIEPage`, `Document` or `KIEDocument`; pages need their images.

        Returns:
            The file.

        Raises:
            InvalidArgumentError: if a page has no image, as after ``from_dict`` without images.
            SourceNotFoundError: if the file of a page no longer exists.
            PageError: if the file of a page has changed, or the page cannot be read.
            MissingDependencyError: if pypdfium2 is not installed.
            EncodeError: if PDFium refuses the text.
        """
        pdfium = import_pdfium()
        pages = document_pages(source)
        origins = [self._origin(page) for page in pages]
        base = _base_file(origins)
        letters = _OwnLetters()
        with pdfium_lock:
            document = pdfium.PdfDocument.new() if base is None else base.file.opened()
        try:
            if base is not None:
                with pdfium_lock:
                    _keep_only(document, base, [number for file, number in filter(None, origins) if file is base])
            for index, (page, origin) in enumerate(zip(pages, origins, strict=True)):
                sheet = _Sheet(page, origin, page.dimensions) if origin is not None else self._image_page(page)
                with pdfium_lock:
                    if sheet.image_pdf:
                        with closing(pdfium.PdfDocument(sheet.image_pdf)) as single:
                            document.import_pages(single, [0], index)
                    elif origin is not None and origin[0] is not base:
                        with origin[0].file() as other:
                            _check_number(other, *origin)
                            document.import_pages(other, [origin[1]], index)
                self._add_texts(document, index, sheet, letters)
            target = io.BytesIO()
            with pdfium_lock:
                save_document(document, target)
        finally:
            with pdfium_lock:
                document.close()
        return target.getvalue()

    def _origin(self, page: Any) -> tuple[PdfDocument, int] | None:
        origin = page_origin(page)
        if not self.keep_pages or not isinstance(origin, PageOfFile):
            return None
        document, number = origin.location
        return (document, number) if isinstance(document, PdfDocument) else None

    def _image_page(self, page: Any) -> _Sheet:
        """Return a page made from its image. This needs no PDFium, and so no lock."""
        origin, picture = page_origin(page), None
        is_lossless = self.lossless
        if self.keep_pages and isinstance(origin, PageOfFile) and origin.is_readable:
            document, number = origin.location
            if isinstance(document, ImageDocument):
                picture = document.stored(number)
                is_lossless |= document.is_lossless
        if picture is not None:
            width, height = picture.size
        else:
            pixels = page.page
            if page.error is not None and 0 in getattr(pixels, "shape", (0,)):
                height, width = _BLANK_PAGE
            else:
                image = page_pixels(pixels)
                height, width = image.shape[:2]
                is_jpeg = not is_lossless and max(height, width) <= _MAX_JPEG_SIDE
                picture = pixels_as_jpeg(image, self.quality) if is_jpeg else pixels_lossless(image)
        scale = min(_POINTS_PER_INCH / self.dpi, _MAX_SIDE / max(height, width))
        return _Sheet(page, None, (height, width), picture_pdf(picture, width * scale, height * scale), scale)

    def _add_texts(self, document: Any, index: int, sheet: _Sheet, letters: _OwnLetters) -> None:
        rows = [
            row
            for region in page_regions(sheet.page, self.direction, size=sheet.size)
            for row in region.rows
            if any(token.text.strip() for token in row.tokens)
        ]
        if not rows:
            return  # Without PDFium, which may take forever to read the page.
        raw = import_pdfium().raw
        with pdfium_lock, opened_page(document, index) as page:
            if sheet.origin is None:
                matrix = np.array([[sheet.scale, 0], [0, -sheet.scale], [0, sheet.size[0] * sheet.scale]])
                texts = place_words(rows, matrix)
            else:
                texts = place_words(rows, _pixels_to_points(page, sheet), letters.of_page(*sheet.origin))
            for group in _font_groups(texts):
                _insert_texts(raw, document, page, group)
            page.gen_content()


def _base_file(origins: Sequence[tuple[PdfDocument, int] | None]) -> PdfDocument | None:
    """Return the PDF file that the result is based on: the first source, if its pages keep their order, else None."""
    file_origins = [origin for origin in origins if origin is not None]
    if not file_origins:
        return None
    first = file_origins[0][0]
    numbers = [number for document, number in file_origins if document is first]
    return first if all(before < after for before, after in pairwise(numbers)) else None


def _keep_only(document: Any, source: PdfDocument, numbers: Sequence[int]) -> None:
    """Delete all pages of a document except those with these numbers."""
    _check_number(document, source, max(numbers))
    for number in sorted(set(range(len(document))) - set(numbers), reverse=True):
        del document[number]


def _check_number(document: Any, source: PdfDocument, number: int) -> None:
    if number >= len(document):
        raise PageError(
            f"Page {number} (counted from 0) of {source.name} cannot be written: the file has changed, and has "
            f"{len(document)} pages now."
        )


def _pixels_to_points(page: Any, sheet: _Sheet) -> NDArray[np.float64]:
    """Return the matrix (3, 2) from pixels of the image that was read to points in the coordinates of the file."""
    assert sheet.origin is not None
    source, number = sheet.origin
    options, (height, width) = source.options, sheet.size
    if not options.render.get("crop"):
        sides = [math.ceil(side * options.scale) for side in page.get_size()]
        if sorted(sides) != sorted(sheet.size):
            raise PageError(
                f"Page {number} (counted from 0) of {source.name} cannot be written: the file has changed, and the "
                f"page has {sides[0]}x{sides[1]} pixels now instead of {width}x{height}."
            )
    relative = np.asarray(relative_matrix(page, options)).reshape(3, 2)
    inverse = np.linalg.inv(relative[:2])
    matrix: NDArray[np.float64] = np.concatenate([inverse / [[width], [height]], -relative[2:] @ inverse])
    return matrix


class _OwnLetters:
    """Finds the letters that pages of PDF files have as text, in content, form fields and annotations.

    It opens the files again, because they may have changed since the documents that are kept open were read.
    """

    def __init__(self) -> None:
        self._files: dict[PdfDocument, tuple[OpenPdf, OpenPdf]] = {}

    def of_page(self, source: PdfDocument, number: int) -> NDArray[np.float64]:
        """Return the centres (N, 2) of the letters of a page, in points. The caller holds the lock."""
        if source not in self._files:
            self._files[source] = copy.copy(source.file), copy.copy(source.copy)
        file, second = self._files[source]
        with file() as pdf:
            text = characters(pdf, number, source.options, second)
        codes, boxes = np.asarray(text.codes), np.asarray(text.boxes).reshape(-1, 4)
        # Without spaces, codes that are not characters, and the private use area.
        has_meaning = (codes > 0x20) & (codes < 0xFFF0) & ~((codes >= 0xE000) & (codes < 0xF900)) & (codes != 0xA0)
        middles = np.stack([boxes[:, :2].mean(axis=1), boxes[:, 2:].mean(axis=1)], axis=1)
        known: NDArray[np.float64] = middles[has_meaning & np.isfinite(middles).all(axis=1)]
        return known


def _font_groups(texts: Sequence[PlacedText]) -> list[list[PlacedText]]:
    """Divide texts into groups that each need at most `MAX_CODES` codes, the number of codes in one font."""
    groups: list[list[PlacedText]] = []
    known: set[str] = set()
    for text in texts:
        if not groups or len(known) + len(text.glyphs) > MAX_CODES:
            groups.append([])
            known = set()
        known.update(text.glyphs)
        groups[-1].append(text)
    return groups


def _insert_texts(raw: Any, document: Any, sheet: Any, texts: Sequence[PlacedText]) -> None:
    """Add invisible texts to a page, in a separate font."""
    codes = FontCodes()
    encoded = [codes.encode(text.glyphs) for text in texts]
    # PDFium merges fonts of the same name on a page, and the page may have invisible fonts of an earlier run.
    name = f"Invisible{zlib.crc32(codes.unicode_map()):08x}"
    file, glyphs = font_file(name), codes.glyph_map()
    font = raw.FPDFText_LoadCidType2Font(
        document.raw, _bytes(file), len(file), codes.unicode_map(), _bytes(glyphs), len(glyphs)
    )
    if not font:
        raise EncodeError("PDFium refused the font of the invisible text.")
    try:
        for text, numbers in zip(texts, encoded, strict=True):
            _insert_text(raw, document, sheet, font, text, numbers)
    finally:
        raw.FPDFFont_Close(font)


def _insert_text(raw: Any, document: Any, sheet: Any, font: Any, text: PlacedText, codes: list[int]) -> None:
    item = raw.FPDFPageObj_CreateTextObj(document.raw, font, ctypes.c_float(1.0))
    done = (
        item
        and raw.FPDFText_SetCharcodes(item, (ctypes.c_uint32 * len(codes))(*codes), len(codes))
        and raw.FPDFTextObj_SetTextRenderMode(item, raw.FPDF_TEXTRENDERMODE_INVISIBLE)
        and raw.FPDFPageObj_SetMatrix(item, raw.FS_MATRIX(*text.matrix))
    )
    if not done:
        raise EncodeError(f"PDFium refused the text {''.join(text.glyphs)!r}.")
    raw.FPDFPage_InsertObject(sheet.raw, item)


def _bytes(data: bytes) -> Any:
    return (ctypes.c_ubyte * len(data)).from_buffer_copy(data)
