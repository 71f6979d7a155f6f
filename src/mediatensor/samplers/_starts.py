"""Where clips start in time: what all samplers by time share. Pure, but for the draw of random numbers."""

from __future__ import annotations

import math

import torch

from mediatensor._limits import check_frames
from mediatensor.errors import InvalidArgumentError


def check_range_start(start: float | None, *, stream_begin: float, stream_end: float) -> float:
    """The time from which a clip may start, by default the begin of the stream.

    >>> check_range_start(None, stream_begin=0.5, stream_end=10.0)
    0.5
    """
    # Each comparison is written so that NaN fails it.
    if start is None:
        return stream_begin
    if not start >= stream_begin:
        raise InvalidArgumentError(f"sampling_range_start ({start}) must be at least {stream_begin}, the stream begin.")
    if not start < stream_end:
        raise InvalidArgumentError(f"sampling_range_start ({start}) must be smaller than {stream_end}, the stream end.")
    return start


def check_range_end(end: float, *, stream_begin: float, stream_end: float) -> float:
    """The time before which a clip must start, if it is given; a value beyond the end of the stream means the end.

    >>> check_range_end(100.0, stream_begin=0.5, stream_end=10.0)
    10.0
    """
    if not end >= stream_begin:
        raise InvalidArgumentError(f"sampling_range_end ({end}) must be at least {stream_begin}, the stream begin.")
    return min(end, stream_end)


def check_not_empty(start: float, end: float, reason: str = "") -> None:
    """Raises unless there is a time in [start, end); ``reason`` is where the end came from."""
    if not start < end:
        raise InvalidArgumentError(
            f"sampling_range_start ({start}) must be smaller than sampling_range_end ({end}){reason}."
        )


def random_starts(start: float, end: float, *, num_clips: int) -> list[float]:
    """``num_clips`` random times of [start, end)."""
    # On the CPU whatever torch's default device: the clips do not depend on where frames go.
    fractions = torch.rand(num_clips, dtype=torch.float64, device="cpu")
    # Where the range is narrow for its distance from 0, the sum can round up to the end.
    return (fractions * (end - start) + start).clamp(max=last_before(end)).tolist()


def regular_starts(start: float, end: float, *, seconds_between_clip_starts: float) -> list[float]:
    """The times of [start, end), a distance apart.

    >>> regular_starts(0.5, 6.0, seconds_between_clip_starts=2.0)
    [0.5, 2.5, 4.5]
    >>> regular_starts(0.0, 5e-324, seconds_between_clip_starts=2.5)
    [0.0]
    """
    check_frames(
        (end - start) / seconds_between_clip_starts, f"seconds_between_clip_starts ({seconds_between_clip_starts})"
    )
    starts = torch.arange(start, end, seconds_between_clip_starts, dtype=torch.float64, device="cpu")
    # Rounding lets arange give its end, too, and of a range that is a point it may give nothing.
    return starts[starts < end].tolist() or [start]


def last_before(seconds: float) -> float:
    """The largest float below ``seconds``."""
    return math.nextafter(seconds, -math.inf)
