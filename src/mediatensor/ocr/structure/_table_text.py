"""The text of a page for table detection: runs of words, lines of runs, and running text."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ._page import PageContent, box_around

__all__ = [
    "Run",
    "cut_leaders",
    "is_number",
    "is_right_to_left",
    "is_wrapped",
    "lines_of",
    "prose_runs",
    "runs_of",
    "type_height",
]

# A wider gap, in type heights, ends a run. A space is about a quarter wide, and half in justified text.
_RUN_GAP = 0.9
# Running text has at least this many lines, at least this many words a line, and at most this line pitch in heights.
_PROSE_LINES = 3
_PROSE_WORDS = 4.0
_PROSE_PITCH = 2.6
# In running text, at least this share of lines end because the next word would not fit.
_FULL_SHARE = 0.6

_NUMBER = re.compile(
    r"""^[(\[<>≤≥~±+\-\u2010-\u2015\u2212$€£¥]*\s*       # signs and currencies
        (?:\d[\d.,'\u2019\u00a0\u202f\s/:]*|[.,]\d+)     # digits with points, commas, spaces
        \s*[%‰)\]*†‡§a-d°]{0,4}$                         # signs and marks of notes
        |^[-\u2010-\u2015\u2212.:*]{1,3}$|^n[./]?a\.?$   # no value
    """,
    re.VERBOSE | re.IGNORECASE,
)

_LEADER = re.compile(r"[.…·_]{3,}$")


@dataclass(frozen=True, slots=True)
class Run:
    """Words of a line with only spaces between them, from left to right, and the box around them."""

    x0: float
    y0: float
    x1: float
    y1: float
    words: tuple[int, ...]

    @property
    def middle(self) -> float:
        return (self.y0 + self.y1) / 2


def type_height(boxes: NDArray[np.float64]) -> float:
    """Return the median word height, which is the unit of gaps; 1 without words."""
    heights = boxes[:, 3] - boxes[:, 1]
    heights = heights[heights > 0]
    return float(np.median(heights)) if len(heights) else 1.0


def cut_leaders(content: PageContent, max_words: int) -> PageContent:
    """Cut leaders (dots between a label and its number) off the word boxes, and drop words beyond ``max_words``."""
    boxes = content.boxes
    if len(boxes) > max_words:
        keep = slice(0, max_words)
        content = replace(
            content, boxes=boxes[keep], texts=content.texts[keep], line_ids=content.line_ids[keep],
            confidences=content.confidences[keep], font_sizes=content.font_sizes[keep], is_bold=content.is_bold[keep],
            turns=content.turns[keep],
        )  # fmt: skip
        boxes = content.boxes
    boxes = np.array(boxes, dtype=np.float64).reshape(-1, 4)
    for word, text in enumerate(content.texts):
        leader = _LEADER.search(text)
        if leader:
            share = leader.start() / len(text)
            boxes[word, 2] = boxes[word, 0] + share * (boxes[word, 2] - boxes[word, 0])
    return replace(content, boxes=boxes)


def is_number(text: str) -> bool:
    """Whether a text is a number with signs and units, such as "(12%)", or marks a missing number ("-", "n.a.")."""
    return _NUMBER.match(text.strip()) is not None


def is_right_to_left(text: str) -> bool:
    """Whether most letters of a text belong to a right-to-left script."""
    kinds = [unicodedata.bidirectional(letter) for letter in text if letter.isalpha()]
    return 2 * sum(kind in ("R", "AL") for kind in kinds) > len(kinds)


def runs_of(content: PageContent, words: Iterable[int], gap: float) -> list[Run]:
    """Join the words of each line into runs, which end at gaps wider than ``gap``."""
    by_line: dict[int, list[int]] = defaultdict(list)
    for word in words:
        by_line[int(content.line_ids[word])].append(word)
    boxes, runs = content.boxes, []
    for members in by_line.values():
        members.sort(key=lambda word: boxes[word, 0])
        at, end = 0, -np.inf
        for number, word in enumerate(members):
            if number > at and boxes[word, 0] - end > gap:
                runs.append(join_run(boxes, members[at:number]))
                at, end = number, -np.inf
            end = max(end, boxes[word, 2])
        runs.append(join_run(boxes, members[at:]))
    return runs


def join_run(boxes: NDArray[np.float64], words: Sequence[int]) -> Run:
    return Run(*box_around(boxes[list(words)]), tuple(words))


def lines_of(runs: Sequence[Run]) -> list[list[Run]]:
    """Group runs at the same height into lines, from top to bottom. Each line is sorted from left to right."""
    lines: list[list[Run]] = []
    top = bottom = 0.0
    for run in sorted(runs, key=lambda run: run.middle):
        shared = min(bottom, run.y1) - max(top, run.y0)
        if lines and shared >= 0.5 * min(bottom - top, run.y1 - run.y0):
            lines[-1].append(run)
            count = len(lines[-1])
            # Use the means of top and bottom, so that a tall run does not take in the next line.
            top, bottom = top + (run.y0 - top) / count, bottom + (run.y1 - bottom) / count
        else:
            lines.append([run])
            top, bottom = run.y0, run.y1
    for line in lines:
        line.sort(key=lambda run: run.x0)
    return lines


def prose_runs(content: PageContent, em: float) -> list[Run]:
    """Return the runs of paragraphs.

    The lines of a paragraph are close together, start at the same edge, and end where the next word would not fit.
    Columns of labels also start at the same edge, but their lines end anywhere.
    """
    runs = [run for run in runs_of(content, range(len(content.boxes)), _RUN_GAP * em) if run.x1 - run.x0 > 0]
    below = _runs_below(runs, em)
    has_above = {after for after in below if after >= 0}
    prose: list[Run] = []
    for start in range(len(runs)):
        if start in has_above:
            continue
        stack, at = [start], start
        while below[at] >= 0:
            at = below[at]
            stack.append(at)
        for part in _split_at_pitch([runs[at] for at in stack]):
            if len(part) >= _PROSE_LINES and is_wrapped(content, part, em):
                prose += part
    return prose


def _split_at_pitch(stack: Sequence[Run]) -> list[list[Run]]:
    """Split a stack where the line pitch changes, as between a paragraph and a table below it."""
    parts = [[stack[0]]]
    pitch = 0.0
    for run, after in pairwise(stack):
        step = after.middle - run.middle
        if len(parts[-1]) > 1 and abs(step - pitch) > 0.2 * pitch:
            parts.append([])
        pitch = step
        parts[-1].append(after)
    return parts


def _runs_below(runs: Sequence[Run], em: float) -> list[int]:
    """Return, for each run, the next run below that starts or ends at the same x; -1 if there is none."""
    after = [-1] * len(runs)
    taken: set[int] = set()
    order = sorted(range(len(runs)), key=lambda at: runs[at].y0)
    tops = [runs[at].y0 for at in order]
    for at in order:
        run = runs[at]
        height = run.y1 - run.y0
        first = bisect_left(tops, run.y0 + 0.5 * height)
        last = bisect_left(tops, run.y0 + _PROSE_PITCH * height)
        best = -1
        for other in order[first:last]:
            low = runs[other]
            if other in taken or min(run.x1, low.x1) - max(run.x0, low.x0) < 0.5 * min(
                run.x1 - run.x0, low.x1 - low.x0
            ):
                continue
            best = other
            break
        if best >= 0:
            low = runs[best]
            near = abs(low.x0 - run.x0) < 3 * em or abs(low.x1 - run.x1) < 1.5 * em
            if near and 0.7 < (low.y1 - low.y0) / max(height, 1e-9) < 1.4:
                after[at] = best
                taken.add(best)
    return after


def is_wrapped(content: PageContent, stack: Sequence[Run], em: float) -> bool:
    """Whether stacked lines are running text: they are long, and most end where the next word did not fit."""
    right = max(run.x1 for run in stack)
    full = []
    for run, after in pairwise(stack):
        first = content.boxes[after.words[0]]
        full.append(run.x1 + 0.25 * em + (first[2] - first[0]) > right - 0.25 * em)
    # Only full lines count for the length, because short lines end paragraphs.
    lengths = [len(run.words) for run, is_full in zip(stack, full, strict=False) if is_full]
    if not lengths or len(lengths) < _FULL_SHARE * len(full):
        return False
    return float(np.mean(lengths)) >= _PROSE_WORDS and right - min(run.x0 for run in stack) >= 12 * em
