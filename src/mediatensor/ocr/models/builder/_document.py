"""Build documents from the words of pages: lines, blocks, tables, fields and other elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ...._engine.common.checks import real_number
from ....errors import InvalidArgumentError
from ...io._elements.elements import Block, Character, Line, Prediction, Word
from ...io._elements.page_order import ordered_line_words, page_reading_order
from ...io._elements.pages import LayoutElement
from ...io.elements import Document, KIEDocument, KIEPage, Page
from ...structure import PageStructure
from ...utils.geometry import box_around, boxes_around, to_corners
from .._lines.cutting import Straightening
from .._lines.page_lines import ClassWords, geometries_of
from ._parts import (
    block_numbers,
    fields_of,
    found_tables,
    frame_order,
    layout_of,
    line_numbers,
    skewed_quads,
    tables_of_grids,
    upright_boxes,
)


@dataclass(frozen=True)
class FoundStructure:
    """What rules and networks found on a page besides its words."""

    found: PageStructure | None = None  # by rules
    regions: Mapping[str, Any] | None = None  # by a network
    grids: Any = None  # tables, found by a network


@dataclass
class PageWords:
    """All recognition results for one page. A builder converts them to a page of the document.

    ``words`` are grouped by class. For a text document there is only one class, whose name does not matter. Boxes are
    relative to the upright page, whose height and width are ``shape``. If ``image`` is not upright, ``to_upright`` is
    the transform that makes it upright. If it was made upright, ``made_upright_by`` is the transform that did this.
    """

    image: Any
    shape: tuple[int, int]
    words: dict[str, ClassWords]
    orientation: dict[str, Any] | None = None
    language: dict[str, Any] | None = None
    error: str | None = None
    to_upright: Straightening | None = None
    made_upright_by: Straightening | None = None
    structure: FoundStructure = field(default_factory=FoundStructure)


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


class DocumentBuilder(BuilderSettings):
    """Builds a `Document` from the recognised words of pages, by arranging the words into lines and blocks.

    Words at about the same height on the page form a row. A row is split into lines at gaps that are clearly wider than
    most gaps between words on the page, and at every gap of at least ``paragraph_break``. The order of the input words
    does not affect the result.

    >>> import numpy as np
    >>> from mediatensor.ocr.models.builder import DocumentBuilder
    >>> boxes = np.array([[0.30, 0.1, 0.40, 0.14], [0.10, 0.1, 0.29, 0.14], [0.10, 0.2, 0.25, 0.24]])
    >>> document = DocumentBuilder()(
    ...     [np.zeros((100, 100, 3), np.uint8)],
    ...     [boxes],
    ...     [np.array([0.9, 0.8, 0.7])],
    ...     [[("world", 0.99), ("Hello", 0.98), ("again", 0.97)]],
    ...     [(100, 100)],
    ...     [[{"value": 0, "confidence": None}] * 3],
    ... )
    >>> [line.render() for line in document.pages[0].blocks[0].lines]
    ['Hello world', 'again']

    Args:
        resolve_lines, resolve_blocks, paragraph_break, export_as_straight_boxes, keep_reading_order, line_break: As for
            `ocr_predictor`.

    Raises:
        InvalidArgumentError: if ``paragraph_break`` or ``line_break`` is negative or not a number.
    """

    def __call__(
        self,
        pages: Sequence[Any],
        boxes: Sequence[np.ndarray],
        objectness_scores: Sequence[np.ndarray],
        text_preds: Sequence[Sequence[tuple[str, float]]],
        page_shapes: Sequence[tuple[int, int]],
        crop_orientations: Sequence[Sequence[dict[str, Any]]],
        orientations: Sequence[dict[str, Any]] | None = None,
        languages: Sequence[dict[str, Any]] | None = None,
        regions: Sequence[Mapping[str, Any] | None] | None = None,
        tables: Sequence[Any] | None = None,
        *,
        line_ids: Sequence[np.ndarray | None] | None = None,
        characters: Sequence[Sequence[Sequence[Character]] | None] | None = None,
        errors: Sequence[str | None] | None = None,
        structures: Sequence[PageStructure | None] | None = None,
    ) -> Document:
        """Build a document from the words of its pages.

        Args:
            pages: The images of the pages.
            boxes: For each page, the boxes of its N words relative to the page, in [0, 1]. Axis-aligned boxes are
                ``(N, 4)``: xmin, ymin, xmax, ymax. Rotated boxes are ``(N, 4, 2)``: corners (x, y), from the top left
                of the text.
            objectness_scores: For each page, the detector's score in [0, 1] for each of the N words.
            text_preds: For each page, a pair of text and confidence in [0, 1] for each of the N words.
            page_shapes: For each page, height and width in pixels.
            crop_orientations: For each page, the rotation of each of the N words, as
                ``{"value": degrees, "confidence": ...}``.
            orientations: For each page, its orientation as ``{"value": degrees, "confidence": ...}``.
            languages: For each page, its language as ``{"value": code, "confidence": ...}``.
            regions: For each page, the regions found by a `LayoutPredictor`, as
                ``{"boxes": ..., "class_names": [...], "scores": [...]}``, or None.
            tables: For each page, None, or the cells of its tables as
                ``{"cells": [{"geometry", "score", "row_start", "row_end", "col_start", "col_end"}, ...]}``. Words whose
                center lies in a cell or close to it belong to the cell and not to a block.
            line_ids: For each page, N integers: the number of the detected line from which each word was cut, or a
                negative number if the detector found the word itself. Words of one detected line stay in one line,
                unless a gap between them is at least two line heights wide, as between form fields.
            characters: For each page, a list of `Character` objects for each of the N words, or None.
            errors: For each page, the reason why the page could not be read, or None.
            structures: For each page, the regions, tables and fields that rules found, or None. If there are regions
                and ``keep_reading_order`` is set, the words of each region form their own blocks, in the order of the
                regions.

        Returns:
            The document, a `Document` with one page for each item of ``pages``.

        Raises:
            InvalidArgumentError: if arguments have different numbers of pages or words, or if boxes are not finite or
                have another shape.
        """
        number = _check_lengths(boxes, pages, text_preds, crop_orientations, objectness_scores, page_shapes)
        words = [
            {"words": ClassWords(*arrays)}
            for arrays in zip(
                boxes,
                objectness_scores,
                text_preds,
                crop_orientations,
                _per_page(line_ids, number, "line_ids"),
                _per_page(characters, number, "characters"),
                strict=True,
            )
        ]
        return self._build(
            _gather_pages(pages, page_shapes, words, orientations, languages, errors, structures, regions, tables)
        )

    def _build(self, pages: Sequence[PageWords]) -> Document:
        return Document([_build_text_page(self, number, page) for number, page in enumerate(pages)])


class KIEDocumentBuilder(BuilderSettings):
    """Builds a `KIEDocument` from the recognised words of pages, grouped by class, for key information extraction.

    See `DocumentBuilder` for the arguments. Only ``export_as_straight_boxes`` has an effect, because words are not
    grouped into lines or blocks.
    """

    def __call__(
        self,
        pages: Sequence[Any],
        boxes: Sequence[Mapping[str, np.ndarray]],
        objectness_scores: Sequence[Mapping[str, np.ndarray]],
        text_preds: Sequence[Mapping[str, Sequence[tuple[str, float]]]],
        page_shapes: Sequence[tuple[int, int]],
        crop_orientations: Sequence[Mapping[str, Sequence[dict[str, Any]]]],
        orientations: Sequence[dict[str, Any]] | None = None,
        languages: Sequence[dict[str, Any]] | None = None,
        regions: Sequence[Mapping[str, Any] | None] | None = None,
        tables: Sequence[Any] | None = None,
        *,
        characters: Sequence[Mapping[str, Sequence[Sequence[Character]]] | None] | None = None,
        errors: Sequence[str | None] | None = None,
        structures: Sequence[PageStructure | None] | None = None,
    ) -> KIEDocument:
        """Build a document of predictions, which are words that belong to a class.

        Args:
            boxes, objectness_scores, text_preds, crop_orientations, characters: The words of each page: a dictionary
                that maps each class name to the words of this class, in the format of `DocumentBuilder`.
            pages, page_shapes, orientations, languages, regions, errors: Facts about each page, in the format of
                `DocumentBuilder`.
            tables: Must be None, or None for each page: tables are not supported.
            structures: For each page, the regions and fields that rules found in the words of all classes, or None.
                Each field that has a name is also added to the predictions, in the class with this name.

        Returns:
            A `KIEDocument`. On each page, the predictions of a class are sorted from top to bottom and from left to
            right.

        Raises:
            InvalidArgumentError: if arguments have different numbers of pages or words, ``tables`` is given, or boxes
                are not finite or have another shape.
        """
        number = _check_lengths(boxes, pages, text_preds, crop_orientations, objectness_scores, page_shapes)
        if tables is not None and any(tables):
            raise InvalidArgumentError(
                "pages of predictions have no tables: leave the argument out, or None for every page"
            )
        words = [
            {
                name: ClassWords(
                    class_boxes,
                    objectness_scores[index][name],
                    list(text_preds[index][name]),
                    list(crop_orientations[index][name]),
                    characters=None if spelled is None or name not in spelled else list(spelled[name]),
                )
                for name, class_boxes in boxes[index].items()
            }
            for index, spelled in enumerate(_per_page(characters, number, "characters"))
        ]
        return self._build(
            _gather_pages(pages, page_shapes, words, orientations, languages, errors, structures, regions, None)
        )

    def _build(self, pages: Sequence[PageWords]) -> KIEDocument:
        return KIEDocument([_build_kie_page(self, number, page) for number, page in enumerate(pages)])


_SAME_LENGTHS = ("boxes", "pages", "text_preds", "crop_orientations", "objectness_scores", "page_shapes")


def _check_lengths(*arguments: Sequence[Any]) -> int:
    """Return the number of pages in the arguments `_SAME_LENGTHS`; raise unless each has one item for each page."""
    lengths = {name: len(argument) for name, argument in zip(_SAME_LENGTHS, arguments, strict=True)}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InvalidArgumentError(f"All arguments are expected to be lists of the same size: {listed}")
    return lengths["boxes"]


def _per_page(argument: Sequence[Any] | None, number: int, name: str) -> Sequence[Any]:
    """Return ``argument``, or a None for each of ``number`` pages. Raise an error if it has another length."""
    if argument is None:
        return [None] * number
    if len(argument) != number:
        raise InvalidArgumentError(f"{name} has {len(argument)} items for {number} pages: give one for each page")
    return argument


def _gather_pages(
    pages: Sequence[Any],
    page_shapes: Sequence[tuple[int, int]],
    words: Sequence[dict[str, ClassWords]],
    *facts: Sequence[Any] | None,
) -> list[PageWords]:
    names = ("orientations", "languages", "errors", "structures", "regions", "tables")
    optional = [_per_page(argument, len(words), name) for name, argument in zip(names, facts, strict=True)]
    return [
        PageWords(image, shape, by_class, orientation, language, error, structure=FoundStructure(*structure))
        for image, shape, by_class, orientation, language, error, *structure in zip(
            pages, page_shapes, words, *optional, strict=True
        )
    ]


def _build_text_page(settings: BuilderSettings, number: int, read: PageWords) -> Page:
    (given,) = read.words.values()
    _check_words(given, f"page {number}")
    words = _make_elements(Word, given, settings.export_as_straight_boxes)
    structure = read.structure.found or PageStructure(1.0, 1.0)
    is_rotated = given.boxes.ndim == 3 and not settings.export_as_straight_boxes
    quads = _skewed_quads(settings, read, given)
    if quads is not None:
        for word, quad in zip(words, geometries_of(quads), strict=True):
            word.geometry = quad
    boxes = given.boxes if quads is None else quads
    tables, is_used = tables_of_grids(read.structure.grids, given.boxes, words, read.shape, is_rotated)
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
                boxes[group],
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
    if quads is not None:
        for word, box in zip(words, geometries_of(given.boxes), strict=True):
            word.geometry = box
        for block in page.blocks:
            for line in block.lines:
                line.geometry = to_corners(box_around([word.geometry for word in line.words]))
            block.geometry = to_corners(box_around([line.geometry for line in block.lines]))
    return page


def _skewed_quads(settings: BuilderSettings, read: PageWords, words: ClassWords) -> np.ndarray | None:
    """Return tilted quads of the words of a skewed page, to order them; None for others and pages with a structure."""
    if words.boxes.ndim == 3 or read.to_upright or read.structure.found or read.structure.regions:
        return None
    is_upright = all(not turn["value"] for turn in words.orientations)
    if not settings.keep_reading_order or not is_upright or read.structure.grids:
        return None
    return skewed_quads(words.boxes, words.line_ids, read.shape)


def _build_kie_page(settings: BuilderSettings, number: int, read: PageWords) -> KIEPage:
    classes = {}
    for name, given in read.words.items():
        _check_words(given, f"class {name!r} of page {number}")
        classes[name] = _make_elements(Prediction, given, settings.export_as_straight_boxes)
    structure = read.structure.found or PageStructure(1.0, 1.0)
    has_quads = any(given.boxes.ndim == 3 for given in read.words.values())
    is_rotated = has_quads and not settings.export_as_straight_boxes
    fields = fields_of(structure, [word for words in classes.values() for word in words], is_rotated)
    predictions = {}
    for name, words in classes.items():
        order = frame_order(upright_boxes(read.words[name].boxes, read.shape)[0]) if words else np.arange(0)
        predictions[name] = [words[index] for index in order.tolist()]
    for one in fields:
        if one.name:
            upright = {"value": 0, "confidence": None}
            found = Prediction(one.value, one.confidence, one.geometry, one.confidence, upright)
            predictions.setdefault(one.name, []).append(found)
    common = _common_arguments(settings, number, read, structure, is_rotated)
    return KIEPage(predictions=predictions, fields=fields, **common)


def _common_arguments(
    settings: BuilderSettings, number: int, read: PageWords, structure: PageStructure, is_rotated: bool
) -> dict[str, Any]:
    unread = [copy(line) for words in read.words.values() for line in words.unread]
    if settings.export_as_straight_boxes:
        for line in unread:
            line.geometry = to_corners(box_around(line.geometry))
    return {
        "page": read.image,
        "page_idx": number,
        "dimensions": read.shape,
        "orientation": read.orientation,
        "language": read.language,
        "layout": [*_layout_elements(read.structure.regions), *layout_of(structure, is_rotated)],
        "error": read.error,
        "unread": unread,
    }


def _check_words(words: ClassWords, place: str) -> None:
    """Raise an error unless every field of ``words`` has one item for each word; the error mentions ``place``."""
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


def _layout_elements(regions: Mapping[str, Any] | None) -> list[LayoutElement]:
    """Convert regions in the format of `DocumentBuilder` to layout elements. Names and scores may be missing."""
    if regions is None or len(regions.get("boxes", ())) == 0:
        return []
    boxes = np.asarray(regions["boxes"], dtype=np.float64)
    names = regions.get("class_names") or [""] * len(boxes)
    scores = regions.get("scores")
    scores = [1.0] * len(boxes) if scores is None else scores
    _check_boxes(boxes, "the layout", class_names=names, scores=scores)
    return [
        LayoutElement(str(name), float(score), geometry)
        for name, score, geometry in zip(names, scores, geometries_of(boxes), strict=True)
    ]


_READING_DIRECTIONS: dict[Any, tuple[int, int]] = {90: (0, 1), 180: (-1, 0), -90: (0, -1), 270: (0, -1)}
"""The reading direction of text in a straight box, by the turn of the text in degrees."""

_WordType = TypeVar("_WordType", Word, Prediction)


def _make_elements(kind: type[_WordType], words: ClassWords, straight_boxes: bool) -> list[_WordType]:
    boxes = boxes_around(words.boxes) if straight_boxes and words.boxes.ndim == 3 else words.boxes
    parts: Sequence[Sequence[Character]] = [()] * len(boxes) if words.characters is None else words.characters
    if straight_boxes:
        parts = [_straighten_characters(part) for part in parts]
    return [
        kind(value, confidence, geometry, float(score), orientation, characters=part)
        for (value, confidence), geometry, score, orientation, part in zip(
            words.texts, geometries_of(boxes), words.scores, words.orientations, parts, strict=True
        )
    ]


def _straighten_characters(characters: Sequence[Character]) -> Sequence[Character]:
    if not characters or len(characters[0].geometry) == 2:
        return characters
    boxes = geometries_of(boxes_around(np.asarray([one.geometry for one in characters])))
    return [Character(one.value, one.confidence, box) for one, box in zip(characters, boxes, strict=True)]


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
    """Group words into lines, and return these with their boxes ``(L, 4)``; see `upright_boxes` for the arguments."""
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
    """Put a page into reading order in place: as one line with all words if ``resolve_lines`` is false."""
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
    """Return the indices of the words in each region, then of other words, without used words and empty groups."""
    is_free, groups = ~is_used, []
    for region in structure.regions:
        region_words = np.array(region.words, dtype=np.int64)
        groups.append(region_words[is_free[region_words]])
        is_free[region_words] = False
    groups.append(np.flatnonzero(is_free))
    return [group for group in groups if len(group)]


def _sort_in_reading_direction(words: list[Word]) -> list[Word]:
    """Sort the words of a line from left to right into reading order: only turned words with straight boxes move."""
    turns = {word.crop_orientation.get("value") for word in words}
    direction = _READING_DIRECTIONS.get(turns.pop()) if len(turns) == 1 else None
    if direction is None or len(words[0].geometry) != 2:
        return words
    return sorted(words, key=lambda word: float(np.mean(word.geometry, axis=0) @ direction))
