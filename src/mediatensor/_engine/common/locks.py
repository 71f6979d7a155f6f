"""Define locks and cached properties that a forked child can use, and the base class of objects with ``close``."""

from __future__ import annotations

import _thread
import functools
import os
import sys
import weakref
from abc import abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """Python's ``cached_property`` without its lock, which all instances of a class share before Python 3.12.

        If another thread holds that lock during a fork, the child waits for ever. Without the lock, two threads may
        both compute the value; either result is valid.
        """

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


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
