"""What the structure of a JPEG or WebP file says, without decoding: is it whole, and what will it cost?

Pillow fills up what is missing if a program has set ``ImageFile.LOAD_TRUNCATED_IMAGES``; what is checked here does not
depend on that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "MAX_JPEG_SCANS",
    "DamagedImageError",
    "JpegFacts",
    "jpeg_facts",
    "webp_canvas",
    "webp_with_alpha",
    "with_more_data",
]

# Each scan of a progressive JPEG goes over the whole picture again, however few bytes it has.
MAX_JPEG_SCANS = 500

_NO_LENGTH = frozenset((0x01, *range(0xD0, 0xD8)))
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE = frozenset((0xC2, 0xC6, 0xCA, 0xCE))
_START_OF_SCAN, _END_OF_IMAGE, _APP1, _RESTART_INTERVAL = 0xDA, b"\xff\xd9", 0xE1, 0xDD

# Flags of a WebP file.
_ANIMATION, _ALPHA = 0x02, 0x10

# 64 coefficients of a code of two bits and one bit.
_MAX_BYTES_OF_ZEROS_PER_BLOCK = 24


class DamagedImageError(Exception):
    """Internal: the file is damaged or incomplete; the text says how."""


class JpegFacts(NamedTuple):
    """What the headers of a JPEG file say.

    Attributes:
        exif: The EXIF data, if there is any.
        num_mcus: Minimum coded units of a scan that has all components.
        blocks_per_mcu: Blocks of 8x8 samples in each.
        restart_interval: How many lie between restart markers; 0 if there are none.
    """

    exif: bytes | None
    num_mcus: int
    blocks_per_mcu: int
    restart_interval: int


def jpeg_facts(data: bytes) -> JpegFacts:
    """Read the headers of a JPEG file and check that it has an end.

    Raises:
        DamagedImageError: if the file is cut, or has more scans than a decoder should go through.
    """
    exif = None
    num_components = num_mcus = blocks_per_mcu = restart_interval = 0
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
            num_mcus, blocks_per_mcu = _mcus(data[at + 5 : at + 2 + length])
        if marker == _RESTART_INTERVAL and length == 4:
            restart_interval = int.from_bytes(data[at + 4 : at + 6], "big")
        if marker == _APP1 and exif is None and data[at + 4 : at + 10] == b"Exif\0\0":
            exif = data[at + 4 : at + 2 + length]
        at += 2 + length
    if data.rfind(_END_OF_IMAGE) < at:
        raise DamagedImageError(f"it has no end: {len(data)} bytes are not the whole file")
    # Within a scan this pair of bytes does not occur; before it, thumbnails may have some.
    num_scans = data.count(bytes((0xFF, _START_OF_SCAN)), at) if has_many_scans else 1
    if num_scans > MAX_JPEG_SCANS:
        raise DamagedImageError(f"it has {num_scans} scans, more than the {MAX_JPEG_SCANS} that are accepted")
    return JpegFacts(exif, num_mcus, blocks_per_mcu, restart_interval)


def _mcus(frame: bytes) -> tuple[int, int]:
    """(how many minimum coded units, blocks in each), from a frame header behind its precision."""
    height, width = struct.unpack_from(">HH", frame)
    factors = [(factor >> 4, factor & 15) for factor in frame[6::3]]
    columns, rows = (max((pair[axis] for pair in factors), default=1) or 1 for axis in (0, 1))
    return -(-width // (8 * columns)) * -(-height // (8 * rows)), sum(across * down for across, down in factors)


def with_more_data(data: bytes, facts: JpegFacts) -> Iterator[bytes]:
    """A JPEG file with enough data for a whole picture put in before its end, in several ways.

    If that makes it sound, then nothing was wrong but that its own data ended too early. Zero bits are codes in every
    Huffman table; what differs is what they make of the code that the end may have cut.
    """
    end = data.rfind(_END_OF_IMAGE)
    before = data[:end]
    interval = facts.restart_interval or facts.num_mcus
    zeros = bytes(interval * facts.blocks_per_mcu * _MAX_BYTES_OF_ZEROS_PER_BLOCK)
    num_restarts = facts.num_mcus // interval if facts.restart_interval else 0
    last = max((before.rfind(bytes((0xFF, 0xD0 + number))), number) for number in range(8))
    first = last[1] + 1 if last[0] >= 0 else 0
    more = b"".join([zeros, *(bytes((0xFF, 0xD0 + (first + number) % 8)) + zeros for number in range(num_restarts))])
    for junction in (b"", b"\x2a", b"\x55", b"\x7f\x80", b"\xaa", b"\x99\x66"):
        yield before + junction + more + data[end:]


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


def webp_with_alpha(data: bytes) -> bytes | None:
    """An animated WebP file as if it said that there is alpha; ``None`` if it does, or is no animation.

    >>> file = b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes([2, 0, 0, 0]) + bytes(6)
    >>> (webp_with_alpha(file) or b"")[20]
    18
    """
    flags = data[20] if data[12:16] == b"VP8X" else 0
    if flags & (_ANIMATION | _ALPHA) != _ANIMATION:
        return None
    return data[:20] + bytes((flags | _ALPHA,)) + data[21:]
