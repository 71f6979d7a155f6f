"""Export to the markup formats Markdown, AsciiDoc and HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from .._elements.elements import UnreadLine
from .._elements.page_order import one_line
from .._elements.pages import Table, TableCell
from .regions import Place
from .text import TextFormat

# Text that Markdown would take for a numbered item.
_NUMBERED = re.compile(r"^\d{1,9}[.)]\s+\S")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_ASCIIDOC_MARKER = re.compile(r"^(?=\s*(?:[=.\-/:']|(?:\d+|[A-Za-z])\.\s|(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION):))")


def _one_head(table: Table) -> list[list[str]]:
    """Return the grid of a table with all header rows joined into one, for formats that allow only one header row."""
    grid, num_rows = table.to_grid(), table.num_header_rows
    return grid if num_rows < 2 else [table.column_names(), *grid[num_rows:]]


class MarkdownExporter(TextFormat):
    """Export to Markdown: CommonMark, with tables in GitHub's syntax.

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
    _strong: ClassVar[str] = "**{}**"
    # Two spaces at the end of a line make a hard line break.
    _row_break: ClassVar[str] = "  \n"
    page_break: ClassVar[str] = "\n\n---\n\n"

    def escape_text(self, text: str) -> str:
        """Return the text with a backslash before each special character of Markdown."""
        text = re.sub(r"[\\`*_\[\]|#<>]", r"\\\g<0>", one_line(text))
        return _ENTITY.sub(r"\\&", text).replace("~~", r"\~\~")

    def finalize_line(self, line: str) -> str:
        """Return the line with a backslash before a first character that marks a list, a quotation or a heading."""
        line = re.sub(r"^(\s*\d{1,9})([.)])(?=\s|$)", r"\1\\\2", line)
        return re.sub(r"^(\s*)(?=[-+=~])", r"\1\\", line)

    def render_list(self, texts: Sequence[str], escape: bool = True) -> str:
        """Return the texts as a bulleted list. Texts that already start with a number get no bullet.

        ``escape`` selects whether `finalize_line` is applied to each item.
        """
        return "\n".join(
            text if _NUMBERED.match(text) else self.bullet + (self.finalize_line(text) if escape else text)
            for text in texts
        )

    def render_table(self, table: Table, escape: bool = True) -> str:
        """Return the table in GitHub's syntax, or "" if it has no cells.

        If the table has no header row, its first row is used as one. ``escape`` selects whether special characters in
        cells are escaped.
        """
        rows = [[self._cell(value, escape) for value in row] for row in _one_head(table)]
        if not rows or not rows[0]:
            return ""
        return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]])

    def _cell(self, value: str, escape: bool) -> str:
        return (self.escape_text(value) if escape else one_line(value).replace("|", r"\|")).strip()


class AsciiDocExporter(TextFormat):
    """Export to AsciiDoc.

    Special characters are written as character references. Backslashes are not used, because AsciiDoc displays a
    backslash if the next character has no special meaning at this place.

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
    _strong: ClassVar[str] = "*{}*"
    # A plus sign at the end of a line makes a hard line break.
    _row_break: ClassVar[str] = " +\n"
    page_break: ClassVar[str] = "\n\n<<<\n\n"

    def escape_text(self, text: str) -> str:
        """Return the text with a character reference for each special character of AsciiDoc."""
        text = _ENTITY.sub("&#38;", one_line(text)).replace("::", ":&#58;")
        # AsciiDoc replaces "(C)", "(R)" and "(TM)" by signs.
        special = r"[\\`*_^~|+{}<>\[\]]|#(?!\d+;)|\((?=(?:C|R|TM)\))"
        return re.sub(special, lambda match: f"&#{ord(match[0])};", text)

    def finalize_line(self, line: str) -> str:
        """Return the line. If it starts like a list, block or comment, put the invisible ``{empty}`` before it."""
        return _ASCIIDOC_MARKER.sub("{empty}", line)

    def render_table(self, table: Table, escape: bool = True) -> str:
        """Return the table in AsciiDoc syntax, or "" if it has no cells.

        If the table has no header row, its first row is used as one. ``escape`` selects whether special characters in
        cells are escaped.
        """
        rows = [" ".join("|" + self._cell(value, escape) for value in row) for row in _one_head(table)]
        if not rows or not rows[0]:
            return ""
        return "\n".join(["|===", rows[0], "", *rows[1:], "|==="])

    def _cell(self, value: str, escape: bool) -> str:
        # Within a table, a backslash always escapes a bar.
        return (
            self.escape_text(value).replace("&#124;", r"\|") if escape else one_line(value).replace("|", r"\|")
        ).strip()


class HTMLExporter(TextFormat):
    """Export to an HTML fragment: headings, paragraphs, lists and tables, without ``<html>``.

    Text is escaped by default. With ``escape=False``, a browser treats the text of the page as markup, which can
    contain scripts. Never show such a result in a browser.

    A line that was detected but not read becomes an empty paragraph of class "unread". Its attributes state the reason,
    the script if it is known, and the box (xmin, ymin, xmax, ymax) in pixels: ``<p class="unread" data-reason="script"
    data-script="Cyrillic" data-bbox="10 20 200 40"></p>``.

    Example:
        >>> from mediatensor.ocr.io import HTMLExporter
        >>> HTMLExporter().escape_text("a < b & c")
        'a &lt; b &amp; c'
    """

    headings: ClassVar[dict[str, str]] = {"title": "h1", "section_header": "h2"}
    _strong: ClassVar[str] = "<h3>{}</h3>"
    block_break: ClassVar[str] = "\n"
    page_break: ClassVar[str] = "\n<hr>\n"

    def escape_text(self, text: str) -> str:
        """Return the text with character references for ``&``, ``<`` and ``>``."""
        return html.escape(one_line(text), quote=False)

    def render_heading(self, kind: str, text: str, level: int = 1) -> str:
        """Return ``text``, which is already escaped, as a heading.

        If ``kind`` is "title", level 1 is ``<h1>``. If it is "section_header", level 1 is ``<h2>``. Each further level
        is one lower, down to ``<h6>``.
        """
        mark = f"h{min(int(self.headings[kind][1:]) + level - 1, 6)}"
        return f"<{mark}>{text}</{mark}>"

    def render_list(self, texts: Sequence[str], escape: bool = True) -> str:
        """Return the texts, which are already escaped, as items of a ``<ul>``. ``escape`` has no effect."""
        return "<ul>\n" + "\n".join(f"<li>{text}</li>" for text in texts) + "\n</ul>"

    def render_paragraph(self, lines: Sequence[str], escape: bool = True) -> str:
        """Return the lines, which are already escaped, as a ``<p>`` with a ``<br>`` between them."""
        return "<p>" + "<br>\n".join(lines) + "</p>"

    def render_rows(self, rows: Sequence[str], escape: bool = True) -> str:
        """Return the texts of the rows, which are already escaped, as a ``<p>`` with a ``<br>`` between them."""
        return self.render_paragraph([row.strip() for row in rows], escape)

    def render_unread(self, line: UnreadLine, dimensions: tuple[int, int]) -> str:
        """Return an empty ``<p class="unread">`` whose attributes describe the line.

        ``dimensions`` is (height, width) of the page in pixels, which is needed to state the box in pixels.
        """
        height, width = dimensions
        attributes = {"class": "unread", "data-reason": line.reason, "data-script": line.script}
        attributes["data-bbox"] = "{} {} {} {}".format(*Place.of(line.geometry, width, height).box)
        named = (f'{name}="{html.escape(one_line(text))}"' for name, text in attributes.items() if text is not None)
        return f"<p {' '.join(named)}></p>"

    def render_table(self, table: Table, escape: bool = True) -> str:
        """Return the table as a ``<table>``. Cells that span rows or columns have ``rowspan`` or ``colspan``.

        Cells of header rows are ``<th>``. If there are no header rows, the first row is used as one. ``escape`` selects
        whether special characters in cells are escaped. The result is "" if the table has no cells.
        """
        num_header_rows = table.num_header_rows or 1
        grid = table.to_grid()
        if not grid or not grid[0]:
            return ""
        starts = {(cell.row_start, cell.col_start): cell for cell in table.cells}
        # How many cells cover each position, not counting the first cell that covers it.
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
