"""From the per-step scores of a CTC network to characters, with the steps and the confidence of each one.

Best path decoding after A. Graves, "Supervised Sequence Labelling with Recurrent Neural Networks" (2012), section
7.5.1: take the likeliest label of each step, merge the repetitions, drop the blanks. Everything is done for the whole
batch at once, on flat arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from ....errors import InvalidArgumentError
from ...datasets import VOCABS, decode_sequence, encode_sequences
from .._networks.devices import download
from .core import RecognitionModel, RecognitionPostProcessor

__all__ = ["CTCModel", "CTCPostProcessor", "CtcCharacters", "ctc_best_path"]

FloatArray: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]


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


class CTCPostProcessor(RecognitionPostProcessor):
    """Reads words off CTC scores by the best path; the blank is the class after the vocabulary.

    The confidence of a word is the least of the best probabilities over all time steps, blanks included.

    >>> import torch
    >>> from mediatensor.ocr.models.recognition import CTCPostProcessor
    >>> scores = torch.tensor([[[9.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 9.0], [9.0, 0.0, 0.0]]])
    >>> CTCPostProcessor("ab")(scores)[0][0]
    'aa'
    """

    @staticmethod
    def ctc_best_path(
        logits: torch.Tensor, vocab: str = VOCABS["french"], blank: int | None = None
    ) -> list[tuple[str, float]]:
        """Read words by the best path.

        Args:
            logits: (N, T, C) scores.
            vocab: the characters, in the order of the classes.
            blank: the class of "no character"; by default the one after the vocabulary.

        Returns:
            N words, each with its confidence.
        """
        decoded = ctc_best_path(logits.float().softmax(dim=-1), len(vocab) if blank is None else blank)
        words = (decode_sequence(decoded.sequence(index).labels, vocab) for index in range(len(decoded)))
        return list(zip(words, decoded.lowest.tolist(), strict=True))

    def characters(self, logits: torch.Tensor) -> CtcCharacters:
        """Each character with its time steps and its confidence.

        Args:
            logits: (N, T, C) scores.

        Returns:
            The characters of all words.
        """
        return ctc_best_path(logits.float().softmax(dim=-1), len(self.vocab))

    def __call__(self, logits: torch.Tensor) -> list[tuple[str, float]]:
        """Read the words of (N, T, C) scores; see :class:`RecognitionPostProcessor`."""
        return self.ctc_best_path(logits, self.vocab)


class CTCModel(RecognitionModel):
    """Base of the networks that score each time step and are trained with CTC.

    Args:
        vocab: the characters, in the order of the classes; the blank is the class after them.
        exportable: return ``{"logits"}`` and nothing else.
        cfg: what the model was made for; kept as ``cfg``.
    """

    max_length = 32

    def __init__(self, vocab: str, exportable: bool, cfg: dict[str, Any] | None) -> None:
        super().__init__(vocab, CTCPostProcessor(vocab), exportable, cfg)

    def build_target(self, gts: Sequence[str]) -> tuple[npt.NDArray[np.int32], list[int]]:
        """Encode words as rows of classes, filled with the blank, as wide as the longest; see the base class."""
        return encode_sequences(list(gts), self.vocab, eos=len(self.vocab)), [len(word) for word in gts]

    def compute_loss(self, model_output: torch.Tensor, target: Sequence[str]) -> torch.Tensor:
        """The CTC loss (Graves et al., 2006).

        A word that cannot be written in as many time steps as there are counts as 0 and teaches nothing.

        Args:
            model_output: (N, T, C) scores.
            target: the N words.

        Returns:
            The mean over words of the loss per character, a scalar.
        """
        encoded, lengths = self.build_target(target)
        images, steps = model_output.shape[:2]
        return F.ctc_loss(
            model_output.float().log_softmax(dim=-1).transpose(0, 1),
            torch.from_numpy(encoded).long().to(model_output.device),
            torch.full((images,), steps),
            torch.tensor(lengths),
            blank=len(self.vocab),
            zero_infinity=True,
        )
