"""Keeping interrupts that Python would lose.

A signal's exception (`KeyboardInterrupt`, as a rule) comes up in whatever Python code runs next. If that is a callback
of FFmpeg's, or a finalizer, nobody can catch it there: Python prints it, and the work goes on with what the callback
did not read or write.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["interrupts_kept", "raise_kept_interrupt"]

# Signals are handled in the main thread alone: no lock.
_kept: list[BaseException] = []


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raise an interrupt that was lost within the ``with`` block at its end, or at `raise_kept_interrupt`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = sys.unraisablehook

    def keep(unraisable: sys.UnraisableHookArgs) -> None:
        error = unraisable.exc_value
        is_interrupt = error is not None and not isinstance(error, (Exception, GeneratorExit))
        if is_interrupt and threading.current_thread() is threading.main_thread():
            _kept.append(error)  # type: ignore[arg-type]
        else:
            previous(unraisable)

    sys.unraisablehook = keep
    try:
        yield
    finally:
        sys.unraisablehook = previous
        raise_kept_interrupt()


def raise_kept_interrupt() -> None:
    """Raise what was lost so far, in a loop that may take long within `interrupts_kept`."""
    if _kept and threading.current_thread() is threading.main_thread():
        error = _kept[0]
        _kept.clear()
        raise error
