"""Divide a document into paragraphs and tables, paragraphs into sentences, and sentences into words, for chunks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..._reading_order.boxes import layout_label_role, normalize_layout_label
from ...structure._regions import line_joints
from ...utils.geometry import box_around
from .._elements.elements import Geometry
from .._elements.page_order import one_line, predictions_in_reading_order
from .._elements.pages import DocumentBase, PredictionPage, Table, TableCell, TextPage
from .markup import MarkdownExporter
from .tables import pages_with_joined_tables
from .text import FURNITURE, Part, page_parts

# A sign that ends a sentence, with quotation marks and brackets that close after it.
_SENTENCE_END = re.compile(
    r"[.!?\u2026\u061f\u06d4\u0964\u0965\u3002\uff01\uff1f\uff61][\"'\u201c\u201d\u2019\u00bb)\]\u300d\u300f]*$"
)
# Words that end with a dot within a sentence: initials, numbers such as "3." in German dates, "e.g.", and these.
_INNER_DOT = re.compile(
    r"[(\[\"'\u201c\u201e\u00ab]*(?:[^\W\d_]|\d{1,2}|[^\W\d_]+\.[^\W\d_]+|mrs?|ms|dr|prof|st|vs|no|nr|figs?|eqs?|sec|vol|pp|"
    r"cf|ca|abb|tab|bzw|ggf|vgl|str|tel|art|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.",
    re.IGNORECASE,
)
_OPENING = "\"'(\\[\u201c\u201e\u2018\u00ab\u00bf\u00a1"
_LOWER_START = re.compile(rf"[{_OPENING}]*(?=[^\W\d_])(?P<letter>\w)")

# Scripts without spaces between words: a line may end after each of these characters, but not before closing marks.
IDEOGRAPH = "\u3040-\u30fa\u30fd-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_OPENING_WIDE = "\u2018\u201c\u3008\u300a\u300c\u300e\u3010\u3014\uff08\uff3b"
_CLOSING_WIDE = (
    "\u2019\u201d\u2026\u3001\u3002\u3009\u300b\u300d\u300f\u3011\u3015"
    "\u30fb\u30fc\uff01\uff09\uff0c\uff0e\uff1a\uff1b\uff1f\uff3d\uff61"
)
_HAS_IDEOGRAPH = re.compile(f"[{IDEOGRAPH}]")
_WIDE_PIECE = re.compile(
    rf"[{_OPENING_WIDE}]*(?:[{IDEOGRAPH}][{_CLOSING_WIDE},.!?;:)\]%]*|"
    rf"[^{IDEOGRAPH}{_OPENING_WIDE}{_CLOSING_WIDE}]+)?[{_CLOSING_WIDE}]*"
)

# Between two cells of a row that are side by side on the page, but not in a table.
_CELL_BREAK = "  "
_HEADINGS = ("title", "section_header")


@dataclass(frozen=True)
class Piece:
    """A text that is never divided, usually a word.

    ``before`` is the separator after the previous piece. It is left out if the piece begins a chunk. ``places`` has the
    page (``page_idx``) and the box of each word that the text comes from; it is empty for a repeated table head.
    ``unit`` is the number of the paragraph or table, and ``kind`` the kind of its region.
    """

    text: str
    before: str
    places: tuple[tuple[int, NDArray[np.float64]], ...]
    unit: int = 0
    kind: str = "Text"


@dataclass(frozen=True)
class Node:
    """A part of the text: all of its pieces, and as ``children`` the smaller parts into which it can be divided.

    ``is_sentence`` is true if dividing the node would divide a sentence.
    """

    pieces: tuple[Piece, ...]
    children: tuple[Node, ...] = ()
    is_sentence: bool = False


@dataclass(frozen=True)
class TextLine:
    """Words of one line, and the separator before the line."""

    before: str
    words: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)


@dataclass
class Unit:
    """A paragraph, a heading, a list item, or a table.

    Attributes:
        kind: Type of its layout region, such as "Text" or "Table".
        lines: Lines of a paragraph.
        is_prose: Whether the lines are running text, which can be joined to one line.
        has_rows: Whether the lines contain texts that stand side by side on the page.
        context: Text of the page, to look up hyphenated words.
        level: Level of a heading: 0 for titles, 1 or more for section headers. None if it is not a heading.
        table: For tables, the table and the ``page_idx`` of each of its cells.
    """

    kind: str
    lines: list[TextLine] = field(default_factory=list)
    is_prose: bool = False
    has_rows: bool = False
    context: str = ""
    level: int | None = None
    table: tuple[Table, Sequence[int]] | None = None

    @property
    def role(self) -> str:
        """The kind in lower case, with underscores."""
        return normalize_layout_label(self.kind)


def document_units(
    document: DocumentBase, direction: str, *, include_headers_footers: bool, join_tables: bool
) -> list[Unit]:
    """Return the paragraphs and tables of a document in reading order.

    A paragraph that continues in the next column or on the next page is one unit.
    """
    units: list[Unit] = []
    pages = [page for page in document.pages if isinstance(page, TextPage)]
    joined = iter(pages_with_joined_tables(pages) if join_tables else ())
    for page in document.pages:
        if isinstance(page, PredictionPage):
            units += _prediction_units(page, direction)
            continue
        cell_pages: dict[int, list[int]] = {}
        if join_tables:
            page, pages_of_cells = next(joined)
            cell_pages = {id(table): numbers for table, numbers in zip(page.tables, pages_of_cells, strict=True)}
        for unit in _page_units(page, direction, cell_pages):
            if not include_headers_footers and layout_label_role(unit.kind) in ("header", "footer"):
                continue
            # Footnotes at the end of a page are read after the paragraph that continues on the next page.
            previous = next(
                (other for other in reversed(units) if layout_label_role(other.kind) not in FURNITURE), None
            )
            if previous is not None and _continues(previous, unit):
                previous.lines += unit.lines
                previous.context += f" {unit.context}"
            else:
                units.append(unit)
    return units


def _page_units(page: TextPage, direction: str, cell_pages: dict[int, list[int]]) -> Iterator[Unit]:
    parts = [part for part in page_parts(page, direction, True) if part.unread is None]
    context = " ".join(line for part in parts for line in part.lines)
    for part in parts:
        if part.table is not None:
            pages = cell_pages.get(id(part.table), [page.page_idx] * len(part.table.cells))
            yield Unit("Table", table=(part.table, pages))
            continue
        is_prose = page.in_reading_order and part.label is not None and not part.has_rows
        kind = part.label if part.label is not None and part.kind != "text" else "Text"
        level = (max(part.level, 1) if part.kind == "section_header" else 0) if part.kind in _HEADINGS else None
        lines = list(_part_lines(part, page.page_idx))
        if lines:
            yield Unit(kind, lines, is_prose, part.has_rows, context, level)


def _part_lines(part: Part, page_idx: int) -> Iterator[TextLine]:
    for row in part.rows:
        for number, cell in enumerate(row):
            words = tuple(piece for word in cell.words for piece in _pieces_of(word.value, word.geometry, page_idx))
            if words:
                yield TextLine(_CELL_BREAK if number else "\n", words)


def _pieces_of(text: str, geometry: Geometry, page_idx: int) -> list[Piece]:
    places = ((page_idx, box_around(geometry)),)
    return [Piece(part, " ", places) for part in one_line(text).split()]


def _prediction_units(page: PredictionPage, direction: str) -> Iterator[Unit]:
    for class_name, predictions in page.predictions.items():
        texts = [
            (f"{class_name}: {prediction.value}", prediction.geometry)
            for prediction in predictions_in_reading_order(page, predictions, direction)
            if prediction.value.strip()
        ]
        lines = [TextLine("\n", tuple(_pieces_of(text, geometry, page.page_idx))) for text, geometry in texts]
        if lines:
            yield Unit("Text", lines, has_rows=True)


def _continues(unit: Unit, following: Unit) -> bool:
    """Return whether ``following`` continues a sentence of ``unit``, a paragraph in the previous column or page."""
    if not (unit.is_prose and following.is_prose and unit.kind == following.kind == "Text"):
        return False
    last, first = unit.lines[-1].words[-1].text, following.lines[0].words[0].text
    return (last[-1].isalnum() or last[-1] in ",-\u2010\u00ad") and _starts_lower(first)


def _starts_lower(text: str) -> bool:
    match = _LOWER_START.match(text)
    return match is not None and match["letter"].islower()


def unit_text(unit: Unit) -> str:
    """Return the text of a heading or paragraph in one line."""
    return " ".join("".join(piece.before + piece.text for piece in _paragraph_pieces(unit)).split())


def is_heading(kind: str) -> bool:
    return normalize_layout_label(kind) in _HEADINGS


def unit_nodes(unit: Unit, number: int, before: str) -> list[Node]:
    """Return the rows of a table, or the single node of a paragraph.

    ``number`` identifies the unit. ``before`` is the separator between the previous unit and this one.
    """
    if unit.table is not None:
        return _table_rows(*unit.table, number, before)
    return [_paragraph_node(unit, number, before)]


def _paragraph_node(unit: Unit, number: int, before: str) -> Node:
    pieces = [replace(piece, unit=number, kind=unit.kind) for piece in _paragraph_pieces(unit)]
    pieces[0] = replace(pieces[0], before=before)
    if unit.has_rows:
        return parent_node([_sentence(row) for row in _groups(pieces, lambda _, piece: piece.before == "\n")])
    return parent_node([_sentence(sentence) for sentence in _groups(pieces, _ends_sentence)])


def _paragraph_pieces(unit: Unit) -> list[Piece]:
    """Return the words of a paragraph. In running text, join the lines, and the halves of hyphenated words."""
    joints = [(0, line.before) for line in unit.lines]
    if unit.is_prose:
        joints = list(line_joints([line.text for line in unit.lines], unit.context))
    pieces: list[Piece] = []
    for line, (num_dropped, separator) in zip(unit.lines, joints, strict=True):
        for number, word in enumerate(line.words):
            before = " " if number else separator
            if before or not pieces:
                pieces.append(replace(word, before=before))
            else:
                first = pieces[-1]
                text = first.text[: len(first.text) - num_dropped] + word.text
                pieces[-1] = replace(first, text=text, places=first.places + word.places)
    return [part for piece in pieces for part in _cut_ideographs(piece)]


def _cut_ideographs(piece: Piece) -> list[Piece]:
    if not _HAS_IDEOGRAPH.search(piece.text):
        return [piece]
    texts = [text for text in _WIDE_PIECE.findall(piece.text) if text]
    return [replace(piece, text=text, before="" if number else piece.before) for number, text in enumerate(texts)]


def _sentence(pieces: Sequence[Piece]) -> Node:
    """Return a sentence as a tree of words or, if it has several lines, of lines and words."""
    lines = [
        replace(parent_node([Node((piece,)) for piece in line]), is_sentence=True)
        for line in _groups(pieces, lambda _, piece: piece.before == "\n")
    ]
    return replace(parent_node(lines), is_sentence=True)


def parent_node(children: Sequence[Node]) -> Node:
    if len(children) == 1:
        return children[0]
    return Node(tuple(piece for child in children for piece in child.pieces), tuple(children))


def _groups(pieces: Sequence[Piece], is_end: Callable[[Piece, Piece], bool]) -> list[list[Piece]]:
    """Divide pieces into groups. A group ends where ``is_end`` is true for its last piece and the next piece."""
    groups = [[pieces[0]]]
    for last, piece in pairwise(pieces):
        if is_end(last, piece):
            groups.append([])
        groups[-1].append(piece)
    return groups


def _ends_sentence(last: Piece, following: Piece) -> bool:
    if not _SENTENCE_END.search(last.text):
        return False
    return not following.before or not (_INNER_DOT.fullmatch(last.text) or _starts_lower(following.text))


def _table_rows(table: Table, pages: Sequence[int], number: int, before: str) -> list[Node]:
    """Return the head of a table and each further row as nodes, whose texts are lines of Markdown.

    The children of a row are its cells as plain text. They are used instead of the row if it is too long. The result is
    empty if the table has no rows or columns.
    """
    rendered = MarkdownExporter().render_table(table, escape=False)
    if not rendered:
        return []
    first, rule, *others = rendered.split("\n")
    num_head_rows = max(table.num_header_rows, 1)
    rows: list[list[tuple[TableCell, int]]] = [[] for _ in range(1 + len(others))]
    for cell, page in sorted(zip(table.cells, pages, strict=True), key=lambda item: item[0].col_start):
        if 0 <= cell.row_start < table.num_rows and 0 <= cell.col_start < table.num_cols:
            rows[max(cell.row_start - num_head_rows + 1, 0)].append((cell, page))
    texts = [f"{first}\n{rule}", *others]
    return [
        _row_node(text, cells, number, "\n" if index else before)
        for index, (text, cells) in enumerate(zip(texts, rows, strict=True))
    ]


def _row_node(text: str, cells: Sequence[tuple[TableCell, int]], number: int, before: str) -> Node:
    places = tuple((page, box_around(cell.geometry)) for cell, page in cells)
    children: list[Node] = []
    for cell, page in cells:
        pieces = [part for piece in _pieces_of(cell.value, cell.geometry, page) for part in _cut_ideographs(piece)]
        pieces = [replace(piece, unit=number, kind="Table") for piece in pieces]
        if pieces:
            pieces[0] = replace(pieces[0], before=" | " if children else before)
            children.append(_sentence(pieces))
    return Node((Piece(text, before, places, number, "Table"),), tuple(children))
