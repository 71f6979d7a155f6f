"""Order boxes as they are read, and split the order into paragraphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError
from ..utils.geometry import box_around
from .boxes import (
    check_direction,
    deskew_reading_geometries,
    detect_text_direction,
    has_text_columns,
    layout_label_role,
    normalize_layout_label,
    to_boxes,
    to_left_to_right,
)

# Elements are compared with regions about this many pairs at a time, to bound memory.
_PAIRS_AT_ONCE = 1 << 20

# Time grows with the square of the number of boxes. Printed pages have hundreds. Only hostile files have more than
# this limit; their boxes are ordered row by row.
_MAX_RELATED = 4_000
# Maximum gap between table rows of one segment, in median heights. Gaps between paragraphs may be smaller.
_ROW_GAP = 2.0


class Relations:
    """Relative positions of boxes that are read from left to right and from top to bottom.

    Two boxes are *stacked* if one is above the other, and *level* if they are next to each other in a row. The methods
    compare each of R boxes with each of C boxes. ``rows`` and ``columns`` are the indices of these boxes.

    Args:
        boxes: float64 ``(N, 4)``.
        x_overlap_threshold: Two boxes count as stacked if they overlap horizontally by more than this share of the
            smaller width.
        y_overlap_threshold: Two boxes count as level if they overlap vertically by more than this share of the smaller
            height.
    """

    def __init__(self, boxes: np.ndarray, x_overlap_threshold: float, y_overlap_threshold: float) -> None:
        self._x = boxes[:, 0::2].astype(np.float32)
        self._y = boxes[:, 1::2].astype(np.float32)
        self._x_threshold, self._y_threshold = x_overlap_threshold, y_overlap_threshold
        # Ranks are strict orders on both axes, so two boxes never precede each other.
        self._x_rank, self._y_rank = _ranks(boxes[:, 0], boxes[:, 2]), _ranks(boxes[:, 1], boxes[:, 3])

    def stacked(self, rows: np.ndarray, columns: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return bool ``(R, C)``: whether each box of ``rows`` is above or below each box of ``columns``."""
        stacked: np.ndarray = _overlaps(self._x, rows, columns) > self._x_threshold
        return stacked

    def level(self, rows: np.ndarray, columns: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return bool ``(R, C)``: whether each box of ``rows`` is level with (next to) each box of ``columns``."""
        level: np.ndarray = _overlaps(self._y, rows, columns) > self._y_threshold
        return level

    def precedes(self, rows: np.ndarray) -> np.ndarray:
        """Return bool ``(R, N)``: whether each of the boxes ``rows`` must be read before each of the N boxes.

        Of two stacked boxes, the upper one comes first. Of two boxes that are level but not stacked, the left one comes
        first (Breuel 2003, "High performance document layout analysis").
        """
        stacked = self.stacked(rows)
        above = self._y_rank[rows][:, None] < self._y_rank
        left = self._x_rank[rows][:, None] < self._x_rank
        before: np.ndarray = np.where(stacked, above, self.level(rows) & left)
        return before

    def predecessors(self) -> np.ndarray:
        """Return int64 ``(N,)``: the number of boxes that must be read before each box."""
        number = len(self._x)
        counts = np.zeros(number, dtype=np.int64)
        step = max(1, _PAIRS_AT_ONCE // number)
        for start in range(0, number, step):
            counts += self.precedes(np.arange(start, min(start + step, number))).sum(axis=0)
        return counts

    def columns(self, spanning: np.ndarray) -> np.ndarray:
        """Return int64 ``(N,)``: the column number of each box.

        Boxes that are one below the other form a chain, which is one column.

        Args:
            spanning: Bool ``(N,)``: whether each box spans several columns. Such boxes do not belong to a chain.
        """
        labels = np.arange(len(self._x))
        unseen = ~spanning
        for first in range(len(labels)):
            if not unseen[first]:
                continue
            unseen[first] = False
            frontier = np.array([first])
            while len(frontier):
                labels[frontier] = first
                frontier = self._stacked_with(frontier, np.flatnonzero(unseen))
                unseen[frontier] = False
        return labels

    def _stacked_with(self, frontier: np.ndarray, others: np.ndarray) -> np.ndarray:
        is_stacked = np.zeros(len(others), dtype=bool)
        step = max(1, _PAIRS_AT_ONCE // max(1, len(others)))
        for start in range(0, len(frontier), step):
            is_stacked |= self.stacked(frontier[start : start + step], others).any(axis=0)
        return others[is_stacked]


def _overlaps(intervals: np.ndarray, rows: np.ndarray, columns: np.ndarray | slice) -> np.ndarray:
    """Return float32 ``(R, C)``: the overlap of each pair of intervals, as a share of the shorter one."""
    starts, ends = intervals[:, 0], intervals[:, 1]
    common = np.minimum(ends[rows][:, None], ends[columns]) - np.maximum(starts[rows][:, None], starts[columns])
    lengths = ends - starts
    shorter = np.minimum(lengths[rows][:, None], lengths[columns])
    ratios: np.ndarray = common.clip(0) / shorter.clip(1e-9)
    return ratios


def _ranks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return int64 ``(N,)``: the rank of each element when sorted by ``first``, then ``second``, then index."""
    order = np.lexsort((second, first))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks


def assign_layout_labels(
    geoms: Sequence[Any] | np.ndarray,
    layout_geoms: Sequence[Any] | np.ndarray,
    layout_labels: Sequence[str],
    min_coverage: float = 0.5,
    page_shape: tuple[int, int] | None = None,
    angle_geoms: Sequence[Any] | np.ndarray | None = None,
) -> list[str | None]:
    """Give each element of a page the label of the layout region that covers most of it.

    >>> from mediatensor.ocr.models.reading_order import assign_layout_labels
    >>> assign_layout_labels([((0.1, 0.1), (0.3, 0.2))], [((0.0, 0.0), (0.5, 0.5))], ["Title"])
    ['Title']

    Args:
        geoms: Boxes or polygons of the elements, in any form that ``sort_reading_order`` takes.
        layout_geoms: Boxes or polygons of the regions, in the same forms.
        layout_labels: One label for each region.
        min_coverage: The minimum share of an element's area, from 0 to 1, that a region must cover.
        page_shape, angle_geoms: The page's ``(height, width)``, and polygons that show the angle of a skewed page; see
            ``deskew_reading_geometries``.

    Returns:
        A list with a label for each element; None if no region covers enough of the element.

    Raises:
        InvalidArgumentError: if there are not as many labels as regions, or a coordinate is not finite.
    """
    geoms, layout_geoms = deskew_reading_geometries(geoms, layout_geoms, page_shape=page_shape, angle_geoms=angle_geoms)
    boxes, regions = to_boxes(geoms), to_boxes(layout_geoms)
    if len(layout_labels) != len(regions):
        raise InvalidArgumentError(f"{len(layout_labels)} labels were given for {len(regions)} regions: give one each")
    return [
        None if index < 0 else str(layout_labels[index]) for index in covering_regions(boxes, regions, min_coverage)
    ]


def covering_regions(boxes: np.ndarray, regions: np.ndarray, min_coverage: float = 0.5) -> list[int]:
    """Return the index of the region ``(R, 4)`` that covers most of each box ``(N, 4)``; -1 if none covers enough."""
    if len(regions) == 0:
        return [-1] * len(boxes)
    indices: list[int] = []
    step = max(1, _PAIRS_AT_ONCE // len(regions))
    for start in range(0, len(boxes), step):
        part = boxes[start : start + step, None]
        overlap = np.minimum(part[..., 2:], regions[:, 2:]) - np.maximum(part[..., :2], regions[:, :2])
        areas = (part[..., 2:] - part[..., :2]).prod(axis=2).clip(1e-9)
        coverage = overlap.clip(0).prod(axis=2) / areas
        best = coverage.argmax(axis=1)
        is_covered = coverage[np.arange(len(best)), best] >= min_coverage
        indices += np.where(is_covered, best, -1).tolist()
    return indices


def sort_reading_order(
    geoms: Sequence[Any] | np.ndarray,
    direction: str = "ltr",
    labels: Sequence[str | None] | None = None,
    x_overlap_threshold: float = 0.2,
    y_overlap_threshold: float = 0.5,
    caption_max_distance: float = 0.1,
    page_shape: tuple[int, int] | None = None,
    angle_geoms: Sequence[Any] | np.ndarray | None = None,
) -> list[int]:
    """Sort the elements of a page, such as lines or paragraphs, in reading order.

    An element follows the elements above it in the same column and the earlier elements of its row. Among the elements
    that could be next, one below the last element comes first if the page has columns of text, then one in its row,
    then one in its column, then the topmost. If layout labels are given, headers come first, footnotes and footers come
    last, and captions come next to their figure.

    >>> from mediatensor.ocr.models.reading_order import sort_reading_order
    >>> right, title, left = ((0.55, 0.2), (0.9, 0.8)), ((0.1, 0.05), (0.9, 0.15)), ((0.1, 0.2), (0.45, 0.8))
    >>> sort_reading_order([right, title, left])
    [1, 2, 0]
    >>> sort_reading_order([right, title, left], direction="rtl")
    [1, 0, 2]

    Args:
        geoms: The elements: boxes ``((xmin, ymin), (xmax, ymax))``, polygons of four points ``(x, y)``, an array
            ``(N, 4)`` of xmin, ymin, xmax, ymax, or an array ``(N, 4, 2)`` of polygons. Coordinates are relative to the
            page (0 to 1) or in pixels.
        direction: ``"ltr"`` (Latin, Cyrillic, horizontal Chinese), ``"rtl"`` (Arabic, Hebrew), ``"ttb-rtl"`` (vertical
            lines, the first one at the right) or ``"ttb-ltr"`` (vertical lines, the first one at the left).
        labels: One layout label for each element, such as a class name of DocLayNet. An element with the label None
            belongs to the body of the page.
        x_overlap_threshold: Two elements are in one column if they overlap horizontally by more than this share of the
            smaller width.
        y_overlap_threshold: Two elements are in one row if they overlap vertically by more than this share of the
            smaller height.
        caption_max_distance: Maximum distance of a caption from its figure or table, in the unit of ``geoms``.
        page_shape, angle_geoms: The page's ``(height, width)``, and polygons that show the angle of a skewed page; see
            ``deskew_reading_geometries``.

    Returns:
        A list of the indices of all elements, in reading order.

    Raises:
        InvalidArgumentError: if the direction is unknown, the number of labels is wrong, or a coordinate is not finite.
    """
    check_direction(direction)
    upright, _ = deskew_reading_geometries(geoms, page_shape=page_shape, angle_geoms=angle_geoms)
    boxes = to_left_to_right(to_boxes(upright), direction)
    _check_labels(labels, boxes)
    return _order_labelled(boxes, direction, labels, x_overlap_threshold, y_overlap_threshold, caption_max_distance)


def resolve_reading_segments(
    geoms: Sequence[Any] | np.ndarray,
    direction: str = "ltr",
    labels: Sequence[str | None] | None = None,
    x_overlap_threshold: float = 0.2,
    y_overlap_threshold: float = 0.5,
    caption_max_distance: float = 0.1,
    paragraph_gap: float = 0.8,
    page_shape: tuple[int, int] | None = None,
    angle_geoms: Sequence[Any] | np.ndarray | None = None,
    *,
    rows: Sequence[Sequence[int]] | None = None,
) -> list[list[int]]:
    """Sort lines in reading order, and group them into paragraphs.

    Two successive lines are in one paragraph (segment) if they have the same label, are in the same column, and are
    close to each other. Each table or figure is its own segment.

    >>> from mediatensor.ocr.models.reading_order import resolve_reading_segments
    >>> lines = [((0.1, 0.10), (0.9, 0.12)), ((0.1, 0.13), (0.9, 0.15)), ((0.1, 0.30), (0.9, 0.32))]
    >>> resolve_reading_segments(lines)
    [[0, 1], [2]]

    Args:
        geoms: Boxes or polygons of the lines, in any form that ``sort_reading_order`` takes.
        direction, labels, x_overlap_threshold, y_overlap_threshold, caption_max_distance: The reading direction, the
            layout labels of the lines, and limits for columns, rows and captions; see ``sort_reading_order``.
        paragraph_gap: Maximum vertical gap between two lines of a segment, as a multiple of the median line height.
        page_shape, angle_geoms: The page's ``(height, width)``, and polygons that show the angle of a skewed page; see
            ``deskew_reading_geometries``.
        rows: Rows of lines that are read across, as in a table: for each row, a list of line indices in reading order.
            Every line must be in exactly one row. If two lines are side by side, but in different rows, they belong to
            different columns of text. None if the rows are unknown.

    Returns:
        A list of segments, each a list of line indices. Segments and lines are in reading order.

    Raises:
        InvalidArgumentError: if the direction is unknown, the number of labels is wrong, or a coordinate is not finite.
    """
    check_direction(direction)
    upright, _ = deskew_reading_geometries(geoms, page_shape=page_shape, angle_geoms=angle_geoms)
    boxes = to_left_to_right(to_boxes(upright), direction)
    _check_labels(labels, boxes)
    thresholds = x_overlap_threshold, y_overlap_threshold, caption_max_distance
    if not rows:
        order = _order_labelled(boxes, direction, labels, *thresholds)
        return _cut_into_paragraphs(boxes, order, labels, x_overlap_threshold, paragraph_gap)
    members = [np.array(row) for row in rows]
    unions = np.stack([box_around(boxes[row]) for row in members])
    is_row = np.array([len(row) > 1 for row in rows])
    row_labels = None if labels is None else [labels[row[0]] for row in rows]
    order = _order_labelled(unions, direction, row_labels, *thresholds, knows_rows=True)
    segments = _cut_into_paragraphs(unions, order, row_labels, x_overlap_threshold, paragraph_gap, is_row)
    return [[int(index) for row in segment for index in members[row]] for segment in segments]


def _cut_into_paragraphs(
    boxes: np.ndarray,
    order: list[int],
    labels: Sequence[str | None] | None,
    x_overlap_threshold: float,
    paragraph_gap: float,
    is_row: np.ndarray | None = None,
) -> list[list[int]]:
    """Split boxes, which are read in ``order``, into paragraphs. The boxes come from `to_left_to_right`."""
    if not order:
        return []
    first, second = boxes[order[:-1]], boxes[order[1:]]
    common = np.minimum(first[:, 2], second[:, 2]) - np.maximum(first[:, 0], second[:, 0])
    narrower = np.minimum(first[:, 2] - first[:, 0], second[:, 2] - second[:, 0]).clip(1e-9)
    median_height = float(np.median(boxes[:, 3] - boxes[:, 1]))
    joined = common / narrower > x_overlap_threshold
    gaps = np.full(len(joined), paragraph_gap)
    if is_row is not None:
        # Rows of a table stay together even if they are spaced apart.
        gaps[is_row[order[:-1]] & is_row[order[1:]]] = max(paragraph_gap, _ROW_GAP)
        joined &= ~_leave_column(boxes, first, second)
    joined &= second[:, 1] - first[:, 3] <= gaps * median_height
    if labels is not None:
        names = [normalize_layout_label(labels[index]) for index in order]
        joined &= np.array([one == other for one, other in pairwise(names)], dtype=bool)
        joined &= np.array([layout_label_role(name) != "float" for name in names[1:]], dtype=bool)
    return [part.tolist() for part in np.split(np.array(order), np.flatnonzero(~joined) + 1)]


def _leave_column(boxes: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return bool ``(N - 1,)``: whether text enters or leaves a column between boxes ``first[i]`` and ``second[i]``.

    Text enters or leaves a column if one of the two boxes is in a column and the other box spans several columns. This
    is detected by a third box, which is level with the box in the column, and above or below the other box.
    """
    leaves = np.zeros(len(first), dtype=bool)
    middles = (boxes[:, 1] + boxes[:, 3]) / 2
    for index, pair in enumerate(zip(first, second, strict=True)):
        for one, other in (pair, pair[::-1]):
            beside = (middles > one[1]) & (middles < one[3])
            beside &= (boxes[:, 0] >= one[2]) | (boxes[:, 2] <= one[0])
            common = np.minimum(boxes[:, 2], other[2]) - np.maximum(boxes[:, 0], other[0])
            leaves[index] |= bool((beside & (common > 0.5 * (boxes[:, 2] - boxes[:, 0]))).any())
    return leaves


def _check_labels(labels: Sequence[str | None] | None, boxes: np.ndarray) -> None:
    if labels is not None and len(labels) != len(boxes):
        raise InvalidArgumentError(f"{len(labels)} labels were given for {len(boxes)} geometries: give one for each")


def _order_labelled(
    boxes: np.ndarray,
    direction: str,
    labels: Sequence[str | None] | None,
    x_overlap_threshold: float,
    y_overlap_threshold: float,
    caption_max_distance: float,
    knows_rows: bool = False,
) -> list[int]:
    """Order boxes by their labels: headers, body with captions, footnotes, footers.

    The boxes come from `to_left_to_right`. With ``knows_rows``, each box is a whole row, so boxes next to each other
    belong to different columns of text.
    """
    horizontal = not direction.startswith("ttb")

    def order(indices: list[int]) -> list[int]:
        within = _order(boxes[indices], horizontal, x_overlap_threshold, y_overlap_threshold, knows_rows)
        return [indices[index] for index in within]

    if labels is None:
        return order(list(range(len(boxes))))
    roles = [layout_label_role(label) for label in labels]
    parts = {
        role: order([index for index, item_role in enumerate(roles) if item_role in members])
        for role, members in {
            "header": ("header",),
            "body": ("body", "float"),
            "caption": ("caption",),
            "footnote": ("footnote",),
            "footer": ("footer",),
        }.items()
    }
    floats = [index for index in parts["body"] if roles[index] == "float"]
    body = _attach_captions(parts["body"], parts["caption"], floats, boxes, caption_max_distance)
    return parts["header"] + body + parts["footnote"] + parts["footer"]


def _attach_captions(
    body: list[int], captions: list[int], floats: list[int], boxes: np.ndarray, max_distance: float
) -> list[int]:
    """Insert each caption next to the nearest figure or table. If none is near, insert it by its vertical position."""
    order = list(body)
    targets = boxes[floats]
    for caption in captions:
        left, top, right, bottom = boxes[caption]
        if floats:
            x_gaps = np.maximum(np.maximum(targets[:, 0] - right, left - targets[:, 2]), 0)
            y_gaps = np.maximum(np.maximum(targets[:, 1] - bottom, top - targets[:, 3]), 0)
            # Captions are usually above or below their figure, so horizontal distance counts twice.
            distances = y_gaps + 2 * x_gaps
            nearest = int(distances.argmin())
            if distances[nearest] <= max_distance:
                above = (top + bottom) / 2 <= (targets[nearest, 1] + targets[nearest, 3]) / 2
                order.insert(order.index(floats[nearest]) + (0 if above else 1), caption)
                continue
        below = np.flatnonzero(boxes[order, 1] >= top)
        order.insert(int(below[0]) if len(below) else len(order), caption)
    return order


def _order(
    boxes: np.ndarray,
    horizontal: bool,
    x_overlap_threshold: float,
    y_overlap_threshold: float,
    knows_rows: bool = False,
) -> list[int]:
    """Order boxes from `to_left_to_right` by the rules of `Relations.precedes`, and keep columns of text together."""
    number = len(boxes)
    if number <= 1:
        return list(range(number))
    left, top = boxes[:, 0], boxes[:, 1]
    if number > _MAX_RELATED:
        height = float(np.median(boxes[:, 3] - top)) or 1.0
        rows = np.floor((top + boxes[:, 3]) / 2 / height)
        return [int(index) for index in np.lexsort((left, rows))]
    relations = Relations(boxes, x_overlap_threshold, y_overlap_threshold)
    width = float(boxes[:, 2].max() - left.min()) or 1.0
    spanning = boxes[:, 2] - left > 0.5 * width
    columns = relations.columns(spanning)
    follow_column = knows_rows or has_text_columns(boxes, width, horizontal)
    waiting = relations.predecessors()
    pending = np.ones(number, dtype=bool)
    order: list[int] = []
    for _ in range(number):
        ready = np.flatnonzero(pending & (waiting == 0))
        if len(ready) == 0:
            # Boxes with irregular overlaps can form a cycle. The topmost box breaks the cycle.
            candidates = np.flatnonzero(pending)
        elif order:
            candidates = _next_candidates(order[-1], ready, boxes, relations, columns, spanning, follow_column)
        else:
            candidates = ready
        chosen = int(candidates[np.lexsort((left[candidates], top[candidates]))[0]])
        order.append(chosen)
        pending[chosen] = False
        waiting -= relations.precedes(np.array([chosen]))[0]
    return order


def _next_candidates(
    last: int,
    ready: np.ndarray,
    boxes: np.ndarray,
    relations: Relations,
    columns: np.ndarray,
    spanning: np.ndarray,
    follow_column: bool,
) -> np.ndarray:
    """Return the ``ready`` boxes that continue the text after box ``last``.

    The result is the first of these groups that is not empty: boxes below ``last`` (only with ``follow_column``), boxes
    level with ``last``, boxes in the column of ``last``, all ``ready`` boxes.
    """
    here = np.array([last])
    if follow_column:
        below: np.ndarray = ready[relations.stacked(here, ready)[0] & (boxes[ready, 1] >= boxes[last, 1])]
        if len(below):
            return below
    beside: np.ndarray = ready[relations.level(here, ready)[0]]
    if len(beside):
        return beside
    if not spanning[last]:
        column: np.ndarray = ready[columns[ready] == columns[last]]
        if len(column):
            return column
    return ready


class ReadingOrderPredictor:
    """Sorts the elements of a page in reading order. Call it with their boxes; it returns a list of their indices.

    >>> import numpy as np
    >>> from mediatensor.ocr.models.reading_order import ReadingOrderPredictor
    >>> predictor = ReadingOrderPredictor()
    >>> boxes = np.array([[0.55, 0.2, 0.9, 0.8], [0.1, 0.05, 0.9, 0.15], [0.1, 0.2, 0.45, 0.8]])
    >>> predictor(boxes, texts=["right column", "title", "left column"])
    [1, 2, 0]

    Args:
        direction: ``"ltr"``, ``"rtl"``, ``"ttb-rtl"`` or ``"ttb-ltr"``, as in ``sort_reading_order``. ``"auto"``
            detects ``"ltr"`` or ``"rtl"`` from the text.
        x_overlap_threshold, y_overlap_threshold, caption_max_distance: Limits for columns, rows and captions; see
            ``sort_reading_order``.

    Raises:
        InvalidArgumentError: if the direction is unknown.
    """

    def __init__(
        self,
        direction: str = "auto",
        x_overlap_threshold: float = 0.2,
        y_overlap_threshold: float = 0.5,
        caption_max_distance: float = 0.1,
    ) -> None:
        check_direction(direction, auto=True)
        self.direction = direction
        self.x_overlap_threshold = x_overlap_threshold
        self.y_overlap_threshold = y_overlap_threshold
        self.caption_max_distance = caption_max_distance

    def resolve_direction(self, texts: Iterable[str] | None = None, language: str | None = None) -> str:
        """Return the reading direction of a text: the detected one if ``direction`` is ``"auto"``, else ``direction``.

        Args:
            texts: Words or lines from which an ``"auto"`` direction is detected.
            language: An ISO 639 code such as ``"ar"``, used if the texts have no letters.

        Returns:
            One of ``"ltr"``, ``"rtl"``, ``"ttb-rtl"`` and ``"ttb-ltr"``.
        """
        if self.direction != "auto":
            return self.direction
        return detect_text_direction([] if texts is None else texts, language=language)

    def extra_repr(self) -> str:
        """Return the ``direction`` setting as text, for ``repr``."""
        return f"direction={self.direction!r}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def __call__(
        self,
        geoms: Sequence[Any] | np.ndarray,
        texts: Sequence[str] | None = None,
        labels: Sequence[str | None] | None = None,
        language: str | None = None,
        page_shape: tuple[int, int] | None = None,
        angle_geoms: Sequence[Any] | np.ndarray | None = None,
    ) -> list[int]:
        """Return the order in which the elements of a page are read.

        Args:
            geoms: Boxes or polygons of the elements, in any form that ``sort_reading_order`` takes.
            texts: Texts of the page, from which an ``"auto"`` direction is detected.
            labels: One layout label for each element.
            language: An ISO 639 code such as ``"ar"``, used if the texts have no letters.
            page_shape, angle_geoms: The page's ``(height, width)``, and polygons that show the angle of a skewed page;
                see ``deskew_reading_geometries``.

        Returns:
            A list of the indices of all elements, in reading order.
        """
        return sort_reading_order(
            geoms,
            direction=self.resolve_direction(texts, language=language),
            labels=labels,
            x_overlap_threshold=self.x_overlap_threshold,
            y_overlap_threshold=self.y_overlap_threshold,
            caption_max_distance=self.caption_max_distance,
            page_shape=page_shape,
            angle_geoms=angle_geoms,
        )
