"""PDF files as documents: pages rendered when they are asked for, and the words that the file has for them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._threads import working
from ...errors import DecodeError
from ._page_source import PageSource, failing_as_page, keep
from ._pdf_text import PageCharacters, words_of
from ._pdfium import OpenPdf, import_pdfium
from ._raster import blend_over_white, check_pixels

if TYPE_CHECKING:
    from .elements import Word

__all__ = ["MAX_PAGE_CHARACTERS", "MAX_PAGE_OBJECTS", "PdfDocument", "PdfOptions"]

#: Most objects (paths, pictures, pieces of text) on a page that is rendered.
MAX_PAGE_OBJECTS = 2_000_000

#: Most characters of the text layer of a page.
MAX_PAGE_CHARACTERS = 1_000_000

# Steps of device coordinates, which PDFium rounds, across a page.
_STEPS = 1 << 20


class PdfOptions(NamedTuple):
    """How pages are rendered.

    Attributes:
        scale: Pixels for each 1/72 inch.
        rgb_mode: Whether red comes first; else blue.
        max_pixels: Most pixels of a page; ``None`` for no limit.
        render: Further arguments of pypdfium2's ``PdfPage.render``.
    """

    scale: float
    rgb_mode: bool
    max_pixels: int | None
    render: Mapping[str, Any]


class PdfDocument(PageSource):
    """One PDF file.

    Of a path only the path is kept, of anything else the bytes.

    Args:
        source: Whatever `make_source` takes.
        password: To open it with.
        options: How pages are rendered.

    Raises:
        SourceTypeError, SourceNotFoundError, ReadError: if the source cannot be read.
        OpenError: if it is no PDF file, is damaged, has no pages, or the password is missing or wrong.
        MissingDependencyError: if pypdfium2 is not installed.
    """

    def __init__(self, source: object, password: str | None, options: PdfOptions) -> None:
        import_pdfium()
        path, data, self.name = keep(source)
        self._options = options
        self._open = OpenPdf(data if path is None else path, self.name, password)
        with self._open() as pdf:
            self.num_pages = len(pdf)

    def read(self, number: int) -> NDArray[np.uint8]:
        options = self._options
        with failing_as_page(number, self.name), working(), self._open() as pdf:
            width, height = _rendered_size(pdf, number, options)
            check_pixels(width, height, options.max_pixels)
            with closing(pdf[number]) as page:
                _check_objects(page)
                bitmap = page.render(scale=options.scale, rev_byteorder=options.rgb_mode, **options.render)
                with closing(bitmap):
                    return _three_channels(bitmap.to_numpy(), has_alpha=bitmap.mode.endswith("A"))

    def text_layer(self, number: int) -> list[Word]:
        with failing_as_page(number, self.name), working():
            with self._open() as pdf, closing(pdf[number]) as page:
                _check_objects(page)
                with closing(page.get_textpage()) as text:
                    characters = _characters(text, page, self._options)
            return words_of(characters)


def _rendered_size(pdf: Any, number: int, options: PdfOptions) -> tuple[int, int]:
    """(width, height) in pixels, before anything is cut off."""
    width, height = (side * options.scale for side in pdf.get_page_size(number))
    if not (math.isfinite(width) and math.isfinite(height)):
        raise DecodeError(f"its size is {width}x{height}")
    return math.ceil(width), math.ceil(height)


def _check_objects(page: Any) -> None:
    num_objects = import_pdfium().raw.FPDFPage_CountObjects(page)
    if num_objects > MAX_PAGE_OBJECTS:
        raise DecodeError(f"it has {num_objects} objects, more than the {MAX_PAGE_OBJECTS} that are drawn")


def _three_channels(pixels: NDArray[np.uint8], *, has_alpha: bool) -> NDArray[np.uint8]:
    if pixels.ndim == 2:
        return np.repeat(pixels[..., None], 3, axis=2)
    if has_alpha:
        return np.stack(blend_over_white([pixels[..., channel] for channel in range(4)]), axis=-1)
    return np.ascontiguousarray(pixels[..., :3])


# The text layer


def _characters(text: Any, page: Any, options: PdfOptions) -> PageCharacters:
    raw = import_pdfium().raw
    num_characters = text.count_chars()
    if num_characters > MAX_PAGE_CHARACTERS:
        raise DecodeError(f"it has {num_characters} characters, more than the {MAX_PAGE_CHARACTERS} that are read")
    codes = np.empty(num_characters, np.uint32)
    boxes = np.empty((num_characters, 4), np.float64)
    left, right, bottom, top = sides = [ctypes.c_double() for _ in range(4)]
    for number in range(num_characters):
        codes[number] = raw.FPDFText_GetUnicode(text, number)
        is_known = raw.FPDFText_GetCharBox(text, number, left, right, bottom, top)
        boxes[number] = [side.value for side in sides] if is_known else math.nan
    corners = boxes[:, [[0, 2], [1, 2], [1, 3], [0, 3]]]
    matrix = _relative_matrix(page, options)
    placed = corners @ matrix[:2] + matrix[2]
    return PageCharacters(codes, np.concatenate([placed.min(axis=1), placed.max(axis=1)], axis=1))


def _relative_matrix(page: Any, options: PdfOptions) -> NDArray[np.float64]:
    """(3, 2): from points of the page, as the file counts them, to where they lie in the picture, in [0, 1]."""
    raw = import_pdfium().raw
    rotation = options.render.get("rotation", 0)
    cut = np.ceil(np.array(options.render.get("crop", (0, 0, 0, 0)), float) * options.scale)
    size = np.ceil(np.array(page.get_size()) * options.scale)
    if rotation % 180:
        size = size[::-1]
    column, row = ctypes.c_int(), ctypes.c_int()

    def place(x: float, y: float) -> NDArray[np.float64]:
        raw.FPDF_PageToDevice(page, 0, 0, _STEPS, _STEPS, rotation // 90, x, y, column, row)
        return np.array([column.value, row.value]) / _STEPS

    # Far apart, so that rounding does not matter; not farther than a page, so that nothing overflows.
    unit = max(1.0, min(page.get_size()))
    origin = place(0, 0)
    matrix = np.stack([(place(unit, 0) - origin) / unit, (place(0, unit) - origin) / unit, origin])
    matrix[2] -= cut[[0, 3]] / size
    scaled: NDArray[np.float64] = matrix * (size / (size - cut[[0, 1]] - cut[[2, 3]]))
    return scaled
