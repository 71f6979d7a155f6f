"""Limit how much one call may ask for, and group the frames of a call into clips.

Limits on the content of files are checked where the file is read; `docs/limits.md` names all limits. A file influences
the size of a call: a stream that claims to last for years has many frames at 30 per second.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...errors import InvalidArgumentError, OpenError

#: Limit of the frames that one call asks for by rate or for clips: ten hours at 29 frames per second.
MAX_FRAMES_PER_CALL = 1 << 20

#: Limit of the audio samples that one call allocates, of all channels and clips together: 8 GiB as float32.
MAX_SAMPLES_PER_CALL = 1 << 31

#: Limit of the bytes of frames copied from a device at once: each copy waits for the device, and takes memory here.
MAX_COPY_BYTES = 1 << 28

# A larger whole number could not be formatted as a float.
_MOST_SHOWN = 1e300


def check_frames(count: float, asked_by: str) -> None:
    """Refuse more than `MAX_FRAMES_PER_CALL` frames; ``asked_by`` names the argument that asks for them."""
    _check(count, MAX_FRAMES_PER_CALL, "frames", asked_by)


def check_samples(count: float, asked_by: str) -> None:
    """Refuse more than `MAX_SAMPLES_PER_CALL` audio samples, of all channels and clips together."""
    _check(count, MAX_SAMPLES_PER_CALL, "samples", asked_by)


def check_max_pixels(max_pixels: Any) -> int | None:
    """Return the limit as an int, or ``None`` for no limit."""
    if max_pixels is None:
        return None
    if isinstance(max_pixels, bool) or not hasattr(max_pixels, "__index__") or operator.index(max_pixels) < 1:
        raise InvalidArgumentError(f"max_pixels = {max_pixels!r} should be a positive int, or None for no limit.")
    return operator.index(max_pixels)


def check_pixels(width: int, height: int, max_pixels: int | None) -> None:
    """Raise `OpenError` for an image that is empty, or has more than ``max_pixels`` pixels."""
    if width < 1 or height < 1:
        raise OpenError(f"it has {width}x{height} pixels")
    if max_pixels is not None and width * height > max_pixels:
        raise OpenError(
            f"it would have {width}x{height} = {width * height} pixels, more than max_pixels = {max_pixels}; "
            "if you trust the file, pass a larger max_pixels, or None for no limit"
        )


def _check(count: float, most: int, unit: str, asked_by: str) -> None:
    if not count <= most:
        raise InvalidArgumentError(
            f"{asked_by} asks for {min(count, _MOST_SHOWN):.7g} {unit}, and one call gives {most} at most. "
            "Ask for fewer, in several calls."
        )


#: Number of frames in each clip of the current call; ``None`` if all frames belong together.
frames_per_clip: ContextVar[int | None] = ContextVar("frames_per_clip", default=None)


@contextmanager
def frames_of_clips(num_frames_per_clip: int) -> Iterator[None]:
    """Ask for clips in a ``with`` block: damage between two clips is in neither."""
    token = frames_per_clip.set(num_frames_per_clip)
    try:
        yield
    finally:
        frames_per_clip.reset(token)
