"""`Surface`: a decoded picture before it is RGB."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .orientation import Orientation

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Surface"]

_UNSPECIFIED_MATRIX, _UNSPECIFIED_RANGE = 2, 0


@dataclass(eq=False)
class Surface:
    """The pixels of a picture as the codec left them: planes on some device, not yet RGB.

    It is a `mediatensor.backends.Picture`, so that a backend may hand out surfaces at once; one whose planes cost
    something to get at hands out pictures of its own, and makes surfaces of those that are wanted
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
        matrix: Coefficients of Y'CbCr by the number in ITU-T H.273: 1 BT.709, 5 and 6 BT.601, 9 BT.2020, 2 unspecified,
            which is taken as BT.601.
        color_range: FFmpeg's number: 1 limited, 2 full, 0 unspecified, which is limited except for the yuvj formats.
        chroma_location: Where chroma lies among luma, by FFmpeg's number: 1 left, 2 centre, 3 top left, ...; 0
            unspecified, which is taken as centre. Only a resize in one pass with the colours looks at it.
        is_interlaced: Whether the picture is made of two fields.
        orientation: How it is to be turned, as far as the picture says so itself; what the container says of all
            pictures is not a backend's business.
        reading: Makes a context within which the planes may be read, and converted, on the current stream of their
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
        """Of all planes."""
        return sum(plane.nbytes for plane in self.planes)
