"""Build documents of pages, blocks and lines from words and their positions."""

from ._builders import DocumentBuilder, KIEDocumentBuilder

__all__ = ["DocumentBuilder", "KIEDocumentBuilder"]
