"""Which rows come when, and to whom: the arithmetic of `RowBatches`, without any media."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataset_samples import Drawing
from mediatensor.datasets import Item, MediaDataset, RowBatches, Shuffle, shuffle_quality
from mediatensor.errors import InvalidArgumentError


def dataset(num_files: int, rows_per_file: int = 1) -> MediaDataset:
    items = [Item(f"{i}.mp4", label=i % 3) for i in range(num_files)]
    return MediaDataset(items, Drawing(), rows_per_file=rows_per_file)


def rows_of(batches: RowBatches) -> list[list[int]]:
    return [[key.row for key in batch] for batch in batches]


def flat(batches: list[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(batches))


@given(
    num_files=st.integers(1, 40),
    rows_per_file=st.sampled_from([1, 4]),
    batch_size=st.integers(1, 5),
    num_ranks=st.integers(1, 5),
    num_buckets=st.integers(0, 6),
    shuffle=st.sampled_from([False, True, Shuffle(rows_together=3), Shuffle(rows_together=2, window=7)]),
)
def test_ranks_share_all_rows_and_none_has_more_than_one_batch_more(
    num_files: int, rows_per_file: int, batch_size: int, num_ranks: int, num_buckets: int, shuffle: bool | Shuffle
) -> None:
    """However many buckets have rows left over."""
    bucket_by = (lambda item: int(item.name[:-4]) % num_buckets) if num_buckets else None
    options: dict[str, Any] = {"shuffle": shuffle, "num_ranks": num_ranks, "bucket_by": bucket_by}
    ranks = [
        rows_of(RowBatches(dataset(num_files, rows_per_file), batch_size, rank=rank, **options))
        for rank in range(num_ranks)
    ]
    counts = [len(batches) for batches in ranks]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] - counts[-1] <= 1
    batches = [batch for batches in ranks for batch in batches]
    assert sorted(flat(batches)) == list(range(num_files * rows_per_file))
    assert all(len(batch) <= batch_size for batch in batches)
    if num_buckets:
        assert all(len({row // rows_per_file % num_buckets for row in batch}) == 1 for batch in batches)


@given(
    buckets=st.lists(st.integers(0, 2), min_size=1, max_size=30),
    batch_size=st.integers(1, 4),
    num_ranks=st.integers(1, 4),
    stops=st.lists(st.integers(0, 8), max_size=3),
)
@example(buckets=[0, 1, 1, 1, 1, 1], batch_size=4, num_ranks=2, stops=[1])
def test_a_resumed_epoch_has_the_batches_of_one_that_was_not_stopped(
    buckets: list[int], batch_size: int, num_ranks: int, stops: list[int]
) -> None:
    """Also if it stops between the last batches of a bucket."""

    def batches(rank: int) -> RowBatches:
        options: dict[str, Any] = {"bucket_by": lambda item: buckets[int(item.name[:-4])]}
        return RowBatches(dataset(len(buckets)), batch_size, rank=rank, num_ranks=num_ranks, **options)

    stopped = batches(0)
    for stop in stops:
        state = stopped.state_dict(stop)
        stopped.load_state_dict(state)
    for rank in range(num_ranks):
        resumed = batches(rank)
        resumed.load_state_dict(stopped.state_dict(0))
        assert rows_of(resumed) == rows_of(batches(rank))[sum(stops) :]


def test_len_is_the_number_of_batches() -> None:
    for num_files, batch_size, num_ranks, drop_last in itertools.product((1, 5, 8, 9), (1, 2, 4), (1, 2, 3), (0, 1)):
        for rank in range(num_ranks):
            batches = RowBatches(
                dataset(num_files), batch_size, rank=rank, num_ranks=num_ranks, drop_last=bool(drop_last)
            )
            assert len(batches) == len(list(batches))
            if drop_last:
                assert {len(batch) for batch in batches} <= {batch_size}
                assert len(batches) == num_files // (batch_size * num_ranks)


def test_without_shuffling_rows_come_in_order() -> None:
    assert rows_of(RowBatches(dataset(5), 2)) == [[0, 1], [2, 3], [4]]


def test_epochs_differ_and_repeat() -> None:
    batches = RowBatches(dataset(50), 50, shuffle=True)
    orders = []
    for epoch in (0, 1, 0):
        batches.set_epoch(epoch)
        (keys,) = batches
        assert {key.epoch for key in keys} == {epoch}
        orders.append([key.row for key in keys])
    assert orders[0] == orders[2] != orders[1]
    (other,) = RowBatches(dataset(50), 50, shuffle=True, seed=1)
    assert [key.row for key in other] != orders[0]


def test_a_full_shuffle_is_uniform() -> None:
    """Each row is in each position about equally often: chi-squared of 4 x 4 counts, 9 degrees of freedom."""
    counts = np.zeros((4, 4))
    batches = RowBatches(dataset(4), 4, shuffle=True)
    for epoch in range(2000):
        batches.set_epoch(epoch)
        (rows,) = rows_of(batches)
        counts[range(4), rows] += 1
    assert ((counts - 500) ** 2 / 500).sum() < 33.7  # exceeded by chance once in 10,000


def test_state_of_something_else_is_refused() -> None:
    state = RowBatches(dataset(5), 2).state_dict(1)
    for batches in (RowBatches(dataset(6), 2), RowBatches(dataset(5), 2, seed=3)):
        with pytest.raises(InvalidArgumentError, match="does not belong"):
            batches.load_state_dict(state)
    with pytest.raises(InvalidArgumentError, match="version"):
        RowBatches(dataset(5), 2).load_state_dict({})


@pytest.mark.parametrize("drops", [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("num_batches", [0, 2, 3])
def test_last_rows_are_read_once_if_drop_last_changes(drops: tuple[bool, bool], num_batches: int) -> None:
    rows = dataset(10)
    first, second = (RowBatches(rows, size, drop_last=drop) for size, drop in zip((4, 1), drops, strict=True))
    seen = flat(rows_of(first)[:num_batches])
    second.load_state_dict(first.state_dict(len(rows_of(first)[:num_batches])))
    assert sorted(seen + flat(rows_of(second))) == list(range(10))


def test_a_state_does_not_depend_on_the_type_of_a_number() -> None:
    numbers = (5, np.int64(5))
    states = [RowBatches(dataset(9), n, shuffle=Shuffle(window=n), seed=n).state_dict(1) for n in numbers]
    assert states[0] == states[1]
    assert {type(value) for value in vars(Shuffle(*map(np.int32, (2, 3)))).values()} == {int}


def test_rows_together_are_of_one_file_and_change_with_the_epoch() -> None:
    rows = dataset(6, 8)
    groups = []
    for epoch in range(2):
        batches = RowBatches(rows, 4, shuffle=Shuffle(rows_together=4))
        batches.set_epoch(epoch)
        groups.append({frozenset(batch) for batch in rows_of(batches)})
        assert all(len({row // 8 for row in batch}) == 1 for batch in groups[-1])
    assert groups[0] != groups[1]


def test_a_window_keeps_rows_of_a_file_near_each_other() -> None:
    """A row comes at most about two windows after the first of its file; a full shuffle spreads them over the epoch."""
    rows = dataset(100, 10)

    def spread(shuffle: Shuffle) -> float:
        order = np.array(flat(rows_of(RowBatches(rows, 1, shuffle=shuffle))))
        return float(np.mean([np.ptp(np.flatnonzero(order // 10 == file)) for file in range(100)]))

    assert spread(Shuffle(window=50)) < 200
    assert spread(Shuffle()) > 700
    order = np.array(flat(rows_of(RowBatches(rows, 1, shuffle=Shuffle(window=50)))))
    files = order // 10
    assert sorted(order.tolist()) == list(range(1000))
    assert np.mean(files[1:] == files[:-1]) < 0.3  # 9 of 10 in file order


def test_quality_of_a_shuffle_is_measured() -> None:
    file_of_row = np.repeat(np.arange(64), 8)
    random = np.random.default_rng(0)
    none = shuffle_quality(np.arange(512), file_of_row, 8)
    full = shuffle_quality(random.permutation(512), file_of_row, 8)
    assert none == {"files_per_batch": 1.0, "same_file_next": 448 / 511, "displacement": 0.0}
    # Expected number of files among 8 of 512 rows, 8 of each file: 64 (1 - C(504, 8) / C(512, 8)).
    assert full["files_per_batch"] == pytest.approx(7.56, abs=0.2)
    assert full["same_file_next"] == pytest.approx(7 / 511, abs=0.02)
    assert full["displacement"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": True}, "batch_size"),
        ({"batch_size": 2, "shuffle": 3}, "shuffle must be"),
        ({"batch_size": 2, "shuffle": None}, "shuffle must be"),
        ({"batch_size": 2, "rank": 1}, "num_ranks"),
        ({"batch_size": 2, "rank": 2, "num_ranks": 2}, "rank"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, int], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        RowBatches(dataset(3), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("arguments", [{"rows_together": 0}, {"window": 0}, {"window": 1.5}])
def test_bad_shuffles_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        Shuffle(**arguments)
