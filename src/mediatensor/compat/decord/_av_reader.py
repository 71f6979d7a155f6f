"""decord's `AVReader`."""

from __future__ import annotations

import math
from typing import Any

from ..._engine.common.checks import index_of
from ._arrays import DECORDContext, cpu
from ._audio_reader import AudioReader
from ._sources import source_of, whole_indices
from ._video_reader import VideoReader

__all__ = ["AVReader"]

_CPU = cpu(0)
# Times of frames are rounded at the sixteenth digit: 0.04 s of 44,100 Hz are 1,764 samples, and not one more.
_ROUNDED = 1e-6


class AVReader:
    """The sound and the frames of a video, frame by frame.

    Sound that begins late has silence in front, so that sample 0 is that of time 0.

    Args:
        uri: A path or URL, or a file object, which is read to its end.
        ctx: ``cpu(0)``, or ``gpu(0)`` for frames on a CUDA device.
        sample_rate: Samples per second; that of the file if it is not positive.
        mono: Mix all channels to one.
        width, height, num_threads, fault_tol: As of `VideoReader`.
        timeout_seconds: Most seconds of a call, as of `VideoReader`.

    Raises:
        DECORDError: if the source cannot be read, or lacks sound or video.

    Example:
        >>> from mediatensor.compat.decord import AVReader
        >>> reader = AVReader("video.mp4", sample_rate=48_000)
        >>> samples, frames = reader[10:13]
        >>> [part.shape for part in samples], frames.shape
        ([(1, 1600), (1, 1600), (1, 1600)], (3, 360, 640, 3))
    """

    def __init__(
        self,
        uri: Any,
        ctx: DECORDContext = _CPU,
        sample_rate: int = 44100,
        mono: bool = True,
        width: int = -1,
        height: int = -1,
        num_threads: int = 0,
        fault_tol: float = -1,
        *,
        timeout_seconds: float | None = None,
    ) -> None:
        source = source_of(uri)
        self._audio = AudioReader(source, ctx, sample_rate, mono, timeout_seconds=timeout_seconds)
        self._audio.add_padding()
        self._video = VideoReader(source, ctx, width, height, num_threads, fault_tol, timeout_seconds=timeout_seconds)

    def __len__(self) -> int:
        return len(self._video)

    def __getitem__(self, idx: Any) -> tuple[Any, Any]:
        """The sound and the picture of a frame, or of each frame of a slice as `get_batch` gives them.

        Raises:
            OutOfRangeError: if there is no such frame.
            InvalidArgumentError: if it is neither a whole number nor a slice.
        """
        if isinstance(idx, slice):
            return self.get_batch(range(*idx.indices(len(self))))
        return self._sound_of(index_of(idx)), self._video[idx]

    def get_batch(self, indices: Any) -> tuple[list[Any], Any]:
        """The sound of each frame, and the frames.

        Args:
            indices: Numbers from -len to len - 1, as a list, an array or a tensor.

        Returns:
            A list of arrays (channels, samples), and an array (N, H, W, 3).

        Raises:
            OutOfRangeError: if one is out of bounds.

        Example:
            >>> from mediatensor.compat.decord import AVReader
            >>> samples, frames = AVReader("video.mp4").get_batch([0, 9])
            >>> samples[1].shape, frames.shape
            ((1, 1470), (2, 360, 640, 3))
        """
        wanted = whole_indices(indices, len(self))
        return [self._sound_of(index) for index in wanted], self._video.get_batch(wanted)

    def _sound_of(self, index: int) -> Any:
        begin, end = (
            max(math.ceil(seconds * self._audio.sample_rate - _ROUNDED), 0) for seconds in self._video._seconds(index)
        )
        return self._audio[begin:end]

    def __repr__(self) -> str:
        return f"AVReader of {len(self)} frames and {self._audio.shape[1]} samples"
