"""Which lines go on as others, say less than others, and what else they may say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from ...video import Alternative
from ._kinds import TrackGroup
from ._presence import Box
from ._tracking import MAX_GAP, LineTrack, letters_of

__all__ = [
    "alternatives",
    "is_awaited",
    "is_better",
    "join_interrupted",
    "rolls_up_to",
    "tidy",
    "tie_grown",
    "tie_rolled",
]

CLEARLY_BETTER = 1.3
"""A line says clearly more than another if its letters, times its confidence, are more by this factor."""
MOST_ALTERNATIVES = 3
LONGEST_ROLL_FRAMES = 20
"""Captions that roll up smoothly are on their way for at most so many frames."""
SAME_TEXT = 0.8
"""The least share of its letters that a line still has after it rolled up, as it is read."""


def join_interrupted(ended: list[LineTrack], active: Sequence[LineTrack]) -> None:
    """Make one line of those that say the same at one place without a pause; ``ended`` loses the others.

    A line whose strokes fade into a bright picture for a moment is found again when it stands out.
    """
    for line in sorted(ended, key=lambda line: line.first_frame):
        for other in (*active, *ended):
            if other is line or not other.readings or line.places or other.places:
                continue
            meet = max(other.first_frame, line.first_frame) <= min(other.last_frame, line.last_frame) + MAX_GAP
            # Texts are compared last: each takes a vote.
            if meet and _stand_alike(other.box, line.box) and letters_of(other.text) == letters_of(line.text):
                other.absorb(line)
                ended.remove(line)
                break


def tie_grown(ended: Sequence[LineTrack], active: Sequence[LineTrack]) -> None:
    """Find the texts that go on as longer ones, word by word, and tie them together."""
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


def tie_rolled(ended: Sequence[LineTrack], active: Sequence[LineTrack]) -> None:
    """Find the lines that go on one line higher, as those of live captions do, and tie them together."""
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
    """Whether one line stands above the place of another one from the moment at which that goes."""
    if lower is upper or lower.places or upper.places:
        return False
    size, own = lower.box[3] - lower.box[1], upper.box[3] - upper.box[1]
    up = (lower.box[1] + lower.box[3] - upper.box[1] - upper.box[3]) / 2
    is_above = 0.7 < up / size < 2.2 and 0.7 < own / size < 1.4
    is_next = -2 <= upper.first_frame - lower.last_frame - 1 <= LONGEST_ROLL_FRAMES
    return is_above and is_next and all(abs(lower.box[side] - upper.box[side]) < 0.6 * size for side in (0, 2))


def is_better(other: LineTrack, line: LineTrack) -> bool:
    """Whether another line stands at the same place for most of the time and says clearly more, or more clearly."""
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
    return other.confidence * len(other.text) >= CLEARLY_BETTER * line.confidence * len(line.text)


def is_awaited(line: LineTrack, active: Sequence[LineTrack]) -> bool:
    """Whether a text took the place of a line that was not read yet."""
    longer = line.continued_by
    return longer is not None and not longer.readings and any(longer is other for other in active)


def _stand_alike(one: Box, other: Box) -> bool:
    """Whether lines stand at one height, and over or beside one another."""
    size = max(one[3] - one[1], other[3] - other[1])
    level = abs(one[1] + one[3] - other[1] - other[3]) / 2
    return level < 0.4 * size and min(one[2], other[2]) > max(one[0], other[0])


def _begins_with(longer: str, shorter: str) -> bool:
    """Whether a text is another one with more words; signs and case do not count."""
    return bool(letters_of(shorter)) and letters_of(longer).startswith(letters_of(shorter))


def tidy(text: str) -> str:
    """Two dots are three, of which the recogniser has taken two for one."""
    return re.sub(r"(?<!\.)\.\.(?!\.)", "...", text)


def alternatives(group: TrackGroup) -> tuple[Alternative, ...]:
    """Other readings: of one line, with the others as the vote has them."""
    rows = [line for row in group.rows for line in row]
    if len(rows) != len(group.rows):
        return ()
    found = []
    for number, line in enumerate(rows):
        for text, share in line.vote()[1:]:
            lines = [tidy(text if other == number else one.text) for other, one in enumerate(rows)]
            if all(lines):
                found.append(Alternative("\n".join(lines), share))
    return tuple(sorted(found, key=lambda one: -one.share)[:MOST_ALTERNATIVES])
