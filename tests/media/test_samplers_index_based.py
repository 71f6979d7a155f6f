"""The index-based samplers against a slow reference that tries every frame."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch

from mediatensor import FrameBatch
from mediatensor.errors import InvalidArgumentError
from mediatensor.samplers import clips_at_random_indices, clips_at_regular_indices
from samplers_recording_decoder import RecordingDecoder, positions_of

SAMPLERS = [clips_at_random_indices, clips_at_regular_indices]


def allowed_starts(num_frames: int, length: int, step: int, start: int, end: int | None) -> list[int]:
    """Return every frame at which a clip can start, by trying each frame."""
    frames = list(range(num_frames))
    whole = [first for first in frames if first + step * (length - 1) in frames]
    # Python's slices count from the end and are clipped like sampling ranges.
    candidates = (whole or frames[:1]) if end is None else frames[:end]
    return [first for first in candidates if first in frames[start:]]


def completed(first: int, num_frames: int, length: int, step: int, policy: str) -> list[int] | None:
    """Return the frames of the clip that starts at ``first``; ``None`` if the policy forbids it."""
    clip: list[int] = []
    for i in range(length):
        if first + i * step < num_frames:
            clip.append(first + i * step)
        elif policy == "error":
            return None
        elif policy == "repeat_last":
            clip.append(clip[-1])
        else:
            whole = sum(first + k * step < num_frames for k in range(length))
            clip.append(clip[i % whole])
    return clip


@pytest.mark.parametrize("policy", ["repeat_last", "wrap", "error"])
@pytest.mark.parametrize("num_frames", [1, 2, 3, 6])
def test_every_small_case_gives_the_clips_of_the_reference(num_frames: int, policy: str) -> None:
    seen = Counter()
    ends = [None, *range(-num_frames, num_frames + 3)]
    cases = list(product([1, 2, 4], [1, 3], range(-num_frames, num_frames), ends))
    # All cases for one frame; a sample of them, different for each policy, for more frames.
    for length, step, start, end in random.Random(policy).sample(cases, min(len(cases), 100)):
        starts = allowed_starts(num_frames, length, step, start, end)
        arguments = {
            "num_frames_per_clip": length,
            "num_indices_between_frames": step,
            "sampling_range_start": start,
            "sampling_range_end": end,
            "policy": policy,
        }
        for num_clips in (1, 4):
            if num_clips == 1:
                regular = starts[:1]
            else:  # evenly spaced, rounded down
                regular = [starts[(len(starts) - 1) * k // (num_clips - 1)] for k in range(num_clips) if starts]
            torch.manual_seed(step)
            drawn = starts and [starts[i] for i in torch.randint(0, len(starts), (num_clips,))]
            for sampler, firsts in zip(SAMPLERS, [drawn, regular], strict=True):
                expected = [completed(first, num_frames, length, step, policy) for first in firsts]
                decoder = RecordingDecoder(num_frames)
                torch.manual_seed(step)
                if expected and None not in expected:
                    clips = sampler(decoder, num_clips=num_clips, **arguments)
                    assert positions_of(clips) == expected, (sampler, num_clips, arguments)
                else:
                    with pytest.raises(InvalidArgumentError):
                        sampler(decoder, num_clips=num_clips, **arguments)
                    assert decoder.calls == []
                seen["clips" if expected and None not in expected else "error"] += 1
    assert seen["clips"]
    assert seen["error"]


def test_random_starts_cover_the_range_evenly() -> None:
    torch.manual_seed(0)
    clips = clips_at_random_indices(
        RecordingDecoder(12), num_clips=6000, num_frames_per_clip=3, num_indices_between_frames=2
    )
    counts = Counter(clip[0] for clip in positions_of(clips))
    assert set(counts) == set(range(8))  # 12 frames, of which a clip spans 5
    # 6000 draws of 8 values: 750 each, standard deviation 26.
    assert all(abs(count - 750) < 6 * 26 for count in counts.values())


def test_random_indices_draw_once_and_from_torch_only() -> None:
    torch.manual_seed(7)
    torch.randint(3, 16, (5,))
    expected = torch.get_rng_state()
    random.seed(1)
    np.random.seed(1)
    states = random.getstate(), np.random.get_state()[1].tolist()
    torch.manual_seed(7)
    clips_at_random_indices(RecordingDecoder(), num_clips=5, num_frames_per_clip=5, sampling_range_start=3)
    assert torch.equal(torch.get_rng_state(), expected)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states


def test_regular_indices_and_refused_calls_draw_nothing() -> None:
    state = torch.get_rng_state()
    clips_at_regular_indices(RecordingDecoder(), num_clips=5)
    with pytest.raises(InvalidArgumentError):
        clips_at_random_indices(RecordingDecoder(), sampling_range_start=20)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_integers_of_every_library_are_accepted(sampler: Callable[..., FrameBatch]) -> None:
    expected = {"num_clips": 3, "num_frames_per_clip": 2, "num_indices_between_frames": 4, "sampling_range_start": -9}
    for convert in (np.int64, np.uint8, np.int16, torch.tensor):
        arguments = {name: convert(value) for name, value in expected.items() if value > 0}
        torch.manual_seed(0)
        clips = sampler(RecordingDecoder(), **{**expected, **arguments}, sampling_range_end=np.int32(-1))
        torch.manual_seed(0)
        assert positions_of(clips) == positions_of(sampler(RecordingDecoder(), **expected, sampling_range_end=19))


@pytest.mark.parametrize("num_frames", [2**24 + 4, 2**31 + 6])
def test_regular_starts_stay_exact_in_very_long_videos(num_frames: int) -> None:
    clips = clips_at_regular_indices(RecordingDecoder(num_frames), num_clips=3, sampling_range_start=1)
    [first], [middle], [last] = positions_of(clips)
    assert (first, last) == (1, num_frames - 1)
    assert middle == num_frames // 2
