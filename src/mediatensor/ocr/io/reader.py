"""Documents: files of any number of pages, each read when it is asked for."""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..._images import MAX_PIXELS, look_like, sniff
from ...errors import InvalidArgumentError, OpenError, SourceTypeError
from ._documents.fetch import fetch
from ._documents.images import ImageDocument, ImageOptions
from ._documents.pages import PageNumbers, PageSource, check_index, check_max_pixels, check_output_size, keep, selected
from ._documents.tiff import is_tiff
from .html import print_page
from .pdf import read_pdf

if TYPE_CHECKING:
    from .elements import Word

__all__ = ["DocumentFile", "Pages", "open_document"]

# A PDF file may begin with something else.
_NUM_SNIFFED_BYTES = 1024


class Pages(Sequence[NDArray[np.uint8]]):
    """Pages of documents, in order. A page is read or rendered when it is asked for, and not kept.

    Made by `DocumentFile`, `read_pdf`, slices (``pages[2:5]``) and sums (``pages + others``). Can be pickled, and read
    from several threads and from forked processes. A page that cannot be read raises `PageError`; the others are not
    concerned, and an iterator goes on after it.

    Args:
        documents: Whose pages they are, one document after the other.
        numbers: Which of them, counted through all the documents; ``None`` for all.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> from mediatensor.ocr import DocumentFile
        >>> files = []
        >>> for gray in (0, 255):
        ...     files.append(io.BytesIO())
        ...     Image.new("L", (6, 4), gray).save(files[-1], "PNG")
        >>> pages = DocumentFile.from_images(files)
        >>> len(pages), pages[1].shape, pages.tensor(0).shape
        (2, (4, 6, 3), torch.Size([3, 4, 6]))
        >>> [int(page.max()) for page in pages[::-1] + pages]
        [255, 0, 0, 255]
    """

    def __init__(self, documents: Sequence[PageSource], numbers: range | tuple[int, ...] | None = None) -> None:
        self._documents = tuple(documents)
        self._starts = [0]
        for document in self._documents:
            self._starts.append(self._starts[-1] + document.num_pages)
        self._numbers = range(self._starts[-1]) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> NDArray[np.uint8]: ...

    @overload
    def __getitem__(self, index: slice) -> Pages: ...

    def __getitem__(self, index: int | slice) -> NDArray[np.uint8] | Pages:
        """A page, (H, W, 3) uint8; or, for a slice, these pages, not yet read.

        Raises:
            PageError: if the page cannot be read.
            OutOfRangeError: (an IndexError) if there is none of that index.
            TypeError: if the index is neither a whole number nor a slice.
        """
        if isinstance(index, slice):
            return Pages(self._documents, self._numbers[index])
        if not hasattr(index, "__index__"):
            raise TypeError(f"Unsupported index type: {type(index)}. Supported types are int and slice.")
        document, number = self._locate(index)
        return document.read(number)

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return map(self.__getitem__, range(len(self)))

    def __add__(self, other: Iterable[NDArray[np.uint8]]) -> Any:
        """The pages of both: `Pages` if ``other`` is, else a list with every page read."""
        if isinstance(other, Pages):
            shift = self._starts[-1]
            numbers = (*self._numbers, *(number + shift for number in other._numbers))
            return Pages(self._documents + other._documents, numbers)
        return [*self, *other] if isinstance(other, (list, tuple)) else NotImplemented

    def __radd__(self, other: Iterable[NDArray[np.uint8]]) -> Any:
        return [*other, *self] if isinstance(other, (list, tuple)) else NotImplemented

    def __repr__(self) -> str:
        names = ", ".join(document.name for document in self._documents[:3])
        return f"<{len(self)} page{'s' * (len(self) != 1)} of {names}{', ...' if len(self._documents) > 3 else ''}>"

    def select(self, pages: PageNumbers) -> Pages:
        """Some of the pages.

        Args:
            pages: A number from 0 (negative from the end), or a range, a slice or a sequence of them; ``None`` for all.

        Raises:
            InvalidArgumentError: if it is no selection, or an empty one.
            OutOfRangeError: if there is no page of one of the numbers.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> len(DocumentFile.from_pdf("report.pdf").select(range(2)))
            2
        """
        numbers = selected(pages, len(self))
        if isinstance(numbers, range):
            return self if pages is None else self[numbers.start : _stop_of(numbers) : numbers.step]
        return Pages(self._documents, tuple(self._numbers[number] for number in numbers))

    def tensor(self, index: int) -> Tensor:
        """A page as a tensor, (3, H, W) uint8, contiguous.

        Raises:
            PageError, OutOfRangeError: as indexing does.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> DocumentFile.from_pdf("report.pdf", dpi=100).tensor(0).shape
            torch.Size([3, 389, 556])
        """
        return torch.from_numpy(self[index]).permute(2, 0, 1).contiguous()

    def text_layer(self, index: int) -> list[Word]:
        """The words that the file itself has for a page: those of a PDF; of images none.

        A word is what stands between spaces; its box is that of its letters, which are its ``characters``. Relative to
        the page as it is rendered. In the order of the file, hidden text (as of a scanned page that was made
        searchable) included; what lies beyond the page is not. Nobody vouches that they say what is to be seen.

        Raises:
            PageError, OutOfRangeError: as indexing does.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> [word.value for word in DocumentFile.from_pdf("report.pdf").text_layer(0)[:2]]
            ['Delivery', 'note']
        """
        document, number = self._locate(index)
        return document.text_layer(number)

    def origin(self, index: int) -> tuple[str, int]:
        """Where a page comes from: what its document is called, and its number there, from 0.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> DocumentFile.from_pdf("report.pdf").origin(2)[1]
            2
        """
        document, number = self._locate(index)
        return document.name, number

    def _locate(self, index: int) -> tuple[PageSource, int]:
        number = self._numbers[check_index(index, len(self), "Page")]
        position = bisect.bisect_right(self._starts, number) - 1
        return self._documents[position], number - self._starts[position]


def _stop_of(numbers: range) -> int | None:
    """The end of a slice that takes what a range has, which for one that runs to the very beginning is none."""
    return numbers.stop if numbers.stop >= 0 else None


class DocumentFile:
    """Opens documents: from image files, PDF files, or a URL.

    Example:
        >>> from mediatensor.ocr import DocumentFile
        >>> pages = DocumentFile.from_pdf("report.pdf", dpi=100)
        >>> len(pages), pages[0].shape
        (3, (389, 556, 3))
    """

    @classmethod
    def from_images(cls, files: Any, **kwargs: Any) -> Pages:
        """Open image files. Each is a page; a TIFF of several pages or an animation is as many as it has pictures.

        Files are looked at when they are opened and decoded page by page, when a page is asked for. What is no image
        at all raises at once, what turns out to be damaged when that page is asked for.

        Args:
            files: A path (``str`` or ``Path``), the ``bytes`` of a file or a binary file object; or a list, tuple or
                other iterable of these.
            **kwargs: ``output_size``, ``rgb_output`` and ``max_pixels`` as `read_img_as_numpy`; ``pages`` as
                `read_pdf`, counted through all the files.

        Returns:
            The pages, (H, W, 3) uint8 each.

        Raises:
            SourceTypeError: (a TypeError) for a source of another type.
            SourceNotFoundError: (a FileNotFoundError) if there is no such file.
            OpenError: (a ValueError) if a file is empty or no image.
            InvalidArgumentError: if there are no files, or another argument has a value that is not accepted.
            OutOfRangeError: if there is no page of a number in ``pages``.
            MissingDependencyError: if a package for the format is missing.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> DocumentFile.from_images(["page.png", "page.png"]).tensor(1).shape
            torch.Size([3, 560, 800])
        """
        return _from_images(files, **kwargs)

    @classmethod
    def from_pdf(cls, file: Any, **kwargs: Any) -> Pages:
        """Open a PDF file; its pages are rendered one by one, when they are asked for. Needs the extra ``ocr``.

        Args:
            file: A path, the bytes of a file, or a binary file object.
            **kwargs: ``scale``, ``dpi``, ``pages``, ``password`` ... as `read_pdf`.

        Returns:
            The pages, (H, W, 3) uint8 each.

        Raises:
            MediaTensorError: as `read_pdf`.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> pages = DocumentFile.from_pdf("report.pdf", dpi=100, pages=range(2))
            >>> len(pages), pages[0].shape, [word.value for word in pages.text_layer(0)[:3]]
            (2, (389, 556, 3), ['Delivery', 'note', '2048'])
        """
        return read_pdf(file, **kwargs)

    @classmethod
    def from_url(cls, url: str, **kwargs: Any) -> Pages:
        """Open what a URL leads to: an image, a PDF file, or a web page, which is printed (needs the extra ``html``).

        Args:
            url: Of the scheme https or http. From https to http no redirection is followed.
            **kwargs: As `read_pdf`; if it is an image, as `from_images`.

        Returns:
            The pages, (H, W, 3) uint8 each.

        Raises:
            InvalidArgumentError: if ``url`` is no such URL.
            SourceNotFoundError: if the server says that there is nothing.
            OpenError: if nothing came, or nothing that can be opened.
            MissingDependencyError: if it is a web page and weasyprint is not installed.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> pages = DocumentFile.from_url("https://www.example.com/report.pdf", dpi=200)  # doctest: +SKIP
        """
        found = fetch(url)
        data = found.data
        if not data:
            raise OpenError(f"Could not open {url}: it is empty.")
        if b"%PDF" in data[:_NUM_SNIFFED_BYTES]:
            return read_pdf(data, **kwargs)
        if sniff(data) or is_tiff(data):
            return _from_images(data, **kwargs)
        if b"<" not in data[:1024]:
            raise OpenError(f"Could not open {url}: it is no image, PDF or HTML; it looks like {look_like(data)}.")
        return read_pdf(print_page(found), **kwargs)


def open_document(file: Any, *, max_pixels: int | None = MAX_PIXELS, **pdf_options: Any) -> Pages:
    """Open a PDF file or an image, whichever it turns out to be.

    Args:
        file: A path, a URL, bytes, or a binary file object.
        max_pixels: As `read_pdf`.
        **pdf_options: Further arguments of `read_pdf`, which images do without.

    Raises:
        MediaTensorError: if it cannot be opened.

    Example:
        >>> from mediatensor.ocr.io.reader import open_document
        >>> len(open_document("report.pdf")), len(open_document("page.png"))
        (3, 1)
    """
    kept = keep(file)
    if kept.path is None:
        beginning = kept.data[:_NUM_SNIFFED_BYTES]
    else:
        with open(kept.path, "rb") as stream:
            beginning = stream.read(_NUM_SNIFFED_BYTES)
    source = kept.data if kept.path is None else kept.path
    if b"%PDF" in beginning:
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
        raise InvalidArgumentError("files is empty; give at least one image file.")
    return Pages(documents).select(pages)


def _files(files: Any) -> Iterable[Any]:
    is_one = isinstance(files, (str, os.PathLike, bytes, bytearray, Tensor)) or hasattr(files, "read")
    if is_one:
        return [files]
    if isinstance(files, np.ndarray) or not isinstance(files, Iterable):
        hint = "; an array or a frame is a page as it is" if isinstance(files, np.ndarray) else ""
        raise SourceTypeError(
            f"files should be a path, bytes, a binary file object or a list of them (got {type(files).__name__}){hint}."
        )
    return files
