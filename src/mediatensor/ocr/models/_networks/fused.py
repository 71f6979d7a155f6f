"""Convolutions together with what follows them, in one pass over memory, on a CPU.

PyTorch's own choice between oneDNN and a plain matrix product leaves convolutions of one pixel to the slower of the two
where there is one thread or a small picture, and each activation and sum reads and writes the whole map once more.
Here such a step is one call of oneDNN. What cannot be done so, or is to have gradients, goes through the layers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["convolve", "multiply"]

Activation = Literal["none", "relu", "gelu", "swish"]
"""Names of oneDNN; ``"swish"`` is :func:`torch.nn.functional.silu`."""

_ACTIVATIONS: dict[str, Any] = {"relu": F.relu_, "gelu": F.gelu, "swish": F.silu}


def convolve(layer: nn.Conv2d, x: Tensor, activation: Activation = "none", added: Tensor | None = None) -> Tensor:
    """``activation(layer(x))``, or ``layer(x) + added``.

    Args:
        layer: The convolution.
        x: (N, C, H, W).
        activation: What follows it.
        added: A map of the size of the result; not together with an activation.

    Returns:
        The map, equal to that of the layers but for rounding.
    """
    if not _can_fuse(layer, x):
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
    """``rows @ weight.T + bias``, as :func:`torch.nn.functional.linear`.

    Args:
        rows: (N, width).
        weight: (classes, width).
        bias: (classes,), or none.

    Returns:
        (N, classes), equal to that of ``linear`` but for rounding.
    """
    if not _is_plain(rows, weight) or not len(rows):
        return F.linear(rows, weight, bias)
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product


def _can_fuse(layer: nn.Conv2d, x: Tensor) -> bool:
    # A hook, or a layer that was put in place of the convolution, wants to be called.
    return type(layer) is nn.Conv2d and not layer._forward_hooks and not layer._forward_pre_hooks and (
        layer.padding_mode == "zeros" and not isinstance(layer.padding, str) and _is_plain(x, layer.weight)
    )  # fmt: skip


def _is_plain(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN may be called: floats on a CPU, no gradients, and nobody records what is done."""
    return (
        x.dtype is weight.dtype is torch.float32
        and x.device.type == weight.device.type == "cpu"
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and not torch._C._get_tracing_state()
        and not torch.is_autocast_enabled("cpu")
        and bool(torch.backends.mkldnn.enabled)
        and _has_fused_calls()
    )


@lru_cache(maxsize=1)
def _has_fused_calls() -> bool:
    """Whether this build of PyTorch has them, and they do what is expected: they are no part of its public API."""
    x, weight, bias = torch.linspace(-3, 3, 64).view(1, 4, 4, 4), torch.linspace(-1, 1, 16).view(4, 4), torch.ones(4)
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
    return all(torch.allclose(fused, expected, rtol=1e-4, atol=1e-5) for fused, expected in pairs)
