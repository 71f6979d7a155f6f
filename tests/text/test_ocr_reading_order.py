"""Reading order on pages laid out by hand: docTR's results, and the orders in which people read."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr._reading_order.boxes import component_roots
from mediatensor.ocr.models.reading_order import (
    ReadingOrderPredictor,
    assign_layout_labels,
    deskew_reading_geometries,
    detect_text_direction,
    layout_label_role,
    normalize_layout_label,
    resolve_reading_segments,
    sort_reading_order,
)
from ocr_layout_cases import LABELS, REGIONS, order_cases
from ocr_records import read_record
from ocr_word_pages import form

CASES = {name: (geometries, options) for name, geometries, options in order_cases()}

RECORDED = read_record("layout")


# Cases in which the order differs on purpose: docTR reads all fields of a form before their values.
READ_IN_ROWS = {"form ltr", "form rtl"}


@pytest.mark.parametrize("name", sorted(CASES.keys() - READ_IN_ROWS))
def test_orders_and_segments_match_doctr(name: str) -> None:
    geometries, options = CASES[name]
    order, segments = RECORDED["order"][name]
    assert sort_reading_order(geometries, **options) == order
    assert resolve_reading_segments(geometries, **options) == segments


@pytest.mark.parametrize("name", CASES)
def test_labels_match_doctr(name: str) -> None:
    labels = assign_layout_labels(CASES[name][0], REGIONS, LABELS, min_coverage=0.4)
    assert labels == RECORDED["labels"][name]


def quads_of(boxes: np.ndarray, angle: float, shape: tuple[int, int] = (1000, 800)) -> np.ndarray:
    """Boxes turned clockwise about the middle of the page, relative to the page before the turn."""
    points = boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]] * (shape[1], shape[0])
    cosine, sine = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    middle = np.array([shape[1] / 2, shape[0] / 2])
    return ((points - middle) @ np.array([[cosine, sine], [-sine, cosine]]) + middle) / (shape[1], shape[0])


COLUMNS = np.array([[x, 0.2 + 0.03 * row, x + 0.4, 0.22 + 0.03 * row] for row in range(8) for x in (0.05, 0.55)])
COLUMNS_READ = [*range(0, 16, 2), *range(1, 16, 2)]


@pytest.mark.parametrize("angle", [-30, -5, 5, 30])
def test_skewed_columns_are_read_as_straight_ones(angle: float) -> None:
    quads = quads_of(COLUMNS, angle)
    assert sort_reading_order(COLUMNS) == COLUMNS_READ
    assert sort_reading_order(quads, page_shape=(1000, 800)) == COLUMNS_READ
    assert resolve_reading_segments(quads, page_shape=(1000, 800)) == [COLUMNS_READ[:8], COLUMNS_READ[8:]]


def test_rounding_of_turned_boxes_decides_nothing() -> None:
    words = form()
    lines = np.stack([words.boxes[words.lines == number].mean(axis=0) for number in range(9)])
    # Stacked boxes share a left edge, and level boxes share a top. Any rounding error would break such ties.
    grid = np.array(
        [[x, 0.2 + 0.025 * row, x + 0.1, 0.22 + 0.025 * row] for row in range(6) for x in (0.1, 0.3, 0.5, 0.7)]
    )
    for boxes in (lines, grid, COLUMNS):
        expected = sort_reading_order(boxes)
        for angle in range(2, 43):
            assert sort_reading_order(quads_of(boxes, angle), page_shape=(1000, 800)) == expected


@pytest.mark.parametrize("angle", [90, 180, -90, 85, 175])
def test_turned_pages_are_read_by_their_words(angle: float) -> None:
    quads = quads_of(COLUMNS, angle)
    assert sort_reading_order(quads, page_shape=(1000, 800), angle_geoms=quads) == COLUMNS_READ


def test_right_to_left_columns_begin_at_the_right() -> None:
    assert sort_reading_order(COLUMNS, direction="rtl") == COLUMNS_READ[8:] + COLUMNS_READ[:8]
    assert ReadingOrderPredictor()(COLUMNS, texts=["مرحبا بالعالم"]) == COLUMNS_READ[8:] + COLUMNS_READ[:8]
    assert ReadingOrderPredictor(direction="ltr")(COLUMNS, texts=["مرحبا"]) == COLUMNS_READ
    assert ReadingOrderPredictor()(COLUMNS, texts=["12"], language="he-IL") == COLUMNS_READ[8:] + COLUMNS_READ[:8]


def test_vertical_lines_are_read_column_by_column() -> None:
    # Three vertical lines, from the left to the right.
    lines = [((0.1, 0.1), (0.15, 0.9)), ((0.3, 0.1), (0.35, 0.9)), ((0.5, 0.1), (0.55, 0.9))]
    assert sort_reading_order(lines, direction="ttb-rtl") == [2, 1, 0]
    assert sort_reading_order(lines, direction="ttb-ltr") == [0, 1, 2]


def test_rows_of_a_form_are_read_row_by_row() -> None:
    words = form()
    lines = np.stack([words.boxes[words.lines == number].mean(axis=0) for number in range(9)])
    assert sort_reading_order(lines) == list(range(9))
    assert sort_reading_order(lines, direction="rtl") == [0, 2, 1, 4, 3, 6, 5, 8, 7]


def test_prices_are_read_with_their_items_and_numbers_with_their_text() -> None:
    rows = [(0.1 + 0.025 * row, 0.12 + 0.025 * row) for row in range(6)]
    for spans in (((0.1, 0.5), (0.8, 0.86)), ((0.1, 0.13), (0.4, 0.9))):
        boxes = np.array([[left, top, right, bottom] for top, bottom in rows for left, right in spans])
        assert sort_reading_order(boxes) == list(range(12))


def test_columns_with_wide_spacing_are_columns_if_their_lines_fill_them() -> None:
    boxes = np.array([[x, 0.1 * row, x + 0.4, 0.1 * row + 0.03] for row in range(5) for x in (0.05, 0.55)])
    assert sort_reading_order(boxes) == [*range(0, 10, 2), *range(1, 10, 2)]


def test_furniture_frames_the_page_and_captions_go_with_their_figure() -> None:
    labels = ["Page-footer", "Text", "Caption", "Picture", "Footnote", "Page-header", "Text"]
    tops = [0.95, 0.1, 0.58, 0.3, 0.7, 0.02, 0.8]
    bottoms = [0.97, 0.2, 0.6, 0.55, 0.72, 0.04, 0.85]
    geometries = [((0.1, top), (0.9, bottom)) for top, bottom in zip(tops, bottoms, strict=True)]
    assert sort_reading_order(geometries, labels=labels) == [5, 1, 3, 2, 6, 4, 0]
    # Out of reach, the caption stays where it lies; here that is the same place, before the last text.
    assert sort_reading_order(geometries, labels=labels, caption_max_distance=0.01) == [5, 1, 3, 2, 6, 4, 0]
    # Figures are separate segments, and only equal labels join.
    assert [3] in resolve_reading_segments(geometries, labels=labels)


@pytest.mark.parametrize(
    ("label", "normalized", "role"),
    [
        ("Page-header", "page_header", "header"),
        (" Running header ", "running_header", "header"),
        ("PAGE_FOOTER", "page_footer", "footer"),
        ("Footnote", "footnote", "footnote"),
        ("Caption", "caption", "caption"),
        ("Table", "table", "float"),
        ("Section-header", "section_header", "body"),
        (None, "", "body"),
    ],
)
def test_labels_have_roles(label: str | None, normalized: str, role: str) -> None:
    assert (normalize_layout_label(label), layout_label_role(label)) == (normalized, role)


@pytest.mark.parametrize(
    ("texts", "language", "direction"),
    [
        (["Hello", "مرحبا!"], None, "ltr"),  # five Latin letters, five Arabic ones
        (["Hell", "مرحبا!"], None, "rtl"),
        (["12.50", "%"], None, "ltr"),
        (["12.50", "%"], "ar", "rtl"),
        (["word"], "ar", "ltr"),
        ([], None, "ltr"),
        ([None, "שלום"], None, "rtl"),
    ],
)
def test_direction_is_that_of_most_letters(texts: list[Any], language: str | None, direction: str) -> None:
    assert detect_text_direction(texts, language=language) == direction


def test_regions_are_turned_with_the_elements() -> None:
    quads = quads_of(COLUMNS, 20)
    left = quads_of(np.array([[0.0, 0.1, 0.5, 0.9]]), 20)
    labels = assign_layout_labels(quads, left, ["Left"], min_coverage=0.95, page_shape=(1000, 800))
    assert labels == ["Left", None] * 8
    straight, regions = deskew_reading_geometries(quads, [((0.0, 0.0), (0.1, 0.1))], page_shape=(1000, 800))
    assert np.ptp(straight[0][:2, 1]) < 1e-9
    assert regions[0].shape == (4, 2)
    assert deskew_reading_geometries([((0.0, 0.0), (1.0, 1.0))]) == ([((0.0, 0.0), (1.0, 1.0))], [])


def test_empty_and_single_inputs_are_ordered() -> None:
    for geometries in ([], np.zeros((0, 4)), np.zeros((0, 4, 2))):
        assert sort_reading_order(geometries) == []
        assert resolve_reading_segments(geometries) == []
        assert assign_layout_labels(geometries, REGIONS, LABELS) == []
    assert resolve_reading_segments([((0.1, 0.1), (0.2, 0.2))], labels=["Text"]) == [[0]]
    assert assign_layout_labels([((0.1, 0.1), (0.2, 0.2))], [], []) == [None]


def test_too_many_boxes_are_read_in_rows() -> None:
    rows, columns = np.divmod(np.arange(20_000), 100)
    boxes = np.stack([columns / 100, rows / 200, columns / 100 + 0.008, rows / 200 + 0.004], axis=1)
    mixed = np.random.default_rng(0).permutation(len(boxes))
    assert mixed[sort_reading_order(boxes[mixed])].tolist() == list(range(len(boxes)))


def test_connected_boxes_are_found_whatever_their_order() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        number = int(rng.integers(1, 20))
        links = rng.integers(0, number, (int(rng.integers(0, 25)), 2))
        connected = np.eye(number, dtype=bool)
        connected[links[:, 0], links[:, 1]] = True
        for _ in range(number):  # everything that can be reached in as many steps as there are boxes
            connected = (connected | connected.T) @ (connected | connected.T)
        assert component_roots(number, links).tolist() == connected.argmax(axis=1).tolist()


def test_time_for_connected_boxes_hardly_depends_on_their_order() -> None:
    rising = np.arange(5_000)
    falling = np.concatenate([[0], rising[:0:-1]])
    seconds = []
    for chain in (rising, falling):
        before = time.process_time()
        for _ in range(3):
            assert not component_roots(len(chain), np.stack([chain[:-1], chain[1:]], axis=1)).any()
        seconds.append(time.process_time() - before)
    assert seconds[1] < 50 * seconds[0] + 0.05


def test_overlapping_boxes_are_ordered() -> None:
    assert sort_reading_order(np.tile([[0.1, 0.1, 0.2, 0.2]], (50, 1))) == list(range(50))
    assert sort_reading_order(np.zeros((50, 4))) == list(range(50))


def test_bad_arguments_are_refused_by_name() -> None:
    boxes = np.array([[0.1, 0.1, 0.2, 0.2], [0.1, 0.3, 0.2, 0.4]])
    for direction in ("auto", "up", ""):
        with pytest.raises(InvalidArgumentError, match="invalid reading direction"):
            sort_reading_order(boxes, direction=direction)
    with pytest.raises(InvalidArgumentError, match="invalid reading direction 'up'"):
        ReadingOrderPredictor(direction="up")
    with pytest.raises(InvalidArgumentError, match="1 labels were given for 2"):
        sort_reading_order(boxes, labels=["Text"])
    with pytest.raises(InvalidArgumentError, match="1 labels were given for 2"):
        resolve_reading_segments(boxes, labels=["Text"], rows=[[0], [1]])
    with pytest.raises(InvalidArgumentError, match="1 labels were given for 5 regions"):
        assign_layout_labels(boxes, REGIONS, ["Text"])
    for geometries in (None, 5, [5], ["box"], [[]], [(0.1, 0.2)], [(0, 0), (1, 1)], boxes[:, :3], np.array(["a", "b"])):
        with pytest.raises(InvalidArgumentError, match=r"geometries must be boxes|at least two points"):
            sort_reading_order(geometries)  # type: ignore[arg-type]
    boxes[1, 2] = np.inf
    with pytest.raises(InvalidArgumentError, match=r"geometry 1 .*not finite"):
        resolve_reading_segments(boxes)


def test_repr_shows_the_direction() -> None:
    assert repr(ReadingOrderPredictor(direction="rtl")) == "ReadingOrderPredictor(direction='rtl')"
