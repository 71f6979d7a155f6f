"""Read the statistics of LeRobot datasets, or combine the statistics of their episodes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..._engine.common.checks import shown
from ..._engine.sources.source import read_whole
from ...errors import InvalidArgumentError, SourceNotFoundError
from . import limits
from .lerobot import LeRobotFormat, join_path, json_pairs, parquet_files
from .manifests import parse_json
from .parquet import batches_of, parquet_file

_NAMES = ("min", "max", "mean", "std", "count")
_QUANTILE = re.compile(r"q\d{1,3}")

#: The recorded values by column, and then by name of the statistic.
_Recorded = Mapping[str, Any]


def read_stats(known: LeRobotFormat, episodes: Sequence[int], *, is_whole: bool) -> dict[str, dict[str, Tensor]]:
    """Return the statistics of the episodes with these numbers; see `LeRobotClips.stats`.

    ``is_whole`` is true if these are all episodes of the dataset.
    """
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
        recorded = parse_json(read_whole(path, limits.MAX_JSON_BYTES), path)
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
    for path in parquet_files(known.root, "meta/episodes"):
        with parquet_file(path) as file:
            names = [name for name in file.schema_arrow.names if name in wanted]
            for batch in batches_of(file, path, ["episode_index", *names], limits.MAX_PARQUET_COLUMN_BYTES):
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
