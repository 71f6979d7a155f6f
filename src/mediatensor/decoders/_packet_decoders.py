"""Packets, the decoders that take them, and the raw frames and samples that come out."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Generic, NoReturn, Protocol, Self, TypeVar

import torch
from torch import Tensor

from .._engine.common.checks import shown
from .._engine.common.lazy import cached_property
from .._engine.common.locks import Closing, ForkSafeLock
from .._engine.common.pictures import Orientation
from .._engine.pyav.audio import samples_of
from .._engine.pyav.opening import FrameColors, frame_colors
from .._engine.pyav.pixels import component_planes, is_frame
from .._engine.pyav.reading import UndecodablePacketError
from ..backends import Surface, get_backend
from ..errors import ClosedError, DecodeError, InvalidArgumentError

_Raw = TypeVar("_Raw")


class ProcessBound:
    """An object that only the library makes, and that belongs to the process in which it was made."""

    #: What to do instead of making one, and instead of pickling it.
    _how_to_make: ClassVar[str]
    _how_to_send: ClassVar[str]

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise InvalidArgumentError(f"{type(self).__name__} cannot be instantiated directly. {self._how_to_make}")

    @classmethod
    def _with(cls, **attributes: Any) -> Self:
        made = cls.__new__(cls)
        made.__dict__.update(attributes)
        return made

    def __reduce__(self) -> NoReturn:
        refuse_to_pickle(self, self._how_to_send)


def refuse_to_pickle(value: object, how_to_send: str) -> NoReturn:
    """Raise the error for objects that can be neither pickled nor copied."""
    raise InvalidArgumentError(
        f"{type(value).__name__} cannot be pickled, copied or sent to another process: it holds memory of FFmpeg's "
        f"that exists only in this process. {how_to_send}"
    )


class Packet(ProcessBound):
    """One packet of a stream, as a `Demuxer` read it: compressed, and in the order of the file.

    Attributes:
        stream_index: Index of its stream among all of the container, which identifies its decoder.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> packet = next(Demuxer("video.mp4"))
        >>> packet.stream_index, packet.pts_seconds, packet.is_key_frame, len(packet.data) > 1000
        (0, 0.0, True, True)
    """

    _how_to_make = "A Demuxer reads them."
    _how_to_send = "Make a Demuxer of the same source in each process."

    stream_index: int
    _packet: Any
    _time_base: Fraction
    _generation: int

    @property
    def pts_seconds(self) -> float | None:
        """When its frame is shown, in seconds; ``None`` if unknown."""
        return seconds_of_ticks(self._packet.pts, self._time_base)

    @property
    def dts_seconds(self) -> float | None:
        """When it is decoded, in seconds; ``None`` if unknown."""
        return seconds_of_ticks(self._packet.dts, self._time_base)

    @property
    def duration_seconds(self) -> float:
        """For how long its frame is shown, in seconds; 0 if unknown."""
        return seconds_of_ticks(self._packet.duration or 0, self._time_base) or 0.0

    @property
    def is_key_frame(self) -> bool:
        """Whether decoding can start with it."""
        return bool(self._packet.is_keyframe)

    @property
    def data(self) -> bytes:
        """A copy of its bytes, as the codec reads them."""
        return bytes(self._packet)

    def __repr__(self) -> str:
        return f"Packet(stream_index={self.stream_index}, pts_seconds={self.pts_seconds}, {self._packet.size} bytes)"


class RawFrame(ProcessBound):
    """One decoded frame as its codec left it: planes of some pixel format, mostly Y'CbCr, not turned.

    `ColorConverter` converts it to RGB. `planes` are the samples themselves.

    Attributes:
        pts_seconds: When it is shown, in seconds; NaN if neither container nor codec has a time.
        duration_seconds: For how long it is shown, in seconds; 0 if unknown.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> demuxer = Demuxer("video.mp4")
        >>> decoder = demuxer.streams[0].make_decoder()
        >>> frames = [frame for packet in demuxer for frame in decoder.decode(packet)] + decoder.drain()
        >>> len(frames), frames[0].pixel_format, [tuple(plane.shape) for plane in frames[0].planes]
        (300, 'yuv420p', [(360, 640), (180, 320), (180, 320)])
    """

    _how_to_make = "A VideoPacketDecoder decodes them."
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
        """``"tv"`` (limited), ``"pc"`` (full), or ``"unknown"``, which is limited for Y'CbCr."""
        # These formats are of full range by definition, whatever the stream says.
        return "pc" if self.pixel_format.startswith("yuvj") else self._colors.range

    @property
    def color_primaries(self) -> str:
        """FFmpeg's name, such as ``"bt2020"``, or ``"unknown"``."""
        return self._colors.primaries

    @property
    def color_transfer_characteristic(self) -> str:
        """FFmpeg's name, such as ``"smpte2084"``, or ``"unknown"``."""
        return self._colors.transfer_characteristic

    @property
    def bit_depth(self) -> int:
        """How many bits of a sample are used: 8, 10, ... With it a sample's range is 0 to 2 ** bit_depth - 1."""
        return bits_of(self._picture, self.pixel_format)

    @property
    def width(self) -> int:
        """In pixels, before rotation."""
        return int(self._picture.width)

    @property
    def height(self) -> int:
        """In pixels, before rotation."""
        return int(self._picture.height)

    @property
    def rotation(self) -> float:
        """Degrees, counter-clockwise, by which the frame has to be turned to be upright; 0 if not at all."""
        return self._orientation.rotation or 0.0

    @property
    def planes(self) -> tuple[Tensor, ...]:
        """One 2-D view (height, width) of each component, in the order of the pixel format's name; uint8 or uint16.

        Chroma is smaller if the format subsamples it; odd sizes are rounded up. A view is strided, because lines are
        padded,
        and shares the memory of the codec, without a copy: **do not write to it**, since frames that are decoded next
        refer to it. It stays valid as long as it is held.

        Raises:
            DecodeError: if the components are not whole bytes (palettes, packed bits, floats), or the frame is stored
                upside down. `ColorConverter` converts such frames.
        """
        return self._component_views

    @cached_property
    def _component_views(self) -> tuple[Tensor, ...]:
        try:
            if self._backend == "cpu" and is_frame(self._picture):
                return tuple(plane.to(self._device) for plane in component_planes(self._picture))
            return _components(self._surface)
        except ValueError as error:
            raise DecodeError(f"A frame of format {self.pixel_format} has no planes to view: {error}.") from error

    @property
    def storage_cuda(self) -> Tensor | None:
        """Memory of the planes on a CUDA device, for `torch.Tensor.record_stream`; ``None`` elsewhere."""
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


def bits_of(picture: Any, pixel_format: str) -> int:
    """Return the bits of the largest component of a frame."""
    if is_frame(picture) and picture.format.name == pixel_format:
        return max(int(component.bits) for component in picture.format.components)
    digits = {"p010le": 10, "p012le": 12}
    return digits.get(pixel_format, 16 if pixel_format.endswith("16le") else 8)


def _components(surface: Surface) -> tuple[Tensor, ...]:
    planes: list[Tensor] = []
    for plane in surface.planes:
        planes += [plane] if plane.ndim == 2 else list(plane.unbind(-1))
    if not planes:
        raise ValueError("the device's decoder does not hand them out")
    return tuple(planes)


@dataclass
class RawAudioSamples:
    """The samples of one decoded frame of audio as its codec gives them.

    `AudioConverter` converts them to floats, at another rate or with other channels if needed.

    Attributes:
        data: (channels, samples), of the codec's type: uint8, int16, int32, int64, float32 or float64. A copy. Whole
            numbers have their full scale (uint8 is silent at 128).
        sample_rate: Samples per second.
        pts_seconds: When the first one is played, in seconds; NaN if neither container nor codec has a time.
        duration_seconds: For how long they are played.

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
    #: FFmpeg's name of the layout of the channels.
    _layout: str | None = field(default=None, repr=False)

    @property
    def num_channels(self) -> int:
        """Number of channels."""
        return int(self.data.shape[0])

    @property
    def num_samples(self) -> int:
        """Number of samples of each channel."""
        return int(self.data.shape[1])


def seconds_of_ticks(ticks: int | None, time_base: Fraction) -> float | None:
    """Convert ticks of a time base to seconds."""
    # Multiply first: the quotient of two whole numbers is then the nearest double.
    return None if ticks is None else ticks * time_base.numerator / time_base.denominator


class Codec(Protocol):
    """Decodes packets, see `mediatensor.backends.PictureDecoder`."""

    def decode(self, packet: Any | None) -> Sequence[Any]: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class _PacketDecoder(ProcessBound, Closing, Generic[_Raw]):
    """A codec that is fed packet by packet. Threads may share it, one at a time."""

    _how_to_make = "A stream of a Demuxer makes it: demuxer.streams[0].make_decoder()."
    _how_to_send = "Make a Demuxer of the same source, and a decoder, in each process."
    _kind: ClassVar[str]

    _codec: Codec | None
    _stream_index: int
    _time_base: Fraction
    _lock: ForkSafeLock
    _process: int
    # The position of the demuxer that packets come from, see `Demuxer.seek`; none before the first packet.
    _generation: int | None
    _is_drained: bool

    @classmethod
    def _of_codec(cls, codec: Codec, stream_index: int, time_base: Fraction, **more: Any) -> Any:
        state = {"_lock": ForkSafeLock(), "_process": os.getpid(), "_generation": None, "_is_drained": False}
        return cls._with(_codec=codec, _stream_index=stream_index, _time_base=time_base, **state, **more)

    def decode(self, packet: Packet) -> list[_Raw]:
        """Feed a packet, and take the frames that come out: none, one or several, in the order in which they are shown.

        Codecs hold frames back to put them in order, so that those that come out need not be of this packet.

        Args:
            packet: The next one of this decoder's stream.

        Raises:
            InvalidArgumentError: if it is not a packet of this stream, comes after a `Demuxer.seek` that no `reset`
                followed or from another demuxer than the ones before, or the decoder has been drained.
            DecodeError: if the codec refuses it; the next ones may still decode.
            ClosedError: after `close`, and in a forked process.
        """
        if not isinstance(packet, Packet):
            raise InvalidArgumentError(f"packet must be a Packet, which a Demuxer reads (got {shown(packet)}).")
        if packet.stream_index != self._stream_index:
            raise InvalidArgumentError(
                f"This decoder decodes packets of stream {self._stream_index} (got one of stream "
                f"{packet.stream_index}). packet.stream_index identifies its decoder."
            )
        with self._lock:
            self._open_codec()
            if self._is_drained:
                raise InvalidArgumentError(
                    "This decoder has been drained: its stream has ended. Call reset() to decode from another place."
                )
            if self._generation not in (None, packet._generation):
                raise InvalidArgumentError(
                    "The demuxer seeked since this decoder was last reset(), or the packet is of another demuxer: it "
                    "does not follow the ones before. Call reset() on every decoder of a demuxer after its seek()."
                )
            frames = self._feed(packet._packet)
            self._generation = packet._generation
        return [self._raw(frame) for frame in frames]

    def drain(self) -> list[_Raw]:
        """End the stream, and take the frames that the codec has held back.

        Raises:
            DecodeError: if the codec refuses to give them.
            ClosedError: after `close`, and in a forked process.
        """
        with self._lock:
            self._open_codec()
            frames = () if self._is_drained else self._feed(None)
            self._is_drained = True
        return [self._raw(frame) for frame in frames]

    def reset(self) -> None:
        """Discard the packets that were fed: the next one comes from another place of the stream, see `Demuxer.seek`.

        Raises:
            ClosedError: after `close`, and in a forked process.
        """
        with self._lock:
            self._open_codec().flush()
            self._is_drained, self._generation = False, None

    def close(self) -> None:
        """Give up the codec. Its frames stay valid."""
        with self._lock:
            codec, self._codec = self._codec, None
        if codec is not None:
            codec.close()

    def __del__(self) -> None:
        if "_codec" in self.__dict__:
            self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(stream_index={self._stream_index})"

    def _open_codec(self) -> Codec:
        if self._codec is None:
            raise ClosedError("The decoder is closed; make a new one with make_decoder().")
        if self._process != os.getpid():
            raise ClosedError("The decoder belongs to the process that made it; make a Demuxer in this one.")
        return self._codec

    def _feed(self, packet: Any | None) -> Sequence[Any]:
        codec = self._open_codec()
        try:
            return codec.decode(packet)
        except UndecodablePacketError as error:
            seconds = None if packet is None else seconds_of_ticks(packet.pts, self._time_base)
            what = "The end" if packet is None else f"The packet at {seconds} s"
            raise DecodeError(
                f"{what} of stream {self._stream_index} could not be decoded ({error}). The data is damaged, or no "
                f"{self._kind} of this stream; later packets may still decode."
            ) from error

    def _times(self, frame: Any) -> tuple[float, float]:
        """Return when a frame is shown, and for how long, in seconds."""
        pts = frame.pts if frame.pts is not None else getattr(frame, "dts", None)
        seconds = seconds_of_ticks(pts, self._time_base)
        return float("nan") if seconds is None else seconds, seconds_of_ticks(
            frame.duration or 0, self._time_base
        ) or 0.0

    @abstractmethod
    def _raw(self, frame: Any) -> _Raw:
        """Return a frame of the codec as users get it."""


class VideoPacketDecoder(_PacketDecoder[RawFrame]):
    """The codec of a video stream: `Packet` in, `RawFrame` out. `VideoStream.make_decoder` makes it.

    It decodes the packets it gets, with the codec's own concealment of damage, and does not know which frames were
    asked for or where they are; `VideoDecoder` does. `Demuxer.seek` does not affect it: call `reset` before a packet
    from after a seek.

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

    _kind = "picture"
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
    """The codec of an audio stream: `Packet` in, `RawAudioSamples` out. `AudioStream.make_decoder` makes it.

    After `Demuxer.seek` and `reset`, the first samples of most codecs are not quite right: feed some packets from
    before the place that you want, and leave out their samples. `AudioDecoder` knows how many packets each codec needs.

    Example:
        >>> from mediatensor.decoders import Demuxer
        >>> with Demuxer("video.mp4", streams="audio") as demuxer:
        ...     decoder = demuxer.streams[0].make_decoder()
        ...     samples = [sample for packet in demuxer for sample in decoder.decode(packet)] + decoder.drain()
        >>> decoder.reset()
        >>> samples[0].num_channels, round(sum(sample.duration_seconds for sample in samples), 1)
        (1, 10.0)
    """

    _kind = "sound"

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
