"""From samples of the output to samples of the stream. Pure; no I/O.

    seconds ──ranges──► samples of the output ──plan──► samples of the stream ──stream──► slices ──batch──► one tensor

The two differ where the output has another sample rate: FFmpeg's resampling filter sees some samples on both sides::

    output                  first ............. last
    stream    start [ filter |                   | filter ] stop
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._common.checks import shown, whole_number
from .._pyav import MAX_CHANNELS, MAX_SAMPLE_RATE, SampleForm
from ..errors import InvalidArgumentError

__all__ = ["OutputFormat", "SamplePlan", "check_output_format", "group_ranges", "input_range", "rescale_up"]

# Taps of FFmpeg's resampling filter, and its cutoff as a part of the lower of the two bandwidths.
_NUM_TAPS = 32
_CUTOFF = 0.97


@dataclass(frozen=True)
class OutputFormat:
    """Sample rate and number of channels of the result."""

    sample_rate: int
    num_channels: int

    def is_that_of(self, form: SampleForm) -> bool:
        return (self.sample_rate, self.num_channels) == (form.sample_rate, form.num_channels)


def check_output_format(sample_rate: int | None, num_channels: int | None) -> tuple[int | None, int | None]:
    """The two arguments as ints; ``None`` stands for the stream's own.

    Raises:
        InvalidArgumentError: if one is not a whole number that FFmpeg's resampler accepts.
    """
    return (
        _check_count("sample_rate", sample_rate, MAX_SAMPLE_RATE, ", in samples per second"),
        _check_count("num_channels", num_channels, MAX_CHANNELS),
    )


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
    """Which samples of the stream are decoded for samples [first, last) of the output; ``None`` is the end.

    Attributes:
        output: Format of the result.
        stream_rate: Sample rate of the stream.
        first: First sample of the output.
        last: One past the last.
        start: First sample of the stream; ``None`` for its beginning, whatever the time stamps there say.
        stop: One past the last.
    """

    output: OutputFormat
    stream_rate: int
    first: int
    last: int | None
    start: int | None
    stop: int | None

    @classmethod
    def of_range(cls, first: int, last: int | None, stream_rate: int, output: OutputFormat) -> SamplePlan:
        """The plan for samples [first, last) of the output."""
        start, stop = input_range(first, last, stream_rate, output.sample_rate)
        return cls(output, stream_rate, first, last, start, stop)

    @classmethod
    def of_all(cls, stream_rate: int, output: OutputFormat) -> SamplePlan:
        """The plan for all samples."""
        return cls(output, stream_rate, 0, None, None, None)

    def section_range(self, section_start: int, section_rate: int) -> tuple[int, int | None]:
        """The wanted samples of a section of the stream that has another sample rate, counted from its start."""
        begin = rescale_up(section_start, self.stream_rate, self.output.sample_rate)
        last = None if self.last is None else max(0, self.last - begin)
        return input_range(max(0, self.first - begin), last, section_rate, self.output.sample_rate)


def input_range(first: int, last: int | None, input_rate: int, output_rate: int) -> tuple[int, int | None]:
    """The samples of the input from which samples [first, last) of the output are made.

    The resampling filter sees its taps on both sides. The range begins where a sample of the input and one of the
    output are played at the same time, so that the resampler has the same phase as when it starts at sample 0.

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
    """The first sample at another rate that is played at or after a sample.

    >>> rescale_up(3, 44_100, 44_100), rescale_up(3, 44_100, 16_000)
    (3, 2)
    """
    return -(-position * to_rate // from_rate)


def group_ranges(ranges: list[tuple[float, float | None]], max_distance: float) -> list[list[int]]:
    """The numbers of ranges that are decoded in one go, in the order of time.

    Args:
        ranges: Pairs of (start, stop) in seconds.
        max_distance: How far apart two ranges of a group may lie, in seconds; negative for groups of one.

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
