"""Times as people write them."""

from __future__ import annotations

import math

__all__ = ["seconds_from_text"]


def seconds_from_text(text: str) -> float:
    """A time as seconds, ``m:ss`` or ``h:mm:ss``, with or without decimals.

    >>> seconds_from_text("83.5") == seconds_from_text("1:23.5") == seconds_from_text("0:01:23.5") == 83.5
    True

    Raises:
        ValueError: if it is no time.
    """
    text = text.strip()
    sign = -1.0 if text.startswith("-") else 1.0
    parts = [float(part) for part in text.removeprefix("-").split(":")]
    if len(parts) > 3 or not all(part >= 0 and math.isfinite(part) for part in parts):
        raise ValueError(f"{text!r} is no time")
    value = 0.0
    for part in parts:
        value = value * 60 + part
    return sign * value
