"""How rows are read. `Recipe` makes samples from files; `RowReader` reads rows and handles rows that fail."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from ..._engine.common import stages
from ..._engine.common.checks import whole_number
from ..._engine.common.devices import has_lost_cuda, tensors_on_cpu
from ..._engine.common.locks import Closing, ForkSafeLock
from ...decoders import AudioVideoDecoder, VideoDecoder
from ...decoders._access import access_to
from ...errors import DeviceError, InvalidArgumentError, MediaTensorError, StreamError, TooManyFailuresError
from ...samplers._random import random_for, row_random
from .._sources.items import Item
from .samples import Failure, Sample, Skipped

# Workers receive the epoch as a 64-bit integer.
_MAX_EPOCH = 1 << 62

OnError = Literal["raise", "skip", "replace"]


class LeftOut(StreamError):
    """Raised by a recipe for a row that must be skipped, even if ``on_error`` is ``"raise"`` or ``"replace"``."""

    def __init__(self, reason: StreamError) -> None:
        super().__init__(str(reason))
        self.reason = reason


# Attribute of errors about a mistake of the caller, such as an invalid decoder option. They are raised whatever
# ``on_error`` is.
_MISUSE = "_is_misuse"


def misuse(message: str) -> InvalidArgumentError:
    """Return an error that is raised whatever ``on_error`` is."""
    error = InvalidArgumentError(message)
    setattr(error, _MISUSE, True)
    return error


@contextmanager
def errors_as_misuse() -> Iterator[None]:
    """Mark an `InvalidArgumentError` that a ``with`` block raises as one that is raised whatever ``on_error`` is."""
    try:
        yield
    except InvalidArgumentError as error:
        setattr(error, _MISUSE, True)
        raise


class Opened(Protocol):
    def close(self) -> None: ...


class Recipe(ABC):
    """Base class of recipes, which open files and make samples from them. Each kind of dataset has its own recipe.

    A recipe must be picklable and must not change: a sample must not depend on which samples were read before.

    Example:
        >>> from dataclasses import dataclass
        >>> from mediatensor.datasets import DataLoader, Item, MediaDataset, Recipe, Sample
        >>> from mediatensor.decoders import VideoDecoder
        >>> @dataclass(frozen=True)
        ... class MiddleFrames(Recipe):
        ...     def open(self, item):
        ...         return VideoDecoder(item.source)
        ...
        ...     def read(self, opened, item, part):
        ...         return Sample(image=opened[len(opened) // 2])
        >>> dataset = MediaDataset([Item("videos/a.mp4", label=0), Item("videos/b.mp4", label=1)], MiddleFrames())
        >>> loader = DataLoader(dataset, batch_size=2, shuffle=True)
        >>> next(iter(loader)).images.shape
        torch.Size([2, 3, 120, 160])
    """

    #: Columns of a manifest that `read` uses. They are left out of ``Sample.extra``.
    used_columns: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def open(self, item: Item) -> Opened:
        """Open a file of the dataset, and return an object with a method ``close``, such as a decoder.

        Every recipe defines this method. The dataset passes the result to `read` for each sample of the file, and
        closes it later.

        If the file is at fault, raise a type of `mediatensor.errors` other than `InvalidArgumentError`. An
        `InvalidArgumentError` counts as a mistake in the recipe: the dataset raises it with any ``on_error``.
        """

    @abstractmethod
    def read(self, opened: Any, item: Item, part: int) -> Sample:
        """Read one sample of a file, and return it as a `Sample`.

        The dataset then sets ``source``, ``row`` and ``epoch``, and adds the columns of ``item.extra`` to ``extra``. A
        ``label`` that is ``None`` becomes ``item.label``.

        Draw random numbers from the global generators of torch, NumPy and Python. While a row is read, they have states
        that depend only on the row. If the method is decorated with `uses_row_random`, it must draw from the generator
        of the row instead.

        Args:
            opened: The result of `open`.
            item: The file, with its label, segment and other columns.
            part: Number of the row among the rows of this file, from 0.
        """

    def position(self, opened: Any, item: Item, part: int) -> float:
        """Return the position in the file at which `read` will start, as a float.

        The unit does not matter, as long as later positions are greater: seconds or frame numbers, for example.

        Rows of one file that are requested together are read in the order of these positions. If the position is
        random, draw the same random numbers here as in `read`.
        """
        return float(part)


def derived_seed(*parts: int | str) -> int:
    """Hash ``parts`` to an integer from 0 to 2**63 - 1. Similar parts have unrelated hashes."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def checked_epoch(epoch: int) -> int:
    return whole_number("epoch", epoch, at_least=0, at_most=_MAX_EPOCH)


class OpenFiles(Closing):
    """Keeps up to ``max_open`` files open, so that the next row can be read without opening its file again.

    If two threads need the same file at the same time, each of them gets its own open file.
    """

    def __init__(self, max_open: int) -> None:
        self._max_open = max_open
        self._idle: OrderedDict[Hashable, tuple[Item, Opened]] = OrderedDict()
        self._lock = ForkSafeLock()

    @contextmanager
    def borrow(self, item: Item, recipe: Recipe) -> Iterator[Opened]:
        """Provide an open file for a ``with`` block. Keep it open afterwards, unless the block raises an exception."""
        with self._lock:
            _, opened = self._idle.pop(_file_key(item), (None, None))
        if opened is None:
            with stages.OPEN, errors_as_misuse():
                opened = recipe.open(item)
        else:
            # A sample must not depend on earlier reads, which may have found damage.
            video = opened.video if isinstance(opened, AudioVideoDecoder) else opened
            if isinstance(video, VideoDecoder):
                access_to(video).restore()
        try:
            yield opened
        except BaseException:
            opened.close()
            raise
        self._give_back(item, opened)

    def _give_back(self, item: Item, opened: Opened) -> None:
        with self._lock:
            surplus = self._idle.pop(_file_key(item), None)
            self._idle[_file_key(item)] = (item, opened)
            closing = [surplus] if surplus is not None else []
            while len(self._idle) > self._max_open:
                closing.append(self._idle.popitem(last=False)[1])
        for _, old in closing:
            old.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, OrderedDict()
        for _, opened in idle.values():
            opened.close()

    def __len__(self) -> int:
        return len(self._idle)

    def __reduce__(self) -> tuple[type[OpenFiles], tuple[int]]:
        # Open files cannot move to another process.
        return OpenFiles, (self._max_open,)


def _file_key(item: Item) -> Hashable:
    """Return a key for the file of an item, unique among open files."""
    if isinstance(item.source, str | os.PathLike):
        return os.fspath(item.source)
    # The open file keeps its item, so no other bytes object can get the same id meanwhile.
    return id(item.source) if isinstance(item.source, bytes) else item.source


@dataclass(frozen=True)
class RowSpec:
    """Everything that the sample of a row of a dataset depends on.

    `load` returns a bit-identical sample in any process at any time.

    Attributes:
        item: The file, with its label, segment and other columns.
        part: Number of the row among the rows of this file, from 0.
        recipe: The recipe, with its sampler and transforms.
        seed: The seed of the dataset.
        epoch: The epoch in which the row is read.
        row: Index of the row in the dataset.
        attempt: 0 for the row itself, 1 for its first replacement, 2 for the replacement that is tried next, and so on.
        visit: Number of earlier reads of the row in this epoch; see `RowKey`.

    Example:
        >>> import pickle
        >>> from mediatensor.datasets import VideoClips
        >>> spec = VideoClips(["video.mp4"], num_frames_per_clip=8).spec(0)
        >>> pickle.loads(pickle.dumps(spec)).load().frames.data.shape
        torch.Size([8, 3, 360, 640])
    """

    item: Item
    part: int
    recipe: Recipe
    seed: int
    epoch: int
    row: int
    attempt: int = 0
    visit: int = 0

    @property
    def random_seed(self) -> int:
        """The seed of all random numbers that are drawn while the row is read."""
        visit = (self.visit,) if self.visit else ()  # without weights, seeds must be as in earlier versions
        return derived_seed(self.seed, self.epoch, self.row, self.attempt, *visit)

    def load(self, files: OpenFiles | None = None) -> Sample:
        """Read the row, and return its `Sample`.

        Args:
            files: Object that keeps files open between calls. By default, the file is opened for this call, and then
                closed.

        Raises:
            MediaTensorError: if the file cannot be read.
            TypeError: if the recipe does not return a `Sample`.
        """
        if files is None:
            with OpenFiles(max_open=1) as own_files:
                return self.load(own_files)
        recipe = self.recipe
        with (
            tensors_on_cpu(),
            files.borrow(self.item, recipe) as opened,
            row_random(self.random_seed),
            random_for(type(recipe).read),
            stages.TRANSFORM,
        ):
            sample = recipe.read(opened, self.item, self.part)
        if not isinstance(sample, Sample):
            raise TypeError(f"{type(recipe).__name__}.read must return a Sample (got {type(sample).__name__}).")
        columns = {name: value for name, value in self.item.extra.items() if name not in recipe.used_columns}
        return dataclasses.replace(
            sample,
            label=self.item.label if sample.label is None else sample.label,
            source=self.item.name,
            row=self.row,
            epoch=self.epoch,
            extra={**columns, **sample.extra},
        )

    def position(self, files: OpenFiles) -> float:
        """Return the position in the file at which the recipe will start to read; see `Recipe.position`."""
        recipe = self.recipe
        if type(recipe).position is Recipe.position:
            return float(self.part)  # the file need not be opened
        with (
            tensors_on_cpu(),
            files.borrow(self.item, recipe) as opened,
            row_random(self.random_seed),
            random_for(type(recipe).position),
        ):
            return recipe.position(opened, self.item, self.part)


#: Function that takes the spec of a row and the number of the attempt, and returns the spec to read instead.
Substitute = Callable[[RowSpec, int], RowSpec]


class RowReader:
    """Reads rows, and applies ``on_error`` to rows that cannot be read."""

    def __init__(self, on_error: OnError, max_consecutive_failures: int, files: OpenFiles) -> None:
        if on_error not in ("raise", "skip", "replace"):
            raise InvalidArgumentError(f"on_error must be 'raise', 'skip' or 'replace' (got {on_error!r}).")
        self.files = files
        self._on_error = on_error
        self._limit = whole_number("max_consecutive_failures", max_consecutive_failures, at_least=1)
        self._num_failing = 0
        self._last_failing: Hashable = None

    def read(self, spec: RowSpec, substitute: Substitute | None = None) -> Sample | Skipped:
        """Return the sample of a row.

        For an unreadable row, return a `Skipped` if ``on_error`` is ``"skip"``. If it is ``"replace"``, read the row
        that ``substitute`` returns instead.

        Raises:
            MediaTensorError, OSError: if the file cannot be read and ``on_error`` is ``"raise"``.
            InvalidArgumentError: if the recipe has a wrong argument, whatever ``on_error`` is.
            DeviceError: if the files need a CUDA device and this process was forked, whatever ``on_error`` is.
            TooManyFailuresError: if too many consecutive files failed.
        """
        failures: list[Failure] = []
        trying = spec
        error: MediaTensorError | OSError
        while True:
            try:
                sample = trying.load(self.files)
            except LeftOut as left_out:
                if not failures:
                    return Skipped((_failure(trying, left_out.reason, "skipped"),))
                error = left_out.reason  # the row chosen as a replacement was left out itself
            except (MediaTensorError, OSError) as raised:
                if self._on_error == "raise" or _fails_for_all_files(raised):
                    raise
                error = raised
            else:
                self._num_failing, self._last_failing = 0, None
                used = sample.source
                return dataclasses.replace(
                    sample, failures=tuple(dataclasses.replace(failure, replaced_by=used) for failure in failures)
                )
            failures.append(_failure(trying, error, "skipped" if self._on_error == "skip" else "replaced"))
            self._count_failure(trying, error, is_replacement=len(failures) > 1)
            if self._on_error == "skip" or substitute is None:
                return Skipped(tuple(failures))
            trying = substitute(spec, len(failures))

    def read_another(self, spec: RowSpec, substitute: Substitute) -> Sample:
        """Read the row that ``substitute`` returns instead of ``spec``, which was left out. Raise errors as `read`."""
        # Count separately: these failures must neither add to nor reset the consecutive failures of `read`.
        counter = RowReader("raise", self._limit, self.files)
        attempt = 0
        while True:
            attempt += 1
            trying = substitute(spec, attempt)
            try:
                return trying.load(self.files)
            except (MediaTensorError, OSError) as error:
                if _fails_for_all_files(error):
                    raise
                counter._count_failure(trying, error, is_replacement=True)

    def read_all(self, specs: Sequence[RowSpec], substitute: Substitute | None = None) -> list[Sample | Skipped]:
        """Return the samples of several rows, in the order of ``specs``.

        For speed, rows are read file by file, and within a file in the order of their positions.
        """
        by_file: dict[Hashable, list[int]] = {}
        for i, spec in enumerate(specs):
            by_file.setdefault(_file_key(spec.item), []).append(i)
        results: dict[int, Sample | Skipped] = {}

        def position(i: int) -> float:
            try:
                return specs[i].position(self.files)
            except (MediaTensorError, OSError):  # reading the row raises it again
                return 0.0

        for members in by_file.values():
            # Finish one file before the next: a file may be closed while the positions in other files are determined.
            if len(members) > 1:
                with stages.SEEK:
                    members.sort(key=position)
            for i in members:
                results[i] = self.read(specs[i], substitute)
        return [results[i] for i in range(len(specs))]

    def _count_failure(self, spec: RowSpec, error: Exception, *, is_replacement: bool) -> None:
        # Rows of one file usually fail for the same reason, so failures of consecutive rows count once. Each failed
        # replacement counts, because with few other files the same replacement may be drawn again and again.
        file = _file_key(spec.item)
        if is_replacement or file != self._last_failing:
            self._num_failing += 1
        self._last_failing = file
        if self._num_failing > self._limit:
            raise TooManyFailuresError(
                f"{self._num_failing} files failed one after the other, more than max_consecutive_failures "
                f"({self._limit}); the last is {spec.item.name!r}: {error}"
            ) from error


def _fails_for_all_files(error: Exception) -> bool:
    return getattr(error, _MISUSE, False) or (isinstance(error, DeviceError) and has_lost_cuda())


def _failure(spec: RowSpec, error: Exception, action: Literal["skipped", "replaced"]) -> Failure:
    return Failure(spec.item.name, spec.row, spec.epoch, type(error).__name__, str(error), action)
