"""What passes between the blocks of decoding: `Packet`, `RawFrame` and `RawAudioSamples`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, NoReturn, Self

import torch
from torch import Tensor

from .._engine.common.lazy import cached_property
from .._engine.common.pictures import Orientation
from .._engine.pyav.opening import FrameColors, frame_colors
from .._engine.pyav.pixels import component_planes, is_frame
from ..backends import Surface, get_backend
from ..errors import DecodeError, InvalidArgumentError

__all__ = ["Packet", "ProcessBound", "RawAudioSamples", "RawFrame"]


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
    """Raise the error for what can be neither pickled nor copied."""
    raise InvalidArgumentError(
        f"{type(value).__name__} cannot be pickled, copied or sent to another process: it holds memory of FFmpeg's "
        f"that exists in this process alone. {how_to_send}"
    )


class Packet(ProcessBound):
    """One packet of a stream, as a `Demuxer` read it: compressed, and in the order of the file.

    Attributes:
        stream_index: Index of its stream among all of the container, by which it finds its decoder.

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
        """When its frame is shown, in seconds; ``None`` if the container does not say."""
        return seconds_of_ticks(self._packet.pts, self._time_base)

    @property
    def dts_seconds(self) -> float | None:
        """When it is decoded, in seconds; ``None`` if the container does not say."""
        return seconds_of_ticks(self._packet.dts, self._time_base)

    @property
    def duration_seconds(self) -> float:
        """For how long its frame is shown, in seconds; 0 if the container does not say."""
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
    """One decoded picture as its codec left it: planes of some pixel format, mostly Y'CbCr, not turned.

    `ColorConverter` makes RGB of it. `planes` are the samples themselves.

    Attributes:
        pts_seconds: When it is shown, in seconds; NaN if neither container nor codec says.
        duration_seconds: For how long it is shown, in seconds; 0 if the container does not say.

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
        """FFmpeg's name of the Y'CbCr matrix, such as ``"bt709"``; ``"unknown"`` if the stream does not say."""
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
        """In pixels, before the picture is turned."""
        return int(self._picture.width)

    @property
    def height(self) -> int:
        """In pixels, before the picture is turned."""
        return int(self._picture.height)

    @property
    def rotation(self) -> float:
        """By how many degrees, counter-clockwise, the picture has to be turned to be upright; 0 if not at all."""
        return self._orientation.rotation or 0.0

    @property
    def planes(self) -> tuple[Tensor, ...]:
        """One 2-D view (height, width) of each component, in the order of the pixel format's name; uint8 or uint16.

        Chroma is smaller where the format says so; odd sizes are rounded up. A view is strided, because lines are
        padded, and shares the memory of the codec, without a copy: **do not write to it**, since the pictures that are
        decoded next refer to it. It stays valid as long as it is held.

        Raises:
            DecodeError: if the components are no whole bytes (palettes, packed bits, floats), or the picture is stored
                upside down. `ColorConverter` converts these, too.
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
    """Bits of the largest component of a picture."""
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
    """The samples of one decoded frame of sound as its codec gives them.

    `AudioConverter` makes floats of them, at another rate or with other channels if need be.

    Attributes:
        data: (channels, samples), of the type that the codec gives: uint8, int16, int32, int64, float32 or float64.
            A copy. Whole numbers have their full scale (uint8 is silent at 128).
        sample_rate: Samples per second.
        pts_seconds: When the first one is played, in seconds; NaN if neither container nor codec says.
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
    """Ticks of a time base in seconds."""
    # Multiply first: the quotient of two whole numbers is then the nearest double.
    return None if ticks is None else ticks * time_base.numerator / time_base.denominator
