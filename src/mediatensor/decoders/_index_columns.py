"""Whole numbers that go up by nearly equal steps, in few bytes: pure functions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["INT64", "WIDTHS", "PackedNumbers", "pack_numbers", "unpack_numbers"]

INT64 = "<i8"

#: Bytes that a step may take.
WIDTHS = (0, 1, 2, 4, 8)


class PackedNumbers(NamedTuple):
    """A column.

    Attributes:
        first: Its first number; 0 if it has none.
        width: Bytes of a step; 0 if all numbers are the same.
        steps: From each number to the next, signed: their lowest bytes, then their second bytes, and so on.
    """

    first: int
    width: int
    steps: bytes


def pack_numbers(numbers: NDArray[np.int64]) -> PackedNumbers:
    """
    >>> import numpy as np
    >>> pack_numbers(np.array([100, 101, 100]))
    PackedNumbers(first=100, width=1, steps=b'\\x01\\xff')
    """
    if len(numbers) == 0:
        return PackedNumbers(0, 0, b"")
    steps = numbers[1:] - numbers[:-1]  # may wrap around, and unpacking wraps back
    width = next(width for width in WIDTHS if _fits(steps, width))
    if width == 0:
        return PackedNumbers(int(numbers[0]), 0, b"")
    by_bytes = np.ascontiguousarray(steps, f"<i{width}").view(np.uint8).reshape(-1, width)
    return PackedNumbers(int(numbers[0]), width, by_bytes.T.tobytes())


def unpack_numbers(steps: bytes, first: int, width: int, count: int) -> NDArray[np.int64]:
    """The column of ``count`` numbers.

    >>> unpack_numbers(b"\\x01\\xff", 100, 1, 3)
    array([100, 101, 100])

    Args:
        steps: ``width * (count - 1)`` bytes.
        first, width: See `PackedNumbers`.
    """
    numbers = np.full(count, first, np.int64)
    if width and count > 1:
        by_bytes = np.frombuffer(steps, np.uint8).reshape(width, count - 1)
        numbers[1:] = np.ascontiguousarray(by_bytes.T).view(f"<i{width}").ravel()
        np.cumsum(numbers, out=numbers)
    return numbers


def _fits(steps: NDArray[np.int64], width: int) -> bool:
    if len(steps) == 0:
        return True
    limit = 1 << (8 * width - 1) if width else 0
    return bool(steps.min() >= -limit and steps.max() <= max(0, limit - 1))
