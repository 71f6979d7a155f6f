"""The rows of a stream: tar shards, or any iterable of rows."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils.data import IterableDataset

from ...errors import InvalidArgumentError, MediaTensorError, SourceTypeError
from . import limits
from .items import Item, MediaKind, UnreadableSource
from .rows import Columns, item_of_row
from .tar_format import Member, TarReader
from .tar_shards import (
    COLUMN_SUFFIXES,
    broken_link,
    group_members,
    is_media,
    is_subtitles,
    item_of_sample,
    open_shard,
    shard_names,
)

#: The distance between the first rows of consecutive shards in the row numbers of a stream.
MAX_SHARD_ROWS = 1 << 32


def row_number(shard: int, position: int) -> int:
    """Return the number of a row in a stream, from its shard's number and its position in the shard."""
    return shard * MAX_SHARD_ROWS + position


class GivenRows:
    """Rows of a stream that were already read, as intervals, which take little memory for any number of rows.

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
        before = bisect.bisect_right(self._starts, row) - 1
        return before >= 0 and row < self._stops[before]

    def contains_all(self, start: int, stop: int) -> bool:
        """Return whether all rows from ``start`` up to ``stop`` (exclusive) were read."""
        before = bisect.bisect_right(self._starts, start) - 1
        return start >= stop or (before >= 0 and stop <= self._stops[before])

    def intervals(self) -> list[list[int]]:
        """Return (start, stop) of each run of rows, in ascending order."""
        return [list(pair) for pair in zip(self._starts, self._stops, strict=True)]


class Share(NamedTuple):
    """The share of one worker: its rank, its number within the rank, and the numbers of ranks and workers."""

    rank: int
    num_ranks: int
    worker: int
    num_workers: int


@dataclass(frozen=True)
class RowsToSkip:
    """The rows that a resumed stream skips: rows already read, and shards without remaining rows."""

    rows: GivenRows = field(default_factory=GivenRows)
    shards: frozenset[int] = frozenset()


class ShardRows:
    """The rows of tar shards; ``kind`` or the suffix ``media`` selects the media member of a sample."""

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
        """Yield (row number, file) for the rows of one worker.

        Args:
            order: Numbers of all shards, in reading order.
            to_skip: Rows and shards that were read earlier.
            num_rows: Number of rows of each shard; set at the end of each shard.
            share: The worker whose rows are read.
        """
        # Ranks divide all shards, so a resumed rank keeps its shards. The workers of a rank divide its remaining
        # shards.
        shards = [shard for shard in order[share.rank :: share.num_ranks] if shard not in to_skip.shards]
        for shard in shards[share.worker :: share.num_workers]:
            position = -1
            for position, item in self._read_shard(shard, to_skip.rows):
                if item is not None:
                    yield row_number(shard, position), item
            num_rows[shard] = position + 1

    def _read_shard(self, shard: int, given: GivenRows) -> Iterator[tuple[int, Item | None]]:
        """Yield (position, file) for each row of a shard; the file is ``None`` if the row was read earlier."""
        name = self.names[shard]
        num_read = 0
        try:
            with open_shard(name) as file:
                reader = TarReader(file, name)
                for key, parts in group_members(reader, lambda *member: self._take(reader, shard, given, *member)):
                    is_wanted = row_number(shard, num_read) not in given
                    yield num_read, self._item(name, key, parts) if is_wanted else None
                    num_read += 1
        except (MediaTensorError, OSError) as error:
            is_wanted = row_number(shard, num_read) not in given
            reason = str(error) if isinstance(error, MediaTensorError) else f"Could not read shard {name} ({error})."
            yield num_read, Item(UnreadableSource(reason), name=name) if is_wanted else None

    def _item(self, name: str, key: str, parts: Mapping[str, Any]) -> Item:
        return item_of_sample(name, key, parts, kind=self._kind, media=self._media)

    def _take(self, reader: TarReader, shard: int, given: GivenRows, position: int, suffix: str, member: Member) -> Any:
        """Return what to keep of a member: its bytes, or a source that fails with a reason; ``None`` if not needed."""
        if row_number(shard, position) in given:
            return None
        if suffix in COLUMN_SUFFIXES or is_subtitles(suffix):
            limit = limits.MAX_COLUMN_BYTES
        elif is_media(suffix, self._kind, self._media):
            limit = limits.MAX_MEDIA_MEMBER_BYTES
        else:
            return None
        if member.is_broken_link:
            return broken_link(self.names[shard], member)
        if member.size > limit:
            return UnreadableSource(
                f"{self.names[shard]}/{member.name} has {member.size} bytes; up to {limit} are read."
            )
        return reader.read(member.size)

    def __repr__(self) -> str:
        return f"{self.num_shards} shards"


class IterableRows:
    """The rows of an iterable of `Item` objects or mappings, treated as one shard."""

    names: tuple[str, ...] = ("rows",)
    num_shards = 1

    def __init__(self, rows: Iterable[Any], kind: MediaKind, media: str | None) -> None:
        if not hasattr(rows, "__iter__"):
            raise SourceTypeError(f"shards must be paths, URLs or an iterable of rows (got {type(rows).__name__}).")
        if isinstance(rows, Iterator) and not isinstance(rows, IterableDataset):
            raise InvalidArgumentError(
                f"A {type(rows).__name__} gives its rows only once, but every epoch and worker starts again: pass an "
                "object whose __iter__ does so."
            )
        self._rows = rows
        self._kind: MediaKind = kind
        self._media = media

    @property
    def divides_itself(self) -> bool:
        """Whether the iterable divides its rows among workers itself, as torch expects of an ``IterableDataset``."""
        return isinstance(self._rows, IterableDataset)

    def read(
        self, order: Sequence[int], to_skip: RowsToSkip, num_rows: Tensor, share: Share
    ) -> Iterator[tuple[int, Item]]:
        """Yield (row number, file) for the rows of one worker; see `ShardRows.read` for the arguments."""
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
            return item_of_row(row, Columns(self._kind, self._media), place=place)
        except MediaTensorError as error:
            return Item(UnreadableSource(str(error)), name=place)

    def __repr__(self) -> str:
        return f"rows of {type(self._rows).__name__}"
