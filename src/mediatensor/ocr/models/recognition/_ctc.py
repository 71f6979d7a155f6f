"""The base of the networks that score each step of a word and are trained with CTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from ...datasets import VOCABS, decode_sequence, encode_sequences
from .._lines import CtcCharacters, ctc_best_path
from .core import RecognitionModel, RecognitionPostProcessor

__all__ = ["CTCModel", "CTCPostProcessor"]


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
