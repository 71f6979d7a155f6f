"""Base classes of recognition networks, and code that they share: training targets, losses and decoding of scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...._engine.common.checks import shown
from ....errors import InvalidArgumentError
from ...datasets import VOCABS, decode_sequence, encode_sequences
from .._lines.characters import CtcCharacters, ctc_best_path
from .._networks.registry import make_network
from .._networks.transfers import download, not_compiled
from .._networks.weights import StateDictNetwork, load_weights
from ..classification.vit import VisionTransformer

__all__ = ["LeastCertainPostProcessor", "RecognitionModel", "RecognitionPostProcessor", "SequencePostProcessor"]

RESNET31_LAYERS = (0, 1, 2, 3, 4, 6, 7, 8, 9, 10)
"""Indices of the layers of ResNet-31 in published recognisers, which lack the head and the activation before the first
pooling.

docTR identifies layers by their objects when it removes the head, so it also drops the second use of an object.
"""
PATCH_SIZE = (4, 8)
ModelT = TypeVar("ModelT", bound="RecognitionModel")


def recognition_cfg(url: str, accuracy: dict[str, float]) -> dict[str, Any]:
    """Return the configuration of a docTR network, with the ``url`` of its weights and its ``accuracy`` in percent."""
    return {
        "mean": (0.694, 0.695, 0.693),
        "std": (0.299, 0.296, 0.301),
        "input_shape": (3, 32, 128),
        "vocab": VOCABS["french"],
        "url": f"https://doctr-static.mindee.com/models?id={url}",
        "accuracy": accuracy,
    }


def check_vocab(vocab: Any) -> tuple[str, ...]:
    """Return the characters of a vocabulary. Raise an error unless it is a string or a series of strings.

    >>> check_vocab("abc")
    ('a', 'b', 'c')
    """
    characters = tuple(vocab) if isinstance(vocab, Iterable) else ()
    if not characters or not all(isinstance(character, str) for character in characters):
        raise InvalidArgumentError(f"vocab must be a string of at least one character (got {shown(vocab)}).")
    return characters


class RecognitionPostProcessor(ABC):
    """Base class of objects that decode the scores of a recogniser into words.

    Args:
        vocab: The characters of the classes, in order: class 0 is ``vocab[0]``.
    """

    def __init__(self, vocab: str) -> None:
        self.vocab = vocab

    @abstractmethod
    def __call__(self, logits: torch.Tensor) -> list[tuple[str, float]]:
        """Return the N words, each with a confidence in [0, 1], for scores (N, T, C) of C classes at T steps."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab_size={len(self.vocab)})"


class SequencePostProcessor(RecognitionPostProcessor):
    """Decodes the scores of networks that return one character per step, and then an end token, class ``len(vocab)``.

    The confidence of a word is the mean probability of its characters, or 0 for an empty word.

    Args:
        vocab: The characters of the classes, in order: class 0 is ``vocab[0]``.
    """

    def __call__(self, logits: torch.Tensor) -> list[tuple[str, float]]:
        """Return the words for scores (N, T, C), in the format of `RecognitionPostProcessor`."""
        best, classes = logits.float().softmax(dim=-1).max(dim=-1)
        # Before the first end token, the cumulative number of end tokens is 0.
        lengths = ((classes >= len(self.vocab)).cumsum(dim=1) == 0).sum(dim=1)
        words = []
        rows = (array.tolist() for array in download(best, classes, lengths))
        for row, steps, length in zip(*rows, strict=True):
            word = "".join(self.vocab[index] for index in steps[:length])
            words.append((word, self._confidence(row, length)))
        return words

    def _confidence(self, best: list[float], length: int) -> float:
        return sum(best[:length]) / length if length else 0.0


class LeastCertainPostProcessor(SequencePostProcessor):
    """Decodes words like `SequencePostProcessor`, but with a lower confidence.

    The confidence of a word is the lowest of the probabilities that the chosen classes have at all steps. This includes
    the steps after the end of the word.

    Args:
        vocab: The characters of the classes, in order: class 0 is ``vocab[0]``.
    """

    def _confidence(self, best: list[float], length: int) -> float:
        return min(best)


class RecognitionModel(StateDictNetwork, ABC):
    """Base class of networks that recognise the word in an image.

    Subclasses compute the scores and the loss in ``_score``.

    Args:
        vocab: The characters of the classes, in order.
        postprocessor: Decodes the scores into words.
        exportable: Whether ``forward`` returns only ``{"logits": ...}``, as required for export.
        cfg: Dictionary of preprocessing settings that predictors use (``mean``, ``std`` and ``input_shape``), and
            ``vocab`` and ``url``.

    Raises:
        InvalidArgumentError: ``vocab`` is empty or has another type.
    """

    max_length: int

    def __init__(
        self, vocab: str, postprocessor: RecognitionPostProcessor, exportable: bool, cfg: dict[str, Any] | None
    ) -> None:
        super().__init__()
        check_vocab(vocab)
        self.vocab = vocab
        self.postprocessor = postprocessor
        self.exportable = exportable
        self.cfg = cfg

    @abstractmethod
    def score_layer(self) -> tuple[nn.Linear, int]:
        """Return a pair: the linear layer that computes the scores of classes, and the class index of ``vocab[0]``."""

    @abstractmethod
    def build_target(self, gts: Sequence[str]) -> tuple[npt.NDArray[np.int32], list[int]]:
        """Encode words as class indices, as targets for training.

        Args:
            gts: The N correct words (ground truths).

        Returns:
            A pair. The first item is an int32 array (N, width) with a row of class indices for each word, including the
            special tokens of this network. The second item is a list with the number of characters of each word.
        """

    @abstractmethod
    def _score(
        self, x: torch.Tensor, target: Sequence[str] | None, needs_scores: bool
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Return the scores (N, T, classes) of images and, if there is a target, the loss.

        Either is ``None`` if it was not computed. Scores can be omitted if there is a target, unless ``needs_scores``.
        """

    def _encode(self, target: Sequence[str], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode words with `build_target`; return the classes (N, width) and lengths (N,) as int64 on a device."""
        rows, lengths = self.build_target(target)
        return torch.from_numpy(rows).long().to(device), torch.tensor(lengths, device=device)

    def forward(
        self,
        x: torch.Tensor,
        target: Sequence[str] | None = None,
        return_model_output: bool = False,
        return_preds: bool = False,
    ) -> dict[str, Any]:
        """Recognise the words in images.

        Args:
            x: Images (N, 3, H, W), normalized with the mean and std in ``cfg``.
            target: The correct word for each image, to compute the loss; required in training mode. Networks that
                decode character by character can then use the correct characters instead of their own predictions
                (teacher forcing).
            return_model_output: Also return ``out_map``.
            return_preds: Return ``preds`` even if there is a target.

        Returns:
            A dictionary. ``preds`` is a list with a pair for each image: the word and its confidence in [0, 1].
            ``out_map``, if requested, has the scores of the classes at T steps before the softmax, (N, T, classes).
            ``loss``, a scalar, is present if there is a target. If ``exportable`` is true, the dictionary has only
            ``logits``, the same scores.

        Raises:
            InvalidArgumentError: ``target`` is missing in training mode or does not have one word for each image, or
                the network does not accept images of this size.
        """
        if target is None:
            if self.training:
                raise InvalidArgumentError(
                    "target is None in training mode; expected the word of each image, or .eval()"
                )
        elif len(target) != len(x):
            raise InvalidArgumentError(f"target has {len(target)} words for {len(x)} images; expected one for each")
        logits, loss = self._score(x, target, return_model_output or return_preds)
        if logits is None:
            return {"loss": loss}
        if logits.dtype == torch.bfloat16:
            # NumPy does not support bfloat16.
            logits = logits.float()
        if self.exportable:
            return {"logits": logits}
        results: dict[str, Any] = {}
        if return_model_output:
            results["out_map"] = logits
        if loss is None or return_preds:
            results["preds"] = self._read(logits)
        if loss is not None:
            results["loss"] = loss
        return results

    # Decoding creates Python strings, which torch.compile does not support.
    @not_compiled
    def _read(self, logits: torch.Tensor) -> list[tuple[str, float]]:
        return self.postprocessor(logits)


def encode_with_marks(
    words: Sequence[str], vocab: str, max_length: int, pad: int | None = None
) -> tuple[npt.NDArray[np.int32], list[int]]:
    """Encode words as rows: a start token, the classes of the characters, and an end token.

    Return the rows, int32 (N, max_length + 2), and the length of each word, at most ``max_length``. As in docTR, rows
    of longer words have no end token, but one more character. The end token is class ``len(vocab)``, and the start
    token ``len(vocab) + 1``. The rest of each row is filled with ``pad``, by default the end token.
    """
    encoded = encode_sequences(
        list(words), vocab, target_size=max_length + 2, eos=len(vocab), sos=len(vocab) + 1, pad=pad
    )
    return encoded, [min(len(word), max_length) for word in words]


def masked_cross_entropy(logits: torch.Tensor, classes: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy, averaged over the first ``lengths[i]`` steps of each word ``i`` and then over words.

    ``logits`` are scores (N, T, C), and ``classes`` the correct classes, int64 (N, T). ``lengths`` is the number of
    steps to include for each word, at least 1, int64 (N,).

    >>> import torch
    >>> from mediatensor.ocr.models.recognition.core import masked_cross_entropy
    >>> masked_cross_entropy(torch.zeros(1, 3, 4), torch.zeros(1, 3, dtype=torch.int64), torch.tensor([2])).item()
    1.3862943649291992
    """
    each = F.cross_entropy(logits.float().transpose(1, 2), classes, reduction="none")
    counts = torch.arange(logits.shape[1], device=logits.device) < lengths[:, None]
    return (each.masked_fill(~counts, 0).sum(dim=1) / lengths).mean()


class BackboneFeatures(nn.ModuleDict):
    """Runs some layers of a backbone. In the state dict, these layers keep their names.

    Maps images (N, 3, H, W) to ``{"features": ...}``.
    """

    def __init__(self, network: nn.Sequential, layers: Iterable[int]) -> None:
        super().__init__({str(index): network[index] for index in layers})

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for layer in self.values():
            x = layer(x)
        return {"features": x}


def build_recognizer(
    network: Callable[..., ModelT],
    arch: str,
    default: dict[str, Any],
    make_features: Callable[[bool, Sequence[int]], nn.Module],
    head: Sequence[str],
    pretrained: bool,
    kwargs: dict[str, Any],
    unused: Sequence[str] = (),
    **settings: Any,
) -> ModelT:
    """Create a recogniser with its configuration, and load its weights if ``pretrained`` is true.

    ``default`` is the default configuration of the architecture ``arch``, and ``kwargs`` are the options of the user.
    ``make_features`` creates the backbone. Its first argument is true if the backbone's weights are to be loaded, and
    its second argument is the shape of the images. The parameters named in ``head`` are loaded only for the default
    vocabulary. The parameters named in ``unused`` are never loaded. ``settings`` are more arguments of the network.
    """
    cfg = dict(default)
    for name in ("vocab", "input_shape"):
        cfg[name] = kwargs.setdefault(name, cfg[name])
    # If the recogniser itself is pretrained, weights of the backbone are not loaded separately.
    pretrained_backbone = kwargs.pop("pretrained_backbone", False) and not pretrained
    features = make_features(pretrained_backbone, cfg["input_shape"])
    other_options = ("pretrained_backbone",)
    model = make_network(arch, network, features, options=kwargs, other_options=other_options, cfg=cfg, **settings)
    if pretrained:
        load_weights(model, arch, ignore_keys=(*unused, *(() if cfg["vocab"] == default["vocab"] else head)))
    return model


def make_patch_features(
    backbone: Callable[..., VisionTransformer], kwargs: dict[str, Any]
) -> Callable[[bool, Sequence[int]], BackboneFeatures]:
    """Return a function that creates a vision transformer without its classification layer, for `build_recognizer`.

    The transformer computes features (N, 1 + patches, D). ``patch_size`` is removed from ``kwargs``. The function never
    loads weights, because none are published for the patch size of recognisers.
    """
    patch_size = kwargs.pop("patch_size", PATCH_SIZE)
    return lambda _, shape: BackboneFeatures(backbone(False, input_shape=shape, patch_size=patch_size), (0, 1))


class _PathLoss(torch.autograd.Function):
    """The CTC loss of texts, with its gradient with respect to the log probabilities of classes.

    The loss is minus the log of the total probability of all CTC paths that give the text. The function ``ctc_loss`` of
    torch computes the gradient as if the given classes were all classes of the softmax. That is wrong if only some
    classes are given.
    """

    @staticmethod
    def forward(ctx: Any, logarithms: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        steps = torch.full((logarithms.shape[1],), len(logarithms))
        with torch.enable_grad():
            given = logarithms.detach().requires_grad_()
            losses = F.ctc_loss(given, labels, steps, lengths, 0, reduction="none", zero_infinity=True)
            (by_scores,) = torch.autograd.grad(losses.sum(), given)
        # A text that is too long for the steps has loss 0 and no gradient.
        fits = (losses.detach() > 0).view(1, -1, 1)
        ctx.save_for_backward(torch.where(fits, by_scores - given.detach().exp(), 0.0))
        return losses.detach()

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * weights.view(1, -1, 1), None, None


def ctc_loss(logarithms: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
    """Compute the CTC loss of texts from the log probabilities of only those classes that occur in the texts.

    See Graves et al., 2006. A recogniser has several thousand classes, but the texts of a batch use only a few dozen of
    them. All other classes only affect the normalisation of the given probabilities. ``logarithms`` (N, T, C) are the
    log probabilities of C classes at T steps; the blank is the first class. ``labels`` are the characters of all N
    texts, concatenated, as indices of these C classes. ``lengths`` (N,) is the number of labels of each text. The
    result is the loss per character, averaged over texts. The loss of a text that is too long for T steps is 0.
    """
    by_step = logarithms.transpose(0, 1)
    if logarithms.requires_grad:
        losses: Tensor = _PathLoss.apply(by_step, labels, lengths)  # type: ignore[no-untyped-call]
    else:
        steps = torch.full((len(logarithms),), logarithms.shape[1])
        losses = F.ctc_loss(by_step, labels, steps, lengths, 0, reduction="none", zero_infinity=True)
    return (losses / lengths.clamp(min=1).to(losses.device)).mean()


class CTCPostProcessor(RecognitionPostProcessor):
    """Decodes CTC scores into words, by taking the most probable class at each step (CTC best path).

    The blank is class ``len(vocab)``. The confidence of a word is the lowest probability of the classes that were
    taken, including blanks.

    Args:
        vocab: The characters of the classes, in order: class 0 is ``vocab[0]``.

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
        """Decode scores by taking the most probable class at each step.

        Args:
            logits: The scores of C classes at T steps before the softmax, (N, T, C).
            vocab: The characters of the classes, in order.
            blank: The index of the blank class; by default ``len(vocab)``.

        Returns:
            A list of N pairs: the word and its confidence in [0, 1].
        """
        decoded = ctc_best_path(logits.float().softmax(dim=-1), len(vocab) if blank is None else blank)
        words = (decode_sequence(decoded.sequence(index).labels, vocab) for index in range(len(decoded)))
        return list(zip(words, decoded.lowest.tolist(), strict=True))

    def characters(self, logits: torch.Tensor) -> CtcCharacters:
        """Decode scores of C classes at T steps before the softmax, (N, T, C), into characters and their steps.

        Returns:
            An object with the characters of all words, concatenated. Its attributes are NumPy arrays with an element
            for each character: ``labels`` (class indices), ``start_steps``, ``stop_steps``, ``peak_steps`` and
            ``confidences``. Word ``i`` has the elements from ``offsets[i]`` to ``offsets[i + 1] - 1``.
        """
        return ctc_best_path(logits.float().softmax(dim=-1), len(self.vocab))

    def __call__(self, logits: torch.Tensor) -> list[tuple[str, float]]:
        """Return the words for scores (N, T, C), in the format of `RecognitionPostProcessor`."""
        return self.ctc_best_path(logits, self.vocab)


class CTCModel(RecognitionModel):
    """Base class of networks that score classes at each step and are trained with CTC. The last class is the blank."""

    max_length = 32

    def __init__(self, vocab: str, exportable: bool, cfg: dict[str, Any] | None) -> None:
        super().__init__(vocab, CTCPostProcessor(vocab), exportable, cfg)

    def build_target(self, gts: Sequence[str]) -> tuple[npt.NDArray[np.int32], list[int]]:
        """Encode words as class indices, padded with blanks to the length of the longest word.

        See `RecognitionModel.build_target`.
        """
        return encode_sequences(list(gts), self.vocab, eos=len(self.vocab)), [len(word) for word in gts]

    @abstractmethod
    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores (N, T, classes) for images (N, 3, H, W)."""

    def _score(
        self, x: torch.Tensor, target: Sequence[str] | None, needs_scores: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        logits = self._logits(x)
        return logits, None if target is None or self.exportable else self.compute_loss(logits, target)

    def compute_loss(self, model_output: torch.Tensor, target: Sequence[str]) -> torch.Tensor:
        """Return the CTC loss (Graves et al., 2006) per character, averaged over words.

        The loss of a word that is too long for the number of time steps is 0, and has no gradient.

        Args:
            model_output: (N, T, C) scores.
            target: The N words.
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
