"""The parts of a document: group words into lines and blocks, and convert regions, tables and fields to elements.

The functions for lines and blocks take and return arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....errors import InvalidArgumentError, MissingDependencyError
from ..._reading_order.boxes import reading_angle, rotation_matrix
from ...io._elements.elements import Word
from ...io._elements.pages import Field, LayoutElement, Table, TableCell
from ...structure import PageStructure
from ...utils.geometry import box_around, boxes_around, boxes_to_polygons, to_quad
from .._lines.page_lines import geometries_of

# A word inside a table but outside all its cells belongs to the nearest cell, if the distance is within this share
# of the usual cell diagonal; as in docTR.
_MAX_DISTANCE = 0.5
# Words of a cell are in one row if their centers differ by less than this share of their usual height; as in docTR.
_ROW_SHARE = 0.5

# Below this angle a page counts as straight, as in docTR.
_MIN_DEGREES = 1.0
# Assumed page size if the size is unknown, as in docTR. Only the ratio of the sides matters.
_UNKNOWN_SHAPE = (1024, 1024)
# Words of one detected line are separated only at gaps of at least this many line heights. Gaps in justified text are
# smaller than this, and gaps between form fields are larger.
_LINE_GAP_HEIGHTS = 2.0
# The median of fewer gaps than this does not represent the page.
_ENOUGH_GAPS = 5
# Lines of a block must overlap horizontally by this share of the narrower line, and have similar heights.
_MIN_BLOCK_OVERLAP = 0.2
_MAX_HEIGHT_RATIO = 1.75
# Lines are compared with the lines below them in slices of about this many pairs, to limit memory use.
_PAIRS_AT_ONCE = 1 << 20

# A page of straight boxes is skewed if its detected lines slope by at least the first angle and at most the second, in
# degrees. On generated columns turned by 5, 10 and 15 degrees, this raises Kendall's tau of the order from 0.48, 0.35
# and 0.60 to 1.0. With 1.5 degrees and 3 lines, 5 of 149 forms count as skewed, and the order of some gets worse. With
# these values, none of them does.
_MIN_SKEW = 1.8
_MAX_SKEW = 20.0
# The slope is measured on at least this many lines, each this many times as long as its words are high. At least this
# share of their length must slope by nearly the same angle, within this many degrees.
_MIN_SLOPES = 8
_MIN_SLOPE_LENGTH = 4.0
_AGREEING_SHARE = 0.8
_AGREES_WITHIN = 2.0


def skewed_quads(boxes: np.ndarray, line_ids: np.ndarray | None, shape: tuple[int, int]) -> np.ndarray | None:
    """Estimate tilted quads (N, 4, 2) of words from straight boxes (N, 4), by the slope of lines; None if unclear."""
    if line_ids is None or len(boxes) < 2 or not all(shape):
        return None
    size = np.array([shape[1], shape[0]], dtype=np.float64)
    low, high = boxes[:, :2] * size, boxes[:, 2:4] * size
    centers, sides = (low + high) / 2, high - low
    order = np.lexsort((centers[:, 0], line_ids))
    order = order[line_ids[order] >= 0]
    starts = np.flatnonzero(np.diff(line_ids[order], prepend=-1))
    first, last = order[starts], order[np.append(starts[1:], len(order)) - 1]
    across, down = (centers[last] - centers[first]).T
    is_long = across > _MIN_SLOPE_LENGTH * np.minimum(sides[first, 1], sides[last, 1])
    if is_long.sum() < _MIN_SLOPES:
        return None
    angles, lengths = np.degrees(np.arctan2(down[is_long], across[is_long])), across[is_long]
    by_angle = np.argsort(angles)
    middle = np.searchsorted(np.cumsum(lengths[by_angle]), lengths.sum() / 2)
    angle = float(angles[by_angle][middle])
    agreeing = lengths[np.abs(angles - angle) <= _AGREES_WITHIN].sum()
    if not _MIN_SKEW <= abs(angle) <= _MAX_SKEW or agreeing < _AGREEING_SHARE * lengths.sum():
        return None
    # The box around a rectangle that is turned by this angle has these sides.
    cosine, sine = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    turn = abs(np.array([[cosine, sine], [sine, cosine]]))
    halves = np.maximum(sides @ np.linalg.inv(turn), sides.min(axis=1, keepdims=True) / 4) / 2
    corners = halves[:, None] * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    quads: np.ndarray = (centers[:, None] + corners @ np.array([[cosine, sine], [-sine, cosine]])) / size
    return quads


def upright_boxes(boxes: np.ndarray, shape: tuple[int, int]) -> tuple[np.ndarray, float]:
    """Convert the boxes of words to straight boxes on the upright page.

    Quads are rotated by their most common reading angle, which can be any angle up to 180 degrees. For short words of a
    tilted page, detectors often report quads that are not tilted. Such quads move to their place on the upright page
    but are not rotated. Return the boxes ``(N, 4)``, and the height of the upright page divided by its width.
    """
    height, width = shape if all(shape) else _UNKNOWN_SHAPE
    if boxes.ndim == 2:
        return boxes[:, :4].astype(np.float64), height / width
    size = np.array([width, height], dtype=np.float64)
    quads = (boxes - 0.5) * size
    angle = reading_angle(quads)
    quarter = 90.0 * round(angle / 90)
    turned = quads @ rotation_matrix(quarter).T
    if abs(angle - quarter) >= _MIN_DEGREES:
        turned = _deskew(turned, angle - quarter)
    if quarter % 180:
        size = size[::-1]
    turned = turned / size + 0.5
    return boxes_around(turned), float(size[1] / size[0])


def _deskew(quads: np.ndarray, angle: float) -> np.ndarray:
    """Rotate quads by a small angle around the page center. Quads that are already straight move without rotating."""
    turned = quads @ rotation_matrix(angle).T
    tops = quads[:, 1] - quads[:, 0]
    level = np.abs(np.degrees(np.arctan2(-tops[:, 1], tops[:, 0]))) < abs(angle) / 2
    moves = turned.mean(axis=1, keepdims=True) - quads.mean(axis=1, keepdims=True)
    deskewed: np.ndarray = np.where(level[:, None, None], quads + moves, turned)
    return deskewed


def frame_order(boxes: np.ndarray) -> np.ndarray:
    """Return the indices of words, sorted from top to bottom and within a row approximately from left to right.

    Words are sorted by their bottom edges, and words farther right are treated as if they were lower on the page. At
    the right edge of the page, they are treated as half the median word height lower.
    """
    return np.argsort(boxes[:, 0] + 2 * boxes[:, 3] / _median_height(boxes), kind="stable")


def line_numbers(
    boxes: np.ndarray, aspect: float, paragraph_break: float, line_ids: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Group words at about the same height into rows, and split the rows into lines at gaps wider than usual.

    A gap of at least ``paragraph_break`` page widths splits a row. Words with the same nonnegative number in
    ``line_ids`` were detected as one line. A gap between two such words must also be at least two line heights wide.

    Return two arrays: the indices of the words, sorted by line from top to bottom and within a line from left to right;
    and the line number of each word in this order.
    """
    order = frame_order(boxes)
    units = _units(len(boxes), line_ids)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    rows = _rows(boxes, rank, units)
    words = np.lexsort((rank, boxes[:, 0], rows))
    same_row = np.diff(rows[words]) == 0
    # Gaps are measured from the rightmost end so far, because a long word may enclose a short word.
    shift = rows[words] * (boxes[:, 2].max() - boxes[:, 0].min() + 1)
    reached = np.maximum.accumulate(boxes[words, 2] + shift) - shift
    gaps = boxes[words[1:], 0] - reached[:-1]
    limits = np.full(len(gaps), _break_distance(gaps[same_row], _median_height(boxes) * aspect, paragraph_break))
    if line_ids is not None:
        together = units[words[1:]] == units[words[:-1]]
        heights = np.bincount(units, boxes[:, 3] - boxes[:, 1]) / np.bincount(units).clip(1)
        limits = np.where(together, np.maximum(limits, _LINE_GAP_HEIGHTS * aspect * heights[units[words[1:]]]), limits)
    starts = ~same_row | (gaps >= limits)
    return words, np.concatenate(([0], np.cumsum(starts)))


def block_numbers(boxes: np.ndarray, aspect: float, line_break: float) -> np.ndarray:
    """Group lines into blocks, and return the number of the block of each line, int64 ``(L,)``.

    A line joins the block of the line above it if the two overlap horizontally, are close, and have similar heights.
    They must also be aligned at the left, right or center. Alignment is not required if the lower line is the only
    line close below the upper line, and the upper line is the only line close above the lower line. Blocks are numbered
    in the order of their first line. ``boxes`` are on the upright page. ``line_break`` is the widest allowed gap
    between lines of a block, in line heights.
    """
    try:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components
    except ImportError:
        raise MissingDependencyError('Blocks of lines need SciPy: pip install "mediatensor[ocr]".') from None

    upper, lower = _stacked_pairs(boxes, line_break)
    num_below, num_above = (np.bincount(lines, minlength=len(boxes)) for lines in (upper, lower))
    alone = (num_below[upper] == 1) & (num_above[lower] == 1)
    edges = np.stack([boxes[:, 0], boxes[:, 2], (boxes[:, 0] + boxes[:, 2]) / 2], axis=1)
    tolerance = aspect * (boxes[:, 3] - boxes[:, 1])[upper]
    aligned = (np.abs(edges[upper] - edges[lower]) < tolerance[:, None]).any(axis=1)
    kept = alone | aligned
    links = coo_array((np.ones(int(kept.sum())), (upper[kept], lower[kept])), shape=(len(boxes), len(boxes)))
    labels = connected_components(links, directed=False)[1]
    _, first = np.unique(labels, return_index=True)
    numbers: np.ndarray = np.argsort(np.argsort(first))[labels]
    return numbers


def _median_height(boxes: np.ndarray) -> float:
    height = float(np.median(boxes[:, 3] - boxes[:, 1]))
    return height if np.isfinite(height) and height > 0 else 1.0


def _units(number: int, line_ids: np.ndarray | None) -> np.ndarray:
    """Return for each word the number of its unit, int64 ``(N,)``: its detected line, or the word itself."""
    if line_ids is None:
        return np.arange(number)
    ids = line_ids.astype(np.int64)
    single = np.cumsum(ids < 0) + ids.max(initial=0)
    return np.unique(np.where(ids < 0, single, ids), return_inverse=True)[1]


def _rows(boxes: np.ndarray, rank: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the number of the row of each word, int64 ``(N,)``.

    A word joins the current row if its center is at most half a word height above or below the mean center of the words
    already in the row; otherwise it starts a new row. Words are processed in the order of ``rank``, because each added
    word changes the mean. Words with the same number in ``units`` are processed together.
    """
    sizes = np.bincount(units)
    middles = np.bincount(units, (boxes[:, 1] + boxes[:, 3]) / 2) / sizes
    first = np.full(len(sizes), np.inf)
    np.minimum.at(first, units, rank)
    if len(sizes) < len(units):
        # A detected line is sorted by the center of the whole line, not by its highest word.
        bottoms = np.bincount(units, boxes[:, 3]) / sizes
        left = np.full(len(sizes), np.inf)
        np.minimum.at(left, units, boxes[:, 0])
        sequence = np.lexsort((first, left + 2 * bottoms / _median_height(boxes)))
    else:
        sequence = np.argsort(first, kind="stable")
    reach = float(np.median(boxes[:, 3] - boxes[:, 1])) / 2
    row, total, count = -1, 0.0, 0
    numbers = np.empty(len(sizes), dtype=np.int64)
    for unit, middle, size in zip(sequence.tolist(), middles[sequence].tolist(), sizes[sequence].tolist(), strict=True):
        if count == 0 or abs(middle - total / count) >= reach:
            row, total, count = row + 1, 0.0, 0
        total += middle * size
        count += size
        numbers[unit] = row
    rows: np.ndarray = numbers[units]
    return rows


def _break_distance(gaps: np.ndarray, height: float, paragraph_break: float) -> float:
    """Return the minimum width of a gap between words that splits a row into two lines, by docTR's rule.

    ``gaps`` are the gaps in all rows of the page, and ``height`` is the median height of words. All lengths are
    relative to the width of the page. The result is at most ``paragraph_break``.
    """
    open_gaps = gaps[gaps > 0]
    if len(open_gaps) >= _ENOUGH_GAPS and 2 * len(open_gaps) >= len(gaps):
        return min(paragraph_break, max(3 * float(np.median(open_gaps)), height))
    return min(paragraph_break, height) if len(gaps) >= _ENOUGH_GAPS else paragraph_break


def _stacked_pairs(boxes: np.ndarray, line_break: float) -> tuple[np.ndarray, np.ndarray]:
    """Find pairs of lines of similar height, one close below the other. Return the indices of upper and lower lines."""
    tops = np.argsort(boxes[:, 1], kind="stable")
    heights = boxes[:, 3] - boxes[:, 1]
    sorted_tops = boxes[tops, 1]
    begins = np.searchsorted(sorted_tops, (boxes[:, 1] + boxes[:, 3]) / 2, side="right")
    deepest = boxes[:, 3] + line_break * heights * (1 + _MAX_HEIGHT_RATIO) / 2
    counts = (np.searchsorted(sorted_tops, deepest, side="right") - begins).clip(0)
    pairs_found = [np.empty((2, 0), dtype=np.int64)]
    cuts = np.searchsorted(np.cumsum(counts), np.arange(_PAIRS_AT_ONCE, counts.sum(), _PAIRS_AT_ONCE), side="right")
    for part in np.split(np.arange(len(boxes)), cuts):
        sizes = counts[part]
        upper = np.repeat(part, sizes)
        within = np.arange(len(upper)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        lower = tops[begins[upper] + within]
        common = np.minimum(boxes[upper, 2], boxes[lower, 2]) - np.maximum(boxes[upper, 0], boxes[lower, 0])
        narrower = np.minimum((boxes[:, 2] - boxes[:, 0])[upper], (boxes[:, 2] - boxes[:, 0])[lower])
        smaller, taller = np.minimum(heights[upper], heights[lower]), np.maximum(heights[upper], heights[lower])
        kept = common > _MIN_BLOCK_OVERLAP * narrower
        kept &= boxes[lower, 1] - boxes[upper, 3] <= line_break * (smaller + taller) / 2
        kept &= taller <= _MAX_HEIGHT_RATIO * smaller
        pairs_found.append(np.stack([upper[kept], lower[kept]]))
    pairs = np.concatenate(pairs_found, axis=1)
    return pairs[0], pairs[1]


def layout_of(structure: PageStructure, is_rotated: bool) -> list[LayoutElement]:
    """Convert the regions of a page to layout elements, in reading order."""
    place = _relative_geometry(structure, is_rotated)
    return [
        LayoutElement(region.kind, region.confidence, place(region.box), level=region.level)
        for region in structure.regions
    ]


def found_tables(structure: PageStructure, words: Sequence[Word], is_rotated: bool) -> list[Table]:
    """Convert the tables of a page, whose cells refer to ``words`` by index, to table elements."""
    place = _relative_geometry(structure, is_rotated)
    tables = []
    for table in structure.tables:
        cells = [
            _cell(
                [words[index] for index in cell.words],
                1.0,
                place(cell.box),
                (cell.row_start, cell.row_end, cell.col_start, cell.col_end),
                is_header=cell.is_header,
            )
            for cell in table.cells
        ]
        tables.append(Table(cells, table.num_rows, table.num_cols, place(table.box), table.confidence))
    return tables


def fields_of(structure: PageStructure, words: Sequence[Word], is_rotated: bool) -> list[Field]:
    """Convert the fields of a page, which refer to ``words`` by index, to field elements."""

    def around(indices: Sequence[int]) -> Any:
        points = np.concatenate([np.asarray(words[index].geometry).reshape(-1, 2) for index in indices])
        return _geometry(box_around(points), is_rotated)

    return [
        Field(
            field.key,
            field.value,
            field.confidence,
            around(field.value_words),
            around(field.key_words) if field.key_words else None,
            field.name,
        )
        for field in structure.fields
        if field.value_words
    ]


def _relative_geometry(structure: PageStructure, is_rotated: bool) -> Callable[[Sequence[float]], Any]:
    """Return a function that converts a box of ``structure`` to a geometry relative to the page."""
    size = np.array([structure.width, structure.height] * 2, dtype=np.float64)
    return lambda box: _geometry((np.asarray(box) / size).clip(0, 1), is_rotated)


def _geometry(box: np.ndarray, is_rotated: bool) -> Any:
    return geometries_of(boxes_to_polygons(box[None]) if is_rotated else box[None])[0]


def _cell(
    words: Sequence[Word], score: float, geometry: Any, spans: tuple[int, int, int, int], *, is_header: bool = False
) -> TableCell:
    """Return a table cell. Its confidence is the mean confidence of its words, or ``score`` if it is empty."""
    confidence = float(np.mean([word.confidence for word in words])) if words else score
    text = " ".join(word.value for word in words)
    return TableCell(text, confidence, geometry, *spans, is_header=is_header, words=words)


def tables_of_grids(
    grids: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    boxes: np.ndarray,
    words: Sequence[Word],
    shape: tuple[int, int],
    is_rotated: bool,
) -> tuple[list[Table], np.ndarray]:
    """Convert tables in docTR's format to table elements, and assign words to their cells.

    In docTR's format, a table is
    ``{"cells": [{"geometry", "score", "row_start", "row_end", "col_start", "col_end"}, ...]}``. Geometries are
    (xmin, ymin, xmax, ymax) or four points, relative to the page. Row and column numbers can start at any number.
    ``boxes`` are the boxes of the words relative to the page, (N, 4) or (N, 4, 2). If ``is_rotated``, geometries of the
    elements have four points, otherwise two corners. Return the table elements, and a mask (N,) that is true for the
    words in cells.

    Raises:
        InvalidArgumentError: if a table has another format.
    """
    is_used = np.zeros(len(boxes), dtype=bool)
    given = [grids] if isinstance(grids, Mapping) else list(grids or ())
    tables = []
    for grid in given:
        try:
            cells = list(grid["cells"])
            points = [np.asarray(cell["geometry"], dtype=np.float64) for cell in cells]
            quads = np.array([to_quad(one if one.size == 4 else one.reshape(4, 2)) for one in points])
            spans = np.array(
                [[int(cell[key]) for key in ("row_start", "row_end", "col_start", "col_end")] for cell in cells]
            ).reshape(-1, 4)
            scores = [float(cell["score"]) for cell in cells]
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"a table is {{'cells': [{{'geometry', 'score', 'row_start', 'row_end', 'col_start', 'col_end'}}, "
                f"...]}}; this one cannot be read ({error})."
            ) from None
        if not cells:
            continue
        members = _words_in_cells(quads, boxes, ~is_used, shape)
        is_used[[word for cell_words in members for word in cell_words]] = True
        spans -= spans.min(axis=0)[[0, 0, 2, 2]]
        geometries = geometries_of(quads if is_rotated else boxes_around(quads))
        elements = [
            _cell(
                [words[index] for index in cell_words],
                score,
                geometry,
                (rows[0], rows[1], rows[2], rows[3]),
            )
            for cell_words, score, geometry, rows in zip(members, scores, geometries, spans.tolist(), strict=True)
        ]
        num_rows, num_columns = int(spans[:, 1].max()) + 1, int(spans[:, 3].max()) + 1
        around = _geometry(box_around(quads), is_rotated)
        tables.append(Table(elements, num_rows, num_columns, around, float(np.mean(scores))))
    return tables, is_used


def _words_in_cells(
    quads: np.ndarray, boxes: np.ndarray, is_free: np.ndarray, shape: tuple[int, int]
) -> list[list[int]]:
    """Return for each cell of a table the indices of its words, in reading order.

    A word belongs to the cell that contains its center, or else to the nearest cell if that is close. Words of other
    tables, for which ``is_free`` is false, are ignored.
    """
    words = boxes[:, :4] if boxes.ndim == 3 else boxes_to_polygons(boxes[:, :4])
    # Coordinates along the sides of the table, in page widths.
    to_width = np.array([1.0, shape[0] / shape[1] if all(shape) else 1.0])
    quads, words = quads * to_width, words * to_width
    across = (quads[:, 1] - quads[:, 0]).sum(axis=0)
    across = across / max(float(np.linalg.norm(across)), 1e-9)
    to_table = np.array([across, [-across[1], across[0]]]).T
    quads, words = quads @ to_table, words @ to_table

    middles, heights = words.mean(axis=1), np.linalg.norm(words[:, 3] - words[:, 0], axis=1)
    low, high = quads.min(axis=(0, 1)), quads.max(axis=(0, 1))
    in_table = np.flatnonzero(is_free & (middles >= low).all(axis=1) & (middles <= high).all(axis=1))
    sides = np.roll(quads, -1, axis=1) - quads
    furthest = _MAX_DISTANCE * float(np.median(np.linalg.norm(quads[:, 2] - quads[:, 0], axis=1)))
    members: list[list[int]] = [[] for _ in quads]
    for word in in_table.tolist():
        offsets = middles[word] - quads
        turns = sides[..., 0] * offsets[..., 1] - sides[..., 1] * offsets[..., 0]
        inside = (turns >= 0).all(axis=1) | (turns <= 0).all(axis=1)
        distances = np.linalg.norm(quads.mean(axis=1) - middles[word], axis=1)
        if inside.any():
            members[int(inside.argmax())].append(word)
        elif distances.min() <= furthest:
            members[int(distances.argmin())].append(word)
    return [_by_rows(cell_words, middles, heights) for cell_words in members]


def _by_rows(words: list[int], middles: np.ndarray, heights: np.ndarray) -> list[int]:
    if len(words) < 2:
        return words
    chosen = np.array(words)
    order = chosen[np.argsort(middles[chosen, 1], kind="stable")]
    gaps = np.diff(middles[order, 1], prepend=middles[order[0], 1])
    rows = np.cumsum(gaps >= _ROW_SHARE * float(np.median(heights[chosen])))
    by_row: list[int] = order[np.lexsort((middles[order, 0], rows))].tolist()
    return by_row
