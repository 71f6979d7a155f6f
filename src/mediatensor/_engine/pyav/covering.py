"""Cover boxes in decoded frames with black, in the pixel format of the frames.

Pixels outside the boxes keep their values, because colours are not converted and frames are not rotated.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from typing import Any

import av
import numpy as np
from av.sidedata.sidedata import Type

from .encoding_video import Colour
from .pixels import component_planes, orientation_of, side_data_of

#: left, top, right and bottom, as shares of the upright frame.
Box = tuple[float, float, float, float]

# Formats with luma, or luma and two planes of chroma. Others, such as RGB and palettes, are converted by the caller.
_PLANAR_FORMAT = re.compile(r"(yuvj?4\d\dp|gray)(1[02]le)?")
_FULL_RANGE = 2
_LOWEST_LUMA = 16  # in limited range, of 8 bits


def stored_format(frame: Any) -> dict[str, Any] | None:
    """Return the fields of `VideoSettings` that describe a decoded frame: its size, format, colours and display matrix.

    Return ``None`` for a format that `cover` does not support.
    """
    name = frame.format.name
    if not _PLANAR_FORMAT.fullmatch(name) or any(plane.line_size < 0 for plane in frame.planes):
        return None
    matrix = side_data_of(frame, Type.DISPLAYMATRIX)
    return {
        "height": frame.height,
        "width": frame.width,
        "pixel_format": name,
        "colour": Colour(
            int(frame.colorspace),
            int(frame.color_primaries),
            int(frame.color_trc),
            int(frame.color_range),
            is_rgb=False,
        ),
        "display_matrix": None if matrix is None else struct.unpack("=9i", bytes(matrix)[:36]),
    }


def cover(frame: Any, boxes: Sequence[Box], *, height: int, width: int, pixel_format: str) -> Any:
    """Return a copy of a frame in which boxes are black. The copy has no side data, such as closed captions.

    A frame of another size or format is converted to the given one, for which `stored_format` must return a value.
    """
    orientation, colour_range = orientation_of(frame), int(frame.color_range)
    if (frame.height, frame.width, frame.format.name) != (height, width, pixel_format):
        frame = frame.reformat(width=width, height=height, format=pixel_format)
    copy = av.VideoFrame(width, height, pixel_format)
    lowest_luma = 0 if colour_range == _FULL_RANGE or pixel_format.startswith("yuvj") else _LOWEST_LUMA
    for number, (stored, target) in enumerate(zip(component_planes(frame), component_planes(copy), strict=True)):
        pixels, bits = target.numpy(), frame.format.components[number].bits
        np.copyto(pixels, stored.numpy())
        fill_boxes(orientation.apply(pixels), boxes, 1 << (bits - 1) if number else lowest_luma << (bits - 8))
    return copy


def fill_boxes(pixels: Any, boxes: Sequence[Box], value: int) -> None:
    """Set all pixels of an array (H, W, ...) that lie in a box, or on its edge, to a value."""
    height, width = pixels.shape[:2]
    for left, top, right, bottom in boxes:
        rows = slice(max(0, math.floor(top * height)), max(0, math.ceil(bottom * height)))
        pixels[rows, max(0, math.floor(left * width)) : max(0, math.ceil(right * width))] = value
