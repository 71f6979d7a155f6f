"""The rows of a table with a media column: `TableItems`; and media values in Arrow memory."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from typing import Any, Protocol

import numpy as np

from ..._engine.sources.readers import MemoryReader, Reader
from ..._engine.sources.source import Source
from ...errors import MediaTensorError
from .items import Item, LabelCoding, LazyItems, UnreadableSource
from .rows import Columns, item_of_row, segment_of_row


class Media(Protocol):
    """The media of a table, by row."""

    #: Whether a forked process can read the media.
    is_fork_safe: bool

    def __getitem__(self, row: int) -> bytes | Source | None: ...


class TableItems(LazyItems):
    """The items of a table with a media column.

    Args:
        path: The table.
        columns: The columns with the file, the label and the segment.
        rows: The values of the other columns.
        media_leaf: The column with bytes, or ``column.bytes``.
        media: The values of the media column.
    """

    def __init__(self, path: str, columns: Columns, rows: list[dict[str, Any]], media_leaf: str, media: Media) -> None:
        super().__init__()
        self._path = path
        self._columns = columns
        self._rows = rows
        self._media_leaf = media_leaf
        # The name of a plain column may also contain a dot.
        self._media_struct = columns.media if media_leaf == f"{columns.media}.bytes" else None
        self._media = media
        # Check segments now, rather than when a training reads the row.
        for number, row in enumerate(rows):
            segment_of_row(row, columns, f"row {number} of {path}")
        self._label_column = next((name for name in columns.label_names if name in rows[0]), None)
        self._coding = LabelCoding.of(map(self._label, range(len(rows))), columns.classes)

    @property
    def is_fork_safe(self) -> bool:
        return self._media.is_fork_safe

    def _portable_names(self) -> list[str]:
        table = os.path.basename(self._path)
        return [self._path_beside_media(row) or f"row {number} of {table}" for number, row in enumerate(self._rows)]

    def _path_beside_media(self, row: dict[str, Any]) -> str | None:
        media = row.get(self._media_struct) if self._media_struct is not None else None
        path = media.get("path") if isinstance(media, dict) else None
        return path if isinstance(path, str) else None

    def __len__(self) -> int:
        return len(self._rows)

    def files(self) -> Iterator[str]:
        """Yield the files of the table, and the files that rows name instead of bytes."""
        yield self._path
        for folder, _, names in os.walk(self._path):  # a Lance dataset has many files
            yield from (os.path.join(folder, name) for name in names)
        if self._media_struct is not None:
            for row in self._rows:
                path = (row.get(self._media_struct) or {}).get("path")
                if isinstance(path, str):
                    yield path if "://" in path else os.path.join(os.path.dirname(self._path), path)

    def _make(self, index: int) -> Item:
        place = f"row {index} of {self._path}"
        try:
            data = self._media[index]
        except MediaTensorError as error:  # so that the dataset's error policy applies
            return self._coding.apply(Item(UnreadableSource(f"{place}: {error}"), self._label(index), place))
        return self.with_media(index, data)

    def with_media(self, index: int, data: bytes | Source | None) -> Item:
        """Return the item of a row, with ``data`` as its media."""
        place = f"row {index} of {self._path}"
        row, column = self._rows[index], self._media_struct
        if column is not None:
            row = {**row, column: {**(row.get(column) or {}), "bytes": data}}
        else:
            row = {**row, self._media_leaf: data}
        folder = os.path.dirname(self._path)
        return self._coding.apply(item_of_row(row, self._columns, place=place, folder=folder, may_be_empty=True))

    def _label(self, index: int) -> Any:
        return None if self._label_column is None else self._rows[index][self._label_column]


# Arrow: large values stay in memory, or in a memory-mapped file

#: Values up to this size are read at once, because a decoder would request most of the bytes anyway.
MAX_WHOLE_BYTES = 1 << 16
_VIEW_BYTES, _INLINE_BYTES = 16, 12


class BufferSource(Source):
    """A ``pyarrow.Buffer`` of a column; only the requested bytes are copied."""

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer

    def open(self) -> Reader:
        return MemoryReader(memoryview(self._buffer))

    def open_bytes(self) -> Reader:
        return self.open()

    def describe(self) -> str:
        return f"value of {self._buffer.size} bytes"


def is_binary(arrow_type: Any) -> bool:
    """Return whether values of an Arrow type are bytes, in any layout."""
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
    """Return whether a column is a struct of bytes and path, as in Hugging Face datasets."""
    import pyarrow.types

    if not pyarrow.types.is_struct(arrow_type):
        return False
    fields = {arrow_type.field(i).name: arrow_type.field(i).type for i in range(arrow_type.num_fields)}
    return "bytes" in fields and is_binary(fields["bytes"])


def row_of_table(table: Any, media: Container[str]) -> dict[str, Any]:
    """Return the only row of a ``pyarrow.Table`` as Python objects; `media_of` converts the columns in ``media``."""
    row = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        (chunk,) = (chunk for chunk in column.chunks if len(chunk))
        row[name] = media_of(chunk) if name in media else chunk[0].as_py()
    return row


def media_of(array: Any) -> Any:
    """Return the first value of an array: bytes, a `BufferSource` for large bytes, or a dict of them for a struct."""
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
    """Return the buffer of the first value in an array of bytes, and the value's first byte and end in the buffer."""
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
