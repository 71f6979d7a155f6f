"""Join pieces of ink into pictures, and add the words that label them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._page import Box, Boxes, box_around
from ._region_blocks import Block

__all__ = ["pictures_of"]

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


def pictures_of(
    pieces: Boxes, rules: Boxes, blocks: list[Block], is_label: list[bool], obstacles: Boxes, size: float
) -> tuple[list[Box], list[list[int]]]:
    """Join pieces into pictures, and find their labels.

    Args:
        pieces: (P, 4): ink that is neither words nor rules.
        rules: (R, 4): horizontal and vertical lines, including axes, grids and frames of pictures.
        blocks: Text blocks.
        is_label: Whether each block may be a label.
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
    fixed = outer[[index for index, label in enumerate(is_label) if not label]] if blocks else outer
    walls = np.concatenate([fixed, obstacles])
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
    """Return boxes of connected rules, (F, 4), that are around or next to pieces and contain little text."""
    if len(pieces) == 0 or not 2 <= len(rules) <= _MAX_RULES:
        return np.zeros((0, 4))
    clusters: list[Boxes] = []
    left, top, right, bottom = (0.4 * size * np.array([-1, -1, 1, 1]) + rules).T
    touches = (left[:, None] <= rules[:, 2]) & (right[:, None] >= rules[:, 0])
    touches &= (top[:, None] <= rules[:, 3]) & (bottom[:, None] >= rules[:, 1])
    touches |= touches.T
    unseen = np.ones(len(rules), dtype=bool)
    for first in range(len(rules)):
        frontier = np.zeros(len(rules), dtype=bool)
        frontier[first] = unseen[first]
        own = frontier
        while frontier.any():
            unseen &= ~frontier
            frontier = touches[frontier].any(axis=0) & unseen
            own = own | frontier
        if own.sum() > 1:
            clusters.append(np.array(box_around(rules[own])))
    areas = (words[:, 2] - words[:, 0]) * (words[:, 3] - words[:, 1])
    frames = []
    for cluster in clusters:
        if _is_covered(cluster, obstacles):
            continue
        near = cluster + 1.5 * size * np.array([-1, -1, 1, 1])
        touching = ((pieces[:, :2] <= near[2:]) & (pieces[:, 2:] >= near[:2])).all(axis=1).any()
        middles = (words[:, :2] + words[:, 2:]) / 2
        inside = ((middles >= cluster[:2]) & (middles <= cluster[2:])).all(axis=1)
        area = max(1e-6, float((cluster[2:] - cluster[:2]).prod()))
        if touching and float(areas[inside].sum()) < _MAX_TEXT_SHARE * area:
            frames.append(cluster)
    return np.array(frames).reshape(-1, 4)


def _is_covered(piece: NDArray[np.float64], obstacles: Boxes) -> bool:
    if len(obstacles) == 0:
        return False
    common = np.minimum(obstacles[:, 2:], piece[2:]) - np.maximum(obstacles[:, :2], piece[:2])
    area = max(1e-6, float((piece[2] - piece[0]) * (piece[3] - piece[1])))
    return bool((common.clip(0).prod(axis=1) > 0.5 * area).any())


def _take_labels(boxes: list[Box], members: list[set[int]], labels: list[int], outer: Boxes, size: float) -> bool:
    """Extend large pictures so that they include adjacent labels. Return whether any picture has changed."""
    changed = False
    taken = set().union(*members) if members else set()
    for index, box in enumerate(boxes):
        if (box[2] - box[0]) * (box[3] - box[1]) < _MIN_AREA * size**2:
            continue
        for label in labels:
            if label in taken:
                continue
            other = outer[label]
            dx = max(other[0] - box[2], box[0] - other[2], 0.0)
            dy = max(other[1] - box[3], box[1] - other[3], 0.0)
            if dx + dy > 1.5 * size:
                continue
            # At least half of the label must be alongside the picture.
            along = (
                min(other[2], box[2]) - max(other[0], box[0])
                if dy > 0
                else min(other[3], box[3]) - max(other[1], box[1])
            )
            length = other[2] - other[0] if dy > 0 else other[3] - other[1]
            if along >= 0.5 * length:
                members[index].add(label)
                taken.add(label)
                box = (min(box[0], other[0]), min(box[1], other[1]), max(box[2], other[2]), max(box[3], other[3]))
                boxes[index] = box
                changed = True
    return changed


def _merge(boxes: list[Box], members: list[set[int]], walls: Boxes, size: float) -> bool:
    """Join pieces that are close together without running text between them. Return whether any were joined."""
    changed = False
    index = 0
    while index < len(boxes):
        rest = np.array(boxes[index + 1 :]).reshape(-1, 4)
        box = boxes[index]
        gaps = np.maximum(np.maximum(rest[:, :2] - np.array(box[2:]), np.array(box[:2]) - rest[:, 2:]), 0).sum(axis=1)
        joined = False
        for offset in np.flatnonzero(gaps <= _NEAR * size).tolist():
            other = boxes[index + 1 + offset]
            union = box_around([box, other])
            if _has_text_between(union, box, other, walls):
                continue
            boxes[index] = union
            members[index] |= members[index + 1 + offset]
            del boxes[index + 1 + offset], members[index + 1 + offset]
            joined = changed = True
            break
        if not joined:
            index += 1
    return changed


def _has_text_between(union: Box, box: Box, other: Box, walls: Boxes) -> bool:
    """Whether the union of two pieces contains running text that is in neither piece."""
    if len(walls) == 0:
        return False
    middles = (walls[:, :2] + walls[:, 2:]) / 2

    def holds(outer: Box) -> NDArray[np.bool_]:
        left, top, right, bottom = outer
        across = (middles[:, 0] > left) & (middles[:, 0] < right)
        inside: NDArray[np.bool_] = across & (middles[:, 1] > top) & (middles[:, 1] < bottom)
        return inside

    return bool((holds(union) & ~holds(box) & ~holds(other)).any())
