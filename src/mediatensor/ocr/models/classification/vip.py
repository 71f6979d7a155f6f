"""VIP, the small backbone of VIPTR.

The first of its three stages uses local attention. The second uses local and global attention. The third uses global
attention.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ....errors import InvalidArgumentError
from .._networks.blocks import (
    DropPath,
    PositionwiseFeedForward,
    conv_sequence_pt,
    initialize_convolutions,
    initialize_truncated,
)
from ._classifier import Classifier, build_classifier, classifier_cfg

__all__ = ["VIPNet", "vip_base", "vip_tiny"]

default_cfgs: dict[str, dict[str, Any]] = {
    "vip_tiny": classifier_cfg("v0.11.0/vip_tiny-033ed51c.pt"),
    "vip_base": classifier_cfg("v0.11.0/vip_base-f6ea2ff5.pt"),
}

_SPLIT_SIZES = (1, 2)
"""Thickness of the stripes in the local stage and in the mixed stage."""
_REDUCTION = 2
"""Downscaling factor for the global attention of the mixed stage."""
_LAST_DROP_PATH = 0.1
"""Probability of dropping a branch of the last layer in training; it rises with the depth."""


class PatchEmbed(nn.Module):
    """Two strided convolutions that map images (N, C, H, W) to features (N, H / 4, W / 4, D)."""

    def __init__(self, in_channels: int, embed_dim: int) -> None:
        super().__init__()
        half = embed_dim // 2
        self.proj = nn.Sequential(
            *conv_sequence_pt(in_channels, half, True, True, nn.GELU(), kernel_size=3, stride=2, padding=1),
            *conv_sequence_pt(half, embed_dim, True, True, nn.GELU(), kernel_size=3, stride=2, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        embedded: torch.Tensor = self.proj(x).permute(0, 2, 3, 1)
        return embedded


class PatchMerging(nn.Module):
    """A strided convolution that halves the height of features (N, H, W, dim) and returns ``out_dim`` channels."""

    def __init__(self, dim: int, out_dim: int) -> None:
        super().__init__()
        self.reduction = nn.Conv2d(dim, out_dim, 3, (2, 1), 1)
        self.norm = nn.LayerNorm(out_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        merged: torch.Tensor = self.norm(self.reduction(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
        return merged


def _feed_forward(dim: int, ratio: float) -> PositionwiseFeedForward:
    return PositionwiseFeedForward(dim, int(dim * ratio), 0.0, nn.GELU())


def _split_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Reshape (N, L, C) to (N, heads, L, C / heads)."""
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2)


def _join_heads(x: torch.Tensor) -> torch.Tensor:
    """Reshape (N, heads, L, C / heads) to (N, L, C)."""
    return x.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Self-attention of features (N, H, W, C): each position attends to all positions."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(x.flatten(1, 2)).chunk(3, dim=-1)
        query, key, value = (_split_heads(part, self.num_heads) for part in parts)
        gathered: torch.Tensor = self.proj(_join_heads(F.scaled_dot_product_attention(query, key, value)))
        return gathered.reshape(x.shape)


class OverlappedSpatialReductionAttention(nn.Module):
    """Lets each position of features (N, H, W, C) attend to all positions of a smaller version of these features.

    Convolutions with overlapping windows and stride ``sr_ratio`` compute the smaller version.
    """

    def __init__(self, dim: int, num_heads: int, sr_ratio: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.q = nn.Conv2d(dim, dim, 1)
        self.kv = nn.Conv2d(dim, 2 * dim, 1)
        size = sr_ratio + 3
        self.sr = nn.Sequential(
            *conv_sequence_pt(
                dim, dim, True, True, nn.GELU(), kernel_size=size, stride=sr_ratio, padding=size // 2, groups=dim
            ),
            *conv_sequence_pt(dim, dim, bn=True, kernel_size=1, groups=dim),
        )
        self.local_conv = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        picture = x.permute(0, 3, 1, 2)
        coarse = self.sr(picture)
        coarse = self.local_conv(coarse) + coarse
        maps = (self.q(picture), *self.kv(coarse).chunk(2, dim=1))
        query, key, value = (_split_heads(part.flatten(2).transpose(1, 2), self.num_heads) for part in maps)
        return _join_heads(F.scaled_dot_product_attention(query, key, value)).reshape(x.shape)


class GlobalLayer(nn.Module):
    """A transformer layer on features (N, H, W, dim) with an attention that has a ``name`` in the state dict."""

    def __init__(self, name: str, attention: nn.Module, dim: int, mlp_ratio: float, drop_path: float) -> None:
        super().__init__()
        self.name = name
        self.add_module(name, attention)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = _feed_forward(dim, mlp_ratio)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.drop_path(self.get_submodule(self.name)(self.norm1(x)))
        mixed: torch.Tensor = x + self.drop_path(self.mlp(self.norm2(x)))
        return mixed


class StripeAttention(nn.Module):
    """Attention within stripes, plus a convolution that encodes local positions (Dong et al., "CSWin", 2021).

    If ``upright`` is true, each stripe is as high as the image and ``split_size`` positions wide. Otherwise it is as
    wide as the image and ``split_size`` positions high.
    """

    def __init__(self, dim: int, num_heads: int, split_size: int, upright: bool) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.split_size = split_size
        self.upright = upright
        self.get_v = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Return the attention-weighted values. The result and all arguments are (N, H, W, C)."""
        count, height, width, channels = query.shape
        tall, wide = (height, self.split_size) if self.upright else (self.split_size, width)
        if height % tall or width % wide:
            raise InvalidArgumentError(
                f"features of {height} by {width} cannot be cut into stripes of {self.split_size}; use images whose "
                "height is a multiple of 16 and whose width is one of 8"
            )
        grid = (count, height // tall, tall, width // wide, wide, channels)
        stripes = [x.reshape(grid).transpose(2, 3).flatten(0, 2) for x in (query, key, value)]
        heads = [_split_heads(stripe.flatten(1, 2), self.num_heads) for stripe in stripes]
        mixed = _join_heads(F.scaled_dot_product_attention(heads[0], heads[1], heads[2]))
        mixed = mixed.reshape(stripes[2].shape) + self.get_v(stripes[2].permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        back = (count, height // tall, width // wide, tall, wide, channels)
        together: torch.Tensor = mixed.reshape(back).transpose(2, 3).reshape(query.shape)
        return together


class CrossShapedWindowAttention(nn.Module):
    """A transformer layer in which half of the channels attend within vertical and half within horizontal stripes."""

    def __init__(self, dim: int, num_heads: int, split_size: int, mlp_ratio: float, drop_path: float) -> None:
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.norm1 = nn.LayerNorm(dim)
        self.proj = nn.Linear(dim, dim)
        self.attns = nn.ModuleList(
            StripeAttention(dim // 2, num_heads // 2, split_size, upright) for upright in (True, False)
        )
        self.drop_path = DropPath(drop_path)
        self.mlp = _feed_forward(dim, mlp_ratio)
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm1(x)).chunk(6, dim=-1)
        halves = [attention(*parts[index::2]) for index, attention in enumerate(self.attns)]
        x = x + self.drop_path(self.proj(torch.cat(halves, dim=-1)))
        mixed: torch.Tensor = x + self.drop_path(self.mlp(self.norm2(x)))
        return mixed


class VIPBlock(nn.Module):
    """A stage of local attention layers, global attention layers, or both, on features (N, H, W, C).

    If there are both, each kind processes half of the channels, and ``proj`` then mixes the halves. ``downsample`` is
    the last layer of the stage.
    """

    def __init__(
        self,
        local_unit: nn.ModuleList,
        global_unit: nn.ModuleList | None = None,
        proj: nn.Module | None = None,
        downsample: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.local_unit = local_unit
        self.global_unit = global_unit
        self.proj = proj
        self.downsample = downsample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.global_unit is None or self.proj is None:
            for layer in self.local_unit:
                x = layer(x)
        else:
            for local_layer, global_layer in zip(self.local_unit, self.global_unit, strict=True):
                first, second = x.chunk(2, dim=-1)
                both = torch.cat([local_layer(first), global_layer(second)], dim=-1).permute(0, 3, 1, 2)
                x = (self.proj(both) + both).permute(0, 2, 3, 1)
        return x if self.downsample is None else self.downsample(x)


class _MeanOverHeight(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=1)


class ClassifierHead(nn.Module):
    """Computes scores (N, classes) from features (N, L, D), by averaging over the L steps."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.fc = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.fc(x.mean(dim=1))
        return scores


class VIPNet(nn.Sequential, Classifier):
    """VIP (Cheng et al., "VIPTR: A Vision Permutable Extractor for Fast and Efficient Scene Text Recognition", 2024).

    Args:
        out_dim: Channels of the features from which the scores are computed.
        embed_dims: Channels of the three stages.
        depths: Number of layers in each stage.
        num_heads: Number of attention heads in each stage.
        mlp_ratios: Inner width of the feed-forward layers of each stage, relative to the channels.
        input_shape: Channels, height and width of the images; other sizes are accepted.
        num_classes: Number of classes.
        include_top: Whether to include the classification layer, which returns scores (N, classes). Otherwise the
            network returns features (N, W / 4, out_dim), one vector for each 4 pixels of the image's width W.
    """

    def __init__(
        self,
        out_dim: int,
        embed_dims: tuple[int, int, int],
        depths: tuple[int, int, int],
        num_heads: tuple[int, int, int],
        mlp_ratios: tuple[int, int, int],
        input_shape: tuple[int, int, int] = (3, 32, 32),
        num_classes: int = 1000,
        include_top: bool = True,
    ) -> None:
        drops = torch.linspace(0, _LAST_DROP_PATH, sum(depths), device="cpu").tolist()
        stages = [drops[: depths[0]], drops[depths[0] : -depths[2]], drops[-depths[2] :]]
        last = embed_dims[2]
        whole = [GlobalLayer("mixer", Attention(last, num_heads[2]), last, mlp_ratios[2], drop) for drop in stages[2]]
        layers: list[nn.Module] = [
            PatchEmbed(input_shape[0], embed_dims[0]),
            _local_stage(embed_dims[0], embed_dims[1], stages[0], num_heads[0], mlp_ratios[0]),
            _mixed_stage(embed_dims[1], last, stages[1], num_heads[1], mlp_ratios[1]),
            VIPBlock(nn.ModuleList(whole)),
            nn.Sequential(nn.LayerNorm(last, eps=1e-6), _MeanOverHeight()),
            nn.Sequential(nn.Linear(last, out_dim, bias=False), nn.Hardswish(), nn.Dropout(0.1)),
        ]
        if include_top:
            layers.append(ClassifierHead(out_dim, num_classes))
        super().__init__(*layers)
        initialize_truncated(self, nn.Linear)
        initialize_convolutions(self)


def _local_stage(dim: int, out_dim: int, drops: list[float], num_heads: int, mlp_ratio: int) -> VIPBlock:
    layers = [CrossShapedWindowAttention(dim, num_heads, _SPLIT_SIZES[0], mlp_ratio, drop) for drop in drops]
    return VIPBlock(nn.ModuleList(layers), downsample=PatchMerging(dim, out_dim))


def _mixed_stage(dim: int, out_dim: int, drops: list[float], num_heads: int, mlp_ratio: int) -> VIPBlock:
    half, inner = dim // 2, max(16, dim // 8)
    local = [CrossShapedWindowAttention(half, num_heads, _SPLIT_SIZES[1], mlp_ratio, drop) for drop in drops]
    whole = [
        GlobalLayer(
            "token_mixer", OverlappedSpatialReductionAttention(half, num_heads // 2, _REDUCTION), half, mlp_ratio, drop
        )
        for drop in drops
    ]
    proj = nn.Sequential(
        nn.Conv2d(dim, dim, 3, padding=1, groups=dim),
        nn.GELU(),
        nn.BatchNorm2d(dim),
        nn.Conv2d(dim, inner, 1),
        nn.GELU(),
        nn.BatchNorm2d(inner),
        nn.Conv2d(inner, dim, 1),
        nn.BatchNorm2d(dim),
    )
    return VIPBlock(nn.ModuleList(local), nn.ModuleList(whole), proj, PatchMerging(dim, out_dim))


def _vip(arch: str, network: partial[VIPNet], pretrained: bool, kwargs: dict[str, Any]) -> VIPNet:
    return build_classifier(default_cfgs, arch, network, "6.fc", pretrained, kwargs, takes_input_shape=True)


def vip_tiny(pretrained: bool = False, **kwargs: Any) -> VIPNet:
    """Return the tiny VIP network, which classifies images of characters.

    The network is in training mode. See `mobilenet_v3_small` for the arguments; there is no ``dropout``. ``**kwargs``
    can also be arguments of `VIPNet`.
    """
    return _vip("vip_tiny", partial(VIPNet, 192, (64, 128, 256), (3, 3, 3), (2, 4, 8), (3, 4, 4)), pretrained, kwargs)


def vip_base(pretrained: bool = False, **kwargs: Any) -> VIPNet:
    """Return the base VIP network. See `vip_tiny` for the arguments."""
    network = partial(VIPNet, 256, (128, 256, 384), (3, 6, 9), (4, 8, 12), (4, 4, 4))
    return _vip("vip_base", network, pretrained, kwargs)
