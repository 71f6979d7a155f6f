"""`MediaDataset`: a dataset that uses a recipe to read its rows from files."""

from __future__ import annotations

import dataclasses
import operator
import sys
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import torch.distributed
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, get_worker_info
from torch.utils.data.dataloader import _BaseDataLoaderIter

from ..._engine.common.checks import is_integer, refuse_unknown, shown, whole_number
from ..._engine.common.locks import cached_property
from ..._engine.common.messages import counted
from ..._engine.common.stages import collect_stages
from ...errors import InvalidArgumentError, OutOfRangeError
from ...samplers._random import global_random_lock
from .._sources.items import FileOrder, Item, count_files, file_order_of
from .recipe import OnError, OpenFiles, Recipe, RowReader, RowSpec, checked_epoch, derived_seed
from .samples import ColumnDict, Sample, Skipped, Timing
from .transport import shared_numbers

# Methods of the iterators of torch and torchdata that call a dataset.
_READING_METHODS = frozenset(("_next_data", "__init__"))


class RowKey(NamedTuple):
    """A row number, and the epoch in which to read the row. `RowBatches` requests rows from a dataset by this key.

    A row is one sample of a dataset, such as a clip. If `RowBatches` has ``weights``, an epoch can read a row several
    times. ``visit`` is the number of earlier reads in this epoch.
    """

    row: int
    epoch: int
    visit: int = 0


class MediaDataset(Dataset[Sample | Skipped]):
    """A dataset whose rows are samples that are read from files.

    A row is one sample, such as a clip; a file can have several rows. ``dataset[index]`` reads a row and returns a
    `Sample`, or a `ColumnDict` for `LeRobotClips`. The result depends only on the arguments, the epoch and the index.

    This is the base class of `VideoClips`, `AudioClips`, `VideoAudioClips`, `VideoTextClips`, `LeRobotClips`,
    `DocumentPages` and `WordCrops`. For other kinds of data, use it with your own `Recipe`.

    Args:
        items: A sequence with an `Item` for each file, such as `as_items` returns.
        recipe: A `Recipe`, which opens a file and makes samples from it.
        rows_per_file: Number of rows of each file in an epoch: one number for all files, or a number for each file.
        seed: Seed of all random numbers. The random numbers of a row also depend on the epoch and the row's index.
            ``None`` means 0, except if torch's own ``DataLoader`` reads the rows. Then each row draws its seed from
            torch's generator, so that clips and crops change with every epoch, and ``torch.manual_seed`` makes them
            repeatable. With a seed, or after `set_epoch`, the rows in torch's loader stay the same until `set_epoch` is
            called again.
        on_error: What to do with an unreadable row: ``"raise"`` raises the error; ``"skip"`` returns a `Skipped`, which
            batches leave out; ``"replace"`` reads a row of another file instead. The choice of this other row depends
            only on ``seed``, the epoch and the index of the unreadable row. An invalid argument, such as a wrong
            decoder option, is always raised.
        max_consecutive_failures: With ``"skip"`` and ``"replace"``, how many files may fail one after another in one
            worker before `TooManyFailuresError` is raised.
        max_open_files: Maximum number of files that a worker keeps open.

    Raises:
        InvalidArgumentError: if there are no files or an argument is invalid.

    Example:
        >>> from mediatensor.datasets import Item, MediaDataset, Recipe, Sample
        >>> from mediatensor.decoders import VideoDecoder
        >>> class FirstFrames(Recipe):
        ...     def open(self, item):
        ...         return VideoDecoder(item.source)
        ...     def read(self, opened, item, part):
        ...         return Sample(image=opened[0])
        >>> dataset = MediaDataset([Item("videos/a.mp4"), Item("videos/b.mp4")], FirstFrames())
        >>> len(dataset), dataset[1].image.shape
        (2, torch.Size([3, 120, 160]))
    """

    #: Class names in the order of their numbers; ``None`` if no ``classes`` were given.
    _classes: tuple[str, ...] | None = None

    def __init__(
        self,
        items: Sequence[Item],
        recipe: Recipe,
        *,
        rows_per_file: int | Sequence[int] = 1,
        seed: int | None = None,
        on_error: OnError = "raise",
        max_consecutive_failures: int = 20,
        max_open_files: int = 8,
    ) -> None:
        if not isinstance(items, Sequence):
            raise InvalidArgumentError(
                f"items must be a sequence of Item objects, such as as_items returns (got {shown(items)})."
            )
        if not len(items):
            raise InvalidArgumentError("There are no files: the source of the dataset is empty.")
        if not isinstance(recipe, Recipe):
            raise InvalidArgumentError(f"recipe must be a Recipe (got {shown(recipe)}).")
        self.items = items
        self.recipe = recipe
        self.seed = 0 if seed is None else whole_number("seed", seed, or_none=True)
        self._has_own_seed = seed is not None
        self._row_ends = _row_ends(rows_per_file, len(items))
        # In shared memory, so that persistent workers see the number of the next epoch; -1 until it is set.
        self._epoch: Tensor = shared_numbers((), -1)
        num_open_files = whole_number("max_open_files", max_open_files, at_least=1)
        self._reader = RowReader(on_error, max_consecutive_failures, OpenFiles(num_open_files))

    @property
    def epoch(self) -> int:
        """The epoch of rows that are requested by index. Rows that are requested by `RowKey` have their own epoch."""
        return max(0, int(self._epoch))

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of all rows that are later requested by index, without an epoch.

        The epoch changes in this process and in workers that are running. You need this method only with torch's own
        ``DataLoader``. mediatensor's `DataLoader` requests each row by its index and its epoch.

        Example:
            >>> from mediatensor.datasets import VideoClips
            >>> dataset = VideoClips(["video.mp4"], num_frames_per_clip=4)
            >>> dataset.set_epoch(1)
            >>> dataset[0].epoch
            1
        """
        self._epoch.fill_(checked_epoch(epoch))

    def __len__(self) -> int:
        return int(self._row_ends[-1])

    @property
    def file_of_row(self) -> NDArray[np.int64]:
        """NumPy array with the index in ``items`` of each row's file, int64 (rows,)."""
        return np.repeat(np.arange(len(self._row_ends)), np.diff(self._row_ends, prepend=0))

    @cached_property
    def _file_order(self) -> FileOrder | None:
        """The summary of the file names that saved states contain. It takes a second for a million files."""
        return file_order_of(self.items)

    @property
    def class_names(self) -> list[str]:
        """List of class names in the order of their numbers.

        These are the names in the argument ``classes``, or by default in the source. Without ``classes``, all rows of
        the source are read to find the names, unless the source lists its class names. If a class number has no row,
        but a higher number has one, its name is ``""``.
        """
        if self._classes is not None:
            return list(self._classes)
        if (stated := getattr(self.items, "class_names", None)) is not None:
            return list(stated)
        named = (item for item in self.items if "class_name" in item.extra)
        # The column may also come from a manifest, in which a row need not have a class number.
        names = {item.label: item.extra["class_name"] for item in named if is_integer(item.label) and item.label >= 0}
        return [names.get(label, "") for label in range(max(names, default=-1) + 1)]

    def spec(self, row: SupportsIndex, epoch: int | None = None, visit: int = 0) -> RowSpec:
        """Return a `RowSpec`, which holds everything that the sample of a row depends on.

        Args:
            row: Index of the row, from ``-len(dataset)`` to ``len(dataset) - 1``.
            epoch: Epoch of the row; by default the attribute `epoch`.
            visit: Number of earlier reads of the row in this epoch; see `RowKey`.

        Raises:
            OutOfRangeError: if the row does not exist.

        Example:
            >>> from mediatensor.datasets import VideoClips
            >>> dataset = VideoClips(["video.mp4"], num_frames_per_clip=4)
            >>> dataset.spec(0).load().frames.data.equal(dataset[0].frames.data)
            True
        """
        try:
            index = operator.index(row)
        except TypeError:
            raise TypeError(
                f"Unsupported key type: {type(row)}. The key must be the index of one row, an int."
            ) from None
        if not -len(self) <= index < len(self):
            raise OutOfRangeError(f"row {index} is out of range: the dataset has {len(self)} rows.")
        index %= len(self)
        file = int(np.searchsorted(self._row_ends, index, side="right"))
        part = index - (int(self._row_ends[file - 1]) if file else 0)
        # Plain integers, because the random numbers depend on their text.
        epoch = self.epoch if epoch is None else checked_epoch(epoch)
        visit = whole_number("visit", visit, at_least=0)
        return RowSpec(self.items[file], part, self.recipe, self.seed, epoch, index, visit=visit)

    def _substitute(self, spec: RowSpec, attempt: int) -> RowSpec:
        """Return a row of another file instead of ``spec``. ``attempt`` counts replacements of the row from 1."""
        start, stop = spec.row - spec.part, int(self._row_ends[self._row_ends > spec.row][0])
        others = len(self) - (stop - start)
        visit = (spec.visit,) if spec.visit else ()
        drawn = derived_seed(self.seed, spec.epoch, spec.row, attempt, "other", *visit) % (others or len(self))
        other = self.spec(drawn + (stop - start) if others and drawn >= start else drawn, spec.epoch, spec.visit)
        return dataclasses.replace(other, row=spec.row, attempt=attempt, seed=spec.seed)

    def __getitem__(self, row: SupportsIndex | RowKey) -> Sample | Skipped:
        """Read the sample of a row. With ``on_error="skip"``, an unreadable row gives a `Skipped`."""
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[SupportsIndex | RowKey]) -> list[Sample | Skipped]:
        """Read the samples of several rows.

        Rows of the same file are read together, in the order of their position in the file.
        """
        started = time.monotonic()
        with collect_stages() as stage_seconds:
            samples = self._reader.read_all(self._specs_of(rows), self._substitute)
        if samples:
            worker = get_worker_info()
            timing = Timing(None if worker is None else worker.id, started, time.monotonic(), dict(stage_seconds))
            samples[0] = dataclasses.replace(samples[0], timing=timing)
        return samples

    def _read_another(self, row: RowKey) -> Sample | ColumnDict:
        """Read a row of another file instead of ``row``, which was left out. The choice is always the same."""
        return self._reader.read_another(self.spec(row.row, row.epoch), self._substitute)

    def _specs_of(self, rows: Sequence[SupportsIndex | RowKey]) -> list[RowSpec]:
        specs = [self.spec(*row) if isinstance(row, RowKey) else self.spec(row) for row in rows]
        if self._has_own_seed or int(self._epoch) >= 0 or any(isinstance(row, RowKey) for row in rows):
            return specs
        if not is_asked_by_loader():
            return specs
        return [dataclasses.replace(spec, seed=seed) for spec, seed in zip(specs, draw_seeds(len(specs)), strict=True)]

    def close(self) -> None:
        """Close the files that this process keeps open; the next read opens them again.

        Example:
            >>> from mediatensor.datasets import VideoClips
            >>> dataset = VideoClips(["video.mp4"], num_frames_per_clip=4)
            >>> sample = dataset[0]
            >>> dataset.close()
        """
        self._reader.files.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({counted(count_files(self.items), 'file')}, {counted(len(self), 'row')})"


class ColumnDataset(MediaDataset):
    """A dataset whose rows and batches are dicts of columns. The recipe puts the columns into ``Sample.extra``."""

    def __getitem__(self, row: SupportsIndex | RowKey) -> ColumnDict | Skipped:  # type: ignore[override]
        """Read a row. With ``on_error="skip"``, an unreadable row gives a `Skipped`."""
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[SupportsIndex | RowKey]) -> list[ColumnDict | Skipped]:  # type: ignore[override]
        """Read several rows; see `MediaDataset`."""
        return [_columns_of(sample) if isinstance(sample, Sample) else sample for sample in super().__getitems__(rows)]

    def _read_another(self, row: RowKey) -> ColumnDict:
        sample = super()._read_another(row)
        return _columns_of(sample) if isinstance(sample, Sample) else sample


def _columns_of(sample: Sample) -> ColumnDict:
    return ColumnDict(sample.extra, sample.failures, () if sample.timing is None else (sample.timing,))


def check_dataset_options(dataset: MediaDataset, options: Mapping[str, Any]) -> None:
    """Raise an error if ``options`` has a name that is not an argument of `MediaDataset`."""
    refuse_unknown(type(dataset).__name__, options, ("seed", "on_error", "max_consecutive_failures", "max_open_files"))


def _row_ends(rows_per_file: int | Sequence[int], num_files: int) -> NDArray[np.int64]:
    counts = np.asarray(rows_per_file)
    if counts.ndim == 0:
        counts = np.full(num_files, counts)
    if len(counts) != num_files or counts.dtype.kind not in "iu" or counts.min() < 0 or counts.sum() < 1:
        raise InvalidArgumentError(
            f"rows_per_file must be a positive whole number, or one for each of the {num_files} files "
            f"(got {rows_per_file!r})."
        )
    return np.cumsum(counts, dtype=np.int64)


def rank_and_number(rank: int | None, num_ranks: int | None) -> tuple[int, int]:
    """Return the rank of this process and the number of ranks; by default of torch.distributed, otherwise 0 and 1."""
    if (rank is None) != (num_ranks is None):
        raise InvalidArgumentError(f"Give both rank and num_ranks, or neither (got {rank!r} and {num_ranks!r}).")
    if rank is None or num_ranks is None:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return 0, 1
    rank, num_ranks = whole_number("rank", rank), whole_number("num_ranks", num_ranks, at_least=1)
    if not 0 <= rank < num_ranks:
        raise InvalidArgumentError(f"rank must be from 0 to num_ranks - 1 (got {rank} of {num_ranks}).")
    return rank, num_ranks


# In torch's own ``DataLoader``, rows draw their seeds from torch's generator, as torch users expect. torch seeds the
# generator of each worker at the start of an epoch, unless the worker is persistent.


def is_asked_by_loader() -> bool:
    """Return whether a torch ``DataLoader`` requested the current rows, in a worker or in this process."""
    if get_worker_info() is not None:
        return True
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        # A dataset has no other way to know that a loader without workers reads it.
        if frame.f_code.co_name in _READING_METHODS and isinstance(frame.f_locals.get("self"), _BaseDataLoaderIter):
            return True
        frame = frame.f_back
    return False


def draw_seeds(count: int) -> list[int]:
    with global_random_lock:
        return torch.randint(torch.iinfo(torch.int64).max, (count,), dtype=torch.int64, device="cpu").tolist()
