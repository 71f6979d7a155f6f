"""Open handles of one decoder, lent to one call at a time.

A decoder may be used from several threads: every call borrows a handle that nobody else holds, or opens one.
After a fork the child starts with none: handles of the parent share its file offset and miss its codec threads.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from .._locks import ForkSafeLock
from .._pyav import FrameConverter
from .._threads import ThreadLease, lease_threads, working
from ..errors import ClosedError, MediaTensorError
from ._approximate_stream import ApproximateStream
from ._frame_stream import FrameStream
from ._recent import RecentPictures

__all__ = ["Handle", "HandlePool", "Lane"]

# Idle handles that are kept; more were only needed while that many threads called at once.
_MAX_IDLE = 8

# How long a handle keeps its threads although nobody calls and others want them.
_REST_SECONDS = 1.0


@dataclass
class Lane:
    """What one thread needs to decode: a stream with its codec, and a converter with its scratch memory."""

    stream: FrameStream
    converter: FrameConverter


class Handle:
    """What one call needs: a stream, a converter, threads, and the pictures that were decoded lately.

    Args:
        stream: Stands on a fresh reader.
        converter: Converts its frames.
        open_lane: Opens the source once more for one thread; ``None`` if the number of codec threads is the user's
            choice.
    """

    def __init__(
        self,
        stream: FrameStream | ApproximateStream,
        converter: FrameConverter,
        open_lane: Callable[[], Lane] | None = None,
    ) -> None:
        self.stream = stream
        self.converter = converter
        self.recent = RecentPictures()
        self.lease = ThreadLease(1)
        self.idle_since = 0.0
        #: The frame that the last call asked for, if it was a single one.
        self.last_single: int | None = None
        self._open_lane = open_lane
        self._more_lanes: list[Lane] = []

    @property
    def chooses_threads(self) -> bool:
        """Whether the number of threads is ours to choose."""
        return self._open_lane is not None

    def num_threads(self) -> int:
        """How many threads may work on a call: what the budget has left."""
        if self.lease.num_threads == 1:
            self.lease = lease_threads(reclaim_threads)
        return self.lease.num_threads

    def lanes(self, count: int) -> list[Lane]:
        """Up to ``count`` lanes of one thread each; the first is the handle's own stream."""
        assert isinstance(self.stream, FrameStream)
        assert self._open_lane is not None
        self.stream.use_threads(1)
        with suppress(MediaTensorError):  # too many open files, say: then fewer
            while len(self._more_lanes) < count - 1:
                self._more_lanes.append(self._open_lane())
        return [Lane(self.stream, self.converter), *self._more_lanes[: count - 1]]

    @property
    def num_open_lanes(self) -> int:
        return 1 + len(self._more_lanes)

    def close(self) -> None:
        self.recent.clear()
        for lane in self._more_lanes:
            lane.stream.reader.close()
        self.stream.reader.close()
        self.lease.release()


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
        with _pools_lock:
            _pools.add(self)

    @contextmanager
    def borrow(self) -> Iterator[Handle]:
        """A handle for the time of a ``with`` block. After an exception it is closed, its state being unknown.

        Raises:
            ClosedError: after `close`.
        """
        handle = self._take()
        try:
            with working():
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

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()

    def _forget(self) -> None:
        # Freeing a codec in the child would wait for threads that the fork did not copy.
        _handles_of_the_parent.extend(self._idle)
        self._idle = []


_pools: weakref.WeakSet[HandlePool] = weakref.WeakSet()
_pools_lock = ForkSafeLock()
_handles_of_the_parent: list[Handle] = []


def reclaim_threads() -> None:
    """Make decoders that have rested for a while give back their threads; they open the source anew when needed."""
    with _pools_lock:  # others make decoders meanwhile
        pools = list(_pools)
    for pool in pools:
        pool.close_idle(time.monotonic() - _REST_SECONDS)


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
