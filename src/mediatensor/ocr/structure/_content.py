"""What structure is found from: the words of a page, and what is drawn between them, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["PageContent", "turned_back"]

Boxes = NDArray[np.float64]


# The least width and height of a word, as a share of the height of the page.
_MIN_SIDE = 0.001


def _no_boxes() -> Boxes:
    return np.zeros((0, 4))


def turned_back(boxes: Boxes, width: float, height: float, turn: int) -> Boxes:
    """The boxes (N, 4) after a page of this size is turned counter-clockwise by 0, 90, 180 or 270 degrees."""
    left, top, right, bottom = boxes.T
    for _ in range(turn // 90 % 4):
        left, top, right, bottom = top, width - right, bottom, width - left
        width, height = height, width
    return np.stack([left, top, right, bottom], axis=1)


def _no_turns() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


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
        turns: int64 (N,): by how many degrees each word is turned clockwise: 0, 90, 180 or 270. PDF files store this;
            in pictures it is 0.
        is_unread_scan: Whether embedded pictures cover the page of a PDF file, and none of its words is hidden in them.
            The file then lacks the text of the scan; its words were added, as stamps or filled-in fields.
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
    turns: NDArray[np.int64] = field(default_factory=_no_turns)
    is_unread_scan: bool = False

    def __post_init__(self) -> None:
        size = np.array([self.width, self.height], dtype=np.float64)
        boxes = np.nan_to_num(np.asarray(self.boxes, dtype=np.float64).reshape(-1, 4), posinf=0.0, neginf=0.0)
        low = np.minimum(boxes[:, :2], boxes[:, 2:]).clip(0, size)
        high = np.maximum(boxes[:, :2], boxes[:, 2:]).clip(low + _MIN_SIDE * self.height, None)
        boxes = np.concatenate([low, np.minimum(high, size + _MIN_SIDE * self.height)], axis=1)
        object.__setattr__(self, "boxes", boxes)
        object.__setattr__(self, "texts", tuple(text or " " for text in self.texts))
        if not len(self.turns):
            object.__setattr__(self, "turns", np.zeros(len(boxes), np.int64))

    @property
    def page_turn(self) -> int:
        """The turn of most of the text, by the number of characters; 0 without words."""
        quarters = np.bincount(self.turns // 90, [len(text) for text in self.texts], minlength=4)
        return 90 * int(quarters.argmax())

    def turned_back(self, turn: int) -> PageContent:
        """The page after it is turned counter-clockwise, so that words turned by ``turn`` are upright.

        Args:
            turn: 0, 90, 180 or 270 degrees.

        Example:
            >>> import numpy as np
            >>> from mediatensor.ocr.structure import content_of_picture
            >>> image = np.full((200, 300, 3), 255, np.uint8)
            >>> image[30:90, 240:260] = 0
            >>> content = content_of_picture(image, [(240, 30, 260, 90)], ["word"], [0], [1.0], turns=[90])
            >>> upright = content.turned_back(90)
            >>> upright.boxes.tolist(), upright.turns.tolist()
            ([[30.0, 40.0, 90.0, 60.0]], [0])
        """
        swaps = turn % 180 != 0
        rules = [
            turned_back(boxes, self.width, self.height, turn) for boxes in (self.horizontal_rules, self.vertical_rules)
        ]
        return replace(
            self,
            width=self.height if swaps else self.width,
            height=self.width if swaps else self.height,
            boxes=turned_back(self.boxes, self.width, self.height, turn),
            horizontal_rules=rules[swaps],
            vertical_rules=rules[not swaps],
            pictures=turned_back(self.pictures, self.width, self.height, turn),
            turns=(self.turns - turn) % 360,
        )
