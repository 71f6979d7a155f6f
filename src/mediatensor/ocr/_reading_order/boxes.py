"""Prepare boxes, text directions and layout labels for ordering, and find columns and rows among the boxes.

Boxes are converted to arrays, turned upright, and mirrored for right-to-left text. Columns of text are read one after
the other, and rows of cells across.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..._engine.common.checks import shown
from ...errors import InvalidArgumentError
from ..utils.geometry import box_around, boxes_around, order_points, to_quad

# Comparisons process about this many pairs of boxes, or of gutters and boxes, at a time, to bound memory.
_PAIRS_AT_ONCE = 1 << 20

# A form has at least this many rows.
_MIN_ROWS = 3
# In a form, at least this share of the lines of the side with fewer lines is level with a line of the other side.
_LEVEL_SHARE = 0.8
# In a form, gaps between lines are larger than _FIELD_GAP line heights, and keys fill at most _FIELD_FILL of the
# distance to their values. Two sides are also a table if one of them is at most _NARROW line heights wide.
_FIELD_GAP = 1.0
_FIELD_FILL = 0.6
_NARROW = 5.0
# A side is aligned if this share of its lines begins, or ends, within _COLUMN_ALIGNED_WITHIN heights of the median.
_ALIGNED_SHARE = 0.7
_COLUMN_ALIGNED_WITHIN = 2.0

# Time grows with the square of the number of lines. Only hostile files have more lines than this. Each of their lines
# is its own row.
_MAX_LINES = 4_000
# Lines are level if they overlap by this share of the smaller height and have similar heights.
_LEVEL_OVERLAP = 0.5
_MAX_HEIGHT_RATIO = 2.0
# Maximum horizontal overlap of neighbours in a row, in heights, because boxes are not exact.
_MAX_OVERLAP = 0.5
# Prose has at least this many lines of at least this width (in heights; a letter is half as wide as high). The lines
# are stacked closely and aligned at one edge, and most of them fill their column.
_MIN_PROSE_LINES = 3
_MIN_PROSE_WIDTH = 5.0
_MAX_LEADING = 1.0
_ALIGNED_WITHIN = 1.5
_FULL_WIDTH = 0.8
_FULL_SHARE = 0.5
# The gap next to prose of at least this width, in heights, is a gutter even if the other side is not prose.
_WIDE = 18.0
# Gaps that lie above each other, within this distance in heights, are treated as one gutter.
_GUTTER_REACH = 4.0

DIRECTIONS = ("ltr", "rtl", "ttb-rtl", "ttb-ltr")
# ISO 639 codes of languages written from right to left, used if a text has no letters.
_RIGHT_TO_LEFT_LANGUAGES = frozenset(
    ("ar", "arc", "ckb", "dv", "fa", "he", "iw", "ks", "ku", "nqo", "ps", "sd", "syr", "ug", "ur", "yi")
)

_DECIMALS = 9

_ROLES = {
    **dict.fromkeys(("page_header", "header", "running_header"), "header"),
    **dict.fromkeys(("page_footer", "footer", "running_footer"), "footer"),
    **dict.fromkeys(("table", "picture", "figure", "image", "chart", "graphic"), "float"),
    "footnote": "footnote",
    "caption": "caption",
}


def reading_angle(quads: np.ndarray) -> float:
    """Return the angle of a page's text in degrees, in (-180, 180]. Positive angles are counter-clockwise.

    ``quads`` ``(N, 4, 2)`` are the corners of words, clockwise from the top left of the text, with x and y in the same
    unit. Each word votes for one of the four quarter turns, with its length as weight. The angle is the winning quarter
    turn plus the median slope of the words, or 0.0 without a valid word. The result is correct even if pages lie on
    their side or upside down, or if the corners of a few words are upside down by mistake.

    >>> import numpy as np
    >>> quad = np.array([[[0.0, 0.0], [0.0, 8.0], [-2.0, 8.0], [-2.0, 0.0]]])  # reads downwards
    >>> reading_angle(quad)
    -90.0
    """
    ends = quads[:, 1] + quads[:, 2] - quads[:, 0] - quads[:, 3]
    lengths = np.hypot(ends[:, 0], ends[:, 1])
    kept = np.isfinite(lengths) & (lengths > 0)
    if not kept.any():
        return 0.0
    degrees = np.degrees(np.arctan2(-ends[kept, 1], ends[kept, 0]))
    quarters = np.round(degrees / 90).astype(np.int64) % 4
    quarter = 90.0 * float(np.argmax(np.bincount(quarters, weights=lengths[kept], minlength=4)))
    # A quad and its upside-down copy have the same slope.
    slopes = (degrees - quarter + 90) % 180 - 90
    angle = (quarter + float(np.median(slopes))) % 360
    return angle - 360 if angle > 180 else angle


def rotation_matrix(degrees: float) -> np.ndarray:
    """Return the matrix (2, 2) that rotates column vectors (x, y) clockwise in an image, where y points down."""
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    # Rounding makes quarter turns exact.
    return np.round(np.array([[cosine, -sine], [sine, cosine]]), 15)


def to_boxes(geometries: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Return the boxes ``(N, 4)`` around geometries.

    Each geometry consists of two corners, or of the points of a polygon. An array ``(N, >= 4)`` or ``(N, P, 2)`` is
    also accepted.

    Raises:
        InvalidArgumentError: if ``geometries`` have another form, or a coordinate is not finite.
    """
    if isinstance(geometries, np.ndarray) and geometries.ndim == 2:
        boxes = geometries[:, :4].astype(np.float64)
    else:
        points = _points(geometries)
        if len(points) == 0:
            return np.zeros((0, 4))
        if isinstance(points, np.ndarray):
            boxes = boxes_around(points)
        else:
            boxes = np.stack([box_around(one) for one in points])
    if not np.isfinite(boxes).all():
        worst = int(np.flatnonzero(~np.isfinite(boxes).all(axis=1))[0])
        raise InvalidArgumentError(f"geometry {worst} has a coordinate that is not finite: {boxes[worst].tolist()}")
    # Rounding errors of a rotation must not decide which of two level boxes is higher.
    return np.round(boxes, _DECIMALS)


def deskew_reading_geometries(
    geoms: Sequence[Any] | np.ndarray,
    region_geoms: Sequence[Any] | np.ndarray | None = None,
    page_shape: tuple[int, int] | None = None,
    angle_geoms: Sequence[Any] | np.ndarray | None = None,
    min_angle: float = 1.0,
) -> tuple[list[Any], list[Any]]:
    """Turn the boxes or polygons of a skewed page upright, before its elements are put into reading order.

    Boxes of two corners have no angle and are returned unchanged. Polygons in ``geoms`` do not show where the top of
    the text is, so they are turned by at most 45 degrees. The polygons in ``angle_geoms`` show the top. With them,
    pages that lie on their side or upside down are turned as well.

    >>> from mediatensor.ocr.models.reading_order import deskew_reading_geometries
    >>> quads = [((0.2, 0.1), (0.8, 0.7), (0.7, 0.8), (0.1, 0.2))]  # a line at 45 degrees
    >>> turned, _ = deskew_reading_geometries(quads, angle_geoms=quads)
    >>> bool(abs(turned[0][0][1] - turned[0][1][1]) < 1e-9)  # both ends at one height
    True

    Args:
        geoms: The elements of a page, such as lines: boxes ``((xmin, ymin), (xmax, ymax))``, polygons of four points
            ``(x, y)``, an array ``(N, 4)`` of xmin, ymin, xmax, ymax, or an array ``(N, 4, 2)`` of polygons.
        region_geoms: Regions of the page layout in the same forms. They are turned by the same angle as the elements.
        page_shape: ``(height, width)`` of the page in pixels, needed for correct angles if coordinates are relative to
            the page. If it is None, coordinates are treated as if the page were square.
        angle_geoms: Polygons of four points that determine the angle, such as the page's words. Their points must go
            clockwise from the top left of the text. By default, ``geoms`` determine the angle.
        min_angle: Pages with a smaller angle, in degrees, are not turned.

    Returns:
        A pair: the list of elements and the list of regions. Turned ones are float64 arrays ``(4, 2)``, in the units of
        ``geoms``; if nothing is turned, all keep their form.
    """
    regions = [] if region_geoms is None else list(region_geoms)
    quads = _quads(geoms)
    if quads is None:
        return list(geoms), regions
    height, width = (1, 1) if page_shape is None else page_shape
    scale = np.array([width, height], dtype=np.float64)
    oriented = None if angle_geoms is None else _quads(angle_geoms)
    angle = reading_angle(order_points(quads * scale) if oriented is None else oriented * scale)
    if abs(angle) < min_angle:
        return list(geoms), regions

    center = (quads * scale).reshape(-1, 2).mean(axis=0)
    turn = rotation_matrix(angle).T

    def upright(points: np.ndarray) -> np.ndarray:
        return np.asarray(((points * scale - center) @ turn + center) / scale)

    return list(upright(quads)), [upright(to_quad(region)) for region in regions]


def _points(geometries: Sequence[Any] | np.ndarray) -> np.ndarray | list[np.ndarray]:
    """Return the points as an array ``(N, P, 2)``; if the numbers of points differ, as a list of arrays ``(P, 2)``."""
    try:
        if len(geometries) == 0:
            return []
        if isinstance(geometries, np.ndarray):
            return geometries.astype(np.float64).reshape(len(geometries), -1, 2)
        points = [np.asarray(geometry, dtype=np.float64).reshape(-1, 2) for geometry in geometries]
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"geometries must be boxes ((xmin, ymin), (xmax, ymax)), polygons of points (x, y), or an array (N, 4) or "
            f"(N, 4, 2) (got {shown(geometries)}: {error})."
        ) from None
    if any(len(one) < 2 for one in points):
        raise InvalidArgumentError(f"each geometry must have at least two points (got {shown(geometries)}).")
    return np.stack(points) if len({len(one) for one in points}) == 1 else points


def _quads(geometries: Sequence[Any] | np.ndarray) -> np.ndarray | None:
    """Return ``(N, 4, 2)`` if all geometries are polygons of four points, else None."""
    points = _points(geometries)
    return points if isinstance(points, np.ndarray) and points.shape[1:] == (4, 2) else None


def detect_text_direction(texts: Iterable[str], language: str | None = None) -> str:
    """Detect whether texts are read from left to right or from right to left.

    The direction of most letters decides, by their bidirectional class in Unicode. Digits and punctuation do not count.
    Vertical writing cannot be detected from characters and is never returned.

    >>> from mediatensor.ocr.models.reading_order import detect_text_direction
    >>> detect_text_direction(["Total", "12.50"])
    'ltr'
    >>> detect_text_direction(["שלום", "12.50"])
    'rtl'
    >>> detect_text_direction(["12.50"], language="fa")
    'rtl'

    Args:
        texts: Words or lines; items that are not strings are skipped.
        language: An ISO 639 code such as ``"ar"``, used only if the texts have no letters.

    Returns:
        ``"ltr"`` (left to right) or ``"rtl"`` (right to left); ``"ltr"`` if there are equally many letters of both.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        if isinstance(text, str):
            counts.update(text)
    left = right = 0
    for character, count in counts.items():
        kind = unicodedata.bidirectional(character)
        if kind == "L":
            left += count
        elif kind in ("R", "AL"):
            right += count
    if left == right == 0 and isinstance(language, str):
        return "rtl" if language.split("-")[0].lower() in _RIGHT_TO_LEFT_LANGUAGES else "ltr"
    return "rtl" if right > left else "ltr"


def check_direction(direction: str, *, auto: bool = False) -> None:
    """Check that a reading direction is valid. ``"auto"`` is valid only if ``auto`` is true.

    Raises:
        InvalidArgumentError: if the direction is not accepted.
    """
    accepted = ("auto", *DIRECTIONS) if auto else DIRECTIONS
    if direction not in accepted:
        raise InvalidArgumentError(f"invalid reading direction {direction!r}, should be one of {accepted}")


def component_roots(number: int, links: np.ndarray) -> np.ndarray:
    """Return int64 ``(N,)``: for each of ``number`` nodes, the lowest index in its connected component.

    ``links`` ``(L, 2)`` are the pairs of nodes that are connected.
    """
    roots = np.arange(number)
    while True:
        # Link the roots, and not only the nodes: otherwise, a long chain in a bad order takes a round for each node.
        ends = roots[links]
        lowest = roots.copy()
        np.minimum.at(lowest, ends, ends[:, ::-1])
        while not np.array_equal(further := lowest[lowest], lowest):
            lowest = further
        if np.array_equal(lowest, roots):
            return roots
        roots = lowest


def to_left_to_right(boxes: np.ndarray, direction: str) -> np.ndarray:
    """Mirror or transpose boxes, so that text in ``direction`` is read from left to right and from top to bottom.

    Boxes are mirrored about their common middle, not the page's, so the unit of the coordinates does not matter.
    """
    if direction == "ltr" or len(boxes) == 0:
        return boxes
    left, top, right, bottom = boxes.T
    if direction == "ttb-ltr":
        return np.stack([top, left, bottom, right], axis=1)
    extent = left.min() + right.max()
    if direction == "rtl":
        return np.stack([extent - right, top, extent - left, bottom], axis=1)
    return np.stack([top, extent - right, bottom, extent - left], axis=1)


def has_text_columns(boxes: np.ndarray, width: float, horizontal: bool) -> bool:
    """Return whether a vertical line separates the boxes into columns that are read one after the other.

    The line lies in the middle half of the page and crosses at most 5 % of the boxes, or one box if 5 % is less than
    one.

    The result is false if the two sides look like a table. In a table, the boxes of each side are aligned, and most
    boxes of one side are level with a box of the other side. Moreover, either the boxes are short and spaced apart, as
    in a form, or one side is very narrow, as a column of prices or list numbers is. Vertical text
    (``horizontal=False``) is never a table.
    """
    gutter = _gutter(boxes, width)
    if gutter is None:
        return False
    if not horizontal:
        return True
    crossing = np.minimum(boxes[:, 2] - gutter, gutter - boxes[:, 0]) > 0.02 * width
    on_left = boxes[:, 0] + boxes[:, 2] <= 2 * gutter
    return not _is_table(boxes[on_left & ~crossing], boxes[~on_left & ~crossing])


def _gutter(boxes: np.ndarray, width: float) -> float | None:
    """Return x of the vertical line that crosses the fewest boxes; None if every vertical line crosses too many."""
    number = len(boxes)
    if number < 3:
        return None
    left, right = boxes[:, 0], boxes[:, 2]
    low, high = left.min() + 0.25 * width, left.min() + 0.75 * width
    gutters = np.unique(right[(right >= low) & (right <= high)])
    on_left = np.searchsorted(np.sort((left + right) / 2), gutters, side="right")
    gutters = gutters[(on_left >= 0.25 * number) & (number - on_left >= 0.25 * number)]
    if len(gutters) == 0:
        return None
    step = max(1, _PAIRS_AT_ONCE // number)
    crossing = np.concatenate(
        [
            (np.minimum(right - part[:, None], part[:, None] - left) > 0.02 * width).sum(axis=1)
            for part in np.split(gutters, range(step, len(gutters), step))
        ]
    )
    best = int(crossing.argmin())
    return float(gutters[best]) if crossing[best] <= max(1, int(0.05 * number)) else None


def _is_table(left: np.ndarray, right: np.ndarray) -> bool:
    """Return whether ``left`` and ``right`` are the two sides of a form or table, not two columns of text."""
    if min(len(left), len(right)) < _MIN_ROWS:
        return False
    height = float(np.median(np.concatenate((left, right)) @ (0, -1, 0, 1)))
    if not (_is_aligned(left, height) and _is_aligned(right, height)):
        return False
    shorter, longer = sorted((left, right), key=len)
    middles = np.sort(longer[:, 1] + longer[:, 3]) / 2
    wanted = (shorter[:, 1] + shorter[:, 3]) / 2
    after = np.searchsorted(middles, wanted).clip(1, len(middles) - 1)
    distances = np.minimum(np.abs(middles[after] - wanted), np.abs(middles[after - 1] - wanted))
    if (distances < height / 2).mean() < _LEVEL_SHARE:
        return False
    if min(float(np.median(side[:, 2] - side[:, 0])) for side in (left, right)) <= _NARROW * height:
        return True
    pitch = float(np.median(right[:, 0]) - np.median(left[:, 0]))
    if np.median(left[:, 2] - left[:, 0]) > _FIELD_FILL * pitch:
        return False
    return min(_median_gap(left), _median_gap(right)) > _FIELD_GAP * height


def _is_aligned(side: np.ndarray, height: float) -> bool:
    """Return whether most lines of a side have about the same left edge, or about the same right edge."""
    edges = side[:, 0::2]
    near = np.abs(edges - np.median(edges, axis=0)) <= _COLUMN_ALIGNED_WITHIN * height
    return bool(near.mean(axis=0).max() >= _ALIGNED_SHARE)


def _median_gap(side: np.ndarray) -> float:
    order = np.argsort(side[:, 1], kind="stable")
    return float(np.median(side[order[1:], 1] - side[order[:-1], 3]))


def row_numbers(boxes: np.ndarray) -> np.ndarray:
    """Group lines into rows that are read across.

    Two lines at the same height with nothing between them are in one row, unless the gap between them is a gutter,
    which separates two columns of text. A gap looks like a gutter if the lines on both sides are prose. A stack
    consists of aligned lines, each closely below the one before it. The lines of a stack are prose if most of them fill
    their column. Table cells, in contrast, are short or differ in length. Each gap votes by what it looks like. A gap
    is a gutter if the majority of this gap and the gaps near it votes for a gutter.

    Args:
        boxes: float64 ``(N, 4)``: the upright boxes of lines, with x and y in the same unit. For text that reads from
            right to left, they must be mirrored.

    Returns:
        int64 ``(N,)``: the row number of each line.
    """
    number = len(boxes)
    alone = np.arange(number)
    if not 2 <= number <= _MAX_LINES:
        return alone
    heights = boxes[:, 3] - boxes[:, 1]
    height = float(np.median(heights))
    if not height > 0:
        return alone
    pairs = _neighbours(boxes, heights)
    if len(pairs) == 0:
        return alone
    columns = _look_like_gutters(boxes, height, pairs)
    return component_roots(number, pairs[~_vote_with_near_gaps(columns, boxes, pairs, height)])


def _look_like_gutters(boxes: np.ndarray, height: float, pairs: np.ndarray) -> np.ndarray:
    """Return bool ``(P,)``: whether the gap in each of the ``pairs`` of neighbours looks like a gutter.

    A gap looks like a gutter if both of its lines are prose. One line of prose is enough if it is wide, with two
    exceptions. In the first, the other line is narrow and at an end of its row, so it can be a number. In the second,
    the wide line is on the right and starts its paragraph, so the left line can be its label.
    """
    is_prose, begins = _prose(boxes, height, pairs)
    prose, first = is_prose[pairs], begins[pairs]
    widths = boxes[pairs, 2] - boxes[pairs, 0]
    wide, narrow = widths >= _WIDE * height, widths <= _NARROW * height
    # Each row has whether the left line is the first of its row, and whether the right line is the last.
    last = ~np.stack([np.isin(pairs[:, 0], pairs[:, 1]), np.isin(pairs[:, 1], pairs[:, 0])], axis=1)
    beside = prose & wide & ~(narrow & last)[:, ::-1]
    beside[:, 1] &= ~first[:, 1]
    columns: np.ndarray = prose.all(axis=1) | beside.any(axis=1)
    return columns


def _neighbours(boxes: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Return pairs of neighbours, int64 ``(P, 2)``: a line, and the next line to its right at the same height."""
    level_pairs = []
    for index in range(len(boxes)):
        box = boxes[index]
        common = np.minimum(box[3], boxes[:, 3]) - np.maximum(box[1], boxes[:, 1])
        lower, higher = np.minimum(heights[index], heights), np.maximum(heights[index], heights)
        level = (common > _LEVEL_OVERLAP * lower) & (higher <= _MAX_HEIGHT_RATIO * lower)
        level &= boxes[:, 0] > box[0]
        candidates = np.flatnonzero(level)
        if len(candidates):
            level_pairs.append((index, int(candidates[boxes[candidates, 0].argmin()])))
    # If several lines have the same right neighbour, only the nearest line keeps it.
    nearest: dict[int, int] = {}
    for first, second in level_pairs:
        if second not in nearest or boxes[first, 2] > boxes[nearest[second], 2]:
            nearest[second] = first
    return np.array([(first, second) for second, first in nearest.items()], dtype=np.int64).reshape(-1, 2)


def _prose(boxes: np.ndarray, height: float, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays, bool ``(N,)``: whether each line is prose, and whether it is the first of its stack.

    A stack consists of aligned lines, each closely below the one before it.
    """
    widths = boxes[:, 2] - boxes[:, 0]
    beside: dict[int, list[int]] = {}
    for first, second in pairs.tolist():
        beside.setdefault(first, []).append(second)
        beside.setdefault(second, []).append(first)

    def spans(line: int, other: int) -> bool:
        """Return whether ``line`` covers over half of the width of a line to the left or right of ``other``."""
        return any(
            min(boxes[line, 2], boxes[index, 2]) - max(boxes[line, 0], boxes[index, 0]) > 0.5 * widths[index]
            for index in beside.get(other, ())
        )

    links = []
    for index in range(len(boxes)):
        box = boxes[index]
        gaps = boxes[:, 1] - box[3]
        under = (boxes[:, 1] > (box[1] + box[3]) / 2) & (gaps <= _MAX_LEADING * height)
        aligned = np.abs(boxes[:, [0, 2]] - box[[0, 2]]).min(axis=1) <= _ALIGNED_WITHIN * height
        candidates = np.flatnonzero(under & aligned)
        if len(candidates):
            below = int(candidates[boxes[candidates, 1].argmin()])
            if not spans(index, below) and not spans(below, index):
                links.append((index, below))
    stacks = component_roots(len(boxes), np.array(links, dtype=np.int64).reshape(-1, 2))
    begins = np.ones(len(boxes), dtype=bool)
    begins[[second for _, second in links]] = False
    is_prose = np.zeros(len(boxes), dtype=bool)
    for stack in np.unique(stacks):
        members = np.flatnonzero(stacks == stack)
        if len(members) >= _MIN_PROSE_LINES:
            full = float(np.quantile(widths[members], 0.9))
            share = float((widths[members] >= _FULL_WIDTH * full).mean())
            is_prose[members] = full >= _MIN_PROSE_WIDTH * height and share >= _FULL_SHARE
    return is_prose, begins


def _vote_with_near_gaps(columns: np.ndarray, boxes: np.ndarray, pairs: np.ndarray, height: float) -> np.ndarray:
    """Return bool ``(P,)``: whether each gap is a gutter, by a vote of this gap and the gaps near it. A tie means yes.

    ``columns`` is the vote of each gap. If several of the near gaps are in one row, only the one that overlaps this gap
    most may vote.
    """
    starts = boxes[pairs[:, 0], 2] - _MAX_OVERLAP * height
    ends = boxes[pairs[:, 1], 0] + _MAX_OVERLAP * height
    middles = (boxes[pairs, 1] + boxes[pairs, 3]).mean(axis=1) / 2
    chains = component_roots(len(boxes), pairs)[pairs[:, 0]]
    agreed = np.empty(len(pairs), dtype=bool)
    for index in range(len(pairs)):
        common = np.minimum(ends, ends[index]) - np.maximum(starts, starts[index])
        common[index] = np.inf
        near = np.flatnonzero((np.abs(middles - middles[index]) <= _GUTTER_REACH * height) & (common > 0))
        near = near[np.argsort(-common[near], kind="stable")]
        votes = columns[near[np.unique(chains[near], return_index=True)[1]]]
        agreed[index] = 2 * votes.sum() >= len(votes)
    return agreed


def normalize_layout_label(label: str | None) -> str:
    """Normalise a layout label: lower case, with an underscore for each character that is not a letter or digit.

    >>> from mediatensor.ocr.models.reading_order import normalize_layout_label
    >>> normalize_layout_label("Page-header")
    'page_header'

    Args:
        label: The label, or None.

    Returns:
        The normalised label; an empty string for None.
    """
    if label is None:
        return ""
    return "".join(character if character.isalnum() else "_" for character in label.strip().lower())


def layout_label_role(label: str | None) -> str:
    """Return the role of a layout label, which determines where an element comes in the reading order.

    >>> from mediatensor.ocr.models.reading_order import layout_label_role
    >>> layout_label_role("Picture"), layout_label_role("Text")
    ('float', 'body')

    Args:
        label: A label, such as a class name of DocLayNet. None and unknown labels have the role ``"body"``.

    Returns:
        ``"header"``, ``"footer"``, ``"footnote"``, ``"caption"``, ``"float"`` (tables and figures) or ``"body"``.
    """
    return _ROLES.get(normalize_layout_label(label), "body")
