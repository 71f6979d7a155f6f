"""Weights of rows and classes: which rows an epoch reads, how often, with which random numbers, and after resuming."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from hypothesis import given
from hypothesis import strategies as st

from dataset_samples import Drawing
from mediatensor.datasets import (
    DataLoader,
    Item,
    MediaDataset,
    RowBatches,
    RowKey,
    Sample,
    Shuffle,
    TarSamples,
)
from mediatensor.errors import InvalidArgumentError
from tar_files import TextRecipe, number_shards

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

LABELS = [0] * 7 + [1] * 2 + [2]


def dataset(labels: list[Any], rows_per_file: int = 1, **options: Any) -> MediaDataset:
    items = [Item(f"{number}.mp4", label=label) for number, label in enumerate(labels)]
    return MediaDataset(items, Drawing(), rows_per_file=rows_per_file, **options)


def keys_of(batches: RowBatches, epoch: int = 0) -> list[RowKey]:
    batches.set_epoch(epoch)
    return [key for batch in batches for key in batch]


def counts_of(batches: RowBatches, num_rows: int, epoch: int = 0) -> Any:
    return np.bincount([key.row for key in keys_of(batches, epoch)], minlength=num_rows)


# How often


@given(
    weights=st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e3), st.integers(0, 5)), min_size=1, max_size=30),
    rows_per_epoch=st.integers(1, 200),
    shuffle=st.sampled_from([False, True, Shuffle(rows_together=3), Shuffle(window=10)]),
    epoch=st.integers(0, 1000),
)
def test_each_row_is_read_as_often_as_its_weight_says(
    weights: list[float], rows_per_epoch: int, shuffle: bool | Shuffle, epoch: int
) -> None:
    if not any(weights):
        weights[0] = 1.0
    rows = dataset([None] * len(weights))
    batches = RowBatches(rows, 4, weights=weights, rows_per_epoch=rows_per_epoch, shuffle=shuffle)
    counts = counts_of(batches, len(weights), epoch)
    expected = np.array(weights) * rows_per_epoch / math.fsum(weights)
    assert counts.sum() == rows_per_epoch
    assert (np.abs(counts - expected) < 1 + 1e-6).all()
    assert not counts[expected == 0].any()


def test_over_many_epochs_the_mean_is_the_weight() -> None:
    weights = np.array([0.1, 0.5, 1, 1, 2, 3.3, 0, 7])
    expected = weights * 10 / weights.sum()
    batches = RowBatches(dataset([None] * 8), 3, weights=weights, rows_per_epoch=10)
    num_epochs = 3000
    counts = sum(counts_of(batches, 8, epoch) for epoch in range(num_epochs))
    rest = expected % 1  # each epoch rounds up with this probability
    deviation = np.sqrt(rest * (1 - rest) * num_epochs)
    assert (np.abs(counts - expected * num_epochs) <= 5 * deviation + 1e-6).all(), counts / num_epochs


def test_all_pairs_of_rows_are_equally_likely() -> None:
    """Chi-squared of six pairs, 5 degrees of freedom."""
    batches = RowBatches(dataset([None] * 4), 2, weights=[1, 1, 1, 1], rows_per_epoch=2)
    counts = Counter(tuple(sorted(key.row for key in keys_of(batches, epoch))) for epoch in range(3000))
    assert set(counts) == set(combinations(range(4), 2))
    assert sum((count - 500) ** 2 / 500 for count in counts.values()) < 25.7  # exceeded by chance once in 10,000


def test_the_order_is_random() -> None:
    """Each class is in each position about equally often: chi-squared of 2 x 6 counts, 5 degrees of freedom."""
    batches = RowBatches(dataset([0, 0, 1]), 6, weights="balanced", rows_per_epoch=6)
    places = np.zeros(6)
    for epoch in range(2000):
        places += [key.row == 2 for key in keys_of(batches, epoch)]
    assert ((places - 1000) ** 2 / 1000 * 2).sum() < 25.7 * 2


def test_equal_weights_read_each_row_once() -> None:
    for num_rows in (1, 7, 100, 1001):
        assert (counts_of(RowBatches(dataset([None] * num_rows), 8, weights=[0.1] * num_rows), num_rows) == 1).all()


def test_rows_of_one_file_can_stay_together() -> None:
    rows = dataset([0, 1] * 6, rows_per_file=8)
    weights = np.where(rows.file_of_row % 2, 3.0, 1.0)
    batches = RowBatches(rows, 4, weights=weights, rows_per_epoch=192, shuffle=Shuffle(rows_together=4))
    together = [len({key.row // 8 for key in batch}) for batch in batches]
    assert together.count(1) == len(together) == 48  # 8 and 24 rows of a file are whole groups


def test_epochs_and_seeds_draw_other_rows() -> None:
    weights = np.arange(1.0, 51)
    batches = RowBatches(dataset([None] * 50), 50, weights=weights)
    assert keys_of(batches, 3) == keys_of(batches, 3)
    assert counts_of(batches, 50, 3).tolist() != counts_of(batches, 50, 4).tolist()
    other = RowBatches(dataset([None] * 50), 50, weights=weights, seed=1)
    assert counts_of(other, 50, 3).tolist() != counts_of(batches, 50, 3).tolist()


# Classes


@pytest.mark.parametrize("rows_per_epoch", [None, 1, 3, 29, 300])
def test_balanced_classes_differ_by_at_most_one_row(rows_per_epoch: int | None) -> None:
    rows = dataset(LABELS, rows_per_file=2)
    batches = RowBatches(rows, 4, weights="balanced", rows_per_epoch=rows_per_epoch)
    labels = np.repeat(LABELS, 2)
    for epoch in range(5):
        counts = np.bincount(labels[[key.row for key in keys_of(batches, epoch)]], minlength=3)
        assert counts.sum() == (rows_per_epoch or 20)
        assert np.ptp(counts) <= 1
        assert batches.count_classes() == dict(enumerate(counts.tolist()))


def test_a_mapping_sets_the_shares_of_classes() -> None:
    batches = RowBatches(dataset(LABELS), 4, weights={0: 1, 1: 0, 2: 3}, rows_per_epoch=40)
    assert batches.count_classes() == {0: 10, 1: 0, 2: 30}
    counts = counts_of(batches, 10)
    assert counts[:7].tolist().count(1) == 4
    assert counts[:7].sum() == 10
    assert counts[7:].tolist() == [0, 0, 30]


def test_classes_are_named_if_they_have_names() -> None:
    items = [Item(f"{i}.mp4", label=label, extra={"class_name": name}) for i, (label, name) in enumerate(
        [(1, "run"), (0, "jump"), (1, "run"), (1, "run")]
    )]  # fmt: skip
    batches = RowBatches(MediaDataset(items, Drawing()), 2, weights={"run": 1, "jump": 1})
    assert list(batches.count_classes().items()) == [("jump", 2), ("run", 2)]


def test_rows_without_labels_are_counted_apart() -> None:
    assert RowBatches(dataset([3, None, "x", 3]), 2).count_classes() == {3: 2, None: 1, "x": 1}


@pytest.mark.parametrize("num_ranks", [1, 3])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("weights", [None, "balanced"])
def test_counted_classes_are_those_of_all_ranks(num_ranks: int, drop_last: bool, weights: Any) -> None:
    loaders = [
        DataLoader(
            dataset(LABELS), 3, weights=weights, shuffle=True, drop_last=drop_last, rank=rank, num_ranks=num_ranks
        )
        for rank in range(num_ranks)
    ]
    for epoch in range(3):
        planned = [loader.count_classes(epoch) for loader in loaders]
        read = Counter(label for loader in loaders for batch in loader for label in batch.label.tolist())
        assert all({label: read[label] for label in range(3)} == one for one in planned)
        assert not drop_last or sum(read.values()) == 10 // (3 * num_ranks) * 3 * num_ranks


# Ranks, workers and resuming


@given(
    num_files=st.integers(1, 12),
    rows_per_file=st.integers(1, 4),
    rows_per_epoch=st.none() | st.integers(1, 60),
    shuffle=st.sampled_from(
        [False, True, Shuffle(rows_together=3), Shuffle(window=10), Shuffle(rows_together=2, window=7)]
    ),
    buckets=st.booleans(),
    runs=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(0, 4)), max_size=3),
    last=st.tuples(st.integers(1, 5), st.integers(1, 3)),
)
def test_resuming_reads_all_other_visits_once(
    num_files: int,
    rows_per_file: int,
    rows_per_epoch: int | None,
    shuffle: bool | Shuffle,
    buckets: bool,
    runs: list[tuple[int, int, int]],
    last: tuple[int, int],
) -> None:
    """This holds however often an epoch is interrupted and resumed, with any batch sizes and ranks, and weights."""
    rows = dataset([i % 3 for i in range(num_files)], rows_per_file)
    options: dict[str, Any] = {"shuffle": shuffle}
    if rows_per_epoch is not None:
        options |= {"weights": 1.0 + np.arange(len(rows)) % 4, "rows_per_epoch": rows_per_epoch}
    expected = keys_of(RowBatches(rows, 1, **options))
    assert len(expected) == (rows_per_epoch or num_files * rows_per_file)
    counts = Counter(key.row for key in expected)
    assert set(expected) == {RowKey(row, 0, visit) for row in counts for visit in range(counts[row])}
    state, seen = None, []
    for batch_size, num_ranks, num_batches in [*runs, (*last, None)]:
        for rank in range(num_ranks):
            batches = RowBatches(
                rows,
                batch_size,
                rank=rank,
                num_ranks=num_ranks,
                bucket_by=(lambda item: item.label) if buckets else None,
                **options,
            )
            if state is not None:
                batches.load_state_dict(state)
            given_batches = list(batches)[:num_batches]
            assert not buckets or all(len({key.row // rows_per_file % 3 for key in one}) == 1 for one in given_batches)
            seen += [key for batch in given_batches for key in batch]
            new_state = batches.state_dict(num_batches or 0)
        state = new_state
    assert sorted(seen) == sorted(expected)


def read(loader: Any) -> list[tuple[int, int]]:
    return [
        (row, drawn) for batch in loader for row, drawn in zip(batch.row.tolist(), batch.extra["drawn"], strict=True)
    ]


def test_each_visit_draws_other_numbers_that_workers_do_not_change() -> None:
    options: dict[str, Any] = {"batch_size": 4, "weights": "balanced", "rows_per_epoch": 40}
    loader = DataLoader(dataset(LABELS), **options)
    epochs = [read(loader) for _ in range(2)]
    assert len({drawn for epoch in epochs for _, drawn in epoch}) == 80
    with_workers = DataLoader(dataset(LABELS), num_workers=2, **options)
    assert [read(with_workers) for _ in range(2)] == epochs

    # The first visit is the row as it is read without weights.
    plain = dict(read(DataLoader(dataset(LABELS))))
    assert all((row, drawn) in epochs[0] for row, drawn in plain.items() if row in dict(epochs[0]))


def test_a_spec_of_a_visit_loads_the_same_sample() -> None:
    rows = dataset(LABELS)
    (batch,) = RowBatches(rows, 30, weights="balanced", rows_per_epoch=30)
    samples = rows.__getitems__(batch)
    for key, sample in zip(batch, samples, strict=True):
        assert isinstance(sample, Sample)
        assert rows.spec(*key).load().extra == sample.extra
    assert len({sample.extra["drawn"] for sample in samples if isinstance(sample, Sample)}) == 30


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_visits_of_an_unreadable_row_are_skipped_or_replaced(on_error: Any) -> None:
    rows = dataset(["good"] * 8 + ["broken"], on_error=on_error)
    loader = DataLoader(rows, 4, weights="balanced", rows_per_epoch=40)
    assert loader.count_classes() == {"broken": 20, "good": 20}
    seen = read(loader)
    assert len(seen) == (20 if on_error == "skip" else 40)
    assert len({drawn for _, drawn in seen}) == len(seen)


# Errors


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("equal", r"weights must be 'balanced', a mapping .* \(got 'equal'\)"),
        (3.0, "weights must be 'balanced'"),
        ([[1, 2], [3, 4]], "weights must be 'balanced'"),
        (["a"] * 10, "weights must be 'balanced'"),
        ([1, 2, 3], r"one number for each of the 10 rows of the dataset \(got 3\)"),
        ([], r"one number for each of the 10 rows of the dataset \(got 0\)"),
        ([1.0] * 3 + [math.nan] + [1.0] * 6, "finite numbers of at least 0, but row 3 has nan"),
        ([1.0] * 9 + [math.inf], "row 9 has inf"),
        ([1.0, -0.5] + [1.0] * 8, "row 1 has -0.5"),
        (torch.zeros(10), "All weights are 0; at least one row needs a weight above 0"),
        ({0: 1, 1: 1}, r"weights lack the class 2. The classes are \[0, 1, 2\]"),
        ({}, "weights lack the class 0 and 2 more"),
        ({0: 1, 1: 1, 2: 1, 3: 1}, "weights have an unknown class 3"),
        ({0: 1, 1: -1, 2: 1}, "class 1 has -1"),
        ({0: 0, 1: 0, 2: 0}, "at least one class needs a weight above 0"),
        ({0: 1, 1: math.nan, 2: 1}, r"weights\[1\] must be"),
        ({0: 1, 1: "much", 2: 1}, r"weights\[1\] must be"),
    ],
    ids=repr,
)
def test_bad_weights_are_errors(weights: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        DataLoader(dataset(LABELS), 2, weights=weights)


def test_bad_lengths_are_errors() -> None:
    for rows_per_epoch in (0, -1, 2.5, "ten"):
        with pytest.raises(InvalidArgumentError, match="rows_per_epoch"):
            RowBatches(dataset(LABELS), 2, weights="balanced", rows_per_epoch=rows_per_epoch)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="rows_per_epoch needs weights"):
        RowBatches(dataset(LABELS), 2, rows_per_epoch=5)


@pytest.mark.parametrize("weights", ["balanced", {0: 1, None: 1}])
def test_classes_need_labels(weights: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"but 4 of 8 rows have none. The first is of '1.mp4'"):
        RowBatches(dataset([0, None, 0, None], rows_per_file=2), 2, weights=weights)
    with pytest.raises(InvalidArgumentError, match=r"labels that are numbers or text \(got"):
        RowBatches(dataset([torch.zeros(2), torch.zeros(2)]), 2, weights="balanced")
    with pytest.raises(InvalidArgumentError, match=r"labels that are numbers or text \(got"):
        RowBatches(dataset([[1, 2], [3]]), 2).count_classes()


def test_one_class_and_one_row() -> None:
    assert RowBatches(dataset(["a"] * 3), 2, weights="balanced").count_classes() == {"a": 3}
    assert RowBatches(dataset([0]), 2, weights=[5], rows_per_epoch=4).count_classes() == {0: 4}


def test_extreme_weights_stay_in_proportion() -> None:
    for scale in (1e-300, 1.0, 1e307):
        counts = counts_of(RowBatches(dataset([None] * 3), 2, weights=[scale, 2 * scale, 0], rows_per_epoch=30), 3)
        assert counts.tolist() == [10, 20, 0]


def test_a_state_of_other_weights_is_refused() -> None:
    rows = dataset(LABELS)

    def make(**options: Any) -> RowBatches:
        return RowBatches(rows, 2, shuffle=True, **options)

    kinds: list[dict[str, Any]] = [
        {}, {"weights": "balanced"}, {"weights": {0: 1, 1: 1, 2: 2}}, {"weights": [1.0] * 10},
        {"weights": "balanced", "rows_per_epoch": 11},
    ]  # fmt: skip
    for saved, loaded in combinations(kinds, 2):
        for one, other in ((saved, loaded), (loaded, saved)):
            with pytest.raises(InvalidArgumentError, match="does not belong"):
                make(**other).load_state_dict(make(**one).state_dict(1))
    make(weights="balanced").load_state_dict(make(weights={0: 1, 1: 1, 2: 1}).state_dict(1))  # the same shares


def test_streams_have_no_weights(tmp_path: Path) -> None:
    stream = TarSamples(number_shards(tmp_path, (3,)), TextRecipe())
    with pytest.raises(InvalidArgumentError, match="weights cannot be given for a stream"):
        DataLoader(stream, weights="balanced")
    with pytest.raises(InvalidArgumentError, match="classes of a stream"):
        DataLoader(stream).count_classes()
