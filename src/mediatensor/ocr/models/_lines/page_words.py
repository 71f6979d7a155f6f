"""The words of a page by a recogniser of words: crops of the boxes that were found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ...io.elements import Character, UnreadLine
from .._networks.transfers import download
from .cutting import cut_lines, cut_words
from .geometry import place_boxes, signed_turn, straight_boxes, turned
from .words_of_lines import boxes_between_gaps, ink_of_line, inks_of_lines

__all__ = ["ClassWords", "FoundLine", "characters_of", "cut_lines_into_words", "no_words", "read_page_words"]

FloatingArray = npt.NDArray[np.floating]

IntArray = npt.NDArray[np.int64]
CUT_HEIGHT, CUT_WIDTH = 48, 4096
"""The height and the greatest width at which lines are cut into words, in pixels."""


@dataclass(frozen=True)
class FoundLine:
    """A line, or the box of a word, as it was cut out and read.

    Attributes:
        place: What :func:`cut_words` takes: corners (4, 2) from where the reading begins, or a straight box (4,),
            relative to the page that was read.
        value: What was read.
        confidence: The probability that this is right, as far as the recogniser's confidences are such.
        unread: Why it is no part of the page's text, or not all of it: a reason of `UnreadLine`; None if it is.
    """

    place: FloatingArray
    value: str
    confidence: float
    unread: str | None = None


@dataclass
class ClassWords:
    """The words of one class on a page, one item for each in every field.

    Attributes:
        boxes: Relative, (N, 4), or (N, 4, 2) from where the reading begins.
        scores: Scores of the detector, (N,).
        texts: Texts with their confidences.
        orientations: ``{"value": degrees, "confidence": ...}``.
        line_ids: The detected line that each word was cut from; None if the detector found words.
        characters: The characters of each word; None if the recogniser does not place them.
        unread: Lines that were not read, or not in full; not one for each word.
        found: All lines, or boxes of words, that were cut out; not one for each word.
    """

    boxes: FloatingArray
    scores: FloatingArray
    texts: list[tuple[str, float]]
    orientations: list[dict[str, Any]]
    line_ids: npt.NDArray[np.int64] | None = None
    characters: list[Sequence[Character]] | None = None
    unread: list[UnreadLine] = field(default_factory=list)
    found: list[FoundLine] = field(default_factory=list)


def no_words(straight: bool = True) -> ClassWords:
    """The words of a class that does not occur on a page."""
    return ClassWords(np.zeros((0, 4) if straight else (0, 4, 2)), np.zeros(0), [], [])


def characters_of(values: str, confidences: Sequence[float], quads: FloatingArray, straight: bool) -> list[Character]:
    """Elements from the quads (N, 4, 2) of characters."""
    if straight:
        geometries: list[Any] = [((a, b), (c, d)) for a, b, c, d in straight_boxes(quads).tolist()]
    else:
        geometries = [tuple(tuple(point) for point in quad) for quad in quads.tolist()]
    return [
        Character(value, confidence, geometry)
        for value, confidence, geometry in zip(values, confidences, geometries, strict=True)
    ]


def read_page_words(
    read: Callable[[Sequence[Tensor]], list[tuple[str, float]]],
    page: Tensor,
    boxes: npt.NDArray[np.floating],
    scores: npt.NDArray[np.floating],
    turns: IntArray,
) -> ClassWords:
    """Read the words in boxes.

    Args:
        read: Reads crops of words, see :meth:`RecognitionPredictor.read`.
        page: (3, H, W), uint8 or floats in [0, 1].
        boxes: Relative: straight (N, 4), or (N, 4, 2), clockwise as they lie on the page.
        scores: Scores of the detector, (N,).
        turns: By how much each is turned, degrees clockwise; all 0 for straight boxes.

    Returns:
        The words whose box has pixels. Scores stay with their words.
    """
    straight = boxes.ndim == 2
    places = boxes if straight else turned(boxes.astype(np.float64), turns)
    crops = cut_words(page, places)
    kept = [index for index, crop in enumerate(crops) if crop is not None]
    texts = read([crop for crop in crops if crop is not None])
    orientations = [{"value": signed_turn(int(turns[index])), "confidence": None} for index in kept]
    found = [FoundLine(places[index], *text) for index, text in zip(kept, texts, strict=True)]
    return ClassWords(places[kept], scores[kept], texts, orientations, found=found)


def cut_lines_into_words(
    image: Tensor, quads: npt.NDArray[np.float64], scores: npt.NDArray[np.floating]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.floating]]:
    """Lines cut at gaps in their ink, for recognisers that read words."""
    height, width = image.shape[1:]
    seen = [
        (batch.indices, batch.widths, inks_of_lines(batch.data))
        for batch in cut_lines(image, quads * (width, height), CUT_HEIGHT, CUT_WIDTH)
    ]
    parts: dict[int, npt.NDArray[np.float64]] = {}
    for (indices, widths, _), inks in zip(seen, download(*(inks for _, _, inks in seen)), strict=True):
        for position, (index, own) in enumerate(zip(indices, widths, strict=True)):
            boxes = np.array(boxes_between_gaps(ink_of_line(inks, position, own)))
            parts[index] = place_boxes(quads[index], boxes)
    ordered = [parts[index] for index in range(len(quads))]
    return np.concatenate(ordered), np.repeat(scores, [len(part) for part in ordered])
