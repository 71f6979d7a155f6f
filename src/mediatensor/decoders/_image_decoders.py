"""The public functions that decode images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, BinaryIO, TypeAlias, TypedDict, Unpack, overload

import torch
from torch import Tensor

from .._engine.common import stages
from .._engine.common.checks import MAX_INT, check_max_pixels, whole_number
from .._engine.common.devices import checked_device, on_device, pinned_for
from .._engine.common.threads import get_num_threads, lease_threads, run_in_parallel, working
from .._engine.images.channels import ImageReadMode, check_mode, check_output_dtype
from .._engine.images.reading import MAX_PIXELS, decode, read_bytes

#: A source of an image: a path or URL, the bytes of a file, or an open binary file.
ImageSource: TypeAlias = str | os.PathLike[str] | bytes | bytearray | Tensor | BinaryIO
ImageSources: TypeAlias = list[ImageSource] | tuple[ImageSource, ...]
Mode: TypeAlias = str | ImageReadMode
OutputDtype: TypeAlias = torch.dtype | str


class ImageOptions(TypedDict, total=False):
    """The keyword arguments that all image decoders accept, declared for type checkers."""

    mode: Mode
    output_dtype: OutputDtype
    device: Any
    max_pixels: int | None


class AvifOptions(ImageOptions, total=False):
    num_threads: int


@overload
def decode_image(source: ImageSource, **options: Unpack[ImageOptions]) -> Tensor: ...
@overload
def decode_image(source: ImageSources, **options: Unpack[ImageOptions]) -> list[Tensor]: ...
def decode_image(
    source: ImageSource | list[ImageSource] | tuple[ImageSource, ...],
    *,
    mode: Mode = "RGB",
    output_dtype: OutputDtype = torch.uint8,
    device: Any = "cpu",
    max_pixels: int | None = MAX_PIXELS,
) -> Tensor | list[Tensor]:
    """Decode an image file: JPEG, PNG, WebP, GIF, AVIF, HEIC or BMP.

    The format is recognised by the first bytes of a file, not by its name. Images are turned upright according to their
    EXIF orientation or, for AVIF and HEIC, the container's orientation. Each image of an animation is returned as a
    viewer shows it, combined with the earlier images. Colour profiles are not applied. Truncated and visibly damaged
    files raise an error. JPEG, WebP and AVIF have no checksums, so a few changed bytes can go unnoticed. For example,
    libjpeg reports no error as long as the file has enough data for the whole image.

    Args:
        source: A path or URL (``str``), a ``pathlib.Path``, the ``bytes`` (or ``bytearray``) of a file, these bytes as
            a 1-D uint8 tensor on the CPU, or a binary file object, which is read from its beginning. The elements of a
            list or tuple are decoded in parallel, with at most as many threads as `mediatensor.set_num_threads` allows.
        mode: The channels of the result, see `ImageReadMode`: "RGB" (the default), "GRAY", "GRAY_ALPHA", "RGB_ALPHA"
            (or "RGBA") or "UNCHANGED", in upper or lower case.
        output_dtype: ``torch.uint8`` (a 16-bit sample v becomes round(v / 257)), ``torch.uint16`` (an 8-bit sample v
            becomes 257 v), or "auto": uint16 for PNG, AVIF and HEIC with more than 8 bits per sample, else uint8.
        device: Device of the result; ``None`` for torch's default device. Images are always decoded on the CPU, and
            then copied. The copy to a CUDA device is asynchronous: it uses page-locked memory and the current CUDA
            stream.
        max_pixels: Largest accepted number of pixels of an image (width times height). Larger images are rejected
            before decoding. Files of several images are also rejected if the result would exceed ``16 * max_pixels``
            bytes. ``None`` means no limit. The default is the same number as in Pillow, 178,956,970, but
            ``PIL.Image.MAX_IMAGE_PIXELS`` is neither used nor changed.

    Returns:
        A contiguous tensor (C, H, W) on ``device``, or (N, C, H, W) if the file has several images. Its dtype is uint8
        or uint16, as ``output_dtype`` selects. For a list or tuple of sources, a list of tensors in the same order.

    Raises:
        OpenError: if the source is not an image of a supported format (in `decode_png`, of PNG, and so on), its headers
            are invalid, or it exceeds ``max_pixels``.
        DecodeError: if the file is damaged or incomplete.
        SourceTypeError, SourceNotFoundError, ReadError: if the source cannot be read.
        InvalidArgumentError: if the value of another argument is not accepted, or torch has no such device.
        DeviceError: if the device is CUDA and this process was forked from one that uses CUDA.
        MissingDependencyError: if a package for the format is missing.

    Example:
        >>> import torch
        >>> from mediatensor.decoders import decode_image
        >>> from mediatensor.encoders import PngEncoder
        >>> file = PngEncoder(torch.zeros(3, 4, 6, dtype=torch.uint8)).to_tensor()
        >>> decode_image(file).shape
        torch.Size([3, 4, 6])
        >>> [image.shape for image in decode_image([file, file], mode="gray")]
        [torch.Size([1, 4, 6]), torch.Size([1, 4, 6])]
    """
    return _decode(None, source, mode, output_dtype, device, max_pixels)


@overload
def decode_jpeg(source: ImageSource, **options: Unpack[ImageOptions]) -> Tensor: ...
@overload
def decode_jpeg(source: ImageSources, **options: Unpack[ImageOptions]) -> list[Tensor]: ...
def decode_jpeg(
    source: ImageSource | list[ImageSource] | tuple[ImageSource, ...],
    *,
    mode: Mode = "RGB",
    output_dtype: OutputDtype = torch.uint8,
    device: Any = "cpu",
    max_pixels: int | None = MAX_PIXELS,
) -> Tensor | list[Tensor]:
    """Decode a JPEG file, and turn the image upright by its EXIF orientation.

    If the file has several images (MPO), the first is decoded. With mode "UNCHANGED", a CMYK file gives four channels,
    one for each ink. Arguments, results and errors are as in `decode_image`.

    Example:
        >>> import torch
        >>> from mediatensor.decoders import decode_jpeg
        >>> from mediatensor.encoders import JpegEncoder
        >>> decode_jpeg(JpegEncoder(torch.zeros(3, 4, 6, dtype=torch.uint8)).to_tensor()).shape
        torch.Size([3, 4, 6])
    """
    return _decode("jpeg", source, mode, output_dtype, device, max_pixels)


@overload
def decode_png(source: ImageSource, **options: Unpack[ImageOptions]) -> Tensor: ...
@overload
def decode_png(source: ImageSources, **options: Unpack[ImageOptions]) -> list[Tensor]: ...
def decode_png(
    source: ImageSource | list[ImageSource] | tuple[ImageSource, ...],
    *,
    mode: Mode = "RGB",
    output_dtype: OutputDtype = torch.uint8,
    device: Any = "cpu",
    max_pixels: int | None = MAX_PIXELS,
) -> Tensor | list[Tensor]:
    """Decode a PNG file of any kind: palette, 1 to 16 bits, interlaced, animated.

    A wrong checksum in the file raises `DecodeError`. Arguments, results and errors are as in `decode_image`.

    Example:
        >>> import torch
        >>> from mediatensor.decoders import decode_png
        >>> from mediatensor.encoders import PngEncoder
        >>> image = (torch.arange(24).reshape(1, 4, 6) * 2800).to(torch.uint16)
        >>> file = PngEncoder(image).to_tensor()
        >>> torch.equal(decode_png(file, mode="UNCHANGED", output_dtype="auto"), image)
        True
    """
    return _decode("png", source, mode, output_dtype, device, max_pixels)


@overload
def decode_webp(source: ImageSource, **options: Unpack[ImageOptions]) -> Tensor: ...
@overload
def decode_webp(source: ImageSources, **options: Unpack[ImageOptions]) -> list[Tensor]: ...
def decode_webp(
    source: ImageSource | list[ImageSource] | tuple[ImageSource, ...],
    *,
    mode: Mode = "RGB",
    output_dtype: OutputDtype = torch.uint8,
    device: Any = "cpu",
    max_pixels: int | None = MAX_PIXELS,
) -> Tensor | list[Tensor]:
    """Decode a WebP file: lossy, lossless or animated.

    Arguments, results and errors are as in `decode_image`.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> from mediatensor.decoders import decode_webp
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (32, 24)).save(file, "webp")
        >>> decode_webp(file.getvalue()).shape
        torch.Size([3, 24, 32])
    """
    return _decode("webp", source, mode, output_dtype, device, max_pixels)


@overload
def decode_gif(source: ImageSource, **options: Unpack[ImageOptions]) -> Tensor: ...
@overload
def decode_gif(source: ImageSources, **options: Unpack[ImageOptions]) -> list[Tensor]: ...
def decode_gif(
    source: ImageSource | list[ImageSource] | tuple[ImageSource, ...],
    *,
    mode: Mode = "RGB",
    output_dtype: OutputDtype = torch.uint8,
    device: Any = "cpu",
    max_pixels: int | None = MAX_PIXELS,
) -> Tensor | list[Tensor]:
    """Decode a GIF file.

    With mode "UNCHANGED", the result has an alpha channel if an image has a transparent colour or does not cover the
    whole canvas. Arguments, results and errors are as in `decode_image`.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> from mediatensor.decoders import decode_gif
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (32, 24)).save(file, "gif")
        >>> decode_gif(file.getvalue()).shape
        torch.Size([3, 24, 32])
    """
    return _decode("gif", source, mode, output_dtype, device, max_pixels)


@overload
def decode_avif(source: ImageSource, **options: Unpack[AvifOptions]) -> Tensor: ...
@overload
def decode_avif(source: ImageSources, **options: Unpack[AvifOptions]) -> list[Tensor]: ...
def decode_avif(
    source: ImageSource | list[ImageSource] | tuple[ImageSource, ...],
    *,
    mode: Mode = "RGB",
    output_dtype: OutputDtype = torch.uint8,
    num_threads: int = 1,
    device: Any = "cpu",
    max_pixels: int | None = MAX_PIXELS,
) -> Tensor | list[Tensor]:
    """Decode an AVIF file. Needs Pillow 11.3 or newer.

    Samples of 10 and 12 bits are scaled to 16 bits, unless ``output_dtype`` is ``torch.uint8``. Files whose images
    consist of tiles are always decoded with 8 bits per sample. Other arguments, results and errors are as in
    `decode_image`.

    Args:
        num_threads: Number of threads of the AV1 decoder, at least 1.
    """
    num_threads = whole_number("num_threads", num_threads, at_least=1, at_most=MAX_INT)
    return _decode("avif", source, mode, output_dtype, device, max_pixels, num_threads)


@overload
def decode_heic(source: ImageSource, **options: Unpack[ImageOptions]) -> Tensor: ...
@overload
def decode_heic(source: ImageSources, **options: Unpack[ImageOptions]) -> list[Tensor]: ...
def decode_heic(
    source: ImageSource | list[ImageSource] | tuple[ImageSource, ...],
    *,
    mode: Mode = "RGB",
    output_dtype: OutputDtype = torch.uint8,
    device: Any = "cpu",
    max_pixels: int | None = MAX_PIXELS,
) -> Tensor | list[Tensor]:
    """Decode a HEIC file. Needs pillow-heif, which the extra ``heic`` installs.

    Arguments, results and errors are as in `decode_image`.
    """
    return _decode("heic", source, mode, output_dtype, device, max_pixels)


def _decode(
    kind: str | None,
    source: Any,
    mode: object,
    output_dtype: object,
    device: object,
    max_pixels: int | None,
    num_threads: int | None = None,
) -> Tensor | list[Tensor]:
    read_mode, dtype = check_mode(mode), check_output_dtype(output_dtype)
    target = checked_device(device)
    max_pixels = check_max_pixels(max_pixels)
    if num_threads is None:
        num_threads = 1 if isinstance(source, (list, tuple)) else get_num_threads()
    decode_bytes = partial(
        decode, kind=kind, mode=read_mode, dtype=dtype, max_pixels=max_pixels, num_threads=num_threads
    )

    def decode_one(one: object) -> Tensor:
        with stages.OPEN:
            data, name = read_bytes(one)
        with stages.DECODE:
            return pinned_for(target, decode_bytes(data, name))

    if isinstance(source, (list, tuple)):
        # Copy in this thread, because each thread that decodes has its own current CUDA stream.
        return [on_device(picture, target) for picture in _decode_all(source, decode_one)]
    with working():
        return on_device(decode_one(source), target)


def _decode_all(sources: Sequence[object], decode_one: Any) -> list[Tensor]:
    """Decode all sources in parallel, on the free threads within the limit of `mediatensor.set_num_threads`."""
    results: list[Tensor | None] = [None] * len(sources)

    def work(_: int, number: int) -> None:
        try:
            results[number] = decode_one(sources[number])
        except Exception as error:
            error.add_note(f"This was source {number} of the list.")
            raise

    with stages.DECODE, working():
        lease = lease_threads()
        try:
            run_in_parallel(range(max(1, min(lease.num_threads, len(sources)))), range(len(sources)), work)
        finally:
            lease.release()
    return [result for result in results if result is not None]
