"""Transforms of decoded frames: what training needs beyond crops and resizes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from . import functional
from ._geometry import check_padding
from ._transform import Transform
from .functional import check_fill, check_float_dtype, check_statistics


class Pad(Transform):
    """Add a border of one colour.

    Args:
        padding: Pixels on every side, or (left and right, top and bottom), or (left, top, right, bottom).
        fill: Value of the border: one number, or one for each channel. On the scale of the images: 0 to 255 for
            uint8, 0 to 1 after `ToFloat`.

    Raises:
        InvalidArgumentError: if ``padding`` is negative or of another form, or ``fill`` is not finite.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import Pad
        >>> Pad((2, 1))(torch.zeros(8, 3, 4, 6)).shape
        torch.Size([8, 3, 6, 10])
    """

    def __init__(self, padding: int | Sequence[int], fill: float | Sequence[float] = 0) -> None:
        super().__init__()
        self.padding = check_padding(padding)
        self.fill = check_fill(fill)

    def transform(self, images: Tensor, params: None) -> Tensor:
        return functional.pad(images, self.padding, self.fill)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, fill={self.fill}"


class RandomHorizontalFlip(Transform):
    """Mirror left and right with probability ``p``: all frames of a clip or none.

    Args:
        p: Probability of flipping, 0 to 1.

    Raises:
        InvalidArgumentError: if ``p`` is not a probability.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import RandomHorizontalFlip
        >>> RandomHorizontalFlip(p=1.0)(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[3., 2., 1.]]])
    """

    is_random = True

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not (isinstance(p, int | float) and 0 <= p <= 1):
            raise InvalidArgumentError(f"p must be a probability, 0 to 1 (got {p!r}).")
        self.p = float(p)

    def make_params(self, images: Sequence[Tensor]) -> bool:
        return torch.rand(1, device="cpu").item() < self.p

    def transform(self, images: Tensor, params: bool) -> Tensor:
        return functional.horizontal_flip(images) if params else images

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Normalize(Transform):
    """Subtract the mean of each channel and divide by its standard deviation.

    Args:
        mean: One number for each channel, on the scale of the images (0 to 1 after `ToFloat`).
        std: One number above 0 for each channel.

    Raises:
        InvalidArgumentError: if they are not of one length, finite, and ``std`` positive; when called, if the images
            are not float or have another number of channels.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import Normalize, ToFloat
        >>> normalize = torch.nn.Sequential(ToFloat(), Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)))
        >>> normalize(torch.full((8, 3, 4, 6), 255, dtype=torch.uint8)).unique()
        tensor([1.])
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.mean, self.std = check_statistics(mean, std)

    def transform(self, images: Tensor, params: None) -> Tensor:
        return functional.normalize(images, self.mean, self.std)

    def extra_repr(self) -> str:
        return f"mean={self.mean}, std={self.std}"


class ToFloat(Transform):
    """Convert to float; integer images are scaled from their full range to [0, 1].

    uint8 is divided by 255, uint16 by 65535; float values stay as they are.

    Args:
        dtype: Float dtype of the result.

    Raises:
        InvalidArgumentError: if ``dtype`` is not a float dtype.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import ToFloat
        >>> ToFloat()(torch.tensor([[[0, 51, 255]]], dtype=torch.uint8))
        tensor([[[0.0000, 0.2000, 1.0000]]])
    """

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.dtype = check_float_dtype(dtype)

    def transform(self, images: Tensor, params: None) -> Tensor:
        return functional.to_float(images, self.dtype)

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}"
