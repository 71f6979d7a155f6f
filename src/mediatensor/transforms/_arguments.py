"""Checks of what transforms are given: each returns its argument in one plain form, or says what is accepted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral

import torch

from ..errors import InvalidArgumentError


def check_size(owner: str, size: object) -> tuple[int, int]:
    """``size`` as a (height, width) tuple of ints.

    >>> check_size("Resize", [224, 320])
    (224, 320)
    """
    if isinstance(size, Sequence) and len(size) == 2 and all(is_integer(length) and length >= 1 for length in size):
        return int(size[0]), int(size[1])
    raise InvalidArgumentError(
        f"{owner} transform must have a (height, width) pair for the size, two whole numbers of at least 1 "
        f"(got {size!r})."
    )


def check_range(owner: str, name: str, limits: object, *, allow_zero: bool) -> tuple[float, float]:
    """``limits`` as (low, high) with 0 < low <= high; or 0 <= low, but 0 < high, if ``allow_zero``.

    >>> check_range("RandomResizedCrop", "scale", [0, 1], allow_zero=True)
    (0.0, 1.0)
    """
    values = _as_floats(limits)
    if len(values) == 2:
        low, high = values
        if low <= high and (low > 0 or (allow_zero and low == 0 < high)):
            return low, high
    accepted = "0 <= low <= high and 0 < high" if allow_zero else "0 < low <= high"
    raise InvalidArgumentError(f"{owner}: {name} must be two finite numbers with {accepted} (got {limits!r}).")


def check_probability(p: float) -> float:
    """``p``, if it is a number of 0 to 1."""
    if isinstance(p, int | float) and 0 <= p <= 1:
        return float(p)
    raise InvalidArgumentError(f"p must be a probability, 0 to 1 (got {p!r}).")


def check_padding(padding: object) -> tuple[int, int, int, int]:
    """``padding`` as (left, top, right, bottom).

    >>> check_padding((1, 2))
    (1, 2, 1, 2)
    """
    sides = tuple(padding) if isinstance(padding, Sequence) else (padding,) * 4
    if len(sides) in (2, 4) and all(is_integer(side) and side >= 0 for side in sides):
        left, top, right, bottom = (int(side) for side in sides * (4 // len(sides)))
        return left, top, right, bottom
    raise InvalidArgumentError(
        "padding must be a whole number of at least 0, a pair of them (left and right, top and bottom) or four "
        f"(left, top, right, bottom) (got {padding!r})."
    )


def check_fill(fill: object) -> tuple[float, ...]:
    """``fill`` as a tuple of one number, or one for each channel.

    >>> check_fill(0.5)
    (0.5,)
    """
    values = _as_floats(fill) or _as_floats((fill,))
    if not values:
        raise InvalidArgumentError(f"fill must be a finite number, or one for each channel (got {fill!r}).")
    return values


def check_statistics(mean: object, std: object) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """``mean`` and ``std`` as tuples of one number for each channel."""
    means, deviations = _as_floats(mean), _as_floats(std)
    if not means or len(means) != len(deviations) or min(deviations) <= 0:
        raise InvalidArgumentError(
            "mean and std must each be a sequence of one finite number for each channel, std above 0 "
            f"(got mean={mean!r}, std={std!r})."
        )
    return means, deviations


def check_float_dtype(dtype: object) -> torch.dtype:
    """``dtype``, if it is a float dtype."""
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point:
        return dtype
    raise InvalidArgumentError(f"dtype must be a float dtype such as torch.float32 (got {dtype!r}).")


def is_integer(value: object) -> bool:
    """Whether ``value`` is an integer of any library, but not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _as_floats(values: object) -> tuple[float, ...]:
    """``values`` as a tuple of finite floats; empty if they are no such sequence."""
    if not isinstance(values, Iterable) or isinstance(values, str):
        return ()
    try:
        floats = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        return ()
    return floats if all(math.isfinite(value) for value in floats) else ()
