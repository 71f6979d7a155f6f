"""Vision transformers for detection.

In most layers, a patch of the image attends only to patches in the same window. In the rest, it attends to all patches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ....errors import InvalidArgumentError
from .._networks.blocks import DropPath, initialize_truncated
from ._classifier import Classifier, build_classifier, classifier_cfg

__all__ = ["VisionDetectionTransformer", "vit_det_m", "vit_det_s"]

default_cfgs: dict[str, dict[str, Any]] = {
    "vit_det_s": classifier_cfg("v1.0.1/vit_det_s-56a33dee.pt", release=True),
    "vit_det_m": classifier_cfg("v1.0.1/vit_det_m-669daf92.pt", release=True),
}

_WINDOWS = 4
"""Number of windows along each side of the image."""


class _Patches(nn.Module):
    """Converts images (N, C, H, W) to embeddings (N, rows, columns, D) of patches; positions are interpolated."""

    def __init__(self, input_shape: tuple[int, int, int], embed_dim: int, patch_size: tuple[int, int]) -> None:
        super().__init__()
        channels, height, width = input_shape
        self.grid_size = (height // patch_size[0], width // patch_size[1])
        self.patch_embed = nn.Sequential(OrderedDict(proj=nn.Conv2d(channels, embed_dim, patch_size, patch_size)))
        # The first embedding belongs to a class token, which is in the published weights but unused.
        self.pos_embed = nn.Parameter(torch.zeros(1, self.grid_size[0] * self.grid_size[1] + 1, embed_dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        patches: torch.Tensor = self.patch_embed(x).permute(0, 2, 3, 1)
        rows, columns = patches.shape[1:3]
        positions: torch.Tensor = self.pos_embed[:, 1:].unflatten(1, self.grid_size)  # type: ignore[no-untyped-call]
        if (rows, columns) != self.grid_size:
            channels_first = positions.permute(0, 3, 1, 2)
            resized = F.interpolate(channels_first, size=(rows, columns), mode="bicubic", align_corners=False)
            positions = resized.permute(0, 2, 3, 1)
        return patches + positions


class _Windows(nn.Module):
    """Splits features (N, rows, columns, D) into 16 windows, 4 per side: (N, 16, rows / 4, columns / 4, D)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count, rows, columns, width = x.shape
        if rows % _WINDOWS or columns % _WINDOWS:
            raise InvalidArgumentError(
                f"images of {rows} x {columns} patches; expected a multiple of {_WINDOWS} along each side."
            )
        cut = x.reshape(count, _WINDOWS, rows // _WINDOWS, _WINDOWS, columns // _WINDOWS, width)
        return cut.transpose(2, 3).flatten(1, 2)


def _join_windows(x: torch.Tensor) -> torch.Tensor:
    """Join 4 x 4 windows (N, 16, h, w, D) to feature maps (N, D, 4 * h, 4 * w)."""
    cut = x.unflatten(1, (_WINDOWS, _WINDOWS)).permute(0, 5, 1, 3, 2, 4)  # type: ignore[no-untyped-call]
    together: torch.Tensor = cut.flatten(4, 5).flatten(2, 3)
    return together


class _Attention(nn.Module):
    """Self-attention in which queries and values have a bias, but keys do not."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias, self.v_bias = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bias = torch.cat([self.q_bias, torch.zeros_like(self.v_bias), self.v_bias])
        heads = (3, self.num_heads, x.shape[2] // self.num_heads)
        mixed = F.linear(x, self.qkv.weight, bias).reshape(*x.shape[:2], *heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        gathered = F.scaled_dot_product_attention(query, key, value)
        projected: torch.Tensor = self.proj(gathered.transpose(1, 2).flatten(2))
        return projected


class _Block(nn.Module):
    """A transformer layer that scales the output of attention and feed-forward layers with learnt factors.

    Its input is windows (N, 16, h, w, D). If ``windowed`` is true, patches attend only to patches of the same window,
    otherwise to all patches of the image.
    """

    def __init__(self, dim: int, num_heads: int, mlp_ratio: float, drop_path: float, windowed: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = _Attention(dim, num_heads)
        inner = int(dim * mlp_ratio)
        layers = nn.Sequential(nn.Linear(dim, inner), nn.GELU(), nn.Linear(inner, dim))
        self.mlp = nn.Sequential(OrderedDict(net=layers))
        self.drop_path = DropPath(drop_path)
        self.windowed = windowed
        self.gamma_1, self.gamma_2 = (nn.Parameter(torch.full((dim,), 0.1)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Each row has the tokens that attend to each other: one window, or the whole image.
        tokens = x.flatten(0, 1).flatten(1, 2) if self.windowed else x.flatten(1, 3)
        tokens = tokens + self.drop_path(self.gamma_1 * self.attn(self.norm1(tokens)))
        windows = tokens.reshape(x.shape).flatten(0, 1)
        windows = windows + self.drop_path(self.gamma_2 * self.mlp(self.norm2(windows)))
        mixed: torch.Tensor = windows.reshape(x.shape)
        return mixed


class _Stage(nn.Module):
    """Runs ``blocks``, and returns the features (N, D, rows, columns) after those with ``out_feature_indexes``."""

    def __init__(self, blocks: Sequence[nn.Module], out_feature_indexes: set[int]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.out_feature_indexes = out_feature_indexes

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        features = []
        for index, block in enumerate(self.blocks):
            x = block(x)
            if index in self.out_feature_indexes:
                features.append(_join_windows(x))
        return features


class _Head(nn.Module):
    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(in_channels)
        self.fc = nn.Linear(in_channels, num_classes)

    def forward(self, features: list[torch.Tensor]) -> torch.Tensor:
        scores: torch.Tensor = self.fc(self.norm(features[-1].flatten(2).mean(dim=-1)))
        return scores


class VisionDetectionTransformer(nn.Sequential, Classifier):
    """A vision transformer for detection, in which some layers divide the image into 4 x 4 windows for attention.

    See Li et al., "Exploring Plain Vision Transformer Backbones for Object Detection", 2022,
    https://arxiv.org/abs/2203.16527. Arguments that are not listed here are the same as for `VisionTransformer`.

    Args:
        mlp_ratio: Inner width of the feed-forward layers, relative to ``d_model``.
        input_shape: Channels, height and width of the images. For images of other sizes, position embeddings are
            interpolated. The number of patches along each side must be a multiple of four.
        dropout: Probability that the branches of the last layer are skipped in training (stochastic depth). For earlier
            layers the probability is lower: it rises linearly from 0 at the first layer.
        window_block_indexes: Indices of the layers in which patches attend only to patches of the same window.
        out_feature_indexes: Indices of the layers whose features are returned; -1 is the last.
        include_top: Whether to include the classification layers, which return scores (N, classes). Otherwise the
            network returns a list of features (N, d_model, rows, columns), one for each of ``out_feature_indexes``.
    """

    def __init__(
        self,
        d_model: int,
        num_layers: int,
        num_heads: int,
        mlp_ratio: float = 4.0,
        patch_size: tuple[int, int] = (4, 4),
        input_shape: tuple[int, int, int] = (3, 32, 32),
        dropout: float = 0.1,
        window_block_indexes: Sequence[int] = (0, 1, 3, 6, 7, 9),
        out_feature_indexes: Sequence[int] = (2, 4, 5, 9),
        num_classes: int = 1000,
        include_top: bool = True,
        cfg: dict[str, Any] | None = None,
    ) -> None:
        blocks = [
            _Block(d_model, num_heads, mlp_ratio, drop, index in window_block_indexes)
            for index, drop in enumerate(torch.linspace(0, dropout, num_layers, device="cpu").tolist())
        ]
        out = {index % num_layers for index in out_feature_indexes}
        patches = _Patches(input_shape, d_model, patch_size)
        layers: list[nn.Module] = [patches, _Windows(), _Stage(blocks, out)]
        if include_top:
            # The published weights of the head have the index 4.
            layers += [nn.Identity(), _Head(d_model, num_classes)]
        super().__init__(*layers)
        if cfg is not None:
            self.cfg = cfg
        nn.init.trunc_normal_(patches.pos_embed, std=0.02)
        initialize_truncated(self, nn.Linear, nn.Conv2d)


def _vit_det(arch: str, d_model: int, pretrained: bool, kwargs: dict[str, Any]) -> VisionDetectionTransformer:
    network = partial(VisionDetectionTransformer, d_model, num_layers=10, num_heads=12)
    return build_classifier(default_cfgs, arch, network, "4", pretrained, kwargs, takes_input_shape=True)


def vit_det_s(pretrained: bool = False, **kwargs: Any) -> VisionDetectionTransformer:
    """Return a small `VisionDetectionTransformer`.

    The network is in training mode. It has 10 layers, 12 heads and 192 channels. See `mobilenet_v3_small` for the
    arguments. ``**kwargs`` can also be arguments of `VisionDetectionTransformer`.
    """
    return _vit_det("vit_det_s", 192, pretrained, kwargs)


def vit_det_m(pretrained: bool = False, **kwargs: Any) -> VisionDetectionTransformer:
    """Return a medium `VisionDetectionTransformer`, with 384 channels. See `vit_det_s` for the arguments."""
    return _vit_det("vit_det_m", 384, pretrained, kwargs)
