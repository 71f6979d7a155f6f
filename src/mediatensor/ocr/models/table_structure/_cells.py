"""From the maps of TableCenterNet to cells: key points, corners that several cells share, columns and rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ...utils import order_points
from .._networks.transfers import download

__all__ = ["TableCenterNetPostProcessor"]

_LEAST_CORNERS, _DOUBT = 2, 0.4
"""Cells of which at most so many corners were found have their score multiplied by this."""

Floats = NDArray[np.floating[Any]]


class _Points(NamedTuple):
    """Key points, the most probable first, in pixels of the maps.

    Attributes:
        scores: (K,).
        places: x and y, (K, 2).
        quads: The corners of the cell around a centre, or the centres of the cells around a corner, (K, 4, 2).
        rows: The pixels of the maps that they come from, (K,) each.
        columns: Likewise.
    """

    scores: Floats
    places: Floats
    quads: Floats
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]


class TableCenterNetPostProcessor:
    """Cells from the maps of the network; its attributes may be changed at any time.

    Args:
        center_thresh: Cells of a lower score are left out.
        corner_thresh: Corners of a lower score move no cell.
        not_relocate: Leave the corners of cells where their centres say, and do not move them to corners that were
            found: quicker, less exact.
        assume_straight_pages: Straight boxes; otherwise corners.
        center_k: The most cells that are looked at.
        corner_k: The most corners.
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
        """The cells of each picture.

        Args:
            maps: ``hm``, scores of centres and corners before the sigmoid, (N, 2, h, w); ``reg``, where they are in
                their pixels, (N, 2, h, w); ``ct2cn`` and ``cn2ct``, the ways from the corners of a cell to its centre
                and back, (N, 8, h, w); ``lc``, column and row of a corner, from 1, and ``sp``, columns and rows of a
                cell, (N, 2, h, w).

        Returns:
            For each picture ``polygons``, relative, float32 (K, 4) or (K, 4, 2); ``scores``, float32 (K,); ``logical``,
            int32 (K, 4): first and last column, first and last row, from 0. The most probable cells come first.
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
            places[:] = _looked_up(maps["lc"], quads)
        else:
            of_corners = maps["lc"][:, corners.rows, corners.columns].T
            extents = corners.quads.min(axis=1), corners.quads.max(axis=1)
            for index, quad in enumerate(centers.quads):
                nearest, count = _corners_of(quad, corners, extents)
                found = nearest >= 0
                quads[index, found] = corners.places[nearest[found]]
                places[index] = np.where(found[:, None], of_corners[nearest], 0) if len(of_corners) else 0
                places[index, ~found] = _looked_up(maps["lc"], quads[index, ~found])
                scores[index] *= _DOUBT if count <= _LEAST_CORNERS else 1
        order = np.argsort(-scores, kind="stable")
        order = order[scores[order] >= self.center_thresh]
        logical = [_columns_and_rows(place, span) for place, span in zip(places[order], spans[order], strict=True)]
        height, width = peaks.shape[1:]
        found_quads = (quads[order] / (width, height)).clip(0, 1).astype(np.float32)
        if self.assume_straight_pages:
            polygons: NDArray[Any] = np.concatenate([found_quads.min(axis=1), found_quads.max(axis=1)], axis=1)
        else:
            polygons = order_points(found_quads)
        return {
            "polygons": polygons,
            "scores": scores[order].astype(np.float32),
            "logical": np.array(logical, dtype=np.int32).reshape(-1, 4),
        }


def _key_points(peaks: Floats, offsets: Floats, ways: Floats, threshold: float, most: int) -> _Points:
    """The peaks (h, w) of at least ``threshold``."""
    rows, columns = np.nonzero((peaks >= threshold) & (peaks > 0))
    order = np.argsort(-peaks[rows, columns], kind="stable")[:most]
    rows, columns = rows[order], columns[order]
    places = np.stack([columns, rows], axis=1) + offsets[:, rows, columns].T
    quads = places[:, None] - ways[:, rows, columns].T.reshape(-1, 4, 2)
    return _Points(peaks[rows, columns], places, quads, rows, columns)


def _corners_of(quad: Floats, corners: _Points, extents: tuple[Floats, Floats]) -> tuple[NDArray[np.intp], int]:
    """The corners that a cell shares with its neighbours.

    A corner belongs to a cell if one of the centres that it points to is inside, and to the corner of the cell that it
    is nearest to.

    Args:
        quad: The corners of the cell as its centre says, (4, 2).
        corners: All that were found, the most probable first.
        extents: The least and greatest x and y of their quads, (K, 2) each.

    Returns:
        For each corner of the cell which one is nearest, or -1, (4,); and how often one was nearer than those before,
        which says how sure the cell is.
    """
    low, high = extents
    near = np.flatnonzero(((low <= quad.max(axis=0)) & (high >= quad.min(axis=0))).all(axis=1))
    near = near[_inside(corners.quads[near], quad).any(axis=1)]
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


def _inside(points: Floats, quad: Floats) -> NDArray[np.bool_]:
    """Whether points (..., 2) are inside a quadrangle (4, 2), which may cross itself: an odd number of its sides is to
    their right.
    """
    x, y = points[..., None, 0], points[..., None, 1]
    begin, end = quad, np.roll(quad, -1, axis=0)
    crosses = (begin[:, 1] > y) != (end[:, 1] > y)
    rise = np.where(begin[:, 1] == end[:, 1], 1, end[:, 1] - begin[:, 1])
    at = begin[:, 0] + (y - begin[:, 1]) / rise * (end[:, 0] - begin[:, 0])
    odd: NDArray[np.bool_] = (crosses & (x < at)).sum(axis=-1) % 2 == 1
    return odd


def _looked_up(logical: Floats, points: Floats) -> Floats:
    """Column and row (..., 2) at points (..., 2), limited to the map (2, h, w)."""
    height, width = logical.shape[1:]
    columns = points[..., 0].astype(np.intp).clip(0, width - 1)
    rows = points[..., 1].astype(np.intp).clip(0, height - 1)
    return np.moveaxis(logical[:, rows, columns], 0, -1)


def _columns_and_rows(places: Floats, span: Floats) -> tuple[int, int, int, int]:
    """First and last column, first and last row, from 0.

    Args:
        places: Column and row, from 1, of the corners of a cell, (4, 2), clockwise from the top left; those on the
            right and below are of the next column and row.
        span: Its columns and rows, (2,).
    """
    top_left, top_right, bottom_right, bottom_left = places
    columns = _range((top_left[0], bottom_left[0]), (top_right[0], bottom_right[0]), span[0])
    rows = _range((top_left[1], top_right[1]), (bottom_right[1], bottom_left[1]), span[1])
    return *columns, *rows


def _range(begins: tuple[float, float], ends: tuple[float, float], span: float) -> tuple[int, int]:
    """First and last of the columns or rows, from 0, by that side of a cell whose corners agree better.

    Args:
        begins: Where the two corners of the first side are, from 1.
        ends: Where those of the last side are, one further than the last.
        span: How many there are.
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
