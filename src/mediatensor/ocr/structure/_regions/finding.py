"""Regions: what a page consists of, in the order in which it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .._content import Boxes, PageContent, turned_back
from .._found import Box, FoundRegion, FoundTable
from .blocks import Block, blocks_of
from .kinds import PageLook, is_captioned, is_prose, kinds_of
from .levels import levels_of
from .lines import around, lines_of
from .order import order_of
from .patterns import FIGURE
from .pictures import pictures_of

__all__ = ["find_regions"]

# So many words make a label of a picture at most, and so many lines.
_MAX_LABEL_WORDS = 12
# A caption goes with what is no further away, in heights of the type.
_CAPTION_REACH = 4.0


def find_regions(content: PageContent, tables: Sequence[FoundTable] = ()) -> list[FoundRegion]:
    """Find the regions of a page.

    Words become lines, lines paragraphs, and paragraphs are told apart by rules: size and weight of the type, place,
    marks and numbers, neighbours. Columns are read one after the other; captions stand next to what they describe;
    headers come first, footnotes and then footers last.

    Args:
        content: The page.
        tables: What `find_tables` found on it: the words inside belong to them.

    Returns:
        The regions, in reading order. Each word is in one of them at most.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.structure import PageContent, find_regions
        >>> boxes = np.array([[10, 10, 60, 30], [10, 60, 50, 70], [54, 60, 90, 70], [10, 73, 40, 83]], float)
        >>> page = PageContent(
        ...     100, 140, boxes, ("Title", "Some", "running", "text."), np.array([0, 1, 1, 2]), np.ones(4),
        ...     np.full(4, np.nan), np.array([True, False, False, False]),
        ... )
        >>> [(region.kind, region.words) for region in find_regions(page)]
        [('Title', (0,)), ('Text', (1, 2, 3))]
    """
    if _reads_leftwards(content.texts):
        mirrored = [replace(table, box=_mirrored_box(table.box, content.width)) for table in tables]
        found = _find(_mirrored(content), mirrored)
        return [replace(region, box=_mirrored_box(region.box, content.width)) for region in found]
    return _find(content, tables)


def _find(content: PageContent, tables: Sequence[FoundTable]) -> list[FoundRegion]:
    """The regions of a page that is read from left to right."""
    tables = [table for table in tables if not _is_figure(table, content)]
    table_boxes = np.array([table.box for table in tables], dtype=np.float64).reshape(-1, 4)
    of_table, free = _table_words(content, tables, table_boxes)
    is_sideways = content.turns[free] % 180 == 90
    sideways, free = free[is_sideways], free[~is_sideways]
    walls = np.concatenate([table_boxes, content.pictures])
    lines = lines_of(content, free, walls)
    if lines:
        sizes = np.repeat([line.size for line in lines], [max(1, len(line.text)) for line in lines])
        size = float(np.median(sizes))
    else:
        size = content.height / 60
    blocks = blocks_of(lines, content.horizontal_rules)
    rules = np.concatenate([content.horizontal_rules, content.vertical_rules])
    is_label = [_is_label(block) for block in blocks]
    pictures, labels = pictures_of(content.pictures, rules, blocks, is_label, table_boxes, size)
    labelling = {index for group in labels for index in group}
    letters = [len(content.texts[index]) for index in free]
    look = PageLook(
        content.width,
        content.height,
        size,
        float((content.is_bold[free] * letters).sum() / max(1, sum(letters))),
        pictures,
        [table.box for table in tables],
        content.horizontal_rules,
    )
    text = [block for index, block in enumerate(blocks) if index not in labelling]
    columns = _boxes([block for block in text if is_prose(block)])
    text = [text[index] for index in order_of(_boxes(text), size, columns)]
    kinds = kinds_of(text, look)
    regions = [
        FoundRegion(kind, block.box, confidence, block.words)
        for block, (kind, confidence) in zip(text, kinds, strict=True)
    ]
    level_of = levels_of(text, [kind for kind, _ in kinds])
    regions = [replace(region, level=level) for region, level in zip(regions, level_of, strict=True)]
    regions = _joined(regions, size)
    notes, labels_of = _sideways_text(content, sideways, pictures)
    for box, group, more in zip(pictures, labels, labels_of, strict=True):
        own = tuple(word for index in group for word in blocks[index].words) + more
        regions.append(FoundRegion("Picture", box, 0.8, own))
    for table, members in zip(tables, of_table, strict=True):
        regions.append(FoundRegion("Table", table.box, table.confidence, members))
    return _ordered(regions, size, columns) + notes


def _sideways_text(
    content: PageContent, words: NDArray[np.int64], pictures: Sequence[Box]
) -> tuple[list[FoundRegion], list[tuple[int, ...]]]:
    """Regions of words that are turned by 90 or 270 degrees, which are read last; and those words in pictures.

    Such text would otherwise be cut at each line of upright text beside it.
    """
    regions = []
    for turn in (270, 90):
        upright = content.turned_back(turn)
        lines = lines_of(upright, words[content.turns[words] == turn], np.zeros((0, 4)))
        for block in blocks_of(lines, upright.horizontal_rules):
            (box,) = turned_back(np.array([block.box]), upright.width, upright.height, 360 - turn).tolist()
            regions.append(FoundRegion("Text", tuple(box), 0.8, block.words))
    notes: list[FoundRegion] = []
    labels: list[tuple[int, ...]] = [()] * len(pictures)
    for region in regions:
        x, y = np.reshape(region.box, (2, 2)).mean(axis=0).tolist()
        homes = [number for number, (x0, y0, x1, y1) in enumerate(pictures) if x0 <= x <= x1 and y0 <= y <= y1]
        if homes:
            labels[homes[0]] += region.words
        else:
            notes.append(region)
    return notes, labels


def _is_figure(table: FoundTable, content: PageContent) -> bool:
    """Whether a grid is part of a figure: it touches a picture, and the caption below it says so."""
    if len(content.pictures) == 0 or len(content.boxes) == 0:
        return False
    left, top, right, bottom = table.box
    height = float(np.median(content.boxes[:, 3] - content.boxes[:, 1]))
    pictures = content.pictures
    touching = (pictures[:, 0] <= right + height) & (pictures[:, 2] >= left - height)
    touching &= (pictures[:, 1] <= bottom + height) & (pictures[:, 3] >= top - height)
    tops = content.boxes[:, 1]
    below = np.flatnonzero((tops > bottom - 0.5 * height) & (tops < bottom + _CAPTION_REACH * height))
    if not touching.any() or len(below) == 0:
        return False
    row = below[tops[below] < tops[below].min() + 0.5 * height]
    return FIGURE.match(content.texts[row[content.boxes[row, 0].argmin()]]) is not None


def _boxes(parts: Sequence[Block]) -> Boxes:
    return np.array([part.box for part in parts], dtype=np.float64).reshape(-1, 4)


def _is_label(block: Block) -> bool:
    if is_captioned(block) or is_prose(block):
        return False
    return max(len(line.words) for line in block.lines) <= _MAX_LABEL_WORDS


def _reads_leftwards(texts: Sequence[str]) -> bool:
    """Whether most letters are Hebrew or Arabic."""
    letters = [character for text in texts for character in text if character.isalpha()]
    leftwards = sum("\u0590" <= letter <= "\u08ff" or "\ufb1d" <= letter <= "\ufefc" for letter in letters)
    return 2 * leftwards > len(letters)


def _mirrored_box(box: Box, width: float) -> Box:
    return width - box[2], box[1], width - box[0], box[3]


def _mirrored(content: PageContent) -> PageContent:
    def flip(boxes: Boxes) -> Boxes:
        return np.stack([content.width - boxes[:, 2], boxes[:, 1], content.width - boxes[:, 0], boxes[:, 3]], axis=1)

    return replace(
        content,
        boxes=flip(content.boxes),
        horizontal_rules=flip(content.horizontal_rules),
        vertical_rules=flip(content.vertical_rules),
        pictures=flip(content.pictures),
    )


def _table_words(
    content: PageContent, tables: Sequence[FoundTable], table_boxes: Boxes
) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """The words of each table, and those of none."""
    middles = (content.boxes[:, :2] + content.boxes[:, 2:]) / 2
    free = np.ones(len(content.texts), dtype=bool)
    of_table = []
    for table, box in zip(tables, table_boxes, strict=True):
        inside = free & (middles >= box[:2]).all(axis=1) & (middles <= box[2:]).all(axis=1)
        named = dict.fromkeys(word for cell in table.cells for word in cell.words if free[word])
        named.update(dict.fromkeys(np.flatnonzero(inside).tolist()))
        of_table.append(tuple(named))
        free[list(named)] = False
    return of_table, np.flatnonzero(free)


def _joined(regions: list[FoundRegion], size: float) -> list[FoundRegion]:
    """Put together the parts of a formula, of a title, of a caption, and of a row in the margin."""
    joined: list[FoundRegion] = []
    for region in regions:
        # What stands in the margin may be anywhere in the order of the columns.
        reach = len(joined) if region.kind.startswith("Page-") else 6
        for index in range(len(joined) - 1, max(-1, len(joined) - 1 - reach), -1):
            other = joined[index]
            if other.kind == region.kind and _are_one(other, region, size):
                box = around(np.array([other.box, region.box]))
                joined[index] = replace(other, box=box, words=other.words + region.words)
                break
        else:
            joined.append(region)
    return joined


def _are_one(first: FoundRegion, second: FoundRegion, size: float) -> bool:
    (left, top, right, bottom), other = first.box, second.box
    across, down = max(other[0] - right, left - other[2], 0.0), max(other[1] - bottom, top - other[3], 0.0)
    level = min(bottom, other[3]) - max(top, other[1]) > 0.3 * min(bottom - top, other[3] - other[1])
    if first.kind in ("Page-header", "Page-footer"):
        return level or (across == 0 and down < 0.8 * size)
    if first.kind == "Formula":
        return level or (across < 3 * size and down < 0.8 * size)
    if first.kind == "Caption":
        return across == 0 and down < 0.6 * size
    return first.kind == "Title" and across == 0 and down < 1.2 * (other[3] - other[1])


def _ordered(regions: list[FoundRegion], size: float, columns: Boxes) -> list[FoundRegion]:
    """Regions as they are read: headers, the body with captions at their figures, footnotes, footers."""
    order = _sorted(regions, "Page-header", size, columns)
    body = [region for region in regions if region.kind not in ("Page-header", "Page-footer", "Footnote")]
    # A figure or table and its captions are one for the order.
    groups = [[region] for region in body if region.kind != "Caption"]
    for caption in (region for region in body if region.kind == "Caption"):
        distances = [
            _reach(caption.box, group[0].box) if group[0].kind in ("Picture", "Table") else np.inf for group in groups
        ]
        nearest = int(np.argmin(distances)) if distances else -1
        if nearest >= 0 and distances[nearest] <= _CAPTION_REACH * size:
            groups[nearest].append(caption)
        else:
            groups.append([caption])
    outer = np.array([around(np.array([region.box for region in group])) for group in groups]).reshape(-1, 4)
    for index in order_of(outer, size, columns):
        inner = np.array([region.box for region in groups[index]])
        order += [groups[index][place] for place in order_of(inner, size, columns)]
    return order + _sorted(regions, "Footnote", size, columns) + _sorted(regions, "Page-footer", size, columns)


def _sorted(regions: list[FoundRegion], kind: str, size: float, columns: Boxes) -> list[FoundRegion]:
    chosen = [region for region in regions if region.kind == kind]
    return [
        chosen[index] for index in order_of(np.array([region.box for region in chosen]).reshape(-1, 4), size, columns)
    ]


def _reach(caption: Box, other: Box) -> float:
    """How far a caption is from a figure: beside it counts twice."""
    across = max(other[0] - caption[2], caption[0] - other[2], 0.0)
    down = max(other[1] - caption[3], caption[1] - other[3], 0.0)
    return down + 2 * across
