"""Conversion of Y'CbCr to R'G'B': layouts of planes, coefficients, and libswscale's integer arithmetic on tensors.

libswscale converts in several ways, which round differently; there is a class for each. Coefficients follow from the
luminance weights of ITU-T H.273, table 4.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "Arithmetic",
    "Coefficients",
    "DeepArithmetic",
    "FullArithmetic",
    "Layout",
    "LineArithmetic",
    "TableArithmetic",
    "coefficients_of",
    "layout_of",
]

_SUBSAMPLING = {"420": (1, 1), "422": (1, 0), "444": (0, 0), "440": (0, 1)}
_INTERLEAVED = {"nv12": (8, 0), "p010le": (10, 6), "p012le": (12, 4), "p016le": (16, 0)}
_PLANAR = re.compile(r"yuv(?P<full>j)?(?P<subsampling>420|422|444|440)p(?P<bits>9|10|12|14|16)?(?(bits)le|)")

_BT601 = (0.299, 0.114)
# K_R and K_B by the number of the matrix; libswscale treats all other matrices as BT.601.
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
        bits: Used bits of a sample.
        shift: Unused bits below the used ones.
        chroma_shift: How often the width and the height of chroma are halved; ``None`` for gray.
        is_interleaved: Whether both chroma components are in one plane.
        is_full_range: Whether the format itself implies full range.
    """

    bits: int
    shift: int = 0
    chroma_shift: tuple[int, int] | None = None
    is_interleaved: bool = False
    is_full_range: bool = False


def layout_of(pixel_format: str) -> Layout | None:
    """The layout of a pixel format by FFmpeg's name; ``None`` if the format is unknown.

    >>> layout_of("yuvj422p")
    Layout(bits=8, shift=0, chroma_shift=(1, 0), is_interleaved=False, is_full_range=True)
    """
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
    """The coefficients that convert 8-bit Y'CbCr to R'G'B', in units of 1/65536.

    Attributes:
        y: Gain of luma.
        black: The luma of black, times 65536.
        red_v: Gain of Cr in red.
        green_u: Gain of Cb in green, negative.
        green_v: Gain of Cr in green, negative.
        blue_u: Gain of Cb in blue.
    """

    y: int
    black: int
    red_v: int
    green_u: int
    green_v: int
    blue_u: int


def coefficients_of(matrix: int, *, is_full_range: bool) -> Coefficients:
    """The coefficients of a matrix by its number in H.273.

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
    """One way of computing R'G'B' from luma and chroma.

    Args:
        coefficients: The coefficients of the matrix and the range.
    """

    def __init__(self, coefficients: Coefficients) -> None:
        self._coefficients = coefficients

    @abstractmethod
    def chroma_terms(self, cb: Tensor, cr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The contributions of chroma to red, green and blue, in the unit of `combined`."""

    @abstractmethod
    def luma_term(self, luma: Tensor) -> Tensor:
        """The contribution of luma to all three components."""

    @abstractmethod
    def combined(self, luma: Tensor, chroma: Tensor | int) -> Tensor:
        """One component of the result: uint8, or float32 in [0, 1]."""


class LineArithmetic(Arithmetic):
    """libswscale's fast conversion to 8 bits of 8-bit pictures with repeated chroma: every product is rounded down.

    Samples are int32 in [0, 255]. Results lie up to 3 levels below the exact ones.
    """

    def chroma_terms(self, cb: Tensor, cr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        c = self._coefficients
        cb, cr = cb * 8 - 1024, cr * 8 - 1024
        red, blue = _product(cr, c.red_v), _product(cb, c.blue_u)
        return red, _product(cb, c.green_u) + _product(cr, c.green_v), blue

    def luma_term(self, luma: Tensor) -> Tensor:
        c = self._coefficients
        return _product(luma * 8 - _rounded(c.black, 3), c.y)

    def combined(self, luma: Tensor, chroma: Tensor | int) -> Tensor:
        return (luma + chroma).clamp_(0, 255).to(torch.uint8)


class TableArithmetic(Arithmetic):
    """libswscale's tables for 8 bits: chroma moves the luma by whole steps.

    Samples are int32 in [0, 255]. Results lie up to 3 levels from the exact ones.

    Args:
        coefficients: Of the matrix and the range.
        is_float: float32 in [0, 1] instead of uint8; there are still 256 values.
    """

    def __init__(self, coefficients: Coefficients, *, is_float: bool) -> None:
        super().__init__(coefficients)
        self._is_float = is_float
        # The table begins 384 levels below zero, and luma of 0 is looked up at a fixed place of it.
        place = 326 if coefficients.black else 384
        self._offset = place * coefficients.y - (384 << 16) - coefficients.black + 0x8000

    def chroma_terms(self, cb: Tensor, cr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        c = self._coefficients
        return (
            self._steps(cr, c.red_v),
            self._steps(cb, c.green_u) + self._steps(cr, c.green_v),
            self._steps(cb, c.blue_u),
        )

    def _steps(self, chroma: Tensor, gain: int) -> Tensor:
        numerator = (gain << 16) + 0x8000
        in_luma = abs(numerator) // self._coefficients.y * (1 if numerator >= 0 else -1)  # as C divides: towards zero
        return ((chroma * in_luma) >> 16) - (in_luma >> 9)

    def luma_term(self, luma: Tensor) -> Tensor:
        return luma

    def combined(self, luma: Tensor, chroma: Tensor | int) -> Tensor:
        levels = (((luma + chroma) * self._coefficients.y + self._offset) >> 16).clamp_(0, 255)
        return levels.to(torch.float32) / 255 if self._is_float else levels.to(torch.uint8)


class FullArithmetic(Arithmetic):
    """libswscale's conversion for 8 bits where every pixel has its own chroma.

    Samples are int32 in 1/512 of a level, in [0, 255 * 512]. Results lie up to 1 level from the exact ones, except
    that a colour far outside of R'G'B' leaves 32 bits in libswscale, and so here, and comes out as 0.
    """

    def chroma_terms(self, cb: Tensor, cr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        c = self._coefficients
        cb, cr = cb - (128 << 9), cr - (128 << 9)
        green = cb * _rounded(c.green_u, 13) + cr * _rounded(c.green_v, 13)
        return cr * _rounded(c.red_v, 13), green, cb * _rounded(c.blue_u, 13)

    def luma_term(self, luma: Tensor) -> Tensor:
        c = self._coefficients
        return (luma - _rounded(c.black, 9)) * _rounded(c.y, 13) + (1 << 21)

    def combined(self, luma: Tensor, chroma: Tensor | int) -> Tensor:
        return ((luma + chroma) >> 22).clamp_(0, 255).to(torch.uint8)


class DeepArithmetic(Arithmetic):
    """libswscale's conversion to 16 bits, in floating point; white is 65280 / 65535.

    Samples are float32 in levels, [0, 255]. Results lie within 1/65535 of libswscale's.
    """

    def chroma_terms(self, cb: Tensor, cr: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        c = self._coefficients
        cb, cr = cb - 128, cr - 128
        return (
            cr * self._gain(c.red_v),
            cb * self._gain(c.green_u) + cr * self._gain(c.green_v),
            cb * self._gain(c.blue_u),
        )

    def luma_term(self, luma: Tensor) -> Tensor:
        c = self._coefficients
        return (luma - c.black / 65536) * self._gain(c.y)

    def combined(self, luma: Tensor, chroma: Tensor | int) -> Tensor:
        return (luma + chroma).clamp_(0, 1)

    @staticmethod
    def _gain(value: int) -> float:
        return _rounded(value, 13) / (1 << 13) * 256 / 65535


def _product(samples: Tensor, gain: int) -> Tensor:
    """The upper half of a product of 16 bits by 16."""
    return (samples * _rounded(gain, 13)) >> 16


def _rounded(value: int, bits: int) -> int:
    """A coefficient in 1/65536 in 1/2**bits."""
    return (value * (1 << bits) + 0x8000) >> 16
