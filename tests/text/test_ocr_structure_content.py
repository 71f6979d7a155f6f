"""Rules, pictures and bold words found in the image of a page, compared with the drawn ones."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFont

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.structure import PageContent, content_of_picture, find_structure, find_tables
from mediatensor.ocr.utils.metrics import box_iou
from ocr_field_pages import content_of_words

SIZE = (1000, 1300)
XS, YS = (100, 300, 420, 800), (200, 240, 290, 330, 420)


def content_of(image: Image.Image | NDArray[np.uint8], words: NDArray[np.float64] | None = None) -> PageContent:
    """The content of an image with these words. The word height is the unit of all lengths."""
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
def test_grid_of_rules_is_found(thickness: int, color: tuple[int, int, int], paper: tuple[int, int, int]) -> None:
    content = content_of(grid(color, thickness, paper))
    across = np.array([(XS[0], y, XS[-1] + thickness, y + thickness) for y in YS])
    down = np.array([(x, YS[0], x + thickness, YS[-1] + thickness) for x in XS])
    found = content.horizontal_rules[content.horizontal_rules[:, 1].argsort()]
    assert found.shape == across.shape
    # A rule may end where it meets another one.
    assert (np.abs(found - across) <= [thickness + 2, 1, thickness + 2, 1]).all()
    found = content.vertical_rules[content.vertical_rules[:, 0].argsort()]
    assert found.shape == down.shape
    assert (np.abs(found - down) <= [1, thickness + 2, 1, thickness + 2]).all()
    assert len(content.pictures) == 0


@pytest.mark.parametrize("image", [np.zeros((4, 5), np.float32), np.zeros((4, 5, 4), np.uint8)])
def test_content_of_picture_rejects_other_arrays(image: NDArray[np.uint8]) -> None:
    with pytest.raises(InvalidArgumentError, match="uint8 of shape"):
        content_of_picture(image, [], [], [], [])


def test_content_of_picture_rejects_uneven_numbers_of_words() -> None:
    with pytest.raises(InvalidArgumentError, match="2 boxes, 1 texts"):
        content_of_picture(np.zeros((40, 50), np.uint8), np.zeros((2, 4)), ["a"], [0, 0], [1.0, 1.0])


def page() -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", SIZE, (255, 255, 255))
    return image, ImageDraw.Draw(image)


def heights_of(content: PageContent) -> list[float]:
    rules = content.horizontal_rules
    return sorted(((rules[:, 1] + rules[:, 3]) / 2).round().tolist())


@pytest.mark.parametrize(("dash", "gap"), [(12, 6), (4, 4), (2, 3), (20, 10)])
def test_dashes_and_dots_make_one_rule(dash: int, gap: int) -> None:
    image, pen = page()
    for x in range(100, 800, dash + gap):
        pen.rectangle((x, 400, x + dash - 1, 401), fill=(0, 0, 0))
    (rule,) = content_of(image).horizontal_rules
    assert np.abs(rule - (100, 400, 800, 402)).max() <= dash + gap


def test_edges_of_bands_and_double_lines_are_rules() -> None:
    image, pen = page()
    pen.rectangle((100, 300, 899, 339), fill=(225, 230, 240))
    pen.rectangle((100, 380, 899, 419), fill=(225, 230, 240))
    pen.rectangle((100, 600, 899, 601), fill=(0, 0, 0))
    pen.rectangle((100, 604, 899, 605), fill=(0, 0, 0))
    assert heights_of(content_of(image)) == [300, 340, 380, 420, 603]


@pytest.mark.parametrize("degrees", [-1.0, 0.4, 1.0])
def test_skewed_page_has_the_same_rules(degrees: float) -> None:
    turned = grid((0, 0, 0), 2).rotate(degrees, Image.Resampling.BICUBIC, fillcolor=(255, 255, 255))
    content = content_of(turned)
    assert len(content.horizontal_rules) == len(YS)
    assert len(content.vertical_rules) == len(XS)
    rise = np.tan(np.radians(abs(degrees))) * (XS[-1] - XS[0])
    found = content.horizontal_rules
    assert np.abs(found[:, 3] - found[:, 1] - rise).max() <= 5


def text_page(words: list[tuple[int, int, str, bool]]) -> tuple[Image.Image, NDArray[np.float64]]:
    """A page with words in DejaVu Sans, bold or not, and their boxes."""
    image, pen = page()
    folder = pytest.importorskip("matplotlib", reason="needs the fonts of matplotlib").get_data_path()
    fonts = [ImageFont.truetype(f"{folder}/fonts/ttf/DejaVuSans{name}.ttf", 20) for name in ("", "-Bold")]
    boxes = []
    for x, y, text, is_bold in words:
        pen.text((x, y), text, fill=(0, 0, 0), font=fonts[is_bold])
        boxes.append(pen.textbbox((x, y), text, font=fonts[is_bold]))
    return image, np.array(boxes, np.float64)


def test_heavy_type_is_found_and_letters_are_not_rules() -> None:
    texts = ["Hamburg", "little", "quick", "ILLUMINATE", "1974", "minimum", "dwelling"]
    words = [
        (100 + 150 * column, 100 + 40 * row, texts[(row + column) % 7], row % 5 == 0)
        for row in range(15)
        for column in range(5)
    ]
    image, boxes = text_page(words)
    ids = [word[1] for word in words]
    content = content_of_picture(np.asarray(image), boxes, [word[2] for word in words], ids, [1.0] * len(words))
    assert np.isnan(content.font_sizes).all()
    assert np.mean(content.is_bold == np.array([word[3] for word in words])) >= 0.95
    assert len(content.horizontal_rules) + len(content.vertical_rules) + len(content.pictures) == 0


def test_photographs_and_charts_are_pictures() -> None:
    image, pen = page()
    noise = np.random.default_rng(0).integers(60, 200, (6, 8, 3), np.uint8)
    image.paste(Image.fromarray(noise).resize((300, 220), Image.Resampling.BICUBIC), (100, 100))
    pen.rectangle((500, 100, 899, 400), outline=(0, 0, 0))
    for number in range(6):
        pen.rectangle((540 + 55 * number, 370 - 40 * (number % 4 + 1), 575 + 55 * number, 370), fill=(90, 120, 200))
    content = content_of(image)
    assert len(content.pictures) == 2
    places = content.pictures[content.pictures[:, 0].argsort()]
    drawn = np.array([(100.0, 100, 400, 320), (500, 100, 900, 401)])
    assert (box_iou(places, drawn).diagonal() > 0.9).all()
    assert len(content.horizontal_rules) + len(content.vertical_rules) == 0


def test_table_of_filled_cells_is_not_a_picture() -> None:
    image, boxes = text_page([(120 + 200 * (n % 3), 208 + 40 * (n // 3), "words", False) for n in range(12)])
    filled = Image.new("RGB", SIZE, (255, 255, 255))
    pen = ImageDraw.Draw(filled)
    for row in range(4):
        for column in range(3):
            place = (100 + 200 * column, 200 + 40 * row, 298 + 200 * column, 238 + 40 * row)
            pen.rectangle(place, fill=(200, 220, 240) if row % 2 else (230, 235, 240))
    content = content_of(ImageChops.darker(image, filled), boxes)
    assert len(content.pictures) == 0
    assert len(content.horizontal_rules) == 5
    assert len(content.vertical_rules) == 4


@pytest.mark.parametrize(("grey", "is_ruled"), [(243, True), (243, False), (244, False), (250, True)])
def test_a_ground_of_any_light_grey_is_not_a_picture(grey: int, is_ruled: bool) -> None:
    image, boxes = text_page([(145 + 200 * (n % 3), 208 + 40 * (n // 3), "words", False) for n in range(18)])
    ground = Image.new("RGB", SIZE, (255, 255, 255))
    pen = ImageDraw.Draw(ground)
    pen.rectangle((100, 200, 700, 440), fill=(grey, grey, grey))
    for place in range(7 if is_ruled else 0):
        pen.line((100, 200 + 40 * place, 700, 200 + 40 * place), (0, 0, 0), 2)
        pen.line((100 + 200 * min(place, 3), 200, 100 + 200 * min(place, 3), 440), (0, 0, 0), 2)
    content = content_of(ImageChops.darker(image, ground), boxes)
    assert len(content.pictures) == 0
    assert not is_ruled or [(table.num_rows, table.num_cols) for table in find_tables(content)] == [(6, 3)]


@pytest.mark.parametrize("reduction", [1, 2])
def test_large_pictures_have_the_rules_of_small_ones(reduction: int) -> None:
    image = grid((0, 0, 0), 3)
    scale = 2 * reduction
    large = image.resize((SIZE[0] * scale, SIZE[1] * scale), Image.Resampling.NEAREST)
    content = content_of(large, np.array([(100.0, 60, 180, 80)]) * scale)
    expected = [scale * (y + 1.5) for y in YS]
    assert np.abs(np.array(heights_of(content)) - expected).max() <= scale
    assert len(content.vertical_rules) == len(XS)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((0, 0, 3), np.uint8), np.zeros((1, 1, 3), np.uint8), np.full((1, 4000), 255, np.uint8),
        np.zeros((300, 200, 3), np.uint8), np.full((300, 200), 255, np.uint8), np.eye(40, dtype=np.uint8) * 255,
        np.random.default_rng(0).integers(0, 256, (400, 300, 3), np.uint8),
    ],
    ids=["nothing", "pixel", "line", "black", "white", "diagonal", "noise"],
)  # fmt: skip
@pytest.mark.parametrize("words", [np.zeros((0, 4)), np.array([(-5.0, -5, 900, 900), (3, 3, 3, 3), (9, 9, 4, 4)])])
def test_odd_images_have_a_content(image: NDArray[np.uint8], words: NDArray[np.float64]) -> None:
    content = content_of(image, words)
    assert content.boxes.shape == words.shape
    size = [image.shape[1], image.shape[0]] * 2
    for boxes in (content.horizontal_rules, content.vertical_rules, content.pictures):
        assert boxes.shape == (len(boxes), 4)
        assert (boxes >= 0).all()
        assert (boxes <= size).all()


def test_time_is_proportional_to_words() -> None:
    image, _ = page()
    seconds = []
    for rows in (25, 250):
        x, y = np.meshgrid(np.linspace(10, 900, 80), np.linspace(10, 1200, rows))
        boxes = np.stack([x.ravel(), y.ravel(), x.ravel() + 9, y.ravel() + 4], axis=1)
        content_of(image, boxes)
        started = time.process_time()
        assert len(content_of(image, boxes).is_bold) == 80 * rows
        seconds.append(time.process_time() - started)
    # There are ten times as many words. The factor 3 allows for a busy machine.
    assert seconds[1] < 30 * seconds[0]


def test_words_of_hostile_files_are_clipped_to_the_page() -> None:
    """Boxes are flat, far outside, reversed or not finite, and a text is empty: each word is still in one region."""
    boxes = np.array(
        [[50, 50 + 14 * row, 290, 50 + 14 * row] for row in range(5)]
        + [[1e9, 1e9, 1e9, 1e9], [np.nan] * 4, [200, 300, 100, 280], [-50, -20, 20, 10]]
    )
    count = len(boxes)
    content = content_of_words(600.0, 800.0, boxes, ["word"] * (count - 1) + [""], range(count))
    assert (content.boxes[:, :2] >= 0).all()
    assert (content.boxes[:, 2:] > content.boxes[:, :2]).all()
    found = find_structure(content, fields=True)
    words = sorted(word for region in found.regions for word in region.words)
    assert words == list(range(count))
