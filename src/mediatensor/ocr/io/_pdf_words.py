"""Words as they are laid over the image of a page in a PDF: pure arithmetic."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ._glyphless_font import ASCENT, GLYPH_WIDTH, MAX_UNITS
from ._plain_text import one_line
from ._regions import TextRow

__all__ = ["PlacedText", "placed_words"]

# Sides of a word, in points; a thinner one could not be selected, and one of 0 not be written at all.
_MIN_SIDE = 0.1
# Programs that extract text begin a new word where a glyph is off the line of the one before, along the nearest axis,
# and take glyphs that nearly lie on each other for one printed twice. Words that drift by more points, or have less
# width for a glyph than this share of their height, are one glyph.
_MAX_DRIFT = 1.0
_MIN_ADVANCE = 0.2
# They show a space between two words only where there is some: this share of the height. Words that are closer, or
# overlap by less than the other share, give way, each by half of what is wanting.
_MIN_GAP = 0.15
_MAX_OVERLAP = 0.1
_LEFT_TO_RIGHT = frozenset({"L", "EN", "AN"})
_RIGHT_TO_LEFT = frozenset({"R", "AL"})


@dataclass(frozen=True)
class PlacedText:
    """Glyphs of equal width and where they are.

    Attributes:
        glyphs: What each glyph stands for, from left to right.
        matrix: From the space of a font of size 1 to points of the page: a, b, c, d, e, f of the PDF operator ``Tm``.
    """

    glyphs: tuple[str, ...]
    matrix: tuple[float, float, float, float, float, float]


def placed_words(row: TextRow, points_per_pixel: float, page_height: float) -> Iterator[PlacedText]:
    """Lay what stands in a line over the page, each word over its place.

    Args:
        row: The line, its places in pixels, y down.
        points_per_pixel: Scale of the page.
        page_height: Height of the page in points; its y points up.

    Yields:
        One text a word; the words of a cell share its place by their lengths.
    """
    if not row.tokens:
        return
    quads = np.stack([token.place.quad for token in row.tokens]) * points_per_pixel
    quads[..., 1] = page_height - quads[..., 1]
    for token, quad in zip(row.tokens, _spaced(quads), strict=True):
        along, up = _sides((quad[1] - quad[0] + quad[2] - quad[3]) / 2, (quad[0] - quad[3] + quad[1] - quad[2]) / 2)
        start = quad.mean(axis=0) - along / 2 - up / 2
        words = _visual_order(one_line(token.text)).split(" ")
        length = sum(map(len, words)) + len(words) - 1
        position = 0
        for word in words:
            if word:
                yield _placed(word, start + along * (position / length), along * (len(word) / length), up)
            position += len(word) + 1


def _spaced(quads: NDArray[np.float64]) -> NDArray[np.float64]:
    """The quads of a line, (N, 4, 2), with some space between neighbours."""
    axis = (quads[:, [1, 2]] - quads[:, [0, 3]]).sum(axis=(0, 1))
    axis = axis / max(float(np.hypot(*axis)), np.finfo(np.float64).tiny)
    starts, ends = quads[:, [0, 3]].mean(axis=1) @ axis, quads[:, [1, 2]].mean(axis=1) @ axis
    order = np.argsort(starts, kind="stable")
    left, right = order[:-1], order[1:]
    heights = np.linalg.norm(quads[:, 0] - quads[:, 3], axis=1)[left]
    gaps = starts[right] - ends[left]
    wanted = np.where(gaps >= -_MAX_OVERLAP * heights, np.maximum(_MIN_GAP * heights - gaps, 0.0), 0.0)
    # Never more than a quarter of a word at either end.
    widths = ends - starts
    wanted = np.minimum(wanted, np.minimum(widths[left], widths[right]).clip(0.0) / 2)
    shifts = (wanted / 2)[:, None, None] * axis
    spaced = quads.copy()
    spaced[left[:, None], [1, 2]] -= shifts
    spaced[right[:, None], [0, 3]] += shifts
    return spaced


def _sides(along: NDArray[np.float64], up: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The sides of a place, mended where they are too short to hold text."""
    if np.hypot(*along) < _MIN_SIDE:
        along = np.array([up[1], -up[0]]) if np.hypot(*up) >= _MIN_SIDE else np.array([1.0, 0.0])
        along = along * (_MIN_SIDE / np.hypot(*along))
    if np.hypot(*up) < _MIN_SIDE:
        up = np.array([-along[1], along[0]]) * (_MIN_SIDE / np.hypot(*along))
    return along, up


def _placed(word: str, start: NDArray[np.float64], along: NDArray[np.float64], up: NDArray[np.float64]) -> PlacedText:
    splits = np.abs(along).min() > _MAX_DRIFT or np.hypot(*along) < _MIN_ADVANCE * len(word) * np.hypot(*up)
    whole = splits and len(word.encode("utf-16-be")) <= 2 * MAX_UNITS
    glyphs = (word,) if whole else tuple(word)
    advance = along / (len(glyphs) * GLYPH_WIDTH)
    origin = start + up * (1.0 - ASCENT)
    (a, b), (c, d), (e, f) = advance.tolist(), up.tolist(), origin.tolist()
    return PlacedText(glyphs, (a, b, c, d, e, f))


def _visual_order(text: str) -> str:
    """The text as it is seen from left to right, which is how text in a PDF is read back.

    Of text with letters that are written from right to left, all is reversed but numbers and words that run the
    other way: the bidirectional algorithm (UAX #9) for the length of one word.
    """
    if not any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in text):
        return text
    runs = groupby(text, key=lambda character: unicodedata.bidirectional(character) in _LEFT_TO_RIGHT)
    pieces = ["".join(run) if keeps_order else "".join(run)[::-1] for keeps_order, run in runs]
    return "".join(reversed(pieces))
