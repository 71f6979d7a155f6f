"""What everything that draws needs: a page as an array, geometries in pixels, colours."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import InvalidArgumentError

__all__ = ["Color", "as_picture", "confidence_color", "pixel_quad"]

Color = tuple[int, int, int]

# From doubtful to sure; also told apart by people who cannot tell red from green.
_CONFIDENCES = (0.0, 0.5, 0.8, 1.0)
_COLORS = ((255, 0, 0), (225, 40, 40), (235, 130, 0), (0, 70, 255))


def as_picture(image: NDArray[Any] | torch.Tensor) -> NDArray[np.uint8]:
    """The pixels of a page, for drawing.

    Args:
        image: Array (H, W), (H, W, 1) or (H, W, 3), or tensor (3, H, W) or (H, W, 3) on any device; uint8, or floats
            in [0, 1].

    Returns:
        Array (H, W, 3) uint8, possibly the input itself.

    Raises:
        InvalidArgumentError: if the shape or the dtype is another.
    """
    if isinstance(image, torch.Tensor):
        pixels = image.detach().cpu()
        pixels = pixels.permute(1, 2, 0) if pixels.ndim == 3 and pixels.shape[0] in (1, 3) else pixels
        image = (pixels.float() if pixels.dtype == torch.bfloat16 else pixels).numpy()
    if image.ndim == 2:
        image = image[..., None]
    if image.ndim != 3 or image.shape[2] not in (1, 3) or 0 in image.shape:
        raise InvalidArgumentError(
            f"a page must be an array (H, W, 3) or a tensor (3, H, W), not empty, got shape {tuple(image.shape)}"
        )
    if np.issubdtype(image.dtype, np.floating):
        image = np.rint(np.nan_to_num(image).clip(0, 1) * 255).astype(np.uint8)
    if image.dtype != np.uint8:
        raise InvalidArgumentError(f"a page must be uint8, or floats in [0, 1], got {image.dtype}")
    return np.broadcast_to(image, (*image.shape[:2], 3))


def pixel_quad(geometry: Any, size: tuple[int, int]) -> NDArray[np.float64]:
    """The corners of a geometry in pixels.

    Args:
        geometry: Relative, ``((xmin, ymin), (xmax, ymax))`` or four points in reading order; tuples, lists or array.
        size: Height and width of the page.

    Returns:
        Array (4, 2): top left, top right, bottom right, bottom left. Far outside of the page, it is cut off.

    Raises:
        InvalidArgumentError: if it is no such geometry.
    """
    try:
        points = np.array(geometry, dtype=np.float64)
    except (TypeError, ValueError):
        points = np.empty(0)
    if points.shape not in ((2, 2), (4, 2)) or not np.isfinite(points).all():
        raise InvalidArgumentError(
            f"invalid geometry format {geometry!r}: a geometry is two or four points of finite numbers"
        )
    if len(points) == 2:
        (left, top), (right, bottom) = points
        points = np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
    height, width = size
    pixels: NDArray[np.float64] = points.clip(-0.5, 1.5) * np.array([width, height])
    return pixels


def confidence_color(confidence: Any) -> Color:
    """Blue for 1, through orange, to red for 0.5 and less; grey for what is no number."""
    if not isinstance(confidence, float | int | np.floating) or not np.isfinite(confidence):
        return (128, 128, 128)
    red, green, blue = (round(np.interp(confidence, _CONFIDENCES, channel)) for channel in zip(*_COLORS, strict=True))
    return red, green, blue
