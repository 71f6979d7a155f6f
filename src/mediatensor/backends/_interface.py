"""The interface of decode backends, which third parties can implement; the CPU backend; the registry of all backends.

Decoders call backends only through `why_not_guarded`, `open_guarded` and `guarded_surface`. If a backend raises an
unexpected exception or returns an invalid result, these functions raise a `DeviceError` that names the backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from .._engine.common.messages import warn_user
from .._engine.common.pictures import Orientation, PixelStep, Surface
from .._engine.pyav.pixels import FrameConverter, surface_of
from .._engine.pyav.reading import PacketDecoder, UndecodablePacketError
from ..errors import DeviceError, InvalidArgumentError
from ._plane_converter import PlaneConverter

_ENTRY_POINT_GROUP = "mediatensor.backends"

_PICTURE_ATTRIBUTES = ("pts", "duration", "width", "height", "key_frame", "is_corrupt")


@dataclass(frozen=True)
class StreamParameters:
    """Header data of a video stream, for the backend that decodes it.

    Attributes:
        codec: FFmpeg's name of the codec: ``"h264"``, ``"hevc"``, ``"av1"``, ...
        profile: FFmpeg's name of the codec profile, such as ``"Main"``; ``None`` if unknown.
        width: Width of a picture in pixels, before rotation. The backend must return pictures of this size. Pass it to
            the codec, because the stream itself may state a size that is rounded up to a multiple of 16.
        height: Height of a picture in pixels, before rotation; see ``width``.
        pixel_format: FFmpeg's name of the format that a software decoder would return, such as ``"yuv420p10le"``;
            ``None`` if unknown.
        bits_per_component: Number of bits of each component of a pixel (8, 10, ...); ``None`` if unknown.
        extradata: The codec's configuration record as the container stores it; empty if there is none.
        codec_context: PyAV's codec context of the demuxed stream, configured for software decoding but not open.
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
    """The attributes that a decoded picture must have. Its pixels can be on any device.

    A picture can also have two attributes of `Surface`: ``orientation``, and ``num_bytes``, the number of bytes that it
    counts for in the frame cache (`mediatensor.set_frame_cache_bytes`).
    """

    @property
    def pts(self) -> int | None:
        """Presentation time (pts) of the picture's packet, in ticks, unchanged; ``None`` if the packet has no pts."""

    @property
    def duration(self) -> int:
        """Duration of the picture's packet in ticks, the unit of `pts`; 0 if the packet has no duration."""

    @property
    def width(self) -> int:
        """Width of the stored picture in pixels, before rotation."""

    @property
    def height(self) -> int:
        """Height of the stored picture in pixels, before rotation."""

    @property
    def key_frame(self) -> bool:
        """Whether the picture can be decoded without other pictures."""

    @property
    def is_corrupt(self) -> bool:
        """Whether the codec marks the picture as damaged."""


class PictureDecoder(ABC):
    """Decodes the packets of one video stream to pictures. It gets the packets in the order of the file."""

    @abstractmethod
    def decode(self, packet: Any | None) -> Sequence[Picture]:
        """Feed a packet, and return the pictures that are ready, in presentation order.

        Args:
            packet: A PyAV packet: a buffer of bytes with ``pts``, ``dts``, ``duration`` and ``is_keyframe``. ``None``
                marks the end of the stream, and makes the decoder return the remaining pictures.

        Returns:
            A sequence of pictures (`Picture`), which can be empty.

        Raises:
            UndecodablePacketError: if the codec rejects the packet, but can possibly decode later packets. The packet
                is then skipped. If a frame is missing without it, the stream is decoded on the CPU, except in
                approximate mode.
            DeviceError: if decoding cannot continue. The stream is then decoded on the CPU.
        """

    @abstractmethod
    def flush(self) -> None:
        """Discard the codec's state. This is called after a seek, so the next packet comes from another position."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources. Pictures that were returned stay valid."""

    @property
    def is_open(self) -> bool:
        """Whether the codec is open."""
        return True


class PictureConverter(Protocol):
    """Converts pictures to RGB, and writes them to a batch (N, H, W, 3). Each thread has its own converter."""

    def orientation_of(self, picture: Any) -> Orientation:
        """Return the orientation of a picture: whether it must be transposed, and then flipped, to be upright."""

    def output_size(self, picture: Any, orientation: Orientation) -> tuple[int, int]:
        """Return the (height, width) of a picture in pixels after it is turned upright, resized, cropped and padded."""

    def empty(self, num_rows: int, height: int, width: int) -> Any:
        """Return an uninitialised array or tensor for a batch of frames.

        Its shape is (num_rows, height, width, 3), and its dtype is uint8 or float32.
        """

    def write(self, picture: Any, orientation: Orientation, out: Any) -> None:
        """Convert a picture to RGB, and write it to ``out`` (height, width, 3), scaled if its size differs.

        ``out`` is one frame of a batch that `empty` returned.
        """

    def here(self) -> Callable[[], AbstractContextManager[object]]:
        """Return a function that another thread can call to get a context manager.

        In the ``with`` block of this context manager, the other thread uses the CUDA stream that was current in the
        thread that called `here`. On other devices, the context manager does nothing.
        """


class DecodeBackend(ABC):
    """Decodes video on one kind of hardware: the CPU, a GPU, ...

    Attributes:
        name: The backend's name, as passed to ``decode_backend`` of `VideoDecoder`: ``"cpu"``, ``"cuda"``, ...
        device_types: Types of torch devices for which this backend is the default, such as ``("cuda",)``.
    """

    name: ClassVar[str]
    device_types: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def why_not(self, stream: StreamParameters, device: torch.device) -> str | None:
        """Return the reason why this backend cannot decode a stream, as text; ``None`` if it probably can.

        This method must not decode anything.
        """

    @abstractmethod
    def open(self, stream: StreamParameters, device: torch.device) -> PictureDecoder:
        """Return a new decoder for a stream. The decoder will get all packets of the stream, starting with the first.

        Raises:
            DeviceError: if this backend cannot decode the stream.
        """

    def surface(self, picture: Any, device: torch.device) -> Surface:
        """Convert ``picture``, which this backend has decoded, to a `Surface`, whose planes are tensors on ``device``.

        This base method returns ``picture`` unchanged. Backends whose pictures are not `Surface` objects override it.
        """
        if not isinstance(picture, Surface):
            raise TypeError(f"The backend {self.name!r} must define surface() for {type(picture).__name__}.")
        return picture

    def converter(self, device: torch.device, steps: tuple[PixelStep, ...], *, is_float: bool) -> PictureConverter:
        """Return a converter that turns this backend's pictures into RGB on a device.

        Args:
            device: Device of the converted frames.
            steps: Transforms to apply to each frame: `ResizeStep`, `CropStep` and `PadStep` objects, in order.
            is_float: Whether frames are float32 in [0, 1]. If false, they are uint8.
        """
        return PlaneConverter(partial(guarded_surface, self), device, steps, is_float=is_float)


# Calls of backends that may come from third parties


def why_not_guarded(backend: DecodeBackend, stream: StreamParameters, device: torch.device) -> str | None:
    """Call `DecodeBackend.why_not`. If it raises an exception, return the message of the exception as the reason."""
    try:
        with _Naming(backend):
            reason = backend.why_not(stream, device)
    except DeviceError as error:
        reason = str(error)
    return reason if reason is None else str(reason) or f"the backend {backend.name!r} gives no reason"


def open_guarded(backend: DecodeBackend, stream: StreamParameters, device: torch.device) -> PictureDecoder:
    """Call `DecodeBackend.open`.

    All errors of this call and of the returned decoder become `DeviceError`, except for an `UndecodablePacketError` of
    `PictureDecoder.decode`.
    """
    with _Naming(backend):
        decoder = backend.open(stream, device)
    if not isinstance(decoder, PictureDecoder):
        raise DeviceError(f"open() of the backend {backend.name!r} must return a PictureDecoder (got {decoder!r}).")
    return _GuardedDecoder(backend, decoder)


def guarded_surface(backend: DecodeBackend, picture: Any, device: torch.device) -> Surface:
    """Call `DecodeBackend.surface`. Raise `DeviceError` unless the planes are tensors with data (not meta tensors)."""
    with _Naming(backend):
        surface = backend.surface(picture, device)
    if not isinstance(surface, Surface) or not all(
        isinstance(plane, Tensor) and plane.device.type != "meta" for plane in surface.planes
    ):
        raise DeviceError(
            f"surface() of the backend {backend.name!r} must return a Surface with planes "
            f"(got {type(surface).__name__})."
        )
    return surface


class _GuardedDecoder(PictureDecoder):
    def __init__(self, backend: DecodeBackend, decoder: PictureDecoder) -> None:
        self._backend = backend
        self._decoder = decoder

    @property
    def is_open(self) -> bool:
        return self._decoder.is_open

    def decode(self, packet: Any | None) -> Sequence[Picture]:
        with _Naming(self._backend, UndecodablePacketError):
            pictures = list(self._decoder.decode(packet))
        for picture in pictures:
            if missing := [name for name in _PICTURE_ATTRIBUTES if not hasattr(picture, name)]:
                raise DeviceError(
                    f"The backend {self._backend.name!r} returned a {type(picture).__name__} as a picture, which has "
                    f"no {', '.join(missing)}."
                )
        return pictures

    def flush(self) -> None:
        with _Naming(self._backend):
            self._decoder.flush()

    def close(self) -> None:
        try:
            with _Naming(self._backend):
                self._decoder.close()
        except DeviceError as error:  # warn instead of raising, so that everything else is still closed
            warn_user(str(error))


class _Naming:
    """Turns every exception of a ``with`` block into a `DeviceError` that names the backend, except ``passed`` types.

    A generator function could not do this with a `StopIteration`.
    """

    def __init__(self, backend: DecodeBackend, *passed: type[Exception]) -> None:
        self._backend = backend
        self._passed: tuple[type[Exception], ...] = (DeviceError, *passed)

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, self._passed):
            raise DeviceError(f"The backend {self._backend.name!r} failed: {error!r}.") from error


class CpuBackend(DecodeBackend):
    """The backend that decodes with FFmpeg's software decoders.

    If the output is on another device, the planes are uploaded, and the device converts, rotates, scales and crops
    them. For 8-bit 4:2:0, they have 1.5 bytes per pixel, half the size of RGB.
    """

    name = "cpu"
    device_types: ClassVar[tuple[str, ...]] = ("cpu",)

    def why_not(self, stream: StreamParameters, device: torch.device) -> str | None:
        return None

    def open(self, stream: StreamParameters, device: torch.device) -> PictureDecoder:
        return _SoftwareDecoder(stream.codec_context)

    def surface(self, picture: Any, device: torch.device) -> Surface:
        return surface_of(picture)

    def converter(self, device: torch.device, steps: tuple[PixelStep, ...], *, is_float: bool) -> PictureConverter:
        if device.type == "cpu":
            return FrameConverter(steps, is_float=is_float)
        return super().converter(device, steps, is_float=is_float)


class _SoftwareDecoder(PacketDecoder, PictureDecoder):
    pass


# The registry: backends that are built in, registered, or part of installed packages


_backends: dict[str, DecodeBackend] = {}


def register_backend(backend: DecodeBackend) -> None:
    """Register a backend under its ``name``. It replaces any backend with the same name.

    Instead of calling this function, a package can declare an entry point in the group ``mediatensor.backends``, which
    is found automatically. The entry point must refer to a `DecodeBackend`, or to a class or function that returns one
    when it is called without arguments.

    A spawned process does not inherit registered backends. It has only the backends from entry points, and the backends
    that are registered while it imports the main module.

    Args:
        backend: An instance of a subclass of `DecodeBackend`.

    Raises:
        InvalidArgumentError: if ``backend`` is not a `DecodeBackend` with a name.

    Example:
        >>> from mediatensor.backends import get_backend, register_backend
        >>> register_backend(get_backend("cpu"))
    """
    name = getattr(backend, "name", None)
    if not isinstance(backend, DecodeBackend) or not isinstance(name, str) or not name:
        raise InvalidArgumentError(
            f"A backend must be an instance of DecodeBackend with a name (got {backend!r}, its name {name!r})."
        )
    _backends[name] = backend


def available_backends() -> tuple[str, ...]:
    """Return the sorted names of all backends: built in, registered, or in installed packages. Nothing is imported.

    Example:
        >>> from mediatensor.backends import available_backends
        >>> {"cpu", "cuda"} <= set(available_backends())
        True
    """
    return tuple(sorted({*_backends, *_installed()}))


def get_backend(name: str) -> DecodeBackend:
    """Return the decode backend that has the given name.

    Args:
        name: One of the names that `available_backends` returns.

    Raises:
        InvalidArgumentError: if there is no backend with this name, or its package cannot be loaded.

    Example:
        >>> from mediatensor.backends import get_backend
        >>> get_backend("cpu").name
        'cpu'
    """
    if not isinstance(name, str) or name not in _backends:
        found = _installed().get(name) if isinstance(name, str) else None
        if found is None:
            raise InvalidArgumentError(
                f"There is no decode backend {name!r}; available are {', '.join(available_backends())}."
            )
        register_backend(_loaded(found))
    return _backends[name]


def _backend_for(device: torch.device) -> DecodeBackend:
    # Check registered backends first: searching the installed packages takes longer than opening a file.
    for known in _backends.values():
        if device.type in known.device_types:
            return known
    for name in available_backends():
        if name not in _backends:
            try:
                get_backend(name)
            except InvalidArgumentError as error:
                warn_user(str(error))
                _installed.cache_clear()
                _broken.add(name)
    return next((known for known in _backends.values() if device.type in known.device_types), _backends["cpu"])


def choose_backend(name: str | None, device: torch.device) -> DecodeBackend:
    if name is None and device.type == "cuda":
        name = _cuda_backend.get()
    if name is None:
        return _backend_for(device)
    if not isinstance(name, str) or (name not in _backends and name not in _installed()):
        raise InvalidArgumentError(
            f"Invalid decode_backend ({name!r}). Supported values are {', '.join(available_backends())}, and None for "
            "the default backend of the device."
        )
    return get_backend(name)


_cuda_backend: ContextVar[str | None] = ContextVar("cuda_backend", default=None)


@contextmanager
def set_cuda_backend(backend: str) -> Iterator[None]:
    """Choose the backend for CUDA decoders that are made in a ``with`` block, for compatibility with torchcodec.

    Args:
        backend: ``"nvdec"``, ``"beta"`` or ``"ffmpeg"``, in upper or lower case. In this library, all three mean NVDEC
            through FFmpeg. To choose among all backends, use ``decode_backend`` of `VideoDecoder`.

    Raises:
        InvalidArgumentError: if the name is not accepted.

    Example:
        >>> from mediatensor.decoders import set_cuda_backend
        >>> with set_cuda_backend("nvdec"):
        ...     pass
    """
    name = backend.lower() if isinstance(backend, str) else backend
    if not isinstance(name, str) or name not in ("nvdec", "ffmpeg", "beta"):
        raise InvalidArgumentError(f"Invalid CUDA backend ({backend}). Supported values are 'nvdec' and 'ffmpeg'.")
    token = _cuda_backend.set("cuda")
    try:
        yield
    finally:
        _cuda_backend.reset(token)


@contextmanager
def scoped_registry() -> Iterator[None]:
    """Remove the backends that were registered or found in a ``with`` block at its end. This is for tests."""
    known = dict(_backends)
    _installed.cache_clear()
    try:
        yield
    finally:
        _backends.clear()
        _backends.update(known)
        _broken.clear()
        _installed.cache_clear()


_broken: set[str] = set()


@lru_cache(maxsize=1)
def _installed() -> dict[str, EntryPoint]:
    found = entry_points(group=_ENTRY_POINT_GROUP)
    return {point.name: point for point in found if point.name not in _broken}


def _loaded(point: EntryPoint) -> DecodeBackend:
    try:
        found = point.load()
        backend = found if isinstance(found, DecodeBackend) else found()
    except Exception as error:  # third-party code may raise anything
        raise InvalidArgumentError(
            f"The decode backend {point.name!r} ({point.value}) cannot be loaded: {error!r}."
        ) from error
    if not isinstance(backend, DecodeBackend) or backend.name != point.name:
        raise InvalidArgumentError(
            f"{point.value} must make a DecodeBackend of the name {point.name!r} (got {backend!r})."
        )
    return backend
