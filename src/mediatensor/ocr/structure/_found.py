"""What is found on a page, in the coordinates of its content: tables, regions, fields."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["REGION_KINDS", "Box", "FoundCell", "FoundField", "FoundRegion", "FoundTable", "PageStructure"]

# xmin, ymin, xmax, ymax
Box = tuple[float, float, float, float]

#: The kinds of regions: DocLayNet's eleven names, as docTR's models give them.
REGION_KINDS = (
    "Caption",
    "Footnote",
    "Formula",
    "List-item",
    "Page-footer",
    "Page-header",
    "Picture",
    "Section-header",
    "Table",
    "Text",
    "Title",
)


@dataclass(frozen=True)
class FoundCell:
    """A cell of a table.

    Attributes:
        box: The place of the cell itself, from rule to rule, or from gap to gap.
        row_start, row_end, col_start, col_end: What it spans, from 0, the ends included.
        words: The indices of its words in the content of the page, in reading order.
        is_header: Whether it is part of the head of the table.
    """

    box: Box
    row_start: int
    row_end: int
    col_start: int
    col_end: int
    words: tuple[int, ...] = ()
    is_header: bool = False


@dataclass(frozen=True)
class FoundTable:
    """A table.

    Attributes:
        box: Its place.
        num_rows, num_cols: The size of its grid.
        cells: Row by row; together they cover the grid once, empty cells included.
        confidence: How sure it is that this is a table of this structure, in [0, 1].
    """

    box: Box
    num_rows: int
    num_cols: int
    cells: tuple[FoundCell, ...]
    confidence: float = 1.0


@dataclass(frozen=True)
class FoundRegion:
    """A region of the layout.

    Attributes:
        kind: One of `REGION_KINDS`.
        box: Its place.
        confidence: In [0, 1].
        words: The indices of its words in the content of the page, in reading order.
        level: The level of a section header, from 1 for the sections right below the title; 0 for all other kinds.
    """

    kind: str
    box: Box
    confidence: float
    words: tuple[int, ...] = ()
    level: int = 0


@dataclass(frozen=True)
class FoundField:
    """A key with its value.

    Attributes:
        name: The name that was asked for, such as ``"total"``; empty for pairs that were found without being asked for.
        key: The printed label; empty where a value was found by its form alone.
        value: The value as it is printed.
        key_words, value_words: The indices of their words in the content of the page.
        confidence: In [0, 1].
    """

    name: str
    key: str
    value: str
    key_words: tuple[int, ...]
    value_words: tuple[int, ...]
    confidence: float


@dataclass(frozen=True)
class PageStructure:
    """All that was found on a page.

    Attributes:
        width, height: The size of the page, in the unit of all boxes.
        regions: In reading order.
        tables: In any order.
        fields: In any order.
    """

    width: float
    height: float
    regions: tuple[FoundRegion, ...] = ()
    tables: tuple[FoundTable, ...] = ()
    fields: tuple[FoundField, ...] = ()
