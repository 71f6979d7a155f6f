"""Weights by formula: the same numbers in two libraries without storing them.

A published checkpoint is far too large for a test fixture, and a seed gives the same weights only where modules are
created in the same order. Here every tensor of a state dict is a function of only its name and shape, so a network of
another library and its counterpart here get equal weights exactly when their state dicts agree. The results of the
other library with them is recorded (``record_ocr_*.py``) as a handful of numbers.

Used on both sides, so it needs torch and numpy only.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

# Parts of this size stay in the caches of a processor; networks have millions of weights.
_PART = 1 << 15


def _parts(name: str, shape: tuple[int, ...]) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield places in a flat tensor, and numbers in [-1, 1) that depend only on ``name`` and ``shape``, float64.

    The raw output of a bit generator is what numpy promises never to change; its distributions are not.
    """
    seed = int.from_bytes(hashlib.sha256(f"{name} {tuple(shape)}".encode()).digest()[:8], "little")
    generator, size = np.random.PCG64(seed), math.prod(shape)
    for start in range(0, size, _PART):
        place = slice(start, min(start + _PART, size))
        raw = generator.random_raw(place.stop - start)
        raw >>= np.uint64(11)
        values = raw.astype(np.float64)
        values *= 2.0**-52
        values -= 1.0
        yield place, values


def uniform(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers in [-1, 1) that depend only on ``name`` and ``shape``, float64."""
    flat = np.empty(math.prod(shape))
    for place, values in _parts(name, shape):
        flat[place] = values
    return flat.reshape(shape)


def formula_tensor(name: str, shape: tuple[int, ...], gain: float) -> torch.Tensor:
    """The float32 tensor of a state dict entry: matrices have variance ``gain / fan_in``, scales lie around 1."""
    flat = np.empty(math.prod(shape), np.float32)
    factor, summand = 0.1, 0.0
    if len(shape) >= 2:
        factor = math.sqrt(3.0 * gain / math.prod(shape[1:]))
    elif name.endswith(("running_var", "weight")):
        factor, summand = 0.2, 1.0
    for place, values in _parts(name, shape):
        values *= factor
        values += summand
        flat[place] = values
    return torch.from_numpy(flat.reshape(shape))


def fill(model: nn.Module, gain: float = 1.0) -> nn.Module:
    """Put the formula into every floating-point entry of the state dict; returns the model in evaluation mode.

    ``gain`` keeps a deep network's activations in range; record it with the outputs. Counters and masks stay.
    """
    for name, tensor in model.state_dict().items():
        # One at a time, because a second state dict of a large network takes 340 MB.
        if tensor.is_floating_point():
            tensor.copy_(formula_tensor(name, tuple(tensor.shape), gain))
    return model.eval()


def formula_input(shape: tuple[int, ...]) -> torch.Tensor:
    """A float32 input in [-1, 1): noise over a coarse pattern, so that deep layers see structure."""
    noise = uniform("input", shape)
    height, width = shape[-2:]
    rows, columns = np.ogrid[:height, :width]
    pattern = np.sin(rows / 5.0) * np.cos(columns / 7.0)
    return torch.from_numpy((0.5 * noise + 0.5 * pattern).astype(np.float32))


def describe_state(model: nn.Module) -> dict[str, Any]:
    """Names, shapes and types of a state dict in a few bytes: how many, how many numbers, and a hash of them all."""
    state = model.state_dict()
    lines = sorted(f"{name} {tuple(tensor.shape)} {tensor.dtype}" for name, tensor in state.items())
    return {
        "entries": len(lines),
        "numbers": sum(tensor.numel() for tensor in state.values()),
        "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
    }


def summarize(tensor: torch.Tensor, samples: int = 24) -> dict[str, Any]:
    """A tensor in a few numbers: shape, mean, spread, a checksum that weighs every value, and sampled values.

    The checksum is a mean of all values under weights in [-1, 1), so a swap or a shift changes it.
    """
    values = tensor.detach().double().flatten().numpy()
    positions = np.unique(np.linspace(0, values.size - 1, min(samples, values.size)).round().astype(int))
    return {
        "shape": list(tensor.shape),
        "mean": round(float(values.mean()), 7),
        "std": round(float(values.std()), 7),
        "checksum": round(float((values * uniform("checksum", values.shape)).mean()), 8),
        "values": [round(float(value), 6) for value in values[positions]],
    }


def assert_summary(tensor: torch.Tensor, expected: dict[str, Any], atol: float = 1e-4) -> None:
    """``tensor`` summarizes to ``expected``: samples within ``atol``, moments and checksum within it as well."""
    actual = summarize(tensor, max(len(expected["values"]), 1))
    assert actual["shape"] == expected["shape"]
    np.testing.assert_allclose(actual["values"], expected["values"], rtol=0, atol=atol)
    for key in ("mean", "std", "checksum"):
        assert abs(actual[key] - expected[key]) <= atol, (key, actual[key], expected[key])
