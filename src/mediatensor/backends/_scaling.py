"""Resizing on any torch device: the filters of libswscale, and samples filtered with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["CENTRE", "Kernel", "Taps", "compute_pair_taps", "compute_taps", "resample"]

Kernel = Literal["bilinear", "bicubic"]

CENTRE = 128  # of a sample, in 1/256 of it: where luma lies, and chroma unless a file says otherwise

_NEGLIGIBLE = 0.002  # as much of the weight may be cut off at either end of a filter
_BICUBIC_C = int(0.6 * (1 << 24))  # of the cubics of Mitchell and Netravali (1988); B is 0
_MAX_CACHED_TAPS = 128


@dataclass(frozen=True, eq=False)
class Taps:
    """A filter for each of a line's target samples.

    Attributes:
        indices: Of the source samples that count, int64 (target, taps), all within the source.
        weights: Of each, int32 (target, taps).
        one: What the weights of a target sample sum to.
    """

    indices: NDArray[np.int64]
    weights: NDArray[np.int32]
    one: int

    @cached_property
    def is_identity(self) -> bool:
        """Whether every target sample is the source sample in its place."""
        positions = self.indices[:, 0]
        return self.indices.shape[1] == 1 and bool((positions == np.arange(len(positions))).all())


@lru_cache(maxsize=_MAX_CACHED_TAPS)
def compute_taps(
    source: int, target: int, kernel: Kernel, bits: int, source_centre: int = CENTRE, target_centre: int = CENTRE
) -> Taps:
    """The filter from ``source`` to ``target`` samples; shrinking widens the kernel (antialias).

    Args:
        source: Samples in the line, at least 1.
        target: Samples of the result, at least 1.
        kernel: ``"bilinear"``, or ``"bicubic"`` with B = 0 and C = 0.6.
        bits: The weights sum to 2**bits: 14 along lines, 12 across them.
        source_centre: Position of the value within a source sample, in 1/256 of the sample.
        target_centre: Position of the value within a target sample, in 1/256 of the sample.

    >>> compute_taps(4, 8, "bilinear", 12).weights[:4].tolist()
    [[4096, 0], [3072, 1024], [1024, 3072], [3072, 1024]]
    """
    step = ((source << 16) + (target >> 1)) // target
    one = 1 << 54 - min(max(source // target, 1).bit_length() - 1, 8)  # more taps must not leave 64 bits
    if abs(step - 0x10000) < 10 and source_centre == target_centre:
        positions, weights = np.arange(target), np.full((target, 1), one)
    else:
        positions, weights = _kernel_weights(source, target, step, kernel, source_centre, target_centre)
        weights //= (1 << 54) // one
    positions, weights = _within(*_cut_negligible(positions, weights, _NEGLIGIBLE * one), source)
    indices = np.minimum(positions[:, None] + np.arange(weights.shape[1]), source - 1)
    return Taps(indices, _normalized(weights, 1 << bits).astype(np.int32), 1 << bits)


def _kernel_weights(
    source: int, target: int, step: int, kernel: Kernel, source_centre: int, target_centre: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First positions (target,), weights (target, taps) in 1 / 2**54, before anything is cut off."""
    support = 4 if kernel == "bicubic" else 2
    size = 1 + support if step <= 1 << 16 else 1 + (support * source + target - 1) // target
    size = max(1, min(size, source - 2))
    # Twice the position of each target sample's centre in the source.
    centres = ((target_centre * step) >> 7) - ((source_centre << 16) >> 7) + 2 * step * np.arange(target)
    numerators = centres - ((size - 2) << 16)
    positions = np.sign(numerators) * (np.abs(numerators) >> 17)  # as C divides: towards zero
    distances = np.abs(((positions[:, None] + np.arange(size)) << 17) - centres[:, None]) << 13
    if step > 1 << 16:
        distances = distances * target // source
    return positions, _bicubic(distances) if kernel == "bicubic" else _bilinear(distances)


def _bilinear(distances: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.maximum((1 << 30) - distances, 0) << 24


def _bicubic(distances: NDArray[np.int64]) -> NDArray[np.int64]:
    near = np.minimum(distances, 1 << 31)
    squares = (near * near) >> 30
    cubes = (squares * near) >> 30
    one, c = 1 << 24, _BICUBIC_C
    inner = (12 * one - 6 * c) * cubes + (-18 * one + 6 * c) * squares + (6 * one << 30)
    outer = -6 * c * cubes + 30 * c * squares - 48 * c * near + (24 * c << 30)
    return np.where(distances < 1 << 30, inner, np.where(distances < 1 << 31, outer, 0))


def _cut_negligible(
    positions: NDArray[np.int64], weights: NDArray[np.int64], limit: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Shortest filters, if weights that sum to ``limit`` may be cut off at either end."""
    size = weights.shape[1]
    positions, weights = positions.copy(), weights.copy()
    sums_from_left = np.abs(weights).cumsum(axis=1)
    shifts = (sums_from_left <= limit).sum(axis=1)
    for row in range(len(positions) - 2, -1, -1):  # positions must never run back, so each waits for the next
        shifts[row] = max(0, min(shifts[row], positions[row + 1] + shifts[row + 1] - positions[row]))
    taken = shifts[:, None] + np.arange(size)
    weights = np.where(taken < size, np.take_along_axis(weights, np.minimum(taken, size - 1), axis=1), 0)
    sums_from_right = np.abs(weights[:, ::-1]).cumsum(axis=1)
    needed = size - (sums_from_right[:, :-1] <= limit).sum(axis=1)
    return positions + shifts, weights[:, : int(needed.max())]


def _within(
    positions: NDArray[np.int64], weights: NDArray[np.int64], source: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same filters, with weights outside of the line moved to its first and last sample."""
    size = weights.shape[1]
    starts = np.clip(positions, 0, max(source - size, 0))
    moved = np.zeros_like(weights)
    rows = np.arange(len(positions))
    for tap in range(size):
        places = np.clip(positions + tap, 0, source - 1) - starts
        moved[rows, places] += weights[:, tap]
    return starts, moved


def _normalized(weights: NDArray[np.int64], one: int) -> NDArray[np.int64]:
    """Integers that sum to ``one``; each tap takes over the rounding error of the tap before it."""
    sums = np.maximum((weights.sum(axis=1) + one // 2) // one, 1)
    result = np.empty_like(weights)
    errors = np.zeros(len(weights), np.int64)
    for tap in range(weights.shape[1]):
        values = weights[:, tap] + errors
        result[:, tap] = np.sign(values) * ((np.abs(values) + (sums >> 1)) // sums)
        errors = values - result[:, tap] * sums
    return result


@lru_cache(maxsize=_MAX_CACHED_TAPS)
def compute_pair_taps(source: int, target: int, kernel: Kernel, bits: int) -> Taps:
    """The filter over single samples that equals one over averages of two neighbours; ``source`` is even."""
    taps = compute_taps(source // 2, target, kernel, bits)
    indices = np.stack((2 * taps.indices, 2 * taps.indices + 1), axis=-1)
    return Taps(indices.reshape(len(indices), -1), np.repeat(taps.weights, 2, axis=1), 2 * taps.one)


def resample(samples: Tensor, indices: Tensor, weights: Tensor, axis: int) -> Tensor:
    """Filter samples along axis 0 or 1; sums of int32 stay int32.

    Args:
        samples: (H, W) or (H, W, C).
        indices: int64 (target, taps).
        weights: (target, taps), of the type of the samples.
        axis: Along which the filters lie.

    Returns:
        A tensor with ``target`` samples along ``axis``.
    """
    target, num_taps = indices.shape
    taken = samples.index_select(axis, indices.reshape(-1))
    taken = taken.reshape(*samples.shape[:axis], target, num_taps, *samples.shape[axis + 1 :])
    weights = weights.reshape(target, num_taps, *[1] * (samples.dim() - axis - 1))
    return torch.sum(taken * weights, dim=axis + 1, dtype=samples.dtype)
