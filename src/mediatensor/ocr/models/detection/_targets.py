"""Create training targets of detectors from boxes, and compute losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ....errors import InvalidArgumentError

# Smaller boxes, in pixels of the map, are ignored in training because the network cannot resolve them.
_MIN_BOX_SIZE = 3
# Coordinates of pixel centers are offset by half a pixel.
_HALF_PIXEL = 0.5
_EPSILON = 1e-6


@dataclass(frozen=True)
class TargetMaps:
    """Target maps (N, classes, H, W).

    Args:
        text: Pixels inside boxes, bool.
        kernel: Pixels inside shrunken boxes, bool.
        known: Pixels that count in the loss, bool. Boxes too small to learn and classes not annotated are excluded.
        border: 1 on the outlines of boxes, falling to 0 at the shrink distance, float32.
        border_known: Pixels inside boxes enlarged by the shrink distance, bool.
    """

    text: NDArray[np.bool_]
    kernel: NDArray[np.bool_]
    known: NDArray[np.bool_]
    border: NDArray[np.float32]
    border_known: NDArray[np.bool_]


def draw_targets(
    target: Sequence[dict[str, NDArray[np.floating[Any]]]],
    class_names: Sequence[str],
    size: tuple[int, int],
    shrink_ratio: float,
) -> TargetMaps:
    """Draw the boxes of a batch on maps of ``size`` (height, width).

    Boxes are shrunken by ``(1 - shrink_ratio ** 2) * area / perimeter`` (Vatti clipping, as in Liao et al., "Real-time
    Scene Text Detection with Differentiable Binarization", 2019). ``target`` has, for each image, the relative boxes of
    each class, (K, 4) or (K, 4, 2).
    """
    shape = (len(target), len(class_names), *size)
    maps = TargetMaps(
        text=np.zeros(shape, dtype=bool),
        kernel=np.zeros(shape, dtype=bool),
        known=np.ones(shape, dtype=bool),
        border=np.zeros(shape, dtype=np.float32),
        border_known=np.zeros(shape, dtype=bool),
    )
    for image, boxes_by_class in enumerate(target):
        for name, boxes in boxes_by_class.items():
            if name not in class_names:
                raise InvalidArgumentError(f"target has the class {name!r}; the model knows {', '.join(class_names)}.")
            _check_boxes(name, boxes)
            where = (image, list(class_names).index(name))
            layers = TargetMaps(*(getattr(maps, field)[where] for field in TargetMaps.__dataclass_fields__))
            if len(boxes) == 0:
                layers.known[:] = False
            for corners, extent in zip(*_scale_boxes(boxes, size), strict=True):
                _draw(layers, corners, extent, shrink_ratio)
    return maps


def signed_distance(
    corners: NDArray[np.floating[Any]], columns: NDArray[np.floating[Any]], rows: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """Return the signed distance of points to the outline of a polygon, positive inside, float64 (H, W).

    ``corners`` (K, 2) are in order; the polygon may be concave or cross itself (even-odd rule). ``columns`` (W,) and
    ``rows`` (H,) are the distinct x and y of the points.

    >>> import numpy as np
    >>> square = np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0]])
    >>> signed_distance(square, np.array([2.0, 7.0]), np.array([2.0])).tolist()
    [[2.0, -3.0]]
    """
    x, y = columns[None, :], rows[:, None]
    squared = np.full((len(rows), len(columns)), np.inf)
    inside = np.zeros(squared.shape, dtype=bool)
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        dx, dy = bx - ax, by - ay
        length = dx * dx + dy * dy
        # Position of the nearest point along the side, from 0 to 1.
        along = np.clip(((x - ax) * dx + (y - ay) * dy) / length, 0, 1) if length else 0.0
        np.minimum(squared, (x - ax - along * dx) ** 2 + (y - ay - along * dy) ** 2, out=squared)
        if dy:
            inside ^= ((ay > y) != (by > y)) & (x < ax + (y - ay) * dx / dy)
    distance: NDArray[np.float64] = np.where(inside, 1.0, -1.0) * np.sqrt(squared)
    return distance


def _check_boxes(name: str, boxes: NDArray[np.floating[Any]]) -> None:
    if boxes.shape[1:] not in ((4,), (4, 2)):
        raise InvalidArgumentError(f"Boxes of {name!r} have shape {boxes.shape}; (K, 4) or (K, 4, 2) is needed.")
    # The condition also rejects NaN.
    if not ((boxes >= 0) & (boxes <= 1)).all():
        raise InvalidArgumentError(f"Boxes of {name!r} are expected to take values between 0 and 1.")


def _scale_boxes(
    boxes: NDArray[np.floating[Any]], size: tuple[int, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return corners (K, 4, 2) in pixels, and the size (K,) of each box to compare with the minimum size of a box."""
    height, width = size
    if boxes.ndim == 3:
        corners = boxes.astype(np.float64) * (width, height)
        extent: NDArray[np.float64] = np.linalg.norm(corners[:, 2] - corners[:, 0], axis=1)
        return corners, extent
    whole = (boxes.astype(np.float64) * (width, height, width, height)).round()
    corners = whole[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]
    return corners, np.minimum(whole[:, 2] - whole[:, 0], whole[:, 3] - whole[:, 1])


def _draw(layers: TargetMaps, corners: NDArray[np.float64], extent: float, shrink_ratio: float) -> None:
    following = np.roll(corners, -1, axis=0)
    area = abs(np.sum(corners[:, 0] * following[:, 1] - corners[:, 1] * following[:, 0])) / 2
    perimeter = np.linalg.norm(following - corners, axis=1).sum()
    margin = area * (1 - shrink_ratio**2) / perimeter if perimeter else 0.0
    window, columns, rows = _window(corners, margin, layers.text.shape)
    distance = signed_distance(corners, columns, rows)
    kernel = distance >= margin - _HALF_PIXEL
    if extent < _MIN_BOX_SIZE or margin == 0 or not kernel.any():
        box, _, _ = _window(corners.round(), -_HALF_PIXEL, layers.text.shape)
        layers.known[box] = False
        return
    layers.kernel[window] |= kernel
    layers.text[window] |= distance >= -_HALF_PIXEL
    layers.border_known[window] |= distance >= -margin - _HALF_PIXEL
    border = (1 - np.abs(distance) / margin).clip(0, 1)
    np.maximum(layers.border[window], border, out=layers.border[window])


def _window(
    corners: NDArray[np.float64], margin: float, shape: tuple[int, ...]
) -> tuple[tuple[slice, slice], NDArray[np.float64], NDArray[np.float64]]:
    """Return slices of a map around a box with a margin, and the coordinates of the columns and rows in them."""
    left, top = np.maximum(np.floor(corners.min(axis=0) - margin - _HALF_PIXEL), 0).astype(int)
    right, bottom = np.minimum(np.ceil(corners.max(axis=0) + margin + _HALF_PIXEL), (shape[1] - 1, shape[0] - 1))
    columns, rows = np.arange(left, right + 1), np.arange(top, bottom + 1)
    return (slice(top, top + len(rows)), slice(left, left + len(columns))), columns, rows


def focal_loss(
    logits: torch.Tensor, target: torch.Tensor, mask: torch.Tensor, gamma: float = 2.0, alpha: float = 0.5
) -> torch.Tensor:
    """Return the focal loss (Lin et al., "Focal Loss for Dense Object Detection", 2017), averaged over the mask.

    ``logits`` are before the sigmoid, ``target`` is 0 or 1, ``mask`` is bool, all (N, C, H, W). ``gamma`` reduces the
    weight of confident pixels; text has the weight ``alpha``, and background ``1 - alpha``. The loss is 0 if the mask
    is empty.
    """
    if gamma < 0:
        raise InvalidArgumentError(f"gamma={gamma}: a number of at least 0 is needed.")
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    # The cross-entropy is minus the logarithm of the probability of the correct class.
    unsure = (1 - torch.exp(-entropy)) ** gamma
    weight = alpha * target + (1 - alpha) * (1 - target)
    return (weight * unsure * entropy * mask).sum() / mask.sum().clamp(min=1)


def dice_loss(probabilities: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return one minus the overlap of prediction and target, in [0, 1], averaged over the classes with known pixels.

    See Milletari et al., "V-Net", 2016. ``probabilities``, ``target`` (0 or 1) and ``mask`` (bool) are (N, C, H, W).
    """
    overlap = (mask * probabilities * target).sum((0, 2, 3))
    total = (mask * (probabilities + target)).sum((0, 2, 3))
    counts = mask.any(3).any(2).any(0)
    return ((1 - 2 * overlap / (total + _EPSILON)) * counts).sum() / counts.sum().clamp(min=1)


def masked_l1_loss(values: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean absolute difference over the masked pixels, or 0 if there are none."""
    return ((values - target).abs() * mask).sum() / mask.sum().clamp(min=1)


def hard_negative_mask(
    probabilities: torch.Tensor, target: torch.Tensor, mask: torch.Tensor, ratio: int = 3
) -> torch.Tensor:
    """Select all text pixels and, for each of them, the ``ratio`` hardest background pixels.

    See Shrivastava et al., "Training Region-based Object Detectors with Online Hard Example Mining", 2016. The result
    is a subset of ``mask``. If an image has no text of a class, all masked pixels of that class are selected.
    """
    chosen = mask.clone()
    for image, label in torch.nonzero((target & mask).flatten(2).any(2)).tolist():
        text, scores = target[image, label], probabilities[image, label].detach()
        background = scores[~text]
        count = min(ratio * int((text & mask[image, label]).sum()), background.numel())
        if count:
            hardest = background.topk(count).values[-1]
            chosen[image, label] &= text | (scores >= hardest)
    return chosen
