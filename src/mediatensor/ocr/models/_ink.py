"""The ink of many lines at once, where their pictures are: on a device only bits leave it, not pictures."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ._line_words import INK_CONTRAST, LEAST_CONTRAST, STRONG_PERCENTILE, ink_map

__all__ = ["ink_of_line", "inks_of_lines"]

BITS = (1, 2, 4, 8, 16, 32, 64, 128)


def inks_of_lines(pictures: Tensor) -> Tensor:
    """Which pixels of lines are ink, see :func:`~mediatensor.ocr.models._line_words.ink_map`, for :func:`ink_of_line`.

    Args:
        pictures: RGB in [0, 1], (N, 3, H, W), NaN right of a line's picture; W a multiple of 8.

    Returns:
        On the CPU bool (N, H, W); on another device uint8 (N, H, W / 8), a bit for each pixel.
    """
    grays = pictures.mean(1)
    if grays.device.type != "cpu":
        return _packed(_inked(grays))
    inks = torch.zeros(grays.shape, dtype=torch.bool)
    for gray, ink in zip(grays.numpy(), inks.numpy(), strict=True):
        width = int((~np.isnan(gray[0])).sum())
        ink[:, :width] = ink_map(gray[:, :width])
    return inks


def ink_of_line(inks: npt.NDArray[np.generic], position: int, width: int) -> npt.NDArray[np.bool_]:
    """That of one line.

    Args:
        inks: Of :func:`inks_of_lines`, as an array.
        position: Which line.
        width: Columns of its picture.

    Returns:
        bool (H, width).
    """
    own = inks[position]
    bits = own if own.dtype == np.bool_ else np.unpackbits(own.astype(np.uint8), axis=1, bitorder="little")
    line: npt.NDArray[np.bool_] = bits[:, :width].astype(bool)
    return line


def _inked(grays: Tensor) -> Tensor:
    """What ``ink_map`` computes, for lines of all widths at once: order statistics are taken from sorted values."""
    rows, columns = grays.shape[1:]
    flat = grays.flatten(1)
    # As floats, which all devices have and which are exact so far.
    number = flat.isnan().logical_not_().sum(1, keepdim=True).float()
    levels = flat.sort(1).values
    middle = (_at(levels, ((number - 1) / 2).floor()) + _at(levels, (number / 2).floor())) / 2
    contrasts = (flat - middle).abs()
    ordered = contrasts.sort(1).values
    place = (number - 1) * (STRONG_PERCENTILE / 100)
    below, above = _at(ordered, place.floor()), _at(ordered, place.ceil())
    loud = below + (above - below) * (place - place.floor())
    return (contrasts > (loud * INK_CONTRAST).clamp(min=LEAST_CONTRAST)).view(-1, rows, columns)


def _at(ordered: Tensor, places: Tensor) -> Tensor:
    return ordered.gather(1, places.long())


def _packed(inks: Tensor) -> Tensor:
    """Bool (N, H, W) as uint8 (N, H, W / 8), the first pixel in the lowest bit."""
    packed = torch.zeros((*inks.shape[:2], inks.shape[2] // 8), dtype=torch.uint8, device=inks.device)
    for place, bit in enumerate(BITS):
        packed += inks[..., place::8].to(torch.uint8) * bit
    return packed
