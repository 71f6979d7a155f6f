"""Transforms of colour and light, combinations of transforms, and functions that check and change samples.

Transforms of colour and light keep the dtype of the image, and leave boxes, masks and texts unchanged. If the image is
not a tensor (C, H, W), they raise `InvalidArgumentError`.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...._engine.common.checks import finite_numbers, shown
from ....errors import InvalidArgumentError
from ...utils.common_types import Nested, Sample
from ..functional.base import blur_image, invert_colors, random_shadow

Array: TypeAlias = NDArray[Any]
# Function that takes N boxes or polygons. It returns all N after the change, and which of them to keep, bool (N,).
Change: TypeAlias = Callable[[Array], tuple[Array, NDArray[np.bool_]]]


def image_of(sample: Sample) -> Tensor:
    """Return the image of a sample. Raise `InvalidArgumentError` unless it is a non-empty tensor (..., C, H, W)."""
    image = sample.image
    if isinstance(image, Tensor) and image.ndim >= 3 and image.numel():
        return image
    raise InvalidArgumentError(f"the image of a sample must be a tensor (C, H, W) (got {shown(image)}).")


def range_of(name: str, limits: object) -> tuple[float, float]:
    """Return ``limits`` as a tuple. Raise an error about the argument ``name`` unless they are two finite numbers."""
    if isinstance(limits, tuple | list) and len(limits) == 2 and len(finite_numbers(limits)) == 2:
        return limits[0], limits[1]
    raise InvalidArgumentError(f"{name} must be two finite numbers (got {shown(limits)}).")


def move_boxes(target: Any, change: Change) -> Any:
    """Return the target of a sample after applying ``change`` to each array of boxes or polygons in it.

    Texts and class numbers stay unchanged. ``change`` can drop boxes. If it drops boxes in ``target["boxes"]``, the
    items of ``target["labels"]`` that belong to them are dropped too.

    Raises:
        InvalidArgumentError: The target is not of a type that `Sample` describes, or the shape of an array is neither
            (N, 4) nor (N, 4, 2).
    """
    if not isinstance(target, dict):
        if not _has_boxes(target, is_value=False):
            return target
        boxes, kept = change(target)
        return boxes[kept]
    changed = {name: change(value) for name, value in target.items() if _has_boxes(value, is_value=True)}
    moved = target | {name: boxes[kept] for name, (boxes, kept) in changed.items()}
    labels = moved.get("labels")
    if "boxes" in changed and "labels" not in changed and isinstance(labels, np.ndarray | list | tuple):
        indices = changed["boxes"][1].nonzero()[0]
        moved["labels"] = labels[indices] if isinstance(labels, np.ndarray) else [labels[index] for index in indices]
    return moved


def corners_of(boxes: Array) -> tuple[Array, Array]:
    """Return two arrays (N, 2): the smallest x and y of each box or polygon, and the largest x and y."""
    corners = boxes.reshape(len(boxes), -1, 2)
    return corners.min(axis=1), corners.max(axis=1)


def _has_boxes(value: object, *, is_value: bool) -> bool:
    """Return whether ``value``, a target or with ``is_value`` one value of a dict, is a non-empty array of boxes."""
    if isinstance(value, np.ndarray):
        if value.size == 0 or (value.ndim < 2 and (is_value or value.size == 1)):
            return False
        if value.shape[1:] in ((4,), (4, 2)):
            return True
        raise InvalidArgumentError(f"boxes must be of shape (N, 4), polygons (N, 4, 2) (got {value.shape}).")
    items = value if isinstance(value, list | tuple) and is_value else [value]
    if all(item is None or isinstance(item, str | int | np.integer) for item in items):
        return False
    raise InvalidArgumentError(
        "a target must be an array of boxes (N, 4) or polygons (N, 4, 2), a dict of these, a text, a class number or "
        f"None (got {shown(value)})."
    )


class ShowsArguments:
    """Base class whose ``repr`` shows the arguments of a transform. Each argument must be stored as an attribute."""

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in inspect.signature(type(self)).parameters)


class SampleCompose(Nested):
    """Apply transforms to a sample one after the other.

    Args:
        transforms: Callables that take a `Sample` and return a `Sample`.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from mediatensor.ocr.transforms import ColorInversion, RandomRotate, SampleCompose
        >>> from mediatensor.ocr.utils import Sample
        >>> transform = SampleCompose([ColorInversion(), RandomRotate(30)])
        >>> transformed = transform(Sample(torch.rand(3, 64, 64), target=np.array([[0.1, 0.1, 0.5, 0.2]])))
        >>> transformed.image.shape, transformed.target.shape
        (torch.Size([3, 64, 64]), (1, 4))
    """

    _children_names = ("sample_transforms",)

    def __init__(self, transforms: Sequence[Callable[[Sample], Sample]]) -> None:
        self.sample_transforms = transforms

    def __call__(self, sample: Sample) -> Sample:
        for transform in self.sample_transforms:
            sample = transform(sample)
        return sample


class ImageTransform(Nested):
    """Replace the image of a sample by the result of ``transform``. Mask and target stay unchanged.

    Args:
        transform: A callable that takes a `Sample` and returns the new image, or a `Sample` with the new image.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms import ColorInversion, ImageTransform
        >>> from mediatensor.ocr.utils import Sample
        >>> ImageTransform(lambda sample: 1 - sample.image)(Sample(torch.ones(3, 2, 2), target="Total")).image.sum()
        tensor(0.)
        >>> ImageTransform(ColorInversion())
        ImageTransform(
          (img_transform): ColorInversion(min_val=0.5)
        )
    """

    _children_names = ("img_transform",)

    def __init__(self, transform: Callable[[Sample], Any]) -> None:
        self.img_transform = transform

    def __call__(self, sample: Sample) -> Sample:
        changed = self.img_transform(sample)
        # Transforms of this package return samples, from which docTR would take the whole sample as the image.
        return sample.replace(image=changed.image if isinstance(changed, Sample) else changed)


class ImageTorchvisionTransform(Nested):
    """Apply a torchvision transform, or another function of an image, to the image of a sample.

    Mask and target stay unchanged.

    Args:
        transform: A callable that takes an image and returns an image. It does not have to come from torchvision.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms import ImageTorchvisionTransform
        >>> from mediatensor.ocr.utils import Sample
        >>> darker = ImageTorchvisionTransform(lambda image: image / 2)
        >>> darker(Sample(torch.ones(3, 2, 2), target="Total"))
        Sample(image=tensor([[[0.5000, 0.5000],
        ...
    """

    _children_names = ("img_transform",)

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self.img_transform = transform

    def __call__(self, sample: Sample) -> Sample:
        return sample.replace(image=self.img_transform(sample.image))


class OneOf(Nested):
    """Apply one transform, chosen at random from several with equal probability.

    Args:
        transforms: Callables that take a `Sample` and return a `Sample`.

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms import ChannelShuffle, GaussianNoise, OneOf
        >>> from mediatensor.ocr.utils import Sample
        >>> OneOf([ChannelShuffle(), GaussianNoise(std=0.1)])(Sample(torch.rand(3, 64, 64))).image.shape
        torch.Size([3, 64, 64])
    """

    _children_names = ("transforms",)

    def __init__(self, transforms: Sequence[Callable[[Sample], Sample]]) -> None:
        self.transforms = transforms

    def __call__(self, sample: Sample) -> Sample:
        return self.transforms[int(random.random() * len(self.transforms))](sample)


class RandomApply(ShowsArguments, Nested):
    """Apply a transform with probability ``p``; otherwise return the sample unchanged.

    Args:
        transform: A callable that takes a `Sample` and returns a `Sample`.
        p: Probability that the transform is applied, in [0, 1].

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms import ColorInversion, RandomApply
        >>> from mediatensor.ocr.utils import Sample
        >>> RandomApply(ColorInversion(), p=0.1)(Sample(torch.rand(3, 64, 64))).image.shape
        torch.Size([3, 64, 64])
    """

    def __init__(self, transform: Callable[[Sample], Sample], p: float = 0.5) -> None:
        self.transform = transform
        self.p = p

    def __call__(self, sample: Sample) -> Sample:
        return self.transform(sample) if random.random() < self.p else sample


class ColorInversion(ShowsArguments, Nested):
    """Make the image of a sample grey, tint it with a random colour, and invert it, so that white paper becomes dark.

    The result always has three channels, even for a grey image with one channel.

    Args:
        min_val: Smallest factor, in [0, 1]. The tint multiplies each channel by a random factor from ``min_val`` to 1.

    Raises:
        InvalidArgumentError: The image of a sample is not a tensor (..., 1 or 3, H, W).

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms import ColorInversion
        >>> from mediatensor.ocr.utils import Sample
        >>> inverted = ColorInversion(min_val=0.6)(Sample(torch.ones(3, 64, 64), target="Total"))
        >>> bool((inverted.image <= 0.4).all()), inverted.target
        (True, 'Total')
    """

    def __init__(self, min_val: float = 0.5) -> None:
        self.min_val = min_val

    def __call__(self, sample: Sample) -> Sample:
        return sample.replace(image=invert_colors(image_of(sample), self.min_val))


class GaussianNoise(ShowsArguments, nn.Module):
    """Add Gaussian noise, drawn independently for each pixel and channel, to the image of a sample.

    Args:
        mean: Mean of the noise, on a scale from black (0) to white (1).
        std: Standard deviation of the noise, on the same scale.

    Raises:
        InvalidArgumentError: The image of a sample is not a tensor (C, H, W).

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms import GaussianNoise
        >>> from mediatensor.ocr.utils import Sample
        >>> noisy = GaussianNoise(std=0.1)(Sample(torch.full((3, 64, 64), 128, dtype=torch.uint8))).image
        >>> noisy.dtype, abs(noisy.float().std() - 25.5).item() < 2
        (torch.uint8, True)
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0) -> None:
        super().__init__()
        self.std = std
        self.mean = mean

    def forward(self, sample: Sample) -> Sample:
        """Add noise to the image of ``sample``.

        Returns:
            A new `Sample`. Its image has the same dtype. Values are clipped to [0, 255] if it is an integer type, and
            to [0, 1] if it is a floating-point type.
        """
        image = image_of(sample)
        noise = self.mean + self.std * torch.randn(image.shape, device=image.device)
        if not image.dtype.is_floating_point:
            return sample.replace(image=_convert_floats(image + 255 * noise, image.dtype))
        return sample.replace(image=(image + noise.to(image.dtype)).clamp(0, 1))


class GaussianBlur(nn.Module):
    """Blur the image of a sample with a Gaussian whose standard deviation is drawn at random for each sample.

    Args:
        sigma: Smallest and largest standard deviation, in pixels. All channels get the same one.

    Raises:
        InvalidArgumentError: ``sigma`` is not two numbers in ascending order, one of them is negative, or the image of
            a sample is not a tensor (C, H, W).

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms import GaussianBlur
        >>> from mediatensor.ocr.utils import Sample
        >>> GaussianBlur(sigma=(0.5, 1.5))(Sample(torch.rand(3, 64, 64))).image.shape
        torch.Size([3, 64, 64])
    """

    def __init__(self, sigma: tuple[float, float]) -> None:
        super().__init__()
        self.sigma_range = range_of("sigma", sigma)
        if not 0 <= self.sigma_range[0] <= self.sigma_range[1]:
            raise InvalidArgumentError(f"sigma must be (least, greatest), both at least 0 (got {sigma}).")

    def forward(self, sample: Sample) -> Sample:
        """Return a new `Sample` with a blurred image of the same dtype. Mask and target are the same as before."""
        image = image_of(sample)
        sigma = torch.empty(1, device="cpu").uniform_(*self.sigma_range).item()
        return sample.replace(image=_convert_floats(blur_image(image, sigma), image.dtype))


class ChannelShuffle(nn.Module):
    """Shuffle the channels of the image of a sample randomly.

    Raises:
        InvalidArgumentError: The image of a sample is not a tensor (C, H, W).

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms import ChannelShuffle
        >>> from mediatensor.ocr.utils import Sample
        >>> image = torch.arange(3).reshape(3, 1, 1)
        >>> sorted(ChannelShuffle()(Sample(image)).image.flatten().tolist())
        [0, 1, 2]
    """

    def forward(self, sample: Sample) -> Sample:
        """Return a new `Sample` whose image channels have a random order. Mask and target are the same as before."""
        image = image_of(sample)
        order = torch.rand(image.shape[-3], device="cpu").argsort().to(image.device)
        return sample.replace(image=image.index_select(-3, order))


class RandomShadow(ShowsArguments, nn.Module):
    """Add a random shadow with a soft edge, which starts at one side, to the image of a sample.

    Args:
        opacity_range: Smallest and largest darkness, in [0, 1]; (0.2, 0.8) by default.

    Raises:
        InvalidArgumentError: ``opacity_range`` is not two numbers, or the image of a sample is not a tensor (C, H, W).

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms import RandomShadow
        >>> from mediatensor.ocr.utils import Sample
        >>> RandomShadow((0.2, 0.8))(Sample(torch.full((3, 48, 64), 255, dtype=torch.uint8))).image.dtype
        torch.uint8
    """

    def __init__(self, opacity_range: tuple[float, float] | None = None) -> None:
        super().__init__()
        self.opacity_range = (0.2, 0.8) if opacity_range is None else range_of("opacity_range", opacity_range)

    def forward(self, sample: Sample) -> Sample:
        """Return a new `Sample` with a shadow on the image. The dtype of the image stays the same."""
        image = image_of(sample)
        if not image.dtype.is_floating_point:
            return sample.replace(image=_convert_floats(random_shadow(image.float(), self.opacity_range), image.dtype))
        return sample.replace(image=random_shadow(image, self.opacity_range).clamp(0, 1))


def _convert_floats(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert float values to ``dtype``, the dtype of an image. For integer dtypes, round and clip them to [0, 255]."""
    return values.to(dtype) if dtype.is_floating_point else values.round().clamp(0, 255).to(dtype)
