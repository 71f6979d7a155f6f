"""Convert a page to regions, lines and words with positions in pixels, for formats that store positions."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...utils.geometry import box_around, reading_geometry, to_quad
from .._elements.elements import (
    Block,
    Character,
    Geometry,
    Line,
    Prediction,
    TextElement,
    UnreadLine,
    Word,
    enclosing_geometry,
)
from .._elements.page_order import (
    line_direction,
    ordered_line_words,
    page_language,
    page_reading_order,
    predictions_in_reading_order,
    unread_lines,
    with_unread_lines,
)
from .._elements.pages import Table, TableCell

# Letters (Latin, Greek, Cyrillic) and punctuation that extend below the baseline.
_DESCENDING = frozenset("gjpqyçşţķļņģŗþQJ,;()[]{}|/\\@_$§¶ßƒµβγζημξρςφχψрудцщфЏ„¿")

# A language tag of BCP 47, such as "en" or "zh-cn".
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")

# Relative coordinates are clipped to this range: stored exports may have any numbers, but formats cannot write all.
_REACH = (-1.0, 2.0)


@dataclass(frozen=True)
class Place:
    """A position in pixels.

    ``quad`` (4, 2) has the corners, clockwise, starting at the top left of the text. ``straight`` is true if the
    position was given as an upright box.
    """

    quad: NDArray[np.float64]
    straight: bool

    @classmethod
    def of(cls, geometry: Geometry, width: int, height: int) -> Place:
        """Convert a geometry from fractions of the page's size to pixels, for a page of this width and height."""
        points = np.nan_to_num(np.asarray(geometry, dtype=np.float64).reshape(-1, 2), nan=0.0)
        return cls.at(np.clip(points, *_REACH) * (width, height))

    @classmethod
    def at(cls, points: NDArray[np.float64]) -> Place:
        """Make a place from two corners of a box, or from four corners, in pixels."""
        return cls(to_quad(points), len(points) != 4)

    @property
    def box(self) -> tuple[int, int, int, int]:
        """(left, top, right, bottom) of the upright box around the position, rounded to pixels."""
        left, top, right, bottom = box_around(self.quad).tolist()
        return round(left), round(top), round(right), round(bottom)

    @property
    def size(self) -> float:
        """The height of the text in pixels: the mean length of the left and right sides."""
        return float(np.linalg.norm(self.quad[[3, 2]] - self.quad[[0, 1]], axis=1).mean())

    @property
    def angle(self) -> float:
        """The counter-clockwise rotation of the text in degrees, in (-180, 180]."""
        along = self.quad[[1, 2]].sum(axis=0) - self.quad[[0, 3]].sum(axis=0)
        angle = math.degrees(math.atan2(-along[1], along[0])) if along.any() else 0.0
        return 0.0 if angle == 0.0 else 180.0 if angle == -180.0 else angle


@dataclass(frozen=True)
class Token:
    """One word; or, if the words of a table cell are not known, the whole text of the cell.

    In tables, ``cell`` is (number of the cell in its row, number of the word in the cell), both counted from 0.
    """

    text: str
    confidence: float
    place: Place
    characters: tuple[Character, ...] = ()
    cell: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class TextRow:
    """One line of text; or one row of a table, with the words of all its cells in reading order.

    ``index`` is the number of the line in its region or of the row in its table, counted from 0.
    """

    tokens: tuple[Token, ...]
    place: Place
    index: int
    right_to_left: bool = False

    @property
    def descent(self) -> float:
        """The distance in pixels from the baseline to the bottom of the line's box.

        It is measured on words such as "one", whose letters do not reach below the baseline: their boxes end at the
        baseline. If the line has no such words, the result is 0.0.
        """
        below = [
            (self.place.quad[[3, 2]].mean(axis=0) - token.place.quad[[3, 2]].mean(axis=0)) @ self._down
            for token in self.tokens
            if token.text and not _DESCENDING.intersection(token.text)
        ]
        return float(np.clip(np.median(below), 0.0, self.place.size / 2)) if below else 0.0

    @property
    def baseline(self) -> NDArray[np.float64]:
        """Both ends of the baseline in pixels, float64 (2, 2): first the start, then the end."""
        baseline: NDArray[np.float64] = self.place.quad[[3, 2]] - self._down * self.descent
        return baseline

    @property
    def _down(self) -> NDArray[np.float64]:
        down = self.place.quad[[3, 2]].sum(axis=0) - self.place.quad[[0, 1]].sum(axis=0)
        length = np.linalg.norm(down)
        return down / length if length else np.array([0.0, 1.0])


@dataclass(frozen=True)
class Region:
    """One block, table or prediction; or a line that was detected but not read, which has one row without words.

    ``kind`` is 'block', 'table', 'prediction' or 'unread'. ``class_name`` is the class of a prediction, and otherwise
    empty.
    """

    kind: str
    rows: tuple[TextRow, ...]
    place: Place
    class_name: str = ""
    unread: UnreadLine | None = None


def document_pages(source: Any) -> Sequence[Any]:
    """Return the pages of a document. If ``source`` is itself a page, return a list with this page."""
    return source.pages if hasattr(source, "pages") else [source]


def language_tag(page: Any) -> str | None:
    """Return the language of a page as a BCP 47 tag such as "en", or ``None`` if the page has no valid tag."""
    value = page_language(page)
    return value if isinstance(value, str) and _LANGUAGE.fullmatch(value) else None


def percent(confidence: float) -> float:
    """Convert a confidence in [0, 1] to percent. NaN becomes 0.0."""
    return min(max(100.0 * float(confidence), 0.0), 100.0) if confidence == confidence else 0.0


def tool_version() -> str:
    """Return the version of this library."""
    from .... import __version__

    return str(__version__)


def page_regions(
    page: Any, direction: str = "auto", reading_order: bool = True, size: tuple[int, int] | None = None
) -> Iterator[Region]:
    """Yield the regions of a page with positions in pixels.

    Positions refer to an image of ``size`` (height, width), by default the page's own size. With ``reading_order``,
    unread lines are yielded between the blocks and tables, according to their position. Otherwise, and on pages of
    predictions, they come last.
    """
    height, width = size or page.dimensions
    if hasattr(page, "predictions"):
        for class_name, predictions in page.predictions.items():
            ordered_predictions: Sequence[Prediction] = predictions
            if reading_order:
                ordered_predictions = predictions_in_reading_order(page, predictions, direction)
            for prediction in ordered_predictions:
                token = _token(prediction, width, height)
                yield Region("prediction", (TextRow((token,), token.place, 0),), token.place, class_name)
        yield from (_unread_region(line, width, height) for line in unread_lines(page))
        return
    auto = direction == "auto"
    items: Sequence[Block | Table | UnreadLine]
    if reading_order:
        ordered, _, direction = page_reading_order(page, direction)
        items = with_unread_lines(page, ordered)
    else:
        items = [*page.blocks, *page.tables, *unread_lines(page)]
    for item in items:
        if isinstance(item, UnreadLine):
            yield _unread_region(item, width, height)
        elif isinstance(item, Table):
            turn = _turn_of([word for cell in item.cells for word in cell.words])
            place = Place.of(reading_geometry(item.geometry, turn), width, height)
            yield Region("table", _table_rows(item, turn, width, height), place)
        else:
            rows = tuple(
                _text_row(line, index, direction, auto, (width, height)) for index, line in enumerate(item.lines)
            )
            geometry = reading_geometry(item.geometry, _turn_of([word for line in item.lines for word in line.words]))
            yield Region("block", rows, Place.of(geometry, width, height))


def _unread_region(line: UnreadLine, width: int, height: int) -> Region:
    place = Place.of(line.geometry, width, height)
    return Region("unread", (TextRow((), place, 0),), place, unread=line)


def _text_row(line: Line, index: int, direction: str, auto: bool, size: tuple[int, int]) -> TextRow:
    words = ordered_line_words(line, direction, auto)
    right_to_left = line_direction(line, direction, auto) == "rtl"
    place = Place.of(reading_geometry(line.geometry, _turn_of(words)), *size)
    return TextRow(tuple(_token(word, *size) for word in words), place, index, right_to_left)


def _turn_of(words: Sequence[Word]) -> object:
    """Return the rotation in degrees that most characters of the words have; 0 if there are no words."""
    turns: Counter[Any] = Counter()
    for word in words:
        turns[word.crop_orientation.get("value")] += len(word.value)
    return turns.most_common(1)[0][0] if turns else 0


def _token(word: TextElement, width: int, height: int) -> Token:
    if not isinstance(word, Word):
        return Token(word.value, float(word.confidence), Place.of(word.geometry, width, height))
    geometry = reading_geometry(word.geometry, word.crop_orientation.get("value"))
    return Token(word.value, float(word.confidence), Place.of(geometry, width, height), word.characters)


def _table_rows(table: Table, turn: object, width: int, height: int) -> tuple[TextRow, ...]:
    rows: dict[int, list[TableCell]] = {}
    for cell in sorted(table.cells, key=lambda cell: (cell.row_start, cell.col_start)):
        rows.setdefault(cell.row_start, []).append(cell)
    text_rows = []
    for row, cells in rows.items():
        tokens = [
            replace(_token(part, width, height), cell=(column, number))
            for column, cell in enumerate(cells)
            for number, part in enumerate(cell.words or [cell])
        ]
        places = [Place.of(reading_geometry(cell.geometry, turn), width, height) for cell in cells]
        straight = all(place.straight for place in places)
        geometry = enclosing_geometry([place.quad[[0, 2]] if straight else place.quad for place in places])
        text_rows.append(TextRow(tuple(tokens), Place.at(np.asarray(geometry)), row))
    return tuple(text_rows)
