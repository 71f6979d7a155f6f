"""The registry of decode backends (built in, registered, or from installed packages), and the choice of a backend."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar

import torch

from .._engine.common.pictures import PixelStep, Surface
from .._engine.pyav.pixels import FrameConverter, surface_of
from .._engine.pyav.reading import PacketDecoder
from ..errors import InvalidArgumentError
from ._interface import DecodeBackend, PictureConverter, PictureDecoder, StreamParameters

_ENTRY_POINT_GROUP = "mediatensor.backends"

_backends: dict[str, DecodeBackend] = {}


def register_backend(backend: DecodeBackend) -> None:
    """Register a backend under its name, replacing any backend of the same name.

    Packages can declare an entry point in the group ``mediatensor.backends`` instead, which is found automatically.
    The entry point names a `DecodeBackend`, or a class or function that makes one without arguments. Spawned processes
    have only the backends of entry points, and backends registered on import of their main module.

    Args:
        backend: The backend.

    Raises:
        InvalidArgumentError: if it is not a `DecodeBackend` with a name.

    Example:
        >>> from mediatensor.backends import register_backend
        >>> from mediatensor.backends import get_backend
        >>> register_backend(get_backend("cpu"))
    """
    name = getattr(backend, "name", None)
    if not isinstance(backend, DecodeBackend) or not isinstance(name, str) or not name:
        raise InvalidArgumentError(
            f"A backend must be an instance of DecodeBackend with a name (got {backend!r}, its name {name!r})."
        )
    _backends[name] = backend


def available_backends() -> tuple[str, ...]:
    """Return the names of all backends: built in, registered, or from installed packages. Packages are not loaded.

    Example:
        >>> from mediatensor.backends import available_backends
        >>> {"cpu", "cuda"} <= set(available_backends())
        True
    """
    return tuple(sorted({*_backends, *_installed()}))


def get_backend(name: str) -> DecodeBackend:
    """Return a backend by name.

    Args:
        name: One of `available_backends`.

    Raises:
        InvalidArgumentError: if there is no backend of this name, or its package cannot be loaded.

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
    """Return the default backend of a device, or the CPU backend if it has none."""
    # Check registered backends first, because searching the installed packages takes longer than opening a file.
    for known in _backends.values():
        if device.type in known.device_types:
            return known
    for name in available_backends():
        if name not in _backends:
            try:
                get_backend(name)
            except InvalidArgumentError as error:
                warnings.warn(str(error), stacklevel=2)
                _installed.cache_clear()
                _broken.add(name)
    return next((known for known in _backends.values() if device.type in known.device_types), _backends["cpu"])


def choose_backend(name: str | None, device: torch.device) -> DecodeBackend:
    """Return a backend by name, or the default backend of a device."""
    if name is None and device.type == "cuda":
        name = _cuda_backend.get()
    if name is None:
        return _backend_for(device)
    if name not in _backends and name not in _installed():
        raise InvalidArgumentError(
            f"Invalid decode_backend ({name!r}). Supported values are {', '.join(available_backends())}, and None for "
            "the one that belongs to the device."
        )
    return get_backend(name)


_CUDA_BACKENDS = {"nvdec": "cuda", "ffmpeg": "cuda", "beta": "cuda"}

_cuda_backend: ContextVar[str | None] = ContextVar("cuda_backend", default=None)


@contextmanager
def set_cuda_backend(backend: str) -> Iterator[None]:
    """Choose the backend of CUDA decoders that are made in a ``with`` block, as in torchcodec.

    Args:
        backend: ``"nvdec"`` (also called ``"beta"``) or ``"ffmpeg"``, in upper or lower case. Both mean NVDEC through
            FFmpeg in this library. ``decode_backend=`` of `VideoDecoder` offers all backends.

    Raises:
        InvalidArgumentError: if the name is not accepted.

    Example:
        >>> from mediatensor.decoders import set_cuda_backend
        >>> with set_cuda_backend("nvdec"):
        ...     pass
    """
    name = backend.lower() if isinstance(backend, str) else backend
    if not isinstance(name, str) or name not in _CUDA_BACKENDS:
        raise InvalidArgumentError(f"Invalid CUDA backend ({backend}). Supported values are 'nvdec' and 'ffmpeg'.")
    token = _cuda_backend.set(_CUDA_BACKENDS[name])
    try:
        yield
    finally:
        _cuda_backend.reset(token)


@contextmanager
def scoped_registry() -> Iterator[None]:
    """Remove, at the end of a ``with`` block, the backends registered or installed within it, for tests."""
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
            f"{point.value} makes no DecodeBackend of the name {point.name!r} (got {backend!r})."
        )
    return backend


class CpuBackend(DecodeBackend):
    """FFmpeg's software decoders.

    On the CPU, swscale converts the pictures to RGB. For other devices, the planes are uploaded (1.5 bytes a pixel for
    8-bit 4:2:0, half the size of RGB), and the device converts, rotates, scales and crops them.
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
    """The codec context of the demuxer's stream as a `PictureDecoder`."""
