"""Pages of `mediatensor.ocr.drawing`: truth compared with the ink, tables, order, and a reader's results."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.drawing import PAGE_KINDS, REGION_KINDS, STYLES, DrawnPage, draw_random_page, find_faces
from ocr_reading import reader, words_of

matplotlib = pytest.importorskip("matplotlib")

FOLDER = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
FACES = find_faces(
    [FOLDER / f"{name}.ttf" for name in ("DejaVuSans", "DejaVuSerif", "DejaVuSans-Bold", "DejaVuSansMono")]
)
KINDS = [kind for kind in PAGE_KINDS if kind != "mixed"]


def page_of(kind: str, seed: int = 0, style: str = "clean", size: tuple[int, int] | None = None) -> DrawnPage:
    return draw_random_page(random.Random(seed), kind=kind, languages=["de", "ru"], faces=FACES, style=style, size=size)


def inside(polygons: list[NDArray[np.float64]], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """The pixels that polygons cover, drawn by Pillow."""
    mask = Image.new("1", (shape[1], shape[0]))
    for polygon in polygons:
        # Pillow counts the last pixel in; ours end at edges.
        points = [tuple(point) for point in polygon - [(0, 0), (1, 0), (1, 1), (0, 1)]]
        ImageDraw.Draw(mask).polygon(points, fill=1)
    return np.asarray(mask)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_source_gives_the_same_page(kind: str) -> None:
    for style in ("clean", "mixed"):
        pages = [page_of(kind, seed, style, (320, 400)) for seed in (1, 1, 2)]
        first, second, other = pages
        np.testing.assert_array_equal(first.image, second.image)
        assert first.text == second.text
        polygons = [[word.polygon for word in page.words] for page in pages]
        np.testing.assert_array_equal(polygons[0], polygons[1])
        assert kind == "empty" or first.text != other.text
        assert first.image.shape == (400, 320, 3)
        assert first.image.dtype == np.uint8
        assert {region.kind for region in first.regions} <= set(REGION_KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_small_pages_have_the_given_size(kind: str) -> None:
    for size in ((64, 64), (64, 200), (200, 64), (128, 128)):
        for seed in range(4):
            assert page_of(kind, seed, size=size).image.shape[1] == size[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["letter", "columns", "report", "slide"])
def test_ink_is_where_words_are(kind: str) -> None:
    """Each word's polygon touches its ink on all four sides, and all ink is in words, rules or pictures."""
    seen = 0
    for seed in range(3):
        page = page_of(kind, seed)
        background = np.median(page.image.reshape(-1, 3), axis=0)
        ink = np.abs(page.image.astype(int) - background).max(axis=2) > 24
        for word in page.words:
            (left, top), (right, bottom) = word.polygon[0].astype(int), word.polygon[2].astype(int)
            part = ink[top:bottom, left:right]
            assert part.size, word.text
            # The outermost pixel of a thin stroke may be fainter than the threshold.
            for edge in (part[:2], part[-2:], part[:, :2], part[:, -2:]):
                assert edge.any(), word.text
            seen += 1
        if kind == "columns":
            rest = ink & ~inside([word.polygon for word in page.words], ink.shape)
            pictures = [region.polygon for region in page.regions if region.kind == "Picture"]
            rest &= ~inside(pictures, ink.shape)
            # The rest are straight rules.
            rows, columns = rest.sum(axis=1), rest.sum(axis=0)
            rest[rows > 0.5 * rest.shape[1]] = False
            rest[:, columns > 0.5 * rest.shape[0]] = False
            assert rest.sum() <= 0.001 * ink.sum()
    assert seen > 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_truth_follows_the_warped_paper(seed: int) -> None:
    """Before a camera, the text is turned, seen from the side and bent: its ink is in the moved polygons still."""
    page = page_of("letter", seed, "camera")
    height, width = page.image.shape[:2]
    words = [word.polygon for word in page.words]
    assert len(words) > 30
    # Around words the paper is brighter than in them, though light falls unevenly.
    grey = page.image.mean(axis=2)
    within = [polygon for polygon in words if (polygon > 2).all() and (polygon < (width - 2, height - 2)).all()]
    darker = 0
    for polygon in within:
        (left, top), (right, bottom) = polygon.min(axis=0).astype(int), np.ceil(polygon.max(axis=0)).astype(int)
        around = grey[max(0, top - 4) : bottom + 4, max(0, left - 4) : right + 4]
        mask = inside([polygon - (max(0, left - 4), max(0, top - 4))], around.shape)
        darker += around[mask].min() <= around[~mask].min() + 25 and around[mask].mean() < around[~mask].mean() + 2
    assert darker >= 0.9 * len(within)
    # Words are in their lines and regions. Corners of long words that bend lie beyond their ink, by a pixel or two.
    for region in page.regions:
        for line in region.lines:
            for word in line.words:
                for outer in (line.polygon, region.polygon):
                    assert _signed_distance(word.polygon, outer).min() > -2.5


def _signed_distance(points: NDArray[np.float64], polygon: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far points are inside a convex polygon with corners clockwise on the screen."""
    sides = np.roll(polygon, -1, axis=0) - polygon
    normals = np.stack([-sides[:, 1], sides[:, 0]], 1) / np.hypot(sides[:, 0], sides[:, 1])[:, None]
    return np.asarray(((points[:, None] - polygon) * normals).sum(-1).min(axis=1))


@pytest.mark.slow
def test_cells_cover_their_tables() -> None:
    """Every place of the grid belongs to one cell; texts are in their cells; rows and columns are in line."""
    tables = [table for seed in range(12) for table in page_of("table", seed).tables]
    spans = 0
    for table in tables:
        grid = np.zeros((table.num_rows, table.num_columns), int)
        for cell in table.cells:
            grid[cell.row : cell.row + cell.row_span, cell.column : cell.column + cell.column_span] += 1
            spans += cell.row_span > 1 or cell.column_span > 1
            for line in cell.lines:
                assert _signed_distance(line.polygon, cell.polygon).min() > -1.5
        assert (grid == 1).all()
        for place, name in ((0, "column"), (1, "row")):
            starts: dict[int, set[float]] = {}
            for cell in table.cells:
                starts.setdefault(getattr(cell, name), set()).add(round(float(cell.polygon[0, place]), 3))
            assert all(len(found) == 1 for found in starts.values())
            order = [min(found) for _, found in sorted(starts.items())]
            assert all(first < second for first, second in pairwise(order))
        assert table.cells[0].header
    assert len(tables) > 12
    assert spans > 5
    assert {table.ruled for table in tables} == {True, False}


@pytest.mark.slow
def test_kinds_of_pages_have_what_they_are_named_for() -> None:
    kinds: dict[str, set[str]] = {
        kind: {
            region.kind
            for seed in range(16 if kind == "report" else 4)
            for region in page_of(kind, seed, size=(420, 560)).regions
        }
        for kind in KINDS
    }
    assert kinds["empty"] == set()
    assert kinds["receipt"] >= {"Title", "Table", "Text"}
    assert kinds["report"] >= {"Section-header", "List-item", "Picture", "Caption", "Table", "Footnote", "Formula"}
    assert kinds["caption"] == {"Picture", "Caption"}
    assert kinds["slide"] >= {"Title", "List-item", "Page-footer"}
    assert set().union(*kinds.values()) == set(REGION_KINDS)
    form = page_of("form", 1)
    assert len(form.fields) >= 4
    known = {id(line) for line in form.lines}
    assert all({id(field.key), id(field.value)} <= known for field in form.fields)


def test_columns_are_read_one_after_the_other() -> None:
    """Body text goes down a column, then to the top of the next one."""
    page = page_of("columns", 3)
    places = [region.polygon[0] for region in page.regions if region.kind in ("Text", "Section-header", "Caption")][1:]
    jumps = [second for first, second in pairwise(places) if second[1] < first[1]]
    assert 1 <= len(jumps) <= 2
    assert all(second[0] > places[0][0] + 50 for second in jumps)


@pytest.mark.parametrize("style", STYLES)
def test_every_style_draws_every_kind(style: str) -> None:
    for kind in KINDS:
        page = page_of(kind, 7, style, (320, 400))
        assert style == "mixed" or page.style == style
        assert page.image.std() > 0 or kind == "empty"


def test_invalid_arguments_are_refused() -> None:
    for arguments, message in (
        ({"kind": "poster"}, "kind is 'poster'"),
        ({"style": "oil"}, "style is 'oil'"),
        ({"size": (10, 10)}, "size is"),
        ({"languages": []}, "languages is empty"),
        ({"languages": ["ja"], "faces": FACES}, "no face has all letters of 'ja'"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            draw_random_page(random.Random(0), **arguments)  # type: ignore[arg-type]


def test_pages_contain_own_texts() -> None:
    texts = ["Grüße aus Aachen am Rhein", "Der Zug nach Ulm fährt heute nicht"]
    page = draw_random_page(random.Random(0), kind="letter", texts=texts, faces=FACES, style="clean")
    words = {word for text in texts for word in text.split()}
    body = [word.text for region in page.regions if region.kind == "Text" for word in region.lines[0].words]
    assert sum(word.rstrip(",") in words or word.lower() in map(str.lower, words) for word in body) > 0.7 * len(body)


def test_the_default_reader_finds_the_words() -> None:
    """Words of a clean letter are read where the truth has them."""
    page = draw_random_page(
        random.Random(2), kind="letter", languages=["en"], faces=FACES, style="clean", size=(640, 560)
    )
    assert len(page.words) > 30
    found = words_of(reader(shorter_side=480)([page.image]))
    height, width = page.image.shape[:2]
    middles = np.array([np.mean(word.geometry, axis=0) * (width, height) for word in found])
    read = 0
    for word in page.words:
        near = np.abs(middles - word.polygon.mean(axis=0)).max(axis=1) < 12
        read += any(found[at].value == word.text for at in np.flatnonzero(near))
    assert read >= 0.85 * len(page.words), (read, len(page.words))
