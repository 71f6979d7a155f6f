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
from .core import DetectionPostProcessor

__all__ = ["PPOCRPostProcessor", "text_region_loss"]

Targets = list[dict[str, npt.NDArray[np.floating[Any]]]]


class PPOCRPostProcessor(DetectionPostProcessor):
    """Boxes of lines from probabilities.

    Args:
        box_thresh: Mean probability from which a line is one.
        bin_thresh: Probability above which a pixel belongs to a line.
        assume_straight_pages: Straight boxes; else rotated ones.
    """

    # The network marks lines that are shrunk; PaddleOCR's value.
    unclip_ratio = 1.6

    def boxes(self, proba_map: npt.NDArray[np.floating], straight: bool) -> npt.NDArray[np.float64]:
        """Boxes of one map (H, W): relative, (K, 5), or (K, 5, 2) where not ``straight``."""
        text = proba_map > self.bin_thresh
        # As PaddleOCR does: each pixel also marks those to its right and below, which closes hairline gaps.
        grown = text.copy()
        grown[1:] |= text[:-1]
        grown[:, 1:] |= grown[:, :-1]
        return boxes_from_bitmap(
            proba_map,
            grown,
            box_thresh=self.box_thresh,
            unclip_ratio=self.unclip_ratio,
            straight=straight,
            clip=straight,
        )

    def _boxes(self, prob_map: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        return self.boxes(prob_map, self.assume_straight_pages)


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
