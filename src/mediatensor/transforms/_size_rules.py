"""Compute the size of a resized image from the arguments of `Resize` and the size of the image."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from .._engine.common.checks import shown, whole_number
from ..errors import InvalidArgumentError
from .functional import check_size


class FixedSize(NamedTuple):
    """The same size for every image."""

    size: tuple[int, int]

    def apply(self, height: int, width: int) -> tuple[int, int]:
        return self.size


class SizeBySides(NamedTuple):
    """torchvision's rule: keep the aspect ratio of the image, and set the length of its shorter or longer side.

    >>> SizeBySides(short_side=256, long_side=None).apply(360, 640)
    (256, 455)
    """

    short_side: int | None
    long_side: int | None

    def apply(self, height: int, width: int) -> tuple[int, int]:
        short, long = sorted((height, width))
        if self.short_side is not None:
            new_short, new_long = self.short_side, int(self.short_side * long / short)
            if self.long_side is not None and new_long > self.long_side:
                new_short, new_long = int(self.long_side * new_short / new_long), self.long_side
        else:
            assert self.long_side is not None
            new_short, new_long = int(self.long_side * short / long), self.long_side
        new_short = max(1, new_short)
        return (new_long, new_short) if width <= height else (new_short, new_long)


class SizeWithin(NamedTuple):
    """YOLO's rule: keep the aspect ratio of the image, and choose the largest size that fits into ``size``.

    >>> SizeWithin((224, 224)).apply(360, 640)
    (126, 224)
    """

    size: tuple[int, int]

    def apply(self, height: int, width: int) -> tuple[int, int]:
        scale = min(self.size[0] / height, self.size[1] / width)
        return max(1, round(height * scale)), max(1, round(width * scale))


class SizeByPixels(NamedTuple):
    """Qwen-VL's rule: nearly keep the aspect ratio, limit the number of pixels, and round the sides to multiples.

    >>> SizeByPixels(max_pixels=128 * 28 * 28, min_pixels=None, multiple_of=28).apply(360, 640)
    (224, 420)
    """

    max_pixels: int | None
    min_pixels: int | None
    multiple_of: int | None

    def apply(self, height: int, width: int) -> tuple[int, int]:
        unit = self.multiple_of or 1
        rows, columns = (max(1, round(side / unit)) for side in (height, width))
        num_pixels = rows * unit * columns * unit
        if self.max_pixels is not None and num_pixels > self.max_pixels:
            shrink = math.sqrt(height * width / self.max_pixels)
            rows, columns = (max(1, math.floor(side / shrink / unit)) for side in (height, width))
        elif self.min_pixels is not None and num_pixels < self.min_pixels:
            grow = math.sqrt(self.min_pixels / (height * width))
            rows, columns = (math.ceil(side * grow / unit) for side in (height, width))
        return rows * unit, columns * unit


SizeRule: TypeAlias = FixedSize | SizeBySides | SizeByPixels


def size_rule(size: object, sides: Mapping[str, object], pixels: Mapping[str, object]) -> SizeRule:
    """Check the arguments of `Resize`, grouped by the rule to which they belong, and return the rule."""
    groups = [{"size": size}, sides, pixels]
    given = [{name: value for name, value in group.items() if value is not None} for group in groups]
    if sum(map(bool, given)) > 1:
        names = ", ".join(f"{name}={shown(value)}" for group in given for name, value in group.items())
        raise InvalidArgumentError(
            f"Resize accepts either size, or short_side and long_side, or {', '.join(pixels)} (got {names})."
        )
    if given[1]:
        return _check_sides(SizeBySides(**_whole_numbers(sides)))
    if given[2]:
        return _check_pixels(SizeByPixels(**_whole_numbers(pixels)))
    try:
        return FixedSize(check_size("Resize", size))
    except InvalidArgumentError as error:
        names = ", ".join((*sides, *pixels))
        raise InvalidArgumentError(f"{error} To keep the aspect ratio, pass one of {names} instead.") from None


def _whole_numbers(values: Mapping[str, object]) -> dict[str, int | None]:
    return {
        name: None if value is None else whole_number(name, value, at_least=1, or_none=True)
        for name, value in values.items()
    }


def _check_sides(rule: SizeBySides) -> SizeBySides:
    if rule.short_side is not None and rule.long_side is not None and rule.long_side <= rule.short_side:
        raise InvalidArgumentError(
            f"long_side ({rule.long_side}) must be greater than short_side ({rule.short_side}). Pass only one of them, "
            "or size=(height, width) for a fixed size."
        )
    return rule


def _check_pixels(rule: SizeByPixels) -> SizeByPixels:
    if rule.max_pixels is None:
        return rule
    if rule.min_pixels is not None and rule.min_pixels > rule.max_pixels:
        raise InvalidArgumentError(
            f"min_pixels ({rule.min_pixels}) must be at most max_pixels ({rule.max_pixels}). Lower min_pixels, or "
            "raise max_pixels."
        )
    if rule.multiple_of is not None and rule.multiple_of**2 > rule.max_pixels:
        raise InvalidArgumentError(
            f"max_pixels ({rule.max_pixels}) must be at least {rule.multiple_of} x {rule.multiple_of} = "
            f"{rule.multiple_of**2}, because both sides are at least multiple_of. Raise max_pixels, or lower "
            "multiple_of."
        )
    return rule
