"""Lines of scripts that are read from right to left, whose characters a network gives from left to right.

Networks of PaddleOCR learn such lines by texts turned around, in which runs of Latin letters, digits and signs of
numbers stay as they are. Here both the characters of a word and the words of a line are turned back in this way.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from .words_of_lines import LineWord

__all__ = ["in_reading_order"]

_KEPT = re.compile(r"[a-zA-Z0-9:*./%+-]")
"""Characters whose runs go from left to right."""


def in_reading_order(words: Sequence[LineWord]) -> list[LineWord]:
    """The words of a line, and the characters of each, in the order in which they are read.

    Args:
        words: From left to right, as are their characters. A line without letters of a right-to-left script stays.
    """
    if not any(_is_right_to_left(character) for word in words for character in word.value):
        return list(words)
    turned = [_turned_word(word) for word in words]
    are_kept = [all(map(_KEPT.fullmatch, word.value)) for word in turned]
    return [turned[index] for index in _turned(are_kept)]


def _turned_word(word: LineWord) -> LineWord:
    order = _turned([_KEPT.fullmatch(character) is not None for character in word.value])
    return LineWord(
        "".join(word.value[index] for index in order),
        word.box,
        tuple(word.boxes[index] for index in order),
        tuple(word.confidences[index] for index in order),
    )


def _turned(are_kept: Sequence[bool]) -> list[int]:
    """The order from right to left, in which runs that are kept go from left to right."""
    order: list[int] = []
    run: list[int] = []
    for index in reversed(range(len(are_kept))):
        if are_kept[index]:
            run.insert(0, index)
        else:
            order += [*run, index]
            run = []
    return order + run


def _is_right_to_left(character: str) -> bool:
    return unicodedata.bidirectional(character) in ("R", "AL")
