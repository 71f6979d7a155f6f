"""LinkNet: a detector with a residual backbone. Its decoder adds the backbone's features at each resolution."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...file_utils import CLASS_NAME
from .._networks.blocks import FeatureExtractor, conv_sequence_pt
from ..classification.resnet import resnet18, resnet34, resnet50
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
)

__all__ = ["LinkNet", "LinkNetPostProcessor", "linknet_resnet18", "linknet_resnet34", "linknet_resnet50"]

default_cfgs: dict[str, dict[str, Any]] = {
    "linknet_resnet18": detector_cfg("v0.7.0/linknet_resnet18-e47a14dc.pt", 81.64, 85.52, 88.92, 82.74),
    "linknet_resnet34": detector_cfg("v0.7.0/linknet_resnet34-9ca2df3e.pt", 81.62, 82.95, 86.26, 81.06),
    "linknet_resnet50": detector_cfg("v0.7.0/linknet_resnet50-6cf565c1.pt", 81.78, 82.47, 87.29, 85.54),
}

_HEAD = ("classifier.6.weight", "classifier.6.bias")


class LinkNetPostProcessor(DetectionPostProcessor):
    """Converts the probability maps of a `LinkNet` to boxes; the arguments are those of `DetectionPostProcessor`."""

    def __init__(self, bin_thresh: float = 0.1, box_thresh: float = 0.1, assume_straight_pages: bool = True) -> None:
        super().__init__(box_thresh, bin_thresh, assume_straight_pages)


class LinkNetFPN(nn.Module):
    """The decoder: upsamples the coarsest features step by step, and adds the backbone's features at each level."""

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        outputs = [channels[0], *channels[:-1]]
        self.decoders = nn.ModuleList(
            _decoder(width, output, stride=1 if level == 0 else 2)
            for level, (width, output) in enumerate(zip(channels, outputs, strict=True))
        )

    def forward(self, features: Sequence[torch.Tensor]) -> torch.Tensor:
        """Decode ``features`` (from fine to coarse) to a map with the size and channels of the finest features."""
        x = features[-1]
        for level in range(len(features) - 1, 0, -1):
            x = self.decoders[level](x) + features[level - 1]
        finest: torch.Tensor = self.decoders[0](x)
        return finest


class LinkNet(SegmentationDetector):
    """LinkNet, a text detector.

    See Chaurasia and Culurciello, "LinkNet: Exploiting Encoder Representations for Efficient Semantic Segmentation",
    2017, https://arxiv.org/abs/1707.03718. The arguments that are not listed here are the same as for `DBNet`.

    Args:
        feat_extractor: The backbone, which returns four feature maps, at 1/4, 1/8, 1/16 and 1/32 of the images' height
            and width.
        head_chans: Channels of the hidden layers between the decoder and the scores.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import linknet_resnet18
        >>> model = linknet_resnet18(pretrained_backbone=False).eval()
        >>> with torch.inference_mode():
        ...     found = model(torch.zeros(1, 3, 64, 64), return_model_output=True)
        >>> found["out_map"].shape
        torch.Size([1, 1, 64, 64])
    """

    shrink_ratio = 0.5

    def __init__(
        self,
        feat_extractor: FeatureExtractor,
        bin_thresh: float = 0.1,
        box_thresh: float = 0.1,
        head_chans: int = 32,
        assume_straight_pages: bool = True,
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
        class_names: Sequence[str] = (CLASS_NAME,),
    ) -> None:
        postprocessor = LinkNetPostProcessor(bin_thresh, box_thresh, assume_straight_pages)
        super().__init__(postprocessor, exportable, cfg, class_names)
        self.feat_extractor = feat_extractor
        channels = feat_extractor.channels()
        self.fpn = LinkNetFPN(channels)
        self.classifier = nn.Sequential(
            nn.ConvTranspose2d(channels[0], head_chans, 3, 2, padding=1, output_padding=1, bias=False),
            nn.BatchNorm2d(head_chans),
            nn.ReLU(inplace=True),
            *conv_sequence_pt(head_chans, head_chans, True, True, kernel_size=3, padding=1),
            nn.ConvTranspose2d(head_chans, len(self.class_names), 2, 2),
        )
        self._initialize_all_but_backbone()

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the decoder's output, (N, C, H / 4, W / 4), for images (N, 3, H, W)."""
        decoded: torch.Tensor = self.fpn(self.feat_extractor(x))
        return decoded

    def logits(self, features: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        """Return scores of text before the sigmoid, (N, classes, H, W). See `DBNet.logits` for the arguments."""
        scores: torch.Tensor = self.classifier(features)
        return scores

    def build_target(
        self, target: Targets, output_shape: tuple[int, int, int]
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Create the maps that the network is trained to predict. See `DBNet.build_target` for the arguments.

        Returns:
            A pair of arrays (N, classes, H, W): shrunken text (uint8, 0 or 1), and the pixels that count in the loss
            (bool).
        """
        maps = draw_targets(target, self.class_names, output_shape[1:], self.shrink_ratio)
        return maps.kernel.astype(np.uint8), maps.known

    def compute_loss(
        self, out_map: torch.Tensor, target: Targets, gamma: float = 2.0, alpha: float = 0.5
    ) -> torch.Tensor:
        """Return the focal loss plus the dice loss of a text map.

        See `DBNet.compute_loss` for the arguments and the result.
        """
        shape = (out_map.shape[1], out_map.shape[2], out_map.shape[3])
        drawn, known = self.build_target(target, shape)
        scores = out_map.float()
        text, mask = torch.from_numpy(drawn).to(scores), torch.from_numpy(known).to(scores.device)
        overlapping = torch.softmax(scores, dim=1) if len(self.class_names) > 1 else torch.sigmoid(scores)
        return focal_loss(scores, text, mask, gamma, alpha) + dice_loss(overlapping, text, mask)


def _decoder(in_channels: int, out_channels: int, stride: int) -> nn.Sequential:
    reduced = in_channels // 4
    return nn.Sequential(
        *conv_sequence_pt(in_channels, reduced, True, True, kernel_size=1),
        nn.ConvTranspose2d(reduced, reduced, 3, stride, padding=1, output_padding=stride - 1, bias=False),
        nn.BatchNorm2d(reduced),
        nn.ReLU(inplace=True),
        *conv_sequence_pt(reduced, out_channels, True, True, kernel_size=1),
    )


_build = partial(build_detector, LinkNet, default_cfgs, RESNET_LAYERS, _HEAD)


def linknet_resnet18(pretrained: bool = False, pretrained_backbone: bool = False, **kwargs: Any) -> LinkNet:
    """Return a LinkNet text detector with a ResNet-18 backbone.

    The network is in training mode. See `db_resnet34` for the arguments; ``**kwargs`` are passed to `LinkNet`.
    """
    return _build("linknet_resnet18", resnet18, pretrained, pretrained_backbone, kwargs)


def linknet_resnet34(pretrained: bool = False, pretrained_backbone: bool = False, **kwargs: Any) -> LinkNet:
    """Return a LinkNet text detector with a ResNet-34 backbone. See `linknet_resnet18` for the arguments."""
    return _build("linknet_resnet34", resnet34, pretrained, pretrained_backbone, kwargs)


def linknet_resnet50(pretrained: bool = False, pretrained_backbone: bool = False, **kwargs: Any) -> LinkNet:
    """Return a LinkNet text detector with a ResNet-50 backbone. See `linknet_resnet18` for the arguments."""
    return _build("linknet_resnet50", resnet50, pretrained, pretrained_backbone, kwargs)
