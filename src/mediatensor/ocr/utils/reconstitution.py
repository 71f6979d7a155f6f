"""A page drawn anew from what was read: text where it was found, on a blank sheet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ...errors import InvalidArgumentError
from ._lettering import Lettering, place
from ._pictures import Color, confidence_color, pixel_quad

__all__ = ["synthesize_kie_page", "synthesize_page"]

# A page of this many pixels is 600 MB.
_MAX_PIXELS = 200_000_000

_Exported = Mapping[str, Any]


def synthesize_page(
    page: _Exported,
    draw_proba: bool = False,
    font_family: str | None = None,
    min_font_size: int = 8,
    max_font_size: int = 50,
    background_color: Color = (255, 255, 255),
    text_color: Color = (0, 0, 0),
    draw_placeholders: bool = False,
) -> NDArray[np.uint8]:
    """Draw what was read on a page on a blank sheet of its size.

    The words of a line have one size; each is fitted into its box, at any angle.

    Args:
        page: An exported `Page`, also one that went through JSON.
        draw_proba: Color each word by its confidence: blue for 1, over orange, to red for 0.5 and less.
        font_family: Path of a font file or name of an installed font; ``None`` takes Pillow's own, and an installed
            one for letters that it lacks.
        min_font_size: Least size of text, in pixels per em.
        max_font_size: Largest size of text.
        background_color: RGB of the sheet.
        text_color: RGB of the text.
        draw_placeholders: Outline the cells of tables, and regions of the layout, faintly.

    Returns:
        Array (H, W, 3) uint8.

    Raises:
        InvalidArgumentError: if the page has no usable dimensions or geometries, or the font or its sizes are unusable.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> from mediatensor.ocr.utils import synthesize_page
        >>> synthesize_page(page.export()).shape
        (80, 120, 3)
    """
    lines = [line["words"] for block in page.get("blocks") or () for line in block["lines"]]
    cells = [[cell] for table in page.get("tables") or () for cell in table.get("cells") or ()]
    return _draw(
        page,
        [*lines, *cells],
        draw_proba=draw_proba,
        font=(font_family, min_font_size, max_font_size),
        background=background_color,
        color=text_color,
        outlines=_placeholders(page) if draw_placeholders else (),
    )


def synthesize_kie_page(
    page: _Exported,
    draw_proba: bool = False,
    font_family: str | None = None,
    min_font_size: int = 8,
    max_font_size: int = 50,
    background_color: Color = (255, 255, 255),
    text_color: Color = (0, 0, 0),
    draw_placeholders: bool = False,
) -> NDArray[np.uint8]:
    """Draw the predictions of all classes of a page on a blank sheet of its size.

    Args:
        page: An exported `KIEPage`, also one that went through JSON.
        draw_proba: Color each prediction by its confidence: blue for 1, over orange, to red for 0.5 and less.
        font_family: Path of a font file or name of an installed font; ``None`` takes Pillow's own, and an installed
            one for letters that it lacks.
        min_font_size: Least size of text, in pixels per em.
        max_font_size: Largest size of text.
        background_color: RGB of the sheet.
        text_color: RGB of the text.
        draw_placeholders: Outline regions of the layout, faintly.

    Returns:
        Array (H, W, 3) uint8.

    Raises:
        InvalidArgumentError: if the page has no usable dimensions or geometries, or the font or its sizes are unusable.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import KIEPage, Prediction
        >>> found = Prediction("12.50", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = KIEPage(np.full((80, 120, 3), 255, np.uint8), {"total": [found]}, 0, (80, 120))
        >>> from mediatensor.ocr.utils import synthesize_kie_page
        >>> synthesize_kie_page(page.export()).shape
        (80, 120, 3)
    """
    predictions = [[entry] for entries in (page.get("predictions") or {}).values() for entry in entries or ()]
    return _draw(
        page,
        predictions,
        draw_proba=draw_proba,
        font=(font_family, min_font_size, max_font_size),
        background=background_color,
        color=text_color,
        outlines=_placeholders(page) if draw_placeholders else (),
    )


def _placeholders(page: _Exported) -> list[Any]:
    """Geometries of what is on the page beside text."""
    tables = page.get("tables") or ()
    regions = [*tables, *(cell for table in tables for cell in table.get("cells") or ()), *(page.get("layout") or ())]
    return [region["geometry"] for region in regions]


def _draw(
    page: _Exported,
    lines: Iterable[Iterable[_Exported]],
    *,
    draw_proba: bool,
    font: tuple[str | None, int, int],
    background: Color,
    color: Color,
    outlines: Iterable[Any],
) -> NDArray[np.uint8]:
    height, width = size = _page_size(page)
    canvas = Image.new("RGB", (width, height), color=tuple(background))
    lettering = Lettering(canvas, *font)
    red, green, blue = ((2 * back + fore) // 3 for back, fore in zip(background, color, strict=True))
    draw = ImageDraw.Draw(canvas)
    for geometry in outlines:
        draw.polygon([(x, y) for x, y in pixel_quad(geometry, size).tolist()], outline=(red, green, blue), width=2)
    for line in lines:
        lettering.write_line(
            [place(word, size, confidence_color(word["confidence"]) if draw_proba else color) for word in line]
        )
    return np.array(canvas, dtype=np.uint8)


def _page_size(page: _Exported) -> tuple[int, int]:
    dimensions = page.get("dimensions")
    try:
        height, width = (round(float(side)) for side in dimensions or ())
    except (TypeError, ValueError, OverflowError):
        height = width = 0
    if height < 1 or width < 1 or height * width > _MAX_PIXELS:
        raise InvalidArgumentError(
            f"the page's dimensions must be (height, width) of 1 to {_MAX_PIXELS} pixels together, got {dimensions!r}"
        )
    return height, width
