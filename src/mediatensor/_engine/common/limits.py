"""Limit how many frames, samples and pixels one call can return, and mark requested frames as parts of clips.

Limits on file contents are checked where the file is read; `docs/limits.md` lists all limits. A damaged file can make a
call large, too: if a header states a duration of years, a request for 30 frames per second has very many frames.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...errors import InvalidArgumentError, OpenError

#: Largest number of frames that one call may request by rate or in clips: ten hours at 29 frames per second.
MAX_FRAMES_PER_CALL = 1 << 20

#: Largest number of audio samples that one call may allocate, over all channels and clips: 8 GiB as float32.
MAX_SAMPLES_PER_CALL = 1 << 31

#: Largest number of bytes of frames that are copied from a device at once. A copy waits, and takes CPU memory.
MAX_COPY_BYTES = 1 << 28

#: Advice at the end of messages about too many pixels. The command and the web service leave it out.
MAX_PIXELS_ADVICE = "if you trust the file, pass a larger max_pixels, or None for no limit"

# Larger integers may not fit into a float for the message.
_MOST_SHOWN = 1e300


def check_frames(count: float, asked_by: str) -> None:
    """Raise `InvalidArgumentError` if a call asks for more than `MAX_FRAMES_PER_CALL` frames.

    The error message starts with ``asked_by``, which names the argument that asks for ``count`` frames.
    """
    _check(count, MAX_FRAMES_PER_CALL, "frames", asked_by)


def check_samples(count: float, asked_by: str) -> None:
    """Raise like `check_frames` for more than `MAX_SAMPLES_PER_CALL` samples, in total over all channels and clips."""
    _check(count, MAX_SAMPLES_PER_CALL, "samples", asked_by)


def check_max_pixels(max_pixels: Any) -> int | None:
    """Return ``max_pixels`` as an int, or ``None``, which means no limit. Raise unless it is positive or ``None``."""
    if max_pixels is None:
        return None
    if isinstance(max_pixels, bool) or not hasattr(max_pixels, "__index__") or operator.index(max_pixels) < 1:
        raise InvalidArgumentError(f"max_pixels = {max_pixels!r} should be a positive int, or None for no limit.")
    return operator.index(max_pixels)


def check_pixels(width: int, height: int, max_pixels: int | None) -> None:
    """Raise `OpenError` for an image that has no pixels, or more than ``max_pixels``."""
    if width < 1 or height < 1:
        raise OpenError(f"it has {width}x{height} pixels")
    if max_pixels is not None and width * height > max_pixels:
        raise OpenError(
            f"it would have {width}x{height} = {width * height} pixels, more than max_pixels = {max_pixels}; "
            f"{MAX_PIXELS_ADVICE}"
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
    """Treat frames requested in a ``with`` block as clips of this length. Damage between clips does not affect them."""
    token = frames_per_clip.set(num_frames_per_clip)
    try:
        yield
    finally:
        frames_per_clip.reset(token)
