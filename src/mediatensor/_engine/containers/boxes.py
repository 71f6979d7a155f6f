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
    "Boxes",
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

_SHORT_HEADER = struct.Struct(">I4s")
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
    size, kind = _SHORT_HEADER.unpack_from(header)
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


#: (kind, content) of boxes.
Boxes = list[tuple[bytes, memoryview]]


def children(data: memoryview) -> Boxes:
    """The boxes that lie in ``data`` one after the other.

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
        if size < 8 or stop > end:  # a size of another form, or one that cannot be
            _, _, body, stop = _box_at(bytes(data[position : position + _HEADER_BYTES]), position, end)
        boxes += [(kind, data[body:stop])]
        position = stop
    raise MalformedBoxError("a box holds too many others")


def find_all(data: memoryview | Boxes, *path: bytes) -> list[memoryview]:
    """The contents of all boxes at a path, such as ``b"trak", b"mdia"``, in a box or among boxes."""
    first, *others = path
    found = [content for kind, content in (data if isinstance(data, list) else children(data)) if kind == first]
    for name in others:
        found = [content for parent in found for kind, content in children(parent) if kind == name]
    return found


def find(data: memoryview | Boxes, *path: bytes) -> memoryview:
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
        self._size = len(data)
        self._position = 0
        word = self.unsigned()
        self.version, self.flags = word >> 24, word & 0xFFFFFF

    def unsigned(self, num_bytes: int = 4) -> int:
        start = self._position
        self.skip(num_bytes)
        return int.from_bytes(self._data[start : self._position], "big")

    def signed(self, num_bytes: int = 4) -> int:
        start = self._position
        self.skip(num_bytes)
        return int.from_bytes(self._data[start : self._position], "big", signed=True)

    def skip(self, num_bytes: int) -> None:
        """Pass over bytes; they must be there."""
        if self._position + num_bytes > self._size:
            raise MalformedBoxError("a box ends before its fields do")
        self._position += num_bytes

    def array(self, count: int, dtype: str, columns: int = 1) -> NDArray[np.int64]:
        """``count`` rows of numbers as int64: (count,), or (count, columns)."""
        start = self._position
        self.skip(count * columns * np.dtype(dtype).itemsize)  # fails before anything is allocated
        numbers = np.frombuffer(self._data[start : self._position], dtype).astype(np.int64)
        return numbers if columns == 1 else numbers.reshape(count, columns)

    def rest(self) -> memoryview:
        return self._data[self._position :]
