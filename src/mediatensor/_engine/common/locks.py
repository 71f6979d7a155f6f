"""Define a lock that a forked child can use, and the base class of objects with a ``close`` method."""

from __future__ import annotations

import _thread
import os
import weakref
from abc import abstractmethod
from types import TracebackType
from typing import Self


class ForkSafeLock(_thread.RLock):  # type: ignore[misc]
    """A re-entrant lock that is free in a forked child, even if a thread of the parent held it.

    That thread does not exist in the child, so it could never release the lock there. This class is derived from the
    interpreter's own lock type because each call takes several locks, and a lock written in Python would be too slow.
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
    """Base class of objects that have a ``close`` method and can be used in a ``with`` statement, which closes them."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
