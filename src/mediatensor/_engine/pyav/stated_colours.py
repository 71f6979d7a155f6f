"""Give each frame the colours that its own coded sequence states, whatever was decoded before.

FFmpeg's decoders of H.264, HEVC, AV1 and MPEG-2 give frames without tags the latest tags that they have read: those of
an earlier sequence, or of a later one whose first packets are already decoded. Those of H.264 and HEVC keep an
alternative transfer characteristic (a message of HLG streams) for all later sequences, even after a seek. In a file
joined from videos of different colours, a frame's tags thus depend on which packets were decoded before it.

This module therefore finds the parameters of each sequence, which are the units that state its colours, in the packets
of key frames. A key frame belongs to the sequence whose parameters are in its packet. Without any, it belongs to the
sequence of the configuration record. Parsers are pure functions of bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

import av

from ...errors import MediaTensorError
from ..bitstreams.av1 import av1_units, record_units
from ..bitstreams.units import (
    avc_length_size,
    avc_parameter_units,
    hevc_length_size,
    hevc_parameter_units,
    nal_units,
    start_codes,
    supplemental_messages,
)
from ..sources.source import Source
from .pixels import peak_luminance_of
from .reading import PacketDecoder, UndecodablePacketError, VideoReader, configure_video_codec, make_packet

_UNSPECIFIED = 2  # of H.273
_UNSPECIFIED_RANGE, _FULL_RANGE = 0, 2  # FFmpeg's
# More packets than any codec holds back. Some packets give no frame, so without a limit they would be kept for ever.
_MAX_PACKETS = 1000
# Joined files have a few. Only hostile files have more, and each entry keeps a key frame until it is decoded.
_MAX_SEQUENCES = 64
_MAX_FIRST_PACKETS = 10  # in which the first picture that can be decoded alone is searched for

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
        self._sets = {unit.rstrip(b"\0") for unit in self._units if self._kind(unit) == self._sequence}
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
        if any(self._kind(unit) == self._sequence for unit in units):
            # Messages of the record apply to another sequence.
            before = [unit for unit in self._units if self._kind(unit) != self._message]
        else:
            units, before = [*self._units, *units], []
        return self._key(units), b"".join(b"\0\0\0\1" + unit for unit in [*before, *units])

    def _key(self, units: list[bytes]) -> frozenset[bytes]:
        return frozenset(unit.rstrip(b"\0") for unit in units if self._describes_colours(unit))

    def _kind(self, unit: bytes) -> int:
        return unit[0] >> self._shift & self._mask

    def _describes_colours(self, unit: bytes) -> bool:
        if self._kind(unit) != self._message:
            return self._kind(unit) == self._sequence
        with suppress(ValueError, IndexError):
            return any(kind in _MESSAGES for kind, _ in supplemental_messages(unit, 2 if self._is_hevc else 1))
        return False


class _HeaderParser(SequenceParser):
    """Finds the parameters of codecs whose key frames can have a sequence header in the form of the record."""

    def __init__(self, record: bytes) -> None:
        super().__init__(record)
        self._record = record
        with suppress(ValueError, IndexError):
            self.of_record = self._parameters(record)

    @abstractmethod
    def _parameters(self, data: bytes) -> frozenset[bytes] | None:
        """Return the parameters in a record or packet; ``None`` if it has no sequence header."""

    def split(self, packet: memoryview) -> tuple[frozenset[bytes], bytes]:
        data = bytes(packet)
        if (key := self._parameters(data)) is not None:
            return key, data
        return self.of_record or frozenset(), self._record + data


class _Mpeg2Parser(_HeaderParser):
    """The parameters are the extension with the colours, which is empty if a sequence states none."""

    def is_plain(self, packet: memoryview) -> bool:
        return self._parameters(bytes(packet[:_HEAD_BYTES])) in (None, self.of_record)

    def _parameters(self, data: bytes) -> frozenset[bytes] | None:
        has_header = False
        for code, position in start_codes(data):
            if code <= _LAST_SLICE or code == _GROUP:
                break
            has_header |= code == _SEQUENCE_HEADER
            fields = data[position : position + 8].partition(b"\0\0\1")[0]  # of a display extension (6.2.2.4)
            if has_header and code == _EXTENSION and fields and fields[0] >> 4 == _DISPLAY_EXTENSION:
                return frozenset((fields,))
        return frozenset() if has_header else None


class _Av1Parser(_HeaderParser):
    """The parameters are the sequence headers and the metadata about luminance."""

    def __init__(self, record: bytes) -> None:
        super().__init__(bytes(record_units(record)))

    def is_plain(self, packet: memoryview) -> bool:
        head = bytes(packet[:_HEAD_BYTES]).removeprefix(_AV1_DELIMITER)
        if not head or head[0] >> 3 & 15 != _AV1_SEQUENCE_HEADER:
            return True
        with suppress(ValueError, IndexError):
            header = bytes(next(av1_units(memoryview(head)))[2])
            return self.of_record is not None and header in self.of_record
        return True

    def _parameters(self, data: bytes) -> frozenset[bytes] | None:
        has_header = False
        found = set()
        for kind, _, payload in av1_units(memoryview(data)):
            has_header |= kind == _AV1_SEQUENCE_HEADER
            if kind == _AV1_SEQUENCE_HEADER or (kind == _AV1_METADATA and payload[0] in _AV1_MESSAGES):
                found.add(bytes(payload))
        return frozenset(found) if has_header else None


def states_colours(codec: str | None) -> bool:
    """Return whether `SequenceColours` can find the colours that sequences of this codec state."""
    return codec in CODECS_OF_SEQUENCES


class StatedColours(NamedTuple):
    """The colour tags of a codec context or a frame, as FFmpeg's numbers."""

    transfer: int = _UNSPECIFIED
    primaries: int = _UNSPECIFIED
    matrix: int = _UNSPECIFIED
    range: int = _UNSPECIFIED_RANGE

    @classmethod
    def read(cls, tagged: Any) -> StatedColours:
        transfer, primaries = int(tagged.color_trc), int(tagged.color_primaries)
        return cls(transfer, primaries, int(tagged.colorspace), int(tagged.color_range))

    def write(self, tagged: Any) -> None:
        tagged.color_trc, tagged.color_primaries = self.transfer, self.primaries
        tagged.colorspace, tagged.color_range = self.matrix, self.range

    @property
    def has_transfer(self) -> bool:
        return self.transfer != _UNSPECIFIED

    def missing_in(self, other: StatedColours) -> StatedColours:
        """Return these tags without those that ``other`` has as well."""
        nothing = StatedColours()
        pairs = zip(self, other, nothing, strict=True)
        return StatedColours(*(mine if theirs == none else none for mine, theirs, none in pairs))


def container_colours(reader: VideoReader) -> StatedColours:
    """Return the tags in the header of a stream that do not come from its first coded sequence.

    ``reader`` must be at the beginning of the stream, and must not have decoded anything.
    """
    header = StatedColours.read(reader.codec_context)
    with suppress(MediaTensorError):
        sequences = SequenceColours(reader.stream_info().codec or "", reader.codec_context.name, reader.extradata)
        for packet in islice(reader.packets(), _MAX_FIRST_PACKETS):
            if packet.is_keyframe and (stated := sequences.find(packet).stated()) is not None:
                return header.missing_in(stated.colours)
    return header


class _Stated(NamedTuple):
    colours: StatedColours
    peak_luminance: float | None


class CodedSequence:
    """Coded sequences with the same parameters. Their colours are found by decoding only one of their key frames."""

    def __init__(self, decoder_name: str, header: Callable[[], StatedColours]) -> None:
        self._decoder_name = decoder_name
        self._header = header
        self._stated: _Stated | None = None
        self._picture: bytes | None = None

    def learn(self, picture: bytes) -> None:
        """Keep a key frame with all parameters that it needs, unless another key frame is known."""
        if self._stated is None and self._picture is None:
            self._picture = picture

    def forget(self) -> None:
        self._picture = None

    def stated(self) -> _Stated | None:
        """Return the colours of the sequence; ``None`` if no key frame can be decoded alone."""
        if self._picture is not None:
            picture, self._picture = self._picture, None  # if it is damaged, the next key frame is used
            self._stated = self._decode(picture)
        return self._stated

    def _decode(self, picture: bytes) -> _Stated | None:
        context: Any = av.CodecContext.create(self._decoder_name, "r")
        self._header().write(context)
        configure_video_codec(context, 1, is_strict=False)
        decoder = PacketDecoder(context)
        try:
            frames = [*decoder.decode(make_packet(picture)), *decoder.decode(None)]
        except UndecodablePacketError:
            return None
        finally:
            decoder.close()
        return _Stated(StatedColours.read(frames[0]), peak_luminance_of(frames[0])) if frames else None


class SequenceColours:
    """Finds the coded sequences of key frames.

    ``record`` is the codec's configuration record as stored by the container. ``decoder_name`` is FFmpeg's name of the
    decoder. ``header`` returns the tags that the container states for sequences without tags; it is called at most
    once.
    """

    def __init__(
        self, codec: str, decoder_name: str, record: bytes, header: Callable[[], StatedColours] = StatedColours
    ) -> None:
        self._codec = codec
        self._make_sequence = partial(CodedSequence, decoder_name, cache(header))
        self._known: dict[frozenset[bytes], CodedSequence] = {}
        self._last_plain: Any = None
        self._use_record(record)

    def _use_record(self, record: bytes) -> None:
        self._parser = sequence_parser(self._codec, record)
        if self._parser.of_record is not None:
            self._sequence_of(self._parser.of_record)  # decoders read the record first

    def _sequence_of(self, parameters: frozenset[bytes]) -> CodedSequence:
        if parameters not in self._known:
            if len(self._known) >= _MAX_SEQUENCES:
                self._known.pop(next(iter(self._known))).forget()
            self._known[parameters] = self._make_sequence()
        return self._known[parameters]

    @property
    def differ(self) -> bool:
        """Whether a decoder that has got all packets so far has read the parameters of several sequences."""
        return len(self._known) > 1

    def is_plain(self, packet: Any) -> bool:
        """Return whether the packet of a key frame belongs to the sequence of the record.

        This is much faster than `find`. If the packet is damaged, the result is true.
        """
        if packet.pts is None:
            return False
        # PyAV takes three microseconds to look for one kind of side data. Most packets have none.
        if next(packet.iter_sidedata(), None) is not None and packet.has_sidedata("new_extradata"):
            return False
        if is_plain := self._parser.is_plain(memoryview(packet)):
            self._last_plain = packet
        return is_plain

    def find_last_plain(self) -> CodedSequence | None:
        """Return the sequence of the last packet for which `is_plain` was true; ``None`` if there is none."""
        packet, self._last_plain = self._last_plain, None
        return None if packet is None else self.find(packet)

    def find(self, packet: Any) -> CodedSequence:
        """Return the sequence for the packet of a key frame. If the packet is damaged, it states nothing."""
        if packet.has_sidedata("new_extradata"):
            self._use_record(bytes(packet.get_sidedata("new_extradata")))
        try:
            parameters, picture = self._parser.split(memoryview(packet))
        except (ValueError, IndexError):
            return self._make_sequence()
        sequence = self._sequence_of(parameters)
        sequence.learn(picture)
        return sequence


class FrameColours:
    """Tags pictures with the colours of their coded sequences; see `PacketDecoder`.

    As long as all sequences are alike, pictures keep the tags of the codec. With ``states_peak``, a picture's attribute
    ``opaque`` is a list of the peak luminance of its sequence, or of ``None`` if the sequence states none.
    """

    def __init__(self, sequences: SequenceColours, *, states_peak: bool = False) -> None:
        self._sequences = sequences
        self._states_peak = states_peak
        #: Whether `read` must get all packets. If not, it must get only packets of key frames that are not plain.
        self.is_active = states_peak
        self.is_plain = sequences.is_plain
        self.reset()

    def reset(self) -> None:
        """Forget the packets of frames that have not come out of the codec."""
        self._current: CodedSequence | None = None
        self._by_pts: dict[int, CodedSequence | None] = {}
        # For packets without pts. All frames of a sequence are returned before those of the next one.
        self._of_key_frames: deque[CodedSequence] = deque(maxlen=_MAX_PACKETS)
        self._returned: CodedSequence | None = None

    def read(self, packet: Any) -> None:
        """Read a packet before the codec gets it."""
        if not self.is_active:
            self.is_active = True
            self._returned = self._current = self._sequences.find_last_plain()  # the codec may still hold its frames
        if packet.is_keyframe:
            self._current = self._sequences.find(packet)
            if packet.pts is None:
                self._of_key_frames.append(self._current)
        if packet.pts is not None:
            self._by_pts[packet.pts] = self._current
            if len(self._by_pts) > _MAX_PACKETS:
                del self._by_pts[next(iter(self._by_pts))]

    def tag(self, pictures: Sequence[Any]) -> Sequence[Any]:
        """Tag pictures that have come out of the codec, and return them."""
        return [self._tag(picture) for picture in pictures]

    def _tag(self, picture: Any) -> Any:
        if picture.pts is not None:
            self._returned = self._by_pts.pop(picture.pts, self._returned or self._current)
        elif picture.key_frame and self._of_key_frames:
            self._returned = self._of_key_frames.popleft()
        if self._returned is None or not self._sequences.differ or (stated := self._returned.stated()) is None:
            return picture
        if (name := picture.format.name).startswith("yuvj") and stated.colours.range != _FULL_RANGE:
            # The decoder of H.264 keeps the format for full range. Equal ranges let libswscale copy the planes.
            ranges = {"src_color_range": _FULL_RANGE, "dst_color_range": _FULL_RANGE}
            picture = picture.reformat(format=name.replace("j", ""), **ranges)
        stated.colours.write(picture)
        if self._states_peak:
            picture.opaque = [stated.peak_luminance]  # PyAV needs a new object for each picture
        return picture


def open_frame_colours(
    codec: str | None, context: Any, source: Source, stream_index: int, *, states_peak: bool = False
) -> FrameColours | None:
    """Return a `FrameColours` for a stream, or ``None`` if its codec needs none.

    ``context`` is PyAV's codec context of the stream, which must not be open yet.
    """
    if codec is None or not states_colours(codec):
        return None
    header = partial(_read_container_colours, source, stream_index)
    sequences = SequenceColours(codec, context.name, bytes(context.extradata or b""), header)
    return FrameColours(sequences, states_peak=states_peak)


def _read_container_colours(source: Source, stream_index: int) -> StatedColours:
    try:
        reader = VideoReader(source, stream_index, num_threads=1)
    except MediaTensorError:
        return StatedColours()
    try:
        return container_colours(reader)
    finally:
        reader.close()
