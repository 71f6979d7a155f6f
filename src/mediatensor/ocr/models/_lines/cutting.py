"""Text lines cut out of a page, turned upright and brought to one height, many at once on the page's device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from .._networks.transfers import constant, upload
from .geometry import line_sizes

__all__ = [
    "LineBatch",
    "cut_lines",
    "cut_words",
    "line_cuts",
    "network_input",
    "padded_width",
    "page_part",
    "sampling_grid",
    "spans_of",
    "to_float",
    "upload_spans",
]

FloatArray = npt.NDArray[np.float64]

MAX_FLOAT_PIXELS = 32_000_000
"""The largest page that is converted to floats at once (384 MB). Lines of larger pages are cut one by one."""
MAX_BATCH_PIXELS = {"cpu": 48 * 4_096, "": 48 * 32_768}
"""The most pixels of lines that go through a network together, by the type of device: they bound the memory of its
activations. A core is busy with few; other devices want many."""
MAX_OVERSAMPLING = 8


@dataclass(frozen=True)
class LineBatch:
    """Lines of one padded width.

    Attributes:
        data: RGB in [0, 1], (N, 3, height, padded width), NaN where there is no picture.
        indices: Which of the lines they are.
        widths: How many columns of each are picture.
    """

    data: Tensor
    indices: list[int]
    widths: list[int]


def padded_width(width: int) -> int:
    """The width at which a line of this width is read.

    It depends on the line alone, so that a line reads the same whatever goes beside it. The steps grow with the width:
    the shapes that a network sees repeat, and an eighth is the most that is added (a quarter for short lines).
    """
    step = max(32, 1 << max(max(width - 1, 1).bit_length() - 3, 0))
    return -(-width // step) * step


def cut_lines(page: Tensor, quads: npt.NDArray[np.floating], height: int, max_width: int) -> Iterator[LineBatch]:
    """Cut lines out of a page, see :func:`line_cuts`; lines of one padded width at a time."""
    return (cut() for cut in line_cuts(page, quads, height, max_width))


def line_cuts(
    page: Tensor, quads: npt.NDArray[np.floating], height: int, max_width: int
) -> list[Callable[[], LineBatch]]:
    """Plan how lines are cut out of a page.

    Args:
        page: (3, H, W), uint8 or floats in [0, 1].
        quads: (N, 4, 2) corners in pixels, top left first, in the direction of reading.
        height: The height of the result.
        max_width: Wider lines are squeezed to this.

    Returns:
        Each cuts out lines of one padded width, at most so many at once that memory stays bounded; in any thread.
    """
    cuts = _planned(page, np.asarray(quads, dtype=np.float64), height, max_width)
    if not cuts:
        return []
    spans = upload_spans([cut.spans for cut in cuts], page.device)
    whole = to_float(page) if cuts[0].part is page else None

    def sample(cut: _Cut, own: Tensor) -> LineBatch:
        picture = to_float(cut.part) if whole is None else whole
        lines = _sample(picture, own, height, cut.padded, cut.factor)
        return LineBatch(lines, cut.indices, [int(width) for width in cut.spans[:, 8]])

    parts = torch.split(spans, [len(cut.indices) for cut in cuts])
    return [partial(sample, cut, own) for cut, own in zip(cuts, parts, strict=True)]


@dataclass(frozen=True)
class _Cut:
    """Lines that are cut out together.

    Attributes:
        indices: Which lines they are.
        padded: Their width, padded.
        factor: How many times finer than the result they are sampled.
        part: The part of the page that they are cut from, or the page.
        spans: See :func:`spans_of`.
    """

    indices: list[int]
    padded: int
    factor: int
    part: Tensor
    spans: FloatArray


def _planned(page: Tensor, quads: FloatArray, height: int, max_width: int) -> list[_Cut]:
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
    """Values in [0, 1], float32."""
    return image.float() / 255 if image.dtype == torch.uint8 else image.float()


def network_input(lines: Tensor, mean: Sequence[float], std: Sequence[float], like: Tensor) -> Tensor:
    """Lines in RGB as PP-OCR's networks take them: BGR, normalised, 0 where there is no picture.

    Args:
        lines: (N, 3, H, W) in [0, 1], NaN where there is no picture.
        mean: Mean of each channel.
        std: Standard deviation of each channel.
        like: A parameter of the network, for device and type.

    Returns:
        (N, 3, H, W).
    """
    offset, scale = (constant(tuple(values), lines.device).view(1, 3, 1, 1) for values in (mean, std))
    return ((lines.flip(1) - offset) / scale).nan_to_num_(0.0).to(device=like.device, dtype=like.dtype)


def page_part(page: Tensor, corners: npt.NDArray[np.floating]) -> tuple[Tensor, npt.NDArray[np.float64]]:
    """The part of the page around the corners, with a margin, and its first corner."""
    first = np.clip(np.floor(corners.min((0, 1))).astype(int) - 1, 0, [page.shape[2] - 1, page.shape[1] - 1])
    last = np.maximum(np.ceil(corners.max((0, 1))).astype(int) + 2, first + 1)
    return page[:, first[1] : last[1], first[0] : last[0]], first.astype(np.float64)


def _sample(picture: Tensor, spans: Tensor, height: int, padded: int, factor: int) -> Tensor:
    """Samples at the centres of the pixels of each line; lines that shrink are sampled finer, and averaged."""
    rows, columns = height * factor, padded * factor
    grid = sampling_grid(spans, rows, columns, factor).reshape(1, len(spans) * rows, columns, 2)
    sampled = F.grid_sample(picture[None], grid, padding_mode="border", align_corners=False)[0]
    lines = sampled.view(3, len(spans), rows, columns).transpose(0, 1)
    if factor > 1:
        lines = F.avg_pool2d(lines, factor)
    outside = torch.arange(padded, device=spans.device)[None] >= spans[:, 8:9]
    return lines.masked_fill(outside[:, None, None], torch.nan)


def spans_of(picture: Tensor, corners: npt.NDArray[np.floating], widths: npt.ArrayLike) -> FloatArray:
    """The numbers from which a device computes where to sample lines.

    Args:
        picture: (3, H, W).
        corners: (N, 4, 2) in its pixels; first, second and last span the parallelogram of each line.
        widths: How many columns span it.

    Returns:
        (N, 11): the corners, the width, and the picture's width and height.
    """
    size = np.broadcast_to(np.array([picture.shape[2], picture.shape[1]], dtype=np.float64), (len(corners), 2))
    columns = np.asarray(widths, dtype=np.float64).reshape(-1, 1)
    return np.concatenate([corners.reshape(-1, 8).astype(np.float64), columns, size], axis=1)


def upload_spans(spans: Sequence[FloatArray], device: torch.device) -> Tensor:
    """Those of many lines on the device of the page, float32 (N, 11), in one piece."""
    return upload(np.concatenate(spans).astype(np.float32), device)


def sampling_grid(spans: Tensor, rows: int, columns: int, factor: int = 1) -> Tensor:
    """Where in their picture the pixels of lines lie, as ``grid_sample`` takes it.

    Args:
        spans: The result of :func:`upload_spans`, (N, 11).
        rows: Rows of the result; together they span the height of a line.
        columns: Columns of the result; those beyond the width of a line lie beyond its end.
        factor: How many columns stand for one column of the line's width.

    Returns:
        (N, rows, columns, 2), on the device of the spans.
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
    """Crops of a page at its own resolution, on its device.

    Args:
        page: (3, H, W), uint8 or floats in [0, 1].
        boxes: Relative: straight (N, 4), which include their last row and column, or (N, 4, 2) from where the
            reading begins.
        beyond: What is beyond the page, for the latter: black, as in docTR, or what is at its border, as in
            :func:`cut_lines`.

    Returns:
        Tensors (3, h, w) of the page's type; None where a box holds no pixel.
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
        crop = F.grid_sample(to_float(part)[None], grid, padding_mode=beyond, align_corners=False)[0]
        is_bytes = page.dtype == torch.uint8
        crops[index] = (crop * 255).round_().to(torch.uint8) if is_bytes else crop.to(page.dtype)
    return crops
