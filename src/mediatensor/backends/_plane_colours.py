"""Planes to RGB, and RGB to another size, on any torch device, as libswscale does both on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ._colour import (
    Arithmetic,
    Coefficients,
    DeepArithmetic,
    FullArithmetic,
    Layout,
    LineArithmetic,
    TableArithmetic,
)
from ._scaling import CENTRE, Kernel, Taps, compute_pair_taps, compute_taps, resample

__all__ = ["Components", "PlaneColours"]

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
