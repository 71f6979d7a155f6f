"""SAR, a word recogniser: a convolutional backbone, and an LSTM with attention that decodes one character at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ....errors import InvalidArgumentError
from ...datasets import encode_sequences
from ..classification.resnet import resnet31
from .core import (
    RESNET31_LAYERS,
    BackboneFeatures,
    LeastCertainPostProcessor,
    RecognitionModel,
    build_recognizer,
    masked_cross_entropy,
    recognition_cfg,
)

__all__ = ["SAR", "SARPostProcessor", "sar_resnet31"]

default_cfgs: dict[str, dict[str, Any]] = {
    "sar_resnet31": recognition_cfg("v0.7.0/sar_resnet31-9a1deedf.pt", {"FUNSD": 88.10, "CORD": 94.83}),
}

_HEAD = (
    "decoder.embed.weight",
    "decoder.embed_tgt.weight",
    "decoder.output_dense.weight",
    "decoder.output_dense.bias",
)


class SARPostProcessor(LeastCertainPostProcessor):
    """Decodes the scores of `SAR` into words; see `LeastCertainPostProcessor`."""


class SAREncoder(nn.Module):
    """Encodes a word as one vector, computed from the last output of a two-layer LSTM that runs from left to right."""

    def __init__(self, in_feats: int, rnn_units: int, dropout_prob: float = 0.0) -> None:
        super().__init__()
        self.rnn = nn.LSTM(in_feats, rnn_units, 2, batch_first=True, dropout=dropout_prob)
        self.linear = nn.Linear(rnn_units, rnn_units)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Encode features (N, L, C) as (N, units)."""
        steps, _ = self.rnn(x)
        encoded: torch.Tensor = self.linear(steps[:, -1])
        return encoded


class AttentionModule(nn.Module):
    """Weights the image positions by their relevance for the next character."""

    def __init__(self, feat_chans: int, state_chans: int, attention_units: int) -> None:
        super().__init__()
        self.feat_conv = nn.Conv2d(feat_chans, attention_units, 3, padding=1)
        self.state_conv = nn.Conv2d(state_chans, attention_units, 1, bias=False)
        self.attention_projector = nn.Conv2d(attention_units, 1, 1, bias=False)

    def forward(self, features: torch.Tensor, projected: torch.Tensor, hidden_state: torch.Tensor) -> torch.Tensor:
        """Return the mean of ``features`` over the image, weighted by attention: (N, C).

        ``projected`` (N, A, H, W) is ``feat_conv(features)``. The caller computes it only once, because it is the same
        for all characters. ``hidden_state`` (N, units) is the state of the LSTM.
        """
        compared = torch.tanh(projected + self.state_conv(hidden_state[:, :, None, None]))
        weights = self.attention_projector(compared).flatten(2).softmax(dim=-1)
        gathered: torch.Tensor = (features.flatten(2) * weights).sum(dim=-1)
        return gathered


class SARDecoder(nn.Module):
    """An LSTM that decodes a word character by character, with attention to the image."""

    def __init__(
        self,
        rnn_units: int,
        max_length: int,
        vocab_size: int,
        embedding_units: int,
        attention_units: int,
        feat_chans: int = 512,
        dropout_prob: float = 0.0,
    ) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.max_length = max_length
        self.embed = nn.Linear(vocab_size + 1, embedding_units)
        # The dimensions are swapped as in the published weights: the number of vectors is the embedding width.
        self.embed_tgt = nn.Embedding(embedding_units, vocab_size + 1)
        self.attention_module = AttentionModule(feat_chans, rnn_units, attention_units)
        self.lstm_cell = nn.LSTMCell(rnn_units, rnn_units)
        self.output_dense = nn.Linear(2 * rnn_units, vocab_size + 1)
        self.dropout = nn.Dropout(dropout_prob)

    def forward(self, features: torch.Tensor, holistic: torch.Tensor, gt: torch.Tensor | None = None) -> torch.Tensor:
        """Return the scores of the characters at each step, (N, max_length, C).

        The LSTM first gets ``holistic`` (N, units), the output of the encoder, then a start vector. Every later input
        is the character of the step before: the true character if ``gt`` (N, max_length) is given, otherwise the
        predicted character.
        """
        projected = self.attention_module.feat_conv(features)
        first = second = (torch.zeros_like(holistic), torch.zeros_like(holistic))
        symbol = holistic
        scores: list[torch.Tensor] = []
        for step in range(self.max_length + 1):
            # Both layers use the same LSTM cell.
            first = self.lstm_cell(symbol, first)
            second = self.lstm_cell(first[0], second)
            if step == 0:
                symbol = self.embed(features.new_zeros(features.shape[0], self.vocab_size + 1))
                continue
            glimpse = self.attention_module(features, projected, second[0])
            scores.append(self.output_dense(self.dropout(torch.cat([second[0], glimpse], dim=1))))
            character = scores[-1].argmax(dim=-1) if gt is None else gt[:, step - 1]
            symbol = self.embed(self.embed_tgt(character))
        return torch.stack(scores, dim=1)


class SAR(RecognitionModel):
    """SAR (Li et al., "Show, Attend and Read: A Simple and Strong Baseline for Irregular Text Recognition", 2018).

    The arguments that are not listed here are the same as for `CRNN`.

    Args:
        feature_extractor: The backbone, which maps images (N, 3, H, W) to ``{"features": (N, C, H', W')}``.
        rnn_units: Number of units of each LSTM; must equal both the number of feature channels and ``embedding_units``.
        embedding_units: Width of the character embeddings.
        attention_units: Number of channels to which features and LSTM state are projected for the attention.
        max_length: Maximum number of characters of a word. One more step is decoded, for the end token. If a word has
            no end token, it has ``max_length + 1`` characters.
        dropout_prob: Dropout probability.
        input_shape: Channels, height and width of the images; other sizes are accepted.

    Raises:
        InvalidArgumentError: The vocabulary is empty, or does not have fewer characters than ``embedding_units``.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import sar_resnet31
        >>> model = sar_resnet31(vocab="0123456789", pretrained_backbone=False, max_length=4).eval()
        >>> with torch.inference_mode():
        ...     found = model(torch.zeros(1, 3, 32, 128), return_model_output=True)
        >>> found["out_map"].shape
        torch.Size([1, 5, 11])
    """

    def __init__(
        self,
        feature_extractor: nn.Module,
        vocab: str,
        rnn_units: int = 512,
        embedding_units: int = 512,
        attention_units: int = 512,
        max_length: int = 30,
        dropout_prob: float = 0.0,
        input_shape: tuple[int, int, int] = (3, 32, 128),
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(vocab, SARPostProcessor(vocab), exportable, cfg)
        if len(vocab) >= embedding_units:
            raise InvalidArgumentError(
                f"a vocabulary of {len(vocab)} characters; this network has room for {embedding_units - 1}"
            )
        # Includes the end token.
        self.max_length = max_length + 1
        self.input_shape = input_shape
        self.feat_extractor = feature_extractor
        self.encoder = SAREncoder(rnn_units, rnn_units, dropout_prob)
        self.decoder = SARDecoder(
            rnn_units, self.max_length, len(vocab), embedding_units, attention_units, rnn_units, dropout_prob
        )

    def score_layer(self) -> tuple[nn.Linear, int]:
        return self.decoder.output_dense, 0

    def build_target(self, gts: Sequence[str]) -> tuple[npt.NDArray[np.int32], list[int]]:
        """Encode words as class indices, padded with end tokens.

        See `RecognitionModel.build_target`; the width is ``self.max_length``, to which longer words are truncated.
        """
        encoded = encode_sequences(list(gts), self.vocab, target_size=self.max_length, eos=len(self.vocab))
        return encoded, [min(len(word), self.max_length) for word in gts]

    @staticmethod
    def compute_loss(model_output: torch.Tensor, gt: torch.Tensor, seq_len: torch.Tensor) -> torch.Tensor:
        """Return the cross-entropy of the characters and the end token of each word, averaged over words.

        Args:
            model_output: The scores of C classes before the softmax, (N, T, C).
            gt: The correct classes, int64 (N, T).
            seq_len: The number of characters of each word, int64 (N,).
        """
        return masked_cross_entropy(model_output, gt, (seq_len + 1).clamp(max=model_output.shape[1]))

    def _score(
        self, x: torch.Tensor, target: Sequence[str] | None, needs_scores: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        features = self.feat_extractor(x)["features"]
        holistic = self.encoder(features.amax(dim=2).transpose(1, 2))
        if target is None:
            return self.decoder(features, holistic), None
        classes, lengths = self._encode(target, x.device)
        logits = self.decoder(features, holistic, classes if self.training else None)
        return logits, self.compute_loss(logits, classes, lengths)


def sar_resnet31(pretrained: bool = False, **kwargs: Any) -> SAR:
    """Return a SAR recogniser with a ResNet-31 backbone.

    The network is in training mode. See `crnn_vgg16_bn` for the arguments; ``kwargs`` are passed to `SAR`.
    """

    def make_features(is_pretrained: bool, _: Sequence[int]) -> nn.Module:
        return BackboneFeatures(resnet31(is_pretrained), RESNET31_LAYERS)

    arch = "sar_resnet31"
    return build_recognizer(SAR, arch, default_cfgs[arch], make_features, _HEAD, pretrained, kwargs)
