"""Sample frames by index: clips at random or regular frames, or evenly spaced frames within a budget.

Each sampler first chooses the indices of all frames, and then decodes them with one request. If a clip reaches beyond
the end of the video, the argument ``policy`` determines how it is completed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, cycle, islice, repeat
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import numpy as np
import torch

from .._engine.common.checks import check_frames, finite_number, shown, whole_number
from .._engine.video.exact import frames_of_clips
from ..decoders._access import access_to
from ..errors import DecodeError, InvalidArgumentError, SourceTypeError
from ..frames import FrameBatch
from ._random import planned_by, sampling_generator

if TYPE_CHECKING:
    from ..decoders import VideoDecoder

Policy: TypeAlias = Literal["repeat_last", "wrap", "error"]
Position = TypeVar("Position", int, float)

# Containers round times to milliseconds, so a duration can be too short by this many seconds.
_ROUNDING_SECONDS = 0.001


class IndexPlan(NamedTuple):
    """The indices of the frames to decode, one clip after another."""

    indices: list[int]
    num_clips: int
    length: int

    def first_position(self, decoder: Any) -> float:
        # Indices of a decoder of a segment count from the start of the segment, positions from the start of the file.
        return float(min(self.indices) + getattr(decoder, "first_frame", 0))

    def decode(self, decoder: VideoDecoder) -> FrameBatch:
        with frames_of_clips(self.length):
            frames = decoder.get_frames_at(self.indices)
        return as_clips(frames, self.num_clips, self.length)


def _plan_by_index(
    choose_starts: Callable[[int, int, int], list[int]],
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    sampling_range_start: int = 0,
    sampling_range_end: int | None = None,
    policy: Policy = "repeat_last",
) -> IndexPlan:
    """Choose the frames of clips.

    ``choose_starts`` returns the first frame of each clip, for the sampling range (start, end) and the number of clips.
    """
    num_clips = check_num_clips(num_clips)
    length = check_clip_length(num_frames_per_clip)
    step = check_positive_integer("num_indices_between_frames", num_indices_between_frames)
    check_policy(policy)
    start = check_integer("sampling_range_start", sampling_range_start)
    end = None if sampling_range_end is None else check_integer("sampling_range_end", sampling_range_end)
    num_frames = check_num_frames(decoder, "get_frames_at")
    span = step * (length - 1) + 1
    start, end = _range_of_indices(start, end, num_frames=num_frames, span=span)
    starts = choose_starts(start, end, num_clips)
    check_frames(num_clips * length, f"{num_clips} clips of {length} frames")
    clips = (range(first, min(first + span, num_frames), step) for first in starts)
    indices = [index for clip in clips for index in complete(clip, length, policy)]
    return IndexPlan(indices, num_clips, length)


def _range_of_indices(start: int, end: int | None, *, num_frames: int, span: int) -> tuple[int, int]:
    """Return the range [start, end) of indices at which a clip can start.

    ``span`` is the number of frames from the first to the last frame of a clip, both included. If ``end`` is None, the
    range has all frames at which a whole clip fits into the video.

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
        # A video that is shorter than a clip still has one possible start. The policy completes the clip.
        stop = max(num_frames - span + 1, 1)
        if first >= stop:
            raise InvalidArgumentError(
                f"We determined that sampling_range_end should be {stop}, but it is smaller than or equal to "
                f"sampling_range_start ({first}). A clip spans {span} of the {num_frames} frames. Start earlier, "
                "ask for fewer or closer frames, or pass sampling_range_end, so that the policy completes the clips."
            )
    else:
        stop = min(end + num_frames if end < 0 else end, num_frames)
        check_not_empty(first, stop)
    return first, stop


def _random_indices(start: int, end: int, num_clips: int) -> list[int]:
    # Draw on the CPU, so that clips do not depend on torch's default device.
    return torch.randint(start, end, (num_clips,), device="cpu", generator=sampling_generator()).tolist()


def _regular_indices(start: int, end: int, num_clips: int) -> list[int]:
    """Return ``num_clips`` evenly spaced indices in [start, end), including ``start`` and ``end - 1``.

    >>> _regular_indices(0, 6, 3)
    [0, 2, 5]
    """
    return torch.linspace(start, end - 1, num_clips, dtype=torch.int64, device="cpu").tolist()


@planned_by(partial(_plan_by_index, _random_indices))
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

    The starts are drawn independently and uniformly from the sampling range, so two clips can have the same start. For
    example, if a clip has 3 frames and takes every 2nd frame of the video, it spans 5 frames. In a video of 10 frames,
    it starts in [0, 6) by default::

        frame              0  1  2  3  4  5  6  7  8  9
        sampling range    [                 )
        earliest clip      x     x     x
        latest clip                       x     x     x

    The random numbers come from torch's global generator for the CPU, so ``torch.manual_seed`` makes the clips
    reproducible. The generator is called once for all starts.

    Args:
        decoder: The decoder of the video.
        num_clips: Number of clips, at least 1.
        num_frames_per_clip: Number of frames of a clip, at least 1.
        num_indices_between_frames: Distance from one frame of a clip to the next, in frames of the video, at least 1. 2
            takes every second frame.
        sampling_range_start: Index of the first frame at which a clip can start. A negative value counts from the end
            of the video.
        sampling_range_end: A clip must start before the frame with this index. A negative value counts from the end of
            the video, and a value beyond the end means the end. By default, it is chosen so that all clips fit into the
            video; if the video is shorter than a clip, all clips start at its first frame.
        policy: How to complete a clip that reaches beyond the end of the video: ``"repeat_last"`` repeats the clip's
            last frame before the end, ``"wrap"`` repeats the clip from its first frame, and ``"error"`` raises an
            `InvalidArgumentError`.

    Returns:
        A `FrameBatch`. ``data`` has the shape (num_clips, num_frames_per_clip, C, H, W), or (..., H, W, C) if this is
        the decoder's dimension order. The times have the shape (num_clips, num_frames_per_clip).

    Raises:
        InvalidArgumentError: if an argument is invalid, the sampling range is empty, the video has no frames, or a clip
            reaches beyond the end and ``policy`` is ``"error"``. This error is also a ValueError.
        SourceTypeError: if ``decoder`` is not a decoder, for example a path.
        DecodeError: if a frame cannot be decoded, or a decoder with ``on_error="skip"`` left it out.

    Example:
        >>> from mediatensor.samplers import clips_at_random_indices
        >>> from mediatensor.decoders import VideoDecoder
        >>> clips = clips_at_random_indices(
        ...     VideoDecoder("video.mp4"), num_clips=4, num_frames_per_clip=16, num_indices_between_frames=2
        ... )
        >>> clips.data.shape
        torch.Size([4, 16, 3, 360, 640])
    """
    return _plan_by_index(_random_indices, **locals()).decode(decoder)


@planned_by(partial(_plan_by_index, _regular_indices))
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

    The first clip starts at the first frame of the sampling range, the last clip at the last frame of the range. The
    starts in between are rounded to whole frames. For example, if a clip has 3 frames and takes every 2nd frame of the
    video, 3 clips of a video of 10 frames are placed as follows by default::

        frame              0  1  2  3  4  5  6  7  8  9
        sampling range    [                 )
        clip 0             x     x     x
        clip 1                   x     x     x
        clip 2                            x     x     x

    If there are more clips than frames in the sampling range, some clips are equal.

    Args:
        decoder: The decoder of the video.
        num_clips: Number of clips, at least 1. A single clip starts at the start of the range.
        num_frames_per_clip, num_indices_between_frames, sampling_range_start, sampling_range_end, policy: Frames of a
            clip, range of its start, and handling of clips that reach beyond the end, as in `clips_at_random_indices`.

    Returns:
        A `FrameBatch`. ``data`` has the shape (num_clips, num_frames_per_clip, C, H, W), or (..., H, W, C) if this is
        the decoder's dimension order. The times have the shape (num_clips, num_frames_per_clip).

    Raises:
        InvalidArgumentError, SourceTypeError, DecodeError: See `clips_at_random_indices`.

    Example:
        >>> from mediatensor.samplers import clips_at_regular_indices
        >>> from mediatensor.decoders import VideoDecoder
        >>> clips = clips_at_regular_indices(
        ...     VideoDecoder("video.mp4"), num_clips=10, num_frames_per_clip=8
        ... )
        >>> clips.data.shape
        torch.Size([10, 8, 3, 360, 640])
    """
    return _plan_by_index(_regular_indices, **locals()).decode(decoder)


# Completion of clips that reach beyond the end, and the shape of the result, for all samplers of frames


def _missing_frames(batch: FrameBatch, wanted: str, num_wanted: int, need: str) -> DecodeError:
    missing = [frame for frame in batch.replaced if frame.used_index is None]
    reasons = "".join(f" Frame {frame.index}: {frame.reason}" for frame in missing[:1])
    return DecodeError(
        f"{num_wanted - len(batch)} of the {num_wanted} {wanted} could not be decoded and were left out, "
        f"but {need}. Make the decoder with on_error='nearest', which replaces them by the nearest frame, or with "
        f"on_error='raise'.{reasons}"
    )


def as_own_batch(batch: Any) -> FrameBatch:
    """Return the batch as a `FrameBatch` of this library, even if a decoder of another library returned it."""
    is_own = isinstance(batch, FrameBatch)
    return batch if is_own else FrameBatch(batch.data, batch.pts_seconds, batch.duration_seconds)


def as_clips(batch: FrameBatch, num_clips: int, num_frames_per_clip: int) -> FrameBatch:
    """Reshape ``batch``, the frames of one clip after another, to (num_clips, num_frames_per_clip, ...).

    Raises:
        DecodeError: if frames are missing because a decoder with ``on_error="skip"`` left them out.
    """
    batch = as_own_batch(batch)
    num_wanted = num_clips * num_frames_per_clip
    if len(batch) != num_wanted:
        raise _missing_frames(batch, "frames of the clips", num_wanted, "a clip needs all its frames")
    shape = (num_clips, num_frames_per_clip)
    return FrameBatch(
        batch.data.reshape(*shape, *batch.data.shape[1:]),
        batch.pts_seconds.reshape(shape),
        batch.duration_seconds.reshape(shape),
        # Positions in ``replaced`` refer to the flattened batch, so they stay valid when a dimension is split.
        replaced=batch.replaced,
        is_damaged=batch.is_damaged.reshape(shape),
    )


def check_policy(policy: object) -> None:
    if not (isinstance(policy, str) and policy in get_args(Policy)):
        supported = ", ".join(map(repr, get_args(Policy)))
        raise InvalidArgumentError(f"Invalid policy ({policy}). Supported values are {supported}.")


def complete(positions: Sequence[Position], length: int, policy: Policy) -> list[Position]:
    """Complete the frame positions of a clip to ``length``, according to ``policy``.

    ``positions`` are the indices or times of those frames of the clip that exist in the video.

    >>> complete([4, 6, 8], 5, "repeat_last"), complete([4, 6, 8], 5, "wrap")
    ([4, 6, 8, 8, 8], [4, 6, 8, 4, 6])
    """
    if policy == "error" and len(positions) < length:
        raise InvalidArgumentError(
            "You set the 'error' policy, and the sampler tried to decode a frame that is beyond the number of frames "
            "in the video. Try to leave sampling_range_end to its default value? "
            f"The clip that starts at {positions[0]} has {len(positions)} of its {length} frames; "
            "ask for fewer or closer frames, or use policy='repeat_last' or 'wrap'."
        )
    following = cycle(positions) if policy == "wrap" else chain(positions, repeat(positions[-1]))
    return list(islice(following, length))


# Checks of arguments


def check_integer(name: str, value: Any) -> int:
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


def check_decoder(decoder: object, *methods: str, made_by: str) -> None:
    """Raise `SourceTypeError`, which names the class ``made_by``, unless ``decoder`` has the ``methods``."""
    if not all(hasattr(decoder, method) for method in methods):
        raise SourceTypeError(
            f"decoder must be {'an' if made_by[0] in 'AEIOU' else 'a'} {made_by}, or have its methods "
            f"(got {shown(decoder)}). Make a decoder with mediatensor.decoders.{made_by}(source)."
        )


def check_num_frames(decoder: VideoDecoder, method: str) -> int:
    check_decoder(decoder, "__len__", method, made_by="VideoDecoder")
    num_frames = len(decoder)
    if num_frames < 1:
        raise InvalidArgumentError(f"Decoder must have at least one frame, found {num_frames} frames.")
    return num_frames


def check_not_empty(start: float, end: float, reason: str = "") -> None:
    if not start < end:
        raise InvalidArgumentError(
            f"sampling_range_start ({start}) must be smaller than sampling_range_end ({end}){reason}."
        )


class _BudgetPlan(NamedTuple):
    indices: list[int]
    unit: int  # the number of frames must be a multiple of this

    def first_position(self, decoder: Any) -> float:
        return float(getattr(decoder, "first_frame", 0))

    def decode(self, decoder: VideoDecoder) -> FrameBatch:
        batch = as_own_batch(decoder.get_frames_at(self.indices))
        num_frames = len(batch) // self.unit * self.unit
        if num_frames == 0:
            raise _missing_frames(batch, "frames", len(self.indices), f"at least {self.unit} must be left")
        if num_frames == len(batch):
            return batch
        # The decoder has left out damaged frames, so drop the surplus. Reports of frames that were left out stay.
        left_out = {report.position for report in batch.replaced if report.used_index is None}
        positions = [position for position in range(len(self.indices)) if position not in left_out]
        last = positions[num_frames - 1]
        reports = [report for report in batch.replaced if report.used_index is None or report.position <= last]
        return replace(batch[:num_frames], replaced=tuple(reports))


def _plan_within_budget(
    decoder: VideoDecoder,
    max_frames: int | None = None,
    fps: float | None = None,
    max_tokens: int | None = None,
    tokens_per_frame: float | Callable[[int, int], float] | None = None,
    multiple_of: int = 1,
) -> _BudgetPlan:
    if max_frames is None and fps is None and max_tokens is None:
        raise InvalidArgumentError(
            "sample_frames needs at least one limit: max_frames, fps or max_tokens (got none). To get all frames, call "
            "decoder.get_all_frames()."
        )
    if (max_tokens is None) != (tokens_per_frame is None):
        raise InvalidArgumentError(
            "max_tokens and tokens_per_frame must be given together "
            f"(got max_tokens={shown(max_tokens)}, tokens_per_frame={shown(tokens_per_frame)})."
        )
    unit = whole_number("multiple_of", multiple_of, at_least=1)
    check_frames(unit, f"multiple_of ({unit})")
    rate = None if fps is None else _positive_number("fps", fps)
    budget: float = math.inf
    if max_frames is not None:
        budget = whole_number("max_frames", max_frames, at_least=1, or_none=True)
        if budget < unit:
            raise InvalidArgumentError(f"max_frames ({budget}) must be at least multiple_of ({unit}).")
    if max_tokens is not None and not callable(tokens_per_frame):
        budget = min(budget, _count_within_tokens(max_tokens, tokens_per_frame, unit))
    total = check_num_frames(decoder, "get_frames_at")
    if max_tokens is not None and callable(tokens_per_frame):
        tokens = tokens_per_frame(*_frame_size(decoder))
        budget = min(budget, _count_within_tokens(max_tokens, tokens, unit))
    count = total if rate is None else min(total, _count_at_rate(decoder, rate))
    # A short video or a low rate can give fewer frames than one multiple. Then frames are repeated, within the budgets.
    count = int(min(max(unit, count), budget))
    count = count // unit * unit
    check_frames(count, f"sample_frames of a video of {total} frames")
    return _BudgetPlan(_even_indices(decoder, total, count), unit)


def _positive_number(name: str, value: Any) -> float:
    number = finite_number(name, value)
    if not number > 0:
        raise InvalidArgumentError(f"{name} must be positive (got {shown(value)}).")
    return number


def _count_at_rate(decoder: VideoDecoder, rate: float) -> int:
    metadata = decoder.metadata
    begin, end = metadata.begin_stream_seconds, metadata.end_stream_seconds
    if begin is None or end is None:
        raise InvalidArgumentError(
            "fps needs the duration of the video, which its metadata does not state. Pass max_frames instead."
        )
    return math.floor(min((end - begin + _ROUNDING_SECONDS) * rate, 2.0**53))


def _frame_size(decoder: Any) -> tuple[int, int]:
    access = access_to(decoder)
    if access is None:
        raise SourceTypeError(
            "A function as tokens_per_frame needs the frame size, which only a mediatensor.decoders.VideoDecoder "
            f"has (got {shown(decoder)}). Pass the number of tokens instead."
        )
    size: tuple[int, int] = access.frame_size()
    return size


def _count_within_tokens(max_tokens: Any, tokens_per_frame: Any, unit: int) -> int:
    budget = whole_number("max_tokens", max_tokens, at_least=1, or_none=True)
    tokens = _positive_number("tokens_per_frame", tokens_per_frame)
    if budget < unit * tokens:
        raise InvalidArgumentError(
            f"max_tokens ({shown(max_tokens)}) must be at least {unit * tokens:g}, the tokens of {unit} frame"
            f"{'s' if unit > 1 else ''}. Raise it, or make the frames smaller, for example with "
            "transforms=[Resize(max_pixels=...)]."
        )
    return math.floor(min(budget / tokens, 2.0**53))


def _even_indices(decoder: Any, total: int, count: int) -> list[int]:
    """Return the frames shown at ``count`` evenly spaced times, from the first frame's start to the last frame's."""
    if count == total:
        return list(range(total))
    access = access_to(decoder)
    if access is None:  # the frame times are unknown, so assume a constant rate
        return [k * (total - 1) // max(1, count - 1) for k in range(count)]
    first = getattr(decoder, "first_frame", 0)
    clock = access.clock
    starts = clock.starts[first : first + total]
    times = np.linspace(starts[0], starts[-1], count)
    indices: list[int] = np.clip(clock.played_at(times) - first, 0, total - 1).tolist()
    return indices


@planned_by(_plan_within_budget)
def sample_frames(
    decoder: VideoDecoder,
    *,
    max_frames: int | None = None,
    fps: float | None = None,
    max_tokens: int | None = None,
    tokens_per_frame: float | Callable[[int, int], float] | None = None,
    multiple_of: int = 1,
) -> FrameBatch:
    """Decode evenly spaced frames of a whole video, limited by frame rate, number of frames, or number of tokens.

    Give at least one limit; the lowest limit applies. If the limits allow all frames of the video, each frame is
    returned once. For example, a rate above the frame rate of the video, or ``max_frames`` above its number of frames,
    does not repeat frames. If only one frame is returned, it is the first frame of the video.

    If the limits allow fewer frames, times are evenly spaced from the start of the first frame to the start of the last
    frame. The frames that are shown at these times are returned. At a constant frame rate, frame k of n has the index
    ``k * (len(decoder) - 1) // (n - 1)``. If the frame rate varies, a frame that is shown for long can be repeated.

    Args:
        decoder: The decoder of the video.
        max_frames: Largest number of frames, at least 1.
        fps: Largest number of frames per second of video. The number of frames is at most ``duration * fps``, rounded
            down.
        max_tokens: Largest number of tokens that the model uses for all frames. The number of frames is at most
            ``max_tokens / tokens_per_frame``, rounded down.
        tokens_per_frame: Number of tokens that the model uses for one frame, which can be a fraction. Or a function
            that returns this number for a height and a width, which are the frame size after the decoder's transforms.
            In Qwen2.5-VL, one token covers 28 x 28 pixels (2 x 2 patches of 14 x 14) of two frames, so the number is
            ``height * width / (28 * 28) / 2``.
        multiple_of: The number of frames is rounded down to a multiple of this number, but is at least this number. Use
            2 for Qwen2.5-VL, which joins frames in pairs. If the video has fewer frames than this number, frames are
            repeated. If a decoder with ``on_error="skip"`` leaves frames out, the number is rounded down again.

    Returns:
        A `FrameBatch`. ``data`` has the shape (N, C, H, W), or (N, H, W, C) if this is the decoder's dimension order.
        ``pts_seconds`` has the times of the frames, float64 (N,).

    Raises:
        InvalidArgumentError: if an argument is invalid, no limit is given, only one of ``max_tokens`` and
            ``tokens_per_frame`` is given, ``max_frames`` or ``max_tokens`` is too small for ``multiple_of`` frames, or
            the video has no frames.
        SourceTypeError: if ``decoder`` is not a decoder, for example a path.
        DecodeError: if a frame cannot be decoded, or a decoder with ``on_error="skip"`` left out so many frames that
            fewer than ``multiple_of`` remain.

    Example:
        >>> from mediatensor.decoders import VideoDecoder
        >>> from mediatensor.samplers import sample_frames
        >>> decoder = VideoDecoder("video.mp4")
        >>> frames = sample_frames(decoder, fps=0.5, max_frames=768)
        >>> frames.data.shape, [round(seconds, 2) for seconds in frames.pts_seconds.tolist()]
        (torch.Size([5, 3, 360, 640]), [0.0, 2.47, 4.97, 7.47, 9.97])
        >>> len(sample_frames(decoder, max_tokens=4096, tokens_per_frame=256))
        16
    """
    return _plan_within_budget(decoder, max_frames, fps, max_tokens, tokens_per_frame, multiple_of).decode(decoder)
