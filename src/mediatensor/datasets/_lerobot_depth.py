"""Depth maps of LeRobot datasets: codes of 12 bits in videos, and images in tables, as depths."""

from __future__ import annotations

import io
import math
import os
from contextlib import closing
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import TiffImagePlugin
from torch import Tensor

from .._engine.common.limits import check_pixels
from .._engine.images.decoding import MAX_PIXELS
from .._engine.sources.source import Source, make_source
from ..decoders import decode_image
from ..errors import DecodeError, MediaTensorError
from ._sources.lerobot import DepthScale

__all__ = ["NUM_DEPTH_BITS", "DepthUnit", "depth_image", "depths_of_codes", "in_unit"]

DepthUnit = Literal["m", "mm"]

#: Bits of a code, of which LeRobot has one kind.
NUM_DEPTH_BITS = 12
_MM_PER_METRE = 1000.0
#: Millimetres are those of 16 bits.
_GREATEST_MM = 65535.0
_TIFF_STARTS = (b"II*\0", b"MM\0*")


def depths_of_codes(codes: Tensor, scale: DepthScale, unit: DepthUnit) -> Tensor:
    """Return the depths that codes stand for.

    Args:
        codes: uint16, of any shape, on the CPU.
        scale: How depths were made codes.
        unit: Metres, or whole millimetres.

    Returns:
        float32, of the same shape.
    """
    return torch.from_numpy(_levels(scale, unit)[codes.numpy()])


@lru_cache(maxsize=64)
def _levels(scale: DepthScale, unit: DepthUnit) -> NDArray[np.float32]:
    """The depth of each code, float32 (4096,)."""
    # In the order of LeRobot's own operations, in float32, so that the results are the same bits.
    levels = torch.arange(1 << NUM_DEPTH_BITS, dtype=torch.float32)
    first, last = scale.least, scale.greatest
    if scale.is_logarithmic:
        first, last = math.log(first + scale.shift), math.log(last + scale.shift)
    levels.mul_((last - first) / (len(levels) - 1)).add_(first)
    if scale.is_logarithmic:
        levels.exp_().sub_(scale.shift)
    levels.clamp_(scale.least, scale.greatest)
    if unit == "mm":
        levels.mul_(_MM_PER_METRE).round_().clamp_(0.0, _GREATEST_MM)
    return levels.numpy()


def depth_image(source: bytes | Source) -> Tensor:
    """Decode an image of depths: a TIFF of 16-bit numbers or of floats, or a PNG.

    Args:
        source: The file, in memory or as a part of a table.

    Returns:
        Its numbers as they are stored, float32 (1, H, W).

    Raises:
        MediaTensorError: if it is damaged, no such image, or larger than `MAX_PIXELS`.
    """
    place = make_source(source)
    reader = place.open_bytes() or place.open()
    assert not isinstance(reader, str)  # neither bytes nor a part of a file has a name
    with closing(reader):
        data = reader.read_at(0, reader.seek(0, os.SEEK_END))
    if not data.startswith(_TIFF_STARTS):
        return decode_image(data, mode="GRAY", output_dtype="auto").to(torch.float32)
    try:
        image = TiffImagePlugin.TiffImageFile(io.BytesIO(data))
        check_pixels(image.width, image.height, MAX_PIXELS)
        numbers = np.asarray(image, np.float32)
    except MediaTensorError:
        raise
    except Exception as error:  # whatever Pillow raises for a damaged file
        raise DecodeError(f"A depth map could not be decoded: {error or type(error).__name__}.") from error
    if numbers.ndim != 2:
        raise DecodeError(f"A depth map must have one channel (its mode is {image.mode}).")
    return torch.from_numpy(numbers.copy())[None]


def in_unit(depths: Tensor, stored: str | None, wanted: DepthUnit) -> Tensor:
    """Return depths in another unit; those of no known unit as they are."""
    if stored == wanted or stored is None:
        return depths
    return depths * _MM_PER_METRE if wanted == "mm" else depths / _MM_PER_METRE
