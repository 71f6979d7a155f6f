"""Functions that compute the rows of an epoch: choose them by weights, order them, divide them into training steps.

They keep no position in an epoch. `RowBatches` in ``row_batches.py`` calls them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator, Philox  # not imported on use: another thread may fork workers meanwhile
from numpy.typing import NDArray
from torch import Tensor

from ..._engine.common.checks import finite_number, shown, whole_number
from ...errors import InvalidArgumentError
from .._rows.recipe import derived_seed
from .._sources.items import Item


@dataclass(frozen=True)
class Shuffle:
    """Settings for shuffling the rows of a dataset. A row is one sample, such as a clip of a file.

    By default, every order of all rows is equally likely. This is slow if each file has several rows, because the file
    is usually opened again for each of its rows. Reading is faster if rows of one file are close to each other: a file
    is then opened once for several rows, and a group of pictures (GOP) is decoded once for several clips.
    ``rows_together`` keeps some rows of a file next to each other, and ``window`` keeps all rows of a file near each
    other. Both settings make batches less varied; `shuffle_quality` measures by how much.

    Attributes:
        rows_together: Number of rows of one file that stay next to each other. Each epoch forms new groups of rows.
        window: Approximate size of a shuffle buffer, in rows. The buffer is filled with the rows of one file after
            another, with the files in random order. Groups of ``rows_together`` rows are drawn from the buffer at
            random, so only rows of files that are near each other in this order are mixed. ``None`` shuffles over the
            whole epoch.

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
                # A plain int, because saved states have the repr of this object.
                object.__setattr__(self, name, whole_number(name, value, at_least=1, or_none=True))


def describe_order(shuffle: Shuffle | None, file_of_row: NDArray[np.int64], buckets: Sequence[Any] | None) -> str:
    """Return a text that describes how rows are ordered. Equal texts, seeds and epochs mean equal orders."""
    text = f"{shuffle or 'no shuffle'}; rows of files {zlib.crc32(file_of_row.astype('<i8').tobytes()):08x}"
    if buckets is None:
        return text
    number_of: dict[Any, int] = {}
    numbers = np.array([number_of.setdefault(bucket, len(number_of)) for bucket in buckets], "<i8")
    return f"{text}; buckets {zlib.crc32(numbers.tobytes()):08x}"


def epoch_order(file_of_row: NDArray[np.int64], shuffle: Shuffle | None, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return all rows in the order in which an epoch reads them. ``file_of_row`` must be ascending."""
    num_rows = len(file_of_row)
    if shuffle is None:
        return np.arange(num_rows)
    random = Generator(Philox(derived_seed(seed, epoch, "order")))
    if shuffle.rows_together == 1 and shuffle.window is None:
        return random.permutation(num_rows)
    # Groups are rows of one file, with the files in random order.
    rows_by_file = np.split(np.arange(num_rows), np.flatnonzero(np.diff(file_of_row)) + 1)
    groups: list[NDArray[np.int64]] = []
    for file in random.permutation(len(rows_by_file)):
        rows = random.permutation(rows_by_file[file])
        groups += np.split(rows, range(shuffle.rows_together, len(rows), shuffle.rows_together))
    return np.concatenate([groups[i] for i in _shuffle_groups(groups, shuffle.window, random)])


def _shuffle_groups(
    groups: list[NDArray[np.int64]], window: int | None, random: Generator
) -> Sequence[int] | NDArray[np.int64]:
    """Return the indices of ``groups`` in random order, each drawn from a buffer of about ``window`` rows."""
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
    drop_last: bool,
    bucket_of: Callable[[int], Any] | None,
) -> list[list[NDArray[np.int64]]]:
    """Divide the rows of an epoch into training steps. For each step, return a list with one batch for each rank.

    Batches that are not full come at the end, and in the last step some ranks may have no batch. All rows of a batch
    are from one bucket.

    >>> import numpy as np
    >>> steps = epoch_steps(np.arange(7), 2, 2, drop_last=False, bucket_of=None)
    >>> [[batch.tolist() for batch in step] for step in steps]
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
    """Divide rows into groups of ``size`` rows from one bucket. Return the groups, and the rest of each bucket."""
    if bucket_of is None:
        end = len(order) // size * size
        return [order[start : start + size] for start in range(0, end, size)], [order[end:]] if end < len(order) else []
    whole: list[NDArray[np.int64]] = []
    filling: dict[Any, list[int]] = {}
    for row in order.tolist():
        bucket = bucket_of(row)
        rows = filling.pop(bucket, [])
        rows.append(row)
        if len(rows) == size:
            whole.append(np.array(rows))
        else:
            filling[bucket] = rows  # by its last row, so that a resumed epoch, which lacks the first rows, is the same
    return whole, [np.array(rows) for rows in filling.values()]


def shuffle_quality(order: NDArray[np.int64], file_of_row: NDArray[np.int64], batch_size: int) -> dict[str, float]:
    """Measure how well an order mixes the rows of different files.

    Args:
        order: Indices of all rows of an epoch in the order in which they are read, int array (rows,).
        file_of_row: For each row of the dataset, the index of its file, int array (rows,).
        batch_size: Number of rows in a batch.

    Returns:
        A dict of three floats. ``"files_per_batch"`` is the mean number of different files in a full batch; 0 if no
        batch is full. ``"same_file_next"`` is the share of rows whose next row is from the same file, from 0 to 1.
        ``"displacement"`` is the mean distance of rows from their original positions, divided by a third of the number
        of rows, the mean distance in a random order. It is 0 for unshuffled rows and about 1 for fully shuffled rows.

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


# Weights of rows and classes

Weights: TypeAlias = Literal["balanced"] | Mapping[Any, float] | Sequence[float] | NDArray[Any] | Tensor


class RowClasses(NamedTuple):
    """The classes of rows.

    ``names`` has the class names, or the labels of files without one, sorted if possible. ``class_of_row`` has indices
    in ``names``.
    """

    names: list[Any]
    class_of_row: NDArray[np.int64]

    @classmethod
    def of(cls, items: Sequence[Item], file_of_row: NDArray[np.int64]) -> RowClasses:
        """Find the classes of all rows. Files without a label have the class ``None``."""
        classes = [item.extra.get("class_name", item.label) for item in items]
        for label in classes:
            if not isinstance(label, Hashable) or isinstance(label, Tensor):
                raise InvalidArgumentError(
                    f"Classes need labels that are numbers or text (got {shown(label)}). Give the dataset such labels, "
                    "for example with label=, or pass weights of rows."
                )
        names = list(dict.fromkeys(classes))
        with suppress(TypeError):  # some files may have no label
            names.sort()
        number_of = {name: number for number, name in enumerate(names)}
        return cls(names, np.array([number_of[name] for name in classes], np.int64)[file_of_row])

    def count_rows(self, rows: NDArray[np.int64]) -> dict[Any, int]:
        """Return how many of ``rows`` are of each class."""
        return dict(
            zip(self.names, np.bincount(self.class_of_row[rows], minlength=len(self.names)).tolist(), strict=True)
        )


class RowWeights(NamedTuple):
    """The weight of each row, float64 (rows,), and its group: its class, if weights of classes were given.

    An epoch has the expected number of rows of each group, rounded down or up.
    """

    weights: NDArray[np.float64]
    group_of_row: NDArray[np.int64]

    @classmethod
    def of(cls, weights: object, items: Sequence[Item], file_of_row: NDArray[np.int64]) -> RowWeights:
        """Check the argument ``weights`` of `RowBatches`, and return the weights that it describes."""
        if (isinstance(weights, str) and weights == "balanced") or isinstance(weights, Mapping):
            classes = RowClasses.of(items, file_of_row)
            _check_labels(classes, items, file_of_row)
            shares = _shares_of(None if isinstance(weights, str) else weights, classes.names)
            num_rows = np.bincount(classes.class_of_row, minlength=len(shares))
            return cls((shares / np.maximum(num_rows, 1))[classes.class_of_row], classes.class_of_row)
        return cls(_check_row_weights(weights, len(file_of_row)), np.zeros(len(file_of_row), np.int64))

    def describe(self, num_rows: int) -> str:
        """Return a text that describes the draws of `draw`. Equal texts, seeds and epochs mean equal rows."""
        contents = self.weights.astype("<f8").tobytes() + self.group_of_row.astype("<i8").tobytes()
        return f"{num_rows} rows with weights {zlib.crc32(contents):08x}"

    def draw(self, num_rows: int, *, seed: int, epoch: int) -> NDArray[np.int64]:
        """Return ``num_rows`` rows to read in an epoch, in ascending order.

        A row appears ``num_rows * weight / total_weight`` times, rounded down or up at random. (Independent draws would
        leave out more rows by chance.)
        """
        random = Generator(Philox(derived_seed(seed, epoch, "weights")))
        rows = random.permutation(np.flatnonzero(self.weights > 0))
        rows = rows[np.argsort(self.group_of_row[rows], kind="stable")]
        # Rows are intervals on a line, as long as their expected numbers. They are read once for each point of a grid
        # that lies in them. The grid has a distance of 1 and a random offset.
        weights = self.weights[rows]
        ends = np.cumsum(weights / weights.max())
        ends *= num_rows / ends[-1]
        points_before = np.minimum(np.floor(ends + random.random()), num_rows).astype(np.int64)
        points_before[-1] = num_rows
        return np.sort(np.repeat(rows, np.diff(points_before, prepend=0)))


def _check_labels(classes: RowClasses, items: Sequence[Item], file_of_row: NDArray[np.int64]) -> None:
    if None not in classes.names:
        return
    unlabelled = np.flatnonzero(classes.class_of_row == classes.names.index(None))
    raise InvalidArgumentError(
        f"Weights of classes need a label for each row, but {len(unlabelled)} of {len(file_of_row)} rows have none. "
        f"The first is of {items[file_of_row[unlabelled[0]]].name!r}. Give the dataset labels, for example with label= "
        "or with one folder for each class, or pass weights of rows."
    )


def _shares_of(shares: Mapping[Any, float] | None, names: Sequence[Any]) -> NDArray[np.float64]:
    """Return the share of each class; ``None`` means equal shares."""
    if shares is None:
        return np.ones(len(names))
    missing = [name for name in names if name not in shares]
    unknown = [name for name in shares if name not in names]
    for differing, problem in ((missing, "lack the class"), (unknown, "have an unknown class")):
        if differing:
            others = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
            raise InvalidArgumentError(
                f"weights {problem} {differing[0]!r}{others}. The classes are {shown(list(names))}: give each of them "
                "a share, such as 1.0, or 0.0 to leave it out."
            )
    values = [finite_number(f"weights[{name!r}]", shares[name]) for name in names]
    return _check_positive(np.array(values, np.float64), list(names), "class")


def _check_row_weights(weights: object, num_rows: int) -> NDArray[np.float64]:
    try:
        values = np.asarray(weights, np.float64)
    except (TypeError, ValueError, RuntimeError):
        values = np.empty(())
    if isinstance(weights, str) or values.ndim != 1:
        raise InvalidArgumentError(
            "weights must be 'balanced', a mapping from each class to its share, or a sequence of one number for each "
            f"row (got {shown(weights)})."
        )
    if len(values) != num_rows:
        raise InvalidArgumentError(
            f"weights must have one number for each of the {num_rows} rows of the dataset (got {len(values)}). To give "
            "each file a weight, pass file_weights[dataset.file_of_row]."
        )
    return _check_positive(values, range(num_rows), "row")


def _check_positive(values: NDArray[np.float64], owners: Sequence[Any], kind: str) -> NDArray[np.float64]:
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        raise InvalidArgumentError(
            f"weights must be finite numbers of at least 0, but {kind} {owners[wrong[0]]!r} has {values[wrong[0]]:g}."
        )
    if not values.any():
        raise InvalidArgumentError(f"All weights are 0; at least one {kind} needs a weight above 0.")
    return values
