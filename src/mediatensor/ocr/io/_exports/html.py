"""HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as escape_html
from typing import ClassVar

import numpy as np

from .._elements.leaves import UnreadLine
from .._elements.structure import Table, TableCell
from .reading import one_line
from .regions import Place
from .text import TextFormat

__all__ = ["HTMLExporter"]


class HTMLExporter(TextFormat):
    """Export to a fragment of HTML: headings, paragraphs, lists and tables, without ``<html>``.

    Text is escaped. With ``escape=False``, text on the page becomes markup, and the result must not reach a browser.

    A line that was not read is an empty paragraph of the class "unread", with the reason, the script and the box in
    pixels: ``<p class="unread" data-reason="script" data-script="Cyrillic" data-bbox="10 20 200 40"></p>``.

    Example:
        >>> from mediatensor.ocr.io import HTMLExporter
        >>> HTMLExporter().escape_text("a < b & c")
        'a &lt; b &amp; c'
    """

    headings: ClassVar[dict[str, str]] = {"title": "h1", "section_header": "h2"}
    block_break: ClassVar[str] = "\n"
    page_break: ClassVar[str] = "\n<hr>\n"

    def escape_text(self, text: str) -> str:
        """The text with ``&``, ``<`` and ``>`` replaced by character references."""
        return escape_html(one_line(text), quote=False)

    def render_heading(self, kind: str, text: str, level: int = 1) -> str:
        """``<h1>`` for titles, ``<h2>`` to ``<h6>`` for section headers."""
        mark = f"h{min(int(self.headings[kind][1:]) + level - 1, 6)}"
        return f"<{mark}>{text}</{mark}>"

    def render_list(self, texts: Sequence[str], escape: bool = True) -> str:
        """``<ul>``."""
        return "<ul>\n" + "\n".join(f"<li>{text}</li>" for text in texts) + "\n</ul>"

    def render_paragraph(self, lines: Sequence[str], escape: bool = True) -> str:
        """``<p>`` with a ``<br>`` between lines."""
        return "<p>" + "<br>\n".join(lines) + "</p>"

    def render_unread(self, line: UnreadLine, dimensions: tuple[int, int]) -> str:
        """An empty ``<p class="unread">``."""
        height, width = dimensions
        attributes = {"class": "unread", "data-reason": line.reason, "data-script": line.script}
        attributes["data-bbox"] = "{} {} {} {}".format(*Place.of(line.geometry, width, height).box)
        named = (f'{name}="{escape_html(one_line(text))}"' for name, text in attributes.items() if text is not None)
        return f"<p {' '.join(named)}></p>"

    def class_header(self, class_name: str, escape: bool = True) -> str:
        """``<h3>``."""
        return f"<h3>{self.escape_text(class_name) if escape else class_name}</h3>"

    def render_class(self, class_name: str, values: Sequence[str], escape: bool = True) -> str:
        """A class of predictions: its header and the list of its escaped values."""
        return f"{self.class_header(class_name, escape)}\n{self.render_list(values, escape)}"

    def render_table(self, table: Table, escape: bool = True) -> str:
        """``<table>`` with its head, or the first row where no head is known, as ``<th>``.

        Spanning cells have ``rowspan`` and ``colspan``.
        """
        num_header_rows = table.num_header_rows or 1
        grid = table.to_grid()
        if not grid or not grid[0]:
            return ""
        starts = {(cell.row_start, cell.col_start): cell for cell in table.cells}
        # How many cells cover each position, but for the first of each.
        covered = np.zeros((table.num_rows, table.num_cols), dtype=np.int32)
        for cell in table.cells:
            rows = slice(max(cell.row_start, 0), max(cell.row_end + 1, 0))
            covered[rows, max(cell.col_start, 0) : max(cell.col_end + 1, 0)] += 1
            if 0 <= cell.row_start < table.num_rows and 0 <= cell.col_start < table.num_cols:
                covered[cell.row_start, cell.col_start] -= 1
        lines = [
            "<tr>"
            + "".join(
                self._cell(value, "th" if row < num_header_rows else "td", starts.get((row, column)), escape)
                for column, value in enumerate(values)
                if covered[row, column] <= 0
            )
            + "</tr>"
            for row, values in enumerate(grid)
        ]
        return "\n".join(["<table>", *lines, "</table>"])

    def _cell(self, value: str, tag: str, cell: TableCell | None, escape: bool) -> str:
        spans = ""
        if cell is not None:
            spans += f' rowspan="{cell.row_span}"' if cell.row_span > 1 else ""
            spans += f' colspan="{cell.col_span}"' if cell.col_span > 1 else ""
        return f"<{tag}{spans}>{(self.escape_text(value) if escape else value).strip()}</{tag}>"
