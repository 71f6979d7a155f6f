"""`Recipe`: how a sample is made of a file; one for each kind of dataset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

from ._items import Item
from ._samples import Sample

__all__ = ["Opened", "Recipe"]


class Opened(Protocol):
    """A file that is kept open: a decoder, a document."""

    def close(self) -> None: ...


class Recipe(ABC):
    """How samples are made of files. Picklable, and without any state: what it gives depends on its arguments alone.

    Example:
        >>> from dataclasses import dataclass
        >>> from mediatensor.datasets import DataLoader, Item, MediaDataset, Recipe, Sample
        >>> from mediatensor.decoders import VideoDecoder
        >>> @dataclass(frozen=True)
        ... class MiddleFrames(Recipe):
        ...     def open(self, item):
        ...         return VideoDecoder(item.source)
        ...
        ...     def read(self, opened, item, part):
        ...         return Sample(image=opened[len(opened) // 2])
        >>> dataset = MediaDataset([Item("videos/a.mp4", label=0), Item("videos/b.mp4", label=1)], MiddleFrames())
        >>> loader = DataLoader(dataset, batch_size=2, shuffle=True)
        >>> next(iter(loader)).images.shape
        torch.Size([2, 3, 120, 160])
    """

    #: Columns of a manifest that `read` makes the sample of; they do not travel with it.
    used_columns: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def open(self, item: Item) -> Opened:
        """The file, opened; it is kept for the next samples of the same file."""

    @abstractmethod
    def read(self, opened: Any, item: Item, part: int) -> Sample:
        """One sample of a file. Random numbers come from the global generators, which the caller has seeded.

        Args:
            opened: What `open` gave.
            item: The file.
            part: Which of the file's rows it is, from 0 on.
        """

    def position(self, opened: Any, item: Item, part: int) -> float:
        """Where in the file `read` is going to begin, on any scale that grows; draws the same random numbers."""
        return float(part)
