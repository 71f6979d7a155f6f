"""Read the display matrix that a container states, without decoding, and store one in an mp4 or mov file."""

from __future__ import annotations

import io
import struct
from typing import Any

import av

from ..common.pictures import Orientation
from ..containers.boxes import find_all

#: Container formats that can store a display matrix.
FORMATS_THAT_TURN = frozenset(("mov", "mp4", "matroska", "webm"))

# One of these muxers accepts any codec that is used with a display matrix, except VP8 and Theora.
_MUXERS = ("mov", "mp4")

# Offset of the display matrix in a track header, by version of the header (ISO 14496-12, 8.3.2). The matrix is in 16.16
# fixed point.
_ONE = 1 << 16
_MATRIX_AT = {0: 40, 1: 52}


def stated_orientation(stream: Any) -> Orientation | None:
    """Return the orientation that a container states for a stream; ``None`` if it states none, or it is unknown.

    ``stream`` is PyAV's stream. PyAV before version 19 hides the display matrix of a stream, but copies it with the
    stream. So FFmpeg writes the header of another file with this stream to memory, and the matrix is read from there.
    """
    if (
        stream.type != "video"
        or stream.codec_context is None
        or FORMATS_THAT_TURN.isdisjoint(stream.container.format.name.split(","))
    ):
        return None
    for muxer in _MUXERS:
        file = io.BytesIO()
        try:
            with av.open(file, "w", format=muxer, options={"movflags": "empty_moov"}) as output:
                output.add_stream_from_template(stream, opaque=True)
                output.start_encoding()
        except (av.FFmpegError, ValueError):
            continue
        header, position = _matrix_in(file.getbuffer())
        matrix = struct.unpack_from(">9i", header, position)
        return Orientation.from_display_matrix(struct.pack("=9i", *matrix))
    return None


def store_orientation(data: bytes, orientation: Orientation) -> bytes:
    """Return an mp4 or mov file whose first track has a display matrix; see `Orientation.from_display_matrix`."""
    file = memoryview(bytearray(data))
    header, position = _matrix_in(file)
    sign = {False: _ONE, True: -_ONE}
    along_row, along_column = sign[orientation.flipped_horizontally], sign[orientation.flipped_vertically]
    a, b, c, d = (0, along_column, along_row, 0) if orientation.transposed else (along_row, 0, 0, along_column)
    struct.pack_into(">9i", header, position, a, b, 0, c, d, 0, 0, 0, 1 << 30)
    return bytes(file)


def _matrix_in(file: memoryview) -> tuple[memoryview, int]:
    """Return the header of the first track of an mp4 or mov file, and the position of the matrix in it."""
    header = find_all(file, b"moov", b"trak", b"tkhd")[0]
    return header, _MATRIX_AT[header[0]]
