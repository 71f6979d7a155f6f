"""The words of a page by a recogniser of words: crops of the boxes that were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from ...io.elements import Character, UnreadLine
from .._networks.devices import download
from .._pages.crops import cut_lines, line_sizes, page_part, sampling_grid, spans_of, to_float, upload_spans
from .._pages.orientation import signed_turn
from .._pages.straightening import Straightening
from .._pages.words import boxes_between_gaps, ink_of_line, inks_of_lines
from ..classification._turned_lines import turned
from ..recognition.predictor import RecognitionPredictor

__all__ = [
    "UNKNOWN",
    "ClassWords",
    "PageWords",
    "as_quads",
    "box_quads",
    "characters_of",
    "cut_lines_into_words",
    "cut_words",
    "no_words",
    "place_boxes",
    "read_page_words",
    "scores_of",
    "straight_boxes",
]

FloatingArray = npt.NDArray[np.floating]

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

    boxes: FloatingArray
    scores: FloatingArray
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


def straight_boxes(quads: FloatingArray) -> FloatingArray:
    """Enclosing boxes (N, 4) of quads (N, P, 2)."""
    return np.concatenate([quads.min(axis=1), quads.max(axis=1)], axis=1)


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


IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

CUT_HEIGHT, CUT_WIDTH = 48, 4096
"""The size at which lines are looked at to cut them into words."""


def box_quads(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Straight boxes (N, 4) as quads (N, 4, 2), clockwise from the top left."""
    corners: npt.NDArray[np.float64] = boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]].astype(np.float64)
    return corners


def as_quads(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Boxes with scores, straight (N, 5) or rotated (N, 5, 2), as quads (N, 4, 2)."""
    return box_quads(boxes[:, :4]) if boxes.ndim == 2 else boxes[:, :4].astype(np.float64)


def scores_of(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """The scores (N,) of such boxes."""
    return boxes[:, 4] if boxes.ndim == 2 else boxes[:, 4, 1]


def read_page_words(
    predictor: RecognitionPredictor,
    page: Tensor,
    boxes: npt.NDArray[np.floating],
    scores: npt.NDArray[np.floating],
    turns: IntArray,
) -> ClassWords:
    """Read the words in boxes.

    Args:
        predictor: Reads crops of words.
        page: (3, H, W), uint8 or floats in [0, 1].
        boxes: Relative: straight (N, 4), or (N, 4, 2), clockwise as they lie on the page.
        scores: Of the detector, (N,).
        turns: By how much each is turned, degrees clockwise; all 0 for straight boxes.

    Returns:
        The words whose box has pixels. Scores stay with their words.
    """
    straight = boxes.ndim == 2
    places = boxes if straight else turned(boxes.astype(np.float64), turns)
    crops = cut_words(page, places)
    kept = [index for index, crop in enumerate(crops) if crop is not None]
    texts = predictor.read([crop for crop in crops if crop is not None])
    orientations = [{"value": signed_turn(int(turns[index])), "confidence": None} for index in kept]
    return ClassWords(places[kept], scores[kept], texts, orientations)


def cut_words(page: Tensor, boxes: npt.NDArray[np.floating]) -> list[Tensor | None]:
    """Crops of a page at its own resolution, on its device.

    Args:
        page: (3, H, W), uint8 or floats in [0, 1].
        boxes: Relative: straight (N, 4), which include their last row and column, or (N, 4, 2) from where the
            reading begins.

    Returns:
        Tensors (3, h, w) of the page's type; None where a box holds no pixel.
    """
    height, width = page.shape[1:]
    if boxes.ndim == 3:
        return _cut_quads(page, boxes * (width, height))
    pixels = np.round(boxes[:, :4] * (width, height, width, height)).astype(np.int64)
    pixels = (pixels + np.array([0, 0, 1, 1])).clip(0, (width, height, width, height))
    return [
        page[:, top:bottom, left:right] if bottom > top and right > left else None
        for left, top, right, bottom in pixels.tolist()
    ]


def _cut_quads(page: Tensor, quads: npt.NDArray[np.floating]) -> list[Tensor | None]:
    """The parallelograms on the first, second and last corners, as large as their sides are long."""
    widths, heights = (sizes.astype(int).tolist() for sizes in line_sizes(quads))
    crops: list[Tensor | None] = [None] * len(quads)
    kept = [index for index in range(len(quads)) if widths[index] >= 1 and heights[index] >= 1]
    if not kept:
        return crops
    parts = [page_part(page, quads[[index]]) for index in kept]
    spans = upload_spans(
        [
            spans_of(part, quads[[index]] - corner, widths[index])
            for index, (part, corner) in zip(kept, parts, strict=True)
        ],
        page.device,
    )
    for place, (index, (part, _)) in enumerate(zip(kept, parts, strict=True)):
        grid = sampling_grid(spans[place : place + 1], heights[index], widths[index])
        # What lies beyond the page is black, as in docTR.
        crop = F.grid_sample(to_float(part)[None], grid, padding_mode="zeros", align_corners=False)[0]
        is_bytes = page.dtype == torch.uint8
        crops[index] = (crop * 255).round_().to(torch.uint8) if is_bytes else crop.to(page.dtype)
    return crops


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


def place_boxes(line: FloatArray, boxes: npt.NDArray[np.floating]) -> FloatArray:
    """Boxes (N, 4), as fractions of a line, as quads (N, 4, 2) on its page, clockwise from where the reading begins.

    Args:
        line: Relative corners (4, 2).
        boxes: Left, top, right, bottom.

    Returns:
        Relative, within [0, 1].
    """
    along, down = line[1] - line[0], line[3] - line[0]
    x, y = boxes[:, [0, 2, 2, 0]], boxes[:, [1, 1, 3, 3]]
    placed: FloatArray = line[0] + x[..., None] * along + y[..., None] * down
    return placed.clip(0, 1)
