"""Columns that come out: the same names, types and numbers of dimensions whatever the rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgumentError

__all__ = ["Column", "ListColumn", "TextColumn"]


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes:
        name: Its name.
        dtype: Of its numbers.
        shape: Of the value of a row; ``None`` for a dimension whose size differs between rows.
        missing: What stands in a row that has no value; in a column without sizes, the row's value is empty.

    Example:
        >>> from mediatensor.distributed import Column
        >>> Column("duration_seconds", "float64", missing=float("nan")).gather([0.5, None])
        array([0.5, nan])
        >>> Column("boxes", "float32", (None, 4)).gather([None])[0].shape
        (0, 4)
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    missing: float = 0

    def gather(self, values: Sequence[Any]) -> NDArray[Any]:
        """One array (rows, \\*shape), or where sizes differ an array of arrays; ``None`` is a row without a value."""
        if None in self.shape:
            empty = np.zeros([size or 0 for size in self.shape], self.dtype)
            return _of_objects([empty if value is None else np.asarray(value, self.dtype) for value in values])
        sizes = [size for size in self.shape if size is not None]
        column = np.full((len(values), *sizes), self.missing, self.dtype)
        for i, value in enumerate(values):
            if value is not None:
                column[i] = value
        return column

    def check(self, value: NDArray[Any]) -> None:
        """Raise unless a value is of the column's shape.

        Raises:
            InvalidArgumentError: if it is not.
        """
        if len(value.shape) != len(self.shape) or any(
            wanted not in (None, size) for wanted, size in zip(self.shape, value.shape, strict=True)
        ):
            wanted = tuple("any" if size is None else size for size in self.shape)
            raise InvalidArgumentError(
                f"{self.name} of this row has the shape {value.shape}, but the column has {wanted}: bring all rows to "
                "one shape, or leave clip_shape out."
            )


@dataclass(frozen=True)
class TextColumn:
    """A column of strings; a row without a value has an empty one."""

    name: str

    def gather(self, values: Sequence[str | None]) -> NDArray[Any]:
        """An array of strings; ``None`` is a row without a value."""
        return _of_objects([value or "" for value in values])


@dataclass(frozen=True)
class ListColumn:
    """A column of lists of strings; a row without a value has an empty one."""

    name: str

    def gather(self, values: Sequence[Sequence[str] | None]) -> NDArray[Any]:
        """An array of lists; ``None`` is a row without a value."""
        return _of_objects([list(value or ()) for value in values])


def _of_objects(values: Sequence[Any]) -> NDArray[Any]:
    # NumPy would make a single array of values that happen to have one shape.
    column = np.empty(len(values), object)
    for i, value in enumerate(values):
        column[i] = value
    return column
