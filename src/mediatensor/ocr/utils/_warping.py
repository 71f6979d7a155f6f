"""Resampling an array through an affine or perspective matrix, with torch alone.

Coordinates are continuous: pixel (column i, row j) covers [i, i + 1) x [j, j + 1), its centre is at (i + 0.5, j + 0.5).
A turn by a multiple of 90 degrees about the middle of an image is exact in these coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import grid_sample

from ...errors import InvalidArgumentError

__all__ = ["between_pixel_centers", "quad_to_quad", "rotation", "translation", "warp"]

# Outputs are made in tiles of this side, so that a page is never held as floats in one piece.
_TILE = 1024
# Of one output; a page of 20,000 x 20,000 pixels still fits.
_MAX_PIXELS = 1 << 29

Matrix = NDArray[np.float64]


def translation(x: float, y: float) -> Matrix:
    """The (3, 3) matrix that moves a point by (x, y)."""
    return np.array([[1.0, 0.0, x], [0.0, 1.0, y], [0.0, 0.0, 1.0]])


def rotation(angle: float) -> Matrix:
    """The (3, 3) matrix that turns a point counter-clockwise as seen on screen (y points down), about the origin.

    Args:
        angle: Degrees; multiples of 90 give exact zeros and ones.
    """
    quarters, rest = divmod(angle, 90.0)
    if rest == 0.0:
        cosine, sine = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)][int(quarters) % 4]
    else:
        radians = np.deg2rad(angle)
        cosine, sine = float(np.cos(radians)), float(np.sin(radians))
    return np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])


def between_pixel_centers(matrix: Matrix) -> Matrix:
    """A matrix that maps pixel indices (centre of the first pixel at 0), in continuous coordinates."""
    return translation(0.5, 0.5) @ matrix @ translation(-0.5, -0.5)


def quad_to_quad(source: NDArray[np.float64], target: NDArray[np.float64]) -> Matrix | None:
    """The perspective matrix (3, 3) that maps four points on four others.

    Args:
        source: Points of shape (4, 2).
        target: Their images, of shape (4, 2).

    Returns:
        The matrix, or ``None`` if there is none, because three of the points lie on one line.
    """
    x, y = source.T
    ones, zeros = np.ones(4), np.zeros(4)
    equations = np.concatenate(
        [
            np.stack([x, y, ones, zeros, zeros, zeros, -x * target[:, 0], -y * target[:, 0]], axis=1),
            np.stack([zeros, zeros, zeros, x, y, ones, -x * target[:, 1], -y * target[:, 1]], axis=1),
        ]
    )
    try:
        solution = np.linalg.solve(equations, target.T.reshape(-1))
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(solution).all():
        return None
    return np.append(solution, 1.0).reshape(3, 3)


def warp(image: NDArray[np.generic], matrix: Matrix, size: tuple[int, int]) -> NDArray[np.generic]:
    """Resample an image bilinearly; what lies outside of it is 0.

    Args:
        image: Array (H, W) or (H, W, C) of any real dtype.
        matrix: (3, 3), from points (x, y, 1) of the output to points of the image, both in continuous coordinates.
        size: Height and width of the output, in pixels.

    Returns:
        Array (height, width) or (height, width, C) of the image's dtype; integers are rounded.

    Raises:
        InvalidArgumentError: if the output would have more than 2^29 pixels.
    """
    height, width = size
    if height * width > _MAX_PIXELS:
        raise InvalidArgumentError(f"an output of {width} x {height} pixels is larger than {_MAX_PIXELS} pixels")
    output = np.zeros((height, width, *image.shape[2:]), dtype=image.dtype)
    if 0 in image.shape:
        return output
    for rows, columns in _tiles(height, width):
        _fill(output[rows, columns], image, matrix @ translation(columns.start, rows.start))
    return output


def _tiles(height: int, width: int) -> Iterator[tuple[slice, slice]]:
    for top in range(0, height, _TILE):
        for left in range(0, width, _TILE):
            yield slice(top, min(top + _TILE, height)), slice(left, min(left + _TILE, width))


def _fill(tile: NDArray[np.generic], image: NDArray[np.generic], matrix: Matrix) -> None:
    """Write one tile, from the part of the image that it shows."""
    source_x, source_y = _sources(matrix, tile.shape[0], tile.shape[1])
    # Beyond the border by more than a pixel everything is 0: no need to know by how much.
    np.clip(source_x, -2.0, image.shape[1] + 2.0, out=source_x)
    np.clip(source_y, -2.0, image.shape[0] + 2.0, out=source_y)
    left, right = _span(source_x, image.shape[1])
    top, bottom = _span(source_y, image.shape[0])
    if left >= right or top >= bottom:
        return
    part = np.ascontiguousarray(image[top:bottom, left:right])
    part = part.reshape(*part.shape[:2], -1)
    precision = np.float64 if image.dtype == np.float64 else np.float32
    # What the sampler calls -1 and 1 are the outer edges of the part.
    grid = np.empty((*source_x.shape, 2), dtype=precision)
    grid[..., 0] = (source_x - left) * (2.0 / (right - left)) - 1.0
    grid[..., 1] = (source_y - top) * (2.0 / (bottom - top)) - 1.0
    pixels = torch.from_numpy(part.astype(precision)).permute(2, 0, 1)[None]
    sampled = grid_sample(
        pixels,
        torch.from_numpy(grid)[None],
        mode="bilinear",
        padding_mode="zeros",
        align_corners=False,
    )
    values = sampled[0].permute(1, 2, 0).numpy().reshape(tile.shape)
    tile[...] = _to_dtype(values, image.dtype)


def _sources(matrix: Matrix, height: int, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the centres of the pixels of an output come from: x and y, (height, width) each."""
    x, y = np.arange(width)[None, :] + 0.5, np.arange(height)[:, None] + 0.5
    across: NDArray[np.float64] = (matrix[0, 0] * x + matrix[0, 2]) + matrix[0, 1] * y
    down: NDArray[np.float64] = (matrix[1, 0] * x + matrix[1, 2]) + matrix[1, 1] * y
    if matrix[2, 0] == matrix[2, 1] == 0:
        return across / matrix[2, 2], down / matrix[2, 2]
    depth = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2]
    # On the horizon of a perspective there is nothing.
    beyond = depth == 0
    depth[beyond] = 1.0
    across[beyond] = down[beyond] = -2.0
    return across / depth, down / depth


def _span(positions: NDArray[np.float64], size: int) -> tuple[int, int]:
    """The range of pixels that bilinear sampling at these positions reads."""
    return max(int(np.floor(positions.min())) - 1, 0), min(int(np.ceil(positions.max())) + 1, size)


def _to_dtype(values: NDArray[np.floating], dtype: np.dtype) -> NDArray[np.generic]:
    if dtype == np.bool_:
        return values >= 0.5
    if np.issubdtype(dtype, np.integer):
        # A mean of values of the type lies between them: rounding cannot leave its range.
        values = np.rint(values)
    return values.astype(dtype)
