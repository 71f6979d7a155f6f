"""Read image files as arrays and tensors, with functions named as in docTR."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ..._engine.common.checks import check_max_pixels
from ..._engine.images.reading import MAX_PIXELS
from ...errors import InvalidArgumentError, SourceTypeError
from ._documents.images import ImageDocument, ImageOptions
from ._documents.pages import check_output_size

__all__ = [
    "decode_img_as_tensor",
    "get_img_shape",
    "read_img_as_numpy",
    "read_img_as_tensor",
    "tensor_from_numpy",
    "tensor_from_pil",
]

_DTYPES = (torch.uint8, torch.float16, torch.float32)


def read_img_as_numpy(
    file: Any,
    output_size: tuple[int, int] | None = None,
    rgb_output: bool = True,
    *,
    max_pixels: int | None = MAX_PIXELS,
) -> NDArray[np.uint8]:
    """Read an image file. If it contains several images, such as an animation, read the first.

    The result always has three uint8 channels. The EXIF orientation is applied, palette indices become colours,
    transparent parts become white, 16-bit samples are rounded to 8 bits, and CMYK is converted to RGB. Colour profiles
    are not applied.

    Args:
        file: A path (``str`` or ``Path``), the ``bytes`` of a file, or a binary file object, which is read from its
            beginning. The format may be JPEG, PNG, WebP, GIF, AVIF, HEIC (with the extra ``heic``), BMP or TIFF.
        output_size: The size (height, width) in pixels of the result. The image is resized bilinearly with
            antialiasing. ``None`` keeps the original size.
        rgb_output: Whether the order of channels is RGB. If ``False``, it is BGR.
        max_pixels: Images with more pixels are rejected before decoding, with a `PageError`. The default is
            178,956,970; ``None`` means no limit.

    Returns:
        A contiguous array (H, W, 3), uint8.

    Raises:
        SourceTypeError: (a TypeError) if ``file`` has an unsupported type.
        SourceNotFoundError: (a FileNotFoundError) if the file does not exist.
        OpenError: if the file is empty or not an image. This is a ``ValueError``.
        PageError: if the image is damaged, incomplete or too large. This is a ``ValueError``.
        InvalidArgumentError: if another argument is invalid.
        MissingDependencyError: if a package for the format is missing.

    Example:
        >>> from PIL import Image
        >>> import io
        >>> from mediatensor.ocr.io import read_img_as_numpy
        >>> file = io.BytesIO()
        >>> Image.new("L", (6, 4), 255).save(file, "PNG")
        >>> read_img_as_numpy(file.getvalue()).shape
        (4, 6, 3)
    """
    limit = check_max_pixels(max_pixels)
    options = ImageOptions(check_output_size(output_size, limit), bool(rgb_output), limit)
    return ImageDocument(file, options).read(0)


def read_img_as_tensor(img_path: Any, dtype: torch.dtype = torch.float32) -> Tensor:
    """Read an image file as a tensor. If it contains several images, such as an animation, read the first.

    Args:
        img_path: A path, or any other source that `read_img_as_numpy` takes.
        dtype: ``torch.uint8``, ``torch.float16`` or ``torch.float32``. For float types, values are divided by 255.

    Returns:
        The image (3, H, W), RGB, of type ``dtype``.

    Raises:
        InvalidArgumentError: if ``dtype`` is not supported. This is a ``ValueError``.
        MediaTensorError: if the file cannot be read; see `read_img_as_numpy`.

    Example:
        >>> from mediatensor.ocr.io import read_img_as_tensor
        >>> read_img_as_tensor("page.png").shape
        torch.Size([3, 560, 800])
    """
    _check_dtype(dtype)
    return tensor_from_numpy(read_img_as_numpy(img_path), dtype)


def decode_img_as_tensor(img_content: bytes, dtype: torch.dtype = torch.float32) -> Tensor:
    """Decode the bytes of an image file to a tensor. If it contains several images, decode the first.

    Args:
        img_content: The bytes of the whole file.
        dtype: ``torch.uint8``, ``torch.float16`` or ``torch.float32``. For float types, values are divided by 255.

    Returns:
        The image (3, H, W), RGB, of type ``dtype``.

    Raises:
        SourceTypeError: if ``img_content`` is a path.
        MediaTensorError: if the image cannot be decoded, or ``dtype`` is not supported; see `read_img_as_tensor`.

    Example:
        >>> from pathlib import Path
        >>> from mediatensor.ocr.io import decode_img_as_tensor
        >>> decode_img_as_tensor(Path("page.png").read_bytes()).shape
        torch.Size([3, 560, 800])
    """
    if isinstance(img_content, (str, os.PathLike)):
        raise SourceTypeError(
            f"img_content should be the bytes of an image file (got {type(img_content).__name__}); "
            "use read_img_as_tensor for a path."
        )
    return read_img_as_tensor(img_content, dtype)


def tensor_from_pil(pil_img: Image.Image, dtype: torch.dtype = torch.float32) -> Tensor:
    """Convert a Pillow image to a tensor with the same channels. Palette indices become colours.

    Args:
        pil_img: The image. Its samples must have at most 8 bits, or be 16-bit gray.
        dtype: ``torch.uint8``, ``torch.float16`` or ``torch.float32``. For float types, values are divided by 255.

    Returns:
        The image (C, H, W), of type ``dtype``.

    Raises:
        SourceTypeError: if ``pil_img`` is not a Pillow image.
        InvalidArgumentError: if the image has samples of another type, or ``dtype`` is not supported.

    Example:
        >>> from PIL import Image
        >>> from mediatensor.ocr.io import tensor_from_pil
        >>> tensor_from_pil(Image.new("RGB", (6, 4), (255, 0, 51)))[:, 0, 0].tolist()
        [1.0, 0.0, 0.20000000298023224]
    """
    if not isinstance(pil_img, Image.Image):
        raise SourceTypeError(f"pil_img should be a PIL.Image.Image (got {type(pil_img).__name__}).")
    if pil_img.mode.startswith("I;16"):
        return tensor_from_numpy(((np.asarray(pil_img).astype(np.uint32) + 128) // 257).astype(np.uint8), dtype)
    if pil_img.mode in ("I", "F"):
        raise InvalidArgumentError(
            f"pil_img has mode {pil_img.mode!r}, whose range of values is unknown; convert it to 'L' first."
        )
    if pil_img.mode in ("P", "PA"):
        is_opaque = pil_img.mode == "P" and "transparency" not in pil_img.info
        pil_img = pil_img.convert("RGB" if is_opaque else "RGBA")
    return tensor_from_numpy(np.array(pil_img.convert("L") if pil_img.mode == "1" else pil_img), dtype)


def tensor_from_numpy(npy_img: NDArray[Any], dtype: torch.dtype = torch.float32) -> Tensor:
    """Convert an array to a tensor with the channels first.

    Args:
        npy_img: The image (H, W, C) or (H, W), uint8 or floating point. Floating-point values are not scaled.
        dtype: ``torch.uint8``, ``torch.float16`` or ``torch.float32``. For float types, uint8 values are divided by
            255.

    Returns:
        A copy of the image (C, H, W), of type ``dtype``, contiguous.

    Raises:
        SourceTypeError: if ``npy_img`` is not an array.
        InvalidArgumentError: if the dtype or shape of the array, or ``dtype``, is not supported.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from mediatensor.ocr.io import tensor_from_numpy
        >>> tensor_from_numpy(np.zeros((4, 6, 3), np.uint8), torch.float16).shape
        torch.Size([3, 4, 6])
    """
    _check_dtype(dtype)
    if not isinstance(npy_img, np.ndarray):
        raise SourceTypeError(f"npy_img should be a numpy array (got {type(npy_img).__name__}).")
    is_bytes = npy_img.dtype == np.uint8
    if npy_img.ndim not in (2, 3) or not (is_bytes or (npy_img.dtype.kind == "f" and dtype != torch.uint8)):
        raise InvalidArgumentError(
            f"npy_img should be (H, W, C) or (H, W) of uint8, or of floating point for a result of floating point "
            f"(got {npy_img.dtype} of shape {npy_img.shape}, for {dtype})."
        )
    planes = npy_img[None] if npy_img.ndim == 2 else npy_img.transpose(2, 0, 1)
    tensor = torch.from_numpy(planes.copy(order="C")).to(dtype)
    return tensor.div_(255) if is_bytes and dtype != torch.uint8 else tensor


def get_img_shape(img: Tensor) -> tuple[int, int]:
    """Return (height, width) of an image (C, H, W).

    >>> import torch
    >>> from mediatensor.ocr.io import get_img_shape
    >>> get_img_shape(torch.zeros(3, 4, 6))
    (4, 6)
    """
    height, width = img.shape[-2:]
    return int(height), int(width)


def _check_dtype(dtype: object) -> None:
    if dtype not in _DTYPES:
        raise InvalidArgumentError(f"dtype = {dtype} should be torch.uint8, torch.float16 or torch.float32.")
