"""Draw a time line of the text tracks of a video, and a sheet of its slides, with Pillow."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence

from PIL import Image, ImageDraw

from ..._engine.common.messages import clock
from ..io import Page
from ..utils._drawing import as_picture, font_for
from .tracks import Slide, TextKind, TextTrack

__all__ = ["draw_slides", "draw_timeline"]

_MARGIN, _GAP = 20, 12
_TEXT_SIZE, _TITLE_SIZE = 14, 18
_LABEL_WIDTH = 110
_BAR_HEIGHT, _BAR_GAP, _LANE_GAP = 22, 3, 9
_AXIS_HEIGHT = 26
_TITLE_HEIGHT = 34
_CAPTION_HEIGHT = 24
# Maximum number of rows in a lane, for texts that are shown at the same time.
_MAX_ROWS = 6
# Minimum number of seconds in a strip, and maximum number of strips.
_SECONDS_PER_STRIP, _MAX_STRIPS = 90.0, 10
_LEAST_TICK_DISTANCE = 90
_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)

_PAPER, _LANE, _INK, _MUTED, _GRID = (255, 255, 255), (244, 246, 248), (33, 37, 41), (108, 117, 125), (222, 226, 230)
_LANES: dict[TextKind, tuple[str, tuple[int, int, int]]] = {
    "caption": ("captions", (47, 111, 193)),
    "overlay": ("overlays", (176, 93, 12)),
    "scene": ("scene", (47, 125, 79)),
    "slide": ("slides", (125, 79, 160)),
}


def draw_timeline(tracks: Sequence[TextTrack], title: str, start: float, stop: float, width: int) -> Image.Image:
    """Draw a time line: a lane for each kind of text, with a bar for each track.

    ``start`` and ``stop`` are in seconds. A long time line is split into several strips, one below the other.
    """
    shown = [track for track in tracks if track.start_seconds < stop and track.end_seconds > start]
    kinds = [kind for kind in _LANES if any(track.kind == kind for track in shown)]
    rows = {kind: _rows([track for track in shown if track.kind == kind]) for kind in kinds}
    num_strips = min(max(1, math.ceil((stop - start) / _SECONDS_PER_STRIP)), _MAX_STRIPS)
    lane_heights = {kind: (max(rows[kind]) + 1) * (_BAR_HEIGHT + _BAR_GAP) + _BAR_GAP for kind in kinds}
    strip_height = sum(lane_heights.values()) + _LANE_GAP * len(kinds) + _AXIS_HEIGHT
    height = 2 * _MARGIN + _TITLE_HEIGHT + num_strips * (strip_height + _GAP) - _GAP
    picture = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(picture)
    _write(draw, title, (_MARGIN, _MARGIN + 8), width - 2 * _MARGIN, _TITLE_SIZE, _INK)
    if not kinds:
        _write(draw, "no text", (width / 2, _MARGIN + _TITLE_HEIGHT + 4), 200, _TEXT_SIZE, _MUTED)
    left, right = _MARGIN + _LABEL_WIDTH, width - _MARGIN
    seconds = (stop - start) / num_strips
    for number in range(num_strips):
        begin = start + number * seconds
        top = _MARGIN + _TITLE_HEIGHT + number * (strip_height + _GAP)
        axis = top + strip_height - _AXIS_HEIGHT
        _draw_ticks(draw, begin, begin + seconds, (left, top, right, axis))
        for kind in kinds:
            name, colour = _LANES[kind]
            draw.rectangle((_MARGIN, top, right, top + lane_heights[kind]), outline=_GRID)
            draw.rectangle((_MARGIN, top, left - 1, top + lane_heights[kind]), fill=_LANE, outline=_GRID)
            of_kind = [track for track in shown if track.kind == kind]
            label = f"{name} {len(of_kind)}"
            _write(draw, label, (_MARGIN + 8, top + lane_heights[kind] / 2), _LABEL_WIDTH - 12, _TEXT_SIZE, _INK)
            for track, row in zip(of_kind, rows[kind], strict=True):
                if track.start_seconds < begin + seconds and track.end_seconds > begin:
                    x0 = left + (right - left) * max(0.0, (track.start_seconds - begin) / seconds)
                    x1 = left + (right - left) * min(1.0, (track.end_seconds - begin) / seconds)
                    y = top + _BAR_GAP + row * (_BAR_HEIGHT + _BAR_GAP)
                    # Leave a gap to the next bar.
                    begins, ends = round(x0), max(round(x1) - 3, round(x0))
                    draw.rectangle((begins, y, ends, y + _BAR_HEIGHT - 1), fill=colour)
                    place = (begins + 5, y + _BAR_HEIGHT / 2)
                    _write(draw, track.text, place, ends - begins - 8, _TEXT_SIZE, _PAPER)
            top += lane_heights[kind] + _LANE_GAP
    return picture


def draw_slides(slides: Sequence[Slide], num_columns: int, tile_width: int) -> Image.Image:
    """Draw slides in rows of ``num_columns``, each with its number and times."""
    num_columns = min(num_columns, len(slides))
    tiles = [_tile(slide.page, tile_width) for slide in slides]
    tops, bottom = [], _MARGIN
    for first in range(0, len(tiles), num_columns):
        row = tiles[first : first + num_columns]
        tops += [bottom] * len(row)
        bottom += max(tile.height for tile in row) + _CAPTION_HEIGHT + _GAP
    sheet = Image.new("RGB", (2 * _MARGIN + num_columns * (tile_width + _GAP) - _GAP, bottom - _GAP + _MARGIN), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, (slide, tile, top) in enumerate(zip(slides, tiles, tops, strict=True)):
        left = _MARGIN + number % num_columns * (tile_width + _GAP)
        sheet.paste(tile, (left, top))
        draw.rectangle((left, top, left + tile.width - 1, top + tile.height - 1), outline=_GRID)
        middle = top + tile.height + _CAPTION_HEIGHT / 2
        times = f"{clock(slide.start_seconds, 0)} to {clock(slide.end_seconds, 0)}"
        _write(draw, f"{slide.number}", (left, middle), tile_width / 4, _TEXT_SIZE, _INK)
        draw.text((left + tile_width, middle), times, font=font_for(times, _TEXT_SIZE), fill=_MUTED, anchor="rm")
    return sheet


def _tile(page: Page, width: int) -> Image.Image:
    picture = Image.fromarray(as_picture(page.page))
    return picture.resize((width, max(1, round(picture.height * width / picture.width))), Image.Resampling.LANCZOS)


def _rows(tracks: Sequence[TextTrack]) -> list[int]:
    """Choose a row of the lane for each track: the first free one, or the last if `_MAX_ROWS` are occupied."""
    ends: list[float] = []
    rows = []
    for track in tracks:
        free = [row for row, end in enumerate(ends) if end <= track.start_seconds]
        row = free[0] if free else min(len(ends), _MAX_ROWS - 1)
        if row == len(ends):
            ends.append(track.end_seconds)
        ends[row] = max(ends[row], track.end_seconds)
        rows.append(row)
    return rows


def _draw_ticks(draw: ImageDraw.ImageDraw, start: float, stop: float, area: tuple[float, float, float, float]) -> None:
    left, top, right, bottom = area
    per_second = (right - left) / (stop - start)
    step = next((step for step in _TICKS if step * per_second >= _LEAST_TICK_DISTANCE), None)
    if step is None:
        step = math.ceil(_LEAST_TICK_DISTANCE / per_second / _TICKS[-1]) * _TICKS[-1]
    for number in range(math.ceil(start / step - 1e-9), math.floor(stop / step + 1e-9) + 1):
        x = left + (number * step - start) * per_second
        draw.line((x, top, x, bottom + 4), fill=_GRID)
        text = clock(number * step, 1 if step < 1 else 0)
        draw.text((x, bottom + 7), text, font=font_for(text, _TEXT_SIZE), fill=_MUTED, anchor="ma")


def _write(
    draw: ImageDraw.ImageDraw,
    text: str,
    place: tuple[float, float],
    width: float,
    size: int,
    colour: tuple[int, int, int],
) -> None:
    """Write one line of text that starts at ``place`` and is vertically centred there.

    Text that is wider than ``width`` is cut and ends in "...". Nothing is written if fewer than two letters fit.
    """
    # More than one character per pixel never fits, and measuring text is slow.
    text = " / ".join(text[: round(max(width, 0))].split("\n"))
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    font = font_for(text, size)
    if font.getlength(text) > width:
        kept = bisect(range(len(text)), width, key=lambda length: font.getlength(text[:length].rstrip() + "...")) - 1
        if kept < 2:
            return
        text = text[:kept].rstrip() + "..."
    draw.text(place, text, font=font, fill=colour, anchor="lm")
