"""Write searchable PDF files, in which each page has an invisible layer of the recognised text.

Pages that come from PDF files are copied, and all other pages are written as images. The text layer uses a font whose
glyphs draw nothing. Each word is placed exactly over the visible word.
"""

from __future__ import annotations

import copy
import ctypes
import io
import math
import struct
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...._engine.common.checks import real_number, whole_number
from ....errors import EncodeError, InvalidArgumentError, PageError
from .._documents.images import ImageDocument
from .._documents.pages import PageOfFile, StoredImage
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
from .._elements.page_order import one_line
from .._elements.pages import page_origin, page_pixels
from .regions import TextRow, document_pages, page_regions

# Programs that extract text take the height of a glyph from the font, and ignore a descent of 0. The box glyph of this
# font is as wide as the em, and extends from 0.2 below the baseline to 0.8 above it. The space is a twentieth of the em
# wide.
_FONT = Path(__file__).with_name("glyphless.ttf")
_NAME = "Invisible00000000"

_ASCENT = 0.8
_SPACE_CODE = 1
_FIRST_FREE = 2
# Maximum number of codes in a font, because a code takes two bytes.
_MAX_CODES = 65_000
# Maximum length of a text in UTF-16 code units, because an entry of the CMap may have 512 bytes.
_MAX_UNITS = 200
_ENTRIES_PER_SECTION = 100
_UNICODE_MAP = """\
/CIDInit /ProcSet findresource begin
12 dict begin
begincmap
/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def
/CMapName /Adobe-Identity-UCS def
/CMapType 2 def
1 begincodespacerange
<0000> <FFFF>
endcodespacerange
{}
endcmap
CMapName currentdict /CMap defineresource pop
end
end"""


def _font_file(name: str) -> bytes:
    """Return the invisible font as a TrueType file with a new font name, which must be as long as ``_NAME``.

    The font has three glyphs: one for missing characters, an empty box for text, and a space. Each font that is added
    to a page needs a different name, because PDFium merges fonts of the same name.
    """
    font = _FONT.read_bytes()
    names = _NAME.encode("utf-16-be"), name.encode("utf-16-be")
    assert len(names[0]) == len(names[1])
    font = font.replace(*names)
    # The checksum of the table of names is the sum of its 32-bit words (OpenType 1.9, 'OpenType font file').
    entry = font.index(b"name") + 4
    start, length = struct.unpack_from(">II", font, entry + 4)
    words = struct.unpack_from(f">{(length + 3) // 4}I", font, start)
    return font[:entry] + struct.pack(">I", sum(words) & 0xFFFFFFFF) + font[entry + 4 :]


def _unicode_map(codes: Mapping[str, int]) -> bytes:
    """Return the font's ``ToUnicode`` table. A code can stand for a text of up to `_MAX_UNITS` UTF-16 units."""
    entries = [f"<{_SPACE_CODE:04X}> <0020>"]
    entries += [f"<{code:04X}> <{text.encode('utf-16-be').hex()}>" for text, code in codes.items()]
    lines = []
    for start in range(0, len(entries), _ENTRIES_PER_SECTION):
        section = entries[start : start + _ENTRIES_PER_SECTION]
        lines += [f"{len(section)} beginbfchar", *section, "endbfchar"]
    return _UNICODE_MAP.format("\n".join(lines)).encode("ascii")


# Minimum side of a word in points. A thinner word could not be selected, and a word of size 0 cannot be written.
_MIN_SIDE = 0.1
# Programs that extract text start a new word at a glyph that is off the line of the previous glyph, measured across the
# nearest axis. If glyphs nearly overlap, they drop one as printed twice. A word is therefore written as a single glyph
# if it is off by more than this number of points, or if its glyphs are narrower than this share of its height.
_MAX_DRIFT = 0.4
_MIN_ADVANCE = 0.2
# These programs ignore written spaces, and rely on gaps. Poppler needs a gap of 0.15 of the height between words. On a
# line of single letters, which could be one widely spaced word, it needs 0.4. Boxes of words may touch or overlap. If
# words are closer than this share of the height, both are narrowed, in proportion to their widths, by at most
# `_MAX_YIELD` of their width.
_MIN_GAP = 0.2
_MIN_LETTER_GAP = 0.45
_MAX_YIELD = 0.45
# The programs take words for neighbours if their baselines start within this share of the height, measured across the
# nearest axis. Skewed lines rise into each other, so words of two lines may meet this condition. Skewed words that
# overlap by more than the third number are not neighbours. Skewed text is written with a smaller height.
_MAX_OFFSET = 0.6
_MAX_SKEWED_OFFSET = 1.5
_MAX_SKEWED_OVERLAP = 1.0
_SKEWED_HEIGHT = 0.6
_ROWS_AT_ONCE = 512
_LEFT_TO_RIGHT = frozenset({"L", "EN", "AN"})
_RIGHT_TO_LEFT = frozenset({"R", "AL"})


class _PlacedText(NamedTuple):
    """A word as a sequence of glyphs of equal width, and its position on the page.

    Each item of ``glyphs`` is the text of a glyph, from left to right. ``matrix`` has the operands a, b, c, d, e, f of
    PDF's operator ``Tm``. It maps the coordinates of the text at font size 1 to points on the page.
    """

    glyphs: tuple[str, ...]
    matrix: tuple[float, float, float, float, float, float]


def _place_words(
    rows: Iterable[TextRow], matrix: NDArray[np.float64], own_letters: NDArray[np.float64] | None = None
) -> list[_PlacedText]:
    """Return all words of ``rows`` with their positions on the page, except words that the page already has as text.

    ``matrix`` (3, 2) maps (x, y, 1) in pixels (y axis down) to units of 1/72 inch, called points (y axis up).
    ``own_letters``, of shape (N, 2), are the centres, in points, of the letters that the page already has.

    If the positions of the words in a table cell are unknown, the width of the cell is divided between them in
    proportion to their lengths.
    """
    words: list[str] = []
    quads: list[NDArray[np.float64]] = []
    tokens = [token for row in rows for token in row.tokens]
    if own_letters is not None and len(own_letters):
        # Check this before cells are divided: the places of their words are only estimates, but the cell has all
        # letters.
        boxes = [token.place.quad @ matrix[:2] + matrix[2] for token in tokens]
        are_known = _are_known([token.text.replace(" ", "") for token in tokens], boxes, own_letters)
        tokens = [token for token, known in zip(tokens, are_known, strict=True) if not known]
    for token in tokens:
        top_left, top_right, bottom_right, bottom_left = token.place.quad @ matrix[:2] + matrix[2]
        text = _visual_order(one_line(token.text))
        position = 0
        for word in text.split(" "):
            if word:
                shares = np.array([position, position + len(word)]) / len(text)
                top, bottom = (
                    start + shares[:, None] * (end - start)
                    for start, end in ((top_left, top_right), (bottom_left, bottom_right))
                )
                words.append(word)
                quads.append(np.stack([top[0], top[1], bottom[1], bottom[0]]))
            position += len(word) + 1
    if not words:
        return []
    placed = []
    for word, quad in zip(words, _move_apart(np.stack(quads), np.array([len(word) for word in words])), strict=True):
        along, up = _sides(*_mean_sides(quad))
        placed.append(_place_word(word, quad.mean(axis=0) - along / 2 - up / 2, along, up))
    return placed


def _are_known(words: list[str], quads: list[NDArray[np.float64]], letters: NDArray[np.float64]) -> list[bool]:
    """Return for each word whether the page already has it as text.

    ``letters`` (N, 2) are the centres of the letters that the page has. A word counts as present if its quad contains
    at least half as many letters as the word has characters.
    """
    letters = letters[letters[:, 1].argsort()]
    are_known = []
    for word, quad in zip(words, quads, strict=True):
        along, up = _sides(*_mean_sides(quad))
        first, last = np.searchsorted(letters[:, 1], [quad[:, 1].min(), quad[:, 1].max()])
        axes = np.stack([along, up])
        if not np.linalg.det(axes):
            are_known.append(False)
            continue
        places = (letters[first:last] - quad.mean(axis=0)) @ np.linalg.inv(axes)
        are_known.append(2 * int((np.abs(places) <= 0.5).all(axis=1).sum()) >= len(word))
    return are_known


def _mean_sides(quads: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean sides of each quad (..., 4, 2) as vectors: along the text, and upwards across it."""
    top_left, top_right, bottom_right, bottom_left = np.moveaxis(quads, -2, 0)
    along, up = top_right - top_left + bottom_right - bottom_left, top_left - bottom_left + top_right - bottom_right
    return along / 2, up / 2


def _move_apart(quads: NDArray[np.float64], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Shorten or lower the quads (N, 4, 2) of words that are too close to each other.

    Otherwise, programs that extract text from a PDF would join such words. ``lengths`` (N,) has the number of
    characters of each word.
    """
    along, up = _mean_sides(quads)
    is_skewed = np.abs(along).min(axis=1) > _MAX_DRIFT
    quads = quads.copy()
    cut = (is_skewed * (1.0 - _SKEWED_HEIGHT) / 2)[:, None] * up
    quads[:, [0, 1]] -= cut[:, None]
    quads[:, [2, 3]] += cut[:, None]
    up = up - 2 * cut
    heights = np.linalg.norm(up, axis=1)
    axes = np.zeros_like(along)
    nearest = np.abs(along).argmax(axis=1)
    axes[np.arange(len(along)), nearest] = np.sign(along[np.arange(len(along)), nearest])
    widths = (along * axes).sum(axis=1)
    reach = np.where(is_skewed, _MAX_SKEWED_OFFSET, _MAX_OFFSET)
    baselines = quads[:, 3] + up * (1.0 - _ASCENT)
    centers = baselines + along / 2
    at_start, at_end = np.zeros(len(quads)), np.zeros(len(quads))
    for first in range(0, len(quads), _ROWS_AT_ONCE):
        left = slice(first, first + _ROWS_AT_ONCE)
        distances = ((centers[None] - centers[left, None]) * axes[left, None]).sum(axis=2)
        to_others = baselines[None] - baselines[left, None]
        offsets = np.abs(to_others[..., 0] * axes[left, None, 1] - to_others[..., 1] * axes[left, None, 0])
        tallest = np.maximum(heights[left, None], heights[None])
        both = widths[left, None] + widths[None]
        gaps = distances - both / 2
        is_beside = (distances > 0) & (axes[left] @ axes.T > 0)
        is_beside &= (offsets < _MAX_OFFSET * tallest) | (
            (offsets < reach[left, None] * tallest) & (gaps > -_MAX_SKEWED_OVERLAP * tallest)
        )
        are_letters = (lengths[left, None] == 1) & (lengths[None] == 1)
        wanted = np.where(are_letters, _MIN_LETTER_GAP, _MIN_GAP) * tallest
        missing = np.where(is_beside, wanted - gaps, 0.0).clip(0.0)
        shares = missing / np.maximum(both, np.finfo(np.float64).tiny)
        at_end[left] = shares.max(axis=1)
        at_start = np.maximum(at_start, shares.max(axis=0))
    quads[:, [0, 3]] += (np.minimum(at_start, _MAX_YIELD)[:, None] * along)[:, None]
    quads[:, [1, 2]] -= (np.minimum(at_end, _MAX_YIELD)[:, None] * along)[:, None]
    return quads


def _sides(along: NDArray[np.float64], up: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sides ``along`` and ``up`` of a quad. A side that is too short for writing text is lengthened."""
    if np.hypot(*along) < _MIN_SIDE:
        along = np.array([up[1], -up[0]]) if np.hypot(*up) >= _MIN_SIDE else np.array([1.0, 0.0])
        along = along * (_MIN_SIDE / np.hypot(*along))
    if np.hypot(*up) < _MIN_SIDE:
        up = np.array([-along[1], along[0]]) * (_MIN_SIDE / np.hypot(*along))
    return along, up


def _place_word(
    word: str, start: NDArray[np.float64], along: NDArray[np.float64], up: NDArray[np.float64]
) -> _PlacedText:
    splits = np.abs(along).min() > _MAX_DRIFT or np.hypot(*along) < _MIN_ADVANCE * len(word) * np.hypot(*up)
    whole = splits and len(word.encode("utf-16-be")) <= 2 * _MAX_UNITS
    glyphs = (word,) if whole else tuple(word)
    advance = along / len(glyphs)
    origin = start + up * (1.0 - _ASCENT)
    (a, b), (c, d), (e, f) = advance.tolist(), up.tolist(), origin.tolist()
    return _PlacedText(glyphs, (a, b, c, d, e, f))


def _visual_order(text: str) -> str:
    """Return the characters of a text as they appear from left to right, the order that PDF programs expect.

    Text with right-to-left letters is reversed, except for numbers and left-to-right words in it. For a single word,
    the result is the same as with the bidirectional algorithm (UAX #9).
    """
    if not any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in text):
        return text
    runs = groupby(text, key=lambda character: unicodedata.bidirectional(character) in _LEFT_TO_RIGHT)
    pieces = ["".join(run) if keeps_order else "".join(run)[::-1] for keeps_order, run in runs]
    return "".join(reversed(pieces))


_POINTS_PER_INCH = 72.0
# Maximum side of a page in points, which programs accept; and (height, width) in pixels for a page of unknown size.
_MAX_SIDE = 14_400.0
_BLANK_PAGE = (842, 595)
# Maximum side in pixels that libjpeg accepts. Larger images are stored without loss.
_MAX_JPEG_SIDE = 65_500


class _Sheet(NamedTuple):
    """A page that is to be written to the PDF, before the text layer is added.

    If the page is copied from a PDF file, ``origin`` is (file, number of the page in it). Otherwise, ``origin`` is
    ``None``, ``image_pdf`` is a PDF file that consists of this page, and ``scale`` is its number of points per pixel.
    ``size`` is (height, width) of the image to which the positions of words refer, in pixels.
    """

    page: Any
    origin: tuple[PdfDocument, int] | None
    size: tuple[int, int]
    image_pdf: bytes = b""
    scale: float = 1.0


class PDFExporter:
    """Export to searchable PDF: pages with an invisible layer of the recognised text.

    * A page of a PDF file is copied with its text, drawings, images and links. The result keeps the title, bookmarks
      and password of the file. Words that the page already has as text are not written again.
    * For a page of an image file, the compressed data of the file are copied unchanged if the PDF format supports them.
      This is the case for JPEG, for PNG that is neither interlaced nor transparent, and for TIFF that is stored in one
      strip and not transparent. Images from other TIFF, PNG, GIF and BMP files are compressed again, without loss.
    * All other pages, such as video frames and straightened pages, are stored as JPEG images, or without loss if
      ``lossless`` is true. A page that could not be read is blank, unless it comes from a PDF file.

    Words are placed where they were found, at any angle and in any script. The original files are read again during the
    export, so do not change or delete them until it has finished.

    Args:
        dpi: Resolution of images in pixels per inch, which determines the paper size of their pages. The default, 144,
            is the default resolution of rendered PDF pages. If a side of a page would be longer than 14,400 points, a
            higher value is used. Pages that are copied from PDF files keep their size. Pages of a redacted PDF file
            also keep their size.
        quality: Quality of JPEG images, from 1 to 100.
        lossless: Whether to store images without loss instead of as JPEG. The file is then several times as large.
        direction: Reading direction: 'auto' (detected from the text), 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
        keep_pages: Whether to copy pages and compressed images from the original files, as described above. If
            ``False``, each page is stored as an image of its pixels.

    Raises:
        InvalidArgumentError: if ``dpi`` is not positive, or ``quality`` is not a whole number from 1 to 100.

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
        self.dpi = real_number("dpi", dpi)
        if not 0 < self.dpi < float("inf"):
            raise InvalidArgumentError(f"dpi = {dpi!r} should be a positive number of pixels per inch.")
        self.quality = whole_number("quality", quality, at_least=1, at_most=100)
        self.lossless = lossless
        self.direction = direction
        self.keep_pages = keep_pages

    def export(self, source: Any) -> bytes:
        """Export a page or a document.

        Args:
            source: A `Page`, `KIEPage`, `Document` or `KIEDocument`. Its pages must have their images.

        Returns:
            The contents of the PDF file, as ``bytes``.

        Raises:
            InvalidArgumentError: if a page has no image, for example because it was restored by ``from_dict`` without
                one.
            SourceNotFoundError: if the file that a page comes from no longer exists.
            PageError: if the file that a page comes from has changed, or a page cannot be read.
            MissingDependencyError: if pypdfium2 is not installed.
            EncodeError: if PDFium fails to add the text layer.
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
                numbers = [number for file, number in filter(None, origins) if file is base]
                with pdfium_lock:
                    _check_number(document, base, max(numbers))
                    for number in sorted(set(range(len(document))) - set(numbers), reverse=True):
                        del document[number]
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
        """Prepare a page that is not copied from a PDF file. PDFium is not used, so no lock is needed."""
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
        dpi = origin.dpi if isinstance(origin, StoredImage) and origin.dpi is not None else self.dpi
        scale = min(_POINTS_PER_INCH / dpi, _MAX_SIDE / max(height, width))
        return _Sheet(page, None, (height, width), picture_pdf(picture, width * scale, height * scale), scale)

    def _add_texts(self, document: Any, index: int, sheet: _Sheet, letters: _OwnLetters) -> None:
        rows = [
            row
            for region in page_regions(sheet.page, self.direction, size=sheet.size)
            for row in region.rows
            if any(token.text.strip() for token in row.tokens)
        ]
        if not rows:
            return  # without calling PDFium, which may take forever to read the page
        with pdfium_lock, opened_page(document, index) as page:
            if sheet.origin is None:
                matrix = np.array([[sheet.scale, 0], [0, -sheet.scale], [0, sheet.size[0] * sheet.scale]])
                texts = _place_words(rows, matrix)
            else:
                texts = _place_words(rows, _pixels_to_points(page, sheet), letters.of_page(*sheet.origin))
            for group in _font_groups(texts):
                _insert_texts(document, page, group)
            page.gen_content()


def _base_file(origins: Sequence[tuple[PdfDocument, int] | None]) -> PdfDocument | None:
    """Return the PDF file on which the result is based, or ``None`` to start with an empty file.

    This is the file of the first page that comes from a PDF file. If the pages from this file are not in ascending
    order, return ``None``. The exporter copies the file, adds all other pages, and removes pages that are not needed.
    """
    first = next((origin[0] for origin in origins if origin is not None), None)
    numbers = [number for document, number in filter(None, origins) if document is first]
    return first if all(before < after for before, after in pairwise(numbers)) else None


def _check_number(document: Any, source: PdfDocument, number: int) -> None:
    if number >= len(document):
        raise PageError(
            f"Page {number} (counted from 0) of {source.name} cannot be written: the file has changed, and has "
            f"{len(document)} pages now."
        )


def _pixels_to_points(page: Any, sheet: _Sheet) -> NDArray[np.float64]:
    """Return the matrix (3, 2) that maps pixels of the image of a page to points in the coordinates of the PDF page."""
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
    """Finds the letters that a PDF page already has as text, including form fields and annotations.

    Files are opened again for this, because a file may have changed since its `PdfDocument` was opened.
    """

    def __init__(self) -> None:
        self._files: dict[PdfDocument, tuple[OpenPdf, OpenPdf]] = {}

    def of_page(self, source: PdfDocument, number: int) -> NDArray[np.float64]:
        """Return the centres (N, 2), in points, of the letters of a page. The caller must hold `pdfium_lock`."""
        if source not in self._files:
            self._files[source] = copy.copy(source.file), copy.copy(source.copy)
        file, second = self._files[source]
        with file() as pdf:
            text = characters(pdf, number, source.options, second)
        codes, boxes = np.asarray(text.codes), np.asarray(text.boxes).reshape(-1, 4)
        # Leave out spaces, codes that are not characters, and the private use area.
        has_meaning = (codes > 0x20) & (codes < 0xFFF0) & ~((codes >= 0xE000) & (codes < 0xF900)) & (codes != 0xA0)
        middles = np.stack([boxes[:, :2].mean(axis=1), boxes[:, 2:].mean(axis=1)], axis=1)
        known: NDArray[np.float64] = middles[has_meaning & np.isfinite(middles).all(axis=1)]
        return known


def _font_groups(texts: Sequence[_PlacedText]) -> list[list[_PlacedText]]:
    """Divide the texts into groups that each need at most `_MAX_CODES` character codes, the limit of a font."""
    groups: list[list[_PlacedText]] = []
    known: set[str] = set()
    for text in texts:
        if not groups or len(known) + len(text.glyphs) > _MAX_CODES:
            groups.append([])
            known = set()
        known.update(text.glyphs)
        groups[-1].append(text)
    return groups


def _insert_texts(document: Any, page: Any, texts: Sequence[_PlacedText]) -> None:
    """Add invisible texts to a page in a new font. They must be one group of `_font_groups`."""
    raw = import_pdfium().raw
    codes: dict[str, int] = {}
    for text in texts:
        for glyph in text.glyphs:
            codes.setdefault(glyph, len(codes) + _FIRST_FREE)
    unicode_map = _unicode_map(codes)
    # For code 0 the missing glyph, for code 1 the space, and for all other codes the box.
    glyph_map = struct.pack(f">{_FIRST_FREE + len(codes)}H", 0, 2, *[1] * len(codes))
    # PDFium merges fonts of the same name on a page, and the page may already have invisible fonts from an earlier
    # export.
    file = _font_file(f"Invisible{zlib.crc32(unicode_map):08x}")
    font = raw.FPDFText_LoadCidType2Font(
        document.raw, _bytes(file), len(file), unicode_map, _bytes(glyph_map), len(glyph_map)
    )
    if not font:
        raise EncodeError("PDFium refused the font of the invisible text.")
    try:
        for text in texts:
            numbers = [*(codes[glyph] for glyph in text.glyphs), _SPACE_CODE]
            item = raw.FPDFPageObj_CreateTextObj(document.raw, font, ctypes.c_float(1.0))
            is_accepted = (
                item
                and raw.FPDFText_SetCharcodes(item, (ctypes.c_uint32 * len(numbers))(*numbers), len(numbers))
                and raw.FPDFTextObj_SetTextRenderMode(item, raw.FPDF_TEXTRENDERMODE_INVISIBLE)
                and raw.FPDFPageObj_SetMatrix(item, raw.FS_MATRIX(*text.matrix))
            )
            if not is_accepted:
                raise EncodeError(f"PDFium refused the text {''.join(text.glyphs)!r}.")
            raw.FPDFPage_InsertObject(page.raw, item)
    finally:
        raw.FPDFFont_Close(font)


def _bytes(data: bytes) -> Any:
    return (ctypes.c_ubyte * len(data)).from_buffer_copy(data)
