"""A page drawn anew from what was read: text where it was found, on a blank sheet."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ...errors import InvalidArgumentError
from ._drawing import Color, Lettering, confidence_color, pixel_quad, place

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

    The words of a line have one size; each is fitted into its box, at any angle. A word without text is not drawn, and
    one without a usable geometry is left out, with a warning.

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
        InvalidArgumentError: if the page has no usable dimensions, or the sizes of the font are unusable.
        SourceNotFoundError: if there is no such font.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> from mediatensor.ocr.utils import synthesize_page
        >>> synthesize_page(page.export()).shape
        (80, 120, 3)
    """
    lines = [_entries(line, "words") for block in _entries(page, "blocks") for line in _entries(block, "lines")]
    cells = [[cell] for table in _entries(page, "tables") for cell in _entries(table, "cells")]
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

    A prediction without text is not drawn, and one without a usable geometry is left out, with a warning.

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
        InvalidArgumentError: if the page has no usable dimensions, or the sizes of the font are unusable.
        SourceNotFoundError: if there is no such font.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import KIEPage, Prediction
        >>> found = Prediction("12.50", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = KIEPage(np.full((80, 120, 3), 255, np.uint8), {"total": [found]}, 0, (80, 120))
        >>> from mediatensor.ocr.utils import synthesize_kie_page
        >>> synthesize_kie_page(page.export()).shape
        (80, 120, 3)
    """
    classes = page.get("predictions") or {}
    predictions = [[prediction] for name in classes for prediction in _entries(classes, name)]
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
    tables = _entries(page, "tables")
    cells = [cell for table in tables for cell in _entries(table, "cells")]
    return [region.get("geometry") for region in (*tables, *cells, *_entries(page, "layout"))]


def _entries(owner: _Exported, name: str) -> list[_Exported]:
    """What an export lists under a name; entries that are no dicts are left out."""
    return [entry for entry in owner.get(name) or () if isinstance(entry, Mapping)]


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
    left_out = 0
    for geometry in outlines:
        try:
            quad = pixel_quad(geometry, size)
        except InvalidArgumentError:
            left_out += 1
        else:
            draw.polygon([(x, y) for x, y in quad.tolist()], outline=(red, green, blue), width=2)
    for line in lines:
        placed = []
        for word in line:
            try:
                placed.append(place(word, size, confidence_color(word.get("confidence")) if draw_proba else color))
            except InvalidArgumentError:
                left_out += 1
        lettering.write_line(placed)
    if left_out:
        warnings.warn(f"Left out {left_out} entries of the page: their geometry is unusable.", stacklevel=3)
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
