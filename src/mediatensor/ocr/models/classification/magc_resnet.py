"""ResNet-31 with global context attention. Its strides reduce the width of text less than in most residual networks."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import nn

from ._classifier import build_classifier, classifier_cfg
from .resnet import RESNET31, ResNet

__all__ = ["MAGC", "magc_resnet31"]

default_cfgs: dict[str, dict[str, Any]] = {
    "magc_resnet31": classifier_cfg("v0.4.1/magc_resnet31-857391d8.pt"),
}


class MAGC(nn.Module):
    """Multi-head global context attention (Lu et al., "MASTER: Multi-Aspect Non-local Network", 2019).

    Args:
        channels: Number of input and output channels; must be a multiple of ``heads``.
        heads: Number of groups of channels. Each group has its own attention weights.
    """

    def __init__(self, channels: int, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        inner = channels // 16
        self.conv_mask = nn.Conv2d(channels // heads, 1, 1)
        self.transform = nn.Sequential(
            nn.Conv2d(channels, inner, 1),
            nn.LayerNorm([inner, 1, 1]),
            nn.ReLU(inplace=True),
            nn.Conv2d(inner, channels, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return features (N, C, H, W) with global context added, in the same shape.

        Each head computes an attention-weighted mean over all positions. A small network transforms these means, and
        the result is added to the features at every position.
        """
        split = x.unflatten(1, (self.heads, -1)).flatten(0, 1)  # type: ignore[no-untyped-call]
        places = split.flatten(2)
        weights = (self.conv_mask(split).flatten(2) / math.sqrt(split.shape[1])).softmax(dim=-1)
        context = (places * weights).sum(dim=-1).reshape(x.shape[0], x.shape[1], 1, 1)
        added: torch.Tensor = x + self.transform(context)
        return added


def magc_resnet31(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Return a ResNet-31 with global context attention (`MAGC`), the backbone of MASTER.

    The network is in training mode. See `resnet31` for the arguments.
    """
    network = partial(ResNet, **RESNET31, attn_module=MAGC)
    return build_classifier(default_cfgs, "magc_resnet31", network, "13", pretrained, kwargs)
