"""Text laid out as on the page: cells in rows, columns aligned by spaces, rows separated by empty lines."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

__all__ = ["Cell", "grid_lines", "level_rows", "page_grid"]

# Two cells are on one line if they overlap vertically by this share of the smaller height.
_LEVEL_OVERLAP = 0.5
# The minimum number of spaces between cells; a single one if their gap on the page is below this number of letters.
_MIN_SPACES = 2
_CLOSE_GAP = 0.75
# Edges within this number of letter widths belong to one column.
_COLUMN_WITHIN = 1.0
# Only cells up to this number of letters are right-aligned, such as numbers: justified text ends in one column, too.
_MAX_RIGHT_ALIGNED = 24
# To make room for long cells, a line of the grid may have up to this factor more letters than a line of the page.
_MAX_STRETCH = 1.5
_USUAL = 0.9
# Maximum number of characters of a line, because a stored page may claim any positions.
_MAX_COLUMNS = 400
# Maximum number of consecutive empty lines.
_MAX_EMPTY_LINES = 3


@dataclass(frozen=True)
class Cell:
    """A text and its box, in a unit that both axes share; x grows in reading direction."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> int:
        """The width in terminal columns: East Asian characters take two, combining marks none."""
        return sum(
            0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
            for character in self.text
        )


def level_rows(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Group cells into rows: a cell joins the row of the previous cell if it stands beside it.

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
    """One line of text for each row, with its cells aligned to those of the other rows as on the page.

    Args:
        rows: Rows of cells, in reading direction.
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
        # Numbers are right-aligned and text is left-aligned: take the edge that more cells share.
        ends_in_column = ending > starting and cell.width <= _MAX_RIGHT_ALIGNED
        columns[id(cell)] = round(end * scale) - cell.width if ends_in_column else round(start * scale)
    return [_line([cell for cell in row if cell.text], columns, letter) for row in rows]


def _letter_widths(cells: Sequence[Cell]) -> tuple[list[float], list[int]]:
    widths = [max(cell.width, 1) for cell in cells]
    return [(cell.right - cell.left) / width for cell, width in zip(cells, widths, strict=True)], widths


def _scale(rows: Sequence[Sequence[Cell]], letter: float, extent: float) -> float:
    """Characters per unit of length: as many as on the page, or more if long cells need them."""
    needed = [
        (first.width + _MIN_SPACES) / (second.left - first.left)
        for row in rows
        for first, second in pairwise(row)
        if second.left - first.left > letter
    ]
    # The needs of a few extreme cells are ignored: these push others aside.
    usual = float(np.quantile(needed, _USUAL, method="higher")) if needed else 0.0
    scale = min(max(1 / letter, usual), _MAX_STRETCH / letter)
    return min(scale, _MAX_COLUMNS / extent) if extent > 0 else scale


def _edges(places: np.ndarray[tuple[int], np.dtype[np.float64]], letter: float) -> list[tuple[float, int]]:
    """For each edge the mean of all edges in its column, and their number."""
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
    """All cells of a page, placed as on the page.

    Args:
        cells: In any order.
    """
    cells = [cell for cell in cells if cell.text]
    rows: list[list[Cell]] = []
    for cell in sorted(cells, key=lambda cell: (cell.top + cell.bottom, cell.left)):
        # Compare with the first cell of the row, so that a stack of slightly overlapping cells does not become a row.
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
    # The line pitch of the page, from lines that follow each other closely.
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
