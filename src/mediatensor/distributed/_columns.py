"""Columns of a batch: the files and numbers of rows that come in, and the columns that come out.

What comes out has the same names, types and numbers of dimensions whatever the rows are.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._common.checks import items_of, path_text, whole_number
from ..datasets import Item
from ..datasets._rows import derived_seed
from ..errors import InvalidArgumentError

__all__ = [
    "BatchRow",
    "Column",
    "ColumnNames",
    "ListColumn",
    "TextColumn",
    "batch_rows",
    "clip_rows",
    "number_or_none",
]


@dataclass(frozen=True)
class ColumnNames:
    """The names of the columns that rows are read from.

    Attributes:
        path: Paths or URLs; or mappings with ``path`` and ``bytes``, as Hugging Face datasets store files.
        bytes: Contents of files. A row with contents is read from them, and its path is only its name.
        row: Numbers of rows.
        used: Further columns that the recipe reads.
    """

    path: str
    bytes: str
    row: str
    used: tuple[str, ...] = ()


@dataclass(frozen=True)
class BatchRow:
    """One row of a batch.

    Attributes:
        item: The file; ``None`` if the row names none.
        number: With the seed, decides the random numbers of the row.
    """

    item: Item | None
    number: int = 0


def batch_rows(batch: Mapping[str, Any], names: ColumnNames) -> list[BatchRow]:
    """The rows of a batch, in order.

    Raises:
        InvalidArgumentError: if there is no column of files, columns differ in length, or a number of a row is none.
    """
    if names.path not in batch and names.bytes not in batch:
        raise InvalidArgumentError(
            f"The batch has neither a column {names.path!r} nor a column {names.bytes!r} (it has {sorted(batch)}): "
            "name yours with path_column or bytes_column."
        )
    lengths = {name: len(values) for name, values in batch.items()}
    if len(set(lengths.values())) != 1:
        raise InvalidArgumentError(f"The columns of a batch must be of one length (got {lengths}).")
    num_rows = lengths[names.path if names.path in batch else names.bytes]
    none = [None] * num_rows
    paths, contents = batch.get(names.path, none), batch.get(names.bytes, none)
    numbers = batch.get(names.row, none)
    # Rows with the same bytes are rows of one file.
    seen: dict[bytes, bytes] = {}
    rows = []
    for i in range(num_rows):
        path, data = _path_and_bytes(paths[i], contents[i])
        data = None if data is None else seen.setdefault(data, data)
        if path is None and data is None:
            rows.append(BatchRow(None))
            continue
        source: Any = path if data is None else data
        item = Item(source, name=path or "", extra={name: batch[name][i] for name in names.used if name in batch})
        rows.append(BatchRow(item, _number(names.row, numbers[i], path, data)))
    return rows


def _path_and_bytes(path: Any, data: Any) -> tuple[str | None, bytes | None]:
    """Path and bytes of a row, each ``None`` if it has none."""
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


def _number(column: str, number: Any, path: str | None, data: bytes | None) -> int:
    """The number of a row; a row without a number depends on its file alone."""
    if number is None:
        name = path if path is not None else hashlib.blake2b(data or b"", digest_size=16).hexdigest()
        return derived_seed("file", name)
    if hasattr(number, "__index__") and not isinstance(number, (bool, np.bool_)):
        return int(number)
    raise InvalidArgumentError(
        f"The column {column!r} must hold whole numbers (got {number!r}): with the seed they decide which clip a row "
        "gives. Name another with row_column, or leave it out."
    )


def number_or_none(value: Any, column: str) -> int | None:
    """A whole number of a column in which rows may have none."""
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return None
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)  # a column of whole numbers with gaps comes as floats
    if hasattr(value, "__index__") and not isinstance(value, (bool, np.bool_)):
        return int(value)
    raise InvalidArgumentError(f"The column {column!r} must hold whole numbers (got {value!r}).")


def clip_rows(
    paths: Iterable[str | os.PathLike[str]], rows_per_file: int = 1, **columns: Sequence[Any]
) -> list[dict[str, Any]]:
    """Rows of files, numbered as a dataset of the same files and ``rows_per_file`` numbers them.

    Args:
        paths: The files.
        rows_per_file: How many rows each file has; each draws its own clip.
        columns: Further columns, one value for each file.

    Returns:
        Rows with ``path``, ``row`` and the further columns, as ``ray.data.from_items`` and ``daft.from_pylist`` take
        them.

    Raises:
        InvalidArgumentError: if ``rows_per_file`` is not positive, or a column has not one value for each file.

    Example:
        >>> from mediatensor.distributed import clip_rows
        >>> clip_rows(["a.mp4", "b.mp4"], 2, label=[0, 1])[1:3]
        [{'path': 'a.mp4', 'row': 1, 'label': 0}, {'path': 'b.mp4', 'row': 2, 'label': 1}]
    """
    files = [path_text("A path", path) for path in items_of("paths", paths, of="paths")]
    rows_per_file = whole_number("rows_per_file", rows_per_file, at_least=1)
    columns = {name: items_of(f"The column {name!r}", values, of="values") for name, values in columns.items()}
    for name, values in columns.items():
        if len(values) != len(files):
            raise InvalidArgumentError(
                f"The column {name!r} must have one value for each of the {len(files)} files (got {len(values)})."
            )
        if name in ("path", "row"):
            raise InvalidArgumentError(f"The rows have a column {name!r} already; call yours otherwise.")
    return [
        {"path": path, "row": file * rows_per_file + clip, **{name: values[file] for name, values in columns.items()}}
        for file, path in enumerate(files)
        for clip in range(rows_per_file)
    ]


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes:
        name: Its name.
        dtype: The type of its numbers.
        shape: The shape of a row's value; ``None`` for a dimension whose size differs between rows.
        missing: The value of a row that has none; in a column whose sizes differ, the value of such a row is empty.

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
        """One array (rows, \\*shape), or where sizes differ an array of arrays; ``None`` is a row without a value."""
        if None in self.shape:
            empty = np.zeros([size or 0 for size in self.shape], self.dtype)
            return _of_objects([empty if value is None else np.asarray(value, self.dtype) for value in values])
        sizes = [size for size in self.shape if size is not None]
        column = np.full((len(values), *sizes), self.missing, self.dtype)
        for i, value in enumerate(values):
            if value is not None:
                column[i] = value
        return column

    def check(self, value: NDArray[Any]) -> None:
        """Raise unless a value is of the column's shape.

        Raises:
            InvalidArgumentError: if it is not.
        """
        if len(value.shape) != len(self.shape) or any(
            wanted not in (None, size) for wanted, size in zip(self.shape, value.shape, strict=True)
        ):
            wanted = tuple("any" if size is None else size for size in self.shape)
            raise InvalidArgumentError(
                f"{self.name} of this row has the shape {value.shape}, but the column has {wanted}: bring all rows to "
                "one shape, or leave clip_shape out."
            )


@dataclass(frozen=True)
class TextColumn:
    """A column of strings; a row without a value has an empty one."""

    name: str

    def gather(self, values: Sequence[str | None]) -> NDArray[Any]:
        """An array of strings; ``None`` is a row without a value."""
        return _of_objects([value or "" for value in values])


@dataclass(frozen=True)
class ListColumn:
    """A column of lists of strings; a row without a value has an empty one."""

    name: str

    def gather(self, values: Sequence[Sequence[str] | None]) -> NDArray[Any]:
        """An array of lists; ``None`` is a row without a value."""
        return _of_objects([list(value or ()) for value in values])


def _of_objects(values: Sequence[Any]) -> NDArray[Any]:
    # NumPy would make a single array of values that happen to have one shape.
    column = np.empty(len(values), object)
    for i, value in enumerate(values):
        column[i] = value
    return column
