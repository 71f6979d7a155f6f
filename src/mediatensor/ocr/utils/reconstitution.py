"""Draw the text of a page on a blank page of the same size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ..._engine.common.checks import checked
from ..._engine.common.messages import warn_user
from ...errors import InvalidArgumentError
from ._drawing import Color, Lettering, confidence_color, corners, exported_page, pixel_quad, place

__all__ = ["synthesize_kie_page", "synthesize_page"]

# Maximum number of pixels of a page; the page then takes 600 MB.
_MAX_PIXELS = 200_000_000

_Exported = Mapping[str, Any]


@checked(page=exported_page)
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
    """Draw the text of a page on a blank page of the same size.

    The words of a line get a common font size. A word whose box is too low for this size gets a smaller one. Each word
    is drawn in its box, even if the box is rotated. Words without text are not drawn. Words whose geometry is invalid
    are left out, with a warning.

    Args:
        page: The result of `Page.export`, a dict. It can have been saved as JSON and loaded again.
        draw_proba: Whether to color words by confidence: from blue for 1, through orange, to red for 0.5 and less.
        font_family: The path of a font file, or the name of an installed font. ``None`` uses Pillow's font, and an
            installed font for letters that Pillow's font does not have.
        min_font_size: The minimum font size, in pixels per em.
        max_font_size: The maximum font size, in pixels per em.
        background_color: RGB of the page, from 0 to 255.
        text_color: RGB of the text, from 0 to 255.
        draw_placeholders: Whether to outline tables, table cells and layout regions faintly.

    Returns:
        Array (H, W, 3) uint8.

    Raises:
        InvalidArgumentError: if the dimensions of the page are missing or invalid, or the font sizes are invalid.
        SourceNotFoundError: if the font does not exist.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> from mediatensor.ocr.utils import synthesize_page
        >>> synthesize_page(page.export()).shape
        (80, 120, 3)
    """
    lines = [_items(line, "words") for block in _items(page, "blocks") for line in _items(block, "lines")]
    cells = [
        [word]
        for table in _items(page, "tables")
        for cell in _items(table, "cells")
        for word in (_items(cell, "words") or [cell])
    ]
    font = font_family, min_font_size, max_font_size
    return _draw(page, [*lines, *cells], draw_proba, font, background_color, text_color, draw_placeholders)


@checked(page=exported_page)
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
    """Draw the text of all predictions of a page on a blank page of the same size.

    Predictions of all classes are drawn. Predictions without text are skipped. Predictions whose geometry is invalid
    are left out, with a warning.

    Args:
        page: The result of `KIEPage.export`, a dict. It can have been saved as JSON and loaded again.
        draw_proba, font_family, min_font_size, max_font_size, background_color, text_color: Colours, font and font
            sizes of the text, as for `synthesize_page`.
        draw_placeholders: Whether to outline layout regions faintly.

    Returns:
        Array (H, W, 3) uint8.

    Raises:
        InvalidArgumentError, SourceNotFoundError: See `synthesize_page`.

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
    predictions = [[prediction] for name in classes for prediction in _items(classes, name)]
    font = font_family, min_font_size, max_font_size
    return _draw(page, predictions, draw_proba, font, background_color, text_color, draw_placeholders)


def _items(owner: _Exported, name: str) -> list[_Exported]:
    """Return the list ``owner[name]`` of an exported object, without items that are not dictionaries."""
    return [item for item in owner.get(name) or () if isinstance(item, Mapping)]


def _draw(
    page: _Exported,
    lines: Iterable[Iterable[_Exported]],
    draw_proba: bool,
    font: tuple[str | None, int, int],
    background: Color,
    color: Color,
    draw_placeholders: bool,
) -> NDArray[np.uint8]:
    height, width = size = _page_size(page)
    canvas = Image.new("RGB", (width, height), color=tuple(background))
    lettering = Lettering(canvas, *font)
    red, green, blue = ((2 * back + fore) // 3 for back, fore in zip(background, color, strict=True))
    draw = ImageDraw.Draw(canvas)
    left_out = 0
    tables = _items(page, "tables") if draw_placeholders else []
    cells = [cell for table in tables for cell in _items(table, "cells")]
    for region in (*tables, *cells, *_items(page, "layout")) if draw_placeholders else ():
        try:
            draw.polygon(corners(pixel_quad(region.get("geometry"), size)), outline=(red, green, blue), width=2)
        except InvalidArgumentError:
            left_out += 1
    for line in lines:
        placed = []
        for word in line:
            try:
                placed.append(place(word, size, confidence_color(word.get("confidence")) if draw_proba else color))
            except InvalidArgumentError:
                left_out += 1
        lettering.write_line(placed)
    if left_out:
        warn_user(f"Left out {left_out} entries of the page: their geometry is unusable.")
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
