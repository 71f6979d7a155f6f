"""Parse AV1 packets to detect whether they show a frame, and whether they update a reference. Pure functions on bytes.

Numbers of sections, such as 5.9.2, refer to the AV1 bitstream and decoding process specification. The configuration
record (``av1C``) is defined in the AV1 codec ISO media file format binding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .units import BitReader, PacketContent

_SEQUENCE_HEADER, _TEMPORAL_DELIMITER, _FRAME_HEADER, _TILE_GROUP, _METADATA, _FRAME, _PADDING = 1, 2, 3, 4, 5, 6, 15
_HARMLESS = frozenset((_TEMPORAL_DELIMITER, _TILE_GROUP, _METADATA, _PADDING))
_RECORD_MARKER, _RECORD_BYTES = 0x81, 4  # marker and version of ``av1C``, and bytes before its units
# First bytes of base layer units that state their size: a temporal delimiter, and frames.
_DELIMITER_UNIT, _FRAME_UNITS = bytes((_TEMPORAL_DELIMITER << 3 | 2, 0)), (_FRAME << 3 | 2, _FRAME_HEADER << 3 | 2)
_INTER_FRAME = 1
_SELECT = 2  # seq_force_screen_content_tools and seq_force_integer_mv: each frame has its own value
_MAX_OBU_SIZE_BYTES = 8
# Number of bytes at the start of a frame that contain all header fields up to refresh_frame_flags.
_FRAME_HEADER_BYTES = 16


class Av1Content:
    """Determines whether a packet shows a frame, either a new frame or an earlier frame once more (5.9.2).

    If a packet shows several frames, the result is `PacketContent.UNCERTAIN`.
    """

    def __init__(self, extradata: bytes) -> None:
        self._has_still_headers = False
        self.content(record_units(extradata))

    def content(self, packet: memoryview) -> PacketContent:
        num_shown = 0
        try:
            for kind, spatial_id, payload in av1_units(packet):
                if kind in (_FRAME_HEADER, _FRAME):
                    if not spatial_id:  # show_existing_frame, show_frame
                        num_shown += self._has_still_headers or payload[0] & 0x90 != 0
                elif kind == _SEQUENCE_HEADER:
                    self._has_still_headers = bool(payload[0] & 8)  # reduced_still_picture_header
        except (ValueError, IndexError):
            return PacketContent.PICTURE
        if num_shown > 1:
            return PacketContent.UNCERTAIN
        return PacketContent.PICTURE if num_shown else PacketContent.NO_PICTURE

    def is_plain(self, head: bytes, size: int) -> bool:
        """Return whether a packet of ``size`` bytes consists of a shown frame, possibly after a temporal delimiter."""
        position = 2 if head.startswith(_DELIMITER_UNIT) else 0
        try:
            if head[position] not in _FRAME_UNITS:
                return False
            unit_size, position = _leb128(head, position + 1)
            # show_existing_frame, show_frame
            return position + unit_size == size and (self._has_still_headers or bool(head[position] & 0x90))
        except (ValueError, IndexError):
            return False


def is_lone_hidden_frame(beginning: bytes, size: int) -> bool:
    """Return whether a packet of ``size`` bytes contains only one unit: a frame that is not shown (5.9.2)."""
    if beginning[0] >> 3 & 15 not in (_FRAME_HEADER, _FRAME):
        return False
    position = 2 if beginning[0] & 4 else 1  # obu_extension_flag
    if beginning[0] & 2:  # obu_has_size_field
        try:
            unit_size, position = _leb128(beginning, position)
        except ValueError:
            return False
        if position + unit_size != size:
            return False
    return not beginning[position] & 0x90  # show_existing_frame, show_frame


class Av1Pictures:
    """Detects disposable AV1 packets: those that decoding can skip, because their frames update no reference.

    A frame can only depend on other frames through the eight reference slots (7.20). They hold pixels, probabilities,
    motion vectors, segmentation, loop filter deltas and film grain. So a frame that is not stored in a slot
    (refresh_frame_flags is 0, 5.9.2) changes no other frame. A packet is disposable only if all its frames are coded
    inter frames of the base spatial layer. A packet that shows an earlier frame again is not disposable. If frame
    headers have timing information or frame numbers (frame_id_numbers_present_flag), no packet is disposable, because
    decoders check that no number is missing.

    ``extradata`` is an ``av1C`` record, or a sequence header. If it has no sequence header, the first one in a packet
    is used. After a packet with a different sequence header, no packet is disposable.
    """

    def __init__(self, extradata: bytes) -> None:
        self._sequence: _Sequence | None = None
        self._has_changed = False
        for kind, _, payload in av1_units(record_units(extradata)):
            if kind == _SEQUENCE_HEADER:
                self._learn(_parse_sequence_header(payload))

    def is_disposable(self, packet: memoryview) -> bool:
        """Return whether no other frame needs this packet. Raise ValueError or IndexError if the packet is invalid."""
        if self._has_changed:
            return False
        num_frames = 0
        for kind, spatial_id, payload in av1_units(packet):
            if kind == _SEQUENCE_HEADER:
                self._learn(_parse_sequence_header(payload))
                return False
            if kind in (_FRAME_HEADER, _FRAME):
                if spatial_id or self._sequence is None or not _updates_nothing(payload, self._sequence):
                    return False
                num_frames += 1
            elif kind not in _HARMLESS:
                return False
        return num_frames > 0

    def _learn(self, sequence: _Sequence) -> None:
        if self._sequence is None:
            self._sequence = sequence
        self._has_changed |= sequence != self._sequence


@dataclass(frozen=True)
class _Sequence:
    """The fields of a sequence header (5.5) that determine the layout of frame headers."""

    is_plain: bool  # whether frame headers have neither numbers nor timing information
    screen_content_tools: int = 0  # seq_force_screen_content_tools
    integer_motion: int = 0  # seq_force_integer_mv
    order_hint_bits: int = 0  # OrderHintBits


def record_units(record: bytes) -> memoryview:
    """Return the units in an ``av1C`` record; if it is not such a record, all of it."""
    return memoryview(record)[_RECORD_BYTES if record[:1] == bytes([_RECORD_MARKER]) else 0 :]


def av1_units(data: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Yield (type, spatial layer, payload) of the open bitstream units of a packet (5.3)."""
    position, end = 0, len(data)
    while position < end:
        header = data[position]
        if header & 128:
            raise ValueError("not the header of a unit")
        position += 1
        spatial_id = 0
        if header & 4:  # obu_extension_flag
            spatial_id = data[position] >> 3 & 3
            position += 1
        size = end - position
        if header & 2:  # obu_has_size_field
            size, position = _leb128(data, position)
        if size > end - position:
            raise ValueError("a unit that is longer than the packet")
        yield header >> 3 & 15, spatial_id, data[position : position + size]
        position += size


def _leb128(data: memoryview | bytes, position: int) -> tuple[int, int]:
    """Read a number that is stored with 7 bits per byte (4.10.5). Return the number, and the position after it."""
    value = 0
    for i in range(_MAX_OBU_SIZE_BYTES):
        byte = data[position + i]
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            return value, position + i + 1
    raise ValueError("a number that does not end")


def _parse_sequence_header(payload: memoryview) -> _Sequence:
    bits = BitReader(bytes(payload))
    bits.read(3 + 1)  # seq_profile, still_picture
    if bits.flag():  # reduced_still_picture_header
        return _Sequence(is_plain=False)
    # Headers have a decoder model only if they have timing information (5.5.1).
    if bits.flag():  # timing_info_present_flag
        bits.read(32 + 32)  # num_units_in_display_tick, time_scale
        if bits.flag():  # equal_picture_interval
            _skip_uvlc(bits)
        if bits.flag():  # decoder_model_info_present_flag
            return _Sequence(is_plain=False)
    has_display_delay = bits.flag()
    for _ in range(bits.read(5) + 1):  # operating points
        bits.read(12)  # operating_point_idc
        if bits.read(5) > 7:  # seq_level_idx
            bits.read(1)  # seq_tier
        if has_display_delay and bits.flag():
            bits.read(4)
    width_bits, height_bits = bits.read(4) + 1, bits.read(4) + 1
    bits.read(width_bits), bits.read(height_bits)
    if bits.flag():  # frame_id_numbers_present_flag
        return _Sequence(is_plain=False)
    bits.read(3 + 4)  # superblock size, filter intra, edge filter; four kinds of compound and motion
    has_order_hints = bits.flag()
    if has_order_hints:
        bits.read(1 + 1)  # enable_jnt_comp, enable_ref_frame_mvs
    tools = _SELECT if bits.flag() else bits.read(1)
    integer_motion = _SELECT
    if tools:
        integer_motion = _SELECT if bits.flag() else bits.read(1)
    order_hint_bits = bits.read(3) + 1 if has_order_hints else 0
    return _Sequence(True, tools, integer_motion, order_hint_bits)


def _skip_uvlc(bits: BitReader) -> None:
    zeros = 0
    while not bits.flag():
        zeros += 1
    if zeros < 32:
        bits.read(zeros)


def _updates_nothing(payload: memoryview, sequence: _Sequence) -> bool:
    """Return whether ``payload``, a frame unit, is a coded inter frame that updates no reference (5.9.2)."""
    if not sequence.is_plain:
        return False
    bits = BitReader(bytes(payload[:_FRAME_HEADER_BYTES]))
    if bits.flag() or bits.read(2) != _INTER_FRAME:  # show_existing_frame, frame_type
        return False
    if not bits.flag():  # show_frame
        bits.read(1)  # showable_frame
    is_error_resilient = bits.flag()
    bits.read(1)  # disable_cdf_update
    tools = bits.read(1) if sequence.screen_content_tools == _SELECT else sequence.screen_content_tools
    if tools and sequence.integer_motion == _SELECT:
        bits.read(1)  # force_integer_mv
    bits.read(1)  # frame_size_override_flag
    bits.read(sequence.order_hint_bits)
    if not is_error_resilient:
        bits.read(3)  # primary_ref_frame
    return bits.read(8) == 0
