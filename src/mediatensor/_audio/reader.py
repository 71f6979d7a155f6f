"""Reading packets of sound of files that may have been joined end to end.

What is numbered otherwise than by its place cannot be found by time: such files are decoded from the beginning. FFmpeg
reads on from one part to the next, but for a chain of Ogg whose parts have other codecs, rates or channels; of that,
each run of parts that are alike is read by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import groupby
from typing import Any, TypeVar

from .._containers import (
    ConstantFrames,
    FrameWalk,
    constant_frames,
    find_frame,
    flac_seconds,
    has_stated_size,
    ogg_links,
    time_restarts,
    wavpack_seconds,
)
from .._containers.mp3 import ReadAt
from .._pyav import AudioReader, UndecodablePacketError, set_trimming
from .._sources import RangeReader, Source, SpanSource
from ..errors import MediaTensorError, StreamError
from .stream import CountingNeededError, UnsteadyTimesError

__all__ = ["Mp3SeekingReader", "SoundReader"]

# FFmpeg parses smaller files sooner than this looks at them.
_SMALL_FILE_BYTES = 256 * 1024

_Result = TypeVar("_Result")


class Mp3SeekingReader(AudioReader):
    """An `AudioReader`, of any format, that knows where frames of MP3 files of constant bit rate lie.

    Packets that it reads after a seek have the same time stamps as in a read from the beginning.

    Raises:
        UnsteadyTimesError: when a packet is read that lies elsewhere; seek there again, which then does not reckon.
    """

    def __init__(self, source: Source, stream_index: int | None, num_threads: int) -> None:
        self._first: tuple[int, int, int] | None = None
        self._first_frame = 0
        self._next_frame: int | None = None
        self._next_position = 0
        # Seeks that were reckoned in vain. Others still are, so that what a range is does not depend on earlier ones.
        self._in_vain: set[int] = set()
        super().__init__(source, stream_index, num_threads)
        self._frames: ConstantFrames | None = None
        self._may_reckon = self.format_name == "mp3"

    def reopen(self) -> None:
        self._next_frame = None
        super().reopen()

    def seek(self, timestamp: int, number: int = 0) -> bool:
        if self._may_reckon and self._frames is None:
            self._frames = self._find_frames()
            self._may_reckon = self._frames is not None
        if self._frames is None or self._first is None:
            return self._seek_parsing(timestamp)
        frames = self._frames
        _, first_pts, duration = self._first
        number = min((timestamp - first_pts) // duration, frames.num_frames - 1)
        # FFmpeg drops the encoder's delay from frame 0, which is for a read from the beginning.
        if number < 1:
            return False
        if number in self._in_vain:
            # What FFmpeg has read since a seek it has listed with wrong times.
            self.reopen()
            return self._seek_parsing(timestamp)
        position = self._with_bytes(lambda read_at, _: find_frame(read_at, frames, number))
        self._first_frame = self._next_frame = number
        self._next_position = frames.position(number) if position is None else position
        return self.seek_bytes(self._next_position)

    def _seek_parsing(self, timestamp: int) -> bool:
        """Seek where nothing can be reckoned."""
        return super().seek(timestamp)

    def read_packet(self) -> Any | None:
        if self._next_frame is None:
            was_fresh = self.is_fresh
            packet = super().read_packet()
            if was_fresh and packet is not None and None not in (packet.pos, packet.pts, packet.duration):
                self._first = packet.pos, packet.pts, packet.duration
            return packet
        packet = super().read_packet()
        if packet is not None:
            self._place(packet, self._next_frame)
            self._next_frame += 1
        return packet

    def _place(self, packet: Any, number: int) -> None:
        """Give a packet the time stamps of a frame."""
        frames = self._frames
        assert frames is not None
        assert self._first is not None
        if number < frames.num_frames:
            # What follows the last one may be taken for a part of it.
            may_be_longer = number + 1 == frames.num_frames
            is_frame = packet.pos == self._next_position and frames.is_frame(packet, packet.size, may_be_longer)
            if not is_frame:
                self._in_vain.add(self._first_frame)
                raise UnsteadyTimesError
            self._next_position += packet.size
        _, first_pts, duration = self._first
        packet.pts = packet.dts = first_pts + number * duration
        set_trimming(packet, frames.num_discarded(number))

    def _find_frames(self) -> ConstantFrames | None:
        """Where the frames are, if that agrees with the first packet."""
        if self._first is None:
            return None
        frames = self._with_bytes(_find_constant_frames)
        if frames is None:
            return None
        position, _, duration = self._first
        time_base = self.stream_info().time_base or Fraction(1)
        is_first = position == frames.first_position
        return frames if is_first and duration * time_base * frames.sample_rate == frames.samples_per_frame else None

    def _with_bytes(self, look: Callable[[ReadAt, int], _Result | None]) -> _Result | None:
        """What a function finds that gets the file to read in and its size; ``None`` if it cannot be read."""
        shared = self.byte_reader
        try:
            file = self._source.open_bytes() if shared is None else shared
        except MediaTensorError:
            return None
        if file is None:
            return None
        position = file.tell()
        try:
            return look(file.read_at, file.seek(0, os.SEEK_END))
        except (MediaTensorError, OSError):
            return None
        finally:
            file.seek(position)
            if shared is None:
                file.close()


def _find_constant_frames(read_at: ReadAt, file_size: int) -> ConstantFrames | None:
    return constant_frames(read_at, file_size) if file_size > _SMALL_FILE_BYTES else None


_MAY_RESTART = frozenset(("flac", "mpegts", "ogg", "wv"))


class SoundReader(Mp3SeekingReader):
    """An `AudioReader` of any format that knows whether a file was joined."""

    def __init__(self, source: Source, stream_index: int | None, num_threads: int) -> None:
        self._further_parts: list[SpanSource] = []
        self._part_reader: AudioReader | None = None
        # The number of the next packet and its place, where frames were counted.
        self._walked: tuple[int, int] | None = None
        super().__init__(source, stream_index, num_threads)
        self._walk = FrameWalk(self.format_name == "mp3") if self.format_name in ("aac", "mp3") else None
        self._has_stated_size: bool | None = None
        # From afar each look takes as long as all of the rest.
        if self.format_name in _MAY_RESTART and not isinstance(self.byte_reader, RangeReader):
            self._with_bytes(self._look_for_parts)
            if self._further_parts:
                self.reopen()

    def _look_for_parts(self, read_at: ReadAt, file_size: int) -> None:
        self.time_restarts = time_restarts(self.format_name, read_at, file_size)
        if not self.time_restarts:
            return
        if self.format_name == "flac":
            self.joined_seconds = flac_seconds(read_at, file_size)
        if self.format_name == "wv":
            self.joined_seconds = wavpack_seconds(read_at, file_size)
        if self.format_name != "ogg":
            return
        links = ogg_links(read_at, file_size)
        seconds = [link.num_seconds for link in links]
        self.joined_seconds = sum(filter(None, seconds)) if all(seconds) else None
        starts = [next(alike).start for _, alike in groupby(links, lambda link: link.kinds)]
        if len(starts) > 1:
            stops = [*starts[1:], file_size]
            parts = [SpanSource(self._source, *span) for span in zip(starts, stops, strict=True)]
            self._source, self._further_parts = parts[0], parts[1:]

    def decoded(self, packets: Iterable[Any]) -> Iterator[tuple[Any | None, list[Any], UndecodablePacketError | None]]:
        yield from super().decoded(packets)
        for part in self._further_parts:
            try:
                self._part_reader = AudioReader(part, None, self._num_threads)
            except StreamError:
                continue  # no sound
            yield from self._part_reader.decoded(())
            self._close_part()

    def _seek_parsing(self, timestamp: int) -> bool:
        self._walked = None
        if self._walk is None or self._first is None or isinstance(self.byte_reader, RangeReader):
            return super()._seek_parsing(timestamp)
        if self.format_name == "mp3" and self._has_stated_size is None:
            self._has_stated_size = bool(self._with_bytes(has_stated_size))
        if self._has_stated_size:
            return super()._seek_parsing(timestamp)
        walk, (first_position, first_pts, duration) = self._walk, self._first
        number = max(0, (timestamp - first_pts) // duration)
        place = self._with_bytes(lambda read_at, _: walk.place_of(read_at, first_position, number))
        if place is None:
            raise CountingNeededError
        if not self.seek_bytes(place):
            return super()._seek_parsing(timestamp)
        self._walked = number, place
        return True

    def read_packet(self) -> Any | None:
        packet = super().read_packet()
        if packet is not None and self._walked is not None and self._first is not None:
            (number, place), (_, first_pts, duration) = self._walked, self._first
            # Something else than a frame, or a frame with something behind it.
            if packet.pos != place:
                raise CountingNeededError
            packet.pts = packet.dts = first_pts + number * duration
            self._walked = number + 1, place + packet.size
        return packet

    def reopen(self) -> None:
        self._walked = None
        super().reopen()

    def _close_part(self) -> None:
        part, self._part_reader = self._part_reader, None
        if part is not None:
            part.close()

    def close(self) -> None:
        self._close_part()
        super().close()
