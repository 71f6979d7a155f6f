"""The layers of TableCenterNet that merge the features of its backbone: deformable convolutions from coarse to fine."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._networks.transfers import at_least_float32

__all__ = ["Aggregation", "Merging"]

_TAPS = 9
"""Pixels that a kernel of 3 x 3 looks at."""


class _DeformableConvolution(nn.Module):
    """A convolution of 3 x 3 whose taps are moved and weighed anew at each pixel (DCNv2 of Zhu et al., "Deformable
    ConvNets v2", 2018, https://arxiv.org/abs/1811.11168).
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, 3, 3))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        # Of each tap the way down and across, in turn; then the weights of all.
        self.conv_offset_mask = nn.Conv2d(in_channels, 3 * _TAPS, 3, padding=1)
        nn.init.uniform_(self.weight, -((_TAPS * in_channels) ** -0.5), (_TAPS * in_channels) ** -0.5)
        nn.init.zeros_(self.conv_offset_mask.weight)
        nn.init.zeros_(self.conv_offset_mask.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) to (N, out_channels, H, W)."""
        count, _, height, width = x.shape
        chosen = at_least_float32(self.conv_offset_mask(x))
        down, across = chosen[:, : 2 * _TAPS].reshape(count, _TAPS, 2, height, width).unbind(2)
        rows, columns = (torch.arange(size, device=x.device, dtype=chosen.dtype) for size in (height, width))
        down, across = down + rows[:, None], across + columns
        taps = chosen[:, 2 * _TAPS :].sigmoid()
        pixels, out = at_least_float32(x), self.bias[:, None, None].expand(count, -1, height, width)
        # Row by row of the kernel: all nine taps at once would need nine times the memory of the features.
        for row in range(3):
            own = slice(3 * row, 3 * row + 3)
            steps = torch.arange(-1, 2, device=x.device, dtype=chosen.dtype)[:, None, None]
            places = [
                2 / max(width - 1, 1) * (across[:, own] + steps) - 1,
                2 / max(height - 1, 1) * (down[:, own] + (row - 1)) - 1,
            ]
            grid = torch.stack(places, dim=-1).flatten(1, 2)
            seen = F.grid_sample(pixels, grid, mode="bilinear", align_corners=True)
            seen = seen.reshape(count, -1, 3, height, width) * taps[:, None, own]
            kernel = self.weight[:, :, row].flatten(1)[..., None, None]
            out = out + F.conv2d(seen.flatten(1, 2).to(x.dtype), kernel)
        return out


class _DeformableLayer(nn.Module):
    """A deformable convolution, batch norm and ReLU."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.actf = nn.Sequential(nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True))
        self.conv = _DeformableConvolution(in_channels, out_channels)

    def forward(self, x: Tensor) -> Tensor:
        activated: Tensor = self.actf(self.conv(x))
        return activated


class Merging(nn.Module):
    """Features from fine to coarse, each enlarged to the size of the first and merged with the one before.

    Iterative deep aggregation of Yu et al., "Deep Layer Aggregation", 2017, https://arxiv.org/abs/1707.06484.

    Args:
        channels: Of the features, from fine to coarse.
        scales: How many times finer than each of them the first is.
    """

    def __init__(self, channels: Sequence[int], scales: Sequence[int]) -> None:
        super().__init__()
        width = channels[0]
        for level, (own, scale) in enumerate(zip(channels[1:], scales[1:], strict=True), start=1):
            enlarge = nn.ConvTranspose2d(width, width, 2 * scale, scale, scale // 2, groups=width, bias=False)
            self.add_module(f"proj_{level}", _DeformableLayer(own, width))
            self.add_module(f"up_{level}", enlarge)
            self.add_module(f"node_{level}", _DeformableLayer(width, width))

    def forward(self, features: Sequence[Tensor]) -> list[Tensor]:
        """As many features, all of the size and with the channels of the first."""
        merged = [features[0]]
        for level, coarse in enumerate(features[1:], start=1):
            fine = self.get_submodule(f"up_{level}")(self.get_submodule(f"proj_{level}")(coarse))
            merged.append(self.get_submodule(f"node_{level}")(merged[-1] + fine))
        return merged


class Aggregation(nn.Module):
    """Features from fine to coarse, each merged with all that are coarser.

    Args:
        channels: Of the features, each of which is half as fine as the one before.
    """

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        for step in range(len(channels) - 1):
            first = len(channels) - 2 - step
            # What was merged in the step before has the channels and the size of the first of them.
            merged = len(channels) - first - 1
            self.add_module(
                f"ida_{step}", Merging([channels[first], *[channels[first + 1]] * merged], [1, *[2] * merged])
            )

    def forward(self, features: Sequence[Tensor]) -> list[Tensor]:
        """As many features of the same sizes."""
        merged = list(features[-1:])
        found = [merged[-1]]
        for step, finer in enumerate(reversed(features[:-1])):
            merged = self.get_submodule(f"ida_{step}")([finer, *merged])
            found.insert(0, merged[-1])
        return found
