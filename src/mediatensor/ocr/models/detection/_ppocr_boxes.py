"""From the map of PP-OCR's detector to the boxes of lines, and the loss that trains the map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ._losses import dice_loss, focal_loss
from ._postprocessing import boxes_from_bitmap
from ._targets import draw_targets

__all__ = ["PPOCRPostProcessor", "text_region_loss"]

Targets = list[dict[str, npt.NDArray[np.floating[Any]]]]

UNCLIP_RATIO = 1.6
"""The network marks lines that are shrunk; PaddleOCR's value."""


class PPOCRPostProcessor:
    """Boxes of lines from probabilities.

    Args:
        box_thresh: Mean probability from which a line is one.
        bin_thresh: Probability from which a pixel belongs to a line.
        assume_straight_pages: Straight boxes; else rotated ones.
    """

    def __init__(self, box_thresh: float = 0.5, bin_thresh: float = 0.3, assume_straight_pages: bool = True) -> None:
        self.box_thresh = box_thresh
        self.bin_thresh = bin_thresh
        self.assume_straight_pages = assume_straight_pages

    def __call__(self, proba_map: npt.NDArray[np.floating]) -> list[list[npt.NDArray[np.float64]]]:
        """Boxes of each map of each page.

        Args:
            proba_map: (N, H, W, C) in [0, 1].

        Returns:
            Per page, per class, relative boxes (K, 5), or (K, 5, 2) where pages are not assumed straight.
        """
        return [
            [self.boxes(page[..., index], self.assume_straight_pages) for index in range(page.shape[-1])]
            for page in proba_map
        ]

    def boxes(self, proba_map: npt.NDArray[np.floating], straight: bool) -> npt.NDArray[np.float64]:
        """Boxes of one map (H, W): relative, (K, 5), or (K, 5, 2) where not ``straight``."""
        text = proba_map > self.bin_thresh
        # As PaddleOCR does: each pixel also marks those to its right and below, which closes hairline gaps.
        grown = text.copy()
        grown[1:] |= text[:-1]
        grown[:, 1:] |= grown[:, :-1]
        return boxes_from_bitmap(
            proba_map, grown, box_thresh=self.box_thresh, unclip_ratio=UNCLIP_RATIO, straight=straight, clip=straight
        )


def text_region_loss(
    logits: torch.Tensor, target: Targets, class_names: Sequence[str], shrink_ratio: float = 0.4
) -> torch.Tensor:
    """What the map of shrunken lines is trained with: ten times the focal loss, and the dice loss.

    The terms of the probability map in "Real-time Scene Text Detection with Differentiable Binarization" (Liao et al.,
    2020); the fused network has no threshold map.

    Args:
        logits: Scores before the sigmoid, (N, 1, H, W).
        target: Per page, class name to relative boxes (K, 4) or (K, 4, 2).
        class_names: In the order of the maps.
        shrink_ratio: By how much boxes are shrunken, see :func:`draw_targets`.

    Returns:
        A number.
    """
    maps = draw_targets(target, class_names, (logits.shape[2], logits.shape[3]), shrink_ratio)
    text = torch.from_numpy(maps.kernel).to(logits)
    mask = torch.from_numpy(maps.known).to(logits.device)
    return 10 * focal_loss(logits, text, mask) + dice_loss(torch.sigmoid(logits), text, mask)
