"""H.264 and HEVC pictures that no other picture refers to. Pure functions on bytes.

References are to ITU-T H.264 and H.265, and to ISO/IEC 14496-15 for configuration records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from .bits import nal_units, sequence_parameter_units, unit_length_size, without_emulation_prevention
from .h264_fields import PictureStructure, SequenceParameters, parse_sequence_parameters, slice_structure

__all__ = ["H264Pictures", "HevcPictures", "supplemental_messages"]

_FORBIDDEN_BIT = 0x80
_H264_SLICE, _H264_SEI, _H264_SPS = 1, 6, 7
_H264_SLICE_OR_SPS = re.compile(
    rb"\x00\x00\x01([" + bytes(reference << 5 | kind for reference in range(4) for kind in (1, 2, 3, 4, 5, 7)) + rb"])"
)
_H264_SLICES = range(1, 6)  # data partitions and IDR, too
_H264_HARMLESS = frozenset((_H264_SLICE, 9, 12, 14))  # access unit delimiter, filler, prefix
_FRAMES, _FIELD_PAIRS = {PictureStructure.FRAME}, {PictureStructure.TOP_FIELD, PictureStructure.BOTTOM_FIELD}
_HEVC_SUB_LAYER_NON_REFERENCE = frozenset((0, 2, 4, 6, 8))  # TRAIL_N, TSA_N, STSA_N, RADL_N, RASL_N
_HEVC_HARMLESS = _HEVC_SUB_LAYER_NON_REFERENCE | {35, 38}  # access unit delimiter, filler
_HEVC_NUM_PICTURE_KINDS = 32
_HEVC_SPS, _HEVC_PREFIX_SEI, _HEVC_SUFFIX_SEI = 33, 39, 40
_HVCC_HEADER_BYTES = 23

# Messages that concern their own picture, or nothing that shows in pixels: buffering period, picture timing, filler,
# registered and unregistered user data, active parameter sets, decoding unit information, hash, time code, mastering
# display, light level. Not among them: recovery points and film grain, which concern the pictures that follow.
_TRANSIENT_MESSAGES = frozenset((0, 1, 3, 4, 5, 129, 130, 132, 136, 137, 144))
_REGISTERED_USER_DATA, _AOMEDIA = 4, b"\xb5\x58\x90"  # whose user data is film grain


class H264Pictures:
    """Tells disposable H.264 packets: all slices in them have a nal_ref_idc of 0 (7.4.1).

    Such a picture is referred to by none, nor do later ones take their frame_num (7.4.3) or picture order count (8.2.1)
    from it. One field of a frame is not disposable without the other, so both must be in the packet (7.4.3,
    field_pic_flag). Nothing else may be in the packet that outlasts the picture, as parameter sets do.

    Args:
        extradata: An ``avcC`` record (14496-15, 5.3.3.1), or parameter sets after start codes; sets in packets count,
            too, and before any is known no picture is disposable.
    """

    def __init__(self, extradata: bytes) -> None:
        self._length_size = unit_length_size(extradata)
        self._parameters: set[SequenceParameters] = set()
        in_record = self._length_size is not None
        for unit in sequence_parameter_units(extradata) if in_record else nal_units(memoryview(extradata), None):
            if unit and unit[0] & 31 == _H264_SPS:
                self._parameters.add(parse_sequence_parameters(unit))

    def is_disposable(self, packet: memoryview) -> bool:
        """Whether the pictures in a packet can be left out; ``ValueError`` or ``IndexError`` if it does not add up."""
        if self._length_size is None and _begins_with_reference(packet):
            return False
        structures: set[PictureStructure] = set()
        outlasts_picture = False
        for unit in nal_units(packet, self._length_size):
            reference, kind = (unit[0] >> 5) & 3, unit[0] & 31
            if kind == _H264_SLICE and not reference:
                # Which of several sets applies is not looked up.
                structures |= {slice_structure(unit, parameters) for parameters in self._parameters}
            elif kind in _H264_SLICES:
                return False
            elif kind == _H264_SPS:
                self._parameters.add(parse_sequence_parameters(unit))
            if kind == _H264_SEI:
                outlasts_picture |= not _is_transient(unit, 1)
            elif kind not in _H264_HARMLESS or unit[0] & _FORBIDDEN_BIT or reference:
                outlasts_picture = True
        return not outlasts_picture and structures in (_FRAMES, _FIELD_PAIRS)


class HevcPictures:
    """Tells disposable HEVC packets: sub-layer non-reference pictures of the highest temporal sub-layer (7.4.2.2).

    Pictures of the same sub-layer do not refer to them, but those of higher ones may. So the highest TemporalId must be
    known: sps_max_sub_layers_minus1 (7.4.3.2.1) of all sequence parameter sets in the extradata. If one in a packet
    says otherwise, nothing is disposable from there on. Nor are pictures of several layers (annex F), and what is in a
    packet with something that outlasts the picture, as parameter sets do.

    Args:
        extradata: An ``hvcC`` record (14496-15, 8.3.3.1), or parameter sets after start codes.
    """

    def __init__(self, extradata: bytes) -> None:
        is_record = extradata[:1] == b"\x01" and len(extradata) >= _HVCC_HEADER_BYTES
        self._length_size = (extradata[21] & 3) + 1 if is_record else None
        units = _record_units(extradata) if is_record else nal_units(memoryview(extradata), None)
        highest = {_max_sub_layers_minus1(unit) for unit in units if _hevc_kind(unit) == _HEVC_SPS}
        self._highest_temporal_id = highest.pop() if len(highest) == 1 else None

    def is_disposable(self, packet: memoryview) -> bool:
        """Whether the pictures in a packet can be left out; ``ValueError`` or ``IndexError`` if it does not add up."""
        has_picture = outlasts_picture = False
        for unit in nal_units(packet, self._length_size):
            kind, layer, temporal_id = _hevc_kind(unit), (unit[0] & 1) << 5 | unit[1] >> 3, (unit[1] & 7) - 1
            if kind < _HEVC_NUM_PICTURE_KINDS:
                if kind not in _HEVC_SUB_LAYER_NON_REFERENCE or layer or temporal_id != self._highest_temporal_id:
                    return False
                has_picture = True
            elif kind == _HEVC_SPS and not layer and _max_sub_layers_minus1(unit) != self._highest_temporal_id:
                self._highest_temporal_id = None
            if kind in (_HEVC_PREFIX_SEI, _HEVC_SUFFIX_SEI):
                outlasts_picture |= not _is_transient(unit, 2)
            elif kind not in _HEVC_HARMLESS or unit[0] & _FORBIDDEN_BIT or layer:
                outlasts_picture = True
        return has_picture and not outlasts_picture


def _begins_with_reference(packet: memoryview) -> bool:
    """Whether the first slice after start codes is of a reference, without parameters before: what most packets are."""
    match = _H264_SLICE_OR_SPS.search(packet)
    return match is not None and match[1][0] >> 5 != 0 and match[1][0] & 31 != _H264_SPS


def _hevc_kind(unit: memoryview | bytes) -> int:
    return unit[0] >> 1 & 63


def _max_sub_layers_minus1(unit: memoryview | bytes) -> int:
    # After the header of two bytes: sps_video_parameter_set_id u(4), sps_max_sub_layers_minus1 u(3).
    return unit[2] >> 1 & 7


def _record_units(record: bytes) -> Iterator[bytes]:
    """The parameter sets of an ``hvcC`` record."""
    position = _HVCC_HEADER_BYTES
    for _ in range(record[22]):
        count = int.from_bytes(record[position + 1 : position + 3], "big")
        position += 3
        for _ in range(count):
            size = int.from_bytes(record[position : position + 2], "big")
            unit = record[position + 2 : position + 2 + size]
            if len(unit) != size or not size:
                raise ValueError("a record that ends early")
            yield unit
            position += 2 + size


def supplemental_messages(unit: memoryview | bytes, header_bytes: int) -> Iterator[tuple[int, bytes]]:
    """(type, payload) of the messages in a unit of supplemental information (7.3.2.3).

    Raises:
        ValueError, IndexError: behind the last, if they do not fill the unit.
    """
    payload = without_emulation_prevention(unit[header_bytes:]).rstrip(b"\0")
    position, end = 0, len(payload) - 1  # the last byte has the stop bit
    while position < end:
        kind, position = _message_number(payload, position)
        size, position = _message_number(payload, position)
        yield kind, payload[position : position + size]
        position += size
    if position != end:
        raise ValueError("messages that do not fill their unit")


def _is_transient(unit: memoryview | bytes, header_bytes: int) -> bool:
    """Whether a unit of supplemental information holds only messages that no other picture needs."""
    with suppress(ValueError):
        return all(
            kind in _TRANSIENT_MESSAGES and not (kind == _REGISTERED_USER_DATA and message.startswith(_AOMEDIA))
            for kind, message in supplemental_messages(unit, header_bytes)
        )
    return False


def _message_number(payload: bytes, position: int) -> tuple[int, int]:
    """(type or size of a message, position after it): bytes of 255 are added up, with the one after them."""
    number = 0
    while payload[position] == 255:
        number += 255
        position += 1
    return number + payload[position], position + 1
