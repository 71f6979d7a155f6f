"""Values of stored documents, which may come from anywhere, checked before an element is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError

__all__ = ["stored", "stored_list"]

# Of places relative to the page, or in pixels.
_MAX_COORDINATE = 1e9


def stored(save_dict: Mapping[str, Any], key: str, owner: type) -> Any:
    """The value that an export has under a key.

    Raises:
        InvalidArgumentError: if the export is no dictionary or lacks the key, or its value is of another kind.
    """
    if not isinstance(save_dict, Mapping):
        raise InvalidArgumentError(
            f"A stored {owner.__name__} is a dictionary such as export() gives; got {type(save_dict).__name__}."
        )
    if key not in save_dict:
        raise InvalidArgumentError(
            f"The stored {owner.__name__} has no {key!r}; it has {sorted(map(str, save_dict))}. "
            f"Pass what {owner.__name__}.export() gave."
        )
    value = save_dict[key]
    fits, words = _FORMS.get(key, _ANYTHING)
    if not fits(value):
        raise InvalidArgumentError(
            f"The stored {owner.__name__} has {key!r} = {repr(value)[:80]}, which should be {words}. "
            f"Pass what {owner.__name__}.export() gave."
        )
    return value


def stored_list(save_dict: Mapping[str, Any], key: str, owner: type) -> Any:
    """As `stored`, of a list that may be missing."""
    return stored(save_dict, key, owner) if key in save_dict else ()


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)


def _is_size(value: Any) -> bool:
    return _is_list(value) and len(value) == 2 and all(_is_whole(side) and side >= 0 for side in value)


def _is_geometry(value: Any) -> bool:
    if not (_is_list(value) and len(value) in (2, 4)):
        return False
    if isinstance(value, np.ndarray):
        return bool(value.shape[1:] == (2,) and np.issubdtype(value.dtype, np.number) and np.isfinite(value).all())
    return all(_is_list(point) and len(point) == 2 and all(map(_is_coordinate, point)) for point in value)


def _is_coordinate(value: Any) -> bool:
    return _is_number(value) and -_MAX_COORDINATE <= value <= _MAX_COORDINATE


def _is_guess(value: object) -> bool:
    return isinstance(value, Mapping)


def _are_lists(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_list, value.values()))


_Form = tuple[Callable[[Any], bool], str]
_ANYTHING: _Form = (lambda value: True, "anything")
_LIST: _Form = (_is_list, "a list")
_NUMBER: _Form = (_is_number, "a number")
_WHOLE: _Form = (_is_whole, "a whole number")
_GUESS: _Form = (_is_guess, "a dictionary of value and confidence")

# By key, which means the same in every element.
_FORMS: dict[str, _Form] = {
    "pages": _LIST,
    "blocks": _LIST,
    "lines": _LIST,
    "words": _LIST,
    "artefacts": _LIST,
    "cells": _LIST,
    "layout": _LIST,
    "tables": _LIST,
    "characters": _LIST,
    "predictions": (_are_lists, "a dictionary of lists"),
    "value": (lambda value: isinstance(value, str), "a text"),
    "unread": _LIST,
    "reason": (lambda value: isinstance(value, str), "a text"),
    "type": (lambda value: isinstance(value, str), "a text"),
    "confidence": _NUMBER,
    "objectness_score": _NUMBER,
    "geometry": (_is_geometry, "two corners or four points (x, y)"),
    "page_idx": _WHOLE,
    "row_start": _WHOLE,
    "row_end": _WHOLE,
    "col_start": _WHOLE,
    "col_end": _WHOLE,
    "num_rows": _WHOLE,
    "num_cols": _WHOLE,
    "dimensions": (_is_size, "(height, width)"),
    "orientation": _GUESS,
    "language": _GUESS,
    "crop_orientation": _GUESS,
}
