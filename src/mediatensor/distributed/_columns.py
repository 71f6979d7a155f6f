"""Columns of a batch: input columns with files and row numbers, and output columns.

Output columns have the same names, types and numbers of dimensions for all rows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._engine.common.checks import items_of, whole_number
from ..datasets._rows.recipe import derived_seed
from ..datasets._sources.dispatch import as_items
from ..datasets._sources.items import Item, MediaKind, UnreadableSource
from ..datasets._sources.references import REFERENCE_COLUMNS, references_of, source_of_reference
from ..errors import InvalidArgumentError


@dataclass(frozen=True)
class ColumnNames:
    """The names of the input columns.

    Attributes:
        path: Paths or URLs; or mappings with ``path`` and ``bytes``, as stored by Hugging Face datasets.
        bytes: Contents of files. For a row with contents, the path is only a name.
        row: Row numbers.
        used: Further columns that the recipe reads.
    """

    path: str
    bytes: str
    row: str
    used: tuple[str, ...] = ()


@dataclass(frozen=True)
class BatchRow:
    """One row of a batch: its file, if it has one, and its row number, which is combined with the seed."""

    item: Item | None
    number: int = 0


def batch_rows(batch: Mapping[str, Any], names: ColumnNames) -> list[BatchRow]:
    """Return the rows of a batch, in order."""
    if names.path not in batch and names.bytes not in batch:
        raise InvalidArgumentError(
            f"The batch has neither a column {names.path!r} nor a column {names.bytes!r} (it has {sorted(batch)}): "
            "name yours with path_column or bytes_column."
        )
    num_rows = _num_rows(batch)
    none = [None] * num_rows
    paths, contents = batch.get(names.path, none), batch.get(names.bytes, none)
    numbers = batch.get(names.row, none)
    # Rows with the same bytes belong to one file.
    seen: dict[bytes, bytes] = {}
    rows = []
    for i in range(num_rows):
        path, data = _path_and_bytes(paths[i], contents[i])
        data = None if data is None else seen.setdefault(data, data)
        item = _item_of_row(path, data, batch, i, names.used)
        if item is None:
            rows.append(BatchRow(None))
            continue
        number = numbers[i]
        number = _number_of_file(item.name, data) if number is None else _number(names.row, number)
        rows.append(BatchRow(item, number))
    return rows


def row_numbers(batch: Mapping[str, Any], column: str) -> list[int]:
    """Return the row numbers of a batch that has only row numbers."""
    if column not in batch:
        raise InvalidArgumentError(
            f"The batch has no column {column!r} with the numbers of rows (it has {sorted(batch)}): name yours with "
            "row_column."
        )
    _num_rows(batch)
    return [_number(column, _plain_value(number)) for number in batch[column]]


def _num_rows(batch: Mapping[str, Any]) -> int:
    lengths = {name: len(values) for name, values in batch.items()}
    if len(set(lengths.values())) != 1:
        raise InvalidArgumentError(f"The columns of a batch must be of one length (got {lengths}).")
    return next(iter(lengths.values()))


def _item_of_row(
    path: str | None, data: bytes | None, batch: Mapping[str, Any], i: int, used: Sequence[str]
) -> Item | None:
    """Return the file of a row; ``None`` if it has no file. An error of the file becomes the error of the row."""
    place = {name: _plain_value(batch[name][i]) for name in REFERENCE_COLUMNS if name in batch}
    name = str(place.get("source_name") or path or "")
    segment = {key: _seconds(batch[key][i]) for key in ("start_seconds", "end_seconds") if key in batch}
    extra = {key: batch[key][i] for key in used if key in batch}
    try:
        source = source_of_reference(path, place) if data is None else data
        return None if source is None else Item(source, name=name, extra=extra, **segment)
    except (InvalidArgumentError, TypeError) as error:
        return Item(UnreadableSource(str(error)), name=name, extra=extra)


def _plain_value(value: Any) -> Any:
    """Convert NumPy numbers to Python numbers, and NaN to ``None``, for columns with missing values."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return None if np.isnan(value) else int(value) if value.is_integer() else value
    return value


def _seconds(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value


def _path_and_bytes(path: Any, data: Any) -> tuple[str | None, bytes | None]:
    """Return a row's path and bytes, each ``None`` if missing."""
    if isinstance(path, Mapping):
        path, data = path.get("path"), path.get("bytes") if data is None else data
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if isinstance(data, (bytearray, memoryview)):
        data = bytes(data)
    if isinstance(data, np.bytes_):
        raise InvalidArgumentError(
            "Bytes of files must come in a column of objects (got a NumPy array of dtype 'S', which drops zeros at the "
            "end of each)."
        )
    return str(path) if isinstance(path, str) and path else None, data if isinstance(data, bytes) else None


def _number(column: str, number: Any) -> int:
    if hasattr(number, "__index__") and not isinstance(number, (bool, np.bool_)):
        return int(number)
    raise InvalidArgumentError(
        f"The column {column!r} must hold whole numbers (got {number!r}): with the seed they decide which clip a row "
        "gives. Name another with row_column, or leave it out."
    )


def _number_of_file(name: str, data: bytes | None) -> int:
    """Return a row number for a row that has none, derived only from the row's file."""
    if data is not None and name == Item(data).name:  # this name is only the default name of bytes
        name = hashlib.blake2b(data, digest_size=16).hexdigest()
    return derived_seed("file", name)


def number_or_none(value: Any, column: str) -> int | None:
    """Return a value of an integer column as an int; ``None`` if the value is missing."""
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return None
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)  # integers of a column with missing values are stored as floats
    if hasattr(value, "__index__") and not isinstance(value, (bool, np.bool_)):
        return int(value)
    raise InvalidArgumentError(f"The column {column!r} must hold whole numbers (got {value!r}).")


def clip_rows(
    source: Any,
    rows_per_file: int = 1,
    *,
    kind: MediaKind = "video",
    media_column: str | None = None,
    label_column: str | None = None,
    classes: Sequence[str] | None = None,
    **columns: Sequence[Any],
) -> list[dict[str, Any]]:
    """Return the rows of any dataset source, numbered like the rows of a dataset with the same ``rows_per_file``.

    A row has plain values that locate its file, so that any machine with the file at the same path or URL can open it.
    The bytes of tar shards and Parquet files are not copied.

    Args:
        source: Paths or URLs, a folder, a manifest, tar shards, a Parquet file (a path or URL) with paths or with media
            contents ...; see `mediatensor.datasets.as_items`.
        rows_per_file: Number of rows of each file; each draws its own clip.
        kind: ``"video"``, ``"audio"``, ``"image"`` or ``"document"``: the kind of files in a folder or a table.
        media_column: The column of a manifest or a Parquet file with the file, if it has an unusual name.
        label_column: The column with the label, if it has an unusual name.
        classes: The class names in the order of their numbers; by default the classes of the source, sorted by name.
        columns: Further columns, one value for each file.

    Returns:
        Rows for ``ray.data.from_items`` and ``daft.from_pylist``, all with the same columns: ``path`` and ``row``; for
        parts of files ``source_name``, and ``start_byte`` and ``end_byte`` (tar) or ``table_column`` and ``table_row``
        (Parquet); ``start_seconds`` and ``end_seconds`` of segments; ``label`` and other columns of the source.
        ``unreadable`` is the error of an unreadable part of the source (a damaged shard).

    Raises:
        InvalidArgumentError: if ``rows_per_file`` is not positive, a column does not have one value for each file, a
            column's name is in use, or as for `mediatensor.datasets.as_items`.
        SourceNotFoundError: if there is no such folder, manifest or shard.

    Example:
        >>> from mediatensor.distributed import clip_rows
        >>> clip_rows(["a.mp4", "b.mp4"], 2, label=[0, 1])[1:3]
        [{'path': 'a.mp4', 'row': 1, 'label': 0}, {'path': 'b.mp4', 'row': 2, 'label': 1}]
        >>> clip_rows("videos", 2)[5]["path"]  # a folder
        'videos/c.mp4'
    """
    rows_per_file = whole_number("rows_per_file", rows_per_file, at_least=1)
    items = as_items(source, kind=kind, media_column=media_column, label_column=label_column, classes=classes)
    columns = {name: items_of(f"The column {name!r}", values, of="values") for name, values in columns.items()}
    files = list(references_of(items))
    # Give all rows of a table the same columns.
    names = list(dict.fromkeys(name for file in files for name in file))
    for name, values in columns.items():
        if len(values) != len(files):
            raise InvalidArgumentError(
                f"The column {name!r} must have one value for each of the {len(files)} files (got {len(values)})."
            )
        if name in ("row", *names):
            raise InvalidArgumentError(f"The rows already have a column {name!r}; give yours another name.")
    return [
        {
            "path": file["path"],
            "row": number * rows_per_file + clip,
            **{name: file.get(name) for name in names if name != "path"},
            **{name: values[number] for name, values in columns.items()},
        }
        for number, file in enumerate(files)
        for clip in range(rows_per_file)
    ]


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes:
        name: Name of the column.
        dtype: The dtype of the numbers.
        shape: The shape of a row's value; ``None`` for a dimension whose size differs between rows.
        missing: Value for rows without a value. If sizes differ, such rows have an empty array.

    Example:
        >>> from mediatensor.distributed import Column
        >>> Column("duration_seconds", "float64", missing=float("nan")).gather([0.5, None])
        array([0.5, nan])
        >>> Column("boxes", "float32", (None, 4)).gather([None])[0].shape
        (0, 4)
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    missing: float = 0

    def gather(self, values: Sequence[Any]) -> NDArray[Any]:
        r"""Join values in one array (rows, \*shape) or, if sizes differ, in an array of arrays; ``None`` is a missing
        value.
        """
        if None in self.shape:
            empty = np.zeros([size or 0 for size in self.shape], self.dtype)
            return _object_array([empty if value is None else np.asarray(value, self.dtype) for value in values])
        sizes = [size for size in self.shape if size is not None]
        column = np.full((len(values), *sizes), self.missing, self.dtype)
        for i, value in enumerate(values):
            if value is not None:
                column[i] = value
        return column

    def check(self, value: NDArray[Any]) -> None:
        """Raise InvalidArgumentError unless a value has the column's shape."""
        if len(value.shape) != len(self.shape) or any(
            wanted not in (None, size) for wanted, size in zip(self.shape, value.shape, strict=True)
        ):
            wanted = tuple("any" if size is None else size for size in self.shape)
            raise InvalidArgumentError(
                f"{self.name} of this row has the shape {value.shape}, but the column has {wanted}: bring all rows to "
                "one shape, or leave clip_shape or picture_shape out."
            )


@dataclass(frozen=True)
class TextColumn:
    """A column of strings. Rows without a value have an empty string."""

    name: str

    def gather(self, values: Sequence[str | None]) -> NDArray[Any]:
        """Join strings in an array; ``None`` is a missing value."""
        return _object_array([value or "" for value in values])


@dataclass(frozen=True)
class ListColumn:
    """A column of lists of strings or other plain values. Rows without a value have an empty list."""

    name: str

    def gather(self, values: Sequence[Any]) -> NDArray[Any]:
        """Join lists in an array; ``None`` is a missing value."""
        return _object_array([value if isinstance(value, dict) else list(value or ()) for value in values])


def _object_array(values: Sequence[Any]) -> NDArray[Any]:
    # Otherwise, NumPy makes one array of values of equal shape.
    column = np.empty(len(values), object)
    for i, value in enumerate(values):
        column[i] = value
    return column
