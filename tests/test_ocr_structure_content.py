"""What is on a picture of a page, next to what was drawn on it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.structure import PageContent, content_of_picture

SIZE = (1000, 1300)
XS, YS = (100, 300, 420, 800), (200, 240, 290, 330, 420)


def content_of(image: Image.Image | NDArray[np.uint8], words: NDArray[np.float64] | None = None) -> PageContent:
    """The content of a picture with these words; their height says how large things are."""
    boxes = np.array([(100.0, 60, 180, 80)]) if words is None else words
    count = len(boxes)
    return content_of_picture(np.asarray(image), boxes, ["word"] * count, range(count), [1.0] * count)


def grid(color: tuple[int, int, int], thickness: int, paper: tuple[int, int, int] = (255, 255, 255)) -> Image.Image:
    image = Image.new("RGB", SIZE, paper)
    pen = ImageDraw.Draw(image)
    for x in XS:
        pen.rectangle((x, YS[0], x + thickness - 1, YS[-1] + thickness - 1), fill=color)
    for y in YS:
        pen.rectangle((XS[0], y, XS[-1] + thickness - 1, y + thickness - 1), fill=color)
    return image


@pytest.mark.parametrize("thickness", [1, 2, 3, 6])
@pytest.mark.parametrize(
    ("color", "paper"),
    [((0, 0, 0), (255, 255, 255)), ((200, 200, 200), (255, 255, 255)), ((200, 220, 255), (255, 255, 250)),
     ((220, 60, 60), (255, 255, 255)), ((230, 230, 230), (20, 30, 60))],
)  # fmt: skip
def test_a_grid_of_rules(thickness: int, color: tuple[int, int, int], paper: tuple[int, int, int]) -> None:
    content = content_of(grid(color, thickness, paper))
    across = np.array([(XS[0], y, XS[-1] + thickness, y + thickness) for y in YS])
    down = np.array([(x, YS[0], x + thickness, YS[-1] + thickness) for x in XS])
    found = content.horizontal_rules[content.horizontal_rules[:, 1].argsort()]
    assert found.shape == across.shape
    # A rule may end where it meets others.
    assert (np.abs(found - across) <= [thickness + 2, 1, thickness + 2, 1]).all()
    found = content.vertical_rules[content.vertical_rules[:, 0].argsort()]
    assert found.shape == down.shape
    assert (np.abs(found - down) <= [1, thickness + 2, 1, thickness + 2]).all()
    assert len(content.pictures) == 0


@pytest.mark.parametrize("image", [np.zeros((4, 5), np.float32), np.zeros((4, 5, 4), np.uint8)])
def test_other_kinds_of_pictures_are_refused(image: NDArray[np.uint8]) -> None:
    with pytest.raises(InvalidArgumentError, match="uint8 of shape"):
        content_of_picture(image, [], [], [], [])


def test_a_word_without_a_text_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="2 boxes, 1 texts"):
        content_of_picture(np.zeros((40, 50), np.uint8), np.zeros((2, 4)), ["a"], [0, 0], [1.0, 1.0])
