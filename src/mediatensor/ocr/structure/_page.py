"""Data classes of a page (words, rules, pictures) and of the tables, regions and fields found on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..utils import geometry

# Boxes are float64 (N, 4), and a box is a tuple: xmin, ymin, xmax, ymax.
Boxes = NDArray[np.float64]
Box = tuple[float, float, float, float]

# The smallest width and height of a word, as a share of the page height.
_MIN_SIDE = 0.001


def box_around(boxes: Boxes | Sequence[Box]) -> Box:
    left, top, right, bottom = geometry.box_around(boxes).tolist()
    return left, top, right, bottom


def gaps_between(box: Box, other: Box) -> tuple[float, float]:
    """Return the horizontal and the vertical distance between two boxes, each 0 if they overlap in this direction."""
    return max(other[0] - box[2], box[0] - other[2], 0.0), max(other[1] - box[3], box[1] - other[3], 0.0)


def are_inside(boxes: Boxes, outer: Box | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which boxes (N, 4) have their middle in the box ``outer``."""
    left, top, right, bottom = outer
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    inside = (middles >= (left, top)) & (middles <= (right, bottom))
    return inside[:, 0] & inside[:, 1]


def turned_back(boxes: Boxes, width: float, height: float, turn: int) -> Boxes:
    """Return boxes (N, 4) on a page after rotating the page counter-clockwise by ``turn``: 0, 90, 180 or 270 degrees.

    ``width`` and ``height`` are the size of the page before the rotation.
    """
    left, top, right, bottom = boxes.T
    for _ in range(turn // 90 % 4):
        left, top, right, bottom = top, width - right, bottom, width - left
        width, height = height, width
    return np.stack([left, top, right, bottom], axis=1)


def _no_boxes() -> Boxes:
    return np.zeros((0, 4))


def _no_turns() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class PageContent:
    """The words, rules (straight lines) and pictures of an upright page: the input of functions such as `find_tables`.

    Coordinates are in pixels or points, x to the right and y down from the top left corner.

    Attributes:
        width, height: Size of the page.
        boxes: float64 (N, 4): xmin, ymin, xmax, ymax of each word. Boxes are clipped to the page, because untrusted
            files can put words anywhere. Their sides are at least a thousandth of the page height.
        texts: The N words.
        line_ids: int64 (N,): number of the text line of each word. A line can extend over several columns or cells.
        confidences: float64 (N,), in [0, 1]: probability that each word is right.
        horizontal_rules: float64 (H, 4): boxes (xmin, ymin, xmax, ymax) of horizontal lines, thickness included.
        vertical_rules: float64 (V, 4): boxes of vertical lines in the same form.
        pictures: float64 (P, 4): boxes of pictures in the same form. On an image, pictures are areas of ink that are
            neither words nor rules.
        font_sizes: float64 (N,): type size of each word in a PDF file, in the unit of the page; NaN if unknown, as in
            images.
        is_bold: bool (N,): whether each word is bold, as stated in a PDF file or measured by stroke thickness.
        turns: int64 (N,): clockwise rotation of each word in degrees: 0, 90, 180 or 270. It is 0 in most images.
        is_unread_scan: Whether a PDF page is a scan whose text is not in the file: embedded pictures cover it, and
            there are no hidden words. Any words on such a page, such as stamps or filled-in fields, were added later.
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
        for name in ("horizontal_rules", "vertical_rules", "pictures"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64).reshape(-1, 4))
        object.__setattr__(self, "texts", tuple(text or " " for text in self.texts))
        if not len(self.turns):
            object.__setattr__(self, "turns", np.zeros(len(boxes), np.int64))

    @property
    def page_turn(self) -> int:
        """Most frequent clockwise rotation of the characters: 0, 90, 180 or 270 degrees; 0 on a page without words."""
        quarters = np.bincount(self.turns // 90, [len(text) for text in self.texts], minlength=4)
        return 90 * int(quarters.argmax())

    def turned_back(self, turn: int) -> PageContent:
        """Rotate the page counter-clockwise by ``turn``, so that words rotated by ``turn`` become upright.

        Args:
            turn: 0, 90, 180 or 270 degrees.

        Returns:
            A new `PageContent`. This object stays unchanged.

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


#: Kinds of regions: the eleven class names of DocLayNet, which docTR's models use.
REGION_KINDS = (
    "Caption",
    "Footnote",
    "Formula",
    "List-item",
    "Page-footer",
    "Page-header",
    "Picture",
    "Section-header",
    "Table",
    "Text",
    "Title",
)


@dataclass(frozen=True)
class FoundCell:
    """A cell of a table.

    Attributes:
        box: (xmin, ymin, xmax, ymax) of the cell, up to the rules (straight lines) or gaps that separate it from other
            cells.
        row_start, row_end, col_start, col_end: First and last row, first and last column of the cell, counted from 0.
            The last row and column belong to the cell.
        words: Indices of the cell's words in `PageContent`, in reading order.
        is_header: Whether the cell belongs to the head of the table.
    """

    box: Box
    row_start: int
    row_end: int
    col_start: int
    col_end: int
    words: tuple[int, ...] = ()
    is_header: bool = False


@dataclass(frozen=True)
class FoundTable:
    """A table.

    Attributes:
        box: (xmin, ymin, xmax, ymax) of the table.
        num_rows, num_cols: Number of rows and columns of the grid.
        cells: `FoundCell` objects row by row, including empty cells. Together they cover the grid exactly once.
        confidence: Probability, in [0, 1], that this is a table and has this structure.
    """

    box: Box
    num_rows: int
    num_cols: int
    cells: tuple[FoundCell, ...]
    confidence: float = 1.0


@dataclass(frozen=True)
class FoundRegion:
    """A region of the layout.

    Attributes:
        kind: One of `REGION_KINDS`, such as ``"Text"`` or ``"Table"``.
        box: (xmin, ymin, xmax, ymax) of the region.
        confidence: Probability, in [0, 1], that the region has this kind.
        words: Indices of the region's words in `PageContent`, in reading order.
        level: Level of a section header (1 is directly below the title); 0 for all other kinds.
    """

    kind: str
    box: Box
    confidence: float
    words: tuple[int, ...] = ()
    level: int = 0


@dataclass(frozen=True)
class FoundField:
    """A key with its value.

    Attributes:
        name: Name of the rule, such as ``"total"``; empty for a pair that was found without a rule.
        key: Printed label; empty for a value that was found without a label.
        value: Value as printed.
        key_words, value_words: Indices of the words of key and value in `PageContent`.
        confidence: Estimated reliability of the field, in [0, 1].
    """

    name: str
    key: str
    value: str
    key_words: tuple[int, ...]
    value_words: tuple[int, ...]
    confidence: float


@dataclass(frozen=True)
class PageStructure:
    """Everything that was found on a page.

    Attributes:
        width, height: Size of the page, in the unit of all boxes.
        regions: `FoundRegion` objects in reading order.
        tables: `FoundTable` objects in any order.
        fields: `FoundField` objects in any order.
    """

    width: float
    height: float
    regions: tuple[FoundRegion, ...] = ()
    tables: tuple[FoundTable, ...] = ()
    fields: tuple[FoundField, ...] = ()
