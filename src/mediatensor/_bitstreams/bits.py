"""Fields of bits in headers, and units in packets: what several codecs share. Pure functions on bytes."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = [
    "PARAMETER_BYTES",
    "SLICE_BYTES",
    "BitReader",
    "nal_units",
    "parameter_units",
    "sequence_parameter_units",
    "start_codes",
    "unit_length_size",
    "units",
    "without_emulation_prevention",
]

# More than any header that is read has. It bounds the time that a made-up one can cost.
_MAX_HEADER_BYTES = 4096
# The longest Exp-Golomb code has this many zeros in front (ITU-T H.264, 9.1).
_MAX_EXP_GOLOMB_ZEROS = 32


class BitReader:
    """Reads a header bit by bit, most significant first; a header that ends early is a ``ValueError``.

    >>> bits = BitReader(bytes([0b10100110]))
    >>> bits.read(3), bits.exp_golomb()
    (5, 5)
    """

    def __init__(self, data: bytes) -> None:
        data = data[:_MAX_HEADER_BYTES]
        self._value, self._left = int.from_bytes(data, "big"), len(data) * 8

    def read(self, count: int) -> int:
        """The next ``count`` bits as a number."""
        self._left -= count
        if self._left < 0:
            raise ValueError("the header ends early")
        return (self._value >> self._left) & ((1 << count) - 1)

    def flag(self) -> bool:
        """The next bit."""
        return self.read(1) == 1

    def exp_golomb(self) -> int:
        """An unsigned Exp-Golomb code, ue(v) in ITU-T H.264 and H.265."""
        rest = self._value & ((1 << self._left) - 1) if self._left > 0 else 0
        zeros = self._left - rest.bit_length()
        if not rest or zeros > _MAX_EXP_GOLOMB_ZEROS:
            raise ValueError("the header ends early, or a code has too many zeros")
        self._left -= zeros
        return self.read(zeros + 1) - 1

    def signed_exp_golomb(self) -> int:
        """A signed Exp-Golomb code, se(v)."""
        code = self.exp_golomb()
        return (code + 1) // 2 if code % 2 else -(code // 2)


def without_emulation_prevention(unit: memoryview | bytes) -> bytes:
    """The payload of a NAL unit without the bytes that keep start codes out of it (ITU-T H.264 and H.265, 7.3.1)."""
    return bytes(unit).replace(b"\0\0\3", b"\0\0")


def nal_units(data: memoryview, length_size: int | None) -> Iterator[memoryview | bytes]:
    """The NAL units of a packet, empty ones left out.

    Args:
        data: The packet.
        length_size: Bytes of the length before each unit (ISO/IEC 14496-15); ``None`` for units after start codes
            (ITU-T H.264 and H.265, annex B).

    Raises:
        ValueError: when the units do not fill the packet exactly.
    """
    if length_size is None:
        before, *units = bytes(data).split(b"\0\0\1")
        if before.strip(b"\0"):
            raise ValueError("bytes before the first start code")
        yield from (unit for unit in units if unit)
        return
    position, end = 0, len(data)
    while position < end:
        start = position + length_size
        position = start + int.from_bytes(data[position:start], "big")
        if position > end or start > end:
            raise ValueError("a unit that is longer than the packet")
        if position > start:
            yield data[start:position]


def start_codes(data: bytes) -> Iterator[tuple[int, int]]:
    """(code, position after it) for each start code of MPEG-1, 2 and 4 (ISO/IEC 13818-2, 6.2.1; 14496-2, 6.2.1)."""
    position = data.find(b"\0\0\1")
    while 0 <= position < len(data) - 3:
        yield data[position + 3], position + 4
        position = data.find(b"\0\0\1", position + 3)


#: A whole slice header, with weights for many references.
SLICE_BYTES = 512
#: Longer than any parameter set, as far as it matters here: 480 entries of scaling lists have 1,020 bytes at most.
PARAMETER_BYTES = 2048

_SLICES = frozenset((1, 2, 5))  # also the first of three partitions, and of an IDR picture
_START_CODE = b"\0\0\1"


def unit_length_size(extradata: bytes) -> int | None:
    """Bytes of the length before each unit of a packet, by an ``avcC`` record; ``None`` for units after start codes."""
    return (extradata[4] & 3) + 1 if extradata[:1] == b"\x01" and len(extradata) > 6 else None


def units(data: memoryview, length_size: int | None) -> Iterator[memoryview | bytes]:
    """The units of a packet; one that the packet cuts short is given as far as it goes, perhaps empty.

    After start codes, units are cut where nothing of interest follows: `SLICE_BYTES`, `PARAMETER_BYTES`.

    >>> [bytes(unit) for unit in units(memoryview(bytes([0, 2, 103, 66, 0, 9, 101])), 2)]
    [b'gB', b'e']
    """
    if length_size is None:
        yield from _units_after_start_codes(bytes(data))
        return
    position, end = 0, len(data)
    while position < end:
        start = position + length_size
        position = start + int.from_bytes(data[position:start], "big")
        if position > start:
            yield data[start:position]


def sequence_parameter_units(record: bytes) -> Iterator[bytes]:
    """The sequence parameter sets of an ``avcC`` record."""
    position = 6
    for _ in range(record[5] & 31):
        size = int.from_bytes(record[position : position + 2], "big")
        yield record[position + 2 : position + 2 + size]
        position += 2 + size


def parameter_units(record: bytes) -> Iterator[bytes]:
    """The sequence and picture parameter sets of an ``avcC`` record that are not empty."""
    sequence_units = list(sequence_parameter_units(record))
    position = 6 + sum(2 + len(unit) for unit in sequence_units)
    picture_units = []
    for _ in range(record[position]):
        size = int.from_bytes(record[position + 1 : position + 3], "big")
        picture_units.append(record[position + 3 : position + 3 + size])
        position += 2 + size
    yield from filter(None, (*sequence_units, *picture_units))


def _units_after_start_codes(data: bytes) -> Iterator[bytes]:
    position = data.find(_START_CODE)
    while 0 <= position < len(data) - len(_START_CODE):
        start = position + len(_START_CODE)
        position = data.find(_START_CODE, start)
        stop = start + (SLICE_BYTES if data[start] & 31 in _SLICES else PARAMETER_BYTES)
        yield data[start : stop if position < 0 else min(stop, position)]
