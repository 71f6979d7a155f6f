"""Conversion of boxes, images and JSON to plain values for the server."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

#: Options of the interface by name.
Options = Mapping[str, Any]

_JPEG_QUALITY = 90
# Encode fast rather than small, because browsers are on the same machine or network.
_PNG_COMPRESSION = 1
_DIGITS = 6


def as_json(value: Any) -> bytes:
    """Encode JSON in UTF-8. Lone surrogates, which text from files may contain, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(errors="replace")


def finite(value: float | None) -> float | None:
    """Return a number, or ``None`` if JSON cannot represent it.

    >>> finite(2), finite(math.inf)
    (2.0, None)
    """
    return float(value) if value is not None and math.isfinite(value) else None


def box_of(geometry: Any) -> list[float]:
    """Return the axis-aligned box [left, top, right, bottom] around corners, in relative coordinates.

    >>> box_of(((0.1, 0.2), (0.5, 0.25)))
    [0.1, 0.2, 0.5, 0.25]
    """
    points = np.asarray(geometry, dtype=np.float64).reshape(-1, 2)
    return [round(value, _DIGITS) for value in (*points.min(axis=0).tolist(), *points.max(axis=0).tolist())]


def polygon_of(geometry: Any) -> list[list[float]]:
    """Return the four relative corners, starting at the top left, clockwise in reading direction.

    >>> polygon_of(((0.1, 0.2), (0.5, 0.25)))
    [[0.1, 0.2], [0.5, 0.2], [0.5, 0.25], [0.1, 0.25]]
    """
    points = np.asarray(geometry, dtype=np.float64).reshape(-1, 2)
    if len(points) == 2:
        (left, top), (right, bottom) = points
        points = np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
    return [[round(x, _DIGITS), round(y, _DIGITS)] for x, y in points.tolist()]


def png_of(pixels: NDArray[np.uint8], max_width: int | None = None) -> bytes:
    """Encode an image, uint8 (H, W, 3), as PNG; reduce it to ``max_width`` pixels if it is wider."""
    return _encode(pixels, max_width, "PNG", compress_level=_PNG_COMPRESSION)


def jpeg_of(pixels: NDArray[np.uint8], max_width: int | None = None) -> bytes:
    """Encode an image, uint8 (H, W, 3), as JPEG; reduce it to ``max_width`` pixels if it is wider."""
    return _encode(pixels, max_width, "JPEG", quality=_JPEG_QUALITY)


def _encode(pixels: NDArray[np.uint8], max_width: int | None, name: str, **options: Any) -> bytes:
    picture = Image.fromarray(pixels)
    if max_width is not None and picture.width > max_width:
        height = max(1, round(picture.height * max_width / picture.width))
        picture = picture.resize((max_width, height), reducing_gap=2.0)
    file = io.BytesIO()
    picture.save(file, name, **options)
    return file.getvalue()
