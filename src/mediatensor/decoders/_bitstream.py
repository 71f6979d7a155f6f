"""The few bits of a packet that say whether a frame will come out of it. Pure functions on bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

__all__ = ["is_sound", "nal_units_are_sound", "picture_parser"]

# Codecs whose pictures may rightly begin with zeros.
_RAW = frozenset(("rawvideo", "v210", "v410", "r210", "wrapped_avframe"))


def picture_parser(codec: str | None) -> Callable[[memoryview], int] | None:
    """The function that counts the shown pictures of a packet of ``codec``; ``None`` where a packet is a picture.

    VP8 and VP9 have packets that only update references and show nothing ("alternate reference" frames).
    """
    return {"vp8": _shown_vp8, "vp9": _shown_vp9}.get(codec or "")


def _shown_vp8(packet: memoryview) -> int:
    # RFC 6386, 9.1: bit 0 not-a-key-frame, bits 1-3 version, bit 4 show_frame.
    return (packet[0] >> 4) & 1 if len(packet) else 0


def _shown_vp9(packet: memoryview) -> int:
    return sum(_vp9_frame_is_shown(frame) for frame in _vp9_superframe(packet))


def _vp9_superframe(packet: memoryview) -> Iterator[memoryview]:
    """The frames in a packet: one, or those that the index at its end lists (VP9 bitstream specification, annex B)."""
    marker = packet[-1] if len(packet) else 0
    if marker >> 5 == 0b110:
        count, width = (marker & 7) + 1, ((marker >> 3) & 3) + 1
        index = packet[-(2 + count * width) :]
        if len(index) == 2 + count * width and index[0] == marker:
            start = 0
            for i in range(count):
                size = int.from_bytes(index[1 + i * width : 1 + (i + 1) * width], "little")
                yield packet[start : start + size]
                start += size
            return
    yield packet


def _vp9_frame_is_shown(frame: memoryview) -> bool:
    # Uncompressed header: frame_marker f(2), profile f(2) and a zero bit after profile 3,
    # show_existing_frame f(1); then frame_type f(1), show_frame f(1).
    if not len(frame):
        return False
    bits = int.from_bytes(bytes(frame[:2]).ljust(2, b"\0"), "big")
    position = 4 if (bits >> 12) & 3 != 3 else 5
    show_existing = (bits >> (15 - position)) & 1
    show_frame = (bits >> (15 - position - 2)) & 1
    return bool(show_existing or show_frame)


def is_sound(codec: str | None, packet: memoryview) -> bool:
    """Whether a packet begins as packets of its codec do; a stretch of zeros is how files lose data most often.

    VP8 key frames have a start code (RFC 6386, 9.1), VP9 frames a marker (VP9 bitstream specification, 7.2).

    >>> is_sound("h263", memoryview(bytes(100))), is_sound("rawvideo", memoryview(bytes(100)))
    (False, True)
    """
    start = bytes(packet[:16])
    if codec not in _RAW and len(start) == 16 and not any(start):
        return False
    if codec == "vp8" and start[:1] and not start[0] & 1:
        return start[3:6] == b"\x9d\x01\x2a"
    return codec != "vp9" or not start or start[0] >> 6 == 0b10


def nal_units_are_sound(packet: memoryview, length_size: int, *, is_hevc: bool = False) -> bool:
    """Whether the length-prefixed units of an H.264 or HEVC packet fill it exactly and have possible headers.

    Damage seldom leaves that so. Of H.264 headers (ITU-T H.264, 7.3.1) the first bit is 0 and the type neither 0 nor
    above 23; of HEVC headers (ITU-T H.265, 7.3.1.2) the first bit is 0 and the temporal layer plus 1 is not 0.

    >>> nal_units_are_sound(memoryview(bytes([0, 0, 0, 1, 65])), 4)
    True
    >>> nal_units_are_sound(memoryview(bytes([0, 0, 9, 1, 65])), 4)
    False
    """
    position, end = 0, len(packet)
    while position + length_size < end:
        size = int.from_bytes(packet[position : position + length_size], "big")
        position += length_size
        header = packet[position]
        if header & 128 or (size > 1 and is_hevc and position + 1 < end and not packet[position + 1] & 7):
            return False
        if not is_hevc and size and not 1 <= header & 31 <= 23:
            return False
        position += size
    return position == end
