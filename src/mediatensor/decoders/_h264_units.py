"""Where the units of H.264 are: in packets as they come, and in the configuration record. Pure functions on bytes.

What is read here may be damaged: units end where they must, and `_bits.nal_units` is the strict way. References are to
ITU-T H.264, annex B for the byte stream, and to ISO/IEC 14496-15, 5.3.3.1 for the ``avcC`` record.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["PARAMETER_BYTES", "SLICE_BYTES", "parameter_units", "sequence_parameter_units", "unit_length_size", "units"]

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
