"""Test the second detection, which searches ink outside all boxes, and the search for colons."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from mediatensor.ocr.models.detection._leftovers import (
    add_found_boxes,
    extend_to_colons,
    ink_left_over,
    join_tiles,
    letters_of,
    windows_around,
)
from ocr_pages import render_text, rotated
from ocr_reading import reader
from real_files import TEST_DATA

pytestmark = pytest.mark.usefixtures("features_remembered_in_module")

SENTENCES = (
    "The quiet harbour keeps its boats behind a wall of grey stone, and nobody asks why the gate is closed at night.",
    "Our delivery left the warehouse on Tuesday morning; please check all seven boxes before you sign the receipt.",
    "A narrow path leads from the old mill down to the river, where the ferry used to wait for travellers in autumn.",
)


@pytest.mark.parametrize(("angle", "is_column"), [(1.5, True), (0.0, False)])
def test_second_detection_completes_lines(angle: float, is_column: bool) -> None:
    sheet = rotated(render_text(SENTENCES[:2], dpi=100, font_size=10, margin=30), angle)
    whole = reader(shorter_side=192)([sheet.image]).render()
    blinded = copy.deepcopy(reader(shorter_side=192))
    network = blinded.det_predictor.model
    sizes: list[tuple[int, ...]] = []

    def logits(x: torch.Tensor) -> torch.Tensor:
        scores = type(network).logits(network, x)
        sizes.append(tuple(scores.shape[2:]))
        if len(sizes) == 1:  # the whole page
            if is_column:
                left, right = (round(share * scores.shape[3]) for share in (0.4, 0.65))
                scores[..., left:right] = -20
            else:
                scores[..., scores.shape[2] // 3 :, :] = -20
        return scores

    network.logits = logits
    assert blinded([sheet.image]).render() == whole
    assert whole.split() == " ".join(SENTENCES[:2]).split()
    assert len(sizes) > 1
    assert sum(height * width for height, width in sizes[1:]) <= 1.1 * sizes[0][0] * sizes[0][1]


@pytest.mark.slow
def test_the_middle_of_a_long_line_is_read() -> None:
    path = TEST_DATA / "drawn/lost_middle.png"
    if not path.exists():
        pytest.skip("there is no drawn/lost_middle.png in the folder of test data")
    text = reader(shorter_side=960)([np.array(Image.open(path).convert("RGB"))]).render()
    assert "Esto es que no espera a su finalizacion" in text.replace("  ", " ")


@pytest.mark.parametrize("kind", ["noise", "halftone", "frames", "speckle"])
def test_second_detection_adds_no_boxes_without_text(kind: str) -> None:
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


@pytest.mark.parametrize(("paper", "ink"), [(240, 200), (30, 75)])
def test_window_of_faint_letters_has_full_contrast(paper: int, ink: int) -> None:
    page = np.full((200, 400), paper, dtype=np.uint8)
    for left in range(20, 380, 14):
        page[90:106, left : left + 3] = page[90:93, left : left + 9] = ink
    none = np.zeros((0, 4, 2))
    (window,) = windows_around(letters_of(ink_left_over(page, none)), none, page)
    assert (window.dark, window.light) == (min(paper, ink), max(paper, ink))


# Widths may differ by 35 percent.
@pytest.mark.parametrize(
    ("width", "other", "is_rule"), [(11, 11, True), (20, 27, True), (20, 13, True), (20, 28, False)]
)
def test_dashed_rules_are_not_searched(width: int, other: int, is_rule: bool) -> None:
    page = np.full((200, 800), 240, dtype=np.uint8)
    for left in range(20, 750, 32):
        right = left + (other if left % 64 == 52 else width)
        page[90:95, left:right] = 120
        page[91:94, left + 1 : right : 2] = 240  # badly printed
    none = np.zeros((0, 4, 2))
    letters = letters_of(ink_left_over(page, none))
    assert len(letters) > 20
    assert (windows_around(letters, none, page) == []) is is_rule


@pytest.mark.parametrize("inverted", [False, True])
def test_letters_outside_boxes_get_a_window(inverted: bool) -> None:
    page = np.full((200, 400), 240, dtype=np.uint8)
    for left in range(20, 380, 14):
        page[90:106, left : left + 3] = page[90:93, left : left + 9] = 10
    gray = 255 - page if inverted else page
    covered = np.array([[[10, 84], [150, 84], [150, 112], [10, 112]], [[300, 84], [390, 84], [390, 112], [300, 112]]])
    letters = letters_of(ink_left_over(gray, covered.astype(float)))
    assert letters[:, 0].tolist() == [left for left in range(20, 380, 14) if 152 < left < 290]
    (window,) = windows_around(letters, covered.astype(float), gray)
    assert window.left < 155
    assert window.top < 90
    assert window.right > 295
    assert window.bottom > 106
    boxes = np.concatenate([covered, np.tile([[[0, 0.9]]], (2, 1, 1))], axis=1)
    found = np.array([[[140, 85], [310, 85], [310, 111], [140, 111], [0, 0.8]]])
    (joined,) = add_found_boxes(boxes, found.astype(float), letters)
    assert joined[:4].tolist() == [[10, 84], [390, 84], [390, 112], [10, 112]]
    everything = np.array([[[10, 84], [390, 84], [390, 112], [10, 112]]], dtype=float)
    assert len(letters_of(ink_left_over(gray, everything))) == 0


def _extend(
    box: tuple[int, int, int, int],
    *dots: tuple[int, int],
    side: int = 4,
    frames: tuple[tuple[int, int, int, int], ...] = (),
) -> np.ndarray:
    """Return the corners of a box after `extend_to_colons`, on a page with square dots and thin frames."""
    page = np.full((120, 400), 240, np.uint8)
    for left, top, right, bottom in frames:
        page[top:bottom, left:right] = 20
        page[top + 2 : bottom - 2, left + 2 : right - 2] = 240
    for left, top in dots:
        page[top : top + side, left : left + side] = 20
    left, top, right, bottom = box
    boxes = np.array([[[left, top], [right, top], [right, bottom], [left, bottom], [0, 1]]], dtype=float)
    return extend_to_colons(boxes, ink_left_over(page, boxes[:, :4]))[0, :4]


def test_box_is_extended_to_a_colon() -> None:
    behind = _extend((100, 40, 200, 70), (220, 50), (220, 62))
    assert behind[0].tolist() == [100, 40]
    assert 224 <= behind[1][0] <= 240
    before = _extend((100, 40, 200, 70), (80, 50), (80, 62))
    assert 60 <= before[0][0] <= 80
    assert before[2].tolist() == [200, 70]


@pytest.mark.parametrize("frame", [(0, 0, 400, 120), (90, 34, 260, 76), (210, 42, 234, 72)])
def test_frame_around_a_colon_is_ignored(frame: tuple[int, int, int, int]) -> None:
    dots = (220, 50), (220, 62)
    assert _extend((100, 40, 200, 70), *dots, frames=(frame,))[1][0] >= 224
    assert _extend((100, 40, 200, 70), *dots, frames=(frame, (216, 46, 260, 70)))[1][0] == 200


def test_small_dots_next_to_large_letters_are_a_colon() -> None:
    assert _extend((100, 30, 200, 91), (220, 52), (220, 72), side=3)[1][0] >= 223


@pytest.mark.parametrize(
    "dots",
    [
        [(220, 50)],  # one dot
        [(220, 50), (230, 62)],  # askew
        [(220, top) for top in range(37, 80, 7)],  # a dotted rule
        [(220, top) for top in range(38, 80, 12)],  # a dotted rule
        [(213, 50), (220, 50), (220, 62), (227, 62)],  # dirt
        [(280, 50), (280, 62)],  # far away
        [(220, 80), (220, 92)],  # on another line
    ],
)
def test_other_dots_do_not_extend_a_box(dots: list[tuple[int, int]]) -> None:
    assert _extend((100, 40, 200, 70), *dots).tolist() == [[100, 40], [200, 40], [200, 70], [100, 70]]


def test_colons_in_their_own_column_are_read() -> None:
    sheet = Image.new("RGB", (620, 308), "white")
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSansMono.ttf"), 22)
    draw = ImageDraw.Draw(sheet)
    values = {"Discount": "0.00", "Total": "12.50", "Date": "27/03/2018", "Cashier": "Mary", "Net amount": "48.30"}
    for number, (name, value) in enumerate(values.items()):
        y = 22 * (1 + 2.4 * number)
        x = 20 + draw.textlength(name, font=font) + (22 if number % 2 else 11)
        for place, text in ((20, name), (x, ":"), (x + 65, value)):
            draw.text((place, y), text, font=font, fill=0)
    lines = reader()([np.array(sheet)]).render().splitlines()
    assert [line.split() for line in lines] == [[*name.split(), ":", value] for name, value in values.items()]


def _record_sizes(predictor: object, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Return a list that collects the sizes of all later inputs of a predictor's detector."""
    network, sizes = predictor.det_predictor.model, list[tuple[int, ...]]()  # type: ignore[attr-defined]

    def logits(x: torch.Tensor) -> torch.Tensor:
        sizes.append(tuple(x.shape[2:]))
        return type(network).logits(network, x)

    monkeypatch.setattr(network, "logits", logits)
    return sizes


def test_long_strip_is_read_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    picture, text = Image.new("RGB", (2000, 30), "white"), ""
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), 18)
    for word in itertools.cycle(" ".join(SENTENCES).split()):
        if font.getlength(f"{text} {word}") > 1900:
            break
        text = f"{text} {word}".strip()
    ImageDraw.Draw(picture).text((20, 4), text, fill="black", font=font)
    predictor = reader(longer_side=800)
    sizes = _record_sizes(predictor, monkeypatch)
    read = predictor([np.array(picture.transpose(Image.Transpose.ROTATE_90))]).render().split()
    assert len([height for height, _ in sizes if height > 400]) > 1  # in tiles
    wanted = text.split()
    assert len(read) == len(wanted)
    assert sum(a != b for a, b in zip(read, wanted, strict=True)) <= 2


def test_page_that_a_tile_would_cover_is_scaled_down(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = reader(shorter_side=192, longer_side=96)
    sizes = _record_sizes(predictor, monkeypatch)
    assert predictor([np.full((142, 208, 3), 255, np.uint8)]).render() == ""
    assert sizes == [(64, 96)]


@pytest.mark.slow
def test_lines_of_a_tall_page_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{number}. {SENTENCES[number % 3][:28].strip()}" for number in range(100, 200)]
    sheet = render_text(lines, dpi=100, font_size=12, margin=20)
    predictor = reader(shorter_side=192, longer_side=480)
    sizes = _record_sizes(predictor, monkeypatch)
    assert predictor([sheet.image]).render().split() == " ".join(lines).split()
    assert len([height for height, _ in sizes if height > 400]) > 1  # in tiles


def test_page_of_regular_dots_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, columns = np.indices((1300, 1000))
    page = np.where((rows % 20 - 10) ** 2 + (columns % 20 - 10) ** 2 <= 16, 0, 255).astype(np.uint8)
    predictor = reader(shorter_side=960)
    sizes = _record_sizes(predictor, monkeypatch)
    (read,) = predictor([np.repeat(page[:, :, None], 3, axis=2)]).pages
    assert (read.render(), len(read.unread), len(sizes)) == ("", 0, 1)


def test_boxes_of_overlapping_tiles_are_joined() -> None:
    def box(x0: float, y0: float, x1: float, y1: float) -> list[list[float]]:
        return [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [0, 0.9]]

    tiles = [(0, 100), (80, 180)]  # they meet at 90
    first = np.array([box(10, 0, 100, 10), box(20, 20, 60, 30), box(92, 40, 100, 50), box(70, 60, 95, 70)])
    second = np.array([box(80, 0, 170, 10), box(80, 20, 86, 30), box(92, 40, 130, 50), box(80, 62, 95, 70)])
    found = join_tiles([first, second], tiles, 0)
    bounds = sorted((*own[:4].min(axis=0).tolist(), *own[:4].max(axis=0).tolist()) for own in found)
    assert bounds == [(10, 0, 170, 10), (20, 20, 60, 30), (70, 60, 95, 70), (92, 40, 130, 50)]


@pytest.mark.parametrize(("face", "size"), [("DejaVuSans", 24), ("DejaVuSerif", 30), ("DejaVuSansMono", 26)])
def test_blanks_to_write_on_are_no_full_stops(face: str, size: int) -> None:
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / f"fonts/ttf/{face}.ttf"), size)
    labels = ("City", "Delivery Date", "Agency", "Ship To", "Order No.", "I, the owner,")
    underlined, plain = "Pay on time.", "Order No. See Inc."
    picture = Image.new("L", (900, 620), 255)
    draw, y = ImageDraw.Draw(picture), 30
    for text in (*labels, underlined, plain):
        draw.text((60, y), text, font=font, fill=0)
        end, base = draw.textlength(text, font=font) + 60, y + font.getmetrics()[0]
        if text in labels:
            draw.line((end + 2, base, end + 330, base), fill=0, width=2)
        elif text == underlined:
            draw.line((60, base + 4, end, base + 4), fill=0, width=2)
        y += 70
    lines = reader()([np.array(picture.convert("RGB"))]).render().split("\n")
    assert [line for line in lines if line] == [*labels, underlined, plain]


@pytest.mark.parametrize(("face", "size"), [("DejaVuSans", 24), ("DejaVuSerif", 20), ("STIXGeneral", 30)])
def test_answers_on_blanks_have_no_underscores(face: str, size: int) -> None:
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / f"fonts/ttf/{face}.ttf"), size)
    answers = {"Requested by": "Marketing Group", "Total $": "1,233.08", "Delivered to": "Jane Young"}
    names = ["The file net_price_2.csv is new.", "Ask jane_young for my_list."]
    picture = Image.new("L", (900, 400), 255)
    draw, y = ImageDraw.Draw(picture), 30
    for label, answer in answers.items():
        end, base = 60 + draw.textlength(label, font=font), y + font.getmetrics()[0] + 2
        draw.text((60, y), label, font=font, fill=0)
        draw.line((end, base, end + 450, base), fill=0, width=2)
        draw.text((end + 0.6 * size, y), answer, font=font, fill=0)
        y += 70
    for text in names:
        draw.text((60, y), text, font=font, fill=0)
        y += 70
    lines = reader()([np.array(picture.convert("RGB"))]).render().split("\n")
    assert [line for line in lines if line] == [*map(" ".join, answers.items()), *names]


def test_specks_far_from_text_are_no_words() -> None:
    sentences = [sentence[:30].strip() for sentence in (*SENTENCES, *SENTENCES)]
    sheet = render_text(sentences, dpi=100, font_size=12, margin=30)
    height, width = sheet.image.shape[:2]
    picture = Image.new("RGB", (width + 400, height + 160), "white")
    picture.paste(Image.fromarray(sheet.image))
    draw = ImageDraw.Draw(picture)
    for x, y, slant in ((width + 200, 50, 2), (width + 320, 150, -2), (300, height + 80, 3)):
        draw.line((x, y, x + slant, y + 8), fill="black", width=2)
    (page,) = reader()([np.array(picture)]).pages
    assert page.render().split() == " ".join(sentences).split()
    assert {line.reason for line in page.unread if line.value} == {"low confidence"}
    (page,) = reader(min_confidence=0.0)([np.array(picture)]).pages
    assert len(page.render().split()) > len(" ".join(sentences).split())


def test_single_letters_in_columns_are_words() -> None:
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), 16)
    picture = Image.new("L", (900, 300), 255)
    draw = ImageDraw.Draw(picture)
    for row in range(5):
        draw.text((40, 10 + 22 * row), SENTENCES[0][:60], font=font, fill=0)
    for number in range(12):
        draw.text((60 + 260 * (number % 3), 130 + 40 * (number // 3)), "1iI?"[number % 4], font=font, fill=0)
    read = reader()([np.array(picture.convert("RGB"))]).render().split()
    assert [len(word) for word in read[-12:]] == [1] * 12
