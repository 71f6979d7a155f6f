"""What the packets of each codec say, without decoding them.

Units of H.264, HEVC, AV1, MPEG and FFV1: whether a packet holds a picture, whether another picture refers to it,
whether one was lost before it, and where a stream does not simply go on. Pure functions on bytes.
"""

from __future__ import annotations

from .breaks import BreakDetector, break_detector, refreshes_gradually
from .content import PacketContent, content_parser, is_sound, nal_length_size, nal_units_are_sound, slices_are_sound
from .disposable import Disposable, disposable_parser
from .h264_continuity import FrameNumberCheck
from .h264_fields import FieldDetector

__all__ = [
    "BreakDetector",
    "Disposable",
    "FieldDetector",
    "FrameNumberCheck",
    "PacketContent",
    "break_detector",
    "content_parser",
    "disposable_parser",
    "is_sound",
    "nal_length_size",
    "nal_units_are_sound",
    "refreshes_gradually",
    "slices_are_sound",
]
