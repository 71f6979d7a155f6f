"""`VideoEncoder` and `AudioEncoder`, which encode all frames or samples in one call."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..frames import AudioSamples, FrameBatch
from ._encoder import AudioStream, Encoder, VideoStream, channels_and_samples, check_frames, positive_whole
from ._session import batch_times, even_frame_rate, frame_rate_fraction, mean_frame_rate


class VideoEncoder:
    """Encodes frames to a video file, a tensor or a file object.

    Frames on the CPU are read one by one from the given tensor, which is not copied. To add frames in chunks, or to add
    audio, use `Encoder`. Its documentation also says which colour space videos have and how files are written.

    Args:
        frames: RGB frames, uint8 (N, 3, H, W), as a tensor on any device or a `FrameBatch`. They are encoded on the
            CPU, unless the ``codec`` of `to_file` names a hardware encoder.
        frame_rate: Frames per second, required for a tensor. By default, the frames of a `FrameBatch` keep their times.
            Evenly spaced times stay exact; other times are rounded, or not supported, as in `Encoder.add_video`. In the
            file, the first frame is at time 0.

    Raises:
        InvalidArgumentError: if the frames have another shape or type, or the rate is not positive.

    Example:
        >>> import torch
        >>> from mediatensor.encoders import VideoEncoder
        >>> frames = torch.zeros(10, 3, 64, 96, dtype=torch.uint8)
        >>> VideoEncoder(frames, frame_rate=25).to_tensor("mp4").dtype
        torch.uint8
    """

    def __init__(self, frames: Tensor | FrameBatch, *, frame_rate: float | Fraction | None = None) -> None:
        self._data = check_frames(frames)
        if len(self._data) == 0:
            raise InvalidArgumentError("There are no frames to encode: the first dimension of frames is 0.")
        if frame_rate is not None:
            self._follows_rate, self._rate = True, frame_rate_fraction(frame_rate)
        elif isinstance(frames, FrameBatch):
            pts, durations = batch_times(frames)
            even = even_frame_rate(pts, durations)
            self._follows_rate, self._rate = even is not None, even or mean_frame_rate(pts)
        else:
            raise InvalidArgumentError("frame_rate is required for a tensor of frames; only a FrameBatch has times.")
        self._frames = frames

    def to_file(
        self,
        dest: str | os.PathLike[str],
        *,
        codec: str | None = None,
        pixel_format: str | None = None,
        crf: float | None = None,
        preset: str | int | None = None,
        extra_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the video to a file. When the file is complete, it appears at ``dest`` and replaces any older file.

        Args:
            dest: A path (``str`` or ``os.PathLike``). Its extension selects the container.
            codec, pixel_format, crf, preset, extra_options: Settings of the encoder and the container, as in
                `Encoder.add_video`.

        Raises:
            InvalidArgumentError: if an argument is not accepted.
            EncodeError: if FFmpeg cannot encode the frames with these settings.
            WriteError: if the file cannot be written.

        Example:
            >>> import torch
            >>> from mediatensor.encoders import VideoEncoder
            >>> encoder = VideoEncoder(torch.zeros(10, 3, 64, 96, dtype=torch.uint8), frame_rate=25)
            >>> encoder.to_file("out.mp4", codec="libx264", crf=20, preset="fast")
        """
        encoder, stream = self._encoder(codec, pixel_format, crf, preset, extra_options)
        with encoder.open_file(dest):
            stream.add_frames(self._frames)

    def to_tensor(
        self,
        format: str,
        *,
        codec: str | None = None,
        pixel_format: str | None = None,
        crf: float | None = None,
        preset: str | int | None = None,
        extra_options: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """Return the bytes of the video file as a 1-D uint8 tensor. For other arguments and the errors, see `to_file`.

        Args:
            format: Name of the container, such as ``"mp4"`` or ``"mkv"``.

        Example:
            >>> import torch
            >>> from mediatensor.decoders import VideoDecoder
            >>> from mediatensor.encoders import VideoEncoder
            >>> file = VideoEncoder(torch.zeros(10, 3, 64, 96, dtype=torch.uint8), frame_rate=25).to_tensor("mp4")
            >>> len(VideoDecoder(file))
            10
        """
        file = io.BytesIO()
        encoder, stream = self._encoder(codec, pixel_format, crf, preset, extra_options)
        with encoder.open_file_like(file, format=format):
            stream.add_frames(self._frames)
        return _as_tensor(file)

    def to_file_like(
        self,
        file_like: Any,
        format: str,
        *,
        codec: str | None = None,
        pixel_format: str | None = None,
        crf: float | None = None,
        preset: str | int | None = None,
        extra_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the video to a file object. For other arguments and the errors, see `to_file`.

        Args:
            file_like: A binary file object with ``write`` and ``seek``, which stays open; see `Encoder.open_file_like`.
            format: Name of the container, such as ``"mp4"`` or ``"mkv"``.

        Raises:
            SourceTypeError: if ``file_like`` cannot be written to.

        Example:
            >>> import io, torch
            >>> from mediatensor.encoders import VideoEncoder
            >>> file = io.BytesIO()
            >>> VideoEncoder(torch.zeros(10, 3, 64, 96, dtype=torch.uint8), frame_rate=25).to_file_like(file, "mp4")
            >>> file.getvalue()[4:8]
            b'ftyp'
        """
        encoder, stream = self._encoder(codec, pixel_format, crf, preset, extra_options)
        with encoder.open_file_like(file_like, format=format):
            stream.add_frames(self._frames)

    def _encoder(self, *options: Any) -> tuple[Encoder, VideoStream]:
        encoder = Encoder()
        height, width = self._data.shape[2:]
        return encoder, encoder._add_video(height, width, self._rate, self._follows_rate, *options)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A VideoEncoder cannot be pickled; send its frames instead.")


def _as_tensor(file: io.BytesIO) -> Tensor:
    # `torch.frombuffer` rejects an empty file, which a format without header has if there are no samples.
    return torch.from_numpy(np.asarray(file.getbuffer()))


class AudioEncoder:
    """Encodes samples to an audio file, a tensor or a file object.

    The container determines the codec. wav and aiff contain 16-bit PCM: a sample x becomes the integer nearest to
    ``32768 * x``, clipped to 16 bits. flac contains 24-bit samples, rounded down. mp3 contains MP3, m4a and mp4 contain
    AAC, opus and webm contain Opus. To add samples in chunks, or to use another codec, use `Encoder`.

    Args:
        samples: `AudioSamples` or a tensor on any device: float32 (channels, samples) in [-1, 1], or (samples,) for one
            channel.
        sample_rate: Samples per second of ``samples``. It is required for a tensor.

    Raises:
        InvalidArgumentError: if the samples have another shape or type, or the rate is not positive.

    Example:
        >>> import torch
        >>> from mediatensor.encoders import AudioEncoder
        >>> AudioEncoder(torch.zeros(2, 8000), sample_rate=8000).to_tensor("wav").shape[0] > 32_000
        True
    """

    def __init__(self, samples: Tensor | AudioSamples, *, sample_rate: int | None = None) -> None:
        self._samples = channels_and_samples(samples)
        if isinstance(samples, AudioSamples):
            if sample_rate not in (None, samples.sample_rate):
                raise InvalidArgumentError(
                    f"sample_rate = {sample_rate} differs from the rate of the AudioSamples, {samples.sample_rate}. "
                    "Leave it out. To resample, pass sample_rate to to_file()."
                )
            sample_rate = samples.sample_rate
        elif sample_rate is None:
            raise InvalidArgumentError("sample_rate is required for a tensor of samples; only AudioSamples have one.")
        self._sample_rate = positive_whole("sample_rate", sample_rate)

    def to_file(
        self,
        dest: str | os.PathLike[str],
        *,
        bit_rate: int | None = None,
        num_channels: int | None = None,
        sample_rate: int | None = None,
    ) -> None:
        """Write the audio to a file. When the file is complete, it appears at ``dest`` and replaces any older file.

        Args:
            dest: A path (``str`` or ``os.PathLike``). Its extension selects the container.
            bit_rate: Bits per second; by default, the encoder chooses. Lossless codecs ignore it.
            num_channels: Number of channels in the file; by default the number in the samples. The weights for mixing
                to fewer channels add up to at most 1, which prevents clipping: stereo becomes the mean.
            sample_rate: Samples per second in the file; by default the rate of the samples.

        Raises:
            InvalidArgumentError: if an argument is not accepted.
            EncodeError: if FFmpeg cannot encode the samples with these settings.
            WriteError: if the file cannot be written.

        Example:
            >>> import torch
            >>> from mediatensor.encoders import AudioEncoder
            >>> AudioEncoder(torch.zeros(2, 48_000), sample_rate=48_000).to_file("out.mp3", bit_rate=192_000)
        """
        encoder, stream = self._encoder(bit_rate, num_channels, sample_rate)
        with encoder.open_file(dest):
            stream.add_samples(self._samples)

    def to_tensor(
        self,
        format: str,
        *,
        bit_rate: int | None = None,
        num_channels: int | None = None,
        sample_rate: int | None = None,
    ) -> Tensor:
        """Return the bytes of the audio file as a 1-D uint8 tensor. For other arguments and the errors, see `to_file`.

        Args:
            format: Name of the container, such as ``"wav"`` or ``"mp3"``.
        """
        file = io.BytesIO()
        self.to_file_like(file, format, bit_rate=bit_rate, num_channels=num_channels, sample_rate=sample_rate)
        return _as_tensor(file)

    def to_file_like(
        self,
        file_like: Any,
        format: str,
        *,
        bit_rate: int | None = None,
        num_channels: int | None = None,
        sample_rate: int | None = None,
    ) -> None:
        """Write the audio to a file object. For other arguments and the errors, see `to_file`.

        Args:
            file_like: A binary file object with ``write`` and ``seek``, which stays open; see `Encoder.open_file_like`.
            format: Name of the container, such as ``"wav"`` or ``"mp3"``.

        Raises:
            SourceTypeError: if ``file_like`` cannot be written to.

        Example:
            >>> import io, torch
            >>> from mediatensor.encoders import AudioEncoder
            >>> file = io.BytesIO()
            >>> AudioEncoder(torch.zeros(1, 8_000), sample_rate=8_000).to_file_like(file, "flac")
            >>> file.getvalue()[:4]
            b'fLaC'
        """
        encoder, stream = self._encoder(bit_rate, num_channels, sample_rate)
        with encoder.open_file_like(file_like, format=format):
            stream.add_samples(self._samples)

    def _encoder(
        self, bit_rate: int | None, num_channels: int | None, sample_rate: int | None
    ) -> tuple[Encoder, AudioStream]:
        encoder = Encoder()
        stream = encoder.add_audio(
            sample_rate=self._sample_rate,
            num_channels=self._samples.shape[0],
            bit_rate=bit_rate,
            out_num_channels=positive_whole("num_channels", num_channels, self._samples.shape[0]),
            out_sample_rate=positive_whole("sample_rate", sample_rate, self._sample_rate),
        )
        return encoder, stream

    def __reduce__(self) -> NoReturn:
        raise TypeError("An AudioEncoder cannot be pickled; send its samples instead.")
