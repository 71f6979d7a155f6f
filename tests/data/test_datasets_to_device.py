"""`ToDevice`: its batches, the order of streams, and resuming."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from dataset_samples import Made
from mediatensor._engine.common.stages import collect_stages
from mediatensor.datasets import (
    Batch,
    ColumnDict,
    DataLoader,
    Failure,
    Item,
    MediaDataset,
    Sample,
    Timing,
    ToDevice,
    ragged,
    stack,
)
from mediatensor.datasets._batches.to_device import CopyNow
from mediatensor.errors import DecodeError, InvalidArgumentError
from mediatensor.frames import FrameBatch
from mediatensor.transforms import Normalize, ToFloat
from processes import wait_until


class Grey(Made):
    """Clips of one grey, the label's; a file of the label -1 cannot be read."""

    def read(self, opened: Any, item: Item, part: int) -> Sample:
        if item.label < 0:
            raise DecodeError("cut")
        times = torch.arange(2, dtype=torch.float64)
        return Sample(frames=FrameBatch(torch.full((2, 3, 4, 4), item.label, dtype=torch.uint8), times, times))


def grey_loader(labels: range | list[int] = range(12), batch_size: int = 2, **options: Any) -> DataLoader:
    items = [Item(f"{number}.mp4", label=label) for number, label in enumerate(labels)]
    on_error = "skip" if min(labels) < 0 else "raise"
    return DataLoader(MediaDataset(items, Grey(), on_error=on_error), batch_size, **options)


@pytest.fixture(params=[0, 1], ids=["copies now", "copies ahead"])
def num_ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Has the CPU be read ahead for as well, as CUDA devices are."""
    monkeypatch.setattr(CopyNow, "num_ahead", request.param)
    return int(request.param)


# --- batches


def test_frames_are_normalised_late(num_ahead: int) -> None:
    normalize = nn.Sequential(ToFloat(), Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)))
    dtypes = []

    def noting(data: Tensor) -> Tensor:
        dtypes.append(data.dtype)
        return normalize(data)

    batches = list(ToDevice(grey_loader(), "cpu", noting))
    assert dtypes == [torch.uint8] * 6
    for batch, plain in zip(batches, grey_loader(), strict=True):
        assert batch.row.tolist() == plain.row.tolist()
        torch.testing.assert_close(batch.frames.data, (plain.frames.data / 255 - 0.5) / 0.25)
        assert torch.equal(batch.frames.pts_seconds, plain.frames.pts_seconds)


def test_images_and_lists_are_transformed_each() -> None:
    samples = [Sample(image=torch.full((3, 2, width), 8, dtype=torch.uint8)) for width in (2, 3)]
    (batch,) = ToDevice([ragged(samples)], "cpu", lambda image: image / 2)
    assert [tuple(image.shape) for image in batch.images] == [(3, 2, 2), (3, 2, 3)]
    assert all((image == 4).all() for image in batch.images)
    (batch,) = ToDevice([stack([Sample(image=torch.ones(3, 2, 2))])], "cpu", torch.neg)
    assert (batch.images == -1).all()


class Pair(NamedTuple):
    data: Tensor
    name: str


def test_batches_of_any_make_are_moved(fake_device: torch.device) -> None:
    given = [{"x": torch.ones(2), "list": [Pair(torch.ones(3), "a")], "tuple": (1, torch.ones(1))}]
    (batch,) = ToDevice(given, fake_device)
    assert batch["x"].device == batch["tuple"][1].device == fake_device
    assert isinstance(batch["list"][0], Pair)
    assert (batch["list"][0].data.device, batch["list"][0].name, batch["tuple"][0]) == (fake_device, "a", 1)
    (batch,) = ToDevice([torch.ones(2)], "cpu", torch.neg)
    assert batch.tolist() == [-1, -1]


def test_batches_of_columns_keep_their_failures_and_timings(fake_device: torch.device) -> None:
    failures = (Failure("0.mp4", 0, 2, "DecodeError", "cut", "skipped"),)
    timings = (Timing(0, 1.0, 2.0, {"decode": 1.0}),)
    (batch,) = ToDevice([ColumnDict({"action": torch.ones(2)}, failures, timings)], fake_device)
    assert isinstance(batch, ColumnDict)
    assert batch["action"].device == fake_device
    assert (batch.failures, batch.timings) == (failures, timings)


def test_a_batch_arrives_on_the_device_and_its_times_stay(fake_device: torch.device) -> None:
    batch = next(iter(ToDevice(grey_loader(), fake_device)))
    assert batch.frames.data.device == batch.label.device == fake_device
    assert batch.frames.pts_seconds.device.type == batch.row.device.type == "cpu"


def test_a_missing_device_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="Unsupported device: cuda:99"):
        ToDevice([], "cuda:99")


def test_random_transforms_draw_in_the_order_of_the_batches(num_ahead: int) -> None:
    torch.manual_seed(0)
    given = [batch.frames.data for batch in ToDevice(grey_loader(), "cpu", lambda data: data + torch.rand(1))]
    torch.manual_seed(0)
    for data, plain in zip(given, grey_loader(), strict=True):
        assert torch.equal(data, plain.frames.data + torch.rand(1))


def test_copying_and_transforming_are_stages() -> None:
    with collect_stages() as seconds:
        list(ToDevice([torch.ones(2)], "cpu", torch.neg))
    assert set(seconds) == {"copy", "transform"}


def test_attributes_of_the_loader_are_available(num_ahead: int) -> None:
    loader = grey_loader([3, -1, 5, 6])
    batches = ToDevice(loader, "cpu")
    assert (len(batches), batches.dataset, batches.num_workers) == (2, loader.dataset, 0)
    assert sum(len(batch) for batch in batches) == 3
    assert [failure.source for failure in batches.failures.failures] == ["1.mp4"]
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = batches.no_such_thing
    assert len(pickle.loads(pickle.dumps(ToDevice([1, 2], "cpu")))) == 2


# --- resuming


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("num_used", [0, 1, 3, 5, 6])
def test_a_batch_that_was_fetched_but_not_handed_over_is_read_again(
    num_ahead: int, num_workers: int, num_used: int
) -> None:
    batches = ToDevice(grey_loader(shuffle=True, num_workers=num_workers), "cpu")
    used = [batch.row.tolist() for _, batch in zip(range(num_used), batches, strict=False)]
    state = batches.state_dict()
    assert batches.epoch == 0
    resumed = ToDevice(grey_loader(shuffle=True), "cpu")
    resumed.load_state_dict(state)
    rest = [batch.row.tolist() for batch in resumed]
    plain = [batch.row.tolist() for batch in grey_loader(shuffle=True)]
    assert used + rest == plain


def test_the_state_matches_the_loader_at_any_time(num_ahead: int) -> None:
    loader, plain = grey_loader(range(5)), grey_loader(range(5))
    batches = ToDevice(loader, "cpu")
    for epoch in range(2):
        assert batches.state_dict() == plain.state_dict()
        for batch, other in zip(batches, plain, strict=True):
            assert batch.row.tolist() == other.row.tolist()
            assert batches.state_dict() == plain.state_dict()
            assert batches.epoch == plain.epoch == batch.epoch == epoch
        assert batches.state_dict() == plain.state_dict()


def test_a_loader_without_state_says_so() -> None:
    with pytest.raises(InvalidArgumentError, match="list"):
        ToDevice([1], "cpu").state_dict()
    assert ToDevice([1], "cpu").epoch is None


@pytest.mark.parametrize("num_used", [1, 4])
def test_torchdatas_loader_resumes(num_ahead: int, num_used: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def loader() -> Any:
        return stateful(grey_loader().dataset, batch_size=2, collate_fn=stack)

    batches = ToDevice(loader(), "cpu")
    used = [batch.row.tolist() for _, batch in zip(range(num_used), batches, strict=False)]
    resumed = ToDevice(loader(), "cpu")
    resumed.load_state_dict(batches.state_dict())
    assert used + [batch.row.tolist() for batch in resumed] == [[row, row + 1] for row in range(0, 12, 2)]


# --- errors and leaving early


def test_an_error_is_raised_after_earlier_batches(num_ahead: int) -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("gone")

    got = []
    with pytest.raises(OSError, match="gone"):  # noqa: PT012
        for batch in ToDevice(failing(), "cpu"):
            got.append(batch)
    assert got == [1, 2]


def test_the_state_after_an_error_is_that_of_the_last_batch(num_ahead: int) -> None:
    loader = grey_loader(collate_fn=_fail_at_row_4)
    batches = ToDevice(loader, "cpu")
    used = []
    with pytest.raises(OSError, match="gone"):  # noqa: PT012
        for batch in batches:
            used.append(batch.row.tolist())
    assert used == [[0, 1], [2, 3]]
    resumed = grey_loader()
    resumed.load_state_dict(batches.state_dict())
    assert next(iter(resumed)).row.tolist() == [4, 5]


def _fail_at_row_4(samples: list[Any]) -> Batch:
    if samples[0].row == 4:
        raise OSError("gone")
    return stack(samples)


def test_leaving_early_leaves_nothing_behind(num_ahead: int) -> None:
    alive: list[weakref.ref[Tensor]] = []
    closed = []

    def tensors() -> Iterator[Tensor]:
        try:
            for _ in range(5):
                tensor = torch.ones(3)
                alive.append(weakref.ref(tensor))
                yield tensor
                del tensor
        finally:
            closed.append(True)

    for _batch in ToDevice(tensors(), "cpu"):
        break
    del _batch
    gc.collect()
    assert closed == [True]
    assert len(alive) == 1 + num_ahead
    assert [reference() for reference in alive] == [None] * len(alive)


def test_leaving_early_ends_the_workers(num_ahead: int) -> None:
    before = set(multiprocessing.active_children())
    iterator = iter(ToDevice(grey_loader(num_workers=2), "cpu"))
    next(iterator)
    assert set(multiprocessing.active_children()) > before
    iterator.close()
    wait_until(lambda: not set(multiprocessing.active_children()) - before, 30, "workers stay")


def test_a_batch_that_is_done_with_is_not_kept_while_others_are_fetched(num_ahead: int) -> None:
    given: list[weakref.ref[Tensor]] = []

    def num_alive() -> int:
        return sum(reference() is not None for reference in given)

    def new_tensor() -> Tensor:
        # All that were given are done with, but for those on their way.
        assert num_alive() <= num_ahead
        tensor = torch.ones(3)
        given.append(weakref.ref(tensor))
        return tensor

    for _batch in ToDevice((new_tensor() for _ in range(6)), "cpu"):
        del _batch
    for _batch in ToDevice((new_tensor() for _ in range(6)), "cpu", torch.neg):
        assert num_alive() <= num_ahead  # only the results of transforms are kept
        del _batch
    assert len(given) == 12


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("pin_memory", [False, True])
def test_batches_arrive_whole_on_a_cuda_device(pin_memory: bool) -> None:
    expected = [batch.frames.data for batch in grey_loader(range(64))]
    batches = ToDevice(grey_loader(range(64), num_workers=2, pin_memory=pin_memory), "cuda", lambda data: data.float())
    sums = []
    for batch in batches:
        assert batch.frames.data.device.type == batch.label.device.type == "cuda"
        for _ in range(20):  # work that is still under way when the next batch is copied
            total = batch.frames.data.double().sum()
        sums.append(total)
    assert [float(total) for total in sums] == [float(data.double().sum()) for data in expected]
