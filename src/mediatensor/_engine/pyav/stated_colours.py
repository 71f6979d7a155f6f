"""Give each frame the colours that its own coded sequence states, whatever was decoded before.

FFmpeg's decoders of HEVC and H.264 give frames without tags the latest tags that they have read: those of an earlier
sequence, or of a later one whose first packets are already decoded. They keep an alternative transfer characteristic (a
message of HLG streams) for all later sequences, even after a seek. In a file joined from videos of different colours, a
frame's tags thus depend on which packets were decoded before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

import av

from ...errors import MediaTensorError
from ..bitstreams.units import (
    avc_length_size,
    avc_parameter_units,
    hevc_length_size,
    hevc_parameter_units,
    nal_units,
    supplemental_messages,
)
from ..sources.source import Source
from .pixels import peak_luminance_of
from .reading import PacketDecoder, UndecodablePacketError, VideoReader, configure_video_codec, make_packet

_UNSPECIFIED = 2  # of H.273
_UNSPECIFIED_RANGE, _FULL_RANGE = 0, 2  # FFmpeg's
# Types of messages that apply to a whole sequence (ITU-T H.265, D.2.28, D.2.35, D.2.38; the same numbers in H.264):
# mastering display, content light level, alternative transfer characteristic.
_MESSAGES = frozenset((137, 144, 147))
# More packets than any codec holds back. Some packets give no frame, so without a limit they would be kept for ever.
_MAX_PACKETS = 1000
_MAX_FIRST_PACKETS = 10  # in which the first picture that can be decoded alone is searched for
# In most key frames, all parameter sets are in the first bytes.
_HEAD_BYTES = 4096


def states_colours(codec: str | None) -> bool:
    """Return whether `SequenceColours` can find the colours that sequences of this codec state."""
    return codec in ("h264", "hevc")


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
        sequences = SequenceColours(reader.stream_info().codec or "", reader.extradata)
        for packet in islice(reader.packets(), _MAX_FIRST_PACKETS):
            if packet.is_keyframe and (stated := sequences.find(packet).stated()) is not None:
                return header.missing_in(stated.colours)
    return header


class _Stated(NamedTuple):
    colours: StatedColours
    peak_luminance: float | None


class CodedSequence:
    """Coded sequences with the same parameters. Their colours are found by decoding only one of their key frames."""

    def __init__(self, codec: str, header: Callable[[], StatedColours]) -> None:
        self._codec = codec
        self._header = header
        self._stated: _Stated | None = None
        self._picture: bytes | None = None

    def learn(self, units: Iterable[bytes]) -> None:
        """Keep the units of a key frame, with all parameter sets that it needs, unless another key frame is known."""
        if self._stated is None and self._picture is None:
            self._picture = b"".join(b"\0\0\0\1" + unit for unit in units)

    def stated(self) -> _Stated | None:
        """Return the colours of the sequence; ``None`` if no key frame can be decoded alone."""
        if self._picture is not None:
            picture, self._picture = self._picture, None  # if it is damaged, the next key frame is used
            self._stated = self._decode(picture)
        return self._stated

    def _decode(self, picture: bytes) -> _Stated | None:
        context: Any = av.CodecContext.create(self._codec, "r")
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

    ``record`` is the codec's configuration record as stored by the container. ``header`` returns the tags that the
    container states for sequences without tags; it is called at most once.
    """

    def __init__(self, codec: str, record: bytes, header: Callable[[], StatedColours] = StatedColours) -> None:
        self._is_hevc = codec == "hevc"
        self._make_sequence = partial(CodedSequence, codec, cache(header))
        self._known: dict[frozenset[bytes], CodedSequence] = {}
        self._last_plain: Any = None
        self._use_record(record)

    @property
    def differ(self) -> bool:
        """Whether a decoder that has got all packets so far has read the parameters of several sequences."""
        return len(self._known) > 1

    def is_plain(self, packet: Any) -> bool:
        """Return whether the packet of a key frame has no other sequence parameters than the record.

        This is much faster than `find`. If the packet is damaged, the result is true.
        """
        if packet.pts is None:
            return False
        # Most packets have no side data, which PyAV finds much faster than that a kind is not among them.
        if next(packet.iter_sidedata(), None) is not None and packet.has_sidedata("new_extradata"):
            return False
        data, size = memoryview(packet), self._length_size
        shift, mask, first_slice, last_slice, parameters = (1, 63, 0, 31, 33) if self._is_hevc else (0, 31, 1, 5, 7)
        if size is not None:
            stop = 0
            while (start := stop + size) < len(data):
                stop = start + int.from_bytes(data[stop:start], "big")
                kind = data[start] >> shift & mask
                if first_slice <= kind <= last_slice:
                    break
                if kind == parameters and bytes(data[start:stop]) not in self._of_record:
                    return False
        else:
            head = bytes(data[:_HEAD_BYTES])
            start = head.find(b"\0\0\1") + 3
            while 2 < start < len(head):
                kind = head[start] >> shift & mask
                if first_slice <= kind <= last_slice:
                    break
                if (stop := head.find(b"\0\0\1", start)) < 0 and len(head) < len(data):
                    head = bytes(data)
                    continue
                if kind == parameters and head[start:stop].rstrip(b"\0") not in self._of_record:
                    return False
                start = stop + 3
        self._last_plain = packet
        return True

    def find_last_plain(self) -> CodedSequence | None:
        """Return the sequence of the last packet for which `is_plain` was true; ``None`` if there is none."""
        packet, self._last_plain = self._last_plain, None
        return None if packet is None else self.find(packet)

    def find(self, packet: Any) -> CodedSequence:
        """Return the sequence for the packet of a key frame. If the packet is damaged, it states nothing."""
        if packet.has_sidedata("new_extradata"):
            self._use_record(bytes(packet.get_sidedata("new_extradata")))
        try:
            units = [bytes(unit) for unit in nal_units(memoryview(packet), self._length_size)]
        except ValueError:
            return self._make_sequence()
        if any(self._is_sequence(unit) for unit in units):
            sequence = self._sequence_of(units)
            sequence.learn([*self._parameters, *units])  # messages of the record apply to another sequence
        else:
            units = [*self._record, *units]
            sequence = self._sequence_of(units)
            sequence.learn(units)
        return sequence

    def _use_record(self, record: bytes) -> None:
        self._length_size = (hevc_length_size if self._is_hevc else avc_length_size)(record)
        self._record: list[bytes] = []
        with suppress(ValueError):
            self._record = [
                bytes(unit) for unit in (hevc_parameter_units if self._is_hevc else avc_parameter_units)(record)
            ]
        self._parameters = [unit for unit in self._record if not self._is_message(unit)]
        self._of_record = {unit.rstrip(b"\0") for unit in self._record if self._is_sequence(unit)}
        if self._record:
            self._sequence_of(self._record)  # decoders read the record first

    def _sequence_of(self, units: list[bytes]) -> CodedSequence:
        key = frozenset(unit.rstrip(b"\0") for unit in units if self._describes_colours(unit))
        if key not in self._known:
            self._known[key] = self._make_sequence()
        return self._known[key]

    def _kind(self, unit: bytes) -> int:
        return unit[0] >> 1 & 63 if self._is_hevc else unit[0] & 31

    def _is_sequence(self, unit: bytes) -> bool:
        return self._kind(unit) == (33 if self._is_hevc else 7)

    def _is_message(self, unit: bytes) -> bool:
        return self._kind(unit) == (39 if self._is_hevc else 6)

    def _describes_colours(self, unit: bytes) -> bool:
        if not self._is_message(unit):
            return self._is_sequence(unit)
        with suppress(ValueError, IndexError):
            return any(kind in _MESSAGES for kind, _ in supplemental_messages(unit, 2 if self._is_hevc else 1))
        return False


class FrameColours:
    """Tags frames with the colours of their coded sequences; see `PacketDecoder`.

    As long as all sequences are alike, frames keep the tags of the codec. With ``states_peak``, a frame's attribute
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

    def tag(self, frames: Sequence[Any]) -> Sequence[Any]:
        """Tag frames that have come out of the codec, and return them."""
        return [self._tag(frame) for frame in frames]

    def _tag(self, frame: Any) -> Any:
        if frame.pts is not None:
            self._returned = self._by_pts.pop(frame.pts, self._returned or self._current)
        elif frame.key_frame and self._of_key_frames:
            self._returned = self._of_key_frames.popleft()
        if self._returned is None or not self._sequences.differ or (stated := self._returned.stated()) is None:
            return frame
        if (name := frame.format.name).startswith("yuvj") and stated.colours.range != _FULL_RANGE:
            # The decoder of H.264 keeps the format for full range. Equal ranges let libswscale copy the planes.
            ranges = {"src_color_range": _FULL_RANGE, "dst_color_range": _FULL_RANGE}
            frame = frame.reformat(format=name.replace("j", ""), **ranges)
        stated.colours.write(frame)
        if self._states_peak:
            frame.opaque = [stated.peak_luminance]  # PyAV needs a new object for each frame
        return frame


def open_frame_colours(reader: VideoReader, *, states_peak: bool = False) -> FrameColours | None:
    """Return a `FrameColours` for the codec of a reader that has not decoded anything; ``None`` if it needs none."""
    codec = reader.stream_info().codec
    if codec is None or not states_colours(codec):
        return None
    header = partial(_read_container_colours, reader.source, reader.stream_index)
    return FrameColours(SequenceColours(codec, reader.extradata, header), states_peak=states_peak)


def _read_container_colours(source: Source, stream_index: int) -> StatedColours:
    try:
        reader = VideoReader(source, stream_index, num_threads=1)
    except MediaTensorError:
        return StatedColours()
    try:
        return container_colours(reader)
    finally:
        reader.close()
