"""Put the content of a page into reading order: its blocks and tables, the words of each line, or its predictions.

The order of boxes is computed by `ocr._reading_order`. This module applies it to elements.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..._reading_order.boxes import (
    deskew_reading_geometries,
    detect_text_direction,
    normalize_layout_label,
    row_numbers,
)
from ..._reading_order.ordering import (
    ReadingOrderPredictor,
    assign_layout_labels,
    covering_regions,
    resolve_reading_segments,
)
from ...utils.geometry import box_around, reading_geometry, to_corners, to_quad
from .elements import Block, Line, Prediction, UnreadLine, Word
from .pages import LayoutElement, PageBase, PredictionPage, Table, TextPage

_VERTICAL = ("ttb-rtl", "ttb-ltr")
# Measuring the slope of a page of straight boxes needs this many lines, each this many times as long as it is high.
_MIN_SLOPES = 3
_MIN_SLOPE_WIDTH = 5.0

# Control characters, surrogates and non-characters. XML 1.0 forbids most of them, even as references; HTML the rest.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_SPACES = re.compile("[\t\n\v\f\r\x85\u2028\u2029]+")

# Indices of elements that form one item, and the label of their layout region.
_Item = tuple[list[int], str | None]


def page_language(page: PageBase) -> Any:
    """Return the language of a page, or ``None`` if it is unknown."""
    return page.language.get("value") if isinstance(page.language, dict) else None


def _extents(geometries: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([box_around(geometry) for geometry in geometries]).reshape(-1, 4)


def _group_segments(segments: list[list[int]], labels: Sequence[str | None], regions: Sequence[int]) -> list[_Item]:
    """Group lines into items, which become blocks. Each segment has the indices of lines that belong together.

    A segment becomes a single item, unless its lines are list items. Such a segment is divided: each run of lines in
    the same layout region becomes an item.
    """
    items: list[_Item] = []
    last_region = -1
    for segment in segments:
        label = labels[segment[0]]
        if normalize_layout_label(label) != "list_item":
            items.append((list(segment), label))
            last_region = -1
            continue
        for member in segment:
            if regions[member] != -1 and regions[member] == last_region:
                items[-1][0].append(member)
            else:
                items.append(([member], label))
            last_region = regions[member]
    return items


def page_reading_order(page: TextPage, direction: str = "auto") -> tuple[list[Block | Table], list[str | None], str]:
    """Return the blocks and tables of a page in reading order.

    Lines are grouped into new blocks, one for each paragraph.

    Args:
        page: The page. It is not changed.
        direction: 'auto' (detected from the text), 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'. The last two are vertical
            text, with the first line at the right or at the left.

    Returns:
        The tuple (items, types, direction). ``items`` is a list of the `Block` and `Table` objects in order. ``types``
        is a list with the type of each item's layout region, such as "Title", or ``None``. ``direction`` is the reading
        direction, which is never 'auto'.

    Raises:
        InvalidArgumentError: if ``direction`` is invalid.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, Word, page_reading_order
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> items, labels, direction = page_reading_order(page)
        >>> [item.render() for item in items], direction
        (['Total'], 'ltr')
    """
    lines = [line for block in page.blocks for line in block.lines]
    elements: list[Line | Table] = [*lines, *page.tables]
    words = [word for line in lines for word in line.words]
    is_auto = direction == "auto"
    texts = [word.value for word in words]
    predictor = ReadingOrderPredictor(direction=direction)
    direction = predictor.resolve_direction(texts, language=page_language(page))
    if not elements:
        return [], [], direction
    if page.in_reading_order and is_auto:
        return *_stored_order(page), direction

    geometries, regions = _upright_geometries(page, elements, page.layout)
    labels: list[str | None] = [None] * len(elements)
    if page.layout:
        labels = list(assign_layout_labels(geometries, regions, [region.type for region in page.layout]))
    labels[len(lines) :] = ["Table"] * len(page.tables)
    boxes = _extents(geometries)
    covering = covering_regions(boxes, _extents(regions))
    rows = _rows(page, lines, boxes, list(zip(labels, covering, strict=True)), direction)
    segments = resolve_reading_segments(geometries, direction=direction, labels=labels, rows=rows)
    items = _group_segments(segments, labels, covering)
    return _make_blocks(items, elements, page.blocks), [label for _, label in items], direction


def _stored_order(page: TextPage) -> tuple[list[Block | Table], list[str | None]]:
    """Return (items, types): the blocks of a page in their present order, with the tables inserted at their places.

    ``types`` has the type of the layout region of each item, or ``None``.
    """
    items: list[Block | Table] = _insert(page, page.blocks, page.tables)
    labels: list[str | None] = [None] * len(items)
    if page.layout:
        geometries, regions = _upright_geometries(page, items, page.layout)
        labels = list(assign_layout_labels(geometries, regions, [region.type for region in page.layout]))
    return items, ["Table" if isinstance(item, Table) else label for item, label in zip(items, labels, strict=True)]


def heading_levels(page: TextPage, items: Sequence[Block | Table]) -> list[int]:
    """Return the heading level of each item: 1 or more for section headers of known level, 0 for all other items."""
    headers = [region for region in page.layout if region.level]
    if not headers:
        return [0] * len(items)
    geometries, regions = _upright_geometries(page, items, headers)
    covering = covering_regions(_extents(geometries), _extents(regions))
    return [0 if index < 0 else headers[index].level for index in covering]


def unread_lines(page: PageBase) -> list[UnreadLine]:
    """Return the unread lines of a page. Partly read lines are left out, because they are already in the blocks."""
    return [line for line in page.unread if line.reason != "gaps"]


def with_unread_lines(page: PageBase, items: Sequence[Block | Table]) -> list[Block | Table | UnreadLine]:
    """Insert the unread lines of a page between its blocks and tables. ``items`` are in reading order."""
    return _insert(page, items, unread_lines(page))


_Others = TypeVar("_Others", Table, UnreadLine)


def _insert(page: PageBase, items: Sequence[Block | Table], others: Sequence[_Others]) -> list[Block | Table | _Others]:
    """Insert ``others`` between ``items``, which are in reading order.

    The middle of each of ``others`` is compared with the top of the nearest item in the same column. If the middle is
    lower, the element is inserted after the item, and otherwise before it.
    """
    ordered: list[Block | Table | _Others] = []
    if not items:
        ordered += sorted(others, key=lambda element: float(np.asarray(element.geometry)[:, 1].min()))
        return ordered
    geometries, places = _upright_geometries(page, items, others)
    boxes, frames = _extents(geometries), _extents(places)
    slots: list[list[_Others]] = [[] for _ in range(len(items) + 1)]
    for index in np.lexsort((frames[:, 0], frames[:, 1])).tolist():
        left, top, right, bottom = frames[index]
        middle = (top + bottom) / 2
        beside = np.maximum(np.maximum(boxes[:, 0] - right, left - boxes[:, 2]), 0)
        above_or_below = np.maximum(np.maximum(boxes[:, 1] - middle, middle - boxes[:, 3]), 0)
        nearest = int(np.lexsort((beside, above_or_below, beside > 0))[0])
        slots[nearest + bool(boxes[nearest, 1] < middle)].append(others[index])
    ordered += slots[0]
    for item, followers in zip(items, slots[1:], strict=True):
        ordered.append(item)
        ordered += followers
    return ordered


def _upright_geometries(
    page: PageBase, elements: Sequence[Block | Line | Table], regions: Sequence[LayoutElement | Table | UnreadLine] = ()
) -> tuple[list[Any], list[Any]]:
    """Return the geometries of ``elements`` and of ``regions`` after turning the page upright.

    If there are only upright boxes, the rotation of the page is the ``crop_orientation`` that most words have.
    Otherwise, it is measured on the corners of the words.
    """
    lines = [line for item in elements for line in (item.lines if isinstance(item, Block) else [item])]
    words = [word for line in lines if isinstance(line, Line) for word in line.words]
    geometries = [element.geometry for element in elements]
    quarters = _quarter_turns(words)
    if quarters and all(len(geometry) == 2 for geometry in geometries):
        turned = [_rotate_back(geometry, quarters) for geometry in geometries]
        return turned, [_rotate_back(region.geometry, quarters) for region in regions]

    return deskew_reading_geometries(
        geometries,
        [region.geometry for region in regions],
        page_shape=page.dimensions,
        angle_geoms=[word.geometry for word in words],
    )


def _quarter_turns(words: Sequence[Word]) -> int:
    """Return the clockwise rotation of most of the words, in quarter turns from 0 to 3."""
    turns = [word.crop_orientation.get("value") or 0 for word in words]
    quarters, counts = np.unique(np.round(np.array(turns, dtype=np.float64) / 90).astype(int) % 4, return_counts=True)
    return int(quarters[counts.argmax()]) if len(turns) else 0


def _rotate_back(geometry: Any, quarters: int) -> Any:
    """Return the upright box around ``geometry`` after ``quarters`` counter-clockwise quarter turns of the page."""
    points = np.asarray(geometry, dtype=np.float64)
    for _ in range(quarters):
        points = np.stack([points[:, 1], 1 - points[:, 0]], axis=1)
    return to_corners(box_around(points))


def _rows(
    page: PageBase,
    lines: Sequence[Line],
    boxes: NDArray[np.float64],
    kinds: Sequence[tuple[str | None, int]],
    direction: str,
) -> list[list[int]]:
    """Group ``boxes`` into rows, and return the indices of the boxes in each row.

    ``boxes`` has the boxes of ``lines``, followed by the boxes of tables. Each table is a row of its own. Lines form a
    row if they are at the same height and have the same entry in ``kinds``: (type, number) of their layout region.
    """
    rows = [[index] for index in range(len(boxes))]
    if direction in _VERTICAL or len(lines) < 2:
        return rows
    upright = _without_slope(page, lines, boxes[: len(lines)])
    if direction == "rtl":
        upright[:, [0, 2]] = -upright[:, [2, 0]]
    numbers = row_numbers(upright)
    order = np.lexsort((boxes[: len(lines), 0], numbers)).tolist()
    level_rows: list[list[int]] = []
    for index in order:
        if level_rows and numbers[level_rows[-1][0]] == numbers[index] and kinds[level_rows[-1][0]] == kinds[index]:
            level_rows[-1].append(index)
        else:
            level_rows.append([index])
    if direction == "rtl":
        level_rows = [row[::-1] for row in level_rows]
    return sorted(level_rows, key=min) + rows[len(lines) :]


def line_boxes(page: PageBase, lines: Sequence[Line]) -> NDArray[np.float64]:
    """Return the box of each line after turning the page upright, float64 (N, 4). The unit is the page's width."""
    return _without_slope(page, lines, _extents(_upright_geometries(page, lines)[0]))


def _without_slope(page: PageBase, lines: Sequence[Line], boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert ``boxes`` of lines to units of the page's width, and correct a slight slope of the page.

    The slope is measured on long lines, from the positions of their first and last words. Each box is then moved up or
    down.
    """
    height, width = page.dimensions
    quarters = _quarter_turns([word for line in lines for word in line.words])
    if quarters % 2:
        height, width = width, height
    scaled: NDArray[np.float64] = boxes * ([1.0, height / width if height and width else 1.0] * 2)
    if quarters:
        return scaled
    spans = [
        (line.words[0], line.words[-1], box) for line, box in zip(lines, scaled, strict=True) if len(line.words) > 1
    ]
    slopes, weights = [], []
    for first, last, box in spans:
        if len(first.geometry) == 2 == len(last.geometry) and box[2] - box[0] > _MIN_SLOPE_WIDTH * (box[3] - box[1]):
            (x, y), (other_x, other_y) = (np.mean(word.geometry, axis=0) * (width, height) for word in (first, last))
            if other_x > x:
                slopes.append((other_y - y) / (other_x - x))
                weights.append(other_x - x)
    if len(slopes) < _MIN_SLOPES:
        return scaled
    order = np.argsort(slopes)
    middle = np.searchsorted(np.cumsum(np.array(weights)[order]), sum(weights) / 2)
    slope = float(np.array(slopes)[order][middle])
    scaled[:, [1, 3]] -= slope * (scaled[:, [0]] + scaled[:, [2]]) / 2
    return scaled


def _make_blocks(items: list[_Item], elements: Sequence[Line | Table], blocks: Sequence[Block]) -> list[Block | Table]:
    """Return a block for each item that consists of lines, and the table for each item that is a table.

    The artefacts of each old block (in ``blocks``) go to the new block that contains the first of its lines.
    """
    owners = {id(line): index for index, block in enumerate(blocks) for line in block.lines}
    waiting = {index: block.artefacts for index, block in enumerate(blocks) if block.artefacts}
    built: list[Block | Table] = []
    for indices, _ in items:
        members = [elements[index] for index in indices]
        if isinstance(members[0], Table):
            built.append(members[0])
            continue
        lines = [member for member in members if isinstance(member, Line)]
        artefacts = [artefact for line in lines for artefact in waiting.pop(owners[id(line)], ())]
        built.append(Block(lines=lines, artefacts=artefacts))
    left_over = [artefact for artefacts in waiting.values() for artefact in artefacts]
    last = next((block for block in reversed(built) if isinstance(block, Block)), None)
    if last is not None:
        last.artefacts.extend(left_over)
    return built


def line_direction(line: Line, direction: str, auto: bool) -> str:
    """Return the reading direction of a line. ``direction`` is the direction of the page.

    ``auto`` states that the direction of the page was detected from its text. In this case, the direction of each line
    is also detected, because it can differ: for example, a Hebrew page may contain a quotation in English.
    """
    if direction in _VERTICAL or not auto or len(line.words) < 2:
        return direction

    return detect_text_direction([word.value for word in line.words])


def ordered_line_words(line: Line, direction: str = "ltr", auto: bool = False) -> list[Word]:
    """Return the words of a line in reading order.

    Args:
        line: The line. Its words must be stored from left to right.
        direction: The reading direction of the page: 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
        auto: Whether the direction of the page was detected from its text. If so, the direction of the line is detected
            from the text of the line.

    Returns:
        A new list of the words, in reading order.

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
    # "Left" is relative to the top of a word: on an upside-down page, the first word from the right has the smallest x.
    points = np.asarray(line.words[0].geometry, dtype=np.float64)
    top_side = points[1] - points[0] if len(points) == 4 else np.array([1.0, 0.0])
    distances = centers[:, 1] if direction in _VERTICAL else -centers @ top_side
    return [line.words[index] for index in np.argsort(distances, kind="stable")]


def cell_lines(words: Sequence[Word]) -> list[list[Word]]:
    """Divide the words of a table cell into lines. The words must be in reading order.

    A word starts a new line if its middle is clearly higher or lower than the middle of the previous word.
    """
    lines: list[list[Word]] = []
    before: NDArray[np.float64] | None = None
    for word in words:
        quad = to_quad(reading_geometry(word.geometry, word.crop_orientation.get("value")))
        is_beside = False
        if before is not None:
            down = before[[3, 2]].mean(axis=0) - before[[0, 1]].mean(axis=0)
            is_beside = 2 * abs(float((quad.mean(axis=0) - before.mean(axis=0)) @ down)) < float(down @ down)
        if is_beside:
            lines[-1].append(word)
        else:
            lines.append([word])
        before = quad
    return lines


def predictions_in_reading_order(
    page: PredictionPage, predictions: Sequence[Prediction], direction: str = "auto"
) -> list[Prediction]:
    """Return the predictions of one class in reading order.

    Args:
        page: The page that the predictions are on. Only its size and language are used.
        predictions: The predictions.
        direction: 'auto' (detected from the text), 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'. The last two are vertical
            text, with the first line at the right or at the left.

    Returns:
        A new list of the predictions, in reading order.

    Raises:
        InvalidArgumentError: if ``direction`` is invalid.

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
    predictor = ReadingOrderPredictor(direction=direction)
    if len(predictions) < 2:
        return list(predictions)
    geometries, shape = [prediction.geometry for prediction in predictions], page.dimensions
    quarters = _quarter_turns(predictions)
    if quarters and all(len(geometry) == 2 for geometry in geometries):
        geometries = [_rotate_back(geometry, quarters) for geometry in geometries]
        shape = (shape[1], shape[0]) if quarters % 2 else shape
    texts = [prediction.value for prediction in predictions]
    order = predictor(geometries, texts=texts, language=page_language(page), page_shape=shape)
    return [predictions[index] for index in order]


def one_line(text: str) -> str:
    """Return a text as one line, for any format. Line breaks and tabs become a space; control characters are removed.

    >>> one_line("a\\tb\\x00c")
    'a bc'
    """
    return _UNPRINTABLE.sub("", _SPACES.sub(" ", text))
