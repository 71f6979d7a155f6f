"""Determine what the packets of any codec contain, from their bytes and without decoding them. Pure functions on bytes.

The parsers for H.264, HEVC, AV1 and MPEG are in modules with these names. The parsers for VP8, VP9, Dirac and the
checksums of FFV1 are here. `PacketInspector` uses all of them to inspect the packets of a stream in file order.

References are to RFC 6386 (VP8), the VP9 bitstream specification, and the Dirac specification.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from . import h264, hevc
from .av1 import Av1Content, Av1Pictures, is_lone_hidden_frame
from .h264 import H264Parser
from .hevc import HevcBreaks, HevcPictures, hevc_content
from .mpeg import (
    MPEG2_PICTURE,
    MPEG4_CODED_BYTES,
    MPEG4_PICTURE,
    Mpeg4Content,
    Mpeg4Pictures,
    MpegBreaks,
    mpeg2_content,
    mpeg2_is_disposable,
)
from .units import MAX_ZEROS, Disposable, PacketContent, hevc_length_size, unit_spans

_MPEG = frozenset(("mpeg1video", "mpeg2video", "mpeg4"))
# Codecs whose intact pictures may start with zeros.
RAW_CODECS = frozenset(("rawvideo", "v210", "v410", "r210", "wrapped_avframe"))
#: Every packet of these codecs has a frame, shown or hidden. If the decoder rejects a packet, the packet is damaged.
CODECS_OF_FRAMES_ONLY = frozenset(("av1", "vp8", "vp9"))
_ZEROS = bytes(MAX_ZEROS)


def content_parser(codec: str | None, extradata: bytes) -> Callable[[memoryview], PacketContent]:
    """Return a function that determines the `PacketContent` of packets. ``codec`` is FFmpeg's name.

    Some packets of VP8, VP9 and AV1 only update references and show nothing ("alternate reference" frames). In other
    codecs, a packet can consist of the end of a sequence, or of data that do not belong to a picture. If the content
    cannot be determined, the function usually returns `PacketContent.PICTURE`.

    Pass packets to the function in file order, from the first packet. ``extradata`` is the codec's configuration record
    or, if the codec has no such record, headers in the same form as in packets.

    >>> classify = content_parser("mpeg2video", b"")
    >>> classify(memoryview(b"\\0\\0\\1\\xb7"))  # sequence_end_code
    <PacketContent.NO_PICTURE: 'nothing to show: updates of references, parameters, the end of a sequence'>
    """
    if codec == "h264":
        return partial(_h264_content, H264Parser(extradata))
    if codec == "hevc":
        return partial(hevc_content, length_size=hevc_length_size(extradata))
    if codec in ("av1", "mpeg4"):
        return (Av1Content if codec == "av1" else Mpeg4Content)(extradata).content
    return _CONTENT.get(codec or "", _count_as_picture)


def _h264_content(parser: H264Parser, packet: memoryview) -> PacketContent:
    parser.read(packet)
    return parser.content


def _count_as_picture(_: memoryview) -> PacketContent:
    return PacketContent.PICTURE


def _content_if_shown(is_shown: bool) -> PacketContent:
    return PacketContent.PICTURE if is_shown else PacketContent.NO_PICTURE


_DISPOSABLE: dict[str, Callable[[bytes], Callable[[memoryview], bool]]] = {
    "av1": lambda extradata: Av1Pictures(extradata).is_disposable,
    "h264": lambda extradata: partial(_h264_is_disposable, H264Parser(extradata)),
    "hevc": lambda extradata: HevcPictures(extradata).is_disposable,
    "mpeg1video": lambda _: mpeg2_is_disposable,
    "mpeg2video": lambda _: mpeg2_is_disposable,
    "mpeg4": lambda extradata: Mpeg4Pictures(extradata).is_disposable,
}


def disposable_parser(codec: str | None, extradata: bytes) -> Callable[[memoryview], Disposable]:
    """Return a function that decides whether decoding can skip a packet without changing any other picture.

    The function returns `Disposable.NO` for all packets of VP9 and of codecs without a rule in this package, and for
    packets that the rules do not cover. Even a VP9 frame that updates no reference (refresh_frame_flags of 0) is
    needed: it passes its motion vectors to the next frame (VP9 bitstream specification, 7.2: UsePrevFrameMvs). It can
    also pass probabilities (refresh_frame_context), a segmentation map and loop filter deltas (7.2.8, 7.2.10). Only the
    next frame's packet states whether that frame uses these values.

    Pass packets to the function in decode order, starting at any key frame. If parameter sets change within the stream,
    the function can return `Disposable.NO` for a disposable packet, but `Disposable.YES` is always right.
    """
    make = _DISPOSABLE.get(codec or "")
    if make is None:
        return _never_disposable
    try:
        is_disposable = make(extradata)
    except (ValueError, IndexError):
        return _never_disposable

    def parse(packet: memoryview) -> Disposable:
        try:
            return Disposable.YES if is_disposable(packet) else Disposable.NO
        except (ValueError, IndexError):
            return Disposable.NO

    return parse


def _never_disposable(_: memoryview) -> Disposable:
    return Disposable.NO


def _h264_is_disposable(parser: H264Parser, packet: memoryview) -> bool:
    parser.read(packet)
    return parser.is_disposable


class BreakDetector(Protocol):
    """Finds packets at which a decoder can drop frames. Pass it the packets of a stream in file order."""

    def find(self, packet: memoryview) -> str | None:
        """Return the reason if the decoder can drop frames at this packet, otherwise ``None``."""


def break_detector(codec: str | None, extradata: bytes, *, is_at_start: bool = True) -> BreakDetector | None:
    """Return a `BreakDetector` for a codec, or ``None`` if the codec's decoder does not drop frames within a stream.

    ``is_at_start`` means that the detector starts at the first packet of the stream. The headers in this packet can
    differ from ``extradata``.
    """
    if codec == "hevc":
        return HevcBreaks(extradata, is_at_start=is_at_start)
    if codec in _MPEG:
        return MpegBreaks(extradata, is_mpeg4=codec == "mpeg4", is_at_start=is_at_start)
    return None


def refreshes_gradually(codec: str | None, extradata: bytes, packet: memoryview) -> bool:
    """Return whether decoding a stream from this packet can start with incomplete pictures, which the decoder drops.

    This can happen in H.264 and HEVC. Their decoders drop the first pictures until one is complete.
    """
    if codec == "h264":
        return h264.begins_incomplete(packet, extradata)
    return codec == "hevc" and hevc.begins_incomplete(packet, extradata)


def is_shown_at_once(codec: str | None, beginning: NDArray[np.uint8], size: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each packet whether it certainly shows a picture, judging by its first bytes.

    All other packets must be parsed. The result is true for all packets of codecs that have no hidden pictures. It is
    also true for an AV1 packet with several units, because such a packet is a temporal unit, which shows one picture
    (AV1 specification, 7.5). ``beginning`` has the first bytes of each packet, (N, 16), padded with zeros; ``size`` has
    the packets' sizes, (N,).
    """
    first = beginning[:, 0]
    if codec == "vp8":
        return np.asarray(first & 16 != 0)
    if codec == "vp9":
        return np.asarray(first & np.where(first & 0x30 == 0x30, *_VP9_SHOWN) != 0)
    shown = np.ones(len(first), bool)
    if codec == "av1":
        for number, (start, num_bytes) in enumerate(zip(map(bytes, beginning), size.tolist(), strict=True)):
            shown[number] = not is_lone_hidden_frame(start, num_bytes)
    return shown


def _vp8_content(packet: memoryview) -> PacketContent:
    # 9.1: bit 0 not-a-key-frame, bits 1-3 version, bit 4 show_frame.
    return _content_if_shown(len(packet) > 0 and bool(packet[0] & 16))


def _vp9_content(packet: memoryview) -> PacketContent:
    num_shown = sum(map(_vp9_frame_is_shown, _frames_of_superframe(packet)))
    # A packet with spatial layers shows each of them, and FFmpeg returns each as a frame.
    return PacketContent.UNCERTAIN if num_shown > 1 else _content_if_shown(num_shown == 1)


#: Last bytes of VP9 packets that can have several frames, which an index before this byte lists (annex B).
VP9_INDEX_MARKERS = frozenset(range(0b11000000, 0b11100000))


def _frames_of_superframe(packet: memoryview) -> Iterator[memoryview]:
    """Yield the frames of a VP9 packet. A packet with several frames ends with an index that lists them (annex B)."""
    marker = packet[-1] if len(packet) else 0
    if marker in VP9_INDEX_MARKERS:
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


# show_existing_frame and show_frame (7.2) in the first byte of a frame of profile 3, and of other profiles
_VP9_SHOWN = 0b101, 0b1010


def _vp9_frame_is_shown(frame: memoryview) -> bool:
    return len(frame) > 0 and frame[0] & _VP9_SHOWN[frame[0] & 0x30 != 0x30] != 0


# First bytes of shown frames, after a valid marker (7.2)
_VP9_SHOWN_STARTS = frozenset(first for first in range(0x80, 0xC0) if _vp9_frame_is_shown(memoryview(bytes((first,)))))


def _dirac_content(packet: memoryview) -> PacketContent:
    """Determine the content of a Dirac packet. A data unit has a picture if its parse code has bit 3 set (9.6.1)."""
    position = 0
    while bytes(packet[position : position + 4]) == b"BBCD" and len(packet) >= position + 13:
        if packet[position + 4] & 8:
            return PacketContent.PICTURE
        size = int.from_bytes(packet[position + 5 : position + 9], "big")
        if not size:
            return PacketContent.NO_PICTURE
        position += size
    return _content_if_shown(position < len(packet) or not position)


_CONTENT: dict[str, Callable[[memoryview], PacketContent]] = {
    "dirac": _dirac_content,
    "mpeg1video": mpeg2_content,
    "mpeg2video": mpeg2_content,
    "vp8": _vp8_content,
    "vp9": _vp9_content,
}


def has_valid_start(codec: str | None, packet: memoryview) -> bool:
    """Return whether a packet has the start code or marker that its codec requires, and does not start with zeros.

    VP8 key frames have a start code (RFC 6386, 9.1). VP9 frames have a marker (VP9 bitstream specification, 7.2).
    """
    start = bytes(packet[:MAX_ZEROS])
    if start == _ZEROS and codec not in RAW_CODECS:
        return False
    if codec == "vp8" and start[:1] and not start[0] & 1:
        return start[3:6] == b"\x9d\x01\x2a"
    return codec != "vp9" or not start or start[0] >> 6 == 0b10


def nal_units_are_valid(packet: memoryview, length_size: int) -> bool:
    """Return whether the unit headers of an HEVC packet are plausible, and the units fill the packet exactly.

    ``length_size`` is the number of bytes of the length before each unit. Damaged packets rarely pass this check. The
    first bit of a unit header (ITU-T H.265, 7.3.1.2) must be 0, and the field "temporal layer plus 1" must not be 0.
    `H264Parser` checks H.264 packets in the same way.
    """
    spans, fills = unit_spans(packet, length_size)
    return fills and all(
        not packet[start] & 128 and (stop - start == 1 or packet[start + 1] & 7 != 0) for start, stop in spans
    )


_TRAILER_BYTES = 8
_LENGTH_BYTES = 3

# FFV1's CRC-32 processes the highest bit of a byte first; zlib's CRC-32 processes the lowest bit first.
_MIRRORED = bytes(sum((byte >> bit & 1) << 7 - bit for bit in range(8)) for byte in range(256))
_ALL_BITS = 0xFFFFFFFF
# Value of the mirrored CRC register before a slice: 0 in versions up to 3, FFmpeg's own value in version 4. A slice
# followed by its checksum leads back to the same value.
_REGISTERS = (0, 0x5E31029E)


def slices_are_intact(packet: memoryview) -> bool:
    """Return whether the slices of an FFV1 packet match their checksums. Slices without checksums count as intact.

    The result is also ``True`` if the lengths of the slices do not add up to the packet's size, because the decoder
    reports this error itself.
    """
    spans = list(_slice_spans(packet))
    if not spans or spans[-1][0] != 0:
        return True
    mirrored = memoryview(bytes(packet).translate(_MIRRORED))
    return any(
        all(_crc32(mirrored[start:stop], register) == register for start, stop in spans) for register in _REGISTERS
    )


def _slice_spans(packet: memoryview) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of each slice in an FFV1 packet, from the last one, up to a slice of an invalid length."""
    stop = len(packet)
    while stop >= _TRAILER_BYTES:
        trailer = stop - _TRAILER_BYTES
        start = trailer - int.from_bytes(packet[trailer : trailer + _LENGTH_BYTES], "big")
        if start < 0:
            return
        yield start, stop
        stop = start


def _crc32(data: memoryview, register: int) -> int:
    """Continue a CRC-32 from the value ``register``. zlib inverts the register before and after its work."""
    return zlib.crc32(data, register ^ _ALL_BITS) ^ _ALL_BITS


class Finding(NamedTuple):
    """The result of `PacketInspector.inspect` for a packet."""

    content: PacketContent  # the result of decoding the packet
    is_whole: bool  # whether its structure is valid for its codec
    follows: bool = True  # `False` if the packet before it is missing
    is_field: bool = False  # whether it is one field of a frame
    break_reason: str | None = None  # why frames may be dropped at this packet, or `None`


class PacketInspector:
    """Inspects the packets of a stream in file order.

    Nearly all packets are plain: they have one picture, which is shown, and no picture is missing before it. Checking
    this in the first bytes of a packet is much faster than parsing the whole packet. So call `pass_plain` for each
    packet, with its first bytes (`HEAD_BYTES`, or all if there are fewer) and its size. It returns True if the packet
    is plain. If it returns False, call `inspect`.
    """

    pass_plain: Callable[[bytes, int], bool]
    #: Whether `pass_plain` must get all bytes: the last byte of a VP9 packet shows whether it has several frames.
    needs_whole_packets = False
    _content_of: Callable[[memoryview], PacketContent]

    def __init__(self, codec: str | None, extradata: bytes) -> None:
        self._codec = codec
        self._breaks = break_detector(codec, extradata)
        if codec == "av1":
            parser = Av1Content(extradata)
            self._content_of, self.pass_plain = parser.content, parser.is_plain
            return
        self._content_of = content_parser(codec, extradata)
        self.needs_whole_packets = codec == "vp9"
        self.pass_plain = _plain_packet_test(codec, self._breaks)

    @property
    def may_be_fields(self) -> bool:
        """Whether packets of this stream can contain single fields, according to the headers read so far."""
        return False

    def inspect(self, packet: memoryview, before: memoryview | None) -> Finding:
        """Determine the facts about a packet for which `pass_plain` returned False.

        ``before`` is the previous packet, if any. If it was plain, its end has not been parsed, and is parsed now.
        """
        content = self._content_of(packet)
        return Finding(
            content,
            is_whole=content is not PacketContent.FOREIGN and has_valid_start(self._codec, packet),
            break_reason=None if self._breaks is None else self._breaks.find(packet),
        )


def _plain_packet_test(codec: str | None, breaks: BreakDetector | None) -> Callable[[bytes, int], bool]:
    """Return the function `PacketInspector.pass_plain` for codecs other than H.264, HEVC and AV1."""
    if codec == "vp8":  # RFC 6386, 9.1: not a key frame, and shown
        return lambda head, _: head[0] & 0x11 == 0x11
    if codec == "vp9":
        return lambda packet, _: packet[0] in _VP9_SHOWN_STARTS and packet[-1] not in VP9_INDEX_MARKERS
    if codec == "dirac":
        return lambda head, _: head.startswith(b"BBCD") and len(head) > 12 and head[4] & 8 != 0
    if codec in RAW_CODECS:
        return lambda head, _: True
    if isinstance(breaks, MpegBreaks):
        if codec == "mpeg4":
            return lambda head, size: (
                head.startswith(MPEG4_PICTURE) and size >= MPEG4_CODED_BYTES and not breaks.has_ended
            )
        return lambda head, _: head.startswith(MPEG2_PICTURE) and not breaks.has_ended
    return lambda head, _: not head.startswith(_ZEROS)


class _H264Inspector(PacketInspector):
    def __init__(self, extradata: bytes) -> None:
        self._parser = H264Parser(extradata, is_thorough=False)
        self.pass_plain = self._parser.read_plain

    @property
    def may_be_fields(self) -> bool:
        return self._parser.may_be_fields

    def inspect(self, packet: memoryview, before: memoryview | None) -> Finding:
        parser = self._parser
        parser.read(packet)
        is_whole = parser.is_whole and parser.content is not PacketContent.FOREIGN and has_valid_start("h264", packet)
        return Finding(parser.content, is_whole, parser.follows, parser.is_field)


class _HevcInspector(PacketInspector):
    def __init__(self, extradata: bytes) -> None:
        self._length_size = hevc_length_size(extradata)
        self._hevc_breaks = HevcBreaks(extradata, is_at_start=True)
        self.pass_plain = self._hevc_breaks.pass_plain

    def inspect(self, packet: memoryview, before: memoryview | None) -> Finding:
        content = hevc_content(packet, self._length_size)
        is_whole = content is not PacketContent.FOREIGN and has_valid_start("hevc", packet)
        if self._length_size is not None:
            is_whole = is_whole and nal_units_are_valid(packet, self._length_size)
        return Finding(content, is_whole, break_reason=self._hevc_breaks.find(packet, before))


def packet_inspector(codec: str | None, extradata: bytes) -> PacketInspector:
    if codec == "h264":
        return _H264Inspector(extradata)
    return _HevcInspector(extradata) if codec == "hevc" else PacketInspector(codec, extradata)
