"""ResNet-31 without its head, as the backbone of a recogniser."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import nn

from ..classification.resnet import ResNet
from ..classification.vit import VisionTransformer

__all__ = ["PatchFeatures", "ResNetFeatures", "build_features", "take_backbone_arguments"]

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


PATCH_SIZE = (4, 8)


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
