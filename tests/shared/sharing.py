"""Shared by the processes of a test run: clips, each encoded once."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["STORE_VARIABLE", "take_or_write"]

# Names the folder of the run, also to the processes that it starts; without it, nothing is stored.
STORE_VARIABLE = "MEDIATENSOR_TEST_CLIPS"


def take_or_write(path: Path, write: Callable[[Path], object]) -> Path:
    """The file at ``path``, which belongs to the caller: a copy of the stored one of its name, if it is not there yet.

    Safe for several processes with one folder: a file appears when it is complete. Its name identifies its contents.
    """
    store = os.environ.get(STORE_VARIABLE)
    if path.exists():
        return path
    if store is None or Path(store) == path.parent:
        _appear(path, write)
    else:
        stored = take_or_write(Path(store) / path.name, write)
        _appear(path, lambda draft: shutil.copyfile(stored, draft))
    return path


def _appear(path: Path, write: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as unfinished:
        draft = Path(unfinished) / path.name
        write(draft)
        draft.replace(path)
