"""Builders of documents with docTR's arguments: a list for each property of the words."""

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
        keep_reading_order: Whether to put each page into reading order. Blocks are then paragraphs or rows of cells,
            regardless of ``resolve_blocks``, and words are in reading order.
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
            orientations: For each page, a dictionary of the same form.
            languages: For each page, a dictionary ``{"value": code, "confidence": ...}``.
            regions: For each page, its layout ``{"boxes": ..., "class_names": [...], "scores": [...]}``, or None.
            tables: For each page, None, or its tables as ``{"cells": [{"geometry", "score", "row_start", "row_end",
                "col_start", "col_end"}, ...]}``. Words whose middle lies in a cell are its text, and in no block.
            line_ids: For each page, N integers: which detected line a word was cut from, negative for none. Words of
                one line stay together unless a gap of two heights parts them, as between the fields of a form.
            characters: For each page, the characters of its N words.
            errors: For each page, the reason why it could not be read, or None.
            structures: For each page, the regions, tables and fields that were found by rules, or None. If it has
                regions, these are the blocks, in their order.

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
            boxes, objectness_scores, text_preds, crop_orientations, characters: As for `DocumentBuilder`, but as a
                dictionary by class for each page.
            pages, page_shapes, orientations, languages, regions, errors: As for `DocumentBuilder`.
            tables: Not available: None, for the whole or for each page.
            structures: For each page, the regions and fields that were found by rules in the words of all its classes,
                or None. Fields that have a name also become predictions of that class.

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
    """Return an optional argument as one item for each page: None if it is not given.

    Raises:
        InvalidArgumentError: if it has another number of pages.
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
    """Collect the items of each page from the lists."""
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
