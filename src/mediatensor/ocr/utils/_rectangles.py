"""The smallest rectangle, at any angle, around points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import InvalidArgumentError, MissingDependencyError

__all__ = ["MinAreaRect", "min_area_rect"]

# Fewer points than this are compared pair by pair; more go through their hull.
_FEW = 9


class MinAreaRect(NamedTuple):
    """A rectangle at any angle.

    Attributes:
        center: Its middle (x, y).
        axis: Unit vector along its longer side, of the half plane x > 0 (or x = 0, y > 0).
        width: The longer side.
        height: The shorter side.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.utils.geometry import min_area_rect
        >>> rect = min_area_rect(np.array([[0, 0], [4, 0], [4, 2], [0, 2]]))
        >>> float(rect.width), float(rect.height), rect.corners().shape
        (4.0, 2.0, (4, 2))
    """

    center: NDArray[np.float64]
    axis: NDArray[np.float64]
    width: float
    height: float

    @property
    def angle(self) -> float:
        """Of the longer side against the x axis, in degrees in (-90, 90], counter-clockwise on screen (y down)."""
        return float(np.rad2deg(np.arctan2(-self.axis[1], self.axis[0]))) + 0.0 if self.axis[0] > 0 else 90.0

    def corners(self) -> NDArray[np.float64]:
        """Its corners (4, 2), clockwise on screen; the first two lie on one longer side."""
        along = self.axis * (self.width / 2)
        across = np.array([-self.axis[1], self.axis[0]]) * (self.height / 2)
        return np.stack(
            [
                self.center - along - across,
                self.center + along - across,
                self.center + along + across,
                self.center - along + across,
            ]
        )


def min_area_rect(points: ArrayLike) -> MinAreaRect:
    """The rectangle of least area that holds all points.

    One of its sides lies on an edge of the convex hull (Freeman and Shapira, "Determining the minimum-area encasing
    rectangle for an arbitrary closed curve", 1975), so every edge of the hull is tried, all at once.

    Args:
        points: Coordinates of shape (N, 2), N at least 1, finite. They may coincide or lie on one line.

    Returns:
        The rectangle; of several equally small ones, the one closest to upright.

    Raises:
        InvalidArgumentError: if the shape is another, or a coordinate is not finite.
        MissingDependencyError: if SciPy is not installed.

    >>> from mediatensor.ocr.utils import min_area_rect
    >>> rectangle = min_area_rect([[0, 0], [4, 0], [4, 2], [0, 2], [1, 1]])
    >>> rectangle.width, rectangle.height, rectangle.center.tolist(), rectangle.axis.tolist()
    (4.0, 2.0, [2.0, 1.0], [1.0, 0.0])
    """
    cloud = np.asarray(points, dtype=np.float64)
    if cloud.ndim != 2 or cloud.shape[0] == 0 or cloud.shape[1] != 2:
        raise InvalidArgumentError(f"points must be of shape (N, 2) with N >= 1, got {cloud.shape}")
    if not np.isfinite(cloud).all():
        raise InvalidArgumentError("points must be finite, got NaN or infinity")
    hull, edges = _hull(cloud)
    lengths = np.hypot(edges[:, 0], edges[:, 1])
    edges, lengths = edges[lengths > 0], lengths[lengths > 0]
    axes = edges / lengths[:, None] if len(edges) else np.array([[1.0, 0.0]])
    return _best(hull, axes)


def _hull(cloud: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points that span the cloud, and vectors among which all edges of its hull are."""
    if len(cloud) < _FEW:
        return cloud, (cloud[:, None] - cloud[None, :]).reshape(-1, 2)
    try:
        from scipy.spatial import ConvexHull, QhullError
    except ImportError:
        raise MissingDependencyError('Rotated boxes need SciPy: pip install "mediatensor[ocr]".') from None
    try:
        # Around their middle, so that the size of the coordinates costs no precision.
        hull = cloud[ConvexHull(cloud - cloud.mean(axis=0)).vertices]
    except QhullError:
        # All on one line, or in one place: the line runs between the outermost.
        order = np.lexsort((cloud[:, 1], cloud[:, 0]))
        return cloud, cloud[order[-1:]] - cloud[order[:1]]
    return hull, np.roll(hull, -1, axis=0) - hull


def _best(hull: NDArray[np.float64], axes: NDArray[np.float64]) -> MinAreaRect:
    """The smallest of the rectangles around the points that have a side along one of the axes."""
    # Only the direction counts, modulo a quarter turn: equal ones then give equal areas.
    axes = np.where((axes[:, :1] < 0) | ((axes[:, :1] == 0) & (axes[:, 1:] < 0)), -axes, axes)
    normals = np.stack([-axes[:, 1], axes[:, 0]], axis=1)
    along, across = hull @ axes.T, hull @ normals.T
    low_along, high_along = along.min(axis=0), along.max(axis=0)
    low_across, high_across = across.min(axis=0), across.max(axis=0)
    widths, heights = high_along - low_along, high_across - low_across
    areas = widths * heights
    # Rounding must not decide between equal areas.
    smallest = np.flatnonzero(areas <= areas.min() * (1 + 1e-9) + areas.max() * 1e-12)
    upright = np.abs(axes[smallest]).max(axis=1)
    best = smallest[np.argmax(upright)]
    axis, normal = axes[best], normals[best]
    center = (low_along[best] + high_along[best]) / 2 * axis + (low_across[best] + high_across[best]) / 2 * normal
    width, height = float(widths[best]), float(heights[best])
    if height > width:
        axis, width, height = normal, height, width
    if axis[0] < 0 or (axis[0] == 0 and axis[1] < 0):
        axis = -axis
    return MinAreaRect(center, axis + 0.0, width, height)
