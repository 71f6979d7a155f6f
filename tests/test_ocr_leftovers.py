"""No letters vanish: what the first look of the detector leaves over is looked at again."""

from __future__ import annotations

import os
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from mediatensor.ocr.models._maps import letters_left_over, windows_around, with_found
from ocr_reading import reader

SENTENCES = (
    "The quiet harbour keeps its boats behind a wall of grey stone, and nobody asks why the gate is closed at night.",
    "Our delivery left the warehouse on Tuesday morning; please check all seven boxes before you sign the receipt.",
    "A narrow path leads from the old mill down to the river, where the ferry used to wait for travellers in autumn.",
)


def _page(seed: int, size: int) -> tuple[np.ndarray, list[str]]:
    """Long lines in small, slanted, faint or narrow letters, and what they say."""
    import matplotlib

    fonts = Path(matplotlib.get_data_path()) / "fonts/ttf"
    names = ("DejaVuSans-Oblique.ttf", "DejaVuSerif-Italic.ttf", "DejaVuSans.ttf", "STIXGeneralItalic.ttf")
    page = Image.new("L", (1240, 340), 235)
    draw, texts, generator = ImageDraw.Draw(page), [], np.random.default_rng(seed)
    for row in range(16):
        font = ImageFont.truetype(str(fonts / names[row % len(names)]), size)
        text = " ".join((SENTENCES[row % 3], SENTENCES[(row + 1) % 3]))
        while font.getlength(text) > 1180:
            text = text.rpartition(" ")[0]
        draw.text((30, 10 + row * 20), text, fill=150, font=font)
        texts.append(text)
    grain = np.asarray(page, dtype=np.float32) + generator.normal(0, 8, (340, 1240))
    return np.repeat(grain.clip(0, 255).astype(np.uint8)[..., None], 3, axis=2), texts


def _lost(texts: list[str], read: str) -> int:
    """Letters in runs of at least four that no line of the result has."""
    found = read.splitlines()
    total = 0
    for text in texts:
        best = max(found, key=lambda line: SequenceMatcher(None, text, line, autojunk=False).quick_ratio(), default="")
        matches = SequenceMatcher(None, text, best, autojunk=False).get_opcodes()
        total += sum(i1 - i0 - (j1 - j0) for _, i0, i1, j0, j1 in matches if i1 - i0 - (j1 - j0) >= 4)
    return total


def test_the_letters_that_are_drawn_are_read() -> None:
    image, texts = _page(1, 11)
    assert _lost(texts, reader(shorter_side=960)([image]).render()) == 0


def test_the_middle_of_a_long_line_is_read() -> None:
    data = Path(os.environ.get("MEDIATENSOR_TEST_DATA", Path(__file__).parents[2] / "shared/data"))
    path = data / "drawn/lost_middle.png"
    if not path.exists():
        pytest.skip("there is no drawn/lost_middle.png in the folder of test data")
    text = reader(shorter_side=960)([np.array(Image.open(path).convert("RGB"))]).render()
    assert "Esto es que no espera a su finalizacion" in text.replace("  ", " ")


@pytest.mark.parametrize("kind", ["noise", "halftone", "frames", "speckle"])
def test_what_is_no_text_gives_no_more_boxes_than_the_first_look(kind: str) -> None:
    generator = np.random.default_rng(0)
    page = np.full((600, 800), 240, dtype=np.uint8)
    if kind == "noise":
        page = generator.integers(0, 256, page.shape, dtype=np.uint8)
    elif kind == "halftone":
        rows, columns = np.indices(page.shape)
        page[((rows % 8 - 4) ** 2 + (columns % 8 - 4) ** 2) < (columns / 80)] = 20
    elif kind == "frames":
        for edge in range(20, 280, 40):
            page[edge : 600 - edge, edge : edge + 2] = page[edge : edge + 2, edge : 800 - edge] = 0
            page[edge : 600 - edge, 800 - edge : 802 - edge] = page[600 - edge : 602 - edge, edge : 800 - edge] = 0
    else:
        page[generator.random(page.shape) > 0.995] = 0
    predictor = reader(shorter_side=600)
    picture = torch.from_numpy(page).expand(3, -1, -1)
    located = next(predictor.det_predictor.locate([picture], rotated=True, return_maps=True))
    first = predictor.det_predictor.model.postprocessor.boxes(located.map[:, :, 0], straight=False)
    assert len(located.boxes["words"]) <= len(first)


@pytest.mark.parametrize("inverted", [False, True])
def test_letters_that_no_box_covers_get_a_window(inverted: bool) -> None:
    page = np.full((200, 400), 240, dtype=np.uint8)
    for left in range(20, 380, 14):
        page[90:106, left : left + 3] = page[90:93, left : left + 9] = 10
    gray = 255 - page if inverted else page
    covered = np.array([[[10, 84], [150, 84], [150, 112], [10, 112]], [[300, 84], [390, 84], [390, 112], [300, 112]]])
    letters = letters_left_over(gray, covered.astype(float))
    assert letters[:, 0].tolist() == [left for left in range(20, 380, 14) if 152 < left < 290]
    (window,) = windows_around(letters, covered.astype(float), gray.shape)
    assert window.left < 155
    assert window.top < 90
    assert window.right > 295
    assert window.bottom > 106
    boxes = np.concatenate([covered, np.tile([[[0, 0.9]]], (2, 1, 1))], axis=1)
    found = np.array([[[140, 85], [310, 85], [310, 111], [140, 111], [0, 0.8]]])
    (joined,) = with_found(boxes, found.astype(float), letters)
    assert joined[:4].tolist() == [[10, 84], [390, 84], [390, 112], [10, 112]]
    everything = np.array([[[10, 84], [390, 84], [390, 112], [10, 112]]], dtype=float)
    assert len(letters_left_over(gray, everything)) == 0
