"""The words of an annotated page: where they are, what they say, and their pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgumentError

__all__ = ["WORD_COLUMNS", "BoxUnit", "Words", "crop_word", "words_of"]

BoxUnit: TypeAlias = Literal["auto", "pixels", "relative"]

#: The columns that say what words there are.
WORD_COLUMNS = frozenset(("boxes", "texts", "text"))

# Relative coordinates may lie somewhat beyond the page; no page with words is as small as this in pixels.
_MAX_RELATIVE = 2.0


@dataclass(frozen=True)
class Words:
    """The words of a page.

    Attributes:
        boxes: float64 (N, 4), as (xmin, ymin, xmax, ymax), or (N, 4, 2), four points from the top left one on in
            reading direction.
        texts: What they say; ``None`` if nobody knows.
        numbers: Which of the boxes are words: those whose text is not blank.
        is_relative: Whether coordinates are shares of the width and the height of the page; else pixels.
    """

    boxes: NDArray[np.float64]
    texts: tuple[str, ...] | None
    numbers: tuple[int, ...]
    is_relative: bool


def words_of(columns: Mapping[str, Any], name: str, unit: BoxUnit) -> Words | None:
    """The words that the columns ``boxes`` and ``texts`` of a page annotate; ``None`` if there are no such columns.

    >>> words_of({"boxes": [[8, 4, 20, 9], [0, 0, 3, 3]], "texts": ["Dear", " "]}, "page.png", "auto").numbers
    (0,)

    Args:
        columns: The columns of the page.
        name: What the page is called.
        unit: Of the coordinates. "auto": whole numbers (of an integer type), and any beyond 2, are pixels.

    Raises:
        InvalidArgumentError: if they are not as described.
    """
    if columns.get("boxes") is None:
        return None
    given = _array(columns["boxes"], name)
    texts = _texts(columns.get("texts"), len(given), name)
    numbers = tuple(i for i in range(len(given)) if texts is None or texts[i].strip())
    is_integer = np.issubdtype(given.dtype, np.integer)
    boxes = given.astype(np.float64)
    if not np.isfinite(boxes).all():
        raise InvalidArgumentError(f"The boxes of {name} must be finite.")
    is_small = not is_integer and bool((np.abs(boxes) <= _MAX_RELATIVE).all())
    return Words(boxes, texts, numbers, is_small if unit == "auto" else unit == "relative")


def _array(value: Any, name: str) -> NDArray[Any]:
    try:
        boxes = np.asarray(value)
    except (TypeError, ValueError):
        boxes = np.empty(0, dtype=object)
    if boxes.size == 0 and boxes.dtype != object:
        return np.empty((0, 4))
    if boxes.shape[1:] == (2, 2):
        boxes = boxes.reshape(-1, 4)
    if boxes.dtype.kind not in "iuf" or boxes.shape[1:] not in ((4,), (4, 2)):
        raise InvalidArgumentError(
            f"The boxes of {name} must be numbers of shape (N, 4), as (xmin, ymin, xmax, ymax), or (N, 4, 2), four "
            f"points each (got {boxes.dtype} of shape {boxes.shape})."
        )
    return boxes


def _texts(value: Any, num_boxes: int, name: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    texts = tuple(value) if isinstance(value, list | tuple | np.ndarray) else ()
    if len(texts) != num_boxes or not all(isinstance(text, str) for text in texts):
        raise InvalidArgumentError(
            f"The texts of {name} must be a list of as many strings as there are boxes, {num_boxes} "
            f"(got {len(texts)} in a {type(value).__name__})."
        )
    return tuple(map(str, texts))


def crop_word(page: NDArray[np.uint8], words: Words, number: int, name: str) -> NDArray[np.uint8]:
    """The picture of a word, set upright: (h, w, 3) uint8, contiguous.

    Args:
        page: (H, W, 3) uint8.
        words: Those of the page.
        number: Of its box.
        name: What the page is called.

    Raises:
        InvalidArgumentError: if the box holds no pixel of the page, or has four points and more area than the page.
    """
    from ..ocr.utils.geometry import extract_crops, extract_rcrops

    height, width = page.shape[:2]
    box = words.boxes[number]
    size = np.array([width, height], dtype=np.float64)
    if box.ndim == 2:
        quad = box if not words.is_relative else box * size
        _check_area(quad, page, name)
        (crop,) = extract_rcrops(page, (quad / size)[None])
    elif words.is_relative:
        (crop,) = extract_crops(page, box[None])
    else:
        pixels = np.round(box).clip(0, [width, height, width, height]).astype(np.int64)
        (crop,) = extract_crops(page, pixels[None])
    if crop.size == 0:
        raise InvalidArgumentError(
            f"Box {number} of {name}, {box.tolist()}, holds no pixel of the page, which is {width} wide and {height} "
            "high. Are the coordinates pixels or shares of the page? See box_unit."
        )
    return crop


def _check_area(quad: NDArray[np.float64], page: NDArray[np.uint8], name: str) -> None:
    """Raise if a crop would be larger than the page: annotations may say anything."""
    along, down = math.dist(*quad[:2].tolist()), math.dist(*quad[1:3].tolist())
    height, width = page.shape[:2]
    if not along * down <= height * width:
        raise InvalidArgumentError(
            f"A box of {name} measures {along:.0f}x{down:.0f} pixels, more than the page, which is {width} wide and "
            f"{height} high."
        )
