"""StarNet: a small convolutional network whose blocks multiply two projections of the features."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from .._networks.blocks import DropPath, initialize_truncated
from ._classifier import Classifier, build_classifier, classifier_cfg

__all__ = ["StarNet", "starnet_s3"]

default_cfgs: dict[str, dict[str, Any]] = {"starnet_s3": classifier_cfg("v1.0.1/starnet_s3-a413415c.pt", release=True)}


def _convolution(in_channels: int, out_channels: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, kernel, stride, kernel // 2, groups=groups)


def _layers(conv: nn.Conv2d, normalized: bool) -> nn.Sequential:
    """Return a convolution, followed by batch norm if ``normalized``. The layers have the same names as in docTR."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(conv=conv)
    if normalized:
        layers["bn"] = nn.BatchNorm2d(conv.out_channels)
    return nn.Sequential(layers)


class _Block(nn.Module):
    """A residual block: the product of two wide projections of the convolved input is projected back."""

    def __init__(self, channels: int, mlp_ratio: int, drop_path: float) -> None:
        super().__init__()
        wide = mlp_ratio * channels
        self.dwconv = _layers(_convolution(channels, channels, 7, groups=channels), normalized=True)
        self.f1 = _layers(_convolution(channels, wide), normalized=False)
        self.f2 = _layers(_convolution(channels, wide), normalized=False)
        self.g = _layers(_convolution(wide, channels), normalized=True)
        self.dwconv2 = _layers(_convolution(channels, channels, 7, groups=channels), normalized=False)
        self.act = nn.ReLU6()
        self.drop_path = DropPath(drop_path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.dwconv(x)
        y = self.dwconv2(self.g(self.act(self.f1(y)) * self.f2(y)))
        added: torch.Tensor = x + self.drop_path(y)
        return added


class StarNet(nn.Sequential, Classifier):
    """StarNet (Ma et al., "Rewrite the Stars", 2024, https://arxiv.org/abs/2403.19967).

    Args:
        base_dim: Channels of the first stage. Each following stage has twice as many as the stage before it.
        depths: Number of blocks in each stage. The first convolution and every stage halve height and width.
        mlp_ratio: Each block multiplies two projections of its input with each other, element by element. This is
            their number of channels divided by that of the block.
        drop_path_rate: Probability that the last block is skipped in training (stochastic depth). For earlier blocks
            the probability is lower: it rises linearly from 0 at the first block.
        stem_dim: Channels before the first stage.
        num_classes: Number of classes.
        include_top: Whether to include the classification layers, which return scores (N, classes). Otherwise the
            network returns the features of the last stage, (N, C, h, w).
        cfg: Dictionary of preprocessing settings that predictors use, such as ``mean``, ``std`` and ``input_shape``.
    """

    def __init__(
        self,
        base_dim: int = 32,
        depths: Sequence[int] = (2, 2, 8, 4),
        mlp_ratio: int = 4,
        drop_path_rate: float = 0.0,
        stem_dim: int = 32,
        num_classes: int = 1000,
        include_top: bool = True,
        cfg: dict[str, Any] | None = None,
    ) -> None:
        layers = [nn.Sequential(_layers(_convolution(3, stem_dim, 3, 2), normalized=True), nn.ReLU6())]
        drops = iter(torch.linspace(0, drop_path_rate, sum(depths), device="cpu").tolist())
        widths = [stem_dim]
        for stage, depth in enumerate(depths):
            channels = base_dim * 2**stage
            halving = _layers(_convolution(widths[-1], channels, 3, 2), normalized=True)
            layers.append(nn.Sequential(halving, *(_Block(channels, mlp_ratio, next(drops)) for _ in range(depth))))
            widths.append(channels)
        last = widths[-1]
        if include_top:
            head = (nn.BatchNorm2d(last), nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(last, num_classes))
            layers.append(nn.Sequential(*head))
        super().__init__(*layers)
        self.channels = widths
        if cfg is not None:
            self.cfg = cfg
        initialize_truncated(self, nn.Linear, nn.Conv2d)


def starnet_s3(pretrained: bool = False, **kwargs: Any) -> StarNet:
    """Return a StarNet-S3 that classifies 32 x 32 images of characters.

    The network is in training mode. See `mobilenet_v3_small` for the arguments; there is no ``dropout``. ``**kwargs``
    can also be arguments of `StarNet`.
    """
    return build_classifier(default_cfgs, "starnet_s3", StarNet, "5.3", pretrained, kwargs)
