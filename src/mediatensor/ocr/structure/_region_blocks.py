"""Group the text lines of a page into blocks such as paragraphs, and combine pieces of ink and labels into pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.locks import cached_property
from .._reading_order.boxes import component_roots
from ._page import Box, Boxes, are_inside, box_around, gaps_between
from ._text_lines import BULLETS, MARK, TextLine

# The largest gap between lines of a column, in heights, and the smallest share of the width that they overlap by.
_MAX_LEADING = 1.3
_MIN_COMMON = 0.3
# A new block starts where the distance between lines is this many times the usual one, or where the ratio of type sizes
# is at least the second value.
_MAX_STEP = 1.32
_MAX_SIZE_RATIO = 1.18
# The smallest and the largest indent, in heights.
_INDENT = 0.6
_MAX_INDENT = 6.0
# A line is full if the space at its end, in heights, is smaller.
_FULL = 1.5
# Running text has at least this share of full lines.
_FULL_SHARE = 0.5
# A line is bold above the first share of letters in heavy type, and not bold below the second.
_BOLD = 0.6
_NOT_BOLD = 0.35

# The largest distance between two pieces of a picture, in type sizes.
_NEAR = 2.0
# The smallest area of a picture, in square type sizes.
_MIN_AREA = 12.0
# Only this many pieces, the largest, are kept.
_MAX_PIECES = 300
_MAX_ROUNDS = 12
_MAX_RULES = 400
# A frame with a larger share of text belongs to a text box, form or table.
_MAX_TEXT_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class Block:
    """Lines that belong together: a paragraph, a heading or a list item.

    Attributes:
        lines: The lines of the block, from top to bottom.
        column: Left and right edge of the column of text that the block is in.
        hangs: Whether the block has a hanging indent: its first line starts further left than the rest.
    """

    lines: tuple[TextLine, ...]
    column: tuple[float, float]
    hangs: bool = False

    @cached_property
    def box(self) -> Box:
        return box_around([line.box for line in self.lines])

    @cached_property
    def size(self) -> float:
        return _usual_size(self.lines)

    @cached_property
    def bold(self) -> float:
        lengths = [len(line.text) for line in self.lines]
        return sum(line.bold * length for line, length in zip(self.lines, lengths, strict=True)) / max(1, sum(lengths))

    @cached_property
    def text(self) -> str:
        return " ".join(line.text for line in self.lines)

    @cached_property
    def is_prose(self) -> bool:
        """Whether the block is prose.

        Prose has several lines, and mostly letters. At least half of the lines are nearly as wide as the block.
        """
        if len(self.lines) < 2 or self.width < 10 * self.size:
            return False
        full = [line for line in self.lines if line.width > 0.75 * self.width]
        letters = sum(character.isalpha() for character in self.text)
        return len(full) >= 0.5 * len(self.lines) and letters > 0.5 * len(self.text.replace(" ", ""))

    @property
    def words(self) -> tuple[int, ...]:
        return tuple(word for line in self.lines for word in line.words)

    @property
    def width(self) -> float:
        return self.box[2] - self.box[0]

    @property
    def middle(self) -> float:
        return (self.box[0] + self.box[2]) / 2


def blocks_of(lines: list[TextLine], rules: Boxes) -> list[Block]:
    """Group lines into blocks such as paragraphs, headings and list items.

    ``lines`` are sorted from top to bottom. The horizontal ``rules``, (H, 4), separate blocks.
    """
    if not lines:
        return []
    stacks = _stacks(lines, rules)
    step = _usual_step(stacks)
    return [block for stack in stacks for block in _split_column(stack, step)]


def _stacks(lines: list[TextLine], rules: Boxes) -> list[list[TextLine]]:
    """Group lines into columns, which are lists of lines that are one below the other.

    A column is split between a line and two lines that are side by side directly below or above it.
    """
    boxes = np.array([line.box for line in lines])
    sizes = np.array([line.size for line in lines])
    widths = np.maximum(boxes[:, 2] - boxes[:, 0], 1e-6)
    middles = (boxes[:, 1] + boxes[:, 3]) / 2
    reach = (_MAX_LEADING + 1) * float(np.quantile(sizes, 0.9)) + float((boxes[:, 3] - boxes[:, 1]).max())
    order = np.argsort(middles, kind="stable")
    sorted_middles = middles[order]
    below: list[int] = []
    for index in range(len(lines)):
        begin = int(np.searchsorted(sorted_middles, middles[index], side="right"))
        end = int(np.searchsorted(sorted_middles, boxes[index, 3] + reach))
        below.append(_nearest(index, order[begin : min(end, begin + 400)], boxes, sizes, widths, middles))
    above = np.full(len(lines), -1, dtype=np.int64)
    for index, other in enumerate(below):
        if other < 0:
            continue
        begin = int(np.searchsorted(sorted_middles, boxes[other, 1] - reach))
        end = int(np.searchsorted(sorted_middles, middles[other]))
        mirrored = _nearest(other, order[max(begin, end - 400) : end][::-1], boxes, sizes, widths, middles)
        if mirrored == index and not _has_rule_between(boxes[index], boxes[other], rules):
            above[other] = index
    stacks = []
    following = np.full(len(lines), -1, dtype=np.int64)
    following[above[above >= 0]] = np.flatnonzero(above >= 0)
    for index in np.flatnonzero(above < 0).tolist():
        stack = []
        while index >= 0:
            stack.append(lines[index])
            index = int(following[index])
        stacks.append(stack)
    return stacks


def _nearest(
    index: int,
    candidates: NDArray[np.int64],
    boxes: Boxes,
    sizes: NDArray[np.float64],
    widths: NDArray[np.float64],
    middles: NDArray[np.float64],
) -> int:
    """Return the index of the nearest line above or below line ``index``, or -1.

    ``candidates`` are either the lines above line ``index`` or the lines below it, nearest first. The result is -1 if
    there is no candidate, if the nearest candidate overlaps too little horizontally or is too far away, or if another
    candidate is next to it at the same height.
    """
    common = np.minimum(boxes[candidates, 2], boxes[index, 2]) - np.maximum(boxes[candidates, 0], boxes[index, 0])
    candidates = candidates[common > 0]
    common = common[common > 0] / np.minimum(widths[candidates], widths[index])
    if len(candidates) == 0:
        return -1
    first = int(candidates[0])
    level = np.abs(middles[candidates] - middles[first]) < 0.6 * sizes[first]
    if level.sum() > 1 or common[0] < _MIN_COMMON:
        return -1
    gap = max(boxes[first, 1] - boxes[index, 3], boxes[index, 1] - boxes[first, 3])
    return first if gap <= _MAX_LEADING * max(sizes[first], sizes[index]) else -1


def _has_rule_between(upper: NDArray[np.float64], lower: NDArray[np.float64], rules: Boxes) -> bool:
    middles = (rules[:, 1] + rules[:, 3]) / 2
    start, end = max(upper[0], lower[0]), min(upper[2], lower[2])
    common = np.minimum(rules[:, 2], end) - np.maximum(rules[:, 0], start)
    between = (middles > (upper[1] + upper[3]) / 2) & (middles < (lower[1] + lower[3]) / 2)
    return bool((between & (common > 0.5 * (end - start))).any())


def _usual_step(stacks: list[list[TextLine]]) -> float:
    """Return the median distance between the base lines of consecutive lines, in type sizes."""
    steps = [(below.baseline - above.baseline) / above.size for stack in stacks for above, below in pairwise(stack)]
    return float(np.median(steps)) if steps else 1.2


def _split_column(stack: list[TextLine], usual_step: float) -> list[Block]:
    """Split a column into blocks: first at wide gaps and changes of type, then where paragraphs and list items start.

    ``usual_step`` is the usual distance between consecutive lines, in type sizes.
    """
    parts: list[list[TextLine]] = [[stack[0]]]
    steps = np.array([below.baseline - above.baseline for above, below in pairwise(stack)])
    for index, (above, below) in enumerate(pairwise(stack)):
        # The usual step in the surrounding lines.
        near = steps[max(0, index - 4) : index + 5]
        size = (above.size + below.size) / 2
        usual = min(float(np.median(near)), 1.25 * usual_step * size)
        if len(steps) < 3:
            usual = min(usual, usual_step * size)
        if steps[index] > _MAX_STEP * usual or _changes_type(stack, index):
            parts.append([])
        parts[-1].append(below)
    left, right = _column_edges(stack)
    return [block for part in parts for block in _paragraphs(part, (left, right))]


def _changes_type(stack: list[TextLine], index: int) -> bool:
    """Return whether the type size or weight clearly changes between line ``index`` of a column and the next line."""
    above, below = stack[index], stack[index + 1]
    if below.text[0].islower():
        # The sentence continues, so the type was measured wrongly or is italic.
        return False
    shorter = min(len(above.text), len(below.text))
    bolder, lighter = max(above.bold, below.bold), min(above.bold, below.bold)
    if shorter >= 3 and bolder >= _BOLD and lighter <= _NOT_BOLD:
        return True
    if shorter < 4:
        return False
    before, after = _usual_size(stack[max(0, index - 2) : index + 1]), _usual_size(stack[index + 1 : index + 4])
    if max(above.size, below.size) <= _MAX_SIZE_RATIO * min(above.size, below.size):
        return False
    return max(before, after) > _MAX_SIZE_RATIO * min(before, after)


def _usual_size(lines: Sequence[TextLine]) -> float:
    return float(np.median([line.size for line in lines]))


def _column_edges(lines: list[TextLine]) -> tuple[float, float]:
    """Return the left and right edge of a column of lines. Up to a tenth of the lines can extend beyond each edge."""
    lefts, rights = sorted(line.box[0] for line in lines), sorted(line.box[2] for line in lines)
    return lefts[len(lefts) // 10], rights[-1 - len(rights) // 10]


def _paragraphs(lines: list[TextLine], column: tuple[float, float]) -> list[Block]:
    """Split lines in the same type into paragraphs or list items.

    A new paragraph or item starts at an indent or at the mark of a list item, and after a line that ends early.
    """
    if len(lines) == 1:
        return [Block((lines[0],), column)]
    size = _usual_size(lines)
    left, right = _column_edges(lines)
    indents = np.array([(line.box[0] - left) / size for line in lines])
    rests = np.array([(right - line.box[2]) / size for line in lines])
    marks = np.array([len(line.texts) > 1 and MARK.match(line.texts[0]) is not None for line in lines])
    bullets = np.array([len(line.texts) > 1 and line.texts[0] in BULLETS for line in lines])
    indented = (indents >= _INDENT) & (indents <= _MAX_INDENT)
    starts = np.zeros(len(lines), dtype=bool)
    starts[0] = True
    if int(bullets.sum()) >= 2 and float(np.ptp(indents[bullets])) < _INDENT:
        # Aligned bullets start items at any indent. A line further left ends the last item.
        starts |= bullets
        starts[1:] |= bullets[:-1] & (indents[1:] < indents[bullets].min() - _INDENT)
    is_prose = float((rests[:-1] <= _FULL).mean()) >= _FULL_SHARE and right - left >= 8 * size
    hangs = _has_hanging_indent(lines, indents, rests, marks)
    if hangs:
        # Each item starts further left or with a mark, and its remaining lines are aligned.
        starts[1:] |= (indents[1:] < _INDENT) & (indented.any() | marks[1:])
    elif is_prose:
        for index in range(1, len(lines)):
            if not indented[index]:
                continue
            # A single indented line is the first line of a paragraph.
            back = index + 1 == len(lines) or indents[index + 1] <= indents[index] - 0.7 * _INDENT
            if (back and indents[index - 1] < indents[index] - 0.7 * _INDENT) or (back and rests[index - 1] > _FULL):
                starts[index] = True
    if is_prose or hangs:
        # The next word, whose width is estimated from the line's letters, would fit at the end of the line above.
        firsts = np.array([line.width * len(line.texts[0]) / max(1, len(line.text)) for line in lines])
        starts[1:] |= (rests[:-1] * size > firsts[1:] + 1.2 * size) & (rests[:-1] > 2.0)
    bounds = [*np.flatnonzero(starts).tolist(), len(lines)]
    return [Block(tuple(lines[start:end]), column, hangs) for start, end in pairwise(bounds)]


def _has_hanging_indent(
    lines: list[TextLine],
    indents: NDArray[np.float64],
    rests: NDArray[np.float64],
    marks: NDArray[np.bool_],
) -> bool:
    """Return whether lines are list items with hanging indents rather than paragraphs with indented first lines.

    For each line, ``indents`` is the space on its left, and ``rests`` is the space on its right. ``marks`` is true for
    lines that start with the mark of a list item.
    """
    indented = indents >= _INDENT
    marked_out = marks & ~indented
    if marked_out.any():
        if not indented.any():
            # Every item is a single line with a mark.
            return int(marked_out.sum()) >= 2
        # Most lines after a marked line must be indented.
        follow = [index for index in np.flatnonzero(marked_out).tolist() if index + 1 < len(lines)]
        return bool(follow) and float(np.mean([indented[i + 1] or marked_out[i + 1] for i in follow])) > 0.5
    if indented.all() or not indented.any() or indented[0]:
        return False
    # In lists, most lines are indented, and lines before the start of an item end anywhere.
    outs = [index for index in range(1, len(lines)) if not indented[index] and indented[index - 1]]
    share = float(indented.mean())
    if len(lines) == 2:
        return bool(_INDENT <= indents[1] < 4 and rests[0] <= _FULL < rests[1])
    if not outs:
        # A single item: all lines but the first have the same indent.
        return bool(indented[1:].all()) and float(np.ptp(indents[1:])) < _INDENT
    early = float(np.mean([rests[index - 1] > _FULL for index in outs]))
    # Lines within an item follow full lines. Paragraphs seldom end with full lines.
    going_on = np.flatnonzero(indented)
    if len(going_on) > 1 and float((rests[going_on - 1] <= 2 * _FULL).mean()) >= 0.8 and early > 0.5:
        return True
    return share > 0.5 or (share >= 0.3 and early > 0.5 and bool((rests[~indented] <= _FULL).mean() > 0.5))


def pictures_of(
    pieces: Boxes, rules: Boxes, blocks: list[Block], is_label: list[bool], obstacles: Boxes, size: float
) -> tuple[list[Box], list[list[int]]]:
    """Combine pieces of ink into pictures, and find the text blocks that are labels in these pictures.

    Args:
        pieces: (P, 4): ink that is neither words nor rules.
        rules: (R, 4): horizontal and vertical lines, including axes, grids and frames of pictures.
        blocks: Text blocks.
        is_label: Whether each block can be a label in a picture.
        obstacles: (O, 4): tables. Pictures must not grow into them.
        size: Type size of the page.

    Returns:
        The box of each picture, and the indices of the blocks in each picture.
    """
    if len(pieces) == 0:
        return [], []
    areas = (pieces[:, 2] - pieces[:, 0]) * (pieces[:, 3] - pieces[:, 1])
    pieces = pieces[np.argsort(-areas, kind="stable")[:_MAX_PIECES]]
    pieces = pieces[np.array([not _is_covered(piece, obstacles) for piece in pieces], dtype=bool)]
    outer = np.array([block.box for block in blocks]).reshape(-1, 4)
    walls = np.concatenate([outer[~np.array(is_label, dtype=bool)], obstacles])
    labels = [index for index, label in enumerate(is_label) if label]
    pieces = np.concatenate([pieces, _frames(pieces, rules, outer, obstacles, size)])
    boxes: list[Box] = [(left, top, right, bottom) for left, top, right, bottom in pieces.tolist()]
    members: list[set[int]] = [set() for _ in boxes]
    for _ in range(_MAX_ROUNDS):
        changed = _take_labels(boxes, members, labels, outer, size)
        changed |= _merge(boxes, members, walls, size)
        if not changed:
            break
    kept = [index for index, box in enumerate(boxes) if (box[2] - box[0]) * (box[3] - box[1]) >= _MIN_AREA * size**2]
    return [boxes[index] for index in kept], [sorted(members[index]) for index in kept]


def _frames(pieces: Boxes, rules: Boxes, words: Boxes, obstacles: Boxes, size: float) -> Boxes:
    """Return the boxes (F, 4) of connected rules (straight lines) that belong to a picture, such as its frame or axes.

    Such rules are around or next to a piece of ink, and contain little text.
    """
    if len(pieces) == 0 or not 2 <= len(rules) <= _MAX_RULES:
        return np.zeros((0, 4))
    left, top, right, bottom = (0.4 * size * np.array([-1, -1, 1, 1]) + rules).T
    touches = (left[:, None] <= rules[:, 2]) & (right[:, None] >= rules[:, 0])
    touches &= (top[:, None] <= rules[:, 3]) & (bottom[:, None] >= rules[:, 1])
    roots = component_roots(len(rules), np.argwhere(touches))
    names, counts = np.unique(roots, return_counts=True)
    clusters = [np.array(box_around(rules[roots == name])) for name in names[counts > 1]]
    areas = (words[:, 2] - words[:, 0]) * (words[:, 3] - words[:, 1])
    frames = []
    for cluster in clusters:
        if _is_covered(cluster, obstacles):
            continue
        near = cluster + 1.5 * size * np.array([-1, -1, 1, 1])
        touching = ((pieces[:, :2] <= near[2:]) & (pieces[:, 2:] >= near[:2])).all(axis=1).any()
        area = max(1e-6, float((cluster[2:] - cluster[:2]).prod()))
        if touching and areas[are_inside(words, cluster)].sum() < _MAX_TEXT_SHARE * area:
            frames.append(cluster)
    return np.array(frames).reshape(-1, 4)


def _is_covered(piece: NDArray[np.float64], obstacles: Boxes) -> bool:
    common = np.minimum(obstacles[:, 2:], piece[2:]) - np.maximum(obstacles[:, :2], piece[:2])
    area = max(1e-6, float((piece[2] - piece[0]) * (piece[3] - piece[1])))
    return bool((common.clip(0).prod(axis=1) > 0.5 * area).any())


def _take_labels(boxes: list[Box], members: list[set[int]], labels: list[int], outer: Boxes, size: float) -> bool:
    """Extend large pictures by the labels next to them, in place. Return whether any picture has changed.

    ``boxes`` are the pictures found so far. ``outer`` are the boxes of text blocks, and ``labels`` are the indices of
    the text blocks that can be labels. ``members`` has, for each picture, the indices of its labels.
    """
    changed = False
    taken = set().union(*members) if members else set()
    for index, box in enumerate(boxes):
        if (box[2] - box[0]) * (box[3] - box[1]) < _MIN_AREA * size**2:
            continue
        for label in labels:
            if label in taken:
                continue
            left, top, right, bottom = outer[label].tolist()
            other = (left, top, right, bottom)
            across, down = gaps_between(box, other)
            # At least half of the label must be alongside the picture.
            low, high = (0, 2) if down > 0 else (1, 3)
            along = min(other[high], box[high]) - max(other[low], box[low])
            if across + down <= 1.5 * size and along >= 0.5 * (other[high] - other[low]):
                members[index].add(label)
                taken.add(label)
                boxes[index] = box = box_around([box, other])
                changed = True
    return changed


def _merge(boxes: list[Box], members: list[set[int]], walls: Boxes, size: float) -> bool:
    """Join pictures that are close together and have no wall between them. Return whether any were joined."""
    changed = False
    index = 0
    while index < len(boxes):
        rest = np.array(boxes[index + 1 :]).reshape(-1, 4)
        box = boxes[index]
        gaps = np.maximum(np.maximum(rest[:, :2] - np.array(box[2:]), np.array(box[:2]) - rest[:, 2:]), 0).sum(axis=1)
        for offset in np.flatnonzero(gaps <= _NEAR * size).tolist():
            other = boxes[index + 1 + offset]
            union = box_around([box, other])
            if _has_text_between(union, box, other, walls):
                continue
            boxes[index] = union
            members[index] |= members[index + 1 + offset]
            del boxes[index + 1 + offset], members[index + 1 + offset]
            changed = True
            break
        else:
            index += 1
    return changed


def _has_text_between(union: Box, box: Box, other: Box, walls: Boxes) -> bool:
    """Return whether the box around two pictures contains a table or running text that is in neither of them.

    ``union`` is the box around ``box`` and ``other``, and ``walls`` are the boxes of tables and running text.
    """
    middles = (walls[:, :2] + walls[:, 2:]) / 2

    def holds(outer: Box) -> NDArray[np.bool_]:
        left, top, right, bottom = outer
        across = (middles[:, 0] > left) & (middles[:, 0] < right)
        inside: NDArray[np.bool_] = across & (middles[:, 1] > top) & (middles[:, 1] < bottom)
        return inside

    return bool((holds(union) & ~holds(box) & ~holds(other)).any())
