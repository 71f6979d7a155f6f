"""Share one budget of threads among all decoders of a process.

Decoders without an explicit number of threads take their threads from this budget. Otherwise decoders, codec threads
and DataLoader workers would together start far more threads than there are cores.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from ...errors import InvalidArgumentError
from .checks import MAX_INT, whole_number
from .locks import ForkSafeLock

ENVIRONMENT_VARIABLE = "MEDIATENSOR_NUM_THREADS"

_num_threads: int | None = None


def get_num_threads() -> int:
    """Return the thread budget of this process: the number of threads that its decoders share.

    In a DataLoader worker, the budget is 1, because the workers already run in parallel. Elsewhere it is the value
    set by `set_num_threads` or, if none was set, by the environment variable ``MEDIATENSOR_NUM_THREADS``. The default
    is the number of CPU cores available to this process plus one, because one codec thread is always idle while frames
    are converted. On a single core, the default is 1.

    Returns:
        A positive number of threads.

    Raises:
        InvalidArgumentError: if the environment variable is not a positive whole number.

    Example:
        >>> from mediatensor import get_num_threads, set_num_threads
        >>> set_num_threads(2)
        >>> get_num_threads()
        2
        >>> set_num_threads(None)
    """
    data = sys.modules.get("torch.utils.data")  # every DataLoader worker has loaded this module
    if data is not None and data.get_worker_info() is not None:
        return 1
    if _num_threads is not None:
        return _num_threads
    text = os.environ.get(ENVIRONMENT_VARIABLE)
    if text is None:
        return cores + 1 if (cores := available_cores()) > 1 else 1
    if not text.isdecimal() or int(text) < 1:
        raise InvalidArgumentError(
            f"The environment variable {ENVIRONMENT_VARIABLE} must be a positive whole number (got {text!r})."
        )
    return int(text)


def set_num_threads(num_threads: int | None) -> None:
    """Set the thread budget of this process: the number of threads that its decoders share.

    If other decoders hold all threads, a new decoder uses only the calling thread. Decoders that are already open keep
    their threads.

    Args:
        num_threads: A positive number of threads. ``None`` restores the default; see `get_num_threads`.

    Raises:
        InvalidArgumentError: if the number is not positive.

    Example:
        >>> from mediatensor import set_num_threads
        >>> set_num_threads(4)
        >>> set_num_threads(None)
    """
    global _num_threads
    if num_threads is not None:
        num_threads = whole_number("num_threads", num_threads, at_least=1, at_most=MAX_INT, or_none=True)
    _num_threads = num_threads


def available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ThreadLease:
    """Threads that were taken from the process's budget, until `release` returns them.

    A lease of one thread stands for the calling thread, and takes nothing from the budget.
    """

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads
        self._process = os.getpid()

    def release(self) -> None:
        if self.num_threads > 1 and self._process == os.getpid():
            _budget.give_back(self.num_threads)
        self.num_threads = 1


def lease_threads(reclaim: Callable[[], object] = lambda: None) -> ThreadLease:
    """Take all free threads of the budget. If none is free, call ``reclaim`` to free idle threads and try again."""
    num_threads = _budget.take()
    if num_threads == 1:
        reclaim()
        num_threads = _budget.take()
    return ThreadLease(num_threads)


#: Has one element for each thread that is decoding, see `working`. A list needs no lock.
busy_threads: list[None] = []


@contextmanager
def working() -> Iterator[None]:
    """Count the calling thread as busy in a ``with`` block, so that decoders take fewer threads from the budget."""
    busy_threads.append(None)
    try:
        yield
    finally:
        if busy_threads:  # empty in a child forked meanwhile
            busy_threads.pop()


class _Budget:
    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._num_leased = 0

    def take(self) -> int:
        with self._lock:
            # Each additional decoding thread keeps a core busy.
            num_free = get_num_threads() - self._num_leased - max(0, len(busy_threads) - 1)
            if num_free < 2:  # one extra thread is not faster than the calling thread
                return 1
            self._num_leased += num_free
            return num_free

    def give_back(self, num_threads: int) -> None:
        with self._lock:
            self._num_leased -= num_threads

    def forget(self) -> None:
        """Reset the budget in a forked child, where the parent's threads do not exist."""
        self._num_leased = 0
        busy_threads.clear()


_budget = _Budget()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_budget.forget)

# Costs that determine how threads are divided among the runs of a call. Unit: time to decode a frame of 1920x1080.

# Opening a demuxer and a codec.
_OPENING = 3.0
# Expected number of frames that a caller reads after a jump.
_AHEAD = 10.0
# Codec threads wait for each other, and for the first and last frames of a run.
_CODEC_THREAD_EFFICIENCY = 0.8
# Cost of starting a codec thread and passing a frame to it. Decoding a small frame costs less.
_CODEC_THREAD_START = 0.1
_CODEC_THREAD_HANDOVER = 0.015
# Codec threads need more CPU time in total, so they are used only if they save a quarter of the elapsed time.
_WORTH_THREADS = 0.75
# Part of the work on each frame during which the interpreter's lock is held.
_LOCKED = 0.005

_PIXELS_PER_UNIT = 1920 * 1080

WorkerT = TypeVar("WorkerT")
PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Division:
    """How to divide threads within a call: the number of codecs that run in parallel, and the threads of each codec."""

    num_workers: int
    num_codec_threads: int


def divide_threads(
    pictures: Sequence[int],
    pixels: int,
    *,
    num_threads: int,
    num_codec_threads: int | None,
    num_open_workers: int,
    codec_has_threads: bool = True,
) -> Division:
    """Estimate how a call should divide ``num_threads`` among its runs to finish as early as possible.

    A run is a series of frames that one codec decodes, independently of other runs. ``pictures`` has the number of
    frames of each run, and ``pixels`` is the number of pixels of a frame. ``num_codec_threads`` is the number of
    threads of the codec that is already open, or ``None`` if no codec is open. ``num_open_workers`` is the number of
    workers that are already open, so that starting them costs nothing.

    >>> divide_threads([100, 100], 1920 * 1080, num_threads=2, num_codec_threads=None, num_open_workers=1)
    Division(num_workers=2, num_codec_threads=1)
    >>> divide_threads([200], 1920 * 1080, num_threads=2, num_codec_threads=None, num_open_workers=1)
    Division(num_workers=1, num_codec_threads=2)
    >>> divide_threads([200], 320 * 180, num_threads=2, num_codec_threads=None, num_open_workers=1)
    Division(num_workers=1, num_codec_threads=1)
    """

    def opening(codec_threads: int) -> float:
        return 0.0 if num_codec_threads in (None, codec_threads) else _OPENING

    if num_threads == 1:
        return Division(1, 1)
    size = pixels / _PIXELS_PER_UNIT
    num_pictures = sum(pictures) + (_AHEAD if len(pictures) == 1 else 0.0)
    speed_up = max(1.0, num_threads * _CODEC_THREAD_EFFICIENCY)
    num_workers = min(num_threads, len(pictures))
    longest = max(sum(pictures) * size / num_workers, max(pictures) * size, sum(pictures) * _LOCKED)
    alone = num_pictures * size + opening(1)
    costs = {Division(1, 1): alone}
    if codec_has_threads:
        starting = 0.0 if num_codec_threads == num_threads else _CODEC_THREAD_START * num_threads
        each = size / speed_up + _CODEC_THREAD_HANDOVER
        together = num_pictures * each + starting + opening(num_threads)
        if together < alone * _WORTH_THREADS:
            costs[Division(1, num_threads)] = together
    if num_workers > 1:
        num_missing = max(0, num_workers - num_open_workers)
        costs[Division(num_workers, 1)] = longest + opening(1) + num_missing * _OPENING
    return min(costs, key=costs.__getitem__)


def run_in_parallel(workers: Sequence[WorkerT], parts: Sequence[PartT], work: Callable[[WorkerT, PartT], None]) -> None:
    """Call ``work(worker, part)`` for each part, with one thread per worker.

    The first worker runs in the calling thread. Raises the first error of any worker, after all workers have stopped.
    """
    waiting = deque(parts)
    errors: list[BaseException] = []

    def run(worker: WorkerT) -> None:
        try:
            while not errors:
                try:
                    part = waiting.popleft()
                except IndexError:
                    return
                work(worker, part)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(worker,), name="mediatensor-worker") for worker in workers[1:]]
    for thread in threads:
        thread.start()
    run(workers[0])
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def map_ahead(
    pool: Executor, work: Callable[[PartT], ResultT], parts: Iterable[PartT], num_ahead: int
) -> Iterator[ResultT]:
    """Yield the results of ``work`` in the order of ``parts``, of which ``num_ahead`` are taken in advance."""
    waiting: deque[Future[ResultT]] = deque()
    try:
        for part in parts:
            waiting.append(pool.submit(work, part))
            if len(waiting) > num_ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
