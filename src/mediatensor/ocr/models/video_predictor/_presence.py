"""Whether a text still stands in a picture, frame by frame, without reading it again.

The strokes of a text are brighter or darker than what is around them. A template has the difference of each pixel from
its surroundings where the text was found; how much of it a picture has at the same place says how much of the text is
there: 1 all, 0 nothing or another text, and a fraction while it fades. This is a matched filter (G. L. Turin, "An
introduction to matched filters", 1960).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Box", "Gray", "Template"]

Gray = npt.NDArray[np.uint8]
Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels."""

STROKE = 0.3
"""Pixels whose difference from their surroundings is at least this share of the greatest are strokes."""
FAINTEST = 10.0
"""The greatest difference of strokes that can be told from noise, of 255."""
STILL = 24
"""A pixel of a stroke differs by less from frame to frame."""
FEWEST_STILL = 0.25
"""The least share of the strokes that must stand still to be told from what moves behind them."""


class Template:
    """The strokes of a text at one place.

    Args:
        luma: (H, W), a picture that shows the text.
        box: left, top, right, bottom of its line, in pixels.
        others: Pictures that show it, too: what changes among them is not of the text.
    """

    def __init__(self, luma: Gray, box: Box, others: Sequence[Gray] = ()) -> None:
        height, width = luma.shape
        left, top, right, bottom = box
        pad = max(2, (bottom - top) // 8)
        self.box = (max(left - pad, 0), max(top - pad, 0), min(right + pad, width), min(bottom + pad, height))
        picture = self.part(luma).astype(np.float32)
        strokes = picture - _blurred(picture, max(2, (bottom - top) // 2))
        size = np.abs(strokes)
        greatest = float(np.quantile(size, 0.98)) if size.size else 0.0
        mask = size > STROKE * greatest
        if others:
            still = np.ones_like(mask)
            for other in others:
                still &= np.abs(self.part(other).astype(np.float32) - picture) < STILL
            if (mask & still).sum() >= FEWEST_STILL * mask.sum():
                mask &= still
        weights = np.where(mask, strokes, 0)
        # The background's own brightness must not count.
        if mask.any():
            weights[mask] -= weights[mask].mean()
        norm = float((weights * picture).sum())
        self.contrast = greatest
        self.is_usable = greatest >= FAINTEST and norm > 0
        self._weights = weights / norm if self.is_usable else np.zeros_like(weights)

    def part(self, luma: Gray) -> Gray:
        """The part of a picture in which the text stands."""
        left, top, right, bottom = self.box
        return luma[top:bottom, left:right]

    def change(self, difference: npt.NDArray[np.float32]) -> float:
        """By how much its strokes have changed, in the mean, in the difference of a part of two pictures."""
        return float(np.abs(difference[self._weights != 0]).mean())

    def share(self, luma: Gray) -> float:
        """How much of the text a picture shows: 1 all, 0 nothing."""
        return float(np.vdot(self._weights, self.part(luma)))


def _blurred(picture: npt.NDArray[np.float32], reach: int) -> npt.NDArray[np.float32]:
    """The mean of the pixels up to ``reach`` pixels away, in rows and columns."""
    padded = np.pad(picture, reach + 1, mode="edge").astype(np.float64)
    sums = padded.cumsum(0).cumsum(1)
    side = 2 * reach + 1
    low, high = slice(None, -side - 1), slice(side, -1)
    total = sums[high, high] - sums[low, high] - sums[high, low] + sums[low, low]
    mean: npt.NDArray[np.float32] = (total / side**2).astype(np.float32)
    return mean
