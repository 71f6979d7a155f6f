"""`TarSamples`: samples from tar shards, and from other sources that can only be read in order.

`ShardRows` and `IterableRows` read the rows of such sources, and `GivenRows` records which of them were already read.
"""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
from numpy.random import Generator, Philox
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from ..._engine.common import stages
from ..._engine.common.checks import function, optional_text, shown, whole_number
from ..._engine.common.stages import collect_stages
from ...errors import InvalidArgumentError, MediaTensorError, SourceTypeError
from .._sources import tar_shards
from .._sources.items import Item, MediaKind, UnreadableSource, check_kind, checked_classes, class_number, with_label
from .._sources.tables import Columns, item_of_table_row
from .._sources.tar_format import Member, TarReader
from .._sources.tar_shards import (
    COLUMN_SUFFIXES,
    broken_link,
    group_members,
    is_media,
    is_subtitles,
    item_of_sample,
    open_shard,
    shard_names,
)
from .dataset import draw_seeds, is_asked_by_loader, rank_and_number
from .recipe import OpenFiles, Recipe, RowReader, RowSpec, checked_epoch, derived_seed
from .samples import Sample, Skipped, Timing
from .transport import shared_numbers

#: Bytes of a media member in a stream of shards, which is read into memory as a whole.
MAX_MEDIA_MEMBER_BYTES = 1 << 31

_T = TypeVar("_T")

# Larger numbers of ranks or epochs cannot occur in a valid state.
_MAX_NUMBER = 1 << 62


class TarSamples(IterableDataset[Sample | Skipped]):
    """A dataset of samples from tar shards that can only be read from start to end: compressed shards, pipes, URLs.

    The shards must have WebDataset's layout: the files ``key.mp4``, ``key.cls``, ``key.json`` and ``key.txt``, with the
    same key, form one sample. Shards can be compressed with gzip or bzip2. Labels and other columns are read as by
    `TarItems`. Iterating yields a `Sample` for each media file; `DataLoader` makes batches of them. For uncompressed
    local files, `TarItems` is the better choice.

    Shards are divided among ranks, and the shards of a rank among its workers. There should be at least as many shards
    as there are workers in all ranks together. Every sample is read once per epoch, whatever the number of workers. The
    random numbers of a sample depend on the seed, the epoch, the number of its shard and its position in the shard. The
    order of samples also depends on the number of workers. With `DataLoader`, an interrupted epoch can be resumed, even
    with a different number of workers or ranks. No sample is then lost or repeated, but with ``shuffle_buffer``, the
    remaining samples come in another order, because the buffer is filled again.

    To resume an epoch, the loader must know the shard of each sample, and the sample's position in the shard.
    ``webdataset`` does not provide them, so `TarSamples` reads the shards itself. You can use a
    ``webdataset.WebDataset`` pipeline as a source of rows, but then an epoch cannot be resumed.

    Instead of shards, ``shards`` may be any iterable of rows: `Item` objects, or undecoded rows of a ``webdataset``
    pipeline or a Hugging Face streaming dataset. An ``IterableDataset`` of torch, such as a pipeline or streaming
    dataset, must itself divide its rows among ranks and workers, and a `DataLoader` cannot resume an epoch of it. Any
    other iterable must return the same rows in the same order every time. Each of n workers iterates over all rows, and
    keeps every n-th one.

    Args:
        shards: Paths or URLs of shards, or an iterable of rows. ``{000..009}`` and ``{a,b}`` expand to several names.
            In paths, ``*`` and ``?`` match existing files.
        recipe: A `Recipe` that makes a sample from a media file: `VideoRecipe`, `AudioRecipe`, `VideoAudioRecipe`, or
            your own. In each epoch, it makes one sample from each file.
        kind: Kind of media file to read: ``"video"``, ``"audio"``, ``"image"`` or ``"document"``.
        media: Which file to read, if a sample has several media files of this kind: its suffix, such as ``"left.mp4"``.
            For Hugging Face rows, the column that has the file.
        label: Function that returns the label of an `Item`; by default ``Item.label``.
        classes: Class names in the order of their numbers. Each label that is text is replaced by its number, and a
            label that is not in the list is an error. By default, labels that are text stay text.
        shuffle_buffer: Number of samples in the buffer from which each worker draws samples at random. The order of
            shards is then random as well. The buffer holds the bytes of whole files in memory. With ``None``, shards
            and samples are read in order.
        seed: Seed of the order and of all random numbers, which also depend on the epoch. ``None`` means 0, except in
            torch's own ``DataLoader``. There, every epoch draws a seed from torch's generator, so that order, clips and
            crops change, and ``torch.manual_seed`` makes them repeatable. (With several ranks, the order of shards
            changes only with `set_epoch`, because all ranks must divide the shards in the same order.) With a seed, or
            after `set_epoch`, everything stays the same in torch's loader until `set_epoch` is called again.
        on_error: ``"raise"`` raises the error of an unreadable sample; ``"skip"`` leaves the sample out. If a shard is
            damaged, the samples before the damage are read, and all the rest counts as one unreadable sample. There is
            no ``"replace"``, because rows can only be read in order.
        max_consecutive_failures: How many consecutive samples may be skipped in one worker before
            `TooManyFailuresError` is raised.
        rank: Rank of this process; by default its rank in torch.distributed when the dataset is made, or 0.
        num_ranks: Number of processes that read the stream together; by default the number in torch.distributed, or 1.

    Raises:
        InvalidArgumentError: if there are no shards or an argument is invalid.
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
                f"on_error must be 'raise' or 'skip' (got {on_error!r}): a stream has no other rows to read instead."
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
        names = shards if isinstance(shards, list | tuple) else [shards]
        is_names = all(isinstance(one, str | os.PathLike) for one in names)
        rows_type: Any = ShardRows if is_names else IterableRows
        self._rows: ShardRows | IterableRows = rows_type(shards, kind, media)
        self._label = function("label", label)
        self._classes = checked_classes(classes)
        self._shuffle_buffer = shuffle_buffer
        self._reader = RowReader(on_error, max_consecutive_failures, OpenFiles(max_open=1))
        # The epoch, and how often it was set. In shared memory, so that persistent workers see the next epoch.
        self._now: Tensor = shared_numbers((2,), 0)
        # In shared memory, so that the process that saves a state knows the row counts of the shards that workers read.
        self._num_rows: Tensor = shared_numbers((self._rows.num_shards,), -1)
        # The epoch and its rows to skip, until the epoch is set again.
        self._resumed: tuple[int, RowsToSkip] = (0, RowsToSkip())

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration reads."""
        return int(self._now[0])

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, also in running workers of torch's own ``DataLoader``.

        A `DataLoader` of mediatensor starts with the epoch that is set when it is made, and then counts epochs itself.
        """
        self._now[0] = checked_epoch(epoch)
        self._now[1] += 1

    def __copy__(self) -> Self:
        """Return a stream of the same rows, which has its own epoch and position, also in a forked process."""
        own = object.__new__(type(self))
        vars(own).update(vars(self), _now=self._now.clone(), _has_own_seed=True)
        return own

    def _share_position(self) -> None:
        """Let workers that start from now on see the epochs that are set later."""
        self._now = shared_numbers((2,), 0).copy_(self._now)

    def take_position(self, other: TarSamples) -> None:
        """Let the next iteration start at the epoch and position of ``other``, a `TarSamples` of the same rows."""
        self._now.copy_(other._now)
        self._resumed = other._resumed

    @property
    def can_resume(self) -> bool:
        """Whether an epoch can be resumed.

        This requires that each row has the same position in every pass. That is always so for rows of tar shards. The
        property is false if the source is a ``torch.utils.data.IterableDataset``.
        """
        return not self._rows.divides_itself

    @property
    def facts(self) -> dict[str, Any]:
        """Dict with the ``seed``, the number of shards (``num_shards``), and a digest of their names (``shards``).

        An epoch can only be resumed by a `TarSamples` with the same facts.
        """
        names = "\n".join(os.path.basename(name) for name in self._rows.names)
        digest = hashlib.blake2b(names.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
        return {"seed": self.seed, "num_shards": self._rows.num_shards, "shards": digest}

    def num_rows(self) -> dict[int, int]:
        """Return a dict from the index of each shard to its number of rows.

        Only shards that were read to their end without an error are included.
        """
        return {shard: count for shard, count in enumerate(self._num_rows.tolist()) if count >= 0}

    def resume(self, epoch: int, given: GivenRows, num_rows: Mapping[int, int]) -> None:
        """Let the next iteration read the rows of ``epoch`` that are not in ``given``, the rows that were already read.

        `DataLoader.load_state_dict` calls this method; the loader then starts new workers. ``num_rows`` has, by shard
        index, the number of rows in each shard that was read to its end. A shard whose rows are all in ``given`` is not
        opened again.
        """
        self.set_epoch(epoch)
        for shard, count in num_rows.items():
            self._num_rows[shard] = count
        # Decide this in one process: workers may reach the end of a shard at different times.
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
            # A worker's seed is ``base + id``, so this seed is the same in all workers. Persistent workers keep it.
            seed = draw_seeds(1)[0] if worker is None else derived_seed(worker.seed - worker.id, self._num_iterations)
        self._num_iterations += 1
        return self._read(seed, epoch, to_skip, share)

    def _read(self, seed: int, epoch: int, to_skip: RowsToSkip, share: Share) -> Iterator[Sample | Skipped]:
        order = np.arange(self._rows.num_shards)
        # Ranks draw different seeds, but must divide shards in the same order.
        order_seed = seed if self.num_ranks == 1 else self.seed
        random = Generator(Philox(derived_seed(order_seed, epoch, "shards")))
        if self._shuffle_buffer is not None:
            order = random.permutation(order)
        rows = self._rows.read(order.tolist(), to_skip, self._num_rows, share)
        if self._shuffle_buffer is not None:
            own = derived_seed(seed, epoch, *share, "buffer")
            rows = _draw_from_window(rows, self._shuffle_buffer, Generator(Philox(own)))
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
            item = with_label(item, self._label)
        if self._classes is not None:
            item = dataclasses.replace(item, label=class_number(item.label, self._classes))
        return RowSpec(item, 0, self.recipe, seed, epoch, row)

    def __repr__(self) -> str:
        return f"TarSamples({self._rows!r})"


def _draw_from_window(rows: Iterator[_T], size: int, random: Generator) -> Iterator[_T]:
    """Yield all ``rows`` in random order. Each is drawn from a buffer of ``size`` rows, which is refilled in order."""
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


# Rows of a stream

#: Difference between the row numbers of the first rows of two consecutive shards.
MAX_SHARD_ROWS = 1 << 32


def row_number(shard: int, position: int) -> int:
    return shard * MAX_SHARD_ROWS + position


class GivenRows:
    """The numbers of the rows of a stream that were already read, stored as intervals to save memory.

    >>> given = GivenRows()
    >>> for row in (2, 0, 1, 9):
    ...     given.add(row)
    >>> given.intervals(), 1 in given, 3 in given
    ([[0, 3], [9, 10]], True, False)
    """

    def __init__(self, intervals: Iterable[Iterable[int]] = ()) -> None:
        # Ascending, with gaps between the intervals.
        self._starts: list[int] = []
        self._stops: list[int] = []
        for start, stop in sorted((int(start), int(stop)) for start, stop in intervals):
            if self._stops and start <= self._stops[-1]:
                self._stops[-1] = max(stop, self._stops[-1])
            else:
                self._starts.append(start)
                self._stops.append(stop)

    def add(self, row: int) -> None:
        after = bisect.bisect_right(self._starts, row)
        if after and row < self._stops[after - 1]:
            return
        follows = after > 0 and self._stops[after - 1] == row
        precedes = after < len(self._starts) and self._starts[after] == row + 1
        if follows and precedes:
            self._stops[after - 1] = self._stops.pop(after)
            del self._starts[after]
        elif follows:
            self._stops[after - 1] += 1
        elif precedes:
            self._starts[after] = row
        else:
            self._starts.insert(after, row)
            self._stops.insert(after, row + 1)

    def __contains__(self, row: int) -> bool:
        return self.contains_all(row, row + 1)

    def contains_all(self, start: int, stop: int) -> bool:
        before = bisect.bisect_right(self._starts, start) - 1
        return start >= stop or (before >= 0 and stop <= self._stops[before])

    def intervals(self) -> list[list[int]]:
        """Return the rows as a list of intervals [start, stop], in ascending order. ``stop`` is not in the interval."""
        return [list(pair) for pair in zip(self._starts, self._stops, strict=True)]


class Share(NamedTuple):
    rank: int
    num_ranks: int
    worker: int
    num_workers: int


@dataclass(frozen=True)
class RowsToSkip:
    """The rows that a resumed stream must not read again: single rows, and shards whose rows were all read."""

    rows: GivenRows = field(default_factory=GivenRows)
    shards: frozenset[int] = frozenset()


class ShardRows:
    """The rows of tar shards. ``kind`` or the suffix ``media`` determines which file of a sample is the media file."""

    divides_itself = False

    def __init__(self, shards: Any, kind: MediaKind, media: str | None) -> None:
        self.names = shard_names(shards)
        self._kind, self._media = kind, media

    @property
    def num_shards(self) -> int:
        return len(self.names)

    def read(
        self, order: Sequence[int], to_skip: RowsToSkip, num_rows: Tensor, share: Share
    ) -> Iterator[tuple[int, Item]]:
        """Yield (row number, file) for each row that one worker must read.

        ``order`` has the indices of the shards in reading order, and ``share`` determines which of them the worker
        reads. When all rows of a shard have been read, their number is stored in ``num_rows``. If the shard cannot be
        read to its end, this number is unknown, because the next attempt may find more rows.
        """
        # Ranks divide all shards, so that a resumed rank keeps its shards. Workers divide only the remaining shards.
        shards = [shard for shard in order[share.rank :: share.num_ranks] if shard not in to_skip.shards]
        for shard in shards[share.worker :: share.num_workers]:
            num_rows[shard] = -1
            for position, item in self._read_shard(shard, to_skip.rows, num_rows):
                if item is not None:
                    yield row_number(shard, position), item

    def _read_shard(self, shard: int, given: GivenRows, num_rows: Tensor) -> Iterator[tuple[int, Item | None]]:
        """Yield (position in the shard, file) for each row of a shard; the file is ``None`` for a row in ``given``."""
        name = self.names[shard]
        num_read = 0
        try:
            with open_shard(name) as file:
                reader = TarReader(file, name)
                for key, parts in group_members(reader, lambda *member: self._take(reader, shard, given, *member)):
                    is_wanted = row_number(shard, num_read) not in given
                    yield num_read, self._item(name, key, parts) if is_wanted else None
                    num_read += 1
            num_rows[shard] = num_read
        except (MediaTensorError, OSError) as error:
            is_wanted = row_number(shard, num_read) not in given
            reason = str(error) if isinstance(error, MediaTensorError) else f"Could not read shard {name} ({error})."
            yield num_read, Item(UnreadableSource(reason), name=name) if is_wanted else None

    def _item(self, name: str, key: str, parts: Mapping[str, Any]) -> Item:
        return item_of_sample(name, key, parts, kind=self._kind, media=self._media)

    def _take(self, reader: TarReader, shard: int, given: GivenRows, position: int, suffix: str, member: Member) -> Any:
        """Return the bytes of a member; ``None`` if they are not needed; `UnreadableSource` if they cannot be read."""
        if row_number(shard, position) in given:
            return None
        if suffix in COLUMN_SUFFIXES or is_subtitles(suffix):
            limit = tar_shards.MAX_COLUMN_BYTES
        elif is_media(suffix, self._kind, self._media):
            limit = MAX_MEDIA_MEMBER_BYTES
        else:
            return None
        if member.is_broken_link:
            return broken_link(self.names[shard], member)
        if member.size > limit:
            return UnreadableSource(
                f"{self.names[shard]}/{member.name} has {member.size} bytes, more than the limit of {limit}."
            )
        return reader.read(member.size)

    def __repr__(self) -> str:
        return f"{self.num_shards} shards"


class IterableRows:
    """The rows of an iterable of `Item` objects or mappings. They count as the rows of a single shard."""

    names: tuple[str, ...] = ("rows",)
    num_shards = 1

    def __init__(self, rows: Iterable[Any], kind: MediaKind, media: str | None) -> None:
        if not hasattr(rows, "__iter__"):
            raise SourceTypeError(f"shards must be paths, URLs or an iterable of rows (got {type(rows).__name__}).")
        if isinstance(rows, Iterator) and not isinstance(rows, IterableDataset):
            raise InvalidArgumentError(
                f"A {type(rows).__name__} can be iterated only once, but every epoch and every worker iterates again. "
                "Pass an object whose __iter__ returns a new iterator."
            )
        self._rows = rows
        self._kind: MediaKind = kind
        self._media = media

    @property
    def divides_itself(self) -> bool:
        """Whether the iterable itself divides its rows among workers, as torch expects of an ``IterableDataset``."""
        return isinstance(self._rows, IterableDataset)

    def read(
        self, order: Sequence[int], to_skip: RowsToSkip, num_rows: Tensor, share: Share
    ) -> Iterator[tuple[int, Item]]:
        number, num_shares = share.rank + share.num_ranks * share.worker, share.num_ranks * share.num_workers
        for position, row in enumerate(self._rows):
            if self.divides_itself:
                yield row_number(number, position), self._item(row, position)
            elif position % num_shares == number and position not in to_skip.rows:
                yield position, self._item(row, position)

    def _item(self, row: Any, position: int) -> Item:
        if isinstance(row, Item):
            return row
        place = f"row {position}"
        if not isinstance(row, Mapping):
            raise SourceTypeError(f"{place} must be an Item or a mapping (got {type(row).__name__}).")
        if "__key__" in row:
            parts = {name: value for name, value in row.items() if not name.startswith("__")}
            archive = str(row.get("__url__", ""))
            return item_of_sample(archive, str(row["__key__"]), parts, kind=self._kind, media=self._media)
        try:
            return item_of_table_row(row, Columns(self._kind, self._media), place=place)
        except MediaTensorError as error:
            return Item(UnreadableSource(str(error)), name=place)

    def __repr__(self) -> str:
        return f"rows of {type(self._rows).__name__}"


class StreamState(NamedTuple):
    """The state of one rank, as `DataLoader` saves it.

    ``given`` has the intervals of rows that were read, and ``num_rows`` a pair (shard, number of rows) for each
    finished shard.
    """

    epoch: int
    rank: int
    num_ranks: int
    given: list[list[int]]
    last_epoch: int
    given_in_last_epoch: list[list[int]]
    num_rows: list[list[int]]


def parse_stream_state(state: Mapping[str, Any], num_shards: int) -> StreamState:
    """Parse a saved state. If it is damaged, raise KeyError, TypeError, ValueError or OverflowError."""
    end = num_shards * MAX_SHARD_ROWS
    return StreamState(
        checked_epoch(state["epoch"]),
        _number("rank", state["rank"], 0),
        _number("num_ranks", state["num_ranks"], 1),
        _pairs("given", state["given"], lambda start, stop: 0 <= start <= stop <= end),
        _number("last_epoch", state["last_epoch"], -1),
        _pairs("given_in_last_epoch", state["given_in_last_epoch"], lambda start, stop: 0 <= start <= stop <= end),
        _pairs("num_rows", state["num_rows"], lambda shard, n: 0 <= shard < num_shards and 0 <= n <= MAX_SHARD_ROWS),
    )


def _number(name: str, value: Any, lowest: int) -> int:
    number = int(value)
    if not lowest <= number < _MAX_NUMBER:
        raise ValueError(f"{name} is {shown(value)}")
    return number


def _pairs(name: str, pairs: Any, is_possible: Callable[[int, int], bool]) -> list[list[int]]:
    found = [[int(number) for number in pair] for pair in pairs]
    if not all(len(pair) == 2 and is_possible(*pair) for pair in found):
        raise ValueError(f"{name} is {shown(pairs)}")
    return found


def rows_given_in(epoch: int, state: StreamState) -> list[list[int]]:
    """Return the intervals of rows that a rank has read in ``epoch``.

    This can be the previous epoch if the rank has not yet read a row of its current epoch.
    """
    if state.epoch == epoch:
        return state.given
    if state.last_epoch == epoch and not state.given:
        return state.given_in_last_epoch
    raise InvalidArgumentError(
        f"One rank is in epoch {epoch}, but rank {state.rank} has read rows of epoch {state.epoch}. Save the states of "
        "all ranks at the same time."
    )
