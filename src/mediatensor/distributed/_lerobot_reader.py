"""`LeRobotReader`: rows of robots' datasets as columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .._engine.common.checks import items_of, whole_number
from ..datasets._lerobot_clips import LeRobotClips, LeRobotRecipe
from ..datasets._rows.recipe import RowSpec
from ..datasets._rows.samples import Sample
from ..errors import InvalidArgumentError, OutOfRangeError
from ._columns import Column, ListColumn, TextColumn, row_numbers
from ._row_mapper import AnyColumn, RowMapper

__all__ = ["LeRobotReader"]


class LeRobotReader(RowMapper):
    """Reads rows of a LeRobot dataset by their numbers: each has what that row of `LeRobotClips` has, bit for bit.

    Columns that come out, beside those that came in: those of the dataset, in the shapes of its metadata, with the
    times of ``delta_timestamps`` in front, and ``NAME_is_pad``; ``task``; ``source``, the episode; ``error``, why the
    row could not be read, empty if it could; ``n_replaced``, always 0. A row with an error has zeros, ``False`` and
    empty text.

    The metadata are read when the reader is made, once in each actor.

    Args:
        source: The folder or URL of the dataset.
        delta_timestamps: As for `LeRobotClips`.
        picture_shape: The shape (channels, height, width) that pictures have at the end; depth maps have one channel in
            any case. By default that of the
            metadata; with ``image_transforms`` or transforms in ``decoder_options`` each row then has an array of its
            own shape.
        clips_options: Further arguments of `LeRobotClips`: ``episodes``, ``rows``, ``step``, ``only_whole``,
            ``cameras``, ``tolerance_s``, ``image_transforms``, ``output_dtype``, ``depth_output_unit``,
            ``decoder_options``.
        row_column: Name of the column with the numbers of rows; ``ray.data.range`` calls it ``"id"``.
        prefix: A prefix for the names of the columns that come out.
        seed: Decides, with the number of a row, about random transforms.
        epoch: Likewise.
        max_open_files: How many episodes stay open between batches; those that share their videos count as one.

    Raises:
        InvalidArgumentError: if an argument is not among the accepted ones, the metadata are damaged, or the dataset
            has a column ``source``, ``error`` or ``n_replaced``.
        SourceNotFoundError: if there is no such dataset.
        ReadError: if its metadata cannot be read.

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
                raise InvalidArgumentError(f"{name} is not accepted: every row comes out, and error says why.")
        self._clips = LeRobotClips(source, delta_timestamps, seed=seed, **clips_options)
        super().__init__(
            self._clips.recipe, _columns(self._clips, picture_shape), row_column=row_column, prefix=prefix, seed=seed,
            epoch=epoch, max_open_files=max_open_files,
        )  # fmt: skip

    def __len__(self) -> int:
        """How many rows the dataset has."""
        return len(self._clips)

    def values(self, sample: Sample) -> dict[str, Any]:
        values = {
            name: value.numpy() if isinstance(value, torch.Tensor) else value for name, value in sample.extra.items()
        }
        return {**values, "n_replaced": 0}

    def _specs(self, batch: Mapping[str, Any]) -> list[RowSpec | str]:
        specs: list[RowSpec | str] = []
        for number in row_numbers(batch, self._names.row):
            try:
                specs.append(self._clips.spec(number, self._epoch))
            except OutOfRangeError as error:
                specs.append(f"OutOfRangeError: {error}")
        return specs


def _columns(clips: LeRobotClips, picture_shape: tuple[int, int, int] | None) -> list[AnyColumn]:
    """The columns of rows, as the recipe makes them.

    Raises:
        InvalidArgumentError: if there is one of a name that is taken, or ``picture_shape`` is none.
    """
    recipe = clips.recipe
    assert isinstance(recipe, LeRobotRecipe)
    taken = sorted({"source", "error", "n_replaced"} & clips.features.keys())
    if taken:
        raise InvalidArgumentError(f"The dataset has a column {taken[0]!r}, as this reader calls one of its own.")
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
        # Of a video a single time gives a picture without a dimension of time; of all others it stays.
        times = len(deltas) if deltas is not None and (dtype != "video" or len(deltas) > 1) else None
        in_front: tuple[int | None, ...] = (None,) if is_whole else () if times is None else (times,)
        if deltas is not None:
            columns.append(Column(f"{name}_is_pad", "bool", (len(deltas),)))
        if dtype == "string":
            columns.append(ListColumn(name) if is_whole else TextColumn(name))
        elif name in recipe.format.structured_columns:
            columns.append(ListColumn(name))
        elif dtype in ("video", "image"):
            is_depth = name in recipe.format.depths
            channels, *size = picture_shape or _picture_shape(feature)
            sizes: tuple[int | None, ...] = (1 if is_depth else channels, *size)
            if are_changed and picture_shape is None:
                sizes = (None, None, None)
            pixels = "float32" if is_depth or recipe.output_dtype == torch.float32 else "uint8"
            columns.append(Column(name, pixels, (*in_front, *sizes)))
        else:
            shape = () if feature["shape"] == (1,) else feature["shape"]
            columns.append(Column(name, _dtype(dtype), (*in_front, *shape)))
    for name, texts in (("task", recipe.format.tasks), ("subtask", recipe.format.subtasks)):
        if texts is not None:
            columns.append(ListColumn(name) if is_whole else TextColumn(name))
    return columns


def _dtype(dtype: str) -> str:
    """The type of numbers that rows have, given that of the metadata."""
    return "bool" if dtype == "bool" else "float32" if np.dtype(dtype).kind == "f" else "int64"


def _picture_shape(feature: Mapping[str, Any]) -> tuple[int, int, int]:
    """(channels, height, width) of a feature; a video is decoded to three channels.

    >>> _picture_shape({"dtype": "image", "shape": (480, 640, 3)})
    (3, 480, 640)
    """
    first, second, third = feature["shape"]
    sizes = (first, second, third) if first in (1, 3, 4) and third not in (1, 3, 4) else (third, first, second)
    return (3, *sizes[1:]) if feature["dtype"] == "video" else sizes
