"""Read video clips, audio, and rows of robot datasets into columns."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from .._engine.common.checks import items_of, options_dict, whole_number
from .._engine.pyav.audio import Downmix
from ..datasets._audio_clips import AudioRecipe
from ..datasets._lerobot_clips import LeRobotClips, LeRobotRecipe
from ..datasets._rows.clips import frames_sampler
from ..datasets._rows.recipe import RowSpec
from ..datasets._rows.samples import FRAME_BOX, Sample
from ..datasets._video_clips import VideoRecipe
from ..decoders import AudioDecoder, VideoDecoder
from ..errors import InvalidArgumentError, OutOfRangeError
from ..frames import AudioSamples, AudioSamplesBatch, FrameBatch
from ..samplers import audio_clips_at_random_timestamps
from ._columns import AnyColumn, Column, ListColumn, RowMapper, TextColumn, row_numbers


class ClipDecoder(RowMapper):
    """Decodes a video clip for each row of a batch. `clip_rows` makes such rows, and `RowMapper` describes calls.

    It adds these columns to the input:

    * ``frames``: a uint8 array (T, C, H, W) for each row, with T frames.
    * ``pts_seconds``, ``duration_seconds``: float64 (T,) for each row, the start times and durations of the frames in
      seconds. NaN in a row with an error.
    * ``source``: the path of the file, or another name if it has none.
    * ``error``: the reason why the row could not be read; empty if it was read.
    * ``n_replaced``: number of damaged frames that were replaced (``decoder_options={"on_error": "nearest"}``).

    Args:
        sampler: Function that takes a `VideoDecoder` and returns a `FrameBatch` of one clip, for example a sampler of
            `mediatensor.samplers` whose arguments are bound by ``functools.partial``. By default,
            `clips_at_random_indices` with ``num_frames_per_clip``.
        num_frames_per_clip: Number of frames in a clip, for the default sampler.
        num_indices_between_frames: Difference between the indices of consecutive frames of a clip, for the default
            sampler.
        clip_shape: The shape (T, C, H, W) of all clips. ``frames`` is then one array (rows, T, C, H, W), and the times
            are arrays (rows, T). Rows that cannot be read have zeros. If a clip has another shape, its row gets an
            error. With ``None``, each row has its own array, which is empty if the row cannot be read.
        decoder_options: Arguments of `VideoDecoder`: ``transforms`` (random transforms draw new values for each row),
            ``on_error`` (by default, damage in a clip is reported as an error of its row), ``stream_index``,
            ``dimension_order``, ``seek_mode``, ``output_dtype`` (``torch.float32`` makes ``frames`` float32),
            ``device`` (for actors with a GPU; decoded frames are copied to the CPU for the column) ...
        options: Arguments of `RowMapper`: ``path_column``, ``bytes_column``, ``row_column``, ``prefix``,
            ``keep_bytes``, ``seed``, ``epoch``, ``max_open_files``.

    Raises:
        InvalidArgumentError: if an argument is not accepted.

    Example:
        >>> import ray  # doctest: +SKIP
        >>> from mediatensor.distributed import ClipDecoder, clip_rows
        >>> from mediatensor.transforms import Resize
        >>> clips = ray.data.from_items(clip_rows(["a.mp4", "b.mp4"], rows_per_file=4)).map_batches(
        ...     ClipDecoder,
        ...     fn_constructor_kwargs={
        ...         "num_frames_per_clip": 8,
        ...         "clip_shape": (8, 3, 112, 112),
        ...         "decoder_options": {"transforms": [Resize((112, 112))]},
        ...     },
        ...     batch_size=16,
        ...     num_cpus=2,
        ...     compute=ray.data.ActorPoolStrategy(size=4),
        ... )  # doctest: +SKIP
        >>> ClipDecoder(num_frames_per_clip=8)({"path": ["missing.mp4"]})["error"][0][:19]
        'SourceNotFoundError'
    """

    def __init__(
        self,
        sampler: Callable[[Any], FrameBatch] | None = None,
        *,
        num_frames_per_clip: int = 16,
        num_indices_between_frames: int = 1,
        clip_shape: tuple[int, int, int, int] | None = None,
        decoder_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        shape = _check_shape(clip_shape, ("frames", "channels", "height", "width"))
        if sampler is None:
            if clip_shape is not None and clip_shape[0] != num_frames_per_clip:
                raise InvalidArgumentError(
                    f"clip_shape must begin with num_frames_per_clip (got {clip_shape!r} and {num_frames_per_clip!r})."
                )
            sampler = frames_sampler(num_frames_per_clip, num_indices_between_frames)
        decoder = options_dict("decoder_options", decoder_options, VideoDecoder)
        times = (shape[0],)
        columns = [
            Column("frames", _frame_dtype(decoder), shape),
            Column("pts_seconds", "float64", times, math.nan),
            Column("duration_seconds", "float64", times, math.nan),
        ]
        super().__init__(VideoRecipe(sampler, decoder_options=decoder), columns, **options)

    def values(self, sample: Sample) -> dict[str, Any]:
        frames = sample.frames
        if frames is None:
            raise InvalidArgumentError("The sampler did not return frames.")
        return {
            "frames": frames.data.cpu().numpy(),
            "pts_seconds": frames.pts_seconds.numpy(),
            "duration_seconds": frames.duration_seconds.numpy(),
            "n_replaced": sum(not report.num_missing for report in frames.replaced),
        }


class AudioReader(RowMapper):
    """Reads the audio of each row of a batch: whole audio or video files, or clips of them.

    `clip_rows` makes such rows, and `RowMapper` describes calls. The reader adds these columns to the input:

    * ``audio``: a float32 array (channels, samples) for each row.
    * ``pts_seconds``: float64, the time of the first sample in seconds; NaN in a row with an error.
    * ``duration_seconds``: float64, the length of the audio in seconds; NaN in a row with an error.
    * ``sample_rate``: int64, samples per second; 0 in a row with an error.
    * ``source``: the path of the file, or another name if it has none.
    * ``error``: the reason why the row could not be read; empty if it was read.
    * ``n_replaced``: number of padding samples at the end of a clip, if the file is shorter than the clip.

    Args:
        sampler: Function that takes an `AudioDecoder` and returns `AudioSamples`, or an `AudioSamplesBatch` of one
            clip, for example a sampler of `mediatensor.samplers` whose arguments are bound by ``functools.partial``. By
            default, whole files are read or, with ``seconds_per_clip``, clips at random times.
        seconds_per_clip: Length of a clip in seconds, for the default sampler; ``None`` means whole files.
        sample_rate: Sample rate of the audio in Hz; ``None`` keeps the rate of each file.
        num_channels: Number of channels of the audio; ``None`` keeps the channels of each file.
        downmix: How to mix to fewer channels, ``"sum"`` or ``"mean"``; see `AudioDecoder`.
        clip_shape: The shape (channels, samples) of all clips. ``audio`` is then one array (rows, channels, samples).
            Rows that cannot be read have zeros. If the audio has another shape, its row gets an error. With ``None``,
            each row has its own array, which is empty if the row cannot be read.
        decoder_options: Further arguments of `AudioDecoder`: ``stream_index``, ``num_ffmpeg_threads``.
        options: Arguments of `RowMapper`: ``path_column``, ``bytes_column``, ``row_column``, ``prefix``,
            ``keep_bytes``, ``seed``, ``epoch``, ``max_open_files``.

    Raises:
        InvalidArgumentError: if an argument is not accepted.

    Example:
        >>> import io, wave
        >>> from mediatensor.distributed import AudioReader
        >>> file = io.BytesIO()
        >>> with wave.open(file, "wb") as writer:
        ...     writer.setparams((1, 2, 8000, 0, "NONE", ""))
        ...     _ = writer.writeframes(bytes(2 * 4000))
        >>> read = AudioReader()({"bytes": [file.getvalue(), b"no sound"]})
        >>> read["audio"][0].shape, read["duration_seconds"], read["audio"][1].shape
        ((1, 4000), array([0.5, nan]), (0, 0))
    """

    def __init__(
        self,
        sampler: Callable[[Any], AudioSamples | AudioSamplesBatch] | None = None,
        *,
        seconds_per_clip: float | None = None,
        sample_rate: int | None = None,
        num_channels: int | None = None,
        downmix: Downmix = "sum",
        clip_shape: tuple[int, int] | None = None,
        decoder_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if sampler is None:
            sampler = AudioDecoder.get_all_samples
            if seconds_per_clip is not None:
                sampler = partial(audio_clips_at_random_timestamps, seconds_per_clip=seconds_per_clip)
        form = {"sample_rate": sample_rate, "num_channels": num_channels, "downmix": downmix}
        decoder = form | options_dict("decoder_options", decoder_options, AudioDecoder)
        columns = [
            Column("audio", "float32", _check_shape(clip_shape, ("channels", "samples"))),
            Column("pts_seconds", "float64", missing=math.nan),
            Column("duration_seconds", "float64", missing=math.nan),
            Column("sample_rate", "int64"),
        ]
        super().__init__(AudioRecipe(sampler, decoder_options=decoder), columns, **options)

    def values(self, sample: Sample) -> dict[str, Any]:
        sound = sample.audio
        if not isinstance(sound, AudioSamples):
            raise InvalidArgumentError("The sampler did not return the audio of one clip.")
        num_valid = sample.num_valid_samples
        return {
            "audio": sound.data.numpy(),
            "pts_seconds": sound.pts_seconds,
            "duration_seconds": sound.duration_seconds,
            "sample_rate": sound.sample_rate,
            "n_replaced": 0 if num_valid is None else sound.data.shape[1] - num_valid,
        }


def _check_shape(shape: tuple[int, ...] | None, dimensions: tuple[str, ...]) -> tuple[int | None, ...]:
    if shape is None:
        return (None,) * len(dimensions)
    sizes = tuple(shape) if isinstance(shape, Sequence) else ()
    if len(sizes) != len(dimensions) or not all(type(size) is int and size > 0 for size in sizes):
        raise InvalidArgumentError(
            f"clip_shape must be ({', '.join(dimensions)}), positive whole numbers, or None (got {shape!r})."
        )
    return sizes


def _frame_dtype(decoder_options: Mapping[str, Any]) -> str:
    dtype = decoder_options.get("output_dtype", torch.uint8)
    if dtype not in (torch.uint8, torch.float32):
        raise InvalidArgumentError(
            f"output_dtype must be torch.uint8 or torch.float32 (got {dtype!r}), so that the column has the same type "
            "for all files."
        )
    return "uint8" if dtype is torch.uint8 else "float32"


# Robot datasets


class LeRobotReader(RowMapper):
    """Reads rows of a LeRobot dataset by number, bit-identical to the rows of `LeRobotClips`.

    A row is one frame of an episode, or a whole episode with ``rows="episodes"``. The reader adds the columns of the
    dataset to the input, with the shapes in the metadata of the dataset. If ``delta_timestamps`` lists times for a
    column NAME, this column gets a new first dimension with one entry for each time, and a mask ``NAME_is_pad`` is
    added. (Video frames do not get the new dimension if only one time is listed.) If the transforms include a
    `Letterbox`, ``NAME_frame_box`` is added for cameras with video: the box (left, top, right, bottom) of the frame
    inside its padding, int64. Further output columns are ``task``, ``source`` (the episode), ``error`` (the reason why
    the row could not be read, otherwise empty) and ``n_replaced`` (always 0). A row with an error has zeros, ``False``
    and empty text.

    Each worker (actor) reads the metadata once, in the constructor.

    Args:
        source: The folder or URL of the dataset.
        delta_timestamps: For each column that should have several values in a row, their times in seconds relative to
            the row; see `LeRobotClips`.
        picture_shape: The shape (channels, height, width) of the output images; depth maps always have one channel. By
            default, the shape in the metadata. If there are ``image_transforms``, or transforms in
            ``decoder_options``, which can change the shape, each row has its own array by default.
        clips_options: Further arguments of `LeRobotClips`: ``episodes``, ``rows``, ``step``, ``only_whole``,
            ``cameras``, ``tolerance_s``, ``image_transforms``, ``output_dtype``, ``depth_output_unit``,
            ``decoder_options``.
        row_column: Name of the column with row numbers. ``ray.data.range`` calls it ``"id"``.
        prefix: Prefix of the names of the output columns.
        seed, epoch: Seed and number of the epoch. Random transforms depend on both.
        max_open_files: Number of episodes that stay open between batches. Episodes that share their videos count as
            one.

    Raises:
        InvalidArgumentError: if an argument is not accepted, the metadata are damaged, or the dataset has a column
            ``source``, ``error`` or ``n_replaced``.
        SourceNotFoundError: if there is no such dataset.
        ReadError: if the metadata cannot be read.

    Example:
        >>> from mediatensor.distributed import LeRobotReader
        >>> read = LeRobotReader("robot", {"action": [0.0, 0.1]}, cameras=["observation.images.top"])
        >>> rows = read({"row": [19, 20, 50]})
        >>> rows["observation.images.top"].shape, rows["action"].shape, rows["action_is_pad"].tolist()[0]
        ((3, 3, 96, 128), (3, 2, 2), [False, True])
        >>> rows["source"][1], rows["error"][2][:15]
        ('robot: episode 1', 'OutOfRangeError')
        >>> import ray  # doctest: +SKIP
        >>> rows = ray.data.range(len(LeRobotClips("robot"))).map_batches(
        ...     LeRobotReader, fn_constructor_args=["robot"], fn_constructor_kwargs={"row_column": "id"}, batch_size=32,
        ...     compute=ray.data.ActorPoolStrategy(size=4)
        ... )  # doctest: +SKIP
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        *,
        picture_shape: tuple[int, int, int] | None = None,
        row_column: str = "row",
        prefix: str = "",
        seed: int = 0,
        epoch: int = 0,
        max_open_files: int = 8,
        **clips_options: Any,
    ) -> None:
        for name in ("on_error", "max_consecutive_failures"):
            if name in clips_options:
                raise InvalidArgumentError(
                    f"{name} is not accepted: a row that cannot be read has the reason in its column error."
                )
        self._clips = LeRobotClips(source, delta_timestamps, seed=seed, **clips_options)
        super().__init__(
            self._clips.recipe, _lerobot_columns(self._clips, picture_shape), row_column=row_column, prefix=prefix,
            seed=seed, epoch=epoch, max_open_files=max_open_files,
        )  # fmt: skip

    def __len__(self) -> int:
        """Return the number of rows in the dataset."""
        return len(self._clips)

    def values(self, sample: Sample) -> dict[str, Any]:
        values = {
            name: value.numpy(force=True) if isinstance(value, torch.Tensor) else value
            for name, value in sample.extra.items()
        }
        return {**values, "n_replaced": 0}

    def _specs(self, batch: Mapping[str, Any]) -> list[RowSpec | str]:
        specs: list[RowSpec | str] = []
        for number in row_numbers(batch, self._row_column):
            try:
                specs.append(self._clips.spec(number, self._epoch))
            except OutOfRangeError as error:
                specs.append(f"OutOfRangeError: {error}")
        return specs


def _lerobot_columns(clips: LeRobotClips, picture_shape: tuple[int, int, int] | None) -> list[AnyColumn]:
    recipe = clips.recipe
    assert isinstance(recipe, LeRobotRecipe)
    conflicts = sorted({"source", "error", "n_replaced"} & clips.features.keys())
    if conflicts:
        raise InvalidArgumentError(
            f"The dataset has a column {conflicts[0]!r}, which is an output column of this reader."
        )
    if picture_shape is not None:
        given = items_of("picture_shape", picture_shape, of="int")
        if len(given) != 3:
            raise InvalidArgumentError(f"picture_shape must be (channels, height, width) (got {picture_shape!r}).")
        channels, height, width = (whole_number("picture_shape", size, at_least=1) for size in given)
        picture_shape = (channels, height, width)
    are_changed = recipe.image_transforms is not None or recipe.decoder_options.get("transforms")
    is_whole = recipe.rows == "episodes"
    columns: list[AnyColumn] = []
    for name, feature in clips.features.items():
        dtype, deltas = feature["dtype"], recipe.delta_frames.get(name)
        # If there is a single time, video frames have no dimension for times, but all other columns do.
        times = len(deltas) if deltas is not None and (dtype != "video" or len(deltas) > 1) else None
        in_front: tuple[int | None, ...] = (None,) if is_whole else () if times is None else (times,)
        if deltas is not None:
            columns.append(Column(f"{name}_is_pad", "bool", (len(deltas),)))
        if dtype == "string":
            columns.append(ListColumn(name) if is_whole else TextColumn(name))
        elif name in recipe.format.structured_columns:
            columns.append(ListColumn(name))
        elif dtype in ("video", "image"):
            if dtype == "video" and recipe.has_frame_boxes:
                columns.append(Column(f"{name}_{FRAME_BOX}", "int64", (4,)))
            is_depth = name in recipe.format.depths
            channels, *size = picture_shape or _picture_shape(feature)
            sizes: tuple[int | None, ...] = (1 if is_depth else channels, *size)
            if are_changed and picture_shape is None:
                sizes = (None, None, None)
            pixels = "float32" if is_depth or recipe.output_dtype == torch.float32 else "uint8"
            columns.append(Column(name, pixels, (*in_front, *sizes)))
        else:
            shape = () if feature["shape"] == (1,) else feature["shape"]
            number = "bool" if dtype == "bool" else "float32" if np.dtype(dtype).kind == "f" else "int64"
            columns.append(Column(name, number, (*in_front, *shape)))
    for name, texts in (("task", recipe.format.tasks), ("subtask", recipe.format.subtasks)):
        if texts is not None:
            columns.append(ListColumn(name) if is_whole else TextColumn(name))
    return columns


def _picture_shape(feature: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return (channels, height, width) from the metadata of an image or video. Videos always have three channels.

    >>> _picture_shape({"dtype": "image", "shape": (480, 640, 3)})
    (3, 480, 640)
    """
    first, second, third = feature["shape"]
    sizes = (first, second, third) if first in (1, 3, 4) and third not in (1, 3, 4) else (third, first, second)
    return (3, *sizes[1:]) if feature["dtype"] == "video" else sizes
