"""Train TableCenterNet: convert the true cells of tables to target maps and points, and compute the loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....errors import InvalidArgumentError
from ...utils.geometry import boxes_to_polygons

TableTarget = Sequence[Mapping[str, NDArray[Any]]]
"""For each image, ``cells``, relative (K, 4), or corners (K, 4, 2) clockwise from the top left; and ``logic``,
integers (K, 4): first and last column, first and last row, from 0.
"""

_CORNER_RADIUS = 2
_OVERLAP = 0.7
"""Overlap with the true cell that remains if the corners of a cell are off by the radius of a peak."""
_SMALL_NUMBER = 1e-4
_QUARTER_TURN = 1.570796

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


class TableTruth(NamedTuple):
    """Training targets for the tables of a batch: maps of h x w pixels, and the C cells and K corners of all tables.

    Cells and corners refer to pixels of the maps by image index, row and column. Offsets and vectors are pairs (x, y),
    in pixels of the maps.
    """

    heat: Tensor  # float32 (N, 2, h, w): 1 at centers and at corners, decreasing around them
    logical: Tensor  # float32 (N, 2, h, w): column and row coordinates inside cells, counted from 1
    known: Tensor  # bool (N, h, w): the pixels with known coordinates
    centers: Tensor  # (3, C): the pixel of each cell's center
    corners: Tensor  # (3, K): the pixel of each corner
    center_offsets: Tensor  # (C, 2)
    corner_offsets: Tensor  # (K, 2)
    ways: Tensor  # (C, 4, 2): vectors from the corners of each cell to its center
    # (K, 4, 2): vectors from the centers of up to four cells around a corner to the corner; 0 for missing cells
    back: Tensor
    corner_of: Tensor  # (C, 4): index of each cell's four corners among all corners
    spans: Tensor  # (C, 2): number of columns and rows of each cell
    quads: Tensor  # (3, C, 4): the pixels of each cell's corners


def draw_tables(target: TableTarget, size: tuple[int, int]) -> TableTruth:
    """Draw annotated cells into the maps that a network learns to predict. ``size`` is the maps' (height, width)."""
    drawings, corners_before = [], 0
    for index, table in enumerate(target):
        drawing = _draw_cells(*_check_table(table), size, index, corners_before)
        corners_before += drawing.corners.shape[1]
        drawings.append(drawing)
    joined = {}
    for name in TableTruth._fields:
        parts = [getattr(drawing, name) for drawing in drawings]
        joined[name] = torch.cat(parts, dim=1 if name in ("centers", "corners", "quads") else 0)
    return TableTruth(**joined)


def _check_table(table: Mapping[str, NDArray[Any]]) -> tuple[Floats, Indices]:
    cells, logic = np.asarray(table["cells"], dtype=np.float32), np.asarray(table["logic"], dtype=np.int64)
    if cells.size == 0:
        cells, logic = np.zeros((0, 4, 2), np.float32), logic.reshape(-1, 4)
    elif cells.ndim == 2 and cells.shape[1] == 4:
        cells = boxes_to_polygons(cells)
    if cells.ndim != 3 or cells.shape[1:] != (4, 2) or logic.shape != (len(cells), 4):
        raise InvalidArgumentError(
            f"cells of the shape {cells.shape} with logic of {logic.shape}: (K, 4) or (K, 4, 2) with (K, 4) is needed."
        )
    if not ((cells >= 0) & (cells <= 1)).all():
        raise InvalidArgumentError(f"cells from {cells.min()} to {cells.max()}: they are relative, in [0, 1].")
    return cells, logic


def _draw_cells(cells: Floats, logic: Indices, size: tuple[int, int], index: int, corners_before: int) -> TableTruth:
    height, width = size
    quads = (cells * np.array([width, height], np.float32)).clip(0, np.array([width - 1, height - 1], np.float32))
    low, high = quads.min(axis=1), quads.max(axis=1)
    has_area = (high > low).all(axis=1)
    quads, low, high, logic = quads[has_area], low[has_area], high[has_area], logic[has_area]
    centers = (low + high) / 2
    center_pixels, quad_pixels = centers.astype(np.int64), quads.astype(np.int64)
    ways = centers[:, None] - quads

    # Corners in the same pixel are merged.
    flat = quad_pixels.reshape(-1, 2)
    keys = flat[:, 1] * width + flat[:, 0]
    _, first, corner_of = np.unique(keys, return_index=True, return_inverse=True)
    corners, corner_of = flat[first], corner_of.reshape(-1, 4)
    back = np.zeros((len(corners), 4, 2), np.float32)
    # If two cells have, for example, their top left corner at the same position, the last cell is used.
    back[corner_of, np.tile(np.arange(4), (len(quads), 1))] = -ways

    heat = np.zeros((2, height, width), np.float32)
    for pixel, extent in zip(center_pixels, np.ceil(high - low), strict=True):
        _draw_peak(heat[0], pixel, int(_radius(*extent.tolist())))
    for pixel in corners:
        _draw_peak(heat[1], pixel, _CORNER_RADIUS)
    logical, known = _interpolate_cells(quads, logic, size)
    arrays = (
        heat[None],
        logical[None],
        known[None],
        np.stack([np.full(len(quads), index), center_pixels[:, 1], center_pixels[:, 0]]),
        np.stack([np.full(len(corners), index), corners[:, 1], corners[:, 0]]),
        centers - center_pixels,
        quads.reshape(-1, 2)[first] - corners,
        ways,
        back,
        corner_of + corners_before,
        (logic[:, 1::2] - logic[:, ::2] + 1).astype(np.float32),
        np.stack([np.full(quad_pixels.shape[:2], index), quad_pixels[..., 1], quad_pixels[..., 0]]),
    )
    floats = [array.astype(np.float32) if array.dtype == np.float64 else array for array in arrays]
    return TableTruth(*(torch.from_numpy(array) for array in floats))


def _radius(width: float, height: float) -> float:
    """Return how many pixels the corners of a box can move before its overlap with the original falls below `_OVERLAP`.

    See Law and Deng, "CornerNet", 2018, https://arxiv.org/abs/1808.01244. The quadratic equations are solved as in
    CornerNet's published code, which other implementations follow.
    """
    half, area = width + height, width * height
    cases = (
        (1, half, area * (1 - _OVERLAP) / (1 + _OVERLAP)),
        (4, 2 * half, area * (1 - _OVERLAP)),
        (4 * _OVERLAP, -2 * _OVERLAP * half, area * (_OVERLAP - 1)),
    )
    return max(0.0, min((b + math.sqrt(max(b * b - 4 * a * c, 0))) / 2 for a, b, c in cases))


def _draw_peak(heat: Floats, pixel: Indices, radius: int) -> None:
    """Draw a peak at ``pixel`` (x, y), a normal distribution within ``radius`` pixels; greater values are kept."""
    deviation = (2 * radius + 1) / 6
    top, left = max(pixel[1] - radius, 0), max(pixel[0] - radius, 0)
    part = heat[top : pixel[1] + radius + 1, left : pixel[0] + radius + 1]
    rows = np.arange(top, top + part.shape[0]) - pixel[1]
    columns = np.arange(left, left + part.shape[1]) - pixel[0]
    peak = np.exp(-(rows[:, None] ** 2 + columns**2) / (2 * deviation**2))
    np.maximum(part, peak, out=part, casting="same_kind")


def _interpolate_cells(quads: Floats, logic: Indices, size: tuple[int, int]) -> tuple[Floats, NDArray[np.bool_]]:
    """Interpolate columns and rows, from 1, between the corners of cells, smallest first; return a mask with them."""
    logical, known = np.zeros((2, *size), np.float32), np.zeros(size, bool)
    x, y = quads[..., 0].astype(np.float64), quads[..., 1].astype(np.float64)
    areas = abs((x * np.roll(y, -1, axis=1) - y * np.roll(x, -1, axis=1)).sum(axis=1))
    first_column, last_column, first_row, last_row = (logic + np.array([1, 2, 1, 2])).T
    columns = np.stack([first_column, last_column, last_column, first_column], axis=1)
    rows = np.stack([first_row, first_row, last_row, last_row], axis=1)
    for cell in np.argsort(areas, kind="stable"):
        quad = quads[cell].astype(np.float64)
        values = np.stack([columns[cell], rows[cell]]).astype(np.float64)
        for triangle in _triangles(quad):
            _fill_triangle(quad[triangle], values[:, triangle], logical, known)
    return logical, known


def _triangles(quad: NDArray[np.float64]) -> list[list[int]]:
    """Divide a quadrangle into triangles, and return the indices of each triangle's corners.

    A convex quadrangle is divided into two Delaunay triangles. Otherwise one corner lies inside the triangle that the
    other three form, and three triangles meet at this corner.
    """
    turns = [_cross(quad[corner - 1], quad[corner], quad[(corner + 1) % 4]) for corner in range(4)]
    if min(turns) * max(turns) < 0:
        odd = int(np.argmax(turns) if sum(turn > 0 for turn in turns) == 1 else np.argmin(turns))
        others = [corner for corner in range(4) if corner != odd]
        return [[odd, others[one], others[one - 1]] for one in range(3)]
    # The diagonal joins opposite corners whose angles add up to more than 180 degrees.
    angles = []
    for corner in (1, 3):
        one, other = quad[corner - 1] - quad[corner], quad[(corner + 1) % 4] - quad[corner]
        angles.append(math.atan2(abs(one[0] * other[1] - one[1] * other[0]), float(one @ other)))
    return [[0, 1, 2], [0, 2, 3]] if sum(angles) <= math.pi else [[0, 1, 3], [1, 2, 3]]


def _cross(before: NDArray[Any], at: NDArray[Any], after: NDArray[Any]) -> float:
    one, other = at - before, after - at
    return float(one[0] * other[1] - one[1] * other[0])


def _fill_triangle(
    corners: NDArray[np.float64], values: NDArray[np.float64], logical: Floats, known: NDArray[np.bool_]
) -> None:
    """Interpolate ``values`` (2, 3) at ``corners`` (3, 2) in a triangle of ``logical``, where not ``known`` yet."""
    left, top = np.floor(corners.min(axis=0)).astype(int)
    right, bottom = np.ceil(corners.max(axis=0)).astype(int)
    edges = np.stack([corners[1] - corners[0], corners[2] - corners[0]], axis=1)
    if abs(np.linalg.det(edges)) < 1e-12:
        return
    part = (slice(max(top, 0), bottom + 1), slice(max(left, 0), right + 1))
    target, seen = logical[:, part[0], part[1]], known[part]
    down, across = np.mgrid[
        part[0].start : part[0].start + seen.shape[0], part[1].start : part[1].start + seen.shape[1]
    ]
    second, third = np.tensordot(np.linalg.inv(edges), np.stack([across - corners[0, 0], down - corners[0, 1]]), 1)
    weights = np.stack([1 - second - third, second, third])
    new = (weights >= -1e-9).all(axis=0) & ~seen
    target[:, new] = values @ weights[:, new]
    seen |= new


def table_loss(maps: Mapping[str, Tensor], truth: TableTruth) -> Tensor:
    """Return the training loss of TableCenterNet (https://arxiv.org/abs/2504.17522) for the maps that it predicts."""
    maps = {name: values.float() for name, values in maps.items()}
    truth = TableTruth(*(part.to(maps["hm"].device) for part in truth))
    return (
        _heat_loss(maps["hm"], truth.heat) + _place_loss(maps, truth) + _way_loss(maps, truth) + _span_loss(maps, truth)
    )


def _take_pixels(values: Tensor, pixels: Tensor) -> Tensor:
    """Return ``values`` (N, C, h, w) at ``pixels`` (3, ...), which are image indices, rows and columns: (..., C)."""
    return values[pixels[0], :, pixels[1], pixels[2]]


def _heat_loss(logits: Tensor, heat: Tensor) -> Tensor:
    """Return the focal loss of centers and corners (Law and Deng, 2018). Pixels close to one count less."""
    probability = logits.sigmoid().clamp(_SMALL_NUMBER, 1 - _SMALL_NUMBER)
    is_point = heat == 1
    found = torch.where(is_point, (1 - probability) ** 2 * probability.log(), 0)
    rest = torch.where(is_point, 0, (1 - heat) ** 4 * probability**2 * (1 - probability).log())
    return -(found.sum() + rest.sum()) / is_point.sum().clamp(min=1)


def _place_loss(maps: Mapping[str, Tensor], truth: TableTruth) -> Tensor:
    """Return the mean error of the subpixel offsets that are predicted for centers and corners."""
    found = torch.cat([_take_pixels(maps["reg"], truth.centers), _take_pixels(maps["reg"], truth.corners)])
    wanted = torch.cat([truth.center_offsets, truth.corner_offsets])
    return (found - wanted).abs().sum() / (wanted.numel() + _SMALL_NUMBER)


def _way_loss(maps: Mapping[str, Tensor], truth: TableTruth) -> Tensor:
    """Return the error of vectors between corners and centers; pairs that are nearly right both ways count less."""
    there = _take_pixels(maps["ct2cn"], truth.centers).reshape(-1, 4, 2)
    all_back = _take_pixels(maps["cn2ct"], truth.corners).reshape(-1, 4, 2)
    position = torch.arange(4, device=there.device)
    back, wanted_back = all_back[truth.corner_of, position], truth.back[truth.corner_of, position]
    wrong_there, wrong_back = (there - truth.ways).abs(), (back - wanted_back).abs()
    weight = _ease_errors((wrong_there + wrong_back) / (truth.ways.abs() + _SMALL_NUMBER))
    pairs = ((wrong_there + wrong_back / 2) * weight).sum() / (truth.ways.numel() + _SMALL_NUMBER)
    # The target of vectors to missing cells is 0; components of length 0 are treated in the same way.
    unused = truth.back == 0
    return pairs + 0.2 * (all_back.abs() * unused).sum() / (unused.sum() + _SMALL_NUMBER)


def _span_loss(maps: Mapping[str, Tensor], truth: TableTruth) -> Tensor:
    """Return the error of the predicted column and row coordinates, and of the number of columns and rows of each cell.

    The number of columns and rows is compared with the truth twice: as predicted directly, and as the difference of the
    predicted coordinates at the corners of each cell.
    """
    nearly = (1 - (truth.logical - truth.logical.round()).abs()) ** 2
    wrong = ((maps["lc"] - truth.logical).abs() * nearly * truth.known[:, None]).sum()
    inside = wrong / (2 * truth.known.sum() + _SMALL_NUMBER)

    corners, spans = _take_pixels(maps["lc"], truth.quads), _take_pixels(maps["sp"], truth.centers)
    across = corners[:, [1, 2], 0] - corners[:, [0, 3], 0]
    down = corners[:, [3, 2], 1] - corners[:, [0, 1], 1]
    between = torch.stack([across, down], dim=1)
    wanted, said = truth.spans[..., None], spans[..., None]
    wrong_between = (between - wanted).abs()
    weight = _ease_errors(5 * ((said - wanted).abs() + wrong_between))
    number = 2 * len(spans) + _SMALL_NUMBER
    wrong_spans = (spans - truth.spans).abs() * weight.mean(dim=-1)
    return inside + (wrong_between * weight).sum() / number + wrong_spans.sum() / number


def _ease_errors(error: Tensor) -> Tensor:
    return torch.sin(_QUARTER_TURN * error.clamp(max=1))
