"""PDF text: from the characters that PDFium finds on a page to words with boxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...utils.geometry import box_around, to_corners
from .._elements.leaves import Character, Word

__all__ = ["PageCharacters", "places_of_words", "words_of"]

# PDFium's code for a hyphen at the end of a line, where the word continues on the next line.
_BROKEN_HYPHEN = 0x02
# Codes of characters for which the font defines no Unicode value.
_UNKNOWN = (0x0, 0xFFFE, 0xFFFF)
_REPLACEMENT = 0xFFFD


class PageCharacters(NamedTuple):
    """Characters in the order of the file.

    Attributes:
        codes: (N,) uint32: Unicode code points, or halves of surrogate pairs.
        boxes: (N, 4) float64: xmin, ymin, xmax, ymax relative to the page; NaN for a character without a box.
    """

    codes: NDArray[np.uint32]
    boxes: NDArray[np.float64]


def words_of(characters: PageCharacters) -> list[Word]:
    """Split characters into words at spaces and line ends; words that lie entirely outside the page are left out."""
    return [word for _, _, word in places_of_words(characters)]


def places_of_words(characters: PageCharacters) -> list[tuple[int, int, Word]]:
    """The words as from `words_of`, each after its first character and the one that follows its last."""
    codes = characters.codes.copy()
    codes[np.isin(codes, _UNKNOWN)] = _REPLACEMENT
    is_hyphen = codes == _BROKEN_HYPHEN
    codes[is_hyphen] = ord("-")
    is_space = np.array([code < 0x20 or chr(code).isspace() for code in codes.tolist()], bool)
    begins = np.ones(len(codes), bool)
    begins[1:] = is_space[:-1] | is_hyphen[:-1]
    begins &= ~is_space
    starts = np.flatnonzero(begins)
    ends = np.flatnonzero(is_space | np.append(begins[1:], True))
    stops = ends[np.searchsorted(ends, starts)]
    found = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        last = stop if is_space[stop] else stop + 1
        word = _word(codes[start:last], characters.boxes[start:last])
        if word is not None:
            found.append((start, last, word))
    return found


def _word(codes: NDArray[np.uint32], boxes: NDArray[np.float64]) -> Word | None:
    is_seen = np.isfinite(boxes).all(axis=1) & (boxes[:, :2] < 1).all(axis=1) & (boxes[:, 2:] > 0).all(axis=1)
    if not is_seen.any():
        return None
    on_page = boxes[is_seen].clip(0, 1)
    letters = [
        Character(letter, 1.0, ((box[0], box[1]), (box[2], box[3])))
        for letter, box in zip(_letters(codes[is_seen]), on_page.tolist(), strict=True)
        if letter
    ]
    value = "".join(letter.value for letter in letters)
    return Word(value, 1.0, to_corners(box_around(on_page)), 1.0, {"value": 0, "confidence": None}, characters=letters)


def _letters(codes: NDArray[np.uint32]) -> list[str]:
    """The text of each character; the first half of a surrogate pair gets the whole character, the second none."""
    letters = [chr(code) for code in codes.tolist()]
    for number in range(len(letters) - 1):
        if "\ud800" <= letters[number] <= "\udbff" and "\udc00" <= letters[number + 1] <= "\udfff":
            pair = letters[number] + letters[number + 1]
            letters[number], letters[number + 1] = pair.encode("utf-16", "surrogatepass").decode("utf-16"), ""
    return ["\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in letters]
