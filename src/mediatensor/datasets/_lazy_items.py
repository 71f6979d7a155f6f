"""Sequences whose items are made when somebody asks for them."""

from __future__ import annotations

import dataclasses
import operator
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, overload
from weakref import WeakValueDictionary

from ..errors import OutOfRangeError
from ._items import Item

__all__ = ["LabelledItems", "LazyItems"]


class LazyItems(Sequence[Item]):
    """Items that are made when somebody asks for them.

    As long as somebody holds an item, asking again gives the same object: its bytes are in memory once, and a file that
    is open is known by them.
    """

    def __init__(self) -> None:
        self._held: WeakValueDictionary[int, Item] = WeakValueDictionary()

    @abstractmethod
    def _make(self, index: int) -> Item:
        """The item of an index from 0 on."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise OutOfRangeError(f"item {number} is out of range: there are {len(self)} items.")
        number %= len(self)
        item = self._held.get(number)
        if item is None:
            item = self._held[number] = self._make(number)
        return item

    def __getstate__(self) -> dict[str, Any]:
        # What is in memory here is of no use to another process.
        return {name: value for name, value in vars(self).items() if name != "_held"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _held=WeakValueDictionary())


class LabelledItems(LazyItems):
    """The items of another sequence, with labels from a function."""

    def __init__(self, items: Sequence[Item], label: Callable[[Item], Any]) -> None:
        super().__init__()
        self._items = items
        self._label = label

    def __len__(self) -> int:
        return len(self._items)

    def _make(self, index: int) -> Item:
        item = self._items[index]
        return dataclasses.replace(item, label=self._label(item))
