"""Rotate pages upright, and convert boxes between the original and the upright page.

Boxes have relative coordinates, and are converted with matrices. Angles are clockwise, as in docTR: a page turned by 90
degrees is rotated counter-clockwise by 90 degrees to make it upright.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import grid_sample

from ....errors import InvalidArgumentError
from ...utils._page_images import Matrix, rotation, translation
from ...utils.geometry import boxes_around, boxes_to_polygons, compute_expanded_shape

# The output is sampled in tiles of this side length, so that the whole page is never converted to floats.
_TILE = 1024
# Larger pages are rejected; 20,000 by 20,000 pixels, rotated by 45 degrees, are still accepted.
_MAX_PIXELS = 1 << 30
# Angles are taken modulo a quarter turn, so axes such as 89 and -89 degrees are close to each other.
_QUARTER = 90.0
_EVEN = 1e-9


@dataclass(frozen=True, slots=True)
class Straightening:
    """The transform that makes a page upright.

    The matrix ``forward`` converts points (x, y, 1) on the page to points on the upright page, and ``back`` does the
    reverse. Coordinates are fractions of width and height.
    """

    angle: float  # the clockwise turn of the page in degrees
    page_shape: tuple[int, int]  # height and width in pixels
    shape: tuple[int, int]  # height and width of the upright page
    forward: Matrix
    back: Matrix


def plan_straightening(page_shape: tuple[int, int], angle: float) -> Straightening:
    """Compute the transform that makes a page upright, if the page is turned clockwise by ``angle`` degrees.

    The upright page is large enough for the whole rotated page.

    >>> plan = plan_straightening((100, 200), 90)
    >>> plan.shape
    (200, 100)
    >>> (plan.forward @ [1.0, 0.0, 1.0]).tolist()  # top right of a page turned clockwise: top left of the upright one
    [0.0, 0.0, 1.0]
    """
    # The tolerance prevents rounding errors of sines from adding a pixel.
    rows, columns = (int(np.ceil(side - 1e-6)) for side in compute_expanded_shape(page_shape, angle))
    if rows * columns > _MAX_PIXELS:
        raise InvalidArgumentError(f"the upright page would have {columns} x {rows} pixels, more than {_MAX_PIXELS}")
    upright = (rows, columns)
    forward, back = _turn_matrix(angle, page_shape, upright), _turn_matrix(-angle, upright, page_shape)
    return Straightening(float(angle), page_shape, upright, forward, back)


def _turn_matrix(angle: float, start: tuple[int, int], end: tuple[int, int]) -> Matrix:
    """Return the matrix (3, 3) that rotates a page counter-clockwise by ``angle`` degrees around its center.

    It converts relative points on a page of shape ``start`` to relative points on a page of shape ``end``.
    """
    (height, width), (rows, columns) = start, end
    return (
        np.diag([1 / columns, 1 / rows, 1.0])
        @ translation(columns / 2, rows / 2)
        @ rotation(angle)
        @ translation(-width / 2, -height / 2)
        @ np.diag([width, height, 1.0])
    )


def map_boxes(boxes: np.ndarray, matrix: Matrix) -> np.ndarray:
    """Convert relative boxes with the matrix ``forward`` or ``back`` of a `Straightening`, and clip them to [0, 1].

    A straight box (N, 4) becomes the straight box that encloses its four converted corners. Quads (N, P, 2) keep the
    order of their corners, so that the first corner is still where the text starts.
    """
    if boxes.ndim == 2:
        mapped = map_boxes(boxes_to_polygons(boxes), matrix)
        return boxes_around(mapped)
    points: np.ndarray = boxes @ matrix[:2, :2].T + matrix[:2, 2]
    return points.clip(0, 1)


def straighten(page: torch.Tensor, plan: Straightening) -> torch.Tensor:
    """Rotate a page (C, H, W) upright; the result has the same dtype and device.

    Parts of the upright page that are outside the original page are black. Rotations by multiples of 90 degrees are
    exact. Other rotations use bilinear interpolation.
    """
    if plan.angle % 90 == 0:
        return torch.rot90(page, int(plan.angle // 90) % 4, (1, 2)).contiguous()
    upright = page.new_zeros((len(page), *plan.shape))
    rows, columns = plan.shape
    height, width = plan.page_shape
    pixels_back = np.diag([width, height, 1.0]) @ plan.back @ np.diag([1 / columns, 1 / rows, 1.0])
    for vertical, horizontal in _tiles(rows, columns):
        tile_back = pixels_back @ translation(horizontal.start, vertical.start)
        _sample(upright[:, vertical, horizontal], page, tile_back)
    return upright


def _tiles(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    for top in range(0, rows, _TILE):
        for left in range(0, columns, _TILE):
            yield slice(top, min(top + _TILE, rows)), slice(left, min(left + _TILE, columns))


def _sample(tile: torch.Tensor, page: torch.Tensor, matrix: Matrix) -> None:
    """Compute the pixels of one tile of the upright page; ``matrix`` maps pixels of the tile to pixels of ``page``."""
    rows, columns = tile.shape[1:]
    ends = matrix[:2, :2] @ np.array([[0, columns, 0, columns], [0, 0, rows, rows]]) + matrix[:2, 2:]
    left, top = (max(int(np.floor(low)) - 1, 0) for low in ends.min(axis=1))
    right = min(int(np.ceil(ends[0].max())) + 1, page.shape[2])
    bottom = min(int(np.ceil(ends[1].max())) + 1, page.shape[1])
    if left >= right or top >= bottom:
        return
    precision = torch.float64 if page.dtype == torch.float64 else torch.float32
    part = page[:, top:bottom, left:right].to(precision)
    x = torch.arange(columns, device=page.device, dtype=precision) + 0.5
    y = (torch.arange(rows, device=page.device, dtype=precision) + 0.5)[:, None]
    # Coordinates are relative to the part, because float32 has few bits for fractions of pixels far from the origin.
    (xx, xy, across), (yx, yy, down) = (translation(-left, -top) @ matrix)[:2].tolist()
    source_x = xx * x + xy * y + across
    source_y = yx * x + yy * y + down
    grid = torch.stack([2 * source_x / (right - left) - 1, 2 * source_y / (bottom - top) - 1], dim=-1)
    sampled = grid_sample(part[None], grid[None], padding_mode="zeros", align_corners=False)[0]
    tile.copy_(sampled if page.is_floating_point() else sampled.round_().clamp_(0, 255))


def estimate_page_skew(quads: np.ndarray, page_shape: tuple[int, int]) -> float:
    """Estimate by how many degrees the lines of a page are tilted clockwise, in [-45, 45).

    The result is the median angle of the long sides of the lines, weighted by their length, or 0.0 if there are no
    lines. A vertical line counts like a horizontal line: its tilt is measured from the vertical.

    >>> import numpy as np
    >>> quad = np.array([[[0.1, 0.10], [0.9, 0.17], [0.9, 0.22], [0.1, 0.15]]])
    >>> round(estimate_page_skew(quad, page_shape=(100, 100)), 2)
    5.0

    ``quads`` (N, 4, 2) are the lines, relative to a page of ``page_shape`` (height, width).
    """
    corners = (quads * np.array([page_shape[1], page_shape[0]])).astype(np.float64)
    first = (corners[:, 1] + corners[:, 2] - corners[:, 0] - corners[:, 3]) / 2
    second = (corners[:, 3] + corners[:, 2] - corners[:, 0] - corners[:, 1]) / 2
    is_first_longer = np.hypot(*first.T) >= np.hypot(*second.T)
    sides = np.where(is_first_longer[:, None], first, second)
    return _median_angle(np.degrees(np.arctan2(sides[:, 1], sides[:, 0])), np.hypot(sides[:, 0], sides[:, 1]))


def _median_angle(angles: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted median of angles in degrees, in [-45, 45).

    Angles that differ by 90 degrees count as equal, so 44 and -44 degrees are only 2 degrees apart. Therefore the
    median is computed relative to the mean direction. If no weight is positive, the result is 0.0.
    """
    kept = weights > 0
    angles, weights = angles[kept], weights[kept]
    if len(angles) == 0:
        return 0.0
    turns = np.radians(angles * 360 / _QUARTER)
    mean = np.degrees(np.arctan2((weights * np.sin(turns)).sum(), (weights * np.cos(turns)).sum())) * _QUARTER / 360
    offsets = (angles - mean + _QUARTER / 2) % _QUARTER - _QUARTER / 2
    order = np.argsort(offsets, kind="stable")
    reached = np.cumsum(weights[order])
    # The two middle elements are equal unless the weights divide evenly, up to rounding errors.
    first, last = np.searchsorted(reached, reached[-1] * np.array([0.5 - _EVEN, 0.5 + _EVEN]))
    lower, upper = offsets[order[first]], offsets[order[last]]
    return float((mean + (lower + upper) / 2 + _QUARTER / 2) % _QUARTER - _QUARTER / 2)
