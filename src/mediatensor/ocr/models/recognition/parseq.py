"""PARSeq, a word recogniser: a vision transformer and a decoder that can read the characters in any order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional as F

from .._networks.blocks import MultiHeadAttention, PositionwiseFeedForward, initialize_truncated
from .._networks.transfers import have_all_ended
from ..classification.vit import vit_s
from .core import (
    RecognitionModel,
    SequencePostProcessor,
    build_recognizer,
    encode_with_marks,
    make_patch_features,
    recognition_cfg,
)

__all__ = ["PARSeq", "PARSeqPostProcessor", "parseq"]

_PAIRS = 3
"""Number of sampled orders; each is used together with its reverse."""


def draw_permutations(length: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """Draw the random reading orders with which PARSeq is trained on words of up to ``length`` characters.

    Random numbers come from torch's global generator.

    Returns:
        int64 (K, length + 2), where K is even and at most 6. Each row is one order: it lists positions in the order in
        which they are read. Position 0 is the start token, and position ``length + 1`` is the end token. Row 0 reads
        from left to right, and every odd row is the reverse of the row before it. The end token comes last in all rows
        except row 1.

    >>> draw_permutations(1).tolist()
    [[0, 1, 2], [0, 2, 1]]
    """
    forward = tuple(range(length))
    orders = [forward, forward[::-1]]
    # Short words have fewer orders than this.
    pairs = min(_PAIRS, max(1, math.factorial(length) // 2))
    while len(orders) < 2 * pairs:
        order = tuple(torch.randperm(length).tolist())
        if order not in orders:
            orders += [order, order[::-1]]
    permutations = torch.zeros(len(orders), length + 2, dtype=torch.int64)
    permutations[:, 1:-1] = torch.tensor(orders).reshape(len(orders), length) + 1
    permutations[:, -1] = length + 1
    # A word read backwards begins with its end token.
    permutations[1, 1:] = torch.arange(length + 1, 0, -1)
    return permutations.to(device)


def visible_positions(permutation: torch.Tensor) -> torch.Tensor:
    """Return an attention mask for one reading order: each position attends only to positions that are read before it.

    ``permutation`` (L,) lists the positions in reading order, and starts with the start token. The result is bool (L -
    1, L - 1). Item ``[i, j]`` is true if position ``j`` is visible when position ``i + 1`` is predicted.

    >>> import torch
    >>> visible_positions(torch.tensor([0, 2, 1, 3])).int().tolist()
    [[1, 0, 1], [1, 0, 0], [1, 1, 1]]
    """
    rank = permutation.argsort()
    return rank[:-1] < rank[1:, None]


default_cfgs: dict[str, dict[str, Any]] = {
    "parseq": recognition_cfg("v0.7.0/parseq-56125471.pt", {"FUNSD": 88.53, "CORD": 95.56}),
}

_HEAD = ("embed.embedding.weight", "head.weight", "head.bias")
# Checkpoints from before docTR 0.11.1 contain two unused normalization layers.
_UNUSED_KEYS = tuple(
    f"decoder.{name}.{part}" for name in ("attention_norm", "cross_attention_norm") for part in ("weight", "bias")
)


class PARSeqPostProcessor(SequencePostProcessor):
    """Decodes the scores of `PARSeq` into words; see `SequencePostProcessor`."""


class CharEmbedding(nn.Module):
    """Embeddings of characters and special tokens, scaled by the square root of their width."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.scale = math.sqrt(d_model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self.embedding(x)
        return self.scale * vectors


class PARSeqDecoder(nn.Module):
    """A decoder layer. Its queries, one for each position, attend to the known characters and then to the image."""

    def __init__(
        self, d_model: int, num_heads: int = 12, ffd: int = 2048, ffd_ratio: int = 4, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(num_heads, d_model)
        self.cross_attention = MultiHeadAttention(num_heads, d_model)
        self.position_feed_forward = PositionwiseFeedForward(d_model, ffd * ffd_ratio, dropout, nn.GELU())
        self.query_norm = nn.LayerNorm(d_model)
        self.content_norm = nn.LayerNorm(d_model)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.output_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, target: torch.Tensor, content: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the decoded queries, with the shape of ``target``.

        Shapes are (N, Q, D) for the queries ``target``, (N, K, D) for the embedded known characters ``content``, and
        (N, L, D) for the image features ``memory``. ``mask`` is bool and broadcasts to (N, heads, Q, K): True where a
        query may attend to a known character.
        """
        known = self.content_norm(content)
        target = target + self.dropout(self.attention(self.query_norm(target), known, known, mask))
        target = target + self.dropout(self.cross_attention(self.query_norm(target), memory, memory))
        target = target + self.dropout(self.position_feed_forward(self.feed_forward_norm(target)))
        decoded: torch.Tensor = self.output_norm(target)
        return decoded


class PARSeq(RecognitionModel):
    """PARSeq, a recogniser that predicts the characters of a word from left to right, and then each character again.

    The second prediction of a character takes all other characters into account. See Bautista and Atienza, "Scene Text
    Recognition with Permuted Autoregressive Sequence Models", 2022. The arguments that are not listed here are the same
    as for `CRNN`.

    Args:
        feature_extractor: The backbone, which maps images to ``{"features": (N, 1 + patches, D)}``: the features of a
            class token and of all patches.
        embedding_units: Width D of the features.
        max_length: Maximum number of characters of a word. One more step is decoded, for the end token. If a word has
            no end token, it has ``max_length + 1`` characters.
        dropout_prob: Dropout probability in the decoder.
        dec_num_heads: Number of attention heads of the decoder.
        dec_ff_dim: Base width of the decoder's feed-forward layer.
        dec_ffd_ratio: Inner width of the feed-forward layer, as a multiple of ``dec_ff_dim``.
        input_shape: Channels, height and width of the images.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import parseq
        >>> model = parseq(vocab="abc", max_length=8).eval()
        >>> model(torch.zeros(1, 3, 32, 128), return_model_output=True)["out_map"].shape
        torch.Size([1, 9, 4])
    """

    def __init__(
        self,
        feature_extractor: nn.Module,
        vocab: str,
        embedding_units: int,
        max_length: int = 32,
        dropout_prob: float = 0.1,
        dec_num_heads: int = 12,
        dec_ff_dim: int = 384,
        dec_ffd_ratio: int = 4,
        input_shape: tuple[int, int, int] = (3, 32, 128),
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(vocab, PARSeqPostProcessor(vocab), exportable, cfg)
        self.max_length = max_length
        self.input_shape = input_shape
        self.end, self.start, self.pad = range(len(vocab), len(vocab) + 3)
        self.feat_extractor = feature_extractor
        self.decoder = PARSeqDecoder(embedding_units, dec_num_heads, dec_ff_dim, dec_ffd_ratio, dropout_prob)
        self.head = nn.Linear(embedding_units, len(vocab) + 1)
        self.embed = CharEmbedding(len(vocab) + 3, embedding_units)
        self.pos_queries = nn.Parameter(torch.empty(1, max_length + 1, embedding_units))
        self.dropout = nn.Dropout(dropout_prob)
        # As in the paper, the backbone is not initialised.
        nn.init.trunc_normal_(self.pos_queries, std=0.02)
        for part in (self.decoder, self.head, self.embed):
            initialize_truncated(part, nn.Linear, nn.Embedding)

    def from_pretrained(self, path_or_url: str, **kwargs: Any) -> None:
        """Load parameters from a state dict file. Files from docTR versions before 0.11.1 are accepted too.

        Args:
            path_or_url: The path of the file. URLs are rejected, because nothing is downloaded.
            **kwargs: Further arguments of `load_pretrained_params`, such as ``ignore_keys``.
        """
        kwargs["ignore_keys"] = (*(kwargs.get("ignore_keys") or ()), *_UNUSED_KEYS)
        super().from_pretrained(path_or_url, **kwargs)

    def score_layer(self) -> tuple[nn.Linear, int]:
        return self.head, 0

    def build_target(self, gts: Sequence[str]) -> tuple[npt.NDArray[np.int32], list[int]]:
        """Encode words as class indices: a start token, the characters, an end token, and padding.

        See `RecognitionModel.build_target`; the width is ``max_length + 2``. The numbers of characters are at most
        ``max_length``; rows of longer words have one more character, but no end token.
        """
        return encode_with_marks(gts, self.vocab, self.max_length, pad=self.pad)

    def decode(
        self, known: torch.Tensor, features: torch.Tensor, mask: torch.Tensor, queries: torch.Tensor
    ) -> torch.Tensor:
        """Score the possible characters at Q positions of each word, using the characters that are already known.

        Args:
            known: The classes of the start token and the known characters, int64 (N, K).
            features: Features of the images, (N, L, D).
            mask: A bool tensor that broadcasts to (N, heads, Q, K): True where a position may attend to a known
                character.
            queries: Embeddings of the positions to score, (N, Q, D).

        Returns:
            Scores of C classes before the softmax, (N, Q, C).
        """
        start = self.embed(known[:, :1])
        characters = self.pos_queries[:, : known.shape[1] - 1] + self.embed(known[:, 1:])
        content = self.dropout(torch.cat([start, characters], dim=1))
        scores: torch.Tensor = self.head(self.decoder(self.dropout(queries), content, features, mask))
        return scores

    def decode_autoregressive(self, features: torch.Tensor, max_len: int | None = None) -> torch.Tensor:
        """Decode words from left to right. Then decode each character again, using all other characters.

        Args:
            features: Features of the images, (N, L, D).
            max_len: Maximum number of characters, not counting the additional step for the end token; by default the
                model's ``max_length``, which is also the upper limit.

        Returns:
            Scores of C classes before the softmax, (N, max_len + 1, C). The additional position is for the end token.
        """
        steps = min(self.max_length if max_len is None else max_len, self.max_length) + 1
        queries = self.pos_queries[:, :steps].expand(features.shape[0], -1, -1)
        # All steps use the full length and a mask, so that every step has the same shapes and one compiled graph.
        known = torch.full((features.shape[0], steps), self.pad, dtype=torch.int64, device=features.device)
        known[:, 0] = self.start
        ended = torch.zeros_like(known[:, :1], dtype=torch.bool)
        columns = torch.arange(steps, device=features.device)
        for step in range(steps):
            scores = self.decode(known, features, columns[None] <= step, queries[:, step : step + 1])
            character = scores.argmax(dim=-1)
            if step + 1 < steps:
                known[:, step + 1] = character[:, 0]
            ended = ended | (character == self.end)
            # An exported graph has a fixed length and cannot stop early.
            if not self.exportable and max_len is None and have_all_ended(ended, step):
                break
        # Column j has character j - 1. Each position attends to all characters except the one to predict.
        mask = (columns != columns[:, None] + 1) & self._mask_before_end(known)
        return self.decode(known, features, mask, queries)

    def _mask_before_end(self, known: torch.Tensor) -> torch.Tensor:
        """Return bool (N, 1, 1, K): true for the ``known`` tokens before the end token of their word."""
        # ONNX does not support cumulative sums of booleans.
        after = ((known == self.end) | (known == self.pad)).long().cumsum(dim=-1) > 0
        return ~after[:, None, None]

    def permutation_loss(
        self, features: torch.Tensor, classes: torch.Tensor, permutations: torch.Tensor
    ) -> torch.Tensor:
        """Return the mean cross-entropy over several reading orders of the words (section 3.2 of the PARSeq paper).

        Args:
            features: Features of the images, (N, L, D).
            classes: The correct classes, int64 (N, W): start token, characters, end token and padding.
            permutations: K reading orders, int64 (K, W). Each row lists all W positions in the order of reading.

        Returns:
            The loss, a scalar tensor.
        """
        known, wanted = classes[:, :-1], classes[:, 1:]
        before_end = self._mask_before_end(known)
        queries = self.pos_queries[:, : known.shape[1]].expand(known.shape[0], -1, -1)
        total, count = features.new_zeros(()), wanted.new_zeros(())
        for index, permutation in enumerate(permutations):
            # The end token is trained only with the first two orders, forward and backward.
            if index == 2:
                wanted = wanted.masked_fill(wanted == self.end, self.pad)
            logits = self.decode(known, features, visible_positions(permutation) & before_end, queries).flatten(0, 1)
            total = total + F.cross_entropy(logits, wanted.flatten(), ignore_index=self.pad, reduction="sum")
            count = count + (wanted != self.pad).sum()
        return total / count

    def _score(
        self, x: torch.Tensor, target: Sequence[str] | None, needs_scores: bool
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        # Skip the class token.
        features = self.feat_extractor(x)["features"][:, 1:]
        if target is None:
            return self.decode_autoregressive(features), None
        encoded, lengths = self.build_target(target)
        longest = max(lengths, default=0)
        classes = torch.from_numpy(encoded[:, : longest + 2]).long().to(x.device)
        if self.training:
            loss = self.permutation_loss(features, classes, draw_permutations(longest, x.device))
            return self.decode_autoregressive(features, longest) if needs_scores else None, loss
        logits = self.decode_autoregressive(features, longest)
        return logits, F.cross_entropy(logits.flatten(0, 1), classes[:, 1:].flatten(), ignore_index=self.pad)


def parseq(pretrained: bool = False, **kwargs: Any) -> PARSeq:
    """Return a PARSeq recogniser whose backbone is a small vision transformer (ViT-S).

    The network is in training mode. See `crnn_vgg16_bn` for the arguments; ``kwargs`` are passed to `PARSeq`.
    ``kwargs`` can also contain ``patch_size``: the height and width in pixels of the backbone's patches, by default (4,
    8).
    """
    arch, make_features = "parseq", make_patch_features(vit_s, kwargs)
    return build_recognizer(
        PARSeq, arch, default_cfgs[arch], make_features, _HEAD, pretrained, kwargs, _UNUSED_KEYS, embedding_units=384
    )
