"""Messages to the user: warnings that point at a line of the user's program, progress bars, times as text."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from .locks import ForkSafeLock

__all__ = ["counted", "forget_warnings", "progress", "seconds_from_text", "warn_once", "warn_user", "without_bars"]

# A bound, because messages contain names of files and numbers.
_MAX_NUM_WARNED = 1024

_warned: dict[str, None] = {}
_lock = ForkSafeLock()


def warn_user(message: str) -> None:
    """Warn at the line of the user's program that called the library."""
    warnings.warn(message, stacklevel=_levels_to_the_user())


def warn_once(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as `warn_user` does, once in this process for each message; of the oldest ones perhaps again."""
    with _lock:
        if message in _warned:
            return
        if len(_warned) >= _MAX_NUM_WARNED:
            del _warned[next(iter(_warned))]
        _warned[message] = None
    warnings.warn(message, category, stacklevel=_levels_to_the_user())


def forget_warnings() -> None:
    """Let `warn_once` warn of everything again, as in a new process."""
    with _lock:
        _warned.clear()


def _levels_to_the_user() -> int:
    """The ``stacklevel`` of the innermost frame that does not belong to the library, seen from the calling function."""
    package = __name__.partition(".")[0]
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, levels = frame.f_back, levels + 1
    return levels


T = TypeVar("T")


def progress(items: Iterable[T], description: str, total: int | None = None, unit: str = "frame") -> Iterable[T]:
    """``items``, with a progress bar if tqdm is installed and stderr is a terminal; bars may be nested."""
    if sys.stderr is None or not sys.stderr.isatty():
        return items
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    bar: Iterable[T] = tqdm(items, desc=description, total=total, leave=False, unit=unit, file=sys.stderr)
    return bar


def without_bars() -> AbstractContextManager[Any]:
    """A ``with`` block without bars on the terminal, for printing lines."""
    tqdm = sys.modules.get("tqdm")
    if tqdm is None or sys.stderr is None or not sys.stderr.isatty():
        return nullcontext()
    blank: AbstractContextManager[Any] = tqdm.tqdm.external_write_mode(file=sys.stderr)
    return blank


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the plural unless it is one.

    >>> counted(1, "frame"), counted(300, "frame"), counted(0, "batch")
    ('1 frame', '300 frames', '0 batches')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith(('ch', 's')) else 's'}"


def seconds_from_text(text: str) -> float:
    """A time as seconds, ``m:ss`` or ``h:mm:ss``, with or without decimals.

    >>> seconds_from_text("83.5") == seconds_from_text("1:23.5") == seconds_from_text("0:01:23.5") == 83.5
    True

    Raises:
        ValueError: if the text is not a time.
    """
    text = text.strip()
    sign = -1.0 if text.startswith("-") else 1.0
    parts = [float(part) for part in text.removeprefix("-").split(":")]
    if len(parts) > 3 or not all(part >= 0 and math.isfinite(part) for part in parts):
        raise ValueError(f"{text!r} is not a time: write seconds, m:ss or h:mm:ss")
    value = 0.0
    for part in parts:
        value = value * 60 + part
    return sign * value
