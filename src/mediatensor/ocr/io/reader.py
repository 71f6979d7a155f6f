"""Open documents. Each page is read when it is accessed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

from ..._engine.common.checks import check_max_pixels
from ..._engine.images.formats import look_like, sniff
from ..._engine.images.reading import MAX_FILE_BYTES, MAX_PIXELS
from ..._engine.sources.http import download
from ...errors import InvalidArgumentError, OpenError, SourceTypeError
from ._documents.images import ImageDocument, ImageOptions, is_tiff
from ._documents.pages import PageNumbers, Pages, check_output_size, keep_source
from ._documents.pdfium import is_pdf
from .html import print_page
from .pdf import read_pdf

__all__ = ["DocumentFile", "Pages", "open_document"]


class DocumentFile:
    """Functions that open image files, PDF files or a URL as a `Pages` sequence.

    Example:
        >>> from mediatensor.ocr import DocumentFile
        >>> pages = DocumentFile.from_pdf("report.pdf", dpi=100)
        >>> len(pages), pages[0].shape
        (3, (389, 556, 3))
    """

    @classmethod
    def from_images(cls, files: Any, **kwargs: Any) -> Pages:
        """Open image files as pages.

        A file with a single image is one page; a TIFF file or an animation has a page for each image.

        If a file is not an image, this function raises an error. Pages are decoded only when they are accessed, so a
        damaged image may raise `PageError` later.

        Args:
            files: A path (``str`` or ``Path``), the ``bytes`` of a file or a binary file object; or several of these in
                a list, tuple or other iterable.
            **kwargs: ``output_size`` (height, width), ``rgb_output`` (False for BGR) and ``max_pixels`` (limit on the
                pixels of an image), as in `read_img_as_numpy`. ``pages`` selects pages, as in `read_pdf`; numbers
                continue from one file to the next.

        Returns:
            A `Pages` sequence. Each item is decoded on access, as a NumPy array (H, W, 3), uint8.

        Raises:
            SourceTypeError: (a TypeError) if an element of ``files`` has an unsupported type.
            SourceNotFoundError: (a FileNotFoundError) if a file does not exist.
            OpenError: if a file is empty or not an image. This is a ``ValueError``.
            InvalidArgumentError: if there are no files, or another argument is invalid.
            OutOfRangeError: if a number in ``pages`` is out of range.
            MissingDependencyError: if a package for the format is missing.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> DocumentFile.from_images(["page.png", "page.png"]).tensor(1).shape
            torch.Size([3, 560, 800])
        """
        return _from_images(files, **kwargs)

    @classmethod
    def from_pdf(cls, file: Any, **kwargs: Any) -> Pages:
        """Open a PDF file. Each page is rendered when it is accessed. Needs the extra ``ocr``.

        Args:
            file: A path, the bytes of a file, or a binary file object.
            **kwargs: Further arguments of `read_pdf`, such as ``scale``, ``dpi``, ``pages`` and ``password``.

        Returns:
            A `Pages` sequence. Each item is rendered on access, as a NumPy array (H, W, 3), uint8.

        Raises:
            MediaTensorError: for the same reasons as in `read_pdf`.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> pages = DocumentFile.from_pdf("report.pdf", dpi=100, pages=range(2))
            >>> len(pages), pages[0].shape, [word.value for word in pages.text_layer(0)[:3]]
            (2, (389, 556, 3), ['Delivery', 'note', '2048'])
        """
        return read_pdf(file, **kwargs)

    @classmethod
    def from_url(cls, url: str, **kwargs: Any) -> Pages:
        """Download and open an image, a PDF file or a web page.

        Web pages are printed to PDF (needs the extra ``html``).

        Args:
            url: An https or http URL. A redirection from https to http raises an error.
            **kwargs: Further arguments of `from_images` if the URL is an image; otherwise of `read_pdf`.

        Returns:
            A `Pages` sequence. Each item is an array (H, W, 3), uint8, which is decoded or rendered on access.

        Raises:
            InvalidArgumentError: if ``url`` is not an https or http URL.
            SourceNotFoundError: if the server reports that the file does not exist.
            OpenError: if the download fails, or the response is empty or in an unsupported format.
            MissingDependencyError: if the URL is a web page and weasyprint is not installed.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> pages = DocumentFile.from_url("https://www.example.com/report.pdf", dpi=200)  # doctest: +SKIP
        """
        response = download(url, MAX_FILE_BYTES)
        data = response.data
        if not data:
            raise OpenError(f"Could not open {url}: it is empty.")
        if is_pdf(data):
            return read_pdf(data, **kwargs)
        if sniff(data) or is_tiff(data):
            return _from_images(data, **kwargs)
        if b"<" not in data[:1024]:
            raise OpenError(f"Could not open {url}: it is not an image, PDF or HTML; it looks like {look_like(data)}.")
        return read_pdf(print_page(response), **kwargs)


def open_document(file: Any, *, max_pixels: int | None = MAX_PIXELS, **pdf_options: Any) -> Pages:
    """Open a PDF file or an image file. The first bytes of the file decide which of the two it is.

    Args:
        file: A path, a URL, bytes, or a binary file object.
        max_pixels: Limit on height times width of a page or image, by default about 179 million. Accessing a larger
            page raises `PageError`; ``None`` means no limit.
        **pdf_options: Further arguments of `read_pdf`. They are ignored for images.

    Returns:
        A `Pages` sequence. Each item is an array (H, W, 3), uint8, which is decoded or rendered on access.

    Raises:
        MediaTensorError: if the file cannot be opened.

    Example:
        >>> from mediatensor.ocr.io.reader import open_document
        >>> len(open_document("report.pdf")), len(open_document("page.png"))
        (3, 1)
    """
    source = keep_source(file).source
    if is_pdf(source):
        return read_pdf(source, max_pixels=max_pixels, **pdf_options)
    return _from_images(source, max_pixels=max_pixels)


def _from_images(
    files: Any,
    output_size: tuple[int, int] | None = None,
    rgb_output: bool = True,
    *,
    pages: PageNumbers = None,
    max_pixels: int | None = MAX_PIXELS,
) -> Pages:
    limit = check_max_pixels(max_pixels)
    options = ImageOptions(check_output_size(output_size, limit), bool(rgb_output), limit)
    documents = [ImageDocument(file, options) for file in _files(files)]
    if not documents:
        raise InvalidArgumentError("files is empty; pass at least one image file.")
    return Pages(documents).select(pages)


def _files(files: Any) -> Iterable[Any]:
    is_one = isinstance(files, (str, os.PathLike, bytes, bytearray, Tensor)) or hasattr(files, "read")
    if is_one:
        return [files]
    if isinstance(files, np.ndarray) or not isinstance(files, Iterable):
        hint = "; pass arrays and frames to the predictor directly" if isinstance(files, np.ndarray) else ""
        raise SourceTypeError(
            f"files should be a path, bytes, a binary file object or a list of them (got {type(files).__name__}){hint}."
        )
    return files
