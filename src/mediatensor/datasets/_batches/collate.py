"""From samples to batches: `stack`, `pad`, `ragged`, `stack_columns`."""

from __future__ import annotations

import dataclasses
import math
import numbers
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from ..._engine.common import stages
from ..._engine.common.checks import items_of, shown, whole_number
from ..._engine.common.devices import tensors_on_cpu
from ..._engine.common.stages import collect_stages
from ...errors import InvalidArgumentError
from ...frames import AudioSamples, AudioSamplesBatch, FrameBatch, ReplacedFrame
from .._rows.samples import Batch, ColumnDict, Sample, Skipped, Timing
from .._rows.transport import side_by_side

__all__ = [
    "PadSizes",
    "audio_together",
    "features_together",
    "frames_together",
    "images_together",
    "indices_together",
    "pad",
    "ragged",
    "stack",
    "stack_columns",
]

#: For each dimension that may be filled up (counted from the last, -1): its size, and the number that the size is a
#: multiple of. The size ``None`` is that of the largest tensor.
_Sizes = Mapping[int, tuple[int | None, int]]


class PadSizes(NamedTuple):
    """The sizes that samples are filled up to; ``None`` is the size of the largest sample."""

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
    "number of frames": "The number of frames differs: give `fps=` to VideoAudioClips, or let the sampler give as many "
    "frames of each; or collate with `pad` or `ragged`.",
    "audio": "Let the sampler give clips of one length, and set num_channels; or collate with `pad` or `ragged`.",
    "features": "Let the sampler give clips of one length; or collate with `pad` or `ragged`.",
    "image": "Bring all to one size with a Resize; or collate with `pad` or `ragged`.",
}
_PAD_ADVICE = "`pad` fills up time, height and width of channels-first data; collate with `ragged` if more differs."


def frames_together(samples: Sequence[Sample], pad_sizes: PadSizes | None = None) -> FrameBatch | None:
    """The frames of all samples, filled up to ``pad_sizes``, if given; ``None`` if they have none.

    Raises:
        InvalidArgumentError: if shapes or dtypes do not go together.
    """
    frames = [sample.frames for sample in samples if sample.frames is not None]
    if not frames:
        return None
    shape = _common_shape("frames", samples, [one.data for one in frames], pad_sizes.of_frames() if pad_sizes else None)
    return FrameBatch(
        side_by_side([one.data for one in frames], shape),
        side_by_side([one.pts_seconds for one in frames], shape[:-3], fill=float("nan")),
        side_by_side([one.duration_seconds for one in frames], shape[:-3], fill=0),
        replaced=_reports(frames, shape[:-3]),
        is_damaged=side_by_side([one.is_damaged for one in frames], shape[:-3], fill=False),
    )


def images_together(samples: Sequence[Sample], pad_sizes: PadSizes | None = None) -> Tensor | None:
    """The images of all samples, filled up to ``pad_sizes``, if given; ``None`` if they have none.

    Raises:
        InvalidArgumentError: if shapes or dtypes do not go together.
    """
    images = [sample.image for sample in samples if sample.image is not None]
    if not images:
        return None
    return side_by_side(images, _common_shape("image", samples, images, pad_sizes.of_pixels() if pad_sizes else None))


def audio_together(
    samples: Sequence[Sample], pad_sizes: PadSizes | None = None
) -> AudioSamplesBatch | list[AudioSamplesBatch] | None:
    """The sound of all samples, filled up to ``pad_sizes``, if given; ``None`` if they have none.

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
    shape = _common_shape("audio", samples, data, {-1: (pad_sizes.num_samples, 1)} if pad_sizes else None)
    own = [sample.num_valid_samples for sample in samples]
    return AudioSamplesBatch(
        side_by_side(data, shape),
        torch.tensor([sound.pts_seconds for sound in sounds], dtype=torch.float64),
        torch.tensor([sound.duration_seconds for sound in sounds], dtype=torch.float64),
        rate,
        torch.tensor([one.shape[-1] if num is None else num for num, one in zip(own, data, strict=True)]),
    )


def features_together(samples: Sequence[Sample], pad_sizes: PadSizes | None = None) -> Tensor | None:
    """The features of all samples, filled up at their last dimension if ``pad_sizes`` are given; ``None`` if none.

    Raises:
        InvalidArgumentError: if shapes or dtypes do not go together.
    """
    features = [sample.features for sample in samples if sample.features is not None]
    if not features:
        return None
    return side_by_side(features, _common_shape("features", samples, features, {-1: (None, 1)} if pad_sizes else None))


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
            subject = "number of frames" if kind == "frames" and _differ_in_number(first, tensor) else kind
            raise InvalidArgumentError(
                f"The {kind} of {samples[0].source!r} has shape {_shape_and_dtype(first)}, that of {sample.source!r} "
                f"{_shape_and_dtype(tensor)}. {_STACK_ADVICE[subject] if sizes is None else _PAD_ADVICE}"
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


def _differ_in_number(one: Tensor, other: Tensor) -> bool:
    """Whether frames (..., T, C, H, W) are alike but for T."""
    ends = [(frames.shape[:-4], frames.shape[-3:], frames.dtype) for frames in (one, other)]
    return min(one.ndim, other.ndim) >= 4 and ends[0] == ends[1]


def _shape_and_dtype(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} ({str(tensor.dtype).removeprefix('torch.')})"


def _reports(frames: Sequence[FrameBatch], shape: tuple[int, ...]) -> tuple[ReplacedFrame, ...]:
    """The replaced frames, with positions in the flattened batch; ``shape`` is that of the times of a sample."""
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


def stack(samples: Sequence[Sample | Skipped]) -> Batch:
    """A batch of samples of one shape: frames (B, T, C, H, W), sound (B, channels, samples), images (B, 3, H, W).

    All collate functions leave out skipped rows, and keep their failures and timings. Labels become
    a tensor (B,) if all are numbers (int64; float64 if one is not whole; truth values become 0 and 1), tensors and
    arrays of one shape and dtype are stacked, anything else stays a list. ``extra`` has a list for each column that one
    of the samples has, with ``None`` where a sample has none. Data keep their order in memory (frames of a decoder are
    channels-last), and in a worker are written straight into shared memory.

    Sound with a dimension of clips stays a list of `AudioSamplesBatch`.

    Args:
        samples: The samples of a dataset; all of them may be `Skipped`.

    Returns:
        The batch, of length 0 if there are no samples.

    Raises:
        InvalidArgumentError: if shapes, dtypes or sample rates differ, or some samples have frames, sound, features
            or an image and others have not.

    Example:
        >>> import torch
        >>> from mediatensor.datasets import Sample, stack
        >>> samples = [Sample(image=torch.zeros(3, 4, 6, dtype=torch.uint8), label=i) for i in range(2)]
        >>> batch = stack(samples)
        >>> batch.images.shape, batch.label
        (torch.Size([2, 3, 4, 6]), tensor([0, 1]))
    """
    return _batch(samples, _stacked)


def ragged(samples: Sequence[Sample | Skipped]) -> Batch:
    """A batch of samples of any shape: ``frames``, ``audio``, ``features``, ``images``, ``frame_indices`` are lists.

    Labels, ``extra`` and the rest are as `stack` has them.

    Args:
        samples: The samples of a dataset; all of them may be `Skipped`.

    Raises:
        InvalidArgumentError: if some samples have frames, sound or an image and others have not.

    Example:
        >>> import torch
        >>> from mediatensor.datasets import Sample, ragged
        >>> batch = ragged([Sample(image=torch.zeros(3, 4, width, dtype=torch.uint8)) for width in (6, 8)])
        >>> [tuple(image.shape) for image in batch.images]
        [(3, 4, 6), (3, 4, 8)]
    """
    return _batch(samples, _as_lists)


def pad(
    samples: Sequence[Sample | Skipped],
    *,
    num_frames: int | None = None,
    num_samples: int | None = None,
    size: tuple[int, int] | None = None,
    multiple_of: int = 1,
) -> Batch:
    """A batch of samples of different lengths and sizes, filled up at their ends: later, below and to the right.

    Frames and images are filled up with black, sound and features (at their last dimension) with 0, times with NaN,
    durations with 0, frame indices with -1. ``num_valid_frames``, ``valid_sizes``, ``num_valid_features`` and
    ``audio.num_valid_samples`` of the batch tell the sizes before padding. The masks ``frame_mask``, ``pixel_mask`` and
    ``sample_mask`` are false where the batch is padded. Labels, ``extra`` and the rest are as `stack` has them.

    Bind the arguments with ``functools.partial``: ``DataLoader(..., collate_fn=partial(pad, num_frames=32))``.

    Args:
        samples: The samples of a dataset; all of them may be `Skipped`. Frames are channels-first.
        num_frames: To how many frames; by default as many as the longest clip has.
        num_samples: To how many samples of sound; likewise.
        size: To which height and width; by default the largest of each.
        multiple_of: Heights and widths are rounded up to a multiple of it.

    Raises:
        InvalidArgumentError: if an argument is not positive, a sample is larger than asked for, or samples differ in
            channels, clips, dtype or sample rate.

    Example:
        >>> import torch
        >>> from mediatensor.datasets import Sample, pad
        >>> samples = [Sample(image=torch.ones(3, 4, width, dtype=torch.uint8)) for width in (6, 7)]
        >>> batch = pad(samples, multiple_of=4)
        >>> batch.images.shape, batch.valid_sizes.tolist()
        (torch.Size([2, 3, 4, 8]), [[4, 6], [4, 7]])
    """
    if size is not None and not (isinstance(size, Sequence) and len(size) == 2):
        raise InvalidArgumentError(
            f"size must be a pair of whole numbers, (height, width), or None (got {shown(size)})."
        )
    height, width = (None, None) if size is None else size
    whole_number("multiple_of", multiple_of, at_least=1)
    for name, value in (
        ("num_frames", num_frames),
        ("num_samples", num_samples),
        ("height of size", height),
        ("width of size", width),
    ):
        if value is not None:
            whole_number(name, value, at_least=1)
    pad_sizes = PadSizes(num_frames, num_samples, height, width, multiple_of)
    return _batch(samples, lambda good: _padded(good, pad_sizes))


def stack_columns(rows: Sequence[ColumnDict | Skipped]) -> ColumnDict:
    """A batch of rows of named columns: tensors (B, ...), and a list of what is no tensor.

    `DataLoader` uses it for datasets whose rows are dicts, such as `LeRobotClips`. Skipped rows are left out; their
    failures are kept.

    Args:
        rows: The rows of a dataset; all of them may be `Skipped`.

    Returns:
        The batch, without columns if there are no rows.

    Raises:
        InvalidArgumentError: if the tensors of a column differ in shape or dtype, or rows have other columns.

    Example:
        >>> import torch
        >>> from mediatensor.datasets import ColumnDict, stack_columns
        >>> stack_columns([ColumnDict({"action": torch.tensor([i]), "task": "Push."}) for i in range(2)])
        {'action': tensor([[0],
                [1]]), 'task': ['Push.', 'Push.']}
    """
    started = time.monotonic()
    rows = items_of("rows", rows, of="ColumnDict")
    for row in rows:
        if not isinstance(row, ColumnDict | Skipped):
            raise InvalidArgumentError(f"rows must be those that LeRobotClips gives (got {shown(row)}).")
    timings = [
        timing
        for row in rows
        for timing in (row.timings if isinstance(row, ColumnDict) else (row.timing,))
        if timing is not None
    ]
    with collect_stages() as stage_seconds, stages.COLLATE, tensors_on_cpu():
        good = [row for row in rows if isinstance(row, ColumnDict)]
        if any(row.keys() != good[0].keys() for row in good):
            raise InvalidArgumentError("The rows of a batch must have the same columns.")
        columns = {name: _column_together(name, [row[name] for row in good]) for name in (good[0] if good else ())}
    failures = tuple(failure for row in rows for failure in row.failures)
    return ColumnDict(columns, failures, _with_own(timings, started, stage_seconds))


def _column_together(name: str, values: list[Any]) -> Tensor | list[Any]:
    if not isinstance(values[0], Tensor):
        return values
    for value in values:
        if not isinstance(value, Tensor) or (value.shape, value.dtype) != (values[0].shape, values[0].dtype):
            raise InvalidArgumentError(
                f"The column {name!r} has values that do not go together: {_described(values[0])} and "
                f"{_described(value)}. Set batch_size=1 where rows differ in length, or collate_fn to a function of "
                "yours."
            )
    return side_by_side(values)


def _described(value: object) -> str:
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def _stacked(samples: Sequence[Sample]) -> dict[str, Any]:
    return {
        "frames": frames_together(samples),
        "audio": audio_together(samples),
        "features": features_together(samples),
        "images": images_together(samples),
        "frame_indices": indices_together(samples),
    }


def _padded(samples: Sequence[Sample], pad_sizes: PadSizes) -> dict[str, Any]:
    frames, images = frames_together(samples, pad_sizes), images_together(samples, pad_sizes)
    features = features_together(samples, pad_sizes)
    own = [sample.image if sample.frames is None else sample.frames.data for sample in samples]
    pixels = images if frames is None else frames.data
    return {
        "frames": frames,
        "audio": audio_together(samples, pad_sizes),
        "features": features,
        "images": images,
        "frame_indices": indices_together(samples, frames),
        "num_valid_frames": _sizes_if_padded(own, pixels, slice(-4, -3)) if frames is not None else None,
        "num_valid_features": _sizes_if_padded([sample.features for sample in samples], features, slice(-1, None)),
        "valid_sizes": _sizes_if_padded(own, pixels, slice(-2, None)),
    }


def _sizes_if_padded(own: Sequence[Tensor | None], together: Tensor | None, dimensions: slice) -> Tensor | None:
    """The sizes of tensors, int64 (B, dimensions) or (B,) of one dimension; ``None`` if none of them was filled up."""
    sizes = [tuple(tensor.shape[dimensions]) for tensor in own if tensor is not None]
    if together is None or all(size == tuple(together.shape[dimensions]) for size in sizes):
        return None
    return torch.tensor(sizes).squeeze(-1)


def _as_lists(samples: Sequence[Sample]) -> dict[str, Any]:
    lists: dict[str, list[Any]] = {
        "frames": [sample.frames for sample in samples],
        "audio": [sample.audio for sample in samples],
        "features": [sample.features for sample in samples],
        "images": [sample.image for sample in samples],
        "frame_indices": [sample.frame_indices for sample in samples],
    }
    return {field: None if any(one is None for one in values) else values for field, values in lists.items()}


def _batch(samples: Sequence[Sample | Skipped], arrange: Callable[[Sequence[Sample]], Mapping[str, Any]]) -> Batch:
    """The batch of the samples that are there; ``arrange`` gives those of its fields that hold data."""
    started = time.monotonic()
    samples = items_of("samples", samples, of="Sample")
    for sample in samples:
        if not isinstance(sample, Sample | Skipped):
            raise InvalidArgumentError(f"samples must be those that a MediaDataset gives (got {shown(sample)}).")
    with collect_stages() as stage_seconds, stages.COLLATE, tensors_on_cpu():
        good = [sample for sample in samples if isinstance(sample, Sample)]
        _check_alike(good)
        failures = tuple(failure for sample in samples for failure in sample.failures)
        epochs = [sample.epoch for sample in good] or [failure.epoch for failure in failures]
        batch = Batch(
            **(arrange(good) if good else {}),
            label=_labels([sample.label for sample in good]),
            source=[sample.source for sample in good],
            row=torch.tensor([sample.row for sample in good], dtype=torch.int64),
            epoch=epochs[0] if epochs else 0,
            effective_fps=torch.tensor([sample.effective_fps for sample in good], dtype=torch.float64),
            extra=_columns([sample.extra for sample in good]),
            failures=failures,
            **_captions_together(good),
        )
    timings = [sample.timing for sample in samples if sample.timing is not None]
    return replace(batch, timings=_with_own(timings, started, stage_seconds))


def _check_alike(samples: Sequence[Sample]) -> None:
    for name in ("frames", "audio", "features", "image"):
        having = [sample for sample in samples if getattr(sample, name) is not None]
        if having and len(having) < len(samples):
            lacking = next(sample for sample in samples if getattr(sample, name) is None)
            raise InvalidArgumentError(
                f"{lacking.source!r} has no {name}, but {having[0].source!r} has: samples of one batch must have the "
                "same kinds of data."
            )


def _captions_together(samples: Sequence[Sample]) -> dict[str, Any]:
    """The fields of a batch that hold captions."""
    if all(sample.captions is None for sample in samples):
        return {}
    captions: list[Any] = [sample.captions or () for sample in samples]
    has_clips = any(isinstance(one, tuple) for of_sample in captions for one in of_sample)
    clips = [clip for of_sample in captions for clip in of_sample] if has_clips else captions
    ids = [[caption.token_ids for caption in clip] for clip in clips]
    has_other_numbers = has_clips and len({len(of_sample) for of_sample in captions}) > 1
    if has_other_numbers or any(one is None for clip in ids for one in clip):
        return {"captions": captions}
    shape = (len(samples), len(clips) // len(samples)) if has_clips else (len(samples),)
    num_captions = max(map(len, ids))
    lengths = torch.zeros(len(clips), num_captions, dtype=torch.int64)
    together = torch.zeros(
        len(clips), num_captions, max((len(one) for clip in ids for one in clip), default=0), dtype=torch.int64
    )
    for number, clip in enumerate(ids):
        for place, one in enumerate(clip):
            lengths[number, place] = len(one)
            together[number, place, : len(one)] = torch.tensor(one, dtype=torch.int64)
    return {
        "captions": captions,
        "caption_ids": together.view(*shape, *together.shape[1:]),
        "num_caption_ids": lengths.view(*shape, num_captions),
    }


def _labels(labels: list[Any]) -> Tensor | list[Any]:
    if not labels:
        return labels
    if all(isinstance(label, numbers.Integral | np.bool_) and -(2**63) <= int(label) < 2**63 for label in labels):
        return torch.tensor([int(label) for label in labels], dtype=torch.int64)
    if all(isinstance(label, numbers.Real | np.bool_) for label in labels):
        try:
            return torch.tensor([float(label) for label in labels], dtype=torch.float64)
        except OverflowError:
            return labels
    tensors = [_tensor_of(label) for label in labels]
    if len({None if one is None else (one.shape, one.dtype, one.device) for one in tensors}) == 1:
        return labels if tensors[0] is None else side_by_side([one for one in tensors if one is not None])
    return labels


def _tensor_of(label: Any) -> Tensor | None:
    if isinstance(label, np.ndarray):
        try:
            return torch.tensor(label)
        except (TypeError, ValueError):  # text, objects
            return None
    return label if isinstance(label, Tensor) else None


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _with_own(timings: list[Timing], started: float, stage_seconds: Mapping[str, float]) -> tuple[Timing, ...]:
    """Timings, the last of them with the time that collating took."""
    worker = get_worker_info()
    last = timings[-1] if timings else Timing(None if worker is None else worker.id, started, started, {})
    seconds = dict(last.stage_seconds)
    for name, spent in stage_seconds.items():
        seconds[name] = seconds.get(name, 0.0) + spent
    return (*timings[:-1], replace(last, finished=time.monotonic(), stage_seconds=seconds))


def _stack_for_torch(samples: list[Any], *, collate_fn_map: Any = None) -> Batch | ColumnDict:
    return stack_columns(samples) if any(isinstance(one, ColumnDict) for one in samples) else stack(samples)


# torch's own DataLoader asks this table about types that it does not know.
default_collate_fn_map.update(dict.fromkeys((Sample, Skipped, ColumnDict), _stack_for_torch))
