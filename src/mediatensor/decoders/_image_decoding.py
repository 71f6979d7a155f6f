"""From the bytes of one image to its tensor, within a limit of pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import _buffers
from ..errors import DecodeError, MediaTensorError, OpenError
from ._image_formats import look_like, sniff
from ._image_modes import ImageReadMode, Layout, convert, wanted_layout
from ._image_reading import OpenedImage, open_image
from ._image_structure import DamagedImageError

__all__ = ["MAX_BYTES_PER_PIXEL", "MAX_PIXELS", "decode"]

#: Default of `max_pixels`: that of Pillow, a quarter of a GiB at three bytes a pixel.
MAX_PIXELS = 178_956_970

#: Result of an animation, in bytes for each of `max_pixels`.
MAX_BYTES_PER_PIXEL = 16

# Whether rows and columns change places, then whether rows and whether columns run backwards, by orientation of EXIF.
_TURNS = {
    1: (False, False, False),
    2: (False, False, True),
    3: (False, True, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (True, False, True),
    7: (True, True, True),
    8: (True, True, False),
}


def decode(
    data: bytes,
    name: str,
    kind: str | None,
    mode: ImageReadMode,
    dtype: type[np.uint8] | type[np.uint16] | None,
    max_pixels: int | None,
    num_threads: int = 1,
) -> Tensor:
    """Decode an image file.

    Args:
        data: The whole file.
        name: Of the file, in messages.
        kind: The format it must have, one of `FORMATS`; ``None`` for any.
        mode: Channels of the result.
        dtype: Of the result; ``None`` for that of the file.
        max_pixels: Most pixels of one picture; ``None`` for no limit.
        num_threads: Of decoders that can use several.

    Returns:
        Contiguous, (C, H, W), or (N, C, H, W) if the file has several pictures.

    Raises:
        OpenError: if the file is not of the format, cannot be read, or is beyond the limit.
        DecodeError: if it is damaged or incomplete.
        MissingDependencyError: if a package for the format is missing.
    """
    kind = _check_kind(data, name, kind)

    def check_pixels(width: int, height: int) -> None:
        _check_pixels(width, height, name, max_pixels)

    try:
        image = open_image(kind, data, check_pixels, wants_8_bits=dtype == np.uint8, num_threads=num_threads)
    except (MediaTensorError, MemoryError):
        raise
    except DamagedImageError as error:
        raise _damaged(name, kind, error) from None
    except Exception as error:  # Pillow raises almost anything for headers that make no sense
        raise OpenError(f"Could not open {name} as a {kind.upper()} image: {_text(error)}.") from error
    if image.width < 1 or image.height < 1:
        raise OpenError(f"{name} says that its picture has {image.width}x{image.height} pixels: there is none.")
    check_pixels(image.width, max(image.height, -(-image.max_pixels // image.width)))
    layout = wanted_layout(image.layout, mode)
    stored = image.read_layout or image.layout
    dtype = dtype or image.dtype
    pixels = _result(image, layout, np.dtype(dtype), name, max_pixels)
    try:
        for number, bands in enumerate(image.read()):
            picture = _as_stored(pixels[number], image.orientation)
            for top, planes in bands:
                rows = picture[:, top : top + len(planes[0])]
                for channel, plane in enumerate(convert(planes, stored, layout, dtype)):
                    rows[channel] = plane
    except (MediaTensorError, MemoryError):
        raise
    except Exception as error:  # here, too
        raise _damaged(name, kind, error) from error
    return torch.from_numpy(pixels if image.num_frames > 1 else pixels[0])


def _check_kind(data: bytes, name: str, kind: str | None) -> str:
    found = sniff(data)
    if found is None and kind is None:
        raise OpenError(
            f"Unsupported or unrecognized image format: {name} looks like {look_like(data)}. Supported are JPEG, PNG, "
            "WebP, GIF, AVIF, HEIC and BMP."
        )
    if found is None or (kind is not None and found != kind):
        other = f"; use decode_{found} or decode_image" if found not in (None, "bmp") else ""
        raise OpenError(f"{name} is not a {str(kind).upper()} image: it looks like {look_like(data)}{other}.")
    return found


def _check_pixels(width: int, height: int, name: str, max_pixels: int | None) -> None:
    if max_pixels is not None and width * height > max_pixels:
        raise OpenError(
            f"{name} says that its picture has {width}x{height} = {width * height} pixels, more than max_pixels = "
            f"{max_pixels}. If you trust the file, pass a larger max_pixels, or None for no limit."
        )


def _result(
    image: OpenedImage, layout: Layout, dtype: np.dtype[Any], name: str, max_pixels: int | None
) -> NDArray[Any]:
    """Memory for the result, (N, C, H, W), if it is not too much."""
    height, width = image.height, image.width
    if _TURNS[image.orientation][0]:
        height, width = width, height
    shape = (image.num_frames, layout.num_channels, height, width)
    num_bytes = image.num_frames * layout.num_channels * height * width * dtype.itemsize
    if max_pixels is not None and num_bytes > max_pixels * MAX_BYTES_PER_PIXEL:
        raise OpenError(
            f"{name} has {image.num_frames} pictures of {width}x{height}: a result of {num_bytes} bytes, more than the "
            f"{max_pixels * MAX_BYTES_PER_PIXEL} that max_pixels = {max_pixels} allows ({MAX_BYTES_PER_PIXEL} for each "
            "pixel). If you trust the file, pass a larger max_pixels, or None for no limit."
        )
    return _buffers.empty(shape, dtype)


def _as_stored(upright: NDArray[Any], orientation: int) -> NDArray[Any]:
    """A view (C, H, W) of an upright picture in which it lies as it is stored."""
    is_transposed, rows_backwards, columns_backwards = _TURNS[orientation]
    if rows_backwards:
        upright = upright[:, ::-1]
    if columns_backwards:
        upright = upright[:, :, ::-1]
    return upright.transpose(0, 2, 1) if is_transposed else upright


def _damaged(name: str, kind: str, error: Exception) -> DecodeError:
    return DecodeError(
        f"{name} cannot be decoded as a {kind.upper()} image: {_text(error)}. The file is damaged or incomplete."
    )


def _text(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__
