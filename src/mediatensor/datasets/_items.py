"""`Item`: one file of a dataset, and what is known of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._source import Source

__all__ = ["Item"]


@dataclass(frozen=True)
class Item:
    """One file of a dataset, with its label.

    Attributes:
        source: A path or URL, the bytes of a file, or a part of a file (`TarItems` give these).
        label: Whatever it is to be called; ``None`` if it has no label.
        name: What it is called in batches and reports; by default its path.
        extra: The other columns of its row in a manifest.

    Example:
        >>> from mediatensor.datasets import Item
        >>> Item("videos/jump/1.mp4", label=0).name
        'videos/jump/1.mp4'
        >>> Item(b"RIFF....", name="first").name
        'first'
    """

    source: str | os.PathLike[str] | bytes | Source = field(repr=False)  # bytes fill pages; there is the name
    label: Any = None
    name: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", _name_of(self.source))


def _name_of(source: str | os.PathLike[str] | bytes | Source) -> str:
    if isinstance(source, Source):
        return source.describe()
    return f"<{len(source)} bytes>" if isinstance(source, bytes) else os.fspath(source)
