"""`Batch`: transfer from a worker and to a device, its repr; and batches of buckets."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data._utils.pin_memory import pin_memory

from dataset_samples import clip, failure, image, made_dataset, sound
from mediatensor.datasets import Batch, DataLoader, Sample, Timing, pad, ragged, stack
from mediatensor.frames import ReplacedFrame

# --- on the way from a worker


def with_whereabouts(samples: list[Any], collate: Any = stack) -> Batch:
    batch = collate(samples)
    batch.extra["is_shared"] = [batch.frames.data.is_shared()]
    return batch


@pytest.mark.parametrize("side", [8, 160])  # below and above the size of inline transfer
@pytest.mark.parametrize("collate", [stack, pad, ragged])
def test_batches_of_workers_match_this_process(collate: Any, side: int) -> None:
    dataset = made_dataset([3] * 6, side=side)
    here = list(DataLoader(dataset, 2, collate_fn=collate))
    there = list(DataLoader(dataset, 2, collate_fn=collate, num_workers=2))
    for one, other in zip(here, there, strict=True):
        pairs = [(one.frames, other.frames)] if collate is not ragged else zip(one.frames, other.frames, strict=True)
        for frames, others in pairs:
            assert torch.equal(frames.data, others.data)
            assert frames.data.stride() == others.data.stride()
            assert torch.equal(frames.pts_seconds, others.pts_seconds)
        assert (one.source, one.row.tolist(), one.extra) == (other.source, other.row.tolist(), other.extra)
        assert one.label.tolist() == other.label.tolist()


def test_a_worker_writes_frames_into_shared_memory() -> None:
    dataset = made_dataset([3] * 2, side=160)
    (batch,) = DataLoader(dataset, 2, collate_fn=with_whereabouts, num_workers=1)
    assert batch.extra["is_shared"] == [True]
    (batch,) = DataLoader(dataset, 2, collate_fn=with_whereabouts)
    assert batch.extra["is_shared"] == [False]


@pytest.mark.skipif(sys.platform != "linux", reason="counts file descriptors in /proc")
def test_a_batch_that_is_kept_holds_one_file_descriptor() -> None:
    def num_open() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    loader = iter(DataLoader(made_dataset([3] * 24, side=160), 2, num_workers=1))
    kept = [next(loader)]
    before = num_open()
    kept += loader
    assert len(kept) == 12
    assert num_open() - before <= len(kept)


def test_batches_can_be_pickled_and_copied() -> None:
    samples = [
        Sample(
            clip(2, 4, 6, replaced=(ReplacedFrame(7, "cut", 1, 6),)), sound(5), label=[1], extra={"box": torch.ones(2)}
        ),
        Sample(clip(3, 4, 6), sound(5), label=[2], failures=(failure(0),), timing=Timing(0, 1.0, 2.0, {})),
    ]
    batch = pad(samples)
    for other in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch), copy.copy(batch)):
        assert torch.equal(other.frames.data, batch.frames.data)
        assert torch.equal(other.frames.pts_seconds.nan_to_num(-1), batch.frames.pts_seconds.nan_to_num(-1))
        assert other.frames.replaced == batch.frames.replaced
        assert torch.equal(other.audio.data, batch.audio.data)
        assert torch.equal(other.num_valid_frames, batch.num_valid_frames)
        assert other.extra["box"][0].tolist() == [1, 1]
        assert (other.label, other.failures, other.timings) == (batch.label, batch.failures, batch.timings)
    other = pickle.loads(pickle.dumps(batch))
    other.row += 1  # an array that is read from a pickle could be read-only
    assert other.row.tolist() == [1, 1]


# --- Batch


@pytest.mark.slow
def test_a_batch_moves_its_data_and_leaves_its_times() -> None:
    batch = pad(
        [
            Sample(clip(2, 4, 6), sound(5), torch.zeros(2), label=1),
            Sample(clip(3, 4, 6), sound(6), torch.zeros(3), label=2),
        ]
    )
    moved = batch.to("meta")
    data = [moved.frames.data, moved.audio.data, moved.features, moved.label, moved.num_valid_frames]
    assert {tensor.device.type for tensor in data} == {"meta"}
    assert torch.equal(moved.frames.duration_seconds, batch.frames.duration_seconds)
    assert moved.row.device.type == "cpu"
    assert moved.frame_mask.device.type == "meta"
    assert batch.frames.data.device.type == "cpu"
    lists = ragged([Sample(clip(2, 4, 6), image=image(2, 2), label="a")]).to("meta")
    assert lists.frames[0].data.device.type == lists.images[0].device.type == "meta"
    assert lists.label == ["a"]


def test_torch_pins_a_batch_through_its_own_method(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda self, *_: pinned.append(tuple(self.shape)) or self.clone())
    batch = stack([Sample(clip(2, 4, 6), sound(5), label=1)])
    result = pin_memory({"batch": [batch]})["batch"][0]
    assert isinstance(result, Batch)
    assert result.frames.data is not batch.frames.data
    assert sorted(pinned) == [(1,), (1, 2, 3, 4, 6), (1, 2, 5)]


def test_a_batch_shows_shapes() -> None:
    batch = stack([Sample(clip(2, 4, 6), label=i, source=f"{i}.mp4", failures=(failure(0),)) for i in range(6)])
    text = repr(batch)
    assert "frames: uint8 (6, 2, 3, 4, 6)" in text
    assert "label: int64 (6,)" in text
    assert "'0.mp4', '1.mp4', '2.mp4', '3.mp4', ... 2 more" in text
    assert "failures: 6" in text
    assert "audio" not in text
    assert "[uint8 (3, 2, 3)]" in repr(ragged([Sample(image=image(2, 3))]))


# --- buckets


def test_a_loader_stacks_what_buckets_bring_together() -> None:
    loader = DataLoader(made_dataset([2, 5, 2, 5, 5]), 2, bucket_by=lambda item: item.extra["num_frames"])
    assert sorted(tuple(batch.frames.data.shape[:2]) for batch in loader) == [(1, 5), (2, 2), (2, 5)]
