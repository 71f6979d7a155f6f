"""TextNet: the backbone of the FAST detector, and a character classifier."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from .._networks.blocks import initialize_convolutions
from ._classifier import Classifier, build_classifier, classifier_cfg

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
"""Kernels of the four stages, from architecture search: ``o`` is square, ``-`` is a row, ``|`` is a column."""


class FASTConvLayer(nn.Module):
    """A layer of FAST: the sum of parallel branches, each with its own batch norm, followed by ReLU.

    The branches are a convolution, a convolution with a kernel of one column, one with a kernel of one row, and the
    identity. A branch is omitted if it would duplicate the first convolution, and the identity is omitted if the layer
    changes the shape. `reparameterize_layer` replaces all branches by one equivalent convolution.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, int] = 3, stride: int = 1
    ) -> None:
        super().__init__()
        height, width = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
        self.activation = nn.ReLU(inplace=True)
        self.conv = _convolution(in_channels, out_channels, (height, width), stride)
        self.bn = nn.BatchNorm2d(out_channels)
        self.ver_conv, self.ver_bn, self.hor_conv, self.hor_bn = None, None, None, None
        if width > 1:
            self.ver_conv = _convolution(in_channels, out_channels, (height, 1), stride)
            self.ver_bn = nn.BatchNorm2d(out_channels)
        if height > 1:
            self.hor_conv = _convolution(in_channels, out_channels, (1, width), stride)
            self.hor_bn = nn.BatchNorm2d(out_channels)
        same_shape = in_channels == out_channels and stride == 1
        self.rbr_identity = nn.BatchNorm2d(in_channels) if same_shape else None
        self.fused_conv: nn.Conv2d | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, H / stride, W / stride)."""
        if self.fused_conv is not None:
            total = self.fused_conv(x)
        else:
            total = self.bn(self.conv(x))
            for conv, norm in self._branches():
                total = total + norm(conv(x))
            if self.rbr_identity is not None:
                total = total + self.rbr_identity(x)
        activated: torch.Tensor = self.activation(total)
        return activated

    def _branches(self) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
        pairs = ((self.ver_conv, self.ver_bn), (self.hor_conv, self.hor_bn))
        return [(conv, norm) for conv, norm in pairs if conv is not None and norm is not None]

    @torch.no_grad()
    def reparameterize_layer(self) -> None:
        """Replace the branches by one equivalent convolution, for inference. Repeated calls do nothing.

        The convolution includes the batch norms, with their running statistics at the time of the call.
        """
        if self.fused_conv is not None:
            return
        height, width = self.conv.weight.shape[2:]
        weight, bias = fuse_conv_norm(self.conv.weight, None, self.bn)
        weight, bias = weight.clone(), bias.clone()
        branches: list[tuple[torch.Tensor, nn.BatchNorm2d]] = [(conv.weight, norm) for conv, norm in self._branches()]
        if self.rbr_identity is not None:
            identity = torch.eye(len(weight), dtype=weight.dtype, device=weight.device)[:, :, None, None]
            branches.append((identity, self.rbr_identity))
        for kernel, norm in branches:
            branch_weight, branch_bias = fuse_conv_norm(kernel, None, norm)
            top, left = (height - kernel.shape[2]) // 2, (width - kernel.shape[3]) // 2
            weight[:, :, top : top + kernel.shape[2], left : left + kernel.shape[3]] += branch_weight
            bias += branch_bias
        # The meta device avoids an initialization, which would consume random numbers.
        fused = nn.Conv2d(
            weight.shape[1],
            weight.shape[0],
            (height, width),
            stride=(self.conv.stride[0], self.conv.stride[1]),
            padding=(height // 2, width // 2),
            device="meta",
        )
        fused.weight, fused.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.fused_conv = fused
        for name in ("conv", "bn", "ver_conv", "ver_bn", "hor_conv", "hor_bn", "rbr_identity"):
            delattr(self, name)


def fuse_conv_norm(
    weight: torch.Tensor, bias: torch.Tensor | None, norm: nn.BatchNorm2d
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fuse a convolution with the batch norm after it, in evaluation mode; return the fused weight and bias."""
    mean, var = norm.running_mean, norm.running_var
    if mean is None or var is None:
        raise ValueError("Only a normalization with running statistics can be fused.")
    scale = norm.weight / torch.sqrt(var + norm.eps)
    centered = -mean if bias is None else bias - mean
    return weight * scale[:, None, None, None], norm.bias + centered * scale


def _convolution(in_channels: int, out_channels: int, kernel: tuple[int, int], stride: int) -> nn.Conv2d:
    return nn.Conv2d(in_channels, out_channels, kernel, stride, padding=(kernel[0] // 2, kernel[1] // 2), bias=False)


class TextNet(Classifier, nn.Sequential):
    """TextNet, the backbone of FAST.

    See Chen et al., "FAST: Faster Arbitrarily-Shaped Text Detector with Minimalist Kernel Representation", 2021,
    https://arxiv.org/abs/2111.02394.

    Args:
        stages: For each of the four stages, a string with one letter for the kernel of each layer: ``o`` is 3 x 3,
            ``-`` is 1 x 3, ``|`` is 3 x 1.
        num_classes: Number of classes.
        include_top: Whether to include the classification layers, which return scores (N, classes). Otherwise the
            network returns the features of the last stage, (N, C, H / 32, W / 32).
    """

    def __init__(self, stages: tuple[str, str, str, str], num_classes: int = 1000, include_top: bool = True) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(3, _CHANNELS[0], 3, 2, 1, bias=False),
            nn.BatchNorm2d(_CHANNELS[0]),
            nn.ReLU(inplace=True),
        ]
        in_channels = _CHANNELS[0]
        for index, (kernels, channels) in enumerate(zip(stages, _CHANNELS, strict=True)):
            # The first stage has its stride in the second layer, the other stages in the first layer.
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
        initialize_convolutions(self)


def _textnet(arch: str, pretrained: bool, kwargs: dict[str, Any]) -> TextNet:
    network = partial(TextNet, _STAGES[arch])
    return build_classifier(default_cfgs, arch, network, "7.2", pretrained, kwargs)


def textnet_tiny(pretrained: bool = False, **kwargs: Any) -> TextNet:
    """Return a TextNet-Tiny that classifies 32 x 32 images of characters.

    The network is in training mode. See `mobilenet_v3_small` for the arguments; there is no ``dropout``. Also takes
    ``include_top``: if it is False, the network returns features instead of scores.
    """
    return _textnet("textnet_tiny", pretrained, kwargs)


def textnet_small(pretrained: bool = False, **kwargs: Any) -> TextNet:
    """Return a TextNet-Small that classifies characters. See `textnet_tiny` for the arguments."""
    return _textnet("textnet_small", pretrained, kwargs)


def textnet_base(pretrained: bool = False, **kwargs: Any) -> TextNet:
    """Return a TextNet-Base that classifies characters. See `textnet_tiny` for the arguments."""
    return _textnet("textnet_base", pretrained, kwargs)
