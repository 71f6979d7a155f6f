"""The text layer of PDF files: next to poppler's words, and to the ink on the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pdf_files
from mediatensor.ocr.io import Pages, Word, read_pdf
from mediatensor.ocr.io._documents.pdf import PageCharacters, words_of
from real_files import TEST_DATA

pytest.importorskip("pypdfium2", reason="needs pypdfium2")


CONTENT = pdf_files.text_page(
    (72, 700, "Hello brave world"), (72, 660, "second line, 12.50 \u20ac"),
    (300, 400, "caf\u00e9 na\u00efve"), (540, 90, "edge"),
) + b"\nBT /F 12 Tf 0 1 -1 0 300 500 Tm (upward text) Tj ET"  # fmt: skip


def values(words: list[Word]) -> list[str]:
    return [word.value for word in words]


def ink_around(pages: Pages, word: Word) -> list[float]:
    """How far the box of a word is from the ink, in pixels, at its four sides."""
    page = pages[0]
    size = np.array(page.shape[1::-1])
    (xmin, ymin), (xmax, ymax) = np.array(word.geometry) * size
    left, top = int(xmin) - 4, int(ymin) - 4
    is_ink = page[max(0, top) : int(ymax) + 5, max(0, left) : int(xmax) + 5].min(axis=2) < 128
    rows, columns = np.nonzero(is_ink.any(axis=1))[0], np.nonzero(is_ink.any(axis=0))[0]
    left, top = max(0, left), max(0, top)
    return [
        abs(columns[0] + left - xmin), abs(rows[0] + top - ymin),
        abs(columns[-1] + 1 + left - xmax), abs(rows[-1] + 1 + top - ymax),
    ]  # fmt: skip


@pytest.mark.parametrize("entries", pdf_files.TURNS)
@pytest.mark.parametrize("options", [{}, {"rotation": 90.0}, {"rotation": 180, "scale": 3}, {"crop": (20, 30, 40, 60)}])
def test_boxes_match_the_ink(entries: str, options: dict[str, object]) -> None:
    pages = read_pdf(pdf_files.document([CONTENT], entries=entries), **{"scale": 4, **options})
    words = pages.text_layer(0)
    assert len(words) in (11, 12)  # the one at the edge may be cut off
    for word in words:
        inside = all(0.01 < side < 0.99 for corner in word.geometry for side in corner)
        if inside:
            # Ink is smoothed: what covers less than half of a pixel is not counted.
            assert max(ink_around(pages, word)) <= 2, word.value


@pytest.mark.parametrize("entries", ["", "/CropBox[50 80 600 780]"])
def test_words_match_poppler(entries: str, tmp_path: Path) -> None:
    path = tmp_path / "page.pdf"
    path.write_bytes(pdf_files.document([CONTENT], entries=entries))
    ours, theirs = read_pdf(path).text_layer(0), pdf_files.pdftotext(path)
    assert sorted(values(ours)) == sorted(word.value for word in theirs)
    boxes = {word.value: np.array(word[1:]) for word in theirs}
    for word in ours:
        box = np.array(word.geometry).ravel()
        # Poppler's boxes have the height of the font and its side bearings, ours that of the letters.
        assert (box[:2] >= boxes[word.value][:2] - 5e-3).all()
        assert (box[2:] <= boxes[word.value][2:] + 5e-3).all()
        assert np.abs(box[[0, 2]] - boxes[word.value][[0, 2]]).max() < 0.01


def test_words_of_a_matplotlib_document_are_read(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="needs matplotlib")
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4))
    FigureCanvasPdf(figure)
    lines = ["The quick brown fox", "jumps over 1,234 lazy dogs;", "\u00fcber \u20ac 5.00 (net)"]
    for number, line in enumerate(lines):
        figure.text(0.1, 0.8 - 0.2 * number, line, fontsize=14)
    path = tmp_path / "figure.pdf"
    with matplotlib.rc_context({"pdf.fonttype": 42}):
        figure.savefig(path)
    words = read_pdf(path).text_layer(0)
    assert values(words) == " ".join(lines).split()
    assert values(words) == [word.value for word in pdf_files.pdftotext(path)]
    assert [word.geometry[0][1] for word in words] == pytest.approx(
        [word.ymin for word in pdf_files.pdftotext(path)], abs=0.03
    )


def test_words_are_elements_with_characters() -> None:
    (word,) = read_pdf(pdf_files.document([pdf_files.text_page((100, 400, "word"))])).text_layer(0)
    assert isinstance(word, Word)
    assert word.confidence == 1.0
    assert [character.value for character in word.characters] == list("word")
    lefts = [character.geometry[0][0] for character in word.characters]
    assert lefts == sorted(lefts)
    assert lefts[0] == word.geometry[0][0]
    assert word.characters[-1].geometry[1][0] == word.geometry[1][0]
    assert word.export()["value"] == "word"


def test_hidden_text_is_included() -> None:
    hidden = b"BT 3 Tr /F 24 Tf 72 700 Td (searchable scan) Tj ET"
    pages = read_pdf(pdf_files.document([hidden]))
    assert pages[0].min() == 255
    assert values(pages.text_layer(0)) == ["searchable", "scan"]


def test_text_outside_the_page_is_left_out() -> None:
    content = pdf_files.text_page((700, 400, "beyond"), (100, 900, "above"), (560, 400, "cutoff"), (100, 100, "here"))
    cut, here = read_pdf(pdf_files.document([content])).text_layer(0)
    assert here.value == "here"
    assert "cutoff".startswith(cut.value)
    assert len(cut.value) < len("cutoff")
    assert 0.97 < cut.geometry[1][0] <= 1


def test_a_word_that_is_broken_at_the_end_of_a_line_is_two() -> None:
    content = pdf_files.text_page((72, 700, "some hyphen-"), (72, 672, "ated words"))
    assert values(read_pdf(pdf_files.document([content])).text_layer(0)) == ["some", "hyphen-", "ated", "words"]


INVOICE = pdf_files.annotated(
    pdf_files.text_page((72, 700, "Amount due")),
    [
        pdf_files.Annotation("1,250.00", 150, 600, "Widget"),
        pdf_files.Annotation("approved", 150, 500, "FreeText"),
        pdf_files.Annotation("PAID", 150, 400, "Stamp"),
    ],
)
FILLED_IN = ["Amount", "due", "1,250.00", "approved", "PAID"]


def test_text_layer_has_words_of_fields_and_annotations(tmp_path: Path) -> None:
    path = tmp_path / "invoice.pdf"
    path.write_bytes(INVOICE)
    pages = read_pdf(path, scale=4)
    picture = pages[0]
    words = pages.text_layer(0)
    assert values(words) == FILLED_IN
    for word in words:
        assert max(ink_around(pages, word)) <= 2, word.value
    # Neither the picture nor a second look is affected by merging the fields into the page.
    assert np.array_equal(pages[0], picture)
    assert values(pages.text_layer(0)) == FILLED_IN
    assert list(pages.page_content(0).texts) == FILLED_IN
    assert sorted(word.value for word in pdf_files.pdftotext(path)) == sorted(FILLED_IN)


@pytest.mark.parametrize("entries", pdf_files.TURNS)
@pytest.mark.parametrize("box", ["0 0 612 792", "-90 -70 1200 1600"])
def test_fields_are_where_they_are_drawn(entries: str, box: str) -> None:
    """PDFium resets the boxes of a page when it merges fields into the page."""
    field = pdf_files.Annotation("value", 150, 600, "Widget")
    content = pdf_files.text_page((100, 500, "word"))
    pages = read_pdf(pdf_files.annotated(content, [field], box=box, entries=entries), scale=3)
    words = pages.text_layer(0)
    assert values(words) == ["word", "value"]
    for word in words:
        assert max(ink_around(pages, word)) <= 2, word.value


@pytest.mark.parametrize("flags", [0, 1, 2, 4, 32, 64])
@pytest.mark.parametrize("subtype", ["Widget", "FreeText", "Popup", "Link"])
@pytest.mark.parametrize("options", [{}, {"draw_annots": False}, {"may_draw_forms": False}])
def test_text_layer_has_annotations_exactly_if_they_are_drawn(
    options: dict[str, bool], subtype: str, flags: int
) -> None:
    annotations = [
        pdf_files.Annotation("value", 100, 600, subtype, flags),
        # With this, the page is merged in any case.
        pdf_files.Annotation("other", 100, 300, "FreeText" if subtype == "Widget" else "Widget"),
    ]
    pages = read_pdf(pdf_files.annotated(b"", annotations), **options)
    is_drawn = pages[0][:800].min() < 128  # the upper half of the page
    assert ("value" in values(pages.text_layer(0))) == is_drawn


@pytest.mark.parametrize("flags", [0, 2])
def test_text_layer_of_another_process_has_annotations_exactly_if_they_are_drawn(flags: int) -> None:
    annotations = [pdf_files.Annotation("value", 100, 600, "Widget", flags)]
    pages = read_pdf(pdf_files.annotated(b"", annotations), timeout_seconds=60)
    is_drawn = pages[0].min() < 128
    assert is_drawn == (flags == 0)
    assert ("value" in values(pages.text_layer(0))) == is_drawn


def test_text_layer_has_fields_whose_appearance_the_reader_makes() -> None:
    field = pdf_files.Annotation("value", 100, 600, "Widget", has_appearance=False)
    pages = read_pdf(pdf_files.annotated(b"", [field], form_entries="/NeedAppearances true"))
    assert pages[0].min() < 128
    assert values(pages.text_layer(0)) == ["value"]


def test_text_layer_has_words_of_published_forms() -> None:
    folder = TEST_DATA / "odd"
    expected = {
        "issue15092.pdf": ["1.00", "2.00", "3.00", "4.00", "7.00", "232,324.00"],
        "annotation-tx3.pdf": ["tx", "annotation", "Line2", "Line3", "Line4"],
        "issue18036.pdf": ["previously", "issued", "Certificates."],
    }
    if not folder.exists():
        pytest.skip(f"needs the files {', '.join(expected)} in {folder}")
    for name, end in expected.items():
        assert values(read_pdf(folder / name).text_layer(0))[-len(end) :] == end


def test_text_layer_has_characters_of_every_unicode_plane() -> None:
    """A row of characters: a pair of surrogates, half of one, one without a meaning, one without a box."""
    codes = [0x41, 0xD83D, 0xDE00, 0x20, 0xD83D, 0x42, 0x0, 0xA, 0x43, 0x44, 0x2, 0x45]
    lefts = np.arange(len(codes)) / 20
    boxes = np.stack([lefts, lefts * 0, lefts + 0.04, lefts * 0 + 0.5], axis=1)
    boxes[9] = np.nan
    words = words_of(PageCharacters(np.array(codes, np.uint32), boxes))
    assert values(words) == ["A\U0001f600", "\ufffdB\ufffd", "C-", "E"]
    assert words[0].geometry == ((0.0, 0.0), (pytest.approx(0.14), 0.5))
    assert words_of(PageCharacters(np.array([], np.uint32), np.empty((0, 4)))) == []
