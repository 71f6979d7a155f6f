"""Whether a backend decodes a stream for its device, or the CPU does: why it must, and what users are told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ...backends import DecodeBackend, StreamParameters, why_not_guarded
from ..common.messages import warn_once
from ..pyav.opening import StreamInfo

__all__ = ["CpuFallbackStatus", "stream_parameters", "warn_of_fallback", "why_not"]


def stream_parameters(info: StreamInfo, codec_context: Any) -> StreamParameters:
    """What a backend is told of a stream, and the codec context that it may decode with."""
    return StreamParameters(
        codec=info.codec or "unknown",
        profile=info.profile,
        width=info.width or 0,
        height=info.height or 0,
        pixel_format=info.pixel_format,
        bits_per_component=info.bits_per_component,
        extradata=bytes(codec_context.extradata or b""),
        codec_context=codec_context,
    )


def why_not(backend: DecodeBackend, stream: StreamParameters, device: torch.device, on_error: str) -> str | None:
    """Why a stream is not to be decoded by a backend, as far as that is known before it is tried."""
    if backend.name == "cpu":
        return None
    if on_error != "keep":
        return f"on_error={on_error!r} needs a codec that tells which pictures are damaged; the CPU's do"
    return why_not_guarded(backend, stream, device)


@dataclass(frozen=True)
class CpuFallbackStatus:
    """Whether frames that were asked for on another device were decoded on the CPU; true if they were.

    Attributes:
        status_known: Whether it is known yet: what a device can decode shows at the first frame, at the latest.
        device_type: Type of the device that frames come out on.
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
