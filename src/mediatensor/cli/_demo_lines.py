"""The lines that the demo prints, and the clock for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from . import _text

__all__ = ["check_line", "row", "timed"]

T = TypeVar("T")


def row(call: str, result: str, elapsed_seconds: float) -> str:
    """A line of the demo: what was called, what came back, how long it took."""
    return f"  {call:<42} {result:<38} {_text.duration(elapsed_seconds):>8}"


def check_line(is_right: bool, sentence: str) -> str:
    """A line of the list of checks."""
    return f"  {'ok    ' if is_right else 'FAILED'} {sentence}"


def timed(function: Callable[[], T]) -> tuple[T, float]:
    """What a function returns, and the seconds that it took."""
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin
