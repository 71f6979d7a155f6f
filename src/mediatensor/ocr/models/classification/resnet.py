"""ResNet-18, 34 and 50: backbones of detectors, and character classifiers."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from ._classifier import Classifier, build_classifier, classifier_cfg

__all__ = ["ResNet", "resnet18", "resnet34", "resnet50"]

default_cfgs: dict[str, dict[str, Any]] = {
    "resnet18": classifier_cfg("v0.4.1/resnet18-244bf390.pt"),
    "resnet34": classifier_cfg("v0.5.0/resnet34-bd8725db.pt"),
    "resnet50": classifier_cfg("v0.5.0/resnet50-1a6c155e.pt"),
}

_STEM_CHANNELS = 64


class ResNet(Classifier):
    """A residual network (He et al., "Deep Residual Learning for Image Recognition", 2015).

    Args:
        depths: Blocks in each of the four stages.
        bottleneck: Blocks of three convolutions with a fourfold output instead of blocks of two.
        num_classes: How many classes the head tells apart.

    >>> import torch
    >>> from mediatensor.ocr.models import ResNet
    >>> ResNet((2, 2, 2, 2), bottleneck=False, num_classes=5).eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 5])
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
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The (N, classes) scores of (N, 3, H, W) images."""
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
        # The weights were trained with the stride here; the paper has it in the first convolution.
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


def resnet18(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet-18 for 32 x 32 pictures of characters.

    Args:
        pretrained: Load docTR's weights, if their file is on this machine.
        **kwargs: ``num_classes``, ``classes`` (their names, for ``cfg``).

    Returns:
        The network, in training mode.
    """
    network = partial(ResNet, (2, 2, 2, 2), False)
    return build_classifier("resnet18", default_cfgs["resnet18"], network, "fc", pretrained, kwargs)


def resnet34(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """As :func:`resnet18`, with 34 layers."""
    network = partial(ResNet, (3, 4, 6, 3), False)
    return build_classifier("resnet34", default_cfgs["resnet34"], network, "fc", pretrained, kwargs)


def resnet50(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """As :func:`resnet18`, with 50 layers."""
    network = partial(ResNet, (3, 4, 6, 3), True)
    return build_classifier("resnet50", default_cfgs["resnet50"], network, "fc", pretrained, kwargs)
