"""On which device frames come out, and by what they are decoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch

from .._common.devices import checked_device
from .._common.messages import warn_once
from .._pyav import VideoReader
from ..backends import DecodeBackend, StreamParameters, available_backends, backend_for, get_backend, why_not_guarded
from ..errors import InvalidArgumentError

__all__ = [
    "CpuFallbackStatus",
    "choose_backend",
    "resolve_device",
    "set_cuda_backend",
    "stream_parameters",
    "warn_of_fallback",
    "why_not",
]

_CUDA_BACKENDS = {"nvdec": "cuda", "ffmpeg": "cuda", "beta": "cuda"}

_cuda_backend: ContextVar[str | None] = ContextVar("cuda_backend", default=None)


def resolve_device(device: object) -> torch.device:
    """The device of an argument, with its index; ``None`` is torch's default device.

    Raises:
        InvalidArgumentError: if torch has no such device here.
        DeviceError: if it is a CUDA device and this process was forked from one that used CUDA.

    >>> resolve_device("cpu")
    device(type='cpu')
    """
    resolved = checked_device(device)
    # Makes the device ready, and gives it an index if it had none.
    return resolved if resolved.type == "cpu" else torch.empty(0, device=resolved).device


@contextmanager
def set_cuda_backend(backend: str) -> Iterator[None]:
    """For decoders that are made in a ``with`` block on a CUDA device, choose what decodes, as torchcodec has it.

    Args:
        backend: ``"nvdec"`` (also called ``"beta"``) or ``"ffmpeg"``, in capitals or not: NVDEC by way of FFmpeg here,
            both. ``decode_backend=`` of `VideoDecoder` is the wider choice.

    Raises:
        InvalidArgumentError: if it is neither.

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


def choose_backend(name: str | None, device: torch.device) -> DecodeBackend:
    """The backend of a name, or the one that belongs to a device.

    Raises:
        InvalidArgumentError: if there is none of that name.

    >>> import torch
    >>> choose_backend(None, torch.device("cpu")).name
    'cpu'
    """
    if name is None and device.type == "cuda":
        name = _cuda_backend.get()
    if name is None:
        return backend_for(device)
    if name not in available_backends():
        raise InvalidArgumentError(
            f"Invalid decode_backend ({name!r}). Supported values are {', '.join(available_backends())}, and None for "
            "the one that belongs to the device."
        )
    return get_backend(name)


def stream_parameters(reader: VideoReader) -> StreamParameters:
    """What a backend is told of the stream of a reader."""
    facts = reader.stream_info()
    return StreamParameters(
        codec=facts.codec or "unknown",
        profile=facts.profile,
        width=facts.width or 0,
        height=facts.height or 0,
        pixel_format=facts.pixel_format,
        bits_per_component=facts.bits_per_component,
        extradata=reader.extradata,
        codec_context=reader.codec_context,
    )


def why_not(backend: DecodeBackend, stream: StreamParameters, device: torch.device, on_error: str) -> str | None:
    """Why a stream is not to be decoded by a backend, as far as that is known before it is tried."""
    if backend.name == "cpu":
        return None
    if on_error != "raise":
        return f"on_error={on_error!r} needs a codec that tells which pictures are damaged; the CPU's do"
    return why_not_guarded(backend, stream, device)


@dataclass(frozen=True)
class CpuFallbackStatus:
    """Whether frames that were asked for on another device were decoded on the CPU; true if they were.

    Attributes:
        status_known: Whether it is known yet: what a device can decode shows at the first frame, at the latest.
        device_type: Of the device that frames come out on.
        reason: Why the CPU decodes; ``None`` if it does not, or because it was asked to.

    Example:
        >>> from mediatensor.decoders import CpuFallbackStatus
        >>> status = CpuFallbackStatus(status_known=True)
        >>> bool(status), str(status)
        (False, '[CPU] Fallback status: No fallback required')
        >>> str(CpuFallbackStatus(True, "cuda", "NVcuvid unavailable: there is no driver"))
        '[CUDA] Fallback status: Falling back due to: NVcuvid unavailable: there is no driver'
    """

    status_known: bool = False
    device_type: str = "cpu"
    reason: str | None = None

    def __bool__(self) -> bool:
        return self.reason is not None

    def __str__(self) -> str:
        if self.reason is not None:
            status = f"Falling back due to: {self.reason}"
        else:
            status = "No fallback required" if self.status_known else "Unknown"
        return f"[{self.device_type.upper()}] Fallback status: {status}"


def warn_of_fallback(status: CpuFallbackStatus) -> None:
    """Warn that the CPU decodes, once in this process for each reason."""
    warn_once(
        f"Frames for the device {status.device_type!r} are decoded in software, on the CPU: {status.reason}. "
        "(strict_device=True makes this an error, decode_backend='cpu' asks for it.)"
    )
