"""Transformer layers that several networks share, with docTR's parameter names."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from ....errors import InvalidArgumentError

__all__ = ["EncoderBlock", "MultiHeadAttention", "PositionwiseFeedForward"]


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention in several heads (Vaswani et al., "Attention Is All You Need", 2017).

    Args:
        num_heads: how many heads.
        d_model: the width of the features, a multiple of ``num_heads``.

    Raises:
        InvalidArgumentError: the width cannot be shared among the heads.
    """

    def __init__(self, num_heads: int, d_model: int) -> None:
        super().__init__()
        if d_model % num_heads:
            raise InvalidArgumentError(f"{num_heads} heads cannot share a width of {d_model}; it has to be a multiple")
        self.num_heads = num_heads
        self.linear_layers = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(3))
        self.output_linear = nn.Linear(d_model, d_model)

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Let each query gather from the values.

        Args:
            query: (N, Q, D) features.
            key: (N, K, D) features.
            value: (N, K, D) features.
            mask: bool, broadcasts to (N, heads, Q, K): True where a query may look. None: everywhere.

        Returns:
            (N, Q, D) features.
        """
        heads = [
            linear(features).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for linear, features in zip(self.linear_layers, (query, key, value), strict=True)
        ]
        gathered = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], attn_mask=mask)
        projected: torch.Tensor = self.output_linear(gathered.transpose(1, 2).flatten(2))
        return projected


class PositionwiseFeedForward(nn.Sequential):
    """Two linear layers around an activation, applied to each position alone.

    Args:
        d_model: the width of the features.
        ffd: the width between the two layers.
        dropout: the probability of a feature to be dropped, in training.
        activation: what is between the layers.
    """

    def __init__(self, d_model: int, ffd: int, dropout: float, activation: nn.Module) -> None:
        super().__init__(
            nn.Linear(d_model, ffd), activation, nn.Dropout(dropout), nn.Linear(ffd, d_model), nn.Dropout(dropout)
        )


class EncoderBlock(nn.Module):
    """A stack of transformer encoder layers that normalize first and share their normalizations.

    Args:
        num_layers: how many layers.
        num_heads: heads of the attention.
        d_model: the width of the features.
        dff: the width inside the feed-forward part.
        dropout: the probability of a feature to be dropped, in training.
        activation: of the feed-forward part.
    """

    def __init__(
        self, num_layers: int, num_heads: int, d_model: int, dff: int, dropout: float, activation: nn.Module
    ) -> None:
        super().__init__()
        self.layer_norm_input = nn.LayerNorm(d_model)
        self.layer_norm_attention = nn.LayerNorm(d_model)
        self.layer_norm_output = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.attention = nn.ModuleList(MultiHeadAttention(num_heads, d_model) for _ in range(num_layers))
        self.position_feed_forward = nn.ModuleList(
            PositionwiseFeedForward(d_model, dff, dropout, activation) for _ in range(num_layers)
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Encode (N, L, D) features; ``mask`` as in :class:`MultiHeadAttention`."""
        for attention, feed_forward in zip(self.attention, self.position_feed_forward, strict=True):
            normed = self.layer_norm_input(x)
            x = x + self.dropout(attention(normed, normed, normed, mask))
            x = x + self.dropout(feed_forward(self.layer_norm_attention(x)))
        encoded: torch.Tensor = self.layer_norm_output(x)
        return encoded
