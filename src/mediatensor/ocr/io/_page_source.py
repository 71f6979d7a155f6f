"""What a document is to `Pages`: a number of pages, each read when it is asked for."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._source import MemorySource, PathSource, make_source
from ...decoders._image_bytes import read_bytes
from ...errors import MissingDependencyError, OpenError, PageError

if TYPE_CHECKING:
    from .elements import Word

__all__ = ["KeptSource", "PageOfFile", "PageSource", "failing_as_page", "keep"]


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
