"""VGG-16 with batch normalization, a backbone of text recognisers. Its later pooling layers do not reduce the width."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .._networks.blocks import conv_sequence_pt, initialize_convolutions
from ._classifier import Classifier, build_classifier, classifier_cfg

__all__ = ["VGG", "vgg16_bn_r"]

default_cfgs: dict[str, dict[str, Any]] = {
    "vgg16_bn_r": classifier_cfg("v0.4.1/vgg16_bn_r-d108c19c.pt"),
}

_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and number of convolutions of each stage; each stage ends with pooling."""
_SQUARE_POOLS = 2
"""The first pools halve height and width; later pools halve only the height, so that narrow letters stay separate."""


class VGG(Classifier):
    """VGG-16 (Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2014).

    Args:
        num_classes: Number of classes.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels_in = 3
        for stage, (channels, repeats) in enumerate(_STAGES):
            for _ in range(repeats):
                layers += conv_sequence_pt(channels_in, channels, True, True, kernel_size=3, padding=1, bias=True)
                channels_in = channels
            layers.append(nn.MaxPool2d(2 if stage < _SQUARE_POOLS else (2, 1)))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(_STAGES[-1][0], num_classes)
        initialize_convolutions(self, zero_bias=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores before the softmax, (N, classes), for normalised images (N, 3, H, W)."""
        scores: torch.Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return scores


def vgg16_bn_r(pretrained: bool = False, **kwargs: Any) -> VGG:
    """Return docTR's VGG-16 with batch normalization, which classifies 32 x 32 images of characters.

    The network is in training mode. It differs from the original VGG-16: all pooling layers but the first two reduce
    only the height, and a single linear layer computes the scores. See `mobilenet_v3_small` for the arguments; there is
    no ``dropout``.
    """
    return build_classifier(default_cfgs, "vgg16_bn_r", VGG, "classifier", pretrained, kwargs)
