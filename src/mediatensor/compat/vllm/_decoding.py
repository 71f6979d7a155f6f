"""Decoding of untrusted videos in processes that all requests share."""

from __future__ import annotations

import os
import threading
import uuid
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...decoders import VideoDecoder
from ...frames import FrameBatch
from ...isolate import IsolatedWorker

__all__ = ["OpenedVideo", "VideoSource"]

#: Maximum number of processes: by default, vLLM loads this many media files in parallel.
_MAX_PROCESSES = 8


class VideoSource(NamedTuple):
    """Metadata of a video, with the fields of vLLM's ``VideoSourceMetadata``.

    Attributes:
        total_frames_num: Exact number of frames.
        original_fps: Frames per second; 0 if unknown, as for a single frame.
        duration: Duration in seconds.

    Example:
        >>> from mediatensor.compat.vllm import VideoSource
        >>> VideoSource(300, 30.0, 10.0).duration
        10.0
    """

    total_frames_num: int
    original_fps: float
    duration: float


@cache
def _worker(timeout_seconds: float) -> IsolatedWorker:
    """Return the process pool that all loaders with this time limit share."""
    return IsolatedWorker(timeout_seconds=timeout_seconds, num_processes=min(_MAX_PROCESSES, os.cpu_count() or 1))


class OpenedVideo:
    """The video of one request. With a time limit of each step, it is opened in a separate process.

    If ``is_nearest``, the nearest frame replaces a frame that cannot be decoded.
    """

    def __init__(self, data: bytes, timeout_seconds: float | None, is_nearest: bool) -> None:
        self._call = uuid.uuid4().hex
        self._data = data
        self._is_nearest = is_nearest
        self._worker = None if timeout_seconds is None else _worker(timeout_seconds)

    def source(self) -> VideoSource:
        return VideoSource(*self._run(_describe, self._call, self._data, self._is_nearest))

    def frames(self, indices: list[int]) -> tuple[NDArray[np.uint8], list[int]]:
        """Return the frames and their indices, both without frames that could not be decoded."""
        result = self._run(_frames_at, self._call, None, self._is_nearest, indices)
        if result is None:  # this process did not run the first step and has no open video
            result = self._run(_frames_at, self._call, self._data, self._is_nearest, indices)
        batch, read = result
        return batch.data.numpy(), read

    def close(self) -> None:
        """Close a video that is open in this process."""
        _kept.call = _kept.decoder = None

    def _run(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments) if self._worker is None else self._worker.run(function, *arguments)


class _Kept(threading.local):
    """The last video that this thread opened, and the identifier of its request."""

    call: str | None = None
    decoder: VideoDecoder | None = None


_kept = _Kept()


def _decoder(call: str, data: bytes | None, is_nearest: bool) -> VideoDecoder | None:
    if _kept.call != call:
        if data is None:
            return None
        decoder = VideoDecoder(data, dimension_order="NHWC", on_error="nearest" if is_nearest else "skip")
        _kept.call, _kept.decoder = call, decoder
    return _kept.decoder


def _describe(call: str, data: bytes, is_nearest: bool) -> tuple[int, float, float]:
    decoder = _decoder(call, data, is_nearest)
    assert decoder is not None
    metadata = decoder.metadata
    return len(decoder), float(metadata.average_fps or 0.0), float(metadata.duration_seconds or 0.0)


def _frames_at(
    call: str, data: bytes | None, is_nearest: bool, indices: list[int]
) -> tuple[FrameBatch, list[int]] | None:
    """Return decoded frames and their indices; ``None`` if this process has not opened the video and has no data."""
    decoder = _decoder(call, data, is_nearest)
    if decoder is None:
        return None
    _kept.call = _kept.decoder = None
    batch = decoder.get_frames_at(indices)
    left_out = {report.index for report in batch.replaced if report.used_index is None}
    return batch, [index for index in indices if index not in left_out]
