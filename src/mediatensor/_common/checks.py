"""Checks of arguments that all packages share: each gives its argument in one plain form, or says what is accepted.

An argument of another type and one out of bounds are one condition, `InvalidArgumentError`. What cannot be read or
written because of its type is a `SourceTypeError`.
"""

from __future__ import annotations

import inspect
import math
import operator
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from ..errors import InvalidArgumentError, SourceTypeError
from .lazy import is_tensor

__all__ = [
    "finite_number",
    "function",
    "items_of",
    "optional_text",
    "options_dict",
    "path_text",
    "real_number",
    "shown",
    "whole_number",
]

F = TypeVar("F", bound=Callable[..., Any] | None)
T = TypeVar("T")

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200


def shown(value: object) -> str:
    """A value in an error message: short, whatever it is, and without its whole content.

    >>> shown("clip.mp4"), shown(b"many bytes"), shown(list(range(100)))
    ("'clip.mp4'", 'bytes of length 10', '[0, 1, 2, 3, 4, 5, ...]')
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{type(value).__name__} of length {len(value)}"
    if is_tensor(value) or isinstance(value, np.ndarray):
        return f"{type(value).__name__} of shape {tuple(value.shape)} and dtype {value.dtype}"
    return _SHORT.repr(value)


def whole_number(
    name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None, or_none: bool = False
) -> int:
    """``value`` as an int, if it is an integer of any library, but not a bool.

    Args:
        name: Of the argument.
        value: What was given.
        at_least: The smallest that is accepted.
        at_most: The largest that is accepted.
        or_none: Whether ``None`` is accepted as well, which the caller has seen to; the message says so.

    >>> whole_number("batch_size", 4, at_least=1)
    4
    """
    try:
        if not isinstance(value, bool | np.bool_):
            integer = operator.index(value)
            if (at_least is None or integer >= at_least) and (at_most is None or integer <= at_most):
                return integer
    except TypeError:
        pass
    lowest = {None: "a whole number", 1: "a positive whole number"}.get(at_least, f"a whole number from {at_least} on")
    highest = "" if at_most is None else f", at most {at_most}"
    accepted = f"{lowest}{highest}{', or None' if or_none else ''}"
    raise InvalidArgumentError(f"{name} must be {accepted} (got {shown(value)}).")


def real_number(name: str, value: Any) -> float:
    """``value`` as a float, if it is a number of any library; infinity and NaN are for the caller to judge.

    >>> real_number("start_seconds", 2)
    2.0
    """
    try:
        if not isinstance(value, (str, bytes, bytearray)):
            return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last one is torch's
        pass
    raise InvalidArgumentError(f"{name} must be a number (got {shown(value)}).")


def finite_number(name: str, value: Any) -> float:
    """``value`` as a float, if it is a finite number.

    >>> finite_number("overlap_seconds", 0.5)
    0.5
    """
    as_float = real_number(name, value)
    if not math.isfinite(as_float):
        raise InvalidArgumentError(f"{name} must be a finite number (got {shown(value)}).")
    return as_float


def path_text(name: str, value: Any) -> str:
    """A path as text.

    >>> from pathlib import PurePosixPath
    >>> path_text("folder", PurePosixPath("videos/a.mp4"))
    'videos/a.mp4'
    """
    if isinstance(value, (str, os.PathLike)):
        return os.fsdecode(value)
    raise SourceTypeError(f"{name} must be a path, a str or a pathlib.Path (got {shown(value)}).")


def function(name: str, value: F) -> F:
    """``value``, if it can be called, or is ``None``.

    >>> function("label", None)
    """
    if value is None or callable(value):
        return value
    raise InvalidArgumentError(f"{name} must be a function, or None (got {shown(value)}).")


def options_dict(name: str, value: Any, *takers: Callable[..., object]) -> dict[str, Any]:
    """Keyword arguments for something else, as a dictionary of their own; ``None`` is none.

    Args:
        name: Of the argument.
        value: What was given for it.
        *takers: Functions that take them by keyword, if that is known: then one of them must know each.

    >>> options_dict("decoder_options", {"device": "cpu"})
    {'device': 'cpu'}
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidArgumentError(f"{name} must be a dict from names to values, or None (got {shown(value)}).")
    parameters = [parameter for taker in takers for parameter in inspect.signature(taker).parameters.values()]
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    unknown = [key for key in value if key not in known]
    if takers and unknown:
        raise InvalidArgumentError(f"{name} has {unknown[0]!r}, which is none of {', '.join(known)}.")
    return dict(value)


def optional_text(name: str, value: str | None) -> None:
    """Raise unless ``value`` is a string or ``None``.

    >>> optional_text("codec", "libx264")
    """
    if value is not None and not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be a str, or None (got {shown(value)}).")


def items_of(name: str, values: Iterable[T], *, of: str) -> list[T]:
    """The elements of a series that is no string, which would be one of letters.

    Args:
        name: Of the argument.
        values: What was given.
        of: What its elements are, in words.

    >>> items_of("paths", ("a.mp4", "b.mp4"), of="paths")
    ['a.mp4', 'b.mp4']
    """
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes, bytearray)):
        return list(values)
    raise InvalidArgumentError(f"{name} must be a series of {of} (got {shown(values)}).")
