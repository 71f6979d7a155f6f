"""Sample a limited number of frames of a whole video (`sample_frames`), as input of video-language models."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._engine.common.checks import finite_number, shown, whole_number
from .._engine.common.limits import check_frames
from ..decoders._access import access_to
from ..errors import InvalidArgumentError, SourceTypeError
from ..frames import FrameBatch
from ._index_clips import check_num_frames
from ._random import planned_by

if TYPE_CHECKING:
    from ..decoders import VideoDecoder

# Containers round times to milliseconds, so a duration can be too short by this many seconds.
_ROUNDING_SECONDS = 0.001


class _FramesPlan(NamedTuple):
    indices: list[int]

    def first_position(self, decoder: Any) -> float:
        return float(getattr(decoder, "first_frame", 0))

    def decode(self, decoder: VideoDecoder) -> FrameBatch:
        return decoder.get_frames_at(self.indices)


def _plan(
    decoder: VideoDecoder,
    *,
    max_frames: int | None = None,
    fps: float | None = None,
    max_tokens: int | None = None,
    tokens_per_frame: float | Callable[[int, int], float] | None = None,
    multiple_of: int = 1,
) -> _FramesPlan:
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
    return _FramesPlan(_even_indices(decoder, total, count))


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


def _frame_size(decoder: VideoDecoder) -> tuple[int, int]:
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


def _even_indices(decoder: VideoDecoder, total: int, count: int) -> list[int]:
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


@planned_by(_plan)
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
            repeated.

    Returns:
        A `FrameBatch`. ``data`` has the shape (N, C, H, W), or (N, H, W, C) if this is the decoder's dimension order.
        ``pts_seconds`` has the times of the frames, float64 (N,).

    Raises:
        InvalidArgumentError: if an argument is invalid, no limit is given, only one of ``max_tokens`` and
            ``tokens_per_frame`` is given, ``max_frames`` or ``max_tokens`` is too small for ``multiple_of`` frames, or
            the video has no frames.
        SourceTypeError: if ``decoder`` is not a decoder, for example a path.
        DecodeError: if a frame cannot be decoded.

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
    plan = _plan(
        decoder,
        max_frames=max_frames,
        fps=fps,
        max_tokens=max_tokens,
        tokens_per_frame=tokens_per_frame,
        multiple_of=multiple_of,
    )
    return plan.decode(decoder)
