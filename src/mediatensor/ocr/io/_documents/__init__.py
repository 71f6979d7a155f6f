"""Documents in: PDF files and images as pages, each read on access.

`pages` has `Pages` and the interface of documents. `images` and `tiff` read images. `pdf` reads PDF files
with PDFium, in this process (`pdfium`, `pdf_page`) or in a separate one with a time limit (`pdf_process`,
`pdf_process_main`); `pdf_text` makes words of characters, and `pdf_drawing` finds type, lines and pictures.
`picture_pdf` puts an image into a PDF file. `web` fetches files from web servers.

This room knows the elements, because a PDF page has words, and nothing of exports.
"""

from __future__ import annotations

from .images import ImageDocument, ImageOptions
from .pages import PageNumbers, PageOfFile, Pages, PageSource, check_output_size, keep_source
from .pdf import PdfDocument
from .pdf_page import PdfOptions, characters, opened_page, relative_matrix
from .pdf_process import DEFAULT_TIMEOUT_SECONDS
from .pdf_text import PageCharacters, words_of
from .pdfium import OpenPdf, import_pdfium, is_pdf, pdfium_lock, save_document
from .picture_pdf import Picture, picture_pdf, pixels_as_jpeg, pixels_lossless
from .tiff import is_tiff
from .web import Fetched, fetch, web_scheme

__all__ = [
    "DEFAULT_TIMEOUT_SECONDS",
    "Fetched",
    "ImageDocument",
    "ImageOptions",
    "OpenPdf",
    "PageCharacters",
    "PageNumbers",
    "PageOfFile",
    "PageSource",
    "Pages",
    "PdfDocument",
    "PdfOptions",
    "Picture",
    "characters",
    "check_output_size",
    "fetch",
    "import_pdfium",
    "is_pdf",
    "is_tiff",
    "keep_source",
    "opened_page",
    "pdfium_lock",
    "picture_pdf",
    "pixels_as_jpeg",
    "pixels_lossless",
    "relative_matrix",
    "save_document",
    "web_scheme",
    "words_of",
]
