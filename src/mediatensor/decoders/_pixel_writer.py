"""Converting decoded pictures into the rows of one array."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._buffers import empty
from .._pyav import FrameConverter, Orientation
from .._stages import stage
from ..errors import SizeChangeError

__all__ = ["PixelWriter", "SizeChangePolicy"]

SizeChangePolicy = Literal["raise", "scale"]


class PixelWriter:
    """Writes frames into the rows of one array, which is made when the size of the first frame is known.

    Args:
        num_rows: Rows to allocate.
        size: (height, width) to scale frames of other sizes to; ``None`` if they are an error.
    """

    def __init__(self, num_rows: int, size: tuple[int, int] | None) -> None:
        self._num_rows = num_rows
        self._scale_to = size
        self._lock = Lock()
        self.pixels: NDArray[Any] | None = None

    def write(
        self, converter: FrameConverter, frame: Any, orientation: Orientation, rows: Sequence[int], name: str
    ) -> None:
        """Convert ``frame`` into the first of ``rows`` and copy it to the others. Threads may write different rows.

        Raises:
            SizeChangeError: if it has another size than the rows that were written before.
        """
        size = converter.output_size(frame, orientation)
        pixels = self._rows_for(self._scale_to or size, converter.dtype)
        if size != pixels.shape[1:3] and self._scale_to is None:
            raise SizeChangeError(
                f"{name} is {size[1]}x{size[0]} (width x height), but the frames before it are "
                f"{pixels.shape[2]}x{pixels.shape[1]}: the resolution of the stream changes. "
                "Pass on_size_change='scale' or transforms=[Resize(...)], or decode such frames one by one."
            )
        first, *others = rows
        with stage("convert"):
            converter.write(frame, orientation, pixels[first])
            for row in others:
                pixels[row] = pixels[first]

    def _rows_for(self, size: tuple[int, int], dtype: type[np.generic]) -> NDArray[Any]:
        with self._lock:
            if self.pixels is None:
                self.pixels = empty((self._num_rows, *size, 3), dtype)
            return self.pixels
