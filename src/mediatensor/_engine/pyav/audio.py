"""Read, decode and resample an audio stream with PyAV."""

from __future__ import annotations

import os
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

import av
import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidArgumentError
from .demuxer import set_side_data
from .opening import error_text, let_rest
from .reading import PacketDecoder, StreamReader, UndecodablePacketError, configure_audio_codec

_DTYPES = {"u8": np.uint8, "s16": np.int16, "s32": np.int32, "s64": np.int64, "flt": np.float32, "dbl": np.float64}

# Side data of a packet: numbers of samples to drop at the start and at the end (32 bits each), and reasons (two bytes).
_TRIMMING = struct.Struct("<IIBB")

#: Weights for mixing to fewer channels: FFmpeg's weights, or these weights scaled down so that their sum is at most 1.
Downmix = Literal["sum", "mean"]

# ALAC does not report a packet that is damaged so that it has no samples.
_NO_SAMPLES = "the codec returned no samples"
# If a frame of FLAC is damaged, FFmpeg returns it together with frames before it, and the codec leaves it out.
_WRONG_FRAMES = "its packet has several frames"

# Length in samples of the blocks that are used to measure the weights.
_PROBE_LENGTH = 16


class SampleForm(NamedTuple):
    """The properties that two blocks of samples must have in common so that they can be joined."""

    sample_rate: int
    layout: str
    num_channels: int

    @classmethod
    def of_frame(cls, frame: Any) -> SampleForm:
        return cls(int(frame.sample_rate), str(frame.layout.name), int(frame.layout.nb_channels))


class AudioReader(StreamReader):
    """Reads and decodes the packets of one audio stream."""

    media_type = "audio"

    #: Whether packet numbers or times restart within the file, because files were joined.
    time_restarts = False

    #: Length of a joined file in seconds, summed over its parts; ``None`` if some part does not state its length.
    joined_seconds: float | None = None

    #: Whether time stamps are numbers of samples that the frames themselves state.
    numbers_frames = False

    #: Time stamps of packets whose numbers do not follow because a file was cut or joined there.
    splices: set[int]

    @property
    def ends_within_frame(self) -> bool:
        """Whether the last packet has other data than one frame, if the format shows this."""
        return False

    # (sample rate, layout) according to the container. Decoding changes these values in the codec context.
    _stated_form: tuple[int, Any] | None = None

    def _configure_codec(self, context: Any) -> None:
        configure_audio_codec(context, self._num_threads)

    def open(self) -> None:
        super().open()
        has_form = self._context.sample_rate and self._context.layout.nb_channels
        self._stated_form = (self._context.sample_rate, self._context.layout) if has_form else None

    @property
    def codec_name(self) -> str:
        return str(self._context.name)

    @property
    def profile(self) -> str | None:
        """FFmpeg's name for the profile of the last decoded frame, such as ``"LC"`` for AAC, or ``None`` if unknown."""
        return self._context.profile  # type: ignore[no-any-return]

    def renew_codec(self) -> None:
        """Replace the codec by a new one, because flushing the current one would not reset all of its state."""
        context = self._new_context(self._num_threads)
        if self._decoder is None:
            let_rest(self._context)
        else:
            self._decoder.close()
        self._context, self._decoder = context, PacketDecoder(context)

    def _new_context(self, num_threads: int) -> Any:
        context = av.CodecContext.create(self._context.codec.name, "r")
        context.extradata = self._context.extradata
        if self._stated_form is not None:
            # The low-delay profiles of AAC take these from the container.
            context.sample_rate, context.layout = self._stated_form
        configure_audio_codec(context, num_threads)
        return context

    def decoded(self, packets: Iterable[Any]) -> Iterator[tuple[Any | None, list[Any], UndecodablePacketError | None]]:
        """Decode ``packets``, which the caller has already read, then all packets from there to the end of the file.

        For each packet, yield (packet, its frames, ``None``), or (packet, [], the error) if it cannot be decoded. At
        the end, yield ``None`` instead of a packet, with the frames that the codec has held back.
        """
        # Do not call other methods in this loop: for the 150,000 packets of an hour, calls take longer than decoding.
        decode = self._context.decode
        gives_frame_per_packet = has_frame_threads(self._context.codec.name)
        num_empty = 0
        in_flight = deque[Any](maxlen=self._max_in_flight())
        for packet in chain(packets, iter(self.read_packet, None), (None,)):
            try:
                frames = decode(packet)
            except av.EOFError:
                continue
            except (av.FFmpegError, ValueError) as error:
                yield packet, [], UndecodablePacketError(error_text(error))
                continue
            if packet is None:
                for held, damage in self._undecodable(in_flight):
                    yield held, frames, None
                    yield held, [], damage
                    frames = []
            else:
                in_flight.append(packet)
                is_odd = gives_frame_per_packet and len(frames) != 1
                if is_odd and not ((frames and self.time_restarts) or any(map(_is_cut, (*in_flight, packet)))):
                    num_empty += not frames  # the first packets are empty until each thread has one
                    if frames or num_empty >= self._context.thread_count:
                        yield packet, [], UndecodablePacketError(_WRONG_FRAMES if frames else _NO_SAMPLES)
                        continue
            yield packet, frames, None

    def _max_in_flight(self) -> int:
        """Return how many packets the threads of the codec may hold before their frames or errors come out."""
        if self._num_threads == 1 or not has_frame_threads(self._context.codec.name):
            return 0
        return max(self._num_threads, (os.cpu_count() or 1) + 1)

    def _undecodable(self, packets: Iterable[Any]) -> Iterator[tuple[Any, UndecodablePacketError]]:
        """Decode packets again with one thread. Yield those that cannot be decoded, with the error.

        This is needed because FFmpeg drops the errors of its frame threads at the end of a stream. Packets can be
        decoded again because codecs that have frame threads use packets that do not depend on each other.
        """
        context = self._new_context(1)
        for packet in packets:
            try:
                if not context.decode(packet) and not _is_cut(packet):
                    yield packet, UndecodablePacketError(_NO_SAMPLES)
            except (av.FFmpegError, ValueError) as error:
                yield packet, UndecodablePacketError(error_text(error))


def has_frame_threads(codec_name: str) -> bool:
    """Return whether FFmpeg's decoder with this name can decode several frames in parallel."""
    return bool(av.codec.Codec(codec_name, "r").capabilities & av.codec.Capabilities.frame_threads)


def _is_cut(packet: Any) -> bool:
    """Return whether the container cuts samples from a packet, possibly all of them."""
    return bool(packet.is_discard or packet.has_sidedata("skip_samples"))


def set_trimming(packet: Any, num_at_end: int) -> None:
    """Make the decoder drop the last ``num_at_end`` samples of a packet, and none at its start."""
    if not num_at_end and not packet.has_sidedata("skip_samples"):
        return
    set_side_data(packet, "skip_samples", _TRIMMING.pack(0, num_at_end, 0, 0))


def samples_of(frame: Any) -> NDArray[Any]:
    """Copy the samples of a frame to an array (channels, length) in the codec's own sample type."""
    name = frame.format.name
    if frame.format.is_planar:
        # A frame with eight planar channels has an empty ninth plane, so `AudioFrame.to_ndarray` would crash.
        dtype, channels = _DTYPES[name[:-1]], range(frame.layout.nb_channels)
        return np.stack([np.frombuffer(frame.planes[channel], dtype, frame.samples) for channel in channels])
    num_channels = frame.layout.nb_channels
    samples = np.frombuffer(frame.planes[0], _DTYPES[name], frame.samples * num_channels)
    return np.ascontiguousarray(samples.reshape(-1, num_channels).T)


def as_float(samples: NDArray[Any]) -> NDArray[np.float32]:
    """Convert samples of any FFmpeg sample type to float32, so that full scale is 1."""
    out = np.empty(samples.shape, np.float32)
    _convert(samples, out)
    return out


class SampleQueue:
    """Collects samples of many short frames, and returns them as float32 in long blocks, which is faster.

    All frames must have the sample type, sample rate and number of channels of the first frame; see `takes`.
    """

    def __init__(self, first_frame: Any) -> None:
        name = first_frame.format.name
        self._is_planar = bool(first_frame.format.is_planar)
        self._form = name, first_frame.sample_rate, first_frame.layout.nb_channels
        self._dtype = _DTYPES[name[:-1] if self._is_planar else name]
        self._num_channels = int(first_frame.layout.nb_channels)
        self._fifo = av.AudioFifo()
        #: How many samples are in the queue.
        self.length = 0

    def takes(self, frame: Any) -> bool:
        """Return whether a frame has the sample type, sample rate and number of channels of this queue."""
        return (frame.format.name, frame.sample_rate, frame.layout.nb_channels) == self._form

    def append(self, frame: Any) -> bool:
        """Add all samples of a frame to the queue; return ``False``, and add nothing, if the queue does not take it."""
        if not self.takes(frame):
            return False
        pts = frame.pts
        frame.pts = None  # the FIFO refuses time stamps with gaps
        self._fifo.write(frame)
        frame.pts = pts
        self.length += frame.samples
        return True

    def copy(self, out: NDArray[np.float32]) -> None:
        """Move the oldest samples from the queue to ``out`` (channels, length), as floats with full scale 1."""
        frame = self._fifo.read(out.shape[1], partial=True)
        self.length -= out.shape[1]
        self.copy_frame(frame, 0, out.shape[1], out)

    def copy_frame(self, frame: Any, first: int, last: int, out: NDArray[np.float32]) -> None:
        """Write samples [first, last) of a frame to ``out`` (channels, last - first), bypassing the queue."""
        planes = frame.planes
        if self._is_planar:
            for channel in range(self._num_channels):
                samples = np.frombuffer(planes[channel], self._dtype, last)
                _convert(samples[first:], out[channel])
            return
        samples = np.frombuffer(planes[0], self._dtype, last * self._num_channels)
        _convert(samples[first * self._num_channels :].reshape(-1, self._num_channels).T, out)


def _convert(samples: NDArray[Any], out: NDArray[np.float32]) -> None:
    scale = np.float32(2.0 ** (1 - 8 * samples.dtype.itemsize))
    if samples.dtype == np.int16:
        np.multiply(samples, scale, out=out)
        return
    out[...] = samples
    if samples.dtype == np.uint8:
        out -= 128  # unsigned bytes are centred at 128
    if samples.dtype.kind != "f":
        out *= scale


#: FFmpeg's limit for resampling.
MAX_CHANNELS = 64

#: Largest sample rate to convert from or to. The memory of the resampler's filter is proportional to the ratio of the
#: rates, and a header can state any rate.
MAX_SAMPLE_RATE = 1_536_000

#: Largest ratio of the rates. Without a limit, a small file that states a rate of 1 could fill all memory.
MAX_RATE_RATIO = 1 << 10


class Resampler:
    """Converts the sample rate and the number of channels of samples without gaps.

    The first output sample plays at the time of the first input sample. If the number of channels changes, the output
    has FFmpeg's default layout for the new number.

    Raises `InvalidArgumentError` if FFmpeg does not support the conversion, if the rate changes and the input rate is
    above `MAX_SAMPLE_RATE`, or if there would be more than `MAX_RATE_RATIO` output samples for each input sample.
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
                f"The stream has {form.sample_rate} samples per second; rates above {MAX_SAMPLE_RATE} are not "
                f"converted (sample_rate={sample_rate}). Pass sample_rate=None to keep the stored rate."
            )
        if sample_rate > form.sample_rate * MAX_RATE_RATIO:
            raise InvalidArgumentError(
                f"The stream has {form.sample_rate} samples per second; sample_rate={sample_rate} is more than "
                f"{MAX_RATE_RATIO} times that. Pass sample_rate=None to keep the stored rate."
            )
        try:
            self._resampler = av.AudioResampler(format="fltp", layout=layout, rate=sample_rate)
            is_scaled = downmix == "mean" and num_channels < form.num_channels
            self._gain = mix_gain(form.layout, form.num_channels, num_channels) if is_scaled else 1.0
        except (av.FFmpegError, ValueError) as error:
            raise self._refusal(error) from error

    def push(self, samples: NDArray[np.float32]) -> None:
        """Feed the next samples (channels, length) to the resampler. `take` returns the result."""
        if not samples.shape[1]:
            return
        self._is_empty = False
        self._convert(_planar_frame(samples, self._form.layout, self._form.sample_rate))

    def take(self) -> NDArray[np.float32]:
        """Return the output samples (channels, length) since the last call."""
        blocks, self._blocks = self._blocks, []
        samples = np.concatenate([np.empty((self._num_channels, 0), np.float32), *blocks], axis=1)
        if self._gain != 1.0:
            samples *= np.float32(self._gain)
        return samples

    def finish(self) -> NDArray[np.float32]:
        """Flush the resampler after the last samples. Return the rest of the output (channels, length)."""
        if not self._is_empty:
            self._convert(None)
        return self.take()

    def _convert(self, frame: av.AudioFrame | None) -> None:
        try:
            for block in self._resampler.resample(frame):
                self._blocks.append(samples_of(block))
        except (av.FFmpegError, ValueError) as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"Couldn't initialize SwrContext: FFmpeg cannot convert {self._form.num_channels} channels at "
            f"{self._form.sample_rate} Hz to num_channels={self._num_channels} at sample_rate={self._sample_rate} "
            f"({error_text(error)}). 1, 2, 6 and 8 channels always work."
        )


def _planar_frame(samples: NDArray[np.float32], layout: str, sample_rate: int) -> av.AudioFrame:
    frame = av.AudioFrame(format="fltp", layout=layout, samples=samples.shape[1])
    for plane, channel in zip(frame.planes, samples, strict=False):
        np.frombuffer(memoryview(plane), np.float32, samples.shape[1])[:] = channel
    frame.sample_rate = sample_rate
    return frame


@lru_cache(maxsize=64)
def mix_gain(layout: str, num_channels: int, out_num_channels: int) -> float:
    """Return a factor, at most 1, that keeps a mix to fewer channels within full scale.

    When FFmpeg mixes integers, it applies this factor itself. When it mixes floats, it does not. Raises av.FFmpegError
    or ValueError if FFmpeg cannot mix these layouts.

    >>> round(mix_gain("stereo", 2, 1), 6), round(mix_gain("5.1", 6, 1), 6)
    (0.707107, 0.292893)
    """
    sums = np.zeros(out_num_channels)
    for channel in range(num_channels):
        samples = np.zeros((num_channels, _PROBE_LENGTH), np.float32)
        samples[channel] = 1.0
        resampler = av.AudioResampler(format="fltp", layout=f"{out_num_channels}c", rate=MAX_SAMPLE_RATE)
        for block in resampler.resample(_planar_frame(samples, layout, MAX_SAMPLE_RATE)):
            sums += np.abs(samples_of(block)[:, 0])
    return float(1.0 / max(1.0, sums.max()))
