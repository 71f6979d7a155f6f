"""Change decoded frames before conversion to RGB: map their colours through a table, or cover boxes with black.

A table is applied by FFmpeg's filter haldclut. Boxes are covered in the pixel format of the frame, so that pixels
outside the boxes keep their values: colours are not converted, and frames are not rotated.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.sidedata.sidedata import Type
from numpy.typing import NDArray

from ...errors import DecodeError
from .encoding_video import Colour
from .opening import error_text
from .pixels import ScaleFilter, component_planes, orientation_of, side_data_of

#: Number of points of a table along each axis: the square of a whole number, as the filter requires.
POINTS_PER_AXIS = 64
_SIDE = round(POINTS_PER_AXIS**1.5)  # of the square frame that stores a table
# In FFmpeg 8, the filter swaps the colours of tables in gbrp16, and takes four times as long for interleaved formats.
_FORMAT = "gbrpf32le"
_PLANES = (2, 0, 1)  # of red, green and blue
_TICK = Fraction(1, 1000)

#: left, top, right and bottom, as shares of the upright frame.
Box = tuple[float, float, float, float]

# Formats with luma, or luma and two planes of chroma. Others, such as RGB and palettes, are converted by the caller.
_PLANAR_FORMAT = re.compile(r"(yuvj?4\d\dp|gray)(1[02]le)?")
_FULL_RANGE = 2
_LOWEST_LUMA = 16  # in limited range, of 8 bits


class ColourTable:
    """Maps R'G'B' through a table, with tetrahedral interpolation. Use one object per thread.

    ``table`` is float32 (`POINTS_PER_AXIS`,) * 3 + (3,). For each point (blue, green, red) of the cube [0, 1]³, it has
    the result (red, green, blue), of any range.
    """

    def __init__(self, table: NDArray[np.float32]) -> None:
        self._table = table
        self._to_rgb = ScaleFilter(_FORMAT)
        self._graph: Any = None
        self._size: tuple[int, int] | None = None
        self._num_pushed = 0

    def map(self, picture: Any) -> tuple[NDArray[np.float32], ...]:
        """Return red, green and blue of a picture, each a view (height, width), not rotated.

        Raises `DecodeError` if FFmpeg cannot convert the frame to RGB.
        """
        try:
            rgb = self._to_rgb.convert(picture)
            size = (rgb.width, rgb.height)
            if size != self._size:
                self._build(*size)
            self._size = None  # an error leaves the graph unusable
            rgb.pts, rgb.time_base = self._num_pushed, _TICK  # frames must arrive in the order of their times
            self._source.push(rgb)
            mapped = self._graph.pull()
        except av.FFmpegError as error:
            raise DecodeError(
                f"A frame could not be converted to RGB from format {picture.format.name}: {error_text(error)}. The "
                "file may be damaged."
            ) from error
        self._size = size
        self._num_pushed += 1
        planes = (mapped.planes[number] for number in _PLANES)
        return tuple(np.frombuffer(plane, "<f4").reshape(rgb.height, -1)[:, : rgb.width] for plane in planes)

    def _build(self, width: int, height: int) -> None:
        self._graph = graph = av.filter.Graph()
        graph.threads = 1
        options: dict[str, Any] = {"format": _FORMAT, "time_base": _TICK}
        self._source = graph.add_buffer(width=width, height=height, **options)
        table = graph.add_buffer(width=_SIDE, height=_SIDE, **options)
        mapping, sink = graph.add("haldclut", "clut=first"), graph.add("buffersink")
        self._source.link_to(mapping, 0, 0)
        table.link_to(mapping, 0, 1)
        mapping.link_to(sink)
        graph.configure()
        frame: Any = av.VideoFrame(_SIDE, _SIDE, _FORMAT)
        frame.pts, frame.time_base = 0, _TICK
        flat = self._table.reshape(_SIDE, _SIDE, 3).astype("<f4")
        for channel, number in enumerate(_PLANES):
            frame.planes[number].update(flat[..., channel].tobytes())  # its lines have no padding
        table.push(frame)
        table.push(None)
        self._num_pushed = 0


def stored_format(picture: Any) -> dict[str, Any] | None:
    """Return the fields of `VideoSettings` that describe a picture: its size, format, colours and display matrix.

    Return ``None`` for a format that `cover` does not support.
    """
    name = picture.format.name
    if not _PLANAR_FORMAT.fullmatch(name) or any(plane.line_size < 0 for plane in picture.planes):
        return None
    matrix = side_data_of(picture, Type.DISPLAYMATRIX)
    return {
        "height": picture.height,
        "width": picture.width,
        "pixel_format": name,
        "colour": Colour(
            int(picture.colorspace),
            int(picture.color_primaries),
            int(picture.color_trc),
            int(picture.color_range),
            is_rgb=False,
        ),
        "display_matrix": None if matrix is None else struct.unpack("=9i", bytes(matrix)[:36]),
    }


def cover(picture: Any, boxes: Sequence[Box], *, height: int, width: int, pixel_format: str) -> Any:
    """Return a copy of a picture in which boxes are black. The copy has no side data, such as closed captions.

    A picture of another size or format is converted to the given one, for which `stored_format` must return a value.
    """
    orientation, colour_range = orientation_of(picture), int(picture.color_range)
    if (picture.height, picture.width, picture.format.name) != (height, width, pixel_format):
        picture = picture.reformat(width=width, height=height, format=pixel_format)
    copy = av.VideoFrame(width, height, pixel_format)
    lowest_luma = 0 if colour_range == _FULL_RANGE or pixel_format.startswith("yuvj") else _LOWEST_LUMA
    for number, (stored, target) in enumerate(zip(component_planes(picture), component_planes(copy), strict=True)):
        pixels, bits = target.numpy(), picture.format.components[number].bits
        np.copyto(pixels, stored.numpy())
        fill_boxes(orientation.apply(pixels), boxes, 1 << (bits - 1) if number else lowest_luma << (bits - 8))
    return copy


def fill_boxes(pixels: Any, boxes: Sequence[Box], value: int) -> None:
    """Set all pixels of an array (H, W, ...) that lie in a box, or on its edge, to a value."""
    height, width = pixels.shape[:2]
    for left, top, right, bottom in boxes:
        rows = slice(max(0, math.floor(top * height)), max(0, math.ceil(bottom * height)))
        pixels[rows, max(0, math.floor(left * width)) : max(0, math.ceil(right * width))] = value
