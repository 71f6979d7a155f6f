"""Exporters: a page, a page of predictions or a document as a file of one format or another.

Pages and documents have a method for each (`Page.export_as_html`, ...), and `Page.export_as` takes the name of the
format; the classes are for exports that somebody wants to change by subclassing.
"""

from __future__ import annotations

from ._elements.base import to_json_safe
from ._exports.alto import AltoExporter
from ._exports.hocr import XMLExporter
from ._exports.html import HTMLExporter
from ._exports.methods import DocumentExportsMixin, KIEPageExportsMixin, PageExportsMixin
from ._exports.reading import ordered_line_words, page_reading_order, predictions_in_reading_order
from ._exports.searchable_pdf import PDFExporter
from ._exports.text import AsciiDocExporter, MarkdownExporter, TextExporter
from ._exports.tsv import TSVExporter

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
