"""Whether a decoder had to fall back to the CPU."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CpuFallbackStatus"]


@dataclass(frozen=True)
class CpuFallbackStatus:
    """Whether frames that were asked for on another device were decoded on the CPU; true if they were.

    Attributes:
        status_known: Whether it is known yet.

    Example:
        >>> status = CpuFallbackStatus(status_known=True)
        >>> bool(status), str(status)
        (False, '[CPU] Fallback status: No fallback required')
    """

    status_known: bool = False

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"[CPU] Fallback status: {'No fallback required' if self.status_known else 'Unknown'}"
