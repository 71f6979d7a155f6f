"""From the columns of a batch to the files and numbers of its rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets import Item
from ..datasets._seeding import derived_seed
from ..errors import InvalidArgumentError

__all__ = ["BatchRow", "ColumnNames", "batch_rows", "number_or_none"]


@dataclass(frozen=True)
class ColumnNames:
    """What the columns of a batch are called that rows are read from.

    Attributes:
        path: Paths or URLs; or mappings with ``path`` and ``bytes``, as Hugging Face datasets store files.
        bytes: Contents of files; where there are some they are read, and the path is but a name.
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
        number: What the random numbers of the row depend on, beside the seed.
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
    """The number of a row; one without depends on its file alone."""
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
