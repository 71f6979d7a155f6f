"""VP8 and VP9 packets: superframes, and whether a frame is shown. Pure functions on bytes.

References are to RFC 6386 (VP8) and the VP9 bitstream specification.
"""

from __future__ import annotations

from collections.abc import Iterator

from .units import PacketContent

__all__ = ["vp8_content", "vp9_content"]


def vp8_content(packet: memoryview) -> PacketContent:
    """Whether a packet of VP8 shows its frame."""
    # 9.1: bit 0 not-a-key-frame, bits 1-3 version, bit 4 show_frame.
    is_shown = len(packet) > 0 and bool(packet[0] & 16)
    return PacketContent.PICTURE if is_shown else PacketContent.NO_PICTURE


def vp9_content(packet: memoryview) -> PacketContent:
    """Whether a packet of VP9, which may be a superframe, shows any of its frames."""
    is_shown = any(map(_is_shown, _frames_of_superframe(packet)))
    return PacketContent.PICTURE if is_shown else PacketContent.NO_PICTURE


def _frames_of_superframe(packet: memoryview) -> Iterator[memoryview]:
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


def _is_shown(frame: memoryview) -> bool:
    # Uncompressed header: frame_marker f(2), profile f(2) and a zero bit after profile 3,
    # show_existing_frame f(1); then frame_type f(1), show_frame f(1).
    if not len(frame):
        return False
    bits = int.from_bytes(bytes(frame[:2]).ljust(2, b"\0"), "big")
    position = 4 if (bits >> 12) & 3 != 3 else 5
    show_existing = (bits >> (15 - position)) & 1
    show_frame = (bits >> (15 - position - 2)) & 1
    return bool(show_existing or show_frame)
