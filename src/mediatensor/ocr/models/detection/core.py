"""Post-processing of the maps that segmentation detectors compute."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import InvalidArgumentError
from .._maps.boxes import boxes_from_bitmap, boxes_from_map

__all__ = ["DetectionPostProcessor"]


class DetectionPostProcessor:
    """Boxes from probability maps; its attributes may be changed at any time.

    Args:
        box_thresh: Boxes with a lower score are left out.
        bin_thresh: Pixels of at least this probability are text.
        assume_straight_pages: Axis-aligned boxes; otherwise rectangles at any angle.

    Attributes:
        unclip_ratio: How far sides move outwards, as a factor of area over perimeter.

    >>> from mediatensor.ocr.models.detection.core import DetectionPostProcessor
    >>> DetectionPostProcessor(bin_thresh=0.3)
    DetectionPostProcessor(bin_thresh=0.3, box_thresh=0.5)
    """

    unclip_ratio: float = 1.5

    def __init__(self, box_thresh: float = 0.5, bin_thresh: float = 0.5, assume_straight_pages: bool = True) -> None:
        self.box_thresh = box_thresh
        self.bin_thresh = bin_thresh
        self.assume_straight_pages = assume_straight_pages

    def __repr__(self) -> str:
        return f"{type(self).__name__}(bin_thresh={self.bin_thresh}, box_thresh={self.box_thresh})"

    def bitmap_to_boxes(self, pred: NDArray[np.floating[Any]], bitmap: NDArray[np.generic]) -> NDArray[np.float64]:
        """Boxes of the regions of ``bitmap`` (H, W), scored by the probabilities ``pred`` (H, W).

        Returns:
            Relative boxes: straight (N, 5), otherwise (N, 5, 2); see :meth:`__call__`.
        """
        return boxes_from_bitmap(
            pred,
            bitmap.astype(bool),
            box_thresh=self.box_thresh,
            unclip_ratio=self.unclip_ratio,
            straight=self.assume_straight_pages,
        )

    def __call__(self, proba_map: NDArray[np.floating[Any]]) -> list[list[NDArray[np.float64]]]:
        """Boxes of every image and class.

        Args:
            proba_map: Probabilities in [0, 1], float (N, H, W, C).

        Returns:
            For each image a list with the boxes of each class, relative, float64: straight (K, 5) as xmin, ymin, xmax,
            ymax, score; otherwise (K, 5, 2), four corners clockwise from the top left, then (0, score).

        Raises:
            InvalidArgumentError: If ``proba_map`` has not four dimensions.
        """
        if proba_map.ndim != 4:
            raise InvalidArgumentError(f"proba_map has shape {proba_map.shape}; probabilities (N, H, W, C) are needed.")
        return [[self._boxes(image[..., index]) for index in range(image.shape[-1])] for image in proba_map]

    def _boxes(self, prob_map: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        return boxes_from_map(
            prob_map,
            bin_thresh=self.bin_thresh,
            box_thresh=self.box_thresh,
            unclip_ratio=self.unclip_ratio,
            straight=self.assume_straight_pages,
        )
