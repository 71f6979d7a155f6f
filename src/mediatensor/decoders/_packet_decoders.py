"""Packets, their decoders, and the raw frames and samples that the decoders return."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeAlias, TypeVar

import torch
from torch import Tensor

from .._engine.common.checks import shown
from .._engine.common.locks import Closing, ForkSafeLock, cached_property
from .._engine.common.pictures import Orientation
from .._engine.pyav.audio import samples_of
from .._engine.pyav.opening import FrameColors, frame_colors
from .._engine.pyav.pixels import component_planes, is_frame
from .._engine.pyav.reading import PacketDecoder, UndecodablePacketError
from ..backends import PictureDecoder, Surface, get_backend
from ..errors import ClosedError, DecodeError, InvalidArgumentError

_Codec: TypeAlias = PictureDecoder | PacketDecoder
_Raw = TypeVar("_Raw")


class NotPickled:
    """Base class of objects that cannot be pickled or copied."""

    #: Advice in the error.
    _how_to_send: ClassVar[str]

    def __reduce__(self) -> NoReturn:
        raise InvalidArgumentError(
            f"{type(self).__name__} cannot be pickled, copied or sent to another process, because it refers to memory "
            f"of FFmpeg in this process. {self._how_to_send}"
        )


class ProcessBound(NotPickled):
    """Base class of objects that users cannot construct, and that work only in the process that made them."""

    #: Advice in the error.
    _how_to_make: ClassVar[str]

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise InvalidArgumentError(f"{type(self).__name__} cannot be instantiated directly. {self._how_to_make}")

    @classmethod
    def _with(cls, **attributes: Any) -> Self:
        made = cls.__new__(cls)
        made.__dict__.update(attributes)
        return made


class Packet(ProcessBound):
    """One compressed packet of a stream, read by a `Demuxer` in file order.

    Attributes:
        stream_index: Index of the packet's stream in the container. Use it to find the decoder of the packet.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> packet = next(Demuxer("video.mp4"))
        >>> packet.stream_index, packet.pts_seconds, packet.is_key_frame, len(packet.data) > 1000
        (0, 0.0, True, True)
    """

    _how_to_make = "Get packets from a Demuxer, by iterating over it."
    _how_to_send = "Make a Demuxer of the same source in each process."

    stream_index: int
    _packet: Any
    _time_base: Fraction
    _generation: int

    @property
    def pts_seconds(self) -> float | None:
        """Time in seconds at which the packet's frame is shown or its audio starts; ``None`` if unknown."""
        return _seconds(self._packet.pts, self._time_base)

    @property
    def dts_seconds(self) -> float | None:
        """Decoding time stamp of the packet (DTS) in seconds; ``None`` if unknown."""
        return _seconds(self._packet.dts, self._time_base)

    @property
    def duration_seconds(self) -> float:
        """Duration of the packet's frame or audio in seconds; 0 if unknown."""
        return _seconds(self._packet.duration, self._time_base) or 0.0

    @property
    def is_key_frame(self) -> bool:
        """Whether decoding can start at this packet, because it does not depend on earlier packets."""
        return bool(self._packet.is_keyframe)

    @property
    def data(self) -> bytes:
        """A copy of the packet's compressed bytes, as the codec reads them."""
        return bytes(self._packet)

    def __repr__(self) -> str:
        return f"Packet(stream_index={self.stream_index}, pts_seconds={self.pts_seconds}, {self._packet.size} bytes)"


class RawFrame(ProcessBound):
    """One decoded video frame in the codec's pixel format, usually Y'CbCr, and not yet rotated.

    `ColorConverter` converts it to RGB. `planes` returns the unconverted component values as tensors.

    Attributes:
        pts_seconds: Time at which the frame is shown, in seconds; NaN if neither the container nor the codec states it.
        duration_seconds: Time for which the frame is shown, in seconds; 0 if unknown.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> demuxer = Demuxer("video.mp4")
        >>> decoder = demuxer.streams[0].make_decoder()
        >>> frames = [frame for packet in demuxer for frame in decoder.decode(packet)] + decoder.drain()
        >>> len(frames), frames[0].pixel_format, [tuple(plane.shape) for plane in frames[0].planes]
        (300, 'yuv420p', [(360, 640), (180, 320), (180, 320)])
    """

    _how_to_make = "Get raw frames from VideoPacketDecoder.decode()."
    _how_to_send = "Send copies of its planes, [plane.clone() for plane in frame.planes], or a ColorConverter's Frame."

    pts_seconds: float
    duration_seconds: float
    _picture: Any
    _backend: str
    _device: torch.device
    _stated_orientation: Orientation | None

    @cached_property
    def _surface(self) -> Surface:
        return get_backend(self._backend).surface(self._picture, self._device)

    @cached_property
    def _orientation(self) -> Orientation:
        return self._stated_orientation or self._surface.orientation

    @cached_property
    def _colors(self) -> FrameColors:
        return frame_colors(self._picture)

    @property
    def pixel_format(self) -> str:
        """FFmpeg's name of the pixel format, such as ``"yuv420p"``."""
        return self._surface.pixel_format

    @property
    def color_space(self) -> str:
        """FFmpeg's name of the Y'CbCr matrix, such as ``"bt709"``; ``"unknown"`` if the stream does not state it."""
        return self._colors.space

    @property
    def color_range(self) -> str:
        """``"tv"`` (limited range), ``"pc"`` (full range), or ``"unknown"``, which means limited range for Y'CbCr."""
        # These formats imply full range, even if the stream states another range.
        return "pc" if self.pixel_format.startswith("yuvj") else self._colors.range

    @property
    def color_primaries(self) -> str:
        """FFmpeg's name of the colour primaries, such as ``"bt2020"``; ``"unknown"`` if they are not stated."""
        return self._colors.primaries

    @property
    def color_transfer_characteristic(self) -> str:
        """FFmpeg's name of the transfer function, such as ``"smpte2084"``; ``"unknown"`` if it is not stated."""
        return self._colors.transfer_characteristic

    @property
    def bit_depth(self) -> int:
        """Number of bits per component, such as 8 or 10. Component values are in [0, 2 ** bit_depth - 1]."""
        if is_frame(self._picture) and self._picture.format.name == self.pixel_format:
            return max(int(component.bits) for component in self._picture.format.components)
        digits = {"p010le": 10, "p012le": 12}
        return digits.get(self.pixel_format, 16 if self.pixel_format.endswith("16le") else 8)

    @property
    def width(self) -> int:
        """Width in pixels, before rotation."""
        return int(self._picture.width)

    @property
    def height(self) -> int:
        """Height in pixels, before rotation."""
        return int(self._picture.height)

    @property
    def rotation(self) -> float:
        """Counter-clockwise angle in degrees by which to rotate the frame to turn it upright; 0 if unknown."""
        return self._orientation.rotation or 0.0

    @property
    def planes(self) -> tuple[Tensor, ...]:
        """Tuple with a 2-D tensor (height, width) for each component, in the order of `pixel_format`, such as Y, U, V.

        The tensors are uint8, or uint16 if components have more than 8 bits, on the decoder's device. Subsampled chroma
        planes are smaller; odd sizes are rounded up. Lines are padded in memory, so the tensors are not contiguous.
        They are views that share the codec's memory: **do not write to them**, because the codec still uses this
        memory to decode later frames. A view stays valid as long as you keep a reference to it.

        Raises:
            DecodeError: if the pixel format does not store components as whole bytes (palettes, packed bits, floats),
                or the frame is stored upside down. For such frames, use `ColorConverter`.
        """
        return self._component_views

    @cached_property
    def _component_views(self) -> tuple[Tensor, ...]:
        try:
            if self._backend == "cpu" and is_frame(self._picture):
                return tuple(plane.to(self._device) for plane in component_planes(self._picture))
            planes: list[Tensor] = []
            for plane in self._surface.planes:
                planes += [plane] if plane.ndim == 2 else list(plane.unbind(-1))
            if not planes:
                raise ValueError("the device's decoder does not provide them")
            return tuple(planes)
        except ValueError as error:
            raise DecodeError(f"A frame of format {self.pixel_format} has no planes to view: {error}.") from error

    @property
    def storage_cuda(self) -> Tensor | None:
        """A tensor in the frame's CUDA memory, for `torch.Tensor.record_stream`.

        ``None`` if the decoder's device is not CUDA, or the frame has no `planes`.
        """
        if self._device.type != "cuda":
            return None
        with suppress(DecodeError):
            return self.planes[0]
        return None

    def __repr__(self) -> str:
        return (
            f"RawFrame({self.width}x{self.height} {self.pixel_format}, pts_seconds={self.pts_seconds}, "
            f"duration_seconds={self.duration_seconds})"
        )


@dataclass
class RawAudioSamples:
    """The samples of one audio frame in the codec's sample format.

    `AudioConverter` converts them to floats, and resamples or mixes them if needed.

    Attributes:
        data: Tensor (channels, samples) on the CPU, a copy of the samples in the codec's type: uint8, int16, int32,
            int64, float32 or float64. Integer samples use the full range of their type. Silence is 0, but 128 in uint8.
        sample_rate: Samples per second.
        pts_seconds: Time of the first sample in seconds; NaN if neither the container nor the codec states it.
        duration_seconds: Duration of the samples in seconds.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> demuxer = Demuxer("video.mp4", streams="audio")
        >>> decoder = demuxer.streams[0].make_decoder()
        >>> samples = decoder.decode(next(demuxer)) + decoder.decode(next(demuxer))
        >>> samples[0].data.shape, samples[0].data.dtype, samples[0].sample_rate
        (torch.Size([1, 1024]), torch.float32, 48000)
    """

    data: Tensor
    sample_rate: int
    pts_seconds: float
    duration_seconds: float
    _generation: int = field(default=0, repr=False)
    #: FFmpeg's name of the channel layout.
    _layout: str | None = field(default=None, repr=False)

    @property
    def num_channels(self) -> int:
        """Number of channels."""
        return int(self.data.shape[0])

    @property
    def num_samples(self) -> int:
        """Number of samples in each channel."""
        return int(self.data.shape[1])


def _seconds(ticks: int | None, time_base: Fraction) -> float | None:
    # Multiply first, because one division of integers gives the nearest double.
    return None if ticks is None else ticks * time_base.numerator / time_base.denominator


class _PacketDecoder(ProcessBound, Closing, Generic[_Raw]):
    """Decodes a stream packet by packet. Calls from several threads take turns."""

    _how_to_make = "Get a decoder from a stream of a Demuxer: demuxer.streams[0].make_decoder()."
    _how_to_send = "Make a Demuxer of the same source, and a decoder, in each process."
    _kind: ClassVar[str]

    _codec: _Codec | None
    _stream_index: int
    _time_base: Fraction
    _lock: ForkSafeLock
    _process: int
    # The generation of the last packet, which changes with each `Demuxer.seek`; ``None`` before the first packet.
    _generation: int | None
    _is_drained: bool

    @classmethod
    def _of_codec(cls, codec: _Codec, stream_index: int, time_base: Fraction, **more: Any) -> Self:
        state = {"_lock": ForkSafeLock(), "_process": os.getpid(), "_generation": None, "_is_drained": False}
        return cls._with(_codec=codec, _stream_index=stream_index, _time_base=time_base, **state, **more)

    def decode(self, packet: Packet) -> list[_Raw]:
        """Feed a packet and return a list of decoded frames in presentation order: none, one or several.

        A `VideoPacketDecoder` returns `RawFrame` objects, and an `AudioPacketDecoder` returns `RawAudioSamples`. Codecs
        buffer frames to reorder them, so the returned frames can belong to earlier packets.

        Args:
            packet: The next packet of this decoder's stream.

        Raises:
            InvalidArgumentError: if the packet is not of this stream, if it comes from another demuxer than earlier
                packets, if `reset` was not called after a `Demuxer.seek`, or if the decoder has been drained.
            DecodeError: if the codec rejects the packet. You can continue with later packets.
            ClosedError: after `close`, and in a forked process.
        """
        if not isinstance(packet, Packet):
            raise InvalidArgumentError(f"packet must be a Packet, which a Demuxer reads (got {shown(packet)}).")
        if packet.stream_index != self._stream_index:
            raise InvalidArgumentError(
                f"This decoder decodes packets of stream {self._stream_index} (got a packet of stream "
                f"{packet.stream_index}). Choose the decoder by packet.stream_index."
            )
        with self._lock:
            codec = self._open_codec()
            if self._is_drained:
                raise InvalidArgumentError("This decoder has been drained. Call reset() to decode more packets.")
            if self._generation not in (None, packet._generation):
                raise InvalidArgumentError(
                    "This packet does not follow the previous packets: the demuxer seeked since the last reset() of "
                    "this decoder, or it comes from another demuxer. After seek(), call reset() on every decoder."
                )
            frames = self._feed(codec, packet._packet)
            self._generation = packet._generation
        return [self._raw(frame) for frame in frames]

    def drain(self) -> list[_Raw]:
        """Signal the end of the stream, and return a list of the frames that the codec has buffered, as in `decode`.

        Raises:
            DecodeError: if the codec fails to return these frames.
            ClosedError: after `close`, and in a forked process.
        """
        with self._lock:
            codec = self._open_codec()
            frames = () if self._is_drained else self._feed(codec, None)
            self._is_drained = True
        return [self._raw(frame) for frame in frames]

    def reset(self) -> None:
        """Discard buffered packets and frames. Call this before packets from another position; see `Demuxer.seek`.

        Raises:
            ClosedError: after `close`, and in a forked process.
        """
        with self._lock:
            self._open_codec().flush()
            self._is_drained, self._generation = False, None

    def close(self) -> None:
        """Release the codec. Frames that the decoder has returned stay valid."""
        with self._lock:
            codec, self._codec = self._codec, None
        if codec is not None:
            codec.close()

    def __del__(self) -> None:
        if "_codec" in self.__dict__:
            self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(stream_index={self._stream_index})"

    def _open_codec(self) -> _Codec:
        if self._codec is None:
            raise ClosedError("The decoder is closed; make a new one with make_decoder().")
        if self._process != os.getpid():
            raise ClosedError("The decoder belongs to the process that made it; make a Demuxer in this one.")
        return self._codec

    def _feed(self, codec: _Codec, packet: Any | None) -> Sequence[Any]:
        try:
            return codec.decode(packet)
        except UndecodablePacketError as error:
            place = "The end" if packet is None else f"The packet at {_seconds(packet.pts, self._time_base)} s"
            raise DecodeError(
                f"{place} of stream {self._stream_index} could not be decoded ({error}). It is damaged, or does not "
                f"contain {self._kind} of this stream; later packets may still decode."
            ) from error

    def _times(self, frame: Any) -> tuple[float, float]:
        """Return the time and the duration of a frame in seconds."""
        seconds = _seconds(frame.pts if frame.pts is not None else getattr(frame, "dts", None), self._time_base)
        return math.nan if seconds is None else seconds, _seconds(frame.duration, self._time_base) or 0.0

    @abstractmethod
    def _raw(self, frame: Any) -> _Raw: ...


class VideoPacketDecoder(_PacketDecoder[RawFrame]):
    """Decodes `Packet` objects of a video stream to `RawFrame`. Call `VideoStream.make_decoder` to get one.

    FFmpeg's error concealment fills damaged parts of a frame. To get frames by index or time, use `VideoDecoder`.
    After `Demuxer.seek`, call `reset` before you feed the next packet.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> with Demuxer("video.mp4") as demuxer:
        ...     decoder = demuxer.streams[0].make_decoder()
        ...     frames = [frame for packet in demuxer for frame in decoder.decode(packet)]
        ...     frames += decoder.drain()
        ...     demuxer.seek(5.0)
        ...     decoder.reset()
        ...     after = [frame.pts_seconds for packet in demuxer for frame in decoder.decode(packet)]
        >>> len(frames), after[0]
        (300, 4.8)
    """

    _kind = "video"
    _backend: str
    _device: torch.device
    _stated_orientation: Orientation | None

    def _raw(self, frame: Any) -> RawFrame:
        pts_seconds, duration_seconds = self._times(frame)
        return RawFrame._with(
            pts_seconds=pts_seconds,
            duration_seconds=duration_seconds,
            _picture=frame,
            _backend=self._backend,
            _device=self._device,
            _stated_orientation=self._stated_orientation,
        )


class AudioPacketDecoder(_PacketDecoder[RawAudioSamples]):
    """Decodes `Packet` objects of an audio stream to `RawAudioSamples`. Call `AudioStream.make_decoder` to get one.

    After `Demuxer.seek` and `reset`, most codecs return slightly wrong samples at first. To avoid them, feed some
    packets from before the wanted position, and discard their samples. `AudioDecoder` does this with the right number
    of packets for each codec.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> with Demuxer("video.mp4", streams="audio") as demuxer:
        ...     decoder = demuxer.streams[0].make_decoder()
        ...     samples = [sample for packet in demuxer for sample in decoder.decode(packet)] + decoder.drain()
        >>> decoder.reset()
        >>> samples[0].num_channels, round(sum(sample.duration_seconds for sample in samples), 1)
        (1, 10.0)
    """

    _kind = "audio"

    def _raw(self, frame: Any) -> RawAudioSamples:
        pts_seconds, _ = self._times(frame)
        return RawAudioSamples(
            torch.from_numpy(samples_of(frame)),
            int(frame.sample_rate),
            pts_seconds,
            frame.samples / frame.sample_rate,
            self._generation or 0,
            str(frame.layout.name),
        )
