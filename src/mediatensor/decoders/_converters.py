"""`ColorConverter` converts decoded frames to RGB, and `AudioConverter` converts decoded samples to floats."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .._engine.audio.plan import check_downmix, check_output_format
from .._engine.common.checks import check_choice, shown
from .._engine.common.devices import resolve_device
from .._engine.common.locks import ForkSafeLock
from .._engine.pyav.audio import Downmix, Resampler, SampleForm, as_float
from ..backends import PictureConverter, get_backend
from ..errors import DeviceError, InvalidArgumentError
from ..frames import AudioSamples, Frame
from ._packet_decoders import NotPickled, RawAudioSamples, RawFrame


class ColorConverter(NotPickled):
    """Converts a `RawFrame` to an upright RGB `Frame`, with the same pixels that `VideoDecoder` returns.

    One converter can convert the frames of several streams, if all of them are on ``device``.

    Args:
        device: Device of the raw frames and of the results; ``None`` is torch's default device.
        output_dtype: ``torch.uint8`` (0 to 255), ``torch.float32`` (0 to 1, computed with 16-bit precision), or
            ``"auto"``: float32 for frames of more than 8 bits per component, uint8 for all other frames.

    Raises:
        InvalidArgumentError: if an argument is not accepted.

    Example:
        >>> from mediatensor.decoders import ColorConverter, Demuxer
        >>> demuxer = Demuxer("video.mp4")
        >>> decoder, converter = demuxer.streams[0].make_decoder(), ColorConverter()
        >>> frames = (converter.convert(raw) for packet in demuxer for raw in decoder.decode(packet))
        >>> next(frames).data.shape
        torch.Size([3, 360, 640])
    """

    _how_to_send = "Make one in each process."

    def __init__(
        self, device: str | torch.device | None = None, output_dtype: torch.dtype | Literal["auto"] = torch.uint8
    ) -> None:
        check_choice("output_dtype", output_dtype, (torch.uint8, torch.float32, "auto"))
        self._device = resolve_device(device)
        self._output_dtype = output_dtype
        self._lock = ForkSafeLock()
        # Converters keep scratch memory. There is one for each combination of decoding backend and float output.
        self._converters: dict[tuple[str, bool], PictureConverter] = {}

    def convert(self, raw_frame: RawFrame) -> Frame:
        """Convert a raw frame to a `Frame` with upright RGB ``data``, (3, H, W), uint8 or float32.

        ``output_dtype`` decides the dtype. ``data`` is a view of channels-last memory.

        Raises:
            InvalidArgumentError: if the argument is not a `RawFrame`.
            DeviceError: if the frame is on another device.
            DecodeError: if FFmpeg cannot convert the frame's colours.
        """
        if not isinstance(raw_frame, RawFrame):
            raise InvalidArgumentError(f"raw_frame must be a RawFrame (got {shown(raw_frame)}).")
        if raw_frame._device != self._device:
            raise DeviceError(
                f"The frame is on device {str(raw_frame._device)!r}, but the converter is on {str(self._device)!r}. "
                "Pass the same device to make_decoder() and ColorConverter()."
            )
        with self._lock:
            is_auto = self._output_dtype == "auto"
            is_float = raw_frame.bit_depth > 8 if is_auto else self._output_dtype is torch.float32
            key = raw_frame._backend, is_float
            if key not in self._converters:
                backend = get_backend(raw_frame._backend)
                self._converters[key] = backend.converter(self._device, (), is_float=is_float)
            converter = self._converters[key]
            picture, orientation = raw_frame._picture, raw_frame._orientation
            pixels = converter.empty(1, *converter.output_size(picture, orientation))
            converter.write(picture, orientation, pixels[0])
        data = pixels[0] if isinstance(pixels, Tensor) else torch.from_numpy(pixels[0])
        return Frame(data.permute(2, 0, 1), raw_frame.pts_seconds, raw_frame.duration_seconds)


class AudioConverter(NotPickled):
    """Converts `RawAudioSamples` to float32 `AudioSamples` in [-1, 1]. It can also change the sample rate and channels.

    Feed a converter the samples of one stream in order. If it resamples, it holds some samples back; `drain` returns
    them at the end. The first result starts at the time of the first sample that you feed after creation or `reset`.
    Each later result starts at the end of the previous one.

    Args:
        sample_rate: Samples per second of the result; ``None`` keeps the sample rate of the stream.
        num_channels: Number of channels of the result; ``None`` keeps the channels of the stream.
        downmix: How to mix to fewer channels, ``"sum"`` or ``"mean"``; see `AudioDecoder`.

    Raises:
        InvalidArgumentError: if an argument is not accepted.

    Example:
        >>> from mediatensor.decoders import AudioConverter, Demuxer
        >>> demuxer = Demuxer("video.mp4", streams="audio")
        >>> decoder, converter = demuxer.streams[0].make_decoder(), AudioConverter(sample_rate=16_000)
        >>> parts = [converter.convert(raw) for packet in demuxer for raw in decoder.decode(packet)]
        >>> parts += [converter.convert(raw) for raw in decoder.drain()] + [converter.drain()]
        >>> round(sum(part.duration_seconds for part in parts), 1), parts[0].sample_rate
        (10.0, 16000)
        >>> converter.reset()
    """

    _how_to_send = "Make one in each process."

    def __init__(
        self, sample_rate: int | None = None, num_channels: int | None = None, *, downmix: Downmix = "sum"
    ) -> None:
        check_downmix(downmix)
        self._downmix: Downmix = downmix
        self._wanted_rate, self._wanted_channels = check_output_format(sample_rate, num_channels)
        self._lock = ForkSafeLock()
        self._start_over()

    def _start_over(self) -> None:
        self._form: SampleForm | None = None
        self._resampler: Resampler | None = None
        self._generation: int | None = None
        self._is_drained = False
        self._begin_seconds, self._num_given = 0.0, 0

    def convert(self, raw_samples: RawAudioSamples) -> AudioSamples:
        """Feed the next samples of the stream, and return the converted samples that are ready.

        The result is `AudioSamples` with ``data`` float32 (channels, samples). If the converter changes the sample
        rate, the number of returned samples differs from the number fed. A call can return 0 samples, because the
        resampler holds some samples back.

        Raises:
            InvalidArgumentError: if the argument is not `RawAudioSamples`, if its rate or channels differ from earlier
                samples, if `reset` was not called after a `Demuxer.seek`, if the converter has been drained, or if
                FFmpeg cannot convert to this format.
        """
        if not isinstance(raw_samples, RawAudioSamples):
            raise InvalidArgumentError(f"raw_samples must be RawAudioSamples (got {shown(raw_samples)}).")
        with self._lock:
            if self._is_drained:
                raise InvalidArgumentError("This converter has been drained. Call reset() to convert more samples.")
            self._begin(raw_samples)
            if self._generation != raw_samples._generation:
                raise InvalidArgumentError(
                    "These samples do not follow the previous samples: the demuxer seeked since the last reset() of "
                    "this converter, or they come from another demuxer. After seek(), call reset() on every converter."
                )
            samples = as_float(raw_samples.data.numpy())
            if self._resampler is not None:
                self._resampler.push(samples)
                samples = self._resampler.take()
            return self._make_samples(samples)

    def _begin(self, raw: RawAudioSamples) -> None:
        form = SampleForm(raw.sample_rate, raw._layout or f"{raw.num_channels}c", raw.num_channels)
        if self._form is not None and self._form != form:
            raise InvalidArgumentError(
                f"The samples change from {self._form.sample_rate} Hz and {self._form.num_channels} channels "
                f"({self._form.layout}) to {form.sample_rate} Hz and {form.num_channels} ({form.layout}). Call drain() "
                "to get the remaining samples, and then reset()."
            )
        if self._form is None:
            rate, channels = self._wanted_rate or form.sample_rate, self._wanted_channels or form.num_channels
            if (rate, channels) != (form.sample_rate, form.num_channels):
                self._resampler = Resampler(form, rate, channels, self._downmix)
            self._form, self._generation = form, raw._generation
            self._begin_seconds = raw.pts_seconds

    def _make_samples(self, samples: Any) -> AudioSamples:
        assert self._form is not None
        rate = self._wanted_rate or self._form.sample_rate
        pts_seconds = self._begin_seconds + self._num_given / rate
        self._num_given += samples.shape[1]
        return AudioSamples(torch.from_numpy(samples), pts_seconds, samples.shape[1] / rate, rate)

    def drain(self) -> AudioSamples:
        """Return the samples that the resampler still holds at the end of the stream.

        If the converter keeps the sample rate, these are 0 samples. After `drain`, call `reset` before you convert more
        samples.

        Returns:
            `AudioSamples`: ``data`` float32 (channels, samples).

        Raises:
            InvalidArgumentError: if nothing has been converted yet.
        """
        with self._lock:
            if self._form is None:
                raise InvalidArgumentError(
                    "This converter has not converted any samples, so there is nothing to drain."
                )
            if self._is_drained or self._resampler is None:
                channels = self._wanted_channels or self._form.num_channels
                samples = np.empty((channels, 0), np.float32)
            else:
                samples = self._resampler.finish()
            self._is_drained = True
            return self._make_samples(samples)

    def reset(self) -> None:
        """Discard buffered samples. After this, you can feed samples from another position or another stream."""
        with self._lock:
            self._start_over()
