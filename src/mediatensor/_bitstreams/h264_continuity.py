"""Noticing from H.264 packets that a picture between them was lost. Pure functions on bytes.

Reference pictures are counted: frame_num is one more than that of the reference picture before, modulo a power of two,
and 0 at an IDR picture (ITU-T H.264, 7.4.3)::

    picture      IDR  P   B   b   b   P   b      b: not a reference
    frame_num     0   1   2   3   3   3   4
                          └ lost: after 1 comes 3

Nothing tells that the last references before an IDR picture were lost, but then no other picture missed them.
References are to ITU-T H.264: slice header 7.3.3, picture parameter set 7.3.2.2; and to ISO/IEC 14496-15, 5.3.3.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from .bits import (
    PARAMETER_BYTES,
    SLICE_BYTES,
    BitReader,
    parameter_units,
    unit_length_size,
    units,
    without_emulation_prevention,
)
from .h264_fields import SequenceParameters, parse_sequence_parameters

__all__ = ["FrameNumberCheck"]

_SLICE, _PARTITION_A, _IDR_SLICE, _SEQUENCE_PARAMETERS, _PICTURE_PARAMETERS = 1, 2, 5, 7, 8
_SLICES = frozenset((_SLICE, _PARTITION_A, _IDR_SLICE))
_REFERENCE = 0x60  # nal_ref_idc
_B, _I, _SI = 1, 2, 4
_LAST_PARAMETER_ID = 255
_MAX_FRAME_NUM_BITS = 16
_MAX_REFERENCES = 32
# What comes before and with frame_num.
_FRAME_NUM_BYTES = 24


@dataclass(frozen=True)
class _PictureParameters:
    """What a picture parameter set says about slice headers.

    Attributes:
        sequence: Identifier of its sequence parameter set.
        has_field_order: Whether frames give the difference of their fields' order counts.
        num_references: Default lengths of the two lists of references.
        has_weights: Whether P slices have explicit weights.
        has_weights_in_b: Whether B slices have.
        has_redundant_pictures: Whether slices say which redundant picture they are of.
    """

    sequence: int
    has_field_order: bool
    num_references: tuple[int, int]
    has_weights: bool
    has_weights_in_b: bool
    has_redundant_pictures: bool


@dataclass(frozen=True)
class _Slice:
    """The beginning of a slice, with the parameter sets that were in force when it came."""

    unit: bytes
    frame_num: int
    sequence: SequenceParameters
    picture: _PictureParameters

    @property
    def is_idr(self) -> bool:
        return self.unit[0] & 31 == _IDR_SLICE

    @property
    def is_reference(self) -> bool:
        return bool(self.unit[0] & _REFERENCE)


class FrameNumberCheck:
    """Tells whether each picture of an H.264 stream can follow the one before it.

    What cannot be told is taken for sound: without parameter sets, after a packet that does not parse, in streams that
    may leave out numbers (gaps_in_frame_num_value_allowed_flag), and where a number comes twice. Units of other layers
    and views are passed over.

    Args:
        extradata: The codec's configuration: an ``avcC`` record, or parameter sets in byte stream format.
        is_thorough: Look at pictures that are no references, too. They show a loss one picture earlier, and one behind
            which no other reference comes, at twice the cost.
    """

    def __init__(self, extradata: bytes, *, is_thorough: bool = True) -> None:
        self._is_thorough = is_thorough
        self._length_size = unit_length_size(extradata)
        self._sequences: dict[int, SequenceParameters] = {}
        self._pictures: dict[int, _PictureParameters | None] = {}
        self._last_reference: _Slice | None = None
        with suppress(ValueError, IndexError):
            in_record = self._length_size is not None
            for unit in parameter_units(extradata) if in_record else units(memoryview(extradata), None):
                self._learn(unit)

    def follows(self, packet: memoryview) -> bool:
        """Take note of the next packet in decode order; ``False`` if a reference picture before it must be missing.

        >>> FrameNumberCheck(b"").follows(memoryview(b"not a picture"))
        True
        """
        follows = True
        try:
            for part in self._slices(packet):
                follows = self._can_follow(part) and follows
        except (ValueError, IndexError):
            self._last_reference = None
            return True
        return follows

    def _slices(self, packet: memoryview) -> Iterator[_Slice]:
        """The first slice of each picture in a packet, and perhaps others."""
        is_first = True
        for unit in units(packet, self._length_size):
            if unit[0] & 31 not in _SLICES:
                self._learn(unit)
            elif not (self._is_thorough or unit[0] & _REFERENCE):
                is_first = False
            elif is_first or unit[1] & 0x80:  # first_mb_in_slice ue(v) is 0
                is_first = False
                yield self._parse(bytes(unit[:SLICE_BYTES]))

    def _learn(self, unit: memoryview | bytes) -> None:
        """Take note of a parameter set."""
        kind = unit[0] & 31
        if kind == _SEQUENCE_PARAMETERS:
            sequence = parse_sequence_parameters(unit)
            if sequence.identifier > _LAST_PARAMETER_ID or sequence.frame_num_bits > _MAX_FRAME_NUM_BITS:
                raise ValueError("a sequence parameter set with impossible numbers")
            self._sequences[sequence.identifier] = sequence
        elif kind == _PICTURE_PARAMETERS:
            identifier, picture = _parse_picture_parameters(unit)
            self._pictures[identifier] = picture

    def _parse(self, unit: bytes) -> _Slice:
        bits = _payload(unit, _FRAME_NUM_BYTES)
        bits.exp_golomb(), bits.exp_golomb()  # first macroblock, slice type
        picture = self._pictures.get(bits.exp_golomb())
        sequence = None if picture is None else self._sequences.get(picture.sequence)
        if picture is None or sequence is None:
            raise ValueError("a slice without its parameter sets")
        if sequence.has_separate_planes:
            bits.read(2)
        return _Slice(unit, bits.read(sequence.frame_num_bits), sequence, picture)

    def _can_follow(self, part: _Slice) -> bool:
        before = self._last_reference
        if part.is_reference:
            self._last_reference = part
        if before is None or part.is_idr or part.sequence.allows_gaps:
            return True
        steps = (part.frame_num - before.frame_num) % (1 << part.sequence.frame_num_bits)
        # No step: another slice, or the other field of the same frame.
        return steps <= 1 or (part.frame_num <= 1 and not before.is_idr and _may_reset(before))


def _payload(unit: memoryview | bytes, num_bytes: int) -> BitReader:
    return BitReader(without_emulation_prevention(unit[1:num_bytes]))


def _parse_picture_parameters(unit: memoryview | bytes) -> tuple[int, _PictureParameters | None]:
    """(identifier, what it says) of a picture parameter set; ``None`` if it has groups of slices."""
    bits = _payload(unit, PARAMETER_BYTES)
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


def _may_reset(part: _Slice) -> bool:
    """Whether a reference picture may have memory_management_control_operation 5: then its frame_num counts as 0."""
    bits = _payload(part.unit, SLICE_BYTES)
    try:
        kind = _skip_picture_identity(bits, part)
        _skip_references(bits, part, kind)
        return _resets(bits)
    except ValueError:
        return True


def _skip_picture_identity(bits: BitReader, part: _Slice) -> int:
    """Pass over what identifies the picture; the kind of the slice."""
    bits.exp_golomb()  # first macroblock
    kind = bits.exp_golomb() % 5
    bits.exp_golomb()  # picture parameter set
    bits.read(part.sequence.frame_num_bits + (2 if part.sequence.has_separate_planes else 0))
    is_field = part.sequence.allows_fields and bits.flag()
    if is_field:
        bits.read(1)  # top or bottom
    if part.is_idr:
        bits.exp_golomb()
    has_second = part.picture.has_field_order and not is_field
    order_count = part.sequence.order_count
    if order_count.kind == 0:
        bits.read(order_count.num_bits)
        if has_second:
            bits.exp_golomb()
    elif order_count.has_deltas:
        bits.exp_golomb()
        if has_second:
            bits.exp_golomb()
    if part.picture.has_redundant_pictures:
        bits.exp_golomb()
    return kind


def _skip_references(bits: BitReader, part: _Slice, kind: int) -> None:
    """Pass over the lists of references and their weights."""
    if kind in (_I, _SI):
        return
    if kind == _B:
        bits.read(1)  # direct prediction
    num_lists = 2 if kind == _B else 1
    counts = list(part.picture.num_references[:num_lists])
    if bits.flag():
        counts = [bits.exp_golomb() + 1 for _ in range(num_lists)]
    if max(counts) > _MAX_REFERENCES:
        raise ValueError("more references than there can be")
    for _ in range(num_lists):
        if bits.flag():
            while bits.exp_golomb() != 3:
                bits.exp_golomb()
    if part.picture.has_weights_in_b if kind == _B else part.picture.has_weights:
        _skip_weights(bits, sum(counts), has_chroma=part.sequence.has_chroma)


def _skip_weights(bits: BitReader, count: int, *, has_chroma: bool) -> None:
    for _ in range(2 if has_chroma else 1):
        bits.exp_golomb()  # denominator
    for _ in range(count):
        if bits.flag():
            bits.exp_golomb(), bits.exp_golomb()
        if has_chroma and bits.flag():
            for _ in range(4):
                bits.exp_golomb()


def _resets(bits: BitReader) -> bool:
    """Whether the marking of references (7.3.3.3) of a picture that is no IDR picture has operation 5."""
    if not bits.flag():
        return False
    while (operation := bits.exp_golomb()) != 0:
        if operation == 5:
            return True
        bits.exp_golomb()
        if operation == 3:
            bits.exp_golomb()
    return False
