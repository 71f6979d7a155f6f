"""Checking what users pass to a decoder: pure functions that return the value in its plain form or raise."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgumentError, OutOfRangeError
from .checks import real_number, shown, whole_number
from .lazy import is_tensor
from .limits import check_frames
from .threads import MAX_NUM_THREADS

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "bounds_of",
    "check_choice",
    "check_num_threads",
    "check_seconds",
    "check_seconds_range",
    "frame_range",
    "frame_rate_times",
    "indices_of",
    "one_time",
    "seconds_of",
    "valid_index",
]


def check_choice(name: str, value: object, accepted: Sequence[object]) -> None:
    """
    >>> check_choice("seek mode", "exact", ["exact", "approximate"])
    """
    if not any(value is choice or value == choice for choice in accepted):
        supported = ", ".join(repr(choice) if choice == "auto" else str(choice) for choice in accepted)
        raise InvalidArgumentError(f"Invalid {name} ({value}). Supported values are {supported}.")


def check_num_threads(num_ffmpeg_threads: int | None) -> None:
    if num_ffmpeg_threads is None:
        return
    try:
        whole_number("num_ffmpeg_threads", num_ffmpeg_threads, at_least=0, at_most=MAX_NUM_THREADS)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"num_ffmpeg_threads = {shown(num_ffmpeg_threads)} should be an int of at least 0 (0 lets FFmpeg decide), "
            "or None for the process's thread budget."
        ) from None


def valid_index(index: int, num_frames: int, stream_index: int) -> int:
    """A frame index with negatives resolved.

    >>> valid_index(-1, 10, 0)
    9
    """
    if index < -num_frames:
        raise OutOfRangeError(
            f"Invalid frame index={index} for stream_index={stream_index}; negative indices must have an absolute "
            f"value of at most the number of frames, {num_frames}."
        )
    if index >= num_frames:
        raise OutOfRangeError(
            f"Invalid frame index={index} for stream_index={stream_index}; must be less than {num_frames}."
        )
    return index + num_frames if index < 0 else index


def indices_of(indices: Tensor | Sequence[SupportsIndex] | NDArray[Any]) -> list[int]:
    """Frame indices as a list of ints; a float tensor is truncated, as torchcodec does, a list of floats refused."""
    if (is_tensor(indices) or isinstance(indices, np.ndarray)) and str(indices.dtype) in ("torch.bool", "bool"):
        raise InvalidArgumentError(
            f"indices must be a series of whole numbers (got {shown(indices)}); pass the indices that a mask selects."
        )
    if is_tensor(indices):
        return [int(i) for i in indices.flatten().long().tolist()]
    if isinstance(indices, np.ndarray) and indices.dtype.kind in "iuf":
        return [int(i) for i in indices.ravel().astype(np.int64)]
    try:
        return [operator.index(i) for i in indices]
    except TypeError as error:
        # The wording that torch uses for a list of floats, which callers may look for.
        is_series = isinstance(indices, Iterable)
        found = "Float" if is_series and any(isinstance(i, float) for i in indices) else "another type"
        raise InvalidArgumentError(
            f"indices must be a series of whole numbers (got {shown(indices)}: {error}); "
            f"expected Long but found {found}."
        ) from None


def seconds_of(seconds: Tensor | Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    """Times as a float64 array."""
    import torch

    try:
        return torch.as_tensor(seconds, dtype=torch.float64, device="cpu").numpy().ravel()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgumentError(
            f"Couldn't convert timestamps input to a tensor: seconds must be a number or a series of numbers "
            f"(got {shown(seconds)}: {error})."
        ) from None


def one_time(seconds: float) -> NDArray[np.float64]:
    """A time as a float64 array of one."""
    times = seconds_of([seconds])
    if len(times) != 1:
        raise InvalidArgumentError(f"seconds must be one number (got {shown(seconds)}); other methods take several.")
    return times


def check_seconds(seconds: NDArray[np.float64], begin: float, end: float) -> None:
    """Raise unless every time lies in [begin, end)."""
    outside = ~((seconds >= begin) & (seconds < end))  # catches NaN, too
    if outside.any():
        raise OutOfRangeError(
            f"Invalid pts in seconds: {float(seconds[outside][0])}. It must be greater than or equal to {begin} "
            f"and less than {end}."
        )


def bounds_of(start: int | None, stop: int | None, step: int | None) -> tuple[int | None, int | None, int | None]:
    """What a Python slice is made of, as ints.

    >>> bounds_of(3, None, 1)
    (3, None, 1)
    """
    named = (("start", start), ("stop", stop), ("step", step))
    try:
        start, stop, step = (None if value is None else operator.index(value) for _, value in named)
    except TypeError:
        for name, value in named:
            if value is not None:
                whole_number(name, value, or_none=True)
        raise
    return start, stop, step


def frame_range(start: int | None, stop: int | None, step: int | None, num_frames: int) -> range:
    """The indices that a Python slice selects.

    >>> frame_range(-3, None, 1, 10), frame_range(8, 2, 1, 10)
    (range(7, 10), range(8, 2))
    """
    if step is not None and step <= 0:
        raise InvalidArgumentError(f"Step must be greater than 0; is {step}. Use reversed(decoder) to go backwards.")
    return range(*slice(start, stop, step).indices(num_frames))


def check_seconds_range(start: float, stop: float, begin: float, end: float) -> None:
    """Raise unless begin <= start < end, start <= stop <= end."""
    if not start <= stop:
        raise InvalidArgumentError(
            f"Invalid start seconds: {start}. It must be less than or equal to stop seconds ({stop})."
        )
    if not begin <= start < end:
        raise OutOfRangeError(
            f"Invalid start seconds: {start}. It must be greater than or equal to {begin} and less than {end}."
        )
    if not stop <= end:
        raise OutOfRangeError(f"Invalid stop seconds: {stop}. It must be less than or equal to {end}.")


def frame_rate_times(start: float, stop: float, fps: float) -> NDArray[np.float64]:
    """Times ``start + k / fps`` of a resampled range; their number is (stop - start) * fps, rounded, halves up.

    >>> frame_rate_times(0.0, 1.0, 4)
    array([0.  , 0.25, 0.5 , 0.75])
    """
    fps = real_number("fps", fps)
    if not (fps > 0 and math.isfinite(fps)):
        raise InvalidArgumentError(f"fps must be positive, got {fps}")
    check_frames((stop - start) * fps, f"fps ({fps}) over {stop - start} seconds")
    return start + np.arange(math.floor((stop - start) * fps + 0.5)) / fps
