"""How long the stages of reading take: opening, indexing, seeking, decoding and what follows.

Code that does such work says so with `stage`. Nothing is measured unless somebody collects, or a profiler runs.

What is collected is the time of one thread: of lanes that work for a call, the calling thread's own counts, and what it
waits for the others counts for the stage that it waits in. So the seconds of the stages never add up to more than the
call took. A stage belongs to the thread that is in it; a generator must not yield within one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

__all__ = ["STAGES", "collect_stages", "stage", "traced"]

#: In the order in which a sample goes through them.
STAGES = ("open", "index", "seek", "decode", "convert", "transform", "collate", "copy")

_NOTHING: AbstractContextManager[None] = nullcontext()


def stage(name: str) -> AbstractContextManager[None]:
    """For the time of a ``with`` block, this thread is at a stage; a stage within one interrupts it.

    In a trace of ``torch.profiler`` the block appears as ``mediatensor::name``, if it runs in a thread that is
    profiled: profilers of the main process do not see the workers of a DataLoader.

    >>> with collect_stages() as seconds, stage("decode"), stage("convert"):
    ...     pass
    >>> sorted(seconds)
    ['convert', 'decode']
    """
    collector = _here.collector
    measured = _NOTHING if collector is None else collector.stage(name)
    return _traced(name, measured) if _is_profiled() else measured


def traced(name: str) -> AbstractContextManager[None]:
    """A ``with`` block that appears as ``mediatensor::name`` in a trace of ``torch.profiler``, and is no stage."""
    return _traced(name, _NOTHING) if _is_profiled() else _NOTHING


def _is_profiled() -> bool:
    # Without torch there is nobody to profile.
    return getattr(sys.modules.get("torch.autograd.profiler"), "_is_profiler_enabled", False)


@contextmanager
def collect_stages() -> Iterator[dict[str, float]]:
    """The seconds by stage that this thread spends in a ``with`` block; each second counts for one stage.

    They are there when the block is left. Who collects around such a block gets them, too.
    """
    outer = _here.collector
    collector = _here.collector = _Collector("" if outer is None else outer.running.name)
    seconds: dict[str, float] = {}
    try:
        yield seconds
    finally:
        seconds |= collector.finish()
        _here.collector = outer
        if outer is not None:
            outer.add(seconds, collector.started)


@contextmanager
def _traced(name: str, inner: AbstractContextManager[None]) -> Iterator[None]:
    from torch.profiler import record_function

    with record_function(f"mediatensor::{name}"), inner:
        yield


class _Collector:
    """The stages of one thread while somebody collects them; the one of no name is for what is at no stage."""

    __slots__ = ("_stages", "interrupted", "running", "since", "started")

    def __init__(self, name: str) -> None:
        self._stages: dict[str, _Stage] = {}
        self.interrupted: list[_Stage] = []
        self.running = self.stage(name)
        self.started = self.since = time.perf_counter()

    def stage(self, name: str) -> _Stage:
        known = self._stages.get(name)
        if known is None:
            known = self._stages[name] = _Stage(self, name)
        return known

    def add(self, seconds: dict[str, float], started: float) -> None:
        """What another collector found from a time until now, while this one was not told."""
        self.running.seconds += started - self.since
        self.since = time.perf_counter()
        for name, spent in seconds.items():
            self.stage(name).seconds += spent

    def finish(self) -> dict[str, float]:
        self.running.seconds += time.perf_counter() - self.since
        return {name: one.seconds for name, one in self._stages.items() if name}


class _Stage:
    """A stage of a collector, which a thread may enter again and again, also within itself."""

    __slots__ = ("_collector", "name", "seconds")

    def __init__(self, collector: _Collector, name: str) -> None:
        self._collector = collector
        self.name = name
        self.seconds = 0.0

    # A stage may be as short as a small picture, so that these two have to be quick.

    def __enter__(self) -> None:
        collector, now = self._collector, time.perf_counter()
        running = collector.running
        running.seconds += now - collector.since
        collector.interrupted.append(running)
        collector.running, collector.since = self, now

    def __exit__(self, *_: object) -> None:
        collector, now = self._collector, time.perf_counter()
        self.seconds += now - collector.since
        collector.running, collector.since = collector.interrupted.pop(), now


class _Here(threading.local):
    collector: _Collector | None = None


_here = _Here()


def _after_fork_in_child() -> None:
    # Nobody is there to read what is collected for the parent.
    _here.collector = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
