"""Find rules, which are straight horizontal or vertical lines, and bold words in the image of a page.

Solid rules are found by their edges: a rule of any thickness and colour has two long straight edges, and a filled cell
has an edge on each side. An edge is a row of pixel blocks in which every pixel is darker than the pixel above it, or
every pixel is brighter. Letters also have edges, but these are short and inside words. Lines of dots and dashes do not
have edges. They are found as thin rows of blocks. Each of these blocks has a pixel that is darker than all pixels
closely above and below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .._reading_order.boxes import component_roots
from ..utils._page_images import image_tools
from ._page import Boxes

# Pixels in a block: four in the image, which is reduced to half its width.
_BLOCK = 8
# The largest slope of a rule: two degrees.
_MAX_SLOPE = 0.035
# In ems: the largest distance between the two edges of a rule, the largest gap in a rule, the shortest horizontal and
# vertical rules, the shortest dotted line, and the shortest line at the upper or lower edge of words.
_MAX_THICKNESS = 0.35
_MAX_GAP = 0.4
_MIN_LENGTHS = (1.5, 1.2)
_MIN_DOTTED = 3.0
_MIN_UNDERLINE = 4.0
# The weakest pixel in a block of an edge has at least this share of the strongest pixel.
_EVEN = 0.5
# Only this many edges of each kind are kept. Only a page of noise has more.
_MAX_EDGES = 6000

# Heavy type: rows and columns of pixels sampled in each word. Taller words are sampled at every n-th pixel.
_ROWS, _COLUMNS = 24, 64
_WORDS_AT_ONCE = 1024
# A heavy word has at least this many times the ink of a typical word.
_HEAVY = 1.2
# Pixels with less contrast to their surroundings are not ink.
_MIN_CONTRAST = 30


class _Segments(NamedTuple):
    """Nearly horizontal pieces of edges or lines. Each field is float64 (N,), in pixels.

    ``left`` and ``right`` are the horizontal positions of the ends, ``y`` is the vertical position of the middle.
    """

    left: NDArray[np.float64]
    right: NDArray[np.float64]
    y: NDArray[np.float64]
    slope: NDArray[np.float64]
    # Half the thickness of a line; 0 for an edge.
    reach: NDArray[np.float64]


def find_rules(ink: NDArray[np.uint8], words: Boxes, em: float) -> tuple[Boxes, Boxes]:
    """Return the boxes of the horizontal rules, and the boxes of the vertical rules, each float64 (N, 4).

    Args:
        ink: uint8 (H, W): difference of each pixel from the paper.
        words: float64 (N, 4): boxes of words. Strokes of letters are not rules.
        em: Median height of the words in pixels.
    """
    across = _rules_across(ink, words, em, _MIN_LENGTHS[0] * em, is_turned=False)
    turned = np.ascontiguousarray(ink.T)
    down = _rules_across(turned, words[:, [1, 0, 3, 2]], em, _MIN_LENGTHS[1] * em, is_turned=True)
    return across, down[:, [1, 0, 3, 2]]


def join_lines(lines: NDArray[np.float64], em: float, min_length: float) -> Boxes:
    """Join pieces of horizontal lines into rules, float64 (N, 4).

    ``lines`` is float64 (M, 5): xmin, ymin, xmax, ymax, thickness. Rules shorter than ``min_length`` are dropped.
    """
    if not len(lines):
        return np.zeros((0, 4))
    order = np.lexsort((lines[:, 0], np.round(lines[:, 1] + lines[:, 3], 1)))
    left, top, right, bottom, thickness = lines[order].T
    y = (top + bottom) / 2
    # A dotted line may have many thousand pieces, so pieces at the same height are joined first.
    is_new = np.ones(len(y), bool)
    is_new[1:] = (np.abs(np.diff(y)) > 0.1) | (np.diff(thickness) != 0) | (np.diff(left) < 0)
    ends = right.copy()
    starts = np.flatnonzero(is_new)
    for start, stop in zip(starts, np.append(starts[1:], len(y)), strict=True):
        ends[start:stop] = np.maximum.accumulate(right[start:stop])
    is_new[1:] |= left[1:] - ends[:-1] > _MAX_GAP * em
    starts = np.flatnonzero(is_new)
    last = np.append(starts[1:], len(y)) - 1
    pieces = _Segments(left[starts], ends[last], y[starts], np.zeros(len(starts)), thickness[starts] / 2)
    return _join_parts(pieces, em, min_length)


def painted(
    boxes: Boxes, shape: tuple[int, int], scale: tuple[float, float], values: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return, for each cell of a grid, the number of boxes that cover at least half of it, int64 (rows, columns).

    If ``values`` has a number for each box, return the sum of these numbers instead of the count. ``shape`` is the
    number of rows and columns, and ``scale`` is the width and height of a cell in pixels.
    """
    edges = np.round(boxes / np.array([*scale, *scale])).astype(np.int64)
    x0, x1 = edges[:, [0, 2]].clip(0, shape[1]).T
    y0, y1 = edges[:, [1, 3]].clip(0, shape[0]).T
    weights = np.ones(len(boxes), np.int64) if values is None else values
    corners = np.zeros((shape[0] + 1, shape[1] + 1), np.int64)
    for y, x, sign in ((y0, x0, 1), (y1, x1, 1), (y0, x1, -1), (y1, x0, -1)):
        np.add.at(corners, (y, x), sign * weights)
    sums: NDArray[np.int64] = corners.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]
    return sums


class _Letters(NamedTuple):
    """Positions of the letters on a page, so that their strokes are not mistaken for rules (straight lines).

    The page is divided into a grid of pixel blocks. ``within`` and ``stroke`` have a value for each block, (rows,
    columns).
    """

    within: NDArray[np.bool_]
    # The largest share of a rule that may be inside letters.
    limit: float
    # The minimum length of a rule at each place, in pixels; 0 outside letters.
    stroke: NDArray[np.int64]

    @classmethod
    def of(cls, words: Boxes, shape: tuple[int, int], em: float, *, is_turned: bool) -> _Letters:
        scale = (float(_BLOCK), 1.0)
        if is_turned:
            # Stems of letters are inside the word box, and at most as long as the box is high.
            around = words + np.array([0, -2, 0, 2])
            count = painted(around, shape, scale)
            length = painted(around, shape, scale, np.ceil(1.3 * (words[:, 2] - words[:, 0])).astype(np.int64))
            return cls(count > 0, 2.0, length // np.maximum(count, 1))
        # Adjacent letters form edges at the top and at the base line of words.
        high = (words[:, 3] - words[:, 1])[:, None]
        within = painted(words + 0.15 * high * np.array([0, 1, 0, -1]), shape, scale) > 0
        near = painted(words + (0.12 * high + 1.5) * np.array([0, -1, 0, 1]), shape, scale) > 0
        return cls(within, 0.6, near * np.int64(_MIN_UNDERLINE * em))

    def paired(self) -> _Letters:
        """Return the same positions for blocks that are twice as wide, as needed to find dotted lines."""
        near = np.pad(self.stroke > 0, ((0, 0), (0, self.stroke.shape[1] % 2)))
        near = near[:, ::2] | near[:, 1::2]
        return _Letters(near, 0.15, np.zeros(near.shape, np.int64))


def _rules_across(ink: NDArray[np.uint8], words: Boxes, em: float, min_length: float, *, is_turned: bool) -> Boxes:
    height, width = ink.shape
    columns = -(-width // _BLOCK)
    halved = np.zeros((height, 4 * columns), np.uint8)
    reduced = np.asarray(Image.fromarray(ink).reduce((2, 1)))
    halved[:, : reduced.shape[1]] = reduced
    halved[:, reduced.shape[1] :] = reduced[:, -1:]
    letters = _Letters.of(words, (height, columns), em, is_turned=is_turned)
    change = np.subtract(halved[2:], halved[:-2], dtype=np.int16)
    noise = float(np.median(np.abs(change[::5, ::3]))) if change.size else 0.0
    threshold = int(np.clip(3.7 * noise, 8, 32))
    found = [_edges(change, threshold, sign, letters, em) for sign in (1, -1)]
    found.append(_dotted_lines(halved, letters, em, 2 * threshold))
    parts = _Segments(*(np.concatenate(values) for values in zip(*found, strict=True)))
    return _join_parts(parts, em, min_length)


def _edges(change: NDArray[np.int16], threshold: int, sign: int, letters: _Letters, em: float) -> _Segments:
    """Find edges: rows of pixel blocks whose pixels are all darker (``sign`` 1) or brighter (-1) than the pixel above.

    ``change`` is the difference between the pixel rows above and below each pixel.
    """
    is_edge = change > threshold if sign > 0 else change < -threshold
    is_edge[:-1] |= is_edge[1:]
    is_block = is_edge.view(np.uint32) == 0x01010101
    rows, columns = np.nonzero(is_block)
    # Between close letters, every pixel may be an edge, but the pixels in gaps are weaker.
    at = rows[:, None] * change.shape[1] + 4 * columns[:, None] + np.arange(4)
    steps = change.ravel()
    below = np.where(rows[:, None] + 1 < len(change), at + change.shape[1], at)
    strengths = np.maximum(sign * steps[at], sign * steps[below])
    is_even = strengths.min(axis=1) >= _EVEN * strengths.max(axis=1) - threshold / 2
    is_block[rows[~is_even], columns[~is_even]] = False
    labels, _ = image_tools().label(is_block, np.ones((3, 3)))
    rows, columns = rows[is_even], columns[is_even]
    names = labels[rows, columns]
    parts, size, first, last = _fit_lines(rows + 1, columns, names, letters, _BLOCK, 0.8 * em)
    # A step between two rows is visible in three rows, and a line of one row in two rows on each side.
    y = parts.y + np.where(size < 2.5, 1 + sign * 0.5, 1.0)
    return _trim_ends(parts._replace(y=y), parts.y - 1, is_edge, 4 * first, 4 * last + 4)


def _trim_ends(
    parts: _Segments,
    rows: NDArray[np.float64],
    is_line: NDArray[np.bool_],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    *,
    has_gaps: bool = False,
) -> _Segments:
    """Move the ends of lines from the borders of blocks to the exact pixels at which the lines begin and end.

    Ends move by at most one block.

    Args:
        parts: Pieces of edges or lines. Their ends are at the borders of blocks.
        rows: float64 (N,): row of ``is_line`` at the middle of each part.
        is_line: bool (H, W / 2): the pixels that belong to edges or dots.
        first, last: int64 (N,): column of the first pixel of each part, and the column after its last pixel.
        has_gaps: Whether the parts are lines of dots or dashes.
    """
    height, width = is_line.shape
    offsets = np.arange(-4, 4)
    ends = []
    for edge, sign in ((first, 1), (last - 1, -1)):
        rise = parts.slope * (2 * edge - (parts.left + parts.right) / 2)
        row = np.round(rows + rise).astype(np.int64)[:, None].clip(1, max(1, height - 2))
        column = edge[:, None] + sign * offsets
        inside = (column >= 0) & (column < width)
        column = column.clip(0, width - 1)
        seen = (is_line[row, column] | is_line[row - 1, column] | is_line[row + 1, column]) & inside
        # Pixels beyond a gap do not belong to the line.
        joined = seen
        if not has_gaps:
            joined = seen & np.logical_and.accumulate((seen | (offsets >= 0))[:, ::-1], axis=1)[:, ::-1]
        begins = np.where(joined.any(axis=1), np.argmax(joined, axis=1) - 4, 0)
        ends.append(edge + sign * begins)
    return parts._replace(left=2.0 * ends[0], right=2.0 * (ends[1] + 1))


def _dotted_lines(halved: NDArray[np.uint8], letters: _Letters, em: float, threshold: int) -> _Segments:
    """Find lines of dots or dashes: thin rows of pixel blocks that all contain ink.

    Blocks are twice as wide as in `_edges`, so that a block contains a dot even if the dots are far apart.
    """
    reach = int(np.clip(round(0.18 * em), 2, 6))
    height, width = halved.shape
    darkest = halved.reshape(height, width // 4, 4)
    blocks = np.maximum(np.maximum(darkest[..., 0], darkest[..., 1]), np.maximum(darkest[..., 2], darkest[..., 3]))
    if blocks.shape[1] % 2:
        blocks = np.concatenate([blocks, blocks[:, -1:]], axis=1)
    blocks = np.maximum(blocks[:, ::2], blocks[:, 1::2])
    if height <= 2 * reach:
        return _Segments(*np.zeros((5, 0)))
    around = np.maximum(blocks[: -2 * reach], blocks[2 * reach :])
    is_line = np.subtract(blocks[reach:-reach], around, dtype=np.int16) > threshold
    labels, _ = image_tools().label(is_line, np.ones((3, 3)))
    rows, columns = np.nonzero(labels)
    names = labels[rows, columns]
    parts, size, first, last = _fit_lines(rows + reach, columns, names, letters.paired(), 2 * _BLOCK, _MIN_DOTTED * em)
    placed = parts._replace(y=parts.y + 0.5, reach=size / 2)
    around = np.maximum(halved[: -2 * reach], halved[2 * reach :])
    is_dot = np.subtract(halved[reach:-reach], around, dtype=np.int16) > threshold // 2
    return _trim_ends(placed, parts.y - reach, is_dot, 8 * first + 4, 8 * last + 4, has_gaps=True)


def _fit_lines(
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    names: NDArray[np.int32],
    letters: _Letters,
    step: int,
    min_length: float,
) -> tuple[_Segments, NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Fit a straight line through each group of connected pixel blocks.

    ``rows``, ``columns`` and ``names`` are the position and the group of each block. Lines that are short, uneven, too
    steep, or probably letters are dropped. Return the remaining lines, and for each line its mean number of blocks per
    column, its first column and its last column.
    """
    num = int(names.max(initial=0)) + 1
    count = np.bincount(names, minlength=num)
    first, last = np.full(num, np.iinfo(np.int64).max), np.full(num, -1)
    np.minimum.at(first, names, columns)
    np.maximum.at(last, names, columns)
    wide = last - first + 1
    kept = np.flatnonzero((count > 0) & (wide * step >= min_length) & (wide >= 2))
    if len(kept) > _MAX_EDGES:
        kept = np.sort(kept[np.argsort(-wide[kept], kind="stable")[:_MAX_EDGES]])
    new = np.full(num, -1)
    new[kept] = np.arange(len(kept))
    is_kept = new[names] >= 0
    rows, columns, names = rows[is_kept], columns[is_kept], new[names[is_kept]]

    def sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(names, values, len(kept)).astype(np.float64)

    size = np.bincount(names, minlength=len(kept)).astype(np.float64)
    x, y = columns.astype(np.float64), rows.astype(np.float64)
    mean_x, mean_y = sums(x) / size, sums(y) / size
    x, y = x - mean_x[names], y - mean_y[names]
    slope = sums(x * y) / np.maximum(sums(x * x), 1e-9) / step
    uneven = np.sqrt(sums((y - slope[names] * step * x) ** 2) / size)
    within = sums(letters.within[rows, columns].astype(np.float64)) / size
    stroke = sums(letters.stroke[rows, columns].astype(np.float64)) / size
    left, right = first[kept] * float(step), (last[kept] + 1) * float(step)
    y_middle = mean_y + slope * ((left + right) / 2 - (mean_x + 0.5) * step)
    # The slope of short pieces cannot be measured reliably.
    slope = np.where(wide[kept] < 6, 0.0, slope)
    is_line = (np.abs(slope) <= _MAX_SLOPE) & (uneven < 2.5) & (within < letters.limit) & (right - left > stroke)
    parts = _Segments(left, right, y_middle, slope, np.zeros(len(kept)))
    chosen = _Segments(*(values[is_line] for values in parts))
    return chosen, (size / wide[kept])[is_line], first[kept][is_line], last[kept][is_line]


class _Pairs(NamedTuple):
    """M pairs of parts that are close to each other. All fields but ``links`` are (M,).

    Attributes:
        links: int64 (M, 2): indices of the two parts.
        apart: Vertical distance of the two parts, measured in the middle of the horizontal range that both cover.
        shared: Length of the horizontal range that both parts cover. A negative length is a gap between them.
        shorter, longer: Length of the shorter and of the longer part.
    """

    links: NDArray[np.int64]
    apart: NDArray[np.float64]
    shared: NDArray[np.float64]
    shorter: NDArray[np.float64]
    longer: NDArray[np.float64]

    @classmethod
    def of(cls, parts: _Segments, near: float) -> _Pairs:
        """Return all pairs of parts whose vertical distance is at most ``near`` pixels.

        Some pairs with a slightly larger distance are also returned.
        """
        order = np.argsort(parts.y, kind="stable")
        left, right, y, slope, reach = (values[order] for values in parts)
        length = right - left
        window = near + 2 * float(reach.max()) + float((np.abs(slope) * length).max())
        counts = np.searchsorted(y, y + window, side="right") - np.arange(len(y)) - 1
        one = np.repeat(np.arange(len(y)), counts)
        other = np.arange(len(one)) - np.repeat(counts.cumsum() - counts, counts) + one + 1
        begins, ends = np.maximum(left[one], left[other]), np.minimum(right[one], right[other])
        middle = (begins + ends) / 2
        places = [y[part] + slope[part] * (middle - (left[part] + right[part]) / 2) for part in (one, other)]
        apart = (np.abs(places[0] - places[1]) - reach[one] - reach[other]).clip(0)
        shorter, longer = np.minimum(length[one], length[other]), np.maximum(length[one], length[other])
        return cls(np.stack([order[one], order[other]], axis=1), apart, ends - begins, shorter, longer)


def _join_parts(parts: _Segments, em: float, min_length: float) -> Boxes:
    """Join the parts of each rule: its upper and lower edge, and pieces that follow each other on a straight line.

    Return the boxes of the rules that are at least ``min_length`` long.
    """
    if not len(parts.y):
        return np.zeros((0, 4))
    near = max(3.0, _MAX_THICKNESS * em)
    pairs = _Pairs.of(parts, 2.5)
    is_same = (pairs.apart <= 2.5) & (pairs.shared > -_MAX_GAP * em)
    lines = _unite_groups(parts, pairs.links[is_same])
    pairs = _Pairs.of(lines, near)
    is_same = (pairs.apart <= near) & (pairs.shared >= 0.6 * pairs.longer)
    rules = _unite_groups(lines, pairs.links[is_same])
    # Short parts next to longer rules are pieces of the edges of these rules, or letters.
    length = rules.right - rules.left
    pairs = _Pairs.of(rules, near)
    is_beside = (pairs.apart <= near) & (pairs.shared >= 0.6 * pairs.shorter)
    is_rule = length >= min_length
    one, other = pairs.links[is_beside].T
    is_rule[np.where(length[one] < length[other], one, other)] = False
    # A hatched area must not become one thick rule.
    is_rule &= rules.reach <= em / 2
    left, right, y, slope, reach = (values[is_rule] for values in rules)
    # A single edge is a rule without thickness.
    half = np.maximum(reach, 0.5) + np.abs(slope) * (right - left) / 2
    return np.stack([left, y - half, right, y + half], axis=1)


def _unite_groups(parts: _Segments, links: NDArray[np.int64]) -> _Segments:
    """Join the parts that are connected by ``links``, (L, 2), into one part."""
    left, right, y, slope, reach = parts
    names = np.unique(component_roots(len(y), links), return_inverse=True)[1]
    num = int(names.max()) + 1
    length = right - left
    total = np.bincount(names, length, num)
    new_left, new_right = np.full(num, np.inf), np.full(num, -np.inf)
    np.minimum.at(new_left, names, left)
    np.maximum.at(new_right, names, right)
    new_slope = np.bincount(names, slope * length, num) / total
    # The y of each part, extrapolated to the middle of its group.
    y = y + new_slope[names] * ((new_left + new_right)[names] - left - right) / 2
    top, bottom = np.full(num, np.inf), np.full(num, -np.inf)
    np.minimum.at(top, names, y - reach)
    np.maximum.at(bottom, names, y + reach)
    return _Segments(new_left, new_right, (top + bottom) / 2, new_slope, (bottom - top) / 2)


def bold_words(
    ink: NDArray[np.uint8], words: Boxes, texts: Sequence[str], line_ids: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return whether each word is bold, bool (N,).

    Bold words usually come in groups, so the measured boldness of each word is averaged with its neighbours on the
    line. The average is then compared with all words of the page. If most words of the page are bold, none is marked.
    """
    heights = _line_heights(words, line_ids)
    weight = np.full(len(words), np.nan)
    for start in range(0, len(words), _WORDS_AT_ONCE):
        part = slice(start, start + _WORDS_AT_ONCE)
        weight[part] = _measure_boldness(ink, words[part], heights[part])
    num_letters = np.array([sum(map(str.isalnum, text)) for text in texts], np.int64)
    weight[num_letters == 0] = np.nan
    known: NDArray[np.bool_] = np.isfinite(weight)
    if not known.any():
        return known
    order = np.argsort(weight[known])
    summed = np.cumsum(num_letters[known][order])
    usual = weight[known][order][np.searchsorted(summed, 0.4 * summed[-1])]
    score = np.where(known, np.log(np.where(known, weight, 1) / usual), 0.0)
    # The weight of a word of one or two letters depends on which letters they are.
    score *= num_letters / (num_letters + 0.5)
    total, share = score.copy(), known.astype(np.float64)
    for one, other in ((slice(None, -1), slice(1, None)), (slice(1, None), slice(None, -1))):
        is_beside = 0.5 * (known[one] & known[other] & (line_ids[one] == line_ids[other]))
        total[one] += is_beside * score[other]
        share[one] += is_beside
    is_bold: NDArray[np.bool_] = known & (total > np.log(_HEAVY) * share)
    return is_bold


def _line_heights(words: Boxes, line_ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return, for each word, the height of the tallest word in its line."""
    _, names = np.unique(line_ids, return_inverse=True)
    highest = np.ones(int(names.max(initial=-1)) + 1)
    np.maximum.at(highest, names, words[:, 3] - words[:, 1])
    heights: NDArray[np.float64] = highest[names]
    return heights


def _measure_boldness(ink: NDArray[np.uint8], words: Boxes, heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a measure of how bold each word looks, float64 (N,); NaN for words without contrast.

    ``heights`` are the line heights. The result is the share of ink in the fullest pixel rows of a word, times the
    square root of the ratio of stroke thickness to line height.
    """
    height, width = ink.shape
    x0, y0, x1, y1 = np.round(words).astype(np.int64).T
    x0, x1 = x0.clip(0, width - 1), x1.clip(1, width)
    y0, y1 = y0.clip(0, height - 1), y1.clip(1, height)
    steps = np.maximum(1, -(-(y1 - y0) // _ROWS))
    rows = y0[:, None] + np.arange(_ROWS) * steps[:, None]
    columns = x0[:, None] + np.arange(_COLUMNS) * steps[:, None]
    is_row, is_column = rows < y1[:, None], columns < x1[:, None]
    patches = ink[rows.clip(0, height - 1)[:, :, None], columns.clip(0, width - 1)[:, None, :]]
    is_word = is_row[:, :, None] & is_column[:, None, :]
    sample = np.where(is_word, patches, 0)[:, ::2, ::2].reshape(len(words), -1)
    count = is_word[:, ::2, ::2].sum(axis=(1, 2))
    ordered = np.sort(sample, axis=1)
    size = ordered.shape[1]

    def level(quantile: float) -> NDArray[np.float32]:
        at = size - count + (count * quantile).astype(np.int64)
        levels: NDArray[np.float32] = ordered[np.arange(len(words)), at.clip(0, size - 1)].astype(np.float32)
        return levels

    low, middle, high = level(0.03), level(0.5), level(0.97)
    # Ink is the extreme further from the median, because letters may be darker or brighter than the paper.
    far = np.where(high - middle >= middle - low, high, low) - middle
    is_clear = (np.abs(far) >= _MIN_CONTRAST) & (count >= 8)
    far = np.where(is_clear, far, 1.0)
    amount = ((patches - middle[:, None, None]) / far[:, None, None]).clip(0, 1) * is_word
    across = np.abs(np.diff(amount, axis=2)).sum(axis=(1, 2))
    down = np.abs(np.diff(amount, axis=1)).sum(axis=(1, 2))
    thickness = 2 * amount.sum(axis=(1, 2)) / np.maximum(across + down, 1) * steps / heights
    shares = np.sort(amount.sum(axis=2) / np.maximum(is_column.sum(axis=1), 1)[:, None], axis=1)
    num_rows = is_row.sum(axis=1)
    full = shares[np.arange(len(words)), (_ROWS - num_rows + 0.7 * num_rows).astype(np.int64).clip(0, _ROWS - 1)]
    weights: NDArray[np.float64] = np.where(is_clear, full * np.sqrt(thickness), np.nan)
    weights[~(weights > 0)] = np.nan
    return weights
