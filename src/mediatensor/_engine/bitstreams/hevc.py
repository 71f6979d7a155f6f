"""Parse HEVC packets to detect which have a picture, which are disposable, and where the decoder drops pictures.

References are to ITU-T H.265, and to ISO/IEC 14496-15 for configuration records.
"""

from __future__ import annotations

import re
from contextlib import suppress

from .units import MAX_ZEROS, PacketContent, hevc_length_size, hevc_parameter_units, messages_are_transient, nal_units

_FORBIDDEN_BIT = 0x80
_NUM_PICTURE_KINDS = 32
_SUB_LAYER_NON_REFERENCE = frozenset((0, 2, 4, 6, 8))  # TRAIL_N, TSA_N, STSA_N, RADL_N, RASL_N
_HARMLESS = _SUB_LAYER_NON_REFERENCE | {35, 38}  # access unit delimiter, filler
_SPS, _PREFIX_SEI, _SUFFIX_SEI = 33, 39, 40
# First bytes of base layer units: supplemental information and delimiters; slices of pictures that are not key frames.
_PASSED, _PLAIN = frozenset((_PREFIX_SEI << 1, 35 << 1)), frozenset(kind << 1 for kind in range(10))
_BLA, _IRAP, _CRA, _ENDS = range(16, 19), range(16, 24), 21, (36, 37)

# Patterns for units after start codes: the first slice of a picture; the end of a sequence; and units that decide
# whether there is a picture (a slice, or a unit that is invalid in HEVC).
_FIRST_SLICE = re.compile(rb"\x00\x00\x01([\x00-\x3e][\x01-\x07][\x80-\xff])")
_END = re.compile(rb"\x00\x00\x01[\x48\x4a][\x01-\x07]")
_MAX_END_BYTES = 32  # the end of a sequence, the end of the bitstream, and padding
_SLICES = frozenset(kind << 1 for kind in (*range(10), *range(16, 22)))  # of the base layer
_DECISIVE = re.compile(
    rb"\x00\x00\x01([\x80-\xff].|.["
    + re.escape(bytes(range(0, 256, 8)))  # no temporal sub-layer
    + rb"]|["
    + re.escape(bytes(_SLICES))
    + rb"][\x01-\x07])",
    re.DOTALL,
)


def hevc_content(packet: memoryview, length_size: int | None) -> PacketContent:
    """Determine the content of a packet. It has a picture if it has a slice segment of the base layer.

    Slice segments of reserved types do not count. ``length_size`` is the number of bytes of the length before each
    unit, or ``None`` if units follow start codes.
    """
    if length_size is None:
        match = _DECISIVE.search(packet)
        if match is None:
            has_units = bytes(packet).find(b"\0\0\1") >= 0
            return PacketContent.NO_PICTURE if has_units else PacketContent.PICTURE
        is_slice = match[1][0] in _SLICES and match[1][1] & 7
        return PacketContent.PICTURE if is_slice else PacketContent.FOREIGN
    position, end = length_size, len(packet) - 1
    while position < end:
        if packet[position] in _SLICES and packet[position + 1] < 8:
            return PacketContent.PICTURE
        position += length_size + int.from_bytes(packet[position - length_size : position], "big")
    # FFmpeg also splits length-prefixed units at start codes.
    return PacketContent.UNCERTAIN if b"\0\0\1" in bytes(packet) else PacketContent.NO_PICTURE


class HevcPictures:
    """Detects disposable HEVC packets: sub-layer non-reference pictures of the highest temporal sub-layer (7.4.2.2).

    Other pictures of the same sub-layer do not refer to such a picture, but pictures of higher sub-layers can. So the
    highest TemporalId must be known. All sequence parameter sets in ``extradata`` must agree on it
    (sps_max_sub_layers_minus1, 7.4.3.2.1). ``extradata`` is an ``hvcC`` record (14496-15, 8.3.3.1), or parameter sets
    after start codes. After a packet that states another value, no packet is disposable. Packets with pictures of
    several layers (annex F) are never disposable, and neither are packets with units that apply to later pictures, such
    as parameter sets.
    """

    def __init__(self, extradata: bytes) -> None:
        self._length_size = hevc_length_size(extradata)
        units = hevc_parameter_units(extradata)
        highest = {_max_sub_layers_minus1(unit) for unit in units if _kind(unit) == _SPS}
        self._highest_temporal_id = highest.pop() if len(highest) == 1 else None

    def is_disposable(self, packet: memoryview) -> bool:
        """Return whether no other picture needs this packet. Raise ValueError or IndexError if it is invalid."""
        has_picture = outlasts_picture = False
        for unit in nal_units(packet, self._length_size):
            kind, layer, temporal_id = _kind(unit), (unit[0] & 1) << 5 | unit[1] >> 3, (unit[1] & 7) - 1
            if kind < _NUM_PICTURE_KINDS:
                if kind not in _SUB_LAYER_NON_REFERENCE or layer or temporal_id != self._highest_temporal_id:
                    return False
                has_picture = True
            elif kind == _SPS and not layer and _max_sub_layers_minus1(unit) != self._highest_temporal_id:
                self._highest_temporal_id = None
            if kind in (_PREFIX_SEI, _SUFFIX_SEI):
                outlasts_picture |= not messages_are_transient(unit, 2)
            elif kind not in _HARMLESS or unit[0] & _FORBIDDEN_BIT or layer:
                outlasts_picture = True
        return has_picture and not outlasts_picture


def _kind(unit: memoryview | bytes) -> int:
    return unit[0] >> 1 & 63


def _max_sub_layers_minus1(unit: memoryview | bytes) -> int:
    # After the header of two bytes: sps_video_parameter_set_id u(4), sps_max_sub_layers_minus1 u(3).
    return unit[2] >> 1 & 7


class HevcBreaks:
    """Finds key frames at which the decoder drops pictures, and packets with several pictures.

    The decoder drops the leading pictures of a BLA picture, and of a CRA picture after the end of a sequence (8.1.3).
    At a key frame with no_output_of_prior_pics_flag, it drops pictures that it has not returned yet (C.5.2.2).
    """

    def __init__(self, extradata: bytes, *, is_at_start: bool) -> None:
        self._length_size = hevc_length_size(extradata)
        self._has_begun = not is_at_start
        self._has_ended = False
        # Whether the previous packet was plain. If so, its end has not been parsed.
        self._has_passed = False

    def find(self, packet: memoryview, before: memoryview | None = None) -> str | None:
        """Return the reason if the decoder can drop pictures at this packet, otherwise ``None``.

        ``before`` is the previous packet. Pass it if `pass_plain` returned True for it.
        """
        if self._has_passed and before is not None:
            self._has_ended, self._has_passed = _parse_structure(before, self._length_size)[2], False
        pictures, ends_before, ends_after = _parse_structure(packet, self._length_size)
        reason = None
        self._has_ended |= ends_before
        if pictures:
            reason = self._at_picture(pictures[0]) if self._has_begun else None
            self._has_begun, self._has_ended = True, False
        self._has_ended |= ends_after
        return "packets of several pictures" if len(pictures) > 1 else reason

    def pass_plain(self, head: bytes, size: int) -> bool:
        """Return whether the first bytes of the next packet show that it is plain. If not, the caller uses `find`.

        A plain packet has one picture, which is in the base layer and not a key frame. Only supplemental information
        and a delimiter are allowed before its first slice, and this slice must be the last unit. In streams with start
        codes, the last unit is not checked. ``head`` has the first bytes of the packet, and ``size`` is its size.
        """
        if not self._has_begun:
            return False
        try:
            if self._length_size is None:
                start = head.find(b"\0\0\1", 0, MAX_ZEROS) + 3
                while start > 2 and head[start] in _PASSED and 0 < head[start + 1] < 8:
                    start = head.find(b"\0\0\1", start) + 3
                if start < 3:
                    return False
            else:
                start = self._length_size
                stop = start + int.from_bytes(head[:start], "big")
                while head[start] in _PASSED and 0 < head[start + 1] < 8 and stop > start + 1:
                    start = stop + self._length_size
                    stop = start + int.from_bytes(head[stop:start], "big")
                if stop != size:
                    return False
            if head[start] not in _PLAIN or not 0 < head[start + 1] < 8 or head[start + 2] < 0x80:
                return False
        except IndexError:
            return False
        self._has_passed = True
        return True

    def _at_picture(self, header: bytes) -> str | None:
        kind = header[0] >> 1
        if kind not in _IRAP:
            return None
        if kind in _BLA:
            return "key frames whose leading pictures are dropped"
        if kind == _CRA:
            return "the end of a sequence midway" if self._has_ended else None
        drops_prior = header[2] & 0x40  # no_output_of_prior_pics_flag
        return "key frames that drop the pictures before them" if drops_prior else None


def _parse_structure(packet: memoryview, length_size: int | None) -> tuple[list[bytes], bool, bool]:
    """Find the pictures and the ends of sequences in a packet.

    Return (the first three bytes of each picture, whether a sequence ends before the first picture, whether one ends
    after it). In streams with start codes, each of FFmpeg's packets has one picture, and a sequence can only end at the
    start or the end of a packet.
    """
    pictures: list[bytes] = []
    ends = [False, False]
    if length_size is None:
        match = _FIRST_SLICE.search(packet)
        if match is not None:
            pictures.append(match[1])
        start = len(packet) if match is None else match.start()
        ends[0] = _END.search(packet, 0, start) is not None
        ends[1] = _END.search(packet, max(start, len(packet) - _MAX_END_BYTES)) is not None
        return pictures, ends[0], ends[1]
    position, end = length_size, len(packet) - 1
    while position < end:
        code = packet[position]
        if packet[position + 1] < 8 and not code & 1:  # the base layer
            if code >> 1 in _ENDS:
                ends[bool(pictures)] = True
            elif code >> 1 < _NUM_PICTURE_KINDS and position + 2 <= end and packet[position + 2] & 0x80:
                pictures.append(bytes(packet[position : position + 3]))  # this is the first slice of a picture
        position += length_size + int.from_bytes(packet[position - length_size : position], "big")
    return pictures, ends[0], ends[1]


def begins_incomplete(packet: memoryview, extradata: bytes) -> bool:
    """Return whether decoding cannot start at this packet, because its first picture is not a key frame."""
    with suppress(ValueError):
        for unit in nal_units(packet, hevc_length_size(extradata)):
            if _kind(unit) < _NUM_PICTURE_KINDS:
                return _kind(unit) not in _IRAP
    return False
