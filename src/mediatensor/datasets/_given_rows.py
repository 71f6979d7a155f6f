"""Rows of a stream: how they are numbered, and which were given."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

__all__ = ["MAX_SHARD_ROWS", "GivenRows", "row_number"]

#: More samples than a shard may have.
MAX_SHARD_ROWS = 1 << 32


def row_number(shard: int, position: int) -> int:
    """The number of a row among all of a stream: that of its shard, and its position there.

    >>> row_number(0, 7), row_number(1, 0)
    (7, 4294967296)
    """
    return shard * MAX_SHARD_ROWS + position


class GivenRows:
    """Rows of a stream, kept as intervals: few numbers however many rows there are.

    Example:
        >>> given = GivenRows()
        >>> for row in (2, 0, 1, 9):
        ...     given.add(row)
        >>> given.intervals(), 1 in given, 3 in given
        ([[0, 3], [9, 10]], True, False)
    """

    def __init__(self, intervals: Iterable[Iterable[int]] = ()) -> None:
        # Ascending, with a gap between any two.
        self._starts: list[int] = []
        self._stops: list[int] = []
        for start, stop in sorted((int(start), int(stop)) for start, stop in intervals):
            if self._stops and start <= self._stops[-1]:
                self._stops[-1] = max(stop, self._stops[-1])
            else:
                self._starts.append(start)
                self._stops.append(stop)

    def add(self, row: int) -> None:
        """Add a row."""
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
        """Whether all rows from ``start`` to before ``stop`` are among them."""
        before = bisect.bisect_right(self._starts, start) - 1
        return start >= stop or (before >= 0 and stop <= self._stops[before])

    def intervals(self) -> list[list[int]]:
        """(start, stop) of each run of rows, ascending."""
        return [list(pair) for pair in zip(self._starts, self._stops, strict=True)]
