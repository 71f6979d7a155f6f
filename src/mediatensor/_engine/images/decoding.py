"""Decode the bytes of an image file to a tensor, with a limit on the number of pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import DecodeError, InvalidArgumentError, MediaTensorError, OpenError
from ..common import buffers
from ..common.checks import MAX_PIXELS_ADVICE
from ..common.pictures import Orientation
from ..sources.source import make_readable_source, read_whole
from .channels import ImageReadMode, convert, wanted_layout
from .formats import DamagedImageError, look_like, sniff
from .reading import open_image

#: Default of `max_pixels`: Pillow's limit. A picture of this size has half a GiB at three bytes per pixel.
MAX_PIXELS = 178_956_970

#: Limit for the size of a result: this many bytes for each pixel of `max_pixels`.
MAX_BYTES_PER_PIXEL = 16


def decode(
    data: bytes,
    name: str,
    kind: str | None,
    mode: ImageReadMode,
    dtype: type[np.uint8] | type[np.uint16] | None,
    max_pixels: int | None,
    num_threads: int = 1,
    *,
    is_upright: bool = True,
) -> Tensor:
    """Decode the bytes of an image file to a contiguous tensor (C, H, W), or (N, C, H, W) if it has several pictures.

    ``name`` is the name of the source in error messages. ``kind`` is the required format, one of `FORMATS`, or ``None``
    to accept any. With ``dtype=None``, the result has the dtype of the file. With ``max_pixels=None``, there is no
    limit. If ``is_upright``, pictures are rotated as their EXIF orientation says.

    Raises `OpenError` if the file has another format, cannot be read, or exceeds the limit. Raises `DecodeError` if it
    is damaged, and `MissingDependencyError` if a package for the format is missing.
    """
    kind = _check_kind(data, name, kind)

    def check_pixels(width: int, height: int) -> None:
        if max_pixels is not None and width * height > max_pixels:
            raise OpenError(
                f"{name} says that its picture has {width}x{height} = {width * height} pixels, more than max_pixels = "
                f"{max_pixels}; {MAX_PIXELS_ADVICE}."
            )

    try:
        image = open_image(kind, data, check_pixels, wants_8_bits=dtype == np.uint8, num_threads=num_threads)
    except (MediaTensorError, MemoryError):
        raise
    except DamagedImageError as error:
        raise _damaged(name, kind, error) from None
    except Exception as error:  # Pillow raises many kinds of exceptions for invalid headers
        raise OpenError(f"Could not open {name} as a {kind.upper()} image: {_text(error)}.") from error
    if image.width < 1 or image.height < 1:  # libheif 1.19 crops HEIC to nothing on request
        raise OpenError(f"{name} says that its picture has {image.width}x{image.height} pixels: there is none.")
    check_pixels(image.width, max(image.height, -(-image.max_pixels // image.width)))
    layout = wanted_layout(image.layout, mode)
    stored = image.read_layout or image.layout
    dtype = dtype or image.dtype
    orientation = Orientation.from_exif(image.orientation if is_upright else 1)
    height, width = orientation.size(image.height, image.width)
    shape = (image.num_frames, layout.num_channels, height, width)
    num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if max_pixels is not None and num_bytes > max_pixels * MAX_BYTES_PER_PIXEL:
        raise OpenError(
            f"{name} has {image.num_frames} pictures of {width}x{height}: a result of {num_bytes} bytes, more than the "
            f"{max_pixels * MAX_BYTES_PER_PIXEL} that max_pixels = {max_pixels} allows ({MAX_BYTES_PER_PIXEL} for each "
            f"pixel); {MAX_PIXELS_ADVICE}."
        )
    pixels: NDArray[Any] = buffers.empty(shape, dtype)
    try:
        for number, bands in enumerate(image.read()):
            # A view in stored orientation, (C, H, W). Stored pixels written into it appear upright in the result.
            picture = orientation.undo(pixels[number].transpose(1, 2, 0)).transpose(2, 0, 1)
            for top, planes in bands:
                rows = picture[:, top : top + len(planes[0])]
                for channel, plane in enumerate(convert(planes, stored, layout, dtype)):
                    rows[channel] = plane
    except (MediaTensorError, MemoryError):
        raise
    except Exception as error:  # Pillow raises many kinds of exceptions
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


def _damaged(name: str, kind: str, error: Exception) -> DecodeError:
    return DecodeError(
        f"{name} cannot be decoded as a {kind.upper()} image: {_text(error)}. The file is damaged or incomplete."
    )


def _text(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__


#: Largest size of an image file in bytes.
MAX_FILE_BYTES = 1 << 30


def read_bytes(source: object) -> tuple[bytes, str]:
    """Read a whole image file with `read_whole`. Return (its bytes, its name for error messages).

    Raises `OpenError` if the source is empty, or if it has more than `MAX_FILE_BYTES` and is not in memory already.
    """
    made = make_readable_source(source)
    name = made.describe()
    try:
        data = read_whole(made, MAX_FILE_BYTES)
    except InvalidArgumentError as error:
        raise OpenError(f"Could not open {name} as an image: {error}") from None
    if not data:
        raise OpenError(f"Could not open {name}: it is empty.")
    return data, name
