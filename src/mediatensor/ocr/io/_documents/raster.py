"""Pictures of any layout and depth as pages: (H, W, 3) uint8, RGB, upright, alpha blended over white."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...._common.orientation import Orientation
from ...._images import Bands, Layout, Planes, convert
from ....errors import DecodeError

__all__ = ["blend_over_white", "page_of_bands", "page_of_pillow", "resized", "upright"]

_WITH_ALPHA = frozenset(("LA", "La", "PA", "RGBA", "RGBa"))


def page_of_bands(bands: Bands, layout: Layout, width: int, height: int) -> NDArray[np.uint8]:
    """Assemble a page from bands of planes, from top to bottom.

    Args:
        bands: Bands as the image decoders of this library yield them.
        layout: The layout of the planes.
        width, height: Stored size of the picture.
    """
    page = np.empty((height, width, 3), np.uint8)
    wanted = Layout.RGB_ALPHA if layout.has_alpha else Layout.RGB
    for top, planes in bands:
        converted = convert(planes, layout, wanted, np.uint8)
        if wanted.has_alpha:
            converted = blend_over_white(converted)
        rows = page[top : top + len(planes[0])]
        for channel, plane in enumerate(converted):
            rows[..., channel] = plane
    return page


def blend_over_white(planes: Planes) -> Planes:
    """Blend RGBA planes (uint8) over white: (colour alpha + 255 (255 - alpha)) / 255, rounded.

    >>> import numpy as np
    >>> planes = [np.full((1, 1), value, np.uint8) for value in (0, 255, 100, 51)]
    >>> [int(plane[0, 0]) for plane in blend_over_white(planes)]
    [204, 255, 224]
    """
    alpha = planes[3].astype(np.uint32)
    white = 255 * (255 - alpha)
    return [((colour * alpha + white + 127) // 255).astype(np.uint8) for colour in planes[:3]]


def page_of_pillow(image: Image.Image, *, is_white_zero: bool = False) -> NDArray[np.uint8]:
    """A loaded Pillow image as a page.

    Args:
        image: An image of any mode except those with 32 bits per sample, whose range is unknown.
        is_white_zero: Whether 0 is white in 16-bit samples.

    Raises:
        DecodeError: for 32-bit samples.
    """
    if image.mode.startswith("I;16"):
        return _page_of_16_bits(np.asarray(image), is_white_zero)
    if image.mode in ("I", "F"):
        raise DecodeError("its samples have 32 bits, and the values of black and white are unknown")
    if image.mode in _WITH_ALPHA or "transparency" in image.info:
        opaque = image.convert("LA") if image.mode == "La" else image
        planes = _planes(opaque.convert("RGBA"))
        return np.stack(blend_over_white(planes), axis=-1)
    if image.mode == "CMYK":
        return np.stack(convert(_planes(image), Layout.CMYK, Layout.RGB, np.uint8), axis=-1)
    return np.array(image.convert("RGB"))


def _page_of_16_bits(samples: NDArray[Any], is_white_zero: bool) -> NDArray[np.uint8]:
    wide = samples.astype(np.uint16)
    gray = convert([65535 - wide if is_white_zero else wide], Layout.GRAY, Layout.GRAY, np.uint8)[0]
    return np.repeat(gray[..., None], 3, axis=2)


def _planes(image: Image.Image) -> Planes:
    pixels = np.asarray(image)
    return [pixels[..., channel] for channel in range(pixels.shape[2])]


def upright(page: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """A stored picture turned upright by its EXIF orientation, contiguous.

    >>> import numpy as np
    >>> upright(np.arange(6, dtype=np.uint8).reshape(2, 3, 1), 6)[..., 0].tolist()
    [[3, 0], [4, 1], [5, 2]]
    """
    return np.ascontiguousarray(Orientation.from_exif(orientation).apply(page))


def resized(page: NDArray[np.uint8], size: Sequence[int]) -> NDArray[np.uint8]:
    """Resize a page to (height, width), bilinearly; shrinking averages, so that thin strokes remain visible."""
    height, width = size
    if page.shape[:2] == (height, width):
        return page
    return np.array(Image.fromarray(page).resize((width, height), Image.Resampling.BILINEAR))
