"""LW-DETR in docTR's version: a transformer that finds the regions of a page as oriented boxes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ....errors import InvalidArgumentError
from ...structure import REGION_KINDS
from ...utils import order_points, polygon_iou
from ...utils.geometry import boxes_around
from .._networks.blocks import BoxNetwork, conv_sequence_pt
from .._networks.registry import make_network
from .._networks.transfers import constant, download, not_compiled, widen_floats
from .._networks.weights import StateDictNetwork, load_weights
from ..classification import vit_det_m, vit_det_s
from ._learning import LayoutTarget, layout_loss, oriented_regions

__all__ = ["LWDETR", "LWDETRPostProcessor", "lw_detr_m", "lw_detr_s"]

_LEAST_GROWTH, _MOST_GROWTH = -5.0, 3.5
"""Range of the logarithm of a box's growth in one step, which can enlarge a twentieth of the page to the whole page."""
Found = tuple[list[int], NDArray[np.float32], list[float]]
"""The regions of a page: labels, relative boxes (K, 4) or (K, 4, 2), and scores."""


def move_boxes(boxes: Tensor, steps: Tensor) -> Tensor:
    """Move, resize and rotate oriented boxes (..., 6) by ``steps`` (..., 6); the result has at least float32 precision.

    The first four values of a box are the x and y of its center, its width and its height, all relative to the page.
    The last two are the sine and cosine of its direction. The first two values of a step are the shift of the center,
    as multiples of the box's width and height. The next two are the logarithms of the factors by which width and height
    grow. The last two are the sine and cosine of the rotation. They need not be normalized.
    """
    boxes, steps = widen_floats(boxes), widen_floats(steps)
    size = boxes[..., 2:4]
    centre = boxes[..., :2] + steps[..., :2] * size
    grown = size * steps[..., 2:4].clamp(_LEAST_GROWTH, _MOST_GROWTH).exp()
    sine, cosine = boxes[..., 4:].unbind(-1)
    turn_sine, turn_cosine = F.normalize(steps[..., 4:], dim=-1, eps=1e-6).unbind(-1)
    direction = torch.stack([sine * turn_cosine + cosine * turn_sine, cosine * turn_cosine - sine * turn_sine], dim=-1)
    return torch.cat([centre, grown, F.normalize(direction, dim=-1, eps=1e-6)], dim=-1)


class Perceptron(nn.Module):
    """Linear layers with ReLU between them. ``widths`` are the widths of the input and of each layer's output."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        out: Tensor = self.layers[-1](x)
        return out


class _ChannelNorm(nn.LayerNorm):
    """Layer normalization over the channels of (N, C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def _convolution(in_channels: int, out_channels: int, kernel_size: int) -> list[nn.Module]:
    """Return the layers of a convolution that preserves height and width, followed by batch norm and SiLU."""
    silu = nn.SiLU(inplace=True)
    return conv_sequence_pt(
        in_channels, out_channels, True, True, silu, kernel_size=kernel_size, padding=kernel_size // 2
    )


class _CrossStage(nn.Module):
    """A block of convolutions on half of the channels, whose outputs are all merged, like the C2f block of YOLOv8."""

    def __init__(self, in_channels: int, out_channels: int, num_blocks: int) -> None:
        super().__init__()
        half = out_channels // 2
        self.conv_seq_1 = nn.Sequential(*_convolution(in_channels, 2 * half, 1))
        self.blocks = nn.ModuleList(
            nn.Sequential(*_convolution(half, half, 3), *_convolution(half, half, 3)) for _ in range(num_blocks)
        )
        self.conv_seq_2 = nn.Sequential(*_convolution((2 + num_blocks) * half, out_channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.conv_seq_1(x).chunk(2, dim=1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        merged: Tensor = self.conv_seq_2(torch.cat(parts, dim=1))
        return merged


class Backbone(nn.Module):
    """A detection transformer ``encoder``, and a projector that merges the outputs of several of its layers.

    ``in_channels`` is the total number of channels of these outputs.
    """

    def __init__(self, encoder: nn.Module, in_channels: int) -> None:
        super().__init__()
        self.encoder = encoder
        merging = nn.Sequential(_CrossStage(in_channels, 256, num_blocks=3), _ChannelNorm(256, eps=1e-6))
        self.projector = nn.ModuleDict({"stages": nn.ModuleList([merging])})

    def forward(self, x: Tensor) -> Tensor:
        """Return features (N, 256, h, w) of pages (N, 3, H, W)."""
        merged: Tensor = self.get_submodule("projector.stages.0")(torch.cat(self.encoder(x), dim=1))
        return merged


class _SelfAttention(nn.Module):
    """Self-attention of queries. Queries attend only to queries of the same group."""

    def __init__(self, width: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width) for _ in range(4))

    def forward(self, queries: Tensor, positions: Tensor, groups: int) -> Tensor:
        placed = queries + positions
        heads = [
            linear(x).reshape(len(x), groups, -1, self.num_heads, x.shape[-1] // self.num_heads).transpose(2, 3)
            for linear, x in ((self.q_proj, placed), (self.k_proj, placed), (self.v_proj, queries))
        ]
        dropped = self.dropout if self.training else 0.0
        gathered = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], dropout_p=dropped)
        projected: Tensor = self.o_proj(gathered.transpose(2, 3).flatten(3).flatten(1, 2))
        return projected


class _DeformableAttention(nn.Module):
    """Lets each query attend to a few points in and around its oriented box, instead of the whole page.

    See Zhu et al., "Deformable DETR", 2020, https://arxiv.org/abs/2010.04159.
    """

    def __init__(self, width: int, num_heads: int, num_points: int) -> None:
        super().__init__()
        self.num_heads, self.num_points = num_heads, num_points
        self.sampling_offsets = nn.Linear(width, num_heads * num_points * 2)
        self.attention_weights = nn.Linear(width, num_heads * num_points)
        self.value_proj, self.output_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, queries: Tensor, boxes: Tensor, features: Tensor, valid: Tensor) -> Tensor:
        """Let queries (N, Q, D) with boxes (N, Q, 6) attend to features (N, D, h, w), 0 where not ``valid``."""
        values = self.value_proj(features.permute(0, 2, 3, 1)).masked_fill(~valid[..., None], 0.0)
        shape = (self.num_heads, self.num_points)
        by_head = values.reshape(*values.shape[:3], self.num_heads, values.shape[3] // self.num_heads)
        maps = by_head.permute(0, 3, 4, 1, 2).flatten(0, 1)

        offsets = widen_floats(self.sampling_offsets(queries))
        across, down = offsets.reshape(*offsets.shape[:2], *shape, 2).unbind(-1)
        centre_x, centre_y, width, height, sine, cosine = boxes[..., None, None, :].unbind(-1)
        across, down = across * width / (2 * self.num_points), down * height / (2 * self.num_points)
        places = torch.stack([centre_x + across * cosine - down * sine, centre_y + across * sine + down * cosine], -1)

        # Positions and sums are float32, because half precision cannot represent fractions of pixels.
        grid = (2 * places - 1).transpose(1, 2).flatten(0, 1)
        sampled = F.grid_sample(maps.to(grid.dtype), grid, mode="bilinear", align_corners=False)
        weights = widen_floats(self.attention_weights(queries)).reshape(*offsets.shape[:2], *shape).softmax(-1)
        gathered = (sampled * weights.transpose(1, 2).flatten(0, 1)[:, None]).sum(-1)
        heads = gathered.reshape(len(queries), -1, queries.shape[1])
        projected: Tensor = self.output_proj(heads.transpose(1, 2).to(queries.dtype))
        return projected


class _FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = x + self.dropout(self.fc2(self.dropout(self.fc1(x).relu())))
        return added


class _DecoderLayer(nn.Module):
    """A transformer layer: attention to other queries, to the page, and feed-forward layers, each then normalized."""

    def __init__(
        self, width: int, self_heads: int, cross_heads: int, num_points: int, inner: int, dropout: float
    ) -> None:
        super().__init__()
        self.self_attn = _SelfAttention(width, self_heads, dropout)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.cross_attn = _DeformableAttention(width, cross_heads, num_points)
        self.cross_attn_layer_norm = nn.LayerNorm(width)
        self.mlp = _FeedForward(width, inner, dropout)
        self.layer_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, queries: Tensor, positions: Tensor, boxes: Tensor, features: Tensor, valid: Tensor, groups: int
    ) -> Tensor:
        among = self.self_attn(queries, positions, groups)
        queries = self.self_attn_layer_norm(queries + self.dropout(among))
        seen = self.cross_attn(queries + positions, boxes, features, valid)
        queries = self.cross_attn_layer_norm(queries + self.dropout(seen))
        normed: Tensor = self.layer_norm(self.mlp(queries))
        return normed


class Decoder(nn.Module):
    """Layers that refine queries and their boxes.

    After each layer, ``bbox_embed`` computes a step for each query, and `move_boxes` applies it to the query's box.
    """

    def __init__(
        self,
        bbox_embed: nn.Module,
        num_layers: int,
        width: int,
        self_heads: int,
        cross_heads: int,
        num_points: int,
        inner: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            _DecoderLayer(width, self_heads, cross_heads, num_points, inner, dropout) for _ in range(num_layers)
        )
        self.layernorm = nn.LayerNorm(width)
        self.bbox_embed = bbox_embed
        self.ref_point_head = Perceptron(2 * width, width, width)
        self.angle_proj = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width))

    def forward(
        self, queries: Tensor, boxes: Tensor, features: Tensor, valid: Tensor, groups: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Run the layers, and yield the queries (N, groups * Q, D) and their boxes (N, groups * Q, 6) after each layer.

        ``features`` (N, D, h, w) are the features of the page, and ``valid`` (N, h, w) is false in its padding. Queries
        of different groups do not attend to each other.
        """
        looked_at = start = boxes
        for layer in self.layers:
            queries = layer(queries, self._positions(looked_at, queries.dtype), looked_at, features, valid, groups)
            normed = self.layernorm(queries)
            step = self.bbox_embed(normed)
            # Each layer's loss trains this layer and the previous one; detaching stops the gradient to earlier layers.
            yield normed, move_boxes(start, step)
            start = move_boxes(looked_at, step)
            looked_at = start.detach()

    def _positions(self, boxes: Tensor, dtype: torch.dtype) -> Tensor:
        """Return an encoding (N, Q, D) of the position, size and direction of each box."""
        width = self.layernorm.normalized_shape[0]
        steps = torch.arange(0, width // 2, 2, device=boxes.device, dtype=boxes.dtype)
        angles = 2 * math.pi * boxes[..., [1, 0, 2, 3], None] * 10000 ** (-2 * steps / width)
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-3)
        sine, cosine = boxes[..., 4:].unbind(-1)
        direction = torch.stack([sine, cosine, 2 * sine * cosine, cosine**2 - sine**2], dim=-1)
        placed: Tensor = self.ref_point_head(waves.to(dtype)) + self.angle_proj(direction.to(dtype))
        return placed


def _cfg(url: str | None) -> dict[str, Any]:
    return {
        "input_shape": (3, 1024, 1024),
        "mean": (0.798, 0.785, 0.772),
        "std": (0.264, 0.2749, 0.287),
        "class_names": list(REGION_KINDS),
        "url": url,
    }


default_cfgs: dict[str, dict[str, Any]] = {
    "lw_detr_s": _cfg("https://github.com/mindee/doctr/releases/download/v1.0.1/lw_detr_s-ebbd6ab9.pt"),
    "lw_detr_m": _cfg(None),
}


class LWDETRPostProcessor:
    """Selects the regions of pages from the outputs of `LWDETR`. Its attributes can be changed at any time.

    The network computes a box and a score for each class from each of its queries. A query looks for one region.

    Args:
        num_classes: Number of classes of regions.
        score_thresh: Only regions with a higher score, in [0, 1], are returned.
        iou_thresh: If two regions of a class overlap with at least this intersection over union, only the one with the
            higher score is returned.
        topk: How many pairs of a query and a class to consider per page; the pairs with the highest scores are chosen.
        assume_straight_pages: Return axis-aligned boxes; otherwise return the four corners of oriented boxes.
    """

    def __init__(
        self,
        num_classes: int,
        score_thresh: float = 0.5,
        iou_thresh: float = 0.5,
        topk: int = 300,
        assume_straight_pages: bool = True,
    ) -> None:
        self.num_classes = num_classes
        self.score_thresh, self.iou_thresh, self.topk = score_thresh, iou_thresh, topk
        self.assume_straight_pages = assume_straight_pages

    def __repr__(self) -> str:
        return f"{type(self).__name__}(score_thresh={self.score_thresh}, iou_thresh={self.iou_thresh})"

    def __call__(self, logits: NDArray[np.floating[Any]], boxes: NDArray[np.floating[Any]]) -> list[Found]:
        """Select the regions on each page.

        Args:
            logits: The score of each query for each class, before the sigmoid, (N, Q, C).
            boxes: The box of each query, (N, Q, 6): x and y of its centre, its width and its height, all relative to
                the page, and the sine and cosine of its direction.

        Returns:
            A list with three items for each page: a list of K labels (class indices); the boxes, a float32 array, which
            is (K, 4), as xmin, ymin, xmax, ymax, or (K, 4, 2), the corners (x, y); and a list of K scores in [0, 1].
            Regions are sorted by label, and then by descending score.
        """
        return [self._regions(*page) for page in zip(logits, boxes, strict=True)]

    def _regions(self, logits: NDArray[np.floating[Any]], boxes: NDArray[np.floating[Any]]) -> Found:
        scores = 1 / (1 + np.exp(-logits.astype(np.float64).ravel().clip(-700, 700)))
        best = np.argsort(-scores, kind="stable")[: self.topk]
        best = best[scores[best] > self.score_thresh]
        query, labels = np.divmod(best, logits.shape[1])
        quads = order_points(_corners(boxes[query].astype(np.float64)))
        kept = [
            index
            for label in np.unique(labels)
            for index in self._drop_overlaps(np.flatnonzero(labels == label), quads)
        ]
        found = quads[kept].reshape(-1, 4, 2)
        if self.assume_straight_pages:
            found = boxes_around(found)
        clipped = found.clip(0, 1).astype(np.float32)
        return labels[kept].tolist(), clipped, scores[best][kept].astype(np.float32).tolist()

    def _drop_overlaps(self, members: NDArray[np.intp], quads: NDArray[np.float64]) -> list[int]:
        """Return the ``members``, sorted by descending score, that do not overlap too much with a better region."""
        too_near = polygon_iou(quads[members], quads[members]) >= self.iou_thresh
        kept: list[int] = []
        for position in range(len(members)):
            if not too_near[position, kept].any():
                kept.append(position)
        return members[kept].tolist() if kept else []


def _corners(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners (K, 4, 2) of oriented boxes (K, 6)."""
    direction = boxes[:, :3:-1] / np.linalg.norm(boxes[:, 4:], axis=1, keepdims=True).clip(1e-12)
    across = direction * boxes[:, 2:3] / 2
    down = direction[:, ::-1] * (-1, 1) * boxes[:, 3:4] / 2
    centre = boxes[:, :2]
    return np.stack([centre - across - down, centre + across - down, centre + across + down, centre - across + down], 1)


class LWDETR(BoxNetwork, StateDictNetwork):
    """LW-DETR, a network that finds the regions of pages.

    See Chen et al., "LW-DETR: A Transformer Replacement to YOLO for Real-Time Detection", 2024,
    https://arxiv.org/abs/2406.03459. Each query looks for one region. The box of a query starts where a region is
    likely, and a decoder then moves it. In training there are several groups of queries, and each group has to find all
    regions.

    Args:
        feat_extractor: The backbone, which computes features (N, d_model, h, w) of pages.
        class_names: The names of the classes of regions, such as ``"Table"``.
        score_thresh: Only regions with a higher score, in [0, 1], are returned.
        iou_thresh: If two regions of a class overlap with at least this intersection over union, only the one with the
            higher score is returned.
        d_model: Number of feature channels.
        num_queries: Number of queries in a group. At most this many regions of each class can be found on a page.
        group_detr: Number of groups of queries in training. In evaluation mode there is only one.
        dec_layers: Number of decoder layers.
        sa_num_heads: Number of heads for the attention of queries to each other.
        ca_num_heads: Number of heads for the attention of queries to the page.
        ff_dim: Inner width of the feed-forward layers.
        dec_n_points: Number of points of the page to which each attention head of a query attends.
        dropout_prob: Dropout probability.
        assume_straight_pages: Return axis-aligned boxes; otherwise return the four corners of oriented boxes.
        exportable: Whether ``forward`` returns only ``logits`` and ``pred_boxes``, as required for export.
        cfg: Dictionary of preprocessing settings that predictors use: ``mean``, ``std`` and ``input_shape``.

    Raises:
        InvalidArgumentError: ``class_names`` is empty.
    """

    postprocessor: LWDETRPostProcessor

    def __init__(
        self,
        feat_extractor: nn.Module,
        class_names: Sequence[str],
        score_thresh: float = 0.5,
        iou_thresh: float = 0.5,
        d_model: int = 256,
        num_queries: int = 195,
        group_detr: int = 13,
        dec_layers: int = 3,
        sa_num_heads: int = 8,
        ca_num_heads: int = 16,
        ff_dim: int = 2048,
        dec_n_points: int = 2,
        dropout_prob: float = 0.0,
        assume_straight_pages: bool = True,
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if not class_names:
            raise InvalidArgumentError("class_names is empty: name at least one kind of region.")
        self.class_names = list(class_names)
        self.exportable, self.cfg = exportable, cfg
        self.num_queries, self.group_detr = num_queries, group_detr
        classes = len(self.class_names)

        self.feat_extractor = feat_extractor
        self.reference_point_embed = nn.Embedding(num_queries * group_detr, 6)
        self.query_feat = nn.Embedding(num_queries * group_detr, d_model)
        self.class_embed = nn.Linear(d_model, classes)
        self.bbox_embed = Perceptron(d_model, d_model, d_model, 6)
        self.decoder = Decoder(
            self.bbox_embed, dec_layers, d_model, sa_num_heads, ca_num_heads, dec_n_points, ff_dim, dropout_prob
        )
        self.enc_output = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(group_detr))
        self.enc_output_norm = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(group_detr))
        self.enc_out_bbox_embed = nn.ModuleList(Perceptron(d_model, d_model, d_model, 6) for _ in range(group_detr))
        self.enc_out_class_embed = nn.ModuleList(nn.Linear(d_model, classes) for _ in range(group_detr))
        self.postprocessor = LWDETRPostProcessor(
            classes, score_thresh, iou_thresh, assume_straight_pages=assume_straight_pages
        )
        self._initialize_all_but_backbone()

    def forward(
        self,
        input: Tensor,
        masks: Tensor | None = None,
        target: LayoutTarget | None = None,
        return_model_output: bool = False,
        return_preds: bool = False,
    ) -> dict[str, Any]:
        """Find the regions of pages.

        Args:
            input: Pages (N, 3, H, W), normalized with the mean and std in ``cfg``. H and W must be multiples of 64,
                and H * W at least 256 * ``num_queries``.
            masks: True in the page and False in its padding, bool (N, H, W); ``None`` if there is no padding.
            target: The annotated regions, to compute the loss: for each page, a dictionary that maps class names
                to boxes relative to the page. Boxes are (K, 4), as xmin, ymin, xmax, ymax, or four corners (K, 4, 2).
            return_model_output: Return ``logits`` even if there is a target.
            return_preds: Return ``preds`` and ``logits`` even if there is a target.

        Returns:
            A dictionary. ``loss``, a scalar, is present if there is a target. ``logits`` and ``preds`` are present if
            there is no target, or if they are requested. ``logits`` (N, Q, C) are the scores of C classes for each of Q
            queries, before the sigmoid. ``preds`` has three items for each page: a list of K labels (indices of
            ``class_names``); the boxes, a float32 array (K, 4) or (K, 4, 2); and a list of K scores. If ``exportable``
            is true, the dictionary has only ``logits`` and ``pred_boxes`` (N, Q, 6).

        Raises:
            InvalidArgumentError: The pages are too small, the target does not have one dictionary for each page, or its
                boxes have an unknown class or wrong shape.
            MissingDependencyError: There is a target, and SciPy is not installed.
        """
        if target is not None and len(target) != len(input):
            raise InvalidArgumentError(f"target has {len(target)} items for {len(input)} pages; give one for each.")
        features = self.feat_extractor(input)
        grid = features.shape[-2:]
        if grid.numel() < self.num_queries:
            raise InvalidArgumentError(
                f"pages of {input.shape[-2]} x {input.shape[-1]} pixels have {grid.numel()} places to look at, and "
                f"{self.num_queries} are needed."
            )
        valid = (
            torch.ones(len(input), *grid, dtype=torch.bool, device=input.device)
            if masks is None
            else _shrink_masks(masks, grid)
        )
        groups = self.group_detr if self.training else 1
        scores, first = self._propose(features, valid, groups)
        number = groups * self.num_queries
        queries = self.query_feat.weight[:number].expand(len(input), -1, -1)
        boxes = move_boxes(first.detach(), self.reference_point_embed.weight[:number])
        layers = list(self.decoder(queries, boxes, features, valid, groups))
        last, boxes = layers[-1]
        logits = widen_floats(self.class_embed(last))

        if self.exportable:
            return {"logits": logits, "pred_boxes": boxes}
        out: dict[str, Any] = {}
        if return_model_output or return_preds or target is None:
            out["logits"] = logits
        if return_preds or target is None:
            out["preds"] = self._predictions(logits, boxes)
        if target is not None:
            predictions = [(scores, first), *((self.class_embed(own), places) for own, places in layers)]
            out["loss"] = self._loss(predictions, target, groups, max(input.shape[-2:]))
        return out

    def _propose(self, features: Tensor, valid: Tensor, groups: int) -> tuple[Tensor, Tensor]:
        """Return scores (N, groups * Q, C) and boxes (N, groups * Q, 6) at the likeliest positions, group by group."""
        places, inside = _places(features)
        usable = valid.flatten(1) & inside
        tokens = features.flatten(2).transpose(1, 2).masked_fill(~usable[..., None], 0)
        start = places * usable[..., None]
        scores, boxes = [], []
        for group in range(groups):
            seen = self.enc_output_norm[group](self.enc_output[group](tokens))
            likely = self.enc_out_class_embed[group](seen)
            best = likely.amax(-1).masked_fill(~usable, -torch.inf).topk(self.num_queries, dim=1).indices
            scores.append(_take_rows(likely, best))
            step = self.enc_out_bbox_embed[group](_take_rows(seen, best))
            boxes.append(move_boxes(_take_rows(start, best), step))
        return torch.cat(scores, 1), torch.cat(boxes, 1)

    def _loss(
        self, predictions: Sequence[tuple[Tensor, Tensor]], target: LayoutTarget, groups: int, longer_side: int
    ) -> Tensor:
        """Sum the losses of the proposals and of each decoder layer, and average them over the groups of queries."""
        sets = (torch.stack(list(parts)) for parts in zip(*predictions, strict=True))
        logits, boxes = (
            parts.reshape(*parts.shape[:2], groups, -1, parts.shape[-1]).transpose(1, 2).flatten(0, 1) for parts in sets
        )
        return layout_loss(logits, boxes, oriented_regions(target, self.class_names), float(longer_side)) / groups

    # Regions are computed with NumPy, which torch.compile must not trace.
    @not_compiled
    def _predictions(self, logits: Tensor, boxes: Tensor) -> list[Found]:
        return self.postprocessor(*download(logits, boxes))

    def _initialize_all_but_backbone(self) -> None:
        """Initialise all parts but the backbone, so that boxes do not move yet, and all classes are improbable."""
        for name, module in self.named_modules():
            if name.startswith("feat_extractor."):
                continue
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        stay = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        with torch.no_grad():
            for classes in (self.class_embed, *self.enc_out_class_embed):
                nn.init.constant_(classes.bias, -math.log(99))
            for steps in (self.bbox_embed, *self.enc_out_bbox_embed):
                steps.layers[-1].weight.zero_()
                steps.layers[-1].bias.copy_(stay)
            self.reference_point_embed.weight.copy_(stay)


def _shrink_masks(masks: Tensor, grid: torch.Size) -> Tensor:
    """Reduce masks of pixels to masks of features of size ``grid``, which are true if any of their pixels is."""
    # Convert to int, because exporters trace shapes as tensors.
    kernel = (int(masks.shape[-2]) // int(grid[0]), int(masks.shape[-1]) // int(grid[1]))
    return F.max_pool2d(masks.float()[:, None], kernel)[:, 0] > 0


def _take_rows(values: Tensor, indices: Tensor) -> Tensor:
    return values.gather(1, indices[..., None].expand(-1, -1, values.shape[-1]))


def _places(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return small boxes (h * w, 6), one at each position of the features, and whether each is not at the rim."""
    height, width = features.shape[-2:]
    # Explicit types, because exporters would use float64.
    rows, columns = (
        (torch.arange(length, device=features.device, dtype=torch.float32) + 0.5) / length for length in (height, width)
    )
    down, across = torch.meshgrid(rows, columns, indexing="ij")
    centre = torch.stack([across, down], dim=-1).flatten(0, 1)
    rest = constant((0.05, 0.05, 0.0, 1.0), features.device).expand(height * width, -1)
    return torch.cat([centre, rest], dim=1), ((centre > 0.01) & (centre < 0.99)).all(dim=1)


def _lw_detr(arch: str, pretrained: bool, encoder: Callable[..., nn.Module], d_model: int, kwargs: Any) -> LWDETR:
    cfg = {**default_cfgs[arch], "class_names": sorted(kwargs.pop("class_names", None) or REGION_KINDS)}
    patch_size = kwargs.pop("patch_size", (16, 16))
    features = encoder(False, include_top=False, input_shape=cfg["input_shape"], patch_size=patch_size)
    # Four layers of the encoder return their features.
    backbone = Backbone(features, in_channels=4 * d_model)
    other_options = ("class_names", "patch_size")
    model = make_network(
        arch, LWDETR, backbone, cfg["class_names"], options=kwargs, other_options=other_options, cfg=cfg
    )
    if pretrained:
        heads = ["class_embed", *(f"enc_out_class_embed.{group}" for group in range(model.group_detr))]
        is_published = cfg["class_names"] == sorted(REGION_KINDS)
        ignored = () if is_published else [f"{head}.{part}" for head in heads for part in ("weight", "bias")]
        load_weights(model, arch, ignore_keys=ignored)
    return model


def lw_detr_s(pretrained: bool = False, **kwargs: Any) -> LWDETR:
    """Return the small `LWDETR`, which has 15 million parameters.

    The network is in training mode.

    Args:
        pretrained: Load docTR's weights from a file on this machine; see `find_weights`.
        **kwargs: Arguments of `LWDETR`, except ``feat_extractor`` and ``cfg``. ``class_names`` are sorted; by default,
            docTR's eleven classes are used. ``patch_size`` is also accepted: the height and width in pixels of the
            backbone's patches, by default (16, 16).

    Raises:
        WeightsNotFoundError: ``pretrained`` is true, but the weights file is not on this machine. The message says
            where to put it.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import lw_detr_s
        >>> lw_detr_s(exportable=True).eval()(torch.zeros(1, 3, 256, 256))["pred_boxes"].shape
        torch.Size([1, 195, 6])
    """
    return _lw_detr("lw_detr_s", pretrained, vit_det_s, 192, kwargs)


def lw_detr_m(pretrained: bool = False, **kwargs: Any) -> LWDETR:
    """Return the medium `LWDETR`, which has 29 million parameters. See `lw_detr_s` for the arguments.

    docTR does not publish weights for this network.
    """
    return _lw_detr("lw_detr_m", pretrained, vit_det_m, 384, kwargs)
