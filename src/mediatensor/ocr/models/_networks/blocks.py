"""Blocks that the networks of PP-OCR share, in the fused form that is used for inference.

The backbone is PPLCNetV4 of PaddleOCR (Apache-2.0): a depthwise convolution, squeeze-and-excitation in every other
block, and a pointwise mixer. Parallel branches and batch norms of the training form are folded into one convolution.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["ConvNorm", "SqueezeExcitation", "Stem", "make_stage", "parameter_layers"]


class ConvNorm(nn.Module):
    """Convolution that keeps the size, but for its stride, and batch norm; no activation."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: tuple[int, int] = (1, 1),
        stride: int | tuple[int, int] = 1,
        groups: int = 1,
    ) -> None:
        super().__init__()
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, stride, padding, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        normalised: Tensor = self.norm(self.conv(x))
        return normalised


class SqueezeExcitation(nn.Module):
    """Channel gates from the mean over the picture (Hu et al., 2018), with a hard sigmoid.

    Args:
        num_channels: Channels in and out.
        slope: Of the hard sigmoid, ``clamp(slope * x + 0.5, 0, 1)``.
        residual: Add the input to the gated one.
    """

    def __init__(self, num_channels: int, slope: float = 1 / 6, residual: bool = False) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(num_channels, num_channels // 4, 1)
        self.excite = nn.Conv2d(num_channels // 4, num_channels, 1)
        self.slope, self.residual = slope, residual

    def forward(self, x: Tensor) -> Tensor:
        gates = self.excite(F.relu_(self.squeeze(x.mean((2, 3), keepdim=True))))
        gates = (gates * self.slope + 0.5).clamp_(0, 1)
        gated: Tensor = x * (gates + 1) if self.residual else x * gates
        return gated


class Block(nn.Module):
    """Depthwise 3x3, gates or not, then pointwise, GELU, pointwise, with a residual where shapes allow."""

    def __init__(
        self, in_channels: int, out_channels: int, stride: int | tuple[int, int] = 1, gated: bool = False
    ) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(in_channels, in_channels, 3, stride, 1, groups=in_channels)
        self.gates = SqueezeExcitation(in_channels) if gated else None
        self.expand = nn.Conv2d(in_channels, 2 * in_channels, 1)
        self.project = nn.Conv2d(2 * in_channels, out_channels, 1)
        self.residual = in_channels == out_channels and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        x = self.depthwise(x)
        if self.gates is not None:
            x = self.gates(x)
        mixed: Tensor = self.project(F.gelu(self.expand(x)))
        return mixed + x if self.residual else mixed


class Stem(nn.Module):
    """Two strided convolutions with a pooled and a convolved branch between them: a quarter of the size."""

    def __init__(self, middle_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, middle_channels, 3, 2, 1)
        self.narrow = nn.Conv2d(middle_channels, middle_channels // 2, 2)
        self.widen = nn.Conv2d(middle_channels // 2, middle_channels, 2)
        self.merge = nn.Conv2d(2 * middle_channels, middle_channels, 3, 2, 1)
        self.last = nn.Conv2d(middle_channels, out_channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = _pad_after(F.relu_(self.first(x)))
        convolved = F.relu_(self.narrow(x))
        convolved = F.relu_(self.widen(_pad_after(convolved)))
        merged = F.relu_(self.merge(torch.cat([_pool(x), convolved], 1)))
        return F.relu_(self.last(merged))


def _pad_after(x: Tensor) -> Tensor:
    """One zero row below and one zero column to the right: an even kernel then keeps the size."""
    return F.pad(x, (0, 1, 0, 1))


def _pool(x: Tensor) -> Tensor:
    """The greatest of each 2x2 pixels, one by one: half the time of ``max_pool2d``, which also looks for places."""
    rows = torch.maximum(x[:, :, :-1], x[:, :, 1:])
    return torch.maximum(rows[..., :-1], rows[..., 1:])


def make_stage(*rows: tuple[int, int, int | tuple[int, int], bool]) -> nn.Sequential:
    """Blocks from rows of (channels in, channels out, stride, gated)."""
    return nn.Sequential(*(Block(*row) for row in rows))


_WITH_PARAMETERS = (nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.Linear, nn.LayerNorm)


def parameter_layers(*modules: nn.Module) -> list[nn.Module]:
    """The layers with parameters inside ``modules``, in the order of registration."""
    return [layer for module in modules for layer in module.modules() if isinstance(layer, _WITH_PARAMETERS)]
