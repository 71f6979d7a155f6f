"""From pages or crops of any size to batches for a network: resized, padded, normalised, on the device they are on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import InvalidArgumentError
from ...frames import FrameBatch
from ._pages import Image, as_image, as_images
from ._transfers import constant, upload_images

__all__ = ["FlexiblePreProcessor", "PageBatch", "Placement", "PreProcessor"]


MAX_ENLARGEMENT = 2.0
"""Pages are not enlarged by more: blurred edges of large letters, as in small frames of a video, mislead a detector."""


@dataclass(frozen=True)
class Placement:
    """Where the picture is in the input of a network: offsets and extents as fractions of the input."""

    left: float
    top: float
    width: float
    height: float

    def restore(self, boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Boxes relative to the input as boxes relative to the picture, limited to [0, 1].

        Args:
            boxes: (N, 4), (N, 5) with a score last, (N, 4, 2), or (N, 5, 2) with a score in the last row.

        Returns:
            The same shape.
        """
        restored = boxes.copy()
        corners = restored[:, :4].reshape(-1, 2, 2) if boxes.ndim == 2 else restored[:, :4]
        moved = (corners - (self.left, self.top)) / (self.width, self.height)
        restored[:, :4] = moved.clip(0, 1).reshape(restored[:, :4].shape)
        return restored


@dataclass(frozen=True)
class PageBatch:
    """Inputs of one size: data (N, 3, H, W), which images they are, and where each picture is in its input."""

    data: Tensor
    indices: list[int]
    placements: list[Placement]


def normalized(data: Tensor, mean: Sequence[float], std: Sequence[float], dtype: torch.dtype) -> Tensor:
    """uint8 in [0, 255] or floats in [0, 1], (N, 3, H, W), less the mean and by the deviation of each channel."""
    scale = 255.0 if data.dtype == torch.uint8 else 1.0
    shape = (1, len(mean), 1, 1)
    factor = constant(tuple(1 / (scale * value) for value in std), data.device).view(shape)
    offset = constant(tuple(-m / s for m, s in zip(mean, std, strict=True)), data.device).view(shape)
    return (data.float() * factor + offset).to(dtype)


class PreProcessor(nn.Module):
    """Images of any size to batches of one size, as docTR does it.

    Args:
        output_size: Height and width of the input of the network.
        batch_size: Images in a batch.
        mean: Of each channel, for values in [0, 1].
        std: Of each channel.
        preserve_aspect_ratio: Scale both sides alike, and pad with black.
        symmetric_pad: Pad on all sides; else on the right and below.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.models.preprocessor import PreProcessor
        >>> batches = PreProcessor((32, 128), batch_size=2)([np.zeros((16, 20, 3), np.uint8)] * 3)
        >>> [tuple(batch.shape) for batch in batches]
        [(2, 3, 32, 128), (1, 3, 32, 128)]
    """

    def __init__(
        self,
        output_size: tuple[int, int],
        batch_size: int,
        mean: Sequence[float] = (0.5, 0.5, 0.5),
        std: Sequence[float] = (1.0, 1.0, 1.0),
        preserve_aspect_ratio: bool = False,
        symmetric_pad: bool = False,
    ) -> None:
        super().__init__()
        self.output_size = tuple(output_size)
        self.batch_size = positive("batch_size", batch_size)
        self.mean, self.std = tuple(mean), tuple(std)
        self.preserve_aspect_ratio, self.symmetric_pad = preserve_aspect_ratio, symmetric_pad

    def extra_repr(self) -> str:
        """The size and how it is reached."""
        return f"output_size={self.output_size}, batch_size={self.batch_size}, mean={self.mean}, std={self.std}"

    def forward(self, x: Iterable[Image] | FrameBatch | Tensor | npt.NDArray[Any]) -> list[Tensor]:
        """All batches.

        Args:
            x: Images, see :func:`~mediatensor.ocr.models.ocr_predictor`; or one image.

        Returns:
            Float tensors (N, 3, H, W), N at most ``batch_size``.
        """
        images = [as_image(x)] if isinstance(x, Tensor | np.ndarray) and x.ndim == 3 else as_images(x)
        return [batch.data for batch in self.batches(images)]

    def batches(
        self, images: Sequence[Tensor], device: torch.device | None = None, dtype: torch.dtype = torch.float32
    ) -> Iterator[PageBatch]:
        """The same one by one, with what it takes to find the way back to the images."""
        for start in range(0, len(images), self.batch_size):
            chunk = images[start : start + self.batch_size]
            placed = [self._place(image) for image in (upload_images(chunk, device) if device else chunk)]
            data = normalized(torch.stack([image for image, _ in placed]), self.mean, self.std, dtype)
            yield PageBatch(data, list(range(start, start + len(chunk))), [placement for _, placement in placed])

    def _place(self, image: Tensor) -> tuple[Tensor, Placement]:
        height, width = self.output_size
        scaled = fitting_size(image.shape[1:], (height, width)) if self.preserve_aspect_ratio else (height, width)
        picture = resized(image, scaled)
        spare_height, spare_width = height - scaled[0], width - scaled[1]
        top, left = (math.ceil(spare_height / 2), math.ceil(spare_width / 2)) if self.symmetric_pad else (0, 0)
        padded = F.pad(picture, (left, spare_width - left, top, spare_height - top))
        return padded, Placement(left / width, top / height, scaled[1] / width, scaled[0] / height)


class FlexiblePreProcessor(nn.Module):
    """Pages to batches for a network that takes any size: scaled, and not padded.

    Args:
        shorter_side: The shorter side of a page has at least so many pixels, unless that doubles it...
        longer_side: ...unless the longer would have more than so many.
        batch_size: Pages of one size that go together, where they are not on the CPU.
        mean: Of each channel, for values in [0, 1].
        std: Of each channel.
        multiple: Both sides are rounded to multiples of this.

    Example:
        >>> from mediatensor.ocr.models.preprocessor import FlexiblePreProcessor
        >>> FlexiblePreProcessor(960, 2000, batch_size=2).size_for(1000, 754)
        (1280, 960)
    """

    def __init__(
        self,
        shorter_side: int,
        longer_side: int,
        batch_size: int,
        mean: Sequence[float] = (0.5, 0.5, 0.5),
        std: Sequence[float] = (1.0, 1.0, 1.0),
        multiple: int = 32,
    ) -> None:
        super().__init__()
        self.shorter_side, self.longer_side = (
            positive("shorter_side", shorter_side),
            positive("longer_side", longer_side),
        )
        self.batch_size = positive("batch_size", batch_size)
        self.mean, self.std, self.multiple = tuple(mean), tuple(std), multiple

    def extra_repr(self) -> str:
        """The sizes."""
        return f"shorter_side={self.shorter_side}, longer_side={self.longer_side}, batch_size={self.batch_size}"

    def size_for(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the input for a page of this size."""
        scale = min(max(1.0, self.shorter_side / min(height, width)), MAX_ENLARGEMENT)
        scale = min(scale, self.longer_side / max(height, width))
        return self._rounded(height * scale), self._rounded(width * scale)

    def batches(
        self, images: Sequence[Tensor], device: torch.device | None = None, dtype: torch.dtype = torch.float32
    ) -> Iterator[PageBatch]:
        """Batches of pages that share a size."""
        # A core gains nothing from batches, which only take memory.
        on_cpu = (device or torch.device("cpu")).type == "cpu"
        at_once = 1 if on_cpu else self.batch_size
        groups: dict[tuple[int, int], list[int]] = {}
        for index, image in enumerate(images):
            groups.setdefault(self.size_for(image.shape[1], image.shape[2]), []).append(index)
        for size, members in groups.items():
            for start in range(0, len(members), at_once):
                indices = members[start : start + at_once]
                chunk = [images[index] for index in indices]
                data = torch.stack(
                    [resized(page, size) for page in (upload_images(chunk, device) if device else chunk)]
                )
                whole = Placement(0, 0, 1, 1)
                yield PageBatch(normalized(data, self.mean, self.std, dtype), indices, [whole] * len(indices))

    def _rounded(self, length: float) -> int:
        return max(self.multiple, round(length / self.multiple) * self.multiple)


def fitting_size(size: Sequence[int], target: tuple[int, int]) -> tuple[int, int]:
    """The greatest size of the same shape inside ``target``, each side at least one pixel."""
    height, width = size
    if height / width > target[0] / target[1]:
        return target[0], max(int(target[0] * width / height), 1)
    return max(int(target[1] * height / width), 1), target[1]


def resized(image: Tensor, size: tuple[int, int]) -> Tensor:
    """(3, H, W) at another size, bilinear, with the area of a pixel that shrinks taken into account."""
    if tuple(image.shape[1:]) == tuple(size):
        return image
    # Byte kernels exist on the CPU alone; elsewhere the arithmetic is in floats, and rounded as theirs.
    exact = image.dtype == torch.uint8 and image.device.type != "cpu"
    source = image[None].float() if exact or image.dtype in (torch.float16, torch.bfloat16) else image[None]
    result = F.interpolate(source, size=size, mode="bilinear", align_corners=False, antialias=True)[0]
    return result.round_().clamp_(0, 255).to(torch.uint8) if exact else result


def positive(name: str, value: int) -> int:
    """The value, if it is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgumentError(f"{name}={value!r}: give an integer of at least 1.")
    return value
