"""Rotate, trim, crop and resize images of pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from ..._engine.common.checks import checked, finite_number, image_size, number_array, shown
from ...errors import InvalidArgumentError, MissingDependencyError

# Outputs are computed in tiles of this size, so that a whole page is never held as floats.
_TILE = 1024
# Maximum number of pixels of an output, enough for a page of 20,000 x 20,000 pixels.
_MAX_PIXELS = 1 << 29

Matrix = NDArray[np.float64]


def translation(x: float, y: float) -> Matrix:
    """Return the (3, 3) matrix that moves a point by (x, y)."""
    return np.array([[1.0, 0.0, x], [0.0, 1.0, y], [0.0, 0.0, 1.0]])


def rotation(angle: float) -> Matrix:
    """Return the (3, 3) matrix of a rotation about the origin by ``angle`` degrees, counter-clockwise on screen.

    For multiples of 90 degrees, the matrix has no rounding errors.
    """
    quarters, rest = divmod(angle, 90.0)
    if rest == 0.0:
        cosine, sine = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)][int(quarters) % 4]
    else:
        radians = np.deg2rad(angle)
        cosine, sine = float(np.cos(radians)), float(np.sin(radians))
    return np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])


def between_pixel_centers(matrix: Matrix) -> Matrix:
    """Convert a transform of pixel indices to one of continuous coordinates.

    The centre of the first pixel is at 0 in pixel indices, and at 0.5 in continuous coordinates.
    """
    return translation(0.5, 0.5) @ matrix @ translation(-0.5, -0.5)


def quad_to_quad(source: NDArray[np.float64], target: NDArray[np.float64]) -> Matrix | None:
    """Return the perspective matrix (3, 3) that maps four points (4, 2) to four others, or None if there is none."""
    x, y = source.T
    ones, zeros = np.ones(4), np.zeros(4)
    equations = np.concatenate(
        [
            np.stack([x, y, ones, zeros, zeros, zeros, -x * target[:, 0], -y * target[:, 0]], axis=1),
            np.stack([zeros, zeros, zeros, x, y, ones, -x * target[:, 1], -y * target[:, 1]], axis=1),
        ]
    )
    try:
        solution = np.linalg.solve(equations, target.T.reshape(-1))
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(solution).all():
        return None
    return np.append(solution, 1.0).reshape(3, 3)


def warp(image: NDArray[np.generic], matrix: Matrix, size: tuple[int, int]) -> NDArray[np.generic]:
    """Transform an image (H, W) or (H, W, C), of any real dtype, to an output of ``size`` (height, width).

    ``matrix`` (3, 3) maps points (x, y, 1) of the output to points of ``image``, both in continuous coordinates. The
    image is sampled bilinearly, with zeros outside, and rounded for integer types. Raise an error for more than 2^29
    pixels.
    """
    height, width = size
    if height * width > _MAX_PIXELS:
        raise InvalidArgumentError(f"an output of {width} x {height} pixels is larger than {_MAX_PIXELS} pixels")
    output = np.zeros((height, width, *image.shape[2:]), dtype=image.dtype)
    if 0 in image.shape:
        return output
    for top in range(0, height, _TILE):
        for left in range(0, width, _TILE):
            tile = output[top : top + _TILE, left : left + _TILE]
            _fill(tile, image, matrix @ translation(left, top))
    return output


def _fill(tile: NDArray[np.generic], image: NDArray[np.generic], matrix: Matrix) -> None:
    """Compute one tile of the output of `warp` from the part of the image that the tile shows."""
    source_x, source_y = _sources(matrix, tile.shape[0], tile.shape[1])
    # Everything more than a pixel outside the border is 0, so positions can be clipped.
    np.clip(source_x, -2.0, image.shape[1] + 2.0, out=source_x)
    np.clip(source_y, -2.0, image.shape[0] + 2.0, out=source_y)
    left, right = _span(source_x, image.shape[1])
    top, bottom = _span(source_y, image.shape[0])
    if left >= right or top >= bottom:
        return
    part = np.ascontiguousarray(image[top:bottom, left:right])
    part = part.reshape(*part.shape[:2], -1)
    precision = np.float64 if image.dtype == np.float64 else np.float32
    # For the sampler, -1 and 1 are the outer edges of this part of the image.
    grid = np.empty((*source_x.shape, 2), dtype=precision)
    grid[..., 0] = (source_x - left) * (2.0 / (right - left)) - 1.0
    grid[..., 1] = (source_y - top) * (2.0 / (bottom - top)) - 1.0
    pixels = torch.from_numpy(part.astype(precision)).permute(2, 0, 1)[None]
    sampled = F.grid_sample(pixels, torch.from_numpy(grid)[None], align_corners=False)
    values = sampled[0].permute(1, 2, 0).numpy().reshape(tile.shape)
    if image.dtype == np.bool_:
        values = values >= 0.5
    elif np.issubdtype(image.dtype, np.integer):
        # The weights of a mean cannot take it out of the range of this type, even with rounding.
        values = np.rint(values)
    tile[...] = values


def _sources(matrix: Matrix, height: int, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the positions x and y in the source, each (height, width), of the pixel centres of the output."""
    x, y = np.arange(width)[None, :] + 0.5, np.arange(height)[:, None] + 0.5
    across: NDArray[np.float64] = (matrix[0, 0] * x + matrix[0, 2]) + matrix[0, 1] * y
    down: NDArray[np.float64] = (matrix[1, 0] * x + matrix[1, 2]) + matrix[1, 1] * y
    if matrix[2, 0] == matrix[2, 1] == 0:
        return across / matrix[2, 2], down / matrix[2, 2]
    depth = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2]
    # In a perspective, points on the horizon have no source.
    beyond = depth == 0
    depth[beyond] = 1.0
    across[beyond] = down[beyond] = -2.0
    return across / depth, down / depth


def _span(positions: NDArray[np.float64], size: int) -> tuple[int, int]:
    """Return the range of rows or columns, out of ``size``, that bilinear sampling at ``positions`` reads."""
    return max(int(np.floor(positions.min())) - 1, 0), min(int(np.ceil(positions.max())) + 1, size)


Array = NDArray[Any]


def _image(name: str, value: Any) -> Array:
    image = number_array(name, value)
    if image.ndim < 2:
        raise InvalidArgumentError(f"{name} must be an image, an array (H, W) or (H, W, C) (got {shown(value)}).")
    return image


@checked(img_shape=image_size, angle=finite_number)
def compute_expanded_shape(img_shape: tuple[int, int], angle: float) -> tuple[float, float]:
    """Return the size of the smallest upright rectangle that contains a rotated image.

    Args:
        img_shape: (height, width) of the image.
        angle: Angle of the rotation in degrees, in either direction.

    Returns:
        (height, width) of the rectangle, not rounded.

    >>> from mediatensor.ocr.utils import compute_expanded_shape
    >>> compute_expanded_shape((100, 200), 90)
    (200.0, 100.0)
    """
    height, width = img_shape
    cosine, sine = np.abs(rotation(angle)[0, :2])
    return float(width * sine + height * cosine), float(width * cosine + height * sine)


@checked(image=_image, angle=finite_number)
def rotate_image(image: Array, angle: float, expand: bool = False, preserve_origin_shape: bool = False) -> Array:
    """Rotate an image about its centre, counter-clockwise on screen.

    Rotations by multiples of 90 degrees copy pixels. All other rotations interpolate bilinearly. docTR, in contrast,
    rotates about a point half a pixel off the centre. Its rotations by multiples of 90 degrees therefore lose a row, a
    column or both.

    Args:
        image: Array (H, W) or (H, W, C).
        angle: Angle in degrees.
        expand: Whether to enlarge the result so that no corner is cut off, and to pad it further to the original aspect
            ratio. By default, the result has the size of the input.
        preserve_origin_shape: Whether to scale the expanded result back to the size of the input. It has no effect
            without ``expand``.

    Returns:
        The rotated image, of the same dtype, black outside of the input.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import rotate_image
    >>> rotate_image(np.array([[1, 2], [3, 4]]), 90).tolist()
    [[2, 4], [1, 3]]
    """
    height, width = image.shape[:2]
    if not expand or 0 in (height, width):
        return warp(image, _about(width / 2, height / 2, angle), (height, width))
    # The image is padded by these rows and columns for the rotation, then to its original aspect ratio.
    tall, wide = compute_expanded_shape((height, width), angle)
    more_rows, more_columns = max(0, ceil(tall - height)), max(0, ceil(wide - width))
    left, top, middle_width, middle_height = more_columns // 2, more_rows // 2, width + more_columns, height + more_rows
    canvas_height, canvas_width = middle_height, middle_width
    if canvas_height * width > canvas_width * height:
        canvas_width = int(canvas_height * width / height)
    else:
        canvas_height = int(canvas_width * height / width)
    # Map the canvas to the padded image, undo the rotation, and map to the image inside the padding.
    matrix = (
        translation(-left, -top)
        @ _about(middle_width / 2, middle_height / 2, angle)
        @ translation(-((canvas_width - middle_width) // 2), -((canvas_height - middle_height) // 2))
    )
    if not preserve_origin_shape:
        return warp(image, matrix, (canvas_height, canvas_width))
    return warp(image, matrix @ np.diag([canvas_width / width, canvas_height / height, 1.0]), (height, width))


def _about(x: float, y: float, angle: float) -> Matrix:
    """Return the matrix from points of an image, rotated counter-clockwise about (x, y), to points of the original."""
    return translation(x, y) @ rotation(-angle) @ translation(-x, -y)


@checked(image=_image)
def remove_image_padding(image: Array) -> Array:
    """Cut off the rows and columns at the border of an image that are entirely black.

    Args:
        image: Array (H, W) or (H, W, C).

    Returns:
        A view of the image without the black border, or the image itself if it is entirely black.

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


@checked(page=_image, angle=finite_number)
def straighten_page(page: Array, angle: float) -> tuple[Array, NDArray[np.float64]]:
    """Rotate a page into the smallest image that contains all of it, and return a matrix that reverses this.

    Args:
        page: Array (H, W) or (H, W, C).
        angle: Degrees, counter-clockwise on screen.

    Returns:
        A pair: the rotated page, black outside of the input, and a matrix (3, 3). The matrix maps points (x, y, 1) of
        the rotated page, in pixels, to points of the original page.

    >>> import numpy as np
    >>> from mediatensor.ocr.utils import straighten_page
    >>> turned, back = straighten_page(np.zeros((100, 200, 3), np.uint8), 90)
    >>> turned.shape, (back @ [0, 0, 1]).tolist()
    ((200, 100, 3), [200.0, 0.0, 1.0])
    """
    height, width = page.shape[:2]
    # Subtract rounding errors of the sine and cosine, which would add a pixel.
    tall, wide = (ceil(side - 1e-6) for side in compute_expanded_shape((height, width), angle))
    back = translation(width / 2, height / 2) @ rotation(-angle) @ translation(-wide / 2, -tall / 2)
    return warp(page, back, (tall, wide)), back


@checked(img=_image, boxes=number_array)
def extract_crops(img: Array, boxes: Array) -> list[Array]:
    """Cut axis-aligned boxes out of an image.

    Args:
        img: Array (H, W) or (H, W, C).
        boxes: (N, 4) as (xmin, ymin, xmax, ymax). Float boxes are relative to the image; their crops include row ymax
            and column xmax. Integer boxes are in pixels; their crops end before row ymax and column xmax. Boxes are
            clipped to the image.

    Returns:
        A list of N arrays (h, w) or (h, w, C). A box without area gives an array without pixels.

    Raises:
        InvalidArgumentError: if the boxes have a wrong shape or are not finite.

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


@checked(img=_image, polys=number_array)
def extract_rcrops(
    img: Array, polys: Array, dtype: DTypeLike = np.float32, assume_horizontal: bool = False
) -> list[Array]:
    """Cut rotated boxes out of an image and turn them upright.

    Args:
        img: Array (H, W) or (H, W, C).
        polys: (N, 4, 2), with points in the order top left, top right, bottom right, bottom left in reading direction.
            Floats are relative to the image; integers are pixels.
        dtype: The floating-point type in which coordinates are computed. It affects how the lengths of the sides are
            rounded. Not used with ``assume_horizontal``.
        assume_horizontal: Whether to assume that the text is upright except for a slight tilt. If true, the points are
            sorted by their position, and the crop follows all four corners (perspective) instead of the first three.

    Returns:
        A list of N arrays (h, w) or (h, w, C), black outside of the image. h and w are the lengths of the box's sides
        in pixels, rounded down. The array has no pixels if a side is shorter than one pixel. With
        ``assume_horizontal``, this also happens if the box has no area.

    Raises:
        InvalidArgumentError: if the polygons have a wrong shape, are not finite, or are too large.

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
    if np.issubdtype(polys.dtype, np.integer):
        points = polys.astype(np.int64)  # differences of unsigned integers would wrap
    else:
        _check_finite(polys)
        points = polys * np.array([width, height], dtype=polys.dtype)
    # Lengths are rounded down. They are measured in docTR's precision, so that 12 pixels do not become 11.999999.
    if assume_horizontal:
        return [_perspective_crop(img, quad) for quad in _upright_order(points)]
    return [_affine_crop(img, quad) for quad in points.astype(dtype)]


def _check_finite(boxes: Array) -> None:
    if not np.isfinite(boxes).all():
        raise InvalidArgumentError("boxes must be finite, got NaN or infinity")


def _no_pixels(img: Array) -> Array:
    return np.zeros((0, 0, *img.shape[2:]), dtype=img.dtype)


def _affine_crop(img: Array, quad: Array) -> Array:
    """Cut out a parallelogram, given by the first three points of ``quad``: top left, top right and bottom right."""
    along, down = quad[1] - quad[0], quad[2] - quad[1]
    length, depth = float(np.linalg.norm(along)), float(np.linalg.norm(down))
    if length < 1 or depth < 1:
        return _no_pixels(img)
    # The centres of the outermost pixels are at the corner points. A single row or column is at the first point.
    along, down = along / max(length - 1, 1.0), down / max(depth - 1, 1.0)
    matrix = np.array([[along[0], down[0], quad[0, 0]], [along[1], down[1], quad[0, 1]], [0.0, 0.0, 1.0]])
    return warp(img, between_pixel_centers(matrix), (int(depth), int(length)))


def _upright_order(quads: Array) -> Array:
    """Sort the points of each quadrangle: upper left, lower left, upper right, lower right. Left points come first."""
    by_column = np.take_along_axis(quads, np.argsort(quads[..., :1], axis=1, kind="stable"), axis=1)
    sides = by_column.reshape(-1, 2, 2, 2)
    order = np.argsort(sides[..., 1:], axis=2, kind="stable")
    ordered: Array = np.take_along_axis(sides, order, axis=2)
    return ordered.reshape(-1, 4, 2)


def _perspective_crop(img: Array, quad: Array) -> Array:
    """Cut out the quadrangle ``quad``, whose points are ordered top left, bottom left, top right, bottom right."""
    top_left, bottom_left, top_right, bottom_right = quad
    width = int(max(np.linalg.norm(top_right - top_left), np.linalg.norm(bottom_right - bottom_left)))
    height = int(max(np.linalg.norm(bottom_left - top_left), np.linalg.norm(bottom_right - top_right)))
    if width < 1 or height < 1:
        return _no_pixels(img)
    right, bottom = max(width - 1, 1), max(height - 1, 1)
    upright = np.array([[0.0, 0.0], [0.0, bottom], [right, 0.0], [right, bottom]])
    matrix = quad_to_quad(upright, quad.astype(np.float64))
    return _no_pixels(img) if matrix is None else warp(img, between_pixel_centers(matrix), (height, width))


# Modes that support antialiasing.
_SMOOTH = ("bilinear", "bicubic")


@dataclass(frozen=True)
class Letterbox:
    """Scales images of any size to one fixed size, with padding if the aspect ratio is preserved.

    Attributes:
        size: Height and width of the result.
        preserve_aspect_ratio: Whether to scale both sides by the same factor, and pad the rest with zeros.
        symmetric_pad: Whether to pad equally on opposite sides; otherwise only on the right and at the bottom.
    """

    size: tuple[int, int]
    preserve_aspect_ratio: bool
    symmetric_pad: bool

    def place(self, image: Tensor) -> tuple[int, int, int, int]:
        """Return the position of the scaled image in the padded result of `fit`: top, left, height and width."""
        height, width = self.size
        if not self.preserve_aspect_ratio:
            return 0, 0, height, width
        scaled = fitting_size(image.shape[-2:], self.size)
        spare = (height - scaled[0], width - scaled[1])
        top, left = (ceil(spare[0] / 2), ceil(spare[1] / 2)) if self.symmetric_pad else (0, 0)
        return top, left, *scaled

    def fit(self, image: Tensor, mode: str = "bilinear") -> Tensor:
        """Scale and pad an image (C, H, W) to ``self.size``. See `resized` for ``mode`` and the resulting dtype."""
        top, left, height, width = self.place(image)
        below, right = self.size[0] - top - height, self.size[1] - left - width
        return F.pad(resized(image, (height, width), mode), (left, right, top, below))

    def padding_mask(self, image: Tensor) -> Tensor:
        """Return a mask for the result of `fit`, bool (height, width): True where it shows ``image``."""
        top, left, height, width = self.place(image)
        mask = torch.zeros(self.size, dtype=torch.bool, device=image.device)
        mask[top : top + height, left : left + width] = True
        return mask


def fitting_size(size: Sequence[int], target: tuple[int, int]) -> tuple[int, int]:
    """Scale ``size`` (height, width) so that it just fits into ``target``, with the same aspect ratio."""
    height, width = size
    if height / width > target[0] / target[1]:
        return target[0], max(int(target[0] * width / height), 1)
    return max(int(target[1] * height / width), 1), target[1]


def resized(image: Tensor, size: tuple[int, int], mode: str = "bilinear") -> Tensor:
    """Resize an image (C, H, W) of any dtype to ``size`` (height, width).

    ``mode`` is ``"bilinear"``, ``"bicubic"``, ``"nearest"`` or ``"nearest-exact"``. The first two modes average pixels
    when an image shrinks (antialiasing). The result keeps the dtypes uint8, float32 and float64, and is float32 for
    other dtypes. An image that already has the size is returned unchanged.
    """
    if tuple(image.shape[1:]) == tuple(size):
        return image
    # uint8 kernels exist only on the CPU, and are wrong for a width of one (PyTorch 2.14). In these cases, compute in
    # floats and round.
    exact = image.dtype == torch.uint8 and (image.device.type != "cpu" or size[1] == 1)
    has_kernel = image.dtype in (torch.float32, torch.float64, torch.uint8) and not exact
    source = image[None] if has_kernel else image[None].float()
    if mode in _SMOOTH:
        result = F.interpolate(source, size=size, mode=mode, align_corners=False, antialias=True)[0]
    else:
        result = F.interpolate(source, size=size, mode=mode)[0]
    return result.round_().clamp_(0, 255).to(torch.uint8) if exact else result


def image_tools() -> ModuleType:
    """Import ``scipy.ndimage``, or raise an error that says what to install."""
    try:
        from scipy import ndimage
    except ImportError:
        raise MissingDependencyError('Reading pages needs SciPy: pip install "mediatensor[ocr]".') from None
    tools: ModuleType = ndimage
    return tools
