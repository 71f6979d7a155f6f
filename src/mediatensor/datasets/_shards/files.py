"""Write the contents of rows to a tar or Parquet file, and read the keys of the rows in such a file."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO, Protocol

import numpy as np

from ..._engine.common.messages import json_bytes, to_json
from ..._engine.sources.output_files import writing
from ...errors import InvalidArgumentError, MediaTensorError, MissingDependencyError
from .._sources.parquet import parquet_file
from .._sources.tar_format import TarReader
from .._sources.tar_shards import group_members
from .contents import RowContents

#: The column of a Parquet shard with the number of the row in the whole dataset.
KEY_COLUMN = "key"
# Bytes of media in a row group. A row group is held in memory.
_GROUP_BYTES = 1 << 26


class ShardFile(Protocol):
    """A shard that is being written."""

    def add(self, key: str, contents: RowContents) -> None: ...
    def finish(self) -> None: ...


def open_shard_file(path: str, stack: ExitStack) -> ShardFile:
    """Open a shard for writing. It appears under its name when ``stack`` is closed without an error."""
    file = stack.enter_context(writing(path))
    if not path.lower().endswith(".parquet"):
        return _TarFile(file)
    spool = stack.enter_context(tempfile.TemporaryFile(dir=os.path.dirname(path) or os.curdir))  # noqa: SIM115
    return _ParquetFile(file, spool, path)


def keys_of_shard(path: str) -> list[str]:
    """Return the keys of the rows in a shard. Raise `InvalidArgumentError` if the shard is incomplete."""
    try:
        if path.lower().endswith(".parquet"):
            with parquet_file(path) as table:
                is_shard = KEY_COLUMN in table.schema_arrow.names
                return table.read([KEY_COLUMN]).column(0).to_pylist() if is_shard else []
        with open(path, "rb") as file:
            members = TarReader(file, path, can_seek=True)
            return [key for key, _ in group_members(members, lambda position, suffix, member: None)]
    except MediaTensorError as error:
        raise InvalidArgumentError(f"{path} is not a complete shard ({error}). Delete it to write it again.") from error


class _TarFile:
    """A tar shard in WebDataset's layout. Its headers have no times and no owners, so equal rows give equal bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115

    def add(self, key: str, contents: RowContents) -> None:
        columns = dict(contents.columns)
        # Suffix, bytes, and the names of the columns that are stored in this file.
        files = [(suffix, data, [contents.media.get(suffix, suffix)]) for suffix, data in contents.files.items()]
        if type(columns.get("label")) is int:
            files.append(("cls", str(columns.pop("label")).encode(), [contents.given["label"]]))
        for name, array in contents.arrays.items():
            files.append((name if name.endswith("npy") else f"{name}.npy", _npy(array), [name]))
        if columns or not files:
            files.append(("json", json_bytes(columns, has_nan=True), [contents.given.get(one, one) for one in columns]))
        # Readers ignore the case of suffixes. A label in the .json file is the same value as a .cls file.
        stored = {"cls": [contents.given["label"]]} if "label" in columns else {}
        for suffix, _, names in files:
            others = stored.setdefault(suffix.lower(), names)
            if others is not names:
                raise InvalidArgumentError(
                    f"Row {key} has two files with the ending {suffix.lower()!r}, from the columns "
                    f"{', '.join(map(repr, (*others, *names)))}. Rename one of them."
                )
        for suffix, data, _ in files:
            member = tarfile.TarInfo(f"{key}.{suffix}")
            member.size = len(data)
            self._tar.addfile(member, io.BytesIO(data))

    def finish(self) -> None:
        self._tar.close()


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


class _ParquetFile:
    """A Parquet shard. Files are structs of ``bytes`` and ``path``, as Hugging Face stores them, and not compressed.

    The types of columns are known only after the last row. Until then, files are in ``spool``, a temporary file.
    """

    def __init__(self, file: BinaryIO, spool: BinaryIO, path: str) -> None:
        self._file = file
        self._spool = spool
        self._path = path
        self._keys: list[str] = []
        # For each column, the values by row number. The value of a file is (name, position in the spool, size).
        self._files: dict[str, dict[int, tuple[str, int, int]]] = {}
        self._columns: dict[str, dict[int, Any]] = {}

    def add(self, key: str, contents: RowContents) -> None:
        self._keys.append(key)
        for suffix, data in contents.files.items():
            place = f"{key}.{suffix}", self._spool.tell(), len(data)
            self._spool.write(data)
            self._set(self._files, contents.media.get(suffix, suffix), place)
        for name, array in contents.arrays.items():
            self._set(self._columns, name, array.tolist())
        for name, value in contents.columns.items():
            self._set(self._columns, name, to_json(value, has_nan=True))

    def _set(self, columns: dict[str, dict[int, Any]], name: str, value: Any) -> None:
        values, row = columns.setdefault(name, {}), len(self._keys) - 1
        if row in values:
            raise InvalidArgumentError(f"Row {self._keys[-1]} has two values for the column {name!r}. Rename one.")
        values[row] = value

    def finish(self) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingDependencyError(
                f'Writing {self._path} needs pyarrow: pip install "mediatensor[parquet]".'
            ) from None
        repeated = {KEY_COLUMN, *self._files} & self._columns.keys() | {KEY_COLUMN} & self._files.keys()
        if repeated:
            raise InvalidArgumentError(f"Two columns of {self._path} have the name {min(repeated)!r}. Rename yours.")
        num_rows = len(self._keys)
        columns = {KEY_COLUMN: pyarrow.array(self._keys, pyarrow.string())}
        for name, values in self._columns.items():
            try:
                columns[name] = pyarrow.array([values.get(row) for row in range(num_rows)])
            except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise InvalidArgumentError(
                    f"The values in the column {name!r} of {self._path} do not have one type ({error})."
                ) from error
        media = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
        fields = [(name, media) for name in self._files] + [(name, column.type) for name, column in columns.items()]
        schema = pyarrow.schema(fields)
        with pyarrow.parquet.ParquetWriter(
            self._file, schema, compression="none", use_dictionary=list(columns)
        ) as writer:
            for start, stop in self._row_groups():
                files = [pyarrow.array(self._values(name, start, stop), media) for name in self._files]
                others = [column.slice(start, stop - start) for column in columns.values()]
                writer.write_table(pyarrow.Table.from_arrays([*files, *others], schema=schema))

    def _row_groups(self) -> Iterator[tuple[int, int]]:
        start, num_bytes = 0, 0
        for row in range(len(self._keys)):
            size = sum(places[row][2] for places in self._files.values() if row in places)
            if row > start and num_bytes + size > _GROUP_BYTES:
                yield start, row
                start, num_bytes = row, 0
            num_bytes += size
        yield start, len(self._keys)

    def _values(self, name: str, start: int, stop: int) -> list[dict[str, Any] | None]:
        values: list[dict[str, Any] | None] = []
        for row in range(start, stop):
            place = self._files[name].get(row)
            if place is None:
                values.append(None)
                continue
            path, position, size = place
            self._spool.seek(position)
            values.append({"bytes": self._spool.read(size), "path": path})
        return values
