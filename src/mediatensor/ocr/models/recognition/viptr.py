"""VIPTR: the VIP network, which preserves the width, and CTC."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import nn

from .._networks.weights import load_weights
from ..classification.vip import VIPNet, vip_tiny
from .core import CTCModel, CTCPostProcessor, recognition_cfg

__all__ = ["VIPTR", "VIPTRPostProcessor", "viptr_tiny"]

default_cfgs: dict[str, dict[str, Any]] = {
    "viptr_tiny": recognition_cfg("v0.11.0/viptr_tiny-1cb2515e.pt", {"FUNSD": 86.03, "CORD": 93.08}),
}

VIPTRPostProcessor = CTCPostProcessor
"""Decodes the scores of `VIPTR` into words."""


class VIPFeatures(nn.ModuleDict):
    """The layers of a VIP network with their names, without the head."""

    def __init__(self, network: VIPNet) -> None:
        super().__init__({str(index): network[index] for index in range(6)})

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map (N, 3, H, W) images to ``{"features": (N, W / 4, D)}``."""
        for layer in self.values():
            x = layer(x)
        return {"features": x}


class VIPTR(CTCModel):
    """VIPTR (Cheng et al., "A Vision Permutable Extractor for Fast and Efficient Scene Text Recognition", 2024).

    Other arguments are documented in `CRNN`.

    Args:
        feature_extractor: Maps images to ``{"features": (N, T, D)}``.
        embedding_units: Width D of the features.
        input_shape: Channels, height and width of the images; other sizes are accepted.

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
        embedding_units: int = 192,
        input_shape: tuple[int, int, int] = (3, 32, 128),
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(vocab, exportable, cfg)
        self.input_shape = input_shape
        self.feat_extractor = feature_extractor
        self.head = nn.Linear(embedding_units, len(vocab) + 1)
        nn.init.trunc_normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def score_layer(self) -> tuple[nn.Linear, int]:
        return self.head, 0

    def forward(
        self,
        x: torch.Tensor,
        target: Sequence[str] | None = None,
        return_model_output: bool = False,
        return_preds: bool = False,
    ) -> dict[str, Any]:
        """Read words; see `RecognitionModel`.

        The height of images must be a multiple of 16, and their width a multiple of 8.

        Raises:
            InvalidArgumentError: The images have another size, or ``target`` does not fit.
        """
        self._check_target(target, x)
        logits = self.head(self.feat_extractor(x)["features"])
        loss = None if target is None or self.exportable else self.compute_loss(logits, target)
        return self._results(logits, loss, return_model_output, return_preds)


def viptr_tiny(pretrained: bool = False, **kwargs: Any) -> VIPTR:
    """Return a VIPTR with the tiny VIP network.

    Takes the arguments of `crnn_vgg16_bn`, with the options of `VIPTR`.
    """
    arch = "viptr_tiny"
    cfg = deepcopy(default_cfgs[arch])
    for name in ("vocab", "input_shape"):
        cfg[name] = kwargs.setdefault(name, cfg[name])
    pretrained_backbone = kwargs.pop("pretrained_backbone", False) and not pretrained
    features = VIPFeatures(vip_tiny(pretrained_backbone, input_shape=cfg["input_shape"]))
    model = VIPTR(features, cfg=cfg, **kwargs)
    if pretrained:
        other_vocabulary = cfg["vocab"] != default_cfgs[arch]["vocab"]
        load_weights(model, arch, ignore_keys=("head.weight", "head.bias") if other_vocabulary else ())
    return model
