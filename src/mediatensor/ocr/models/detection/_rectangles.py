"""Least-area rectangles around many regions at once.

A rectangle of least area has a side along an edge of the convex hull (H. Freeman and R. Shapira, "Determining the
minimum-area encasing rectangle for an arbitrary closed curve", 1975), so trying the hull's edges is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._regions import Regions

__all__ = ["Rectangles", "least_area_rectangles"]

# Regions whose edges are tried together: bounds the memory of a page, far above what speed needs.
_REGIONS_AT_ONCE = 2048


@dataclass(frozen=True)
class Rectangles:
    """Rectangles (N,) in pixel coordinates, where a whole number is the center of a pixel.

    Args:
        center: Centers (x, y), float64 (N, 2).
        axis: Unit vectors (x, y) along ``width``, float64 (N, 2).
        width: Extent along ``axis``, float64 (N,).
        height: Extent across it, float64 (N,).
    """

    center: NDArray[np.float64]
    axis: NDArray[np.float64]
    width: NDArray[np.float64]
    height: NDArray[np.float64]

    def grow(self, distance: NDArray[np.float64]) -> Rectangles:
        """Move every side outwards by ``distance`` (N,).

        These are also the least-area rectangles around the rectangles' outlines offset with round joins.
        """
        return Rectangles(self.center, self.axis, self.width + 2 * distance, self.height + 2 * distance)

    def corners(self) -> NDArray[np.float64]:
        """The corners (x, y), clockwise as seen, from the one nearest to the top left, float64 (N, 4, 2)."""
        along = self.axis * (self.width / 2)[:, None]
        across = np.stack([-self.axis[:, 1], self.axis[:, 0]], axis=1) * (self.height / 2)[:, None]
        offsets = np.stack([-along - across, along - across, along + across, across - along], axis=1)
        corners = self.center[:, None] + offsets
        first = corners.sum(axis=2).argmin(axis=1)
        ordered: NDArray[np.float64] = np.take_along_axis(corners, (first[:, None] + np.arange(4))[..., None] % 4, 1)
        return ordered


def least_area_rectangles(regions: Regions) -> Rectangles:
    """The least-area rectangle around the pixel centers of each region."""
    points, group = _hull_points(regions)
    pieces = [
        _try_hull_edges(points[inside], group[inside] - start)
        for start in range(0, len(regions), _REGIONS_AT_ONCE)
        for inside in [slice(*np.searchsorted(group, [start, start + _REGIONS_AT_ONCE]))]
    ]
    if not pieces:
        return Rectangles(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0), np.zeros(0))
    return Rectangles(
        np.concatenate([piece.center for piece in pieces]),
        np.concatenate([piece.axis for piece in pieces]),
        np.concatenate([piece.width for piece in pieces]),
        np.concatenate([piece.height for piece in pieces]),
    )


def _hull_points(regions: Regions) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points (P, 2) of the convex hulls, and the region (P,) of each: its left side from the top, then its right."""
    outline = regions.outline()
    # The left side is the mirror image of a right side. Interleaved so that a region's sides follow each other.
    side = np.concatenate([2 * outline.region, 2 * outline.region + 1])
    order = np.argsort(side, kind="stable")
    side = side[order]
    x = np.concatenate([-outline.left, outline.right])[order]
    y = np.concatenate([outline.row, outline.row])[order]
    while True:
        # A point on or inside the chord of its neighbours is no corner of the hull. A corner never is, whatever its
        # neighbours, so all that qualify can go together; what is left when none does is convex.
        step_x, step_y = np.diff(x), np.diff(y)
        keep = np.ones(len(x), dtype=bool)
        keep[1:-1] = (side[:-2] != side[2:]) | (step_x[:-1] * step_y[1:] - step_y[:-1] * step_x[1:] > 0)
        if keep.all():
            break
        x, y, side = x[keep], y[keep], side[keep]
    return np.stack([np.where(side % 2, x, -x), y], axis=1).astype(np.float64), side // 2


def _try_hull_edges(points: NDArray[np.float64], group: NDArray[np.int64]) -> Rectangles:
    """The least-area rectangle of each group of hull points (a left side, then a right side, each from the top)."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    counts = np.diff(starts, append=len(points))
    directions = np.diff(points, axis=0, append=points[:1])
    lengths = np.hypot(directions[:, 0], directions[:, 1])
    # The step to the right side, or to the next region, is no edge. In its place stands the horizontal, the direction
    # of the hull's top and bottom edges, which are not among the steps.
    no_edge = (directions[:, 1] <= 0) | (np.diff(group, append=-1) != 0)
    directions[no_edge], lengths[no_edge] = (1.0, 0.0), 1.0
    directions /= lengths[:, None]
    # Every direction meets every point of its region.
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
    # Rounded, so that of directions that are equal but for rounding errors the first wins everywhere.
    areas = np.round(sizes[:, 0] * sizes[:, 1], 6)
    best = np.lexsort((np.arange(len(points)), areas, group))[starts]
    middle, axis = (low[best] + high[best]) / 2, directions[best]
    center = np.stack(
        [axis[:, 0] * middle[:, 0] - axis[:, 1] * middle[:, 1], axis[:, 1] * middle[:, 0] + axis[:, 0] * middle[:, 1]],
        axis=1,
    )
    return Rectangles(center, axis, sizes[best, 0], sizes[best, 1])
