"""Group lines into texts, join interrupted and growing texts, and determine the kind of each text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from ...video import Alternative, TextKind
from ._tracking import MAX_GAP, WHOLE_STROKES, LineTrack, letters_of
from ._watching import Box, union

# For the effect of each number and predicate, see benchmarks/results/video_text_rules.md.
FEWEST_SECONDS = 0.2  # still texts shown for less time are too short to read, and are ignored
# Lines are one text if their first and last frames differ by at most this many frames; the lines of one text may fade
# at slightly different times.
TOGETHER_FRAMES = 3
LEAST_LEGIBILITY = 0.3
FEWEST_LETTERS = 2
# Limit on the variation of visible strokes for text overlaid on the video; text on objects varies more.
MAX_UNSTEADINESS = 0.12
# The same limit for texts read with high confidence, which may be on a translucent panel.
MAX_UNSTEADINESS_IF_SURE = 0.35
SURE_CONFIDENCE = 0.7
EVER_PRESENT_SHARE, EVER_PRESENT_SECONDS = 0.6, 8.0
LONGEST_CAPTION_SECONDS = 20.0
# Greatest horizontal distance between the centers of a caption and the frame, as a share of the frame's width.
MAX_OFF_CENTRE = 0.1
# Captions have their center above the first or below the second limit, as shares of the frame's height.
TOP, BOTTOM = 0.3, 0.6
# Text with its center above this share of the height is an overlay, such as the title of a window. Captions stay within
# the safe area of television, which has margins of 5 % (EBU R 95).
TOP_EDGE = 0.04
SPEECH_ENDS = (".", "!", "?", ",", ";", "…")
# A text that is larger or smaller than all captions by this factor is not a caption, unless its confidence is high.
MAX_HEIGHT_RATIO = 1.6
# Least time for which roll-up captions stay in one position; credits move steadily.
SHORTEST_STAY_SECONDS = 0.5
MOST_ROWS = 4  # most lines of roll-up captions; more lines are a scrolling screen
# Text this near to a corner, as a share of width and height, is an overlay of the programme.
CORNER_MARGIN = 0.15
# A line is better than another if the product of number of letters and confidence is greater by this factor.
MIN_READING_GAIN = 1.3
MOST_ALTERNATIVES = 3
LONGEST_ROLL_FRAMES = 20  # most frames for which a roll-up caption moves between two positions
SAME_TEXT = 0.8  # least similarity of a line's text before and after it rolls up


@dataclass
class TrackGroup:
    """A text: one or more lines that appear and disappear together."""

    lines: list[LineTrack]

    @property
    def first_frame(self) -> int:
        """The first frame that shows any of the lines or, if the text was written word by word, its first word."""
        return min(line.root.first_frame for line in self.lines)

    @property
    def last_frame(self) -> int:
        return max(line.last_frame for line in self.lines)

    @property
    def grows(self) -> bool:
        """Whether the text was written word by word, or changed its colour word by word."""
        return any(line.is_sung for line in self.lines) or any(
            stage.grew_from is not None for line in self.lines for stage in line.stages
        )

    @property
    def has_rolled(self) -> bool:
        return any(stage.rolled_from is not None for line in self.lines for stage in line.stages)

    @property
    def places(self) -> list[tuple[int, Box]]:
        """The positions of a text that moves or rolls up, each as (first frame at this position, box); else empty."""
        if any(line.has_drifted for line in self.lines):
            return self._places_of_drift()
        if not self.has_rolled:
            return [place for line in self.lines for place in line.places]
        return [
            (stage.first_frame, stage.box)
            for line in self.lines
            for number, stage in enumerate(line.stages)
            if number == 0 or stage.rolled_from is not None
        ]

    def _places_of_drift(self) -> list[tuple[int, Box]]:
        """Return the positions of a text that moves slowly, with a box around all lines."""
        moves = sorted(
            (frame, number, box)
            for number, line in enumerate(self.lines)
            for frame, box in (line.absorbed_places or [(line.first_frame, line.box)])
        )
        places: dict[int, Box] = {}
        boxes: dict[int, Box] = {}
        for frame, number, box in moves:
            boxes[number] = box
            places[frame] = union(*boxes.values())
        return list(places.items())

    @property
    def box(self) -> Box:
        """The box around all lines: left, top, right, bottom in pixels."""
        return union(*(line.box for line in self.lines))

    @property
    def rows(self) -> list[list[LineTrack]]:
        """The lines from top to bottom, grouped into rows; the lines of a row are sorted from left to right."""
        rows: list[list[LineTrack]] = []
        for line in sorted(self.lines, key=lambda line: line.box[1] + line.box[3]):
            middle = (line.box[1] + line.box[3]) / 2
            if rows and rows[-1][0].box[1] < middle < rows[-1][0].box[3]:
                rows[-1].append(line)
            else:
                rows.append([line])
        return [sorted(row, key=lambda line: line.box[0]) for row in rows]

    @property
    def confidence(self) -> float:
        """The probability that all lines were read correctly."""
        return float(np.prod([line.confidence for line in self.lines]))

    @property
    def least_confidence(self) -> float:
        return min(line.confidence for line in self.lines)

    @property
    def legibility(self) -> float:
        """The probability that the letters of all lines are right; see `LineTrack.legibility`."""
        return float(np.prod([line.legibility for line in self.lines]))

    @property
    def num_letters(self) -> int:
        return sum(letter.isalnum() for line in self.lines for letter in line.text)

    @property
    def is_speech(self) -> bool:
        """Whether a text that was read surely has several words, punctuation at the end, and lines of equal height."""
        text = " ".join(line.text for row in self.rows for line in row)
        sizes = [line.box[3] - line.box[1] for line in self.lines]
        is_even = max(sizes) < 1.25 * min(sizes)
        return (
            is_even and len(text.split()) > 1 and text.endswith(SPEECH_ENDS) and self.least_confidence > SURE_CONFIDENCE
        )

    @property
    def unsteadiness(self) -> float:
        """How much the share of visible strokes varies from frame to frame, without fades at the start and the end."""
        spreads = []
        for line in self.lines:
            shares = line.shares
            if line.follows is not None:  # a text written word by word shows only a part of its strokes at first
                shares = shares[next((number for number, share in enumerate(shares) if share > WHOLE_STROKES), 0) :]
            inner = shares[4:-4] or shares
            low, high = np.quantile(inner, [0.1, 0.9])
            spreads.append(max(high - low, 0.9 - np.median(inner)))
        return float(np.median(spreads))


def is_part_of(group: TrackGroup, track: LineTrack) -> bool:
    """Return whether a line is close to the lines of a group, and appears and disappears when they do."""
    # The lines of roll-up captions appear one after the other.
    if any(line.places or line.rolled_from is not None for line in (track, *group.lines)):
        return False
    if any(
        abs(line.first_frame - track.first_frame) > TOGETHER_FRAMES
        or abs(line.last_frame - track.last_frame) > TOGETHER_FRAMES
        for line in group.lines
    ):
        return False
    left, top, right, bottom = group.box
    size = min(line.box[3] - line.box[1] for line in group.lines)
    own = track.box[3] - track.box[1]
    if not 0.6 < own / size < 1.7:
        return False
    gap = max(track.box[1] - bottom, top - track.box[3])
    apart = max(track.box[0] - right, left - track.box[2])
    return gap < max(own, size) and apart < 1.5 * max(own, size)


class KindJudge:
    """Determines the kind of each text in a video.

    It learns the usual height and position of the video's captions from the texts that it has seen so far.

    ``height`` and ``width`` are the size of the whole frame in pixels. ``corner`` (x, y) is the top left pixel of the
    region that is read, to which the boxes of lines are relative.
    """

    def __init__(self, height: int, width: int, corner: tuple[int, int], total_seconds: float) -> None:
        self._height, self._width, self._total_seconds = height, width, total_seconds
        self._x, self._y = corner
        self.caption_heights: list[int] = []  # in pixels
        self._rolled: list[Box] = []  # positions at which recent roll-up captions appeared
        self._scrolls = False

    def kind_of(self, group: TrackGroup, seconds: float, *, is_cut: bool) -> TextKind | None:
        """Return the kind of a text shown for ``seconds``, from cut to cut if ``is_cut``; None if it is unreadable."""
        left, top, right, bottom = group.box
        left, top, right, bottom = left + self._x, top + self._y, right + self._x, bottom + self._y
        x, y = (left + right) / 2 / self._width, (top + bottom) / 2 / self._height
        stages = group.lines[0].stages
        self._scrolls |= group.has_rolled and len({stage.box[1] for stage in stages}) > MOST_ROWS
        if group.legibility < LEAST_LEGIBILITY or group.num_letters < FEWEST_LETTERS:
            return None
        if any(line.places for line in group.lines):
            return self._kind_of_moving(group)
        if seconds < FEWEST_SECONDS:
            return None
        is_long = seconds > EVER_PRESENT_SECONDS and seconds > EVER_PRESENT_SHARE * self._total_seconds
        if is_long or seconds > LONGEST_CAPTION_SECONDS:
            return "overlay"
        num_places = len({stage.box[1] for stage in stages})
        if group.has_rolled and seconds < SHORTEST_STAY_SECONDS * num_places:
            return "scene"
        if self._rolls(group):
            return "caption"
        near_side, near_end = min(left, self._width - right), min(top, self._height - bottom)
        if y < TOP_EDGE:
            return "overlay"
        # The lines of two speakers may be side by side, and some films align all captions at the left.
        may_be_aside = group.is_speech and y > BOTTOM and not is_cut and not self._scrolls
        is_aside = abs(x - 0.5) > MAX_OFF_CENTRE and not may_be_aside
        if near_side < CORNER_MARGIN * self._width and near_end < CORNER_MARGIN * self._height and is_aside:
            return "overlay"
        if group.unsteadiness > (
            MAX_UNSTEADINESS_IF_SURE if group.least_confidence > SURE_CONFIDENCE else MAX_UNSTEADINESS
        ):
            return "scene"
        if is_aside or TOP < y < BOTTOM:
            return "scene"
        size = int(np.median([line.box[3] - line.box[1] for line in group.lines]))
        is_usual = any(0.8 < size / known < 1.25 for known in self.caption_heights)
        # Text that appears and disappears with a shot belongs to the scene, unless it looks like the other captions.
        if is_cut and not is_usual:
            return "scene"
        is_odd = self.caption_heights and not any(
            1 / MAX_HEIGHT_RATIO < size / known < MAX_HEIGHT_RATIO for known in self.caption_heights
        )
        if is_odd and group.least_confidence < SURE_CONFIDENCE:
            return "scene"
        if not is_cut:
            self.caption_heights.append(size)
        return "caption"

    def _rolls(self, group: TrackGroup) -> bool:
        """Return whether a text rolls up line by line, as live captions do, or is where recent ones appeared."""
        stages = group.lines[0].stages
        middles = [((stage.box[1] + stage.box[3]) / 2 + self._y) / self._height for stage in stages]
        if self._scrolls or not (max(middles) < TOP or min(middles) > BOTTOM):
            return False
        if group.has_rolled:
            self._rolled = [*self._rolled[1 - MOST_ROWS :], stages[0].box]
            return True
        left, top, _, bottom = group.box
        return any(
            abs(left - box[0]) < box[3] - box[1] and abs(top + bottom - box[1] - box[3]) < box[3] - box[1]
            for box in self._rolled
        )

    def _kind_of_moving(self, group: TrackGroup) -> TextKind:
        """Return "overlay" for a moving text that is a ticker at the top or bottom of the frame, else "scene"."""
        (line,) = group.lines
        boxes = np.array([box for _, box in line.places])
        middles = ((boxes[:, 1] + boxes[:, 3]) / 2 + self._y) / self._height
        is_level = np.ptp(middles) < 0.02
        is_at_edge = bool((middles > 1 - CORNER_MARGIN).all() or (middles < CORNER_MARGIN).all())
        return "overlay" if is_level and is_at_edge and len(boxes) > 2 else "scene"


def join_interrupted(ended: list[LineTrack], active: Sequence[LineTrack]) -> None:
    """Join tracks that show the same text at the same position, at most `MAX_GAP` frames apart.

    A line that is invisible for a moment, for example over a bright background, is detected again and gets a second
    track. Each track in ``ended`` that was added to another track is removed from ``ended``.
    """
    for line in sorted(ended, key=lambda line: line.first_frame):
        for other in (*active, *ended):
            if other is line or not other.readings or line.places or other.places:
                continue
            meet = max(other.first_frame, line.first_frame) <= min(other.last_frame, line.last_frame) + MAX_GAP
            # Texts are compared last because each comparison needs a vote.
            if meet and _stand_alike(other.box, line.box) and letters_of(other.text) == letters_of(line.text):
                other.absorb(line)
                ended.remove(line)
                break


def tie_growing_texts(ended: Sequence[LineTrack], active: Sequence[LineTrack]) -> None:
    """Link each text in ``ended`` to the longer text that replaced it, as when a caption is written word by word."""
    for shorter in ended:
        if shorter.places or (shorter.continued_by is not None and shorter.continued_by.rolled_from is shorter):
            continue
        for longer in (*active, *ended):
            is_next = shorter.continued_by is longer or (
                longer is not shorter
                and not longer.places
                and abs(longer.first_frame - shorter.last_frame - 1) <= 2
                and _stand_alike(shorter.box, longer.box)
            )
            is_free = longer.grew_from is None or longer.grew_from is shorter
            if is_next and is_free and longer.readings and _begins_with(longer.text, shorter.text):
                longer.grew_from, shorter.continued_by = shorter, longer
                break
            if is_awaited(shorter, active) and shorter.continued_by is longer:
                break
        else:
            shorter.continued_by = None


def tie_rolling_lines(ended: Sequence[LineTrack], active: Sequence[LineTrack]) -> None:
    """Link each line in ``ended`` to the track that shows its text one line higher afterwards, as in live captions."""
    for lower in ended:
        if lower.continued_by is not None:
            continue
        for upper in (*active, *ended):
            is_free = upper.rolled_from is None or upper.rolled_from is lower
            if is_free and upper.grew_from is None and upper.readings and rolls_up_to(lower, upper):
                ours, theirs = letters_of(lower.text), letters_of(upper.text)
                if ours and SequenceMatcher(None, ours, theirs).ratio() >= SAME_TEXT:
                    upper.rolled_from, lower.continued_by = lower, upper
                    break


def rolls_up_to(lower: LineTrack, upper: LineTrack) -> bool:
    """Return whether ``upper`` appears one line above the position of ``lower`` when ``lower`` disappears."""
    if lower is upper or lower.places or upper.places:
        return False
    size, own = lower.box[3] - lower.box[1], upper.box[3] - upper.box[1]
    up = (lower.box[1] + lower.box[3] - upper.box[1] - upper.box[3]) / 2
    is_above = 0.7 < up / size < 2.2 and 0.7 < own / size < 1.4
    is_next = -2 <= upper.first_frame - lower.last_frame - 1 <= LONGEST_ROLL_FRAMES
    return is_above and is_next and all(abs(lower.box[side] - upper.box[side]) < 0.6 * size for side in (0, 2))


def is_better(other: LineTrack, line: LineTrack) -> bool:
    """Return whether ``other`` was at the same place in most frames of ``line``, and is clearly the better reading."""
    if other is line or other.places or line.places or not other.readings:
        return False
    together = min(other.last_frame, line.last_frame) - max(other.first_frame, line.first_frame) + 1
    overlaps = [
        2 * (min(other.box[end], line.box[end]) - max(other.box[start], line.box[start]))
        > min(box[end] - box[start] for box in (other.box, line.box))
        for start, end in ((0, 2), (1, 3))
    ]
    if 2 * together <= line.num_frames or not all(overlaps):
        return False
    return other.confidence * len(other.text) >= MIN_READING_GAIN * line.confidence * len(line.text)


def is_awaited(line: LineTrack, active: Sequence[LineTrack]) -> bool:
    """Return whether ``line.continued_by``, the text that replaced ``line``, is still shown and was not read yet."""
    longer = line.continued_by
    return longer is not None and not longer.readings and any(longer is other for other in active)


def _stand_alike(one: Box, other: Box) -> bool:
    """Return whether the boxes of two lines have the same vertical position and overlap horizontally."""
    size = max(one[3] - one[1], other[3] - other[1])
    level = abs(one[1] + one[3] - other[1] - other[3]) / 2
    return level < 0.4 * size and min(one[2], other[2]) > max(one[0], other[0])


def _begins_with(longer: str, shorter: str) -> bool:
    """Return whether ``longer`` starts with the letters of ``shorter``. Punctuation and case are ignored."""
    return bool(letters_of(shorter)) and letters_of(longer).startswith(letters_of(shorter))


def write_ellipses(text: str) -> str:
    """Replace two dots in a row by three, because the recogniser often reads only two dots of an ellipsis."""
    return re.sub(r"(?<!\.)\.\.(?!\.)", "...", text)


def alternatives(group: TrackGroup) -> tuple[Alternative, ...]:
    """Return alternative readings of a text. Each differs from the chosen reading in one line."""
    rows = [line for row in group.rows for line in row]
    if len(rows) != len(group.rows):
        return ()
    found = []
    for number, line in enumerate(rows):
        for text, share in line.vote()[1:]:
            lines = [write_ellipses(text if other == number else one.text) for other, one in enumerate(rows)]
            if all(lines):
                found.append(Alternative("\n".join(lines), share))
    return tuple(sorted(found, key=lambda one: -one.share)[:MOST_ALTERNATIVES])
