"""Keeping interrupts that would be lost.

A signal's exception (`KeyboardInterrupt`, as a rule) comes up in whatever Python code runs next. That may be a callback
or a piece of bookkeeping that a library in C has called, and such libraries forget it: PyAV while it raises an error of
its own or calls the file object it reads from, NumPy while it looks for attributes. Then the work would go on, with
what the callback did not read or write, and the user would have to press the keys once more.
"""

from __future__ import annotations

# The functions of `signal` make enumerations of handlers, which takes longer than seeking a frame.
import _signal  # type: ignore[import-not-found]
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["interrupts_kept", "raise_kept_interrupt"]

# Those for which programs have handlers that raise.
_SIGNALS = [int(getattr(signal, name)) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, name)]

# Signals are handled in the main thread alone, which also is the only one that keeps anything: no lock.
_is_keeping = False
_kept: list[BaseException] = []


class _KeepingHandler:
    """Does what another handler does, and notes what that raises."""

    def __init__(self, handler: Any) -> None:
        self.handler = handler

    def __call__(self, signal_number: int, frame: FrameType | None) -> Any:
        try:
            return self.handler(signal_number, frame)
        except BaseException as error:
            if _is_keeping:
                _kept.append(error)
            raise


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raise at the end of the ``with`` block, or at `raise_kept_interrupt`, what a signal raised in it and was lost."""
    global _is_keeping
    if _is_keeping or threading.current_thread() is not threading.main_thread():
        yield
        return
    _kept.clear()
    keeping: dict[int, _KeepingHandler] = {}
    _is_keeping = True
    try:
        for number in _SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler):
                keeping[number] = _KeepingHandler(handler.handler if isinstance(handler, _KeepingHandler) else handler)
                _signal.signal(number, keeping[number])
        yield
    finally:
        _is_keeping = False
        for number, kept in keeping.items():
            if _signal.getsignal(number) is kept:
                _signal.signal(number, kept.handler)
        if _kept and sys.exc_info()[1] is not _kept[0]:
            raise _kept[0]


def raise_kept_interrupt() -> None:
    """Raise what was lost so far, in a loop that may take long within `interrupts_kept`."""
    if _kept and _is_keeping and threading.current_thread() is threading.main_thread():
        raise _kept[0]
