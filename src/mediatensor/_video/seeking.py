"""The packets of a stream from one of its key frames on: seek there, and prove that it is there."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .._common import stages
from .._containers import NO_PTS
from .._index import FrameIndex
from .._pyav import UndecodablePacketError, VideoReader
from .._sources import SourceFaultError
from ..errors import DecodeError, ReadError

__all__ = ["ApproximateStream", "KeyFramePackets"]


class KeyFramePackets:
    """Reads packets one after the other, from wherever it was sent to.

    Args:
        reader: Stands at the beginning.
    """

    def __init__(self, reader: VideoReader) -> None:
        self._reader = reader
        self._held: Any = None
        self._seek_by_dts = False

    def go_to(self, index: FrameIndex, key_frame: int) -> None:
        """Make the packet of ``key_frame`` the next one.

        Raises:
            ReadError: if the source cannot be read.
        """
        self._held = None
        if not (key_frame == 0 and self._reader.is_fresh) and not self._seek(index, key_frame):
            self._reader.reopen()
            self._skip(index, key_frame)

    def take(self, index: FrameIndex) -> Any | None:
        """The next packet, ``None`` at the end.

        Raises:
            ReadError: if the source cannot be read.
        """
        if self._held is not None:
            packet, self._held = self._held, None
            return packet
        try:
            return self._reader.read_packet()
        except SourceFaultError:
            raise
        except ReadError:
            if index.is_cut_short:
                return None  # where a linear decode ends, too
            raise

    def _seek(self, index: FrameIndex, key_frame: int) -> bool:
        """Seek by the container's own means, and prove from the packets that it landed on or before the key frame."""
        if self._reader.has_no_timestamps:
            return False  # they are made up while reading, and differ after a seek
        by_pts, by_dts = int(index.key_frame_pts[key_frame]), int(index.key_frame_dts[key_frame])
        for by_decoding_time in (self._seek_by_dts, not self._seek_by_dts):
            timestamp = by_dts if by_decoding_time else by_pts
            if timestamp != NO_PTS and self._reader.seek(timestamp) and self._find(index, key_frame):
                self._seek_by_dts = by_decoding_time
                return True
        return False

    def _find(self, index: FrameIndex, key_frame: int) -> bool:
        """Read up to the packet of ``key_frame``; ``False`` if a later key frame comes first."""
        while True:
            packet = self.take(index)
            if packet is None:
                return False
            if not packet.is_keyframe and key_frame != 0:  # a stream may begin with another kind of packet
                continue
            position = int(index.key_frame_position[key_frame])
            if packet.pts == index.key_frame_pts[key_frame] and _same_place(packet.pos, position):
                self._held = packet
                return True
            if packet.is_keyframe and packet.pts is not None and packet.pts > index.key_frame_pts[key_frame]:
                return False

    def _skip(self, index: FrameIndex, key_frame: int) -> None:
        """From the beginning of the stream, pass over the packets before ``key_frame``."""
        if index.key_frame_packet[key_frame] < 0:
            self._find(index, key_frame)
            return
        for _ in range(int(index.key_frame_packet[key_frame])):
            if self.take(index) is None:
                return


def _same_place(position: int | None, expected: int) -> bool:
    return position is None or position < 0 or expected < 0 or position == expected


# Ahead of the last frame by no more than this, decoding on is taken to be cheaper than a seek.
_PATIENCE_SECONDS = 1.0
# How far before the target to seek when the container lands behind it.
_BACK_OFF_SECONDS = (0.0, 1.0, 4.0, 16.0)


class ApproximateStream:
    """A reader that goes to times; which frames lie between is never known."""

    def __init__(self, reader: VideoReader) -> None:
        self.reader = reader
        time_base = reader.stream_info().time_base or Fraction(1, 1)
        self._ticks_per_second = time_base.denominator / time_base.numerator
        self._current: Any = None
        self._next: Any = None
        self._frames: list[Any] = []
        self._at_end = False
        self._key_frame_pts: int | None = None

    def reset(self) -> None:
        """Forget where the codec stands, because somebody else reads from the reader."""
        self._current = self._next = None

    def frame_at(self, seconds: float, *, nearest: bool) -> Any:
        """The frame shown at a time; with ``nearest`` the one whose time is closest.

        Raises:
            DecodeError: if no frame can be decoded there.
        """
        ticks = seconds * self._ticks_per_second
        if not self._reachable(ticks):
            self._go_to(ticks)
        while self._next is not None and self._next.pts <= ticks:
            self._advance()
        if self._current is None:
            raise DecodeError(f"No frame could be decoded at {seconds:.6f} s; the stream may end before.")
        if nearest and self._next is not None and self._next.pts - ticks < ticks - self._current.pts:
            return self._next
        return self._current

    def _reachable(self, ticks: float) -> bool:
        if self._current is None:
            return False
        return bool(0 <= ticks - self._current.pts <= _PATIENCE_SECONDS * self._ticks_per_second)

    def _go_to(self, ticks: float) -> None:
        for back_off in _BACK_OFF_SECONDS:
            with stages.SEEK:
                timestamp = round(ticks - back_off * self._ticks_per_second)
                is_there = not self.reader.has_no_timestamps and self.reader.seek(timestamp)
            if not is_there:
                break
            self._restart()
            if self._current is not None and self._current.pts <= ticks:
                return
        if not self.reader.is_fresh:
            with stages.SEEK:
                self.reader.reopen()
        self._restart()

    def _restart(self) -> None:
        self._frames, self._at_end, self._key_frame_pts = [], False, None
        self._current = self._next = None
        self._advance()  # fills ``_next``
        self._advance()

    def _advance(self) -> None:
        self._current, self._next = self._next, self._decode_next()

    def _decode_next(self) -> Any | None:
        while not self._frames:
            if self._at_end:
                return None
            packet = self.reader.read_packet()
            self._at_end = packet is None
            if packet is not None and self._key_frame_pts is None:
                self._key_frame_pts = packet.pts
            try:
                self._frames = [frame for frame in self.reader.decode(packet) if self._is_complete(frame)]
            except UndecodablePacketError:
                continue
        return self._frames.pop(0)

    def _is_complete(self, frame: Any) -> bool:
        # What is shown before the packet that decoding started at may lack its references.
        return frame.pts is not None and (self._key_frame_pts is None or frame.pts >= self._key_frame_pts)
