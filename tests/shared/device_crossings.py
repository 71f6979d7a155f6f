"""Counters of ``fake_device.py``: copies between host and device, and waits of the host."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Crossing", "Crossings", "crossings", "note"]

_DEVICE_FILES = (__file__, os.path.join(os.path.dirname(__file__), "fake_device.py"))


@dataclass(frozen=True)
class Crossing:
    """Something that crossed between host and device, or that the host waited for, by an operation of torch."""

    operation: str
    num_bytes: int
    where: str  # the innermost lines of the library on the stack, "file:line function < ...", else the test's
    blocking: bool  # the host waits for it

    def __str__(self) -> str:
        waits = "" if self.blocking else ", non-blocking"
        return f"{self.operation} ({self.num_bytes} bytes{waits}) at {self.where}"


@dataclass
class Crossings:
    """The counted events, in order. See the module."""

    waits: list[Crossing] = field(default_factory=list)
    uploads: list[Crossing] = field(default_factory=list)
    downloads: list[Crossing] = field(default_factory=list)

    @property
    def num_waits(self) -> int:
        """How often the host waited for the device."""
        return len(self.waits)

    @property
    def uploaded_bytes(self) -> int:
        """To the device."""
        return sum(crossing.num_bytes for crossing in self.uploads)

    @property
    def downloaded_bytes(self) -> int:
        """From the device."""
        return sum(crossing.num_bytes for crossing in self.downloads)

    @property
    def blocking_uploads(self) -> list[Crossing]:
        """Uploads that a host waits for."""
        return [crossing for crossing in self.uploads if crossing.blocking]

    def __str__(self) -> str:
        lines = []
        for kind in ("waits", "uploads", "downloads"):
            found = getattr(self, kind)
            lines += [f"{len(found)} {kind}", *(f"  {crossing}" for crossing in found)]
        return "\n".join(lines)

    __repr__ = __str__


_counting: list[Crossings] = []
_lock = threading.Lock()


@contextmanager
def crossings() -> Iterator[Crossings]:
    """Count events within the block; after it, the counts are final."""
    counted = Crossings()
    with _lock:
        _counting.append(counted)
    try:
        yield counted
    finally:
        with _lock:
            # By identity: two that counted the same are equal.
            _counting[:] = [other for other in _counting if other is not counted]


def note(
    kind: Literal["waits", "uploads", "downloads"], operation: str, num_bytes: int = 0, blocking: bool = True
) -> None:
    """Add an event to all active counters; the arguments are `Crossing`'s."""
    if not _counting:
        return
    crossing = Crossing(operation, num_bytes, _where(), blocking)
    with _lock:
        for counted in _counting:
            getattr(counted, kind).append(crossing)


def _where(most: int = 4) -> str:
    """Return the innermost running lines of the library, or of other code."""
    frame, library, others = sys._getframe(2), [], []
    while frame is not None and len(library) < most:
        path = frame.f_code.co_filename
        line = f"{os.path.basename(path)}:{frame.f_lineno} {frame.f_code.co_name}"
        if "/mediatensor/" in path:
            library.append(line)
        elif "/torch/" not in path and path not in _DEVICE_FILES and len(others) < most:
            others.append(line)
        frame = frame.f_back
    return " < ".join(library or others)
