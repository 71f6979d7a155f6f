"""Converting decoded pictures into the rows of one array."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, Literal

from numpy.typing import NDArray
from torch import Tensor

from .._orientation import Orientation
from .._stages import stage
from ..backends import PictureConverter
from ..errors import SizeChangeError

__all__ = ["PixelWriter", "SizeChangePolicy"]

SizeChangePolicy = Literal["raise", "scale"]


class PixelWriter:
    """Writes frames into the rows of one array, which is made when the size of the first frame is known.

    Args:
        num_rows: Rows to allocate.
        size: (height, width) to scale frames of other sizes to; ``None`` if they are an error.
        orientation: How frames are turned that say nothing of it.
    """

    def __init__(self, num_rows: int, size: tuple[int, int] | None, orientation: Orientation | None = None) -> None:
        self._num_rows = num_rows
        self._scale_to = size
        self._orientation = orientation or Orientation()
        self._lock = Lock()
        self.pixels: NDArray[Any] | Tensor | None = None

    def write(self, converter: PictureConverter, picture: Any, rows: Sequence[int], name: str) -> None:
        """Convert a picture into the first of ``rows``, copy it to the others. Threads may write different rows.

        Raises:
            SizeChangeError: if it has another size than the rows that were written before.
        """
        orientation = converter.orientation_of(picture)
        if not orientation.turns:
            orientation = self._orientation
        size = converter.output_size(picture, orientation)
        pixels = self._rows_for(converter, self._scale_to or size)
        if size != tuple(pixels.shape[1:3]) and self._scale_to is None:
            raise SizeChangeError(
                f"{name} is {size[1]}x{size[0]} (width x height), but the frames before it are "
                f"{pixels.shape[2]}x{pixels.shape[1]}: the resolution of the stream changes. "
                "Pass on_size_change='scale' or transforms=[Resize(...)], or decode such frames one by one."
            )
        first, *others = rows
        with stage("convert"):
            converter.write(picture, orientation, pixels[first])
            for row in others:
                pixels[row] = pixels[first]

    def _rows_for(self, converter: PictureConverter, size: tuple[int, int]) -> Any:
        with self._lock:
            if self.pixels is None:
                self.pixels = converter.empty(self._num_rows, *size)
            return self.pixels
