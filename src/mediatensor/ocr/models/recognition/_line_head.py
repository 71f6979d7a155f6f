"""The likeliest class of each time step over a large vocabulary, without keeping every score."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["best_classes"]

CLASSES_AT_ONCE = 2048
"""So that the scores of a batch stay in the cache of a core while they are looked at."""


def best_classes(features: Tensor, head: nn.Linear, excluded: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Greatest probability and its class for each step, as ``head(features).softmax(-1).max(-1)``.

    The scores of 18,710 classes for the steps of a page are some 200 MB. Here they are made in slices of classes, of
    which only the greatest score, its class and the sum of exponentials go on, as in Milakov and Gimelshein, "Online
    normalizer calculation for softmax" (2018), https://arxiv.org/abs/1805.02867.

    Args:
        features: (N, T, width).
        head: From ``width`` to the classes.
        excluded: Classes, bool, that are not to be chosen, as if there were none of them.

    Returns:
        Probabilities (N, T), float32, and classes (N, T), int64.
    """
    if head._forward_hooks:
        # Whoever hooks into the layer, as a whitelist does, wants to see all of its scores.
        scores = head(features).float()
        if excluded is not None:
            scores = scores.masked_fill(excluded, -torch.inf)
        probabilities, classes = scores.softmax(-1).max(-1)
        return probabilities, classes
    bias = head.bias if excluded is None else head.bias.masked_fill(excluded, -torch.inf)
    rows = features.reshape(-1, features.shape[-1])
    best = rows.new_full((len(rows),), -torch.inf, dtype=torch.float32)
    total = torch.zeros_like(best)
    classes = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    for start in range(0, head.out_features, CLASSES_AT_ONCE):
        part = slice(start, start + CLASSES_AT_ONCE)
        scores = nn.functional.linear(rows, head.weight[part], bias[part]).float()
        values, places = scores.max(-1)
        greater = torch.maximum(best, values)
        total = total * (best - greater).exp() + scores.sub_(greater[:, None]).exp_().sum(-1)
        classes = torch.where(values > best, places + start, classes)
        best = greater
    return (1 / total).view(features.shape[:-1]), classes.view(features.shape[:-1])
