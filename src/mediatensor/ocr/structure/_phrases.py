"""Split the text of a page into rows and phrases, to search it for fields."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._page import Box, PageContent, box_around

__all__ = ["Phrase", "Row", "box_of_words", "phrases_of", "rows_of", "stacks_of"]

# The largest gap between two phrases of a stack, in heights. Lines of an address may be spaced like this.
_STACK_GAP = 1.5


@dataclass(frozen=True)
class Phrase:
    """Words that are next to each other in a row, without a wide gap or a rule (straight line) between them.

    ``words`` has their indices from left to right.
    """

    words: tuple[int, ...]
    box: Box

    @property
    def height(self) -> float:
        return self.box[3] - self.box[1]


@dataclass(frozen=True)
class Row:
    """Phrases that are side by side.

    ``text`` has one space between words and two spaces between phrases. ``starts`` has the offset of each word in
    ``text``.
    """

    phrases: tuple[Phrase, ...]
    words: tuple[int, ...]
    text: str
    starts: tuple[int, ...]
    box: Box

    def words_between(self, start: int, end: int) -> tuple[int, ...]:
        """Return the indices of the words that overlap ``text[start:end]``."""
        first = max(0, bisect_right(self.starts, start) - 1)
        return tuple(word for word, at in zip(self.words[first:], self.starts[first:], strict=True) if at < end)


def box_of_words(content: PageContent, words: Sequence[int]) -> Box:
    return box_around(content.boxes[list(words)])


def phrases_of(content: PageContent, *, gap: float = 1.0) -> list[Phrase]:
    """Split the text lines of a page into phrases, at vertical rules and at gaps wider than ``gap`` word heights."""
    boxes = content.boxes
    filled = [index for index, text in enumerate(content.texts) if text.strip()]
    filled.sort(key=lambda index: (int(content.line_ids[index]), float(boxes[index, 0])))
    phrases: list[Phrase] = []
    current: list[int] = []
    rules = content.vertical_rules
    for index in filled:
        if current:
            last = current[-1]
            height = min(boxes[last, 3] - boxes[last, 1], boxes[index, 3] - boxes[index, 1])
            space = boxes[index, 0] - boxes[last, 2]
            together = (
                content.line_ids[last] == content.line_ids[index]
                and -2 * height < space <= gap * _type_size(content, last, index)
                and _overlap(boxes[last], boxes[index]) > 0.3 * height
            )
            if together and len(rules):
                left, right = boxes[last, 2] - 0.25 * height, boxes[index, 0] + 0.25 * height
                middle = (boxes[index, 1] + boxes[index, 3]) / 2
                across = (rules[:, 0] + rules[:, 2]) / 2
                together = not np.any(
                    (across > left) & (across < right) & (rules[:, 1] <= middle) & (rules[:, 3] >= middle)
                )
            if not together:
                phrases.append(Phrase(tuple(current), box_of_words(content, current)))
                current = []
        current.append(index)
    if current:
        phrases.append(Phrase(tuple(current), box_of_words(content, current)))
    return phrases


def _type_size(content: PageContent, first: int, second: int) -> float:
    """Estimate the type size of two neighbouring words from their heights and their mean character width."""
    heights = content.boxes[[first, second], 3] - content.boxes[[first, second], 1]
    widths = content.boxes[[first, second], 2] - content.boxes[[first, second], 0]
    lengths = [len(content.texts[word].strip()) for word in (first, second)]
    letters = float(widths.sum()) / max(1, sum(lengths))
    return max(float(heights.max()), 1.6 * letters)


def rows_of(content: PageContent, phrases: Sequence[Phrase]) -> list[Row]:
    """Group phrases that are side by side into rows. Rows are sorted from top to bottom."""
    rows: list[list[Phrase]] = []
    open_rows: list[list[Phrase]] = []
    for phrase in sorted(phrases, key=lambda phrase: (phrase.box[1] + phrase.box[3], phrase.box[0])):
        open_rows = [row for row in open_rows if row[-1].box[3] > phrase.box[1] - 2 * phrase.height][-16:]
        best, best_share = None, 0.5
        for row in open_rows:
            # Scans are slightly skewed, so a phrase is compared only with its nearest neighbour in the row.
            nearest = min(row, key=lambda other: max(other.box[0] - phrase.box[2], phrase.box[0] - other.box[2]))
            share = _overlap(nearest.box, phrase.box) / max(1e-6, min(nearest.height, phrase.height))
            slack = 0.5 * min(nearest.height, phrase.height)
            beside = all(max(other.box[0] - phrase.box[2], phrase.box[0] - other.box[2]) > -slack for other in row)
            if share > best_share and beside:
                best, best_share = row, share
        if best is None:
            best = []
            rows.append(best)
            open_rows.append(best)
        best.append(phrase)
    return [_make_row(content, sorted(row, key=lambda phrase: phrase.box[0])) for row in rows]


def stacks_of(phrases: Sequence[Phrase]) -> list[list[Phrase]]:
    """Group phrases into stacks: phrases closely below each other that share a left edge, right edge or middle."""
    stacks: list[list[Phrase]] = []
    for phrase in sorted(phrases, key=lambda phrase: (phrase.box[1] + phrase.box[3], phrase.box[0])):
        left, top, right, _ = phrase.box
        for stack in reversed(stacks):
            x0, y0, x1, y1 = stack[-1].box
            height = min(phrase.height, y1 - y0)
            offset = min(abs(left - x0), abs(right - x1), abs(left + right - x0 - x1) / 2)
            if offset <= height and -0.5 * height < top - y1 <= _STACK_GAP * height:
                stack.append(phrase)
                break
        else:
            stacks.append([phrase])
    return stacks


def _make_row(content: PageContent, phrases: list[Phrase]) -> Row:
    text, starts, words = "", [], []
    for phrase in phrases:
        text += " " if text else ""
        for word in phrase.words:
            text += " " if text else ""
            starts.append(len(text))
            words.append(word)
            text += content.texts[word].strip()
    return Row(tuple(phrases), tuple(words), text, tuple(starts), box_of_words(content, words))


def _overlap(first: Sequence[float], second: Sequence[float]) -> float:
    return float(min(first[3], second[3]) - max(first[1], second[1]))
