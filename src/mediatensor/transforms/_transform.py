"""The base class of transforms, which apply the same parameters to all images of a sample."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeVar

import torch
from torch import Tensor, nn

from ..errors import InvalidArgumentError
from ..frames import Frame, FrameBatch

SampleT = TypeVar("SampleT")
P = ParamSpec("P")

IMAGE_DTYPES = frozenset({torch.uint8, torch.uint16, torch.float16, torch.bfloat16, torch.float32, torch.float64})
_ACCEPTED = (
    "a tensor (..., C, H, W) of dtype uint8, uint16 or float, a Frame, a FrameBatch, "
    "or a dict, list or tuple that holds at least one of these"
)


def map_images(sample: SampleT, function: Callable[[Tensor], Tensor]) -> SampleT:
    """Return a copy of ``sample`` in which ``function`` was applied to every image tensor (..., C, H, W).

    Other values are not changed.

    Raises:
        InvalidArgumentError: if the sample has no image, or an image is not channels-first.

    >>> import torch
    >>> map_images({"image": torch.ones(3, 2, 2), "label": 7}, torch.neg)["label"]
    7
    """
    found = False

    def apply(images: Tensor) -> Tensor:
        nonlocal found
        found = True
        _check_images(images)
        return function(images)

    mapped: SampleT = _map_leaves(sample, apply)
    if not found:
        raise InvalidArgumentError(f"Found no images to transform in {_describe(sample)}. Accepted: {_ACCEPTED}.")
    return mapped


def images_in(sample: object) -> list[Tensor]:
    found: list[Tensor] = []

    def keep(images: Tensor) -> Tensor:
        found.append(images)
        return images

    map_images(sample, keep)
    return found


class ImageFunction(Protocol[P]):
    """The type of functions that `over_images` decorates."""

    def __call__(self, images: SampleT, /, *args: P.args, **kwargs: P.kwargs) -> SampleT: ...


def over_images(function: Callable[Concatenate[Tensor, P], Tensor]) -> ImageFunction[P]:
    """Decorate a function of an image tensor (..., C, H, W) so that it accepts everything that `map_images` accepts."""

    @functools.wraps(function)
    def over_sample(images: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        return map_images(images, lambda tensor: function(tensor, *args, **kwargs))

    return over_sample  # type: ignore[return-value]  # a protocol cannot express that the tensor may be passed by name


def common_size(images: Sequence[Tensor]) -> tuple[int, int]:
    """Return the common (height, width) of all images. Raise `InvalidArgumentError` if they have different sizes.

    >>> import torch
    >>> common_size([torch.zeros(3, 4, 6), torch.zeros(2, 3, 4, 6)])
    (4, 6)
    """
    sizes = {(int(image.shape[-2]), int(image.shape[-1])) for image in images}
    if len(sizes) > 1:
        raise InvalidArgumentError(
            "The images of one sample share a random window, so all must have the same (height, width) (got "
            f"{sorted(sizes)}). Resize them first, or transform them one by one."
        )
    return sizes.pop()


def common_clip_count(images: Sequence[Tensor]) -> int:
    """Return the number of clips in each image tensor: the product of its dimensions before the last four.

    Raises:
        InvalidArgumentError: if the tensors have different numbers of clips.

    >>> import torch
    >>> common_clip_count([torch.zeros(5, 8, 3, 4, 6), torch.zeros(5, 1, 1, 4, 6)])
    5
    """
    counts = {math.prod(image.shape[:-4]) for image in images}
    if len(counts) > 1:
        raise InvalidArgumentError(
            "The images of one sample share the random numbers of each clip, so all must have the same number of clips "
            f"(got {sorted(counts)}; shapes {[tuple(image.shape) for image in images]}). A tensor of up to 4 "
            "dimensions is one clip; several clips have the shape (clips, frames, C, H, W)."
        )
    return counts.pop()


def _map_leaves(sample: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(sample, Frame | FrameBatch):
        return dataclasses.replace(sample, data=function(sample.data))
    if isinstance(sample, Tensor):
        # Labels, times and boxes have fewer dimensions; token ids and class maps have other integer dtypes.
        return function(sample) if sample.ndim >= 3 and sample.dtype in IMAGE_DTYPES else sample
    if isinstance(sample, dict):
        mapped = copy.copy(sample)  # keeps attributes of a subclass, such as a default factory
        mapped.update((key, _map_leaves(value, function)) for key, value in sample.items())
        return mapped
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return type(sample)(*(_map_leaves(item, function) for item in sample))
    if isinstance(sample, list | tuple):
        return type(sample)(_map_leaves(item, function) for item in sample)
    return sample


def is_channels_last(shape: Sequence[int]) -> bool:
    """Return whether images of this shape are (..., H, W, C), to judge by the number of channels.

    >>> is_channels_last((8, 480, 640, 3)), is_channels_last((8, 3, 480, 640)), is_channels_last((3, 3, 3))
    (True, False, False)
    """
    return shape[-1] <= 4 < shape[-3]


def _check_images(images: Tensor) -> None:
    shape = tuple(images.shape)
    if images.dtype not in IMAGE_DTYPES:
        raise InvalidArgumentError(f"Images must be uint8, uint16 or float (got {images.dtype} of shape {shape}).")
    if 0 in shape[-3:]:
        raise InvalidArgumentError(f"Images must have at least one channel, row and column (got shape {shape}).")
    if is_channels_last(shape):
        raise InvalidArgumentError(
            f"Images must be channels-first, (..., C, H, W), but shape {shape} looks channels-last. "
            "Decode with dimension_order='NCHW', or call .movedim(-1, -3) on the tensor."
        )


def _describe(sample: object) -> str:
    if isinstance(sample, Tensor):
        return f"a tensor of shape {tuple(sample.shape)} and dtype {sample.dtype}"
    return f"an object of type {type(sample).__name__}"


class Transform(nn.Module, ABC):
    """Base class of transforms of images, clips and nested samples.

    A call accepts a tensor (..., C, H, W) of dtype uint8, uint16 or float, a `Frame`, a `FrameBatch`, or a dict, list
    or tuple of these. It returns the same structure with every image transformed. Everything else is unchanged: times
    of frames, numbers, strings, and tensors that have fewer than 3 dimensions or another integer dtype. Images must be
    channels-first. Channels-last input (NHWC) raises an error if its shape shows this.

    **Random numbers are drawn once for each clip.** All images of a sample use the same numbers::

        shape                    draws
        (C, H, W)                1   an image
        (N, C, H, W)             1   a clip of N frames
        (B, N, C, H, W)          B   B clips of N frames

    All random numbers come from torch's global CPU generator, so ``torch.manual_seed`` makes a run reproducible.

    To write a transform, implement `transform` and, if it needs parameters, `make_params`.

    Attributes:
        is_random: Whether `make_params` draws random numbers. If true, it is called once for each clip, and all image
            tensors of the sample use its result, so they must have the same number of clips. If false, it is called
            separately for each image tensor.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import Transform
        >>> class Negative(Transform):
        ...     def transform(self, images, params):
        ...         return 255 - images
        >>> Negative()(torch.zeros(2, 3, 24, 32, dtype=torch.uint8))[0, 0, 0, :3]
        tensor([255, 255, 255], dtype=torch.uint8)
    """

    is_random: ClassVar[bool] = False
    #: Names of the attributes that ``repr`` shows.
    _shown: ClassVar[tuple[str, ...]] = ()

    def make_params(self, images: Sequence[Tensor]) -> Any:
        """Draw or compute the parameters that `transform` gets. The default implementation returns None.

        Args:
            images: The image tensors that will be transformed with these parameters; at least one.
        """
        return None

    @abstractmethod
    def transform(self, images: Tensor, params: Any) -> Tensor:
        """Return the transformed images, a tensor (..., C, height, width).

        Args:
            images: Tensor (..., C, H, W).
            params: The result of `make_params` for these images.
        """

    def forward(self, sample: SampleT) -> SampleT:
        """Transform all images of a sample.

        Args:
            sample: A tensor (..., C, H, W), a `Frame`, a `FrameBatch`, or a dict, list or tuple of these.

        Returns:
            The same structure with every image transformed; everything else is unchanged.

        Raises:
            InvalidArgumentError: if the sample has no images, or the transform does not accept them.
        """
        if not self.is_random:
            return map_images(sample, lambda images: self.transform(images, self.make_params([images])))
        images = images_in(sample)
        # Draw once even for an empty batch, because the parameters determine the shape of the result.
        draws = [self.make_params(images) for _ in range(max(1, common_clip_count(images)))]
        return map_images(sample, lambda images: self._transform_clips(images, draws))

    def _transform_clips(self, images: Tensor, draws: list[Any]) -> Tensor:
        if len(draws) == 1:
            return self.transform(images, draws[0])
        clips = images.flatten(0, -5)  # (clips, frames, C, H, W)
        transformed = torch.stack([self.transform(clip, params) for clip, params in zip(clips, draws, strict=True)])
        return transformed.reshape(*images.shape[:-4], *transformed.shape[1:])

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
