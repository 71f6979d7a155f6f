"""Compare targets and losses of detectors with formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.models import detection
from mediatensor.ocr.models.detection._boxes import boxes_from_bitmap, open_bitmap
from mediatensor.ocr.models.detection.core import (
    TargetMaps,
    dice_loss,
    draw_targets,
    focal_loss,
    hard_negative_mask,
    signed_distance,
)

MODELS = ["db_mobilenet_v3_large", "fast_tiny", "linknet_resnet18"]
NOTHING = np.zeros((0, 4), dtype=np.float32)
WORD = np.array([[0.25, 0.25, 0.75, 0.5]], dtype=np.float32)


def quadrangle(center: tuple[float, float], width: float, height: float, angle: float) -> np.ndarray:
    """Return the corners of a rotated rectangle, clockwise."""
    along = np.array([np.cos(angle), np.sin(angle)]) * width / 2
    across = np.array([-np.sin(angle), np.cos(angle)]) * height / 2
    return np.array(center) + np.stack([-along - across, along - across, along + across, across - along])


def draw(boxes: np.ndarray, size: tuple[int, int] = (100, 200), ratio: float = 0.4) -> TargetMaps:
    return draw_targets([{"words": boxes}], ["words"], size, ratio)


def test_straight_box_is_drawn_whole_and_shrunken() -> None:
    maps = draw(np.array([[0.1, 0.2, 0.6, 0.4]], dtype=np.float32))
    expected = np.zeros((100, 200), dtype=bool)
    expected[20:41, 20:121] = True
    np.testing.assert_array_equal(maps.text[0, 0], expected)
    # The area is 2000 and the perimeter 240, so each side moves inwards by 7 pixels.
    margin = 2000 * (1 - 0.4**2) / 240
    assert margin == 7.0
    shrunken = np.zeros((100, 200), dtype=bool)
    shrunken[27:34, 27:114] = True
    np.testing.assert_array_equal(maps.kernel[0, 0], shrunken)
    assert maps.known.all()


def test_border_is_one_on_the_outline_and_falls_to_zero_at_the_margin() -> None:
    maps = draw(np.array([[0.1, 0.2, 0.6, 0.4]], dtype=np.float32))
    across = maps.border[0, 0, :, 70]
    expected = [max(0.0, 1 - min(abs(row - 20), abs(row - 40)) / 7) for row in range(100)]
    np.testing.assert_allclose(across, expected, atol=1e-6)
    # The border is rounded at the corners.
    assert maps.border_known[0, 0, 13, 70]
    assert not maps.border_known[0, 0, 12, 70]
    assert not maps.border_known[0, 0, 14, 14]


def test_turned_box_has_the_area_of_the_shrunken_rectangle() -> None:
    corners = quadrangle((100, 50), 100, 20, 0.4)
    maps = draw((corners / (200, 100))[None].astype(np.float32))
    margin = 2000 * (1 - 0.4**2) / 240
    # Pixels extend half a pixel beyond the shape on each side.
    assert maps.kernel.sum() == pytest.approx((100 - 2 * margin + 1) * (20 - 2 * margin + 1), rel=0.03)
    assert maps.text.sum() == pytest.approx(101 * 21, rel=0.02)


@pytest.mark.parametrize("angle", [0.0, 0.3, -0.7])
def test_unclipping_restores_shrunken_boxes(angle: float) -> None:
    corners = quadrangle((100, 60), 90, 24, angle)
    maps = draw((corners / (200, 120))[None].astype(np.float32), (120, 200))
    kernel = maps.kernel[0, 0]
    found = boxes_from_bitmap(kernel.astype(float), open_bitmap(kernel), 0.5, unclip_ratio=1.5, straight=False)
    assert len(found) == 1
    # An unclip ratio of 1.5 restores slightly less than shrinking by 0.4 removes.
    assert np.abs(found[0, :4] * (200, 120) - corners).max() < 5


def test_small_box_is_left_out_of_the_loss() -> None:
    maps = draw(np.array([[0.5, 0.5, 0.51, 0.9]], dtype=np.float32))
    assert not maps.text.any()
    assert not maps.kernel.any()
    expected = np.ones((100, 200), dtype=bool)
    expected[50:91, 100:103] = False
    np.testing.assert_array_equal(maps.known[0, 0], expected)


def test_class_without_boxes_is_unknown_and_class_not_named_is_absent() -> None:
    maps = draw_targets([{"b": NOTHING}], ["a", "b"], (8, 8), 0.4)
    assert maps.known[0, 0].all()
    assert not maps.known[0, 1].any()


def test_class_is_found_by_name_not_by_position() -> None:
    maps = draw_targets([{"b": WORD}], ["a", "b"], (32, 32), 0.4)
    assert not maps.text[0, 0].any()
    assert maps.text[0, 1].any()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"word": WORD}, "knows words"),
        ({"words": np.zeros((2, 3), dtype=np.float32)}, r"shape \(2, 3\)"),
        ({"words": WORD * 3}, "between 0 and 1"),
        ({"words": WORD * np.nan}, "between 0 and 1"),
    ],
)
def test_bad_targets_are_named(target: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        draw_targets([target], ["words"], (32, 32), 0.4)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_every_image_needs_a_target(count: int) -> None:
    target = [{"words": np.array([[0.1, 0.1, 0.8, 0.8]], np.float32)}] * count
    with pytest.raises(InvalidArgumentError, match=f"{count} items for 2 images"):
        detection.fast_tiny()(torch.zeros(2, 3, 32, 32), target)


def test_degenerate_boxes_are_drawn_or_left_out() -> None:
    crossed = [[0.1, 0.1], [0.9, 0.9], [0.9, 0.1], [0.1, 0.9]]
    line = [[0.1, 0.1], [0.9, 0.9], [0.5, 0.5], [0.3, 0.3]]
    point = [[0.5, 0.5]] * 4
    outer = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    for corners in (crossed, line, point, outer):
        maps = draw(np.array([corners], dtype=np.float32))
        assert np.isfinite(maps.border).all()


def test_corner_given_twice_changes_nothing() -> None:
    triangle = np.array([[0.1, 0.1], [0.9, 0.1], [0.5, 0.9]], dtype=np.float32)
    twice = draw(triangle[None, [0, 1, 1, 2]])
    again = draw(triangle[None, [0, 1, 2, 2]])
    assert twice.kernel.any()
    np.testing.assert_array_equal(twice.kernel, again.kernel)
    np.testing.assert_allclose(twice.border, again.border)


def test_distance_is_that_to_the_nearest_point_of_the_outline() -> None:
    concave = np.array([[0.0, 0.0], [40.0, 0.0], [40.0, 30.0], [20.0, 10.0], [0.0, 30.0]])
    columns, rows = np.arange(-5.0, 46.0), np.arange(-5.0, 36.0)
    # As a slow reference, sample the sides densely.
    steps = np.linspace(0, 1, 801)[:, None]
    outline = np.concatenate([a + (b - a) * steps for a, b in zip(concave, np.roll(concave, -1, 0), strict=True)])
    grid = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 1, 2)
    nearest = np.concatenate([np.hypot(*np.moveaxis(part - outline, -1, 0)).min(1) for part in np.split(grid, 51)])
    signed = signed_distance(concave, columns, rows)
    np.testing.assert_allclose(np.abs(signed).ravel(), nearest, atol=0.05)
    inside = signed > 0
    assert inside[10 + 5, 20 + 5 - 10]
    # A point in the notch.
    assert not inside[20 + 5, 20 + 5]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_gradients_reach_every_parameter(name: str) -> None:
    torch.manual_seed(0)
    model = getattr(detection, name)()
    loss = model(torch.randn(2, 3, 64, 64), [{"words": WORD}, {"words": WORD / 2}])["loss"]
    loss.backward()
    assert loss > 0
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name


@pytest.mark.parametrize("name", MODELS)
def test_batch_without_text_has_a_finite_loss_and_gradient(name: str) -> None:
    model = getattr(detection, name)()
    images = torch.randn(2, 3, 64, 64)
    targets: list[dict[str, np.ndarray]] = [{"words": NOTHING}, {}, {"words": np.array([[0.5, 0.5, 0.51, 0.51]])}]
    features = model.features(images).detach().requires_grad_()
    for target in targets:
        loss = model.loss(features, model.logits(features, (64, 64)), [target, target])
        (gradient,) = torch.autograd.grad(loss, features)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()


def test_nothing_known_costs_nothing() -> None:
    model = detection.linknet_resnet18()
    assert model(torch.randn(2, 3, 64, 64), [{"words": NOTHING}] * 2)["loss"] == 0


@pytest.mark.slow
def test_training_makes_the_loss_smaller(training_seed: int) -> None:
    torch.manual_seed(training_seed)
    model = detection.linknet_resnet18()
    images = torch.zeros(2, 3, 64, 64)
    images[:, :, 16:32, 16:48] = 1
    target = [{"words": WORD}] * 2
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    while len(losses) < 12 and not (losses and losses[-1] < 0.8 * losses[0]):
        loss = model(images, target)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.8 * losses[0]


def test_loss_of_dbnet_is_its_formula() -> None:
    model = detection.db_mobilenet_v3_large()
    target = [{"words": WORD}]
    text, known, border, border_known = model.build_target(target, (1, 64, 64))
    assert known.all()
    scores, thresholds = torch.zeros(1, 1, 64, 64), torch.full((1, 1, 64, 64), 0.04)
    threshold = 1 / (1 + np.exp(-0.04))
    sharp = 1 / (1 + np.exp(-50 * (0.5 - threshold)))
    expected = (
        10 * 0.5 * 0.5**2 * np.log(2)
        + 1
        - 2 * sharp * text.sum() / (sharp * text.size + text.sum())
        + np.abs(threshold - border[border_known]).mean()
    )
    assert float(model.compute_loss(scores, thresholds, target)) == pytest.approx(expected, rel=1e-5)


def test_focal_loss_is_its_formula() -> None:
    logits = torch.tensor([[[[0.0, 2.0, -3.0]]]])
    target = torch.tensor([[[[1.0, 0.0, 0.0]]]])
    mask = torch.tensor([[[[True, True, False]]]])
    p = 1 / (1 + np.exp(-2.0))
    expected = (0.25 * 0.5**2 * -np.log(0.5) + 0.75 * p**2 * -np.log(1 - p)) / 2
    assert float(focal_loss(logits, target, mask, 2.0, 0.25)) == pytest.approx(expected, rel=1e-5)


def test_dice_loss_is_zero_for_the_truth_and_one_for_its_opposite() -> None:
    truth = torch.tensor([[[[1.0, 0.0, 1.0, 0.0]]]])
    everywhere = torch.ones_like(truth, dtype=torch.bool)
    assert float(dice_loss(truth, truth, everywhere)) == pytest.approx(0, abs=1e-5)
    assert float(dice_loss(1 - truth, truth, everywhere)) == pytest.approx(1, abs=1e-5)
    assert float(dice_loss(1 - truth, truth, ~everywhere)) == 0


def test_hardest_background_is_chosen_three_to_one() -> None:
    probabilities = torch.linspace(0, 1, 12).reshape(1, 1, 3, 4)
    text = torch.zeros(1, 1, 3, 4, dtype=torch.bool)
    text[0, 0, 0, :2] = True
    known = torch.ones_like(text)
    known[0, 0, 0, 1] = False
    chosen = hard_negative_mask(probabilities, text, known)
    # One known pixel of text, so three of background: the last ones.
    assert chosen.flatten().nonzero().flatten().tolist() == [0, 9, 10, 11]
