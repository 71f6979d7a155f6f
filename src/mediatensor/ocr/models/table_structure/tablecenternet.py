"""TableCenterNet: a convolutional network that finds the cells of tables by their centers and corners."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ....errors import InvalidArgumentError
from ...utils import order_points
from ...utils.geometry import boxes_around
from .._networks.blocks import BoxNetwork, FeatureExtractor
from .._networks.registry import make_network
from .._networks.transfers import download, not_compiled, widen_floats
from .._networks.weights import StateDictNetwork, load_weights
from ..classification import starnet_s3
from ._learning import TableTarget, draw_tables, table_loss

__all__ = ["TableCenterNet", "TableCenterNetPostProcessor", "tablecenternet"]

_TAPS = 9  # number of taps of a 3 x 3 kernel
_LEAST_CORNERS, _DOUBT = 2, 0.4
"""If at most this many corners of a cell are found, its score is multiplied by the second number."""
Floats = NDArray[np.floating[Any]]
default_cfgs: dict[str, dict[str, Any]] = {
    "tablecenternet": {
        "input_shape": (3, 1024, 1024),
        "mean": (0.798, 0.785, 0.772),
        "std": (0.264, 0.2749, 0.287),
        "url": "https://github.com/mindee/doctr/releases/download/v1.0.1/tablecenternet-ea5b30a3.pt",
    },
}
_HEADS = {"hm": 2, "reg": 2, "ct2cn": 8, "cn2ct": 8, "lc": 2, "sp": 2}
_PRIOR_SCORE = -2.19  # initial probability of key points before training


class _DeformableConvolution(nn.Module):
    """A 3 x 3 convolution that predicts, at each pixel, where it samples its nine inputs and how it weights them.

    This is DCNv2 of Zhu et al., "Deformable ConvNets v2", 2018, https://arxiv.org/abs/1811.11168.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, 3, 3))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        # Vertical and horizontal offset of each tap in turn, then the weights of all taps.
        self.conv_offset_mask = nn.Conv2d(in_channels, 3 * _TAPS, 3, padding=1)
        nn.init.uniform_(self.weight, -((_TAPS * in_channels) ** -0.5), (_TAPS * in_channels) ** -0.5)
        nn.init.zeros_(self.conv_offset_mask.weight)
        nn.init.zeros_(self.conv_offset_mask.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        count, _, height, width = x.shape
        chosen = widen_floats(self.conv_offset_mask(x))
        down, across = chosen[:, : 2 * _TAPS].reshape(count, _TAPS, 2, height, width).unbind(2)
        rows, columns = (torch.arange(size, device=x.device, dtype=chosen.dtype) for size in (height, width))
        down, across = down + rows[:, None], across + columns
        taps = chosen[:, 2 * _TAPS :].sigmoid()
        pixels, out = widen_floats(x), self.bias[:, None, None].expand(count, -1, height, width)
        # Process one kernel row at a time: all nine taps together would need nine times the memory of the features.
        for row in range(3):
            own = slice(3 * row, 3 * row + 3)
            steps = torch.arange(-1, 2, device=x.device, dtype=chosen.dtype)[:, None, None]
            places = [
                2 / max(width - 1, 1) * (across[:, own] + steps) - 1,
                2 / max(height - 1, 1) * (down[:, own] + (row - 1)) - 1,
            ]
            grid = torch.stack(places, dim=-1).flatten(1, 2)
            seen = F.grid_sample(pixels, grid, mode="bilinear", align_corners=True)
            seen = seen.reshape(count, -1, 3, height, width) * taps[:, None, own]
            kernel = self.weight[:, :, row].flatten(1)[..., None, None]
            out = out + F.conv2d(seen.flatten(1, 2).to(x.dtype), kernel)
        return out


def _deformable_layer(in_channels: int, out_channels: int) -> nn.Sequential:
    activation = nn.Sequential(nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True))
    return nn.Sequential(OrderedDict(conv=_DeformableConvolution(in_channels, out_channels), actf=activation))


class Merging(nn.Module):
    """Merges feature maps step by step, from the finest to the coarsest. All results have the size of the finest map.

    In each step, the next coarser map is upsampled and added to the result of the previous step. This is the iterative
    deep aggregation of Yu et al., "Deep Layer Aggregation", 2017, https://arxiv.org/abs/1707.06484. ``scales`` are the
    upsampling factors of the maps; the first is not used.
    """

    def __init__(self, channels: Sequence[int], scales: Sequence[int]) -> None:
        super().__init__()
        width = channels[0]
        for level, (own, scale) in enumerate(zip(channels[1:], scales[1:], strict=True), start=1):
            enlarge = nn.ConvTranspose2d(width, width, 2 * scale, scale, scale // 2, groups=width, bias=False)
            self.add_module(f"proj_{level}", _deformable_layer(own, width))
            self.add_module(f"up_{level}", enlarge)
            self.add_module(f"node_{level}", _deformable_layer(width, width))

    def forward(self, features: Sequence[Tensor]) -> list[Tensor]:
        """Return the merged map after each step. All have the size and channels of ``features[0]``, the finest map."""
        merged = [features[0]]
        for level, coarse in enumerate(features[1:], start=1):
            fine = self.get_submodule(f"up_{level}")(self.get_submodule(f"proj_{level}")(coarse))
            merged.append(self.get_submodule(f"node_{level}")(merged[-1] + fine))
        return merged


class Aggregation(nn.Module):
    """Merges each feature map with all coarser maps. Each map must be half as large as the map before it."""

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        for step in range(len(channels) - 1):
            first = len(channels) - 2 - step
            # The features merged in the previous step all have the channels and the size of the first of them.
            merged = len(channels) - first - 1
            self.add_module(
                f"ida_{step}", Merging([channels[first], *[channels[first + 1]] * merged], [1, *[2] * merged])
            )

    def forward(self, features: Sequence[Tensor]) -> list[Tensor]:
        """Return, for each feature map, a merged map of the same size."""
        merged = list(features[-1:])
        found = [merged[-1]]
        for step, finer in enumerate(reversed(features[:-1])):
            merged = self.get_submodule(f"ida_{step}")([finer, *merged])
            found.insert(0, merged[-1])
        return found


class _Points(NamedTuple):
    """Detected centers or corners of cells, sorted by descending score. Positions are in pixels of the maps."""

    scores: Floats  # (K,)
    places: Floats  # (K, 2): positions x and y
    quads: Floats  # (K, 4, 2): for a center, the corners of its cell; for a corner, the centers of the adjacent cells
    rows: NDArray[np.intp]  # (K,): row of each key point's pixel in the maps
    columns: NDArray[np.intp]


class TableCenterNetPostProcessor:
    """Converts the output maps of `TableCenterNet` to the cells of tables. Its attributes can be changed at any time.

    Args:
        center_thresh: Cells with a lower score, in [0, 1], are dropped.
        corner_thresh: Corners with a lower score, in [0, 1], are ignored.
        not_relocate: Keep the corners of cells as predicted from their centers, instead of moving them to the detected
            corners. This is faster but less exact.
        assume_straight_pages: Return axis-aligned boxes; otherwise return the four corners of each cell.
        center_k: Maximum number of cells to consider in an image.
        corner_k: Maximum number of corners to consider in an image.
    """

    def __init__(
        self,
        center_thresh: float = 0.3,
        corner_thresh: float = 0.3,
        not_relocate: bool = False,
        assume_straight_pages: bool = True,
        center_k: int = 3000,
        corner_k: int = 5000,
    ) -> None:
        self.center_thresh, self.corner_thresh = center_thresh, corner_thresh
        self.not_relocate, self.assume_straight_pages = not_relocate, assume_straight_pages
        self.center_k, self.corner_k = center_k, corner_k

    def __repr__(self) -> str:
        return f"{type(self).__name__}(center_thresh={self.center_thresh}, corner_thresh={self.corner_thresh})"

    def __call__(self, maps: Mapping[str, Tensor]) -> list[dict[str, NDArray[Any]]]:
        """Return the cells of each image.

        Args:
            maps: The maps that the network predicts, by name. ``hm``, (N, 2, h, w), has the scores of centers and
                corners before the sigmoid, and ``reg``, (N, 2, h, w), their subpixel offsets. ``ct2cn``, (N, 8, h, w),
                has the vectors from a cell's corners to its center. ``cn2ct``, (N, 8, h, w), has the vectors to a
                corner from the centers of the cells around it. ``lc``, (N, 2, h, w), has column and row coordinates,
                counted from 1. ``sp``, (N, 2, h, w), has the number of columns and rows of a cell.

        Returns:
            A dict for each image. ``polygons``, float32 (K, 4) or (K, 4, 2), are relative to the image. ``scores`` are
            float32 (K,). ``logical``, int32 (K, 4), is the first and last column and the first and last row of each
            cell, counted from 0. Cells are sorted by descending score.
        """
        scores = maps["hm"].detach().float().sigmoid()
        peaks = scores * (F.max_pool2d(scores, 3, 1, 1) == scores)
        names = ("reg", "ct2cn", "cn2ct", "lc", "sp")
        arrays = download(peaks, *(maps[name].detach().float() for name in names))
        return [self._cells(own[0], dict(zip(names, own[1:], strict=True))) for own in zip(*arrays, strict=True)]

    def _cells(self, peaks: Floats, maps: Mapping[str, Floats]) -> dict[str, NDArray[Any]]:
        centers = _key_points(peaks[0], maps["reg"], maps["ct2cn"], self.center_thresh, self.center_k)
        corners = _key_points(peaks[1], maps["reg"], maps["cn2ct"], self.corner_thresh, self.corner_k)
        quads, scores = centers.quads.copy(), centers.scores.copy()
        spans = np.rint(maps["sp"][:, centers.rows, centers.columns].T)
        places = np.zeros((len(quads), 4, 2))
        if self.not_relocate:
            places[:] = _look_up(maps["lc"], quads)
        else:
            of_corners = maps["lc"][:, corners.rows, corners.columns].T
            extents = corners.quads.min(axis=1), corners.quads.max(axis=1)
            for index, quad in enumerate(centers.quads):
                nearest, count = _corners_of(quad, corners, extents)
                found = nearest >= 0
                quads[index, found] = corners.places[nearest[found]]
                places[index] = np.where(found[:, None], of_corners[nearest], 0) if len(of_corners) else 0
                places[index, ~found] = _look_up(maps["lc"], quads[index, ~found])
                scores[index] *= _DOUBT if count <= _LEAST_CORNERS else 1
        order = np.argsort(-scores, kind="stable")
        order = order[scores[order] >= self.center_thresh]
        logical = [_columns_and_rows(place, span) for place, span in zip(places[order], spans[order], strict=True)]
        height, width = peaks.shape[1:]
        found_quads = (quads[order] / (width, height)).clip(0, 1).astype(np.float32)
        return {
            "polygons": boxes_around(found_quads) if self.assume_straight_pages else order_points(found_quads),
            "scores": scores[order].astype(np.float32),
            "logical": np.array(logical, dtype=np.int32).reshape(-1, 4),
        }


def _key_points(peaks: Floats, offsets: Floats, ways: Floats, threshold: float, most: int) -> _Points:
    """Return the centers or corners at the pixels of ``peaks`` (h, w) with a score of at least ``threshold``.

    Only the ``most`` highest scores are kept. The map ``offsets`` has the subpixel offsets of the points, and the map
    ``ways`` the vectors between centers and corners.
    """
    rows, columns = np.nonzero((peaks >= threshold) & (peaks > 0))
    order = np.argsort(-peaks[rows, columns], kind="stable")[:most]
    rows, columns = rows[order], columns[order]
    places = np.stack([columns, rows], axis=1) + offsets[:, rows, columns].T
    quads = places[:, None] - ways[:, rows, columns].T.reshape(-1, 4, 2)
    return _Points(peaks[rows, columns], places, quads, rows, columns)


def _corners_of(quad: Floats, corners: _Points, extents: tuple[Floats, Floats]) -> tuple[NDArray[np.intp], int]:
    """Match the four corners of a cell, predicted from its center, with detected corners.

    A detected corner belongs to the cell if one of the centers that it points to is inside the cell. Such a corner is
    compared only with the nearest of the cell's four corners.

    Returns:
        For each corner of the cell, the index of the nearest detected corner, (4,), or -1 if there is none. Also a
        count, which is higher for cells that are more certain. Each detected corner that is at least as near as all
        detected corners before it adds 1 to the count.

    ``extents`` are the smallest and the largest x and y of each quadrangle in ``corners.quads``.
    """
    low, high = extents
    near = np.flatnonzero(((low <= quad.max(axis=0)) & (high >= quad.min(axis=0))).all(axis=1))
    near = near[_is_inside(corners.quads[near], quad).any(axis=1)]
    squares = ((corners.places[near, None] - quad) ** 2).sum(axis=2)
    at = squares.argmin(axis=1)
    nearest, count = np.full(4, -1), 0
    for corner in range(4):
        own = np.flatnonzero(at == corner)
        if not len(own):
            continue
        distances = squares[own, corner]
        is_nearer = distances <= np.minimum.accumulate(distances)
        count += int(is_nearer.sum())
        nearest[corner] = near[own[np.flatnonzero(is_nearer)[-1]]]
    return nearest, count


def _is_inside(points: Floats, quad: Floats) -> NDArray[np.bool_]:
    """Return whether points (..., 2) are inside a quadrangle (4, 2), which may cross itself (even-odd rule)."""
    x, y = points[..., None, 0], points[..., None, 1]
    begin, end = quad, np.roll(quad, -1, axis=0)
    crosses = (begin[:, 1] > y) != (end[:, 1] > y)
    rise = np.where(begin[:, 1] == end[:, 1], 1, end[:, 1] - begin[:, 1])
    at = begin[:, 0] + (y - begin[:, 1]) / rise * (end[:, 0] - begin[:, 0])
    odd: NDArray[np.bool_] = (crosses & (x < at)).sum(axis=-1) % 2 == 1
    return odd


def _look_up(logical: Floats, points: Floats) -> Floats:
    """Return column and row (..., 2) in the map ``logical`` (2, h, w) at ``points`` (..., 2), clipped to the map."""
    height, width = logical.shape[1:]
    columns = points[..., 0].astype(np.intp).clip(0, width - 1)
    rows = points[..., 1].astype(np.intp).clip(0, height - 1)
    return np.moveaxis(logical[:, rows, columns], 0, -1)


def _columns_and_rows(places: Floats, span: Floats) -> tuple[int, int, int, int]:
    """Return the first and last column and the first and last row of a cell, counted from 0.

    ``places`` (4, 2) are the predicted column and row coordinates of the cell's corners, clockwise from the top left.
    They count from 1. The coordinates at the right and bottom corners are one more than the last column and row.
    ``span`` is the predicted number of columns and rows.
    """
    top_left, top_right, bottom_right, bottom_left = places
    columns = _range((top_left[0], bottom_left[0]), (top_right[0], bottom_right[0]), span[0])
    rows = _range((top_left[1], top_right[1]), (bottom_right[1], bottom_left[1]), span[1])
    return *columns, *rows


def _range(begins: tuple[float, float], ends: tuple[float, float], span: float) -> tuple[int, int]:
    """Return a cell's first and last column, or its first and last row, counted from 0.

    ``begins`` has the coordinates of the two corners at the start of the cell, and ``ends`` of the two corners at its
    end. They count from 1, and ``ends`` are one more than the last column or row. The two values of a pair should be
    equal. The pair whose values agree better determines one end of the cell. The other end is computed from ``span``,
    the predicted number of columns or rows.
    """
    length = max(1, int(span))
    first, last = (sorted(max(1, int(np.rint(value))) for value in side) for side in (begins, ends))
    begins_agree, ends_agree = first[0] == first[1], last[0] == last[1]
    closer = abs(begins[0] - begins[1]) <= abs(ends[0] - ends[1])
    if begins_agree or (closer and not ends_agree):
        start = first[0] if begins_agree else max(1, int(np.rint(sum(begins) / 2)))
        return start - 1, start + length - 2
    end = last[0] if ends_agree else int(np.rint(sum(ends) / 2))
    end = max(length + 1, end) - 1
    return end - length, end - 1


class TableCenterNet(BoxNetwork, StateDictNetwork):
    """TableCenterNet (Xiao et al., "TableCenterNet: A one-stage network for table structure recognition", 2025,
    https://arxiv.org/abs/2504.17522).

    Args:
        feat_extractor: Backbone that returns five feature maps of an image, at 1/2, 1/4, 1/8, 1/16 and 1/32 of its
            size.
        heads: Dictionary of the names of the output maps and their numbers of channels. The names are those that
            `TableCenterNetPostProcessor` takes.
        head_conv: Number of channels of the layer before each output map.
        first_level: Index of the first feature map that is used.
        last_level: The outputs are computed from the feature maps ``first_level`` to ``last_level - 1``. Coarser maps
            are only merged into these.
        center_thresh: Cells with a lower score, in [0, 1], are dropped.
        corner_thresh: Corners with a lower score, in [0, 1], are ignored.
        center_k: Maximum number of cells to consider in an image.
        corner_k: Maximum number of corners to consider in an image.
        not_relocate: Keep the corners of cells as predicted from their centers, instead of moving them to the detected
            corners. This is faster but less exact.
        max_objects: Maximum number of cells of a table in training; further cells are ignored.
        max_corners: Has no effect; accepted for compatibility with docTR. Training uses all corners of the cells that
            are not ignored.
        assume_straight_pages: Return axis-aligned boxes; otherwise return the four corners of each cell.
        exportable: Whether ``forward`` returns only the output maps, as required for export.
        cfg: Dictionary of preprocessing settings that predictors use: ``mean``, ``std`` and ``input_shape``.
    """

    postprocessor: TableCenterNetPostProcessor

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
        channels = feat_extractor.channels()[first_level:]
        used = last_level - first_level
        self.dla_up = Aggregation(channels)
        self.ida_up = Merging(channels[:used], [2**level for level in range(used)])
        for name, out_channels in self.heads.items():
            last = nn.Conv2d(head_conv, out_channels, 1)
            nn.init.constant_(last.bias, _PRIOR_SCORE if "hm" in name else 0.0)  # type: ignore[arg-type]
            head = nn.Sequential(nn.Conv2d(channels[0], head_conv, 3, padding=1), nn.ReLU(inplace=True), last)
            self.add_module(name, head)
        self.postprocessor = TableCenterNetPostProcessor(
            center_thresh, corner_thresh, not_relocate, assume_straight_pages, center_k, corner_k
        )

    def forward(
        self,
        x: Tensor,
        target: TableTarget | None = None,
        return_model_output: bool = False,
        return_preds: bool = False,
    ) -> dict[str, Any]:
        """Find the cells in images of tables.

        Args:
            x: Images (N, 3, H, W), normalized with the mean and std in ``cfg``; H and W must be multiples of 32.
            target: For each image, a dictionary of its correct cells, to compute the loss. ``cells`` are relative to
                the image: boxes (K, 4), as xmin, ymin, xmax, ymax, or corners (K, 4, 2), clockwise from the top left.
                ``logic`` are integers (K, 4): the first and last column and the first and last row of each cell,
                counted from 0.
            return_model_output: Also return ``out_map``.
            return_preds: Return ``preds`` even if there is a target.

        Returns:
            A dictionary. ``preds`` is a list with a dictionary for each image. It is present if there is no target, or
            if it is requested. The dictionary of an image has ``polygons``, float32 (K, 4) or (K, 4, 2), relative to
            the image; ``scores``, float32 (K,); and ``logical``, int32 (K, 4), in the format of the target's ``logic``.
            ``out_map``, if requested, is a dictionary of the output maps, each (N, channels, H / 4, W / 4). ``loss``, a
            scalar, is present if there is a target. If ``exportable`` is true, the result is the dictionary of output
            maps.

        Raises:
            InvalidArgumentError: The target does not have one dictionary for each image, or its cells are outside
                [0, 1], or have the wrong shape.
        """
        if target is not None and len(target) != len(x):
            raise InvalidArgumentError(f"target has {len(target)} items for {len(x)} images; give one for each.")
        merged = self.dla_up(self.feat_extractor(x)[self.first_level :])
        finest = self.ida_up(merged[: self.last_level - self.first_level])[-1]
        maps = {name: widen_floats(self.get_submodule(name)(finest)) for name in self.heads}
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

    # Cells are computed and drawn with NumPy, which torch.compile must not trace.
    @not_compiled
    def _predictions(self, maps: dict[str, Tensor]) -> list[dict[str, NDArray[Any]]]:
        return self.postprocessor(maps)

    @not_compiled
    def _loss(self, maps: dict[str, Tensor], target: TableTarget) -> Tensor:
        most = self.max_objects
        tables = [{name: np.asarray(table[name])[:most] for name in ("cells", "logic")} for table in target]
        return table_loss(maps, draw_tables(tables, (maps["hm"].shape[-2], maps["hm"].shape[-1])))


def tablecenternet(pretrained: bool = False, pretrained_backbone: bool = False, **kwargs: Any) -> TableCenterNet:
    """Return a `TableCenterNet` with a StarNet-S3 backbone and 7 million parameters.

    The network is in training mode.

    Args:
        pretrained: Load docTR's weights from a file on this machine; see `find_weights`.
        pretrained_backbone: Load only the weights of the backbone. It has no effect if ``pretrained`` is true.
        **kwargs: Arguments of `TableCenterNet`, except ``feat_extractor`` and ``cfg``.

    Raises:
        WeightsNotFoundError: Weights are requested, but the file is not on this machine. The message says where to put
            it.
    """
    backbone = starnet_s3(pretrained_backbone and not pretrained)
    features = FeatureExtractor(backbone, [str(level) for level in range(5)])
    arch = "tablecenternet"
    model = make_network(arch, TableCenterNet, features, options=kwargs, cfg=default_cfgs[arch])
    if pretrained:
        load_weights(model, arch)
    return model
