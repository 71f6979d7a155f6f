"""Read the packets of an audio stream, with exact seeks in bare MP3, bare AAC and Ogg Vorbis, and in joined files.

Bare MP3 and AAC (ADTS) files have neither time stamps nor a table of frames. FFmpeg seeks in them by guessing a byte
position, or by parsing all earlier frames. `SoundReader` finds the byte position of a frame instead. After a seek,
packets get the same time stamps as when reading from the beginning:

* MP3 of constant bit rate: the position of a frame is computed (`ConstantFrames`).
* MP3 of variable bit rate and AAC: frame headers are read one after another (`FrameWalk`).

FFmpeg misjudges the length of some Vorbis packets in Ogg, so its time stamps disagree with the decoded samples.
`SoundReader` derives time stamps by counting samples from the first packet. After a seek, counting starts at a position
that several Ogg pages confirm.

A joined file consists of several files, one after another (chained Ogg, or the result of ``cat a.flac b.flac``). Its
time stamps or sample numbers start again at each part, so the file is decoded from the beginning. FFmpeg decodes the
parts in turn. It cannot do so if the parts of an Ogg chain differ in codec, sample rate or channels. `SoundReader` then
opens the file once for each group of adjacent parts that agree in these properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, groupby, pairwise
from typing import Any, NamedTuple

from ...errors import StreamError
from ..containers.audio_frames import (
    ConstantFrames,
    VorbisModes,
    constant_frames,
    find_frame,
    first_packet_end,
    has_stated_size,
    vorbis_modes,
)
from ..containers.boxes import ReadAt
from ..containers.joined_files import FrameWalk, flac_seconds, ogg_links, time_restarts, wavpack_parts
from ..pyav.audio import AudioReader, set_trimming
from ..pyav.reading import UndecodablePacketError
from ..sources.readers import RangeReader
from ..sources.source import Source, SpanSource

#: (packet or ``None`` at the end, its decoded frames, the error if it could not be decoded).
DecodedPacket = tuple[Any | None, list[Any], UndecodablePacketError | None]

# In smaller files, FFmpeg finds frames by parsing in less time than computing their positions takes.
_SMALL_FILE_BYTES = 256 * 1024

# Formats whose sample numbers or time stamps may start again within a file.
_CAN_BE_JOINED = frozenset(("flac", "mpegts", "ogg", "wv"))

# If the time stamp of a Vorbis packet in Ogg differs from the counted time by more than this, it is a leap in time.
_MAX_VORBIS_JITTER_SECONDS = 0.05


class SeekMissedError(Exception):
    """The wanted packet was not at its computed position. The reader seeks to it in another way the next time."""


class UnknownPositionError(Exception):
    """The sample at which a packet starts can only be found by counting samples from the beginning of the stream."""


class _FirstPacket(NamedTuple):
    """Byte position of the first packet, and its time stamp and duration in ticks."""

    position: int
    pts: int
    duration: int


class SoundReader(AudioReader):
    """An `AudioReader` that seeks exactly in bare MP3, bare AAC and Ogg Vorbis, and detects joined files.

    Reading raises `SeekMissedError` if a packet is not at the computed byte position, and `UnknownPositionError` if
    only reading from the beginning can determine the time stamp of a packet.
    """

    def __init__(self, source: Source, stream_index: int | None, num_threads: int) -> None:
        self._first: _FirstPacket | None = None
        # After a seek to the byte position of a frame: the frames, and the number and byte position of the next packet.
        self._next: tuple[ConstantFrames | FrameWalk, int, int] | None = None
        self._frames: ConstantFrames | None = None
        self._sought_number = 0
        # Frames that were not at their computed positions. Seeks to other frames still use computed positions, so that
        # the samples of a range do not depend on earlier ranges.
        self._missed: set[int] = set()
        # Vorbis in Ogg: block sizes by mode; end of the first packet as a sample number in pages (origin) and as a time
        # stamp (begin); block size of the last packet, and the time stamp of its end; byte position of the page of the
        # last seek.
        self._vorbis: VorbisModes | None = None
        self._vorbis_origin: int | None = None
        self._vorbis_begin: int | None = None
        self._vorbis_block: int | None = None
        self._vorbis_end: int | None = None
        self._sought_page: int | None = None
        self._max_vorbis_jitter = 0
        self._further_parts: list[SpanSource] = []
        self._part_reader: AudioReader | None = None
        super().__init__(source, stream_index, num_threads)
        self._may_be_constant = self.format_name == "mp3"
        self._walk = FrameWalk(self.format_name == "mp3") if self.format_name in ("aac", "mp3") else None
        self._has_stated_size: bool | None = None
        if self.format_name == "ogg" and self.codec_name == "vorbis":
            self._vorbis = vorbis_modes(self.extradata)
            time_base = self.stream_info().time_base or Fraction(1)
            self._max_vorbis_jitter = int(_MAX_VORBIS_JITTER_SECONDS / time_base)
        # In a remote source, the search for parts would take as long as all other reading.
        if self.format_name in _CAN_BE_JOINED and not isinstance(self.byte_reader, RangeReader):
            self.look_at_bytes(self._look_for_parts)
            if self._further_parts:
                self.reopen()

    def reopen(self) -> None:
        self._next = self._vorbis_block = self._vorbis_end = self._sought_page = None
        super().reopen()

    def close(self) -> None:
        if self._part_reader is not None:
            self._part_reader.close()
            self._part_reader = None
        super().close()

    # Seeking

    def seek(self, timestamp: int, number: int = 0) -> bool:
        if self._vorbis is not None:
            return self._seek_vorbis(self._vorbis, timestamp)
        if self._may_be_constant and self._frames is None:
            self._frames = self._find_constant_frames()
            self._may_be_constant = self._frames is not None
        frames, first = self._frames, self._first
        if frames is None or first is None:
            return self._seek_walking(timestamp)
        frame_number = min((timestamp - first.pts) // first.duration, frames.num_frames - 1)
        # FFmpeg cuts the encoder's delay from frame 0 only when it reads from the beginning.
        if frame_number < 1:
            return False
        if frame_number in self._missed:
            # After the failed seek, FFmpeg's index has wrong times. Reopening discards it.
            self.reopen()
            return self._seek_walking(timestamp)
        position = self.look_at_bytes(lambda read_at, _: find_frame(read_at, frames, frame_number))
        if position is None:
            position = frames.position(frame_number)
        self._sought_number, self._next = frame_number, (frames, frame_number, position)
        return self.seek_bytes(position)

    def _seek_walking(self, timestamp: int) -> bool:
        """Seek to a frame by reading frame headers one after another.

        Use FFmpeg's own seek instead if it is exact for this file, or if the source is remote, because reading headers
        is then slow.
        """
        self._next = None
        walk, first = self._walk, self._first
        if walk is None or first is None or isinstance(self.byte_reader, RangeReader):
            return super().seek(timestamp)
        if self.format_name == "mp3" and self._has_stated_size is None:
            self._has_stated_size = bool(self.look_at_bytes(has_stated_size))
        if self._has_stated_size:
            return super().seek(timestamp)
        frame_number = max(0, (timestamp - first.pts) // first.duration)
        position = self.look_at_bytes(lambda read_at, _: walk.place_of(read_at, first.position, frame_number))
        if position is None:
            raise UnknownPositionError
        if not self.seek_bytes(position):
            return super().seek(timestamp)
        self._next = walk, frame_number, position
        return True

    def read_packet(self) -> Any | None:
        was_fresh = self.is_fresh
        packet = super().read_packet()
        if packet is None:
            return None
        if self._vorbis is not None:
            self._place_vorbis(packet, self._vorbis)
        if self._next is not None:
            self._place(packet, *self._next)
        elif was_fresh and None not in (packet.pos, packet.pts, packet.duration):
            self._first = _FirstPacket(packet.pos, packet.pts, packet.duration)
        return packet

    def _place(self, packet: Any, frames: ConstantFrames | FrameWalk, number: int, position: int) -> None:
        """Set the time stamp of a packet, which must contain frame ``number`` and start at byte ``position``."""
        first = self._first
        assert first is not None
        if isinstance(frames, FrameWalk):
            # The packet is another frame, or contains data that follow the frame.
            if packet.pos != position:
                raise UnknownPositionError
        elif number < frames.num_frames:
            # FFmpeg's last packet may include data that follow the last frame.
            may_be_longer = number + 1 == frames.num_frames
            if packet.pos != position or not frames.is_frame(packet, packet.size, may_be_longer):
                self._missed.add(self._sought_number)
                raise SeekMissedError
        self._next = frames, number + 1, position + packet.size
        packet.pts = packet.dts = first.pts + number * first.duration
        if isinstance(frames, ConstantFrames):
            set_trimming(packet, frames.num_discarded(number))

    def _find_constant_frames(self) -> ConstantFrames | None:
        """Return the frame positions of an MP3 file of constant bit rate, if the first packet matches them."""
        first = self._first
        if first is None:
            return None
        frames = self.look_at_bytes(
            lambda read_at, file_size: constant_frames(read_at, file_size) if file_size > _SMALL_FILE_BYTES else None
        )
        if frames is None or first.position != frames.first_position:
            return None
        time_base = self.stream_info().time_base or Fraction(1)
        return frames if first.duration * time_base * frames.sample_rate == frames.samples_per_frame else None

    def _seek_vorbis(self, modes: VorbisModes, timestamp: int) -> bool:
        """Seek to an Ogg page, and determine the time stamp from which to count the samples after it.

        Return False if this page and later pages do not show the sample at which the page's first packet ends. Raise
        `UnknownPositionError` if samples cannot be counted in this stream.
        """
        first = self._first
        if first is None or self._vorbis_begin is None or isinstance(self.byte_reader, RangeReader):
            raise UnknownPositionError
        if self._vorbis_origin is None:
            found = self.look_at_bytes(lambda read_at, _: first_packet_end(read_at, first.position, modes))
            if found is None:
                raise UnknownPositionError
            self._vorbis_origin = found[1]
        if not super().seek(timestamp):
            return False
        packet = super().read_packet()
        if packet is None or packet.pos is None:
            return False
        found = self.look_at_bytes(lambda read_at, _: first_packet_end(read_at, packet.pos, modes))
        if found is None or found[0] != packet.size:
            return False
        self._vorbis_block, self._vorbis_end = None, self._vorbis_begin + found[1] - self._vorbis_origin
        self._sought_page = packet.pos
        self.push_back([packet])
        return True

    def _place_vorbis(self, packet: Any, modes: VorbisModes) -> None:
        block, previous = modes.block_size(memoryview(packet)[0]), self._vorbis_block
        pts, end = packet.pts, self._vorbis_end
        self._vorbis_block = block
        if previous is None or block is None:
            # The decoder returns no samples for the first packet of the stream or after a seek.
            if end is not None:
                packet.pts = packet.dts = end
            return
        if packet.pos == self._sought_page and packet.has_sidedata("skip_samples"):
            # FFmpeg computes the padding at the end of the stream from the previous page, which was not read after the
            # seek.
            raise UnknownPositionError
        if end is not None and pts is not None and abs(pts - end) <= self._max_vorbis_jitter:
            packet.pts = packet.dts = pts = end
        if self._vorbis_begin is None:
            self._vorbis_begin = pts
        self._vorbis_end = None if pts is None else pts + (block + previous) // 4

    # Joined files

    def _look_for_parts(self, read_at: ReadAt, file_size: int) -> None:
        self.time_restarts = time_restarts(self.format_name, read_at, file_size)
        if not self.time_restarts:
            return
        if self.format_name == "flac":
            self.joined_seconds = flac_seconds(read_at, file_size)
        elif self.format_name == "wv":
            spans, self.joined_seconds = wavpack_parts(read_at, file_size)
            self._divide(spans)  # FFmpeg fails at the bytes between parts
        elif self.format_name == "ogg":
            links = ogg_links(read_at, file_size)
            seconds = [link.num_seconds for link in links]
            self.joined_seconds = sum(filter(None, seconds)) if all(seconds) else None
            starts = [next(alike).start for _, alike in groupby(links, lambda link: link.kinds)]
            self._divide(list(pairwise([*starts, file_size])))

    def _divide(self, spans: Sequence[tuple[int, int]]) -> None:
        """Arrange to read the parts (start, stop) of a joined file one after another, if there are several."""
        if len(spans) > 1:
            parts = [SpanSource(self.source, *span) for span in spans]
            self.source, self._further_parts = parts[0], parts[1:]

    def decoded(self, packets: Iterable[Any]) -> Iterator[DecodedPacket]:
        decoded = super().decoded(packets)
        return chain(decoded, self._decoded_parts()) if self._further_parts else decoded

    def _decoded_parts(self) -> Iterator[DecodedPacket]:
        for part in self._further_parts:
            try:
                self._part_reader = reader = AudioReader(part, None, self._num_threads)
            except StreamError:
                continue  # no audio
            yield from reader.decoded(())
            reader.close()
            self._part_reader = None
