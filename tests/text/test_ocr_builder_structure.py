"""Test the elements that are built from words with tables, regions and fields."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mediatensor.ocr.io import KIEPage, Page
from mediatensor.ocr.models.builder import DocumentBuilder, KIEDocumentBuilder
from mediatensor.ocr.structure import FoundCell, FoundField, FoundRegion, FoundTable, PageStructure
from mediatensor.ocr.utils import overlay
from mediatensor.ocr.utils.geometry import boxes_to_polygons

UPRIGHT = {"value": 0, "confidence": None}


def built(boxes: Any, texts: list[str], *, builder: DocumentBuilder | None = None, **arguments: Any) -> Page:
    """Build the page of some words, all with a confidence of 0.9."""
    places = np.asarray(boxes, dtype=np.float64)
    return (builder or DocumentBuilder())(
        [np.full((100, 200, 3), 255, np.uint8)],
        [places],
        [np.ones(len(texts))],
        [[(text, 0.9) for text in texts]],
        [(100, 200)],
        [[UPRIGHT] * len(texts)],
        **{name: [value] for name, value in arguments.items()},
    ).pages[0]


def grid(cells: dict[tuple[int, int, int, int], Any]) -> dict[str, Any]:
    """Return a table in a network's format. Keys are first row, last row, first column and last column."""
    keys = ("row_start", "row_end", "col_start", "col_end")
    return {
        "cells": [
            {"geometry": geometry, "score": 0.5, **dict(zip(keys, spans, strict=True))}
            for spans, geometry in cells.items()
        ]
    }


WORDS = {
    "Above": (0.1, 0.02, 0.3, 0.08),
    "Item": (0.1, 0.12, 0.2, 0.18),
    "Price": (0.6, 0.12, 0.7, 0.18),
    "tea": (0.22, 0.25, 0.28, 0.29),
    "Green": (0.1, 0.25, 0.2, 0.29),
    "leaf": (0.1, 0.31, 0.2, 0.35),
    "2.50": (0.6, 0.25, 0.7, 0.29),
    "Below": (0.1, 0.9, 0.3, 0.96),
}
CELLS = {
    (1, 1, 2, 2): (0.05, 0.1, 0.5, 0.2),
    (1, 1, 3, 3): (0.5, 0.1, 0.9, 0.2),
    (2, 2, 2, 2): (0.05, 0.2, 0.5, 0.4),
    (2, 2, 3, 3): (0.5, 0.2, 0.9, 0.4),
    (3, 3, 2, 3): (0.05, 0.4, 0.9, 0.5),
}


def test_words_in_the_cells_of_a_network_are_a_table() -> None:
    """Check that cells count from 0, and that words in cells are sorted by rows and belong to no block."""
    page = built(list(WORDS.values()), list(WORDS), tables=grid(CELLS))
    (table,) = page.tables
    assert table.to_grid() == [["Item", "Price"], ["Green tea leaf", "2.50"], ["", ""]]
    assert (table.num_rows, table.num_cols, table.cells[-1].col_span) == (3, 2, 2)
    assert table.geometry == ((0.05, 0.1), (0.9, 0.5))
    assert table.cells[0].confidence == pytest.approx(0.9)
    assert table.cells[-1].confidence == 0.5  # of the structure: there are no words
    lines = [line.render() for block in page.blocks for line in block.lines]
    assert lines == ["Above", "Below"]
    assert page.render() == "Above\n\nItem\tPrice\nGreen tea leaf\t2.50\n\t\n\nBelow"


def test_word_outside_all_cells_belongs_to_the_nearest_cell() -> None:
    cells = {(0, 0, 0, 0): (0.1, 0.1, 0.4, 0.2), (0, 0, 1, 1): (0.5, 0.1, 0.9, 0.2)}
    page = built([(0.41, 0.12, 0.44, 0.18), (0.1, 0.6, 0.2, 0.7)], ["near", "far"], tables=grid(cells))
    assert page.tables[0].to_grid() == [["near", ""]]
    assert page.blocks[0].render() == "far"


@pytest.mark.parametrize("angle", [-20.0, 90.0])
def test_a_turned_table_has_the_same_texts(angle: float) -> None:
    """Turn words and cells by the same angle around the center of the page."""
    turn = np.deg2rad(angle)
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    size = np.array([200.0, 200.0])

    def turned(box: tuple[float, ...]) -> np.ndarray:
        left, top, right, bottom = box
        quad = np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
        return ((quad * size - 100) @ rotation + 100) / size

    cells = {spans: turned(box) for spans, box in CELLS.items()}
    page = built([turned(box) for box in WORDS.values()], list(WORDS), tables=grid(cells))
    assert page.tables[0].to_grid() == [["Item", "Price"], ["Green tea leaf", "2.50"], ["", ""]]
    for cell in page.tables[0].cells:
        assert " ".join(word.value for word in cell.words) == cell.value
        assert all(np.allclose(word.geometry, turned(WORDS[word.value])) for word in cell.words)
    assert len(page.tables[0].geometry) == len(page.tables[0].cells[0].geometry) == 4
    straight = DocumentBuilder(export_as_straight_boxes=True)
    (table,) = built([turned(box) for box in WORDS.values()], list(WORDS), builder=straight, tables=grid(cells)).tables
    assert table.to_grid() == page.tables[0].to_grid()
    for element, quad in zip([table, *table.cells], [page.tables[0], *page.tables[0].cells], strict=True):
        corners = np.array(quad.geometry)
        assert np.allclose(element.geometry, [corners.min(axis=0), corners.max(axis=0)])


def structure(**found: Any) -> PageStructure:
    return PageStructure(200.0, 100.0, **found)


def test_regions_are_the_blocks_in_their_order() -> None:
    """Read a narrow column first, although it is at the right, and then a title with its level."""
    boxes = [(0.1, 0.1, 0.3, 0.15), (0.1, 0.2, 0.3, 0.25), (0.6, 0.1, 0.8, 0.15), (0.6, 0.2, 0.8, 0.25)]
    found = structure(
        regions=(
            FoundRegion("Text", (120, 10, 160, 25), 0.8, (2, 3)),
            FoundRegion("Section-header", (20, 10, 60, 15), 0.7, (0,), level=2),
            FoundRegion("List-item", (20, 20, 60, 25), 0.6, (1,)),
        )
    )
    builder = DocumentBuilder(keep_reading_order=True)
    page = built(boxes, ["left", "item", "right", "more"], builder=builder, structures=found)
    assert [block.render() for block in page.blocks] == ["right\nmore", "left", "item"]
    assert [(region.type, region.level) for region in page.layout] == [
        ("Text", 0),
        ("Section-header", 2),
        ("List-item", 0),
    ]
    assert page.layout[0].geometry == ((0.6, 0.1), (0.8, 0.25))
    assert page.export_as_markdown() == "right more\n\n### left\n\n- item"
    again = Page.from_dict(page.export())
    assert again.export() == page.export()
    assert again.export_as_markdown() == page.export_as_markdown()


def test_tables_and_fields_that_were_found_are_elements() -> None:
    boxes = [(0.1, 0.1, 0.3, 0.2), (0.5, 0.1, 0.7, 0.2), (0.1, 0.5, 0.3, 0.6), (0.5, 0.5, 0.7, 0.6)]
    cells = (
        FoundCell((20, 10, 80, 30), 0, 0, 0, 0, (0,), is_header=True),
        FoundCell((80, 10, 150, 30), 0, 0, 1, 1, (1,), is_header=True),
        FoundCell((20, 30, 80, 40), 1, 1, 0, 0),
        FoundCell((80, 30, 150, 40), 1, 1, 1, 1),
    )
    found = structure(
        regions=(
            FoundRegion("Table", (20, 10, 150, 40), 0.9, (0, 1)),
            FoundRegion("Text", (20, 50, 140, 60), 0.9, (2, 3)),
        ),
        tables=(FoundTable((20, 10, 150, 40), 2, 2, cells, 0.75),),
        fields=(FoundField("total", "Total:", "9.50", (2,), (3,), 0.8),),
    )
    builder = DocumentBuilder(keep_reading_order=True)
    page = built(boxes, ["name", "sum", "Total:", "9.50"], builder=builder, structures=found)
    assert list(page.tables[0].to_dataframe().columns) == ["name", "sum"]
    assert page.tables[0].confidence == 0.75
    assert [line.render() for block in page.blocks for line in block.lines] == ["Total:", "9.50"]
    (field,) = page.fields
    assert (field.name, field.key, field.value, field.render()) == ("total", "Total:", "9.50", "Total: 9.50")
    assert field.geometry == ((0.5, 0.5), (0.7, 0.6))
    assert field.key_geometry == ((0.1, 0.5), (0.3, 0.6))
    assert Page.from_dict(page.export()).export() == page.export()
    assert page.export_as_markdown().startswith("| name | sum |\n| --- | --- |")
    # Elements around rotated words have four points, unless straight boxes were requested.
    for is_straight, points in ((False, 4), (True, 2)):
        builder = DocumentBuilder(keep_reading_order=True, export_as_straight_boxes=is_straight)
        quads = boxes_to_polygons(np.array(boxes))
        page = built(quads, ["name", "sum", "Total:", "9.50"], builder=builder, structures=found)
        elements = [*page.tables, *page.tables[0].cells, *page.layout, *page.fields]
        assert {len(element.geometry) for element in elements} == {points}


def test_structure_is_drawn_over_the_page() -> None:
    """Check outlines of regions and cells and the arrow from key to value, which are drawn only on request."""
    cells = (FoundCell((20, 10, 80, 30), 0, 0, 0, 0, (0,)), FoundCell((80, 10, 150, 30), 0, 0, 1, 1))
    found = structure(
        regions=(FoundRegion("Table", (20, 10, 150, 30), 0.9), FoundRegion("Text", (20, 60, 180, 90), 0.9, (1, 2))),
        tables=(FoundTable((20, 10, 150, 30), 1, 2, cells),),
        fields=(FoundField("", "Total", "9.50", (1,), (2,), 0.8),),
    )
    builder = DocumentBuilder(keep_reading_order=True)
    boxes = [(0.2, 0.15, 0.3, 0.25), (0.1, 0.65, 0.3, 0.8), (0.6, 0.65, 0.8, 0.8)]
    page = built(boxes, ["cell", "Total", "9.50"], builder=builder, structures=found)
    plain = overlay(page, text="none", structure=False).astype(int)
    drawn = overlay(page, text="none").astype(int)
    changed = (plain != drawn).any(axis=2)
    assert changed[10, 72:145].all()  # the upper side of the table, right of the white letters of its label
    assert not changed[20, 45:55].any()  # inside of its word, which is coloured as all words are
    assert changed[15:25, 80].any()  # between its cells
    assert changed[90, 25:175].all()  # the lower side of the text
    assert changed[72, 70:115].any()  # from the key to the value
    assert not changed[40:58, 160:].any()
    page.layout, page.tables, page.fields = [], [], []
    assert (overlay(page, text="none") == overlay(page, text="none", structure=False)).all()


def test_named_fields_are_predictions_of_their_class() -> None:
    """Number the words of all classes consecutively."""
    fields = (FoundField("total", "Sum", "9.50", (1,), (2,), 0.8), FoundField("", "", "later", (), (0,), 1.0))
    boxes = {"words": np.array([[0.5, 0.5, 0.6, 0.6], [0.1, 0.1, 0.3, 0.2]]), "sums": np.array([[0.6, 0.1, 0.8, 0.2]])}
    document = KIEDocumentBuilder()(
        [np.full((100, 200, 3), 255, np.uint8)],
        [boxes],
        [{"words": np.ones(2), "sums": np.ones(1)}],
        [{"words": [("later", 0.9), ("Sum", 0.9)], "sums": [("9.50", 0.9)]}],
        [(100, 200)],
        [{"words": [UPRIGHT] * 2, "sums": [UPRIGHT]}],
        structures=[structure(fields=fields)],
    )
    page = document.pages[0]
    assert {name: [one.value for one in own] for name, own in page.predictions.items()} == {
        "words": ["Sum", "later"],
        "sums": ["9.50"],
        "total": ["9.50"],
    }
    assert page.predictions["total"][0].geometry == ((0.6, 0.1), (0.8, 0.2))
    assert [field.value for field in page.fields] == ["9.50", "later"]
    assert KIEPage.from_dict(page.export()).export() == page.export()


def test_text_in_a_region_of_a_table_is_in_all_exports() -> None:
    """Check a page without requested tables, and a word outside all cells."""
    found = structure(regions=(FoundRegion("Table", (20, 10, 180, 40), 0.9, (0, 1)),))
    boxes = [(0.1, 0.1, 0.3, 0.2), (0.5, 0.1, 0.7, 0.2)]
    builder = DocumentBuilder(keep_reading_order=True)
    page = built(boxes, ["left", "right"], builder=builder, structures=found)
    for name in ("txt", "md", "adoc", "html", "tsv"):
        text = page.export_as(name)
        assert "left" in text, name
        assert "right" in text, name
