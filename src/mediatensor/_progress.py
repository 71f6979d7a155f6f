"""A progress bar for whoever is looking."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

__all__ = ["progress", "without_bars"]

T = TypeVar("T")


def progress(items: Iterable[T], description: str, total: int | None = None, unit: str = "frame") -> Iterable[T]:
    """``items``, with a progress bar when tqdm is installed and somebody is looking; bars within bars are fine."""
    if sys.stderr is None or not sys.stderr.isatty():
        return items
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    bar: Iterable[T] = tqdm(items, desc=description, total=total, leave=False, unit=unit, file=sys.stderr)
    return bar


def without_bars() -> AbstractContextManager[Any]:
    """A ``with`` block in which no bar is on the terminal, for lines that are printed meanwhile."""
    tqdm = sys.modules.get("tqdm")
    if tqdm is None or sys.stderr is None or not sys.stderr.isatty():
        return nullcontext()
    blank: AbstractContextManager[Any] = tqdm.tqdm.external_write_mode(file=sys.stderr)
    return blank
