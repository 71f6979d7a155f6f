"""Finding H.264 pictures that are coded as single fields: two packets then make one frame. Pure functions on bytes.

References are to ITU-T H.264: parameter sets 7.3.2.1.1, slice header 7.3.3, byte stream annex B; and to
ISO/IEC 14496-15, 5.3.3.1 for the configuration record.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from .bits import (
    PARAMETER_BYTES,
    BitReader,
    sequence_parameter_units,
    unit_length_size,
    units,
    without_emulation_prevention,
)

__all__ = [
    "FieldDetector",
    "OrderCount",
    "PictureStructure",
    "SequenceParameters",
    "parse_sequence_parameters",
    "slice_structure",
]

_SPS, _SLICES = 7, (1, 5)
_PROFILES_WITH_CHROMA_FORMAT = frozenset((44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244))
# Enough of a slice for the fields that are read.
_SLICE_HEADER_BYTES = 64


class FieldDetector:
    """Tells packets that are single fields.

    Args:
        extradata: The codec's configuration: an ``avcC`` record, or parameter sets in byte stream format.
    """

    def __init__(self, extradata: bytes) -> None:
        self._length_size = unit_length_size(extradata)
        self._parameters: set[SequenceParameters] = set()
        self._learn(
            units(memoryview(extradata), None) if self._length_size is None else sequence_parameter_units(extradata)
        )

    def _learn(self, units: Iterable[memoryview | bytes]) -> None:
        """Take note of sequence parameter sets that allow fields."""
        for unit in units:
            if unit and unit[0] & 31 == _SPS:
                with suppress(ValueError):
                    parameters = parse_sequence_parameters(unit)
                    if parameters.allows_fields:
                        self._parameters.add(parameters)

    @property
    def may_be_fields(self) -> bool:
        """Whether a parameter set that was seen allows single fields at all."""
        return bool(self._parameters)

    def is_field(self, packet: memoryview, *, is_key: bool) -> bool:
        """Whether a packet is one field; parameter sets are looked for in key frames, too."""
        if is_key:
            self._learn(units(packet, self._length_size))
        if not self._parameters:
            return False
        for unit in units(packet, self._length_size):
            if unit and unit[0] & 31 in _SLICES:
                # Which of several sets applies is not looked up: any of them is reason enough.
                return any(_slice_is_field(unit, parameters) for parameters in self._parameters)
        return False


class PictureStructure(Enum):
    """What a coded picture is: a whole frame, or one of the two fields of one."""

    FRAME = "frame"
    TOP_FIELD = "top field"
    BOTTOM_FIELD = "bottom field"


@dataclass(frozen=True)
class OrderCount:
    """How slice headers give picture order counts.

    Attributes:
        kind: pic_order_cnt_type.
        num_bits: Size of pic_order_cnt_lsb (kind 0).
        has_deltas: Whether there are differences to what is expected (kind 1).
    """

    kind: int
    num_bits: int = 0
    has_deltas: bool = False


@dataclass(frozen=True)
class SequenceParameters:
    """What a sequence parameter set says about the structure of pictures and of slice headers.

    Attributes:
        identifier: By which picture parameter sets refer to it.
        frame_num_bits: Size of a field of the slice header.
        has_separate_planes: Whether slices say which colour plane they are of.
        has_chroma: Whether slices code chroma beside luma.
        allows_fields: Whether pictures may be single fields.
        allows_gaps: Whether frame_num may pass over values on purpose.
        order_count: How slices say in which order pictures are shown.
    """

    identifier: int
    frame_num_bits: int
    has_separate_planes: bool
    has_chroma: bool
    allows_fields: bool
    allows_gaps: bool
    order_count: OrderCount


def parse_sequence_parameters(unit: memoryview | bytes) -> SequenceParameters:
    """Read a sequence parameter set (a unit of type 7); ``ValueError`` if it ends early."""
    bits = BitReader(without_emulation_prevention(unit[1:PARAMETER_BYTES]))
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
    return SequenceParameters(
        identifier,
        frame_num_bits,
        has_separate_planes,
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


def _order_count(bits: BitReader) -> OrderCount:
    kind = bits.exp_golomb()
    if kind == 0:
        return OrderCount(kind, num_bits=bits.exp_golomb() + 4)
    if kind != 1:
        return OrderCount(kind)
    has_deltas = not bits.flag()
    bits.exp_golomb(), bits.exp_golomb()  # offsets
    for _ in range(bits.exp_golomb()):
        bits.exp_golomb()
    return OrderCount(kind, has_deltas=has_deltas)


def slice_structure(unit: memoryview | bytes, parameters: SequenceParameters) -> PictureStructure:
    """What the header of a slice says its picture is (field_pic_flag, bottom_field_flag)."""
    if not parameters.allows_fields:
        return PictureStructure.FRAME
    bits = BitReader(without_emulation_prevention(unit[1:_SLICE_HEADER_BYTES]))
    bits.exp_golomb(), bits.exp_golomb(), bits.exp_golomb()  # first macroblock, type, picture parameter set
    bits.read((2 if parameters.has_separate_planes else 0) + parameters.frame_num_bits)
    if not bits.flag():
        return PictureStructure.FRAME
    return PictureStructure.BOTTOM_FIELD if bits.flag() else PictureStructure.TOP_FIELD


def _slice_is_field(unit: memoryview | bytes, parameters: SequenceParameters) -> bool:
    try:
        return slice_structure(unit, parameters) != PictureStructure.FRAME
    except ValueError:
        return False
