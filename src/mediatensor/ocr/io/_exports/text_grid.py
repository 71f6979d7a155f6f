"""Lines of text as they stand on a page: cells in rows, columns under each other, by spaces and empty lines."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

__all__ = ["Cell", "grid_lines", "level_rows", "page_grid"]

# Lines are level if they share so much of the lower one's height.
_LEVEL_OVERLAP = 0.5
# Cells are set apart by so many spaces at least, and by one where hardly anything is between them on the page.
_MIN_SPACES = 2
_CLOSE_GAP = 0.75
# Edges this close, in widths of a letter, are one column.
_COLUMN_WITHIN = 1.0
# Numbers, and labels before them, are no wider than this; lines of text also end at one place where they are justified.
_MAX_RIGHT_ALIGNED = 24
# To make room for long cells, the grid may have this many times the letters that the page has on a line.
_MAX_STRETCH = 1.5
_USUAL = 0.9
# No line has more characters, whatever a stored page claims of its places.
_MAX_COLUMNS = 400
# Empty lines in a row: what is further apart says no more.
_MAX_EMPTY_LINES = 3


@dataclass(frozen=True)
class Cell:
    """A text and its box, in any unit that both axes share; from the side where reading begins."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> int:
        """In columns of a terminal: characters of East Asian scripts take two, marks on others none."""
        return sum(
            0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
            for character in self.text
        )


def level_rows(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Gather cells into rows: each goes on with the row of the one before it if it stands beside that one.

    Args:
        cells: In reading order.

    Returns:
        All cells, in the same order.
    """
    rows: list[list[Cell]] = []
    for cell in cells:
        last = rows[-1][-1] if rows else None
        if last is not None and _is_level(last, cell) and cell.left >= (last.left + last.right) / 2:
            rows[-1].append(cell)
        else:
            rows.append([cell])
    return rows


def _is_level(one: Cell, other: Cell) -> bool:
    common = min(one.bottom, other.bottom) - max(one.top, other.top)
    return common > _LEVEL_OVERLAP * min(one.bottom - one.top, other.bottom - other.top)


def grid_lines(rows: Sequence[Sequence[Cell]]) -> list[str]:
    """One line of text for each row, its cells under those of the other rows that they are under on the page.

    Args:
        rows: Cells from the side where reading begins.
    """
    cells = [cell for row in rows for cell in row if cell.text]
    if not cells:
        return ["" for _ in rows]
    letter = float(np.median(np.repeat(*_letter_widths(cells)))) or 1.0
    origin = min(cell.left for cell in cells)
    scale = _scale(rows, letter, max(cell.right for cell in cells) - origin)
    starts = _edges(np.array([cell.left - origin for cell in cells]), letter)
    ends = _edges(np.array([cell.right - origin for cell in cells]), letter)
    columns = {}
    for cell, (start, starting), (end, ending) in zip(cells, starts, ends, strict=True):
        # Numbers end under each other, and text begins: whichever edge more cells have in common.
        ends_in_column = ending > starting and cell.width <= _MAX_RIGHT_ALIGNED
        columns[id(cell)] = round(end * scale) - cell.width if ends_in_column else round(start * scale)
    return [_line([cell for cell in row if cell.text], columns, letter) for row in rows]


def _letter_widths(cells: Sequence[Cell]) -> tuple[list[float], list[int]]:
    widths = [max(cell.width, 1) for cell in cells]
    return [(cell.right - cell.left) / width for cell, width in zip(cells, widths, strict=True)], widths


def _scale(rows: Sequence[Sequence[Cell]], letter: float, extent: float) -> float:
    """Characters to a unit of length: as many as the page has, or as many more as long cells need."""
    needed = [
        (first.width + _MIN_SPACES) / (second.left - first.left)
        for row in rows
        for first, second in pairwise(row)
        if second.left - first.left > letter
    ]
    # What few cells would need is not worth it: they push others aside.
    usual = float(np.quantile(needed, _USUAL, method="higher")) if needed else 0.0
    scale = min(max(1 / letter, usual), _MAX_STRETCH / letter)
    return min(scale, _MAX_COLUMNS / extent) if extent > 0 else scale


def _edges(places: np.ndarray[tuple[int], np.dtype[np.float64]], letter: float) -> list[tuple[float, int]]:
    """For each place the mean of those that are one column with it, and how many they are."""
    order = np.argsort(places, kind="stable")
    groups = np.concatenate(([0], np.cumsum(np.diff(places[order]) > _COLUMN_WITHIN * letter)))
    sizes = np.bincount(groups)
    means = np.bincount(groups, places[order]) / sizes
    found = np.empty(len(places), dtype=np.int64)
    found[order] = groups
    return [(float(means[group]), int(sizes[group])) for group in found.tolist()]


def _line(row: Sequence[Cell], columns: dict[int, int], letter: float) -> str:
    line, length = "", 0
    for index, cell in enumerate(row):
        spaces = columns[id(cell)] - length
        if index:
            is_close = cell.left - row[index - 1].right < _CLOSE_GAP * letter
            spaces = max(spaces, 1 if is_close else _MIN_SPACES)
        line += " " * max(spaces, 0) + cell.text
        length += max(spaces, 0) + cell.width
    return line


def page_grid(cells: Sequence[Cell]) -> str:
    """All cells of a page where they stand on it.

    Args:
        cells: In any order.
    """
    cells = [cell for cell in cells if cell.text]
    rows: list[list[Cell]] = []
    for cell in sorted(cells, key=lambda cell: (cell.top + cell.bottom, cell.left)):
        # A row is as high as the first cell in it, so that a stack of cells that overlap a little is no row.
        if rows and _is_level(rows[-1][0], cell) and not any(_collide(cell, other) for other in rows[-1]):
            rows[-1].append(cell)
        else:
            rows.append([cell])
    rows = [sorted(row, key=lambda cell: cell.left) for row in rows]
    if not rows:
        return ""
    lines = grid_lines(rows)
    middles = np.array([np.mean([cell.top + cell.bottom for cell in row]) / 2 for row in rows])
    heights = [cell.bottom - cell.top for cell in cells]
    steps = np.diff(middles)
    # The pitch of the page: lines that follow each other closely tell it, what is set apart does not.
    close = steps[(steps > 0) & (steps < 2.5 * np.median(heights))]
    pitch = float(np.median(close)) if len(close) else 1.5 * float(np.median(heights))
    text = lines[0]
    for step, line in zip(steps.tolist(), lines[1:], strict=True):
        empty = min(max(round(step / pitch) - 1, 0), _MAX_EMPTY_LINES) if pitch > 0 else 0
        text += "\n" * (1 + empty) + line
    return text


def _collide(one: Cell, other: Cell) -> bool:
    return min(one.right, other.right) - max(one.left, other.left) > 0.5 * min(
        one.right - one.left, other.right - other.left
    )
