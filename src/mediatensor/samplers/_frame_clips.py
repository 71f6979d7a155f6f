"""Clips of frames at random or regular positions, by frame index or by time.

Each sampler first plans the frames or times without decoding, then decodes all clips with one request.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .._engine.common.limits import check_frames, frames_of_clips
from .._engine.index.frame_clock import FrameClock
from ..errors import InvalidArgumentError
from ..frames import FrameBatch
from ._common import (
    Policy,
    as_clips,
    check_clip_length,
    check_integer,
    check_not_empty,
    check_num_clips,
    check_num_frames,
    check_policy,
    check_positive_integer,
    check_positive_seconds,
    check_range_end,
    check_range_start,
    check_seconds,
    clock_of,
    complete,
    frames_on_grid,
    last_before,
    random_starts,
    regular_starts,
    starts_reading_at,
    tolerance_of,
)
from ._random import sampling_generator

if TYPE_CHECKING:
    from ..decoders import VideoDecoder


# By index


class IndexPlan(NamedTuple):
    """The frame indices of all clips in sequence."""

    indices: list[int]
    num_clips: int
    length: int

    def first_position(self, decoder: Any) -> float:
        """Return the index of the first frame in the whole file, because a segment of a file has its own indices."""
        return float(min(self.indices) + getattr(decoder, "first_frame", 0))

    def decode(self, decoder: VideoDecoder) -> FrameBatch:
        with frames_of_clips(self.length):
            frames = decoder.get_frames_at(self.indices)
        return as_clips(frames, self.num_clips, self.length)


def _first_of_random_indices(decoder: Any, *, num_clips: int = 1, **options: Any) -> float:
    choose_starts = partial(_random_indices, num_clips=check_num_clips(num_clips))
    return _plan_by_index(decoder, choose_starts, **options).first_position(decoder)


@starts_reading_at(_first_of_random_indices)
def clips_at_random_indices(
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    sampling_range_start: int = 0,
    sampling_range_end: int | None = None,
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """Decode clips that start at random frames.

    The starts are independent, uniform over the sampling range, and may repeat. For example, a clip of 3 frames, taking
    every 2nd frame, spans 5 frames, so in a video of 10 frames it starts in [0, 6) by default::

        frame              0  1  2  3  4  5  6  7  8  9
        sampling range    [                 )
        earliest clip      x     x     x
        latest clip                       x     x     x

    The random numbers come from torch's global generator for the CPU, in one draw: ``torch.manual_seed`` makes
    the clips reproducible.

    Args:
        decoder: The video.
        num_clips: Number of clips, at least 1.
        num_frames_per_clip: Number of frames of a clip, at least 1.
        num_indices_between_frames: Distance from a frame of a clip to the next, in frames of the video, at least 1.
        sampling_range_start: First frame at which a clip may start; negative counts from the end of the video.
        sampling_range_end: Frame before which a clip must start; negative counts from the end, and a value beyond
            the end means the end. By default clips start where all their frames exist, or at the first frame if
            the video is shorter than a clip.
        policy: What to do with a clip that runs past the end of the video: ``"repeat_last"`` repeats the last
            frame that exists, ``"wrap"`` goes back to the clip's first frame, ``"error"`` raises.

    Returns:
        Frames of shape (num_clips, num_frames_per_clip, C, H, W), or (..., H, W, C) in the decoder's dimension order,
        with times of shape (num_clips, num_frames_per_clip).

    Raises:
        InvalidArgumentError: if an argument is not as described, the sampling range is empty, the video has no
            frames, or a clip runs past the end and ``policy`` is ``"error"``. This error is also a ValueError.
        SourceTypeError: if ``decoder`` is not a decoder, but a path, for example.
        DecodeError: if a frame cannot be decoded, or the decoder left it out.

    Example:
        >>> from mediatensor.samplers import clips_at_random_indices
        >>> from mediatensor.decoders import VideoDecoder
        >>> clips = clips_at_random_indices(
        ...     VideoDecoder("video.mp4"), num_clips=4, num_frames_per_clip=16, num_indices_between_frames=2
        ... )
        >>> clips.data.shape
        torch.Size([4, 16, 3, 360, 640])
    """
    plan = _plan_by_index(
        decoder,
        partial(_random_indices, num_clips=check_num_clips(num_clips)),
        num_frames_per_clip=num_frames_per_clip,
        num_indices_between_frames=num_indices_between_frames,
        sampling_range_start=sampling_range_start,
        sampling_range_end=sampling_range_end,
        policy=policy,
    )
    return plan.decode(decoder)


def _first_of_regular_indices(decoder: Any, *, num_clips: int = 1, **options: Any) -> float:
    choose_starts = partial(_regular_indices, num_clips=check_num_clips(num_clips))
    return _plan_by_index(decoder, choose_starts, **options).first_position(decoder)


@starts_reading_at(_first_of_regular_indices)
def clips_at_regular_indices(
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    sampling_range_start: int = 0,
    sampling_range_end: int | None = None,
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """Decode clips that start at evenly spaced frames.

    The first clip starts at the first frame of the sampling range and the last clip at its last frame. Starts
    between them are rounded to whole frames. By default, for 3 clips of 3 frames, every 2nd, of a video of 10 frames::

        frame              0  1  2  3  4  5  6  7  8  9
        sampling range    [                 )
        clip 0             x     x     x
        clip 1                   x     x     x
        clip 2                            x     x     x

    If the range has fewer frames than ``num_clips``, some clips are equal.

    Args:
        decoder: The video.
        num_clips: Number of clips, at least 1; a single clip starts at the start of the range.
        num_frames_per_clip, num_indices_between_frames, sampling_range_start, sampling_range_end, policy: As for
            `clips_at_random_indices`.

    Returns:
        Frames of shape (num_clips, num_frames_per_clip, C, H, W), or (..., H, W, C) in the decoder's dimension order,
        with times of shape (num_clips, num_frames_per_clip).

    Raises:
        InvalidArgumentError, SourceTypeError, DecodeError: As for `clips_at_random_indices`.

    Example:
        >>> from mediatensor.samplers import clips_at_regular_indices
        >>> from mediatensor.decoders import VideoDecoder
        >>> clips = clips_at_regular_indices(
        ...     VideoDecoder("video.mp4"), num_clips=10, num_frames_per_clip=8
        ... )
        >>> clips.data.shape
        torch.Size([10, 8, 3, 360, 640])
    """
    plan = _plan_by_index(
        decoder,
        partial(_regular_indices, num_clips=check_num_clips(num_clips)),
        num_frames_per_clip=num_frames_per_clip,
        num_indices_between_frames=num_indices_between_frames,
        sampling_range_start=sampling_range_start,
        sampling_range_end=sampling_range_end,
        policy=policy,
    )
    return plan.decode(decoder)


def _plan_by_index(
    decoder: VideoDecoder,
    choose_starts: Callable[[int, int], list[int]],
    *,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    sampling_range_start: int = 0,
    sampling_range_end: int | None = None,
    policy: Policy = "repeat_last",
) -> IndexPlan:
    """Plan the clips. ``choose_starts`` chooses their starts from the bounds of the sampling range."""
    length = check_clip_length(num_frames_per_clip)
    step = check_positive_integer("num_indices_between_frames", num_indices_between_frames)
    check_policy(policy)
    num_frames = check_num_frames(decoder, "get_frames_at")
    span = step * (length - 1) + 1
    start, end = _range_of_indices(
        check_integer("sampling_range_start", sampling_range_start),
        None if sampling_range_end is None else check_integer("sampling_range_end", sampling_range_end),
        num_frames=num_frames,
        span=span,
    )
    starts = choose_starts(start, end)
    check_frames(len(starts) * length, f"{len(starts)} clips of {length} frames")
    clips = (range(first, min(first + span, num_frames), step) for first in starts)
    indices = [index for clip in clips for index in complete(clip, length, policy)]
    return IndexPlan(indices, len(starts), length)


def _range_of_indices(start: int, end: int | None, *, num_frames: int, span: int) -> tuple[int, int]:
    """Return the half-open range of frames at which a clip may start, by default all at which a whole clip fits.

    >>> _range_of_indices(0, None, num_frames=10, span=5)
    (0, 6)
    >>> _range_of_indices(-4, 100, num_frames=10, span=5)
    (6, 10)
    """
    if start < -num_frames:
        raise InvalidArgumentError(
            f"sampling_range_start ({start}) must be at least {-num_frames}: the video has {num_frames} frames."
        )
    if start >= num_frames:
        raise InvalidArgumentError(
            f"sampling_range_start ({start}) must be smaller than the number of frames ({num_frames})."
        )
    first = start + num_frames if start < 0 else start
    if end is None:
        # A video shorter than a clip still has one possible start. The policy completes the clip.
        stop = max(num_frames - span + 1, 1)
        if first >= stop:
            raise InvalidArgumentError(
                f"We determined that sampling_range_end should be {stop}, but it is smaller than or equal to "
                f"sampling_range_start ({first}). A clip spans {span} of the {num_frames} frames: start earlier, "
                "ask for fewer or closer frames, or give sampling_range_end to have the policy fill up the clips."
            )
    else:
        stop = min(end + num_frames if end < 0 else end, num_frames)
        if first >= stop:
            raise InvalidArgumentError(
                f"sampling_range_start ({first}) must be smaller than sampling_range_end ({stop})."
            )
    return first, stop


def _random_indices(start: int, end: int, *, num_clips: int) -> list[int]:
    # Draw on the CPU, so that clips do not depend on torch's default device.
    return torch.randint(start, end, (num_clips,), device="cpu", generator=sampling_generator()).tolist()


def _regular_indices(start: int, end: int, *, num_clips: int) -> list[int]:
    """Return ``num_clips`` evenly spaced frames of [start, end), including the first and the last frame.

    >>> _regular_indices(0, 6, num_clips=3)
    [0, 2, 5]
    """
    return torch.linspace(start, end - 1, num_clips, dtype=torch.int64, device="cpu").tolist()


# By time


class _TimePlan(NamedTuple):
    """The frame times of all clips in sequence, on the grid of a clock."""

    timestamps: list[float]
    clock: FrameClock
    num_clips: int
    length: int

    def decode(self, decoder: VideoDecoder) -> FrameBatch:
        with frames_of_clips(self.length):
            frames = frames_on_grid(decoder, self.timestamps, self.clock)
        return as_clips(frames, self.num_clips, self.length)


def _first_of_random_timestamps(decoder: Any, *, num_clips: int = 1, **options: Any) -> float:
    choose_starts = partial(random_starts, num_clips=check_num_clips(num_clips))
    return min(_plan_by_time(decoder, choose_starts, **options).timestamps)


@starts_reading_at(_first_of_random_timestamps)
def clips_at_random_timestamps(
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    seconds_between_frames: float | None = None,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """Decode clips that start at random times.

    The starts are uniform over the sampling range and independent of each other. Each clip has the frames shown at its
    times. By default, clips of 3 frames, 2 s apart, start in [0 s, 6 s) of a video from 0 s to 10 s::

        seconds            0  1  2  3  4  5  6  7  8  9  10
        sampling range    [                 )
        earliest clip      x     x     x
        a late clip                      x     x     x

    The random numbers come from torch's global generator for the CPU, in one draw: ``torch.manual_seed`` makes
    the clips reproducible.

    Args:
        decoder: The video.
        num_clips: Number of clips, at least 1.
        num_frames_per_clip: Number of frames of a clip, at least 1.
        seconds_between_frames: Time from a frame of a clip to the next in seconds, above 0; by default
            ``1 / decoder.metadata.average_fps``, which takes consecutive frames if the rate is constant.
        sampling_range_start: Time from which a clip may start in seconds; by default the beginning of the stream.
        sampling_range_end: Time before which a clip must start in seconds; a value beyond the end of the stream means
            the end. By default, clips must end before the stream ends. If the stream is shorter than a clip, clips
            start at its beginning.
        policy: What to do with a clip that runs past the end of the stream: ``"repeat_last"`` repeats the last
            time before the end, ``"wrap"`` goes back to the clip's start, ``"error"`` raises.

    Returns:
        Frames of shape (num_clips, num_frames_per_clip, C, H, W), or (..., H, W, C) in the decoder's dimension order,
        with times of shape (num_clips, num_frames_per_clip): those of the frames, not the requested ones.

    Raises:
        InvalidArgumentError: if an argument is not as described, the sampling range is empty, the video has no
            frames or lacks the metadata needed, or a clip runs past the end and ``policy`` is ``"error"``.
            This error is also a ValueError.
        SourceTypeError: if ``decoder`` is not a decoder, but a path, for example.
        DecodeError: if a frame cannot be decoded, or the decoder left it out.

    Example:
        >>> from mediatensor.samplers import clips_at_random_timestamps
        >>> from mediatensor.decoders import VideoDecoder
        >>> clips = clips_at_random_timestamps(
        ...     VideoDecoder("video.mp4"), num_clips=4, num_frames_per_clip=16, seconds_between_frames=0.1
        ... )
        >>> clips.data.shape
        torch.Size([4, 16, 3, 360, 640])
    """
    plan = _plan_by_time(
        decoder,
        partial(random_starts, num_clips=check_num_clips(num_clips)),
        num_frames_per_clip=num_frames_per_clip,
        seconds_between_frames=seconds_between_frames,
        sampling_range_start=sampling_range_start,
        sampling_range_end=sampling_range_end,
        policy=policy,
    )
    return plan.decode(decoder)


def _first_of_regular_timestamps(decoder: Any, *, seconds_between_clip_starts: float, **options: Any) -> float:
    seconds = check_positive_seconds("seconds_between_clip_starts", seconds_between_clip_starts)
    choose_starts = partial(_regular_starts_of, decoder, seconds_between_clip_starts=seconds)
    return min(_plan_by_time(decoder, choose_starts, seconds_between_clip_starts=seconds, **options).timestamps)


@starts_reading_at(_first_of_regular_timestamps)
def clips_at_regular_timestamps(
    decoder: VideoDecoder,
    *,
    seconds_between_clip_starts: float,
    num_frames_per_clip: int = 1,
    seconds_between_frames: float | None = None,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: Policy = "repeat_last",
) -> FrameBatch:
    """Decode clips that start at evenly spaced times.

    The sampling range determines the number of clips. Each clip has the frames shown at its times. Clips of 3 frames, 2
    s apart, every 2.5 s, of a video from 0 s to 10 s::

        seconds            0  1  2  3  4  5  6  7  8  9  10
        sampling range    [                 )
        clip 0             x     x     x
        clip 1                    x     x     x
        clip 2                            x     x     x

    Args:
        decoder: The video.
        seconds_between_clip_starts: Time from the start of a clip to the start of the next in seconds, above 0.
        sampling_range_start: Start of the first clip in seconds; by default the beginning of the stream.
        num_frames_per_clip, seconds_between_frames, sampling_range_end, policy: As for `clips_at_random_timestamps`.

    Returns:
        Frames of shape (clips, num_frames_per_clip, C, H, W), or (..., H, W, C) in the decoder's dimension order,
        with times of shape (clips, num_frames_per_clip): those of the frames, not the requested ones.

    Raises:
        InvalidArgumentError, SourceTypeError, DecodeError: As for `clips_at_random_timestamps`.

    Example:
        >>> from mediatensor.samplers import clips_at_regular_timestamps
        >>> from mediatensor.decoders import VideoDecoder
        >>> clips = clips_at_regular_timestamps(
        ...     VideoDecoder("video.mp4"), seconds_between_clip_starts=1.0, num_frames_per_clip=8
        ... )
        >>> clips.data.shape
        torch.Size([10, 8, 3, 360, 640])
    """
    seconds = check_positive_seconds("seconds_between_clip_starts", seconds_between_clip_starts)
    plan = _plan_by_time(
        decoder,
        partial(_regular_starts_of, decoder, seconds_between_clip_starts=seconds),
        seconds_between_clip_starts=seconds,
        num_frames_per_clip=num_frames_per_clip,
        seconds_between_frames=seconds_between_frames,
        sampling_range_start=sampling_range_start,
        sampling_range_end=sampling_range_end,
        policy=policy,
    )
    return plan.decode(decoder)


def _regular_starts_of(
    decoder: VideoDecoder, start: float, end: float, *, seconds_between_clip_starts: float
) -> list[float]:
    step = clock_of(decoder, seconds_between_clip_starts).exact_step(seconds_between_clip_starts)
    return regular_starts(start, max(end - tolerance_of(decoder), start), seconds_between_clip_starts=step)


def _plan_by_time(
    decoder: VideoDecoder,
    choose_starts: Callable[[float, float], list[float]],
    *,
    seconds_between_clip_starts: float | None = None,
    num_frames_per_clip: int = 1,
    seconds_between_frames: float | None = None,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: Policy = "repeat_last",
) -> _TimePlan:
    """Plan the clips. ``choose_starts`` chooses their starts from the bounds of the sampling range."""
    length = check_clip_length(num_frames_per_clip)
    check_policy(policy)
    check_num_frames(decoder, "get_frames_played_at")
    step = _seconds_between_frames(decoder, seconds_between_frames)
    clock = clock_of(decoder, (seconds_between_clip_starts or 0.0) if length == 1 else step)
    step = clock.exact_step(step)
    stream_begin = _from_metadata(decoder, "begin_stream_seconds", "stream begin")
    stream_end = clock.exact_end(_from_metadata(decoder, "end_stream_seconds", "stream end"))
    start, end = _range_of_times(
        None if sampling_range_start is None else check_seconds("sampling_range_start", sampling_range_start),
        None if sampling_range_end is None else check_seconds("sampling_range_end", sampling_range_end),
        stream_begin=stream_begin,
        stream_end=stream_end,
        duration=(length - 1) * step,
    )
    starts = choose_starts(clock.exact_start(start), end)
    check_frames(len(starts) * length, f"{len(starts)} clips of {length} frames")
    is_whole = sampling_range_end is None and stream_begin < stream_end - (length - 1) * step
    tolerance = tolerance_of(decoder)
    clips = (
        _times_of_clip(first, length, step, stream_end=stream_end, is_whole=is_whole, tolerance=tolerance)
        for first in starts
    )
    timestamps = [seconds for clip in clips for seconds in complete(clip, length, policy)]
    return _TimePlan(timestamps, clock, len(starts), length)


def _from_metadata(decoder: VideoDecoder, name: str, description: str) -> float:
    value = getattr(decoder.metadata, name)
    if value is None:
        raise InvalidArgumentError(
            f"Could not infer {description} from video metadata. Try using an index-based sampler instead."
        )
    return float(value)


def _seconds_between_frames(decoder: VideoDecoder, seconds_between_frames: float | None) -> float:
    """Return the time from a frame of a clip to the next, by default from a frame of the video to the next."""
    if seconds_between_frames is not None:
        return check_positive_seconds("seconds_between_frames", seconds_between_frames)
    average_fps = _from_metadata(decoder, "average_fps", "average fps")
    if not 0 < average_fps < math.inf:
        raise InvalidArgumentError(
            f"The average fps of the video metadata ({average_fps}) must be > 0 and finite. "
            "Give seconds_between_frames, or use an index-based sampler."
        )
    return clock_of(decoder).usual_step(1 / average_fps)


def _range_of_times(
    start: float | None, end: float | None, *, stream_begin: float, stream_end: float, duration: float
) -> tuple[float, float]:
    """Return the half-open range of times in which a clip may start.

    ``duration`` is the time from the first to the last frame of a clip.

    >>> _range_of_times(None, None, stream_begin=0.5, stream_end=10.0, duration=4.0)
    (0.5, 6.0)
    >>> _range_of_times(8.0, 100.0, stream_begin=0.5, stream_end=10.0, duration=4.0)
    (8.0, 10.0)
    >>> _range_of_times(None, None, stream_begin=0.5, stream_end=10.0, duration=40.0)
    (0.5, 0.5000000000000001)
    """
    start = check_range_start(start, stream_begin=stream_begin, stream_end=stream_end)
    if end is not None:
        end = check_range_end(end, stream_begin=stream_begin, stream_end=stream_end)
        check_not_empty(start, end)
        return start, end
    # A video shorter than a clip still has one possible start. The policy completes the clip.
    end = max(stream_end - duration, math.nextafter(stream_begin, math.inf))
    check_not_empty(
        start,
        end,
        f", the default: a clip takes {duration} s and the stream ends at {stream_end} s. Start earlier, ask for "
        "fewer or closer frames, or give sampling_range_end to have the policy fill up the clips",
    )
    return start, end


def _times_of_clip(
    start: float, length: int, step: float, *, stream_end: float, is_whole: bool, tolerance: float = 0.0
) -> list[float]:
    """Return the times of a clip that lie before the end of the stream by more than ``tolerance``.

    If ``is_whole``, the clip was placed to end before the stream ends, so only rounding moves a time to the end::

        start             1/3 + 1.6 = 1.9333333333333333
        sampling range                1.9333333333333336 = 1/3 + 2 - 0.4
        last frame  start + 4 * 0.1 = 2.3333333333333335 = 1/3 + 2, the end

    >>> _times_of_clip(8.0, 3, 1.0, stream_end=10.0, is_whole=False)
    [8.0, 9.0]
    """
    times = [start + i * step for i in range(length)]
    if is_whole:
        return [min(seconds, last_before(stream_end)) for seconds in times]
    return times[:1] + [seconds for seconds in times[1:] if seconds < stream_end - tolerance]
