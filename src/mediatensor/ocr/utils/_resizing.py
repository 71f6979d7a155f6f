"""Pictures at another size, stretched or padded as docTR does: for transforms, and for the inputs of networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# Modes that take the area of a pixel that shrinks into account.
_SMOOTH = ("bilinear", "bicubic")


@dataclass(frozen=True)
class Letterbox:
    """How pictures of any size become pictures of one.

    Attributes:
        size: Height and width of the result.
        preserve_aspect_ratio: Scale both sides alike, and pad with zeros.
        symmetric_pad: Pad on all sides; else on the right and below.
    """

    size: tuple[int, int]
    preserve_aspect_ratio: bool
    symmetric_pad: bool

    def place(self, image: Tensor) -> tuple[int, int, int, int]:
        """Where the pixels of a picture go: top, left, height and width."""
        height, width = self.size
        if not self.preserve_aspect_ratio:
            return 0, 0, height, width
        scaled = fitting_size(image.shape[-2:], self.size)
        spare = (height - scaled[0], width - scaled[1])
        top, left = (math.ceil(spare[0] / 2), math.ceil(spare[1] / 2)) if self.symmetric_pad else (0, 0)
        return top, left, *scaled

    def fit(self, image: Tensor, mode: str = "bilinear") -> Tensor:
        """One picture, (C, H, W), at the size; see :func:`resized`."""
        top, left, height, width = self.place(image)
        below, right = self.size[0] - top - height, self.size[1] - left - width
        return F.pad(resized(image, (height, width), mode), (left, right, top, below))

    def padding_mask(self, image: Tensor) -> Tensor:
        """Where the picture is: bool (height, width), False where there is padding."""
        top, left, height, width = self.place(image)
        mask = torch.zeros(self.size, dtype=torch.bool, device=image.device)
        mask[top : top + height, left : left + width] = True
        return mask


def fitting_size(size: Sequence[int], target: tuple[int, int]) -> tuple[int, int]:
    """The greatest size of the same shape inside ``target``, each side at least one pixel."""
    height, width = size
    if height / width > target[0] / target[1]:
        return target[0], max(int(target[0] * width / height), 1)
    return max(int(target[1] * height / width), 1), target[1]


def resized(image: Tensor, size: tuple[int, int], mode: str = "bilinear") -> Tensor:
    """A picture (C, H, W) at another size.

    Args:
        image: Of any dtype.
        size: Height and width.
        mode: ``"bilinear"`` or ``"bicubic"``, with the area of a pixel that shrinks taken into account, ``"nearest"``
            or ``"nearest-exact"``.

    Returns:
        uint8, float32 and float64 as they are; other dtypes as float32, unless the size is right already.
    """
    if tuple(image.shape[1:]) == tuple(size):
        return image
    # Byte kernels exist on the CPU alone, and give anything for a width of one (PyTorch 2.14); elsewhere the arithmetic
    # is in floats, and rounded as theirs.
    exact = image.dtype == torch.uint8 and (image.device.type != "cpu" or size[1] == 1)
    has_kernel = image.dtype in (torch.float32, torch.float64, torch.uint8) and not exact
    source = image[None] if has_kernel else image[None].float()
    if mode in _SMOOTH:
        result = F.interpolate(source, size=size, mode=mode, align_corners=False, antialias=True)[0]
    else:
        result = F.interpolate(source, size=size, mode=mode)[0]
    return result.round_().clamp_(0, 255).to(torch.uint8) if exact else result
