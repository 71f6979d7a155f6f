"""Export to plain text, block by block or in the layout of the page; and the base class of all text formats."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, ClassVar

import numpy as np

from ..._reading_order.boxes import layout_label_role, normalize_layout_label
from ...structure import mend_hyphenation
from ...utils.geometry import box_around
from .._elements.elements import Block, Line, UnreadLine, Word
from .._elements.page_order import (
    cell_lines,
    heading_levels,
    line_boxes,
    line_direction,
    one_line,
    ordered_line_words,
    page_reading_order,
    predictions_in_reading_order,
    unread_lines,
    with_unread_lines,
)
from .._elements.pages import DocumentBase, PredictionPage, Table, TextPage

# Two cells are on one line if they overlap vertically by at least this share of the smaller height.
_LEVEL_OVERLAP = 0.5
# Minimum number of spaces between cells. If their gap on the page is below `_CLOSE_GAP` letters, one space is enough.
_MIN_SPACES = 2
_CLOSE_GAP = 0.75
# Edges belong to one column if they are at most this many letter widths apart.
_COLUMN_WITHIN = 1.0
# Only cells with up to this many letters, such as numbers, can be right-aligned: justified text also ends in a column.
_MAX_RIGHT_ALIGNED = 24
# If cells are long, a line of the grid may have up to this many times the letters of a line on the page.
_MAX_STRETCH = 1.5
# The grid is scaled for this quantile of the cells. Longer texts move the cells after them.
_USUAL = 0.9
# Maximum number of characters in a line. A stored page may have any positions.
_MAX_COLUMNS = 400
# Maximum number of consecutive empty lines.
_MAX_EMPTY_LINES = 3


@dataclass(frozen=True)
class Cell:
    """A piece of text and its box. x and y have the same unit, and x increases in reading direction.

    ``words`` are the words of the text, if it is a line of a block.
    """

    text: str
    left: float
    top: float
    right: float
    bottom: float
    words: tuple[Word, ...] = ()

    @property
    def width(self) -> int:
        """The number of columns that the text takes in a terminal."""
        return text_width(self.text)


def text_width(text: str) -> int:
    """Return the width of a text in terminal columns. A combining mark counts as 0, and a wide character as 2."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def level_rows(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Group cells into rows. The cells must be in reading order.

    A cell joins the row of the previous cell if it is at the same height, and further right.
    """
    rows: list[list[Cell]] = []
    for cell in cells:
        last = rows[-1][-1] if rows else None
        if last is not None and _is_level(last, cell) and cell.left >= (last.left + last.right) / 2:
            rows[-1].append(cell)
        else:
            rows.append([cell])
    return rows


def _is_level(one: Cell, other: Cell) -> bool:
    common = min(one.bottom, other.bottom) - max(one.top, other.top)
    return common > _LEVEL_OVERLAP * min(one.bottom - one.top, other.bottom - other.top)


def grid_lines(rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return one line of text for each row. Spaces align the cells of different rows in columns, as on the page."""
    cells = [cell for row in rows for cell in row if cell.text]
    if not cells:
        return ["" for _ in rows]
    widths = [max(cell.width, 1) for cell in cells]
    letter_widths = [(cell.right - cell.left) / width for cell, width in zip(cells, widths, strict=True)]
    letter = float(np.median(np.repeat(letter_widths, widths))) or 1.0
    origin = min(cell.left for cell in cells)
    scale = _scale(rows, letter, max(cell.right for cell in cells) - origin)
    starts = _edges(np.array([cell.left - origin for cell in cells]), letter)
    ends = _edges(np.array([cell.right - origin for cell in cells]), letter)
    columns = {}
    for cell, (start, starting), (end, ending) in zip(cells, starts, ends, strict=True):
        # Align a cell by the edge that more cells share: numbers are right-aligned, text is left-aligned.
        ends_in_column = ending > starting and cell.width <= _MAX_RIGHT_ALIGNED
        columns[id(cell)] = round(end * scale) - cell.width if ends_in_column else round(start * scale)
    return [_line([cell for cell in row if cell.text], columns, letter) for row in rows]


def _scale(rows: Sequence[Sequence[Cell]], letter: float, extent: float) -> float:
    """Return the number of characters per unit of length: as on the page, or more if many cells need it."""
    needed = [
        (first.width + _MIN_SPACES) / (second.left - first.left)
        for row in rows
        for first, second in pairwise(row)
        if second.left - first.left > letter
    ]
    usual = float(np.quantile(needed, _USUAL, method="higher")) if needed else 0.0
    scale = min(max(1 / letter, usual), _MAX_STRETCH / letter)
    return min(scale, _MAX_COLUMNS / extent) if extent > 0 else scale


def _edges(places: np.ndarray[tuple[int], np.dtype[np.float64]], letter: float) -> list[tuple[float, int]]:
    """Group the left (or right) edges of cells into columns. Return (mean position, size) of the column of each edge.

    ``places`` are the x of the edges, and ``letter`` is the width of a letter. The size of a column is its number of
    edges.
    """
    order = np.argsort(places, kind="stable")
    groups = np.concatenate(([0], np.cumsum(np.diff(places[order]) > _COLUMN_WITHIN * letter)))
    sizes = np.bincount(groups)
    means = np.bincount(groups, places[order]) / sizes
    group_numbers = np.empty(len(places), dtype=np.int64)
    group_numbers[order] = groups
    return [(float(means[group]), int(sizes[group])) for group in group_numbers.tolist()]


def _line(row: Sequence[Cell], columns: dict[int, int], letter: float) -> str:
    line, length = "", 0
    for index, cell in enumerate(row):
        spaces = columns[id(cell)] - length
        if index:
            is_close = cell.left - row[index - 1].right < _CLOSE_GAP * letter
            spaces = max(spaces, 1 if is_close else _MIN_SPACES)
        line += " " * max(spaces, 0) + cell.text
        length += max(spaces, 0) + cell.width
    return line


def page_grid(cells: Sequence[Cell]) -> str:
    """Return the text of all cells, with spaces and empty lines that reproduce their places on the page."""
    cells = [cell for cell in cells if cell.text]
    rows: list[list[Cell]] = []
    for cell in sorted(cells, key=lambda cell: (cell.top + cell.bottom, cell.left)):
        # Compare with the first cell of the row. Otherwise a stack of slightly overlapping cells would become one row.
        if rows and _is_level(rows[-1][0], cell) and not any(_collide(cell, other) for other in rows[-1]):
            rows[-1].append(cell)
        else:
            rows.append([cell])
    rows = [sorted(row, key=lambda cell: cell.left) for row in rows]
    if not rows:
        return ""
    lines = grid_lines(rows)
    middles = np.array([np.mean([cell.top + cell.bottom for cell in row]) / 2 for row in rows])
    heights = [cell.bottom - cell.top for cell in cells]
    steps = np.diff(middles)
    # The usual distance between lines, measured on lines that follow each other closely.
    close = steps[(steps > 0) & (steps < 2.5 * np.median(heights))]
    pitch = float(np.median(close)) if len(close) else 1.5 * float(np.median(heights))
    text = lines[0]
    for step, line in zip(steps.tolist(), lines[1:], strict=True):
        empty = min(max(round(step / pitch) - 1, 0), _MAX_EMPTY_LINES) if pitch > 0 else 0
        text += "\n" * (1 + empty) + line
    return text


def _collide(one: Cell, other: Cell) -> bool:
    common = min(one.right, other.right) - max(one.left, other.left)
    return common > 0.5 * min(one.right - one.left, other.right - other.left)


# Bullets to remove, because formats write their own.
_BULLET = re.compile(r"^[•‣◦▪■□●○\u2013\u2014*·∙➢-]\s+(?=\S)")
# Maximum level of headings.
_DEEPEST = 6
FURNITURE = ("header", "footer", "footnote")


@dataclass
class Part:
    """One block of a page, ready to be rendered.

    ``kind`` is 'text', 'table', 'unread', or a type of layout region in normalised form. ``label`` is the type as it is
    stored in the page. Depending on ``kind``, the content is in ``lines``, ``table`` or ``unread``. ``rows`` has the
    content of ``lines`` as `Cell` objects with their words.
    """

    kind: str
    lines: list[str] = field(default_factory=list)
    table: Table | None = None
    has_rows: bool = False
    unread: UnreadLine | None = None
    level: int = 0
    label: str | None = None
    rows: list[list[Cell]] = field(default_factory=list)


def page_parts(page: TextPage, direction: str, include_furniture: bool) -> Iterator[Part]:
    """Yield the parts of a page in reading order. Unread lines are included, and blocks without text are left out."""
    content = list(_page_items(page, direction, include_furniture))
    levels = heading_levels(page, [item for item, _, _ in content])
    contents = {id(item): (label, cells, level) for (item, label, cells), level in zip(content, levels, strict=True)}
    for item in with_unread_lines(page, [item for item, _, _ in content]):
        if isinstance(item, UnreadLine):
            yield Part("unread", unread=item)
            continue
        label, cells, level = contents[id(item)]
        rows = level_rows(cells)
        has_rows = len(rows) < len(cells)
        if isinstance(item, Table):
            yield Part("table", table=item)
        elif rows:
            lines = grid_lines(rows) if has_rows else [cell.text for cell in cells]
            # Text at the place of a table, but in none of its cells, is ordinary text.
            kind = normalize_layout_label(label)
            kind = "text" if kind == "table" else kind
            yield Part(kind, lines, None, has_rows, level=level, label=label, rows=rows)


def _page_items(
    page: TextPage, direction: str, include_furniture: bool
) -> Iterator[tuple[Block | Table, str | None, list[Cell]]]:
    """Yield (block or table, type of its layout region, cells) in reading order. Only blocks have cells: their lines.

    Coordinates are in units of the page's width, after turning the page upright. On right-to-left pages, x is mirrored.
    """
    auto = direction == "auto"
    items, labels, direction = page_reading_order(page, direction)
    lines = [line for item in items if isinstance(item, Block) for line in item.lines]
    boxes = line_boxes(page, lines)
    if direction == "rtl":
        boxes[:, [0, 2]] = -boxes[:, [2, 0]]
    places = iter(boxes.tolist())
    for item, label in zip(items, labels, strict=True):
        cells = []
        for line in item.lines if isinstance(item, Block) else ():
            words = ordered_line_words(line, line_direction(line, direction, auto))
            left, top, right, bottom = next(places)
            text = " ".join(word.render() for word in words)
            cells.append(Cell(text, left, top, right, bottom, tuple(words)))
        if include_furniture or layout_label_role(label) not in FURNITURE:
            yield item, label, [cell for cell in cells if cell.text.strip()]


def _table_cells(page: TextPage, table: Table, direction: str) -> list[Cell]:
    """Return a `Cell` for each line of text in a table, and one for each cell whose words are not known."""
    lines = [Line(words) for cell in table.cells for words in cell_lines(cell.words)]
    texts = [line.render() for line in lines]
    boxes = line_boxes(page, lines).tolist() if lines else []
    height, width = page.dimensions
    for cell in table.cells:
        if not cell.words:
            points = np.asarray(cell.geometry, dtype=np.float64) * (1.0, height / width if height and width else 1.0)
            boxes.append(box_around(points).tolist())
            texts.append(cell.value)
    return [
        Cell(one_line(text), *((-right, top, -left) if direction == "rtl" else (left, top, right)), bottom)
        for text, (left, top, right, bottom) in zip(texts, boxes, strict=True)
    ]


class TextFormat:
    """Base class of text formats.

    A subclass defines a format by overriding the class attributes and some of the methods.
    """

    headings: ClassVar[dict[str, str]] = {}
    bullet: ClassVar[str] = ""
    _strong: ClassVar[str] = "{}"
    # Separates two rows of cells.
    _row_break: ClassVar[str] = "\n"
    # Whether to join the lines of a region into one line, and words that were divided by hyphens.
    joins_lines: ClassVar[bool] = True
    block_break: ClassVar[str] = "\n\n"
    page_break: ClassVar[str] = "\n\n"

    def escape_text(self, text: str) -> str:
        """Escape the special characters of the format."""
        return text

    def finalize_line(self, line: str) -> str:
        """Escape markup that has a meaning only at the start of a line. ``line`` has been escaped by `escape_text`."""
        return line

    def class_header(self, class_name: str, escape: bool = True) -> str:
        """Return the name of a class of predictions, marked as strong text."""
        return self._strong.format(self.escape_text(class_name) if escape else class_name)

    def render_table(self, table: Table, escape: bool = True) -> str:
        """Return the table in the syntax of the format, or "" if it has no cells."""
        raise NotImplementedError

    def render_heading(self, kind: str, text: str, level: int = 1) -> str:
        """Return the mark ``headings[kind]``, such as ``"## "``, followed by ``text``.

        Each level after the first repeats the first character of the mark once more (``"### "``), up to six in all.
        """
        mark = self.headings[kind]
        return mark[:1] * min(level - 1, _DEEPEST - len(mark) + 1) + mark + text

    def render_list(self, texts: Sequence[str], escape: bool = True) -> str:
        """Return ``texts``, which are already escaped, as a list."""
        return "\n".join(self.bullet + (self.finalize_line(text) if escape else text) for text in texts)

    def render_paragraph(self, lines: Sequence[str], escape: bool = True) -> str:
        """Join the lines of a paragraph. With ``escape``, also escape markup at the start of each line."""
        return "\n".join(self.finalize_line(line) if escape else line for line in lines)

    def render_rows(self, rows: Sequence[str], escape: bool = True) -> str:
        """Join ``rows`` with line breaks. Each is the text of one row of cells.

        With ``escape``, also escape markup at the start of each line.
        """
        return self._row_break.join(self.finalize_line(row.strip()) if escape else row.strip() for row in rows)

    def render_unread(self, line: UnreadLine, dimensions: tuple[int, int]) -> str:
        """Return markup for a line that was not read. Most formats have none, and return "".

        ``dimensions`` is (height, width) of the page in pixels.
        """
        return ""

    def _render_parts(self, kind: str, parts: Sequence[Part], escape: bool) -> list[str]:
        if kind == "table":
            return [self.render_table(part.table, escape) for part in parts if part.table is not None]
        texts = [[self.escape_text(line) if escape else line for line in part.lines] for part in parts]
        if kind in self.headings:
            return [
                self.render_heading(kind, " ".join(lines), max(part.level, 1))
                for part, lines in zip(parts, texts, strict=True)
            ]
        if kind == "list_item":
            return [self.render_list([" ".join(lines) for lines in texts], escape)]
        return [
            self.render_rows(lines, escape) if part.has_rows else self.render_paragraph(lines, escape)
            for part, lines in zip(parts, texts, strict=True)
        ]

    def export_page(
        self,
        page: TextPage,
        direction: str = "auto",
        escape: bool = True,
        include_furniture: bool = True,
        block_break: str | None = None,
    ) -> str:
        """Export a page in reading order.

        Args:
            page: The `Page`.
            direction, escape, include_furniture: As for `Page.export_as_markdown`.
            block_break: The separator between blocks. The default depends on the format.

        Returns:
            The text.
        """
        # A line for which the format writes nothing must not split a list.
        marks = {id(line): self.render_unread(line, page.dimensions) for line in unread_lines(page)}
        parts = [
            part
            for part in page_parts(page, direction, include_furniture)
            if part.unread is None or marks[id(part.unread)]
        ]
        if self.joins_lines and page.in_reading_order:
            context = " ".join(line for part in parts for line in part.lines)
            for part in parts:
                if part.label is not None and not part.has_rows:
                    whole = mend_hyphenation(part.lines, context)
                    part.lines = [_BULLET.sub("", whole) if part.kind == "list_item" else whole]
        rendered = []
        for kind, group in groupby(parts, key=lambda part: part.kind):
            if kind == "unread":
                rendered += [marks[id(part.unread)] for part in group]
            else:
                rendered += self._render_parts(kind, list(group), escape)
        return (self.block_break if block_break is None else block_break).join(filter(None, rendered))

    def export_kie_page(self, page: PredictionPage, direction: str = "auto", escape: bool = True) -> str:
        """Export a page of predictions, with a list for each class. See `export_page` for the arguments."""
        sections = []
        for class_name, predictions in page.predictions.items():
            if predictions:
                ordered = predictions_in_reading_order(page, predictions, direction)
                values = [self.escape_text(item.value) if escape else item.value for item in ordered]
                sections.append(self.render_class(class_name, values, escape))
        marks = [self.render_unread(line, page.dimensions) for line in unread_lines(page)]
        return self.block_break.join([*sections, *filter(None, marks)])

    def render_class(self, class_name: str, values: Sequence[str], escape: bool = True) -> str:
        """Return the predictions of one class: a header and a list. ``values`` are their texts, already escaped."""
        return self.block_break.join([self.class_header(class_name, escape), self.render_list(values, escape)])

    def export_document(self, document: DocumentBase, page_break: str | None = None, **kwargs: Any) -> str:
        """Export a document.

        Args:
            document: A `Document` or `KIEDocument`.
            page_break: The separator between pages. The default depends on the format.
            **kwargs: Arguments of `export_page` or `export_kie_page`.
        """
        return (self.page_break if page_break is None else page_break).join(
            self.export_kie_page(page, **kwargs) if hasattr(page, "predictions") else self.export_page(page, **kwargs)
            for page in document.pages
        )


class TextExporter(TextFormat):
    """Export to plain text.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, TextExporter, Word
        >>> word = Word("hello", 0.9, ((0.1, 0.1), (0.5, 0.2)), 0.8, {"value": 0, "confidence": None})
        >>> TextExporter().export_page(Page(np.zeros((20, 30, 3), np.uint8), [Block([Line([word])])], 0, (20, 30)))
        'hello'
    """

    page_break: ClassVar[str] = "\n\n\n\n"
    _strong: ClassVar[str] = "{}:"
    joins_lines: ClassVar[bool] = False

    def export_page(
        self,
        page: TextPage,
        direction: str = "auto",
        escape: bool = True,
        include_furniture: bool = True,
        block_break: str | None = None,
        *,
        layout: bool = False,
    ) -> str:
        """Return the text of a page in reading order. See `Page.render` for the arguments. ``escape`` has no effect."""
        if not layout:
            return super().export_page(page, direction, escape, include_furniture, block_break)
        cells = []
        for item, _, item_cells in _page_items(page, direction, include_furniture):
            cells += _table_cells(page, item, direction) if isinstance(item, Table) else item_cells
        return page_grid(cells)

    def render_table(self, table: Table, escape: bool = True) -> str:
        """Return the table with a line for each row, and tabs between columns. ``escape`` has no effect."""
        return table.render()

    def render_rows(self, rows: Sequence[str], escape: bool = True) -> str:
        """Return the rows, joined by line breaks. They are not stripped: their spaces keep the columns aligned."""
        return "\n".join(rows)
