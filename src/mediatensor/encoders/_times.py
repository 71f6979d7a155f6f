"""Frame rates, and when pictures and sounds are shown: arithmetic of encoding. Pure; no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._common.checks import shown
from ..errors import InvalidArgumentError
from ..frames import FrameBatch

__all__ = [
    "FINE_TIME_BASE",
    "MAX_SECONDS",
    "NOMINAL_FRAME_RATE",
    "Timeline",
    "batch_times",
    "even_frame_rate",
    "frame_rate_fraction",
    "mean_frame_rate",
    "ticks_of",
]

#: The time base of a variable rate, as in MPEG: it divides the frame durations of 24, 25, 30 and 30000/1001 fps.
FINE_TIME_BASE = Fraction(1, 90_000)
#: The rate that codecs are told if the real one is unknown.
NOMINAL_FRAME_RATE = Fraction(30)
_MAX_MEAN_RATE = 1000
# Denominators of the rates in use (30000/1001), and how much a rate may be off for the sake of a small fraction.
_MAX_DENOMINATOR = 1001
_MAX_RELATIVE_ERROR = 1e-7
_FINE_DENOMINATOR = 100_000
_MAX_FRAME_RATE = 100_000
# Larger times are mistakes, and would exceed the integers of files.
MAX_SECONDS = 1e9


def frame_rate_fraction(frame_rate: Any) -> Fraction:
    """A frame rate as the fraction that was meant.

    >>> frame_rate_fraction(29.97002997), frame_rate_fraction(29.97), frame_rate_fraction(25)
    (Fraction(30000, 1001), Fraction(2997, 100), Fraction(25, 1))
    """
    try:
        rate = Fraction(frame_rate)
    except (TypeError, ValueError, ArithmeticError):
        raise InvalidArgumentError(f"frame_rate = {shown(frame_rate)} must be a number > 0.") from None
    if not 0 < rate <= _MAX_FRAME_RATE:
        raise InvalidArgumentError(f"frame_rate = {frame_rate} must be > 0. (At most {_MAX_FRAME_RATE}.)")
    simple = rate.limit_denominator(_MAX_DENOMINATOR)
    if abs(simple - rate) <= rate * _MAX_RELATIVE_ERROR:
        return simple
    fine = rate.limit_denominator(_FINE_DENOMINATOR)
    if not fine:
        raise InvalidArgumentError(f"frame_rate = {frame_rate} is too small; it must be at least 1e-5.")
    return fine


def batch_times(batch: FrameBatch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(pts, durations) of a batch in seconds; they must be finite, the pts increasing, the durations not negative."""
    pts, durations = batch.pts_seconds.numpy(), batch.duration_seconds.numpy()
    if not ((np.abs(pts) <= MAX_SECONDS).all() and (np.abs(durations) <= MAX_SECONDS).all()):  # catches NaN, too
        raise InvalidArgumentError(
            f"The times of a FrameBatch must be finite numbers of at most {MAX_SECONDS:g} seconds; some are not."
        )
    if (np.diff(pts) <= 0).any():
        first = int(np.argmax(np.diff(pts) <= 0))
        raise InvalidArgumentError(
            f"The pts_seconds of a FrameBatch must increase (frame {first} has {pts[first]}, frame {first + 1} has "
            f"{pts[first + 1]}); give batch.data and a frame_rate to ignore them."
        )
    if (durations < 0).any():
        raise InvalidArgumentError("The duration_seconds of a FrameBatch must not be negative; some are.")
    return pts, durations


def even_frame_rate(pts: NDArray[np.float64], durations: NDArray[np.float64]) -> Fraction | None:
    """The frame rate of evenly spaced frames, to within a tick of `FINE_TIME_BASE`; ``None`` for others.

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
    rate = Fraction(1 / seconds).limit_denominator(1001)
    if not rate:
        return None
    expected = np.arange(len(pts)) / float(rate)
    off = max(np.abs(pts - pts[0] - expected).max(), abs(durations[-1] - 1 / float(rate)))
    return rate if off <= float(FINE_TIME_BASE) else None


def mean_frame_rate(pts: NDArray[np.float64]) -> Fraction:
    """The average frame rate, for codecs that need one.

    >>> import numpy as np
    >>> mean_frame_rate(np.array([0, 0.1, 0.2, 0.5]))
    Fraction(6, 1)
    """
    span = float(pts[-1] - pts[0]) if len(pts) > 1 else 0.0
    if not span > 0:
        return NOMINAL_FRAME_RATE
    rate = Fraction(min((len(pts) - 1) / span, _MAX_MEAN_RATE)).limit_denominator(1001)
    return rate or Fraction(1, 1001)


def ticks_of(seconds: NDArray[np.float64], start: float, time_base: Fraction) -> list[int]:
    """Times in units of ``time_base`` from ``start``, each rounded to the nearest.

    >>> import numpy as np
    >>> ticks_of(np.array([5.0, 5.5]), 5.0, Fraction(1, 90000))
    [0, 45000]
    """
    scaled = (seconds - start) * time_base.denominator / time_base.numerator
    return [int(tick) for tick in np.rint(scaled)]


class Timeline:
    """The start times of the streams of one file.

    Data without times begins with the file. Among streams whose data has times, the earliest begins with the file, and
    the others keep their distance to it. The distance is known when every stream has begun::

        times given      video 5.00 |--------      audio 5.02 |-------
        in the file      video 0.00 |--------      audio 0.02 |-------

    Args:
        num_streams: The number of streams.
    """

    def __init__(self, num_streams: int) -> None:
        self._starts: list[float | None] = [None] * num_streams
        self._has_begun = [False] * num_streams

    def begin(self, stream: int, start_seconds: float | None) -> None:
        """Note the first data of a stream, which begins at a time, or has none."""
        if not self._has_begun[stream]:
            self._starts[stream], self._has_begun[stream] = start_seconds, True

    def start_of(self, stream: int) -> float | None:
        """The time of a stream's first data."""
        return self._starts[stream]

    def is_final(self, stream: int) -> bool:
        """Whether `offset_seconds` of a stream is final."""
        return self._has_begun[stream] and (self._starts[stream] is None or all(self._has_begun))

    def offset_seconds(self, stream: int) -> float:
        """The time at which the stream begins in the file, as far as is known.

        >>> timeline = Timeline(2)
        >>> timeline.begin(0, 5.0); timeline.is_final(0)
        False
        >>> timeline.begin(1, 4.5); timeline.is_final(0), timeline.offset_seconds(0)
        (True, 0.5)
        """
        start = self._starts[stream]
        return 0.0 if start is None else start - min(_known(self._starts))


def _known(starts: Sequence[float | None]) -> list[float]:
    return [start for start in starts if start is not None]
