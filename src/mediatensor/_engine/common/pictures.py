"""A decoded picture before its conversion to RGB, and the steps that are done to its pixels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .orientation import Orientation

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CropStep", "PixelStep", "ResizeStep", "Surface", "output_size"]

_UNSPECIFIED_MATRIX, _UNSPECIFIED_RANGE = 2, 0


@dataclass(eq=False)
class Surface:
    """The pixels of a decoded picture as the codec left them: planes on some device, not yet RGB.

    A surface is a `mediatensor.backends.Picture`, so a decoder may return surfaces directly. Where getting the planes
    is expensive, a backend returns pictures of its own type, and makes surfaces only from the pictures that are used
    (`mediatensor.backends.DecodeBackend.surface`).

    Attributes:
        planes: One tensor for each plane, uint8 or uint16, strided as they lie: (H, W) luma or gray, (h, w) chroma, or
            (h, w, 2) for the interleaved chroma of nv12, p010le and p016le; all on one device.
        pixel_format: FFmpeg's name of the layout: ``"nv12"``, ``"p010le"``, ``"p016le"``, ``"yuv420p"``,
            ``"yuv422p10le"``, ... The samples of p010le lie in the high bits.
        width: In pixels, as stored.
        height: In pixels, as stored.
        pts: See `mediatensor.backends.Picture`.
        duration: See `mediatensor.backends.Picture`.
        key_frame: See `mediatensor.backends.Picture`.
        is_corrupt: See `mediatensor.backends.Picture`.
        matrix: Coefficients of Y'CbCr by their number in ITU-T H.273: 1 BT.709, 5 and 6 BT.601, 9 BT.2020, 2
            unspecified, which counts as BT.601.
        color_range: FFmpeg's number: 1 limited, 2 full, 0 unspecified, which counts as limited except for the yuvj
            formats.
        chroma_location: Position of chroma samples among luma samples by FFmpeg's number: 1 left, 2 centre, 3 top left,
            ...; 0 unspecified, which counts as centre. It matters only for a resize in the same pass as the colours.
        is_interlaced: Whether the picture consists of two fields.
        orientation: The rotation that the picture itself states. Backends need not look at the container's.
        reading: Makes a context within which the planes may be read and converted on the current stream of their
            device.
    """

    planes: tuple[Tensor, ...]
    pixel_format: str
    width: int
    height: int
    pts: int | None = None
    duration: int = 0
    key_frame: bool = False
    is_corrupt: bool = False
    matrix: int = _UNSPECIFIED_MATRIX
    color_range: int = _UNSPECIFIED_RANGE
    chroma_location: int = 0
    is_interlaced: bool = False
    orientation: Orientation = field(default_factory=Orientation)
    reading: Callable[[], AbstractContextManager[object]] = nullcontext

    @property
    def num_bytes(self) -> int:
        """Bytes of all planes together."""
        return sum(plane.nbytes for plane in self.planes)


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
