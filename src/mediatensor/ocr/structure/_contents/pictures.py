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
# How much the mean of a cell differs from paper where there is ink, and everywhere in a cell that is filled, of 255.
_MIN_INK = 10
_MIN_FILL = 12
# In ems: the smaller sides of the smallest picture and of the smallest piece of one, the gap between two pieces, and
# between a piece and a rule that belongs to it.
_MIN_SIDE = 1.5
_MIN_PIECE = 0.6
_MAX_GAP = 1.5
_MAX_RULE_GAP = 0.5
# Pieces are flat, as the ground of a cell and as the bars of a chart, where this share of their cells differs by less.
_FLAT = 8
_MIN_FLAT = 0.6
# A flat area by itself is a picture where it is so dark, and so many ems wide and high.
_DARK = 150.0
_MIN_DARK_SIDE = 6.0
# Axes and frames belong to a picture where words cover no more than this share, and no more of them are added.
_MAX_TEXT = 0.12
_MAX_WORDS = 12
# How much of a picture is there without its axes and its frame.
_MIN_SHARE = 0.15
# Where words cover more, there is text on a tinted or dirty ground, and no picture.
_MAX_TEXT_OF_PICTURE = 0.2
# The most pieces that are put together; of more, those that are largest.
_MAX_PIECES = 500


def find_pictures(ink: NDArray[np.uint8], words: Boxes, rules: tuple[Boxes, Boxes], em: float) -> Boxes:
    """Boxes of pictures, float64 (N, 4).

    Pieces are areas of connected ink, without words, lines, and the ground of words. Pieces that are close together
    make a picture, with the axes and the frame around them.

    Args:
        ink: uint8 (H, W): how much each pixel differs from the paper.
        words: float64 (N, 4): boxes of words.
        rules: Boxes of rules, across and down.
        em: The height of words, in pixels.
    """
    pieces, is_flat, darkness = _pieces(ink, words, rules, em)
    found = []
    for box in merged(pieces, _MAX_GAP * em):
        own = np.all(pieces[:, :2] >= box[:2] - 1, axis=1) & np.all(pieces[:, 2:] <= box[2:] + 1, axis=1)
        if (box[2:] - box[:2]).min() < _MIN_SIDE * em:
            continue
        whole = _framed(_with_axes(box, words, rules, em), words, rules, em)
        side = float((whole[2:] - whole[:2]).min())
        is_alone = (
            is_flat[own].all() and own.sum() < 3 and np.prod(whole[2:] - whole[:2]) < 1.5 * np.prod(box[2:] - box[:2])
        )
        if is_alone and not (side >= _MIN_DARK_SIDE * em and darkness[own].max() >= _DARK):
            continue
        if _text_within(whole, words)[0] <= _MAX_TEXT_OF_PICTURE:
            found.append(whole)
    return merged(np.array(found).reshape(-1, 4), 0.0)


def _pieces(
    ink: NDArray[np.uint8], words: Boxes, rules: tuple[Boxes, Boxes], em: float
) -> tuple[Boxes, NDArray[np.bool_], NDArray[np.float64]]:
    """The pieces of pictures: their boxes, whether they are flat, and how much they differ from the paper."""
    quarters = np.asarray(Image.fromarray(ink).reduce(_CELL // 2)).astype(np.int16)
    quarters = np.pad(quarters, ((0, len(quarters) % 2), (0, quarters.shape[1] % 2)), mode="edge")
    paper = int(np.median(quarters))
    quarters = np.abs(quarters - paper)
    four = (quarters[::2, ::2], quarters[1::2, ::2], quarters[::2, 1::2], quarters[1::2, 1::2])
    cells = (four[0] + four[1] + four[2] + four[3]) // 4
    is_filled = np.minimum(np.minimum(four[0], four[1]), np.minimum(four[2], four[3])) > _MIN_FILL
    shape, scale = cells.shape, (float(_CELL), float(_CELL))
    is_word = painted(words + np.array([-3, -3, 3, 3]), shape, scale) > 0
    # Cells that a rule only touches are half covered at most, so rules are drawn a cell wider.
    lines = np.concatenate(rules) + 0.75 * _CELL * np.array([-1, -1, 1, 1])
    # Thick rules fill cells, and edges, which have no thickness, are those of what is filled.
    thickness = (lines[:, 2:] - lines[:, :2]).min(axis=1) - 1.5 * _CELL
    is_filled &= painted(lines[thickness >= 2], shape, scale) == 0
    is_ink = (cells > _MIN_INK) & (painted(lines, shape, scale) == 0) & ~is_word
    tools = image_tools()
    # The ground of words is filled between their letters as well, and must not fall to pieces.
    is_ink |= (is_filled & ~is_word) | tools.binary_opening(is_filled, np.ones((2, 4)))
    is_filled &= ~is_word
    labels, num = tools.label(is_ink, np.ones((3, 3)))
    if not num:
        return np.zeros((0, 4)), np.zeros(0, bool), np.zeros(0)
    places = tools.find_objects(labels, num)
    boxes = np.array([(x.start, y.start, x.stop, y.stop) for y, x in places], np.float64) * _CELL
    names = labels[is_ink]
    count = np.bincount(names, minlength=num + 1)[1:]
    filled = np.bincount(names, is_filled[is_ink], num + 1)[1:].astype(np.int64)
    # The share of a piece that is close to its own middle: rules on the ground of a table may join its cells.
    names, values = labels[is_filled], cells[is_filled]
    order = np.lexsort((values, names))
    starts = np.cumsum(filled) - filled
    middle = np.zeros(num + 1, np.int64)
    has_some = filled > 0
    middle[1:][has_some] = values[order][(starts + filled // 2)[has_some]]
    close = np.bincount(names, np.abs(values - middle[names]) <= _FLAT, num + 1)[1:]
    is_flat = (filled >= 0.3 * count) & (close >= _MIN_FLAT * filled)
    sides = boxes[:, 2:] - boxes[:, :2]
    is_night = (middle[1:] >= _DARK) & (sides.min(axis=1) >= _MIN_DARK_SIDE * em)
    is_piece = (sides.min(axis=1) >= max(_CELL, _MIN_PIECE * em)) & (count * _CELL**2 >= 0.5 * em * em)
    # Flat areas with words on them are the ground of cells, boxes and bands.
    chosen = np.flatnonzero(is_piece)
    chosen = chosen[np.argsort(-sides[chosen].prod(axis=1), kind="stable")[:_MAX_PIECES]]
    text = [_text_within(boxes[piece], words) for piece in chosen]
    # A large dark one with a few words is a photograph with its label.
    is_ground = [
        share > _MAX_TEXT or (is_flat[piece] and num > 0 and not is_photo)
        for piece, (share, num), is_photo in zip(chosen, text, is_night[chosen], strict=True)
    ]
    chosen = chosen[~np.array(is_ground, bool)]
    limits = np.array([ink.shape[1], ink.shape[0]] * 2)
    return boxes[chosen].clip(0, limits), is_flat[chosen], middle[1:][chosen].astype(np.float64)


def _text_within(box: NDArray[np.float64], words: Boxes) -> tuple[float, int]:
    """The share of a box that words cover, and how many there are."""
    centres = (words[:, :2] + words[:, 2:]) / 2
    is_inside = np.all((centres >= box[:2]) & (centres <= box[2:]), axis=1)
    area = float(np.prod(np.maximum(words[is_inside, 2:] - words[is_inside, :2], 0), axis=1).sum())
    return area / max(1.0, float(np.prod(box[2:] - box[:2]))), int(is_inside.sum())


def _with_axes(box: NDArray[np.float64], words: Boxes, rules: tuple[Boxes, Boxes], em: float) -> NDArray[np.float64]:
    """A picture with the rules that touch it, unless that would take in text."""
    lines = np.concatenate(rules)
    _, num_words = _text_within(box, words)
    for _ in range(3):
        grown = box + _MAX_RULE_GAP * em * np.array([-1, -1, 1, 1])
        meets = np.all(lines[:, :2] <= grown[2:], axis=1) & np.all(lines[:, 2:] >= grown[:2], axis=1)
        if not meets.any():
            break
        whole = np.array([*np.minimum(box[:2], lines[meets, :2].min(axis=0)),
                          *np.maximum(box[2:], lines[meets, 2:].max(axis=0))])  # fmt: skip
        share, count = _text_within(whole, words)
        is_small = np.prod(box[2:] - box[:2]) < _MIN_SHARE * np.prod(whole[2:] - whole[:2])
        if is_small or (whole == box).all() or share > _MAX_TEXT or count - num_words > _MAX_WORDS:
            break
        box = whole
    return box


def _framed(box: NDArray[np.float64], words: Boxes, rules: tuple[Boxes, Boxes], em: float) -> NDArray[np.float64]:
    """A picture with the frame of four rules around it, if there is one."""
    across, down = rules
    near = _MAX_RULE_GAP * em
    is_wide = (across[:, 0] <= box[0] + near) & (across[:, 2] >= box[2] - near)
    is_high = (down[:, 1] <= box[1] + near) & (down[:, 3] >= box[3] - near)
    above = across[is_wide & (across[:, 1] <= box[1] + near)]
    below = across[is_wide & (across[:, 3] >= box[3] - near)]
    before = down[is_high & (down[:, 0] <= box[0] + near)]
    after = down[is_high & (down[:, 2] >= box[2] - near)]
    if not min(map(len, (above, below, before, after))):
        return box
    top, bottom = above[above[:, 1].argmax()], below[below[:, 3].argmin()]
    left, right = before[before[:, 0].argmax()], after[after[:, 2].argmin()]
    frame = np.array([left[0], top[1], right[2], bottom[3]])
    ends = np.array([top[0], bottom[0], top[2], bottom[2], left[1], right[1], left[3], right[3]])
    is_closed = np.abs(ends - np.repeat(frame[[0, 2, 1, 3]], 2)).max() <= em
    is_full = np.prod(box[2:] - box[:2]) >= _MIN_SHARE * np.prod(frame[2:] - frame[:2])
    share, _ = _text_within(frame, words)
    return frame if is_closed and is_full and share <= _MAX_TEXT else box


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
