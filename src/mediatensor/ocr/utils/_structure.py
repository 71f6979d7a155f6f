"""Drawing the structure of a page over it: regions with their numbers in reading order, cells of tables, fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ._drawing import Color, pixel_quad

__all__ = ["draw_structure"]

# One colour for what belongs together: headings, text, floats, furniture. All are dark enough for white letters.
_COLORS: dict[str, Color] = {
    "title": (170, 20, 90),
    "section_header": (200, 60, 120),
    "text": (40, 90, 170),
    "list_item": (20, 130, 150),
    "table": (20, 120, 60),
    "picture": (170, 95, 0),
    "formula": (110, 60, 170),
    "caption": (150, 110, 20),
    "footnote": (100, 100, 110),
    "page_header": (100, 100, 110),
    "page_footer": (100, 100, 110),
}
_UNNAMED = ("Text", "List-item")
_OTHER: Color = (60, 60, 60)
_FIELD: Color = (200, 60, 0)
_ORDER = (90, 90, 90, 150)
_HEAD = 40  # opacity of the head of a table, of 255


def draw_structure(picture: Image.Image, page: Mapping[str, Any], line_width: int) -> Image.Image:
    """Draw regions, cells and fields on a page.

    Args:
        picture: The page, RGB.
        page: The exported page.
        line_width: Of outlines, in pixels.

    Returns:
        A new picture of the same size: the picture itself, where the page has no structure.
    """
    regions, tables = page.get("layout") or (), page.get("tables") or ()
    fields = page.get("fields") or ()
    if not (regions or tables or fields):
        return picture
    size = picture.height, picture.width
    tint = Image.new("RGBA", picture.size)
    draw = ImageDraw.Draw(tint)
    for table in tables:
        for cell in table["cells"]:
            corners = _corners(pixel_quad(cell["geometry"], size))
            fill = (*_COLORS["table"], _HEAD) if cell.get("is_header") else None
            draw.polygon(corners, fill=fill, outline=(*_COLORS["table"], 200), width=line_width)
    for field in fields:
        value = pixel_quad(field["geometry"], size)
        draw.polygon(_corners(value), outline=(*_FIELD, 255), width=line_width)
        if field.get("key_geometry") is not None:
            _arrow(draw, pixel_quad(field["key_geometry"], size), value, (*_FIELD, 255), line_width)
    quads = [pixel_quad(region["geometry"], size) for region in regions]
    for one, other in pairwise(quads):
        _arrow(draw, one, other, _ORDER, line_width)
    for region, quad in zip(regions, quads, strict=True):
        draw.polygon(_corners(quad), outline=(*_color(region["type"]), 255), width=2 * line_width)
    _number(draw, regions, quads, size)
    canvas = picture.copy()
    canvas.paste(tint, mask=tint)
    return canvas


def _color(kind: str) -> Color:
    return _COLORS.get("".join(letter if letter.isalnum() else "_" for letter in kind.strip().lower()), _OTHER)


def _corners(quad: NDArray[np.float64]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in quad.tolist()]


def _arrow(
    draw: ImageDraw.ImageDraw,
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    color: tuple[int, int, int, int],
    line_width: int,
) -> None:
    """An arrow from the middle of a quad to that of another, with its head at the end."""
    tail, head = start.mean(axis=0), end.mean(axis=0)
    length = float(np.linalg.norm(head - tail))
    if length < 1:
        return
    along = (head - tail) / length
    wing = 4.0 * line_width
    across = np.array([-along[1], along[0]])
    draw.line([*tail.tolist(), *(head - along * wing).tolist()], fill=color, width=line_width)
    sides = (head, head - along * 2 * wing + across * wing, head - along * 2 * wing - across * wing)
    draw.polygon([(float(x), float(y)) for x, y in sides], fill=color)


def _number(
    draw: ImageDraw.ImageDraw,
    regions: Sequence[Mapping[str, Any]],
    quads: Sequence[NDArray[np.float64]],
    size: tuple[int, int],
) -> None:
    """Write the number and the kind of each region beside its upper left corner, or above it at the edge of the page.

    Text and list items, of which there are many, have their colours and numbers only.
    """
    font = ImageFont.load_default(max(13.0, max(size) / 90))
    for number, (region, quad) in enumerate(zip(regions, quads, strict=True), 1):
        kind = "" if region["type"] in _UNNAMED else f" {region['type']}"
        level = f" {region['level']}" if region.get("level") else ""
        text = f"{number}{kind}{level}"
        _, _, right, bottom = font.getbbox(text)
        width, height = right + 4.0, bottom + 3.0
        left, top = quad.min(axis=0).tolist()
        x, y = (left - width, top) if left >= width else (0.0 if left < 0 else left, max(top - height, 0.0))
        draw.rectangle((x, y, x + width, y + height), fill=(*_color(region["type"]), 230))
        draw.text((x + 2, y + 1), text, fill=(255, 255, 255, 255), font=font)
