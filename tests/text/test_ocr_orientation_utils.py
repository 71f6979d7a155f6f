"""What docTR keeps in ``models._utils``: orientation of a map, language, rectified crops, masks, inverted data."""

from __future__ import annotations

import numpy as np
import pytest

from mediatensor.errors import InvalidArgumentError

# Private: docTR has these helpers in a module of this private name, and its users import them from there.
from mediatensor.ocr.models._utils import (
    estimate_orientation,
    get_language,
    invert_data_structure,
    mask_boxes,
    rectify_crops,
    rectify_loc_preds,
)
from ocr_layout_cases import MAP_CASES, turned_map
from ocr_records import read_record

RECORDED = read_record("layout")


@pytest.mark.parametrize("name", MAP_CASES)
def test_orientation_is_that_of_doctr(name: str) -> None:
    angle, turn = MAP_CASES[name]
    assert estimate_orientation(turned_map(angle), turn) == RECORDED["angles"][name]


@pytest.mark.parametrize("angle", [-25, 0, 12])
def test_orientation_of_an_image_is_taken_from_what_is_dark(angle: int) -> None:
    map_ = turned_map(angle)
    image = np.where(map_ > 0, (40, 20, 60), (230, 240, 220)).astype(np.uint8)
    assert abs(estimate_orientation(image) - angle) <= 1


def test_orientation_of_a_page_on_its_side_need_not_be_square() -> None:
    wide = np.zeros((300, 500, 1), np.uint8)
    for column in range(8):
        wide[20:280, 100 + 40 * column : 112 + 40 * column] = 255
    assert estimate_orientation(wide, (90, 0.9)) == 90
    assert estimate_orientation(wide, (-90, 0.9)) == -90


def test_vertical_bars_of_a_page_that_nothing_is_known_of_are_not_its_text() -> None:
    assert estimate_orientation(np.rot90(turned_map(0)).copy()) == 0


def test_empty_pages_have_no_orientation() -> None:
    assert estimate_orientation(np.zeros((50, 50, 1), np.uint8)) == 0
    assert estimate_orientation(np.zeros((50, 50, 3), np.uint8)) == 0
    assert estimate_orientation(np.full((50, 50, 1), 255, np.uint8), (180, 0.5)) == 180
    assert estimate_orientation(np.full((1, 1, 1), 255, np.uint8)) == 0
    with pytest.raises(InvalidArgumentError, match=r"\(50, 50\)"):
        estimate_orientation(np.zeros((50, 50), np.uint8))
    with pytest.raises(InvalidArgumentError, match="multiple of 90"):
        estimate_orientation(np.zeros((50, 50, 1), np.uint8), (45, 0.9))


def test_crops_and_quads_are_turned_together() -> None:
    crop = np.arange(6).reshape(2, 3)
    quad = np.array([[0, 0], [3, 0], [3, 2], [0, 2]])
    for turn in range(4):
        seen = np.rot90(crop, turn)
        assert np.array_equal(rectify_crops([seen], [turn])[0], crop)
        # The corner where the upright crop begins: its value is found there in the picture as it lay.
        (rolled,) = rectify_loc_preds(np.array([[[0, 0], [1, 0], [1, 1], [0, 1]]]), [turn])
        first_x, first_y = rolled[0]
        assert seen[-first_y, -first_x] == crop[0, 0]
    assert rectify_loc_preds(quad[None], [0])[0].tolist() == quad.tolist()
    assert rectify_crops([], []) == []
    assert rectify_loc_preds(np.zeros((0, 4, 2)), []) is None
    with pytest.raises(InvalidArgumentError, match="1 orientations were given for 2 quads"):
        rectify_loc_preds(np.zeros((2, 4, 2)), [0])


def test_language_is_told_and_always_the_same() -> None:
    pytest.importorskip("langdetect", reason="needs langdetect")
    assert get_language("The quick brown fox jumps over the lazy dog")[0] == "en"
    assert get_language("Le chat est assis sur le tapis de la maison")[0] == "fr"
    assert get_language("12.50 %") == ("unknown", 0.0)
    assert get_language("") == ("unknown", 0.0)
    # Short and between languages: without a seed, answers change from call to call.
    assert len({get_language("die in hotel") for _ in range(20)}) == 1


def test_the_seed_of_other_users_of_langdetect_is_left_alone() -> None:
    detector_factory = pytest.importorskip("langdetect.detector_factory", reason="needs langdetect")
    before = detector_factory.DetectorFactory.seed
    get_language("some words of a text")
    assert detector_factory.DetectorFactory.seed is before


def test_masks_cover_boxes_and_quads() -> None:
    image = np.zeros((10, 20, 3), np.uint8)
    masked = mask_boxes(image, np.array([[0.1, 0.2, 0.5, 0.6]]), fill_value=7)
    expected = image.copy()
    expected[2:7, 2:11] = 7  # both borders included
    assert np.array_equal(masked, expected)
    assert not image.any()
    diamond = mask_boxes(image[..., 0], np.array([[[0.5, 0.0], [1.0, 0.5], [0.5, 1.0], [0.0, 0.5]]]))
    assert diamond[5, 10] == 255
    assert diamond[0, 0] == diamond[9, 19] == 0
    assert mask_boxes(image, np.zeros((0, 4))) is image
    with pytest.raises(InvalidArgumentError, match=r"\(1, 3\)"):
        mask_boxes(image, np.zeros((1, 3)))


def test_invert_data_structure_restores_its_input() -> None:
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    columns = {"a": [1, 2], "b": ["x", "y"]}
    assert invert_data_structure(rows) == columns
    assert invert_data_structure(columns) == rows
    assert invert_data_structure([]) == {}
    for bad in ({"a": [1], "b": []}, [{"a": 1}, {"b": 1}], "text"):
        with pytest.raises(InvalidArgumentError):
            invert_data_structure(bad)  # type: ignore[arg-type]
