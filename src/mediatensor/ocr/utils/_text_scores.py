"""Metrics of recognised text: exact matches of words, and error rates of characters and words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from ...errors import InvalidArgumentError, MissingDependencyError

# Names of the comparisons, in the order of `string_match`.
MATCHES = ("raw", "caseless", "anyascii", "unicase")


def string_match(word1: str, word2: str) -> tuple[bool, bool, bool, bool]:
    """Compare two strings in four ways, from strict to lenient.

    Args:
        word1: A string.
        word2: Another string.

    Returns:
        Four bools, each True if the strings are equal in one form. The forms are, in this order: unchanged, lower case,
        ASCII ("é" becomes "e", "€" becomes "EUR"), and ASCII in lower case.

    Raises:
        MissingDependencyError: if the strings differ, one is not ASCII, and anyascii is not installed.

    >>> from mediatensor.ocr.utils.metrics import string_match
    >>> string_match("Total", "TOTAL")
    (False, True, False, True)
    """
    if word1 == word2:
        return True, True, True, True
    plain1, plain2 = _to_ascii(word1), _to_ascii(word2)
    return False, word1.lower() == word2.lower(), plain1 == plain2, plain1.lower() == plain2.lower()


def _to_ascii(text: str) -> str:
    if text.isascii():
        return text
    try:
        from anyascii import anyascii
    except ImportError:
        raise MissingDependencyError(
            f'Comparing {text!r} in ASCII needs anyascii: pip install "mediatensor[ocr]".'
        ) from None
    plain: str = anyascii(text)
    return plain


def _check_pairs(gt: Sequence[str], pred: Sequence[str]) -> None:
    for name, texts in (("gt", gt), ("pred", pred)):
        if isinstance(texts, str):
            raise InvalidArgumentError(f"{name} must be a list of strings, got the string {texts[:20]!r}: [{name}]?")
    if len(gt) != len(pred):
        raise InvalidArgumentError(f"gt and pred must be of one length, got {len(gt)} and {len(pred)} strings")


class TextMatch:
    """Metric: the share of words that are recognised without any error.

    Call `update` for each batch of words, and `summary` at the end.

    >>> from mediatensor.ocr.utils import TextMatch
    >>> metric = TextMatch()
    >>> metric.update(["Hello", "world"], ["hello", "world"])
    >>> metric.summary()
    {'raw': 0.5, 'caseless': 1.0, 'anyascii': 0.5, 'unicase': 1.0}
    >>> metric.reset()
    """

    def __init__(self) -> None:
        self.reset()

    def update(self, gt: Sequence[str], pred: Sequence[str]) -> None:
        """Compare true and recognised words, and count how many are equal.

        Args:
            gt: True words.
            pred: Recognised words, one for each true word.

        Raises:
            InvalidArgumentError: if ``gt`` and ``pred`` differ in length, or one of them is a single string.
            MissingDependencyError: if anyascii is needed and not installed; see `string_match`.
        """
        _check_pairs(gt, pred)
        for true, read in zip(gt, pred, strict=True):
            raw, caseless, anyascii, unicase = string_match(true, read)
            self.raw += raw
            self.caseless += caseless
            self.anyascii += anyascii
            self.unicase += unicase
        self.total += len(gt)

    def summary(self) -> dict[str, float]:
        """Return the shares of words that were recognised exactly, for each way of comparing them.

        Returns:
            A dict of shares in [0, 1]. Its keys are the comparisons of `string_match`: ``raw`` (unchanged),
            ``caseless`` (lower case), ``anyascii`` (ASCII) and ``unicase`` (ASCII in lower case).

        Raises:
            InvalidArgumentError: if no word was counted.
        """
        if self.total == 0:
            raise InvalidArgumentError("TextMatch has no words to summarise: call update() with at least one")
        return {name: getattr(self, name) / self.total for name in MATCHES}

    def reset(self) -> None:
        """Discard all words counted so far."""
        self.raw = self.caseless = self.anyascii = self.unicase = self.total = 0


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the minimum number of insertions, deletions and replacements between two sequences (Levenshtein).

    The rows of the edit distance table are stored as bits of Python integers, so comparing two pages of text takes
    milliseconds. (Myers, "A fast bit-vector algorithm for approximate string matching", 1999; Hyyrö, "Explaining and
    extending the bit-parallel approximate string matching algorithm of Myers", 2001.)

    Args:
        one: A string, or a list of words. The units that are edited are then characters, or words.
        other: Another string or list of words.

    >>> from mediatensor.ocr.utils.metrics import edit_distance
    >>> edit_distance("kitten", "sitting")
    3
    """
    wide, short = (one, other) if len(one) >= len(other) else (other, one)
    if not short:
        return len(wide)
    places: defaultdict[Hashable, int] = defaultdict(int)
    for index, item in enumerate(wide):
        places[item] |= 1 << index
    everywhere, last = (1 << len(wide)) - 1, 1 << (len(wide) - 1)
    # Bits mark positions where the table grows, or falls, by one.
    grows, falls, distance = everywhere, 0, len(wide)
    for item in short:
        equal = places.get(item, 0)
        steady = equal | falls
        across = (((equal & grows) + grows) ^ grows) | equal
        right_grows, right_falls = falls | (everywhere & ~(across | grows)), grows & across
        distance += bool(right_grows & last) - bool(right_falls & last)
        right_grows, right_falls = (right_grows << 1) | 1, right_falls << 1
        grows = (right_falls | ~(steady | right_grows)) & everywhere
        falls = right_grows & steady
    return distance


def aligned(true: str, read: str) -> list[tuple[str, str]]:
    """Pair the characters of two texts so that the number of edits is minimal (Wagner and Fischer, 1974).

    A character without a counterpart in the other text is paired with ``""``. If several alignments have the minimum
    number of edits, replacements are preferred to deletions and insertions.

    >>> from mediatensor.ocr.utils._text_scores import aligned
    >>> aligned("cats", "cut")
    [('c', 'c'), ('a', 'u'), ('t', 't'), ('s', '')]
    """
    shorter = min(len(true), len(read))
    start = next((i for i in range(shorter) if true[i] != read[i]), shorter)
    rest = shorter - start
    end = next((i for i in range(rest) if true[-1 - i] != read[-1 - i]), rest)
    one, other = true[start : len(true) - end], read[start : len(read) - end]
    columns = np.arange(len(other) + 1, dtype=np.int32)
    codes = np.array([ord(character) for character in other], dtype=np.int32)
    table = np.empty((len(one) + 1, len(other) + 1), dtype=np.int32)
    table[0] = columns
    for row, character in enumerate(one, 1):
        table[row, 0] = row
        table[row, 1:] = np.minimum(table[row - 1, 1:] + 1, table[row - 1, :-1] + (codes != ord(character)))
        # Insertions extend along the row: entry j is the minimum of entry k + j - k over all k <= j.
        table[row] = np.minimum.accumulate(table[row] - columns) + columns
    pairs, i, j = [], len(one), len(other)
    while i or j:
        if i and j and table[i, j] == table[i - 1, j - 1] + (one[i - 1] != other[j - 1]):
            i, j = i - 1, j - 1
            pairs.append((one[i], other[j]))
        elif i and table[i, j] == table[i - 1, j] + 1:
            i -= 1
            pairs.append((one[i], ""))
        else:
            j -= 1
            pairs.append(("", other[j]))
    same = [(character, character) for character in true]
    return same[:start] + pairs[::-1] + same[len(true) - end :]


class _ErrorRate:
    """Base class of error rates: edits of units, such as characters, divided by the number of true units."""

    def __init__(self) -> None:
        self.reset()

    def _units(self, text: str) -> Sequence[str]:
        raise NotImplementedError

    def update(self, gt: Sequence[str], pred: Sequence[str]) -> None:
        """Compare true and recognised texts, and count their edits and lengths.

        Args:
            gt: True texts, such as words, lines or pages.
            pred: Recognised texts, one for each true text.

        Raises:
            InvalidArgumentError: if ``gt`` and ``pred`` differ in length, or one of them is a single string.
        """
        _check_pairs(gt, pred)
        for true, read in zip(gt, pred, strict=True):
            units = self._units(true)
            self.edits += edit_distance(units, self._units(read))
            self.total += len(units)

    def summary(self) -> float | None:
        """Return the error rate, or None if the true texts are empty.

        It is 0 for perfect texts, and can exceed 1 if many units are inserted.
        """
        return self.edits / self.total if self.total else None

    def reset(self) -> None:
        self.edits = self.total = 0


class CharacterErrorRate(_ErrorRate):
    """Character error rate (CER): number of wrong characters, divided by the number of characters in the true texts.

    Insertions, deletions and replacements count as errors. A character is a Unicode code point, and spaces count. Texts
    are not normalised before they are compared. Errors and characters are added up over all texts before the division,
    so longer texts have more weight.

    >>> from mediatensor.ocr.utils import CharacterErrorRate
    >>> metric = CharacterErrorRate()
    >>> metric.update(["TOTAL 12.50", "CASH"], ["T0TAL 12.50", "CASH"])
    >>> metric.summary() == 1 / 15
    True
    >>> metric.reset()
    """

    def _units(self, text: str) -> Sequence[str]:
        return text


class WordErrorRate(_ErrorRate):
    """Word error rate (WER): number of wrong words, divided by the number of words in the true texts.

    Insertions, deletions and replacements count as errors. Words are separated by white space. Errors and words are
    added up over all texts before the division.

    >>> from mediatensor.ocr.utils import WordErrorRate
    >>> metric = WordErrorRate()
    >>> metric.update(["the quick brown fox"], ["the quick fox"])
    >>> metric.summary()
    0.25
    """

    def _units(self, text: str) -> Sequence[str]:
        return text.split()
