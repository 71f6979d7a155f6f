"""The way from an index to a batch of frames.

`plan` says what to decode, `seeking` and `frame_stream` decode exactly that, `batch` converts it into one tensor,
`frame_cache` keeps what was decoded lately. `stream` is one video stream, opened; `exact` and `approximate` are the
two ways into it.
"""

from __future__ import annotations

from .approximate import ApproximateFrames
from .batch import ErrorPolicy, SizeChangePolicy
from .exact import ExactFrames
from .fallback import CpuFallbackStatus
from .frame_stream import FrameStream, IndexMismatchError, MissingFrameError
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
]
