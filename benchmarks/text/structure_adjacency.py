"""Cell adjacency, the measure of the ICDAR 2013 table competition.

A table is represented by its relations: each non-empty cell with the next non-empty cell to the right, and below, in
each of its rows and columns (Göbel et al., "A methodology for evaluating algorithms for table understanding in PDF
documents", 2012). The relations found in a document are compared with the true ones, so that missed tables cost recall
and false tables cost precision.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from .ocr_scores import Count

__all__ = ["Relation", "TextCell", "relations_of", "score_relations"]

#: The text of a cell, of its neighbour, and where that is: "right" or "below".
Relation = tuple[str, str, str]

# Two texts with at least this similarity are the same text, read from an image.
_ALIKE = 0.8
_MIN_ALIKE = 3


@dataclass(frozen=True)
class TextCell:
    """A cell: its first and last row and column, from 0, and its text."""

    top: int
    bottom: int
    left: int
    right: int
    text: str


def _letters(text: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFKC", text).casefold() if letter.isalnum())


def relations_of(cells: Iterable[TextCell]) -> list[Relation]:
    """Return the relations of a table; texts are their letters and digits, in lower case.

    Cells that are neighbours in several rows, or columns, are one relation.
    """
    places: dict[tuple[int, int], int] = {}
    texts: list[str] = []
    for cell in cells:
        text = _letters(cell.text)
        if not text:
            continue
        for row in range(cell.top, cell.bottom + 1):
            for column in range(cell.left, cell.right + 1):
                places[row, column] = len(texts)
        texts.append(text)
    pairs: set[tuple[int, int, str]] = set()
    for direction, along in (("right", 1), ("below", 0)):
        lines: dict[int, list[tuple[int, int]]] = {}
        for place, number in places.items():
            lines.setdefault(place[1 - along], []).append((place[along], number))
        for line in lines.values():
            numbers = [number for _, number in sorted(line)]
            pairs |= {(one, after, direction) for one, after in zip(numbers, numbers[1:]) if one != after}  # noqa: B905, RUF007
    return [(texts[one], texts[after], direction) for one, after, direction in pairs]


def score_relations(wanted: Sequence[Relation], found: Sequence[Relation], *, fuzzy: bool = False) -> Count:
    """Compare the relations of a document.

    Args:
        wanted: The true relations.
        found: The found relations.
        fuzzy: Whether texts may differ by a fifth, for texts that were read from images.
    """
    missed, others = Counter(wanted), Counter(found)
    same = missed & others
    right = sum(same.values())
    if fuzzy:
        rest = list((others - same).elements())
        for relation in (missed - same).elements():
            for at, other in enumerate(rest):
                if relation[2] == other[2] and all(
                    _is_alike(*pair) for pair in zip(relation[:2], other[:2], strict=True)
                ):
                    del rest[at]
                    right += 1
                    break
    return Count(right, len(wanted), len(found))


def _is_alike(one: str, other: str) -> bool:
    if one == other:
        return True
    if min(len(one), len(other)) < _MIN_ALIKE:
        return False
    return SequenceMatcher(None, one, other, autojunk=False).ratio() >= _ALIKE
