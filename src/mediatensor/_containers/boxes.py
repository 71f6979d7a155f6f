"""The boxes that ISO media files (MP4, QuickTime) are made of: where they are, and their fields. No box is trusted.

Whatever does not add up raises `MalformedBoxError`. Sizes are checked against what is there before anything is read or
allocated, so the cost is bounded by the size of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Box",
    "Fields",
    "MalformedBoxError",
    "ReadAt",
    "children",
    "find",
    "find_all",
    "read_box",
    "top_level_boxes",
]

#: Gives ``size`` bytes at ``position`` of a file, fewer at its end.
ReadAt = Callable[[int, int], bytes]

# More than any file has that is not made to waste time; a fragment is two of them.
_MAX_TOP_LEVEL_BOXES = 1 << 21
# The header of a film of a day takes a tenth of that.
_MAX_BOX_BYTES = 1 << 28
_MAX_CHILDREN = 1 << 16

_HEADER_BYTES = 16


class MalformedBoxError(Exception):
    """Boxes that do not add up, or that are not understood."""


class Box(NamedTuple):
    """Where a box is.

    Attributes:
        kind: Its four characters.
        start: Where its header begins.
        body: Where its content begins.
        end: Where it ends.
    """

    kind: bytes
    start: int
    body: int
    end: int


def _box_at(header: bytes, start: int, end: int) -> Box:
    """The box whose header begins with ``header``, at ``start`` of a space that goes to ``end`` (ISO 14496-12, 4.2)."""
    if len(header) < 8:
        raise MalformedBoxError("a box header is cut off")
    size, kind = struct.unpack_from(">I4s", header)
    body = start + 8
    if size == 1:
        if len(header) < _HEADER_BYTES:
            raise MalformedBoxError("a box header is cut off")
        size, body = struct.unpack_from(">Q", header, 8)[0], start + _HEADER_BYTES
    elif size == 0:
        size = end - start
    if start + size < body or start + size > end:
        raise MalformedBoxError(f"box {kind!r} of {size} bytes at {start} does not fit into what holds it")
    return Box(kind, start, body, start + size)


def top_level_boxes(read_at: ReadAt, file_size: int) -> Iterator[Box]:
    """The outermost boxes of a file, reading nothing but their headers.

    Raises:
        MalformedBoxError: if one reaches beyond the end of the file.
    """
    position = 0
    for _ in range(_MAX_TOP_LEVEL_BOXES):
        if position >= file_size:
            return
        box = _box_at(read_at(position, min(_HEADER_BYTES, file_size - position)), position, file_size)
        yield box
        position = box.end
    raise MalformedBoxError("the file has too many boxes")


def read_box(read_at: ReadAt, box: Box) -> memoryview:
    """The content of a box.

    Raises:
        MalformedBoxError: if it is too large to be a header, or cut off.
    """
    size = box.end - box.body
    if size > _MAX_BOX_BYTES:
        raise MalformedBoxError(f"box {box.kind!r} has {size} bytes")
    data = read_at(box.body, size)
    if len(data) != size:
        raise MalformedBoxError(f"box {box.kind!r} is cut off")
    return memoryview(data)


def children(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """(kind, content) of the boxes that lie in ``data`` one after the other."""
    position = 0
    for _ in range(_MAX_CHILDREN):
        # QuickTime ends some lists of boxes with four zero bytes.
        if position == len(data) or bytes(data[position:]) == bytes(4):
            return
        box = _box_at(bytes(data[position : position + _HEADER_BYTES]), position, len(data))
        yield box.kind, data[box.body : box.end]
        position = box.end
    raise MalformedBoxError("a box holds too many others")


def find_all(data: memoryview, *path: bytes) -> list[memoryview]:
    """The contents of all boxes at a path, such as ``b"trak", b"mdia"``."""
    found = [data]
    for name in path:
        found = [content for parent in found for kind, content in children(parent) if kind == name]
    return found


def find(data: memoryview, *path: bytes) -> memoryview:
    """The content of the one box at a path.

    Raises:
        MalformedBoxError: if there is none or more than one.
    """
    found = find_all(data, *path)
    if len(found) != 1:
        raise MalformedBoxError(f"{len(found)} boxes {b'/'.join(path)!r}")
    return found[0]


class Fields:
    """Reads the fields of a box that begins with a version and flags, one after the other.

    Args:
        data: The content of the box.
    """

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0
        word = self.unsigned()
        self.version, self.flags = word >> 24, word & 0xFFFFFF

    def unsigned(self, num_bytes: int = 4) -> int:
        return int.from_bytes(self._take(num_bytes), "big")

    def signed(self, num_bytes: int = 4) -> int:
        return int.from_bytes(self._take(num_bytes), "big", signed=True)

    def skip(self, num_bytes: int) -> None:
        self._take(num_bytes)

    def array(self, count: int, dtype: str, columns: int = 1) -> NDArray[np.int64]:
        """``count`` rows of numbers as int64: (count,), or (count, columns)."""
        item = np.dtype(dtype).itemsize
        data = self._take(count * columns * item)  # fails before anything is allocated
        numbers = np.frombuffer(data, dtype).astype(np.int64)
        return numbers if columns == 1 else numbers.reshape(count, columns)

    def rest(self) -> memoryview:
        return self._data[self._position :]

    def _take(self, num_bytes: int) -> memoryview:
        taken = self._data[self._position : self._position + num_bytes]
        if len(taken) != num_bytes:
            raise MalformedBoxError("a box ends before its fields do")
        self._position += num_bytes
        return taken
