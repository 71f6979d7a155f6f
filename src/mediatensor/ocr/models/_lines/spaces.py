"""Spaces that a recogniser almost saw: put in where the ink has a gap for them.

A recogniser gives every step of a line to its likeliest class. Between letters set tightly, narrow or small, and beside
brackets and hyphens, the space often loses narrowly against "no character", though the page has one. Two kinds of
evidence tell such places from the insides of words:

* the greatest probability of a space between two characters, which inside words is rarely above one in a thousand;
* the gap in the ink between them, on a scale where 0 is the usual gap between letters of this line, and 1 that between
  its words.

A logistic function of both decides. Its weights were fitted on drawn lines in fourteen languages and some fifty faces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .words_of_lines import ink_band, runs_of_true

__all__ = ["MissingSpace", "missing_spaces"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

LEAST_PROBABILITY = 0.01
"""The least probability of a space, at its best step, that is looked at."""
USUAL_SPACE, USUAL_GAP = 0.28, 0.06
"""The width of a space beyond a gap between letters, and that of such a gap, as shares of the height of the ink."""
WORTH = 2
"""How many gaps of the line's own the usual space is worth."""
LEAST_SPACE = 2.0
"""The least difference between the gaps of words and letters, in pixels."""
WEIGHTS = (-0.8, 1.05, 4.5, -2.1)
"""Of a constant, the logarithm of the probability, the gap, and being inside a number."""
IN_NUMBERS = frozenset("0123456789.,:/-'")
CLOSING = frozenset(",.;)]}")
"""Signs that stand behind a word without a space in all languages. A gap before one is that behind it, displaced."""
STOPS, QUOTATION_MARKS = frozenset(".,;:!?"), frozenset("\"'\u2019\u201d")
"""A full stop is narrow, so that the quotation mark that closes its sentence seems to stand apart."""


@dataclass(frozen=True)
class MissingSpace:
    """A space that the best path left out.

    Attributes:
        index: The character that it stands before.
        step: The step of the line where it is most probable.
        probability: How probable it is, by network and ink together.
    """

    index: int
    step: int
    probability: float


def missing_spaces(
    values: Sequence[str], peaks: IntArray, middles: FloatArray, spaces: npt.NDArray[np.floating], ink: BoolArray
) -> list[MissingSpace]:
    """Find the spaces that the best path of a line left out.

    Args:
        values: The characters of the line, spaces included.
        peaks: The step where each is most probable.
        middles: The middle of each, in columns of the ink.
        spaces: The probability of a space at each step of the line.
        ink: The ink of its picture, see :func:`ink_map`, (H, W).

    Returns:
        Spaces between characters of ``values`` that have none between them, in the order of the line.
    """
    letters = np.array([index for index, value in enumerate(values) if not value.isspace()], dtype=np.int64)
    if len(letters) < 3:
        return []
    before, behind = letters[:-1], letters[1:]
    # Every other part is from the peak of one letter to that of the next, both included.
    edges = np.stack([peaks[before], peaks[behind] + 1], axis=1).ravel()
    best = np.maximum.reduceat(np.append(spaces, 0.0), edges)[::2]
    is_space = behind > before + 1
    doubtful = np.flatnonzero(~is_space & (best > LEAST_PROBABILITY))
    if not len(doubtful):
        return []
    gaps, runs = _gaps(ink, middles[before], middles[behind])
    found = []
    for place, gap in zip(doubtful.tolist(), _on_scale(gaps, is_space, ink)[doubtful].tolist(), strict=True):
        beside = [other for other in (place - 1, place + 1) if 0 <= other < len(best)]
        # One gap parts one pair of letters. Where the steps of letters are off it seems to be that of two.
        if any(runs[other] == runs[place] and best[other] > best[place] for other in beside):
            continue
        left, right = values[before[place]], values[behind[place]]
        # Signs that are repeated, as in ++, are wide apart.
        if right in CLOSING or (left == right and not left.isalnum()):
            continue
        is_last = "".join(values[behind[place] + 1 : behind[place] + 2]).strip() == ""
        if left in STOPS and right in QUOTATION_MARKS and is_last:
            continue
        if "_" in (left, right):
            # It lies below the letters, where its ink is not seen.
            gap = 0.0
        in_number = left in IN_NUMBERS and right in IN_NUMBERS
        evidence = np.dot(WEIGHTS, (1.0, np.log(best[place]), gap, in_number))
        if evidence > 0:
            step = int(peaks[before[place]] + np.argmax(spaces[edges[2 * place] : edges[2 * place + 1]]))
            found.append(MissingSpace(int(behind[place]), step, float(1 / (1 + np.exp(-evidence)))))
    return found


def _gaps(ink: BoolArray, lefts: FloatArray, rights: FloatArray) -> tuple[FloatArray, IntArray]:
    """The widest run of columns without ink between each two places, 0 if there is none, and which run it is."""
    top, bottom = ink_band(ink)
    runs = runs_of_true(~np.asarray(ink[top:bottom].any(axis=0)))
    widths, chosen = np.zeros(len(lefts)), -np.arange(1, len(lefts) + 1)
    first, end = np.searchsorted(runs[:, 1], lefts, side="right"), np.searchsorted(runs[:, 0], rights)
    sizes = runs[:, 1] - runs[:, 0]
    for place in np.flatnonzero(end > first).tolist():
        widest = first[place] + int(np.argmax(sizes[first[place] : end[place]]))
        widths[place], chosen[place] = sizes[widest], widest
    return widths, chosen


def _on_scale(gaps: FloatArray, is_space: BoolArray, ink: BoolArray) -> FloatArray:
    """Gaps, so that 0 is the usual one between the letters of the line and 1 that between its words."""
    top, bottom = ink_band(ink)
    height, num_spaces = bottom - top, int(is_space.sum())
    letter = float(np.median(gaps[~is_space])) if num_spaces < len(gaps) else USUAL_GAP * height
    space = letter + USUAL_SPACE * height
    if num_spaces:
        space = (num_spaces * float(np.median(gaps[is_space])) + WORTH * space) / (num_spaces + WORTH)
    scaled: FloatArray = ((gaps - letter) / max(space - letter, LEAST_SPACE)).clip(-0.5, 1.25)
    return scaled
