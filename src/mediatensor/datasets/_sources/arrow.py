"""Media in columns of Arrow: large values stay where they are, in memory or in a file that is mapped into it."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np

from ..._sources import MemoryReader, Reader, Source

__all__ = ["MAX_WHOLE_BYTES", "BufferSource", "is_binary", "is_media_struct", "media_of", "row_of_table"]

#: A value up to this size is read at once: its decoder would ask for most of it.
MAX_WHOLE_BYTES = 1 << 16


class BufferSource(Source):
    """A value of a column, of which only what is asked for is copied.

    Args:
        buffer: A ``pyarrow.Buffer``.
    """

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer

    def open(self) -> Reader:
        return MemoryReader(memoryview(self._buffer))

    def open_bytes(self) -> Reader:
        return self.open()

    def describe(self) -> str:
        return f"value of {self._buffer.size} bytes"


def is_binary(arrow_type: Any) -> bool:
    """Whether values of a type are bytes."""
    import pyarrow.types

    return bool(pyarrow.types.is_binary(arrow_type) or pyarrow.types.is_large_binary(arrow_type))


def is_media_struct(arrow_type: Any) -> bool:
    """Whether a column is one of Hugging Face's, a struct of bytes and path."""
    import pyarrow.types

    if not pyarrow.types.is_struct(arrow_type):
        return False
    fields = {arrow_type.field(i).name: arrow_type.field(i).type for i in range(arrow_type.num_fields)}
    return "bytes" in fields and is_binary(fields["bytes"])


def row_of_table(table: Any, media: Container[str]) -> dict[str, Any]:
    """The values of a table of one row, as Python has them, except for media: these are as of `media_of`.

    Args:
        table: A ``pyarrow.Table``.
        media: The columns that may hold media.
    """
    row = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        (chunk,) = (chunk for chunk in column.chunks if len(chunk))
        row[name] = media_of(chunk) if name in media else chunk[0].as_py()
    return row


def media_of(array: Any) -> Any:
    """The first value of an array: bytes, or if they are many, a `BufferSource`; the ``bytes`` of a struct as these."""
    if array.slice(0, 1).null_count:  # not `array[0]`, which would be a copy
        return None
    if is_media_struct(array.type):
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        return {
            name: media_of(array.field(name)) if name == "bytes" else array.field(name)[0].as_py() for name in names
        }
    if not is_binary(array.type):
        return array[0].as_py()
    _, offsets, data = array.buffers()
    width = np.dtype(np.int64 if str(array.type).startswith("large") else np.int32)
    begin, end = np.frombuffer(offsets, width, count=2, offset=array.offset * width.itemsize).tolist()
    if end - begin <= MAX_WHOLE_BYTES:
        return b"" if end == begin else data.slice(begin, end - begin).to_pybytes()
    return BufferSource(data.slice(begin, end - begin))
