"""One file that is being written: its muxer, its destination, and the order in which packets are written."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .._common.locks import ForkSafeLock
from .._common.messages import warn_user
from .._pyav.encoding import Muxer
from .._pyav.encoding_audio import AudioSettings
from .._pyav.encoding_video import VideoSettings
from ..errors import ClosedError, EncodeError
from ._target import Target
from ._times import Timeline

__all__ = ["Session"]

# Encoders that a forked child inherited. Freeing one there would wait for threads that only the parent has.
_inherited: list[object] = []


class Session:
    """The state that an encoder and its streams share.

    ::

        adding streams ── open ──► open ── close ──► closed
                                     │
                                     └─ failure ──► failed: nothing is left under the destination's name

    Dropping the session has the effect of a failure.
    """

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self.settings: list[VideoSettings | AudioSettings] = []
        self.is_closed = False
        self._target: Target | None = None
        self._muxer: Muxer | None = None
        self._timeline = Timeline(0)
        self._held: list[tuple[int, Any]] = []
        self._has_data: list[bool] = []
        self._failure: str | None = None
        self._process = os.getpid()
        self._finalizer: weakref.finalize[..., Session] | None = None

    # Before the data

    def add(self, settings: VideoSettings | AudioSettings) -> int:
        """The number of a new stream."""
        if self.is_closed:
            raise ClosedError("Cannot add a stream after close() was called.")
        if self._muxer is not None:
            raise EncodeError("Cannot add a stream after open() was called: add all streams first.")
        self.settings.append(settings)
        return len(self.settings) - 1

    def check_can_open(self) -> None:
        if self.is_closed:
            raise ClosedError("Cannot open after close() was called. Make another Encoder.")
        if self._muxer is not None:
            raise EncodeError("open() was already called. Make another Encoder for another file.")
        if not self.settings:
            raise EncodeError("Call add_video() or add_audio() before open().")

    def open(self, target: Target, container: str) -> None:
        """Open the encoders and write the header; if that fails, the session can be opened again."""
        muxer = None
        try:
            muxer = Muxer(target.opened, container)
            for settings in self.settings:
                if isinstance(settings, VideoSettings):
                    muxer.add_video(settings)
                else:
                    muxer.add_audio(settings)
            muxer.start()
            if muxer.is_read_while_written:
                target.appear()
        except BaseException:
            target.discard()
            if muxer is not None:
                muxer.abandon()
            raise
        self._target, self._muxer = target, muxer
        self._timeline = Timeline(len(self.settings))
        self._has_data = [False] * len(self.settings)
        self._process = os.getpid()
        self._finalizer = weakref.finalize(self, _give_up, target, muxer, self._process)
        self._finalizer.atexit = False  # the target's own finalizer removes the file

    # Data

    def check_can_add(self, what: str) -> None:
        """Raise unless data can be added now."""
        if self.is_closed:
            raise ClosedError(f"Cannot add {what} after close() was called.")
        if self._muxer is None:
            raise EncodeError(f"Call open_file() or open_file_like() before adding {what}.")
        if self._failure is not None:
            raise EncodeError(f"Cannot add {what}: encoding failed before ({self._failure}).")
        self._check_process()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise EncodeError("An encoder belongs to the process that opened its file; this one was forked from it.")

    def begin(self, stream: int, start_seconds: float | None) -> None:
        """Note that a stream gets data. The time of its first data says when the stream begins."""
        self._timeline.begin(stream, start_seconds)
        self._has_data[stream] = True

    def start_of(self, stream: int) -> float | None:
        """The time of a stream's first data, if it had one."""
        return self._timeline.start_of(stream)

    def encode(self, stream: int, *arguments: Any) -> None:
        """Encode one piece of a stream, and write what is ready."""
        assert self._muxer is not None
        try:
            track = self._muxer.tracks[stream]
            with self._muxer.reporting(f"the {track.codec_name} encoder refused data"):
                packets = track.encode(*arguments)
            self._write(stream, packets)
        except BaseException as error:
            self.fail(error)
            raise

    def _write(self, stream: int, packets: Sequence[Any], *, is_last: bool = False) -> None:
        assert self._muxer is not None
        held = [*self._held, *((stream, packet) for packet in packets)]
        self._held = []
        for number, packet in held:
            if not (is_last or self._timeline.is_final(number)):
                self._held.append((number, packet))
                continue
            offset = round(self._timeline.offset_seconds(number) / self._muxer.tracks[number].time_base)
            if offset:
                packet.pts = None if packet.pts is None else packet.pts + offset
                packet.dts = None if packet.dts is None else packet.dts + offset
            self._muxer.write([packet])

    # The end

    def finish(self) -> None:
        """Write the remaining packets and let the file appear."""
        if self._muxer is None or self._target is None:
            self.is_closed = True
            return
        self._check_process()
        if self._failure is not None:
            self.is_closed = True
            raise EncodeError(f"Nothing was written: encoding failed before ({self._failure}).")
        try:
            self._tell_of_missing_frames()
            for number, track in enumerate(self._muxer.tracks):
                with self._muxer.reporting(f"the {track.codec_name} encoder could not finish"):
                    packets = track.flush() if self._has_data[number] else []
                self._write(number, packets)
            self._write(0, [], is_last=True)
            self._muxer.finish()
            self._target.commit()
        except BaseException as error:
            self.fail(error)
            raise
        finally:
            self.is_closed = True
            self._release()

    def _tell_of_missing_frames(self) -> None:
        for number, settings in enumerate(self.settings):
            if isinstance(settings, VideoSettings) and not self._has_data[number]:
                warn_user(
                    f"Video stream {number} has no frames: add some with add_frames before the encoder is closed."
                )

    def fail(self, error: BaseException) -> None:
        """Give up, and remove the file, if it is one."""
        # Only its text: its traceback refers to this object, and such a cycle would keep the encoders in memory.
        self._failure = str(error) or type(error).__name__
        self._held = []
        if self._target is not None:
            with suppress(OSError):
                self._target.discard()

    def abort(self, error: BaseException) -> None:
        """Give up and close."""
        if not self.is_closed and os.getpid() == self._process:
            self.fail(error)
        self.is_closed = True
        self._release()

    def _release(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._muxer = self._target = None


def _give_up(target: Target, muxer: Muxer, process: int) -> None:
    """Discard a file that is being written; after `Target.commit` that does nothing."""
    if os.getpid() != process:
        _inherited.append((target, muxer))
        return
    with suppress(OSError):
        target.discard()
    muxer.abandon()
