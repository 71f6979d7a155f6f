"""LW-DETR: a transformer that finds the regions of a page, in docTR's form, whose boxes have a direction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ....errors import InvalidArgumentError
from ...structure import REGION_KINDS
from ...utils import order_points, polygon_iou
from .._networks.transfers import at_least_float32, constant, download
from .._networks.weights import load_pretrained_params, load_weights
from ..classification import vit_det_m, vit_det_s
from ._layers import Backbone, Decoder, Perceptron, moved
from ._learning import LayoutTarget, layout_loss, oriented_regions

__all__ = ["LWDETR", "LWDETRPostProcessor", "lw_detr_m", "lw_detr_s"]


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

Found = tuple[list[int], NDArray[np.float32], list[float]]
"""The regions of a page: labels; relative boxes, (K, 4) or (K, 4, 2); scores."""


class LWDETRPostProcessor:
    """Regions from the scores and boxes of the queries; its attributes may be changed at any time.

    Args:
        num_classes: How many classes there are.
        score_thresh: Regions of at most this score are left out.
        iou_thresh: Of two regions of a class that overlap so much, the one with the higher score stays.
        topk: Pairs of a query and a class that are looked at, the most probable ones.
        assume_straight_pages: Straight boxes; otherwise corners.
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
        """The regions of each page, ordered by label, then by falling score.

        Args:
            logits: Scores before the sigmoid, (N, Q, C).
            boxes: (N, Q, 6): centre, width and height relative to the page, sine and cosine of the direction.
        """
        return [self._regions(*page) for page in zip(logits, boxes, strict=True)]

    def _regions(self, logits: NDArray[np.floating[Any]], boxes: NDArray[np.floating[Any]]) -> Found:
        scores = 1 / (1 + np.exp(-logits.astype(np.float64).ravel().clip(-700, 700)))
        best = np.argsort(-scores, kind="stable")[: self.topk]
        best = best[scores[best] > self.score_thresh]
        query, labels = np.divmod(best, logits.shape[1])
        quads = order_points(_corners(boxes[query].astype(np.float64)))
        kept = [index for label in np.unique(labels) for index in self._apart(np.flatnonzero(labels == label), quads)]
        found = quads[kept].reshape(-1, 4, 2)
        if self.assume_straight_pages:
            found = np.concatenate([found.min(axis=1), found.max(axis=1)], axis=1)
        clipped = found.clip(0, 1).astype(np.float32)
        return labels[kept].tolist(), clipped, scores[best][kept].astype(np.float32).tolist()

    def _apart(self, members: NDArray[np.intp], quads: NDArray[np.float64]) -> list[int]:
        """Those of the members, which are in the order of their scores, that none before them overlaps too much."""
        too_near = polygon_iou(quads[members], quads[members]) >= self.iou_thresh
        kept: list[int] = []
        for position in range(len(members)):
            if not too_near[position, kept].any():
                kept.append(position)
        return members[kept].tolist() if kept else []


def _corners(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Corners (K, 4, 2) of boxes (K, 6)."""
    direction = boxes[:, :3:-1] / np.linalg.norm(boxes[:, 4:], axis=1, keepdims=True).clip(1e-12)
    across = direction * boxes[:, 2:3] / 2
    down = direction[:, ::-1] * (-1, 1) * boxes[:, 3:4] / 2
    centre = boxes[:, :2]
    return np.stack([centre - across - down, centre + across - down, centre + across + down, centre - across + down], 1)


class LWDETR(nn.Module):
    """LW-DETR (Chen et al., "LW-DETR: A Transformer Replacement to YOLO for Real-Time Detection", 2024,
    https://arxiv.org/abs/2406.03459).

    Places of the page where a region is likely become queries, and a decoder moves their boxes. In training there are
    several groups of queries, each of which is to find all regions.

    Args:
        feat_extractor: Features (N, d_model, h, w) of pages.
        class_names: The kinds of regions.
        score_thresh: Regions of at most this score are left out.
        iou_thresh: Of two regions of a kind that overlap so much, one is left out.
        d_model: The width of the features.
        num_queries: The most regions on a page.
        group_detr: Groups of queries in training; there is one elsewhere.
        dec_layers: Layers of the decoder.
        sa_num_heads: Heads of the attention among queries.
        ca_num_heads: Heads of the attention to the page.
        ff_dim: The width inside the feed-forward parts.
        dec_n_points: Points of the page that each head looks at.
        dropout_prob: The probability of a feature to be dropped, in training.
        assume_straight_pages: Straight boxes; otherwise corners.
        exportable: Return logits and boxes alone, as exporters need.
        cfg: The configuration that the model was made for.

    Raises:
        InvalidArgumentError: There are no class names.
    """

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

    @property
    def assume_straight_pages(self) -> bool:
        """Whether ``preds`` have straight boxes; that of the post-processor."""
        return self.postprocessor.assume_straight_pages

    @assume_straight_pages.setter
    def assume_straight_pages(self, straight: bool) -> None:
        self.postprocessor.assume_straight_pages = straight

    def from_pretrained(self, path_or_url: str, **kwargs: Any) -> None:
        """Load a checkpoint from a file; see :func:`~mediatensor.ocr.models.utils.load_pretrained_params`."""
        load_pretrained_params(self, path_or_url, **kwargs)

    def forward(
        self,
        input: Tensor,
        masks: Tensor | None = None,
        target: LayoutTarget | None = None,
        return_model_output: bool = False,
        return_preds: bool = False,
    ) -> dict[str, Any]:
        """Which regions are on pages.

        Args:
            input: Pages (N, 3, H, W), normalized as ``cfg`` says; H and W multiples of 64 with at least ``num_queries``
                squares of 16 pixels.
            masks: Where these are pages and not padding, bool (N, H, W). None, everywhere.
            target: For the loss: per page the relative boxes of each class, (K, 4) or (K, 4, 2).
            return_model_output: Return ``logits`` (N, Q, C), the scores of classes before the sigmoid.
            return_preds: Return ``preds`` although there is a target.

        Returns:
            ``preds``: per page labels, relative boxes and scores, see :class:`LWDETRPostProcessor`; ``logits`` if asked
            for, and where there is no target; ``loss`` where there is one. An exportable model: ``logits`` and
            ``pred_boxes`` (N, Q, 6).

        Raises:
            InvalidArgumentError: The pages are too small; boxes of the target are of unknown classes or wrong shapes.
            MissingDependencyError: There is a target, and SciPy is not installed.
        """
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
            else _shrunk(masks, grid)
        )
        groups = self.group_detr if self.training else 1
        scores, first = self._proposed(features, valid, groups)
        number = groups * self.num_queries
        queries = self.query_feat.weight[:number].expand(len(input), -1, -1)
        boxes = moved(first.detach(), self.reference_point_embed.weight[:number])
        layers = list(self.decoder(queries, boxes, features, valid, groups))
        last, boxes = layers[-1]
        logits = at_least_float32(self.class_embed(last))

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

    def _proposed(self, features: Tensor, valid: Tensor, groups: int) -> tuple[Tensor, Tensor]:
        """The places of the page where each group sees regions: scores (N, groups * Q, C), boxes (N, groups * Q, 6)."""
        places, inside = _places(features)
        usable = valid.flatten(1) & inside
        tokens = features.flatten(2).transpose(1, 2).masked_fill(~usable[..., None], 0)
        start = places * usable[..., None]
        scores, boxes = [], []
        for group in range(groups):
            seen = self.enc_output_norm[group](self.enc_output[group](tokens))
            likely = self.enc_out_class_embed[group](seen)
            best = likely.amax(-1).masked_fill(~usable, -torch.inf).topk(self.num_queries, dim=1).indices
            scores.append(_chosen(likely, best))
            step = self.enc_out_bbox_embed[group](_chosen(seen, best))
            boxes.append(moved(_chosen(start, best), step))
        return torch.cat(scores, 1), torch.cat(boxes, 1)

    def _loss(
        self, predictions: Sequence[tuple[Tensor, Tensor]], target: LayoutTarget, groups: int, longer_side: int
    ) -> Tensor:
        """The sum over what the page and each layer predict, of the mean over groups."""
        sets = (torch.stack(list(parts)) for parts in zip(*predictions, strict=True))
        logits, boxes = (
            parts.reshape(*parts.shape[:2], groups, -1, parts.shape[-1]).transpose(1, 2).flatten(0, 1) for parts in sets
        )
        return layout_loss(logits, boxes, oriented_regions(target, self.class_names), float(longer_side)) / groups

    # The regions are made with numpy: a compiler of graphs must not look inside.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _predictions(self, logits: Tensor, boxes: Tensor) -> list[Found]:
        return self.postprocessor(*download(logits, boxes))

    def _initialize_all_but_backbone(self) -> None:
        """Small random weights; steps that leave boxes where they are, and classes that are as rare as regions."""
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


def _shrunk(masks: Tensor, grid: torch.Size) -> Tensor:
    """Bool (N, h, w): whether any pixel of a place is valid."""
    # Plain numbers, also while an exporter traces shapes.
    kernel = (int(masks.shape[-2]) // int(grid[0]), int(masks.shape[-1]) // int(grid[1]))
    return F.max_pool2d(masks.float()[:, None], kernel)[:, 0] > 0


def _chosen(values: Tensor, indices: Tensor) -> Tensor:
    """Rows (N, Q, D) of values (N, L, D), whose indices are (N, Q)."""
    return values.gather(1, indices[..., None].expand(-1, -1, values.shape[-1]))


def _places(features: Tensor) -> tuple[Tensor, Tensor]:
    """A small box at each place of features (N, D, h, w), (h * w, 6), and whether it is off the rim of the page."""
    height, width = features.shape[-2:]
    # With their type named: exporters would make float64 of them.
    rows, columns = (
        (torch.arange(length, device=features.device, dtype=torch.float32) + 0.5) / length for length in (height, width)
    )
    down, across = torch.meshgrid(rows, columns, indexing="ij")
    centre = torch.stack([across, down], dim=-1).flatten(0, 1)
    rest = constant((0.05, 0.05, 0.0, 1.0), features.device).expand(height * width, -1)
    return torch.cat([centre, rest], dim=1), ((centre > 0.01) & (centre < 0.99)).all(dim=1)


def _lw_detr(arch: str, pretrained: bool, encoder: Callable[..., nn.Module], d_model: int, kwargs: Any) -> LWDETR:
    cfg = deepcopy(default_cfgs[arch])
    cfg["class_names"] = sorted(kwargs.pop("class_names", None) or REGION_KINDS)
    patch_size = kwargs.pop("patch_size", (16, 16))
    features = encoder(False, include_top=False, input_shape=cfg["input_shape"], patch_size=patch_size)
    # Four of the layers of the encoder give their features.
    backbone = Backbone(features, in_channels=4 * d_model)
    model = LWDETR(backbone, class_names=cfg["class_names"], cfg=cfg, **kwargs)
    if pretrained:
        heads = ["class_embed", *(f"enc_out_class_embed.{group}" for group in range(model.group_detr))]
        is_published = cfg["class_names"] == sorted(REGION_KINDS)
        ignored = () if is_published else [f"{head}.{part}" for head in heads for part in ("weight", "bias")]
        load_weights(model, arch, ignore_keys=ignored)
    return model


def lw_detr_s(pretrained: bool = False, **kwargs: Any) -> LWDETR:
    """The small LW-DETR: 15 million parameters.

    Args:
        pretrained: Load docTR's weights, if their file is on this machine.
        **kwargs: Options of :class:`LWDETR`; ``class_names`` are sorted. ``patch_size``, (16, 16), in pixels.

    Returns:
        The network, in training mode.

    Raises:
        WeightsNotFoundError: The weights are asked for and not there; the message says where to put them.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import lw_detr_s
        >>> lw_detr_s(exportable=True).eval()(torch.zeros(1, 3, 256, 256))["pred_boxes"].shape
        torch.Size([1, 195, 6])
    """
    return _lw_detr("lw_detr_s", pretrained, vit_det_s, 192, kwargs)


def lw_detr_m(pretrained: bool = False, **kwargs: Any) -> LWDETR:
    """The medium LW-DETR: 29 million parameters; arguments as :func:`lw_detr_s`. docTR publishes no weights for it."""
    return _lw_detr("lw_detr_m", pretrained, vit_det_m, 384, kwargs)
