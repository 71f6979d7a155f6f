"""Open handles of one decoder, lent to one call at a time.

A decoder may be used from several threads: every call borrows a handle that nobody else holds, or opens one.
After a fork the child starts with none: handles of the parent share its file offset and miss its codec threads.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .._locks import ForkSafeLock
from .._pyav import FrameConverter
from ..errors import ClosedError
from ._approximate_stream import ApproximateStream
from ._frame_stream import FrameStream

__all__ = ["Handle", "HandlePool"]

# Idle handles that are kept; more were only needed while that many threads called at once.
_MAX_IDLE = 8


@dataclass
class Handle:
    """What one call needs: a stream with its codec, and a converter with its scratch memory."""

    stream: FrameStream | ApproximateStream
    converter: FrameConverter

    def close(self) -> None:
        self.stream.reader.close()


class HandlePool:
    """Lends handles.

    Args:
        open_handle: Opens a new one.
    """

    def __init__(self, open_handle: Callable[[], Handle]) -> None:
        self._open_handle = open_handle
        self._idle: list[Handle] = []
        self._is_closed = False
        self._lock = ForkSafeLock()
        _pools.add(self)

    @contextmanager
    def borrow(self) -> Iterator[Handle]:
        """A handle for the time of a ``with`` block. After an exception it is closed, its state being unknown.

        Raises:
            ClosedError: after `close`.
        """
        handle = self._take()
        try:
            yield handle
        except BaseException:
            handle.close()
            raise
        self._give_back(handle)

    def _take(self) -> Handle:
        with self._lock:
            if self._is_closed:
                raise ClosedError("The decoder is closed; make a new one to decode more.")
            if self._idle:
                return self._idle.pop()
        return self._open_handle()

    def _give_back(self, handle: Handle) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < _MAX_IDLE:
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

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()

    def _forget(self) -> None:
        # Freeing a codec in the child would wait for threads that the fork did not copy.
        _handles_of_the_parent.extend(self._idle)
        self._idle = []


_pools: weakref.WeakSet[HandlePool] = weakref.WeakSet()
_handles_of_the_parent: list[Handle] = []


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
