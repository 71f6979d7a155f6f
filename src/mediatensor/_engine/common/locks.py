"""Locks that survive a fork."""

from __future__ import annotations

import _thread
import os
import weakref
from abc import abstractmethod
from types import TracebackType
from typing import Self


class ForkSafeLock(_thread.RLock):  # type: ignore[misc]
    """A re-entrant lock that a fork releases in the child.

    The thread that held the lock does not exist in the child, so it could never release the lock there. The class
    derives from the interpreter's lock, because Python methods would be too slow for several locks per call.
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
    """A context manager that closes itself at the end of a ``with`` block."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
