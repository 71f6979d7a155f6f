"""Build the grid of a table whose area is known: find its columns, rows, spanning cells and head rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .._reading_order.boxes import detect_text_direction
from ._page import FoundCell, FoundTable, PageContent
from ._table_text import (
    Run,
    TableArea,
    column_edges,
    drop_sign_columns,
    is_number,
    join_run,
    lines_of,
    rule_places,
    runs_of,
)

# The smallest gap between two cells of a line, in type heights.
_CELL_GAP = 0.55
_MAX_COLUMNS = 400
_YEAR = re.compile(r"[(]?(1[5-9]|20)\d\d([-/\u2013]\d\d(\d\d)?)?[)*]{0,3}$")


@dataclass
class _Line:
    """A line of text in a table.

    ``runs`` are groups of words without wide gaps, and ``spans`` has the first and the last column that each run
    covers. ``numbers`` has the columns in which the line has a number.
    """

    runs: list[Run]
    spans: list[tuple[int, int]] = field(default_factory=list)
    numbers: set[int] = field(default_factory=set)

    @property
    def columns(self) -> set[int]:
        return {column for first, last in self.spans for column in range(first, last + 1)}

    @property
    def top(self) -> float:
        return min(run.y0 for run in self.runs)

    @property
    def bottom(self) -> float:
        return max(run.y1 for run in self.runs)

    @property
    def middle(self) -> float:
        return float(np.median([run.middle for run in self.runs]))


def build_table(content: PageContent, area: TableArea, em: float) -> FoundTable | None:
    """Find the columns, rows and cells of the table in ``area``.

    Return None if it has fewer than two rows or fewer than two columns of text.
    """
    x0, y0, x1, y1 = area.box
    runs = runs_of(content, area.words, _CELL_GAP * em)
    lines = lines_of(runs)
    if len(lines) < 2:
        return None
    ruled_xs = rule_places(area.vertical, x0, x1, em)
    ruled_ys = rule_places(area.horizontal, y0, y1, em)
    xs = column_edges(lines, ruled_xs, em, bool(len(area.vertical)))
    if not 2 < len(xs) <= _MAX_COLUMNS:
        return None
    xs = drop_sign_columns(content, lines, xs, set(ruled_xs))
    if len(xs) < 3:
        return None
    grid = _Grid(content, area, xs, ruled_xs, em)
    return grid.table(lines, ruled_ys)


class _Grid:
    """Finds the rows and cells of a table whose columns are known."""

    def __init__(
        self, content: PageContent, area: TableArea, xs: Sequence[float], ruled_xs: Sequence[float], em: float
    ) -> None:
        self.content, self.area, self.em = content, area, em
        self.xs = np.asarray(xs)
        ruled = set(ruled_xs)
        self.is_ruled = np.array([x in ruled for x in xs])
        self.num_columns = len(xs) - 1

    def table(self, runs_by_line: Sequence[Sequence[Run]], ruled_ys: Sequence[float]) -> FoundTable | None:
        """Find the rows and cells of the table. Return None if there is only one row.

        ``ruled_ys`` are the positions of the horizontal rules, and of the top and the bottom of the table.
        """
        bands = [(band, bottom) for band, bottom in self._bands(runs_by_line, ruled_ys) if band]
        is_row_ruled = self._rules_part_rows(bands)
        # In a table without numbers, the head is above the first rule.
        first_body = next((at for at, (band, _) in enumerate(bands) if self._is_body(band)), min(1, len(bands) - 1))
        rows: list[list[_Line]] = []
        num_heads = 0
        bottoms: list[float] = []
        ruled_ends: list[bool] = []
        for at, (band, bottom) in enumerate(bands):
            if is_row_ruled:
                groups = self._ruled_rows(band)
            elif at < first_body:
                groups = self._head_rows(band)
            elif at == first_body and not rows and self._is_body(band):
                head, body = self._split_head(band)
                groups = self._head_rows(head)
                num_heads = len(groups)
                groups += self._open_rows(body)
            else:
                groups = self._open_rows(band)
            if at < first_body:
                num_heads += len(groups)
            rows += groups
            bottoms += [bottom] * len(groups)
            ruled_ends += [False] * (len(groups) - 1) + [True]
        if len(rows) < 2:
            return None
        if len(rows) > 2 and num_heads > len(rows) / 2:
            # A body without numbers was mistaken for a head: a head is never longer than its body.
            num_heads = 1
        ys = [self.area.box[1], *bottoms]
        for at in range(len(rows) - 1):
            if not ruled_ends[at]:
                above = max(line.bottom for line in rows[at])
                below = min(line.top for line in rows[at + 1])
                ys[at + 1] = (above + below) / 2
        ys[-1] = self.area.box[3]
        return self._cells(rows, np.maximum.accumulate(np.asarray(ys)), min(num_heads, len(rows) - 1), ruled_ends)

    def _bands(
        self, runs_by_line: Sequence[Sequence[Run]], ruled_ys: Sequence[float]
    ) -> list[tuple[list[_Line], float]]:
        """Divide the table at its horizontal rules. Return the lines and the lower end of each band."""
        per_band: list[list[Run]] = [[] for _ in ruled_ys[1:]]
        inner = np.asarray(ruled_ys[1:-1])
        for line in runs_by_line:
            for run in line:
                per_band[int(np.searchsorted(inner, run.middle))].append(run)
        return [
            ([self._make_line(line) for line in lines_of(runs)], float(bottom))
            for runs, bottom in zip(per_band, ruled_ys[1:], strict=True)
        ]

    def _make_line(self, runs: Sequence[Run]) -> _Line:
        line = _Line([])
        for run in runs:
            for part in self._split_run(run):
                first, last = self._columns_of_run(part)
                line.runs.append(part)
                line.spans.append((first, last))
                if first == last and is_number(self._text(part)):
                    line.numbers.add(first)
        return line

    def _split_run(self, run: Run) -> list[Run]:
        """Split a run into the texts of different columns.

        A run (words without wide gaps) is split at each column edge that it crosses, if there is a vertical rule or an
        unusually wide gap at this edge.
        """
        first = int(np.searchsorted(self.xs, run.x0 + 0.3 * self.em)) - 1
        last = int(np.searchsorted(self.xs, run.x1 - 0.3 * self.em)) - 1
        if last <= first or len(run.words) < 2:
            return [run]
        boxes = self.content.boxes
        words = list(run.words)
        gaps = [boxes[after, 0] - boxes[word, 2] for word, after in pairwise(words)]
        usual = float(np.median(gaps)) if len(gaps) > 2 else 0.25 * self.em
        cuts = []
        for at in range(max(first + 1, 1), min(last, self.num_columns - 1) + 1):
            x = self.xs[at]
            for number, (word, after) in enumerate(pairwise(words)):
                if not (boxes[word, 0] + boxes[word, 2]) / 2 < x <= (boxes[after, 0] + boxes[after, 2]) / 2:
                    continue
                is_cut = self._has_post(at, run.middle)
                if not is_cut and boxes[word, 2] - 0.1 * self.em <= x <= boxes[after, 0] + 0.1 * self.em:
                    left = self.content.texts[word]
                    right = self.content.texts[after]
                    both = is_number(left) and is_number(right) and len(words) <= 4 and not self.is_ruled[at]
                    is_cut = gaps[number] > max(0.35 * self.em, 1.5 * usual) or (both and gaps[number] > 0.3 * self.em)
                if is_cut:
                    cuts.append(number + 1)
        if not cuts:
            return [run]
        return [join_run(boxes, words[start:end]) for start, end in pairwise([0, *cuts, len(words)]) if start < end]

    def _has_post(self, at: int, y: float) -> bool:
        """Return whether there is a vertical rule at the column edge with the index ``at`` and at the height ``y``."""
        if not self.is_ruled[at]:
            return False
        posts = self.area.vertical
        near = np.abs(posts[:, 0] - self.xs[at]) < 0.6 * self.em
        return bool((near & (posts[:, 1] <= y) & (posts[:, 2] >= y)).any())

    def _columns_of_run(self, run: Run) -> tuple[int, int]:
        xs, last = self.xs, self.num_columns - 1
        home = min(max(int(np.searchsorted(xs, (run.x0 + run.x1) / 2)) - 1, 0), last)
        first = end = home
        slack = min(0.5 * self.em, 0.2 * (run.x1 - run.x0))
        while first > 0 and run.x0 < xs[first] - slack and not self._has_post(first, run.middle):
            first -= 1
        while end < last and run.x1 > xs[end + 1] + slack and not self._has_post(end + 1, run.middle):
            end += 1
        return first, end

    def _rules_part_rows(self, bands: Sequence[tuple[list[_Line], float]]) -> bool:
        lines = sum(sum(bool(line.numbers) for line in band) or 1 for band, _ in bands)
        return len(bands) >= max(3, 0.6 * lines)

    def _is_body(self, band: Sequence[_Line]) -> bool:
        """Return whether the lines between two horizontal rules belong to the body of the table, not to its header.

        They do if one of them is a line of numbers.

        Lines of years do not count, because years are often column heads.
        """
        for line in band:
            rest = line.columns - {0}
            numbers = line.numbers - {0}
            if numbers and 2 * len(numbers) >= len(rest):
                texts = [
                    self._text(run) for run, (first, _) in zip(line.runs, line.spans, strict=True) if first in numbers
                ]
                if not all(_YEAR.match(text) for text in texts) or (0 in line.columns and len(band) > 2):
                    return True
        return False

    def _text(self, run: Run) -> str:
        return " ".join(self.content.texts[word] for word in run.words)

    def _split_head(self, band: list[_Line]) -> tuple[list[_Line], list[_Line]]:
        first = next((at for at, line in enumerate(band) if self._is_body([line])), 0)
        # A label directly above the numbers is the first line of a wrapped label, so it belongs to the body.
        while first > 0 and band[first - 1].columns == {0} and first > 1:
            first -= 1
        return band[:first], band[first:]

    # Rows

    def _head_rows(self, band: Sequence[_Line]) -> list[list[_Line]]:
        """Group the lines of the table head into rows. A new row starts only below a head over several columns."""
        rows: list[list[_Line]] = []
        for line in band:
            if rows and not self._is_head_of_several(rows[-1][-1], line):
                rows[-1].append(line)
            else:
                rows.append([line])
        return rows

    def _is_head_of_several(self, line: _Line, below: _Line) -> bool:
        for first, last in line.spans:
            if last > first and sum(first <= start and end <= last for start, end in below.spans) > 1:
                return True
        texts = [self._text(run) for run in below.runs]
        repeated = len(texts) - len(set(texts))
        return len(texts) >= 4 and repeated >= len(texts) // 2 and 2 * len(line.runs) <= len(below.runs) + 1

    def _ruled_rows(self, band: Sequence[_Line]) -> list[list[_Line]]:
        """Group the lines between two rules: one row, unless columns of numbers show that there are more."""
        numeric = [line for line in band if line.numbers]
        if len(band) < 2 or len(numeric) < 2:
            return [list(band)]
        single = [(first, line) for line in band for first, last in line.spans if first == last]
        counts = Counter(first for first, _ in single)
        words = {first for first, line in single if first not in line.numbers}
        columns = [at for at, many in counts.items() if many > 1 and at not in words and many == len(numeric)]
        level = [at for at, many in counts.items() if many >= len(numeric)]
        if not columns or 2 * len(level) <= len(counts):
            return [list(band)]
        rows: list[list[_Line]] = [[]]
        for line in band:
            if line.numbers and any(other.numbers for other in rows[-1]):
                rows.append([])
            rows[-1].append(line)
        return rows

    def _open_rows(self, band: Sequence[_Line]) -> list[list[_Line]]:
        """Group lines without rules between them. A line starts a row unless it continues the row above."""
        if len(band) < 2:
            return [list(band)]
        pitches = [after.middle - line.middle for line, after in pairwise(band)]
        tight = 1.25 * float(np.min(pitches))
        usual = float(np.median(pitches))
        by_space = self._rows_by_space(band)
        if by_space:
            return by_space
        pairs = [pair for line in band for pair in zip(line.runs, line.spans, strict=True)]
        right = max([self.xs[0], *(run.x1 for run, span in pairs if span == (0, 0))])
        rows = [[band[0]]]
        for line, after, pitch in zip(band, band[1:], pitches, strict=False):
            row = rows[-1]
            filled = set().union(*(other.columns for other in row))
            if after.columns == {0}:
                goes_on = pitch <= tight and filled != {0} and self._is_wrapped_label(line, after, right)
            elif 0 in after.columns:
                goes_on = (
                    filled == {0} and pitch <= tight and self._is_wrapped_label(line, after, right) and len(row) < 3
                )
            else:
                numbers = set().union(*(other.numbers for other in row))
                goes_on = (
                    pitch <= 1.3 * usual and not (after.numbers & numbers) and not (after.numbers and pitch > tight)
                )
                if len(after.columns) > 1 and after.numbers:
                    goes_on = goes_on and not (after.columns & filled)
            if goes_on:
                row.append(after)
            else:
                rows.append([after])
        return rows

    def _rows_by_space(self, band: Sequence[_Line]) -> list[list[_Line]]:
        """Group lines into rows at gaps that are clearly wider than others. Without such gaps, return []."""
        if len(band) < 4:
            return []
        bottoms = np.maximum.accumulate([line.bottom for line in band])
        gaps = np.array([line.top for line in band[1:]]) - bottoms[:-1]
        ordered = np.sort(gaps)
        jumps = np.diff(ordered)
        widest = int(np.argmax(jumps))
        if jumps[widest] < 0.2 * self.em or ordered[0] > 0.9 * self.em:
            return []
        limit = (ordered[widest] + ordered[widest + 1]) / 2
        rows: list[list[_Line]] = [[band[0]]]
        for after, gap in zip(band[1:], gaps, strict=True):
            if gap > limit:
                rows.append([after])
            else:
                rows[-1].append(after)
        if len(rows) < 2 or sum(len(row) > 1 for row in rows) < 2:
            return []
        labelled = sum(any(0 in line.columns for line in row) for row in rows)
        if labelled < 0.7 * len(rows):
            return []
        for row in rows:
            stacked = Counter(column for line in row for column in line.numbers)
            # Lines with numbers in the same two columns are separate rows, however close they are.
            if sum(many > 1 for many in stacked.values()) > 1:
                return []
            full = sum(len(line.columns) > 0.7 * self.num_columns for line in row)
            if full > 2 or (full > 1 and self.num_columns < 4):
                return []
        return rows

    def _is_wrapped_label(self, line: _Line, after: _Line, right: float) -> bool:
        """Return whether the label in ``after`` continues the label in ``line``, which was too long for its column.

        Labels are the texts in the first column. ``right`` is the right end of the longest.
        """
        above = [run for run, (first, _) in zip(line.runs, line.spans, strict=True) if first == 0]
        below = [run for run, (first, _) in zip(after.runs, after.spans, strict=True) if first == 0]
        if not above or not below:
            return False
        word = self.content.boxes[below[0].words[0]]
        text = self.content.texts[below[0].words[0]]
        last = self.content.texts[above[-1].words[-1]]
        if text[:1].islower() or last.endswith(("-", ",", "(", "/")) or text.startswith("("):
            return True
        return bool(above[-1].x1 + 0.25 * self.em + word[2] - word[0] > right + 0.1 * self.em)

    # Cells

    def _cells(
        self,
        rows: Sequence[Sequence[_Line]],
        ys: NDArray[np.float64],
        num_heads: int,
        ruled_ends: Sequence[bool],
    ) -> FoundTable:
        joined = _JoinedCells(len(rows), self.num_columns)
        runs: dict[tuple[int, int], list[Run]] = {}
        for at, row in enumerate(rows):
            for line in row:
                for run, (first, last) in zip(line.runs, line.spans, strict=True):
                    joined.join(at, at, first, last)
                    runs.setdefault((at, first), []).append(run)
        self.lefts, self.rights = self._text_ends(rows)
        if self.area.is_lattice:
            self._join_unruled(joined, runs, ys, ruled_ends)
        self._join_heads(joined, runs, num_heads)
        words: dict[int, list[int]] = {}
        for (at, column), own in runs.items():
            words.setdefault(int(joined.owner[at, column]), []).extend(word for run in own for word in run.words)
        cells = []
        for number, (top, bottom, left, right) in joined.rectangles.items():
            box = (float(self.xs[left]), float(ys[top]), float(self.xs[right + 1]), float(ys[bottom + 1]))
            own_words = tuple(self._sort_words(words.get(number, [])))
            cells.append(FoundCell(box, top, bottom, left, right, own_words, top < num_heads))
        cells.sort(key=lambda cell: (cell.row_start, cell.col_start))
        return FoundTable(self.area.box, len(rows), self.num_columns, tuple(cells))

    def _text_ends(self, rows: Sequence[Sequence[_Line]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        lefts, rights = self.xs[1:].copy(), self.xs[:-1].copy()
        for row in rows:
            for line in row:
                for run, (first, last) in zip(line.runs, line.spans, strict=True):
                    if first == last:
                        lefts[first], rights[first] = min(lefts[first], run.x0), max(rights[first], run.x1)
        empty = lefts > rights
        lefts[empty], rights[empty] = self.xs[:-1][empty], self.xs[1:][empty]
        return lefts, rights

    def _sort_words(self, words: list[int]) -> list[int]:
        if len(words) < 2:
            return words
        boxes = self.content.boxes
        backward = detect_text_direction(self.content.texts[word] for word in words) == "rtl"
        single = [join_run(boxes, [word]) for word in words]
        return [run.words[0] for line in lines_of(single) for run in (reversed(line) if backward else line)]

    def _join_unruled(
        self,
        joined: _JoinedCells,
        runs: dict[tuple[int, int], list[Run]],
        ys: NDArray[np.float64],
        ruled_ends: Sequence[bool],
    ) -> None:
        """Join adjacent cells of a ruled table without a rule between them, such as wide heads."""
        num_rows, num_columns, em = len(ys) - 1, self.num_columns, self.em
        middles_y, middles_x = (ys[:-1] + ys[1:]) / 2, (self.xs[:-1] + self.xs[1:]) / 2
        right = np.zeros((num_rows, num_columns), dtype=bool)
        for x, top, bottom in self.area.vertical:
            at = int(np.argmin(np.abs(self.xs - x)))
            if 0 < at < num_columns and abs(self.xs[at] - x) < 0.6 * em:
                first, last = np.searchsorted(middles_y, [top, bottom])
                right[first:last, at - 1] = True
        below = np.zeros((num_rows, num_columns), dtype=bool)
        for y, start, end in self.area.horizontal:
            at = int(np.argmin(np.abs(ys - y)))
            if 0 < at < num_rows and abs(ys[at] - y) < 0.6 * em:
                first, last = np.searchsorted(middles_x, [start, end])
                below[at - 1, first:last] = True
        filled = np.zeros((num_rows, num_columns), dtype=bool)
        for at, column in runs:
            filled[at, column] = True
        for row in range(num_rows):
            column = 0
            while column < num_columns:
                end = column
                while end + 1 < num_columns and not right[row, end]:
                    end += 1
                if end > column:
                    self._join_within(joined, runs, filled, row, column, end)
                column = end + 1
        for row in range(num_rows - 1):
            for column in range(num_columns):
                if not ruled_ends[row] or below[row, column]:
                    continue
                above, under = joined.rectangle(row, column), joined.rectangle(row + 1, column)
                first, last = above[2:]
                # Join only cells of equal width between vertical rules.
                if above == under or under[2:] != above[2:] or first != column or below[row, first : last + 1].any():
                    continue
                if (first == 0 or right[row, first - 1]) and (last == num_columns - 1 or right[row, last]):
                    joined.join(row, row + 1, first, last)

    def _join_within(
        self,
        joined: _JoinedCells,
        runs: dict[tuple[int, int], list[Run]],
        filled: NDArray[np.bool_],
        row: int,
        first: int,
        last: int,
    ) -> None:
        """Join the cells of a row between two vertical rules if at most one of them has text."""
        texts = [column for column in range(first, last + 1) if filled[row, column]]
        if len(texts) > 1:
            return
        if self.is_ruled[first + 1 : last + 1].all():
            joined.join(row, row, first, last)
        elif texts and row + 1 < len(filled) and filled[row + 1, first : last + 1].sum() > 1:
            # Gaps separate columns in the row below, so a text centred above them is their head.
            own = runs[row, texts[0]]
            middle = (min(run.x0 for run in own) + max(run.x1 for run in own)) / 2
            if abs(middle - (self.xs[first] + self.xs[last + 1]) / 2) < self.em:
                joined.join(row, row, first, last)

    def _join_heads(self, joined: _JoinedCells, runs: dict[tuple[int, int], list[Run]], num_heads: int) -> None:
        """Extend each head over several columns if it is centred above them."""
        for row in range(num_heads - 1):
            texts = sorted(column for at, column in runs if at == row)
            below = sorted(column for at, column in runs if at == row + 1)
            if len(texts) >= len(below) or not texts:
                continue
            for text in texts:
                top, bottom, left, right = joined.rectangle(row, text)
                if top != bottom or left != right:
                    continue
                own = runs[row, text]
                middle = (min(run.x0 for run in own) + max(run.x1 for run in own)) / 2
                best = self._columns_of_head(text, middle, set(texts), below)
                if best:
                    joined.join(row, row, *best)

    def _columns_of_head(
        self, text: int, middle: float, texts: set[int], below: Sequence[int]
    ) -> tuple[int, int] | None:
        """Return the first and the last column that a head is centred above, or None if it is above only one column.

        ``text`` is the column of the head, and ``middle`` is the middle of its text. Columns that have a head of their
        own in this row are not included.
        """
        best = None
        for first in range(text, -1, -1):
            if first != text and (first in texts or first not in below):
                break
            for last in range(text, self.num_columns):
                if last != text and (last in texts or last not in below):
                    break
                # Compare with the middle of the column text, which does not depend on the gaps around the columns.
                off = abs((self.lefts[first] + self.rights[last]) / 2 - middle)
                if last > first and off < 0.8 * self.em and (best is None or off < best[0] - 1e-9):
                    best = (off, first, last)
        own = abs((self.lefts[text] + self.rights[text]) / 2 - middle)
        if best is None or own < max(best[0], 0.3 * self.em):
            return None
        return best[1:]


class _JoinedCells:
    """The cells of a table after joining: rectangles of grid cells that together cover the grid exactly once."""

    def __init__(self, num_rows: int, num_columns: int) -> None:
        self.owner = np.arange(num_rows * num_columns).reshape(num_rows, num_columns)
        # Maps a cell number to (first row, last row, first column, last column).
        self.rectangles = {
            row * num_columns + column: (row, row, column, column)
            for row in range(num_rows)
            for column in range(num_columns)
        }

    def rectangle(self, row: int, column: int) -> tuple[int, int, int, int]:
        return self.rectangles[int(self.owner[row, column])]

    def join(self, top: int, bottom: int, first: int, last: int) -> None:
        """Join the cells in a rectangle, which grows around cells that it contains only in part."""
        while True:
            numbers = np.unique(self.owner[top : bottom + 1, first : last + 1])
            if len(numbers) == 1:
                return
            tops, bottoms, lefts, rights = zip(*(self.rectangles[int(number)] for number in numbers), strict=True)
            grown = (min(tops), max(bottoms), min(lefts), max(rights))
            if grown == (top, bottom, first, last):
                break
            top, bottom, first, last = grown
        for number in numbers:
            del self.rectangles[int(number)]
        self.owner[top : bottom + 1, first : last + 1] = numbers[0]
        self.rectangles[int(numbers[0])] = (top, bottom, first, last)
