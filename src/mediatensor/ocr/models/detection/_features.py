"""Intermediate results of a backbone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

__all__ = ["FeatureExtractor"]


class FeatureExtractor(nn.ModuleDict):
    """The layers of a backbone up to the last one whose result is wanted, under the names they have there.

    Args:
        backbone: Runs its children one after the other, at least as far as needed.
        layers: Names of the children whose results are wanted, in order.

    >>> from torch import nn
    >>> import torch
    >>> stack = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.Flatten())
    >>> [feature.shape[1] for feature in FeatureExtractor(stack, ["0", "2"])(torch.zeros(1, 3, 2, 2))]
    [8, 4]
    """

    def __init__(self, backbone: nn.Module, layers: Sequence[str]) -> None:
        children = dict(backbone.named_children())
        needed = list(children)[: list(children).index(layers[-1]) + 1]
        super().__init__({name: children[name] for name in needed})
        self.wanted = tuple(layers)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Results of the wanted layers for (N, 3, H, W) images."""
        features = []
        for name, layer in self.items():
            x = layer(x)
            if name in self.wanted:
                features.append(x)
        return features

    @torch.no_grad()
    def shapes(self, size: int = 64) -> list[tuple[int, int, int]]:
        """Channels, height and width of the results for a square image; running statistics do not change."""
        modes = [(module, module.training) for module in self.modules()]
        self.eval()
        features = self(torch.zeros(1, 3, size, size))
        for module, training in modes:
            module.training = training
        return [(feature.shape[1], feature.shape[2], feature.shape[3]) for feature in features]
