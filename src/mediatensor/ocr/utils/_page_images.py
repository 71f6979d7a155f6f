"""Turning, trimming and cropping the image of a page."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...errors import InvalidArgumentError
from ._warping import Matrix, between_pixel_centers, quad_to_quad, rotation, translation, warp

__all__ = [
    "compute_expanded_shape",
    "extract_crops",
    "extract_rcrops",
    "remove_image_padding",
    "rotate_image",
    "straighten_page",
]

Array = NDArray[Any]


def compute_expanded_shape(img_shape: tuple[int, int], angle: float) -> tuple[float, float]:
    """The size that holds all of an image once it is turned.

    Args:
        img_shape: Height and width of the image.
        angle: Degrees.

    Returns:
        Height and width, not rounded.

    >>> from mediatensor.ocr.utils import compute_expanded_shape
    >>> compute_expanded_shape((100, 200), 90)
    (200.0, 100.0)
    """
    height, width = img_shape
    cosine, sine = np.abs(rotation(angle)[0, :2])
    return float(width * sine + height * cosine), float(width * cosine + height * sine)


def rotate_image(image: Array, angle: float, expand: bool = False, preserve_origin_shape: bool = False) -> Array:
    """Turn an image about its middle, counter-clockwise on screen.

    Turns by multiples of 90 degrees copy pixels; others interpolate bilinearly. The middle is that of the picture,
    half a pixel away from where docTR turns, which loses a row and a column of every right angle.

    Args:
        image: Array (H, W) or (H, W, C).
        angle: Degrees.
        expand: Pad the image first, so that no corner is lost, and then to its own aspect ratio.
        preserve_origin_shape: With `expand`, scale the result to the size of the input.

    Returns:
        The turned image, of the same dtype, black where there was none.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import rotate_image
    >>> rotate_image(np.array([[1, 2], [3, 4]]), 90).tolist()
    [[2, 4], [1, 3]]
    """
    height, width = image.shape[:2]
    if not expand or 0 in (height, width):
        return warp(image, _about(width / 2, height / 2, angle), (height, width))
    left, top, middle_width, middle_height = _expansion((height, width), angle)
    canvas_height, canvas_width = middle_height, middle_width
    if canvas_height * width > canvas_width * height:
        canvas_width = int(canvas_height * width / height)
    else:
        canvas_height = int(canvas_width * height / width)
    # From the canvas to the padded image, turned back, and to the image within it.
    matrix = (
        translation(-left, -top)
        @ _about(middle_width / 2, middle_height / 2, angle)
        @ translation(-((canvas_width - middle_width) // 2), -((canvas_height - middle_height) // 2))
    )
    if not preserve_origin_shape:
        return warp(image, matrix, (canvas_height, canvas_width))
    return warp(image, matrix @ np.diag([canvas_width / width, canvas_height / height, 1.0]), (height, width))


def _about(x: float, y: float, angle: float) -> Matrix:
    """From points of an image turned counter-clockwise about (x, y) to where they were before."""
    return translation(x, y) @ rotation(-angle) @ translation(-x, -y)


def _expansion(shape: tuple[int, int], angle: float) -> tuple[int, int, int, int]:
    """Padding to the left and above, width and height of an image padded so that it can be turned."""
    height, width = shape
    tall, wide = compute_expanded_shape(shape, angle)
    more_rows, more_columns = max(0, ceil(tall - height)), max(0, ceil(wide - width))
    return more_columns // 2, more_rows // 2, width + more_columns, height + more_rows


def remove_image_padding(image: Array) -> Array:
    """Cut black rows and columns off the border of an image.

    Args:
        image: Array (H, W) or (H, W, C).

    Returns:
        A view without the border; all of the image if it is black throughout.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import remove_image_padding
    >>> remove_image_padding(np.array([[0, 0, 0], [0, 1, 2], [0, 0, 0]])).tolist()
    [[1, 2]]
    """
    inked: NDArray[np.bool_] = np.any(image, axis=tuple(range(2, image.ndim)))
    rows, columns = np.flatnonzero(inked.any(axis=1)), np.flatnonzero(inked.any(axis=0))
    if rows.size == 0:
        return image
    return image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def straighten_page(page: Array, angle: float) -> tuple[Array, NDArray[np.float64]]:
    """Turn a page into a picture that just holds it, and tell how to get back.

    Args:
        page: Array (H, W) or (H, W, C).
        angle: Degrees, counter-clockwise on screen.

    Returns:
        The turned page, black where there was none, and the matrix (3, 3) that takes points (x, y, 1) of it, in
        pixels, to points of the original page.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import straighten_page
    >>> turned, back = straighten_page(np.zeros((100, 200, 3), np.uint8), 90)
    >>> turned.shape, (back @ [0, 0, 1]).tolist()
    ((200, 100, 3), [200.0, 0.0, 1.0])
    """
    height, width = page.shape[:2]
    # Without the noise of sines, which would round up to one more pixel.
    tall, wide = (ceil(side - 1e-6) for side in compute_expanded_shape((height, width), angle))
    back = translation(width / 2, height / 2) @ rotation(-angle) @ translation(-wide / 2, -tall / 2)
    return warp(page, back, (tall, wide)), back


def extract_crops(img: Array, boxes: Array) -> list[Array]:
    """Cut straight boxes out of an image.

    Args:
        img: Array (H, W) or (H, W, C).
        boxes: (N, 4) as (xmin, ymin, xmax, ymax): floats are relative, and the last row and column are included;
            integers are pixels, and are not. What lies outside of the image is left out.

    Returns:
        N arrays (h, w) or (h, w, C); 0 pixels where a box holds none.

    Raises:
        InvalidArgumentError: if the boxes have another shape or are not finite.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import extract_crops
    >>> [crop.shape for crop in extract_crops(np.zeros((100, 200, 3)), np.array([[0.25, 0.5, 0.5, 0.75]]))]
    [(26, 51, 3)]
    """
    if boxes.shape[0] == 0:
        return []
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise InvalidArgumentError(f"boxes must be (N, 4) as (xmin, ymin, xmax, ymax), got shape {boxes.shape}")
    height, width = img.shape[:2]
    if np.issubdtype(boxes.dtype, np.integer):
        pixels = boxes
    else:
        _check_finite(boxes)
        pixels = np.round(boxes * np.array([width, height, width, height], dtype=boxes.dtype))
        pixels = pixels + np.array([0, 0, 1, 1])
    pixels = pixels.clip(0, [width, height, width, height]).astype(np.int64)
    return [np.ascontiguousarray(img[top:bottom, left:right]) for left, top, right, bottom in pixels.tolist()]


def extract_rcrops(
    img: Array, polys: Array, dtype: DTypeLike = np.float32, assume_horizontal: bool = False
) -> list[Array]:
    """Cut rotated boxes out of an image, and set them upright.

    Args:
        img: Array (H, W) or (H, W, C).
        polys: (N, 4, 2), points in the order top left, top right, bottom right, bottom left in reading direction:
            floats are relative, integers are pixels.
        dtype: Floating type of the coordinates.
        assume_horizontal: The text is upright but for a slight tilt: the order of the points is found from where they
            are, and the crop follows all four corners (perspective) rather than the first three.

    Returns:
        N arrays (h, w) or (h, w, C), h and w being the lengths of the sides, rounded down; black beyond the image. A
        box with a side below one pixel, or with `assume_horizontal` one without area, gives an array without pixels.

    Raises:
        InvalidArgumentError: if the polygons have another shape, are not finite, or are absurdly large.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.utils import extract_rcrops
        >>> page = np.zeros((100, 100, 3), np.uint8)
        >>> box = np.array([[[10, 40], [60, 20], [65, 32], [15, 52]]])
        >>> extract_rcrops(page, box)[0].shape
        (13, 53, 3)
    """
    if polys.shape[0] == 0:
        return []
    if polys.shape[1:] != (4, 2):
        raise InvalidArgumentError(f"polys must be (N, 4, 2), got shape {polys.shape}")
    height, width = img.shape[:2]
    points = polys
    if not np.issubdtype(polys.dtype, np.integer):
        _check_finite(polys)
        points = polys * np.array([width, height], dtype=polys.dtype)
    # Lengths are rounded down: one of exactly 12 pixels must not come out as 11.999999, so they are measured in the
    # precision that docTR measures them in.
    if assume_horizontal:
        return [_perspective_crop(img, quad) for quad in _upright_order(points)]
    return [_affine_crop(img, quad) for quad in points.astype(dtype)]


def _check_finite(boxes: Array) -> None:
    if not np.isfinite(boxes).all():
        raise InvalidArgumentError("boxes must be finite, got NaN or infinity")


def _no_pixels(img: Array) -> Array:
    return np.zeros((0, 0, *img.shape[2:]), dtype=img.dtype)


def _affine_crop(img: Array, quad: Array) -> Array:
    """The parallelogram on the first three points."""
    along, down = quad[1] - quad[0], quad[2] - quad[1]
    length, depth = float(np.linalg.norm(along)), float(np.linalg.norm(down))
    if length < 1 or depth < 1:
        return _no_pixels(img)
    # The centres of the outermost pixels lie on the points; a single row or column lies on the first.
    along, down = along / max(length - 1, 1.0), down / max(depth - 1, 1.0)
    matrix = np.array([[along[0], down[0], quad[0, 0]], [along[1], down[1], quad[0, 1]], [0.0, 0.0, 1.0]])
    return warp(img, between_pixel_centers(matrix), (int(depth), int(length)))


def _upright_order(quads: Array) -> Array:
    """Of each quadrangle: the upper and lower of the two leftmost points, then of the two rightmost."""
    by_column = np.take_along_axis(quads, np.argsort(quads[..., :1], axis=1, kind="stable"), axis=1)
    sides = by_column.reshape(-1, 2, 2, 2)
    order = np.argsort(sides[..., 1:], axis=2, kind="stable")
    ordered: Array = np.take_along_axis(sides, order, axis=2)
    return ordered.reshape(-1, 4, 2)


def _perspective_crop(img: Array, quad: Array) -> Array:
    """The quadrangle of points ordered top left, bottom left, top right, bottom right."""
    top_left, bottom_left, top_right, bottom_right = quad
    width = int(max(np.linalg.norm(top_right - top_left), np.linalg.norm(bottom_right - bottom_left)))
    height = int(max(np.linalg.norm(bottom_left - top_left), np.linalg.norm(bottom_right - top_right)))
    if width < 1 or height < 1:
        return _no_pixels(img)
    right, bottom = max(width - 1, 1), max(height - 1, 1)
    upright = np.array([[0.0, 0.0], [0.0, bottom], [right, 0.0], [right, bottom]])
    matrix = quad_to_quad(upright, quad.astype(np.float64))
    return _no_pixels(img) if matrix is None else warp(img, between_pixel_centers(matrix), (height, width))
