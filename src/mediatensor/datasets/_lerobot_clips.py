"""`LeRobotClips`: rows of robots' datasets, with the frames of their cameras."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._engine.common import stages
from .._engine.common.checks import check_choice, finite_number, function, items_of, options_dict, shown, whole_number
from ..decoders import VideoDecoder, decode_image
from ..decoders._access import access_to
from ..errors import InvalidArgumentError, ReadError
from ..samplers._random import uses_row_random
from ._lerobot_depth import NUM_DEPTH_BITS, DepthUnit, depth_image, depths_of_codes, in_unit
from ._rows.clips import random_of_transform, ready_for_rows, redraw_transforms
from ._rows.dataset import ColumnDataset, check_dataset_options
from ._rows.recipe import Recipe
from ._rows.samples import Sample
from ._sources.items import Item
from ._sources.lerobot import (
    DepthScale,
    Episode,
    EpisodeFiles,
    LeRobotFormat,
    is_structured,
    open_lerobot,
    seconds_of_rows,
    structured_values,
    table_rows,
)
from ._sources.parquet import MediaColumn, parquet_file

__all__ = ["LeRobotClips", "LeRobotRecipe"]


class LeRobotClips(ColumnDataset):
    """Rows of a LeRobot dataset (version 2.0, 2.1 or 3.0): what a robot saw and did, as LeRobot's own reader gives it.

    A row is a dict with a value for each column of the dataset: pictures of cameras, float32 (C, H, W) from 0 to 1;
    states, actions and other columns in the shape that they have; ``timestamp``, ``frame_index``, ``episode_index``,
    ``index`` and ``task_index``; and ``task``, its text. A column that ``delta_timestamps`` names has one value for
    each time, in front of its shape, and ``NAME_is_pad`` beside it, bool, which tells what lies outside of the
    episode: the first or last value of the episode stands there. `DataLoader` makes dicts of batched columns of rows.

    A camera whose feature is marked ``is_depth_map`` gives depths, float32 (1, H, W) in metres. A column of another
    type, such as ``language_persistent``, gives the value of the row as lists and dicts. A row of the table that lacks
    a value is a `ReadError` of the rows that need it.

    Each episode is what `Shuffle` calls a file. Where several share a video, it is opened once for all of them.

    Args:
        source: The folder of the dataset, with ``meta``, ``data`` and ``videos`` in it; or the URL of one that fsspec
            reads (``hf://datasets/...``, ``s3://...``), of which only what rows need is fetched.
        delta_timestamps: By column the times that a row has, in seconds from its own: ``{"action": [0.0, 0.1, 0.2]}``.
            They must be multiples of 1 / fps, give or take ``tolerance_s``.
        episodes: The numbers of the episodes; by default all. Rows are in the order of the episodes in any case.
        rows: ``"frames"``: a row for each frame. ``"episodes"``: a row for each episode, whose columns, and ``task``,
            have a value for each of its frames in front.
        step: Only every ``step``-th frame of an episode is a row, or in a row.
        only_whole: Only frames whose ``delta_timestamps`` all lie within the episode are rows: nothing is padded.
        cameras: The columns of pictures that rows have; by default all. Videos of others are not opened.
        tolerance_s: How far from the time of a row the frame of a video may be, in seconds. A row whose frames are
            farther away cannot be read.
        image_transforms: Takes the pictures of one camera, (C, H, W) or (T, C, H, W), and gives others; random ones
            draw anew for each row. Depth maps are left as they are.
        output_dtype: Of pictures: ``torch.float32``, or ``torch.uint8`` from 0 to 255, a quarter of the bytes. Depth
            maps are float32 in any case.
        depth_output_unit: The unit of depth maps, ``"m"`` or ``"mm"``. Images in a table whose unit is not recorded
            (``depth_unit``) stay as they are.
        decoder_options: Arguments of `VideoDecoder`, as for `VideoClips`, but for ``seek_mode`` and ``output_dtype``.
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        SourceNotFoundError: if there is no such dataset.
        InvalidArgumentError: if its metadata are damaged or of another version, or an argument is not among the
            accepted ones.
        ReadError: if the metadata cannot be read. What is wrong with an episode is a `ReadError` of its rows.
        MissingDependencyError: if pyarrow, or fsspec for a URL, is not installed.

    Example:
        >>> from mediatensor.datasets import LeRobotClips
        >>> clips = LeRobotClips("robot", {"observation.images.top": [-0.1, 0.0], "action": [0.0, 0.1, 0.2, 0.3]})
        >>> row = clips[19]
        >>> row["observation.images.top"].shape, row["action"].shape, row["task"]
        (torch.Size([2, 3, 96, 128]), torch.Size([4, 2]), 'Push the block.')
        >>> row["action_is_pad"]
        tensor([False,  True,  True,  True])
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        *,
        episodes: Sequence[int] | None = None,
        rows: Literal["frames", "episodes"] = "frames",
        step: int = 1,
        only_whole: bool = False,
        cameras: Sequence[str] | None = None,
        tolerance_s: float = 1e-4,
        image_transforms: Callable[[Tensor], Tensor] | None = None,
        output_dtype: torch.dtype = torch.float32,
        depth_output_unit: Literal["m", "mm"] = "m",
        decoder_options: Mapping[str, Any] | None = None,
        **dataset_options: Any,
    ) -> None:
        check_dataset_options(self, dataset_options)
        check_choice("rows", rows, ("frames", "episodes"))
        check_choice("output_dtype", output_dtype, (torch.float32, torch.uint8))
        check_choice("depth_output_unit", depth_output_unit, ("m", "mm"))
        options = options_dict("decoder_options", decoder_options, VideoDecoder)
        if taken := sorted({"seek_mode", "output_dtype"} & options.keys()):
            raise InvalidArgumentError(
                f"decoder_options must not have {taken[0]}: frames are found by their exact times, and output_dtype is "
                "an argument of its own."
            )
        if finite_number("tolerance_s", tolerance_s) <= 0:
            raise InvalidArgumentError(f"tolerance_s must be positive (got {tolerance_s!r}).")
        wanted = None if cameras is None else items_of("cameras", cameras, of="names of columns")
        self._format, items = open_lerobot(source, wanted)
        if episodes is not None:
            items = items.choose([whole_number("an episode", one) for one in items_of("episodes", episodes, of="int")])
        deltas = _delta_frames(delta_timestamps or {}, self._format, tolerance_s)
        if deltas and rows == "episodes":
            raise InvalidArgumentError("delta_timestamps cannot be given with rows='episodes', which have every time.")
        step = whole_number("step", step, at_least=1)
        all_deltas = [frames for one in deltas.values() for frames in one] if only_whole else []
        margins = (max(0, -min(all_deltas, default=0)), max(0, max(all_deltas, default=0)))
        recipe = LeRobotRecipe(
            self._format, deltas, rows, step, margins[0], tolerance_s, function("image_transforms", image_transforms),
            output_dtype, options, depth_output_unit,
        )  # fmt: skip
        num_rows = -(-np.maximum(0, items.num_frames - sum(margins)) // step)
        if rows == "episodes":
            num_rows = (items.num_frames > 0).astype(np.int64)
        if not num_rows.sum():
            raise InvalidArgumentError(
                f"There are no rows: no episode of {self._format.root} is as long as delta_timestamps with only_whole."
            )
        super().__init__(items, recipe, rows_per_file=num_rows.tolist(), **dataset_options)

    @property
    def fps(self) -> float:
        """Frames per second."""
        return self._format.fps

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """The columns, each with ``dtype`` and ``shape``."""
        return {name: dict(feature) for name, feature in self._format.features.items()}

    @property
    def tasks(self) -> dict[int, str]:
        """The texts of tasks by number."""
        return dict(self._format.tasks)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._format.root!r}: {len(self.items)} episodes, {len(self)} rows)"


def _delta_frames(
    delta_timestamps: Mapping[str, Sequence[float]], known: LeRobotFormat, tolerance_s: float
) -> dict[str, tuple[int, ...]]:
    """By column the times of a row, in frames from its own.

    Raises:
        InvalidArgumentError: if a column is not known or has no numbers, or a time is no multiple of 1 / fps.
    """
    if not isinstance(delta_timestamps, Mapping):
        raise InvalidArgumentError(
            f"delta_timestamps must be a dict of times by column, {{'action': [0.0, 0.1]}} (got "
            f"{shown(delta_timestamps)})."
        )
    names = [
        name
        for name, feature in known.features.items()
        if feature["dtype"] != "string" and not is_structured(feature["dtype"])
    ]
    deltas = {}
    for name, seconds in delta_timestamps.items():
        if name not in names:
            raise InvalidArgumentError(
                f"delta_timestamps names {name!r}, which is no column of pictures or numbers; those are "
                f"{', '.join(names)}."
            )
        times = [
            finite_number(f"a time of {name!r}", one)
            for one in items_of(f"delta_timestamps[{name!r}]", seconds, of="seconds")
        ]
        off = [one for one in times if abs(one * known.fps - round(one * known.fps)) / known.fps > tolerance_s]
        if off or not times:
            raise InvalidArgumentError(
                f"delta_timestamps[{name!r}] must be multiples of 1/{known.fps:g} s, at least one, give or take "
                f"tolerance_s ({tolerance_s:g}) (got {off or times})."
            )
        deltas[name] = tuple(round(one * known.fps) for one in times)
    return deltas


@dataclass(frozen=True)
class LeRobotRecipe(Recipe):
    """How a row is made of the files of an episode; see `LeRobotClips`."""

    used_columns: ClassVar[frozenset[str]] = frozenset(("episode",))

    format: LeRobotFormat
    delta_frames: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    rows: Literal["frames", "episodes"] = "frames"
    step: int = 1
    first_frame: int = 0
    tolerance_s: float = 1e-4
    image_transforms: Callable[[Tensor], Tensor] | None = None
    output_dtype: torch.dtype = torch.float32
    decoder_options: dict[str, Any] = field(default_factory=dict)
    depth_output_unit: DepthUnit = "m"

    def open(self, item: Item) -> _OpenEpisode:
        return _OpenEpisode(item.source, self.decoder_options)  # type: ignore[arg-type]

    @uses_row_random
    def position(self, opened: _OpenEpisode, item: Item, part: int) -> float:
        # Episodes that share a video lie in it one behind the other.
        return item.extra["episode"].first_index + float(part)  # type: ignore[no-any-return]

    @uses_row_random
    def read(self, opened: _OpenEpisode, item: Item, part: int) -> Sample:
        episode: Episode = item.extra["episode"]
        first, table, gaps = table_rows(opened.files, episode, self.format.table_columns)
        own, wanted, padding = self._frames_of(episode, part)
        videos = self.format.names_of("video")
        if (gap := self._first_gap(gaps, own, wanted)) is not None:
            raise ReadError(f"{item.name}: {gap[0]} has no value in row {first + gap[1]} of {opened.files.table}.")
        values: dict[str, Any] = {name: _taken(column, wanted.get(name, own)) for name, column in table.items()}
        for name in videos:
            frames = np.atleast_1d(wanted.get(name, own))
            seconds = episode.begin_seconds[name] + seconds_of_rows(table, frames, self.format.fps)
            scale = self.format.depths.get(name)
            with stages.DECODE:
                found = opened.frames(name, seconds, self.tolerance_s, item.name, is_depth=scale is not None)
            # As with LeRobot, a single time gives a picture, also one of delta_timestamps.
            found = found[0] if self.rows == "frames" and len(found) == 1 else found
            values[name] = self._finished(found) if scale is None else self._depths_of(found, scale)
        for name in self.format.names_of("image"):
            scale = self.format.depths.get(name)
            with stages.DECODE:
                images = [
                    opened.image(name, first + frame, item.name, is_depth=scale is not None)
                    for frame in np.atleast_1d(wanted.get(name, own)).tolist()
                ]
            found = images[0] if isinstance(wanted.get(name, own), int) else torch.stack(images)
            values[name] = (
                self._finished(found) if scale is None else in_unit(found, scale.unit, self.depth_output_unit)
            )
        for name in self.format.structured_columns:
            rows = (first + np.atleast_1d(own)).tolist()
            stored = [_with_parsed_calls(value) for value in structured_values(opened.files.table, name, rows)]
            values[name] = stored[0] if isinstance(own, int) else stored
        others = (name for name in self.format.features if name not in videos)
        row = {name: values[name] for name in (*videos, *others)} | padding
        for name, texts in (("task", self.format.tasks), ("subtask", self.format.subtasks)):
            if texts is not None:
                row[name] = _texts_of(table[f"{name}_index"][own], texts, name, item.name)
        return Sample(extra=row)

    def _first_gap(
        self, gaps: Mapping[str, NDArray[np.bool_]], own: _Frames, wanted: Mapping[str, _Frames]
    ) -> tuple[str, int] | None:
        """The first column, and its frame, of which a row needs a value that the table lacks."""
        for name, is_gap in gaps.items():
            needed = [wanted.get(name, own)]
            if name in _TIMES:
                needed += [wanted.get(camera, own) for camera in self.format.names_of("video")]
            if name in _INDICES:
                needed.append(own)
            for frames in map(np.atleast_1d, needed):
                if is_gap[frames].any():
                    return name, int(frames[is_gap[frames]][0])
        return None

    def _frames_of(self, episode: Episode, part: int) -> tuple[_Frames, dict[str, _Frames], dict[str, Tensor]]:
        """The frames of an episode that a row has: by default, of the columns with times of their own, and masks."""
        if self.rows == "episodes":
            return np.arange(0, episode.num_frames, self.step), {}, {}
        own = self.first_frame + part * self.step
        wanted: dict[str, _Frames] = {}
        padding = {}
        for name, deltas in self.delta_frames.items():
            frames = own + np.array(deltas)
            wanted[name] = frames.clip(0, episode.num_frames - 1)
            padding[f"{name}_is_pad"] = torch.from_numpy(wanted[name] != frames)
        return own, wanted, padding

    def _finished(self, pictures: Tensor) -> Tensor:
        """Pictures in the type that rows have, transformed."""
        with stages.TRANSFORM, random_of_transform(self.image_transforms):
            if self.output_dtype == torch.float32:
                pictures = pictures.float().div_(255.0)
            return pictures if self.image_transforms is None else self.image_transforms(pictures)

    def _depths_of(self, codes: Tensor, scale: DepthScale) -> Tensor:
        """The depths of codes, on the device of other pictures."""
        device = self.decoder_options.get("device") or "cpu"
        with stages.CONVERT:
            return depths_of_codes(codes, scale, self.depth_output_unit).to(device)


# By these the frames of cameras are found, and by those the texts of a row.
_TIMES, _INDICES = ("timestamp", "frame_index"), ("task_index", "subtask_index")

#: Frames of an episode, counted from its first; a single one gives values without a dimension of time.
_Frames = int | NDArray[np.int64]


def _taken(column: NDArray[Any] | list[str], frames: _Frames) -> Tensor | str | list[str]:
    if isinstance(column, list):
        return column[frames] if isinstance(frames, int) else [column[frame] for frame in frames.tolist()]
    return torch.from_numpy(np.array(column[frames]))


def _with_parsed_calls(value: Any) -> Any:
    """A value of a ``language`` column; tools that are called stand there as JSON."""
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("tool_calls"), list):
            entry["tool_calls"] = [_parsed(call) for call in entry["tool_calls"]]
    return value


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return text


def _texts_of(numbers: Any, texts: Mapping[int, str], kind: str, place: str) -> str | list[str]:
    unknown = sorted(set(np.atleast_1d(numbers).tolist()) - set(texts))
    if unknown:
        raise ReadError(f"{place} has the {kind}_index {unknown[0]}, which is not in the table of {kind}s.")
    return texts[int(numbers)] if np.ndim(numbers) == 0 else [texts[number] for number in numbers.tolist()]


class _OpenEpisode:
    """The files of an episode, each opened when it is needed first."""

    def __init__(self, files: EpisodeFiles, decoder_options: Mapping[str, Any]) -> None:
        self.files = files
        self._decoder_options = decoder_options
        self._decoders: dict[str, VideoDecoder] = {}
        self._images: dict[str, MediaColumn] = {}

    def frames(
        self, camera: str, seconds: NDArray[np.float64], tolerance_s: float, place: str, *, is_depth: bool = False
    ) -> Tensor:
        """The frames of a camera at some times of its video, uint8 (T, C, H, W), or codes of depth, uint16.

        Raises:
            ReadError: if there is no frame near one of these times.
            MediaTensorError: if the video cannot be read.
        """
        decoder = self._decoders.get(camera)
        if decoder is None:
            options = {**self._decoder_options, "transforms": None}
            if is_depth:
                options |= {"device": "cpu", "decode_backend": None}
            decoder = VideoDecoder(dict(self.files.videos)[camera], **options)
            self._decoders[camera] = ready_for_rows(decoder, self._decoder_options)
            if is_depth:
                access_to(decoder).decode_luma(NUM_DEPTH_BITS)
        else:
            access_to(decoder).restore()
        redraw_transforms(decoder, self._decoder_options)
        indices, times = access_to(decoder).frames_nearest_to(seconds)
        distances = np.abs(times - seconds)
        if not (distances < tolerance_s).all():
            worst = int(distances.argmax())
            raise ReadError(
                f"{place}: {camera} has no frame at {seconds[worst]:.4f} s of {dict(self.files.videos)[camera]}: the "
                f"nearest is at {times[worst]:.4f} s, farther away than tolerance_s ({tolerance_s:g}). The table and "
                "the video do not go together; leave such rows out with on_error, or allow a larger tolerance_s."
            )
        return decoder.get_frames_at(indices).data

    def image(self, column: str, row: int, place: str, *, is_depth: bool = False) -> Tensor:
        """The picture in a row of the table, uint8 (C, H, W), or its depths as they are stored, float32.

        Raises:
            ReadError: if there is none.
            MediaTensorError: if it cannot be read.
        """
        try:
            if column not in self._images:
                with parquet_file(self.files.table) as file:
                    self._images[column] = MediaColumn(self.files.table, f"{column}.bytes", file)
            data = self._images[column][row]
        except InvalidArgumentError as error:  # for the error policy of whoever reads the row
            raise ReadError(f"{place}: {error}") from error
        if not data:
            raise ReadError(f"{place}: {column} has no bytes in row {row} of {self.files.table}.")
        if is_depth:
            return depth_image(data)
        picture: Tensor = decode_image(data, mode="UNCHANGED")  # type: ignore[arg-type]
        return picture

    def close(self) -> None:
        for decoder in self._decoders.values():
            decoder.close()
