"""The classes `AudioReader` and `AVReader` of decord."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..._engine.common.checks import index_of, whole_number
from ...decoders import AudioDecoder
from ...decoders._access import sample_grid, with_silence
from ...frames import AudioSamples
from ...isolate._worker import run_bounded
from ._video_reader import VideoReader, check_context, range_of, source_of, whole_indices
from .bridge import DECORDContext, bridge_out, cpu

_CPU = cpu(0)
# Tolerance for rounding errors of frame times: 0.04 s at 44,100 Hz must be 1,764 samples, not 1,765.
_ROUNDED = 1e-6


class AudioReader:
    """Reads the audio of a file as arrays (channels, samples) of float32 in [-1, 1].

    As in decord, the constructor decodes all audio into memory. Samples that the encoder added before and after the
    audio are removed. Arrays are `NDArray` objects, unless `bridge.set_bridge` selects another type.

    Args:
        uri: A path or URL, or a file object, which is read to its end.
        ctx: A device, such as ``cpu(0)``. It has no effect, because audio is always decoded on the CPU.
        sample_rate: Sample rate in Hz of the result. 0 or a negative number keeps the file's sample rate.
        mono: Whether to mix all channels to a single one.
        timeout_seconds: Time limit for decoding in seconds. With a limit, a separate process decodes. ``None`` means no
            limit. decord does not have this argument.

    Attributes:
        sample_rate: Sample rate in Hz of the result.

    Raises:
        DECORDError: if the source cannot be read or decoded, or has no audio.

    Example:
        >>> from mediatensor.compat.decord import AudioReader
        >>> reader = AudioReader("video.mp4", sample_rate=16_000)
        >>> reader.shape, reader[:8000].shape, reader.duration()
        ((1, 160000), (1, 8000), 10.0)
    """

    def __init__(
        self,
        uri: Any,
        ctx: DECORDContext = _CPU,
        sample_rate: int = -1,
        mono: bool = True,
        *,
        timeout_seconds: float | None = None,
    ) -> None:
        check_context(ctx)
        sample_rate = whole_number("sample_rate", sample_rate)
        work = partial(_all_samples, source_of(uri), sample_rate if sample_rate > 0 else None, bool(mono))
        samples = run_bounded(work, timeout_seconds)
        self.sample_rate: int = samples.sample_rate
        self._data: Tensor = samples.data
        self._missing = max(round(samples.pts_seconds * samples.sample_rate), 0)
        self._is_padded = False

    def __len__(self) -> int:
        """Return the number of channels, as in decord."""
        return self.shape[0]

    def __getitem__(self, idx: Any) -> Any:
        """Return the samples (channels, N) that a slice selects, or the sample (channels,) at an index.

        Raises:
            OutOfRangeError: if the sample does not exist.
            InvalidArgumentError: if ``idx`` is neither a whole number nor a slice.
        """
        if isinstance(idx, slice):
            wanted = range_of(idx, self.shape[1])
            # Torch cannot slice with a negative step.
            selected = slice(wanted.start, wanted.stop, wanted.step) if wanted.step > 0 else list(wanted)
            return bridge_out(self._data[:, selected].clone())
        (index,) = whole_indices([index_of(idx)], self.shape[1])
        return bridge_out(self._data[:, index].clone())

    def get_batch(self, indices: Any) -> Any:
        """Return the samples (channels, N) at the given N indices, in the order of the indices.

        Args:
            indices: Sample indices, as a list, an array or a tensor. Negative indices count from the end.

        Raises:
            OutOfRangeError: if an index is out of bounds.
            InvalidArgumentError: if ``indices`` is not a list of numbers.

        Example:
            >>> from mediatensor.compat.decord import AudioReader
            >>> AudioReader("video.mp4").get_batch([0, 1, -1]).shape
            (1, 3)
        """
        return bridge_out(self._data[:, whole_indices(indices, self.shape[1])])

    @property
    def shape(self) -> tuple[int, int]:
        """The pair (number of channels, number of samples in each channel)."""
        return self._data.shape[0], self._data.shape[1]

    def duration(self) -> float:
        """Return the duration in seconds, which is the number of samples divided by the sample rate."""
        return self.shape[1] / self.sample_rate

    def add_padding(self) -> int:
        """If the audio starts after time 0, insert silence at the beginning, so that sample 0 is at time 0.

        Only the first call changes the audio.

        Returns:
            The number of silent samples at the beginning, per channel. Repeated calls return the same number.

        Example:
            >>> from mediatensor.compat.decord import AudioReader
            >>> AudioReader("video.mp4").add_padding()
            0
        """
        if not self._is_padded:
            self._data = torch.nn.functional.pad(self._data, (self._missing, 0))
            self._is_padded = True
        return self._missing

    def get_info(self) -> None:
        """Print the number of channels and samples, the sample rate, and the start time of the audio.

        Example:
            >>> from mediatensor.compat.decord import AudioReader
            >>> AudioReader("video.mp4", sample_rate=8000).get_info()
            1 channels, 80000 samples at 8000 Hz, from 0.0 s
        """
        channels, num_samples = self.shape
        begin = 0.0 if self._is_padded else self._missing / self.sample_rate
        print(f"{channels} channels, {num_samples} samples at {self.sample_rate} Hz, from {begin} s")

    def __repr__(self) -> str:
        return f"AudioReader of {self.shape[0]} channels, {self.shape[1]} samples"


def _all_samples(source: Any, sample_rate: int | None, mono: bool) -> AudioSamples:
    with AudioDecoder(source, sample_rate=sample_rate, num_channels=1 if mono else None) as decoder:
        return decoder.get_all_samples()


class AVReader:
    """Reads the frames of a video, each with the audio that is played while the frame is shown.

    Frames are uint8 (H, W, 3), and samples are float32 (channels, samples) in [-1, 1]. Samples before the start of the
    audio stream and in its gaps are silent. ``reader[i]`` returns the pair (samples, frame). A slice returns the same
    as `get_batch`.

    Args:
        uri: A path or URL, or a file object, which is read to its end.
        ctx: ``cpu(0)``, or ``gpu(0)`` for frames on a CUDA device.
        sample_rate: Sample rate in Hz of the audio. 0 or a negative number keeps the file's sample rate.
        mono: Whether to mix all channels to a single one.
        width: Width to which frames are resized; see `VideoReader`.
        height: Height to which frames are resized; see `VideoReader`.
        num_threads: Number of codec threads; see `VideoReader`.
        fault_tol: Number or fraction of frames that are allowed to fail; see `VideoReader`.
        timeout_seconds: Time limit in seconds for each call; see `VideoReader`.

    Raises:
        DECORDError: if the source cannot be read, or has no audio or no video.

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
        check_context(ctx)
        source = source_of(uri)
        sample_rate = whole_number("sample_rate", sample_rate)
        self._video = VideoReader(source, ctx, width, height, num_threads, fault_tol, timeout_seconds=timeout_seconds)
        end_seconds = float(self._video._seconds(slice(None)).max(initial=0))
        work = partial(_samples_until, source, sample_rate if sample_rate > 0 else None, bool(mono), end_seconds)
        self._samples, self._sample_rate = run_bounded(work, timeout_seconds)

    def __len__(self) -> int:
        return len(self._video)

    def __getitem__(self, idx: Any) -> tuple[Any, Any]:
        """Return the audio and the pixels of a frame. For a slice, return the same as `get_batch`.

        Raises:
            OutOfRangeError: if the frame does not exist.
            InvalidArgumentError: if ``idx`` is neither a whole number nor a slice.
        """
        if isinstance(idx, slice):
            return self.get_batch(range_of(idx, len(self)))
        return self._sound_of(index_of(idx)), self._video[idx]

    def get_batch(self, indices: Any) -> tuple[list[Any], Any]:
        """Return the audio and the pixels of several frames.

        Args:
            indices: Frame indices, as a list, an array or a tensor. Negative indices count from the end.

        Returns:
            A pair: a list with an array of float32 samples (channels, samples) for each frame, and an array with the
            frames, uint8 (N, H, W, 3).

        Raises:
            OutOfRangeError: if an index is out of bounds.

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
            max(math.ceil(seconds * self._sample_rate - _ROUNDED), 0) for seconds in self._video._seconds(index)
        )
        return bridge_out(self._samples[:, begin:end].clone())

    def __repr__(self) -> str:
        return f"AVReader of {len(self)} frames and {self._samples.shape[1]} samples"


def _samples_until(source: Any, sample_rate: int | None, mono: bool, end_seconds: float) -> tuple[Tensor, int]:
    """Return the samples (channels, N) from time 0 to ``end_seconds`` or the end of the audio, and their sample rate.

    Samples before the start of the audio and in its gaps are silent.
    """
    with AudioDecoder(source, sample_rate=sample_rate, num_channels=1 if mono else None) as decoder:
        grid = sample_grid(decoder)
        first, last = grid.offset(0.0), grid.offset(end_seconds) + 1
        ((runs, _),) = decoder._existing_runs([(0.0, grid.seconds(last))])
        data, silent_spans = with_silence(grid, first, max(first, last), runs)
        if silent_spans and silent_spans[-1][1] == data.shape[1]:
            data = data[:, : silent_spans[-1][0]].clone()
        return data, grid.sample_rate
