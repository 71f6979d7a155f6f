"""The way from an index to a batch of frames.

`plan` says what to decode, `seeking` and `frame_stream` decode exactly that, `batch` converts it into one tensor,
`frame_cache` keeps what was decoded lately. `stream` is one video stream, opened; `exact` and `approximate` are the
two ways into it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .frame_stream import FrameStream, IndexMismatchError, MissingFrameError

if TYPE_CHECKING:
    from .approximate import ApproximateFrames
    from .batch import ErrorPolicy, SizeChangePolicy
    from .exact import ExactFrames
    from .fallback import CpuFallbackStatus, stream_parameters, warn_of_fallback, why_not
    from .stream import HandleSpec, OpenVideo, OutputOptions

__all__ = [
    "ApproximateFrames",
    "CpuFallbackStatus",
    "ErrorPolicy",
    "ExactFrames",
    "FrameStream",
    "HandleSpec",
    "IndexMismatchError",
    "MissingFrameError",
    "OpenVideo",
    "OutputOptions",
    "SizeChangePolicy",
    "stream_parameters",
    "warn_of_fallback",
    "why_not",
]

# These modules load torch, and whoever only looks at a stream does without it, such as `mediatensor probe`.
_MODULES = {
    "ApproximateFrames": "approximate",
    "CpuFallbackStatus": "fallback",
    "ErrorPolicy": "batch",
    "ExactFrames": "exact",
    "HandleSpec": "stream",
    "OpenVideo": "stream",
    "OutputOptions": "stream",
    "SizeChangePolicy": "batch",
    "stream_parameters": "fallback",
    "warn_of_fallback": "fallback",
    "why_not": "fallback",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
