"""`RowMapper`: reads rows of files into columns. Unreadable rows have their error in a column."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .._engine.common.checks import items_of, whole_number
from .._engine.common.threads import ENVIRONMENT_VARIABLE, set_num_threads
from ..datasets._rows.recipe import OpenFiles, Recipe, RowReader, RowSpec, checked_epoch
from ..datasets._rows.samples import Sample, Skipped
from ..errors import InvalidArgumentError
from ._columns import Column, ColumnNames, ListColumn, TextColumn, batch_rows


def keep_to_assigned_cpus() -> None:
    """In a Ray actor or task, limit threads to the number of CPUs that Ray assigned to it; elsewhere change nothing.

    The environment variable ``MEDIATENSOR_NUM_THREADS`` takes precedence.
    """
    num_cpus = None if ENVIRONMENT_VARIABLE in os.environ else _assigned_cpus(sys.modules.get("ray"))
    if num_cpus is None:
        return
    set_num_threads(num_cpus)
    if torch.get_num_threads() != num_cpus:
        torch.set_num_threads(num_cpus)


def _assigned_cpus(ray: Any) -> int | None:
    """Return the number of whole CPUs that Ray gave this process, at least 1; ``None`` outside of Ray."""
    if ray is None or not ray.is_initialized():
        return None
    try:
        resources = ray.get_runtime_context().get_assigned_resources()
    except AssertionError:  # raised by Ray outside of its workers
        return None
    return max(1, int(resources.get("CPU", 1)))


AnyColumn = Column | ListColumn | TextColumn


class RowMapper(ABC):
    """The base class of `ClipDecoder`, `AudioReader`, `TextReader` and `LeRobotReader`.

    Derive from it to use another `Recipe`. A call takes a batch of rows as a mapping of columns, and returns the same
    rows with further columns, in the same order. Ray Data calls it as ``dataset.map_batches(ClipDecoder,
    fn_constructor_kwargs={...})``; other engines that pass columns to a Python object can use it as well. A mapper can
    be pickled. It opens and loads nothing before the first batch.

    Rows of one file are read together, sorted by position, and up to ``max_open_files`` files stay open for the next
    batch. A row depends only on the arguments, its file and its number. It is bit-identical with any batch size or
    number of actors, and after a retry.

    In a Ray actor, decoders and torch use as many threads as the actor has CPUs, unless the environment variable
    ``MEDIATENSOR_NUM_THREADS`` is set.

    Args:
        recipe: Makes a sample from a file.
        columns: The output columns for a sample.
        path_column: Name of the column with paths or URLs, or with mappings of ``path`` and ``bytes``. The other
            columns of `clip_rows` have fixed names: ``start_byte`` and ``end_byte``, or ``table_column`` and
            ``table_row``, for a part of the file; ``start_seconds`` and ``end_seconds`` for a segment.
        bytes_column: Name of the column with the bytes of files. For a row with bytes, the path is only a name.
        row_column: Name of the column with row numbers, as made by `clip_rows`. A row has the same clip as the row of
            this number in a dataset with the same seed. Without this column, a clip depends only on its file, so rows
            of one file are equal.
        used_columns: Further columns that the recipe reads, from ``Item.extra``.
        prefix: A prefix for the names of the output columns.
        keep_bytes: Return the column with the bytes of files. All other input columns are always returned.
        seed: Seed of random numbers, combined with the file and the number of a row.
        epoch: Epoch number; each epoch draws new clips.
        max_open_files: Number of files that stay open between batches.

    Raises:
        InvalidArgumentError: if ``max_open_files`` is not positive.

    Example:
        In Daft, your own class turns columns into lists and declares the output::

            tensor = daft.DataType.tensor(daft.DataType.uint8(), (8, 3, 112, 112))
            clip = daft.DataType.struct({"frames": tensor, "error": daft.DataType.string()})

            @daft.cls
            class Clips:
                def __init__(self):
                    resize = {"transforms": [Resize((112, 112))]}
                    self.decode = ClipDecoder(
                        num_frames_per_clip=8, clip_shape=(8, 3, 112, 112), decoder_options=resize
                    )

                @daft.method.batch(return_dtype=clip, batch_size=16)
                def __call__(self, path, row):
                    clips = self.decode({"path": path.to_pylist(), "row": row.to_pylist()})
                    return [{"frames": clips["frames"][i], "error": clips["error"][i]} for i in range(len(row))]

            rows = daft.from_pylist(clip_rows(["a.mp4", "b.mp4"], rows_per_file=4))
            rows.with_column("clip", Clips()(rows["path"], rows["row"])).show()
    """

    def __init__(
        self,
        recipe: Recipe,
        columns: Sequence[AnyColumn],
        *,
        path_column: str = "path",
        bytes_column: str = "bytes",
        row_column: str = "row",
        used_columns: Sequence[str] = (),
        prefix: str = "",
        keep_bytes: bool = False,
        seed: int = 0,
        epoch: int = 0,
        max_open_files: int = 8,
    ) -> None:
        self.recipe = recipe
        used = tuple(items_of("used_columns", used_columns, of="names"))
        self._names = ColumnNames(path_column, bytes_column, row_column, used)
        self._columns = (*columns, TextColumn("source"), TextColumn("error"), Column("n_replaced", "int64"))
        self._prefix = prefix
        self._keep_bytes = keep_bytes
        self._seed = whole_number("seed", seed)
        self._epoch = checked_epoch(epoch)
        # Every failure is reported in its own row, so the number of failures is not limited.
        num_open_files = whole_number("max_open_files", max_open_files, at_least=1)
        self._reader = RowReader("skip", sys.maxsize, OpenFiles(num_open_files))

    @abstractmethod
    def values(self, sample: Sample) -> dict[str, Any]:
        """Return the values of a sample by column, with ``n_replaced``, and ``error`` if a part of it is missing.

        Raises:
            InvalidArgumentError: if the sample does not fit the columns. The row then has this error and no values.
        """

    def prepare(self) -> None:  # noqa: B027 - most readers have nothing to prepare
        """Load models before the first file. An exception here is raised instead of becoming the error of a row."""

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Read the files of a batch.

        Args:
            batch: Columns as NumPy arrays or lists of equal length.

        Returns:
            The input columns, except the bytes of files, and the output columns. A row that could not be read
            has the reason in ``error``, and zeros, NaN or empty values.

        Raises:
            InvalidArgumentError: if ``batch`` is not a mapping of columns, has no column of files, has invalid row
                numbers, or already has an output column.
        """
        keep_to_assigned_cpus()
        kept = self._kept_columns(batch)
        self.prepare()
        specs = self._specs(batch)
        try:
            values = self._read(specs)
        finally:
            if any(isinstance(spec, RowSpec) and isinstance(spec.item.source, bytes) for spec in specs):
                # The next batch has other bytes, so release the bytes of this batch.
                self._reader.files.close()
        return kept | {
            self._prefix + column.name: column.gather([row.get(column.name) for row in values])
            for column in self._columns
        }

    def _kept_columns(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(batch, Mapping):
            raise InvalidArgumentError(
                f"A batch must be a mapping from names to columns (got {type(batch).__name__}); with Ray Data, leave "
                "batch_format at 'numpy'."
            )
        kept = {name: values for name, values in batch.items() if self._keep_bytes or name != self._names.bytes}
        conflicts = [name for column in self._columns if (name := self._prefix + column.name) in kept]
        if conflicts:
            raise InvalidArgumentError(
                f"The batch already has output columns: {', '.join(conflicts)}. Give prefix= to rename those."
            )
        return kept

    def _specs(self, batch: Mapping[str, Any]) -> list[RowSpec | str]:
        """Return the `RowSpec` of each row, or an error text for a row without a file."""
        nothing = (
            f"SourceTypeError: The row names no file: neither {self._names.path!r} nor {self._names.bytes!r} has a "
            "path or bytes."
        )
        return [
            nothing if row.item is None else RowSpec(row.item, 0, self.recipe, self._seed, self._epoch, row.number)
            for row in batch_rows(batch, self._names)
        ]

    def _read(self, specs: Sequence[RowSpec | str]) -> list[dict[str, Any]]:
        """Return the values of each row by column."""
        results = iter(self._reader.read_all([spec for spec in specs if isinstance(spec, RowSpec)]))
        return [{"error": spec} if isinstance(spec, str) else self._values_of(spec, next(results)) for spec in specs]

    def _values_of(self, spec: RowSpec, result: Sample | Skipped) -> dict[str, Any]:
        source = spec.item.name
        if isinstance(result, Skipped):
            failure = result.failures[0]
            return {"source": source, "error": f"{failure.error}: {failure.message}"}
        try:
            values = self.values(result)
            for column in self._columns:
                if isinstance(column, Column) and column.name in values:
                    column.check(np.asarray(values[column.name]))
        except InvalidArgumentError as error:
            return {"source": source, "error": f"{type(error).__name__}: {error}"}
        return {"source": source, **values}
