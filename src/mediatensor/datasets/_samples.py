"""What datasets give: `Sample`, and `Batch` of samples; and what could not be given: `Failure`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..frames import AudioSamples, AudioSamplesBatch, FrameBatch

__all__ = ["Batch", "Failure", "Sample", "Skipped", "Timing"]


@dataclass(frozen=True)
class Failure:
    """A row that could not be read, and what the error policy did about it.

    Attributes:
        source: Name of the file.
        row: Index of the row in the dataset.
        epoch: The epoch it was read in.
        error: Name of the type of the exception.
        message: What it said.
        action: ``"skipped"`` or ``"replaced"``.
        replaced_by: Name of the file that a sample was taken from instead.
    """

    source: str
    row: int
    epoch: int
    error: str
    message: str
    action: Literal["skipped", "replaced"]
    replaced_by: str | None = None


@dataclass(frozen=True)
class Timing:
    """Where the time of some rows went.

    Attributes:
        worker: Number of the DataLoader worker that read them; ``None`` if none did.
        started: When reading began, in seconds of the machine's monotonic clock.
        finished: When they were ready.
        stage_seconds: Seconds by stage; see `StallMeter`.
    """

    worker: int | None
    started: float
    finished: float
    stage_seconds: dict[str, float]


@dataclass(frozen=True)
class Skipped:
    """Stands for a row that was left out, on its way to the collate function."""

    failures: tuple[Failure, ...]
    timing: Timing | None = None


@dataclass
class Sample:
    """One row of a dataset.

    Attributes:
        frames: Of a video: uint8 (T, C, H, W) with times (T,); with ``keep_clip_dimension`` (clips, T, C, H, W).
        audio: Of sound: float32 (channels, samples).
        image: Of a document or a word: uint8 (3, H, W).
        label: Label of the file.
        source: Name of the file it was read from.
        row: Index in the dataset.
        epoch: The epoch it was read for.
        frame_indices: Which frames of the video these are, int64 of the shape of the times; ``None`` if not known.
        effective_fps: Frames per second of the clip as it was sampled; NaN without frames.
        extra: The other columns of the manifest's row, and what a dataset adds.
        failures: What failed before this sample took its place.
        timing: Where the time went, on the first sample of those that were read together.
    """

    frames: FrameBatch | None = None
    audio: AudioSamples | AudioSamplesBatch | None = None
    image: Tensor | None = None
    label: Any = None
    source: str = ""
    row: int = 0
    epoch: int = 0
    frame_indices: Tensor | None = None
    effective_fps: float = float("nan")
    extra: dict[str, Any] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    timing: Timing | None = None


@dataclass
class Batch:
    """Samples side by side, as a collate function made them.

    Each of ``frames``, ``audio`` and ``images`` is ``None`` if the samples have none of it, and a list where they were
    not brought to one shape.

    Attributes:
        frames: uint8 (B, T, C, H, W) with times (B, T).
        audio: float32 (B, channels, samples); ``audio.num_valid_samples`` tells what is padding.
        images: uint8 (B, 3, H, W).
        label: int64 or float64 (B,) if all labels are numbers, else a list.
        source: Names of the files.
        row: Indices in the dataset, int64 (B,).
        epoch: The epoch the samples were read for.
        frame_indices: int64 (B, T), or a list; ``None`` if not known.
        effective_fps: Frames per second of each clip, float64 (B,); NaN without frames.
        num_valid_frames: How many frames of each clip, from its first on, are its own; int64 (B,). ``None`` if all.
        valid_sizes: (height, width) of each clip or image before padding, int64 (B, 2). ``None`` if all.
        extra: For each column a list with the values of the samples.
        failures: The rows that were skipped or replaced on the way.
        timings: Where the time went.
    """

    frames: FrameBatch | list[FrameBatch] | None = None
    audio: AudioSamplesBatch | list[AudioSamples] | list[AudioSamplesBatch] | None = None
    images: Tensor | list[Tensor] | None = None
    label: Tensor | list[Any] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    row: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    epoch: int = 0
    frame_indices: Tensor | list[Tensor] | None = None
    effective_fps: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.float64))
    num_valid_frames: Tensor | None = None
    valid_sizes: Tensor | None = None
    extra: dict[str, list[Any]] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    timings: tuple[Timing, ...] = ()

    def __len__(self) -> int:
        return len(self.source)

    def to(self, device: str | torch.device, *, non_blocking: bool = False) -> Batch:
        """The batch with frames, samples of sound, images and labels on a device; times and names stay on the CPU."""
        return self._with_tensors(lambda tensors: tensors.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """The batch in page-locked memory, as a ``DataLoader(pin_memory=True)`` asks for."""
        return self._with_tensors(lambda tensors: tensors.pin_memory())

    def _with_tensors(self, change: Any) -> Batch:
        def changed(value: Any) -> Any:
            if value is None:
                return None
            return [change(one) for one in value] if isinstance(value, list) else change(value)

        return replace(
            self,
            frames=changed(self.frames),
            audio=changed(self.audio),
            images=changed(self.images),
            label=change(self.label) if isinstance(self.label, Tensor) else self.label,
        )
