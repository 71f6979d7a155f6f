"""Read documents into pages, represent recognised documents as elements, and export elements.

The private package `_documents` reads pages, `_elements` defines the elements, and `_exports` writes file formats. The
public modules `exporters`, `elements`, `image`, `pdf`, `html` and `reader` are named as in docTR.
"""

from __future__ import annotations

from .elements import (
    Artefact,
    Block,
    Character,
    Document,
    Element,
    Field,
    KIEDocument,
    KIEPage,
    LayoutElement,
    Line,
    Page,
    Prediction,
    Table,
    TableCell,
    TextMatch,
    UnreadLine,
    Word,
)
from .exporters import (
    AltoExporter,
    AsciiDocExporter,
    Chunk,
    DocumentExportsMixin,
    HTMLExporter,
    KIEPageExportsMixin,
    MarkdownExporter,
    PageExportsMixin,
    PDFExporter,
    TextExporter,
    TSVExporter,
    XMLExporter,
    page_reading_order,
)
from .html import read_html
from .image import (
    decode_img_as_tensor,
    get_img_shape,
    read_img_as_numpy,
    read_img_as_tensor,
    tensor_from_numpy,
    tensor_from_pil,
)
from .pdf import read_pdf
from .reader import DocumentFile, Pages

__all__ = [
    "AltoExporter",
    "Artefact",
    "AsciiDocExporter",
    "Block",
    "Character",
    "Chunk",
    "Document",
    "DocumentExportsMixin",
    "DocumentFile",
    "Element",
    "Field",
    "HTMLExporter",
    "KIEDocument",
    "KIEPage",
    "KIEPageExportsMixin",
    "LayoutElement",
    "Line",
    "MarkdownExporter",
    "PDFExporter",
    "Page",
    "PageExportsMixin",
    "Pages",
    "Prediction",
    "TSVExporter",
    "Table",
    "TableCell",
    "TextExporter",
    "TextMatch",
    "UnreadLine",
    "Word",
    "XMLExporter",
    "decode_img_as_tensor",
    "get_img_shape",
    "page_reading_order",
    "read_html",
    "read_img_as_numpy",
    "read_img_as_tensor",
    "read_pdf",
    "tensor_from_numpy",
    "tensor_from_pil",
]
