"""`TarSamples`: samples of tar shards, and of other sources that can only be read in order."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar

import numpy as np
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from ..._engine.common import stages
from ..._engine.common.checks import function, optional_text, shown, whole_number
from ..._engine.common.stages import collect_stages
from ...errors import InvalidArgumentError
from .._sources.items import Item, MediaKind, check_kind, checked_classes, class_number
from .._sources.streams import GivenRows, IterableRows, RowsToSkip, ShardRows, Share, row_number
from .dataset import draw_seeds, is_asked_by_loader, rank_and_number
from .recipe import OpenFiles, Recipe, RowReader, RowSpec, checked_epoch, derived_seed
from .samples import Sample, Skipped, Timing
from .transport import shared_numbers

_T = TypeVar("_T")


class TarSamples(IterableDataset[Sample | Skipped]):
    """Samples of tar shards that are read from beginning to end: compressed shards, pipes, URLs.

    The shards have WebDataset's layout: the files ``key.mp4``, ``key.cls``, ``key.json`` and ``key.txt`` make a sample.
    Labels and other columns are read as by `TarItems`, which is the better choice for uncompressed local files.

    Shards are divided among ranks, and the shards of a rank among its workers: use at least as many shards as there are
    workers in all ranks. Every sample is read once an epoch, whatever the number of workers. A sample's random numbers
    depend on the seed, the epoch, the number of its shard and its position in the shard. The order of samples also
    depends on the number of workers. With `DataLoader`, an interrupted epoch can be resumed with any number of workers
    and ranks.

    `TarSamples` does not use ``webdataset`` to read shards, because resuming needs the shard and position of each
    sample. ``tarfile`` of the standard library checks the headers. A ``webdataset.WebDataset`` pipeline can be a source
    of rows (below), but its rows lack their positions.

    Instead of shards, ``shards`` may be any iterable of rows: `Item` objects, or undecoded rows of a ``webdataset``
    pipeline or a Hugging Face streaming dataset. Such a pipeline or dataset is an ``IterableDataset`` of torch, which
    divides its rows among workers itself and must be given the rank; a `DataLoader` over it cannot resume. Any other
    iterable must give the same rows in the same order every time, and each worker reads every n-th row.

    Args:
        shards: Paths or URLs, with ``{000..009}`` and ``{a,b}``, in paths ``*`` and ``?``; or an iterable of rows.
        recipe: Makes a sample of a file: `VideoRecipe`, `AudioRecipe`, `VideoAudioRecipe`, or your own. A file has one
            sample in an epoch.
        kind: Kind of media in a sample: ``"video"``, ``"audio"``, ``"image"`` or ``"document"``.
        media: Suffix of the media member (for a Hugging Face row, its column), if a sample has several of the kind.
        label: Function that returns the label of an `Item`; by default ``Item.label``.
        classes: Class names in the order of their numbers, which replace labels that are text. Any other class is an
            error. By default such labels stay text.
        shuffle_buffer: Number of samples in a buffer of each worker, from which each sample is drawn at random; shards
            come in random order as well. The bytes of the files in the buffer are in memory. With ``None``, shards and
            samples come in order.
        seed: Seed of the order and the random numbers of the samples, together with the epoch. ``None`` is 0, except in
            torch's own ``DataLoader``. There every epoch draws a seed from torch's generator: order, clips and crops
            change, and ``torch.manual_seed`` repeats them. (Ranks divide the shards, so with several ranks only
            `set_epoch` changes the order of shards.) With a seed, or after `set_epoch`, everything stays the same in
            torch's loader until `set_epoch` is called again.
        on_error: ``"raise"``, or ``"skip"`` to leave out unreadable samples. A damaged shard gives the samples before
            the damage, and then counts as one more unreadable sample. A stream cannot replace a row by another.
        max_consecutive_failures: How many samples may be skipped consecutively in one worker.
        rank: Number of this process; by default the rank in torch.distributed when the dataset is made, or 0.
        num_ranks: Number of processes that read the stream together; by default the number in torch.distributed, or 1.

    Raises:
        InvalidArgumentError: if there are no shards, or an argument is not among the accepted ones.
        SourceNotFoundError: if a path does not exist.

    Example:
        >>> from functools import partial
        >>> from mediatensor.datasets import DataLoader, TarSamples, VideoRecipe
        >>> from mediatensor.samplers import clips_at_random_indices
        >>> recipe = VideoRecipe(partial(clips_at_random_indices, num_frames_per_clip=8))
        >>> samples = TarSamples(
        ...     "https://example.org/train-{000..099}.tar", recipe, shuffle_buffer=200, on_error="skip"
        ... )  # doctest: +SKIP
        >>> for batch in DataLoader(samples, batch_size=8, num_workers=4):  # doctest: +SKIP
        ...     train(batch.frames.data, batch.label)
    """

    def __init__(
        self,
        shards: str | os.PathLike[str] | Iterable[Any],
        recipe: Recipe,
        *,
        kind: MediaKind = "video",
        media: str | None = None,
        label: Callable[[Item], Any] | None = None,
        classes: Sequence[str] | None = None,
        shuffle_buffer: int | None = None,
        seed: int | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        max_consecutive_failures: int = 20,
        rank: int | None = None,
        num_ranks: int | None = None,
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise InvalidArgumentError(
                f"on_error must be 'raise' or 'skip' (got {on_error!r}): a stream has no other rows to replace one by."
            )
        if shuffle_buffer is not None:
            shuffle_buffer = whole_number("shuffle_buffer", shuffle_buffer, at_least=1, or_none=True)
        check_kind(kind)
        optional_text("media", media)
        if not isinstance(recipe, Recipe):
            raise InvalidArgumentError(f"recipe must be a Recipe (got {shown(recipe)}).")
        self.rank, self.num_ranks = rank_and_number(rank, num_ranks)
        self.recipe = recipe
        self.seed = 0 if seed is None else whole_number("seed", seed, or_none=True)
        self._has_own_seed = seed is not None
        self._num_iterations = 0
        self._rows = _rows_of(shards, kind, media)
        self._label = function("label", label)
        self._classes = checked_classes(classes)
        self._shuffle_buffer = shuffle_buffer
        self._reader = RowReader(on_error, max_consecutive_failures, OpenFiles(max_open=1))
        # The epoch and how often it was set, in shared memory, so that persistent workers see the next epoch.
        self._now: Tensor = shared_numbers((2,), 0)
        # In shared memory, so that the process that saves a state knows the row counts of finished shards.
        self._num_rows: Tensor = shared_numbers((self._rows.num_shards,), -1)
        # The rows to skip, until the epoch is set again.
        self._resumed: tuple[int, RowsToSkip] = (0, RowsToSkip())

    @property
    def epoch(self) -> int:
        """The epoch of the next iteration."""
        return int(self._now[0])

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, in running workers as well. `DataLoader` does not need it."""
        self._now[0] = checked_epoch(epoch)
        self._now[1] += 1

    def __copy__(self) -> Self:
        """Return a stream of the same rows with its own epoch."""
        own = object.__new__(type(self))
        vars(own).update(vars(self), _now=shared_numbers((2,), 0), _has_own_seed=True)
        own.take_position(self)
        return own

    def take_position(self, other: TarSamples) -> None:
        """Let the next iteration begin at the position of another stream of the same rows."""
        self._now.copy_(other._now)
        self._resumed = other._resumed

    @property
    def can_resume(self) -> bool:
        """Whether rows have fixed positions, so that `DataLoader` can save and load a state."""
        return not self._rows.divides_itself

    @property
    def facts(self) -> dict[str, Any]:
        """Seed and shard names, which must be the same when an epoch is resumed."""
        names = "\n".join(os.path.basename(name) for name in self._rows.names)
        digest = hashlib.blake2b(names.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
        return {"seed": self.seed, "num_shards": self._rows.num_shards, "shards": digest}

    def num_rows(self) -> dict[int, int]:
        """Map the index of each fully read shard to its row count."""
        return {shard: count for shard, count in enumerate(self._num_rows.tolist()) if count >= 0}

    def resume(self, epoch: int, given: GivenRows, num_rows: Mapping[int, int]) -> None:
        """Let the next iteration skip rows. `DataLoader` calls this, and starts new workers.

        Args:
            epoch: The epoch of the next iteration. Later iterations skip nothing.
            given: The rows to skip.
            num_rows: The row counts of completely read shards. A shard without remaining rows is not opened.
        """
        self.set_epoch(epoch)
        for shard, count in num_rows.items():
            self._num_rows[shard] = count
        # Decide this in one process, because one worker may reach the end of a shard before another.
        done = {
            shard
            for shard, count in self.num_rows().items()
            if given.contains_all(row_number(shard, 0), row_number(shard, count))
        }
        self._resumed = (int(self._now[1]), RowsToSkip(given, frozenset(done)))

    def __iter__(self) -> Iterator[Sample | Skipped]:
        # Not a generator function, so that the epoch is read now and not when the first sample is requested.
        worker = get_worker_info()
        epoch, number = self._now.tolist()
        to_skip = self._resumed[1] if self._resumed[0] == number else RowsToSkip()
        share = Share(self.rank, self.num_ranks, *((0, 1) if worker is None else (worker.id, worker.num_workers)))
        seed = self.seed
        if not self._has_own_seed and number == 0 and is_asked_by_loader():
            # Torch's worker seeds are ``base + id``, so all workers get the same seed, constant in persistent workers.
            seed = draw_seeds(1)[0] if worker is None else derived_seed(worker.seed - worker.id, self._num_iterations)
        self._num_iterations += 1
        return self._read(seed, epoch, to_skip, share)

    def _read(self, seed: int, epoch: int, to_skip: RowsToSkip, share: Share) -> Iterator[Sample | Skipped]:
        order = np.arange(self._rows.num_shards)
        # Ranks draw different seeds, but must use one order of shards to divide them.
        order_seed = seed if self.num_ranks == 1 else self.seed
        random = np.random.Generator(np.random.Philox(derived_seed(order_seed, epoch, "shards")))
        if self._shuffle_buffer is not None:
            order = random.permutation(order)
        rows = self._rows.read(order.tolist(), to_skip, self._num_rows, share)
        if self._shuffle_buffer is not None:
            own = derived_seed(seed, epoch, *share, "buffer")
            rows = _draw_from_window(rows, self._shuffle_buffer, np.random.Generator(np.random.Philox(own)))
        while True:
            started = time.monotonic()
            with collect_stages() as stage_seconds:
                with stages.OPEN:
                    numbered = next(rows, None)
                if numbered is None:
                    return
                sample = self._reader.read(self._spec(*numbered, seed, epoch))
            worker = None if get_worker_info() is None else share.worker
            yield dataclasses.replace(sample, timing=Timing(worker, started, time.monotonic(), dict(stage_seconds)))

    def _spec(self, row: int, item: Item, seed: int, epoch: int) -> RowSpec:
        if self._label is not None:
            item = dataclasses.replace(item, label=self._label(item))
        if self._classes is not None:
            item = dataclasses.replace(item, label=class_number(item.label, self._classes))
        return RowSpec(item, 0, self.recipe, seed, epoch, row)

    def __repr__(self) -> str:
        return f"TarSamples({self._rows!r})"


def _draw_from_window(rows: Iterator[_T], size: int, random: np.random.Generator) -> Iterator[_T]:
    """Yield all rows, each drawn at random from a buffer of ``size`` rows."""
    waiting: list[_T] = []

    def draw() -> _T:
        place = int(random.integers(len(waiting)))
        waiting[place], waiting[-1] = waiting[-1], waiting[place]
        return waiting.pop()

    for row in rows:
        waiting.append(row)
        if len(waiting) == size:
            yield draw()
    while waiting:
        yield draw()


def _rows_of(shards: Any, kind: MediaKind, media: str | None) -> ShardRows | IterableRows:
    if isinstance(shards, str | os.PathLike):
        return ShardRows(shards, kind, media)
    if isinstance(shards, list | tuple) and all(isinstance(one, str | os.PathLike) for one in shards):
        return ShardRows(shards, kind, media)
    return IterableRows(shards, kind, media)
