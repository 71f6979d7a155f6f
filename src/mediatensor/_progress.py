"""A progress bar for whoever is looking."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

__all__ = ["progress"]

T = TypeVar("T")


def progress(items: Iterable[T], description: str, total: int | None = None, unit: str = "frame") -> Iterable[T]:
    """``items``, with a progress bar when tqdm is installed and somebody is looking."""
    if not sys.stderr.isatty():
        return items
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    bar: Iterable[T] = tqdm(items, desc=description, total=total, leave=False, unit=unit, file=sys.stderr)
    return bar
