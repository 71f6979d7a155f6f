"""PDF files as documents: pages rendered on access, and the words that the file stores for them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...._common.threads import working
from ....errors import DecodeError
from .._elements import Word
from .pages import PageSource, keep_source, raising_page_error
from .pdf_page import PdfOptions, Pixels, characters, rendered
from .pdf_process import IsolatedPdf
from .pdf_text import PageCharacters, words_of
from .pdfium import OpenPdf, import_pdfium
from .tiff import blend_over_white

__all__ = ["PdfDocument"]


class PdfDocument(PageSource):
    """One PDF file.

    A document that was opened by path keeps the path only; any other keeps the bytes.

    Args:
        source: Whatever `make_source` takes.
        password: The password of an encrypted file.
        options: How to render pages.
        timeout_seconds: Maximum seconds that PDFium may work on a page, in a separate process; ``None`` for this
            process and no limit.

    Attributes:
        options: The options.
        file: Opens the file in this process.

    Raises:
        SourceTypeError, SourceNotFoundError, ReadError: if the source cannot be read.
        OpenError: if it is not a PDF file, is damaged, has no pages, or the password is missing or wrong.
        MissingDependencyError: if pypdfium2 is not installed.
    """

    def __init__(
        self, source: object, password: str | None, options: PdfOptions, timeout_seconds: float | None = None
    ) -> None:
        import_pdfium()
        kept = keep_source(source)
        self.name = kept.name
        self.options = options
        self.file = OpenPdf(kept.source, self.name, password)
        self._isolated: IsolatedPdf | None = None
        if timeout_seconds is not None:
            self._isolated = IsolatedPdf(kept.source, self.name, password, options, timeout_seconds)
            self.num_pages = self._isolated.num_pages()
        else:
            with self.file() as pdf:
                self.num_pages = len(pdf)

    def read(self, number: int) -> NDArray[np.uint8]:
        with raising_page_error(number, self.name), working():
            if self._isolated is not None:
                return _page_of(self._isolated.rendered(number))
            with self.file() as pdf:
                return _page_of(rendered(pdf, number, self.options))

    def text_layer(self, number: int) -> list[Word]:
        with raising_page_error(number, self.name), working():
            if self._isolated is not None:
                found = self._isolated.characters(number)
            else:
                with self.file() as pdf:
                    found = characters(pdf, number, self.options)
            boxes = np.asarray(found.boxes, np.float64).reshape(-1, 4)
            matrix = np.asarray(found.matrix, np.float64).reshape(3, 2)
            placed = boxes[:, [[0, 2], [1, 2], [1, 3], [0, 3]]] @ matrix[:2] + matrix[2]
            placed = np.concatenate([placed.min(axis=1), placed.max(axis=1)], axis=1)
            return words_of(PageCharacters(np.asarray(found.codes, np.uint32), placed))


def _page_of(pixels: Pixels) -> NDArray[np.uint8]:
    """A page that PDFium has drawn as a contiguous array (H, W, 3).

    Raises:
        DecodeError: if the size of the picture and the size of its data do not match.
    """
    height, width, num_channels = pixels.height, pixels.width, pixels.num_channels
    data = np.frombuffer(pixels.data, np.uint8)
    if (
        num_channels not in (1, 3, 4)
        or pixels.row_bytes < width * num_channels
        or data.size != height * pixels.row_bytes
    ):
        raise DecodeError(f"its picture has {data.size} bytes, which do not match {width}x{height} pixels")
    rows = data.reshape(height, pixels.row_bytes)[:, : width * num_channels].reshape(height, width, num_channels)
    if num_channels == 1:
        return np.repeat(rows, 3, axis=2)
    if pixels.has_alpha:
        return np.stack(blend_over_white([rows[..., channel] for channel in range(4)]), axis=-1)
    return np.ascontiguousarray(rows[..., :3])
