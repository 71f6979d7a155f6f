"""Transforms that change colours and light. Boxes, masks and texts stay unchanged.

When called, all raise InvalidArgumentError if the image is not a tensor (C, H, W). Images keep their dtype.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ....errors import InvalidArgumentError
from ...utils.common_types import Nested, Sample
from ..functional import blur_image, invert_colors, random_shadow
from ._composition import ShowsArguments, image_of, range_of


class ColorInversion(ShowsArguments, Nested):
    """Make the image grey, tint it with a random colour, and invert it: white paper becomes dark.

    The result of a grey image has three channels.

    Args:
        min_val: Smallest value, in [0, 1], of the random factor of each colour channel before inversion.

    Raises:
        InvalidArgumentError: On a call: the image is not a tensor (..., 1 or 3, H, W).

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
    """Add normally distributed noise, independently for each pixel and channel.

    Args:
        mean: Mean of the noise, where white is 1.
        std: Standard deviation of the noise, where white is 1.

    Raises:
        InvalidArgumentError: On a call: the image is not a tensor (C, H, W).

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
        """Return the sample with noise. Values are clipped to the range of the dtype."""
        image = image_of(sample)
        noise = self.mean + self.std * torch.randn(image.shape, device=image.device)
        if image.dtype == torch.uint8:
            return sample.replace(image=(image + 255 * noise).round().clamp(0, 255).to(torch.uint8))
        return sample.replace(image=(image + noise.to(image.dtype)).clamp(0, 1))


class GaussianBlur(nn.Module):
    """Blur the image by a Gaussian of random strength, which is the same for all channels.

    Args:
        sigma: Smallest and largest standard deviation, in pixels.

    Raises:
        InvalidArgumentError: ``sigma`` is not two numbers of at least 0, the smaller one first. On a call: the image is
            not a tensor (C, H, W).

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
        """Return the sample with a blurred image of the same dtype."""
        image = image_of(sample)
        sigma = torch.empty(1, device="cpu").uniform_(*self.sigma_range).item()
        return sample.replace(image=_convert_floats(blur_image(image, sigma), image.dtype))


class ChannelShuffle(nn.Module):
    """Shuffle the channels randomly.

    Raises:
        InvalidArgumentError: On a call: the image is not a tensor (C, H, W).

    Example:
        >>> import torch
        >>> from mediatensor.ocr.transforms import ChannelShuffle
        >>> from mediatensor.ocr.utils import Sample
        >>> image = torch.arange(3).reshape(3, 1, 1)
        >>> sorted(ChannelShuffle()(Sample(image)).image.flatten().tolist())
        [0, 1, 2]
    """

    def forward(self, sample: Sample) -> Sample:
        """Return the sample with shuffled image channels."""
        image = image_of(sample)
        order = torch.rand(image.shape[-3], device="cpu").argsort().to(image.device)
        return sample.replace(image=image.index_select(-3, order))


class RandomShadow(ShowsArguments, nn.Module):
    """Add a random shadow with a soft edge, which starts at one side of the image.

    Args:
        opacity_range: Smallest and largest darkness, in [0, 1]; (0.2, 0.8) by default.

    Raises:
        InvalidArgumentError: ``opacity_range`` is not two numbers. On a call: the image is not a tensor (C, H, W).

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
        """Return the sample with a shadow on its image. The dtype stays the same."""
        image = image_of(sample)
        if image.dtype == torch.uint8:
            return sample.replace(image=_convert_floats(random_shadow(image.float(), self.opacity_range), torch.uint8))
        return sample.replace(image=random_shadow(image, self.opacity_range).clamp(0, 1))


def _convert_floats(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert floats to the dtype of an image. For integers, values are rounded and clipped to [0, 255]."""
    return values.to(dtype) if dtype.is_floating_point else values.round().clamp(0, 255).to(dtype)
