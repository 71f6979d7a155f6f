"""Pages for the tests of elements and exporters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mediatensor.ocr.io import Block, Document, KIEPage, Line, Page, Prediction, Table, TableCell, UnreadLine, Word
from ocr_records import read_record

STRAIGHT = {"value": 0, "confidence": None}
#: Height and width of the pages.
SIZE = (400, 600)


def doctr_exports(version: str) -> dict[str, dict[str, Any]]:
    """What docTR of that version exported, by case; see ``record_ocr_exports.py``."""
    cases: dict[str, dict[str, Any]] = read_record(f"doctr_exports_{version}")["cases"]
    return cases


def noise(size: tuple[int, int] = SIZE) -> NDArray[np.uint8]:
    """An image in colours, smooth enough for JPEG."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    waves = [np.sin(rows / 17), np.cos(columns / 23), np.sin((rows + columns) / 31)]
    return (127 + 120 * np.stack(waves, axis=-1)).astype(np.uint8)


def word(text: str, box: tuple[float, float, float, float], confidence: float = 0.9, **kwargs: Any) -> Word:
    """A straight word at left, top, right, bottom in pixels."""
    return Word(text, confidence, relative([box[:2], box[2:]]), 0.8, dict(STRAIGHT), **kwargs)


def turned_word(text: str, start: tuple[float, float], size: tuple[float, float], degrees: float) -> Word:
    """A word of a width and height in pixels, its top left corner at a point, turned counter-clockwise about it."""
    angle = math.radians(degrees)
    along = np.array([math.cos(angle), -math.sin(angle)]) * size[0]
    down = np.array([math.sin(angle), math.cos(angle)]) * size[1]
    corner = np.array(start)
    quad = [corner, corner + along, corner + along + down, corner + down]
    return Word(text, 0.9, relative(quad), 0.8, dict(STRAIGHT))


def relative(points: Any) -> tuple[tuple[float, float], ...]:
    return tuple((float(x) / SIZE[1], float(y) / SIZE[0]) for x, y in points)


def page_of(*words: Word, image: NDArray[np.uint8] | None = None, **kwargs: Any) -> Page:
    """A page with each word in its own line, at the position of the word."""
    blocks = [Block([Line([item], item.geometry) for item in words])] if words else []
    return Page(np.zeros((*SIZE, 3), np.uint8) if image is None else image, blocks, 0, SIZE, **kwargs)


def table_of(
    rows: Sequence[Sequence[str]],
    box: tuple[float, float, float, float] = (0, 0, 1, 1),
    *,
    columns: Sequence[float] | None = None,
    num_header_rows: int = 1,
) -> Table:
    """A table of cells of one row and column each in a relative box; ``columns`` are the edges of columns."""
    left, top, right, bottom = box
    xs = np.linspace(left, right, len(rows[0]) + 1).tolist() if columns is None else columns
    ys = np.linspace(top, bottom, len(rows) + 1).tolist()
    cells = [
        TableCell(text, 0.9, ((x0, y0), (x1, y1)), row, row, column, column, is_header=row < num_header_rows)
        for row, (texts, y0, y1) in enumerate(zip(rows, ys, ys[1:], strict=False))
        for column, (text, x0, x1) in enumerate(zip(texts, xs, xs[1:], strict=False))
    ]
    return Table(cells, len(rows), len(rows[0]), ((xs[0], top), (xs[-1], bottom)))


def unread_line(box: tuple[float, float, float, float], reason: str, script: str | None = None) -> UnreadLine:
    """A line that was not read at left, top, right, bottom in pixels, with a text that no export may show."""
    return UnreadLine(relative([box[:2], box[2:]]), reason, "OOKAXKE", 0.1, script)


def partly_read_page() -> Page:
    """Two columns below a heading. In each column, a line was not read, and one was read with gaps."""
    left = [word("one", (10, 60, 200, 80)), word("two", (10, 180, 200, 200))]
    right = [word("three", (320, 60, 500, 80))]
    blocks = [Block([Line([item])]) for item in (word("heading", (10, 10, 500, 40)), *left, *right)]
    unread = [
        unread_line((320, 100, 500, 120), "low confidence"),
        unread_line((10, 120, 200, 140), "script", "Cyrillic"),
        unread_line((320, 60, 500, 80), "gaps"),
    ]
    return Page(np.zeros((*SIZE, 3), np.uint8), blocks, 0, SIZE, unread=unread, in_reading_order=True)


def kie_page(predictions: dict[str, list[Word]]) -> KIEPage:
    groups = {
        name: [Prediction(w.value, w.confidence, w.geometry, w.objectness_score, w.crop_orientation) for w in words]
        for name, words in predictions.items()
    }
    return KIEPage(np.zeros((*SIZE, 3), np.uint8), groups, 0, SIZE)


def empty_pages() -> dict[str, Any]:
    """Nearly empty pages, by the missing part."""
    hostile = "a\x00b\tc\nd\ud800\ufffe]]>&<\"'"
    return {
        "no blocks": page_of(),
        "a block without lines": Page(noise(), [Block()], 0, SIZE),
        "a line without words": Page(noise(), [Block([Line([])])], 0, SIZE),
        "an empty word": page_of(word("", (10, 10, 40, 30))),
        "a word without extent": page_of(word("dot", (10, 10, 10, 10))),
        "a turned word without extent": page_of(turned_word("dot", (10, 10), (0, 0), 0)),
        "a word off the page": page_of(Word("far", 1.0, ((1e6, -1e6), (1e6, 5.0)), 1.0, dict(STRAIGHT))),
        "controls and markup": page_of(word(hostile, (10, 10, 90, 30), float("nan"))),
        "straight and turned": page_of(word("one", (10, 10, 40, 30)), turned_word("two", (10, 40), (30, 20), 10)),
        "a line that was not read": page_of(unread=[UnreadLine(relative([(10, 10), (90, 30)]), hostile)]),
        "predictions": kie_page({hostile: [word(hostile, (10, 10, 90, 30))], "none": []}),
        "no predictions": kie_page({}),
        "a document without pages": Document([]),
    }


class HtmlParts(HTMLParser):
    """The elements of a page in HTML, as a browser finds them: tag, attributes, and text up to the next that begins."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.found and data.strip():
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)

    @property
    def tags(self) -> list[tuple[str, dict[str, str | None]]]:
        return [(tag, attributes) for tag, attributes, _ in self.found]

    @property
    def texts(self) -> list[str]:
        return [text for _, _, text in self.found if text]
