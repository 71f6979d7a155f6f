"""What was read as files, one module a format: text, HTML, hOCR, ALTO, TSV, searchable PDF.

Formats of text are written from `reading`, what stands on a page in the order in which it is read; formats with places
from `regions`, the same with places in pixels. Exporters take elements and know nothing of the methods of pages.
"""

from __future__ import annotations

from .alto import AltoExporter
from .hocr import DEFAULT_TITLE, XMLExporter
from .html import HTMLExporter
from .reading import ordered_line_words, page_reading_order, predictions_in_reading_order
from .searchable_pdf import PDFExporter
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
    "ordered_line_words",
    "page_reading_order",
    "predictions_in_reading_order",
]
