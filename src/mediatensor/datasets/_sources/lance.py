"""The rows of Lance datasets: paths of media files, or the media themselves, in blob columns or bytes columns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..._engine.sources.readers import RangeReader, Reader
from ..._engine.sources.source import Source, url_scheme
from ...errors import InvalidArgumentError, MediaTensorError, MissingDependencyError, ReadError
from . import manifests, parquet
from .items import Item, class_name_in
from .tables import MAX_WHOLE_BYTES, Columns, TableItems, is_binary, is_media_struct, items_of_table_rows, row_of_table

_BATCH_ROWS = 1024
_BLOB_KEY = b"lance-encoding:blob"
_BLOB_TYPE = "lance.blob.v2"


def is_lance(path: str) -> bool:
    """Return whether a path or URL is a Lance dataset: it ends in ``.lance``, and a folder has ``_versions``."""
    path = path.rstrip("/")
    if not path.lower().endswith(".lance"):
        return False
    return "://" in path or os.path.isdir(os.path.join(path, "_versions"))


def lance_place(source: Any) -> tuple[str, int] | None:
    """Return the path and version of a ``lance.LanceDataset``; ``None`` for other objects."""
    is_dataset = class_name_in("lance", source, ("LanceDataset",)) is not None
    return (str(source.uri), int(source.version)) if is_dataset else None


def items_of_lance(path: str, columns: Columns, version: int | None = None) -> Sequence[Item]:
    """Return the items of a Lance dataset. Its paths are relative to the folder that contains the dataset.

    All rows are from one version of the dataset, by default the newest. Media are read when they are needed: from a
    blob column only the requested bytes, from other columns the whole value.
    """
    dataset = _open_dataset(path, version)
    with _errors_of(path):
        num_rows, schema, version = dataset.count_rows(), dataset.schema, int(dataset.version)
    if not 0 < num_rows <= manifests.MAX_ITEMS:
        raise InvalidArgumentError(f"{path} has {num_rows} rows; there must be 1 to {manifests.MAX_ITEMS}.")
    blobs = [field.name for field in schema if _is_blob(field)]
    structs = [field.name for field in schema if is_media_struct(field.type)]
    binary = [field.name for field in schema if field.name not in blobs and is_binary(field.type)]
    holding = [*blobs, *structs, *(name for name in columns.media_names if name in binary)]
    column = columns.choose(holding, schema.names, path, has_bytes="bytes" in [*blobs, *binary])
    columns = replace(columns, media=column)
    media: str | None = column if column in [*holding, *binary] else "bytes" if "bytes" in [*blobs, *binary] else None
    others = [leaf for field in schema if field.name not in (*blobs, media) for leaf in _leaves(field, structs)]
    if column in structs:
        others += [leaf for leaf in _leaves(schema.field(column), structs) if leaf not in others]
    rows = _read_rows(dataset, path, others, num_rows, structs)
    if media is None:
        return items_of_table_rows(rows, columns, path)
    leaf = f"{media}.bytes" if media in structs else media
    return TableItems(path.rstrip("/"), columns, rows, LanceColumn(path, version, leaf, media in blobs))


class LanceColumn:
    """A column of a Lance dataset that contains media. Each value is read separately; a large blob is read in parts."""

    is_fork_safe = False  # Lance does not work in a process that was forked after Lance was imported

    def __init__(self, path: str, version: int, leaf: str, is_blob: bool) -> None:
        self._path = path
        self._version = version
        self.leaf = leaf
        self._is_blob = is_blob
        self._dataset: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_dataset": None}

    def __getitem__(self, row: int) -> bytes | Source | None:
        """Return the media in a row: bytes, a source for a large blob, or ``None`` if the row has no media."""
        if self._is_blob:
            blob = self.blob(row)
            if blob is None or blob.size() > MAX_WHOLE_BYTES:
                return None if blob is None else LanceBlob(self, row)
            with _errors_of(self._path):
                return bytes(blob.read_range(0, blob.size())) if blob.size() else b""
        with _errors_of(self._path):
            table = self._opened().take([row], columns=[self.leaf])
            (value,) = row_of_table(table, table.column_names).values()
        return value.get("bytes") if isinstance(value, dict) else value

    def blob(self, row: int) -> Any:
        with _errors_of(self._path):
            (blob,) = self._opened().take_blobs(self.leaf, indices=[row])
        return blob

    def _opened(self) -> Any:
        _check_process(self._path)
        if self._dataset is None:
            self._dataset = _open_dataset(self._path, self._version)
        return self._dataset


class LanceBlob(Source):
    """A value of a blob column. Each call of `open` returns a reader that is independent of the others."""

    def __init__(self, column: LanceColumn, row: int) -> None:
        self._column = column
        self._row = row

    def open(self) -> Reader:
        name = self.describe()
        try:
            blob = self._column.blob(self._row)
        except InvalidArgumentError as error:  # so that the dataset's error policy applies
            raise ReadError(str(error)) from error
        if blob is None:
            raise ReadError(f"{name} no longer has a value.")
        if url_scheme(self._column._path) is None:
            return _BlobReader(blob, name)
        return RangeReader(_BlobReader(blob, name), blob.size(), name)

    def open_bytes(self) -> Reader:
        return self.open()

    def describe(self) -> str:
        return f"row {self._row} of {self._column._path}"


class _BlobReader(Reader):
    def __init__(self, blob: Any, name: str) -> None:
        super().__init__()
        self._blob = blob
        self._name = name
        self._length = int(blob.size())

    def _size(self) -> int:
        return self._length

    def _read_at(self, position: int, size: int) -> bytes:
        size = max(0, min(size, self._length - position))
        if not size:
            return b""
        _check_process(self._name)
        with _errors_of(self._name):
            return bytes(self._blob.read_range(position, size))

    def fetch(self, start: int, stop: int) -> bytes:
        return self._read_at(start, stop - start)

    def close(self) -> None:
        self._blob.close()


def _leaves(field: Any, structs: Sequence[str]) -> list[str]:
    """Return the parts of a column that are read for all rows at once: all except the bytes in a media struct."""
    if field.name not in structs:
        return [field.name]
    names = [field.type.field(i).name for i in range(field.type.num_fields)]
    return [f"{field.name}.{name}" for name in names if name != "bytes"]


def _read_rows(
    dataset: Any, path: str, leaves: list[str], num_rows: int, structs: Sequence[str]
) -> list[dict[str, Any]]:
    if not leaves:
        return [{} for _ in range(num_rows)]
    rows: list[dict[str, Any]] = []
    size = 0
    with _errors_of(path):
        for batch in dataset.scanner(columns=leaves, batch_size=_BATCH_ROWS, scan_in_order=True).to_batches():
            size += batch.nbytes
            if size > parquet.MAX_PARQUET_COLUMN_BYTES:
                raise InvalidArgumentError(
                    f"The columns of {path} take more than {parquet.MAX_PARQUET_COLUMN_BYTES} bytes, the limit. Write "
                    "it with fewer columns, or keep bytes that are not media in a blob column."
                )
            rows += [_nest_structs(row, structs) for row in batch.to_pylist()]
    if len(rows) != num_rows:
        raise InvalidArgumentError(f"{path} is damaged: it should have {num_rows} rows, but has {len(rows)}.")
    return rows


def _nest_structs(row: dict[str, Any], structs: Sequence[str]) -> dict[str, Any]:
    """Return a row with structs in place of flat fields such as ``"video.path"``."""
    nested: dict[str, Any] = {}
    for name, value in row.items():
        column, _, leaf = name.partition(".")
        if column in structs:
            nested.setdefault(column, {})[leaf] = value
        else:
            nested[name] = value
    return nested


def _is_blob(field: Any) -> bool:
    is_marked = (field.metadata or {}).get(_BLOB_KEY) == b"true"
    return is_marked or getattr(field.type, "extension_name", None) == _BLOB_TYPE


# Lance

#: The process that imported Lance. Lance's threads do not survive a fork, so a call in a child would never return.
_process: list[int] = []


def _check_process(name: str) -> None:
    if _process and _process[0] != os.getpid():
        raise ReadError(
            f"{name} cannot be read in a forked process, because Lance does not work there: start workers with "
            'multiprocessing_context="forkserver" or "spawn".'
        )


def _open_dataset(path: str, version: int | None) -> Any:
    _check_process(path)
    try:
        import lance
    except ImportError:
        raise MissingDependencyError(f'Reading {path} needs Lance: pip install "mediatensor[lance]".') from None
    _process[:] = [os.getpid()]
    with _errors_of(path):
        return lance.dataset(path, version=version)


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    """Convert errors that Lance raises in a ``with`` block, including panics, which do not derive from `Exception`."""
    try:
        yield
    except MediaTensorError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        text = str(error).partition("\n")[0][:500]
        if isinstance(error, OSError) and error.errno is not None:
            raise ReadError(f"{name} cannot be read ({text}).") from error
        raise InvalidArgumentError(f"{name} is not a Lance dataset, or damaged ({text}).") from None
