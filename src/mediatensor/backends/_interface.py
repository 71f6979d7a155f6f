"""The interface of decode backends, which third parties implement, and how the decoders call it.

The decoders call backends through `why_not_guarded`, `open_guarded` and `guarded_surface`: any other
exception or invalid result of a third-party backend becomes a `DeviceError` that names the backend.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from .._engine.common.pictures import Orientation, PixelStep, Surface
from ..errors import DeviceError
from ._plane_converter import PlaneConverter

__all__ = [
    "DecodeBackend",
    "Picture",
    "PictureConverter",
    "PictureDecoder",
    "StreamParameters",
    "Surface",
    "guarded_surface",
    "open_guarded",
    "why_not_guarded",
]

_PICTURE_ATTRIBUTES = ("pts", "duration", "width", "height", "key_frame", "is_corrupt")


@dataclass(frozen=True)
class StreamParameters:
    """Header data of a video stream, for the backend that decodes it.

    Attributes:
        codec: FFmpeg's name of the format: ``"h264"``, ``"hevc"``, ``"av1"``, ...
        profile: FFmpeg's name of the profile, if it is known.
        width: Width of a picture in pixels, before rotation. Pictures must come out in this size: pass it to the codec,
            because the stream itself may only state a multiple of 16.
        height: Height of a picture in pixels, before rotation.
        pixel_format: FFmpeg's name of the format that a software decoder would output, such as ``"yuv420p10le"``, if it
            is known.
        bits_per_component: 8, 10, ..., if it is known.
        extradata: The codec's configuration record as the container stores it; empty if there is none.
        codec_context: PyAV's context of the demuxer's stream, configured and not open, for decoding in software.
    """

    codec: str
    profile: str | None
    width: int
    height: int
    pixel_format: str | None
    bits_per_component: int | None
    extradata: bytes
    codec_context: Any = field(default=None, repr=False, compare=False)


class Picture(Protocol):
    """The attributes of a decoded picture that decoders use, wherever its pixels are.

    Two more attributes, which `Surface` has, are optional: ``num_bytes``, its size in the frame cache
    (`mediatensor.set_frame_cache_bytes`), and ``orientation``, if the picture itself states its rotation.
    """

    @property
    def pts(self) -> int | None:
        """The pts of the packet that the picture came from, unchanged; ``None`` if the packet had none."""

    @property
    def duration(self) -> int:
        """The duration of the packet, in the same ticks; 0 if the packet had none."""

    @property
    def width(self) -> int:
        """In pixels, as stored."""

    @property
    def height(self) -> int:
        """In pixels, as stored."""

    @property
    def key_frame(self) -> bool:
        """Whether the picture refers to no other picture."""

    @property
    def is_corrupt(self) -> bool:
        """Whether the codec marks the picture as damaged."""


class PictureDecoder(ABC):
    """Decodes the packets of one stream, in the order of the file."""

    @abstractmethod
    def decode(self, packet: Any | None) -> Sequence[Picture]:
        """Feed a packet, and return the pictures that come out, in presentation order.

        Args:
            packet: A PyAV packet: a buffer of bytes with ``pts``, ``dts``, ``duration`` and ``is_keyframe``. ``None``
                marks the end of the stream: the remaining pictures come out.

        Raises:
            DeviceError: if decoding cannot continue; the stream is then decoded on the CPU.
        """

    @abstractmethod
    def flush(self) -> None:
        """Forget everything that was fed, after a seek: the next packet comes from another position of the stream."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; pictures that were returned before stay valid."""

    @property
    def is_open(self) -> bool:
        """Whether the codec is open."""
        return True


class PictureConverter(Protocol):
    """Writes pictures as RGB into the rows of a batch. Every thread that converts has its own converter."""

    def orientation_of(self, picture: Any) -> Orientation:
        """The orientation of the picture."""

    def output_size(self, picture: Any, orientation: Orientation) -> tuple[int, int]:
        """(height, width) after rotation and all steps."""

    def empty(self, num_rows: int, height: int, width: int) -> Any:
        """An array or tensor (num_rows, height, width, 3) of undefined values, uint8 or float32."""

    def write(self, picture: Any, orientation: Orientation, out: Any) -> None:
        """Convert the picture into ``out`` of shape (height, width, 3); a picture of another size is scaled to fit."""

    def here(self) -> Callable[[], AbstractContextManager[object]]:
        """Return a function that makes contexts in which other threads use the current stream of this thread."""


class DecodeBackend(ABC):
    """A way of decoding video: on the CPU, on a GPU, ...

    Attributes:
        name: The name for ``decode_backend`` and in reports: ``"cpu"``, ``"cuda"``, ...
        device_types: Types of torch devices for which this backend is the default.
    """

    name: ClassVar[str]
    device_types: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def why_not(self, stream: StreamParameters, device: torch.device) -> str | None:
        """Return why this backend cannot decode a stream, judging without decoding; ``None`` if it may work."""

    @abstractmethod
    def open(self, stream: StreamParameters, device: torch.device) -> PictureDecoder:
        """Open a decoder at the beginning of a stream.

        Raises:
            DeviceError: if this backend cannot decode the stream.
        """

    def surface(self, picture: Any, device: torch.device) -> Surface:
        """The planes of a picture that a decoder of this backend returned; by default the picture itself."""
        if not isinstance(picture, Surface):
            raise TypeError(f"The backend {self.name!r} must define surface() for {type(picture).__name__}.")
        return picture

    def converter(self, device: torch.device, steps: tuple[PixelStep, ...], *, is_float: bool) -> PictureConverter:
        """Make a converter of this backend's pictures into RGB on a device."""
        return PlaneConverter(partial(guarded_surface, self), device, steps, is_float=is_float)


# Calls of backends, which may be third-party code


def why_not_guarded(backend: DecodeBackend, stream: StreamParameters, device: torch.device) -> str | None:
    """`DecodeBackend.why_not`; if it raises, the error is the reason."""
    try:
        with _Naming(backend):
            reason = backend.why_not(stream, device)
    except DeviceError as error:
        reason = str(error)
    return reason if reason is None else str(reason) or f"the backend {backend.name!r} gives no reason"


def open_guarded(backend: DecodeBackend, stream: StreamParameters, device: torch.device) -> PictureDecoder:
    """`DecodeBackend.open`, with a decoder that raises nothing but `DeviceError`.

    Raises:
        DeviceError: if the decoder cannot be opened.
    """
    with _Naming(backend):
        decoder = backend.open(stream, device)
    if not isinstance(decoder, PictureDecoder):
        raise DeviceError(f"open() of the backend {backend.name!r} must return a PictureDecoder (got {decoder!r}).")
    return _GuardedDecoder(backend, decoder)


def guarded_surface(backend: DecodeBackend, picture: Any, device: torch.device) -> Surface:
    """`DecodeBackend.surface`, checked: its planes are tensors with values.

    Raises:
        DeviceError: if the backend returns anything else.
    """
    with _Naming(backend):
        surface = backend.surface(picture, device)
    if not isinstance(surface, Surface) or not all(_has_values(plane) for plane in surface.planes):
        raise DeviceError(
            f"surface() of the backend {backend.name!r} must return a Surface with planes "
            f"(got {type(surface).__name__})."
        )
    return surface


def _has_values(plane: object) -> bool:
    return isinstance(plane, Tensor) and plane.device.type != "meta"


class _GuardedDecoder(PictureDecoder):
    """A decoder that turns every error of another decoder into `DeviceError`.

    Args:
        backend: The backend of the decoder.
        decoder: The other decoder.
    """

    def __init__(self, backend: DecodeBackend, decoder: PictureDecoder) -> None:
        self._backend = backend
        self._decoder = decoder

    @property
    def is_open(self) -> bool:
        return self._decoder.is_open

    def decode(self, packet: Any | None) -> Sequence[Picture]:
        with _Naming(self._backend):
            pictures = list(self._decoder.decode(packet))
        for picture in pictures:
            self._check(picture)
        return pictures

    def _check(self, picture: Any) -> None:
        missing = [name for name in _PICTURE_ATTRIBUTES if not hasattr(picture, name)]
        if missing:
            raise DeviceError(
                f"The backend {self._backend.name!r} gives {type(picture).__name__} for a picture, which has no "
                f"{', '.join(missing)}."
            )

    def flush(self) -> None:
        with _Naming(self._backend):
            self._decoder.flush()

    def close(self) -> None:
        try:
            with _Naming(self._backend):
                self._decoder.close()
        except DeviceError as error:  # a warning, so that everything else is still closed
            warnings.warn(str(error), stacklevel=2)


class _Naming:
    """A context that turns every error into `DeviceError`. A generator could not do that with `StopIteration`."""

    def __init__(self, backend: DecodeBackend) -> None:
        self._backend = backend

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, DeviceError):
            raise DeviceError(f"The backend {self._backend.name!r} failed: {error!r}.") from error
