"""Functions that change the colours of images, rotate and crop images with their boxes, and add shadows."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor

from ....errors import InvalidArgumentError
from ...utils import rotate_abs_geoms

__all__ = ["create_shadow_mask", "crop_boxes"]

Array: TypeAlias = NDArray[Any]
# Up to this many pixels, edges of shadows are drawn more finely. On larger images, this would take too much memory.
_FINE_PIXELS = 4_000_000
# Luminance weights of red, green and blue, as in torchvision.
_LUMINANCE = (0.2989, 0.587, 0.114)
# A Gaussian is cut off at this many standard deviations.
_TRUNCATE = 4.0


def crop_boxes(boxes: Array, crop_box: tuple[float, float, float, float]) -> Array:
    """Convert boxes from coordinates of an image to coordinates of a crop of this image.

    Args:
        boxes: Array (N, 4), each (xmin, ymin, xmax, ymax), either in pixels or relative to the image, in [0, 1].
        crop_box: The crop as (xmin, ymin, xmax, ymax), in the same unit as ``boxes``.

    Returns:
        A new array (M, 4) of boxes, clipped to the crop. The new boxes are in pixels if ``boxes`` are in pixels, and
        relative to the crop if ``boxes`` are relative. Boxes outside the crop are left out.

    Raises:
        InvalidArgumentError: One of ``boxes`` and ``crop_box`` is relative, and the other is in pixels.

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
    """Make a random shadow for an image.

    The shadow is a quadrangle with its base at the top of the image, rotated about the centre by a random angle. It is
    darkest at the base, and fades towards its tip. As in docTR, NumPy's global generator draws seven numbers for it.

    Args:
        target_shape: Height and width of the mask.
        min_base_width: Smallest width of the base before rotation, as a fraction of the image's width.
        max_tip_width: Largest width of the tip before rotation, as a fraction of the image's width.
        max_tip_height: Largest difference in height between the two ends of the tip before rotation, as a fraction of
            the image's height.

    Returns:
        The mask, float32 (height, width), in [0, 1]: 0 means no shadow, 1 the darkest shadow.

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
    """Extend a line of two points, (2, 2), beyond its first point, and return where it meets the edge of the image.

    If the first point is already on the edge, return it. Raise an error if the points are the same.
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
    """Move the base of a shadow outward to the edge of the image, around a corner if the base touches two sides."""
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
    """Render a filled polygon: 1 inside ``outline``, 0 outside, and values in between along its antialiased edge."""
    height, width = shape
    # Draw the outline larger. Reducing it then makes shades at the edge.
    times = 4 if height * width <= _FINE_PIXELS else 2
    canvas = Image.new("L", (width * times, height * times))
    # The centre of a pixel is at half its width. The outline extends by half a pixel to each side, as in OpenCV.
    points = [(x, y) for x, y in ((outline + 0.5) * times - 0.5).tolist()]
    draw = ImageDraw.Draw(canvas)
    draw.polygon(points, fill=255)
    draw.line([*points, points[0]], fill=255, width=times + 1, joint="curve")
    shades: NDArray[np.float32] = np.asarray(canvas.reduce(times), dtype=np.float32) / np.float32(255)
    return shades


def _darkness_of_shadow(quarter: int, shape: tuple[int, int]) -> Array:
    """Return how dark a shadow is, from 1 at its base to 0 at the opposite side of the image.

    The base is at the top, left, bottom or right for a ``quarter`` from 0 to 3. The result broadcasts to ``shape``.
    """
    height, width = shape
    rows, columns = np.arange(height)[:, None], np.arange(width)
    along = rows / max(height - 1, 1) if quarter % 2 == 0 else columns / max(width - 1, 1)
    return 1 - along if quarter < 2 else along


def invert_colors(img: Tensor, min_val: float = 0.6) -> Tensor:
    """Make an image grey, tint it with a random colour, and invert it: dark on white becomes coloured on dark.

    Args:
        img: Tensor (..., 3, H, W) or (..., 1, H, W): integers in [0, 255] or floating point in [0, 1].
        min_val: Before inversion, each channel is multiplied by a random factor. The smallest factor is ``min_val``, in
            [0, 1], and the largest is 1. The factors come from PyTorch's global generator.

    Returns:
        A tensor (..., 3, H, W), in the dtype of the image.

    Raises:
        InvalidArgumentError: The image does not have one or three channels.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms.functional import invert_colors
        >>> bool((invert_colors(torch.ones(3, 4, 4), min_val=0.6) <= 0.4).all())
        True
    """
    if img.ndim < 3 or img.shape[-3] not in (1, 3):
        raise InvalidArgumentError(f"an image must be (..., 1 or 3, H, W) to be inverted (got {tuple(img.shape)}).")
    grey = img
    if img.shape[-3] == 3:
        red, green, blue = (weight * img[..., channel, :, :] for channel, weight in enumerate(_LUMINANCE))
        grey = (red + green + blue).to(img.dtype)[..., None, :, :]
    factors = min_val + (1 - min_val) * torch.rand([*img.shape[:-3], 3, 1, 1], device="cpu")
    if not img.dtype.is_floating_point:
        return 255 - (grey.float() * factors.to(img.device)).to(img.dtype)
    return 1 - grey * factors.to(img.device, img.dtype)


def rotate_sample(img: Tensor, geoms: Array, angle: float, expand: bool = False) -> tuple[Tensor, NDArray[np.float32]]:
    """Rotate an image and its boxes about the centre of the image.

    Args:
        img: Tensor (C, H, W), of any dtype. Pixels are not interpolated (nearest neighbour).
        geoms: Boxes (N, 4), each (xmin, ymin, xmax, ymax), or polygons (N, 4, 2): relative in [0, 1], or in pixels if
            any value is above 1.
        angle: Counter-clockwise angle in degrees.
        expand: Whether to enlarge the image so that no part of it is lost. By default, the size stays the same, and
            parts outside of it are cut off.

    Returns:
        A pair: the rotated image, black outside of the original image, and the boxes as polygons, float32 (N, 4, 2),
        relative to the rotated image and clipped to [0, 1].

    Raises:
        InvalidArgumentError: The shape of ``geoms`` is neither (N, 4) nor (N, 4, 2).

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from mediatensor.ocr.transforms.functional import rotate_sample
        >>> turned, polygons = rotate_sample(torch.ones(3, 200, 100), np.array([[0.0, 0.0, 1.0, 1.0]]), 90, expand=True)
        >>> turned.shape, polygons.tolist()
        (torch.Size([3, 100, 200]), [[[0.0, 1.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]])
    """
    if geoms.shape[1:] not in ((4,), (4, 2)):
        raise InvalidArgumentError(f"geoms must be of shape (N, 4) or (N, 4, 2) (got {geoms.shape}).")
    rotated = rotate_image(img, angle, expand)
    if len(geoms) == 0:
        return rotated, np.zeros((0, 4, 2), np.float32)
    height, width = img.shape[-2:]
    relative = geoms.max() <= 1
    in_pixels = geoms * np.array([width, height] * (1 if geoms.ndim == 3 else 2), geoms.dtype) if relative else geoms
    turned = rotate_abs_geoms(in_pixels, angle, (height, width), expand)
    size = np.array([rotated.shape[-1], rotated.shape[-2]], np.float32)
    # Remove rounding errors, so that coordinates that should be 0 are exactly 0.
    return rotated, (turned / size).round(15).clip(0, 1)


def rotate_image(image: Tensor, angle: float, expand: bool = False) -> Tensor:
    """Rotate an image or mask, (..., H, W), counter-clockwise about its centre by ``angle`` degrees.

    With ``expand``, the result is large enough for the whole rotated image; otherwise it has the original size. Pixels
    are not interpolated, and pixels outside of the original image are 0.
    """
    height, width = image.shape[-2:]
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    tall, wide = _expanded_size(height, width, cosine, sine) if expand else (height, width)
    dtype = torch.float64 if image.dtype == torch.float64 else torch.float32
    # For each pixel of the result, compute its source relative to the centre, in half sizes.
    x = torch.linspace(-wide / 2 + 0.5, wide / 2 - 0.5, wide, dtype=dtype, device=image.device)
    y = torch.linspace(-tall / 2 + 0.5, tall / 2 - 0.5, tall, dtype=dtype, device=image.device)[:, None]
    # Compute the factors first. At right angles, positions between two pixels are then rounded as in torchvision.
    across = x * (2 * cosine / width) - y * (2 * sine / width)
    down = x * (2 * sine / height) + y * (2 * cosine / height)
    grid = torch.stack([across, down], dim=-1)[None]
    planes = image.reshape(1, -1, height, width).to(dtype)
    turned = F.grid_sample(planes, grid, mode="nearest", padding_mode="zeros", align_corners=False)
    return turned.reshape(*image.shape[:-2], tall, wide).to(image.dtype)


def _expanded_size(height: int, width: int, cosine: float, sine: float) -> tuple[int, int]:
    """Return the smallest height and width, in whole pixels, that can hold an image rotated about its centre."""

    def whole(length: int, extent: float) -> int:
        # An excess below 1e-4 pixels is a rounding error.
        return math.ceil((length + extent) / 2 - 1e-4) - math.floor((length - extent) / 2 + 1e-4)

    tall, wide = abs(sine) * width + abs(cosine) * height, abs(cosine) * width + abs(sine) * height
    return whole(height, tall), whole(width, wide)


def crop_detection(img: Tensor, boxes: Array, crop_box: tuple[float, float, float, float]) -> tuple[Tensor, Array]:
    """Cut a part out of an image without resizing it, and convert the boxes to coordinates of this part.

    Args:
        img: Tensor (C, H, W).
        boxes: Array (N, 4), each (xmin, ymin, xmax, ymax): relative in [0, 1], or in pixels if any value is above 1.
        crop_box: The crop as (xmin, ymin, xmax, ymax), relative to the image. As in docTR, xmax = 1 or ymax = 1 means
            the start of the last pixel, so the last column or row is cut off.

    Returns:
        A pair: the crop, at least one pixel wide and high, and the boxes in the crop, (M, 4). The boxes are clipped to
        the crop, and are relative to it or in pixels, like ``boxes``.

    Raises:
        InvalidArgumentError: A value of ``crop_box`` is not in [0, 1].

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from mediatensor.ocr.transforms.functional import crop_detection
        >>> crop, boxes = crop_detection(torch.ones(3, 50, 50), np.array([[15, 20, 35, 30]]), (0.24, 0.46, 1.0, 1.0))
        >>> crop.shape, boxes.tolist()
        (torch.Size([3, 26, 37]), [[3, 0, 23, 7]])
    """
    if not all(0 <= value <= 1 for value in crop_box):
        raise InvalidArgumentError(f"crop_box must be relative, with values in [0, 1] (got {crop_box}).")
    left, top, right, bottom = crop_window(img, crop_box)
    relative = len(boxes) == 0 or boxes.max() <= 1
    return img[..., top:bottom, left:right], crop_boxes(boxes, crop_box if relative else (left, top, right, bottom))


def crop_window(image: Tensor, crop_box: tuple[float, float, float, float]) -> tuple[int, int, int, int]:
    """Convert a relative crop to pixels: left, top, right and bottom, at least one pixel wide and high."""
    height, width = image.shape[-2:]
    left, right = (round(value * (width - 1)) for value in crop_box[0::2])
    top, bottom = (round(value * (height - 1)) for value in crop_box[1::2])
    return left, top, max(right, left + 1), max(bottom, top + 1)


def random_shadow(img: Tensor, opacity_range: tuple[float, float], **kwargs: float) -> Tensor:
    """Add a random shadow with a soft edge to an image.

    Args:
        img: Tensor (C, H, W), of any dtype.
        opacity_range: Smallest and largest darkness, in [0, 1]. The darkness, the softness of the edge and the shape of
            the shadow are drawn from NumPy's global random generator.
        **kwargs: Arguments of `create_shadow_mask`, which limit the size of the shadow.

    Returns:
        A tensor (C, H, W), the image with the shadow. It has the dtype of ``img``, or float32 if ``img`` has integers.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms.functional import random_shadow
        >>> shadowed = random_shadow(torch.ones(3, 48, 64), (0.2, 0.8))
        >>> shadowed.shape, bool(0.2 <= shadowed.min() <= shadowed.max() <= 1)
        (torch.Size([3, 48, 64]), True)
    """
    mask = torch.from_numpy(create_shadow_mask((img.shape[-2], img.shape[-1]), **kwargs))
    opacity, sigma = float(np.random.uniform(*opacity_range)), float(np.random.uniform(0.5, 5.0))
    light = 1 - opacity * blur_image(mask, sigma).to(img.device)
    return (light * img).to(img.dtype if img.dtype.is_floating_point else torch.float32)


def blur_image(image: Tensor, sigma: float) -> Tensor:
    """Blur an image, (..., H, W), with a Gaussian of ``sigma`` pixels. It is mirrored at its edges.

    The result is float64 if the image is float64, otherwise float32.
    """
    image = image if image.dtype == torch.float64 else image.float()
    radius = int(_TRUNCATE * sigma + 0.5)
    if radius == 0:
        return image
    low, high = image.aminmax()
    weights = [math.exp(-(place**2) / (2 * sigma**2)) for place in range(-radius, radius + 1)]
    for axis in (-2, -1):
        length = image.shape[axis]
        # Mirror the image (... c b a | a b c | c b a ...) as often as needed.
        places = torch.arange(-radius, length + radius, device=image.device) % (2 * length)
        mirrored = image.index_select(axis, torch.minimum(places, 2 * length - 1 - places))
        # Adding shifted images takes a fifth of the time of a convolution with one channel.
        image = torch.zeros_like(image)
        for start, weight in enumerate(weights):
            image.add_(mirrored.narrow(axis, start, length), alpha=weight / sum(weights))
    # A mean is always within the range of its values, but a sum with rounded weights may not be.
    return image.clamp_(low, high)
