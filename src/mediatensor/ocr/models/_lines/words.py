"""Split the characters of a line into words, and compute a box around the ink of each word.

The positions that the recogniser gives for characters are wrong by up to about half a character's width. The ink has
exact edges, but does not show to which character an edge belongs. Therefore both are used: the line is cut into words
at the widest ink gap near each recognised space, and the ink on both sides of the cut determines the boxes. The boxes
of detectors are not used, because they are about 1.5 times as high as the ink.

Recognisers miss some spaces, which are added here. A logistic function decides whether a space is missing between two
characters. Its inputs are the greatest probability of a space between them and the ink gap between them. Inside words,
that probability rarely exceeds 0.001. The gap is scaled so that 0 is the line's usual gap between letters and 1 its
usual gap between words. The weights were fitted on rendered lines in fourteen languages and about fifty fonts.

In letterspaced lines, recognisers find spaces between some letters of a word. Their words are separated by the
distances between letters; see `find_letterspaced_spaces`.

The confidence of a word is computed from its characters. Networks are overconfident (Guo et al., "On Calibration of
Modern Neural Networks", 2017, https://arxiv.org/abs/1706.04599). Therefore a second logistic function computes
the probability that a word is correct from the confidences of its characters (Platt, "Probabilistic Outputs for Support
Vector Machines", 1999). The smaller the print, the more overconfident is the network. Therefore the log odds of the
least certain character are divided by a temperature (Guo et al.) that depends on the height of the words, in pixels.
The command ``python -m benchmarks.calibration.confidences --fit`` fits this dependence, and shows the accuracy of the
whole function.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .characters import Doubts, is_east_asian
from .ink import ink_band, remove_rules, runs_of_true

# For the effect of each number and predicate, see benchmarks/results/ocr_rules.md.
LEAST, GREATEST = 1e-4, 1 - 1e-5
"""Confidences of characters are limited to this range, so that logarithms are finite."""
OFFSET, OF_LEAST, OF_ALL = 0.34, 0.63, 0.65
"""Terms of the log odds that a word is correct: a constant, the weight of the log odds of the least certain character,
and the weight of the log of the product of all confidences.
"""
MAX_CONFIDENCE = 0.983
"""Upper limit of word confidences if the height of the words is not known, measured on scanned pages."""
USUAL_HEIGHT, HEIGHT_EXPONENT = 22, 0.65
"""The weight of the least certain character is multiplied by the words' height, relative to the usual height in pixels,
to this power.
"""
LEAST_HEIGHT, GREATEST_HEIGHT = 10, 38
"""Heights are limited to this range. The lines of higher words are reduced before they are read, to 48 pixels."""
FloatArray = npt.NDArray[np.float64]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom as fractions of the line's image."""
MAX_REACH = 0.85
"""Greatest extent of the line beyond the center of its first and last character, in character widths."""
INK_REACH = 0.6
"""Separate ink more than this many character widths from the first and last character is not part of the word."""
MARGIN_LEFT_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 2.5 / 48, 0.22, 0.13
"""Margin between ink and box: horizontal as a share of the image's height, vertical as a share of the ink's height."""
LETTER_INK = 0.2
"""Least share of a line's height that a letter's ink fills in a column."""
FARTHEST, MOST_LEFT_OVER = 1.1, 0.6
"""Ink farther than the first limit from every character is leftover; a line may have as much leftover ink as the second
limit. Both are in character widths. The widest letters, and the leftover ink of Latin forms and receipts, are within
the limits.
"""
LINE_SHARE, LOW_LINE_SHARE = 0.25, 0.75
"""Boxes grow from the word's ink towards top and bottom of the line by this share of the distance; the second value is
for low words.

Some annotators draw boxes around the ink of a word, others at the height of the line. Around dashes, almost all use the
height of the line.
"""
LOW_INK = 0.5
"""A word is low if its ink is lower than this share of its line's ink."""
CHECK_BOXES = "□☐☑☒"
"""Signs that are always separate words, even directly before the answer."""
WIDE_GAP, WIDER_THAN_LETTERS = 0.6, 1.2
"""An ink gap wider than both limits ends a word even without a space. The limits are a share of the ink's height and a
number of character widths, because widely spaced letters are one word.
"""
WORD_GAP = 0.3
"""Ink gap that ends a word in a line that was not read yet, as a share of the ink's height."""
BLANK_WIDTH, UNDER = 1.0, 0.3
"""An underscore is a blank to write on if its ink is at least this long, and the blank is under a letter if it extends
this far beyond the letter's center; both in heights of the line's image. Printed underscores are at most 0.45 long.
"""
SAME_IN_BOTH_CASES = frozenset("COSUVWXZcosuvwxz")
SMALL_BEFORE_COLON = 0.85
"""Letters that look the same in both cases are small if a colon after them is at least this high, relative to them."""
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

USUAL_SPACE, USUAL_GAP = 0.28, 0.06
"""Usual width of a space in addition to a letter gap, and usual letter gap, as shares of the ink's height."""
USUAL_SPACE_WEIGHT = 2
"""The usual space is averaged with the line's gaps as if it were this many gaps."""
LEAST_SPACE = 2.0
"""Least difference between gaps of words and gaps of letters, in pixels."""
LEAST_LETTER_GAP = 0.4
"""Least median gap between adjacent letters of letterspaced text, as a share of the font size."""
FEWEST_LETTERS, FEWEST_UNSPACED = 4, 0.2
"""Least number of letters of letterspaced text, and least share of its letters that recognisers do not separate by a
space from the next letter. Lists of single letters have spaces everywhere. Of 240 generated lines of three to five
letters, 186 are exact with four letters, 165 without a limit, and 163 with six letters.
"""
EM = 0.7
"""Usual font size, as a share of the image's height."""
POSITION_ERROR = 0.06
"""Usual error of the distance between two letters, as a share of the image's height."""
NARROW, WIDE = frozenset("Iijlft1.,:;!|'\u2019()[]"), frozenset("MWmw@%&\u2014")
NARROW_WIDTH, LETTER_WIDTH, CAPITAL_WIDTH, WIDE_WIDTH = 0.32, 0.54, 0.68, 0.88
"""Usual widths of characters, as shares of the font size."""
WEIGHTS = (-0.8, 1.05, 4.5, -2.1)
"""Logistic weights of a constant, a space's log probability, the ink gap, and a position inside a number."""
LEAST_GAP, GREATEST_GAP = -0.5, 1.25
"""Limits on scaled gaps, so that one gap cannot outweigh the probability of a space."""
LEAST_PROBABILITY = math.exp(-(WEIGHTS[0] + WEIGHTS[2] * GREATEST_GAP) / WEIGHTS[1])
"""Spaces with a lower probability at every step cannot be missing, however wide the gap is."""
IN_NUMBERS = frozenset("0123456789.,:/-'")
CLOSING_SIGNS = frozenset(",.;)]}")
"""Signs that follow a word without a space in all languages, so a gap before one is not a missing space."""
STOPS, QUOTATION_MARKS = frozenset(".,;:!?"), frozenset("\"'\u2019\u201d")
"""A quotation mark after a full stop seems separate, because the full stop is narrow."""
_LEFT_TO_RIGHT = re.compile(r"[a-zA-Z0-9:*./%+-]")
"""Characters that read from left to right within right-to-left text."""


def word_confidence(confidences: Sequence[float], height: float | None = None) -> float:
    """Compute the probability that a word is correct from the confidences of its one or more characters.

    ``height`` is the median height of the boxes of the line's words on the page, in pixels.

    >>> round(word_confidence([0.999, 0.998, 0.999]), 2), round(word_confidence([0.999, 0.6, 0.999]), 2)
    (0.97, 0.56)
    >>> [round(word_confidence([0.9, 0.8], height), 2) for height in (12, 24)]
    [0.67, 0.74]
    """
    known = [min(max(confidence, LEAST), GREATEST) for confidence in confidences]
    least = min(known)
    weight, limit = OF_LEAST, MAX_CONFIDENCE
    if height is not None:
        weight *= (min(max(height, LEAST_HEIGHT), GREATEST_HEIGHT) / USUAL_HEIGHT) ** HEIGHT_EXPONENT
        limit = 1.0
    odds = OFFSET + weight * math.log(least / (1 - least)) + OF_ALL * sum(map(math.log, known))
    return limit / (1 + math.exp(-odds))


@dataclass(frozen=True)
class LineCharacters:
    """Characters of one line, including spaces, ordered by their position."""

    values: Sequence[str]
    starts: FloatArray  # where each character starts, as a fraction of the width of the line's image
    stops: FloatArray
    confidences: FloatArray  # the probability of each character, in [0, 1]
    doubts: Doubts = field(default_factory=dict)


@dataclass(frozen=True)
class LineWord:
    """One word of a line: its text and box, and the box and confidence of each of its characters."""

    value: str
    box: Box
    boxes: tuple[Box, ...]
    confidences: tuple[float, ...]
    doubts: Doubts = field(default_factory=dict)

    @property
    def confidence(self) -> float:
        return word_confidence(self.confidences)

    def joined(self, *others: LineWord) -> LineWord:
        """Return this word and ``others``, which follow it, as one word."""
        words = (self, *others)
        lefts, tops, rights, bottoms = zip(*(word.box for word in words), strict=True)
        box = min(lefts), min(tops), max(rights), max(bottoms)
        boxes = tuple(box for word in words for box in word.boxes)
        shares = tuple(share for word in words for share in word.confidences)
        return LineWord("".join(word.value for word in words), box, boxes, shares)

    def part(self, start: int, stop: int) -> LineWord:
        """Return the word of the characters from ``start`` to ``stop``."""
        boxes = self.boxes[start:stop]
        left = self.box[0] if start == 0 else boxes[0][0] if boxes else self.box[0]
        right = self.box[2] if stop == len(self.value) else boxes[-1][2] if boxes else self.box[2]
        box = left, self.box[1], right, self.box[3]
        return LineWord(self.value[start:stop], box, boxes, self.confidences[start:stop])


def split_line(characters: LineCharacters, ink: npt.NDArray[np.bool_], split_after: str = "") -> list[LineWord]:
    """Split a line into words at spaces, at very wide gaps of its ``ink`` (H, W), and after ``split_after``."""
    groups = _split_at_spaces(characters.values, split_after)
    if not groups:
        return []
    ink = remove_rules(ink)
    height, width = ink.shape
    middles = (characters.starts + characters.stops) / 2 * width
    pitch = _pitch(middles, groups, height)
    first, last = middles[groups[0][0]], middles[groups[-1][-1]]
    limits = max(0.0, first - MAX_REACH * pitch), min(float(width), last + MAX_REACH * pitch)
    band = ink_band(ink[:, max(0, int(first - pitch)) : int(last + pitch) + 1])
    inside: npt.NDArray[np.bool_] = np.asarray(ink[band[0] : band[1]].any(axis=0))
    groups = _split_at_gaps(groups, characters.values, middles, inside, band[1] - band[0], pitch)
    gaps = [_gap(inside, ink, middles[a[-1]], middles[b[0]]) for a, b in pairwise(groups)]
    begins = [limits[0], *(gap[1] for gap in gaps)]
    ends = [*(gap[0] for gap in gaps), limits[1]]
    return [
        _make_word(characters, middles, group, (begin, end), inside, ink, band, pitch)
        for group, begin, end in zip(groups, begins, ends, strict=True)
    ]


def replace_blanks(values: Sequence[str], middles: FloatArray, ink: BoolArray) -> list[str]:
    """Replace underscores by spaces where a line has a blank to write on, as in ``Name___Smith``.

    ``middles`` are the centers of the characters, as columns of ``ink`` (H, W). An underscore of an underlined word has
    the rule under the letters on both sides, and stays.
    """
    text, reach = list(values), UNDER * len(ink)
    others = [place for place, value in enumerate(values) if value != "_"]
    for place in [place for place, value in enumerate(values) if value == "_"]:
        start, stop = _rule_at(ink, int(middles[place]))
        if stop - start < BLANK_WIDTH * len(ink):
            continue
        behind = bisect(others, place)
        beside = others[behind - 1 : behind + 1]
        is_inside = len(beside) == 2 and not any(values[other].isspace() for other in beside)
        if not is_inside or start > middles[beside[0]] - reach or stop < middles[beside[1]] + reach:
            text[place] = " "
    return text


def choose_case(values: Sequence[str], middles: FloatArray, ink: BoolArray) -> list[str]:
    """Decide by the height of its colon whether a word is ``cc:`` or ``CC:``, whose letters are the same in both cases.

    A colon is as high as small letters. ``middles`` are the centers of the characters, as columns of ``ink`` (H, W).
    """
    text = list(values)
    for place in [place for place, value in enumerate(values) if value == ":"]:
        begin = place
        while begin > 0 and values[begin - 1] in SAME_IN_BOTH_CASES:
            begin -= 1
        around = *values[max(begin - 1, 0) : begin], *values[place + 1 : place + 2]
        if begin == place or not all(value.isspace() for value in around):
            continue
        letters = remove_rules(ink)
        runs = runs_of_true(np.asarray(letters.any(axis=0)))
        if not len(runs):
            continue
        nearest = [int(np.abs(runs.mean(axis=1) - middles[one]).argmin()) for one in range(begin, place + 1)]
        colon = runs_of_true(np.asarray(letters[:, slice(*runs[nearest[-1]])].any(axis=1)))
        word = np.flatnonzero(letters[:, runs[nearest[0], 0] : runs[nearest[-2], 1]].any(axis=1))
        if len(colon) == 2 and len(word) and nearest[-1] not in nearest[:-1]:
            is_small = word[-1] + 1 - colon[0, 0] > SMALL_BEFORE_COLON * (word[-1] + 1 - word[0])
            text[begin:place] = [one.lower() if is_small else one.upper() for one in values[begin:place]]
    return text


def _rule_at(ink: BoolArray, column: int) -> tuple[int, int]:
    """Return (start, stop) of the longest horizontal run of ink in the lower half of a line, at or next to a column."""
    lower = ink[len(ink) // 2 :].copy()
    # A slightly rotated rule continues in the row above or below.
    lower[1:] |= ink[len(ink) // 2 : -1]
    lower[:-1] |= ink[len(ink) // 2 + 1 :]
    reach = len(ink) // 12
    runs = [(0, 0)]
    for row in lower:
        own = runs_of_true(row)
        runs += own[(own[:, 0] <= column + reach) & (own[:, 1] > column - reach)].tolist()
    start, stop = max(runs, key=lambda run: run[1] - run[0])
    return start, stop


def boxes_between_gaps(ink: npt.NDArray[np.bool_]) -> list[Box]:
    """Return relative boxes (left, top, right, bottom) between wide ink gaps; one of the whole line without ink."""
    ink = remove_rules(ink)
    height, width = ink.shape
    top, bottom = ink_band(ink)
    band_height = bottom - top
    runs = runs_of_true(np.asarray(ink[top:bottom].any(axis=0)), WORD_GAP * band_height)
    if not len(runs):
        return [(0.0, 0.0, 1.0, 1.0)]
    margin = MARGIN_LEFT_RIGHT * height
    upper = max(0.0, top - MARGIN_TOP * band_height) / height
    lower = min(float(height), bottom + MARGIN_BOTTOM * band_height) / height
    return [
        (max(0.0, left - margin) / width, upper, min(float(width), right + margin) / width, lower)
        for left, right in runs.tolist()
    ]


@dataclass(frozen=True)
class LeftOverInk:
    """Ink of a line that is far from all recognised characters."""

    columns: FloatArray  # the centers of its columns, as fractions of the width of the line's image
    limit: float  # a line may have this many such columns

    def has_letters(self, boxes: npt.NDArray[np.floating]) -> bool:
        """Return whether letters were skipped. ``boxes`` (N, 2) are the starts and stops of check boxes."""
        in_box = (self.columns[:, None] > boxes[:, 0]) & (self.columns[:, None] < boxes[:, 1])
        return int((~in_box.any(axis=1)).sum()) > self.limit


def find_left_over_ink(characters: LineCharacters, ink: npt.NDArray[np.bool_]) -> LeftOverInk | None:
    """Return the ink of check boxes, or of letters that the recogniser skipped; ``None`` if there is little."""
    groups = _split_at_spaces(characters.values, "")
    kept = [index for group in groups for index in group]
    if not kept:
        return None
    height, width = ink.shape
    middles = (characters.starts + characters.stops) / 2 * width
    # A single character may be as wide as the line is high.
    pitch = max(_pitch(middles, groups, height), 1.0) if len(kept) > 1 else float(height)
    top, bottom = ink_band(ink)
    # A rule under or through the line has ink in few rows.
    columns = np.flatnonzero(ink[top:bottom].mean(axis=0) >= LETTER_INK) + 0.5
    own = middles[kept]
    after = np.searchsorted(own, columns)
    before, behind = own[np.maximum(after - 1, 0)], own[np.minimum(after, len(own) - 1)]
    distances = np.minimum(np.abs(columns - before), np.abs(columns - behind))
    left_over = columns[distances > FARTHEST * pitch]
    limit = MOST_LEFT_OVER * pitch
    return LeftOverInk(left_over / width, limit) if len(left_over) > limit else None


def _split_at_spaces(values: Sequence[str], split_after: str) -> list[list[int]]:
    groups: list[list[int]] = [[]]
    for index, value in enumerate(values):
        if value.isspace():
            groups.append([])
            continue
        if value in CHECK_BOXES:
            groups.append([])
        groups[-1].append(index)
        if value in split_after or value in CHECK_BOXES:
            groups.append([])
    return [group for group in groups if group]


def _split_at_gaps(
    groups: list[list[int]],
    values: Sequence[str],
    middles: FloatArray,
    inside: npt.NDArray[np.bool_],
    height: int,
    pitch: float,
) -> list[list[int]]:
    """Split words, given by the indices of their characters, at wide ink gaps."""
    empty = runs_of_true(~inside)
    wide = empty[empty[:, 1] - empty[:, 0] > max(WIDE_GAP * height, WIDER_THAN_LETTERS * pitch)]
    if not len(wide):
        return groups
    cut = []
    for group in groups:
        own, begin = middles[group], 0
        for start, stop in wide.tolist():
            end = int(np.searchsorted(own, (start + stop) / 2))
            # A character far inside the gap is not its neighbour; positions are off by a part of a character.
            near = 0 < end < len(own) and own[end - 1] <= start + 0.3 * pitch and own[end] >= stop - 0.3 * pitch
            if near and end > begin and values[group[end]] not in ",.;":
                cut.append(group[begin:end])
                begin = end
        cut.append(group[begin:])
    return cut


def _pitch(middles: FloatArray, groups: list[list[int]], height: int) -> float:
    """Return the median distance in pixels between the centers of adjacent characters within words."""
    distances = np.concatenate([np.diff(middles[group]) for group in groups])
    return float(np.median(distances)) if len(distances) else 0.4 * height


def _gap(inside: npt.NDArray[np.bool_], ink: npt.NDArray[np.bool_], left: float, right: float) -> tuple[float, float]:
    """Return (start, stop) of the widest ink gap between two columns, or twice the column with the least ink."""
    # A network may place a character in the padding after the end of the line.
    start, stop = min(int(left), ink.shape[1] - 1), int(right) + 1
    empty = ~inside[start:stop]
    if empty.any():
        runs = runs_of_true(empty)
        widest = runs[np.argmax(runs[:, 1] - runs[:, 0])]
        return float(start + widest[0]), float(start + widest[1])
    emptiest = float(start + int(np.argmin(ink[:, start:stop].sum(axis=0)))) if stop > start else left
    return emptiest, emptiest


def _make_word(
    characters: LineCharacters,
    middles: FloatArray,
    group: list[int],
    limits: tuple[float, float],
    inside: npt.NDArray[np.bool_],
    ink: npt.NDArray[np.bool_],
    band: tuple[int, int],
    pitch: float,
) -> LineWord:
    height, width = ink.shape
    start = int(max(0.0, min(limits[0], middles[group[0]])))
    stop = int(np.ceil(min(float(width), max(limits[1], middles[group[-1]] + 1))))
    runs = start + runs_of_true(inside[start:stop])
    first, last = middles[group[0]], middles[group[-1]]
    own_runs = runs[(runs[:, 1] > first - INK_REACH * pitch) & (runs[:, 0] < last + INK_REACH * pitch)]
    runs = own_runs if len(own_runs) else runs
    if len(runs):
        left, right = float(runs[0, 0]), float(runs[-1, 1])
    else:
        left, right = first - pitch / 2, last + pitch / 2
    margin = MARGIN_LEFT_RIGHT * height
    left, right = max(0.0, left - margin), min(float(width), right + margin)
    own = ink_band(ink[:, int(left) : int(right) + 1])
    share = LOW_LINE_SHARE if own[1] - own[0] < LOW_INK * (band[1] - band[0]) else LINE_SHARE
    first_row = (1 - share) * own[0] + share * min(band[0], own[0])
    end_row = (1 - share) * own[1] + share * max(band[1], own[1])
    top = max(0.0, first_row - MARGIN_TOP * (end_row - first_row)) / height
    bottom = min(float(height), end_row + MARGIN_BOTTOM * (end_row - first_row)) / height
    cuts = [left, *((middles[a] + middles[b]) / 2 for a, b in pairwise(group)), right]
    cuts = np.clip(np.maximum.accumulate(cuts), left, right) / width
    return LineWord(
        "".join(characters.values[index] for index in group),
        (float(left / width), top, float(right / width), bottom),
        tuple((float(a), top, float(b), bottom) for a, b in pairwise(cuts)),
        tuple(float(characters.confidences[index]) for index in group),
        {place: characters.doubts[index] for place, index in enumerate(group) if index in characters.doubts},
    )


@dataclass(frozen=True)
class MissingSpace:
    """A space that the recogniser missed in a line."""

    index: int  # of the character before which the space belongs
    step: int  # the time step of the recogniser's output at which this space has the highest probability
    probability: float


def find_missing_spaces(
    values: Sequence[str], peaks: IntArray, middles: FloatArray, spaces: npt.NDArray[np.floating], ink: BoolArray
) -> list[MissingSpace]:
    """Find the spaces that the recogniser missed in a line, from left to right.

    ``values`` are the recognised characters, including spaces. ``peaks`` are the steps at which they are most probable,
    and ``middles`` are their centers, as columns of ``ink`` (H, W). ``spaces`` is the probability of a space at each
    step.
    """
    letters = np.array([index for index, value in enumerate(values) if not value.isspace()], dtype=np.int64)
    if len(letters) < 3:
        return []
    before, behind = letters[:-1], letters[1:]
    best = _greatest_between(spaces, peaks[before], peaks[behind])
    is_space = behind > before + 1
    doubtful = np.flatnonzero(~is_space & (best > LEAST_PROBABILITY))
    if not len(doubtful):
        return []
    gaps, runs = _gaps_between(ink, middles[before], middles[behind])
    found = []
    for place, gap in zip(doubtful.tolist(), _scale_gaps(gaps, is_space, ink)[doubtful].tolist(), strict=True):
        beside = [other for other in (place - 1, place + 1) if 0 <= other < len(best)]
        # An ink gap separates one pair of letters. If positions are inaccurate, it may seem to separate two pairs.
        if any(runs[other] == runs[place] and best[other] > best[place] for other in beside):
            continue
        left, right = values[before[place]], values[behind[place]]
        # Repeated signs, as in ++, have wide gaps.
        if right in CLOSING_SIGNS or (left == right and not left.isalnum()):
            continue
        is_last = "".join(values[behind[place] + 1 : behind[place] + 2]).strip() == ""
        if left in STOPS and right in QUOTATION_MARKS and is_last:
            continue
        if "_" in (left, right):
            # An underscore is below the letters, so it only looks like a gap in their band.
            gap = 0.0
        in_number = left in IN_NUMBERS and right in IN_NUMBERS
        evidence = np.dot(WEIGHTS, (1.0, np.log(best[place]), gap, in_number))
        if evidence > 0:
            start, stop = peaks[before[place]], peaks[behind[place]] + 1
            step = int(start + np.argmax(spaces[start:stop]))
            found.append(MissingSpace(int(behind[place]), step, float(1 / (1 + np.exp(-evidence)))))
    return found


def find_letterspaced_spaces(
    values: Sequence[str], peaks: IntArray, middles: FloatArray, spaces: npt.NDArray[np.floating], height: int
) -> list[MissingSpace] | None:
    """Find all spaces of a letterspaced line. Return ``None`` if the line is not letterspaced.

    Recognisers find spaces between some of the letters of such lines, and none between some of the words. Therefore
    mainly the distances between letters decide. The arguments are those of `find_missing_spaces`; ``height`` is the
    height of the image. The indices of the result count only letters.
    """
    letters = np.array([index for index, value in enumerate(values) if not value.isspace()], dtype=np.int64)
    distances, is_space = np.diff(middles[letters]), np.diff(letters) > 1
    if sum(map(str.isalnum, values)) < FEWEST_LETTERS or (~is_space).sum() < FEWEST_UNSPACED * len(letters):
        return None
    widths = np.array([_usual_width(values[index]) for index in letters]) * EM * height
    gaps = distances - (widths[1:] + widths[:-1]) / 2
    if any(map(is_east_asian, values)) or np.median(gaps[~is_space]) < LEAST_LETTER_GAP * EM * height:
        return None
    letter_gap = float(np.median(gaps))
    best = _greatest_between(spaces, peaks[letters[:-1]], peaks[letters[1:]])
    # Between two words, there are a space and one more additional gap.
    limit = 1.5 * letter_gap + USUAL_SPACE * EM * height / 2
    is_start = gaps + np.where(is_space, POSITION_ERROR, -POSITION_ERROR) * height > limit
    is_start &= is_space | (best > LEAST_PROBABILITY)
    return [MissingSpace(index, int(peaks[letters[index]]), 1.0) for index in (np.flatnonzero(is_start) + 1).tolist()]


def _greatest_between(spaces: npt.NDArray[np.floating], first: IntArray, last: IntArray) -> npt.NDArray[np.floating]:
    """Return the greatest probability of a space from each step ``first[i]`` to step ``last[i]``, inclusive."""
    greatest: npt.NDArray[np.floating] = np.maximum.reduceat(
        np.append(spaces, 0.0), np.stack([first, last + 1], axis=1).ravel()
    )[::2]
    return greatest


def _usual_width(character: str) -> float:
    if character in NARROW:
        return NARROW_WIDTH
    if character in WIDE:
        return WIDE_WIDTH
    return CAPITAL_WIDTH if character.isupper() else LETTER_WIDTH


def _gaps_between(ink: BoolArray, lefts: FloatArray, rights: FloatArray) -> tuple[FloatArray, IntArray]:
    """Find the widest ink gap between the columns ``lefts[i]`` and ``rights[i]``, for each index ``i``.

    Return the width of each gap (0 if there is none), and its number: the gaps of the line are numbered from left to
    right. Two pairs of columns that share a gap have the same number. Each pair without a gap has its own negative
    number.
    """
    top, bottom = ink_band(ink)
    runs = runs_of_true(~np.asarray(ink[top:bottom].any(axis=0)))
    widths, chosen = np.zeros(len(lefts)), -np.arange(1, len(lefts) + 1)
    first, end = np.searchsorted(runs[:, 1], lefts, side="right"), np.searchsorted(runs[:, 0], rights)
    sizes = runs[:, 1] - runs[:, 0]
    for place in np.flatnonzero(end > first).tolist():
        widest = first[place] + int(np.argmax(sizes[first[place] : end[place]]))
        widths[place], chosen[place] = sizes[widest], widest
    return widths, chosen


def _scale_gaps(gaps: FloatArray, is_space: BoolArray, ink: BoolArray) -> FloatArray:
    """Scale gap widths so that 0 is the line's usual gap between letters, and 1 its usual gap between words."""
    top, bottom = ink_band(ink)
    height, num_spaces = bottom - top, int(is_space.sum())
    letter = float(np.median(gaps[~is_space])) if num_spaces < len(gaps) else USUAL_GAP * height
    space = letter + USUAL_SPACE * height
    if num_spaces:
        space = (num_spaces * float(np.median(gaps[is_space])) + USUAL_SPACE_WEIGHT * space) / (
            num_spaces + USUAL_SPACE_WEIGHT
        )
    scaled: FloatArray = ((gaps - letter) / max(space - letter, LEAST_SPACE)).clip(LEAST_GAP, GREATEST_GAP)
    return scaled


def sort_words(words: Sequence[LineWord]) -> list[LineWord]:
    """Return the words of a line, and their characters, in reading order.

    PaddleOCR's networks return all characters in the order in which they appear in the image, from left to right. This
    function reverses the order for right-to-left scripts, except runs of Latin letters, digits and number signs, which
    are read from left to right. A line without right-to-left letters is not changed.
    """
    if not any(is_right_to_left(character) for word in words for character in word.value):
        return list(words)
    turned = []
    for word in words:
        order = _reverse_order([_LEFT_TO_RIGHT.fullmatch(character) is not None for character in word.value])
        value, boxes = "".join(word.value[index] for index in order), tuple(word.boxes[index] for index in order)
        turned.append(LineWord(value, word.box, boxes, tuple(word.confidences[index] for index in order)))
    are_kept = [all(map(_LEFT_TO_RIGHT.fullmatch, word.value)) for word in turned]
    return [turned[index] for index in _reverse_order(are_kept)]


def _reverse_order(are_kept: Sequence[bool]) -> list[int]:
    """Return the indices of ``are_kept`` from last to first, but keep each run of true items in ascending order."""
    order: list[int] = []
    run: list[int] = []
    for index in reversed(range(len(are_kept))):
        if are_kept[index]:
            run.insert(0, index)
        else:
            order += [*run, index]
            run = []
    return order + run


def is_right_to_left(character: str) -> bool:
    return bool(character) and unicodedata.bidirectional(character[0]) in ("R", "AL")
