"""Planes to RGB, and RGB to another size, on any torch device, as libswscale does both on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ._colour import Arithmetic, Coefficients, DeepArithmetic, FullArithmetic, Layout, LineArithmetic, TableArithmetic

__all__ = ["CENTRE", "Components", "Kernel", "PlaneColours", "Taps", "compute_pair_taps", "compute_taps", "resample"]

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
    """The filter that makes ``target`` samples of ``source``; narrower targets widen the kernel (antialias).

    Args:
        source: Samples in the line, from 1.
        target: Samples wanted, from 1.
        kernel: ``"bilinear"``, or ``"bicubic"`` with B = 0 and C = 0.6.
        bits: The weights sum to 2**bits: 14 along lines, 12 across them.
        source_centre: Where in a source sample its value lies, in 1/256 of it.
        target_centre: Where in a target sample its value lies, in 1/256 of it.

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
    """Filters as short as they can be, if weights that sum to ``limit`` may be lost at either end."""
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
    """The same filters with what lies outside of the line given to its first and last sample."""
    size = weights.shape[1]
    starts = np.clip(positions, 0, max(source - size, 0))
    moved = np.zeros_like(weights)
    rows = np.arange(len(positions))
    for tap in range(size):
        places = np.clip(positions + tap, 0, source - 1) - starts
        moved[rows, places] += weights[:, tap]
    return starts, moved


def _normalized(weights: NDArray[np.int64], one: int) -> NDArray[np.int64]:
    """Integers that sum to ``one``, each tap taking over the rounding error of that before it."""
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
    """The filter over single samples that amounts to one over averages of two neighbours; ``source`` is even."""
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
        A tensor with ``target`` entries along ``axis``.
    """
    target, num_taps = indices.shape
    taken = samples.index_select(axis, indices.reshape(-1))
    taken = taken.reshape(*samples.shape[:axis], target, num_taps, *samples.shape[axis + 1 :])
    weights = weights.reshape(target, num_taps, *[1] * (samples.dim() - axis - 1))
    return torch.sum(taken * weights, dim=axis + 1, dtype=samples.dtype)


_ALONG_BITS, _ACROSS_BITS = 14, 12  # of the weights of libswscale's filters along and across lines
_MAX_CACHED_FILTERS = 64
_MAX_LEVEL = 256 - 1 / 2048  # what a kernel that overshoots may reach, once with 8 bits and 11 below them
_LUMA_WEIGHTS = (0.299, 0.587, 0.114)  # of the Y'CbCr by way of which libswscale scales RGB
# Where chroma lies among luma, in 1/256 of a luma sample to the right and down, by FFmpeg's number.
_CHROMA_OFFSETS = {1: (0, 128), 2: (128, 128), 3: (0, 0), 4: (128, 0), 5: (0, 256), 6: (128, 256)}


@dataclass(frozen=True, eq=False)
class Components:
    """The samples of a picture, and what they mean.

    Attributes:
        luma: (H, W), int32, of ``layout.bits`` bits.
        chroma: Cb and Cr, of the same type; none for gray.
        layout: Of the planes that they come from.
        coefficients: To R'G'B'.
        repeats_chroma: Whether libswscale has a fast conversion for the format, which repeats chroma.
        chroma_location: FFmpeg's number; 0 is the centre. libswscale heeds it only where it scales in the same pass.
    """

    luma: Tensor
    chroma: tuple[Tensor, ...]
    layout: Layout
    coefficients: Coefficients
    repeats_chroma: bool
    chroma_location: int = 0


class PlaneColours:
    """Converts and scales on one device; keeps the filters that it needs there.

    Args:
        device: On which all tensors lie.
        is_float: float32 in [0, 1] instead of uint8.
    """

    def __init__(self, device: torch.device, *, is_float: bool) -> None:
        self._device = device
        self._is_float = is_float
        self._filters: dict[Taps, tuple[Tensor, Tensor]] = {}

    def to_rgb(self, picture: Components, size: tuple[int, int] | None = None) -> Tensor:
        """RGB of luma and chroma.

        Args:
            picture: Of any size.
            size: (height, width) to scale to in the same pass, bilinear.

        Returns:
            (height, width, 3), uint8 or float32.
        """
        height, width = size or picture.luma.shape
        coefficients, shift = picture.coefficients, picture.layout.chroma_shift
        samples = (picture.luma, *picture.chroma)
        if picture.repeats_chroma and height % 2 == 0 and (height, width) == picture.luma.shape:
            fast = TableArithmetic(coefficients, is_float=True) if self._is_float else LineArithmetic(coefficients)
            return _merged(fast, samples, shift)
        # RGB of an even width shares chroma between two pixels, unless the source has it for each.
        in_pairs = shift != (0, 0) and width % 2 == 0
        filters = _filters(picture, height, width, in_pairs=in_pairs, kernel="bilinear" if size else "bicubic")
        scaled = [self._scaled(s, picture.layout.bits, *f) for s, f in zip(samples, filters, strict=True)]
        if self._is_float:
            return _merged(DeepArithmetic(coefficients), scaled, (int(in_pairs), 0))
        # Sums of 15 bits times 12. Where all are of two lines, libswscale cuts off what it rounds otherwise.
        cuts_off = bool(picture.chroma) and all(across.weights.shape[1] == 2 for _, across in filters)
        if not in_pairs:
            scaled = [(s if cuts_off else s + (1 << 9)) >> 10 for s in scaled]
            return _merged(FullArithmetic(coefficients), scaled, (0, 0))
        luma, *chroma = [(s if cuts_off else s + (1 << 18)) >> 19 for s in scaled]
        chroma = [c.clamp_(0, 255) for c in chroma]  # the tables hold no more, but luma goes beyond
        return _merged(TableArithmetic(coefficients, is_float=False), (luma, *chroma), (1, 0))

    def resized(self, rgb: Tensor, height: int, width: int) -> Tensor:
        """RGB (H, W, 3) scaled, bilinear with antialias.

        libswscale scales RGB by way of Y'CbCr. Where the result is half as wide or less, it takes the chroma of two
        pixels together before that, unless they do not come out even.
        """
        source_height, source_width = rgb.shape[:2]
        values = rgb.to(torch.float32)
        values = self._filtered(values, compute_taps(source_height, height, "bilinear", _ACROSS_BITS), 0)
        scaled = self._filtered(values, compute_taps(source_width, width, "bilinear", _ALONG_BITS), 1)
        if width <= source_width // 2 and source_width % 2 == 0:
            in_pairs = self._filtered(values, compute_pair_taps(source_width, width, "bilinear", _ALONG_BITS), 1)
            scaled = in_pairs + _luma_of(scaled - in_pairs)
        if self._is_float:
            return scaled.clamp(0, 1)
        return (scaled + 0.5).clamp_(0, 255).to(torch.uint8)

    def _scaled(self, samples: Tensor, bits: int, along: Taps, across: Taps) -> Tensor:
        """Samples in another size: float32 levels, or int32 levels times 2**19."""
        if self._is_float:
            values = self._filtered(samples.to(torch.float32) * 2.0 ** (8 - bits), along, 1)
            return self._filtered(values.clamp_(max=_MAX_LEVEL), across, 0)
        values = (self._filtered(samples, along, 1) >> (bits - 1)).clamp_(max=(1 << 15) - 1)
        return self._filtered(values, across, 0)

    def _filtered(self, values: Tensor, taps: Taps, axis: int) -> Tensor:
        """float32 filtered; int32 filtered and times ``taps.one``."""
        is_integer = values.dtype == torch.int32
        if taps.is_identity:
            return values * taps.one if is_integer else values
        if taps not in self._filters:
            if len(self._filters) >= _MAX_CACHED_FILTERS:
                self._filters.clear()
            indices, weights = torch.from_numpy(taps.indices), torch.from_numpy(taps.weights)
            self._filters[taps] = indices.to(self._device), weights.to(self._device)
        indices, weights = self._filters[taps]
        if self._device.type == "cuda":  # they may be dropped while another stream than that of their making reads them
            for tensor in (indices, weights):
                tensor.record_stream(torch.cuda.current_stream(self._device))
        filtered = resample(values, indices, weights.to(values.dtype), axis)
        return filtered if is_integer else filtered.div_(taps.one)


def _filters(
    picture: Components, height: int, width: int, *, in_pairs: bool, kernel: Kernel
) -> list[tuple[Taps, Taps]]:
    """Along and across lines, for luma and for each component of chroma."""
    luma_height, luma_width = picture.luma.shape
    along = compute_taps(luma_width, width, kernel, _ALONG_BITS)
    filters = [(along, compute_taps(luma_height, height, kernel, _ACROSS_BITS))]
    if not picture.chroma:
        return filters
    chroma_height, chroma_width = picture.chroma[0].shape
    x_centre, y_centre = _chroma_centre(picture) if kernel == "bilinear" else (CENTRE, CENTRE)
    along = compute_taps(chroma_width, width // 2 if in_pairs else width, kernel, _ALONG_BITS, x_centre)
    across = compute_taps(chroma_height, height, kernel, _ACROSS_BITS, y_centre)
    return filters + [(along, across)] * 2


def _chroma_centre(picture: Components) -> tuple[int, int]:
    """Where chroma lies in the part of the picture that it stands for, in 1/256 of that."""
    x_shift, y_shift = picture.layout.chroma_shift or (0, 0)
    x, y = _CHROMA_OFFSETS.get(picture.chroma_location, (128, 128))
    return (x + 128) >> 1 if x_shift else CENTRE, (y + 128) >> 1 if y_shift else CENTRE


def _luma_of(rgb: Tensor) -> Tensor:
    red, green, blue = (weight * rgb[..., channel] for channel, weight in enumerate(_LUMA_WEIGHTS))
    return (red + green + blue).unsqueeze(-1)


def _merged(arithmetic: Arithmetic, samples: Sequence[Tensor], chroma_shift: tuple[int, int] | None) -> Tensor:
    """RGB of luma, and of chroma repeated to its size."""
    luma, *chroma = samples
    height, width = luma.shape
    luma = arithmetic.luma_term(luma)
    if not chroma:
        return arithmetic.combined(luma, 0).unsqueeze(-1).expand(height, width, 3)
    across, down = chroma_shift or (0, 0)
    components = []
    for term in arithmetic.chroma_terms(*chroma):
        repeated = _twice(term, 0) if down else term
        repeated = _twice(repeated, 1) if across else repeated
        components.append(arithmetic.combined(luma, repeated[:height, :width]))
    return torch.stack(components, dim=-1)


def _twice(samples: Tensor, axis: int) -> Tensor:
    """Every line or every column two times."""
    return torch.stack((samples, samples), dim=axis + 1).flatten(axis, axis + 1)
