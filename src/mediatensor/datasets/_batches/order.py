"""The order of an epoch: shuffle rows, and divide them into batches and among ranks. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.checks import whole_number
from .._rows.recipe import derived_seed


@dataclass(frozen=True)
class Shuffle:
    """How rows are shuffled.

    By default every order is equally likely. Reading is cheaper if a file is opened once for several rows, and a group
    of pictures is decoded once for several clips. ``rows_together`` keeps rows of one file next to each other, and
    ``window`` keeps all rows of a file near each other. Both mix batches less; `shuffle_quality` measures the loss.

    Attributes:
        rows_together: Number of rows of one file that stay next to each other. Each epoch groups rows differently.
        window: Files are put in random order, and groups of rows are shuffled only within a window of about this many
            rows. ``None`` shuffles the whole epoch.

    Raises:
        InvalidArgumentError: if a number is not positive.

    Example:
        >>> from mediatensor.datasets import DataLoader, Shuffle, VideoClips
        >>> clips = VideoClips("videos", num_frames_per_clip=4, rows_per_file=4)
        >>> loader = DataLoader(clips, batch_size=2, shuffle=Shuffle(rows_together=2))
        >>> [len(set(batch.source)) for batch in loader]  # two rows of one file stay together
        [1, 1, 1, 1, 1, 1]
    """

    rows_together: int = 1
    window: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("rows_together", self.rows_together), ("window", self.window)):
            if value is not None:
                whole_number(name, value, at_least=1, or_none=True)


def epoch_order(file_of_row: NDArray[np.int64], shuffle: Shuffle | None, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return every row of an epoch once, int64 (rows,), in reading order. ``file_of_row`` is ascending."""
    num_rows = len(file_of_row)
    if shuffle is None:
        return np.arange(num_rows)
    random = np.random.Generator(np.random.Philox(derived_seed(seed, epoch, "order")))
    if shuffle.rows_together == 1 and shuffle.window is None:
        return random.permutation(num_rows)
    groups = _group_rows(file_of_row, shuffle.rows_together, random)
    return (
        np.concatenate([groups[i] for i in _shuffle_groups(groups, shuffle.window, random)]) if groups else np.arange(0)
    )


def _group_rows(
    file_of_row: NDArray[np.int64], rows_together: int, random: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return all rows in random groups, each group from one file; the files are in random order."""
    starts = np.flatnonzero(np.diff(file_of_row, prepend=-1))
    rows_by_file = np.split(np.arange(len(file_of_row)), starts[1:]) if len(starts) else []
    groups = []
    for file in random.permutation(len(rows_by_file)):
        rows = random.permutation(rows_by_file[file])
        groups += np.split(rows, range(rows_together, len(rows), rows_together))
    return groups


def _shuffle_groups(
    groups: list[NDArray[np.int64]], window: int | None, random: np.random.Generator
) -> Sequence[int] | NDArray[np.int64]:
    """Return the indices of the groups in random order; each is drawn from the next groups, ``window`` rows in all."""
    if window is None:
        return random.permutation(len(groups))
    order: list[int] = []
    waiting: list[int] = []
    num_waiting = following = 0
    while following < len(groups) or waiting:
        while following < len(groups) and (not waiting or num_waiting + len(groups[following]) <= window):
            waiting.append(following)
            num_waiting += len(groups[following])
            following += 1
        place = int(random.integers(len(waiting)))
        waiting[place], waiting[-1] = waiting[-1], waiting[place]
        order.append(waiting.pop())
        num_waiting -= len(groups[order[-1]])
    return order


def epoch_steps(
    order: NDArray[np.int64],
    batch_size: int,
    num_ranks: int,
    *,
    drop_last: bool = False,
    bucket_of: Callable[[int], Any] | None = None,
) -> list[list[NDArray[np.int64]]]:
    """Return the batches that the ranks read in each step.

    Args:
        order: The rows of the epoch.
        batch_size: Rows of one rank's batch.
        num_ranks: Number of ranks.
        drop_last: Leave out batches that are not full.
        bucket_of: Returns the bucket of a row; all rows of a batch are from one bucket. With ``None``, all rows are in
            one bucket.

    Returns:
        For each step, the batches of the ranks, starting with rank 0. In the last step, some ranks may have no batch.
        Batches that are not full come at the end.

    >>> import numpy as np
    >>> [[batch.tolist() for batch in step] for step in epoch_steps(np.arange(7), 2, 2)]
    [[[0, 1], [2, 3]], [[4, 5], [6]]]
    """
    size = batch_size * num_ranks
    whole, rest = _split_into_groups(order, size, bucket_of)
    steps = [np.split(rows, num_ranks) for rows in whole]
    if drop_last:
        return steps
    batches: list[NDArray[np.int64]] = []
    for rows in rest:
        # One batch for every rank if there are enough rows; otherwise full batches for some ranks.
        batches += np.array_split(rows, num_ranks if len(rows) >= num_ranks else -(-len(rows) // batch_size))
    return steps + [batches[first : first + num_ranks] for first in range(0, len(batches), num_ranks)]


def _split_into_groups(
    order: NDArray[np.int64], size: int, bucket_of: Callable[[int], Any] | None
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Return groups of ``size`` rows, each group from one bucket, and the remaining rows of each bucket."""
    if bucket_of is None:
        end = len(order) // size * size
        return [order[start : start + size] for start in range(0, end, size)], [order[end:]] if end < len(order) else []
    whole: list[NDArray[np.int64]] = []
    filling: dict[Any, list[int]] = {}
    for row in order.tolist():
        rows = filling.setdefault(bucket_of(row), [])
        rows.append(row)
        if len(rows) == size:
            whole.append(np.array(rows))
            rows.clear()
    return whole, [np.array(rows) for rows in filling.values() if rows]


def shuffle_quality(order: NDArray[np.int64], file_of_row: NDArray[np.int64], batch_size: int) -> dict[str, float]:
    """Measure how well an order mixes.

    Args:
        order: The rows of an epoch, in reading order.
        file_of_row: Number of the file of each row.
        batch_size: Rows of a batch.

    Returns: ``files_per_batch``: the mean number of different files in a full batch. ``same_file_next``: the share of
        rows whose next row is from the same file, from 0 to 1. ``displacement``: the mean distance of rows from their
        original positions, relative to a full shuffle (a third of the epoch): 0 is not shuffled, about 1 fully
        shuffled.

    Example:
        >>> import numpy as np
        >>> from mediatensor.datasets import shuffle_quality
        >>> shuffle_quality(np.arange(8), np.arange(8) // 2, batch_size=4)
        {'files_per_batch': 2.0, 'same_file_next': 0.5714285714285714, 'displacement': 0.0}
    """
    batch_size = whole_number("batch_size", batch_size, at_least=1)
    files = np.asarray(file_of_row)[np.asarray(order)]
    batches = files[: len(files) // batch_size * batch_size].reshape(-1, batch_size)
    num_rows = max(1, len(files))
    return {
        "files_per_batch": float(np.mean([len(np.unique(batch)) for batch in batches])) if len(batches) else 0.0,
        "same_file_next": float(np.mean(files[1:] == files[:-1])) if len(files) > 1 else 0.0,
        "displacement": float(np.mean(np.abs(np.asarray(order) - np.arange(len(files)))) / (num_rows / 3)),
    }
