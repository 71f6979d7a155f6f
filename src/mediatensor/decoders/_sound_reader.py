"""Reading packets of sound of files that may have been joined end to end.

What is numbered otherwise than by its place cannot be found by time: such files are decoded from the beginning. FFmpeg
reads on from one part to the next, but for a chain of Ogg whose parts have other codecs, rates or channels; of that,
each run of parts that are alike is read by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from .._pyav import AudioReader, UndecodablePacketError
from .._readers import RangeReader
from .._source import Source, SpanSource
from ..errors import StreamError
from ._audio_stream import CountingNeededError
from ._joined_files import FrameWalk, flac_seconds, ogg_links, time_restarts, wavpack_seconds
from ._mp3_header import ReadAt, has_stated_size
from ._mp3_reader import Mp3SeekingReader

__all__ = ["SoundReader"]

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
