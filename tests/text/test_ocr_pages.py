"""The drawn pages that other tests read: the truth about them is where the ink is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ocr_pages import PAGE_KINDS, RenderedPage, TextBox, render_page, render_text

# Levels of the middle of a stroke, and of its faintest edge.
_INK, _TRACE = 128, 215


def upright(page: RenderedPage, box: TextBox, margin: int) -> NDArray[np.uint8]:
    """The grey pixels of a box, turned upright, with a margin around them."""
    top_left, top_right, _, bottom_left = box.quad
    across, down = top_right - top_left, bottom_left - top_left
    width, height = (max(round(float(np.hypot(*side))), 1) for side in (across, down))
    x, y = across / width, down / height
    origin = top_left - margin * (x + y)
    affine = (x[0], y[0], origin[0], x[1], y[1], origin[1])
    size = (width + 2 * margin, height + 2 * margin)
    grey = Image.fromarray(page.image).convert("L")
    picture = grey.transform(size, Image.Transform.AFFINE, affine, Image.Resampling.BILINEAR, fillcolor=255)
    return np.asarray(picture)


@pytest.mark.parametrize("rotation", [0, 7.5, 90, 200])
def test_quads_go_closely_around_the_ink(rotation: float) -> None:
    page = render_page("letter", seed=3, size=(6, 6), rotation=rotation)
    assert len(page.words) > 50
    for word in page.words:
        crop = upright(page, word, margin=2)
        assert crop[[0, -1]].min() > _INK, word
        # The margin and two pixels within the quad.
        assert max(edge.min() for edge in (crop[:4], crop[-4:], crop[:, :4], crop[:, -4:])) < _TRACE, word


@pytest.mark.parametrize("rotation", [0, 30, 180])
def test_there_is_no_ink_elsewhere(rotation: float) -> None:
    page = render_page("columns", seed=1, rotation=rotation)
    paper = Image.fromarray(page.image).convert("L")
    title, *text = page.lines
    rest = np.array(paper)
    for box in (title, *text):
        middle = box.quad.mean(axis=0)
        grown = middle + (box.quad - middle) * (1 + 4 / np.ptp(box.quad, axis=0).clip(min=1))
        mask = Image.new("1", paper.size)
        ImageDraw.Draw(mask).polygon([tuple(point) for point in grown], fill=1, outline=1)
        rest[np.asarray(mask)] = 255
    # The rest is the rule below the title.
    assert (rest < _INK).sum() < 0.02 * (np.asarray(paper) < _INK).sum()


def test_a_page_is_the_same_again_and_another_with_another_seed() -> None:
    options = {"noise": 8.0, "blur": 0.7, "jpeg": 60, "contrast": 0.5, "inverted": True, "rotation": 3.0, "dpi": 40}
    options["size"] = (5, 4)
    for kind in PAGE_KINDS:
        once, again, other = (render_page(kind, seed, **options) for seed in (5, 5, 6))  # type: ignore[arg-type]
        assert np.array_equal(once.image, again.image)
        assert once.text == again.text != other.text
        assert once.image.dtype == np.uint8
        assert once.image[2, 2].max() < 128  # inverted: the paper is dark


@pytest.mark.slow
def test_everything_lies_on_the_page() -> None:
    for kind in PAGE_KINDS:
        for seed in range(3):
            quads = render_page(kind, seed, dpi=50, rotation=12 * seed).relative_quads()
            assert quads.min() >= 0, (kind, seed)
            assert quads.max() <= 1, (kind, seed)


def test_lines_of_ones_own() -> None:
    page = render_text(["Hello world", "2nd line"], font_size=14)
    assert page.text == "Hello world\n2nd line"
    assert [word.text for word in page.words] == ["Hello", "world", "2nd", "line"]
    assert page.boxes().shape == (4, 4)
    assert (np.diff(page.boxes()[:2, 0]) > 0).all()
    assert render_text([]).words == ()
