"""`Recipe`: how a sample is made of a file; one for each kind of dataset."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import random
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch

from ..._engine.common import stages
from ..._engine.common.checks import whole_number
from ..._engine.common.devices import tensors_on_cpu
from ..._engine.common.locks import Closing, ForkSafeLock
from ...decoders import AudioVideoDecoder, VideoDecoder
from ...errors import StreamError
from .._sources.items import Item
from .samples import Sample

__all__ = [
    "LeftOut",
    "OpenFiles",
    "Opened",
    "Recipe",
    "RowSpec",
    "checked_epoch",
    "derived_seed",
    "file_key",
    "generators_lock",
    "seeded",
]


class LeftOut(StreamError):
    """Raised by a recipe for a row that is to be left out, whatever the error policy is.

    Args:
        reason: Why.
    """

    def __init__(self, reason: StreamError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Opened(Protocol):
    """A file that is kept open: a decoder, a document."""

    def close(self) -> None: ...


class Recipe(ABC):
    """Makes samples of files. A recipe is picklable and has no state: its results depend on its arguments alone.

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

    #: Columns of a manifest that `read` makes the sample from; they are not passed on in ``Sample.extra``.
    used_columns: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def open(self, item: Item) -> Opened:
        """The file, opened; it is kept for the next samples of the same file."""

    @abstractmethod
    def read(self, opened: Any, item: Item, part: int) -> Sample:
        """One sample of a file. Random numbers come from the global generators, which the caller has seeded.

        Args:
            opened: The result of `open`.
            item: The file.
            part: Which of the file's rows it is, from 0 on.
        """

    def position(self, opened: Any, item: Item, part: int) -> float:
        """Where in the file `read` will begin, on any ascending scale; draws the same random numbers as `read`."""
        return float(part)


# Workers learn the epoch through a number of 64 bits.
_MAX_EPOCH = 1 << 62

# The generators belong to the process, so threads that read rows take turns.
generators_lock = ForkSafeLock()


def derived_seed(*parts: int | str) -> int:
    """A number of 63 bits that depends on all parts; similar parts give unrelated numbers.

    >>> derived_seed(0, 1) == derived_seed(0, 1), derived_seed(0, 1) == derived_seed(1, 0)
    (True, False)
    """
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def checked_epoch(epoch: int) -> int:
    """The number of an epoch, if it is one.

    >>> checked_epoch(3)
    3
    """
    return whole_number("epoch", epoch, at_least=0, at_most=_MAX_EPOCH)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the generators of torch (CPU), NumPy and Python for a ``with`` block; afterwards they continue as before."""
    with generators_lock:
        torch_state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)
        random.seed(seed)
        try:
            yield
        finally:
            torch.set_rng_state(torch_state)
            np.random.set_state(numpy_state)
            random.setstate(python_state)


class OpenFiles(Closing):
    """The last files of a recipe, kept open. Each is lent to one thread at a time.

    Args:
        max_open: How many unused files stay open.
    """

    def __init__(self, max_open: int) -> None:
        self._max_open = max_open
        self._idle: OrderedDict[Hashable, tuple[Item, Opened]] = OrderedDict()
        self._lock = ForkSafeLock()

    @contextmanager
    def borrow(self, item: Item, recipe: Recipe) -> Iterator[Opened]:
        """An open file for the time of a ``with`` block; after an exception it is closed."""
        with self._lock:
            _, opened = self._idle.pop(file_key(item), (None, None))
        if opened is None:
            with stages.OPEN:
                opened = recipe.open(item)
        else:
            _forget_damage(opened)
        try:
            yield opened
        except BaseException:
            opened.close()
            raise
        self._give_back(item, opened)

    def _give_back(self, item: Item, opened: Opened) -> None:
        with self._lock:
            surplus = self._idle.pop(file_key(item), None)
            self._idle[file_key(item)] = (item, opened)
            closing = [surplus] if surplus is not None else []
            while len(self._idle) > self._max_open:
                closing.append(self._idle.popitem(last=False)[1])
        for _, old in closing:
            old.close()

    def close(self) -> None:
        """Close the files that nobody uses; they open again when they are needed."""
        with self._lock:
            idle, self._idle = self._idle, OrderedDict()
        for _, opened in idle.values():
            opened.close()

    def __len__(self) -> int:
        return len(self._idle)

    def __reduce__(self) -> tuple[type[OpenFiles], tuple[int]]:
        # Open files belong to a process.
        return OpenFiles, (self._max_open,)


def _forget_damage(opened: Opened) -> None:
    """Return a video to the state in which it was opened: a sample must not depend on earlier reads."""
    video = opened.video if isinstance(opened, AudioVideoDecoder) else opened
    if isinstance(video, VideoDecoder):
        video._forget_damage()


def file_key(item: Item) -> Hashable:
    """The key of a file while it is open."""
    if isinstance(item.source, str | os.PathLike):
        return os.fspath(item.source)
    # The item of an open file is kept, so that the id of its bytes stays their own.
    return id(item.source) if isinstance(item.source, bytes) else item.source


@dataclass(frozen=True)
class RowSpec:
    """Everything that a sample depends on: wherever and whenever it is loaded, the same bits come out.

    Attributes:
        item: The file.
        part: Which of the file's rows it is, from 0 on.
        recipe: How a sample is made of the file: the sampler, the transforms.
        seed: The seed of the dataset.
        epoch: The epoch.
        row: The index in the dataset.
        attempt: 0, or the number of the replacement for a row that failed.

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

    @property
    def random_seed(self) -> int:
        """The seed of the generators while the sample is made."""
        return derived_seed(self.seed, self.epoch, self.row, self.attempt)

    def load(self, files: OpenFiles | None = None) -> Sample:
        """Read the sample.

        Args:
            files: Where open files are kept between calls; by default the file is closed afterwards.

        Raises:
            MediaTensorError: if the file cannot be read.
            TypeError: if the recipe gives something else than a `Sample`.
        """
        if files is None:
            with OpenFiles(max_open=1) as own_files:
                return self.load(own_files)
        with (
            tensors_on_cpu(),
            files.borrow(self.item, self.recipe) as opened,
            seeded(self.random_seed),
            stages.TRANSFORM,
        ):
            sample = self.recipe.read(opened, self.item, self.part)
        if not isinstance(sample, Sample):
            raise TypeError(f"{type(self.recipe).__name__}.read must return a Sample (got {type(sample).__name__}).")
        columns = {name: value for name, value in self.item.extra.items() if name not in self.recipe.used_columns}
        return dataclasses.replace(
            sample,
            label=self.item.label if sample.label is None else sample.label,
            source=self.item.name,
            row=self.row,
            epoch=self.epoch,
            extra={**columns, **sample.extra},
        )

    def position(self, files: OpenFiles) -> float:
        """Where in the file reading will begin."""
        if type(self.recipe).position is Recipe.position:
            return float(self.part)  # nothing of the file is needed to tell
        with tensors_on_cpu(), files.borrow(self.item, self.recipe) as opened, seeded(self.random_seed):
            return self.recipe.position(opened, self.item, self.part)
