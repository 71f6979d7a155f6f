"""Accuracy of captions against the truth of a clip: text, times and kinds.

Captions are paired one to one by the length of their overlap, longest first. A caption is *exact* if its text is equal,
ignoring white space, line breaks and markup. The *character error rate* is the share of characters of all captions that
were misread or missed. True captions without a partner are *missed*; found ones without a partner are *phantoms*.
*Onset* and *offset* are the errors of start and end in frames, at the clip's nominal rate.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .ocr_scores import edit_distance

# Time errors of up to this many frames count as right; in clips that fade, three frames.
_NEAR, _NEAR_FADING = 1.05, 3.05
# Tracks with at least this similarity to a true text are readings of it.
_LIKE = 0.6


class Event(NamedTuple):
    """A caption that was read: its time in seconds and its text."""

    start: float
    end: float
    text: str


class TextInTime(NamedTuple):
    """A piece of text of any kind; the box is relative to the picture: (xmin, ymin, xmax, ymax)."""

    start: float
    end: float
    text: str
    kind: str
    box: tuple[float, float, float, float]


class Mistake(NamedTuple):
    """A caption that was not read exactly, or (with an empty truth) a phantom."""

    start: float
    truth: str
    read: str


@dataclass(frozen=True)
class Score:
    """Counts of a clip, or the sum of several clips.

    Attributes:
        captions: True captions.
        exact, missed, phantoms: See above.
        edits, characters: For the character error rate.
        onsets, offsets: Errors in frames, of captions that have a partner.
        onsets_near, offsets_near: Errors of at most one frame, or three in clips that fade.
        kinds, kinds_right: Tracks that read a known text, and tracks of the right kind among them.
        slides, slides_right: True slides, and slides found within one frame of their first frame.
        false_slides: Found slides that are not slides.
        mistakes: Captions that were not exact.
    """

    captions: int = 0
    exact: int = 0
    missed: int = 0
    phantoms: int = 0
    edits: int = 0
    characters: int = 0
    onsets: tuple[float, ...] = ()
    offsets: tuple[float, ...] = ()
    onsets_near: int = 0
    offsets_near: int = 0
    kinds: int = 0
    kinds_right: int = 0
    slides: int = 0
    slides_right: int = 0
    false_slides: int = 0
    mistakes: tuple[Mistake, ...] = field(default=(), repr=False)

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def error_rate(self) -> float:
        """Of characters."""
        return self.edits / max(1, self.characters)

    @property
    def exact_rate(self) -> float:
        return self.exact / max(1, self.captions)

    def document(self) -> dict[str, Any]:
        """Return the figures for a JSON file, without the text."""
        whole = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "mistakes"}
        medians = {"onset_median": _median(self.onsets), "offset_median": _median(self.offsets)}
        return whole | {"error_rate": self.error_rate} | medians


def score_clip(
    truth: dict[str, Any],
    found: Sequence[Event],
    tracks: Sequence[TextInTime] = (),
    slides: Sequence[tuple[float, float]] = (),
) -> Score:
    """Compare the found captions with the truth of a clip.

    Args:
        truth: As `video_text_clips` writes it. Decoys may be plain texts.
        found: The captions.
        tracks: Text of all kinds, if the reader classifies it.
        slides: Start and end of each slide.
    """
    found = [event for event in found if plain_text(event.text)]
    wanted = [Event(event["start"], event["end"], event["text"]) for event in truth["events"]]
    partners, used = _partners(wanted, found)
    near = _NEAR_FADING if truth.get("style") == "fade" else _NEAR
    exact = edits = characters = 0
    onsets, offsets, mistakes = list[float](), list[float](), list[Mistake]()
    for index, event in enumerate(wanted):
        text, partner = plain_text(event.text), partners.get(index)
        read = "" if partner is None else plain_text(found[partner].text)
        characters += len(text)
        edits += min(edit_distance(text, read), len(text))
        exact += text == read
        if text != read:
            mistakes.append(Mistake(event.start, text, read))
        if partner is not None:
            onsets.append(abs(found[partner].start - event.start) * truth["fps"])
            offsets.append(abs(found[partner].end - event.end) * truth["fps"])
    phantoms = [event for index, event in enumerate(found) if index not in used]
    mistakes += [Mistake(event.start, "", plain_text(event.text)) for event in phantoms]
    kinds, kinds_right = _kinds(truth, wanted, tracks)
    true_slides = [(slide["start"], slide["end"]) for slide in truth.get("slides", [])]
    slides_right = sum(
        any(abs(start - begin) * truth["fps"] <= near for begin, _ in slides) for start, _ in true_slides
    )
    return Score(
        captions=len(wanted),
        exact=exact,
        missed=len(wanted) - len(partners),
        phantoms=len(phantoms),
        edits=edits,
        characters=characters,
        onsets=tuple(onsets),
        offsets=tuple(offsets),
        onsets_near=sum(error <= near for error in onsets),
        offsets_near=sum(error <= near for error in offsets),
        kinds=kinds,
        kinds_right=kinds_right,
        slides=len(true_slides),
        slides_right=slides_right,
        false_slides=max(0, len(slides) - len(true_slides)),
        mistakes=tuple(mistakes),
    )


def _partners(wanted: Sequence[Event], found: Sequence[Event]) -> tuple[dict[int, int], set[int]]:
    overlaps = sorted(
        (
            (min(one.end, other.end) - max(one.start, other.start), index, place)
            for index, one in enumerate(wanted)
            for place, other in enumerate(found)
        ),
        reverse=True,
    )
    partners, used = dict[int, int](), set[int]()
    for overlap, index, place in overlaps:
        if overlap > 0 and index not in partners and place not in used:
            partners[index] = place
            used.add(place)
    return partners, used


def _kinds(truth: dict[str, Any], wanted: Sequence[Event], tracks: Sequence[TextInTime]) -> tuple[int, int]:
    """Return (tracks that read a caption or a decoy, tracks of the right kind among them)."""
    known = right = 0
    for track in tracks:
        kinds = _kinds_of(track, truth, wanted)
        known += bool(kinds)
        right += track.kind in kinds
    return known, right


def _kinds_of(track: TextInTime, truth: dict[str, Any], wanted: Sequence[Event]) -> tuple[str, ...]:
    """Return the kinds that the track may have; none if its text is unknown."""
    text = plain_text(track.text)
    for event in wanted:
        together = min(event.end, track.end) > max(event.start, track.start)
        if together and any(_is_like(text, part) for part in (event.text, *event.text.split("\n"))):
            return ("caption",)
    for decoy in truth.get("decoys", []):
        if isinstance(decoy, str):
            if _is_like(text, decoy):
                return ("overlay", "scene", "slide")
            continue
        x, y = (track.box[0] + track.box[2]) / 2, (track.box[1] + track.box[3]) / 2
        box = decoy["box"]
        if _is_like(text, decoy["text"]) or (box and box[0] <= x <= box[2] and box[1] <= y <= box[3]):
            return (decoy["kind"],)
    return ("slide",) if truth.get("slides") else ()


def _is_like(read: str, truth: str) -> bool:
    truth = plain_text(truth)
    return edit_distance(truth, read) <= (1 - _LIKE) * len(truth)


def plain_text(text: str) -> str:
    """Remove markup, and replace white space of any kind by one space.

    >>> plain_text("<i>Mind  the</i>\\n{\\\\an8}gap")
    'Mind the gap'
    """
    return " ".join(re.sub(r"<[^>]*>|\{[^}]*\}", "", text).split())


def parse_srt(text: str) -> list[Event]:
    """Parse the captions of a SubRip file.

    >>> parse_srt("1\\n00:00:01,500 --> 00:00:02,000\\nMind\\nthe gap\\n")
    [Event(start=1.5, end=2.0, text='Mind\\nthe gap')]
    """
    events = []
    times = r"(\d+):(\d+):(\d+)[,.](\d+)"
    for block in re.split(r"\n\s*\n", text.removeprefix("\ufeff").replace("\r", "")):
        if match := re.search(rf"{times}\s*-->\s*{times}[^\n]*\n?(.*)", block, re.DOTALL):
            numbers = [int(group) for group in match.groups()[:8]]
            start, end = (
                3600 * hours + 60 * minutes + seconds + thousandths / 1000
                for hours, minutes, seconds, thousandths in (numbers[:4], numbers[4:])
            )
            events.append(Event(start, end, match.group(9).strip()))
    return events


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
