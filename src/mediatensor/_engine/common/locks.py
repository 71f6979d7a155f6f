"""Locks that survive a fork."""

from __future__ import annotations

import _thread
import os
import weakref
from abc import abstractmethod
from types import TracebackType
from typing import Self


class ForkSafeLock(_thread.RLock):  # type: ignore[misc]
    """A re-entrant lock that is released in the child after a fork.

    The thread that held the lock does not exist in the child, so it could never release the lock there. The class
    derives from the interpreter's lock for speed: each call takes several locks, and Python methods would be too slow.
    """

    def __init__(self) -> None:
        _all_locks.add(self)


_all_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


def _free_all() -> None:
    for lock in list(_all_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)


class Closing:
    """Base class of objects with ``close()``, which is called at the end of a ``with`` block."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
