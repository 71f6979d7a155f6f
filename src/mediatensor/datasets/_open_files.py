"""Files that stay open between the rows of a worker, up to a number."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from .._closing import Closing
from .._locks import ForkSafeLock
from .._stages import stage
from ..decoders import AudioVideoDecoder, VideoDecoder
from ._items import Item
from ._recipe import Opened, Recipe

__all__ = ["OpenFiles", "file_key"]


class OpenFiles(Closing):
    """The files of one recipe that were used last. Each is lent to one thread at a time.

    Args:
        max_open: How many may be open at a time while nobody uses them.
    """

    def __init__(self, max_open: int) -> None:
        self._max_open = max_open
        self._idle: OrderedDict[Hashable, tuple[Item, Opened]] = OrderedDict()
        self._lock = ForkSafeLock()

    @contextmanager
    def borrow(self, item: Item, recipe: Recipe) -> Iterator[Opened]:
        """An open file for the time of a ``with`` block; after an exception it is closed."""
        with self._lock:
            _, opened = self._idle.pop(file_key(item), (None, None))
        if opened is None:
            with stage("open"):
                opened = recipe.open(item)
        else:
            _forget_damage(opened)
        try:
            yield opened
        except BaseException:
            opened.close()
            raise
        self._give_back(item, opened)

    def _give_back(self, item: Item, opened: Opened) -> None:
        with self._lock:
            surplus = self._idle.pop(file_key(item), None)
            self._idle[file_key(item)] = (item, opened)
            closing = [surplus] if surplus is not None else []
            while len(self._idle) > self._max_open:
                closing.append(self._idle.popitem(last=False)[1])
        for _, old in closing:
            old.close()

    def close(self) -> None:
        """Close the files that nobody uses; they open again when they are needed."""
        with self._lock:
            idle, self._idle = self._idle, OrderedDict()
        for _, opened in idle.values():
            opened.close()

    def __len__(self) -> int:
        return len(self._idle)

    def __reduce__(self) -> tuple[type[OpenFiles], tuple[int]]:
        # Open files belong to a process.
        return OpenFiles, (self._max_open,)


def _forget_damage(opened: Opened) -> None:
    """Have a video as it was when it was opened: a sample must not depend on what was read before it."""
    video = opened.video if isinstance(opened, AudioVideoDecoder) else opened
    if isinstance(video, VideoDecoder):
        video._forget_damage()


def file_key(item: Item) -> Hashable:
    """What tells a file from others while it is open."""
    if isinstance(item.source, str | os.PathLike):
        return os.fspath(item.source)
    # The item of an open file is kept, so that the id of its bytes stays their own.
    return id(item.source) if isinstance(item.source, bytes) else item.source
