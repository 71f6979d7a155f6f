"""`DataLoader`: torch's ``DataLoader`` extended for media datasets with shuffling, resuming and failure reports."""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, overload

import torch.utils.data

from ..._engine.common.checks import finite_number, function, shown, whole_number
from ..._engine.common.devices import tensors_on_cpu
from ..._engine.common.messages import warn_user
from ...errors import InvalidArgumentError, TooManyFailuresError
from .._rows.dataset import ColumnDataset, MediaDataset, RowKey
from .._rows.recipe import derived_seed
from .._rows.samples import Batch, ColumnDict, FailureReport
from .._rows.tar_samples import TarSamples
from .._sources.items import Item
from .collate import stack, stack_columns
from .order import Shuffle, Weights
from .row_batches import RowBatches, StreamProgress, WithRows

B = TypeVar("B", covariant=True)


class DataLoader(torch.utils.data.DataLoader[B]):
    """A torch ``DataLoader`` for media datasets that can shuffle rows, divide them among ranks, and resume an epoch.

    A row is one sample of the dataset, such as a clip; a file can have several rows. Each iteration over the loader
    reads one epoch, starting with epoch 0. After resuming, ``for _ in range(loader.epoch, num_epochs)`` iterates over
    the remaining epochs. `state_dict` counts only the batches that your loop *received*, although workers may have read
    more. Resuming reads these extra batches again, so your loop does not miss a row or get it twice.

    Within a loop, you can start an extra iteration over the same loader, for example ``next(iter(loader))`` to look at
    a batch. This changes neither the position of the loop nor the number of the next epoch. Several iterations can be
    open at once, for example in ``zip(loader, loader)``. Each has its own position: ``iter(loader)`` returns a
    `BatchIterator` with its own ``state_dict()`` and ``epoch``.

    Args:
        dataset: A `MediaDataset`, such as `VideoClips`, or a `TarSamples`, which shuffles its rows and divides them
            among ranks by itself.
        batch_size: Number of rows in a batch of one rank. If you change ``batch_size`` and ``num_ranks``, but not their
            product, each training step still reads the same rows.
        shuffle: ``True`` or a `Shuffle` shuffles the rows, differently in each epoch.
        collate_fn: Function that makes a batch of samples: `stack`, `ragged`, `pad`, or your own. The default is
            `stack`, or `stack_columns` for rows that are dicts.
        seed: Seed of the order; by default the seed of the dataset. With `TarSamples`, pass ``seed``, ``rank`` and
            ``num_ranks`` to `TarSamples` instead.
        drop_last: Leave out batches that are not full. Set it to ``True`` if all ranks must make the same number of
            steps, as with ``DistributedDataParallel``. Unreadable rows do not change the number of steps. With several
            ranks and ``on_error="skip"``, a batch whose rows were all skipped gets one row of another file. With
            `TarSamples`, ``drop_last`` leaves out the last rows of each worker separately, so ranks can make different
            numbers of steps.
        rank: Rank of this process; by default its rank in torch.distributed, or 0.
        num_ranks: Number of processes that read the dataset together; by default the number in torch.distributed, or 1.
        bucket_by: Function that takes an `Item` and returns the bucket of the file, any hashable value. All rows of a
            batch are from one bucket.
        weights: How often rows are read: ``"balanced"``, a weight for each class, or a weight for each row; see
            `RowBatches`. By default, each row is read once in an epoch.
        rows_per_epoch: Number of rows of an epoch if ``weights`` are given; by default the number of rows of the
            dataset.
        options: Further arguments of torch's ``DataLoader``: ``num_workers``, ``pin_memory``, ``prefetch_factor``,
            ``persistent_workers``, ``multiprocessing_context``, ``timeout`` ...

    Attributes:
        batches: The `RowBatches` that chooses the rows of each batch. For `TarSamples`, an object that records which
            rows were read.
        failures: A `FailureReport` on all batches so far, with exact counts and the most recent failures.

    Raises:
        InvalidArgumentError: if an argument is invalid.
        TooManyFailuresError: raised at the end of an iteration if none of its rows could be read.

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
        weights: Weights | None = None,
        rows_per_epoch: int | None = None,
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
        weights: Weights | None = None,
        rows_per_epoch: int | None = None,
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
        weights: Weights | None = None,
        rows_per_epoch: int | None = None,
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
        weights: Weights | None = None,
        rows_per_epoch: int | None = None,
        **options: Any,
    ) -> None:
        if collate_fn is stack and isinstance(dataset, ColumnDataset):
            collate_fn = stack_columns
        _check_options(collate_fn, options)
        if taken := sorted({"batch_sampler", "sampler"} & options.keys()):
            raise InvalidArgumentError(
                f"{taken[0]} is not accepted, because RowBatches determines the rows. Use torch's DataLoader with it, "
                "or with your own RowBatches as batch_sampler."
            )
        order: dict[str, Any] = {
            "shuffle": shuffle,
            "seed": seed,
            "rank": rank,
            "num_ranks": num_ranks,
            "bucket_by": bucket_by,
            "weights": weights,
            "rows_per_epoch": rows_per_epoch,
        }
        self.batches: RowBatches | StreamProgress
        if isinstance(dataset, TarSamples):
            if given := [name for name, value in order.items() if value is not None and value is not False]:
                raise InvalidArgumentError(
                    f"{', '.join(given)} cannot be given for a stream, whose rows are read as they come. Use the "
                    "arguments shuffle_buffer, seed, rank and num_ranks of TarSamples."
                )
            self.batches = StreamProgress(dataset)
            batch_size = whole_number("batch_size", batch_size, at_least=1)
            options |= {"batch_size": batch_size, "drop_last": drop_last, "collate_fn": WithRows(collate_fn)}
        else:
            self.batches = RowBatches(dataset, batch_size, drop_last=drop_last, **order)
            if not options.get("in_order", True):
                raise InvalidArgumentError("in_order must be True, because resuming counts batches in order.")
            options |= {"batch_sampler": self.batches, "collate_fn": collate_fn}
        self.failures = FailureReport()
        self._iterations: Iterations[_EpochPosition] = Iterations()
        # Whether an iteration over the epoch of `batches` has begun. If so, the next iteration reads the next epoch.
        self._has_begun = False
        # The iteration that persistent workers read for.
        self._persistent_position: _EpochPosition | None = None
        # Without its own generator, torch's loader draws from the global generator at the start of each iteration.
        # Resuming starts one more iteration, which would change all later random numbers of the training.
        own_seed = derived_seed(dataset.seed if seed is None else seed, "workers")
        options.setdefault("generator", torch.Generator().manual_seed(own_seed))
        if options.get("num_workers") and not getattr(getattr(dataset, "items", None), "is_fork_safe", True):
            options["multiprocessing_context"] = _context_without_fork(options.get("multiprocessing_context"))
        try:
            super().__init__(dataset, **options)  # type: ignore[arg-type]
        except ValueError as error:  # contradictory options
            raise InvalidArgumentError(f"DataLoader: {error}") from None
        self._disable_workers_if_unavailable()

    def _disable_workers_if_unavailable(self) -> None:
        if not self.num_workers:
            return
        try:
            # Workers need a lock to communicate. Of all that they use, only the lock needs a file.
            (self.multiprocessing_context or multiprocessing).Lock()
        except (OSError, ImportError) as error:
            warn_user(
                f"Worker processes cannot be started here ({error}), so this process reads the batches itself. Workers "
                "need semaphores; on Linux, it must be possible to create files in /dev/shm."
            )
            self.num_workers, self.prefetch_factor, self.timeout = 0, None, 0

    @property
    def epoch(self) -> int:
        """Number of the epoch that is being read, from 0. Before the first iteration, the epoch to be read first."""
        return self.batches.epoch

    def count_classes(self, epoch: int | None = None) -> dict[Any, int]:
        """Return how many rows of each class an epoch reads, on all ranks together.

        Args:
            epoch: Number of the epoch, from 0; by default the current epoch of the loader, including rows that were
                already read.

        Returns:
            A dict that maps each class name, or the label if the classes have no names, to the number of its rows. Rows
            without a label have the key ``None``.

        Raises:
            InvalidArgumentError: if the dataset is a `TarSamples`, whose rows are unknown before they are read.

        Example:
            >>> from mediatensor.datasets import DataLoader, VideoClips
            >>> files = [("videos/a.mp4", "run"), ("videos/b.mp4", "run"), ("videos/c.mp4", "jump")]
            >>> clips = VideoClips(files, num_frames_per_clip=4)
            >>> DataLoader(clips, batch_size=2, weights="balanced", rows_per_epoch=10).count_classes()
            {'jump': 5, 'run': 5}
        """
        return self.batches.count_classes(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch that the next iteration reads from its start.

        Example:
            >>> from mediatensor.datasets import DataLoader, VideoClips
            >>> loader = DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=2)
            >>> loader.set_epoch(3)
            >>> loader.epoch
            3
        """
        self.batches.set_epoch(epoch)
        self._restart_at_position()

    def _restart_at_position(self) -> None:
        self._iterations.discard_all()
        self._has_begun = False

    def __iter__(self) -> BatchIterator[B]:  # type: ignore[override]
        if self._has_begun:
            if (outer := self._iterations.newest) is not None:
                self.batches.take_position(outer.batches)  # type: ignore[arg-type]
            self.batches.set_epoch(self.epoch + 1)
        position = _EpochPosition(copy.copy(self.batches))
        with tensors_on_cpu():  # the generator of this loader is on the CPU
            source = self._start_reading(position)
        self._has_begun = True
        self._iterations.begin(position)
        return BatchIterator(
            self._give_batches(source, position), position, partial(self._end, position, is_over=False)
        )

    def _start_reading(self, position: _EpochPosition) -> Any:
        reader = copy.copy(self)
        vars(reader).update(position.batches._loader_attributes())  # torch's loader does not allow setting them
        if not (self.persistent_workers and self.num_workers > 0):
            return reader._get_iterator()
        if self._persistent_position is not None and not self._persistent_position.has_ended:
            return reader._get_iterator()  # persistent workers read for one iteration at a time
        if self._iterator is None or self._persistent_position is None:
            self._iterator = reader._get_iterator()
        else:
            position.batches._continue_in(self._iterator, self._persistent_position.batches)  # type: ignore[arg-type]
            self._iterator._reset(self)
        self._persistent_position = position
        return self._iterator

    def _give_batches(self, source: Any, position: _EpochPosition) -> Generator[B, None, None]:
        is_over = False
        position.has_begun = True
        is_empty, num_failures_before = not position.batches.is_resumed, len(self.failures)
        try:
            for batch in source:
                position.num_given += 1
                batch = position.batches._take(batch)
                if isinstance(batch, Batch | ColumnDict):
                    self.failures.add(batch.failures)
                    if not len(batch):  # every row was skipped
                        if not position.batches._needs_every_batch:
                            continue
                        batch = self._replace_batch(batch)
                is_empty = False
                yield batch
            is_over = True
        finally:
            self._end(position, is_over=is_over)
        # No single worker may have seen enough failures to raise this error itself.
        if is_empty and len(self.failures) > num_failures_before:
            last = self.failures.failures[-1]
            raise TooManyFailuresError(
                f"Not one row of the epoch could be read. The last failure is in {last.source!r}: {last.error}: "
                f"{last.message}"
            )

    def _replace_batch(self, batch: Batch | ColumnDict) -> Any:
        """Replace ``batch``, whose rows were all skipped, by a batch of one row from another file.

        Otherwise, this rank would make fewer steps than the other ranks, and they would wait for it forever.
        """
        first, dataset = batch.failures[0], self.dataset
        assert isinstance(dataset, MediaDataset)
        filled = copy.copy(self.collate_fn([dataset._read_another(RowKey(first.row, first.epoch))]))
        filled.failures, filled.timings = batch.failures, batch.timings
        return filled

    def _end(self, position: _EpochPosition, *, is_over: bool) -> None:
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
        """Return a dict that describes the position of the next batch. Pass it to `load_state_dict` to resume there.

        Raises:
            InvalidArgumentError: if the dataset is a stream that cannot resume (see `TarSamples`), or if several
                iterations over this loader are open. Each open iteration has its own ``state_dict()``.
        """
        position = self._iterations.current()
        return (_EpochPosition(self.batches) if position is None else position).state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Let the next iteration over this loader resume at a saved position.

        The state can come from a loader with another batch size, number of workers or number of ranks.

        Args:
            state: A result of `state_dict`. For a `MediaDataset`, all ranks have the same state, so you can load the
                state of any rank. For `TarSamples`, each rank has its own state, so load the state that the same rank
                saved. If the number of ranks has changed, load a list of the states of all ranks.

        Raises:
            InvalidArgumentError: if the state does not belong to this loader, for example because its files differ; see
                `RowBatches.load_state_dict`. File names are compared without the folder that all files have in common.

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
        self.batches.load_state_dict(state)  # type: ignore[arg-type]
        if not self.batches._resumes_in_running_workers:
            self._iterator = self._persistent_position = None
        self._restart_at_position()


class _EpochPosition:
    """The position of an iteration over a loader, with its own copy of ``batches``.

    ``num_given`` counts the batches that the iteration has returned. ``has_begun`` is true once the first batch was
    requested, and ``has_ended`` once the iteration was closed or has returned its last batch.
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
        return self.batches.state_dict(self.num_given)


def _check_options(collate_fn: Callable[[list[Any]], Any], options: Mapping[str, Any]) -> None:
    if not callable(collate_fn):
        raise InvalidArgumentError(f"collate_fn must be a function, such as stack (got {shown(collate_fn)}).")
    function("worker_init_fn", options.get("worker_init_fn"))
    whole_number("num_workers", options.get("num_workers", 0), at_least=0)
    if options.get("prefetch_factor") is not None:
        whole_number("prefetch_factor", options["prefetch_factor"], at_least=1, or_none=True)
    if (timeout := finite_number("timeout", options.get("timeout", 0))) < 0:
        raise InvalidArgumentError(f"timeout must be a number of seconds, at least 0 (got {options['timeout']!r}).")
    if timeout and not options.get("num_workers"):
        raise InvalidArgumentError(f"timeout limits the wait for workers (got {timeout:g}), but num_workers is 0.")


def _context_without_fork(context: Any) -> Any:
    """Return ``context``, or ``"forkserver"`` if the default context forks: Lance does not work after a fork."""
    method = context if isinstance(context, str) else (context or multiprocessing).get_start_method()
    if method != "fork":
        return context
    if context is not None:
        raise InvalidArgumentError(
            "multiprocessing_context must be 'forkserver' or 'spawn' for a Lance dataset: Lance does not work in a "
            "forked process."
        )
    return "forkserver"


# Each iteration has its own position. The loader reports a position only if one iteration is open.


class Position(Protocol):
    """The position of an iteration over a loader. ``has_begun`` is true once the first batch was requested."""

    has_begun: bool

    @property
    def epoch(self) -> int | None: ...

    def state_dict(self) -> dict[str, Any]: ...


P = TypeVar("P", bound=Position)


class BatchIterator(Iterator[B], Generic[B]):
    """An iterator over the batches of one epoch. ``iter(loader)`` of a `DataLoader` or `ToDevice` returns it.

    Each iterator has its own position in the epoch. Several iterators over one loader do not affect each other.

    Example:
        >>> from mediatensor.datasets import DataLoader, VideoClips
        >>> loader = DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=1)
        >>> first, second = iter(loader), iter(loader)  # each iteration is another epoch
        >>> batch = next(first)
        >>> first.epoch, second.epoch
        (0, 1)
        >>> loader.load_state_dict(first.state_dict())
        >>> len(list(loader))
        2
    """

    def __init__(self, batches: Generator[B, None, None], position: Position, leave: Callable[[], object]) -> None:
        # The generator must not refer to this object: it is closed when the last reference to this object goes away.
        self._batches = batches
        self._position = position
        self._leave = leave

    def __next__(self) -> B:
        return next(self._batches)

    @property
    def epoch(self) -> int | None:
        """Number of the epoch whose batches this iteration returns; ``None`` if the loader does not count epochs."""
        return self._position.epoch

    def state_dict(self) -> dict[str, Any]:
        """Return a dict that describes the position after the last batch that this iteration returned.

        To resume at this position, pass the dict to ``load_state_dict`` of a loader.

        Raises:
            InvalidArgumentError: if the loader cannot resume, for example with some streams; see `TarSamples`.
        """
        return self._position.state_dict()

    def close(self) -> None:
        """End this iteration early, and stop its worker processes, unless the loader has ``persistent_workers=True``.

        Example:
            >>> from mediatensor.datasets import DataLoader, VideoClips
            >>> batches = iter(DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=1))
            >>> batches.close()
            >>> list(batches)
            []
        """
        self._batches.close()
        self._leave()  # a generator that never started does not run its ``finally``

    def __del__(self) -> None:
        if hasattr(self, "_leave"):
            self.close()


class Iterations(Generic[P]):
    """The open iterations over one loader, from the oldest to the newest.

    If the loop leaves the only open iteration early, ``left`` is its position until another iteration begins.
    """

    def __init__(self) -> None:
        self._open: list[P] = []
        self.left: P | None = None

    @property
    def newest(self) -> P | None:
        return self._open[-1] if self._open else None

    def begin(self, position: P) -> None:
        self._open.append(position)
        self.left = None

    def end(self, position: P, *, is_over: bool) -> bool:
        """Remove an iteration, and return whether it was open. ``is_over`` means that it has returned all batches."""
        # Compared by identity: positions of several iterations may be equal.
        if not any(one is position for one in self._open):
            return False
        self._open = [one for one in self._open if one is not position]
        self.left = None if is_over or self._open else position
        return True

    def discard_all(self) -> None:
        """Discard all open iterations. They still return batches, but the loader no longer reports their positions."""
        self._open, self.left = [], None

    def current(self) -> P | None:
        """Return the position of the only open iteration that has begun; otherwise ``left``.

        ``None`` means that the next iteration begins an epoch. If several have begun, raise InvalidArgumentError.
        """
        begun = [position for position in self._open if position.has_begun]
        if len(begun) > 1:
            epochs = ", ".join(str(position.epoch) for position in begun)
            raise InvalidArgumentError(
                f"{len(begun)} iterations over this loader are open (in the epochs {epochs}), so the loader has "
                "several positions. Write batches = iter(loader), and call batches.state_dict(). An iteration ends "
                "after its last batch, with close(), or when nothing refers to it any longer."
            )
        return begun[0] if begun else self.left
