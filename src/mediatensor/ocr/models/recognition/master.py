"""MASTER: a convolutional backbone with global attention, and a transformer that decodes character by character."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from .._networks.blocks import MultiHeadAttention, PositionwiseFeedForward
from .._networks.transfers import have_all_ended
from ..classification.magc_resnet import magc_resnet31
from .core import (
    RESNET31_LAYERS,
    BackboneFeatures,
    LeastCertainPostProcessor,
    RecognitionModel,
    build_recognizer,
    encode_with_marks,
    masked_cross_entropy,
    recognition_cfg,
)

__all__ = ["MASTER", "MASTERPostProcessor", "master"]

default_cfgs: dict[str, dict[str, Any]] = {
    "master": recognition_cfg("v0.7.0/master-fde31e4a.pt", {"FUNSD": 88.57, "CORD": 95.73}),
}

_HEAD = ("decoder.embed.weight", "linear.weight", "linear.bias")


class MASTERPostProcessor(LeastCertainPostProcessor):
    """Decodes the scores of `MASTER` into words; see `LeastCertainPostProcessor`."""


class PositionalEncoding(nn.Module):
    """Adds sines and cosines that encode the positions of a sequence (Vaswani et al., 2017, section 3.5)."""

    pe: torch.Tensor

    def __init__(self, d_model: int, dropout: float, max_len: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        rates = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        angles = torch.arange(max_len)[:, None] * rates
        self.register_buffer("pe", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add position encodings to features (N, L, D)."""
        placed: torch.Tensor = self.dropout(x + self.pe[:, : x.shape[1]])
        return placed


class Decoder(nn.Module):
    """A stack of pre-norm transformer decoder layers that share their normalization layers."""

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        d_model: int,
        vocab_size: int,
        dropout: float,
        dff: int,
        maximum_position_encoding: int,
    ) -> None:
        super().__init__()
        self.layer_norm_input = nn.LayerNorm(d_model)
        self.layer_norm_masked_attention = nn.LayerNorm(d_model)
        self.layer_norm_attention = nn.LayerNorm(d_model)
        self.layer_norm_output = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.embed = nn.Embedding(vocab_size, d_model)
        self.positional_encoding = PositionalEncoding(d_model, dropout, maximum_position_encoding)
        self.attention = nn.ModuleList(MultiHeadAttention(num_heads, d_model) for _ in range(num_layers))
        self.source_attention = nn.ModuleList(MultiHeadAttention(num_heads, d_model) for _ in range(num_layers))
        self.position_feed_forward = nn.ModuleList(
            PositionwiseFeedForward(d_model, dff, dropout, nn.ReLU()) for _ in range(num_layers)
        )

    def forward(self, target: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return features (N, L, D) for the tokens ``target`` (N, L) and the image features ``memory`` (N, P, D).

        ``mask`` is bool and broadcasts to (N, heads, L, L). It is True where a position attends to another position.
        """
        x = self.positional_encoding(self.embed(target) * math.sqrt(self.embed.embedding_dim))
        layers = zip(self.attention, self.source_attention, self.position_feed_forward, strict=True)
        for attention, source_attention, feed_forward in layers:
            normed = self.layer_norm_input(x)
            x = x + self.dropout(attention(normed, normed, normed, mask))
            x = x + self.dropout(source_attention(self.layer_norm_masked_attention(x), memory, memory))
            x = x + self.dropout(feed_forward(self.layer_norm_attention(x)))
        decoded: torch.Tensor = self.layer_norm_output(x)
        return decoded


class MASTER(RecognitionModel):
    """MASTER, a recogniser that decodes words character by character.

    See Lu et al., "MASTER: Multi-Aspect Non-local Network for Scene Text Recognition", 2019. A batch is decoded
    until its longest word ends, and the steps after the end of a word slightly change its confidence. So the
    confidence of a word, but not its text, depends on the other words in the batch. The arguments that are not
    listed here are the same as for `CRNN`.

    Args:
        feature_extractor: The backbone, which maps images (N, 3, H, W) to ``{"features": (N, d_model, H', W')}``.
        d_model: Number of feature channels.
        dff: Inner width of the feed-forward layers.
        num_heads: Number of attention heads.
        num_layers: Number of decoder layers.
        max_length: Number of decoded steps: two more than the maximum number of characters of a word. If a word has no
            end token, it has ``max_length`` characters.
        dropout: Dropout probability in the decoder.
        input_shape: Channels, height and width of the images. Other sizes are accepted.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import master
        >>> model = master(vocab="0123456789", pretrained_backbone=False, max_length=4, num_layers=1).eval()
        >>> with torch.inference_mode():
        ...     found = model(torch.zeros(1, 3, 32, 128), return_model_output=True)
        >>> found["out_map"].shape
        torch.Size([1, 4, 13])
    """

    def __init__(
        self,
        feature_extractor: nn.Module,
        vocab: str,
        d_model: int = 512,
        dff: int = 2048,
        num_heads: int = 8,
        num_layers: int = 3,
        max_length: int = 50,
        dropout: float = 0.2,
        input_shape: tuple[int, int, int] = (3, 32, 128),
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(vocab, MASTERPostProcessor(vocab), exportable, cfg)
        self.max_length = max_length
        self.input_shape = input_shape
        self.end, self.start, self.pad = range(len(vocab), len(vocab) + 3)
        self.feat_extractor = feature_extractor
        self.positional_encoding = PositionalEncoding(d_model, dropout, input_shape[1] * input_shape[2])
        self.decoder = Decoder(num_layers, num_heads, d_model, len(vocab) + 3, dropout, dff, max_length)
        self.linear = nn.Linear(d_model, len(vocab) + 3)

    def score_layer(self) -> tuple[nn.Linear, int]:
        return self.linear, 0

    def build_target(self, gts: Sequence[str]) -> tuple[npt.NDArray[np.int32], list[int]]:
        """Encode words as class indices: a start token, the characters, an end token, and padding.

        See `RecognitionModel.build_target`; the width is ``max_length``. The numbers of characters are at most
        ``max_length - 2``; rows of longer words have one more character, but no end token.
        """
        return encode_with_marks(gts, self.vocab, self.max_length - 2, pad=self.pad)

    @staticmethod
    def compute_loss(model_output: torch.Tensor, gt: torch.Tensor, seq_len: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy of the characters and the end token of each word, averaged over words.

        See `SAR.compute_loss`; the first class of each word in ``gt`` is the start token.
        """
        return masked_cross_entropy(model_output[:, :-1], gt[:, 1:], seq_len + 1)

    def decode(self, known: torch.Tensor, encoded: torch.Tensor) -> torch.Tensor:
        """Return scores of C classes before the softmax, (N, L, C), for the character after each known character.

        Args:
            known: The classes of the start token and the known characters, int64 (N, L).
            encoded: Features of the images at P positions, (N, P, D).
        """
        causal = torch.ones(known.shape[1], known.shape[1], dtype=torch.bool, device=known.device).tril()
        mask = causal & (known != self.pad)[:, None, None]
        scores: torch.Tensor = self.linear(self.decoder(known, encoded, mask))
        return scores

    def decode_autoregressive(self, encoded: torch.Tensor) -> torch.Tensor:
        """Decode words character by character, until all words of the batch have ended.

        Args:
            encoded: Features of the images at P positions, (N, P, D).

        Returns:
            Scores of C classes before the softmax, (N, max_length, C).
        """
        count = encoded.shape[0]
        known = torch.full((count, self.max_length), self.pad, dtype=torch.int64, device=encoded.device)
        known[:, 0] = self.start
        ended = torch.zeros(count, dtype=torch.bool, device=encoded.device)
        for step in range(self.max_length - 1):
            # Positions attend only to earlier positions, so later positions need not be computed.
            character = self.decode(known[:, : step + 1], encoded)[:, -1].argmax(dim=-1)
            ended = ended | (character == self.end)
            if step == self.max_length - 2 or (not self.exportable and have_all_ended(ended, step)):
                break
            known[:, step + 1] = character
        return self.decode(known, encoded)

    def _score(
        self, x: torch.Tensor, target: Sequence[str] | None, needs_scores: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        features = self.feat_extractor(x)["features"]
        encoded = self.positional_encoding(features.flatten(2).transpose(1, 2))
        if target is None:
            return self.decode_autoregressive(encoded), None
        classes, lengths = self._encode(target, x.device)
        logits = self.decode(classes, encoded)
        return logits, self.compute_loss(logits, classes, lengths)


def master(pretrained: bool = False, **kwargs: Any) -> MASTER:
    """Return a MASTER recogniser whose backbone is a ResNet-31 with global context attention.

    The network is in training mode. See `crnn_vgg16_bn` for the arguments; ``**kwargs`` are passed to `MASTER`.
    """

    def make_features(is_pretrained: bool, _: Sequence[int]) -> nn.Module:
        return BackboneFeatures(magc_resnet31(is_pretrained), RESNET31_LAYERS)

    return build_recognizer(MASTER, "master", default_cfgs["master"], make_features, _HEAD, pretrained, kwargs)
