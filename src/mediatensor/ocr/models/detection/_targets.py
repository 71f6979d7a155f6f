"""Draw boxes on maps, which are the training targets of detectors, and compute losses."""

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
    """The training targets for a batch of N images. Each field is a map (N, classes, H, W).

    Args:
        text: True inside boxes, bool.
        kernel: True inside shrunken boxes, bool.
        known: True for the pixels that count in the loss, bool. It is false in boxes that are too small to learn, and
            in the whole image if the class was not annotated in it.
        border: 1 on the outlines of boxes, float32. Inside and outside, the value falls with the distance from the
            outline. It reaches 0 at the distance by which boxes are shrunken.
        border_known: True inside boxes and up to this distance outside them, bool.
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
    """Draw the boxes of a batch of images on maps of ``size`` (height, width).

    ``target`` contains, for each image, the boxes of each class relative to the image, (K, 4) or (K, 4, 2). In some
    maps boxes are shrunken: their sides are moved inwards by ``(1 - shrink_ratio ** 2) * area / perimeter``, as in Liao
    et al., "Real-time Scene Text Detection with Differentiable Binarization", 2019.
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
    """Return the distance of points to the outline of a polygon, positive inside and negative outside, float64 (H, W).

    The points form a grid: ``columns`` (W,) are their x and ``rows`` (H,) their y coordinates. ``corners`` (K, 2) are
    the corners of the polygon in order. The polygon can be concave. If it crosses itself, the even-odd rule applies.

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
    """Convert relative boxes to corners in pixels, (K, 4, 2), and return them with the extent (K,) of each box.

    The extent is the shorter side of a straight box, and the diagonal of a quad. Callers ignore boxes with a small
    extent.
    """
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
    """Return the part of a map that contains a box and a ``margin`` around it, as slices of rows and columns.

    Also return the coordinates of the columns and rows in this part.
    """
    left, top = np.maximum(np.floor(corners.min(axis=0) - margin - _HALF_PIXEL), 0).astype(int)
    right, bottom = np.minimum(np.ceil(corners.max(axis=0) + margin + _HALF_PIXEL), (shape[1] - 1, shape[0] - 1))
    columns, rows = np.arange(left, right + 1), np.arange(top, bottom + 1)
    return (slice(top, top + len(rows)), slice(left, left + len(columns))), columns, rows


def focal_loss(
    logits: torch.Tensor, target: torch.Tensor, mask: torch.Tensor, gamma: float = 2.0, alpha: float = 0.5
) -> torch.Tensor:
    """Return the mean focal loss of the pixels in a mask (Lin et al., "Focal Loss for Dense Object Detection", 2017).

    ``logits`` are scores before the sigmoid, ``target`` is 1 for text and 0 for background, and ``mask`` is bool; all
    are (N, C, H, W). Greater values of ``gamma`` reduce the weight of pixels that are already classified with
    confidence. Text has the weight ``alpha`` and background ``1 - alpha``. The loss is 0 if the mask is empty.
    """
    if gamma < 0:
        raise InvalidArgumentError(f"gamma={gamma}: a number of at least 0 is needed.")
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    # The cross-entropy is minus the logarithm of the probability of the correct class.
    unsure = (1 - torch.exp(-entropy)) ** gamma
    weight = alpha * target + (1 - alpha) * (1 - target)
    return (weight * unsure * entropy * mask).sum() / mask.sum().clamp(min=1)


def dice_loss(probabilities: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return one minus the overlap of ``probabilities`` and ``target``, in [0, 1].

    See Milletari et al., "V-Net", 2016. The loss is the mean over the classes that have pixels in ``mask``.
    ``probabilities``, ``target`` (0 or 1) and ``mask`` (bool) are (N, C, H, W).
    """
    overlap = (mask * probabilities * target).sum((0, 2, 3))
    total = (mask * (probabilities + target)).sum((0, 2, 3))
    counts = mask.any(3).any(2).any(0)
    return ((1 - 2 * overlap / (total + _EPSILON)) * counts).sum() / counts.sum().clamp(min=1)


def masked_l1_loss(values: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean absolute difference over the pixels for which ``mask`` is true, or 0 if there are none."""
    return ((values - target).abs() * mask).sum() / mask.sum().clamp(min=1)


def hard_negative_mask(
    probabilities: torch.Tensor, target: torch.Tensor, mask: torch.Tensor, ratio: int = 3
) -> torch.Tensor:
    """Reduce ``mask`` to the pixels of text and the background pixels with the highest probability of text.

    The number of background pixels is at most ``ratio`` times the number of text pixels.

    If an image has no text of a class, the mask of that class is not reduced. See Shrivastava et al., "Training
    Region-based Object Detectors with Online Hard Example Mining", 2016.
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
