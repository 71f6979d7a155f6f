"""Plain text, Markdown and AsciiDoc, and the base class of all text formats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar

import numpy as np

from .._elements import Block, DocumentBase, PredictionPage, Table, TextPage
from .reading import (
    line_boxes,
    line_direction,
    one_line,
    ordered_line_words,
    page_reading_order,
    predictions_in_reading_order,
)
from .text_grid import Cell, grid_lines, level_rows, page_grid

__all__ = ["AsciiDocExporter", "MarkdownExporter", "TextExporter", "TextFormat"]

_FURNITURE = ("header", "footer", "footnote")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_ASCIIDOC_MARKER = re.compile(r"^(?=\s*(?:[=.\-/:']|(?:\d+|[A-Za-z])\.\s|(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION):))")


@dataclass
class _Part:
    """One block of the page: its kind ('text', 'table', or a type of layout region) and its content."""

    kind: str
    lines: list[str] = field(default_factory=list)
    table: Table | None = None
    has_rows: bool = False


def _page_parts(page: TextPage, direction: str, include_furniture: bool) -> Iterator[_Part]:
    """The content of the page in reading order, without blocks that have no text."""
    from ...models.reading_order import normalize_layout_label

    for item, label, cells in _page_items(page, direction, include_furniture):
        rows = level_rows(cells)
        has_rows = len(rows) < len(cells)
        if isinstance(item, Table):
            yield _Part("table", table=item)
        elif rows:
            lines = grid_lines(rows) if has_rows else [cell.text for cell in cells]
            yield _Part(normalize_layout_label(label), lines, has_rows=has_rows)


def _page_items(
    page: TextPage, direction: str, include_furniture: bool
) -> Iterator[tuple[Block | Table, str | None, list[Cell]]]:
    """Blocks and tables in reading order, each with its label and, for blocks, its lines of text.

    Positions are on the upright page, in units of its width. For right-to-left pages, x is mirrored.
    """
    from ...models.reading_order import layout_label_role

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
            cells.append(Cell(" ".join(word.render() for word in words), *next(places)))
        if include_furniture or layout_label_role(label) not in _FURNITURE:
            yield item, label, [cell for cell in cells if cell.text.strip()]


def _table_cells(page: TextPage, table: Table, direction: str) -> list[Cell]:
    """The cells of a table as cells of the page."""
    height, width = page.dimensions
    cells = []
    for cell in table.cells:
        points = np.asarray(cell.geometry, dtype=np.float64) * (1.0, height / width if height and width else 1.0)
        (left, top), (right, bottom) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
        cells.append(
            Cell(one_line(cell.value), *((-right, top, -left) if direction == "rtl" else (left, top, right)), bottom)
        )
    return cells


class TextFormat:
    """A text format: its headings, lists, tables and breaks. Subclass it for a new format."""

    headings: ClassVar[dict[str, str]] = {}
    bullet: ClassVar[str] = ""
    block_break: ClassVar[str] = "\n\n"
    page_break: ClassVar[str] = "\n\n"

    def escape_text(self, text: str) -> str:
        """The text with the special characters of the format escaped."""
        return text

    def finalize_line(self, line: str) -> str:
        """The escaped line with markup at its start escaped, too."""
        return line

    def class_header(self, class_name: str, escape: bool = True) -> str:
        """The header of a class of predictions."""
        raise NotImplementedError

    def render_table(self, table: Table, escape: bool = True) -> str:
        """The table in the format; empty if it has no cells."""
        raise NotImplementedError

    def render_heading(self, kind: str, text: str) -> str:
        """A heading of a kind that `headings` has."""
        return self.headings[kind] + text

    def render_list(self, texts: Sequence[str], escape: bool = True) -> str:
        """A list of escaped texts."""
        return "\n".join(self.bullet + (self.finalize_line(text) if escape else text) for text in texts)

    def render_paragraph(self, lines: Sequence[str], escape: bool = True) -> str:
        """A paragraph of escaped lines."""
        return "\n".join(self.finalize_line(line) if escape else line for line in lines)

    def render_rows(self, rows: Sequence[str], escape: bool = True) -> str:
        """Escaped rows of cells, aligned by spaces, as separate lines."""
        return self.render_paragraph([row.strip() for row in rows], escape)

    def _render_parts(self, kind: str, parts: Sequence[_Part], escape: bool) -> list[str]:
        """Render consecutive parts of one kind."""
        if kind == "table":
            return [self.render_table(part.table, escape) for part in parts if part.table is not None]
        texts = [[self.escape_text(line) if escape else line for line in part.lines] for part in parts]
        if kind in self.headings:
            return [self.render_heading(kind, " ".join(lines)) for lines in texts]
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
            direction: Reading direction: 'auto', 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
            escape: Whether special characters of the format are escaped.
            include_furniture: Whether to include page headers, page footers and footnotes.
            block_break: The separator between two blocks; by default that of the format.

        Returns:
            The text.
        """
        parts = groupby(_page_parts(page, direction, include_furniture), key=lambda part: part.kind)
        rendered = [text for kind, group in parts for text in self._render_parts(kind, list(group), escape)]
        return (self.block_break if block_break is None else block_break).join(filter(None, rendered))

    def export_kie_page(self, page: PredictionPage, direction: str = "auto", escape: bool = True) -> str:
        """Export a page of predictions, with a list for each class; arguments as for `export_page`."""
        sections = []
        for class_name, predictions in page.predictions.items():
            if predictions:
                ordered = predictions_in_reading_order(page, predictions, direction)
                values = [self.escape_text(item.value) if escape else item.value for item in ordered]
                sections.append(self.render_class(class_name, values, escape))
        return self.block_break.join(sections)

    def render_class(self, class_name: str, values: Sequence[str], escape: bool = True) -> str:
        """A class of predictions: its header and the list of its escaped values."""
        return f"{self.class_header(class_name, escape)}\n\n{self.render_list(values, escape)}"

    def export_document(self, document: DocumentBase, page_break: str | None = None, **kwargs: Any) -> str:
        """Export a document.

        Args:
            document: A `Document` or `KIEDocument`.
            page_break: The separator between two pages; by default that of the format.
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
        """Export a page: block by block, or, with ``layout``, laid out as on the page.

        Args:
            page: The `Page`.
            direction: Reading direction: 'auto', 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
            escape: Without effect, because plain text has no special characters.
            include_furniture: Whether to include page headers, page footers and footnotes.
            block_break: The separator between two blocks; by default an empty line.
            layout: Whether to keep the layout of the page, by spaces and empty lines, instead of writing one block
                after the other.

        Returns:
            The text.
        """
        if not layout:
            return super().export_page(page, direction, escape, include_furniture, block_break)
        cells = []
        for item, _, own in _page_items(page, direction, include_furniture):
            cells += _table_cells(page, item, direction) if isinstance(item, Table) else own
        return page_grid(cells)

    def render_table(self, table: Table, escape: bool = True) -> str:
        """The table with tabs between columns and one line for each row."""
        return table.render()

    def render_rows(self, rows: Sequence[str], escape: bool = True) -> str:
        """The rows unchanged, which keeps the columns aligned."""
        return "\n".join(rows)

    def class_header(self, class_name: str, escape: bool = True) -> str:
        """The name and a colon."""
        return f"{class_name}:"


class MarkdownExporter(TextFormat):
    """Export to Markdown (CommonMark, tables of GitHub).

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, MarkdownExporter, Page, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> MarkdownExporter().export_page(page)
        'Total'
    """

    headings: ClassVar[dict[str, str]] = {"title": "# ", "section_header": "## "}
    bullet: ClassVar[str] = "- "
    page_break: ClassVar[str] = "\n\n---\n\n"

    def escape_text(self, text: str) -> str:
        """The text with a backslash before each special character of Markdown."""
        text = re.sub(r"[\\`*_\[\]|#<>]", r"\\\g<0>", one_line(text))
        return _ENTITY.sub(r"\\&", text).replace("~~", r"\~\~")

    def finalize_line(self, line: str) -> str:
        """The line with a backslash before markup that would start a list, a quotation or a heading."""
        line = re.sub(r"^(\s*\d{1,9})([.)])(?=\s|$)", r"\1\\\2", line)
        return re.sub(r"^(\s*)(?=[-+=~])", r"\1\\", line)

    def render_rows(self, rows: Sequence[str], escape: bool = True) -> str:
        """The rows with a hard line break (two spaces) after each but the last."""
        return "  \n".join(self.finalize_line(row.strip()) if escape else row.strip() for row in rows)

    def render_table(self, table: Table, escape: bool = True) -> str:
        """The table in the syntax of GitHub, with the first row as its header."""
        rows = [[self._cell(value, escape) for value in row] for row in table.to_grid()]
        if not rows or not rows[0]:
            return ""
        return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]])

    def _cell(self, value: str, escape: bool) -> str:
        return (self.escape_text(value) if escape else one_line(value).replace("|", r"\|")).strip()

    def class_header(self, class_name: str, escape: bool = True) -> str:
        """The name in bold."""
        return f"**{self.escape_text(class_name) if escape else class_name}**"


class AsciiDocExporter(TextFormat):
    """Export to AsciiDoc.

    Special characters become character references: AsciiDoc shows a backslash, instead of taking it as an escape,
    before a character that is not special in its context.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import AsciiDocExporter, Block, Line, Page, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> AsciiDocExporter().export_page(page)
        'Total'
    """

    headings: ClassVar[dict[str, str]] = {"title": "== ", "section_header": "=== "}
    bullet: ClassVar[str] = "* "
    page_break: ClassVar[str] = "\n\n<<<\n\n"

    def escape_text(self, text: str) -> str:
        """The text with each special character of AsciiDoc replaced by a character reference."""
        text = _ENTITY.sub("&#38;", one_line(text)).replace("::", ":&#58;")
        return re.sub(r"[\\`*_^~|+{}<>\[\]]|#(?!\d+;)", lambda match: f"&#{ord(match[0])};", text)

    def finalize_line(self, line: str) -> str:
        """The line with an empty attribute before markup that would start a list, a block or a comment."""
        return _ASCIIDOC_MARKER.sub("{empty}", line)

    def render_rows(self, rows: Sequence[str], escape: bool = True) -> str:
        """The rows with a hard line break (a plus sign) after each but the last."""
        return " +\n".join(self.finalize_line(row.strip()) if escape else row.strip() for row in rows)

    def render_table(self, table: Table, escape: bool = True) -> str:
        """The table, with the first row as its header."""
        rows = [" ".join("|" + self._cell(value, escape) for value in row) for row in table.to_grid()]
        if not rows or not rows[0]:
            return ""
        return "\n".join(["|===", rows[0], "", *rows[1:], "|==="])

    def _cell(self, value: str, escape: bool) -> str:
        # In a table, a backslash always escapes a bar.
        return (
            self.escape_text(value).replace("&#124;", r"\|") if escape else one_line(value).replace("|", r"\|")
        ).strip()

    def class_header(self, class_name: str, escape: bool = True) -> str:
        """The name in bold."""
        return f"*{self.escape_text(class_name) if escape else class_name}*"
