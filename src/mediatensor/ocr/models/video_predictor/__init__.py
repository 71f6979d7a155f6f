"""Read the text of videos: its words, places and times.

One pass over the frames, as gray pictures from the codec::

    every frame ──────────► follow: is each known text still there?            watching, tracking
    every 0.1 s ──────────► compare: has anything come to rest that was        watching
         │                  not there before?
         ▼ if so
    the band around it ───► the detector finds lines; the recogniser reads     reading, predictor
         │                  still ones twice, and their average at the end
         ▼
    every frame ──────────► is it still the same page? A page that stayed,     slides
                            with several lines, is a slide, and read as a page
    lines that have ended ► lines that come and go together are one text;      kinds
                            place and course give its kind
"""

from .predictor import TextStream, VideoTextPredictor

__all__ = ["TextStream", "VideoTextPredictor"]
