"""Byte ranges of a file on any file system of fsspec that can fetch them."""

from __future__ import annotations

from typing import Any

__all__ = ["FsspecRanges", "has_ranges"]


def has_ranges(file_system: Any) -> bool:
    """Whether a file system fetches a part of a file by a request of its own.

    The others open the file and seek for every part, which in a compressed archive means reading up to there. Those
    that keep local copies fetch what their copy lacks when the file is opened.
    """
    from fsspec.implementations.cached import CachingFileSystem
    from fsspec.spec import AbstractFileSystem

    if isinstance(file_system, CachingFileSystem):
        return False
    # Asynchronous file systems put their synchronous methods on the instance.
    return "cat_file" in vars(file_system) or type(file_system).cat_file is not AbstractFileSystem.cat_file


class FsspecRanges:
    """Fetches ranges of one file.

    Args:
        file_system: For which `has_ranges` holds.
        path: As the file system wants it.

    Raises:
        FileNotFoundError: if there is no such file.
        IsADirectoryError: if it is a directory.
    """

    def __init__(self, file_system: Any, path: str) -> None:
        self._file_system = file_system
        self._path = path
        facts = file_system.info(path)
        if facts.get("type") == "directory":
            raise IsADirectoryError("it is a directory; give the URL of a media file")
        size = facts.get("size")
        #: Bytes in the file; ``None`` if the file system does not know.
        self.size: int | None = None if size is None else int(size)

    def fetch(self, start: int, stop: int) -> bytes:
        """Bytes ``start`` to ``stop`` of the file."""
        return bytes(self._file_system.cat_file(self._path, start=start, end=stop))

    def close(self) -> None:
        """Nothing to do: connections belong to the file system, which fsspec keeps for the process."""
