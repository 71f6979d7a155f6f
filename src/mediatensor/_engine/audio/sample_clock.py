"""Convert time stamps to sample numbers. Pure; no I/O.

Containers round time stamps to their ticks (Matroska to milliseconds). Codecs have a few fixed frame lengths, so a
frame can only start at certain samples. It starts at the possible sample that is nearest to its rounded time stamp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

from ..common.lazy import cached_property

__all__ = ["NUM_FRAMES_TO_FIT", "SampleClock", "fit_clock", "has_coarse_ticks"]

#: Number of first frames that `fit_clock` should get. More frames determine sample 0 more precisely.
NUM_FRAMES_TO_FIT = 32

_MIN_FRAMES_TO_FIT = 4

# Demuxers that give time stamps to several frames of a packet round down at each frame.
_ROUNDING_SAMPLES = 4.5


@dataclass(frozen=True)
class SampleClock:
    """Conversion of time stamps to samples.

    Attributes:
        begin_pts: Time stamp of the first frame, in ticks.
        samples_per_tick: Sample rate times time base.
        shift: Distance in samples from ``begin_pts``, which was rounded, to sample 0.
        grid: Frames start at multiples of this many samples from ``grid_offset``; 0 if they may start anywhere.
        grid_offset: A sample at which a frame starts.
        tolerance: Largest distance in samples between the grid and a rounded time stamp.
    """

    begin_pts: int
    samples_per_tick: Fraction
    shift: float = 0.0
    grid: int = 0
    grid_offset: int = 0
    tolerance: float = 0.0

    # Fractions are slow, and this ratio is used for every frame.
    @cached_property
    def ratio(self) -> tuple[int, int]:
        """``samples_per_tick`` as (numerator, denominator)."""
        return self.samples_per_tick.numerator, self.samples_per_tick.denominator

    def position(self, pts: int) -> int:
        """Return the first sample of a frame with this time stamp.

        >>> clock = SampleClock(0, Fraction(44100, 1000), grid=1024, tolerance=23)
        >>> [clock.position(pts) for pts in (0, 23, 46, 70)]
        [0, 1024, 2048, 3072]
        >>> clock.position(60)  # too far from the grid: not changed
        2646
        """
        return self.certain_position(pts)[0]

    def certain_position(self, pts: int) -> tuple[int, bool]:
        """Return `position`, and whether it is certain. A frame off the grid follows a gap and may start anywhere."""
        numerator, denominator = self.ratio
        ticks = pts - self.begin_pts
        if not self.grid:
            # Rounded to the nearest sample, halves up, in whole numbers.
            return (2 * ticks * numerator + denominator) // (2 * denominator), numerator == 1
        shifted = ticks * numerator / denominator + self.shift
        nearest = self.grid_offset + self.grid * round((shifted - self.grid_offset) / self.grid)
        if abs(nearest - shifted) <= self.tolerance:
            return nearest, True
        return math.floor(shifted + 0.5), False

    def pts_before(self, position: int) -> int:
        """Return the last time stamp that proves, in spite of rounding, that a frame starts at or before a sample."""
        return self.begin_pts + math.floor((position - self.tolerance - self.shift) / float(self.samples_per_tick))


def has_coarse_ticks(samples_per_tick: Fraction) -> bool:
    """Return whether ticks are too coarse to state the start of each sample, so that time stamps are rounded.

    >>> [has_coarse_ticks(ratio) for ratio in (Fraction(44100, 14112000), Fraction(48000, 90000), Fraction(441, 10))]
    [False, True, True]
    """
    return samples_per_tick.numerator != 1


def fit_clock(
    pts: Sequence[int], lengths: Sequence[int], samples_per_tick: Fraction, *, sums_durations: bool = False
) -> SampleClock:
    """Fit a clock to the first frames of a stream.

    Args:
        pts: Time stamps of the frames, in ticks; at least one.
        lengths: Number of samples of each frame. The first frame may lack the encoder's delay.
        samples_per_tick: Sample rate times time base.
        sums_durations: Whether time stamps are sums of rounded durations.

    Example:
        The first frame lacks 312 of its 960 samples; later frames start at 648, 1608 ...

        >>> clock = fit_clock([0, 14, 34, 54], [648, 960, 960, 960], Fraction(48))
        >>> clock.grid, clock.grid_offset, [clock.position(pts) for pts in (14, 34, 54, 74)]
        (960, 648, [648, 1608, 2568, 3528])

        A frame of 1536 samples is 3134.69 ticks long; the demuxer counts 3134:

        >>> pts = range(0, 31340, 3134)
        >>> fit_clock(pts, [1536] * 10, Fraction(44100, 90000), sums_durations=True).position(3134_000)
        1536000
    """
    exact = SampleClock(pts[0], samples_per_tick)
    if not has_coarse_ticks(samples_per_tick) or len(pts) < _MIN_FRAMES_TO_FIT:
        return exact
    if sums_durations and len(steps := {b - a for a, b in pairwise(pts)}) == 1 and len(set(lengths)) == 1:
        samples_per_tick = Fraction(lengths[0], max(1, steps.pop()))
    # Rounding must explain the distance between each frame's counted start and its time stamp.
    counted = list(accumulate(lengths, initial=0))
    off = [float(count - (stamp - pts[0]) * samples_per_tick) for count, stamp in zip(counted, pts, strict=False)]
    rounding = max(float(samples_per_tick) / 2, _ROUNDING_SAMPLES)
    low, high = max(off) - rounding, min(off) + rounding
    if low > high:
        return exact
    return SampleClock(
        pts[0],
        samples_per_tick,
        shift=(low + high) / 2,
        grid=math.gcd(*lengths[1:-1]),
        grid_offset=counted[1],
        tolerance=rounding + (high - low) / 2 + 1,
    )
