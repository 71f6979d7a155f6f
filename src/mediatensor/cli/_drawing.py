"""Drawing a contact sheet: from tiles to one picture, with Pillow alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

from ..errors import InvalidArgumentError
from . import _text

__all__ = ["Grid", "Tile", "check_size", "choose_grid", "display_size", "draw_sheet", "tile_size"]

_MARGIN = 24
_GAP = 14
_CAPTION_HEIGHT = 26
_HEADER_HEIGHT = 44
_LINE_HEIGHT = 21
_TITLE_SIZE = 22
_TEXT_SIZE = 14
_DETAIL_GAP = 22

_BACKGROUND = (22, 24, 28)
_PLACEHOLDER = (44, 47, 54)
_BRIGHT = (236, 238, 242)
_MUTED = (150, 156, 168)
_KEY_FRAME = (255, 184, 46)

# The size of a tile when none is asked for: this many pixels in the picture's own shape.
_TILE_AREA = 320 * 180
# The label of a tile needs some room, and so does the header.
_LEAST_TILE_WIDTH = 100
_LEAST_SHEET_WIDTH = 320
# Width over height of a whole sheet.
_PREFERRED_SHAPE = 1.7
_MAX_PIXELS = 1 << 28

_MARK_WIDTH = 16

_Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

# Tried in turn for names that Pillow's own font has no letters for; the first that is installed is used.
_FONTS_WITH_MORE_LETTERS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial Unicode.ttf", "arial.ttf")


@dataclass(frozen=True)
class Tile:
    """One frame of the sheet.

    Attributes:
        picture: The frame, ``None`` if it could not be decoded.
        index: The index of the frame in the video.
        pts_seconds: Its presentation time.
        is_key_frame: Whether to mark it.
    """

    picture: Image.Image | None
    index: int
    pts_seconds: float
    is_key_frame: bool


@dataclass(frozen=True)
class Grid:
    """Where tiles go: columns and rows of boxes of one size, in pixels."""

    columns: int
    rows: int
    tile_width: int
    tile_height: int

    @property
    def width(self) -> int:
        return max(2 * _MARGIN + self.columns * (self.tile_width + _GAP) - _GAP, _LEAST_SHEET_WIDTH)

    @property
    def height(self) -> int:
        """Height of the boxes and their captions, without header and margins."""
        return self.rows * (self.tile_height + _CAPTION_HEIGHT + _GAP) - _GAP

    def position(self, number: int) -> tuple[int, int]:
        """Left upper corner of a box, from the left margin and the end of the header."""
        row, column = divmod(number, self.columns)
        return column * (self.tile_width + _GAP), row * (self.tile_height + _CAPTION_HEIGHT + _GAP)


def display_size(
    width: int, height: int, pixel_aspect_ratio: Fraction | None, rotation: float | None
) -> tuple[int, int]:
    """(width, height) in square pixels of an upright frame.

    The ratio belongs to the stored picture: turned by a quarter, it stretches the height.

    >>> display_size(720, 576, Fraction(64, 45), None), display_size(576, 720, Fraction(64, 45), 90.0)
    ((1024, 576), (576, 1024))
    """
    ratio = pixel_aspect_ratio or Fraction(1)
    if round((rotation or 0) / 90) % 2:
        return width, max(round(height * ratio), 1)
    return max(round(width * ratio), 1), height


def tile_size(display_size: tuple[int, int], width: int | None) -> tuple[int, int]:
    """(width, height) of a tile in the shape of the picture; ``width=None`` chooses a handy one.

    >>> tile_size((1920, 1080), None), tile_size((1080, 1920), None), tile_size((640, 480), 100)
    ((320, 180), (180, 320), (100, 75))
    """
    shape = display_size[0] / display_size[1]
    if width is None:
        width = round(math.sqrt(_TILE_AREA * shape))
    return width, max(round(width / shape), 1)


def choose_grid(num_tiles: int, size: tuple[int, int], num_columns: int | None) -> Grid:
    """The grid for ``num_tiles`` tiles; without a number of columns, a well-shaped one with few empty places.

    >>> grid = choose_grid(16, (320, 180), None)
    >>> grid.columns, grid.rows
    (4, 4)
    """

    def of(columns: int) -> Grid:
        return Grid(columns, math.ceil(num_tiles / columns), max(size[0], _LEAST_TILE_WIDTH), size[1])

    def badness(grid: Grid) -> float:
        empty = grid.columns * grid.rows - num_tiles
        return abs(math.log(grid.width / (grid.height * _PREFERRED_SHAPE))) + 2 * empty / num_tiles

    if num_columns is not None:
        return of(min(num_columns, num_tiles))
    return min(map(of, range(1, num_tiles + 1)), key=badness)


def check_size(grid: Grid, side_limit: int) -> None:
    """Raise `InvalidArgumentError` if the sheet would be larger than the file format or memory can bear."""
    width, height = grid.width, grid.height + 2 * _MARGIN + 2 * _HEADER_HEIGHT
    if max(width, height) > side_limit or width * height > _MAX_PIXELS:
        raise InvalidArgumentError(
            f"The sheet would have {width}x{height} pixels, which is too large (at most {side_limit} a side and "
            f"{_MAX_PIXELS} in all). Ask for fewer frames (--frames) or smaller ones (--width)."
        )


def draw_sheet(tiles: Sequence[Tile], grid: Grid, title: str, details: Sequence[str], key_frames: str) -> Image.Image:
    """The contact sheet.

    Args:
        tiles: The frames, in the order in which they are drawn.
        grid: Where they go.
        title: First line of the header, cut where it is too long.
        details: Second line of the header, wrapped where it is too long.
        key_frames: Last of the details; it is drawn with the mark of key frames, which explains the mark.

    Returns:
        An RGB picture.
    """
    inner_width = grid.width - 2 * _MARGIN
    font = _font(_TEXT_SIZE)
    parts = [detail.replace(" ", "  ") for detail in (*details, key_frames)]  # the font's spaces are narrow
    widths = [font.getlength(part) for part in parts]
    widths[-1] += _MARK_WIDTH
    places = flow(widths, inner_width)
    top = _MARGIN + _HEADER_HEIGHT + (places[-1][0] + 1) * _LINE_HEIGHT
    sheet = Image.new("RGB", (grid.width, top + grid.height + _MARGIN), _BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    _draw_title(draw, title, inner_width)
    for part, (line, x) in zip(parts, places, strict=True):
        left, baseline = _MARGIN + x, _MARGIN + 50 + line * _LINE_HEIGHT
        if part is parts[-1]:
            _draw_diamond(draw, left + 5, baseline - 5)
            left += _MARK_WIDTH
        draw.text((left, baseline), part, font=font, fill=_MUTED, anchor="ls")
    for number, tile in enumerate(tiles):
        left, above = grid.position(number)
        _draw_tile(sheet, draw, tile, grid, _MARGIN + left, top + above)
    return sheet


def flow(widths: Sequence[float], limit: float) -> list[tuple[int, float]]:
    """(line, x) of pieces of these widths, set one after another and broken into lines no wider than ``limit``.

    >>> flow([50, 50, 50], 130)
    [(0, 0), (0, 72), (1, 0)]
    """
    places: list[tuple[int, float]] = []
    line = 0
    x: float = 0
    for width in widths:
        if places and x + width > limit:
            line, x = line + 1, 0
        places.append((line, x))
        x += width + _DETAIL_GAP
    return places


def _draw_title(draw: ImageDraw.ImageDraw, title: str, width: int) -> None:
    font = _font_for(title, _TITLE_SIZE)
    length = len(title)
    while length > 4 and font.getlength(_text.shorten(title, length)) > width:
        length -= 1
    draw.text((_MARGIN, _MARGIN), _text.shorten(title, length), font=font, fill=_BRIGHT)


def _draw_tile(sheet: Image.Image, draw: ImageDraw.ImageDraw, tile: Tile, grid: Grid, left: int, top: int) -> None:
    right, bottom = left + grid.tile_width, top + grid.tile_height
    if tile.picture is None:
        draw.rectangle((left, top, right - 1, bottom - 1), fill=_PLACEHOLDER)
        centre = ((left + right) / 2, (top + bottom) / 2)
        draw.text(centre, "not decodable", font=_font(_TEXT_SIZE), fill=_MUTED, anchor="mm")
    else:
        x = left + (grid.tile_width - tile.picture.width) // 2
        y = top + (grid.tile_height - tile.picture.height) // 2
        sheet.paste(tile.picture, (x, y))
    baseline = bottom + 18
    text_left = left
    if tile.is_key_frame:
        _draw_diamond(draw, left + 5, baseline - 5)
        text_left += _MARK_WIDTH
    font = _font(_TEXT_SIZE)
    time = _text.clock(tile.pts_seconds)
    draw.text((right, baseline), time, font=font, fill=_BRIGHT, anchor="rs")
    number = f"#{tile.index}"
    # A narrow tile has room for the time alone.
    if text_left + font.getlength(number) + 6 <= right - font.getlength(time):
        draw.text((text_left, baseline), number, font=font, fill=_MUTED, anchor="ls")


def _draw_diamond(draw: ImageDraw.ImageDraw, x: float, y: float, radius: float = 5) -> None:
    draw.polygon([(x - radius, y), (x, y - radius), (x + radius, y), (x, y + radius)], fill=_KEY_FRAME)


@lru_cache
def _font(size: int) -> _Font:
    return ImageFont.load_default(size)


def _font_for(text: str, size: int) -> _Font:
    """Pillow's own font, or one with more letters where the text is not plain ASCII and one is installed."""
    for name in () if text.isascii() else _FONTS_WITH_MORE_LETTERS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return _font(size)
