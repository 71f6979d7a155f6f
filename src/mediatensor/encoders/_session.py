"""`Session`, which writes the packets of several encoders to one file, and `Timeline`, the start times of streams."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from .._engine.common.checks import real_number, shown
from .._engine.common.locks import ForkSafeLock
from .._engine.common.messages import warn_user
from .._engine.pyav.encoding import AudioSettings, Muxer
from .._engine.pyav.encoding_video import VideoSettings
from ..errors import ClosedError, EncodeError, InvalidArgumentError
from ..frames import FrameBatch
from ._target import Target

#: The time base of streams with a variable rate, as in MPEG. Frame durations of 24, 25, 30 and 30000/1001 fps are whole
#: numbers of it.
FINE_TIME_BASE = Fraction(1, 90_000)
#: The nominal rate for codecs if the actual rate is unknown.
NOMINAL_FRAME_RATE = Fraction(30)
_MAX_MEAN_RATE = 1000
# Largest denominator of common rates (30000/1001), and largest error when a rate is rounded to such a fraction.
_MAX_DENOMINATOR = 1001
_MAX_RELATIVE_ERROR = 1e-7
_FINE_DENOMINATOR = 100_000
_MAX_FRAME_RATE = 100_000
# Larger times are mistakes, and would overflow the integers that files store.
MAX_SECONDS = 1e9
# FFmpeg's names of containers whose streams all start at time zero, and the largest offset that viewers do not notice.
_WITHOUT_START_TIMES = frozenset(("avi", "mxf", "mxf_d10", "mxf_opatom", "rm"))
_MAX_LOST_OFFSET_SECONDS = 0.04


def frame_rate_fraction(frame_rate: Any) -> Fraction:
    """Return a frame rate as a fraction; a float close to a simple fraction, such as 30000/1001, becomes this fraction.

    >>> frame_rate_fraction(29.97002997), frame_rate_fraction(29.97), frame_rate_fraction(25)
    (Fraction(30000, 1001), Fraction(2997, 100), Fraction(25, 1))
    """
    try:
        # Fractions of NumPy's integers overflow, and those of its other floats and of tensors cannot be made.
        rate = Fraction(frame_rate if isinstance(frame_rate, (Fraction, str)) else real_number("", frame_rate))
    except (ValueError, ArithmeticError):
        raise InvalidArgumentError(f"frame_rate = {shown(frame_rate)} must be a number > 0.") from None
    if not 0 < rate <= _MAX_FRAME_RATE:
        raise InvalidArgumentError(f"frame_rate = {frame_rate} must be > 0 and at most {_MAX_FRAME_RATE}.")
    simple = rate.limit_denominator(_MAX_DENOMINATOR)
    if abs(simple - rate) <= rate * _MAX_RELATIVE_ERROR:
        return simple
    fine = rate.limit_denominator(_FINE_DENOMINATOR)
    if not fine:
        raise InvalidArgumentError(f"frame_rate = {frame_rate} is too small; it must be at least 1e-5.")
    return fine


def batch_times(batch: FrameBatch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (pts, durations) in seconds; raise if a value is not finite, pts do not increase, or a duration is < 0."""
    pts, durations = batch.pts_seconds.numpy(), batch.duration_seconds.numpy()
    if not ((np.abs(pts) <= MAX_SECONDS).all() and (np.abs(durations) <= MAX_SECONDS).all()):  # also false for NaN
        raise InvalidArgumentError(f"The times of a FrameBatch must be finite, and at most {MAX_SECONDS:g} seconds.")
    if (np.diff(pts) <= 0).any():
        first = int(np.argmax(np.diff(pts) <= 0))
        raise InvalidArgumentError(
            f"The pts_seconds of a FrameBatch must increase (frame {first} has {pts[first]}, frame {first + 1} has "
            f"{pts[first + 1]}). To ignore the times, pass batch.data and a frame_rate."
        )
    if (durations < 0).any():
        raise InvalidArgumentError(
            f"The duration_seconds of a FrameBatch must not be negative (got {durations.min()})."
        )
    return pts, durations


def even_frame_rate(pts: NDArray[np.float64], durations: NDArray[np.float64]) -> Fraction | None:
    """Return the frame rate; ``None`` unless frames are evenly spaced to within one tick of `FINE_TIME_BASE`.

    >>> import numpy as np
    >>> even_frame_rate(np.arange(4) * 1001 / 30000 + 5, np.full(4, 1001 / 30000))
    Fraction(30000, 1001)
    >>> even_frame_rate(np.array([0, 0.1, 0.3]), np.full(3, 0.1)) is None
    True
    """
    span = float(pts[-1] - pts[0]) if len(pts) > 1 else 0.0
    seconds = span / (len(pts) - 1) if span > 0 else float(durations[-1])
    if not seconds > 0:
        return None
    rate = Fraction(1 / seconds).limit_denominator(_MAX_DENOMINATOR)
    if not rate:
        return None
    expected = np.arange(len(pts)) / float(rate)
    off = max(np.abs(pts - pts[0] - expected).max(), abs(durations[-1] - 1 / float(rate)))
    return rate if off <= float(FINE_TIME_BASE) else None


def _nearest(value: Fraction) -> int:
    """Return the nearest whole number. Halves are rounded up, so that times that are a whole number apart stay so."""
    return math.floor(value + Fraction(1, 2))


def mean_frame_rate(pts: NDArray[np.float64]) -> Fraction:
    """Return the average frame rate, for codecs that need a rate; `NOMINAL_FRAME_RATE` if it is unknown.

    >>> import numpy as np
    >>> mean_frame_rate(np.array([0, 0.1, 0.2, 0.5]))
    Fraction(6, 1)
    """
    span = float(pts[-1] - pts[0]) if len(pts) > 1 else 0.0
    if not span > 0:
        return NOMINAL_FRAME_RATE
    rate = Fraction(min((len(pts) - 1) / span, _MAX_MEAN_RATE)).limit_denominator(_MAX_DENOMINATOR)
    return rate or Fraction(1, _MAX_DENOMINATOR)


def ticks_of(seconds: NDArray[np.float64], start: float, time_base: Fraction) -> list[int]:
    """Return ``seconds - start`` in units of ``time_base``, rounded to the nearest unit.

    >>> import numpy as np
    >>> ticks_of(np.array([5.0, 5.5]), 5.0, Fraction(1, 90000))
    [0, 45000]
    """
    scaled = (seconds - start) * time_base.denominator / time_base.numerator
    return [int(tick) for tick in np.rint(scaled)]


class Timeline:
    """The start times of the streams of one file.

    A stream without times starts at time zero of the file. The earliest stream with times starts at time zero, and
    other streams with times keep their offset to it. Start times are final once all streams have data::

        times given      video 5.00 |--------      audio 5.02 |-------
        in the file      video 0.00 |--------      audio 0.02 |-------
    """

    def __init__(self, num_streams: int) -> None:
        self._starts: list[float | None] = [None] * num_streams
        #: Whether each stream has data.
        self.has_begun = [False] * num_streams

    def begin(self, stream: int, start_seconds: float | None) -> None:
        """Record the start time of a stream's first data, or ``None`` for data without times. Ignore later calls."""
        if not self.has_begun[stream]:
            self._starts[stream], self.has_begun[stream] = start_seconds, True

    def start_of(self, stream: int) -> float | None:
        return self._starts[stream]

    def is_final(self, stream: int) -> bool:
        """Return whether data of other streams can no longer change `offset_seconds` of this stream."""
        return self.has_begun[stream] and (self._starts[stream] is None or all(self.has_begun))

    def offset_seconds(self, stream: int) -> float:
        """Return the time in the file at which a stream starts; 0 if it is not known yet.

        >>> timeline = Timeline(2)
        >>> timeline.begin(0, 5.0); timeline.is_final(0)
        False
        >>> timeline.begin(1, 4.5); timeline.is_final(0), timeline.offset_seconds(0)
        (True, 0.5)
        """
        start = self._starts[stream]
        return 0.0 if start is None else start - min(start for start in self._starts if start is not None)


# Encoders that a forked child inherited. Freeing them in the child would wait for threads that only the parent has.
_inherited: list[object] = []


class WritesToFile:
    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"{'An' if name[0] in 'AE' else 'A'} {name} cannot be pickled: it writes to an open file. Make the encoder "
            "in the process that uses it."
        )


class Session:
    """The state that an encoder and its streams share.

    ::

        adding streams ── open ──► open ── close ──► closed
                                     │
                                     └─ failure ──► failed: nothing is left under the destination's name

    Deleting an open session has the same effect as a failure.
    """

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self.settings: list[VideoSettings | AudioSettings] = []
        self.is_closed = False
        self._target: Target | None = None
        self._muxer: Muxer | None = None
        self.timeline = Timeline(0)
        self._held: list[tuple[int, Any]] = []
        self._failure: str | None = None
        self._container = ""
        self._warns_of_offset = False
        self._process = os.getpid()
        self._finalizer: weakref.finalize[..., Session] | None = None

    # Before data is added

    def add(self, settings: VideoSettings | AudioSettings) -> int:
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
        """Open the encoders and write the header. If this fails, it can be called again."""
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
        self._container, self._warns_of_offset = container, container in _WITHOUT_START_TIMES
        self.timeline = Timeline(len(self.settings))
        self._process = os.getpid()
        self._finalizer = weakref.finalize(self, _give_up, target, muxer, self._process)
        self._finalizer.atexit = False  # the target's own finalizer removes the file

    # Adding data

    def time_base_of(self, stream: int) -> Fraction:
        """Return the unit of the times that `encode` gets for a video stream, in seconds."""
        assert self._muxer is not None
        return self._muxer.tracks[stream].time_base

    def check_can_add(self, what: str) -> None:
        """Raise if data, which the message calls ``what``, cannot be added now."""
        if self.is_closed:
            raise ClosedError(f"Cannot add {what} after close() was called.")
        if self._muxer is None:
            raise EncodeError(f"Call open_file() or open_file_like() before adding {what}.")
        if self._failure is not None:
            raise EncodeError(f"Cannot add {what}: encoding has already failed ({self._failure}).")
        self._check_process()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise EncodeError("This encoder belongs to the process that opened its file. Make one in this process.")

    def encode(self, stream: int, *arguments: Any) -> None:
        """Pass ``arguments`` to the encoder of a stream, and write the packets that are ready."""
        assert self._muxer is not None
        try:
            track = self._muxer.tracks[stream]
            with self._muxer.reporting(f"the {track.codec_name} encoder rejected data"):
                packets = track.encode(*arguments)
            self._write(stream, packets)
        except BaseException as error:
            self.fail(error)
            raise

    def _write(self, stream: int, packets: Sequence[Any], *, is_last: bool = False) -> None:
        assert self._muxer is not None
        if not is_last and not self.timeline.is_final(stream):
            self._held += [(stream, packet) for packet in packets]
            return
        # The offsets of all held packets become final together: when the last stream gets its first data.
        if self._held and (is_last or self.timeline.is_final(self._held[0][0])):
            held, self._held = self._held, []
            self._muxer.write([self._moved(number, packet) for number, packet in held])
        self._muxer.write([self._moved(stream, packet) for packet in packets])

    def _moved(self, stream: int, packet: Any) -> Any:
        """Shift a packet's times by the offset of its stream in the file, and return the packet."""
        offset = Fraction(self.timeline.offset_seconds(stream))
        if offset:
            if self._warns_of_offset and offset > _MAX_LOST_OFFSET_SECONDS:
                self._warns_of_offset = False
                warn_user(
                    f"Stream {stream} starts {float(offset):.3f} seconds after the others, but {self._container} files "
                    "store no start times, so it will start with them. Use mp4, mov or mkv, or add data from the same "
                    "time on."
                )
            # The encoder's unit can be a whole frame. The file's unit is finer, unless it stores only frame numbers.
            unit, file_unit = packet.time_base, packet.stream.time_base
            packet.pts = None if packet.pts is None else _nearest((packet.pts * unit + offset) / file_unit)
            packet.dts = None if packet.dts is None else _nearest((packet.dts * unit + offset) / file_unit)
            packet.duration, packet.time_base = _nearest(packet.duration * unit / file_unit), file_unit
        return packet

    # Finishing and failing

    def finish(self) -> None:
        """Write the remaining packets, and move the complete file to its destination."""
        if self._muxer is None or self._target is None:
            self.is_closed = True
            return
        self._check_process()
        if self._failure is not None:
            self.is_closed = True
            raise EncodeError(f"Nothing was written: encoding has already failed ({self._failure}).")
        try:
            for number, (settings, has_begun) in enumerate(zip(self.settings, self.timeline.has_begun, strict=True)):
                if isinstance(settings, VideoSettings) and not has_begun:
                    warn_user(f"Video stream {number} has no frames. Call add_frames() before the encoder is closed.")
            for number, track in enumerate(self._muxer.tracks):
                with self._muxer.reporting(f"the {track.codec_name} encoder could not finish"):
                    packets = track.flush() if self.timeline.has_begun[number] else []
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

    def fail(self, error: BaseException) -> None:
        """Mark the session as failed. If the destination is a path, discard the file."""
        # Keep only the text. The traceback refers to this object, and such a cycle would keep the encoders in memory.
        self._failure = str(error) or type(error).__name__
        self._held = []
        if self._target is not None:
            with suppress(OSError):
                self._target.discard()

    def abort(self, error: BaseException) -> None:
        if not self.is_closed and os.getpid() == self._process:
            self.fail(error)
        self.is_closed = True
        self._release()

    def _release(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._muxer = self._target = None


def _give_up(target: Target, muxer: Muxer, process: int) -> None:
    if os.getpid() != process:
        _inherited.append((target, muxer))
        return
    with suppress(OSError):
        target.discard()
    muxer.abandon()
