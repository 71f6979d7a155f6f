"""The metadata of LeRobot datasets, versions 2 and 3.

The format is described in LeRobot's documentation. ``meta/info.json`` names the columns and the path patterns. An
episode has consecutive rows in a Parquet table and, for each camera, a time range in a video. In version 2, each
episode has its own table and videos. In version 3, several episodes can share them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Never

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.checks import shown
from ..._engine.sources.source import Source, read_whole, url_scheme
from ...errors import InvalidArgumentError, MissingDependencyError, OpenError, ReadError, SourceNotFoundError
from . import manifests, parquet
from .items import Item, LazyItems
from .manifests import parse_json
from .parquet import batches_of, parquet_file

#: Columns of a LeRobot dataset.
MAX_COLUMNS = 10_000

#: Frames of an episode of a LeRobot dataset: a day at 1,000 frames per second.
MAX_EPISODE_FRAMES = 86_400_000


@dataclass(frozen=True)
class LeRobotFormat:
    """The properties that all episodes of a dataset share.

    ``features`` has the ``dtype`` and ``shape`` of each column, ``tasks`` and ``subtasks`` the texts by number, and
    ``depths`` an entry for each camera with depth maps. Without a table of subtasks, ``subtasks`` is ``None``.
    """

    root: str
    version: tuple[int, int]
    fps: float
    features: Mapping[str, Mapping[str, Any]]
    tasks: Mapping[int, str]
    subtasks: Mapping[int, str] | None
    depths: Mapping[str, DepthScale] = field(default_factory=dict)

    def names_of(self, *dtypes: str) -> list[str]:
        """Return the names of the columns that have one of ``dtypes``, in the order of the dataset."""
        return [name for name, feature in self.features.items() if feature["dtype"] in dtypes]

    @property
    def table_columns(self) -> dict[str, tuple[int, ...]]:
        """The columns with numbers or text, and the shapes of their values; () for single values."""
        return {
            name: () if feature["shape"] == (1,) else feature["shape"]
            for name, feature in self.features.items()
            if feature["dtype"] not in ("video", "image") and not is_structured(feature["dtype"])
        }

    @property
    def structured_columns(self) -> list[str]:
        """The names of the columns with structured values, such as the lists of dicts in a ``language`` column."""
        return [name for name, feature in self.features.items() if is_structured(feature["dtype"])]


def is_structured(dtype: str) -> bool:
    """Return whether a column with this dtype has structured values, which are neither images, numbers nor text."""
    try:
        return dtype not in ("video", "image", "string") and np.dtype(dtype).kind not in "biuf"
    except TypeError:
        return True


@dataclass(frozen=True)
class DepthScale:
    """How the depth maps of a camera are stored.

    In a table, they are images of depths in ``unit`` (m or mm). In a video, they are 12-bit codes. The lowest code
    means the depth ``least`` and the highest the depth ``greatest``, both in metres. Codes in between are linear in the
    depth or, if ``is_logarithmic``, in the logarithm of (depth + ``shift``).
    """

    least: float = 0.01
    greatest: float = 10.0
    shift: float = 3.5
    is_logarithmic: bool = True
    unit: str | None = None


@dataclass(frozen=True)
class Episode:
    """An episode: its number, its first row in the dataset, and its start in the video of each camera."""

    index: int
    num_frames: int
    first_index: int
    begin_seconds: Mapping[str, float]


@dataclass(frozen=True)
class EpisodeFiles(Source):
    """The path of an episode's table, and a pair (camera, path or URL) for each video.

    Episodes in the same files have equal `EpisodeFiles`, so each file is opened only once for all of them.
    """

    table: str
    videos: tuple[tuple[str, str], ...]

    def open(self) -> Never:
        raise OpenError(
            f"{self.describe()} is a table of a LeRobot dataset. Use LeRobotClips to read it and its videos."
        )

    def describe(self) -> str:
        return self.table


class EpisodeItems(LazyItems):
    """The episodes of a dataset, as items that are made on request.

    ``columns`` has arrays with one value for each episode: ``index``, ``num_frames``, ``first_index``, the time
    ``CAMERA/begin_seconds`` for each camera, and the numbers to fill into ``patterns``, the path patterns of tables and
    videos.
    """

    def __init__(
        self,
        root: str,
        columns: Mapping[str, NDArray[Any]],
        patterns: tuple[_Pattern, _Pattern | None],
        cameras: Sequence[str],
    ) -> None:
        super().__init__()
        self._root = root
        self._columns = columns
        self._table_pattern, self._video_pattern = patterns
        self._cameras = cameras

    def _portable_names(self) -> list[str]:
        return [f"episode {number}" for number in self._columns["index"]]

    def __len__(self) -> int:
        return len(self._columns["index"])

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Number of each episode in the dataset, int64 (episodes,)."""
        return self._columns["index"]

    @property
    def num_frames(self) -> NDArray[np.int64]:
        """Number of frames of each episode, int64 (episodes,)."""
        return self._columns["num_frames"]

    def choose(self, episodes: Sequence[int]) -> EpisodeItems:
        """Return only the episodes with these numbers, in the order of the dataset."""
        wanted = np.unique(np.asarray(list(episodes), np.int64))
        if not len(wanted):
            raise InvalidArgumentError("episodes is empty; give at least one number, or None for all episodes.")
        places = np.flatnonzero(np.isin(self._columns["index"], wanted))
        if len(places) < len(wanted):
            missing = sorted(set(wanted.tolist()) - set(self._columns["index"].tolist()))
            raise InvalidArgumentError(f"{self._root} has no episode {missing[0]}: it has {len(self)} episodes.")
        chosen = {name: values[places] for name, values in self._columns.items()}
        return EpisodeItems(self._root, chosen, (self._table_pattern, self._video_pattern), self._cameras)

    def _make(self, index: int) -> Item:
        def number(name: str) -> int:
            return int(self._columns[name][index])

        def path(pattern: _Pattern, prefix: str, camera: str = "") -> str:
            numbers = {"episode_index": number("index"), "video_key": camera}
            numbers |= {name: number(f"{prefix}{name}") for name in pattern.names if name not in numbers}
            return join_path(self._root, pattern.fill(numbers))

        video_pattern = self._video_pattern
        videos = () if video_pattern is None else tuple(
            (camera, path(video_pattern, f"{camera}/", camera)) for camera in self._cameras
        )  # fmt: skip
        begin = {camera: float(self._columns[f"{camera}/begin_seconds"][index]) for camera in self._cameras}
        episode = Episode(number("index"), number("num_frames"), number("first_index"), begin)
        files = EpisodeFiles(path(self._table_pattern, "data/"), videos)
        return Item(files, name=f"{self._root}: episode {episode.index}", extra={"episode": episode})


class _Pattern:
    """A path pattern such as ``data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet``.

    `fill` replaces only fields for integers and for the name of the camera. ``str.format`` is not used, because a
    malicious pattern could then read other values or fill the memory.
    """

    _FIELD = re.compile(r"\{(\w+)(?::0?(\d{1,2})d)?\}")

    def __init__(self, text: object, place: str) -> None:
        if not isinstance(text, str) or not text:
            raise InvalidArgumentError(f"{place} must be a path pattern (got {shown(text)}).")
        self._parts = self._FIELD.split(text)
        self.names = tuple(self._parts[1::3])
        known = {"episode_chunk", "episode_index", "video_key", "chunk_index", "file_index"}
        plain = "".join(self._parts[::3])
        if not set(self.names) <= known or "{" in plain or "}" in plain:
            raise InvalidArgumentError(f"{place} has fields other than {', '.join(sorted(known))} ({text!r}).")
        if text.startswith("/") or "://" in text or ".." in text.split("/"):
            raise InvalidArgumentError(f"{place} points to a place outside the dataset ({text!r}).")

    def fill(self, values: Mapping[str, Any]) -> str:
        filled = [self._parts[0]]
        for name, width, plain in zip(self._parts[1::3], self._parts[2::3], self._parts[3::3], strict=True):
            filled += [str(values[name]).rjust(int(width or 0), "0"), plain]
        return "".join(filled)


def open_lerobot(source: object, cameras: Sequence[str] | None = None) -> tuple[LeRobotFormat, EpisodeItems]:
    """Read the format and the episodes of a dataset. Videos and tables of rows are not opened.

    ``source`` is a folder, or a URL for fsspec. ``cameras`` are the image columns to include; by default all.
    """
    if not isinstance(source, str | os.PathLike):
        raise InvalidArgumentError(f"source must be the folder of a LeRobot dataset (got {shown(source)}).")
    root = str(os.fspath(source)).rstrip("/") or "/"
    place = join_path(root, "meta/info.json")
    try:
        info = parse_json(read_whole(place, manifests.MAX_JSON_BYTES), place)
    except SourceNotFoundError:
        raise SourceNotFoundError(
            f"There is no LeRobot dataset in {root!r}: it has no meta/info.json. Pass the folder of a downloaded "
            "repository, which huggingface_hub.snapshot_download(repo_id, repo_type='dataset') returns."
        ) from None
    if not isinstance(info, dict):
        raise InvalidArgumentError(f"{place} must be an object (got {type(info).__name__}).")
    version = _version(info.get("codebase_version"), place)
    features = _features(info.get("features"), place)
    if cameras is not None:
        features = _keep_cameras(features, cameras)
    fps = info.get("fps")
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps < math.inf:
        raise InvalidArgumentError(f"fps of {place} must be a positive number (got {shown(fps)}).")
    videos = [name for name, feature in features.items() if feature["dtype"] == "video"]
    tables = _Pattern(info.get("data_path"), f"data_path of {place}")
    patterns = (tables, _Pattern(info.get("video_path"), f"video_path of {place}") if videos else None)
    tasks: dict[int, str] | None
    subtasks = None
    if version < (3, 0):
        tasks = dict(json_pairs(root, "meta/tasks.jsonl", "a task_index and a task", task_index=int, task=str))
        columns = _episodes_of_version_2(root, info, videos)
    else:
        tasks = _texts_by_number(root, "task")
        subtasks = _texts_by_number(root, "subtask") if "subtask_index" in features else None
        columns = _episodes_of_version_3(root, patterns, videos)
    _check_episodes(root, columns, info)
    return (
        LeRobotFormat(root, version, float(fps), features, tasks or {}, subtasks, _depths(info["features"], features)),
        EpisodeItems(root, columns, patterns, videos),
    )


def join_path(root: str, path: str) -> str:
    return f"{root.rstrip('/')}/{path}"


def _version(text: object, place: str) -> tuple[int, int]:
    match = re.fullmatch(r"v?(\d{1,4})\.(\d{1,4})(\.\d{1,4})?", text) if isinstance(text, str) else None
    version = (0, 0) if match is None else (int(match[1]), int(match[2]))
    if version not in ((2, 0), (2, 1), (3, 0)):
        raise InvalidArgumentError(
            f"codebase_version of {place} must be v2.0, v2.1 or v3.0 (got {shown(text)}): convert older datasets with "
            "LeRobot's own scripts."
        )
    return version


def _features(given: object, place: str) -> dict[str, dict[str, Any]]:
    if not isinstance(given, dict) or not given or len(given) > MAX_COLUMNS:
        raise InvalidArgumentError(f"features of {place} must name 1 to {MAX_COLUMNS} columns.")
    features = {}
    for name, feature in given.items():
        dtype, shape = (feature.get("dtype"), feature.get("shape")) if isinstance(feature, dict) else (None, None)
        is_shape = isinstance(shape, list) and all(isinstance(size, int) and 0 < size < 1 << 32 for size in shape)
        if not isinstance(dtype, str) or not is_shape:
            raise InvalidArgumentError(f"The feature {name!r} of {place} must have a dtype and a shape.")
        if ".." in name or "/" in name or "\\" in name:  # the name is a part of paths
            raise InvalidArgumentError(f"The feature {name!r} of {place} must have a name without / and \\.")
        features[name] = {"dtype": dtype, "shape": tuple(shape or ())}
    needed = ("timestamp", "frame_index", "episode_index", "index", "task_index")
    missing = [name for name in needed if name not in features]
    if missing:
        raise InvalidArgumentError(f"features of {place} lack {', '.join(missing)}, which every LeRobot dataset has.")
    return features


def _depths(given: Mapping[str, Any], features: Mapping[str, Any]) -> dict[str, DepthScale]:
    depths = {}
    for name, feature in features.items():
        # Before LeRobot 0.6, another key marked depth maps.
        info = {**_object(given[name].get("video_info")), **_object(given[name].get("info"))}
        if feature["dtype"] in ("video", "image") and (info.get("is_depth_map") or info.get("video.is_depth_map")):
            depths[name] = _depth_scale(info, f"The feature {name!r}")
    return depths


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _depth_scale(info: Mapping[str, Any], place: str) -> DepthScale:
    usual = DepthScale()
    numbers = []
    for key, default in (("depth_min", usual.least), ("depth_max", usual.greatest), ("shift", usual.shift)):
        value = info.get(f"video.{key}")
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InvalidArgumentError(f"{place} must have a number as video.{key} (got {shown(value)}).")
        numbers.append(float(value))
    least, greatest, shift = numbers
    is_logarithmic = info.get("video.use_log", True) is not False
    if least >= greatest or (is_logarithmic and least + shift <= 0):
        raise InvalidArgumentError(
            f"{place} must have a video.depth_min below video.depth_max, and above -video.shift (got {least:g}, "
            f"{greatest:g} and {shift:g})."
        )
    unit = info.get("depth_unit")
    if unit not in (None, "m", "mm"):
        raise InvalidArgumentError(f"{place} must have the depth_unit 'm' or 'mm' (got {shown(unit)}).")
    return DepthScale(least, greatest, shift, is_logarithmic, unit)


def _keep_cameras(features: dict[str, dict[str, Any]], cameras: Sequence[str]) -> dict[str, dict[str, Any]]:
    known = [name for name, feature in features.items() if feature["dtype"] in ("video", "image")]
    unknown = [name for name in cameras if name not in known]
    if isinstance(cameras, str) or unknown:
        raise InvalidArgumentError(f"cameras must be a list of names among {', '.join(known)} (got {shown(cameras)}).")
    return {name: feature for name, feature in features.items() if name in cameras or name not in known}


# Tasks


def _texts_by_number(root: str, kind: str) -> dict[int, str] | None:
    """Read the texts in ``meta/tasks.parquet`` or ``meta/subtasks.parquet``. Subtasks may be missing (``None``)."""
    path = join_path(root, f"meta/{kind}s.parquet")
    try:
        table = _read_table(path)
    except SourceNotFoundError:
        if kind == "task":
            raise
        return None
    # The text is the index of a pandas table. pandas writes the index as a column, whose name may differ.
    texts = [name for name in table if name != f"{kind}_index" and all(isinstance(one, str) for one in table[name])]
    if f"{kind}_index" not in table or len(texts) != 1:
        raise InvalidArgumentError(
            f"{path} must have a column {kind}_index and one column of text (it has {[*table]})."
        )
    return dict(zip(map(int, table[f"{kind}_index"]), table[texts[0]], strict=True))


def json_pairs(root: str, name: str, needed: str, **kinds: type) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the keys in ``kinds`` for each line of a file of JSON lines.

    ``kinds`` maps each key to the type of its values. ``needed`` describes the keys in messages.
    """
    path = join_path(root, name)
    for number, line in enumerate(read_whole(path, manifests.MAX_JSON_BYTES).splitlines(), start=1):
        if line.strip():
            place = f"line {number} of {path}"
            row = parse_json(line, place)
            if not isinstance(row, dict):
                raise InvalidArgumentError(f"{place} must be an object (got {type(row).__name__}).")
            if not all(isinstance(row.get(key), kind) for key, kind in kinds.items()):
                raise InvalidArgumentError(f"{place} must have {needed}.")
            yield tuple(row[key] for key in kinds)


# Episodes


def _episodes_of_version_2(root: str, info: Mapping[str, Any], cameras: Sequence[str]) -> dict[str, NDArray[Any]]:
    rows = list(json_pairs(root, "meta/episodes.jsonl", "an episode_index and a length", episode_index=int, length=int))
    chunks_size = info.get("chunks_size", 1000)
    if not isinstance(chunks_size, int) or chunks_size < 1:
        raise InvalidArgumentError(f"chunks_size of {root}/meta/info.json must be a positive whole number.")
    index = _whole("episode_index", [number for number, _ in rows], root)
    num_frames = _whole("length", [length for _, length in rows], root)
    chunk = index // chunks_size
    return {
        "index": index,
        "num_frames": num_frames,
        "first_index": np.cumsum(num_frames) - num_frames,
        "data/episode_chunk": chunk,
        **{f"{camera}/episode_chunk": chunk for camera in cameras},
        **{f"{camera}/begin_seconds": np.zeros(len(index)) for camera in cameras},
    }


def _episodes_of_version_3(
    root: str, patterns: tuple[_Pattern, _Pattern | None], cameras: Sequence[str]
) -> dict[str, NDArray[Any]]:
    tables, videos = patterns
    names = {"index": "episode_index", "num_frames": "length", "first_index": "dataset_from_index"}
    names |= {f"data/{name}": f"data/{name}" for name in tables.names if name != "episode_index"}
    for camera in cameras:
        in_table = [name for name in (videos.names if videos else ()) if name not in ("video_key", "episode_index")]
        names |= {f"{camera}/{name}": f"videos/{camera}/{name}" for name in in_table}
    begin_names = {f"{camera}/begin_seconds": f"videos/{camera}/from_timestamp" for camera in cameras}
    wanted = [*names.values(), *begin_names.values()]
    parts = [_read_table(path, wanted) for path in episode_tables(root)]
    if not parts:
        raise SourceNotFoundError(f"{root} has no episodes: there is no Parquet file in meta/episodes.")

    def values(name: str) -> list[Any]:
        return [value for part in parts for value in part[name]]

    numbers = {own: _whole(theirs, values(theirs), root) for own, theirs in names.items()}
    return numbers | {own: np.asarray(values(theirs), np.float64) for own, theirs in begin_names.items()}


def _whole(name: str, values: list[Any], root: str) -> NDArray[np.int64]:
    # NumPy would silently convert fractional numbers to integers.
    if not all(isinstance(value, int | np.integer) and 0 <= value < 1 << 62 for value in values):
        raise InvalidArgumentError(f"{name} must be a whole number of at least 0 for each episode of {root}.")
    return np.array(values, np.int64)


def _check_episodes(root: str, columns: Mapping[str, NDArray[Any]], info: Mapping[str, Any]) -> None:
    index, num_frames = columns["index"], columns["num_frames"]
    if not 0 < len(index) <= manifests.MAX_ITEMS:
        raise InvalidArgumentError(f"{root} has {len(index)} episodes; there must be 1 to {manifests.MAX_ITEMS}.")
    if len(np.unique(index)) < len(index):
        raise InvalidArgumentError(f"{root} is damaged: its metadata list an episode more than once.")
    if num_frames.max() > MAX_EPISODE_FRAMES:
        raise InvalidArgumentError(
            f"An episode of {root} has {num_frames.max()} frames, more than the limit of {MAX_EPISODE_FRAMES}."
        )
    if not all(np.isfinite(values).all() for values in columns.values()):
        raise InvalidArgumentError(
            f"{root} is damaged: the time at which an episode begins in a video is not a number."
        )
    total = info.get("total_episodes")
    if isinstance(total, int) and total != len(index):
        raise InvalidArgumentError(
            f"{root} is incomplete: meta/info.json states {total} episodes, but the metadata of episodes list "
            f"{len(index)}. Download the whole dataset, or correct total_episodes."
        )


def episode_tables(root: str) -> list[str]:
    """Return the paths of the Parquet files with the metadata of episodes in version 3."""
    if url_scheme(root) is None or os.path.isdir(root):
        outer = os.path.join(root, "meta/episodes")
        try:
            inner = [os.path.join(outer, name) for name in sorted(os.listdir(outer))]
            found = [os.path.join(one, name) for one in inner if os.path.isdir(one) for name in sorted(os.listdir(one))]
        except OSError as error:
            raise ReadError(f"The folder {outer} cannot be read ({error}).") from error
        return [path for path in found if path.endswith(".parquet")]
    try:
        import fsspec
    except ImportError:
        raise MissingDependencyError(f'Reading {root} needs fsspec: pip install "mediatensor[fsspec]".') from None
    try:
        file_system, path = fsspec.core.url_to_fs(join_path(root, "meta/episodes"))
        found = sorted(file_system.glob(f"{path}/*/*.parquet"))
    except Exception as error:  # each file system raises its own errors
        raise ReadError(
            f"The folder {root}/meta/episodes cannot be listed ({error or type(error).__name__})."
        ) from error
    return [file_system.unstrip_protocol(one) for one in found]


# Tables


def _read_table(path: str, columns: list[str] | None = None) -> dict[str, list[Any]]:
    """Read columns of a Parquet file as lists; by default all columns except lists and structs."""
    with parquet_file(path) as file:
        schema = file.schema_arrow
        if columns is None:
            columns = [field.name for field in schema if not field.type.num_fields]
        check_has_columns(path, schema.names, columns)
        read: dict[str, list[Any]] = {name: [] for name in columns}
        for batch in batches_of(file, path, columns, parquet.MAX_PARQUET_COLUMN_BYTES):
            for name in columns:
                read[name] += batch.column(name).to_pylist()
    return read


def check_has_columns(path: str, names: Sequence[str], wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InvalidArgumentError(f"{path} has no column {missing[0]!r} (it has {', '.join(names)}).")
