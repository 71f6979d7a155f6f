"""Functions without tensors: crops of boxes, and shadow masks. docTR has a module of the same name."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ....errors import InvalidArgumentError
from ...utils import rotate_abs_geoms

__all__ = ["create_shadow_mask", "crop_boxes"]

Array: TypeAlias = NDArray[Any]
# Up to this many pixels, shadow edges are drawn finer. Shadows on larger images take less memory.
_FINE_PIXELS = 4_000_000


def crop_boxes(boxes: Array, crop_box: tuple[float, float, float, float]) -> Array:
    """Convert boxes of an image to boxes of a crop of the image.

    Args:
        boxes: (N, 4), each (xmin, ymin, xmax, ymax), relative in [0, 1] or in pixels.
        crop_box: (xmin, ymin, xmax, ymax) of the crop, relative if the boxes are relative, otherwise in pixels.

    Returns:
        A new array (M, 4), relative or in pixels like ``boxes``, clipped to the crop. Boxes outside the crop are left
        out.

    Raises:
        InvalidArgumentError: Either the boxes or the crop is relative, but not both.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.transforms.functional import crop_boxes
        >>> crop_boxes(np.array([[15, 20, 35, 30], [5, 10, 10, 20]]), (12, 23, 50, 50)).tolist()
        [[3, 0, 23, 7]]
    """
    if len(boxes) == 0:
        return boxes.copy()
    relative = bool(boxes.max() <= 1)
    if relative != (max(crop_box) <= 1):
        raise InvalidArgumentError(
            "boxes and crop_box must both be relative, with values up to 1, or both be in pixels "
            f"(got boxes up to {boxes.max():g} and crop_box={crop_box})."
        )
    left, top, right, bottom = crop_box
    columns, rows = boxes[:, 0::2].clip(left, right) - left, boxes[:, 1::2].clip(top, bottom) - top
    if relative:
        columns, rows = columns / (right - left), rows / (bottom - top)
    cropped: Array = np.stack([columns[:, 0], rows[:, 0], columns[:, 1], rows[:, 1]], axis=1)
    return cropped[(cropped[:, 0] < cropped[:, 2]) & (cropped[:, 1] < cropped[:, 3])]


def create_shadow_mask(
    target_shape: tuple[int, int],
    min_base_width: float = 0.3,
    max_tip_width: float = 0.5,
    max_tip_height: float = 0.3,
) -> NDArray[np.float32]:
    """Make a random shadow, which fades from its base at one side of an image to a tip inside the image.

    As in docTR, seven random numbers come from NumPy's global generator.

    Args:
        target_shape: Height and width of the mask.
        min_base_width: Smallest width of the base, relative to the side.
        max_tip_width: Largest width of the tip.
        max_tip_height: Largest slant of the tip.

    Returns:
        (height, width) in [0, 1]. 1 is the darkest.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.transforms.functional import create_shadow_mask
        >>> mask = create_shadow_mask((48, 64))
        >>> mask.shape, bool(0 <= mask.min() <= mask.max() <= 1)
        ((48, 64), True)
    """
    height, width = target_shape
    drawn = np.random.rand(6)
    base_width = min_base_width + (1 - min_base_width) * drawn[0]
    base_middle = base_width / 2 + (1 - base_width) * drawn[1]
    # The tip is narrower than the base.
    tip_width = min(drawn[2] * base_width * height / width, max_tip_width)
    tip_middle = tip_width / 2 + (1 - tip_width) * drawn[3]
    tip_height = drawn[4] * max_tip_height
    depth = tip_height / 2 + (1 - tip_height) * drawn[5]
    slant = tip_height / 2 if tip_middle < base_middle else -tip_height / 2
    upright = np.array(
        [
            [base_middle - base_width / 2, 0],
            [base_middle + base_width / 2, 0],
            [tip_middle + tip_width / 2, depth + slant],
            [tip_middle - tip_width / 2, depth - slant],
        ],
        dtype=np.float32,
    )
    in_pixels = (upright * np.array([width, height], np.float32)).round().astype(np.int32)
    turn = np.random.rand(1)[0]
    outline = rotate_abs_geoms(in_pixels[None], 360 * turn, (height, width), expand=False)[0].round().astype(np.int32)
    shape = _fill_outline(_extend_to_edge(outline, (height, width)), (height, width))
    return (shape * _darkness_of_shadow(int(turn / 0.25), (height, width))).astype(np.float32)


def expand_line(line: Array, target_shape: tuple[int, int]) -> tuple[float, float]:
    """Return (x, y) where a line meets the edge of an image when its first point moves outward.

    ``line``, (2, 2), has the point that moves, then the fixed point. A point on the edge does not move.

    Raises:
        InvalidArgumentError: The points are the same, or the line does not meet the edge.
    """
    height, width = target_shape
    (x, y), (far_x, far_y) = line.tolist()
    if x in (0, width) or y in (0, height):
        return x, y
    across, down = x - far_x, y - far_y
    steps = [(edge - far_x) / across for edge in (0, width) if across] + [
        (edge - far_y) / down for edge in (0, height) if down
    ]
    ahead = [step for step in steps if step > 0]
    if not ahead:
        raise InvalidArgumentError(f"a line needs two points (got {x, y} twice).")
    step = min(ahead)
    return min(max(far_x + step * across, 0), width), min(max(far_y + step * down, 0), height)


def _extend_to_edge(outline: Array, shape: tuple[int, int]) -> Array:
    """Move the base of a shadow outline to the image edge, and insert the corner if the base is on two sides."""
    height, width = shape
    outline = outline.copy()
    for base, tip in ((0, 3), (1, 2)):
        if (outline[base] != outline[tip]).any():
            outline[base] = expand_line(outline[[base, tip]], shape)
    first, second = outline[:2]
    if (first == second).any():
        return outline
    corner = [0 if max(first[0], second[0]) < width else width, 0 if max(first[1], second[1]) < height else height]
    return np.concatenate([outline[:1], [corner], outline[1:]])


def _fill_outline(outline: Array, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Fill an outline with 1 inside, 0 outside, and shades between at the edge."""
    height, width = shape
    # Draw the outline larger, so that reducing it makes shades at the edge.
    times = 4 if height * width <= _FINE_PIXELS else 2
    canvas = Image.new("L", (width * times, height * times))
    # The centre of a pixel is at half its width. The outline extends half a pixel to either side, as in OpenCV.
    points = [(x, y) for x, y in ((outline + 0.5) * times - 0.5).tolist()]
    draw = ImageDraw.Draw(canvas)
    draw.polygon(points, fill=255)
    draw.line([*points, points[0]], fill=255, width=times + 1, joint="curve")
    shades: NDArray[np.float32] = np.asarray(canvas.reduce(times), dtype=np.float32) / np.float32(255)
    return shades


def _darkness_of_shadow(quarter: int, shape: tuple[int, int]) -> Array:
    """Return the darkness of a shadow that starts at the top (0), the left (1), the bottom (2) or the right (3)."""
    height, width = shape
    rows, columns = np.arange(height)[:, None], np.arange(width)
    along = rows / max(height - 1, 1) if quarter % 2 == 0 else columns / max(width - 1, 1)
    return 1 - along if quarter < 2 else along
