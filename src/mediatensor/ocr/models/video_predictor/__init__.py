"""Read the text shown in videos, with its positions and times.

All frames are processed once, in order, as the luma that the codec stores. Colours are computed only for frames in
which text is detected or read::

    every frame ──────────► follow: is each known text still visible?          watching, tracking
    every 0.1 s ──────────► compare: are there new edges that stay still?      watching
         │
         ▼ if so
    the band around them ─► the detector finds lines; the recogniser reads     watching, predictor
         │                  each line at rest twice, and at the end the mean of its frames
         ▼
    every frame ──────────► is it still the same page? A page that stays and   slides
                            has several lines is a slide, and is read as a page
    lines that have ended ► lines that appear and disappear together form one  kinds
                            text; its position and motion determine its kind
"""

from .predictor import TextStream, VideoTextPredictor

__all__ = ["TextStream", "VideoTextPredictor"]
