"""Transforms that move pixels, boxes and masks: resize, flip, rotate and crop."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...._engine.common.checks import shown, whole_number
from ....errors import InvalidArgumentError
from ...utils._page_images import Letterbox
from ...utils.common_types import Nested, Sample
from ..functional.base import crop_window, rotate_image, rotate_sample
from ._images import Array, ShowsArguments, corners_of, image_of, move_boxes, range_of

# torchvision's names of interpolations, and Pillow's numbers for them.
_INTERPOLATIONS = {"nearest": 0, "bilinear": 2, "bicubic": 3, "nearest-exact": None}


class Resize(nn.Module):
    """Resize the images of samples to one fixed size, together with their masks and boxes.

    Args:
        size: (height, width) of the result in pixels, or one number for both.
        interpolation: ``"bilinear"``, ``"bicubic"``, ``"nearest"`` or ``"nearest-exact"``, or torchvision's
            ``InterpolationMode``. ``"bilinear"`` and ``"bicubic"`` also smooth an image that shrinks (antialiasing).
        preserve_aspect_ratio: Whether to scale both sides by the same factor and pad the rest with black.
        symmetric_pad: Whether to pad equally on opposite sides. If false, padding is only on the right and at the
            bottom.
        return_padding_mask: Whether to add a mask to a sample without a mask: bool (height, width), False on padding
            and True elsewhere.

    Raises:
        InvalidArgumentError: The size is not two positive integers, the interpolation is unknown, the image of a sample
            is not a tensor (C, H, W), or its target is not of a type that `Sample` describes.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from mediatensor.ocr.transforms import Resize
        >>> from mediatensor.ocr.utils import Sample
        >>> resize = Resize((64, 64), preserve_aspect_ratio=True, symmetric_pad=True)
        >>> page = resize(Sample(torch.rand(3, 32, 64), target=np.array([[0.0, 0.0, 1.0, 1.0]])))
        >>> page.image.shape, page.target.tolist()
        (torch.Size([3, 64, 64]), [[0.0, 0.25, 1.0, 0.75]])
    """

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: Any = "bilinear",
        preserve_aspect_ratio: bool = False,
        symmetric_pad: bool = False,
        return_padding_mask: bool = False,
    ) -> None:
        super().__init__()
        sides = size if isinstance(size, Sequence) else (size, size)
        if len(sides) != 2:
            raise InvalidArgumentError(f"size must be (height, width), in pixels (got {shown(size)}).")
        height, width = (whole_number("size", side, at_least=1) for side in sides)
        self.size = (height, width)
        self.interpolation = _interpolation_name(interpolation)
        self.preserve_aspect_ratio = preserve_aspect_ratio
        self.symmetric_pad = symmetric_pad
        self.return_padding_mask = return_padding_mask

    def forward(self, sample: Sample) -> Sample:
        """Resize the image, the mask and the boxes of a sample.

        Args:
            sample: A `Sample` with an image (C, H, W) of any dtype. Boxes in the target must be relative.

        Returns:
            A new `Sample` with an image (C, height, width) of the same dtype, and boxes relative to this image, padding
            included. A mask is resized without interpolation, and is 0 on padding.
        """
        image, mask = image_of(sample), sample.mask
        box = Letterbox(self.size, self.preserve_aspect_ratio, self.symmetric_pad)
        picture = box.fit(image, self.interpolation).to(image.dtype)
        if mask is not None:
            mask = box.fit(mask.reshape(-1, *mask.shape[-2:]), "nearest").to(mask.dtype).squeeze(0)
        elif self.return_padding_mask:
            mask = box.padding_mask(image)
        top, left, height, width = box.place(image)
        if (height, width) == self.size:
            return Sample(picture, mask, sample.target)
        scale = np.array([width, height]) / (self.size[1], self.size[0])
        offset = np.array([left, top]) / (self.size[1], self.size[0])

        def move(boxes: Array) -> tuple[Array, NDArray[np.bool_]]:
            moved = boxes.reshape(len(boxes), -1, 2) * scale + offset
            return moved.clip(0, 1).reshape(boxes.shape).astype(_convert_to_floats(boxes)), np.ones(len(boxes), bool)

        return Sample(picture, mask, move_boxes(sample.target, move))

    def __repr__(self) -> str:
        ratio = f", preserve_aspect_ratio={self.preserve_aspect_ratio}, symmetric_pad={self.symmetric_pad}"
        return (
            f"{type(self).__name__}(output_size={self.size}, interpolation='{self.interpolation}'"
            f"{ratio if self.preserve_aspect_ratio else ''})"
        )


class RandomResize(ShowsArguments, nn.Module):
    """Scale height and width of the image by two random factors with probability ``p``.

    Args:
        scale_range: Smallest and largest factor. NumPy's global generator draws the factors.
        preserve_aspect_ratio: Whether to scale the image content by the same factor in both directions, and pad the
            rest with black. A float is the probability of doing this.
        symmetric_pad: Whether to pad equally on opposite sides. If false, padding is only on the right and at the
            bottom. A float is the probability of padding equally.
        p: Probability of resizing, in [0, 1].

    Raises:
        InvalidArgumentError: ``scale_range`` is not two positive numbers, or the image or target of a sample is not
            valid; see `Resize`.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms import RandomResize
        >>> from mediatensor.ocr.utils import Sample
        >>> height, width = RandomResize((0.5, 0.9), p=1.0)(Sample(torch.rand(3, 100, 200))).image.shape[1:]
        >>> 50 <= height <= 90 and 100 <= width <= 180
        True
    """

    def __init__(
        self,
        scale_range: tuple[float, float] = (0.3, 0.9),
        preserve_aspect_ratio: bool | float = False,
        symmetric_pad: bool | float = False,
        p: float = 0.5,
    ) -> None:
        super().__init__()
        self.scale_range = range_of("scale_range", scale_range)
        if min(self.scale_range) <= 0:
            raise InvalidArgumentError(f"scale_range must be two positive numbers (got {scale_range}).")
        self.preserve_aspect_ratio = preserve_aspect_ratio
        self.symmetric_pad = symmetric_pad
        self.p = p

    def forward(self, sample: Sample) -> Sample:
        """Resize the sample as `Resize` does with probability ``p``; otherwise return it unchanged."""
        if not _draw_chance(self.p):
            return sample
        scales = [np.random.uniform(*self.scale_range) for _ in range(2)]
        height, width = (
            max(int(side * scale), 1) for side, scale in zip(image_of(sample).shape[-2:], scales, strict=True)
        )
        keep, symmetric = (
            choice if isinstance(choice, bool) else bool(torch.rand(1, device="cpu") <= choice)
            for choice in (self.preserve_aspect_ratio, self.symmetric_pad)
        )
        resized_sample: Sample = Resize((height, width), preserve_aspect_ratio=keep, symmetric_pad=symmetric)(sample)
        return resized_sample


class RandomHorizontalFlip(ShowsArguments, nn.Module):
    """Mirror left and right with probability ``p``, in the image, the mask and the boxes.

    Polygons keep the order of their points, as in docTR, so the first point of a mirrored polygon is at the top right.

    Args:
        p: Probability of mirroring, in [0, 1].

    Raises:
        InvalidArgumentError: The image of a sample is not a tensor (C, H, W). Or its target is a text, because mirrored
            text cannot be read, or is not of a type that `Sample` describes.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from mediatensor.ocr.transforms import RandomHorizontalFlip
        >>> from mediatensor.ocr.utils import Sample
        >>> page = Sample(torch.rand(3, 64, 64), target=np.array([[0.25, 0.1, 0.5, 0.2]]))
        >>> RandomHorizontalFlip(p=1)(page).target.tolist()
        [[0.5, 0.1, 0.75, 0.2]]
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, sample: Sample) -> Sample:
        """Mirror the image, the mask and the boxes with probability ``p``; otherwise return the sample unchanged."""
        if not _draw_chance(self.p):
            return sample
        _refuse_text(sample, "mirrored")
        mask = None if sample.mask is None else sample.mask.flip(-1)
        return Sample(image_of(sample).flip(-1), mask, move_boxes(sample.target, _mirror_boxes))


class RandomRotate(ShowsArguments, Nested):
    """Rotate the image, the mask and the boxes about the centre by a random angle.

    Pixels are not interpolated. Areas outside of the original image are black.

    Args:
        max_angle: Largest angle in degrees, in either direction. The angle is drawn uniformly by Python's ``random``.
        expand: Whether to enlarge the image so that no part of it is lost. By default, the size stays the same.

    Raises:
        InvalidArgumentError: The image of a sample is not a tensor (C, H, W), or its target is not of a type that
            `Sample` describes.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from mediatensor.ocr.transforms import RandomRotate
        >>> from mediatensor.ocr.utils import Sample
        >>> turned = RandomRotate(max_angle=30)(Sample(torch.rand(3, 64, 64), target=np.array([[0.4, 0.4, 0.6, 0.6]])))
        >>> turned.image.shape, turned.target.shape
        (torch.Size([3, 64, 64]), (1, 4))
    """

    def __init__(self, max_angle: float = 5.0, expand: bool = False) -> None:
        self.max_angle = max_angle
        self.expand = expand

    def __call__(self, sample: Sample) -> Sample:
        """Return the rotated sample.

        Boxes in the target must be relative. Each box (xmin, ymin, xmax, ymax) is replaced by the axis-aligned box
        around its rotated corners. Polygons stay polygons. Boxes and polygons are clipped to the image, and left out if
        they are entirely outside.
        """
        angle = random.uniform(-self.max_angle, self.max_angle)
        image = image_of(sample)

        def turn(boxes: Array) -> tuple[Array, NDArray[np.bool_]]:
            polygons = rotate_sample(image, boxes, angle, self.expand)[1]
            low, high = corners_of(polygons)
            return polygons if boxes.ndim == 3 else np.concatenate([low, high], axis=1), np.all(high > low, axis=1)

        mask = None if sample.mask is None else rotate_image(sample.mask, angle, self.expand)
        return Sample(rotate_image(image, angle, self.expand), mask, move_boxes(sample.target, turn))


class RandomCrop(ShowsArguments, Nested):
    """Cut a random part out of the image, without resizing it.

    The sample stays unchanged if an array of boxes in its target would become empty.

    Args:
        scale: Smallest and largest area of the crop, as a fraction of the area of the image.
        ratio: Smallest and largest aspect ratio (width / height) of the crop, as a multiple of the aspect ratio of the
            image.

    Raises:
        InvalidArgumentError: An argument is not two positive numbers, or the image of a sample is not a tensor
            (C, H, W). Or its target is a text, because letters would be cut off, or is not of a type that `Sample`
            describes.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from mediatensor.ocr.transforms import RandomCrop
        >>> from mediatensor.ocr.utils import Sample
        >>> crop = RandomCrop(scale=(0.5, 0.9))(Sample(torch.rand(3, 64, 64), target=np.array([[0.0, 0.4, 1.0, 0.6]])))
        >>> crop.target.shape, bool(0 <= crop.target.min() <= crop.target.max() <= 1)
        ((1, 4), True)
    """

    def __init__(self, scale: tuple[float, float] = (0.08, 1.0), ratio: tuple[float, float] = (0.75, 1.33)) -> None:
        self.scale = range_of("scale", scale)
        self.ratio = range_of("ratio", ratio)
        if min(*self.scale, *self.ratio) <= 0:
            raise InvalidArgumentError(f"scale and ratio must be positive (got {scale} and {ratio}).")

    def __call__(self, sample: Sample) -> Sample:
        """Return the cropped sample, or the sample unchanged if no boxes would remain.

        Boxes are converted to coordinates of the crop. Boxes in pixels stay in pixels, and relative boxes become
        relative to the crop. Boxes are clipped to the crop, and left out if they are entirely outside.
        """
        _refuse_text(sample, "cropped")
        scale, ratio = random.uniform(*self.scale), random.uniform(*self.ratio)
        image = image_of(sample)
        height, width = image.shape[-2:]
        area, shape = scale * width * height, ratio * (width / height)
        crop_width = min(max(round(math.sqrt(area * shape)), 1), width)
        crop_height = min(max(round(math.sqrt(area / shape)), 1), height)
        x, y = random.randint(0, width - crop_width), random.randint(0, height - crop_height)
        crop_box = (x / width, y / height, (x + crop_width) / width, (y + crop_height) / height)
        left, top, right, bottom = window = crop_window(image, crop_box)
        counts: list[int] = []

        def cut(boxes: Array) -> tuple[Array, NDArray[np.bool_]]:
            cropped, kept = _cut_boxes(boxes, crop_box, window)
            counts.append(int(kept.sum()))
            return cropped, kept

        target = move_boxes(sample.target, cut)
        expects_boxes = isinstance(target, dict) or (isinstance(target, np.ndarray) and target.ndim > 1)
        if expects_boxes and min(counts, default=0) == 0:
            return sample
        mask = None if sample.mask is None else sample.mask[..., top:bottom, left:right]
        return Sample(image[..., top:bottom, left:right], mask, target)


def _interpolation_name(interpolation: Any) -> str:
    value = getattr(interpolation, "value", interpolation)
    for name, number in _INTERPOLATIONS.items():
        if value in (name, number) and value is not None:
            return name
    raise InvalidArgumentError(f"interpolation must be one of {', '.join(_INTERPOLATIONS)} (got {shown(value)}).")


def _draw_chance(probability: float) -> bool:
    return bool(torch.rand(1, device="cpu") < probability)


def _convert_to_floats(boxes: Array) -> np.dtype[Any]:
    return boxes.dtype if boxes.dtype.kind == "f" else np.dtype(np.float32)


def _refuse_text(sample: Sample, changed: str) -> None:
    if isinstance(sample.target, str):
        raise InvalidArgumentError(
            f"an image with a text must not be {changed}: the text {shown(sample.target)} would not be what it shows. "
            "Use this transform for boxes, or for images without a target."
        )


def _mirror_boxes(boxes: Array) -> tuple[Array, NDArray[np.bool_]]:
    mirrored = boxes.copy()
    if boxes.ndim == 2:
        mirrored[:, ::2] = 1 - boxes[:, [2, 0]]
    else:
        mirrored[..., 0] = 1 - boxes[..., 0]
    return mirrored, np.ones(len(boxes), bool)


def _cut_boxes(
    boxes: Array, crop_box: tuple[float, float, float, float], window: tuple[int, int, int, int]
) -> tuple[Array, NDArray[np.bool_]]:
    """Convert boxes to coordinates of a crop: ``crop_box`` if they are relative, otherwise ``window``. Clip them to it.

    Return all boxes, and a mask (N,) that is False for boxes outside of the crop.
    """
    relative = boxes.max() <= 1
    edges = np.array(crop_box, _convert_to_floats(boxes)) if relative else np.array(window)
    # Clip first: the difference of unsigned integers could wrap.
    cropped = boxes.reshape(len(boxes), -1, 2).clip(edges[:2], edges[2:]) - edges[:2]
    cropped = cropped / (edges[2:] - edges[:2]) if relative else cropped.astype(boxes.dtype)
    low, high = corners_of(cropped)
    return cropped.reshape(boxes.shape), np.all(low < high, axis=1)
