"""Code that samplers share: checks of arguments, start times, policies for short clips, and the shape of the result.

A policy completes a clip that runs past the end of the video. Its arguments are the existing positions of the clip
(frame indices or times, at least one) and the length of the clip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, cycle, islice, repeat
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
import torch

from .._engine.common.checks import TIME_TOLERANCE, real_number, shown, whole_number
from .._engine.common.limits import check_frames
from .._engine.index.frame_clock import FrameClock
from ..decoders._access import access_to
from ..errors import DecodeError, InvalidArgumentError, SourceTypeError
from ..frames import FrameBatch
from ._random import sampling_generator, uses_row_random

if TYPE_CHECKING:
    from ..decoders import VideoDecoder

Policy: TypeAlias = Literal["repeat_last", "wrap", "error"]
Position = TypeVar("Position", int, float)
S = TypeVar("S", bound=Callable[..., Any])

#: The clock for decoders of other libraries, which have only public methods.
_NO_CLOCK = FrameClock(np.zeros(0), np.zeros(0))


# Where a sampler starts to read


def starts_reading_at(first_position: Callable[..., float]) -> Callable[[S], S]:
    """Decorate a sampler with its ``first_position``, a function of the same arguments.

    ``first_position`` draws the same random numbers as the sampler, and does not decode.
    """

    def add(sampler: S) -> S:
        sampler.first_position = first_position  # type: ignore[attr-defined]
        return uses_row_random(sampler)

    return add


def unwrap_partial(sampler: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the function inside nested ``functools.partial`` objects, and its bound arguments."""
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = {}
    while isinstance(sampler, partial):
        arguments, options = (*sampler.args, *arguments), {**sampler.keywords, **options}
        sampler = sampler.func
    return sampler, arguments, options


def first_position(sampler: Callable[[Any], Any], decoder: Any) -> float | None:
    """Return the position in the file where a sampler will start to read; ``None`` if unknown.

    Built-in samplers, and optionally user objects, have a method ``first_position(decoder)``. Positions may have any
    unit that grows with time.
    """
    function, arguments, options = unwrap_partial(sampler)
    method = getattr(function, "first_position", None)
    return None if method is None else float(method(*arguments, decoder, **options))


# Checks of arguments


def check_integer(name: str, value: Any) -> int:
    """Return ``value`` as an int if it is an integer type of any library; raise otherwise."""
    try:
        return whole_number(name, value)
    except InvalidArgumentError:
        raise InvalidArgumentError(f"{name} ({value!r}) must be an integer.") from None


def check_positive_integer(name: str, value: Any, requirement: str = "strictly positive") -> int:
    integer = check_integer(name, value)
    if integer < 1:
        raise InvalidArgumentError(f"{name} ({integer}) must be {requirement}.")
    return integer


def check_num_clips(value: Any) -> int:
    num_clips = check_positive_integer("num_clips", value, "> 0")
    check_frames(num_clips, f"num_clips ({num_clips})")
    return num_clips


def check_clip_length(value: Any) -> int:
    length = check_positive_integer("num_frames_per_clip", value)
    check_frames(length, f"num_frames_per_clip ({length})")
    return length


def check_seconds(name: str, value: Any) -> float:
    try:
        return real_number(name, value)
    except InvalidArgumentError:
        raise InvalidArgumentError(f"{name} ({shown(value)}) must be a number of seconds.") from None


def check_positive_seconds(name: str, value: Any) -> float:
    seconds = check_seconds(name, value)
    if not 0 < seconds < math.inf:
        raise InvalidArgumentError(f"{name} ({value}) must be > 0 and finite.")
    return seconds


def check_decoder(decoder: object, *methods: str, made_by: str) -> None:
    """Raise `SourceTypeError` unless ``decoder`` has the methods that a sampler calls. A path is a common mistake."""
    if not all(hasattr(decoder, method) for method in methods):
        raise SourceTypeError(
            f"decoder must be {'an' if made_by[0] in 'AEIOU' else 'a'} {made_by}, or have its methods "
            f"(got {shown(decoder)}); make one of a source with mediatensor.decoders.{made_by}(source)."
        )


def check_num_frames(decoder: VideoDecoder, method: str) -> int:
    """Return the number of frames; raise unless ``decoder`` has frames and the method that fetches them."""
    check_decoder(decoder, "__len__", method, made_by="VideoDecoder")
    num_frames = len(decoder)
    if num_frames < 1:
        raise InvalidArgumentError(f"Decoder must have at least one frame, found {num_frames} frames.")
    return num_frames


def check_range_start(start: float | None, *, stream_begin: float, stream_end: float) -> float:
    """Return the earliest time at which a clip may start, by default the beginning of the stream."""
    # Each comparison is written so that it is false for NaN.
    if start is None:
        return stream_begin
    if not start >= stream_begin:
        raise InvalidArgumentError(f"sampling_range_start ({start}) must be at least {stream_begin}, the stream begin.")
    if not start < stream_end:
        raise InvalidArgumentError(f"sampling_range_start ({start}) must be smaller than {stream_end}, the stream end.")
    return start


def check_range_end(end: float, *, stream_begin: float, stream_end: float) -> float:
    """Return the time before which a clip must start. Values beyond the end of the stream mean the end."""
    if not end >= stream_begin:
        raise InvalidArgumentError(f"sampling_range_end ({end}) must be at least {stream_begin}, the stream begin.")
    return min(end, stream_end)


def check_not_empty(start: float, end: float, reason: str = "") -> None:
    """Raise if [start, end) is empty; ``reason`` explains where the end comes from."""
    if not start < end:
        raise InvalidArgumentError(
            f"sampling_range_start ({start}) must be smaller than sampling_range_end ({end}){reason}."
        )


# Start times


def random_starts(start: float, end: float, *, num_clips: int) -> list[float]:
    """Draw ``num_clips`` times in [start, end)."""
    # Draw on the CPU, so that clips do not depend on torch's default device.
    fractions = torch.rand(num_clips, dtype=torch.float64, device="cpu", generator=sampling_generator())
    # In a narrow range far from 0, the sum can round up to the end.
    return (fractions * (end - start) + start).clamp(max=last_before(end)).tolist()


def regular_starts(start: float, end: float, *, seconds_between_clip_starts: float) -> list[float]:
    """Return evenly spaced times in [start, end).

    >>> regular_starts(0.5, 6.0, seconds_between_clip_starts=2.0)
    [0.5, 2.5, 4.5]
    >>> regular_starts(0.0, 5e-324, seconds_between_clip_starts=2.5)
    [0.0]
    """
    check_frames(
        (end - start) / seconds_between_clip_starts, f"seconds_between_clip_starts ({seconds_between_clip_starts})"
    )
    starts = torch.arange(start, end, seconds_between_clip_starts, dtype=torch.float64, device="cpu")
    # Rounding can make arange include its end, or return nothing if the range has a single start.
    return starts[starts < end].tolist() or [start]


def last_before(seconds: float) -> float:
    """Return the largest float below ``seconds``."""
    return math.nextafter(seconds, -math.inf)


# Clips that run past the end


def _repeat_last(positions: Sequence[Position], length: int) -> list[Position]:
    return list(islice(chain(positions, repeat(positions[-1])), length))


def _wrap(positions: Sequence[Position], length: int) -> list[Position]:
    return list(islice(cycle(positions), length))


def _refuse(positions: Sequence[Position], length: int) -> list[Position]:
    if len(positions) < length:
        raise InvalidArgumentError(
            "You set the 'error' policy, and the sampler tried to decode a frame that is beyond the number of frames "
            "in the video. Try to leave sampling_range_end to its default value? "
            f"The clip that starts at {positions[0]} has {len(positions)} of its {length} frames; "
            "ask for fewer or closer frames, or use policy='repeat_last' or 'wrap'."
        )
    return list(positions)


_POLICIES: dict[str, Callable[[Sequence[Any], int], list[Any]]] = {
    "repeat_last": _repeat_last,
    "wrap": _wrap,
    "error": _refuse,
}


def check_policy(policy: object) -> None:
    if not (isinstance(policy, str) and policy in _POLICIES):
        raise InvalidArgumentError(
            f"Invalid policy ({policy}). Supported values are {', '.join(map(repr, _POLICIES))}."
        )


def complete(positions: Sequence[Position], length: int, policy: Policy) -> list[Position]:
    """Return ``length`` positions for a clip: those that exist in the video, completed as the policy says.

    >>> complete([4, 6, 8], 5, "repeat_last"), complete([4, 6, 8], 5, "wrap")
    ([4, 6, 8, 8, 8], [4, 6, 8, 4, 6])
    """
    return _POLICIES[policy](positions, length)


# Frames of clips


def clock_of(decoder: Any, *steps: float) -> FrameClock:
    """Return the clock of ``decoder``; with ``steps``, the clock for times that are one of these steps apart."""
    access = access_to(decoder)
    clock: FrameClock = _NO_CLOCK if access is None else access.clock
    return clock.for_steps(*steps) if steps else clock


def tolerance_of(decoder: Any) -> float:
    """Return the tolerance in seconds for times just before an end; 0 for decoders of other libraries."""
    return 0.0 if access_to(decoder) is None else TIME_TOLERANCE


def frames_on_grid(decoder: Any, seconds: list[float], clock: FrameClock) -> FrameBatch:
    """Return the frames of ``decoder`` at times computed with a clock."""
    batch: FrameBatch = (
        decoder.get_frames_played_at(seconds)
        if clock.step is None
        else access_to(decoder).frames_played_at(np.array(seconds), is_grid=True)
    )
    return batch


def as_clips(batch: FrameBatch, num_clips: int, num_frames_per_clip: int) -> FrameBatch:
    """Split the first dimension of ``batch``, the frames of all clips in sequence, into clips and frames.

    Raises:
        DecodeError: if frames are missing because a decoder with ``on_error="skip"`` left them out.
    """
    num_wanted = num_clips * num_frames_per_clip
    if len(batch) != num_wanted:
        missing = [frame for frame in batch.replaced if frame.used_index is None]
        reasons = "".join(f" Frame {frame.index}: {frame.reason}" for frame in missing[:1])
        raise DecodeError(
            f"{num_wanted - len(batch)} of the {num_wanted} frames of the clips could not be decoded and were left "
            "out, but a clip needs all its frames. Make the decoder with on_error='nearest' to have the nearest frame "
            f"in their place, or with on_error='raise'.{reasons}"
        )
    shape = (num_clips, num_frames_per_clip)
    return FrameBatch(
        batch.data.reshape(*shape, *batch.data.shape[1:]),
        batch.pts_seconds.reshape(shape),
        batch.duration_seconds.reshape(shape),
        # Positions in ``replaced`` refer to the flattened batch, so splitting a dimension does not change them.
        replaced=batch.replaced,
        is_damaged=batch.is_damaged.reshape(shape),
    )
