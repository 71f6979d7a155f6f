"""Test the rotation of pages, and the conversion of points to the upright page and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.models._lines.cutting import map_boxes, plan_straightening, straighten


def ramp(height: int, width: int) -> torch.Tensor:
    """Return float64 (2, H, W): the relative coordinates of each pixel's center, so a value shows its origin."""
    x = ((torch.arange(width) + 0.5) / width).double().expand(height, width)
    y = ((torch.arange(height) + 0.5) / height).double()[:, None].expand(height, width)
    return torch.stack([x, y])


@pytest.mark.parametrize("angle", [0, 90, 180, 270, -90, 360, 450])
def test_right_angles_move_pixels(angle: int) -> None:
    page = torch.arange(2 * 3 * 5, dtype=torch.uint8).reshape(2, 3, 5)
    plan = plan_straightening((3, 5), angle)
    turned = torch.from_numpy(np.rot90(page.numpy(), -(angle // 90), (1, 2)).copy())
    back = straighten(turned, plan_straightening(tuple(turned.shape[1:]), angle))
    assert torch.equal(back, page)
    assert plan.shape == ((5, 3) if angle % 180 else (3, 5))


@pytest.mark.parametrize("angle", [0.0, 90.0, 180.0, -90.0, 3.0, -17.5, 45.0, 97.0, -176.0])
def test_pixels_and_points_are_mapped_alike(angle: float) -> None:
    shape = (61, 90)
    plan = plan_straightening(shape, angle)
    upright = straighten(ramp(*shape), plan)
    rows, columns = (places.reshape(-1) for places in np.indices(plan.shape))
    places = np.stack([(columns + 0.5) / plan.shape[1], (rows + 0.5) / plan.shape[0]], axis=1)
    came_from = map_boxes(places[:, None], plan.back)[:, 0]
    inside = (np.abs(came_from - 0.5) < 0.48).all(axis=1)
    rows, columns, places, came_from = rows[inside], columns[inside], places[inside], came_from[inside]
    assert len(places) > 2000
    np.testing.assert_allclose(upright[:, rows, columns].numpy().T, came_from, atol=1e-6)
    np.testing.assert_allclose(map_boxes(came_from[:, None], plan.forward)[:, 0], places, atol=1e-9)


def test_clockwise_turns_are_undone() -> None:
    # The top of the quad falls by 10 degrees; on the upright page it is level.
    shape = (200, 300)
    slope = np.tan(np.radians(10)) * shape[1] / shape[0]
    quad = np.array([[[0.3, 0.4], [0.7, 0.4 + 0.4 * slope], [0.7, 0.5 + 0.4 * slope], [0.3, 0.5]]])
    upright = map_boxes(quad, plan_straightening(shape, 10.0).forward)
    assert upright[0, 0, 1] == pytest.approx(upright[0, 1, 1], abs=1e-12)
    assert upright[0, 0, 0] < upright[0, 1, 0]


@pytest.mark.parametrize("angle", [5.0, -33.0, 120.0])
def test_upright_page_is_just_large_enough(angle: float) -> None:
    plan = plan_straightening((400, 300), angle)
    corners = np.array([[[0, 0], [1, 0], [1, 1], [0, 1]]]) @ plan.forward[:2, :2].T + plan.forward[:2, 2]
    pixels = corners[0] * (plan.shape[1], plan.shape[0])
    assert pixels.min() >= -1e-9
    assert (pixels.max(axis=0) <= (plan.shape[1], plan.shape[0])).all()
    assert (pixels.max(axis=0) > np.array([plan.shape[1], plan.shape[0]]) - 1).all()


def test_boxes_are_enclosed_and_quads_keep_their_first_corner() -> None:
    plan = plan_straightening((100, 100), 90)
    box = np.array([[0.1, 0.2, 0.3, 0.8]])
    quad = np.array([[[0.3, 0.2], [0.3, 0.8], [0.1, 0.8], [0.1, 0.2]]])  # reads downwards
    np.testing.assert_allclose(map_boxes(box, plan.forward), [[0.2, 0.7, 0.8, 0.9]], atol=1e-12)
    np.testing.assert_allclose(
        map_boxes(quad, plan.forward), [[[0.2, 0.7], [0.8, 0.7], [0.8, 0.9], [0.2, 0.9]]], atol=1e-12
    )
    np.testing.assert_allclose(map_boxes(map_boxes(quad, plan.forward), plan.back), quad, atol=1e-12)


def test_bytes_are_interpolated_and_corners_are_black() -> None:
    page = torch.full((3, 40, 60), 200, dtype=torch.uint8)
    plan = plan_straightening((40, 60), 20.0)
    upright = straighten(page, plan)
    assert (upright.dtype, tuple(upright.shape[1:])) == (torch.uint8, plan.shape)
    assert upright[:, 0, 0].tolist() == [0, 0, 0]
    middle = upright[:, plan.shape[0] // 2, plan.shape[1] // 2]
    assert middle.tolist() == [200, 200, 200]
    assert straighten(page.half(), plan).dtype == torch.float16


def test_bytes_are_rounded_to_the_nearest() -> None:
    page = (ramp(40, 60) * 200).to(torch.uint8)
    plan = plan_straightening((40, 60), 7.0)
    exact = straighten(page.double(), plan)
    assert float((straighten(page, plan).double() - exact).abs().max()) <= 0.5 + 1e-4


def test_tiles_have_no_seams() -> None:
    # Larger than one tile on both axes; a linear ramp interpolates exactly.
    shape = (1100, 1200)
    plan = plan_straightening(shape, 4.0)
    upright = straighten(ramp(*shape).float(), plan)
    inner = upright[:, 200:-200, 200:-200]
    steps = inner.diff(dim=2)
    assert float((steps - steps.mean(dim=(1, 2), keepdim=True)).abs().max()) < 1e-6


def test_huge_pages_are_rejected() -> None:
    with pytest.raises(InvalidArgumentError, match="more than"):
        plan_straightening((100_000, 100_000), 10)
