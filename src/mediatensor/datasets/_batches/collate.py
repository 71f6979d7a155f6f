"""Collate functions, which make a batch from a list of samples: `stack`, `pad`, `ragged`, `stack_columns`."""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from ..._engine.common import stages
from ..._engine.common.checks import fits_int64, items_of, shown, whole_number
from ..._engine.common.devices import tensors_on_cpu
from ..._engine.common.stages import collect_stages
from ...errors import InvalidArgumentError
from ...frames import AudioSamples, AudioSamplesBatch, FrameBatch
from ...transforms._transform import is_channels_last
from .._rows.samples import Batch, ColumnDict, Sample, Skipped, Timing
from .._rows.transport import join_tensors

#: Maps each dimension that may be padded (-1 is the last) to its padded size, and to a number of which the size must be
#: a multiple. ``None`` means the size of the largest tensor.
_Sizes = Mapping[int, tuple[int | None, int]]


_STACK_ADVICE = {
    "frames": "Resize all frames to one size in the transforms, and use a sampler that returns the same number of "
    "frames for every file; or collate with `pad` or `ragged`.",
    "number of frames": "The number of frames differs. Pass fps= to VideoAudioClips, or use a sampler that returns the "
    "same number of frames for every file; or collate with `pad` or `ragged`.",
    "audio": "Use a sampler that returns clips of one length, and set num_channels; or collate with `pad` or `ragged`.",
    "features": "Use a sampler that returns clips of one length; or collate with `pad` or `ragged`.",
    "image": "Resize all images to one size; or collate with `pad` or `ragged`.",
}
_PAD_ADVICE = "`pad` changes only time, height and width of channels-first data. Otherwise, collate with `ragged`."


def _join_frames(samples: Sequence[Sample], sizes: _Sizes | None) -> FrameBatch | None:
    frames = [sample.frames for sample in samples if sample.frames is not None]
    if not frames:
        return None
    if sizes and is_channels_last(frames[0].data.shape):
        raise InvalidArgumentError(
            f"Frames must be channels-first, (..., C, H, W), but shape {tuple(frames[0].data.shape)} looks "
            "channels-last. Decode with dimension_order='NCHW'."
        )
    shape = _common_shape("frames", samples, [one.data for one in frames], sizes)
    return FrameBatch(
        join_tensors([one.data for one in frames], shape),
        join_tensors([one.pts_seconds for one in frames], shape[:-3], fill=float("nan")),
        join_tensors([one.duration_seconds for one in frames], shape[:-3], fill=0),
        replaced=tuple(
            replace(report, position=_position_in_batch(report.position, number, one.pts_seconds.shape, shape[:-3]))
            for number, one in enumerate(frames)
            for report in one.replaced
        ),
        is_damaged=join_tensors([one.is_damaged for one in frames], shape[:-3], fill=False),
    )


def _join_values(kind: str, samples: Sequence[Sample], sizes: _Sizes | None) -> Tensor | None:
    tensors = [tensor for sample in samples if (tensor := getattr(sample, kind)) is not None]
    return join_tensors(tensors, _common_shape(kind, samples, tensors, sizes)) if tensors else None


def _join_audio(samples: Sequence[Sample], sizes: _Sizes | None) -> AudioSamplesBatch | list[AudioSamplesBatch] | None:
    """Return the audio of all samples as one batch; as a list if samples have several clips; ``None`` without audio."""
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
                f"All audio of a batch must have the same sample rate, but {samples[0].source!r} has {rate} Hz and "
                f"{sample.source!r} has {sound.sample_rate} Hz. Set sample_rate of the dataset."
            )
    data = [sound.data for sound in sounds]
    shape = _common_shape("audio", samples, data, sizes)
    num_valid = [sample.num_valid_samples for sample in samples]
    return AudioSamplesBatch(
        join_tensors(data, shape),
        torch.tensor([sound.pts_seconds for sound in sounds], dtype=torch.float64),
        torch.tensor([sound.duration_seconds for sound in sounds], dtype=torch.float64),
        rate,
        torch.tensor([one.shape[-1] if num is None else num for num, one in zip(num_valid, data, strict=True)]),
    )


def _join_indices(samples: Sequence[Sample], frames: FrameBatch | None) -> Tensor | list[Tensor] | None:
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
    return join_tensors(indices, shape, fill=-1)


def _common_shape(
    kind: str, samples: Sequence[Sample], tensors: Sequence[Tensor], sizes: _Sizes | None
) -> tuple[int, ...]:
    """Return the shape of the samples' tensors in the batch. They must be equal, except in the dimensions ``sizes``."""
    first = tensors[0]
    fixed = [dimension for dimension in range(-first.ndim, 0) if sizes is None or dimension not in sizes]
    for sample, tensor in zip(samples, tensors, strict=True):
        is_alike = tensor.ndim == first.ndim and all(tensor.shape[i] == first.shape[i] for i in fixed)
        if not is_alike or tensor.dtype != first.dtype:
            subject = "number of frames" if kind == "frames" and _differ_in_number(first, tensor) else kind
            raise InvalidArgumentError(
                f"The {kind} of {samples[0].source!r} and {sample.source!r} have different shapes: "
                f"{_shape_and_dtype(first)} and {_shape_and_dtype(tensor)}. "
                f"{_STACK_ADVICE[subject] if sizes is None else _PAD_ADVICE}"
            )
    shape = list(first.shape)
    for dimension, (size, multiple_of) in (sizes or {}).items():
        if -dimension > first.ndim:
            continue
        number, largest = max(enumerate(tensors), key=lambda entry: entry[1].shape[dimension])
        if size is not None and largest.shape[dimension] > size:
            raise InvalidArgumentError(
                f"The shape of the {kind} of {samples[number].source!r} is {_shape_and_dtype(largest)}, more than "
                f"{size} in dimension {dimension}. Pad to a larger size, or make the sampler and the transforms return "
                "smaller data."
            )
        shape[dimension] = math.ceil((size or largest.shape[dimension]) / multiple_of) * multiple_of
    return tuple(shape)


def _differ_in_number(one: Tensor, other: Tensor) -> bool:
    ends = [(frames.shape[:-4], frames.shape[-3:], frames.dtype) for frames in (one, other)]
    return min(one.ndim, other.ndim) >= 4 and ends[0] == ends[1]


def _shape_and_dtype(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} ({str(tensor.dtype).removeprefix('torch.')})"


def _position_in_batch(position: int, number: int, old_shape: tuple[int, ...], new_shape: tuple[int, ...]) -> int:
    """Return the position of a frame in a batch, counting the frames of all samples and clips one after another.

    ``position`` is the position of the frame within sample ``number`` of the batch. ``old_shape`` and ``new_shape`` are
    the shapes of this sample's frame times before and after padding.

    >>> _position_in_batch(3, 1, (2, 2), (2, 5))  # second frame of the second clip, after a sample of ten frames
    16
    """
    clips = math.prod(new_shape[:-1])
    old_length, new_length = (old_shape[-1], new_shape[-1]) if new_shape else (1, 1)
    # A frame that was left out of a clip may have had a position after the last frame.
    clip = min(position // max(1, old_length), clips - 1)
    return (number * clips + clip) * new_length + position - clip * old_length


def stack(samples: Sequence[Sample | Skipped]) -> Batch:
    """Stack samples of the same shape: frames (B, T, C, H, W), audio (B, channels, samples), images (B, 3, H, W).

    B is the number of samples without skipped rows. All collate functions leave out skipped rows (`Skipped`), but keep
    the failures and timings of these rows. If all labels are numbers, they become a tensor (B,): int64, or float64 if
    any label is fractional. Booleans count as 0 and 1. Whole numbers that the tensor cannot hold exactly stay a list.
    Labels that are tensors or arrays of one shape and dtype are stacked. All other labels stay a list. ``Batch.extra``
    maps the name of each column that at least one sample has to a list of B values, with ``None`` for samples without
    the column. The memory format of the data does not change: decoded frames stay channels-last in memory. In a worker,
    batches are written directly into shared memory.

    If samples were made with ``keep_clip_dimension=True``, their audio is not stacked, but stays a list with one
    `AudioSamplesBatch` for each sample.

    Args:
        samples: The samples of a dataset; all of them may be `Skipped`.

    Returns:
        The batch, of length 0 if there are no samples.

    Raises:
        InvalidArgumentError: if shapes, dtypes or sample rates differ, or if some samples have frames, audio, features
            or an image while others do not.

    Example:
        >>> import torch
        >>> from mediatensor.datasets import Sample, stack
        >>> samples = [Sample(image=torch.zeros(3, 4, 6, dtype=torch.uint8), label=i) for i in range(2)]
        >>> batch = stack(samples)
        >>> batch.images.shape, batch.label
        (torch.Size([2, 3, 4, 6]), tensor([0, 1]))
    """
    return _make_batch(samples, _join_fields)


def ragged(samples: Sequence[Sample | Skipped]) -> Batch:
    """Make a batch of samples of different shapes, with lists instead of tensors.

    The fields ``frames``, ``audio``, ``features``, ``images`` and ``frame_indices`` of the batch are lists with one
    value for each sample. All other fields are as in `stack`.

    Args:
        samples: The samples of a dataset; all of them may be `Skipped`.

    Returns:
        The batch, of length 0 if there are no samples.

    Raises:
        InvalidArgumentError: if some samples have frames, audio, features or an image while others do not.

    Example:
        >>> import torch
        >>> from mediatensor.datasets import Sample, ragged
        >>> batch = ragged([Sample(image=torch.zeros(3, 4, width, dtype=torch.uint8)) for width in (6, 8)])
        >>> [tuple(image.shape) for image in batch.images]
        [(3, 4, 6), (3, 4, 8)]
    """
    return _make_batch(samples, _list_fields)


def pad(
    samples: Sequence[Sample | Skipped],
    *,
    num_frames: int | None = None,
    num_samples: int | None = None,
    size: tuple[int, int] | None = None,
    multiple_of: int = 1,
) -> Batch:
    """Make a batch of samples of different lengths and sizes, padded at the end, at the bottom and at the right.

    Frames and images are padded with black. Audio, features (in their last dimension) and durations are padded with 0.
    Times are padded with NaN, and frame indices with -1. The sizes before padding are in the fields
    ``num_valid_frames``, ``valid_sizes`` (height, width), ``num_valid_features`` and ``audio.num_valid_samples`` of the
    batch. Its masks ``frame_mask``, ``pixel_mask`` and ``sample_mask`` are false in the padding. All other fields are
    as in `stack`.

    Bind the arguments with ``functools.partial``: ``DataLoader(..., collate_fn=partial(pad, num_frames=32))``.

    Args:
        samples: The samples of a dataset; all of them may be `Skipped`. Frames must be channels-first.
        num_frames: Number of frames after padding; by default the number in the longest clip of the batch.
        num_samples: Number of audio samples after padding; by default the number in the longest clip of the batch.
        size: (height, width) in pixels after padding; by default the largest height and the largest width in the batch.
        multiple_of: Number of pixels. Heights and widths are rounded up to a multiple of it.

    Returns:
        The batch, of length 0 if there are no samples.

    Raises:
        InvalidArgumentError: if an argument is not positive, a sample is larger than the requested size, or samples
            differ in their number of channels or clips, in dtype, or in sample rate.

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
    pixels: _Sizes = {-2: (height, multiple_of), -1: (width, multiple_of)}
    frames: _Sizes = {-4: (num_frames, 1), **pixels}
    sizes = {"frames": frames, "image": pixels, "audio": {-1: (num_samples, 1)}, "features": {-1: (None, 1)}}
    return _make_batch(samples, partial(_join_fields, sizes=sizes))


def stack_columns(rows: Sequence[ColumnDict | Skipped]) -> ColumnDict:
    """Make a batch of rows that are dicts of named columns.

    In each column, B tensors are stacked to one tensor (B, ...), and other values become a list of length B.
    `DataLoader` uses this function for datasets whose rows are dicts, such as `LeRobotClips`. Rows that the dataset
    skipped (`Skipped`) are left out, but their failures are kept.

    Args:
        rows: The rows of a dataset, each a `ColumnDict`; all of them may be `Skipped`.

    Returns:
        The batch, a `ColumnDict` with the same columns. If all rows are skipped, it has no columns.

    Raises:
        InvalidArgumentError: if the tensors of a column differ in shape or dtype, or rows have different columns.

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
            raise InvalidArgumentError(f"rows must come from a dataset such as LeRobotClips (got {shown(row)}).")
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
        columns = {name: _join_column(name, [row[name] for row in good]) for name in (good[0] if good else ())}
    failures = tuple(failure for row in rows for failure in row.failures)
    return ColumnDict(columns, failures, _add_collating_time(timings, started, stage_seconds))


def _join_column(name: str, values: list[Any]) -> Tensor | list[Any]:
    if not isinstance(values[0], Tensor):
        return values
    for value in values:
        if not isinstance(value, Tensor) or (value.shape, value.dtype) != (values[0].shape, values[0].dtype):
            raise InvalidArgumentError(
                f"The column {name!r} has values of different types or shapes: {_describe_type(values[0])} and "
                f"{_describe_type(value)}. Set batch_size=1 if rows differ in length, or pass your own collate_fn."
            )
    return join_tensors(values)


def _describe_type(value: object) -> str:
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def _join_fields(samples: Sequence[Sample], sizes: Mapping[str, _Sizes] | None = None) -> dict[str, Any]:
    """Join the data of samples. ``sizes`` has, for each kind of data, the dimensions that are padded."""
    of_kind: Mapping[str, _Sizes] = sizes or {}
    frames = _join_frames(samples, of_kind.get("frames"))
    images = _join_values("image", samples, of_kind.get("image"))
    features = _join_values("features", samples, of_kind.get("features"))
    unpadded = [sample.image if sample.frames is None else sample.frames.data for sample in samples]
    pixels = images if frames is None else frames.data
    return {
        "frames": frames,
        "audio": _join_audio(samples, of_kind.get("audio")),
        "features": features,
        "images": images,
        "frame_indices": _join_indices(samples, frames if sizes else None),
        "num_valid_frames": None if frames is None else _sizes_if_padded(unpadded, pixels, slice(-4, -3)),
        "num_valid_features": _sizes_if_padded([sample.features for sample in samples], features, slice(-1, None)),
        "valid_sizes": _sizes_if_padded(unpadded, pixels, slice(-2, None)),
    }


def _sizes_if_padded(own: Sequence[Tensor | None], together: Tensor | None, dimensions: slice) -> Tensor | None:
    sizes = [tuple(tensor.shape[dimensions]) for tensor in own if tensor is not None]
    if together is None or all(size == tuple(together.shape[dimensions]) for size in sizes):
        return None
    return torch.tensor(sizes).squeeze(-1)


def _list_fields(samples: Sequence[Sample]) -> dict[str, Any]:
    lists: dict[str, list[Any]] = {
        "frames": [sample.frames for sample in samples],
        "audio": [sample.audio for sample in samples],
        "features": [sample.features for sample in samples],
        "images": [sample.image for sample in samples],
        "frame_indices": [sample.frame_indices for sample in samples],
    }
    return {field: None if any(one is None for one in values) else values for field, values in lists.items()}


def _make_batch(samples: Sequence[Sample | Skipped], arrange: Callable[[Sequence[Sample]], Mapping[str, Any]]) -> Batch:
    """Make a batch. ``arrange`` returns the data fields (``frames``, ``audio`` ...) of the samples that it is given."""
    started = time.monotonic()
    samples = items_of("samples", samples, of="Sample")
    for sample in samples:
        if not isinstance(sample, Sample | Skipped):
            raise InvalidArgumentError(f"samples must come from a MediaDataset (got {shown(sample)}).")
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
            **_join_captions(good),
        )
    timings = [sample.timing for sample in samples if sample.timing is not None]
    return replace(batch, timings=_add_collating_time(timings, started, stage_seconds))


def _check_alike(samples: Sequence[Sample]) -> None:
    for name in ("frames", "audio", "features", "image"):
        having = [sample for sample in samples if getattr(sample, name) is not None]
        if having and len(having) < len(samples):
            lacking = next(sample for sample in samples if getattr(sample, name) is None)
            raise InvalidArgumentError(
                f"{lacking.source!r} has no {name}, but {having[0].source!r} does. All samples of a batch must have "
                "the same kinds of data."
            )


def _join_captions(samples: Sequence[Sample]) -> dict[str, Any]:
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
    rows = [one for clip in ids for one in (*clip, *[()] * (num_captions - len(clip)))]
    longest = max(map(len, rows), default=0)
    padded = [[*one, *[0] * (longest - len(one))] for one in rows]
    return {
        "captions": captions,
        "caption_ids": torch.tensor(padded, dtype=torch.int64).view(*shape, num_captions, longest),
        "num_caption_ids": torch.tensor([len(one) for one in rows], dtype=torch.int64).view(*shape, num_captions),
    }


def _labels(labels: list[Any]) -> Tensor | list[Any]:
    if not labels:
        return labels
    whole = {i: int(label) for i, label in enumerate(labels) if isinstance(label, numbers.Integral | np.bool_)}
    if len(whole) == len(labels):
        is_int64 = all(map(fits_int64, whole.values()))
        return torch.tensor(list(whole.values()), dtype=torch.int64) if is_int64 else labels
    if all(isinstance(label, numbers.Real | np.bool_) for label in labels):
        try:
            rounded = [float(label) for label in labels]
        except OverflowError:
            return labels
        is_exact = all(rounded[i] == number for i, number in whole.items())
        return torch.tensor(rounded, dtype=torch.float64) if is_exact else labels
    tensors = [_tensor_of(label) for label in labels]
    if len({None if one is None else (one.shape, one.dtype, one.device) for one in tensors}) == 1:
        return labels if tensors[0] is None else join_tensors([one for one in tensors if one is not None])
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


def _add_collating_time(
    timings: list[Timing], started: float, stage_seconds: Mapping[str, float]
) -> tuple[Timing, ...]:
    worker = get_worker_info()
    last = timings[-1] if timings else Timing(None if worker is None else worker.id, started, started, {})
    seconds = dict(last.stage_seconds)
    for name, spent in stage_seconds.items():
        seconds[name] = seconds.get(name, 0.0) + spent
    return (*timings[:-1], replace(last, finished=time.monotonic(), stage_seconds=seconds))


def _stack_for_torch(samples: list[Any], *, collate_fn_map: Any = None) -> Batch | ColumnDict:
    return stack_columns(samples) if any(isinstance(one, ColumnDict) for one in samples) else stack(samples)


# torch's own DataLoader looks up unknown types in this table.
default_collate_fn_map.update(dict.fromkeys((Sample, Skipped, ColumnDict), _stack_for_torch))
