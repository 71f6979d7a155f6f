"""`stack` and `ragged` against torch.stack; labels, failures and timings of batches."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dataset_samples import clip, failure, image, made_dataset, sound
from mediatensor.datasets import DataLoader, Sample, Skipped, Timing, pad, ragged, stack
from mediatensor.errors import InvalidArgumentError
from mediatensor.frames import AudioSamplesBatch, FrameBatch

# --- stack


@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("shape", [(4, 6, 8), (2, 4, 6, 8), (1, 1, 1), (0, 6, 8)])
def test_frames_are_stacked_in_the_order_of_their_memory(shape: tuple[int, ...], channels_last: bool) -> None:
    clips = [clip(*shape, seed=i, channels_last=channels_last) for i in range(3)]
    batch = stack([Sample(frames=one) for one in clips])
    assert isinstance(batch.frames, FrameBatch)
    assert torch.equal(batch.frames.data, torch.stack([one.data for one in clips]))
    assert torch.equal(batch.frames.pts_seconds, torch.stack([one.pts_seconds for one in clips]))
    assert torch.equal(batch.frames.duration_seconds, torch.stack([one.duration_seconds for one in clips]))
    if len(shape) == 3 and shape[0] == 4:
        assert batch.frames.data[0].is_contiguous(memory_format=torch.channels_last) == channels_last


def test_sound_images_and_features_are_stacked() -> None:
    sounds = [sound(50, seed=i) for i in range(3)]
    images = [image(5, 7, seed=i) for i in range(3)]
    features = [torch.rand(1, 80, 20) for _ in range(3)]
    batch = stack([Sample(audio=sounds[i], image=images[i], features=features[i]) for i in range(3)])
    assert torch.equal(batch.images, torch.stack(images))
    assert torch.equal(batch.features, torch.stack(features))
    assert isinstance(batch.audio, AudioSamplesBatch)
    assert torch.equal(batch.audio.data, torch.stack([one.data for one in sounds]))
    assert batch.audio.pts_seconds.tolist() == [0.5, 1.5, 2.5]
    assert batch.audio.duration_seconds.tolist() == [50 / 16_000] * 3
    assert batch.audio.sample_rate == 16_000
    assert batch.audio.num_valid_samples.tolist() == [50] * 3
    assert batch.frames is None
    assert batch.valid_sizes is None


def test_sound_that_a_sampler_filled_up_stays_known_as_such() -> None:
    batch = stack([Sample(audio=sound(6), num_valid_samples=4), Sample(audio=sound(6))])
    assert batch.audio.num_valid_samples.tolist() == [4, 6]
    assert batch.sample_mask.tolist() == [[True] * 4 + [False] * 2, [True] * 6]


def test_sound_with_a_dimension_of_clips_stays_a_list() -> None:
    clips = [AudioSamplesBatch(torch.rand(2, 1, 9), [0.0, 1.0], [1.0, 1.0], 9, [9, 9]) for _ in range(2)]
    for collate in (stack, pad, ragged):
        assert [
            one is other for one, other in zip(collate([Sample(audio=one) for one in clips]).audio, clips, strict=True)
        ]


def test_attributes_of_samples_are_joined() -> None:
    samples = [
        Sample(frames=clip(2, 4, 4), source="a", row=7, epoch=3, effective_fps=12.5, extra={"one": 1, "two": 2}),
        Sample(frames=clip(2, 4, 4), source="b", row=5, epoch=3, effective_fps=25.0, extra={"two": "x", "three": None}),
    ]
    batch = stack(samples)
    assert (len(batch), batch.source, batch.row.tolist(), batch.epoch) == (2, ["a", "b"], [7, 5], 3)
    assert batch.row.dtype == torch.int64
    assert batch.effective_fps.tolist() == [12.5, 25.0]
    assert batch.extra == {"one": [1, None], "two": [2, "x"], "three": [None, None]}
    assert batch.frame_indices is None


def test_frame_indices_are_stacked_if_all_are_known() -> None:
    def sample(indices: list[int] | None) -> Sample:
        return Sample(frames=clip(2, 4, 4), frame_indices=None if indices is None else torch.tensor(indices))

    assert stack([sample([3, 5]), sample([0, 2])]).frame_indices.tolist() == [[3, 5], [0, 2]]
    assert stack([sample([3, 5]), sample(None)]).frame_indices is None
    assert [one.tolist() for one in stack([sample([3, 5]), sample([0])]).frame_indices] == [[3, 5], [0]]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([3, 1], torch.tensor([3, 1])),
        ([True, False], torch.tensor([1, 0])),
        ([np.int32(3), np.bool_(True)], torch.tensor([3, 1])),
        ([3, 0.5], torch.tensor([3, 0.5], dtype=torch.float64)),
        ([np.float32(0.5), Fraction(1, 4)], torch.tensor([0.5, 0.25], dtype=torch.float64)),
        ([torch.tensor(3), torch.tensor(1)], torch.tensor([3, 1])),
        ([torch.tensor([1.0, 2]), torch.tensor([3.0, 4])], torch.tensor([[1.0, 2], [3, 4]])),
        ([np.array([1, 2], dtype=np.int16)] * 2, torch.tensor([[1, 2]] * 2, dtype=torch.int16)),
        ([2**40, -(2**63)], torch.tensor([2**40, -(2**63)])),
        ([2.0**70, 2**70], torch.tensor([2.0**70, 2.0**70], dtype=torch.float64)),
    ],
    ids=str,
)
def test_labels_that_are_numbers_become_a_tensor(labels: list[Any], expected: Tensor) -> None:
    for collate in (stack, ragged, pad):
        label = collate([Sample(label=one) for one in labels]).label
        assert label.dtype == expected.dtype
        assert torch.equal(label, expected)


@pytest.mark.parametrize(
    "labels",
    [
        ["cat", "dog"],
        [None, None],
        [1, None],
        [1, "dog"],
        [10**400, 0],
        [2**63, 0],
        [np.uint64(2**64 - 1), 3],
        [2**53 + 1, 0.5],
        [torch.zeros(2), torch.zeros(3)],
        [torch.zeros(2), torch.zeros(2, dtype=torch.int64)],
        [torch.zeros(2), None],
        [{"boxes": 1}, {"boxes": 2}],
        [np.array(["a"]), np.array(["b"])],
    ],
    ids=str,
)
def test_other_labels_stay_a_list(labels: list[Any]) -> None:
    label = stack([Sample(label=one) for one in labels]).label
    assert isinstance(label, list)
    assert all(one is other for one, other in zip(label, labels, strict=True))


def test_gradients_flow_through_features_as_through_torchs_stack() -> None:
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    features = [weight * factor for factor in (1, 10)]
    for stacked in (torch.stack(features), stack([Sample(features=one) for one in features]).features):
        (gradient,) = torch.autograd.grad(stacked.square().sum(), weight, retain_graph=True)
        assert gradient.tolist() == [404.0, 606.0]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"frames": clip(2, 4, 6)}, {"frames": clip(2, 5, 6)}, ["(2, 3, 4, 6)", "(2, 3, 5, 6)", "Resize", "`pad`"]),
        ({"frames": clip(2, 4, 6)}, {"frames": clip(1, 2, 4, 6)}, ["(2, 3, 4, 6)", "(1, 2, 3, 4, 6)", "`ragged`"]),
        ({"image": image(4, 6)}, {"image": image(4, 7)}, ["(3, 4, 6)", "(3, 4, 7)", "Resize", "`ragged`"]),
        ({"image": image(4, 6)}, {"image": image(4, 6).float()}, ["uint8", "float32"]),
        ({"audio": sound(8)}, {"audio": sound(9)}, ["(2, 8)", "(2, 9)", "`pad`"]),
        ({"audio": sound(8)}, {"audio": sound(8, rate=8_000)}, ["16000", "8000", "sample_rate"]),
        ({"features": torch.zeros(2, 3)}, {"features": torch.zeros(2, 4)}, ["(2, 3)", "(2, 4)"]),
        ({"image": image(4, 6)}, {}, ["no image"]),
    ],
)
def test_samples_that_cannot_be_stacked_are_named(
    first: dict[str, Any], second: dict[str, Any], words: list[str]
) -> None:
    samples = [Sample(**first, source="first.mp4"), Sample(**second, source="second.mp4")]
    with pytest.raises(InvalidArgumentError) as error:
        stack(samples)
    for word in ["first.mp4", "second.mp4", *words]:
        assert word in str(error.value)


# --- ragged


def test_ragged_keeps_samples_as_they_are() -> None:
    samples = [
        Sample(clip(2, 4, 6), sound(5), torch.zeros(3), image(2, 3), frame_indices=torch.tensor([1, 2]), label=1),
        Sample(clip(3, 5, 6), sound(7), torch.zeros(4), image(4, 3), frame_indices=torch.tensor([1]), label=2),
    ]
    batch = ragged(samples)
    for field, name in (("frames", "frames"), ("audio", "audio"), ("features", "features"), ("images", "image")):
        assert all(one is getattr(sample, name) for one, sample in zip(getattr(batch, field), samples, strict=True))
    assert batch.label.tolist() == [1, 2]
    assert (batch.frame_mask, batch.pixel_mask, batch.sample_mask) == (None, None, None)
    assert ragged([Sample(), Sample()]).frames is None


# --- failures and timings


@pytest.mark.parametrize("collate", [stack, ragged, pad])
def test_failures_and_timings_of_all_rows_are_kept(collate: Any) -> None:
    timing = Timing(1, 5.0, 6.0, {"decode": 0.5, "collate": 100.0})
    samples = [
        Skipped((failure(0),), Timing(1, 1.0, 2.0, {"open": 1.0})),
        Sample(image=image(2, 2), epoch=2, failures=(failure(1), failure(2)), timing=timing),
        Skipped((failure(3),)),
    ]
    batch = collate(samples)
    assert len(batch) == 1
    assert [one.row for one in batch.failures] == [0, 1, 2, 3]
    assert batch.timings[0] == samples[0].timing
    last = batch.timings[1]
    assert (last.worker, last.started, last.stage_seconds["decode"]) == (1, 5.0, 0.5)
    assert last.stage_seconds["collate"] > 100  # its own time is added
    assert last.finished > 6
    assert timing.stage_seconds["collate"] == 100  # and the sample is not changed


@pytest.mark.parametrize("collate", [stack, ragged, pad])
def test_an_empty_list_makes_an_empty_batch(collate: Any) -> None:
    batch = collate([Skipped((failure(0),))])
    assert len(batch) == 0
    assert (batch.frames, batch.audio, batch.images, batch.label, batch.epoch) == (None, None, None, [], 2)
    assert len(batch.failures) == len(batch.timings) == 1
    assert len(collate([])) == 0


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_time_of_collating_reaches_the_training_process(num_workers: int) -> None:
    batch = next(iter(DataLoader(made_dataset([3] * 4), 4, num_workers=num_workers)))
    (timing,) = batch.timings
    assert timing.worker == (0 if num_workers else None)
    assert timing.stage_seconds["collate"] > 0
    assert sum(timing.stage_seconds.values()) <= timing.finished - timing.started
