"""From words with places to documents: lines, blocks, pages."""

from ._builders import DocumentBuilder, KIEDocumentBuilder

__all__ = ["DocumentBuilder", "KIEDocumentBuilder"]
