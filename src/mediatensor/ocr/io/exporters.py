"""Exporters: a page, a page of predictions or a document as a file of one format or another.

Pages and documents have a method for each (`Page.export_as_html`, ...), and `Page.export_as` takes the name of the
format; the classes are for exports that somebody wants to change by subclassing.
"""

from __future__ import annotations

from ._alto import AltoExporter
from ._element_base import to_json_safe
from ._hocr import XMLExporter
from ._html_format import HTMLExporter
from ._page_exports import DocumentExportsMixin, KIEPageExportsMixin, PageExportsMixin
from ._reading import ordered_line_words, page_reading_order, predictions_in_reading_order
from ._searchable_pdf import PDFExporter
from ._text_formats import AsciiDocExporter, MarkdownExporter, TextExporter
from ._tsv import TSVExporter

__all__ = [
    "AltoExporter",
    "AsciiDocExporter",
    "DocumentExportsMixin",
    "HTMLExporter",
    "KIEPageExportsMixin",
    "MarkdownExporter",
    "PDFExporter",
    "PageExportsMixin",
    "TSVExporter",
    "TextExporter",
    "XMLExporter",
    "ordered_line_words",
    "page_reading_order",
    "predictions_in_reading_order",
    "to_json_safe",
]
