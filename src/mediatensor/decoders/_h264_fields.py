"""Finding H.264 pictures that are coded as single fields: two packets then make one frame. Pure functions on bytes.

References are to ITU-T H.264: parameter sets 7.3.2.1.1, slice header 7.3.3, byte stream annex B; and to
ISO/IEC 14496-15, 5.3.3.1 for the configuration record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

__all__ = ["FieldDetector"]

_SPS, _SLICES = 7, (1, 5)
_PROFILES_WITH_CHROMA_FORMAT = frozenset((44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244))
# Enough of a slice for the fields that are read.
_HEADER_BYTES = 64


class FieldDetector:
    """Tells packets that are single fields.

    Args:
        extradata: The codec's configuration: an ``avcC`` record, or parameter sets in byte stream format.
    """

    def __init__(self, extradata: bytes) -> None:
        is_record = extradata[:1] == b"\x01" and len(extradata) > 6
        self._length_size = (extradata[4] & 3) + 1 if is_record else None
        self._parameters: set[_Parameters] = set()
        self._learn(_record_units(extradata) if is_record else _units(memoryview(extradata), None))

    def _learn(self, units: Iterable[memoryview | bytes]) -> None:
        """Take note of sequence parameter sets that allow fields."""
        for unit in units:
            if unit and unit[0] & 31 == _SPS:
                with suppress(ValueError):
                    parameters = _parse_sps(unit)
                    if parameters.allows_fields:
                        self._parameters.add(parameters)

    def is_field(self, packet: memoryview, *, is_key: bool) -> bool:
        """Whether a packet is one field; parameter sets are looked for in key frames, too."""
        if is_key:
            self._learn(_units(packet, self._length_size))
        if not self._parameters:
            return False
        for unit in _units(packet, self._length_size):
            if unit and unit[0] & 31 in _SLICES:
                # Which of several sets applies is not looked up: any of them is reason enough.
                return any(_slice_is_field(unit, parameters) for parameters in self._parameters)
        return False


@dataclass(frozen=True)
class _Parameters:
    frame_num_bits: int
    has_separate_planes: bool
    allows_fields: bool


class _Bits:
    """Reads the payload of a unit, without its emulation prevention bytes."""

    def __init__(self, unit: memoryview | bytes) -> None:
        payload = bytes(unit[1:_HEADER_BYTES] if unit[0] & 31 in _SLICES else unit[1:])
        payload = payload.replace(b"\x00\x00\x03", b"\x00\x00")
        self._value, self._left = int.from_bytes(payload, "big"), len(payload) * 8

    def read(self, count: int) -> int:
        self._left -= count
        if self._left < 0:
            raise ValueError("the unit ends early")
        return (self._value >> self._left) & ((1 << count) - 1)

    def exp_golomb(self) -> int:
        zeros = 0
        while not self.read(1):
            zeros += 1
        return (1 << zeros) - 1 + self.read(zeros)

    def signed_exp_golomb(self) -> int:
        code = self.exp_golomb()
        return (code + 1) // 2 if code % 2 else -(code // 2)


def _parse_sps(unit: memoryview | bytes) -> _Parameters:
    bits = _Bits(unit)
    profile = bits.read(8)
    bits.read(16)  # constraints, level
    bits.exp_golomb()  # seq_parameter_set_id
    has_separate_planes = False
    if profile in _PROFILES_WITH_CHROMA_FORMAT:
        chroma_format = bits.exp_golomb()
        has_separate_planes = chroma_format == 3 and bool(bits.read(1))
        bits.exp_golomb(), bits.exp_golomb(), bits.read(1)  # bit depths, transform bypass
        if bits.read(1):
            for number in range(12 if chroma_format == 3 else 8):
                if bits.read(1):
                    _skip_scaling_list(bits, 16 if number < 6 else 64)
    frame_num_bits = bits.exp_golomb() + 4
    _skip_picture_order_count(bits)
    bits.exp_golomb(), bits.read(1), bits.exp_golomb(), bits.exp_golomb()  # references, gaps, width, height
    return _Parameters(frame_num_bits, has_separate_planes, allows_fields=not bits.read(1))


def _skip_scaling_list(bits: _Bits, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.signed_exp_golomb()) % 256
        last = following or last


def _skip_picture_order_count(bits: _Bits) -> None:
    kind = bits.exp_golomb()
    if kind == 0:
        bits.exp_golomb()
    elif kind == 1:
        bits.read(1)
        bits.exp_golomb(), bits.exp_golomb()
        for _ in range(bits.exp_golomb()):
            bits.exp_golomb()


def _slice_is_field(unit: memoryview | bytes, parameters: _Parameters) -> bool:
    bits = _Bits(unit)
    try:
        bits.exp_golomb(), bits.exp_golomb(), bits.exp_golomb()  # first macroblock, type, picture parameter set
        bits.read((2 if parameters.has_separate_planes else 0) + parameters.frame_num_bits)
        return bool(bits.read(1))
    except ValueError:
        return False


def _record_units(record: bytes) -> Iterator[bytes]:
    """The sequence parameter sets of an ``avcC`` record."""
    position = 6
    for _ in range(record[5] & 31):
        size = int.from_bytes(record[position : position + 2], "big")
        yield record[position + 2 : position + 2 + size]
        position += 2 + size


def _units(data: memoryview, length_size: int | None) -> Iterator[memoryview | bytes]:
    """The units of a packet: length-prefixed, or after start codes."""
    if length_size is None:
        yield from bytes(data).split(b"\x00\x00\x01")[1:]
        return
    position = 0
    while position + length_size < len(data):
        size = int.from_bytes(data[position : position + length_size], "big")
        yield data[position + length_size : position + length_size + size]
        position += length_size + size
