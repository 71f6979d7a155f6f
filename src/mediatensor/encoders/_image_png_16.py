"""Writing PNG files of 16 bits a sample, which Pillow cannot."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["encode_png_16"]

_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
_NONE, _SUB, _UP = 0, 1, 2


def encode_png_16(pixels: NDArray[np.uint16], compression_level: int) -> bytes:
    """A PNG file.

    Args:
        pixels: (H, W, C), C being 1 to 4.
        compression_level: Of zlib, 0 to 9.
    """
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 16, _COLOR_TYPES[channels], 0, 0, 0)
    compressor = zlib.compressobj(compression_level)
    compressed = [compressor.compress(line) for line in _filtered_lines(pixels)]
    contents = b"".join([*compressed, compressor.flush()])
    return b"".join([b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", header), _chunk(b"IDAT", contents), _chunk(b"IEND", b"")])


def _chunk(kind: bytes, contents: bytes) -> bytes:
    return b"".join(
        [struct.pack(">I", len(contents)), kind, contents, struct.pack(">I", zlib.crc32(contents, zlib.crc32(kind)))]
    )


def _filtered_lines(pixels: NDArray[np.uint16]) -> Iterator[bytes]:
    """Each line with the filter that leaves the smallest differences, the usual guess at what compresses best."""
    pixel_bytes = 2 * pixels.shape[2]
    above = np.zeros(pixels.shape[1] * pixel_bytes, np.uint8)
    for row in pixels:
        line = row.astype(">u2").reshape(-1).view(np.uint8)
        left = np.concatenate([np.zeros(pixel_bytes, np.uint8), line[:-pixel_bytes]])
        options = {_NONE: line, _SUB: line - left, _UP: line - above}
        kind = min(options, key=lambda option: int(np.abs(options[option].view(np.int8).astype(np.int16)).sum()))
        yield bytes([kind]) + options[kind].tobytes()
        above = line
