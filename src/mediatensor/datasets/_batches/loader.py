"""`DataLoader`: torch's, with the order, the resuming and the reports of media datasets."""

from __future__ import annotations

import copy
import multiprocessing
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, overload

import torch.utils.data

from ..._engine.common.checks import finite_number, function, shown, whole_number
from ..._engine.common.devices import tensors_on_cpu
from ...errors import InvalidArgumentError, TooManyFailuresError
from .._rows.dataset import ColumnDataset, MediaDataset, RowKey
from .._rows.recipe import derived_seed
from .._rows.samples import Batch, ColumnDict, FailureReport
from .._rows.tar_samples import TarSamples
from .._rows.transport import why_no_workers
from .._sources.items import Item
from .collate import stack, stack_columns
from .iterations import BatchIterator, Iterations
from .order import Shuffle
from .resuming import RowBatches, StreamProgress, WithRows

__all__ = ["DataLoader"]

B = TypeVar("B")


class DataLoader(torch.utils.data.DataLoader[B]):
    """torch's ``DataLoader`` for media datasets: it shuffles anew in each epoch, divides rows among ranks, and resumes.

    Every iteration is another epoch, the first one epoch 0: ``for _ in range(loader.epoch, num_epochs)`` goes over
    the remaining epochs, also after resuming. `state_dict` counts the batches that the loop *received*. Batches that
    workers have read ahead are read again after resuming, and no row is lost or given twice.

    A loop may begin another iteration over the same loader, as ``next(iter(loader))`` does to look at a batch. It does
    not change the loop's position or the next epoch. While several iterations are under way, as with
    ``zip(loader, loader)``, each has a position of its own: ``iter(loader)`` gives a `BatchIterator`, with
    ``state_dict()`` and ``epoch``.

    Args:
        dataset: The rows; or `TarSamples`, which shuffle and divide their rows themselves.
        batch_size: Rows of a batch, of one rank. As long as its product with the number of ranks is the same, steps
            have the same rows.
        shuffle: Whether and how rows are shuffled; see `Shuffle`.
        collate_fn: Makes a batch of samples: `stack`, `ragged`, `pad`, or a function of your own. By default `stack`;
            for rows that are dicts `stack_columns`.
        seed, drop_last, rank, num_ranks, bucket_by: See `RowBatches`. If all ranks must make the same number of steps,
            as with ``DistributedDataParallel``, set ``drop_last=True``. Rows that cannot be read do not change the
            number: with several ranks and ``on_error="skip"``, a batch of which every row was skipped has one row of
            another file. With `TarSamples`, whose ranks make different numbers of steps, ``drop_last`` leaves out the
            last rows of each worker, and the other arguments go to `TarSamples`.
        options: Further arguments of torch's ``DataLoader``: ``num_workers``, ``pin_memory``, ``prefetch_factor``,
            ``persistent_workers``, ``multiprocessing_context``, ``timeout`` ...

    Attributes:
        batches: The `RowBatches` that says which rows make which batch; for a stream, the object that counts its rows.
        failures: `FailureReport` of all batches given so far: exact numbers, and the last failures.

    Raises:
        InvalidArgumentError: if an argument of ours is not among the accepted ones.
        TooManyFailuresError: by an iteration in which not one row could be read.

    Example:
        >>> import torch
        >>> from mediatensor.datasets import DataLoader, VideoClips
        >>> dataset = VideoClips("videos", num_frames_per_clip=8, on_error="skip")
        >>> loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=1)
        >>> for batch in loader:
        ...     frames = batch.frames.data  # train(frames, batch.label)
        ...     torch.save(loader.state_dict(), "loader.pt")
        >>> print(loader.failures)
        0 rows could not be read (0 skipped, 0 replaced), of 0 files.
    """

    @overload
    def __init__(
        self,
        dataset: MediaDataset | TarSamples,
        batch_size: int = 1,
        shuffle: bool | Shuffle = False,
        *,
        collate_fn: Callable[[list[Any]], B],
        seed: int | None = None,
        drop_last: bool = False,
        rank: int | None = None,
        num_ranks: int | None = None,
        bucket_by: Callable[[Item], Any] | None = None,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: DataLoader[ColumnDict],
        dataset: ColumnDataset,
        batch_size: int = 1,
        shuffle: bool | Shuffle = False,
        *,
        seed: int | None = None,
        drop_last: bool = False,
        rank: int | None = None,
        num_ranks: int | None = None,
        bucket_by: Callable[[Item], Any] | None = None,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: DataLoader[Batch],
        dataset: MediaDataset | TarSamples,
        batch_size: int = 1,
        shuffle: bool | Shuffle = False,
        *,
        seed: int | None = None,
        drop_last: bool = False,
        rank: int | None = None,
        num_ranks: int | None = None,
        bucket_by: Callable[[Item], Any] | None = None,
        **options: Any,
    ) -> None: ...
    def __init__(
        self,
        dataset: MediaDataset | TarSamples,
        batch_size: int = 1,
        shuffle: bool | Shuffle = False,
        *,
        collate_fn: Callable[[list[Any]], Any] = stack,
        seed: int | None = None,
        drop_last: bool = False,
        rank: int | None = None,
        num_ranks: int | None = None,
        bucket_by: Callable[[Item], Any] | None = None,
        **options: Any,
    ) -> None:
        if collate_fn is stack and isinstance(dataset, ColumnDataset):
            collate_fn = stack_columns
        _check_options(collate_fn, options)
        if taken := sorted({"batch_sampler", "sampler"} & options.keys()):
            raise InvalidArgumentError(
                f"{taken[0]} cannot be given: rows come in the order of RowBatches. torch's DataLoader takes it, and a "
                "RowBatches of yours as batch_sampler."
            )
        order = {"shuffle": shuffle, "seed": seed, "rank": rank, "num_ranks": num_ranks, "bucket_by": bucket_by}
        self.batches: RowBatches | StreamProgress
        if isinstance(dataset, TarSamples):
            _refuse(order)
            self.batches = StreamProgress(dataset)
            options |= {"batch_size": batch_size, "drop_last": drop_last, "collate_fn": WithRows(collate_fn)}
        else:
            self.batches = RowBatches(dataset, batch_size, drop_last=drop_last, **order)  # type: ignore[arg-type]
            if not options.get("in_order", True):
                raise InvalidArgumentError("in_order must be True: resuming counts batches, in their order.")
            options |= {"batch_sampler": self.batches, "collate_fn": collate_fn}
        self.failures = FailureReport()
        self._iterations: Iterations[_Position] = Iterations()
        # Whether an iteration over the epoch of `batches` has begun, so that the next one is over the next epoch.
        self._has_begun = False
        # The iteration that persistent workers read for.
        self._kept: _Position | None = None
        # Without a generator of its own, torch's loader takes a number from the global one whenever an iteration
        # begins: a training that resumes, and so begins once more, would go on with other random numbers.
        own_seed = derived_seed(dataset.seed if seed is None else seed, "workers")
        options.setdefault("generator", torch.Generator().manual_seed(own_seed))
        if options.get("num_workers") and not getattr(getattr(dataset, "items", None), "is_fork_safe", True):
            options["multiprocessing_context"] = _context_without_fork(options.get("multiprocessing_context"))
        try:
            super().__init__(dataset, **options)  # type: ignore[arg-type]
        except ValueError as error:  # options that do not go together
            raise InvalidArgumentError(f"DataLoader: {error}") from None
        self._do_without_workers_if_need_be()

    def _do_without_workers_if_need_be(self) -> None:
        reason = why_no_workers(self.multiprocessing_context) if self.num_workers > 0 else None
        if reason is not None:
            warnings.warn(
                f"Worker processes cannot be started here, so this process reads the batches itself ({reason}). They "
                "need semaphores, which on Linux means that files can be made in /dev/shm.",
                stacklevel=3,
            )
            self.num_workers, self.prefetch_factor, self.timeout = 0, None, 0

    @property
    def epoch(self) -> int:
        """The epoch that is being iterated over, or the first one."""
        return self.batches.epoch

    def set_epoch(self, epoch: int) -> None:
        """Have the next iteration begin an epoch.

        Example:
            >>> from mediatensor.datasets import DataLoader, VideoClips
            >>> loader = DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=2)
            >>> loader.set_epoch(3)
            >>> loader.epoch
            3
        """
        self.batches.set_epoch(epoch)
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Have the next iteration begin where `batches` is; those that are under way do not count any more."""
        self._iterations.forget()
        self._has_begun = False

    def __iter__(self) -> BatchIterator[B]:  # type: ignore[override]
        if self._has_begun:
            if (outer := self._iterations.newest) is not None:
                self.batches.take_position(outer.batches)  # type: ignore[arg-type]
            self.batches.set_epoch(self.epoch + 1)
        position = _Position(copy.copy(self.batches))
        with tensors_on_cpu():  # where the generator of this loader is
            source = self._read(position)
        self._has_begun = True
        self._iterations.begin(position)
        return BatchIterator(self._give(source, position), position, partial(self._end, position, is_over=False))

    def _read(self, position: _Position) -> Any:
        """torch's iterator over the batches of an iteration, which has its own rows or stream."""
        reader = copy.copy(self)
        # torch's loader does not let them be set.
        if isinstance(position.batches, StreamProgress):
            vars(reader)["dataset"] = position.batches.stream
        else:
            vars(reader)["batch_sampler"] = position.batches
        if not (self.persistent_workers and self.num_workers > 0):
            return reader._get_iterator()
        if self._kept is not None and not self._kept.has_ended:
            return reader._get_iterator()  # persistent workers read for one iteration at a time
        if self._iterator is None or self._kept is None:
            self._iterator = reader._get_iterator()
        else:
            if isinstance(position.batches, StreamProgress):
                position.batches.read_with(self._kept.batches.stream)  # type: ignore[union-attr]
            else:
                self._iterator._index_sampler = position.batches
            self._iterator._reset(self)
        self._kept = position
        return self._iterator

    def _give(self, source: Any, position: _Position) -> Generator[B, None, None]:
        """The batches of an iteration."""
        is_over = False
        position.has_begun = True
        is_empty, num_failures_before = not position.batches.is_resumed, len(self.failures)
        try:
            for batch in source:
                position.num_given += 1
                if isinstance(position.batches, StreamProgress):
                    batch = position.batches.take(batch)
                if isinstance(batch, Batch | ColumnDict):
                    self.failures.add(batch.failures)
                    if not len(batch):  # every row was skipped
                        if isinstance(position.batches, StreamProgress) or position.batches.num_ranks == 1:
                            continue
                        batch = self._instead_of(batch)
                is_empty = False
                yield batch
            is_over = True
        finally:
            self._end(position, is_over=is_over)
        # Each worker sees its own failures only: too few, perhaps, to be too many.
        if is_empty and len(self.failures) > num_failures_before:
            last = self.failures.failures[-1]
            raise TooManyFailuresError(
                f"Not one row of the epoch could be read; the last failure is of {last.source!r}: {last.error}: "
                f"{last.message}"
            )

    def _instead_of(self, batch: Batch | ColumnDict) -> Any:
        """A batch of one row of another file: ranks that train together wait for each other in every step."""
        first, dataset = batch.failures[0], self.dataset
        assert isinstance(dataset, MediaDataset)
        filled = self.collate_fn([dataset._read_another(RowKey(first.row, first.epoch))])
        filled = copy.copy(filled)
        filled.failures, filled.timings = batch.failures, batch.timings
        return filled

    def _end(self, position: _Position, *, is_over: bool) -> None:
        """Have the loader be where it is once an iteration is over, or was left before its end."""
        position.has_ended = True
        if not self._iterations.end(position, is_over=is_over):
            return
        if (outer := self._iterations.newest) is not None:
            self.batches.take_position(outer.batches)  # type: ignore[arg-type]
            return
        self.batches.take_position(position.batches)  # type: ignore[arg-type]
        self._has_begun = position.has_begun and not is_over
        if is_over:
            self.batches.set_epoch(position.epoch + 1)

    def state_dict(self) -> dict[str, Any]:
        """The position of the next batch, for `load_state_dict`, in plain numbers and lists.

        Raises:
            InvalidArgumentError: if the dataset is a stream whose rows have no places that stay the same; or if several
                iterations over this loader are under way, each of which has its own ``state_dict()``.
        """
        position = self._iterations.current()
        return (_Position(self.batches) if position is None else position).state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Have the next iteration continue where `state_dict` was called, with any workers, ranks and batch size.

        Args:
            state: The state, which is the same on all ranks. With `TarSamples`, each rank has its own state: load the
                state of the same rank, or a list of the states of all ranks if the number of ranks has changed.

        Raises:
            InvalidArgumentError: if it is not such a state, or that of a dataset with other files, with files in
                another order, with other numbers of rows, of another seed, shuffling or ``bucket_by``. Files are
                compared by name, without the folder that all of them are in.

        Example:
            >>> from mediatensor.datasets import DataLoader, VideoClips
            >>> loader = DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=1)
            >>> batches = iter(loader)
            >>> first = next(batches)
            >>> other = DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=1)
            >>> other.load_state_dict(loader.state_dict())
            >>> [batch.source for batch in other] == [batch.source for batch in batches]
            True
        """
        if isinstance(self.batches, StreamProgress):
            self.batches.load_state_dict(state)
            # Workers that outlive an epoch do not know what to leave out of this one.
            self._iterator = self._kept = None
        elif isinstance(state, Mapping):
            self.batches.load_state_dict(state)
        else:
            raise InvalidArgumentError("The state must be that of one rank: it is the same on all of them.")
        self._begin_anew()


class _Position:
    """Where an iteration over a loader is.

    Args:
        batches: Its own rows or stream.

    Attributes:
        batches: Those.
        num_given: How many batches it gave.
        has_begun: Whether a batch was asked for.
        has_ended: Whether it gave all batches, or was left.
    """

    def __init__(self, batches: RowBatches | StreamProgress) -> None:
        self.batches = batches
        self.num_given = 0
        self.has_begun = False
        self.has_ended = False

    @property
    def epoch(self) -> int:
        return self.batches.epoch

    def state_dict(self) -> dict[str, Any]:
        if isinstance(self.batches, StreamProgress):
            return self.batches.state_dict()
        return self.batches.state_dict(self.num_given)


def _check_options(collate_fn: Callable[[list[Any]], Any], options: Mapping[str, Any]) -> None:
    """Raise unless what goes to torch's DataLoader is of the types that it takes."""
    if not callable(collate_fn):
        raise InvalidArgumentError(f"collate_fn must be a function such as stack (got {shown(collate_fn)}).")
    function("worker_init_fn", options.get("worker_init_fn"))
    whole_number("num_workers", options.get("num_workers", 0), at_least=0)
    if options.get("prefetch_factor") is not None:
        whole_number("prefetch_factor", options["prefetch_factor"], at_least=1, or_none=True)
    if finite_number("timeout", options.get("timeout", 0)) < 0:
        raise InvalidArgumentError(f"timeout must be a number of seconds from 0 on (got {options['timeout']!r}).")


def _context_without_fork(context: Any) -> Any:
    """How to start workers for items that cannot be read in a forked process: as asked for, or in place of forking.

    Raises:
        InvalidArgumentError: if forking was asked for.
    """
    method = context if isinstance(context, str) else (context or multiprocessing).get_start_method()
    if method != "fork":
        return context
    if context is not None:
        raise InvalidArgumentError(
            "multiprocessing_context must be 'forkserver' or 'spawn' for a Lance dataset: Lance does not work in a "
            "forked process."
        )
    return "forkserver"


def _refuse(order: Mapping[str, Any]) -> None:
    given = [name for name, value in order.items() if value is not None and value is not False]
    if given:
        raise InvalidArgumentError(
            f"{', '.join(given)} cannot be given for a stream, whose rows are read as they come: TarSamples has "
            "shuffle_buffer, seed, rank and num_ranks."
        )
