"""Build documents from the words of pages: elements, lines, blocks, tables and fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, overload

import numpy as np

from ...._engine.common.checks import real_number
from ....errors import InvalidArgumentError
from ...io.elements import (
    Block,
    Character,
    Document,
    Field,
    KIEDocument,
    KIEPage,
    LayoutElement,
    Line,
    Page,
    Prediction,
    UnreadLine,
    Word,
)
from ...io.exporters import ordered_line_words, page_reading_order
from ...structure import PageStructure
from ...utils.geometry import box_around, boxes_around, to_corners
from .._lines.page_lines import ClassWords
from .._pages.straightening import Straightening
from ._lines import block_numbers, frame_order, line_numbers, upright_boxes
from ._structure import fields_of, found_tables, layout_of, tables_of_grids

__all__ = ["BuilderSettings", "PageWords", "Structured", "build_document"]


@dataclass(frozen=True)
class Structured:
    """The structure of a page.

    Attributes:
        found: The structure found by rules; None if the rules were not used.
        regions: The regions found by a network: ``{"class_names", "boxes", "scores"}``.
        grids: The tables found by a network, in the format of `DocumentBuilder`.
    """

    found: PageStructure | None = None
    regions: Mapping[str, Any] | None = None
    grids: Any = None


@dataclass
class PageWords:
    """All recognition results for a page.

    Attributes:
        image: The page image for display.
        shape: Height and width of the image to which boxes are relative.
        words: Words by class. Text documents have a single class with any name.
        orientation: The turn of the input page, if it was requested.
        language: The language of the page's text, if it was requested.
        error: The reason why the page could not be read.
        straightened: The transform from ``image`` to the image to which boxes are relative, if they differ.
        structure: Regions, tables and fields, if they were requested.
    """

    image: Any
    shape: tuple[int, int]
    words: dict[str, ClassWords]
    orientation: dict[str, Any] | None = None
    language: dict[str, Any] | None = None
    error: str | None = None
    straightened: Straightening | None = None
    structure: Structured = field(default_factory=Structured)


class BuilderSettings:
    """The settings of a builder; see the arguments of `DocumentBuilder`."""

    def __init__(
        self,
        resolve_lines: bool = True,
        resolve_blocks: bool = False,
        paragraph_break: float = 0.035,
        export_as_straight_boxes: bool = False,
        keep_reading_order: bool = False,
        *,
        line_break: float = 0.8,
    ) -> None:
        for name, value in (("paragraph_break", paragraph_break), ("line_break", line_break)):
            if not real_number(name, value) >= 0:
                raise InvalidArgumentError(f"{name}={value!r}: it must be a number that is not negative")
        self.resolve_lines = resolve_lines
        self.resolve_blocks = resolve_blocks
        self.paragraph_break = paragraph_break
        self.export_as_straight_boxes = export_as_straight_boxes
        self.keep_reading_order = keep_reading_order
        self.line_break = line_break

    def extra_repr(self) -> str:
        """Return the settings for ``repr``."""
        return ", ".join(f"{name}={value}" for name, value in vars(self).items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


@overload
def build_document(settings: BuilderSettings, pages: Sequence[PageWords], by_class: Literal[False]) -> Document: ...


@overload
def build_document(settings: BuilderSettings, pages: Sequence[PageWords], by_class: Literal[True]) -> KIEDocument: ...


@overload
def build_document(settings: BuilderSettings, pages: Sequence[PageWords], by_class: bool) -> Document | KIEDocument: ...


def build_document(settings: BuilderSettings, pages: Sequence[PageWords], by_class: bool) -> Document | KIEDocument:
    """Build a document of lines and blocks, or, if ``by_class``, a document of predictions by class.

    Raises:
        InvalidArgumentError: if the arrays of a class do not describe the same words, or boxes are not finite or have
            another shape.
    """
    if by_class:
        return KIEDocument([_build_kie_page(settings, number, page) for number, page in enumerate(pages)])
    return Document([_build_text_page(settings, number, page) for number, page in enumerate(pages)])


def _build_text_page(settings: BuilderSettings, number: int, read: PageWords) -> Page:
    (given,) = read.words.values()
    check_words(given, f"page {number}")
    words = _make_elements(Word, given, settings.export_as_straight_boxes)
    structure, is_rotated = read.structure.found or PageStructure(1.0, 1.0), given.boxes.ndim == 3
    tables, is_used = tables_of_grids(read.structure.grids, given.boxes, words, read.shape)
    tables += found_tables(structure, words, is_rotated)
    is_used[[word for table in structure.tables for cell in table.cells for word in cell.words]] = True
    is_ordered = settings.keep_reading_order and len(structure.regions) > 0
    groups = _words_by_region(structure, is_used) if is_ordered else [np.flatnonzero(~is_used)]
    page = Page(
        blocks=[
            block
            for group in groups
            for block in _build_blocks(
                settings,
                [words[word] for word in group.tolist()],
                given.boxes[group],
                read.shape,
                None if given.line_ids is None else given.line_ids[group],
            )
        ],
        tables=tables,
        fields=fields_of(structure, words, is_rotated),
        in_reading_order=is_ordered,
        **_common_arguments(settings, number, read, structure, is_rotated),
    )
    if settings.keep_reading_order:
        _arrange(settings, page)
    return page


def _build_kie_page(settings: BuilderSettings, number: int, read: PageWords) -> KIEPage:
    classes = {}
    for name, given in read.words.items():
        check_words(given, f"class {name!r} of page {number}")
        classes[name] = _make_elements(Prediction, given, settings.export_as_straight_boxes)
    structure = read.structure.found or PageStructure(1.0, 1.0)
    is_rotated = any(given.boxes.ndim == 3 for given in read.words.values())
    fields = fields_of(structure, [word for words in classes.values() for word in words], is_rotated)
    predictions = {
        name: _sort_predictions(words, read.words[name].boxes, read.shape) for name, words in classes.items()
    }
    for one in fields:
        if one.name:
            predictions.setdefault(one.name, []).append(_prediction_of(one))
    return KIEPage(
        predictions=predictions,
        fields=fields,
        **_common_arguments(settings, number, read, structure, is_rotated),
    )


def _common_arguments(
    settings: BuilderSettings, number: int, read: PageWords, structure: PageStructure, is_rotated: bool
) -> dict[str, Any]:
    unread = [line for words in read.words.values() for line in words.unread]
    return {
        "page": read.image,
        "page_idx": number,
        "dimensions": read.shape,
        "orientation": read.orientation,
        "language": read.language,
        "layout": [*layout_elements(read.structure.regions), *layout_of(structure, is_rotated)],
        "error": read.error,
        "unread": [_straighten_line(line) for line in unread] if settings.export_as_straight_boxes else unread,
    }


def _straighten_line(line: UnreadLine) -> UnreadLine:
    straightened = copy(line)
    straightened.geometry = to_corners(box_around(line.geometry))
    return straightened


def check_words(words: ClassWords, place: str) -> None:
    """Check that every array of a class has one item for each word.

    Raises:
        InvalidArgumentError: if the boxes have another shape or are not finite, or an array has another length.
    """
    _check_boxes(
        words.boxes,
        place,
        objectness_scores=words.scores,
        text_preds=words.texts,
        crop_orientations=words.orientations,
        line_ids=words.line_ids,
        characters=words.characters,
    )


def _check_boxes(boxes: np.ndarray, page: str, **arguments: Sequence[Any] | np.ndarray | None) -> None:
    if not ((boxes.ndim == 2 and boxes.shape[1] >= 4) or (boxes.ndim == 3 and boxes.shape[1:] == (4, 2))):
        raise InvalidArgumentError(f"boxes of {page} have shape {boxes.shape}, should be (N, 4) or (N, 4, 2)")
    if not np.isfinite(boxes).all():
        raise InvalidArgumentError(f"boxes of {page} hold coordinates that are not finite")
    for name, argument in arguments.items():
        if argument is not None and len(argument) != len(boxes):
            raise InvalidArgumentError(
                f"Incompatible argument lengths: {page} has {len(boxes)} boxes and {len(argument)} {name}. "
                "Code that drops or adds boxes must do the same to the other arguments."
            )


def straight(boxes: np.ndarray) -> np.ndarray:
    """Return the straight boxes ``(N, 4)`` around quads ``(N, 4, 2)``; return straight boxes unchanged."""
    return boxes_around(boxes) if boxes.ndim == 3 else boxes


def layout_elements(regions: Mapping[str, Any] | None) -> list[LayoutElement]:
    """Return layout elements for ``{"boxes": (R, 4) or (R, 4, 2), "class_names": [...], "scores": [...]}``.

    ``class_names`` and ``scores`` are optional.

    Raises:
        InvalidArgumentError: if the number of names or scores differs from the number of boxes.
    """
    if regions is None or len(regions.get("boxes", ())) == 0:
        return []
    boxes = np.asarray(regions["boxes"], dtype=np.float64)
    names = regions.get("class_names") or [""] * len(boxes)
    scores = regions.get("scores")
    scores = [1.0] * len(boxes) if scores is None else scores
    _check_boxes(boxes, "the layout", class_names=names, scores=scores)
    return [
        LayoutElement(str(name), float(score), geometry)
        for name, score, geometry in zip(names, scores, geometries(boxes), strict=True)
    ]


def geometries(boxes: np.ndarray) -> list[tuple[tuple[float, float], ...]]:
    """Return boxes as geometries of elements: two corners for a straight box, four points for a quad."""
    corners = boxes if boxes.ndim == 3 else boxes[:, :4].reshape(-1, 2, 2)
    return [tuple((x, y) for x, y in points) for points in corners.tolist()]


_READING_DIRECTIONS: dict[Any, tuple[int, int]] = {90: (0, 1), 180: (-1, 0), -90: (0, -1), 270: (0, -1)}
"""The reading direction of text in a straight box, by the turn of the text in degrees."""

_WordType = TypeVar("_WordType", Word, Prediction)


def _make_elements(kind: type[_WordType], words: ClassWords, straight_boxes: bool) -> list[_WordType]:
    exported = straight(words.boxes) if straight_boxes else words.boxes
    parts: Sequence[Sequence[Character]] = [()] * len(exported) if words.characters is None else words.characters
    if straight_boxes:
        parts = [_straighten_characters(part) for part in parts]
    return [
        kind(value, confidence, geometry, float(score), orientation, characters=part)
        for (value, confidence), geometry, score, orientation, part in zip(
            words.texts, geometries(exported), words.scores, words.orientations, parts, strict=True
        )
    ]


def _straighten_characters(characters: Sequence[Character]) -> Sequence[Character]:
    if not characters or len(characters[0].geometry) == 2:
        return characters
    boxes = geometries(straight(np.asarray([character.geometry for character in characters])))
    return [
        Character(character.value, character.confidence, box) for character, box in zip(characters, boxes, strict=True)
    ]


def _build_blocks(
    settings: BuilderSettings, words: list[Word], boxes: np.ndarray, shape: tuple[int, int], line_ids: np.ndarray | None
) -> list[Block]:
    if not words:
        return []
    # Lines are computed from rotated boxes even if the exported boxes are straight.
    upright, aspect = upright_boxes(boxes, shape)
    if not settings.resolve_lines:
        return [Block([Line([words[index] for index in frame_order(upright).tolist()])])]
    lines, line_boxes = _build_lines(settings, words, upright, aspect, line_ids)
    if not settings.resolve_blocks or len(lines) < 2:
        return [Block(lines)]
    blocks: dict[int, list[Line]] = {}
    for line, block in zip(lines, block_numbers(line_boxes, aspect, settings.line_break).tolist(), strict=True):
        blocks.setdefault(block, []).append(line)
    return [Block(members) for members in blocks.values()]


def _build_lines(
    settings: BuilderSettings, words: list[Word], upright: np.ndarray, aspect: float, line_ids: np.ndarray | None = None
) -> tuple[list[Line], np.ndarray]:
    """Return the lines, and their upright boxes ``(L, 4)``."""
    order, numbers = line_numbers(upright, aspect, settings.paragraph_break, line_ids)
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    lines = [
        Line(_sort_in_reading_direction([words[index] for index in line.tolist()]))
        for line in np.split(order, starts[1:])
    ]
    extents = upright[order]
    lows, highs = np.minimum.reduceat(extents[:, :2], starts), np.maximum.reduceat(extents[:, 2:], starts)
    return lines, np.concatenate((lows, highs), axis=1)


def _arrange(settings: BuilderSettings, page: Page) -> None:
    """Put the content of a page into reading order: paragraphs, or single words if ``resolve_lines`` is off."""
    if not page.blocks:
        return
    if not settings.resolve_lines:
        words = [word for block in page.blocks for line in block.lines for word in line.words]
        boxes = np.array([word.geometry for word in words])
        boxes = boxes.reshape(-1, 4) if boxes.shape[1] == 2 else boxes
        page.blocks = [Block(_build_lines(settings, words, *upright_boxes(boxes, page.dimensions))[0])]
    items, _, direction = page_reading_order(page)
    page.in_reading_order = True
    page.blocks = [item for item in items if isinstance(item, Block)]
    for line in (line for block in page.blocks for line in block.lines):
        line.words = ordered_line_words(line, direction, auto=True)
    if not settings.resolve_lines:
        page.blocks = [Block([Line([word for block in page.blocks for line in block.lines for word in line.words])])]


def _words_by_region(structure: PageStructure, is_used: np.ndarray) -> list[np.ndarray]:
    """Return the words of each region, then the words outside all regions. Words in tables are excluded."""
    is_free, groups = ~is_used, []
    for region in structure.regions:
        region_words = np.array(region.words, dtype=np.int64)
        groups.append(region_words[is_free[region_words]])
        is_free[region_words] = False
    groups.append(np.flatnonzero(is_free))
    return [group for group in groups if len(group)]


def _sort_in_reading_direction(words: list[Word]) -> list[Word]:
    """Sort the words of a line, given from left to right, in reading direction if straight boxes hold turned text."""
    turns = {word.crop_orientation.get("value") for word in words}
    direction = _READING_DIRECTIONS.get(turns.pop()) if len(turns) == 1 else None
    if direction is None or len(words[0].geometry) != 2:
        return words
    return sorted(words, key=lambda word: float(np.mean(word.geometry, axis=0) @ direction))


def _sort_predictions(predictions: list[Prediction], boxes: np.ndarray, shape: tuple[int, int]) -> list[Prediction]:
    if not predictions:
        return []
    return [predictions[index] for index in frame_order(upright_boxes(boxes, shape)[0]).tolist()]


def _prediction_of(field: Field) -> Prediction:
    """Convert a field to a prediction of the class with the field's name."""
    upright = {"value": 0, "confidence": None}
    return Prediction(field.value, field.confidence, field.geometry, field.confidence, upright)
