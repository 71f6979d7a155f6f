"""The drawn pages that other tests read: the truth about them is where the ink is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from ocr_pages import RenderedPage, TextBox, render_page

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
