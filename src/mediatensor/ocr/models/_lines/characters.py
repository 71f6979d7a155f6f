"""From the classes that a network saw along a line to characters: CTC's best path, and zeros that look like letters.

Best path decoding after A. Graves, "Supervised Sequence Labelling with Recurrent Neural Networks" (2012), section
7.5.1: take the likeliest label of each step, merge the repetitions, drop the blanks. Everything is done for the whole
batch at once, on flat arrays.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from ....errors import InvalidArgumentError
from .._networks.transfers import download

__all__ = ["BLANK", "CtcCharacters", "ctc_best_path", "is_east_asian", "is_look_alike", "with_zeros"]

FloatArray: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]

BLANK = 0
"""The class that CTC reserves in networks that read lines; characters follow."""
FIRST_EAST_ASIAN = 0x2E80
"""The first code point of the blocks of Chinese, Japanese and Korean."""
LAST_EAST_ASIAN = 0xFFF0
"""The first code point behind their full-width and half-width forms."""
MULTIPLICATION_SIGNS = "\u00d7\u00b7"
"""The cross and the dot, which networks see in many an x and a hyphen."""
# Capital letters of three scripts. Letters that may stand beside a zero are not among them: 0o17, 0D 0A, 10 in a date
# of Japan.
_LIKE_ZERO = frozenset("O\u041e\u039f\u00d8\u0398")
_IN_NUMBERS = frozenset(".,:;/-+%()")


@dataclass(frozen=True)
class CtcCharacters:
    """The characters that :func:`ctc_best_path` found in a batch of sequences, as flat arrays of one length.

    The characters of sequence ``i`` are ``[offsets[i]:offsets[i + 1]]`` of each array, in reading order;
    :meth:`sequence` cuts them out.

    Attributes:
        labels: the class of each character.
        start_steps: the first time step of its run.
        stop_steps: one past the last time step of its run.
        peak_steps: the step of its run where the class is most probable (the first of several).
        confidences: the probability of the class at that step.
        offsets: where each sequence begins, one more than there are sequences.
        lowest: per sequence, the least of the best probabilities over **all** its steps, blanks included: the
            confidence that docTR gives a word. 0 where a sequence has no steps.
    """

    labels: IntArray
    start_steps: IntArray
    stop_steps: IntArray
    peak_steps: IntArray
    confidences: FloatArray
    offsets: IntArray
    lowest: FloatArray

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self.offsets) - 1

    def sequence(self, index: int) -> CtcCharacters:
        """The characters of one sequence alone.

        Args:
            index: which sequence, from 0.

        Returns:
            The same arrays, cut to the characters of that sequence.
        """
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
    """Decode a batch by the likeliest label of each time step.

    Args:
        probabilities: (N, T, C) probabilities of N sequences, T time steps and C classes; or, where the network
            already reduced them, the pair (greatest probability, its class), both (N, T). Any device and any
            floating type.
        blank: the class that stands for "no character here".

    Returns:
        The characters of all sequences; see :class:`CtcCharacters`.

    Raises:
        InvalidArgumentError: the tensors are not of these shapes.

    >>> import torch
    >>> best = torch.tensor([[0.9, 0.6, 0.8, 0.7, 0.9]]), torch.tensor([[0, 1, 1, 2, 1]])
    >>> characters = ctc_best_path(best, blank=2)
    >>> characters.labels.tolist(), characters.start_steps.tolist(), characters.stop_steps.tolist()
    ([0, 1, 1], [0, 1, 4], [1, 3, 5])
    """
    best, labels = _best_of_each_step(probabilities)
    sequences, steps = labels.shape
    if labels.size == 0:
        none, empty = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        offsets = np.zeros(sequences + 1, dtype=np.int64)
        return CtcCharacters(none, none, none, none, empty, offsets, np.zeros(sequences, dtype=np.float32))
    begins = np.ones(labels.shape, dtype=bool)
    begins[:, 1:] = labels[:, 1:] != labels[:, :-1]
    # A row's first step always begins a run, so runs never reach over two rows of the flattened batch.
    starts = np.flatnonzero(begins)
    stops = np.append(starts[1:], labels.size)
    flat = best.reshape(-1)
    confidences = np.maximum.reduceat(flat, starts)
    at_peak = flat == np.repeat(confidences, stops - starts)
    positions = np.arange(labels.size)
    # NaN equals nothing: such a run would have no peak; its last step stands in.
    peaks = np.minimum.reduceat(np.where(at_peak, positions, labels.size), starts).clip(max=stops - 1)

    kept = labels.reshape(-1)[starts] != blank
    starts, stops, peaks, confidences = starts[kept], stops[kept], peaks[kept], confidences[kept]
    rows = starts // steps
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=sequences))]).astype(np.int64)
    first = rows * steps
    return CtcCharacters(
        labels.reshape(-1)[starts], starts - first, stops - first, peaks - first, confidences, offsets, best.min(axis=1)
    )


def _best_of_each_step(probabilities: torch.Tensor | tuple[torch.Tensor, torch.Tensor]) -> tuple[FloatArray, IntArray]:
    """The greatest probability of each step and its class, as (N, T) arrays on the CPU."""
    if isinstance(probabilities, torch.Tensor):
        if probabilities.ndim != 3 or probabilities.shape[2] == 0:
            raise InvalidArgumentError(
                f"probabilities of shape {tuple(probabilities.shape)}; expected (sequences, steps, classes)"
            )
        best, labels = probabilities.max(dim=-1)
    else:
        best, labels = probabilities
        if best.ndim != 2 or best.shape != labels.shape:
            raise InvalidArgumentError(
                f"probabilities of shape {tuple(best.shape)} with classes of shape {tuple(labels.shape)}; "
                "expected both (sequences, steps)"
            )
    best_array, label_array = download(best.float(), labels)
    return best_array, label_array.astype(np.int64, copy=False)


def with_zeros(values: Sequence[str]) -> list[str]:
    """The characters of a line, with letters that look like a zero and stand beside one in a number read as zeros.

    A number is a word of digits, such look-alikes and the signs of numbers, dates and times. A look-alike beside
    another digit than a zero stays: in ``5O2`` it may be meant.

    >>> "".join(with_zeros("00O0 10:0O 5O2 A0O1 OO O"))
    '0000 10:00 5O2 A0O1 OO O'
    """
    text = list(values)
    start = 0
    for end in range(len(text) + 1):
        if end < len(text) and text[end] != " ":
            continue
        token = text[start:end]
        if "0" in token and all(value.isdecimal() or value in _LIKE_ZERO or value in _IN_NUMBERS for value in token):
            # From zero to zero, so that each look-alike of a run becomes one.
            for places in (range(start, end), range(end - 1, start - 1, -1)):
                for place in places:
                    beside = text[place + (1 if places.step < 0 else -1)] if place != places[0] else ""
                    if text[place] in _LIKE_ZERO and beside == "0":
                        text[place] = "0"
        start = end + 1
    return text


def is_east_asian(character: str) -> bool:
    """Whether it is a letter of Chinese, Japanese or Korean."""
    return (
        ord(character[:1] or " ") >= FIRST_EAST_ASIAN
        and unicodedata.category(character[0]).startswith("L")
        and unicodedata.east_asian_width(character[0]) != "F"
    )


def is_look_alike(character: str) -> bool:
    """Whether it is a sign that stands for a plain one among East Asian letters, or the cross of a multiplication."""
    sign = FIRST_EAST_ASIAN <= ord(character[:1] or " ") < LAST_EAST_ASIAN and not is_east_asian(character)
    return sign or character in MULTIPLICATION_SIGNS
