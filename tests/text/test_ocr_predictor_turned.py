"""Rotated pages and lines: words, their starts, and the orientation of the page."""

from __future__ import annotations

import random
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from mediatensor.ocr.models import crop_orientation_predictor, kie_predictor, ocr_predictor, page_orientation_predictor
from mediatensor.ocr.utils.metrics import box_iou, polygon_iou
from ocr_onnx_sessions import needs_weights
from ocr_pages import RenderedPage, render_page, render_text, rotated
from ocr_reading import LINES, geometries, logged_messages, reader, text_page, words_of
from real_files import TEST_DATA

pytestmark = [needs_weights, pytest.mark.usefixtures("features_remembered_in_module")]

TEXT = "\n".join(LINES)
#: Counter-clockwise, as the pages are drawn; docTR counts clockwise.
ANGLES = (0, 90, 180, 270, -7, 85)


def turned_page(angle: float) -> RenderedPage:
    return rotated(text_page(), angle)


def truth(page: RenderedPage) -> np.ndarray:
    """The words' quads, as high as their line, in pixels."""
    quads, position = np.stack([word.quad for word in page.words]), 0
    for line in page.lines:
        down = line.quad[3] - line.quad[0]
        direction = down / np.linalg.norm(down)
        for index in range(position, position + len(line.text.split())):
            for top, bottom in ((0, 3), (1, 2)):
                quads[index, top] += ((line.quad[0] - quads[index, top]) @ direction) * direction
                quads[index, bottom] += ((line.quad[3] - quads[index, bottom]) @ direction) * direction
        position += len(line.text.split())
    return quads


def pixels(document: Any, page: RenderedPage) -> np.ndarray:
    """Geometries in pixels of a page."""
    return geometries(words_of(document)) * page.image.shape[1::-1]


def clockwise(angle: float) -> float:
    """The same turn as docTR counts it, in (-180, 180]."""
    return 180 - (180 + angle) % 360


def turned_boxes(boxes: np.ndarray, quarters: int) -> np.ndarray:
    """Relative boxes (N, 2, 2) on a page that was turned counter-clockwise by a number of quarter turns."""
    for _ in range(quarters):
        boxes = np.stack([boxes[..., 1], 1 - boxes[..., 0]], axis=-1)
    return np.stack([boxes.min(axis=1), boxes.max(axis=1)], axis=1)


def lines_of(page: Any) -> list[str]:
    return [line.render() for block in page.blocks for line in block.lines]


@pytest.mark.parametrize(("kind", "turns"), [("form", (1, 2)), pytest.param("receipt", (2, 3), marks=pytest.mark.slow)])
def test_turned_pages_read_like_the_upright_page(kind: str, turns: tuple[int, ...]) -> None:
    image = render_page(kind, dpi=75, size=(3.5, 1.5), font_size=9).image
    turned = [np.ascontiguousarray(np.rot90(image, quarters)) for quarters in turns]
    values = [(-90, 180, 90)[quarters - 1] for quarters in turns]
    with logged_messages() as messages:
        upright, *others = reader(shorter_side=240)([image, *turned]).pages
    assert upright.orientation == {"value": None, "confidence": None}
    assert len(lines_of(upright)) > 4
    words = words_of(upright)
    characters = np.array([character.geometry for word in words for character in word.characters])
    assert messages == [
        f"page {page} is turned by {value} degrees, and is read upright" for page, value in enumerate(values, start=1)
    ]
    for quarters, value, picture, read in zip(turns, values, turned, others, strict=True):
        assert read.orientation["value"] == value
        assert 0.9 < read.orientation["confidence"] <= 1
        assert lines_of(read) == lines_of(upright)
        found = words_of(read)
        assert [word.confidence for word in found] == [word.confidence for word in words]
        assert {word.crop_orientation["value"] for word in found} == {value}
        # The page is the one that was given, and boxes, including those of characters, are at their places on it.
        assert read.dimensions == picture.shape[:2]
        np.testing.assert_array_equal(read.page, picture)
        np.testing.assert_allclose(geometries(found), turned_boxes(geometries(words), quarters), atol=1e-9)
        placed = np.array([character.geometry for word in found for character in word.characters])
        np.testing.assert_allclose(placed, turned_boxes(characters, quarters), atol=1e-9)


def test_page_turns_can_be_disabled() -> None:
    (page,) = reader(disable_page_orientation=True, disable_crop_orientation=True)([turned_page(180).image]).pages
    assert page.orientation == {"value": None, "confidence": None}
    assert not set(page.render().split()) & set(TEXT.split())


@pytest.mark.parametrize("angle", [90, 180, 270])
def test_the_turn_of_sparse_pages(angle: float) -> None:
    page = rotated(text_page("Hello world", font_size=20), angle)
    (read,) = reader()([page.image]).pages
    assert lines_of(read) == ["Hello world"]
    assert read.orientation["value"] == clockwise(angle)


def test_upside_down_line_does_not_turn_the_page() -> None:
    body, head = (
        text_page().image,
        render_text(["Closed on Sundays"], dpi=100, font_size=14, margin=5).image,
    )
    sheet = np.full((body.shape[0] + 60, body.shape[1], 3), 255, np.uint8)
    sheet[: body.shape[0]] = body
    sheet[-head.shape[0] - 10 : -10, 20 : 20 + head.shape[1]] = np.rot90(head, 2)
    for quarters in (0, 2):
        (read,) = reader()([np.ascontiguousarray(np.rot90(sheet, quarters))]).pages
        assert read.orientation["value"] == (180 if quarters else None)
        assert lines_of(read) == [*LINES, "Closed on Sundays"]
        assert [word.crop_orientation["value"] for word in words_of(read)][-1] == (0 if quarters else 180)


def test_pictures_without_text_are_not_turned() -> None:
    smooth = np.random.default_rng(0).random((12, 16, 3))
    picture = np.asarray(Image.fromarray((smooth * 255).astype(np.uint8)).resize((320, 240), Image.Resampling.BICUBIC))
    stripes = np.repeat(np.repeat(np.indices((30, 40)).sum(0) % 2 * 255, 8, 0), 8, 1).astype(np.uint8)
    for image in (picture, np.stack([stripes] * 3, axis=2), np.full((200, 300, 3), 255, np.uint8)):
        (page,) = reader()([image]).pages
        assert page.orientation == {"value": None, "confidence": None}


def test_unreadable_text_is_not_turned() -> None:
    letters = "".join(map(chr, (*range(0x430, 0x450), 0x20, *range(0x3B1, 0x3C9), 0x20, *range(0x5D0, 0x5EB))))
    (page,) = reader()([text_page(*letters.split(), font_size=16).image]).pages
    assert page.orientation["value"] is None


def test_hooks_get_boxes_of_the_original_page() -> None:
    predictor = ocr_predictor(pretrained=True, shorter_side=192)
    predictor.add_hook(lambda pages: [boxes[boxes[:, 1] > 0.5] for boxes in pages])
    (page,) = predictor([turned_page(180).image]).pages
    # The lower half contains the start of the upright page.
    assert lines_of(page)[0] == LINES[0]
    assert LINES[-1] not in lines_of(page)
    assert (geometries(words_of(page))[:, 0, 1] > 0.4).all()


@pytest.mark.parametrize("quarters", [1, 2])
def test_exports_of_turned_pages_refer_to_the_original_page(tmp_path: Path, quarters: int) -> None:
    page = turned_page(90 * quarters)
    (read,) = reader()([page.image]).pages
    expected = np.array([[*quad.min(0), *quad.max(0)] for quad in truth(page)])
    _, hocr = read.export_as_xml()
    found = [word for word in hocr.getroot().iter() if word.get("class") == "ocrx_word"]
    assert " ".join(word.text for word in found) == " ".join(LINES)
    boxes = np.array([word.get("title").split(";")[0].split()[1:] for word in found], dtype=float)
    assert box_iou(expected, boxes).diagonal().min() > 0.5
    angles = {
        line.get("title").split("textangle ")[1].split(";")[0]
        for line in hocr.getroot().iter()
        if line.get("class") == "ocr_line"
    }
    assert angles == {str((90, 180, -90)[quarters - 1])}
    _, alto = read.export_as_alto()
    strings = [one for one in alto.getroot().iter() if one.tag.endswith("String")]
    assert " ".join(one.get("CONTENT") for one in strings) == " ".join(LINES)
    assert np.array([one.get("HPOS") for one in strings], dtype=float) == pytest.approx(boxes[:, 0])
    assert read.render().split() == TEXT.split()
    path = tmp_path / "turned.pdf"
    read.save_pdf(path)
    program = shutil.which("pdftotext")
    if program is not None:
        text = subprocess.run([program, "-raw", path, "-"], capture_output=True, text=True, check=True).stdout
        assert text.split() == TEXT.split()
    # Rendered again, the words are at their places on the page: a page that is turned back reads as the upright one.
    drawn = np.ascontiguousarray(np.rot90(read.synthesize(), -quarters))
    assert reader()([drawn]).render().split() == TEXT.split()


@cache
def read_quads(angle: float) -> Any:
    """The words of a turned page, with quads."""
    return reader(assume_straight_pages=False)([turned_page(angle).image])


@pytest.mark.parametrize("angle", ANGLES)
def test_quads_of_turned_words_start_where_the_text_starts(angle: float) -> None:
    page, document = turned_page(angle), read_quads(angle)
    assert document.render() == TEXT
    quads, expected = pixels(document, page), truth(page)
    assert polygon_iou(expected, quads).diagonal().min() > 0.5
    heights = np.linalg.norm(expected[:, 3] - expected[:, 0], axis=1)
    # Each corner is near its own, which no other order of corners can bring about.
    distances = np.linalg.norm(quads - expected, axis=2)
    assert (distances < 0.6 * heights[:, None]).all()
    for word in words_of(document):
        first, last = np.array(word.characters[0].geometry), np.array(word.characters[-1].geometry)
        np.testing.assert_allclose(first[[0, 3]], np.array(word.geometry)[[0, 3]], atol=1e-6)
        np.testing.assert_allclose(last[[1, 2]], np.array(word.geometry)[[1, 2]], atol=1e-6)
    turn = min((0, 90, 180, -90), key=lambda value: abs((value - clockwise(angle) + 180) % 360 - 180))
    assert {word.crop_orientation["value"] for word in words_of(document)} == {turn}


@pytest.mark.parametrize("angle", ANGLES)
def test_the_turn_of_a_page_is_reported_clockwise(angle: float) -> None:
    predictor = reader(detect_orientation=True)
    (page,) = predictor([turned_page(angle).image]).pages
    assert isinstance(page.orientation["value"], int)
    difference = (page.orientation["value"] - clockwise(angle) + 180) % 360 - 180
    assert abs(difference) <= 1
    assert -180 < page.orientation["value"] <= 180
    assert 0.5 < page.orientation["confidence"] <= 1


@cache
def boxes_of_upright(straight: bool) -> np.ndarray:
    page = text_page().image
    return geometries(words_of(reader(assume_straight_pages=straight, shorter_side=320)([page])))


# Each angle once with either kind of boxes, here or in the next test.
@pytest.mark.parametrize(("angle", "straight"), [*zip(ANGLES, [True, False] * 3, strict=True)])
def test_straightened_pages_are_upright(angle: float, straight: bool) -> None:
    page = turned_page(angle)
    # At this size the skew of a page on its head is estimated as a tenth of a degree: this should not resample it.
    predictor = reader(assume_straight_pages=straight, straighten_pages=True, shorter_side=320)
    document = predictor([page.image])
    assert document.render() == TEXT
    (result,) = document.pages
    image = np.asarray(result.page)
    assert image.shape[:2] == result.dimensions
    # Boxes refer to the shown page.
    if angle % 90 == 0:
        np.testing.assert_array_equal(image, text_page().image)
        again = boxes_of_upright(straight)
    else:
        again = geometries(words_of(reader(assume_straight_pages=straight, shorter_side=320)([image])))
    np.testing.assert_allclose(geometries(words_of(document)), again, atol=0.01)


@pytest.mark.parametrize(("angle", "straight"), [*zip(ANGLES, [False, True] * 3, strict=True)])
def test_boxes_refer_to_the_original_page(angle: float, straight: bool) -> None:
    page = turned_page(angle)
    predictor = reader(assume_straight_pages=straight, straighten_pages=True, preserve_original_coords=True)
    document = predictor([page.image])
    (result,) = document.pages
    assert [line.render() for block in result.blocks for line in block.lines] == list(LINES)
    np.testing.assert_array_equal(result.page, page.image)
    assert result.dimensions == page.image.shape[:2]
    found, expected = pixels(document, page), truth(page)
    if straight:
        boxes = np.concatenate([expected.min(1), expected.max(1)], 1)
        assert box_iou(boxes, found.reshape(-1, 4)).diagonal().min() > 0.5
    else:
        assert polygon_iou(expected, found).diagonal().min() > 0.5
        assert (np.linalg.norm(found - expected, axis=2) < 12).all()


@pytest.mark.parametrize("angle", [90, -7])
def test_straight_boxes_surround_rotated_text(angle: float) -> None:
    page = turned_page(angle)
    quads = pixels(read_quads(angle), page)
    document = reader(assume_straight_pages=False, export_as_straight_boxes=True)([page.image])
    assert [line.render() for block in document.pages[0].blocks for line in block.lines] == list(LINES)
    boxes = pixels(document, page)
    np.testing.assert_allclose(boxes, np.stack([quads.min(1), quads.max(1)], 1), atol=1e-6)
    line = document.pages[0].blocks[0].lines[0]
    assert np.array(line.geometry).shape == (2, 2)


@pytest.mark.parametrize("angle", [90, 180])
def test_key_information_is_read_on_turned_pages(angle: float) -> None:
    predictor = kie_predictor(pretrained=True, assume_straight_pages=False, detect_orientation=True, shorter_side=192)
    (page,) = predictor([turned_page(angle).image]).pages
    assert {word.value for word in page.predictions["words"]} == set(TEXT.split())
    assert page.orientation["value"] == clockwise(angle)


def test_key_information_of_turned_pages_has_straight_boxes() -> None:
    predictor = kie_predictor(pretrained=True, shorter_side=192)
    # The words of shorter lines would be read in columns.
    lines = ("Invoice 2041 of the firm", "Total due: 1,250.00 EUR", "Thank you very much!")
    for angle in (0, 270):
        (page,) = predictor([rotated(text_page(*lines), angle).image]).pages
        assert page.render(prediction_break=" ").replace("words: ", "") == " ".join(lines)


def test_pages_may_be_turned_differently() -> None:
    pages = [turned_page(angle).image for angle in (0, 270, 180)]
    document = reader(assume_straight_pages=False, detect_orientation=True)(pages)
    assert [page.orientation["value"] for page in document.pages] == [0, 90, 180]
    assert [page.render() for page in document.pages] == [TEXT] * 3


def test_disabled_turns_leave_everything_upright() -> None:
    options = {"assume_straight_pages": False, "disable_page_orientation": True, "disable_crop_orientation": True}
    upright = ocr_predictor(pretrained=True, **options, shorter_side=192)
    assert upright([turned_page(0).image]).render() == TEXT
    assert upright([turned_page(-7).image]).render() == TEXT
    # Upside-down pages stay upside down.
    assert not set(upright([turned_page(180).image]).render().split()) & set(TEXT.split())


def test_the_users_orientation_predictor_turns_the_page() -> None:
    predictor = ocr_predictor(pretrained=True, assume_straight_pages=False, detect_orientation=True, shorter_side=192)
    asked = []

    def own(pages: list[Any]) -> list[list[Any]]:
        asked.append(len(pages))
        return [[2], [180], [0.75]]

    predictor.page_orientation_predictor = own
    (page,) = predictor([turned_page(180).image]).pages
    assert asked == [1]
    assert page.orientation == {"value": 180, "confidence": 0.75}
    assert page.render() == TEXT


def sheet_with_margin_note(quarter: int) -> np.ndarray:
    sheet = np.full((400, 500, 3), 255, np.uint8)
    body, note = text_page().image, render_text(["confidential copy"], dpi=100, font_size=14, margin=5).image
    sheet[100 : 100 + body.shape[0], 80 : 80 + body.shape[1]] = body
    note = np.rot90(note, quarter)
    sheet[100 : 100 + note.shape[0], 430 : 430 + note.shape[1]] = note
    return sheet


@pytest.mark.parametrize("quarter", [1, 3])
def test_text_along_the_margin_of_an_upright_page_is_read(quarter: int) -> None:
    (page,) = reader()([sheet_with_margin_note(quarter)]).pages
    assert sorted(lines_of(page)) == sorted([*LINES, "confidential copy"])
    assert page.orientation["value"] is None


def test_turns_of_lines_can_be_disabled() -> None:
    predictor = reader(disable_page_orientation=True, disable_crop_orientation=True)
    (page,) = predictor([sheet_with_margin_note(1)]).pages
    assert "confidential" not in page.render()
    assert {word.crop_orientation["value"] for word in words_of(page)} == {0}
    assert set(LINES) <= set(lines_of(page))


def test_a_single_character_is_not_a_line_on_its_side() -> None:
    assert reader()([text_page("1", "B", "7", font_size=20).image]).render().split() == ["1", "B", "7"]


def test_page_orientation_predictor_finds_quarter_turns() -> None:
    predictor = page_orientation_predictor(pretrained=True)
    predictor.detector.pre_processor.shorter_side = 192
    classes, degrees, confidences = predictor([turned_page(angle).image for angle in (0, 90, 180, 270, 0)])
    assert degrees == [0, -90, 180, 90, 0]
    assert classes == [0, 1, 2, 3, 0]
    assert all(0.5 < one <= 1 and round(one, 2) == one for one in confidences)
    assert predictor([]) == [[], [], []]


@pytest.mark.parametrize("angle", [0, 90, 180, 270])
def test_crop_orientation_predictor(angle: int) -> None:
    page = text_page("a line of text")
    (left, top), (right, bottom) = (page.lines[0].quad[[0, 2]] + [[-4, -4], [4, 4]]).astype(int)
    crop = np.ascontiguousarray(np.rot90(page.image[top:bottom, left:right], angle // 90))
    classes, degrees, confidences = crop_orientation_predictor(pretrained=True)([crop, crop])
    assert degrees == [clockwise(angle)] * 2
    assert [[0, -90, 180, 90][one] for one in classes] == degrees
    assert all(0.5 < one <= 1 for one in confidences)


@pytest.mark.parametrize("make", [crop_orientation_predictor, page_orientation_predictor])
def test_orientation_can_be_disabled(make: Any) -> None:
    predictor = make(pretrained=False, disabled=True)
    assert predictor([turned_page(180).image] * 2) == [[0, 0], [0, 0], [1.0, 1.0]]


def test_doctrs_orientation_networks_run() -> None:
    for make, arch in (
        (crop_orientation_predictor, "mobilenet_v3_small_crop_orientation"),
        (page_orientation_predictor, "mobilenet_v3_small_page_orientation"),
    ):
        predictor = make(arch, pretrained=False, batch_size=2)
        classes, degrees, confidences = predictor([text_page().image] * 3)
        assert len(classes) == 3
        assert [[0, -90, 180, 90][one] for one in classes] == degrees
        assert all(0.25 <= one <= 1 for one in confidences)


@pytest.mark.slow
def test_turns_of_real_pages() -> None:
    known = TEST_DATA / "ocr" / "known.txt"
    names = known.read_text() if known.exists() else ""
    paths = [path for path in sorted((TEST_DATA / "ocr" / "funsd" / "images").glob("*.png")) if path.stem in names][::8]
    if not paths:
        pytest.skip(f"needs real pages in {TEST_DATA / 'ocr'}")
    predictor = page_orientation_predictor(pretrained=True)
    right = 0
    for number, path in enumerate(paths):
        image = np.array(Image.open(path).convert("RGB"))
        turns = (number % 4, (number + 2) % 4)
        turned = [np.ascontiguousarray(np.rot90(image, quarters)) for quarters in turns]
        expected = [(0, -90, 180, 90)[quarters] for quarters in turns]
        right += sum(a == b for a, b in zip(predictor(turned)[1], expected, strict=True))
    # All turns of all pages when this was written; a page of stamps may be wrong one day.
    assert right >= 2 * len(paths) - 1


def draw_number_along_a_margin(degrees: int, number: str, space: int) -> np.ndarray:
    image, strip = Image.new("RGB", (700, 900), "white"), Image.new("RGB", (8 + 8 * (16 + space), 40), "white")
    font = ImageFont.load_default(26)
    for row in range(8):
        ImageDraw.Draw(image).text((60, 80 + 70 * row), "Some words of an ordinary letter", "black", font)
    for place, letter in enumerate(number):
        ImageDraw.Draw(strip).text((4 + place * (16 + space), 4), letter, "black", font)
    image.paste(strip.rotate(-degrees, expand=True), (640, 300))
    return np.asarray(image)


@pytest.mark.parametrize(
    ("degrees", "number", "space"), [(90, "20746569", 4), (270, "20746569", 8), (90, "82254638", 6)]
)
def test_spaced_numbers_along_a_margin_are_read(degrees: int, number: str, space: int) -> None:
    """The detector breaks such lines into boxes of single letters, some of which look like upright ones."""
    image = draw_number_along_a_margin(degrees, number, space)
    (stamp,) = [word for word in words_of(reader()([image])) if word.value == number]
    assert stamp.crop_orientation["value"] == {90: 90, 270: -90}[degrees]
    (left, top), (right, bottom) = np.array(stamp.geometry) * (700, 900)
    assert 635 < left < right < 685
    assert 295 < top < bottom < 300 + 8 + 8 * (16 + space) + 5


@pytest.mark.slow
def test_most_numbers_along_a_margin_are_read() -> None:
    """Some numbers are also a column of upright digits."""
    rng = random.Random(5)
    numbers = ["".join(rng.choices("0123456789", k=8)) for _ in range(8)]
    pages = [(number, draw_number_along_a_margin(turn, number, 6)) for number in numbers for turn in (90, 270)]
    found = [number in {word.value for word in words_of(reader()([page]))} for number, page in pages]
    assert sum(found) >= 10, found


@pytest.mark.slow
def test_a_column_of_upright_digits_is_not_a_line_along_the_margin() -> None:
    image, font = Image.new("RGB", (700, 900), "white"), ImageFont.load_default(26)
    for row in range(8):
        ImageDraw.Draw(image).text((60, 80 + 70 * row), "Some words of an ordinary letter", "black", font)
        ImageDraw.Draw(image).text((640, 300 + 28 * row), str(row + 2), "black", font)
    words = words_of(reader()([np.asarray(image)]))
    assert not any(word.crop_orientation["value"] for word in words)
    assert {str(digit) for digit in range(2, 10)} <= {word.value for word in words}
