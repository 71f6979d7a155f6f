"""Check the samples of transforms, and change the boxes in their targets."""

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
# Boxes or polygons as they become, and which of them are left: bool (N,).
Change: TypeAlias = Callable[[Array], tuple[Array, NDArray[np.bool_]]]


def image_of(sample: Sample) -> Tensor:
    """Return the image of a sample, a tensor (..., C, H, W) with pixels."""
    image = sample.image
    if isinstance(image, Tensor) and image.ndim >= 3 and image.numel():
        return image
    raise InvalidArgumentError(f"the image of a sample must be a tensor (C, H, W) (got {shown(image)}).")


def range_of(name: str, limits: object) -> tuple[float, float]:
    """Return ``limits`` as a tuple of two finite numbers."""
    if isinstance(limits, tuple | list) and len(limits) == 2 and len(finite_numbers(limits)) == 2:
        return limits[0], limits[1]
    raise InvalidArgumentError(f"{name} must be two finite numbers (got {shown(limits)}).")


def move_boxes(target: Any, change: Change) -> Any:
    """Return a target whose arrays of boxes and polygons are changed by ``change``.

    Texts and class numbers stay as they are; ``"labels"`` next to ``"boxes"`` are reduced to the boxes that are left.

    Raises:
        InvalidArgumentError: The target is of another kind, or an array of another shape.
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
    """Return the least and the greatest x and y of boxes or polygons: (N, 2) each."""
    corners = boxes.reshape(len(boxes), -1, 2)
    return corners.min(axis=1), corners.max(axis=1)


def _has_boxes(value: object, *, is_value: bool) -> bool:
    """Whether these are boxes or polygons, and not empty, a text or class numbers."""
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
