"""FAST: a small detector that finds text kernels, which are shrunken words.

For inference, its layers can be converted to ordinary convolutions; see `reparameterize`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from ...file_utils import CLASS_NAME
from .._networks.blocks import FeatureExtractor
from ..classification.textnet import FASTConvLayer, fuse_conv_norm, textnet_base, textnet_small, textnet_tiny
from .core import (
    DetectionPostProcessor,
    SegmentationDetector,
    Targets,
    build_detector,
    detector_cfg,
    dice_loss,
    draw_targets,
    hard_negative_mask,
)

__all__ = ["FAST", "FASTPostProcessor", "fast_base", "fast_small", "fast_tiny", "reparameterize"]

default_cfgs: dict[str, dict[str, Any]] = {
    "fast_tiny": detector_cfg("v0.8.1/fast_tiny-1acac421.pt", 84.9, 85.04, 93.73, 76.26),
    "fast_small": detector_cfg("v0.8.1/fast_small-10952cc1.pt", 85.36, 86.68, 94.09, 78.53),
    "fast_base": detector_cfg("v0.8.1/fast_base-688a8b34.pt", 84.95, 86.73, 94.39, 85.36),
}

_HEAD = ("prob_head.2.weight",)
_TEXT_WEIGHT = 0.5

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class FASTPostProcessor(DetectionPostProcessor):
    """Converts the probability maps of a `FAST` to boxes; the arguments are those of `DetectionPostProcessor`.

    Boxes are enlarged less than for other networks, because text has its full size in these maps.
    """

    unclip_ratio = 1.0

    def __init__(self, bin_thresh: float = 0.1, box_thresh: float = 0.1, assume_straight_pages: bool = True) -> None:
        super().__init__(box_thresh, bin_thresh, assume_straight_pages)


class FastNeck(nn.Module):
    """Resizes features of four resolutions to the finest one, and concatenates ``out_channels`` channels of each.

    ``in_channels`` is the number of channels of the finest features. Each coarser level has twice as many channels.
    """

    def __init__(self, in_channels: int, out_channels: int = 128) -> None:
        super().__init__()
        self.reduction = nn.ModuleList(FASTConvLayer(in_channels * scale, out_channels) for scale in (1, 2, 4, 8))

    def forward(self, features: Sequence[torch.Tensor]) -> torch.Tensor:
        """Merge ``features``, from fine to coarse, into (N, 4 * out_channels, H, W) at the finest resolution."""
        size = features[0].shape[-2:]
        reduced = [reduce(feature) for reduce, feature in zip(self.reduction, features, strict=True)]
        return torch.cat([reduced[0], *(F.interpolate(x, size=size, mode="bilinear") for x in reduced[1:])], dim=1)


class FAST(SegmentationDetector):
    """FAST, a text detector.

    See Chen et al., "FAST: Faster Arbitrarily-Shaped Text Detector with Minimalist Kernel Representation", 2021,
    https://arxiv.org/abs/2111.02394. The network predicts kernels, which are shrunken regions of text, and then
    enlarges them. The arguments that are not listed here are the same as for `DBNet`.

    Args:
        feat_extractor: The backbone, which returns four feature maps, at 1/4, 1/8, 1/16 and 1/32 of the images' height
            and width.
        dropout_prob: Dropout probability before the last layer.
        pooling_size: Size of the max pooling that enlarges the predicted text kernels to whole text regions, in pixels;
            must be a multiple of 4.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import fast_tiny
        >>> model = fast_tiny(pretrained_backbone=False).eval()
        >>> with torch.inference_mode():
        ...     found = model(torch.zeros(1, 3, 64, 64), return_model_output=True)
        >>> found["out_map"].shape
        torch.Size([1, 1, 64, 64])
    """

    shrink_ratio = 0.4

    def __init__(
        self,
        feat_extractor: FeatureExtractor,
        bin_thresh: float = 0.1,
        box_thresh: float = 0.1,
        dropout_prob: float = 0.1,
        pooling_size: int = 4,
        assume_straight_pages: bool = True,
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
        class_names: Sequence[str] = (CLASS_NAME,),
    ) -> None:
        super().__init__(FASTPostProcessor(bin_thresh, box_thresh, assume_straight_pages), exportable, cfg, class_names)
        self.feat_extractor = feat_extractor
        channels = feat_extractor.channels()
        width = channels[1]
        self.neck = FastNeck(channels[0], width)
        self.prob_head = nn.Sequential(
            FASTConvLayer(4 * width, width),
            nn.Dropout(dropout_prob),
            nn.Conv2d(width, len(self.class_names), 1, bias=False),
        )
        self.pooling = nn.MaxPool2d(pooling_size // 2 + 1, 1, padding=pooling_size // 4)
        self._initialize_all_but_backbone()

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return features (N, C, H / 4, W / 4) of images (N, 3, H, W), concatenated from all levels of the backbone."""
        joined: torch.Tensor = self.neck(self.feat_extractor(x))
        return joined

    def logits(self, features: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        """Return scores of kernels (shrunken text) before the sigmoid, (N, classes, H, W).

        Args:
            features: The result of the method `features` for images (N, 3, H, W).
            size: Height and width of the images, to which the scores are enlarged.
        """
        return F.interpolate(self.prob_head(features), size=size, mode="bilinear")

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """Enlarge kernels to the size of the text, and return probabilities of text, (N, classes, H, W).

        Args:
            logits: Scores of kernels before the sigmoid, (N, classes, H, W).
        """
        return super().probabilities(self.pooling(logits))

    def build_target(
        self, target: Targets, output_shape: tuple[int, int, int]
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.uint8]]:
        """Create the maps that the network is trained to predict. See `DBNet.build_target` for the arguments.

        Returns:
            Three maps, arrays (N, classes, H, W): regions of text (uint8, 0 or 1); pixels that count in the loss
            (bool); and the same regions after they were shrunken, which FAST calls kernels (uint8, 0 or 1).
        """
        maps = draw_targets(target, self.class_names, output_shape[1:], self.shrink_ratio)
        return maps.text.astype(np.uint8), maps.known, maps.kernel.astype(np.uint8)

    def compute_loss(self, out_map: torch.Tensor, target: Targets) -> torch.Tensor:
        """Return the dice loss for kernels plus half the dice loss for text.

        The loss for kernels is computed only on pixels of text. The loss for text is computed on the pixels of text,
        and on the background pixels with the highest probability of text, up to three for each pixel of text. See
        `DBNet.compute_loss` for the arguments and the result; ``out_map`` has scores of kernels.
        """
        shape = (out_map.shape[1], out_map.shape[2], out_map.shape[3])
        text, mask, kernels = (
            torch.from_numpy(drawn).to(out_map.device).bool() for drawn in self.build_target(target, shape)
        )
        scores = out_map.float()
        if len(self.class_names) > 1:
            kernel_map, text_map = torch.softmax(scores, dim=1), torch.softmax(self.pooling(scores), dim=1)
        else:
            kernel_map, text_map = torch.sigmoid(scores), torch.sigmoid(self.pooling(scores))
        text_loss = dice_loss(text_map, text.float(), hard_negative_mask(text_map, text, mask))
        return _TEXT_WEIGHT * text_loss + dice_loss(kernel_map, kernels.float(), text & mask)


@torch.no_grad()
def reparameterize(model: ModuleT) -> ModuleT:
    """Fuse parallel branches and batch normalizations of a trained model into single convolutions, in place.

    The model then computes the same results faster, but can only be used for inference. Returns the same model.

    >>> from mediatensor.ocr.models import fast_tiny, reparameterize
    >>> model = fast_tiny().eval()
    >>> before = sum(parameter.numel() for parameter in model.parameters())
    >>> round(sum(parameter.numel() for parameter in reparameterize(model).parameters()) / before, 2)
    0.63
    """
    for module in list(model.modules()):
        if isinstance(module, FASTConvLayer):
            module.reparameterize_layer()
    for parent in list(model.modules()):
        convolution: nn.Conv2d | None = None
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.BatchNorm2d) and convolution is not None:
                weight, bias = fuse_conv_norm(convolution.weight, convolution.bias, child)
                convolution.weight, convolution.bias = nn.Parameter(weight), nn.Parameter(bias)
                setattr(parent, name, nn.Identity())
            convolution = child if isinstance(child, nn.Conv2d) else None
    return model


_build = partial(build_detector, FAST, default_cfgs, ("3", "4", "5", "6"), _HEAD)


def fast_tiny(pretrained: bool = False, pretrained_backbone: bool = False, **kwargs: Any) -> FAST:
    """Return a FAST text detector with a TextNet-Tiny backbone.

    The network is in training mode. See `db_resnet34` for the arguments; ``**kwargs`` are passed to `FAST`.
    """
    return _build("fast_tiny", textnet_tiny, pretrained, pretrained_backbone, kwargs)


def fast_small(pretrained: bool = False, pretrained_backbone: bool = False, **kwargs: Any) -> FAST:
    """Return a FAST text detector with a TextNet-Small backbone. See `fast_tiny` for the arguments."""
    return _build("fast_small", textnet_small, pretrained, pretrained_backbone, kwargs)


def fast_base(pretrained: bool = False, pretrained_backbone: bool = False, **kwargs: Any) -> FAST:
    """Return a FAST text detector with a TextNet-Base backbone. See `fast_tiny` for the arguments."""
    return _build("fast_base", textnet_base, pretrained, pretrained_backbone, kwargs)
