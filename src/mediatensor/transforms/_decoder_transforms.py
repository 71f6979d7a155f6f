"""Transforms that a decoder can run while it converts frames, and other transforms that only work on tensors."""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._engine.common.checks import finite_numbers, is_integer, real_number
from .._engine.common.pictures import CropStep, PadStep, PixelStep, ResizeStep
from ..errors import InvalidArgumentError
from . import functional
from ._transform import Transform, common_size
from .functional import (
    FixedSize,
    center_window,
    check_crop_fits,
    check_fill,
    check_float_dtype,
    check_padding,
    check_result_size,
    check_size,
    check_statistics,
    check_window,
    size_rule,
)

# Random numbers come from torch's global CPU generator, even under ``torch.set_default_device("cuda")``. So the same
# ``torch.manual_seed`` gives the same windows on every device.
_CPU = torch.device("cpu")


class DecoderTransform(Transform):
    """Base class of the transforms that ``VideoDecoder(source, transforms=[...])`` accepts.

    A transform can be used in two ways:

    * **In a decoder**, the transform runs during the conversion of every frame to upright RGB. Full-size frames are
      never stored. Random numbers are drawn once, when the decoder is made, and apply to all of its frames. If the same
      object is passed to a second decoder, it draws again.
    * **Called directly**, it transforms a tensor, a `FrameBatch` or a nested sample, as `Transform` describes.

    A crop gives the same pixels in both uses. A resize does not: the decoder scales with FFmpeg's swscale, and tensors
    are scaled by torch. Both are bilinear and antialiased. In natural video, at least 98 % of the uint8 values differ
    by no more than 2. If the width shrinks to half or less, values at sharp colour edges can differ by more, because
    swscale then halves the resolution of chroma. Frames on another device than the CPU are cropped and scaled on that
    device, with torch. Their uint8 values differ from those of swscale by no more than 2.

    To write a transform, implement `resolve`. Set ``is_random = False`` if it does not draw random numbers.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import CropStep, DecoderTransform
        >>> class LeftHalf(DecoderTransform):
        ...     is_random = False
        ...     def resolve(self, height, width):
        ...         return (CropStep(top=0, left=0, height=height, width=width // 2),)
        >>> LeftHalf()(torch.zeros(3, 4, 6)).shape
        torch.Size([3, 4, 3])
    """

    is_random = True

    @abstractmethod
    def resolve(self, height: int, width: int) -> tuple[PixelStep, ...]:
        """Return the steps to apply to frames of a given size. Random transforms draw their numbers here.

        A decoder calls this method once, when it is made, with the frame size after the preceding transforms.

        Args:
            height: Height of the input frames.
            width: Width of the input frames.

        Returns:
            `CropStep`, `ResizeStep` and `PadStep` objects, in the order in which they are applied.

        Raises:
            InvalidArgumentError: if the transform cannot be applied, for example to frames that are smaller than the
                crop.
        """

    def make_params(self, images: Sequence[Tensor]) -> tuple[PixelStep, ...]:
        steps = self.resolve(*common_size(images))
        for step in steps:  # checked before any memory is allocated
            check_result_size(step.height, step.width)
        return steps

    def transform(self, images: Tensor, params: tuple[PixelStep, ...]) -> Tensor:
        for step in params:
            if isinstance(step, CropStep):
                images = functional.crop(images, step.top, step.left, step.height, step.width)
            elif isinstance(step, PadStep):
                bottom = step.height - step.top - images.shape[-2]
                right = step.width - step.left - images.shape[-1]
                images = functional.pad(images, (step.left, step.top, right, bottom), step.fill)
            else:
                images = functional.resize(images, (step.height, step.width))
        return images


class Resize(DecoderTransform):
    """Resize images, bilinearly and with antialiasing, to a fixed size or to a size that keeps their aspect ratio.

    Pass either ``size``, or at least one of ``short_side`` and ``long_side``, or at least one of ``max_pixels``,
    ``min_pixels`` and ``multiple_of``. Unless ``size`` is given, the result size depends on the size of the images. In
    a decoder, the result size is computed once, from the first frame. If later frames have another size, they are
    scaled to the same result size.

    With ``short_side`` and ``long_side``, the size is the same as in torchvision's ``Resize``. The side that is
    computed from the aspect ratio is rounded down, but is at least 1.

    With ``max_pixels``, ``min_pixels`` and ``multiple_of``, the size is the same as in ``smart_resize`` of Qwen-VL
    (package ``qwen_vl_utils``, where ``multiple_of`` is 28). Each side is first rounded to a multiple of
    ``multiple_of``. If the result has too many pixels, the image is instead scaled down to ``max_pixels``, and both
    sides are rounded down. If it has too few pixels, the image is scaled up to ``min_pixels``, and both sides are
    rounded up. Each side is at least ``multiple_of``, so very long images can exceed ``max_pixels``. Qwen-VL rejects
    images with an aspect ratio above 200, but `Resize` accepts them.

    Args:
        size: (height, width) of the result.
        short_side: Length of the shorter side of the result, in pixels.
        long_side: Length of the longer side of the result, in pixels. With ``short_side``, it is an upper limit,
            greater than ``short_side``: if the longer side would exceed it, both sides are scaled down.
        max_pixels: Upper limit for height * width of the result.
        min_pixels: Lower limit for height * width of the result.
        multiple_of: Both sides of the result are multiples of this number. By default, they can be any number.
        fast: Whether to scale luma and chroma before the conversion to RGB, if this is the first transform of a
            decoder. This is two to four times faster. The uint8 values differ by 1 to 3 on average, and by more at
            colour edges. By default, frames are first converted to RGB and then scaled, as in torchcodec. ``fast`` has
            no effect on tensors.

    Raises:
        InvalidArgumentError: if ``size`` is not a pair of positive ints, another argument is not a positive int, or
            the arguments contradict each other.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import Resize
        >>> frames = torch.zeros(8, 3, 480, 640, dtype=torch.uint8)
        >>> Resize((224, 320))(frames).shape
        torch.Size([8, 3, 224, 320])
        >>> Resize(short_side=256)(frames).shape
        torch.Size([8, 3, 256, 341])
        >>> Resize(max_pixels=256 * 28 * 28, multiple_of=28)(frames).shape
        torch.Size([8, 3, 364, 504])
    """

    is_random = False

    def __init__(
        self,
        size: Sequence[int] | None = None,
        *,
        short_side: int | None = None,
        long_side: int | None = None,
        max_pixels: int | None = None,
        min_pixels: int | None = None,
        multiple_of: int | None = None,
        fast: bool = False,
    ) -> None:
        super().__init__()
        self._rule = size_rule(
            size,
            {"short_side": short_side, "long_side": long_side},
            {"max_pixels": max_pixels, "min_pixels": min_pixels, "multiple_of": multiple_of},
        )
        self.size = self._rule.size if isinstance(self._rule, FixedSize) else None
        self.fast = bool(fast)

    def resolve(self, height: int, width: int) -> tuple[PixelStep, ...]:
        return (ResizeStep(*self._rule.apply(height, width), fast=self.fast),)

    def extra_repr(self) -> str:
        given = (f"{name}={value}" for name, value in self._rule._asdict().items() if value is not None)
        return ", ".join((*given, f"fast={self.fast}"))


class CenterCrop(DecoderTransform):
    """Crop images to a window at their centre.

    If the top or left edge of the window would not be a whole number, it is rounded (half to even), as in torchvision.

    Args:
        size: (height, width) of the result. Frames must be at least this large.

    Raises:
        InvalidArgumentError: if ``size`` is not a pair of positive ints.

    Example:
        >>> from mediatensor.transforms import CenterCrop
        >>> CenterCrop((2, 2)).resolve(4, 6)
        (CropStep(top=1, left=2, height=2, width=2),)
    """

    is_random = False
    _shown = ("size",)

    def __init__(self, size: Sequence[int]) -> None:
        super().__init__()
        self.size = check_size("CenterCrop", size)

    def resolve(self, height: int, width: int) -> tuple[PixelStep, ...]:
        return (center_window(height, width, self.size),)


class RandomCrop(DecoderTransform):
    """Crop a window at a random position, which is the same for all frames of a decoder or clip.

    The same seed gives the same position as in torchcodec: ``torch.randint`` draws the top row first, then the left
    column. torchvision does not draw a number for an axis on which the crop is as long as the frame.

    Args:
        size: (height, width) of the result. Frames must be at least this large.

    Raises:
        InvalidArgumentError: if ``size`` is not a pair of positive ints.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import RandomCrop
        >>> RandomCrop((2, 3))(torch.zeros(8, 3, 4, 6)).shape
        torch.Size([8, 3, 2, 3])
    """

    _shown = ("size",)

    def __init__(self, size: Sequence[int]) -> None:
        super().__init__()
        self.size = check_size("RandomCrop", size)

    def resolve(self, height: int, width: int) -> tuple[PixelStep, ...]:
        check_crop_fits(height, width, self.size)
        top, left = (
            int(torch.randint(0, slack + 1, (), device=_CPU)) for slack in (height - self.size[0], width - self.size[1])
        )
        return (CropStep(top, left, *self.size),)


class RandomResizedCrop(DecoderTransform):
    """Crop a window of random position, size and aspect ratio, and resize it.

    The window is the same for all frames of a decoder or clip. The same seed gives the same window as in torchvision.

    Args:
        size: (height, width) of the result.
        scale: Range (low, high) from which the window's area is drawn, as a fraction of the frame's area.
        ratio: Range (low, high) from which the window's aspect ratio, width / height, is drawn.

    Raises:
        InvalidArgumentError: if ``size`` is not a pair of positive ints, or ``scale`` is not 0 <= low <= high with
            0 < high, or ``ratio`` is not 0 < low <= high.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import RandomResizedCrop
        >>> RandomResizedCrop((224, 224))(torch.zeros(8, 3, 480, 640)).shape
        torch.Size([8, 3, 224, 224])
    """

    _shown = ("size", "scale", "ratio")

    def __init__(
        self,
        size: Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
    ) -> None:
        super().__init__()
        self.size = check_size("RandomResizedCrop", size)
        self.scale = _check_range("scale", scale, allow_zero=True)
        self.ratio = _check_range("ratio", ratio, allow_zero=False)

    def resolve(self, height: int, width: int) -> tuple[PixelStep, ...]:
        return (self._window(height, width), ResizeStep(*self.size))

    def _window(self, height: int, width: int) -> CropStep:
        """Draw a window with the same random draws and rounding as torchvision's ``RandomResizedCrop``.

        A window that does not fit into the frame is drawn again. After ten attempts, the result is the largest window
        at the centre whose aspect ratio is in the range.
        """
        low, high = torch.log(torch.tensor(self.ratio, device=_CPU)).tolist()
        for _ in range(10):
            target_area = height * width * torch.empty(1, device=_CPU).uniform_(*self.scale).item()
            aspect_ratio = torch.exp(torch.empty(1, device=_CPU).uniform_(low, high)).item()
            w = round(math.sqrt(target_area * aspect_ratio))
            h = round(math.sqrt(target_area / aspect_ratio))
            if 0 < w <= width and 0 < h <= height:
                top = int(torch.randint(0, height - h + 1, (1,), device=_CPU))
                left = int(torch.randint(0, width - w + 1, (1,), device=_CPU))
                return CropStep(top, left, h, w)
        return _largest_central_window(height, width, self.ratio)


def _check_range(name: str, limits: object, *, allow_zero: bool) -> tuple[float, float]:
    values = finite_numbers(limits)
    if len(values) == 2:
        low, high = values
        if low <= high and (low > 0 or (allow_zero and low == 0 < high)):
            return low, high
    order = "0 <= low <= high and 0 < high" if allow_zero else "0 < low <= high"
    raise InvalidArgumentError(f"RandomResizedCrop: {name} must be two finite numbers with {order} (got {limits!r}).")


def _largest_central_window(height: int, width: int, ratio: tuple[float, float]) -> CropStep:
    """Return the largest window at the centre of a frame whose aspect ratio (width / height) is in the range ``ratio``.

    >>> _largest_central_window(10, 100, (0.75, 2.0))
    CropStep(top=0, left=40, height=10, width=20)
    """
    h, w = height, width
    if width / height < ratio[0]:
        h = max(1, round(width / ratio[0]))
    elif width / height > ratio[1]:
        w = max(1, round(height * ratio[1]))
    return CropStep((height - h) // 2, (width - w) // 2, h, w)


def resolve_transforms(transforms: Iterable[object], height: int, width: int) -> tuple[PixelStep, ...]:
    """Return the steps of all transforms, which are `DecoderTransform` objects or torchvision v2 transforms.

    ``height`` and ``width`` are the size of the upright frames.

    Raises:
        InvalidArgumentError: if a transform cannot run in a decoder, or cannot be applied to frames of this size, or
            its result exceeds the maximum size of a frame.

    >>> resolve_transforms([Resize((10, 20)), CenterCrop((4, 4))], 100, 100)
    (ResizeStep(height=10, width=20, fast=False), CropStep(top=3, left=8, height=4, width=4))
    """
    steps: list[PixelStep] = []
    for transform in check_decoder_transforms(transforms):
        for step in transform.resolve(height, width):
            _check_step(step, transform, height, width)
            steps.append(step)
            height, width = step.height, step.width
    return tuple(steps)


def size_before_transforms(
    transforms: Sequence[DecoderTransform], frame_size: Callable[[], tuple[int, int]]
) -> tuple[int, int]:
    """Return a (height, width) for which `resolve_transforms` returns the right steps.

    This is ``frame_size()``, for which a frame must be decoded. It is not called if there are no transforms, or if the
    first one resizes all frames to the same size.
    """
    if not transforms:
        return (0, 0)
    first = transforms[0]
    return first.size if type(first) is Resize and first.size is not None else frame_size()


def check_decoder_transforms(transforms: Iterable[object] | None) -> list[DecoderTransform]:
    """Return the transforms as `DecoderTransform` objects. Raise `InvalidArgumentError` for any other object."""
    if transforms is None:
        return []
    if not isinstance(transforms, Iterable):
        raise InvalidArgumentError(f"transforms must be a sequence of transforms (got {transforms!r}).")
    return [_as_decoder_transform(transform) for transform in transforms]


def _check_step(step: object, transform: object, height: int, width: int) -> None:
    """Check a step of a transform, possibly written by a user. Otherwise only the first frame would show the error."""
    if isinstance(step, CropStep):
        check_window(step, height, width)
    elif isinstance(step, ResizeStep | PadStep):
        check_size(type(step).__name__.removesuffix("Step"), (step.height, step.width))
        if isinstance(step, PadStep):
            _check_pad_step(step, height, width)
        check_result_size(step.height, step.width)
    else:
        raise InvalidArgumentError(
            f"{transform!r}.resolve must return CropStep, ResizeStep and PadStep objects (got {step!r})."
        )


def _check_pad_step(step: PadStep, height: int, width: int) -> None:
    check_fill(step.fill)
    for start, length, limit in ((step.top, height, step.height), (step.left, width, step.width)):
        if not (is_integer(start) and 0 <= start <= limit - length):
            raise InvalidArgumentError(f"{step!r} does not contain frames of (height, width) ({height}, {width}).")


def _as_decoder_transform(transform: object) -> DecoderTransform:
    if isinstance(transform, DecoderTransform):
        return transform
    # A torchvision object exists only if torchvision has been imported, so it need not be imported here.
    torchvision_v2 = sys.modules.get("torchvision.transforms.v2")
    for name, (required, convert) in _TORCHVISION_COUNTERPARTS.items():
        if torchvision_v2 is not None and isinstance(transform, getattr(torchvision_v2, name)):
            _check_attributes(transform, name, required)
            return convert(transform)
    names = ", ".join(_TORCHVISION_COUNTERPARTS)
    hint = " Apply it to the decoded frames instead." if callable(transform) else ""
    raise InvalidArgumentError(
        f"Unsupported transform: {transform!r}. A decoder accepts mediatensor.transforms.DecoderTransform objects "
        f"(Letterbox, {names}), and {names} of torchvision.transforms.v2.{hint}"
    )


def _check_attributes(transform: object, name: str, required: dict[str, object]) -> None:
    for attribute, value in required.items():
        given = getattr(transform, attribute)
        if getattr(given, "value", given) != value:  # interpolation is an enum of strings
            raise InvalidArgumentError(
                f"TorchVision {name} transform must have {attribute}={value!r} to run in a decoder (got {given!r}). "
                "Apply it to the decoded frames instead."
            )


# For each transform of torchvision, the attributes that it must have, and the conversion to ours.
_TORCHVISION_COUNTERPARTS: dict[str, tuple[dict[str, object], Callable[[Any], DecoderTransform]]] = {
    "Resize": (
        {"interpolation": "bilinear", "antialias": True},
        # torchvision stores a single number as a list of one number.
        lambda t: Resize(
            t.size if t.size is not None and len(t.size) > 1 else None,
            short_side=t.size[0] if t.size is not None and len(t.size) == 1 else None,
            long_side=t.max_size,
        ),
    ),
    "CenterCrop": ({}, lambda t: CenterCrop(t.size)),
    "RandomCrop": (
        {"padding": None, "pad_if_needed": False, "fill": 0, "padding_mode": "constant"},
        lambda t: RandomCrop(t.size),
    ),
    "RandomResizedCrop": (
        {"interpolation": "bilinear", "antialias": True},
        lambda t: RandomResizedCrop(t.size, t.scale, t.ratio),
    ),
}


class Pad(Transform):
    """Add a border of one colour around images.

    Args:
        padding: Number of pixels on every side, or (left and right, top and bottom), or (left, top, right, bottom).
        fill: Value of the border: one number, or one for each channel, in the value range of the images (0 to 255 for
            uint8, 0 to 1 after `ToFloat`).

    Raises:
        InvalidArgumentError: if ``padding`` is negative or not of one of these forms, or ``fill`` is not finite.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import Pad
        >>> Pad((2, 1))(torch.zeros(8, 3, 4, 6)).shape
        torch.Size([8, 3, 6, 10])
    """

    _shown = ("padding", "fill")

    def __init__(self, padding: int | Sequence[int], fill: float | Sequence[float] = 0) -> None:
        super().__init__()
        self.padding = check_padding(padding)
        self.fill = check_fill(fill)

    def transform(self, images: Tensor, params: None) -> Tensor:
        return functional.pad(images, self.padding, self.fill)


class RandomHorizontalFlip(Transform):
    """Mirror images left to right with probability ``p``. All frames of a clip are mirrored, or none of them.

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
    _shown = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = real_number("p", p)
        if not 0 <= self.p <= 1:
            raise InvalidArgumentError(f"p must be a probability from 0 to 1 (got {p!r}).")

    def make_params(self, images: Sequence[Tensor]) -> bool:
        return torch.rand(1, device="cpu").item() < self.p

    def transform(self, images: Tensor, params: bool) -> Tensor:
        return functional.horizontal_flip(images) if params else images


class Normalize(Transform):
    """Subtract a mean from each channel and divide by a standard deviation.

    Args:
        mean: One number for each channel, in the value range of the images (0 to 1 after `ToFloat`).
        std: One number above 0 for each channel.

    Raises:
        InvalidArgumentError: if ``mean`` and ``std`` differ in length, a value is not finite, or ``std`` is not
            positive. Also raised on a call if the images are not float, or their number of channels differs from the
            length of ``mean``.

    Example:
        >>> import torch
        >>> from mediatensor.transforms import Normalize, ToFloat
        >>> normalize = torch.nn.Sequential(ToFloat(), Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)))
        >>> normalize(torch.full((8, 3, 4, 6), 255, dtype=torch.uint8)).unique()
        tensor([1.])
    """

    _shown = ("mean", "std")

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.mean, self.std = check_statistics(mean, std)

    def transform(self, images: Tensor, params: None) -> Tensor:
        return functional.normalize(images, self.mean, self.std)


class ToFloat(Transform):
    """Convert images to a float dtype. Integer values are scaled to [0, 1].

    uint8 values are divided by 255, and uint16 values by 65535. Float values are not scaled.

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

    _shown = ("dtype",)

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.dtype = check_float_dtype(dtype)

    def transform(self, images: Tensor, params: None) -> Tensor:
        return functional.to_float(images, self.dtype)
