"""Decoders that lie idle, to be used again: on a GPU, making one costs tens of milliseconds."""

from __future__ import annotations

import atexit
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from .._locks import ForkSafeLock

__all__ = ["DecoderCache"]

DecoderT = TypeVar("DecoderT")


class DecoderCache(Generic[DecoderT]):
    """Idle decoders by device and kind; of each device so many, the one that was used least recently gives way.

    Args:
        capacity: How many decoders of each device may lie idle.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = ForkSafeLock()
        self._idle: OrderedDict[int, tuple[Hashable, Hashable, DecoderT]] = OrderedDict()
        self._num_put = 0
        self._of_the_parent: list[object] = []
        # While there still is a device: when the interpreter ends, its library may go before the last decoder.
        atexit.register(_calling(weakref.WeakMethod(self.clear)))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_calling(weakref.WeakMethod(self._forget)))

    @property
    def capacity(self) -> int:
        return self._capacity

    @capacity.setter
    def capacity(self, capacity: int) -> None:
        with self._lock:
            self._capacity = capacity
            for device in {device for device, _, _ in list(self._idle.values())}:
                self._shrink(device)

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, device: Hashable, kind: Hashable) -> DecoderT | None:
        """An idle decoder of a device and a kind, the one that was used last; ``None`` if there is none."""
        with self._lock:
            # A list: collecting garbage may free a decoder, which then puts what it has here.
            for number, (its_device, its_kind, decoder) in reversed(list(self._idle.items())):
                if (its_device, its_kind) == (device, kind):
                    del self._idle[number]
                    return decoder
        return None

    def put(self, device: Hashable, kind: Hashable, decoder: DecoderT) -> None:
        """Keep a decoder that stands ready for another stream of its kind; nobody else may hold it."""
        with self._lock:
            self._num_put += 1
            self._idle[self._num_put] = device, kind, decoder
            self._shrink(device)

    def _shrink(self, device: Hashable) -> None:
        numbers = [number for number, (its_device, _, _) in list(self._idle.items()) if its_device == device]
        for number in numbers[: max(0, len(numbers) - self._capacity)]:
            self._idle.pop(number, None)

    def clear(self) -> None:
        """Free all of them."""
        with self._lock:
            self._idle = OrderedDict()

    def _forget(self) -> None:
        # A device cannot be used in a forked child, not even to free what is on it.
        self._of_the_parent.append(self._idle)
        self._idle = OrderedDict()


def _calling(reference: weakref.WeakMethod[Callable[[], None]]) -> Callable[[], None]:
    """Calls a method of an object that may be gone."""

    def call() -> None:
        method = reference()
        if method is not None:
            method()

    return call
