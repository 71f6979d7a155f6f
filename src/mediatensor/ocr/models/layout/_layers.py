"""The layers of LW-DETR: from the features of a page to the decoder that moves boxes towards regions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._networks.blocks import conv_sequence_pt
from .._networks.transfers import at_least_float32

__all__ = ["Backbone", "Decoder", "Perceptron", "moved"]

_LEAST_GROWTH, _MOST_GROWTH = -5.0, 3.5
"""Logarithms: one step makes a box of a twentieth of the page as large as the page."""


def moved(boxes: Tensor, steps: Tensor) -> Tensor:
    """Boxes after a step, which is relative to their size and direction.

    Args:
        boxes: (..., 6): centre, width and height relative to the page, sine and cosine of their direction.
        steps: (..., 6): of the centre in widths and heights, logarithms of the growth, sine and cosine of the turn, not
            normalized.

    Returns:
        (..., 6), at least float32.
    """
    boxes, steps = at_least_float32(boxes), at_least_float32(steps)
    size = boxes[..., 2:4]
    centre = boxes[..., :2] + steps[..., :2] * size
    grown = size * steps[..., 2:4].clamp(_LEAST_GROWTH, _MOST_GROWTH).exp()
    sine, cosine = boxes[..., 4:].unbind(-1)
    turn_sine, turn_cosine = F.normalize(steps[..., 4:], dim=-1, eps=1e-6).unbind(-1)
    direction = torch.stack(
        [sine * turn_cosine + cosine * turn_sine, cosine * turn_cosine - sine * turn_sine],
        dim=-1,
    )
    return torch.cat([centre, grown, F.normalize(direction, dim=-1, eps=1e-6)], dim=-1)


class Perceptron(nn.Module):
    """Linear layers with ReLU between them.

    Args:
        widths: Of the features that come in, of those between the layers, and of those that go out.
    """

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        out: Tensor = self.layers[-1](x)
        return out


class _ChannelNorm(nn.LayerNorm):
    """Layer normalization over the channels of (N, C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def _convolved(in_channels: int, out_channels: int, kernel_size: int) -> list[nn.Module]:
    """A convolution that keeps the size, batch norm and SiLU."""
    silu = nn.SiLU(inplace=True)
    return conv_sequence_pt(
        in_channels, out_channels, True, True, silu, kernel_size=kernel_size, padding=kernel_size // 2
    )


class _CrossStage(nn.Module):
    """Convolutions of half of the channels, whose results are all merged (C2f, of YOLOv8)."""

    def __init__(self, in_channels: int, out_channels: int, num_blocks: int) -> None:
        super().__init__()
        half = out_channels // 2
        self.conv_seq_1 = nn.Sequential(*_convolved(in_channels, 2 * half, 1))
        self.blocks = nn.ModuleList(
            nn.Sequential(*_convolved(half, half, 3), *_convolved(half, half, 3)) for _ in range(num_blocks)
        )
        self.conv_seq_2 = nn.Sequential(*_convolved((2 + num_blocks) * half, out_channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.conv_seq_1(x).chunk(2, dim=1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        merged: Tensor = self.conv_seq_2(torch.cat(parts, dim=1))
        return merged


class _Projector(nn.Module):
    """Features of several layers of one size, merged into one map."""

    def __init__(self, in_channels: int, out_channels: int, num_blocks: int) -> None:
        super().__init__()
        merging = nn.Sequential(
            _CrossStage(in_channels, out_channels, num_blocks), _ChannelNorm(out_channels, eps=1e-6)
        )
        self.stages = nn.ModuleList([merging])

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        merged: Tensor = self.stages[0](torch.cat(list(features), dim=1))
        return merged


class Backbone(nn.Module):
    """A transformer for detectors, and what merges the features of its layers.

    Args:
        encoder: Gives a list of features (N, D, h, w) for images.
        in_channels: The sum of their widths.
        out_channels: Channels of the result.
        num_blocks: Blocks of the part that merges.
    """

    def __init__(self, encoder: nn.Module, in_channels: int, out_channels: int = 256, num_blocks: int = 3) -> None:
        super().__init__()
        self.encoder = encoder
        self.projector = _Projector(in_channels, out_channels, num_blocks)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) to (N, out_channels, h, w)."""
        merged: Tensor = self.projector(self.encoder(x))
        return merged


class _SelfAttention(nn.Module):
    """Queries look at each other, and at none of another group."""

    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width) for _ in range(4))

    def forward(self, queries: Tensor, positions: Tensor, groups: int) -> Tensor:
        """(N, groups * Q, D) to the same."""
        placed = queries + positions
        heads = [
            linear(x).reshape(len(x), groups, -1, self.num_heads, x.shape[-1] // self.num_heads).transpose(2, 3)
            for linear, x in ((self.q_proj, placed), (self.k_proj, placed), (self.v_proj, queries))
        ]
        dropped = self.dropout if self.training else 0.0
        gathered = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], dropout_p=dropped)
        projected: Tensor = self.o_proj(gathered.transpose(2, 3).flatten(3).flatten(1, 2))
        return projected


class _DeformableAttention(nn.Module):
    """Each query gathers features at a few points, which it chooses in and around its box (Zhu et al., "Deformable
    DETR", 2020, https://arxiv.org/abs/2010.04159), with boxes that have a direction.
    """

    def __init__(self, width: int, num_heads: int, num_points: int) -> None:
        super().__init__()
        self.num_heads, self.num_points = num_heads, num_points
        self.sampling_offsets = nn.Linear(width, num_heads * num_points * 2)
        self.attention_weights = nn.Linear(width, num_heads * num_points)
        self.value_proj, self.output_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, queries: Tensor, boxes: Tensor, features: Tensor, valid: Tensor) -> Tensor:
        """(N, Q, D) queries with boxes (N, Q, 6) look at features (N, D, h, w), where ``valid`` (N, h, w)."""
        values = self.value_proj(features.permute(0, 2, 3, 1)).masked_fill(~valid[..., None], 0.0)
        shape = (self.num_heads, self.num_points)
        by_head = values.reshape(*values.shape[:3], self.num_heads, values.shape[3] // self.num_heads)
        maps = by_head.permute(0, 3, 4, 1, 2).flatten(0, 1)

        offsets = at_least_float32(self.sampling_offsets(queries))
        across, down = offsets.reshape(*offsets.shape[:2], *shape, 2).unbind(-1)
        centre_x, centre_y, width, height, sine, cosine = boxes[..., None, None, :].unbind(-1)
        across, down = across * width / (2 * self.num_points), down * height / (2 * self.num_points)
        places = torch.stack([centre_x + across * cosine - down * sine, centre_y + across * sine + down * cosine], -1)

        # Places and sums of features are float32: half precision has no parts of pixels.
        grid = (2 * places - 1).transpose(1, 2).flatten(0, 1)
        sampled = F.grid_sample(maps.to(grid.dtype), grid, mode="bilinear", align_corners=False)
        weights = at_least_float32(self.attention_weights(queries)).reshape(*offsets.shape[:2], *shape).softmax(-1)
        gathered = (sampled * weights.transpose(1, 2).flatten(0, 1)[:, None]).sum(-1)
        heads = gathered.reshape(len(queries), -1, queries.shape[1])
        projected: Tensor = self.output_proj(heads.transpose(1, 2).to(queries.dtype))
        return projected


class _FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = x + self.dropout(self.fc2(self.dropout(self.fc1(x).relu())))
        return added


class _DecoderLayer(nn.Module):
    """Queries look at each other, then at the page, then at themselves; normalized after each."""

    def __init__(
        self, width: int, self_heads: int, cross_heads: int, num_points: int, inner: int, dropout: float
    ) -> None:
        super().__init__()
        self.self_attn = _SelfAttention(width, self_heads, dropout)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.cross_attn = _DeformableAttention(width, cross_heads, num_points)
        self.cross_attn_layer_norm = nn.LayerNorm(width)
        self.mlp = _FeedForward(width, inner, dropout)
        self.layer_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, queries: Tensor, positions: Tensor, boxes: Tensor, features: Tensor, valid: Tensor, groups: int
    ) -> Tensor:
        among = self.self_attn(queries, positions, groups)
        queries = self.self_attn_layer_norm(queries + self.dropout(among))
        seen = self.cross_attn(queries + positions, boxes, features, valid)
        queries = self.cross_attn_layer_norm(queries + self.dropout(seen))
        normed: Tensor = self.layer_norm(self.mlp(queries))
        return normed


class Decoder(nn.Module):
    """Layers that each move the boxes of the queries.

    Args:
        bbox_embed: The step of a box from the features of its query; all layers share it.
        num_layers: How many layers.
        width: The width of the features.
        self_heads: Heads of the attention among queries.
        cross_heads: Heads of the attention to the page.
        num_points: Points at which each of these looks.
        inner: The width inside the feed-forward parts.
        dropout: The probability of a feature to be dropped, in training.
    """

    def __init__(
        self,
        bbox_embed: nn.Module,
        num_layers: int,
        width: int,
        self_heads: int,
        cross_heads: int,
        num_points: int,
        inner: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            _DecoderLayer(width, self_heads, cross_heads, num_points, inner, dropout) for _ in range(num_layers)
        )
        self.layernorm = nn.LayerNorm(width)
        self.bbox_embed = bbox_embed
        self.ref_point_head = Perceptron(2 * width, width, width)
        self.angle_proj = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width))

    def forward(
        self, queries: Tensor, boxes: Tensor, features: Tensor, valid: Tensor, groups: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Move boxes, layer by layer.

        Args:
            queries: (N, groups * Q, D).
            boxes: Where they begin, (N, groups * Q, 6).
            features: Of the pages, (N, D, h, w).
            valid: Where these are of a page and not of padding, bool (N, h, w).
            groups: Groups that do not see each other.

        Yields:
            Features of the queries (N, groups * Q, D), and their boxes, after each layer.
        """
        looked_at = start = boxes
        for layer in self.layers:
            queries = layer(queries, self._positions(looked_at, queries.dtype), looked_at, features, valid, groups)
            normed = self.layernorm(queries)
            step = self.bbox_embed(normed)
            # What a layer predicts also teaches the one before it, and no other; hence one of both is detached.
            yield normed, moved(start, step)
            start = moved(looked_at, step)
            looked_at = start.detach()

    def _positions(self, boxes: Tensor, dtype: torch.dtype) -> Tensor:
        """Features (N, Q, D) that say where a box is, how large, and in which direction."""
        width = self.layernorm.normalized_shape[0]
        steps = torch.arange(0, width // 2, 2, device=boxes.device, dtype=boxes.dtype)
        angles = 2 * math.pi * boxes[..., [1, 0, 2, 3], None] * 10000 ** (-2 * steps / width)
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-3)
        sine, cosine = boxes[..., 4:].unbind(-1)
        direction = torch.stack([sine, cosine, 2 * sine * cosine, cosine**2 - sine**2], dim=-1)
        placed: Tensor = self.ref_point_head(waves.to(dtype)) + self.angle_proj(direction.to(dtype))
        return placed
