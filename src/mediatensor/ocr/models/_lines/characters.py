"""Decode a recogniser's class probabilities for a line into characters, and correct uncertain characters.

Decoding follows A. Graves, "Supervised Sequence Labelling with Recurrent Neural Networks" (2012), section 7.5.1 (best
path decoding): take the likeliest label of each time step, merge repeated labels, and drop blanks. The whole batch is
decoded at once.

Where the network is uncertain, a few candidates are likely, such as ``0`` or ``O``, ``c`` or ``e``. The candidate that
fits the neighbouring characters best is chosen. "Best" is decided by how often sequences of characters occur in
eighteen languages and in numbers. ``letters.npz`` stores these counts, which ``benchmarks/calibration/letters.py``
computed from the manual pages of a Debian system.

A character is replaced only if the word also has clearly recognised characters. The replacement must fit these: among
digits, it must be a digit or a sign; among letters, anything but a digit. Clearly recognised characters stay. A word
that consists of one uncertain character also stays.

When all lines of a page are read, uncertain words are decoded again, and only known words are allowed: those that the
page has elsewhere, and English ones (word beam search, H. Scheidl et al., 2018). A known word is chosen if it is almost
as likely as the characters that were read. ``english.txt.gz`` has English words up to size 35 of SCOWL, and names
up to size 50, http://wordlist.aspell.net.
"""

from __future__ import annotations

import gzip
import io
import math
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from heapq import nlargest
from itertools import compress, groupby, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from ....errors import InvalidArgumentError
from ...utils._scores import edit_distance
from .._networks.transfers import download
from .._networks.weights import stored_bytes

# For the effect of each number and predicate, see benchmarks/results/ocr_rules.md.
FloatArray: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]
COUNTS_FILE, WORDS_FILE = Path(__file__).with_name("letters.npz"), Path(__file__).with_name("english.txt.gz")
COUNTS_SHA256 = "dd5bfbe58f4fe8ac64af4f7328eb89cb804afff6512a5795353f62b1e4704d02"
WORDS_SHA256 = "ffdea78690c31890d86ad7127a0f782a1165df070fab48a3c7849b6f9a102285"
BLANK = 0
"""Index of the CTC blank class of line recognisers; the classes after it are characters."""
FIRST_EAST_ASIAN = 0x2E80
"""The first code point of the Chinese, Japanese and Korean blocks."""
LAST_EAST_ASIAN = 0xFFF0
"""One past the last code point of the East Asian full-width and half-width forms."""
CROSS, MIDDLE_DOT = "\u00d7", "\u00b7"
"""The multiplication cross and the middle dot, which networks confuse with x and with hyphens."""
# Capital letters of three scripts. Letters that are often correct next to a zero are left out, such as those in 0o17,
# 0D 0A and Japanese dates.
_LIKE_ZERO = "O\u041e\u039f\u00d8\u0398"
_NUMBER_WITH_ZERO = re.compile(rf"(?=.*0)[\d{_LIKE_ZERO}.,:;/\-+%()]+")
_BESIDE_ZERO = re.compile(f"(?<=0)[{_LIKE_ZERO}]+|[{_LIKE_ZERO}]+(?=0)")
# Networks often read these signs, which only East Asian fonts have, for two characters or after a degree sign.
_DEGREES = {"\u2103": "\u00b0C", "\u2109": "\u00b0F"}
NUM_ALTERNATIVES = 4
"""Number of candidate characters at an uncertain position."""
SURE_PROBABILITY = 0.9
"""Characters with at least this probability are never replaced."""
MAX_LOG_DISTANCE = 3.0
"""Greatest difference between the log probabilities of the likeliest character and its replacement."""
SEQUENCE_WEIGHT = 0.2
"""Weight of the log probability of character sequences, relative to the network's log probability."""
NETWORK_BONUS = 0.3
"""Score bonus of the network's likeliest character."""
BEAM_WIDTH = 16
"""Number of candidate spellings of a line or a word in the beam search."""
SEQUENCE_LENGTH = 4
"""Length in characters of the longest sequences that were counted."""
SYMBOL_BITS = 7
"""Number of bits of each symbol in the key of a sequence."""
_SPELLED_IN_NUMBERS = frozenset(".,:;/-+%()$")
_LIKE_SIGNS = frozenset(".,;:")
"""Punctuation marks that all fit almost anywhere, so neighbouring characters do not show which one is right."""
BONUS_OF_LETTER, MAX_BONUS, OTHER_LENGTH = 2.0, 7.0, 2.5
"""Score bonus of a known word in nats: for each letter, minus two letters for each edit; its maximum; and the penalty
of a word of another length. The more letters fit, the more seldom does a word fit by chance. The logarithm of how often
the page has the word is added. Texts that are less likely by more than the maximum are not searched.
"""
LIKELY = 5.0
"""Another character is likely, and a word not sure, if the character is at most this many nats less probable."""
FEWEST_LETTERS_OF_ENGLISH, LEAST_ENGLISH, FEWEST_ENGLISH = 4, 0.3, 5
"""Least length of the English words, and the share and number of the page's sure words of this length that must be
English, so that words of another language are not replaced.
"""
SURELY_ENGLISH = 5
"""Least length of a word that is English and nothing else; shorter ones may be of another script (``ATOM``)."""
FEWEST_LETTERS_OF_OTHER_LENGTH = 6
"""Least length of a known word of another length; shorter ones are seldom right (``Sept`` and ``slept``)."""
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_CENTS, _NUMBER, _GOES_ON = re.compile(r"[.,]\d\d"), re.compile(r"\d\d$"), re.compile(r"\d|[Zz]")
_LIKE_DIGITS = {"O": "0", "S": "5"}
SURELY_DIGIT = 2.0
"""A letter in a number is read as a digit if that is at most this many nats less probable. On 299 forms and receipts,
this corrects 11 words.
"""
_LIKE_IDEOGRAPHS = frozenset("*-_<>")
LIKE_CHECK_BOXES = frozenset("\u53e3\u56d7\u51f6\u5188\u56db")
"""Ideographs as which check boxes are read."""
FEWEST_EAST_ASIAN, SURELY_SIGN = 3, 4.0
"""Pages with fewer sure East Asian letters have none. There, such a letter is replaced by a sign that is at most this
many nats less probable: on 25 of 269 Latin pages, rows of asterisks are read as ideographs.
"""
Step: TypeAlias = Mapping[str, float]
"""Likely characters at a time step, and "" for none, with their log probabilities."""
Doubts: TypeAlias = Mapping[int, Sequence[Step]]
"""By place of an uncertain character in a text, the steps until the next character starts."""


@dataclass(frozen=True)
class CtcCharacters:
    """The characters of all sequences (lines) of a batch, as decoded by `ctc_best_path`.

    The first five attributes have an element for each character: first all characters of sequence 0, then all of
    sequence 1, and so on. Sequence ``i`` has the elements ``offsets[i]`` to ``offsets[i + 1] - 1``. A character comes
    from one or more consecutive time steps with the same class, called its run.

    Attributes:
        labels: The class of each character.
        start_steps: The first time step of each character's run.
        stop_steps: One past the last time step of each run.
        peak_steps: The step of each run at which the character is most probable. If several steps are equal, it is the
            first of them.
        confidences: The probability of each character at its peak step.
        offsets: The index of the first character of each sequence, followed by the total number of characters.
        lowest: The confidence of each sequence as docTR defines it. Each time step, including blanks, has a most
            probable class. The confidence is the lowest probability of these classes. It is 0 for a sequence without
            time steps.
    """

    labels: IntArray
    start_steps: IntArray
    stop_steps: IntArray
    peak_steps: IntArray
    confidences: FloatArray
    offsets: IntArray
    lowest: FloatArray

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.offsets) - 1

    def sequence(self, index: int) -> CtcCharacters:
        """Return a `CtcCharacters` that has only the characters of sequence ``index``."""
        part = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        labels = self.labels[part]
        return CtcCharacters(
            labels,
            self.start_steps[part],
            self.stop_steps[part],
            self.peak_steps[part],
            self.confidences[part],
            np.array([0, len(labels)], dtype=np.int64),
            self.lowest[index : index + 1],
        )


def ctc_best_path(probabilities: torch.Tensor | tuple[torch.Tensor, torch.Tensor], blank: int) -> CtcCharacters:
    """Decode a batch of sequences: take the likeliest class of each time step, merge repetitions, and drop blanks.

    Args:
        probabilities: (N, T, C) for N sequences, T time steps and C classes; or two tensors (N, T), which have the
            greatest probability of each time step, and the class that has it. Any device and any floating-point type.
        blank: The class that means "no character here".

    >>> import torch
    >>> best = torch.tensor([[0.9, 0.6, 0.8, 0.7, 0.9]]), torch.tensor([[0, 1, 1, 2, 1]])
    >>> characters = ctc_best_path(best, blank=2)
    >>> characters.labels.tolist(), characters.start_steps.tolist(), characters.stop_steps.tolist()
    ([0, 1, 1], [0, 1, 4], [1, 3, 5])
    """
    if isinstance(probabilities, torch.Tensor):
        if probabilities.ndim != 3 or probabilities.shape[2] == 0:
            raise InvalidArgumentError(
                f"probabilities of shape {tuple(probabilities.shape)}; expected (sequences, steps, classes)"
            )
        probabilities = torch.max(probabilities, dim=-1)
    elif probabilities[0].ndim != 2 or probabilities[0].shape != probabilities[1].shape:
        raise InvalidArgumentError(
            f"probabilities of shape {tuple(probabilities[0].shape)} with classes of shape "
            f"{tuple(probabilities[1].shape)}; expected both (sequences, steps)"
        )
    best, labels = download(probabilities[0].float(), probabilities[1])
    labels = labels.astype(np.int64, copy=False)
    sequences, steps = labels.shape
    begins = np.ones(labels.shape, dtype=bool)
    begins[:, 1:] = labels[:, 1:] != labels[:, :-1]
    # A run starts at the first step of each row, so runs never extend over two rows of the flattened batch.
    starts = np.flatnonzero(begins)
    stops = np.append(starts, labels.size)[1:]
    flat = best.reshape(-1)
    confidences = np.maximum.reduceat(flat, starts)
    at_peak = flat == np.repeat(confidences, stops - starts)
    positions = np.arange(labels.size)
    # NaN does not compare equal, so a run of NaN does not have a peak. Its last step is used instead.
    peaks = np.minimum.reduceat(np.where(at_peak, positions, labels.size), starts).clip(max=stops - 1)

    kept = labels.reshape(-1)[starts] != blank
    starts, stops, peaks, confidences = starts[kept], stops[kept], peaks[kept], confidences[kept]
    rows = starts // steps
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=sequences))]).astype(np.int64)
    first = rows * steps
    lowest = best.min(axis=1) if steps else np.zeros(sequences, dtype=np.float32)
    return CtcCharacters(
        labels.reshape(-1)[starts], starts - first, stops - first, peaks - first, confidences, offsets, lowest
    )


def replace_zeros(values: Sequence[str]) -> list[str]:
    """Replace letters that look like a zero, such as ``O``, by ``0`` if they are next to a zero in a number.

    A word counts as a number if it has only digits, such letters, and punctuation of numbers, dates and times. Next to
    digits other than 0, the letter is not replaced, because it can be correct, as in ``5O2``.

    >>> "".join(replace_zeros("00O0 10:0O 5O2 A0O1 OO O"))
    '0000 10:00 5O2 A0O1 OO O'
    """
    text = list(values)
    for token in re.finditer(r"\S+", "".join(value if len(value) == 1 else "_" for value in values)):
        if _NUMBER_WITH_ZERO.fullmatch(token[0]):
            for run in _BESIDE_ZERO.finditer(token[0]):
                text[token.start() + run.start() : token.start() + run.end()] = "0" * len(run[0])
    return text


def spell_degrees(values: Sequence[str]) -> list[str]:
    """Replace the signs for degrees Celsius and Fahrenheit by two characters in lines without East Asian letters.

    >>> "".join(spell_degrees("8\u2103, 37\u00b0\u2103")) == "8\u00b0C, 37\u00b0C"
    True
    """
    if any(map(is_east_asian, values)):
        return list(values)
    spelled = list(values)
    for place in [place for place, value in enumerate(values) if value in _DEGREES]:
        has_sign = place > 0 and values[place - 1] == "\u00b0"
        spelled[place] = _DEGREES[values[place]][has_sign:]
    return spelled


def is_east_asian(character: str) -> bool:
    """Return whether a character is a Chinese, Japanese or Korean letter."""
    return (
        ord(character[:1] or " ") >= FIRST_EAST_ASIAN
        and unicodedata.category(character[0]).startswith("L")
        and unicodedata.east_asian_width(character[0]) != "F"
    )


def is_look_alike(character: str) -> bool:
    """Return whether networks tend to confuse a character with a similar Latin one.

    Such characters are the middle dot (like a hyphen), and East Asian signs such as a full-width comma.
    """
    sign = FIRST_EAST_ASIAN <= ord(character[:1] or " ") < LAST_EAST_ASIAN and not is_east_asian(character)
    return sign or character == MIDDLE_DOT


def fold_character(character: str) -> str:
    """Return the symbol by which a character is counted: its lower-case form, or ``0`` for any digit."""
    lower = character.lower()
    return "0" if character.isdecimal() else lower if len(lower) == 1 else character


def shape_of(character: str) -> str:
    """Return ``U`` for a capital, ``l`` for any other letter, ``0`` for a digit, and otherwise the character itself."""
    if character.isalpha():
        return "U" if character.isupper() else "l"
    return "0" if character.isdecimal() else character


class _Sequences:
    """Probabilities that a symbol follows other symbols, estimated from counts by Witten-Bell interpolation (1991)."""

    def __init__(
        self, keys: Mapping[int, npt.NDArray[np.int64]], counts: Mapping[int, npt.NDArray[np.float64]]
    ) -> None:
        self._tables = []
        for length in range(1, SEQUENCE_LENGTH + 1):
            if length in keys:
                own_keys, own_counts = keys[length], counts[length]
            else:
                # Counts of this length are not stored, but are sums over longer sequences.
                own_keys, places = np.unique(keys[min(keys)] & ((1 << SYMBOL_BITS * length) - 1), return_inverse=True)
                own_counts = np.bincount(places.reshape(-1), counts[min(keys)]).astype(np.float64)
            contexts, starts = np.unique(own_keys >> SYMBOL_BITS, return_index=True)
            totals = np.add.reduceat(own_counts, starts)
            self._tables.append((own_keys, own_counts, contexts, totals, np.diff(np.append(starts, len(own_keys)))))
        self._num_symbols = len(self._tables[0][0])
        self.log_probability = lru_cache(maxsize=1 << 16)(self._log_probability)

    def _log_probability(self, sequence: int) -> float:
        probability = 1 / self._num_symbols
        for length, (keys, counts, contexts, totals, kinds) in enumerate(self._tables, 1):
            key = sequence & ((1 << SYMBOL_BITS * length) - 1)
            place, found = _place(contexts, key >> SYMBOL_BITS), _place(keys, key)
            if place is None:
                break
            count = 0.0 if found is None else counts[found]
            probability = (count + kinds[place] * probability) / (totals[place] + kinds[place])
        return float(np.log(probability))


def _place(ordered: npt.NDArray[np.int64], key: int) -> int | None:
    place = int(np.searchsorted(ordered, key))
    return place if place < len(ordered) and ordered[place] == key else None


@lru_cache(maxsize=1)
def _load_counts() -> tuple[dict[str, int], _Sequences, _Sequences]:
    """Load the counts: the number of each symbol, and the sequences of `fold_character` and of `shape_of` symbols."""
    with np.load(io.BytesIO(stored_bytes(COUNTS_FILE, COUNTS_SHA256)), allow_pickle=False) as file:
        symbols = {chr(point): number for number, point in enumerate(file["symbols"].tolist(), 1)}
        parts = [
            _Sequences(
                {length: np.cumsum(file[f"{name}_{length}_steps"].astype(np.int64)) for length in lengths},
                {length: 2.0 ** (file[f"{name}_{length}_counts"] / 8) for length in lengths},
            )
            for name, lengths in (("letters", (SEQUENCE_LENGTH - 1, SEQUENCE_LENGTH)), ("shapes", (SEQUENCE_LENGTH,)))
        ]
    return symbols, parts[0], parts[1]


def is_english(text: str) -> bool:
    """Return whether a text has English words, at least one of them long, and no other words of four letters or more.

    >>> is_english("% BLACK ="), is_english("ATOM"), is_english("BLACK KOMETA")
    (True, False, False)
    """
    words = [word.lower() for word in _LETTERS.findall(text) if len(word) >= FEWEST_LETTERS_OF_ENGLISH]
    is_long = max(map(len, words), default=0) >= SURELY_ENGLISH
    return is_long and all(word in _english_words() for word in words)


def is_spelled(character: str) -> bool:
    """Return whether there are counts for a character, such as a Latin letter, a digit or a common sign."""
    return len(character) == 1 and character != " " and fold_character(character) in _load_counts()[0]


def correct_spelling(
    values: Sequence[str], confidences: Sequence[float], alternatives: Mapping[int, Mapping[str, float]]
) -> list[str]:
    """Replace uncertain characters of a line if another character fits its neighbours better.

    Args:
        values: The characters as recognised, including spaces.
        confidences: The probability of each character.
        alternatives: For each uncertain position in ``values``, other characters and their log probabilities relative
            to the recognised character.

    >>> "".join(correct_spelling("20C05", (1, 1, 0.6, 1, 1), {2: {"0": -0.5}}))
    '20005'
    >>> "".join(correct_spelling("5O2", (1, 0.95, 1), {1: {"0": -2.9}}))
    '5O2'
    """
    choices: dict[int, list[tuple[str, float]]] = {}
    for place, others in alternatives.items():
        fits = _kind_at(values, confidences, place) if confidences[place] < SURE_PROBABILITY else None
        chosen = [
            (other, score)
            for other, score in others.items()
            if score > -MAX_LOG_DISTANCE
            and (fits is not None and fits(other))
            and not (values[place] in _LIKE_SIGNS and other in _LIKE_SIGNS)
        ]
        if chosen:
            choices[place] = [(values[place], NETWORK_BONUS), *chosen]
    return _find_likeliest(values, choices) if choices else list(values)


def doubts_of(found: CtcCharacters, characters: Sequence[str], *outputs: npt.NDArray[Any]) -> dict[int, list[Step]]:
    """Return the steps of the uncertain characters of a line.

    ``characters`` are those of all classes but the blank. The ``outputs`` of each step are the probability of the
    likeliest class, this class, and the result of `CtcLineRecognizer.alternatives`.
    """
    least = math.exp(-MAX_BONUS)

    def step_of(own: float, label: int, scores: Sequence[float], others: Sequence[int]) -> Step:
        likeliest, left = characters[label - 1] if label != BLANK else "", max(1 - own, 1e-6)
        if not left > least * own:  # sure, or not a number
            return {likeliest: 0.0}
        shares = {characters[other - 1]: math.exp(score) for other, score in zip(others, scores, strict=True)}
        scale = own / max(shares.pop(likeliest), 1e-9) if likeliest in shares else left
        shares = {other: min(scale * share, left) for other, share in shares.items()}
        shares |= {"": max(left - sum(shares.values()), 1e-6), likeliest: own}
        return {other: math.log(share) for other, share in shares.items() if share > least * own}

    steps = list(map(step_of, *(output.tolist() for output in outputs)))
    bounds = pairwise([*found.start_steps.tolist(), len(steps)])
    parts = {place: [step for step, _ in groupby(steps[start:stop])] for place, (start, stop) in enumerate(bounds)}
    return {place: part for place, part in parts.items() if any(len(step) > 1 for step in part)}


def others_at(character: str, steps: Sequence[Step]) -> Step:
    """Return other characters that are likely where a character is, with log probabilities relative to it."""
    peak = max(steps, key=lambda step: step.get(character, -math.inf))
    own = peak.get(character, max(peak.values()))
    others = {other: score - own for other, score in peak.items() if other not in ("", character)}
    return {other: score for other, score in others.items() if score > -LIKELY}


def correct_words(
    words: Sequence[str], confidences: Sequence[Sequence[float]], doubts: Sequence[Doubts]
) -> list[tuple[tuple[str, ...], tuple[float, ...]]]:
    """Replace uncertain words of a page by known words that are almost as likely.

    Known words are the sure words of the page, and English words if many of the sure ones are English. If an English
    page has no sure accent, accents are removed where the letter may have none.

    Args:
        words: The words of the page.
        confidences: The probability of each of their characters.
        doubts: The steps of the uncertain characters of each word.

    Returns:
        For each word, the text of each of its characters, and their probabilities. If characters are added, the first
        character that differs has more than one; if some are removed, their texts are empty.

    >>> words, likely = (["Product", "Praduct"], [[1.0] * 7, [0.8] * 7]), {"a": -0.7, "o": -1.5}
    >>> "".join(correct_words(*words, [{}, {2: [likely]}])[1][0])
    'Product'
    """
    likely = [
        {place: others for place, steps in own.items() if (others := others_at(word[place], steps))}
        for word, own in zip(words, doubts, strict=True)
    ]
    is_sure = [
        [share >= SURE_PROBABILITY and place not in others for place, share in enumerate(shares)]
        for shares, others in zip(confidences, likely, strict=True)
    ]
    runs = [
        run[0].lower()
        for word, sure in zip(words, is_sure, strict=True)
        for run in _LETTERS.finditer(word)
        if all(sure[slice(*run.span())])
    ]
    long = [run for run in runs if len(run) >= FEWEST_LETTERS_OF_ENGLISH]
    english = _english_words()
    is_english = sum(run in english for run in long) >= max(FEWEST_ENGLISH, LEAST_ENGLISH * len(long))
    known = english.copy() if is_english else Counter()
    known.update(runs)
    ordered = sorted(known)

    @cache
    def may_start(text: str) -> bool:
        start = text.lower().removesuffix("!")  # as which a last l or I is read
        place = bisect_left(ordered, start)
        return any(word.startswith(start) for word in ordered[place : place + 1])

    letters = [letter for word, sure in zip(words, is_sure, strict=True) for letter in compress(word, sure)]
    replacing = [_digit_for]
    if is_english and all(_base_of(letter) == letter for letter in letters):
        replacing.append(_plain_letter_for)
    if sum(map(is_east_asian, letters)) < FEWEST_EAST_ASIAN:
        replacing.append(_sign_for)
    plain = [_replace_doubtful(word, others, replacing) for word, others in zip(words, likely, strict=True)]
    return [
        _find_known(*one, known, may_start) for one in zip(plain, confidences, doubts, likely, is_sure, strict=True)
    ]


def _replace_doubtful(
    word: str, likely: Mapping[int, Step], replacing: Sequence[Callable[[str, int, Step], str | None]]
) -> str:
    """Replace each doubtful character of a word by what the first function returns for it that does not return None."""
    text = list(word)
    for place, others in likely.items():
        found = (replace(word, place, others) for replace in replacing)
        text[place] = next((character for character in found if character is not None), word[place])
    return "".join(text)


def _digit_for(word: str, place: int, others: Step) -> str | None:
    """Return a digit for a letter, as in ``12OML`` and ``RMO.40``, but not in ``H2O``, ``12OZ`` and ``NO.40``."""
    digit = _LIKE_DIGITS.get(word[place], "")
    ends_number = digit == "0" and _NUMBER.search(word[:place]) and not _GOES_ON.match(word, place + 1)
    is_money = word[:place][-1:] not in "Nn" and _CENTS.fullmatch(word, place + 1)
    return digit if (ends_number or is_money) and others.get(digit, -math.inf) > -SURELY_DIGIT else None


def _sign_for(word: str, place: int, others: Step) -> str | None:
    """Return an asterisk, dash or angle for an East Asian letter."""
    if not is_east_asian(word[place]) or word[place] in LIKE_CHECK_BOXES:
        return None
    likely = [(score, other) for other, score in others.items() if score > -SURELY_SIGN and other in _LIKE_IDEOGRAPHS]
    return max(likely)[1] if likely else None


def _plain_letter_for(word: str, place: int, others: Step) -> str | None:
    """Return a letter without its accents if it may have none."""
    base = _base_of(word[place])
    return base if base in others else None


def _base_of(letter: str) -> str:
    """Return a letter without its accents, such as ``e`` for ``\u00e9``; other characters as they are."""
    return unicodedata.normalize("NFD", letter)[0] if letter.isalpha() and len(letter) == 1 else letter


def _find_known(
    word: str,
    confidences: Sequence[float],
    doubts: Doubts,
    likely: Mapping[int, Step],
    is_sure: Sequence[bool],
    known: Counter[str],
    may_start: Callable[[str], bool],
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Replace each run of letters of a word by the likeliest known word, if that is likelier."""
    text, shares = list(word), list(confidences)
    kinds = "".join(
        "a" if any(map(str.isalpha, (one, *likely.get(place, ())))) else " " for place, one in enumerate(word)
    )
    for run in re.finditer("a+", kinds) if doubts and "@" not in word else ():
        start, stop = run.span()
        while stop > start and not word[stop - 1].isalnum():
            stop -= 1
        own, places = word[start:stop], range(start, stop)
        is_part = word[start - 1 : start].isalnum() or word[stop : stop + 1].isalnum()
        # A sure word is known because it is on the page, so it must be known twice.
        num_times = known["".join(filter(str.isalnum, own.lower()))] - all(is_sure[start:stop])
        if is_part or num_times > 0 or doubts.keys().isdisjoint(places):
            continue
        steps = [step for place in places for step in doubts.get(place, ({word[place]: 0.0}, {"": 0.0}))]
        score, other = _likeliest_word(own, spellings(own, steps, may_start), known)
        # Characters are added or removed where the first one differs.
        first, longer = [*map(str.__eq__, own[:-1], other), False].index(False), len(other) - len(own)
        cuts = [index if index <= first else max(first, index + longer) for index in range(len(own) + 1)]
        for place, bounds in zip(places, pairwise(cuts), strict=True):
            if text[place] != other[slice(*bounds)]:
                text[place], shares[place] = other[slice(*bounds)], 1 / (1 + math.exp(-score))
    return tuple(text), tuple(shares)


def _likeliest_word(own: str, scores: Mapping[str, float], known: Counter[str]) -> tuple[float, str]:
    """Return the known word with the highest score, and its score; or the word as it was read, and 0."""
    best = 0.0, own
    for text, score in scores.items():
        word, differs_in_length = text.lower().removesuffix("!"), len(text) != len(own)
        has_usual_case = text.isupper() or text[1:].islower()
        is_short = differs_in_length and len(word) < FEWEST_LETTERS_OF_OTHER_LENGTH
        if known[word] and word != own.lower() and has_usual_case and not is_short and not own.startswith(text):
            bonus = BONUS_OF_LETTER * (len(text) - 2 * edit_distance(own, text)) + math.log(known[word])
            best = max(best, (score + min(bonus, MAX_BONUS) - OTHER_LENGTH * differs_in_length, text))
    return best


def spellings(own: str, steps: Sequence[Step], may_start: Callable[[str], bool]) -> dict[str, float]:
    """Return likely texts that may start so, and ``own``, with log probabilities relative to the likeliest of them."""
    found = {("", False): 0.0}
    for step in steps:
        # By text, and whether its last character continues: then the same character again does not make it longer.
        longer: dict[tuple[str, bool], float] = {}
        for (text, continues), score in found.items():
            for other, other_score in step.items():
                spelling = text if not other or (continues and text.endswith(other)) else text + other
                if spelling == text or own.startswith(spelling) or may_start(spelling):
                    state = spelling, other != ""
                    longer[state] = max(longer.get(state, -math.inf), score + other_score)
        least = max(longer.values(), default=0.0) - MAX_BONUS
        best = nlargest(2 * BEAM_WIDTH, longer, key=longer.__getitem__)
        found = {state: longer[state] for state in best if longer[state] > least}
    likeliest = max(found.values(), default=0.0)
    # In ascending order, the better path of a text is the last.
    return {state[0]: found[state] - likeliest for state in sorted(found, key=found.__getitem__)}


@cache
def _english_words() -> Counter[str]:
    # The list has words of letters only, but the first digit of 1st is often read as a letter.
    return Counter(["1st", *gzip.decompress(stored_bytes(WORDS_FILE, WORDS_SHA256)).decode("ascii").split()])


def _kind_at(values: Sequence[str], confidences: Sequence[float], place: int) -> Callable[[str], bool] | None:
    """Return a function that tests whether a character can replace ``values[place]``, or ``None`` if none can.

    The other characters of the word decide, if they are sure (see ``SURE_PROBABILITY``). Among digits, only digits and
    signs of numbers are accepted; among letters, everything but digits. ``None`` is returned if no letter or digit is
    sure, if the word has letters of a script without counts, or if it is an e-mail address.

    A word with both letters and digits, such as a part number, is not changed. There is one exception: a lower-case
    ``values[place]`` in a word without sure lower-case letters can be replaced by anything but a lower-case letter.
    """
    start, end = place, place + 1
    while start and values[start - 1] != " ":
        start -= 1
    while end < len(values) and values[end] != " ":
        end += 1
    if "@" in values[start:end]:
        return None
    sure = [values[i] for i in range(start, end) if confidences[i] >= SURE_PROBABILITY and i != place]
    letters, digits = sum(map(str.isalpha, sure)), sum(map(str.isdecimal, sure))
    if not letters + digits or not all(map(is_spelled, [*sure, values[place]])):
        return None
    if letters and digits:
        is_doubtful = values[place].islower() and not any(map(str.islower, sure))
        return (lambda character: not character.islower()) if is_doubtful else None
    if letters:
        return lambda character: not character.isdecimal()
    return lambda character: character.isdecimal() or character in _SPELLED_IN_NUMBERS


def _find_likeliest(values: Sequence[str], choices: Mapping[int, Sequence[tuple[str, float]]]) -> list[str]:
    """Return ``values`` with the most likely combination of ``choices``, (character, score), found by a beam search."""
    numbers, letters, shapes = _load_counts()
    spellings: list[tuple[float, list[str]]] = [(0.0, list(values[: min(choices)]))]
    # Sequences that include the last candidate end within the line or at a space after it.
    for place in range(min(choices), min(len(values) + 1, max(choices) + SEQUENCE_LENGTH)):
        longer = []
        for score, text in spellings:
            for character, own in choices.get(place, [((*values, " ")[place], 0.0)]):
                tried = [*text, character]
                last = ([" "] * (SEQUENCE_LENGTH - 1) + tried)[-SEQUENCE_LENGTH:]
                for sequences, symbol_of in ((letters, fold_character), (shapes, shape_of)):
                    key = reduce(lambda key, other: key << SYMBOL_BITS | numbers.get(symbol_of(other), 0), last, 0)
                    own += SEQUENCE_WEIGHT * sequences.log_probability(key)
                longer.append((score + own, tried))
        # Sorting is stable, so the network's likeliest character wins ties.
        spellings = sorted(longer, key=lambda spelling: -spelling[0])[:BEAM_WIDTH]
    best = spellings[0][1][: len(values)]
    return best + list(values[len(best) :])
