"""The image functions of `torchvision.io`."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..._engine.common.checks import path_text, shown
from ..._engine.common.devices import checked_device
from ..._engine.images.channels import ImageReadMode, check_mode
from ..._engine.images.formats import sniff
from ..._engine.images.reading import MAX_PIXELS, decode, read_bytes
from ..._engine.sources.output_files import write_file as write_whole_file
from ...encoders import JpegEncoder, PngEncoder
from ...errors import InvalidArgumentError, SourceTypeError
from ...isolate._worker import run_bounded

_UNCHANGED = ImageReadMode.UNCHANGED
Mode = ImageReadMode | str


def read_file(path: Any) -> Tensor:
    """Read a file, and return its bytes as a uint8 tensor (number of bytes,).

    Args:
        path: Path of the file.

    Raises:
        SourceNotFoundError, ReadError, OpenError: if the file cannot be read, or is empty.

    Example:
        >>> from mediatensor.compat.torchvision_io import read_file
        >>> read_file("page.png")[1:4].tolist()
        [80, 78, 71]
    """
    data, _ = read_bytes(path_text("path", path))
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def write_file(filename: Any, data: Tensor) -> None:
    """Write the bytes of a uint8 tensor (number of bytes,) to a file.

    Args:
        filename: Path of the file. An existing file is replaced.
        data: The bytes.

    Raises:
        InvalidArgumentError: if ``data`` is not a 1-D uint8 tensor.
        WriteError: if the file cannot be written.

    Example:
        >>> import torch
        >>> from mediatensor.compat.torchvision_io import read_file, write_file
        >>> write_file("bytes.bin", torch.tensor([1, 2, 3], dtype=torch.uint8))
        >>> read_file("bytes.bin")
        tensor([1, 2, 3], dtype=torch.uint8)
    """
    path = path_text("filename", filename)
    if not isinstance(data, Tensor) or data.dtype != torch.uint8 or data.ndim != 1:
        raise InvalidArgumentError(f"data must be a tensor (N,) of uint8 (got {shown(data)}).")
    write_whole_file(path, data.cpu().numpy().tobytes())


def read_image(
    path: Any,
    mode: Mode = _UNCHANGED,
    apply_exif_orientation: bool = False,
    *,
    timeout_seconds: float | None = None,
) -> Tensor:
    """Read and decode an image file; return a tensor (C, H, W), or (N, C, H, W) for an animation.

    All arguments, the dtype of the result and the errors are as in `decode_image`, except that ``path`` must be a path.

    Example:
        >>> from mediatensor.compat.torchvision_io import read_image
        >>> read_image("page.png").shape
        torch.Size([3, 560, 800])
    """
    return decode_image(path_text("path", path), mode, apply_exif_orientation, timeout_seconds=timeout_seconds)


def decode_image(
    input: Any,
    mode: Mode = _UNCHANGED,
    apply_exif_orientation: bool = False,
    *,
    timeout_seconds: float | None = None,
) -> Tensor:
    """Decode an image of any format.

    Args:
        input: The bytes of an image file as a uint8 tensor (number of bytes,), or the path of the file.
        mode: Channels of the result, as an `ImageReadMode` or its name, such as ``"RGB"``. By default, the result has
            the same channels as the file, except that GIF becomes RGB.
        apply_exif_orientation: Whether to turn the image upright according to its EXIF data.
        timeout_seconds: Time limit for decoding in seconds. With a limit, a separate process decodes. ``None`` means no
            limit.

    Returns:
        A tensor (C, H, W), or (N, C, H, W) for an animation of N images. Its dtype is uint16 if the file has more than
        8 bits per channel of a pixel, else uint8.

    Raises:
        OpenError, DecodeError: if the input is not an image, or is damaged.
        SourceTypeError, SourceNotFoundError, ReadError: if the input cannot be read.
        InvalidArgumentError: if ``mode`` is unknown.

    Example:
        >>> from mediatensor.compat.torchvision_io import decode_image, read_file
        >>> decode_image(read_file("page.png"), mode="GRAY").shape
        torch.Size([1, 560, 800])
    """
    return _decode(None, input, mode, apply_exif_orientation, timeout_seconds)


def decode_jpeg(
    input: Any,
    mode: Mode = _UNCHANGED,
    device: Any = "cpu",
    apply_exif_orientation: bool = False,
    *,
    timeout_seconds: float | None = None,
) -> Any:
    """Decode a JPEG file to a uint8 tensor (C, H, W). For a list of JPEG files, return a list of such tensors.

    Args:
        input: The bytes of a JPEG file as a uint8 tensor (number of bytes,), or the path of the file. Also a list of
            tensors and paths.
        mode: Channels of the result; see `decode_image`.
        device: Device on which to return the result. The file is always decoded on the CPU.
        apply_exif_orientation: Whether to turn the image upright according to its EXIF data.
        timeout_seconds: Time limit in seconds for each file; see `decode_image`.

    Raises:
        OpenError: if the input is not a JPEG file. For other errors, see `decode_image`.

    Example:
        >>> import torch
        >>> from mediatensor.compat.torchvision_io import decode_jpeg, encode_jpeg
        >>> decode_jpeg(encode_jpeg(torch.zeros(3, 4, 6, dtype=torch.uint8))).shape
        torch.Size([3, 4, 6])
    """
    target = checked_device(device)
    if isinstance(input, (list, tuple)):
        return [_decode("jpeg", one, mode, apply_exif_orientation, timeout_seconds).to(target) for one in input]
    return _decode("jpeg", input, mode, apply_exif_orientation, timeout_seconds).to(target)


def decode_png(
    input: Any,
    mode: Mode = _UNCHANGED,
    apply_exif_orientation: bool = False,
    *,
    timeout_seconds: float | None = None,
) -> Tensor:
    """Decode a PNG file to a tensor (C, H, W), or (N, C, H, W) for an animation.

    Arguments, the dtype of the result and errors are as in `decode_image`.

    Example:
        >>> from mediatensor.compat.torchvision_io import decode_png, read_file
        >>> decode_png(read_file("page.png")).shape
        torch.Size([3, 560, 800])
    """
    return _decode("png", input, mode, apply_exif_orientation, timeout_seconds)


def decode_gif(input: Any, *, timeout_seconds: float | None = None) -> Tensor:
    """Decode a GIF file to an RGB uint8 tensor (3, H, W), or (N, 3, H, W) for an animation of N images.

    Arguments and errors are as in `decode_image`.

    Example:
        >>> import io, torch
        >>> from PIL import Image
        >>> from mediatensor.compat.torchvision_io import decode_gif
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (32, 24)).save(file, "gif")
        >>> decode_gif(torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)).shape
        torch.Size([3, 24, 32])
    """
    return _decode("gif", input, "RGB", False, timeout_seconds)


def decode_webp(input: Any, mode: Mode = _UNCHANGED, *, timeout_seconds: float | None = None) -> Tensor:
    """Decode a WebP file to a tensor (C, H, W), or (N, C, H, W) for an animation.

    Arguments, the dtype of the result and errors are as in `decode_image`.

    Example:
        >>> from mediatensor.compat.torchvision_io import decode_webp, read_file
        >>> decode_webp(read_file("photo.webp")).shape  # doctest: +SKIP
        torch.Size([3, 24, 32])
    """
    return _decode("webp", input, mode, False, timeout_seconds)


def decode_avif(input: Any, mode: Mode = _UNCHANGED, *, timeout_seconds: float | None = None) -> Tensor:
    """Decode an AVIF file to a tensor (C, H, W), or (N, C, H, W) for an animation.

    Arguments, the dtype of the result and errors are as in `decode_image`.

    Example:
        >>> from mediatensor.compat.torchvision_io import decode_avif, read_file
        >>> decode_avif(read_file("photo.avif")).shape  # doctest: +SKIP
        torch.Size([3, 24, 32])
    """
    return _decode("avif", input, mode, False, timeout_seconds)


def decode_heic(input: Any, mode: Mode = _UNCHANGED, *, timeout_seconds: float | None = None) -> Tensor:
    """Decode a HEIC file to a tensor (C, H, W), or (N, C, H, W) for an animation.

    This needs the extra ``heic``. Arguments, the dtype of the result and errors are as in `decode_image`.

    Example:
        >>> from mediatensor.compat.torchvision_io import decode_heic, read_file
        >>> decode_heic(read_file("photo.heic")).shape  # doctest: +SKIP
        torch.Size([3, 24, 32])
    """
    return _decode("heic", input, mode, False, timeout_seconds)


def encode_jpeg(input: Any, quality: int = 75) -> Any:
    """Encode an image as JPEG, and return the bytes as a uint8 tensor (number of bytes,).

    Args:
        input: A uint8 tensor (C, H, W) with C = 1 (gray) or 3 (RGB), or a list of such tensors. For a list, the result
            is a list of byte tensors.
        quality: JPEG quality from 1 to 100.

    Raises:
        InvalidArgumentError: if ``input`` is not such an image, or ``quality`` is not between 1 and 100.

    Example:
        >>> import torch
        >>> from mediatensor.compat.torchvision_io import encode_jpeg
        >>> encode_jpeg(torch.zeros(1, 4, 6, dtype=torch.uint8), quality=90).dtype
        torch.uint8
    """
    if isinstance(input, (list, tuple)):
        return [JpegEncoder(picture).to_tensor(quality=quality) for picture in input]
    return JpegEncoder(input).to_tensor(quality=quality)


def write_jpeg(input: Tensor, filename: Any, quality: int = 75) -> None:
    """Write an image as a JPEG file.

    Args:
        input, quality: One image, and its quality; see `encode_jpeg`, also for errors.
        filename: Path of the file. An existing file is replaced.

    Raises:
        WriteError: if the file cannot be written.

    Example:
        >>> import torch
        >>> from mediatensor.compat.torchvision_io import read_image, write_jpeg
        >>> write_jpeg(torch.zeros(3, 4, 6, dtype=torch.uint8), "black.jpg")
        >>> read_image("black.jpg").shape
        torch.Size([3, 4, 6])
    """
    write_file(filename, encode_jpeg(input, quality))


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """Encode an image as PNG, and return the bytes as a uint8 tensor (number of bytes,).

    Args:
        input: A uint8 or uint16 tensor (C, H, W) with C = 1 (gray), 2 (gray and alpha), 3 (RGB) or 4 (RGB and alpha).
        compression_level: 0 (no compression) to 9 (smallest file, slowest).

    Raises:
        InvalidArgumentError: if ``input`` is not such an image, or ``compression_level`` is not between 0 and 9.

    Example:
        >>> import torch
        >>> from mediatensor.compat.torchvision_io import encode_png
        >>> encode_png(torch.zeros(1, 4, 6, dtype=torch.uint8)).dtype
        torch.uint8
    """
    return PngEncoder(input).to_tensor(compression_level=compression_level)


def write_png(input: Tensor, filename: Any, compression_level: int = 6) -> None:
    """Write an image as a PNG file.

    Args:
        input, compression_level: The image, and its compression; see `encode_png`, also for errors.
        filename: Path of the file. An existing file is replaced.

    Raises:
        WriteError: if the file cannot be written.

    Example:
        >>> import torch
        >>> from mediatensor.compat.torchvision_io import read_image, write_png
        >>> write_png(torch.zeros(1, 4, 6, dtype=torch.uint8), "black.png")
        >>> read_image("black.png").shape
        torch.Size([1, 4, 6])
    """
    write_file(filename, encode_png(input, compression_level))


def _decode(
    kind: str | None, input: Any, mode: Any, apply_exif_orientation: bool, timeout_seconds: float | None
) -> Tensor:
    if not isinstance(input, (Tensor, str)) and not hasattr(input, "__fspath__"):
        raise SourceTypeError(f"input must be a tensor (N,) of uint8 or a path (got {shown(input)}).")
    data, name = read_bytes(input)
    wanted = check_mode(mode)
    if wanted is _UNCHANGED and sniff(data) == "gif":
        wanted = ImageReadMode.RGB  # as in torchvision, without the transparency of GIF
    is_upright = bool(apply_exif_orientation)
    work = partial(decode, data, name, kind, wanted, None, MAX_PIXELS, is_upright=is_upright)
    return run_bounded(work, timeout_seconds)
