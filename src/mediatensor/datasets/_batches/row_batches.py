"""`RowBatches`: the batch sampler, which chooses the rows of each batch and records the position in an epoch.

Its order of rows comes from the functions of ``order.py``. For rows that come from a stream in a given order,
`StreamProgress` records the position.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from ..._engine.common.checks import function, shown, whole_number
from ..._engine.common.locks import cached_property
from ...errors import InvalidArgumentError
from .._rows.dataset import MediaDataset, RowKey, rank_and_number
from .._rows.recipe import checked_epoch
from .._rows.samples import Sample, Skipped
from .._rows.tar_samples import GivenRows, StreamState, TarSamples, parse_stream_state, rows_given_in
from .._sources.items import FileOrder, Item
from .order import RowClasses, RowWeights, Shuffle, Weights, describe_order, epoch_order, epoch_steps

_STATE_VERSION = 1

#: The batches of each training step: for each rank, an array of rows, or of indices of rows.
_Steps = list[list[NDArray[np.int64]]]


class _EpochPlan(NamedTuple):
    """The rows of an epoch in ascending order, and batches of indices into them. A row can occur several times."""

    rows: NDArray[np.int64]
    steps: _Steps


class RowBatches(Sampler[list[RowKey]]):
    """A batch sampler for torch's DataLoader that chooses the rows of each batch of an epoch, and can resume an epoch.

    A row is one sample of the dataset, such as a clip; a file can have several rows. Iterating yields a list of
    `RowKey` for each batch. In each training step, every rank reads one batch. In an epoch, all ranks together read
    every row once, or with ``weights`` as often as its weight requires. The batches depend only on the arguments and
    the epoch, never on the number of workers or on how far they have read ahead. Every iteration over the sampler
    returns the same batches, until `set_epoch` changes the epoch.

    Args:
        dataset: A `MediaDataset`, such as `VideoClips`.
        batch_size: Number of rows in a batch of one rank.
        shuffle: ``True`` or a `Shuffle` shuffles the rows, differently in each epoch.
        seed: Seed of the order of the rows; by default ``dataset.seed``.
        drop_last: Leave out the last rows of an epoch (or of a bucket) if they are too few for a full batch on every
            rank. If ``False``, these rows are divided among the ranks, and some ranks may read one batch more than
            others.
        rank: Rank of this process; by default its rank in torch.distributed, or 0.
        num_ranks: Number of processes that read the dataset together; by default the number in torch.distributed, or 1.
        bucket_by: Function that takes an `Item` (a file) and returns its bucket, for example its frame size. A bucket
            can be any hashable value. All rows of a batch are from one bucket. By default, a batch can have rows of all
            files.
        weights: How often rows are read. By default, each row is read once in an epoch. ``"balanced"`` reads all
            classes equally often. A mapping sets the share of each class. Its keys are the names of the classes, or
            their labels if they have no names. A sequence, array or tensor has the weight of each row, (rows,). With
            weights, an epoch has ``rows_per_epoch`` rows, always in random order. A `Shuffle` passed as ``shuffle``
            still applies. A row whose expected number is 2.3 is read 2 or 3 times in an epoch, each time with new
            random numbers, so that clips and crops differ. With ``"balanced"`` or a mapping, the number of rows of each
            class in an epoch is its expected number, rounded down or up.
        rows_per_epoch: Number of rows of an epoch if ``weights`` are given; by default the number of rows of the
            dataset.

    Raises:
        InvalidArgumentError: if an argument is invalid, or if ``weights`` are ``"balanced"`` or a mapping and a file
            has no label.

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
        weights: Weights | None = None,
        rows_per_epoch: int | None = None,
    ) -> None:
        self.batch_size = whole_number("batch_size", batch_size, at_least=1)
        if not isinstance(shuffle, bool | Shuffle):
            raise InvalidArgumentError(f"shuffle must be True, False or a Shuffle (got {shuffle!r}).")
        if not isinstance(dataset, MediaDataset):
            raise InvalidArgumentError(
                f"The dataset is of type {type(dataset).__name__}; it must be a MediaDataset. For a part or a union of "
                "datasets, select or join their items; or use torch's DataLoader with collate_fn=stack."
            )
        self.rank, self.num_ranks = rank_and_number(rank, num_ranks)
        self.drop_last = drop_last
        self._shuffle = Shuffle() if shuffle is True else shuffle or None
        self._seed = dataset.seed if seed is None else whole_number("seed", seed, or_none=True)
        self._dataset = dataset
        self._file_of_row = dataset.file_of_row
        function("bucket_by", bucket_by)
        self._buckets = None if bucket_by is None else [bucket_by(item) for item in dataset.items]
        if weights is None and rows_per_epoch is not None:
            raise InvalidArgumentError("rows_per_epoch needs weights. Without weights, an epoch has each row once.")
        self._weights: RowWeights | None = None
        self._num_rows = len(self._file_of_row)
        if weights is not None:
            self._weights = RowWeights.of(weights, dataset.items, self._file_of_row)
            self._shuffle = self._shuffle or Shuffle()
            if rows_per_epoch is not None:
                self._num_rows = whole_number("rows_per_epoch", rows_per_epoch, at_least=1, or_none=True)
        # Properties that must be the same when a state is saved and when it is loaded.
        self._origin = {
            "version": _STATE_VERSION,
            "seed": self._seed,
            "num_rows": len(self._file_of_row),
            "order": "; ".join(
                (
                    describe_order(self._shuffle, self._file_of_row, self._buckets),
                    *(() if self._weights is None else (self._weights.describe(self._num_rows),)),
                )
            ),
        }
        #: The epoch of the next iteration.
        self.epoch = 0
        # What earlier runs have read of the epoch: for each run [batch size, ranks, number of batches].
        self._runs: list[list[int]] = []
        # The iteration that started last.
        self._iteration = _IterationState()
        # The plan of one epoch; copies of this object share it.
        self._plans: dict[Any, _EpochPlan] = {}

    @property
    def is_resumed(self) -> bool:
        """Whether the next iteration skips rows that were already read before `load_state_dict` resumed the epoch."""
        return bool(self._runs)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, which then starts with the first batch of this epoch.

        Example:
            >>> from mediatensor.datasets import RowBatches, VideoClips
            >>> batches = RowBatches(VideoClips("videos", num_frames_per_clip=4), batch_size=2, shuffle=True)
            >>> batches.set_epoch(1)
        """
        self.epoch, self._runs, self._iteration = checked_epoch(epoch), [], _IterationState()

    def take_position(self, other: RowBatches) -> None:
        """Let the next iteration start at the epoch and position of ``other``, a `RowBatches` with the same rows."""
        self.epoch, self._runs, self._iteration = other.epoch, other._runs, _IterationState()

    def __iter__(self) -> Iterator[list[RowKey]]:
        epoch, outer = self.epoch, self._iteration
        self._iteration = drawn = _IterationState(is_open=True)
        try:
            plan = self._plan()
            for step in plan.steps:
                if self.rank < len(step):
                    drawn.num_batches += 1
                    places = step[self.rank]
                    rows = plan.rows[places]
                    visits = places - np.searchsorted(plan.rows, rows)
                    yield [RowKey(row, epoch, visit) for row, visit in zip(rows.tolist(), visits.tolist(), strict=True)]
        finally:
            drawn.is_open = False
            if self._iteration is drawn and outer.is_open:
                self._iteration = outer  # this iteration ran within another one

    def __len__(self) -> int:
        """Return the number of batches that the next iteration returns on this rank."""
        return sum(self.rank < len(step) for step in self._plan().steps)

    def count_classes(self, epoch: int | None = None) -> dict[Any, int]:
        """Return a dict from each class to the number of its rows in an epoch, on all ranks together.

        The rows are planned, not read, so rows that turn out to be unreadable count as well. The keys are class names,
        or labels if the classes have no names. Rows without a label have the key ``None``.

        Args:
            epoch: Number of the epoch; by default the epoch of the next iteration. The whole epoch is counted, even
                after resuming.

        Example:
            >>> from mediatensor.datasets import RowBatches, VideoClips
            >>> files = [("videos/a.mp4", "run"), ("videos/b.mp4", "run"), ("videos/c.mp4", "jump")]
            >>> dataset = VideoClips(files, num_frames_per_clip=4)
            >>> RowBatches(dataset, batch_size=2).count_classes()
            {'jump': 1, 'run': 2}
            >>> RowBatches(dataset, batch_size=2, weights="balanced", rows_per_epoch=10).count_classes()
            {'jump': 5, 'run': 5}
        """
        epoch = self.epoch if epoch is None else checked_epoch(epoch)
        rows = self._rows_of(epoch)
        steps = self._steps(rows, self._order_of(rows, epoch), self.batch_size, self.num_ranks, self.drop_last)
        return self._classes.count_rows(rows[_join_batches(steps)])

    @cached_property
    def _classes(self) -> RowClasses:
        return RowClasses.of(self._dataset.items, self._file_of_row)

    def _plan(self) -> _EpochPlan:
        key = (self.epoch, self.batch_size, self.num_ranks, str(self._runs))
        if key not in self._plans:
            rows = self._rows_of(self.epoch)
            self._plans.clear()
            self._plans[key] = _EpochPlan(rows, self._remaining_steps(rows))
        return self._plans[key]

    def _rows_of(self, epoch: int) -> NDArray[np.int64]:
        """Return the rows of an epoch in ascending order. Other methods call an index of this array a *place*."""
        if self._weights is None:
            return np.arange(self._num_rows)
        return self._weights.draw(self._num_rows, seed=self._seed, epoch=epoch)

    def _order_of(self, rows: NDArray[np.int64], epoch: int) -> NDArray[np.int64]:
        return epoch_order(self._file_of_row[rows], self._shuffle, seed=self._seed, epoch=epoch)

    def _remaining_steps(self, rows: NDArray[np.int64]) -> _Steps:
        places = self._order_of(rows, self.epoch)
        *earlier, (batch_size, num_ranks, num_done) = self._runs_with(0)
        for earlier_size, earlier_ranks, num_batches in earlier:
            # The run may have read the last rows, even if they are now left out. They come after all full batches.
            steps = self._steps(rows, places, earlier_size, earlier_ranks, drop_last=False)
            places = places[~np.isin(places, _join_batches(steps[:num_batches]))]
        return self._steps(rows, places, batch_size, num_ranks, self.drop_last)[num_done:]

    def _runs_with(self, num_batches: int) -> list[list[int]]:
        """Return the runs of the epoch, of which the last one has this batch size and number of ranks.

        ``num_batches`` are added to it. It continues the run before if that was divided in the same way: the remaining
        rows alone might be divided otherwise.
        """
        runs, own = [run.copy() for run in self._runs], [self.batch_size, self.num_ranks]
        if not runs or runs[-1][:2] != own:
            runs.append([*own, 0])
        runs[-1][2] += num_batches
        return runs

    def _steps(
        self, rows: NDArray[np.int64], places: NDArray[np.int64], batch_size: int, num_ranks: int, drop_last: bool
    ) -> _Steps:
        buckets = self._buckets
        bucket_of = None if buckets is None else lambda place: buckets[self._file_of_row[rows[place]]]
        return epoch_steps(places, batch_size, num_ranks, drop_last=drop_last, bucket_of=bucket_of)

    def state_dict(self, num_batches: int | None = None) -> dict[str, Any]:
        """Return a dict from which `load_state_dict` resumes the epoch after the batches that were used so far.

        The dict has numbers, text and lists, so it can be written as JSON. Ranks that have used the same number of
        batches have the same state. The state can be loaded with another batch size, and with other numbers of ranks
        and workers.

        Args:
            num_batches: How many batches of the last iteration your loop has used; by default all that the sampler has
                returned in it so far. The default is right for torchdata's ``StatefulDataLoader``, which asks for the
                state when it assigns batches to its workers. The ``DataLoader`` of torch requests batches ahead of your
                loop, so with it you must count the used batches yourself. If a second iteration starts and ends while
                the first one is still running, ``num_batches`` counts the batches of the first one.
        """
        if num_batches is None:
            num_batches = self._iteration.num_batches
        num_batches = whole_number("num_batches", num_batches, at_least=0, or_none=True)
        return {
            "epoch": self.epoch,
            **self._origin,
            "runs": [run for run in self._runs_with(num_batches) if run[2]],
            **({} if (files := self._dataset._file_order) is None else files._asdict()),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration resume the epoch at a state that `state_dict` returned.

        Raises:
            InvalidArgumentError: if ``state`` is not a saved state, or if the files, their order, the number of rows,
                the seed, the shuffling, the weights or ``bucket_by`` have changed since it was saved. Resuming would
                then repeat some rows and lose others.

        Example:
            >>> from mediatensor.datasets import RowBatches, VideoClips
            >>> batches = RowBatches(VideoClips("videos", num_frames_per_clip=4), batch_size=1)
            >>> state = batches.state_dict(2)  # after two batches
            >>> batches.load_state_dict(state)
            >>> len(list(batches))
            1
        """
        if not isinstance(state, Mapping):
            raise InvalidArgumentError(
                f"The state must be a mapping that state_dict returned (got {shown(state)}). It is the same on all "
                "ranks, so pass the state of one rank."
            )
        _check_origin(state, self._origin, "dataset and order")
        _check_files(state, self._dataset._file_order)
        try:
            epoch = checked_epoch(state["epoch"])
            runs = [[int(n) for n in run] for run in state["runs"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"The state is damaged ({type(error).__name__}: {error}).") from None
        if any(len(run) != 3 or min(run) < 1 for run in runs):
            raise InvalidArgumentError(f"The state is damaged: its runs are {runs}.")
        self.epoch, self._runs, self._iteration = epoch, runs, _IterationState()

    # Used by `DataLoader`. `StreamProgress` defines the same names.

    #: Whether persistent workers can read from a loaded state.
    _resumes_in_running_workers = True

    @property
    def _needs_every_batch(self) -> bool:
        """Whether a batch whose rows were all skipped must be replaced: the other ranks make a step meanwhile."""
        return self.num_ranks > 1

    def _loader_attributes(self) -> dict[str, Any]:
        """Return the attributes of torch's loader with which it reads these rows."""
        return {"batch_sampler": self}

    def _continue_in(self, iterator: Any, previous: RowBatches) -> None:
        """Let the workers of ``iterator``, torch's iterator that has read ``previous``, read these rows next."""
        iterator._index_sampler = self

    def _take(self, result: Any) -> Any:
        """Return the batch in a result of torch's iterator."""
        return result


def _join_batches(steps: _Steps) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *(batch for step in steps for batch in step)])


def _check_origin(state: Mapping[str, Any], own: Mapping[str, Any], owner: str) -> None:
    for name, value in own.items():
        if state.get(name) != value:
            raise InvalidArgumentError(
                "The state does not belong to this stream: its shards have other names, or are in another order. Pass "
                "the same shards in the same order, such as sorted(glob.glob(...))."
                if name == "shards"
                else f"The state has {name}={shown(state.get(name))}, but here it is {value!r}. The state does not "
                f"belong to this {owner}."
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
            f"The state is of the same files in another order ({first}), so rows would be lost and others repeated. "
            "Pass the files in the same order on every machine, such as a folder or sorted(glob.glob(...))."
        )
    raise InvalidArgumentError(
        f"The state is of other files with the same number of rows ({first}), so rows would be lost and others "
        "repeated. It does not belong to this dataset. Files are compared by name, without the folder that all of "
        "them share."
    )


@dataclass
class _IterationState:
    num_batches: int = 0
    is_open: bool = False


# Streams


class WithRows:
    """Collate function for streams: returns a batch together with the numbers of its rows, for `StreamProgress`."""

    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: list[Sample | Skipped]) -> tuple[Any, list[int]]:
        rows = [sample.row if isinstance(sample, Sample) else sample.failures[0].row for sample in samples]
        return self.collate(samples), rows


class StreamProgress:
    """The rows of an epoch that were already read from a stream: for streams, the counterpart of `RowBatches`.

    It has its own copy of the stream, so that several loaders of a stream, and several iterations over a loader, count
    epochs independently.
    """

    # Persistent workers do not know which rows of a resumed epoch they must leave out.
    _resumes_in_running_workers = False
    _needs_every_batch = False

    def __init__(self, stream: TarSamples) -> None:
        self.epoch = stream.epoch
        self.stream = copy.copy(stream)
        self._given = GivenRows()
        # One rank may finish its share of an epoch earlier than others. Their states then need the rows that it read.
        self._last_epoch: tuple[int, GivenRows] = (-1, GivenRows())

    def __copy__(self) -> Self:
        own = type(self)(self.stream)
        own.take_position(self)
        return own

    def take_position(self, other: StreamProgress) -> None:
        self.epoch, self._last_epoch = other.epoch, other._last_epoch
        self._given = GivenRows(other._given.intervals())
        self.stream.take_position(other.stream)

    @property
    def is_resumed(self) -> bool:
        return bool(self._given.intervals())

    def set_epoch(self, epoch: int) -> None:
        self.stream.set_epoch(epoch)  # this raises an error if the epoch is invalid
        self._last_epoch = (self.epoch, self._given)
        self.epoch, self._given = epoch, GivenRows()

    def count_classes(self, epoch: int | None) -> dict[Any, int]:
        raise InvalidArgumentError("The classes of a stream are unknown before its rows are read.")

    def _loader_attributes(self) -> dict[str, Any]:
        self.stream._share_position()
        return {"dataset": self.stream}

    def _continue_in(self, iterator: Any, previous: StreamProgress) -> None:
        """Use the stream from which the running workers read, and set it to the current position."""
        previous.stream.take_position(self.stream)
        self.stream = previous.stream

    def _take(self, result: tuple[Any, Sequence[int]]) -> Any:
        """Return the batch in a result of `WithRows`, and record its rows as read."""
        batch, rows = result
        for row in rows:
            self._given.add(row)
        return batch

    def state_dict(self, num_batches: int | None = None) -> dict[str, Any]:
        """Return the state after the rows that `_take` has recorded. ``num_batches`` has no effect."""
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
        self._check_resumable()
        states = [state] if isinstance(state, Mapping) else state
        if not isinstance(states, Sequence) or not all(isinstance(one, Mapping) for one in states):
            raise InvalidArgumentError(f"A state must be a mapping that state_dict returned (got {shown(state)}).")
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
                f"{self.stream!r} cannot be resumed, because an IterableDataset divides its rows among workers itself. "
                "Use its own way to resume, or read shards with TarSamples."
            )

    def _check_ranks(self, states: Sequence[StreamState]) -> None:
        if len({state.num_ranks for state in states}) != 1:
            raise InvalidArgumentError(
                "There must be at least one state, and all states must be of the same number of ranks."
            )
        num_ranks = states[0].num_ranks
        ranks = sorted(state.rank for state in states)
        is_own = [(state.rank, num_ranks) for state in states] == [(self.stream.rank, self.stream.num_ranks)]
        if not is_own and not (len(set(ranks)) == num_ranks and set(ranks) <= set(range(num_ranks))):
            raise InvalidArgumentError(
                f"The states are of the ranks {ranks} of {num_ranks}, but the state of a rank has only its own rows. "
                f"Load a list of the states of all ranks, or on rank {self.stream.rank} of {self.stream.num_ranks} the "
                "state of the same rank."
            )
