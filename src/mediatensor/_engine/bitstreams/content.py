"""What a packet holds, by its codec, as far as its bytes say. Pure functions on bytes.

The functions by codec are chosen below; H.264, HEVC, AV1, MPEG and VP9 have modules of their own. Dirac and the
checksums of FFV1 follow.

References are to the Dirac specification.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from . import h264, hevc
from .av1 import Av1Content, Av1Pictures, is_lone_hidden_frame
from .h264 import H264Parser
from .hevc import HevcBreaks, HevcPictures, hevc_content
from .mpeg import Mpeg2Pictures, Mpeg4Content, Mpeg4Pictures, MpegBreaks, mpeg2_content
from .units import MAX_ZEROS, Disposable, PacketContent, hevc_length_size
from .vp9 import vp8_content, vp9_content

__all__ = [
    "CODECS_OF_FRAMES_ONLY",
    "RAW_CODECS",
    "BreakDetector",
    "break_detector",
    "content_parser",
    "disposable_parser",
    "is_shown_at_once",
    "is_sound",
    "nal_units_are_sound",
    "refreshes_gradually",
    "slices_are_sound",
]

_MPEG = frozenset(("mpeg1video", "mpeg2video", "mpeg4"))
# Codecs whose pictures may rightly begin with zeros.
RAW_CODECS = frozenset(("rawvideo", "v210", "v410", "r210", "wrapped_avframe"))
#: Each packet of these has a frame, shown or not: a codec that refuses one has met damage.
CODECS_OF_FRAMES_ONLY = frozenset(("av1", "vp8", "vp9"))
_ZEROS = bytes(MAX_ZEROS)


def content_parser(codec: str | None, extradata: bytes) -> Callable[[memoryview], PacketContent]:
    """The function that says what packets of ``codec`` hold. Packets that it cannot judge count as pictures.

    VP8, VP9 and AV1 have packets that only update references and show nothing ("alternate reference" frames). In other
    codecs, the end of a sequence and what belongs to no picture can have packets of their own.

    The function is given packets in the order of the file, from the first one on.

    Args:
        codec: FFmpeg's name of the codec.
        extradata: The codec's configuration record, or its headers as they are in the stream.

    Example:
        >>> what_is_in = content_parser("mpeg2video", b"")
        >>> what_is_in(memoryview(b"\\0\\0\\1\\xb7"))  # sequence_end_code
        <PacketContent.NO_PICTURE: 'nothing that is shown: updates of references, parameters, the end of a sequence'>
    """
    if codec == "h264":
        return partial(_h264_content, H264Parser(extradata))
    if codec == "hevc":
        return partial(hevc_content, length_size=hevc_length_size(extradata))
    if codec in ("av1", "mpeg4"):
        return (Av1Content if codec == "av1" else Mpeg4Content)(extradata).content
    return _CONTENT.get(codec or "", _picture)


def _h264_content(parser: H264Parser, packet: memoryview) -> PacketContent:
    parser.read(packet)
    return parser.content


def _picture(_: memoryview) -> PacketContent:
    return PacketContent.PICTURE


def _shown(is_shown: bool) -> PacketContent:
    return PacketContent.PICTURE if is_shown else PacketContent.NO_PICTURE


_DISPOSABLE: dict[str, Callable[[bytes], Callable[[memoryview], bool]]] = {
    "av1": lambda extradata: Av1Pictures(extradata).is_disposable,
    "h264": lambda extradata: partial(_h264_is_disposable, H264Parser(extradata)),
    "hevc": lambda extradata: HevcPictures(extradata).is_disposable,
    "mpeg1video": lambda _: Mpeg2Pictures().is_disposable,
    "mpeg2video": lambda _: Mpeg2Pictures().is_disposable,
    "mpeg4": lambda extradata: Mpeg4Pictures(extradata).is_disposable,
}


def disposable_parser(codec: str | None, extradata: bytes) -> Callable[[memoryview], Disposable]:
    """The function that says whether decoding can do without the pictures of a packet.

    It cannot where a packet is odd, or the codec is none of those below. VP9 frames are always needed, though some
    update no reference (refresh_frame_flags of 0): each passes its motion vectors on to the next one (VP9 bitstream
    specification, 7.2: UsePrevFrameMvs), and perhaps probabilities (refresh_frame_context), a segmentation map and loop
    filter deltas (7.2.8, 7.2.10). Whether the next frame starts without them is written in its packet, not in this one.

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
    make = _DISPOSABLE.get(codec or "")
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


def _h264_is_disposable(parser: H264Parser, packet: memoryview) -> bool:
    parser.read(packet)
    return parser.is_disposable


class BreakDetector(Protocol):
    """Finds breaks in a stream, given its packets in the order of the file."""

    def find(self, packet: memoryview) -> str | None:
        """Why pictures may be dropped at this packet, or ``None``."""


def break_detector(codec: str | None, extradata: bytes, *, is_at_start: bool = True) -> BreakDetector | None:
    """A detector for streams of a codec; ``None`` where no breaks are known.

    Args:
        codec: FFmpeg's name of the codec.
        extradata: The codec's configuration record, or its headers as they are in the stream.
        is_at_start: Whether the next packet is the first of the stream; its headers may then differ from ``extradata``.

    Example:
        >>> detector = break_detector("mpeg1video", b"")
        >>> small, large = (b"\\0\\0\\1\\xb3" + bytes([size, 0, 0, 0x13]) + b"\\0\\0\\1\\0" for size in (6, 9))
        >>> detector.find(memoryview(small))
        >>> detector.find(memoryview(large))
        'a picture size that changes midway'
    """
    if codec == "hevc":
        return HevcBreaks(extradata, is_at_start=is_at_start)
    if codec in _MPEG:
        return MpegBreaks(extradata, is_mpeg4=codec == "mpeg4", is_at_start=is_at_start)
    return None


def refreshes_gradually(codec: str | None, extradata: bytes, packet: memoryview) -> bool:
    """Whether the picture in a packet, if a stream begins with it, is not complete, or does not say that it is.

    H.264 and HEVC decoders drop the pictures at the beginning of a stream until one is complete.
    """
    if codec == "h264":
        return h264.begins_incomplete(packet, extradata)
    return codec == "hevc" and hevc.begins_incomplete(packet, extradata)


def is_shown_at_once(codec: str | None, beginning: NDArray[np.uint8], size: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the first bytes of packets show that a picture comes of each; of others the whole packet must be read.

    Packets of codecs that hide no pictures count as pictures. So do those of AV1, unless they are one unit: those of
    several belong to a temporal unit, which shows one picture (AV1 specification, 7.5).

    Args:
        codec: FFmpeg's name of the codec.
        beginning: (N, 16), with zeros behind packets that are shorter.
        size: Of the packets, (N,).

    >>> is_shown_at_once("vp8", np.array([[0x10] + [0] * 15, [0] * 16], np.uint8), np.array([99, 99]))
    array([ True, False])
    """
    first = beginning[:, 0]
    if codec == "vp8":
        return np.asarray(first & 16 != 0)
    if codec == "vp9":  # see `vp9`: behind the profile, one bit later in profile 3
        shifted = np.where(first >> 4 & 3 == 3, first, first >> 1)
        return np.asarray(shifted & 0b101 != 0)
    shown = np.ones(len(first), bool)
    if codec == "av1":
        for number, (start, num_bytes) in enumerate(zip(map(bytes, beginning), size.tolist(), strict=True)):
            shown[number] = not is_lone_hidden_frame(start, num_bytes)
    return shown


def _dirac(packet: memoryview) -> PacketContent:
    """A unit whose parse code has the bit of pictures (9.6.1)."""
    position = 0
    while bytes(packet[position : position + 4]) == b"BBCD" and len(packet) >= position + 13:
        if packet[position + 4] & 8:
            return PacketContent.PICTURE
        size = int.from_bytes(packet[position + 5 : position + 9], "big")
        if not size:
            return PacketContent.NO_PICTURE
        position += size
    return _shown(position < len(packet) or not position)


_CONTENT: dict[str, Callable[[memoryview], PacketContent]] = {
    "dirac": _dirac,
    "mpeg1video": mpeg2_content,
    "mpeg2video": mpeg2_content,
    "vp8": vp8_content,
    "vp9": vp9_content,
}


def is_sound(codec: str | None, packet: memoryview) -> bool:
    """Whether a packet begins as packets of its codec do, and not with zeros.

    VP8 key frames have a start code (RFC 6386, 9.1), VP9 frames a marker (VP9 bitstream specification, 7.2).

    >>> is_sound("h263", memoryview(bytes(100))), is_sound("rawvideo", memoryview(bytes(100)))
    (False, True)
    """
    start = bytes(packet[:MAX_ZEROS])
    if start == _ZEROS and codec not in RAW_CODECS:
        return False
    if codec == "vp8" and start[:1] and not start[0] & 1:
        return start[3:6] == b"\x9d\x01\x2a"
    return codec != "vp9" or not start or start[0] >> 6 == 0b10


def nal_units_are_sound(packet: memoryview, length_size: int) -> bool:
    """Whether the length-prefixed units of an HEVC packet fill it exactly and have possible headers.

    Damage seldom leaves that so. The first bit of a header (ITU-T H.265, 7.3.1.2) is 0, and the temporal layer plus 1
    is not 0. `H264Parser` does the same for H.264.

    >>> nal_units_are_sound(memoryview(bytes([0, 0, 0, 2, 2, 1])), 4)
    True
    >>> nal_units_are_sound(memoryview(bytes([0, 0, 9, 1, 2, 1])), 4)
    False
    """
    position, end = 0, len(packet)
    while position + length_size < end:
        size = int.from_bytes(packet[position : position + length_size], "big")
        position += length_size
        if packet[position] & 128 or (size > 1 and position + 1 < end and not packet[position + 1] & 7):
            return False
        position += size
    return position == end


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
