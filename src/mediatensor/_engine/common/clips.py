"""Calls that ask for the frames of several clips, one after the other, by methods that know no clips."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["frames_of_clips", "frames_per_clip"]

#: How many frames of the current call belong together; ``None`` if all do.
frames_per_clip: ContextVar[int | None] = ContextVar("frames_per_clip", default=None)


@contextmanager
def frames_of_clips(num_frames_per_clip: int) -> Iterator[None]:
    """Ask in a ``with`` block for clips: damage between two of them is damage of none.

    >>> with frames_of_clips(8):
    ...     frames_per_clip.get()
    8
    """
    token = frames_per_clip.set(num_frames_per_clip)
    try:
        yield
    finally:
        frames_per_clip.reset(token)
