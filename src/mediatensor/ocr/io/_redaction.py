"""Find texts in a document, and redact them: in its elements, and in the images of its pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ..._engine.common.checks import shown
from ...errors import InvalidArgumentError, RedactionError
from ..utils._text_search import find_words, search_patterns, warn_without_match
from ..utils.geometry import reading_geometry, to_quad
from ._documents.pages import PageOfFile, StoredImage, check_index
from ._documents.pdf import PdfDocument
from ._elements.elements import Block, Geometry, Line, UnreadLine, Word
from ._elements.page_order import line_direction, ordered_line_words, page_reading_order, predictions_in_reading_order
from ._elements.pages import (
    DocumentBase,
    Field,
    PageBase,
    PageImage,
    PredictionPage,
    Table,
    TableCell,
    TextPage,
    page_origin,
    page_pixels,
)
from ._exports.text import page_parts

Quad: TypeAlias = NDArray[np.float64]

#: A box (xmin, ymin, xmax, ymax), two corners or four corners, relative to the page.
RedactedRegion: TypeAlias = Sequence[float] | Geometry

#: Regions by page, counted from 0; or regions of every page.
RedactedRegions: TypeAlias = Mapping[int, Iterable[RedactedRegion]] | Iterable[RedactedRegion]

#: A predictor, which reads the images of pages.
Reader: TypeAlias = Callable[[list[NDArray[np.uint8]]], DocumentBase]

_Element: TypeAlias = Word | TableCell | UnreadLine | Field
_Document = TypeVar("_Document", bound=DocumentBase)

# The box of a word is blackened with a margin of these shares of its height: along the text, and across it. Without a
# margin, some ink of 1 in 98 words remained on five generated pages; with 0.12 across, descenders remained on another
# page. With these values, 2 of 608 neighbouring words lost more than 2 % of their ink; with 0.4 across, 22 words did.
_MARGINS = 0.12, 0.25
# On the second reading, a word counts as redacted text if at least this share of it is black. The words on both sides
# of a black box may be read as one word, as on one of seven generated pages. No other value was measured.
_MIN_BLACK_SHARE = 0.75
# Maximum number of times that a page is read again.
_MAX_READINGS = 3
_POINTS_PER_INCH = 72.0


@dataclass(frozen=True)
class TextMatch:
    """A place in a document where a text was found.

    Attributes:
        text: The matching words, as they were read. They are whole words even if only a part of a word matches.
        query: Index of the argument of `Document.find` that matched, counted from 0.
        places: A pair (page, geometry) for each word. ``page`` is the index of the page in the document, from 0.
            ``geometry`` is ((xmin, ymin), (xmax, ymax)) or four corners, in fractions of the page's width and height.
            Text that has no words, such as an unread line, is a single place.

    Example:
        >>> from mediatensor.ocr.io import TextMatch
        >>> TextMatch("Meyer,", 0, ((2, ((0.1, 0.1), (0.3, 0.2))),)).places[0][0]
        2
    """

    text: str
    query: int
    places: tuple[tuple[int, Geometry], ...]


class _Spot(NamedTuple):
    """An element, the number of its page in the document, and its text; for a field, its key and value on two lines."""

    page: int
    element: _Element
    text: str


def find_texts(document: DocumentBase, texts: Sequence[str | re.Pattern[str]]) -> list[TextMatch]:
    """Find texts in a document. See `Document.find`."""
    if not texts:
        raise InvalidArgumentError("There is nothing to find: give a text, or a regular expression.")
    return [
        TextMatch(
            " ".join(spot.text for spot in spots),
            query,
            tuple((spot.page, geometry) for spot in spots for geometry in _geometries(spot.element)),
        )
        for query, pattern in enumerate(search_patterns(texts))
        for spots in _find_spots(document.pages, pattern)
    ]


def redact_document(
    document: _Document,
    texts: Sequence[str | re.Pattern[str]],
    regions: RedactedRegions | None,
    predictor: Reader | None,
) -> _Document:
    """Redact texts and regions of a document. See `Document.redact`."""
    places = _check_regions(regions, len(document.pages), needs_region=not texts)
    redaction = _Redaction(document.pages, search_patterns(texts))
    for number, quads in places.items():
        redaction.cover(number, quads)
    redaction.remove_matches()
    redaction.paint(predictor)
    for text, pattern in zip(texts, redaction.patterns, strict=True):
        if pattern not in redaction.patterns_found:
            warn_without_match(text, "on the pages")
    for page in redaction.pages:
        if page.error is not None and any(pattern.search(page.error) for pattern in redaction.patterns):
            page.error = "The page could not be read."  # the message may contain the name of the file
    redacted = copy(document)
    redacted.pages = redaction.pages
    return redacted


def _find_spots(pages: Sequence[PageBase], pattern: re.Pattern[str]) -> list[list[_Spot]]:
    # A page may be in the document several times, so elements are identified together with the place of their page.
    matches: dict[frozenset[tuple[int, int]], list[_Spot]] = {}
    for lines in _line_sequences(pages):
        spots = [spot for line in lines for spot in line]
        for numbers in find_words(pattern, [[spot.text for spot in line] for line in lines]):
            match = [spots[number] for number in numbers]
            matches.setdefault(frozenset((spot.page, id(spot.element)) for spot in match), match)
    words = [spot for match in matches.values() for spot in match]
    for spot in _further_texts(pages):
        # Fields, unread lines and cells repeat words of the page.
        known = [quad for word in words if word.page == spot.page for quad in _quads(word.element)]
        if find_words(pattern, [[spot.text]]) and not _covers(_quads(spot.element), known).any():
            matches.setdefault(frozenset({(spot.page, id(spot.element))}), [spot])
    return list(matches.values())


def _line_sequences(pages: Sequence[PageBase]) -> Iterator[list[list[_Spot]]]:
    """Yield the words of all pages in the orders in which exports write them, line by line.

    In the first order, lines are in reading order, and cells of tables are separate lines. In the other two, texts next
    to each other, such as the cells of a row, are one line. The last one has no headers, footers and footnotes.
    """
    yield [line for number, page in enumerate(pages) for line in _lines(number, page)]
    for has_furniture in (True, False):
        yield [line for number, page in enumerate(pages) for line in _rows(number, page, has_furniture)]


def _lines(number: int, page: PageBase) -> Iterator[list[_Spot]]:
    if isinstance(page, PredictionPage):
        for predictions in page.predictions.values():
            for prediction in predictions_in_reading_order(page, predictions):
                yield [_Spot(number, prediction, prediction.value)]
    if isinstance(page, TextPage):
        items, _, direction = page_reading_order(page)
        for item in items:
            if isinstance(item, Table):
                for cell in item.cells:
                    yield _cell_spots(number, cell)
            else:
                for line in item.lines:
                    words = ordered_line_words(line, line_direction(line, direction, auto=True))
                    yield [_Spot(number, word, word.value) for word in words]


def _rows(number: int, page: PageBase, has_furniture: bool) -> Iterator[list[_Spot]]:
    if not isinstance(page, TextPage):
        return
    for part in page_parts(page, "auto", has_furniture):
        for row in part.rows:
            yield [_Spot(number, word, word.value) for cell in row for word in cell.words]
        if part.table is not None:
            rows: dict[int, list[_Spot]] = {}
            for cell in sorted(part.table.cells, key=lambda cell: (cell.row_start, cell.col_start)):
                rows.setdefault(cell.row_start, []).extend(_cell_spots(number, cell))
            yield from rows.values()


def _cell_spots(number: int, cell: TableCell) -> list[_Spot]:
    elements: Sequence[Word | TableCell] = cell.words or [cell]
    return [_Spot(number, element, element.value) for element in elements]


def _further_texts(pages: Sequence[PageBase]) -> Iterator[_Spot]:
    """Yield texts that are not words: unread lines, fields, and cells whose text differs from their words."""
    for number, page in enumerate(pages):
        for line in page.unread:
            yield _Spot(number, line, line.value)
        for field in page.fields:
            yield _Spot(number, field, f"{field.key}\n{field.value}")
        for table in page.tables if isinstance(page, TextPage) else ():
            for cell in table.cells:
                if cell.words and cell.value != _cell_text(cell.words):
                    yield _Spot(number, cell, cell.value)


def _cell_text(words: Sequence[Word]) -> str:
    return " ".join(word.value for word in words)


class _Redaction:
    """The state of a redaction: the pages without their redacted elements, and the areas that will be black.

    In ``pages``, changed copies replace the pages of the document that have such elements.
    """

    def __init__(self, pages: Sequence[Any], patterns: list[re.Pattern[str]]) -> None:
        self.pages = list(pages)
        self.patterns = patterns
        self.patterns_found: set[re.Pattern[str]] = set()
        # For each page, the areas as relative quads, and whether each needs a margin.
        self._areas: list[list[tuple[Quad, bool]]] = [[] for _ in pages]

    def cover(self, number: int, quads: Sequence[Quad], *, has_margin: bool = False) -> None:
        """Redact quads on a page, and everything that they touch."""
        self._areas[number] += [(quad, has_margin) for quad in quads]
        touched = [
            element
            for element in _elements(self.pages[number])
            if any(_overlap(quad, place) for place in _quads(element) for quad in quads)
        ]
        self._remove(number, touched)

    def remove_matches(self) -> None:
        """Redact all matches, until there are none. Words that become neighbours may be another match."""
        is_changed = True
        while is_changed:
            is_changed = False
            for pattern in self.patterns:
                elements: dict[int, list[_Element]] = {}
                for spot in (spot for match in _find_spots(self.pages, pattern) for spot in match):
                    elements.setdefault(spot.page, []).append(spot.element)
                for number, chosen in elements.items():
                    self._remove(number, chosen)
                if elements:
                    self.patterns_found.add(pattern)
                    is_changed = True

    def _remove(self, number: int, chosen: Sequence[_Element]) -> None:
        """Remove elements from a page, and all other elements that are below redacted areas."""
        page, areas = self.pages[number], self._areas[number]
        identities: set[int] = set()
        remaining = list(_elements(page))
        while chosen:
            identities |= {id(element) for element in chosen}
            areas += [(quad, True) for element in chosen for quad in _quads(element)]
            remaining = [element for element in remaining if id(element) not in identities]
            quads = [quad for element in remaining for quad in _quads(element)]
            is_below = _covers([area for area, _ in areas], quads).any(axis=0)
            chosen = [remaining[place] for place in np.flatnonzero(is_below)]
        self.pages[number] = _without(page, identities, [quad for quad, _ in areas])

    def paint(self, predictor: Reader | None) -> None:
        """Replace the image of each page by one in which all areas are black, and read it again with ``predictor``.

        Raises:
            RedactionError: if redacted text can still be read.
        """
        num_painted = [-1] * len(self.pages)
        unchecked: set[int] = set()
        for _ in range(_MAX_READINGS):
            for number in range(len(self.pages)):
                if num_painted[number] != len(self._areas[number]):
                    self._paint_page(number)
                    num_painted[number] = len(self._areas[number])
                    unchecked.add(number)
            if predictor is None:
                return
            for number in sorted(unchecked):
                quads = self._read_again(number, predictor)
                if quads:
                    self.cover(number, quads, has_margin=True)
                else:
                    unchecked.remove(number)
            if not unchecked:
                return
            self.remove_matches()
        numbers = ", ".join(str(number) for number in sorted(unchecked))
        raise RedactionError(
            f"After redaction, text to redact can still be read on these pages, counted from 0: {numbers}. Redact "
            "regions of these pages, or leave the pages out."
        )

    def _paint_page(self, number: int) -> None:
        page = self.pages[number] = copy(self.pages[number])
        origin = page_origin(page)
        image: PageImage = np.zeros((0, 0, 3), np.uint8) if page.error is not None else page.page
        dpi = origin.dpi if isinstance(origin, StoredImage) else None
        if isinstance(origin, PageOfFile) and isinstance(document := origin.location[0], PdfDocument):
            dpi = document.pixels_per_point * _POINTS_PER_INCH
        if 0 in image.shape:  # as after from_dict without images
            page.page = np.zeros((0, 0, 3), np.uint8)
        else:
            page.page = StoredImage.of(_black_out(page_pixels(image), self._areas[number]), dpi)

    def _read_again(self, number: int, predictor: Reader) -> list[Quad]:
        """Read a painted page, and return the places of words that should not be there."""
        image = self.pages[number].page
        if 0 in image.shape:
            return []
        page = predictor([image]).pages[0]
        if page.error is not None:
            raise RedactionError(f"Page {number} (counted from 0) cannot be read again after redaction: {page.error}")
        found: list[_Element] = []
        for pattern in self.patterns:
            if matches := _find_spots([page], pattern):
                self.patterns_found.add(pattern)
                found += [spot.element for match in matches for spot in match]
        words = [word for word in _elements(page) if any(map(str.isalnum, word.value))]
        areas = [area for area, _ in self._areas[number]]
        found += [word for word in words if _black_share(_quads(word)[0], areas) >= _MIN_BLACK_SHARE]
        return [quad for element in found for quad in _quads(element)]


def _elements(page: PageBase) -> Iterator[Word | TableCell | UnreadLine]:
    """Yield the words of a page, its cells without words, and its unread lines. Each has one place."""
    if isinstance(page, PredictionPage):
        for predictions in page.predictions.values():
            yield from predictions
    if isinstance(page, TextPage):
        for block in page.blocks:
            for line in block.lines:
                yield from line.words
        for table in page.tables:
            for cell in table.cells:
                yield from cell.words
                if cell.value and not cell.words:
                    yield cell
    # The words of a line with gaps are part of the text.
    yield from (line for line in page.unread if line.reason != "gaps")


def _without(page: Any, chosen: set[int], areas: Sequence[Quad]) -> Any:
    """Return a copy of a page without the elements with these identities, and without copies of their text."""
    page = copy(page)

    def keep(words: Iterable[Any]) -> list[Any]:
        return [word for word in words if id(word) not in chosen]

    if isinstance(page, PredictionPage):
        page.predictions = {name: keep(predictions) for name, predictions in page.predictions.items()}
    if isinstance(page, TextPage):
        page.blocks = [block for block in (_block_without(block, keep) for block in page.blocks) if block is not None]
        page.tables = [_table_without(table, chosen, keep) for table in page.tables]
    page.unread = [_unread_without(line, areas) for line in keep(page.unread)]
    page.fields = [field for field in keep(page.fields) if not _share_centres(_quads(field), areas)]
    return page


def _block_without(block: Block, keep: Callable[[Iterable[Any]], list[Any]]) -> Block | None:
    lines = [(line, keep(line.words)) for line in block.lines]
    if all(len(words) == len(line.words) for line, words in lines):
        return block
    remaining = [line if len(words) == len(line.words) else Line(words) for line, words in lines if words]
    return Block(remaining, block.artefacts) if remaining or block.artefacts else None


def _table_without(table: Table, chosen: set[int], keep: Callable[[Iterable[Any]], list[Any]]) -> Table:
    cells = []
    for cell in table.cells:
        words = keep(cell.words)
        if id(cell) in chosen or len(words) < len(cell.words):
            cell = copy(cell)
            cell.value, cell.words = ("", []) if id(cell) in chosen else (_cell_text(words), words)
        cells.append(cell)
    table = copy(table)
    table.cells = cells
    return table


def _unread_without(line: UnreadLine, areas: Sequence[Quad]) -> UnreadLine:
    if line.value and _share_centres(_quads(line), areas):
        return UnreadLine(line.geometry, line.reason, script=line.script)
    return line


def _geometries(element: _Element) -> list[Geometry]:
    if isinstance(element, Field) and element.key_geometry is not None:
        return [element.key_geometry, element.geometry]
    return [element.geometry]


def _quads(element: _Element) -> list[Quad]:
    """Return the places of an element, as corners in reading order."""
    turn = element.crop_orientation.get("value") if isinstance(element, Word) else None
    return [to_quad(reading_geometry(geometry, turn)) for geometry in _geometries(element)]


def _covers(areas: Sequence[Quad], quads: Sequence[Quad] | Quad) -> NDArray[np.bool_]:
    """Return whether the centre of each quad is in each area, which is convex: (number of areas, number of quads)."""
    corners, centres = np.reshape(areas, (-1, 4, 1, 2)), np.reshape(quads, (-1, 4, 2)).mean(axis=1)
    sides, offsets = np.roll(corners, -1, axis=1) - corners, centres - corners
    crosses = sides[..., 0] * offsets[..., 1] - sides[..., 1] * offsets[..., 0]
    is_inside: NDArray[np.bool_] = (crosses >= 0).all(axis=1) | (crosses <= 0).all(axis=1)
    return is_inside & sides.any(axis=(1, 3))


def _black_share(quad: Quad, areas: Sequence[Quad]) -> float:
    """Return the share of the centre line of a word that is in areas."""
    start, stop = quad[[0, 3]].mean(axis=0), quad[[1, 2]].mean(axis=0)
    points = start + np.linspace(0.05, 0.95, 10)[:, None] * (stop - start)
    return float(_covers(areas, np.repeat(points[:, None], 4, axis=1)).any(axis=0).mean())


def _share_centres(quads: Sequence[Quad], areas: Sequence[Quad]) -> bool:
    """Return whether one of the quads contains the centre of an area, or the reverse."""
    return bool(_covers(quads, areas).any() or _covers(areas, quads).any())


def _overlap(one: Quad, other: Quad) -> bool:
    """Return whether two convex quads overlap, by the separating axis theorem."""
    for quad in (one, other):
        sides = np.roll(quad, -1, axis=0) - quad
        for normal in np.stack([-sides[:, 1], sides[:, 0]], axis=1):
            first, second = one @ normal, other @ normal
            if normal.any() and (first.max() <= second.min() or second.max() <= first.min()):
                return False
    return True


def _black_out(image: NDArray[np.uint8], areas: Iterable[tuple[Quad, bool]]) -> NDArray[np.uint8]:
    """Return a copy of an image in which the areas are black. Words get a margin, and regions are rounded up."""
    height, width = image.shape[:2]
    mask = Image.new("L", (width, height))
    draw = ImageDraw.Draw(mask)
    for quad, has_margin in areas:
        corners = np.clip(quad, -1.0, 2.0) * (width, height)
        along, down = (
            corners[1] - corners[0] + corners[2] - corners[3],
            corners[3] - corners[0] + corners[2] - corners[1],
        )
        lengths = np.hypot(*along), np.hypot(*down)
        along = along / lengths[0] if lengths[0] else np.array([1.0, 0.0])
        down = down / lengths[1] if lengths[1] else np.array([-along[1], along[0]])
        height_of_text = lengths[1] / 2
        along *= max(1.0, _MARGINS[0] * height_of_text) if has_margin else 1.0
        down *= max(1.0, _MARGINS[1] * height_of_text) if has_margin else 1.0
        moves = np.array([-along - down, along - down, along + down, down - along])
        # Pillow puts the centre of the first pixel at 0, and fills every pixel that the outline touches.
        draw.polygon([(float(x), float(y)) for x, y in corners + moves - 0.5], fill=255, outline=255)
    image = image.copy()
    image[np.asarray(mask) != 0] = 0
    return image


def _check_regions(regions: RedactedRegions | None, num_pages: int, *, needs_region: bool) -> dict[int, list[Quad]]:
    """Return the regions of each page as quads (4, 2). With ``needs_region``, raise an error if there are none."""
    quads: dict[int, list[Quad]] = {}
    try:
        if isinstance(regions, Mapping):
            for number, page_regions in regions.items():
                place = check_index(number, num_pages, "Page")
                quads.setdefault(place, []).extend(_region_quad(region) for region in page_regions)
            has_region = any(quads.values())
        else:
            quads_of_all = [_region_quad(region) for region in (() if regions is None else regions)]
            quads = dict.fromkeys(range(num_pages), quads_of_all)
            has_region = bool(quads_of_all)
    except InvalidArgumentError:
        raise
    except TypeError:
        raise InvalidArgumentError(
            f"regions = {shown(regions)} should be a list of boxes (xmin, ymin, xmax, ymax), or a dictionary of such "
            "lists by page."
        ) from None
    if needs_region and not has_region:
        raise InvalidArgumentError("There is nothing to redact: give a text, a regular expression, or regions.")
    return quads


def _region_quad(region: RedactedRegion) -> Quad:
    try:
        points = np.asarray(region, dtype=np.float64)
        points = points.reshape(-1, 2) if points.shape in ((4,), (2, 2), (4, 2)) else np.empty((0, 2))
    except (TypeError, ValueError):
        points = np.empty((0, 2))
    is_box = len(points) == 2
    if not len(points) or not np.isfinite(points).all() or (is_box and not (points[0] < points[1]).all()):
        raise InvalidArgumentError(
            f"The region {shown(region)} should be a box (xmin, ymin, xmax, ymax) with xmin < xmax and ymin < ymax, or "
            "four points (x, y)."
        )
    # Rotated words at the border of a page may extend beyond it. Larger numbers are probably pixels.
    is_outside = (points.max(axis=0) <= 0.0).any() or (points.min(axis=0) >= 1.0).any()
    if is_outside or (points < -1.0).any() or (points > 2.0).any():
        raise InvalidArgumentError(
            f"The region {shown(region)} should be relative to the page, whose borders are 0 and 1. It must overlap "
            "the page, and its numbers must be from -1 to 2."
        )
    if is_box:
        return to_quad(points)
    # The four corners can be in any order.
    x, y = (points - points.mean(axis=0)).T
    return points[np.argsort(np.arctan2(y, x))]
