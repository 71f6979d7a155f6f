"""Parse the boxes of ISO media files (MP4, QuickTime): where they are, and the fields in them.

Files can be damaged or malicious. Invalid boxes raise `MalformedBoxError`. Sizes are checked before anything is read or
allocated, so time and memory are bounded by the size of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Function that reads bytes of a file, given (position, size). At the end of the file, it returns fewer bytes.
ReadAt = Callable[[int, int], bytes]

# More boxes than any valid file has; a fragment is two boxes.
_MAX_TOP_LEVEL_BOXES = 1 << 21
# Ten times the size of the header of a video of one day.
_MAX_BOX_BYTES = 1 << 28
_MAX_CHILDREN = 1 << 16

_SHORT_HEADER = struct.Struct(">I4s")
_HEADER_BYTES = 16


class MalformedBoxError(Exception):
    """The structure of an ISO media or Matroska file is invalid, or not supported here."""


class Box(NamedTuple):
    """A box: ``kind`` (four characters), and the positions of its header, its content and the next box."""

    kind: bytes
    start: int
    body: int
    end: int


def _box_at(header: bytes, start: int, end: int) -> Box:
    """Parse the header of the box at ``start``. The box must end at or before ``end`` (ISO 14496-12, 4.2)."""
    if len(header) < 8:
        raise MalformedBoxError("a box header is cut off")
    size, kind = _SHORT_HEADER.unpack_from(header)
    body = start + 8
    if size == 1:
        if len(header) < _HEADER_BYTES:
            raise MalformedBoxError("a box header is cut off")
        size, body = struct.unpack_from(">Q", header, 8)[0], start + _HEADER_BYTES
    elif size == 0:
        size = end - start
    if start + size < body or start + size > end:
        raise MalformedBoxError(f"box {kind!r} of {size} bytes at {start} does not fit into its parent")
    return Box(kind, start, body, start + size)


def top_level_boxes(read_at: ReadAt, file_size: int) -> Iterator[Box]:
    """Yield the outermost boxes of a file, reading only their headers."""
    position = 0
    for _ in range(_MAX_TOP_LEVEL_BOXES):
        if position >= file_size:
            return
        box = _box_at(read_at(position, min(_HEADER_BYTES, file_size - position)), position, file_size)
        yield box
        position = box.end
    raise MalformedBoxError("the file has too many boxes")


def read_box(read_at: ReadAt, box: Box) -> memoryview:
    """Return the content of a box. Raise `MalformedBoxError` if it is cut off, or larger than any valid header."""
    size = box.end - box.body
    if size > _MAX_BOX_BYTES:
        raise MalformedBoxError(f"box {box.kind!r} has {size} bytes")
    data = read_at(box.body, size)
    if len(data) != size:
        raise MalformedBoxError(f"box {box.kind!r} is cut off")
    return memoryview(data)


#: Pairs (kind, content) of boxes.
Boxes = list[tuple[bytes, memoryview]]


def children(data: memoryview) -> Boxes:
    """Split ``data`` into the boxes that it contains.

    >>> [(kind, bytes(content)) for kind, content in children(memoryview(b"\\0\\0\\0\\x0afree\\1\\2"))]
    [(b'free', b'\\x01\\x02')]
    """
    boxes: Boxes = []
    position, end = 0, len(data)
    for _ in range(_MAX_CHILDREN):
        # QuickTime ends some lists of boxes with four zero bytes.
        if position == end or (end - position == 4 and bytes(data[position:]) == bytes(4)):
            return boxes
        if end - position < _SHORT_HEADER.size:
            raise MalformedBoxError("a box header is cut off")
        size, kind = _SHORT_HEADER.unpack_from(data, position)
        body, stop = position + 8, position + size
        if size < 8 or stop > end:  # a 64-bit size, a size of 0, or an invalid size
            _, _, body, stop = _box_at(bytes(data[position : position + _HEADER_BYTES]), position, end)
        boxes += [(kind, data[body:stop])]
        position = stop
    raise MalformedBoxError("a box has too many children")


def find_all(data: memoryview | Boxes, *path: bytes) -> list[memoryview]:
    """Return the contents of all boxes at a path, such as ``b"trak", b"mdia"``: all ``mdia`` boxes in ``trak`` boxes.

    ``data`` is the content of a box, or a list of boxes from `children`.
    """
    first, *rest = path
    contents = [content for kind, content in (data if isinstance(data, list) else children(data)) if kind == first]
    for name in rest:
        contents = [content for parent in contents for kind, content in children(parent) if kind == name]
    return contents


def find(boxes: Boxes, kind: bytes) -> memoryview:
    """Return the content of the only box of a kind. Raise `MalformedBoxError` unless there is one."""
    contents = [content for each, content in boxes if each == kind]
    if len(contents) != 1:
        raise MalformedBoxError(f"{len(contents)} boxes {kind!r}")
    return contents[0]


# Offset of the display matrix in a track header, by version of the header (ISO 14496-12, 8.3.2).
_MATRIX_AT = {0: 40, 1: 52}


def display_matrix(file: memoryview) -> memoryview:
    """Return the bytes of the display matrix of the first track of an mp4 or mov file: nine big-endian integers."""
    header = find_all(file, b"moov", b"trak", b"tkhd")[0]
    start = _MATRIX_AT[header[0]]
    return header[start : start + 36]


class Fields:
    """Reads the fields of a box one after another. A version and flags, which must come first, are read immediately."""

    def __init__(self, data: memoryview) -> None:
        if len(data) < 4:
            raise MalformedBoxError("a box ends before its fields do")
        self._data = data
        self._position = 4
        self.version, self.flags = data[0], int.from_bytes(data[1:4], "big")

    def unsigned(self, num_bytes: int = 4) -> int:
        return int.from_bytes(self.take(num_bytes), "big")

    def signed(self, num_bytes: int = 4) -> int:
        return int.from_bytes(self.take(num_bytes), "big", signed=True)

    def take(self, num_bytes: int) -> memoryview:
        """Return the next ``num_bytes`` bytes. Raise `MalformedBoxError` if the box has fewer bytes left."""
        start, self._position = self._position, self._position + num_bytes
        if self._position > len(self._data):
            raise MalformedBoxError("a box ends before its fields do")
        return self._data[start : self._position]

    def array(self, count: int, dtype: str, columns: int = 1) -> NDArray[np.int64]:
        """Read ``count`` rows of numbers as int64 of shape (count,), or (count, columns) for several columns."""
        data = self.take(count * columns * np.dtype(dtype).itemsize)  # raises before anything is allocated
        numbers = np.frombuffer(data, dtype).astype(np.int64)
        return numbers if columns == 1 else numbers.reshape(count, columns)

    def rest(self) -> memoryview:
        return self._data[self._position :]
