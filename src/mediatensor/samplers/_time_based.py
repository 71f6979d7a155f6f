"""Clips by time: `clips_at_random_timestamps` and `clips_at_regular_timestamps`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from .._engine.common.limits import check_frames, frames_of_clips
from ..errors import InvalidArgumentError
from ..frames import FrameBatch
from ._common import (
    as_clips,
    check_clip_length,
    check_not_empty,
    check_num_clips,
    check_num_frames,
    check_positive_seconds,
    check_range_end,
    check_range_start,
    check_seconds,
    clock_of,
    frames_on_grid,
    last_before,
    random_starts,
    regular_starts,
    tolerance_of,
)
from ._policies import Policy, check_policy, complete

if TYPE_CHECKING:
    from ..decoders import VideoDecoder


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
    """Decodes clips that start at random times.

    The starts are uniform over the sampling range and independent of each other; a frame of a clip is the one shown
    at its time. Clips of 3 frames, 2 s apart, of a video from 0 s to 10 s start in [0 s, 6 s) by default::

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
        seconds_between_frames: Time between two frames of a clip in seconds, above 0; by default
            ``1 / decoder.metadata.average_fps``, which takes frames in a row if the rate is steady.
        sampling_range_start: Time from which a clip may start in seconds; by default the begin of the stream.
        sampling_range_end: Time before which a clip must start in seconds; a value beyond the end of the stream means
            the end. By default clips start where they end before the stream does, or at its begin if it is shorter than
            a clip.
        policy: What to do with a clip that runs past the end of the stream: ``"repeat_last"`` repeats the last
            time before the end, ``"wrap"`` goes back to the clip's start, ``"error"`` raises.

    Returns:
        Frames of shape (num_clips, num_frames_per_clip, C, H, W), or (..., H, W, C) as the decoder's dimension order
        is, with times of shape (num_clips, num_frames_per_clip). The times are those of the frames.

    Raises:
        InvalidArgumentError: if an argument is not as described, the sampling range is empty, the video has no
            frames or lacks the metadata needed, or a clip runs past the end and ``policy`` is ``"error"``.
            It is a ValueError.
        SourceTypeError: if ``decoder`` is no decoder, but a path, for example.
        DecodeError: if a frame cannot be decoded; with a decoder that skips such frames, too.

    Example:
        >>> from mediatensor.samplers import clips_at_random_timestamps
        >>> from mediatensor.decoders import VideoDecoder
        >>> clips = clips_at_random_timestamps(
        ...     VideoDecoder("video.mp4"), num_clips=4, num_frames_per_clip=16, seconds_between_frames=0.1
        ... )
        >>> clips.data.shape
        torch.Size([4, 16, 3, 360, 640])
    """
    num_clips = check_num_clips(num_clips)
    return _sample(
        decoder,
        partial(random_starts, num_clips=num_clips),
        num_frames_per_clip=num_frames_per_clip,
        seconds_between_frames=seconds_between_frames,
        sampling_range_start=sampling_range_start,
        sampling_range_end=sampling_range_end,
        policy=policy,
    )


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
    """Decodes clips that start at evenly spaced times.

    There are as many clips as the sampling range has room for; a frame of a clip is the one shown at its time. Clips
    of 3 frames, 2 s apart, every 2.5 s, of a video from 0 s to 10 s::

        seconds            0  1  2  3  4  5  6  7  8  9  10
        sampling range    [                 )
        clip 0             x     x     x
        clip 1                    x     x     x
        clip 2                            x     x     x

    Args:
        decoder: The video.
        seconds_between_clip_starts: Time from the start of a clip to the start of the next in seconds, above 0.
        num_frames_per_clip: Number of frames of a clip, at least 1.
        seconds_between_frames: Time between two frames of a clip in seconds, above 0; by default
            ``1 / decoder.metadata.average_fps``, which takes frames in a row if the rate is steady.
        sampling_range_start: Start of the first clip in seconds; by default the begin of the stream.
        sampling_range_end: Time before which a clip must start in seconds; a value beyond the end of the stream means
            the end. By default clips start where they end before the stream does, or at its begin if it is shorter than
            a clip.
        policy: What to do with a clip that runs past the end of the stream: ``"repeat_last"`` repeats the last
            time before the end, ``"wrap"`` goes back to the clip's start, ``"error"`` raises.

    Returns:
        Frames of shape (clips, num_frames_per_clip, C, H, W), or (..., H, W, C) as the decoder's dimension order is,
        with times of shape (clips, num_frames_per_clip). The times are those of the frames.

    Raises:
        InvalidArgumentError: if an argument is not as described, the sampling range is empty, the video has no
            frames or lacks the metadata needed, or a clip runs past the end and ``policy`` is ``"error"``.
            It is a ValueError.
        SourceTypeError: if ``decoder`` is no decoder, but a path, for example.
        DecodeError: if a frame cannot be decoded; with a decoder that skips such frames, too.

    Example:
        >>> from mediatensor.samplers import clips_at_regular_timestamps
        >>> from mediatensor.decoders import VideoDecoder
        >>> clips = clips_at_regular_timestamps(
        ...     VideoDecoder("video.mp4"), seconds_between_clip_starts=1.0, num_frames_per_clip=8
        ... )
        >>> clips.data.shape
        torch.Size([10, 8, 3, 360, 640])
    """
    seconds_between_clip_starts = check_positive_seconds("seconds_between_clip_starts", seconds_between_clip_starts)

    def choose_starts(start: float, end: float) -> list[float]:
        step = clock_of(decoder, seconds_between_clip_starts).exact_step(seconds_between_clip_starts)
        return regular_starts(start, max(end - tolerance_of(decoder), start), seconds_between_clip_starts=step)

    return _sample(
        decoder,
        choose_starts,
        seconds_between_clip_starts=seconds_between_clip_starts,
        num_frames_per_clip=num_frames_per_clip,
        seconds_between_frames=seconds_between_frames,
        sampling_range_start=sampling_range_start,
        sampling_range_end=sampling_range_end,
        policy=policy,
    )


def _sample(
    decoder: VideoDecoder,
    choose_starts: Callable[[float, float], list[float]],
    *,
    seconds_between_clip_starts: float | None = None,
    num_frames_per_clip: int,
    seconds_between_frames: float | None,
    sampling_range_start: float | None,
    sampling_range_end: float | None,
    policy: Policy,
) -> FrameBatch:
    """Decodes the clips at the starts that ``choose_starts`` gives for the bounds of the sampling range."""
    length = check_clip_length(num_frames_per_clip)
    check_policy(policy)
    check_num_frames(decoder, "get_frames_played_at")
    step = _seconds_between_frames(decoder, seconds_between_frames)
    clock = clock_of(decoder, (seconds_between_clip_starts or 0.0) if length == 1 else step)
    step = clock.exact_step(step)
    stream_begin = _from_metadata(decoder, "begin_stream_seconds", "stream begin")
    stream_end = clock.exact_end(_from_metadata(decoder, "end_stream_seconds", "stream end"))
    start, end = _sampling_range(
        None if sampling_range_start is None else check_seconds("sampling_range_start", sampling_range_start),
        None if sampling_range_end is None else check_seconds("sampling_range_end", sampling_range_end),
        stream_begin=stream_begin,
        stream_end=stream_end,
        duration=(length - 1) * step,
    )
    starts = choose_starts(clock.exact_start(start), end)
    check_frames(len(starts) * length, f"{len(starts)} clips of {length} frames")
    whole = sampling_range_end is None and stream_begin < stream_end - (length - 1) * step
    clip_of = partial(
        _clip, length=length, step=step, stream_end=stream_end, whole=whole, tolerance=tolerance_of(decoder)
    )
    timestamps = [seconds for first in starts for seconds in complete(clip_of(first), length, policy)]
    with frames_of_clips(length):
        frames = frames_on_grid(decoder, timestamps, clock)
    return as_clips(frames, len(starts), length)


def _from_metadata(decoder: VideoDecoder, name: str, description: str) -> float:
    """A number of the metadata that may be unknown."""
    value = getattr(decoder.metadata, name)
    if value is None:
        raise InvalidArgumentError(
            f"Could not infer {description} from video metadata. Try using an index-based sampler instead."
        )
    return float(value)


def _seconds_between_frames(decoder: VideoDecoder, seconds_between_frames: float | None) -> float:
    """The time between two frames of a clip, by default that between two frames of the video."""
    if seconds_between_frames is not None:
        return check_positive_seconds("seconds_between_frames", seconds_between_frames)
    average_fps = _from_metadata(decoder, "average_fps", "average fps")
    if not 0 < average_fps < math.inf:
        raise InvalidArgumentError(
            f"The average fps of the video metadata ({average_fps}) must be > 0 and finite. "
            "Give seconds_between_frames, or use an index-based sampler."
        )
    return clock_of(decoder).usual_step(1 / average_fps)


def _sampling_range(
    start: float | None, end: float | None, *, stream_begin: float, stream_end: float, duration: float
) -> tuple[float, float]:
    """Time from which a clip may start, and the time before which it must.

    ``duration`` is the time from the first to the last frame of a clip.

    >>> _sampling_range(None, None, stream_begin=0.5, stream_end=10.0, duration=4.0)
    (0.5, 6.0)
    >>> _sampling_range(8.0, 100.0, stream_begin=0.5, stream_end=10.0, duration=4.0)
    (8.0, 10.0)
    >>> _sampling_range(None, None, stream_begin=0.5, stream_end=10.0, duration=40.0)
    (0.5, 0.5000000000000001)
    """
    start = check_range_start(start, stream_begin=stream_begin, stream_end=stream_end)
    if end is not None:
        end = check_range_end(end, stream_begin=stream_begin, stream_end=stream_end)
        check_not_empty(start, end)
        return start, end
    # A video shorter than a clip still has a place to start at; the policy does the rest.
    end = max(stream_end - duration, math.nextafter(stream_begin, math.inf))
    check_not_empty(
        start,
        end,
        f", the default: a clip takes {duration} s and the stream ends at {stream_end} s. Start earlier, ask for "
        "fewer or closer frames, or give sampling_range_end to have the policy fill up the clips",
    )
    return start, end


def _clip(
    start: float, length: int, step: float, *, stream_end: float, whole: bool, tolerance: float = 0.0
) -> list[float]:
    """The times of the clip at ``start`` that lie before the end of the stream by more than a tolerance.

    A ``whole`` clip was placed to end before the stream does, so a time that reaches the end got there by rounding::

        start             1/3 + 1.6 = 1.9333333333333333
        sampling range                1.9333333333333336 = 1/3 + 2 - 0.4
        last frame  start + 4 * 0.1 = 2.3333333333333335 = 1/3 + 2, the end

    >>> _clip(8.0, 3, 1.0, stream_end=10.0, whole=False)
    [8.0, 9.0]
    """
    times = [start + i * step for i in range(length)]
    if whole:
        return [min(seconds, last_before(stream_end)) for seconds in times]
    return times[:1] + [seconds for seconds in times[1:] if seconds < stream_end - tolerance]
