"""`Item`: one file of a dataset, and what is known of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._checks import finite_number
from .._source import Source
from ..errors import InvalidArgumentError

__all__ = ["Item"]


@dataclass(frozen=True)
class Item:
    """One file of a dataset, with its label.

    Attributes:
        source: A path or URL, the bytes of a file, or a part of a file (`TarItems` give these).
        label: Whatever it is to be called; ``None`` if it has no label.
        name: What it is called in batches and reports; by default its path.
        extra: The other columns of its row in a manifest.
        start_seconds: Clips of video and sound come from behind this time of the file; ``None`` is its begin.
        end_seconds: And from before this one; ``None``, or a later time, is the end of the file.

    Example:
        >>> from mediatensor.datasets import Item
        >>> Item("videos/jump/1.mp4", label=0).name
        'videos/jump/1.mp4'
        >>> Item(b"RIFF....", name="first").name
        'first'
        >>> Item("lecture.mp4", label=3, start_seconds=61.5, end_seconds=64.0).end_seconds
        64.0
    """

    source: str | os.PathLike[str] | bytes | Source = field(repr=False)  # bytes fill pages; there is the name
    label: Any = None
    name: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    start_seconds: float | None = None
    end_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("start_seconds", "end_seconds"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, finite_number(name, getattr(self, name)))
        start, end = self.start_seconds, self.end_seconds
        if start is not None and end is not None and not start < end:
            raise InvalidArgumentError(f"end_seconds ({end}) must be above start_seconds ({start}).")
        if not self.name:
            object.__setattr__(self, "name", _name_of(self.source))


def _name_of(source: str | os.PathLike[str] | bytes | Source) -> str:
    if isinstance(source, Source):
        return source.describe()
    return f"<{len(source)} bytes>" if isinstance(source, bytes) else os.fspath(source)
