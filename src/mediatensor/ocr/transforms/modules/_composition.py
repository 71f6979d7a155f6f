"""Compositions of transforms: in sequence, one of several, with a probability, or only on the image."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from ...utils.common_types import Nested, Sample


class SampleCompose(Nested):
    """Apply transforms one after the other.

    Args:
        transforms: Callables that take a sample and return a sample.

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
    """Apply a transform that changes only the image. Mask and target stay unchanged.

    Args:
        transform: A callable that takes a sample and returns the new image, or a sample with the new image.

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
        # The transforms of this package return samples. docTR would use the whole sample as the image.
        return sample.replace(image=changed.image if isinstance(changed, Sample) else changed)


class ImageTorchvisionTransform(Nested):
    """Apply an image transform, such as a torchvision transform, to the image of a sample. torchvision is optional.

    Args:
        transform: A callable that takes an image and returns an image.

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
    """Apply one of several transforms, each with the same probability.

    Args:
        transforms: Callables that take a sample and return a sample.

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


class RandomApply(Nested):
    """Apply a transform with a probability. Otherwise, return the sample unchanged.

    Args:
        transform: A callable that takes a sample and returns a sample.
        p: Probability, in [0, 1].

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

    def extra_repr(self) -> str:
        """Return the transform and its probability."""
        return f"transform={self.transform}, p={self.p}"

    def __call__(self, sample: Sample) -> Sample:
        return self.transform(sample) if random.random() < self.p else sample
