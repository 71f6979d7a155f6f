"""Cover texts of a video with black boxes, from the first frame that shows them to the last."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeAlias

from ..._engine.common.checks import path_text, shown
from ..._engine.sources.output_files import check_outputs
from ...decoders import VideoDecoder
from ...decoders._access import access_to
from ...encoders._rewriting import rewrite_video
from ...errors import InvalidArgumentError, RedactionError
from ..utils._text_search import find_words, search_patterns, warn_without_match
from ..utils.geometry import polygon_to_bbox
from .tracks import Box, TextTrack

#: What to redact: a word or phrase, a regular expression, or a track.
RedactedText: TypeAlias = str | re.Pattern[str] | TextTrack

# A track begins and ends where the text has two fifths of its strength. In a linear fade of 1.5 seconds, the longest
# that the predictor follows, the text is fainter for 0.6 seconds before the first frame of its track, and after the
# last.
_FADE_SECONDS = 0.6
# Margin of a box on every side, as a share of the height of a line, and in pixels.
_MARGIN, _LEAST_MARGIN_PIXELS = 0.25, 2
_MAX_READINGS = 3


class _Span(NamedTuple):
    """A box to cover from one time to another, inclusive, in seconds."""

    start: float
    stop: float
    box: tuple[float, float, float, float]


class _FoundAgainError(Exception):
    def __init__(self, tracks: Sequence[TextTrack]) -> None:
        super().__init__()
        self.tracks = tracks


def redact_video(
    tracks: Sequence[TextTrack],
    size: tuple[int, int],
    video: Any,
    path: str | os.PathLike[str],
    texts: Sequence[RedactedText],
    regions: Iterable[Sequence[float] | Box],
    predictor: Callable[[Any], Any] | None,
) -> tuple[TextTrack, ...]:
    """Write a video without some texts; see `VideoReading.redact`.

    ``tracks`` and ``size`` (height, width) come from the reading.
    """
    if not isinstance(regions, Iterable):
        raise InvalidArgumentError(f"regions must be a series of boxes (got {shown(regions)}).")
    spans = [_Span(float("-inf"), float("inf"), _region(region)) for region in regions]
    if not texts and not spans:
        raise InvalidArgumentError("There is nothing to redact: give a text, a regular expression, a track or regions.")
    searched = [text for text in texts if not isinstance(text, TextTrack)]
    patterns = search_patterns(searched)
    chosen = [track for track in tracks if track in texts or any(_matches(one, track) for one in patterns)]
    chosen += [text for text in texts if isinstance(text, TextTrack) and text not in chosen]
    for text, pattern in zip(searched, patterns, strict=True):
        if not any(_matches(pattern, track) for track in chosen):
            warn_without_match(text, "in the video")
    is_open = isinstance(video, VideoDecoder)
    with nullcontext(video) if is_open else VideoDecoder(video) as decoder:
        opened = access_to(decoder).video
        check_outputs([path_text("path", path)], [opened.spec.source.local_file])
        found_size = decoder.metadata.height, decoder.metadata.width
        if found_size != size:
            raise InvalidArgumentError(
                f"The reading belongs to a video of {size[1]}x{size[0]} (width x height), and {opened.name} "
                f"has {found_size[1]}x{found_size[0]}; pass the video that was read."
            )

        def check(written: str) -> None:
            found = predictor(written).tracks if predictor is not None and patterns else ()
            if again := [track for track in found if any(_matches(pattern, track) for pattern in patterns)]:
                raise _FoundAgainError(again)

        again: Sequence[TextTrack] = ()
        for _ in range(_MAX_READINGS):
            chosen += again
            boxes = _Cover([*spans, *(span for track in chosen for span in _spans(track, *size))])
            try:
                rewrite_video(decoder, path, boxes, check)
                return tuple(chosen)
            except _FoundAgainError as error:
                again = error.tracks
    places = ", ".join(f"{shown(track.text)} at {track.start_seconds:.3f} s" for track in again)
    raise RedactionError(
        f"After redaction, text to redact can still be read: {places}. Nothing was written; redact regions as well."
    )


class _Cover:
    """Function object that returns the boxes to cover at a time. It is called with times that do not decrease."""

    def __init__(self, spans: Iterable[_Span]) -> None:
        self._waiting = sorted(spans, reverse=True)
        self._active: list[_Span] = []

    def __call__(self, seconds: float) -> list[tuple[float, float, float, float]]:
        while self._waiting and self._waiting[-1].start <= seconds:
            self._active.append(self._waiting.pop())
        self._active = [span for span in self._active if span.stop >= seconds]
        return [span.box for span in self._active]


def _spans(track: TextTrack, height: int, width: int) -> list[_Span]:
    """Return the boxes to cover for a track.

    Between two places of a moving text, the box contains both. Before the first place and after the last, the text may
    move on at the same speed.
    """
    start, stop = track.start_seconds - _FADE_SECONDS, track.end_seconds + _FADE_SECONDS
    places = [(place.seconds, place.geometry) for place in sorted(track.places, key=lambda place: place.frame)]
    places = places or [(track.start_seconds, track.geometry)]
    moments = [start, *(seconds for seconds, _ in places), stop]
    boxes = [_continued(places[:2][::-1], start), *(box for _, box in places), _continued(places[-2:], stop)]
    (_, top), (_, bottom) = track.geometry
    line_height = (bottom - top) / (1 if track.places else track.text.count("\n") + 1)
    margin = max(_MARGIN * line_height * height, _LEAST_MARGIN_PIXELS)
    return [
        _Span(
            moments[number], moments[number + 1], _around(boxes[number : number + 2], margin / width, margin / height)
        )
        for number in range(len(boxes) - 1)
    ]


def _continued(places: Sequence[tuple[float, Box]], seconds: float) -> Box:
    """Return the box at a time after the last of one or two places, if the text moves on at the same speed."""
    (before, earlier), (after, later) = places[0], places[-1]
    share = (seconds - after) / (after - before) if after != before else 0.0
    corners = [
        (x + share * (x - x_before), y + share * (y - y_before))
        for (x_before, y_before), (x, y) in zip(earlier, later, strict=True)
    ]
    return corners[0], corners[1]


def _around(boxes: Sequence[Box], margin_x: float, margin_y: float) -> tuple[float, float, float, float]:
    (left, top), (right, bottom) = polygon_to_bbox([corner for box in boxes for corner in box])
    return left - margin_x, top - margin_y, right + margin_x, bottom + margin_y


def _matches(pattern: re.Pattern[str], track: TextTrack) -> bool:
    texts = (track.text, *(other.text for other in track.alternatives))
    return any(find_words(pattern, [line.split() for line in text.split("\n")]) for text in texts)


def _region(region: Sequence[float] | Box) -> tuple[float, float, float, float]:
    try:
        values = [float(value) for part in region for value in (part if isinstance(part, Sequence) else (part,))]
        left, top, right, bottom = values
    except (TypeError, ValueError):
        left = top = right = bottom = 0.0
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise InvalidArgumentError(
            f"The region {shown(region)} must be (xmin, ymin, xmax, ymax), relative to the frame, in [0, 1], with "
            "xmin < xmax and ymin < ymax."
        )
    return left, top, right, bottom
