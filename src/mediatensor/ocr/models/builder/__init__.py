"""Build documents of pages, blocks and lines from words and their positions."""

from ._document import DocumentBuilder, KIEDocumentBuilder

__all__ = ["DocumentBuilder", "KIEDocumentBuilder"]
