"""The interface between the training loop and the learners of the tasks, and random changes of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, Protocol

import torch
from torch import Tensor

from ...datasets import Item, MediaDataset, Recipe, RowKey, Sample, Skipped

__all__ = ["Learner", "Scores", "first_rows", "random_number", "with_changes"]


class Scores(Protocol):
    """The scores of a network on a dataset."""

    @property
    def score(self) -> float:
        """Return the number, from 0 to 1, that training maximises."""

    def as_dict(self) -> dict[str, float]:
        """Return all scores by name, including ``"score"``."""


class Learner(Protocol):
    """A network in training, on its device. ``task`` is the task of the network, as named in model cards."""

    task: str
    model: Any

    def check(self, datasets: Iterable[MediaDataset]) -> None:
        """Raise `InvalidArgumentError` if the network cannot learn the rows."""

    def prepared(self, dataset: MediaDataset, augment: bool) -> MediaDataset:
        """Return the rows for training, with random changes if ``augment`` is true."""

    def collator(self, batch_size: int) -> Callable[[list[Sample | Skipped]], list[Any]]:
        """Return a picklable function that makes batches of samples."""

    def loss(self, model: Any, batch: Any, share: float = 1.0) -> Tensor:
        """Return the loss of a network for a batch. ``share`` is the progress of the training, from 0 to 1."""

    def keeping_loss(self, batch: Any) -> Tensor:
        """Return the loss for rehearsal data, which the network must not forget."""

    def chosen_options(self, model: Any, dataset: MediaDataset) -> dict[str, Any]:
        """Choose options of the network, such as thresholds, on a dataset. Set these options and return them."""

    def scores(self, model: Any, dataset: MediaDataset, num_rows: int | None = None) -> Scores:
        """Score a network on the first rows of a dataset, or on all rows."""


class _ChangedRecipe(Recipe):
    """Applies a function to the samples of another recipe."""

    def __init__(self, recipe: Recipe, change: Callable[[Sample], Sample]) -> None:
        self.recipe, self.change = recipe, change
        self.used_columns = recipe.used_columns  # type: ignore[misc]

    def open(self, item: Item) -> Any:
        return self.recipe.open(item)

    def read(self, opened: Any, item: Item, part: int) -> Sample:
        return self.change(self.recipe.read(opened, item, part))

    def position(self, opened: Any, item: Item, part: int) -> float:
        return self.recipe.position(opened, item, part)


def with_changes(dataset: MediaDataset, change: Callable[[Sample], Sample]) -> MediaDataset:
    """Return a dataset whose samples are changed by a function.

    The function must draw random numbers from torch's global generator, which the dataset seeds per row and epoch.
    """
    other = copy(dataset)
    other.recipe = _ChangedRecipe(dataset.recipe, change)
    return other


def first_rows(dataset: MediaDataset, num_rows: int | None, at_once: int, epoch: int = 0) -> Iterator[list[Sample]]:
    """Yield lists of rows of an epoch: the first ``num_rows``, or all. Rows without an image are left out."""
    stop = len(dataset) if num_rows is None else min(num_rows, len(dataset))
    for start in range(0, stop, at_once):
        rows = dataset.__getitems__([RowKey(row, epoch) for row in range(start, min(start + at_once, stop))])
        yield [row for row in rows if isinstance(row, Sample) and row.image is not None]


def random_number(low: float = 0.0, high: float = 1.0) -> float:
    """Return a number in [low, high) from torch's global generator."""
    return low + (high - low) * float(torch.rand(()))
