"""Cut a document into chunks of limited length, for retrieval.

Chunks follow the elements of the page (headings, paragraphs, tables) instead of a fixed number of words, as proposed in
"Financial Report Chunking for Effective Retrieval Augmented Generation" (Jimeno Yepes et al., 2024, arXiv 2402.05131).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...._engine.common.checks import shown, whole_number
from ....errors import InvalidArgumentError
from ...utils.geometry import to_corners
from .._elements.pages import DocumentBase
from .chunk_units import (
    IDEOGRAPH,
    Node,
    Piece,
    Unit,
    document_units,
    is_heading,
    parent_node,
    unit_nodes,
    unit_text,
)

#: A function that divides a text into tokens, or counts them.
Tokenizer: TypeAlias = Callable[[str], int | Sized]
#: ((xmin, ymin), (xmax, ymax)) in fractions of the page's width and height.
Box: TypeAlias = tuple[tuple[float, float], tuple[float, float]]

# A word, a number, a sign, or a letter of a script without spaces between words.
_TOKEN = re.compile(rf"[{IDEOGRAPH}]|[^\W{IDEOGRAPH}]+|[^\w\s]")
_WITH_CAPTION = ("table", "picture")


@dataclass(frozen=True)
class Chunk:
    """A part of a document for retrieval, with its place in the document.

    Attributes:
        text: The text. Paragraphs are separated by empty lines, and tables are Markdown.
        kind: "Table" if the chunk has text of a table. If not, the type of the layout region that most of the text is
            in, such as "Text" or "List-item"; headings count only if there is nothing else. Without layout regions,
            "Text".
        pages: The indices (``page_idx``, from 0) of the pages that the text comes from.
        boxes: For each of ``pages``, the boxes ((xmin, ymin), (xmax, ymax)) of the paragraphs and tables on it, in
            fractions of the page's width and height. If only a part of a paragraph is in the chunk, the box is around
            the words of this part.
        heading_path: The headings that the text belongs to, from the title down to the innermost section header. Empty
            without layout regions.
        num_tokens: The number of tokens of ``text``, as counted by the tokenizer that was passed to `Document.chunks`.

    Example:
        >>> from mediatensor.ocr.io import Chunk
        >>> chunk = Chunk("Two pages.", "Text", (0, 1), (((0.1, 0.9), (0.4, 1.0)),) * 2, ("Report", "Size"), 3)
        >>> " > ".join(chunk.heading_path)
        'Report > Size'
    """

    text: str
    kind: str
    pages: tuple[int, ...]
    boxes: tuple[tuple[Box, ...], ...]
    heading_path: tuple[str, ...]
    num_tokens: int


def document_chunks(
    document: DocumentBase,
    max_tokens: int,
    tokenizer: Tokenizer | None,
    *,
    direction: str,
    include_headers_footers: bool,
    join_tables: bool,
) -> list[Chunk]:
    """Cut a document into chunks. See `Document.chunks`."""
    packer = _Packer(whole_number("max_tokens", max_tokens, at_least=1), _token_counter(tokenizer))
    units = document_units(
        document, direction, include_headers_footers=include_headers_footers, join_tables=join_tables
    )
    numbers = count()
    paragraphs: list[Node] = []
    for group in _group_units(units):
        is_body = all(unit.level is None and unit.table is None for unit in group)
        if not is_body:
            packer.add(paragraphs)
            paragraphs = []
        # For each unit, its rows if it is a table, or else a single node.
        nodes = [
            unit_nodes(unit, next(numbers), "\n" if index and unit.role == "list_item" else "\n\n")
            for index, unit in enumerate(group)
        ]
        if is_body:
            paragraphs.append(parent_node([node for members in nodes for node in members]))
        elif group[0].level is not None:
            packer.add_heading(nodes[0][0], group[0].level, unit_text(group[0]))
        else:
            packer.add_table([(unit.table is not None, members) for unit, members in zip(group, nodes, strict=True)])
    packer.add(paragraphs)
    packer.flush()
    return packer.chunks


def _group_units(units: Sequence[Unit]) -> list[list[Unit]]:
    """Group units that stay together if they fit: lists with their introduction, tables and pictures with captions."""
    groups: list[list[Unit]] = []
    for unit in units:
        if groups and _stays_with(unit, groups[-1]):
            groups[-1].append(unit)
        else:
            groups.append([unit])
    return groups


def _stays_with(unit: Unit, group: Sequence[Unit]) -> bool:
    last = group[-1]
    if unit.role == "list_item":
        is_introduction = last.kind == "Text" and last.lines[-1].words[-1].text.endswith((":", "\uff1a"))
        return last.role == "list_item" or is_introduction
    if unit.role == "caption":
        return last.role in _WITH_CAPTION and len(group) == 1
    return unit.role in _WITH_CAPTION and last.role == "caption" and len(group) == 1


def _token_counter(tokenizer: Tokenizer | None) -> Callable[[str], int]:
    if tokenizer is None:
        return lambda text: len(_TOKEN.findall(text))
    if not callable(tokenizer):
        raise InvalidArgumentError(
            f"tokenizer must be a function that takes a text, such as the method encode of a tokenizer, or None (got "
            f"{shown(tokenizer)})."
        )

    def count_tokens(text: str) -> int:
        tokens: object = tokenizer(text)
        if isinstance(tokens, Mapping) and "input_ids" in tokens:  # as tokenizers of transformers return
            tokens = tokens["input_ids"]
        if isinstance(tokens, int | np.integer) and not isinstance(tokens, bool) and tokens >= 0:
            return int(tokens)
        is_list = not isinstance(tokens, str | Mapping) and getattr(tokens, "ndim", 1) == 1
        if is_list and isinstance(tokens, Sized):
            return len(tokens)
        raise InvalidArgumentError(
            f"tokenizer must return the tokens of a text, as a list, or their number (got {shown(tokens)}). Pass the "
            "method encode of your tokenizer."
        )

    return count_tokens


class _Packer:
    """Collect pieces of text into chunks of at most ``max_tokens``, counted by ``count_tokens``."""

    def __init__(self, max_tokens: int, count_tokens: Callable[[str], int]) -> None:
        self.chunks: list[Chunk] = []
        self._max_tokens = max_tokens
        self._count_tokens = count_tokens
        # The pieces of the next chunk, and whether these are only headings, or a repeated table head.
        self._pieces: list[Piece] = []
        self._is_opening = True
        # (level, text) of the headings above the present place.
        self._path: list[tuple[int, str]] = []

    def add_heading(self, node: Node, level: int, text: str) -> None:
        """Start a chunk with a heading. A heading directly below another one stays in the same chunk."""
        is_below = self._is_opening and bool(self._path) and self._path[-1][0] < level
        if not (is_below and self._fits([*self._pieces, *node.pieces])):
            self.flush()
        self._path = [heading for heading in self._path if heading[0] < level] + [(level, text)]
        self.add([node])
        self._is_opening = True

    def add(self, nodes: Sequence[Node]) -> None:
        """Add nodes in order. Nodes that do not fit are divided, or begin a new chunk."""
        start = 0
        while start < len(nodes):
            num_fitting = self._num_fitting(nodes[start:])
            if num_fitting:
                self._append(nodes[start : start + num_fitting])
            else:
                self._add_large(nodes[start])
            start += max(num_fitting, 1)

    def _add_large(self, node: Node) -> None:
        is_too_large = not self._fits(node.pieces)
        # A paragraph is divided rather than leave its heading alone, but a sentence is not.
        if node.children and (is_too_large or (self._is_opening and not node.is_sentence)):
            if node.is_sentence and not self._is_opening:
                self.flush()
            self.add(node.children)
        else:
            self.flush()
            self._append([node])  # a single word, if it is too large

    def add_table(self, parts: Sequence[tuple[bool, Sequence[Node]]]) -> None:
        """Add a table with its captions, after the headings above it, as one chunk or, if it is too long, as several.

        Each of ``parts`` is (is_table, nodes): the nodes of the table itself, or of a caption. If the table is divided,
        each further chunk repeats the head of the table.
        """
        if not self._is_opening:
            self.flush()
        whole = [node for _, nodes in parts for node in nodes]
        pieces = _pieces_of(whole)
        if self._fits(self._pieces + pieces):
            self._append(whole)
        elif self._fits(pieces):
            self.flush()
            self._append(whole)
        else:
            for is_table, nodes in parts:
                if is_table and nodes:
                    self._add_rows(nodes)
                else:
                    self.add(nodes)
        self.flush()

    def _add_rows(self, rows: Sequence[Node]) -> None:
        head = replace(rows[0].pieces[0], places=())
        # The head is not left alone in a chunk.
        nodes = [parent_node(rows[:2]), *rows[2:]]
        start = 0
        while start < len(nodes):
            num_fitting = self._num_fitting(nodes[start:])
            if not num_fitting:
                self.flush()
                self._pieces = [head] if start else []
                num_fitting = self._num_fitting(nodes[start : start + 1])
            if num_fitting:
                self._append(nodes[start : start + num_fitting])
            else:  # A row that is too long is added as plain text.
                self._pieces = []
                for row in [nodes[start]] if start else rows[:2]:
                    self.add(row.children)
                self.flush()
                self._pieces = [head]
            start += max(num_fitting, 1)
        if self._pieces == [head]:
            self._pieces = []

    def _append(self, nodes: Sequence[Node]) -> None:
        self._pieces += _pieces_of(nodes)
        self._is_opening = False

    def _fits(self, pieces: Sequence[Piece]) -> bool:
        return self._count_tokens(_text_of(pieces)) <= self._max_tokens

    def _num_fitting(self, nodes: Sequence[Node]) -> int:
        fitting, limit = 0, 1
        while limit <= len(nodes) and self._fits(self._pieces + _pieces_of(nodes[:limit])):
            fitting, limit = limit, 2 * limit
        limit = min(limit, len(nodes) + 1)
        while limit - fitting > 1:
            middle = (fitting + limit) // 2
            if self._fits(self._pieces + _pieces_of(nodes[:middle])):
                fitting = middle
            else:
                limit = middle
        return fitting

    def flush(self) -> None:
        """End the present chunk, unless it is empty or only has a repeated table head."""
        pieces = [piece for piece in self._pieces if piece.places]
        if pieces:
            text = _text_of(self._pieces)
            pages, boxes = _places_of(pieces)
            path = tuple(heading for _, heading in self._path)
            self.chunks.append(Chunk(text, _kind_of(pieces), pages, boxes, path, self._count_tokens(text)))
        self._pieces = []
        self._is_opening = True


def _pieces_of(nodes: Sequence[Node]) -> list[Piece]:
    return [piece for node in nodes for piece in node.pieces]


def _text_of(pieces: Sequence[Piece]) -> str:
    return "".join(piece.before + piece.text if index else piece.text for index, piece in enumerate(pieces))


def _kind_of(pieces: Sequence[Piece]) -> str:
    """Return "Table" if a piece is from a table, or else the kind of most of the text.

    Headings do not count, unless there is nothing else.
    """
    lengths: Counter[str] = Counter()
    for piece in pieces:
        lengths[piece.kind] += len(piece.text)
    if "Table" in lengths:
        return "Table"
    bodies = {kind: length for kind, length in lengths.items() if not is_heading(kind)} or lengths
    return max(bodies, key=bodies.__getitem__)


def _places_of(pieces: Sequence[Piece]) -> tuple[tuple[int, ...], tuple[tuple[Box, ...], ...]]:
    """Return the pages of pieces, and for each page the box around the pieces of each unit."""
    boxes: dict[int, dict[int, NDArray[np.float64]]] = {}
    for piece in pieces:
        for page, box in piece.places:
            units = boxes.setdefault(page, {})
            known = units.get(piece.unit, box)
            units[piece.unit] = np.concatenate([np.minimum(known[:2], box[:2]), np.maximum(known[2:], box[2:])])
    pages = tuple(sorted(boxes))
    return pages, tuple(tuple(map(to_corners, boxes[page].values())) for page in pages)
