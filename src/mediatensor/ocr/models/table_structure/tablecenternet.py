"""TableCenterNet: a convolutional network that finds the cells of tables by their centres and corners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .._networks.blocks import FeatureExtractor
from .._networks.transfers import at_least_float32
from .._networks.weights import load_pretrained_params, load_weights
from ..classification import starnet_s3
from ._cells import TableCenterNetPostProcessor
from ._layers import Aggregation, Merging
from ._learning import TableTarget, drawn_tables, table_loss

__all__ = ["TableCenterNet", "TableCenterNetPostProcessor", "tablecenternet"]

default_cfgs: dict[str, dict[str, Any]] = {
    "tablecenternet": {
        "input_shape": (3, 1024, 1024),
        "mean": (0.798, 0.785, 0.772),
        "std": (0.264, 0.2749, 0.287),
        "url": "https://github.com/mindee/doctr/releases/download/v1.0.1/tablecenternet-ea5b30a3.pt",
    },
}

_HEADS = {"hm": 2, "reg": 2, "ct2cn": 8, "cn2ct": 8, "lc": 2, "sp": 2}
_RARE = -2.19
"""Key points have a probability of a tenth before anything is learnt."""


class TableCenterNet(nn.Module):
    """TableCenterNet (Xiao et al., "TableCenterNet: A one-stage network for table structure recognition", 2025,
    https://arxiv.org/abs/2504.17522).

    Args:
        feat_extractor: Five features of a picture, each half as fine as the one before, the first of half its size.
        heads: Channels of each of the maps, by name.
        head_conv: Channels of the layer before them.
        first_level: The first of the features that are used.
        last_level: The one after the last from which maps are made; those behind it are merged into it.
        center_thresh: Cells of a lower score are left out.
        corner_thresh: Corners of a lower score move no cell.
        center_k: The most cells.
        corner_k: The most corners.
        not_relocate: Do not move cells to corners that were found.
        max_objects: Cells of a table from which is learnt; of others, the first ones.
        max_corners: Accepted for the sake of docTR: all corners of these cells are learnt.
        assume_straight_pages: Straight boxes; otherwise corners.
        exportable: Return the maps and nothing else, as exporters need.
        cfg: The configuration that the model was made for.
    """

    def __init__(
        self,
        feat_extractor: FeatureExtractor,
        heads: Mapping[str, int] = _HEADS,
        head_conv: int = 256,
        first_level: int = 1,
        last_level: int = 4,
        center_thresh: float = 0.3,
        corner_thresh: float = 0.3,
        center_k: int = 3000,
        corner_k: int = 5000,
        not_relocate: bool = False,
        max_objects: int = 300,
        max_corners: int = 1200,
        assume_straight_pages: bool = True,
        exportable: bool = False,
        cfg: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.max_objects = dict(heads), max_objects
        self.first_level, self.last_level = first_level, last_level
        self.exportable, self.cfg = exportable, cfg
        self.feat_extractor = feat_extractor
        channels = [shape[0] for shape in feat_extractor.shapes()][first_level:]
        used = last_level - first_level
        self.dla_up = Aggregation(channels)
        self.ida_up = Merging(channels[:used], [2**level for level in range(used)])
        for name, out_channels in self.heads.items():
            last = nn.Conv2d(head_conv, out_channels, 1)
            nn.init.constant_(last.bias, _RARE if "hm" in name else 0.0)  # type: ignore[arg-type]
            head = nn.Sequential(nn.Conv2d(channels[0], head_conv, 3, padding=1), nn.ReLU(inplace=True), last)
            self.add_module(name, head)
        self.postprocessor = TableCenterNetPostProcessor(
            center_thresh, corner_thresh, not_relocate, assume_straight_pages, center_k, corner_k
        )

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
        x: Tensor,
        target: TableTarget | None = None,
        return_model_output: bool = False,
        return_preds: bool = False,
    ) -> dict[str, Any]:
        """Which cells are in pictures of tables.

        Args:
            x: Pictures (N, 3, H, W), normalized as ``cfg`` says; H and W multiples of 32.
            target: For the loss: per picture ``cells``, relative (K, 4) or corners (K, 4, 2) clockwise from the top
                left, and ``logic``, integers (K, 4): first and last column, first and last row, from 0.
            return_model_output: Return ``out_map``, the maps (N, channels, H / 4, W / 4) by name.
            return_preds: Return ``preds`` although there is a target.

        Returns:
            ``preds``: per picture ``polygons``, ``scores`` and ``logical``, see :class:`TableCenterNetPostProcessor`;
            ``out_map`` if asked for; ``loss`` where there is a target. An exportable model: the maps.

        Raises:
            InvalidArgumentError: Cells of the target are beyond [0, 1], or of wrong shapes.
        """
        merged = self.dla_up(self.feat_extractor(x)[self.first_level :])
        finest = self.ida_up(merged[: self.last_level - self.first_level])[-1]
        maps = {name: at_least_float32(self.get_submodule(name)(finest)) for name in self.heads}
        if self.exportable:
            return maps
        out: dict[str, Any] = {}
        if return_model_output:
            out["out_map"] = maps
        if target is None or return_preds:
            out["preds"] = self._predictions(maps)
        if target is not None:
            out["loss"] = self._loss(maps, target)
        return out

    # Cells are made, and drawn, with numpy: a compiler of graphs must not look inside.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _predictions(self, maps: dict[str, Tensor]) -> list[dict[str, NDArray[Any]]]:
        return self.postprocessor(maps)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _loss(self, maps: dict[str, Tensor], target: TableTarget) -> Tensor:
        most = self.max_objects
        tables = [{name: np.asarray(table[name])[:most] for name in ("cells", "logic")} for table in target]
        return table_loss(maps, drawn_tables(tables, (maps["hm"].shape[-2], maps["hm"].shape[-1])))


def tablecenternet(pretrained: bool = False, pretrained_backbone: bool = False, **kwargs: Any) -> TableCenterNet:
    """TableCenterNet with a StarNet-S3 backbone: 7 million parameters.

    Args:
        pretrained: Load docTR's weights, if their file is on this machine.
        pretrained_backbone: Load those of the backbone alone.
        **kwargs: Options of :class:`TableCenterNet`.

    Returns:
        The network, in training mode.

    Raises:
        WeightsNotFoundError: Weights are asked for and not there; the message says where to put them.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.models import tablecenternet
        >>> tablecenternet(exportable=True).eval()(torch.zeros(1, 3, 64, 64))["hm"].shape
        torch.Size([1, 2, 16, 16])
    """
    backbone = starnet_s3(pretrained_backbone and not pretrained)
    features = FeatureExtractor(backbone, [str(level) for level in range(5)])
    model = TableCenterNet(features, cfg=dict(default_cfgs["tablecenternet"]), **kwargs)
    if pretrained:
        load_weights(model, "tablecenternet")
    return model
