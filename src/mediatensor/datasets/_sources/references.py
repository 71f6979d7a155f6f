"""Files as a few plain columns, which can be sent to another machine, and the files that such columns name.

A row names its file by ``path``. A file may also be a part of another one: bytes of a tar shard, or a value of a
Parquet table. The reader of the row opens the part itself, so the bytes are not sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..._engine.common.checks import shown
from ..._engine.sources.source import PathSource, Source, SpanSource
from ...errors import InvalidArgumentError
from .items import Item, LabelledItems, UnreadableSource
from .lerobot import EpisodeFiles
from .parquet import HuggingFaceItems, ParquetItems, ParquetValue
from .tables import TableItems
from .tar_format import TarMember
from .tar_shards import TarItems

#: The columns that name a part of the file at ``path``: its range, its name, or the reason why it cannot be read.
REFERENCE_COLUMNS = ("source_name", "start_byte", "end_byte", "table_column", "table_row", "unreadable")

# Columns that only parts of files have.
_PART_COLUMNS = frozenset(("start_byte", "table_row"))
_RESERVED_COLUMNS = frozenset(("path", "row", *REFERENCE_COLUMNS))


def references_of(items: Sequence[Item]) -> Iterator[dict[str, Any]]:
    """Yield the columns of each item: ``path``, `REFERENCE_COLUMNS` as far as needed, segment, label, and ``extra``.

    No media are read. Items that are bytes in memory have a column ``bytes``.

    Raises:
        InvalidArgumentError: if items are rows of a Hugging Face dataset, which other machines cannot open, or have a
            column of a reserved name.
    """
    if isinstance(items, HuggingFaceItems):
        raise InvalidArgumentError(
            "The source is a Hugging Face dataset, whose rows are in memory or in a cache of this machine: write it "
            "with to_parquet and give that file, or hand its bytes over with ray.data.from_huggingface."
        )
    for number in range(len(items)):
        yield _columns_of(item_alone(items, number))


def files_of(items: Sequence[Item]) -> Iterator[str]:
    """Yield the paths and URLs from which items are read, and the manifests that list them, without reading media.

    A path may be repeated. Bytes in memory and a user's own sources have no path.
    """
    if isinstance(items, LabelledItems):
        yield from files_of(items.unlabelled)
    elif isinstance(items, TarItems):
        yield from items.shards
    elif isinstance(items, TableItems):
        yield from items.files()
    else:
        yield from getattr(items, "read_from", ())
        for number in range(len(items)):
            item = items[number]
            for source in (item.source, *item.sidecars.values()):
                yield from _files_of_source(source)


def _files_of_source(source: Any) -> Iterator[str]:
    match source:
        case str() | os.PathLike():
            yield os.fsdecode(source)
        case PathSource() | SpanSource():
            yield source.describe()
        case TarMember():
            yield source.archive
        case ParquetValue():
            yield source.table
        case EpisodeFiles():
            yield source.table
            yield from (path for _, path in source.videos)


def item_alone(items: Sequence[Item], number: int) -> Item:
    """Return the item at an index, if possible with a source that opens its own file."""
    return items.reference(number) if isinstance(items, ParquetItems) else items[number]


def _columns_of(item: Item) -> dict[str, Any]:
    conflicts = sorted(_RESERVED_COLUMNS & item.extra.keys())
    if conflicts:
        raise InvalidArgumentError(
            f"{item.name} has a column {conflicts[0]!r}, which says where a file is: rename yours in the source."
        )
    columns = {**place_of(item), **({} if item.label is None else {"label": item.label}), **item.extra}
    for name in ("start_seconds", "end_seconds"):
        if (seconds := getattr(item, name)) is not None:
            columns[name] = seconds  # the parsed value
        elif columns.get(name) == "":
            columns[name] = None  # an empty field of a manifest, in a column of numbers
    return columns


def place_of(item: Item) -> dict[str, Any]:
    """Return the columns that name the file of an item: ``path``, and `REFERENCE_COLUMNS` as far as needed."""
    source = item.source
    if isinstance(source, str | os.PathLike):
        path = str(os.fspath(source))
        return {"path": path} if item.name == path else {"path": path, "source_name": item.name}
    name = {"source_name": item.name}
    if isinstance(source, bytes):
        return {"path": None, **name, "bytes": source}
    if isinstance(source, TarMember):
        span = {"start_byte": source.offset, "end_byte": source.offset + source.size}
        return {"path": source.archive, **name, **span}
    if isinstance(source, ParquetValue):
        return {"path": source.table, **name, "table_column": source.column, "table_row": source.row}
    if isinstance(source, UnreadableSource):
        return {"path": None, **name, "unreadable": source.reason}
    raise InvalidArgumentError(
        f"{item.name} is a {type(source).__name__}, which other machines cannot open: give paths, URLs, bytes, tar "
        "shards or Parquet files."
    )


def source_of_reference(path: str | None, columns: Mapping[str, Any]) -> str | Source | None:
    """Return the source that columns name: a file, a part of a file, or an `UnreadableSource`."""
    if columns.get("unreadable"):
        return UnreadableSource(str(columns["unreadable"]))
    if path is None:
        return None
    start, end = columns.get("start_byte"), columns.get("end_byte")
    column, row = columns.get("table_column"), columns.get("table_row")
    if start is not None or end is not None:
        if not (type(start) is type(end) is int and 0 <= start <= end) or row is not None:
            raise InvalidArgumentError(
                f"A part of {path} must have a start_byte from 0 on and an end_byte after it, and no table_row (got "
                f"{shown(start)} and {shown(end)})."
            )
        name = str(columns.get("source_name") or f"bytes {start} to {end}")
        return TarMember(path, name.removeprefix(f"{path}/"), start, end - start)
    if row is not None or column:
        if not (type(row) is int and row >= 0 and isinstance(column, str) and column):
            raise InvalidArgumentError(
                f"A value of {path} must have a table_column and a table_row from 0 on (got {shown(column)} and "
                f"{shown(row)})."
            )
        return ParquetValue(path, column, row)
    return path


def with_parts_of_files(items: Sequence[Item]) -> list[Item]:
    """Return items of a manifest with their sources resolved: bytes of a tar shard, or values of a Parquet table."""
    return [_part_of_file(item) if _PART_COLUMNS & item.extra.keys() else item for item in items]


def _part_of_file(item: Item) -> Item:
    columns = {name: value for name in REFERENCE_COLUMNS if (value := item.extra.get(name)) not in (None, "")}
    is_part = {"start_byte", "end_byte"} <= columns.keys() or {"table_column", "table_row"} <= columns.keys()
    if not is_part or not isinstance(item.source, str):
        return item
    for name in ("start_byte", "end_byte", "table_row"):
        if name in columns:
            columns[name] = _whole_number(name, columns[name], item.name)
    source = source_of_reference(item.source, columns)
    assert source is not None
    extra = {name: value for name, value in item.extra.items() if name not in REFERENCE_COLUMNS}
    return replace(item, source=source, name=str(columns.get("source_name", item.name)), extra=extra)


def _whole_number(name: str, value: Any, place: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"{name} of {place} must be a whole number (got {shown(value)}).") from None
