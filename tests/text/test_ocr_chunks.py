"""Chunks for retrieval, against documents whose words, sentences, sections and positions are known."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.io import Block, Chunk, Document, LayoutElement, Line, Page, Table, Word
from ocr_export_pages import empty_pages, kie_page, table_of, word

UPRIGHT = {"value": 0, "confidence": None}
IMAGE = np.zeros((0, 0, 3), np.uint8)
SIZE = (1000, 800)
TOKENIZERS: dict[str, Callable[[str], int | Sized] | None] = {
    "default": None,
    "words": str.split,
    "bytes": lambda text: text.encode(),
    # The count is not the sum over the parts of a text: tokens are added at both ends, as for BERT.
    "pairs of letters": lambda text: 2 + (len(text) + 1) // 2,
    "transformers": lambda text: {"input_ids": text.split(), "attention_mask": [1]},
}


def count_plainly(text: str, name: str) -> int:
    """The number of tokens, by other means than the library's."""
    if name == "default":
        return len(re.sub(r"([.,:|-])", r" \1 ", text).split())
    counts = {"bytes": len(text.encode()), "pairs of letters": 2 + (len(text) + 1) // 2}
    return counts.get(name, len(text.split()))


class Sheet:
    """A page under construction: lines from top to bottom, each region below the one before."""

    def __init__(self, number: int) -> None:
        self.number, self.top = number, 0.02
        self.blocks: list[Block] = []
        self.layout: list[LayoutElement] = []
        self.tables: list[Table] = []

    def add(self, kind: str, *lines: str, level: int = 0) -> None:
        made = []
        for line in lines:
            texts = line.split()
            width = 0.9 / max(len(texts), 8)
            made.append(Line([self._word(text, 0.05 + width * index, width * 0.9) for index, text in enumerate(texts)]))
            self.top += 0.014
        block = Block(made)
        self.blocks.append(block)
        self.layout.append(LayoutElement(kind, 0.9, block.geometry, level=level))
        self.top += 0.01

    def _word(self, text: str, left: float, width: float) -> Word:
        return Word(text, 0.9, ((left, self.top), (left + width, self.top + 0.01)), 0.9, UPRIGHT)

    def add_table(self, rows: list[list[str]], *, bottom: float | None = None) -> None:
        bottom = self.top + 0.014 * len(rows) if bottom is None else bottom
        self.tables.append(table_of(rows, (0.05, self.top, 0.95, bottom)))
        self.layout.append(LayoutElement("Table", 0.9, self.tables[-1].geometry))
        self.top = bottom + 0.01

    def page(self) -> Page:
        return Page(
            IMAGE, self.blocks, self.number, SIZE, layout=self.layout, tables=self.tables, in_reading_order=True
        )


def document_of(*sheets: Sheet) -> Document:
    return Document([sheet.page() for sheet in sheets])


def texts_of(chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


@dataclass
class Known:
    """A generated document, and what is known of it."""

    sheets: list[Sheet] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    pages: dict[str, set[int]] = field(default_factory=dict)
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    boxes: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    sentences: list[list[str]] = field(default_factory=list)
    table_words: set[str] = field(default_factory=set)
    head_words: set[str] = field(default_factory=set)


def spelled(number: int) -> str:
    """A word of small letters for each number, always of the same length."""
    return "".join(chr(97 + number // 26**power % 26) for power in (3, 2, 1, 0)) + "qx"


@st.composite
def known_documents(draw: st.DrawFn) -> Known:
    known, numbers, path = Known(), itertools.count(), ["", ""]

    def new_words(most: int, *, capital: bool = False) -> list[str]:
        words = [spelled(next(numbers)) for _ in range(draw(st.integers(1, most)))]
        return [words[0].capitalize(), *words[1:]] if capital else words

    def note(words: list[str], page: int) -> None:
        known.words += words
        for text in words:
            known.pages[text] = {page}
            known.paths[text] = tuple(filter(None, path))

    for page in range(draw(st.integers(1, 3))):
        sheet = Sheet(page)
        known.sheets.append(sheet)
        for kind in draw(st.lists(st.sampled_from(["head", "text", "list", "table", "caption", "footer"]), max_size=7)):
            if kind == "head":
                level = draw(st.integers(1, 2))
                words = new_words(3, capital=True)
                path[level - 1 :] = [" ".join(words)] + [""] * (2 - level)
                note(words, page)
                sheet.add("Section-header", " ".join(words), level=level)
                known.sentences.append(words)
            elif kind == "footer":
                sheet.add("Page-footer", "leftout " * draw(st.integers(1, 3)))
            elif kind == "table":
                columns, rows = draw(st.integers(1, 3)), draw(st.integers(1, 5))
                grid = [[" ".join(new_words(3)) for _ in range(columns)] for _ in range(rows)]
                words = " ".join(" ".join(row) for row in grid).split()
                note(words, page)
                known.table_words |= set(words)
                known.head_words |= set(" ".join(grid[0]).split())
                sheet.add_table(grid)
            else:
                region = {"text": "Text", "list": "List-item", "caption": "Caption"}[kind]
                sentences = [new_words(9, capital=True) for _ in range(draw(st.integers(1, 4)))]
                for sentence in sentences:
                    sentence[-1] += "."
                known.sentences += sentences
                words = [text for sentence in sentences for text in sentence]
                note(words, page)
                sheet.add(region, *divided_lines(words, draw(st.integers(2, 6)), draw(st.booleans())))
    for sheet in known.sheets:
        for block in sheet.blocks:
            for made in (made for line in block.lines for made in line.words):
                known.boxes.setdefault(made.value, []).append((sheet.number, made.geometry))
    return known


def divided_lines(words: list[str], per_line: int, hyphens: bool) -> Iterator[str]:
    """Lines of some words. With ``hyphens``, the last word of a line is divided, and continues on the next."""
    rest = list(words)
    while rest:
        line, rest = rest[:per_line], rest[per_line:]
        if hyphens and rest and rest[0].strip(".").islower():
            line.append(rest[0][:3] + "-")
            rest[0] = rest[0][3:]
        yield " ".join(line)


def own_words(chunk: Chunk, seen: set[str], known: Known) -> list[str]:
    """The words of a chunk, without the marks of a table and a repeated head."""
    words = re.sub(r"\| ?|---", " ", chunk.text).split()
    if chunk.kind == "Table":
        words = [text for text in words if text not in seen & known.head_words]
    return words


@settings(max_examples=150)
@given(
    known=known_documents(),
    max_tokens=st.integers(1, 60),
    tokenizer=st.sampled_from(sorted(TOKENIZERS)),
)
def test_chunks_cover_each_word_once_within_the_limit(known: Known, max_tokens: int, tokenizer: str) -> None:
    chunks = document_of(*known.sheets).chunks(max_tokens, TOKENIZERS[tokenizer])
    seen: list[str] = []
    chunks_of: dict[str, int] = {}
    for number, chunk in enumerate(chunks):
        words = own_words(chunk, set(seen), known)
        assert words, "no chunk is empty"
        seen += words
        chunks_of |= dict.fromkeys(words, number)
        assert chunk.num_tokens == count_plainly(chunk.text, tokenizer)
        assert chunk.num_tokens <= max_tokens or len(chunk.text.split()) == 1, "only a single word is longer"
        assert set(chunk.pages) == set().union(*(known.pages[text] for text in words))
        assert chunk.heading_path == known.paths[words[-1]]
        assert all(chunk.heading_path[: len(known.paths[text])] == known.paths[text] for text in words)
        for text in words:
            for page, ((left, top), (right, bottom)) in known.boxes.get(text, []):
                around = chunk.boxes[chunk.pages.index(page)]
                assert any(x0 <= left and y0 <= top and right <= x1 and bottom <= y1 for (x0, y0), (x1, y1) in around)
        assert not known.table_words.intersection(words) or chunk.kind == "Table"
    assert seen == known.words
    for sentence in known.sentences:
        if len({chunks_of[text] for text in sentence}) > 1:
            assert count_plainly(" ".join(sentence), tokenizer) > max_tokens, "divided only if it has to be"


def test_sections_paragraphs_and_tables() -> None:
    sheet = Sheet(0)
    sheet.add("Title", "Annual report")
    sheet.add("Text", "A short introduction.")
    sheet.add("Section-header", "1 Sales", level=1)
    sheet.add("Section-header", "1.1 Tea", level=2)
    sheet.add("Text", "Tea sold well in spring, and even bet-", "ter in summer.")
    sheet.add("Text", "Two reasons:")
    sheet.add("List-item", "- the price")
    sheet.add("List-item", "- the weather")
    sheet.add("Caption", "Table 1: sales | year")
    sheet.add_table([["month", "kg"], ["May", "3|4"], ["June", "5"]])
    sheet.add("Text", "After the table.")
    sheet.add("Section-header", "2 Costs", level=1)
    sheet.add("Page-footer", "page 1")

    chunks = document_of(sheet).chunks()

    text = "Tea sold well in spring, and even better in summer."
    assert texts_of(chunks) == [
        "Annual report\n\nA short introduction.",
        f"1 Sales\n\n1.1 Tea\n\n{text}\n\nTwo reasons:\n- the price\n- the weather",
        "Table 1: sales | year\n\n| month | kg |\n| --- | --- |\n| May | 3\\|4 |\n| June | 5 |",
        "After the table.",
        "2 Costs",
    ]
    tea = ("Annual report", "1 Sales", "1.1 Tea")
    assert [chunk.heading_path for chunk in chunks] == [tea[:1], tea, tea, tea, ("Annual report", "2 Costs")]
    assert [chunk.kind for chunk in chunks] == ["Text", "Text", "Table", "Text", "Section-header"]
    assert [len(chunk.boxes[0]) for chunk in chunks] == [2, 6, 2, 1, 1]
    assert document_of(sheet).chunks(include_headers_footers=True)[-1].text == "2 Costs\n\npage 1"


def test_lists_are_divided_between_items_and_stay_together_if_they_fit() -> None:
    sheet = Sheet(0)
    sheet.add("Text", "One two three four five six seven.")
    sheet.add("Text", "Steps:")
    for item in ("first step", "second step", "third step"):
        sheet.add("List-item", item)
    document = document_of(sheet)
    listed = "Steps:\nfirst step\nsecond step\nthird step"
    assert texts_of(document.chunks(8, str.split)) == ["One two three four five six seven.", listed]
    assert texts_of(document.chunks(6, str.split)) == [
        "One two three four five six",
        "seven.\n\nSteps:\nfirst step\nsecond step",
        "third step",
    ]


def test_a_table_that_is_divided_repeats_its_head() -> None:
    sheet = Sheet(0)
    sheet.add("Section-header", "Prices", level=1)
    sheet.add_table(
        [["item", "price"], ["tea", "1"], ["milk", "2"], ["a very long name of a spice", "3"], ["salt", "4"]]
    )
    head = "| item | price |\n| --- | --- |\n"
    # A row of a table has a bar at each end, and between cells: 5 words with two cells of one word.
    assert texts_of(document_of(sheet).chunks(20, str.split)) == [
        f"Prices\n\n{head}| tea | 1 |",
        f"{head}| milk | 2 |",
        "a very long name of a spice | 3",
        f"{head}| salt | 4 |",
    ]
    assert [chunk.kind for chunk in document_of(sheet).chunks(20, str.split)] == ["Table"] * 4
    assert texts_of(document_of(sheet).chunks(3, str.split))[:3] == ["Prices", "item | price", "tea | 1"]


def test_a_joined_table_has_the_pages_of_its_parts() -> None:
    first, second = Sheet(4), Sheet(5)
    first.add("Text", "Before.")
    first.top = 0.7
    first.add_table([["item", "price"], ["tea", "1"]], bottom=0.95)
    second.add_table([["item", "price"], ["milk", "2"]], bottom=0.3)
    second.add("Text", "After.")
    document = document_of(first, second)

    chunks = document.chunks()

    assert [(chunk.kind, chunk.pages) for chunk in chunks] == [("Text", (4,)), ("Table", (4, 5)), ("Text", (5,))]
    assert chunks[1].text.splitlines() == ["| item | price |", "| --- | --- |", "| tea | 1 |", "| milk | 2 |"]
    assert [round(box[0][1], 2) for (box,) in chunks[1].boxes] == [0.7, 0.16]  # the head of the second is left out
    small = document.chunks(15, str.split)
    assert [chunk.pages for chunk in small if chunk.kind == "Table"] == [(4,), (5,)]
    assert [chunk.pages for chunk in document.chunks(join_tables=False)] == [(4,), (4,), (5,), (5,)]
    assert [len(page.tables) for page in document.pages] == [1, 1], "the document is not changed"


def test_a_paragraph_continues_on_the_next_page() -> None:
    first, second = Sheet(0), Sheet(1)
    first.add("Text", "This sentence is con-")
    first.add("Footnote", "1 A note.")
    first.add("Page-footer", "1")
    second.add("Page-header", "Report")
    second.add("Text", "tinued here. It ends.")
    second.add("Text", "Another paragraph.")
    chunks = document_of(first, second).chunks(8)
    assert texts_of(chunks) == [
        "This sentence is continued here.",
        "It ends.\n\n1 A note.",
        "Another paragraph.",
    ]
    assert [chunk.pages for chunk in chunks] == [(0, 1), (0, 1), (1,)]


@pytest.mark.parametrize(
    ("text", "limit", "chunks"),
    [
        # A dot within a sentence does not end it.
        ("See Dr. Who at 3. May, e.g. Now go.", 9, ["See Dr. Who at 3. May, e.g. Now go."]),
        ("He left (really?). She stayed.", 3, ["He left (really?).", "She stayed."]),
        ("Is it? yes it is! Good.", 5, ["Is it? yes it is!", "Good."]),
        ("one two three four five.", 2, ["one two", "three four", "five."]),
        ("a incomprehensibilities b", 1, ["a", "incomprehensibilities", "b"]),
    ],
)
def test_text_is_divided_between_sentences(text: str, limit: int, chunks: list[str]) -> None:
    sheet = Sheet(0)
    sheet.add("Text", text)
    assert texts_of(document_of(sheet).chunks(limit, str.split)) == chunks


def test_a_word_above_the_limit_is_a_chunk_of_its_own() -> None:
    sheet = Sheet(0)
    sheet.add("Text", "go to https://example.org/a/very/long/path now")
    chunks = document_of(sheet).chunks(12, len)
    assert texts_of(chunks) == ["go to", "https://example.org/a/very/long/path", "now"]
    assert [chunk.num_tokens for chunk in chunks] == [5, 36, 3]


def test_chinese_is_divided_between_characters_but_not_before_marks() -> None:
    sheet = Sheet(0)
    sheet.add("Text", "我们增长了3.5%。明天见。")
    chunks = document_of(sheet).chunks(6, len)
    assert texts_of(chunks) == ["我们增长了", "3.5%。", "明天见。"]
    assert [chunk.num_tokens for chunk in document_of(sheet).chunks()] == [14]


def test_pages_without_layout_have_no_headings() -> None:
    """Pages have no layout regions, as without `detect_layout` and in exports of docTR. Rows of cells stay rows."""
    lines = [
        [("Total", 10), ("$21.49", 300)],
        [("Paid", 10), ("$22.00", 300)],
    ]
    blocks = [
        Block([Line([word(text, (left, 20 + 30 * row, left + 80, 40 + 30 * row))]) for text, left in cells])
        for row, cells in enumerate(lines)
    ]
    for in_reading_order in (False, True):
        page = Page(np.zeros((400, 600, 3), np.uint8), blocks, 0, (400, 600), in_reading_order=in_reading_order)
        (chunk,) = Document([page]).chunks()
        assert chunk.text.split() == ["Total", "$21.49", "Paid", "$22.00"]
        assert (chunk.kind, chunk.pages, chunk.heading_path) == ("Text", (0,), ())
        assert "Total  $21.49" in chunk.text
        assert texts_of(Document([page]).chunks(2, str.split)) == ["Total  $21.49", "Paid  $22.00"]


def test_odd_documents() -> None:
    assert Document([]).chunks() == []
    broken = Page(IMAGE, [], 1, SIZE, error="damaged")
    empty_table = Table([], 0, 0, ((0.0, 0.0), (1.0, 1.0)))
    assert Document([broken, Page(IMAGE, [], 2, SIZE, tables=[empty_table])]).chunks() == []
    predictions = kie_page({"total": [word("21.49", (10, 10, 90, 30))], "date": []})
    assert texts_of(Document([predictions]).chunks()) == ["total: 21.49"]
    for page in empty_pages().values():
        document = page if isinstance(page, Document) else Document([page])
        for limit in (1, 100):
            text = " ".join(texts_of(document.chunks(limit)))
            assert not re.search("[\x00-\x08\ud800-\udfff]", text)


def test_bad_arguments_are_refused() -> None:
    sheet = Sheet(0)
    sheet.add("Text", "some text")
    document = document_of(sheet)
    for limit in (0, -1, 2.5, True, "many"):
        with pytest.raises(InvalidArgumentError, match="max_tokens must be a positive whole number"):
            document.chunks(limit)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="tokenizer must be a function"):
        document.chunks(tokenizer="gpt2")  # type: ignore[arg-type]
    for tokenizer in (str.upper, lambda text: -1, lambda text: None, lambda text: np.zeros((1, 3))):
        with pytest.raises(InvalidArgumentError, match="tokenizer must return the tokens"):
            document.chunks(tokenizer=tokenizer)  # type: ignore[arg-type]
