"""Convert, rotate and crop boxes, polygons and pages, with docTR's function names and conventions.

An axis-aligned box is ``((xmin, ymin), (xmax, ymax))`` or a row of an array (N, 4). A rotated box is four points, in an
array (N, 4, 2). Coordinates are (x, y), and y points down. Relative coordinates are fractions of the page's width and
height, in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._engine.common.checks import (
    checked,
    finite_number,
    image_size,
    items_of,
    number_array,
    real_number,
    shown,
)
from ...errors import InvalidArgumentError, MissingDependencyError
from ._page_images import (
    compute_expanded_shape,
    extract_crops,
    extract_rcrops,
    remove_image_padding,
    rotate_image,
    straighten_page,
)
from .common_types import BoundingBox, Point2D, Polygon4P

__all__ = [
    "BoundingBox",
    "MinAreaRect",
    "Point2D",
    "Polygon4P",
    "bbox_to_polygon",
    "boxes_to_polygons",
    "compute_expanded_shape",
    "convert_to_relative_coords",
    "detach_scores",
    "estimate_page_angle",
    "extract_crops",
    "extract_rcrops",
    "min_area_rect",
    "order_points",
    "polygon_to_bbox",
    "remap_boxes",
    "remove_image_padding",
    "resolve_enclosing_bbox",
    "resolve_enclosing_rbbox",
    "rotate_abs_geoms",
    "rotate_abs_points",
    "rotate_boxes",
    "rotate_image",
    "straighten_page",
]

# With fewer points than this, try all pairs of points as edges, instead of computing the convex hull.
_FEW = 9


Array: TypeAlias = NDArray[Any]


def _points(name: str, value: Any) -> list[Any]:
    try:
        points = [(x, y) for x, y in value]
    except (TypeError, ValueError):
        points = []
    if not points:
        raise InvalidArgumentError(f"{name} must be at least one point (x, y) (got {shown(value)}).")
    return points


def _two_points(name: str, value: Any) -> Any:
    points = _points(name, value)
    if len(points) != 2:
        raise InvalidArgumentError(f"{name} must be ((xmin, ymin), (xmax, ymax)) (got {shown(value)}).")
    return points


def _boxes(name: str, value: Any) -> Any:
    """Return an array of boxes as it is, and other boxes as a list of pairs of points."""
    if isinstance(value, np.ndarray):
        return number_array(name, value)
    return [_two_points(name, box) for box in items_of(name, value, of="boxes")]


def _scored_boxes(name: str, value: Any) -> list[Array]:
    pages = [number_array(name, page) for page in items_of(name, value, of="arrays")]
    for page in pages:
        if page.ndim not in (2, 3):
            raise InvalidArgumentError(f"{name} must be arrays (N, 5) or (N, 5, 2) (got {shown(page)}).")
    return pages


def _page_shape(name: str, value: Any) -> tuple[float, float]:
    """Return the first two items of the shape of a page, its height and width."""
    return image_size(name, value[:2] if isinstance(value, Sequence | np.ndarray) else value)


@checked(bbox=_two_points)
def bbox_to_polygon(bbox: BoundingBox) -> Polygon4P:
    """Return the corners of an axis-aligned box, in docTR's order: top left, top right, BOTTOM LEFT, bottom right.

    Rotated boxes have another order: clockwise from the top left. `order_points` converts corners to that order.

    Args:
        bbox: The box as ((xmin, ymin), (xmax, ymax)).

    Returns:
        A tuple of four points (x, y).

    >>> from mediatensor.ocr.utils import bbox_to_polygon
    >>> bbox_to_polygon(((0.1, 0.2), (0.5, 0.4)))
    ((0.1, 0.2), (0.5, 0.2), (0.1, 0.4), (0.5, 0.4))
    """
    (left, top), (right, bottom) = bbox
    return (left, top), (right, top), (left, bottom), (right, bottom)


@checked(polygon=_points)
def polygon_to_bbox(polygon: Sequence[Point2D]) -> BoundingBox:
    """Return the smallest axis-aligned box around a polygon with any number of points.

    Args:
        polygon: Points (x, y).

    Returns:
        The box as ((xmin, ymin), (xmax, ymax)).

    >>> from mediatensor.ocr.utils import polygon_to_bbox
    >>> polygon_to_bbox(((0.1, 0.2), (0.5, 0.1), (0.5, 0.4), (0.1, 0.5)))
    ((0.1, 0.1), (0.5, 0.5))
    """
    columns, rows = zip(*polygon, strict=True)
    return (min(columns), min(rows)), (max(columns), max(rows))


def reading_geometry(geometry: Any, turn: object) -> Any:
    """Return the geometry of a text with its corners in reading order, beginning at the start of the text.

    ``turn`` is the clockwise rotation of the text in degrees. If it is 90, 180 or 270, a straight box is converted to
    four points in reading order. Other geometries, and all geometries for other values of ``turn``, are unchanged.

    >>> reading_geometry(((0.1, 0.2), (0.3, 0.4)), 180)
    ((0.3, 0.4), (0.1, 0.4), (0.1, 0.2), (0.3, 0.2))
    """
    if not isinstance(turn, int | float | np.integer | np.floating):
        return geometry
    if turn % 90 != 0 or turn % 360 == 0 or np.shape(geometry) != (2, 2):
        return geometry
    first = int(turn // 90) % 4
    (left, top), (right, bottom) = geometry
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    return (*corners[first:], *corners[:first])


@checked(boxes=number_array)
def boxes_to_polygons(boxes: Array) -> Array:
    """Return the corners of axis-aligned boxes as an array (N, 4, 2), clockwise from the top left, of the same dtype.

    Args:
        boxes: Array (N, 4), each (xmin, ymin, xmax, ymax).

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.utils.geometry import boxes_to_polygons
        >>> boxes_to_polygons(np.array([[0, 0, 4, 2]])).tolist()
        [[[0, 0], [4, 0], [4, 2], [0, 2]]]
    """
    return np.stack([boxes[:, [0, 1]], boxes[:, [2, 1]], boxes[:, [2, 3]], boxes[:, [0, 3]]], axis=1)


def box_around(geometry: Any) -> NDArray[np.float64]:
    """Return the smallest straight box (4,) that contains all points of a geometry, or of an array of geometries.

    >>> box_around(((0.1, 0.2), (0.5, 0.1), (0.5, 0.4), (0.1, 0.5))).tolist()
    [0.1, 0.1, 0.5, 0.5]
    """
    points = np.asarray(geometry, dtype=np.float64).reshape(-1, 2)
    return np.concatenate([points.min(axis=0), points.max(axis=0)])


def boxes_around(polygons: Array) -> Array:
    """Return the smallest straight box around each polygon: (N, 4) for polygons (N, P, 2), of the same dtype."""
    return np.concatenate([polygons.min(axis=1), polygons.max(axis=1)], axis=1)


def to_corners(box: ArrayLike) -> BoundingBox:
    """Convert a box (xmin, ymin, xmax, ymax) to ``((xmin, ymin), (xmax, ymax))`` with Python numbers."""
    left, top, right, bottom = np.asarray(box).tolist()
    return (left, top), (right, bottom)


def to_quad(geometry: Any) -> NDArray[np.float64]:
    """Return four points of a geometry as they are, or else the corners (4, 2) of the straight box around it."""
    points = np.asarray(geometry, dtype=np.float64).reshape(-1, 2)
    if len(points) == 4:
        return points
    quad: NDArray[np.float64] = boxes_to_polygons(box_around(points)[None])[0]
    return quad


@checked(pts=number_array)
def order_points(pts: Array) -> Array:
    """Sort corners into the order top left, top right, bottom right, bottom left.

    The corner with the smallest x + y comes first, and counts as top left. The remaining corners follow clockwise.

    Args:
        pts: A quadrangle (4, 2), an axis-aligned box (4,) as (xmin, ymin, xmax, ymax), or many quadrangles (N, 4, 2).

    Returns:
        The sorted points, (4, 2) or (N, 4, 2), in the dtype of ``pts``.

    Raises:
        InvalidArgumentError: if the shape of ``pts`` is not one of these.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import order_points
    >>> order_points(np.array([[4, 3], [1, 1], [1, 3], [4, 1]])).tolist()
    [[1, 1], [4, 1], [4, 3], [1, 3]]
    """
    points = np.asarray(pts)
    if points.shape == (4,):
        corners: Array = boxes_to_polygons(points[None])[0]
        return corners
    if points.shape[-2:] != (4, 2) or points.ndim > 3:
        raise InvalidArgumentError(f"points must be of shape (4,), (4, 2) or (N, 4, 2), got {points.shape}")
    quads = points.reshape(-1, 4, 2)
    offsets = quads - quads.mean(axis=1, keepdims=True)
    # y points down, so growing angles run clockwise.
    turn = np.argsort(np.arctan2(offsets[..., 1], offsets[..., 0]), axis=1, kind="stable")
    quads = np.take_along_axis(quads, turn[..., None], axis=1)
    first = np.argmin(quads.sum(axis=2), axis=1)
    order = (first[:, None] + np.arange(4)) % 4
    return np.take_along_axis(quads, order[..., None], axis=1).reshape(points.shape)


@checked(boxes=_scored_boxes)
def detach_scores(boxes: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Split the output of a detector into boxes and scores, page by page.

    Args:
        boxes: One array for each page. Axis-aligned boxes are (N, 5), each (xmin, ymin, xmax, ymax, score). Rotated
            boxes are (N, 5, 2), with (0, score) as the fifth point.

    Returns:
        A pair of lists with one array for each page: the boxes, (N, 4) or (N, 4, 2), and the scores, (N,).

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import detach_scores
    >>> locations, scores = detach_scores([np.array([[0.1, 0.1, 0.2, 0.2, 0.9]])])
    >>> locations[0].shape, scores[0].tolist()
    ((1, 4), [0.9])
    """
    locations = [page[:, :-1] for page in boxes]
    scores = [page[:, -1] if page.ndim == 2 else page[:, -1, -1] for page in boxes]
    return locations, scores


class MinAreaRect(NamedTuple):
    """A rectangle at any angle.

    Attributes:
        center: The centre of the rectangle, an array (x, y).
        axis: Unit vector along the longer side, an array (x, y) with x > 0 (or x = 0 and y > 0).
        width: Length of the longer side.
        height: Length of the shorter side.

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
        """The angle between the longer side and the x axis in degrees, in (-90, 90], counter-clockwise on screen."""
        return float(np.rad2deg(np.arctan2(-self.axis[1], self.axis[0]))) + 0.0 if self.axis[0] > 0 else 90.0

    def corners(self) -> NDArray[np.float64]:
        """Return the corners, an array (4, 2), clockwise on screen.

        The side between the first two corners is a longer side.
        """
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


@checked(points=number_array)
def min_area_rect(points: ArrayLike) -> MinAreaRect:
    """Return the smallest rectangle, at any angle, that contains all points.

    "Smallest" refers to the area. One side of this rectangle lies on an edge of the convex hull (Freeman and Shapira,
    "Determining the minimum-area encasing rectangle for an arbitrary closed curve", 1975). Therefore it is enough to
    try a rectangle along each edge of the hull. One NumPy computation does this for all edges.

    Args:
        points: Finite coordinates of shape (N, 2), with N at least 1. Points can coincide or lie on one line.

    Returns:
        The rectangle, in the unit of ``points``. If several have the same area, it is the one whose sides are closest
        to horizontal and vertical.

    Raises:
        InvalidArgumentError: if the shape is wrong, or a coordinate is not finite.
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
    """Return points that include the convex hull of ``cloud``, and vectors that include its edges.

    For fewer than `_FEW` points, these are all points, and the vectors between all pairs of points.
    """
    if len(cloud) < _FEW:
        return cloud, (cloud[:, None] - cloud[None, :]).reshape(-1, 2)
    try:
        from scipy.spatial import ConvexHull, QhullError
    except ImportError:
        raise MissingDependencyError('Rotated boxes need SciPy: pip install "mediatensor[ocr]".') from None
    try:
        # Coordinates relative to the mean keep precision if coordinates are large.
        hull = cloud[ConvexHull(cloud - cloud.mean(axis=0)).vertices]
    except QhullError:
        # All points are on one line, or in one place. The line runs between the outermost points.
        order = np.lexsort((cloud[:, 1], cloud[:, 0]))
        return cloud, cloud[order[-1:]] - cloud[order[:1]]
    return hull, np.roll(hull, -1, axis=0) - hull


def _best(hull: NDArray[np.float64], axes: NDArray[np.float64]) -> MinAreaRect:
    """Return the smallest rectangle around the points ``hull`` that has a side parallel to a vector in ``axes``."""
    # Axes are normalised modulo a half turn, so that equal directions give equal areas.
    axes = np.where((axes[:, :1] < 0) | ((axes[:, :1] == 0) & (axes[:, 1:] < 0)), -axes, axes)
    normals = np.stack([-axes[:, 1], axes[:, 0]], axis=1)
    along, across = hull @ axes.T, hull @ normals.T
    low_along, high_along = along.min(axis=0), along.max(axis=0)
    low_across, high_across = across.min(axis=0), across.max(axis=0)
    widths, heights = high_along - low_along, high_across - low_across
    areas = widths * heights
    # Areas that are equal up to rounding count as equal.
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


@checked(bboxes=_boxes)
def resolve_enclosing_bbox(bboxes: Sequence[BoundingBox] | Array) -> BoundingBox | Array:
    """Return the smallest axis-aligned box that contains all of the given axis-aligned boxes.

    Args:
        bboxes: At least one box: an array (N, 4), each (xmin, ymin, xmax, ymax), or a sequence of
            ``((xmin, ymin), (xmax, ymax))``.

    Returns:
        The enclosing box: an array (4,) if ``bboxes`` is an array, otherwise ``((xmin, ymin), (xmax, ymax))``.

    >>> from mediatensor.ocr.utils import resolve_enclosing_bbox
    >>> resolve_enclosing_bbox([((0.1, 0.1), (0.2, 0.2)), ((0.15, 0.0), (0.3, 0.1))])
    ((0.1, 0.0), (0.3, 0.2))
    """
    if isinstance(bboxes, np.ndarray):
        return np.concatenate([bboxes[:, :2].min(axis=0), bboxes[:, 2:].max(axis=0)])
    return polygon_to_bbox([point for box in bboxes for point in box])


@checked(rbboxes=number_array, intermed_size=real_number)
def resolve_enclosing_rbbox(rbboxes: Sequence[Array] | Array, intermed_size: int = 1024) -> NDArray[np.float64]:
    """Return the smallest rectangle, at any angle, that contains all of the given rotated boxes.

    Relative coordinates are treated as if the page were a square, as in docTR.

    Args:
        rbboxes: At least one rotated box: arrays (4, 2) of corners, or one array (N, 4, 2).
        intermed_size: Accepted for compatibility with docTR, which multiplies coordinates by it before rounding. It has
            no effect here.

    Returns:
        The corners, an array (4, 2): top left, top right, bottom right, bottom left; see `order_points`.

    Raises:
        InvalidArgumentError: if there are no boxes, or `intermed_size` is not positive.
        MissingDependencyError: if SciPy is not installed.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import resolve_enclosing_rbbox
    >>> resolve_enclosing_rbbox([np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) / 2]).tolist()
    [[0.0, 0.0], [0.5, 0.0], [0.5, 0.5], [0.0, 0.5]]
    """
    if len(rbboxes) == 0 or intermed_size <= 0:
        raise InvalidArgumentError(
            f"needs at least one box and a positive intermed_size, got {len(rbboxes)} boxes and {intermed_size}"
        )
    corners = min_area_rect(np.concatenate(list(rbboxes), axis=0)).corners()
    return order_points(corners)


@checked(points=number_array, angle=finite_number)
def rotate_abs_points(points: Array, angle: float = 0.0) -> Array:
    """Rotate points about the origin. The rotation is counter-clockwise if the y axis points up.

    Args:
        points: Coordinates (N, 2).
        angle: Angle in degrees.

    Returns:
        The rotated points (N, 2): float64 if ``points`` are float64 or integers of at least 32 bits, otherwise
        float32.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.utils.geometry import rotate_abs_points
        >>> rotate_abs_points(np.array([[1.0, 0.0]]), 90).round(3).tolist()
        [[0.0, 1.0]]
    """
    radians = np.deg2rad(angle)
    cosine, sine = np.cos(radians), np.sin(radians)
    turned: Array = points @ np.array([[cosine, sine], [-sine, cosine]])
    return turned.astype(np.result_type(points.dtype, np.float32))


@checked(geoms=number_array, angle=finite_number, img_shape=image_size)
def rotate_abs_geoms(
    geoms: Array, angle: float, img_shape: tuple[int, int], expand: bool = True
) -> NDArray[np.float32]:
    """Rotate boxes, given in pixels, about the centre of their image.

    Args:
        geoms: Boxes in pixels: (N, 4), each (xmin, ymin, xmax, ymax), or corners (N, 4, 2).
        angle: Angle in degrees, counter-clockwise on screen.
        img_shape: (height, width) of the image.
        expand: Whether the rotation enlarges the image, so that no part of the image is lost.

    Returns:
        Polygons (N, 4, 2) float32, in pixels of the rotated image, and clipped to this image.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.utils import rotate_abs_geoms
        >>> rotate_abs_geoms(np.array([[10, 10, 50, 20]]), 90, (100, 100)).shape
        (1, 4, 2)
    """
    polygons = (boxes_to_polygons(geoms) if geoms.ndim == 2 else geoms).astype(np.float64)
    height, width = img_shape
    upward = np.stack([polygons[..., 0] - width / 2, height / 2 - polygons[..., 1]], axis=-1)
    turned = rotate_abs_points(upward.reshape(-1, 2), angle).reshape(polygons.shape)
    tall, wide = compute_expanded_shape(img_shape, angle) if expand else img_shape
    placed = np.stack([turned[..., 0] + wide / 2, tall / 2 - turned[..., 1]], axis=-1)
    return placed.clip(0, [wide, tall]).astype(np.float32)


@checked(loc_preds=number_array, orig_shape=image_size, dest_shape=image_size)
def remap_boxes(loc_preds: Array, orig_shape: tuple[int, int], dest_shape: tuple[int, int]) -> Array:
    """Convert relative boxes to coordinates of an image that was padded or cropped equally on opposite sides.

    Args:
        loc_preds: Boxes as corners (N, 4, 2), relative to the original image.
        orig_shape: (height, width) of the original image.
        dest_shape: (height, width) of the padded or cropped image. This image has the same centre and scale as the
            original image.

    Returns:
        The corners (N, 4, 2), relative to the padded or cropped image.

    Raises:
        InvalidArgumentError: if a shape is not (height, width).

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.utils.geometry import remap_boxes
        >>> box = np.array([[[0.2, 0.2], [0.4, 0.2], [0.4, 0.4], [0.2, 0.4]]])
        >>> remap_boxes(box, (100, 100), (200, 200))[0, 0].round(3).tolist()
        [0.35, 0.35]
    """
    old = np.array(orig_shape[::-1])
    new = np.array(dest_shape[::-1])
    remapped: Array = (loc_preds * old + (new - old) / 2) / new
    return remapped.astype(np.result_type(loc_preds.dtype, np.float32))


@checked(loc_preds=number_array, angle=finite_number, orig_shape=_page_shape, min_angle=real_number)
def rotate_boxes(
    loc_preds: Array,
    angle: float,
    orig_shape: tuple[int, ...],
    min_angle: float = 1.0,
    target_shape: tuple[int, int] | None = None,
) -> Array:
    """Rotate relative boxes about the centre of their page, counter-clockwise on screen.

    Args:
        loc_preds: Relative boxes: (N, 4), each (xmin, ymin, xmax, ymax), or corners (N, 4, 2).
        angle: Angle in degrees, between -90 and 90.
        orig_shape: (height, width) of the page; further items, such as channels, are ignored.
        min_angle: Boxes are not rotated if ``angle`` is less than this many degrees away from -90, 0 or 90.
        target_shape: (height, width) of the image to which the result is relative; by default ``orig_shape``. Both
            images must have the same centre. If ``orig_shape`` is that of a page which ``rotate_image(expand=True)``
            has padded, ``target_shape`` can be that of the page before. Ignored if the boxes are not rotated.

    Returns:
        Relative corners (N, 4, 2), even if the boxes are not rotated. They are not clipped to [0, 1].

    Raises:
        InvalidArgumentError: if a shape is not (height, width).

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.utils import rotate_boxes
        >>> rotate_boxes(np.array([[0.4, 0.4, 0.6, 0.6]]), 45, (100, 100)).shape
        (1, 4, 2)
    """
    polygons = boxes_to_polygons(loc_preds) if loc_preds.ndim == 2 else loc_preds.copy()
    if abs(angle) < min_angle or abs(angle) > 90 - min_angle:
        return polygons
    height, width = orig_shape[:2]
    size = np.array([width, height])
    offsets = polygons * size - size / 2
    # Counter-clockwise on screen is clockwise in coordinates whose y points down.
    turned = rotate_abs_points(offsets.reshape(-1, 2), -angle).reshape(polygons.shape)
    relative = (turned + size / 2) / size
    result = remap_boxes(relative, (height, width), target_shape) if target_shape is not None else relative
    return result.astype(np.result_type(loc_preds.dtype, np.float32))


@checked(polys=number_array)
def estimate_page_angle(polys: Array) -> float:
    """Estimate by how much a page is rotated, as the median angle of its lines or words.

    Args:
        polys: Outlines of lines or words, (N, 4, 2), with points in reading order (top left first). x and y must have
            the same unit, such as pixels.

    Returns:
        The angle in degrees, in [-90, 90], counter-clockwise on screen. It is 0.0 if no polygon has a direction,
        because all of them are points.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import estimate_page_angle
    >>> estimate_page_angle(np.array([[[0, 1], [1, 0], [2, 1], [1, 2]]]))
    45.0
    """
    points = polys.astype(np.result_type(polys.dtype, np.float32))  # differences of unsigned integers would wrap
    rightward = points[:, 1] + points[:, 2] - points[:, 0] - points[:, 3]
    has_direction = np.isfinite(rightward).all(axis=1) & (rightward != 0).any(axis=1)
    if not has_direction.any():
        return 0.0
    across, down = rightward[has_direction].astype(np.float64).T
    with np.errstate(divide="ignore"):
        return float(np.median(np.rad2deg(np.arctan(-down / across))))


@checked(geoms=number_array, img_shape=image_size)
def convert_to_relative_coords(geoms: Array, img_shape: tuple[int, int]) -> NDArray[np.float32]:
    """Convert coordinates in pixels to relative coordinates, by dividing them by the size of the image.

    Args:
        geoms: Boxes in pixels: (N, 4), each (xmin, ymin, xmax, ymax), or corners (N, 4, 2).
        img_shape: (height, width) of the image.

    Returns:
        Boxes of the same shape, float32, clipped to [0, 1].

    Raises:
        InvalidArgumentError: if the boxes have a wrong shape.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import convert_to_relative_coords
    >>> convert_to_relative_coords(np.array([[10, 10, 20, 50]]), (100, 50)).tolist()
    [[0.20000000298023224, 0.10000000149011612, 0.4000000059604645, 0.5]]
    """
    if geoms.shape[1:] not in ((4,), (4, 2)):
        raise InvalidArgumentError(f"geoms must be of shape (N, 4) or (N, 4, 2), got {geoms.shape}")
    height, width = img_shape
    size = np.array([width, height]) if geoms.ndim == 3 else np.array([width, height, width, height])
    relative: Array = geoms / size
    return relative.clip(0, 1).astype(np.float32)
