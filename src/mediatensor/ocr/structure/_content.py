"""Make `PageContent` of the image of a page, or of the words, lines, areas and pictures that a PDF file draws on it.

On images, this module finds the pictures, and `_picture_ink` the rules (straight lines) and bold words. Lengths are
measured in ems (the median word height), so they are independent of the resolution. Large images are first scaled down
to about two megapixels, which are enough to show every visible rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from ...errors import InvalidArgumentError
from ..utils._page_images import image_tools
from ._page import Boxes, PageContent, are_inside, box_around
from ._picture_ink import bold_words, find_rules, join_lines, painted

# Larger images are reduced to about this many pixels.
_MAX_PIXELS = 2_600_000
# Images with smaller words, in pixels, are enlarged: otherwise rules would be as thin as the gaps in letters.
_MIN_EM = 16
# The assumed word height on pages without words, as a share of the longer side.
_USUAL_HEIGHT = 0.012

# Side of a grid cell in pixels.
_CELL = 8
# The smallest difference from the paper, of 255, of the mean of a cell with ink, and of each part of a filled cell. If
# it is 12 for filled cells, grounds of tables that differ by 11 or 12 are pictures, and the tables are lost.
_MIN_INK = 10
# In ems: the smaller side of the smallest picture, then the largest gap between two pieces, and between a piece and a
# rule of the same picture.
_MIN_SIDE = 1.5
_MAX_GAP = 1.5
_MAX_RULE_GAP = 0.5
# A piece is flat, like a cell background or a chart bar, if this share of its cells differs by less from the median.
_FLAT = 8
_MIN_FLAT = 0.6
# A single flat area is a picture if it is at least this dark, and at least this many ems wide and high.
_DARK = 150.0
_MIN_DARK_SIDE = 6.0
# Axes and frames are added to a picture only if words then cover less than this share.
_MAX_TEXT = 0.12
# A framed picture must cover at least this share of its frame.
_MIN_SHARE = 0.15
# An area with a larger share of text is text on a tinted or dirty background, not a picture.
_MAX_TEXT_OF_PICTURE = 0.2
# Only this many pieces, the largest, are joined.
_MAX_PIECES = 500

# The largest gap between words of a text line, and between their base lines, in type sizes.
_MAX_WORD_GAP = 1.5
_MAX_BASELINE_STEP = 0.2
# The type size, in points, if no type size is known.
_USUAL_SIZE = 10.0
# In type sizes: the shortest rule, and the largest gap between the parts of a picture.
_MIN_RULE = 1.0
_MAX_PART_GAP = 1.0
# Maximum number of filled rectangles that are examined, the largest first, and their number in a batch. The colour
# outside a rectangle is determined at the third value, in type sizes, from its edges.
_MAX_FILLS = 4000
_FILLS_AT_ONCE = 256
_BESIDE = 0.08
# A picture that covers a larger share of the page is a scan of the page.
_MAX_SHARE = 0.9
# A drawing with a larger share of words is a frame around text.
_MAX_TEXT_OF_DRAWING = 0.12


def content_of_picture(
    image: NDArray[np.uint8],
    boxes: ArrayLike,
    texts: Sequence[str],
    line_ids: ArrayLike,
    confidences: ArrayLike,
    *,
    turns: ArrayLike | None = None,
) -> PageContent:
    """Find the rules (straight lines), pictures and bold words on the image of an upright page whose words are known.

    Rules are solid, dashed or dotted lines in any colour. The edges of areas with another background colour, such as
    cells or every second row of a table, are also rules. Rules are found even if they are skewed by about one degree.
    Two rules closer together than a third of the word height count as one. A line under a word, at most half a word
    height below the word's box, is also a rule. Rules inside pictures are left out.

    Pictures are areas that are neither words nor rules, such as photographs, drawings, logos and signatures. A chart is
    one picture, together with the words in it.

    Args:
        image: uint8 (H, W, 3), or (H, W) for a grayscale image.
        boxes: (N, 4): xmin, ymin, xmax, ymax of each word in pixels.
        texts: The N words.
        line_ids: (N,): number of the text line that each word is on. Words with the same number form a line.
        confidences: (N,): probability that each word is right, in [0, 1].
        turns: (N,): clockwise turn of each word in degrees: 0 (default), 90, 180 or 270.

    Returns:
        A `PageContent`, with coordinates in pixels of ``image``. Its ``font_sizes`` are NaN.

    Raises:
        InvalidArgumentError: The image has another shape or type, the arguments have different numbers of words, or a
            turn is invalid.
        MissingDependencyError: SciPy is not installed.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.structure import content_of_picture
        >>> image = np.full((200, 300, 3), 255, np.uint8)
        >>> image[99:101, 20:280] = 0
        >>> content = content_of_picture(image, [(30, 60, 90, 80)], ["word"], [0], [1.0])
        >>> content.horizontal_rules.round().tolist(), content.vertical_rules.shape
        ([[20.0, 99.0, 280.0, 101.0]], (0, 4))
    """
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3):
        raise InvalidArgumentError(
            f"image is {image.dtype} of shape {image.shape}; accepted: uint8 of shape (H, W, 3) or (H, W)"
        )
    placed = np.asarray(boxes, np.float64).reshape(-1, 4)
    lines, sure = np.asarray(line_ids, np.int64).ravel(), np.asarray(confidences, np.float64).ravel()
    quarters = np.zeros(len(placed), np.int64) if turns is None else np.asarray(turns, np.int64).ravel()
    if not len(placed) == len(texts) == len(lines) == len(sure) == len(quarters):
        raise InvalidArgumentError(
            f"there are {len(placed)} boxes, {len(texts)} texts, {len(lines)} line_ids, {len(sure)} confidences and "
            f"{len(quarters)} turns; there should be one of each for every word"
        )
    if not np.isin(quarters, (0, 90, 180, 270)).all():
        raise InvalidArgumentError(f"turns has {quarters.tolist()}; accepted: 0, 90, 180 and 270 degrees")
    height, width = image.shape[:2]
    rules: tuple[Boxes, Boxes] = np.zeros((0, 4)), np.zeros((0, 4))
    pictures, is_bold = np.zeros((0, 4)), np.zeros(len(placed), bool)
    if min(width, height) >= 16:
        heights = np.clip(placed[:, 3] - placed[:, 1], 0, None)
        em = float(np.median(heights)) if len(heights) else _USUAL_HEIGHT * max(height, width)
        ink, factor = _ink_of(image, em)
        small, em = placed / factor, em / factor
        em = float(np.clip(em, 8, max(8, min(ink.shape) / 4)))
        found = find_rules(ink, small, em)
        drawn = find_pictures(ink, small, found, em)
        rules = drop_rules_inside(found[0], drawn, em) * factor, drop_rules_inside(found[1], drawn, em) * factor
        pictures = drawn * factor
        is_bold = bold_words(ink, small, texts, lines)
    limits = np.array([width, height, width, height], np.float64)
    return PageContent(
        width=float(width),
        height=float(height),
        boxes=placed,
        texts=tuple(texts),
        line_ids=lines,
        confidences=sure,
        font_sizes=np.full(len(placed), np.nan),
        is_bold=is_bold,
        horizontal_rules=rules[0].clip(0, limits),
        vertical_rules=rules[1].clip(0, limits),
        pictures=pictures.clip(0, limits),
        turns=quarters,
    )


def _ink_of(image: NDArray[np.uint8], em: float) -> tuple[NDArray[np.uint8], float]:
    """Return a map of the ink in an image, uint8 (H, W), and the factor by which the image was scaled down.

    Ink is how much a pixel differs from the paper. The channel that differs most counts, so coloured ink counts as much
    as black ink. If the image was enlarged to twice its size, the factor is 0.5.
    """
    height, width = image.shape[:2]
    factor: float = max(1, int(np.ceil((height * width / _MAX_PIXELS) ** 0.5)))
    if factor > 1:
        image = np.asarray(Image.fromarray(image).reduce(int(factor)))
    elif em < _MIN_EM and 4 * height * width <= _MAX_PIXELS:
        image = np.asarray(Image.fromarray(image).resize((2 * width, 2 * height), Image.Resampling.BICUBIC))
        factor = 0.5
    is_dark = float(np.median(image[::7, ::7])) < 100
    if image.ndim == 2:
        return (image.copy() if is_dark else 255 - image), factor
    mixed = np.maximum if is_dark else np.minimum
    channel = mixed(mixed(image[..., 0], image[..., 1]), image[..., 2])
    return (channel if is_dark else 255 - channel), factor


def find_pictures(ink: NDArray[np.uint8], words: Boxes, rules: tuple[Boxes, Boxes], em: float) -> Boxes:
    """Return the boxes of pictures on a page, float64 (N, 4).

    ``ink`` is how much each pixel differs from the paper. A picture consists of areas of connected ink that are close
    together, and of the axes and the frame around them. Words, backgrounds of words, and other rules (straight lines)
    do not belong to it.
    """
    pieces, is_flat, darkness = _find_pieces(ink, words, rules, em)
    found = []
    for box in merge_boxes(pieces, _MAX_GAP * em):
        own = np.all(pieces[:, :2] >= box[:2] - 1, axis=1) & np.all(pieces[:, 2:] <= box[2:] + 1, axis=1)
        if (box[2:] - box[:2]).min() < _MIN_SIDE * em:
            continue
        whole = _add_frame(_add_axes(box, words, rules, em), words, rules, em)
        side = float((whole[2:] - whole[:2]).min())
        is_alone = (
            is_flat[own].all() and own.sum() < 3 and np.prod(whole[2:] - whole[:2]) < 1.5 * np.prod(box[2:] - box[:2])
        )
        if is_alone and not (side >= _MIN_DARK_SIDE * em and darkness[own].max() >= _DARK):
            continue
        if _text_within(whole, words)[0] <= _MAX_TEXT_OF_PICTURE:
            found.append(whole)
    return merge_boxes(np.array(found).reshape(-1, 4), 0.0)


def _find_pieces(
    ink: NDArray[np.uint8], words: Boxes, rules: tuple[Boxes, Boxes], em: float
) -> tuple[Boxes, NDArray[np.bool_], NDArray[np.float64]]:
    """Find pieces of pictures: areas of connected ink, except words, backgrounds of words, and rules (straight lines).

    Return the box of each piece, whether it is evenly coloured, and how much it differs from the paper.
    """
    quarters = np.asarray(Image.fromarray(ink).reduce(_CELL // 2)).astype(np.int16)
    quarters = np.pad(quarters, ((0, len(quarters) % 2), (0, quarters.shape[1] % 2)), mode="edge")
    paper = int(np.median(quarters))
    quarters = np.abs(quarters - paper)
    four = (quarters[::2, ::2], quarters[1::2, ::2], quarters[::2, 1::2], quarters[1::2, 1::2])
    cells = (four[0] + four[1] + four[2] + four[3]) // 4
    is_filled = np.minimum(np.minimum(four[0], four[1]), np.minimum(four[2], four[3])) > _MIN_INK
    shape, scale = cells.shape, (float(_CELL), float(_CELL))
    is_word = painted(words + np.array([-3, -3, 3, 3]), shape, scale) > 0
    # A rule covers at most half of a cell that it only touches, so rules are painted one cell wider.
    lines = np.concatenate(rules) + 0.75 * _CELL * np.array([-1, -1, 1, 1])
    # Only thick rules fill cells; a rule without thickness is the edge of a filled area.
    thickness = (lines[:, 2:] - lines[:, :2]).min(axis=1) - 1.5 * _CELL
    is_filled &= painted(lines[thickness >= 2], shape, scale) == 0
    is_ink = (cells > _MIN_INK) & (painted(lines, shape, scale) == 0) & ~is_word
    tools = image_tools()
    # The background of words is also filled between letters, and must stay in one piece.
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
    # The share of a piece that is close to its median. Rules on a table background may connect several cells.
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
    is_piece = count * _CELL**2 >= 0.5 * em * em
    # A flat area with words on it is the background of cells, boxes or bands.
    chosen = np.flatnonzero(is_piece)
    chosen = chosen[np.argsort(-sides[chosen].prod(axis=1), kind="stable")[:_MAX_PIECES]]
    text = [_text_within(boxes[piece], words) for piece in chosen]
    # A large dark area with few words is a photograph with a label.
    is_ground = [
        share > _MAX_TEXT or (is_flat[piece] and num > 0 and not is_photo)
        for piece, (share, num), is_photo in zip(chosen, text, is_night[chosen], strict=True)
    ]
    chosen = chosen[~np.array(is_ground, bool)]
    limits = np.array([ink.shape[1], ink.shape[0]] * 2)
    return boxes[chosen].clip(0, limits), is_flat[chosen], middle[1:][chosen].astype(np.float64)


def _text_within(box: NDArray[np.float64], words: Boxes) -> tuple[float, int]:
    """Return the share of a box that words cover, and the number of words in the box."""
    inside = words[are_inside(words, box)]
    area = (inside[:, 2:] - inside[:, :2]).clip(0).prod(axis=1).sum()
    return float(area / (box[2:] - box[:2]).prod()), len(inside)


def _add_axes(box: NDArray[np.float64], words: Boxes, rules: tuple[Boxes, Boxes], em: float) -> NDArray[np.float64]:
    """Extend a picture to the rules that touch it, such as axes, unless it would then contain much text."""
    lines = np.concatenate(rules)
    for _ in range(3):
        grown = box + _MAX_RULE_GAP * em * np.array([-1, -1, 1, 1])
        meets = np.all(lines[:, :2] <= grown[2:], axis=1) & np.all(lines[:, 2:] >= grown[:2], axis=1)
        if not meets.any():
            break
        whole = np.array(box_around(np.vstack([box, lines[meets]])))
        share, _ = _text_within(whole, words)
        is_small = np.prod(box[2:] - box[:2]) < _MIN_SHARE * np.prod(whole[2:] - whole[:2])
        if is_small or (whole == box).all() or share > _MAX_TEXT:
            break
        box = whole
    return box


def _add_frame(box: NDArray[np.float64], words: Boxes, rules: tuple[Boxes, Boxes], em: float) -> NDArray[np.float64]:
    """Extend the box of a picture to the frame around it, if there are four rules that form one."""
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


def drop_rules_inside(rules: Boxes, pictures: Boxes, em: float) -> Boxes:
    """Return the rules (straight lines) that are not inside a picture."""
    grown = pictures + em / 3 * np.array([-1, -1, 1, 1])
    low = np.all(rules[:, None, :2] >= grown[None, :, :2], axis=2)
    high = np.all(rules[:, None, 2:] <= grown[None, :, 2:], axis=2)
    outside: Boxes = rules[~np.any(low & high, axis=1)]
    return outside


def merge_boxes(boxes: Boxes, gap: float) -> Boxes:
    """Replace boxes that overlap or are less than ``gap`` apart by one box around them."""
    boxes = boxes.copy()
    while len(boxes) > 1:
        grown = boxes + gap / 2 * np.array([-1, -1, 1, 1])
        low = np.maximum(grown[:, None, :2], grown[None, :, :2])
        high = np.minimum(grown[:, None, 2:], grown[None, :, 2:])
        meets = np.all(high > low, axis=2)
        first = np.argmax(meets, axis=1)
        if (first == np.arange(len(boxes))).all():
            break
        boxes = np.array([box_around(boxes[first == name]) for name in np.unique(first)])
    return boxes


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
    ends = x1[order]
    for start, stop in pairwise([*np.flatnonzero(is_new), len(order)]):
        ends[start:stop] = np.maximum.accumulate(ends[start:stop])
    larger = np.maximum(sizes[order][1:], sizes[order][:-1])
    is_new[1:] |= x0[order][1:] - ends[:-1] > _MAX_WORD_GAP * larger
    names = np.empty(len(order), np.int64)
    names[order] = np.cumsum(is_new)
    _, first, names = np.unique(names, return_index=True, return_inverse=True)
    ids: NDArray[np.int64] = first.argsort().argsort()[names]
    return ids


def _pictures(words: Boxes, areas: Boxes, pictures: Boxes, page: float, em: float) -> Boxes:
    """Return the boxes of all pictures: the embedded ones, and drawings, which consist of adjacent ``areas``.

    Boxes that cover the whole page, and drawings that contain much text, are left out.
    """
    kept = []
    for found, gap in ((pictures, 0.2 * em), (areas, _MAX_PART_GAP * em)):
        sizes = found[:, 2:] - found[:, :2]
        is_part = sizes.prod(axis=1) < _MAX_SHARE * page
        whole = merge_boxes(found[is_part], gap)
        is_large = (whole[:, 2:] - whole[:, :2]).min(axis=1, initial=np.inf) >= _MIN_SIDE * em
        kept.append(whole[is_large])
    drawings = [box for box in kept[1] if _text_within(box, words)[0] <= _MAX_TEXT_OF_DRAWING]
    return merge_boxes(np.concatenate([kept[0], np.array(drawings).reshape(-1, 4)]), 0.0)
