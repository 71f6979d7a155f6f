"""Text in video: what stood where, from when to when.

`tracks` is the data, `captions` writes subtitles, and `reading` gathers what was read in a video and writes it in all
formats. The room stands on `ocr.io` and `ocr.utils`.
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
