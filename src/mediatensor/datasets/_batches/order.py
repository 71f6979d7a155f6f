"""`RowBatches`: which rows make which batch, for every rank, and how far an epoch has come."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from ..._common.checks import function, shown, whole_number
from ...errors import InvalidArgumentError
from .._rows import MediaDataset, RowKey, checked_epoch, derived_seed, rank_and_number
from .._sources import Item

__all__ = ["RowBatches", "Shuffle", "epoch_order", "epoch_steps", "shuffle_quality"]


@dataclass(frozen=True)
class Shuffle:
    """How rows are shuffled.

    By default every order is equally likely. Reading is cheaper if a file is opened once for several rows, and a group
    of pictures decoded once for several clips. ``rows_together`` keeps rows of one file side by side, and ``window``
    keeps all rows of a file near each other. Both mix batches less; `shuffle_quality` measures by how much.

    Attributes:
        rows_together: How many rows of one file stay side by side. Each epoch groups other rows.
        window: Files are put in random order, and groups of rows are shuffled only within about this many rows.
            ``None`` shuffles the whole epoch.

    Raises:
        InvalidArgumentError: if a number is not positive.

    Example:
        >>> from mediatensor.datasets import DataLoader, Shuffle, VideoClips
        >>> clips = VideoClips("videos", num_frames_per_clip=4, rows_per_file=4)
        >>> loader = DataLoader(clips, batch_size=2, shuffle=Shuffle(rows_together=2))
        >>> [len(set(batch.source)) for batch in loader]  # two rows of one file stand together
        [1, 1, 1, 1, 1, 1]
    """

    rows_together: int = 1
    window: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("rows_together", self.rows_together), ("window", self.window)):
            if value is not None:
                whole_number(name, value, at_least=1, or_none=True)


def epoch_order(file_of_row: NDArray[np.int64], shuffle: Shuffle | None, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """The rows of an epoch in the order in which they are read.

    Args:
        file_of_row: For each row the number of its file, ascending.
        shuffle: ``None`` for the rows in order.
        seed: With ``epoch``, decides about the order.
        epoch: Number of the epoch.

    Returns:
        Every row once, int64 (rows,).
    """
    num_rows = len(file_of_row)
    if shuffle is None:
        return np.arange(num_rows)
    random = np.random.Generator(np.random.Philox(derived_seed(seed, epoch, "order")))
    if shuffle.rows_together == 1 and shuffle.window is None:
        return random.permutation(num_rows)
    groups = _groups(file_of_row, shuffle.rows_together, random)
    return np.concatenate([groups[i] for i in _shuffled(groups, shuffle.window, random)]) if groups else np.arange(0)


def _groups(file_of_row: NDArray[np.int64], rows_together: int, random: np.random.Generator) -> list[NDArray[np.int64]]:
    """Rows of one file in groups of random choice, file after file in random order."""
    starts = np.flatnonzero(np.diff(file_of_row, prepend=-1))
    rows_by_file = np.split(np.arange(len(file_of_row)), starts[1:]) if len(starts) else []
    groups = []
    for file in random.permutation(len(rows_by_file)):
        rows = random.permutation(rows_by_file[file])
        groups += np.split(rows, range(rows_together, len(rows), rows_together))
    return groups


def _shuffled(
    groups: list[NDArray[np.int64]], window: int | None, random: np.random.Generator
) -> Sequence[int] | NDArray[np.int64]:
    """The numbers of the groups, each drawn among the next groups that hold ``window`` rows."""
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
        chosen = int(random.integers(len(waiting)))
        waiting[chosen], waiting[-1] = waiting[-1], waiting[chosen]
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
    """The batches that the ranks read in each step.

    Args:
        order: The rows of the epoch.
        batch_size: Rows of one rank's batch.
        num_ranks: Number of ranks.
        drop_last: Leave out batches that are not full.
        bucket_of: Gives the bucket of a row; a batch has rows of one bucket. ``None`` for one bucket.

    Returns:
        For each step the batches of the first ranks. All ranks have one in every step but the last; batches that are
        not full come at the end.

    >>> import numpy as np
    >>> [[batch.tolist() for batch in step] for step in epoch_steps(np.arange(7), 2, 2)]
    [[[0, 1], [2, 3]], [[4, 5], [6]]]
    """
    size = batch_size * num_ranks
    whole, rest = _in_whole(order, size, bucket_of)
    steps = [np.split(rows, num_ranks) for rows in whole]
    if drop_last:
        return steps
    batches: list[NDArray[np.int64]] = []
    for rows in rest:
        # Enough for all ranks, or else whole batches for some: a rank must not read what another bucket left for it.
        batches += np.array_split(rows, num_ranks if len(rows) >= num_ranks else -(-len(rows) // batch_size))
    return steps + [batches[first : first + num_ranks] for first in range(0, len(batches), num_ranks)]


def _in_whole(
    order: NDArray[np.int64], size: int, bucket_of: Callable[[int], Any] | None
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Rows of one bucket in groups of ``size``, and the remaining rows of each bucket."""
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
    """How well an order mixes.

    Args:
        order: The rows of an epoch, as `epoch_order` gives them.
        file_of_row: For each row the number of its file.
        batch_size: Rows of a batch.

    Returns:
        ``files_per_batch``: the mean number of different files in a full batch.
        ``same_file_next``: how often the next row is of the same file, from 0 to 1.
        ``displacement``: how far rows are from where they were, as a share of what a full shuffle gives (a third of the
        epoch); 0 is no shuffle, about 1 a full one.

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


_STATE_VERSION = 1


class RowBatches(Sampler[list[RowKey]]):
    """The batches of an epoch: a batch sampler for torch's DataLoader that can resume an epoch.

    Each rank takes its share of the rows of a step, so that together the ranks read every row once. The batches follow
    from the arguments alone: they depend neither on workers nor on how far these have read ahead. Each iteration gives
    the same epoch until `set_epoch` names another.

    Args:
        dataset: The rows.
        batch_size: Rows of a batch, of one rank.
        shuffle: Whether and how rows are shuffled, anew in each epoch; see `Shuffle`.
        seed: Decides about the order; by default the seed of the dataset.
        drop_last: Leave out batches that are not full. Otherwise the last rows of an epoch are divided among the ranks,
            whose numbers of batches may then differ by one.
        rank: Number of this process; by default its rank in torch.distributed, or 0.
        num_ranks: How many processes read the dataset together; by default those of torch.distributed, or 1.
        bucket_by: Gives the bucket of a file, anything hashable; batches have rows of one bucket.

    Raises:
        InvalidArgumentError: if an argument is not among the accepted ones.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> from mediatensor.datasets import RowBatches, VideoClips, stack
        >>> dataset = VideoClips("videos", num_frames_per_clip=8)
        >>> batches = RowBatches(dataset, batch_size=2, shuffle=True)
        >>> loader = DataLoader(dataset, batch_sampler=batches, collate_fn=stack, num_workers=2)
        >>> for num_done, batch in enumerate(loader, start=1):
        ...     state = batches.state_dict(num_done)  # goes on behind this batch when it is loaded
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
        self._file_of_row = dataset.file_of_row
        function("bucket_by", bucket_by)
        self._buckets = None if bucket_by is None else [bucket_by(item) for item in dataset.items]
        self._order = _order_of(self._shuffle, self._file_of_row, self._buckets)
        #: The epoch of the next iteration.
        self.epoch = 0
        # The parts of the epoch that earlier runs have read: for each run [batch size, ranks, number of batches].
        self._runs: list[list[int]] = []
        self._num_drawn = 0
        self._planned: tuple[Any, list[list[NDArray[np.int64]]]] | None = None

    @property
    def is_resumed(self) -> bool:
        """Whether a part of the epoch was read before, and is left out of the next iteration."""
        return bool(self._runs)

    def set_epoch(self, epoch: int) -> None:
        """Have the next iteration begin an epoch.

        Example:
            >>> from mediatensor.datasets import RowBatches, VideoClips
            >>> batches = RowBatches(VideoClips("videos", num_frames_per_clip=4), batch_size=2, shuffle=True)
            >>> batches.set_epoch(1)
        """
        self.epoch, self._runs, self._num_drawn = checked_epoch(epoch), [], 0

    def __iter__(self) -> Iterator[list[RowKey]]:
        epoch = self.epoch
        self._num_drawn = 0
        for step in self._plan():
            if self.rank < len(step):
                self._num_drawn += 1
                yield [RowKey(row, epoch) for row in step[self.rank].tolist()]

    def __len__(self) -> int:
        """Number of batches that the next iteration gives on this rank."""
        return sum(self.rank < len(step) for step in self._plan())

    def _plan(self) -> list[list[NDArray[np.int64]]]:
        """The remaining steps of the epoch."""
        key = (self.epoch, self.batch_size, self.num_ranks, str(self._runs))
        if self._planned is None or self._planned[0] != key:
            self._planned = (key, self._steps(self._remaining_rows(), self.batch_size, self.num_ranks))
        return self._planned[1]

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
        """The state to load in order to go on behind a batch.

        It is the same on every rank that has used as many batches, and can be loaded with another number of ranks,
        workers, or another batch size.

        Args:
            num_batches: How many batches of the last iteration were used. By default all that it gave so far, which is
                right for torchdata's ``StatefulDataLoader``, because that asks as it hands out work. The workers of
                torch's DataLoader read ahead, so there you must count the batches yourself.
        """
        if num_batches is None:
            num_batches = self._num_drawn
        num_batches = whole_number("num_batches", num_batches, at_least=0, or_none=True)
        runs = [*map(list, self._runs), [self.batch_size, self.num_ranks, num_batches]]
        return {
            "version": _STATE_VERSION,
            "epoch": self.epoch,
            "seed": self._seed,
            "num_rows": len(self._file_of_row),
            "order": self._order,
            "runs": [run for run in runs if run[2]],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Have the next iteration go on where `state_dict` was taken.

        Raises:
            InvalidArgumentError: if it is not such a state, or that of a dataset with other numbers of rows, of another
                seed, shuffling or ``bucket_by``: some rows would come twice, and others never.

        Example:
            >>> from mediatensor.datasets import RowBatches, VideoClips
            >>> batches = RowBatches(VideoClips("videos", num_frames_per_clip=4), batch_size=1)
            >>> state = batches.state_dict(2)  # behind two batches
            >>> batches.load_state_dict(state)
            >>> len(list(batches))
            1
        """
        own = {
            "version": _STATE_VERSION,
            "seed": self._seed,
            "num_rows": len(self._file_of_row),
            "order": self._order,
        }
        if not isinstance(state, Mapping):
            raise InvalidArgumentError(f"The state must be a mapping, what state_dict gave (got {shown(state)}).")
        for name, value in own.items():
            if state.get(name) != value:
                raise InvalidArgumentError(
                    f"The state has {name}={state.get(name)!r}, but here it is {value!r}: it does not belong to this "
                    "dataset and order."
                )
        try:
            epoch = checked_epoch(state["epoch"])
            runs = [[int(n) for n in run] for run in state["runs"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"The state is damaged ({type(error).__name__}: {error}).") from None
        if any(len(run) != 3 or min(run) < 1 for run in runs):
            raise InvalidArgumentError(f"The state is damaged: its runs are {runs}.")
        self.epoch, self._runs, self._num_drawn = epoch, runs, 0


def _order_of(shuffle: Shuffle | None, file_of_row: NDArray[np.int64], buckets: Sequence[Any] | None) -> str:
    """Everything but seed and epoch that an order depends on, as text that is the same in every process."""
    text = f"{shuffle or 'no shuffle'}; rows of files {zlib.crc32(file_of_row.astype('<i8').tobytes()):08x}"
    if buckets is None:
        return text
    number_of: dict[Any, int] = {}
    numbers = np.array([number_of.setdefault(bucket, len(number_of)) for bucket in buckets], "<i8")
    return f"{text}; buckets {zlib.crc32(numbers.tobytes()):08x}"
