"""Weights of rows and classes, and the random choice of the rows of an epoch according to these weights."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..._engine.common.checks import finite_number, shown
from ...errors import InvalidArgumentError
from .._rows.recipe import derived_seed
from .._sources.items import Item

Weights: TypeAlias = Literal["balanced"] | Mapping[Any, float] | Sequence[float] | NDArray[Any] | Tensor


class RowClasses(NamedTuple):
    """The classes of the rows of a dataset.

    ``names`` has the class names, or the labels of files without a class name. It is sorted if its values can be
    compared. ``class_of_row`` has the index in ``names`` for each row.
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
    """The weight of each row, float64 (rows,), and its group.

    An epoch has the expected number of rows of each group, rounded down or up. With weights of classes, each class is a
    group. Otherwise, all rows are one group.
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
        """Return ``num_rows`` rows to read in an epoch, in ascending order. A row can appear several times.

        A row is expected to appear ``num_rows * weight / total_weight`` times in an epoch. It appears this often,
        rounded down or up at random. (Independent draws would leave out more rows by chance.)
        """
        random = np.random.Generator(np.random.Philox(derived_seed(seed, epoch, "weights")))
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


def visits_of(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each element of ``rows``, how many equal elements precede it. ``rows`` must be ascending.

    >>> import numpy as np
    >>> visits_of(np.array([2, 5, 5, 5, 7])).tolist()
    [0, 0, 1, 2, 0]
    """
    return np.arange(len(rows)) - np.searchsorted(rows, rows)


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
