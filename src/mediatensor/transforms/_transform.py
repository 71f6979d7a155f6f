"""The base of all transforms: parameters are drawn once, then every image of the sample is transformed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from ._samples import common_clip_count, images_in, map_images

SampleT = TypeVar("SampleT")


class Transform(nn.Module, ABC):
    """A transform of images and clips, whatever they are nested in.

    Called with a tensor (..., C, H, W) of dtype uint8, uint16 or float, a `Frame`, a `FrameBatch`, or a dict, list or
    tuple of these, it returns the same structure with every image transformed. Leaves that are not images (tensors
    of fewer than 3 dimensions or of another integer dtype, numbers, strings) pass through unchanged; the times of
    frames are kept. Images are channels-first: NHWC is not supported, and refused where the shape tells.

    **One random draw a clip.** The images of one sample belong together and share the draw::

        shape                    draws
        (C, H, W)                1   an image
        (N, C, H, W)             1   a clip of N frames: all treated alike
        (B, N, C, H, W)          B   B clips of N frames: each has its own

    All random numbers come from torch's global CPU generator: ``torch.manual_seed`` is all it takes to repeat a run.

    To write one, implement `transform` and, if it has parameters to draw or compute, `make_params`.

    Attributes:
        is_random: Whether `make_params` draws random numbers. If so all images of a sample share the result, and so
            must hold the same number of clips; if not it is called for each image on its own.

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

    def make_params(self, images: Sequence[Tensor]) -> Any:
        """What `transform` needs to know, drawn or computed once.

        Args:
            images: The image tensors that will be transformed with the result; at least one.
        """
        return None

    @abstractmethod
    def transform(self, images: Tensor, params: Any) -> Tensor:
        """The transformed images.

        Args:
            images: Tensor (..., C, H, W).
            params: What `make_params` returned.
        """

    def forward(self, sample: SampleT) -> SampleT:
        """The sample with all its images transformed.

        Raises:
            InvalidArgumentError: if the sample holds no images, or they do not suit the transform.
        """
        if not self.is_random:
            return map_images(sample, lambda images: self.transform(images, self.make_params([images])))
        images = images_in(sample)
        # A batch of no clips still needs one draw: the shape of its result depends on it.
        draws = [self.make_params(images) for _ in range(max(1, common_clip_count(images)))]
        return map_images(sample, lambda images: self._transform_clips(images, draws))

    def _transform_clips(self, images: Tensor, draws: list[Any]) -> Tensor:
        if len(draws) == 1:
            return self.transform(images, draws[0])
        clips = images.flatten(0, -5)  # (clips, frames, C, H, W)
        transformed = torch.stack([self.transform(clip, params) for clip, params in zip(clips, draws, strict=True)])
        return transformed.reshape(*images.shape[:-4], *transformed.shape[1:])
