"""Ground truth of a drawn page: words, lines, regions, tables and fields, with polygons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..utils.geometry import box_around

#: (4, 2) float64: the corners TL, TR, BR, BL in reading direction, as (x, y) in pixels of the page.
Polygon = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DrawnWord:
    """A word on a page that `draw_random_page` generated. It contains no spaces.

    Attributes:
        text: The text of the word.
        polygon: float64 (4, 2), the corners (x, y) around the ink in pixels: top left, top right, bottom right, bottom
            left, as seen in reading direction.
    """

    text: str
    polygon: Polygon


@dataclass(frozen=True, eq=False)
class DrawnPageLine:
    """A line of text on a page that `draw_random_page` generated.

    Attributes:
        words: Words from left to right.
        polygon: float64 (4, 2), the corners (x, y) around all words in pixels, in the same order as for `DrawnWord`.
    """

    words: tuple[DrawnWord, ...]
    polygon: Polygon

    @property
    def text(self) -> str:
        """The texts of the words, joined by spaces."""
        return " ".join(word.text for word in self.words)


@dataclass(frozen=True, eq=False)
class DrawnCell:
    """A cell of a table on a page that `draw_random_page` generated.

    Attributes:
        row: Index of the first row, from 0.
        column: Index of the first column, from 0.
        row_span: Number of rows that the cell spans.
        column_span: Number of columns that the cell spans.
        header: Whether the cell is part of the table head.
        lines: The lines of text in the cell; an empty cell has none.
        polygon: float64 (4, 2), the corners (x, y) of the whole cell in pixels. A cell is larger than its text.
    """

    row: int
    column: int
    row_span: int
    column_span: int
    header: bool
    lines: tuple[DrawnPageLine, ...]
    polygon: Polygon

    @property
    def text(self) -> str:
        """The texts of the cell's lines, joined by spaces."""
        return " ".join(line.text for line in self.lines)


@dataclass(frozen=True, eq=False)
class DrawnTable:
    """The grid of a table on a page that `draw_random_page` generated.

    Attributes:
        num_rows: Number of rows, including the head.
        num_columns: Number of columns.
        ruled: Whether printed lines separate all cells.
        cells: The cells, row by row. Every position of the grid is covered by exactly one cell.
    """

    num_rows: int
    num_columns: int
    ruled: bool
    cells: tuple[DrawnCell, ...]


@dataclass(frozen=True, eq=False)
class DrawnField:
    """A field of a form on a page that `draw_random_page` generated: a label and its value.

    Attributes:
        key: The line of the printed label.
        value: The line of the value that was filled in.
    """

    key: DrawnPageLine
    value: DrawnPageLine


@dataclass(frozen=True, eq=False)
class DrawnRegion:
    """A region of a page that `draw_random_page` generated, such as a paragraph, a heading or a table.

    Attributes:
        kind: One of `mediatensor.ocr.structure.REGION_KINDS`.
        polygon: float64 (4, 2), the corners (x, y) around the whole region in pixels.
        lines: The lines of the region, in reading order; for a table, the lines of its cells.
        table: The grid of a table; ``None`` for other kinds.
    """

    kind: str
    polygon: Polygon
    lines: tuple[DrawnPageLine, ...] = ()
    table: DrawnTable | None = None


@dataclass(frozen=True, eq=False)
class DrawnPage:
    """A page that `draw_random_page` generated, with its ground truth.

    Attributes:
        image: uint8 (H, W, 3), RGB.
        kind: One of `PAGE_KINDS`, such as ``"letter"``.
        style: One of `STYLES`, such as ``"scan"``.
        language: A key of `TEXTS`, such as ``"en"``.
        regions: Regions in reading order.
        fields: The fields of a form. The lines of their keys and values also occur in ``regions``.
    """

    image: NDArray[np.uint8]
    kind: str
    style: str
    language: str
    regions: tuple[DrawnRegion, ...]
    fields: tuple[DrawnField, ...] = ()

    @property
    def lines(self) -> tuple[DrawnPageLine, ...]:
        """The lines of all regions, in reading order."""
        return tuple(line for region in self.regions for line in region.lines)

    @property
    def words(self) -> tuple[DrawnWord, ...]:
        """The words of all lines, in reading order."""
        return tuple(word for line in self.lines for word in line.words)

    @property
    def tables(self) -> tuple[DrawnTable, ...]:
        """The grids of all tables, in reading order."""
        return tuple(region.table for region in self.regions if region.table is not None)

    @property
    def text(self) -> str:
        """The texts of all lines, joined by line breaks."""
        return "\n".join(line.text for line in self.lines)


def box_polygon(left: float, top: float, right: float, bottom: float) -> Polygon:
    return np.array([(left, top), (right, top), (right, bottom), (left, bottom)], np.float64)


def around(polygons: list[Polygon]) -> Polygon:
    """Return the smallest upright box that encloses all polygons, as a polygon."""
    return box_polygon(*box_around(np.concatenate(polygons)))


def moved_truth(
    regions: Sequence[DrawnRegion], fields: Sequence[DrawnField], move: Callable[[Polygon], NDArray[np.float64]]
) -> tuple[tuple[DrawnRegion, ...], tuple[DrawnField, ...]]:
    """Return the regions and fields of a warped page. ``move`` maps all polygons (N, 4, 2) in one call."""
    polygons: list[Polygon] = []
    for region in regions:
        polygons.append(region.polygon)
        for line in region.lines:
            polygons += [line.polygon, *(word.polygon for word in line.words)]
        polygons += [cell.polygon for cell in region.table.cells] if region.table else []
    moved = dict(zip(map(id, polygons), move(np.array(polygons).reshape(-1, 4, 2)), strict=True))
    lines = {
        id(line): DrawnPageLine(
            tuple(DrawnWord(word.text, moved[id(word.polygon)]) for word in line.words), moved[id(line.polygon)]
        )
        for region in regions
        for line in region.lines
    }

    new_regions = []
    for region in regions:
        table = region.table
        if table is not None:
            cells = (
                replace(cell, lines=tuple(lines[id(line)] for line in cell.lines), polygon=moved[id(cell.polygon)])
                for cell in table.cells
            )
            table = replace(table, cells=tuple(cells))
        region_lines = tuple(lines[id(line)] for line in region.lines)
        new_regions.append(DrawnRegion(region.kind, moved[id(region.polygon)], region_lines, table))
    return tuple(new_regions), tuple(DrawnField(lines[id(field.key)], lines[id(field.value)]) for field in fields)
