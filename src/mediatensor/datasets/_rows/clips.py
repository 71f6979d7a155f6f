"""Process clips from a sampler to a sample, for recipes of video, of audio, and of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..._engine.common import stages
from ...decoders import AudioDecoder, AudioVideoDecoder, VideoDecoder
from ...decoders._access import access_to
from ...errors import InvalidArgumentError
from ...frames import AudioSamples, AudioSamplesBatch, FrameBatch
from ...samplers import (
    audio_clips_at_random_timestamps,
    audio_clips_at_regular_timestamps,
    clips_at_random_indices,
    clips_at_regular_indices,
    clips_at_regular_timestamps,
    clips_at_scenes,
)
from ...samplers._common import (
    check_clip_length,
    check_positive_integer,
    check_positive_seconds,
    first_position,
    unwrap_partial,
)
from ...samplers._random import global_random, random_for
from ...transforms import CenterCrop, LogMelSpectrogram, Normalize, Pad, Resize, ToFloat

Sound = AudioSamples | AudioSamplesBatch
V = TypeVar("V", bound=VideoDecoder | AudioVideoDecoder)

_WHOLE_FILE_SAMPLERS: tuple[Any, ...] = (VideoDecoder.get_all_frames, AudioDecoder.get_all_samples)
_REGULAR_SAMPLERS: tuple[Any, ...] = (
    clips_at_regular_indices,
    clips_at_regular_timestamps,
    audio_clips_at_regular_timestamps,
    *_WHOLE_FILE_SAMPLERS,
)
_TRANSFORMS_WITHOUT_DRAWS = (CenterCrop, LogMelSpectrogram, Normalize, Pad, Resize, ToFloat)


# Samplers


def frames_sampler(num_frames_per_clip: int, num_indices_between_frames: int) -> Callable[[Any], FrameBatch]:
    """Return the default sampler of frames.

    Arguments are checked immediately, because later the dataset's error policy would blame the file.
    """
    return partial(
        clips_at_random_indices,
        num_frames_per_clip=check_clip_length(num_frames_per_clip),
        num_indices_between_frames=check_positive_integer("num_indices_between_frames", num_indices_between_frames),
    )


def sound_sampler(seconds_per_clip: float) -> Callable[[Any], AudioSamplesBatch]:
    """Return the default sampler of audio; its argument is checked immediately."""
    seconds = check_positive_seconds("seconds_per_clip", seconds_per_clip)
    return partial(audio_clips_at_random_timestamps, seconds_per_clip=seconds)


def check_rows_differ(rows_per_file: Any, sampler: Callable[..., Any], *transforms: Any) -> None:
    """Raise if known samplers and transforms would make all rows of a file equal."""
    if not (isinstance(rows_per_file, int) and rows_per_file > 1) or _may_draw(transforms):
        return
    function, _, options = unwrap_partial(sampler)
    is_regular = function in _REGULAR_SAMPLERS
    if is_regular or (function is clips_at_scenes and options.get("placement", "middle") != "random"):
        raise InvalidArgumentError(
            f"rows_per_file={rows_per_file} would give {rows_per_file} equal rows of each file: "
            f"{function.__name__} takes the same clips every time, and no transform is random. Give a random "
            "sampler such as clips_at_random_timestamps, or a random transform; or rows_per_file=1, with several clips "
            "in a row (num_clips=... of the sampler, and keep_clip_dimension=True)."
        )


def call_sampler(sampler: Callable[[Any], Any], decoder: Any) -> Any:
    """Return the clips of a sampler. A user's function draws from the global generators."""
    function, _, _ = unwrap_partial(sampler)
    with nullcontext() if function in _WHOLE_FILE_SAMPLERS else random_for(function):
        return sampler(decoder)


def position_of(sampler: Callable[[Any], Any], decoder: Any, part: int) -> float:
    """Return the position in the file at which a sampler will start to read; if unknown, ``part``."""
    with random_for(unwrap_partial(sampler)[0]):
        position = first_position(sampler, decoder)
    return float(part) if position is None else position


# Decoders


def ready_for_rows(opened: V, decoder_options: Mapping[str, Any]) -> V:
    """Give a newly opened decoder its index, and an error policy that reports damage to the dataset.

    Damage is an error of the row, unless the user's options have ``on_error``.

    Raises:
        MediaTensorError: if the video has no frames; the decoder is then closed.
    """
    video = opened.video if isinstance(opened, AudioVideoDecoder) else opened
    try:
        # Making the index after decoding would open the file a second time.
        access_to(video).prepare_for_rows(raises_damage="on_error" not in decoder_options)
    except BaseException:
        opened.close()
        raise
    return opened


def redraw_transforms(video: VideoDecoder, decoder_options: Mapping[str, Any]) -> None:
    """Draw the parameters of a decoder's transforms for a row."""
    transforms = decoder_options.get("transforms")
    with random_of_transform(transforms):
        access_to(video).set_transforms(transforms)


# Transforms


def random_of_transform(transform: Any) -> AbstractContextManager[None]:
    """Return the context for calling a transform; it seeds the global generators if the transform may be random."""
    return global_random() if _may_draw(transform) else nullcontext()


def _may_draw(transform: Any) -> bool:
    """Return whether a transform or any of its parts may be random; foreign transforms always may."""
    if transform is None or type(transform) in _TRANSFORMS_WITHOUT_DRAWS:
        return False
    if type(transform) in (list, tuple, nn.Sequential):
        return any(map(_may_draw, transform))
    return True


def apply_frames_transform(transform: Callable[[Any], Any] | None, frames: FrameBatch) -> FrameBatch:
    """Return frames after a user's transform; a tensor from the transform replaces their data."""
    if transform is None:
        return frames
    with stages.TRANSFORM, random_of_transform(transform):
        result = transform(frames)
    if isinstance(result, Tensor):
        try:
            return replace(frames, data=result)
        except ValueError as error:
            raise InvalidArgumentError(
                f"The transform gave a tensor that does not go with the times of the frames: {error} "
                "Let it return a FrameBatch with other times, or keep the leading dimensions."
            ) from None
    if not isinstance(result, FrameBatch):
        raise InvalidArgumentError(f"The transform must return a FrameBatch or a tensor (got {type(result).__name__}).")
    return result


def sound_fields(
    transform: Callable[[Any], Any] | None, sound: Sound, num_valid_samples: int | None = None
) -> dict[str, Any]:
    """Return the fields of a `Sample` that hold audio, after a user's transform.

    Args:
        transform: Returns audio, a tensor of the same shape, or features: a tensor of another shape.
        sound: The audio of one or several clips.
        num_valid_samples: Number of valid samples of one clip; ``None`` if all are valid.
    """
    result: Any = sound
    if transform is not None:
        with stages.TRANSFORM, random_of_transform(transform):
            result = transform(sound)
    if isinstance(result, Tensor):
        if result.shape != sound.data.shape:
            return {"features": result, "extra": _sound_columns(sound, num_valid_samples)}
        result = type(sound)(**{**vars(sound), "data": result})
    if not isinstance(result, type(sound)):
        raise InvalidArgumentError(
            f"The transform must return {type(sound).__name__} or a tensor (got {type(result).__name__})."
        )
    return {"audio": result, "num_valid_samples": _num_valid_after(sound, num_valid_samples, result)}


def _sound_columns(sound: Sound, num_valid_samples: int | None) -> dict[str, Any]:
    if isinstance(sound, AudioSamplesBatch):
        num_valid: Any = sound.num_valid_samples
    else:
        num_valid = sound.data.shape[1] if num_valid_samples is None else num_valid_samples
    return {
        "audio_pts_seconds": sound.pts_seconds,
        "audio_duration_seconds": sound.duration_seconds,
        "num_valid_samples": num_valid,
    }


def _num_valid_after(before: Sound, num_valid_samples: int | None, after: Sound) -> int | None:
    """Return the number of valid samples after a transform that may have changed the sample rate or length."""
    if num_valid_samples is None or isinstance(after, AudioSamplesBatch):
        return None
    num_valid = math.ceil(num_valid_samples * after.sample_rate / before.sample_rate)
    return min(num_valid, after.data.shape[1])


# The shape of clips


def without_clip_dimension(clips: Any, *, keep: bool) -> FrameBatch:
    """Return the only clip of a sampler, (T, C, H, W); with ``keep``, return its clips unchanged."""
    if not isinstance(clips, FrameBatch):
        raise InvalidArgumentError(f"The sampler must return a FrameBatch (got {type(clips).__name__}).")
    if keep or clips.data.ndim != 5:
        return clips
    check_is_one(len(clips))
    return clips[0]


def check_is_one(num_clips: int) -> None:
    if num_clips != 1:
        raise InvalidArgumentError(
            f"The sampler gave {num_clips} clips: let it give one, or set keep_clip_dimension=True."
        )


def effective_fps(frames: FrameBatch) -> float:
    """Return the frames per second of a sampled clip, without repeated frames at its end.

    >>> import torch
    >>> effective_fps(FrameBatch(torch.zeros(4, 3, 1, 1), torch.tensor([0.0, 0.5, 1.0, 1.0]), torch.full((4,), 0.1)))
    2.0
    """
    if not frames.pts_seconds.numel():
        return float("nan")
    steps = torch.diff(frames.pts_seconds.reshape(-1, frames.pts_seconds.shape[-1])[0])
    steps = steps[steps > 0]
    step = float(steps.mean()) if len(steps) else float(frames.duration_seconds.flatten()[0])
    return 1 / step if step > 0 else float("nan")
