"""Open handles of one decoder, lent to one call at a time.

A decoder may be used from several threads: every call borrows a handle that nobody else holds, or opens one.
After a fork the child starts with none: handles of the parent share its file offset and miss its codec threads.
"""

from __future__ import annotations

import atexit
import errno
import math
import os
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from ...errors import ClosedError, MediaTensorError
from . import stages
from .interrupts import interrupts_kept
from .locks import ForkSafeLock
from .threads import ThreadLease, busy_threads

__all__ = ["HandlePool", "PooledHandle", "reclaim_threads"]

# Idle handles that are kept; more were only needed while that many threads called at once.
_MAX_IDLE = 8

# How long a handle keeps its threads although nobody calls and others want them.
_REST_SECONDS = 1.0


class PooledHandle(Protocol):
    """What the pool has to know of a handle.

    Attributes:
        lease: The threads of its codec.
        idle_since: When it was given back, by the monotonic clock.
    """

    lease: ThreadLease
    idle_since: float

    def close(self) -> None: ...


H = TypeVar("H", bound=PooledHandle)


class HandlePool(Generic[H]):
    """Lends handles.

    Args:
        open_handle: Opens a new one.
        check: Called before a handle is used again; what it raises, the borrower gets.
    """

    def __init__(self, open_handle: Callable[[], H], check: Callable[[], object] | None = None) -> None:
        self._open_handle = open_handle
        self._check = check
        self._idle: list[H] = []
        self._is_closed = False
        self._generation = 0
        self._lock = ForkSafeLock()
        with _pools_lock:
            _pools.add(self)

    def change(self, open_handle: Callable[[], H], adapt: Callable[[H], object]) -> None:
        """Open handles in another way from now on, and adapt those that are idle; none may be in use."""
        with self._lock:
            self._open_handle = open_handle
            for handle in self._idle:
                adapt(handle)

    def replace(self, open_handle: Callable[[], H]) -> None:
        """Open handles in another way from now on; those that there are serve no more."""
        with self._lock:
            self._open_handle = open_handle
            self._generation += 1
            idle, self._idle = self._idle, []
        for handle in idle:
            handle.close()

    def borrow(self) -> _Loan[H]:
        """A handle for the time of a ``with`` block. After an exception it is closed, its state being unknown.

        Raises:
            ClosedError: after `close`.
        """
        return _Loan(self)

    def _take(self) -> tuple[H, int]:
        with self._lock:
            if self._is_closed:
                raise ClosedError("The decoder is closed; make a new one to decode more.")
            generation, open_handle = self._generation, self._open_handle
            if self._idle:
                if self._check is not None:
                    self._check()
                return self._idle.pop(), generation
        with stages.OPEN:
            try:
                return open_handle(), generation
            except (MediaTensorError, OSError) as error:
                if not (_is_out_of_files(error) and close_least_recent()):
                    raise
            return open_handle(), generation

    def _give_back(self, handle: H, generation: int) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < _MAX_IDLE and generation == self._generation:
                handle.idle_since = time.monotonic()
                self._idle.append(handle)
                return
        handle.close()

    def close(self) -> None:
        """Close all idle handles now, and those in use when they come back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for handle in idle:
            handle.close()

    def close_idle(self, before: float) -> None:
        """Close handles that hold threads and were used last before a time of the monotonic clock."""
        with self._lock:
            stale = [handle for handle in self._idle if handle.lease.num_threads > 1 and handle.idle_since < before]
            self._idle = [handle for handle in self._idle if handle not in stale]
        for handle in stale:
            handle.close()

    def idle_times(self) -> list[float]:
        """When the handles that are idle were given back."""
        with self._lock:
            return [handle.idle_since for handle in self._idle]

    def close_until(self, time: float) -> int:
        """Close handles that were given back until a time of the monotonic clock, and return their number."""
        with self._lock:
            old = [handle for handle in self._idle if handle.idle_since <= time]
            self._idle = [handle for handle in self._idle if handle not in old]
        for handle in old:
            handle.close()
        return len(old)

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()

    def _forget(self) -> None:
        # Freeing a codec in the child would wait for threads that the fork did not copy.
        _handles_of_the_parent.extend(self._idle)
        self._idle = []


class _Loan(Generic[H]):
    """The ``with`` block of a call. A class, because a generator would cost more than a small frame."""

    __slots__ = ("_generation", "_handle", "_interrupts", "_pool")

    def __init__(self, pool: HandlePool[H]) -> None:
        self._pool = pool

    def __enter__(self) -> H:
        self._handle, self._generation = self._pool._take()
        busy_threads.append(None)
        try:
            self._interrupts = interrupts_kept()
            self._interrupts.__enter__()
        except BaseException:
            busy_threads.pop()
            self._handle.close()
            raise
        return self._handle

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        handle, pool = self._handle, self._pool
        del self._handle
        try:
            self._interrupts.__exit__(kind, error, traceback)
        except BaseException:
            handle.close()
            raise
        finally:
            if busy_threads:  # a child forked meanwhile has forgotten them
                busy_threads.pop()
        if error is None:
            pool._give_back(handle, self._generation)
        else:
            handle.close()


_pools: weakref.WeakSet[HandlePool[Any]] = weakref.WeakSet()
_pools_lock = ForkSafeLock()
_handles_of_the_parent: list[Any] = []


def reclaim_threads() -> None:
    """Make decoders that have rested for a while give back their threads; they open the source anew when needed."""
    with _pools_lock:  # others make decoders meanwhile
        pools = list(_pools)
    for pool in pools:
        pool.close_idle(time.monotonic() - _REST_SECONDS)


def close_least_recent() -> int:
    """Close the half of all idle handles that was used least recently, and return their number."""
    with _pools_lock:
        pools = list(_pools)
    times = sorted(time for pool in pools for time in pool.idle_times())
    return sum(pool.close_until(times[len(times) // 2]) for pool in pools) if times else 0


def _is_out_of_files(error: BaseException | None) -> bool:
    """Whether an error comes of a limit on open files."""
    while error is not None:
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__
    return False


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool._forget()


def _close_all() -> None:
    """When the interpreter ends: while there still are the modules, and the devices, that closing needs."""
    for pool in list(_pools):
        pool.close_until(math.inf)  # others may decode yet, when the interpreter calls them after this


atexit.register(_close_all)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
