"""VIPTR, a word recogniser: a VIP backbone, whose features form a sequence along the word, and a CTC head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ..classification.vip import vip_tiny
from .core import BackboneFeatures, CTCModel, CTCPostProcessor, build_recognizer, recognition_cfg

__all__ = ["VIPTR", "VIPTRPostProcessor", "viptr_tiny"]

default_cfgs: dict[str, dict[str, Any]] = {
    "viptr_tiny": recognition_cfg("v0.11.0/viptr_tiny-1cb2515e.pt", {"FUNSD": 86.03, "CORD": 93.08}),
}

VIPTRPostProcessor = CTCPostProcessor
"""Decodes the scores of `VIPTR` into words."""


class VIPTR(CTCModel):
    """VIPTR (Cheng et al., "A Vision Permutable Extractor for Fast and Efficient Scene Text Recognition", 2024).

    The height of images must be a multiple of 16, and their width a multiple of 8. The arguments that are not listed
    here are the same as for `CRNN`.

    Args:
        feature_extractor: The backbone, which maps images (N, 3, H, W) to ``{"features": (N, T, D)}``.
        input_shape: Channels, height and width of the images; other sizes are accepted.
        embedding_units: Width D of the features.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import viptr_tiny
        >>> viptr_tiny(vocab="abc").eval()(torch.zeros(1, 3, 32, 128), return_model_output=True)["out_map"].shape
        torch.Size([1, 32, 4])
    """

    def __init__(
        self,
        feature_extractor: nn.Module,
        vocab: str,
        input_shape: tuple[int, int, int] = (3, 32, 128),
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
        *,
        embedding_units: int = 192,
    ) -> None:
        super().__init__(vocab, exportable, cfg)
        self.input_shape = input_shape
        self.feat_extractor = feature_extractor
        self.head = nn.Linear(embedding_units, len(vocab) + 1)
        nn.init.trunc_normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def score_layer(self) -> tuple[nn.Linear, int]:
        return self.head, 0

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.feat_extractor(x)["features"])
        return scores


def viptr_tiny(pretrained: bool = False, **kwargs: Any) -> VIPTR:
    """Return a VIPTR recogniser whose backbone is the tiny VIP network.

    The network is in training mode. See `crnn_vgg16_bn` for the arguments; ``kwargs`` are passed to `VIPTR`.
    """

    def make_features(is_pretrained: bool, shape: Sequence[int]) -> nn.Module:
        return BackboneFeatures(vip_tiny(is_pretrained, input_shape=shape), range(6))

    arch, head = "viptr_tiny", ("head.weight", "head.bias")
    return build_recognizer(VIPTR, arch, default_cfgs[arch], make_features, head, pretrained, kwargs)
