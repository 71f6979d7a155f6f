"""Convert Y'CbCr to R'G'B' on tensors, with the same integer arithmetic as libswscale, and scale pictures."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._engine.common.locks import cached_property

_SUBSAMPLING = {"420": (1, 1), "422": (1, 0), "444": (0, 0), "440": (0, 1)}
_INTERLEAVED = {"nv12": (8, 0), "p010le": (10, 6), "p012le": (12, 4), "p016le": (16, 0)}
_PLANAR = re.compile(r"yuv(?P<full>j)?(?P<subsampling>420|422|444|440)p(?P<bits>9|10|12|14|16)?(?(bits)le|)")

_BT601 = (0.299, 0.114)
# K_R and K_B by matrix number in H.273. libswscale treats all other matrices as BT.601.
_LUMINANCE_WEIGHTS = {
    1: (0.2126, 0.0722),
    4: (0.30, 0.11),
    7: (0.212, 0.087),
    9: (0.2627, 0.0593),
    10: (0.2627, 0.0593),
}


@dataclass(frozen=True)
class Layout:
    """The layout of the planes of a pixel format.

    Attributes:
        bits: Number of bits that a sample has.
        shift: Number of unused low bits in the integer that stores a sample.
        chroma_shift: Horizontal and vertical chroma subsampling as powers of two (log2); ``None`` for gray.
        is_interleaved: Whether both chroma components are in one plane.
        is_full_range: Whether videos in this format always have full range, as in yuvj420p.
    """

    bits: int
    shift: int = 0
    chroma_shift: tuple[int, int] | None = None
    is_interleaved: bool = False
    is_full_range: bool = False


def layout_of(pixel_format: str) -> Layout | None:
    """Return the layout of the format that FFmpeg calls ``pixel_format``; ``None`` if it is not supported."""
    if pixel_format == "gray":
        return Layout(8, is_full_range=True)
    if pixel_format in _INTERLEAVED:
        bits, shift = _INTERLEAVED[pixel_format]
        return Layout(bits, shift, (1, 1), is_interleaved=True)
    match = _PLANAR.fullmatch(pixel_format)
    if match is None or (match["full"] and match["bits"]):
        return None
    return Layout(int(match["bits"] or 8), 0, _SUBSAMPLING[match["subsampling"]], is_full_range=bool(match["full"]))


@dataclass(frozen=True)
class Coefficients:
    """The factors that convert 8-bit Y'CbCr to R'G'B', in units of 1/65536.

    ``black`` is the luma value of black, ``y`` the factor of luma, ``red_v`` the factor of Cr in red, ``green_u`` the
    factor of Cb in green, and so on. The factors in green are negative.
    """

    y: int
    black: int
    red_v: int
    green_u: int
    green_v: int
    blue_u: int


def coefficients_of(matrix: int, *, is_full_range: bool) -> Coefficients:
    """Return the coefficients for the colour matrix that has the number ``matrix`` in H.273.

    >>> coefficients_of(1, is_full_range=True).red_v / 65536  # 2 (1 - K_R)
    1.574798583984375
    """
    k_r, k_b = _LUMINANCE_WEIGHTS.get(matrix, _BT601)
    scale = 65536 * 255 / 224
    gains = (
        2 * (1 - k_r),
        -2 * k_b * (1 - k_b) / (1 - k_r - k_b),
        -2 * k_r * (1 - k_r) / (1 - k_r - k_b),
        2 * (1 - k_b),
    )
    limited = [round(gain * scale) for gain in gains]
    if is_full_range:
        return Coefficients(1 << 16, 0, *(int(gain * 224 / 255) for gain in limited))
    return Coefficients((255 << 16) // 219, 16 << 16, *limited)


class Arithmetic(ABC):
    """One way to compute R'G'B' from luma and chroma. Each subclass rounds like one of libswscale's conversions.

    Red, green and blue are each the sum of a luma term, which is the same for all three, and a chroma term.
    """

    def __init__(self, coefficients: Coefficients) -> None:
        self._coefficients = coefficients

    def chroma_terms(self, cb: Tensor, cr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the chroma terms of red, green and blue."""
        c, cb, cr = self._coefficients, self._centred(cb), self._centred(cr)
        green = self._times(cb, c.green_u) + self._times(cr, c.green_v)
        return self._times(cr, c.red_v), green, self._times(cb, c.blue_u)

    @abstractmethod
    def _centred(self, chroma: Tensor) -> Tensor:
        """Subtract the chroma value of gray."""

    @abstractmethod
    def _times(self, chroma: Tensor, gain: int) -> Tensor: ...

    @abstractmethod
    def luma_term(self, luma: Tensor) -> Tensor: ...

    @abstractmethod
    def combined(self, luma: Tensor, chroma: Tensor | int) -> Tensor:
        """Return one colour, the sum of its luma and chroma terms, as uint8, or as float32 in [0, 1]."""


class LineArithmetic(Arithmetic):
    """libswscale's fast conversion of 8-bit pictures to 8-bit RGB.

    Neighbouring pixels use the same chroma sample, without interpolation. Every product is rounded down. Samples are
    int32 in [0, 255]. Results are up to 3 levels below the exact result.
    """

    def _centred(self, chroma: Tensor) -> Tensor:
        return chroma * 8 - 1024

    def _times(self, chroma: Tensor, gain: int) -> Tensor:
        """Multiply two 16-bit numbers, and return the upper 16 bits of the product."""
        return (chroma * _rounded(gain, 13)) >> 16

    def luma_term(self, luma: Tensor) -> Tensor:
        c = self._coefficients
        return self._times(luma * 8 - _rounded(c.black, 3), c.y)

    def combined(self, luma: Tensor, chroma: Tensor | int) -> Tensor:
        return (luma + chroma).clamp_(0, 255).to(torch.uint8)


class TableArithmetic(Arithmetic):
    """libswscale's conversion to 8-bit RGB with a lookup table.

    The position in the table is luma plus an integer that depends on chroma. Samples are int32 in [0, 255]. Results are
    within 3 levels of the exact result. With ``is_float``, the same 256 levels are returned as float32 in [0, 1]
    instead of uint8.
    """

    def __init__(self, coefficients: Coefficients, *, is_float: bool) -> None:
        super().__init__(coefficients)
        self._is_float = is_float
        # The table starts 384 levels below zero. In it, a luma of 0 has a fixed index.
        place = 326 if coefficients.black else 384
        self._offset = place * coefficients.y - (384 << 16) - coefficients.black + 0x8000

    def _centred(self, chroma: Tensor) -> Tensor:
        return chroma

    def _times(self, chroma: Tensor, gain: int) -> Tensor:
        numerator = (gain << 16) + 0x8000
        in_luma = abs(numerator) // self._coefficients.y * (1 if numerator >= 0 else -1)  # towards zero, as in C
        return ((chroma * in_luma) >> 16) - (in_luma >> 9)

    def luma_term(self, luma: Tensor) -> Tensor:
        return luma

    def combined(self, luma: Tensor, chroma: Tensor | int) -> Tensor:
        levels = (((luma + chroma) * self._coefficients.y + self._offset) >> 16).clamp_(0, 255)
        return levels.to(torch.float32) / 255 if self._is_float else levels.to(torch.uint8)


class FullArithmetic(Arithmetic):
    """libswscale's conversion to 8-bit RGB if each pixel has its own chroma sample.

    Samples are int32 in units of 1/512 level, in [0, 255 * 512]. Results are within 1 level of the exact result.
    However, colours far outside R'G'B' overflow 32 bits and become 0, as in libswscale.
    """

    def _centred(self, chroma: Tensor) -> Tensor:
        return chroma - (128 << 9)

    def _times(self, chroma: Tensor, gain: int) -> Tensor:
        return chroma * _rounded(gain, 13)

    def luma_term(self, luma: Tensor) -> Tensor:
        c = self._coefficients
        return self._times(luma - _rounded(c.black, 9), c.y) + (1 << 21)

    def combined(self, luma: Tensor, chroma: Tensor | int) -> Tensor:
        return ((luma + chroma) >> 22).clamp_(0, 255).to(torch.uint8)


class DeepArithmetic(Arithmetic):
    """libswscale's conversion to 16-bit RGB, computed in floating point. White is 255 * 256 / 65535.

    Samples are float32 in levels, in [0, 255]. Results are within 1/65535 of libswscale's results.
    """

    def _centred(self, chroma: Tensor) -> Tensor:
        return chroma - 128

    def _times(self, chroma: Tensor, gain: int) -> Tensor:
        return chroma * (_rounded(gain, 13) / (1 << 13) * 256 / 65535)

    def luma_term(self, luma: Tensor) -> Tensor:
        c = self._coefficients
        return self._times(luma - c.black / 65536, c.y)

    def combined(self, luma: Tensor, chroma: Tensor | int) -> Tensor:
        return (luma + chroma).clamp_(0, 1)


def _rounded(value: int, bits: int) -> int:
    """Convert a coefficient from units of 1/65536 to units of 1/2**bits."""
    return (value * (1 << bits) + 0x8000) >> 16


Kernel = Literal["bilinear", "bicubic"]

CENTRE = 128  # centre of a sample in 1/256: position of luma, and by default of chroma

_NEGLIGIBLE = 0.002  # maximum weight to cut off at either end of a filter
_BICUBIC_C = int(0.6 * (1 << 24))  # parameter C of the cubics of Mitchell and Netravali (1988); B is 0
_MAX_CACHED_TAPS = 128


@dataclass(frozen=True, eq=False)
class Taps:
    """The filters that scale a line of samples to another length: each target sample is a weighted sum of samples.

    Attributes:
        indices: For each target sample, the indices of its source samples, int64 (target, taps).
        weights: The weights of these source samples, int32 (target, taps).
        one: The sum of the weights of each target sample.
    """

    indices: NDArray[np.int64]
    weights: NDArray[np.int32]
    one: int

    @cached_property
    def is_identity(self) -> bool:
        """Whether every target sample equals the source sample at the same index."""
        positions = self.indices[:, 0]
        return self.indices.shape[1] == 1 and bool((positions == np.arange(len(positions))).all())


@lru_cache(maxsize=_MAX_CACHED_TAPS)
def compute_taps(source: int, target: int, kernel: Kernel, bits: int, source_centre: int = CENTRE) -> Taps:
    """Return the filters that scale a line to ``target`` samples. For downscaling, the kernel is widened.

    Args:
        source, target: Numbers of samples in a line before and after scaling, at least 1.
        kernel: ``"bilinear"``, or ``"bicubic"`` (the cubics of Mitchell and Netravali with B = 0 and C = 0.6).
        bits: The weights of a target sample add up to 2**bits. libswscale uses 14 bits along lines and 12 across lines.
        source_centre: The point of a source sample where its value was measured, in 1/256 of the sample's width. 128
            is the centre, where the values of target samples are.

    >>> compute_taps(4, 8, "bilinear", 12).weights[:4].tolist()
    [[4096, 0], [3072, 1024], [1024, 3072], [3072, 1024]]
    """
    step = ((source << 16) + (target >> 1)) // target
    one = 1 << 54 - min(max(source // target, 1).bit_length() - 1, 8)  # prevents overflow of 64 bits with many taps
    if abs(step - 0x10000) < 10 and source_centre == CENTRE:
        positions, weights = np.arange(target), np.full((target, 1), one)
    else:
        positions, weights = _kernel_weights(source, target, step, kernel, source_centre)
        weights //= (1 << 54) // one
    positions, weights = _within(*_cut_negligible(positions, weights, _NEGLIGIBLE * one), source)
    indices = np.minimum(positions[:, None] + np.arange(weights.shape[1]), source - 1)
    return Taps(indices, _normalized(weights, 1 << bits).astype(np.int32), 1 << bits)


def _kernel_weights(
    source: int, target: int, step: int, kernel: Kernel, source_centre: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each target sample, return the index of its first source sample, and its weights.

    The shapes are (target,) and (target, taps). The weights are in units of 1/2**54. Negligible weights are not cut off
    yet, and indices can be outside the line.
    """
    support = 4 if kernel == "bicubic" else 2
    size = 1 + support if step <= 1 << 16 else 1 + (support * source + target - 1) // target
    size = max(1, min(size, source - 2))
    # Position of the centre of each target sample in the source, doubled.
    centres = ((CENTRE * step) >> 7) - ((source_centre << 16) >> 7) + 2 * step * np.arange(target)
    numerators = centres - ((size - 2) << 16)
    positions = np.sign(numerators) * (np.abs(numerators) >> 17)  # towards zero, as in C
    distances = np.abs(((positions[:, None] + np.arange(size)) << 17) - centres[:, None]) << 13
    if step > 1 << 16:
        distances = distances * target // source
    return positions, _bicubic(distances) if kernel == "bicubic" else np.maximum((1 << 30) - distances, 0) << 24


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
    """Shorten the filters. At each end of a filter, cut off the weights whose sum is at most ``limit``."""
    size = weights.shape[1]
    positions, weights = positions.copy(), weights.copy()
    sums_from_left = np.abs(weights).cumsum(axis=1)
    shifts = (sums_from_left <= limit).sum(axis=1)
    for row in range(len(positions) - 2, -1, -1):  # positions must not decrease, so each row depends on the next
        shifts[row] = max(0, min(shifts[row], positions[row + 1] + shifts[row + 1] - positions[row]))
    taken = shifts[:, None] + np.arange(size)
    weights = np.where(taken < size, np.take_along_axis(weights, np.minimum(taken, size - 1), axis=1), 0)
    sums_from_right = np.abs(weights[:, ::-1]).cumsum(axis=1)
    needed = size - (sums_from_right[:, :-1] <= limit).sum(axis=1)
    return positions + shifts, weights[:, : int(needed.max())]


def _within(
    positions: NDArray[np.int64], weights: NDArray[np.int64], source: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Add the weights of source samples outside the line to the weight of the first or the last sample of the line."""
    size = weights.shape[1]
    starts = np.clip(positions, 0, max(source - size, 0))
    moved = np.zeros_like(weights)
    rows = np.arange(len(positions))
    for tap in range(size):
        places = np.clip(positions + tap, 0, source - 1) - starts
        moved[rows, places] += weights[:, tap]
    return starts, moved


def _normalized(weights: NDArray[np.int64], one: int) -> NDArray[np.int64]:
    """Scale the weights of each target sample to integers whose sum is ``one``.

    The rounding error of each weight is carried over to the next one.
    """
    sums = np.maximum((weights.sum(axis=1) + one // 2) // one, 1)
    result = np.empty_like(weights)
    errors = np.zeros(len(weights), np.int64)
    for tap in range(weights.shape[1]):
        values = weights[:, tap] + errors
        result[:, tap] = np.sign(values) * ((np.abs(values) + (sums >> 1)) // sums)
        errors = values - result[:, tap] * sums
    return result


@lru_cache(maxsize=_MAX_CACHED_TAPS)
def compute_pair_taps(source: int, target: int, bits: int) -> Taps:
    """Return bilinear filters that average each pair of neighbouring samples and then scale the line, in one step.

    ``source`` must be even.
    """
    taps = compute_taps(source // 2, target, "bilinear", bits)
    indices = np.stack((2 * taps.indices, 2 * taps.indices + 1), axis=-1)
    return Taps(indices.reshape(len(indices), -1), np.repeat(taps.weights, 2, axis=1), 2 * taps.one)


def resample(samples: Tensor, indices: Tensor, weights: Tensor, axis: int) -> Tensor:
    """Filter samples (H, W) or (H, W, C) along axis 0 or 1.

    ``indices`` and ``weights`` (target, taps) come from `Taps`. Samples, weights and the result have the same dtype.
    """
    target, num_taps = indices.shape
    taken = samples.index_select(axis, indices.reshape(-1))
    taken = taken.reshape(*samples.shape[:axis], target, num_taps, *samples.shape[axis + 1 :])
    weights = weights.reshape(target, num_taps, *[1] * (samples.dim() - axis - 1))
    return torch.sum(taken * weights, dim=axis + 1, dtype=samples.dtype)
