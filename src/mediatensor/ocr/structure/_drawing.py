"""Convert the words, lines, areas and pictures that a file such as a PDF draws on a page to `PageContent`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ._page import Boxes, PageContent
from ._picture import drop_rules_inside, merge_boxes
from ._picture_rules import join_lines

__all__ = ["content_of_drawing"]

# The largest gap between words of a text line, and between their base lines, in type sizes.
_MAX_WORD_GAP = 1.5
_MAX_BASELINE_STEP = 0.2
# The type size, in points, if no type size is known.
_USUAL_SIZE = 10.0
# In type sizes: the shortest rule, the smaller side of the smallest picture, and the largest gap between its parts.
_MIN_RULE = 1.0
_MIN_SIDE = 1.5
_MAX_GAP = 1.0
# Maximum number of filled rectangles that are examined, the largest first, and their number in a batch. The colour
# outside a rectangle is determined at the third value, in type sizes, from its edges.
_MAX_FILLS = 4000
_FILLS_AT_ONCE = 256
_BESIDE = 0.08
# A picture that covers a larger share of the page is a scan of the page.
_MAX_SHARE = 0.9
# A drawing with a larger share of words is a frame around text.
_MAX_TEXT = 0.12


def content_of_drawing(
    width: float,
    height: float,
    boxes: Boxes,
    texts: Sequence[str],
    *,
    font_sizes: NDArray[np.float64],
    is_bold: NDArray[np.bool_],
    origins: NDArray[np.float64],
    directions: NDArray[np.float64],
    lines: NDArray[np.float64],
    fills: NDArray[np.float64],
    areas: Boxes,
    pictures: Boxes,
    is_hidden: NDArray[np.bool_] | None = None,
) -> PageContent:
    """Convert the objects that a file draws on a page to `PageContent`.

    Coordinates may have any unit, with x to the right and y down. Words belong to the same text line if they are on the
    same base line and the gaps between them are below one and a half type sizes.

    Args:
        width, height: Size of the page.
        boxes: float64 (N, 4): xmin, ymin, xmax, ymax of each word.
        texts: The N words.
        font_sizes: float64 (N,): type size of each word; NaN where unknown.
        is_bold: bool (N,): whether each word is set in bold type.
        origins: float64 (N, 2): a point (x, y) on the base line of each word; NaN where unknown.
        directions: float64 (N, 2): a vector (x, y) along each word's base line; NaN where unknown.
        lines: float64 (M, 5): the ends of horizontal and vertical lines as xmin, ymin, xmax, ymax, then their
            thickness.
        fills: float64 (F, 5): xmin, ymin, xmax, ymax of filled rectangles, then a number that identifies the colour. An
            edge of a rectangle becomes a rule (straight line), unless the area next to the edge has the same colour.
        areas: float64 (K, 4): boxes (xmin, ymin, xmax, ymax) of curves and slanting lines.
        pictures: float64 (P, 4): boxes (xmin, ymin, xmax, ymax) of embedded pictures.
        is_hidden: bool (N,): whether each word is invisible or under a picture. By default, no word is hidden.

    Returns:
        The content, with coordinates in the same unit. Lines that overlap or continue each other are joined into one
        rule. Pictures are the embedded pictures, and drawings, which consist of neighbouring ``areas``.
    """
    known = font_sizes[np.isfinite(font_sizes) & (font_sizes > 0)]
    em = float(np.median(known)) if len(known) else _USUAL_SIZE
    limits = np.array([width, height, width, height])
    lines = np.concatenate([lines, _visible_edges(fills, _BESIDE * em)])
    is_across = lines[:, 2] - lines[:, 0] >= lines[:, 3] - lines[:, 1]
    across = join_lines(lines[is_across], em, _MIN_RULE * em)
    down = join_lines(lines[~is_across][:, [1, 0, 3, 2, 4]], em, _MIN_RULE * em)[:, [1, 0, 3, 2]]
    drawn = _pictures(boxes, areas.clip(0, limits), pictures.clip(0, limits), width * height, em)
    return PageContent(
        width=width,
        height=height,
        boxes=boxes,
        texts=tuple(texts),
        line_ids=_line_ids(boxes, font_sizes, origins, directions),
        confidences=np.ones(len(boxes)),
        font_sizes=font_sizes,
        is_bold=is_bold,
        horizontal_rules=drop_rules_inside(across, drawn, em).clip(0, limits),
        vertical_rules=drop_rules_inside(down, drawn, em).clip(0, limits),
        pictures=drawn,
        turns=_turns(directions),
        is_unread_scan=(is_hidden is None or not is_hidden.any())
        and _cover_page(pictures.clip(0, limits), width * height, em),
    )


def _cover_page(pictures: Boxes, page: float, em: float) -> bool:
    """Return whether one embedded picture, or several adjacent ones, cover a page whose area is ``page``."""
    if not (pictures[:, 2:] - pictures[:, :2]).clip(0).prod(axis=1).sum() >= _MAX_SHARE * page:
        return False
    whole = merge_boxes(pictures, 0.2 * em)
    return bool(((whole[:, 2:] - whole[:, :2]).prod(axis=1) >= _MAX_SHARE * page).any())


def _turns(directions: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the clockwise rotation of each word in degrees. Unknown ones get the most frequent rotation."""
    is_known = np.isfinite(directions[:, 0])
    x, y = np.where(is_known[:, None], directions, 0.0).T
    quarters: NDArray[np.int64] = np.round(np.arctan2(y, x) / (np.pi / 2)).astype(np.int64) % 4
    quarters[~is_known] = np.bincount(quarters[is_known], minlength=4).argmax()
    return 90 * quarters


def _visible_edges(fills: NDArray[np.float64], out: float) -> NDArray[np.float64]:
    """Return the edges of filled rectangles at which the colour changes, as lines, float64 (M, 5).

    The colour outside a rectangle is determined at the distance ``out`` from each edge.
    """
    if len(fills) > _MAX_FILLS:
        sizes = (fills[:, 2:4] - fills[:, :2]).prod(axis=1)
        fills = fills[np.sort(np.argsort(-sizes, kind="stable")[:_MAX_FILLS])]
    seen = [np.zeros((0, 5))]
    for start in range(0, len(fills), _FILLS_AT_ONCE):
        x0, y0, x1, y1, color = fills[start : start + _FILLS_AT_ONCE].T
        middle_x, middle_y = (x0 + x1) / 2, (y0 + y1) / 2
        nothing = np.zeros(len(x0))
        for edge, beside in (
            ((x0, y0, x1, y0), (middle_x, y0 - out)), ((x0, y1, x1, y1), (middle_x, y1 + out)),
            ((x0, y0, x0, y1), (x0 - out, middle_y)), ((x1, y0, x1, y1), (x1 + out, middle_y)),
        ):  # fmt: skip
            point = np.stack(beside, axis=1)[:, None]
            is_within = ((fills[None, :, :2] <= point) & (fills[None, :, 2:4] >= point)).all(axis=2)
            continues = (is_within & (fills[None, :, 4] == color[:, None])).any(axis=1)
            seen.append(np.stack([*edge, nothing], axis=1)[~continues])
    return np.concatenate(seen)


def _line_ids(
    boxes: Boxes, font_sizes: NDArray[np.float64], origins: NDArray[np.float64], directions: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the number of the text line of each word. Lines are numbered in the order of their first words."""
    if not len(boxes):
        return np.zeros(0, np.int64)
    # For vertical text, x and y are swapped.
    is_turned = np.nan_to_num(np.abs(directions[:, 1])) > np.nan_to_num(np.abs(directions[:, 0]))
    x0, x1 = (np.where(is_turned, boxes[:, 1 + side], boxes[:, side]) for side in (0, 2))
    base = np.where(is_turned, origins[:, 0], origins[:, 1])
    base = np.where(np.isfinite(base), base, np.where(is_turned, boxes[:, 2], boxes[:, 3]))
    heights = np.where(is_turned, boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1])
    sizes = np.where(np.isfinite(font_sizes) & (font_sizes > 0), font_sizes, np.maximum(heights, 1e-6))
    order = np.lexsort((base, is_turned))
    is_new = np.ones(len(order), bool)
    smaller = np.minimum(sizes[order][1:], sizes[order][:-1])
    is_new[1:] = (np.diff(base[order]) > _MAX_BASELINE_STEP * smaller) | (np.diff(is_turned[order].astype(int)) != 0)
    rows = np.empty(len(order), np.int64)
    rows[order] = np.cumsum(is_new)
    order = np.lexsort((x0, rows))
    is_new[1:] = np.diff(rows[order]) != 0
    starts = np.flatnonzero(is_new)
    ends = x1[order]
    for start, stop in zip(starts, np.append(starts[1:], len(order)), strict=True):
        ends[start:stop] = np.maximum.accumulate(ends[start:stop])
    larger = np.maximum(sizes[order][1:], sizes[order][:-1])
    is_new[1:] |= x0[order][1:] - ends[:-1] > _MAX_WORD_GAP * larger
    names = np.empty(len(order), np.int64)
    names[order] = np.cumsum(is_new)
    _, first, names = np.unique(names, return_index=True, return_inverse=True)
    ranks = np.empty(len(first), np.int64)
    ranks[np.argsort(first, kind="stable")] = np.arange(len(first))
    ids: NDArray[np.int64] = ranks[names]
    return ids


def _pictures(words: Boxes, areas: Boxes, pictures: Boxes, page: float, em: float) -> Boxes:
    """Return the boxes of all pictures: the embedded ones, and drawings, which consist of adjacent ``areas``.

    Boxes that cover the whole page, and drawings that contain much text, are left out.
    """
    kept = []
    for found, gap in ((pictures, 0.2 * em), (areas, _MAX_GAP * em)):
        sizes = found[:, 2:] - found[:, :2]
        is_part = sizes.prod(axis=1) < _MAX_SHARE * page
        whole = merge_boxes(found[is_part], gap)
        is_large = (whole[:, 2:] - whole[:, :2]).min(axis=1, initial=np.inf) >= _MIN_SIDE * em
        kept.append(whole[is_large])
    centres = (words[:, :2] + words[:, 2:]) / 2
    text = (words[:, 2:] - words[:, :2]).clip(0).prod(axis=1)
    drawings = []
    for box in kept[1]:
        is_inside = ((centres >= box[:2]) & (centres <= box[2:])).all(axis=1)
        if text[is_inside].sum() <= _MAX_TEXT * (box[2:] - box[:2]).prod():
            drawings.append(box)
    return merge_boxes(np.concatenate([kept[0], np.array(drawings).reshape(-1, 4)]), 0.0)
