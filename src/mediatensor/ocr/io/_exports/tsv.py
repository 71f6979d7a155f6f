"""Tab-separated values with the columns of tesseract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .reading import one_line
from .regions import Place, document_pages, page_regions, percent

__all__ = ["TSVExporter"]

_COLUMNS = (
    *("level", "page_num", "block_num", "par_num", "line_num", "word_num"),
    *("left", "top", "width", "height", "conf", "text"),
)


class TSVExporter:
    """Export to the table that ``tesseract image out tsv`` writes.

    Pages (level 1), blocks (2), paragraphs (3), lines (4) and words (5) have a row each. A row has numbers from 1 (0
    for levels below its own) and the enclosing box in pixels. Words have their confidence in percent and their text,
    without tabs and line breaks; other rows have -1 and an empty text. A line that was not read has no words.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, TSVExporter, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> TSVExporter().export(page).split()[-1]
        'Total'
    """

    def export(self, source: Any, direction: str = "auto", reading_order: bool = True) -> str:
        """Export a page or a document.

        Args:
            source: A `Page`, `KIEPage`, `Document` or `KIEDocument`.
            direction: Reading direction: 'auto', 'ltr', 'rtl', 'ttb-rtl' or 'ttb-ltr'.
            reading_order: Whether the content is put into reading order; otherwise it stays as stored.

        Returns:
            The table; its first line has the column names.
        """
        rows = [row for page in document_pages(source) for row in _page_rows(page, direction, reading_order)]
        return "".join("\t".join(map(str, row)) + "\n" for row in [_COLUMNS, *rows])


def _page_rows(page: Any, direction: str, reading_order: bool) -> Iterator[tuple[Any, ...]]:
    height, width = page.dimensions
    number = page.page_idx + 1
    yield 1, number, 0, 0, 0, 0, 0, 0, width, height, -1, ""
    for block, region in enumerate(page_regions(page, direction, reading_order), start=1):
        yield 2, number, block, 0, 0, 0, *_extent(region.place), -1, ""
        yield 3, number, block, 1, 0, 0, *_extent(region.place), -1, ""
        for line, row in enumerate(region.rows, start=1):
            yield 4, number, block, 1, line, 0, *_extent(row.place), -1, ""
            for word, token in enumerate(row.tokens, start=1):
                confidence = f"{percent(token.confidence):.6f}"
                yield 5, number, block, 1, line, word, *_extent(token.place), confidence, one_line(token.text)


def _extent(place: Place) -> tuple[int, int, int, int]:
    left, top, right, bottom = place.box
    return left, top, right - left, bottom - top
