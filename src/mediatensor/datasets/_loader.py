"""`DataLoader`: torch's, with the order, the resuming and the reports of media datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch.utils.data

from ._base import MediaDataset
from ._batches import RowBatches
from ._collate import stack
from ._failure_report import FailureReport
from ._items import Item
from ._order import Shuffle
from ._samples import Batch

__all__ = ["DataLoader"]


class DataLoader(torch.utils.data.DataLoader[Any]):
    """torch's ``DataLoader`` for media datasets: it shuffles anew in each epoch, divides rows among ranks, and resumes.

    Every iteration is another epoch, the first one epoch 0. `state_dict` counts the batches that were *given*: what
    workers have read ahead is read again after resuming, and no row is lost or given twice.

    Args:
        dataset: The rows.
        batch_size: Rows of a batch, of one rank.
        shuffle: Whether and how rows are shuffled; see `Shuffle`.
        collate_fn: Makes a batch of samples: `stack`, `ragged`, `pad`, or a function of your own.
        seed, drop_last, rank, num_ranks, bucket_by: As of `RowBatches`.
        options: What else torch's ``DataLoader`` takes: ``num_workers``, ``pin_memory``, ``prefetch_factor``,
            ``persistent_workers``, ``multiprocessing_context``, ``timeout`` ...

    Attributes:
        batches: The `RowBatches` that says which rows make which batch.
        failures: `FailureReport` of all batches given so far.

    Raises:
        InvalidArgumentError: if an argument of ours is not among the accepted ones.

    Example:
        >>> from mediatensor.datasets import DataLoader, VideoClips
        >>> dataset = VideoClips("videos", num_frames_per_clip=8, on_error="skip")  # doctest: +SKIP
        >>> loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2)  # doctest: +SKIP
        >>> for epoch in range(3):  # doctest: +SKIP
        ...     for batch in loader:
        ...         train(batch.frames.data, batch.label)
        ...         torch.save(loader.state_dict(), "loader.pt")
        >>> print(loader.failures)  # doctest: +SKIP
        0 rows could not be read (0 skipped, 0 replaced), of 0 files.
    """

    def __init__(
        self,
        dataset: MediaDataset,
        batch_size: int = 1,
        shuffle: bool | Shuffle = False,
        *,
        collate_fn: Callable[[list[Any]], Any] = stack,
        seed: int | None = None,
        drop_last: bool = False,
        rank: int | None = None,
        num_ranks: int | None = None,
        bucket_by: Callable[[Item], Any] | None = None,
        **options: Any,
    ) -> None:
        self.batches = RowBatches(
            dataset,
            batch_size,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
            rank=rank,
            num_ranks=num_ranks,
            bucket_by=bucket_by,
        )
        self.failures = FailureReport()
        self._num_given = 0
        self._has_begun = False
        super().__init__(dataset, batch_sampler=self.batches, collate_fn=collate_fn, **options)

    @property
    def epoch(self) -> int:
        """The epoch that is being iterated over, or the first one."""
        return self.batches.epoch

    def set_epoch(self, epoch: int) -> None:
        """Have the next iteration begin an epoch."""
        self.batches.set_epoch(epoch)
        self._num_given, self._has_begun = 0, False

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if self._has_begun:
            self.set_epoch(self.epoch + 1)
        self._has_begun = True
        for batch in super().__iter__():
            self._num_given += 1
            if isinstance(batch, Batch):
                self.failures.add(batch.failures)
                if not len(batch):  # every row was skipped
                    continue
            yield batch
        self.set_epoch(self.epoch + 1)

    def state_dict(self) -> dict[str, Any]:
        """Where the next batch is, for `load_state_dict`; plain numbers and lists."""
        return self.batches.state_dict(self._num_given)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Have the next iteration go on where `state_dict` was called, whatever the workers, ranks and batch size.

        Raises:
            InvalidArgumentError: if it is not such a state, or that of a dataset of other rows or another seed.
        """
        self.batches.load_state_dict(state)
        self._num_given, self._has_begun = 0, False
