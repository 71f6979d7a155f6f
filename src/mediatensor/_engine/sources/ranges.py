"""Decide which byte ranges of a remote file to fetch, and which to cache: arithmetic without I/O.

A file is divided into blocks. Fetched blocks are cached, and the least recently used block is dropped first::

    read 10..20 of a cold cache          fetch the block of 10, and a little more
    consecutive reads                    fetch twice as much each time, up to a limit
    a read inside an announced range     fetch up to the end of that range
    a read with some blocks cached       fetch the missing blocks, as one range if gaps are small
"""

from __future__ import annotations

from collections import OrderedDict

BLOCK_BYTES = 1 << 16
# On any network, one more request takes longer than fetching this many bytes.
MIN_REQUEST_BYTES = 1 << 17
# Twice as much would save few requests, and a wrong guess would waste twice as much.
MAX_REQUEST_BYTES = 1 << 22
# Limit for each open handle.
MAX_CACHED_BYTES = 1 << 24
# Cached blocks to fetch again rather than splitting a request in two.
_MAX_BRIDGED_BLOCKS = 1


class RangeCache:
    """Plans the requests for reads of one file, and caches their data.

    The sizes of the cache and of requests are multiples of ``block_bytes``; only a request at the end of the file may
    differ. A read has at most ``max_request_bytes``. The cache must hold two of the largest requests and a few blocks.

    >>> cache = RangeCache(1000, block_bytes=10, min_request_bytes=20, max_request_bytes=80, max_cached_bytes=300)
    >>> cache.plan(5, 8)
    [(0, 20)]
    >>> cache.store(0, bytes(20))
    >>> cache.plan(15, 25)  # continues where the last range ended: twice as much
    [(20, 60)]
    >>> cache.take(15, 18)
    b'\\x00\\x00\\x00'
    """

    def __init__(
        self,
        size: int,
        *,
        block_bytes: int = BLOCK_BYTES,
        min_request_bytes: int = MIN_REQUEST_BYTES,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        max_cached_bytes: int = MAX_CACHED_BYTES,
    ) -> None:
        self.size = size
        self.max_read_bytes = max_request_bytes
        self._block_bytes = block_bytes
        self._num_blocks = _ceil_div(size, block_bytes)
        self._min_blocks = min_request_bytes // block_bytes
        self._max_blocks = max_request_bytes // block_bytes
        self._max_cached_blocks = max_cached_bytes // block_bytes
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._window = self._min_blocks
        self._frontier = -1
        self._announced = range(0)

    @property
    def num_cached_bytes(self) -> int:
        return sum(map(len, self._blocks.values()))

    def will_need(self, start: int, stop: int) -> None:
        """Announce that bytes ``start`` to ``stop`` are read next. This replaces earlier announcements."""
        self._announced = range(max(0, start) // self._block_bytes, _ceil_div(min(stop, self.size), self._block_bytes))

    def plan(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the ranges (start, stop) to fetch and `store` before `take` can return bytes ``start`` to ``stop``.

        ``stop`` is at most the size of the file and at most ``start + max_read_bytes``.
        """
        first, end = start // self._block_bytes, _ceil_div(stop, self._block_bytes)
        missing = []
        for block in range(first, end):
            if block in self._blocks:
                self._blocks.move_to_end(block)
            else:
                missing.append(block)
        if not missing:
            return []
        runs = _join_blocks(missing)
        if runs[-1][1] == end:
            runs[-1] = (runs[-1][0], self._extend_run(*runs[-1]))
        self._frontier = runs[-1][1]
        # Because blocks are aligned, a read of the longest size can be one block longer than the largest request.
        return [self._bytes_of(*piece) for run in runs for piece in _split_run(*run, self._max_blocks)]

    def _extend_run(self, begin: int, end: int) -> int:
        """Extend a run of missing blocks by blocks that will probably be read next; return its end."""
        if begin in self._announced:
            self._window = self._min_blocks
            wanted_end = self._announced.stop
        else:
            is_sequential = begin == self._frontier
            self._window = min(2 * self._window, self._max_blocks) if is_sequential else self._min_blocks
            wanted_end = begin + self._window
        limit = min(wanted_end, begin + self._max_blocks, self._num_blocks)
        while end < limit and end not in self._blocks:
            end += 1
        return end

    def _bytes_of(self, begin: int, end: int) -> tuple[int, int]:
        return begin * self._block_bytes, min(end * self._block_bytes, self.size)

    def store(self, start: int, data: bytes) -> None:
        """Cache data fetched from ``start``, which must be complete blocks except at the end of the file."""
        for offset in range(0, len(data), self._block_bytes):
            block = (start + offset) // self._block_bytes
            self._blocks[block] = data[offset : offset + self._block_bytes]
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._max_cached_blocks:
            self._blocks.popitem(last=False)

    def take(self, start: int, stop: int) -> bytes:
        """Return bytes ``start`` to ``stop``, after the requests of `plan` were stored."""
        first, end = start // self._block_bytes, _ceil_div(stop, self._block_bytes)
        joined = b"".join(self._blocks[block] for block in range(first, end))
        offset = first * self._block_bytes
        return joined[start - offset : stop - offset]


def _ceil_div(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _join_blocks(blocks: list[int]) -> list[tuple[int, int]]:
    """Join ascending block numbers to ranges (begin, end), which include small gaps between the numbers."""
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if runs and block - runs[-1][1] <= _MAX_BRIDGED_BLOCKS:
            runs[-1] = (runs[-1][0], block + 1)
        else:
            runs.append((block, block + 1))
    return runs


def _split_run(begin: int, end: int, max_length: int) -> list[tuple[int, int]]:
    return [(piece, min(piece + max_length, end)) for piece in range(begin, end, max_length)]
