"""A vision transformer without its head, as the backbone of a recogniser."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import nn

from ..classification.vit import VisionTransformer

__all__ = ["PatchFeatures", "take_backbone_arguments"]

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
