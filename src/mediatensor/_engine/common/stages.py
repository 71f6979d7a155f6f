"""How long the stages of reading take: opening, indexing, seeking, decoding and what follows.

Code that does such work enters a stage: ``with stages.DECODE:``. Nothing is measured unless somebody collects
(`collect_stages`) or a profiler runs.

Times belong to one thread. While several threads work for a call, the calling thread counts its own work, and it counts
the wait for the others in the stage in which it waits. The seconds of all stages therefore never exceed the duration of
the call. A generator must not yield within a stage, because the stage belongs to the thread that entered it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

__all__ = [
    "COLLATE",
    "CONVERT",
    "COPY",
    "DECODE",
    "INDEX",
    "OPEN",
    "SEEK",
    "STAGES",
    "TRANSFORM",
    "Stage",
    "collect_stages",
    "trace_range",
]


class Stage:
    """For the time of a ``with`` block, the current thread is at this stage; a stage within it interrupts it.

    In a trace of ``torch.profiler`` the block appears as ``mediatensor::name``, if it runs in a thread that is
    profiled: profilers of the main process do not see the workers of a DataLoader.

    >>> with collect_stages() as seconds, DECODE, CONVERT:
    ...     pass
    >>> sorted(seconds)
    ['convert', 'decode']
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    # One object for each stage, and no calls unless somebody listens: a small picture takes less than a microsecond.

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

#: In the order in which a sample goes through them.
STAGES = tuple(stage.name for stage in (OPEN, INDEX, SEEK, DECODE, CONVERT, TRANSFORM, COLLATE, COPY))


def trace_range(name: str) -> AbstractContextManager[Any]:
    """A ``with`` block that appears as ``mediatensor::name`` in a trace of ``torch.profiler``, and is not a stage."""
    _find_profiler()
    if _profiler is None or not _profiler._is_profiler_enabled:
        return nullcontext()
    block: AbstractContextManager[Any] = _profiler.record_function(f"mediatensor::{name}")
    return block


@contextmanager
def collect_stages() -> Iterator[dict[str, float]]:
    """Collect the seconds that this thread spends in each stage of a ``with`` block; each second counts for one stage.

    The dictionary is filled when the block is left. A collector around the block gets the same seconds.
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
    """The seconds of one thread by stage. The stage without a name is the time at no stage."""

    __slots__ = ("interrupted", "running", "seconds", "since", "started")

    def __init__(self, name: str) -> None:
        self.seconds: dict[str, float] = {name: 0.0}
        self.interrupted: list[str] = []
        self.running = name
        self.started = self.since = time.perf_counter()

    def enter(self, name: str) -> None:
        self.interrupted.append(self.running)
        self._go_on(name)

    def leave(self) -> None:
        self._go_on(self.interrupted.pop())

    def _go_on(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[self.running] += now - self.since
        self.running, self.since = name, now
        self.seconds.setdefault(name, 0.0)

    def add(self, seconds: dict[str, float], started: float) -> None:
        """Add what an inner collector measured from ``started`` until now, when this one did not run."""
        self.seconds[self.running] += started - self.since
        self.since = time.perf_counter()
        for name, spent in seconds.items():
            self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def finish(self) -> dict[str, float]:
        self._go_on(self.running)
        return {name: spent for name, spent in self.seconds.items() if name}


class _Thread(threading.local):
    collector: _Collector | None = None
    #: Stages that appear in a trace, with the profiler's block of each, the innermost last.
    traced: tuple[tuple[Stage, AbstractContextManager[Any]], ...] = ()


_thread = _Thread()

# The module torch.autograd.profiler, once it is imported: without torch there is nobody to profile.
_profiler: Any = None


def _find_profiler() -> None:
    global _profiler
    module = sys.modules.get("torch.autograd.profiler")
    if hasattr(module, "_is_profiler_enabled") and hasattr(module, "record_function"):
        _profiler = module


def _after_fork_in_child() -> None:
    # What the parent collects is read in the parent.
    _thread.collector = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
