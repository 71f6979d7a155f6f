"""The base class of all elements: children, nested ``repr``, export to plain types, loading, default geometry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from ....errors import InvalidArgumentError
from ...utils.common_types import Nested
from ...utils.geometry import box_around, resolve_enclosing_rbbox, to_corners, to_quad

# ((xmin, ymin), (xmax, ymax)), or four points TL, TR, BR, BL in reading direction; relative to the page.
Geometry: TypeAlias = Sequence[Sequence[float]] | NDArray[Any]

_NO_EXTENT = ((0.0, 0.0), (0.0, 0.0))


def to_json_safe(value: Any) -> Any:
    """Turn numpy and torch values, nested in any containers, into plain Python ones that ``json`` can write.

    Args:
        value: Any value. Arrays and tensors become nested tuples, scalars become plain numbers, dictionary keys become
            strings, and sets become lists. Everything else stays as it is.

    Returns:
        The plain value.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io.exporters import to_json_safe
        >>> to_json_safe({1: np.array([[0.5, 1.0]])})
        {'1': ((0.5, 1.0),)}
    """
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return value.item() if value.ndim == 0 else tuple(to_json_safe(item) for item in value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): to_json_safe(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(to_json_safe(item) for item in value)
    if isinstance(value, list | set | frozenset):
        return [to_json_safe(item) for item in value]
    return value


def enclosing_geometry(geometries: Sequence[Geometry]) -> Geometry:
    """Return the geometry around geometries: a box for boxes, otherwise the rectangle of least area.

    The first side of that rectangle has the average direction of the first sides of ``geometries``, so that a line of
    upside-down words is an upside-down line. Without geometries, the result is an empty box at the origin. The
    rectangle is an array if all geometries are arrays.
    """
    if not geometries:
        return _NO_EXTENT
    if all(len(geometry) == 2 for geometry in geometries):
        return to_corners(box_around(geometries))

    quads = np.stack([to_quad(geometry) for geometry in geometries])
    rectangle = np.asarray(resolve_enclosing_rbbox(list(quads)), dtype=np.float64)
    reading = (quads[:, 1] - quads[:, 0] + quads[:, 2] - quads[:, 3]).sum(axis=0)
    sides = np.roll(rectangle, -1, axis=0) - rectangle
    lengths = np.maximum(np.linalg.norm(sides, axis=1), np.finfo(np.float64).tiny)
    rectangle = np.roll(rectangle, -int(np.argmax(sides @ reading / lengths)), axis=0)
    if all(isinstance(geometry, np.ndarray) for geometry in geometries):
        return rectangle
    return tuple((float(x), float(y)) for x, y in rectangle)


def mean_score(scores: Iterable[float]) -> float:
    """Return the mean of scores; 0.0 for no scores."""
    values = list(scores)
    return float(np.mean(values)) if values else 0.0


class Element(Nested):
    """A node of the document tree.

    Subclasses list the names of their children in ``_children_names``, and the attributes that ``export`` includes in
    ``_exported_keys``.

    Args:
        **kwargs: Children by name.

    Raises:
        KeyError: if the class has no children with one of these names.

    Example:
        >>> from mediatensor.ocr.io import Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> word.render(), Word.from_dict(word.export()).confidence
        ('Total', 0.9)
    """

    _exported_keys: ClassVar[list[str]] = []

    def __init__(self, **kwargs: Any) -> None:
        for name, children in kwargs.items():
            if name not in self._children_names:
                raise KeyError(f"{type(self).__name__} has no children named {name!r}; it has {self._children_names}.")
            setattr(self, name, children)

    def export(self, *, characters: bool = False) -> dict[str, Any]:
        """Export the element and its descendants into nested dictionaries of plain types.

        Args:
            characters: Whether words include their characters, if these are known, under ``"characters"``.

        Returns:
            A dictionary that ``json.dumps`` accepts and ``from_dict`` reads.
        """
        exported: dict[str, Any] = {key: to_json_safe(getattr(self, key)) for key in self._exported_keys}
        for name in self._children_names:
            children = getattr(self, name)
            if isinstance(children, Mapping):
                exported[name] = {
                    str(key): [child.export(characters=characters) for child in group]
                    for key, group in children.items()
                }
            else:
                exported[name] = [child.export(characters=characters) for child in children]
        return exported

    @classmethod
    def from_dict(cls, save_dict: dict[str, Any], **kwargs: Any) -> Self:
        """Restore an element from the result of `export`.

        Args:
            save_dict: The exported dictionary, from this library or from docTR.
            **kwargs: Further arguments of some elements, such as the image of a page.
        """
        raise NotImplementedError

    def render(self) -> str:
        """Return the text of the element."""
        raise NotImplementedError


class TypedRegion(Element):
    """A region of the page that has a type and no text."""

    _exported_keys: ClassVar[list[str]] = ["geometry", "type", "confidence"]

    def __init__(self, region_type: str, confidence: float, geometry: Geometry) -> None:
        super().__init__()
        self.geometry = geometry
        self.type = region_type
        self.confidence = confidence

    def render(self) -> str:
        """Return the type as a tag: ``<[LOGO]>``."""
        return f"<[{self.type.upper()}]>"

    def extra_repr(self) -> str:
        return f"type='{self.type}', confidence={float(self.confidence):.2}"

    @classmethod
    def from_dict(cls, save_dict: dict[str, Any], **kwargs: Any) -> Self:
        """Restore the element from the result of `export`."""
        return cls(*(stored(save_dict, key, cls) for key in ("type", "confidence", "geometry")))


# Largest coordinate of an export, relative to the page or in pixels.
_MAX_COORDINATE = 1e9


def stored(save_dict: Mapping[str, Any], key: str, owner: type) -> Any:
    """Return the value under a key of an exported dictionary.

    Raises:
        InvalidArgumentError: if the export is not a dictionary, has no such key, or has a value of another type.
    """
    if not isinstance(save_dict, Mapping):
        raise InvalidArgumentError(
            f"A stored {owner.__name__} is a dictionary, as from export(); got {type(save_dict).__name__}."
        )
    if key not in save_dict:
        raise InvalidArgumentError(
            f"The stored {owner.__name__} has no {key!r}; it has {sorted(map(str, save_dict))}. "
            f"Pass the result of {owner.__name__}.export()."
        )
    value = save_dict[key]
    fits, words = _EXPECTED.get(key, _ANYTHING)
    if not fits(value):
        raise InvalidArgumentError(
            f"The stored {owner.__name__} has {key!r} = {repr(value)[:80]}, which should be {words}. "
            f"Pass the result of {owner.__name__}.export()."
        )
    return value


def stored_list(save_dict: Mapping[str, Any], key: str, owner: type) -> Any:
    """Return the list under a key of an exported dictionary, as `stored`; the list may be missing."""
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


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _are_lists(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_list, value.values()))


_Expected = tuple[Callable[[Any], bool], str]
_ANYTHING: _Expected = (lambda value: True, "anything")
_LIST: _Expected = (_is_list, "a list")
_TEXT: _Expected = (lambda value: isinstance(value, str), "a text")
_NUMBER: _Expected = (_is_number, "a number")
_WHOLE: _Expected = (_is_whole, "a whole number")
_VALUE_AND_CONFIDENCE: _Expected = (_is_mapping, "a dictionary of value and confidence")

# The type of value by key; a key has the same meaning in every element.
_EXPECTED: dict[str, _Expected] = {
    "pages": _LIST,
    "blocks": _LIST,
    "lines": _LIST,
    "words": _LIST,
    "artefacts": _LIST,
    "cells": _LIST,
    "layout": _LIST,
    "tables": _LIST,
    "fields": _LIST,
    "name": _TEXT,
    "key": _TEXT,
    "key_geometry": (lambda value: value is None or _is_geometry(value), "None, two corners or four points (x, y)"),
    "level": _WHOLE,
    "characters": _LIST,
    "predictions": (_are_lists, "a dictionary of lists"),
    "value": _TEXT,
    "unread": _LIST,
    "reason": _TEXT,
    "script": (lambda value: value is None or isinstance(value, str), "a text or None"),
    "type": _TEXT,
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
    "orientation": _VALUE_AND_CONFIDENCE,
    "language": _VALUE_AND_CONFIDENCE,
    "crop_orientation": _VALUE_AND_CONFIDENCE,
}
