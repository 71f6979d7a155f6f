"""Locks that survive a fork."""

from __future__ import annotations

import os
import threading
import weakref
from abc import abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Closing", "ForkSafeLock"]


class ForkSafeLock:
    """A re-entrant lock that is free in a forked child, whoever held it in the parent.

    The thread that held it does not exist in the child, so that nobody would ever release it there.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _all_locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()


_all_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


def _free_all() -> None:
    for lock in list(_all_locks):
        lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)


class Closing:
    """Closes itself at the end of a ``with`` block."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
