"""ViTSTR, a word recogniser: a vision transformer whose outputs for the first patches give the characters, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ..classification.vit import VisionTransformer, vit_b, vit_s
from .core import (
    RecognitionModel,
    SequencePostProcessor,
    build_recognizer,
    encode_with_marks,
    make_patch_features,
    masked_cross_entropy,
    recognition_cfg,
)

__all__ = ["ViTSTR", "ViTSTRPostProcessor", "vitstr_base", "vitstr_small"]

default_cfgs: dict[str, dict[str, Any]] = {
    "vitstr_small": recognition_cfg("v0.7.0/vitstr_small-fcd12655.pt", {"FUNSD": 88.00, "CORD": 95.40}),
    "vitstr_base": recognition_cfg("v0.7.0/vitstr_base-50b21df2.pt", {"FUNSD": 88.33, "CORD": 95.32}),
}

_HEAD = ("head.weight", "head.bias")


class ViTSTRPostProcessor(SequencePostProcessor):
    """Decodes the scores of `ViTSTR` into words; see `SequencePostProcessor`."""


class ViTSTR(RecognitionModel):
    """ViTSTR (Atienza, "Vision Transformer for Fast and Efficient Scene Text Recognition", 2021).

    The arguments are the same as for `PARSeq`.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import vitstr_small
        >>> model = vitstr_small(vocab="abc").eval()
        >>> model(torch.zeros(1, 3, 32, 128), return_model_output=True)["out_map"].shape
        torch.Size([1, 33, 4])
    """

    def __init__(
        self,
        feature_extractor: nn.Module,
        vocab: str,
        embedding_units: int,
        max_length: int = 32,
        input_shape: tuple[int, int, int] = (3, 32, 128),
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(vocab, ViTSTRPostProcessor(vocab), exportable, cfg)
        # Includes the start token and the end token.
        self.max_length = max_length + 2
        self.input_shape = input_shape
        self.feat_extractor = feature_extractor
        self.head = nn.Linear(embedding_units, len(vocab) + 1)

    def score_layer(self) -> tuple[nn.Linear, int]:
        return self.head, 0

    def build_target(self, gts: Sequence[str]) -> tuple[npt.NDArray[np.int32], list[int]]:
        """Encode words as class indices: a start token, the characters, and end tokens.

        See `RecognitionModel.build_target`; the width is ``self.max_length``. The numbers of characters are at most
        ``self.max_length - 2``; rows of longer words have one more character, but no end token.
        """
        return encode_with_marks(gts, self.vocab, self.max_length - 2)

    @staticmethod
    def compute_loss(model_output: torch.Tensor, gt: torch.Tensor, seq_len: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy of the characters and the end token of each word, averaged over words.

        See `SAR.compute_loss`; ``gt`` is the result of `build_target`, int64 (N, width).
        """
        steps = min(model_output.shape[1], gt.shape[1] - 1)
        return masked_cross_entropy(model_output[:, :steps], gt[:, 1 : steps + 1], (seq_len + 1).clamp(max=steps))

    def _score(
        self, x: torch.Tensor, target: Sequence[str] | None, needs_scores: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        features = self.feat_extractor(x)["features"]
        # Skip the class token.
        logits = self.head(features[:, 1 : self.max_length])
        if target is None or self.exportable:
            return logits, None
        return logits, self.compute_loss(logits, *self._encode(target, x.device))


def _vitstr(
    arch: str, pretrained: bool, backbone: Callable[..., VisionTransformer], units: int, kwargs: dict[str, Any]
) -> ViTSTR:
    make_features, cfg = make_patch_features(backbone, kwargs), default_cfgs[arch]
    return build_recognizer(ViTSTR, arch, cfg, make_features, _HEAD, pretrained, kwargs, embedding_units=units)


def vitstr_small(pretrained: bool = False, **kwargs: Any) -> ViTSTR:
    """Return a ViTSTR recogniser whose backbone is a small vision transformer (ViT-S).

    The network is in training mode. See `crnn_vgg16_bn` for the arguments; ``kwargs`` are passed to `ViTSTR`.
    ``kwargs`` can also contain ``patch_size``: the height and width in pixels of the backbone's patches, by default (4,
    8).
    """
    return _vitstr("vitstr_small", pretrained, vit_s, 384, kwargs)


def vitstr_base(pretrained: bool = False, **kwargs: Any) -> ViTSTR:
    """Return a ViTSTR recogniser whose backbone is a base vision transformer (ViT-B).

    The network is in training mode. See `vitstr_small` for the arguments.
    """
    return _vitstr("vitstr_base", pretrained, vit_b, 768, kwargs)
