"""The time-based samplers against exact arithmetic, and at the edges of floating point."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mediatensor.errors import InvalidArgumentError
from mediatensor.samplers import clips_at_random_timestamps, clips_at_regular_timestamps
from samplers_recording_decoder import RecordingDecoder, positions_of


def exact_clip(
    start: Fraction, length: int, step: Fraction, stream_end: Fraction, policy: str
) -> list[Fraction] | None:
    """Return the times of one clip; ``None`` if the policy forbids it."""
    existing = 0
    while existing < length and start + existing * step < stream_end:
        existing += 1
    if existing < length and policy == "error":
        return None
    return [
        start + (i if i < existing else existing - 1 if policy == "repeat_last" else i % existing) * step
        for i in range(length)
    ]


@pytest.mark.parametrize("policy", ["repeat_last", "wrap", "error"])
@pytest.mark.parametrize(("begin", "fps"), [(0.0, 8.0), (2.5, 4.0), (-1.25, 16.0)])
def test_regular_clips_are_exact_where_floats_are(begin: float, fps: float, policy: str) -> None:
    # Every number is a multiple of 1/16, so that float64 arithmetic is exact.
    stream_begin, stream_end = Fraction(begin), Fraction(begin) + 3
    offsets = [None, 0.0, 0.75, 2.5, 2.9375]
    outcomes = set()
    for length, dt, start, end, distance in product(
        [1, 2, 5], [None, 0.5, 0.0625], offsets, [*offsets, 3.0, 50.0], [0.25, 1.0, 10.0]
    ):
        step = Fraction(dt or 1 / fps)
        first = stream_begin + Fraction(start or 0)
        latest = stream_end - (length - 1) * step if end is None else min(stream_begin + Fraction(end), stream_end)
        expected: list[list[Fraction] | None] = []
        at = first
        while at < latest:
            expected.append(exact_clip(at, length, step, stream_end, policy))
            at += Fraction(distance)
        decoder = RecordingDecoder(average_fps=fps, begin=begin, end=float(stream_end))
        arguments = {
            "seconds_between_clip_starts": distance,
            "num_frames_per_clip": length,
            "seconds_between_frames": dt,
            "sampling_range_start": None if start is None else begin + start,
            "sampling_range_end": None if end is None else begin + end,
            "policy": policy,
        }
        if expected and None not in expected:
            assert positions_of(clips_at_regular_timestamps(decoder, **arguments)) == expected, arguments
        else:
            with pytest.raises(InvalidArgumentError):
                clips_at_regular_timestamps(decoder, **arguments)
            assert decoder.calls == []
        outcomes.add(bool(expected) and None not in expected)
    assert outcomes == {True, False}


@pytest.mark.parametrize("policy", ["repeat_last", "wrap"])
def test_random_clips_start_at_the_drawn_times(policy: str) -> None:
    decoder = RecordingDecoder(begin=1.5, end=4.0, average_fps=8.0)
    torch.manual_seed(11)
    clips = clips_at_random_timestamps(
        decoder, num_clips=40, num_frames_per_clip=6, sampling_range_start=2.0, sampling_range_end=9.0, policy=policy
    )
    torch.manual_seed(11)
    starts = [2.0 + fraction * (4.0 - 2.0) for fraction in torch.rand(40, dtype=torch.float64).tolist()]
    step, end = Fraction(1, 8), Fraction(4)
    expected = [exact_clip(Fraction(start), 6, step, end, policy) for start in starts]
    assert any(len(set(clip)) < 6 for clip in expected)
    assert clips.data[:, :, 0, 0, 0] == pytest.approx(torch.tensor([[float(t) for t in clip] for clip in expected]))


def test_random_starts_cover_the_range_evenly() -> None:
    torch.manual_seed(0)
    decoder = RecordingDecoder(begin=1.0, end=6.0, average_fps=2.0)
    clips = clips_at_random_timestamps(decoder, num_clips=8000, num_frames_per_clip=3)
    starts = clips.data[:, 0, 0, 0, 0]
    assert 1.0 <= starts.min() < 1.01
    assert 4.99 < starts.max() < 5.0
    # 8000 draws in 8 bins: 1000 each, standard deviation 30.
    assert (torch.histc(starts, 8, 1.0, 5.0) - 1000).abs().max() < 6 * 30


def test_random_timestamps_draw_once_and_regular_ones_never() -> None:
    torch.manual_seed(7)
    torch.rand(5, dtype=torch.float64)
    expected = torch.get_rng_state()
    torch.manual_seed(7)
    clips_at_random_timestamps(RecordingDecoder(), num_clips=5, num_frames_per_clip=3)
    assert torch.equal(torch.get_rng_state(), expected)
    clips_at_regular_timestamps(RecordingDecoder(), seconds_between_clip_starts=0.5)
    with pytest.raises(InvalidArgumentError):
        clips_at_random_timestamps(RecordingDecoder(), sampling_range_start=2.0)
    assert torch.equal(torch.get_rng_state(), expected)


@pytest.mark.parametrize("begin", [0.0, 1 / 3, 1e5 + 0.1, 1e9, 2.0**52])
@pytest.mark.parametrize("fraction", [0.0, 1 - 2.0**-53])
@pytest.mark.parametrize("explicit_end", [False, True])
def test_the_extremes_of_the_generator_stay_inside_the_stream(
    monkeypatch: pytest.MonkeyPatch, begin: float, fraction: float, explicit_end: bool
) -> None:
    monkeypatch.setattr(torch, "rand", lambda *size, **options: torch.full(size, fraction, dtype=torch.float64))
    end = begin + 1.0
    clips = clips_at_random_timestamps(
        RecordingDecoder(begin=begin, end=end),
        num_clips=2,
        num_frames_per_clip=1 if explicit_end else 3,
        seconds_between_frames=0.1,
        sampling_range_end=end if explicit_end else None,
        policy="error",
    )
    assert begin <= min(map(min, positions_of(clips)))
    assert max(map(max, positions_of(clips))) < end


fps = st.sampled_from([10.0, 12.5, 24000 / 1001, 24.0, 25.0, 30000 / 1001, 50.0, 60.0])
begin = st.one_of(st.sampled_from([0.0, 1 / 3, 8.333]), st.floats(-1e3, 1e9))


@settings(max_examples=300, deadline=None)
@given(fps, begin, st.integers(1, 300), st.integers(1, 8), st.integers(1, 30), st.sampled_from([None, 0.04, 0.1, 0.5]))
def test_the_default_range_needs_no_policy(
    fps: float, begin: float, num_frames: int, length: int, frames_between_starts: int, dt: float | None
) -> None:
    end = begin + num_frames / fps
    step = dt or 1 / fps
    if not begin < end - (length - 1) * step:
        return
    decoder = RecordingDecoder(num_frames, average_fps=fps, begin=begin, end=end)
    clips = clips_at_regular_timestamps(
        decoder,
        seconds_between_clip_starts=frames_between_starts / fps,
        num_frames_per_clip=length,
        seconds_between_frames=dt,
        policy="error",
    )
    times = clips.data[:, :, 0, 0, 0]
    tolerance = 4 * math.ulp(abs(begin) + end - begin)
    assert begin <= times.min()
    assert times.max() < end
    assert (times.diff(dim=1) - step).abs().sum() <= tolerance * times.numel()
    assert (times[:, 0].diff() - frames_between_starts / fps).abs().sum() <= tolerance * times.numel()


def test_rounding_does_not_take_the_last_frame_from_a_whole_clip() -> None:
    # 16 * 0.1 + 1/3 is just below the default end of the range, and with 4 * 0.1 more it is the end of the stream.
    begin, end = 1 / 3, 1 / 3 + 2
    decoder = RecordingDecoder(20, average_fps=10.0, begin=begin, end=end)
    clips = clips_at_regular_timestamps(decoder, seconds_between_clip_starts=0.1, num_frames_per_clip=5, policy="error")
    last_clip = positions_of(clips)[-1]
    assert last_clip[0] + 4 * 0.1 >= end
    assert last_clip[-1] == math.nextafter(end, 0)
    assert last_clip == pytest.approx([end - 0.4, end - 0.3, end - 0.2, end - 0.1, end])


@pytest.mark.parametrize(("start", "end", "distance"), [(8.333, 32.533, 0.2), (0.0, 0.9, 0.3)])
def test_no_clip_starts_at_the_end_of_the_range(start: float, end: float, distance: float) -> None:
    decoder = RecordingDecoder(begin=start, end=100.0)
    clips = clips_at_regular_timestamps(decoder, seconds_between_clip_starts=distance, sampling_range_end=end)
    starts = [clip[0] for clip in positions_of(clips)]
    assert starts == pytest.approx([start + k * distance for k in range(len(starts))])
    assert starts[-1] < end <= starts[-1] + distance + 1e-9


def test_seconds_between_frames_replaces_an_unknown_average_fps() -> None:
    decoder = RecordingDecoder(average_fps=None)
    clips = clips_at_regular_timestamps(
        decoder, seconds_between_clip_starts=1.0, num_frames_per_clip=2, seconds_between_frames=0.25
    )
    assert positions_of(clips) == [[0.0, 0.25], [1.0, 1.25]]


def test_numbers_of_every_library_are_accepted() -> None:
    clips = clips_at_regular_timestamps(
        RecordingDecoder(average_fps=Fraction(4), begin=Fraction(0), end=Fraction(2)),
        seconds_between_clip_starts=torch.tensor(0.5),
        num_frames_per_clip=2,
        sampling_range_start=1,
        sampling_range_end=Fraction(7, 4),
    )
    assert positions_of(clips) == [[1.0, 1.25], [1.5, 1.75]]


@pytest.mark.parametrize(("policy", "indices"), [("repeat_last", [0, 1, 2, 3, 3, 3]), ("wrap", [0, 1, 2, 3, 0, 1])])
def test_a_video_shorter_than_a_clip_follows_the_policy(policy: Any, indices: list[int]) -> None:
    decoder = RecordingDecoder(num_frames=4, average_fps=10.0, end=0.4)
    for sampler in (
        clips_at_random_timestamps,
        *(partial(clips_at_regular_timestamps, seconds_between_clip_starts=step) for step in (0.1, 2.5)),
    ):
        clips = sampler(decoder, num_frames_per_clip=6, policy=policy)
        assert [[round(seconds * 10) for seconds in clip] for clip in positions_of(clips)] == [indices]
        with pytest.raises(InvalidArgumentError, match="policy"):
            sampler(decoder, num_frames_per_clip=6, policy="error")
