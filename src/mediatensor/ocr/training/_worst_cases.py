"""Pictures of what a model gets wrong: lines with their texts, pages with their boxes."""

from __future__ import annotations

import io
import os
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ..._engine.common.checks import path_text
from ...errors import InvalidArgumentError
from ..utils._drawing import font_for
from ..utils._text_scores import aligned

__all__ = ["WorstLine", "WorstPage", "draw_worst_lines", "draw_worst_pages", "picture_format"]

_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}

_WIDTH = 1200
_MARGIN = 20
_GAP = 18
_LABEL_WIDTH = 60
_LINE_HEIGHT = 48
"""Of the pictures of lines, which are narrowed where they would be wider than the sheet."""
_TEXT_SIZE, _LEAST_TEXT_SIZE = 22, 8
_NOTE_SIZE = 13
_PAGE_HEIGHT = 1100

_BACKGROUND, _INK, _MUTED = (255, 255, 255), (20, 24, 30), (120, 126, 136)
# Behind characters of the true text that were not read, and of the read text that are not true.
_MISSED, _WRONG = (255, 214, 140), (255, 176, 170)
# Pairs of boxes, true boxes that were missed, found boxes that are not true: told apart by brightness, too.
_PAIR, _MISSED_BOX, _FALSE_BOX = (150, 190, 230), (200, 20, 20), (230, 130, 0)


@dataclass(frozen=True, eq=False)
class WorstLine:
    """A line that was misread.

    Attributes:
        source: The name of its file.
        image: (H, W, 3) uint8, RGB.
        text: The true text.
        read: What was read.
        num_edits: Edits between the two.
    """

    source: str
    image: NDArray[np.uint8]
    text: str
    read: str
    num_edits: int


@dataclass(frozen=True, eq=False)
class WorstPage:
    """A page on which text was missed, or found where there is none.

    Attributes:
        source: The name of its file.
        image: (H, W, 3) uint8, RGB.
        true: Corners of true boxes in pixels, (N, 4, 2).
        found: Corners of boxes that were found, (M, 4, 2).
        true_matched: Whether each true box is in a pair, (N,).
        found_matched: Whether each found box is, (M,).
    """

    source: str
    image: NDArray[np.uint8]
    true: NDArray[np.float64]
    found: NDArray[np.float64]
    true_matched: NDArray[np.bool_]
    found_matched: NDArray[np.bool_]


def picture_format(path: str | os.PathLike[str]) -> str:
    """The name that Pillow has for the format of a picture.

    Raises:
        InvalidArgumentError: if the suffix is none that is known.

    >>> picture_format("worst.jpg")
    'JPEG'
    """
    suffix = Path(path_text("the picture", path)).suffix.lower()
    if suffix not in _FORMATS:
        raise InvalidArgumentError(f"a picture is written as {', '.join(_FORMATS)} (got {os.fspath(path)!r}).")
    return _FORMATS[suffix]


def draw_worst_lines(lines: Sequence[WorstLine], title: str, path: Path) -> bytes:
    """The picture of some lines as a file.

    Args:
        lines: The lines, from the top down.
        title: A sentence above them.
        path: What the file will be called, for its format.
    """
    parts = [_note(title), *(_drawn_line(line) for line in lines)]
    return _encoded(_stacked(parts, _GAP), path)


def _drawn_line(line: WorstLine) -> Image.Image:
    picture = Image.fromarray(np.ascontiguousarray(line.image))
    scale = min(_LINE_HEIGHT / picture.height, (_WIDTH - 2 * _MARGIN - _LABEL_WIDTH) / picture.width)
    size = max(round(picture.width * scale), 1), max(round(picture.height * scale), 1)
    shown = Image.new("RGB", (_WIDTH - 2 * _MARGIN, size[1]), _BACKGROUND)
    shown.paste(picture.resize(size, Image.Resampling.LANCZOS), (_LABEL_WIDTH, 0))
    pairs = aligned(line.text, line.read)
    true = [(character, character != read) for character, read in pairs]
    read = [(character, character != true) for true, character in pairs]
    wrong = f"{line.num_edits} edit{'s' * (line.num_edits != 1)}"
    return _stacked(
        [shown, _text("true", true, _MISSED), _text("read", read, _WRONG), _note(f"{line.source}: {wrong}")], 4, 0
    )


def _text(label: str, characters: Sequence[tuple[str, bool]], mark: tuple[int, int, int]) -> Image.Image:
    """A text with its label; characters that differ are on a coloured ground, and where one is missing is a bar."""
    clusters = list(_clusters(characters))
    whole = "".join(text for text, _ in clusters)
    # Few fonts have all marks: letters with them may come from another font than the rest.
    plain = "".join(text for text, _ in clusters if len(text) == 1)
    size = _TEXT_SIZE
    room = _WIDTH - 2 * _MARGIN - _LABEL_WIDTH
    while size > _LEAST_TEXT_SIZE and font_for(plain, size).getlength(whole) > room:
        size -= 1
    picture = Image.new("RGB", (_WIDTH - 2 * _MARGIN, round(1.45 * size)), _BACKGROUND)
    draw = ImageDraw.Draw(picture)
    baseline = round(1.05 * size)
    draw.text((0, baseline), label, font=font_for(label, _NOTE_SIZE), fill=_MUTED, anchor="ls")
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in whole):
        # Letters that join, and go to the left, cannot be placed one by one.
        draw.text((_LABEL_WIDTH, baseline), whole, font=font_for(whole, size), fill=_INK, anchor="ls")
        return picture
    place = float(_LABEL_WIDTH)
    for text, differs in clusters:
        font = font_for(plain if len(text) < 2 else text, size)
        width = font.getlength(text)
        if differs:
            draw.rectangle((place, 0, place + max(width, 3) - 1, picture.height - 1), fill=mark)
        draw.text((place, baseline), text, font=font, fill=_INK, anchor="ls")
        place += max(width, 3) if differs else width
    return picture


def _clusters(characters: Sequence[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
    """Characters with the marks that stand on them, and whether one of them differs."""
    text, differs = "", False
    for character, is_other in characters:
        is_mark = bool(character) and unicodedata.combining(character) > 0
        if text and not is_mark:
            yield text, differs
            text, differs = "", False
        if not character:
            yield "", True
            continue
        text, differs = text + character, differs or is_other
    if text:
        yield text, differs


def draw_worst_pages(pages: Sequence[WorstPage], title: str, path: Path) -> bytes:
    """The picture of some pages, side by side, as a file.

    Args:
        pages: The pages.
        title: A sentence above them.
        path: What the file will be called, for its format.
    """
    drawn = [_drawn_page(page) for page in pages]
    rows = [drawn[start : start + 2] for start in range(0, len(drawn), 2)]
    legend = "blue: found; red: missed; orange: found where there is none"
    return _encoded(_stacked([_note(title), _note(legend), *map(_beside, rows)], _GAP), path)


def _drawn_page(page: WorstPage) -> Image.Image:
    picture = Image.fromarray(np.ascontiguousarray(page.image))
    room = (_WIDTH - 2 * _MARGIN - _GAP) / 2
    scale = min(room / picture.width, _PAGE_HEIGHT / picture.height)
    size = max(round(picture.width * scale), 1), max(round(picture.height * scale), 1)
    shown = Image.new("RGB", (round(room), size[1]), _BACKGROUND)
    shown.paste(picture.convert("RGB").resize(size, Image.Resampling.LANCZOS), (0, 0))
    draw = ImageDraw.Draw(shown)
    for boxes, chosen, color in (
        (page.found, page.found_matched, _PAIR),
        (page.found, ~page.found_matched, _FALSE_BOX),
        (page.true, ~page.true_matched, _MISSED_BOX),
    ):
        for corners in boxes[chosen] * scale:
            draw.polygon([tuple(corner) for corner in corners.tolist()], outline=color, width=2)
    missed, false = int((~page.true_matched).sum()), int((~page.found_matched).sum())
    return _stacked([shown, _note(f"{page.source}: {missed} missed, {false} false", round(room))], 4, 0)


def _note(text: str, width: int = _WIDTH - 2 * _MARGIN) -> Image.Image:
    """A line of small print, cut off where it is too long."""
    picture = Image.new("RGB", (width, round(1.5 * _NOTE_SIZE)), _BACKGROUND)
    font = font_for(text, _NOTE_SIZE)
    ImageDraw.Draw(picture).text((0, round(1.1 * _NOTE_SIZE)), text, font=font, fill=_MUTED, anchor="ls")
    return picture


def _beside(pictures: Sequence[Image.Image]) -> Image.Image:
    width = sum(picture.width for picture in pictures) + _GAP * (len(pictures) - 1)
    row = Image.new("RGB", (width, max(picture.height for picture in pictures)), _BACKGROUND)
    left = 0
    for picture in pictures:
        row.paste(picture, (left, 0))
        left += picture.width + _GAP
    return row


def _stacked(pictures: Sequence[Image.Image], gap: int, margin: int = _MARGIN) -> Image.Image:
    width = max(picture.width for picture in pictures) + 2 * margin
    height = sum(picture.height for picture in pictures) + gap * (len(pictures) - 1) + 2 * margin
    sheet = Image.new("RGB", (width, height), _BACKGROUND)
    top = margin
    for picture in pictures:
        sheet.paste(picture, (margin, top))
        top += picture.height + gap
    return sheet


def _encoded(picture: Image.Image, path: Path) -> bytes:
    data = io.BytesIO()
    name = picture_format(path)
    picture.save(data, name, **({"quality": 92} if name == "JPEG" else {}))
    return data.getvalue()
