"""Decode image files to tensors: open them, and read their pixels in bands of rows, with a limit on their number.

FFmpeg decodes 16-bit PNG and AVIF of 10 and 12 bits, pillow-heif decodes HEIC, and Pillow decodes all other files. This
module uses Pillow's class for each format instead of ``Image.open``, whose pixel limit is a process-wide setting.
FFmpeg is used for AVIF of more than 8 bits because Pillow would reduce it to 8 bits. FFmpeg returns the planes as they
are stored, and `channels` converts them to RGB as defined in H.273.
"""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL
import torch
from numpy.typing import NDArray
from PIL import Image, features
from torch import Tensor

from ...errors import DecodeError, InvalidArgumentError, MediaTensorError, MissingDependencyError, OpenError
from ..common import buffers
from ..common.locks import ForkSafeLock
from ..common.pictures import Orientation
from ..pyav.whole_files import PlanarPicture, UndecodableImageError, avif_planes, decode_png_16, jpeg_is_damaged
from ..sources.source import make_readable_source, read_whole
from .channels import MATRICES, ImageReadMode, Layout, Planes, convert, rgb_16_bands, wanted_layout
from .formats import (
    MAX_PIXELS_ADVICE,
    DamagedImageError,
    avif_depth,
    completed_jpegs,
    exif_orientation,
    look_like,
    read_jpeg_headers,
    sniff,
    webp_canvas,
    webp_with_alpha,
)
from .png_gif import (
    GifFrame,
    PngFile,
    PngFrame,
    animation_layout,
    check_num_bytes,
    composed_frames,
    composed_gif,
    parse_gif,
    parse_png,
    single_gif,
    single_png,
)

#: The rows of one picture from top to bottom, as pairs (number of the first row, planes of some rows).
Bands = Iterator[tuple[int, Planes]]

# Bands have about this many pixels, so that they stay in the processor's cache while they are copied to the result.
_BAND_PIXELS = 1 << 18

_avif_lock = ForkSafeLock()

_LAYOUT_OF_MODE = {
    "1": Layout.GRAY,
    "L": Layout.GRAY,
    "LA": Layout.GRAY_ALPHA,
    "RGB": Layout.RGB,
    "RGBX": Layout.RGB,
    "RGBA": Layout.RGB_ALPHA,
    "CMYK": Layout.CMYK,
}

#: Default of `max_pixels`: Pillow's limit. A picture of this size has half a GiB at three bytes per pixel.
MAX_PIXELS = 178_956_970

#: Limit for the size of a result: this many bytes for each pixel of `max_pixels`.
MAX_BYTES_PER_PIXEL = 16


@dataclass(frozen=True)
class OpenedImage:
    """The properties of an image that are known before its pixels are decoded, and a function that decodes them."""

    width: int  # of a picture, before it is rotated
    height: int
    layout: Layout
    dtype: type[np.uint8] | type[np.uint16]
    read: Callable[[], Iterator[Bands]]  # decodes the pictures, and yields the bands of each picture
    num_frames: int = 1
    orientation: int = 1  # EXIF's number for how to rotate the pictures
    max_pixels: int = 0  # of the largest part that is decoded separately, which may be larger than the picture
    read_layout: Layout | None = None  # the channels that `read` returns, if they differ from `layout`


def open_image(
    kind: str,
    data: bytes,
    check_pixels: Callable[[int, int], None],
    *,
    wants_8_bits: bool = False,
    num_threads: int = 1,
) -> OpenedImage:
    """Open an image file whose format is ``kind``, one of `FORMATS`. This reads its headers, but decodes no pixels.

    ``check_pixels`` must raise if a picture of (columns, rows) is too large. It is called before this function creates
    a decoder that allocates a whole picture.

    Raises `MissingDependencyError`, `DamagedImageError`, or any exception that Pillow raises for headers that it cannot
    read.
    """
    if kind == "webp":
        check_pixels(*webp_canvas(data))
    if kind == "avif":
        return _open_avif(data, wants_8_bits=wants_8_bits, num_threads=num_threads)
    return _OPENERS[kind](data)


def _open_jpeg(data: bytes) -> OpenedImage:
    headers = read_jpeg_headers(data)
    image = _pillow("Jpeg", "jpg", data)

    def read() -> Iterator[Bands]:
        image.load()
        # If the file has wrong codes, and is not only truncated, its decoded pixels are used nevertheless.
        if (
            _has_flat_corner(image)
            and jpeg_is_damaged(data)
            and any(not jpeg_is_damaged(longer) for longer in completed_jpegs(data, headers))
        ):
            raise DamagedImageError("its data ends before the picture does")
        yield _bands(image, layout)

    layout = _LAYOUT_OF_MODE[image.mode]
    return OpenedImage(image.width, image.height, layout, np.uint8, read, orientation=exif_orientation(headers.exif))


def _has_flat_corner(image: Image.Image) -> bool:
    """Return whether the bottom right corner has one colour, with which libjpeg fills the missing part of a file."""
    width, height = image.size
    left, top = max((width - 1) // 8 * 8, width - 4), max((height - 1) // 8 * 8, height - 4)
    if image.getpixel((left, top)) != image.getpixel((width - 1, height - 1)):
        return False  # most pictures end here, which is much faster
    extrema: Any = image.crop((left, top, width, height)).getextrema()
    return all(least == most for least, most in (extrema if isinstance(extrema[0], tuple) else [extrema]))


def _open_png(data: bytes) -> OpenedImage:
    png = parse_png(data)
    is_animated = len(png.frames) > 1
    layout = animation_layout(png) if is_animated else png.layout
    dtype: type[np.uint8] | type[np.uint16] = np.uint16 if png.bit_depth == 16 else np.uint8

    def read() -> Iterator[Bands]:
        if not is_animated:
            yield _png_bands(data, png, png.frames[0])
            return
        for canvas in composed_frames(png, dtype, lambda frame: _joined(_png_bands(data, png, frame))):
            yield iter([(0, list(canvas[: layout.num_channels]))])

    orientation = exif_orientation(png.exif)
    return OpenedImage(png.width, png.height, layout, dtype, read, len(png.frames), orientation)


def _png_bands(data: bytes, png: PngFile, frame: PngFrame) -> Bands:
    alone = single_png(data, png, frame)
    colour = png.transparent_colour()
    stored = png.layout if colour is None else Layout(png.layout.value.removesuffix("A"))
    if png.bit_depth == 16:
        check_num_bytes(data, png, frame)
        pixels = decode_png_16(alone)
        if pixels.shape[2] == png.layout.num_channels != stored.num_channels:
            colour, stored = None, png.layout  # the codec has already applied the transparent colour
        bands = _array_bands(pixels)
    else:
        image = _pillow("Png", "zlib", alone)
        image.load()
        bands = _bands(image, stored)
    for top, planes in bands:
        yield top, planes if colour is None else [*planes, _alpha_of(planes, colour)]


def _alpha_of(planes: Planes, transparent: tuple[int, ...]) -> NDArray[Any]:
    """Return an alpha plane: 0 where a pixel has the transparent colour, opaque everywhere else."""
    differs = planes[0] != transparent[0]
    for plane, sample in zip(planes[1:], transparent[1:], strict=True):
        differs |= plane != sample
    opaque: NDArray[Any] = differs * planes[0].dtype.type(np.iinfo(planes[0].dtype).max)
    return opaque


def _open_gif(data: bytes) -> OpenedImage:
    gif = parse_gif(data)
    layout = gif.layout

    def indices(frame: GifFrame) -> NDArray[np.uint8]:
        image = _pillow("Gif", None, single_gif(data, frame))
        image.load()
        return _joined(_bands(image, Layout.GRAY))[0]

    def read() -> Iterator[Bands]:
        for canvas in composed_gif(gif, indices):
            yield iter([(0, list(canvas[: layout.num_channels]))])

    max_pixels = max(frame.width * frame.height for frame in gif.frames)
    return OpenedImage(gif.width, gif.height, layout, np.uint8, read, len(gif.frames), max_pixels=max_pixels)


def _open_webp(data: bytes) -> OpenedImage:
    # libwebp draws on a transparent canvas, but Pillow drops alpha unless a frame has alpha.
    with_alpha = webp_with_alpha(data)
    image = _pillow("WebP", "webp", with_alpha or data)
    read_layout, num_frames = _LAYOUT_OF_MODE[image.mode], int(getattr(image, "n_frames", 1))
    read = _frames_of(image, num_frames, read_layout)
    orientation = exif_orientation(image.info.get("exif"))
    layout = Layout.RGB if with_alpha else read_layout
    return OpenedImage(
        image.width, image.height, layout, np.uint8, read, num_frames, orientation, read_layout=read_layout
    )


def _open_avif(data: bytes, *, wants_8_bits: bool, num_threads: int) -> OpenedImage:
    with _avif_lock:
        plugin: Any = importlib.import_module("PIL.AvifImagePlugin")
        before = plugin.DEFAULT_MAX_THREADS  # a module-wide setting, because Pillow's decoder has no option for threads
        plugin.DEFAULT_MAX_THREADS = num_threads
        try:
            image = _pillow("Avif", "avif", data)
        finally:
            plugin.DEFAULT_MAX_THREADS = before
    layout, num_frames = _LAYOUT_OF_MODE[image.mode], int(image.n_frames)
    orientation = exif_orientation(image.info.get("exif"))
    if wants_8_bits or avif_depth(data) == 8:
        read = _frames_of(image, num_frames, layout)
        return OpenedImage(image.width, image.height, layout, np.uint8, read, num_frames, orientation)

    def read_16() -> Iterator[Bands]:
        try:
            pictures = avif_planes(
                data,
                image.size,
                num_frames,
                has_alpha=layout.has_alpha,
                matrices=MATRICES,
                num_threads=num_threads,
            )
        except UndecodableImageError:  # pictures in tiles, which libavif decodes to 8 bits
            for bands in _frames_of(image, num_frames, layout)():
                yield ((top, convert(planes, layout, layout, np.uint16)) for top, planes in bands)
            return
        for parts in zip(*pictures, strict=True):
            yield _rgb_16(parts, layout)

    return OpenedImage(image.width, image.height, layout, np.uint16, read_16, num_frames, orientation)


def _rgb_16(parts: Sequence[PlanarPicture], layout: Layout) -> Bands:
    """Convert an AVIF picture of more than 8 bits to 16 bits. A second part has its alpha, if there is any."""
    width = parts[0].planes[0].shape[1]
    num_rows = max(1, _BAND_PIXELS // width)
    num_colours = layout.num_channels - layout.has_alpha
    for bands in zip(*(rgb_16_bands(part, num_rows) for part in parts), strict=True):
        colours = bands[0][1] * (num_colours // len(bands[0][1]))
        yield bands[0][0], [*colours[:num_colours], *(planes[0] for _, planes in bands[1:])]


def _open_bmp(data: bytes) -> OpenedImage:
    image = _pillow("Bmp", None, data)
    layout = Layout.RGB if image.mode == "P" else _LAYOUT_OF_MODE[image.mode]

    def read() -> Iterator[Bands]:
        for decoder, _, offset, arguments in image.tile:
            if decoder == "raw" and offset + arguments[1] * image.height > len(data):
                raise DamagedImageError(f"it ends after {len(data)} bytes, before its last row")
        image.load()
        yield _bands(image, layout)

    return OpenedImage(image.width, image.height, layout, np.uint8, read)


def _open_heic(data: bytes) -> OpenedImage:
    try:
        heif = importlib.import_module("pillow_heif")
    except ImportError:
        raise MissingDependencyError('Decoding HEIC needs pillow-heif: pip install "mediatensor[heic]".') from None
    # pillow-heif is not registered as a plugin of Pillow, because this would affect other code in the process.
    pictures = list(heif.open_heif(io.BytesIO(data), convert_hdr_to_8bit=False, hdr_to_16bit=False))
    first = pictures[0]
    if any(picture.size != first.size for picture in pictures):
        sizes = ", ".join(f"{width}x{height}" for width, height in (picture.size for picture in pictures))
        raise DamagedImageError(f"its pictures have different sizes ({sizes}), which make no batch")
    depth = int(first.info["bit_depth"])
    layout = _LAYOUT_OF_MODE[first.mode.split(";")[0]]

    def read() -> Iterator[Bands]:
        for picture in pictures:
            pixels = np.asarray(picture)[:, : first.size[0]]
            pixels = pixels.reshape(*pixels.shape[:2], layout.num_channels)
            if depth != 8:
                largest = (1 << depth) - 1
                pixels = ((pixels.astype(np.uint32) * 65535 + largest // 2) // largest).astype(np.uint16)
            yield _array_bands(pixels)

    # libheif has already rotated the pictures.
    return OpenedImage(first.size[0], first.size[1], layout, np.uint8 if depth == 8 else np.uint16, read, len(pictures))


_OPENERS: dict[str, Callable[[bytes], OpenedImage]] = {
    "jpeg": _open_jpeg,
    "png": _open_png,
    "gif": _open_gif,
    "webp": _open_webp,
    "heic": _open_heic,
    "bmp": _open_bmp,
}


def _pillow(name: str, feature: str | None, data: bytes) -> Any:
    if feature is not None and not (feature in (*features.modules, *features.codecs) and features.check(feature)):
        raise MissingDependencyError(
            f"This Pillow ({PIL.__version__}) cannot decode {name}; the wheels of Pillow on PyPI can "
            "(AVIF from 11.3 on): pip install --upgrade pillow."
        )
    plugin = importlib.import_module(f"PIL.{name}ImagePlugin")
    return getattr(plugin, f"{name}ImageFile")(io.BytesIO(data))


def _frames_of(image: Any, num_frames: int, layout: Layout) -> Callable[[], Iterator[Bands]]:
    def read() -> Iterator[Bands]:
        for number in range(num_frames):
            image.seek(number)
            image.load()
            yield _bands(image, layout)

    return read


def _bands(image: Image.Image, layout: Layout) -> Bands:
    width, height = image.size
    num_rows = max(1, _BAND_PIXELS // width)
    for top in range(0, height, num_rows):
        is_all = num_rows >= height
        yield top, _planes(image if is_all else image.crop((0, top, width, min(height, top + num_rows))), layout)


def _planes(band: Image.Image, layout: Layout) -> Planes:
    if band.mode in ("P", "PA"):
        band = band.convert("RGBA" if layout.has_alpha else "RGB")
    width, height = band.size
    stored = _LAYOUT_OF_MODE[band.mode]
    if stored is Layout.GRAY_ALPHA:
        pixels = np.frombuffer(band.tobytes(), np.uint8).reshape(height, width, 2)
        planes = [pixels[..., 0], pixels[..., 1]]
    else:
        # Copy each channel separately: Pillow stores four bytes per pixel, and extracts channels faster than numpy.
        planes = [
            np.frombuffer(band.tobytes("raw", channel), np.uint8).reshape(height, width) for channel in stored.value
        ]
    return convert(planes, stored, layout, np.uint8)


def _array_bands(pixels: NDArray[Any]) -> Bands:
    num_rows = max(1, _BAND_PIXELS // pixels.shape[1])
    for top in range(0, len(pixels), num_rows):
        band = pixels[top : top + num_rows]
        yield top, [band[..., channel] for channel in range(pixels.shape[2])]


def _joined(bands: Bands) -> Planes:
    parts = [planes for _, planes in bands]
    return [np.concatenate(rows) for rows in zip(*parts, strict=True)]


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
