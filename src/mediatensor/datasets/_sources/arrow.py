"""Media in columns of Arrow: large values stay where they are, in memory or in a file that is mapped into it."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np

from ..._engine.sources.readers import MemoryReader, Reader
from ..._engine.sources.source import Source

__all__ = ["MAX_WHOLE_BYTES", "BufferSource", "is_binary", "is_media_struct", "media_of", "row_of_table"]

#: A value up to this size is read at once: its decoder would ask for most of it.
MAX_WHOLE_BYTES = 1 << 16
_VIEW_BYTES, _INLINE_BYTES = 16, 12


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
    """Whether values of a type are bytes, in whichever layout."""
    from pyarrow import types

    if types.is_dictionary(arrow_type):
        return is_binary(arrow_type.value_type)
    return bool(
        types.is_binary(arrow_type)
        or types.is_large_binary(arrow_type)
        or types.is_fixed_size_binary(arrow_type)
        or _is_view(arrow_type)
    )


def _is_view(arrow_type: Any) -> bool:
    return str(arrow_type) == "binary_view"  # pyarrow before 16 has no such type


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
    if hasattr(array, "dictionary"):
        return media_of(array.dictionary.slice(array.indices[0].as_py(), 1))
    data, begin, end = _span_of_first(array)
    if end - begin <= MAX_WHOLE_BYTES:
        return b"" if end == begin else data.slice(begin, end - begin).to_pybytes()
    return BufferSource(data.slice(begin, end - begin))


def _span_of_first(array: Any) -> tuple[Any, int, int]:
    """The buffer that the first value of an array of bytes is in, its first byte there, and one past the last."""
    buffers = array.buffers()
    if _is_view(array.type):  # "Variable-size Binary View Layout" of Arrow's columnar format
        at = array.offset * _VIEW_BYTES
        size, _, number, begin = np.frombuffer(buffers[1], np.int32, count=4, offset=at).tolist()
        return (
            (buffers[1], at + 4, at + 4 + size) if size <= _INLINE_BYTES else (buffers[2 + number], begin, begin + size)
        )
    if str(array.type).startswith("fixed"):
        width = array.type.byte_width
        return buffers[1], array.offset * width, (array.offset + 1) * width
    offset = np.dtype(np.int64 if str(array.type).startswith("large") else np.int32)
    begin, end = np.frombuffer(buffers[1], offset, count=2, offset=array.offset * offset.itemsize).tolist()
    return buffers[2], begin, end
