"""Describe a decoded frame before conversion to RGB, its orientation, and the steps that resize, crop and pad it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ...errors import SizeChangeError

if TYPE_CHECKING:
    from torch import Tensor

# Largest frame that is decoded or made, in pixels. A header of a few bytes can state a size of terabytes.
MAX_FRAME_PIXELS = 1 << 28


@dataclass(frozen=True)
class Orientation:
    """How to turn a stored image upright: first transpose it, then flip it.

    ``rotation`` is the counter-clockwise angle in degrees if the image is only rotated. It is ``None`` if the file's
    display matrix is not a pure rotation.
    """

    transposed: bool = False
    flipped_horizontally: bool = False
    flipped_vertically: bool = False
    rotation: float | None = None

    @classmethod
    def from_display_matrix(cls, matrix: bytes) -> Orientation:
        """Return the orientation by quarter turns and flips that is nearest to a display matrix.

        ``matrix`` consists of nine native 32-bit integers, as in ISO 14496-12. It maps (x, y) to (ax + cy, bx + dy). If
        b and c are larger than a and d, the image is transposed. The signs of the larger pair decide which axes are
        flipped. The angle is the same as FFmpeg's ``av_display_rotation_get``.
        """
        a, b, _, c, d, *_ = struct.unpack("=9i", matrix[:36])
        width, height = math.hypot(a, c), math.hypot(b, d)
        rotation = -math.degrees(math.atan2(b / height, a / width)) or None if width and height else None
        if abs(a) + abs(d) >= abs(b) + abs(c):
            return cls(False, a < 0, d < 0, rotation)
        return cls(True, c < 0, b < 0, rotation)

    @classmethod
    def from_rotation(cls, rotation: float | None) -> Orientation:
        """Return the orientation for a counter-clockwise angle in degrees, rounded to the nearest quarter turn.

        >>> Orientation.from_rotation(-90.0)
        Orientation(transposed=True, flipped_horizontally=True, flipped_vertically=False, rotation=-90.0)
        """
        quarter_turns = round((rotation or 0.0) / 90) % 4
        return (
            cls(False, False, False, rotation),
            cls(True, False, True, rotation),
            cls(False, True, True, rotation),
            cls(True, True, False, rotation),
        )[quarter_turns]

    @classmethod
    def from_exif(cls, number: int) -> Orientation:
        return cls(number >= 5, number in (2, 3, 6, 7), number in (3, 4, 7, 8))

    @property
    def turns(self) -> bool:
        """Whether the stored image is not upright, so that it must be transposed or flipped."""
        return self.transposed or self.flipped_horizontally or self.flipped_vertically

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Convert the ``height`` and ``width`` of a stored image to the (height, width) of the upright image."""
        return (width, height) if self.transposed else (height, width)

    def apply(self, pixels: NDArray[Any]) -> NDArray[Any]:
        """Return an upright view of stored (H, W, C) or (H, W) pixels."""
        if self.transposed:
            pixels = pixels.swapaxes(0, 1)
        if self.flipped_vertically:
            pixels = pixels[::-1]
        if self.flipped_horizontally:
            pixels = pixels[:, ::-1]
        return pixels

    def undo(self, upright: NDArray[Any]) -> NDArray[Any]:
        """Return a view of upright pixels (H, W, C) to which stored pixels can be written."""
        if self.flipped_vertically:
            upright = upright[::-1]
        if self.flipped_horizontally:
            upright = upright[:, ::-1]
        return upright.transpose(1, 0, 2) if self.transposed else upright

    def apply_to_tensor(self, pixels: Tensor) -> Tensor:
        """Turn (H, W, C) pixels upright. The result is a view unless the image must be flipped."""
        if self.transposed:
            pixels = pixels.transpose(0, 1)
        axes = [axis for axis, flips in ((0, self.flipped_vertically), (1, self.flipped_horizontally)) if flips]
        return pixels.flip(axes) if axes else pixels


_UNSPECIFIED_MATRIX, _UNSPECIFIED_RANGE = 2, 0


@dataclass(eq=False)
class Surface:
    """The planes of a decoded frame in the codec's format, on any device, before conversion to RGB.

    A surface is a `mediatensor.backends.Picture`, so a decoder can return surfaces directly. A backend whose planes are
    expensive to access returns its own type of picture instead. It makes surfaces only for pictures that are used
    (`mediatensor.backends.DecodeBackend.surface`).

    Attributes:
        planes: One tensor per plane, all on one device: uint8 for 8-bit formats, otherwise uint16. Luma or gray has the
            shape (H, W), and chroma has (h, w). The interleaved chroma of nv12, p010le and p016le has (h, w, 2). Rows
            can be padded, so the tensors need not be contiguous.
        pixel_format: FFmpeg's name of the layout: ``"nv12"``, ``"p010le"``, ``"p016le"``, ``"yuv420p"``,
            ``"yuv422p10le"``, ... In p010le, the 10 bits of a sample are the high bits of a 16-bit number.
        width: Width in pixels, as stored.
        height: Height in pixels, as stored.
        pts: Presentation time of the packet in ticks, or ``None``; see `mediatensor.backends.Picture`.
        duration: Duration of the packet in ticks; 0 if it is unknown.
        key_frame: Whether the picture can be decoded without other pictures.
        is_corrupt: Whether the codec marks the picture as damaged.
        matrix: Y'CbCr matrix coefficients, as in ITU-T H.273: 1 BT.709, 5 and 6 BT.601, 9 BT.2020, 2 unspecified
            (treated as BT.601).
        color_range: Range of the sample values, as FFmpeg's number: 1 limited, 2 full, 0 unspecified (treated as
            limited, except for yuvj formats).
        chroma_location: Position of chroma samples relative to luma samples, as in FFmpeg: 1 left, 2 centre, 3 top
            left, ..., 0 unspecified (treated as centre). Used only if the frame is resized and converted to RGB
            in one pass.
        is_interlaced: Whether the picture consists of two interlaced fields.
        orientation: The transposition and the flips that turn the picture upright, if they are stored with the picture.
            A backend can leave out an orientation that only the container stores.
        reading: Function that returns a context manager. In its ``with`` block, the planes can be read and converted on
            the current stream of their device.
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
        """Total size of all planes in bytes."""
        return sum(plane.nbytes for plane in self.planes)


@dataclass(frozen=True)
class ResizeStep:
    """Scale the frame to (height, width) in pixels with antialiased bilinear interpolation.

    If ``fast`` is true, luma and chroma may be scaled before the conversion to RGB; see `Resize`.

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
    """Crop the frame to (height, width), with the upper left corner of the crop at (top, left), in pixels.

    Example:
        >>> from mediatensor.transforms import CenterCrop
        >>> CenterCrop((90, 160)).resolve(360, 640)
        (CropStep(top=135, left=240, height=90, width=160),)
    """

    top: int
    left: int
    height: int
    width: int


@dataclass(frozen=True)
class PadStep:
    """Place the frame in a larger image of (height, width), with the frame's upper left corner at (top, left).

    All four numbers are in pixels. ``fill`` is the value of the pixels around the frame, as a tuple with one number for
    all channels or one for each channel. Fill values are on the scale of the result: 0 to 255 for uint8, 0 to 1 for
    float32.

    Example:
        >>> from mediatensor.transforms import Letterbox
        >>> Letterbox((224, 224), fill=114).resolve(360, 640)[1]
        PadStep(top=49, left=0, height=224, width=224, fill=(114.0,))
    """

    top: int
    left: int
    height: int
    width: int
    fill: tuple[float, ...] = (0.0,)


PixelStep = ResizeStep | CropStep | PadStep


def output_size(steps: tuple[PixelStep, ...], height: int, width: int) -> tuple[int, int]:
    """Return the (height, width) of a frame of ``height`` and ``width`` after all steps.

    The steps may have been made for frames of another size. Raises `SizeChangeError` if the frame is too small for a
    crop, or too large for a padding.
    """
    for step in steps:
        if not isinstance(step, ResizeStep):
            frame, kept = (height, width), (step.height, step.width)
            inner, outer = (frame, kept) if isinstance(step, PadStep) else (kept, frame)
            if step.top + inner[0] > outer[0] or step.left + inner[1] > outer[1]:
                raise SizeChangeError(
                    f"the resolution of the stream changes, and {step} does not fit {width}x{height} pixels (width x "
                    "height). Put a Resize before it."
                )
        height, width = step.height, step.width
    return height, width


def frame_box(steps: tuple[PixelStep, ...], height: int, width: int) -> tuple[int, int, int, int]:
    """Return the box (left, top, right, bottom) that a frame of ``height`` and ``width`` fills after all steps.

    >>> frame_box((ResizeStep(5, 10), PadStep(2, 0, 10, 10), CropStep(1, 3, 9, 7)), 50, 100)
    (0, 1, 7, 6)
    """
    (top, bottom), (left, right) = (0, height), (0, width)
    for step in steps:
        if isinstance(step, ResizeStep):  # a pixel shows the frame if its centre does
            top, bottom = (math.ceil(y * step.height / height - 0.5) for y in (top, bottom))
            left, right = (math.ceil(x * step.width / width - 0.5) for x in (left, right))
        else:
            sign = 1 if isinstance(step, PadStep) else -1
            top, bottom = (min(max(y + sign * step.top, 0), step.height) for y in (top, bottom))
            left, right = (min(max(x + sign * step.left, 0), step.width) for x in (left, right))
        height, width = step.height, step.width
    return left, top, right, bottom


def fill_margins(step: PadStep, canvas: Any, height: int, width: int) -> Any:
    """Write the fill of a step to ``canvas`` (H, W, C), an array or tensor, around a frame of ``height`` and ``width``.

    Return the view in which the frame belongs. Its pixels are not written.
    """
    bottom, right = step.top + height, step.left + width
    middle = canvas[step.top : bottom]
    for margin in (canvas[: step.top], canvas[bottom:], middle[:, : step.left], middle[:, right:]):
        if len(set(step.fill)) == 1:
            margin[...] = step.fill[0]
        else:
            for channel, value in enumerate(step.fill):
                margin[..., channel] = value
    return middle[:, step.left : right]
