"""Check samples, and change the boxes in their targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...._engine.common.checks import finite_numbers, shown
from ....errors import InvalidArgumentError
from ...utils import Sample

Array: TypeAlias = NDArray[Any]
# Takes boxes or polygons. Returns the changed ones, and which of the N are kept: bool (N,).
Change: TypeAlias = Callable[[Array], tuple[Array, NDArray[np.bool_]]]


def image_of(sample: Sample) -> Tensor:
    """Return the image of a sample after checking that it is a non-empty tensor (..., C, H, W)."""
    image = sample.image
    if isinstance(image, Tensor) and image.ndim >= 3 and image.numel():
        return image
    raise InvalidArgumentError(f"the image of a sample must be a tensor (C, H, W) (got {shown(image)}).")


def range_of(name: str, limits: object) -> tuple[float, float]:
    """Return ``limits`` as a tuple after checking that it is two finite numbers."""
    if isinstance(limits, tuple | list) and len(limits) == 2 and len(finite_numbers(limits)) == 2:
        return limits[0], limits[1]
    raise InvalidArgumentError(f"{name} must be two finite numbers (got {shown(limits)}).")


def move_boxes(target: Any, change: Change) -> Any:
    """Return a target in which ``change`` was applied to all arrays of boxes and polygons.

    Texts and class numbers stay unchanged. ``"labels"`` next to ``"boxes"`` keep only the entries of the kept boxes.

    Raises:
        InvalidArgumentError: The target has another type, or an array has another shape.
    """
    if not isinstance(target, dict):
        return _take_kept(*change(target)) if _has_boxes(target, is_value=False) else target
    changed = {name: change(value) for name, value in target.items() if _has_boxes(value, is_value=True)}
    moved = {name: _take_kept(*changed[name]) if name in changed else value for name, value in target.items()}
    labels = moved.get("labels")
    if "boxes" in changed and "labels" not in changed and isinstance(labels, np.ndarray | list | tuple):
        indices = changed["boxes"][1].nonzero()[0]
        moved["labels"] = labels[indices] if isinstance(labels, np.ndarray) else [labels[index] for index in indices]
    return moved


def corners_of(boxes: Array) -> tuple[Array, Array]:
    """Return the smallest and the largest x and y of each box or polygon, (N, 2) each."""
    corners = boxes.reshape(len(boxes), -1, 2)
    return corners.min(axis=1), corners.max(axis=1)


def _has_boxes(value: object, *, is_value: bool) -> bool:
    """Whether a value is a non-empty array of boxes or polygons. Raise an error if its type is not accepted."""
    if isinstance(value, np.ndarray):
        if value.size == 0 or (value.ndim < 2 and (is_value or value.size == 1)):
            return False
        if value.shape[1:] in ((4,), (4, 2)):
            return True
        raise InvalidArgumentError(f"boxes must be of shape (N, 4), polygons (N, 4, 2) (got {value.shape}).")
    items = value if isinstance(value, list | tuple) and is_value else [value]
    if all(item is None or isinstance(item, str | int | np.integer) for item in items):
        return False
    raise InvalidArgumentError(
        "a target must be an array of boxes (N, 4) or polygons (N, 4, 2), a dict of these, a text, a class number or "
        f"None (got {shown(value)})."
    )


def _take_kept(boxes: Array, kept: NDArray[np.bool_]) -> Array:
    return boxes[kept]
