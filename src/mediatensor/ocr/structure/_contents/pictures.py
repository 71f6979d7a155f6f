"""Pictures on a page that is a picture: what is neither words, nor rules, nor paper."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .._content import Boxes
from .rules import image_tools, painted

__all__ = ["find_pictures", "merged", "outside"]

# Pixels of a cell of the grid that ink is looked at in.
_CELL = 8
# How much the mean of a cell differs from paper where there is ink, of 255.
_MIN_INK = 10
# In ems: the smaller side of the smallest picture, and the gap between two parts of one.
_MIN_SIDE = 1.5
_MAX_GAP = 1.0
# Areas whose cells differ by less are flat, as the fill of a cell of a table.
_FLAT = 8.0
# Flat areas are pictures all the same where they are so dark, and so many ems wide and high.
_DARK = 150.0
_MIN_DARK_SIDE = 6.0


def find_pictures(ink: NDArray[np.uint8], words: Boxes, rules: tuple[Boxes, Boxes], em: float) -> Boxes:
    """Boxes of pictures, float64 (N, 4).

    Args:
        ink: uint8 (H, W): how much each pixel differs from the paper.
        words: float64 (N, 4): boxes of words.
        rules: Boxes of rules, across and down.
        em: The height of words, in pixels.
    """
    cells = np.asarray(Image.fromarray(ink).reduce(_CELL)).astype(np.int16)
    shape, scale = cells.shape, (float(_CELL), float(_CELL))
    paper = float(np.median(cells))
    is_word = painted(words + np.array([-3, -3, 3, 3]), shape, scale) > 0
    lines = np.concatenate(rules)
    # Cells that a rule only touches are half covered at most, so rules are drawn a cell wider.
    is_rule = painted(lines + 0.75 * _CELL * np.array([-1, -1, 1, 1]), shape, scale) > 0
    is_ink = (np.abs(cells - paper) > _MIN_INK) & ~is_word & ~is_rule
    tools = image_tools()
    reach = max(1, round(_MAX_GAP * em / _CELL / 2))
    grown = tools.binary_dilation(is_ink, np.ones((3, 3)), reach)
    labels, num = tools.label(grown, np.ones((3, 3)))
    labels = np.where(is_ink, labels, 0)
    found = []
    for name, place in enumerate(tools.find_objects(labels, num), 1):
        if place is None:
            continue
        rows, columns = place
        own = labels[place] == name
        values = cells[place][own]
        side = min(rows.stop - rows.start, columns.stop - columns.start) * _CELL
        if side < _MIN_SIDE * em or own.sum() * _CELL**2 < em * em:
            continue
        # Large and dark is a photograph of the night, or of what a microscope shows.
        is_dark = side >= _MIN_DARK_SIDE * em and float(values.mean()) >= _DARK
        if float(values.std()) < _FLAT and not is_dark:
            continue
        found.append((columns.start, rows.start, columns.stop, rows.stop))
    boxes = np.array(found, np.float64).reshape(-1, 4) * _CELL
    return merged(boxes.clip(0, [ink.shape[1], ink.shape[0]] * 2), _MAX_GAP * em)


def outside(rules: Boxes, pictures: Boxes, em: float) -> Boxes:
    """The rules that do not lie within a picture."""
    if not len(rules) or not len(pictures):
        return rules
    grown = pictures + em / 3 * np.array([-1, -1, 1, 1])
    low = np.all(rules[:, None, :2] >= grown[None, :, :2], axis=2)
    high = np.all(rules[:, None, 2:] <= grown[None, :, 2:], axis=2)
    is_within = np.any(low & high, axis=1)
    kept: Boxes = rules[~is_within]
    return kept


def merged(boxes: Boxes, gap: float) -> Boxes:
    """Boxes around those that overlap, or are not further apart than ``gap``."""
    boxes = boxes.copy()
    while len(boxes) > 1:
        grown = boxes + gap / 2 * np.array([-1, -1, 1, 1])
        low = np.maximum(grown[:, None, :2], grown[None, :, :2])
        high = np.minimum(grown[:, None, 2:], grown[None, :, 2:])
        meets = np.all(high > low, axis=2)
        first = np.argmax(meets, axis=1)
        if (first == np.arange(len(boxes))).all():
            break
        into = np.unique(first)
        merged = []
        for name in into:
            group = boxes[first == name]
            merged.append((*group[:, :2].min(axis=0), *group[:, 2:].max(axis=0)))
        boxes = np.array(merged)
    return boxes
