"""How long the stages of reading take: opening, indexing, seeking, decoding and what follows.

Code that does such work says so with `stage`. Nothing is measured unless somebody collects, or a profiler runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch.autograd.profiler
from torch.profiler import record_function

__all__ = ["STAGES", "collect_stages", "stage"]

#: In the order in which a sample goes through them.
STAGES = ("open", "index", "seek", "decode", "convert", "transform", "collate", "copy")


class _Clock(threading.local):
    """The seconds of the stages of this thread, while somebody collects them."""

    seconds: dict[str, float] | None = None
    running: str | None = None
    since: float = 0.0


_clock = _Clock()
_NOTHING: AbstractContextManager[None] = nullcontext()


def stage(name: str) -> AbstractContextManager[None]:
    """For the time of a ``with`` block, this thread is at a stage; a stage within one interrupts it.

    In a trace of ``torch.profiler`` the block appears as ``mediatensor::name``.

    >>> with collect_stages() as seconds, stage("decode"), stage("convert"):
    ...     pass
    >>> sorted(seconds)
    ['convert', 'decode']
    """
    is_profiling = torch.autograd.profiler._is_profiler_enabled
    if _clock.seconds is None and not is_profiling:
        return _NOTHING
    return _measured(name, is_profiling=is_profiling)


@contextmanager
def collect_stages() -> Iterator[dict[str, float]]:
    """The seconds by stage that this thread spends in a ``with`` block; each second counts for one stage."""
    outer = _clock.seconds
    seconds = _clock.seconds = {}
    try:
        yield seconds
    finally:
        _clock.seconds = outer
        if outer is not None:
            for name, spent in seconds.items():
                outer[name] = outer.get(name, 0.0) + spent


@contextmanager
def _measured(name: str, *, is_profiling: bool) -> Iterator[None]:
    interrupted = _clock.running
    _switch_to(name)
    try:
        with record_function(f"mediatensor::{name}") if is_profiling else _NOTHING:
            yield
    finally:
        _switch_to(interrupted)


def _switch_to(name: str | None) -> None:
    now = time.perf_counter()
    if _clock.running is not None and _clock.seconds is not None:
        seconds = _clock.seconds
        seconds[_clock.running] = seconds.get(_clock.running, 0.0) + now - _clock.since
    _clock.running, _clock.since = name, now
