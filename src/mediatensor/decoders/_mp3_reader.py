"""Reading packets of sound, with a seek in MP3 files of constant bit rate that does not read what lies before.

FFmpeg finds a frame of a bare MP3 file by parsing all frames before it; where it can reckon instead, it is wrong by
one, for it takes the encoder's tag for sound. Here the place of a frame is reckoned, and FFmpeg sent to that byte; as
it then knows no times, they are given to the packets. Every packet has to be a frame of the same bit rate, right behind
the one before. If one is not, what was asked for is read the plain way.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

from .._pyav import AudioReader, set_trimming
from .._source import Source
from ..errors import MediaTensorError
from ._audio_stream import UnsteadyTimesError
from ._mp3_header import ConstantFrames, ReadAt, constant_frames, find_frame

__all__ = ["Mp3SeekingReader"]

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

    def seek(self, timestamp: int) -> bool:
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
        time_base = self.facts().time_base or Fraction(1)
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
