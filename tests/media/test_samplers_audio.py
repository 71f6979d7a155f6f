"""Clips of audio: their samples, their starts, and clips that reach beyond the end."""

from __future__ import annotations

import io
import math
import re
import wave
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mediatensor import AudioSamples, AudioSamplesBatch
from mediatensor.errors import InvalidArgumentError
from mediatensor.samplers import audio_clips_at_random_timestamps, audio_clips_at_regular_timestamps
from samplers_formula_sound import FormulaSound, exact_offset, numbers_of
from samplers_recording_decoder import each_sampler, span

RANDOM, REGULAR = audio_clips_at_random_timestamps, audio_clips_at_regular_timestamps
BOTH = [RANDOM, REGULAR]


def required(sampler: Callable[..., AudioSamplesBatch]) -> dict[str, float]:
    """Return the required arguments of a sampler."""
    return {"seconds_per_clip": 0.5, **({"seconds_between_clip_starts": 1.0} if sampler is REGULAR else {})}


def numbers(clips: AudioSamplesBatch) -> list[list[int | None]]:
    return [numbers_of(clip) for clip in clips.data]


# Policies, by hand: a stream of 5 samples, 1 a second, with a clip of 3 samples that starts every second.
#   samples      0 1 2 3 4
#   clip at 3          3 4 .
#   clip at 4            4 . .
TABLE: dict[str, list[list[int | None]]] = {
    "pad": [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, None], [4, None, None]],
    "wrap": [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 3], [4, 4, 4]],
}


@pytest.mark.parametrize("policy", list(TABLE))
def test_policies_complete_clips_at_the_end_of_the_stream(policy: str) -> None:
    clips = REGULAR(
        FormulaSound(5, 1), seconds_between_clip_starts=1, seconds_per_clip=3, sampling_range_end=5, policy=policy
    )
    assert numbers(clips) == TABLE[policy]
    assert clips.num_valid_samples.tolist() == [3, 3, 3, 2, 1]


def test_the_error_policy_takes_whole_clips_only() -> None:
    arguments = {"seconds_between_clip_starts": 1, "seconds_per_clip": 3, "policy": "error"}
    assert numbers(REGULAR(FormulaSound(5, 1), sampling_range_end=3, **arguments)) == TABLE["pad"][:3]
    message = "the stream has only 2 of the 3 samples of the clip that starts at 3.0 s"
    with pytest.raises(InvalidArgumentError, match=message):
        REGULAR(FormulaSound(5, 1), sampling_range_end=4, **arguments)


def test_regular_clips_fit_into_the_stream_by_default() -> None:
    clips = REGULAR(FormulaSound(5, 1), seconds_between_clip_starts=1, seconds_per_clip=3)
    assert numbers(clips) == TABLE["pad"][:3]
    assert clips.num_valid_samples.tolist() == [3, 3, 3]


@pytest.mark.parametrize("sampler", BOTH)
@pytest.mark.parametrize(
    ("num_samples", "start", "expected"),
    [(3, None, [0, 1, 2]), (2, None, [0, 1, None]), (5, 2, [2, 3, 4]), (5, 3, [3, 4, None])],
)
def test_a_short_stream_has_one_clip(
    sampler: Callable[..., AudioSamplesBatch], num_samples: int, start: float | None, expected: list[int | None]
) -> None:
    decoder = FormulaSound(num_samples, 1)
    clips = sampler(decoder, **{**required(sampler), "seconds_per_clip": 3}, sampling_range_start=start)
    assert numbers(clips) == [expected]
    if None in expected:
        with pytest.raises(InvalidArgumentError, match="the 'error' policy"):
            sampler(decoder, **{**required(sampler), "seconds_per_clip": 3}, sampling_range_start=start, policy="error")


@pytest.mark.parametrize("sampler", BOTH)
def test_a_batch_has_the_format_of_the_decoded_samples(
    sampler: Callable[..., AudioSamplesBatch],
) -> None:
    decoder = FormulaSound(80, 16, num_channels=3, begin=1.5, source_rate=48_000)
    clips = sampler(decoder, **required(sampler))
    assert clips.data.dtype == torch.float32
    assert clips.data.shape == (len(clips), 3, 8)
    assert clips.sample_rate == 16
    assert clips.pts_seconds.dtype == clips.duration_seconds.dtype == torch.float64
    assert set(clips.duration_seconds.tolist()) == {0.5}
    for clip in clips:
        assert isinstance(clip, AudioSamples)
        first = exact_offset(clip.pts_seconds, 1.5, 16)
        assert numbers_of(clip.data) == list(range(first, first + 8))
    # One call for the output format, and one for all clips.
    assert [len(ranges) for ranges in decoder.calls] == [1, len(clips)]


def test_random_clips_start_at_the_drawn_times() -> None:
    decoder = FormulaSound(160, 16, begin=1.5)
    arguments = {"num_clips": 40, "seconds_per_clip": 0.5, "sampling_range_start": 2.0, "sampling_range_end": 9.0}
    torch.manual_seed(11)
    clips = RANDOM(decoder, **arguments)
    torch.manual_seed(11)
    starts = [2.0 + fraction * (9.0 - 2.0) for fraction in torch.rand(40, dtype=torch.float64).tolist()]
    assert clips.pts_seconds.tolist() == pytest.approx(starts, abs=1e-12)
    assert [clip[0] for clip in numbers(clips)] == [exact_offset(start, 1.5, 16) for start in starts]
    torch.manual_seed(11)
    assert torch.equal(RANDOM(decoder, **arguments).data, clips.data)


def test_random_timestamps_draw_once_and_regular_ones_never() -> None:
    torch.manual_seed(7)
    torch.rand(5, dtype=torch.float64)
    expected = torch.get_rng_state()
    torch.manual_seed(7)
    RANDOM(FormulaSound(), num_clips=5, seconds_per_clip=0.5)
    assert torch.equal(torch.get_rng_state(), expected)
    REGULAR(FormulaSound(), **required(REGULAR))
    with pytest.raises(InvalidArgumentError):
        RANDOM(FormulaSound(), sampling_range_start=99.0, seconds_per_clip=0.5)
    assert torch.equal(torch.get_rng_state(), expected)


@pytest.mark.parametrize("sampler", BOTH)
def test_the_default_device_does_not_change_the_clips(sampler: Callable[..., AudioSamplesBatch]) -> None:
    torch.manual_seed(3)
    arguments = {**required(sampler), "seconds_per_clip": 4.9, "sampling_range_end": 5.0, "policy": "wrap"}
    expected = sampler(FormulaSound(), **arguments)
    torch.manual_seed(3)
    with torch.device("meta"):  # A device whose tensors hold no values.
        clips = sampler(FormulaSound(), **arguments)
    assert torch.equal(clips.data, expected.data)
    assert torch.equal(clips.pts_seconds, expected.pts_seconds)


rates = st.sampled_from([1, 8, 250, 8000, 11_025, 44_100, 48_000])
begins = st.one_of(st.sampled_from([0.0, 1 / 3, -0.023, 1.48]), st.floats(-1e3, 1e5))


@pytest.mark.slow
@settings(max_examples=200)
@given(rates, begins, st.integers(1, 300), st.floats(0.6, 300), st.integers(0, 2**32))
def test_random_clips_by_default_are_whole_and_inside_the_stream(
    rate: int, begin: float, num_samples: int, samples_per_clip: float, seed: int
) -> None:
    seconds_per_clip = samples_per_clip / rate
    length = exact_offset(seconds_per_clip, 0, rate)
    # At half a sample, floats can round differently than exact arithmetic.
    assume(length <= num_samples and abs(samples_per_clip % 1 - 0.5) > 1e-6)
    torch.manual_seed(seed)
    decoder = FormulaSound(num_samples, rate, begin=begin, num_channels=1)
    clips = RANDOM(decoder, num_clips=3, seconds_per_clip=seconds_per_clip, policy="error")
    assert clips.data.shape == (3, 1, length)
    for clip in clips:
        first = numbers_of(clip.data)[0]
        assert numbers_of(clip.data) == list(range(first, first + length))
        assert begin <= clip.pts_seconds
        # The start is not moved; the sample is the nearest one.
        assert abs(first - (clip.pts_seconds - begin) * rate) <= 0.5 + 1e-3


@given(rates, begins, st.integers(1, 20), st.integers(1, 50))
def test_regular_clips_tile_the_stream(rate: int, begin: float, num_clips: int, length: int) -> None:
    decoder = FormulaSound(num_clips * length + length // 2, rate, begin=begin, num_channels=1)
    seconds = length / rate
    clips = REGULAR(decoder, seconds_between_clip_starts=seconds, seconds_per_clip=seconds, policy="error")
    assert numbers_of(clips.data.transpose(0, 1).reshape(1, -1)) == list(range(num_clips * length))
    padded = REGULAR(
        decoder, seconds_between_clip_starts=seconds, seconds_per_clip=seconds, sampling_range_end=math.inf
    )
    assert padded.num_valid_samples.sum() == decoder.num_samples


@pytest.mark.parametrize("sampler", BOTH)
def test_the_policy_completes_clips_if_the_header_states_a_late_end(sampler: Callable[..., AudioSamplesBatch]) -> None:
    # There are 10 samples, but the header states 40.
    arguments = {**required(sampler), "seconds_per_clip": 4.0, "sampling_range_start": 8.0, "sampling_range_end": 12.0}
    if sampler is RANDOM:
        arguments["num_clips"] = 50
    clips = sampler(FormulaSound(10, 1, header_end=40.0), **arguments)
    for clip, num_valid in zip(clips, clips.num_valid_samples.tolist(), strict=True):
        first = exact_offset(clip.pts_seconds, 0, 1)
        assert numbers_of(clip.data) == [number if number < 10 else None for number in range(first, first + 4)]
        assert num_valid == max(0, 10 - first)
    assert {0, 2} <= set(clips.num_valid_samples.tolist())
    for policy, message in [
        ("error", "only [012] of the 4 samples"),
        ("wrap", "no samples to repeat"),
    ]:
        with pytest.raises(InvalidArgumentError, match=message):
            sampler(FormulaSound(10, 1, header_end=40.0), **arguments, policy=policy)


@pytest.mark.parametrize("sampler", BOTH)
def test_an_unknown_end_requires_sampling_range_end(sampler: Callable[..., AudioSamplesBatch]) -> None:
    decoder = FormulaSound(40, 8, header_end=None)
    message = r"does not state the end of the stream\. Pass a finite sampling_range_end.* end_seconds"
    for end in (None, float("inf")):
        with pytest.raises(InvalidArgumentError, match=message):
            sampler(decoder, **required(sampler), sampling_range_end=end)
    assert decoder.calls == []
    clips = sampler(decoder, **required(sampler), sampling_range_start=2.0, sampling_range_end=4.0)
    assert all(number in range(16, 36) for clip in numbers(clips) for number in clip)
    assert len(clips) == (1 if sampler is RANDOM else 2)


# (samplers, arguments, text of the message), for 5 s of audio.
CASES: list[tuple[list[Callable[..., AudioSamplesBatch]], dict[str, Any], str]] = [
    (BOTH, {"seconds_per_clip": 0}, "seconds_per_clip (0) must be > 0 and finite"),
    (BOTH, {"seconds_per_clip": float("nan")}, "seconds_per_clip (nan) must be > 0"),
    (BOTH, {"seconds_per_clip": float("inf")}, "seconds_per_clip (inf) must be > 0 and finite"),
    (BOTH, {"seconds_per_clip": "long"}, "seconds_per_clip ('long') must be a number of seconds"),
    (BOTH, {"seconds_per_clip": 0.06}, "seconds_per_clip (0.06) is less than half a sample at 8 samples per second"),
    (BOTH, {"policy": "repeat_last"}, "Invalid policy (repeat_last). Supported values for audio are 'pad', 'wrap', 'e"),
    (BOTH, {"policy": ["wrap"]}, "Invalid policy (['wrap'])"),
    ([RANDOM], {"num_clips": 0}, "num_clips (0) must be > 0"),
    ([RANDOM], {"num_clips": 1.5}, "num_clips (1.5) must be an integer"),
    ([REGULAR], {"seconds_between_clip_starts": 0}, "seconds_between_clip_starts (0) must be > 0"),
    (BOTH, {"sampling_range_start": -1}, "sampling_range_start (-1.0) must be at least 0.0"),
    (BOTH, {"sampling_range_start": 5.0}, "sampling_range_start (5.0) must be smaller than 5.0"),
    (BOTH, {"sampling_range_end": float("nan")}, "sampling_range_end (nan) must be at least 0.0"),
    (BOTH, {"sampling_range_end": 0.0}, "sampling_range_start (0.0) must be smaller than sampling_range_end (0.0)"),
    (BOTH, span(2, 1), "sampling_range_start (2.0) must be smaller than sampling_range_end (1.0)"),
]


@pytest.mark.parametrize(
    ("sampler", "arguments", "message"),
    each_sampler(CASES),
)
def test_a_bad_argument_is_named_and_nothing_is_decoded(
    sampler: Callable[..., AudioSamplesBatch], arguments: dict[str, Any], message: str
) -> None:
    decoder = FormulaSound()
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        sampler(decoder, **{**required(sampler), **arguments})
    assert all(start == stop for ranges in decoder.calls for start, stop in ranges)


@pytest.mark.parametrize("sampler", BOTH)
def test_a_stream_without_samples_is_refused(sampler: Callable[..., AudioSamplesBatch]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"has no samples: it starts at 2\.0 s and ends at 2\.0 s"):
        sampler(FormulaSound(0, begin=2.0), **required(sampler))


def test_numbers_of_every_library_are_accepted() -> None:
    clips = REGULAR(
        FormulaSound(8, 1),
        seconds_between_clip_starts=torch.tensor(2.0),
        seconds_per_clip=np.float32(2),
        sampling_range_start=Fraction(2),
        sampling_range_end=7,
    )
    assert numbers(clips) == [[2, 3], [4, 5], [6, 7]]


def test_clips_of_a_wav_file_are_its_samples() -> None:
    from mediatensor.decoders import WavDecoder

    pcm = np.arange(-3000, 3000, dtype="<i2").reshape(-1, 2)
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((2, 2, 1000, 0, "NONE", ""))
        writer.writeframes(pcm.tobytes())
    with WavDecoder(file.getvalue()) as decoder:
        clips = REGULAR(decoder, seconds_between_clip_starts=0.7, seconds_per_clip=0.9, sampling_range_end=math.inf)
    assert clips.sample_rate == 1000
    assert clips.num_valid_samples.tolist() == [900, 900, 900, 900, 200]
    expected = np.zeros((5, 900, 2))
    for k in range(5):
        piece = pcm[700 * k : 700 * k + 900] / 32768
        expected[k, : len(piece)] = piece
    assert np.array_equal(clips.data.numpy(), expected.transpose(0, 2, 1))
