"""`Pages`, a sequence of pages that are read when accessed; and `PageSource`, the interface of all documents."""

from __future__ import annotations

import bisect
import io
import operator
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...._engine.common.checks import items_of, shown
from ...._engine.images.reading import read_bytes
from ...._engine.sources.source import MemorySource, PathSource, make_source
from ....errors import InvalidArgumentError, MissingDependencyError, OpenError, OutOfRangeError, PageError
from ...structure import PageContent
from .._elements.elements import Word


class PageSource(ABC):
    """Base class of opened documents. A document can be pickled, and read from several threads at once.

    ``name`` describes the document in error messages. Methods take the number of a page, counted from 0, and raise
    `PageError` if the page cannot be read.
    """

    name: str
    num_pages: int

    @abstractmethod
    def read(self, number: int) -> NDArray[np.uint8]:
        """Return the image of page ``number`` as a contiguous array, (H, W, 3) uint8."""

    def text_layer(self, number: int) -> list[Word]:
        """Return the words that the file stores as text for page ``number``. The list is empty for image files."""
        return []

    @property
    def pixels_per_point(self) -> float:
        """The resolution at which PDF pages are rendered, in pixels per point.

        It is 1 for image files, because they have no size in points.
        """
        return 1.0

    def page_content(self, number: int) -> PageContent | None:
        """Return the words, lines and images that a PDF stores for page ``number``, or ``None`` for an image file."""
        return None


@contextmanager
def raising_page_error(number: int, name: str) -> Iterator[None]:
    """Convert errors that the ``with`` block raises to a `PageError`, whose message has the page number and ``name``.

    A missing dependency and a lack of memory are raised unchanged.
    """
    try:
        yield
    except (PageError, MissingDependencyError, MemoryError):
        raise
    except Exception as error:  # for damaged data, decoders raise almost any exception
        reason = str(error).rstrip(".") or type(error).__name__
        raise PageError(f"Page {number} (counted from 0) of {name} cannot be read: {reason}.") from error


class KeptSource(NamedTuple):
    """A document's source, kept so that its pages can be read later.

    For a regular file on disk, ``path`` is its absolute path. For any other source, ``path`` is ``None``, and ``data``
    has all its bytes. ``name`` describes the source in error messages.
    """

    path: str | None
    data: bytes
    name: str

    @property
    def source(self) -> str | bytes:
        """The path of a regular file, or all bytes of any other source."""
        return self.data if self.path is None else self.path

    def open(self) -> BinaryIO:
        """Open the data as a binary file, positioned at its beginning. The caller must close it."""
        return io.BytesIO(self.data) if self.path is None else open(self.path, "rb")

    def read(self) -> bytes:
        """Return all bytes. If a file on disk can no longer be read, raise the same errors as `read_bytes`."""
        return self.data if self.path is None else read_bytes(self.path)[0]


def keep_source(source: object) -> KeptSource:
    """Keep the path of a regular file, or all bytes of any other source, so that pages can be read later.

    Raises:
        OpenError: if the source is empty or cannot be opened.
        MediaTensorError: for all other reasons for which `make_source` raises an error.
    """
    made = make_source(source)
    if isinstance(made, PathSource) and os.path.isfile(made.path):
        try:
            open(made.path, "rb").close()
        except OSError as error:
            raise OpenError(f"Could not open input file: {made.path} ({error}).") from None
        return KeptSource(os.path.abspath(made.path), b"", made.describe())
    data, name = read_bytes(made)
    return KeptSource(None, data, f"{len(data)} bytes in memory" if isinstance(made, MemorySource) else name)


#: A selection of pages by number, from 0; negative numbers count from the end.
PageNumbers = int | range | slice | Sequence[int] | None


def check_index(index: object, length: int, name: str) -> int:
    """Return the page number that ``index`` means, counted from 0. Negative indices count from the end.

    ``name`` describes the index in error messages. An index that is not an integer, or is out of range, raises an
    error.
    """
    try:
        number = operator.index(index)  # type: ignore[arg-type]
    except TypeError:  # also of an array of several numbers
        number = None
    if number is None or isinstance(index, (bool, np.bool_)):
        raise InvalidArgumentError(f"{name} should be an int (got {index!r}).")
    if not -length <= number < length:
        raise OutOfRangeError(f"{name} {number} is out of range: there are {length} pages, from 0 to {length - 1}.")
    return number % length


def selected(pages: PageNumbers, length: int) -> range | tuple[int, ...]:
    """Return the numbers of the selected pages, counted from 0. ``length`` is the number of all pages.

    Errors are raised as in `Pages.select`.

    >>> selected(slice(1, None), 3), selected([0, -1], 3), selected(None, 3)
    (range(1, 3), (0, 2), range(0, 3))
    """
    if pages is None:
        return range(length)
    if isinstance(pages, slice):
        try:
            numbers: range | tuple[int, ...] = range(length)[pages]
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"pages = {pages!r} is not a slice of page numbers: {error}.") from None
    elif hasattr(pages, "__index__") and not np.ndim(pages):
        numbers = (check_index(pages, length, "Page number"),)
    elif isinstance(pages, (str, bytes)) or not hasattr(pages, "__iter__"):
        raise InvalidArgumentError(
            f"pages = {pages!r} should be a page number, or a range, a slice or a sequence of page numbers."
        )
    else:
        numbers = tuple(check_index(number, length, "Page number") for number in pages)
    if not numbers:
        raise InvalidArgumentError(f"pages = {pages!r} selects none of {length} pages.")
    return numbers


def check_output_size(output_size: Any, max_pixels: int | None) -> tuple[int, int] | None:
    """Return ``output_size`` as (height, width), or ``None`` if it is ``None``.

    An invalid size, or one with more than ``max_pixels`` pixels, raises an error.
    """
    if output_size is None:
        return None
    try:
        height, width = map(operator.index, output_size)
    except (TypeError, ValueError):
        height = width = 0
    if height < 1 or width < 1:
        raise InvalidArgumentError(f"output_size = {output_size!r} should be (height, width) in pixels, or None.")
    if max_pixels is not None and height * width > max_pixels:
        raise InvalidArgumentError(
            f"output_size = {output_size!r} has {height * width} pixels, more than max_pixels = {max_pixels}."
        )
    return height, width


class Pages(Sequence[NDArray[np.uint8]]):
    """A sequence of pages from one or more documents. A page is read or rendered each time it is accessed.

    You rarely create it yourself. `DocumentFile` and `read_pdf` return it, and so do slices (``pages[2:5]``) and sums
    (``pages + more_pages``). It can be pickled, and read from several threads and from forked processes. Accessing a
    page that cannot be read raises `PageError`. All other pages can still be read afterwards.

    Args:
        documents: The opened documents, in order, as `DocumentFile` creates them.
        numbers: The pages to include, numbered from 0 across all documents; ``None`` for all pages.

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
        self._documents = tuple(items_of("documents", documents, of="opened documents"))
        for document in self._documents:
            if not isinstance(document, PageSource):
                raise InvalidArgumentError(
                    f"documents must be opened documents (got {shown(document)}); use DocumentFile."
                )
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
        """Read a page as an RGB array, (H, W, 3) uint8. For a slice, return `Pages` without reading them.

        Raises:
            PageError: if the page cannot be read.
            OutOfRangeError: (an IndexError) if the index is out of range.
            TypeError: if the index is neither an integer nor a slice.
        """
        if isinstance(index, slice):
            return Pages(self._documents, self._numbers[index])
        if not hasattr(index, "__index__") or np.ndim(index):
            raise TypeError(f"Unsupported index type: {type(index)}. Supported types are int and slice.")
        document, number = self._locate(index)
        return document.read(number)

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return map(self.__getitem__, range(len(self)))

    def __add__(self, other: Iterable[NDArray[np.uint8]]) -> Any:
        """Append the pages of ``other``. The result is `Pages` if ``other`` is `Pages`, or else a list of arrays."""
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
        """Return only some of the pages, as `Pages`, without reading them.

        Args:
            pages: A page number, or a range, a slice or a sequence of page numbers. Numbers start from 0; negative ones
                count from the end. ``None`` selects all pages.

        Raises:
            InvalidArgumentError: if ``pages`` is empty, or is not a selection.
            OutOfRangeError: if a number is out of range.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> len(DocumentFile.from_pdf("report.pdf").select(range(2)))
            2
        """
        numbers = selected(pages, len(self))
        if isinstance(numbers, range):
            # For a range that counts down to 0, the stop is -1, which in a slice would mean the last page.
            stop = numbers.stop if numbers.stop >= 0 else None
            return self if pages is None else self[numbers.start : stop : numbers.step]
        return Pages(self._documents, tuple(self._numbers[number] for number in numbers))

    def tensor(self, index: int) -> Tensor:
        """Return a page as a contiguous RGB tensor, (3, H, W) uint8.

        Raises:
            PageError: if the page cannot be read.
            OutOfRangeError: (an IndexError) if there is no page with this index.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> DocumentFile.from_pdf("report.pdf", dpi=100).tensor(0).shape
            torch.Size([3, 389, 556])
        """
        return torch.from_numpy(self[index]).permute(2, 0, 1).contiguous()

    def text_layer(self, index: int) -> list[Word]:
        """Return a list of the words (`Word`) that a PDF file stores for a page, or an empty list for an image file.

        The text is split into words at spaces and line ends. Positions are in fractions of the page's width and height.
        The box of a word encloses its letters, which are in ``word.characters``. Words are in the order of the file.
        The words of form fields and annotations that are drawn on the page come last. Hidden text is included, such as
        the text of a scan that was made searchable. Text outside the page is left out. Do not rely on the words in
        untrusted files: they can differ from the visible text.

        Raises:
            PageError: if the page cannot be read.
            OutOfRangeError: (an IndexError) if there is no page with this index.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> [word.value for word in DocumentFile.from_pdf("report.pdf").text_layer(0)[:2]]
            ['Delivery', 'note']
        """
        document, number = self._locate(index)
        return document.text_layer(number)

    def page_content(self, index: int) -> PageContent | None:
        """Return the words, rules and pictures that a PDF file stores for a page; for an image file, return ``None``.

        The result is a `mediatensor.ocr.structure.PageContent`, which functions such as `find_tables` take. It has the
        words of `text_layer`, in the same order, with their font size and weight. Rules are lines, thin rectangles, and
        the edges of other rectangles. Pictures are embedded images, and drawings with curves or slanting lines.
        Coordinates are in points (1/72 inch) at any resolution. Rotation and cropping are the same as in the rendered
        image.

        An image that covers nearly the whole page is not among the pictures, because such a page is a scan. Use
        `mediatensor.ocr.structure.content_of_picture` to find the rules of a scan.

        Raises:
            PageError: if the page cannot be read.
            OutOfRangeError: (an IndexError) if there is no page with this index.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> content = DocumentFile.from_pdf("report.pdf").page_content(0)
            >>> content.texts[:2], content.font_sizes[:2].round().tolist()
            (('Delivery', 'note'), [27.0, 27.0])
        """
        document, number = self._locate(index)
        return document.page_content(number)

    def pixels_per_point(self, index: int) -> float:
        """Return the resolution at which a PDF page is rendered, in pixels per point, or 1 for an image file.

        Example:
            >>> from mediatensor.ocr import DocumentFile
            >>> DocumentFile.from_pdf("report.pdf", dpi=144).pixels_per_point(0)
            2.0
        """
        document, _ = self._locate(index)
        return document.pixels_per_point

    def origin(self, index: int) -> tuple[str, int]:
        """Return the name of the document that page ``index`` comes from, and the page's number in it (both from 0).

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


@dataclass(frozen=True)
class PageOfFile:
    """A function object that reads page ``index`` of ``pages`` each time it is called, and returns the image.

    If ``is_readable`` is false, the page is known to be unreadable, and an image without pixels is returned.
    """

    pages: Any
    index: int
    is_readable: bool = True

    def __call__(self) -> NDArray[np.uint8]:
        pixels: NDArray[np.uint8] = self.pages[self.index] if self.is_readable else np.zeros((0, 0, 3), np.uint8)
        return pixels

    @property
    def location(self) -> tuple[PageSource, int]:
        """The document that the page comes from, and the page's number in it, counted from 0."""
        place: tuple[PageSource, int] = self.pages._locate(self.index)
        return place


@dataclass(frozen=True)
class StoredImage:
    """A function object that decompresses an image each time it is called. It does not refer to any file.

    ``packed`` contains the pixels of an image of ``shape`` (H, W, 3), compressed without loss. ``dpi`` is the
    resolution if the image was rendered from a PDF page, and ``None`` otherwise.
    """

    packed: bytes
    shape: tuple[int, ...]
    dpi: float | None = None

    @classmethod
    def of(cls, pixels: NDArray[np.uint8], dpi: float | None) -> StoredImage:
        """Compress an image."""
        return cls(zlib.compress(pixels.tobytes(), 1), pixels.shape, dpi)

    def __call__(self) -> NDArray[np.uint8]:
        return np.frombuffer(zlib.decompress(self.packed), np.uint8).reshape(self.shape).copy()
