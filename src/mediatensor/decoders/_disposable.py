"""Which pictures no other picture refers to, from the bytes of their packets. Pure functions."""

from __future__ import annotations

from collections.abc import Callable

from ._frame_index import Disposable

__all__ = ["disposable_parser"]


def disposable_parser(codec: str | None, extradata: bytes) -> Callable[[memoryview], Disposable]:
    """The function that tells of a packet whether its picture can be left out of decoding.

    Args:
        codec: FFmpeg's name of the codec.
        extradata: The codec's configuration record, which says how units are delimited.
    """
    if codec == "h264" and len(extradata) > 4 and extradata[0] == 1:
        length_size = (extradata[4] & 3) + 1
        return lambda packet: _h264(packet, length_size)
    return lambda packet: Disposable.NO


def _h264(packet: memoryview, length_size: int) -> Disposable:
    # ITU-T H.264, 7.3.1: nal_ref_idc is 0 for slices of pictures that are not used for reference.
    position, end, found = 0, len(packet), Disposable.NO
    while position + length_size < end:
        size = int.from_bytes(packet[position : position + length_size], "big")
        header = packet[position + length_size]
        if 1 <= header & 31 <= 5:
            if (header >> 5) & 3:
                return Disposable.NO
            found = Disposable.YES
        position += length_size + size
    return found
