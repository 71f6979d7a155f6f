"""Read rows of episodes from the tables of LeRobot datasets, and the statistics of datasets."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..._engine.common.checks import shown
from ..._engine.sources.source import read_whole, stamp_of
from ...errors import InvalidArgumentError, ReadError, SourceNotFoundError
from . import manifests, parquet
from .lerobot import Episode, EpisodeFiles, LeRobotFormat, check_has_columns, episode_tables, join_path, json_pairs
from .manifests import parse_json
from .parquet import RecentlyUsed, batches_of, parquet_file

#: Bytes of LeRobot tables that a process keeps in memory.
MAX_KEPT_TABLE_BYTES = 1 << 29

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
_kept_tables: RecentlyUsed[_Table] = RecentlyUsed(MAX_KEPT_TABLE_BYTES, _num_bytes)


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
    """Read the rows of an episode from its table. ``columns`` maps names to shapes of values.

    Raise ReadError if the table is missing or damaged, or its rows contradict the metadata.
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
        batches = list(batches_of(file, path, [column], parquet.MAX_ROW_GROUP_BYTES, group))
    return _Table({column: pyarrow.chunked_array([batch.column(column) for batch in batches])}, {}, {})


def _read_rows(path: str, columns: Mapping[str, tuple[int, ...]]) -> _Table:
    parts: dict[str, list[Any]] = {name: [] for name in columns}
    gaps: dict[str, list[NDArray[np.bool_]]] = {name: [] for name in columns}
    with parquet_file(path) as file:
        names = file.schema_arrow.names
        check_has_columns(path, names, list(columns))
        for batch in batches_of(file, path, list(columns), parquet.MAX_PARQUET_COLUMN_BYTES):
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


# Statistics

_NAMES = ("min", "max", "mean", "std", "count")
_QUANTILE = re.compile(r"q\d{1,3}")

#: The recorded values by column, and then by name of the statistic.
_Recorded = Mapping[str, Any]


def read_stats(known: LeRobotFormat, episodes: Sequence[int], *, is_whole: bool) -> dict[str, dict[str, Tensor]]:
    """Return the statistics of some episodes; see `LeRobotClips.stats`. With ``is_whole``, these are all episodes."""
    if known.version == (2, 1):
        place = join_path(known.root, "meta/episodes_stats.jsonl")
        try:
            of_episodes = dict(
                json_pairs(known.root, "meta/episodes_stats.jsonl", "an episode_index and stats", episode_index=int,
                           stats=dict)
            )  # fmt: skip
        except SourceNotFoundError:
            raise _missing_error(known, "episodes_stats.jsonl") from None
        return _combine(known, episodes, of_episodes, place)
    if known.version == (2, 0) or is_whole:
        return _stats_of_dataset(known)
    of_episodes = dict(_stats_in_tables(known))
    return _combine(known, episodes, of_episodes, join_path(known.root, "meta/episodes"))


def _missing_error(known: LeRobotFormat, name: str) -> SourceNotFoundError:
    return SourceNotFoundError(
        f"{known.root} has no statistics: there is no meta/{name}. Download all of meta, or compute the statistics "
        "with LeRobot's own scripts."
    )


def _stats_of_dataset(known: LeRobotFormat) -> dict[str, dict[str, Tensor]]:
    path = join_path(known.root, "meta/stats.json")
    try:
        recorded = parse_json(read_whole(path, manifests.MAX_JSON_BYTES), path)
    except SourceNotFoundError:
        raise _missing_error(known, "stats.json") from None
    if not isinstance(recorded, dict):
        raise InvalidArgumentError(f"{path} must be an object (got {type(recorded).__name__}).")
    stats = {}
    for column in (name for name in known.features if name in recorded):
        own = recorded[column]
        if not isinstance(own, dict):
            raise InvalidArgumentError(f"{column!r} of {path} must be an object (got {type(own).__name__}).")
        names = [name for name in own if name in _NAMES or _QUANTILE.fullmatch(name)]
        stats[column] = {name: _as_tensor(name, _parse(own, name, known, column, path)) for name in names}
    return stats


def _stats_in_tables(known: LeRobotFormat) -> Iterator[tuple[int, _Recorded]]:
    """Yield (episode number, statistics) for each row of the episode tables of version 3."""
    wanted = {f"stats/{column}/{name}": (column, name) for column in known.features for name in _NAMES}
    for path in episode_tables(known.root):
        with parquet_file(path) as file:
            names = [name for name in file.schema_arrow.names if name in wanted]
            for batch in batches_of(file, path, ["episode_index", *names], parquet.MAX_PARQUET_COLUMN_BYTES):
                for row in batch.to_pylist():
                    stats: dict[str, dict[str, Any]] = {}
                    for key in names:
                        if row[key] is not None:
                            column, name = wanted[key]
                            stats.setdefault(column, {})[name] = row[key]
                    yield row["episode_index"], stats


def _combine(
    known: LeRobotFormat, episodes: Sequence[int], of_episodes: Mapping[int, _Recorded], place: str
) -> dict[str, dict[str, Tensor]]:
    columns = [name for name in known.features if any(name in of_episodes.get(number, ()) for number in episodes)]
    if not columns:
        raise InvalidArgumentError(
            f"{place} has no statistics of the episodes. Leave out episodes= to get those of the whole dataset."
            if known.version == (3, 0)
            else f"{place} has no statistics of the episodes. Compute them with LeRobot's own scripts."
        )
    stats = {}
    for column in columns:
        parts: dict[str, list[NDArray[np.float64]]] = {name: [] for name in _NAMES}
        for number in episodes:
            own = of_episodes.get(number, {}).get(column)
            if not isinstance(own, dict):
                raise InvalidArgumentError(
                    f"{place} has no statistics of {column} for episode {number}. Leave out this episode, or compute "
                    "its statistics with LeRobot's own scripts."
                )
            for name in _NAMES:
                parts[name].append(_parse(own, name, known, column, f"episode {number} of {place}"))
        counts = np.array(parts["count"])
        if not np.isfinite(counts).all() or counts.min() < 0 or not counts.sum():
            raise InvalidArgumentError(
                f"The counts of {column} in {place} must be positive (got {shown(counts.tolist())})."
            )
        shares = (counts / counts.sum()).reshape(-1, *(1,) * parts["mean"][0].ndim)
        means, deviations = np.stack(parts["mean"]), np.stack(parts["std"])
        mean = (shares * means).sum(0)
        # The variance of all values is the mean variance within episodes, plus the variance of the episodes' means.
        variance = (shares * (deviations**2 + (means - mean) ** 2)).sum(0)
        combined = {
            "min": np.min(parts["min"], axis=0),
            "max": np.max(parts["max"], axis=0),
            "mean": mean,
            "std": np.sqrt(variance),
            "count": counts.sum(),
        }
        stats[column] = {name: _as_tensor(name, value) for name, value in combined.items()}
    return stats


def _parse(own: _Recorded, name: str, known: LeRobotFormat, column: str, place: str) -> NDArray[np.float64]:
    """Return a recorded statistic in the shape of the column's values; (C, 1, 1) for cameras, () for counts."""
    feature = known.features[column]
    if name == "count" or feature["shape"] == (1,):
        shape: tuple[int, ...] = ()
    elif feature["dtype"] in ("video", "image"):
        shape = (min(feature["shape"], default=3), 1, 1)  # (H, W, C) or (C, H, W)
    else:
        shape = feature["shape"]
    try:
        values = np.asarray(own.get(name))
    except ValueError:  # lists of different lengths
        values = np.asarray(None)
    if values.dtype.kind not in "biuf" or values.size != math.prod(shape):
        raise InvalidArgumentError(
            f"{name} of {column!r} in {place} must be {math.prod(shape)} numbers (got {shown(own.get(name))})."
        )
    return values.astype(np.float64).reshape(shape)


def _as_tensor(name: str, value: NDArray[np.float64]) -> Tensor:
    return torch.as_tensor(value).to(torch.int64 if name == "count" else torch.float32)
