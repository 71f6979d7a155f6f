"""A replacement of `VideoDecoder` with only the interface for samplers; its frames contain the request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mediatensor import FrameBatch


class RecordingDecoder:
    """Frame ``i`` is the pixel value ``i``; the frame played at ``t`` is the pixel value ``t``.

    Every batched call is noted in ``calls`` as (method, list of positions).
    """

    def __init__(
        self,
        num_frames: int = 20,
        *,
        average_fps: float | None = 10.0,
        begin: float | None = 0.0,
        end: float | None = 2.0,
    ):
        self.metadata = SimpleNamespace(average_fps=average_fps, begin_stream_seconds=begin, end_stream_seconds=end)
        self.calls: list[tuple[str, list[float]]] = []
        self._num_frames = num_frames

    def __len__(self) -> int:
        return self._num_frames

    def get_frames_at(self, indices: list[int]) -> FrameBatch:
        return self._batch("get_frames_at", indices)

    def get_frames_played_at(self, seconds: list[float]) -> FrameBatch:
        return self._batch("get_frames_played_at", seconds)

    def _batch(self, method: str, positions: list[float]) -> FrameBatch:
        self.calls.append((method, list(positions)))
        values = torch.tensor(positions, dtype=torch.float64, device="cpu")
        # Seconds and durations differ from the pixels, so that a mix-up shows.
        return FrameBatch(values.reshape(-1, 1, 1, 1).expand(-1, 3, 4, 5), values + 1000, values + 2000)


def positions_of(clips: FrameBatch) -> list[list[float]]:
    """What each frame of each clip was asked for, from the pixels."""
    return clips.data[:, :, 0, 0, 0].tolist()


def span(start: float, end: float) -> dict[str, float]:
    return {"sampling_range_start": start, "sampling_range_end": end}


def each_sampler(cases: Iterable[tuple[Sequence[Callable[..., Any]], dict[str, Any], str]]) -> list[Any]:
    """Return (sampler, arguments, message) for each sampler of (samplers, arguments, message)."""
    return [
        pytest.param(sampler, arguments, message, id=f"{sampler.__name__}-{arguments}")
        for samplers, arguments, message in cases
        for sampler in samplers
    ]
