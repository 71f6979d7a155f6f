"""Which script a line is in, where the default recogniser cannot read it: Cyrillic, Greek, Arabic, Thai, ...

A recogniser reads letters that it does not know as others that look alike, often with fair confidence. What it sees
before it decides tells the scripts apart: a small classifier looks at these features, at all steps of a line. It was
fitted on drawn lines (``benchmarks/ocr_scripts.py``), and holds for the published weights alone: see
:func:`script_classifier_for`.

The names of scripts are those of ISO 15924, such as "Cyrillic", "Greek", "Arabic", "Hebrew", "Devanagari", "Bengali",
"Tamil", "Thai", "Hangul", "Georgian" and "Armenian"; "Vietnamese" stands for Latin letters with two marks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ....errors import WeightsError

__all__ = ["ScriptClassifier", "fingerprint", "script_classifier_for", "script_of"]

FILE = Path(__file__).with_name("scripts.npz")
FILE_SHA256 = "bf2a8d0e6b563ded8df77beeadbac874b26add2bc048fefc6c09ebaf95ef4589"
SURE_OF_SCRIPT = 1.0
"""A line counts as one in another script if that is more probable than a line that can be read, by this logarithm."""
SURE_OF_SHORT = 1.25
"""The same for short lines, which say less."""
SHORT_STEPS = 28
"""Lines with fewer steps, of about seven characters, are short."""
AGAINST_SCRIPT = 2.0
"""By how much more for a line of whose words more than half are expected to be right, times the share beyond that half:
look-alikes seldom read well."""
FEWEST_STEPS = 12
"""Shorter lines, of about three characters, count as readable."""


class ScriptClassifier(nn.Module):
    """Two layers: the first at each step of a line, the second on their mean and maximum over the line.

    Args:
        names: The script of each class. The first class, of lines that can be read, has the empty name.
        first: Weights of the first layer, (hidden, features).
        first_bias: (hidden,).
        second: Weights of the second layer, (classes, 2 x hidden).
        second_bias: (classes,).
    """

    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor

    def __init__(
        self, names: Sequence[str], first: Tensor, first_bias: Tensor, second: Tensor, second_bias: Tensor
    ) -> None:
        super().__init__()
        self.names = tuple(names)
        layers = {"first": first, "first_bias": first_bias, "second": second, "second_bias": second_bias}
        for name, values in layers.items():
            # No part of the recogniser's state dict, whose names are those of its publishers.
            self.register_buffer(name, values, persistent=False)

    def forward(self, features: Tensor, is_picture: Tensor) -> Tensor:
        """Logarithms of probabilities.

        Args:
            features: (N, T, width), of any floating type.
            is_picture: (N, T), false for the steps behind the end of a line.

        Returns:
            (N, classes), float32.
        """
        hidden = torch.relu(features.float() @ self.first.float().T + self.first_bias.float())
        hidden = hidden * is_picture[..., None]
        # None is negative: steps behind the end do not change the maximum.
        mean = hidden.sum(1) / is_picture.sum(1, keepdim=True).clamp(min=1)
        pooled = torch.cat([mean, hidden.amax(1)], 1)
        scores = pooled @ self.second.float().T + self.second_bias.float()
        return scores.log_softmax(1)


def script_of(names: Sequence[str], scores: npt.NDArray[np.floating], num_steps: int, share_right: float) -> str | None:
    """The script of a line that cannot be read; None if it can.

    Args:
        names: See :class:`ScriptClassifier`.
        scores: Its result for the line, (classes,).
        num_steps: The length of the line in steps of the recogniser.
        share_right: The share of its words that are expected to be right, if the recogniser can read it.

    Returns:
        The name of the script.
    """
    if num_steps < FEWEST_STEPS:
        return None
    others = scores[1:]
    highest = others.max()
    sure = SURE_OF_SCRIPT if num_steps >= SHORT_STEPS else SURE_OF_SHORT
    evidence = highest + np.log(np.exp(others - highest).sum()) - scores[0]
    sure += AGAINST_SCRIPT * max(share_right - 0.5, 0.0)
    return names[1 + int(others.argmax())] if evidence > sure else None


def fingerprint(*parameters: Tensor) -> str:
    """A checksum of parameters of a network in float32, by which its weights are known."""
    digest = hashlib.sha256()
    for parameter in parameters:
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def script_classifier_for(*parameters: Tensor) -> ScriptClassifier | None:
    """The classifier that was fitted on the features of a recogniser, which some of its parameters identify.

    Args:
        *parameters: As for :func:`fingerprint`.

    Returns:
        A classifier on the device of the parameters; None where they are others, as after training.

    Raises:
        WeightsError: The file of the classifier is damaged.
    """
    if any(parameter.dtype != torch.float32 or parameter.device.type == "meta" for parameter in parameters):
        return None
    arrays = _stored()
    if fingerprint(*parameters) != str(arrays["recogniser"]):
        return None
    names = [str(name) for name in arrays["names"]]
    layers = (torch.tensor(arrays[name]) for name in ("first", "first_bias", "second", "second_bias"))
    return ScriptClassifier(names, *layers).to(parameters[0].device)


@cache
def _stored() -> dict[str, npt.NDArray[np.generic]]:
    digest = hashlib.sha256(FILE.read_bytes()).hexdigest()
    if digest != FILE_SHA256:
        raise WeightsError(f"{FILE} is damaged: SHA-256 {digest}, expected {FILE_SHA256}. Install mediatensor again.")
    with np.load(FILE, allow_pickle=False) as stored:
        return dict(stored)
