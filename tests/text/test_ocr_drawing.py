"""Images of results: position and colour of the ink, and the text that another program reads in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from mediatensor.errors import InvalidArgumentError, MissingDependencyError, SourceNotFoundError
from mediatensor.ocr.utils.fonts import get_font
from mediatensor.ocr.utils.geometry import rotate_abs_points
from mediatensor.ocr.utils.reconstitution import synthesize_kie_page, synthesize_page
from mediatensor.ocr.utils.visualization import (
    create_obj_patch,
    draw_boxes,
    get_colors,
    overlay,
    polygon_patch,
    rect_patch,
    visualize_kie_page,
    visualize_page,
)
from processes import find_program

HEIGHT, WIDTH = 300, 400


def word(value: str, geometry: Any, confidence: float = 0.9) -> dict[str, Any]:
    return {"value": value, "confidence": confidence, "geometry": geometry}


def page(*words: dict[str, Any], size: tuple[int, int] = (HEIGHT, WIDTH), **more: Any) -> dict[str, Any]:
    """An exported page of one line."""
    whole = ((0.0, 0.0), (1.0, 1.0))
    lines = [{"geometry": whole, "words": list(words)}] if words else []
    return {"dimensions": size, "blocks": [{"geometry": whole, "lines": lines, "artefacts": []}], **more}


def box(left: float, top: float, right: float, bottom: float) -> Any:
    """A relative box from pixels."""
    return ((left / WIDTH, top / HEIGHT), (right / WIDTH, bottom / HEIGHT))


def turned(width: float, height: float, angle: float) -> NDArray[np.float64]:
    """The corners, in pixels, of a box around the middle of the page whose text runs at an angle, counter-clockwise."""
    upright = np.array([[-width, -height], [width, -height], [width, height], [-width, height]]) / 2
    return rotate_abs_points(upright, -angle) + np.array([WIDTH, HEIGHT]) / 2


def ink(picture: NDArray[np.uint8], background: tuple[int, int, int] = (255, 255, 255)) -> NDArray[np.float64]:
    """The centers (x, y) of the pixels that are clearly not background."""
    rows, columns = np.nonzero(np.abs(picture.astype(int) - background).max(axis=2) > 100)
    return np.stack([columns + 0.5, rows + 0.5], axis=1)


def within(points: NDArray[np.float64], quad: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points along and across a box: 0 to 1 is inside."""
    return (points - quad[0]) @ np.linalg.inv(np.stack([quad[1] - quad[0], quad[3] - quad[0]]))


@pytest.mark.parametrize("angle", [0, 10, -35, 90, 180, -90, 130])
@pytest.mark.parametrize(("text", "width", "height"), [("Hg", 200, 30), ("Reading text", 120, 40), ("Mi", 24, 90)])
def test_text_fits_its_box(text: str, width: int, height: int, angle: int) -> None:
    quad = turned(width, height, angle)
    drawn = synthesize_page(page(word(text, quad / [WIDTH, HEIGHT])), max_font_size=200)
    assert (drawn.shape, drawn.dtype) == ((HEIGHT, WIDTH, 3), np.uint8)
    places = within(ink(drawn), quad)
    slack = np.array([1.5 / width, 1.5 / height])
    assert (places > -slack).all()
    assert (places < 1 + slack).all()
    # It is about as large as it can be: little room is left one way or the other.
    assert ((1 - np.ptp(places, axis=0)) * [width, height]).min() < 6


def test_turned_text_is_the_upright_text_turned() -> None:
    drawings = []
    for quarter in range(4):
        # A box of 201 by 41 pixels around the middle of a square page.
        upright = turned(201, 41, 0) - [WIDTH / 2, HEIGHT / 2]
        quad = rotate_abs_points(upright, -90 * quarter) + 150.5
        drawn = synthesize_page(page(word("Fork", quad / 301), size=(301, 301)))
        drawings.append(np.rot90(drawn, -quarter))
    for drawn in drawings[1:]:
        assert np.abs(drawn.astype(int) - drawings[0]).max() <= 2


def test_words_of_a_line_have_one_size_and_one_baseline() -> None:
    # The boxes jump by a pixel, and one is higher than the rest.
    words = [
        word("HHH", box(10, 100, 60, 120)),
        word("HHH", box(70, 101, 120, 121)),
        word("HHH", box(130, 90, 180, 130)),
        word("HHH", box(190, 99, 240, 119)),
    ]
    rows = [ink(synthesize_page(page(*words))[:, left : left + 60]) for left in (5, 65, 125, 185)]
    bottoms = {int(row[:, 1].max()) for row in rows}
    heights = {int(np.ptp(row[:, 1])) for row in rows}
    assert len(bottoms) == len(heights) == 1


def test_long_text_in_a_tall_box_runs_downward() -> None:
    drawn = synthesize_page(page(word("downward", box(100, 50, 120, 250))))
    assert np.ptp(ink(drawn), axis=0)[1] > 60


def test_another_program_reads_what_was_drawn(tmp_path: Path) -> None:
    program = find_program("tesseract", "tesseract-ocr")
    texts = ["Invoice", "number", "48213", "from", "London"]
    words = [word(text, ((0.1 + 0.16 * index, 0.4), (0.24 + 0.16 * index, 0.5))) for index, text in enumerate(texts)]
    drawn = synthesize_page(page(*words, size=(400, 1200)))
    Image.fromarray(drawn).save(tmp_path / "page.png")
    command = [program, str(tmp_path / "page.png"), "stdout", "--psm", "6"]
    read = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert read.split() == texts


def test_colors_show_confidence() -> None:
    geometry = box(20, 20, 220, 60)
    for confidence, color in ((1.0, [0, 70, 255]), (0.5, [225, 40, 40]), (0.0, [255, 0, 0])):
        drawn = synthesize_page(page(word("HHHH", geometry, confidence)), draw_proba=True)
        assert (drawn == color).all(axis=2).any(), confidence
    plain = synthesize_page(page(word("HHHH", geometry)), background_color=(10, 20, 30), text_color=(200, 210, 220))
    assert plain[-1, -1].tolist() == [10, 20, 30]
    assert (plain == [200, 210, 220]).all(axis=2).any()


def test_sizes_are_kept_in_bounds() -> None:
    def height(**sizes: int) -> float:
        drawn = synthesize_page(page(word("HHH", box(20, 20, 380, 220))), **sizes)
        return float(np.ptp(ink(drawn)[:, 1])) + 1

    assert height(max_font_size=20) < 20 < height(max_font_size=60) < 60


def test_predictions_and_cells_are_drawn() -> None:
    entry = word("HHH", box(20, 20, 100, 50))
    drawn = synthesize_page(page(entry))
    assert len(ink(drawn)) > 100
    kie = synthesize_kie_page({"dimensions": (HEIGHT, WIDTH), "predictions": {"total": [entry], "date": []}})
    cell = synthesize_page(page(tables=[{"geometry": box(10, 10, 200, 90), "cells": [entry]}]))
    np.testing.assert_array_equal(kie, drawn)
    np.testing.assert_array_equal(cell, drawn)


def test_placeholders_are_drawn_when_asked() -> None:
    region = {"geometry": box(50, 60, 150, 160), "type": "Picture", "confidence": 0.5}
    assert (synthesize_page(page(layout=[region])) == 255).all()
    drawn = synthesize_page(page(layout=[region]), draw_placeholders=True)
    rows, columns = np.nonzero((drawn < 255).all(axis=2))
    assert [rows.min(), rows.max(), columns.min(), columns.max()] == pytest.approx([60, 160, 50, 150], abs=1.5)


def test_empty_text_and_empty_pages_are_drawn() -> None:
    assert (synthesize_page(page()) == 255).all()
    assert (synthesize_page({"dimensions": [5, 7]}) == 255).all()
    nothing = page(word("  ", box(20, 20, 100, 50)), word("a", box(20, 20, 20, 20)))
    assert (synthesize_page(nothing) == 255).all()
    # Far too long, on several lines, outside of the page: drawn partly, and fast.
    synthesize_page(page(word("a\n\tb" * 1_000_000, ((-1e9, 0.5), (1e9, 0.6)))))


@pytest.mark.parametrize(
    "geometry", [None, (), ((0, 0),), ((0, 0), (1, float("nan"))), "box", ((0, 0), (1, 1), (2, 2))]
)
def test_unusable_geometries_are_named_or_left_out(geometry: Any) -> None:
    good = word("HHH", box(20, 20, 100, 50))
    for drawing in (
        lambda: synthesize_page(page(word("a", geometry), good)),
        lambda: synthesize_page(page(good, layout=[{"geometry": geometry}]), draw_placeholders=True),
        lambda: synthesize_kie_page(
            {"dimensions": (HEIGHT, WIDTH), "predictions": {"total": [word("a", geometry), good]}}
        ),
    ):
        with pytest.warns(UserWarning, match="Left out 1 entries"):
            drawn = drawing()
        np.testing.assert_array_equal(drawn, synthesize_page(page(good)))
    with pytest.raises(InvalidArgumentError, match="invalid geometry"):
        overlay(page(word("a", geometry)), np.zeros((30, 40, 3), np.uint8))


def test_odd_words_are_drawn_if_possible() -> None:
    good = word("HHH", box(20, 20, 100, 50))
    nothing = [None, "word", {"value": None, "geometry": box(0, 0, 50, 20)}, {"geometry": box(0, 0, 50, 20)}]
    exported = page(*nothing, good)
    exported["blocks"] += [None, {"lines": None}, {"lines": [None, {"words": None}, {}]}]
    np.testing.assert_array_equal(synthesize_page(exported), synthesize_page(page(good)))
    predictions = {"dimensions": (HEIGHT, WIDTH), "predictions": {"none": None, "total": [*nothing, good]}}
    np.testing.assert_array_equal(synthesize_kie_page(predictions), synthesize_page(page(good)))
    # A number is as good as its text, and a word without a confidence is grey.
    number = {"value": 21.5, "geometry": box(20, 20, 100, 50)}
    np.testing.assert_array_equal(
        synthesize_page(page(number)), synthesize_page(page(word("21.5", box(20, 20, 100, 50))))
    )
    for confidence in (None, "sure", float("nan")):
        drawn = synthesize_page(page({**good, "confidence": confidence}), draw_proba=True)
        assert (drawn == 128).all(axis=2).any()
        assert (drawn.max(axis=2) == drawn.min(axis=2)).all()


@pytest.mark.parametrize("size", [None, (), (0, 5), (5, -5), ("a", 1), (1e6, 1e6), (float("inf"), 3), (1, 2, 3)])
def test_unusable_dimensions_are_named(size: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="dimensions"):
        synthesize_page(page(size=size))


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"min_font_size": 0}, InvalidArgumentError, "font sizes"),
        ({"min_font_size": 20, "max_font_size": 10}, InvalidArgumentError, "font sizes"),
        ({"font_family": "/no/such/font.ttf"}, SourceNotFoundError, "no font"),
    ],
)
def test_unusable_fonts_are_named(arguments: dict[str, Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        synthesize_page(page(), **arguments)


def test_fonts_scale_with_their_size() -> None:
    assert get_font().getname() == get_font(None, 40).getname()  # type: ignore[union-attr]
    assert get_font(None, 40).getlength("Hello") == pytest.approx(4 * get_font(None, 10).getlength("Hello"), rel=0.1)
    with pytest.raises(InvalidArgumentError, match="font_size"):
        get_font(None, 0)


def test_letters_that_the_font_lacks_come_from_an_installed_one() -> None:
    try:
        get_font("DejaVuSans.ttf")
    except SourceNotFoundError:
        pytest.skip("needs the font DejaVuSans.ttf (on Debian: apt-get install fonts-dejavu-core)")
    geometry = box(20, 20, 380, 80)
    drawn = [synthesize_page(page(word(text, geometry))) for text in ("Москва", "Ростов")]
    # Signs for missing letters would be the same in both.
    assert (drawn[0] != drawn[1]).any()


PAPER = np.full((HEIGHT, WIDTH, 3), 240, np.uint8)


def test_overlay_changes_only_the_boxes() -> None:
    sure, unsure = box(20, 20, 100, 50), turned(120, 30, 30)
    before = PAPER.copy()
    drawn = overlay(page(word("a", sure, 1.0), word("b", unsure / [WIDTH, HEIGHT], 0.2)), PAPER, text="none")
    np.testing.assert_array_equal(PAPER, before)
    assert (drawn.shape, drawn.dtype) == (PAPER.shape, np.uint8)
    changed = np.stack(np.nonzero((drawn != PAPER).any(axis=2))[::-1], axis=1) + 0.5
    in_first = ((changed > [19, 19]) & (changed < [102, 52])).all(axis=1)
    places = within(changed, unsure)
    slack = np.array([1.5 / 120, 1.5 / 30])
    assert (in_first | ((places > -slack) & (places < 1 + slack)).all(axis=1)).all()
    column, row = np.round(unsure[0]).astype(int)
    blue, red = drawn[20, 60], drawn[row + 1, column + 1]
    assert blue[2] > 240 > 100 > blue[0]
    assert red[0] > red[2]


def test_overlay_accepts_all_kinds_of_pages() -> None:
    exported = page(word("text", box(20, 120, 100, 150)))

    class Element:
        page = torch.from_numpy(PAPER).permute(2, 0, 1)

        def export(self) -> dict[str, Any]:
            return exported

    expected = overlay(exported, PAPER)
    assert expected.shape == (HEIGHT, 2 * WIDTH, 3)
    np.testing.assert_array_equal(expected[:, WIDTH:], synthesize_page(exported, draw_proba=True))
    np.testing.assert_array_equal(overlay(Element()), expected)
    np.testing.assert_array_equal(overlay(exported, torch.from_numpy(PAPER)), expected)
    np.testing.assert_array_equal(overlay(exported, PAPER[..., 0]), expected)
    np.testing.assert_array_equal(overlay(exported, PAPER / 255), expected)
    kie = {"dimensions": (HEIGHT, WIDTH), "predictions": {"words": exported["blocks"][0]["lines"][0]["words"]}}
    np.testing.assert_array_equal(overlay(kie, PAPER), expected)


def test_labels_lie_above_their_boxes_and_on_the_page() -> None:
    for top in (100, 0):
        plain, labelled = (
            overlay(page(word("HHH", box(20, top, 120, top + 30))), PAPER, text=text) for text in ("none", "above")
        )
        rows, columns = np.nonzero((plain != labelled).any(axis=2))
        assert columns.min() >= 19
        assert columns.max() <= 121
        assert rows.min() == pytest.approx(top - 21 if top else 0, abs=2)
        assert rows.max() == pytest.approx(top if top else 21, abs=2)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"image": None}, "no pixels"),
        ({"image": PAPER, "text": "below"}, "'below'"),
        ({"image": PAPER, "line_width": 0}, "line_width"),
        ({"image": PAPER.astype(np.int64)}, "uint8"),
        ({"image": np.zeros((0, 5, 3), np.uint8)}, "empty"),
        ({"image": np.zeros((5, 5, 4), np.uint8)}, "shape"),
    ],
)
def test_unusable_overlays_are_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        overlay(page(), **arguments)


def test_figures_name_the_package_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    calls = [
        lambda: visualize_page(page(), PAPER),
        lambda: draw_boxes(np.zeros((0, 4)), PAPER),
        lambda: rect_patch(((0, 0), (1, 1)), (10, 10)),
    ]
    for call in calls:
        with pytest.raises(MissingDependencyError, match=r"mediatensor\[plot\]"):
            call()


def point_at(figure: Any, x: float, y: float) -> str | None:
    """Return the tooltip of the figure at a pixel of the page."""
    from matplotlib.backend_bases import MouseEvent

    (ax,) = figure.axes
    figure.canvas.draw()
    place = ax.transData.transform((x, y))
    figure.canvas.callbacks.process("motion_notify_event", MouseEvent("motion_notify_event", figure.canvas, *place))
    (annotation,) = (text for text in ax.texts if hasattr(text, "xyann"))
    return annotation.get_text() if annotation.get_visible() else None


def test_hovering_shows_the_label(plots: Any) -> None:
    rotated = turned(100, 40, 45)
    exported = page(word("Total", box(20, 20, 100, 50), 0.5), word("late", rotated / [WIDTH, HEIGHT], 0.987))
    exported["blocks"][0]["lines"][0]["geometry"] = box(10, 10, 390, 290)
    figure = visualize_page(exported, PAPER, words_only=False)
    assert point_at(figure, 60, 35) == "Total (confidence: 50.00%)"
    assert point_at(figure, WIDTH / 2, HEIGHT / 2) == "late (confidence: 98.70%)"
    # Within the upright box around the rotated word, but not on it.
    assert point_at(figure, rotated[:, 0].min() + 3, rotated[:, 1].min() + 3) == "line"
    assert point_at(figure, 5, 5) == "block"
    assert point_at(visualize_page(exported, PAPER), 5, 5) is None


def test_outlines_are_where_the_elements_are(plots: Any) -> None:
    layout = [{"geometry": box(0, 0, 200, 100), "type": "Title", "confidence": 1.0}]
    exported = page(word("a", box(20, 30, 100, 50)), layout=layout)
    exported["blocks"][0]["artefacts"].append({"geometry": box(300, 200, 320, 220)})

    def extents(**arguments: Any) -> list[list[float]]:
        figure = visualize_page(exported, torch.from_numpy(PAPER).permute(2, 0, 1), **arguments)
        (ax,) = figure.axes
        return [[*patch.get_xy(), patch.get_width(), patch.get_height()] for patch in ax.patches]

    title, a, artefact, whole = [0, 0, 200, 100], [20, 30, 80, 20], [300, 200, 20, 20], [0, 0, 400, 300]
    assert extents() == [pytest.approx(item) for item in (title, a, artefact)]
    assert extents(words_only=False) == [pytest.approx(item) for item in (title, whole, whole, a, artefact)]
    assert extents(display_layout=False, display_artefacts=False) == [pytest.approx(a)]


def test_static_figure_has_labels(plots: Any) -> None:
    exported = page(word("$a_1$", box(20, 30, 100, 50)), word("b", turned(20, 20, 45) / [WIDTH, HEIGHT]))
    figure = visualize_page(exported, PAPER, interactive=False)
    figure.canvas.draw()
    (label,) = figure.axes[0].texts
    assert (label.get_text(), label.get_position()) == ("$a_1$", (20, 30))
    assert not label.get_parse_math()
    assert not visualize_page(exported, PAPER, interactive=False, add_labels=False).axes[0].texts
    assert tuple(figure.get_size_inches()) == (10, 7.5)


def test_classes_have_their_colors(plots: Any) -> None:
    entries = {"date": [word("1", box(20, 20, 100, 50))], "total": [word("2", box(20, 120, 100, 150))]}
    figure = visualize_kie_page({"dimensions": (HEIGHT, WIDTH), "predictions": entries}, PAPER)
    colors = [patch.get_facecolor()[:3] for patch in figure.axes[0].patches]
    assert colors == [pytest.approx(color) for color in get_colors(2)]
    assert point_at(figure, 60, 35) == "date\n1 (confidence: 90.00%)"


def test_patches_have_the_place_of_their_geometry(plots: Any) -> None:
    rectangle = create_obj_patch(((0.1, 0.2), (0.5, 0.4)), (100, 200), label="a", color=(1, 0, 0), alpha=0.5)
    assert rectangle.get_bbox().extents == pytest.approx([20, 20, 100, 40])
    assert (rectangle.get_label(), rectangle.get_edgecolor()) == ("a", (1, 0, 0, 0.5))
    assert rect_patch(((0, 0), (1, 1)), (100, 200), preserve_aspect_ratio=True).get_height() == 200
    points = np.array([[0.1, 0.1], [0.2, 0.1], [0.2, 0.2], [0.1, 0.2]])
    for polygon in (create_obj_patch(points, (100, 200)), create_obj_patch(points.tolist(), (100, 200))):
        np.testing.assert_allclose(polygon.get_xy()[:4], points * [200, 100])
    for call in (rect_patch, polygon_patch, create_obj_patch):
        for geometry in ((1, 2), ((0, 0), (1, 1), (2, 2)), None, ("a", "b")):
            with pytest.raises(InvalidArgumentError, match="invalid geometry"):
                call(geometry, (100, 200))


@pytest.mark.parametrize("with_scores", [False, True])
@pytest.mark.parametrize("rotated", [False, True])
def test_boxes_are_drawn(plots: Any, rotated: bool, with_scores: bool) -> None:
    quads = np.array([[[0.1, 0.2], [0.3, 0.2], [0.3, 0.4], [0.1, 0.4]], [[0.5, 0.5], [1, 0.5], [1, 1], [0.5, 1]]])
    boxes = quads if rotated else quads[:, [0, 2]].reshape(2, 4)
    if with_scores:
        boxes = np.concatenate([boxes, np.full_like(boxes[:, :1], 0.9)], axis=1)
    before = boxes.copy(), PAPER.copy()
    draw_boxes(boxes, PAPER, (255, 0, 0), linewidth=5, alpha=0.5)
    np.testing.assert_array_equal(boxes, before[0])
    np.testing.assert_array_equal(PAPER, before[1])
    (line,) = plots.gca().lines
    drawn = line.get_xydata().reshape(2, 6, 2)
    # Pixels are centered at whole numbers.
    np.testing.assert_allclose(drawn[:, [0, 1, 2, 3, 4]], quads[:, [0, 1, 2, 3, 0]] * [WIDTH, HEIGHT] - 0.5)
    assert np.isnan(drawn[:, 5]).all()
    assert (line.get_color(), line.get_linewidth(), line.get_alpha()) == ((1, 0, 0), 5, 0.5)
    with pytest.raises(InvalidArgumentError, match="boxes"):
        draw_boxes(np.zeros((2, 3)), PAPER)
