"""Checks of sizes and borders, and computation of central and random windows, without touching pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from .._engine.common.checks import finite_numbers, is_integer
from .._engine.common.pictures import CropStep
from ..errors import InvalidArgumentError

# Random numbers come from torch's global CPU generator, even under ``torch.set_default_device("cuda")``, so that one
# ``torch.manual_seed`` gives the same windows on every device.
_CPU = torch.device("cpu")


def check_size(owner: str, size: object) -> tuple[int, int]:
    """Check ``size``, and return it as a (height, width) tuple of ints.

    >>> check_size("Resize", [224, 320])
    (224, 320)
    """
    if isinstance(size, Sequence) and len(size) == 2 and all(is_integer(length) and length >= 1 for length in size):
        return int(size[0]), int(size[1])
    raise InvalidArgumentError(
        f"{owner} transform must have a (height, width) pair for the size, two whole numbers of at least 1 "
        f"(got {size!r})."
    )


def check_range(owner: str, name: str, limits: object, *, allow_zero: bool) -> tuple[float, float]:
    """Check ``limits``, and return (low, high) with 0 < low <= high. With ``allow_zero``, low may be 0.

    >>> check_range("RandomResizedCrop", "scale", [0, 1], allow_zero=True)
    (0.0, 1.0)
    """
    values = finite_numbers(limits)
    if len(values) == 2:
        low, high = values
        if low <= high and (low > 0 or (allow_zero and low == 0 < high)):
            return low, high
    accepted = "0 <= low <= high and 0 < high" if allow_zero else "0 < low <= high"
    raise InvalidArgumentError(f"{owner}: {name} must be two finite numbers with {accepted} (got {limits!r}).")


def check_padding(padding: object) -> tuple[int, int, int, int]:
    """Check ``padding``, and return it as (left, top, right, bottom).

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


def check_window(window: CropStep, height: int, width: int) -> CropStep:
    """Return ``window``; raise if it does not lie inside an image of (height, width)."""
    spans = ((window.top, window.height, height), (window.left, window.width, width))
    for start, length, limit in spans:
        if not (is_integer(start) and is_integer(length) and 0 <= start < start + length <= limit):
            raise InvalidArgumentError(
                f"{window!r} does not lie inside an image of (height, width) ({height}, {width})."
            )
    return window


def center_window(height: int, width: int, size: tuple[int, int]) -> CropStep:
    """Return the central window of ``size``. Half pixels are rounded to even, as in torchvision.

    >>> center_window(7, 9, (4, 4))  # (7 - 4) / 2 = 1.5 -> 2, (9 - 4) / 2 = 2.5 -> 2
    CropStep(top=2, left=2, height=4, width=4)
    """
    _check_crop_fits(height, width, size)
    return CropStep(round((height - size[0]) / 2.0), round((width - size[1]) / 2.0), *size)


def random_window(height: int, width: int, size: tuple[int, int]) -> CropStep:
    """Draw a window of ``size``, with all positions equally likely. Top is drawn before left.

    An axis with only one possible position draws nothing, to follow torchvision's random sequence.
    """
    _check_crop_fits(height, width, size)
    top, left = (
        int(torch.randint(0, slack + 1, (), device=_CPU)) if slack else 0
        for slack in (height - size[0], width - size[1])
    )
    return CropStep(top, left, *size)


def random_resized_window(height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float]) -> CropStep:
    """Draw a window of random area and aspect ratio, at a random position.

    The area is drawn uniformly, the aspect ratio (width / height) log-uniformly. A window that does not fit is drawn
    again. After ten attempts, return the largest central window whose aspect ratio is in range. The random draws and
    rounding equal torchvision's ``RandomResizedCrop``: the same seed gives the same window.
    """
    log_ratio = torch.log(torch.tensor(ratio, device=_CPU))
    for _ in range(10):
        target_area = height * width * torch.empty(1, device=_CPU).uniform_(*scale).item()
        aspect_ratio = torch.exp(torch.empty(1, device=_CPU).uniform_(log_ratio[0].item(), log_ratio[1].item())).item()
        w = round(math.sqrt(target_area * aspect_ratio))
        h = round(math.sqrt(target_area / aspect_ratio))
        if 0 < w <= width and 0 < h <= height:
            top = int(torch.randint(0, height - h + 1, (1,), device=_CPU))
            left = int(torch.randint(0, width - w + 1, (1,), device=_CPU))
            return CropStep(top, left, h, w)
    return _largest_central_window(height, width, ratio)


def _largest_central_window(height: int, width: int, ratio: tuple[float, float]) -> CropStep:
    """
    >>> _largest_central_window(10, 100, (0.75, 2.0))
    CropStep(top=0, left=40, height=10, width=20)
    """
    h, w = height, width
    if width / height < ratio[0]:
        h = max(1, round(width / ratio[0]))
    elif width / height > ratio[1]:
        w = max(1, round(height * ratio[1]))
    return CropStep((height - h) // 2, (width - w) // 2, h, w)


def _check_crop_fits(height: int, width: int, size: tuple[int, int]) -> None:
    if height < size[0] or width < size[1]:
        raise InvalidArgumentError(
            f"Input dimensions ({height}, {width}) are smaller than the crop size {size}. "
            "Resize or Pad before cropping, or ask for a smaller crop."
        )
