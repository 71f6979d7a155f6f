"""Keep the open handles of a decoder, and lend each to one call at a time.

A handle is an open stream with its codec. Several threads can use the same decoder, because every call borrows an idle
handle or opens a new one. A forked child starts without handles, because it cannot use the parent's handles. Parent and
child share the file offsets of these handles, so reading in the child would disturb the parent. In addition, the codec
threads of these handles do not exist in the child.
"""

from __future__ import annotations

import atexit
import errno
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

# Largest number of idle handles to keep. More were needed only if more threads than this called at the same time.
_MAX_IDLE = 8

# Time for which an idle handle keeps its threads although other decoders need them.
_REST_SECONDS = 1.0


class PooledHandle(Protocol):
    lease: ThreadLease  # the threads of the handle's codec
    idle_since: float  # monotonic time at which the handle was returned
    keeps_interrupts: bool  # whether a signal's exception could be lost in a call, see `interrupts_kept`

    def close(self) -> None: ...


H = TypeVar("H", bound=PooledHandle)


class HandlePool(Generic[H]):
    """Keeps handles (open streams with their codecs), and lends each to one caller at a time.

    If no handle is idle, ``open_handle`` is called to open a new one. Before an idle handle is lent again, ``check`` is
    called. If it raises an error, borrowing fails with that error.
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
        """Open handles with another function from now on, and call ``adapt`` with each idle handle to update it.

        Call this only while no handle is lent.
        """
        with self._lock:
            self._open_handle = open_handle
            for handle in self._idle:
                adapt(handle)

    def replace(self, open_handle: Callable[[], H]) -> None:
        """Open handles with another function from now on, and do not lend the existing handles again."""
        with self._lock:
            self._open_handle = open_handle
            self._generation += 1
            idle, self._idle = self._idle, []
        for handle in idle:
            handle.close()

    def borrow(self) -> _Loan[H]:
        """Return a context manager that lends a handle to a ``with`` block.

        If the block raises an exception, the handle is closed, because it can be in any state.
        """
        return _Loan(self)

    def _open(self, open_handle: Callable[[], H]) -> H:
        with stages.OPEN:
            try:
                return open_handle()
            except (MediaTensorError, OSError) as error:
                if not (_is_out_of_files(error) and close_least_recent()):
                    raise
            return open_handle()

    def close(self) -> None:
        """Close idle handles now, and each borrowed handle when it is returned."""
        with self._lock:
            self._is_closed = True
        self.close_where(lambda _: True)

    def close_where(self, is_stale: Callable[[H], bool]) -> int:
        """Close the idle handles for which ``is_stale`` returns true. Return the number of closed handles."""
        with self._lock:
            stale = [handle for handle in self._idle if is_stale(handle)]
            self._idle = [handle for handle in self._idle if handle not in stale]
        for handle in stale:
            handle.close()
        return len(stale)

    def idle_times(self) -> list[float]:
        with self._lock:
            return [handle.idle_since for handle in self._idle]

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()

    def _drop_idle(self) -> None:
        # Freeing a codec in the child would wait for threads that do not exist there.
        _handles_of_the_parent.extend(self._idle)
        self._idle = []


class _Loan(Generic[H]):
    """The context manager of `HandlePool.borrow`. As a generator, it would take longer than decoding a small frame."""

    __slots__ = ("_generation", "_handle", "_interrupts", "_pool")

    _interrupts: interrupts_kept | None

    def __init__(self, pool: HandlePool[H]) -> None:
        self._pool = pool

    def __enter__(self) -> H:
        pool, handle = self._pool, None
        with pool._lock:
            if pool._is_closed:
                raise ClosedError("The decoder is closed; make a new one to decode more.")
            self._generation, open_handle = pool._generation, pool._open_handle
            if pool._idle:
                if pool._check is not None:
                    pool._check()
                handle = pool._idle.pop()
        self._handle = pool._open(open_handle) if handle is None else handle
        busy_threads.append(None)
        try:
            self._interrupts = None
            if self._handle.keeps_interrupts:
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
            if self._interrupts is not None:
                self._interrupts.__exit__(kind, error, traceback)
        except BaseException:
            handle.close()
            raise
        finally:
            if busy_threads:  # empty in a child forked meanwhile
                busy_threads.pop()
        if error is None:
            with pool._lock:
                if not pool._is_closed and len(pool._idle) < _MAX_IDLE and self._generation == pool._generation:
                    handle.idle_since = time.monotonic()
                    pool._idle.append(handle)
                    return
        handle.close()


_pools: weakref.WeakSet[HandlePool[Any]] = weakref.WeakSet()
_pools_lock = ForkSafeLock()
_handles_of_the_parent: list[Any] = []


def _all_pools() -> list[HandlePool[Any]]:
    with _pools_lock:  # other threads may create decoders concurrently
        return list(_pools)


def reclaim_threads() -> None:
    """Free threads for other decoders: close the handles that have threads and have been idle for a second."""
    before = time.monotonic() - _REST_SECONDS
    for pool in _all_pools():
        pool.close_where(lambda handle: handle.lease.num_threads > 1 and handle.idle_since < before)


def close_least_recent() -> int:
    """Close about half of all idle handles: those used least recently. Return the number of closed handles."""
    pools = _all_pools()
    times = sorted(time for pool in pools for time in pool.idle_times())
    latest = times[len(times) // 2] if times else 0.0
    return sum(pool.close_where(lambda handle: handle.idle_since <= latest) for pool in pools) if times else 0


def _is_out_of_files(error: BaseException | None) -> bool:
    while error is not None:
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
            return True
        error = error.__cause__
    return False


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool._drop_idle()


def _close_all() -> None:
    """Close idle handles when the interpreter exits, while the modules and devices needed for closing still exist."""
    for pool in list(_pools):
        pool.close_where(lambda _: True)  # not `close`: other exit handlers may still decode


atexit.register(_close_all)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
