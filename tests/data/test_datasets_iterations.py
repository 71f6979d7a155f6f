"""Several iterations over one loader: each has its own position, and none loses rows of another."""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataset_samples import WORKERS, Made, made_dataset
from forked import run_program
from mediatensor.datasets import (
    DataLoader,
    Item,
    MediaDataset,
    RowBatches,
    TarItems,
    TarSamples,
    ToDevice,
    as_items,
)
from mediatensor.errors import InvalidArgumentError
from tar_files import TextRecipe, number_shards

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

NUM_ROWS = 12


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return number_shards(tmp_path_factory.mktemp("shards"), (3, 5, 4))


@pytest.fixture(params=["rows", "stream", "on a device"])
def source(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture(params=WORKERS)
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"batch_size": 2, **WORKERS[request.param]}


@pytest.fixture
def make_loader(source: str, options: dict[str, Any], shards: list[Path]) -> Callable[[], Any]:
    """Makes loaders of the same twelve rows, in batches of two."""

    def make() -> Any:
        if source == "stream":
            return DataLoader(TarSamples(shards, TextRecipe(), shuffle_buffer=4), **options)
        loader = DataLoader(made_dataset([1] * NUM_ROWS), shuffle=True, **options)
        return ToDevice(loader, "cpu") if source == "on a device" else loader

    return make


def rows_of(batch: Any) -> list[int]:
    return list(batch.row.tolist())


def all_rows(loader: Any) -> list[int]:
    return [row for batch in loader for row in rows_of(batch)]


@pytest.mark.slow
def test_looking_at_a_batch_within_a_loop_does_not_move_the_loop(make_loader: Callable[[], Any]) -> None:
    loader = make_loader()
    expected = sorted(all_rows(make_loader()))
    for epoch in range(2):
        for num_done in (1, 4):
            resumed = make_loader()
            seen, batches = [], iter(loader)
            for number, batch in enumerate(batches, start=1):
                assert batch.epoch == loader.epoch == epoch
                seen += rows_of(batch)
                assert next(iter(loader)).epoch == epoch + 1
                if number == num_done:
                    break
            resumed.load_state_dict(loader.state_dict())
            assert batches.state_dict() == loader.state_dict()
            rest = all_rows(resumed)
            assert sorted(seen + rest) == expected
            loader.set_epoch(epoch)
        assert sorted(all_rows(loader)) == expected
        assert loader.epoch == epoch + 1


@pytest.mark.slow
def test_a_whole_iteration_within_a_loop(make_loader: Callable[[], Any]) -> None:
    loader, resumed = make_loader(), make_loader()
    expected = sorted(all_rows(make_loader()))
    seen = []
    for number, batch in enumerate(loader):
        seen += rows_of(batch)
        if number == 1:
            assert sorted(all_rows(loader)) == expected
            resumed.load_state_dict(loader.state_dict())
            assert sorted(seen + all_rows(resumed)) == expected
    assert sorted(seen) == expected
    assert loader.epoch == 1


def test_iterations_side_by_side_have_states_of_their_own(make_loader: Callable[[], Any]) -> None:
    expected = sorted(all_rows(make_loader()))
    loader, resumed = make_loader(), make_loader()
    first, second = iter(loader), iter(loader)
    seen: tuple[list[int], list[int]] = ([], [])
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        assert (one.epoch, other.epoch) == (first.epoch, second.epoch) == (0, 1)
        seen[0].extend(rows_of(one))
        seen[1].extend(rows_of(other))
        if number == 2:
            break
    with pytest.raises(InvalidArgumentError, match=r"2 iterations .* 0, 1.*batches\.state_dict\(\)"):
        loader.state_dict()
    for given, batches in zip(seen, (first, second), strict=True):
        resumed.load_state_dict(batches.state_dict())
        assert resumed.epoch == batches.epoch
        assert sorted(given + all_rows(resumed)) == expected
    # The iterations that were asked for their states continue.
    seen[0].extend(all_rows(first))
    assert sorted(seen[0]) == expected
    assert loader.state_dict() == second.state_dict()
    second.close()
    assert list(second) == []


def test_zipping_a_loader_with_itself_gives_two_epochs(make_loader: Callable[[], Any]) -> None:
    loader = make_loader()
    expected = sorted(all_rows(make_loader()))
    # Workers of a stream give other numbers of batches in each epoch.
    pairs = list(itertools.zip_longest(loader, loader))
    for epoch in range(2):
        batches = [pair[epoch] for pair in pairs if pair[epoch] is not None]
        assert {batch.epoch for batch in batches} == {epoch}
        assert sorted(all_rows(batches)) == expected


@pytest.mark.slow
def test_states_of_two_iterations_are_resumed_side_by_side(make_loader: Callable[[], Any]) -> None:
    expected = sorted(all_rows(make_loader()))
    loader = make_loader()
    first, second = iter(loader), iter(loader)
    seen = [rows_of(next(first)), rows_of(next(second)) + rows_of(next(second))]
    states = [first.state_dict(), second.state_dict()]
    resumed = make_loader()
    iterations = []
    for state in states:
        resumed.load_state_dict(state)
        iterations.append(iter(resumed))
    for given, batches in zip(seen, iterations, strict=True):
        assert sorted(given + all_rows(batches)) == expected


def test_an_iteration_that_was_never_asked_for_a_batch_takes_no_epoch(make_loader: Callable[[], Any]) -> None:
    loader = make_loader()
    state = loader.state_dict()
    iter(loader)
    gc.collect()
    # Workers of a stream may have seen the end of a shard.
    assert {**loader.state_dict(), "num_rows": None} == {**state, "num_rows": None}
    assert {batch.epoch for batch in loader} == {0}


def test_going_to_an_epoch_leaves_other_iterations_alone(make_loader: Callable[[], Any]) -> None:
    loader = make_loader()
    expected = sorted(all_rows(make_loader()))
    batches = iter(loader)
    seen = rows_of(next(batches))
    loader.set_epoch(5)
    assert loader.state_dict()["epoch"] == 5
    assert {batch.epoch for batch in loader} == {5}
    assert sorted(seen + all_rows(batches)) == expected
    assert loader.epoch == 6


def test_two_loaders_of_a_stream_have_positions_of_their_own(shards: list[Path]) -> None:
    stream = TarSamples(shards, TextRecipe(), shuffle_buffer=4)

    def rows(batches: Any) -> list[Any]:
        return [(sample.epoch, sample.extra["text"], sample.extra["drawn"]) for batch in batches for sample in batch]

    first, second, third = (DataLoader(stream, batch_size=2, collate_fn=list) for _ in range(3))
    epochs = [rows(first) for _ in range(3)]
    assert [{row[0] for row in epoch} for epoch in epochs] == [{0}, {1}, {2}]
    assert rows(second) == epochs[0]
    batches = iter(second)
    given = [next(batches) for _ in range(2)]
    third.load_state_dict(batches.state_dict())
    assert rows(first) != epochs[2]
    assert first.epoch == 4
    assert sorted(rows(given) + rows(third)) == sorted(epochs[1])
    stream.set_epoch(2)
    assert rows([*given, *batches]) == epochs[1]
    assert rows(second) == epochs[2]
    assert rows(DataLoader(stream, batch_size=2, collate_fn=list)) == epochs[2]


def test_a_batch_sampler_counts_the_batches_of_the_outer_iteration() -> None:
    batches = RowBatches(made_dataset([1] * NUM_ROWS), 2)
    seen = []
    for keys in batches:
        seen += [key.row for key in keys]
        next(iter(batches))
        if len(seen) == 6:
            break
    resumed = RowBatches(made_dataset([1] * NUM_ROWS), 2)
    resumed.load_state_dict(batches.state_dict())
    assert sorted(seen + [key.row for keys in resumed for key in keys]) == list(range(NUM_ROWS))


def test_a_stream_that_cannot_resume_is_read_onto_a_device() -> None:
    torch_data = pytest.importorskip("torch.utils.data")

    class Rows(torch_data.IterableDataset):
        def __iter__(self) -> Any:
            return ({"path": None, "video": b"%d" % number} for number in range(4))

    loader = ToDevice(DataLoader(TarSamples(Rows(), TextRecipe()), batch_size=2), "cpu")
    batches = iter(loader)
    assert len(next(batches)) == 2
    with pytest.raises(InvalidArgumentError, match="cannot be resumed"):
        batches.state_dict()
    assert len(list(batches)) == 1


# --- states of other files


def loader_of(items: Any) -> DataLoader:
    return DataLoader(MediaDataset(items, Made()), 1)


def items_of(names: list[str], **bounds: Any) -> list[Item]:
    return [Item(name, label=0, extra={"num_frames": 1}, **bounds) for name in names]


def state_of(items: Any) -> dict[str, Any]:
    loader = loader_of(items)
    next(iter(loader))
    return json.loads(json.dumps(loader.state_dict()))  # type: ignore[no-any-return]


NAMES = ["/data/run/1.mp4", "/data/run/2.mp4", "/data/jump/1.mp4"]


def test_a_state_of_files_in_another_order_is_refused() -> None:
    state = state_of(items_of(NAMES))
    loader_of(items_of(NAMES)).load_state_dict(state)
    with pytest.raises(
        InvalidArgumentError, match=r"same files in another order \(.*'run/1.mp4'.*'jump/1.mp4'\).*sorted"
    ):
        loader_of(items_of(NAMES[::-1])).load_state_dict(state)
    with pytest.raises(InvalidArgumentError, match=r"same files in another order \(.*a later file differs"):
        loader_of(items_of([NAMES[0], *NAMES[:0:-1]])).load_state_dict(state)
    with pytest.raises(InvalidArgumentError, match="of other files"):
        loader_of(items_of([*NAMES[:2], "/data/jump/2.mp4"])).load_state_dict(state)


def test_a_state_resumes_with_files_in_another_folder() -> None:
    state = state_of(items_of(NAMES))
    for folder in ("/mnt/other/place", "https://example.org/videos", "videos"):
        loader = loader_of(items_of([name.replace("/data", folder) for name in NAMES]))
        loader.load_state_dict(state)
        assert len(list(loader)) == 2


def test_a_state_of_other_segments_is_refused() -> None:
    spans = [(0.0, 1.0), (1.0, 2.0)]
    segments = [items_of(["a.mp4"], start_seconds=start, end_seconds=stop)[0] for start, stop in spans]
    with pytest.raises(InvalidArgumentError, match="another order"):
        loader_of(segments[::-1]).load_state_dict(state_of(segments))


def test_a_state_without_names_is_accepted() -> None:
    """States that were saved before names were in them remain readable."""
    state = state_of(items_of(NAMES))
    without = {name: value for name, value in state.items() if "file" not in name}
    assert len(without) == len(state) - 3
    loader = loader_of(items_of(NAMES))
    loader.load_state_dict(without)
    assert len(list(loader)) == 2


def test_states_of_shards_and_tables_in_another_order_are_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    shards = number_shards(tmp_path, (2, 2))
    tables = []
    for number, names in enumerate((["a", "b"], ["b", "a"])):
        tables.append(tmp_path / str(number) / "rows.parquet")
        tables[-1].parent.mkdir()
        video = [{"bytes": b"x", "path": f"{name}.mp4"} for name in names]
        parquet.write_table(pyarrow.table({"video": video}), tables[-1])
    for one, other in (
        (TarItems(shards), TarItems(shards[::-1])),
        (as_items(tables[0], kind="video"), as_items(tables[1], kind="video")),
    ):
        order = [RowBatches(MediaDataset(items, TextRecipe()), 1) for items in (one, other)]
        with pytest.raises(InvalidArgumentError, match="another order"):
            order[1].load_state_dict(order[0].state_dict(1))
        order[0].load_state_dict(order[0].state_dict(1))


def test_shuffling_imports_nothing_while_another_thread_forks_workers() -> None:
    # A worker that is forked during an import of numpy.random waits for the lock of this import forever.
    program = (
        "import sys\n"
        "from mediatensor.datasets import DataLoader, VideoClips\n"
        "known = set(sys.modules)\n"
        "batches = DataLoader(VideoClips(['a.mp4', 'b.mp4']), shuffle=True).batches\n"
        "assert len(list(batches)) == 2\n"
        "print([name for name in sys.modules if name.startswith('numpy.random') and name not in known])\n"
    )
    assert run_program(program).stdout.strip() == "[]"
