"""Noticing from an FFV1 packet that it is damaged. Pure functions on bytes.

The codec conceals a damaged slice without a word: it copies the picture before, or leaves what was in memory, and no
setting makes it refuse the packet. But a slice ends with its own length and, by default, a checksum (RFC 9043, 4.9)::

    slice    first    second                            third      the lengths lead from the end of the packet to its
    packet   ─────────────────────────────────────────  ──────     beginning; a trailer is 8 bytes long with a checksum,
             data     data, length, status, checksum    ...        3 without
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

__all__ = ["slices_are_sound"]

_TRAILER_BYTES = 8
_LENGTH_BYTES = 3

# FFV1's CRC-32 takes the highest bit of a byte first, zlib's the lowest.
_MIRRORED = bytes(sum((byte >> bit & 1) << 7 - bit for bit in range(8)) for byte in range(256))
_ALL_BITS = 0xFFFFFFFF
# The register before a slice, mirrored: 0 in versions up to 3, and FFmpeg's own in version 4. After a slice with its
# checksum it is the same again.
_REGISTERS = (0, 0x5E31029E)


def slices_are_sound(packet: memoryview) -> bool:
    """Whether the slices of an FFV1 packet agree with their checksums.

    True, too, if there are none: then nothing is known. If the lengths of the slices do not fill the packet, it is for
    the codec to complain.

    >>> slices_are_sound(memoryview(b"damaged" + bytes([0, 0, 7, 0, 1, 2, 3, 4])))
    False
    >>> slices_are_sound(memoryview(b"without a checksum"))
    True
    """
    spans = list(_slice_spans(packet))
    if not spans or spans[-1][0] != 0:
        return True
    mirrored = memoryview(bytes(packet).translate(_MIRRORED))
    return any(
        all(_crc32(mirrored[start:stop], register) == register for start, stop in spans) for register in _REGISTERS
    )


def _slice_spans(packet: memoryview) -> Iterator[tuple[int, int]]:
    """Where slices start and stop, from the last to the first, as far as their lengths lead."""
    stop = len(packet)
    while stop >= _TRAILER_BYTES:
        trailer = stop - _TRAILER_BYTES
        start = trailer - int.from_bytes(packet[trailer : trailer + _LENGTH_BYTES], "big")
        if start < 0:
            return
        yield start, stop
        stop = start


def _crc32(data: memoryview, register: int) -> int:
    """The register after the data, without the inversions at either end that zlib adds."""
    return zlib.crc32(data, register ^ _ALL_BITS) ^ _ALL_BITS
