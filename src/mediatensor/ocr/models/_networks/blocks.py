"""Layers that several networks share: the convolutions of PP-OCR and the transformers of docTR.

The backbone of PP-OCR is PPLCNetV4 of PaddleOCR (Apache-2.0). Each of its blocks has a depthwise convolution and a
pointwise mixer, and every second block also has squeeze-and-excitation. PaddleOCR trains this network with parallel
branches and batch norms. Here the branches and batch norms are already fused into single convolutions.

On a CPU, `convolve` and `multiply` each make a single call of oneDNN, which is faster than PyTorch's layers for two
reasons. PyTorch can compute a 1 x 1 convolution with oneDNN or as an ordinary matrix product, and often chooses the
slower way. In addition, each activation and each sum in PyTorch reads and writes the whole feature map once more. If
gradients are needed or a call cannot be fused, both functions call the ordinary layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ....errors import InvalidArgumentError

Activation = Literal["none", "relu", "gelu", "swish"]
"""oneDNN's names of activations; ``"swish"`` is `torch.nn.functional.silu`."""
_ACTIVATIONS: dict[str, Any] = {"relu": F.relu_, "gelu": F.gelu, "swish": F.silu}
_TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
"""Types of fused calls, each with its relative error: bfloat16 has 8 significant bits."""
_WITH_PARAMETERS = (nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.Linear, nn.LayerNorm)


def convolve(layer: nn.Conv2d, x: Tensor, activation: Activation = "none", added: Tensor | None = None) -> Tensor:
    """Return ``activation(layer(x))``, or ``layer(x) + added`` if ``added`` is given.

    On a CPU this is one fused call if possible. Fusing changes the result only by rounding.
    """
    # Hooks, and layers that replace the convolution, must be called.
    is_plain = type(layer) is nn.Conv2d and not layer._forward_hooks and not layer._forward_pre_hooks
    is_plain = is_plain and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    if not is_plain or not _is_plain(x, layer.weight):
        y: Tensor = layer(x)
        return (y if activation == "none" else _ACTIVATIONS[activation](y)) if added is None else y + added
    shape = (layer.padding, layer.stride, layer.dilation, layer.groups)
    call = torch.ops.mkldnn._convolution_pointwise
    if added is None:
        fused: Tensor = call(x, layer.weight, layer.bias, *shape, activation, [], "none")
    else:
        fused = call.binary(x, added, layer.weight, layer.bias, *shape, "add", None, None, [], None)
    return fused


def multiply(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``rows @ weight.T + bias``, like `torch.nn.functional.linear`; on a CPU it is one oneDNN call if possible.

    The result may differ from PyTorch's by rounding.
    """
    if not _is_plain(rows, weight) or not len(rows):
        return F.linear(rows, weight, bias)
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product


def _is_plain(x: Tensor, weight: Tensor) -> bool:
    """Return whether this can be a fused oneDNN call: on a CPU, without gradients, autocast, compiling and tracing."""
    return (
        x.dtype is weight.dtype
        and x.device.type == weight.device.type == "cpu"
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and not torch._C._get_tracing_state()
        and not torch.is_autocast_enabled("cpu")
        and bool(torch.backends.mkldnn.enabled)
        and _has_fused_calls(x.dtype)
    )


@cache
def _has_fused_calls(dtype: torch.dtype) -> bool:
    """Return whether this build of PyTorch has the private oneDNN functions, and whether they pass a small test.

    oneDNN rejects bfloat16 on processors without instructions for it.
    """
    if dtype not in _TOLERANCES:
        return False
    x = torch.linspace(-3, 3, 64).view(1, 4, 4, 4).to(dtype)
    weight, bias = torch.linspace(-1, 1, 16).view(4, 4).to(dtype), torch.ones(4, dtype=dtype)
    kernel = weight.view(4, 4, 1, 1)
    shape = ([0, 0], [1, 1], [1, 1], 1)
    plain, rows = F.conv2d(x, kernel, bias), x.view(16, 4)
    try:
        call = torch.ops.mkldnn._convolution_pointwise
        pairs = [(call(x, kernel, bias, *shape, "none", [], "none"), plain)]
        pairs += [
            (call(x, kernel, bias, *shape, name, [], "none"), of(plain.clone())) for name, of in _ACTIVATIONS.items()
        ]
        pairs += [(call.binary(x, x, kernel, bias, *shape, "add", None, None, [], None), plain + x)]
        pairs += [
            (torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], ""), F.linear(rows, weight, bias))
        ]
    except (AttributeError, RuntimeError, TypeError):
        return False
    tolerance = _TOLERANCES[dtype]
    return all(torch.allclose(fused, expected, rtol=tolerance, atol=tolerance) for fused, expected in pairs)


class BoxNetwork(nn.Module):
    """Base class of networks that return boxes, which their ``postprocessor`` computes."""

    postprocessor: Any

    @property
    def assume_straight_pages(self) -> bool:
        """Whether ``forward`` returns axis-aligned boxes; otherwise it returns the four corners of each box."""
        return bool(self.postprocessor.assume_straight_pages)

    @assume_straight_pages.setter
    def assume_straight_pages(self, straight: bool) -> None:
        self.postprocessor.assume_straight_pages = straight


class ConvNorm(nn.Module):
    """A convolution followed by batch norm, without activation. If the stride is 1, height and width do not change."""

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
    """Multiplies each channel by a gate in [0, 1], computed from the means of all channels (Hu et al., 2018).

    The gates are hard sigmoids, ``clamp(slope * x + 0.5, 0, 1)``. If ``residual`` is true, the input is added to the
    result.
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
    """A block of PPLCNetV4: a 3 x 3 depthwise convolution, and two pointwise convolutions with a GELU between them.

    If ``gated`` is true, a `SqueezeExcitation` follows the depthwise convolution. If input and output have the same
    shape, the input is added to the output.
    """

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
    """The first layers of PPLCNetV4, which reduce height and width to a quarter.

    Between two convolutions with stride 2, one branch pools and another convolves. Their outputs are concatenated.
    """

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
    """Add zeros at the bottom and at the right, so that layers with 2 x 2 kernels do not change height and width."""
    return F.pad(x, (0, 1, 0, 1))


def _pool(x: Tensor) -> Tensor:
    """Return the maximum of every 2 x 2 square, with stride 1, in half the time of ``max_pool2d``."""
    rows = torch.maximum(x[:, :, :-1], x[:, :, 1:])
    return torch.maximum(rows[..., :-1], rows[..., 1:])


def make_stage(in_channels: int, channels: int, stride: int | tuple[int, int], gated: Sequence[bool]) -> list[Block]:
    """Return a sequence of blocks, ``gated`` or not; only the first has the ``stride`` and changes the channels."""
    return [
        Block(channels if index else in_channels, channels, 1 if index else stride, has_gates)
        for index, has_gates in enumerate(gated)
    ]


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Run a network in evaluation mode and without gradients within the block, so that it does not change."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def parameter_layers(*modules: nn.Module) -> list[nn.Module]:
    """Return the layers in ``modules`` that have parameters, in the order in which they were registered."""
    return [layer for module in modules for layer in module.modules() if isinstance(layer, _WITH_PARAMETERS)]


def initialize_convolutions(network: nn.Module, zero_bias: bool = False) -> None:
    """Initialise the weights of all convolutions for ReLU (He et al., 2015). If ``zero_bias``, set biases to zero."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if zero_bias and module.bias is not None:
                nn.init.zeros_(module.bias)


def initialize_truncated(network: nn.Module, *kinds: type[nn.Module]) -> None:
    """Initialise layers of ``kinds``: weights from a truncated normal distribution (deviation 0.02), biases to zero."""
    for module in network.modules():
        if isinstance(module, kinds):
            nn.init.trunc_normal_(module.get_parameter("weight"), std=0.02)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.get_parameter("bias"))


def conv_sequence_pt(
    in_channels: int,
    out_channels: int,
    act: bool = False,
    bn: bool = False,
    activation: nn.Module | None = None,
    **kwargs: Any,
) -> list[nn.Module]:
    """Create the layers of a convolution with optional batch normalization and activation.

    Args:
        in_channels: Input channels.
        out_channels: Output channels.
        act: Add an activation at the end.
        bn: Add batch normalization after the convolution. By default, the convolution then has no bias.
        activation: The activation to add if ``act`` is true; by default a new in-place ReLU.
        **kwargs: Arguments of `torch.nn.Conv2d`. ``kernel_size`` is required.

    Returns:
        A list of one to three layers, in the order in which they are applied.

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
    """Multi-head scaled dot-product attention (Vaswani et al., "Attention Is All You Need", 2017)."""

    def __init__(self, num_heads: int, d_model: int) -> None:
        super().__init__()
        if d_model % num_heads:
            raise InvalidArgumentError(f"{num_heads} heads cannot share a width of {d_model}; it has to be a multiple")
        self.num_heads = num_heads
        self.linear_layers = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(3))
        self.output_linear = nn.Linear(d_model, d_model)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the attention-weighted mean of the values for each query, (N, Q, D).

        ``query`` is (N, Q, D); ``key`` and ``value`` are (N, K, D). ``mask`` is bool, True where a query attends to a
        key, and broadcasts to (N, heads, Q, K).
        """
        heads = [
            linear(features).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for linear, features in zip(self.linear_layers, (query, key, value), strict=True)
        ]
        gathered = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], attn_mask=mask)
        projected: Tensor = self.output_linear(gathered.transpose(1, 2).flatten(2))
        return projected


class PositionwiseFeedForward(nn.Sequential):
    """Linear layers, from width ``d_model`` to ``ffd`` and back, with an activation, applied to each position."""

    def __init__(self, d_model: int, ffd: int, dropout: float, activation: nn.Module) -> None:
        super().__init__(
            nn.Linear(d_model, ffd), activation, nn.Dropout(dropout), nn.Linear(ffd, d_model), nn.Dropout(dropout)
        )


class EncoderBlock(nn.Module):
    """A stack of pre-norm transformer encoder layers that share their normalization layers."""

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

    def forward(self, x: Tensor) -> Tensor:
        """Encode features (N, L, D), and return them with the same shape."""
        for attention, feed_forward in zip(self.attention, self.position_feed_forward, strict=True):
            normed = self.layer_norm_input(x)
            x = x + self.dropout(attention(normed, normed, normed))
            x = x + self.dropout(feed_forward(self.layer_norm_attention(x)))
        encoded: Tensor = self.layer_norm_output(x)
        return encoded


class DropPath(nn.Module):
    """In training, zeroes a residual branch for random images of a batch (Huang et al., "Stochastic Depth", 2016)."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.probability == 0:
            return x
        kept = 1 - self.probability
        return (
            x * torch.full((x.shape[0],) + (1,) * (x.ndim - 1), kept, device=x.device, dtype=x.dtype).bernoulli() / kept
        )


class FeatureExtractor(nn.ModuleDict):
    """Runs a backbone and returns the outputs of some of its layers.

    ``layers`` are the names of these layers, in order. They must be children of ``backbone``, which must run its
    children one after the other. Layers after the last named layer are removed.

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
        """Return the output of each requested layer for images (N, 3, H, W)."""
        features = []
        for name, layer in self.items():
            x = layer(x)
            if name in self.wanted:
                features.append(x)
        return features

    def channels(self) -> list[int]:
        """Return the number of channels of each requested output."""
        with evaluating(self):
            return [feature.shape[1] for feature in self(torch.zeros(1, 3, 64, 64))]
