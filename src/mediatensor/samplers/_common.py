"""Code that the samplers share: checks of arguments, start times of clips, and the shape of the result."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .._engine.common.checks import TIME_TOLERANCE, real_number, shown, whole_number
from .._engine.common.limits import check_frames
from .._engine.index.frame_clock import FrameClock
from ..errors import DecodeError, InvalidArgumentError, SourceTypeError
from ..frames import FrameBatch

if TYPE_CHECKING:
    from ..decoders import VideoDecoder

#: The clock of decoders of other libraries, which have public methods only.
_NO_CLOCK = FrameClock(np.zeros(0), np.zeros(0))


def check_integer(name: str, value: Any) -> int:
    """``value`` as an int, if it is an integer of any library.

    >>> check_integer("num_clips", 4)
    4
    """
    try:
        return whole_number(name, value)
    except InvalidArgumentError:
        raise InvalidArgumentError(f"{name} ({value!r}) must be an integer.") from None


def check_positive_integer(name: str, value: Any, requirement: str = "strictly positive") -> int:
    """``value`` as an int, if it is an integer of at least 1; ``requirement`` says so in the error."""
    integer = check_integer(name, value)
    if integer < 1:
        raise InvalidArgumentError(f"{name} ({integer}) must be {requirement}.")
    return integer


def check_num_clips(value: Any) -> int:
    """``value`` as an int, if one call may return so many clips."""
    num_clips = check_positive_integer("num_clips", value, "> 0")
    check_frames(num_clips, f"num_clips ({num_clips})")
    return num_clips


def check_clip_length(value: Any) -> int:
    """``value`` as an int, if a clip may have so many frames."""
    length = check_positive_integer("num_frames_per_clip", value)
    check_frames(length, f"num_frames_per_clip ({length})")
    return length


def check_seconds(name: str, value: Any) -> float:
    """``value`` as a float.

    >>> check_seconds("sampling_range_start", 2)
    2.0
    """
    try:
        return real_number(name, value)
    except InvalidArgumentError:
        raise InvalidArgumentError(f"{name} ({shown(value)}) must be a number of seconds.") from None


def check_positive_seconds(name: str, value: Any) -> float:
    """``value`` as a float, if it is a finite number above 0."""
    seconds = check_seconds(name, value)
    if not 0 < seconds < math.inf:
        raise InvalidArgumentError(f"{name} ({value}) must be > 0 and finite.")
    return seconds


def check_decoder(decoder: object, *methods: str, made_by: str) -> None:
    """Raise unless ``decoder`` has the methods that a sampler calls; the usual mistake is the path of a file.

    Raises:
        SourceTypeError: if a method is missing; the message names the argument.
    """
    if not all(hasattr(decoder, method) for method in methods):
        raise SourceTypeError(
            f"decoder must be {'an' if made_by[0] in 'AEIOU' else 'a'} {made_by}, or have its methods "
            f"(got {shown(decoder)}); make one of a source with mediatensor.decoders.{made_by}(source)."
        )


def check_num_frames(decoder: VideoDecoder, method: str) -> int:
    """The number of frames of ``decoder``, if it has frames, and the method that fetches them."""
    check_decoder(decoder, "__len__", method, made_by="VideoDecoder")
    num_frames = len(decoder)
    if num_frames < 1:
        raise InvalidArgumentError(f"Decoder must have at least one frame, found {num_frames} frames.")
    return num_frames


def clock_of(decoder: Any, *steps: float) -> FrameClock:
    """Return the clock of ``decoder``, or the one for a grid of times that are ``steps`` apart."""
    clock: FrameClock = getattr(decoder, "_clock", _NO_CLOCK)
    return clock.for_steps(*steps) if steps else clock


def tolerance_of(decoder: Any) -> float:
    """Return up to how many seconds before an end a time counts as the end: 0 for decoders of other libraries."""
    return TIME_TOLERANCE if hasattr(decoder, "_clock") else 0.0


def frames_on_grid(decoder: Any, seconds: list[float], clock: FrameClock) -> FrameBatch:
    """Return the frames of ``decoder`` at times that a sampler computed with a clock."""
    batch: FrameBatch = (
        decoder.get_frames_played_at(seconds) if clock.step is None else decoder._frames_on_grid(np.array(seconds))
    )
    return batch


def as_clips(batch: FrameBatch, num_clips: int, num_frames_per_clip: int) -> FrameBatch:
    """``batch``, the frames of all clips in a row, with its first dimension split into clips and frames.

    Raises:
        DecodeError: if frames are missing because a decoder with ``on_error="skip"`` left them out.

    Example:
        >>> import torch
        >>> batch = FrameBatch(torch.zeros(6, 3, 4, 5), torch.arange(6), torch.ones(6))
        >>> as_clips(batch, 2, 3).pts_seconds.tolist()
        [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    """
    wanted = num_clips * num_frames_per_clip
    if len(batch) != wanted:
        left_out = [frame for frame in batch.replaced if frame.used_index is None]
        reasons = "".join(f" Frame {frame.index}: {frame.reason}" for frame in left_out[:1])
        raise DecodeError(
            f"{wanted - len(batch)} of the {wanted} frames of the clips could not be decoded and were left out, "
            "but a clip needs all its frames. Make the decoder with on_error='nearest' to have the nearest frame in "
            f"their place, or with on_error='raise'.{reasons}"
        )
    shape = (num_clips, num_frames_per_clip)
    return FrameBatch(
        batch.data.reshape(*shape, *batch.data.shape[1:]),
        batch.pts_seconds.reshape(shape),
        batch.duration_seconds.reshape(shape),
        # The positions in a report refer to the flattened batch, so splitting a dimension does not change them.
        replaced=batch.replaced,
        is_damaged=batch.is_damaged.reshape(shape),
    )


def check_range_start(start: float | None, *, stream_begin: float, stream_end: float) -> float:
    """The earliest time at which a clip may start, by default the begin of the stream.

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
    """The time before which a clip must start; a value beyond the end of the stream means the end.

    >>> check_range_end(100.0, stream_begin=0.5, stream_end=10.0)
    10.0
    """
    if not end >= stream_begin:
        raise InvalidArgumentError(f"sampling_range_end ({end}) must be at least {stream_begin}, the stream begin.")
    return min(end, stream_end)


def check_not_empty(start: float, end: float, reason: str = "") -> None:
    """Raise unless [start, end) is not empty; ``reason`` explains where the end comes from."""
    if not start < end:
        raise InvalidArgumentError(
            f"sampling_range_start ({start}) must be smaller than sampling_range_end ({end}){reason}."
        )


def random_starts(start: float, end: float, *, num_clips: int) -> list[float]:
    """``num_clips`` random times of [start, end)."""
    # Always on the CPU, so that the clips do not depend on torch's default device.
    fractions = torch.rand(num_clips, dtype=torch.float64, device="cpu")
    # In a narrow range far from 0, the sum can round up to the end.
    return (fractions * (end - start) + start).clamp(max=last_before(end)).tolist()


def regular_starts(start: float, end: float, *, seconds_between_clip_starts: float) -> list[float]:
    """Evenly spaced times in [start, end).

    >>> regular_starts(0.5, 6.0, seconds_between_clip_starts=2.0)
    [0.5, 2.5, 4.5]
    >>> regular_starts(0.0, 5e-324, seconds_between_clip_starts=2.5)
    [0.0]
    """
    check_frames(
        (end - start) / seconds_between_clip_starts, f"seconds_between_clip_starts ({seconds_between_clip_starts})"
    )
    starts = torch.arange(start, end, seconds_between_clip_starts, dtype=torch.float64, device="cpu")
    # Rounding can make arange include its end, or return nothing for a range of one point.
    return starts[starts < end].tolist() or [start]


def last_before(seconds: float) -> float:
    """The largest float below ``seconds``."""
    return math.nextafter(seconds, -math.inf)
