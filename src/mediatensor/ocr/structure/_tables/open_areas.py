"""Where open tables are: lines of short texts that stand side by side, line below line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .._content import PageContent
from .._found import Box
from .grid import TableArea
from .text import Run, is_number, lines_of, runs_of

__all__ = ["open_areas"]

# A gap between cells is as wide as type is high, or wider; lines of a table follow each other within so many heights.
_GAP = 1.0
_PITCH = 3.2
_MIN_ROWS = 3
# Pictures larger than this share of the page are scans of it: their text is not the lettering of a chart.
_SCAN_SHARE = 0.5

_MARK = re.compile(r"^([•●▪◦‣·○□■*\-\u2013\u2014]|\(?[0-9ivxIVX]{1,4}[.):]|\(?[a-zA-Z][.)]|\d{1,2}(\.\d{1,2})+\.?)$")


def open_areas(
    content: PageContent, free: NDArray[np.bool_], is_prose: NDArray[np.bool_], taken: Sequence[Box], em: float
) -> list[TableArea]:
    """Find where lines of several short texts follow each other.

    Args:
        content: The page.
        free: bool (N,): the words that belong to no table yet.
        is_prose: bool (N,): the words of running text.
        taken: The boxes of the tables that were found before.
        em: The height of type.
    """
    usable = free & ~(is_prose & ~_beside_cells(content, free, is_prose, em))
    is_prose = is_prose & ~usable
    middles = (content.boxes[:, :2] + content.boxes[:, 2:]) / 2
    for x0, y0, x1, y1 in content.pictures:
        if (x1 - x0) * (y1 - y0) < _SCAN_SHARE * content.width * content.height:
            usable &= ~(
                (middles[:, 0] > x0) & (middles[:, 0] < x1) & (middles[:, 1] > y0) & (middles[:, 1] < y1)
            )  # fmt: skip
    runs = runs_of(content, np.nonzero(usable)[0].tolist(), _GAP * em)
    walls = [*taken, *_boxes(runs_of(content, np.nonzero(free & is_prose)[0].tolist(), 2 * em))]
    areas = []
    for group in _groups(_segments(runs, walls, em), em):
        for part in _columnar_parts(content, group):
            own = [run for line in part for run in line]
            box = (
                min(run.x0 for run in own), min(run.y0 for run in own),
                max(run.x1 for run in own), max(run.y1 for run in own),
            )  # fmt: skip
            words = [word for run in own for word in run.words]
            areas.append(TableArea(box, words, np.zeros((0, 3)), np.zeros((0, 3)), False))
    return areas


def _beside_cells(
    content: PageContent, free: NDArray[np.bool_], is_prose: NDArray[np.bool_], em: float
) -> NDArray[np.bool_]:
    """The words of running text in few lines that have short texts beside them: sentences in cells."""
    beside = np.zeros(len(is_prose), dtype=bool)
    short = [run for run in runs_of(content, np.nonzero(free & ~is_prose)[0].tolist(), em) if run.x1 - run.x0 < 15 * em]
    prose = runs_of(content, np.nonzero(free & is_prose)[0].tolist(), em)
    if not short or not prose:
        return beside
    cells = np.array([(run.x0, run.middle, run.x1) for run in short])
    cells = cells[np.argsort(cells[:, 1])]
    for run in prose:
        first, last = np.searchsorted(cells[:, 1], [run.y0 - 2.5 * em, run.y1 + 2.5 * em])
        near = cells[first:last]
        level = (near[:, 2] < run.x0) | (near[:, 0] > run.x1)
        lone = ~((near[:, 2] > run.x0) & (near[:, 0] < run.x1)).any()
        if level.sum() > 1 and lone | (level.sum() > 3):
            beside[list(run.words)] = True
    return beside


def _boxes(runs: Sequence[Run]) -> list[Box]:
    return [(run.x0, run.y0, run.x1, run.y1) for run in runs]


def _segments(runs: Sequence[Run], walls: Sequence[Box], em: float) -> list[list[Run]]:
    """Lines of runs, parted where running text or another table stands between them."""
    sides = np.array(walls, dtype=np.float64).reshape(-1, 4)
    segments = []
    for line in lines_of(runs):
        middle = float(np.median([run.middle for run in line]))
        near = sides[(sides[:, 1] < middle) & (sides[:, 3] > middle)]
        segment = [line[0]]
        for run, after in pairwise(line):
            between = (near[:, 0] > run.x0) & (near[:, 2] < after.x1)
            if between.any() or after.x0 - run.x1 > 25 * em:
                segments.append(segment)
                segment = []
            segment.append(after)
        segments.append(segment)
    return segments


def _groups(segments: Sequence[list[Run]], em: float) -> list[list[list[Run]]]:
    """Lines that follow each other closely and lie above each other, from the top."""
    spans = [
        (min(run.x0 for run in line), max(run.x1 for run in line), float(np.median([run.middle for run in line])))
        for line in segments
    ]
    order = sorted(range(len(segments)), key=lambda at: spans[at][2])
    groups: list[list[int]] = []
    ends: list[tuple[float, float, float]] = []
    open_groups: list[int] = []
    for at in order:
        left, right, middle = spans[at]
        open_groups = [group for group in open_groups if middle - ends[group][2] <= _PITCH * em]
        best = None
        for group in open_groups:
            shared = min(right, ends[group][1]) - max(left, ends[group][0])
            if shared > 0 and (best is None or shared > best[0]):
                best = (shared, group)
        if best is None:
            open_groups.append(len(groups))
            groups.append([at])
            ends.append((left, right, middle))
        else:
            group = best[1]
            groups[group].append(at)
            ends[group] = (min(left, ends[group][0]), max(right, ends[group][1]), middle)
    return [[segments[at] for at in group] for group in groups]


def _columnar_parts(content: PageContent, lines: Sequence[list[Run]]) -> list[list[list[Run]]]:
    """The stretches of lines that are rows: most have several texts; titles above and notes below are left out."""
    parts: list[list[list[Run]]] = [[]]
    single = 0
    for line in lines:
        if len(line) > 1:
            single = 0
        else:
            single += 1
        parts[-1].append(line)
        if single > 2:
            # Three lines of one text each: what follows is another table.
            del parts[-1][-single:]
            parts.append([])
    found = []
    for part in parts:
        first = next((at for at, line in enumerate(part) if len(line) > 1), len(part))
        last = next((at for at in range(len(part) - 1, -1, -1) if len(part[at]) > 1), -1)
        kept = part[first : last + 1]
        rows = [line for line in kept if len(line) > 1]
        if len(rows) < _MIN_ROWS or _is_list(content, rows):
            continue
        if first > 0 and _is_head_of_several(part[first - 1], part[first]):
            kept.insert(0, part[first - 1])
        found.append(kept)
    return found


def _is_head_of_several(line: list[Run], below: list[Run]) -> bool:
    """Whether a single text above a line is the head of some of its columns, not the title of all."""
    run = line[0]
    middle = (run.x0 + run.x1) / 2
    return len(below) > 2 and run.x0 > below[0].x1 and below[1].x0 <= middle <= below[-1].x1


def _is_list(content: PageContent, rows: Sequence[list[Run]]) -> bool:
    """Whether rows are items with bullets or numbers before them, a table of contents, or the fields of a form."""
    texts = [[" ".join(content.texts[word] for word in run.words) for run in row] for row in rows]
    marked = sum(_MARK.match(row[0]) is not None and len(row) == 2 for row in texts)
    if marked > 0.5 * len(rows):
        return True
    labelled = sum(row[0].rstrip().endswith(":") and len(row) <= 4 for row in texts)
    if labelled > 0.5 * len(rows):
        return True
    if all(len(row) == 2 for row in texts):
        # Pages that only grow, behind titles that have few numbers.
        pages = [row[1] for row in texts]
        if all(page.isdigit() for page in pages):
            numbers = [int(page) for page in pages]
            if numbers == sorted(numbers) and numbers[-1] > numbers[0]:
                return True
    if max(len(row) for row in texts) == 2 and not any(is_number(row[-1]) for row in texts):
        lengths = [len(row[-1].split()) for row in texts]
        return float(np.mean(lengths)) > 6
    return False
