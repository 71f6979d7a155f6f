"""Text in videos: what is shown, when, and where.

`tracks` defines the data, `captions` writes subtitle files, and `reading` bundles all text of a video and exports it.
"""

from __future__ import annotations

from .captions import Captions, SubtitleFormat
from .reading import ReadingFormat, VideoReading
from .tracks import Alternative, Appearance, Box, Place, Slide, TextKind, TextTrack, TrackLine

__all__ = [
    "Alternative",
    "Appearance",
    "Box",
    "Captions",
    "Place",
    "ReadingFormat",
    "Slide",
    "SubtitleFormat",
    "TextKind",
    "TextTrack",
    "TrackLine",
    "VideoReading",
]
