"""Plain text, Markdown, AsciiDoc and HTML, next to what docTR wrote of the same pages."""

from __future__ import annotations

from typing import Any, TypeVar, get_args, get_origin, get_overloads, get_type_hints

import pytest

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.io import (
    AsciiDocExporter,
    Block,
    Document,
    HTMLExporter,
    KIEDocument,
    KIEPage,
    LayoutElement,
    MarkdownExporter,
    Page,
    Table,
    TableCell,
    TextExporter,
)
from ocr_export_pages import (
    SIZE,
    HtmlParts,
    doctr_exports,
    empty_pages,
    kie_page,
    noise,
    page_of,
    partly_read_page,
    relative,
    turned_word,
    unread_line,
    word,
)

FORMATS = ("text", "markdown", "asciidoc", "html")


def recorded_document(case: str) -> Document:
    stored = doctr_exports("1.1.0")[case]["stored"]
    return (KIEDocument if case == "predictions" else Document).from_dict(stored)


@pytest.mark.parametrize("case", doctr_exports("1.1.0"))
@pytest.mark.parametrize("format", FORMATS)
def test_formats_match_doctr(case: str, format: str) -> None:
    assert recorded_document(case).export_as(format) == doctr_exports("1.1.0")[case][format]


@pytest.mark.parametrize("format", FORMATS)
def test_furniture_can_be_left_out(format: str) -> None:
    document = recorded_document("layout")

    exported = document.export_as(format, include_furniture=False)

    assert exported == doctr_exports("1.1.0")["layout"][f"{format} without furniture"]
    assert "footer" in document.export_as(format)
    assert "footer" not in exported


@pytest.mark.parametrize("case", list(empty_pages()))
@pytest.mark.parametrize("format", FORMATS)
def test_nearly_empty_pages_are_exported(case: str, format: str) -> None:
    exported = empty_pages()[case].export_as(format)

    assert isinstance(exported, str)
    exported.replace("\ud800", "").encode()


def test_formats_have_aliases() -> None:
    page = page_of(word("one", (10, 10, 60, 30)))

    assert page.export_as(" MD ") == page.export_as_markdown()
    assert page.export_as("txt") == page.render()
    assert page.export_as("dict", reading_order=False) == page.export(reading_order=False)
    with pytest.raises(InvalidArgumentError, match=r"unsupported export format 'docx'.*alto"):
        page.export_as("docx")


@pytest.mark.parametrize("element", [Page, KIEPage, Document, KIEDocument])
def test_each_format_returns_the_annotated_type(element: type) -> None:
    page = page_of(word("one", (10, 10, 60, 30)), image=noise())
    predictions = kie_page({"sum": [word("one", (10, 10, 60, 30))]})
    predictions.page = page.page
    pages = {Page: page, KIEPage: predictions, Document: Document([page]), KIEDocument: KIEDocument([predictions])}
    hocr = list if issubclass(element, Document) else tuple
    checked = set()
    for signature in get_overloads(element.export_as):
        hints = get_type_hints(signature)
        for name in get_args(hints["format"]):
            exported = pages[element].export_as(name)
            promised = hocr if isinstance(hints["return"], TypeVar) else hints["return"]
            assert isinstance(exported, get_origin(promised) or promised), name
            checked.add(name)
    assert checked == {
        *("json", "dict", "text", "txt", "markdown", "md", "asciidoc", "adoc", "html", "tsv", "csv"),
        *("xml", "hocr", "alto", "pdf", "xlsx"),
    }


def test_breaks_separate_blocks_and_pages() -> None:
    page = page_of(word("one", (10, 10, 60, 30)), word("two", (10, 300, 60, 320)))
    document = Document([page, page])

    assert page.render(block_break="|") == "one|two"
    assert document.render(block_break="|", page_break="#") == "one|two#one|two"
    assert document.export_as_markdown() == "one\n\ntwo\n\n---\n\none\n\ntwo"
    assert document.export_as_html(page_break="\n") == "<p>one</p>\n<p>two</p>\n<p>one</p>\n<p>two</p>"


@pytest.mark.parametrize("exporter", [TextExporter(), MarkdownExporter(), AsciiDocExporter(), HTMLExporter()])
def test_exporter_classes_join_pages(exporter: Any) -> None:
    page, predictions = page_of(word("one", (10, 10, 60, 30))), kie_page({"sum": [word("two", (10, 10, 60, 30))]})

    exported = exporter.export_document(Document([page, predictions]), page_break="%%")

    assert exported == f"{exporter.export_page(page)}%%{exporter.export_kie_page(predictions)}"
    assert "one" in exported.split("%%")[0]
    assert "two" in exported.split("%%")[1]


def test_direction_can_be_given() -> None:
    line = Block([page_of(word("a", (10, 10, 60, 30))).blocks[0].lines[0]])
    line.lines[0].words.append(word("b", (70, 10, 120, 30)))
    page = Page(page_of().page, [line], 0, SIZE)

    assert page.render() == page.render(direction="ltr") == "a b"
    assert page.render(direction="rtl") == "b a"
    for element in (page, kie_page({"sum": [word("a", (10, 10, 60, 30))]})):
        with pytest.raises(InvalidArgumentError, match="sideways"):
            element.render(direction="sideways")


def test_right_to_left_is_towards_the_start_of_text_that_is_upside_down() -> None:
    words = [turned_word(text, (x, 200), (40, 20), 180) for text, x in (("שלום", 100), ("עולם", 200))]
    page = page_of()
    page.blocks = [Block([page_of(words[0]).blocks[0].lines[0]])]
    page.blocks[0].lines[0].words = words

    # On the upright page, the larger x is on the left.
    assert page.render() == "שלום עולם"


def test_items_are_blocks_and_tables() -> None:
    page = recorded_document("layout").pages[0]

    kinds = [type(item) for item in page.items_in_reading_order()]

    assert kinds.count(Table) == 1
    assert set(kinds) == {Block, Table}


# Special characters of formats


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*a* _b_ `c` [d] <e> #f g|h i\\j", r"\*a\* \_b\_ \`c\` \[d\] \<e\> \#f g\|h i\\j"),
        ("- item", r"\- item"),
        ("12. item", r"12\. item"),
        ("3) item", r"3\) item"),
        ("2024 is a year", "2024 is a year"),
        ("1.5 litres", "1.5 litres"),
        ("===", r"\==="),
        ("~~~ code", r"\~\~~ code"),
        ("&amp; R&D", r"\&amp; R&D"),
    ],
)
def test_markdown_is_escaped(text: str, expected: str) -> None:
    page = page_of(word(text, (10, 10, 200, 30)))

    assert page.export_as_markdown() == expected
    assert page.export_as_markdown(escape=False) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*a* b_c", "&#42;a&#42; b&#95;c"),
        ("= a", "{empty}= a"),
        ("1. a", "{empty}1. a"),
        ("End. Next", "End. Next"),
        ("NOTE: a", "{empty}NOTE: a"),
        ("a|b {c} <<d>>", "a&#124;b &#123;c&#125; &#60;&#60;d&#62;&#62;"),
        ("key:: value", "key:&#58; value"),
        ("&lt; R&D", "&#38;lt; R&D"),
        ("(A) (C) (TM)", "(A) &#40;C) &#40;TM)"),
    ],
)
def test_asciidoc_is_escaped(text: str, expected: str) -> None:
    assert page_of(word(text, (10, 10, 200, 30))).export_as_asciidoc() == expected


def test_html_is_escaped() -> None:
    text = "<script>alert('&amp;')</script>\x07"
    page, predictions = page_of(word(text, (10, 10, 200, 30))), kie_page({"<b>": [word(text, (10, 10, 200, 30))]})

    for html, texts in (
        (page.export_as_html(), [text[:-1]]),
        (predictions.export_as_html(), ["<b>", text[:-1]]),
    ):
        read = HtmlParts(html)
        assert read.texts == texts
        assert not {"script", "b"} & {tag for tag, _ in read.tags}
    assert "<script>" in HTMLExporter().export_page(page, escape=False)


def test_only_html_marks_unread_lines() -> None:
    page = partly_read_page()

    read = HtmlParts(page.export_as_html())

    marks = [attributes for _, attributes in read.tags if attributes.get("class") == "unread"]
    assert marks == [
        {"class": "unread", "data-reason": "script", "data-script": "Cyrillic", "data-bbox": "10 120 200 140"},
        {"class": "unread", "data-reason": "low confidence", "data-bbox": "320 100 500 120"},
    ]
    assert [bool(attributes) for _, attributes in read.tags] == [False, False, True, False, False, True]
    assert read.texts == ["heading", "one", "two", "three"]
    fully_read = partly_read_page()
    fully_read.unread = []
    for format in ("text", "markdown", "asciidoc"):
        assert page.export_as(format) == fully_read.export_as(format)
    predictions = kie_page({"sum": [word("one", (10, 10, 200, 30))]})
    predictions.unread = [unread_line((10, 50, 200, 70), '"><script>')]
    tags = HtmlParts(predictions.export_as_html()).tags
    assert tags[-1] == ("p", {"class": "unread", "data-reason": '"><script>', "data-bbox": "10 50 200 70"})


def test_unread_lines_do_not_separate_list_items() -> None:
    page = page_of(
        word("first", (20, 100, 80, 112)),
        word("second", (20, 140, 80, 152)),
        layout=[LayoutElement("List-item", 0.9, relative([(15, y), (200, y + 16)])) for y in (98, 138)],
        unread=[unread_line((20, 120, 80, 132), "no text")],
    )

    assert page.export_as_markdown() == "- first\n- second"
    assert [tag for tag, _ in HtmlParts(page.export_as_html()).tags] == ["ul", "li", "p", "ul", "li"]


def spanning_table() -> Table:
    box = relative([(10, 10), (200, 100)])
    cells = [("wide|", 0, 0, 0, 1), ("tall", 0, 1, 2, 2), ("a", 1, 1, 0, 0), ("b\n", 1, 1, 1, 1)]
    return Table([TableCell(text, 0.9, box, *places) for text, *places in cells], 2, 3, box)


def test_tables_are_rendered() -> None:
    page = page_of(tables=[spanning_table()])

    assert page.render() == "wide|\t\ttall\na\tb\n\t"
    assert page.export_as_markdown() == "| wide\\| |  | tall |\n| --- | --- | --- |\n| a | b |  |"
    assert page.export_as_asciidoc() == "|===\n|wide\\| | |tall\n\n|a |b |\n|==="
    tags = [(tag, attributes) for tag, attributes in HtmlParts(page.export_as_html()).tags if tag in ("th", "td")]
    assert tags == [("th", {"colspan": "2"}), ("th", {"rowspan": "2"}), ("td", {}), ("td", {})]


def test_lines_of_one_list_item_are_one_item() -> None:
    page = page_of(
        word("first", (20, 100, 80, 112)),
        word("wraps", (20, 116, 80, 128)),
        word("second", (20, 140, 80, 152)),
        layout=[
            LayoutElement("List-item", 0.9, relative([(15, 98), (200, 130)])),
            LayoutElement("List-item", 0.9, relative([(15, 138), (200, 154)])),
        ],
    )

    assert page.export_as_markdown() == "- first wraps\n- second"
    assert HtmlParts(page.export_as_html()).texts == ["first wraps", "second"]
