"""The angle of lines of text, from what is inked of a page or from the quads of its lines."""

from __future__ import annotations

import numpy as np

from ...errors import InvalidArgumentError, MissingDependencyError
from ..utils.geometry import min_area_rect

__all__ = ["elongated_shapes", "median_angle", "quad_angles"]

# Shapes that look longest by their moments are measured exactly: this many for each one asked for.
_MEASURED_PER_SHAPE = 2
# Two opposite views of one direction, such as 89 and -89 degrees, are near each other on a circle of a quarter turn.
_QUARTER = 90.0
_EVEN = 1e-9


def elongated_shapes(inked: np.ndarray, number: int, lower_area: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measure the most elongated connected shapes of a map.

    Args:
        inked: Bool ``(H, W)``.
        number: How many shapes to measure.
        lower_area: Shapes up to this area, in pixels, are left out.

    Returns:
        For each shape, most elongated first: the angle of its long side in (-90, 90], degrees, clockwise as seen; its
        length; its breadth, in pixels. A shape without breadth is no line and left out.

    Raises:
        MissingDependencyError: if SciPy is not installed.
    """
    try:
        from scipy import ndimage
    except ImportError:
        raise MissingDependencyError('Measuring a page\'s skew needs SciPy: pip install "mediatensor[ocr]".') from None

    none = np.empty(0)
    labels, count = ndimage.label(inked, structure=np.ones((3, 3), dtype=bool))
    if count == 0:
        return none, none, none
    # The area within a contour through the middles of its pixels, as contours are commonly measured (Pick's theorem).
    rim = inked & ~ndimage.binary_erosion(inked)
    inked_count = np.bincount(labels[inked], minlength=count + 1)
    areas = inked_count - np.bincount(labels[rim], minlength=count + 1) / 2 - 1
    rows, columns = np.nonzero(rim & (areas > lower_area)[labels])
    own = labels[rows, columns]
    order = np.argsort(own, kind="stable")
    points, own = np.stack([columns, rows], axis=1)[order], own[order]
    if len(own) == 0:
        return none, none, none
    shapes = np.split(points, np.flatnonzero(np.diff(own)) + 1)
    likely = np.argsort(-_elongations(points, own), kind="stable")[: number * _MEASURED_PER_SHAPE]
    rectangles = [min_area_rect(shapes[index]) for index in likely]
    measured = np.array(
        [(np.degrees(np.arctan2(one.axis[1], one.axis[0])), one.width, one.height) for one in rectangles]
    ).reshape(-1, 3)
    measured = measured[measured[:, 2] > 0]
    longest = np.argsort(-measured[:, 1] / measured[:, 2], kind="stable")[:number]
    angles, lengths, breadths = measured[longest].T
    return np.where(angles <= -90, angles + 180, angles), lengths, breadths


def _elongations(points: np.ndarray, own: np.ndarray) -> np.ndarray:
    """How elongated each shape is, by the second moments of its rim; shapes in the order of their numbers."""
    _, index, sizes = np.unique(own, return_inverse=True, return_counts=True)
    x, y = (points[:, axis].astype(np.float64) for axis in (0, 1))
    x, y = (values - (np.bincount(index, values) / sizes)[index] for values in (x, y))
    xx, yy, xy = (np.bincount(index, values) / sizes for values in (x * x, y * y, x * y))
    spread = np.hypot((xx - yy) / 2, xy)
    middle = (xx + yy) / 2
    # A rim of a single row of pixels has no breadth; the sixth of a pixel squared keeps the ratio finite.
    ratios: np.ndarray = (middle + spread) / (middle - spread + 1 / 12)
    return ratios


def quad_angles(quads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The angles of the long sides of quads, and their lengths.

    Args:
        quads: ``(N, 4, 2)`` in pixels, corners around each quad in either sense, starting anywhere.

    Returns:
        Degrees, clockwise as seen, and pixels; both float64 ``(N,)``.

    Raises:
        InvalidArgumentError: if the shape is another one or a coordinate is not finite.
    """
    if quads.ndim != 3 or quads.shape[1:] != (4, 2) or not np.isfinite(quads).all():
        raise InvalidArgumentError(f"quads must be finite and (N, 4, 2), got shape {quads.shape}")
    quads = quads.astype(np.float64)
    first = (quads[:, 1] + quads[:, 2] - quads[:, 0] - quads[:, 3]) / 2
    second = (quads[:, 3] + quads[:, 2] - quads[:, 0] - quads[:, 1]) / 2
    first_longer = np.hypot(*first.T) >= np.hypot(*second.T)
    sides = np.where(first_longer[:, None], first, second)
    return np.degrees(np.arctan2(sides[:, 1], sides[:, 0])), np.hypot(sides[:, 0], sides[:, 1])


def median_angle(angles: np.ndarray, weights: np.ndarray) -> float:
    """The weighted median of directions that a quarter turn does not change.

    Angles are measured from their mean direction on the circle of a quarter turn, so that 44 and -44 degrees are 2
    apart.

    Args:
        angles: Degrees.
        weights: Their weights.

    Returns:
        Degrees in [-45, 45); 0.0 if the weights are all 0.
    """
    kept = weights > 0
    angles, weights = angles[kept], weights[kept]
    if len(angles) == 0:
        return 0.0
    turns = np.radians(angles * 360 / _QUARTER)
    mean = np.degrees(np.arctan2((weights * np.sin(turns)).sum(), (weights * np.cos(turns)).sum())) * _QUARTER / 360
    offsets = (angles - mean + _QUARTER / 2) % _QUARTER - _QUARTER / 2
    order = np.argsort(offsets, kind="stable")
    reached = np.cumsum(weights[order])
    # The two middle ones, which are one unless the weights part evenly, but for noise in the weights.
    first, last = np.searchsorted(reached, reached[-1] * np.array([0.5 - _EVEN, 0.5 + _EVEN]))
    lower, upper = offsets[order[first]], offsets[order[last]]
    return float((mean + (lower + upper) / 2 + _QUARTER / 2) % _QUARTER - _QUARTER / 2)
