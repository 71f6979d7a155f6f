"""PDF files as documents: pages rendered when they are asked for, and the words that the file has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..._threads import working
from ...errors import DecodeError
from ._page_source import PageSource, failing_as_page, keep
from ._pdf_page import PdfOptions, Pixels, characters, rendered
from ._pdf_text import PageCharacters, words_of
from ._pdfium import OpenPdf, import_pdfium
from ._raster import blend_over_white

if TYPE_CHECKING:
    from ._pdf_process import IsolatedPdf
    from .elements import Word

__all__ = ["PdfDocument"]


class PdfDocument(PageSource):
    """One PDF file.

    Of a path only the path is kept, of anything else the bytes.

    Args:
        source: Whatever `make_source` takes.
        password: To open it with.
        options: How pages are rendered.
        timeout_seconds: Most seconds that PDFium may work on a page, in a process of its own; ``None`` for this process
            and no limit.

    Attributes:
        options: As given.
        file: To open it in this process.

    Raises:
        SourceTypeError, SourceNotFoundError, ReadError: if the source cannot be read.
        OpenError: if it is no PDF file, is damaged, has no pages, or the password is missing or wrong.
        MissingDependencyError: if pypdfium2 is not installed.
    """

    def __init__(
        self, source: object, password: str | None, options: PdfOptions, timeout_seconds: float | None = None
    ) -> None:
        import_pdfium()
        path, data, self.name = keep(source)
        self.options = options
        self.file = OpenPdf(data if path is None else path, self.name, password)
        self._isolated: IsolatedPdf | None = None
        if timeout_seconds is not None:
            # Reading text without a limit need not wait for what starts processes.
            from ._pdf_process import IsolatedPdf

            self._isolated = IsolatedPdf(data if path is None else path, self.name, password, options, timeout_seconds)
            self.num_pages = self._isolated.num_pages()
        else:
            with self.file() as pdf:
                self.num_pages = len(pdf)

    def read(self, number: int) -> NDArray[np.uint8]:
        with failing_as_page(number, self.name), working():
            if self._isolated is not None:
                return _page_of(self._isolated.rendered(number))
            with self.file() as pdf:
                return _page_of(rendered(pdf, number, self.options))

    def text_layer(self, number: int) -> list[Word]:
        with failing_as_page(number, self.name), working():
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
    """(H, W, 3), contiguous, of what PDFium has drawn.

    Raises:
        DecodeError: if the numbers of the picture are not those of its data.
    """
    height, width, num_channels = pixels.height, pixels.width, pixels.num_channels
    data = np.frombuffer(pixels.data, np.uint8)
    if (
        num_channels not in (1, 3, 4)
        or pixels.row_bytes < width * num_channels
        or data.size != height * pixels.row_bytes
    ):
        raise DecodeError(f"its picture has {data.size} bytes, which are not {width}x{height} pixels")
    rows = data.reshape(height, pixels.row_bytes)[:, : width * num_channels].reshape(height, width, num_channels)
    if num_channels == 1:
        return np.repeat(rows, 3, axis=2)
    if pixels.has_alpha:
        return np.stack(blend_over_white([rows[..., channel] for channel in range(4)]), axis=-1)
    return np.ascontiguousarray(rows[..., :3])
