"""The rows of Parquet files: paths, or the media themselves, as Hugging Face stores them."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from ..._sources import Reader, make_source, url_scheme
from ...errors import (
    InvalidArgumentError,
    MediaTensorError,
    MissingDependencyError,
    OpenError,
    ReadError,
    SourceNotFoundError,
)
from . import limits
from .items import FEATURE_TYPES, Item, LabelCoding, LazyItems, UnreadableSource, with_coded_labels
from .manifests import check_manifest_file
from .rows import Columns, item_of_row

__all__ = ["HuggingFaceItems", "MediaColumn", "batches_of", "hugging_face_type", "items_of_parquet", "parquet_file"]

_BATCH_ROWS = 256


def items_of_parquet(path: str, columns: Columns) -> Sequence[Item]:
    """The items of a Parquet file; its paths are relative to the folder it is in.

    Media that are in the file itself are read when they are needed, a row group at a time; each process keeps the last.
    Shuffled reading is quick if row groups are small.

    Args:
        path: An existing file.
        columns: Which columns hold what.

    Raises:
        InvalidArgumentError: if it is damaged or beyond a limit, or has no rows or no column with files.
        MissingDependencyError: if pyarrow is not installed.
        ReadError: if it cannot be read.
    """
    check_manifest_file(path, limits.MAX_PARQUET_BYTES)
    with parquet_file(path) as file:
        num_rows, schema = file.metadata.num_rows, file.schema_arrow
        if not 0 < num_rows <= limits.MAX_ITEMS:
            raise InvalidArgumentError(f"{path} has {num_rows} rows; there must be 1 to {limits.MAX_ITEMS}.")
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise InvalidArgumentError(f"{path} names the column {twice[0]!r} more than once.")
        structs = [field.name for field in schema if _is_media_struct(field.type)]
        columns, media_leaf = _media_column(schema, structs, columns, path)
        leaves = [file.schema.column(i).path for i in range(len(file.schema))]
        other_leaves = [leaf for leaf in leaves if leaf not in {media_leaf, *(f"{name}.bytes" for name in structs)}]
        batches = batches_of(file, path, other_leaves, limits.MAX_PARQUET_COLUMN_BYTES)
        rows = [row for batch in batches for row in batch.to_pylist()]
        group_rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    rows = rows if other_leaves else [{}] * num_rows
    if len(rows) != num_rows or sum(group_rows) != num_rows:
        raise InvalidArgumentError(f"{path} is damaged: it says that it has {num_rows} rows, but has others.")
    if media_leaf is not None:
        return ParquetItems(path, columns, rows, media_leaf, group_rows)
    folder = os.path.dirname(path)
    return with_coded_labels(
        [item_of_row(row, columns, place=f"row {i} of {path}", folder=folder) for i, row in enumerate(rows)]
    )


class ParquetItems(LazyItems):
    """The items of a Parquet file that has the media in it.

    Args:
        path: The file.
        columns: Which columns hold what.
        rows: The values of the other columns.
        media_leaf: The column with bytes, or ``column.bytes``.
        group_rows: The number of rows in each row group.
    """

    def __init__(
        self, path: str, columns: Columns, rows: list[dict[str, Any]], media_leaf: str, group_rows: list[int]
    ) -> None:
        super().__init__()
        self._path = path
        self._columns = columns
        self._rows = rows
        self._media_leaf = media_leaf
        # The name of a plain column may contain a point, too.
        self._media_struct = columns.media if media_leaf == f"{columns.media}.bytes" else None
        self._media = MediaColumn(path, media_leaf, group_rows)
        self._label_column = next((name for name in columns.label_names if name in rows[0]), None)
        self._coding = LabelCoding.of(map(self._label, range(len(rows))))

    def __len__(self) -> int:
        return len(self._rows)

    def _make(self, index: int) -> Item:
        place = f"row {index} of {self._path}"
        try:
            data = self._media[index]
        except MediaTensorError as error:  # for the error policy of whoever reads the row
            return self._coding.apply(Item(UnreadableSource(f"{place}: {error}"), self._label(index), place))
        row, column = self._rows[index], self._media_struct
        if column is not None:
            row = {**row, column: {**(row.get(column) or {}), "bytes": (data or {}).get("bytes")}}
        else:
            row = {**row, self._media_leaf: data}
        folder = os.path.dirname(self._path)
        return self._coding.apply(item_of_row(row, self._columns, place=place, folder=folder, may_be_empty=True))

    def _label(self, index: int) -> Any:
        return None if self._label_column is None else self._rows[index][self._label_column]


class MediaColumn:
    """The column of a Parquet file that has media in it. A row group is read at a time, and the last one is kept.

    Args:
        path: The path or URL of the file.
        leaf: The column with bytes, or ``column.bytes``.
        group_rows: The number of rows in each row group.
    """

    def __init__(self, path: str, leaf: str, group_rows: Sequence[int]) -> None:
        self._path = path
        self._leaf = leaf
        self._group_ends = list(accumulate(group_rows))
        self._last_group: tuple[int, list[Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_last_group": None}

    def __getitem__(self, row: int) -> Any:
        """The bytes of a row, or the struct that has them; ``None`` if it has none.

        Raises:
            InvalidArgumentError: if the file is damaged, or the row group is beyond a limit.
            ReadError: if it cannot be read.
        """
        group = bisect_right(self._group_ends, row)
        return self._values_of(group)[row - (self._group_ends[group - 1] if group else 0)].as_py()

    def _values_of(self, group: int) -> list[Any]:
        last = self._last_group
        if last is not None and last[0] == group:
            return last[1]
        with parquet_file(self._path) as file:
            batches = batches_of(file, self._path, [self._leaf], limits.MAX_ROW_GROUP_BYTES, row_group=group)
            values = [value for batch in batches for value in batch.column(0)]
        self._last_group = (group, values)
        return values


@contextmanager
def parquet_file(path: str) -> Iterator[Any]:
    """The open ``pyarrow.parquet.ParquetFile`` of a path or URL; errors of pyarrow become errors of this library."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependencyError(f'Reading {path} needs pyarrow: pip install "mediatensor[parquet]".') from None
    is_local = url_scheme(path) is None or os.path.exists(path)
    reader = None if is_local else _file_of_url(path)
    try:
        with pyarrow.parquet.ParquetFile(path if reader is None else reader) as file:
            yield file
    except InvalidArgumentError:
        raise
    except FileNotFoundError:
        raise SourceNotFoundError(f"{path} does not exist.") from None
    except (pyarrow.ArrowException, ValueError, OverflowError, OSError) as error:
        # Errors of the system have a number. Damage that pyarrow finds may be an OSError as well, without a number.
        if isinstance(error, OSError) and error.errno is not None:
            raise ReadError(f"{path} cannot be read ({error}).") from error
        raise InvalidArgumentError(f"{path} is not a Parquet file, or damaged ({str(error).strip()}).") from error
    finally:
        if reader is not None:
            reader.close()


def _file_of_url(url: str) -> io.BufferedReader:
    """A file object, as pyarrow takes it, that reads ranges of a URL."""
    opened = make_source(url).open()
    if isinstance(opened, str):
        raise OpenError(f"Could not open {url}: Parquet files come from paths, http(s) and what fsspec reads.")
    return io.BufferedReader(_RawFile(opened))


class _RawFile(io.RawIOBase):
    """A reader as a file object."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._reader.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        data = self._reader.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._reader.close()
        super().close()


def _is_media_struct(arrow_type: Any) -> bool:
    """Whether a column is one of Hugging Face's, a struct of bytes and path."""
    import pyarrow.types

    if not pyarrow.types.is_struct(arrow_type):
        return False
    fields = {arrow_type.field(i).name: arrow_type.field(i).type for i in range(arrow_type.num_fields)}
    return "bytes" in fields and _is_binary(fields["bytes"])


def _is_binary(arrow_type: Any) -> bool:
    import pyarrow.types

    return bool(pyarrow.types.is_binary(arrow_type) or pyarrow.types.is_large_binary(arrow_type))


def _media_column(schema: Any, structs: list[str], columns: Columns, path: str) -> tuple[Columns, str | None]:
    """The columns with the choice made, and where media are: ``column.bytes`` or ``column``; ``None``: not in there."""
    binary = {field.name for field in schema if _is_binary(field.type)}
    holding_media = [*structs, *(name for name in columns.media_names if name in binary)]
    chosen = columns.choose(holding_media, schema.names, path, has_bytes="bytes" in binary)
    columns = Columns(columns.kind, chosen, columns.label)
    if chosen in structs:
        return columns, f"{chosen}.bytes"
    if chosen in binary:
        return columns, chosen
    return columns, "bytes" if "bytes" in binary else None


def batches_of(file: Any, path: str, leaves: list[str], limit: int, row_group: int | None = None) -> Iterator[Any]:
    """Columns of a file, some rows at a time. A few bytes of a file can stand for any number in memory."""
    size = 0
    if not leaves:
        return
    row_groups = None if row_group is None else [row_group]
    for batch in file.iter_batches(_BATCH_ROWS, columns=leaves, row_groups=row_groups, use_threads=False):
        size += batch.nbytes
        if size > limit:
            which = "The columns" if row_group is None else f"The media of row group {row_group}"
            raise InvalidArgumentError(
                f"{which} of {path} take more than {limit} bytes, the limit: write it with fewer columns or smaller "
                "row groups, or give datasets.Dataset.from_parquet(...)."
            )
        yield batch


_TYPES = frozenset(("Column", "Dataset", "DatasetDict", "IterableColumn", "IterableDataset", "IterableDatasetDict"))


def hugging_face_type(source: Any) -> str | None:
    """The name of the class of ``datasets`` that an object belongs to; ``None`` if it is none of theirs.

    >>> hugging_face_type({"train": []}) is None
    True
    """
    for one in type(source).__mro__:
        if one.__module__.partition(".")[0] == "datasets" and one.__name__ in _TYPES:
            return one.__name__
    return None


class HuggingFaceItems(LazyItems):
    """The rows of a dataset, read when they are asked for, and as they are stored: nothing is decoded.

    The format and the transform of the dataset are not applied.

    Args:
        dataset: A ``datasets.Dataset``.
        columns: Which columns hold what. The one with the file is found by the type of its feature, or by name.

    Raises:
        InvalidArgumentError: if there is no such column, or several.
    """

    def __init__(self, dataset: Any, columns: Columns) -> None:
        super().__init__()
        features = dict(dataset.features or {})
        # As stored: a struct of bytes and path for media, numbers for classes.
        self._stored = dataset.with_format("arrow")
        self._columns = Columns(columns.kind, _hugging_face_column(features, columns), columns.label)
        label = next((name for name in columns.label_names if name in features), None)
        names = getattr(features.get(label), "names", None)
        self._class_names: tuple[str, ...] = () if names is None else tuple(names)
        is_text = getattr(features.get(label), "dtype", None) in ("string", "large_string")
        self._coding = LabelCoding.of(dataset.unique(label)) if is_text else LabelCoding()

    def __len__(self) -> int:
        return len(self._stored)

    def _make(self, index: int) -> Item:
        row = self._stored[index].to_pylist()[0]
        item = item_of_row(row, self._columns, place=f"row {index}", may_be_empty=True)
        return self._with_class_name(self._coding.apply(item))

    def _with_class_name(self, item: Item) -> Item:
        number = item.label
        # Rows without a label, of a test set, have -1.
        if not self._class_names or not isinstance(number, int) or not 0 <= number < len(self._class_names):
            return item
        return Item(item.source, number, item.name, {**item.extra, "class_name": self._class_names[number]})


def _hugging_face_column(features: dict[str, Any], columns: Columns) -> str | None:
    """The column with the files; ``None`` if it is to be looked for by name, row by row."""
    by_type: list[str] = []
    for feature_type in FEATURE_TYPES[columns.kind]:
        by_type = by_type or [name for name, feature in features.items() if type(feature).__name__ == feature_type]
    binary = {name for name, feature in features.items() if getattr(feature, "dtype", "").endswith("binary")}
    by_type = by_type or [name for name in columns.media_names if name in binary]
    return columns.choose(by_type, list(features), "The Hugging Face dataset", has_bytes="bytes" in binary)
