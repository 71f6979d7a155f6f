"""What the training loop asks of each task, and rows that are changed at random on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, Protocol

import torch
from torch import Tensor

from ...datasets import Item, MediaDataset, Recipe, RowKey, Sample, Skipped

__all__ = ["Learner", "Scores", "first_rows", "random_number", "with_changes"]


class Scores(Protocol):
    """How well a network does on the rows of a dataset."""

    @property
    def score(self) -> float:
        """One number, the greater the better, from 0 to 1."""

    def as_dict(self) -> dict[str, float]:
        """All scores by name, ``"score"`` among them."""


class Learner(Protocol):
    """A network in training.

    Attributes:
        task: As model cards have it.
        model: The network, on its device, in training mode.
    """

    task: str
    model: Any

    def check(self, datasets: Iterable[MediaDataset]) -> None:
        """Refuse rows that the network cannot learn.

        Raises:
            InvalidArgumentError: if there are any.
        """

    def prepared(self, dataset: MediaDataset, augment: bool) -> MediaDataset:
        """The rows as they are learnt, changed at random or not."""

    def collator(self, batch_size: int) -> Callable[[list[Sample | Skipped]], list[Any]]:
        """Makes batches of samples; worker processes get it."""

    def loss(self, model: Any, batch: Any, share: float = 1.0) -> Tensor:
        """The loss of a network like this one for a batch, ``share`` of the way from the first step to the last."""

    def keeping_loss(self, batch: Any) -> Tensor:
        """The loss for rows that the network did well on, and shall go on doing well on."""

    def chosen_options(self, model: Any, dataset: MediaDataset) -> dict[str, Any]:
        """Choose what is not learnt so that a network like this one does best on a dataset.

        Returns:
            Arguments of the function that makes the network, which has them already.
        """

    def scores(self, model: Any, dataset: MediaDataset, num_rows: int | None = None) -> Scores:
        """How well a network like this one does on a dataset, or on its first rows."""


class _Changed(Recipe):
    """The samples of another recipe, changed."""

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
    """The rows of a dataset, changed by a function.

    Args:
        dataset: The dataset, which stays as it is.
        change: Takes a sample and gives one. Random numbers come from torch's global generator, which the dataset seeds
            for each row: every epoch has other ones, and the same epoch has the same ones wherever it is read.
    """
    other = copy(dataset)
    other.recipe = _Changed(dataset.recipe, change)
    return other


def first_rows(dataset: MediaDataset, num_rows: int | None, at_once: int, epoch: int = 0) -> Iterator[list[Sample]]:
    """The first rows of an epoch, or all, some at a time; rows that were skipped, or have no picture, are left out."""
    stop = len(dataset) if num_rows is None else min(num_rows, len(dataset))
    for start in range(0, stop, at_once):
        rows = dataset.__getitems__([RowKey(row, epoch) for row in range(start, min(start + at_once, stop))])
        yield [row for row in rows if isinstance(row, Sample) and row.image is not None]


def random_number(low: float = 0.0, high: float = 1.0) -> float:
    """A number in [low, high), from torch's global generator."""
    return low + (high - low) * float(torch.rand(()))
