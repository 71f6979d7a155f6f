"""Residual networks: backbones of detectors and recognisers, and character classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from .._networks.blocks import conv_sequence_pt, initialize_convolutions
from ._classifier import Classifier, build_classifier, classifier_cfg

__all__ = [
    "NamedResNet",
    "ResNet",
    "resnet18",
    "resnet31",
    "resnet34",
    "resnet34_wide",
    "resnet50",
    "resnet_stage",
]

default_cfgs: dict[str, dict[str, Any]] = {
    "resnet18": classifier_cfg("v0.4.1/resnet18-244bf390.pt"),
    "resnet31": classifier_cfg("v0.4.1/resnet31-1056cc5c.pt"),
    "resnet34": classifier_cfg("v0.5.0/resnet34-bd8725db.pt"),
    "resnet34_wide": classifier_cfg("v0.6.0/resnet34_wide-b4b3e39e.pt"),
    "resnet50": classifier_cfg("v0.5.0/resnet50-1a6c155e.pt"),
}

_STEM_CHANNELS = 64


class NamedResNet(Classifier):
    """A residual network with named layers (He et al., "Deep Residual Learning for Image Recognition", 2015).

    Args:
        depths: Number of blocks in each of the four stages.
        bottleneck: Use blocks of three convolutions, the last of which has four times as many channels as the others;
            otherwise use blocks of two convolutions.
        num_classes: Number of classes.
    """

    def __init__(self, depths: tuple[int, int, int, int], bottleneck: bool, num_classes: int = 1000) -> None:
        super().__init__()
        block = _Bottleneck if bottleneck else _BasicBlock
        self.conv1 = nn.Conv2d(3, _STEM_CHANNELS, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(_STEM_CHANNELS)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = _stage(block, _STEM_CHANNELS, 64, depths[0], 1)
        self.layer2 = _stage(block, 64 * block.expansion, 128, depths[1], 2)
        self.layer3 = _stage(block, 128 * block.expansion, 256, depths[2], 2)
        self.layer4 = _stage(block, 256 * block.expansion, 512, depths[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        initialize_convolutions(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores before the softmax, (N, classes), for normalised images (N, 3, H, W)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        scores: torch.Tensor = self.fc(self.avgpool(x).flatten(1))
        return scores


class _BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = _shortcut(in_channels, channels, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        out: torch.Tensor = self.relu(self.bn2(self.conv2(x)) + shortcut)
        return out


class _Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        # The published weights have the stride here; in the paper it is in the first convolution.
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, channels * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(in_channels, channels * self.expansion, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        out: torch.Tensor = self.relu(self.bn3(self.conv3(x)) + shortcut)
        return out


def _shortcut(in_channels: int, out_channels: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and in_channels == out_channels:
        return None
    return nn.Sequential(nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels))


def _stage(
    block: type[_BasicBlock] | type[_Bottleneck], in_channels: int, channels: int, depth: int, stride: int
) -> nn.Sequential:
    following = [block(channels * block.expansion, channels, 1) for _ in range(depth - 1)]
    return nn.Sequential(block(in_channels, channels, stride), *following)


def resnet_stage(in_channels: int, out_channels: int, num_blocks: int, stride: int) -> list[nn.Module]:
    """Return a list with the residual blocks of one stage of a `ResNet`. Each block has two convolutions.

    Args:
        in_channels: Channels of the stage's input.
        out_channels: Channels of the stage's output.
        num_blocks: Number of blocks in the stage.
        stride: Stride of the first block; all other blocks have stride 1.

    Example:
        >>> from mediatensor.ocr.models import resnet_stage
        >>> len(resnet_stage(64, 128, num_blocks=3, stride=2))
        3
    """
    return [
        _BasicBlock(out_channels if index else in_channels, out_channels, 1 if index else stride)
        for index in range(num_blocks)
    ]


class ResNet(nn.Sequential, Classifier):
    """A residual network whose stages are the items of a `torch.nn.Sequential`, as in docTR.

    It is used for ResNet-31 (Li et al., "Show, Attend and Read", 2018) and for a ResNet-34 with twice the channels.

    Args:
        num_blocks: Number of blocks in each stage.
        output_channels: Output channels of each stage.
        stage_stride: Stride of the first block of each stage.
        stage_conv: For each stage, whether it has an additional convolution after its blocks.
        stage_pooling: For each stage, the size (height, width) of the max pooling at its end, or ``None`` for no
            pooling.
        origin_stem: Start with a 7 x 7 convolution with stride 2; otherwise start with two 3 x 3 convolutions. Max
            pooling follows in both cases.
        stem_channels: Output channels of the layers before the first stage.
        attn_module: Function that takes a number of channels and returns an attention module, which is added after the
            blocks of each stage. ``None`` for no attention.
        include_top: Whether to include the classification layers, which return scores (N, classes). Otherwise the
            network returns features (N, C, h, w).
        num_classes: Number of classes.
        cfg: Dictionary of preprocessing settings that predictors use, such as ``mean``, ``std`` and ``input_shape``.
    """

    def __init__(
        self,
        num_blocks: Sequence[int],
        output_channels: Sequence[int],
        stage_stride: Sequence[int],
        stage_conv: Sequence[bool],
        stage_pooling: Sequence[tuple[int, int] | None],
        origin_stem: bool = True,
        stem_channels: int = 64,
        attn_module: Callable[[int], nn.Module] | None = None,
        include_top: bool = True,
        num_classes: int = 1000,
        cfg: dict[str, Any] | None = None,
    ) -> None:
        layers: list[nn.Module]
        if origin_stem:
            layers = conv_sequence_pt(3, stem_channels, act=True, bn=True, kernel_size=7, stride=2, padding=3)
            layers.append(nn.MaxPool2d(3, 2, 1))
        else:
            half = stem_channels // 2
            layers = [
                *conv_sequence_pt(3, half, act=True, bn=True, kernel_size=3, padding=1),
                *conv_sequence_pt(half, stem_channels, act=True, bn=True, kernel_size=3, padding=1),
                nn.MaxPool2d(2),
            ]
        channels_in = stem_channels
        for blocks, channels, stride, conv, pool in zip(
            num_blocks, output_channels, stage_stride, stage_conv, stage_pooling, strict=True
        ):
            stage = resnet_stage(channels_in, channels, blocks, stride)
            if attn_module is not None:
                stage.append(attn_module(channels))
            if conv:
                stage += conv_sequence_pt(channels, channels, act=True, bn=True, kernel_size=3, padding=1)
            if pool is not None:
                stage.append(nn.MaxPool2d(pool))
            layers.append(nn.Sequential(*stage))
            channels_in = channels
        if include_top:
            layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels_in, num_classes)]
        super().__init__(*layers)
        if cfg is not None:
            self.cfg = cfg
        initialize_convolutions(self)


RESNET31: dict[str, Any] = {
    "num_blocks": (1, 2, 5, 3),
    "output_channels": (256, 256, 512, 512),
    "stage_stride": (1, 1, 1, 1),
    "stage_conv": (True, True, True, True),
    "stage_pooling": ((2, 2), (2, 1), None, None),
    "origin_stem": False,
    "stem_channels": 128,
}
"""Options of `ResNet` for ResNet-31, which returns features at 1/8 of the height and 1/4 of the width."""


def resnet18(pretrained: bool = False, **kwargs: Any) -> NamedResNet:
    """Return a ResNet-18 that classifies 32 x 32 images of characters.

    The network is in training mode. See `mobilenet_v3_small` for the arguments; there is no ``dropout``.
    """
    network = partial(NamedResNet, (2, 2, 2, 2), False)
    return build_classifier(default_cfgs, "resnet18", network, "fc", pretrained, kwargs)


def resnet34(pretrained: bool = False, **kwargs: Any) -> NamedResNet:
    """Return a ResNet-34 that classifies characters. See `resnet18` for the arguments."""
    network = partial(NamedResNet, (3, 4, 6, 3), False)
    return build_classifier(default_cfgs, "resnet34", network, "fc", pretrained, kwargs)


def resnet50(pretrained: bool = False, **kwargs: Any) -> NamedResNet:
    """Return a ResNet-50 that classifies characters. See `resnet18` for the arguments."""
    network = partial(NamedResNet, (3, 4, 6, 3), True)
    return build_classifier(default_cfgs, "resnet50", network, "fc", pretrained, kwargs)


def resnet31(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Return a ResNet-31 that classifies characters.

    The network is in training mode. It is the backbone of `SAR`. See `mobilenet_v3_small` for the arguments; there is
    no ``dropout``. Also takes ``include_top``: if it is False, the network returns features instead of scores.
    """
    return build_classifier(default_cfgs, "resnet31", partial(ResNet, **RESNET31), "13", pretrained, kwargs)


def resnet34_wide(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """Return a ResNet-34 with twice the usual number of channels. See `resnet31` for the arguments."""
    network = partial(
        ResNet,
        num_blocks=(3, 4, 6, 3),
        output_channels=(128, 256, 512, 1024),
        stage_stride=(1, 2, 2, 2),
        stage_conv=(False,) * 4,
        stage_pooling=(None,) * 4,
        stem_channels=128,
    )
    return build_classifier(default_cfgs, "resnet34_wide", network, "10", pretrained, kwargs)
