"""Checks of arguments that the modules of this package share."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidArgumentError

__all__ = ["check_positive"]


def check_positive(name: str, value: Any) -> None:
    """Raise unless an argument is a whole number of at least 1.

    Raises:
        InvalidArgumentError: naming the argument.

    >>> check_positive("batch_size", 4)
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidArgumentError(f"{name} must be a positive whole number (got {value!r}).")
