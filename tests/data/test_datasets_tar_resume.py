"""Streams that resume after an interruption: every sample once, with any readers."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from mediatensor.datasets import DataLoader, Item, Skipped, TarSamples
from mediatensor.datasets._rows.tar_samples import GivenRows
from mediatensor.errors import InvalidArgumentError
from places import in_child, needs_fork
from tar_files import TextRecipe, number_shards, tar_bytes, texts

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

SIZES = (6, 1, 9, 0, 4, 7)
ALL = sorted(f"{shard}-{position}" for shard, size in enumerate(SIZES) for position in range(size))


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return number_shards(tmp_path_factory.mktemp("shards"), SIZES)


def make_loader(
    shards: Any,
    num_workers: int = 0,
    batch_size: int = 2,
    loader_options: Any = None,
    state: Any = None,
    **options: Any,
) -> DataLoader:
    """A loader, from a state on if there is one."""
    samples = TarSamples(shards, TextRecipe(), **{"shuffle_buffer": 4, **options})
    loader = DataLoader(
        samples, batch_size=batch_size, num_workers=num_workers, collate_fn=list, **(loader_options or {})
    )
    if state is not None:
        loader.load_state_dict(state)
    return loader


def read_some(loader: DataLoader, num_batches: int) -> tuple[list[str], Any]:
    """Read some batches; return their texts, and the state after them as restored from a file."""
    given = texts(itertools.islice(loader, num_batches))
    return given, json.loads(json.dumps(loader.state_dict()))


@pytest.mark.parametrize("num_batches", [0, 1, 5, 9, 14])
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (1, 3), (2, 2)])
def test_an_epoch_resumes_with_other_workers(shards: list[Path], before: int, after: int, num_batches: int) -> None:
    given, state = read_some(make_loader(shards, before), num_batches)
    resumed = make_loader(shards, after, batch_size=3, state=state)
    assert sorted(given + texts(resumed)) == ALL
    # And the next epoch is a whole one.
    assert resumed.epoch == 1
    assert sorted(texts(resumed)) == ALL


def test_it_can_be_interrupted_again_and_again(shards: list[Path]) -> None:
    given, state = read_some(make_loader(shards), 0)
    for num_workers in (2, 0, 1, 3, 0, 2):
        loader = make_loader(shards, num_workers, state=state)
        more, state = read_some(loader, 2)
        given += more
    loader = make_loader(shards, state=state)
    assert sorted(given + texts(loader)) == ALL


def test_resumed_rows_have_the_same_random_numbers(shards: list[Path]) -> None:
    def drawn(batches: Any) -> dict[str, int]:
        return {sample.extra["text"]: sample.extra["drawn"] for batch in batches for sample in batch}

    whole = make_loader(shards)
    whole.set_epoch(5)
    interrupted = make_loader(shards, 2)
    interrupted.set_epoch(5)
    first = drawn(itertools.islice(interrupted, 4))
    resumed = make_loader(shards, 1, state=interrupted.state_dict())
    assert {**first, **drawn(resumed)} == drawn(whole)


def test_compressed_shards_resume(tmp_path: Path) -> None:
    shards = number_shards(tmp_path, SIZES, compressed=True)
    given, state = read_some(make_loader(shards, 2), 4)
    resumed = make_loader(shards, state=state)
    assert sorted(given + texts(resumed)) == ALL


@pytest.mark.parametrize(("before", "after"), [(1, 3), (2, 2), (2, 1), (3, 2), (3, 5)])
def test_states_of_all_ranks_serve_any_number_of_ranks(shards: list[Path], before: int, after: int) -> None:
    given, states = [], []
    for rank in range(before):
        more, state = read_some(make_loader(shards, rank % 2, rank=rank, num_ranks=before), 1 + rank)
        given += more
        states.append(state)
    second_states = []
    for rank in range(after):
        loader = make_loader(shards, rank % 2, rank=rank, num_ranks=after, state=states)
        more, state = read_some(loader, 1)
        given += more
        second_states.append(state)
    loader = make_loader(shards, state=second_states)
    assert sorted(given + texts(loader)) == ALL


def test_a_rank_resumes_from_its_own_state(shards: list[Path]) -> None:
    given = []
    for rank in range(3):
        more, state = read_some(make_loader(shards, 2, rank=rank, num_ranks=3), 2)
        given += more
        for num_workers in (0, 1):
            loader = make_loader(shards, num_workers, rank=rank, num_ranks=3, state=state)
            more, state = read_some(loader, 1 if num_workers == 0 else 100)
            given += more
    assert sorted(given) == ALL


def test_persistent_workers_hear_of_epochs_and_of_resuming(shards: list[Path]) -> None:
    loader = make_loader(shards, 2, loader_options={"persistent_workers": True})
    epochs = [texts(loader) for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [ALL, ALL, ALL]
    assert epochs[0] != epochs[1]
    given, state = read_some(loader, 4)
    assert loader.epoch == 3
    # An interrupted epoch continues in the existing workers, followed by a whole one.
    loader.load_state_dict(state)
    assert sorted(given + texts(loader)) == ALL
    assert sorted(texts(loader)) == ALL
    # The epoch once more, from its beginning: with its state loaded, and after its rest was read.
    loader.load_state_dict(state)
    loader.set_epoch(3)
    assert sorted(texts(loader)) == ALL
    loader.load_state_dict(state)
    assert sorted(given + texts(loader)) == ALL
    loader.set_epoch(3)
    assert sorted(texts(loader)) == ALL


@pytest.mark.slow
def test_spawned_workers_read_the_same(shards: list[Path]) -> None:
    given, state = read_some(make_loader(shards, 1), 5)
    resumed = make_loader(shards, 1, loader_options={"multiprocessing_context": "spawn"}, state=state)
    assert sorted(given + texts(resumed)) == ALL


def test_shards_without_remaining_rows_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = number_shards(tmp_path, (4, 4, 4, 4))
    given, state = read_some(make_loader(shards, 2, shuffle_buffer=None), 6)
    left = {shard for shard in range(4) if sum(text.startswith(f"{shard}-") for text in given) < 4}
    assert 0 < len(left) < 4
    opened: list[str] = []
    plain_open = open

    def listening(file: Any, *arguments: Any, **options: Any) -> Any:
        if str(file).endswith(".tar"):
            opened.append(str(file))
        return plain_open(file, *arguments, **options)

    monkeypatch.setattr("builtins.open", listening)
    resumed = make_loader(shards, shuffle_buffer=None, state=state)
    assert len(texts(resumed)) == 16 - len(given)
    assert opened == [str(shards[shard]) for shard in sorted(left)]


def test_a_rank_that_finishes_first_keeps_its_rows_in_the_state(shards: list[Path]) -> None:
    given, states = [], []
    for rank, num_batches in enumerate((100, 1)):
        more, state = read_some(make_loader(shards, rank=rank, num_ranks=2), num_batches)
        given += more
        states.append(state)
    assert [state["epoch"] for state in states] == [1, 0]
    resumed = make_loader(shards, 2, state=states)
    assert resumed.epoch == 0
    assert sorted(given + texts(resumed)) == ALL


def test_skipped_rows_and_damage_are_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.tar"
    whole = tar_bytes([(f"{number}.mp4", b"bad" if number == 1 else b"%d" % number) for number in range(9)])
    path.write_bytes(whole[: whole.index(b"8.mp4") + 700])
    loader = make_loader([path], shuffle_buffer=None, on_error="skip")
    samples = [sample for batch in itertools.islice(loader, 2) for sample in batch]
    resumed = make_loader([path], shuffle_buffer=None, on_error="skip", state=loader.state_dict())
    samples += [sample for batch in itertools.islice(resumed, 2) for sample in batch]
    third = make_loader([path], shuffle_buffer=None, on_error="skip", state=resumed.state_dict())
    samples += [sample for batch in third for sample in batch]
    failed = [sample.failures[0].source for sample in samples if isinstance(sample, Skipped)]
    assert failed == [f"{path}/1.mp4", str(path)]
    assert texts(samples) == ["0", "2", "3", "4", "5", "6", "7"]


def test_resuming_reads_the_rest_of_a_shard_that_was_damaged_in_an_earlier_epoch(tmp_path: Path) -> None:
    path = tmp_path / "mended.tar"
    whole = tar_bytes([(f"{number}.mp4", b"%d" % number) for number in range(9)])
    path.write_bytes(whole[: whole.index(b"3.mp4") + 700])
    loader = make_loader([path], shuffle_buffer=None, on_error="skip")
    assert texts(loader) == ["0", "1", "2"]
    path.write_bytes(whole)
    # The rows of the interrupted epoch are as many as the damaged shard had, with its failure.
    given, state = read_some(loader, 2)
    assert (state["epoch"], given) == (1, ["0", "1", "2", "3"])
    resumed = make_loader([path], shuffle_buffer=None, state=state)
    assert texts(resumed) == ["4", "5", "6", "7", "8"]


@needs_fork
def test_a_forked_process_has_a_position_of_its_own(shards: list[Path], tmp_path: Path) -> None:
    loader = make_loader(shards)

    def epochs_of_rows() -> tuple[set[int], int]:
        return {sample.epoch for batch in loader for sample in batch}, loader.epoch

    assert [in_child(tmp_path, epochs_of_rows) for _ in range(2)] == [({0}, 1)] * 2
    assert epochs_of_rows() == ({0}, 1)


def test_a_finished_epoch_has_nothing_left(shards: list[Path]) -> None:
    given, state = read_some(make_loader(shards, 2), 100)
    # The iteration ended, so the state belongs to the next epoch.
    assert sorted(given) == ALL
    assert (state["epoch"], state["given"]) == (1, [])
    loader = make_loader(shards, 2)
    batches = iter(loader)
    given = []
    while len(given) < len(ALL):
        given += texts([next(batches)])
    resumed = make_loader(shards, state=loader.state_dict())
    assert texts(resumed) == []
    assert sorted(texts(resumed)) == ALL


def test_rows_of_an_iterable_resume(shards: list[Path]) -> None:
    rows = tuple(Item(b"%d" % number) for number in range(23))
    given, state = read_some(make_loader(rows, 2, shuffle_buffer=None), 3)
    resumed = make_loader(rows, 3, shuffle_buffer=5, state=state)
    assert sorted(map(int, given + texts(resumed))) == list(range(23))


def test_states_that_do_not_fit_are_refused(shards: list[Path]) -> None:
    _, state = read_some(make_loader(shards, rank=0, num_ranks=2), 1)
    _, other = read_some(make_loader(shards, rank=1, num_ranks=2), 1)
    make_loader(shards).load_state_dict([other, state])
    for wrong in (
        state,
        [state],
        [state, state],
        [],
        [state, {**other, "epoch": 1}],
        [state, {**other, "num_ranks": 3}],
        {},
    ):
        with pytest.raises(InvalidArgumentError):
            make_loader(shards).load_state_dict(wrong)
    with pytest.raises(InvalidArgumentError, match="states of all ranks"):
        make_loader(shards, rank=1, num_ranks=2).load_state_dict(state)
    for options, message in (
        ({"seed": 1}, "seed=0.* does not belong"),
        ({"shards": shards[1:]}, "num_shards=6.* does not belong"),
        ({"shards": shards[::-1]}, "does not belong .*are in another order"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            make_loader(**{"shards": shards, **options}).load_state_dict([state, other])


def test_invalid_epoch_does_not_move_a_loader(shards: list[Path]) -> None:
    loader = make_loader(shards)
    next(iter(loader))
    state = loader.state_dict()
    assert state["given"]
    with pytest.raises(InvalidArgumentError, match="epoch must be"):
        loader.set_epoch(-1)
    assert (loader.epoch, loader.state_dict()) == (0, state)


def test_a_state_is_small_however_many_samples_were_given(tmp_path: Path) -> None:
    shards = number_shards(tmp_path, (500, 500))
    _, state = read_some(make_loader(shards, 2, batch_size=16, shuffle_buffer=8), 50)
    assert len(json.dumps(state)) < 1500


def test_given_rows_are_a_set() -> None:
    choose = random.Random(0)
    given, reference = GivenRows([(5, 8), (7, 11)]), set(range(5, 11))
    for _ in range(300):
        row = choose.randrange(200)
        given.add(row)
        reference.add(row)
        assert [row in given for row in range(201)] == [row in reference for row in range(201)]
    assert {row for start, stop in given.intervals() for row in range(start, stop)} == reference
    starts_and_stops = list(itertools.chain(*given.intervals()))
    assert starts_and_stops == sorted(set(starts_and_stops))
    for start, stop in itertools.combinations(range(0, 200, 7), 2):
        assert given.contains_all(start, stop) == (set(range(start, stop)) <= reference)
