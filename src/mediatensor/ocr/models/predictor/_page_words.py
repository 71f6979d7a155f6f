"""What predictors gather about each page before a document is built of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...io.elements import Character, UnreadLine
from .._straightening import Straightening

__all__ = ["UNKNOWN", "ClassWords", "PageWords", "characters_of", "no_words", "straight_boxes"]

FloatArray = npt.NDArray[np.floating]

UNKNOWN: dict[str, Any] = {"value": None, "confidence": None}
"""The orientation or the language of a page that could not be read."""


@dataclass
class ClassWords:
    """The words of one class on a page, one item for each in every field.

    Attributes:
        boxes: Relative, (N, 4), or (N, 4, 2) from where the reading begins.
        scores: Of the detector, (N,).
        texts: With confidences.
        orientations: ``{"value": degrees, "confidence": ...}``.
        line_ids: Which detected line each was cut from; None if words were detected.
        characters: Of each word; None if the recogniser does not place them.
        unread: Lines that were not read, or not in full; not one for each word.
    """

    boxes: FloatArray
    scores: FloatArray
    texts: list[tuple[str, float]]
    orientations: list[dict[str, Any]]
    line_ids: npt.NDArray[np.int64] | None = None
    characters: list[Sequence[Character]] | None = None
    unread: list[UnreadLine] = field(default_factory=list)


@dataclass
class PageWords:
    """Everything that was found on a page.

    Attributes:
        image: The page to show.
        shape: Height and width of the image that boxes are relative to.
        words: By class.
        orientation: Of the page as it was given, where it was asked for.
        language: Likewise.
        error: Why the page could not be read.
        straightened: How the image that boxes are relative to was made of ``image``, where it is another.
    """

    image: Any
    shape: tuple[int, int]
    words: dict[str, ClassWords]
    orientation: dict[str, Any] | None = None
    language: dict[str, Any] | None = None
    error: str | None = None
    straightened: Straightening | None = None


def no_words(straight: bool = True) -> ClassWords:
    """Of a class that a page has nothing of."""
    return ClassWords(np.zeros((0, 4) if straight else (0, 4, 2)), np.zeros(0), [], [])


def straight_boxes(quads: FloatArray) -> FloatArray:
    """Enclosing boxes (N, 4) of quads (N, P, 2)."""
    return np.concatenate([quads.min(axis=1), quads.max(axis=1)], axis=1)


def characters_of(values: str, confidences: Sequence[float], quads: FloatArray, straight: bool) -> list[Character]:
    """Elements from the quads (N, 4, 2) of characters."""
    if straight:
        geometries: list[Any] = [((a, b), (c, d)) for a, b, c, d in straight_boxes(quads).tolist()]
    else:
        geometries = [tuple(tuple(point) for point in quad) for quad in quads.tolist()]
    return [
        Character(value, confidence, geometry)
        for value, confidence, geometry in zip(values, confidences, geometries, strict=True)
    ]
