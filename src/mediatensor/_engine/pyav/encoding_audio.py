"""Encoding sound: from float samples in memory to packets of one audio stream."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from ...errors import EncodeError, InvalidArgumentError
from .encoding_options import WITHOUT_LOG, find_encoder
from .opening import error_text
from .sound import mix_gain

__all__ = ["AudioSettings", "AudioTrack"]

# Samples that FFmpeg gets at a time, however they came: so that the file does not depend on that. Large blocks cost
# fewer calls; where packets are as long as the blocks, they must be short enough to be played by themselves.
_BLOCK_SAMPLES, _PACKET_SAMPLES = 1 << 16, 4096
# FFmpeg takes more for nonsense (FF_SANE_NB_CHANNELS).
_MAX_CHANNELS = 512

# A fixed container, whose data are the samples one after the other: how they are split into packets is not seen.
_WAV, _WAV_CODEC = "wav", "pcm_s16le"
_INT16 = np.iinfo(np.int16)

_ANY_FRAME_SIZE = int(av.codec.codec.Capabilities.variable_frame_size)

# PyAV miscounts the planes of eight channels.
_MOST_PLANES = 7

_DEFAULT_BIT_RATE_TOLERANCE = 4_000_000  # FFmpeg's, where PyAV has its own
_ENCODERS = "aac, libmp3lame, libopus, flac, alac and pcm_s16le"
_FLOAT_FORMATS = ("fltp", "flt", "dblp", "dbl")
_SAMPLE_FORMATS = (*_FLOAT_FORMATS, "s32p", "s32")  # the best first
# FFmpeg's choice for matroska where it was built without Vorbis takes three sample rates and loses the exact length.
_DEFAULT_CODECS = {("matroska", "ac3"): "aac"}


@dataclass(frozen=True)
class AudioSettings:
    """What an audio stream is to be.

    Attributes:
        sample_rate: Samples per second of the input.
        num_channels: Channels of the input.
        bit_rate: Bits a second; ``None`` for the encoder's default.
        out_num_channels: In the file.
        out_sample_rate: In the file.
        codec: Name of an encoder or of a codec; ``None`` for the container's default.
    """

    sample_rate: int
    num_channels: int
    bit_rate: int | None
    out_num_channels: int
    out_sample_rate: int
    codec: str | None = None


class AudioTrack:
    """An audio stream of a container that is being written.

    Raises:
        InvalidArgumentError: if the codec does not exist, does not go with the container, or does not take the rate.
    """

    def __init__(self, container: Any, container_name: str, settings: AudioSettings) -> None:
        self._settings = settings
        default = container.default_audio_codec
        default = _DEFAULT_CODECS.get((container_name, default), default)
        codec = find_encoder("audio", settings.codec, default, container_name, known=_ENCODERS)
        self.codec_name: str = codec.name
        _check_rate(codec, settings.out_sample_rate)
        if settings.bit_rate is not None and settings.bit_rate < 0:
            raise InvalidArgumentError(f"bit_rate={settings.bit_rate} must be >= 0, in bits a second.")
        #: Unit of the times of packets.
        self.time_base = Fraction(1, settings.out_sample_rate)
        self._layout = _layout(settings.num_channels)
        has_own_packets = container_name == _WAV or not codec.capabilities & _ANY_FRAME_SIZE
        self._block_samples = _BLOCK_SAMPLES if has_own_packets else _PACKET_SAMPLES
        self._block = np.zeros((settings.num_channels, self._block_samples), np.float32)
        self._filled = 0
        self._num_samples = 0
        # FFmpeg mixes floats to fewer channels so that they can be louder than full scale, and whole numbers not.
        self._gain = 1.0
        if settings.out_num_channels < settings.num_channels and _sample_format(codec) in _FLOAT_FORMATS:
            with suppress(av.FFmpegError, ValueError):  # refused when it is opened
                self._gain = mix_gain(self._layout, settings.num_channels, settings.out_num_channels)
        is_unchanged = (settings.num_channels, settings.sample_rate) == (
            settings.out_num_channels,
            settings.out_sample_rate,
        )
        self._is_plain_wav = is_unchanged and (container_name, codec.name) == (_WAV, _WAV_CODEC)
        self._stream = self._add_stream(container, codec)

    def _add_stream(self, container: Any, codec: Any) -> Any:
        settings = self._settings
        defaults: Any = av.CodecContext.create(codec.name, "w")
        bit_rate = defaults.bit_rate if settings.bit_rate is None else settings.bit_rate
        try:
            stream = container.add_stream(
                codec.name,
                rate=settings.out_sample_rate,
                bit_rate=bit_rate or 0,
                bit_rate_tolerance=_DEFAULT_BIT_RATE_TOLERANCE,
                time_base=self.time_base,
            )
        except ValueError as error:
            raise InvalidArgumentError(f"The codec {codec.name} does not go with the container: {error}.") from None
        context = stream.codec_context
        context.thread_type, context.thread_count = "AUTO", 0
        context.layout = _layout(settings.out_num_channels)
        context.format = _sample_format(codec)
        return stream

    def open(self) -> dict[str, str]:
        """Open the encoder; no option is left over."""
        settings = self._settings
        context = self._stream.codec_context
        context.options = dict(WITHOUT_LOG)
        try:
            context.open()
        except (av.FFmpegError, ValueError) as error:
            if settings.out_num_channels > 2:
                raise InvalidArgumentError(
                    f"Desired number of channels ({settings.out_num_channels}) is not supported by the "
                    f"{self.codec_name} encoder ({error_text(error)}), or not with {settings.out_sample_rate} samples "
                    "a second; pass fewer channels."
                ) from error
            raise EncodeError(
                f"The {self.codec_name} encoder could not be opened ({error_text(error)}) for "
                f"{settings.out_num_channels} channels, {settings.out_sample_rate} samples a second and "
                f"bit_rate={settings.bit_rate}. It may refuse one of these."
            ) from error
        return {}

    def encode(self, samples: NDArray[np.float32]) -> list[Any]:
        """The packets that come of more samples, (C, N)."""
        packets: list[Any] = []
        size, at = self._block_samples, 0
        while at < samples.shape[1]:
            taken = min(size - self._filled, samples.shape[1] - at)
            piece = samples[:, at : at + taken]
            at += taken
            if taken == size:
                packets += self._encode_block(piece)
                continue
            self._block[:, self._filled : self._filled + taken] = piece
            self._filled += taken
            if self._filled == size:
                packets += self._encode_block(self._block)
                self._filled = 0
        return packets

    def _encode_block(self, samples: NDArray[np.float32]) -> list[Any]:
        settings = self._settings
        at, self._num_samples = self._num_samples, self._num_samples + samples.shape[1]
        if self._is_plain_wav:
            return [self._packet_of_integers(samples, at)]
        if self._gain != 1.0:
            samples = samples * np.float32(self._gain)
        if settings.num_channels <= _MOST_PLANES:
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="fltp", layout=self._layout)
        else:
            packed = np.ascontiguousarray(samples.T).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(packed, format="flt", layout=self._layout)
        frame.sample_rate, frame.pts = settings.sample_rate, at
        frame.time_base = Fraction(1, settings.sample_rate)
        packets: list[Any] = self._stream.encode(frame)
        return packets

    def _packet_of_integers(self, samples: NDArray[np.float32], at: int) -> Any:
        """What FFmpeg's converter and its encoder of this codec make of samples, without their copies."""
        integers = np.empty((samples.shape[1], len(samples)), "<i2")
        values = np.empty(samples.shape[1], np.float32)
        for number, channel in enumerate(samples):
            np.multiply(channel, -int(_INT16.min), out=values)
            np.rint(values, out=values)
            np.clip(values, _INT16.min, _INT16.max, out=values)
            integers[:, number] = values
        data: Any = integers  # its type hints know no other buffers than bytes
        packet = av.Packet(data)
        packet.pts = packet.dts = at
        packet.duration, packet.time_base = samples.shape[1], self.time_base
        packet.stream, packet.is_keyframe = self._stream, True
        return packet

    def flush(self) -> list[Any]:
        """The last packets."""
        packets = self._encode_block(self._block[:, : self._filled]) if self._filled else []
        with suppress(EOFError):  # where nothing is converted PyAV flushes twice
            for packet in self._stream.codec_context.encode_lazy(None):
                packet.stream = self._stream
                packets.append(packet)
        return packets


def _check_rate(codec: Any, sample_rate: int) -> None:
    rates = codec.audio_rates
    if rates and sample_rate not in rates:
        raise InvalidArgumentError(
            f"invalid sample rate={sample_rate}: the {codec.name} encoder takes {', '.join(map(str, sorted(rates)))}. "
            "Pass one of them as the sample rate of the output, and the samples are resampled."
        )


def _sample_format(codec: Any) -> str:
    """The one that keeps most of float samples, of those that the encoder takes."""
    names = [sample_format.name for sample_format in codec.audio_formats or ()]
    return next((name for name in _SAMPLE_FORMATS if name in names), names[0] if names else "s16")


def _layout(num_channels: int) -> str:
    """FFmpeg's usual layout of so many channels, or none in particular where it knows none."""
    if num_channels > _MAX_CHANNELS:
        raise InvalidArgumentError(
            f"Desired number of channels ({num_channels}) is more than FFmpeg can write, which is {_MAX_CHANNELS}. "
            "Samples are expected as (C, N), channels first."
        )
    layout = f"{num_channels}c"
    with suppress(ValueError):
        av.AudioLayout(layout)
        return layout
    return f"{num_channels}C"
