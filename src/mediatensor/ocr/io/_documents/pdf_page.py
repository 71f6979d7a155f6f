"""What PDFium makes of a page, as plain data: pixels, characters and where they are.

A process that renders for another one runs this and little else, so that it imports neither torch nor numpy: it starts
in a fifth of a second.
"""

from __future__ import annotations

import ctypes
import math
from array import array
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from ...._common.limits import check_pixels
from ....errors import DecodeError
from .pdfium import import_pdfium

__all__ = ["MAX_PAGE_CHARACTERS", "MAX_PAGE_OBJECTS", "Characters", "PdfOptions", "Pixels", "characters", "rendered"]

#: Most objects (paths, pictures, pieces of text) on a page that is rendered.
MAX_PAGE_OBJECTS = 2_000_000

#: Most characters of the text layer of a page.
MAX_PAGE_CHARACTERS = 1_000_000

# Ink that is thinner, for its length, is none: PDFium has lines for glyphs without outlines.
_MIN_INK = 0.01

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


class Pixels(NamedTuple):
    """A page that was rendered.

    Attributes:
        width, height: In pixels.
        num_channels: Of a pixel.
        row_bytes: From one row to the next.
        has_alpha: Whether the last channel is alpha; else one of four is nothing.
        data: uint8, row by row.
    """

    width: int
    height: int
    num_channels: int
    row_bytes: int
    has_alpha: bool
    data: Any


class Characters(NamedTuple):
    """The text layer of a page.

    Attributes:
        codes: uint32 (N,): of Unicode or halves of surrogate pairs.
        boxes: float64 (N, 4): left, right, bottom, top in points of the page, as the file counts them; NaN where a
            character has none.
        matrix: float64 (3, 2): what (x, y, 1) in points is multiplied with for places in the picture, in [0, 1].
    """

    codes: array[int]
    boxes: array[float]
    matrix: array[float]


def rendered(pdf: Any, number: int, options: PdfOptions, new_bitmap: Callable[..., Any] | None = None) -> Pixels:
    """Render a page.

    Args:
        pdf: Of pypdfium2.
        number: Of the page.
        options: How to render it.
        new_bitmap: What to draw it on, as ``PdfPage.render`` takes it; one of the options goes before.

    Raises:
        DecodeError, OpenError: if it is too large, or has too much on it.
        Exception: whatever pypdfium2 raises.
    """
    width, height = (side * options.scale for side in pdf.get_page_size(number))
    if not (math.isfinite(width) and math.isfinite(height)):
        raise DecodeError(f"its size is {width}x{height}")
    check_pixels(math.ceil(width), math.ceil(height), options.max_pixels)
    with closing(pdf[number]) as page:
        _check_objects(page)
        arguments = dict(options.render)
        if new_bitmap is not None:
            arguments.setdefault("bitmap_maker", new_bitmap)
        bitmap = page.render(scale=options.scale, rev_byteorder=options.rgb_mode, **arguments)
        with closing(bitmap):
            # Another maker's memory may be gone with its bitmap.
            data = bytearray(bitmap.buffer) if "bitmap_maker" in options.render else bitmap.buffer
            return Pixels(
                bitmap.width,
                bitmap.height,
                bitmap.n_channels,
                bitmap.stride,
                bitmap.mode.endswith("A"),
                data,
            )


def characters(pdf: Any, number: int, options: PdfOptions) -> Characters:
    """The text layer of a page.

    Raises:
        DecodeError: if there is too much on the page.
        Exception: whatever pypdfium2 raises.
    """
    raw = import_pdfium().raw
    with closing(pdf[number]) as page:
        _check_objects(page)
        with closing(page.get_textpage()) as text:
            count = text.count_chars()
            if count > MAX_PAGE_CHARACTERS:
                raise DecodeError(f"it has {count} characters, more than the {MAX_PAGE_CHARACTERS} that are read")
            codes, boxes = array("I"), array("d")
            left, right, bottom, top = sides = [ctypes.c_double() for _ in range(4)]
            loose = raw.FS_RECTF()
            for index in range(count):
                codes.append(raw.FPDFText_GetUnicode(text, index))
                is_known = raw.FPDFText_GetCharBox(text, index, left, right, bottom, top)
                box = [side.value for side in sides]
                sides_of_ink = sorted((box[1] - box[0], box[3] - box[2]))
                if not is_known or sides_of_ink[0] <= _MIN_INK * sides_of_ink[1]:
                    # Nothing of it is to be seen, as of the text of a scan: the place that the font has for it.
                    is_known = raw.FPDFText_GetLooseCharBox(text, index, loose)
                    box = [loose.left, loose.right, loose.bottom, loose.top]
                boxes.extend(box if is_known else [math.nan] * 4)
        return Characters(codes, boxes, relative_matrix(page, options))


def relative_matrix(page: Any, options: PdfOptions) -> array[float]:
    """(3, 2): from points of the page, as the file counts them, to where they lie in the picture, in [0, 1]."""
    raw = import_pdfium().raw
    rotation = options.render.get("rotation", 0)
    left, bottom, right, top = (math.ceil(side * options.scale) for side in options.render.get("crop", (0, 0, 0, 0)))
    width, height = (math.ceil(side * options.scale) for side in page.get_size())
    if rotation % 180:
        width, height = height, width
    column, row = ctypes.c_int(), ctypes.c_int()

    def place(x: float, y: float) -> tuple[float, float]:
        raw.FPDF_PageToDevice(page, 0, 0, _STEPS, _STEPS, rotation // 90, x, y, column, row)
        return (
            (column.value / _STEPS - left / width) * (width / (width - left - right)),
            (row.value / _STEPS - top / height) * (height / (height - top - bottom)),
        )

    # Far apart, so that rounding does not matter; not farther than a page, so that nothing overflows.
    unit = max(1.0, min(page.get_size()))
    (x0, y0), (x1, y1), (x2, y2) = place(0, 0), place(unit, 0), place(0, unit)
    return array("d", [(x1 - x0) / unit, (y1 - y0) / unit, (x2 - x0) / unit, (y2 - y0) / unit, x0, y0])


def _check_objects(page: Any) -> None:
    num_objects = import_pdfium().raw.FPDFPage_CountObjects(page)
    if num_objects > MAX_PAGE_OBJECTS:
        raise DecodeError(f"it has {num_objects} objects, more than the {MAX_PAGE_OBJECTS} that are drawn")
