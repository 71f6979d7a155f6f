"""The layers of VIP networks, with docTR's parameter names."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from ....errors import InvalidArgumentError
from ..utils import conv_sequence_pt
from ._transformer import PositionwiseFeedForward

__all__ = [
    "CrossShapedWindowAttention",
    "DropPath",
    "MultiHeadSelfAttention",
    "OSRABlock",
    "PatchEmbed",
    "PatchMerging",
]


class DropPath(nn.Module):
    """Drops the whole branch of some images of a batch, in training (Huang et al., "Stochastic Depth", 2016).

    Args:
        probability: of an image's branch to be dropped.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Drop, and scale what is kept so that the mean stays."""
        if not self.training or self.probability == 0:
            return x
        kept = 1 - self.probability
        return (
            x * torch.full((x.shape[0],) + (1,) * (x.ndim - 1), kept, device=x.device, dtype=x.dtype).bernoulli() / kept
        )


class PatchEmbed(nn.Module):
    """Two strided convolutions: (N, 3, H, W) images to (N, H / 4, W / 4, D) features.

    Args:
        in_channels: of the images.
        embed_dim: the width D of the features.
    """

    def __init__(self, in_channels: int, embed_dim: int) -> None:
        super().__init__()
        half = embed_dim // 2
        self.proj = nn.Sequential(
            *conv_sequence_pt(in_channels, half, True, True, nn.GELU(), kernel_size=3, stride=2, padding=1),
            *conv_sequence_pt(half, embed_dim, True, True, nn.GELU(), kernel_size=3, stride=2, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Embed (N, C, H, W) images."""
        embedded: torch.Tensor = self.proj(x).permute(0, 2, 3, 1)
        return embedded


class PatchMerging(nn.Module):
    """Halves the height of (N, H, W, C) features and changes their width.

    Args:
        dim: channels that come in.
        out_dim: channels that go out.
    """

    def __init__(self, dim: int, out_dim: int) -> None:
        super().__init__()
        self.reduction = nn.Conv2d(dim, out_dim, 3, (2, 1), 1)
        self.norm = nn.LayerNorm(out_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Merge (N, H, W, C) features."""
        merged: torch.Tensor = self.norm(self.reduction(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
        return merged


def _feed_forward(dim: int, ratio: float) -> PositionwiseFeedForward:
    return PositionwiseFeedForward(dim, int(dim * ratio), 0.0, nn.GELU())


def _split_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """(N, L, C) to (N, heads, L, C / heads)."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _join_heads(x: torch.Tensor) -> torch.Tensor:
    """(N, heads, L, C / heads) to (N, L, C)."""
    return x.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Self-attention of (N, L, C) features.

    Args:
        dim: channels.
        num_heads: heads.
    """

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Let each position gather from all."""
        query, key, value = (_split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        gathered: torch.Tensor = self.proj(_join_heads(F.scaled_dot_product_attention(query, key, value)))
        return gathered


class MultiHeadSelfAttention(nn.Module):
    """A transformer layer over all places of (N, H, W, C) features.

    Args:
        dim: channels.
        num_heads: heads.
        mlp_ratio: how many times wider the feed-forward part is inside.
        drop_path: the probability of an image's branch to be dropped, in training.
    """

    def __init__(self, dim: int, num_heads: int, mlp_ratio: float, drop_path: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.mixer = Attention(dim, num_heads)
        self.drop_path = DropPath(drop_path)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = _feed_forward(dim, mlp_ratio)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix (N, H, W, C) features."""
        places = x.flatten(1, 2)
        places = places + self.drop_path(self.mixer(self.norm1(places)))
        places = places + self.drop_path(self.mlp(self.norm2(places)))
        mixed: torch.Tensor = places.reshape(x.shape)
        return mixed


class OverlappedSpatialReductionAttention(nn.Module):
    """Attention to a coarser version of the picture, made by overlapping strided convolutions.

    Args:
        dim: channels.
        num_heads: heads.
        sr_ratio: how much coarser.
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
        """Mix (N, H, W, C) features."""
        picture = x.permute(0, 3, 1, 2)
        coarse = self.sr(picture)
        coarse = self.local_conv(coarse) + coarse
        maps = (self.q(picture), *self.kv(coarse).chunk(2, dim=1))
        query, key, value = (_split_heads(part.flatten(2).transpose(1, 2), self.num_heads) for part in maps)
        return _join_heads(F.scaled_dot_product_attention(query, key, value)).reshape(x.shape)


class OSRABlock(nn.Module):
    """A transformer layer with :class:`OverlappedSpatialReductionAttention`.

    Args:
        dim: channels.
        sr_ratio: how much coarser the picture is that it looks at.
        num_heads: heads.
        mlp_ratio: how many times wider the feed-forward part is inside.
        drop_path: the probability of an image's branch to be dropped, in training.
    """

    def __init__(self, dim: int, sr_ratio: int, num_heads: int, mlp_ratio: float, drop_path: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.token_mixer = OverlappedSpatialReductionAttention(dim, num_heads, sr_ratio)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = _feed_forward(dim, mlp_ratio)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix (N, H, W, C) features."""
        x = x + self.drop_path(self.token_mixer(self.norm1(x)))
        mixed: torch.Tensor = x + self.drop_path(self.mlp(self.norm2(x)))
        return mixed


class StripeAttention(nn.Module):
    """Attention within stripes of the picture, with a local encoding of positions (Dong et al., "CSWin", 2021).

    Args:
        dim: channels.
        num_heads: heads.
        split_size: the thickness of a stripe.
        upright: stripes over the whole height; else over the whole width.
    """

    def __init__(self, dim: int, num_heads: int, split_size: int, upright: bool) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.split_size = split_size
        self.upright = upright
        self.get_v = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Mix features.

        Args:
            query: (N, H, W, C).
            key: (N, H, W, C).
            value: (N, H, W, C).

        Returns:
            (N, H, W, C) features.

        Raises:
            InvalidArgumentError: the stripes do not fill the picture.
        """
        count, height, width, channels = query.shape
        tall, wide = (height, self.split_size) if self.upright else (self.split_size, width)
        if height % tall or width % wide:
            raise InvalidArgumentError(
                f"features of {height} by {width} cannot be cut into stripes of {self.split_size}; use images whose "
                "height is a multiple of 16 and whose width is one of 8"
            )
        grid = (count, height // tall, tall, width // wide, wide, channels)
        stripes = [x.reshape(grid).transpose(2, 3).reshape(-1, tall, wide, channels) for x in (query, key, value)]
        heads = [_split_heads(stripe.flatten(1, 2), self.num_heads) for stripe in stripes]
        mixed = _join_heads(F.scaled_dot_product_attention(heads[0], heads[1], heads[2]))
        mixed = mixed.reshape(stripes[2].shape) + self.get_v(stripes[2].permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        back = (count, height // tall, width // wide, tall, wide, channels)
        together: torch.Tensor = mixed.reshape(back).transpose(2, 3).reshape(query.shape)
        return together


class CrossShapedWindowAttention(nn.Module):
    """A transformer layer in which half of the channels look along upright and half along level stripes.

    Args:
        dim: channels.
        num_heads: heads, shared by the halves.
        split_size: the thickness of a stripe.
        mlp_ratio: how many times wider the feed-forward part is inside.
        drop_path: the probability of an image's branch to be dropped, in training.
    """

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
        """Mix (N, H, W, C) features."""
        parts = self.qkv(self.norm1(x)).chunk(6, dim=-1)
        halves = [attention(*parts[index::2]) for index, attention in enumerate(self.attns)]
        x = x + self.drop_path(self.proj(torch.cat(halves, dim=-1)))
        mixed: torch.Tensor = x + self.drop_path(self.mlp(self.norm2(x)))
        return mixed
