"""Characters that a network is in doubt about, decided by those beside them: ``0`` or ``O``, ``c`` or ``e``.

The network gives a few likely characters for each place. How often characters follow each other in eighteen languages
and in numbers says which of them fits in. Only places count where the network is in doubt, and only words whose sure
characters say what they are: digits stand among digits, letters among letters. ``5O2`` stays if it was clearly seen,
and a word that has nothing but one doubtful character stays as it is.

``letters.npz`` has the counts. ``benchmarks/ocr_letters.py`` made it from the manual pages of a Debian system.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["NUM_ALTERNATIVES", "SURE", "folded", "is_spelled", "shape_of", "spelled"]

NUM_ALTERNATIVES = 4
"""How many characters are weighed against each other at a place."""
SURE = 0.9
"""A character that the network gives at least this probability stays."""
FARTHEST = 3.0
"""The greatest difference between the log probabilities of the likeliest character and one that may replace it."""
TRUST = 0.2
"""The weight of log probabilities of sequences, beside those of the network, which are about the picture."""
ADVANTAGE = 0.3
"""What a character has ahead for being the likeliest one of the network."""
KEPT = 16
"""The number of spellings of a line that are followed at the same time."""
ORDER = 4
"""The length of the longest sequences that were counted."""
SYMBOL_BITS = 7
"""The size of a symbol within the key of a sequence."""
_IN_NUMBERS = frozenset(".,:;/-+%()$")
_STOPS = frozenset(".,;:")
"""Signs that stand for each other in most places: those beside them do not tell which."""


def folded(character: str) -> str:
    """The symbol of a character whatever its case; one for all digits."""
    lower = character.lower()
    return "0" if character.isdecimal() else lower if len(lower) == 1 else character


def shape_of(character: str) -> str:
    """``U`` for capitals, ``l`` for other letters, ``0`` for digits; other characters are their own shape."""
    if character.isalpha():
        return "U" if character.isupper() else "l"
    return "0" if character.isdecimal() else character


class _Sequences:
    """How probable a symbol is after others: counts of sequences, interpolated as by Witten and Bell (1991)."""

    def __init__(
        self, keys: Mapping[int, npt.NDArray[np.int64]], counts: Mapping[int, npt.NDArray[np.float64]]
    ) -> None:
        self._tables = []
        for length in range(1, ORDER + 1):
            own_keys, own_counts = _shortened(keys, counts, length)
            contexts, starts = np.unique(own_keys >> SYMBOL_BITS, return_index=True)
            totals = np.add.reduceat(own_counts, starts)
            self._tables.append((own_keys, own_counts, contexts, totals, np.diff(np.append(starts, len(own_keys)))))
        self._num_symbols = len(self._tables[0][0])
        self.log_probability = lru_cache(maxsize=1 << 16)(self._log_probability)

    def _log_probability(self, before: tuple[int, ...], symbol: int) -> float:
        probability = 1 / self._num_symbols
        for length, (keys, counts, contexts, totals, kinds) in enumerate(self._tables):
            context = _key(before[len(before) - length :])
            place = _place(contexts, context)
            if place is None:
                break
            found = _place(keys, context << SYMBOL_BITS | symbol)
            count = 0.0 if found is None else counts[found]
            probability = (count + kinds[place] * probability) / (totals[place] + kinds[place])
        return float(np.log(probability))


def _shortened(
    keys: Mapping[int, npt.NDArray[np.int64]], counts: Mapping[int, npt.NDArray[np.float64]], length: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Keys and counts of sequences of a length, from the next longer ones where they are not listed."""
    if length in keys:
        return keys[length], counts[length]
    shortest = min(keys)
    own, places = np.unique(keys[shortest] & ((1 << SYMBOL_BITS * length) - 1), return_inverse=True)
    summed: npt.NDArray[np.float64] = np.bincount(places.reshape(-1), counts[shortest]).astype(np.float64)
    return own, summed


def _key(symbols: Sequence[int]) -> int:
    key = 0
    for symbol in symbols:
        key = key << SYMBOL_BITS | symbol
    return key


def _place(ordered: npt.NDArray[np.int64], key: int) -> int | None:
    place = int(np.searchsorted(ordered, key))
    return place if place < len(ordered) and ordered[place] == key else None


@lru_cache(maxsize=1)
def _counted() -> tuple[dict[str, int], _Sequences, _Sequences]:
    """The numbers of symbols, the sequences of folded characters, and those of shapes."""
    with np.load(Path(__file__).with_name("letters.npz"), allow_pickle=False) as file:
        symbols = {chr(point): number for number, point in enumerate(file["symbols"].tolist(), 1)}
        parts = [
            _Sequences(
                {length: np.cumsum(file[f"{name}_{length}_steps"].astype(np.int64)) for length in lengths},
                {length: 2.0 ** (file[f"{name}_{length}_counts"] / 8) for length in lengths},
            )
            for name, lengths in (("letters", (ORDER - 1, ORDER)), ("shapes", (ORDER,)))
        ]
    return symbols, parts[0], parts[1]


def is_spelled(character: str) -> bool:
    """Whether sequences with the character were counted: Latin letters, digits, and plain signs other than a space."""
    return len(character) == 1 and character != " " and folded(character) in _counted()[0]


def spelled(
    values: Sequence[str], confidences: Sequence[float], alternatives: Mapping[int, Sequence[tuple[str, float]]]
) -> list[str]:
    """The characters of a line, with the doubtful ones replaced where another one fits in better.

    Args:
        values: The characters as the network read them, spaces included.
        confidences: The probability of each.
        alternatives: For places in doubt, characters and their log probabilities, that of ``values`` among them.

    >>> "".join(spelled("20C05", (1, 1, 0.6, 1, 1), {2: [("C", -0.5), ("0", -1.0)]}))
    '20005'
    >>> "".join(spelled("5O2", (1, 0.95, 1), {1: [("O", -0.1), ("0", -3.0)]}))
    '5O2'
    """
    choices: dict[int, list[tuple[str, float]]] = {}
    for place, likely in alternatives.items():
        own = dict(likely).get(values[place])
        if own is None or confidences[place] >= SURE or (fits := _kind_at(values, confidences, place)) is None:
            continue
        others = [
            (other, score - own)
            for other, score in likely
            if other != values[place]
            and score > own - FARTHEST
            and fits(other)
            and not (values[place] in _STOPS and other in _STOPS)
        ]
        if others:
            choices[place] = [(values[place], ADVANTAGE), *others]
    return _likeliest(values, choices) if choices else list(values)


def _kind_at(values: Sequence[str], confidences: Sequence[float], place: int) -> Callable[[str], bool] | None:
    """What may stand at a place, by the sure characters of its word.

    None where these are neither letters nor digits, where the word is an address, or has letters of other scripts, and
    where there are both, as in the number of a part; but a small letter hardly stands alone among capitals and digits.
    """
    start, end = place, place + 1
    while start and values[start - 1] != " ":
        start -= 1
    while end < len(values) and values[end] != " ":
        end += 1
    if "@" in values[start:end]:
        return None
    sure = [values[i] for i in range(start, end) if confidences[i] >= SURE and i != place]
    letters, digits = sum(map(str.isalpha, sure)), sum(map(str.isdecimal, sure))
    if not letters + digits or not all(map(is_spelled, sure)):
        return None
    if letters and digits:
        return _is_not_small if values[place].islower() and not any(map(str.islower, sure)) else None
    return _is_no_digit if letters else _is_in_numbers


def _is_no_digit(character: str) -> bool:
    return not character.isdecimal()


def _is_not_small(character: str) -> bool:
    return not character.islower()


def _is_in_numbers(character: str) -> bool:
    return character.isdecimal() or character in _IN_NUMBERS


def _likeliest(values: Sequence[str], choices: Mapping[int, Sequence[tuple[str, float]]]) -> list[str]:
    """The best of all combinations, as far as ``KEPT`` at a time show."""
    numbers, letters, shapes = _counted()
    spellings: list[tuple[float, list[str]]] = [(0.0, list(values[: min(choices)]))]
    # Sequences that have the last choice in them end within the line, or at a space behind it.
    for place in range(min(choices), min(len(values) + 1, max(choices) + ORDER)):
        longer = []
        for score, text in spellings:
            for character, own in choices.get(place, [((*values, " ")[place], 0.0)]):
                tried = [*text, character]
                last = ([" "] * (ORDER - 1) + tried)[-ORDER:]
                for sequences, symbol_of in ((letters, folded), (shapes, shape_of)):
                    *before, symbol = (numbers.get(symbol_of(other), 0) for other in last)
                    own += TRUST * sequences.log_probability(tuple(before), symbol)
                longer.append((score + own, tried))
        # Sorting is stable, and the network's own character comes first.
        spellings = sorted(longer, key=lambda spelling: -spelling[0])[:KEPT]
    best = spellings[0][1][: len(values)]
    return best + list(values[len(best) :])
