"""Allocate memory for batches, and reuse it when a batch has been freed.

Touching a page of new memory for the first time takes longer than copying data into it. So idle blocks are reused, and
new blocks consist of huge pages as long as the system provides huge pages quickly::

    `empty` ──► an idle block of about the size, or new pages ──► array, tensor, views
                        ▲            (huge pages while they are        │
                        │             fast, else small pages)          ▼
                        └── limited by the recent peak use ◄── the last reference is gone
"""

from __future__ import annotations

import math
import mmap
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# For smaller arrays, the system's allocator already reuses memory.
_MIN_BYTES = 1 << 19

_HUGE_PAGE_BYTES = 1 << 21
# Zeroing a huge page usually takes about 0.1 ms; zeroing small pages of the same total size takes 0.7 ms. A huge page
# takes 5 ms if a hypervisor has not backed it yet, or if the kernel must move other memory first.
_MAX_HUGE_PAGE_NS = 400_000
# Number of bytes to allocate in small pages, after a slow huge page, before huge pages are tried again. Each further
# slow page quadruples it: the first may be chance, and a trial then costs about 1 %.
_FEWEST_SMALL_BYTES, _MOST_SMALL_BYTES = 1 << 26, 1 << 30
_HAS_HUGE_PAGES = hasattr(mmap, "MADV_HUGEPAGE") and mmap.PAGESIZE == 4096


@dataclass(slots=True, eq=False)
class _Memory:
    """A block of memory, identified by its address."""

    content: NDArray[np.uint8]
    address: int
    pages: mmap.mmap | None  # `None` if numpy has allocated the block
    idle_since: float = 0.0


class Pool:
    """Keeps idle blocks of memory, and lends them for later batches of about the same size.

    The total size of all blocks, idle or in use, exceeds the recent peak use by at most 128 MiB. All idle blocks
    together have at most 1 GiB. A block that has been idle for a minute is freed when the pool is called next.

    The thread that drops the last reference to a block returns the block to the pool. This can happen during garbage
    collection or in a forked process, so the pool has no lock. Instead, each step is one atomic operation on a
    dictionary or a deque.
    """

    # Class attributes, because the interpreter clears the module's variables before the last arrays are freed.
    always_idle_bytes = 1 << 27  # one batch of about twenty 1080p frames
    max_idle_bytes = 1 << 30
    max_idle_seconds = 60.0
    num_remembered = 32  # peak use is the maximum over this many allocations and returns
    free_lazily = getattr(mmap, "MADV_FREE", None)

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._idle: dict[int, _Memory] = {}  # by address; the longest idle block comes first
        self._lent: dict[int, int] = {}  # bytes by address
        self._bytes_in_use: deque[int] = deque(maxlen=self.num_remembered)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an uninitialised array. A large array gets an idle block, if there is one of about its size."""
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if num_bytes < _MIN_BYTES:
            if self._idle:
                self._free_expired()
            return np.empty(shape, dtype)
        block = np.asarray(_Block(self, self._take(num_bytes)))
        return block[:num_bytes].view(dtype).reshape(shape)

    def idle_blocks(self) -> list[NDArray[np.uint8]]:
        return [memory.content for memory in list(self._idle.values())]

    def free_idle_blocks(self) -> None:
        self._idle.clear()

    def _take(self, num_bytes: int) -> _Memory:
        memory = self._take_idle(num_bytes)
        size = num_bytes if memory is None else memory.content.size
        self._bytes_in_use.append(sum(list(self._lent.values())) + size)
        # Free blocks before allocating, because the system can then reuse their pages.
        self._trim(size)
        if memory is None:
            try:
                memory = _allocate(num_bytes)
            except MemoryError:
                self._idle.clear()
                memory = _allocate(num_bytes)
        self._lent[memory.address] = size
        return memory

    def _take_idle(self, num_bytes: int) -> _Memory | None:
        for memory in reversed(list(self._idle.values())):
            fits = num_bytes <= memory.content.size <= num_bytes + num_bytes // 4
            # Another thread may have taken this block meanwhile, and another block may have got its address.
            if fits and self._idle.pop(memory.address, None) is memory:
                return memory
        return None

    def give_back(self, memory: _Memory) -> None:
        """Take back a block. At interpreter exit, modules have been cleared, so do not use module-level names here."""
        self._bytes_in_use.append(sum(list(self._lent.values())))
        self._lent.pop(memory.address, None)
        size = memory.content.size
        if size > self.max_idle_bytes:
            return
        is_much = size + sum([other.content.size for other in list(self._idle.values())]) > self.always_idle_bytes
        if is_much and memory.pages is not None and self.free_lazily is not None:
            # The kernel frees these pages only if memory runs short. This call must come before the block can be
            # reused, or the data of its next user could be freed.
            try:
                memory.pages.madvise(self.free_lazily)
            except OSError:  # an old kernel
                self.free_lazily = None
        memory.idle_since = self._clock()
        self._idle[memory.address] = memory
        self._trim(0)

    def _trim(self, num_new_bytes: int) -> None:
        """Free idle blocks, the longest idle ones first, until ``num_new_bytes`` can be allocated within the limits."""
        self._free_expired()
        in_use = sum(list(self._lent.values())) + num_new_bytes
        spare = max(list(self._bytes_in_use), default=0) - in_use
        bound = min(self.max_idle_bytes, max(0, spare) + self.always_idle_bytes)
        blocks = list(self._idle.values())
        excess = sum([memory.content.size for memory in blocks]) - bound
        for memory in blocks:
            if excess <= 0:
                return
            self._idle.pop(memory.address, None)
            excess -= memory.content.size

    def _free_expired(self) -> None:
        oldest = self._clock() - self.max_idle_seconds
        for memory in list(self._idle.values()):
            if memory.idle_since > oldest:
                return
            self._idle.pop(memory.address, None)


class _Block:
    """The owner of an array's memory. When no array uses the memory any more, the owner returns it to the pool."""

    def __init__(self, pool: Pool, memory: _Memory) -> None:
        self._pool = pool
        self._memory = memory
        self.__array_interface__ = memory.content.__array_interface__

    def __del__(self) -> None:
        self._pool.give_back(self._memory)


# Number of bytes to allocate in small pages before the next trial of huge pages, and after the next slow one.
_small_bytes_left, _next_small_bytes = 0, _FEWEST_SMALL_BYTES


def _choose_page_size(pages: mmap.mmap, address: int) -> None:
    """Choose pages for a new memory mapping at ``address``: huge ones, as long as touching them is fast."""
    global _small_bytes_left, _next_small_bytes
    size = len(pages)
    if size < 2 * _HUGE_PAGE_BYTES:
        return
    if _small_bytes_left > 0:
        _small_bytes_left -= size
        pages.madvise(mmap.MADV_NOHUGEPAGE)
        return
    pages.madvise(mmap.MADV_HUGEPAGE)
    # Touch all pages now. Touching some of them is not enough: the system provides fast pages first, so these would be
    # fast and later pages slow.
    for begin in range(-address % _HUGE_PAGE_BYTES, size - _HUGE_PAGE_BYTES, _HUGE_PAGE_BYTES):
        before = time.thread_time_ns()  # CPU time of this thread, so waiting for a core does not count
        pages[begin] = 0
        if time.thread_time_ns() - before > _MAX_HUGE_PAGE_NS:
            _small_bytes_left = _next_small_bytes
            _next_small_bytes = min(4 * _next_small_bytes, _MOST_SMALL_BYTES)
            pages.madvise(mmap.MADV_NOHUGEPAGE, begin + _HUGE_PAGE_BYTES)
            return
    _next_small_bytes = _FEWEST_SMALL_BYTES


def _allocate(num_bytes: int) -> _Memory:
    if _HAS_HUGE_PAGES:
        with suppress(OSError):  # numpy's error states the size
            pages = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            content = np.frombuffer(pages, np.uint8)
            address = int(content.__array_interface__["data"][0])
            with suppress(OSError):  # a kernel without huge pages
                _choose_page_size(pages, address)
            return _Memory(content, address, pages)
    content = np.empty(num_bytes, np.uint8)
    return _Memory(content, int(content.__array_interface__["data"][0]), None)


_pool = Pool()
empty = _pool.empty
idle_blocks = _pool.idle_blocks
free_idle_blocks = _pool.free_idle_blocks

if hasattr(os, "register_at_fork"):
    # In the child, writing to a page shared with the parent would take longer than writing to a new page.
    os.register_at_fork(after_in_child=free_idle_blocks)
