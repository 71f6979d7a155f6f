"""Find the depth of AVIF files, and convert YUV planes of 10 and 12 bits to RGB of 16 bits. Pure; no I/O.

Pillow's decoder reduces such pictures to 8 bits. The formulas are from H.273. Subsampled chroma is interpolated
bilinearly, as in libavif.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..pyav.still_images import PlanarPicture

__all__ = ["MATRICES", "avif_depth", "rgb_16_bands"]

# Kr and Kb of the matrices in H.273, by number. Images without a matrix use BT.601.
_WEIGHTS = {
    1: (0.2126, 0.0722),
    2: (0.299, 0.114),
    4: (0.3, 0.11),
    5: (0.299, 0.114),
    6: (0.299, 0.114),
    7: (0.212, 0.087),
    9: (0.2627, 0.0593),
}

#: Supported matrices by number in H.273; 0 is the identity, for planes that are already RGB.
MATRICES = frozenset((0, *_WEIGHTS))

_CONFIGURATION = b"av1C"
_MARKER_AND_VERSION = 0x81


def avif_depth(data: bytes) -> int:
    """Return the bits per sample of an AVIF file: 8, 10 or 12, the largest depth of its parts.

    >>> avif_depth(b"av1C" + bytes([0x81, 0x20, 0x4C, 0]))
    10
    """
    depth = 8
    at = data.find(_CONFIGURATION)
    while at >= 0:
        configuration = data[at + 4 : at + 7]
        if len(configuration) == 3 and configuration[0] == _MARKER_AND_VERSION and configuration[2] & 0x40:
            depth = max(depth, 12 if configuration[2] & 0x20 else 10)
        at = data.find(_CONFIGURATION, at + 4)
    return depth


def rgb_16_bands(picture: PlanarPicture, num_rows: int) -> Iterator[tuple[int, list[NDArray[np.uint16]]]]:
    """Yield bands of rows as (first row, planes); the planes are R, G and B or only gray, with 16 bits.

    >>> gray = PlanarPicture([np.array([[64, 940]], np.uint16)], 10, False, 1, False)
    >>> [(top, [plane.tolist() for plane in planes]) for top, planes in rgb_16_bands(gray, 8)]
    [(0, [[[0, 65535]]])]
    """
    height, width = picture.planes[0].shape
    for top in range(0, height, num_rows):
        stop = min(height, top + num_rows)
        luma = _normalized(picture.planes[0][top:stop], picture, is_chroma=False)
        colours: list[NDArray[Any]]
        if picture.is_gbr:
            blue, red = (_normalized(plane[top:stop], picture, is_chroma=False) for plane in picture.planes[1:])
            colours = [red, luma, blue]
        elif len(picture.planes) == 1:
            colours = [luma]
        else:
            blue, red = (
                _normalized(_enlarged(plane, height, width, top, stop), picture, is_chroma=True)
                for plane in picture.planes[1:]
            )
            kr, kb = _WEIGHTS[picture.matrix]
            green = luma - (2 * kr * (1 - kr) * red + 2 * kb * (1 - kb) * blue) / (1 - kr - kb)
            colours = [luma + 2 * (1 - kr) * red, green, luma + 2 * (1 - kb) * blue]
        yield top, [(np.clip(colour, 0, 1) * 65535 + 0.5).astype(np.uint16) for colour in colours]


def _normalized(plane: NDArray[Any], picture: PlanarPicture, *, is_chroma: bool) -> NDArray[Any]:
    """Return samples scaled to [0, 1], or chroma scaled to [-1/2, 1/2]."""
    scale = 1 << picture.depth - 8
    least = 128 * scale if is_chroma else 0 if picture.is_full_range else 16 * scale
    span = (1 << picture.depth) - 1 if picture.is_full_range else (224 if is_chroma else 219) * scale
    numbers = (plane.astype(np.float32) - np.float32(least)) / np.float32(span)
    return numbers if is_chroma else np.clip(numbers, 0, 1)


def _enlarged(plane: NDArray[Any], height: int, width: int, top: int, stop: int) -> NDArray[Any]:
    """Return rows ``top`` to ``stop`` of a plane that is scaled up to the size of the picture."""
    rows = plane[top:stop] if plane.shape[0] == height else _doubled(plane, 0, top, stop)
    return rows if plane.shape[1] == width else _doubled(rows, 1, 0, width)


def _doubled(plane: NDArray[Any], axis: int, start: int, stop: int) -> NDArray[Any]:
    """Return rows or columns of a plane scaled up twofold: each is 3/4 of the nearest plus 1/4 of the next one."""
    places = np.arange(start, stop)
    near = places // 2
    far = np.clip(near + np.where(places % 2, 1, -1), 0, plane.shape[axis] - 1)
    doubled: NDArray[Any] = np.float32(0.75) * plane.take(near, axis) + np.float32(0.25) * plane.take(far, axis)
    return doubled
