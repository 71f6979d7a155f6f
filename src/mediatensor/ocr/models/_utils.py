"""Utilities for programs that were written for docTR: page orientation, masks of boxes, and conversion of results."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from ...errors import InvalidArgumentError
from ..utils._page_images import image_tools
from ..utils.geometry import min_area_rect
from ._networks.preprocessing import get_language

__all__ = [
    "estimate_orientation",
    "get_language",
    "invert_data_structure",
    "mask_boxes",
    "rectify_crops",
    "rectify_loc_preds",
]

# Elongations are estimated by moments; for each requested shape, this many of the most elongated are measured exactly.
_MEASURED_PER_SHAPE = 2


def estimate_orientation(
    img: np.ndarray,
    general_page_orientation: tuple[int, float] | None = None,
    n_ct: int = 70,
    ratio_threshold_for_lines: float = 3,
    min_confidence: float = 0.2,
    lower_area: int = 100,
) -> int:
    """Estimate by how many degrees a page is turned, from its lines of text.

    If given, ``general_page_orientation`` determines the nearest multiple of 90 degrees. The most elongated shapes on
    the page, which are usually lines of text, determine the exact angle.

    >>> import numpy as np
    >>> page = np.zeros((400, 400, 1), np.uint8)
    >>> rows, columns = np.mgrid[:400, :400]
    >>> page[(columns > 40) & (columns < 360) & ((rows - columns * 0.1) % 40 < 12)] = 255  # falls by 1 in 10
    >>> estimate_orientation(page)
    6

    Args:
        img: Either the binary map of a detector, uint8 ``(H, W, 1)``, nonzero where there is text; or an RGB image
            ``(H, W, 3)``.
        general_page_orientation: By how many degrees the page is turned, a multiple of 90, and the confidence.
        n_ct: Maximum number of shapes used for the estimate.
        ratio_threshold_for_lines: Shapes whose ratio of length to width is greater than this count as lines of text.
        min_confidence: ``general_page_orientation`` is used only if its confidence is at least this.
        lower_area: Shapes whose area in pixels is at most this are ignored.

    Returns:
        By how many degrees the page is turned clockwise, in (-180, 180]. Rotating it counter-clockwise by this angle
        makes it upright.

    Raises:
        InvalidArgumentError: The array has another shape, or the turn is not a multiple of 90.
        MissingDependencyError: SciPy is not installed.
    """
    if img.ndim != 3 or img.shape[-1] not in (1, 3) or 0 in img.shape:
        raise InvalidArgumentError(f"Image shape {img.shape} not supported: give (H, W, 1) or (H, W, 3)")
    turn, confidence = general_page_orientation or (0, 0.0)
    known = turn is not None and confidence >= min_confidence
    if known and turn % 90:
        raise InvalidArgumentError(f"a page's general orientation is a multiple of 90 degrees, got {turn}")
    inked = _binarised(img) if img.shape[-1] == 3 else img[..., 0] > 0
    # Lines are vertical on a page turned by 90 degrees. A page turned by 180 degrees has horizontal lines.
    inked = np.rot90(inked) if known and turn % 180 else inked
    if not known:
        # Enlarge the words so that the words of a line touch and become one shape.
        size = tuple(max(1, side // 100) for side in inked.shape)
        inked = image_tools().maximum_filter(np.ascontiguousarray(inked, dtype=np.uint8), size=size) > 0
    angles, lengths, breadths = _elongated_shapes(inked, n_ct, lower_area)
    lines = angles[lengths > ratio_threshold_for_lines * breadths]
    skew = round(median_low(lines.tolist())) if len(lines) else 0
    # Exactly vertical lines are letters or rules rather than text.
    skew = 0 if abs(skew) == 90 else skew
    if known and (skew == 0 or (turn != 0 and abs(skew) == abs(turn))):
        return int(turn)
    angle = ((turn if known else 0) + skew) % 360
    return int(angle - 360 if angle > 180 else angle)


def _binarised(img: np.ndarray) -> np.ndarray:
    """Smooth an image, and return bool ``(H, W)``: true for pixels that are not brighter than Otsu's threshold."""
    gray = np.asarray(Image.fromarray(img.astype(np.uint8)).convert("L").filter(ImageFilter.MedianFilter(5)))
    counts = np.bincount(gray.reshape(-1), minlength=256).astype(np.float64)
    below = np.cumsum(counts)
    sums = np.cumsum(counts * np.arange(256))
    above = below[-1] - below
    # The variance between both classes (Otsu 1979), for every threshold at once.
    means = sums / below.clip(1) - (sums[-1] - sums) / above.clip(1)
    dark: np.ndarray = gray <= int(np.argmax(below * above * means**2))
    return dark


def _elongated_shapes(inked: np.ndarray, number: int, lower_area: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measure the most elongated connected shapes in a map ``inked``, bool (H, W).

    At most ``number`` shapes are measured. Shapes whose area is at most ``lower_area`` pixels, and shapes of a single
    row of pixels, are ignored. Return three arrays, in the order of descending elongation: the angles of the long sides
    in degrees clockwise, in (-90, 90], and the lengths and the widths in pixels.
    """
    ndimage = image_tools()
    labels, count = ndimage.label(inked, structure=np.ones((3, 3), dtype=bool))
    # Area within the contour through pixel centers, the usual measure of contours (Pick's theorem).
    rim = inked & ~ndimage.binary_erosion(inked)
    inked_count = np.bincount(labels[inked], minlength=count + 1)
    areas = inked_count - np.bincount(labels[rim], minlength=count + 1) / 2 - 1
    rows, columns = np.nonzero(rim & (areas > lower_area)[labels])
    own = labels[rows, columns]
    order = np.argsort(own, kind="stable")
    points, own = np.stack([columns, rows], axis=1)[order], own[order]
    if len(own) == 0:
        return np.empty(0), np.empty(0), np.empty(0)
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
    """Estimate the elongation of each shape from the second moments of its rim. ``own`` has the shape of each point."""
    _, index, sizes = np.unique(own, return_inverse=True, return_counts=True)
    x, y = (points[:, axis].astype(np.float64) for axis in (0, 1))
    x, y = (values - (np.bincount(index, values) / sizes)[index] for values in (x, y))
    xx, yy, xy = (np.bincount(index, values) / sizes for values in (x * x, y * y, x * y))
    spread = np.hypot((xx - yy) / 2, xy)
    middle = (xx + yy) / 2
    # A rim of one row of pixels has no width; adding 1/12 of a squared pixel keeps the ratio finite.
    ratios: np.ndarray = (middle + spread) / (middle - spread + 1 / 12)
    return ratios


def rectify_crops(crops: Sequence[np.ndarray], orientations: Sequence[int]) -> list[np.ndarray]:
    """Rotate crops upright, without copying pixels.

    >>> import numpy as np
    >>> rectify_crops([np.array([[1, 2]])], [1])[0].tolist()  # was turned by 90 degrees counter-clockwise
    [[1], [2]]

    Args:
        crops: Images ``(H, W, ...)``.
        orientations: Number of counter-clockwise quarter turns of each crop.
    """
    return [np.rot90(crop, -turn) for crop, turn in zip(crops, orientations, strict=True)]


def rectify_loc_preds(page_loc_preds: np.ndarray, orientations: Sequence[int]) -> np.ndarray | None:
    """Reorder the corners of quads so that each quad starts at the top left of its text.

    If there are no quads, return ``None``.

    Args:
        page_loc_preds: The quads, ``(N, 4, 2)``. Their corners have the order top left, top right, bottom right, bottom
            left, as they appear on the page.
        orientations: Number of counter-clockwise quarter turns of the text of each quad.

    Raises:
        InvalidArgumentError: There are not as many orientations as quads.
    """
    if len(orientations) != len(page_loc_preds):
        raise InvalidArgumentError(f"{len(orientations)} orientations were given for {len(page_loc_preds)} quads")
    if len(orientations) == 0:
        return None
    corners = (np.arange(4) - np.asarray(orientations)[:, None]) % 4
    return np.take_along_axis(page_loc_preds, corners[..., None], axis=1)


def mask_boxes(img: np.ndarray, boxes: np.ndarray, fill_value: int = 255) -> np.ndarray:
    """Return a copy of an image in which the boxes are painted over, or the image itself if there are no boxes.

    >>> import numpy as np
    >>> int(mask_boxes(np.zeros((4, 4), np.uint8), np.array([[0.0, 0.0, 0.5, 0.5]])).sum()) // 255
    9

    Args:
        img: The image, ``(H, W)`` or ``(H, W, C)``.
        boxes: The boxes relative to the image: straight ``(N, 4)`` or quads ``(N, 4, 2)``. Pixels on the border of a
            box are also filled.
        fill_value: The value of the filled pixels.

    Raises:
        InvalidArgumentError: The boxes have another shape or are not finite.
    """
    boxes = np.asarray(boxes, dtype=np.float64)
    if boxes.size == 0:
        return img
    if boxes.ndim not in (2, 3) or boxes.shape[1:] not in ((4,), (4, 2)) or not np.isfinite(boxes).all():
        raise InvalidArgumentError(f"boxes must be finite and (N, 4) or (N, 4, 2), got shape {boxes.shape}")
    height, width = img.shape[:2]
    quads = boxes if boxes.ndim == 3 else boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]
    mask = Image.new("1", (width, height))
    draw = ImageDraw.Draw(mask)
    for quad in np.rint(quads.clip(0, 1) * (width, height)).astype(int).tolist():
        draw.polygon([tuple(point) for point in quad], fill=1, outline=1)
    painted = img.copy()
    painted[np.asarray(mask)] = fill_value
    return painted


def invert_data_structure(
    x: list[dict[str, Any]] | dict[str, list[Any]],
) -> list[dict[str, Any]] | dict[str, list[Any]]:
    """Turn a list of dictionaries into a dictionary of lists, or the reverse.

    >>> invert_data_structure([{"words": 1, "dates": 2}, {"words": 3, "dates": 4}])
    {'words': [1, 3], 'dates': [2, 4]}
    >>> invert_data_structure({"words": [1, 3], "dates": [2, 4]})
    [{'words': 1, 'dates': 2}, {'words': 3, 'dates': 4}]

    Raises:
        InvalidArgumentError: Keys or lengths differ, or ``x`` is neither a list nor a dictionary.
    """
    if isinstance(x, dict):
        if len({len(values) for values in x.values()}) > 1:
            raise InvalidArgumentError("All the lists in the dictionary should have the same length.")
        return [dict(zip(x, values, strict=True)) for values in zip(*x.values(), strict=True)]
    if isinstance(x, list):
        if any(item.keys() != x[0].keys() for item in x):
            raise InvalidArgumentError("All the dictionaries in the list should have the same keys.")
        return {key: [item[key] for item in x] for key in (x[0] if x else ())}
    raise InvalidArgumentError(f"Expected a dictionary or a list, got {type(x).__name__}.")
