"""Small image files of every kind, and what their pixels are; the PNG and APNG files are written without a library."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Any

import av
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

__all__ = [
    "ORIENTATIONS",
    "PNG_KINDS",
    "apng",
    "avif_of_10_bits",
    "chunk",
    "compressed",
    "encoded",
    "exif",
    "hwc",
    "jpeg_claiming",
    "picture",
    "png",
    "png_claiming",
    "samples",
]

# (colour type, bit depth): everything that PNG has.
PNG_KINDS = [(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 1), (3, 2), (3, 4), (3, 8)]
PNG_KINDS += [(4, 8), (4, 16), (6, 8), (6, 16)]

# (first column, first row, columns apart, rows apart) of the seven passes of an interlaced file.
_PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]

# Functions that turn an image (H, W, C) of each EXIF orientation upright, in the words of the standard: where row 0 and
# column 0 of the stored image are in the visual image.
ORIENTATIONS = {
    1: lambda stored: stored,  # top, left
    2: np.fliplr,  # top, right
    3: lambda stored: np.rot90(stored, 2),  # bottom, right
    4: np.flipud,  # bottom, left
    5: lambda stored: stored.transpose(1, 0, 2),  # left, top
    6: lambda stored: np.rot90(stored, -1),  # right, top
    7: lambda stored: np.rot90(stored, 2).transpose(1, 0, 2),  # right, bottom
    8: lambda stored: np.rot90(stored, 1),  # left, bottom
}


def picture(height: int = 23, width: int = 37, channels: int = 3) -> NDArray[np.uint8]:
    """A smooth picture with a bit of noise, no two rows or columns alike: (H, W, C) uint8."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(0).integers(0, 24, (height, width, channels))
    waves = [110 + 100 * np.sin(x / (7 + 3 * channel) + y / (11 - 2 * channel)) for channel in range(channels)]
    return (np.stack(waves, axis=-1) + noise).clip(0, 255).astype(np.uint8)


def hwc(image: torch.Tensor) -> NDArray[Any]:
    """Pixels (..., H, W, C) of an image or an animation."""
    return image.movedim(-3, -1).numpy()


def samples(channels: int, depth: int, height: int = 11, width: int = 13) -> NDArray[np.uint16]:
    """Random samples (H, W, C), the smallest and the largest among them."""
    pixels = np.random.default_rng(depth).integers(0, 1 << depth, (height, width, channels), np.uint16)
    pixels[0, 0], pixels[-1, -1] = 0, (1 << depth) - 1
    return pixels


def encoded(pixels: NDArray[Any] | Image.Image, kind: str, **options: Any) -> bytes:
    """A file written by Pillow."""
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels.squeeze())
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def avif_of_10_bits(height: int = 64, width: int = 80, **tags: int) -> bytes:
    """An AVIF file of 10 bits with chroma of half the size, by FFmpeg; tags, such as ``colorspace``, are PyAV's."""
    os.environ.setdefault("SVT_LOG", "1")
    y, x = np.mgrid[0:height, 0:width]
    planes = [500 + 420 * np.sin(x / 9 + y / 13), 400 + 6 * y[::2, ::2] + 2 * x[::2, ::2], 700 - 5 * x[::2, ::2]]
    file = io.BytesIO()
    with av.open(file, "w", format="avif") as container:
        stream: Any = container.add_stream("libsvtav1", rate=1)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p10le"
        stream.codec_context.options = {"crf": "20", "preset": "12"}
        frame: Any = av.VideoFrame(width, height, "yuv420p10le")
        for plane, values in zip(frame.planes, planes, strict=True):
            lines = np.frombuffer(plane, np.uint16).reshape(-1, plane.line_size // 2)
            lines[:, : values.shape[1]] = values
        for target in (stream.codec_context, frame):
            for tag, value in tags.items():
                setattr(target, tag, value)
        container.mux([*stream.encode(frame), *stream.encode(None)])
    return file.getvalue()


def exif(orientation: int, order: str = "<") -> bytes:
    """EXIF data with nothing but an orientation."""
    entry = struct.pack(f"{order}HHIHH", 0x0112, 3, 1, orientation, 0)
    begin = b"II*\0" if order == "<" else b"MM\0*"
    return b"Exif\0\0" + begin + struct.pack(f"{order}IH", 8, 1) + entry + bytes(4)


def chunk(kind: bytes, contents: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(contents)) + kind + contents + struct.pack(">I", zlib.crc32(kind + contents))


def png(
    pixels: NDArray[Any],
    color_type: int,
    depth: int,
    *,
    interlaced: bool = False,
    extra: Iterable[bytes] = (),
    filters: Sequence[int] = (0, 1, 2, 3, 4),
) -> bytes:
    """A PNG file of samples (H, W, C); ``extra`` are chunks before them, ``filters`` those of the rows, in turn."""
    height, width = pixels.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, int(interlaced))
    data = compressed(pixels, depth, interlaced=interlaced, filters=filters)
    chunks = [chunk(b"IHDR", header), *extra, chunk(b"IDAT", data[:40]), chunk(b"IDAT", data[40:]), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def compressed(pixels: NDArray[Any], depth: int, *, interlaced: bool = False, filters: Sequence[int] = (0,)) -> bytes:
    """The pixels as they are in the data chunks."""
    passes = [pixels[y::dy, x::dx] for x, y, dx, dy in _PASSES] if interlaced else [pixels]
    lines = b"".join(_filtered(part, depth, filters) for part in passes if part.size)
    return zlib.compress(lines)


def _filtered(pixels: NDArray[Any], depth: int, filters: Sequence[int]) -> bytes:
    size = max(1, depth * pixels.shape[2] // 8)
    above, lines = None, b""
    for row, kind in zip(pixels, cycle(filters), strict=False):
        line = _packed(row.ravel(), depth)
        above = bytes(len(line)) if above is None else above
        left, corner = bytes(size) + line, bytes(size) + above
        guesses = [_guess(kind, a, b, c) for a, b, c in zip(left, above, corner, strict=False)]
        lines += bytes([kind]) + bytes((value - guess) % 256 for value, guess in zip(line, guesses, strict=True))
        above = line
    return lines


def _packed(row: NDArray[Any], depth: int) -> bytes:
    if depth == 16:
        return row.astype(">u2").tobytes()
    bits = "".join(f"{sample:0{depth}b}" for sample in row.tolist())
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))


def _guess(kind: int, left: int, above: int, corner: int) -> int:
    paeth = min((left, above, corner), key=lambda value: abs(left + above - corner - value))
    return (0, left, above, (left + above) // 2, paeth)[kind]


def apng(
    size: tuple[int, int],
    frames: Sequence[tuple[NDArray[Any], int, int, int, int]],
    color_type: int,
    depth: int = 8,
    default: NDArray[Any] | None = None,
) -> bytes:
    """An animated PNG file of (height, width).

    Args:
        frames: (samples, left, top, dispose, blend).
        default: Image for viewers without animations, if it is not the first frame.
    """
    parts = [(*pixels.shape[:2], *place, compressed(pixels, depth)) for pixels, *place in frames]
    return _animation(size, color_type, depth, parts, None if default is None else compressed(default, depth))


def _animation(
    size: tuple[int, int], color_type: int, depth: int, parts: Sequence[tuple[Any, ...]], default: bytes | None = None
) -> bytes:
    """The file of parts (height, width, left, top, dispose, blend, compressed pixels)."""
    chunks = [chunk(b"IHDR", struct.pack(">IIBBBBB", size[1], size[0], depth, color_type, 0, 0, 0))]
    chunks.append(chunk(b"acTL", struct.pack(">II", len(parts), 0)))
    if default is not None:
        chunks.append(chunk(b"IDAT", default))
    sequence = 0
    for number, (height, width, left, top, dispose, blend, data) in enumerate(parts):
        control = struct.pack(">IIIIIHHBB", sequence, width, height, left, top, 1, 10, dispose, blend)
        chunks.append(chunk(b"fcTL", control))
        if number == 0 and default is None:
            chunks.append(chunk(b"IDAT", data))
        else:
            sequence += 1
            chunks.append(chunk(b"fdAT", struct.pack(">I", sequence) + data))
        sequence += 1
    return b"\x89PNG\r\n\x1a\n" + b"".join([*chunks, chunk(b"IEND", b"")])


def png_claiming(width: int, height: int, num_frames: int = 1) -> bytes:
    """A few bytes that say they are a large PNG file."""
    row = zlib.compress(bytes(1000))
    if num_frames > 1:
        return _animation((height, width), 2, 8, [(height, width, 0, 0, 0, 0, row)] * num_frames)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", row) + chunk(b"IEND", b"")


def jpeg_claiming(width: int, height: int) -> bytes:
    """A small JPEG file whose header says that it is a large one."""
    data = bytearray(encoded(picture(8, 8), "JPEG"))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)
