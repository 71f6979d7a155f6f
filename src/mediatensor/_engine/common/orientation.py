"""How a stored picture is turned to be shown upright."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Orientation"]


@dataclass(frozen=True)
class Orientation:
    """How a stored picture is turned to be shown upright: transpose first, then flip.

    Attributes:
        transposed: Rows become columns.
        flipped_horizontally: Left and right are swapped, after transposing.
        flipped_vertically: Top and bottom are swapped, after transposing.
        rotation: The same as a counter-clockwise angle in degrees, if it is a pure rotation of the display matrix.
    """

    transposed: bool = False
    flipped_horizontally: bool = False
    flipped_vertically: bool = False
    rotation: float | None = None

    @classmethod
    def from_display_matrix(cls, matrix: bytes, rotation: float | None) -> Orientation:
        """Round a display matrix (nine native 32-bit integers, as in ISO 14496-12) to the nearest quarter turn.

        The matrix sends the point (x, y) to (a x + c y, b x + d y); the larger diagonal says whether
        x and y change places, the signs say which way they run.
        """
        a, b, _, c, d, *_ = struct.unpack("=9i", matrix[:36])
        if abs(a) + abs(d) >= abs(b) + abs(c):
            return cls(False, a < 0, d < 0, rotation)
        return cls(True, c < 0, b < 0, rotation)

    @classmethod
    def from_rotation(cls, rotation: float | None) -> Orientation:
        """Round a counter-clockwise angle in degrees to the nearest quarter turn.

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
        """The orientation that EXIF numbers 1 to 8.

        >>> Orientation.from_exif(6)
        Orientation(transposed=True, flipped_horizontally=True, flipped_vertically=False, rotation=None)
        """
        return cls(number >= 5, number in (2, 3, 6, 7), number in (3, 4, 7, 8))

    @property
    def turns(self) -> bool:
        """Whether the picture has to be turned or flipped at all."""
        return self.transposed or self.flipped_horizontally or self.flipped_vertically

    def size(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) of a picture after turning it."""
        return (width, height) if self.transposed else (height, width)

    def apply(self, pixels: NDArray[Any]) -> NDArray[Any]:
        """A turned view of (H, W, C) or (H, W) pixels."""
        if self.transposed:
            pixels = pixels.swapaxes(0, 1)
        if self.flipped_vertically:
            pixels = pixels[::-1]
        if self.flipped_horizontally:
            pixels = pixels[:, ::-1]
        return pixels

    def undo(self, upright: NDArray[Any]) -> NDArray[Any]:
        """A view of upright (H, W, C) pixels in which the picture lies as it is stored; writing to it turns."""
        if self.flipped_vertically:
            upright = upright[::-1]
        if self.flipped_horizontally:
            upright = upright[:, ::-1]
        return upright.transpose(1, 0, 2) if self.transposed else upright

    def apply_to_tensor(self, pixels: Tensor) -> Tensor:
        """(H, W, C) pixels turned; a view where torch has one."""
        if self.transposed:
            pixels = pixels.transpose(0, 1)
        axes = [axis for axis, flips in ((0, self.flipped_vertically), (1, self.flipped_horizontally)) if flips]
        return pixels.flip(axes) if axes else pixels
