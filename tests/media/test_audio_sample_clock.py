"""`SampleClock` finds the sample for time stamps that were computed from samples and rounded as in containers."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediatensor._engine.audio.plan import NUM_FRAMES_TO_FIT, fit_clock, input_range

RATES = [8000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000]


def stamps(starts: list[int], samples_per_tick: Fraction, first_tick: int, rounding: str) -> list[int]:
    """Return the time stamps of frames in ticks, rounded as in a container."""
    exact = [first_tick + Fraction(start) / samples_per_tick for start in starts]
    return [math.floor(tick + (Fraction(1, 2) if rounding == "nearest" else 0)) for tick in exact]


@given(
    rate=st.sampled_from(RATES),
    frame_length=st.sampled_from([480, 576, 960, 1024, 1152, 1536, 2048, 4608]),
    cut=st.integers(0, 400),
    first_tick=st.integers(-50, 5000),
    far=st.integers(100, 10_000_000),
)
def test_milliseconds_are_enough(rate: int, frame_length: int, cut: int, first_tick: int, far: int) -> None:
    """Matroska rounds to the nearest millisecond. The start of a frame within ten hours is exact to the sample."""
    lengths = [frame_length - cut] + [frame_length] * (NUM_FRAMES_TO_FIT - 1)
    starts = [sum(lengths[:i]) for i in range(NUM_FRAMES_TO_FIT)]
    samples_per_tick = Fraction(rate, 1000)
    clock = fit_clock(stamps(starts, samples_per_tick, first_tick, "nearest"), lengths, samples_per_tick)
    target = starts[1] + far * frame_length
    (stamp,) = stamps([target], samples_per_tick, first_tick, "nearest")
    assert clock.certain_position(stamp) == (target, True)


@pytest.mark.parametrize("rate", [44_100, 48_000])
def test_short_frames_of_vorbis(rate: int) -> None:
    """With blocks of 256 and 2048 samples, frames can begin at all multiples of 64, every 1.4 milliseconds."""
    lengths = [576, *[1024] * 9, 576, 128, 128, 576, *[1024] * 18]
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    samples_per_tick = Fraction(rate, 1000)
    clock = fit_clock(stamps(starts, samples_per_tick, 3, "nearest"), lengths, samples_per_tick)
    for start in range(starts[1], starts[1] + 64 * 5000, 64):
        (stamp,) = stamps([start], samples_per_tick, 3, "nearest")
        assert clock.position(stamp) == start


@given(start=st.integers(0, 10**10), denominator=st.integers(1, 400))
def test_ticks_finer_than_samples_are_exact(start: int, denominator: int) -> None:
    clock = fit_clock([7, 7 + denominator], [1, 1], Fraction(1, denominator))
    assert clock.certain_position(7 + start * denominator) == (start, True)


@given(position=st.integers(0, 10**9), rate=st.sampled_from(RATES))
def test_a_seek_to_the_time_before_is_never_late(position: int, rate: int) -> None:
    samples_per_tick = Fraction(rate, 1000)
    starts = [1024 * k for k in range(NUM_FRAMES_TO_FIT)]
    lengths = [1024] * NUM_FRAMES_TO_FIT
    clock = fit_clock(stamps(starts, samples_per_tick, 0, "nearest"), lengths, samples_per_tick)
    assert clock.pts_before(position) * samples_per_tick <= position


def test_wobbling_time_stamps_are_not_trusted() -> None:
    clock = fit_clock([0, 20, 55, 61, 100, 118], [1024] * 6, Fraction(48))
    assert clock.grid == 0
    assert not clock.certain_position(118)[1]


@given(
    rates=st.tuples(st.sampled_from(RATES), st.sampled_from(RATES)),
    first=st.integers(0, 10**8),
    length=st.integers(1, 10**6),
)
def test_input_ranges_begin_in_phase_and_hold_the_filter(rates: tuple[int, int], first: int, length: int) -> None:
    input_rate, output_rate = rates
    start, stop = input_range(first, first + length, input_rate, output_rate)
    assert stop is not None
    # Some sample of the output has the same time as sample `start` of the input.
    assert start * output_rate % input_rate == 0
    # The filter has 32 taps at the lower of the two rates.
    taps = 0 if input_rate == output_rate else 32 * max(1, input_rate / output_rate)
    assert start == 0 or start <= first * input_rate / output_rate - taps / 2
    assert stop >= (first + length) * input_rate / output_rate + taps / 2
