"""Text lines cut out of a page, turned upright and brought to one height, many at once on the page's device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "LineBatch",
    "cut_lines",
    "line_sizes",
    "network_input",
    "padded_width",
    "page_part",
    "sampling_grid",
    "to_float",
]

MAX_FLOAT_PIXELS = 32_000_000
"""Of the part of a page that is converted to floats at once (384 MB); lines of larger pages are cut one by one."""
MAX_BATCH_PIXELS = {"cpu": 48 * 2_048, "": 48 * 32_768}
"""Of the lines that go through the network together, by the type of device: bounds the memory of its activations. A
core is busy with few; other devices want many."""
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


def line_sizes(quads: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Widths and heights in pixels of quads (N, 4, 2), whose first side is the top of the line."""
    quads = np.asarray(quads, dtype=np.float64)
    sides = np.linalg.norm(np.roll(quads, -1, axis=1) - quads, axis=2)
    return (sides[:, 0] + sides[:, 2]) / 2, (sides[:, 1] + sides[:, 3]) / 2


def padded_width(width: int) -> int:
    """The width at which a line of this width is read.

    It depends on the line alone, so that a line reads the same whatever goes beside it. The steps grow with the width:
    the shapes that a network sees repeat, and an eighth is the most that is added (a quarter for short lines).
    """
    step = max(32, 1 << max(max(width - 1, 1).bit_length() - 3, 0))
    return -(-width // step) * step


def cut_lines(page: Tensor, quads: npt.NDArray[np.floating], height: int, max_width: int) -> Iterator[LineBatch]:
    """Cut lines out of a page.

    Args:
        page: (3, H, W), uint8 or floats in [0, 1].
        quads: (N, 4, 2) corners in pixels, top left first, in the direction of reading.
        height: Of the result.
        max_width: Wider lines are squeezed to this.

    Yields:
        Lines of one padded width, at most so many at once that memory stays bounded.
    """
    widths, heights = line_sizes(quads)
    targets = np.clip(np.ceil(height * widths / np.maximum(heights, 1e-6)), 8, max_width).astype(int)
    factors = np.clip(np.ceil(heights / height - 0.3), 1, MAX_OVERSAMPLING).astype(int)
    most = MAX_BATCH_PIXELS.get(page.device.type, MAX_BATCH_PIXELS[""])
    groups: dict[tuple[int, int], list[int]] = {}
    for index in range(len(quads)):
        groups.setdefault((padded_width(int(targets[index])), int(factors[index])), []).append(index)
    at_once = len(quads) if page.shape[1] * page.shape[2] <= MAX_FLOAT_PIXELS else 1
    whole = to_float(page) if at_once > 1 else None
    for (padded, factor), members in sorted(groups.items()):
        size = max(1, min(at_once, most // (height * padded)))
        for start in range(0, len(members), size):
            chosen = members[start : start + size]
            corners = quads[chosen].astype(np.float64)
            picture = whole
            if picture is None:
                part, corner = page_part(page, corners)
                picture, corners = to_float(part), corners - corner
            own = [int(targets[index]) for index in chosen]
            yield LineBatch(_sample(picture, corners, own, height, padded, factor), chosen, own)


def to_float(image: Tensor) -> Tensor:
    """Values in [0, 1], float32."""
    return image.float() / 255 if image.dtype == torch.uint8 else image.float()


def network_input(lines: Tensor, mean: Sequence[float], std: Sequence[float], like: Tensor) -> Tensor:
    """Lines in RGB as PP-OCR's networks take them: BGR, normalised, 0 where there is no picture.

    Args:
        lines: (N, 3, H, W) in [0, 1], NaN where there is no picture.
        mean: Of each channel.
        std: Of each channel.
        like: A parameter of the network, for device and type.

    Returns:
        (N, 3, H, W).
    """
    offset, scale = (torch.tensor(values, device=lines.device).view(1, 3, 1, 1) for values in (mean, std))
    return ((lines.flip(1) - offset) / scale).nan_to_num_(0.0).to(device=like.device, dtype=like.dtype)


def page_part(page: Tensor, corners: npt.NDArray[np.floating]) -> tuple[Tensor, npt.NDArray[np.float64]]:
    """The part of the page around the corners, with a margin, and its first corner."""
    first = np.clip(np.floor(corners.min((0, 1))).astype(int) - 1, 0, [page.shape[2] - 1, page.shape[1] - 1])
    last = np.maximum(np.ceil(corners.max((0, 1))).astype(int) + 2, first + 1)
    return page[:, first[1] : last[1], first[0] : last[0]], first.astype(np.float64)


def _sample(
    picture: Tensor,
    corners: npt.NDArray[np.float64],
    widths: Sequence[int],
    height: int,
    padded: int,
    factor: int,
) -> Tensor:
    """Samples at the centres of the pixels of each line; lines that shrink are sampled finer, and averaged."""
    device = picture.device
    rows, columns = height * factor, padded * factor
    grid = sampling_grid(picture, corners, [width * factor for width in widths], rows, columns)
    grid = grid.reshape(1, len(widths) * rows, columns, 2)
    sampled = F.grid_sample(picture[None], grid, padding_mode="border", align_corners=False)[0]
    lines = sampled.view(3, len(widths), rows, columns).transpose(0, 1)
    if factor > 1:
        lines = F.avg_pool2d(lines, factor)
    outside = torch.arange(padded, device=device)[None] >= torch.tensor(widths, device=device)[:, None]
    return lines.masked_fill(outside[:, None, None], torch.nan)


def sampling_grid(
    picture: Tensor, corners: npt.NDArray[np.floating], widths: Sequence[int], rows: int, columns: int
) -> Tensor:
    """Where in a picture the pixels of lines lie, as ``grid_sample`` takes it.

    Args:
        picture: (3, H, W).
        corners: (N, 4, 2) in its pixels; first, second and last span the parallelogram of each line.
        widths: How many columns span it; the others go on beyond.
        rows: All span it.
        columns: Of each line.

    Returns:
        (N, rows, columns, 2), on the picture's device.
    """
    device = picture.device
    down = (torch.arange(rows, device=device) + 0.5) / rows
    own = torch.tensor(widths, device=device, dtype=torch.float32)
    along = (torch.arange(columns, device=device) + 0.5)[None] / own[:, None]
    points = torch.from_numpy(corners).to(device=device, dtype=torch.float32)
    origin, right, below = points[:, 0], points[:, 1] - points[:, 0], points[:, 3] - points[:, 0]
    grid = (
        origin[:, None, None]
        + along[:, None, :, None] * right[:, None, None]
        + down[None, :, None, None] * below[:, None, None]
    )
    size = torch.tensor([picture.shape[2], picture.shape[1]], device=device, dtype=torch.float32)
    return grid * 2 / size - 1
