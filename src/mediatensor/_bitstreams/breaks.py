"""Where a stream does not simply go on, so that its codec may drop pictures without a word. Pure functions on bytes.

==================  ================================================================================================
MPEG-1, 2 and 4     When the size of pictures changes, the one that waits to be shown is dropped.
MPEG-1 and 2        Behind the end of a sequence in a packet of its own, B pictures lack a reference.
HEVC                Leading pictures of a BLA picture, and of a CRA picture behind the end of a sequence, are dropped
                    (ITU-T H.265, 8.1.3), and others where a key frame says so (C.5.2.2).
H.264 and HEVC      At the beginning of a stream, pictures are dropped until they are refreshed (recovery points).
==================  ================================================================================================

References are to ITU-T H.264 and H.265, and to ISO/IEC 13818-2 and 14496-2.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Protocol

from .bits import BitReader, units
from .content import nal_length_size
from .h264_references import supplemental_messages

__all__ = ["BreakDetector", "break_detector", "refreshes_gradually"]

_END_MIDWAY = "the end of a sequence midway"
_OTHER_SIZE = "a picture size that changes midway"

_START_CODE = re.compile(rb"\x00\x00\x01")
_SEQUENCE_OR_PICTURE = re.compile(rb"\x00\x00\x01([\x00\xb3])")
_LAYER_OR_PICTURE = re.compile(rb"\x00\x00\x01([\x20-\x2f\xb6])")
_PICTURES = frozenset((b"\x00", b"\xb6"))
_SEQUENCE_EXTENSION = re.compile(rb"\x00\x00\x01\xb5([\x10-\x1f].{5})", re.DOTALL)
# Of a sequence header: the sizes; and all of it, with quantiser matrices, and its extension.
_FORMAT_BYTES, _SEQUENCE_BYTES = 3, 8 + 2 * 64 + 10
_MPEG2_END = b"\0\0\1\xb7"

_IDR_SLICE, _SLICE, _SEI = 5, 1, 6
_RECOVERY_POINT = 6
_HEVC_PICTURES = 32
_BLA, _IRAP, _CRA, _HEVC_ENDS = range(16, 19), range(16, 24), 21, (36, 37)
_HEVC_FIRST_SLICE = re.compile(rb"\x00\x00\x01([\x00-\x3e][\x01-\x07][\x80-\xff])")
_HEVC_END = re.compile(rb"\x00\x00\x01[\x48\x4a][\x01-\x07]")
_MAX_HEVC_END_BYTES = 32  # the end of a sequence, that of a bitstream, and padding


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
        return _HevcBreaks(nal_length_size(codec, extradata), is_at_start=is_at_start)
    if codec in ("mpeg1video", "mpeg2video", "mpeg4"):
        return _MpegBreaks(extradata, is_mpeg4=codec == "mpeg4", is_at_start=is_at_start)
    return None


class _MpegBreaks:
    """Of MPEG-1, 2 and 4: headers before the first picture of a packet that differ from those before."""

    def __init__(self, extradata: bytes, *, is_mpeg4: bool, is_at_start: bool) -> None:
        self._is_mpeg4 = is_mpeg4
        self._header_or_picture = _LAYER_OR_PICTURE if is_mpeg4 else _SEQUENCE_OR_PICTURE
        self._format = None if is_at_start else self._stated_format(memoryview(extradata))
        self._has_ended = False

    def find(self, packet: memoryview) -> str | None:
        has_ended, self._has_ended = self._has_ended, packet == _MPEG2_END
        stated = self._stated_format(packet)
        if stated is not None:
            before, self._format = self._format, stated
            if before not in (None, stated):
                return _OTHER_SIZE
        return _END_MIDWAY if has_ended else None

    def _stated_format(self, headers: memoryview) -> tuple[bytes, ...] | None:
        match = self._header_or_picture.search(headers)
        if match is None or match[1] in _PICTURES:
            return None
        start = match.end()
        if self._is_mpeg4:
            after = _START_CODE.search(headers, start)
            return (bytes(headers[start : None if after is None else after.start()]),)
        sequence = bytes(headers[start : start + _FORMAT_BYTES])
        extension = _SEQUENCE_EXTENSION.search(headers, start, start + _SEQUENCE_BYTES)
        if extension is None:
            return (sequence,)
        # progressive_sequence, chroma_format and the upper bits of the sizes; low_delay.
        return sequence, bytes([extension[1][1] & 0x0F, extension[1][2] & 0xE0, extension[1][5] & 0x80])


class _HevcBreaks:
    """Of HEVC: key frames at which pictures are dropped, and packets of more than one picture."""

    def __init__(self, length_size: int | None, *, is_at_start: bool) -> None:
        self._length_size = length_size
        self._has_begun = not is_at_start
        self._has_ended = False

    def find(self, packet: memoryview) -> str | None:
        pictures, ends_before, ends_behind = _hevc_structure(packet, self._length_size)
        reason = None
        self._has_ended |= ends_before
        if pictures:
            reason = self._at_picture(pictures[0]) if self._has_begun else None
            self._has_begun, self._has_ended = True, False
        self._has_ended |= ends_behind
        return "packets of several pictures" if len(pictures) > 1 else reason

    def _at_picture(self, header: bytes) -> str | None:
        kind = header[0] >> 1
        if kind not in _IRAP:
            return None
        if kind in _BLA:
            return "key frames whose leading pictures are dropped"
        if kind == _CRA:
            return _END_MIDWAY if self._has_ended else None
        drops_prior = header[2] & 0x40  # no_output_of_prior_pics_flag
        return "key frames that drop the pictures before them" if drops_prior else None


def _hevc_structure(packet: memoryview, length_size: int | None) -> tuple[list[bytes], bool, bool]:
    """(first three bytes of each picture in a packet, whether a sequence ends before the first one, or behind it).

    Packets of units after start codes are cut so that each has one picture, and what ends a sequence is first or last.
    """
    pictures: list[bytes] = []
    ends = [False, False]
    if length_size is None:
        match = _HEVC_FIRST_SLICE.search(packet)
        if match is not None:
            pictures.append(match[1])
        start = len(packet) if match is None else match.start()
        ends[0] = _HEVC_END.search(packet, 0, start) is not None
        ends[1] = _HEVC_END.search(packet, max(start, len(packet) - _MAX_HEVC_END_BYTES)) is not None
        return pictures, ends[0], ends[1]
    position, end = length_size, len(packet) - 1
    while position < end:
        code = packet[position]
        if packet[position + 1] < 8 and not code & 1:  # the base layer
            if code >> 1 in _HEVC_ENDS:
                ends[bool(pictures)] = True
            elif code >> 1 < _HEVC_PICTURES and position + 2 <= end and packet[position + 2] & 0x80:  # its first slice
                pictures.append(bytes(packet[position : position + 3]))
        position += length_size + int.from_bytes(packet[position - length_size : position], "big")
    return pictures, ends[0], ends[1]


def refreshes_gradually(codec: str | None, extradata: bytes, packet: memoryview) -> bool:
    """Whether the picture in a packet, if a stream begins with it, is not complete, or does not say that it is.

    It is complete if it is an IDR picture (in HEVC: one of any kind at which decoding can start), or if a recovery
    point says that it is reached with this picture (H.264, D.2.8: recovery_frame_cnt of 0).
    """
    length_size = nal_length_size(codec, extradata)
    if codec == "hevc":
        pictures = [unit[0] >> 1 for unit in units(packet, length_size) if unit and unit[0] >> 1 < _HEVC_PICTURES]
        return bool(pictures) and pictures[0] not in _IRAP
    if codec != "h264":
        return False
    is_complete = False
    for unit in units(packet, length_size):
        kind = unit[0] & 31 if unit else 0
        if kind in (_SLICE, _IDR_SLICE):
            return kind == _SLICE and not is_complete
        if kind == _SEI:
            with suppress(ValueError, IndexError):
                for message, payload in supplemental_messages(unit, 1):
                    is_complete |= message == _RECOVERY_POINT and BitReader(payload).exp_golomb() == 0
    return False
