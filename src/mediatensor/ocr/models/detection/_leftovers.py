"""Improve the lines that a detector found: find missed text and colons, and process long strips.

On a full page, a detector gives lower scores to text than in a crop. Therefore it sometimes misses the middle or the
first letters of a long line, or a whole line of small letters, although it finds them in a crop around the line.
Running the same detector again on such crops finds the missed text:

* after the first detection, the ink outside all boxes is grouped into connected pieces, and pieces that look like
  letters are selected (`letters_of`);
* letters that are near each other, or near a box, define windows of the page (`windows_around`), and the detector runs
  again on these windows;
* if a box that it finds there contains leftover letters, the box is merged with the existing boxes of the same line, or
  added if there are none (`add_found_boxes`).

A page without leftover letters needs no second run. Photos, ruled lines or specks are sometimes mistaken for letters,
and then the second run finds nothing.

Detectors also miss colons that are separated from their word, as on receipts: ``Discount  :  0.00``. Therefore a box is
extended if there are two dots near its start or end (`extend_to_colons`). One dot must be above the other, both within
the height of the letters. They must have the same size, and no other ink around them. The recogniser then decides
whether they are a colon.

Long strips are searched in overlapping tiles (`join_tiles`), and lines too long for the recogniser are cut
(`cut_long_lines`). Coordinates are pixels of the detector's input; for strips, they are pixels of the page.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import PIL.Image
import PIL.ImageDraw
from numpy.typing import NDArray

from ...utils._page_images import image_tools
from ...utils.geometry import boxes_around
from .._lines.ink import InkPieces, find_colons, page_ink

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SMALLEST_LETTER, LARGEST_LETTER = 5, 60
"""Range of letter heights in pixels."""
MAX_LETTER_WIDTH = 8.0
"""Greatest ratio of width to height of touching letters; wider pieces are rules."""
WIDEST_DASH, DASH_FILL = 1.4, 0.75
"""Pieces are dashes if they are wider than the first ratio of width to height, and fill more than the second share of
their box.
"""
FEWEST_DASHES, DASH_WIDTH, DASH_SPREAD, DASH_SHARE = 6, 1.3, 0.35, 0.7
"""Criteria for a dashed rule: least number of pieces, least ratio of the median width to the median height, greatest
deviation from the median width, and least share of pieces within this deviation and at one height.
"""
FEWEST_ALIKE, ALIKE_SHARE = 60, 0.97
"""At least this many pieces are a pattern if this share of them has the same size within a pixel; letters vary more."""
LEAST_FILL, MOST_FILL = 0.12, 0.92
"""Range of the share of its bounding box that a letter fills: frames fill less, bars more."""
GROWN_ALONG = 0.1
"""Boxes are lengthened at both ends by this share of their height, because letters may extend beyond."""
MOST_COVERED = 0.5
"""A piece of ink belongs to boxes that cover at least this share of it. The share is not smaller, because boxes of
large lines may overlap small lines between them.
"""
REACH, REACH_SIDEWAYS = 1.0, 3.0
"""Greatest vertical and horizontal distance of letters in one group, in letter heights. The horizontal limit is
larger because some letters of a line may be too faint to detect.
"""
MOST_LETTERS = 4000
"""Pages with more pieces are not searched again, because the pieces are photos or noise."""
WINDOW_MARGIN = 1.5
"""Margin of a window around its letters, in letter heights; the horizontal margin is twice as large."""
WANTED_HEIGHT = 14.0
"""Windows are enlarged until letters have this height in pixels."""
LEAST_ENLARGED, MOST_ENLARGED = 0.7, 2.0
"""Limits of the enlargement of windows, which is reduced if their area would exceed `MOST_AREA`."""
LEAST_RANGE = 16.0
"""Least difference between ink and background in a window, in grey levels."""
MOST_AREA = 1.0
"""Limit on the total area of a page's windows after enlargement, as a share of the page's pixels."""
FEWEST_LETTERS = 3
"""Least number of letters for a new line; fewer letters must be near a box or be merged with one."""
SURE_SCORE = 0.7
"""Least score of a line that contains no box of the first detection."""
LEAST_FILLED = 0.3
"""Least height of letters relative to their box."""
MOST_FATTER = 1.4
"""Greatest ratio of a merged box's height to the height of the taller of the two boxes."""
FEWEST_SCREEN, SCREEN_SHARE, SCREEN_SCORE, SCREEN_SHAPE = 1000, 0.9, 0.7, 1.5
"""Boxes are dots of a halftone screen if there are at least this many, this share of them is nearly square (ratio of
sides at most the fourth number), and half of their scores are below the third number. Single letters have better
scores.
"""
SAME_LINE = 0.5
"""Boxes are on one line if they overlap vertically by this share of the lower height."""
COLON_CLEAR = 0.12
"""Margin around the dots of a colon that must contain no other ink, in box heights."""
COLON_MARGIN = 0.2
"""Margin of the extended box after the dots, in box heights."""
LONGEST_LINE = 70.0
"""Lines longer than this many line heights (about 160 characters) are cut, because a recogniser would compress them."""
CUT_REACH, GAP_WIDTH = 4.0, 0.2
"""Greatest distance of a cut from the place that divides the line equally, and width of a gap to cut at, in line
heights.
"""


@dataclass(frozen=True)
class Window:
    """A part of a page on which the detector runs again."""

    left: int
    top: int
    right: int  # one past the last pixel, as is ``bottom``
    bottom: int
    scale: float  # the factor by which the window is enlarged for the detector
    dark: float = 0.0  # the grey levels, from 0 to 255, that become black and white in the detector's input
    light: float = 255.0

    @property
    def cost(self) -> float:
        """The number of pixels that the detector processes for this window."""
        return (self.right - self.left) * (self.bottom - self.top) * self.scale**2


def ink_left_over(gray: NDArray[np.uint8], quads: FloatArray) -> InkPieces:
    """Find the ink of a page ``gray`` (H, W) outside all ``quads`` (N, 4, 2), in pixels, without small specks."""
    pieces = InkPieces.of(page_ink(gray)[0])
    covered = np.bincount(pieces.labels[_cover_map(quads, gray.shape)], minlength=len(pieces.areas) + 1)[1:]
    return pieces.select((pieces.areas >= SMALLEST_LETTER) & (covered < MOST_COVERED * pieces.areas))


def letters_of(pieces: InkPieces) -> IntArray:
    """Return the bounds of pieces like letters, int64 (N, 4); none if there are so many that they are likely noise."""
    width, height = (pieces.bounds[:, 2:] - pieces.bounds[:, :2]).T
    is_letter = (height >= SMALLEST_LETTER) & (height <= LARGEST_LETTER)
    is_letter &= width <= np.where(pieces.fill > DASH_FILL, WIDEST_DASH, MAX_LETTER_WIDTH) * height
    is_letter &= (width >= 2) & (pieces.fill >= LEAST_FILL) & ((pieces.fill <= MOST_FILL) | (width * 2 < height))
    return pieces.bounds[is_letter] if is_letter.sum() <= MOST_LETTERS else pieces.bounds[:0]


def _cover_map(quads: FloatArray, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    canvas = PIL.Image.new("L", (shape[1], shape[0]))
    draw = PIL.ImageDraw.Draw(canvas)
    for quad in quads:
        along, across = _axes_of(quad)
        low = min(np.ptp(quad @ along), np.ptp(quad @ across))
        middle = quad.mean(axis=0)
        grown = quad + GROWN_ALONG * low * np.sign((quad - middle) @ along)[:, None] * along
        draw.polygon([tuple(corner) for corner in grown.tolist()], fill=1)
    return np.asarray(canvas, dtype=bool)


def _axes_of(quad: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return two unit vectors: along the longer side of a quad, and perpendicular to it."""
    top, side = quad[1] - quad[0], quad[3] - quad[0]
    longer = top if np.hypot(*top) >= np.hypot(*side) else side
    along = longer / max(float(np.hypot(*longer)), 1e-9)
    return along, np.array([-along[1], along[0]])


def windows_around(letters: IntArray, quads: FloatArray, gray: NDArray[np.uint8]) -> list[Window]:
    """Return windows of the page ``gray`` around groups of leftover letters, starting with the largest groups.

    ``letters`` are the bounding boxes of the letters, and ``quads`` the boxes of the first detection. Dashed lines and
    patterns are ignored. Groups of one or two letters are ignored unless a box is next to them. Windows with a large
    overlap are merged. The total area of all windows is limited.
    """
    if not len(letters):
        return []
    ndimage, shape = image_tools(), gray.shape
    # A quarter of the resolution is enough to group letters.
    small = np.zeros((shape[0] // 4 + 2, shape[1] // 4 + 2), dtype=bool)
    heights = (letters[:, 3] - letters[:, 1]).astype(np.float64)
    reach = heights[:, None] * (REACH_SIDEWAYS / 2, REACH / 2)
    low = np.maximum((letters[:, :2] - reach) / 4, 0).astype(np.int64)
    high = np.ceil((letters[:, 2:] + reach) / 4).astype(np.int64) + 1
    for (x0, y0), (x1, y1) in zip(low.tolist(), high.tolist(), strict=True):
        small[y0:y1, x0:x1] = True
    labels, count = ndimage.label(small)
    middles = (letters[:, :2] + letters[:, 2:]) // 8
    of = labels[middles[:, 1], middles[:, 0]] - 1
    found: list[tuple[int, Window]] = []
    boxes = boxes_around(quads)
    for group in range(count):
        own = letters[of == group]
        if not len(own):
            continue
        height = float(np.median(own[:, 3] - own[:, 1]))
        x0, y0 = own[:, :2].min(axis=0)
        x1, y1 = own[:, 2:].max(axis=0)
        if _is_dashed(own) or _is_pattern(own):
            continue
        if _count_letters(own) < FEWEST_LETTERS and not _is_beside(np.array([x0, y0, x1, y1], dtype=np.float64), boxes):
            continue
        margin = max(WINDOW_MARGIN * height, 12.0)
        window = Window(
            max(int(x0 - 2 * margin), 0),
            max(int(y0 - margin), 0),
            min(int(np.ceil(x1 + 2 * margin)), shape[1]),
            min(int(np.ceil(y1 + margin)), shape[0]),
            float(min(max(WANTED_HEIGHT / height, 1.0), MOST_ENLARGED)),
            *_measure_levels(gray, own),
        )
        found.append((len(own), window))
    found.sort(key=lambda pair: -pair[0])
    chosen, budget = [], MOST_AREA * shape[0] * shape[1]
    for _, window in _merge_windows(found):
        # A large window is enlarged less rather than dropped.
        affordable = window.scale * float(np.sqrt(max(budget, 0.0) / window.cost))
        fitting = replace(window, scale=min(window.scale, affordable))
        if fitting.scale >= LEAST_ENLARGED:
            chosen.append(fitting)
            budget -= fitting.cost
    return chosen


def _measure_levels(gray: NDArray[np.uint8], letters: IntArray) -> tuple[float, float]:
    """Return the grey levels of the letters and of their background, the darker level first."""
    some = letters[:: -(-len(letters) // 200)].tolist()
    levels = np.concatenate([gray[y0:y1, x0:x1].ravel() for x0, y0, x1, y1 in some])
    dark, light = np.quantile(levels, [0.05, 0.95])
    middle, half = (dark + light) / 2, max((light - dark) / 2, LEAST_RANGE / 2)
    return float(middle - half), float(middle + half)


def _count_letters(letters: IntArray) -> int:
    """Estimate the number of letters in pieces of ink. Letters that touch form one wide piece."""
    widths, heights = (letters[:, 2:] - letters[:, :2]).T
    return int(np.maximum(widths // np.maximum(heights, 1), 1).sum())


def _is_dashed(pieces: IntArray) -> bool:
    """Return whether pieces of ink are the dashes of a dashed line: wide, of equal width, and at the same height."""
    left, top, right, bottom = pieces.T
    width, height = np.median(right - left), np.median(bottom - top)
    shift = np.maximum(np.abs(top - np.median(top)), np.abs(bottom - np.median(bottom)))
    same = (shift <= max(0.25 * height, 1)) & (np.abs(right - left - width) <= DASH_SPREAD * width)
    return bool(len(pieces) >= FEWEST_DASHES and width >= DASH_WIDTH * height and same.mean() >= DASH_SHARE)


def _is_pattern(pieces: IntArray) -> bool:
    """Return whether pieces of ink form a pattern, such as a halftone screen: many pieces of nearly the same size."""
    sizes = pieces[:, 2:] - pieces[:, :2]
    same = (np.abs(sizes - np.median(sizes, axis=0)) <= 1).all(axis=1)
    return bool(len(pieces) >= FEWEST_ALIKE and same.mean() >= ALIKE_SHARE)


def _is_beside(letter: FloatArray, boxes: FloatArray) -> bool:
    """Return whether ``letter`` continues the line of one of ``boxes``: of similar height, at most one height away."""
    height = boxes[:, 3] - boxes[:, 1]
    common = np.minimum(boxes[:, 3], letter[3]) - np.maximum(boxes[:, 1], letter[1])
    gap = np.maximum(boxes[:, 0] - letter[2], letter[0] - boxes[:, 2])
    own = letter[3] - letter[1]
    fits = (own >= LEAST_FILLED * height) & (own <= 1.2 * height)
    return bool((fits & (common >= 0.8 * own) & (gap <= height)).any())


def _merge_windows(found: list[tuple[int, Window]]) -> list[tuple[int, Window]]:
    """Merge windows if this increases their total cost by at most 10 %. Items are (number of letters, window)."""
    result: list[tuple[int, Window]] = []
    for number, window in found:
        merged, total = window, number
        position = 0
        while position < len(result):
            count, other = result[position]
            both = Window(
                min(merged.left, other.left),
                min(merged.top, other.top),
                max(merged.right, other.right),
                max(merged.bottom, other.bottom),
                max(merged.scale, other.scale),
                *((merged.dark, merged.light) if number > count else (other.dark, other.light)),
            )
            if both.cost <= 1.1 * (merged.cost + other.cost):
                merged, total = both, total + count
                result.pop(position)
                position = 0
            else:
                position += 1
        result.append((total, merged))
    result.sort(key=lambda pair: -pair[0])
    return result


def remove_screens(boxes: FloatArray) -> FloatArray:
    """Remove the boxes (N, 5, 2) of dots in halftone screens, which the first detection mistook for text."""
    if len(boxes) < FEWEST_SCREEN:
        return boxes
    sides = np.hypot(*(boxes[:, 1:4:2] - boxes[:, :1]).transpose(2, 0, 1))
    is_dot = sides.max(axis=1) <= SCREEN_SHAPE * sides.min(axis=1)
    if is_dot.mean() < SCREEN_SHARE or np.median(boxes[is_dot, 4, 1]) >= SCREEN_SCORE:
        return boxes
    kept: FloatArray = boxes[~is_dot]
    return kept


def add_found_boxes(boxes: FloatArray, found: FloatArray, letters: IntArray) -> FloatArray:
    """Add the boxes ``found`` by a second detection to ``boxes``. Both are (N, 5, 2): four corners, then (0, score).

    A new box is ignored if it contains none of the leftover ``letters``. Otherwise it is merged with the boxes of the
    same line that it overlaps. If it overlaps none, it is added if it contains several letters and has a high score.
    """
    middles = (letters[:, :2] + letters[:, 2:]) / 2
    result = list(boxes)
    for box in found:
        quad = box[:4]
        along, across = quad[1] - quad[0], quad[3] - quad[0]
        x = (middles - quad[0]) @ along / max(float(along @ along), 1e-9)
        y = (middles - quad[0]) @ across / max(float(across @ across), 1e-9)
        inside = (x > 0) & (x < 1) & (y > 0) & (y < 1)
        low = min(np.hypot(*along), np.hypot(*across))
        sizes = letters[inside, 3] - letters[inside, 1]
        if not inside.any() or np.median(sizes) < LEAST_FILLED * low:
            continue
        own, kept = box, []
        for other in result:
            both = join_boxes(own, other)
            if both is None:
                kept.append(other)
            else:
                own = both
        if len(kept) < len(result) or (_count_letters(letters[inside]) >= FEWEST_LETTERS and box[4, 1] >= SURE_SCORE):
            result = [*kept, own]
    if not result:
        return boxes
    joined_boxes = np.stack(result)
    return joined_boxes[np.argsort(joined_boxes[:, :4, 1].min(axis=1), kind="stable")]


def join_boxes(box: FloatArray, other: FloatArray) -> FloatArray | None:
    """Merge two overlapping boxes of one line, in the direction of the longer one. Return ``None`` for others."""
    longer = box if _length(box) >= _length(other) else other
    along, across = _axes_of(longer[:4])
    spans = [(quad[:4] @ along, quad[:4] @ across) for quad in (box, other)]
    (a0, a1), (b0, b1) = [(float(x.min()), float(x.max())) for x, _ in spans]
    (c0, c1), (d0, d1) = [(float(y.min()), float(y.max())) for _, y in spans]
    low, high = min(c1 - c0, d1 - d0), max(c1 - c0, d1 - d0)
    if min(a1, b1) - max(a0, b0) <= 0 or min(c1, d1) - max(c0, d0) < SAME_LINE * low or high > 2.2 * low:
        return None
    x0, x1, y0, y1 = min(a0, b0), max(a1, b1), min(c0, d0), max(c1, d1)
    if y1 - y0 > MOST_FATTER * high:
        return None
    corners = np.array([along * x + across * y for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))])
    corners = np.roll(corners, -int(corners.sum(axis=1).argmin()), axis=0)
    score = max(float(box[4, 1]), float(other[4, 1]))
    return np.concatenate([corners, [[0.0, score]]])


def _length(box: FloatArray) -> float:
    return float(max(np.hypot(*(box[1] - box[0])), np.hypot(*(box[3] - box[0]))))


def extend_to_colons(boxes: FloatArray, ink: InkPieces) -> FloatArray:
    """Extend boxes (N, 5, 2) that have a colon next to them, so that they include it."""
    result = boxes.copy()
    for colon in sorted(find_colons(boxes[:, :4], ink, COLON_CLEAR), key=lambda colon: colon.gap):
        # If a box was extended several times, the last extension is the longest.
        box = boxes[colon.line]
        side = box[1] - box[0]
        height = np.hypot(*(box[3] - box[0]))
        along = side / np.hypot(*side) * (colon.gap + COLON_MARGIN * height)
        if colon.gap and colon.start > 0:
            result[colon.line, 1:3] = box[1:3] + along
        elif colon.gap:
            result[colon.line, [0, 3]] = box[[0, 3]] - along
    return result


def join_tiles(parts: Sequence[FloatArray], tiles: Sequence[tuple[int, int]], axis: int) -> FloatArray:
    """Join the boxes of a long page that was searched in overlapping tiles.

    ``parts`` are the boxes (N, 5, 2) found in each tile. ``tiles`` are the start and stop of each tile along ``axis``,
    which is 0 for x and 1 for y. Boxes and tiles are in pixels of the whole page. In the overlap of two tiles, a box is
    taken from the tile in which it is farther from the edge. If a line crosses the middle of the overlap, each tile
    contains a part of it, and the two parts are merged into one box.
    """
    result: list[FloatArray] = []
    meeting = -np.inf
    for number, part in enumerate(parts):
        next_meeting = (tiles[number][1] + tiles[number + 1][0]) / 2 if number + 1 < len(tiles) else np.inf
        for box in part:
            low, high = box[:4, axis].min(), box[:4, axis].max()
            if high <= meeting or low >= next_meeting:
                continue
            own, kept = box, []
            for other in result if low < meeting else ():
                both = join_boxes(own, other) if other[:4, axis].max() > low else None
                if both is None:
                    kept.append(other)
                else:
                    own = both
            result = [*(kept if low < meeting else result), own]
        meeting = next_meeting
    return np.stack(result) if result else np.zeros((0, 5, 2))


def cut_long_lines(gray: NDArray[np.uint8], boxes: FloatArray, axis: int) -> FloatArray:
    """Cut boxes (N, 5, 2), in pixels of ``gray``, that are too long to be read, at gaps along ``axis`` (0: x, 1: y)."""
    result: list[FloatArray] = []
    for box in boxes:
        low, high = box[:4].min(axis=0), box[:4].max(axis=0)
        length, height = (high - low)[axis], max((high - low)[1 - axis], 1.0)
        number = int(np.ceil(length / (LONGEST_LINE * height)))
        if number < 2:
            result.append(box)
            continue
        (x0, y0), (x1, y1) = np.maximum(low, 0).astype(int), np.ceil(high).astype(int)
        part = gray[y0:y1, x0:x1]
        # The range of grey levels in a column measures its ink for dark text and for light text.
        ink = np.ptp(part.astype(np.int16), axis=axis)
        width = max(round(GAP_WIDTH * height), 1)
        of_gaps = np.convolve(ink, np.ones(width) / width, mode="same")
        reach, shares = CUT_REACH * height, [0.0]
        for cut in range(1, number):
            first = max(int(cut * len(ink) / number - reach), 0)
            nearby = of_gaps[first : int(cut * len(ink) / number + reach) + 1]
            shares.append((first + int(nearby.argmin()) + 0.5) / len(ink))
        shares.append(1.0)
        begin, end = (box[[0, 3]], box[[1, 2]]) if axis == 0 else (box[[0, 1]], box[[3, 2]])
        for left, right in itertools.pairwise(shares):
            a, b = begin + left * (end - begin), begin + right * (end - begin)
            corners = [a[0], b[0], b[1], a[1]] if axis == 0 else [a[0], a[1], b[1], b[0]]
            result.append(np.stack([*corners, box[4]]))
    return np.stack(result) if result else boxes
