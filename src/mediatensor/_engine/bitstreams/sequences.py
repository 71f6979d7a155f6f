"""Find the parameters of coded sequences in the packets of key frames: the units that state the colours of frames.

A key frame belongs to the sequence whose parameters are in its packet. Without any, it belongs to the sequence of the
configuration record. Parsers are pure functions of bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress

from .av1 import av1_units, record_units
from .units import (
    avc_length_size,
    avc_parameter_units,
    hevc_length_size,
    hevc_parameter_units,
    nal_units,
    start_codes,
    supplemental_messages,
)

# In most key frames, all parameters are in the first bytes.
_HEAD_BYTES = 4096

# Types of messages that apply to a whole sequence (ITU-T H.265, D.2.28, D.2.35, D.2.38; the same numbers in H.264):
# mastering display, content light level, alternative transfer characteristic.
_MESSAGES = frozenset((137, 144, 147))

# Start codes (ISO/IEC 13818-2, 6.2.1), and the identifier of an extension (6.3.1).
_LAST_SLICE, _SEQUENCE_HEADER, _EXTENSION, _GROUP = 0xAF, 0xB3, 0xB5, 0xB8
_DISPLAY_EXTENSION = 2

# Types of units (AV1, 6.2.2) and of metadata (6.7.1): content light level, mastering display.
_AV1_SEQUENCE_HEADER, _AV1_METADATA = 1, 5
_AV1_MESSAGES = frozenset((1, 2))
_AV1_DELIMITER = b"\x12\0"


class SequenceParser(ABC):
    """Finds the parameters of sequences. ``record`` is the codec's configuration record as the container stores it."""

    #: The parameters in the record; ``None`` if it has none.
    of_record: frozenset[bytes] | None

    def __init__(self, record: bytes) -> None:
        self.of_record = None

    @abstractmethod
    def is_plain(self, packet: memoryview) -> bool:
        """Return whether the packet of a key frame has no other sequence parameters than the record.

        This is much faster than `split`, and ignores messages. If the packet is damaged, the result is true.
        """

    @abstractmethod
    def split(self, packet: memoryview) -> tuple[frozenset[bytes], bytes]:
        """Return (the parameters of a key frame, bytes from which its picture can be decoded alone).

        Raises ValueError or IndexError if the packet is damaged.
        """


def sequence_parser(codec: str, record: bytes) -> SequenceParser:
    if codec == "mpeg2video":
        return _Mpeg2Parser(record)
    return _Av1Parser(record) if codec == "av1" else _NalParser(record, is_hevc=codec == "hevc")


#: Codecs that `sequence_parser` supports.
CODECS_OF_SEQUENCES = frozenset(("av1", "h264", "hevc", "mpeg2video"))


class _NalParser(SequenceParser):
    def __init__(self, record: bytes, *, is_hevc: bool) -> None:
        super().__init__(record)
        self._is_hevc = is_hevc
        self._length_size = (hevc_length_size if is_hevc else avc_length_size)(record)
        # Of the type in the header of a unit: position, mask; first and last type of slices, types of other units.
        self._shift, self._mask, self._slices = (1, 63, (0, 31)) if is_hevc else (0, 31, (1, 5))
        self._sequence, self._message = (33, 39) if is_hevc else (7, 6)
        self._units: list[bytes] = []
        with suppress(ValueError):
            self._units = [bytes(unit) for unit in (hevc_parameter_units if is_hevc else avc_parameter_units)(record)]
        self._sets = {unit.rstrip(b"\0") for unit in self._units if self._is_sequence(unit)}
        if self._units:
            self.of_record = self._key(self._units)

    def is_plain(self, packet: memoryview) -> bool:
        size, shift, mask, sets = self._length_size, self._shift, self._mask, self._sets
        first_slice, last_slice = self._slices
        if size is not None:
            stop = 0
            while (start := stop + size) < len(packet):
                stop = start + int.from_bytes(packet[stop:start], "big")
                kind = packet[start] >> shift & mask
                if first_slice <= kind <= last_slice:
                    return True
                if kind == self._sequence and bytes(packet[start:stop]).rstrip(b"\0") not in sets:
                    return False
            return True
        head = bytes(packet[:_HEAD_BYTES])
        start = head.find(b"\0\0\1") + 3
        while 2 < start < len(head):
            kind = head[start] >> shift & mask
            if first_slice <= kind <= last_slice:
                return True
            if (stop := head.find(b"\0\0\1", start)) < 0 and len(head) < len(packet):
                head = bytes(packet)
                continue
            if kind == self._sequence and head[start:stop].rstrip(b"\0") not in sets:
                return False
            start = stop + 3
        return True

    def split(self, packet: memoryview) -> tuple[frozenset[bytes], bytes]:
        units = [bytes(unit) for unit in nal_units(packet, self._length_size)]
        if any(self._is_sequence(unit) for unit in units):
            # Messages of the record apply to another sequence.
            before = [unit for unit in self._units if not self._is_message(unit)]
        else:
            units, before = [*self._units, *units], []
        return self._key(units), b"".join(b"\0\0\0\1" + unit for unit in [*before, *units])

    def _key(self, units: list[bytes]) -> frozenset[bytes]:
        return frozenset(unit.rstrip(b"\0") for unit in units if self._describes_colours(unit))

    def _is_sequence(self, unit: bytes) -> bool:
        return unit[0] >> self._shift & self._mask == self._sequence

    def _is_message(self, unit: bytes) -> bool:
        return unit[0] >> self._shift & self._mask == self._message

    def _describes_colours(self, unit: bytes) -> bool:
        if not self._is_message(unit):
            return self._is_sequence(unit)
        with suppress(ValueError, IndexError):
            return any(kind in _MESSAGES for kind, _ in supplemental_messages(unit, 2 if self._is_hevc else 1))
        return False


class _Mpeg2Parser(SequenceParser):
    """The parameters are the extension with the colours, which is empty if a sequence states none."""

    def __init__(self, record: bytes) -> None:
        super().__init__(record)
        self._record = record
        self.of_record = _display_extension(record)

    def is_plain(self, packet: memoryview) -> bool:
        return _display_extension(bytes(packet[:_HEAD_BYTES])) in (None, self.of_record)

    def split(self, packet: memoryview) -> tuple[frozenset[bytes], bytes]:
        data = bytes(packet)
        if (key := _display_extension(data)) is not None:
            return key, data
        return self.of_record or frozenset(), self._record + data


def _display_extension(data: bytes) -> frozenset[bytes] | None:
    """Return the extension in a set, which is empty if it is missing; ``None`` if there is no sequence header."""
    has_header = False
    for code, position in start_codes(data):
        if code <= _LAST_SLICE or code == _GROUP:
            break
        has_header |= code == _SEQUENCE_HEADER
        fields = data[position : position + 8].partition(b"\0\0\1")[0]  # of a display extension (6.2.2.4)
        if has_header and code == _EXTENSION and fields and fields[0] >> 4 == _DISPLAY_EXTENSION:
            return frozenset((fields,))
    return frozenset() if has_header else None


class _Av1Parser(SequenceParser):
    def __init__(self, record: bytes) -> None:
        super().__init__(record)
        self._units = bytes(record_units(record))
        with suppress(ValueError, IndexError):
            self.of_record = _av1_parameters(memoryview(self._units))

    def is_plain(self, packet: memoryview) -> bool:
        head = bytes(packet[:_HEAD_BYTES]).removeprefix(_AV1_DELIMITER)
        if not head or head[0] >> 3 & 15 != _AV1_SEQUENCE_HEADER:
            return True
        with suppress(ValueError, IndexError):
            header = bytes(next(av1_units(memoryview(head)))[2])
            return self.of_record is not None and header in self.of_record
        return True

    def split(self, packet: memoryview) -> tuple[frozenset[bytes], bytes]:
        key = _av1_parameters(packet)
        if key is not None:
            return key, bytes(packet)
        return self.of_record or frozenset(), self._units + bytes(packet)


def _av1_parameters(units: memoryview) -> frozenset[bytes] | None:
    """Return the sequence headers and the metadata about luminance; ``None`` if there is no sequence header."""
    has_header = False
    found = set()
    for kind, _, payload in av1_units(units):
        has_header |= kind == _AV1_SEQUENCE_HEADER
        if kind == _AV1_SEQUENCE_HEADER or (kind == _AV1_METADATA and payload[0] in _AV1_MESSAGES):
            found.add(bytes(payload))
    return frozenset(found) if has_header else None
