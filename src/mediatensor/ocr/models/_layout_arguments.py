"""Checks on what the stages before it hand to a document builder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError
from ..io.elements import LayoutElement

__all__ = [
    "check_lengths",
    "check_words",
    "geometries",
    "layout_elements",
    "per_page",
    "refuse_tables",
    "straight",
]


def check_lengths(**arguments: Sequence[Any]) -> int:
    """Return the number of pages that all arguments agree on.

    Raises:
        InvalidArgumentError: if they do not agree.
    """
    lengths = {name: len(argument) for name, argument in arguments.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InvalidArgumentError(f"All arguments are expected to be lists of the same size: {listed}")
    return lengths["boxes"]


def per_page(argument: Sequence[Any] | None, number: int, name: str) -> Sequence[Any]:
    """An optional argument, page by page: None for each page where it is not given.

    Raises:
        InvalidArgumentError: if it has another number of pages.
    """
    if argument is None:
        return [None] * number
    if len(argument) != number:
        raise InvalidArgumentError(f"{name} has {len(argument)} items for {number} pages: give one for each page")
    return argument


def check_words(boxes: np.ndarray, page: str, **arguments: Sequence[Any] | np.ndarray | None) -> None:
    """Check that every array of a page speaks of the same words.

    Args:
        boxes: ``(N, 4)`` or ``(N, 4, 2)``.
        page: Names the page in messages.
        **arguments: What must have N items, where it is given.

    Raises:
        InvalidArgumentError: if the boxes have another shape or are not finite, or an argument has another length.
    """
    if not ((boxes.ndim == 2 and boxes.shape[1] >= 4) or (boxes.ndim == 3 and boxes.shape[1:] == (4, 2))):
        raise InvalidArgumentError(f"boxes of {page} have shape {boxes.shape}, should be (N, 4) or (N, 4, 2)")
    if not np.isfinite(boxes).all():
        raise InvalidArgumentError(f"boxes of {page} hold coordinates that are not finite")
    for name, argument in arguments.items():
        if argument is not None and len(argument) != len(boxes):
            raise InvalidArgumentError(
                f"Incompatible argument lengths: {page} has {len(boxes)} boxes and {len(argument)} {name}. "
                "What drops or adds boxes must do the same to all that belongs to them."
            )


def refuse_tables(tables: Sequence[Any] | None) -> None:
    """Refuse tables, which are not recognised here; an argument that holds none is fine.

    Raises:
        InvalidArgumentError: if a page has one.
    """
    if tables is not None and any(tables):
        raise InvalidArgumentError("tables are not available: leave the argument out, or None for every page")


def straight(boxes: np.ndarray) -> np.ndarray:
    """The straight boxes ``(N, 4)`` around quads ``(N, 4, 2)``; straight boxes as they are."""
    return np.concatenate((boxes.min(axis=1), boxes.max(axis=1)), axis=1) if boxes.ndim == 3 else boxes


def layout_elements(regions: Mapping[str, Any] | None) -> list[LayoutElement]:
    """Elements for the regions of one page.

    Args:
        regions: ``{"boxes": (R, 4) or (R, 4, 2), "class_names": [...], "scores": [...]}``, names and scores optional.

    Returns:
        One element for each region.

    Raises:
        InvalidArgumentError: if there are not as many names or scores as boxes.
    """
    if regions is None or len(regions.get("boxes", ())) == 0:
        return []
    boxes = np.asarray(regions["boxes"], dtype=np.float64)
    names = regions.get("class_names") or [""] * len(boxes)
    scores = regions.get("scores")
    scores = [1.0] * len(boxes) if scores is None else scores
    check_words(boxes, "the layout", class_names=names, scores=scores)
    return [
        LayoutElement(str(name), float(score), geometry)
        for name, score, geometry in zip(names, scores, geometries(boxes), strict=True)
    ]


def geometries(boxes: np.ndarray) -> list[tuple[tuple[float, float], ...]]:
    """The geometries of elements: two corners of a straight box, four points of a quad."""
    corners = boxes if boxes.ndim == 3 else boxes[:, :4].reshape(-1, 2, 2)
    return [tuple((x, y) for x, y in points) for points in corners.tolist()]
