"""A second look at a page: the letters that no box covers, where to look again, and what to make of what is found.

A detector sees the whole page at once, and what it sees elsewhere weakens its answer here: the middle of a long line,
the first letters of one, or a whole line of small letters may stay below its threshold. The same line in a picture of
its own is found without fail. So after the first look

* ink that no box covers is grouped into pieces, and letters told from others (:func:`ink_left_over`);
* letters that stand together, or beside a box, become windows of the page (:func:`windows_around`), which go through
  the network again, each by itself;
* boxes found there that hold such letters join those of their line, or become lines (:func:`with_found`).

A page without letters left over costs no second run of the network. What is no text, such as pictures, rules and
specks, may be looked at again, and the network refuses it as it did before.

Everything here is in pixels of the detector's input. Nothing knows a network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import PIL.Image
import PIL.ImageDraw
from numpy.typing import NDArray

from .boxes import image_tools

__all__ = ["InkLeftOver", "Window", "ink_left_over", "joined", "windows_around", "with_found", "without_screens"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BLOCK = 32
"""The background is the median of squares of so many pixels, and of their neighbours."""
LEAST_CONTRAST = 20.0
"""Levels of 256 by which ink differs from the background, at least..."""
NOISE_FACTOR = 3.5
"""...or so many times the median deviation of the page, which grain has everywhere."""
SMALLEST_LETTER, LARGEST_LETTER = 5, 60
"""Heights of letters, in pixels."""
WIDEST = 8.0
"""Letters that touch are a piece this many times as wide as high at most; what is wider is a rule."""
WIDEST_DASH, DASH_FILL = 1.4, 0.75
"""What is wider than this, in its height, and filled by more than this share is a dash."""
FEWEST_DASHES, DASH_WIDTH, DASH_SPREAD, DASH_SHARE = 6, 1.3, 0.35, 0.7
"""So many pieces may be dashes of a rule. They are so wide, in their heights, and differ from their usual width by this
share of it; at least this share of them does."""
FEWEST_ALIKE, ALIKE_SHARE = 60, 0.97
"""From so many pieces on, those of one size, to the pixel, are a pattern if at least this share is: letters differ."""
LEAST_FILL, MOST_FILL = 0.12, 0.92
"""The share of its box that a letter fills: frames fill less, bars more."""
GROWN_ALONG, GROWN_ACROSS = 0.1, 0.0
"""Boxes cover a little more than themselves, in their heights: letters reach out of them."""
MOST_COVERED = 0.5
"""The share of a letter from which on a box covers it. Boxes of large lines reach into small ones between them."""
REACH, REACH_SIDEWAYS = 1.0, 3.0
"""Letters no farther apart than this, in their heights, stand together: up and down, and sideways, where some of a
line may be too faint."""
MOST_LETTERS = 4000
"""More pieces than this are not looked at: that is a picture or noise, and the largest would be as good as any."""
MARGIN = 1.5
"""What a window shows around its letters, in their heights; sideways twice as much."""
WANTED_HEIGHT = 14.0
"""Letters that are lower are looked at enlarged..."""
LEAST_ENLARGED, MOST_ENLARGED = 0.7, 2.0
"""...up to so many times, and less where there are too many."""
LEAST_RANGE = 16.0
"""Levels that ink and background differ by, at least, in a window."""
MOST_AREA = 1.0
"""The windows of a page together have at most this share of its pixels, enlarged ones counted as they are seen."""
FEWEST_LETTERS = 3
"""So many letters without a box are a line; fewer must be beside a box, or join one."""
SURE = 0.7
"""A line that no box of the first look is part of is taken with this score, or a better one."""
LEAST_FILLED = 0.3
"""Letters are at least so high, in heights of their box."""
MOST_FATTER = 1.4
"""A box that goes around others is at most this many times as high as the highest of them."""
FEWEST_SCREEN, SCREEN_SHARE, SCREEN_SCORE, SCREEN_SHAPE = 1000, 0.9, 0.7, 1.5
"""So many boxes are a screen of dots if at least this share is no longer than so many times its height, with half of
the scores below this one. Lone letters have better scores."""
SAME_LINE = 0.5
"""Boxes whose extents across the line overlap by this share of the lower one's are of one line."""


@dataclass(frozen=True)
class Window:
    """A part of the page to look at again.

    Attributes:
        left, top, right, bottom: In pixels; right and bottom are behind the last.
        scale: How much it is to be enlarged.
        dark, light: The levels of 256 between which its letters are. They are shown with full contrast.
    """

    left: int
    top: int
    right: int
    bottom: int
    scale: float
    dark: float = 0.0
    light: float = 255.0

    @property
    def cost(self) -> float:
        """Pixels that the network sees."""
        return (self.right - self.left) * (self.bottom - self.top) * self.scale**2


@dataclass(frozen=True)
class InkLeftOver:
    """The pieces of ink that no box covers.

    Attributes:
        bounds: Left, top, right, bottom of each, the last two exclusive, int64 (M, 4).
        fill: The share of its bounds that each fills, (M,).
        pixels: Where they are on the page, bool (H, W).
    """

    bounds: IntArray
    fill: FloatArray
    pixels: NDArray[np.bool_]

    @property
    def letters(self) -> IntArray:
        """The bounds of the pieces of the size and the shape of letters; none where there are too many."""
        width, height = (self.bounds[:, 2:] - self.bounds[:, :2]).T
        is_letter = (height >= SMALLEST_LETTER) & (height <= LARGEST_LETTER)
        is_letter &= width <= np.where(self.fill > DASH_FILL, WIDEST_DASH, WIDEST) * height
        is_letter &= (width >= 2) & (self.fill >= LEAST_FILL) & ((self.fill <= MOST_FILL) | (width * 2 < height))
        return self.bounds[is_letter] if is_letter.sum() <= MOST_LETTERS else self.bounds[:0]


def ink_left_over(gray: NDArray[np.uint8], quads: FloatArray) -> InkLeftOver:
    """Find the ink that no box covers.

    Args:
        gray: The page, (H, W), dark on light, light on dark, or both.
        quads: Boxes (N, 4, 2), in pixels.

    Returns:
        Its pieces, without the smallest specks.

    Raises:
        MissingDependencyError: if SciPy is not installed.
    """
    ndimage = image_tools()
    left_over = np.zeros(gray.shape, dtype=bool)
    nothing = InkLeftOver(np.zeros((0, 4), dtype=np.int64), np.zeros(0), left_over)
    contrast = _contrast(gray)
    noise = float(np.median(contrast[::3, ::3]))
    ink = contrast >= max(LEAST_CONTRAST, NOISE_FACTOR * noise)
    covered = _covered(quads, gray.shape)
    if not (ink & ~covered).any():
        return nothing
    labels, count = ndimage.label(ink, structure=np.ones((3, 3), dtype=np.int8))
    rows, columns = np.nonzero(ink)
    of = labels[rows, columns] - 1
    pixels = np.bincount(of, minlength=count)
    large = (pixels >= SMALLEST_LETTER) & (np.bincount(of, covered[rows, columns], count) < MOST_COVERED * pixels)
    kept = large[of]
    of, rows, columns = (np.cumsum(large) - 1)[of[kept]], rows[kept], columns[kept]
    pixels = pixels[large]
    if not len(pixels):
        return nothing
    left_over[rows, columns] = True
    order = np.argsort(of, kind="stable")
    starts = np.flatnonzero(np.diff(of[order], prepend=-1))
    top, bottom = np.minimum.reduceat(rows[order], starts), np.maximum.reduceat(rows[order], starts) + 1
    left, right = np.minimum.reduceat(columns[order], starts), np.maximum.reduceat(columns[order], starts) + 1
    bounds = np.stack([left, top, right, bottom], axis=1)
    return InkLeftOver(bounds, pixels / ((bottom - top) * (right - left)), left_over)


def _contrast(gray: NDArray[np.uint8]) -> NDArray[np.int16]:
    """How far each pixel is from the background around it."""
    ndimage = image_tools()
    height, width = gray.shape
    rows, columns = -(-height // BLOCK), -(-width // BLOCK)
    # Every second pixel is enough for a median.
    padded = np.pad(gray, ((0, rows * BLOCK - height), (0, columns * BLOCK - width)), mode="edge")[::2, ::2]
    half = BLOCK // 2
    blocks = padded.reshape(rows, half, columns, half).transpose(0, 2, 1, 3).reshape(rows, columns, -1)
    middle = half * half // 2
    levels = ndimage.median_filter(np.partition(blocks, middle, axis=2)[:, :, middle], 3, mode="nearest")
    background = levels.repeat(BLOCK, axis=0)[:height].repeat(BLOCK, axis=1)[:, :width]
    contrast: NDArray[np.int16] = np.abs(gray.astype(np.int16) - background)
    return contrast


def _covered(quads: FloatArray, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Where boxes are, bool (H, W)."""
    canvas = PIL.Image.new("L", (shape[1], shape[0]))
    draw = PIL.ImageDraw.Draw(canvas)
    for quad in quads:
        along, across = _frame(quad)
        low = min(np.ptp(quad @ along), np.ptp(quad @ across))
        middle = quad.mean(axis=0)
        signs = np.sign(np.stack([(quad - middle) @ along, (quad - middle) @ across], axis=1))
        grown = quad + low * (signs[:, :1] * GROWN_ALONG * along + signs[:, 1:] * GROWN_ACROSS * across)
        draw.polygon([tuple(corner) for corner in grown.tolist()], fill=1)
    return np.asarray(canvas, dtype=bool)


def _frame(quad: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Unit vectors along the longer side of a quad, and across it."""
    top, side = quad[1] - quad[0], quad[3] - quad[0]
    longer = top if np.hypot(*top) >= np.hypot(*side) else side
    along = longer / max(float(np.hypot(*longer)), 1e-9)
    return along, np.array([-along[1], along[0]])


def windows_around(letters: IntArray, quads: FloatArray, gray: NDArray[np.uint8]) -> list[Window]:
    """Parts of the page that hold letters left over, with what is beside them.

    Letters that stand alone are left out, unless a box is beside them.

    Args:
        letters: The letters of :func:`ink_left_over`.
        quads: Boxes (N, 4, 2), in pixels.
        gray: The page, (H, W).

    Returns:
        Windows that do not overlap much, those with most letters first.
    """
    if not len(letters):
        return []
    ndimage, shape = image_tools(), gray.shape
    # A quarter of the page's resolution is enough to see what stands together.
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
    boxes = np.concatenate([quads.min(axis=1), quads.max(axis=1)], axis=1)
    for group in range(count):
        own = letters[of == group]
        if not len(own):
            continue
        height = float(np.median(own[:, 3] - own[:, 1]))
        x0, y0 = own[:, :2].min(axis=0)
        x1, y1 = own[:, 2:].max(axis=0)
        if _is_dashed(own) or _is_pattern(own):
            continue
        if _number(own) < FEWEST_LETTERS and not _is_beside(np.array([x0, y0, x1, y1], dtype=np.float64), boxes):
            continue
        margin = max(MARGIN * height, 12.0)
        window = Window(
            max(int(x0 - 2 * margin), 0),
            max(int(y0 - margin), 0),
            min(int(np.ceil(x1 + 2 * margin)), shape[1]),
            min(int(np.ceil(y1 + margin)), shape[0]),
            float(min(max(WANTED_HEIGHT / height, 1.0), MOST_ENLARGED)),
            *_levels(gray, own),
        )
        found.append((len(own), window))
    found.sort(key=lambda pair: -pair[0])
    chosen, budget = [], MOST_AREA * shape[0] * shape[1]
    for _, window in _merged(found):
        # A large one is rather seen smaller than not at all.
        affordable = window.scale * float(np.sqrt(max(budget, 0.0) / window.cost))
        fitting = replace(window, scale=min(window.scale, affordable))
        if fitting.scale >= LEAST_ENLARGED:
            chosen.append(fitting)
            budget -= fitting.cost
    return chosen


def _levels(gray: NDArray[np.uint8], letters: IntArray) -> tuple[float, float]:
    """The levels of ink and background of some letters, the darker one first."""
    some = letters[:: -(-len(letters) // 200)].tolist()
    levels = np.concatenate([gray[y0:y1, x0:x1].ravel() for x0, y0, x1, y1 in some])
    dark, light = np.quantile(levels, [0.05, 0.95])
    middle, half = (dark + light) / 2, max((light - dark) / 2, LEAST_RANGE / 2)
    return float(middle - half), float(middle + half)


def _number(letters: IntArray) -> int:
    """How many letters these are, where letters may touch."""
    widths, heights = (letters[:, 2:] - letters[:, :2]).T
    return int(np.maximum(widths // np.maximum(heights, 1), 1).sum())


def _is_dashed(pieces: IntArray) -> bool:
    """Whether pieces are the dashes of a rule: of one width, wide, and beginning and ending at the same heights."""
    left, top, right, bottom = pieces.T
    width, height = np.median(right - left), np.median(bottom - top)
    shift = np.maximum(np.abs(top - np.median(top)), np.abs(bottom - np.median(bottom)))
    same = (shift <= max(0.25 * height, 1)) & (np.abs(right - left - width) <= DASH_SPREAD * width)
    return bool(len(pieces) >= FEWEST_DASHES and width >= DASH_WIDTH * height and same.mean() >= DASH_SHARE)


def _is_pattern(pieces: IntArray) -> bool:
    """Whether pieces are those of a screen of dots or a grid of signs: many of one size."""
    sizes = pieces[:, 2:] - pieces[:, :2]
    same = (np.abs(sizes - np.median(sizes, axis=0)) <= 1).all(axis=1)
    return bool(len(pieces) >= FEWEST_ALIKE and same.mean() >= ALIKE_SHARE)


def _is_beside(letter: FloatArray, boxes: FloatArray) -> bool:
    """Whether letters stand on the band of a box of about their height, no farther from it than it is high."""
    height = boxes[:, 3] - boxes[:, 1]
    common = np.minimum(boxes[:, 3], letter[3]) - np.maximum(boxes[:, 1], letter[1])
    gap = np.maximum(boxes[:, 0] - letter[2], letter[0] - boxes[:, 2])
    own = letter[3] - letter[1]
    fits = (own >= LEAST_FILLED * height) & (own <= 1.2 * height)
    return bool((fits & (common >= 0.8 * own) & (gap <= height)).any())


def _merged(found: list[tuple[int, Window]]) -> list[tuple[int, Window]]:
    """Windows where those that overlap are one, if that one is not much larger than both."""
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


def without_screens(boxes: FloatArray) -> FloatArray:
    """The boxes (N, 5, 2) of a first look without those around the dots of a screen, as on a page of regular dots."""
    if len(boxes) < FEWEST_SCREEN:
        return boxes
    sides = np.hypot(*(boxes[:, 1:4:2] - boxes[:, :1]).transpose(2, 0, 1))
    is_dot = sides.max(axis=1) <= SCREEN_SHAPE * sides.min(axis=1)
    if is_dot.mean() < SCREEN_SHARE or np.median(boxes[is_dot, 4, 1]) >= SCREEN_SCORE:
        return boxes
    kept: FloatArray = boxes[~is_dot]
    return kept


def with_found(boxes: FloatArray, found: FloatArray, letters: IntArray) -> FloatArray:
    """The boxes of a page with those of a second look.

    Args:
        boxes: Those of the first look, (N, 5, 2): corners in pixels, then (0, score).
        found: Those of the second look, the same (K, 5, 2).
        letters: The letters of :func:`ink_left_over`.

    Returns:
        Boxes (N', 5, 2). What was found counts if a letter that was left over is in it. Where it overlaps boxes of
        its line, one box goes around all of them.
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
            both = joined(own, other)
            if both is None:
                kept.append(other)
            else:
                own = both
        if len(kept) < len(result) or (_number(letters[inside]) >= FEWEST_LETTERS and box[4, 1] >= SURE):
            result = [*kept, own]
    if not result:
        return boxes
    joined_boxes = np.stack(result)
    return joined_boxes[np.argsort(joined_boxes[:, :4, 1].min(axis=1), kind="stable")]


def joined(box: FloatArray, other: FloatArray) -> FloatArray | None:
    """One box around two that overlap on one line, in the direction of the longer one; None for others."""
    longer = box if _length(box) >= _length(other) else other
    along, across = _frame(longer[:4])
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
