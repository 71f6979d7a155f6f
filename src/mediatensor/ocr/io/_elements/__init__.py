"""The tree of a document that was read: words, lines, blocks, tables, layout regions, and the data of pages.

These classes are data. Each can export itself into dictionaries like those of docTR (`export`, `from_dict`) and render
its text. They know nothing of documents and of other formats. `base` has what all elements share, `leaves` has words,
lines and blocks, `structure` has regions, tables and fields, and `pages` has pages.
"""

from __future__ import annotations

from .base import Element, Geometry, enclosing_geometry, stored, stored_list, to_json_safe
from .leaves import Artefact, Block, Character, Line, Prediction, UnreadLine, Word, line_confidence
from .pages import DocumentBase, PageBase, PageImage, PredictionPage, TextPage, page_origin, page_pixels
from .structure import Field, LayoutElement, Table, TableCell

__all__ = [
    "Artefact",
    "Block",
    "Character",
    "DocumentBase",
    "Element",
    "Field",
    "Geometry",
    "LayoutElement",
    "Line",
    "PageBase",
    "PageImage",
    "Prediction",
    "PredictionPage",
    "Table",
    "TableCell",
    "TextPage",
    "UnreadLine",
    "Word",
    "enclosing_geometry",
    "line_confidence",
    "page_origin",
    "page_pixels",
    "stored",
    "stored_list",
    "to_json_safe",
]
