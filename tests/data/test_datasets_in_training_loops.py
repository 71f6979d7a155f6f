"""Datasets in training loops: unreadable files, killed workers, changed settings when resuming, devices."""

from __future__ import annotations

import os
import pickle
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.utils.data

from dataset_samples import Made
from mediatensor.datasets import (
    DataLoader,
    Failure,
    FailureReport,
    Item,
    MediaDataset,
    RowBatches,
    Sample,
    Shuffle,
    stack,
)
from mediatensor.errors import DecodeError, InvalidArgumentError, TooManyFailuresError


@dataclass(frozen=True)
class Dots(Made):
    """Images of random dots; some items are broken."""

    broken: tuple[int, ...] = ()

    def read(self, opened: Any, item: Item, part: int) -> Sample:
        if item.extra["number"] in self.broken:
            raise DecodeError(f"{item.name} is broken")
        return Sample(image=torch.randint(0, 256, (3, 2, 2), dtype=torch.uint8))


def dataset(num_files: int, broken: range | tuple[int, ...] = (), name: str | None = None, **options: Any) -> Any:
    items = [Item(f"{i}.png", label=i % 3, name=name or f"{i}.png", extra={"number": i}) for i in range(num_files)]
    return MediaDataset(items, Dots(tuple(broken)), **options)


def rows_of(loader: Any) -> list[int]:
    return [row for batch in loader for row in batch.row.tolist()]


@pytest.fixture
def no_cpu_by_default() -> Iterator[None]:
    """Tensors are made on a device that has no memory, as other programs have them made on a GPU."""
    torch.set_default_device("meta")
    yield
    torch.set_default_device("cpu")


# Files


@pytest.mark.parametrize(
    ("num_files", "rows_per_file", "name"), [(1, 1, None), (1, 5, None), (2, 1, None), (3, 1, "the same name")]
)
def test_replacing_ends_where_nothing_can_be_read(num_files: int, rows_per_file: int, name: str | None) -> None:
    rows = dataset(
        num_files,
        range(num_files),
        name,
        on_error="replace",
        rows_per_file=rows_per_file,
        max_consecutive_failures=4,
    )
    with pytest.raises(TooManyFailuresError, match="5 files"):
        rows[0]


def test_replacements_that_fail_count_until_one_is_read() -> None:
    """Only the last of nine files can be read: all other rows are replaced by it."""
    rows = dataset(9, range(8), on_error="replace", max_consecutive_failures=100)
    samples = [rows[i] for i in range(9)]
    assert {sample.source for sample in samples} == {"8.png"}
    assert all(len(sample.failures) >= 1 for sample in samples[:8])


def test_reports_of_files_whose_names_are_no_text_can_be_printed() -> None:
    report = FailureReport()
    name = os.fsdecode(b"\xff.mp4")
    report.add([Failure(name, 0, 0, "OpenError", f"Could not open {name}.", "skipped")])
    text = str(report)
    assert "\\udcff.mp4: 1 row" in text
    text.encode()


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_ranks_make_equal_numbers_of_steps_whatever_is_skipped(batch_size: int, num_workers: int) -> None:
    """The first rank has 13 broken files of 21, and the second one none."""
    broken = [row for row in range(42) if row // batch_size % 2 == 0 and row < 13 * 2]
    rows = dataset(42, tuple(broken), on_error="skip", max_consecutive_failures=42)
    given: list[int] = []
    num_steps = []
    for rank in range(2):
        options: dict[str, Any] = {"drop_last": True, "rank": rank, "num_ranks": 2, "num_workers": num_workers}
        loader = DataLoader(rows, batch_size, **options)
        batches = list(loader)
        again = list(DataLoader(rows, batch_size, **options))
        assert [batch.source for batch in batches] == [batch.source for batch in again]
        assert all(len(batch) for batch in batches)
        num_steps.append(len(batches))
        for batch in batches:
            skipped = {failure.row for failure in batch.failures}
            assert skipped <= set(broken)
            if len(skipped) == batch_size:
                assert (len(batch), batch.row.tolist()) == (1, [batch.failures[0].row])
                assert int(batch.source[0].removesuffix(".png")) not in broken
            else:
                given += batch.row.tolist()
        assert len(loader.failures) == (len(broken) if rank == 0 else 0)
    assert num_steps[0] == num_steps[1] == len(loader)
    assert sorted(given + broken) == list(range(42 // (2 * batch_size) * 2 * batch_size))


def test_a_rank_without_any_readable_file_says_so() -> None:
    rows = dataset(12, range(12), on_error="skip", max_consecutive_failures=5)
    with pytest.raises(TooManyFailuresError, match="max_consecutive_failures"):
        list(DataLoader(rows, 2, rank=0, num_ranks=2))


def test_a_rank_whose_files_are_all_broken_gives_up() -> None:
    rows = dataset(24, range(0, 24, 2), on_error="skip", max_consecutive_failures=5)
    with pytest.raises(TooManyFailuresError, match="max_consecutive_failures"):
        list(DataLoader(rows, 1, rank=0, num_ranks=2))
    assert len(list(DataLoader(rows, 1, rank=1, num_ranks=2))) == 12


def test_one_rank_leaves_out_batches_of_which_nothing_can_be_read() -> None:
    assert rows_of(DataLoader(dataset(6, (2, 3), on_error="skip"), 2)) == [0, 1, 4, 5]


def test_a_report_does_not_grow_with_the_epochs_and_its_numbers_are_exact() -> None:
    """Against a plain count of all failures; each epoch gives other reasons."""
    report = FailureReport(max_failures=10)
    sizes = []
    every: list[Failure] = []
    for epoch in range(200):
        for row in range(7):
            tried = [Failure(f"{row % 3}.mp4", row, epoch, "DecodeError", f"{epoch} {row}", "replaced")]
            if row == 5:  # the row that was to replace it failed as well
                tried.append(Failure("3.mp4", row, epoch, "DecodeError", "cut", "replaced"))
            every += tried
            report.add(tried)
        sizes.append(len(pickle.dumps(report)))
    assert max(sizes) < sizes[10] + 200  # numbers of epochs have more digits
    assert report.failures == every[-10:]
    assert len(report) == len(every) == 1600
    found = report.as_dict()
    assert (found["num_failures"], found["actions"]) == (1600, {"replaced": 1600})
    counts = Counter(failure.source for failure in every)
    assert {name: file["num_failures"] for name, file in found["files"].items()} == counts
    assert all(len(file["reasons"]) <= 20 for file in found["files"].values())
    assert [len(failures) for failures in report.by_file().values()] == sorted(
        Counter(failure.source for failure in every[-10:]).values(), reverse=True
    )
    last_files = Counter({(failure.epoch, failure.row): failure.source for failure in every}.values())
    lines = str(report).splitlines()
    assert lines[0] == "1400 rows could not be read (0 skipped, 1400 replaced), of 4 files:"
    for name, num_rows in last_files.items():
        assert any(line.startswith(f"  {name}: {num_rows} rows") for line in lines)
    assert "    and 17 or more (see as_dict)" in lines


def test_a_loader_keeps_the_last_failures_of_many_epochs() -> None:
    loader = DataLoader(dataset(30, range(29), on_error="skip", max_consecutive_failures=100), 10)
    for _ in range(50):
        assert rows_of(loader) == [29]
    assert (len(loader.failures), len(loader.failures.failures)) == (50 * 29, 1000)
    assert loader.failures.failures[-1].epoch == 49
    assert str(loader.failures).startswith("1450 rows could not be read (1450 skipped, 0 replaced), of 29 files:")


@pytest.mark.parametrize("max_failures", [0, -1, None])
def test_bad_sizes_of_a_report_are_refused(max_failures: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="max_failures"):
        FailureReport(max_failures)


# Orders


@pytest.mark.parametrize(
    "others",
    [
        {"shuffle": False},
        {"shuffle": Shuffle(window=4)},
        {"shuffle": Shuffle(rows_together=2)},
        {"bucket_by": lambda item: item.label},
    ],
    ids=["in order", "window", "rows together", "buckets"],
)
def test_a_state_of_another_order_is_refused(others: dict[str, Any]) -> None:
    """Otherwise some rows would be repeated and some lost."""
    loader = DataLoader(dataset(12), 2, **{"shuffle": True, **others})
    next(iter(loader))
    with pytest.raises(InvalidArgumentError, match="order="):
        DataLoader(dataset(12), 2, shuffle=True).load_state_dict(loader.state_dict())
    same = DataLoader(dataset(12), 3, **{"shuffle": True, **others})
    same.load_state_dict(loader.state_dict())
    assert len(rows_of(same)) == 10


@pytest.mark.parametrize("shuffle", [False, True, Shuffle(window=4), Shuffle(rows_together=2)], ids=str)
def test_a_resumed_epoch_of_buckets_has_the_batches_of_an_uninterrupted_one(shuffle: bool | Shuffle) -> None:
    def batches() -> RowBatches:
        return RowBatches(dataset(23), 3, shuffle=shuffle, seed=2, bucket_by=lambda item: int(item.name[:-4]) % 5)

    whole = list(batches())
    assert len(whole) == 10  # five of them are not full
    for num_batches in range(len(whole)):
        resumed = batches()
        resumed.load_state_dict(batches().state_dict(num_batches))
        assert list(resumed) == whole[num_batches:]


def test_a_state_of_files_with_other_numbers_of_rows_is_refused() -> None:
    state = RowBatches(dataset(2, rows_per_file=[1, 3]), 2).state_dict(1)
    with pytest.raises(InvalidArgumentError, match="order="):
        RowBatches(dataset(2, rows_per_file=[2, 2]), 2).load_state_dict(state)


@pytest.mark.parametrize(
    "damage", [{"epoch": "x"}, {"epoch": None}, {"runs": 3}, {"runs": [[4]]}, {"runs": [[0, 1, 1]]}, {"runs": ["abc"]}]
)
def test_damaged_states_are_refused(damage: dict[str, Any]) -> None:
    batches = RowBatches(dataset(8), 2)
    with pytest.raises(InvalidArgumentError, match="damaged"):
        batches.load_state_dict({**batches.state_dict(1), **damage})
    assert [len(batch) for batch in batches] == [2] * 4


def test_a_loader_that_gives_batches_as_they_come_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="in_order"):
        DataLoader(dataset(8), 2, num_workers=2, in_order=False)


def test_timeout_without_workers_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="timeout limits the wait for workers"):
        DataLoader(dataset(8), 2, timeout=5)


# Subsets


def test_torchs_loader_reads_subsets_and_joined_datasets() -> None:
    rows = dataset(8, seed=0)
    bits = {i: rows[i].image.sum().item() for i in range(8)}
    training, validation = torch.utils.data.random_split(rows, [6, 2])
    joined: Any = torch.utils.data.ConcatDataset([training, validation])
    loader = torch.utils.data.DataLoader(joined, 3, shuffle=True, collate_fn=stack)
    found = {
        row: image.sum().item() for batch in loader for row, image in zip(batch.row.tolist(), batch.images, strict=True)
    }
    assert found == bits
    with pytest.raises(InvalidArgumentError, match="Subset"):
        DataLoader(training, 2)  # type: ignore[arg-type]


# Processes and devices


def test_a_training_resumes_after_a_worker_was_killed() -> None:
    loader: Any = DataLoader(dataset(60), 2, shuffle=True, num_workers=2, persistent_workers=True)
    batches = iter(loader)
    seen = [row for _ in range(4) for row in next(batches).row.tolist()]
    os.kill(loader._iterator._workers[0].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"exited unexpectedly|killed by signal"):  # noqa: PT012
        for batch in batches:
            seen += batch.row.tolist()
    again = DataLoader(dataset(60), 2, shuffle=True, num_workers=2)
    again.load_state_dict(loader.state_dict())
    assert sorted(seen + rows_of(again)) == list(range(60))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_reading_stays_on_the_cpu(num_workers: int, request: pytest.FixtureRequest) -> None:
    """``torch.set_default_device`` is for the model: samples, labels and random numbers are the same with it."""
    expected = list(DataLoader(dataset(6), 3, shuffle=True))
    request.getfixturevalue("no_cpu_by_default")
    batches = list(DataLoader(dataset(6), 3, shuffle=True, num_workers=num_workers))
    assert len(batches) == 2
    for batch, other in zip(batches, expected, strict=True):
        assert torch.equal(batch.images, other.images)
        assert torch.equal(batch.label, other.label)
        assert torch.equal(batch.row, other.row)


def test_items_with_bytes_are_described_by_their_name() -> None:
    text = repr(Item(b"x" * 10_000, label=3))
    assert "<10000 bytes>" in text
    assert len(text) < 100
