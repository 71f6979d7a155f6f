"""Which pictures no other picture refers to, from the bytes of their packets. Pure functions."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from .av1 import Av1Pictures
from .h264_references import H264Pictures, HevcPictures
from .mpeg import Mpeg2Pictures, Mpeg4Pictures

__all__ = ["Disposable", "disposable_parser"]


class Disposable(IntEnum):
    """Whether a picture can be left out of decoding without changing any other."""

    UNKNOWN = -1
    NO = 0
    YES = 1


_PARSERS: dict[str, Callable[[bytes], Callable[[memoryview], bool]]] = {
    "av1": lambda extradata: Av1Pictures(extradata).is_disposable,
    "h264": lambda extradata: H264Pictures(extradata).is_disposable,
    "hevc": lambda extradata: HevcPictures(extradata).is_disposable,
    "mpeg1video": lambda _: Mpeg2Pictures().is_disposable,
    "mpeg2video": lambda _: Mpeg2Pictures().is_disposable,
    "mpeg4": lambda extradata: Mpeg4Pictures(extradata).is_disposable,
}


def disposable_parser(codec: str | None, extradata: bytes) -> Callable[[memoryview], Disposable]:
    """The function that tells of a packet whether its pictures can be left out of decoding.

    What is odd, or of a codec that is not known here, never can. Nor can VP9 frames, though some update no reference
    (refresh_frame_flags of 0): each leaves its motion vectors to the next one (VP9 bitstream specification, 7.2:
    UsePrevFrameMvs), and perhaps probabilities (refresh_frame_context), a segmentation map and loop filter deltas
    (7.2.8, 7.2.10). Whether the next frame starts without them is written in its packet, not in this one.

    The function takes packets in decode order, beginning with any key frame. It remembers parameter sets that change
    within the stream, and gets more careful for them, never less.

    Args:
        codec: FFmpeg's name of the codec.
        extradata: The codec's configuration record, or its headers as they are in the stream.

    Example:
        >>> is_b_picture = disposable_parser("mpeg2video", b"")
        >>> is_b_picture(memoryview(b"\\0\\0\\1\\0" + b"\\x00\\x1a\\xff\\xf8"))
        <Disposable.YES: 1>
    """
    make = _PARSERS.get(codec or "")
    if make is None:
        return _never
    try:
        is_disposable = make(extradata)
    except (ValueError, IndexError):
        return _never

    def parse(packet: memoryview) -> Disposable:
        try:
            return Disposable.YES if is_disposable(packet) else Disposable.NO
        except (ValueError, IndexError):
            return Disposable.NO

    return parse


def _never(_: memoryview) -> Disposable:
    return Disposable.NO
