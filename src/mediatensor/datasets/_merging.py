"""Frames, sound and images of several samples in one tensor each, with or without padding."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..frames import AudioSamples, AudioSamplesBatch, FrameBatch, ReplacedFrame
from ._samples import Sample
from ._transport import side_by_side

__all__ = ["Wanted", "audio_together", "features_together", "frames_together", "images_together", "indices_together"]


#: For each dimension that may be filled up (counted from the last, -1): to how many places, ``None`` for as many as the
#: largest tensor has, and to a multiple of what.
_Sizes = Mapping[int, tuple[int | None, int]]


class Wanted(NamedTuple):
    """To what samples are filled up; ``None`` for the largest of them."""

    num_frames: int | None = None
    num_samples: int | None = None
    height: int | None = None
    width: int | None = None
    multiple_of: int = 1

    def of_pixels(self) -> _Sizes:
        return {-2: (self.height, self.multiple_of), -1: (self.width, self.multiple_of)}

    def of_frames(self) -> _Sizes:
        return {-4: (self.num_frames, 1), **self.of_pixels()}


_STACK_ADVICE = {
    "frames": "Bring all to one size with a Resize among the transforms, and let the sampler give as many frames of "
    "each; or collate with `pad` or `ragged`.",
    "audio": "Let the sampler give clips of one length, and set num_channels; or collate with `pad` or `ragged`.",
    "features": "Let the sampler give clips of one length; or collate with `pad` or `ragged`.",
    "image": "Bring all to one size with a Resize; or collate with `pad` or `ragged`.",
}
_PAD_ADVICE = "`pad` fills up time, height and width of channels-first data; collate with `ragged` if more differs."


def frames_together(samples: Sequence[Sample], wanted: Wanted | None = None) -> FrameBatch | None:
    """The frames of all samples, filled up if something is ``wanted``; ``None`` if they have none.

    Raises:
        InvalidArgumentError: if shapes or dtypes do not go together.
    """
    frames = [sample.frames for sample in samples if sample.frames is not None]
    if not frames:
        return None
    shape = _common_shape("frames", samples, [one.data for one in frames], wanted.of_frames() if wanted else None)
    return FrameBatch(
        side_by_side([one.data for one in frames], shape),
        side_by_side([one.pts_seconds for one in frames], shape[:-3], fill=float("nan")),
        side_by_side([one.duration_seconds for one in frames], shape[:-3], fill=0),
        replaced=_reports(frames, shape[:-3]),
    )


def images_together(samples: Sequence[Sample], wanted: Wanted | None = None) -> Tensor | None:
    """The images of all samples, filled up if something is ``wanted``; ``None`` if they have none.

    Raises:
        InvalidArgumentError: if shapes or dtypes do not go together.
    """
    images = [sample.image for sample in samples if sample.image is not None]
    if not images:
        return None
    return side_by_side(images, _common_shape("image", samples, images, wanted.of_pixels() if wanted else None))


def audio_together(
    samples: Sequence[Sample], wanted: Wanted | None = None
) -> AudioSamplesBatch | list[AudioSamplesBatch] | None:
    """The sound of all samples, filled up if something is ``wanted``; ``None`` if they have none.

    That of samples with a dimension of clips stays a list.

    Raises:
        InvalidArgumentError: if shapes, dtypes or sample rates do not go together.
    """
    several = [sample.audio for sample in samples if isinstance(sample.audio, AudioSamplesBatch)]
    if several:
        return several
    sounds = [sample.audio for sample in samples if isinstance(sample.audio, AudioSamples)]
    if not sounds:
        return None
    rate = sounds[0].sample_rate
    for sample, sound in zip(samples, sounds, strict=True):
        if sound.sample_rate != rate:
            raise InvalidArgumentError(
                f"Sound of one batch must have one sample rate, but {samples[0].source!r} has {rate} Hz and "
                f"{sample.source!r} {sound.sample_rate} Hz: set sample_rate."
            )
    data = [sound.data for sound in sounds]
    shape = _common_shape("audio", samples, data, {-1: (wanted.num_samples, 1)} if wanted else None)
    own = [sample.num_valid_samples for sample in samples]
    return AudioSamplesBatch(
        side_by_side(data, shape),
        torch.tensor([sound.pts_seconds for sound in sounds], dtype=torch.float64),
        torch.tensor([sound.duration_seconds for sound in sounds], dtype=torch.float64),
        rate,
        torch.tensor([one.shape[-1] if num is None else num for num, one in zip(own, data, strict=True)]),
    )


def features_together(samples: Sequence[Sample], wanted: Wanted | None = None) -> Tensor | None:
    """The features of all samples, filled up at their last dimension if something is ``wanted``; ``None`` if none.

    Raises:
        InvalidArgumentError: if shapes or dtypes do not go together.
    """
    features = [sample.features for sample in samples if sample.features is not None]
    if not features:
        return None
    return side_by_side(features, _common_shape("features", samples, features, {-1: (None, 1)} if wanted else None))


def indices_together(samples: Sequence[Sample], frames: FrameBatch | None = None) -> Tensor | list[Tensor] | None:
    """The frame indices of all samples, filled up to ``frames`` if given; ``None`` if one is not known."""
    indices = [sample.frame_indices for sample in samples if sample.frame_indices is not None]
    if len(indices) < len(samples):
        return None
    shape = indices[0].shape if frames is None else frames.pts_seconds.shape[1:]
    fits = all(
        len(one.shape) == len(shape) and all(own <= size for own, size in zip(one.shape, shape, strict=True))
        for one in indices
    )
    if not fits or (frames is None and any(one.shape != shape for one in indices)):
        return indices
    return side_by_side(indices, shape, fill=-1)


def _common_shape(
    kind: str, samples: Sequence[Sample], tensors: Sequence[Tensor], sizes: _Sizes | None
) -> tuple[int, ...]:
    """The shape that the tensors of the samples are to have; without ``sizes`` they must have one."""
    first = tensors[0]
    fixed = [dimension for dimension in range(-first.ndim, 0) if sizes is None or dimension not in sizes]
    for sample, tensor in zip(samples, tensors, strict=True):
        is_alike = tensor.ndim == first.ndim and all(tensor.shape[i] == first.shape[i] for i in fixed)
        if not is_alike or tensor.dtype != first.dtype:
            raise InvalidArgumentError(
                f"The {kind} of {samples[0].source!r} has shape {_shape_and_dtype(first)}, that of {sample.source!r} "
                f"{_shape_and_dtype(tensor)}. {_STACK_ADVICE[kind] if sizes is None else _PAD_ADVICE}"
            )
    shape = list(first.shape)
    for dimension, (size, multiple_of) in (sizes or {}).items():
        if -dimension > first.ndim:
            continue
        number, largest = max(enumerate(tensors), key=lambda entry: entry[1].shape[dimension])
        if size is not None and largest.shape[dimension] > size:
            raise InvalidArgumentError(
                f"The {kind} of {samples[number].source!r} has shape {_shape_and_dtype(largest)}, and is to be filled "
                f"up to {size} in dimension {dimension}: ask for more, or let the sampler and the transforms give less."
            )
        shape[dimension] = math.ceil((size or largest.shape[dimension]) / multiple_of) * multiple_of
    return tuple(shape)


def _shape_and_dtype(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} ({str(tensor.dtype).removeprefix('torch.')})"


def _reports(frames: Sequence[FrameBatch], shape: tuple[int, ...]) -> tuple[ReplacedFrame, ...]:
    """What was replaced in each, with positions in the flattened batch; ``shape`` is that of the times of a sample."""
    return tuple(
        dataclasses.replace(report, position=_moved(report.position, number, one.pts_seconds.shape, shape))
        for number, one in enumerate(frames)
        for report in one.replaced
    )


def _moved(position: int, number: int, old_shape: tuple[int, ...], new_shape: tuple[int, ...]) -> int:
    """A position in the flattened times of a sample, in those of a batch in which it has a number.

    >>> _moved(3, 1, (2, 2), (2, 5))  # the second frame of the second clip, behind the ten frames of another sample
    16
    """
    clips = math.prod(new_shape[:-1])
    old_length, new_length = (old_shape[-1], new_shape[-1]) if new_shape else (1, 1)
    # A frame that was left out may stand behind the last one.
    clip = min(position // max(1, old_length), clips - 1)
    return (number * clips + clip) * new_length + position - clip * old_length
