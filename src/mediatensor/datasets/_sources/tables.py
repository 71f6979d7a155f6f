"""`TableItems`: the rows of a table with media in one of its columns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Protocol

from ..._engine.sources.source import Source
from ...errors import MediaTensorError
from .items import Item, LabelCoding, LazyItems, UnreadableSource
from .rows import Columns, item_of_row, segment_of_row

__all__ = ["Media", "TableItems"]


class Media(Protocol):
    """The media of a table, by row."""

    #: Whether they can be read in a forked process.
    is_fork_safe: bool

    def __getitem__(self, row: int) -> bytes | Source | None: ...


class TableItems(LazyItems):
    """The items of a table that has the media in it.

    Args:
        path: The table.
        columns: Which columns hold what.
        rows: The values of the other columns.
        media_leaf: The column with bytes, or ``column.bytes``.
        media: Its values.
    """

    def __init__(self, path: str, columns: Columns, rows: list[dict[str, Any]], media_leaf: str, media: Media) -> None:
        super().__init__()
        self._path = path
        self._columns = columns
        self._rows = rows
        self._media_leaf = media_leaf
        # The name of a plain column may contain a point, too.
        self._media_struct = columns.media if media_leaf == f"{columns.media}.bytes" else None
        self._media = media
        # Now, and not when a training comes to the row.
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
        """Yield the files of the table, and those that its rows name in place of bytes."""
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
        except MediaTensorError as error:  # for the error policy of whoever reads the row
            return self._coding.apply(Item(UnreadableSource(f"{place}: {error}"), self._label(index), place))
        return self.with_media(index, data)

    def with_media(self, index: int, data: bytes | Source | None) -> Item:
        """The item of a row with these media."""
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
