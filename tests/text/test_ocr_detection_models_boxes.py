"""Compare boxes from maps with docTR and with slow references, also for maps that no page gives."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from mediatensor.errors import InvalidArgumentError, MissingDependencyError
from mediatensor.ocr.models.detection._boxes import (
    MAX_REGIONS,
    boxes_from_bitmap,
    find_regions,
    least_area_rectangles,
    open_bitmap,
)
from mediatensor.ocr.models.detection.core import DetectionPostProcessor
from mediatensor.ocr.models.detection.differentiable_binarization import DBPostProcessor
from mediatensor.ocr.models.detection.fast import FASTPostProcessor
from mediatensor.ocr.models.detection.linknet import LinkNetPostProcessor
from ocr_maps import HEIGHT, WIDTH, formula_map, random_map
from ocr_records import read_record

ndimage = pytest.importorskip("scipy.ndimage", reason="needs SciPy")
spatial = pytest.importorskip("scipy.spatial", reason="needs SciPy")

POSTPROCESSORS = {"db": DBPostProcessor, "fast": FASTPostProcessor, "linknet": LinkNetPostProcessor}
RECORDS: list[dict[str, Any]] = read_record("detection_boxes")


def boxes_from_map(probabilities: np.ndarray, bin_thresh: float, **options: Any) -> np.ndarray:
    return boxes_from_bitmap(probabilities, open_bitmap(probabilities >= bin_thresh), **options)


def found(record: dict[str, Any]) -> np.ndarray:
    postprocessor = POSTPROCESSORS[record["model"]](assume_straight_pages=record["straight"])
    return postprocessor(formula_map(record["tilt"])[None, :, :, None])[0][0]


@pytest.mark.parametrize("record", [record for record in RECORDS if record["straight"]])
def test_straight_boxes_match_doctr(record: dict[str, Any]) -> None:
    boxes = found(record) * (WIDTH, HEIGHT, WIDTH, HEIGHT, 1)
    np.testing.assert_allclose(sorted(boxes.round(4).tolist()), record["boxes"], atol=2e-4)


@pytest.mark.parametrize("record", [record for record in RECORDS if not record["straight"]])
def test_rotated_boxes_match_doctr_except_for_rounding(record: dict[str, Any]) -> None:
    boxes, expected = found(record), np.array(record["boxes"])
    corners, scores = boxes[:, :4] * (WIDTH, HEIGHT), boxes[:, 4]
    distances = np.abs(corners.mean(1)[:, None] - expected[:, :4].mean(1)).sum(-1)
    nearest = distances.argmin(1)
    assert sorted(nearest) == list(range(len(expected)))
    np.testing.assert_allclose(scores, expected[nearest, 4], atol=1e-4)
    # docTR cuts corners off to whole pixels twice.
    assert np.abs(corners - expected[nearest, :4]).max() <= 2.1
    assert np.abs(corners - expected[nearest, :4]).mean() <= 0.6


@pytest.mark.parametrize("smoothing", [1, 3, 6])
def test_opening_is_erosion_then_dilation(smoothing: int) -> None:
    bitmap = random_map("opening", 60, 80, smoothing) > 0.35
    square = np.ones((3, 3))
    expected = ndimage.binary_dilation(ndimage.binary_erosion(bitmap, square, border_value=1), square)
    assert 0 < expected.sum() < bitmap.sum()
    np.testing.assert_array_equal(open_bitmap(bitmap), expected)


def outer_regions(bitmap: np.ndarray) -> list[np.ndarray]:
    """Return bitmaps of the 8-connected regions with filled holes, as a slow reference."""
    labels, count = ndimage.label(ndimage.binary_fill_holes(bitmap), np.ones((3, 3)))
    return [labels == label for label in range(1, count + 1)]


@pytest.mark.parametrize("smoothing", [1, 4, 9])
def test_bounds_and_means_equal_filled_regions(smoothing: int) -> None:
    values = random_map("regions", 70, 90, smoothing)
    regions = find_regions(values > 0.6)
    expected = outer_regions(values > 0.6)
    assert len(regions) == len(expected) > 3
    for bounds, mean, region in zip(regions.bounds(), regions.means(values), expected, strict=True):
        rows, columns = np.nonzero(region)
        assert bounds.tolist() == [columns.min(), rows.min(), columns.max(), rows.max()]
        assert mean == pytest.approx(values[region].mean())


@pytest.mark.parametrize("smoothing", [2, 5, 12])
def test_rectangles_have_the_least_area(smoothing: int) -> None:
    bitmap = open_bitmap(random_map("rectangles", 150, 150, smoothing) > 0.6)
    rectangles = least_area_rectangles(find_regions(bitmap))
    expected = outer_regions(bitmap)
    assert len(rectangles.width) == len(expected) > 3
    for index, region in enumerate(expected):
        points = np.argwhere(region)[:, ::-1].astype(float)
        hull = points[spatial.ConvexHull(points).vertices]
        edges = np.roll(hull, -1, 0) - hull
        edges /= np.hypot(*edges.T)[:, None]
        areas = np.ptp(hull @ edges.T, 0) * np.ptp(hull @ np.stack([-edges[:, 1], edges[:, 0]]), 0)
        assert rectangles.width[index] * rectangles.height[index] == pytest.approx(areas.min(), abs=1e-5)
        axis, offset = rectangles.axis[index], hull - rectangles.center[index]
        assert np.abs(offset @ axis).max() == pytest.approx(rectangles.width[index] / 2)
        assert np.abs(offset @ (-axis[1], axis[0])).max() == pytest.approx(rectangles.height[index] / 2)


@pytest.mark.parametrize("tilt", [0.0, 0.6, 2.0])
def test_corners_run_clockwise_from_the_top_left(tilt: float) -> None:
    boxes = boxes_from_map(
        formula_map(tilt), bin_thresh=0.3, box_thresh=0.1, unclip_ratio=1.5, straight=False, clip=False
    )
    corners = boxes[:, :4] * (WIDTH, HEIGHT)
    assert (corners.sum(2).argmin(1) == 0).all()
    following = np.roll(corners, -1, axis=1)
    areas = (corners[..., 0] * following[..., 1] - corners[..., 1] * following[..., 0]).sum(1)
    assert (areas > 0).all()


def test_score_belongs_to_its_box() -> None:
    probabilities = np.zeros((60, 40))
    for index in range(5):
        probabilities[10 * index + 2 : 10 * index + 8, 5:35] = 0.5 + 0.1 * index
    boxes = boxes_from_map(probabilities, bin_thresh=0.3, box_thresh=0.55, unclip_ratio=1.5, straight=False)
    assert boxes[:, 4, 1].tolist() == pytest.approx([0.6, 0.7, 0.8, 0.9])
    assert (boxes[:, :4].mean(1)[:, 1] * 60).tolist() == pytest.approx([14.5, 24.5, 34.5, 44.5])


def test_rotated_box_is_the_rectangle_between_pixel_centers_moved_outwards() -> None:
    probabilities = np.zeros((40, 60))
    probabilities[10:19, 20:50] = 0.8
    box = boxes_from_map(probabilities, bin_thresh=0.3, box_thresh=0.1, unclip_ratio=1.5, straight=False)[0]
    # 29 x 8 between the centers: an area of 30 * 9 over a length of 2 * (29 + 8) + 2.
    distance = 270 * 1.5 / 76
    left, top, right, bottom = 20 - distance, 10 - distance, 49 + distance, 18 + distance
    np.testing.assert_allclose(box[:4] * (60, 40), [[left, top], [right, top], [right, bottom], [left, bottom]])


def test_region_inside_a_ring_is_not_separate() -> None:
    probabilities = np.zeros((60, 60))
    probabilities[10:50, 10:50] = 0.9
    probabilities[15:45, 15:45] = 0
    probabilities[25:35, 25:35] = 0.9
    assert len(boxes_from_map(probabilities, bin_thresh=0.3, box_thresh=0, unclip_ratio=1.5)) == 1


def test_boxes_may_reach_beyond_the_map_unless_clipped() -> None:
    probabilities = np.ones((20, 20))
    options: dict[str, Any] = {"bin_thresh": 0.3, "box_thresh": 0.1, "unclip_ratio": 1.5, "straight": False}
    clipped = boxes_from_map(probabilities, **options)
    free = boxes_from_map(probabilities, clip=False, **options)
    assert clipped.min() == 0
    assert clipped.max() == 1
    assert free[0, 0].max() < 0
    assert free[0, 2].min() > 1


@pytest.mark.parametrize("straight", [True, False])
@pytest.mark.parametrize(
    "probabilities",
    [
        np.zeros((32, 32)),
        np.full((32, 32), np.nan),
        np.zeros((1, 1)),
        np.ones((1, 1)),
        np.ones((2, 40)),
        np.zeros((0, 0)),
        np.eye(32),
    ],
)
def test_maps_without_text_give_no_boxes(probabilities: np.ndarray, straight: bool) -> None:
    boxes = boxes_from_map(probabilities, bin_thresh=0.3, box_thresh=0.1, unclip_ratio=1.5, straight=straight)
    assert boxes.shape == ((0, 5) if straight else (0, 5, 2))


def test_nan_harms_no_other_box() -> None:
    probabilities = formula_map(0.0)
    damaged = probabilities.copy()
    # The NaN is left of a word, and must not affect the sums of its row.
    damaged[105, 5] = np.nan
    options: dict[str, Any] = {"bin_thresh": 0.3, "box_thresh": 0.1, "unclip_ratio": 1.5, "straight": False}
    before, after = boxes_from_map(probabilities, **options), boxes_from_map(damaged, **options)
    assert np.isfinite(after).all()
    np.testing.assert_allclose(before, after)


def test_of_too_many_regions_the_largest_are_kept() -> None:
    bitmap = np.zeros((400, 400), dtype=bool)
    bitmap[::2, ::2] = True
    specks = int(bitmap.sum())
    assert specks > MAX_REGIONS
    # Nine lines at the bottom and at the right, with specks before and after them.
    for index in range(9):
        bitmap[300 + 10 * index : 302 + 10 * index, 40 * index : 40 * index + 30] = True
    bounds = find_regions(bitmap).bounds()
    assert len(bounds) == MAX_REGIONS
    large = bounds[bounds[:, 2] - bounds[:, 0] > 20]
    assert large[:, 0].tolist() == [40 * index for index in range(9)]


def test_noise_is_cut_off_at_the_limit() -> None:
    noise = random_map("noise", 600, 600, 1)
    assert ndimage.label(noise > 0.85, np.ones((3, 3)))[1] > MAX_REGIONS
    assert len(find_regions(noise > 0.85)) == MAX_REGIONS
    boxes = boxes_from_bitmap(noise, noise > 0.85, box_thresh=0, unclip_ratio=1.5, straight=False)
    assert np.isfinite(boxes).all()


def test_every_image_and_class_is_processed_by_itself() -> None:
    maps = np.zeros((2, 40, 40, 2))
    maps[0, 5:15, 5:35, 0] = 0.9
    maps[1, 20:30, 5:35, 1] = 0.9
    counts = [[len(boxes) for boxes in image] for image in DetectionPostProcessor()(maps)]
    assert counts == [[1, 0], [0, 1]]


def test_attributes_can_be_changed_at_any_time() -> None:
    postprocessor = DBPostProcessor()
    maps = formula_map(0.0)[None, :, :, None]
    assert len(postprocessor(maps)[0][0])
    postprocessor.box_thresh = 1.0
    assert not len(postprocessor(maps)[0][0])


def test_bitmap_may_be_given() -> None:
    probabilities = formula_map(0.0)
    postprocessor = DBPostProcessor()
    bitmap = open_bitmap(probabilities >= 0.3).astype(np.uint8)
    np.testing.assert_array_equal(
        postprocessor.bitmap_to_boxes(probabilities, bitmap), postprocessor(probabilities[None, :, :, None])[0][0]
    )


def test_maps_without_a_class_axis_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"\(2, 3, 4\)"):
        DetectionPostProcessor()(np.zeros((2, 3, 4)))


def test_missing_scipy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingDependencyError, match=r"mediatensor\[ocr\]"):
        find_regions(np.ones((4, 4), dtype=bool))
