"""ResNet-31 without its head, as the backbone of a recogniser."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import nn

from ..classification.resnet import ResNet

__all__ = ["ResNetFeatures", "build_features"]

_HEAD_LAYERS = 3
_SKIPPED = 5
"""The activation before the first pool. The published recognisers were trained without it: where docTR cuts the head
off, a layer object that occurs twice is kept once."""


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
