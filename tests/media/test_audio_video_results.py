"""Results of audio clips and of clips with frames and audio: validation, indexing, iteration, printing, moving."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from mediatensor import AudioSamples, AudioSamplesBatch, AudioVideoClip, FrameBatch


def batch_of(num_clips: int) -> AudioSamplesBatch:
    """A batch in which every value contains the number of the clip."""
    number = torch.arange(num_clips, dtype=torch.float64)
    data = number.float()[:, None, None].expand(num_clips, 2, 5)
    return AudioSamplesBatch(data, number + 10, number + 20, 8000, number.long() + 30)


def both() -> AudioVideoClip:
    frames = FrameBatch(torch.ones(2, 3, 4, 5, dtype=torch.uint8), torch.zeros(2), torch.ones(2))
    return AudioVideoClip(frames, AudioSamples(torch.ones(1, 6), 0.0, 2.0, 3), ((0, 1), (4, 6)))


@pytest.mark.parametrize("wrong", ["pts_seconds", "duration_seconds", "num_valid_samples"])
def test_every_clip_has_its_numbers(wrong: str) -> None:
    fields = {name: torch.zeros(2) for name in ("pts_seconds", "duration_seconds", "num_valid_samples")}
    fields[wrong] = torch.zeros(3)
    with pytest.raises(ValueError, match=rf"{wrong} must be of shape \(2,\).*got \(3,\)"):
        AudioSamplesBatch(torch.zeros(2, 1, 4), sample_rate=8, **fields)


def test_numbers_stay_exact_for_every_input_type() -> None:
    batch = AudioSamplesBatch(torch.zeros(1, 1, 4), [1], torch.ones(1, dtype=torch.float32), torch.tensor(8), [3])
    assert batch.pts_seconds.dtype == batch.duration_seconds.dtype == torch.float64
    assert batch.num_valid_samples.dtype == torch.int64
    assert type(batch.sample_rate) is int


@pytest.mark.parametrize("key", [0, -1, torch.tensor(1)], ids=str)
def test_a_number_gives_one_clip(key: int) -> None:
    samples = batch_of(3)[key]
    number = torch.arange(3)[key].item()
    assert isinstance(samples, AudioSamples)
    assert samples.data.tolist() == [[number] * 5] * 2
    assert (samples.pts_seconds, samples.duration_seconds, samples.sample_rate) == (number + 10, number + 20, 8000)


@pytest.mark.parametrize("key", [slice(1, 3), slice(None, None, 2), [2, 0], torch.tensor([True, False, True])], ids=str)
def test_another_key_gives_a_batch(key: object) -> None:
    part = batch_of(3)[key]
    numbers = torch.arange(3)[key]
    assert isinstance(part, AudioSamplesBatch)
    assert part.data[:, 0, 0].tolist() == numbers.tolist()
    assert (part.pts_seconds - 10).tolist() == (part.duration_seconds - 20).tolist() == numbers.tolist()
    assert (part.num_valid_samples - 30).tolist() == numbers.tolist()


def test_a_batch_iterates_over_clips() -> None:
    assert len(batch_of(3)) == 3
    assert [(type(clip), clip.pts_seconds) for clip in batch_of(3)] == [(AudioSamples, 10 + k) for k in range(3)]
    with pytest.raises(IndexError):
        batch_of(3)[3]


def test_printing_shows_shapes_not_samples() -> None:
    assert repr(batch_of(1)) == (
        "AudioSamplesBatch:\n  data (shape): torch.Size([1, 2, 5])\n"
        "  pts_seconds: tensor([10.], dtype=torch.float64)\n"
        "  duration_seconds: tensor([20.], dtype=torch.float64)\n"
        "  sample_rate: 8000\n  num_valid_samples: tensor([30])"
    )


def test_a_clip_unpacks_into_frames_and_samples() -> None:
    clip = both()
    frames, samples = clip
    assert frames is clip.frames
    assert samples is clip.samples


@pytest.mark.parametrize("make", [lambda: batch_of(2), lambda: batch_of(2)[0], both, lambda: both().frames])
def test_results_move_copy_and_pickle(make: object) -> None:
    result = make()
    for other in (
        result.to(torch.float64),
        copy.copy(result),
        copy.deepcopy(result),
        pickle.loads(pickle.dumps(result)),
    ):
        assert type(other) is type(result)
        assert repr(other) == repr(result)
    moved = result.to("meta")
    for part in moved if isinstance(moved, AudioVideoClip) else [moved]:
        assert part.data.device.type == "meta"
    if isinstance(moved, AudioSamplesBatch):
        assert moved.num_valid_samples.tolist() == [30, 31]
    assert (result.samples if isinstance(result, AudioVideoClip) else result).to(
        torch.float16
    ).data.dtype == torch.float16


@pytest.mark.skipif(not torch.cuda.is_available(), reason="page-locked memory needs a CUDA device")
@pytest.mark.parametrize("make", [lambda: batch_of(2), lambda: batch_of(2)[0], both])
def test_results_can_be_pinned(make: object) -> None:
    pinned = make().pin_memory()
    for part in pinned if isinstance(pinned, AudioVideoClip) else [pinned]:
        assert part.data.is_pinned()
