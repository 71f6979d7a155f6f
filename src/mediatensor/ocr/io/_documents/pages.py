"""What a document is to `Pages`: a number of pages, each read when it is asked for."""

from __future__ import annotations

import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...._images import read_bytes
from ...._sources import MemorySource, PathSource, make_source
from ....errors import InvalidArgumentError, MissingDependencyError, OpenError, OutOfRangeError, PageError

if TYPE_CHECKING:
    from ..elements import Word

__all__ = [
    "KeptSource",
    "PageNumbers",
    "PageOfFile",
    "PageSource",
    "check_index",
    "check_max_pixels",
    "check_output_size",
    "failing_as_page",
    "keep",
    "selected",
]


class PageSource(ABC):
    """A document that was opened: picklable, and to be read from several threads.

    Attributes:
        name: What to call the document in messages.
        num_pages: How many pages it has.
    """

    name: str
    num_pages: int

    @abstractmethod
    def read(self, number: int) -> NDArray[np.uint8]:
        """Page ``number``, from 0: (H, W, 3) uint8, contiguous.

        Raises:
            PageError: if that page cannot be read.
        """

    def text_layer(self, number: int) -> list[Word]:
        """The words that the document itself has for page ``number``.

        Raises:
            PageError: if that page cannot be read.
        """
        return []


@dataclass(frozen=True)
class PageOfFile:
    """The image of a page of a file, which is read again each time that it is asked for.

    Args:
        pages: That it is one of: `Pages`.
        index: Which.
        is_readable: Whether it could be read; else it has no pixels.
    """

    pages: Any
    index: int
    is_readable: bool = True

    def __call__(self) -> NDArray[np.uint8]:
        pixels: NDArray[np.uint8] = self.pages[self.index] if self.is_readable else np.zeros((0, 0, 3), np.uint8)
        return pixels

    @property
    def located(self) -> tuple[PageSource, int]:
        """The document that it is in, and its number there."""
        place: tuple[PageSource, int] = self.pages._locate(self.index)
        return place


@contextmanager
def failing_as_page(number: int, name: str) -> Iterator[None]:
    """Turn whatever goes wrong in the block into a `PageError` that names the page."""
    try:
        yield
    except (PageError, MissingDependencyError, MemoryError):
        raise
    except Exception as error:  # decoders raise almost anything for data that make no sense
        reason = str(error).rstrip(".") or type(error).__name__
        raise PageError(f"Page {number} (counted from 0) of {name} cannot be read: {reason}.") from error


class KeptSource(NamedTuple):
    """What a document keeps of where it comes from, so that its pages can be read later.

    Attributes:
        path: Of a plain file, absolute; ``None`` of anything else.
        data: The bytes of anything else.
        name: What to call it in messages.
    """

    path: str | None
    data: bytes
    name: str


def keep(source: object) -> KeptSource:
    """The path of a plain file, or everything that is in the source.

    Raises:
        SourceTypeError, SourceNotFoundError, ReadError: as `make_source`.
        OpenError: if the source is empty, or cannot be opened.
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


#: Which pages: numbers from 0, negative ones from the end.
PageNumbers = int | range | slice | Sequence[int] | None


def check_index(index: object, length: int, name: str) -> int:
    """The index, counted from 0.

    Raises:
        InvalidArgumentError: if it is no integer.
        OutOfRangeError: if there is no such page.
    """
    if isinstance(index, (bool, np.bool_)) or not hasattr(index, "__index__"):
        raise InvalidArgumentError(f"{name} should be an int (got {index!r}).")
    number = operator.index(index)
    if not -length <= number < length:
        raise OutOfRangeError(f"{name} {number} is out of range: there are {length} pages, from 0 to {length - 1}.")
    return number % length


def selected(pages: PageNumbers, length: int) -> range | tuple[int, ...]:
    """Numbers of the pages that are wanted, from 0.

    >>> selected(slice(1, None), 3), selected([0, -1], 3), selected(None, 3)
    (range(1, 3), (0, 2), range(0, 3))

    Raises:
        InvalidArgumentError: if ``pages`` is no selection, or selects nothing.
        OutOfRangeError: if there is no page of one of the numbers.
    """
    if pages is None:
        return range(length)
    if isinstance(pages, slice):
        try:
            numbers: range | tuple[int, ...] = range(length)[pages]
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"pages = {pages!r} is no slice of page numbers: {error}.") from None
    elif hasattr(pages, "__index__"):
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


def check_max_pixels(max_pixels: Any) -> int | None:
    """The limit, or ``None``."""
    if max_pixels is None:
        return None
    if isinstance(max_pixels, bool) or not hasattr(max_pixels, "__index__") or operator.index(max_pixels) < 1:
        raise InvalidArgumentError(f"max_pixels = {max_pixels!r} should be a positive int, or None for no limit.")
    return operator.index(max_pixels)


def check_output_size(output_size: Any, max_pixels: int | None) -> tuple[int, int] | None:
    """(height, width) in pixels, or ``None``."""
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
