"""TextNet: the backbone of the FAST detector, and a character classifier."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from ._classifier import Classifier, build_classifier, classifier_cfg
from ._fast_layer import FASTConvLayer

__all__ = ["TextNet", "textnet_base", "textnet_small", "textnet_tiny"]

default_cfgs: dict[str, dict[str, Any]] = {
    "textnet_tiny": classifier_cfg("v0.8.1/textnet_tiny-27288d12.pt"),
    "textnet_small": classifier_cfg("v0.8.1/textnet_small-43166ee6.pt"),
    "textnet_base": classifier_cfg("v0.8.1/textnet_base-7f68d7e0.pt"),
}

_CHANNELS = (64, 128, 256, 512)
_KERNELS = {"o": (3, 3), "-": (1, 3), "|": (3, 1)}
_STAGES = {
    "textnet_tiny": ("ooo", "o-o|", "oo|-", "o|-o"),
    "textnet_small": ("oo", "o-o|o|-o", "oo-|o-|o", "o|--|"),
    "textnet_base": ("oo|o|oo-oo", "o-o|oo||oo", "ooo-o|o|", "o-||-"),
}
"""Kernels of the four stages, found by architecture search: square ``o``, a row ``-``, a column ``|``."""


class TextNet(Classifier, nn.Sequential):
    """TextNet (Chen et al., "FAST: Faster Arbitrarily-Shaped Text Detector with Minimalist Kernel Representation",
    2021, https://arxiv.org/abs/2111.02394).

    Args:
        stages: For each of the four stages its kernels in order: ``o`` 3 x 3, ``-`` 1 x 3, ``|`` 3 x 1.
        num_classes: How many classes the head tells apart.
        include_top: Whether there is a head.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import textnet_tiny
        >>> textnet_tiny(num_classes=10).eval()(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 10])
    """

    def __init__(self, stages: tuple[str, str, str, str], num_classes: int = 1000, include_top: bool = True) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(3, _CHANNELS[0], 3, 2, 1, bias=False),
            nn.BatchNorm2d(_CHANNELS[0]),
            nn.ReLU(inplace=True),
        ]
        in_channels = _CHANNELS[0]
        for index, (kernels, channels) in enumerate(zip(stages, _CHANNELS, strict=True)):
            # The first stage halves in its second layer, the others in their first.
            halving = 1 if index == 0 else 0
            stage = []
            for position, kernel in enumerate(kernels):
                stride = 2 if position == halving else 1
                stage.append(FASTConvLayer(in_channels, channels, _KERNELS[kernel], stride))
                in_channels = channels
            layers.append(nn.Sequential(*stage))
        if include_top:
            layers.append(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(in_channels, num_classes)))
        super().__init__(*layers)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def _textnet(arch: str, pretrained: bool, kwargs: dict[str, Any]) -> TextNet:
    network = partial(TextNet, _STAGES[arch])
    return build_classifier(arch, default_cfgs[arch], network, "7.2", pretrained, kwargs)


def textnet_tiny(pretrained: bool = False, **kwargs: Any) -> TextNet:
    """TextNet-Tiny for 32 x 32 pictures of characters.

    Args:
        pretrained: Load docTR's weights, if their file is on this machine.
        **kwargs: ``num_classes``, ``classes`` (their names, for ``cfg``), ``include_top``.

    Returns:
        The network, in training mode.

    >>> import torch
    >>> from mediatensor.ocr.models import textnet_tiny
    >>> textnet_tiny(num_classes=10).eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    return _textnet("textnet_tiny", pretrained, kwargs)


def textnet_small(pretrained: bool = False, **kwargs: Any) -> TextNet:
    """As :func:`textnet_tiny`, TextNet-Small."""
    return _textnet("textnet_small", pretrained, kwargs)


def textnet_base(pretrained: bool = False, **kwargs: Any) -> TextNet:
    """As :func:`textnet_tiny`, TextNet-Base."""
    return _textnet("textnet_base", pretrained, kwargs)
