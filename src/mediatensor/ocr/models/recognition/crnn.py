"""CRNN: a convolutional backbone, two bidirectional LSTM layers along the width, and CTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from ....errors import InvalidArgumentError
from .._networks.blocks import evaluating
from ..classification.mobilenet import mobilenet_v3_large_r, mobilenet_v3_small_r
from ..classification.vgg import vgg16_bn_r
from .core import CTCModel, CTCPostProcessor, build_recognizer, recognition_cfg

__all__ = ["CRNN", "CTCPostProcessor", "crnn_mobilenet_v3_large", "crnn_mobilenet_v3_small", "crnn_vgg16_bn"]

default_cfgs: dict[str, dict[str, Any]] = {
    "crnn_vgg16_bn": recognition_cfg("v0.12.0/crnn_vgg16_bn-0417f351.pt", {"FUNSD": 88.21, "CORD": 95.47}),
    "crnn_mobilenet_v3_small": recognition_cfg(
        "v0.3.1/crnn_mobilenet_v3_small_pt-3b919a02.pt", {"FUNSD": 87.25, "CORD": 93.91}
    ),
    "crnn_mobilenet_v3_large": recognition_cfg(
        "v0.3.1/crnn_mobilenet_v3_large_pt-f5259ec2.pt", {"FUNSD": 87.38, "CORD": 94.46}
    ),
}

_HEAD = ("linear.weight", "linear.bias")


class CRNN(CTCModel):
    """CRNN (Shi et al., "An End-to-End Trainable Neural Network for Image-based Sequence Recognition", 2015).

    Images may have any width. With docTR's backbones, each of the T time steps covers 4 pixels of the width.

    Args:
        feature_extractor: The backbone, which maps images (N, 3, H, W) to features (N, C, H', T).
        vocab: The characters of the classes, in order.
        rnn_units: Number of LSTM units in each direction.
        input_shape: Channels, height and width of the images. All images must have this height, but can have any width.
        exportable: Whether ``forward`` returns only ``{"logits": ...}``, as required for export.
        cfg: Dictionary of preprocessing settings that predictors use: ``mean``, ``std`` and ``input_shape``.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import crnn_mobilenet_v3_small
        >>> model = crnn_mobilenet_v3_small(vocab="abc").eval()
        >>> out = model(torch.zeros(2, 3, 32, 128), return_model_output=True)
        >>> sorted(out), out["out_map"].shape
        (['out_map', 'preds'], torch.Size([2, 32, 4]))
    """

    def __init__(
        self,
        feature_extractor: nn.Module,
        vocab: str,
        rnn_units: int = 128,
        input_shape: tuple[int, int, int] = (3, 32, 128),
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(vocab, exportable, cfg)
        self.feat_extractor = feature_extractor
        with evaluating(feature_extractor):
            _, channels, height, _ = feature_extractor(torch.zeros(1, *input_shape)).shape
        self.decoder = nn.LSTM(channels * height, rnn_units, num_layers=2, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(2 * rnn_units, len(vocab) + 1)

    def score_layer(self) -> tuple[nn.Linear, int]:
        return self.linear, 0

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        features = self.feat_extractor(x)
        if features.shape[1] * features.shape[2] != self.decoder.input_size:
            raise InvalidArgumentError(
                f"images of height {x.shape[2]} give {features.shape[1] * features.shape[2]} features per step, but "
                f"this model was built for {self.decoder.input_size}; resize them, or build it with their input_shape"
            )
        sequence, _ = self.decoder(features.flatten(1, 2).transpose(1, 2))
        scores: torch.Tensor = self.linear(sequence)
        return scores


def _crnn(arch: str, pretrained: bool, backbone: Callable[..., nn.Module], kwargs: dict[str, Any]) -> CRNN:
    def make_features(is_pretrained: bool, _: Sequence[int]) -> nn.Module:
        return backbone(pretrained=is_pretrained).get_submodule("features")

    return build_recognizer(CRNN, arch, default_cfgs[arch], make_features, _HEAD, pretrained, kwargs)


def crnn_vgg16_bn(pretrained: bool = False, **kwargs: Any) -> CRNN:
    """Return a CRNN with a VGG-16 backbone, docTR's default text recogniser.

    The network is in training mode.

    Args:
        pretrained: Load docTR's weights from a file on this machine; see `find_weights`. If ``vocab`` is not the
            default, the weights of the layer that scores characters are not loaded.
        **kwargs: Arguments of `CRNN`, except ``feature_extractor`` and ``cfg``. By default, ``vocab`` is docTR's French
            vocabulary. ``pretrained_backbone=True`` loads only the weights of the backbone.

    Raises:
        WeightsNotFoundError: Weights are requested, but the file is not on this machine. The message says where to put
            it.
    """
    return _crnn("crnn_vgg16_bn", pretrained, vgg16_bn_r, kwargs)


def crnn_mobilenet_v3_small(pretrained: bool = False, **kwargs: Any) -> CRNN:
    """Return the smallest and fastest CRNN (MobileNetV3-Small). See `crnn_vgg16_bn` for the arguments."""
    return _crnn("crnn_mobilenet_v3_small", pretrained, mobilenet_v3_small_r, kwargs)


def crnn_mobilenet_v3_large(pretrained: bool = False, **kwargs: Any) -> CRNN:
    """Return a CRNN with a large MobileNetV3. See `crnn_vgg16_bn` for the arguments."""
    return _crnn("crnn_mobilenet_v3_large", pretrained, mobilenet_v3_large_r, kwargs)
