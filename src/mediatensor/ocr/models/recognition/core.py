"""The base of all recognition networks: backbones, targets, results, and reading words off their scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional as F

from ....errors import InvalidArgumentError
from ...datasets import VOCABS, encode_sequences
from .._networks.transfers import download
from .._networks.weights import load_pretrained_params
from ..classification.resnet import ResNet
from ..classification.vit import VisionTransformer

__all__ = [
    "LeastCertainPostProcessor",
    "RecognitionModel",
    "RecognitionPostProcessor",
    "SequencePostProcessor",
]

_HEAD_LAYERS = 3
_SKIPPED = 5
"""The activation before the first pool. The published recognisers were trained without it: where docTR cuts the head
off, a layer object that occurs twice is kept once."""
PATCH_SIZE = (4, 8)


def recognition_cfg(url: str, accuracy: dict[str, float]) -> dict[str, Any]:
    """The configuration of docTR's recognition networks.

    Args:
        url: where docTR publishes the weights; never fetched.
        accuracy: shares of words read exactly, in percent, as docTR publishes them.

    Returns:
        The entry of an architecture in ``default_cfgs``.
    """
    return {
        "mean": (0.694, 0.695, 0.693),
        "std": (0.299, 0.296, 0.301),
        "input_shape": (3, 32, 128),
        "vocab": VOCABS["french"],
        "url": f"https://doctr-static.mindee.com/models?id={url}",
        "accuracy": accuracy,
    }


class RecognitionPostProcessor(ABC):
    """Turns the scores of a network into words.

    Args:
        vocab: the characters, in the order of the classes.
    """

    def __init__(self, vocab: str) -> None:
        self.vocab = vocab

    @abstractmethod
    def __call__(self, logits: torch.Tensor) -> list[tuple[str, float]]:
        """Read the words.

        Args:
            logits: (N, T, C) scores of N images.

        Returns:
            N words, each with its confidence in [0, 1].
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab_size={len(self.vocab)})"


class SequencePostProcessor(RecognitionPostProcessor):
    """For networks that give one character per step and then the class after the vocabulary, which ends the word.

    The confidence of a word is the mean probability of its characters; that of an empty word is 0.
    """

    def __call__(self, logits: torch.Tensor) -> list[tuple[str, float]]:
        """Read the words of (N, T, C) scores; see :class:`RecognitionPostProcessor`."""
        best, classes = logits.float().softmax(dim=-1).max(dim=-1)
        # Before the first end mark the running count of end marks is 0.
        lengths = ((classes >= len(self.vocab)).cumsum(dim=1) == 0).sum(dim=1)
        words = []
        rows = (array.tolist() for array in download(best, classes, lengths))
        for row, steps, length in zip(*rows, strict=True):
            word = "".join(self.vocab[index] for index in steps[:length])
            words.append((word, self._confidence(row, length)))
        return words

    def _confidence(self, best: list[float], length: int) -> float:
        """That of a word, from the best probability of each step and the number of its characters."""
        return sum(best[:length]) / length if length else 0.0


class LeastCertainPostProcessor(SequencePostProcessor):
    """As its base, with another confidence: the least probability of all steps, those after the word included."""

    def _confidence(self, best: list[float], length: int) -> float:
        return min(best)


class RecognitionModel(nn.Module, ABC):
    """Base of the networks that read an image of a word.

    Subclasses compute the scores and the loss; what a call returns is put together by :meth:`_results`.

    Args:
        vocab: the characters it tells apart, in the order of the classes.
        postprocessor: reads words off the scores.
        exportable: return ``{"logits"}`` and nothing else.
        cfg: what the model was made for: ``mean``, ``std``, ``input_shape``, ``vocab``, ``url``.

    Raises:
        InvalidArgumentError: the vocabulary is empty.
    """

    max_length: int

    def __init__(
        self, vocab: str, postprocessor: RecognitionPostProcessor, exportable: bool, cfg: dict[str, Any] | None
    ) -> None:
        super().__init__()
        if not vocab:
            raise InvalidArgumentError("vocab is empty; expected at least one character")
        self.vocab = vocab
        self.postprocessor = postprocessor
        self.exportable = exportable
        self.cfg = cfg

    def from_pretrained(self, path_or_url: str, **kwargs: Any) -> None:
        """Load a checkpoint from a file.

        Args:
            path_or_url: the path of the file; a URL is refused, nothing is downloaded.
            **kwargs: of :func:`~mediatensor.ocr.models.utils.load_pretrained_params`.

        Example:
            >>> import torch
            >>> from mediatensor.ocr.models import crnn_mobilenet_v3_small
            >>> model = crnn_mobilenet_v3_small(vocab="0123456789", pretrained_backbone=False)
            >>> torch.save(model.state_dict(), "digits.pt")
            >>> model.from_pretrained("digits.pt")
        """
        load_pretrained_params(self, path_or_url, **kwargs)

    @abstractmethod
    def score_layer(self) -> tuple[nn.Linear, int]:
        """The layer that scores the classes, and the class of ``vocab[0]``; what a whitelist hooks into."""

    @abstractmethod
    def build_target(self, gts: Sequence[str]) -> tuple[npt.NDArray[np.int32], list[int]]:
        """Encode words as rows of classes.

        Args:
            gts: the N words.

        Returns:
            (N, width) array of int32, with the marks that this network wants, and the length of each word.
        """

    def _check_target(self, target: Sequence[str] | None, images: torch.Tensor) -> None:
        if target is None:
            if self.training:
                raise InvalidArgumentError(
                    "target is None in training mode; expected the word of each image, or .eval()"
                )
        elif len(target) != len(images):
            raise InvalidArgumentError(
                f"target has {len(target)} words for {len(images)} images; expected one for each"
            )

    def _results(
        self, logits: torch.Tensor, loss: torch.Tensor | None, return_model_output: bool, return_preds: bool
    ) -> dict[str, Any]:
        """The result of a call, from the scores and the loss (None without a target)."""
        if logits.dtype == torch.bfloat16:
            # numpy has no such type.
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

    # Reading words makes Python strings, which a compiler cannot.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _read(self, logits: torch.Tensor) -> list[tuple[str, float]]:
        return self.postprocessor(logits)


def encode_with_marks(
    words: Sequence[str], vocab: str, max_length: int, pad: int | None = None
) -> tuple[npt.NDArray[np.int32], list[int]]:
    """Rows of start mark, classes and end mark, for networks that give one character per step.

    A word of more than ``max_length`` characters keeps those that there are steps for, and has no end mark.

    Args:
        words: the N words.
        vocab: the characters, in the order of the classes; then come the end mark and the start mark.
        max_length: the most characters that the network gives.
        pad: the class that fills; by default the end mark.

    Returns:
        (N, max_length + 2) array of int32, and the length of each word, ``max_length`` at most.
    """
    encoded = encode_sequences(
        list(words), vocab, target_size=max_length + 2, eos=len(vocab), sos=len(vocab) + 1, pad=pad
    )
    return encoded, [min(len(word), max_length) for word in words]


def masked_cross_entropy(logits: torch.Tensor, classes: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Cross-entropy over the steps that count: the mean over words of the mean over the steps of each.

    Args:
        logits: (N, T, C) scores.
        classes: (N, T) int64, the right classes.
        lengths: (N,) int64, how many steps of each word count; at least 1 each.

    Returns:
        The loss, a scalar.

    >>> import torch
    >>> from mediatensor.ocr.models.recognition.core import masked_cross_entropy
    >>> masked_cross_entropy(torch.zeros(1, 3, 4), torch.zeros(1, 3, dtype=torch.int64), torch.tensor([2])).item()
    1.3862943649291992
    """
    each = F.cross_entropy(logits.float().transpose(1, 2), classes, reduction="none")
    counts = torch.arange(logits.shape[1], device=logits.device) < lengths[:, None]
    return (each.masked_fill(~counts, 0).sum(dim=1) / lengths).mean()


class ResNetFeatures(nn.ModuleDict):
    """The layers of ResNet-31 under the names they have in it, as docTR's recognisers use them.

    Args:
        network: the network; its head and one activation are left out.
    """

    def __init__(self, network: ResNet) -> None:
        layers = list(network)[:-_HEAD_LAYERS]
        super().__init__({str(index): layer for index, layer in enumerate(layers) if index != _SKIPPED})

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map (N, 3, H, W) images to ``{"features": (N, C, H / 8, W / 4)}``."""
        for layer in self.values():
            x = layer(x)
        return {"features": x}


def build_features(
    backbone: Callable[..., ResNet], default: dict[str, Any], pretrained: bool, kwargs: dict[str, Any]
) -> tuple[ResNetFeatures, dict[str, Any]]:
    """The backbone of a recogniser, and what the recogniser was made for.

    Args:
        backbone: the factory of the network.
        default: the entry of the recogniser in ``default_cfgs``.
        pretrained: the recogniser gets weights of its own, so that its backbone needs none.
        kwargs: arguments of the recogniser's factory; completed with ``vocab`` and ``input_shape``, relieved of
            ``pretrained_backbone``.

    Returns:
        The backbone and ``cfg``.
    """
    cfg = deepcopy(default)
    for name in ("vocab", "input_shape"):
        cfg[name] = kwargs.setdefault(name, cfg[name])
    pretrained_backbone = kwargs.pop("pretrained_backbone", False) and not pretrained
    return ResNetFeatures(backbone(pretrained_backbone)), cfg


class PatchFeatures(nn.ModuleDict):
    """The patches and the encoder of a vision transformer, under the names they have in it.

    Args:
        transformer: the network; its head is left out.
    """

    def __init__(self, transformer: VisionTransformer) -> None:
        super().__init__({"0": transformer[0], "1": transformer[1]})

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map (N, 3, H, W) images to ``{"features": (N, 1 + patches, D)}``, the class token first."""
        return {"features": self["1"](self["0"](x))}


def take_backbone_arguments(default: dict[str, Any], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate what builds the backbone from the arguments of a recogniser.

    Args:
        default: the entry of the architecture in ``default_cfgs``.
        kwargs: arguments of the factory; completed with ``vocab`` and ``input_shape``, relieved of what is not the
            recogniser's own. ``pretrained_backbone`` has no effect: no backbone is published for these patches.

    Returns:
        What the model was made for, and the arguments of the backbone.
    """
    cfg = deepcopy(default)
    for name in ("vocab", "input_shape"):
        cfg[name] = kwargs.setdefault(name, cfg[name])
    kwargs.pop("pretrained_backbone", None)
    return cfg, {"input_shape": cfg["input_shape"], "patch_size": kwargs.pop("patch_size", PATCH_SIZE)}
