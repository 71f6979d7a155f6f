"""Data classes for the text of a video: text tracks with times and positions, and slides.

Times are timestamps of the video in seconds, and frames are numbered from 0, as in `VideoDecoder`. Geometries
consist of fractions of the frame's width and height, in [0, 1], after the frame was rotated upright.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ..._engine.common.checks import MAX_INT, finite_number, items_of, shown, whole_number
from ...errors import InvalidArgumentError
from ..io import Page

__all__ = ["Alternative", "Appearance", "Box", "Place", "Slide", "TextKind", "TextTrack", "TrackLine"]

TextKind = Literal["caption", "overlay", "scene", "slide"]
Appearance = Literal["at once", "word by word"]
# Coordinates and times above this value (30 years) indicate damaged data.
_MAX_VALUE = 1e9

# ((xmin, ymin), (xmax, ymax)), relative to the upright frame.
Box: TypeAlias = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Alternative:
    """An alternative reading of the text of a `TextTrack`.

    OCR recognises the text in several frames. If letters are unclear, the results can differ. Each frame has a vote.

    Attributes:
        text: The alternative text; lines are separated by ``"\\n"``.
        share: Fraction of all votes that are for this reading, from 0 to 1.

    Example:
        >>> from mediatensor.ocr.video import Alternative
        >>> Alternative("Good evcning", 0.25)
        Alternative(text='Good evcning', share=0.25)
    """

    text: str
    share: float

    def __post_init__(self) -> None:
        set_attributes(self, text=_check_text("text", self.text), share=_check_share("share", self.share))


@dataclass(frozen=True)
class TrackLine:
    """One line of the text of a `TextTrack`.

    Attributes:
        text: The text of the line.
        geometry: Box of the line, ((xmin, ymin), (xmax, ymax)), relative to the upright frame.
        confidence: Estimated probability that the text was read correctly, from 0 to 1.

    Example:
        >>> from mediatensor.ocr.video import TrackLine
        >>> TrackLine("Good evening", ((0.3, 0.88), (0.7, 0.94)), 0.97).text
        'Good evening'
    """

    text: str
    geometry: Box
    confidence: float

    def __post_init__(self) -> None:
        set_attributes(
            self,
            text=_check_text("text", self.text),
            geometry=_check_box(self.geometry),
            confidence=_check_share("confidence", self.confidence),
        )


@dataclass(frozen=True)
class Place:
    """The position of a moving text in one frame.

    Attributes:
        frame: Index of the frame in the video.
        seconds: Time in seconds at which the frame is shown.
        geometry: Box of the text, ((xmin, ymin), (xmax, ymax)), relative to the upright frame.

    Example:
        >>> from mediatensor.ocr.video import Place
        >>> Place(30, 1.0, ((0.1, 0.2), (0.4, 0.3))).seconds
        1.0
    """

    frame: int
    seconds: float
    geometry: Box

    def __post_init__(self) -> None:
        set_attributes(
            self,
            frame=whole_number("frame", self.frame, at_least=0, at_most=MAX_INT),
            seconds=check_seconds("seconds", self.seconds),
            geometry=_check_box(self.geometry),
        )


@dataclass(frozen=True)
class TextTrack:
    """A text in a video, with the times at which it is shown and its position in the frame.

    Attributes:
        text: The text; lines are separated by ``"\\n"``.
        kind: One of

            * ``"caption"``: subtitles in the pixels, which stay in place for a while;
            * ``"overlay"``: logo, clock, score, ticker;
            * ``"scene"``: text on objects that were filmed;
            * ``"slide"``: text on a page, such as a slide of a lecture.
        start_seconds: Time in seconds at which the first frame with the text is shown.
        end_seconds: Time in seconds at which the first frame without the text is shown.
        first_frame: Index of the first frame that shows the text, as in `VideoDecoder`.
        last_frame: Index of the last frame that shows the text.
        geometry: Box of the text, ((xmin, ymin), (xmax, ymax)), relative to the upright frame. For a moving text, the
            box in ``first_frame``.
        confidence: Estimated probability that the text was read correctly, from 0 to 1.
        lines: The lines of the text as `TrackLine`, from top to bottom; empty if unknown.
        alternatives: Other readings of the text as `Alternative`. The one with most votes comes first.
        appears: How the text appears: ``"at once"``, or ``"word by word"`` as in karaoke, live captions and typing.
        places: The positions of a moving text as `Place`, frame by frame; empty if the text does not move.

    Raises:
        InvalidArgumentError: A value has a wrong type or range, the text is blank, the end is before the start, or
            ``lines`` joined by ``"\\n"`` do not give the text.

    Example:
        >>> from mediatensor.ocr.video import TextTrack
        >>> track = TextTrack("Good evening", "caption", 1.0, 2.5, 30, 74, ((0.3, 0.88), (0.7, 0.94)), 0.97)
        >>> track.duration_seconds, track.num_frames
        (1.5, 45)
    """

    text: str
    kind: TextKind
    start_seconds: float
    end_seconds: float
    first_frame: int
    last_frame: int
    geometry: Box
    confidence: float
    lines: tuple[TrackLine, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    appears: Appearance = "at once"
    places: tuple[Place, ...] = ()

    def __post_init__(self) -> None:
        set_attributes(
            self,
            text=_check_text("text", self.text),
            kind=check_kind(self.kind),
            geometry=_check_box(self.geometry),
            confidence=_check_share("confidence", self.confidence),
            lines=check_items("lines", self.lines, TrackLine),
            alternatives=check_items("alternatives", self.alternatives, Alternative),
            places=check_items("places", self.places, Place),
        )
        _check_extent(self)
        if self.appears not in get_args(Appearance):
            raise InvalidArgumentError(f"appears must be one of {get_args(Appearance)} (got {shown(self.appears)}).")
        if self.lines and "\n".join(line.text for line in self.lines) != self.text:
            raise InvalidArgumentError(
                f"text must be the texts of the lines, joined by line breaks (got {shown(self.text)} and lines "
                f"{shown([line.text for line in self.lines])})."
            )

    @property
    def duration_seconds(self) -> float:
        """Duration of the text in seconds: ``end_seconds - start_seconds``."""
        return self.end_seconds - self.start_seconds

    @property
    def num_frames(self) -> int:
        """Number of frames from ``first_frame`` to ``last_frame``, both included."""
        return self.last_frame - self.first_frame + 1


@dataclass(frozen=True, eq=False)
class Slide:
    """A page that is shown for a while, such as a slide of a lecture.

    Attributes:
        number: Number of the slide, from 1.
        first_frame: Index of the first frame that shows the page.
        last_frame: Index of the last frame that shows the page.
        start_seconds: Time in seconds at which the first frame with the page is shown.
        end_seconds: Time in seconds at which the first frame without the page is shown.
        page: The `mediatensor.ocr.io.Page` with the text and the full-size image. In long videos, the image is not kept
            in memory, but decoded again whenever it is accessed.

    Raises:
        InvalidArgumentError: A value has a wrong type or range.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Page
        >>> from mediatensor.ocr.video import Slide
        >>> page = Page(np.full((180, 320, 3), 255, np.uint8), [], 0, (180, 320))
        >>> Slide(1, 0, 299, 0.0, 10.0, page).duration_seconds
        10.0
    """

    number: int
    first_frame: int
    last_frame: int
    start_seconds: float
    end_seconds: float
    page: Page

    def __post_init__(self) -> None:
        set_attributes(self, number=whole_number("number", self.number, at_least=0, at_most=MAX_INT))
        _check_extent(self)
        if not isinstance(self.page, Page):
            raise InvalidArgumentError(f"page must be a Page of mediatensor.ocr.io (got {shown(self.page)}).")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Slide):
            return NotImplemented
        # Compare as JSON, because pages may contain lists or tuples.
        return self._extent() == other._extent() and json.dumps(self.page.export()) == json.dumps(other.page.export())

    def __hash__(self) -> int:
        return hash(self._extent())

    @property
    def duration_seconds(self) -> float:
        """Duration of the slide in seconds: ``end_seconds - start_seconds``."""
        return self.end_seconds - self.start_seconds

    def _extent(self) -> tuple[float, ...]:
        return self.number, self.first_frame, self.last_frame, self.start_seconds, self.end_seconds


def check_kind(kind: Any) -> TextKind:
    for known in get_args(TextKind):
        if isinstance(kind, str) and kind == known:
            return known  # type: ignore[no-any-return]
    raise InvalidArgumentError(f"kind must be one of {get_args(TextKind)} (got {shown(kind)}).")


def check_seconds(name: str, value: Any) -> float:
    seconds = finite_number(name, value)
    if abs(seconds) > _MAX_VALUE:
        raise InvalidArgumentError(f"{name} must be at most {_MAX_VALUE:.0f} seconds (got {shown(value)}).")
    return seconds


def set_attributes(owner: object, **values: Any) -> None:
    """Set attributes of a frozen dataclass object. Use this only in its constructor."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)


def _check_extent(owner: TextTrack | Slide) -> None:
    """Check the times and frames of a track or slide, and convert them to Python numbers."""
    set_attributes(
        owner,
        start_seconds=check_seconds("start_seconds", owner.start_seconds),
        end_seconds=check_seconds("end_seconds", owner.end_seconds),
        first_frame=whole_number("first_frame", owner.first_frame, at_least=0, at_most=MAX_INT),
        last_frame=whole_number("last_frame", owner.last_frame, at_least=0, at_most=MAX_INT),
    )
    if owner.end_seconds < owner.start_seconds:
        raise InvalidArgumentError(
            f"end_seconds must not be before start_seconds (got {owner.end_seconds} and {owner.start_seconds})."
        )
    if owner.last_frame < owner.first_frame:
        raise InvalidArgumentError(
            f"last_frame must not be before first_frame (got {owner.last_frame} and {owner.first_frame})."
        )


def _check_text(name: str, value: Any) -> str:
    if isinstance(value, str) and value.strip():
        return str(value)
    raise InvalidArgumentError(f"{name} must be a str that is not blank (got {shown(value)}).")


def _check_share(name: str, value: Any) -> float:
    share = finite_number(name, value)
    # Means of shares may have rounding errors.
    if -1e-6 <= share <= 1 + 1e-6:
        return min(max(share, 0.0), 1.0)
    raise InvalidArgumentError(f"{name} must be a number from 0 to 1 (got {shown(value)}).")


def _check_box(value: Any) -> Box:
    try:
        (left, top), (right, bottom) = ((float(x), float(y)) for x, y in value)
    except (TypeError, ValueError, OverflowError):
        left = top = right = bottom = math.nan
    if -_MAX_VALUE <= left <= right <= _MAX_VALUE and -_MAX_VALUE <= top <= bottom <= _MAX_VALUE:
        return (left, top), (right, bottom)
    raise InvalidArgumentError(f"geometry must be ((xmin, ymin), (xmax, ymax)) of finite numbers (got {shown(value)}).")


def check_items(name: str, values: Any, kind: type) -> tuple[Any, ...]:
    items = tuple(items_of(name, values, of=kind.__name__))
    for item in items:
        if not isinstance(item, kind):
            raise InvalidArgumentError(f"{name} must be a series of {kind.__name__} (got {shown(item)} among them).")
    return items


def check_tracks(tracks: Iterable[TextTrack]) -> tuple[TextTrack, ...]:
    """Return the tracks ordered by start, then from top to bottom. Raise if an item is not a `TextTrack`."""
    found = check_items("tracks", tracks, TextTrack)
    return tuple(sorted(found, key=lambda track: (track.start_seconds, track.geometry[0][1], track.end_seconds)))
