"""Exports, one module for each format: text (with Markdown and AsciiDoc), HTML, hOCR, ALTO, TSV, searchable PDF,
CSV and workbooks of tables.

Text formats are written from `reading`, the content of a page in reading order. Formats with positions are written from
`regions`, the same content with positions in pixels. Exporters take elements, and know nothing of the methods of pages.
"""

from __future__ import annotations

from .alto import AltoExporter
from .hocr import DEFAULT_TITLE, XMLExporter
from .html import HTMLExporter
from .reading import cell_lines, ordered_line_words, page_reading_order, predictions_in_reading_order
from .searchable_pdf import PDFExporter
from .tables import joined_tables, tables_csv, tables_xlsx
from .text import AsciiDocExporter, MarkdownExporter, TextExporter
from .tsv import TSVExporter

__all__ = [
    "DEFAULT_TITLE",
    "AltoExporter",
    "AsciiDocExporter",
    "HTMLExporter",
    "MarkdownExporter",
    "PDFExporter",
    "TSVExporter",
    "TextExporter",
    "XMLExporter",
    "cell_lines",
    "joined_tables",
    "ordered_line_words",
    "page_reading_order",
    "predictions_in_reading_order",
    "tables_csv",
    "tables_xlsx",
]
