"""Searchable PDF: the image of each page with its text, invisible, over it; written by PDFium."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...errors import EncodeError, InvalidArgumentError
from ._glyphless_font import MAX_CODES, FontCodes, font_file
from ._page_base import page_pixels
from ._pdf_words import PlacedText, placed_words
from ._pdfium import import_pdfium, pdfium_lock, save_document
from ._regions import document_pages, page_regions

__all__ = ["PDFExporter"]

_POINTS_PER_INCH = 72.0
# The largest side of a page that readers accept, and the sheet in place of a page of which not even the size is known.
_MAX_SIDE = 14_400.0
_BLANK_PAGE = (842, 595)
# Pixels; libjpeg refuses larger pictures, which are stored without loss.
_MAX_JPEG_SIDE = 65_500


class PDFExporter:
    """Export to searchable PDF.

    Each page has the size of its image. Words lie where they were found, straight or turned, in any script; pages that
    could not be read are blank.

    Args:
        dpi: Pixels of the image to an inch of paper; 144 is what PDFs are rendered with by default, so that
            their pages keep their size. Pages that would be too large for a PDF get more.
        quality: Of the JPEG that the image becomes, from 1 to 100.
        lossless: Whether the image keeps every pixel instead; the file is several times larger.
        direction: Reading direction: 'auto', 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.

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

    def __init__(self, dpi: float = 144.0, quality: int = 90, lossless: bool = False, direction: str = "auto") -> None:
        if not 0 < dpi < float("inf"):
            raise InvalidArgumentError(f"dpi is the positive number of pixels to an inch, got {dpi!r}.")
        if not 1 <= quality <= 100:
            raise InvalidArgumentError(f"quality is from 1 to 100, got {quality!r}.")
        self.dpi = dpi
        self.quality = quality
        self.lossless = lossless
        self.direction = direction

    def export(self, source: Any) -> bytes:
        """Export a page or a document.

        Args:
            source: A `Page`, `KIEPage`, `Document` or `KIEDocument`; pages need their images.

        Returns:
            The file.

        Raises:
            InvalidArgumentError: if a page has no image, as after ``from_dict`` without one.
            MissingDependencyError: if pypdfium2 is not installed.
            EncodeError: if PDFium refuses.
        """
        pdfium = import_pdfium()
        with pdfium_lock:
            document = pdfium.PdfDocument.new()
        try:
            for page in document_pages(source):
                self._add_page(pdfium, document, page)
            target = io.BytesIO()
            with pdfium_lock:
                save_document(document, target)
        finally:
            with pdfium_lock:
                document.close()
        return target.getvalue()

    def _add_page(self, pdfium: Any, document: Any, page: Any) -> None:
        """Add one page; all that does not call PDFium is done before it is locked."""
        blank = page.error is not None and 0 in getattr(page.page, "shape", (0,))
        image = None if blank else page_pixels(page.page)
        height, width = _BLANK_PAGE if image is None else image.shape[:2]
        scale = min(_POINTS_PER_INCH / self.dpi, _MAX_SIDE / max(height, width))
        is_lossless = self.lossless or max(height, width) > _MAX_JPEG_SIDE
        jpeg = None if image is None or is_lossless else _jpeg(image, self.quality)
        rows = [row for region in page_regions(page, self.direction, size=(height, width)) for row in region.rows]
        texts = placed_words(rows, np.array([[scale, 0], [0, -scale], [0, height * scale]]))
        with pdfium_lock:
            sheet = document.new_page(width * scale, height * scale)
            try:
                if image is not None:
                    _insert_image(pdfium, document, sheet, image if jpeg is None else jpeg)
                for index, group in enumerate(_font_groups(texts)):
                    _insert_texts(pdfium.raw, document, sheet, group, f"Invisible{index}")
                sheet.gen_content()
            finally:
                sheet.close()


def _jpeg(image: NDArray[np.uint8], quality: int) -> bytes:
    """The image as a JPEG with colours at full resolution; a grey image has no colours to store."""
    grey = bool((image[..., 0] == image[..., 1]).all() and (image[..., 1] == image[..., 2]).all())
    target = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image[..., 0]) if grey else image).save(
        target, "JPEG", quality=quality, subsampling=0
    )
    return target.getvalue()


def _insert_image(pdfium: Any, document: Any, sheet: Any, image: bytes | NDArray[np.uint8]) -> None:
    """Let the image, a JPEG or pixels, cover the sheet."""
    picture = pdfium.PdfImage.new(document)
    if isinstance(image, bytes):
        picture.load_jpeg(io.BytesIO(image), inline=True)
    else:
        picture.set_bitmap(pdfium.PdfBitmap.from_pil(Image.fromarray(image)))
    picture.set_matrix(pdfium.PdfMatrix().scale(*sheet.get_size()))
    sheet.insert_obj(picture)


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


def _insert_texts(raw: Any, document: Any, sheet: Any, texts: Sequence[PlacedText], font_name: str) -> None:
    """Lay invisible texts over the sheet, in a font of their own."""
    codes = FontCodes()
    encoded = [codes.encode(text.glyphs) for text in texts]
    file, glyphs = font_file(font_name), codes.glyph_map()
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
