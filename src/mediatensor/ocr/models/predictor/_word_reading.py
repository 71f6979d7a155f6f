"""The words of a page by a recogniser of words: crops of the boxes that were found."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from .._crops import cut_lines, line_sizes, page_part, sampling_grid, to_float
from .._line_words import boxes_between_gaps, ink_map
from .._orientation import signed_turn
from .._turned_lines import turned
from ..recognition.predictor import RecognitionPredictor
from ._page_words import ClassWords

__all__ = ["box_quads", "cut_lines_into_words", "cut_words", "place_boxes", "read_page_words"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

CUT_HEIGHT, CUT_WIDTH = 48, 4096
"""The size at which lines are looked at to cut them into words."""


def box_quads(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Straight boxes (N, 4) as quads (N, 4, 2), clockwise from the top left."""
    corners: npt.NDArray[np.float64] = boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]].astype(np.float64)
    return corners


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
    texts = predictor([crop for crop in crops if crop is not None])
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
        return [_cut_quad(page, quad) for quad in boxes * (width, height)]
    pixels = np.round(boxes[:, :4] * (width, height, width, height)).astype(np.int64)
    pixels = (pixels + np.array([0, 0, 1, 1])).clip(0, (width, height, width, height))
    return [
        page[:, top:bottom, left:right] if bottom > top and right > left else None
        for left, top, right, bottom in pixels.tolist()
    ]


def _cut_quad(page: Tensor, quad: npt.NDArray[np.floating]) -> Tensor | None:
    """The parallelogram on the first, second and last corner, as large as its sides are long."""
    widths, heights = line_sizes(quad[None])
    columns, rows = int(widths[0]), int(heights[0])
    if columns < 1 or rows < 1:
        return None
    part, corner = page_part(page, quad[None])
    picture = to_float(part)
    grid = sampling_grid(picture, quad[None] - corner, [columns], rows, columns)
    # What lies beyond the page is black, as in docTR.
    crop = F.grid_sample(picture[None], grid, padding_mode="zeros", align_corners=False)[0]
    return (crop * 255).round_().to(torch.uint8) if page.dtype == torch.uint8 else crop.to(page.dtype)


def cut_lines_into_words(
    image: Tensor, quads: npt.NDArray[np.float64], scores: npt.NDArray[np.floating]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.floating]]:
    """Lines cut at gaps in their ink, for recognisers that read words."""
    height, width = image.shape[1:]
    parts: dict[int, npt.NDArray[np.float64]] = {}
    for batch in cut_lines(image, quads * (width, height), CUT_HEIGHT, CUT_WIDTH):
        grays = batch.data.mean(1).cpu().numpy()
        for position, (index, own) in enumerate(zip(batch.indices, batch.widths, strict=True)):
            boxes = np.array(boxes_between_gaps(ink_map(grays[position, :, :own])))
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
