"""Vision transformers in the sizes used for text recognition."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ....errors import InvalidArgumentError
from .._networks.blocks import EncoderBlock
from ._classifier import Classifier, build_classifier, classifier_cfg

__all__ = ["VisionTransformer", "vit_b", "vit_s"]

default_cfgs: dict[str, dict[str, Any]] = {
    "vit_s": classifier_cfg("v0.6.0/vit_s-5d05442d.pt"),
    "vit_b": classifier_cfg("v0.6.0/vit_b-0fbef167.pt"),
}


class PatchEmbedding(nn.Module):
    """Converts images (N, C, H, W) to embeddings (N, 1 + patches, D): a class token, then the patches row by row.

    Position embeddings are learnt for images of shape ``input_shape``, and interpolated for other sizes.
    """

    def __init__(self, input_shape: tuple[int, int, int], embed_dim: int, patch_size: tuple[int, int]) -> None:
        super().__init__()
        channels, height, width = input_shape
        self.patch_size = patch_size
        self.grid_size = (height // patch_size[0], width // patch_size[1])
        self.cls_token = nn.Parameter(torch.randn(1, 1, embed_dim))
        self.positions = nn.Parameter(torch.randn(1, self.grid_size[0] * self.grid_size[1] + 1, embed_dim))
        self.projection = nn.Conv2d(channels, embed_dim, kernel_size=patch_size, stride=patch_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return embeddings (N, 1 + patches, D) of images (N, C, H, W), with positions added."""
        height, width = x.shape[-2:]
        if height % self.patch_size[0] or width % self.patch_size[1]:
            raise InvalidArgumentError(
                f"images of height {height} and width {width}; expected multiples of {self.patch_size[0]} "
                f"and {self.patch_size[1]}"
            )
        patches = self.projection(x)
        positions = self._positions_for((patches.shape[2], patches.shape[3]))
        tokens = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), patches.flatten(2).transpose(1, 2)], dim=1)
        return tokens + positions

    def _positions_for(self, grid: tuple[int, int]) -> torch.Tensor:
        """Return the positions for a grid of patches, interpolated as by Dosovitskiy et al. (2020), section 3.2."""
        if grid == self.grid_size:
            return self.positions
        of_patches = self.positions[:, 1:].transpose(1, 2).reshape(1, -1, *self.grid_size)
        resized = F.interpolate(of_patches, size=grid, mode="bilinear", align_corners=False)
        return torch.cat([self.positions[:, :1], resized.flatten(2).transpose(1, 2)], dim=1)


class ClassifierHead(nn.Module):
    """Computes scores (N, classes) from the class token of features (N, L, D)."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(in_channels, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(x[:, 0])
        return scores


class VisionTransformer(nn.Sequential, Classifier):
    """A vision transformer (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020).

    Args:
        d_model: Number of feature channels.
        num_layers: Number of encoder layers.
        num_heads: Number of attention heads.
        ffd_ratio: Inner width of the feed-forward layers, relative to ``d_model``.
        patch_size: Height and width of a patch, in pixels.
        input_shape: Channels, height and width of the images. For images of other sizes, position embeddings are
            interpolated.
        dropout: Dropout probability.
        num_classes: Number of classes.
        include_top: Whether to include the classification layer, which returns scores (N, classes). Otherwise the
            network returns the features of the class token and all patches, (N, 1 + patches, d_model).
        cfg: Dictionary of preprocessing settings that predictors use, such as ``mean``, ``std`` and ``input_shape``.
    """

    def __init__(
        self,
        d_model: int,
        num_layers: int,
        num_heads: int,
        ffd_ratio: int,
        patch_size: tuple[int, int] = (4, 4),
        input_shape: tuple[int, int, int] = (3, 32, 32),
        dropout: float = 0.0,
        num_classes: int = 1000,
        include_top: bool = True,
        cfg: dict[str, Any] | None = None,
    ) -> None:
        layers: list[nn.Module] = [
            PatchEmbedding(input_shape, d_model, patch_size),
            EncoderBlock(num_layers, num_heads, d_model, d_model * ffd_ratio, dropout, nn.GELU()),
        ]
        if include_top:
            layers.append(ClassifierHead(d_model, num_classes))
        super().__init__(*layers)
        if cfg is not None:
            self.cfg = cfg


def _vit(arch: str, pretrained: bool, d_model: int, num_heads: int, kwargs: dict[str, Any]) -> VisionTransformer:
    network = partial(VisionTransformer, d_model, num_layers=12, num_heads=num_heads, ffd_ratio=4)
    return build_classifier(default_cfgs, arch, network, "2.head", pretrained, kwargs, takes_input_shape=True)


def vit_s(pretrained: bool = False, **kwargs: Any) -> VisionTransformer:
    """Return a small vision transformer with 12 layers, 6 heads and 384 feature channels.

    The network is in training mode. It classifies images of characters, and is the backbone of the small ViTSTR and of
    PARSeq.

    See `mobilenet_v3_small` for the arguments. ``**kwargs`` can also be arguments of `VisionTransformer`.
    """
    return _vit("vit_s", pretrained, 384, 6, kwargs)


def vit_b(pretrained: bool = False, **kwargs: Any) -> VisionTransformer:
    """Return a base vision transformer: 12 layers, 12 heads and 768 channels. See `vit_s` for the arguments."""
    return _vit("vit_b", pretrained, 768, 12, kwargs)
