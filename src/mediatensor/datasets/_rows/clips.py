"""Clips on their way from a sampler to a sample: default samplers, the dimension of clips, transforms, frame rates.

The recipes of video, of sound, and of both share these functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Never, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ..._engine.common import stages
from ...decoders import AudioDecoder, AudioVideoDecoder, VideoDecoder
from ...errors import InvalidArgumentError, MediaTensorError
from ...frames import AudioSamples, AudioSamplesBatch, FrameBatch
from ...samplers import (
    audio_clips_at_random_timestamps,
    audio_clips_at_regular_timestamps,
    check_clip_length,
    check_positive_integer,
    check_positive_seconds,
    clips_at_random_indices,
    clips_at_regular_indices,
    clips_at_regular_timestamps,
    clips_at_scenes,
)
from ...transforms import CenterCrop, LogMelSpectrogram, Normalize, Pad, Resize, ToFloat
from .segments import AudioSegment, AudioVideoSegment, VideoSegment

__all__ = [
    "Sound",
    "apply_frames_transform",
    "check_is_one",
    "check_rows_differ",
    "effective_fps",
    "first_request",
    "frames_sampler",
    "ready_for_rows",
    "sound_fields",
    "sound_sampler",
    "without_clip_dimension",
]

Sound = AudioSamples | AudioSamplesBatch
V = TypeVar("V", bound=VideoDecoder | AudioVideoDecoder)


def frames_sampler(num_frames_per_clip: int, num_indices_between_frames: int) -> Callable[[Any], FrameBatch]:
    """The default sampler of frames.

    Raises:
        InvalidArgumentError: if a number is not accepted. It is raised now, because the error policy of a dataset
            would blame the file later.
    """
    return partial(
        clips_at_random_indices,
        num_frames_per_clip=check_clip_length(num_frames_per_clip),
        num_indices_between_frames=check_positive_integer("num_indices_between_frames", num_indices_between_frames),
    )


def sound_sampler(seconds_per_clip: float) -> Callable[[Any], AudioSamplesBatch]:
    """The default sampler of sound.

    Raises:
        InvalidArgumentError: if the length is not accepted.
    """
    seconds = check_positive_seconds("seconds_per_clip", seconds_per_clip)
    return partial(audio_clips_at_random_timestamps, seconds_per_clip=seconds)


_REGULAR_SAMPLERS: tuple[Any, ...] = (
    clips_at_regular_indices,
    clips_at_regular_timestamps,
    audio_clips_at_regular_timestamps,
    VideoDecoder.get_all_frames,
    AudioDecoder.get_all_samples,
)
_TRANSFORMS_WITHOUT_DRAWS = (CenterCrop, LogMelSpectrogram, Normalize, Pad, Resize, ToFloat)


def check_rows_differ(rows_per_file: Any, sampler: Callable[..., Any], *transforms: Any) -> None:
    """Raise if all rows of a file would be equal, as far as the sampler and the transforms are known.

    Args:
        rows_per_file: How many rows a file has.
        sampler: The sampler of the dataset.
        transforms: Its transforms, of frames, of audio, and of decoders; any of them may be ``None``.

    Raises:
        InvalidArgumentError: if neither the sampler nor a transform draws anything.
    """
    several = isinstance(rows_per_file, int) and rows_per_file > 1
    if not several or _may_draw(transforms):
        return
    function_called: Any = sampler
    keywords: dict[str, Any] = {}
    while isinstance(function_called, partial):
        function_called, keywords = function_called.func, {**function_called.keywords, **keywords}
    is_regular = function_called in _REGULAR_SAMPLERS
    if is_regular or (function_called is clips_at_scenes and keywords.get("placement", "middle") != "random"):
        raise InvalidArgumentError(
            f"rows_per_file={rows_per_file} would give {rows_per_file} equal rows of each file: "
            f"{function_called.__name__} takes the same clips every time, and no transform is random. Give a random "
            "sampler such as clips_at_random_timestamps, or a random transform; or rows_per_file=1, with several clips "
            "in a row (num_clips=... of the sampler, and keep_clip_dimension=True)."
        )


def _may_draw(transform: Any) -> bool:
    """Whether a transform, or one of several, may be random: those of other libraries and of users may."""
    if transform is None or isinstance(transform, _TRANSFORMS_WITHOUT_DRAWS):
        return False
    if isinstance(transform, list | tuple | nn.Sequential):
        return any(map(_may_draw, transform))
    return True


def ready_for_rows(opened: V, decoder_options: Mapping[str, Any]) -> V:
    """A decoder that was just opened, with its index, and with an error policy that leaves damage to the dataset.

    Making the index after decoding would open the file once more.

    Args:
        opened: The decoder.
        decoder_options: As the user gave them. Damage is an error of the row, unless they have ``on_error``.

    Raises:
        MediaTensorError: if there is no frame; the decoder is then closed.
    """
    video = opened.video if isinstance(opened, AudioVideoDecoder) else opened
    try:
        video._make_index()
    except BaseException:
        opened.close()
        raise
    video._prepare_for_rows(raises_damage="on_error" not in decoder_options)
    return opened


def without_clip_dimension(clips: FrameBatch, *, keep: bool) -> FrameBatch:
    """The one clip of a sampler (T, C, H, W); with ``keep``, its clips as they are.

    Raises:
        InvalidArgumentError: if the sampler gave something else, or several clips without ``keep``.
    """
    if not isinstance(clips, FrameBatch):
        raise InvalidArgumentError(f"The sampler must return a FrameBatch (got {type(clips).__name__}).")
    if keep or clips.data.ndim != 5:
        return clips
    check_is_one(len(clips))
    return clips[0]


def check_is_one(num_clips: int) -> None:
    """Raise unless the sampler gave one clip."""
    if num_clips != 1:
        raise InvalidArgumentError(
            f"The sampler gave {num_clips} clips: let it give one, or set keep_clip_dimension=True."
        )


def apply_frames_transform(transform: Callable[[Any], Any] | None, frames: FrameBatch) -> FrameBatch:
    """The result of a user's transform of frames; a tensor that it returns replaces the data."""
    if transform is None:
        return frames
    with stages.TRANSFORM:
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


def effective_fps(frames: FrameBatch) -> float:
    """Frames per second of a clip as it was sampled; repeated frames at its end do not count.

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


def sound_fields(
    transform: Callable[[Any], Any] | None, sound: Sound, num_valid_samples: int | None = None
) -> dict[str, Any]:
    """The fields of a `Sample` that hold sound, once a user's transform was applied.

    Args:
        transform: Gives sound, a tensor of the shape of its data, or a tensor of another shape, which are features.
        sound: Clips, or one clip.
        num_valid_samples: The valid samples of one clip; ``None`` for all.

    Raises:
        InvalidArgumentError: if the transform gave something else.
    """
    result: Any = sound
    if transform is not None:
        with stages.TRANSFORM:
            result = transform(sound)
    if isinstance(result, Tensor):
        if result.shape != sound.data.shape:
            return {"features": result, "extra": _sound_columns(sound, num_valid_samples)}
        result = type(sound)(**{**vars(sound), "data": result})
    if not isinstance(result, type(sound)):
        raise InvalidArgumentError(
            f"The transform must return {type(sound).__name__} or a tensor (got {type(result).__name__})."
        )
    return {"audio": result, "num_valid_samples": _valid_after(sound, num_valid_samples, result)}


def _sound_columns(sound: Sound, num_valid_samples: int | None) -> dict[str, Any]:
    """Times and valid samples of the sound, to keep with the features that replace it."""
    if isinstance(sound, AudioSamplesBatch):
        num_valid: Any = sound.num_valid_samples
    else:
        num_valid = sound.data.shape[1] if num_valid_samples is None else num_valid_samples
    return {
        "audio_pts_seconds": sound.pts_seconds,
        "audio_duration_seconds": sound.duration_seconds,
        "num_valid_samples": num_valid,
    }


def _valid_after(before: Sound, num_valid_samples: int | None, after: Sound) -> int | None:
    """How many samples are valid behind a transform: those of the same seconds, if it changed rate or length."""
    if num_valid_samples is None or isinstance(after, AudioSamplesBatch):
        return None
    num_valid = math.ceil(num_valid_samples * after.sample_rate / before.sample_rate)
    return min(num_valid, after.data.shape[1])


AnyDecoder = VideoDecoder | AudioDecoder | AudioVideoDecoder | VideoSegment | AudioSegment | AudioVideoSegment


class _FirstRequest(Exception):
    """Carries the first request of a sampler out of it."""

    def __init__(self, position: float) -> None:
        self.position = position


class _VideoListener:
    """A video decoder that does not decode: it raises with the first frame that is requested."""

    def __init__(self, decoder: VideoDecoder | VideoSegment) -> None:
        self._decoder = decoder
        self.metadata = decoder.metadata

    def __len__(self) -> int:
        return len(self._decoder)

    def get_frames_at(self, indices: Any) -> Never:
        # Segments of one file are read in the order in which they lie in it.
        raise _FirstRequest(int(np.min(np.asarray(indices))) + getattr(self._decoder, "first_frame", 0))

    def get_frames_played_at(self, seconds: Any) -> Never:
        raise _FirstRequest(int(self._decoder._clock.played_at(np.array([float(np.min(np.asarray(seconds)))]))[0]))

    def get_frames_played_in_range(self, start_seconds: float, *others: Any, **options: Any) -> Never:
        self.get_frames_played_at([start_seconds])


class _AudioListener:
    """An audio decoder that does not decode: it raises with the first time that is requested."""

    def __init__(self, decoder: AudioDecoder | AudioSegment) -> None:
        self._decoder = decoder
        self.metadata = decoder.metadata

    def get_all_samples(self) -> Never:
        raise _FirstRequest(0.0)

    def get_samples_played_in_range(self, start_seconds: float = 0.0, stop_seconds: float | None = None) -> Never:
        raise _FirstRequest(start_seconds)

    def get_samples_played_in_ranges(self, ranges: Sequence[tuple[float, float | None]]) -> list[AudioSamples]:
        if all(start == stop for start, stop in ranges):  # asks for the rate and the channels alone
            return self._decoder.get_samples_played_in_ranges(ranges)
        raise _FirstRequest(min(start for start, _ in ranges))


class _AudioVideoListener:
    """A decoder of pictures and sound that does not decode: it raises with the begin of the range that is requested."""

    def __init__(self, decoder: AudioVideoDecoder | AudioVideoSegment) -> None:
        self.video = _VideoListener(decoder.video)
        self.audio = _AudioListener(decoder.audio)

    def get_played_in_range(self, start_seconds: float | None = None, *others: Any, **options: Any) -> Never:
        raise _FirstRequest(start_seconds or 0.0)

    def get_played_in_ranges(self, ranges: Sequence[tuple[float | None, float | None]], fps: Any = None) -> Never:
        raise _FirstRequest(min(start or 0.0 for start, _ in ranges))


def first_request(decoder: AnyDecoder, sampler: Callable[[Any], Any]) -> float:
    """The index or time of the first frame or sample that a sampler requests; 0 if that cannot be told.

    Samplers make one request for everything, so they need not run to the end. A user's own function may use its decoder
    in other ways; then the rows are read in any order.
    """
    try:
        sampler(_listener(decoder))
    except _FirstRequest as request:
        return request.position
    except (AttributeError, TypeError, MediaTensorError):
        return 0
    return 0


def _listener(decoder: AnyDecoder) -> Any:
    if isinstance(decoder, VideoDecoder | VideoSegment):
        return _VideoListener(decoder)
    if isinstance(decoder, AudioDecoder | AudioSegment):
        return _AudioListener(decoder)
    return _AudioVideoListener(decoder)
