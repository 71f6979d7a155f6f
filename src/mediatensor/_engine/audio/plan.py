"""Compute which samples of a stream to decode for a requested time range. Pure functions, without I/O.

A time range is first converted to a range of output samples, and this range to a range of the stream's samples. If the
two sample rates are equal, both ranges are the same. Otherwise FFmpeg resamples, and its filter needs some additional
samples of the stream on both sides::

    output                  first ............. last
    stream    start [ filter |                   | filter ] stop

From the time stamp of a decoded frame, this module also computes the sample at which the frame starts (`SampleClock`).
Containers round time stamps to their ticks (Matroska to milliseconds). However, all frames of a stream usually have the
same length, so their starts are evenly spaced. A frame is taken to start at the evenly spaced position that is nearest
to its rounded time stamp.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import get_args

from ...errors import InvalidArgumentError, OutOfRangeError
from ..common.checks import check_choice, finite_number, items_of, real_number, shown, whole_number
from ..common.locks import cached_property
from ..pyav.audio import MAX_CHANNELS, MAX_SAMPLE_RATE, Downmix, SampleForm

# Number of taps of FFmpeg's resampling filter, and its cutoff frequency relative to the lower of the two bandwidths.
_NUM_TAPS = 32
_CUTOFF = 0.97


@dataclass(frozen=True)
class OutputFormat:
    """Sample rate and number of channels of the result, and how channels are mixed down."""

    sample_rate: int
    num_channels: int
    downmix: Downmix = "sum"

    def matches(self, form: SampleForm) -> bool:
        return (self.sample_rate, self.num_channels) == (form.sample_rate, form.num_channels)


def check_output_format(sample_rate: int | None, num_channels: int | None) -> tuple[int | None, int | None]:
    """Return both arguments as ints that FFmpeg's resampler accepts, or as ``None`` for the stream's own value."""
    return (
        _check_count("sample_rate", sample_rate, MAX_SAMPLE_RATE, ", in samples per second"),
        _check_count("num_channels", num_channels, MAX_CHANNELS),
    )


def check_downmix(downmix: object) -> None:
    check_choice("downmix", downmix, get_args(Downmix))


def _check_count(name: str, value: int | None, highest: int, unit: str = "") -> int | None:
    if value is None:
        return None
    try:
        return whole_number(name, value, at_least=1, at_most=highest)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"{name} must be > 0 and at most {highest}{unit}, or None for the stream's own (got {shown(value)})."
        ) from None


@dataclass(frozen=True)
class SamplePlan:
    """The samples [start, stop) of the stream that are decoded to make the samples [first, last) of the output."""

    output: OutputFormat
    stream_rate: int
    first: int
    last: int | None  # `None` for the end
    start: int | None  # `None` for the beginning of the stream, even if time stamps are wrong
    stop: int | None  # `None` for the end

    @classmethod
    def of_range(cls, first: int, last: int | None, stream_rate: int, output: OutputFormat) -> SamplePlan:
        start, stop = input_range(first, last, stream_rate, output.sample_rate)
        return cls(output, stream_rate, first, last, start, stop)

    @classmethod
    def of_all(cls, stream_rate: int, output: OutputFormat) -> SamplePlan:
        return cls(output, stream_rate, 0, None, None, None)

    def section_range(self, section_start: int, section_rate: int) -> tuple[int, int | None]:
        """Compute the samples [start, stop) that this plan needs from a section, counted from the section's start.

        A section is a part of the stream whose sample rate, ``section_rate``, differs from the rest. It starts at
        sample ``section_start`` of the stream.
        """
        begin = rescale_up(section_start, self.stream_rate, self.output.sample_rate)
        last = None if self.last is None else max(0, self.last - begin)
        return input_range(max(0, self.first - begin), last, section_rate, self.output.sample_rate)


def input_range(first: int, last: int | None, input_rate: int, output_rate: int) -> tuple[int, int | None]:
    """Compute the input samples that the resampler needs in order to make samples [first, last) of the output.

    The resampler's filter needs additional samples on both sides. The range starts at a time at which input and output
    both have a sample, so that resampling from there gives the same output as resampling from sample 0.

    >>> input_range(16_000, 32_000, 48_000, 48_000), input_range(16_000, 32_000, 44_100, 16_000)
    ((16000, 32000), (43659, 88382))
    """
    if input_rate == output_rate:
        return first, last
    period = input_rate // math.gcd(input_rate, output_rate)
    margin = 2 * math.ceil(_NUM_TAPS / min(1.0, _CUTOFF * output_rate / input_rate))
    start = max(0, first * input_rate // output_rate - margin) // period * period
    return start, None if last is None else -(-last * input_rate // output_rate) + margin


def rescale_up(position: int, from_rate: int, to_rate: int) -> int:
    """Convert the number of a sample to another sample rate. If the result is not a whole number, round it up.

    >>> rescale_up(3, 44_100, 44_100), rescale_up(3, 44_100, 16_000)
    (3, 2)
    """
    return -(-position * to_rate // from_rate)


def group_ranges(ranges: list[tuple[float, float | None]], max_distance: float) -> list[list[int]]:
    """Group ranges (start, stop) in seconds that are close enough to be decoded together.

    Each group is a list of indices into ``ranges``. Groups are in order of time, and so are the ranges in each group.
    Within a group, gaps between ranges are at most ``max_distance`` seconds; a negative distance puts each range into
    its own group.

    >>> group_ranges([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (6.1, 7.0)], 0.25)
    [[1, 2], [0, 3]]
    """
    groups: list[list[int]] = []
    reached = -math.inf
    for number in sorted(range(len(ranges)), key=lambda number: ranges[number][0]):
        start, stop = ranges[number]
        if groups and max_distance >= 0 and start <= reached + max_distance and stop != start:
            groups[-1].append(number)
        else:
            groups.append([number])
            reached = -math.inf
        reached = max(reached, math.inf if stop is None else stop)
    return groups


def sample_offset(seconds: float, begin_seconds: float, sample_rate: int) -> int:
    """Return the number of the sample nearest to a time in seconds. Sample 0 is at ``begin_seconds``.

    A time halfway between two samples is rounded up. Python's ``round`` would choose the even number, so two chunks
    that meet at such a time would overlap or leave a gap.

    >>> [sample_offset(k / 4, 0.0, 2) for k in range(5)]
    [0, 1, 1, 2, 2]
    """
    return math.floor((seconds - begin_seconds) * sample_rate + 0.5)


def sample_range(start: float, stop: float | None, begin_seconds: float, sample_rate: int) -> tuple[int, int | None]:
    """Return the samples [first, last) that are played from ``start`` to ``stop``, both in seconds.

    ``None`` as ``stop`` or ``last`` means the end of the stream. Sample 0 is played at ``begin_seconds``.

    >>> sample_range(0.5, 1.0, 0.0, 8000), sample_range(-1.0, None, 0.0, 8000)
    ((4000, 8000), (0, None))
    """
    first = max(0, sample_offset(start, begin_seconds, sample_rate))
    return first, None if stop is None else max(first, sample_offset(stop, begin_seconds, sample_rate))


def check_range(start_seconds: float, stop_seconds: float | None) -> tuple[float, float | None]:
    """Return (start, stop) as floats; raise `InvalidArgumentError` unless both are finite and start <= stop.

    If ``stop_seconds`` is ``None``, which means the end of the stream, the returned stop is ``None``.

    >>> check_range(0, None)
    (0.0, None)
    """
    start = _finite("start", start_seconds)
    stop = None if stop_seconds is None else _finite("stop", stop_seconds)
    if stop is not None and start > stop:
        raise InvalidArgumentError(
            f"Invalid start seconds: {start}. It must be less than or equal to stop seconds ({stop})."
        )
    return start, stop


def _finite(name: str, seconds: float) -> float:
    try:
        return finite_number(name, seconds)
    except InvalidArgumentError:
        raise InvalidArgumentError(f"Invalid {name} seconds: {shown(seconds)}. It must be a finite number.") from None


def check_ranges(ranges: Iterable[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    """Return ``ranges``, pairs (start, stop) in seconds, as a list after checking each pair with `check_range`."""
    checked = []
    for pair in items_of("ranges", ranges, of="pairs of seconds, (start, stop)"):
        try:
            start, stop = pair
            start, stop = real_number("start", start), None if stop is None else real_number("stop", stop)
        except (TypeError, ValueError):
            raise InvalidArgumentError(
                f"ranges must be pairs of seconds, (start, stop), where stop may be None (got {shown(pair)})."
            ) from None
        checked.append(check_range(start, stop))
    return checked


def no_samples_error(start_seconds: float, stop_seconds: float | None, end_seconds: float | None) -> OutOfRangeError:
    end = "" if end_seconds is None else f" The stream ends at {end_seconds} seconds."
    return OutOfRangeError(
        f"No audio frames were decoded: there are no samples to decode between {start_seconds} and "
        f"{'the end' if stop_seconds is None else stop_seconds}. This is probably because start_seconds is too high "
        f"({start_seconds}).{end}"
    )


# Time stamps


#: Recommended number of frames for `fit_clock`. More frames determine the time of sample 0 more precisely.
NUM_FRAMES_TO_FIT = 32

_MIN_FRAMES_TO_FIT = 4

# Some demuxers compute the time stamps of several frames of a packet and round down at each frame.
_ROUNDING_SAMPLES = 4.5


@dataclass(frozen=True)
class SampleClock:
    """Computes the sample at which a frame starts from its time stamp. Sample 0 is the stream's first sample."""

    begin_pts: int  # time stamp of the first frame, in ticks
    samples_per_tick: Fraction  # sample rate times time base
    shift: float = 0.0  # samples from `begin_pts`, which was rounded, to sample 0
    grid: int = 0  # frames start at multiples of this many samples from `grid_offset`; 0 if they may start anywhere
    grid_offset: int = 0  # a sample at which a frame starts
    tolerance: float = 0.0  # largest distance in samples between the grid and a rounded time stamp

    # Computed once: fractions are slow, and the ratio is used for every frame.
    @cached_property
    def ratio(self) -> tuple[int, int]:
        return self.samples_per_tick.numerator, self.samples_per_tick.denominator

    def position(self, pts: int) -> int:
        """Return the number of the first sample of a frame whose time stamp is ``pts``.

        If the stream's frames start on a regular grid of samples, a start close to the grid is moved onto it, to undo
        the rounding of the time stamp.

        >>> clock = SampleClock(0, Fraction(44100, 1000), grid=1024, tolerance=23)
        >>> [clock.position(pts) for pts in (0, 23, 46, 70)]
        [0, 1024, 2048, 3072]
        >>> clock.position(60)  # too far from the grid: not changed
        2646
        """
        return self.certain_position(pts)[0]

    def certain_position(self, pts: int) -> tuple[int, bool]:
        """Return the result of `position`, and whether it is certain. A frame far from the grid can start anywhere."""
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
        """Return the latest time stamp whose frame certainly starts at or before ``position``, despite rounding."""
        return self.begin_pts + math.floor((position - self.tolerance - self.shift) / float(self.samples_per_tick))


def has_coarse_ticks(samples_per_tick: Fraction) -> bool:
    """Return whether the duration of a sample is not a whole number of ticks, so that time stamps had to be rounded.

    >>> [has_coarse_ticks(ratio) for ratio in (Fraction(44100, 14112000), Fraction(48000, 90000), Fraction(441, 10))]
    [False, True, True]
    """
    return samples_per_tick.numerator != 1


def fit_clock(
    pts: Sequence[int], lengths: Sequence[int], samples_per_tick: Fraction, *, sums_durations: bool = False
) -> SampleClock:
    """Return the `SampleClock` that fits the first frames of a stream.

    ``pts`` has the time stamps of these frames (at least one) in ticks, and ``lengths`` their numbers of samples. In
    the first example below, the first frame has only 648 of its 960 samples, because the encoder's delay is cut off.
    Later frames start at samples 648, 1608 ...

    >>> clock = fit_clock([0, 14, 34, 54], [648, 960, 960, 960], Fraction(48))
    >>> clock.grid, clock.grid_offset, [clock.position(pts) for pts in (14, 34, 54, 74)]
    (960, 648, [648, 1608, 2568, 3528])

    Some demuxers compute each time stamp by adding the rounded duration of a frame to the previous time stamp, so that
    rounding errors add up. ``sums_durations`` corrects this. In the next example, a frame of 1536 samples lasts 3134.69
    ticks, but the demuxer adds 3134:

    >>> pts = range(0, 31340, 3134)
    >>> fit_clock(pts, [1536] * 10, Fraction(44100, 90000), sums_durations=True).position(3134_000)
    1536000
    """
    exact = SampleClock(pts[0], samples_per_tick)
    if not has_coarse_ticks(samples_per_tick) or len(pts) < _MIN_FRAMES_TO_FIT:
        return exact
    if sums_durations and len(steps := {b - a for a, b in pairwise(pts)}) == 1 and len(set(lengths)) == 1:
        samples_per_tick = Fraction(lengths[0], max(1, steps.pop()))
    # Rounding must explain the difference between each frame's time stamp and its start counted in samples.
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
