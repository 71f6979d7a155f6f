"""Sample clips of frames by time, starting at random or regular times of a video.

Each sampler first chooses the times of all frames, and then decodes them with one request.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from .._engine.common.checks import TIME_TOLERANCE, check_frames, real_number, shown
from .._engine.index.frame_clock import FrameClock
from .._engine.video.exact import frames_of_clips
from ..decoders._access import access_to
from ..errors import InvalidArgumentError
from ..frames import FrameBatch
from ._index_clips import (
    Policy,
    as_clips,
    check_clip_length,
    check_not_empty,
    check_num_clips,
    check_num_frames,
    check_policy,
    complete,
)
from ._random import planned_by, sampling_generator

if TYPE_CHECKING:
    from ..decoders import VideoDecoder

#: The clock used for decoders of other libraries, which have only public methods.
_NO_CLOCK = FrameClock(np.zeros(0), np.zeros(0))


class _TimePlan(NamedTuple):
    timestamps: list[float]  # of the frames to decode, one clip after another
    clock: FrameClock  # which computed the times
    num_clips: int
    length: int

    def first_position(self, decoder: Any) -> float:
        return min(self.timestamps)

    def decode(self, decoder: VideoDecoder) -> FrameBatch:
        with frames_of_clips(self.length):
            frames = frames_on_grid(decoder, self.timestamps, self.clock)
        return as_clips(frames, self.num_clips, self.length)


def _plan_random_times(decoder: Any, *, num_clips: int = 1, **options: Any) -> _TimePlan:
    return _plan_by_time(decoder, partial(random_starts, num_clips=check_num_clips(num_clips)), **options)


def _plan_regular_times(decoder: Any, *, seconds_between_clip_starts: float, **options: Any) -> _TimePlan:
    seconds = check_positive_seconds("seconds_between_clip_starts", seconds_between_clip_starts)
    choose_starts = partial(_regular_starts_of, decoder, seconds_between_clip_starts=seconds)
    return _plan_by_time(decoder, choose_starts, seconds_between_clip_starts=seconds, **options)


@planned_by(_plan_random_times)
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

    The starts are drawn independently and uniformly from the sampling range. A clip consists of the frames that are
    shown at evenly spaced times. For example, if a clip has 3 frames that are 2 s apart, and the video lasts from 0 s
    to 10 s, the clip starts in [0 s, 6 s) by default::

        seconds            0  1  2  3  4  5  6  7  8  9  10
        sampling range    [                 )
        earliest clip      x     x     x
        a late clip                      x     x     x

    The random numbers come from torch's global generator for the CPU, so ``torch.manual_seed`` makes the clips
    reproducible. The generator is called once for all starts.

    Args:
        decoder: The decoder of the video.
        num_clips: Number of clips, at least 1.
        num_frames_per_clip: Number of frames of a clip, at least 1.
        seconds_between_frames: Time from one frame of a clip to the next in seconds, above 0. The default is ``1 /
            decoder.metadata.average_fps``, which gives consecutive frames if the rate is constant.
        sampling_range_start: Earliest start of a clip in seconds; by default the start of the stream.
        sampling_range_end: Time in seconds before which a clip must start. A value beyond the end of the stream means
            the end. By default, it is chosen so that all clips fit into the stream. If the stream is shorter than a
            clip, all clips start at the start of the stream.
        policy: How to complete a clip that reaches beyond the end of the stream: ``"repeat_last"`` repeats the
            clip's last frame before the end, ``"wrap"`` repeats the clip from its start, and ``"error"`` raises an
            `InvalidArgumentError`.

    Returns:
        A `FrameBatch`. ``data`` has the shape (num_clips, num_frames_per_clip, C, H, W), or (..., H, W, C) if this is
        the decoder's dimension order. ``pts_seconds``, of shape (num_clips, num_frames_per_clip), has the start times
        of the frames, not the times for which the frames were requested.

    Raises:
        InvalidArgumentError: if an argument is invalid, the sampling range is empty, the video has no frames or lacks
            necessary metadata, or a clip reaches beyond the end and ``policy`` is ``"error"``. This error is also a
            ValueError.
        SourceTypeError: if ``decoder`` is not a decoder, for example a path.
        DecodeError: if a frame cannot be decoded, or a decoder with ``on_error="skip"`` left it out.

    Example:
        >>> from mediatensor.samplers import clips_at_random_timestamps
        >>> from mediatensor.decoders import VideoDecoder
        >>> clips = clips_at_random_timestamps(
        ...     VideoDecoder("video.mp4"), num_clips=4, num_frames_per_clip=16, seconds_between_frames=0.1
        ... )
        >>> clips.data.shape
        torch.Size([4, 16, 3, 360, 640])
    """
    return _plan_random_times(**locals()).decode(decoder)


@planned_by(_plan_regular_times)
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

    The sampling range determines the number of clips. A clip consists of the frames that are shown at evenly spaced
    times. For example, if clips start every 2.5 s and have 3 frames that are 2 s apart, a video from 0 s to 10 s has
    these clips::

        seconds            0  1  2  3  4  5  6  7  8  9  10
        sampling range    [                 )
        clip 0             x     x     x
        clip 1                    x     x     x
        clip 2                            x     x     x

    Args:
        decoder: The decoder of the video.
        seconds_between_clip_starts: Time from the start of a clip to the start of the next one in seconds, above 0.
        sampling_range_start: Start of the first clip in seconds; by default the start of the stream.
        num_frames_per_clip, seconds_between_frames, sampling_range_end, policy: Frames of a clip, end of the range of
            its start, and handling of clips that reach beyond the end, as in `clips_at_random_timestamps`.

    Returns:
        A `FrameBatch`. ``data`` has the shape (clips, num_frames_per_clip, C, H, W), or (..., H, W, C) if this is the
        decoder's dimension order. ``pts_seconds``, of shape (clips, num_frames_per_clip), has the start times of the
        frames, not the times for which the frames were requested.

    Raises:
        InvalidArgumentError, SourceTypeError, DecodeError: See `clips_at_random_timestamps`.

    Example:
        >>> from mediatensor.samplers import clips_at_regular_timestamps
        >>> from mediatensor.decoders import VideoDecoder
        >>> clips = clips_at_regular_timestamps(
        ...     VideoDecoder("video.mp4"), seconds_between_clip_starts=1.0, num_frames_per_clip=8
        ... )
        >>> clips.data.shape
        torch.Size([10, 8, 3, 360, 640])
    """
    return _plan_regular_times(**locals()).decode(decoder)


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
    """Choose the times of frames; ``choose_starts`` returns the starts of clips for the sampling range (start, end)."""
    length = check_clip_length(num_frames_per_clip)
    check_policy(policy)
    if seconds_between_frames is not None:
        seconds_between_frames = check_positive_seconds("seconds_between_frames", seconds_between_frames)
    check_range(sampling_range_start, sampling_range_end)
    check_num_frames(decoder, "get_frames_played_at")
    step = _usual_step(decoder) if seconds_between_frames is None else seconds_between_frames
    clock = clock_of(decoder, (seconds_between_clip_starts or 0.0) if length == 1 else step)
    step = clock.exact_step(step)
    stream_begin = _from_metadata(decoder, "begin_stream_seconds", "stream begin")
    stream_end = clock.exact_end(_from_metadata(decoder, "end_stream_seconds", "stream end"))
    start, end = _range_of_times(
        sampling_range_start,
        sampling_range_end,
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


def _usual_step(decoder: VideoDecoder) -> float:
    average_fps = _from_metadata(decoder, "average_fps", "average fps")
    if not 0 < average_fps < math.inf:
        raise InvalidArgumentError(
            f"The average fps of the video metadata ({average_fps}) must be > 0 and finite. "
            "Pass seconds_between_frames, or use an index-based sampler."
        )
    return clock_of(decoder).usual_step(1 / average_fps)


def _range_of_times(
    start: float | None, end: float | None, *, stream_begin: float, stream_end: float, duration: float
) -> tuple[float, float]:
    """Return the range [start, end) of times at which a clip can start.

    ``duration`` is the time from the first to the last frame of a clip. If ``end`` is None, the range has all times at
    which a whole clip fits into the stream.

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
    # A video that is shorter than a clip still has one possible start. The policy completes the clip.
    end = max(stream_end - duration, math.nextafter(stream_begin, math.inf))
    check_not_empty(
        start,
        end,
        f", the default: a clip takes {duration} s and the stream ends at {stream_end} s. Start earlier, ask for "
        "fewer or closer frames, or pass sampling_range_end, so that the policy completes the clips",
    )
    return start, end


def _times_of_clip(
    start: float, length: int, step: float, *, stream_end: float, is_whole: bool, tolerance: float
) -> list[float]:
    """Return the times of a clip's frames that are earlier than the end of the stream by more than ``tolerance``.

    If ``is_whole``, the clip was placed so that all of its times are before the end of the stream. Even then, a
    rounding error can move a time to the end. Such a time is moved back, as in this example::

        start             1/3 + 1.6 = 1.9333333333333333
        sampling range                1.9333333333333336 = 1/3 + 2 - 0.4
        last frame  start + 4 * 0.1 = 2.3333333333333335 = 1/3 + 2, the end
    """
    times = [start + i * step for i in range(length)]
    if is_whole:
        return [min(seconds, last_before(stream_end)) for seconds in times]
    return times[:1] + [seconds for seconds in times[1:] if seconds < stream_end - tolerance]


# Start times of clips of frames and of audio


def random_starts(start: float, end: float, *, num_clips: int) -> list[float]:
    # Draw on the CPU, so that clips do not depend on torch's default device.
    fractions = torch.rand(num_clips, dtype=torch.float64, device="cpu", generator=sampling_generator())
    # In a narrow range far from 0, rounding can make the sum equal to the end.
    return (fractions * (end - start) + start).clamp(max=last_before(end)).tolist()


def regular_starts(start: float, end: float, *, seconds_between_clip_starts: float) -> list[float]:
    """Return evenly spaced starts of clips, in [start, end).

    >>> regular_starts(0.5, 6.0, seconds_between_clip_starts=2.0)
    [0.5, 2.5, 4.5]
    >>> regular_starts(0.0, 5e-324, seconds_between_clip_starts=2.5)
    [0.0]
    """
    check_frames(
        (end - start) / seconds_between_clip_starts, f"seconds_between_clip_starts ({seconds_between_clip_starts})"
    )
    starts = torch.arange(start, end, seconds_between_clip_starts, dtype=torch.float64, device="cpu")
    # Because of rounding, arange may include its end, or return nothing if the range has a single start.
    return starts[starts < end].tolist() or [start]


def last_before(seconds: float) -> float:
    return math.nextafter(seconds, -math.inf)


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


def check_range(start: Any, end: Any) -> None:
    """Check the arguments of a sampling range, as far as this is possible without the times of a stream."""
    if start is not None:
        start = check_seconds("sampling_range_start", start)
    if end is not None:
        end = check_seconds("sampling_range_end", end)
    if start is not None and end is not None:
        check_not_empty(start, end)


def check_range_start(start: Any, *, stream_begin: float, stream_end: float) -> float:
    if start is None:
        return stream_begin
    first = float(start)
    # All comparisons are written so that NaN makes them false.
    if not first >= stream_begin:
        raise InvalidArgumentError(f"sampling_range_start ({first}) must be at least {stream_begin}, the stream start.")
    if not first < stream_end:
        raise InvalidArgumentError(f"sampling_range_start ({first}) must be smaller than {stream_end}, the stream end.")
    return first


def check_range_end(end: Any, *, stream_begin: float, stream_end: float) -> float:
    seconds = float(end)
    if not seconds >= stream_begin:
        raise InvalidArgumentError(f"sampling_range_end ({seconds}) must be at least {stream_begin}, the stream start.")
    return min(seconds, stream_end)


# Clocks of decoders


def clock_of(decoder: Any, *steps: float) -> FrameClock:
    """Return the `FrameClock` of ``decoder``, adjusted to time ``steps`` if there are any; see its `for_steps`."""
    access = access_to(decoder)
    clock: FrameClock = _NO_CLOCK if access is None else access.clock
    return clock.for_steps(*steps) if steps else clock


def tolerance_of(decoder: Any) -> float:
    """Return how close to the end of the stream a time counts as the end: 0 for decoders of other libraries."""
    return 0.0 if access_to(decoder) is None else TIME_TOLERANCE


def frames_on_grid(decoder: Any, seconds: list[float], clock: FrameClock) -> FrameBatch:
    """Decode the frames that are shown at times that ``clock`` computed."""
    batch: FrameBatch = (
        decoder.get_frames_played_at(seconds)
        if clock.step is None
        else access_to(decoder).frames_played_at(np.array(seconds), is_grid=True)
    )
    return batch
