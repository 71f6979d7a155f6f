"""Read the text of videos with its positions and times.

The luma frames of the codec are processed in one pass::

    every frame ──────────► follow: is each known text still visible?          watching, tracking
    every 0.1 s ──────────► compare: are there new edges that stay still?      watching
         │
         ▼ if so
    the band around them ─► the detector finds lines; the recogniser reads     watching, predictor
         │                  still lines twice, and their mean frame at the end
         ▼
    every frame ──────────► is it still the same page? A page that stays and   slides
                            has several lines is a slide, and is read as a page
    lines that have ended ► lines that appear and disappear together form one  kinds
                            text; its position and motion determine its kind
"""

from .predictor import TextStream, VideoTextPredictor

__all__ = ["TextStream", "VideoTextPredictor"]
