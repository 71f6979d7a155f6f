"""Changing the rate and the channels of samples with FFmpeg's resampler."""

from __future__ import annotations

import av
import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgumentError
from .opening import error_text
from .sound import SampleForm

__all__ = ["MAX_CHANNELS", "MAX_RATE_RATIO", "MAX_SAMPLE_RATE", "Resampler"]

#: What FFmpeg's resampler accepts.
MAX_CHANNELS = 64

#: Samples per second that are converted from or to. The resampler's filter takes memory by the ratio of the rates, and
#: headers claim any.
MAX_SAMPLE_RATE = 1_536_000

#: How many samples may become of one: a small file whose header claims a rate of 1 would fill any memory.
MAX_RATE_RATIO = 1 << 10


class Resampler:
    """Samples of one contiguous run at another rate, with other channels.

    The first sample of the result is played when the first one of the input is.

    Args:
        form: Of the input.
        sample_rate: Of the result.
        num_channels: Of the result, in FFmpeg's default layout for that number. The same number keeps the layout.

    Raises:
        InvalidArgumentError: if FFmpeg cannot convert to what was asked for, a rate is beyond `MAX_SAMPLE_RATE`, or the
            result would have more than `MAX_RATE_RATIO` times the samples.
    """

    def __init__(self, form: SampleForm, sample_rate: int, num_channels: int) -> None:
        self._form = form
        self._sample_rate = sample_rate
        self._num_channels = num_channels
        layout = form.layout if num_channels == form.num_channels else f"{num_channels}c"
        self._blocks: list[NDArray[np.float32]] = []
        self._is_empty = True
        if sample_rate != form.sample_rate > MAX_SAMPLE_RATE:
            raise InvalidArgumentError(
                f"The stream has {form.sample_rate} samples per second; more than {MAX_SAMPLE_RATE} are not converted "
                f"to others (sample_rate={sample_rate}). Pass sample_rate=None for them as they are."
            )
        if sample_rate > form.sample_rate * MAX_RATE_RATIO:
            raise InvalidArgumentError(
                f"The stream has {form.sample_rate} samples per second; sample_rate={sample_rate} is more than "
                f"{MAX_RATE_RATIO} times that. Pass sample_rate=None for them as they are."
            )
        try:
            self._resampler = av.AudioResampler(format="fltp", layout=layout, rate=sample_rate)
        except (av.FFmpegError, ValueError) as error:
            raise self._refusal(error) from error

    def push(self, samples: NDArray[np.float32]) -> None:
        """Take the next samples, (channels, length).

        Raises:
            InvalidArgumentError: if FFmpeg cannot convert to what was asked for.
        """
        if not samples.shape[1]:
            return
        self._is_empty = False
        frame = av.AudioFrame(format="fltp", layout=self._form.layout, samples=samples.shape[1])
        for plane, channel in zip(frame.planes, samples, strict=False):
            np.frombuffer(memoryview(plane), np.float32, samples.shape[1])[:] = channel
        frame.sample_rate = self._form.sample_rate
        self._convert(frame)

    def finish(self) -> NDArray[np.float32]:
        """The result, (channels, length); the last thing to ask for."""
        if not self._is_empty:
            self._convert(None)
        return np.concatenate([np.empty((self._num_channels, 0), np.float32), *self._blocks], axis=1)

    def _convert(self, frame: av.AudioFrame | None) -> None:
        try:
            for block in self._resampler.resample(frame):
                # `AudioFrame.to_ndarray` crashes on eight planes.
                planes = (memoryview(block.planes[i]) for i in range(self._num_channels))
                self._blocks.append(np.stack([np.frombuffer(plane, np.float32, block.samples) for plane in planes]))
        except (av.FFmpegError, ValueError) as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"Couldn't initialize SwrContext: FFmpeg cannot convert {self._form.num_channels} channels at "
            f"{self._form.sample_rate} Hz to num_channels={self._num_channels} at sample_rate={self._sample_rate} "
            f"({error_text(error)}). 1, 2, 6 and 8 channels always work."
        )
