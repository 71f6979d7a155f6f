"""Handle quads (quadrangles) around lines and words, crop many lines of a page at once, and rotate pages upright.

A quad is the four corners (4, 2) of a text, clockwise on the page, starting at the top left corner of the text.
Coordinates are in fractions of the page's width and height unless pixels are mentioned.

Boxes are converted between the original and the upright page with matrices. Angles are clockwise, as in docTR: a page
turned by 90 degrees is rotated counter-clockwise by 90 degrees to make it upright.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from ....errors import InvalidArgumentError
from ...utils._page_images import Matrix, compute_expanded_shape, rotation, translation
from ...utils.geometry import boxes_around, boxes_to_polygons
from .._networks.preprocessing import to_float
from .._networks.transfers import constant, upload

FloatArray = npt.NDArray[np.float64]
WHOLE_CROP = np.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]])
"""The quad of an image that consists of one line."""
LINES_IN_VOTE = 16
"""Number of lines that vote on the turn of a page; the longest ones are chosen."""
TALL_RATIO = 1.5
"""Lines with at least this ratio of height to width are rotated before they are read, as in PP-OCR."""
MAX_FLOAT_PIXELS = 32_000_000
"""Larger pages are not converted to floats as a whole (384 MB); their lines are cropped one by one."""
MAX_BATCH_PIXELS = {"cpu": 48 * 4_096, "": 48 * 32_768}
"""Limit on the pixels of a batch of lines, by device type (``""`` for other devices), to bound the memory of
activations.

Small batches are efficient on a CPU core; other devices are faster with large batches.
"""
MAX_OVERSAMPLING = 8

# An upright page is sampled in tiles of this side length, so that the whole page is never converted to floats.
_TILE = 1024
# Larger pages are rejected; 20,000 by 20,000 pixels, rotated by 45 degrees, are still accepted.
_MAX_PIXELS = 1 << 30
# Angles are taken modulo a quarter turn, so axes such as 89 and -89 degrees are close to each other.
_QUARTER = 90.0
_EVEN = 1e-9


def as_quads(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Convert boxes with scores, upright (N, 5) or rotated (N, 5, 2), to quads (N, 4, 2) without scores."""
    quads: npt.NDArray[np.floating] = boxes_to_polygons(boxes[:, :4]) if boxes.ndim == 2 else boxes[:, :4]
    return quads.astype(np.float64)


def scores_of(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    return boxes[:, 4] if boxes.ndim == 2 else boxes[:, 4, 1]


def page_quads(boxes: Mapping[str, npt.NDArray[np.floating]]) -> npt.NDArray[np.float64]:
    """Return the quads (N, 4, 2) of all classes as one array; ``boxes`` are as for `as_quads`, by class."""
    return np.concatenate([as_quads(found) for found in boxes.values()])


def place_boxes(line: FloatArray, boxes: npt.NDArray[np.floating]) -> FloatArray:
    """Convert boxes (N, 4), in fractions of the quad ``line``, to quads (N, 4, 2) on the page, clipped to [0, 1]."""
    along, down = line[1] - line[0], line[3] - line[0]
    x, y = boxes[:, [0, 2, 2, 0]], boxes[:, [1, 1, 3, 3]]
    placed: FloatArray = line[0] + x[..., None] * along + y[..., None] * down
    return placed.clip(0, 1)


def scale_to_pixels(quads: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Convert quads (N, 4, 2) from fractions of a page to pixels. ``shape`` is its (height, width)."""
    scaled: FloatArray = quads * np.array([shape[1], shape[0]], dtype=np.float64)
    return scaled


def line_sizes(quads: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the widths and heights (N,) of quads (N, 4, 2) that start with their top, as means of opposite sides."""
    quads = np.asarray(quads, dtype=np.float64)
    sides = np.linalg.norm(np.roll(quads, -1, axis=1) - quads, axis=2)
    return (sides[:, 0] + sides[:, 2]) / 2, (sides[:, 1] + sides[:, 3]) / 2


def side_lengths(quads: np.ndarray, page_shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths (N,) in pixels of the two sides of quads (N, 4, 2) that meet at the first corner."""
    points = quads * np.array([page_shape[1], page_shape[0]], dtype=np.float64)
    rights, downs = points[:, 1] - points[:, 0], points[:, 3] - points[:, 0]
    return np.hypot(rights[:, 0], rights[:, 1]), np.hypot(downs[:, 0], downs[:, 1])


def lines_are_tall(quads: np.ndarray, page_shape: tuple[int, int]) -> np.ndarray:
    """Return for each quad (N, 4, 2) whether the line is so tall that it must be turned by 90 degrees to be read."""
    widths, heights = side_lengths(quads, page_shape)
    tall: np.ndarray = heights >= TALL_RATIO * widths
    return tall


def longest_lines(quads: npt.NDArray[np.float64], page_shape: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Return the indices of the longest lines. These lines, at most `LINES_IN_VOTE`, vote on the page's turn."""
    points = quads * (page_shape[1], page_shape[0])
    lengths = np.linalg.norm(points - np.roll(points, 1, axis=1), axis=2).max(axis=1, initial=0.0)
    chosen: npt.NDArray[np.int64] = np.sort(np.argsort(-lengths, kind="stable")[:LINES_IN_VOTE])
    return chosen


def turn_quads(quads: npt.NDArray[np.float64], turns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Reorder the corners of quads (N, 4, 2) so that each starts at the corner where the text starts.

    The corners must be clockwise on the page. ``turns`` (N,) are the rotations of the texts in degrees clockwise,
    multiples of 90. A text that is turned by 90 degrees, for example, starts at its top right corner.
    """
    places = (np.arange(4)[None] + (turns // 90)[:, None]) % 4
    return np.take_along_axis(quads, places[..., None], axis=1)


def signed_turn(turn: int) -> int:
    """Convert a turn in degrees from [0, 360) to the form that docTR uses: 0, 90, 180 or -90."""
    return turn - 360 if turn > 180 else turn


@dataclass(frozen=True)
class LineBatch:
    """A batch of line images, all padded to the same width."""

    data: Tensor  # (N, 3, height, padded width), RGB in [0, 1]; the padding after each line is NaN
    indices: list[int]  # the index of each line among the lines of the page
    widths: list[int]  # the width of each line in columns, without padding


def padded_width(width: int) -> int:
    """Return the width to which the image of a line with ``width`` columns is padded before it is read.

    The result depends only on ``width``, so a line is always read in the same way, whichever other lines are in its
    batch. Widths are rounded up in steps that grow with the width, to limit the number of different shapes. Padding
    adds less than a quarter of the width, except for lines of at most 128 columns, which are padded to a multiple of
    32.
    """
    step = max(32, 1 << max(max(width - 1, 1).bit_length() - 3, 0))
    return -(-width // step) * step


def cut_lines(page: Tensor, quads: npt.NDArray[np.floating], height: int, max_width: int) -> Iterator[LineBatch]:
    """Crop lines from a page, and yield them in batches. See `line_cuts` for the arguments."""
    return (cut() for cut in line_cuts(page, quads, height, max_width))


def line_cuts(
    page: Tensor, quads: npt.NDArray[np.floating], height: int, max_width: int
) -> list[Callable[[], LineBatch]]:
    """Divide the lines of a page into batches, and return a function for each batch that crops its lines.

    The functions can be called in any thread. The lines of a batch are padded to the same width. ``page`` is (3, H, W),
    uint8 or floats in [0, 1]. ``quads`` (N, 4, 2) are in pixels, from the top left of the text. Lines become ``height``
    pixels high. Lines that would be wider than ``max_width`` are compressed to it.
    """
    cuts = _plan_cuts(page, np.asarray(quads, dtype=np.float64), height, max_width)
    if not cuts:
        return []
    # All spans are uploaded in one transfer.
    spans = upload(np.concatenate([cut.spans for cut in cuts]).astype(np.float32), page.device)
    whole = to_float(page) if cuts[0].part is page else None

    def sample(cut: _Cut, own: Tensor) -> LineBatch:
        picture = to_float(cut.part) if whole is None else whole
        lines = _sample(picture, own, height, cut.padded, cut.factor)
        return LineBatch(lines, cut.indices, [int(width) for width in cut.spans[:, 8]])

    parts = torch.split(spans, [len(cut.indices) for cut in cuts])
    return [partial(sample, cut, own) for cut, own in zip(cuts, parts, strict=True)]


@dataclass(frozen=True)
class _Cut:
    """Lines that are cropped together, at ``factor`` times the resolution of the result, and then averaged down."""

    indices: list[int]
    padded: int  # the width after padding
    factor: int
    part: Tensor  # the part of the page that contains the lines, or the whole page
    spans: FloatArray


def _plan_cuts(page: Tensor, quads: FloatArray, height: int, max_width: int) -> list[_Cut]:
    widths, heights = line_sizes(quads)
    targets = np.clip(np.ceil(height * widths / np.maximum(heights, 1e-6)), 8, max_width).astype(int)
    factors = np.clip(np.ceil(heights / height - 0.3), 1, MAX_OVERSAMPLING).astype(int)
    most = MAX_BATCH_PIXELS.get(page.device.type, MAX_BATCH_PIXELS[""])
    groups: dict[tuple[int, int], list[int]] = {}
    for index in range(len(quads)):
        groups.setdefault((padded_width(int(targets[index])), int(factors[index])), []).append(index)
    at_once = len(quads) if page.shape[1] * page.shape[2] <= MAX_FLOAT_PIXELS else 1
    cuts = []
    for (padded, factor), members in sorted(groups.items()):
        size = max(1, min(at_once, most // (height * padded)))
        for start in range(0, len(members), size):
            chosen = members[start : start + size]
            part, corner = (page, np.zeros(2)) if at_once > 1 else page_part(page, quads[chosen])
            cuts.append(_Cut(chosen, padded, factor, part, spans_of(part, quads[chosen] - corner, targets[chosen])))
    return cuts


def network_input(lines: Tensor, mean: Sequence[float], std: Sequence[float], like: Tensor) -> Tensor:
    """Convert line images (N, 3, H, W) from RGB to normalised BGR, in dtype and device like ``like``; NaN becomes 0."""
    offset, scale = (constant(tuple(values), lines.device).view(1, 3, 1, 1) for values in (mean, std))
    return ((lines.flip(1) - offset) / scale).nan_to_num_(0.0).to(device=like.device, dtype=like.dtype)


def page_part(page: Tensor, corners: npt.NDArray[np.floating]) -> tuple[Tensor, npt.NDArray[np.float64]]:
    """Return the part of a page around ``corners``, with a margin, and the (x, y) of its top left corner, in pixels."""
    first = np.clip(np.floor(corners.min((0, 1))).astype(int) - 1, 0, [page.shape[2] - 1, page.shape[1] - 1])
    last = np.maximum(np.ceil(corners.max((0, 1))).astype(int) + 2, first + 1)
    return page[:, first[1] : last[1], first[0] : last[0]], first.astype(np.float64)


def _sample(picture: Tensor, spans: Tensor, height: int, padded: int, factor: int) -> Tensor:
    """Crop lines from ``picture``, and return them as (N, 3, height, padded), with NaN after each line."""
    rows, columns = height * factor, padded * factor
    grid = sampling_grid(spans, rows, columns, factor).reshape(1, len(spans) * rows, columns, 2)
    sampled = F.grid_sample(picture[None], grid, padding_mode="border", align_corners=False)[0]
    lines = sampled.view(3, len(spans), rows, columns).transpose(0, 1)
    if factor > 1:
        lines = F.avg_pool2d(lines, factor)
    outside = torch.arange(padded, device=spans.device)[None] >= spans[:, 8:9]
    return lines.masked_fill(outside[:, None, None], torch.nan)


def spans_of(picture: Tensor, corners: npt.NDArray[np.floating], widths: npt.ArrayLike) -> FloatArray:
    """Return (N, 11): for each line its four corners, its width in columns, and the width and height of ``picture``.

    These numbers are all that the device needs to compute where to sample. ``corners`` (N, 4, 2) are in pixels of
    ``picture`` (3, H, W). Each line is treated as the parallelogram that its first, second and last corners define.
    """
    size = np.broadcast_to(np.array([picture.shape[2], picture.shape[1]], dtype=np.float64), (len(corners), 2))
    columns = np.asarray(widths, dtype=np.float64).reshape(-1, 1)
    return np.concatenate([corners.reshape(-1, 8).astype(np.float64), columns, size], axis=1)


def sampling_grid(spans: Tensor, rows: int, columns: int, factor: int = 1) -> Tensor:
    """Return where to sample each pixel of the lines, (N, rows, columns, 2), in the coordinates of ``grid_sample``.

    ``spans`` are the result of `spans_of`, as float32 on the page's device. ``factor`` samples are taken for each
    column of a line.
    """
    device = spans.device
    points, size = spans[:, :8].view(-1, 4, 2), spans[:, None, None, 9:11]
    down = (torch.arange(rows, device=device) + 0.5) / rows
    along = (torch.arange(columns, device=device) + 0.5)[None] / (spans[:, 8:9] * factor)
    origin, right, below = points[:, 0], points[:, 1] - points[:, 0], points[:, 3] - points[:, 0]
    grid = (
        origin[:, None, None]
        + along[:, None, :, None] * right[:, None, None]
        + down[None, :, None, None] * below[:, None, None]
    )
    return grid * 2 / size - 1


def cut_words(
    page: Tensor, boxes: npt.NDArray[np.floating], beyond: Literal["zeros", "border"] = "zeros"
) -> list[Tensor | None]:
    """Crop boxes from a page at its original resolution, on its device.

    ``page`` is (3, H, W), uint8 or floats in [0, 1]. Upright boxes are (N, 4), with their last row and column, and
    quads (N, 4, 2), from the top left of the text; both are in fractions of the page. The part of a quad that is
    outside the page is filled with black, as in docTR, or, if ``beyond`` is ``"border"``, with the nearest pixel of the
    page.

    For each box, the result has a tensor (3, h, w) of the page's dtype, or ``None`` if the box contains no pixels.
    """
    height, width = page.shape[1:]
    if boxes.ndim == 3:
        return _cut_quads(page, boxes * (width, height), beyond)
    pixels = np.round(boxes[:, :4] * (width, height, width, height)).astype(np.int64)
    pixels = (pixels + np.array([0, 0, 1, 1])).clip(0, (width, height, width, height))
    return [
        page[:, top:bottom, left:right] if bottom > top and right > left else None
        for left, top, right, bottom in pixels.tolist()
    ]


def _cut_quads(page: Tensor, quads: npt.NDArray[np.floating], beyond: str) -> list[Tensor | None]:
    widths, heights = (sizes.astype(int).tolist() for sizes in line_sizes(quads))
    crops: list[Tensor | None] = [None] * len(quads)
    kept = [index for index in range(len(quads)) if widths[index] >= 1 and heights[index] >= 1]
    if not kept:
        return crops
    parts = [page_part(page, quads[[index]]) for index in kept]
    lines = [
        spans_of(part, quads[[index]] - corner, widths[index])
        for index, (part, corner) in zip(kept, parts, strict=True)
    ]
    spans = upload(np.concatenate(lines).astype(np.float32), page.device)
    for place, (index, (part, _)) in enumerate(zip(kept, parts, strict=True)):
        grid = sampling_grid(spans[place : place + 1], heights[index], widths[index])
        crop = F.grid_sample(to_float(part)[None], grid, padding_mode=beyond, align_corners=False)[0]
        is_bytes = page.dtype == torch.uint8
        crops[index] = (crop * 255).round_().to(torch.uint8) if is_bytes else crop.to(page.dtype)
    return crops


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


def straighten(page: Tensor, plan: Straightening) -> Tensor:
    """Rotate a page (C, H, W) upright, exactly by multiples of 90 degrees, else bilinearly, with black outside it."""
    if plan.angle % 90 == 0:
        return torch.rot90(page, int(plan.angle // 90) % 4, (1, 2)).contiguous()
    upright = page.new_zeros((len(page), *plan.shape))
    rows, columns = plan.shape
    height, width = plan.page_shape
    pixels_back = np.diag([width, height, 1.0]) @ plan.back @ np.diag([1 / columns, 1 / rows, 1.0])
    for top, left in product(range(0, rows, _TILE), range(0, columns, _TILE)):
        _sample_page(upright[:, top : top + _TILE, left : left + _TILE], page, pixels_back @ translation(left, top))
    return upright


def _sample_page(tile: Tensor, page: Tensor, matrix: Matrix) -> None:
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
    sampled = F.grid_sample(part[None], grid[None], padding_mode="zeros", align_corners=False)[0]
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
