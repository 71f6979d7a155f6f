"""Functions that transform images without drawing random numbers.

The first argument of every function is a tensor (..., C, H, W) of dtype uint8, uint16 or float, a `Frame`, a
`FrameBatch`, or nested dicts, lists and tuples of these. The result has the same structure. Everything else is
unchanged: times of frames, numbers, strings, and tensors that have fewer than 3 dimensions or another integer dtype.
Images must be channels-first. Input that looks channels-last raises an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from .._engine.common.checks import finite_numbers, is_integer, shown, whole_number
from .._engine.common.devices import on_device
from .._engine.common.pictures import MAX_FRAME_PIXELS, CropStep
from ..errors import InvalidArgumentError
from ._transform import over_images

__all__ = [
    "center_crop",
    "crop",
    "horizontal_flip",
    "normalize",
    "pad",
    "resize",
    "resized_crop",
    "to_float",
]

# FFmpeg adds this to the width and to the height before it compares the size of a frame with its limit.
_MARGIN = 128


@over_images
def resize(images: Tensor, size: Sequence[int]) -> Tensor:
    """Resize images to ``size``, bilinearly and with antialiasing.

    Integer results are rounded to the nearest integer, and differ from Pillow's ``BILINEAR`` by no more than 1.
    `DecoderTransform` describes how they differ from a `Resize` in a decoder.

    Args:
        images: Tensor (..., C, H, W), `Frame`, `FrameBatch`, or nested dicts, lists and tuples of these.
        size: (height, width) of the result.

    Returns:
        The same structure as ``images``, with tensors (..., C, height, width) of the same dtype. A tensor that already
        has this size is returned as it is.

    Raises:
        InvalidArgumentError: if ``size`` is not a pair of positive ints, or (height + 128) * (width + 128) is not less
            than 2**28, FFmpeg's limit.

    Example:
        >>> import torch
        >>> from mediatensor.transforms.functional import resize
        >>> resize(torch.tensor([[[0, 0, 200, 200]]], dtype=torch.uint8), (1, 2))
        tensor([[[ 29, 171]]], dtype=torch.uint8)
    """
    height, width = check_size("Resize", size)
    if images.shape[-2:] == (height, width):
        return images
    check_result_size(height, width)
    flat = images.reshape(-1, *images.shape[-3:])
    return _interpolate(flat, height, width).reshape(*images.shape[:-2], height, width)


def _interpolate(images: Tensor, height: int, width: int) -> Tensor:
    """Resize images (N, C, H, W). If torch's ``interpolate`` does not support their dtype, compute in float32."""
    # torch (2.13) scales to a single column incorrectly for every dtype. Scaling to a single row is correct.
    if width == 1 < height:
        return _interpolate(images.mT, 1, height).mT
    dtype = images.dtype
    # On the CPU, uint8 has its own kernel with rounding, which is 10 to 20 times faster and equal within one level. It
    # misinterprets the memory layout of images that are one pixel high or wide.
    is_thin = min(*images.shape[-2:], height, width) == 1
    has_uint8_kernel = dtype == torch.uint8 and images.device.type == "cpu" and not is_thin
    is_native = dtype in (torch.float32, torch.float64) or has_uint8_kernel
    scaled = interpolate(
        images if is_native else images.to(torch.float32),
        size=(height, width),
        mode="bilinear",
        align_corners=False,
        antialias=True,
    )
    if not is_native and not dtype.is_floating_point:
        scaled = scaled.round_().clamp_(0, torch.iinfo(dtype).max)
    return scaled.to(dtype)


@over_images
def crop(images: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """Crop images to a window.

    Args:
        images: Tensor (..., C, H, W), `Frame`, `FrameBatch`, or nested dicts, lists and tuples of these.
        top: First row of the window.
        left: First column of the window.
        height: Number of rows of the window.
        width: Number of columns of the window.

    Returns:
        The same structure as ``images``, with tensors (..., C, height, width), which are views of the given tensors.

    Raises:
        InvalidArgumentError: if the window is not inside the images.

    Example:
        >>> import torch
        >>> from mediatensor.transforms.functional import crop
        >>> crop(torch.arange(12.0).view(1, 3, 4), 1, 2, 2, 2)
        tensor([[[ 6.,  7.],
                 [10., 11.]]])
    """
    check_window(CropStep(top, left, height, width), images.shape[-2], images.shape[-1])
    return images[..., top : top + height, left : left + width]


@over_images
def center_crop(images: Tensor, size: Sequence[int]) -> Tensor:
    """Crop images to a window of ``size`` at their centre.

    If the top or left edge of the window would not be a whole number, it is rounded (half to even).

    Args:
        images: Tensor (..., C, H, W), `Frame`, `FrameBatch`, or nested dicts, lists and tuples of these.
        size: (height, width) of the result.

    Returns:
        The same structure as ``images``, with tensors (..., C, height, width), which are views of the given tensors.

    Raises:
        InvalidArgumentError: if ``size`` is not a pair of positive ints, or larger than the images.

    Example:
        >>> import torch
        >>> from mediatensor.transforms.functional import center_crop
        >>> center_crop(torch.arange(5.0).view(1, 1, 5), (1, 2))  # (5 - 2) / 2 = 1.5 -> column 2
        tensor([[[2., 3.]]])
    """
    window = center_window(images.shape[-2], images.shape[-1], check_size("CenterCrop", size))
    return crop(images, window.top, window.left, window.height, window.width)


@over_images
def resized_crop(images: Tensor, top: int, left: int, height: int, width: int, size: Sequence[int]) -> Tensor:
    """Crop images to a window and resize the result: `crop`, followed by `resize`.

    Args:
        images, top, left, height, width: As in `crop`.
        size: (height, width) of the result.

    Returns:
        The same structure as ``images``, with tensors (..., C, size[0], size[1]) of the same dtype.

    Raises:
        InvalidArgumentError: if the window is not inside the images, or ``size`` is not a pair of positive ints.

    Example:
        >>> import torch
        >>> from mediatensor.transforms.functional import resized_crop
        >>> resized_crop(torch.ones(3, 8, 8), 2, 2, 4, 4, (6, 5)).shape
        torch.Size([3, 6, 5])
    """
    return resize(crop(images, top, left, height, width), size)


@over_images
def pad(images: Tensor, padding: int | Sequence[int], fill: float | Sequence[float] = 0) -> Tensor:
    """Add a border of one colour around images.

    Args:
        images: Tensor (..., C, H, W), `Frame`, `FrameBatch`, or nested dicts, lists and tuples of these.
        padding: Number of pixels on every side, or (left and right, top and bottom), or (left, top, right, bottom).
        fill: Value of the border: one number, or one for each channel, in the value range of the images (0 to 255 for
            uint8, 0 to 1 after `to_float`).

    Returns:
        The same structure as ``images``, with tensors (..., C, top + H + bottom, left + W + right) of the same dtype.

    Raises:
        InvalidArgumentError: if ``padding`` is negative or does not have one of these forms; if the result exceeds the
            limit that `resize` states; if ``fill`` has a wrong number of values; or if the dtype of the images cannot
            represent a value of ``fill``.

    Example:
        >>> import torch
        >>> from mediatensor.transforms.functional import pad
        >>> pad(torch.ones(1, 1, 2), (1, 0), fill=0.5)
        tensor([[[0.5000, 1.0000, 1.0000, 0.5000]]])
    """
    left, top, right, bottom = check_padding(padding)
    height, width = images.shape[-2:]
    check_result_size(top + height + bottom, left + width + right)
    colour = check_fill(fill)
    check_fill_fits(colour, images.shape[-3], images.dtype)
    padded = images.new_empty(*images.shape[:-2], top + height + bottom, left + width + right)
    padded[:] = _channel_values(colour, images)
    padded[..., top : top + height, left : left + width] = images
    return padded


def _channel_values(values: tuple[float, ...], images: Tensor) -> Tensor:
    """Return ``values``, one for each channel, as a tensor (C, 1, 1) of the dtype and on the device of the images."""
    tensor = torch.tensor(values, dtype=torch.float64, device="cpu").to(images.dtype)
    return on_device(tensor.view(-1, 1, 1), images.device)


@over_images
def horizontal_flip(images: Tensor) -> Tensor:
    """Mirror images left to right.

    Args:
        images: Tensor (..., C, H, W), `Frame`, `FrameBatch`, or nested dicts, lists and tuples of these.

    Returns:
        The same structure as ``images``, with tensors of the same shape and dtype.

    Example:
        >>> import torch
        >>> from mediatensor.transforms.functional import horizontal_flip
        >>> horizontal_flip(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[3., 2., 1.]]])
    """
    if images.dtype == torch.uint16:  # torch cannot flip uint16; int16 has the same bits
        return images.view(torch.int16).flip(-1).view(torch.uint16)
    return images.flip(-1)


@over_images
def normalize(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Subtract a mean from each channel and divide by a standard deviation.

    Args:
        images: Float tensor (..., C, H, W), `Frame`, `FrameBatch`, or nested dicts, lists and tuples of these.
        mean: One number for each channel, in the value range of the images (0 to 1 after `to_float`).
        std: One number above 0 for each channel.

    Returns:
        The same structure as ``images``, with tensors of the same shape and dtype.

    Raises:
        InvalidArgumentError: if the images are not float, ``mean`` or ``std`` does not have one number for each
            channel, a value is not finite, or ``std`` is not positive.

    Example:
        >>> import torch
        >>> from mediatensor.transforms.functional import normalize
        >>> normalize(torch.tensor([0.25, 0.75]).view(2, 1, 1), mean=(0.5, 0.5), std=(0.25, 0.5)).flatten()
        tensor([-1.0000,  0.5000])
    """
    mean, std = check_statistics(mean, std)
    if not images.is_floating_point():
        raise InvalidArgumentError(f"normalize needs float images (got {images.dtype}). Convert them with ToFloat.")
    if images.shape[-3] != len(mean):
        raise InvalidArgumentError(
            f"normalize has {len(mean)} means but the images have {images.shape[-3]} channels "
            f"(shape {tuple(images.shape)}). Pass one mean and one std for each channel."
        )
    return (images - _channel_values(mean, images)).div_(_channel_values(std, images))


@over_images
def to_float(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Convert images to a float dtype. Integer values are scaled to [0, 1].

    Args:
        images: Tensor (..., C, H, W), `Frame`, `FrameBatch`, or nested dicts, lists and tuples of these.
        dtype: Float dtype of the result.

    Returns:
        The same structure as ``images``, with tensors of the same shape and of ``dtype``. uint8 values are divided by
        255 and uint16 values by 65535. Float values are not scaled.

    Raises:
        InvalidArgumentError: if ``dtype`` is not a float dtype.

    Example:
        >>> import torch
        >>> from mediatensor.transforms.functional import to_float
        >>> to_float(torch.tensor([[[0, 51, 255]]], dtype=torch.uint8))
        tensor([[[0.0000, 0.2000, 1.0000]]])
    """
    check_float_dtype(dtype)
    if images.is_floating_point():
        return images.to(dtype)
    # Divide in at least float32, because half types cannot represent 65535.
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return images.to(wide).div_(torch.iinfo(images.dtype).max).to(dtype)


# Checks that several transforms share


def check_fill(fill: object) -> tuple[float, ...]:
    values = finite_numbers(fill) or finite_numbers((fill,))
    if not values:
        raise InvalidArgumentError(f"fill must be a finite number, or one for each channel (got {fill!r}).")
    return values


def check_fill_fits(fill: tuple[float, ...], channels: int, dtype: torch.dtype, highest: float | None = None) -> None:
    """Raise `InvalidArgumentError` if images of this ``dtype`` with these ``channels`` cannot have the colour ``fill``.

    ``highest`` is the largest value that the images can have. By default, it is the largest value of an integer
    ``dtype``, and the values of float images are not limited.
    """
    if len(fill) not in (1, channels):
        raise InvalidArgumentError(f"fill must have 1 value or one for each of {channels} channels (got {fill!r}).")
    if highest is None:
        if dtype.is_floating_point:
            return
        highest = torch.iinfo(dtype).max
    is_whole = not dtype.is_floating_point
    if not all(0 <= value <= highest and (value.is_integer() or not is_whole) for value in fill):
        kind = "whole numbers" if is_whole else "numbers"
        raise InvalidArgumentError(f"fill of {dtype} images must be {kind} from 0 to {highest:g} (got {fill!r}).")


def check_statistics(mean: object, std: object) -> tuple[tuple[float, ...], tuple[float, ...]]:
    means, deviations = finite_numbers(mean), finite_numbers(std)
    if not means or len(means) != len(deviations) or min(deviations) <= 0:
        raise InvalidArgumentError(
            "mean and std must each be a sequence of one finite number for each channel, std above 0 "
            f"(got mean={mean!r}, std={std!r})."
        )
    return means, deviations


def check_float_dtype(dtype: object) -> torch.dtype:
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point:
        return dtype
    raise InvalidArgumentError(f"dtype must be a float dtype such as torch.float32 (got {dtype!r}).")


def check_size(owner: str, size: object) -> tuple[int, int]:
    lengths = size.tolist() if isinstance(size, np.ndarray) else size
    if (
        isinstance(lengths, Sequence)
        and len(lengths) == 2
        and all(is_integer(length) and length >= 1 for length in lengths)
    ):
        return int(lengths[0]), int(lengths[1])
    raise InvalidArgumentError(
        f"{owner} transform must have a (height, width) pair for the size, two whole numbers of at least 1 "
        f"(got {size!r})."
    )


def check_padding(padding: object) -> tuple[int, int, int, int]:
    """Check the argument ``padding``, and return it as (left, top, right, bottom).

    >>> check_padding((1, 2))
    (1, 2, 1, 2)
    """
    sides = tuple(padding) if isinstance(padding, Sequence) else (padding,) * 4
    if len(sides) in (2, 4) and all(is_integer(side) and side >= 0 for side in sides):
        left, top, right, bottom = (int(side) for side in sides * (4 // len(sides)))
        return left, top, right, bottom
    raise InvalidArgumentError(
        "padding must be a whole number of at least 0, a pair of them (left and right, top and bottom) or four "
        f"(left, top, right, bottom) (got {padding!r})."
    )


def check_window(window: CropStep, height: int, width: int) -> None:
    """Raise `InvalidArgumentError` if a window is not inside an image of this height and width."""
    spans = ((window.top, window.height, height), (window.left, window.width, width))
    for start, length, limit in spans:
        if not (is_integer(start) and is_integer(length) and 0 <= start < start + length <= limit):
            raise InvalidArgumentError(f"{window!r} is not inside an image of (height, width) ({height}, {width}).")


def check_result_size(height: int, width: int) -> None:
    """Raise `InvalidArgumentError` if images of this size exceed FFmpeg's limit, which decoders have as well."""
    if (height + _MARGIN) * (width + _MARGIN) >= MAX_FRAME_PIXELS:
        raise InvalidArgumentError(
            f"Frames of {width}x{height} pixels are too large: (width + {_MARGIN}) * (height + {_MARGIN}) must be less "
            f"than {MAX_FRAME_PIXELS}."
        )


def check_crop_fits(height: int, width: int, size: tuple[int, int]) -> None:
    if height < size[0] or width < size[1]:
        raise InvalidArgumentError(
            f"Input dimensions ({height}, {width}) are smaller than the crop size {size}. "
            "Use Resize or Pad before cropping, or ask for a smaller crop."
        )


def center_window(height: int, width: int, size: tuple[int, int]) -> CropStep:
    """Return a window of ``size`` at the centre of an image.

    If an edge would not be a whole number, it is rounded (half to even), as in torchvision.

    >>> center_window(7, 9, (4, 4))  # (7 - 4) / 2 = 1.5 -> 2, (9 - 4) / 2 = 2.5 -> 2
    CropStep(top=2, left=2, height=4, width=4)
    """
    check_crop_fits(height, width, size)
    return CropStep(round((height - size[0]) / 2.0), round((width - size[1]) / 2.0), *size)


class FixedSize(NamedTuple):
    """The same size for every image."""

    size: tuple[int, int]

    def apply(self, height: int, width: int) -> tuple[int, int]:
        return self.size


class SizeBySides(NamedTuple):
    """torchvision's rule: keep the aspect ratio of the image, and set the length of its shorter or longer side.

    >>> SizeBySides(short_side=256, long_side=None).apply(360, 640)
    (256, 455)
    """

    short_side: int | None
    long_side: int | None

    def apply(self, height: int, width: int) -> tuple[int, int]:
        short, long = sorted((height, width))
        if self.short_side is not None:
            new_short, new_long = self.short_side, int(self.short_side * long / short)
            if self.long_side is not None and new_long > self.long_side:
                new_short, new_long = int(self.long_side * new_short / new_long), self.long_side
        else:
            assert self.long_side is not None
            new_short, new_long = int(self.long_side * short / long), self.long_side
        new_short = max(1, new_short)
        return (new_long, new_short) if width <= height else (new_short, new_long)


class SizeByPixels(NamedTuple):
    """Qwen-VL's rule: nearly keep the aspect ratio, limit the number of pixels, and round the sides to multiples.

    >>> SizeByPixels(max_pixels=128 * 28 * 28, min_pixels=None, multiple_of=28).apply(360, 640)
    (224, 420)
    """

    max_pixels: int | None
    min_pixels: int | None
    multiple_of: int | None

    def apply(self, height: int, width: int) -> tuple[int, int]:
        unit = self.multiple_of or 1
        rows, columns = (max(1, round(side / unit)) for side in (height, width))
        num_pixels = rows * unit * columns * unit
        if self.max_pixels is not None and num_pixels > self.max_pixels:
            shrink = math.sqrt(height * width / self.max_pixels)
            rows, columns = (max(1, math.floor(side / shrink / unit)) for side in (height, width))
        elif self.min_pixels is not None and num_pixels < self.min_pixels:
            grow = math.sqrt(self.min_pixels / (height * width))
            rows, columns = (math.ceil(side * grow / unit) for side in (height, width))
        return rows * unit, columns * unit


SizeRule: TypeAlias = FixedSize | SizeBySides | SizeByPixels


def size_rule(size: object, sides: Mapping[str, object], pixels: Mapping[str, object]) -> SizeRule:
    """Check the arguments of `Resize`, grouped by the rule to which they belong, and return the rule."""
    groups = [{"size": size}, sides, pixels]
    given = [{name: value for name, value in group.items() if value is not None} for group in groups]
    if sum(map(bool, given)) > 1:
        names = ", ".join(f"{name}={shown(value)}" for group in given for name, value in group.items())
        raise InvalidArgumentError(
            f"Resize accepts either size, or short_side and long_side, or {', '.join(pixels)} (got {names})."
        )
    if given[1]:
        return _check_sides(SizeBySides(**_whole_numbers(sides)))
    if given[2]:
        return _check_pixels(SizeByPixels(**_whole_numbers(pixels)))
    try:
        return FixedSize(check_size("Resize", size))
    except InvalidArgumentError as error:
        names = ", ".join((*sides, *pixels))
        raise InvalidArgumentError(f"{error} To keep the aspect ratio, pass one of {names} instead.") from None


def _whole_numbers(values: Mapping[str, object]) -> dict[str, int | None]:
    return {
        name: None if value is None else whole_number(name, value, at_least=1, or_none=True)
        for name, value in values.items()
    }


def _check_sides(rule: SizeBySides) -> SizeBySides:
    if rule.short_side is not None and rule.long_side is not None and rule.long_side <= rule.short_side:
        raise InvalidArgumentError(
            f"long_side ({rule.long_side}) must be greater than short_side ({rule.short_side}). Pass only one of them, "
            "or size=(height, width) for a fixed size."
        )
    return rule


def _check_pixels(rule: SizeByPixels) -> SizeByPixels:
    if rule.max_pixels is None:
        return rule
    if rule.min_pixels is not None and rule.min_pixels > rule.max_pixels:
        raise InvalidArgumentError(
            f"min_pixels ({rule.min_pixels}) must be at most max_pixels ({rule.max_pixels}). Lower min_pixels, or "
            "raise max_pixels."
        )
    if rule.multiple_of is not None and rule.multiple_of**2 > rule.max_pixels:
        raise InvalidArgumentError(
            f"max_pixels ({rule.max_pixels}) must be at least {rule.multiple_of} x {rule.multiple_of} = "
            f"{rule.multiple_of**2}, because both sides are at least multiple_of. Raise max_pixels, or lower "
            "multiple_of."
        )
    return rule
