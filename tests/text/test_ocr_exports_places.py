"""hOCR, ALTO and TSV: texts with their places."""

from __future__ import annotations

import csv
import io
import math
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from mediatensor.ocr.io import Block, Character, Document, KIEDocument, Line, Page, Table, TableCell
from ocr_export_pages import (
    SIZE,
    doctr_exports,
    empty_pages,
    kie_page,
    page_of,
    partly_read_page,
    relative,
    turned_word,
    unread_line,
    word,
)
from processes import find_program

ALTO = "{http://www.loc.gov/standards/alto/ns-v4#}"
HOSTILE = "]]>&<\"' ö Ω 漢 😀"

# hOCR


def hocr_nodes(data: bytes) -> list[dict[str, Any]]:
    """Class, identifier, properties and text of each hOCR element that has a position."""
    nodes = []
    for node in ElementTree.fromstring(data).iter():
        if "title" in node.attrib:
            properties = [part.split(" ") for part in node.attrib["title"].split("; ")]
            numbered = [parts for parts in properties if parts[0] not in ("x_unread", "x_script")]
            values = {name: [float(value) for value in numbers] for name, *numbers in numbered}
            kinds = {"class": node.attrib["class"], "id": node.attrib["id"], "dir": node.get("dir")}
            nodes.append({**kinds, "text": node.text, **values})
    return nodes


def of_class(nodes: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [node for node in nodes if node["class"] == name]


@pytest.mark.parametrize("case", ["columns", "right to left", "layout", "predictions"])
def test_hocr_contains_the_hocr_of_doctr(case: str) -> None:
    recorded = doctr_exports("1.1.0")[case]
    document = (KIEDocument if case == "predictions" else Document).from_dict(recorded["stored"])

    ((data, tree),) = document.export_as_xml(file_title="title")

    shared = ("class", "id", "text", "bbox", "x_wconf")
    ours = [[node.get(key) for key in shared] for node in hocr_nodes(data)]
    theirs = [[node.get(key) for key in shared] for node in hocr_nodes(recorded["hocr"][0].encode())]
    assert ours == theirs
    assert ElementTree.canonicalize(ElementTree.tostring(tree.getroot())) == ElementTree.canonicalize(data)
    assert tree.getroot().find("head/title").text == "title"  # type: ignore[union-attr]


def test_hocr_counts_pages_and_puts_predictions_on_them() -> None:
    page = kie_page({"sum <1>": [word("one", (10, 10, 40, 30))]})
    page.page_idx = 4

    root = page.export_as_xml()[1].getroot()

    sheet = root.find("body/div")
    assert (sheet.get("id"), sheet.get("title")) == ("page_5", "bbox 0 0 600 400; ppageno 4")
    assert [node.get("id") for node in sheet] == ["sum__1__prediction_1"]


def test_hocr_has_language_and_direction() -> None:
    page = page_of(word("שלום", (10, 10, 60, 30)), language={"value": "he", "confidence": 1.0})

    data, tree = page.export_as_xml(direction="rtl")

    assert [tree.getroot().get(key) for key in ("xml:lang", "lang")] == ["he", "he"]
    assert [node["dir"] for node in of_class(hocr_nodes(data), "ocr_line")] == ["rtl"]


@pytest.mark.parametrize("language", [None, {"value": None, "confidence": None}, {"value": "unknown", "confidence": 0}])
def test_unknown_language_is_left_out(language: dict[str, Any] | None) -> None:
    page = page_of(word("one", (10, 10, 40, 30)), language=language)

    assert b"lang" not in page.export_as_xml()[0]
    assert b"LANG" not in page.export_as_alto()[0]


class BodyText(HTMLParser):
    """The text that a browser takes from the body of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self._is_body = "", False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_body |= tag == "body"

    def handle_data(self, data: str) -> None:
        self.text += data if self._is_body else ""


@pytest.mark.parametrize("case", ["columns", "right to left", "layout", "predictions", "rotated"])
def test_hocr_separates_words_for_xml_and_html_readers(case: str) -> None:
    document = (KIEDocument if case == "predictions" else Document).from_dict(doctr_exports("1.1.0")[case]["stored"])

    ((data, _),) = document.export_as_xml()

    # One text line a line, or a row of a table, as other exports that name them have it.
    rows = tsv_rows(document.export_as_tsv())
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row["level"] == "5":
            lines.setdefault((row["block_num"], row["line_num"]), []).append(row["text"])
    expected = [" ".join(words).split() for words in lines.values()]
    body = ElementTree.fromstring(data).find("{http://www.w3.org/1999/xhtml}body")
    for text in ("".join(body.itertext()), BodyText(data.decode()).text):
        assert [line.split() for line in text.splitlines() if line.strip()] == expected


def test_hocr_baseline_is_where_words_without_descenders_end() -> None:
    line = Line([word("no", (10, 100, 60, 120)), word("gap,", (70, 100, 120, 126)), word("up", (130, 104, 160, 126))])
    page = Page(page_of().page, [Block([line])], 0, SIZE)

    (node,) = of_class(hocr_nodes(page.export_as_xml()[0]), "ocr_line")

    assert node["bbox"] == [10, 100, 160, 126]
    assert node["baseline"] == [0, -6]
    assert node["x_size"] == [26]


@pytest.mark.parametrize("start", [(300, 200), (-20, 10)], ids=["within", "beyond the border"])
@pytest.mark.parametrize("degrees", [-4, 3, 20, 60, 90, 135, 180, -90, -150])
def test_hocr_has_the_angle_of_turned_text(degrees: float, start: tuple[float, float]) -> None:
    page = page_of(turned_word("nm", start, (120, 20), degrees))

    line, item = (of_class(hocr_nodes(page.export_as_xml()[0]), name)[0] for name in ("ocr_line", "ocrx_word"))

    angle = math.radians(degrees)
    along = np.array([math.cos(angle), -math.sin(angle)]) * 120
    down = np.array([math.sin(angle), math.cos(angle)]) * 20
    corners = np.array(start) + np.array([[0, 0], along, along + down, down])
    # hOCR allows no negative numbers in a bbox.
    bbox = np.clip([*corners.min(axis=0), *corners.max(axis=0)], 0, None)
    for node in (line, item):
        np.testing.assert_allclose(node["bbox"], bbox, atol=0.51)
    assert line["x_size"] == [pytest.approx(20, abs=0.01)]
    if abs(degrees) > 5:
        assert line["textangle"] == [pytest.approx(degrees, abs=0.01)]
        assert "baseline" not in line
    else:
        # From the lower left corner of the box, y down.
        slope, offset = line["baseline"]
        left, bottom = line["bbox"][0], line["bbox"][3]
        for x, y in corners[[3, 2]]:
            assert bottom + offset + slope * (x - left) == pytest.approx(y, abs=0.1)
        assert "textangle" not in line


@pytest.mark.parametrize("turn", [90, np.int64(90), 90.0], ids=repr)
def test_hocr_has_the_angle_of_turned_text_in_straight_boxes(turn: Any) -> None:
    item = word("one", (10, 10, 30, 90))
    item.crop_orientation["value"] = turn

    (line,) = of_class(hocr_nodes(page_of(item).export_as_xml()[0]), "ocr_line")

    assert line["textangle"] == [-90]


def test_hocr_has_the_cells_of_a_turned_table() -> None:
    quad = relative([(100, 100), (200, 120), (190, 160), (90, 140)])
    table = Table([TableCell("a", 0.5, quad, 0, 0, 0, 0)], 1, 1, quad)

    nodes = hocr_nodes(page_of(tables=[table]).export_as_xml()[0])

    assert [node["bbox"] for node in nodes[1:]] == [[90, 100, 200, 160]] * 4


def test_words_of_cells_have_their_places_in_all_formats() -> None:
    boxes = {"Green": (20, 20, 70, 36), "tea": (20, 44, 50, 60), "12": (260, 30, 280, 46), "kg": (284, 30, 300, 46)}
    words = [word(text, box) for text, box in boxes.items()]
    cells = [
        TableCell("Green tea", 0.9, relative([(10, 10), (200, 70)]), 0, 0, 0, 0, words=words[:2]),
        TableCell("12 kg", 0.9, relative([(200, 10), (310, 70)]), 0, 0, 1, 1, words=words[2:]),
        TableCell("of old", 0.9, relative([(310, 10), (400, 70)]), 0, 0, 2, 2),
    ]
    page = page_of(tables=[Table(cells, 1, 3, relative([(10, 10), (400, 70)]))])
    expected = {text: list(box) for text, box in boxes.items()} | {"of old": [310, 10, 400, 70]}

    nodes = hocr_nodes(page.export_as_xml()[0])
    assert {node["text"]: node["bbox"] for node in of_class(nodes, "ocrx_word")} == expected
    assert [node["id"] for node in of_class(nodes, "ocrx_word")] == [
        "table_1_cell_1_1", "table_1_cell_1_1_2", "table_1_cell_1_2", "table_1_cell_1_2_2", "table_1_cell_1_3"
    ]  # fmt: skip
    assert of_class(nodes, "ocr_line")[0]["bbox"] == [10, 10, 400, 70]
    strings = found(check_alto(page.export_as_alto()[0]), "String")
    sides = {text: [x0, y0, x1 - x0, y1 - y0] for text, (x0, y0, x1, y1) in expected.items()}
    assert {node.get("CONTENT"): box(node) for node in strings} == sides
    rows = [row for row in tsv_rows(page.export_as_tsv()) if row["level"] == "5"]
    assert {row["text"]: [int(row[key]) for key in ("left", "top", "width", "height")] for row in rows} == sides


def test_hocr_keeps_the_stored_order() -> None:
    page = page_of(word("second", (10, 300, 90, 320)), word("first", (10, 10, 90, 30)))

    for reading_order, texts in ((False, ["second", "first"]), (True, ["first", "second"])):
        data, _ = page.export_as_xml(reading_order=reading_order)
        assert [node["text"] for node in of_class(hocr_nodes(data), "ocrx_word")] == texts


def test_hocr_has_areas_without_words_for_lines_that_were_not_read() -> None:
    root = ElementTree.fromstring(partly_read_page().export_as_xml()[0])

    areas = [node for node in root.iter() if node.get("class") == "ocr_carea"]
    words = [[word.text for word in area.iter() if word.get("class") == "ocrx_word"] for area in areas]
    assert words == [["heading"], ["one"], [], ["two"], ["three"], []]
    assert [areas[index].attrib["title"] for index in (2, 5)] == [
        'bbox 10 120 200 140; x_unread "script"; x_script "Cyrillic"',
        'bbox 320 100 500 120; x_unread "low confidence"',
    ]
    lines = [node for node in areas[2].iter() if node.get("class") == "ocr_line"]
    assert [line.attrib["title"].split(";")[0] for line in lines] == ["bbox 10 120 200 140"]
    identifiers = [node.attrib["id"] for node in root.iter() if "id" in node.attrib]
    assert len(set(identifiers)) == len(identifiers)
    (body,) = (node for node in root if node.tag.endswith("body"))
    assert "".join(body.itertext()).split() == ["heading", "one", "two", "three"]


def test_unread_lines_of_turned_pages_are_among_what_was_read_above_and_below() -> None:
    upside_down = {"value": 180, "confidence": None}
    words = [word("first", (10, 300, 200, 320)), word("second", (10, 60, 200, 80))]
    for own in words:
        own.crop_orientation = upside_down
    page = page_of(*words, unread=[unread_line((10, 200, 200, 220), "no text")])

    rows = tsv_rows(page.export_as_tsv())

    assert [(row["top"], row["text"]) for row in rows if row["level"] in "45"] == [
        *(("300", ""), ("300", "first")),
        ("200", ""),
        *(("60", ""), ("60", "second")),
    ]


@pytest.mark.parametrize("reading_order", [True, False])
def test_lines_that_were_not_read_are_counted_by_tsv(reading_order: bool) -> None:
    rows = tsv_rows(partly_read_page().export_as_tsv(reading_order=reading_order))

    lines = [(row["block_num"], row["left"], row["top"]) for row in rows if row["level"] == "4"]
    read = {row["block_num"] for row in rows if row["level"] == "5"}
    unread = [place for place in lines if place[0] not in read]
    expected = [("3", "10", "120"), ("6", "320", "100")] if reading_order else [("5", "320", "100"), ("6", "10", "120")]
    assert len(lines) == 6
    assert unread == expected


# ALTO

# From version 4.2 of the schema: the children that each element may have, in this order, and its attributes.
PLACE = {"ID", "HPOS", "VPOS", "WIDTH", "HEIGHT"}
SCHEMA: dict[str, tuple[list[set[str]], set[str], set[str]]] = {
    # name: children, attributes that it must have, attributes that it may have
    "alto": ([{"Description"}, {"Tags"}, {"Layout"}], set(), {"SCHEMAVERSION"}),
    "Description": ([{"MeasurementUnit"}, {"sourceImageInformation"}, {"Processing"}], set(), set()),
    "MeasurementUnit": ([], set(), set()),
    "sourceImageInformation": ([{"fileName"}], set(), set()),
    "fileName": ([], set(), set()),
    "Processing": ([{"processingSoftware"}], {"ID"}, set()),
    "processingSoftware": ([{"softwareName"}, {"softwareVersion"}], set(), set()),
    "softwareName": ([], set(), set()),
    "softwareVersion": ([], set(), set()),
    "Tags": ([{"OtherTag"}], set(), set()),
    "OtherTag": ([], {"ID", "LABEL"}, {"TYPE", "DESCRIPTION", "URI"}),
    "Layout": ([{"Page"}], set(), set()),
    "Page": ([{"PrintSpace"}], {"ID", "PHYSICAL_IMG_NR"}, {"WIDTH", "HEIGHT"}),
    "PrintSpace": ([{"TextBlock", "ComposedBlock"}], set(), PLACE),
    "ComposedBlock": ([{"Shape"}, {"TextBlock"}], {"ID"}, {*PLACE, "ROTATION", "TYPE"}),
    "TextBlock": ([{"Shape"}, {"TextLine"}], {"ID"}, {*PLACE, "ROTATION", "LANG", "TAGREFS"}),
    "TextLine": ([{"Shape"}, {"String", "SP"}], set(), {*PLACE, "BASELINE", "LANG"}),
    "String": ([{"Shape"}, {"Glyph"}], {"CONTENT"}, {*PLACE, "WC"}),
    "Glyph": ([{"Shape"}], {"CONTENT"}, {*PLACE, "GC"}),
    "SP": ([], set(), PLACE),
    "Shape": ([{"Polygon"}], set(), set()),
    "Polygon": ([], {"POINTS"}, set()),
}


def check_alto(data: bytes) -> ElementTree.Element:
    root = ElementTree.fromstring(data)
    identifiers = [node.attrib["ID"] for node in root.iter() if "ID" in node.attrib]
    assert len(set(identifiers)) == len(identifiers)
    assert {name for node in root.iter() for name in node.get("TAGREFS", "").split()} <= set(identifiers)
    for node in root.iter():
        name = node.tag.removeprefix(ALTO)
        order, required, optional = SCHEMA[name]
        attributes = {key for key in node.attrib if not key.startswith("{")}
        assert required <= attributes <= required | optional, name
        places = [next(i for i, kinds in enumerate(order) if child.tag.removeprefix(ALTO) in kinds) for child in node]
        assert places == sorted(places), name
        if name == "TextLine":
            kinds = [child.tag.removeprefix(ALTO) for child in node if child.tag != f"{ALTO}Shape"]
            assert kinds == ["String", "SP"] * (len(kinds) // 2) + ["String"]
        if name == "Glyph":
            assert len(node.attrib["CONTENT"]) == 1
        if name in ("String", "Glyph"):
            assert 0 <= float(node.attrib["WC" if name == "String" else "GC"]) <= 1
    return root


def found(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return list(root.iter(f"{ALTO}{name}"))


def box(node: ElementTree.Element) -> list[int]:
    return [int(node.attrib[key]) for key in ("HPOS", "VPOS", "WIDTH", "HEIGHT")]


@pytest.mark.parametrize("case", list(empty_pages()))
def test_alto_is_valid_for_nearly_empty_pages(case: str) -> None:
    data, tree = empty_pages()[case].export_as_alto()

    check_alto(data)
    assert tree.getroot().get("SCHEMAVERSION") == "4.2"


def test_alto_places_words() -> None:
    line = Line([word("one", (10, 20, 60, 40), 0.75), word(HOSTILE, (70, 20, 200, 44))])
    page = Page(page_of().page, [Block([line])], 6, SIZE, language={"value": "en", "confidence": 1.0})

    root = check_alto(page.export_as_alto(file_name="a <scan>.png")[0])

    (sheet,), (text_line,), strings = (found(root, name) for name in ("Page", "TextLine", "String"))
    assert [sheet.get(key) for key in ("PHYSICAL_IMG_NR", "WIDTH", "HEIGHT")] == ["7", "600", "400"]
    assert found(root, "fileName")[0].text == "a <scan>.png"
    assert found(root, "TextBlock")[0].get("LANG") == "en"
    assert [node.get("CONTENT") for node in strings] == ["one", HOSTILE]
    assert [box(node) for node in strings] == [[10, 20, 50, 20], [70, 20, 130, 24]]
    assert float(strings[0].attrib["WC"]) == 0.75
    assert text_line.get("BASELINE") == "10,40 200,40"
    assert not found(root, "Shape")


def test_alto_of_turned_text_has_outlines() -> None:
    page = page_of(turned_word("up", (300, 200), (80, 20), 90))

    root = check_alto(page.export_as_alto()[0])

    assert [node.get("POINTS") for node in found(root, "Polygon")] == ["300,200 300,120 320,120 320,200"] * 3
    assert float(found(root, "TextBlock")[0].attrib["ROTATION"]) == 90
    assert box(found(root, "String")[0]) == [300, 120, 20, 80]


def test_alto_has_characters_where_they_are_known() -> None:
    places = [(10, 20, 30, 40), (30, 20, 60, 40)]
    characters = [
        Character(text, 0.5, relative([(left, top), (right, bottom)]))
        for text, (left, top, right, bottom) in zip("ab", places, strict=True)
    ]
    page = page_of(
        word("ab", (10, 20, 60, 40), characters=characters),
        word("ﬁ", (70, 20, 90, 40), characters=[Character("fi", 0.5, relative([(70, 20), (90, 40)]))]),
    )

    root = check_alto(page.export_as_alto()[0])

    assert [(node.get("CONTENT"), box(node)) for node in found(root, "Glyph")] == [
        ("a", [10, 20, 20, 20]),
        ("b", [30, 20, 30, 20]),
    ]


def test_alto_has_all_pages_in_one_file() -> None:
    document = Document([page_of(word(text, (10, 20, 60, 40))) for text in "ab"])

    root = check_alto(document.export_as_alto()[0])

    assert [node.get("CONTENT") for sheet in found(root, "Page") for node in sheet.iter(f"{ALTO}String")] == ["a", "b"]


def test_alto_has_tables() -> None:
    cell = relative([(10, 10), (60, 40)])
    page = page_of(tables=[Table([TableCell("x", 0.5, cell, 0, 0, 0, 0)], 1, 1, relative([(5, 5), (90, 90)]))])

    root = check_alto(page.export_as_alto()[0])

    (table,) = found(root, "ComposedBlock")
    assert (table.get("TYPE"), box(table)) == ("table", [5, 5, 85, 85])
    assert [node.get("CONTENT") for node in table.iter(f"{ALTO}String")] == ["x"]


def test_alto_has_tagged_blocks_without_lines_for_lines_that_were_not_read() -> None:
    document = Document([partly_read_page(), kie_page({}), partly_read_page()])
    document.pages[1].unread = [unread_line((10, 20, 60, 40), "script", "Greek")]

    root = check_alto(document.export_as_alto()[0])

    tags = {tag.attrib["ID"]: [tag.get(key) for key in ("TYPE", "LABEL", "DESCRIPTION")] for tag in root[1]}
    blocks = [list(page.iter(f"{ALTO}TextBlock")) for page in found(root, "Page")]
    texts = [[string.get("CONTENT") for string in block.iter(f"{ALTO}String")] for block in blocks[0]]
    assert texts == [["heading"], ["one"], [], ["two"], ["three"], []]
    assert [(box(node), tags[node.attrib["TAGREFS"]]) for node in (blocks[0][2], blocks[0][5], *blocks[1])] == [
        ([10, 120, 190, 20], ["unread", "script", "Cyrillic"]),
        ([320, 100, 180, 20], ["unread", "low confidence", None]),
        ([10, 20, 50, 20], ["unread", "script", "Greek"]),
    ]
    assert len(tags) == 3
    assert not any(node.get("TAGREFS") for node in (blocks[0][0], blocks[0][1], blocks[2][3]))


# TSV


def tsv_rows(text: str) -> list[dict[str, str]]:
    assert text.endswith("\n")
    return list(csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))


def test_tsv_has_the_columns_of_tesseract(tmp_path: Path) -> None:
    program = find_program("tesseract", "tesseract-ocr")
    Image.new("L", (60, 40), 255).save(tmp_path / "blank.png")
    command = [program, str(tmp_path / "blank.png"), "-", "tsv"]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert page_of().export_as_tsv().splitlines()[0] == theirs.splitlines()[0]


def test_tsv_places_words() -> None:
    line = Line([word("one", (10, 20, 60, 40), 0.5), word("tw\to\n", (70, 20, 200, 44))])
    page = Page(page_of().page, [Block([line])], 2, SIZE)

    rows = tsv_rows(page.export_as_tsv())

    levels = ("page_num", "block_num", "par_num", "line_num", "word_num")
    places = ("left", "top", "width", "height")
    assert [[row["level"], *(row[key] for key in levels)] for row in rows] == [
        ["1", "3", "0", "0", "0", "0"],
        ["2", "3", "1", "0", "0", "0"],
        ["3", "3", "1", "1", "0", "0"],
        ["4", "3", "1", "1", "1", "0"],
        ["5", "3", "1", "1", "1", "1"],
        ["5", "3", "1", "1", "1", "2"],
    ]
    assert [[int(row[key]) for key in places] for row in rows[-3:]] == [
        [10, 20, 190, 24],
        [10, 20, 50, 20],
        [70, 20, 130, 24],
    ]
    assert [(float(row["conf"]), row["text"]) for row in rows[3:]] == [(-1, ""), (50, "one"), (90, "tw o ")]


@pytest.mark.parametrize("case", list(empty_pages()))
def test_tsv_and_hocr_are_valid_for_nearly_empty_pages(case: str) -> None:
    element = empty_pages()[case]

    rows = tsv_rows(element.export_as_tsv())
    files = element.export_as_xml()

    assert all(None not in row.values() and None not in row for row in rows)
    for data, _ in files if isinstance(files, list) else [files]:
        words = of_class(hocr_nodes(data), "ocrx_word")
        assert [node["text"] or "" for node in words] == [row["text"] for row in rows if row["level"] == "5"]
        # HTML parsers take <span /> for the start of an element.
        assert set(re.findall(rb"<(\w+)[^<>]*/>", data)) <= {b"meta"}
