"""Helpers for drawing recognised pages: geometries in pixels, colours, text that fits its box, and the page structure.

The page structure consists of regions with their numbers in reading order, table cells, and arrows from the keys of
fields to their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ..._engine.common.checks import shown
from ...errors import InvalidArgumentError, SourceNotFoundError
from .fonts import Font, get_font
from .geometry import boxes_to_polygons, reading_geometry

Color = tuple[int, int, int]

# Confidences from low to high. People with red-green blindness can distinguish the colours.
_CONFIDENCES = (0.0, 0.5, 0.8, 1.0)
_COLORS = ((255, 0, 0), (225, 40, 40), (235, 130, 0), (0, 70, 255))


def as_picture(image: NDArray[Any] | torch.Tensor) -> NDArray[np.uint8]:
    """Convert the image of a page to a uint8 array (H, W, 3) for drawing. It can share memory with ``image``.

    ``image`` must be an array (H, W), (H, W, 1) or (H, W, 3), or a tensor (3, H, W) or (H, W, 3) on any device. It must
    be uint8, or have floats in [0, 1].
    """
    if isinstance(image, torch.Tensor):
        pixels = image.detach().cpu()
        pixels = pixels.permute(1, 2, 0) if pixels.ndim == 3 and pixels.shape[0] in (1, 3) else pixels
        image = (pixels.float() if pixels.dtype == torch.bfloat16 else pixels).numpy()
    if not isinstance(image, np.ndarray):
        raise InvalidArgumentError(f"the image of a page must be an array or a tensor (got {shown(image)})")
    if image.ndim == 2:
        image = image[..., None]
    if image.ndim != 3 or image.shape[2] not in (1, 3) or 0 in image.shape:
        raise InvalidArgumentError(
            f"a page must be an array (H, W, 3) or a tensor (3, H, W), not empty, got shape {tuple(image.shape)}"
        )
    if np.issubdtype(image.dtype, np.floating):
        image = np.rint(np.nan_to_num(image).clip(0, 1) * 255).astype(np.uint8)
    if image.dtype != np.uint8:
        raise InvalidArgumentError(f"a page must be uint8, or floats in [0, 1], got {image.dtype}")
    return np.broadcast_to(image, (*image.shape[:2], 3))


def exported_page(name: str, value: Any) -> Mapping[str, Any]:
    """Return the result of `Page.export`. Raise for all values that are not a mapping."""
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"{name} must be a dict, the result of export() of a page (got {shown(value)}).")
    return value


def pixel_quad(geometry: Any, size: tuple[int, int]) -> NDArray[np.float64]:
    """Convert a relative geometry of two or four points to four corners in pixels, (4, 2), on a page of ``size``.

    ``size`` is (height, width). Points more than half a page outside of the page are moved to half a page outside.
    """
    try:
        points = np.array(geometry, dtype=np.float64)
    except (TypeError, ValueError):
        points = np.empty(0)
    if points.shape not in ((2, 2), (4, 2)) or not np.isfinite(points).all():
        raise InvalidArgumentError(
            f"invalid geometry format {geometry!r}: a geometry is two or four points of finite numbers"
        )
    if len(points) == 2:
        points = boxes_to_polygons(points.reshape(1, 4))[0]
    height, width = size
    pixels: NDArray[np.float64] = points.clip(-0.5, 1.5) * np.array([width, height])
    return pixels


def corners(quad: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Convert the corners (4, 2) to a list of tuples (x, y), the form in which Pillow expects polygons."""
    return [(x, y) for x, y in quad.tolist()]


def confidence_color(confidence: Any) -> Color:
    """Return a colour from blue (confidence 1) through orange to red (0.5 or less), or grey for an invalid value."""
    if not isinstance(confidence, float | int | np.floating) or not np.isfinite(confidence):
        return (128, 128, 128)
    red, green, blue = (round(np.interp(confidence, _CONFIDENCES, channel)) for channel in zip(*_COLORS, strict=True))
    return red, green, blue


# Fonts to try, in order, for text with letters that Pillow's font does not have.
_FONTS_WITH_MORE_LETTERS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "NotoSansCJK-Regular.ttc",
    "Arial Unicode.ttf",
    "arial.ttf",
)
# Longer texts are cut off, because so many letters would not be legible in a box on a page.
_MAX_CHARACTERS = 1000
# Fonts are measured at this size; measurements scale with the size.
_TRIAL_SIZE = 64
# Distance from the baseline to the middle of a line of text, in ems. It lies between the middles of "x" and "Hg".
_MIDDLE = 0.26
# Text in boxes with more than this ratio of height to width runs downward.
_TALL = 2.0
# Text is written upright in boxes whose ends differ in height by less than this, in pixels.
_UPRIGHT = 1.0


class Placed(NamedTuple):
    """A text to draw, its colour, and its box: corners (4, 2) in pixels, of which the first two run along the text."""

    text: str
    quad: NDArray[np.float64]
    color: Color

    @property
    def width(self) -> float:
        """The length of the box along the text, in pixels."""
        return float(np.hypot(*(self.quad[1] - self.quad[0])))

    @property
    def height(self) -> float:
        """The length of the box across the text, in pixels."""
        return float(np.hypot(*(self.quad[3] - self.quad[0])))


class Lettering:
    """Writes text into boxes on an image, in the font size that fits each box.

    By default, letters that Pillow's font lacks are written in an installed font. Text that is too wide even at the
    minimum size is compressed to the width of its box; text that is too high is cut off.
    """

    def __init__(self, canvas: Image.Image, font_family: str | None, min_font_size: int, max_font_size: int) -> None:
        if not 1 <= min_font_size <= max_font_size:
            raise InvalidArgumentError(
                "font sizes must satisfy 1 <= min_font_size <= max_font_size, "
                f"got min_font_size={min_font_size}, max_font_size={max_font_size}"
            )
        get_font(font_family, min_font_size)
        self._canvas = canvas
        self._family = font_family
        self._min_size = min_font_size
        self._max_size = max_font_size

    def write_line(self, words: Sequence[Placed]) -> None:
        """Write all words of a line in one font size. A word whose box is too low for this size gets a smaller one."""
        words = [word for word in words if word.text and word.width >= 1 and word.height >= 1]
        if not words:
            return
        fits = [self._fitting_sizes(word) for word in words]
        common = float(np.median([min(fit) for fit in fits]))
        sizes = [int(np.clip(min(common, fit[0]), self._min_size, self._max_size)) for fit in fits]
        fonts = [get_font(self._family_for(word.text), size) for word, size in zip(words, sizes, strict=True)]
        baselines = [_baseline(word, font, size) for word, font, size in zip(words, fonts, sizes, strict=True)]
        if all(word.quad[0, 1] == word.quad[1, 1] for word in words):
            # The boxes of an upright line vary a little in height, but its words share a baseline.
            level = float(np.median([word.quad[0, 1] + base for word, base in zip(words, baselines, strict=True)]))
            baselines = [level - word.quad[0, 1] for word in words]
        for word, font, baseline in zip(words, fonts, baselines, strict=True):
            self._write(word, font, baseline)

    def _family_for(self, text: str) -> str | None:
        return self._family if self._family is not None else _family_with_letters(text)

    def _fitting_sizes(self, word: Placed) -> tuple[float, float]:
        """Return the font size at which the word is as high as its box, and the size at which it is as wide."""
        left, top, right, bottom = _ink(get_font(self._family_for(word.text), _TRIAL_SIZE), word.text)
        return _TRIAL_SIZE * word.height / max(bottom - top, 1), _TRIAL_SIZE * word.width / max(right - left, 1)

    def _write(self, word: Placed, font: Font, baseline: float) -> None:
        left, top, right, bottom = _ink(font, word.text)
        height, width = max(round(word.height), 1), max(round(word.width), 1)
        # The ink always stays within the box.
        baseline = round(min(max(baseline, -top), height - bottom))
        ink = Image.new("L", (max(right - left, 1), height))
        ImageDraw.Draw(ink).text((-left, baseline), word.text, font=font, fill=255, anchor="ls")
        if ink.width > width:
            ink = ink.resize((width, height), Image.Resampling.BILINEAR)
        # Paste the upright ink into its box, at the angle of the box.
        along, down = (word.quad[1] - word.quad[0]) / width, (word.quad[3] - word.quad[0]) / height
        start = word.quad[0]
        if along[0] > 0 and abs(along[1]) * width < _UPRIGHT and down[1] > 0:
            self._canvas.paste(word.color, (round(start[0]), round(start[1])), ink)
            return
        low = np.floor(word.quad.min(axis=0)).astype(int)
        high = np.ceil(word.quad.max(axis=0)).astype(int)
        # Pillow needs the inverse matrix: from points of the canvas to points of the ink.
        try:
            back = np.linalg.inv(np.array([[along[0], down[0], start[0]], [along[1], down[1], start[1]], [0, 0, 1]]))
        except np.linalg.LinAlgError:
            return
        back[:2, 2] += back[:2, :2] @ low
        turned = ink.transform(
            (int(high[0] - low[0]), int(high[1] - low[1])),
            Image.Transform.AFFINE,
            tuple(back[:2].reshape(-1).tolist()),
            Image.Resampling.BILINEAR,
        )
        self._canvas.paste(word.color, (int(low[0]), int(low[1])), turned)


def place(word: Mapping[str, Any], size: tuple[int, int], color: Color) -> Placed:
    """Prepare a word, prediction or table cell of an exported page for drawing on a page of ``size`` (height, width).

    Line breaks in the text become spaces. See `pixel_quad` for the accepted geometries.
    """
    value: Any = word.get("value")
    geometry: Any = reading_geometry(word.get("geometry"), (word.get("crop_orientation") or {}).get("value"))
    text = "" if value is None else " ".join(str(value)[:_MAX_CHARACTERS].split())
    placed = Placed(text, pixel_quad(geometry, size), color)
    # A long word in a tall box is assumed to run downward if its rotation is unknown.
    if len(geometry) == 2 and len(text) > 2 and placed.height > _TALL * placed.width:
        return placed._replace(quad=np.roll(placed.quad, -1, axis=0))
    return placed


def _baseline(word: Placed, font: Font, size: int) -> float:
    """Return the distance from the top of the box to the baseline. Text is centred, but stays within its box."""
    _, top, _, bottom = _ink(font, word.text)
    return min(max(word.height / 2 + _MIDDLE * size, -top), word.height - bottom)


def _ink(font: Font, text: str) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of the rendered text in pixels, relative to the start of its baseline."""
    left, top, right, bottom = font.getbbox(text, anchor="ls")
    return int(np.floor(left)), int(np.floor(top)), int(np.ceil(right)), int(np.ceil(bottom))


def font_for(text: str, size: int) -> Font:
    """Return a font with all letters of ``text``: Pillow's or an installed one. If there is none, return Pillow's."""
    return get_font(_family_with_letters(text), size)


def _family_with_letters(text: str) -> str | None:
    """Return the first font family that has all letters of ``text``. None is Pillow's font, which is tried first."""
    letters = "".join(sorted(set(text)))
    if letters.isascii():
        return None
    for family in (None, *_FONTS_WITH_MORE_LETTERS):
        if all(_has_letter(family, letter) for letter in letters):
            return family
    return None


@lru_cache(maxsize=4096)
def _has_letter(family: str | None, letter: str) -> bool:
    try:
        font = get_font(family, _TRIAL_SIZE)
    except SourceNotFoundError:
        return False
    # A font draws the same glyph for all characters that it does not have. U+FFFF is not a character, so it shows this
    # glyph. For combining marks, fonts may draw the glyph on a dotted circle.
    lacking = (_render_letter(font, "\uffff"), _render_letter(font, "\u25cc\uffff"))
    return letter.isspace() or _render_letter(font, letter) not in lacking


def _render_letter(font: Font, letter: str) -> tuple[tuple[int, ...], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)


# Related kinds have similar colours: headings, text, floats, furniture. All are dark enough for white letters.
_KIND_COLORS: dict[str, Color] = {
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
_HEAD = 40  # opacity of the head of a table, from 0 to 255


def draw_structure(picture: Image.Image, page: Mapping[str, Any], line_width: int) -> Image.Image:
    """Draw the regions, table cells and fields of an exported page on a copy of ``picture``, if the page has any."""
    regions, tables = page.get("layout") or (), page.get("tables") or ()
    fields = page.get("fields") or ()
    if not (regions or tables or fields):
        return picture
    size = picture.height, picture.width
    tint = Image.new("RGBA", picture.size)
    draw = ImageDraw.Draw(tint)
    for table in tables:
        for cell in table["cells"]:
            fill = (*_KIND_COLORS["table"], _HEAD) if cell.get("is_header") else None
            outline = (*_KIND_COLORS["table"], 200)
            draw.polygon(corners(pixel_quad(cell["geometry"], size)), fill=fill, outline=outline, width=line_width)
    for field in fields:
        value = pixel_quad(field["geometry"], size)
        draw.polygon(corners(value), outline=(*_FIELD, 255), width=line_width)
        if field.get("key_geometry") is not None:
            _arrow(draw, pixel_quad(field["key_geometry"], size), value, (*_FIELD, 255), line_width)
    quads = [pixel_quad(region["geometry"], size) for region in regions]
    for one, other in pairwise(quads):
        _arrow(draw, one, other, _ORDER, line_width)
    for region, quad in zip(regions, quads, strict=True):
        draw.polygon(corners(quad), outline=(*_color(region["type"]), 255), width=2 * line_width)
    _number(draw, regions, quads, size)
    canvas = picture.copy()
    canvas.paste(tint, mask=tint)
    return canvas


def _color(kind: str) -> Color:
    return _KIND_COLORS.get("".join(letter if letter.isalnum() else "_" for letter in kind.strip().lower()), _OTHER)


def _arrow(
    draw: ImageDraw.ImageDraw,
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    color: tuple[int, int, int, int],
    line_width: int,
) -> None:
    """Draw an arrow from the centre of the box ``start`` to the centre of the box ``end``, both (4, 2) in pixels."""
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
    """Label each region with its number in reading order and, except for frequent kinds, its kind: "3 Table".

    The label is to the left of the region's upper left corner or, if there is not enough space, above the region.
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
