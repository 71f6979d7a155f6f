"""The base of the networks that score each step of a word and are trained with CTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from ...datasets import VOCABS, decode_sequence, encode_sequences
from .._lines import CtcCharacters, ctc_best_path
from .core import RecognitionModel, RecognitionPostProcessor

__all__ = ["CTCModel", "CTCPostProcessor", "ctc_loss"]


class _PathLoss(torch.autograd.Function):
    """Minus the logarithm of the probability of all paths that spell a text, with the gradient by its arguments.

    What torch's ``ctc_loss`` gives as its gradient is that by the scores before a softmax. It holds where the
    logarithms of all classes go in, and not where those of a few do.
    """

    @staticmethod
    def forward(ctx: Any, logarithms: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        steps = torch.full((logarithms.shape[1],), len(logarithms))
        with torch.enable_grad():
            given = logarithms.detach().requires_grad_()
            losses = F.ctc_loss(given, labels, steps, lengths, 0, reduction="none", zero_infinity=True)
            (by_scores,) = torch.autograd.grad(losses.sum(), given)
        # A text that does not fit into the steps has a loss of 0, and teaches nothing.
        fits = (losses.detach() > 0).view(1, -1, 1)
        ctx.save_for_backward(torch.where(fits, by_scores - given.detach().exp(), 0.0))
        return losses.detach()

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * weights.view(1, -1, 1), None, None


def ctc_loss(logarithms: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
    """The CTC loss (Graves et al., 2006) from the probabilities of those classes alone that occur.

    Of thousands of classes a batch has some dozens. The others are in the sum that probabilities are normalised with,
    and in nothing else.

    Args:
        logarithms: (N, T, C), those of the probabilities of C of all classes; the blank is the first of them.
        labels: The classes of all texts, one after the other, as places among the C.
        lengths: (N,), how many of them each text has.

    Returns:
        The mean over texts of the loss per character, a scalar. A text that T steps cannot spell counts as 0.
    """
    by_step = logarithms.transpose(0, 1)
    if logarithms.requires_grad:
        losses: Tensor = _PathLoss.apply(by_step, labels, lengths)  # type: ignore[no-untyped-call]
    else:
        steps = torch.full((len(logarithms),), logarithms.shape[1])
        losses = F.ctc_loss(by_step, labels, steps, lengths, 0, reduction="none", zero_infinity=True)
    return (losses / lengths.clamp(min=1).to(losses.device)).mean()


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
