"""`RowMapper`, which reads the file of each row of a batch, and the classes that describe its output columns.

The output columns have the same names, types and numbers of dimensions for every batch.
"""

from __future__ import annotations

import hashlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._engine.common.checks import items_of, whole_number
from .._engine.common.threads import ENVIRONMENT_VARIABLE, set_num_threads
from ..datasets._rows.recipe import OpenFiles, Recipe, RowReader, RowSpec, checked_epoch, derived_seed
from ..datasets._rows.samples import Sample, Skipped
from ..datasets._sources.dispatch import REFERENCE_COLUMNS, as_items, references_of, source_of_reference
from ..datasets._sources.items import Item, MediaKind, UnreadableSource
from ..errors import InvalidArgumentError


def row_numbers(batch: Mapping[str, Any], column: str) -> list[int]:
    if column not in batch:
        raise InvalidArgumentError(
            f"The batch has no column {column!r} with row numbers (it has {sorted(batch)}). Pass the name of your "
            "column as row_column."
        )
    _num_rows(batch)
    return [_number(value, column, _ADVICE_ON_ROWS) for value in batch[column]]


def _num_rows(batch: Mapping[str, Any]) -> int:
    lengths = {name: len(values) for name, values in batch.items()}
    if len(set(lengths.values())) != 1:
        raise InvalidArgumentError(f"The columns of a batch must have equal lengths (got {lengths}).")
    return next(iter(lengths.values()))


def _item_of_row(
    path: str | None, data: bytes | None, batch: Mapping[str, Any], i: int, used: Sequence[str]
) -> Item | None:
    """Return the file of row ``i``, or ``None`` if the row has neither a path nor bytes.

    If the reference to the file is invalid, reading the returned item raises the error, which then affects only this
    row.
    """
    place = {name: _plain_value(batch[name][i]) for name in REFERENCE_COLUMNS if name in batch}
    name = str(place.get("source_name") or path or "")
    segment = {key: _seconds(batch[key][i]) for key in ("start_seconds", "end_seconds") if key in batch}
    extra = {key: batch[key][i] for key in used if key in batch}
    try:
        source = source_of_reference(path, place) if data is None else data
        return None if source is None else Item(source, name=name, extra=extra, **segment)
    except (InvalidArgumentError, TypeError) as error:
        return Item(UnreadableSource(str(error)), name=name, extra=extra)


def _plain_value(value: Any) -> Any:
    """Convert a NumPy number to a Python number.

    In a column with missing values, integers are stored as floats. They become ints again, and NaN becomes ``None``.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return None if np.isnan(value) else int(value) if value.is_integer() else value
    return value


def _seconds(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value


def _path_and_bytes(path: Any, data: Any) -> tuple[str | None, bytes | None]:
    if isinstance(path, Mapping):
        path, data = path.get("path"), path.get("bytes") if data is None else data
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if isinstance(data, (bytearray, memoryview)):
        data = bytes(data)
    if isinstance(data, np.bytes_):
        raise InvalidArgumentError(
            "A column with the bytes of files must have the dtype object (got 'S', which drops zeros at the end of "
            "values)."
        )
    return str(path) if isinstance(path, str) and path else None, data if isinstance(data, bytes) else None


_ADVICE_ON_ROWS = (
    " Together with the seed, they determine the clip of a row. Pass the name of another column as row_column, or "
    "leave out the column."
)


def _number(value: Any, column: str, advice: str) -> int:
    number = _plain_value(value)
    if hasattr(number, "__index__") and not isinstance(number, bool):
        return int(number)
    raise InvalidArgumentError(f"The column {column!r} must contain whole numbers (got {number!r}).{advice}")


def number_or_none(value: Any, column: str, advice: str = "") -> int | None:
    return None if _plain_value(value) is None else _number(value, column, advice)


def _number_of_file(name: str, data: bytes | None) -> int:
    """Derive a row number from the name or the bytes of a file, for a row that has no number."""
    if data is not None and name == Item(data).name:  # this name is only the default name of bytes
        name = hashlib.blake2b(data, digest_size=16).hexdigest()
    return derived_seed("file", name)


def clip_rows(
    source: Any,
    rows_per_file: int = 1,
    *,
    kind: MediaKind = "video",
    media_column: str | None = None,
    label_column: str | None = None,
    classes: Sequence[str] | None = None,
    **columns: Sequence[Any],
) -> list[dict[str, Any]]:
    """List the files of a dataset as rows of a table, for example for `ClipDecoder`.

    Each row stands for one sample, such as a clip of a file. The column ``row`` numbers the rows. Row n gets the same
    clip as row n of a dataset, such as `mediatensor.datasets.VideoClips`, with the same ``rows_per_file`` and with the
    seed of the mapper (`RowMapper`) that reads the row.

    A row contains the path or URL of its file, not its bytes, so any machine that can open this path or URL can read
    the row. For a file within a tar shard or a Parquet file, the row contains its position there.

    Args:
        source: Paths or URLs, a folder, a manifest, tar shards, or the path or URL of a Parquet file, which contains
            media files or their paths. For further types, see `mediatensor.datasets.as_items`.
        rows_per_file: Number of rows for each file. Each row gets its own random clip of the file.
        kind: ``"video"``, ``"audio"``, ``"image"`` or ``"document"``: the kind of the files in a folder or a table.
        media_column: Name of the column with the file, in a manifest or a Parquet file. Needed only if it is not one of
            the names that `mediatensor.datasets.as_items` recognises.
        label_column: Name of the column with the label. Needed only if `as_items` does not recognise its name.
        classes: The class names; the position of a name in this list is its numeric label. By default, the classes of
            the source, sorted by name.
        columns: Further columns as keyword arguments, with one value for each file.

    Returns:
        A list with a dict for each row, for ``ray.data.from_items`` and ``daft.from_pylist``. All dicts have the same
        keys: ``path``, ``row``, ``label`` (if the source has labels) and the other columns of the source. If there are
        files in tar shards, there are also ``source_name``, ``start_byte`` and ``end_byte``; for files in Parquet,
        ``source_name``, ``table_column`` and ``table_row``; for segments of files, ``start_seconds`` and
        ``end_seconds``. A part of the source that cannot be read, such as a damaged shard, becomes a row whose column
        ``unreadable`` contains the error.

    Raises:
        InvalidArgumentError: if ``rows_per_file`` is not positive, a column does not have one value for each file, or
            the name of a column is already in use; also in the cases that `mediatensor.datasets.as_items` lists.
        SourceNotFoundError: if there is no such folder, manifest or shard.

    Example:
        >>> from mediatensor.distributed import clip_rows
        >>> clip_rows(["a.mp4", "b.mp4"], 2, label=[0, 1])[1:3]
        [{'path': 'a.mp4', 'row': 1, 'label': 0}, {'path': 'b.mp4', 'row': 2, 'label': 1}]
        >>> clip_rows("videos", 2)[5]["path"]  # a folder
        'videos/c.mp4'
    """
    rows_per_file = whole_number("rows_per_file", rows_per_file, at_least=1)
    items = as_items(source, kind=kind, media_column=media_column, label_column=label_column, classes=classes)
    columns = {name: items_of(f"The column {name!r}", values, of="values") for name, values in columns.items()}
    files = list(references_of(items))
    # Give all rows the same columns, because they form a table.
    names = list(dict.fromkeys(name for file in files for name in file))
    for name, values in columns.items():
        if len(values) != len(files):
            raise InvalidArgumentError(
                f"The column {name!r} must have one value for each of the {len(files)} files (got {len(values)})."
            )
        if name in ("row", *names):
            raise InvalidArgumentError(f"The rows already have a column {name!r}. Choose another name.")
    return [
        {
            "path": file["path"],
            "row": number * rows_per_file + clip,
            **{name: file.get(name) for name in names if name != "path"},
            **{name: values[number] for name, values in columns.items()},
        }
        for number, file in enumerate(files)
        for clip in range(rows_per_file)
    ]


@dataclass(frozen=True)
class Column:
    """An output column of a `RowMapper` with a number, or an array of numbers, for each row.

    Attributes:
        name: Name of the column.
        dtype: Name of the NumPy dtype of the numbers, such as ``"float32"``.
        shape: The shape of the value of one row; ``()`` is a single number. ``None`` stands for a dimension whose size
            can differ between rows.
        missing: The number that fills rows without a value. If ``shape`` contains ``None``, these rows get an empty
            array instead.

    Example:
        >>> from mediatensor.distributed import Column
        >>> Column("duration_seconds", "float64", missing=float("nan")).gather([0.5, None])
        array([0.5, nan])
        >>> Column("boxes", "float32", (None, 4)).gather([None])[0].shape
        (0, 4)
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    missing: float = 0

    def gather(self, values: Sequence[Any]) -> NDArray[Any]:
        r"""Combine the values of all rows into a NumPy array (rows, \*shape). ``None`` is a row without a value.

        If ``shape`` contains ``None``, the result is a 1-D object array with one array for each row.
        """
        if None in self.shape:
            empty = np.zeros([size or 0 for size in self.shape], self.dtype)
            return _object_array([empty if value is None else np.asarray(value, self.dtype) for value in values])
        sizes = [size for size in self.shape if size is not None]
        column = np.full((len(values), *sizes), self.missing, self.dtype)
        for i, value in enumerate(values):
            if value is not None:
                column[i] = value
        return column

    def check(self, value: NDArray[Any]) -> None:
        """Raise `InvalidArgumentError` unless ``value``, an array for one row, has the shape of the column."""
        if len(value.shape) != len(self.shape) or any(
            wanted not in (None, size) for wanted, size in zip(self.shape, value.shape, strict=True)
        ):
            wanted = tuple("any" if size is None else size for size in self.shape)
            raise InvalidArgumentError(
                f"{self.name} of this row has the shape {value.shape}, but the column has {wanted}. Give all rows the "
                "same shape, for example with transforms, or leave out clip_shape or picture_shape."
            )


@dataclass(frozen=True)
class TextColumn:
    """An output column of a `RowMapper` with a string for each row. Rows without a value get an empty string."""

    name: str

    def gather(self, values: Sequence[str | None]) -> NDArray[Any]:
        """Combine the strings of all rows into a 1-D object array. ``None`` is a row without a value."""
        return _object_array([value or "" for value in values])


@dataclass(frozen=True)
class ListColumn:
    """An output column of a `RowMapper` with a list for each row. Rows without a value get an empty list."""

    name: str

    def gather(self, values: Sequence[Any]) -> NDArray[Any]:
        """Combine the lists of all rows into a 1-D object array. ``None`` is a row without a value.

        Arrays and tuples become lists. Other values, such as dicts and texts, stay as they are.
        """
        rows = ([] if value is None else value for value in values)
        return _object_array([list(row) if isinstance(row, np.ndarray | tuple) else row for row in rows])


def _object_array(values: Sequence[Any]) -> NDArray[Any]:
    # If all values had the same shape, NumPy would make one array of them.
    column = np.empty(len(values), object)
    for i, value in enumerate(values):
        column[i] = value
    return column


# Reading


def keep_to_assigned_cpus() -> None:
    """Within a Ray actor or task, limit the number of threads to the CPUs that Ray has assigned to it.

    Change nothing outside of Ray, or if the environment variable ``MEDIATENSOR_NUM_THREADS`` is set.
    """
    ray = sys.modules.get("ray")
    if ENVIRONMENT_VARIABLE in os.environ or ray is None or not ray.is_initialized():
        return
    try:
        resources = ray.get_runtime_context().get_assigned_resources()
    except AssertionError:  # raised by Ray outside of its workers
        return
    num_cpus = max(1, int(resources.get("CPU", 1)))
    set_num_threads(num_cpus)
    if torch.get_num_threads() != num_cpus:
        torch.set_num_threads(num_cpus)


AnyColumn = Column | ListColumn | TextColumn


class RowMapper(ABC):
    """The base class of `ClipDecoder`, `AudioReader`, `TextReader` and `LeRobotReader`.

    A row stands for one sample, for example a clip of a file. Call a mapper with a batch of rows: a mapping from column
    names to NumPy arrays or lists. It returns the same rows in the same order, as a dict of columns with output columns
    added. In Ray Data, use ``dataset.map_batches(ClipDecoder, fn_constructor_kwargs={...})``; in other engines, call it
    from your own class (see the example). To read files in another way, derive a class, and pass your own `Recipe` to
    this constructor. A mapper can be pickled. It opens files and loads models only when it gets its first batch.

    Rows of the same file are read together, in the order of their positions in the file. Up to ``max_open_files`` files
    stay open for the next batch. The output for a row depends only on the arguments of the mapper, the file of the row
    and the number of the row. So it is bit-identical for any batch size, for any number of actors, and after a retry.

    In a Ray actor, decoders and torch use as many threads as the actor has CPUs, unless the environment variable
    ``MEDIATENSOR_NUM_THREADS`` is set.

    Args:
        recipe: The `Recipe` that makes a `Sample` from a file.
        columns: The output columns (`Column`, `TextColumn` or `ListColumn`). Every mapper also adds ``source`` (name of
            the file), ``error`` (why the row could not be read, otherwise empty) and ``n_replaced`` (int64, see
            `values`).
        path_column: Name of the column with paths or URLs, or with mappings that have the keys ``path`` and ``bytes``.
            The other columns of `clip_rows` have fixed names. ``start_byte`` and ``end_byte``, or ``table_column`` and
            ``table_row``, select a part of the file. ``start_seconds`` and ``end_seconds`` select a segment.
        bytes_column: Name of the column with the bytes of files. If a row has bytes, they are read, and its path is
            used only as a name.
        row_column: Name of the column with row numbers, as `clip_rows` makes them. The row with number n gets the same
            clip as row n of a dataset with the same seed. If the batch does not have this column, all rows of a file
            get the same clip.
        used_columns: Further input columns that ``recipe`` needs. The recipe finds their values in ``Item.extra``.
        prefix: Prefix of the names of the output columns; by default none.
        keep_bytes: Whether to return the column with the bytes of files. All other input columns are always returned.
        seed: Seed of random numbers. It is combined with the file and the number of a row.
        epoch: Number of the epoch. Each epoch gets new random clips.
        max_open_files: Number of files that stay open between batches.

    Raises:
        InvalidArgumentError: if ``seed``, ``epoch``, ``max_open_files`` or ``used_columns`` is not accepted.

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
        self._path_column, self._bytes_column, self._row_column = path_column, bytes_column, row_column
        self._used_columns = items_of("used_columns", used_columns, of="names")
        self._columns = (*columns, TextColumn("source"), TextColumn("error"), Column("n_replaced", "int64"))
        self._prefix = prefix
        self._keep_bytes = keep_bytes
        self._seed = whole_number("seed", seed)
        self._epoch = checked_epoch(epoch)
        # Each failure is reported in its row, so the number of failures is not limited.
        num_open_files = whole_number("max_open_files", max_open_files, at_least=1)
        self._reader = RowReader("skip", sys.maxsize, OpenFiles(num_open_files))

    @abstractmethod
    def values(self, sample: Sample) -> dict[str, Any]:
        """Convert the `Sample` of a row to a dict from the names of the output columns to the values of this row.

        The dict must also have ``n_replaced``, the number of frames (or audio samples) that were replaced or padded. If
        a part of the sample is missing, the dict must have ``error``, a string with the reason.

        Raises:
            InvalidArgumentError: if the sample does not fit the columns. The column ``error`` of the row then contains
                this error.
        """

    def prepare(self) -> None:  # noqa: B027 - most readers have nothing to prepare
        """Load models. This method is called before each batch is read, so it should load them only once.

        By default, it does nothing. A failure raises an exception; it is not reported in the ``error`` column.
        """

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Read the files of a batch.

        Args:
            batch: Columns as NumPy arrays or lists of equal length.

        Returns:
            The input columns, except the bytes of files, and the output columns. If a row could not be read, ``error``
            contains the reason, and the values of this row are zeros, NaN or empty.

        Raises:
            InvalidArgumentError: if ``batch`` is not a mapping of columns, has no column of files, has invalid row
                numbers, or already has one of the output columns.
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
                f"A batch must be a mapping from names to columns (got {type(batch).__name__}). In Ray Data, use "
                "batch_format='numpy', the default."
            )
        kept = {name: values for name, values in batch.items() if self._keep_bytes or name != self._bytes_column}
        conflicts = [name for column in self._columns if (name := self._prefix + column.name) in kept]
        if conflicts:
            raise InvalidArgumentError(
                f"The batch already has columns with the names of output columns: {', '.join(conflicts)}. Pass prefix "
                "to rename the output columns."
            )
        return kept

    def _specs(self, batch: Mapping[str, Any]) -> list[RowSpec | str]:
        """Return what to read for each row, or the error of a row without a file."""
        if self._path_column not in batch and self._bytes_column not in batch:
            raise InvalidArgumentError(
                f"The batch has neither a column {self._path_column!r} nor a column {self._bytes_column!r} (it has "
                f"{sorted(batch)}). Pass the name of your column as path_column or bytes_column."
            )
        none = [None] * _num_rows(batch)
        columns = (batch.get(name, none) for name in (self._path_column, self._bytes_column, self._row_column))
        # Rows with equal bytes belong to the same file.
        seen: dict[bytes, bytes] = {}
        specs: list[RowSpec | str] = []
        for i, (path_or_file, contents, given_number) in enumerate(zip(*columns, strict=True)):
            path, data = _path_and_bytes(path_or_file, contents)
            data = None if data is None else seen.setdefault(data, data)
            item = _item_of_row(path, data, batch, i, self._used_columns)
            if item is None:
                specs.append(
                    f"SourceTypeError: The row has no file: {self._path_column!r} does not contain a path, and "
                    f"{self._bytes_column!r} does not contain bytes."
                )
                continue
            number = number_or_none(given_number, self._row_column, _ADVICE_ON_ROWS)
            number = _number_of_file(item.name, data) if number is None else number
            specs.append(RowSpec(item, 0, self.recipe, self._seed, self._epoch, number))
        return specs

    def _read(self, specs: Sequence[RowSpec | str]) -> list[dict[str, Any]]:
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
