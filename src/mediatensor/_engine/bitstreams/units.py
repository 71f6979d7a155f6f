"""Fields of bits in headers, and units in packets: what several codecs share. Pure functions on bytes.

References are to ITU-T H.264 and H.265, to ISO/IEC 14496-15 for configuration records, and to ISO/IEC 13818-2 and
14496-2 for start codes of MPEG.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from enum import Enum, IntEnum

__all__ = [
    "HEAD_BYTES",
    "MAX_ZEROS",
    "BitReader",
    "Disposable",
    "PacketContent",
    "avc_length_size",
    "avc_parameter_units",
    "hevc_length_size",
    "hevc_parameter_units",
    "messages_are_transient",
    "nal_units",
    "spans_within",
    "start_code_spans",
    "start_codes",
    "supplemental_messages",
    "unit_spans",
    "without_emulation_prevention",
]


class PacketContent(Enum):
    """What comes of a packet."""

    PICTURE = "a picture that is shown"
    NO_PICTURE = "nothing that is shown: updates of references, parameters, the end of a sequence"
    NOT_CODED = "that the picture before stays, which is a frame only at the end of a stream"
    UNCERTAIN = "a number of frames that only decoding tells"
    FOREIGN = "what packets of the codec do not have"


class Disposable(IntEnum):
    """Whether a picture can be left out of decoding without changing any other."""

    UNKNOWN = -1
    NO = 0
    YES = 1


#: As much of a packet's beginning as is looked at to tell that it is one plain picture.
HEAD_BYTES = 448

#: A packet that begins with as many zeros is damaged: a stretch of zeros is how files lose data most often.
MAX_ZEROS = 16

# More than any header that is read has. It bounds the time that a made-up one can cost.
_MAX_HEADER_BYTES = 4096
# The longest Exp-Golomb code has this many zeros in front (ITU-T H.264, 9.1).
_MAX_EXP_GOLOMB_ZEROS = 32


class BitReader:
    """Reads a header bit by bit, most significant first; a header that ends early is a ``ValueError``.

    >>> bits = BitReader(bytes([0b10100110]))
    >>> bits.read(3), bits.exp_golomb(), bits.num_left
    (5, 5, 0)
    """

    def __init__(self, data: bytes) -> None:
        data = data[:_MAX_HEADER_BYTES]
        self._value = int.from_bytes(data, "big")
        #: Number of bits that were not read yet.
        self.num_left = len(data) * 8

    def read(self, count: int) -> int:
        """The next ``count`` bits as a number."""
        self.num_left -= count
        if self.num_left < 0:
            raise ValueError("the header ends early")
        return (self._value >> self.num_left) & ((1 << count) - 1)

    def flag(self) -> bool:
        """The next bit."""
        return self.read(1) == 1

    def exp_golomb(self) -> int:
        """An unsigned Exp-Golomb code, ue(v) in ITU-T H.264 and H.265."""
        rest = self._value & ((1 << self.num_left) - 1) if self.num_left > 0 else 0
        zeros = self.num_left - rest.bit_length()
        if not rest or zeros > _MAX_EXP_GOLOMB_ZEROS:
            raise ValueError("the header ends early, or a code has too many zeros")
        self.num_left -= zeros
        return self.read(zeros + 1) - 1

    def signed_exp_golomb(self) -> int:
        """A signed Exp-Golomb code, se(v)."""
        code = self.exp_golomb()
        return (code + 1) // 2 if code % 2 else -(code // 2)


# Units of H.264 and HEVC


def unit_spans(packet: memoryview, length_size: int) -> tuple[list[tuple[int, int]], bool]:
    """Where the units of a packet start and stop that have their lengths in front (ISO/IEC 14496-15).

    >>> unit_spans(memoryview(bytes([0, 2, 103, 66, 0, 9, 101])), 2)
    ([(2, 4), (6, 7)], False)

    Returns:
        (spans, fills): without empty units, the last one as far as the packet goes; and whether units fill the packet
        exactly, the last of them not empty.
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
    """Where the units of a packet start and stop that follow start codes (ITU-T H.264 and H.265, annex B).

    >>> start_code_spans(bytes([0, 0, 1, 103, 66, 0, 0, 1, 101]))
    ([(3, 5), (8, 9)], True)

    Returns:
        (spans, fills): whether nothing but zeros lies before the first start code.
    """
    spans: list[tuple[int, int]] = []
    position = data.find(b"\0\0\1")
    fills = not data[: max(0, position) if position >= 0 else None].strip(b"\0")
    while 0 <= position < len(data) - 3:
        start = position + 3
        position = data.find(b"\0\0\1", start)
        spans += [(start, position if position >= 0 else len(data))]
    return spans, fills


def spans_within(packet: memoryview | bytes, start: int, stop: int) -> list[tuple[int, int]]:
    """Where the units start and stop that a unit with a length holds: FFmpeg splits such units at start codes.

    In most cases that is the unit itself, since emulation prevention keeps start codes out of it.

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
    """The units of a packet that are not empty.

    Args:
        packet: The packet.
        length_size: Bytes of the length before each unit; ``None`` for units after start codes.

    Raises:
        ValueError: if the units do not fill the packet exactly.
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
    """The payload of a unit without the bytes that keep start codes out of it (ITU-T H.264 and H.265, 7.3.1)."""
    return bytes(unit).replace(b"\0\0\3", b"\0\0")


# Configuration records (ISO/IEC 14496-15)


def avc_length_size(extradata: bytes) -> int | None:
    """Bytes of the length before each unit, by an ``avcC`` record (5.3.3.1); ``None`` for units after start codes."""
    return (extradata[4] & 3) + 1 if extradata[:1] == b"\1" and len(extradata) > 6 else None


def avc_parameter_units(record: bytes) -> Iterator[bytes]:
    """The sequence and picture parameter sets of an ``avcC`` record that are not empty."""
    position, mask = 5, 31
    for _ in range(2):  # of sequences, of pictures
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
    """Bytes of the length before each unit, by an ``hvcC`` record (8.3.3.1); ``None`` for units after start codes."""
    return (extradata[21] & 3) + 1 if extradata[:1] == b"\1" and len(extradata) >= _HVCC_HEADER_BYTES else None


def hevc_parameter_units(record: bytes) -> Iterator[bytes]:
    """The parameter sets of an ``hvcC`` record; ``ValueError`` if it ends early."""
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

# Messages that concern their own picture, or nothing that shows in pixels: buffering period, picture timing, filler,
# registered and unregistered user data, active parameter sets, decoding unit information, hash, time code, mastering
# display, light level. Not among them: recovery points and film grain, which concern the pictures that follow.
_TRANSIENT_MESSAGES = frozenset((0, 1, 3, 4, 5, 129, 130, 132, 136, 137, 144))
_REGISTERED_USER_DATA, _AOMEDIA = 4, b"\xb5\x58\x90"  # whose user data is film grain


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


def messages_are_transient(unit: memoryview | bytes, header_bytes: int) -> bool:
    """Whether a unit of supplemental information holds only messages that no other picture needs."""
    with suppress(ValueError, IndexError):
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


# Start codes of MPEG


def start_codes(data: bytes) -> Iterator[tuple[int, int]]:
    """(code, position after it) for each start code of MPEG-1, 2 and 4 (ISO/IEC 13818-2, 6.2.1; 14496-2, 6.2.1)."""
    position = data.find(b"\0\0\1")
    while 0 <= position < len(data) - 3:
        yield data[position + 3], position + 4
        position = data.find(b"\0\0\1", position + 3)
