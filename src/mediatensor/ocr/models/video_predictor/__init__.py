"""The predictor that reads the text of videos: what stood where, from when to when.

One pass over the frames, whose pictures are looked at gray, as the codec gives them::

    every frame ──────────► followed: is each known text still there?          presence, tracking
    every 0.1 s ──────────► compared: has anything come to rest that was       watching
         │                  not there before?
         ▼ where it has
    the band around it ───► the detector finds lines; the recogniser reads     predictor
         │                  what stands still, twice, and its average at the end
         ▼
    every frame ──────────► is it still the same page? One that stayed, with   slides
                            several lines, is a slide, and is read as a page
    lines that have ended ► those that come and go together are one text;      kinds
                            where and how it stood says of what kind it is
"""

from .predictor import TextStream, VideoTextPredictor

__all__ = ["TextStream", "VideoTextPredictor"]
