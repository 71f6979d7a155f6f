"""What was read, as a tree: words, lines, blocks, tables, regions of the layout, and what all pages have.

Data with `export`, `from_dict` and `render` of its own; it knows of no file format but the exported dictionaries of
docTR. `base` has what all elements share, `leaves` words and tables, `blocks` lines and blocks, `pages` pages.
"""

from __future__ import annotations

from .base import Element, Geometry, enclosing_geometry, stored, stored_list, to_json_safe
from .blocks import Block, Line
from .leaves import Artefact, Character, LayoutElement, Prediction, Table, TableCell, UnreadLine, Word
from .pages import DocumentBase, PageBase, PageImage, PredictionPage, TextPage, page_origin, page_pixels

__all__ = [
    "Artefact",
    "Block",
    "Character",
    "DocumentBase",
    "Element",
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
    "page_origin",
    "page_pixels",
    "stored",
    "stored_list",
    "to_json_safe",
]
