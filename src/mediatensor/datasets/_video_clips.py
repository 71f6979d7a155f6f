"""`VideoClips`: clips of videos."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Never, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._common import stages
from .._common.checks import function, options_dict
from ..decoders import AudioDecoder, AudioVideoDecoder, VideoDecoder
from ..errors import InvalidArgumentError, MediaTensorError
from ..frames import AudioSamples, AudioSamplesBatch, FrameBatch
from ..samplers import audio_clips_at_random_timestamps, clips_at_random_indices
from ..samplers._common import check_clip_length, check_positive_integer, check_positive_seconds
from ._rows.dataset import MediaDataset, check_dataset_options
from ._rows.recipe import Recipe
from ._rows.samples import Sample
from ._rows.segments import AudioSegment, AudioVideoSegment, VideoSegment, segment_of
from ._sources.items import Item
from ._sources.sources import as_items

__all__ = [
    "VideoClips",
    "VideoRecipe",
    "apply_transform",
    "effective_fps",
    "first_wanted",
    "frames_sampler",
    "indexed_first",
    "sound_fields",
    "sound_sampler",
    "without_clip_dimension",
]

Sound = AudioSamples | AudioSamplesBatch
V = TypeVar("V", VideoDecoder, AudioVideoDecoder)


def frames_sampler(num_frames_per_clip: int, num_indices_between_frames: int) -> Callable[[Any], FrameBatch]:
    """What takes a clip of frames, if users say no more than this of it.

    Raises:
        InvalidArgumentError: if a number is not accepted: here, where no error policy takes it for a file's fault.
    """
    return partial(
        clips_at_random_indices,
        num_frames_per_clip=check_clip_length(num_frames_per_clip),
        num_indices_between_frames=check_positive_integer("num_indices_between_frames", num_indices_between_frames),
    )


def sound_sampler(seconds_per_clip: float) -> Callable[[Any], AudioSamplesBatch]:
    """What takes a clip of sound, if users say no more than this of it.

    Raises:
        InvalidArgumentError: if the length is not accepted.
    """
    seconds = check_positive_seconds("seconds_per_clip", seconds_per_clip)
    return partial(audio_clips_at_random_timestamps, seconds_per_clip=seconds)


def indexed_first(opened: V) -> V:
    """A decoder whose index is made of the file as it was opened: after decoding it would be opened once more.

    Raises:
        MediaTensorError: if there is no frame; the decoder is then closed.
    """
    try:
        (opened.video if isinstance(opened, AudioVideoDecoder) else opened)._make_index()
    except BaseException:
        opened.close()
        raise
    return opened


def without_clip_dimension(clips: FrameBatch, *, keep: bool) -> FrameBatch:
    """The one clip of a sampler (T, C, H, W); with ``keep``, its clips as they are.

    Raises:
        InvalidArgumentError: if the sampler gave something else, or several clips that nobody asked to keep.
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


def apply_transform(transform: Callable[[Any], Any] | None, frames: FrameBatch) -> FrameBatch:
    """What a user's transform makes of frames; a tensor that it gives takes the place of the data."""
    if transform is None:
        return frames
    with stages.TRANSFORM:
        result = transform(frames)
    if isinstance(result, Tensor):
        try:
            return FrameBatch(result, frames.pts_seconds, frames.duration_seconds, replaced=frames.replaced)
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
        num_valid_samples: Of one clip; ``None`` for all of them.

    Raises:
        InvalidArgumentError: if the transform gave something else.
    """
    result: Any = sound
    if transform is not None:
        with stages.TRANSFORM:
            result = transform(sound)
    if isinstance(result, Tensor):
        if result.shape != sound.data.shape:
            return {"features": result, "extra": _facts(sound, num_valid_samples)}
        result = type(sound)(**{**vars(sound), "data": result})
    if not isinstance(result, type(sound)):
        raise InvalidArgumentError(
            f"The transform must return {type(sound).__name__} or a tensor (got {type(result).__name__})."
        )
    return {"audio": result, "num_valid_samples": _valid_after(sound, num_valid_samples, result)}


def _facts(sound: Sound, num_valid_samples: int | None) -> dict[str, Any]:
    """What is known of sound, for the features that take its place."""
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


class _Wanted(Exception):
    """Carries out of a sampler what it asked its decoder for."""

    def __init__(self, position: float) -> None:
        self.position = position


class _Listener:
    """A decoder that does not decode: asked for frames, it says which they are."""

    def __init__(self, decoder: VideoDecoder | VideoSegment) -> None:
        self._decoder = decoder
        self.metadata = decoder.metadata

    def __len__(self) -> int:
        return len(self._decoder)

    def get_frames_at(self, indices: Any) -> Never:
        # Of segments of one file, the one that lies before the others is read first.
        raise _Wanted(int(np.min(np.asarray(indices))) + getattr(self._decoder, "first_frame", 0))

    def get_frames_played_at(self, seconds: Any) -> Never:
        first = torch.tensor([float(np.min(np.asarray(seconds)))], dtype=torch.float64)
        frames = self._decoder._frames_shown_at(first)
        raise _Wanted(0 if frames is None else int(frames))

    def get_frames_played_in_range(self, start_seconds: float, *others: Any, **options: Any) -> Never:
        self.get_frames_played_at([start_seconds])


class _SoundListener:
    """A decoder of sound that does not decode: asked for samples, it says from which time on."""

    def __init__(self, decoder: AudioDecoder | AudioSegment) -> None:
        self._decoder = decoder
        self.metadata = decoder.metadata

    def get_all_samples(self) -> Never:
        raise _Wanted(0.0)

    def get_samples_played_in_range(self, start_seconds: float = 0.0, stop_seconds: float | None = None) -> Never:
        raise _Wanted(start_seconds)

    def get_samples_played_in_ranges(self, ranges: Sequence[tuple[float, float | None]]) -> list[AudioSamples]:
        if all(start == stop for start, stop in ranges):  # asks for the rate and the channels, not for sound
            return self._decoder.get_samples_played_in_ranges(ranges)
        raise _Wanted(min(start for start, _ in ranges))


class _SoundAndPicturesListener:
    """A decoder of both that does not decode: asked for a range, it says where it begins."""

    def __init__(self, decoder: AudioVideoDecoder | AudioVideoSegment) -> None:
        self.video = _Listener(decoder.video)
        self.audio = _SoundListener(decoder.audio)

    def get_played_in_range(self, start_seconds: float | None = None, *others: Any, **options: Any) -> Never:
        raise _Wanted(start_seconds or 0.0)

    def get_played_in_ranges(self, ranges: Sequence[tuple[float | None, float | None]], fps: Any = None) -> Never:
        raise _Wanted(min(start or 0.0 for start, _ in ranges))


def first_wanted(decoder: AnyDecoder, sampler: Callable[[Any], Any]) -> float:
    """Where a sampler is going to ask for frames or samples first, as an index or a time; 0 if that does not show.

    Samplers ask once for all that they want, so they need not be run to the end. A function of the user's own may use
    its decoder in other ways; then the order of reading is any.
    """
    try:
        sampler(_listener(decoder))
    except _Wanted as wanted:
        return wanted.position
    except (AttributeError, TypeError, MediaTensorError):
        return 0
    return 0


def _listener(decoder: AnyDecoder) -> Any:
    if isinstance(decoder, VideoDecoder | VideoSegment):
        return _Listener(decoder)
    if isinstance(decoder, AudioDecoder | AudioSegment):
        return _SoundListener(decoder)
    return _SoundAndPicturesListener(decoder)


class VideoClips(MediaDataset):
    """Clips of videos, one sample a row.

    Args:
        source: The videos: paths, a folder, a manifest, rows of a Hugging Face dataset; see `as_items`.
        sampler: Takes a `VideoDecoder` and gives a `FrameBatch` of clips: one of `mediatensor.samplers` with its
            arguments bound by ``functools.partial``, or a function of your own. By default
            `clips_at_random_indices` with ``num_frames_per_clip``.
        num_frames_per_clip: For the default sampler.
        num_indices_between_frames: For the default sampler.
        keep_clip_dimension: ``False``: the sampler gives one clip, and a sample has frames (T, C, H, W). ``True``:
            it may give several, and a sample has (clips, T, C, H, W).
        transform: Takes the `FrameBatch` of a sample and gives another, or a tensor in place of its data; random ones
            draw anew for each row.
        label: Gives the label of an `Item`; by default its own.
        rows_per_file: How many rows each file has in an epoch; each draws its own clip.
        decoder_options: What `VideoDecoder` takes: ``transforms`` (random ones draw anew for each row),
            ``stream_index``, ``dimension_order``, ``output_dtype``, ``seek_mode``, ``device`` ... By default files are
            decoded on the CPU, whatever torch's default device is, and `ToDevice` moves batches. With
            ``{"device": "cuda"}`` they are decoded for a GPU, and samples and batches are there: in the process of the
            training (``num_workers=0``), or in workers that are spawned (``multiprocessing_context="spawn"``).
        dataset_options: What `MediaDataset` takes: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        InvalidArgumentError: if there are no files, or an argument is not among the accepted ones.

    Example:
        >>> from functools import partial
        >>> from mediatensor.datasets import VideoClips
        >>> from mediatensor.samplers import clips_at_random_timestamps
        >>> from mediatensor.transforms import RandomResizedCrop
        >>> dataset = VideoClips(
        ...     "videos",  # a folder of files, or of one folder for each class
        ...     partial(clips_at_random_timestamps, num_frames_per_clip=8, seconds_between_frames=0.1),
        ...     decoder_options={"transforms": [RandomResizedCrop((112, 112))]},
        ... )
        >>> dataset[0].frames.data.shape, len(dataset)
        (torch.Size([8, 3, 112, 112]), 3)
    """

    def __init__(
        self,
        source: Any,
        sampler: Callable[[Any], FrameBatch] | None = None,
        *,
        num_frames_per_clip: int = 16,
        num_indices_between_frames: int = 1,
        keep_clip_dimension: bool = False,
        transform: Callable[[FrameBatch], FrameBatch | Tensor] | None = None,
        label: Callable[[Item], Any] | None = None,
        rows_per_file: int = 1,
        decoder_options: Mapping[str, Any] | None = None,
        **dataset_options: Any,
    ) -> None:
        check_dataset_options(self, dataset_options)
        if sampler is None:
            sampler = frames_sampler(num_frames_per_clip, num_indices_between_frames)
        options = options_dict("decoder_options", decoder_options, VideoDecoder)
        recipe = VideoRecipe(sampler, keep_clip_dimension, transform, options)
        items = as_items(source, kind="video", label=label)
        super().__init__(items, recipe, rows_per_file=rows_per_file, **dataset_options)


@dataclass(frozen=True)
class VideoRecipe(Recipe):
    """How a clip is made of a video; see `VideoClips`."""

    sampler: Callable[[Any], FrameBatch]
    keep_clip_dimension: bool = False
    transform: Callable[[FrameBatch], FrameBatch | Tensor] | None = None
    decoder_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        function("sampler", self.sampler)
        function("transform", self.transform)

    def open(self, item: Item) -> VideoDecoder:
        return indexed_first(VideoDecoder(item.source, **{**self.decoder_options, "transforms": None}))

    def read(self, opened: VideoDecoder, item: Item, part: int) -> Sample:
        with stages.DECODE:
            opened._transform_with(self.decoder_options.get("transforms"))
            clips = without_clip_dimension(self.sampler(segment_of(opened, item)), keep=self.keep_clip_dimension)
        return Sample(
            frames=apply_transform(self.transform, clips),
            frame_indices=opened._frames_shown_at(clips.pts_seconds),
            effective_fps=effective_fps(clips),
        )

    def position(self, opened: VideoDecoder, item: Item, part: int) -> float:
        opened._transform_with(self.decoder_options.get("transforms"))
        return first_wanted(segment_of(opened, item), self.sampler)
