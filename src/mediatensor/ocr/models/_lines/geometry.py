"""Quads of lines and words: as boxes, in pixels, turned, measured.

A quad is four corners (4, 2), clockwise from the top left of its text as it lies on the page, relative to the page
unless a function says pixels.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ....errors import InvalidArgumentError

__all__ = [
    "TALL_RATIO",
    "WHOLE_CROP",
    "as_quads",
    "box_quads",
    "in_pixels",
    "line_sizes",
    "lines_are_tall",
    "longest_lines",
    "page_quads",
    "place_boxes",
    "scores_of",
    "side_lengths",
    "signed_turn",
    "straight_boxes",
    "turned",
]

FloatArray = npt.NDArray[np.float64]

WHOLE_CROP = np.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]])
"""The quad of a crop that is one line."""
LINES_IN_VOTE = 16
"""How many of a page's lines, the longest ones, vote on its turn."""
TALL_RATIO = 1.5
"""A line this many times as tall as wide is turned before it is read, as PP-OCR does."""


def box_quads(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Straight boxes (N, 4) as quads (N, 4, 2), clockwise from the top left."""
    corners: npt.NDArray[np.float64] = boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]].astype(np.float64)
    return corners


def as_quads(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Boxes with scores, straight (N, 5) or rotated (N, 5, 2), as quads (N, 4, 2)."""
    return box_quads(boxes[:, :4]) if boxes.ndim == 2 else boxes[:, :4].astype(np.float64)


def scores_of(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """The scores (N,) of such boxes."""
    return boxes[:, 4] if boxes.ndim == 2 else boxes[:, 4, 1]


def page_quads(boxes: Mapping[str, npt.NDArray[np.floating]]) -> npt.NDArray[np.float64]:
    """The rotated boxes of all classes without their scores, (N, 4, 2)."""
    return np.concatenate([np.asarray(found, dtype=np.float64)[:, :4] for found in boxes.values()])


def straight_boxes(quads: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Enclosing boxes (N, 4) of quads (N, P, 2)."""
    return np.concatenate([quads.min(axis=1), quads.max(axis=1)], axis=1)


def place_boxes(line: FloatArray, boxes: npt.NDArray[np.floating]) -> FloatArray:
    """Boxes (N, 4), as fractions of a line, as quads (N, 4, 2) on its page, clockwise from where the reading begins.

    Args:
        line: Relative corners (4, 2).
        boxes: Left, top, right, bottom.

    Returns:
        Relative, within [0, 1].
    """
    along, down = line[1] - line[0], line[3] - line[0]
    x, y = boxes[:, [0, 2, 2, 0]], boxes[:, [1, 1, 3, 3]]
    placed: FloatArray = line[0] + x[..., None] * along + y[..., None] * down
    return placed.clip(0, 1)


def in_pixels(quads: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Relative quads (N, 4, 2) in pixels of a page of this height and width."""
    scaled: FloatArray = quads * np.array([shape[1], shape[0]], dtype=np.float64)
    return scaled


def line_sizes(quads: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Widths and heights in pixels of quads (N, 4, 2), whose first side is the top of the line."""
    quads = np.asarray(quads, dtype=np.float64)
    sides = np.linalg.norm(np.roll(quads, -1, axis=1) - quads, axis=2)
    return (sides[:, 0] + sides[:, 2]) / 2, (sides[:, 1] + sides[:, 3]) / 2


def side_lengths(quads: np.ndarray, page_shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Widths and heights in pixels of relative quads (N, 4, 2), by the two sides at the first corner of each."""
    if quads.ndim != 3 or quads.shape[1:] != (4, 2):
        raise InvalidArgumentError(f"quads must be (N, 4, 2), got shape {quads.shape}")
    points = quads * np.array([page_shape[1], page_shape[0]], dtype=np.float64)
    rights, downs = points[:, 1] - points[:, 0], points[:, 3] - points[:, 0]
    return np.hypot(rights[:, 0], rights[:, 1]), np.hypot(downs[:, 0], downs[:, 1])


def lines_are_tall(quads: np.ndarray, page_shape: tuple[int, int], ratio: float = TALL_RATIO) -> np.ndarray:
    """Which lines to turn by 90 degrees counter-clockwise before they are looked at.

    Args:
        quads: Relative ``(N, 4, 2)``, TL, TR, BR, BL as they lie on the page.
        page_shape: Height and width of the page in pixels.
        ratio: How many times as tall as wide such a line is.

    Returns:
        Bool ``(N,)``.
    """
    widths, heights = side_lengths(quads, page_shape)
    tall: np.ndarray = heights >= ratio * widths
    return tall


def longest_lines(quads: npt.NDArray[np.float64], page_shape: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Positions of the longest lines, (at most :data:`LINES_IN_VOTE`,)."""
    points = quads * (page_shape[1], page_shape[0])
    lengths = np.linalg.norm(points - np.roll(points, 1, axis=1), axis=2).max(axis=1, initial=0.0)
    chosen: npt.NDArray[np.int64] = np.sort(np.argsort(-lengths, kind="stable")[:LINES_IN_VOTE])
    return chosen


def turned(quads: npt.NDArray[np.float64], turns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Corners from where the reading begins.

    Args:
        quads: (N, 4, 2), clockwise as they lie on the page.
        turns: (N,) by how many degrees each is turned clockwise: multiples of 90.

    Returns:
        (N, 4, 2): a line that is turned by 90 begins at its top right.
    """
    places = (np.arange(4)[None] + (turns // 90)[:, None]) % 4
    return np.take_along_axis(quads, places[..., None], axis=1)


def signed_turn(turn: int) -> int:
    """Write a turn as docTR does: 0, 90, 180 or -90.

    >>> signed_turn(270)
    -90
    """
    return turn - 360 if turn > 180 else turn
