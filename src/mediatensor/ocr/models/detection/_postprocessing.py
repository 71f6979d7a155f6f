"""From a probability map to boxes: one implementation for every segmentation detector."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._rectangles import least_area_rectangles
from ._regions import Regions, find_regions, open_bitmap

__all__ = ["boxes_from_bitmap", "boxes_from_map"]

# Regions less than three pixels wide or high are specks.
_MIN_EXTENT = 2


def boxes_from_map(
    prob_map: NDArray[np.floating],
    *,
    bin_thresh: float,
    box_thresh: float,
    unclip_ratio: float,
    straight: bool = True,
    opening: bool = True,
    clip: bool = True,
) -> NDArray[np.float64]:
    """Boxes around the regions where a probability map is high.

    Args:
        prob_map: Probabilities in [0, 1], float (H, W). NaN counts as 0.
        bin_thresh: Pixels of at least this probability are text.
        box_thresh: Boxes with a lower score are left out.
        unclip_ratio: How far the sides move outwards, as a factor of area over perimeter: detectors learn to mark
            less than the whole word, so that neighbours stay apart.
        straight: Axis-aligned boxes; otherwise rectangles of least area at any angle.
        opening: Remove what is thinner than 3 pixels first, bridges between words too.
        clip: Limit coordinates to [0, 1].

    Returns:
        Boxes in relative coordinates, top to bottom by their first pixel, float64: straight (N, 5) as xmin, ymin,
        xmax, ymax, score; otherwise (N, 5, 2), the four corners clockwise from the top left, then (0, score). The
        score of a straight box is the mean probability in the region's bounding box, that of a rotated one within
        the region's outline.
        Straight boxes are docTR's to the last digit; its rotated ones differ by up to two pixels of the map, because
        it cuts corners off to whole pixels.

    Raises:
        MissingDependencyError: if SciPy is not installed.

    >>> import numpy as np
    >>> page = np.zeros((32, 64)); page[8:16, 8:40] = 0.9
    >>> boxes = boxes_from_map(page, bin_thresh=0.3, box_thresh=0.1, unclip_ratio=1.5)
    >>> (boxes[0] * [64, 32, 64, 32, 1]).round(2).tolist()
    [3.0, 3.0, 46.0, 22.0, 0.78]
    """
    bitmap = prob_map >= bin_thresh
    return boxes_from_bitmap(
        prob_map,
        open_bitmap(bitmap) if opening else bitmap,
        box_thresh=box_thresh,
        unclip_ratio=unclip_ratio,
        straight=straight,
        clip=clip,
    )


def boxes_from_bitmap(
    prob_map: NDArray[np.floating],
    bitmap: NDArray[np.bool_],
    *,
    box_thresh: float,
    unclip_ratio: float,
    straight: bool = True,
    clip: bool = True,
) -> NDArray[np.float64]:
    """As :func:`boxes_from_map`, with the text pixels given: ``bitmap`` (H, W) bool."""
    # One NaN would spread along its row in the sums that the scores are computed from.
    prob_map = np.nan_to_num(prob_map)
    regions = find_regions(bitmap)
    bounds = regions.bounds()
    keep = (bounds[:, 2:] - bounds[:, :2] >= _MIN_EXTENT).all(axis=1)
    scores = _rectangle_means(prob_map, bounds) if straight else regions.means(prob_map)
    keep &= scores >= box_thresh
    height, width = prob_map.shape
    if straight:
        boxes = _straight_boxes(bounds[keep], unclip_ratio) / (width, height, width, height)
    else:
        boxes = _rotated_boxes(regions.select(keep), unclip_ratio) / (width, height)
    if clip:
        boxes = boxes.clip(0, 1)
    kept = scores[keep]
    column = kept[:, None] if straight else np.stack([np.zeros_like(kept), kept], axis=1)[:, None]
    return np.concatenate([boxes, column], axis=1)


def _rectangle_means(prob_map: NDArray[np.floating], bounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean probability from the first corner to one pixel beyond the last, as far as there is a map, float64 (N,)."""
    height, width = prob_map.shape
    table = np.zeros((height + 1, width + 1))
    table[1:, 1:] = prob_map
    table.cumsum(axis=0, out=table).cumsum(axis=1, out=table)
    left, top = bounds[:, 0], bounds[:, 1]
    right, bottom = np.minimum(bounds[:, 2] + 2, width), np.minimum(bounds[:, 3] + 2, height)
    sums = table[bottom, right] - table[top, right] - table[bottom, left] + table[top, left]
    means: NDArray[np.float64] = sums / ((right - left) * (bottom - top))
    return means


def _straight_boxes(bounds: NDArray[np.int64], unclip_ratio: float) -> NDArray[np.float64]:
    """Bounding boxes moved outwards, in whole pixels: xmin, ymin, xmax, ymax, float64 (N, 4)."""
    size = (bounds[:, 2:] - bounds[:, :2] + 1).astype(np.float64)
    distance = (size.prod(axis=1) * unclip_ratio / (2 * size.sum(axis=1)))[:, None]
    # docTR's offsetting knows whole numbers only, and a box ends behind the last of them.
    first = _round_half_away(bounds[:, :2] - distance)
    last = _round_half_away(bounds[:, 2:] + 1 + distance)
    return np.concatenate([first, last + 1], axis=1)


def _rotated_boxes(regions: Regions, unclip_ratio: float) -> NDArray[np.float64]:
    """Least-area rectangles moved outwards, in pixels: corners clockwise from the top left, float64 (N, 4, 2)."""
    rectangles = least_area_rectangles(regions)
    # Between centers of pixels a rectangle misses half a pixel on each side.
    area = (rectangles.width + 1) * (rectangles.height + 1)
    distance = area * unclip_ratio / (2 * (rectangles.width + rectangles.height) + 2)
    return rectangles.grow(distance).corners()


def _round_half_away(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.copysign(np.floor(np.abs(values) + 0.5), values)
