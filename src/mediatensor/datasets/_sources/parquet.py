"""The rows of Parquet files and Hugging Face datasets. They have paths of media files, or the media themselves."""

from __future__ import annotations

import io
import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, Generic, TypeVar

from ..._engine.common.locks import ForkSafeLock
from ..._engine.sources.readers import RawFile, Reader
from ..._engine.sources.source import Source, SpanSource, make_source, read_whole, stamp_of, url_scheme
from ...errors import InvalidArgumentError, MissingDependencyError, OpenError, ReadError, SourceNotFoundError
from . import manifests
from .items import FEATURE_TYPES, Item, LabelCoding, LazyItems, check_are_classes, class_name_in, class_number
from .manifests import check_manifest_file
from .parquet_pages import Chunk, Page, Place, UnknownPagesError, data_pages, page_of_row, values_of_page
from .tables import (
    MAX_WHOLE_BYTES,
    Columns,
    TableItems,
    is_binary,
    is_media_struct,
    item_of_table_row,
    items_of_table_rows,
    row_of_table,
)

#: Bytes of a Parquet file. Media in it are read only when they are needed.
MAX_PARQUET_BYTES = 1 << 40

#: Bytes in memory of the columns of a Parquet file, without media.
MAX_PARQUET_COLUMN_BYTES = 1 << 30

#: Bytes of the media in one row group of a Parquet file, which are in memory at the same time.
MAX_ROW_GROUP_BYTES = 4 << 30

_BATCH_ROWS = 256


def items_of_parquet(path: str, columns: Columns) -> Sequence[Item]:
    """Return the items of a Parquet file (a path or URL). Paths in it are relative to its folder."""
    if url_scheme(path) is None or os.path.exists(path):
        check_manifest_file(path, MAX_PARQUET_BYTES)
    with parquet_file(path) as file:
        num_rows, schema = file.metadata.num_rows, file.schema_arrow
        if not 0 < num_rows <= manifests.MAX_ITEMS:
            raise InvalidArgumentError(f"{path} has {num_rows} rows; there must be 1 to {manifests.MAX_ITEMS}.")
        repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if repeated:
            raise InvalidArgumentError(f"{path} names the column {repeated[0]!r} more than once.")
        structs = [field.name for field in schema if is_media_struct(field.type)]
        columns, media_leaf = _choose_media(schema, structs, columns, path)
        leaves = [file.schema.column(i).path for i in range(len(file.schema))]
        other_leaves = [leaf for leaf in leaves if leaf not in {media_leaf, *(f"{name}.bytes" for name in structs)}]
        batches = batches_of(file, path, other_leaves, MAX_PARQUET_COLUMN_BYTES)
        rows = [row for batch in batches for row in batch.to_pylist()]
        group_rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        media = None if media_leaf is None else MediaColumn(path, media_leaf, file)
    rows = rows if other_leaves else [{}] * num_rows
    if len(rows) != num_rows or sum(group_rows) != num_rows:
        raise InvalidArgumentError(f"{path} is damaged: it does not have the {num_rows} rows that its metadata state.")
    return items_of_table_rows(rows, columns, path) if media is None else ParquetItems(path, columns, rows, media)


def items_of_parquet_shards(paths: Sequence[str], columns: Columns) -> ParquetShards:
    """Return the items of several Parquet files, in order. Class names have the same numbers in all of them."""
    if columns.classes is None:
        coding = LabelCoding.of(text for path in paths for text in _label_texts(path, columns))
        if coding.are_class_names:
            columns = replace(columns, classes=tuple(sorted({text.strip() for text in coding.number_of})))
    return ParquetShards([items_of_parquet(path, columns) for path in paths], paths)


def _label_texts(path: str, columns: Columns) -> list[str | None]:
    with parquet_file(path) as file:
        name = next((name for name in columns.label_names if name in file.schema_arrow.names), None)
        if name is None or "string" not in str(file.schema_arrow.field(name).type):
            return []
        texts: list[str | None] = file.read([name]).column(0).unique().to_pylist()
        return texts


class ParquetShards(LazyItems):
    """The items of several Parquet files, one after another. ``paths`` are the files of ``tables``."""

    def __init__(self, tables: Sequence[Sequence[Item]], paths: Sequence[str]) -> None:
        super().__init__()
        self.tables = tables
        self.paths = tuple(paths)
        self._ends = list(accumulate(map(len, tables)))

    @property
    def is_fork_safe(self) -> bool:
        return all(getattr(table, "is_fork_safe", True) for table in self.tables)

    def _portable_names(self) -> list[str]:
        names: list[str] = []
        for table in self.tables:
            names += table._portable_names() if isinstance(table, ParquetItems) else [item.name for item in table]
        return names

    def __len__(self) -> int:
        return self._ends[-1]

    def place(self, index: int) -> tuple[Sequence[Item], int]:
        """Return the table of an item, and the item's index in the table."""
        number = bisect_right(self._ends, index)
        return self.tables[number], index - (self._ends[number - 1] if number else 0)

    def _make(self, index: int) -> Item:
        table, row = self.place(index)
        return table[row]


class ParquetItems(TableItems):
    _media: MediaColumn

    def reference(self, index: int) -> Item:
        """Return the item at an index without reading its media. The item can be opened on another machine."""
        if self._media.may_be_missing(index) and not isinstance((item := self[index]).source, bytes | Source):
            return item  # a path without bytes
        return self.with_media(index, ParquetValue(self._path, self._media.leaf, index, self._media.stamp))


class MediaColumn:
    """A column of a Parquet file that contains media: ``column``, or ``column.bytes`` for a field of a struct.

    Each value is located and read separately. In an uncompressed column, a large value is returned as a part of the
    file, from which only the requested bytes are read. In a compressed column, the whole page with the value is read. A
    whole row group is read only if `parquet_pages` does not support the encoding of its pages.
    """

    is_fork_safe = True

    def __init__(self, path: str, leaf: str, file: Any) -> None:
        self._path = path
        self.leaf = leaf
        # The labels of the rows were read now. They do not match the media of a file that replaces this one later.
        self.stamp = stamp_of(path)
        self._source: Source | None = None  # one object for all reads, because it detects changes of a remote file
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        self._group_ends = list(accumulate(group.num_rows for group in groups))
        number = next(i for i in range(len(file.schema)) if file.schema.column(i).path == leaf)
        self._chunks = [_chunk(group, group.column(number), file.schema.column(number)) for group in groups]
        counts = [group.column(number).statistics for group in groups]
        self._is_full = [one is not None and one.has_null_count and one.null_count == 0 for one in counts]
        # The last row group that was read as a whole; the pages of row groups; the values of the last page.
        self._last_group: tuple[int, list[Any]] | None = None
        self._pages: dict[int, tuple[Page | None, list[Page]] | None] = {}
        self._last_page: tuple[tuple[int, int], list[Place]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The pickled source knows the version of a remote file. For a local file, the stamp is enough.
        source = self._source if self.stamp is None else None
        return vars(self) | {"_source": source, "_last_group": None, "_pages": {}, "_last_page": None}

    def __getitem__(self, row: int) -> bytes | Source | None:
        if stamp_of(self._path) != self.stamp:
            raise _change_error(self._path)
        group = bisect_right(self._group_ends, row)
        if group == len(self._group_ends):
            raise InvalidArgumentError(f"{self._path} has no row {row}: it has {self._group_ends[-1]}.")
        row_in_group = row - (self._group_ends[group - 1] if group else 0)
        try:
            place = self._place(group, row_in_group)
        except UnknownPagesError:
            self._pages[group] = None
            value = self._values_of(group)[row_in_group].as_py()
            media: bytes | None = value.get("bytes") if isinstance(value, dict) else value
            return media
        if place is None or isinstance(place, bytes):
            return place
        span = SpanSource(self._whole(), *place)
        if place[1] - place[0] > MAX_WHOLE_BYTES:
            return span
        return read_whole(span)

    def may_be_missing(self, row: int) -> bool:
        return not self._is_full[bisect_right(self._group_ends, row)]

    def _whole(self) -> Source:
        if self._source is None:
            self._source = make_source(self._path)
        return self._source

    def _place(self, group: int, row: int) -> Place:
        """Return the byte range of a value in the file; for a compressed page, the value itself."""
        chunk = self._chunks[group]
        if chunk is None or (group in self._pages and self._pages[group] is None):
            raise UnknownPagesError("the column is not read by pages")
        with closing(SpanSource(self._whole(), 0, chunk.stop).open()) as reader:
            known_pages = self._pages.get(group)
            if known_pages is None:
                if len(self._pages) >= _MAX_GROUPS:
                    self._pages.clear()
                known_pages = self._pages[group] = data_pages(reader.read_at, chunk)
            dictionary, pages = known_pages
            number = page_of_row(pages, row)
            if self._last_page is None or self._last_page[0] != (group, number):
                # Uncompressed pages are not read as a whole, so they may be as large as the chunk.
                limit = MAX_ROW_GROUP_BYTES if chunk.compression else chunk.stop
                if max(page.plain_size for page in (pages[number], dictionary or pages[number])) > limit:
                    raise UnknownPagesError("a page is too large to be unpacked")
                values = values_of_page(reader.read_at, pages[number], dictionary, chunk, partial(_unpack, chunk))
                self._last_page = ((group, number), values)
        return self._last_page[1][row - pages[number].first]

    def _values_of(self, group: int) -> list[Any]:
        last = self._last_group
        if last is not None and last[0] == group:
            return last[1]
        with parquet_file(self._path) as file:
            batches = batches_of(file, self._path, [self.leaf], MAX_ROW_GROUP_BYTES, row_group=group)
            values = [value for batch in batches for value in batch.column(0)]
        self._last_group = (group, values)
        return values


@dataclass(frozen=True)
class ParquetValue(Source):
    """A media file that is a value in a Parquet file, as a source. In a struct, ``column`` is ``name.bytes``.

    The object is small and can be pickled, because the value is located only when it is opened. Opening fails if the
    table has changed since ``stamp``, a result of `stamp_of`. With ``None``, this is not checked.
    """

    table: str
    column: str
    row: int
    stamp: tuple[int, int] | None = None

    def open(self) -> Reader:
        try:
            if self.stamp is not None and stamp_of(self.table) not in (None, self.stamp):
                raise _change_error(self.table)
            # Each thread has its own column, because the cached pages of a column are not thread-safe.
            key = (self.table, self.column, stamp_of(self.table), threading.get_ident())
            column = _kept_columns.get(key, partial(_media_column, self.table, self.column))
            if self.stamp not in (None, column.stamp):  # the table has been replaced
                raise _change_error(self.table)
            value = column[self.row]
        except InvalidArgumentError as error:  # so that the dataset's error policy applies
            raise ReadError(f"{self.describe()}: {error}") from error
        if value is None:
            raise OpenError(f"Could not open {self.describe()}: it has no bytes in the column {self.column!r}.")
        opened = make_source(value).open()
        assert not isinstance(opened, str)  # neither bytes nor a part of a file has a name
        return opened

    def open_bytes(self) -> Reader:
        return self.open()

    def describe(self) -> str:
        return f"row {self.row} of {self.table}"


def _change_error(table: str) -> ReadError:
    return ReadError(f"{table} has changed since its table was read; make the dataset again.")


V = TypeVar("V")


class RecentlyUsed(Generic[V]):
    """A cache of the most recently used values, limited by their total size. It always keeps at least one value."""

    def __init__(self, max_size: int, size_of: Callable[[V], int]) -> None:
        self._max_size = max_size
        self._size_of = size_of
        self._values: OrderedDict[Hashable, tuple[int, V]] = OrderedDict()
        self._size = 0
        self._lock = ForkSafeLock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][1]
        value = make()
        size = self._size_of(value)
        with self._lock:
            if key not in self._values:
                self._values[key] = (size, value)
                self._size += size
            while self._size > self._max_size and len(self._values) > 1:
                self._size -= self._values.popitem(last=False)[1][0]
        return value


def _media_column(table: str, column: str) -> MediaColumn:
    with parquet_file(table) as file:
        leaves = [file.schema.column(i).path for i in range(len(file.schema))]
        if column not in leaves:
            raise InvalidArgumentError(f"{table} has no column {column!r} (it has {', '.join(leaves)}).")
        return MediaColumn(table, column, file)


#: Cached so that a row need not open the file and read the footer again.
_kept_columns: RecentlyUsed[MediaColumn] = RecentlyUsed(64, lambda column: 1)

#: Maximum number of row groups whose pages are cached.
_MAX_GROUPS = 4096
#: pyarrow's names of the codecs in the metadata. "LZ4" is missing, because writers use this name for several formats.
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4_RAW": "lz4_raw"}


def _chunk(group: Any, column: Any, of: Any) -> Chunk | None:
    """Return the place of a column's values in a row group, or ``None`` if only pyarrow can read them."""
    start = column.data_page_offset
    if column.dictionary_page_offset is not None:
        start = min(start, column.dictionary_page_offset)
    codec = None if column.compression == "UNCOMPRESSED" else _CODECS.get(column.compression, "")
    value_bytes = of.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else None
    is_bytes = column.physical_type == "BYTE_ARRAY" or (value_bytes or 0) > 0
    is_known = codec != "" and not column.file_path and is_bytes
    is_flat = of.max_repetition_level == 0 and column.num_values == group.num_rows
    if not (is_known and is_flat and start >= 0 and column.total_compressed_size > 0):
        return None
    stop = start + column.total_compressed_size
    return Chunk(start, stop, column.num_values, of.max_definition_level, codec, value_bytes)


def _unpack(chunk: Chunk, packed: bytes, size: int) -> bytes:
    import pyarrow

    try:
        return pyarrow.Codec(chunk.compression).decompress(packed, size, asbytes=True)  # type: ignore[no-any-return]
    except (pyarrow.ArrowException, ValueError, OSError) as error:
        raise UnknownPagesError(str(error)) from None


@contextmanager
def parquet_file(path: str) -> Iterator[Any]:
    """Open a path or URL as a ``pyarrow.parquet.ParquetFile``, and convert errors of pyarrow in the ``with`` block."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependencyError(f'Reading {path} needs pyarrow: pip install "mediatensor[parquet]".') from None
    is_local = url_scheme(path) is None or os.path.exists(path)
    reader = None
    if not is_local:
        opened = make_source(path).open()
        if isinstance(opened, str):
            raise OpenError(
                f"Could not open {path}: only FFmpeg can open it. Use a path, or a URL of http(s) or fsspec."
            )
        reader = io.BufferedReader(RawFile(opened, can_seek=True))
    try:
        with pyarrow.parquet.ParquetFile(path if reader is None else reader) as file:
            yield file
    except InvalidArgumentError:
        raise
    except FileNotFoundError:
        raise SourceNotFoundError(f"{path} does not exist.") from None
    except (pyarrow.ArrowException, ValueError, OverflowError, OSError) as error:
        # Errors of the operating system have a number. pyarrow may report damage as an OSError without a number.
        if isinstance(error, OSError) and error.errno is not None:
            raise ReadError(f"{path} cannot be read ({error}).") from error
        raise InvalidArgumentError(f"{path} is not a Parquet file, or damaged ({str(error).strip()}).") from error
    finally:
        if reader is not None:
            reader.close()


def _choose_media(schema: Any, structs: list[str], columns: Columns, path: str) -> tuple[Columns, str | None]:
    """Return ``columns`` with the name of the media column, and the name of the column with the bytes.

    For a struct, the latter is ``column.bytes``; for a table that has only paths, ``None``.
    """
    binary = {field.name for field in schema if is_binary(field.type)}
    holding_media = [*structs, *(name for name in columns.media_names if name in binary)]
    chosen = columns.choose(holding_media, schema.names, path, has_bytes="bytes" in binary)
    columns = replace(columns, media=chosen)
    if chosen in structs:
        return columns, f"{chosen}.bytes"
    if chosen in binary:
        return columns, chosen
    return columns, "bytes" if "bytes" in binary else None


def batches_of(file: Any, path: str, leaves: list[str], limit: int, row_group: int | None = None) -> Iterator[Any]:
    """Yield columns of a Parquet file in batches of rows. Raise an error if they exceed ``limit`` bytes in total.

    Otherwise, a few bytes of compressed data could fill the memory.
    """
    size = 0
    if not leaves:
        return
    row_groups = None if row_group is None else [row_group]
    for batch in file.iter_batches(_BATCH_ROWS, columns=leaves, row_groups=row_groups, use_threads=False):
        size += batch.nbytes
        if size > limit:
            which = "The columns" if row_group is None else f"The media of row group {row_group}"
            raise InvalidArgumentError(
                f"{which} of {path} take more than {limit} bytes, the limit. Write the file with fewer columns or "
                "smaller row groups, or pass datasets.Dataset.from_parquet(...)."
            )
        yield batch


_TYPES = frozenset(("Column", "Dataset", "DatasetDict", "IterableColumn", "IterableDataset", "IterableDatasetDict"))


def hugging_face_type(source: Any) -> str | None:
    """Return the name of an object's class if it is a class of ``datasets``; otherwise ``None``."""
    return class_name_in("datasets", source, _TYPES)


class HuggingFaceItems(LazyItems):
    """The rows of a ``datasets.Dataset`` as items. They are read on request, without decoding by ``datasets``.

    Large media are not copied: a decoder reads them from Arrow's memory, which is a mapped file. The format and
    transform that are set on the dataset are not applied. The column with the media is found by its feature type, or by
    its name if no column has such a type.
    """

    def __init__(self, dataset: Any, columns: Columns) -> None:
        super().__init__()
        features = dict(dataset.features or {})
        # Values as they are stored: a struct of bytes and path for media, a number for a class.
        self._stored = dataset.with_format("arrow")
        self._columns = replace(columns, media=_hugging_face_column(features, columns))
        chosen = self._columns.media
        self._may_hold_media = frozenset((*columns.media_names, "bytes") if chosen is None else (chosen,))
        label = next((name for name in columns.label_names if name in features), None)
        names = getattr(features.get(label), "names", None)
        self._class_names: tuple[str, ...] = () if names is None else tuple(names)
        is_text = getattr(features.get(label), "dtype", None) in ("string", "large_string")
        self._coding = LabelCoding.of(dataset.unique(label), columns.classes) if is_text else LabelCoding()
        if columns.classes is not None and self._class_names:
            numbers = [number for number in dataset.unique(label) if number is not None and number >= 0]
            check_are_classes([self._class_names[number] for number in numbers], columns.classes)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        return self._class_names or None

    def __len__(self) -> int:
        return len(self._stored)

    def _make(self, index: int) -> Item:
        row = row_of_table(self._stored[index], self._may_hold_media)
        item = item_of_table_row(row, self._columns, place=f"row {index}", may_be_empty=True)
        return self._with_class_name(self._coding.apply(item))

    def _with_class_name(self, item: Item) -> Item:
        number = item.label
        # Rows of a test set without labels have -1.
        if not self._class_names or not isinstance(number, int) or not 0 <= number < len(self._class_names):
            return item
        name, classes = self._class_names[number], self._columns.classes
        label = number if classes is None else class_number(name, classes)
        return replace(item, label=label, extra={**item.extra, "class_name": name})


def _hugging_face_column(features: dict[str, Any], columns: Columns) -> str | None:
    """Return the name of the column with the media, or ``None`` if it must be searched for in each row."""
    by_type: list[str] = []
    for feature_type in FEATURE_TYPES[columns.kind]:
        by_type = by_type or [name for name, feature in features.items() if type(feature).__name__ == feature_type]
    binary = {name for name, feature in features.items() if getattr(feature, "dtype", "").endswith("binary")}
    by_type = by_type or [name for name in columns.media_names if name in binary]
    return columns.choose(by_type, list(features), "The Hugging Face dataset", has_bytes="bytes" in binary)
