"""What the readers have in common: their source, and the device that they are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._engine.common.checks import shown
from ...errors import InvalidArgumentError, OutOfRangeError
from ._arrays import DECORDContext

__all__ = ["check_context", "source_of", "whole_indices"]


def source_of(uri: Any) -> Any:
    """A path or URL as it is, and the bytes of a file object from where it stands, as decord takes them."""
    return bytes(uri.read()) if hasattr(uri, "read") else uri


def check_context(ctx: Any) -> DECORDContext:
    if not isinstance(ctx, DECORDContext):
        raise InvalidArgumentError(f"ctx must be cpu(0) or gpu(0) (got {shown(ctx)}).")
    return ctx


def whole_indices(indices: Any, count: int) -> list[int]:
    """Indices counted from the beginning. As in decord, fractions are cut off, and rows of indices are joined.

    Raises:
        OutOfRangeError: if one is not in -count to count - 1.
        InvalidArgumentError: if they are no numbers, or one number alone.
    """
    try:
        wanted = np.array(indices, dtype=np.int64)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        wanted = None
    if wanted is None or wanted.ndim == 0:
        raise InvalidArgumentError(f"Indices must be a list of whole numbers (got {shown(indices)}).")
    for index in wanted.flat:
        if not -count <= index < count:
            raise OutOfRangeError(
                f"Index {index} is out of bounds: there are {count}, so it must be in {-count} to {count - 1}."
            )
    return [int(index) % count for index in wanted.flat]
