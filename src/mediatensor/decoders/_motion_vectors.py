"""`MotionVectors`, the motion vectors of some frames as tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class MotionVectors:
    """The motion vectors of some frames, on a grid of cells of 8x8 pixels; see `VideoDecoder.get_motion_vectors_at`.

    The codec predicts a block from a place in another frame, the reference. The motion vector leads from the block to
    this place. It has two components in pixels: x (to the right) and y (downwards). If a texture moves by (3, 1) pixels
    from one frame to the next, its vector to the earlier frame is (-3, -1). A block of a B frame can have two
    references. Blocks of 16 pixels fill several cells with the same vector.

    All tensors are on the CPU. N is the number of frames. The grid has H / 8 rows and W / 8 columns, rounded up.

    Attributes:
        past: Vectors to references that are shown earlier, float32 (N, 2, rows, columns), with x before y. Cells
            without such a vector are 0.
        future: Vectors to references that are shown later, float32 (N, 2, rows, columns), with x before y. Cells
            without such a vector are 0.
        has_past: Whether a cell has a vector to an earlier frame, bool (N, rows, columns).
        has_future: Whether a cell has a vector to a later frame, bool (N, rows, columns). If a cell has neither vector,
            it is coded without a reference. This applies to all cells of a key frame, and to new content in other
            frames.

    Example:
        >>> from mediatensor.decoders import VideoDecoder
        >>> vectors = VideoDecoder("video.mp4").get_motion_vectors_at([0, 10])
        >>> vectors.has_past.float().mean((1, 2)).tolist()[0]
        0.0
        >>> vectors.past.norm(dim=1).shape  # lengths in pixels
        torch.Size([2, 45, 80])
    """

    past: Tensor
    future: Tensor
    has_past: Tensor
    has_future: Tensor

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.past)

    def __repr__(self) -> str:
        return f"MotionVectors(past={tuple(self.past.shape)}, future={tuple(self.future.shape)})"


def motion_vectors(cells: NDArray[Any]) -> MotionVectors:
    """Split cells (N, rows, columns, 4) into vectors of both directions. Cells without a vector are NaN."""
    values = torch.from_numpy(cells).permute(0, 3, 1, 2)
    is_missing = values.isnan()
    values = values.masked_fill(is_missing, 0.0)
    return MotionVectors(values[:, :2], values[:, 2:], ~is_missing[:, 0], ~is_missing[:, 2])
