"""Convert the regions, tables and fields that were found on a page to elements of a document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....errors import InvalidArgumentError
from ...io.elements import Field, LayoutElement, Table, TableCell, Word
from ...structure import PageStructure
from ...utils.geometry import box_around, boxes_to_polygons, to_corners, to_quad

# A word inside a table but outside all its cells belongs to the nearest cell, if the distance is within this share
# of the usual cell diagonal; as in docTR.
_MAX_DISTANCE = 0.5
# Words of a cell are in one row if their centers differ by less than this share of their usual height; as in docTR.
_ROW_SHARE = 0.5


def layout_of(structure: PageStructure, is_rotated: bool) -> list[LayoutElement]:
    """Convert the regions of a page to layout elements, in reading order.

    If ``is_rotated``, the geometry of an element has four points, otherwise two corners.
    """
    place = _relative_geometry(structure, is_rotated)
    return [
        LayoutElement(region.kind, region.confidence, place(region.box), level=region.level)
        for region in structure.regions
    ]


def found_tables(structure: PageStructure, words: Sequence[Word], is_rotated: bool) -> list[Table]:
    """Convert the tables of a page to table elements.

    ``structure`` refers to the words of cells by their index in ``words``.
    """
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
    """Convert the fields of a page to field elements.

    ``structure`` refers to the words of fields by their index in ``words``.
    """

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
    if is_rotated:
        return tuple((x, y) for x, y in boxes_to_polygons(box[None])[0].tolist())
    return to_corners(box)


def _cell(
    words: Sequence[Word], score: float, geometry: Any, spans: tuple[int, int, int, int], *, is_header: bool = False
) -> TableCell:
    """Return the element for a table cell.

    Its confidence is the mean confidence of its words, or ``score`` if the cell is empty.
    """
    confidence = float(np.mean([word.confidence for word in words])) if words else score
    text = " ".join(word.value for word in words)
    return TableCell(text, confidence, geometry, *spans, is_header=is_header, words=words)


def tables_of_grids(
    grids: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    boxes: np.ndarray,
    words: Sequence[Word],
    shape: tuple[int, int],
) -> tuple[list[Table], np.ndarray]:
    """Convert tables in docTR's format to table elements, and assign words to their cells.

    In docTR's format, a table is
    ``{"cells": [{"geometry", "score", "row_start", "row_end", "col_start", "col_end"}, ...]}``. Geometries are
    (xmin, ymin, xmax, ymax) or four points, relative to the page. Row and column numbers can start at any number.
    ``boxes`` are the boxes of the words relative to the page, (N, 4) or (N, 4, 2). Return the table elements, and a
    mask (N,) that is true for the words in cells.

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
        is_rotated = boxes.ndim == 3
        elements = [
            _cell(
                [words[index] for index in cell_words],
                score,
                tuple((x, y) for x, y in quad.tolist()) if is_rotated else to_corners(box_around(quad)),
                (rows[0], rows[1], rows[2], rows[3]),
            )
            for cell_words, score, quad, rows in zip(members, scores, quads, spans.tolist(), strict=True)
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
