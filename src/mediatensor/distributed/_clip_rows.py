"""`clip_rows`: the rows of files, for engines that take lists of rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from .._checks import items_of, path_text, whole_number
from ..errors import InvalidArgumentError

__all__ = ["clip_rows"]


def clip_rows(
    paths: Iterable[str | os.PathLike[str]], rows_per_file: int = 1, **columns: Sequence[Any]
) -> list[dict[str, Any]]:
    """Rows of files, numbered as a dataset of the same files and ``rows_per_file`` numbers them.

    Args:
        paths: The files.
        rows_per_file: How many rows each file has; each draws its own clip.
        columns: Further columns, one value for each file.

    Returns:
        Rows with ``path``, ``row`` and the further columns, as ``ray.data.from_items`` and ``daft.from_pylist`` take
        them.

    Raises:
        InvalidArgumentError: if ``rows_per_file`` is not positive, or a column has not one value for each file.

    Example:
        >>> from mediatensor.distributed import clip_rows
        >>> clip_rows(["a.mp4", "b.mp4"], 2, label=[0, 1])[1:3]
        [{'path': 'a.mp4', 'row': 1, 'label': 0}, {'path': 'b.mp4', 'row': 2, 'label': 1}]
    """
    files = [path_text("A path", path) for path in items_of("paths", paths, of="paths")]
    rows_per_file = whole_number("rows_per_file", rows_per_file, at_least=1)
    columns = {name: items_of(f"The column {name!r}", values, of="values") for name, values in columns.items()}
    for name, values in columns.items():
        if len(values) != len(files):
            raise InvalidArgumentError(
                f"The column {name!r} must have one value for each of the {len(files)} files (got {len(values)})."
            )
        if name in ("path", "row"):
            raise InvalidArgumentError(f"The rows have a column {name!r} already; call yours otherwise.")
    return [
        {"path": path, "row": file * rows_per_file + clip, **{name: values[file] for name, values in columns.items()}}
        for file, path in enumerate(files)
        for clip in range(rows_per_file)
    ]
