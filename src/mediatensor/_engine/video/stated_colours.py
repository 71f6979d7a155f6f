"""Give each frame the colour tags that its own coded sequence states, whatever was decoded before.

FFmpeg's decoders of HEVC and H.264 keep an alternative transfer characteristic (a message of HLG streams) for all later
sequences, even after a seek. They give frames without tags the tags of the latest sequence they have read. In a file
joined from videos of different colours, a frame's tags thus depend on which frames were decoded before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ...backends import PictureDecoder
from ..bitstreams.units import (
    avc_length_size,
    avc_parameter_units,
    hevc_length_size,
    hevc_parameter_units,
    nal_units,
    supplemental_messages,
)
from ..pyav.decoding import StatedColours, colours_of_picture

_ALTERNATIVE_TRANSFER = 147  # type of a message (ITU-T H.265, D.2.38; H.264, D.1.34)
# More packets than any codec holds back. Some packets give no frame, so without a limit they would be kept for ever.
_MAX_PACKETS = 1000


def states_colours(codec: str | None) -> bool:
    """Return whether `SequenceColours` can find the colours that sequences of this codec state."""
    return codec in ("h264", "hevc")


class CodedSequence:
    """Coded sequences with the same parameters. Their colours are found by decoding only one of their key frames."""

    def __init__(self, codec: str, header: StatedColours | None) -> None:
        self._codec = codec
        self._header = header
        self._colours: StatedColours | None = None
        self._picture: bytes | None = None

    def learn(self, units: Iterable[bytes]) -> None:
        """Keep the units of a key frame, with all parameter sets that it needs, unless another key frame is known."""
        if self._colours is None and self._picture is None:
            self._picture = b"".join(b"\0\0\0\1" + unit for unit in units)

    def colours(self) -> StatedColours | None:
        """Return the colours of the sequence; ``None`` if no key frame can be decoded alone."""
        if self._picture is not None:
            self._colours = colours_of_picture(self._codec, self._picture, self._header)
            self._picture = None  # if it is damaged, the next key frame is used
        return self._colours


class SequenceColours:
    """Finds the coded sequences of key frames.

    ``record`` is the codec's configuration record as stored by the container. ``header`` has the tags that decoders get
    from the container; if it is ``None``, only the tags in the sequences count.
    """

    def __init__(self, codec: str, record: bytes, header: StatedColours | None = None) -> None:
        self._is_hevc = codec == "hevc"
        self._make_sequence = partial(CodedSequence, codec, header)
        self._known: dict[frozenset[bytes], CodedSequence] = {}
        self._use_record(record)

    @property
    def differ(self) -> bool:
        """Whether a decoder that has got all packets so far has read the parameters of several sequences."""
        return len(self._known) > 1

    def find(self, packet: Any) -> CodedSequence | None:
        """Return the sequence for the packet of a key frame; ``None`` if the packet is damaged."""
        if packet.has_sidedata("new_extradata"):
            self._use_record(bytes(packet.get_sidedata("new_extradata")))
        try:
            units = [bytes(unit) for unit in nal_units(memoryview(packet), self._length_size)]
        except ValueError:
            return None
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
        if self._record:
            self._sequence_of(self._record)  # decoders read the record first

    def _sequence_of(self, units: list[bytes]) -> CodedSequence:
        key = frozenset(unit for unit in units if self._describes_colours(unit))
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
            messages = supplemental_messages(unit, 2 if self._is_hevc else 1)
            return any(kind == _ALTERNATIVE_TRANSFER for kind, _ in messages)
        return False


class ColourStatingDecoder(PictureDecoder):
    """Decodes a stream with another decoder, and tags frames with the colours of their coded sequences.

    As long as all sequences are alike, frames keep the tags of the other decoder.
    """

    def __init__(self, decoder: PictureDecoder, sequences: SequenceColours) -> None:
        self._decoder = decoder
        self._sequences = sequences
        self._reset()

    def _reset(self) -> None:
        self._current: CodedSequence | None = None
        self._by_pts: dict[int, CodedSequence | None] = {}
        # For packets without pts. All frames of a sequence are returned before those of the next one.
        self._of_key_frames: deque[CodedSequence | None] = deque(maxlen=_MAX_PACKETS)
        self._returned: CodedSequence | None = None

    @property
    def is_open(self) -> bool:
        return self._decoder.is_open

    def decode(self, packet: Any | None) -> Sequence[Any]:
        if packet is not None:
            if packet.is_keyframe:
                self._current = self._sequences.find(packet)
                if packet.pts is None:
                    self._of_key_frames.append(self._current)
            if packet.pts is not None:
                self._by_pts[packet.pts] = self._current
                if len(self._by_pts) > _MAX_PACKETS:
                    del self._by_pts[next(iter(self._by_pts))]
        frames = self._decoder.decode(packet)
        for frame in frames:
            sequence = self._sequence_of(frame)
            if sequence is not None and self._sequences.differ and (colours := sequence.colours()) is not None:
                colours.write(frame)
        return frames

    def _sequence_of(self, frame: Any) -> CodedSequence | None:
        if frame.pts is not None:
            return self._by_pts.pop(frame.pts, self._current)
        if frame.key_frame and self._of_key_frames:
            self._returned = self._of_key_frames.popleft()
        return self._returned

    def flush(self) -> None:
        self._decoder.flush()
        self._reset()

    def close(self) -> None:
        self._decoder.close()
