"""What a packet scan asks of packets: which are plain pictures, as their first bytes show, and what others hold.

Nearly all packets are one picture that is shown and follows the one before. Telling so by their first bytes takes a
small part of the time of going over all units of a packet, which is left to those that are not plain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .av1 import Av1Content
from .content import RAW_CODECS, BreakDetector, break_detector, content_parser, is_sound, nal_units_are_sound
from .h264 import H264Parser
from .hevc import HevcBreaks, hevc_content
from .mpeg import MPEG2_PICTURE, MPEG4_CODED_BYTES, MPEG4_PICTURE, MpegBreaks
from .units import MAX_ZEROS, PacketContent, hevc_length_size

__all__ = ["Finding", "PacketInspector", "packet_inspector"]

_ZEROS = bytes(MAX_ZEROS)


class Finding(NamedTuple):
    """What was found in a packet.

    Attributes:
        content: What comes of it.
        is_whole: Whether its structure adds up and is that of its codec.
        follows: Whether it can follow the packet before; ``False`` if one between them is missing.
        is_field: Whether it is one field of a frame.
        break_reason: Why pictures may be dropped at it, if so.
    """

    content: PacketContent
    is_whole: bool
    follows: bool = True
    is_field: bool = False
    break_reason: str | None = None


class PacketInspector:
    """Looks at the packets of a stream in the order of the file, each once: `pass_plain`, and if it is not, `inspect`.

    Args:
        codec: FFmpeg's name of the codec.
        extradata: The codec's configuration record, or its headers as they are in the stream.

    Attributes:
        pass_plain: A function that takes note of a packet by its first bytes (`HEAD_BYTES`, or all of it) and its size,
            if these show one picture that is shown and follows the one before. It gives whether they do.
    """

    pass_plain: Callable[[bytes, int], bool]

    def __init__(self, codec: str | None, extradata: bytes) -> None:
        self._codec = codec
        self._breaks = break_detector(codec, extradata)
        self._content_of = content_parser(codec, extradata)
        self.pass_plain = _plain_beginnings(codec, self._breaks)

    @property
    def may_be_fields(self) -> bool:
        """Whether what was seen allows packets that are single fields."""
        return False

    def inspect(self, packet: memoryview, before: memoryview | None) -> Finding:
        """Go over a packet that is not plain, and at the end of the packet before it, if that was passed."""
        content = self._content_of(packet)
        return Finding(
            content,
            is_whole=content is not PacketContent.FOREIGN and is_sound(self._codec, packet),
            break_reason=None if self._breaks is None else self._breaks.find(packet),
        )


def _plain_beginnings(codec: str | None, breaks: BreakDetector | None) -> Callable[[bytes, int], bool]:
    """``pass_plain`` of codecs other than H.264, HEVC and AV1."""
    if codec == "vp8":  # RFC 6386, 9.1: no key frame, and shown
        return lambda head, _: head[0] & 0x11 == 0x11
    if codec == "vp9":  # VP9 bitstream specification, 7.2: the marker, no profile 3, and shown once more or at all
        return lambda head, _: head[0] & 0xC0 == 0x80 and head[0] & 0x30 != 0x30 and head[0] & 0x0A != 0
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


class _Av1Inspector(PacketInspector):
    """That of AV1, whose sequence headers say how frames begin."""

    def __init__(self, extradata: bytes) -> None:
        super().__init__("av1", extradata)
        parser = Av1Content(extradata)
        self._content_of, self.pass_plain = parser.content, parser.is_plain


class _H264Inspector(PacketInspector):
    """That of H.264, whose pictures are counted to tell what was lost."""

    def __init__(self, extradata: bytes) -> None:
        self._parser = H264Parser(extradata, is_thorough=False)
        self.pass_plain = self._parser.read_plain

    @property
    def may_be_fields(self) -> bool:
        return self._parser.may_be_fields

    def inspect(self, packet: memoryview, before: memoryview | None) -> Finding:
        parser = self._parser
        parser.read(packet)
        is_whole = parser.is_whole and parser.content is not PacketContent.FOREIGN and is_sound("h264", packet)
        return Finding(parser.content, is_whole, parser.follows, parser.is_field)


class _HevcInspector(PacketInspector):
    """That of HEVC, whose units may have lengths that must add up."""

    def __init__(self, extradata: bytes) -> None:
        self._length_size = hevc_length_size(extradata)
        self._hevc_breaks = HevcBreaks(extradata, is_at_start=True)
        self.pass_plain = self._hevc_breaks.pass_plain

    def inspect(self, packet: memoryview, before: memoryview | None) -> Finding:
        content = hevc_content(packet, self._length_size)
        is_whole = content is not PacketContent.FOREIGN and is_sound("hevc", packet)
        if self._length_size is not None:
            is_whole = is_whole and nal_units_are_sound(packet, self._length_size)
        return Finding(content, is_whole, break_reason=self._hevc_breaks.find(packet, before))


def packet_inspector(codec: str | None, extradata: bytes) -> PacketInspector:
    """What looks at the packets of a stream, by its codec."""
    if codec == "h264":
        return _H264Inspector(extradata)
    if codec == "hevc":
        return _HevcInspector(extradata)
    return _Av1Inspector(extradata) if codec == "av1" else PacketInspector(codec, extradata)
