"""Prepare geometries for ordering: convert them to arrays, turn them upright, and mirror right-to-left text."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError
from ..utils.geometry import box_around, boxes_around, order_points, to_quad

DIRECTIONS = ("ltr", "rtl", "ttb-rtl", "ttb-ltr")
# ISO 639 codes of languages written from right to left, used if a text has no letters.
_RIGHT_TO_LEFT_LANGUAGES = frozenset(
    ("ar", "arc", "ckb", "dv", "fa", "he", "iw", "ks", "ku", "nqo", "ps", "sd", "syr", "ug", "ur", "yi")
)

# At this angle or more, corners that were sorted by position do not show which side of a text is its top.
_MAX_UNORIENTED_DEGREES = 45.0

_DECIMALS = 9


def reading_angle(quads: np.ndarray) -> float:
    """Return the angle of a page's text in degrees, in (-180, 180]. Positive angles are counter-clockwise.

    ``quads`` ``(N, 4, 2)`` are the corners of words, clockwise from the top left of the text, with x and y in the same
    unit. Each word votes for one of the four quarter turns, with its length as weight. The angle is the winning quarter
    turn plus the median slope of the words, or 0.0 without a valid word. The result is correct even if pages lie on
    their side or upside down, or if the corners of a few words are upside down by mistake.

    >>> import numpy as np
    >>> quad = np.array([[[0.0, 0.0], [0.0, 8.0], [-2.0, 8.0], [-2.0, 0.0]]])  # reads downwards
    >>> reading_angle(quad)
    -90.0
    """
    ends = quads[:, 1] + quads[:, 2] - quads[:, 0] - quads[:, 3]
    lengths = np.hypot(ends[:, 0], ends[:, 1])
    kept = np.isfinite(lengths) & (lengths > 0)
    if not kept.any():
        return 0.0
    degrees = np.degrees(np.arctan2(-ends[kept, 1], ends[kept, 0]))
    quarters = np.round(degrees / 90).astype(np.int64) % 4
    quarter = 90.0 * float(np.argmax(np.bincount(quarters, weights=lengths[kept], minlength=4)))
    # A quad and its upside-down copy have the same slope.
    slopes = (degrees - quarter + 90) % 180 - 90
    angle = (quarter + float(np.median(slopes))) % 360
    return angle - 360 if angle > 180 else angle


def rotation_matrix(degrees: float) -> np.ndarray:
    """Return the matrix (2, 2) that rotates column vectors (x, y) clockwise in an image, where y points down."""
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    # Rounding makes quarter turns exact.
    return np.round(np.array([[cosine, -sine], [sine, cosine]]), 15)


def to_boxes(geometries: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Return the boxes ``(N, 4)`` around geometries.

    Each geometry consists of two corners, or of the points of a polygon. An array ``(N, >= 4)`` or ``(N, P, 2)`` is
    also accepted.

    Raises:
        InvalidArgumentError: if a coordinate is not finite.
    """
    if len(geometries) == 0:
        return np.zeros((0, 4))
    if isinstance(geometries, np.ndarray) and geometries.ndim == 2:
        boxes = geometries[:, :4].astype(np.float64)
    else:
        points = _points(geometries)
        if isinstance(points, np.ndarray):
            boxes = boxes_around(points)
        else:
            boxes = np.stack([box_around(one) for one in points])
    if not np.isfinite(boxes).all():
        worst = int(np.flatnonzero(~np.isfinite(boxes).all(axis=1))[0])
        raise InvalidArgumentError(f"geometry {worst} has a coordinate that is not finite: {boxes[worst].tolist()}")
    # Rounding errors of a rotation must not decide which of two level boxes is higher.
    return np.round(boxes, _DECIMALS)


def deskew_reading_geometries(
    geoms: Sequence[Any] | np.ndarray,
    region_geoms: Sequence[Any] | np.ndarray | None = None,
    page_shape: tuple[int, int] | None = None,
    angle_geoms: Sequence[Any] | np.ndarray | None = None,
    min_angle: float = 1.0,
) -> tuple[list[Any], list[Any]]:
    """Turn the boxes or polygons of a skewed page upright, before its elements are put into reading order.

    Boxes of two corners have no angle and are returned unchanged. Polygons in ``geoms`` do not show where the top of
    the text is, so they are turned only if their angle is below 45 degrees. The polygons in ``angle_geoms`` show the
    top. With them, pages that lie on their side or upside down are turned as well.

    >>> from mediatensor.ocr.models.reading_order import deskew_reading_geometries
    >>> quads = [((0.2, 0.1), (0.8, 0.7), (0.7, 0.8), (0.1, 0.2))]  # a line at 45 degrees
    >>> turned, _ = deskew_reading_geometries(quads, angle_geoms=quads)
    >>> bool(abs(turned[0][0][1] - turned[0][1][1]) < 1e-9)  # both ends at one height
    True

    Args:
        geoms: The elements of a page, such as lines: boxes ``((xmin, ymin), (xmax, ymax))``, polygons of four points
            ``(x, y)``, an array ``(N, 4)`` of xmin, ymin, xmax, ymax, or an array ``(N, 4, 2)`` of polygons.
        region_geoms: Regions of the page layout in the same forms. They are turned by the same angle as the elements.
        page_shape: ``(height, width)`` of the page in pixels, needed for correct angles if coordinates are relative to
            the page. If it is None, coordinates are treated as if the page were square.
        angle_geoms: Polygons of four points that determine the angle, such as the page's words. Their points must go
            clockwise from the top left of the text. By default, ``geoms`` determine the angle.
        min_angle: Pages with a smaller angle, in degrees, are not turned.

    Returns:
        A pair: the list of elements and the list of regions. Turned ones are float64 arrays ``(4, 2)``, in the units of
        ``geoms``; if nothing is turned, all keep their form.
    """
    regions = [] if region_geoms is None else list(region_geoms)
    quads = _quads(geoms)
    if quads is None:
        return list(geoms), regions
    height, width = (1, 1) if page_shape is None else page_shape
    scale = np.array([width, height], dtype=np.float64)
    oriented = None if angle_geoms is None else _quads(angle_geoms)
    angle = reading_angle(order_points(quads * scale) if oriented is None else oriented * scale)
    if abs(angle) < min_angle or (oriented is None and abs(angle) >= _MAX_UNORIENTED_DEGREES):
        return list(geoms), regions

    center = (quads * scale).reshape(-1, 2).mean(axis=0)
    turn = rotation_matrix(angle).T

    def upright(points: np.ndarray) -> np.ndarray:
        return np.asarray(((points * scale - center) @ turn + center) / scale)

    return list(upright(quads)), [upright(to_quad(region)) for region in regions]


def _points(geometries: Sequence[Any] | np.ndarray) -> np.ndarray | list[np.ndarray]:
    """Return the points as an array ``(N, P, 2)``; if the numbers of points differ, as a list of arrays ``(P, 2)``."""
    if isinstance(geometries, np.ndarray):
        return geometries.astype(np.float64).reshape(len(geometries), -1, 2)
    points = [np.asarray(geometry, dtype=np.float64).reshape(-1, 2) for geometry in geometries]
    return np.stack(points) if len({len(one) for one in points}) == 1 else points


def _quads(geometries: Sequence[Any] | np.ndarray) -> np.ndarray | None:
    """Return ``(N, 4, 2)`` if all geometries are polygons of four points, else None."""
    if len(geometries) == 0:
        return None
    points = _points(geometries)
    return points if isinstance(points, np.ndarray) and points.shape[1:] == (4, 2) else None


def detect_text_direction(texts: Iterable[str], language: str | None = None) -> str:
    """Detect whether texts are read from left to right or from right to left.

    The direction of most letters decides, by their bidirectional class in Unicode. Digits and punctuation do not count.
    Vertical writing cannot be detected from characters and is never returned.

    >>> from mediatensor.ocr.models.reading_order import detect_text_direction
    >>> detect_text_direction(["Total", "12.50"])
    'ltr'
    >>> detect_text_direction(["שלום", "12.50"])
    'rtl'
    >>> detect_text_direction(["12.50"], language="fa")
    'rtl'

    Args:
        texts: Words or lines; items that are not strings are skipped.
        language: An ISO 639 code such as ``"ar"``, used only if the texts have no letters.

    Returns:
        ``"ltr"`` (left to right) or ``"rtl"`` (right to left); ``"ltr"`` if there are equally many letters of both.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        if isinstance(text, str):
            counts.update(text)
    left = right = 0
    for character, count in counts.items():
        kind = unicodedata.bidirectional(character)
        if kind == "L":
            left += count
        elif kind in ("R", "AL"):
            right += count
    if left == right == 0 and isinstance(language, str):
        return "rtl" if language.split("-")[0].lower() in _RIGHT_TO_LEFT_LANGUAGES else "ltr"
    return "rtl" if right > left else "ltr"


def check_direction(direction: str, *, auto: bool = False) -> None:
    """Check that a reading direction is valid. ``"auto"`` is valid only if ``auto`` is true.

    Raises:
        InvalidArgumentError: if the direction is not accepted.
    """
    accepted = ("auto", *DIRECTIONS) if auto else DIRECTIONS
    if direction not in accepted:
        raise InvalidArgumentError(f"invalid reading direction {direction!r}, should be one of {accepted}")


def component_roots(number: int, links: np.ndarray) -> np.ndarray:
    """Return int64 ``(N,)``: for each of ``number`` nodes, the lowest index in its connected component.

    ``links`` ``(L, 2)`` are the pairs of nodes that are connected.
    """
    roots = np.arange(number)
    while True:
        # Link the roots, and not only the nodes: otherwise, a long chain in a bad order takes a round for each node.
        ends = roots[links]
        lowest = roots.copy()
        np.minimum.at(lowest, ends, ends[:, ::-1])
        while not np.array_equal(further := lowest[lowest], lowest):
            lowest = further
        if np.array_equal(lowest, roots):
            return roots
        roots = lowest


def to_left_to_right(boxes: np.ndarray, direction: str) -> np.ndarray:
    """Mirror or transpose boxes, so that text in ``direction`` is read from left to right and from top to bottom.

    Boxes are mirrored about their common middle, not the page's, so the unit of the coordinates does not matter.
    """
    if direction == "ltr" or len(boxes) == 0:
        return boxes
    left, top, right, bottom = boxes.T
    if direction == "ttb-ltr":
        return np.stack([top, left, bottom, right], axis=1)
    extent = left.min() + right.max()
    if direction == "rtl":
        return np.stack([extent - right, top, extent - left, bottom], axis=1)
    return np.stack([top, extent - right, bottom, extent - left], axis=1)
