"""Draw the worst errors of a model as one image: misread text lines, or pages with missed and false boxes.

A line is shown above its true text and the text that the model read. On a page, boxes are coloured by whether they were
found, missed or false.
"""

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
from ..._engine.common.messages import counted
from ...errors import InvalidArgumentError
from ..utils._drawing import font_for
from ..utils._scores import aligned

_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}

_WIDTH = 1200
_MARGIN = 20
_GAP = 18
_LABEL_WIDTH = 60
_TEXT_WIDTH = _WIDTH - 2 * _MARGIN - _LABEL_WIDTH
# Height of line images. They are scaled down if they would be wider than the sheet.
_LINE_HEIGHT = 48
_TEXT_SIZE, _LEAST_TEXT_SIZE = 22, 8
_NOTE_SIZE = 13
_PAGE_HEIGHT = 1100

_BACKGROUND, _INK, _MUTED = (255, 255, 255), (20, 24, 30), (120, 126, 136)
# Background colours of missed characters in the true text, and of wrong characters in the reading.
_MISSED, _WRONG = (255, 214, 140), (255, 176, 170)
# Colours of matched, missed and false boxes. They also differ in brightness.
_PAIR, _MISSED_BOX, _FALSE_BOX = (150, 190, 230), (200, 20, 20), (230, 130, 0)


@dataclass(frozen=True, eq=False)
class WorstLine:
    """A line that was misread.

    Attributes:
        source: Name of the image file.
        image: The image of the line, array uint8 (H, W, 3), RGB.
        text: The true text, from the ground truth.
        read: The text that the model read.
        num_edits: Minimum number of insertions, deletions and replacements of characters that turn ``read`` into
            ``text``.
    """

    source: str
    image: NDArray[np.uint8]
    text: str
    read: str
    num_edits: int


@dataclass(frozen=True, eq=False)
class WorstPage:
    """A page on which text detection missed boxes or found false ones.

    Attributes:
        source: Name of the image file.
        image: The image of the page, array uint8 (H, W, 3), RGB.
        true: Corners of the N true boxes in pixels, (N, 4, 2).
        found: Corners of the M detected boxes in pixels, (M, 4, 2).
        true_matched: bool (N,): whether each true box was matched with a detected box. The rest are missed boxes.
        found_matched: bool (M,): whether each detected box was matched with a true box. The rest are false boxes.
    """

    source: str
    image: NDArray[np.uint8]
    true: NDArray[np.float64]
    found: NDArray[np.float64]
    true_matched: NDArray[np.bool_]
    found_matched: NDArray[np.bool_]


def picture_format(path: str | os.PathLike[str]) -> str:
    """Return Pillow's name for the image format of ``path``. Raise an error for an unsupported suffix."""
    suffix = Path(path_text("the picture", path)).suffix.lower()
    if suffix not in _FORMATS:
        raise InvalidArgumentError(f"a picture must end in one of {', '.join(_FORMATS)} (got {os.fspath(path)!r}).")
    return _FORMATS[suffix]


def draw_worst_lines(lines: Sequence[WorstLine], title: str, path: Path) -> bytes:
    """Draw misread lines below a title. Return the image, encoded in the format of the suffix of ``path``."""
    parts = [_draw_note(title), *(_draw_line(line) for line in lines)]
    return _encode(_stack(parts, _GAP), path)


def _draw_line(line: WorstLine) -> Image.Image:
    picture = Image.fromarray(np.ascontiguousarray(line.image))
    small = _scaled(picture, min(_LINE_HEIGHT / picture.height, _TEXT_WIDTH / picture.width))
    shown = Image.new("RGB", (_LABEL_WIDTH + _TEXT_WIDTH, small.height), _BACKGROUND)
    shown.paste(small, (_LABEL_WIDTH, 0))
    pairs = aligned(line.text, line.read)
    true = [(character, character != read) for character, read in pairs]
    read = [(character, character != true) for true, character in pairs]
    texts = [_draw_text("true", true, _MISSED), _draw_text("read", read, _WRONG)]
    return _stack([shown, *texts, _draw_note(f"{line.source}: {counted(line.num_edits, 'edit')}")], 4, 0)


def _draw_text(label: str, characters: Sequence[tuple[str, bool]], mark: tuple[int, int, int]) -> Image.Image:
    """Draw a text after its label, with ``mark`` behind characters that differ from the other text.

    Each item of ``characters`` is a character, or ``""`` for a missing one, and True if it differs. A missing character
    is drawn as a narrow bar.
    """
    clusters = list(_clusters(characters))
    whole = "".join(text for text, _ in clusters)
    # Few fonts have all combining marks, so letters with marks may need a different font.
    plain = "".join(text for text, _ in clusters if len(text) == 1)
    size = _TEXT_SIZE
    while size > _LEAST_TEXT_SIZE and font_for(plain, size).getlength(whole) > _TEXT_WIDTH:
        size -= 1
    picture = Image.new("RGB", (_LABEL_WIDTH + _TEXT_WIDTH, round(1.45 * size)), _BACKGROUND)
    draw = ImageDraw.Draw(picture)
    baseline = round(1.05 * size)
    draw.text((0, baseline), label, font=font_for(label, _NOTE_SIZE), fill=_MUTED, anchor="ls")
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in whole):
        # Joined right-to-left letters cannot be placed individually.
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
    """Group each character with its combining marks. A group differs if any of its characters does."""
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
    """Draw pages with their boxes below a title, two in a row. Return the image, encoded as for ``path``."""
    drawn = [_draw_page(page) for page in pages]
    rows = [drawn[start : start + 2] for start in range(0, len(drawn), 2)]
    legend = "blue: found; red: missed; orange: false"
    return _encode(_stack([_draw_note(title), _draw_note(legend), *map(_put_side_by_side, rows)], _GAP), path)


def _draw_page(page: WorstPage) -> Image.Image:
    picture = Image.fromarray(np.ascontiguousarray(page.image))
    room = (_WIDTH - 2 * _MARGIN - _GAP) / 2
    scale = min(room / picture.width, _PAGE_HEIGHT / picture.height)
    small = _scaled(picture.convert("RGB"), scale)
    shown = Image.new("RGB", (round(room), small.height), _BACKGROUND)
    shown.paste(small, (0, 0))
    draw = ImageDraw.Draw(shown)
    for boxes, chosen, color in (
        (page.found, page.found_matched, _PAIR),
        (page.found, ~page.found_matched, _FALSE_BOX),
        (page.true, ~page.true_matched, _MISSED_BOX),
    ):
        for corners in boxes[chosen] * scale:
            draw.polygon([tuple(corner) for corner in corners.tolist()], outline=color, width=2)
    missed, false = int((~page.true_matched).sum()), int((~page.found_matched).sum())
    return _stack([shown, _draw_note(f"{page.source}: {missed} missed, {false} false", round(room))], 4, 0)


def _scaled(picture: Image.Image, scale: float) -> Image.Image:
    size = max(round(picture.width * scale), 1), max(round(picture.height * scale), 1)
    return picture.resize(size, Image.Resampling.LANCZOS)


def _draw_note(text: str, width: int = _WIDTH - 2 * _MARGIN) -> Image.Image:
    """Draw one line of small text on an image of ``width`` pixels. Text that is wider is cut off."""
    picture = Image.new("RGB", (width, round(1.5 * _NOTE_SIZE)), _BACKGROUND)
    font = font_for(text, _NOTE_SIZE)
    ImageDraw.Draw(picture).text((0, round(1.1 * _NOTE_SIZE)), text, font=font, fill=_MUTED, anchor="ls")
    return picture


def _put_side_by_side(pictures: Sequence[Image.Image]) -> Image.Image:
    turned = [picture.transpose(Image.Transpose.TRANSPOSE) for picture in pictures]
    return _stack(turned, _GAP, 0).transpose(Image.Transpose.TRANSPOSE)


def _stack(pictures: Sequence[Image.Image], gap: int, margin: int = _MARGIN) -> Image.Image:
    width = max(picture.width for picture in pictures) + 2 * margin
    height = sum(picture.height for picture in pictures) + gap * (len(pictures) - 1) + 2 * margin
    sheet = Image.new("RGB", (width, height), _BACKGROUND)
    top = margin
    for picture in pictures:
        sheet.paste(picture, (margin, top))
        top += picture.height + gap
    return sheet


def _encode(picture: Image.Image, path: Path) -> bytes:
    data = io.BytesIO()
    name = picture_format(path)
    picture.save(data, name, **({"quality": 92} if name == "JPEG" else {}))
    return data.getvalue()
