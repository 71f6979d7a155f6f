"""Clips by frame index: `clips_at_random_indices` and `clips_at_regular_indices`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch

from .._engine.common.limits import check_frames, frames_of_clips
from ..errors import InvalidArgumentError
from ..frames import FrameBatch
from ._common import (
    as_clips,
    check_clip_length,
    check_integer,
    check_num_clips,
    check_num_frames,
    check_positive_integer,
)
from ._policies import Policy, check_policy, complete

if TYPE_CHECKING:
    from ..decoders import VideoDecoder


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
    """Decodes clips that start at random frames.

    The starts are uniform over the sampling range, independent of each other, and may repeat. Clips of 3 frames,
    every 2nd, of a video of 10 frames span 5 frames, so that they start in [0, 6) by default::

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
        num_indices_between_frames: Distance between two frames of a clip in frames, at least 1.
        sampling_range_start: First frame at which a clip may start; negative counts from the end of the video.
        sampling_range_end: Frame before which a clip must start; negative counts from the end, and a value beyond
            the end means the end. By default clips start where all their frames exist, or at the first frame if
            the video is shorter than a clip.
        policy: What to do with a clip that runs past the end of the video: ``"repeat_last"`` repeats the last
            frame that exists, ``"wrap"`` goes back to the clip's first frame, ``"error"`` raises.

    Returns:
        Frames of shape (num_clips, num_frames_per_clip, C, H, W), or (..., H, W, C) as the decoder's dimension order
        is, with times of shape (num_clips, num_frames_per_clip).

    Raises:
        InvalidArgumentError: if an argument is not as described, the sampling range is empty, the video has no
            frames, or a clip runs past the end and ``policy`` is ``"error"``. It is a ValueError.
        SourceTypeError: if ``decoder`` is no decoder, but a path, for example.
        DecodeError: if a frame cannot be decoded; with a decoder that skips such frames, too.

    Example:
        >>> from mediatensor.samplers import clips_at_random_indices
        >>> from mediatensor.decoders import VideoDecoder
        >>> clips = clips_at_random_indices(
        ...     VideoDecoder("video.mp4"), num_clips=4, num_frames_per_clip=16, num_indices_between_frames=2
        ... )
        >>> clips.data.shape
        torch.Size([4, 16, 3, 360, 640])
    """
    num_clips = check_num_clips(num_clips)
    return _sample(
        decoder,
        partial(_random_starts, num_clips=num_clips),
        num_frames_per_clip=num_frames_per_clip,
        num_indices_between_frames=num_indices_between_frames,
        sampling_range_start=sampling_range_start,
        sampling_range_end=sampling_range_end,
        policy=policy,
    )


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
    """Decodes clips that start at evenly spaced frames.

    The first clip starts at the first frame of the sampling range and the last clip at its last frame; starts
    between them are rounded to whole frames. 3 clips of 3 frames, every 2nd, of a video of 10 frames, by default::

        frame              0  1  2  3  4  5  6  7  8  9
        sampling range    [                 )
        clip 0             x     x     x
        clip 1                   x     x     x
        clip 2                            x     x     x

    A range of fewer frames than ``num_clips`` gives some clips more than once.

    Args:
        decoder: The video.
        num_clips: Number of clips, at least 1; a single one starts at the start of the range.
        num_frames_per_clip: Number of frames of a clip, at least 1.
        num_indices_between_frames: Distance between two frames of a clip in frames, at least 1.
        sampling_range_start: First frame at which a clip may start; negative counts from the end of the video.
        sampling_range_end: Frame before which a clip must start; negative counts from the end, and a value beyond
            the end means the end. By default clips start where all their frames exist, or at the first frame if
            the video is shorter than a clip.
        policy: What to do with a clip that runs past the end of the video: ``"repeat_last"`` repeats the last
            frame that exists, ``"wrap"`` goes back to the clip's first frame, ``"error"`` raises.

    Returns:
        Frames of shape (num_clips, num_frames_per_clip, C, H, W), or (..., H, W, C) as the decoder's dimension order
        is, with times of shape (num_clips, num_frames_per_clip).

    Raises:
        InvalidArgumentError: if an argument is not as described, the sampling range is empty, the video has no
            frames, or a clip runs past the end and ``policy`` is ``"error"``. It is a ValueError.
        SourceTypeError: if ``decoder`` is no decoder, but a path, for example.
        DecodeError: if a frame cannot be decoded; with a decoder that skips such frames, too.

    Example:
        >>> from mediatensor.samplers import clips_at_regular_indices
        >>> from mediatensor.decoders import VideoDecoder
        >>> clips = clips_at_regular_indices(
        ...     VideoDecoder("video.mp4"), num_clips=10, num_frames_per_clip=8
        ... )
        >>> clips.data.shape
        torch.Size([10, 8, 3, 360, 640])
    """
    num_clips = check_num_clips(num_clips)
    return _sample(
        decoder,
        partial(_regular_starts, num_clips=num_clips),
        num_frames_per_clip=num_frames_per_clip,
        num_indices_between_frames=num_indices_between_frames,
        sampling_range_start=sampling_range_start,
        sampling_range_end=sampling_range_end,
        policy=policy,
    )


def _sample(
    decoder: VideoDecoder,
    choose_starts: Callable[[int, int], list[int]],
    *,
    num_frames_per_clip: int,
    num_indices_between_frames: int,
    sampling_range_start: int,
    sampling_range_end: int | None,
    policy: Policy,
) -> FrameBatch:
    """Decodes the clips at the starts that ``choose_starts`` gives for the bounds of the sampling range."""
    length = check_clip_length(num_frames_per_clip)
    step = check_positive_integer("num_indices_between_frames", num_indices_between_frames)
    check_policy(policy)
    num_frames = check_num_frames(decoder, "get_frames_at")
    start, end = _sampling_range(
        check_integer("sampling_range_start", sampling_range_start),
        None if sampling_range_end is None else check_integer("sampling_range_end", sampling_range_end),
        num_frames=num_frames,
        span=_span(length, step),
    )
    starts = choose_starts(start, end)
    check_frames(len(starts) * length, f"{len(starts)} clips of {length} frames")
    indices = [
        index
        for first in starts
        for index in complete(_clip(first, length, step, num_frames=num_frames), length, policy)
    ]
    with frames_of_clips(length):
        frames = decoder.get_frames_at(indices)
    return as_clips(frames, len(starts), length)


def _span(length: int, step: int) -> int:
    """Number of frames from the first to the last one of a clip, both included.

    >>> _span(3, 2)  # x . x . x
    5
    """
    return step * (length - 1) + 1


def _sampling_range(start: int, end: int | None, *, num_frames: int, span: int) -> tuple[int, int]:
    """First frame at which a clip may start, and the one after the last.

    >>> _sampling_range(0, None, num_frames=10, span=5)
    (0, 6)
    >>> _sampling_range(-4, 100, num_frames=10, span=5)
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
        # A video shorter than a clip still has a place to start at; the policy does the rest.
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


def _random_starts(start: int, end: int, *, num_clips: int) -> list[int]:
    """``num_clips`` random frames of [start, end)."""
    # On the CPU whatever torch's default device: the clips do not depend on where frames go.
    return torch.randint(start, end, (num_clips,), device="cpu").tolist()


def _regular_starts(start: int, end: int, *, num_clips: int) -> list[int]:
    """``num_clips`` evenly spaced frames of [start, end), its first and its last one included.

    >>> _regular_starts(0, 6, num_clips=3)
    [0, 2, 5]
    """
    return torch.linspace(start, end - 1, num_clips, dtype=torch.int64, device="cpu").tolist()


def _clip(start: int, length: int, step: int, *, num_frames: int) -> range:
    """The frames of the clip at ``start`` that exist.

    >>> list(_clip(5, 3, 2, num_frames=10)), list(_clip(7, 3, 2, num_frames=10))
    ([5, 7, 9], [7, 9])
    """
    return range(start, min(start + _span(length, step), num_frames), step)
