"""Measures of recognised text, on plain lists and arrays, without any reader.

Counts of several pages add up, so that figures are over all words of all pages, not means of pages:

>>> score = score_words([Word("Total", (0, 0, 40, 10))], [Word("TOTAL", (0, 0, 42, 11)), Word("x", (90, 0, 95, 9))])
>>> score.end_to_end["raw"], score.end_to_end["caseless"].recall, score.detection.precision
(Count(right=0, truth=1, found=2), 1.0, 0.5)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_IOU_THRESHOLD = 0.5

#: Normalisations of texts before comparison. Texts that become empty are dropped on both sides.
NORMAL_FORMS: Mapping[str, Callable[[str], str]] = {
    "raw": str,
    "caseless": str.lower,
    "alnum": lambda text: "".join(character for character in text.lower() if character.isalnum()),
}


class Word(NamedTuple):
    """Text and the upright box around it, (x0, y0, x1, y1) in pixels. Lines of a page have the same form."""

    text: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class Count:
    """Numbers of right, true and found items."""

    right: int = 0
    truth: int = 0
    found: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.right + other.right, self.truth + other.truth, self.found + other.found)

    @property
    def recall(self) -> float:
        return self.right / self.truth if self.truth else 0.0

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 0.0

    @property
    def f1(self) -> float:
        """2 * right / (truth + found), the harmonic mean of recall and precision."""
        return 2 * self.right / (self.truth + self.found) if self.truth + self.found else 0.0


@dataclass(frozen=True)
class Errors:
    """Edits from the recognised text to the truth, and the true characters.

    Attributes:
        edits: Insertions, deletions and substitutions of characters.
        characters: Characters of the truth.
        exact, texts: Texts without a single edit, and all texts.
    """

    edits: int = 0
    characters: int = 0
    exact: int = 0
    texts: int = 0

    def __add__(self, other: Errors) -> Errors:
        return Errors(
            self.edits + other.edits,
            self.characters + other.characters,
            self.exact + other.exact,
            self.texts + other.texts,
        )

    @property
    def rate(self) -> float:
        return self.edits / self.characters if self.characters else 0.0

    @property
    def exact_rate(self) -> float:
        return self.exact / self.texts if self.texts else 0.0


@dataclass(frozen=True)
class WordScore:
    """Scores of a page, or the sum of several pages.

    Attributes:
        detection: Pairs of boxes with an IoU of at least 0.5.
        end_to_end: Such pairs with equal texts, by normal form.
        bag: Words of the page as a multiset, regardless of their position, by normal form.
    """

    detection: Count = Count()
    end_to_end: Mapping[str, Count] = field(default_factory=lambda: dict.fromkeys(NORMAL_FORMS, Count()))
    bag: Mapping[str, Count] = field(default_factory=lambda: dict.fromkeys(NORMAL_FORMS, Count()))

    def __add__(self, other: WordScore) -> WordScore:
        return WordScore(
            self.detection + other.detection,
            {form: self.end_to_end[form] + other.end_to_end[form] for form in NORMAL_FORMS},
            {form: self.bag[form] + other.bag[form] for form in NORMAL_FORMS},
        )


def box_iou(ones: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intersection over union of (N, 4) and (M, 4) boxes, as (N, M); 0 where both boxes of a pair are empty."""
    low = np.maximum(ones[:, None, :2], others[None, :, :2])
    high = np.minimum(ones[:, None, 2:], others[None, :, 2:])
    common = (high - low).clip(min=0).prod(axis=2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).clip(min=0).prod(axis=1) for boxes in (ones, others)]
    union = areas[0][:, None] + areas[1][None] - common
    overlap: NDArray[np.float64] = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
    return overlap


def score_words(truth: Sequence[Word], found: Sequence[Word]) -> WordScore:
    """Compare the words of one page.

    Boxes are paired one to one so that the sum of their IoU is largest; a pair counts if its IoU is at least 0.5. This
    is the measure of docTR's evaluation. True words without text are not scored.
    """
    truth = [word for word in truth if word.text]
    pairs = _pairs(truth, found)
    end_to_end, bag = {}, {}
    for form, normal in NORMAL_FORMS.items():
        expected, read = ([normal(word.text) for word in words] for words in (truth, found))
        right = sum(expected[i] == read[j] != "" for i, j in pairs)
        wanted, got = (Counter(text for text in texts if text) for texts in (expected, read))
        end_to_end[form] = Count(right, wanted.total(), got.total())
        bag[form] = Count((wanted & got).total(), wanted.total(), got.total())
    return WordScore(Count(len(pairs), len(truth), len(found)), end_to_end, bag)


def _pairs(truth: Sequence[Word], found: Sequence[Word]) -> list[tuple[int, int]]:
    from scipy.optimize import linear_sum_assignment

    if not truth or not found:
        return []
    overlap = box_iou(_boxes(truth), _boxes(found))
    rows, columns = linear_sum_assignment(overlap, maximize=True)
    is_match = overlap[rows, columns] >= _IOU_THRESHOLD
    return list(zip(rows[is_match].tolist(), columns[is_match].tolist(), strict=True))


def _boxes(words: Sequence[Word]) -> NDArray[np.float64]:
    return np.array([word.box for word in words], np.float64).reshape(-1, 4)


def tightened(words: Sequence[Word], share: float) -> list[Word]:
    """Crop the boxes of words by this share of their height, at the top and at the bottom."""

    def lower(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        cut = share * (box[3] - box[1])
        return box[0], box[1] + cut, box[2], box[3] - cut

    return [Word(word.text, lower(word.box)) for word in words]


def reading_order(words: Sequence[Word]) -> list[Word]:
    """Sort words by row, and each row from left to right.

    A row begins with the highest remaining word, and includes every word whose middle lies within the height of
    that word. True and found words are ordered in the same way, so that only recognition is compared.
    """
    left = sorted(words, key=lambda word: (word.box[1] + word.box[3], word.box[0]))
    ordered = []
    while left:
        _, top, _, bottom = left[0].box
        row = [word for word in left if word is left[0] or top <= (word.box[1] + word.box[3]) / 2 <= bottom]
        ordered += sorted(row, key=lambda word: word.box[0])
        taken = set(map(id, row))
        left = [word for word in left if id(word) not in taken]
    return ordered


def _letters(words: Sequence[Word]) -> str:
    """Return the text of words in reading order, caseless and without spaces."""
    return "".join("".join(word.text.split()) for word in reading_order(words)).lower()


def page_errors(truth: Sequence[Word], found: Sequence[Word]) -> Errors:
    """Count edits of the whole text of a page, in `reading_order`, caseless and without spaces."""
    return _errors(_letters([word for word in truth if word.text]), _letters(found))


def score_lines(lines: Sequence[Word], found: Sequence[Word]) -> Errors:
    """Count edits line by line: the words read in a line have their centres inside its true box.

    Caseless and without spaces. Words outside of all lines do not count.
    """
    total = Errors()
    for line in lines:
        x0, y0, x1, y1 = line.box
        inside = [
            word
            for word in found
            if x0 <= (word.box[0] + word.box[2]) / 2 <= x1 and y0 <= (word.box[1] + word.box[3]) / 2 <= y1
        ]
        total += _errors("".join(line.text.split()).lower(), _letters(inside))
    return total


def _errors(truth: str, found: str) -> Errors:
    edits = edit_distance(truth, found)
    return Errors(edits, len(truth), int(edits == 0), 1)


def edit_distance(one: str, other: str) -> int:
    """Return the minimum number of insertions, deletions and substitutions (Levenshtein) between two texts.

    >>> edit_distance("kitten", "sitting")
    3
    """
    letters = np.array([ord(character) for character in other])
    places = np.arange(len(other) + 1)
    row = places.copy()
    for number, character in enumerate(one, 1):
        # Without insertions first; an insertion costs one for each place, which a running minimum accounts for.
        best = np.minimum(row[1:] + 1, row[:-1] + (letters != ord(character)))
        row = np.minimum.accumulate(np.concatenate([[number], best]) - places) + places
    return int(row[-1])
