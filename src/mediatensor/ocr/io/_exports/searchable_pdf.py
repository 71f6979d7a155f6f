"""Searchable PDF: each page as it is in its file, or as a picture, with its text, invisible, over it; by PDFium."""

from __future__ import annotations

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
from .._documents import (
    ImageDocument,
    PageOfFile,
    PdfDocument,
    characters,
    import_pdfium,
    pdfium_lock,
    picture_pdf,
    pixels_as_jpeg,
    pixels_as_they_are,
    relative_matrix,
    save_document,
)
from .._elements import page_origin, page_pixels
from .pdf_words import MAX_CODES, FontCodes, PlacedText, font_file, placed_words
from .regions import document_pages, page_regions

__all__ = ["PDFExporter"]

_POINTS_PER_INCH = 72.0
# The largest side of a page that readers accept, and the sheet in place of a page of which not even the size is known.
_MAX_SIDE = 14_400.0
_BLANK_PAGE = (842, 595)
# Pixels; libjpeg refuses larger pictures, which are stored without loss.
_MAX_JPEG_SIDE = 65_500


class _Sheet(NamedTuple):
    """Where a page of the result comes from.

    Attributes:
        page: What was read.
        origin: Its page of a PDF file and the number there; ``None`` of a page that is made.
        size: Height and width in pixels that places are for.
        made: A file of one page instead, and points to a pixel.
    """

    page: Any
    origin: tuple[PdfDocument, int] | None
    size: tuple[int, int]
    made: bytes = b""
    scale: float = 1.0


class PDFExporter:
    """Export to searchable PDF.

    A page of a PDF file stays that page, with its text, drawings, pictures and links, and the result keeps the file's
    title, bookmarks and password. Words that the file itself has at their place are not written again. Of an image file
    the bytes are put in as they are, if PDF can show them: JPEG, and PNG and TIFF of one piece without transparency;
    other files that keep every pixel do so here. All other pages, as frames of a video and pages that were
    straightened, are pictures. They have the size of their image; those that could not be read, and are no page of a
    PDF file, are blank. Words lie where they were found, straight or turned, in any script.

    Files are read again for it, and must be there still, and the same.

    Args:
        dpi: Pixels of the image to an inch of paper; 144 is what PDFs are rendered with by default. Pages that would be
            too large for a PDF get more. Of no concern for pages of PDF files.
        quality: Of the JPEG that an image becomes, from 1 to 100.
        lossless: Whether such an image keeps every pixel instead; the file is several times larger.
        direction: Reading direction: 'auto', 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
        keep_pages: Whether pages and images of files are put in as they are; else each page is the picture that was
            read, and no more.

    Raises:
        InvalidArgumentError: if the resolution is not positive or the quality not from 1 to 100.

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
            raise InvalidArgumentError(f"dpi is the positive number of pixels to an inch, got {dpi!r}.")
        if not 1 <= quality <= 100:
            raise InvalidArgumentError(f"quality is from 1 to 100, got {quality!r}.")
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
            InvalidArgumentError: if a page has no image, as after ``from_dict`` without one.
            SourceNotFoundError: if a file of which pages come is not there any more.
            PageError: if it is another file now, or a page of it cannot be read.
            MissingDependencyError: if pypdfium2 is not installed.
            EncodeError: if PDFium refuses.
        """
        pdfium = import_pdfium()
        pages = document_pages(source)
        kept = [self._origin(page) for page in pages]
        whole = _whole(kept)
        with pdfium_lock:
            document = pdfium.PdfDocument.new() if whole is None else whole.file.opened()
        try:
            if whole is not None:
                with pdfium_lock:
                    _leave_out(document, whole, [number for owner, number in filter(None, kept) if owner is whole])
            for index, (page, origin) in enumerate(zip(pages, kept, strict=True)):
                sheet = _Sheet(page, origin, page.dimensions) if origin is not None else self._made(page)
                with pdfium_lock:
                    if sheet.made:
                        with closing(pdfium.PdfDocument(sheet.made)) as single:
                            document.import_pages(single, [0], index)
                    elif origin is not None and origin[0] is not whole:
                        with origin[0].file() as other:
                            _check_number(other, *origin)
                            document.import_pages(other, [origin[1]], index)
                self._add_texts(document, index, sheet)
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
        document, number = origin.located
        return (document, number) if isinstance(document, PdfDocument) else None

    def _made(self, page: Any) -> _Sheet:
        """A page with its picture, all that can be done without PDFium."""
        origin, picture = page_origin(page), None
        is_lossless = self.lossless
        if self.keep_pages and isinstance(origin, PageOfFile) and origin.is_readable:
            document, number = origin.located
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
                picture = pixels_as_jpeg(image, self.quality) if is_jpeg else pixels_as_they_are(image)
        scale = min(_POINTS_PER_INCH / self.dpi, _MAX_SIDE / max(height, width))
        return _Sheet(page, None, (height, width), picture_pdf(picture, width * scale, height * scale), scale)

    def _add_texts(self, document: Any, index: int, sheet: _Sheet) -> None:
        rows = [
            row
            for region in page_regions(sheet.page, self.direction, size=sheet.size)
            for row in region.rows
            if any(token.text.strip() for token in row.tokens)
        ]
        if not rows:
            return  # PDFium need not read the page, which may take it for ever
        raw = import_pdfium().raw
        with pdfium_lock, closing(document[index]) as own:
            if sheet.origin is None:
                matrix = np.array([[sheet.scale, 0], [0, -sheet.scale], [0, sheet.size[0] * sheet.scale]])
                texts = placed_words(rows, matrix)
            else:
                texts = placed_words(rows, _pixels_to_points(own, sheet), _own_letters(document, index, sheet))
            for group in _font_groups(texts):
                _insert_texts(raw, document, own, group)
            own.gen_content()


def _whole(origins: Sequence[tuple[PdfDocument, int] | None]) -> PdfDocument | None:
    """The PDF file that the result is made of, if its pages are in their order there."""
    found = [origin for origin in origins if origin is not None]
    if not found:
        return None
    first = found[0][0]
    numbers = [number for document, number in found if document is first]
    return first if all(before < after for before, after in pairwise(numbers)) else None


def _leave_out(document: Any, source: PdfDocument, numbers: Sequence[int]) -> None:
    """Leave out of a document all pages but some."""
    _check_number(document, source, max(numbers))
    for number in sorted(set(range(len(document))) - set(numbers), reverse=True):
        del document[number]


def _check_number(document: Any, source: PdfDocument, number: int) -> None:
    if number >= len(document):
        raise PageError(
            f"Page {number} (counted from 0) of {source.name} cannot be written: the file has {len(document)} pages "
            "now, and had others when it was read."
        )


def _pixels_to_points(page: Any, sheet: _Sheet) -> NDArray[np.float64]:
    """(3, 2): from pixels of the image that was read to points of the page, as the file counts them."""
    assert sheet.origin is not None
    source, number = sheet.origin
    options, (height, width) = source.options, sheet.size
    if not options.render.get("crop"):
        sides = [math.ceil(side * options.scale) for side in page.get_size()]
        if sorted(sides) != sorted(sheet.size):
            raise PageError(
                f"Page {number} (counted from 0) of {source.name} cannot be written: it has {sides[0]}x{sides[1]} "
                f"pixels now, and had {width}x{height} when it was read."
            )
    relative = np.asarray(relative_matrix(page, options)).reshape(3, 2)
    inverse = np.linalg.inv(relative[:2])
    matrix: NDArray[np.float64] = np.concatenate([inverse / [[width], [height]], -relative[2:] @ inverse])
    return matrix


def _own_letters(document: Any, index: int, sheet: _Sheet) -> NDArray[np.float64]:
    """(N, 2): the middles of the letters that the page has as text already, in points."""
    assert sheet.origin is not None
    found = characters(document, index, sheet.origin[0].options)
    codes, boxes = np.asarray(found.codes), np.asarray(found.boxes).reshape(-1, 4)
    # Not spaces, nor what has no meaning: codes of no character, and those that each font uses as it likes.
    has_meaning = (codes > 0x20) & (codes < 0xFFF0) & ~((codes >= 0xE000) & (codes < 0xF900)) & (codes != 0xA0)
    middles = np.stack([boxes[:, :2].mean(axis=1), boxes[:, 2:].mean(axis=1)], axis=1)
    known: NDArray[np.float64] = middles[has_meaning & np.isfinite(middles).all(axis=1)]
    return known


def _font_groups(texts: Sequence[PlacedText]) -> list[list[PlacedText]]:
    """Divide texts so that each group needs no more codes than one font has."""
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
    """Lay invisible texts over the sheet, in a font of their own."""
    codes = FontCodes()
    encoded = [codes.encode(text.glyphs) for text in texts]
    # PDFium takes fonts of one name on a page for one, and there may be some of an earlier run.
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
