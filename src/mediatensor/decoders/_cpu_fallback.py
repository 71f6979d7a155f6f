"""Whether a decoder had to fall back to the CPU, why, and the one warning about it."""

from __future__ import annotations

from dataclasses import dataclass

from .._warnings import warn_once

__all__ = ["CpuFallbackStatus", "warn_of_fallback"]


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
