"""Memory for batches, which is used again when a batch is gone: fresh pages cost more than the copy into them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["empty", "free_idle_blocks", "idle_blocks"]

# The allocator of the system keeps smaller arrays itself.
_MIN_BYTES = 1 << 20
# At most so much lies idle: one batch of some twenty 1080p frames.
_MAX_IDLE_BYTES = 1 << 27

_idle: deque[NDArray[np.uint8]] = deque()


# The defaults are looked up now: the interpreter clears the names of this module before the last arrays are gone.
def _give_back(
    memory: NDArray[np.uint8], idle: deque[NDArray[np.uint8]] = _idle, max_idle_bytes: int = _MAX_IDLE_BYTES
) -> None:
    if memory.size > max_idle_bytes:
        return
    idle.append(memory)
    try:
        while sum(block.size for block in list(idle)) > max_idle_bytes:
            idle.popleft()
    except (IndexError, RuntimeError):  # other threads take blocks at the same time, which frees memory as well
        pass


class _Block:
    """Memory that goes back to the idle blocks when the last array on it is gone."""

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self.memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self, give_back: Callable[[NDArray[np.uint8]], None] = _give_back) -> None:
        give_back(self.memory)


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array of undefined values, like `numpy.empty`."""
    num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if num_bytes < _MIN_BYTES:
        return np.empty(shape, dtype)
    block = np.asarray(_Block(_take(num_bytes)))
    return block[:num_bytes].view(dtype).reshape(shape)


def idle_blocks() -> list[NDArray[np.uint8]]:
    """The memory that waits for the next batch."""
    return list(_idle)


def free_idle_blocks() -> None:
    """Give the memory that waits for the next batch back to the system."""
    _idle.clear()


def _take(num_bytes: int) -> NDArray[np.uint8]:
    # Only deque operations that are atomic: blocks come back from whichever thread drops the last reference.
    for _ in range(len(_idle)):
        try:
            memory = _idle.popleft()
        except IndexError:
            break
        if num_bytes <= memory.size <= num_bytes + num_bytes // 4:
            return memory
        _idle.append(memory)
    return np.empty(num_bytes, np.uint8)
