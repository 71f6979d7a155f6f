"""Reading packets and samples of one audio stream."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

import av
import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidArgumentError
from .demuxer import set_side_data
from .opening import error_text
from .packet_decoder import PacketDecoder, UndecodablePacketError, configure_audio_codec, let_rest
from .reading import StreamReader

__all__ = [
    "MAX_CHANNELS",
    "MAX_RATE_RATIO",
    "MAX_SAMPLE_RATE",
    "AudioReader",
    "Downmix",
    "Resampler",
    "SampleForm",
    "SampleQueue",
    "as_float",
    "has_frame_threads",
    "mix_gain",
    "samples_of",
    "set_trimming",
]

# Full scale of each sample format; unsigned bytes are centred at 128.
_DTYPES = {"u8": np.uint8, "s16": np.int16, "s32": np.int32, "s64": np.int64, "flt": np.float32, "dbl": np.float64}
_FULL_SCALE = {"u8": 1 << 7, "s16": 1 << 15, "s32": 1 << 31, "s64": 1 << 63}

# Side data of a packet: samples to drop in front and at the end (32 bits each), and why (two bytes).
_TRIMMING = struct.Struct("<IIBB")


#: How channels are mixed to fewer: with FFmpeg's weights, or with these divided so that they add up to 1 at most.
Downmix = Literal["sum", "mean"]

# Samples of a block with which weights are measured.
_PROBE_LENGTH = 16


class SampleForm(NamedTuple):
    """What must stay the same for samples to be joined."""

    sample_rate: int
    layout: str
    num_channels: int

    @classmethod
    def of_frame(cls, frame: Any) -> SampleForm:
        return cls(int(frame.sample_rate), str(frame.layout.name), int(frame.layout.nb_channels))


class AudioReader(StreamReader):
    """A demuxer of one stream of sound, with what decodes its packets."""

    media_type = "audio"

    #: Whether numbers or times of packets start again midway, because files were joined.
    time_restarts = False

    #: How long such a file is in seconds, as its parts say; ``None`` if they do not.
    joined_seconds: float | None = None

    # What the container says; decoding changes what the codec says.
    _stated_form: tuple[int, Any] | None = None

    def _configure_codec(self, context: Any) -> None:
        configure_audio_codec(context, self._num_threads)

    def open(self) -> None:
        super().open()
        has_form = self._context.sample_rate and self._context.layout.nb_channels
        self._stated_form = (self._context.sample_rate, self._context.layout) if has_form else None

    @property
    def codec_name(self) -> str:
        """FFmpeg's name of the decoder."""
        return str(self._context.name)

    @property
    def profile(self) -> str | None:
        """FFmpeg's name of the kind of stream, by the last frame that was decoded."""
        return self._context.profile  # type: ignore[no-any-return]

    def renew_codec(self) -> None:
        """Decode with a codec that has no past, not even what flushing leaves."""
        context = av.CodecContext.create(self._context.codec.name, "r")
        context.extradata = self._context.extradata
        if self._stated_form is not None:
            # The low-delay profiles of AAC take these from the container.
            context.sample_rate, context.layout = self._stated_form
        self._configure_codec(context)
        if self._decoder is None:
            let_rest(self._context)
        else:
            self._decoder.close()
        self._context, self._decoder = context, PacketDecoder(context)

    def decoded(self, packets: Iterable[Any]) -> Iterator[tuple[Any | None, list[Any], UndecodablePacketError | None]]:
        """Decode packets that were read already, all after them, and what is then left in the codec.

        Yields:
            Each packet (``None`` at the end) with its frames, or with why it could not be decoded.

        Raises:
            ReadError: if the demuxer reports an error.
        """
        # One loop: what is called for each of 150,000 packets of an hour adds up to more than decoding them.
        decode = self._context.decode
        for packet in chain(packets, iter(self.read_packet, None), (None,)):
            try:
                frames = decode(packet)
            except av.EOFError:
                continue
            except (av.FFmpegError, ValueError) as error:
                yield packet, [], UndecodablePacketError(error_text(error))
                continue
            yield packet, frames, None


def has_frame_threads(codec_name: str) -> bool:
    """Whether a decoder can decode several frames at a time."""
    return bool(av.codec.Codec(codec_name, "r").capabilities & av.codec.Capabilities.frame_threads)


def set_trimming(packet: Any, num_at_end: int) -> None:
    """Have the decoder drop that many samples at the end of a packet's frame, and none in front."""
    if not num_at_end and not packet.has_sidedata("skip_samples"):
        return
    set_side_data(packet, "skip_samples", _TRIMMING.pack(0, num_at_end, 0, 0))


def samples_of(frame: Any) -> NDArray[Any]:
    """A copy of the samples of a frame, (channels, length), in the type in which the codec gives them."""
    name = frame.format.name
    if frame.format.is_planar:
        # A frame of eight planar channels has a ninth plane, of nothing.
        dtype, channels = _DTYPES[name[:-1]], range(frame.layout.nb_channels)
        return np.stack([np.frombuffer(frame.planes[channel], dtype, frame.samples) for channel in channels])
    num_channels = frame.layout.nb_channels
    samples = np.frombuffer(frame.planes[0], _DTYPES[name], frame.samples * num_channels)
    return np.ascontiguousarray(samples.reshape(-1, num_channels).T)


def as_float(samples: NDArray[Any]) -> NDArray[np.float32]:
    """Samples of any type of FFmpeg's as floats of full scale 1."""
    full_scale = None if samples.dtype.kind == "f" else 1 << 8 * samples.dtype.itemsize - 1
    out = np.empty(samples.shape, np.float32)
    _convert(samples, full_scale, out)
    return out


class SampleQueue:
    """Frames of one form, whose samples leave it in long blocks, as floats of full scale 1.

    Args:
        first_frame: Has the form of all; it is not queued.
    """

    def __init__(self, first_frame: Any) -> None:
        name = first_frame.format.name
        self._is_planar = bool(first_frame.format.is_planar)
        kind = name[:-1] if self._is_planar else name
        self._form = name, first_frame.sample_rate, first_frame.layout.nb_channels
        self._dtype = _DTYPES[kind]
        self._full_scale = _FULL_SCALE.get(kind)
        self._num_channels = int(first_frame.layout.nb_channels)
        self._fifo = av.AudioFifo()
        #: How many samples are in the queue.
        self.length = 0

    def takes(self, frame: Any) -> bool:
        """Whether a frame is of the queue's form."""
        return (frame.format.name, frame.sample_rate, frame.layout.nb_channels) == self._form

    def append(self, frame: Any) -> bool:
        """Queue all samples of a frame, if it is of the queue's form."""
        if (frame.format.name, frame.sample_rate, frame.layout.nb_channels) != self._form:
            return False
        pts = frame.pts
        frame.pts = None  # the queue insists on time stamps without gaps, if there are any
        self._fifo.write(frame)
        frame.pts = pts
        self.length += frame.samples
        return True

    def copy(self, out: NDArray[np.float32]) -> None:
        """Move the oldest samples to ``out``, (channels, length)."""
        frame = self._fifo.read(out.shape[1], partial=True)
        self.length -= out.shape[1]
        self.copy_frame(frame, 0, out.shape[1], out)

    def copy_frame(self, frame: Any, first: int, last: int, out: NDArray[np.float32]) -> None:
        """Write samples ``first`` to ``last`` of a frame that is not queued to ``out``, (channels, last - first)."""
        planes = frame.planes
        if self._is_planar:
            for channel in range(self._num_channels):
                samples = np.frombuffer(planes[channel], self._dtype, last)
                _convert(samples[first:], self._full_scale, out[channel])
            return
        samples = np.frombuffer(planes[0], self._dtype, last * self._num_channels)
        _convert(samples[first * self._num_channels :].reshape(-1, self._num_channels).T, self._full_scale, out)


def _convert(samples: NDArray[Any], full_scale: int | None, out: NDArray[np.float32]) -> None:
    if full_scale is None:
        out[...] = samples
    elif samples.dtype == np.int16:
        np.multiply(samples, np.float32(1 / full_scale), out=out)
    else:
        out[...] = samples
        if samples.dtype == np.uint8:
            out -= 128
        out *= np.float32(1 / full_scale)


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
        form: Rate and channels of the input.
        sample_rate: Samples per second of the result.
        num_channels: Channels of the result, in FFmpeg's default layout for that number.
            The same number keeps the layout.
        downmix: How to mix to fewer channels.

    Raises:
        InvalidArgumentError: if FFmpeg cannot convert to what was asked for, a rate is beyond `MAX_SAMPLE_RATE`, or the
            result would have more than `MAX_RATE_RATIO` times the samples.
    """

    def __init__(self, form: SampleForm, sample_rate: int, num_channels: int, downmix: Downmix = "sum") -> None:
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
            is_scaled = downmix == "mean" and num_channels < form.num_channels
            self._gain = mix_gain(form.layout, form.num_channels, num_channels) if is_scaled else 1.0
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
        self._convert(_planar_frame(samples, self._form.layout, self._form.sample_rate))

    def take(self) -> NDArray[np.float32]:
        """What has come out since this was last called, (channels, length)."""
        blocks, self._blocks = self._blocks, []
        samples = np.concatenate([np.empty((self._num_channels, 0), np.float32), *blocks], axis=1)
        if self._gain != 1.0:
            samples *= np.float32(self._gain)
        return samples

    def finish(self) -> NDArray[np.float32]:
        """What has not been taken yet, (channels, length), with what the resampler holds; the last thing to ask for."""
        if not self._is_empty:
            self._convert(None)
        return self.take()

    def _convert(self, frame: av.AudioFrame | None) -> None:
        try:
            for block in self._resampler.resample(frame):
                self._blocks.append(_planar_samples(block, self._num_channels))
        except (av.FFmpegError, ValueError) as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"Couldn't initialize SwrContext: FFmpeg cannot convert {self._form.num_channels} channels at "
            f"{self._form.sample_rate} Hz to num_channels={self._num_channels} at sample_rate={self._sample_rate} "
            f"({error_text(error)}). 1, 2, 6 and 8 channels always work."
        )


def _planar_frame(samples: NDArray[np.float32], layout: str, sample_rate: int) -> av.AudioFrame:
    """A frame of samples (channels, length)."""
    frame = av.AudioFrame(format="fltp", layout=layout, samples=samples.shape[1])
    for plane, channel in zip(frame.planes, samples, strict=False):
        np.frombuffer(memoryview(plane), np.float32, samples.shape[1])[:] = channel
    frame.sample_rate = sample_rate
    return frame


def _planar_samples(frame: av.AudioFrame, num_channels: int) -> NDArray[np.float32]:
    """The samples of a planar frame of floats; `AudioFrame.to_ndarray` crashes on eight planes."""
    planes = (memoryview(frame.planes[channel]) for channel in range(num_channels))
    return np.stack([np.frombuffer(plane, np.float32, frame.samples) for plane in planes])


@lru_cache(maxsize=64)
def mix_gain(layout: str, num_channels: int, out_num_channels: int) -> float:
    """The factor, at most 1, with which FFmpeg's mix of floats to fewer channels cannot be louder than its input.

    FFmpeg applies it where it mixes to whole numbers.

    Args:
        layout: FFmpeg's name of the layout of the input.
        num_channels: Channels of the input.
        out_num_channels: Channels of the mix, in FFmpeg's default layout for that number.

    Raises:
        av.FFmpegError, ValueError: if FFmpeg cannot mix these.

    >>> round(mix_gain("stereo", 2, 1), 6), round(mix_gain("5.1", 6, 1), 6)
    (0.707107, 0.292893)
    """
    sums = np.zeros(out_num_channels)
    for channel in range(num_channels):
        samples = np.zeros((num_channels, _PROBE_LENGTH), np.float32)
        samples[channel] = 1.0
        resampler = av.AudioResampler(format="fltp", layout=f"{out_num_channels}c", rate=MAX_SAMPLE_RATE)
        for block in resampler.resample(_planar_frame(samples, layout, MAX_SAMPLE_RATE)):
            sums += np.abs(_planar_samples(block, out_num_channels)[:, 0])
    return float(1.0 / max(1.0, sums.max()))
