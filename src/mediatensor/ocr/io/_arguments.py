"""Checks of the arguments that the readers have in common."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError, OutOfRangeError

__all__ = ["PageNumbers", "check_index", "check_max_pixels", "check_output_size", "selected"]

#: Which pages: numbers from 0, negative ones from the end.
PageNumbers = int | range | slice | Sequence[int] | None


def check_index(index: object, length: int, name: str) -> int:
    """The index, counted from 0.

    Raises:
        InvalidArgumentError: if it is no integer.
        OutOfRangeError: if there is no such page.
    """
    if isinstance(index, (bool, np.bool_)) or not hasattr(index, "__index__"):
        raise InvalidArgumentError(f"{name} should be an int (got {index!r}).")
    number = operator.index(index)
    if not -length <= number < length:
        raise OutOfRangeError(f"{name} {number} is out of range: there are {length} pages, from 0 to {length - 1}.")
    return number % length


def selected(pages: PageNumbers, length: int) -> range | tuple[int, ...]:
    """Numbers of the pages that are wanted, from 0.

    >>> selected(slice(1, None), 3), selected([0, -1], 3), selected(None, 3)
    (range(1, 3), (0, 2), range(0, 3))

    Raises:
        InvalidArgumentError: if ``pages`` is no selection, or selects nothing.
        OutOfRangeError: if there is no page of one of the numbers.
    """
    if pages is None:
        return range(length)
    if isinstance(pages, slice):
        try:
            numbers: range | tuple[int, ...] = range(length)[pages]
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"pages = {pages!r} is no slice of page numbers: {error}.") from None
    elif hasattr(pages, "__index__"):
        numbers = (check_index(pages, length, "Page number"),)
    elif isinstance(pages, (str, bytes)) or not hasattr(pages, "__iter__"):
        raise InvalidArgumentError(
            f"pages = {pages!r} should be a page number, or a range, a slice or a sequence of page numbers."
        )
    else:
        numbers = tuple(check_index(number, length, "Page number") for number in pages)
    if not numbers:
        raise InvalidArgumentError(f"pages = {pages!r} selects none of {length} pages.")
    return numbers


def check_max_pixels(max_pixels: Any) -> int | None:
    """The limit, or ``None``."""
    if max_pixels is None:
        return None
    if isinstance(max_pixels, bool) or not hasattr(max_pixels, "__index__") or operator.index(max_pixels) < 1:
        raise InvalidArgumentError(f"max_pixels = {max_pixels!r} should be a positive int, or None for no limit.")
    return operator.index(max_pixels)


def check_output_size(output_size: Any, max_pixels: int | None) -> tuple[int, int] | None:
    """(height, width) in pixels, or ``None``."""
    if output_size is None:
        return None
    try:
        height, width = map(operator.index, output_size)
    except (TypeError, ValueError):
        height = width = 0
    if height < 1 or width < 1:
        raise InvalidArgumentError(f"output_size = {output_size!r} should be (height, width) in pixels, or None.")
    if max_pixels is not None and height * width > max_pixels:
        raise InvalidArgumentError(
            f"output_size = {output_size!r} has {height * width} pixels, more than max_pixels = {max_pixels}."
        )
    return height, width
