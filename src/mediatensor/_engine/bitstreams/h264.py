"""Parse H.264 packets: find those without pictures, disposable pictures, single fields, and lost pictures.

`H264Parser` parses the units of each packet once, and sets an attribute for each of these facts.

References are to ITU-T H.264: units 7.3.1, parameter sets 7.3.2, slice header 7.3.3, byte stream annex B; and to
ISO/IEC 14496-15, 5.3.3.1 for the configuration record.

**Lost pictures.** The field frame_num shows whether a reference picture is missing. It is the frame_num of the previous
reference picture plus one, modulo a power of two. An IDR picture has 0 (7.4.3)::

    picture      IDR  P   B   b   b   P   b      b: not a reference
    frame_num     0   1   2   3   3   3   4
                          └ lost: after 1 comes 3

Loss of the last reference pictures before an IDR picture cannot be detected, but later pictures do not need these.

**Disposable pictures.** Decoding can skip a packet if no other picture needs it. This is true if all its slices have a
nal_ref_idc of 0 (7.4.1). No other picture refers to such a picture or derives its own frame_num (7.4.3) or picture
order count (8.2.1) from it. Two fields of a frame are disposable only together, so both must be in the packet. The
packet must not contain units that apply to later pictures, such as parameter sets.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from .units import (
    HEAD_BYTES,
    MAX_ZEROS,
    BitReader,
    PacketContent,
    avc_length_size,
    avc_parameter_units,
    messages_are_transient,
    nal_units,
    spans_within,
    start_code_spans,
    supplemental_messages,
    unit_spans,
    without_emulation_prevention,
)

_SLICE, _PARTITION_A, _IDR_SLICE, _SEI, _SPS, _PPS, _DELIMITER = 1, 2, 5, 6, 7, 8, 9
_SLICES = frozenset((_SLICE, _PARTITION_A, _IDR_SLICE))  # the other two partitions have no header
_HARMLESS = frozenset((_DELIMITER, 12, 14))  # filler, prefix
# Units that may come before the slices of a plain picture.
_PASSED = frozenset((_SEI, _SPS, _PPS, _DELIMITER))
_FORBIDDEN_BIT, _REFERENCE, _KIND = 0x80, 0x60, 0x1F
_LAST_KIND = 23  # higher kinds do not occur in streams
# All possible first bytes of units, and the first bytes of slices.
_POSSIBLE_HEADERS = frozenset(byte for byte in range(_FORBIDDEN_BIT) if 0 < byte & _KIND <= _LAST_KIND)
_SLICE_HEADERS = frozenset(byte for byte in range(_FORBIDDEN_BIT) if byte & _KIND in _SLICES)

_PROFILES_WITH_CHROMA_FORMAT = frozenset((44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244))
_B, _I, _SI = 1, 2, 4
_LAST_PARAMETER_ID = 255
_MAX_FRAME_NUM_BITS = 16
_MAX_REFERENCES = 32
_RECOVERY_POINT = 6

# Numbers of bytes that contain: a slice header with weights for many references; all fields up to frame_num; the field
# flags.
_SLICE_BYTES, _FRAME_NUM_BYTES, _FIELD_BYTES = 320, 24, 64
# Largest offset of the slice in a plain packet, so that its header is in the first bytes.
_MAX_SLICE_START = HEAD_BYTES - _SLICE_BYTES
# In nearly every first slice, the fields up to the picture parameter set have at most this many bits: 1, 1 to 7, 1.
_SHORT_PREFIX_BITS = 9
# Longer than the parsed part of any parameter set: 480 numbers of scaling lists take 1,020 bytes at most.
_PARAMETER_BYTES = 2048
_EMULATION_PREVENTION = b"\0\0\3"


class PictureStructure(Enum):
    """Structure of a coded picture: a whole frame, or one of its two fields."""

    FRAME = "frame"
    TOP_FIELD = "top field"
    BOTTOM_FIELD = "bottom field"


_FRAME = PictureStructure.FRAME
_FIELD_PAIR = {PictureStructure.TOP_FIELD, PictureStructure.BOTTOM_FIELD}


@dataclass(frozen=True)
class _OrderCount:
    """How slice headers store picture order counts, according to a sequence parameter set."""

    kind: int  # pic_order_cnt_type
    num_bits: int = 0  # size of pic_order_cnt_lsb (kind 0)
    has_deltas: bool = False  # differences from the expected count (kind 1)


@dataclass(frozen=True)
class _SequenceParameters:
    """The fields of a sequence parameter set that are needed for parsing slice headers and classifying pictures."""

    identifier: int
    frame_num_bits: int
    plane_bits: int  # bits of the colour plane in slice headers: 2 if planes are coded separately, otherwise 0
    has_chroma: bool  # slices code luma and chroma
    allows_fields: bool  # pictures may be single fields
    allows_gaps: bool  # frame_num may skip values on purpose
    order_count: _OrderCount


@dataclass(frozen=True)
class _PictureParameters:
    """The fields of a picture parameter set that are needed for parsing slice headers."""

    sequence: int  # identifier of its sequence parameter set
    has_field_order: bool  # frames state the difference of their fields' order counts
    num_references: tuple[int, int]  # default lengths of the two lists
    has_weights: bool  # explicit weights in P slices
    has_weights_in_b: bool
    has_redundant_pictures: bool  # slices state the number of a redundant picture


# A slice of a reference picture: bytes that contain it, its offset in them, its frame_num, its parameter sets.
_Reference = tuple[bytes, int, int, _SequenceParameters, _PictureParameters]


class H264Parser:
    """Parses the packets of a stream in decode order, each once.

    Its attributes describe the packet that was parsed last. In case of doubt, ``follows`` is true and ``is_disposable``
    is false. In four cases, the parser cannot determine whether a picture was lost: parameter sets are missing, the
    previous packet could not be parsed, frame_num repeats, or the stream allows frame_num to skip values
    (gaps_in_frame_num_value_allowed_flag). Units of other layers and views are skipped.

    ``extradata`` is an ``avcC`` record, or parameter sets after start codes. With ``is_thorough``, the parser also
    checks the frame_num of pictures that are not references. It then detects a loss one picture earlier, and detects it
    even if no reference picture follows.
    """

    content: PacketContent  # whether the packet has a picture
    is_whole: bool  # whether its units have possible headers, and their lengths add up to the packet's size
    is_disposable: bool  # whether no other picture refers to the pictures of the packet
    is_field: bool  # whether the packet is one field of a frame
    follows: bool  # whether no reference picture between this packet and the previous one is missing

    def __init__(self, extradata: bytes, *, is_thorough: bool = True) -> None:
        self._is_thorough = is_thorough
        self._length_size = avc_length_size(extradata)
        # Current parameter sets by identifier, and all sequence parameter sets so far.
        self._sequences: dict[int, _SequenceParameters] = {}
        self._pictures: dict[int, _PictureParameters | None] = {}
        self._seen: set[_SequenceParameters] = set()
        # Key: first bits of a slice. Value: position of frame_num (a right shift), its largest value, parameter sets.
        self._number_places: dict[int, tuple[int, int, _SequenceParameters, _PictureParameters]] = {}
        self._last_reference: _Reference | None = None
        #: Whether any sequence parameter set so far allows single fields.
        self.may_be_fields = False
        self._is_readable = True
        try:
            for unit in avc_parameter_units(extradata):
                with suppress(ValueError) if unit[0] & _KIND != _SPS else nullcontext():
                    self._learn(bytes(unit[:_PARAMETER_BYTES]))
        except ValueError:
            self._is_readable = False
        self._configured = self._sequences, self._pictures
        self.restart()
        self.content = PacketContent.PICTURE
        self.is_whole = self.follows = True
        self.is_disposable = self.is_field = False

    def restart(self) -> None:
        """Reset the parser to the parameter sets in ``extradata``. The next packet can be any packet of the stream."""
        sequences, pictures = self._configured
        if self._sequences != sequences or self._pictures != pictures:
            self._number_places = {}
        self._sequences, self._pictures = dict(sequences), dict(pictures)
        self._last_reference = None

    def read_plain(self, head: bytes, size: int) -> bool:
        """Return whether the first bytes of the next packet show that it is plain. If not, the caller uses `read`.

        A plain packet has one picture, which is a whole frame, and no reference picture is missing before it. Only a
        delimiter, supplemental information and, in streams with start codes, parameter sets are allowed before its
        first slice. The slice must be the last unit; in streams with start codes, this is not checked.

        ``head`` is the first `HEAD_BYTES` of the packet, or the whole packet if it is shorter. ``size`` is the size of
        the packet. This method does not update the attributes, and does not determine whether the picture is
        disposable.
        """
        if self._last_reference is None or self.may_be_fields:
            return False
        try:
            if self._length_size is None:
                start = head.find(b"\0\0\1", 0, MAX_ZEROS) + 3
                while start > 2 and (header := head[start]) & _KIND in _PASSED and header < _FORBIDDEN_BIT:
                    unit_start, start = start, head.find(b"\0\0\1", start) + 3
                    if header & _KIND in (_SPS, _PPS) and start > 2:
                        self._learn(head[unit_start : start - 3])
                if start < 3:
                    return False
            else:
                start = self._length_size
                stop = start + int.from_bytes(head[:start], "big")
                while (header := head[start]) == _DELIMITER or header == _SEI:
                    if stop == start:
                        return False
                    start = stop + self._length_size
                    stop = start + int.from_bytes(head[stop:start], "big")
                if stop != size:
                    return False
            # first_mb_in_slice ue(v) is 0 in the first slice of a picture
            if header & ~_REFERENCE not in (_SLICE, _IDR_SLICE) or head[start + 1] < 0x80:
                return False
        except (IndexError, ValueError):
            return False
        if not header & _REFERENCE and not self._is_thorough:
            return True
        return start <= _MAX_SLICE_START and not self.may_be_fields and self._follows_plainly(head, start)

    def _follows_plainly(self, head: bytes, start: int) -> bool:
        """Return whether the slice at ``start`` in the bytes ``head`` evidently follows the last reference picture.

        If not, `_can_follow` decides, which takes longer.
        """
        before = self._last_reference
        first = head[start + 1 : start + 7]
        # There may be emulation prevention, or the unit is too short.
        if b"\0\0" in first or len(first) < 6:
            return False
        bits = int.from_bytes(first, "big") >> 16
        place = self._number_places.get(bits >> 32 - _SHORT_PREFIX_BITS) or self._find_number(bits)
        if place is None:
            return False
        shift, last_number, sequence, picture = place
        frame_num = bits >> shift & last_number
        header = head[start]
        if before is not None and header & _KIND != _IDR_SLICE and frame_num - before[2] & last_number > 1:
            return False
        if header & _REFERENCE:
            self._last_reference = head, start, frame_num, sequence, picture
        return True

    def _find_number(self, bits: int) -> tuple[int, int, _SequenceParameters, _PictureParameters] | None:
        """Find the place of frame_num in a slice that starts with the 32 bits ``bits``, and store the place.

        Return ``None`` if a parameter set is missing, or the fields before frame_num are too long.
        """
        first_bits = bits >> 32 - _SHORT_PREFIX_BITS
        prefix = _short_prefix(first_bits)
        picture = None if prefix is None else self._pictures.get(prefix[1])
        sequence = None if picture is None else self._sequences.get(picture.sequence)
        if prefix is None or picture is None or sequence is None:
            return None
        num_bits = sequence.frame_num_bits
        shift = 32 - prefix[0] - sequence.plane_bits - num_bits
        self._number_places[first_bits] = place = shift, (1 << num_bits) - 1, sequence, picture
        return place

    def read(self, packet: memoryview) -> None:
        """Parse the next packet, and set the attributes."""
        if self._length_size == 4 and not self.may_be_fields and self._seen and self._is_readable:
            # Most packets are one slice of a frame. For them, the general code below takes three times as long.
            head = bytes(packet[: 4 + _SLICE_BYTES])
            header = head[4] if head[4:] else 0
            is_one_slice = header & ~_REFERENCE in (_SLICE, _IDR_SLICE)
            if is_one_slice and int.from_bytes(head[:4], "big") == len(packet) - 4:
                is_reference = header & _REFERENCE != 0
                self.follows = True
                if (self._is_thorough or is_reference) and not self._follows_plainly(head, 4):
                    try:
                        self.follows = self._can_follow(head[4:], is_reference=is_reference)
                    except ValueError:
                        self._last_reference = None
                self.content, self.is_whole, self.is_field = PacketContent.PICTURE, True, False
                self.is_disposable = header == _SLICE
                return
        data: memoryview | bytes = packet
        is_whole = True
        if self._length_size is None:
            data = bytes(packet)
            spans, fills = start_code_spans(data)
            content = PacketContent.NO_PICTURE if spans else PacketContent.PICTURE
        else:
            spans, fills = unit_spans(packet, self._length_size)
            content = PacketContent.NO_PICTURE
            headers = {packet[start] for start, _ in spans}
            is_whole = fills and headers <= _POSSIBLE_HEADERS
            if not headers <= _SLICE_HEADERS:
                spans = _with_units_within(packet, spans)
        is_undecided = True  # until a unit shows whether there is a picture
        is_first_slice = is_tracked = follows = True
        is_field = False
        is_disposable = fills and self._is_readable
        structures: set[PictureStructure | None] = set()
        messages: list[tuple[int, int]] = []
        for start, stop in spans:
            header = data[start]
            kind = header & _KIND
            if self._length_size is None and is_undecided and header not in _POSSIBLE_HEADERS:
                content, is_undecided = PacketContent.FOREIGN, False
            if kind in _SLICES:
                if is_undecided and kind != _PARTITION_A and not header & _FORBIDDEN_BIT:
                    content, is_undecided = PacketContent.PICTURE, False
                if kind != _SLICE or header & (_REFERENCE | _FORBIDDEN_BIT):
                    is_disposable = False
                limit = start + _SLICE_BYTES
                unit = bytes(data[start : limit if limit < stop else stop])
                if self.may_be_fields and (is_first_slice or is_disposable):
                    slice_structures = self._structures_of(unit)
                    is_field |= is_first_slice and not slice_structures.isdisjoint(_FIELD_PAIR)
                    structures |= slice_structures
                # first_mb_in_slice ue(v) is 0 in the first slice of a picture
                if is_tracked and (is_first_slice or unit[1:2] >= b"\x80"):
                    is_reference = bool(header & _REFERENCE)
                    if self._is_thorough or is_reference:
                        try:
                            follows = self._can_follow(unit, is_reference=is_reference) and follows
                        except ValueError:
                            is_tracked = False
                is_first_slice = False
            elif kind == _SEI:
                messages += [(start, stop)]
            elif kind in (_SPS, _PPS):
                is_disposable = False
                if not is_whole:  # the unit may not be a parameter set
                    is_tracked = False
                    continue
                try:
                    self._learn(bytes(data[start:stop][:_PARAMETER_BYTES]))
                except (ValueError, IndexError):
                    is_tracked = False
            elif kind not in _HARMLESS or header & (_REFERENCE | _FORBIDDEN_BIT):
                is_disposable = False
        if not is_tracked:
            self._last_reference = None
        if is_disposable:
            if self.may_be_fields:
                is_disposable = structures in ({_FRAME}, _FIELD_PAIR)
            else:
                is_disposable = not is_first_slice and bool(self._seen)
        self.content, self.is_whole, self.is_field = content, is_whole, is_field and is_whole
        self.follows = follows or not is_tracked
        self.is_disposable = is_disposable and (
            not messages or all(messages_are_transient(data[start:stop], 1) for start, stop in messages)
        )

    def _learn(self, unit: bytes) -> None:
        kind = unit[0] & _KIND
        self._number_places = {}
        if kind == _SPS:
            sequence = _parse_sequence_parameters(unit)
            if sequence.identifier > _LAST_PARAMETER_ID or sequence.frame_num_bits > _MAX_FRAME_NUM_BITS:
                raise ValueError("a sequence parameter set with impossible numbers")
            self._sequences[sequence.identifier] = sequence
            self._seen.add(sequence)
            self.may_be_fields |= sequence.allows_fields
        elif kind == _PPS:
            identifier, picture = _parse_picture_parameters(unit)
            self._pictures[identifier] = picture

    def _structures_of(self, unit: bytes) -> set[PictureStructure | None]:
        """Return the possible structures of a slice, by sequence parameter set; ``None`` if its header ends early."""
        return {_slice_structure(unit, parameters) for parameters in self._seen}

    def _can_follow(self, unit: bytes, *, is_reference: bool) -> bool:
        """Return whether a slice can directly follow the last reference picture. Raise ValueError if it is invalid."""
        head, num_left = unit[1:_FRAME_NUM_BYTES], 8 * (_FRAME_NUM_BYTES - 1)
        if _EMULATION_PREVENTION in head or not unit[_FRAME_NUM_BYTES - 1 :]:
            head = without_emulation_prevention(head)
            num_left = 8 * len(head)
        prefix = _short_prefix(head[0] << 1 | head[1] >> 7) if head[1:] else None
        num_bits, identifier = prefix or _slice_prefix(head)
        try:
            picture = self._pictures[identifier]
            sequence = self._sequences[-1 if picture is None else picture.sequence]
        except KeyError:
            raise ValueError("a slice without its parameter sets") from None
        assert picture is not None
        num_left -= num_bits + sequence.plane_bits + sequence.frame_num_bits
        if num_left < 0:
            raise ValueError("the header ends early")
        last_number = (1 << sequence.frame_num_bits) - 1
        frame_num = int.from_bytes(head, "big") >> num_left & last_number
        before = self._last_reference
        if is_reference:
            self._last_reference = unit, 0, frame_num, sequence, picture
        if before is None or unit[0] & _KIND == _IDR_SLICE or sequence.allows_gaps:
            return True
        # A difference of 0 is another slice, or the other field of the same frame.
        steps = frame_num - before[2] & last_number
        return steps <= 1 or (frame_num <= 1 and _may_reset(*before))


def _with_units_within(packet: memoryview, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Split units that contain start codes, unless they are slices. Return the (start, stop) of all resulting units."""
    return [
        span
        for start, stop in spans
        for span in (((start, stop),) if packet[start] in _SLICE_HEADERS else spans_within(packet, start, stop))
    ]


def _slice_prefix(head: bytes) -> tuple[int, int]:
    """Parse the first fields of a slice header. Return (their number of bits, identifier of the picture parameter set).

    The field after them is frame_num, or the colour plane if the stream's slices state one.
    """
    bits = BitReader(head)
    bits.exp_golomb(), bits.exp_golomb()  # first macroblock, slice type
    identifier = bits.exp_golomb()
    return 8 * len(head) - bits.num_left, identifier


@lru_cache(maxsize=1 << _SHORT_PREFIX_BITS)
def _short_prefix(first_bits: int) -> tuple[int, int] | None:
    """Return the result of `_slice_prefix` for a slice that starts with these nine bits; ``None`` if it has more bits.

    >>> _short_prefix(0b1_00110_1_00)  # first macroblock 0, slice type 5, picture parameter set 0
    (7, 0)
    """
    try:
        prefix = _slice_prefix((first_bits << 16 - _SHORT_PREFIX_BITS).to_bytes(2, "big"))
    except ValueError:
        return None
    return prefix if prefix[0] <= _SHORT_PREFIX_BITS else None


# Streams repeat their parameter sets, and files of one encoder have the same ones.
@lru_cache(maxsize=64)
def _parse_sequence_parameters(unit: bytes) -> _SequenceParameters:
    """Parse a sequence parameter set (a unit of type 7). Raise ValueError if the unit ends early."""
    bits = _payload(unit, _PARAMETER_BYTES)
    profile = bits.read(8)
    bits.read(16)  # constraints, level
    identifier = bits.exp_golomb()
    has_separate_planes, chroma_format = False, 1
    if profile in _PROFILES_WITH_CHROMA_FORMAT:
        chroma_format = bits.exp_golomb()
        has_separate_planes = chroma_format == 3 and bool(bits.read(1))
        bits.exp_golomb(), bits.exp_golomb(), bits.read(1)  # bit depths, transform bypass
        if bits.read(1):
            for number in range(12 if chroma_format == 3 else 8):
                if bits.read(1):
                    _skip_scaling_list(bits, 16 if number < 6 else 64)
    frame_num_bits = bits.exp_golomb() + 4
    order_count = _order_count(bits)
    bits.exp_golomb()  # number of references
    allows_gaps = bits.flag()
    bits.exp_golomb(), bits.exp_golomb()  # width, height
    return _SequenceParameters(
        identifier,
        frame_num_bits,
        2 if has_separate_planes else 0,
        has_chroma=chroma_format != 0 and not has_separate_planes,
        allows_fields=not bits.flag(),
        allows_gaps=allows_gaps,
        order_count=order_count,
    )


def _skip_scaling_list(bits: BitReader, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.signed_exp_golomb()) % 256
        last = following or last


def _order_count(bits: BitReader) -> _OrderCount:
    kind = bits.exp_golomb()
    if kind == 0:
        return _OrderCount(kind, num_bits=bits.exp_golomb() + 4)
    if kind != 1:
        return _OrderCount(kind)
    has_deltas = not bits.flag()
    bits.exp_golomb(), bits.exp_golomb()  # offsets
    for _ in range(bits.exp_golomb()):
        bits.exp_golomb()
    return _OrderCount(kind, has_deltas=has_deltas)


def _slice_structure(unit: bytes, parameters: _SequenceParameters) -> PictureStructure | None:
    """Return whether a slice belongs to a frame or a field, from its header (field_pic_flag, bottom_field_flag)."""
    if not parameters.allows_fields:
        return PictureStructure.FRAME
    with suppress(ValueError):
        bits = _payload(unit, _FIELD_BYTES)
        bits.exp_golomb(), bits.exp_golomb(), bits.exp_golomb()  # first macroblock, type, picture parameter set
        bits.read(parameters.plane_bits + parameters.frame_num_bits)
        if not bits.flag():
            return PictureStructure.FRAME
        return PictureStructure.BOTTOM_FIELD if bits.flag() else PictureStructure.TOP_FIELD
    return None


def _payload(unit: memoryview | bytes, num_bytes: int) -> BitReader:
    return BitReader(without_emulation_prevention(unit[1:num_bytes]))


@lru_cache(maxsize=64)
def _parse_picture_parameters(unit: bytes) -> tuple[int, _PictureParameters | None]:
    """Parse a picture parameter set. Return (identifier, parameters, or ``None`` if it has slice groups)."""
    bits = _payload(unit, _PARAMETER_BYTES)
    identifier, sequence = bits.exp_golomb(), bits.exp_golomb()
    bits.read(1)  # entropy coding
    has_field_order = bits.flag()
    if identifier > _LAST_PARAMETER_ID:
        raise ValueError("a picture parameter set with an impossible number")
    if bits.exp_golomb():
        return identifier, None
    num_references = (bits.exp_golomb() + 1, bits.exp_golomb() + 1)
    has_weights, has_weights_in_b = bits.flag(), bits.read(2) == 1
    bits.exp_golomb(), bits.exp_golomb(), bits.exp_golomb()  # quantisers
    bits.read(2)  # deblocking control, constrained intra prediction
    return identifier, _PictureParameters(
        sequence, has_field_order, num_references, has_weights, has_weights_in_b, has_redundant_pictures=bits.flag()
    )


def _may_reset(data: bytes, start: int, _: int, sequence: _SequenceParameters, picture: _PictureParameters) -> bool:
    """Return whether a reference picture possibly resets its frame_num to 0 (memory_management_control_operation 5).

    The arguments are the items of a `_Reference`. The result is also True if the header cannot be parsed.
    """
    if data[start] & _KIND == _IDR_SLICE:
        return False
    bits = _payload(data[start : start + _SLICE_BYTES].partition(b"\0\0\1")[0], _SLICE_BYTES)
    try:
        kind = _skip_picture_identity(bits, sequence, picture)
        _skip_references(bits, sequence, picture, kind)
        return _has_reset_operation(bits)
    except ValueError:
        return True


def _skip_picture_identity(bits: BitReader, sequence: _SequenceParameters, picture: _PictureParameters) -> int:
    """Skip the fields of a slice header that identify a non-IDR picture. Return the type of the slice, modulo 5."""
    bits.exp_golomb()  # first macroblock
    kind = bits.exp_golomb() % 5
    bits.exp_golomb()  # picture parameter set
    bits.read(sequence.frame_num_bits + sequence.plane_bits)
    is_field = sequence.allows_fields and bits.flag()
    if is_field:
        bits.read(1)  # top or bottom
    has_second = picture.has_field_order and not is_field
    order_count = sequence.order_count
    if order_count.kind == 0:
        bits.read(order_count.num_bits)
        if has_second:
            bits.exp_golomb()
    elif order_count.has_deltas:
        bits.exp_golomb()
        if has_second:
            bits.exp_golomb()
    if picture.has_redundant_pictures:
        bits.exp_golomb()
    return kind


def _skip_references(bits: BitReader, sequence: _SequenceParameters, picture: _PictureParameters, kind: int) -> None:
    if kind in (_I, _SI):
        return
    if kind == _B:
        bits.read(1)  # direct prediction
    num_lists = 2 if kind == _B else 1
    counts = list(picture.num_references[:num_lists])
    if bits.flag():
        counts = [bits.exp_golomb() + 1 for _ in range(num_lists)]
    if max(counts) > _MAX_REFERENCES:
        raise ValueError("too many references")
    for _ in range(num_lists):
        if bits.flag():
            while bits.exp_golomb() != 3:
                bits.exp_golomb()
    if picture.has_weights_in_b if kind == _B else picture.has_weights:
        _skip_weights(bits, sum(counts), has_chroma=sequence.has_chroma)


def _skip_weights(bits: BitReader, count: int, *, has_chroma: bool) -> None:
    for _ in range(2 if has_chroma else 1):
        bits.exp_golomb()  # denominator
    for _ in range(count):
        if bits.flag():
            bits.exp_golomb(), bits.exp_golomb()
        if has_chroma and bits.flag():
            for _ in range(4):
                bits.exp_golomb()


def _has_reset_operation(bits: BitReader) -> bool:
    """Return whether operation 5 is among the reference picture marking operations (7.3.3.3) of a non-IDR picture."""
    if not bits.flag():
        return False
    while (operation := bits.exp_golomb()) != 0:
        if operation == 5:
            return True
        bits.exp_golomb()
        if operation == 3:
            bits.exp_golomb()
    return False


def begins_incomplete(packet: memoryview, extradata: bytes) -> bool:
    """Return whether the first picture can be incomplete if decoding starts at this packet.

    It is complete if it is an IDR picture or a recovery point (D.2.8: recovery_frame_cnt of 0).
    """
    messages: list[memoryview | bytes] = []
    with suppress(ValueError, IndexError):
        for whole in nal_units(packet, avc_length_size(extradata)):
            # If a unit contains start codes, a slice at its beginning is still the first slice.
            is_slice = whole[0] & _KIND in (_SLICE, _IDR_SLICE)
            for start, stop in [(0, len(whole))] if is_slice else spans_within(whole, 0, len(whole)):
                unit = whole[start:stop]
                kind = unit[0] & _KIND
                if kind in (_SLICE, _IDR_SLICE):
                    return kind == _SLICE and not any(map(_is_recovery_point, messages))
                if kind == _SEI:
                    messages.append(unit)
    return False


def _is_recovery_point(unit: memoryview | bytes) -> bool:
    with suppress(ValueError, IndexError):
        for message, payload in supplemental_messages(unit, 1):
            if message == _RECOVERY_POINT and BitReader(payload).exp_golomb() == 0:
                return True
    return False
