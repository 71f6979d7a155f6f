"""Losses of segmentation detectors. All stay finite, and differentiable, where nothing can be learned."""

from __future__ import annotations

import torch
import torch.nn.functional as F

__all__ = ["dice_loss", "focal_loss", "hard_negative_mask", "masked_l1_loss"]

_EPSILON = 1e-6


def focal_loss(
    logits: torch.Tensor, target: torch.Tensor, mask: torch.Tensor, gamma: float = 2.0, alpha: float = 0.5
) -> torch.Tensor:
    """Cross-entropy that counts pixels the less the surer they are (Lin et al., "Focal Loss for Dense Object
    Detection", 2017), mean over the masked pixels.

    Args:
        logits: Scores before the sigmoid, (N, C, H, W).
        target: 0 or 1, of the same shape and type.
        mask: Which pixels count, bool.
        gamma: How strongly sure pixels are played down, at least 0.
        alpha: Weight of text, in [0, 1]; background has the rest.

    Returns:
        A number; 0 where no pixel counts.
    """
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    # The entropy is minus the logarithm of the probability of what is true.
    unsure = (1 - torch.exp(-entropy)) ** gamma
    weight = alpha * target + (1 - alpha) * (1 - target)
    return (weight * unsure * entropy * mask).sum() / mask.sum().clamp(min=1)


def dice_loss(probabilities: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """One minus the overlap of prediction and target, mean over the classes that have something to learn
    (Milletari et al., "V-Net", 2016).

    Args:
        probabilities: (N, C, H, W) in [0, 1].
        target: 0 or 1, of the same shape.
        mask: Which pixels count, bool.

    Returns:
        A number in [0, 1]; 0 where no pixel counts.
    """
    overlap = (mask * probabilities * target).sum((0, 2, 3))
    total = (mask * (probabilities + target)).sum((0, 2, 3))
    counts = mask.any(3).any(2).any(0)
    return ((1 - 2 * overlap / (total + _EPSILON)) * counts).sum() / counts.sum().clamp(min=1)


def masked_l1_loss(values: torch.Tensor, target: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean absolute difference over the masked pixels; 0 where there is none."""
    return ((values - target).abs() * mask).sum() / mask.sum().clamp(min=1)


def hard_negative_mask(
    probabilities: torch.Tensor, target: torch.Tensor, mask: torch.Tensor, ratio: int = 3
) -> torch.Tensor:
    """Choose what counts when background is abundant: all text, and the background most taken for text
    (Shrivastava et al., "Training Region-based Object Detectors with Online Hard Example Mining", 2016).

    Args:
        probabilities: (N, C, H, W) in [0, 1].
        target: Where text is, bool, of the same shape.
        mask: Which pixels may count, bool.
        ratio: Background pixels for every pixel of text that counts.

    Returns:
        Bool (N, C, H, W), part of ``mask``; all of it for a class of an image without text.
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
