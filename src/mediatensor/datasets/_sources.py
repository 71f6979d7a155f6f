"""From what people have to `Item` objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ._items import Item

__all__ = ["MediaKind", "as_items"]

MediaKind = Literal["video", "audio", "image", "document"]


def as_items(source: Any, *, kind: MediaKind, label: Callable[[Item], Any] | None = None) -> Sequence[Item]:
    """The files of a source."""
    items = [one if isinstance(one, Item) else Item(one) for one in source]
    return items
