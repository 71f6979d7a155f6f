"""Recognition networks of a few weights, with the architectures of the large ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mediatensor.ocr.models.classification.vit import VisionTransformer
from mediatensor.ocr.models.recognition import CRNN, MASTER, SAR, VIPTR, PARSeq, ViTSTR
from mediatensor.ocr.models.recognition.core import BackboneFeatures

__all__ = [
    "VOCAB",
    "SmallFeatures",
    "small_crnn",
    "small_master",
    "small_parseq",
    "small_sar",
    "small_viptr",
    "small_vitstr",
]

VOCAB = "abcdefgh"


def small_crnn(vocab: str = VOCAB, **kwargs: Any) -> CRNN:
    return CRNN(nn.Conv2d(3, 16, (16, 4), stride=(16, 4)), vocab, rnn_units=16, input_shape=(3, 16, 64), **kwargs)


def small_features() -> BackboneFeatures:
    return BackboneFeatures(VisionTransformer(24, 2, 2, 2, patch_size=(4, 8), input_shape=(3, 16, 64)), (0, 1))


def small_vitstr(**kwargs: Any) -> ViTSTR:
    return ViTSTR(small_features(), VOCAB, 24, max_length=8, **kwargs)


def small_parseq(vocab: str = VOCAB, **kwargs: Any) -> PARSeq:
    return PARSeq(small_features(), vocab, 24, max_length=8, dec_num_heads=2, dec_ff_dim=24, **kwargs)


class SmallFeatures(nn.Module):
    """A convolution; ``rows`` are kept, or averaged over."""

    def __init__(self, keep_rows: bool) -> None:
        super().__init__()
        self.keep_rows = keep_rows
        self.conv = nn.Conv2d(3, 24, (8, 4), stride=(8, 4))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        features = self.conv(x)
        return {"features": features if self.keep_rows else features.mean(dim=2).transpose(1, 2)}


def small_viptr(**kwargs: Any) -> VIPTR:
    return VIPTR(SmallFeatures(False), VOCAB, embedding_units=24, **kwargs)


def small_sar(**kwargs: Any) -> SAR:
    sizes = {"rnn_units": 24, "embedding_units": 24, "attention_units": 8, "max_length": 8}
    return SAR(SmallFeatures(True), VOCAB, **sizes, **kwargs)


def small_master(**kwargs: Any) -> MASTER:
    sizes = {"d_model": 24, "dff": 48, "num_heads": 2, "num_layers": 1, "max_length": 10}
    return MASTER(SmallFeatures(True), VOCAB, **sizes, **kwargs)
