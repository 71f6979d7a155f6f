"""Handle quads of lines and words, and crop many lines of a page at once on the page's device.

A quad has four corners (4, 2), clockwise on the page, starting with the top left corner of its text. Coordinates are
relative to the page unless pixels are mentioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from ....errors import InvalidArgumentError
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


def box_quads(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return straight boxes (N, 4) as quads (N, 4, 2)."""
    corners: npt.NDArray[np.float64] = boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]].astype(np.float64)
    return corners


def as_quads(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return boxes with scores, straight (N, 5) or rotated (N, 5, 2), as quads (N, 4, 2) without scores."""
    return box_quads(boxes[:, :4]) if boxes.ndim == 2 else boxes[:, :4].astype(np.float64)


def scores_of(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    return boxes[:, 4] if boxes.ndim == 2 else boxes[:, 4, 1]


def page_quads(boxes: Mapping[str, npt.NDArray[np.floating]]) -> npt.NDArray[np.float64]:
    """Return the rotated boxes of all classes without their scores, (N, 4, 2)."""
    return np.concatenate([np.asarray(found, dtype=np.float64)[:, :4] for found in boxes.values()])


def place_boxes(line: FloatArray, boxes: npt.NDArray[np.floating]) -> FloatArray:
    """Map boxes (N, 4), in fractions of a line, to quads (N, 4, 2) on the page, clipped to [0, 1]."""
    along, down = line[1] - line[0], line[3] - line[0]
    x, y = boxes[:, [0, 2, 2, 0]], boxes[:, [1, 1, 3, 3]]
    placed: FloatArray = line[0] + x[..., None] * along + y[..., None] * down
    return placed.clip(0, 1)


def scale_to_pixels(quads: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Scale relative quads (N, 4, 2) to pixels of a page of this height and width."""
    scaled: FloatArray = quads * np.array([shape[1], shape[0]], dtype=np.float64)
    return scaled


def line_sizes(quads: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return widths and heights in pixels of quads (N, 4, 2) whose first side is the top of the line."""
    quads = np.asarray(quads, dtype=np.float64)
    sides = np.linalg.norm(np.roll(quads, -1, axis=1) - quads, axis=2)
    return (sides[:, 0] + sides[:, 2]) / 2, (sides[:, 1] + sides[:, 3]) / 2


def side_lengths(quads: np.ndarray, page_shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return width and height in pixels of relative quads: the lengths of the two sides at the first corner."""
    if quads.ndim != 3 or quads.shape[1:] != (4, 2):
        raise InvalidArgumentError(f"quads must be (N, 4, 2), got shape {quads.shape}")
    points = quads * np.array([page_shape[1], page_shape[0]], dtype=np.float64)
    rights, downs = points[:, 1] - points[:, 0], points[:, 3] - points[:, 0]
    return np.hypot(rights[:, 0], rights[:, 1]), np.hypot(downs[:, 0], downs[:, 1])


def lines_are_tall(quads: np.ndarray, page_shape: tuple[int, int], ratio: float = TALL_RATIO) -> np.ndarray:
    """Return bool (N,): whether relative quads (N, 4, 2) are so tall that they must be rotated by 90 degrees."""
    widths, heights = side_lengths(quads, page_shape)
    tall: np.ndarray = heights >= ratio * widths
    return tall


def longest_lines(quads: npt.NDArray[np.float64], page_shape: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Return the indices of the longest lines, at most `LINES_IN_VOTE`."""
    points = quads * (page_shape[1], page_shape[0])
    lengths = np.linalg.norm(points - np.roll(points, 1, axis=1), axis=2).max(axis=1, initial=0.0)
    chosen: npt.NDArray[np.int64] = np.sort(np.argsort(-lengths, kind="stable")[:LINES_IN_VOTE])
    return chosen


def turn_quads(quads: npt.NDArray[np.float64], turns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Reorder the corners of quads (N, 4, 2), clockwise on the page, so that the first corner is where the text starts.

    ``turns`` (N,) are degrees clockwise, multiples of 90: a line turned by 90 degrees starts at its top right corner.
    """
    places = (np.arange(4)[None] + (turns // 90)[:, None]) % 4
    return np.take_along_axis(quads, places[..., None], axis=1)


def signed_turn(turn: int) -> int:
    """Convert a turn to docTR's form: 0, 90, 180 or -90."""
    return turn - 360 if turn > 180 else turn


@dataclass(frozen=True)
class LineBatch:
    """A batch of images of lines with equal padded width.

    Attributes:
        data: RGB in [0, 1], (N, 3, height, padded width), NaN in the padding after each line.
        indices: Index of each line among the lines of the page.
        widths: Width of each line in columns, without padding.
    """

    data: Tensor
    indices: list[int]
    widths: list[int]


def padded_width(width: int) -> int:
    """Return the width, including padding, at which a line of ``width`` columns is read.

    The result depends only on ``width``, so other lines in the batch do not affect how a line is read. Widths are
    rounded up in steps that grow with the width, to limit the number of shapes. Padding adds less than a quarter of the
    width, except for lines of at most 128 columns, which are padded to a multiple of 32.
    """
    step = max(32, 1 << max(max(width - 1, 1).bit_length() - 3, 0))
    return -(-width // step) * step


def cut_lines(page: Tensor, quads: npt.NDArray[np.floating], height: int, max_width: int) -> Iterator[LineBatch]:
    """Yield batches of lines cropped from a page; see `line_cuts`."""
    return (cut() for cut in line_cuts(page, quads, height, max_width))


def line_cuts(
    page: Tensor, quads: npt.NDArray[np.floating], height: int, max_width: int
) -> list[Callable[[], LineBatch]]:
    """Return functions that each crop a batch of lines of equal padded width; they may be called in any thread.

    ``page`` is (3, H, W), uint8 or floats in [0, 1]; ``quads`` (N, 4, 2) are in pixels; their corners follow the
    reading direction, from the top left of the text. Lines wider than ``max_width`` are compressed.
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
    """Lines that are cropped together; they are sampled at ``factor`` times the resolution of the result."""

    indices: list[int]
    padded: int
    factor: int
    part: Tensor
    """The part of the page that contains the lines, or the whole page."""
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


def to_float(image: Tensor) -> Tensor:
    """Return float32 values in [0, 1]."""
    return image.float() / 255 if image.dtype == torch.uint8 else image.float()


def network_input(lines: Tensor, mean: Sequence[float], std: Sequence[float], like: Tensor) -> Tensor:
    """Convert RGB lines (N, 3, H, W) to the input of PP-OCR's networks: BGR, normalised, 0 for NaN."""
    offset, scale = (constant(tuple(values), lines.device).view(1, 3, 1, 1) for values in (mean, std))
    return ((lines.flip(1) - offset) / scale).nan_to_num_(0.0).to(device=like.device, dtype=like.dtype)


def page_part(page: Tensor, corners: npt.NDArray[np.floating]) -> tuple[Tensor, npt.NDArray[np.float64]]:
    """Return the part of the page around ``corners``, with a margin, and the part's offset (x, y) in pixels."""
    first = np.clip(np.floor(corners.min((0, 1))).astype(int) - 1, 0, [page.shape[2] - 1, page.shape[1] - 1])
    last = np.maximum(np.ceil(corners.max((0, 1))).astype(int) + 2, first + 1)
    return page[:, first[1] : last[1], first[0] : last[0]], first.astype(np.float64)


def _sample(picture: Tensor, spans: Tensor, height: int, padded: int, factor: int) -> Tensor:
    """Sample the pixel centers of each line; lines that are scaled down are oversampled and averaged."""
    rows, columns = height * factor, padded * factor
    grid = sampling_grid(spans, rows, columns, factor).reshape(1, len(spans) * rows, columns, 2)
    sampled = F.grid_sample(picture[None], grid, padding_mode="border", align_corners=False)[0]
    lines = sampled.view(3, len(spans), rows, columns).transpose(0, 1)
    if factor > 1:
        lines = F.avg_pool2d(lines, factor)
    outside = torch.arange(padded, device=spans.device)[None] >= spans[:, 8:9]
    return lines.masked_fill(outside[:, None, None], torch.nan)


def spans_of(picture: Tensor, corners: npt.NDArray[np.floating], widths: npt.ArrayLike) -> FloatArray:
    """Return (N, 11): for each line its corners, its width in columns, and the width and height of ``picture``.

    The device computes the sampling positions from these numbers. ``corners`` (N, 4, 2) are in pixels of ``picture``
    (3, H, W); the first, second and last corner define the parallelogram of each line.
    """
    size = np.broadcast_to(np.array([picture.shape[2], picture.shape[1]], dtype=np.float64), (len(corners), 2))
    columns = np.asarray(widths, dtype=np.float64).reshape(-1, 1)
    return np.concatenate([corners.reshape(-1, 8).astype(np.float64), columns, size], axis=1)


def sampling_grid(spans: Tensor, rows: int, columns: int, factor: int = 1) -> Tensor:
    """Return the positions (N, rows, columns, 2) of line pixels in the format of ``grid_sample``.

    ``spans`` are from `spans_of`, as float32 on the page's device; ``factor`` is the number of sampled columns for each
    column of the line.
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

    Args:
        page: (3, H, W), uint8 or floats in [0, 1].
        boxes: Relative boxes: straight (N, 4), which include their last row and column; or quads (N, 4, 2) whose first
            corner is at the start of the text.
        beyond: For quads, the value of pixels outside the page: black, as in docTR, or the nearest border pixel.

    Returns:
        Tensors (3, h, w) of the page's type; ``None`` for boxes without pixels.
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
    """Crop the parallelograms defined by the first, second and last corner, at the length of their sides."""
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
