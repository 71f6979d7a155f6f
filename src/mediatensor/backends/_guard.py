"""What backends of others do wrong, as one kind of error, which names the backend."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._surface import Surface
from ..errors import DeviceError
from ._interface import DecodeBackend, Picture, PictureDecoder, StreamParameters

__all__ = ["guarded_surface", "open_guarded", "why_not_guarded"]

_PICTURE_ATTRIBUTES = ("pts", "duration", "width", "height", "key_frame", "is_corrupt")


def why_not_guarded(backend: DecodeBackend, stream: StreamParameters, device: torch.device) -> str | None:
    """`DecodeBackend.why_not`; that it fails is a reason, too."""
    try:
        with _Naming(backend):
            reason = backend.why_not(stream, device)
    except DeviceError as error:
        reason = str(error)
    return reason if reason is None else str(reason) or f"the backend {backend.name!r} gives no reason"


def open_guarded(backend: DecodeBackend, stream: StreamParameters, device: torch.device) -> PictureDecoder:
    """`DecodeBackend.open`, of which the decoder raises nothing but `DeviceError`.

    Raises:
        DeviceError: if it cannot be opened.
    """
    with _Naming(backend):
        decoder = backend.open(stream, device)
    if not isinstance(decoder, PictureDecoder):
        raise DeviceError(f"The backend {backend.name!r} opens no PictureDecoder, but {decoder!r}.")
    return _GuardedDecoder(backend, decoder)


def guarded_surface(backend: DecodeBackend, picture: Any, device: torch.device) -> Surface:
    """`DecodeBackend.surface`, with planes that have values.

    Raises:
        DeviceError: if there is none.
    """
    with _Naming(backend):
        surface = backend.surface(picture, device)
    if not isinstance(surface, Surface) or not all(_has_values(plane) for plane in surface.planes):
        raise DeviceError(f"The backend {backend.name!r} gives no Surface with planes, but {type(surface).__name__}.")
    return surface


def _has_values(plane: object) -> bool:
    return isinstance(plane, Tensor) and plane.device.type != "meta"


class _GuardedDecoder(PictureDecoder):
    """A decoder of a backend that may be another's.

    Args:
        backend: Whose it is.
        decoder: What decodes.
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
        except DeviceError as error:  # nothing can be done about it, and other things are to be closed
            warnings.warn(str(error), stacklevel=2)


class _Naming:
    """A context that turns whatever is raised into `DeviceError`; a generator could not do so with `StopIteration`."""

    def __init__(self, backend: DecodeBackend) -> None:
        self._backend = backend

    def __enter__(self) -> None:
        """Nothing is to be prepared."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, DeviceError):
            raise DeviceError(f"The backend {self._backend.name!r} failed: {error!r}.") from error
