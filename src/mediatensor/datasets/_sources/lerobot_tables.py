"""Read the rows of one episode from the tables of LeRobot datasets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._engine.sources.source import stamp_of
from ...errors import InvalidArgumentError, ReadError
from . import limits
from .lerobot import Episode, EpisodeFiles, check_has_columns
from .parquet import RecentlyUsed, batches_of, parquet_file

#: For each column, an array (rows, *shape), a list of text, or a list of other values.
_Columns = dict[str, Any]


class _Table(NamedTuple):
    """A table that was read as a whole, with the place of each episode in it.

    ``spans`` has (first row, number of rows) for each episode. If the rows of an episode are not consecutive, only the
    last consecutive group of them counts. ``gaps`` has masks of missing values, as in `TableRows`.
    """

    columns: _Columns
    spans: dict[int, tuple[int, int]]
    gaps: dict[str, NDArray[np.bool_]]


def _num_bytes(table: _Table) -> int:
    return sum(
        sum(len(text) + 64 for text in column) if isinstance(column, list) else int(column.nbytes)
        for column in table.columns.values()
    )


# Tables are small compared with the videos, and every row needs its table.
_kept_tables: RecentlyUsed[_Table] = RecentlyUsed(limits.MAX_KEPT_TABLE_BYTES, _num_bytes)


class TableRows(NamedTuple):
    r"""The rows of an episode. Their first row is row ``first`` of the table.

    Each column is an array (frames, \*shape), float32, int64 or bool, or a list of text. For each column with missing
    values, ``gaps`` has a mask, bool (frames,), that is true where a value is missing. In place of a missing value, the
    column has 0 or empty text.
    """

    first: int
    columns: _Columns
    gaps: Mapping[str, NDArray[np.bool_]]


def table_rows(files: EpisodeFiles, episode: Episode, columns: Mapping[str, tuple[int, ...]]) -> TableRows:
    """Read the rows of an episode from its table.

    ``columns`` maps the name of each column to read to the shape of its values, which must be numbers or text.

    Raises:
        ReadError: if the table is missing or damaged, or its rows contradict the metadata.
    """
    path = files.table
    key = (path, stamp_of(path), tuple(columns.items()))
    try:
        table = _kept_tables.get(key, lambda: _read_rows(path, columns))
    except InvalidArgumentError as error:  # so that the dataset's error policy applies
        raise ReadError(str(error)) from error
    first, num_rows = table.spans.get(episode.index, (0, 0))
    if num_rows != episode.num_frames:
        raise ReadError(
            f"Episode {episode.index} should have {episode.num_frames} consecutive rows in {path}, but has {num_rows}."
        )
    rows = slice(first, first + num_rows)
    gaps = {name: is_gap[rows] for name, is_gap in table.gaps.items() if is_gap[rows].any()}
    return TableRows(first, {name: column[rows] for name, column in table.columns.items()}, gaps)


def seconds_of_rows(columns: Mapping[str, Any], frames: NDArray[np.int64], fps: float) -> NDArray[np.float64]:
    """Return the times of the frames with the numbers ``frames``, in seconds from the start of their episode."""
    seconds = columns["timestamp"][frames]
    # Stored times are float32. After an hour, rounding is off by a tenth of a millisecond.
    exact = columns["frame_index"][frames] / fps
    times: NDArray[np.float64] = np.where(exact.astype(np.float32) == seconds, exact, seconds.astype(np.float64))
    return times


def structured_values(path: str, column: str, rows: Sequence[int]) -> list[Any]:
    """Return the values in some rows of a column, converted from Arrow to lists and dicts.

    Only the row groups with these rows are read. Converting all rows could take many times the size of the file in
    memory, because a value that applies to a whole episode is repeated in each of its rows.
    """
    stamp = stamp_of(path)
    values = []
    try:
        starts = _kept_tables.get((path, stamp), partial(_group_starts, path)).columns["starts"]
        for row in rows:
            group = int(np.searchsorted(starts, row, "right")) - 1
            read = _kept_tables.get((path, stamp, column, group), partial(_read_group, path, column, group))
            values.append(read.columns[column][row - int(starts[group])].as_py())
    except InvalidArgumentError as error:  # so that the dataset's error policy applies
        raise ReadError(str(error)) from error
    return values


def _group_starts(path: str) -> _Table:
    with parquet_file(path) as file:
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    return _Table({"starts": np.cumsum([0, *sizes[:-1]])}, {}, {})


def _read_group(path: str, column: str, group: int) -> _Table:
    import pyarrow

    with parquet_file(path) as file:
        check_has_columns(path, file.schema_arrow.names, [column])
        batches = list(batches_of(file, path, [column], limits.MAX_ROW_GROUP_BYTES, group))
    return _Table({column: pyarrow.chunked_array([batch.column(column) for batch in batches])}, {}, {})


def _read_rows(path: str, columns: Mapping[str, tuple[int, ...]]) -> _Table:
    parts: dict[str, list[Any]] = {name: [] for name in columns}
    gaps: dict[str, list[NDArray[np.bool_]]] = {name: [] for name in columns}
    with parquet_file(path) as file:
        names = file.schema_arrow.names
        check_has_columns(path, names, list(columns))
        for batch in batches_of(file, path, list(columns), limits.MAX_PARQUET_COLUMN_BYTES):
            for name, shape in columns.items():
                values, is_gap = _values(batch.column(name), shape, f"The column {name!r} of {path}")
                parts[name].append(values)
                gaps[name].append(is_gap)
    if not parts["episode_index"]:
        raise InvalidArgumentError(f"{path} has no rows.")
    read = {
        name: np.concatenate(arrays) if isinstance(arrays[0], np.ndarray) else [text for one in arrays for text in one]
        for name, arrays in parts.items()
    }
    lacking = {name: is_gap for name, some in gaps.items() if (is_gap := np.concatenate(some)).any()}
    for name, is_gap in lacking.items():
        if is_gap.all():
            raise InvalidArgumentError(
                f"The column {name!r} of {path} must have values of the shape {columns[name] or (1,)}, according to "
                "meta/info.json."
            )
    index = read["episode_index"]
    if "episode_index" in lacking:
        index[lacking["episode_index"]] = -1  # matches no episode
    starts = np.flatnonzero(np.diff(index, prepend=index[0] - 1))
    lengths = np.diff(starts, append=len(index))
    spans = zip(index[starts].tolist(), zip(starts.tolist(), lengths.tolist(), strict=True), strict=True)
    return _Table(read, dict(spans), lacking)


def _values(array: Any, shape: tuple[int, ...], place: str) -> tuple[NDArray[Any] | list[str], NDArray[np.bool_]]:
    r"""Convert an Arrow array to an array (rows, \*shape) or a list of text.

    The second result is a mask of missing values. ``place`` names the column in messages.
    """
    import pyarrow
    import pyarrow.types as types

    if isinstance(array, pyarrow.ExtensionArray):
        array = array.storage
    value_type = array.type
    while types.is_list(value_type) or types.is_large_list(value_type) or types.is_fixed_size_list(value_type):
        value_type = value_type.value_type
    if (types.is_string(value_type) or types.is_large_string(value_type)) and not shape and value_type == array.type:
        texts = array.to_pylist()
        return [text or "" for text in texts], np.array([text is None for text in texts], np.bool_)
    if types.is_floating(value_type):
        dtype: Any = np.float32
    elif types.is_integer(value_type):
        dtype = np.int64
    elif types.is_boolean(value_type):
        dtype = np.bool_
    else:
        raise InvalidArgumentError(f"{place} must contain numbers or text (its type is {array.type}).")
    rows = _whole_rows(array, math.prod(shape))
    if rows is not None:
        values = np.asarray(rows.to_numpy(zero_copy_only=False), dtype)
        return values.reshape(len(array), *shape), np.zeros(len(array), np.bool_)
    read = np.zeros((len(array), *shape), dtype)
    is_gap = np.ones(len(array), np.bool_)
    for number, row in enumerate(array.to_pylist()):
        # A row with any missing number counts as missing.
        numbers = _flat(row)
        if len(numbers) == read[number].size and None not in numbers:
            read[number] = np.array(numbers).reshape(shape)
            is_gap[number] = False
    return read, is_gap


def _whole_rows(array: Any, size: int) -> Any:
    import pyarrow

    num_rows = len(array)
    while isinstance(array, pyarrow.ListArray | pyarrow.LargeListArray | pyarrow.FixedSizeListArray):
        if array.null_count or (
            not isinstance(array, pyarrow.FixedSizeListArray) and len(array.value_lengths().unique()) > 1
        ):
            return None
        array = array.flatten()
    return None if array.null_count or len(array) != num_rows * size else array


def _flat(value: Any) -> list[Any]:
    return [number for one in value for number in _flat(one)] if isinstance(value, list) else [value]
