"""Map the colours of decoded frames through a table, with FFmpeg's filter haldclut."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from ...errors import DecodeError
from .opening import error_text
from .pixels import ScaleFilter

#: Number of points of a table along each axis: the square of a whole number, as the filter requires.
POINTS_PER_AXIS = 64
_SIDE = round(POINTS_PER_AXIS**1.5)  # of the square frame that stores a table
# In FFmpeg 8, the filter swaps the colours of tables in gbrp16, and takes four times as long for interleaved formats.
_FORMAT = "gbrpf32le"
_PLANES = (2, 0, 1)  # of red, green and blue
_TICK = Fraction(1, 1000)


class ColourTable:
    """Maps R'G'B' through a table, with tetrahedral interpolation. Use one object per thread.

    ``table`` is float32 (`POINTS_PER_AXIS`,) * 3 + (3,). For each point (blue, green, red) of the cube [0, 1]³, it has
    the result (red, green, blue), of any range.
    """

    def __init__(self, table: NDArray[np.float32]) -> None:
        self._table = table
        self._to_rgb = ScaleFilter(_FORMAT)
        self._graph: Any = None
        self._size: tuple[int, int] | None = None
        self._num_pushed = 0

    def map(self, frame: Any) -> tuple[NDArray[np.float32], ...]:
        """Return red, green and blue of a frame, each a view (height, width), not rotated.

        Raises `DecodeError` if FFmpeg cannot convert the frame to RGB.
        """
        try:
            rgb = self._to_rgb.convert(frame)
            size = (rgb.width, rgb.height)
            if size != self._size:
                self._build(*size)
            self._size = None  # an error leaves the graph unusable
            rgb.pts, rgb.time_base = self._num_pushed, _TICK  # frames must arrive in the order of their times
            self._source.push(rgb)
            mapped = self._graph.pull()
        except av.FFmpegError as error:
            raise DecodeError(
                f"A frame could not be converted to RGB from format {frame.format.name}: {error_text(error)}. The file "
                "may be damaged."
            ) from error
        self._size = size
        self._num_pushed += 1
        planes = (mapped.planes[number] for number in _PLANES)
        return tuple(np.frombuffer(plane, "<f4").reshape(rgb.height, -1)[:, : rgb.width] for plane in planes)

    def _build(self, width: int, height: int) -> None:
        self._graph = graph = av.filter.Graph()
        graph.threads = 1
        options: dict[str, Any] = {"format": _FORMAT, "time_base": _TICK}
        self._source = graph.add_buffer(width=width, height=height, **options)
        table = graph.add_buffer(width=_SIDE, height=_SIDE, **options)
        mapping, sink = graph.add("haldclut", "clut=first"), graph.add("buffersink")
        self._source.link_to(mapping, 0, 0)
        table.link_to(mapping, 0, 1)
        mapping.link_to(sink)
        graph.configure()
        frame: Any = av.VideoFrame(_SIDE, _SIDE, _FORMAT)
        frame.pts, frame.time_base = 0, _TICK
        flat = self._table.reshape(_SIDE, _SIDE, 3).astype("<f4")
        for channel, number in enumerate(_PLANES):
            frame.planes[number].update(flat[..., channel].tobytes())  # its lines have no padding
        table.push(frame)
        table.push(None)
        self._num_pushed = 0
