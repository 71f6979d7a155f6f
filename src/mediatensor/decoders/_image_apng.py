"""The pictures of an animated PNG as they are shown: each drawn on what the ones before it left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._image_modes import Layout, Planes, convert
from ._image_png import BLEND_OVER, DISPOSE_BACKGROUND, DISPOSE_PREVIOUS, PngFile, PngFrame

__all__ = ["animation_layout", "composed_frames", "lay_over"]


def animation_layout(png: PngFile) -> Layout:
    """RGB if no pixel that is shown can be transparent, else RGB and alpha."""
    first = png.frames[0]
    shows_through = (first.width, first.height) != (png.width, png.height) or any(
        frame.dispose == DISPOSE_BACKGROUND or (frame is first and frame.dispose == DISPOSE_PREVIOUS)
        for frame in png.frames
    )
    return Layout.RGB_ALPHA if png.layout.has_alpha or shows_through else Layout.RGB


def composed_frames(png: PngFile, dtype: DTypeLike, decode: Callable[[PngFrame], Planes]) -> Iterator[NDArray[Any]]:
    """The canvas after each frame: (4, H, W), one array that changes.

    Args:
        png: The file.
        dtype: Of the samples, uint8 or uint16.
        decode: Gives the planes of one frame, in the layout of the file.
    """
    kind: Any = np.dtype(dtype).type
    canvas = np.zeros((4, png.height, png.width), dtype)
    for frame in png.frames:
        region = canvas[:, frame.top : frame.top + frame.height, frame.left : frame.left + frame.width]
        before = region.copy() if frame.dispose == DISPOSE_PREVIOUS else None
        drawn = convert(decode(frame), png.layout, Layout.RGB_ALPHA, kind)
        if frame.blend == BLEND_OVER and png.layout.has_alpha:
            lay_over(drawn, region)
        else:
            region[...] = drawn
        yield canvas
        if before is not None:
            region[...] = before
        elif frame.dispose == DISPOSE_BACKGROUND:
            region[...] = 0


def lay_over(drawn: Planes, region: NDArray[Any]) -> None:
    """Lay RGBA planes over RGBA planes in place, alpha not being multiplied in, every result rounded once.

    >>> import numpy as np
    >>> region = np.array([200, 0, 0, 255], np.uint8).reshape(4, 1, 1)
    >>> lay_over([np.full((1, 1), value, np.uint8) for value in (0, 100, 0, 51)], region)
    >>> region.ravel().tolist()
    [160, 20, 0, 255]
    """
    whole = np.iinfo(region.dtype).max
    above = drawn[3].astype(np.int64)
    weight_above, weight_below = above * whole, region[3] * (whole - above)
    total = weight_above + weight_below
    divisor = np.maximum(total, 1)
    for channel in range(3):
        mixed = drawn[channel] * weight_above + region[channel] * weight_below
        region[channel] = (mixed + divisor // 2) // divisor
    region[3] = (total + whole // 2) // whole
