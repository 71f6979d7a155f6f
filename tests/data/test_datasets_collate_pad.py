"""`pad` against pad_sequence and plain loops; where reports of replaced frames point."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dataset_samples import clip, image, sound
from mediatensor.datasets import Sample, pad, stack
from mediatensor.errors import InvalidArgumentError
from mediatensor.frames import ReplacedFrame

# --- pad


def padded_by_hand(tensors: list[Tensor], shape: tuple[int, ...]) -> Tensor:
    result = torch.zeros(len(tensors), *shape, dtype=tensors[0].dtype)
    for number, tensor in enumerate(tensors):
        for place in np.ndindex(*tensor.shape[:-1]):
            result[(number, *place)][: tensor.shape[-1]] = tensor[place]
    return result


@pytest.mark.parametrize("num_clips", [None, 2])
def test_clips_are_filled_up(num_clips: int | None) -> None:
    sizes = [(3, 4, 6), (5, 2, 7), (1, 4, 7)]
    leading = () if num_clips is None else (num_clips,)
    clips = [clip(*leading, *size, seed=i) for i, size in enumerate(sizes)]
    batch = pad([Sample(frames=one, frame_indices=(one.pts_seconds * 100).long()) for one in clips])
    assert torch.equal(batch.frames.data, padded_by_hand([one.data for one in clips], (*leading, 5, 3, 4, 7)))
    own = padded_by_hand([torch.ones_like(one.pts_seconds) for one in clips], (*leading, 5)).bool()
    for times, old in ((batch.frames.pts_seconds, "pts_seconds"), (batch.frames.duration_seconds, "duration_seconds")):
        assert torch.equal(times[own], torch.cat([getattr(one, old).flatten() for one in clips]))
    assert batch.frames.pts_seconds[~own].isnan().all()
    assert (batch.frames.duration_seconds[~own] == 0).all()
    assert (batch.frame_indices[~own] == -1).all()
    assert (batch.frame_indices[own] >= 0).all()
    assert batch.num_valid_frames.tolist() == [3, 5, 1]
    assert batch.valid_sizes.tolist() == [[4, 6], [2, 7], [4, 7]]
    # The generated clips have no black pixels: black is padding.
    is_own = (batch.frames.data != 0).any(dim=-3).reshape(3, -1, 5, 4, 7)[:, 0]
    assert torch.equal(batch.frame_mask[:, :, None, None] & batch.pixel_mask[:, None], is_own)


def test_sound_and_features_are_filled_up() -> None:
    sounds = [sound(length, seed=length) for length in (5, 9, 7)]
    features = [torch.rand(1, 4, length) for length in (5, 9, 7)]
    batch = pad([Sample(audio=one, features=other) for one, other in zip(sounds, features, strict=True)])
    expected = pad_sequence([one.data.T for one in sounds], batch_first=True).mT
    assert torch.equal(batch.audio.data, expected)
    assert torch.equal(batch.features, pad_sequence([one[0].T for one in features], batch_first=True).mT[:, None])
    assert batch.num_valid_features.tolist() == [5, 9, 7]
    assert batch.audio.num_valid_samples.tolist() == [5, 9, 7]
    assert batch.audio.duration_seconds.tolist() == [one.duration_seconds for one in sounds]
    assert torch.equal(batch.sample_mask, (expected != 0).all(dim=1))
    assert batch.frame_mask is None
    assert batch.pixel_mask is None


def test_images_are_filled_up_to_a_multiple() -> None:
    images = [image(4, 6), image(5, 3)]
    batch = pad([Sample(image=one) for one in images], multiple_of=4)
    assert torch.equal(batch.images, padded_by_hand(images, (3, 8, 8)))
    assert torch.equal(batch.pixel_mask, (batch.images != 0).any(dim=1))
    assert batch.num_valid_frames is None


def test_sizes_can_be_asked_for() -> None:
    samples = [Sample(frames=clip(2, 4, 6), audio=sound(5))] * 2
    batch = partial(pad, num_frames=3, size=(5, 8), num_samples=11, multiple_of=2)(samples)
    assert batch.frames.data.shape == (2, 3, 3, 6, 8)
    assert batch.audio.data.shape == (2, 2, 11)
    assert batch.num_valid_frames.tolist() == [2, 2]
    assert batch.valid_sizes.tolist() == [[4, 6]] * 2


def test_nothing_is_said_to_be_filled_up_that_was_not() -> None:
    samples = [Sample(frames=clip(2, 4, 6), audio=sound(5), features=torch.zeros(3))] * 2
    batch = pad(samples)
    assert (batch.num_valid_frames, batch.valid_sizes, batch.num_valid_features) == (None, None, None)
    assert torch.equal(batch.frames.data, stack(samples).frames.data)
    assert batch.frame_mask.shape == (2, 2)
    assert batch.pixel_mask.shape == (2, 4, 6)
    assert batch.sample_mask.shape == (2, 5)
    assert all(mask.all() for mask in (batch.frame_mask, batch.pixel_mask, batch.sample_mask))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_frames": 2}, ["long.mp4", "(3, 3, 4, 6)", "2"]),
        ({"size": (4, 5)}, ["5", "-1"]),
        ({"num_samples": 8}, ["long.mp4", "8"]),
        ({"num_frames": 0}, ["num_frames", "0"]),
        ({"size": (0, 5)}, ["height", "0"]),
        ({"multiple_of": 2.0}, ["multiple_of", "2.0"]),
    ],
)
def test_samples_that_cannot_be_padded_are_named(options: dict[str, Any], words: list[str]) -> None:
    samples = [
        Sample(frames=clip(2, 4, 6), audio=sound(8), source="short.mp4"),
        Sample(frames=clip(3, 4, 6), audio=sound(9), source="long.mp4"),
    ]
    with pytest.raises(InvalidArgumentError) as error:
        pad(samples, **options)
    for word in words:
        assert word in str(error.value)


def test_pad_fills_up_neither_channels_nor_clips() -> None:
    for first, second in (
        (Sample(frames=clip(2, 3, 4, 6)), Sample(frames=clip(1, 3, 4, 6))),
        (Sample(audio=sound(5, channels=1)), Sample(audio=sound(5, channels=2))),
    ):
        with pytest.raises(InvalidArgumentError, match=r"and 'second.mp4' have different shapes: .*`ragged`"):
            pad([first, replace(second, source="second.mp4")])


# --- reports of replaced frames


@pytest.mark.parametrize("num_clips", [None, 2])
@pytest.mark.parametrize("collate", [stack, pad])
def test_reports_of_replaced_frames_point_at_the_same_frames(collate: Any, num_clips: int | None) -> None:
    lengths = [3, 3, 3] if collate is stack else [3, 5, 4]
    leading = () if num_clips is None else (num_clips,)
    clips = []
    for number, length in enumerate(lengths):
        total = length * (num_clips or 1)
        reports = tuple(ReplacedFrame(40 + p, "cut", p, 9) for p in (0, total - 1))
        clips.append(clip(*leading, length, 2, 2, seed=number, replaced=reports))
    batch = collate([Sample(frames=one) for one in clips])
    frames = batch.frames.data.flatten(0, -4)
    assert len(batch.frames.replaced) == 6
    for number, one in enumerate(clips):
        for report, moved in zip(one.replaced, batch.frames.replaced[2 * number :], strict=False):
            assert torch.equal(frames[moved.position], one.data.flatten(0, -4)[report.position])
            assert (moved.index, moved.reason, moved.used_index) == (report.index, report.reason, report.used_index)


def test_a_report_of_a_frame_that_was_left_out_stays_with_its_clip() -> None:
    left_out = clip(2, 2, 2, replaced=(ReplacedFrame(7, "cut", 2, None),))
    batch = pad([Sample(frames=left_out), Sample(frames=left_out), Sample(frames=clip(4, 2, 2))])
    assert [report.position for report in batch.frames.replaced] == [2, 6]
