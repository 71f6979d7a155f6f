"""`LeRobotClips`: rows of LeRobot datasets, with camera frames."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import TiffImagePlugin
from torch import Tensor

from .._engine.common import stages
from .._engine.common.checks import (
    check_choice,
    finite_number,
    function,
    items_of,
    options_dict,
    shown,
    whole_number,
)
from .._engine.common.locks import cached_property
from .._engine.images.formats import check_pixels
from .._engine.images.reading import MAX_PIXELS
from .._engine.sources.source import Source, read_whole
from ..decoders import VideoDecoder, decode_image
from ..decoders._access import access_to
from ..errors import DecodeError, InvalidArgumentError, MediaTensorError, ReadError
from ..samplers._random import uses_row_random
from ..transforms import Letterbox
from ..transforms._decoder_transforms import check_decoder_transforms
from ._rows.clips import random_of_transform, ready_for_rows, redraw_transforms
from ._rows.dataset import ColumnDataset, check_dataset_options
from ._rows.recipe import Recipe, errors_as_misuse
from ._rows.samples import FRAME_BOX, Sample
from ._sources.items import Item
from ._sources.lerobot import DepthScale, Episode, EpisodeFiles, LeRobotFormat, is_structured, open_lerobot
from ._sources.lerobot_tables import read_stats, seconds_of_rows, structured_values, table_rows
from ._sources.parquet import MediaColumn, parquet_file

DepthUnit = Literal["m", "mm"]

#: Bits of a depth code: LeRobot uses only 12.
_NUM_DEPTH_BITS = 12
_MM_PER_METRE = 1000.0
#: The maximum of 16-bit depths in millimetres.
_MAX_MM = 65535.0
_TIFF_STARTS = (b"II*\0", b"MM\0*")


class LeRobotClips(ColumnDataset):
    """A dataset that reads the rows of a LeRobot dataset (version 2.0, 2.1 or 3.0).

    Rows have the same values as with LeRobot's own reader.

    A row is one frame (time step) of an episode, or a whole episode with ``rows="episodes"``. It is a dict with a value
    for each column of the dataset: camera images, float32 (C, H, W) from 0 to 1; states, actions and other numbers as
    tensors in the shapes of their columns; ``timestamp``, ``frame_index``, ``episode_index``, ``index`` and
    ``task_index``. The key ``task`` has the text of the task. A column that is listed in ``delta_timestamps`` has one
    value for each of the times there, in a new first dimension. The row then also has a mask for this column, such as
    ``action_is_pad`` for ``action``: bool, true for times outside the episode. For these times, the value is the first
    or last value of the episode. `DataLoader` batches rows into dicts of columns.

    A camera whose feature is marked ``is_depth_map`` has depths, float32 (1, H, W) in metres. Columns with structured
    values, such as ``language_persistent``, give lists and dicts. If a value of a row is missing in the table, reading
    the row raises `ReadError`.

    `Shuffle` treats each episode like a file. A video that several episodes share is opened only once.

    Args:
        source: The folder of the dataset, with ``meta``, ``data`` and ``videos`` in it; or its URL for fsspec
            (``hf://datasets/...``, ``s3://...``). From a URL, only the needed parts of files are fetched.
        delta_timestamps: For each column that should have several values in a row, their times in seconds relative to
            the row: ``{"action": [0.0, 0.1, 0.2]}``. Times must be within ``tolerance_s`` of multiples of 1 / fps.
        episodes: Numbers of the episodes to read; by default all. Rows are always in the order of the episodes.
        rows: ``"frames"`` makes a row for each frame. ``"episodes"`` makes a row for each episode. Every column then
            has one value for each frame, in a new first dimension; ``task`` is a list with one text for each frame.
        step: Use only every ``step``-th frame of an episode.
        only_whole: Leave out rows for which a time in ``delta_timestamps`` is outside the episode, so that nothing is
            padded.
        cameras: Names of the image columns to read; by default all. Videos of cameras that are not read are not opened.
        tolerance_s: Maximum distance in seconds between the time of a row and the nearest video frame. If no frame is
            within this distance, the row cannot be read.
        image_transforms: Function that takes the images of one camera, (C, H, W) or (T, C, H, W), and returns new
            images. Random transforms draw new values for each row. Depth maps are not transformed.
        output_dtype: Dtype of images: ``torch.float32`` from 0 to 1, or ``torch.uint8`` from 0 to 255, which takes a
            quarter of the bytes. Depth maps are always float32.
        depth_output_unit: Unit of depth maps, ``"m"`` or ``"mm"``. Depth images in a table are not converted if the
            dataset does not record their unit (``depth_unit``).
        decoder_options: Arguments of `VideoDecoder`, as for `VideoClips`, except ``seek_mode`` and ``output_dtype``.
            With a `Letterbox`, each camera that is stored as video has a column such as
            ``observation.images.top_frame_box``: the box of the frame inside its padding, int64 (left, top, right,
            bottom).
        dataset_options: Arguments of `MediaDataset`: ``seed``, ``on_error``, ``max_consecutive_failures``,
            ``max_open_files``.

    Raises:
        SourceNotFoundError: if there is no such dataset.
        InvalidArgumentError: if an argument is invalid, or the metadata are damaged or of an unsupported version.
        ReadError: if the metadata cannot be read. Reading a row also raises it if the files of its episode cannot be
            read.
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
                "a separate argument."
            )
        if finite_number("tolerance_s", tolerance_s) <= 0:
            raise InvalidArgumentError(f"tolerance_s must be positive (got {tolerance_s!r}).")
        wanted = None if cameras is None else items_of("cameras", cameras, of="names of columns")
        self._format, items = open_lerobot(source, wanted)
        num_episodes = len(items)
        if episodes is not None:
            items = items.choose([whole_number("an episode", one) for one in items_of("episodes", episodes, of="int")])
        deltas = _delta_frames(delta_timestamps or {}, self._format, tolerance_s)
        if deltas and rows == "episodes":
            raise InvalidArgumentError(
                "delta_timestamps is not accepted with rows='episodes', because these rows have all frames."
            )
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
                f"There are no rows: no episode of {self._format.root} is long enough for delta_timestamps with "
                "only_whole=True."
            )
        super().__init__(items, recipe, rows_per_file=num_rows.tolist(), **dataset_options)
        self._episodes = items.numbers.tolist()
        self._has_all_episodes = len(items) == num_episodes

    @property
    def fps(self) -> float:
        """Frames per second of the dataset."""
        return self._format.fps

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """Dict from each column of the dataset to a dict with its ``dtype`` (text) and ``shape`` (tuple)."""
        return {name: dict(feature) for name, feature in self._format.features.items()}

    @property
    def tasks(self) -> dict[int, str]:
        """Dict from each task number, as in the column ``task_index``, to the text of the task."""
        return dict(self._format.tasks)

    @cached_property
    def stats(self) -> dict[str, dict[str, Tensor]]:
        """The statistics that LeRobot recorded for each column. Use them to normalise rows.

        Each column that has statistics has a dict with ``min``, ``max``, ``mean`` and ``std``, float32, and ``count``,
        int64 (). The statistics of a column of numbers have the shape of a single value, so ``(value - mean) / std``
        works for rows, for columns in ``delta_timestamps``, and for batches. For cameras, the shape is (C, 1, 1), and
        the statistics are of images from 0 to 1. Statistics of depth maps are in the unit that was recorded. ``count``
        is the number of frames. For cameras, it is the number of images that LeRobot sampled. ``count`` is often
        missing in version 2.0.

        With ``episodes``, the recorded statistics of these episodes are combined. Version 2.0 records statistics only
        for the whole dataset, so ``episodes`` has no effect there. ``step`` and ``only_whole`` have no effect. The
        quantiles of version 3.0, such as ``q01``, are available only for the whole dataset.

        The files are read at the first use.

        Raises:
            SourceNotFoundError: if the dataset has no file of statistics.
            InvalidArgumentError: if the file is damaged, or lacks the statistics of an episode.
            ReadError: if the file cannot be read.

        Example:
            >>> from mediatensor.datasets import LeRobotClips
            >>> clips = LeRobotClips("robot")
            >>> action = clips.stats["action"]
            >>> action["mean"], action["count"], clips.stats["observation.images.top"]["std"].shape
            (tensor([0.4700, 0.5300]), tensor(50), torch.Size([3, 1, 1]))
            >>> ((clips[0]["action"] - action["mean"]) / action["std"]).shape
            torch.Size([2])
        """
        return read_stats(self._format, self._episodes, is_whole=self._has_all_episodes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._format.root!r}: {len(self.items)} episodes, {len(self)} rows)"


def _delta_frames(
    delta_timestamps: Mapping[str, Sequence[float]], known: LeRobotFormat, tolerance_s: float
) -> dict[str, tuple[int, ...]]:
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
                f"delta_timestamps has {name!r}, which is not a column of images or numbers. These columns are "
                f"{', '.join(names)}."
            )
        times = [
            finite_number(f"a time of {name!r}", one)
            for one in items_of(f"delta_timestamps[{name!r}]", seconds, of="seconds")
        ]
        off = [one for one in times if abs(one * known.fps - round(one * known.fps)) / known.fps > tolerance_s]
        if off or not times:
            raise InvalidArgumentError(
                f"delta_timestamps[{name!r}] must be one or more multiples of 1/{known.fps:g} s, with a tolerance of "
                f"{tolerance_s:g} s (tolerance_s) (got {off or times})."
            )
        deltas[name] = tuple(round(one * known.fps) for one in times)
    return deltas


@dataclass(frozen=True)
class LeRobotRecipe(Recipe):
    """The `Recipe` with which `LeRobotClips` reads the rows of an episode from its files."""

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

    def __post_init__(self) -> None:
        check_decoder_transforms(self.decoder_options.get("transforms"))

    @property
    def has_frame_boxes(self) -> bool:
        """Whether each camera with videos has a column with the box of the frame inside its padding.

        It is true if the transforms in ``decoder_options`` include a `Letterbox`.
        """
        return any(isinstance(one, Letterbox) for one in self.decoder_options.get("transforms") or ())

    def open(self, item: Item) -> _OpenEpisode:
        return _OpenEpisode(item.source, self.decoder_options)  # type: ignore[arg-type]

    @uses_row_random
    def position(self, opened: _OpenEpisode, item: Item, part: int) -> float:
        # Episodes that share a video are in the video in order.
        return item.extra["episode"].first_index + float(part)  # type: ignore[no-any-return]

    @uses_row_random
    def read(self, opened: _OpenEpisode, item: Item, part: int) -> Sample:
        episode: Episode = item.extra["episode"]
        first, table, gaps = table_rows(opened.files, episode, self.format.table_columns)
        row_frames, frames_by_column, padding = self._frames_of(episode, part)
        videos = self.format.names_of("video")
        if (gap := self._first_gap(gaps, row_frames, frames_by_column)) is not None:
            raise ReadError(f"{item.name}: {gap[0]} has no value in row {first + gap[1]} of {opened.files.table}.")
        values: dict[str, Any] = {
            name: _take(column, frames_by_column.get(name, row_frames)) for name, column in table.items()
        }
        for name in videos:
            frames = np.atleast_1d(frames_by_column.get(name, row_frames))
            seconds = episode.begin_seconds[name] + seconds_of_rows(table, frames, self.format.fps)
            scale = self.format.depths.get(name)
            with stages.DECODE:
                images = opened.frames(name, seconds, self.tolerance_s, item.name, is_depth=scale is not None)
            if self.has_frame_boxes:
                padding[f"{name}_{FRAME_BOX}"] = torch.tensor(opened.frame_box(name), device="cpu")
            # Like LeRobot, a single time gives one image, even if it is in delta_timestamps.
            images = images[0] if self.rows == "frames" and len(images) == 1 else images
            values[name] = self._transform(images) if scale is None else self._depths_of(images, scale)
        for name in self.format.names_of("image"):
            scale, wanted = self.format.depths.get(name), frames_by_column.get(name, row_frames)
            with stages.DECODE:
                decoded = [
                    opened.image(name, first + frame, item.name, is_depth=scale is not None)
                    for frame in np.atleast_1d(wanted).tolist()
                ]
            images = decoded[0] if isinstance(wanted, int) else torch.stack(decoded)
            values[name] = (
                self._transform(images) if scale is None else _in_unit(images, scale.unit, self.depth_output_unit)
            )
        for name in self.format.structured_columns:
            rows = (first + np.atleast_1d(row_frames)).tolist()
            stored = [_parse_tool_calls(value) for value in structured_values(opened.files.table, name, rows)]
            values[name] = stored[0] if isinstance(row_frames, int) else stored
        others = (name for name in self.format.features if name not in videos)
        row = {name: values[name] for name in (*videos, *others)} | padding
        for name, texts in (("task", self.format.tasks), ("subtask", self.format.subtasks)):
            if texts is not None:
                row[name] = _texts_of(table[f"{name}_index"][row_frames], texts, name, item.name)
        return Sample(extra=row)

    def _first_gap(
        self, gaps: Mapping[str, NDArray[np.bool_]], row_frames: _Frames, frames_by_column: Mapping[str, _Frames]
    ) -> tuple[str, int] | None:
        """Return (column, frame number) of the first value that the row needs, but that the table lacks, or ``None``.

        ``gaps`` has a mask of missing values for each column.
        """
        for name, is_gap in gaps.items():
            needed = [frames_by_column.get(name, row_frames)]
            if name in _TIMES:
                needed += [frames_by_column.get(camera, row_frames) for camera in self.format.names_of("video")]
            if name in _INDICES:
                needed.append(row_frames)
            for frames in map(np.atleast_1d, needed):
                if is_gap[frames].any():
                    return name, int(frames[is_gap[frames]][0])
        return None

    def _frames_of(self, episode: Episode, part: int) -> tuple[_Frames, dict[str, _Frames], dict[str, Tensor]]:
        """Return the frame numbers of row ``part`` of an episode.

        The other results are the frame numbers and padding masks of the columns in ``delta_frames``.
        """
        if self.rows == "episodes":
            return np.arange(0, episode.num_frames, self.step), {}, {}
        frame = self.first_frame + part * self.step
        frames_by_column: dict[str, _Frames] = {}
        padding = {}
        for name, deltas in self.delta_frames.items():
            frames = frame + np.array(deltas)
            frames_by_column[name] = frames.clip(0, episode.num_frames - 1)
            padding[f"{name}_is_pad"] = torch.from_numpy(frames_by_column[name] != frames)
        return frame, frames_by_column, padding

    def _transform(self, images: Tensor) -> Tensor:
        with stages.TRANSFORM, random_of_transform(self.image_transforms):
            if self.output_dtype == torch.float32:
                images = images.float().div_(255.0)
            return images if self.image_transforms is None else self.image_transforms(images)

    def _depths_of(self, codes: Tensor, scale: DepthScale) -> Tensor:
        device = self.decoder_options.get("device") or "cpu"
        with stages.CONVERT:
            return torch.from_numpy(_levels(scale, self.depth_output_unit)[codes.numpy()]).to(device)


# Columns that locate the frames of cameras, and columns that locate the texts of a row.
_TIMES, _INDICES = ("timestamp", "frame_index"), ("task_index", "subtask_index")

#: Frame numbers within an episode; a single number gives values without a time dimension.
_Frames = int | NDArray[np.int64]


def _take(column: NDArray[Any] | list[str], frames: _Frames) -> Tensor | str | list[str]:
    if isinstance(column, list):
        return column[frames] if isinstance(frames, int) else [column[frame] for frame in frames.tolist()]
    return torch.from_numpy(np.array(column[frames]))


def _parse_tool_calls(value: Any) -> Any:
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("tool_calls"), list):
            entry["tool_calls"] = [_parse_json(call) for call in entry["tool_calls"]]
    return value


def _parse_json(text: Any) -> Any:
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
    """The files of an episode. Each file is opened when it is first needed."""

    def __init__(self, files: EpisodeFiles, decoder_options: Mapping[str, Any]) -> None:
        self.files = files
        self._decoder_options = decoder_options
        self._decoders: dict[str, VideoDecoder] = {}
        self._images: dict[str, MediaColumn] = {}

    def frames(
        self, camera: str, seconds: NDArray[np.float64], tolerance_s: float, place: str, *, is_depth: bool = False
    ) -> Tensor:
        """Return the frames of a camera's video nearest to the times ``seconds``, uint8 (T, C, H, W).

        With ``is_depth``, these are depth codes, uint16 (T, 1, H, W). ``place`` names the episode in messages. If a
        frame is farther away than ``tolerance_s``, raise ReadError.
        """
        decoder = self._decoders.get(camera)
        if decoder is None:
            options = {**self._decoder_options, "transforms": None}
            if is_depth:
                options |= {"device": "cpu", "decode_backend": None}
            with errors_as_misuse():
                decoder = VideoDecoder(dict(self.files.videos)[camera], **options)
            self._decoders[camera] = ready_for_rows(decoder, self._decoder_options)
            if is_depth:
                access_to(decoder).decode_luma(_NUM_DEPTH_BITS)
        else:
            access_to(decoder).restore()
        redraw_transforms(decoder, self._decoder_options)
        indices, times = access_to(decoder).frames_nearest_to(seconds)
        distances = np.abs(times - seconds)
        if not (distances < tolerance_s).all():
            worst = int(distances.argmax())
            raise ReadError(
                f"{place}: {camera} has no frame at {seconds[worst]:.4f} s of {dict(self.files.videos)[camera]}: the "
                f"nearest is at {times[worst]:.4f} s, farther away than tolerance_s ({tolerance_s:g}). The table does "
                "not match the video. Leave out such rows with on_error, or pass a larger tolerance_s."
            )
        return decoder.get_frames_at(indices).data

    def frame_box(self, camera: str) -> tuple[int, int, int, int] | None:
        box: tuple[int, int, int, int] | None = access_to(self._decoders[camera]).frame_box()
        return box

    def image(self, column: str, row: int, place: str, *, is_depth: bool = False) -> Tensor:
        """Return the image in a row of the episode's table, uint8 (C, H, W); with ``is_depth``, float32 (1, H, W)."""
        try:
            if column not in self._images:
                with parquet_file(self.files.table) as file:
                    self._images[column] = MediaColumn(self.files.table, f"{column}.bytes", file)
            data = self._images[column][row]
        except InvalidArgumentError as error:  # so that the dataset's error policy applies
            raise ReadError(f"{place}: {error}") from error
        if not data:
            raise ReadError(f"{place}: {column} has no bytes in row {row} of {self.files.table}.")
        if is_depth:
            return _decode_depth_image(data)
        image: Tensor = decode_image(data, mode="UNCHANGED")  # type: ignore[arg-type]
        return image

    def close(self) -> None:
        for decoder in self._decoders.values():
            decoder.close()


# Depth maps: 12-bit codes in videos, and images in tables


@lru_cache(maxsize=64)
def _levels(scale: DepthScale, unit: DepthUnit) -> NDArray[np.float32]:
    """Return the depth of each 12-bit code in metres, or in millimetres rounded to whole numbers."""
    # Use the order of LeRobot's own operations, in float32, so that results are bit-identical.
    levels = torch.arange(1 << _NUM_DEPTH_BITS, dtype=torch.float32)
    first, last = scale.least, scale.greatest
    if scale.is_logarithmic:
        first, last = math.log(first + scale.shift), math.log(last + scale.shift)
    levels.mul_((last - first) / (len(levels) - 1)).add_(first)
    if scale.is_logarithmic:
        levels.exp_().sub_(scale.shift)
    levels.clamp_(scale.least, scale.greatest)
    if unit == "mm":
        levels.mul_(_MM_PER_METRE).round_().clamp_(0.0, _MAX_MM)
    return levels.numpy()


def _decode_depth_image(source: bytes | Source) -> Tensor:
    """Decode a depth image (PNG, or TIFF of 16-bit integers or floats) to float32 (1, H, W) in its stored unit."""
    data = read_whole(source)
    if not data.startswith(_TIFF_STARTS):
        return decode_image(data, mode="GRAY", output_dtype="auto").to(torch.float32)
    try:
        image = TiffImagePlugin.TiffImageFile(io.BytesIO(data))
        check_pixels(image.width, image.height, MAX_PIXELS)
        numbers = np.asarray(image, np.float32)
    except MediaTensorError:
        raise
    except Exception as error:  # Pillow raises many exception types for a damaged file
        raise DecodeError(f"A depth map could not be decoded: {error or type(error).__name__}.") from error
    if numbers.ndim != 2:
        raise DecodeError(f"A depth map must have one channel (its mode is {image.mode}).")
    return torch.from_numpy(numbers.copy())[None]


def _in_unit(depths: Tensor, stored: str | None, wanted: DepthUnit) -> Tensor:
    """Convert depths from unit ``stored`` to unit ``wanted``. If ``stored`` is ``None``, return them unchanged."""
    if stored == wanted or stored is None:
        return depths
    return depths * _MM_PER_METRE if wanted == "mm" else depths / _MM_PER_METRE
