"""Layers that several networks share: convolutions of PP-OCR, in the fused form, and transformers of docTR.

The backbone of PP-OCR is PPLCNetV4 of PaddleOCR (Apache-2.0): a depthwise convolution, squeeze-and-excitation in every
other block, and a pointwise mixer. Parallel branches and batch norms of the training form are folded into one
convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ....errors import InvalidArgumentError
from .fused import convolve

__all__ = [
    "ConvNorm",
    "DropPath",
    "EncoderBlock",
    "FeatureExtractor",
    "MultiHeadAttention",
    "PositionwiseFeedForward",
    "SqueezeExcitation",
    "Stem",
    "conv_sequence_pt",
    "make_stage",
    "parameter_layers",
]


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
        slope: The slope of the hard sigmoid, ``clamp(slope * x + 0.5, 0, 1)``.
        residual: Add the input to the gated one.
    """

    def __init__(self, num_channels: int, slope: float = 1 / 6, residual: bool = False) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(num_channels, num_channels // 4, 1)
        self.excite = nn.Conv2d(num_channels // 4, num_channels, 1)
        self.slope, self.residual = slope, residual

    def forward(self, x: Tensor) -> Tensor:
        gates = convolve(self.excite, convolve(self.squeeze, x.mean((2, 3), keepdim=True), "relu"))
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
        x = convolve(self.depthwise, x)
        if self.gates is not None:
            x = self.gates(x)
        return convolve(self.project, convolve(self.expand, x, "gelu"), added=x if self.residual else None)


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
        x = _pad_after(convolve(self.first, x, "relu"))
        convolved = convolve(self.widen, _pad_after(convolve(self.narrow, x, "relu")), "relu")
        return convolve(self.last, convolve(self.merge, torch.cat([_pool(x), convolved], 1), "relu"), "relu")


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


def conv_sequence_pt(
    in_channels: int,
    out_channels: int,
    act: bool = False,
    bn: bool = False,
    activation: nn.Module | None = None,
    **kwargs: Any,
) -> list[nn.Module]:
    """The layers of a convolution with what usually follows it.

    Args:
        in_channels: channels that come in.
        out_channels: channels that go out.
        act: end with an activation.
        bn: follow the convolution with a batch normalization, and leave its bias out unless asked for.
        activation: the activation; by default a new ReLU in place.
        **kwargs: of :class:`torch.nn.Conv2d`, such as ``kernel_size``.

    Returns:
        The layers, in order.

    >>> from mediatensor.ocr.models.utils import conv_sequence_pt
    >>> len(conv_sequence_pt(3, 8, act=True, bn=True, kernel_size=3))
    3
    """
    kwargs.setdefault("bias", not bn)
    layers: list[nn.Module] = [nn.Conv2d(in_channels, out_channels, **kwargs)]
    if bn:
        layers.append(nn.BatchNorm2d(out_channels))
    if act:
        layers.append(nn.ReLU(inplace=True) if activation is None else activation)
    return layers


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

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
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
        projected: Tensor = self.output_linear(gathered.transpose(1, 2).flatten(2))
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

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode (N, L, D) features; ``mask`` as in :class:`MultiHeadAttention`."""
        for attention, feed_forward in zip(self.attention, self.position_feed_forward, strict=True):
            normed = self.layer_norm_input(x)
            x = x + self.dropout(attention(normed, normed, normed, mask))
            x = x + self.dropout(feed_forward(self.layer_norm_attention(x)))
        encoded: Tensor = self.layer_norm_output(x)
        return encoded


class DropPath(nn.Module):
    """Drops the whole branch of some images of a batch, in training (Huang et al., "Stochastic Depth", 2016).

    Args:
        probability: of an image's branch to be dropped.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """Drop, and scale what is kept so that the mean stays."""
        if not self.training or self.probability == 0:
            return x
        kept = 1 - self.probability
        return (
            x * torch.full((x.shape[0],) + (1,) * (x.ndim - 1), kept, device=x.device, dtype=x.dtype).bernoulli() / kept
        )


class FeatureExtractor(nn.ModuleDict):
    """The layers of a backbone up to the last one whose result is wanted, under the names they have there.

    Args:
        backbone: Runs its children one after the other, at least as far as needed.
        layers: Names of the children whose results are wanted, in order.

    >>> from torch import nn
    >>> import torch
    >>> stack = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.Flatten())
    >>> [feature.shape[1] for feature in FeatureExtractor(stack, ["0", "2"])(torch.zeros(1, 3, 2, 2))]
    [8, 4]
    """

    def __init__(self, backbone: nn.Module, layers: Sequence[str]) -> None:
        children = dict(backbone.named_children())
        needed = list(children)[: list(children).index(layers[-1]) + 1]
        super().__init__({name: children[name] for name in needed})
        self.wanted = tuple(layers)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Results of the wanted layers for (N, 3, H, W) images."""
        features = []
        for name, layer in self.items():
            x = layer(x)
            if name in self.wanted:
                features.append(x)
        return features

    @torch.no_grad()
    def shapes(self, size: int = 64) -> list[tuple[int, int, int]]:
        """Channels, height and width of the results for a square image; running statistics do not change."""
        modes = [(module, module.training) for module in self.modules()]
        self.eval()
        features = self(torch.zeros(1, 3, size, size))
        for module, training in modes:
            module.training = training
        return [(feature.shape[1], feature.shape[2], feature.shape[3]) for feature in features]
