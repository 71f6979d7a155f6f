"""ResNet-31, a residual network that keeps the width of text, with or without global context attention."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import nn

from ..utils import conv_sequence_pt
from ._classifier import Classifier, build_classifier, classifier_cfg

__all__ = ["MAGC", "ResNet31", "magc_resnet31", "resnet31"]

default_cfgs: dict[str, dict[str, Any]] = {
    "resnet31": classifier_cfg("v0.4.1/resnet31-1056cc5c.pt"),
    "magc_resnet31": classifier_cfg("v0.4.1/magc_resnet31-857391d8.pt"),
}

_STAGES: tuple[tuple[int, int, tuple[int, int] | None], ...] = (
    (1, 256, (2, 2)),
    (2, 256, (2, 1)),
    (5, 512, None),
    (3, 512, None),
)
"""Blocks, channels and the pool after each stage."""


class MAGC(nn.Module):
    """Global context attention in several heads (Lu et al., "MASTER: Multi-Aspect Non-local Network", 2019).

    Args:
        channels: of the features that come in and go out.
        heads: how many parts of the channels look at the picture on their own.
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
        """Add to (N, C, H, W) features what each head gathered from all places."""
        split = x.unflatten(1, (self.heads, -1)).flatten(0, 1)  # type: ignore[no-untyped-call]
        places = split.flatten(2)
        weights = (self.conv_mask(split).flatten(2) / math.sqrt(split.shape[1])).softmax(dim=-1)
        context = (places * weights).sum(dim=-1).reshape(x.shape[0], -1, 1, 1)
        added: torch.Tensor = x + self.transform(context)
        return added


class _Block(nn.Module):
    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample: nn.Sequential | None = None
        if channels_in != channels:
            self.downsample = nn.Sequential(*conv_sequence_pt(channels_in, channels, bn=True, kernel_size=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        added: torch.Tensor = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())) + shortcut
        return added.relu()


class ResNet31(nn.Sequential, Classifier):
    """ResNet-31 (Li et al., "Show, Attend and Read", 2018): (N, 3, H, W) images to features an eighth of the height
    and a quarter of the width, and scores.

    Args:
        attention: end each stage's blocks with :class:`MAGC`.
        num_classes: how many classes the head tells apart.
        include_top: with the head; without, the features come out.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import resnet31
        >>> resnet31(num_classes=10).eval()(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 10])
    """

    def __init__(self, attention: bool, num_classes: int = 1000, include_top: bool = True) -> None:
        layers: list[nn.Module] = [
            *conv_sequence_pt(3, 64, act=True, bn=True, kernel_size=3, padding=1),
            *conv_sequence_pt(64, 128, act=True, bn=True, kernel_size=3, padding=1),
            nn.MaxPool2d(2),
        ]
        channels_in = 128
        for blocks, channels, pool in _STAGES:
            layers.append(_stage(channels_in, channels, blocks, pool, attention))
            channels_in = channels
        if include_top:
            layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels_in, num_classes)]
        super().__init__(*layers)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def _stage(
    channels_in: int, channels: int, blocks: int, pool: tuple[int, int] | None, attention: bool
) -> nn.Sequential:
    layers: list[nn.Module] = [_Block(channels if index else channels_in, channels) for index in range(blocks)]
    if attention:
        layers.append(MAGC(channels))
    layers += conv_sequence_pt(channels, channels, act=True, bn=True, kernel_size=3, padding=1)
    if pool is not None:
        layers.append(nn.MaxPool2d(pool))
    return nn.Sequential(*layers)


def resnet31(pretrained: bool = False, **kwargs: Any) -> ResNet31:
    """ResNet-31, the backbone of SAR.

    Args:
        pretrained: fill it with docTR's weights, if their file is on this machine.
        **kwargs: of :class:`ResNet31`; ``classes`` gives the names of the classes for ``cfg``.

    Returns:
        The network.

    Raises:
        WeightsNotFoundError: the weights are asked for and not there; the message says where to put them.
    """
    network = partial(ResNet31, False)
    return build_classifier("resnet31", default_cfgs["resnet31"], network, "13", pretrained, kwargs)


def magc_resnet31(pretrained: bool = False, **kwargs: Any) -> ResNet31:
    """ResNet-31 with global context attention, the backbone of MASTER; arguments as :func:`resnet31`."""
    network = partial(ResNet31, True)
    return build_classifier("magc_resnet31", default_cfgs["magc_resnet31"], network, "13", pretrained, kwargs)
