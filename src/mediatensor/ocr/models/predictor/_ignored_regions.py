"""Parts of every page in which text is not looked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ....errors import InvalidArgumentError

__all__ = ["IgnoredRegion", "checked_regions", "without_regions"]

IgnoredRegion = Sequence[float]
"""xmin, ymin, xmax, ymax, relative to the page."""


def checked_regions(regions: Sequence[IgnoredRegion] | None) -> npt.NDArray[np.float64]:
    """The regions as an array (N, 4).

    Raises:
        InvalidArgumentError: They are no boxes, not relative, or reversed.
    """
    try:
        boxes = np.array([] if regions is None else list(regions), dtype=np.float64).reshape(-1, 4)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"ignore_regions={regions!r}: give boxes (xmin, ymin, xmax, ymax) relative to the page. Names of layout "
            "classes need a layout model, which is not available."
        ) from None
    if not ((boxes >= 0) & (boxes <= 1)).all():
        raise InvalidArgumentError(f"ignore_regions={regions!r}: coordinates are relative, in [0, 1].")
    # One without area, as a detection that was cut at the border may be, hides nothing.
    if not (boxes[:, :2] <= boxes[:, 2:]).all():
        raise InvalidArgumentError(
            f"ignore_regions={regions!r}: boxes are (xmin, ymin, xmax, ymax), xmin <= xmax, ymin <= ymax."
        )
    return boxes


def without_regions(image: Tensor, regions: npt.NDArray[np.float64]) -> Tensor:
    """The page (3, H, W), white in the regions: a copy, if there are any."""
    if not len(regions):
        return image
    image = image.clone()
    height, width = image.shape[1:]
    for left, top, right, bottom in (regions * (width, height, width, height)).round().astype(int):
        image[:, top:bottom, left:right] = 255 if image.dtype == torch.uint8 else 1
    return image
