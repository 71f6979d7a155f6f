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

__all__ = ["Box", "Brightness", "Gray", "Template", "is_sung"]

Gray = npt.NDArray[np.uint8]
Brightness = npt.NDArray[np.float32]
Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels."""

STROKE = 0.3
"""Pixels whose difference from their surroundings is at least this share of the greatest are strokes."""
FAINTEST = 10.0
"""The greatest difference of strokes that can be told from noise, of 255."""
STILL = 24
"""A pixel of a stroke differs by less from frame to frame."""
SOLID = 0.45
"""Pixels that differ by this share of the greatest difference are inside a stroke."""
NUM_PARTS = 16
"""Parts from left to right whose brightness is followed: words that are sung change it one after the other."""
FEWEST_IN_PART = 12
LEAST_CHANGE = 6.0
"""Words that are sung become brighter or darker by at least this much, of 255."""
MOST_SUNG_BEFORE = 0.4
"""The greatest share of the parts that may have been sung when the text was found."""
FEWEST_STEPS = 3
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
        columns = np.broadcast_to(np.arange(strokes.shape[1]) * NUM_PARTS // max(strokes.shape[1], 1), strokes.shape)
        self._solid = [np.flatnonzero(sign * strokes > SOLID * greatest) for sign in (1, -1)]
        self._parts = [columns.ravel()[solid] for solid in self._solid]

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

    def brightness(self, luma: Gray) -> Brightness:
        """The mean brightness of strokes from left to right: of those that are bright, and of those that are dark."""
        pixels = self.part(luma).ravel()
        means = np.full((2, NUM_PARTS), np.nan, np.float32)
        for mean, solid, parts in zip(means, self._solid, self._parts, strict=True):
            counts = np.bincount(parts, minlength=NUM_PARTS)
            enough = counts >= FEWEST_IN_PART
            mean[enough] = np.bincount(parts, pixels[solid], NUM_PARTS)[enough] / counts[enough]
        return means


def is_sung(course: Sequence[Brightness]) -> bool:
    """Whether a text changes its brightness word by word, from left to right, as in karaoke.

    Args:
        course: Its brightness from moment to moment.
    """
    return len(course) > FEWEST_STEPS and any(_steps_forward(one) for one in np.stack(course, axis=1))


def _steps_forward(course: Brightness) -> bool:
    """Whether each part, (moments, parts), changes once, and none before the one on its left."""
    course = course[:, ~np.isnan(course).any(axis=0)]
    change = course[-1] - course[0]
    changed = np.abs(change) >= LEAST_CHANGE
    num_before = int(changed.argmax()) if changed.any() else len(changed)
    if len(change) < FEWEST_STEPS or num_before > MOST_SUNG_BEFORE * len(change):
        return False
    change, course = change[num_before:], course[:, num_before:]
    if not (changed[num_before:].all() and (np.sign(change) == np.sign(change[0])).all()):
        return False
    is_done = (course - course[0]) / change > 0.5
    at = is_done.argmax(axis=0)
    once = all(done[first:].all() for done, first in zip(is_done.T, at, strict=True))
    return bool(once and (np.diff(at) >= 0).all() and len(set(at.tolist())) >= FEWEST_STEPS)


def _blurred(picture: npt.NDArray[np.float32], reach: int) -> npt.NDArray[np.float32]:
    """The mean of the pixels up to ``reach`` pixels away, in rows and columns."""
    padded = np.pad(picture, reach + 1, mode="edge").astype(np.float64)
    sums = padded.cumsum(0).cumsum(1)
    side = 2 * reach + 1
    low, high = slice(None, -side - 1), slice(side, -1)
    total = sums[high, high] - sums[low, high] - sums[high, low] + sums[low, low]
    mean: npt.NDArray[np.float32] = (total / side**2).astype(np.float32)
    return mean
