"""What structure is found from: the words of a page, and what is drawn between them, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["PageContent"]

Boxes = NDArray[np.float64]


# The least width and height of a word, as a share of the height of the page.
_MIN_SIDE = 0.001


def _no_boxes() -> Boxes:
    return np.zeros((0, 4))


@dataclass(frozen=True, eq=False)
class PageContent:
    """An upright page as words, rules and pictures.

    Coordinates are pixels or points: x to the right and y down from the top left corner, both in the same unit.

    Attributes:
        width, height: The size of the page.
        boxes: float64 (N, 4): xmin, ymin, xmax, ymax of each word. They are cut off at the edges of the page, and made
            at least a thousandth of its height wide and high, as words of a hostile file may be anywhere.
        texts: The N words.
        line_ids: int64 (N,): the line of text that each word was found in. Lines run from one side of a gap to the
            other: two columns, or two cells of a row, may or may not be one line.
        confidences: float64 (N,), in [0, 1]: how likely each word is right.
        horizontal_rules: float64 (H, 4): boxes of drawn lines, thickness included, that run across.
        vertical_rules: float64 (V, 4): the same, of lines that run down.
        pictures: float64 (P, 4): boxes of ink, or of embedded pictures, that is neither words nor rules.
        font_sizes: float64 (N,): the size of the type of each word in the unit of the page, as a PDF says; NaN where it
            is not known, as in pictures, where heights of boxes have to do.
        is_bold: bool (N,): whether a word is set in heavy type: as a PDF says, or by the thickness of its strokes.
    """

    width: float
    height: float
    boxes: Boxes
    texts: tuple[str, ...]
    line_ids: NDArray[np.int64]
    confidences: NDArray[np.float64]
    font_sizes: NDArray[np.float64]
    is_bold: NDArray[np.bool_]
    horizontal_rules: Boxes = field(default_factory=_no_boxes)
    vertical_rules: Boxes = field(default_factory=_no_boxes)
    pictures: Boxes = field(default_factory=_no_boxes)

    def __post_init__(self) -> None:
        size = np.array([self.width, self.height], dtype=np.float64)
        boxes = np.nan_to_num(np.asarray(self.boxes, dtype=np.float64).reshape(-1, 4), posinf=0.0, neginf=0.0)
        low = np.minimum(boxes[:, :2], boxes[:, 2:]).clip(0, size)
        high = np.maximum(boxes[:, :2], boxes[:, 2:]).clip(low + _MIN_SIDE * self.height, None)
        boxes = np.concatenate([low, np.minimum(high, size + _MIN_SIDE * self.height)], axis=1)
        object.__setattr__(self, "boxes", boxes)
        object.__setattr__(self, "texts", tuple(text or " " for text in self.texts))
