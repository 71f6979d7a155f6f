"""What stands on a page in the order in which it is read: blocks and tables, words of a line, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._block_elements import Block, Line
from ._leaf_elements import Prediction, Table, Word
from ._page_base import PageBase

if TYPE_CHECKING:
    from ._page_exports import KIEPageExportsMixin, PageExportsMixin

__all__ = ["line_direction", "ordered_line_words", "page_reading_order", "predictions_in_reading_order"]

_VERTICAL = ("ttb-rtl", "ttb-ltr")
_MIN_COVERAGE = 0.5


@dataclass
class _Item:
    """One item of the page as it is put together: members by index, and the label of its region."""

    members: list[int]
    label: str | None
    region: int = -1


def _resolved_direction(page: PageBase, texts: Sequence[str], direction: str) -> str:
    from ..models.reading_order import ReadingOrderPredictor

    language = page.language.get("value") if isinstance(page.language, dict) else None
    return ReadingOrderPredictor(direction=direction).resolve_direction(texts, language=language)


def _extents(geometries: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    boxes = np.empty((len(geometries), 4))
    for row, geometry in zip(boxes, geometries, strict=True):
        points = np.asarray(geometry, dtype=np.float64).reshape(-1, 2)
        row[:2], row[2:] = points.min(axis=0), points.max(axis=0)
    return boxes


def _covering_regions(geometries: Sequence[Any], regions: Sequence[Any]) -> list[int]:
    """For each geometry the index of the region that covers most of it, -1 where none covers half."""
    if len(regions) == 0:
        return [-1] * len(geometries)
    boxes, frames = _extents(geometries)[:, None], _extents(regions)[None]
    sides = np.minimum(boxes[..., 2:], frames[..., 2:]) - np.maximum(boxes[..., :2], frames[..., :2])
    areas = np.maximum((boxes[..., 2:] - boxes[..., :2]).prod(axis=-1), 1e-9)
    coverage = np.maximum(sides, 0).prod(axis=-1) / areas
    best = coverage.argmax(axis=1)
    covered = coverage[np.arange(len(best)), best] >= _MIN_COVERAGE
    return np.where(covered, best, -1).tolist()  # type: ignore[no-any-return]


def _grouped(segments: list[list[int]], labels: Sequence[str | None], regions: Sequence[int]) -> list[_Item]:
    """Turn segments into items: lines of list items become one item a region, all other segments one item each."""
    from ..models.reading_order import normalize_layout_label

    items: list[_Item] = []
    for segment in segments:
        label = labels[segment[0]]
        if normalize_layout_label(label) != "list_item":
            items.append(_Item(list(segment), label))
            continue
        for member in segment:
            region = regions[member]
            if items and region != -1 and items[-1].region == region:
                items[-1].members.append(member)
            else:
                items.append(_Item([member], label, region))
    return items


def page_reading_order(
    page: PageExportsMixin, direction: str = "auto"
) -> tuple[list[Block | Table], list[str | None], str]:
    """Put what a page holds into the order in which it is read, lines grouped into paragraphs.

    Args:
        page: The page; it is not changed.
        direction: 'auto' (from the script of the words), 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.

    Returns:
        The blocks and tables in order; for each the type of its region in the layout (``None`` without one);
        the direction that was found.

    Raises:
        InvalidArgumentError: if the direction is none of those.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, Word, page_reading_order
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> items, labels, direction = page_reading_order(page)
        >>> [item.render() for item in items], direction
        (['Total'], 'ltr')
    """
    from ..models.reading_order import (
        assign_layout_labels,
        deskew_reading_geometries,
        resolve_reading_segments,
    )

    lines = [line for block in page.blocks for line in block.lines]
    elements: list[Line | Table] = [*lines, *page.tables]
    words = [word for line in lines for word in line.words]
    direction = _resolved_direction(page, [word.value for word in words], direction)
    if not elements:
        return [], [], direction

    geometries, regions = deskew_reading_geometries(
        [element.geometry for element in elements],
        [region.geometry for region in page.layout],
        page_shape=page.dimensions,
        angle_geoms=[word.geometry for word in words],
    )
    labels: list[str | None] = [None] * len(elements)
    if page.layout:
        labels = list(assign_layout_labels(geometries, regions, [region.type for region in page.layout]))
    labels[len(lines) :] = ["Table"] * len(page.tables)
    segments = resolve_reading_segments(geometries, direction=direction, labels=labels)
    items = _grouped(segments, labels, _covering_regions(geometries, regions))
    return _built(items, elements, page.blocks), [item.label for item in items], direction


def _built(items: list[_Item], elements: Sequence[Line | Table], blocks: Sequence[Block]) -> list[Block | Table]:
    """Make blocks of the lines of each item; artefacts go where the first line of their block went."""
    owners = {id(line): index for index, block in enumerate(blocks) for line in block.lines}
    waiting = {index: block.artefacts for index, block in enumerate(blocks) if block.artefacts}
    contents: list[Table | tuple[list[Line], list[Any]]] = []
    for item in items:
        members = [elements[index] for index in item.members]
        if isinstance(members[0], Table):
            contents.append(members[0])
            continue
        lines = [member for member in members if isinstance(member, Line)]
        artefacts = [artefact for line in lines for artefact in waiting.pop(owners[id(line)], ())]
        contents.append((lines, artefacts))
    built: list[Block | Table] = [
        content if isinstance(content, Table) else Block(lines=content[0], artefacts=content[1]) for content in contents
    ]
    left_over = [artefact for artefacts in waiting.values() for artefact in artefacts]
    last = next((block for block in reversed(built) if isinstance(block, Block)), None)
    if last is not None:
        last.artefacts.extend(left_over)
    return built


def line_direction(line: Line, direction: str, auto: bool) -> str:
    """The direction in which the words of a line follow each other.

    Args:
        line: The line.
        direction: The direction of the page.
        auto: Whether that was found from the text; a line may then go another way than the page, as a Latin
            quotation on a Hebrew page does.
    """
    if direction in _VERTICAL or not auto or len(line.words) < 2:
        return direction

    from ..models.reading_order import detect_text_direction

    return detect_text_direction([word.value for word in line.words])


def ordered_line_words(line: Line, direction: str = "ltr", auto: bool = False) -> list[Word]:
    """The words of a line in the order in which they are read.

    Args:
        line: The line, its words from left to right.
        direction: The direction of the page.
        auto: Whether that was found from the text; the line may then go another way than the page.

    Returns:
        The words.

    Example:
        >>> from mediatensor.ocr.io import Line, Word
        >>> from mediatensor.ocr.io.exporters import ordered_line_words
        >>> upright = {"value": 0, "confidence": None}
        >>> boxes = {"left": ((0.1, 0.1), (0.2, 0.2)), "right": ((0.3, 0.1), (0.4, 0.2))}
        >>> line = Line([Word(text, 0.9, box, 0.9, upright) for text, box in boxes.items()])
        >>> [word.value for word in ordered_line_words(line, "rtl")]
        ['right', 'left']
    """
    direction = line_direction(line, direction, auto)
    if direction == "ltr" or not line.words:
        return list(line.words)
    centers = np.array([np.asarray(word.geometry, dtype=np.float64).mean(axis=0) for word in line.words])
    # From right to left is against the top side of a word: on a page that is upside down, right is where x is small.
    distances = centers[:, 1] if direction in _VERTICAL else -centers @ _top_side(line.words[0])
    return [line.words[index] for index in np.argsort(distances, kind="stable")]


def _top_side(word: Word) -> np.ndarray[Any, np.dtype[np.float64]]:
    """From the first to the second point of a word with four points; along x for a box."""
    points = np.asarray(word.geometry, dtype=np.float64)
    return points[1] - points[0] if len(points) == 4 else np.array([1.0, 0.0])


def predictions_in_reading_order(
    page: KIEPageExportsMixin, predictions: Sequence[Prediction], direction: str = "auto"
) -> list[Prediction]:
    """The predictions of one class in the order in which they are read.

    Args:
        page: The page that they are on; gives its size and its language.
        predictions: The predictions.
        direction: 'auto', 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.

    Returns:
        The predictions, in order.

    Raises:
        InvalidArgumentError: if the direction is none of those.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import KIEPage, Prediction
        >>> from mediatensor.ocr.io.exporters import predictions_in_reading_order
        >>> upright = {"value": 0, "confidence": None}
        >>> boxes = {"second": ((0.1, 0.5), (0.9, 0.6)), "first": ((0.1, 0.1), (0.9, 0.2))}
        >>> found = [Prediction(text, 0.9, box, 0.9, upright) for text, box in boxes.items()]
        >>> page = KIEPage(np.zeros((80, 120, 3), np.uint8), {"words": found}, 0, (80, 120))
        >>> [prediction.value for prediction in predictions_in_reading_order(page, page.predictions["words"])]
        ['first', 'second']
    """
    from ..models.reading_order import ReadingOrderPredictor

    if len(predictions) < 2:
        return list(predictions)
    language = page.language.get("value") if isinstance(page.language, dict) else None
    order = ReadingOrderPredictor(direction=direction)(
        [prediction.geometry for prediction in predictions],
        texts=[prediction.value for prediction in predictions],
        language=language,
        page_shape=page.dimensions,
    )
    return [predictions[index] for index in order]
