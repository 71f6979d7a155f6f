"""A stream without an index: it goes to times, and does not know which frames lie between them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ...errors import DecodeError
from ..common import stages
from ..pyav.reading import UndecodablePacketError, VideoReader

__all__ = ["ApproximateStream"]

# Up to this far ahead of the last frame, decoding on counts as cheaper than a seek.
_MAX_SKIPPED_SECONDS = 1.0
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
        return bool(0 <= ticks - self._current.pts <= _MAX_SKIPPED_SECONDS * self._ticks_per_second)

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
        # Pictures shown before the packet that decoding started at may lack their references.
        return frame.pts is not None and (self._key_frame_pts is None or frame.pts >= self._key_frame_pts)
