"""Convert the channels and bit depth of an image, and check the arguments that choose them.

Pure functions, without I/O. A picture, or a band of its rows, is a list of planes: one 2-D array for each channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import InvalidArgumentError, SourceTypeError

if TYPE_CHECKING:
    from ..pyav.whole_files import PlanarPicture

Planes = Sequence[NDArray[Any]]

# Weights for gray in ten-thousandths. They add up to 9999, so 16-bit white becomes 65528.
_RED, _GREEN, _BLUE, _WHOLE = 2989, 5870, 1140, 10_000

# Kr and Kb of the matrices in H.273, by number. BT.601 is used for images that do not state a matrix.
_WEIGHTS = {
    1: (0.2126, 0.0722),
    2: (0.299, 0.114),
    4: (0.3, 0.11),
    5: (0.299, 0.114),
    6: (0.299, 0.114),
    7: (0.212, 0.087),
    9: (0.2627, 0.0593),
}

#: Supported matrices, by their number in H.273. 0 is the identity, for planes that are already RGB.
MATRICES = frozenset((0, *_WEIGHTS))


class ImageReadMode(Enum):
    """The channels of decoded images. Functions also accept the name of a mode, in upper or lower case.

    Attributes:
        UNCHANGED: The channels of the file: 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGB and alpha). A palette
            image becomes RGB, with alpha if one of its colours is transparent. A CMYK image keeps its four channels, in
            which 255 means full ink.
        GRAY: One channel: 0.2989 R + 0.587 G + 0.114 B, rounded.
        GRAY_ALPHA: Two channels: gray, and alpha (opaque if the file has none).
        RGB: Three channels. Alpha is dropped, without blending the colours with a background.
        RGB_ALPHA: Four channels: RGB, and alpha (opaque if the file has none). ``RGBA`` is another name for it.

    Example:
        >>> from mediatensor.decoders import ImageReadMode
        >>> ImageReadMode.RGBA
        <ImageReadMode.RGB_ALPHA: 4>
    """

    UNCHANGED = 0  # the numbers of torchcodec and torchvision
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4
    RGBA = 4  # noqa: PIE796


class Layout(Enum):
    """The channels of a picture in order. Each value is the name of the Pillow mode that has these channels."""

    GRAY = "L"
    GRAY_ALPHA = "LA"
    RGB = "RGB"
    RGB_ALPHA = "RGBA"
    CMYK = "CMYK"

    @property
    def num_channels(self) -> int:
        return len(self.value)

    @property
    def has_alpha(self) -> bool:
        return self.value.endswith("A")

    def with_alpha(self) -> Layout:
        return {Layout.GRAY: Layout.GRAY_ALPHA, Layout.RGB: Layout.RGB_ALPHA}.get(self, self)


_LAYOUTS = {
    ImageReadMode.GRAY: Layout.GRAY,
    ImageReadMode.GRAY_ALPHA: Layout.GRAY_ALPHA,
    ImageReadMode.RGB: Layout.RGB,
    ImageReadMode.RGB_ALPHA: Layout.RGB_ALPHA,
}


def check_mode(mode: object) -> ImageReadMode:
    """Return ``mode``, or the mode that it names, as an `ImageReadMode`. Raise if there is no such mode.

    >>> check_mode("rgba")
    <ImageReadMode.RGB_ALPHA: 4>
    """
    if isinstance(mode, ImageReadMode):
        return mode
    if not isinstance(mode, str):
        raise SourceTypeError(f"mode must be a str (or ImageReadMode), got {type(mode).__name__}.")
    found = ImageReadMode.__members__.get(mode.upper())
    if found is None:
        names = ", ".join(repr(name) for name in ImageReadMode.__members__)
        raise InvalidArgumentError(f"Invalid mode {mode!r}. Supported modes are {names} (case-insensitive).")
    return found


def check_output_dtype(output_dtype: object) -> type[np.uint8] | type[np.uint16] | None:
    """Return the numpy type for a torch dtype, or ``None`` for ``"auto"``, which keeps the dtype of the file."""
    if isinstance(output_dtype, torch.dtype) and output_dtype in (torch.uint8, torch.uint16):
        return np.uint8 if output_dtype == torch.uint8 else np.uint16
    if isinstance(output_dtype, str) and output_dtype == "auto":
        return None
    raise InvalidArgumentError(
        f"Invalid output_dtype ({output_dtype}). Supported values are torch.uint8, torch.uint16, and 'auto'."
    )


def wanted_layout(stored: Layout, mode: ImageReadMode) -> Layout:
    return _LAYOUTS.get(mode, stored)


def convert(
    planes: Planes,
    stored: Layout,
    wanted: Layout,
    dtype: type[np.uint8] | type[np.uint16] | Literal["uint8", "uint16"],
) -> Planes:
    """Convert planes (uint8 or uint16) from layout ``stored`` to layout ``wanted``, then to ``dtype``.

    If ``wanted`` is CMYK, ``stored`` must be CMYK, too.

    >>> import numpy as np
    >>> white = [np.full((1, 1), 255, np.uint8)] * 3
    >>> [int(plane[0, 0]) for plane in convert(white, Layout.RGB, Layout.GRAY_ALPHA, "uint16")]
    [65535, 65535]
    """
    if wanted is not stored:
        alpha = planes[-1] if stored.has_alpha else None
        colours = planes[:-1] if stored.has_alpha else planes
        if stored is Layout.CMYK:
            colours = _rgb_of_cmyk(planes)
        if wanted in (Layout.GRAY, Layout.GRAY_ALPHA):
            colours = [colours[0] if len(colours) == 1 else _gray_of_rgb(colours)]
        elif len(colours) == 1:
            colours = [colours[0]] * 3
        planes = list(colours)
        if wanted.has_alpha:
            opaque = np.iinfo(planes[0].dtype).max
            planes.append(np.full_like(planes[0], opaque) if alpha is None else alpha)
    return [_of_depth(plane, np.dtype(dtype)) for plane in planes]


def _gray_of_rgb(colours: Planes) -> NDArray[Any]:
    total = np.multiply(colours[0], _RED, dtype=np.uint32)
    total += np.multiply(colours[1], _GREEN, dtype=np.uint32)
    total += np.multiply(colours[2], _BLUE, dtype=np.uint32)
    total += _WHOLE // 2
    total //= _WHOLE
    gray: NDArray[Any] = total.astype(colours[0].dtype)
    return gray


def _rgb_of_cmyk(inks: Planes) -> Planes:
    """Convert CMYK planes (uint8) to RGB. Each colour is (255 - ink) (255 - black) / 255, rounded."""
    not_black = 255 - inks[3].astype(np.uint32)
    return [(((255 - ink.astype(np.uint32)) * not_black + 127) // 255).astype(np.uint8) for ink in inks[:3]]


def _of_depth(plane: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    if plane.dtype == dtype:
        return plane
    if dtype == np.uint16:
        wide: NDArray[Any] = np.multiply(plane, 257, dtype=np.uint16)
        return wide
    # Exact rounding: 257 is odd, so no value is halfway between two results.
    return ((plane.astype(np.uint32) + 128) // 257).astype(np.uint8)


def rgb_16_bands(picture: PlanarPicture, num_rows: int) -> Iterator[tuple[int, list[NDArray[np.uint16]]]]:
    """Convert a picture to planes R, G and B with 16 bits per sample, or to a single gray plane, as defined in H.273.

    Yield (number of the first row, planes) for each band of up to ``num_rows`` rows. Subsampled chroma is interpolated
    bilinearly, as libavif does for AVIF of 10 and 12 bits.

    >>> from mediatensor._engine.pyav.whole_files import PlanarPicture
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
    """Scale the samples of a plane to [0, 1] for luma, R, G or B, or to [-1/2, 1/2] for chroma."""
    scale = 1 << picture.depth - 8
    least = 128 * scale if is_chroma else 0 if picture.is_full_range else 16 * scale
    span = (1 << picture.depth) - 1 if picture.is_full_range else (224 if is_chroma else 219) * scale
    numbers = (plane.astype(np.float32) - np.float32(least)) / np.float32(span)
    return numbers if is_chroma else np.clip(numbers, 0, 1)


def _enlarged(plane: NDArray[Any], height: int, width: int, top: int, stop: int) -> NDArray[Any]:
    """Scale a plane up to ``height`` and ``width``. Return only the rows [top, stop) of the result."""
    rows = plane[top:stop] if plane.shape[0] == height else _doubled(plane, 0, top, stop)
    return rows if plane.shape[1] == width else _doubled(rows, 1, 0, width)


def _doubled(plane: NDArray[Any], axis: int, start: int, stop: int) -> NDArray[Any]:
    """Scale a plane up twofold along ``axis``. Return only the rows or columns [start, stop) of the result.

    Each new row or column is 3/4 of the nearest original one plus 1/4 of the second nearest.
    """
    places = np.arange(start, stop)
    near = places // 2
    far = np.clip(near + np.where(places % 2, 1, -1), 0, plane.shape[axis] - 1)
    doubled: NDArray[Any] = np.float32(0.75) * plane.take(near, axis) + np.float32(0.25) * plane.take(far, axis)
    return doubled
