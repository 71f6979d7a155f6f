"""Mel filter banks on Slaney's scale, computed and not stored. Pure."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["slaney_mel_filters"]

# Below 1000 Hz a mel is 200/3 Hz; above, 27 mels are a factor of 6.4 in frequency.
_HZ_PER_MEL = 200 / 3
_KNEE_HZ = 1000.0
_KNEE_MELS = _KNEE_HZ / _HZ_PER_MEL
_LOG_STEP = math.log(6.4) / 27


def hz_to_mels(hz: float) -> float:
    """A frequency on Slaney's scale.

    >>> round(hz_to_mels(1000.0), 9), round(hz_to_mels(6400.0), 9)
    (15.0, 42.0)
    """
    return hz / _HZ_PER_MEL if hz < _KNEE_HZ else _KNEE_MELS + math.log(hz / _KNEE_HZ) / _LOG_STEP


def mels_to_hz(mels: float) -> float:
    """The inverse of `hz_to_mels`.

    >>> round(mels_to_hz(15.0), 9), round(mels_to_hz(42.0), 9)
    (1000.0, 6400.0)
    """
    return mels * _HZ_PER_MEL if mels < _KNEE_MELS else _KNEE_HZ * math.exp((mels - _KNEE_MELS) * _LOG_STEP)


def slaney_mel_filters(sample_rate: int, n_fft: int, num_mels: int) -> Tensor:
    """Triangles of area 1, evenly spaced in mels from 0 Hz to half the sample rate, each from one peak to the next
    but one.

    Args:
        sample_rate: Samples per second.
        n_fft: Samples of a window.
        num_mels: Number of triangles.

    Returns:
        float32 (num_mels, n_fft // 2 + 1): the weight of each frequency bin in each band.

    Example:
        >>> slaney_mel_filters(16000, 400, 80).shape
        torch.Size([80, 201])
    """
    highest = hz_to_mels(sample_rate / 2)
    corners = torch.tensor(
        [mels_to_hz(highest * k / (num_mels + 1)) for k in range(num_mels + 2)], dtype=torch.float64, device="cpu"
    )
    bins = torch.arange(n_fft // 2 + 1, dtype=torch.float64, device="cpu") * (sample_rate / n_fft)
    lower, peak, upper = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising, falling = (bins - lower) / (peak - lower), (upper - bins) / (upper - peak)
    triangles = torch.minimum(rising, falling).clamp(min=0)
    return (triangles * (2 / (upper - lower))).float()
