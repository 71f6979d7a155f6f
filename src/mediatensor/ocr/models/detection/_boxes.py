"""Convert the probability maps of detectors to boxes around words or lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...utils._page_images import image_tools

# Pages have fewer regions than this. A noise map has ten times as many, and each region slows down all later stages.
# Beyond this limit only the largest regions are kept.
MAX_REGIONS = 20_000
# Number of regions whose edges are tried together. This limits memory use without slowing the search down.
_REGIONS_AT_ONCE = 2048
# Regions less than three pixels wide or high are specks.
_MIN_EXTENT = 2


@dataclass(frozen=True)
class Regions:
    """The N regions of a bitmap, stored as R runs. A run is a horizontal sequence of adjacent pixels.

    Regions are sorted by their first pixel, row by row, and runs are sorted by region. All arrays except ``starts``
    have one item for each run.
    """

    region: NDArray[np.int64]  # the number of each run's region, ascending from 0
    row: NDArray[np.int64]  # ascending within a region
    left: NDArray[np.int64]
    right: NDArray[np.int64]  # the last column, inclusive
    starts: NDArray[np.int64]  # (N,): the index of each region's first run

    def __len__(self) -> int:
        return len(self.starts)

    def bounds(self) -> NDArray[np.int64]:
        """Return the first column and row, and the last column and row, of each region: int64 (N, 4), all inclusive."""
        ends = np.append(self.starts, len(self.row))[1:] - 1
        left = np.minimum.reduceat(self.left, self.starts)
        right = np.maximum.reduceat(self.right, self.starts)
        return np.stack([left, self.row[self.starts], right, self.row[ends]], axis=1)

    def means(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return, for each region, the mean of ``values`` (H, W) over its pixels, float64 (N,)."""
        before = np.zeros((values.shape[0], values.shape[1] + 1))
        np.cumsum(values, axis=1, dtype=np.float64, out=before[:, 1:])
        sums = before[self.row, self.right + 1] - before[self.row, self.left]
        pixels = np.add.reduceat(self.right - self.left + 1, self.starts)
        means: NDArray[np.float64] = np.add.reduceat(sums, self.starts) / pixels
        return means

    def select(self, keep: NDArray[np.bool_]) -> Regions:
        """Return only the regions for which ``keep`` (N,) is true, in the same order."""
        runs = keep[self.region]
        renumbered = np.cumsum(keep) - 1
        return _group_runs(renumbered[self.region[runs]], self.row[runs], self.left[runs], self.right[runs])

    def outline(self) -> Regions:
        """Return the regions with all gaps within rows filled, so that each row of a region is one run."""
        new_row = np.diff(self.row, prepend=-1) != 0
        new_row[self.starts] = True
        first = np.flatnonzero(new_row)
        left = np.minimum.reduceat(self.left, first)
        right = np.maximum.reduceat(self.right, first)
        return _group_runs(self.region[first], self.row[first], left, right)


def open_bitmap(bitmap: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Remove parts of a bitmap (H, W) narrower than 3 x 3 pixels: an opening, in which pixels outside count as set."""
    for combine, is_set_outside in ((np.logical_and, True), (np.logical_or, False)):
        padded = np.pad(bitmap, 1, constant_values=is_set_outside)
        rows = combine(combine(padded[:-2], padded[1:-1]), padded[2:])
        bitmap = combine(combine(rows[:, :-2], rows[:, 1:-1]), rows[:, 2:])
    return bitmap


def find_regions(bitmap: NDArray[np.bool_]) -> Regions:
    """Return the 8-connected regions of true pixels in a bitmap (H, W).

    Holes in regions are filled. A region inside such a hole becomes part of the region around it.

    If there are more than `MAX_REGIONS` regions, only the largest are returned.
    """
    ndimage = image_tools()
    # Unset pixels that are not connected to the outside are holes. The padding connects all outside pixels.
    background, pieces = ndimage.label(np.pad(~bitmap, 1, constant_values=True))
    filled = bitmap if pieces == 1 else background[1:-1, 1:-1] != background[0, 0]
    labels, count = ndimage.label(filled, structure=np.ones((3, 3), dtype=bool))
    change = np.diff(filled.astype(np.int8), axis=1, prepend=0, append=0)
    row, left = np.nonzero(change == 1)
    right = np.nonzero(change == -1)[1] - 1
    region = labels[row, left].astype(np.int64) - 1
    order = np.argsort(region, kind="stable")
    regions = _group_runs(region[order], row[order], left[order], right[order])
    if count > MAX_REGIONS:
        pixels = np.add.reduceat(regions.right - regions.left + 1, regions.starts)
        keep = np.zeros(count, dtype=bool)
        # A stable sort selects the same regions on every platform if sizes are equal.
        keep[np.argsort(-pixels, kind="stable")[:MAX_REGIONS]] = True
        regions = regions.select(keep)
    return regions


def _group_runs(
    region: NDArray[np.int64], row: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]
) -> Regions:
    starts = np.flatnonzero(np.diff(region, prepend=-1))
    return Regions(region, row, left, right, starts)


class Rectangles(NamedTuple):
    """N rectangles at any angle, in pixel coordinates. Pixel centers have whole numbers as coordinates."""

    center: NDArray[np.float64]  # (N, 2): x and y
    axis: NDArray[np.float64]  # (N, 2): unit vectors (x, y) in the direction of the width
    width: NDArray[np.float64]
    height: NDArray[np.float64]

    def corners(self) -> NDArray[np.float64]:
        """Return the corners (x, y), (N, 4, 2), clockwise on the screen from the one at the top left."""
        along = self.axis * (self.width / 2)[:, None]
        across = np.stack([-self.axis[:, 1], self.axis[:, 0]], axis=1) * (self.height / 2)[:, None]
        offsets = np.stack([-along - across, along - across, along + across, across - along], axis=1)
        corners = self.center[:, None] + offsets
        first = corners.sum(axis=2).argmin(axis=1)
        ordered: NDArray[np.float64] = np.take_along_axis(corners, (first[:, None] + np.arange(4))[..., None] % 4, 1)
        return ordered


def least_area_rectangles(regions: Regions) -> Rectangles:
    """Return the smallest rectangle, at any angle, around the pixel centers of each region."""
    points, group = _hull_points(regions)
    pieces = [
        _try_hull_edges(points[inside], group[inside] - start)
        for start in range(0, len(regions) or 1, _REGIONS_AT_ONCE)
        for inside in [slice(*np.searchsorted(group, [start, start + _REGIONS_AT_ONCE]))]
    ]
    return Rectangles(*map(np.concatenate, zip(*pieces, strict=True)))


def _hull_points(regions: Regions) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the corners (P, 2) of the convex hulls of all regions, and the region of each corner, (P,).

    Corners are sorted by region: for each, first those on the left side of its hull, then those on the right side.
    """
    outline = regions.outline()
    # The left side is computed as a mirrored right side. The two sides of a region are interleaved.
    side = np.concatenate([2 * outline.region, 2 * outline.region + 1])
    order = np.argsort(side, kind="stable")
    side = side[order]
    x = np.concatenate([-outline.left, outline.right])[order]
    y = np.concatenate([outline.row, outline.row])[order]
    while True:
        # A point on or inside the chord of its neighbours is never a hull corner, so all such points can be removed at
        # once. If no such point is left, the outline is convex.
        step_x, step_y = np.diff(x), np.diff(y)
        keep = np.ones(len(x), dtype=bool)
        keep[1:-1] = (side[:-2] != side[2:]) | (step_x[:-1] * step_y[1:] - step_y[:-1] * step_x[1:] > 0)
        if keep.all():
            break
        x, y, side = x[keep], y[keep], side[keep]
    return np.stack([np.where(side % 2, x, -x), y], axis=1).astype(np.float64), side // 2


def _try_hull_edges(points: NDArray[np.float64], group: NDArray[np.int64]) -> Rectangles:
    """Return the smallest rectangle around the hull of each region. ``group`` is the region of each point.

    The smallest rectangle always has a side parallel to an edge of the hull, so only these directions are tried.
    """
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    counts = np.diff(starts, append=len(points))
    directions = np.diff(points, axis=0, append=points[:1])
    lengths = np.hypot(directions[:, 0], directions[:, 1])
    # The step to the right side or to the next region is not an edge. The horizontal direction takes its place, because
    # the hull's top and bottom edges are not among the steps.
    no_edge = (directions[:, 1] <= 0) | (np.diff(group, append=-1) != 0)
    directions[no_edge], lengths[no_edge] = (1.0, 0.0), 1.0
    directions /= lengths[:, None]
    # Project every point of a region on every direction of that region.
    per_direction = counts[group]
    first_pair = np.cumsum(per_direction) - per_direction
    direction_of_pair = np.repeat(np.arange(len(points)), per_direction)
    point_of_pair = np.arange(len(direction_of_pair)) - first_pair[direction_of_pair] + starts[group[direction_of_pair]]
    unit, point = directions[direction_of_pair], points[point_of_pair]
    along = unit[:, 0] * point[:, 0] + unit[:, 1] * point[:, 1]
    across = unit[:, 0] * point[:, 1] - unit[:, 1] * point[:, 0]
    low = np.stack([np.minimum.reduceat(along, first_pair), np.minimum.reduceat(across, first_pair)], axis=1)
    high = np.stack([np.maximum.reduceat(along, first_pair), np.maximum.reduceat(across, first_pair)], axis=1)
    sizes = high - low
    # Rounding makes the choice between equal areas independent of rounding errors: the first direction wins.
    areas = np.round(sizes[:, 0] * sizes[:, 1], 6)
    best = np.lexsort((np.arange(len(points)), areas, group))[starts]
    middle, axis = (low[best] + high[best]) / 2, directions[best]
    center = np.stack(
        [axis[:, 0] * middle[:, 0] - axis[:, 1] * middle[:, 1], axis[:, 1] * middle[:, 0] + axis[:, 0] * middle[:, 1]],
        axis=1,
    )
    return Rectangles(center, axis, sizes[best, 0], sizes[best, 1])


def boxes_from_bitmap(
    prob_map: NDArray[np.floating],
    bitmap: NDArray[np.bool_],
    box_thresh: float,
    unclip_ratio: float,
    *,
    straight: bool = True,
    clip: bool = True,
) -> NDArray[np.float64]:
    """Return boxes around the regions of text in a bitmap, with scores.

    Args:
        prob_map: The probability of text at each pixel, in [0, 1], float (H, W). NaN counts as 0.
        bitmap: True for the pixels that are text, (H, W).
        box_thresh: Boxes with a lower score are dropped.
        unclip_ratio: Determines how much boxes are enlarged: all sides move outwards by
            ``unclip_ratio * area / perimeter``. Detectors are trained to find shrunken words, so that neighbouring
            words stay separate.
        straight: Return straight boxes; otherwise return the smallest rectangles at any angle.
        clip: Clip the coordinates of the boxes to [0, 1].

    Returns:
        Boxes relative to the map, float64, sorted by the topmost pixel of their region. Straight boxes are (N, 5):
        xmin, ymin, xmax, ymax, score. Rotated boxes are (N, 5, 2): four corners clockwise from the top left, then
        (0, score). The score of a straight box is the mean probability in the bounding box of its region. The score of
        a rotated box is the mean probability in the region itself. Straight boxes equal docTR's exactly. Rotated boxes
        differ from docTR's by up to two pixels of the map, because docTR rounds corners to whole pixels.

    >>> import numpy as np
    >>> page = np.zeros((32, 64)); page[8:16, 8:40] = 0.9
    >>> boxes = boxes_from_bitmap(page, page > 0.3, box_thresh=0.1, unclip_ratio=1.5)
    >>> (boxes[0] * [64, 32, 64, 32, 1]).round(2).tolist()
    [3.0, 3.0, 46.0, 22.0, 0.78]
    """
    # Scores are computed from cumulative sums, in which one NaN would affect the rest of its row.
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
    """Return the mean probability (N,) in each rectangle and, as in docTR, one row below and one column beside it."""
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
    """Enlarge bounding boxes and round them to whole pixels; return xmin, ymin, xmax and ymax, float64 (N, 4)."""
    size = (bounds[:, 2:] - bounds[:, :2] + 1).astype(np.float64)
    distance = (size.prod(axis=1) * unclip_ratio / (2 * size.sum(axis=1)))[:, None]
    # docTR's offset is a whole number of pixels, and the stop of a box is one past its last pixel.
    first = _round_half_away(bounds[:, :2] - distance)
    last = _round_half_away(bounds[:, 2:] + 1 + distance)
    return np.concatenate([first, last + 1], axis=1)


def _rotated_boxes(regions: Regions, unclip_ratio: float) -> NDArray[np.float64]:
    """Enlarge the smallest rectangle around each region. Return its corners in pixels, (N, 4, 2), from the top left."""
    rectangles = least_area_rectangles(regions)
    # A rectangle between pixel centers lacks half a pixel on each side.
    area = (rectangles.width + 1) * (rectangles.height + 1)
    distance = area * unclip_ratio / (2 * (rectangles.width + rectangles.height) + 2)
    grown = rectangles._replace(width=rectangles.width + 2 * distance, height=rectangles.height + 2 * distance)
    return grown.corners()


def _round_half_away(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.copysign(np.floor(np.abs(values) + 0.5), values)
