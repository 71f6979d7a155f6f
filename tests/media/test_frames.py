"""The result types: validation, indexing, iteration, printing, and replaced frames."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from mediatensor import AudioSamples, Frame, FrameBatch, ReplacedFrame


def batch_of(*leading: int, replaced: tuple[ReplacedFrame, ...] = ()) -> FrameBatch:
    """A batch whose pixels and times contain the flat position of their frame."""
    position = torch.arange(torch.Size(leading).numel(), dtype=torch.float64).reshape(leading)
    data = position[..., None, None, None].expand(*leading, 3, 4, 5).to(torch.uint8)
    return FrameBatch(data, position, position + 0.5, replaced=replaced)


def test_frame_unpacks_into_its_fields_and_coerces_times() -> None:
    data, pts_seconds, duration_seconds = Frame(torch.zeros(3, 2, 2), torch.tensor(1), torch.tensor(0.5))
    assert data.shape == (3, 2, 2)
    assert (pts_seconds, duration_seconds) == (1.0, 0.5)
    assert type(pts_seconds) is type(duration_seconds) is float


def test_batch_times_become_float64() -> None:
    batch = FrameBatch(torch.zeros(2, 3, 4, 5), torch.tensor([1, 2]), torch.tensor([0.5, 0.5], dtype=torch.float32))
    assert batch.pts_seconds.dtype == batch.duration_seconds.dtype == torch.float64


def test_single_frame_batch_has_scalar_times() -> None:
    assert FrameBatch(torch.zeros(3, 4, 5), torch.tensor(1.0), torch.tensor(2.0)).pts_seconds.shape == ()


@pytest.mark.parametrize(
    "key", [0, -1, slice(1, 3), slice(None, None, 2), [2, 0], torch.tensor([True, False, True, False])], ids=str
)
def test_batch_indexes_all_fields_with_the_same_key(key: object) -> None:
    batch = batch_of(4)
    part = batch[key]
    assert isinstance(part, FrameBatch)
    assert torch.equal(part.pts_seconds, batch.pts_seconds[key])
    assert torch.equal(part.data[..., 0, 0, 0].double(), part.pts_seconds)
    assert torch.equal(part.duration_seconds, part.pts_seconds + 0.5)


def test_clips_index_to_clips_and_frames() -> None:
    clips = batch_of(2, 3)
    assert len(clips) == 2
    assert clips[1].pts_seconds.tolist() == [3, 4, 5]
    assert clips[:, 1].pts_seconds.tolist() == [1, 4]
    assert clips[1, 2].pts_seconds.item() == 5


def test_batch_iterates_over_batches() -> None:
    parts = list(batch_of(3))
    assert [type(part) for part in parts] == [FrameBatch] * 3
    assert [part.pts_seconds.item() for part in parts] == [0, 1, 2]


def test_printing_shows_shapes_not_pixels() -> None:
    assert str(Frame(torch.zeros(3, 2, 4), 0.5, 0.25)) == (
        "Frame:\n  data (shape): torch.Size([3, 2, 4])\n  pts_seconds: 0.5\n  duration_seconds: 0.25"
    )
    lines = str(batch_of(2)).splitlines()
    assert lines[0] == "FrameBatch:"
    assert lines[1] == "  data (shape): torch.Size([2, 3, 4, 5])"
    assert str(batch_of(2)[1]).splitlines()[2:] == ["  pts_seconds: 1.0", "  duration_seconds: 1.5"]
    assert len(lines) == 4


def test_printing_shows_replaced_frames_if_there_are_any() -> None:
    assert "replaced" in str(batch_of(2, replaced=(ReplacedFrame(7, "damaged", 1, 6),)))


def test_reports_of_replaced_frames_follow_indexing() -> None:
    batch = batch_of(4, replaced=(ReplacedFrame(10, "damaged", 1, 9), ReplacedFrame(13, "damaged", 3, 12)))
    assert [(r.index, r.position) for r in batch[1:3].replaced] == [(10, 0)]
    assert [(r.index, r.position) for r in batch[[3, 1]].replaced] == [(13, 0), (10, 1)]


def test_indexing_moves_reports_past_frames_that_were_left_out() -> None:
    left_out, hole = ReplacedFrame(11, "damaged", 1), ReplacedFrame(13, "a hole", 3, 13, num_missing=2)
    batch = batch_of(4, replaced=(left_out, hole))  # frames 10, 12, 13 and 14 of five
    assert [[(r.index, r.position) for r in frame.replaced] for frame in batch] == [[], [], [(13, 0)], []]
    assert [(r.index, r.position) for r in batch[1:].replaced] == [(13, 1)]
    rows = batch_of(2, 4, replaced=(left_out, replace(hole, position=6)))
    assert [(r.index, r.position) for r in rows[1].replaced] == [(13, 2)]
    assert batch[0].replaced == ()


def test_moving_batch_keeps_times_and_reports() -> None:
    batch = batch_of(2, replaced=(ReplacedFrame(10, "damaged", 1, 9),))
    moved = batch.to(torch.float32)
    assert moved.data.dtype == torch.float32
    assert moved.pts_seconds.dtype == torch.float64
    assert moved.replaced == batch.replaced


@pytest.mark.parametrize("rate", [20, 20.0, torch.tensor(20), torch.tensor(20.0), Fraction(20)])
def test_audio_samples(rate: int) -> None:
    samples = AudioSamples(torch.zeros(2, 10), torch.tensor(1), 0.5, rate)  # type: ignore[arg-type]
    data, pts_seconds, duration_seconds, sample_rate = samples
    assert (pts_seconds, duration_seconds, sample_rate) == (1.0, 0.5, 20)
    assert isinstance(sample_rate, int)
    assert data.shape == (2, 10)
