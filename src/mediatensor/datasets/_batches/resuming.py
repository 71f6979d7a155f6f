"""The order of rows in an epoch, and the position reached in it.

`RowBatches` is for datasets whose rows can be read in any order, `StreamProgress` for rows read from a stream.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from ..._engine.common.checks import function, shown, whole_number
from ...errors import InvalidArgumentError
from .._rows.dataset import MediaDataset, RowKey, rank_and_number
from .._rows.recipe import checked_epoch, derived_seed
from .._rows.samples import Sample, Skipped
from .._rows.tar_samples import GivenRows, StreamState, TarSamples, parse_stream_state, rows_given_in
from .._sources.items import FileOrder, Item

_STATE_VERSION = 1


@dataclass(frozen=True)
class Shuffle:
    """Settings for shuffling the rows of a dataset.

    By default, every order of all rows is equally likely. That is slow if each file has several rows, because the file
    is usually opened again for each of them. Reading is faster if rows of one file are close to each other: a file is
    then opened once for several rows, and a group of pictures is decoded once for several clips. ``rows_together``
    keeps some rows of a file next to each other, and ``window`` keeps all rows of a file near each other. Both make
    batches less varied; `shuffle_quality` measures by how much.

    Attributes:
        rows_together: Number of rows of one file that stay next to each other. Each epoch forms new groups of rows.
        window: If given, files are read in random order into a buffer of about ``window`` rows, from which groups of
            ``rows_together`` rows are drawn at random. So only rows of files that are close to each other in this order
            are mixed. ``None`` shuffles over the whole epoch.

    Raises:
        InvalidArgumentError: if a number is not positive.

    Example:
        >>> from mediatensor.datasets import DataLoader, Shuffle, VideoClips
        >>> clips = VideoClips("videos", num_frames_per_clip=4, rows_per_file=4)
        >>> loader = DataLoader(clips, batch_size=2, shuffle=Shuffle(rows_together=2))
        >>> [len(set(batch.source)) for batch in loader]  # two rows of one file stay together
        [1, 1, 1, 1, 1, 1]
    """

    rows_together: int = 1
    window: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("rows_together", self.rows_together), ("window", self.window)):
            if value is not None:
                whole_number(name, value, at_least=1, or_none=True)


class RowBatches(Sampler[list[RowKey]]):
    """A batch sampler for torch's DataLoader: it chooses the rows of each batch of an epoch, and can resume an epoch.

    In each training step, every rank reads one batch. In an epoch, all ranks together read every row once. The batches
    depend only on the arguments and the epoch, never on the number of workers or on how far they have read ahead. Every
    iteration returns the same batches, until `set_epoch` changes the epoch.

    Args:
        dataset: The dataset.
        batch_size: Number of rows in a batch of one rank.
        shuffle: Whether and how rows are shuffled, differently in each epoch; see `Shuffle`.
        seed: Seed of the order; by default the seed of the dataset.
        drop_last: Leave out batches that are not full. If ``False``, the last rows of an epoch are divided among the
            ranks, so the ranks' numbers of batches may differ by one.
        rank: Rank of this process; by default its rank in torch.distributed, or 0.
        num_ranks: Number of processes that read the dataset together; by default the number in torch.distributed, or 1.
        bucket_by: Function that sorts files into buckets, for example by frame size: it takes an `Item` and returns its
            bucket, which can be any hashable value. All rows of a batch are from one bucket.

    Raises:
        InvalidArgumentError: if an argument is invalid.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> from mediatensor.datasets import RowBatches, VideoClips, stack
        >>> dataset = VideoClips("videos", num_frames_per_clip=8)
        >>> batches = RowBatches(dataset, batch_size=2, shuffle=True)
        >>> loader = DataLoader(dataset, batch_sampler=batches, collate_fn=stack, num_workers=2)
        >>> for num_done, batch in enumerate(loader, start=1):
        ...     state = batches.state_dict(num_done)  # loading it resumes after this batch
        >>> batch.frames.data.shape
        torch.Size([1, 8, 3, 120, 160])
    """

    def __init__(
        self,
        dataset: MediaDataset,
        batch_size: int,
        *,
        shuffle: bool | Shuffle = False,
        seed: int | None = None,
        drop_last: bool = False,
        rank: int | None = None,
        num_ranks: int | None = None,
        bucket_by: Callable[[Item], Any] | None = None,
    ) -> None:
        self.batch_size = whole_number("batch_size", batch_size, at_least=1)
        if not isinstance(shuffle, bool | Shuffle):
            raise InvalidArgumentError(f"shuffle must be True, False or a Shuffle (got {shuffle!r}).")
        if not isinstance(dataset, MediaDataset):
            raise InvalidArgumentError(
                f"The dataset is of type {type(dataset).__name__}; it must be a MediaDataset. Choose or join the items "
                "that it is made of; or use torch's DataLoader, which takes subsets and joined datasets, with "
                "collate_fn=stack."
            )
        self.rank, self.num_ranks = rank_and_number(rank, num_ranks)
        self.drop_last = drop_last
        self._shuffle = Shuffle() if shuffle is True else shuffle or None
        self._seed = dataset.seed if seed is None else whole_number("seed", seed, or_none=True)
        self._dataset = dataset
        self._file_of_row = dataset.file_of_row
        function("bucket_by", bucket_by)
        self._buckets = None if bucket_by is None else [bucket_by(item) for item in dataset.items]
        # Properties that must be the same when a state is saved and when it is loaded.
        self._origin = {
            "version": _STATE_VERSION,
            "seed": self._seed,
            "num_rows": len(self._file_of_row),
            "order": _describe_order(self._shuffle, self._file_of_row, self._buckets),
        }
        #: The epoch of the next iteration.
        self.epoch = 0
        # What earlier runs have read of the epoch: for each run [batch size, ranks, number of batches].
        self._runs: list[list[int]] = []
        # The iteration that started last.
        self._iteration = _IterationState()
        # The steps of one epoch; copies of this object share them.
        self._plans: dict[Any, list[list[NDArray[np.int64]]]] = {}

    @property
    def is_resumed(self) -> bool:
        """Whether the next iteration skips rows of the epoch that were already read before resuming."""
        return bool(self._runs)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration.

        Example:
            >>> from mediatensor.datasets import RowBatches, VideoClips
            >>> batches = RowBatches(VideoClips("videos", num_frames_per_clip=4), batch_size=2, shuffle=True)
            >>> batches.set_epoch(1)
        """
        self.epoch, self._runs, self._iteration = checked_epoch(epoch), [], _IterationState()

    def take_position(self, other: RowBatches) -> None:
        """Let the next iteration start at the epoch and position of ``other``. Both must have the same rows."""
        self.epoch, self._runs, self._iteration = other.epoch, other._runs, _IterationState()

    def __iter__(self) -> Iterator[list[RowKey]]:
        epoch, outer = self.epoch, self._iteration
        self._iteration = drawn = _IterationState(is_open=True)
        try:
            for step in self._plan():
                if self.rank < len(step):
                    drawn.num_batches += 1
                    yield [RowKey(row, epoch) for row in step[self.rank].tolist()]
        finally:
            drawn.is_open = False
            if self._iteration is drawn and outer.is_open:
                self._iteration = outer  # this iteration ran within another one

    def __len__(self) -> int:
        """Return the number of batches that the next iteration returns on this rank."""
        return sum(self.rank < len(step) for step in self._plan())

    def _plan(self) -> list[list[NDArray[np.int64]]]:
        key = (self.epoch, self.batch_size, self.num_ranks, str(self._runs))
        if key not in self._plans:
            steps = self._steps(self._remaining_rows(), self.batch_size, self.num_ranks)
            self._plans.clear()
            self._plans[key] = steps
        return self._plans[key]

    def _remaining_rows(self) -> NDArray[np.int64]:
        rows = epoch_order(self._file_of_row, self._shuffle, seed=self._seed, epoch=self.epoch)
        for batch_size, num_ranks, num_batches in self._runs:
            done = [batch for step in self._steps(rows, batch_size, num_ranks)[:num_batches] for batch in step]
            rows = rows[~np.isin(rows, np.concatenate(done))] if done else rows
        return rows

    def _steps(self, rows: NDArray[np.int64], batch_size: int, num_ranks: int) -> list[list[NDArray[np.int64]]]:
        buckets = self._buckets
        bucket_of = None if buckets is None else lambda row: buckets[self._file_of_row[row]]
        return epoch_steps(rows, batch_size, num_ranks, drop_last=self.drop_last, bucket_of=bucket_of)

    def state_dict(self, num_batches: int | None = None) -> dict[str, Any]:
        """Return a state from which `load_state_dict` resumes after the batches that were used so far.

        Ranks that have used the same number of batches have the same state. It can be loaded with another batch size,
        and with other numbers of ranks and workers.

        Args:
            num_batches: How many batches of the last iteration were used; by default all that it has returned so far.
                The default is right for torchdata's ``StatefulDataLoader``, which asks for the state when it assigns
                batches to its workers. torch's ``DataLoader`` requests batches ahead of your loop, so with it you must
                count the used batches yourself. If a second iteration starts and ends while the first one is still
                running, ``num_batches`` counts the batches of the first one.
        """
        if num_batches is None:
            num_batches = self._iteration.num_batches
        num_batches = whole_number("num_batches", num_batches, at_least=0, or_none=True)
        runs = [*map(list, self._runs), [self.batch_size, self.num_ranks, num_batches]]
        return {
            "version": _STATE_VERSION,
            "epoch": self.epoch,
            **self._origin,
            "runs": [run for run in runs if run[2]],
            **({} if (files := self._dataset._file_order()) is None else files._asdict()),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration resume at a saved state.

        Raises:
            InvalidArgumentError: if ``state`` is not a saved state, or if the files, their order, the number of rows,
                the seed, the shuffling or ``bucket_by`` have changed since it was saved. Resuming would then repeat
                some rows and lose others.

        Example:
            >>> from mediatensor.datasets import RowBatches, VideoClips
            >>> batches = RowBatches(VideoClips("videos", num_frames_per_clip=4), batch_size=1)
            >>> state = batches.state_dict(2)  # after two batches
            >>> batches.load_state_dict(state)
            >>> len(list(batches))
            1
        """
        if not isinstance(state, Mapping):
            raise InvalidArgumentError(f"The state must be a mapping, what state_dict gave (got {shown(state)}).")
        _check_origin(state, self._origin, "dataset and order")
        _check_files(state, self._dataset._file_order())
        try:
            epoch = checked_epoch(state["epoch"])
            runs = [[int(n) for n in run] for run in state["runs"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"The state is damaged ({type(error).__name__}: {error}).") from None
        if any(len(run) != 3 or min(run) < 1 for run in runs):
            raise InvalidArgumentError(f"The state is damaged: its runs are {runs}.")
        self.epoch, self._runs, self._iteration = epoch, runs, _IterationState()


def _check_origin(state: Mapping[str, Any], own: Mapping[str, Any], owner: str) -> None:
    for name, value in own.items():
        if name == "shards" and state.get(name) != value:
            raise InvalidArgumentError(
                "The state does not belong to this stream: its shards have other names, or are in another order. Give "
                "the same shards in the same order, such as sorted(glob.glob(...))."
            )
        if state.get(name) != value:
            raise InvalidArgumentError(
                f"The state has {name}={shown(state.get(name))}, but here it is {value!r}: it does not belong to this "
                f"{owner}."
            )


def _check_files(state: Mapping[str, Any], here: FileOrder | None) -> None:
    """Raise InvalidArgumentError if ``state`` was saved with files other than ``here``, or with another file order."""
    # States saved by the first versions lack file names.
    if here is None or "files" not in state or state["files"] == here.files:
        return
    if state.get("first_file") == here.first_file:
        first = f"both begin with {here.first_file!r}, and a later file differs"
    else:
        first = f"the first file of the state is {shown(state.get('first_file'))}, and here it is {here.first_file!r}"
    if state.get("files_in_any_order") == here.files_in_any_order:
        raise InvalidArgumentError(
            f"The state is of the same files in another order ({first}): rows would be lost and other rows repeated. "
            "Give the files in one order on every machine: a folder, or sorted(glob.glob(...))."
        )
    raise InvalidArgumentError(
        f"The state is of other files, though of as many rows ({first}): rows would be lost and other rows repeated. "
        "It does not belong to this dataset. Files are compared by name, without the folder that all of them are in."
    )


@dataclass
class _IterationState:
    num_batches: int = 0
    is_open: bool = False


def _describe_order(shuffle: Shuffle | None, file_of_row: NDArray[np.int64], buckets: Sequence[Any] | None) -> str:
    """Return a text that describes how rows are ordered. Equal texts, seeds and epochs mean equal orders."""
    text = f"{shuffle or 'no shuffle'}; rows of files {zlib.crc32(file_of_row.astype('<i8').tobytes()):08x}"
    if buckets is None:
        return text
    number_of: dict[Any, int] = {}
    numbers = np.array([number_of.setdefault(bucket, len(number_of)) for bucket in buckets], "<i8")
    return f"{text}; buckets {zlib.crc32(numbers.tobytes()):08x}"


# The order of an epoch: pure functions


def epoch_order(file_of_row: NDArray[np.int64], shuffle: Shuffle | None, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the numbers of all rows in the order in which an epoch reads them, int64 (rows,).

    ``file_of_row`` has the file number of each row, and must be ascending.
    """
    num_rows = len(file_of_row)
    if shuffle is None:
        return np.arange(num_rows)
    random = np.random.Generator(np.random.Philox(derived_seed(seed, epoch, "order")))
    if shuffle.rows_together == 1 and shuffle.window is None:
        return random.permutation(num_rows)
    groups = _group_rows(file_of_row, shuffle.rows_together, random)
    return (
        np.concatenate([groups[i] for i in _shuffle_groups(groups, shuffle.window, random)]) if groups else np.arange(0)
    )


def _group_rows(
    file_of_row: NDArray[np.int64], rows_together: int, random: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Divide all rows at random into groups of ``rows_together`` rows of one file, and return them file by file.

    The files are in random order. The last group of a file can be smaller.
    """
    starts = np.flatnonzero(np.diff(file_of_row, prepend=-1))
    rows_by_file = np.split(np.arange(len(file_of_row)), starts[1:]) if len(starts) else []
    groups = []
    for file in random.permutation(len(rows_by_file)):
        rows = random.permutation(rows_by_file[file])
        groups += np.split(rows, range(rows_together, len(rows), rows_together))
    return groups


def _shuffle_groups(
    groups: list[NDArray[np.int64]], window: int | None, random: np.random.Generator
) -> Sequence[int] | NDArray[np.int64]:
    """Return the indices of ``groups`` in random order.

    Each index is drawn from a buffer that holds the next groups, up to ``window`` rows in total. Without ``window``,
    all orders are equally likely.
    """
    if window is None:
        return random.permutation(len(groups))
    order: list[int] = []
    waiting: list[int] = []
    num_waiting = following = 0
    while following < len(groups) or waiting:
        while following < len(groups) and (not waiting or num_waiting + len(groups[following]) <= window):
            waiting.append(following)
            num_waiting += len(groups[following])
            following += 1
        place = int(random.integers(len(waiting)))
        waiting[place], waiting[-1] = waiting[-1], waiting[place]
        order.append(waiting.pop())
        num_waiting -= len(groups[order[-1]])
    return order


def epoch_steps(
    order: NDArray[np.int64],
    batch_size: int,
    num_ranks: int,
    *,
    drop_last: bool = False,
    bucket_of: Callable[[int], Any] | None = None,
) -> list[list[NDArray[np.int64]]]:
    """Divide the rows of an epoch into training steps. For each step, return a list with one batch for each rank.

    Batches that are not full come at the end, and in the last step some ranks may have no batch. All rows of a batch
    are from one bucket.

    >>> import numpy as np
    >>> [[batch.tolist() for batch in step] for step in epoch_steps(np.arange(7), 2, 2)]
    [[[0, 1], [2, 3]], [[4, 5], [6]]]
    """
    size = batch_size * num_ranks
    whole, rest = _split_into_groups(order, size, bucket_of)
    steps = [np.split(rows, num_ranks) for rows in whole]
    if drop_last:
        return steps
    batches: list[NDArray[np.int64]] = []
    for rows in rest:
        # Each rank gets a batch if there are enough rows; otherwise some ranks get full batches.
        batches += np.array_split(rows, num_ranks if len(rows) >= num_ranks else -(-len(rows) // batch_size))
    return steps + [batches[first : first + num_ranks] for first in range(0, len(batches), num_ranks)]


def _split_into_groups(
    order: NDArray[np.int64], size: int, bucket_of: Callable[[int], Any] | None
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Divide rows into groups of ``size`` rows, so that each group is from one bucket.

    Return these groups, and for each bucket the rows that are left over.
    """
    if bucket_of is None:
        end = len(order) // size * size
        return [order[start : start + size] for start in range(0, end, size)], [order[end:]] if end < len(order) else []
    whole: list[NDArray[np.int64]] = []
    filling: dict[Any, list[int]] = {}
    for row in order.tolist():
        rows = filling.setdefault(bucket_of(row), [])
        rows.append(row)
        if len(rows) == size:
            whole.append(np.array(rows))
            rows.clear()
    return whole, [np.array(rows) for rows in filling.values() if rows]


def shuffle_quality(order: NDArray[np.int64], file_of_row: NDArray[np.int64], batch_size: int) -> dict[str, float]:
    """Measure how well an order mixes the rows of different files.

    Args:
        order: All row numbers of an epoch, in the order in which they are read.
        file_of_row: File number of each row.
        batch_size: Number of rows in a batch.

    Returns: ``files_per_batch``: the mean number of different files in a full batch, 0 if no batch is full.
        ``same_file_next``: the share of rows whose next row is from the same file, from 0 to 1. ``displacement``: the
        mean distance of rows from their original positions, divided by a third of the number of rows: 0 if not
        shuffled, about 1 if fully shuffled.

    Example:
        >>> import numpy as np
        >>> from mediatensor.datasets import shuffle_quality
        >>> shuffle_quality(np.arange(8), np.arange(8) // 2, batch_size=4)
        {'files_per_batch': 2.0, 'same_file_next': 0.5714285714285714, 'displacement': 0.0}
    """
    batch_size = whole_number("batch_size", batch_size, at_least=1)
    files = np.asarray(file_of_row)[np.asarray(order)]
    batches = files[: len(files) // batch_size * batch_size].reshape(-1, batch_size)
    num_rows = max(1, len(files))
    return {
        "files_per_batch": float(np.mean([len(np.unique(batch)) for batch in batches])) if len(batches) else 0.0,
        "same_file_next": float(np.mean(files[1:] == files[:-1])) if len(files) > 1 else 0.0,
        "displacement": float(np.mean(np.abs(np.asarray(order) - np.arange(len(files)))) / (num_rows / 3)),
    }


# Streams


class WithRows:
    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: list[Sample | Skipped]) -> tuple[Any, list[int]]:
        rows = [sample.row if isinstance(sample, Sample) else sample.failures[0].row for sample in samples]
        return self.collate(samples), rows


class StreamProgress:
    """The rows of an epoch that were already read from a stream.

    This class does for streams what `RowBatches` does for datasets. Copying a `StreamProgress` also copies its stream,
    so that the copies count epochs independently.
    """

    def __init__(self, stream: TarSamples) -> None:
        self.epoch = stream.epoch
        self.stream = stream
        self._given = GivenRows()
        # One rank may finish its share of an epoch earlier than others. Their states then need the rows that it read.
        self._last_epoch: tuple[int, GivenRows] = (-1, GivenRows())

    def __copy__(self) -> Self:
        own = type(self)(copy.copy(self.stream))
        own.take_position(self)
        return own

    def take_position(self, other: StreamProgress) -> None:
        self.epoch, self._last_epoch = other.epoch, other._last_epoch
        self._given = GivenRows(other._given.intervals())
        self.stream.take_position(other.stream)

    def read_with(self, stream: TarSamples) -> None:
        """Use ``stream`` from now on, and set it to the current position.

        ``stream`` is the copy that running persistent workers read from.
        """
        stream.take_position(self.stream)
        self.stream = stream

    @property
    def is_resumed(self) -> bool:
        return bool(self._given.intervals())

    def set_epoch(self, epoch: int) -> None:
        self._last_epoch = (self.epoch, self._given)
        self.epoch, self._given = epoch, GivenRows()
        self.stream.set_epoch(epoch)

    def take(self, batch_and_rows: tuple[Any, Sequence[int]]) -> Any:
        """Return the batch in a result of `WithRows`, and record its rows as read."""
        batch, rows = batch_and_rows
        for row in rows:
            self._given.add(row)
        return batch

    def state_dict(self) -> dict[str, Any]:
        self._check_resumable()
        return {
            "version": _STATE_VERSION,
            **self.stream.facts,
            "epoch": self.epoch,
            "rank": self.stream.rank,
            "num_ranks": self.stream.num_ranks,
            "given": self._given.intervals(),
            "last_epoch": self._last_epoch[0],
            "given_in_last_epoch": self._last_epoch[1].intervals(),
            "num_rows": [[shard, count] for shard, count in self.stream.num_rows().items()],
        }

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Resume at a saved state of this rank.

        If the number of ranks has changed, ``state`` is a list of the states of all ranks.
        """
        self._check_resumable()
        states = [state] if isinstance(state, Mapping) else state
        if not isinstance(states, Sequence) or not all(isinstance(one, Mapping) for one in states):
            raise InvalidArgumentError(f"A state is a mapping such as state_dict() gives (got {shown(state)}).")
        for one in states:
            _check_origin(one, {"version": _STATE_VERSION, **self.stream.facts}, "stream")
        try:
            saved = [parse_stream_state(one, self.stream.facts["num_shards"]) for one in states]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"The state is damaged ({type(error).__name__}: {error}).") from None
        self._check_ranks(saved)
        epoch = min(one.epoch for one in saved)
        intervals = [interval for one in saved for interval in rows_given_in(epoch, one)]
        num_rows = {shard: count for one in saved for shard, count in one.num_rows}
        self.epoch, self._given = epoch, GivenRows(intervals)
        if len(saved) == 1:
            self._last_epoch = (saved[0].last_epoch, GivenRows(saved[0].given_in_last_epoch))
        self.stream.resume(self.epoch, GivenRows(intervals), num_rows)

    def _check_resumable(self) -> None:
        if not self.stream.can_resume:
            raise InvalidArgumentError(
                f"{self.stream!r} does not record which rows were given: an IterableDataset divides its rows among "
                "workers itself. Resume it by its own means, or read shards with TarSamples."
            )

    def _check_ranks(self, states: Sequence[StreamState]) -> None:
        if len({state.num_ranks for state in states}) != 1:
            raise InvalidArgumentError("The states must be of one number of ranks, and there must be at least one.")
        num_ranks = states[0].num_ranks
        ranks = sorted(state.rank for state in states)
        is_own = [(state.rank, num_ranks) for state in states] == [(self.stream.rank, self.stream.num_ranks)]
        if not is_own and not (len(set(ranks)) == num_ranks and set(ranks) <= set(range(num_ranks))):
            raise InvalidArgumentError(
                f"There are states of the ranks {ranks} of {num_ranks}: each rank knows only its own rows. Load the "
                f"list of the states of all of them, or on rank {self.stream.rank} of {self.stream.num_ranks} the "
                "state of the same rank."
            )
