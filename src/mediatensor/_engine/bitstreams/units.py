"""Read bits of headers, and find the units of packets. The parsers of several codecs use this module.

References are to ITU-T H.264 and H.265, to ISO/IEC 14496-15 for configuration records, and to ISO/IEC 13818-2 and
14496-2 for start codes of MPEG.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from enum import Enum, IntEnum


class PacketContent(Enum):
    """The kind of result that a decoder will return for a packet, judging by the packet's headers."""

    PICTURE = "a picture that is shown"
    NO_PICTURE = "nothing to show: updates of references, parameters, the end of a sequence"
    NOT_CODED = "a repeat of the previous picture, which is a frame only at the end of a stream"
    UNCERTAIN = "an unknown number of frames, until it is decoded"
    FOREIGN = "data that packets of the codec do not have"


class Disposable(IntEnum):
    """Whether decoding can skip a picture without changing any other picture."""

    UNKNOWN = -1
    NO = 0
    YES = 1


#: Number of first bytes of a packet that suffice to recognise a plain picture.
HEAD_BYTES = 448

#: A packet that starts with this many zeros is damaged, because lost data usually appear as a run of zeros.
MAX_ZEROS = 16

# Larger than any header that is parsed. The limit bounds the parsing time of malicious headers.
_MAX_HEADER_BYTES = 4096
# Leading zeros of the longest Exp-Golomb code (ITU-T H.264, 9.1).
_MAX_EXP_GOLOMB_ZEROS = 32


class BitReader:
    """Reads a header bit by bit, most significant first; raises ValueError at its end.

    >>> bits = BitReader(bytes([0b10100110]))
    >>> bits.read(3), bits.exp_golomb(), bits.num_left
    (5, 5, 0)
    """

    def __init__(self, data: bytes) -> None:
        data = data[:_MAX_HEADER_BYTES]
        self._value = int.from_bytes(data, "big")
        #: Number of unread bits.
        self.num_left = len(data) * 8

    def read(self, count: int) -> int:
        self.num_left -= count
        if self.num_left < 0:
            raise ValueError("the header ends early")
        return (self._value >> self.num_left) & ((1 << count) - 1)

    def flag(self) -> bool:
        return self.read(1) == 1

    def exp_golomb(self) -> int:
        """Read an unsigned Exp-Golomb code, ue(v) in ITU-T H.264 and H.265."""
        rest = self._value & ((1 << self.num_left) - 1) if self.num_left > 0 else 0
        zeros = self.num_left - rest.bit_length()
        if not rest or zeros > _MAX_EXP_GOLOMB_ZEROS:
            raise ValueError("the header ends early, or a code has too many zeros")
        self.num_left -= zeros
        return self.read(zeros + 1) - 1

    def signed_exp_golomb(self) -> int:
        code = self.exp_golomb()
        return (code + 1) // 2 if code % 2 else -(code // 2)


# Units of H.264 and HEVC


def unit_spans(packet: memoryview, length_size: int) -> tuple[list[tuple[int, int]], bool]:
    """Find the units in a packet that stores the length of each unit before it (ISO/IEC 14496-15).

    Return the (start, stop) of each unit, without empty units, and whether the units are valid. They are valid if the
    last one is not empty and ends exactly at the end of the packet. If the packet ends within the last unit, the unit
    is cut there.

    >>> unit_spans(memoryview(bytes([0, 2, 103, 66, 0, 9, 101])), 2)
    ([(2, 4), (6, 7)], False)
    """
    spans: list[tuple[int, int]] = []
    position = start = 0
    end = len(packet)
    while position < end:
        start = position + length_size
        position = start + int.from_bytes(packet[position:start], "big")
        if position <= end:
            if position > start:
                spans += [(start, position)]
        elif start < end:
            spans += [(start, end)]
    return spans, position == end and (position > start or not end)


def start_code_spans(data: bytes) -> tuple[list[tuple[int, int]], bool]:
    """Find the units in a packet that has a start code before each unit (annex B of ITU-T H.264 and H.265).

    Return the (start, stop) of each unit, and whether there are only zeros before the first start code.

    >>> start_code_spans(bytes([0, 0, 1, 103, 66, 0, 0, 1, 101]))
    ([(3, 5), (8, 9)], True)
    """
    spans: list[tuple[int, int]] = []
    position = data.find(b"\0\0\1")
    fills = not data[: position if position >= 0 else None].strip(b"\0")
    while 0 <= position < len(data) - 3:
        start = position + 3
        position = data.find(b"\0\0\1", start)
        spans += [(start, position if position >= 0 else len(data))]
    return spans, fills


def spans_within(packet: memoryview | bytes, start: int, stop: int) -> list[tuple[int, int]]:
    """Split a length-prefixed unit at the start codes inside it, as FFmpeg does. Return (start, stop) of each part.

    Usually the unit has no start code and stays whole, because emulation prevention keeps start codes out of units.

    >>> spans_within(bytes([0, 7, 110, 64, 0, 0, 1, 101, 136]), 2, 9)
    [(2, 4), (7, 9)]
    """
    unit = bytes(packet[start:stop])
    spans = []
    begin, code = 0, unit.find(b"\0\0\1")
    while 0 <= code < len(unit) - 3:
        if code > begin:
            spans.append((start + begin, start + code))
        begin = code + 3
        code = unit.find(b"\0\0\1", begin)
    return [*spans, (start + begin, stop)]


def nal_units(packet: memoryview, length_size: int | None) -> Iterator[memoryview | bytes]:
    """Yield the non-empty units of a packet. Raise ValueError unless the last one ends exactly at the packet's end.

    ``length_size`` is the number of bytes of the length before each unit, or ``None`` if units follow start codes.
    """
    if length_size is None:
        before, *units = bytes(packet).split(b"\0\0\1")
        if before.strip(b"\0"):
            raise ValueError("bytes before the first start code")
        yield from (unit for unit in units if unit)
        return
    position, end = 0, len(packet)
    while position < end:
        start = position + length_size
        position = start + int.from_bytes(packet[position:start], "big")
        if position > end or start > end:
            raise ValueError("a unit that is longer than the packet")
        if position > start:
            yield packet[start:position]


def without_emulation_prevention(unit: memoryview | bytes) -> bytes:
    """Return a unit's payload without the bytes that were inserted to prevent start codes (H.264 and H.265, 7.3.1)."""
    return bytes(unit).replace(b"\0\0\3", b"\0\0")


# Configuration records (ISO/IEC 14496-15)


def avc_length_size(extradata: bytes) -> int | None:
    """Return how many bytes the length before each H.264 unit has, according to an ``avcC`` record (5.3.3.1).

    If ``extradata`` is not such a record, units follow start codes, and the result is ``None``.
    """
    return (extradata[4] & 3) + 1 if extradata[:1] == b"\1" and len(extradata) > 6 else None


def avc_parameter_units(record: bytes) -> Iterator[memoryview | bytes]:
    """Yield the non-empty parameter sets in an ``avcC`` record; if it is not such a record, all units in it."""
    if avc_length_size(record) is None:
        yield from nal_units(memoryview(record), None)
        return
    position, mask = 5, 31
    for _ in range(2):  # sequence parameter sets, picture parameter sets
        if position >= len(record):
            return
        count = record[position] & mask
        position, mask = position + 1, 255
        for _ in range(count):
            size = int.from_bytes(record[position : position + 2], "big")
            if unit := record[position + 2 : position + 2 + size]:
                yield unit
            position += 2 + size


_HVCC_HEADER_BYTES = 23


def hevc_length_size(extradata: bytes) -> int | None:
    """Return the same as `avc_length_size`, for HEVC units and an ``hvcC`` record (8.3.3.1)."""
    return (extradata[21] & 3) + 1 if extradata[:1] == b"\1" and len(extradata) >= _HVCC_HEADER_BYTES else None


def hevc_parameter_units(record: bytes) -> Iterator[memoryview | bytes]:
    """Yield the same as `avc_parameter_units`, for an ``hvcC`` record. Raises ValueError if the record ends early."""
    if hevc_length_size(record) is None:
        yield from nal_units(memoryview(record), None)
        return
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


# Supplemental enhancement information (SEI)

# Messages that apply only to their own picture, or do not change pixels: buffering period, picture timing, filler,
# registered and unregistered user data, active parameter sets, decoding unit information, hash, time code, mastering
# display, light level. Recovery points and film grain apply to later pictures, so they are not in this set.
_TRANSIENT_MESSAGES = frozenset((0, 1, 3, 4, 5, 129, 130, 132, 136, 137, 144))
_REGISTERED_USER_DATA, _AOMEDIA = 4, b"\xb5\x58\x90"  # AOMedia's user data is film grain


def supplemental_messages(unit: memoryview | bytes, header_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield (type, payload) of the messages in a unit of supplemental enhancement information (7.3.2.3).

    ``header_bytes`` is the size of the unit's header. Raises ValueError or IndexError after the last message if the
    messages do not fill the unit exactly.
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


def messages_are_transient(unit: memoryview | bytes, header_bytes: int) -> bool:
    """Return whether all messages in a unit of supplemental information only affect their own picture.

    ``header_bytes`` is the size of the unit's header. The result is False if the messages cannot be parsed.
    """
    with suppress(ValueError, IndexError):
        return all(
            kind in _TRANSIENT_MESSAGES and not (kind == _REGISTERED_USER_DATA and message.startswith(_AOMEDIA))
            for kind, message in supplemental_messages(unit, header_bytes)
        )
    return False


def _message_number(payload: bytes, position: int) -> tuple[int, int]:
    """Return a type or a size, the sum of the bytes up to the first one below 255, and the position after it."""
    number = 0
    while payload[position] == 255:
        number += 255
        position += 1
    return number + payload[position], position + 1


# Start codes of MPEG


def start_codes(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield (code, position after it) for each MPEG start code (ISO/IEC 13818-2, 6.2.1; 14496-2, 6.2.1)."""
    position = data.find(b"\0\0\1")
    while 0 <= position < len(data) - 3:
        yield data[position + 3], position + 4
        position = data.find(b"\0\0\1", position + 3)
