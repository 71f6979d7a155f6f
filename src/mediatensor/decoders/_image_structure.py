"""What the structure of a JPEG or WebP file says, without decoding: is it whole, and what will it cost?

Pillow fills up what is missing if a program has set ``ImageFile.LOAD_TRUNCATED_IMAGES``; what is checked here does not
depend on that.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = ["MAX_JPEG_SCANS", "DamagedImageError", "JpegFacts", "jpeg_facts", "webp_canvas"]

# Each scan of a progressive JPEG goes over the whole picture again, however few bytes it has.
MAX_JPEG_SCANS = 500

_NO_LENGTH = frozenset((0x01, *range(0xD0, 0xD8)))
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE = frozenset((0xC2, 0xC6, 0xCA, 0xCE))
_START_OF_SCAN, _END_OF_IMAGE, _APP1 = 0xDA, b"\xff\xd9", 0xE1


class DamagedImageError(Exception):
    """Internal: the file is damaged or incomplete; the text says how."""


class JpegFacts(NamedTuple):
    """What the headers of a JPEG file say.

    Attributes:
        exif: The EXIF data, if there is any.
    """

    exif: bytes | None


def jpeg_facts(data: bytes) -> JpegFacts:
    """Read the headers of a JPEG file and check that it has an end.

    Raises:
        DamagedImageError: if the file is cut, or has more scans than a decoder should go through.
    """
    exif = None
    num_components = 0
    at = 2
    while True:
        at = data.find(b"\xff", at)
        while at >= 0 and data[at + 1 : at + 2] == b"\xff":
            at += 1
        if at < 0 or at + 10 > len(data):
            raise DamagedImageError(f"it ends within its headers, after {len(data)} bytes")
        marker = data[at + 1]
        if marker in _NO_LENGTH or marker == 0:
            at += 2
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == _START_OF_SCAN:
            # One that has all components is the only one, unless the file is progressive.
            has_many_scans = num_components != data[at + 4]
            break
        if marker in _START_OF_FRAME and length > 7:
            num_components = 0 if marker in _PROGRESSIVE else data[at + 9]
        if marker == _APP1 and exif is None and data[at + 4 : at + 10] == b"Exif\0\0":
            exif = data[at + 4 : at + 2 + length]
        at += 2 + length
    if data.rfind(_END_OF_IMAGE) < at:
        raise DamagedImageError(f"it has no end: {len(data)} bytes are not the whole file")
    # Within a scan this pair of bytes does not occur; before it, thumbnails may have some.
    num_scans = data.count(bytes((0xFF, _START_OF_SCAN)), at) if has_many_scans else 1
    if num_scans > MAX_JPEG_SCANS:
        raise DamagedImageError(f"it has {num_scans} scans, more than the {MAX_JPEG_SCANS} that are accepted")
    return JpegFacts(exif)


def webp_canvas(data: bytes) -> tuple[int, int]:
    """(width, height) in pixels that a WebP decoder will allocate.

    Raises:
        DamagedImageError: if the file is cut or begins with no known chunk.

    >>> webp_canvas(b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + bytes(8) + bytes([9, 0, 0, 4, 0, 0]))
    (10, 5)
    """
    missing = int.from_bytes(data[4:8], "little") + 8 - len(data)
    if missing > 0:
        raise DamagedImageError(f"its last {missing} bytes are missing")
    chunk = data[12:16]
    if chunk == b"VP8X" and len(data) >= 30:
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if chunk == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if chunk == b"VP8 " and len(data) >= 30:
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise DamagedImageError(f"its first chunk is {chunk!r}, or cut")
