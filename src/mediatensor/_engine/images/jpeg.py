"""Parse the headers of a JPEG file, and complete a file whose data end too early. Pure; no I/O."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from .formats import DamagedImageError

__all__ = ["MAX_JPEG_SCANS", "JpegHeaders", "completed_jpegs", "read_jpeg_headers"]

#: Largest number of scans in a JPEG. Even a small scan of a progressive JPEG takes time for the whole picture.
MAX_JPEG_SCANS = 500

_NO_LENGTH = frozenset((0x01, *range(0xD0, 0xD8)))
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE = frozenset((0xC2, 0xC6, 0xCA, 0xCE))
_START_OF_SCAN, _END_OF_IMAGE, _APP1, _RESTART_INTERVAL = 0xDA, b"\xff\xd9", 0xE1, 0xDD

# A block of zeros is at most 64 coefficients, with a code of two bits and one more bit each.
_MAX_BYTES_OF_ZEROS_PER_BLOCK = 24


class JpegHeaders(NamedTuple):
    """The parsed headers of a JPEG file.

    Attributes:
        exif: The EXIF data; ``None`` if there are none.
        num_mcus: Number of minimum coded units (MCUs) in a scan with all components.
        blocks_per_mcu: Blocks of 8x8 samples in each MCU.
        restart_interval: MCUs between two restart markers; 0 if there are no restart markers.
    """

    exif: bytes | None
    num_mcus: int
    blocks_per_mcu: int
    restart_interval: int


def read_jpeg_headers(data: bytes) -> JpegHeaders:
    """Parse the headers of a JPEG file up to its first scan, and check that the file has an end marker.

    Raises:
        DamagedImageError: if the file is truncated, or has more than `MAX_JPEG_SCANS`.
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
            # In a file that is not progressive, a scan with all components is the only scan.
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
    # These two bytes do not occur inside a scan, but thumbnails before the first scan may contain them.
    num_scans = data.count(bytes((0xFF, _START_OF_SCAN)), at) if has_many_scans else 1
    if num_scans > MAX_JPEG_SCANS:
        raise DamagedImageError(f"it has {num_scans} scans, more than the {MAX_JPEG_SCANS} that are accepted")
    return JpegHeaders(exif, num_mcus, blocks_per_mcu, restart_interval)


def _mcus(frame: bytes) -> tuple[int, int]:
    """Return (number of minimum coded units, blocks in each); ``frame`` is a frame header from its height on."""
    height, width = struct.unpack_from(">HH", frame)
    factors = [(factor >> 4, factor & 15) for factor in frame[6::3]]
    columns, rows = (max((pair[axis] for pair in factors), default=1) or 1 for axis in (0, 1))
    return -(-width // (8 * columns)) * -(-height // (8 * rows)), sum(across * down for across, down in factors)


def completed_jpegs(data: bytes, headers: JpegHeaders) -> Iterator[bytes]:
    """Yield versions of a JPEG file with data for a whole picture inserted before its end.

    If any version decodes without an error, the only damage to the file is that its data end too early. The inserted
    bits are zeros, which are valid codes in every Huffman table. The versions differ in the bits that complete the code
    at which the data may have been cut.
    """
    end = data.rfind(_END_OF_IMAGE)
    before = data[:end]
    interval = headers.restart_interval or headers.num_mcus
    zeros = bytes(interval * headers.blocks_per_mcu * _MAX_BYTES_OF_ZEROS_PER_BLOCK)
    num_restarts = headers.num_mcus // interval if headers.restart_interval else 0
    last = max((before.rfind(bytes((0xFF, 0xD0 + number))), number) for number in range(8))
    first = last[1] + 1 if last[0] >= 0 else 0
    more = b"".join([zeros, *(bytes((0xFF, 0xD0 + (first + number) % 8)) + zeros for number in range(num_restarts))])
    for junction in (b"", b"\x2a", b"\x55", b"\x7f\x80", b"\xaa", b"\x99\x66"):
        yield before + junction + more + data[end:]
