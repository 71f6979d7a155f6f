"""The invisible words of a searchable PDF: their font, whose glyphs show nothing, and where they are placed."""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .reading import one_line
from .regions import TextRow

# Programs that extract text take the height of a glyph from the font, and ignore a descent of 0. The box of this one is
# as wide as the em, from 0.2 below the baseline to 0.8 above it; the space is a twentieth of the em wide.
_FONT = Path(__file__).with_name("glyphless.ttf")
_NAME = "Invisible00000000"

ASCENT = 0.8
GLYPH_WIDTH = 1.0
SPACE_CODE = 1
# A code takes two bytes.
MAX_CODES = 65_000
# UTF-16 code units; an entry of the CMap may have 512 bytes.
MAX_UNITS = 200
_FIRST_FREE = 2
_ENTRIES_PER_SECTION = 100


def font_file(name: str) -> bytes:
    """Return the glyphless font as a TrueType file: the missing glyph, a box for text, and a space.

    ``name`` replaces the stored name, which has the same length: PDFium merges fonts of the same name on a page.
    """
    font = _FONT.read_bytes()
    names = _NAME.encode("utf-16-be"), name.encode("utf-16-be")
    assert len(names[0]) == len(names[1])
    font = font.replace(*names)
    # The checksum of the table of names: the sum of its 32-bit words (OpenType 1.9, chapter 'OpenType font file').
    entry = font.index(b"name") + 4
    start, length = struct.unpack_from(">II", font, entry + 4)
    words = struct.unpack_from(f">{(length + 3) // 4}I", font, start)
    return font[:entry] + struct.pack(">I", sum(words) & 0xFFFFFFFF) + font[entry + 4 :]


class FontCodes:
    """The character codes of one font, and the texts that they represent."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def encode(self, texts: Sequence[str]) -> list[int]:
        """Return a code for each text of 1 to `MAX_UNITS` UTF-16 code units, and then the code of the space."""
        codes = [self._codes.setdefault(text, len(self._codes) + _FIRST_FREE) for text in texts]
        return [*codes, SPACE_CODE]

    def unicode_map(self) -> bytes:
        """Return the CMap (``ToUnicode``) that maps the codes to their texts."""
        entries = [f"<{SPACE_CODE:04X}> <0020>"]
        entries += [f"<{code:04X}> <{text.encode('utf-16-be').hex()}>" for text, code in self._codes.items()]
        sections = [
            entries[start : start + _ENTRIES_PER_SECTION] for start in range(0, len(entries), _ENTRIES_PER_SECTION)
        ]
        return "\n".join(
            [
                "/CIDInit /ProcSet findresource begin",
                "12 dict begin",
                "begincmap",
                "/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def",
                "/CMapName /Adobe-Identity-UCS def",
                "/CMapType 2 def",
                "1 begincodespacerange",
                "<0000> <FFFF>",
                "endcodespacerange",
                *("\n".join([f"{len(section)} beginbfchar", *section, "endbfchar"]) for section in sections),
                "endcmap",
                "CMapName currentdict /CMap defineresource pop",
                "end",
                "end",
            ]
        ).encode("ascii")

    def glyph_map(self) -> bytes:
        """Return the glyph of each code: the missing glyph, the space, and the box for all other codes."""
        return struct.pack(f">{_FIRST_FREE + len(self._codes)}H", 0, 2, *[1] * len(self._codes))


# Minimum side of a word in points: a thinner word cannot be selected, and one of size 0 cannot be written.
_MIN_SIDE = 0.1
# Programs that extract text start a new word if a glyph is off the line of the previous glyph, measured across the
# nearest axis, and drop glyphs that nearly overlap as printed twice. A word is therefore written as a single glyph if
# it drifts by more than this number of points, or if its glyphs are narrower than this share of its height.
_MAX_DRIFT = 0.4
_MIN_ADVANCE = 0.2
# They also ignore written spaces and rely on gaps: Poppler needs 0.15 of the height between words, and 0.4 on a line of
# single letters, which could be one widely spaced word. Boxes of words may touch or overlap. Words that are closer than
# this share of the height are therefore narrowed, in proportion to their widths, by at most the last share of their
# width.
_MIN_GAP = 0.2
_MIN_LETTER_GAP = 0.45
_MAX_YIELD = 0.45
# They treat words as neighbours if their baselines start within this share of the height, measured across the nearest
# axis. Skewed lines rise into each other, so that words of two lines may qualify, unless they overlap by more. Text of
# skewed lines is therefore written with a smaller height.
_MAX_OFFSET = 0.6
_MAX_SKEWED_OFFSET = 1.5
_MAX_SKEWED_OVERLAP = 1.0
_SKEWED_HEIGHT = 0.6
_ROWS_AT_ONCE = 512
_LEFT_TO_RIGHT = frozenset({"L", "EN", "AN"})
_RIGHT_TO_LEFT = frozenset({"R", "AL"})


@dataclass(frozen=True)
class PlacedText:
    """A sequence of glyphs of equal width, and its position on the page.

    Attributes:
        glyphs: The text of each glyph, from left to right.
        matrix: The map from text space at font size 1 to points of the page: a, b, c, d, e, f of the operator ``Tm``.
    """

    glyphs: tuple[str, ...]
    matrix: tuple[float, float, float, float, float, float]


def place_words(
    rows: Iterable[TextRow], matrix: NDArray[np.float64], own_letters: NDArray[np.float64] | None = None
) -> list[PlacedText]:
    """Place the words of a page where they were found.

    In a table cell whose words have unknown places, the words share the box of the cell in proportion to their lengths.

    Args:
        rows: The lines of the page, in reading order.
        matrix: (3, 2): maps (x, y, 1) in pixels, with y down, to points, with y up.
        own_letters: (N, 2): the centres, in points, of the letters that the page already has as text. A word is left
            out if its box contains at least half as many of them as it has characters.
    """
    words: list[str] = []
    quads: list[NDArray[np.float64]] = []
    tokens = [token for row in rows for token in row.tokens]
    if own_letters is not None and len(own_letters):
        # Before cells are divided: their words are elsewhere in the cell, but their letters are all in it.
        boxes = [token.place.quad @ matrix[:2] + matrix[2] for token in tokens]
        are_known = _are_known([token.text.replace(" ", "") for token in tokens], boxes, own_letters)
        tokens = [token for token, known in zip(tokens, are_known, strict=True) if not known]
    for token in tokens:
        top_left, top_right, bottom_right, bottom_left = token.place.quad @ matrix[:2] + matrix[2]
        text = _visual_order(one_line(token.text))
        position = 0
        for word in text.split(" "):
            if word:
                shares = np.array([position, position + len(word)]) / len(text)
                top, bottom = (
                    start + shares[:, None] * (end - start)
                    for start, end in ((top_left, top_right), (bottom_left, bottom_right))
                )
                words.append(word)
                quads.append(np.stack([top[0], top[1], bottom[1], bottom[0]]))
            position += len(word) + 1
    if not words:
        return []
    placed = []
    for word, quad in zip(words, _move_apart(np.stack(quads), np.array([len(word) for word in words])), strict=True):
        along, up = _sides(*_mean_sides(quad))
        placed.append(_place_word(word, quad.mean(axis=0) - along / 2 - up / 2, along, up))
    return placed


def _are_known(words: list[str], quads: list[NDArray[np.float64]], letters: NDArray[np.float64]) -> list[bool]:
    """Return for each word whether its box contains at least half as many letters as it has characters."""
    letters = letters[letters[:, 1].argsort()]
    are_known = []
    for word, quad in zip(words, quads, strict=True):
        along, up = _sides(*_mean_sides(quad))
        first, last = np.searchsorted(letters[:, 1], [quad[:, 1].min(), quad[:, 1].max()])
        axes = np.stack([along, up])
        if not np.linalg.det(axes):
            are_known.append(False)
            continue
        places = (letters[first:last] - quad.mean(axis=0)) @ np.linalg.inv(axes)
        are_known.append(2 * int((np.abs(places) <= 0.5).all(axis=1).sum()) >= len(word))
    return are_known


def _mean_sides(quads: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the vectors of quads (..., 4, 2) along the text and upwards, each the mean of two opposite sides."""
    top_left, top_right, bottom_right, bottom_left = np.moveaxis(quads, -2, 0)
    return (top_right - top_left + bottom_right - bottom_left) / 2, (
        top_left - bottom_left + top_right - bottom_right
    ) / 2


def _move_apart(quads: NDArray[np.float64], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Move the quads (N, 4, 2) of words apart, so that programs that extract text keep the words separate."""
    along, up = _mean_sides(quads)
    is_skewed = np.abs(along).min(axis=1) > _MAX_DRIFT
    quads = quads.copy()
    cut = (is_skewed * (1.0 - _SKEWED_HEIGHT) / 2)[:, None] * up
    quads[:, [0, 1]] -= cut[:, None]
    quads[:, [2, 3]] += cut[:, None]
    up = up - 2 * cut
    heights = np.linalg.norm(up, axis=1)
    axes = np.zeros_like(along)
    nearest = np.abs(along).argmax(axis=1)
    axes[np.arange(len(along)), nearest] = np.sign(along[np.arange(len(along)), nearest])
    widths = (along * axes).sum(axis=1)
    reach = np.where(is_skewed, _MAX_SKEWED_OFFSET, _MAX_OFFSET)
    baselines = quads[:, 3] + up * (1.0 - ASCENT)
    centers = baselines + along / 2
    at_start, at_end = np.zeros(len(quads)), np.zeros(len(quads))
    for first in range(0, len(quads), _ROWS_AT_ONCE):
        left = slice(first, first + _ROWS_AT_ONCE)
        distances = ((centers[None] - centers[left, None]) * axes[left, None]).sum(axis=2)
        to_others = baselines[None] - baselines[left, None]
        offsets = np.abs(to_others[..., 0] * axes[left, None, 1] - to_others[..., 1] * axes[left, None, 0])
        tallest = np.maximum(heights[left, None], heights[None])
        both = widths[left, None] + widths[None]
        gaps = distances - both / 2
        is_beside = (distances > 0) & (axes[left] @ axes.T > 0)
        is_beside &= (offsets < _MAX_OFFSET * tallest) | (
            (offsets < reach[left, None] * tallest) & (gaps > -_MAX_SKEWED_OVERLAP * tallest)
        )
        are_letters = (lengths[left, None] == 1) & (lengths[None] == 1)
        wanted = np.where(are_letters, _MIN_LETTER_GAP, _MIN_GAP) * tallest
        missing = np.where(is_beside, wanted - gaps, 0.0).clip(0.0)
        shares = missing / np.maximum(both, np.finfo(np.float64).tiny)
        at_end[left] = shares.max(axis=1)
        at_start = np.maximum(at_start, shares.max(axis=0))
    quads[:, [0, 3]] += (np.minimum(at_start, _MAX_YIELD)[:, None] * along)[:, None]
    quads[:, [1, 2]] -= (np.minimum(at_end, _MAX_YIELD)[:, None] * along)[:, None]
    return quads


def _sides(along: NDArray[np.float64], up: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sides of a quad, lengthened if they are too short for text."""
    if np.hypot(*along) < _MIN_SIDE:
        along = np.array([up[1], -up[0]]) if np.hypot(*up) >= _MIN_SIDE else np.array([1.0, 0.0])
        along = along * (_MIN_SIDE / np.hypot(*along))
    if np.hypot(*up) < _MIN_SIDE:
        up = np.array([-along[1], along[0]]) * (_MIN_SIDE / np.hypot(*along))
    return along, up


def _place_word(
    word: str, start: NDArray[np.float64], along: NDArray[np.float64], up: NDArray[np.float64]
) -> PlacedText:
    splits = np.abs(along).min() > _MAX_DRIFT or np.hypot(*along) < _MIN_ADVANCE * len(word) * np.hypot(*up)
    whole = splits and len(word.encode("utf-16-be")) <= 2 * MAX_UNITS
    glyphs = (word,) if whole else tuple(word)
    advance = along / (len(glyphs) * GLYPH_WIDTH)
    origin = start + up * (1.0 - ASCENT)
    (a, b), (c, d), (e, f) = advance.tolist(), up.tolist(), origin.tolist()
    return PlacedText(glyphs, (a, b, c, d, e, f))


def _visual_order(text: str) -> str:
    """Return the text in visual order, from left to right, the order in which programs extract text from a PDF.

    Text with right-to-left letters is reversed, except for its numbers and left-to-right words. This is the
    bidirectional algorithm (UAX #9) for a single word.
    """
    if not any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in text):
        return text
    runs = groupby(text, key=lambda character: unicodedata.bidirectional(character) in _LEFT_TO_RIGHT)
    pieces = ["".join(run) if keeps_order else "".join(run)[::-1] for keeps_order, run in runs]
    return "".join(reversed(pieces))
