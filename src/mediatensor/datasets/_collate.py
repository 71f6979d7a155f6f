"""From samples to batches: `stack`, `pad`, `ragged`."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from .._checks import items_of, shown, whole_number
from .._stages import collect_stages, stage
from ..errors import InvalidArgumentError
from ._default_device import tensors_on_cpu
from ._merging import (
    Wanted,
    audio_together,
    features_together,
    frames_together,
    images_together,
    indices_together,
)
from ._samples import Batch, Sample, Skipped, Timing
from ._transport import side_by_side

__all__ = ["pad", "ragged", "stack"]


def stack(samples: Sequence[Sample | Skipped]) -> Batch:
    """A batch of samples of one shape: frames (B, T, C, H, W), sound (B, channels, samples), images (B, 3, H, W).

    What all collate functions do: rows that were skipped are left out, their failures and timings kept. Labels become
    a tensor (B,) if all are numbers (int64; float64 if one is not whole; truth values become 0 and 1), tensors and
    arrays of one shape and dtype are stacked, anything else stays a list. ``extra`` has a list for each column that one
    of the samples has, with ``None`` where a sample has none. Data keep their order in memory (frames of a decoder are
    channels-last), and in a worker are written straight into shared memory.

    Sound with a dimension of clips stays a list of `AudioSamplesBatch`.

    Args:
        samples: What a dataset gives; they may all be `Skipped`.

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
        samples: What a dataset gives; they may all be `Skipped`.

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
    ``audio.num_valid_samples`` of the batch tell what is whose own, and its masks ``frame_mask``, ``pixel_mask`` and
    ``sample_mask`` say it for every place. Labels, ``extra`` and the rest are as `stack` has them.

    Bind the arguments with ``functools.partial``: ``DataLoader(..., collate_fn=partial(pad, num_frames=32))``.

    Args:
        samples: What a dataset gives; they may all be `Skipped`. Frames are channels-first.
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
    wanted = Wanted(num_frames, num_samples, height, width, multiple_of)
    return _batch(samples, lambda good: _padded(good, wanted))


def _stacked(samples: Sequence[Sample]) -> dict[str, Any]:
    return {
        "frames": frames_together(samples),
        "audio": audio_together(samples),
        "features": features_together(samples),
        "images": images_together(samples),
        "frame_indices": indices_together(samples),
    }


def _padded(samples: Sequence[Sample], wanted: Wanted) -> dict[str, Any]:
    frames, images = frames_together(samples, wanted), images_together(samples, wanted)
    features = features_together(samples, wanted)
    own = [sample.image if sample.frames is None else sample.frames.data for sample in samples]
    pixels = images if frames is None else frames.data
    return {
        "frames": frames,
        "audio": audio_together(samples, wanted),
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
    with collect_stages() as stage_seconds, stage("collate"), tensors_on_cpu():
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


def _stack_for_torch(samples: list[Any], *, collate_fn_map: Any = None) -> Batch:
    return stack(samples)


# torch's own DataLoader asks this table about types that it does not know.
default_collate_fn_map.update({Sample: _stack_for_torch, Skipped: _stack_for_torch})
