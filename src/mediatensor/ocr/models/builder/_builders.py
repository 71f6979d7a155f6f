"""Document builders with docTR's arguments: one list for each property of the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....errors import InvalidArgumentError
from ...io.elements import Character, Document, KIEDocument
from ...structure import PageStructure
from .._lines.page_lines import ClassWords
from ._document import BuilderSettings, PageWords, Structured, build_document

__all__ = ["DocumentBuilder", "KIEDocumentBuilder"]


class DocumentBuilder(BuilderSettings):
    """Arranges the words of pages into lines and blocks.

    Words at about the same height form a row. A row is split into lines at gaps wider than the usual gap between words
    of the page, and at every gap wider than ``paragraph_break``. The order of the input words does not affect the
    result.

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
        resolve_lines: Whether to group words into lines; otherwise all words of a page form one line.
        resolve_blocks: Whether to group lines into blocks; otherwise all lines of a page form one block.
        paragraph_break: Two words of a row are in different lines if the gap between them is at least this share of the
            page's width.
        export_as_straight_boxes: Whether to replace rotated boxes with their enclosing straight boxes.
        keep_reading_order: Whether to put each page into reading order. Blocks are then paragraphs or rows of cells,
            regardless of ``resolve_blocks``, and words are in reading order.
        line_break: With ``resolve_blocks``, the widest gap between two lines of a block, in line heights.

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
            orientations: For each page, its orientation as ``{"value": degrees, "confidence": ...}``.
            languages: For each page, a dictionary ``{"value": code, "confidence": ...}``.
            regions: For each page, its layout ``{"boxes": ..., "class_names": [...], "scores": [...]}``, or None.
            tables: For each page, None, or its tables as ``{"cells": [{"geometry", "score", "row_start", "row_end",
                "col_start", "col_end"}, ...]}``. Words whose center lies in a cell belong to the cell and not to a
                block.
            line_ids: For each page, N integers: the detected line that each word was cut from, or negative for none.
                Words of one detected line stay together unless the gap between them is at least two line heights, as
                between form fields.
            characters: For each page, the characters of its N words.
            errors: For each page, the reason why it could not be read, or None.
            structures: For each page, the regions, tables and fields found by rules, or None. If there are regions, the
                blocks of the page are these regions, in the same order.

        Returns:
            The document.

        Raises:
            InvalidArgumentError: if arguments do not describe the same pages and words, or boxes are not finite or
                have another shape.
        """
        number = check_lengths(
            boxes=boxes,
            pages=pages,
            text_preds=text_preds,
            crop_orientations=crop_orientations,
            objectness_scores=objectness_scores,
            page_shapes=page_shapes,
        )
        words = [
            {"words": ClassWords(*arrays)}
            for arrays in zip(
                boxes,
                objectness_scores,
                text_preds,
                crop_orientations,
                per_page(line_ids, number, "line_ids"),
                per_page(characters, number, "characters"),
                strict=True,
            )
        ]
        read = _gather_pages(pages, page_shapes, words, orientations, languages, regions, tables, errors, structures)
        return build_document(self, read, by_class=False)


class KIEDocumentBuilder(BuilderSettings):
    """Arranges the words of pages by class (key information extraction). Takes the arguments of `DocumentBuilder`.

    Only ``export_as_straight_boxes`` has an effect, because predictions are not grouped into lines or blocks.
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
            boxes, objectness_scores, text_preds, crop_orientations, characters: As for `DocumentBuilder`, but as a
                dictionary by class for each page.
            pages, page_shapes, orientations, languages, regions, errors: As for `DocumentBuilder`.
            tables: Must be None, or None for each page: tables are not supported.
            structures: For each page, the regions and fields found by rules in the words of all its classes, or None.
                Fields with a name also become predictions of the class with that name.

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
            for index, spelled in enumerate(per_page(characters, number, "characters"))
        ]
        read = _gather_pages(pages, page_shapes, words, orientations, languages, regions, None, errors, structures)
        return build_document(self, read, by_class=True)


def check_lengths(**arguments: Sequence[Any]) -> int:
    """Return the number of pages; all arguments must have the same length.

    Raises:
        InvalidArgumentError: if the lengths differ.
    """
    lengths = {name: len(argument) for name, argument in arguments.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InvalidArgumentError(f"All arguments are expected to be lists of the same size: {listed}")
    return lengths["boxes"]


def per_page(argument: Sequence[Any] | None, number: int, name: str) -> Sequence[Any]:
    """Return an optional argument as a list with one item for each page, all None if the argument is None.

    Raises:
        InvalidArgumentError: if the argument has another number of pages.
    """
    if argument is None:
        return [None] * number
    if len(argument) != number:
        raise InvalidArgumentError(f"{name} has {len(argument)} items for {number} pages: give one for each page")
    return argument


def _gather_pages(
    images: Sequence[Any],
    shapes: Sequence[tuple[int, int]],
    words: Sequence[dict[str, ClassWords]],
    orientations: Sequence[dict[str, Any]] | None,
    languages: Sequence[dict[str, Any]] | None,
    regions: Sequence[Mapping[str, Any] | None] | None,
    tables: Sequence[Any] | None,
    errors: Sequence[str | None] | None,
    structures: Sequence[PageStructure | None] | None,
) -> list[PageWords]:
    number = len(words)
    structured = map(
        Structured,
        per_page(structures, number, "structures"),
        per_page(regions, number, "regions"),
        per_page(tables, number, "tables"),
    )
    return [
        PageWords(image, shape, words_by_class, orientation, language, error, structure=structure)
        for image, shape, words_by_class, orientation, language, error, structure in zip(
            images,
            shapes,
            words,
            per_page(orientations, number, "orientations"),
            per_page(languages, number, "languages"),
            per_page(errors, number, "errors"),
            structured,
            strict=True,
        )
    ]
