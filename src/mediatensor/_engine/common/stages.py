"""Measure how much time a call spends in each stage, from opening the source to copying the batch.

Code enters a stage with ``with stages.DECODE:``. Nothing is measured unless a collector (`collect_stages`) or a
profiler is active.

Each thread measures its own time. While a thread waits for other threads that work for its call, the waiting time
counts for the thread's current stage. The sum of all stages therefore never exceeds the duration of the call. A
generator must not yield within a stage, because a stage belongs to the thread that entered it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any


class Stage:
    """A context manager that measures the time of its ``with`` block in the current thread.

    If the block enters another stage, time counts only for the inner stage until that one ends. In a ``torch.profiler``
    trace, the block appears as ``mediatensor::name`` if its thread is profiled. A profiler in the main process does not
    see DataLoader workers.

    >>> with collect_stages() as seconds, DECODE, CONVERT:
    ...     pass
    >>> sorted(seconds)
    ['convert', 'decode']
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    # Do no work unless a collector or profiler is active: converting a small frame takes less than a microsecond.

    def __enter__(self) -> None:
        collector = _thread.collector
        if collector is not None:
            collector.enter(self.name)
        if _profiler is None:
            _find_profiler()
        if _profiler is not None and _profiler._is_profiler_enabled:
            block = trace_range(self.name)
            block.__enter__()
            _thread.traced = (*_thread.traced, (self, block))

    def __exit__(self, *_: object) -> None:
        if _thread.traced and _thread.traced[-1][0] is self:
            *outer, (_stage, block) = _thread.traced
            _thread.traced = tuple(outer)
            block.__exit__(None, None, None)
        collector = _thread.collector
        if collector is not None:
            collector.leave()


OPEN = Stage("open")
INDEX = Stage("index")
SEEK = Stage("seek")
DECODE = Stage("decode")
CONVERT = Stage("convert")
TRANSFORM = Stage("transform")
COLLATE = Stage("collate")
COPY = Stage("copy")

#: Stage names, in the order in which a sample passes through them.
STAGES = tuple(stage.name for stage in (OPEN, INDEX, SEEK, DECODE, CONVERT, TRANSFORM, COLLATE, COPY))


def trace_range(name: str) -> AbstractContextManager[Any]:
    """Return a context manager whose block appears as ``mediatensor::name`` in a profile, but is not a stage."""
    _find_profiler()
    if _profiler is None or not _profiler._is_profiler_enabled:
        return nullcontext()
    block: AbstractContextManager[Any] = _profiler.record_function(f"mediatensor::{name}")
    return block


@contextmanager
def collect_stages() -> Iterator[dict[str, float]]:
    """Measure the seconds that this thread spends in each stage during a ``with`` block.

    The ``with`` block gets a dictionary from stage names to seconds, which is filled at the end of the block. If stages
    are nested, time counts only for the innermost. If collectors are nested, time counts in each collector.
    """
    outer = _thread.collector
    collector = _thread.collector = _Collector("" if outer is None else outer.running)
    seconds: dict[str, float] = {}
    try:
        yield seconds
    finally:
        seconds |= collector.finish()
        _thread.collector = outer
        if outer is not None:
            outer.add(seconds, collector.started)


class _Collector:
    """Adds up the seconds of one thread, by stage. The empty name stands for time outside all stages."""

    __slots__ = ("interrupted", "running", "seconds", "since", "started")

    def __init__(self, name: str) -> None:
        self.seconds: dict[str, float] = {name: 0.0}
        self.interrupted: list[str] = []
        self.running = name
        self.started = self.since = time.perf_counter()

    def enter(self, name: str) -> None:
        self.interrupted.append(self.running)
        self._switch_to(name)

    def leave(self) -> None:
        self._switch_to(self.interrupted.pop())

    def _switch_to(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[self.running] += now - self.since
        self.running, self.since = name, now
        self.seconds.setdefault(name, 0.0)

    def add(self, seconds: dict[str, float], started: float) -> None:
        """Add the seconds of an inner collector, which began at ``started`` and has paused this collector until now."""
        self.seconds[self.running] += started - self.since
        self.since = time.perf_counter()
        for name, spent in seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def finish(self) -> dict[str, float]:
        self._switch_to(self.running)
        return {name: spent for name, spent in self.seconds.items() if name}


class _Thread(threading.local):
    collector: _Collector | None = None
    #: The stages being traced, each with its profiler block. The innermost stage is last.
    traced: tuple[tuple[Stage, AbstractContextManager[Any]], ...] = ()


_thread = _Thread()

# The module torch.autograd.profiler once it is imported. Without torch, nothing is profiled.
_profiler: Any = None


def _find_profiler() -> None:
    global _profiler
    module = sys.modules.get("torch.autograd.profiler")
    if hasattr(module, "_is_profiler_enabled") and hasattr(module, "record_function"):
        _profiler = module


def _after_fork_in_child() -> None:
    # The parent's collector is read only in the parent.
    _thread.collector = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
