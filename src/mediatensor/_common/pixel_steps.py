"""The steps that a decoder applies to the pixels of every frame, as plain data.

A transform *resolves* to steps when the frame size is known, and draws its random numbers then. The decoder's
conversion carries the steps out. Neither needs to know how the other works.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResizeStep:
    """Scale to (height, width), bilinear with antialias. ``fast`` allows scaling and colour conversion in one pass.

    Example:
        >>> from mediatensor.transforms import Resize
        >>> Resize((90, 160)).resolve(360, 640)
        (ResizeStep(height=90, width=160, fast=False),)
    """

    height: int
    width: int
    fast: bool = False


@dataclass(frozen=True)
class CropStep:
    """Cut out the window of (height, width) whose upper left corner is (top, left).

    Example:
        >>> from mediatensor.transforms import CenterCrop
        >>> CenterCrop((90, 160)).resolve(360, 640)
        (CropStep(top=135, left=240, height=90, width=160),)
    """

    top: int
    left: int
    height: int
    width: int


PixelStep = ResizeStep | CropStep


def output_size(steps: tuple[PixelStep, ...], height: int, width: int) -> tuple[int, int]:
    """(height, width) after all steps.

    >>> output_size((ResizeStep(10, 20), CropStep(0, 0, 4, 5)), 100, 100)
    (4, 5)
    """
    return (steps[-1].height, steps[-1].width) if steps else (height, width)
