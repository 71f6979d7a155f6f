"""The media files of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from ...errors import InvalidArgumentError, ReadError
from . import limits
from .items import MEDIA_EXTENSIONS, Item, MediaKind

__all__ = ["items_of_folder"]


class _Found(NamedTuple):
    path: str
    class_name: str | None


class _Waiting(NamedTuple):
    path: str
    is_folder: bool
    class_name: str | None
    #: Device and inode of the folders that a folder lies in.
    outer: tuple[tuple[int, int], ...]


def items_of_folder(folder: str, kind: MediaKind) -> list[Item]:
    """The files of a kind in a folder, in the order of their paths, part by part.

    A sub-folder is a class if there are such files in it, at any depth; classes are numbered by name. Files directly in
    the folder have no label. Hidden files and folders (``.name``) are left out, and links are followed.

    Args:
        folder: An existing folder.
        kind: The kind, whose extensions are in `MEDIA_EXTENSIONS`.

    Raises:
        InvalidArgumentError: if there are none, or too many.
        ReadError: if a folder cannot be read.
    """
    found = []
    for file in _files(folder, MEDIA_EXTENSIONS[kind]):
        found.append(file)
        if len(found) > limits.MAX_ITEMS:
            raise InvalidArgumentError(f"There are more than {limits.MAX_ITEMS} files in {folder}, the limit.")
    if not found:
        extensions = " ".join(sorted(MEDIA_EXTENSIONS[kind]))
        raise InvalidArgumentError(
            f"There are no files of kind {kind!r} in the folder {folder}: looked for the extensions {extensions}, in "
            "sub-folders as well. Give files with other extensions as a list of paths."
        )
    class_names = sorted({file.class_name for file in found if file.class_name is not None})
    number_of = {name: number for number, name in enumerate(class_names)}
    return [
        Item(file.path)
        if file.class_name is None
        else Item(file.path, label=number_of[file.class_name], extra={"class_name": file.class_name})
        for file in found
    ]


def _files(folder: str, extensions: frozenset[str]) -> Iterator[_Found]:
    num_folders = 0
    waiting = [_Waiting(folder, is_folder=True, class_name=None, outer=())]
    while waiting:
        path, is_folder, class_name, outer = waiting.pop()
        if not is_folder:
            yield _Found(path, class_name)
            continue
        identity = _identity(path)
        if identity in outer:  # a link that leads back
            continue
        num_folders += 1
        if len(outer) > limits.MAX_FOLDER_DEPTH or num_folders > limits.MAX_FOLDERS:
            raise InvalidArgumentError(
                f"The folder {folder} is deeper than {limits.MAX_FOLDER_DEPTH}, or has more than {limits.MAX_FOLDERS} "
                f"folders in it (at {path}): do links lead in circles?"
            )
        inside = []
        for entry in _visible_entries(path):
            if _is_folder(entry):
                inside.append(_Waiting(entry.path, True, class_name if outer else entry.name, (*outer, identity)))
            elif os.path.splitext(entry.name)[1].lower() in extensions and _is_file(entry):
                inside.append(_Waiting(entry.path, False, class_name, ()))
        waiting += reversed(inside)


def _visible_entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        raise ReadError(f"The folder {folder} cannot be read ({error}).") from error


def _identity(folder: str) -> tuple[int, int]:
    try:
        status = os.stat(folder)
    except OSError as error:
        raise ReadError(f"The folder {folder} cannot be read ({error}).") from error
    return status.st_dev, status.st_ino


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    # Reading pipes and devices would block. A broken link is a missing file, and reading its row says so.
    try:
        return entry.is_file() or not os.path.exists(entry.path)
    except OSError:
        return True
