"""The way from an index to a batch of frames.

One call passes these stations, each of which knows only the next::

    VideoDecoder ─► exact ──────────► batch ─────────────► frame_stream ─────► batch
    (decoders)      the index, one    one plan (`plan`),   seek (`seeking`),   convert into rows, and
                    retry a call      kept pictures first  feed, drain, check  do as the error policy says

`approximate` takes the place of `exact` where there is no index. `stream` is one video stream, opened, whose `handles`
hold what one call works with; `frame_cache` keeps decoded pictures; `damage` finds the holes that a call reaches over;
`fallback` says why the CPU decodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._common.lazy import lazy_names
from .frame_cache import FrameCache, get_frame_cache_bytes, kept_bytes, set_frame_cache_bytes
from .frame_stream import FrameStream, IndexMismatchError, MissingFrameError
from .plan import Segment, make_plan

if TYPE_CHECKING:
    from .approximate import ApproximateFrames, Timeline
    from .batch import DecodedPicture, ErrorPolicy, SizeChangePolicy
    from .damage import Asked
    from .exact import ExactFrames
    from .fallback import CpuFallbackStatus, stream_parameters, warn_of_fallback, why_not
    from .stream import HandleSpec, OpenVideo, OutputOptions

__all__ = [
    "ApproximateFrames",
    "Asked",
    "CpuFallbackStatus",
    "DecodedPicture",
    "ErrorPolicy",
    "ExactFrames",
    "FrameCache",
    "FrameStream",
    "HandleSpec",
    "IndexMismatchError",
    "MissingFrameError",
    "OpenVideo",
    "OutputOptions",
    "Segment",
    "SizeChangePolicy",
    "Timeline",
    "get_frame_cache_bytes",
    "kept_bytes",
    "make_plan",
    "set_frame_cache_bytes",
    "stream_parameters",
    "warn_of_fallback",
    "why_not",
]

# These modules load torch, and whoever only looks at a stream does without it, such as `mediatensor probe`.
__getattr__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("ApproximateFrames", "Timeline"), ".approximate"),
        **dict.fromkeys(("DecodedPicture", "ErrorPolicy", "SizeChangePolicy"), ".batch"),
        "Asked": ".damage",
        "ExactFrames": ".exact",
        **dict.fromkeys(("CpuFallbackStatus", "stream_parameters", "warn_of_fallback", "why_not"), ".fallback"),
        **dict.fromkeys(("HandleSpec", "OpenVideo", "OutputOptions"), ".stream"),
    },
)
