"""How much one call may ask for.

What a file may contain is limited where the file is read; `docs/limits.md` names all limits. A file influences what a
call asks for: a stream that claims to last for years has many frames at 30 per second.
"""

from __future__ import annotations

import operator
from typing import Any

from ...errors import InvalidArgumentError, OpenError

__all__ = [
    "MAX_COPY_BYTES",
    "MAX_FRAMES_PER_CALL",
    "MAX_SAMPLES_PER_CALL",
    "check_frames",
    "check_max_pixels",
    "check_pixels",
    "check_samples",
]

#: Most frames that one call may ask for by rate or for clips: ten hours at 29 frames per second.
MAX_FRAMES_PER_CALL = 1 << 20

#: Most samples of sound that one call allocates, of all channels and clips together: 8 GiB as float32.
MAX_SAMPLES_PER_CALL = 1 << 31

#: Most bytes of frames that are copied from a device at once: each copy waits for the device, and takes memory here.
MAX_COPY_BYTES = 1 << 28

# A larger whole number could not be formatted as a float.
_MOST_SHOWN = 1e300


def check_frames(count: float, asked_by: str) -> None:
    """Refuse too many frames.

    Args:
        count: How many are asked for.
        asked_by: The argument that asks for so many, in words.

    Raises:
        InvalidArgumentError: if there are more than `MAX_FRAMES_PER_CALL`.

    Example:
        >>> check_frames(1e12, "fps")
        Traceback (most recent call last):
        ...
        mediatensor.errors.InvalidArgumentError: fps asks for 1e+12 frames, and one call gives 1048576 at most. \
Ask for fewer, in several calls.
    """
    _check(count, MAX_FRAMES_PER_CALL, "frames", asked_by)


def check_samples(count: float, asked_by: str) -> None:
    """Refuse too many samples of sound.

    Args:
        count: How many are asked for, of all channels and clips together.
        asked_by: The argument that asks for so many, in words.

    Raises:
        InvalidArgumentError: if there are more than `MAX_SAMPLES_PER_CALL`.
    """
    _check(count, MAX_SAMPLES_PER_CALL, "samples", asked_by)


def check_max_pixels(max_pixels: Any) -> int | None:
    """The limit as an int, or ``None`` for no limit.

    Raises:
        InvalidArgumentError: if it is neither a positive whole number nor ``None``.
    """
    if max_pixels is None:
        return None
    if isinstance(max_pixels, bool) or not hasattr(max_pixels, "__index__") or operator.index(max_pixels) < 1:
        raise InvalidArgumentError(f"max_pixels = {max_pixels!r} should be a positive int, or None for no limit.")
    return operator.index(max_pixels)


def check_pixels(width: int, height: int, max_pixels: int | None) -> None:
    """Refuse a picture that is too large or empty.

    Raises:
        OpenError: if it has more than ``max_pixels`` pixels, or none.
    """
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
