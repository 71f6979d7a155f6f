"""Parquet files with unexpected columns."""

from __future__ import annotations

import datetime
import decimal
import io
import random
from collections.abc import Callable
from typing import Any

__all__ = ["changed_parquet"]

_NAMES = ("path", "file_name", "video", "label", "labels", "bytes", "url", "", "a.b", "x" * 1000, "\0", "video.bytes")


def changed_parquet(rng: random.Random, data: bytes) -> bytes:
    """Another type, name or number of columns, values that are missing, or other groups of rows."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(io.BytesIO(data))
    for _ in range(rng.choice((1, 1, 3))):
        try:
            table = rng.choice(_CHANGES)(rng, table)
        except (pyarrow.ArrowException, IndexError, OverflowError):
            continue
    file = io.BytesIO()
    try:
        pyarrow.parquet.write_table(table, file, row_group_size=rng.choice((1, 2, None)))
    except pyarrow.ArrowException:
        return data
    return file.getvalue()


def _other_values(rng: random.Random, table: Any) -> Any:
    """Values of some type in the place of a column."""
    import pyarrow

    number, count = rng.randrange(table.num_columns), table.num_rows
    make = rng.choice(_VALUES)
    column = pyarrow.array([None if rng.random() < 0.2 else make(rng) for _ in range(count)])
    if rng.random() < 0.2:
        column = column.dictionary_encode()
    return table.set_column(number, table.column_names[number], column)


#: Functions that generate values; the values of a column have one type.
_VALUES: tuple[Callable[[random.Random], Any], ...] = (
    lambda rng: rng.choice(("", "a.mp4", "run", "\0", "../" * 50, "a" * 5000, "file:x", "1", "-7", "1e400", "\u202e")),
    lambda rng: rng.choice((0, 1, -1, (1 << 63) - 1, -(1 << 63))),
    lambda rng: rng.choice((0.0, float("nan"), float("inf"), 1e308)),
    lambda rng: rng.choice((True, False)),
    lambda rng: rng.randbytes(rng.choice((0, 1, 300))),
    lambda rng: [rng.choice(("a", "b"))] * rng.choice((0, 1, 3)),
    lambda rng: {"path": rng.choice(("a.mp4", "", None)), "bytes": rng.choice((None, b"", rng.randbytes(30)))},
    lambda rng: {"bytes": {"bytes": rng.randbytes(3)}},
    lambda rng: {"bytes": [rng.randbytes(3)], "path": 3},
    lambda rng: [{"bytes": rng.randbytes(3), "path": "a"}],
    lambda rng: datetime.datetime(rng.choice((1, 1970, 9999)), 1, 1),
    lambda rng: datetime.timedelta(days=rng.choice((0, -3, 99_999))),
    lambda rng: decimal.Decimal(rng.choice(("1.5", "-0.25", "99999999.5"))),
    lambda rng: None,
)


def _other_name(rng: random.Random, table: Any) -> Any:
    names = list(table.column_names)
    names[rng.randrange(len(names))] = rng.choice((*_NAMES, rng.choice(names)))
    return table.rename_columns(names)


def _drop(rng: random.Random, table: Any) -> Any:
    return table.remove_column(rng.randrange(table.num_columns))


def _another(rng: random.Random, table: Any) -> Any:
    number = rng.randrange(table.num_columns)
    return table.append_column(rng.choice(_NAMES), table.column(number))


def _rows(rng: random.Random, table: Any) -> Any:
    import pyarrow

    return rng.choice((table.slice(0, 0), table.slice(1), pyarrow.concat_tables([table] * 40)))


_CHANGES: tuple[Callable[[random.Random, Any], Any], ...] = (
    _other_values, _other_values, _other_values, _other_name, _other_name, _drop, _another, _rows
)  # fmt: skip
