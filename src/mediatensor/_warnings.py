"""Warnings that point at the line of the user's program, not at one of the library."""

from __future__ import annotations

import sys
import warnings

from ._locks import ForkSafeLock

__all__ = ["warn_once", "warn_user"]

# Messages can hold names and numbers of files without end.
_MAX_NUM_WARNED = 256

_warned: set[str] = set()
_lock = ForkSafeLock()


def warn_user(message: str) -> None:
    """Warn, at the line outside of the library that led here."""
    warnings.warn(message, stacklevel=_levels_to_the_user())


def warn_once(message: str) -> None:
    """Warn as `warn_user`, once in this process for each message."""
    with _lock:
        if message in _warned or len(_warned) >= _MAX_NUM_WARNED:
            return
        _warned.add(message)
    warnings.warn(message, stacklevel=_levels_to_the_user())


def _levels_to_the_user() -> int:
    """How many calls above its caller the first one is that is not the library's."""
    package = __name__.partition(".")[0]
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, levels = frame.f_back, levels + 1
    return levels
