"""What decoding returns: `Frame`, `FrameBatch` and `AudioSamples`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

__all__ = ["AudioSamples", "Frame", "FrameBatch", "ReplacedFrame"]


def _describe(result: Any) -> str:
    """``ClassName:`` and one indented line a field; of the data only the shape."""
    lines = [f"{type(result).__name__}:"]
    for spec in fields(result):
        value = getattr(result, spec.name)
        if spec.name == "data":
            lines.append(f"  data (shape): {value.shape}")
        elif spec.name != "replaced" or value:
            lines.append(f"  {spec.name}: {value}")
    return "\n".join(lines)


@dataclass(frozen=True)
class ReplacedFrame:
    """A frame that could not be decoded and what the error policy did about it.

    Attributes:
        index: Index of the frame that was asked for.
        reason: Why it could not be had, in words.
        position: Where it was to stand in the (flattened) batch; under ``on_error="skip"`` where it would have stood.
        used_index: Index of the frame that took its place, or ``None`` if it was left out.
    """

    index: int
    reason: str
    position: int
    used_index: int | None = None


@dataclass(repr=False)
class Frame:
    """One decoded video frame.

    Unpacks as ``data, pts_seconds, duration_seconds = frame``.

    Attributes:
        data: 3-D tensor, (C, H, W) or (H, W, C).
        pts_seconds: Presentation time in seconds.
        duration_seconds: Time for which the frame is shown, in seconds.
        replaced: What an error policy other than ``"raise"`` put in place of the frame asked for.

    Raises:
        ValueError: if ``data`` is not 3-dimensional.

    Example:
        >>> frame = Frame(torch.zeros(3, 4, 6, dtype=torch.uint8), 0.5, 0.04)
        >>> frame
        Frame:
          data (shape): torch.Size([3, 4, 6])
          pts_seconds: 0.5
          duration_seconds: 0.04
    """

    data: Tensor
    pts_seconds: float
    duration_seconds: float
    replaced: tuple[ReplacedFrame, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.data.ndim != 3:
            raise ValueError(f"data must be 3-dimensional, got {self.data.ndim} dimensions: {tuple(self.data.shape)}.")
        self.pts_seconds = float(self.pts_seconds)
        self.duration_seconds = float(self.duration_seconds)

    def __iter__(self) -> Iterator[Tensor | float]:
        return iter((self.data, self.pts_seconds, self.duration_seconds))

    def __repr__(self) -> str:
        return _describe(self)


@dataclass(repr=False)
class FrameBatch:
    """Decoded video frames with their times.

    ``len(batch)`` is the first dimension; iterating and indexing give `FrameBatch` objects, the same key
    being applied to the data and to both times.

    Attributes:
        data: Tensor of at least 3 dimensions, (..., C, H, W) or (..., H, W, C).
        pts_seconds: Presentation times in seconds, float64 on the CPU, of shape ``data.shape[:-3]``.
        duration_seconds: Durations in seconds, of the same dtype, device and shape.
        replaced: What an error policy other than ``"raise"`` left out or replaced; empty if nothing.

    Raises:
        ValueError: if ``data`` has fewer than 3 dimensions or the times are not of shape ``data.shape[:-3]``.

    Example:
        >>> batch = FrameBatch(torch.zeros(2, 3, 4, 6), torch.tensor([0.0, 0.5]), torch.tensor([0.5, 0.5]))
        >>> len(batch), batch[1].pts_seconds.item(), batch[:1].data.shape
        (2, 0.5, torch.Size([1, 3, 4, 6]))
    """

    data: Tensor
    pts_seconds: Tensor
    duration_seconds: Tensor
    replaced: tuple[ReplacedFrame, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.data.ndim < 3:
            raise ValueError(
                f"data must be at least 3-dimensional, got {self.data.ndim} dimensions: {tuple(self.data.shape)}."
            )
        # Callers write times as float32 or lists of numbers; they are kept exact, and off the device.
        self.pts_seconds = torch.as_tensor(self.pts_seconds, dtype=torch.float64, device="cpu")
        self.duration_seconds = torch.as_tensor(self.duration_seconds, dtype=torch.float64, device="cpu")
        leading = self.data.shape[:-3]
        if not (leading == self.pts_seconds.shape == self.duration_seconds.shape):
            raise ValueError(
                "Tried to create a FrameBatch but the leading dimensions of the inputs do not match. "
                f"data.shape[:-3] is {tuple(leading)}, pts_seconds.shape is {tuple(self.pts_seconds.shape)}, "
                f"duration_seconds.shape is {tuple(self.duration_seconds.shape)}."
            )

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[FrameBatch]:
        for i in range(len(self)):
            yield self[i]

    def __getitem__(self, key: Any) -> FrameBatch:
        return FrameBatch(
            self.data[key],
            self.pts_seconds[key],
            self.duration_seconds[key],
            replaced=self._replaced_at(key) if self.replaced else (),
        )

    def _replaced_at(self, key: Any) -> tuple[ReplacedFrame, ...]:
        """The reports of the frames that ``key`` selects, with their new positions."""
        count = self.pts_seconds.numel()
        kept = torch.arange(count).reshape(self.pts_seconds.shape)[key].flatten().tolist()
        return tuple(
            ReplacedFrame(report.index, report.reason, position, report.used_index)
            for position, old in enumerate(kept)
            for report in self.replaced
            if report.position == old and report.used_index is not None
        )

    def to(self, *args: Any, **kwargs: Any) -> FrameBatch:
        """The batch with ``data.to(*args, **kwargs)``; the times stay float64 on the CPU."""
        return FrameBatch(
            self.data.to(*args, **kwargs), self.pts_seconds, self.duration_seconds, replaced=self.replaced
        )

    def pin_memory(self) -> FrameBatch:
        """The batch with its data in page-locked memory, as a ``DataLoader(pin_memory=True)`` asks for."""
        return FrameBatch(self.data.pin_memory(), self.pts_seconds, self.duration_seconds, replaced=self.replaced)

    def __repr__(self) -> str:
        return _describe(self)


@dataclass(repr=False)
class AudioSamples:
    """Decoded audio samples.

    Attributes:
        data: 2-D float tensor (channels, samples), values in [-1, 1].
        pts_seconds: Time of the first sample in seconds.
        duration_seconds: Length in seconds.
        sample_rate: Samples per second.

    Raises:
        ValueError: if ``data`` is not 2-dimensional.

    Example:
        >>> AudioSamples(torch.zeros(2, 8000), 0.0, 0.5, 16_000)
        AudioSamples:
          data (shape): torch.Size([2, 8000])
          pts_seconds: 0.0
          duration_seconds: 0.5
          sample_rate: 16000
    """

    data: Tensor
    pts_seconds: float
    duration_seconds: float
    sample_rate: int

    def __post_init__(self) -> None:
        if self.data.ndim != 2:
            raise ValueError(f"data must be 2-dimensional, got {self.data.ndim} dimensions: {tuple(self.data.shape)}.")
        self.pts_seconds = float(self.pts_seconds)
        self.duration_seconds = float(self.duration_seconds)
        self.sample_rate = int(self.sample_rate)

    def __iter__(self) -> Iterator[Tensor | float | int]:
        return iter((self.data, self.pts_seconds, self.duration_seconds, self.sample_rate))

    def __repr__(self) -> str:
        return _describe(self)
