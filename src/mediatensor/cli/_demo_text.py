"""The part of the demo that reads text: a page made here, and a frame of the video made here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from .._atomic_files import writing
from ..decoders import VideoDecoder
from ..errors import MissingDependencyError, WeightsNotFoundError
from . import _text
from ._console import emit
from ._demo_lines import row, timed

__all__ = ["PAGE_LINES", "WrittenWord", "are_read", "draw_page", "read_texts"]

#: What stands on the page: (distance from the left in pixels, height of the letters in pixels, text).
PAGE_LINES: tuple[tuple[tuple[int, int, str], ...], ...] = (
    ((60, 44, "Delivery note 2048"),),
    ((60, 24, "Video, audio, images and documents become tensors,"),),
    ((60, 24, "and the text in their pixels becomes data."),),
    ((60, 26, "Article"), (420, 26, "Pieces"), (620, 26, "Price")),
    ((60, 26, "Frames, exact to the bit"), (420, 26, "300"), (620, 26, "$12.50")),
    ((60, 26, "Pages of any length"), (420, 26, "17"), (620, 26, "$8.99")),
    ((60, 26, "Total"), (620, 26, "$21.49")),
)
_PAGE_SIZE = (800, 560)
_MARGIN, _LINE_STEP = 40, 70


class WrittenWord(NamedTuple):
    """A word and the box around it, x0, y0, x1, y1 in pixels."""

    text: str
    box: tuple[float, float, float, float]


def draw_page() -> tuple[Image.Image, list[WrittenWord]]:
    """The page, and the words on it."""
    page = Image.new("RGB", _PAGE_SIZE, "white")
    draw = ImageDraw.Draw(page)
    words = []
    for number, line in enumerate(PAGE_LINES):
        baseline = _MARGIN + _LINE_STEP * (number + 0.7)
        for left, size, text in line:
            font = ImageFont.load_default(size)
            written = ""
            for word in text.split():
                place = (left + font.getlength(written), baseline)
                draw.text(place, word, font=font, fill="black", anchor="ls")
                words.append(WrittenWord(word, draw.textbbox(place, word, font=font, anchor="ls")))
                written += f"{word} "
    table = _MARGIN + 3 * _LINE_STEP
    draw.line((_MARGIN, table, _PAGE_SIZE[0] - _MARGIN, table), fill="gray", width=2)
    return page, words


def read_texts(file: str, folder: Path) -> list[tuple[bool, str]]:
    """Read a page and a frame, print what was found, and draw it into pictures.

    Args:
        file: The video that `write_test_pattern` made.
        folder: Gets the page and the pictures.

    Returns:
        (whether it is right, a sentence) for each check; none if the models are not installed.
    """
    from ..ocr.models import ocr_predictor

    try:
        predictor, elapsed = timed(lambda: ocr_predictor(pretrained=True))
        emit(row("ocr_predictor(pretrained=True)", "", elapsed))
        return [_check_page(predictor, folder), _check_frame(predictor, file, folder)]
    except (WeightsNotFoundError, MissingDependencyError) as error:
        emit(f"  no text was read: {error}")
        return []


def _check_page(predictor: Any, folder: Path) -> tuple[bool, str]:
    page, written = draw_page()
    _save(page, folder / "page.png")
    pixels = np.array(page)
    document, elapsed = timed(lambda: predictor([pixels]))
    words = _words(document)
    emit(row("predictor([page])", _text.count(len(words), "word"), elapsed))
    _save(_overlay(document), folder / "page-read.png")
    is_right = are_read(written, words, page.size) and len(words) == len(written)
    return is_right, f"{len(written)} words of a page, read as they were written and where they were written"


def _check_frame(predictor: Any, file: str, folder: Path) -> tuple[bool, str]:
    """The test pattern shows its time and the number of the frame."""
    with VideoDecoder(file) as decoder:
        number = 2 * len(decoder) // 5 + 3
        frame = decoder.get_frame_at(number)
    document, elapsed = timed(lambda: predictor([frame.data]))
    words = _words(document)
    shown = [_shown_time(frame.pts_seconds), str(number)]
    found = [word.value for word in words]
    emit(row(f"predictor([decoder[{number}]])", _text.shorten(" ".join(found), 38), elapsed))
    _save(_overlay(document), folder / "frame-read.png")
    return set(shown) <= set(found), f"time and number, {' and '.join(shown)}, read in the picture of a frame"


def _overlay(document: Any) -> Image.Image:
    from ..ocr.utils.visualization import overlay

    return Image.fromarray(overlay(document.pages[0]))


def _shown_time(seconds: float) -> str:
    """As FFmpeg's pattern writes it.

    >>> _shown_time(4.1)
    '00:00:04.100'
    """
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


def _words(document: Any) -> list[Any]:
    return [word for page in document.pages for block in page.blocks for line in block.lines for word in line.words]


def are_read(written: Sequence[WrittenWord], words: Sequence[Any], size: tuple[int, int]) -> bool:
    """Whether each word was read, with the middle of its box where it stands.

    Args:
        written: What stands there.
        words: What was read: elements with ``value`` and ``geometry``.
        size: (width, height) of the page.
    """
    middles = [(word.value, np.asarray(word.geometry, np.float64).mean(axis=0) * size) for word in words]
    return all(
        any(text == value and x0 <= x <= x1 and y0 <= y <= y1 for value, (x, y) in middles)
        for text, (x0, y0, x1, y1) in written
    )


def _save(picture: Image.Image, path: Path) -> None:
    with writing(path) as file:
        picture.save(file, "PNG")
