"""Read the data that FFmpeg's decoders export for the blocks of a frame: motion vectors, quantisation parameters.

The values are written to a grid with one cell for each square of `CELL` pixels. Cells start at the upper left corner of
the stored frame. Blocks of the exporting codecs consist of whole cells, so a grid has all of their values.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from av.sidedata.sidedata import Type
from numpy.typing import NDArray

from ..common.pictures import Orientation
from .pixels import Converter, side_data_of

#: FFmpeg's names of the exports, as in its codec option ``export_side_data``.
ExportKind = Literal["mvs", "venc_params"]

#: Width and height of a cell in pixels.
CELL = 8

# MPEG-4, its ancestors and relatives. Their decoders share the code that exports, and H.261's is the oldest of them.
_MPEG_FAMILY = frozenset((
    "flv1", "h263", "mpeg1video", "mpeg2video", "mpeg4", "msmpeg4v2", "msmpeg4v3", "rv10", "rv20", "wmv1", "wmv2",
))  # fmt: skip
#: FFmpeg's names of the codecs whose exports have been tested.
EXPORTING_CODECS: dict[ExportKind, frozenset[str]] = {
    "mvs": _MPEG_FAMILY | {"h261", "h264"},
    "venc_params": _MPEG_FAMILY | {"h264", "vp9"},
}


class ExportConverter(Converter):
    """Writes the data that a codec exports for a frame to cells, instead of pixels. This works only on the CPU."""

    _kind: ClassVar[Type]
    _num_channels: ClassVar[int]

    def output_size(self, picture: Any, orientation: Orientation) -> tuple[int, int]:
        return grid_size(*orientation.size(picture.height, picture.width))

    def empty(self, num_rows: int, height: int, width: int) -> NDArray[np.float32]:
        return np.empty((num_rows, height, width, self._num_channels), np.float32)

    def write(self, picture: Any, orientation: Orientation, out: NDArray[np.float32]) -> None:
        """Write the values of a frame to ``out`` (height, width, channels). Cells without a value are NaN."""
        exported = side_data_of(picture, self._kind)
        if exported is None:
            out[...] = np.nan
            return
        cells = self._cells(exported, *grid_size(picture.height, picture.width))
        out[...] = self._turn(orientation.apply(cells), orientation) if orientation.turns else cells

    @abstractmethod
    def _cells(self, exported: Any, num_rows: int, num_columns: int) -> NDArray[np.float32]:
        """Return the values of PyAV's side data in cells (num_rows, num_columns, channels) of the stored frame."""

    def _turn(self, cells: NDArray[np.float32], orientation: Orientation) -> NDArray[np.float32]:
        """Change the values of cells that have been turned upright."""
        return cells


class MotionConverter(ExportConverter):
    """Writes motion vectors (x, y) to the past reference, then to the future reference, in pixels of the upright frame.

    A vector points from the block to the place in the reference frame that predicts the block.
    """

    _kind = Type.MOTION_VECTORS
    _num_channels = 4

    def _cells(self, exported: Any, num_rows: int, num_columns: int) -> NDArray[np.float32]:
        vectors = exported.to_ndarray()
        width, height = vectors["w"].astype(np.int64), vectors["h"].astype(np.int64)
        left, top = vectors["dst_x"] - width // 2, vectors["dst_y"] - height // 2
        # A complex number is x and y, so that NumPy moves both at once.
        values = np.empty(len(vectors), np.complex64)
        scale = np.maximum(vectors["motion_scale"], 1).astype(np.float32)
        values.real, values.imag = vectors["motion_x"] / scale, vectors["motion_y"] / scale
        is_future = (vectors["source"] > 0).astype(np.int64)
        cells = _fill_blocks((num_rows, num_columns, 2), left, top, width, height, values, is_future)
        return np.ascontiguousarray(cells).view(np.float32)

    def _turn(self, cells: NDArray[np.float32], orientation: Orientation) -> NDArray[np.float32]:
        if orientation.transposed:
            cells = cells[..., [1, 0, 3, 2]]
        x, y = (-1 if flips else 1 for flips in (orientation.flipped_horizontally, orientation.flipped_vertically))
        return cells * np.array([x, y, x, y], np.float32)


class QuantiserConverter(ExportConverter):
    """Writes the quantisation parameter of luma, in the units of the codec."""

    _kind = Type.VIDEO_ENC_PARAMS
    _num_channels = 1

    def _cells(self, exported: Any, num_rows: int, num_columns: int) -> NDArray[np.float32]:
        size = (num_rows, num_columns, 1)
        if exported.nb_blocks == 0:  # all blocks have the parameter of the frame
            return np.full(size, exported.qp, np.float32)
        names = ("src_x", "src_y", "w", "h", "delta_qp")
        layout = {"names": names, "formats": ["i4"] * 5, "offsets": range(0, 20, 4), "itemsize": exported.block_size}
        # NumPy checks that the blocks lie within the side data.
        blocks: Any = np.ndarray((exported.nb_blocks,), np.dtype(layout), exported, exported.blocks_offset)  # type: ignore[call-overload]
        left, top, width, height = (blocks[name].astype(np.int64) for name in names[:4])
        values = (exported.qp + blocks["delta_qp"]).astype(np.float32)
        return _fill_blocks(size, left, top, width, height, values, np.zeros(len(values), np.int64))


def export_converter(kind: ExportKind) -> ExportConverter:
    return MotionConverter() if kind == "mvs" else QuantiserConverter()


def grid_size(height: int, width: int) -> tuple[int, int]:
    """Return how many rows and columns of cells a frame of ``height`` and ``width`` pixels has.

    >>> grid_size(360, 636)
    (45, 80)
    """
    return -(-height // CELL), -(-width // CELL)


# The largest block, VP9's, in cells. Blocks can reach over the edges of the frame.
_MAX_BLOCK_CELLS = 8


def _fill_blocks(
    size: tuple[int, int, int],
    left: NDArray[np.int64],
    top: NDArray[np.int64],
    width: NDArray[np.int64],
    height: NDArray[np.int64],
    values: NDArray[Any],
    layers: NDArray[np.int64],
) -> NDArray[Any]:
    """Return an array of ``size`` (rows, columns, layers) with ``values[i]`` in all cells of block i in its layer.

    Cells without a block are NaN.
    """
    num_rows, num_columns, num_layers = size
    stride = (num_columns + _MAX_BLOCK_CELLS) * num_layers
    padded = np.empty((num_rows + _MAX_BLOCK_CELLS) * stride, values.dtype)
    padded.view(np.float32).fill(np.nan)
    rows, columns = top // CELL, left // CELL
    is_inside = (rows >= 0) & (rows < num_rows) & (columns >= 0) & (columns < num_columns)
    first_cells = rows * stride + columns * num_layers + layers
    sizes = np.minimum(width, CELL * _MAX_BLOCK_CELLS) << 8 | np.minimum(height, CELL * _MAX_BLOCK_CELLS)
    for block_size in np.unique(sizes).tolist():
        chosen = is_inside & (sizes == block_size)
        cells, cell_values = first_cells[chosen], values[chosen]
        for row in range(0, block_size & 255, CELL):
            for column in range(0, block_size >> 8, CELL):
                padded[cells + (row // CELL * stride + column // CELL * num_layers)] = cell_values
    return padded.reshape(-1, num_columns + _MAX_BLOCK_CELLS, num_layers)[:num_rows, :num_columns]
