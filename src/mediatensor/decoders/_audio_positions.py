"""Which sample of the stream a frame begins with, told from its time stamp. Pure; no I/O.

Sample 0 is the first that a decode of the whole stream gives. Containers that count in samples say exactly where a
frame begins. Others round to their own ticks, Matroska and Flash to milliseconds, which is some forty samples. But
frames begin only at certain samples (every 1024th, say, of AAC), so the nearest of those is the true one::

    frames begin      0         1024        2048        3072
                      |-----------|-----------|-----------|----
    time stamps, ms   0          23          46          70
    the same, samples 0        1014        2029        3087     each within half a tick (22 samples) of a border

Demuxers of bare streams (AC-3, say) add up the rounded durations of frames, so that their clock runs slow or fast; a
tick is then what the frames make of it.

Of a stream whose time stamps jitter by more than that, only counting from the beginning tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

__all__ = ["NUM_FRAMES_TO_FIT", "PositionRule", "fit_positions", "needs_fit"]

#: How many frames of the beginning `fit_positions` should see: the more, the narrower it gets where sample 0 is.
NUM_FRAMES_TO_FIT = 32

_MIN_FRAMES_TO_FIT = 4

# Demuxers that give times to several frames of a packet round down at each.
_ROUNDING_SAMPLES = 4.5


@dataclass(frozen=True)
class PositionRule:
    """From time stamps to samples.

    Attributes:
        begin_pts: Time stamp of the first frame, in ticks.
        samples_per_tick: Sample rate times time base.
        shift: Samples by which the rounding of ``begin_pts`` misses sample 0.
        grid: Frames begin at multiples of this many samples from ``grid_offset``; 0 if they begin anywhere.
        grid_offset: A sample at which a frame begins.
        tolerance: How far from the grid rounding can put a frame, in samples.
    """

    begin_pts: int
    samples_per_tick: Fraction
    shift: float = 0.0
    grid: int = 0
    grid_offset: int = 0
    tolerance: float = 0.0

    def position(self, pts: int) -> int:
        """The sample with which a frame of this time stamp begins.

        >>> rule = PositionRule(0, Fraction(44100, 1000), grid=1024, tolerance=23)
        >>> [rule.position(pts) for pts in (0, 23, 46, 70)]
        [0, 1024, 2048, 3072]
        >>> rule.position(60)  # too far from any border: left where it is
        2646
        """
        return self.certain_position(pts)[0]

    def certain_position(self, pts: int) -> tuple[int, bool]:
        """The same, and whether it is certain: a frame that lies on no border comes after a leap in time."""
        numerator, denominator = self.samples_per_tick.numerator, self.samples_per_tick.denominator
        ticks = pts - self.begin_pts
        if not self.grid:
            # Halves up, and exact.
            return (2 * ticks * numerator + denominator) // (2 * denominator), numerator == 1
        shifted = ticks * numerator / denominator + self.shift
        nearest = self.grid_offset + self.grid * round((shifted - self.grid_offset) / self.grid)
        if abs(nearest - shifted) <= self.tolerance:
            return nearest, True
        return math.floor(shifted + 0.5), False

    def pts_before(self, position: int) -> int:
        """The last time stamp that is certain not to lie behind a sample."""
        return self.begin_pts + math.floor((position - self.tolerance - self.shift) / self.samples_per_tick)


def needs_fit(samples_per_tick: Fraction) -> bool:
    """Whether some samples begin between two ticks.

    >>> needs_fit(Fraction(44100, 14112000)), needs_fit(Fraction(48000, 90000)), needs_fit(Fraction(44100, 1000))
    (False, True, True)
    """
    return samples_per_tick.numerator != 1


def fit_positions(
    pts: Sequence[int], lengths: Sequence[int], samples_per_tick: Fraction, *, adds_durations: bool = False
) -> PositionRule:
    """The rule that explains the first frames of a stream.

    Args:
        pts: Time stamps of the frames, in ticks; at least one.
        lengths: How many samples each frame has. The first may be cut by the encoder's delay.
        samples_per_tick: Sample rate times time base.
        adds_durations: Whether time stamps are sums of rounded durations.

    Example:
        The first frame lost 312 samples of 960; the others begin at 648, 1608 ...

        >>> rule = fit_positions([0, 14, 34, 54], [648, 960, 960, 960], Fraction(48))
        >>> rule.grid, rule.grid_offset, [rule.position(pts) for pts in (14, 34, 54, 74)]
        (960, 648, [648, 1608, 2568, 3528])

        A frame of 1536 samples is 3134.69 ticks long; the demuxer counts 3134:

        >>> pts = range(0, 31340, 3134)
        >>> fit_positions(pts, [1536] * 10, Fraction(44100, 90000), adds_durations=True).position(3134_000)
        1536000
    """
    exact = PositionRule(pts[0], samples_per_tick)
    if not needs_fit(samples_per_tick) or len(pts) < _MIN_FRAMES_TO_FIT:
        return exact
    if adds_durations and len(steps := {b - a for a, b in pairwise(pts)}) == 1 and len(set(lengths)) == 1:
        samples_per_tick = Fraction(lengths[0], max(1, steps.pop()))
    return _on_grid(pts, lengths, samples_per_tick) or exact


def _on_grid(pts: Sequence[int], lengths: Sequence[int], samples_per_tick: Fraction) -> PositionRule | None:
    counted = list(accumulate(lengths, initial=0))
    off = [float(count - (stamp - pts[0]) * samples_per_tick) for count, stamp in zip(counted, pts, strict=False)]
    rounding = max(float(samples_per_tick) / 2, _ROUNDING_SAMPLES)
    low, high = max(off) - rounding, min(off) + rounding
    if low > high:
        return None
    return PositionRule(
        pts[0],
        samples_per_tick,
        shift=(low + high) / 2,
        grid=math.gcd(*lengths[1:-1]),
        grid_offset=counted[1],
        tolerance=rounding + (high - low) / 2 + 1,
    )
