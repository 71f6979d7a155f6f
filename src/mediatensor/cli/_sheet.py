"""``mediatensor sheet``: draw frames of a video into one picture, a contact sheet.

Other commands also draw such sheets.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from .._engine.common.checks import TIME_TOLERANCE
from .._engine.common.messages import clock, counted, progress
from .._engine.sources.output_files import check_outputs
from ..decoders import VideoDecoder
from ..decoders._media_info import display_size
from ..errors import DecodeError, InvalidArgumentError, OutOfRangeError
from . import _text
from ._console import STANDARD, emit, emit_bytes, for_each_file, output_stems, shown_name, write_picture

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

# Default area of a tile in pixels.
_TILE_AREA = 320 * 180
# Smallest width in pixels for labels and the header.
_LEAST_TILE_WIDTH = 100
_LEAST_SHEET_WIDTH = 320
# Aspect ratio (width / height) that a sheet should have.
_PREFERRED_SHAPE = 1.7
_MAX_PIXELS = 1 << 28
# Largest side in pixels that each format can store, by suffix.
_SIDE_LIMITS = {".png": 1 << 16, ".jpg": 65_500, ".jpeg": 65_500, ".webp": 16_383}

_MARK_WIDTH = 16

_Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

# Fonts with characters that Pillow's default font lacks. The first installed one is used.
_FONTS_WITH_MORE_LETTERS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial Unicode.ttf", "arial.ttf")


@dataclass(frozen=True)
class Tile:
    """One frame of a sheet. ``picture`` is ``None`` if the frame cannot be decoded."""

    picture: Image.Image | None
    index: int
    pts_seconds: float
    is_key_frame: bool


@dataclass(frozen=True)
class Grid:
    """The grid of a sheet: boxes of equal size, one for each tile. All sizes are in pixels."""

    columns: int
    rows: int
    tile_width: int
    tile_height: int

    @property
    def width(self) -> int:
        return max(2 * _MARGIN + self.columns * (self.tile_width + _GAP) - _GAP, _LEAST_SHEET_WIDTH)

    @property
    def height(self) -> int:
        """The height of all boxes and their labels, without the header and the margins."""
        return self.rows * (self.tile_height + _CAPTION_HEIGHT + _GAP) - _GAP

    def position(self, number: int) -> tuple[int, int]:
        """Return the (x, y) of the top left corner of box ``number``, relative to the left margin and the header."""
        row, column = divmod(number, self.columns)
        return column * (self.tile_width + _GAP), row * (self.tile_height + _CAPTION_HEIGHT + _GAP)


def tile_size(display_size: tuple[int, int], width: int | None) -> tuple[int, int]:
    """Return the (width, height) of a tile. It has the frame's aspect ratio and, if given, the width ``width``.

    >>> tile_size((1920, 1080), None), tile_size((1080, 1920), None), tile_size((640, 480), 100)
    ((320, 180), (180, 320), (100, 75))
    """
    shape = display_size[0] / display_size[1]
    if width is None:
        width = round(math.sqrt(_TILE_AREA * shape))
    return width, max(round(width / shape), 1)


def choose_grid(num_tiles: int, size: tuple[int, int], num_columns: int | None) -> Grid:
    """Return a grid with ``num_columns`` or, by default, with few empty boxes and an aspect ratio near 1.7."""

    def make_grid(columns: int) -> Grid:
        return Grid(columns, math.ceil(num_tiles / columns), max(size[0], _LEAST_TILE_WIDTH), size[1])

    def badness(grid: Grid) -> float:
        empty = grid.columns * grid.rows - num_tiles
        return abs(math.log(grid.width / (grid.height * _PREFERRED_SHAPE))) + 2 * empty / num_tiles

    if num_columns is not None:
        return make_grid(min(num_columns, num_tiles))
    return min(map(make_grid, range(1, num_tiles + 1)), key=badness)


def check_size(grid: Grid, side_limit: int) -> None:
    """Raise an error if a side of the sheet is longer than ``side_limit``, or the sheet does not fit into memory."""
    width, height = grid.width, grid.height + 2 * _MARGIN + 2 * _HEADER_HEIGHT
    if max(width, height) > side_limit or width * height > _MAX_PIXELS:
        raise InvalidArgumentError(
            f"The sheet would have {width}x{height} pixels, which is too large (at most {side_limit} a side and "
            f"{_MAX_PIXELS} in all). Ask for fewer frames (--frames) or smaller ones (--width)."
        )


def draw_sheet(tiles: Sequence[Tile], grid: Grid, title: str, details: Sequence[str], key_frames: str) -> Image.Image:
    """Draw a contact sheet as an RGB picture.

    The header has the title, which is shortened if it is long. The details follow below it. After them comes the symbol
    that marks key frames, with the text ``key_frames``, such as "3 key frames".
    """
    inner_width = grid.width - 2 * _MARGIN
    font = _font(_TEXT_SIZE)
    parts = [detail.replace(" ", "  ") for detail in (*details, key_frames)]  # spaces of this font are narrow
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
    """Arrange texts with these widths in lines that are at most ``limit`` wide; return the (line, x) of each text."""
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
    font = _title_font(title)
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
    time = clock(tile.pts_seconds)
    draw.text((right, baseline), time, font=font, fill=_BRIGHT, anchor="rs")
    number = f"#{tile.index}"
    # In narrow tiles, only the time is shown.
    if text_left + font.getlength(number) + 6 <= right - font.getlength(time):
        draw.text((text_left, baseline), number, font=font, fill=_MUTED, anchor="ls")


def _draw_diamond(draw: ImageDraw.ImageDraw, x: float, y: float) -> None:
    draw.polygon([(x - 5, y), (x, y - 5), (x + 5, y), (x, y + 5)], fill=_KEY_FRAME)


@lru_cache
def _font(size: int) -> _Font:
    return ImageFont.load_default(size)


def _title_font(title: str) -> _Font:
    """Return a font for ``title``: Pillow's default font for ASCII, otherwise an installed font with more letters."""
    for name in () if title.isascii() else _FONTS_WITH_MORE_LETTERS:
        try:
            return ImageFont.truetype(name, _TITLE_SIZE)
        except OSError:
            continue
    return _font(_TITLE_SIZE)


def run(args: argparse.Namespace) -> int:
    options = SheetOptions(args.frames, args.columns, args.width, args.start, args.stop)
    if len(args.files) == 1 and str(args.output) == STANDARD:
        outputs = {args.files[0]: args.output}
    else:
        outputs = sheet_outputs(args.files, args.output, overwrite=args.overwrite)

    def sheet(path: str, file: str) -> int:
        output, name = outputs[file], shown_name(file)
        if str(output) != STANDARD:
            emit(write_sheet(path, output, options, args.stream, name))
            return 0
        with tempfile.TemporaryDirectory(prefix="mediatensor-") as folder:
            write_sheet(path, Path(folder) / "sheet.png", options, args.stream, name)
            emit_bytes((Path(folder) / "sheet.png").read_bytes())
        return 0

    return for_each_file(list(outputs), sheet)


def sheet_outputs(
    files: Sequence[str], output: Path | None, *, overwrite: bool, more_outputs: Sequence[Path] = ()
) -> dict[str, Path]:
    """Return a dict from each file to the path of its sheet. Check that the paths can be written.

    For a single file, ``output`` is the path of its sheet. For several files, it is a folder. A file that is given
    twice counts as two files, but gets only one sheet. ``more_outputs`` are further outputs of the command, which
    are checked in the same way.
    """
    if len(files) == 1:
        path = output or Path("sheet.png")
        _side_limit(path)  # raises
        check_outputs([path, *more_outputs], files, overwrite=overwrite)
        return {files[0]: path}
    files = list(dict.fromkeys(files))
    folder = output or Path("sheets")
    if str(folder) == STANDARD or folder.suffix.lower() in _SIDE_LIMITS:
        raise InvalidArgumentError(f"Several files need a folder for their sheets, and {folder} is one picture.")
    outputs = {file: folder / f"{stem}.png" for file, stem in zip(files, output_stems(files), strict=True)}
    check_outputs([*outputs.values(), *more_outputs], files, overwrite=overwrite, makes_folders=True)
    folder.mkdir(parents=True, exist_ok=True)
    return outputs


def choose_frames(
    pts_seconds: Sequence[float], start_seconds: float, stop_seconds: float, num_frames: int
) -> list[int]:
    """Return the indices of frames that are spread evenly over the time from ``start_seconds`` to ``stop_seconds``.

    The time is divided into ``num_frames`` equal parts. The frame that is shown in the middle of each part (x) is
    selected. Duplicates are dropped::

        start |---x---|---x---|---x---|---x---| stop

    If only ``num_frames`` frames or fewer are shown in this time, all of them are selected. ``pts_seconds`` must
    ascend.

    Example:
        >>> choose_frames([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 0.0, 6.0, 3)
        [1, 3, 5]
    """
    first = bisect_left(pts_seconds, start_seconds - TIME_TOLERANCE)
    if first == len(pts_seconds) or pts_seconds[first] > start_seconds + TIME_TOLERANCE:
        first = max(first - 1, 0)  # this frame is still shown at the start
    last = bisect_left(pts_seconds, stop_seconds - TIME_TOLERANCE)
    if last - first <= num_frames:
        return list(range(first, last))
    part = (stop_seconds - start_seconds) / num_frames
    times = (start_seconds + (k + 0.5) * part + TIME_TOLERANCE for k in range(num_frames))
    return list(dict.fromkeys(max(bisect_right(pts_seconds, time) - 1, 0) for time in times))


@dataclass(frozen=True)
class SheetOptions:
    """Options of a sheet. ``None`` means the default. The frame at ``stop_seconds`` is not part of the sheet."""

    num_frames: int = 16
    num_columns: int | None = None
    tile_width: int | None = None
    start_seconds: float | None = None
    stop_seconds: float | None = None


def write_sheet(
    file: str, output: Path, options: SheetOptions, stream_index: int | None = None, name: str | None = None
) -> str:
    """Write a contact sheet of ``file`` with the title ``name``, by default the file name; return a summary."""
    side_limit = _side_limit(output)
    title = os.path.basename(name or file) or file
    with VideoDecoder(file, stream_index=stream_index, dimension_order="NHWC") as decoder:
        sheet, num_frames = _draw_stable(decoder, title, options, side_limit)
    frames = counted(num_frames, "frame")
    write_picture(output, sheet)
    if num_frames < options.num_frames:
        frames += f" (not {options.num_frames}: more would repeat them)"
    return f"wrote {output}: {frames}, {sheet.width}x{sheet.height} pixels"


@dataclass(frozen=True)
class Mark:
    """A frame to show in a sheet, and a box ((left, top), (right, bottom)) to draw in it, in fractions of the frame."""

    frame_index: int
    box: tuple[tuple[float, float], tuple[float, float]] | None = None


def write_marked_sheet(file: str, output: Path, marks: Sequence[Mark], title: str) -> str:
    """Write a sheet of the frames in ``marks``, with the boxes drawn in them; return a summary."""
    side_limit = _side_limit(output)
    with VideoDecoder(file, dimension_order="NHWC") as decoder:
        last = len(decoder) - 1
        marks = [replace(mark, frame_index=min(mark.frame_index, last)) for mark in marks]
        chosen = sorted({mark.frame_index for mark in marks})
        sheet = _draw_frames(decoder, title, chosen, SheetOptions(), side_limit, marks=marks)
    write_picture(output, sheet)
    return f"wrote {output}: {counted(len(chosen), 'frame')}, {sheet.width}x{sheet.height} pixels"


def _draw_stable(decoder: VideoDecoder, title: str, options: SheetOptions, side_limit: int) -> tuple[Image.Image, int]:
    """Draw a sheet, and draw it again if decoding corrects the frame index. Return it, and its number of frames."""
    index = decoder.frame_index
    try:
        drawn = _draw(decoder, title, options, side_limit)
    except OutOfRangeError:
        if decoder.frame_index is index:
            raise
    else:
        if decoder.frame_index is index:
            return drawn
    return _draw(decoder, title, options, side_limit)


def _draw(decoder: VideoDecoder, title: str, options: SheetOptions, side_limit: int) -> tuple[Image.Image, int]:
    index = decoder.frame_index
    begin, end = range_within(options.start_seconds, options.stop_seconds, index.begin_seconds, index.end_seconds)
    chosen = choose_frames(index.pts_seconds.tolist(), begin, end, options.num_frames)
    is_whole = (begin, end) == (index.begin_seconds, index.end_seconds)
    span = [] if is_whole else [f"from {clock(begin)} to {clock(end)}"]
    return _draw_frames(decoder, title, chosen, options, side_limit, span), len(chosen)


def _draw_frames(
    decoder: VideoDecoder,
    title: str,
    chosen: Sequence[int],
    options: SheetOptions,
    side_limit: int,
    more_details: Sequence[str] = (),
    marks: Sequence[Mark] = (),
) -> Image.Image:
    metadata, index = decoder.metadata, decoder.frame_index
    size = tile_size(_displayed_size(decoder, (metadata.width or 1, metadata.height or 1)), options.tile_width)
    grid = choose_grid(len(chosen), size, options.num_columns)
    check_size(grid, side_limit)
    pts_seconds, is_key_frame = index.pts_seconds.tolist(), index.is_key_frame.tolist()
    tiles = []
    for number in progress(chosen, "drawing"):
        picture = _picture(decoder, number, size)
        for mark in marks:
            if picture is not None and mark.box is not None and mark.frame_index == number:
                (left, top), (right, bottom), (width, height) = *mark.box, picture.size
                place = (left * width - 3, top * height - 3, right * width + 2, bottom * height + 2)
                ImageDraw.Draw(picture).rectangle(place, outline=_KEY_FRAME, width=2)
        tiles.append(Tile(picture, number, pts_seconds[number], is_key_frame[number]))
    details = [f"{metadata.width}x{metadata.height}", metadata.codec or "unknown codec"]
    if metadata.average_fps:
        details.append(f"{_text.decimal(metadata.average_fps)} fps")
    details += [_text.seconds(metadata.duration_seconds), counted(len(decoder), "frame"), *more_details]
    return draw_sheet(tiles, grid, title, details, counted(sum(is_key_frame), "key frame"))


def _side_limit(output: Path) -> int:
    """Return the largest side, in pixels, of pictures in the format of ``output``. Raise an error for other formats."""
    suffix = output.suffix.lower()
    if suffix not in _SIDE_LIMITS:
        accepted = ", ".join(_SIDE_LIMITS)
        raise InvalidArgumentError(f"The name of the sheet must end in one of {accepted} (got {str(output)!r}).")
    return _SIDE_LIMITS[suffix]


def range_within(start: float | None, stop: float | None, begin: float, end: float) -> tuple[float, float]:
    """Cut a time range to a stream that lasts from ``begin`` to ``end``. ``None`` means the start or end of the stream.

    Raise an error if the range is empty, or outside the stream.
    """
    start, stop = begin if start is None else start, end if stop is None else stop
    span = f"the stream lasts from {_text.seconds(begin)} to {_text.seconds(end)}"
    if start >= end:
        raise OutOfRangeError(f"There is nothing from {_text.seconds(start)} on: {span}.")
    if stop <= begin:
        raise OutOfRangeError(f"There is nothing before {_text.seconds(stop)}: {span}.")
    if start >= stop:
        raise InvalidArgumentError(
            f"--start must be before --stop (got {_text.seconds(start)} and {_text.seconds(stop)})."
        )
    return max(start, begin), min(stop, end)


def _displayed_size(decoder: VideoDecoder, size: tuple[int, int]) -> tuple[int, int]:
    metadata = decoder.metadata
    return display_size(*size, metadata.pixel_aspect_ratio, metadata.rotation)


def _picture(decoder: VideoDecoder, frame_index: int, size: tuple[int, int]) -> Image.Image | None:
    """Return a frame as a picture that fits into ``size`` and has square pixels; ``None`` if it cannot be decoded."""
    try:
        data = decoder.get_frame_at(frame_index).data
    except DecodeError:
        return None
    picture = Image.fromarray(data.numpy())
    width, height = _displayed_size(decoder, picture.size)
    scale = min(size[0] / width, size[1] / height)
    target = (max(round(width * scale), 1), max(round(height * scale), 1))
    # Enlarge without smoothing, which would suggest details that a tiny frame does not have.
    return picture.resize(target, Image.Resampling.NEAREST if scale >= 2 else Image.Resampling.LANCZOS)
