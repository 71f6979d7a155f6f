"""Find the areas of a page that may be tables.

There are three kinds: grids of connected ruled lines, stacks of horizontal ruled lines with the same ends, and rows of
short texts side by side without ruled lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from .._reading_order.boxes import component_roots
from ._page import Box, PageContent, are_inside, box_around
from ._table_text import Run, Segments, TableArea, clusters, column_gaps, is_number, lines_of, runs_of
from ._text_lines import is_address_block

# Only this many rules, the longest, are kept, because the number of crossings grows quadratically.
_MAX_RULES = 4_000


def join_rules(rules: NDArray[np.float64], across: bool, em: float) -> Segments:
    """Join the pieces of each ruled line, such as dots, dashes and the borders of adjacent cells.

    Args:
        rules: float64 (N, 4): xmin, ymin, xmax, ymax.
        across: Whether the rules are horizontal.
        em: Type height.

    Returns:
        The rules that are at least one type height long, sorted by position, then by start.
    """
    x0, y0, x1, y1 = rules.T
    place, start, end = ((y0 + y1) / 2, x0, x1) if across else ((x0 + x1) / 2, y0, y1)
    near, gap = 0.2 * em, 0.35 * em
    joined: list[tuple[float, float, float]] = []
    order = np.argsort(place, kind="stable")
    for first, last in clusters(place[order], near):
        level = order[first:last]
        level = level[np.argsort(start[level], kind="stable")]
        at = float(np.average(place[level], weights=np.maximum(end[level] - start[level], 1e-6)))
        reach = np.maximum.accumulate(end[level])
        cuts = np.nonzero(start[level][1:] > reach[:-1] + gap)[0] + 1
        for part in np.split(np.arange(len(level)), cuts):
            joined.append((at, float(start[level[part[0]]]), float(reach[part[-1]])))
    kept = np.array([rule for rule in joined if rule[2] - rule[1] >= em]).reshape(-1, 3)
    if len(kept) > _MAX_RULES:
        kept = kept[np.sort(np.argsort(kept[:, 1] - kept[:, 2], kind="stable")[:_MAX_RULES])]
    return kept


@dataclass(frozen=True, eq=False)
class Lattice:
    """A set of connected rules (straight lines), as around the cells of a table, and its bounding box."""

    box: Box
    horizontal: Segments
    vertical: Segments


def find_lattices(horizontal: Segments, vertical: Segments, em: float) -> list[Lattice]:
    """Group ruled lines that touch or cross each other. Return the groups with both horizontal and vertical lines."""
    reach, count = 0.4 * em, len(horizontal)
    y, start, end = horizontal.T[..., None]
    touching = (vertical[:, 0] >= start - reach) & (vertical[:, 0] <= end + reach)
    touching &= (vertical[:, 1] <= y + reach) & (vertical[:, 2] >= y - reach)
    links = np.argwhere(touching)
    links[:, 1] += count
    roots = component_roots(count + len(vertical), links)
    found = []
    for root in np.unique(roots[:count][touching.any(axis=1)]):
        own, posts = horizontal[roots[:count] == root], vertical[roots[count:] == root]
        box = box_around(np.concatenate([own[:, [1, 0, 2, 0]], posts[:, [0, 1, 0, 2]]]))
        found.append(Lattice(box, own, posts))
    return found


def stacks_of_rules(horizontal: Segments, em: float) -> list[Segments]:
    """Find stacks: two or more horizontal rules, one above the other, with the same left and right ends.

    Pieces of a rule at the same height count as one rule, because the rule below a table head is often interrupted
    between columns.
    """
    levels: list[tuple[float, float, float]] = []
    for y, start, end in horizontal[np.argsort(horizontal[:, 0], kind="stable")]:
        if levels and y - levels[-1][0] < 0.2 * em and 0 <= start - levels[-1][2] < 3 * em:
            levels[-1] = (levels[-1][0], levels[-1][1], float(end))
        else:
            levels.append((float(y), float(start), float(end)))
    stacks: list[list[tuple[float, float, float]]] = []
    for level in levels:
        if level[2] - level[1] < 6 * em:
            continue
        for stack in stacks:
            if abs(stack[-1][1] - level[1]) < em and abs(stack[-1][2] - level[2]) < em:
                stack.append(level)
                break
        else:
            stacks.append([level])
    return [np.array(stack) for stack in stacks if len(stack) > 1]


def words_inside(content: PageContent, box: Box) -> NDArray[np.int64]:
    return np.flatnonzero(are_inside(content.boxes, box))


def lattice_areas(
    content: PageContent, horizontal: Segments, vertical: Segments, em: float
) -> tuple[list[TableArea], Segments]:
    """Return the table areas formed by connected rules (straight lines), and all horizontal rules outside these areas.

    The rules of an area must separate its columns.
    """
    areas, loose = [], [horizontal[:0]]
    lattices = find_lattices(horizontal, vertical, em)
    # Sort by size, the largest first, so that the outermost of nested tables is used.
    lattices.sort(key=lambda lattice: (lattice.box[0] - lattice.box[2]) * (lattice.box[3] - lattice.box[1]))
    used = {tuple(rule) for lattice in lattices for rule in lattice.horizontal.tolist()}
    loose += [np.array([rule]) for rule in horizontal.tolist() if tuple(rule) not in used]
    for lattice in lattices:
        lattice = _cut_to_frame(content, lattice, em)
        x0, _, x1, _ = lattice.box
        within = (lattice.vertical[:, 0] > x0 + em) & (lattice.vertical[:, 0] < x1 - em)
        if not within.any() or len(lattice.horizontal) + len(lattice.vertical) < 3:
            # This is a frame or shaded bands. Their horizontal edges still separate rows.
            loose.append(lattice.horizontal)
            continue
        words = words_inside(content, lattice.box)
        if len(words) > 1:
            areas.append(TableArea(lattice.box, words.tolist(), lattice.horizontal, lattice.vertical, True))
    across = np.concatenate(loose)
    return areas, across[np.lexsort((across[:, 1], across[:, 0]))]


def _cut_to_frame(content: PageContent, lattice: Lattice, em: float) -> Lattice:
    """Cut the box of a lattice at the top and bottom of its frame, if vertical rules extend into a title or a note."""
    x0, y0, x1, y1 = lattice.box
    full = lattice.horizontal[(lattice.horizontal[:, 1] < x0 + em) & (lattice.horizontal[:, 2] > x1 - em), 0]
    if len(full):
        for top, bottom in ((y0, float(full[0])), (float(full[-1]), y1)):
            lines = lines_of(runs_of(content, words_inside(content, (x0, top, x1, bottom)), 1.5 * em))
            if bottom - top < 0.6 * em or all(len(line) == 1 for line in lines):
                y0, y1 = (bottom, y1) if bottom < y1 else (y0, top)
    return replace(lattice, box=(x0, y0, x1, y1))


def stack_areas(
    content: PageContent,
    horizontal: Segments,
    vertical: Segments,
    em: float,
) -> list[TableArea]:
    """Return the table areas between horizontal rules (straight lines) with the same left and right ends.

    The text in such an area must be in columns.
    """
    areas = []
    for stack in stacks_of_rules(horizontal, em):
        left, right = float(stack[:, 1].min()), float(stack[:, 2].max())
        bands = []
        for upper, lower in pairwise(stack):
            words = words_inside(content, (left - 0.5 * em, float(upper[0]), right + 0.5 * em, float(lower[0])))
            kind = _band_kind(content, words, right - left, em)
            # This is the space between two tables; it contains only the title of the second table.
            is_apart = kind == "little" and lower[0] - upper[0] > 2.5 * em and len(stack) > 3
            bands.append("other" if is_apart else kind)
        for is_other, members in groupby(range(len(bands)), key=lambda at: bands[at] == "other"):
            places = list(members)
            if is_other or all(bands[at] != "columns" for at in places):
                continue
            box = (left, float(stack[places[0], 0]), right, float(stack[places[-1] + 1, 0]))
            own = horizontal[(horizontal[:, 0] >= box[1] - 0.1 * em) & (horizontal[:, 0] <= box[3] + 0.1 * em)]
            own = own[(own[:, 1] >= left - em) & (own[:, 2] <= right + em)]
            words = words_inside(content, (left - 0.5 * em, box[1], right + 0.5 * em, box[3]))
            inner = (vertical[:, 0] > left + em) & (vertical[:, 0] < right - em)
            inner &= (vertical[:, 1] >= box[1] - em) & (vertical[:, 2] <= box[3] + em)
            areas.append(TableArea(box, words.tolist(), own, vertical[inner], False))
    return areas


def _band_kind(content: PageContent, words: NDArray[np.int64], wide: float, em: float) -> str:
    """Classify the text between two horizontal rules.

    Return "columns" if it is in columns, "little" if it is at most two lines, else "other", for example running text.
    ``wide`` is the length of the rules.
    """
    if not len(words):
        return "little"
    own = content.boxes[words]
    lines = lines_of(runs_of(content, words, 1.5 * em))
    if len(lines) > 1 and any(len(line) == 1 and line[0].x1 - line[0].x0 > 0.6 * wide for line in lines):
        return "other"
    lines = lines_of(runs_of(content, words, 0.9 * em))
    several = sum(len(line) > 1 for line in lines)
    if several >= 0.5 * len(lines) or column_gaps(lines, own[:, 0].min(), own[:, 2].max(), em):
        return "columns"
    return "little" if len(lines) <= 2 else "other"


# In type heights: the smallest gap between cells, and the largest distance between lines of a table.
_GAP = 1.0
_PITCH = 3.2
_MIN_ROWS = 3

_MARK = re.compile(r"^([•●▪◦‣·○□■*\-\u2013\u2014]|\(?[0-9ivxIVX]{1,4}[.):]|\(?[a-zA-Z][.)]|\d{1,2}(\.\d{1,2})+\.?)$")


def open_areas(content: PageContent, free: NDArray[np.bool_], taken: Sequence[Box], em: float) -> list[TableArea]:
    """Return table areas without ruled lines: consecutive lines of text that consist of several short texts.

    Args:
        content: The page.
        free: bool (N,): whether each word is outside the tables found so far.
        taken: Boxes of the tables found so far.
        em: Type height.
    """
    runs = runs_of(content, np.nonzero(free)[0].tolist(), _GAP * em)
    areas = []
    for group in _groups(_segments(runs, taken, em), em):
        for part in _columnar_parts(content, group):
            own = [run for line in part for run in line]
            words = [word for run in own for word in run.words]
            box = box_around([(run.x0, run.y0, run.x1, run.y1) for run in own])
            areas.append(TableArea(box, words, np.zeros((0, 3)), np.zeros((0, 3)), False))
    return areas


def _segments(runs: Sequence[Run], walls: Sequence[Box], em: float) -> list[list[Run]]:
    """Group runs into lines. A line is split where another table (``walls``) is between two runs."""
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
    """Group lines that are close together vertically and overlap horizontally. Lines are sorted from top to bottom."""
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
        shared = {group: min(right, ends[group][1]) - max(left, ends[group][0]) for group in open_groups}
        group = max(shared, key=shared.__getitem__, default=-1)
        if shared.get(group, 0) <= 0:
            open_groups.append(len(groups))
            groups.append([at])
            ends.append((left, right, middle))
        else:
            groups[group].append(at)
            ends[group] = (min(left, ends[group][0]), max(right, ends[group][1]), middle)
    return [[segments[at] for at in group] for group in groups]


def _columnar_parts(content: PageContent, lines: Sequence[list[Run]]) -> list[list[list[Run]]]:
    """Return the sequences of lines that are probably rows of a table, without titles and notes."""
    parts: list[list[list[Run]]] = [[]]
    single = 0
    for line in lines:
        single = 0 if len(line) > 1 else single + 1
        parts[-1].append(line)
        if single > 2:
            # Three consecutive lines with one text each end a table.
            del parts[-1][-single:]
            parts.append([])
    found = []
    for part in parts:
        several = [at for at, line in enumerate(part) if len(line) > 1]
        if len(several) < _MIN_ROWS or _is_list(content, [part[at] for at in several]):
            continue
        first = several[0]
        kept = part[first : several[-1] + 1]
        if first > 0 and _is_head_of_several(part[first - 1], part[first]):
            kept.insert(0, part[first - 1])
        found.append(kept)
    return found


def _is_head_of_several(line: list[Run], below: list[Run]) -> bool:
    """Return whether the single text in ``line`` is a head over several columns of ``below`` rather than a title."""
    run = line[0]
    middle = (run.x0 + run.x1) / 2
    return len(below) > 2 and run.x0 > below[0].x1 and below[1].x0 <= middle <= below[-1].x1


def _is_list(content: PageContent, rows: Sequence[list[Run]]) -> bool:
    """Return whether rows that look like a table are a list, a table of contents, fields of a form, or addresses."""
    texts = [[" ".join(content.texts[word] for word in run.words) for run in row] for row in rows]
    if len({len(row) for row in texts}) == 1 and all(map(is_address_block, zip(*texts, strict=True))):
        return True
    marked = sum(_MARK.match(row[0]) is not None and len(row) == 2 for row in texts)
    if marked > 0.5 * len(rows):
        return True
    labelled = sum(row[0].rstrip().endswith(":") and len(row) <= 4 for row in texts)
    if labelled > 0.5 * len(rows):
        return True
    if all(len(row) == 2 for row in texts):
        # A table of contents has ascending page numbers.
        pages = [row[1] for row in texts]
        if all(re.fullmatch(r"\d{1,9}", page) for page in pages):
            numbers = [int(page) for page in pages]
            if numbers == sorted(numbers) and numbers[-1] > numbers[0]:
                return True
    if max(len(row) for row in texts) == 2 and not any(is_number(row[-1]) for row in texts):
        lengths = [len(row[-1].split()) for row in texts]
        return float(np.mean(lengths)) > 6
    return False
