"""Compute the start times that frames had before the container rounded them (`FrameClock`). Pure arithmetic.

Users request frames at evenly spaced times, ``start + k / fps``. Because of rounding, such a time can be just before
the start of the frame that it should select. Floats round it slightly, so times are compared with a tolerance
(`latest`). Containers round more: at 30 frames per second, Matroska stores 0, 33, 67 and 100 ms. The third frame is
stored as starting at 67 ms, so a request for 2 / 30 s, which is earlier, would get the second frame again. If the
requested spacing matches the frame rate, requested times are therefore compared with the times before rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..common.checks import TIME_TOLERANCE, latest
from ..containers.sample_tables import Int64Array

# Programs round times to the time base or, at most, to milliseconds. If times have a coarser common divisor, they are
# exact.
_MAX_QUANTUM_SECONDS = Fraction(1, 1000)
# A steady stream has at least this many ticks per frame. With fewer ticks, any times look steady.
_MIN_TICKS_PER_FRAME = 3
# Largest difference between two rounding errors, in ticks. It is a little above 1 if times were rounded twice.
_MAX_SPREAD = 1.05
# Largest such difference in seconds, for streams with fine ticks. MPEG-PS stores times for some frames only. Between
# them, the sum of rounded durations is wrong by up to 0.15 ms at 24000/1001 frames per second.
_MAX_SPREAD_SECONDS = 0.0002
# Largest share of irregular distances between frames in a steady stream. Joined recordings have some, for example.
_MAX_BREAKS_SHARE = 0.1
# A grid matches the frame rate if its step is a multiple of a whole, half, third or quarter frame.
_MAX_PARTS = 4
# Two rates are equal if, over the whole stream, they drift apart by less than this share of a frame. Used if times are
# exact.
_EXACT_SHARE = 0.01

# Doubles represent all integers up to this one.
_MAX_EXACT_INTEGER = 1 << 53


@dataclass(frozen=True, eq=False)
class FrameClock:
    """Start times of the frames of a stream, before the container rounded them to ticks."""

    times: NDArray[np.float64]  # start of each frame in seconds according to the file
    starts: NDArray[np.float64]  # start of each frame before rounding, at most half a quantum from `times`
    # Seconds from one frame to the next, if the frame rate is steady apart from missing frames; `None` if it is not.
    # Without it, the times before rounding are unknown, and `starts` equals `times`.
    step: Fraction | None = None
    quantum: float = 0.0  # largest minus smallest rounding error, in seconds; at least one tick

    def for_steps(self, *seconds: float) -> FrameClock:
        """Return this clock if one of these time steps, in seconds, matches the frame rate.

        Otherwise return a clock that uses the times in the file as they are; its ``step`` is ``None``.

        >>> clock = frame_clock(np.array([0, 33, 67, 100]), Fraction(1, 1000))
        >>> clock.for_steps(1 / 15) is clock, clock.for_steps(0.07).step
        (True, None)
        """
        if self.step is None or any(self._frames_per_step(one) is not None for one in seconds):
            return self
        return FrameClock(self.times, self.times)

    def played_at(self, seconds: NDArray[np.float64]) -> Int64Array:
        """Return, for each of ``seconds``, the index of the frame that is shown at this time.

        For times before the first frame, return the first frame.
        """
        return np.maximum(np.searchsorted(self.starts, latest(seconds), side="right").astype(np.int64) - 1, 0)

    def grid(self, start: float, step: float, count: int) -> NDArray[np.float64]:
        """Return the times ``start + k * step`` for k = 0, 1, ..., ``count`` - 1.

        First, `exact_start` and `exact_step` correct the rounding of ``start`` and ``step``.
        """
        return np.arange(count, dtype=np.float64) * self.exact_step(step) + self.exact_start(start)

    def exact_step(self, seconds: float) -> float:
        """If ``seconds`` is close to the duration of a simple number of frames, return this duration, else ``seconds``.

        Simple numbers are multiples of a whole, half, third or quarter frame. For example, ``1 / metadata.average_fps``
        is not exact, because the end of the stream is rounded.
        """
        frames = self._frames_per_step(seconds)
        return seconds if frames is None or self.step is None else float(self.step * frames)

    def usual_step(self, average: float) -> float:
        """Return the usual seconds from one frame to the next. ``average`` is their average over the stream.

        The result is `step` if the rate is steady, and frames at the average rate drift from frames at the steady rate
        by at most one frame over the whole stream. A drift of one frame can come from a missing frame or an unknown
        last duration. Otherwise the result is the average.
        """
        if self.step is None:
            return average
        step = float(self.step)
        drift = abs(average / step - 1) * (self.starts[-1] - self.starts[0] + step)
        return step if drift <= step + 2 * self.quantum else average

    def _frames_per_step(self, seconds: float) -> Fraction | None:
        if self.step is None or not 1 / _MAX_PARTS < (ratio := seconds / float(self.step)) < math.inf:
            return None
        frames = Fraction(ratio).limit_denominator(_MAX_PARTS)
        drift = abs(seconds / float(self.step * frames) - 1) * (self.starts[-1] - self.starts[0] + float(self.step))
        return frames if drift <= 2 * self.quantum else None

    def exact_start(self, seconds: float) -> float:
        """If ``seconds`` is the rounded start of a frame, return its exact start. Otherwise return ``seconds``.

        ``seconds`` is the start of a grid of requested times.
        """
        return self._snap_to_step(seconds, self.quantum / 2)

    def exact_end(self, seconds: float) -> float:
        """If ``seconds`` is near the start or end of a frame, return that exact time. Otherwise return ``seconds``.

        ``seconds`` is the end of a range of requested times. "Near" means at most twice the `quantum` away.
        """
        return self._snap_to_step(seconds, 2 * self.quantum)

    def _snap_to_step(self, seconds: float, farthest: float) -> float:
        if self.step is None:
            return seconds
        frame, step = int(self.played_at(np.array([seconds]))[0]), float(self.step)
        exact = float(self.starts[frame]) + round((seconds - float(self.starts[frame])) / step) * step
        return exact if TIME_TOLERANCE < abs(exact - seconds) <= farthest + TIME_TOLERANCE else seconds


def seconds_of(ticks: Int64Array, time_base: Fraction) -> NDArray[np.float64]:
    """Convert ticks to seconds, rounded once to the nearest double."""
    numerator, denominator = time_base.numerator, time_base.denominator
    if len(ticks) and max(-int(ticks.min()), int(ticks.max())) * numerator > _MAX_EXACT_INTEGER:
        return np.array([tick * numerator / denominator for tick in ticks.tolist()])
    return ticks.astype(np.float64) * numerator / denominator


def frame_clock(pts: Int64Array, time_base: Fraction) -> FrameClock:
    """Return the `FrameClock` of a stream. ``pts`` has the presentation times of its frames in ticks, never decreasing.

    >>> pts = np.array([126000, 129754, 133508, 137261, 141015])  # 24000/1001 frames per second
    >>> frame_clock(pts, Fraction(1, 90000)).step
    Fraction(1001, 24000)
    """
    seconds = seconds_of(pts, time_base)
    gaps = np.diff(pts)
    shown = gaps[gaps > 0]
    if not len(shown):
        return FrameClock(seconds, seconds)
    tick = int(np.gcd.reduce(shown))
    if tick == shown.min():
        step = int(np.percentile(shown, 50, method="lower")) * time_base
        return FrameClock(seconds, seconds, step, min(float(time_base), _EXACT_SHARE * float(step)))
    if tick * time_base > _MAX_QUANTUM_SECONDS:
        tick = 1
    fitted = _fit(gaps, tick, time_base)
    if fitted is None:
        return FrameClock(seconds, seconds)
    starts = seconds[0] + fitted[0]
    return FrameClock(
        seconds, starts, fitted[1], max(float(tick * time_base), 2 * float(np.abs(starts - seconds).max()))
    )


def _fit(gaps: Int64Array, tick: int, time_base: Fraction) -> tuple[NDArray[np.float64], Fraction] | None:
    """Fit a steady frame rate to the gaps between frames. Return (frame starts, seconds from one frame to the next).

    Frame starts are in seconds after the first frame. ``gaps`` are in units of the time base, and were rounded to
    multiples of ``tick``. Return ``None`` if no steady rate fits.
    """
    shown = gaps[gaps > 0]
    usual = float(np.percentile(shown, 50, method="lower"))  # one of the gaps; a mean of two may be close to none
    if usual < _MIN_TICKS_PER_FRAME * tick:
        return None
    usual = float(shown[np.rint(shown / usual) == 1].mean())
    max_spread = max(_MAX_SPREAD * tick, _MAX_SPREAD_SECONDS / float(time_base))
    steps = np.rint(gaps / usual)
    is_break = np.abs(gaps - steps * usual) > max_spread
    if is_break.sum() > _MAX_BREAKS_SHARE * len(gaps) or not gaps[~is_break].any():
        return None
    rate = Fraction(float(steps[~is_break].sum() / gaps[~is_break].sum())) / time_base
    numbers, ticks = (np.concatenate([[0.0], np.cumsum(values)]) for values in (steps, gaps))
    runs = np.concatenate([[0], np.flatnonzero(is_break) + 1])
    for spread, fps in product((_MAX_SPREAD * tick, max_spread), _likely_rates(rate)):
        exact = numbers * float(1 / (fps * time_base))
        errors = ticks - exact
        least, most = np.minimum.reduceat(errors, runs), np.maximum.reduceat(errors, runs)
        if (most - least).max() <= spread:
            middle = np.repeat((least + most) / 2, np.diff(runs, append=len(ticks)))
            return (exact + middle) * float(time_base), 1 / fps
    return None


def _likely_rates(rate: Fraction) -> list[Fraction]:
    """Return exact frame rates that are close to a measured rate and commonly used. The most likely one comes first."""
    whole = rate.limit_denominator(1)
    likely = [whole, whole * Fraction(1000, 1001), rate.limit_denominator(2), rate.limit_denominator(100), rate]
    return [fps for fps in likely if fps > 0]
