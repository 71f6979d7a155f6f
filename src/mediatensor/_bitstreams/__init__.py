"""What the packets of each codec say, without decoding them.

Units of H.264, HEVC, AV1, VP8, VP9, MPEG and FFV1: whether a packet holds a picture, whether another picture refers to
it, whether one was lost before it, and where a stream does not simply go on. Pure functions on bytes.
"""

from __future__ import annotations

from .content import (
    CODECS_OF_FRAMES_ONLY,
    BreakDetector,
    break_detector,
    content_parser,
    disposable_parser,
    is_shown_at_once,
    is_sound,
    nal_units_are_sound,
    refreshes_gradually,
    slices_are_sound,
)
from .h264 import H264Parser
from .inspection import packet_inspector
from .order import GUARDED_CODECS, PictureOrder, order_guard, picture_order
from .units import HEAD_BYTES, Disposable, PacketContent

__all__ = [
    "CODECS_OF_FRAMES_ONLY",
    "GUARDED_CODECS",
    "HEAD_BYTES",
    "BreakDetector",
    "Disposable",
    "H264Parser",
    "PacketContent",
    "PictureOrder",
    "break_detector",
    "content_parser",
    "disposable_parser",
    "is_shown_at_once",
    "is_sound",
    "nal_units_are_sound",
    "order_guard",
    "packet_inspector",
    "picture_order",
    "refreshes_gradually",
    "slices_are_sound",
]
