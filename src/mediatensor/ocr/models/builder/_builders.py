"""From words with places to documents: lines, blocks, pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

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
    Word,
)
from ...io.exporters import ordered_line_words, page_reading_order
from ...structure import PageStructure
from ._lines import block_numbers, frame_order, line_numbers, upright_boxes
from ._structure import fields_of, found_tables, layout_of, tables_of_grids

__all__ = ["DocumentBuilder", "KIEDocumentBuilder"]


def check_lengths(**arguments: Sequence[Any]) -> int:
    """Return the number of pages that all arguments agree on.

    Raises:
        InvalidArgumentError: if they do not agree.
    """
    lengths = {name: len(argument) for name, argument in arguments.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InvalidArgumentError(f"All arguments are expected to be lists of the same size: {listed}")
    return lengths["boxes"]


def per_page(argument: Sequence[Any] | None, number: int, name: str) -> Sequence[Any]:
    """An optional argument, page by page: None for each page where it is not given.

    Raises:
        InvalidArgumentError: if it has another number of pages.
    """
    if argument is None:
        return [None] * number
    if len(argument) != number:
        raise InvalidArgumentError(f"{name} has {len(argument)} items for {number} pages: give one for each page")
    return argument


def check_words(boxes: np.ndarray, page: str, **arguments: Sequence[Any] | np.ndarray | None) -> None:
    """Check that every array of a page speaks of the same words.

    Args:
        boxes: ``(N, 4)`` or ``(N, 4, 2)``.
        page: Names the page in messages.
        **arguments: Arrays and lists that must have N items, where they are given.

    Raises:
        InvalidArgumentError: if the boxes have another shape or are not finite, or an argument has another length.
    """
    if not ((boxes.ndim == 2 and boxes.shape[1] >= 4) or (boxes.ndim == 3 and boxes.shape[1:] == (4, 2))):
        raise InvalidArgumentError(f"boxes of {page} have shape {boxes.shape}, should be (N, 4) or (N, 4, 2)")
    if not np.isfinite(boxes).all():
        raise InvalidArgumentError(f"boxes of {page} hold coordinates that are not finite")
    for name, argument in arguments.items():
        if argument is not None and len(argument) != len(boxes):
            raise InvalidArgumentError(
                f"Incompatible argument lengths: {page} has {len(boxes)} boxes and {len(argument)} {name}. "
                "What drops or adds boxes must do the same to all that belongs to them."
            )


def refuse_tables(tables: Sequence[Any] | None) -> None:
    """Refuse tables on pages of predictions, which have no place for them; an argument that holds none is fine.

    Raises:
        InvalidArgumentError: if a page has one.
    """
    if tables is not None and any(tables):
        raise InvalidArgumentError(
            "pages of predictions have no tables: leave the argument out, or None for every page"
        )


def straight(boxes: np.ndarray) -> np.ndarray:
    """The straight boxes ``(N, 4)`` around quads ``(N, 4, 2)``; straight boxes as they are."""
    return np.concatenate((boxes.min(axis=1), boxes.max(axis=1)), axis=1) if boxes.ndim == 3 else boxes


def layout_elements(regions: Mapping[str, Any] | None) -> list[LayoutElement]:
    """Elements for the regions of one page.

    Args:
        regions: ``{"boxes": (R, 4) or (R, 4, 2), "class_names": [...], "scores": [...]}``, names and scores optional.

    Returns:
        One element for each region.

    Raises:
        InvalidArgumentError: if there are not as many names or scores as boxes.
    """
    if regions is None or len(regions.get("boxes", ())) == 0:
        return []
    boxes = np.asarray(regions["boxes"], dtype=np.float64)
    names = regions.get("class_names") or [""] * len(boxes)
    scores = regions.get("scores")
    scores = [1.0] * len(boxes) if scores is None else scores
    check_words(boxes, "the layout", class_names=names, scores=scores)
    return [
        LayoutElement(str(name), float(score), geometry)
        for name, score, geometry in zip(names, scores, geometries(boxes), strict=True)
    ]


def geometries(boxes: np.ndarray) -> list[tuple[tuple[float, float], ...]]:
    """The geometries of elements: two corners of a straight box, four points of a quad."""
    corners = boxes if boxes.ndim == 3 else boxes[:, :4].reshape(-1, 2, 2)
    return [tuple((x, y) for x, y in points) for points in corners.tolist()]


_READING_DIRECTIONS: dict[Any, tuple[int, int]] = {90: (0, 1), 180: (-1, 0), -90: (0, -1), 270: (0, -1)}
"""Where the text of a straight box goes on that is turned by so many degrees."""

_WordType = TypeVar("_WordType", Word, Prediction)


class _Builder:
    """The settings that both builders have; see `DocumentBuilder`."""

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
        """The settings, for the representation."""
        return ", ".join(f"{name}={value}" for name, value in vars(self).items())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def _elements(
        self,
        kind: type[_WordType],
        boxes: np.ndarray,
        scores: np.ndarray,
        texts: Sequence[tuple[str, float]],
        orientations: Sequence[dict[str, Any]],
        characters: Sequence[Sequence[Character]] | None,
    ) -> list[_WordType]:
        """One word, or prediction, for each box."""
        exported = straight(boxes) if self.export_as_straight_boxes else boxes
        parts: Sequence[Sequence[Character]] = [()] * len(boxes) if characters is None else characters
        return [
            kind(value, confidence, geometry, float(score), orientation, characters=self._characters(members))
            for (value, confidence), geometry, score, orientation, members in zip(
                texts, geometries(exported), scores, orientations, parts, strict=True
            )
        ]

    def _characters(self, characters: Sequence[Character]) -> Sequence[Character]:
        if not self.export_as_straight_boxes or not characters or len(characters[0].geometry) == 2:
            return characters
        boxes = geometries(straight(np.asarray([character.geometry for character in characters])))
        return [
            Character(character.value, character.confidence, box)
            for character, box in zip(characters, boxes, strict=True)
        ]


class DocumentBuilder(_Builder):
    """Arranges the words of pages into lines and blocks.

    Words of about one height make a row; a row is cut into lines where a gap is wider than the page's words have, and
    in any case at ``paragraph_break``. The same words give the same document, in whatever order they come.

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
        resolve_lines: Whether to gather words into lines; otherwise all words of a page are one line.
        resolve_blocks: Whether to gather lines into blocks; otherwise all lines of a page are one block.
        paragraph_break: The gap, relative to the width of the page, from which on two words of a row are in different
            lines.
        export_as_straight_boxes: Whether to replace rotated boxes with the straight ones around them.
        keep_reading_order: Whether to arrange what is on each page as it is read: blocks are then paragraphs, or the
            rows of a table, whatever ``resolve_blocks`` says, and words follow each other as they are read.
        line_break: The widest gap between two lines of a block, in heights of a line; for ``resolve_blocks``.

    Raises:
        InvalidArgumentError: if a break is negative or not a number.
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
        """Build a document.

        Args:
            pages: The images of the pages.
            boxes: For each page, relative boxes of its N words: ``(N, 4)``, or ``(N, 4, 2)`` with corners in reading
                direction.
            objectness_scores: For each page, N scores of the detector.
            text_preds: For each page, N texts with their confidences.
            page_shapes: For each page, height and width in pixels.
            crop_orientations: For each page, N dictionaries ``{"value": degrees, "confidence": ...}``.
            orientations: For each page, such a dictionary of its own.
            languages: For each page, a dictionary ``{"value": code, "confidence": ...}``.
            regions: For each page, its layout ``{"boxes": ..., "class_names": [...], "scores": [...]}``, or None.
            tables: For each page, None, or its tables as ``{"cells": [{"geometry", "score", "row_start", "row_end",
                "col_start", "col_end"}, ...]}``. Words whose middle lies in a cell are its text, and in no block.
            line_ids: For each page, N integers: which detected line a word was cut from, negative for none. Words of
                one line stay together unless a gap of two heights parts them, as between the fields of a form.
            characters: For each page, the characters of its N words.
            errors: For each page, why it could not be read, or None.
            structures: For each page, the regions, tables and fields that were found by rules, or None. If it has
                regions, these are the blocks, in their order.

        Returns:
            The document.

        Raises:
            InvalidArgumentError: if arguments do not speak of the same pages and words, or boxes are not finite or of
                another shape.
        """
        number = check_lengths(
            boxes=boxes,
            pages=pages,
            text_preds=text_preds,
            crop_orientations=crop_orientations,
            objectness_scores=objectness_scores,
            page_shapes=page_shapes,
        )
        orientations = per_page(orientations, number, "orientations")
        languages = per_page(languages, number, "languages")
        regions = per_page(regions, number, "regions")
        tables = per_page(tables, number, "tables")
        structures = per_page(structures, number, "structures")
        line_ids = per_page(line_ids, number, "line_ids")
        characters = per_page(characters, number, "characters")
        errors = per_page(errors, number, "errors")
        built = []
        for index in range(number):
            check_words(
                boxes[index],
                f"page {index}",
                objectness_scores=objectness_scores[index],
                text_preds=text_preds[index],
                crop_orientations=crop_orientations[index],
                line_ids=line_ids[index],
                characters=characters[index],
            )
            words = self._elements(
                Word,
                boxes[index],
                objectness_scores[index],
                text_preds[index],
                crop_orientations[index],
                characters[index],
            )
            structure, is_rotated = structures[index] or PageStructure(1.0, 1.0), boxes[index].ndim == 3
            found, is_used = tables_of_grids(tables[index], boxes[index], words, page_shapes[index])
            found += found_tables(structure, words, is_rotated)
            is_used[[word for table in structure.tables for cell in table.cells for word in cell.words]] = True
            is_ordered = self.keep_reading_order and len(structure.regions) > 0
            groups = _words_by_region(structure, is_used) if is_ordered else [np.flatnonzero(~is_used)]
            ids = line_ids[index]
            page = Page(
                pages[index],
                [
                    block
                    for group in groups
                    for block in self._blocks(
                        [words[word] for word in group.tolist()],
                        boxes[index][group],
                        page_shapes[index],
                        None if ids is None else ids[group],
                    )
                ],
                index,
                page_shapes[index],
                orientations[index],
                languages[index],
                [*layout_elements(regions[index]), *layout_of(structure, is_rotated)],
                found,
                error=errors[index],
                fields=fields_of(structure, words, is_rotated),
                in_reading_order=is_ordered,
            )
            if self.keep_reading_order:
                self._arrange(page)
            built.append(page)
        return Document(built)

    def _blocks(
        self, words: list[Word], boxes: np.ndarray, shape: tuple[int, int], line_ids: np.ndarray | None
    ) -> list[Block]:
        if not words:
            return []
        # With export_as_straight_boxes too, lines follow from what is known of the words' angle.
        upright, aspect = upright_boxes(boxes, shape)
        if not self.resolve_lines:
            return [Block([Line([words[index] for index in frame_order(upright).tolist()])])]
        lines, line_boxes = self._lines(words, upright, aspect, line_ids)
        if not self.resolve_blocks or len(lines) < 2:
            return [Block(lines)]
        blocks: dict[int, list[Line]] = {}
        for line, block in zip(lines, block_numbers(line_boxes, aspect, self.line_break).tolist(), strict=True):
            blocks.setdefault(block, []).append(line)
        return [Block(members) for members in blocks.values()]

    def _lines(
        self, words: list[Word], upright: np.ndarray, aspect: float, line_ids: np.ndarray | None = None
    ) -> tuple[list[Line], np.ndarray]:
        """The lines of words, and their upright boxes ``(L, 4)``."""
        order, numbers = line_numbers(upright, aspect, self.paragraph_break, line_ids)
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        lines = [Line(_as_read([words[index] for index in line.tolist()])) for line in np.split(order, starts[1:])]
        extents = upright[order]
        lows, highs = np.minimum.reduceat(extents[:, :2], starts), np.maximum.reduceat(extents[:, 2:], starts)
        return lines, np.concatenate((lows, highs), axis=1)

    def _arrange(self, page: Page) -> None:
        """Put the content of a page into reading order: paragraphs, or the words where lines are not wanted."""
        if not page.blocks:
            return
        if not self.resolve_lines:
            words = [word for block in page.blocks for line in block.lines for word in line.words]
            boxes = np.array([word.geometry for word in words])
            boxes = boxes.reshape(-1, 4) if boxes.shape[1] == 2 else boxes
            page.blocks = [Block(self._lines(words, *upright_boxes(boxes, page.dimensions))[0])]
        items, _, direction = page_reading_order(page)
        page.in_reading_order = True
        page.blocks = [item for item in items if isinstance(item, Block)]
        for line in (line for block in page.blocks for line in block.lines):
            line.words = ordered_line_words(line, direction, auto=True)
        if not self.resolve_lines:
            page.blocks = [
                Block([Line([word for block in page.blocks for line in block.lines for word in line.words])])
            ]


def _words_by_region(structure: PageStructure, is_used: np.ndarray) -> list[np.ndarray]:
    """The words of each region in turn, without those of tables; then those that are in no region."""
    left, groups = ~is_used, []
    for region in structure.regions:
        own = np.array(region.words, dtype=np.int64)
        groups.append(own[left[own]])
        left[own] = False
    groups.append(np.flatnonzero(left))
    return [group for group in groups if len(group)]


def _as_read(words: list[Word]) -> list[Word]:
    """The words of a line, which come from left to right, in the order of one that is turned in straight boxes."""
    turns = {word.crop_orientation.get("value") for word in words}
    direction = _READING_DIRECTIONS.get(turns.pop()) if len(turns) == 1 else None
    if direction is None or len(words[0].geometry) != 2:
        return words
    return sorted(words, key=lambda word: float(np.mean(word.geometry, axis=0) @ direction))


class KIEDocumentBuilder(_Builder):
    """Arranges the words of pages by class (key information extraction); arguments as for `DocumentBuilder`.

    Only the setting ``export_as_straight_boxes`` has an effect: predictions are neither lines nor blocks.
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
        """Build a document of predictions.

        Args:
            pages: The images of the pages.
            boxes: For each page and class, relative boxes of N predictions: ``(N, 4)`` or ``(N, 4, 2)``.
            objectness_scores: For each page and class, N scores of the detector.
            text_preds: For each page and class, N texts with their confidences.
            page_shapes: For each page, height and width in pixels.
            crop_orientations: For each page and class, N dictionaries ``{"value": degrees, "confidence": ...}``.
            orientations: For each page, such a dictionary of its own.
            languages: For each page, a dictionary ``{"value": code, "confidence": ...}``.
            regions: For each page, its layout, or None.
            tables: Not available: None, for the whole or for each page.
            characters: For each page and class, the characters of its N predictions.
            errors: For each page, why it could not be read, or None.
            structures: For each page, the regions and fields that were found by rules in the words of all its classes,
                or None. Fields that have a name are predictions of that class, too.

        Returns:
            The document; predictions of a class are sorted from top to bottom and from left to right.

        Raises:
            InvalidArgumentError: as for `DocumentBuilder`.
        """
        number = check_lengths(
            boxes=boxes,
            pages=pages,
            text_preds=text_preds,
            crop_orientations=crop_orientations,
            objectness_scores=objectness_scores,
            page_shapes=page_shapes,
        )
        refuse_tables(tables)
        orientations = per_page(orientations, number, "orientations")
        languages = per_page(languages, number, "languages")
        regions = per_page(regions, number, "regions")
        spelled = [{} if own is None else own for own in per_page(characters, number, "characters")]
        errors = per_page(errors, number, "errors")
        structures = per_page(structures, number, "structures")
        built = []
        for index in range(number):
            found = {
                name: self._predictions(
                    own,
                    f"class {name!r} of page {index}",
                    objectness_scores[index][name],
                    text_preds[index][name],
                    crop_orientations[index][name],
                    spelled[index].get(name),
                )
                for name, own in boxes[index].items()
            }
            structure = structures[index] or PageStructure(1.0, 1.0)
            is_rotated = any(own.ndim == 3 for own in boxes[index].values())
            fields = fields_of(structure, [word for own in found.values() for word in own], is_rotated)
            predictions = {
                name: self._sorted(own, boxes[index][name], page_shapes[index]) for name, own in found.items()
            }
            for field in fields:
                if field.name:
                    predictions.setdefault(field.name, []).append(_prediction_of(field))
            page = KIEPage(
                pages[index],
                predictions,
                index,
                page_shapes[index],
                orientations[index],
                languages[index],
                [*layout_elements(regions[index]), *layout_of(structure, is_rotated)],
                error=errors[index],
                fields=fields,
            )
            built.append(page)
        return KIEDocument(built)

    def _predictions(
        self,
        boxes: np.ndarray,
        page: str,
        scores: np.ndarray,
        texts: Sequence[tuple[str, float]],
        orientations: Sequence[dict[str, Any]],
        characters: Sequence[Sequence[Character]] | None,
    ) -> list[Prediction]:
        check_words(
            boxes,
            page,
            objectness_scores=scores,
            text_preds=texts,
            crop_orientations=orientations,
            characters=characters,
        )
        return self._elements(Prediction, boxes, scores, texts, orientations, characters)

    def _sorted(self, predictions: list[Prediction], boxes: np.ndarray, shape: tuple[int, int]) -> list[Prediction]:
        if not predictions:
            return []
        return [predictions[index] for index in frame_order(upright_boxes(boxes, shape)[0]).tolist()]


def _prediction_of(field: Field) -> Prediction:
    """A field as a prediction of the class that has its name."""
    upright = {"value": 0, "confidence": None}
    return Prediction(field.value, field.confidence, field.geometry, field.confidence, upright)
