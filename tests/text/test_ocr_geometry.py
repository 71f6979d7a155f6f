"""Boxes, rotations and crops, against what docTR and OpenCV answer, and against formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.utils.geometry import (
    bbox_to_polygon,
    compute_expanded_shape,
    convert_to_relative_coords,
    detach_scores,
    estimate_page_angle,
    extract_crops,
    extract_rcrops,
    min_area_rect,
    order_points,
    polygon_to_bbox,
    remap_boxes,
    remove_image_padding,
    resolve_enclosing_bbox,
    resolve_enclosing_rbbox,
    rotate_abs_geoms,
    rotate_abs_points,
    rotate_boxes,
    rotate_image,
    straighten_page,
)
from ocr_records import read_record

RECORDED: dict[str, Any] = read_record("geometry")
POLYGONS = np.array(RECORDED["polygons"])
BOXES = np.array(RECORDED["boxes"])


def picture(height: int = 24, width: int = 36) -> NDArray[np.uint8]:
    """The picture that the recorded outputs are of."""
    y, x = np.mgrid[:height, :width]
    return np.rint(127 + 60 * np.sin(x / 3 + y / 7) + 60 * np.cos(x / 5 - y / 4)).astype(np.uint8)


def same_picture(ours: NDArray[Any], recorded: list[Any]) -> None:
    """Equal but for one level of grey: older OpenCV rounds positions to 1/32 of a pixel."""
    expected = np.array(recorded)
    assert ours.dtype == np.uint8
    if expected.size == 0:
        assert ours.size == 0
        return
    assert ours.shape == expected.shape
    assert np.abs(ours.astype(int) - expected).max() <= 1


@pytest.mark.parametrize(
    "case",
    RECORDED["rotate_image"],
    ids=lambda case: f"{case['angle']}-{case['expand']}-{case['preserve_origin_shape']}",
)
def test_images_turn_as_with_opencv(case: dict[str, Any]) -> None:
    turned = rotate_image(picture(), case["angle"], case["expand"], case["preserve_origin_shape"])
    if not case["preserve_origin_shape"]:
        same_picture(turned, case["pixels"])
        return
    # docTR interpolates twice here, once to turn and once to scale.
    assert turned.shape == picture().shape
    assert np.abs(turned.astype(int) - np.array(case["pixels"])).mean() < 4


def test_a_half_turn_and_a_quarter_turn_only_move_pixels() -> None:
    image = np.random.default_rng(0).integers(0, 256, (1100, 1300, 3), dtype=np.uint8)
    np.testing.assert_array_equal(rotate_image(image, 180), image[::-1, ::-1])
    np.testing.assert_array_equal(straighten_page(image, 90)[0], np.rot90(image))
    np.testing.assert_array_equal(straighten_page(image, -90)[0], np.rot90(image, -1))
    np.testing.assert_array_equal(remove_image_padding(rotate_image(image | 1, 90, expand=True)), np.rot90(image | 1))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.float32, np.float64, np.bool_])
def test_dtype_and_channels_are_kept(dtype: Any) -> None:
    for shape in [(12, 20), (12, 20, 1), (12, 20, 4)]:
        turned = rotate_image(np.ones(shape, dtype), 90)
        assert (turned.shape, turned.dtype) == (shape, dtype)
        assert turned[6, 10].all()
        assert not turned[0, 0].any()


def test_a_straightened_page_leads_back() -> None:
    page = np.zeros((300, 400), np.uint8)
    page[90:110, 250:290] = 255
    turned, back = straighten_page(page, 25)
    assert turned.shape == tuple(int(np.ceil(side)) for side in compute_expanded_shape((300, 400), 25))
    rows, columns = np.nonzero(turned > 127)
    middle = back @ [columns.mean() + 0.5, rows.mean() + 0.5, 1]
    np.testing.assert_allclose(middle, [270, 100, 1], atol=0.1)


def test_an_expanded_page_loses_nothing() -> None:
    page = np.full((40, 90, 3), 255, np.uint8)
    for angle in (3, 45, -80, 135):
        turned = rotate_image(page, angle, expand=True)
        assert turned.sum() == pytest.approx(page.sum(), rel=0.01)
        assert turned.shape[0] / turned.shape[1] == pytest.approx(40 / 90, rel=0.03)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0, 3), (1, 1, 3)])
def test_empty_images_are_rotated(shape: tuple[int, ...]) -> None:
    image = np.ones(shape, np.uint8)
    assert rotate_image(image, 33).shape == shape
    assert rotate_image(image, 33, expand=True, preserve_origin_shape=True).shape == shape
    assert straighten_page(image, 90)[0].shape == (shape[1], shape[0], *shape[2:])
    assert remove_image_padding(image).shape == shape


def test_padding_is_cut_off() -> None:
    image = np.zeros((10, 12, 3), np.uint8)
    assert remove_image_padding(image).shape == (10, 12, 3)
    image[2, 3, 0] = image[6, 9, 2] = 1
    assert remove_image_padding(image).shape == (5, 7, 3)


def test_straight_crops_match_doctr() -> None:
    for crop, recorded in zip(extract_crops(picture(), BOXES), RECORDED["crops"], strict=True):
        np.testing.assert_array_equal(crop, recorded)


def test_crops_end_where_the_image_does() -> None:
    image = np.arange(100).reshape(10, 10)
    crops = extract_crops(image, np.array([[-0.5, -0.5, 0.2, 0.1], [0.9, 0.9, 1e30, 5], [2.0, 2.0, 3.0, 3.0]]))
    np.testing.assert_array_equal(crops[0], image[:2, :3])
    np.testing.assert_array_equal(crops[1], image[9:, 9:])
    assert crops[2].size == 0
    pixels = extract_crops(image, np.array([[1, 2, 4, 8]]))
    np.testing.assert_array_equal(pixels[0], image[2:8, 1:4])
    assert extract_crops(image, np.zeros((0, 4))) == extract_rcrops(image, np.zeros((0, 4, 2))) == []


@pytest.mark.parametrize(("horizontal", "key"), [(False, "rcrops"), (True, "horizontal_rcrops")])
def test_rotated_crops_match_doctr(horizontal: bool, key: str) -> None:
    crops = extract_rcrops(picture(), POLYGONS, assume_horizontal=horizontal)
    assert len(crops) == len(RECORDED[key])
    for crop, recorded in zip(crops, RECORDED[key], strict=True):
        same_picture(crop, recorded)


def test_an_upright_crop_copies_pixels() -> None:
    image = np.random.default_rng(1).integers(0, 256, (50, 60, 3), dtype=np.uint8)
    # Integers are pixels; the points are the centers of the corner pixels.
    quad = np.array([[[10, 20], [29, 20], [29, 33], [10, 33]]])
    crops = extract_rcrops(image, np.concatenate([quad, np.roll(quad, -1, axis=1), np.roll(quad, -2, axis=1)]))
    # A side of 19 steps between centers gives 19 pixels.
    assert [crop.shape for crop in crops] == [(13, 19, 3), (19, 13, 3), (13, 19, 3)]
    np.testing.assert_array_equal(crops[0][0, 0], image[20, 10])
    np.testing.assert_array_equal(crops[1][0, 0], image[20, 29])
    np.testing.assert_array_equal(crops[2][0, 0], image[33, 29])
    np.testing.assert_array_equal(crops[2][-1, -1], image[20, 10])


@pytest.mark.parametrize("crop", [extract_crops, extract_rcrops])
def test_unusable_boxes_are_named(crop: Any) -> None:
    shape = (1, 4) if crop is extract_crops else (1, 4, 2)
    with pytest.raises(InvalidArgumentError, match="shape"):
        crop(picture(), np.zeros((2, 3)))
    with pytest.raises(InvalidArgumentError, match="finite"):
        crop(picture(), np.full(shape, np.nan))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint64])
def test_unsigned_pixels_are_not_subtracted_as_such(dtype: Any) -> None:
    quads = np.array([[[10, 60], [80, 10], [90, 30], [20, 80]]])
    assert estimate_page_angle(quads.astype(dtype)) == pytest.approx(estimate_page_angle(quads))
    for horizontal in (False, True):
        (crop,), (expected,) = (
            extract_rcrops(picture(), one, assume_horizontal=horizontal) for one in (quads.astype(dtype), quads)
        )
        np.testing.assert_array_equal(crop, expected)


def test_boxes_without_area_give_empty_crops() -> None:
    line = np.array([[[0.2, 0.2], [0.2, 0.5], [0.2, 0.8], [0.2, 0.9]]])
    point = np.full((1, 4, 2), 0.5)
    for horizontal in (False, True):
        crops = extract_rcrops(picture(), np.concatenate([line, point, POLYGONS]), assume_horizontal=horizontal)
        same_picture(crops[2], RECORDED["rcrops" if not horizontal else "horizontal_rcrops"][0])
        assert crops[1].size == 0


def test_an_absurd_crop_is_refused() -> None:
    quad = np.array([[[0.0, 0.0], [1e6, 0.0], [1e6, 1e6], [0.0, 1e6]]])
    with pytest.raises(InvalidArgumentError, match="larger"):
        extract_rcrops(picture(), quad)


@pytest.mark.parametrize("case", RECORDED["enclosing"], ids=lambda case: len(case["points"]))
def test_the_enclosing_rectangle_matches_opencv(case: dict[str, Any]) -> None:
    corners = resolve_enclosing_rbbox([np.array(case["points"])])
    np.testing.assert_allclose(corners, case["corners"], atol=2e-6)


@pytest.mark.parametrize("count", [3, 8, 9, 60])
def test_no_angle_gives_a_smaller_rectangle(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(5):
        points = rng.normal(size=(count, 2)) * [1, rng.uniform(0.1, 1)] + [1000, -500]
        rectangle = min_area_rect(points)
        axes = [(np.cos(angle), np.sin(angle)) for angle in np.deg2rad(np.arange(0, 90, 0.1))]
        areas = [np.ptp(points @ (x, y)) * np.ptp(points @ (-y, x)) for x, y in axes]
        assert rectangle.width >= rectangle.height
        assert rectangle.width * rectangle.height <= min(areas) * (1 + 1e-9)
        offsets = points - rectangle.center
        assert np.abs(offsets @ rectangle.axis).max() == pytest.approx(rectangle.width / 2)
        across = offsets @ [-rectangle.axis[1], rectangle.axis[0]]
        assert np.abs(across).max() == pytest.approx(rectangle.height / 2)


@pytest.mark.parametrize("count", [1, 2, 5, 50])
def test_points_without_area_have_a_rectangle(count: int) -> None:
    steps = np.linspace(0, 1, count)[:, None]
    for direction in [(0, 0), (0, 3), (4, 3), (-4, 3), (1e-9, 0)]:
        rectangle = min_area_rect(steps * direction + (7.0, 8.0))
        length = np.hypot(*direction) if count > 1 else 0
        assert rectangle.width == pytest.approx(length, abs=1e-12)
        assert rectangle.height == pytest.approx(0, abs=1e-9)
        assert np.hypot(*rectangle.axis) == pytest.approx(1)
    same = min_area_rect(np.full((20, 2), 3.0))
    assert (same.width, same.height, same.center.tolist()) == (0, 0, [3, 3])


def test_the_angle_of_a_rectangle_is_counter_clockwise_on_screen() -> None:
    wide = np.array([[0, 0], [10, 0], [10, 2], [0, 2]])
    for angle in (0, 30, -30, 89, 90):
        # y points down, so that turning by -angle in these coordinates goes counter-clockwise.
        assert min_area_rect(rotate_abs_points(wide, -angle)).angle == pytest.approx(angle, abs=1e-6)


@pytest.mark.parametrize("points", [np.zeros((0, 2)), np.zeros((3, 3)), np.zeros(2), [[0, np.inf]]])
def test_invalid_points_are_refused(points: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="points"):
        min_area_rect(points)


@pytest.mark.parametrize("case", RECORDED["rotate_boxes"], ids=lambda case: f"{case['angle']}-{case['target']}")
def test_boxes_turn_as_with_doctr(case: dict[str, Any]) -> None:
    for key, boxes in (("boxes", BOXES), ("polygons", POLYGONS)):
        before = boxes.copy()
        turned = rotate_boxes(boxes, case["angle"], (400, 600), target_shape=case["target"])
        np.testing.assert_allclose(turned, case[key], atol=1e-6)
        np.testing.assert_array_equal(boxes, before)
        # The shape of an array will do.
        if case["target"] is None:
            np.testing.assert_array_equal(rotate_boxes(boxes, case["angle"], (400, 600, 3)), turned)


@pytest.mark.parametrize("case", RECORDED["rotate_abs_geoms"], ids=lambda case: f"{case['angle']}-{case['expand']}")
def test_boxes_in_pixels_turn_as_with_doctr(case: dict[str, Any]) -> None:
    turned = rotate_abs_geoms(BOXES * [600, 400, 600, 400], case["angle"], (400, 600), case["expand"])
    np.testing.assert_allclose(turned, case["polygons"], atol=2e-3)
    assert turned.dtype == np.float32


def test_boxes_turn_with_their_image() -> None:
    image = np.zeros((200, 300), np.uint8)
    image[50:60, 200:240] = 255
    for angle in (20, -35):
        quad = rotate_abs_geoms(np.array([[200, 50, 240, 60]]), angle, (200, 300), expand=False)[0]
        rows, columns = np.nonzero(rotate_image(image, angle) > 127)
        np.testing.assert_allclose(quad.mean(axis=0), [columns.mean() + 0.5, rows.mean() + 0.5], atol=0.2)
        np.testing.assert_allclose(quad.min(axis=0), [columns.min(), rows.min()], atol=1.5)


def test_integer_boxes_are_rotated() -> None:
    np.testing.assert_allclose(rotate_abs_points(np.array([[2, 0]]), 60), [[1, 3**0.5]], atol=1e-6)


def test_points_are_ordered_as_with_doctr() -> None:
    orders, expected = RECORDED["order_points"]["orders"], np.array(RECORDED["order_points"]["points"])
    shuffled = np.stack([polygon[order] for polygon, order in zip(POLYGONS, orders, strict=True)])
    np.testing.assert_array_equal(order_points(shuffled), expected)
    for polygon, points in zip(shuffled, expected, strict=True):
        np.testing.assert_array_equal(order_points(polygon), points)
    np.testing.assert_array_equal(order_points(np.array([1, 2, 5, 7])), [[1, 2], [5, 2], [5, 7], [1, 7]])
    with pytest.raises(InvalidArgumentError, match="shape"):
        order_points(np.zeros((3, 2)))


def test_the_angle_of_a_page_matches_doctr() -> None:
    assert estimate_page_angle(POLYGONS) == pytest.approx(RECORDED["page_angle"])
    degenerate = np.concatenate([POLYGONS, np.full((9, 4, 2), 0.5), np.full((9, 4, 2), np.nan)])
    assert estimate_page_angle(degenerate) == pytest.approx(RECORDED["page_angle"])
    assert estimate_page_angle(np.zeros((0, 4, 2))) == 0.0


def test_boxes_are_converted_and_enclosed() -> None:
    assert bbox_to_polygon(((1, 2), (3, 4))) == ((1, 2), (3, 2), (1, 4), (3, 4))
    assert polygon_to_bbox(((1, 2), (5, 0), (3, 9))) == ((1, 0), (5, 9))
    enclosing = resolve_enclosing_bbox(np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 0.3, 0.2, 0.9]]))
    assert np.asarray(enclosing).tolist() == [0, 0.2, 0.3, 0.9]
    assert resolve_enclosing_bbox([((1, 2), (3, 4)), ((0, 3), (2, 9))]) == ((0, 2), (3, 9))
    relative = convert_to_relative_coords(np.array([[[-5, 10], [50, 10], [50, 20], [0, 20]]]), (40, 25))
    assert relative[0].tolist() == [[0, 0.25], [1, 0.25], [1, 0.5], [0, 0.5]]
    with pytest.raises(InvalidArgumentError, match="geoms"):
        convert_to_relative_coords(np.zeros((3, 5)), (10, 10))
    with pytest.raises(InvalidArgumentError, match="at least one box"):
        resolve_enclosing_rbbox([])
    for shapes in ({"orig_shape": (10,)}, {"orig_shape": (10, 10), "target_shape": (10, 10, 3)}):
        with pytest.raises(InvalidArgumentError, match="height, width"):
            rotate_boxes(np.zeros((1, 4)), 10, **shapes)
    padded = remap_boxes(np.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]]), (100, 50), (100, 100))
    assert padded[0].tolist() == [[0.25, 0], [0.75, 0], [0.75, 1], [0.25, 1]]


def test_scores_are_detached() -> None:
    straight = np.array([[0.1, 0.2, 0.3, 0.4, 0.9], [0.5, 0.6, 0.7, 0.8, 0.7]])
    rotated = np.arange(10.0).reshape(1, 5, 2)
    boxes, scores = detach_scores([straight, rotated, np.zeros((0, 5))])
    np.testing.assert_array_equal(boxes[0], straight[:, :4])
    np.testing.assert_array_equal(boxes[1], rotated[:, :4])
    assert [page.tolist() for page in scores] == [[0.9, 0.7], [9.0], []]
    assert detach_scores([]) == ([], [])
