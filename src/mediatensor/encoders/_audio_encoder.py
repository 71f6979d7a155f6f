"""`AudioEncoder`: encodes samples into a file in one call."""

from __future__ import annotations

import io
import os
from typing import Any, NoReturn

import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..frames import AudioSamples
from ._encoder import Encoder, positive_whole
from ._streams import AudioStream, channels_and_samples

__all__ = ["AudioEncoder"]


class AudioEncoder:
    """Encodes samples into an audio file, a tensor or a file object.

    The container selects the codec. wav and aiff contain 16-bit PCM: a sample x becomes the nearest integer to 32768 x,
    clipped to 16 bits. flac is lossless for 24 bits; samples are rounded down to these. mp3 contains MP3, m4a and mp4
    contain AAC, opus and webm contain Opus. `Encoder` also accepts samples piece by piece, and other codecs.

    Args:
        samples: (C, N) or (N,) float32 in [-1, 1], on any device; or `AudioSamples`.
        sample_rate: Samples a second; not needed for `AudioSamples`, which have it.

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
                    f"sample_rate = {sample_rate} is not that of the AudioSamples, {samples.sample_rate}. Leave it "
                    "out: the sample_rate of to_file() resamples."
                )
            sample_rate = samples.sample_rate
        elif sample_rate is None:
            raise InvalidArgumentError("sample_rate is needed for a tensor of samples; only AudioSamples know it.")
        self._sample_rate = positive_whole("sample_rate", sample_rate)

    def to_file(
        self,
        dest: str | os.PathLike[str],
        *,
        bit_rate: int | None = None,
        num_channels: int | None = None,
        sample_rate: int | None = None,
    ) -> None:
        """Write a file. It appears, or replaces another one, when it is complete.

        Args:
            dest: A path; its extension selects the container.
            bit_rate: Bits a second; by default the encoder's own.
            num_channels: Number of channels in the file; by default that of the samples.
            sample_rate: Samples a second in the file; by default that of the samples.

        Raises:
            InvalidArgumentError: if an argument is not accepted.
            EncodeError: if FFmpeg cannot encode the samples like this.
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
        """Return the bytes of the file, a 1-D uint8 tensor.

        Args:
            format: Name of the container, such as ``"wav"`` or ``"mp3"``.
            bit_rate, num_channels, sample_rate: As for `to_file`.

        Raises:
            InvalidArgumentError, EncodeError: as `to_file`.

        Example:
            >>> import torch
            >>> from mediatensor.encoders import AudioEncoder
            >>> file = AudioEncoder(torch.zeros(1, 8_000), sample_rate=8_000).to_tensor("wav")
            >>> bytes(file[:4].tolist())
            b'RIFF'
        """
        file = io.BytesIO()
        self.to_file_like(file, format, bit_rate=bit_rate, num_channels=num_channels, sample_rate=sample_rate)
        return torch.frombuffer(file.getbuffer(), dtype=torch.uint8)

    def to_file_like(
        self,
        file_like: Any,
        format: str,
        *,
        bit_rate: int | None = None,
        num_channels: int | None = None,
        sample_rate: int | None = None,
    ) -> None:
        """Write to a file object.

        Args:
            file_like: A binary file object with ``write`` and ``seek``, as for `Encoder.open_file_like`.
            format: Name of the container, such as ``"wav"`` or ``"mp3"``.
            bit_rate, num_channels, sample_rate: As for `to_file`.

        Raises:
            SourceTypeError: if it cannot be written to.
            InvalidArgumentError, EncodeError, WriteError: as `to_file`.

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
            out_num_channels=num_channels,
            out_sample_rate=sample_rate,
        )
        return encoder, stream

    def __reduce__(self) -> NoReturn:
        raise TypeError("An AudioEncoder cannot be pickled; send its samples instead.")
