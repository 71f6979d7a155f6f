"""MobileNetV3: small backbones, a character classifier, and docTR's classifiers for turned crops and pages."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from .._networks.blocks import initialize_convolutions
from ._classifier import Classifier, build_classifier, classifier_cfg

__all__ = [
    "MobileNetV3",
    "mobilenet_v3_large",
    "mobilenet_v3_large_r",
    "mobilenet_v3_small",
    "mobilenet_v3_small_crop_orientation",
    "mobilenet_v3_small_page_orientation",
    "mobilenet_v3_small_r",
]

_TURNS = (0, -90, 180, 90)

default_cfgs: dict[str, dict[str, Any]] = {
    "mobilenet_v3_large": classifier_cfg("v0.4.1/mobilenet_v3_large-11fc8cb9.pt"),
    "mobilenet_v3_large_r": classifier_cfg("v0.4.1/mobilenet_v3_large_r-74a22066.pt"),
    "mobilenet_v3_small": classifier_cfg("v0.4.1/mobilenet_v3_small-6a4bfa6b.pt"),
    "mobilenet_v3_small_r": classifier_cfg("v0.4.1/mobilenet_v3_small_r-1a8a3530.pt"),
    "mobilenet_v3_small_crop_orientation": classifier_cfg(
        "v0.8.1/mobilenet_v3_small_crop_orientation-f0847a18.pt", 256, _TURNS
    ),
    "mobilenet_v3_small_page_orientation": classifier_cfg(
        "v0.8.1/mobilenet_v3_small_page_orientation-8e60325c.pt", 512, _TURNS
    ),
}


class _Block(NamedTuple):
    """The settings of an inverted residual block: a row in the tables of the MobileNetV3 paper."""

    kernel: int
    expanded: int
    out_channels: int
    squeeze: bool
    hard_swish: bool
    stride: int = 1


_LARGE = (
    _Block(3, 16, 16, False, False),
    _Block(3, 64, 24, False, False, 2),
    _Block(3, 72, 24, False, False),
    _Block(5, 72, 40, True, False, 2),
    _Block(5, 120, 40, True, False),
    _Block(5, 120, 40, True, False),
    _Block(3, 240, 80, False, True, 2),
    _Block(3, 200, 80, False, True),
    _Block(3, 184, 80, False, True),
    _Block(3, 184, 80, False, True),
    _Block(3, 480, 112, True, True),
    _Block(3, 672, 112, True, True),
    _Block(5, 672, 160, True, True, 2),
    _Block(5, 960, 160, True, True),
    _Block(5, 960, 160, True, True),
)
_SMALL = (
    _Block(3, 16, 16, True, False, 2),
    _Block(3, 72, 24, False, False, 2),
    _Block(3, 88, 24, False, False),
    _Block(5, 96, 40, True, True, 2),
    _Block(5, 240, 40, True, True),
    _Block(5, 240, 40, True, True),
    _Block(5, 120, 48, True, True),
    _Block(5, 144, 48, True, True),
    _Block(5, 288, 96, True, True, 2),
    _Block(5, 576, 96, True, True),
    _Block(5, 576, 96, True, True),
)
_STEM_CHANNELS = 16
_LAST_EXPANSION = 6


class MobileNetV3(Classifier):
    """MobileNetV3 (Howard et al., "Searching for MobileNetV3", 2019, https://arxiv.org/abs/1905.02244).

    Args:
        blocks: Descriptions of the inverted residual blocks, in order: kernel size, channels, activation and stride.
        hidden: Output features of the second to last linear layer.
        num_classes: Number of classes.
        dropout: Dropout probability before the last linear layer.
        rectangular: Whether all blocks with stride 2, except the first, reduce only the height of features. The width
            is kept so that adjacent letters stay separate.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import mobilenet_v3_small
        >>> mobilenet_v3_small(num_classes=10).eval()(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 10])
    """

    def __init__(
        self,
        blocks: tuple[_Block, ...],
        hidden: int,
        num_classes: int = 1000,
        dropout: float = 0.2,
        rectangular: bool = False,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv_norm(3, _STEM_CHANNELS, 3, 2, activation=nn.Hardswish)]
        channels = _STEM_CHANNELS
        halved = False
        for block in blocks:
            stride = (2, 1) if rectangular and halved and block.stride == 2 else (block.stride, block.stride)
            layers.append(_InvertedResidual(channels, block, stride))
            channels = block.out_channels
            halved = halved or block.stride == 2
        last = _LAST_EXPANSION * channels
        layers.append(_conv_norm(channels, last, 1, activation=nn.Hardswish))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(last, hidden),
            nn.Hardswish(inplace=True),
            nn.Dropout(dropout, inplace=True),
            nn.Linear(hidden, num_classes),
        )
        initialize_convolutions(self, zero_bias=True)
        for layer in self.classifier:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, 0, 0.01)
                nn.init.zeros_(layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores before the softmax, (N, classes), for normalised images (N, 3, H, W)."""
        scores: torch.Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return scores


class _SqueezeExcitation(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = _multiple_of_8(channels // 4)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gates = self.fc2(nn.functional.relu(self.fc1(x.mean((2, 3), keepdim=True))))
        return x * nn.functional.hardsigmoid(gates)


class _InvertedResidual(nn.Module):
    def __init__(self, in_channels: int, block: _Block, stride: tuple[int, int]) -> None:
        super().__init__()
        activation = nn.Hardswish if block.hard_swish else nn.ReLU
        layers: list[nn.Module] = []
        if block.expanded != in_channels:
            layers.append(_conv_norm(in_channels, block.expanded, 1, activation=activation))
        layers.append(
            _conv_norm(block.expanded, block.expanded, block.kernel, stride, block.expanded, activation=activation)
        )
        if block.squeeze:
            layers.append(_SqueezeExcitation(block.expanded))
        layers.append(_conv_norm(block.expanded, block.out_channels, 1))
        self.block = nn.Sequential(*layers)
        self.residual = block.stride == 1 and in_channels == block.out_channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.block(x)
        return x + out if self.residual else out


def _conv_norm(
    in_channels: int,
    out_channels: int,
    kernel: int,
    stride: int | tuple[int, int] = 1,
    groups: int = 1,
    *,
    activation: type[nn.Hardswish] | type[nn.ReLU] | None = None,
) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(in_channels, out_channels, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out_channels, eps=0.001, momentum=0.01),
    ]
    if activation is not None:
        layers.append(activation(inplace=True))
    return nn.Sequential(*layers)


def _multiple_of_8(channels: int) -> int:
    """Round to the nearest multiple of 8, at least 8. If this removes more than 10 %, add 8."""
    rounded = max(8, (channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def _mobilenet(arch: str, pretrained: bool, kwargs: dict[str, Any]) -> MobileNetV3:
    blocks, hidden = (_LARGE, 1280) if arch.startswith("mobilenet_v3_large") else (_SMALL, 1024)
    network = partial(MobileNetV3, blocks, hidden, rectangular=arch.endswith("_r"))
    return build_classifier(default_cfgs, arch, network, "classifier.3", pretrained, kwargs)


def mobilenet_v3_small(pretrained: bool = False, **kwargs: Any) -> MobileNetV3:
    """Return a MobileNetV3-Small that classifies 32 x 32 images of characters.

    The network is in training mode.

    Args:
        pretrained: Load docTR's weights from a file on this machine; see `find_weights`.
        **kwargs: ``num_classes`` (by default one for each class in ``cfg``) and ``dropout`` of `MobileNetV3`.
            ``classes`` (class names) and ``input_shape`` (channels, height and width of the images that predictors give
            to the network) are only stored in the network's ``cfg``.

    Raises:
        WeightsNotFoundError: ``pretrained`` is true, but the weights file is not on this machine. The message says
            where to put it.
    """
    return _mobilenet("mobilenet_v3_small", pretrained, kwargs)


def mobilenet_v3_small_r(pretrained: bool = False, **kwargs: Any) -> MobileNetV3:
    """Return a MobileNetV3-Small for images of text, in which later strides reduce only the height.

    See `mobilenet_v3_small` for the arguments.
    """
    return _mobilenet("mobilenet_v3_small_r", pretrained, kwargs)


def mobilenet_v3_large(pretrained: bool = False, **kwargs: Any) -> MobileNetV3:
    """Return a MobileNetV3-Large that classifies characters. See `mobilenet_v3_small` for the arguments."""
    return _mobilenet("mobilenet_v3_large", pretrained, kwargs)


def mobilenet_v3_large_r(pretrained: bool = False, **kwargs: Any) -> MobileNetV3:
    """Return a MobileNetV3-Large for images of text, in which later strides reduce only the height.

    See `mobilenet_v3_small` for the arguments.
    """
    return _mobilenet("mobilenet_v3_large_r", pretrained, kwargs)


def mobilenet_v3_small_crop_orientation(pretrained: bool = False, **kwargs: Any) -> MobileNetV3:
    """Return a MobileNetV3-Small that classifies by how many degrees a word is rotated in a crop of 256 x 256 pixels.

    The four classes are clockwise rotations by 0, -90, 180 and 90 degrees, in the order of ``cfg["classes"]``.

    See `mobilenet_v3_small` for the arguments.
    """
    return _mobilenet("mobilenet_v3_small_crop_orientation", pretrained, kwargs)


def mobilenet_v3_small_page_orientation(pretrained: bool = False, **kwargs: Any) -> MobileNetV3:
    """Return a MobileNetV3-Small that classifies by how many degrees a page is rotated in a 512 x 512 image.

    The four classes are clockwise rotations by 0, -90, 180 and 90 degrees, in the order of ``cfg["classes"]``.

    See `mobilenet_v3_small` for the arguments.
    """
    return _mobilenet("mobilenet_v3_small_page_orientation", pretrained, kwargs)
