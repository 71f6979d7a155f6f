"""DBNet: a detector that computes a probability map and, in training, also a threshold map.

The loss combines both into a text map with sharp edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ....errors import InvalidArgumentError
from ...file_utils import CLASS_NAME
from .._networks.blocks import FeatureExtractor, conv_sequence_pt
from ..classification.mobilenet import mobilenet_v3_large
from ..classification.resnet import resnet34, resnet50
from .core import (
    RESNET_LAYERS,
    DetectionPostProcessor,
    SegmentationDetector,
    Targets,
    build_detector,
    detector_cfg,
    dice_loss,
    draw_targets,
    focal_loss,
    masked_l1_loss,
)

__all__ = ["DBNet", "DBPostProcessor", "db_mobilenet_v3_large", "db_resnet34", "db_resnet50"]

default_cfgs: dict[str, dict[str, Any]] = {
    "db_resnet50": detector_cfg("v0.7.0/db_resnet50-79bd7d70.pt", 83.56, 86.68, 92.61, 86.39),
    "db_resnet34": detector_cfg("v0.7.0/db_resnet34-cb6aed9e.pt", 82.76, 76.75, 89.2, 71.74),
    "db_mobilenet_v3_large": detector_cfg("v0.8.1/db_mobilenet_v3_large-21748dd0.pt", 82.69, 84.63, 94.51, 70.28),
}

_HEAD = ("prob_head.6.weight", "prob_head.6.bias", "thresh_head.6.weight", "thresh_head.6.bias")
_FOCAL_WEIGHT = 10.0
_SHARPNESS = 50.0


class DBPostProcessor(DetectionPostProcessor):
    """Converts the probability maps of a `DBNet` to boxes; the arguments are those of `DetectionPostProcessor`."""

    def __init__(self, box_thresh: float = 0.1, bin_thresh: float = 0.3, assume_straight_pages: bool = True) -> None:
        super().__init__(box_thresh, bin_thresh, assume_straight_pages)


class FeaturePyramidNetwork(nn.Module):
    """Merges feature maps of several resolutions into one map of the finest resolution.

    Coarser features are first added to finer ones. ``in_channels`` are the numbers of channels of the feature maps,
    from fine to coarse. Each map has half the resolution of the map before it.
    """

    def __init__(self, in_channels: Sequence[int], out_channels: int) -> None:
        super().__init__()
        self.in_branches = nn.ModuleList(_conv_norm(channels, out_channels, 1) for channels in in_channels)
        self.upsample = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.out_branches = nn.ModuleList(
            _conv_norm(out_channels, out_channels // len(in_channels), 3).append(
                nn.Upsample(scale_factor=2**level, mode="bilinear", align_corners=True)
            )
            for level in range(len(in_channels))
        )

    def forward(self, features: Sequence[torch.Tensor]) -> torch.Tensor:
        """Merge features into a map (N, out_channels, H, W).

        ``features`` are in order from fine to coarse: (N, C, H / 2 ** level, W / 2 ** level).
        """
        levels = [branch(feature) for branch, feature in zip(self.in_branches, features, strict=True)]
        for level in reversed(range(len(levels) - 1)):
            levels[level] = levels[level] + self.upsample(levels[level + 1])
        return torch.cat([branch(level) for branch, level in zip(self.out_branches, levels, strict=True)], dim=1)


class DBNet(SegmentationDetector):
    """DBNet, a text detector.

    See Liao et al., "Real-time Scene Text Detection with Differentiable Binarization", 2019,
    https://arxiv.org/abs/1911.08947.

    Args:
        feat_extractor: The backbone, which returns four feature maps, at 1/4, 1/8, 1/16 and 1/32 of the images' height
            and width.
        head_chans: Channels of the merged features.
        deform_conv: Must be False: deformable convolutions are not supported.
        bin_thresh: Pixels of at least this probability, in [0, 1], are text.
        box_thresh: Boxes with a lower score, in [0, 1], are dropped.
        assume_straight_pages: Return axis-aligned boxes; otherwise return rectangles at any angle.
        exportable: Whether ``forward`` returns only ``{"logits": ...}``, as required for export.
        cfg: Dictionary of preprocessing settings that predictors use: ``mean``, ``std`` and ``input_shape``.
        class_names: Names of the classes of text to detect. Each class has its own probability map.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import db_mobilenet_v3_large
        >>> model = db_mobilenet_v3_large(pretrained_backbone=False).eval()
        >>> with torch.inference_mode():
        ...     found = model(torch.zeros(1, 3, 64, 64), return_model_output=True)
        >>> found["out_map"].shape
        torch.Size([1, 1, 64, 64])
    """

    shrink_ratio = 0.4
    thresh_min = 0.3
    thresh_max = 0.7

    def __init__(
        self,
        feat_extractor: FeatureExtractor,
        head_chans: int = 256,
        deform_conv: bool = False,
        bin_thresh: float = 0.3,
        box_thresh: float = 0.1,
        assume_straight_pages: bool = True,
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
        class_names: Sequence[str] = (CLASS_NAME,),
    ) -> None:
        if deform_conv:
            raise InvalidArgumentError("deform_conv=True is not available: use ordinary convolutions (False).")
        super().__init__(DBPostProcessor(box_thresh, bin_thresh, assume_straight_pages), exportable, cfg, class_names)
        self.feat_extractor = feat_extractor
        self.fpn = FeaturePyramidNetwork(feat_extractor.channels(), head_chans)
        self.prob_head = _head(head_chans, len(self.class_names))
        self.thresh_head = _head(head_chans, len(self.class_names))
        self._initialize_all_but_backbone()

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return features (N, head_chans, H / 4, W / 4) of images (N, 3, H, W), merged from all levels."""
        pyramid: torch.Tensor = self.fpn(self.feat_extractor(x))
        return pyramid

    def logits(self, features: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        """Return scores of text before the sigmoid, (N, classes, H, W).

        Args:
            features: The result of the method `features` for images (N, 3, H, W).
            size: Not used, because the scores have four times the size of the features.
        """
        scores: torch.Tensor = self.prob_head(features)
        return scores

    def loss(self, features: torch.Tensor, logits: torch.Tensor, target: Targets) -> torch.Tensor:
        """Compute the threshold map from ``features``, and return the result of `compute_loss`, a scalar.

        Args:
            features: The result of the method `features`.
            logits: The result of `logits`.
            target: As for `build_target`.
        """
        return self.compute_loss(logits, self.thresh_head(features), target)

    def build_target(
        self, target: Targets, output_shape: tuple[int, int, int]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float32], NDArray[np.bool_]]:
        """Create the maps that the network is trained to predict for a batch of images.

        Args:
            target: For each image, a dictionary that maps class names to boxes: (K, 4), as xmin, ymin, xmax, ymax, or
                four corners (K, 4, 2), in fractions of the image's width and height.
            output_shape: Number of classes, height and width of the maps.

        Returns:
            Four arrays (N, classes, H, W): the shrunken text (float32, 0 or 1); the pixels at which the text counts in
            the loss (bool); the thresholds (float32); the pixels at which the thresholds count in the loss (bool).
        """
        maps = draw_targets(target, self.class_names, output_shape[1:], self.shrink_ratio)
        thresholds = self.thresh_min + (self.thresh_max - self.thresh_min) * maps.border
        return maps.kernel.astype(np.float32), maps.known, thresholds.astype(np.float32), maps.border_known

    def compute_loss(
        self,
        out_map: torch.Tensor,
        thresh_map: torch.Tensor,
        target: Targets,
        gamma: float = 2.0,
        alpha: float = 0.5,
    ) -> torch.Tensor:
        """Return the loss of a text map and a threshold map.

        The loss is the sum of three terms: ten times the focal loss of the text map, the dice loss of the binarised
        text map, and the mean absolute error of the threshold map.

        Args:
            out_map: Scores of text before the sigmoid, (N, classes, H, W).
            thresh_map: Scores of thresholds before the sigmoid, (N, classes, H, W).
            target: As for `build_target`.
            gamma: Exponent of the focal loss, at least 0. Greater values reduce the weight of pixels that are already
                classified with confidence.
            alpha: Weight of text, in [0, 1]. Background has the weight ``1 - alpha``.

        Returns:
            The loss, a scalar tensor. It is 0 if all pixels are ignored, for example because no class is annotated.
        """
        shape = (out_map.shape[1], out_map.shape[2], out_map.shape[3])
        text, text_mask, thresholds, thresholds_mask = (
            torch.from_numpy(drawn).to(out_map.device) for drawn in self.build_target(target, shape)
        )
        scores, border = out_map.float(), torch.sigmoid(thresh_map.float())
        if len(self.class_names) > 1:
            sharp = torch.softmax(scores, dim=1)
        else:
            sharp = torch.sigmoid(_SHARPNESS * (torch.sigmoid(scores) - border))
        return (
            _FOCAL_WEIGHT * focal_loss(scores, text, text_mask, gamma, alpha)
            + dice_loss(sharp, text, text_mask)
            + masked_l1_loss(border, thresholds, thresholds_mask)
        )


def _conv_norm(in_channels: int, out_channels: int, kernel: int) -> nn.Sequential:
    layers = conv_sequence_pt(in_channels, out_channels, True, True, kernel_size=kernel, padding=kernel // 2)
    return nn.Sequential(*layers)


def _head(channels: int, num_classes: int) -> nn.Sequential:
    """Return layers that map the merged features to scores at four times their resolution."""
    reduced = channels // 4
    return nn.Sequential(
        *_conv_norm(channels, reduced, 3),
        nn.ConvTranspose2d(reduced, reduced, 2, 2, bias=False),
        nn.BatchNorm2d(reduced),
        nn.ReLU(inplace=True),
        nn.ConvTranspose2d(reduced, num_classes, 2, 2),
    )


_build = partial(build_detector, DBNet, default_cfgs, RESNET_LAYERS, _HEAD)


def db_resnet34(pretrained: bool = False, pretrained_backbone: bool = False, **kwargs: Any) -> DBNet:
    """Return a DBNet with a ResNet-34 backbone.

    The network is in training mode.

    Args:
        pretrained: Load docTR's weights from a file on this machine; see `find_weights`.
        pretrained_backbone: Load only the weights of the backbone. It has no effect if ``pretrained`` is true.
        **kwargs: Arguments of `DBNet`, except ``feat_extractor`` and ``cfg``. The network sorts
            ``class_names``.

    Raises:
        WeightsNotFoundError: Weights are requested, but the file is not on this machine.
    """
    return _build("db_resnet34", resnet34, pretrained, pretrained_backbone, kwargs)


def db_resnet50(pretrained: bool = False, pretrained_backbone: bool = False, **kwargs: Any) -> DBNet:
    """Return a DBNet with a ResNet-50 backbone. See `db_resnet34` for the arguments."""
    return _build("db_resnet50", resnet50, pretrained, pretrained_backbone, kwargs)


def db_mobilenet_v3_large(pretrained: bool = False, pretrained_backbone: bool = False, **kwargs: Any) -> DBNet:
    """Return a DBNet with a MobileNetV3-Large backbone. See `db_resnet34` for the arguments."""

    def make_backbone(is_pretrained: bool) -> nn.Module:
        return mobilenet_v3_large(is_pretrained).features

    arch, layers = "db_mobilenet_v3_large", ("3", "6", "12", "16")
    return build_detector(
        DBNet, default_cfgs, layers, _HEAD, arch, make_backbone, pretrained, pretrained_backbone, kwargs
    )
