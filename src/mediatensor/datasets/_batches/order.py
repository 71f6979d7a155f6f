"""The order in which an epoch reads rows, and its division into training steps."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._engine.common.checks import whole_number
from .._rows.recipe import derived_seed


@dataclass(frozen=True)
class Shuffle:
    """Settings for shuffling the rows of a dataset.

    By default, every order of all rows is equally likely. That is slow if each file has several rows, because the file
    is usually opened again for each of them. Reading is faster if rows of one file are close to each other: a file is
    then opened once for several rows, and a group of pictures is decoded once for several clips. ``rows_together``
    keeps some rows of a file next to each other, and ``window`` keeps all rows of a file near each other. Both make
    batches less varied; `shuffle_quality` measures by how much.

    Attributes:
        rows_together: Number of rows of one file that stay next to each other. Each epoch forms new groups of rows.
        window: Approximate size of a buffer, in rows. Files are read in random order into this buffer, and groups of
            ``rows_together`` rows are drawn from it at random. Only rows of files that are near each other in that
            order are therefore mixed. ``None`` shuffles over the whole epoch.

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


def describe_order(shuffle: Shuffle | None, file_of_row: NDArray[np.int64], buckets: Sequence[Any] | None) -> str:
    """Return a text that describes how rows are ordered. Equal texts, seeds and epochs mean equal orders."""
    text = f"{shuffle or 'no shuffle'}; rows of files {zlib.crc32(file_of_row.astype('<i8').tobytes()):08x}"
    if buckets is None:
        return text
    number_of: dict[Any, int] = {}
    numbers = np.array([number_of.setdefault(bucket, len(number_of)) for bucket in buckets], "<i8")
    return f"{text}; buckets {zlib.crc32(numbers.tobytes()):08x}"


def epoch_order(file_of_row: NDArray[np.int64], shuffle: Shuffle | None, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the numbers of all rows in the order in which an epoch reads them, int64 (rows,).

    ``file_of_row`` has the file number of each row, and must be ascending.
    """
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
    """Divide all rows at random into groups of ``rows_together`` rows of one file, and return them file by file.

    The files are in random order. The last group of a file can be smaller.
    """
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
    """Return the indices of ``groups`` in random order.

    Each index is drawn from a buffer that holds the next groups, up to ``window`` rows in total. Without ``window``,
    all orders are equally likely.
    """
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
    """Divide the rows of an epoch into training steps. For each step, return a list with one batch for each rank.

    Batches that are not full come at the end, and in the last step some ranks may have no batch. All rows of a batch
    are from one bucket.

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
        # Each rank gets a batch if there are enough rows; otherwise some ranks get full batches.
        batches += np.array_split(rows, num_ranks if len(rows) >= num_ranks else -(-len(rows) // batch_size))
    return steps + [batches[first : first + num_ranks] for first in range(0, len(batches), num_ranks)]


def _split_into_groups(
    order: NDArray[np.int64], size: int, bucket_of: Callable[[int], Any] | None
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Divide rows into groups of ``size`` rows, so that each group is from one bucket.

    Return these groups, and for each bucket the rows that are left over.
    """
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
    """Measure how well an order mixes the rows of different files.

    Args:
        order: All row numbers of an epoch, in the order in which they are read.
        file_of_row: File number of each row.
        batch_size: Number of rows in a batch.

    Returns:
        A dict. ``files_per_batch`` is the mean number of different files in a full batch, 0 if no batch is full.
        ``same_file_next`` is the share of rows whose next row is from the same file, from 0 to 1. ``displacement`` is
        the mean distance of rows from their original positions, divided by the mean distance in a random order (a third
        of the number of rows). It is 0 if the rows are not shuffled, and about 1 if they are fully shuffled.

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
