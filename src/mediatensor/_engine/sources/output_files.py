"""Decide which files may be written: never an input, never two outputs into one, never an unrelated file.

All commands, `fit` and the reports use this before any work starts.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

from ...errors import InvalidArgumentError, WriteError


def check_outputs(
    outputs: Iterable[str | os.PathLike[str]],
    sources: Iterable[Any] = (),
    *,
    overwrite: bool = True,
    is_own: Callable[[str, str], bool] | None = None,
    how: str = "--overwrite",
    makes_folders: bool = False,
) -> None:
    """Refuse outputs that are an input, the same file as another output, a folder, or a file that must be kept.

    Paths are compared after following symbolic and hard links. Outputs whose names differ only in case count as the
    same file, because they are the same on some systems. Devices and pipes may be written.

    Args:
        outputs: Paths.
        sources: Inputs: paths, ``file:`` URLs, and ``"-"`` for standard input. Remote sources are ignored.
        overwrite: Whether existing files may be replaced.
        is_own: Called with an output and the path of the existing file, whose letters may differ in case. Returns
            whether this file may be replaced without ``overwrite``. By default, no file may be replaced without it.
        how: The option that allows overwriting, for the message.
        makes_folders: Whether the caller makes the folders of its outputs.

    Raises:
        InvalidArgumentError: if an output must be refused.
        WriteError: if the folder of an output is missing, unless the caller makes it, or cannot be written.
    """
    names = [os.fsdecode(output) for output in outputs]
    paths = [path for source in sources if isinstance(source, (str, os.PathLike)) for path in _paths_of(source)]
    read = {place for path in paths for place in _identify_file(path)}
    written: dict[object, str] = {}
    real_paths = []
    for name in names:
        real_paths.append(_real_path(name))
        places = _identify_file(name)
        if not read.isdisjoint(places):
            raise InvalidArgumentError(
                f"{name!r} is a file that is read; choose another name or folder for the output."
            )
        places |= {real_paths[-1].casefold()}
        for place in places:
            if place in written:
                raise InvalidArgumentError(
                    f"{written[place]!r} and {name!r} would be written into one file; choose names that differ in more "
                    "than case."
                )
        written |= dict.fromkeys(places, name)
    folders: dict[str, dict[str, str]] = {}
    writable_folders: set[str] = set()
    for name, real_path in zip(names, real_paths, strict=True):
        existing = _find_existing(name, folders)
        if os.path.isdir(existing or name):
            raise InvalidArgumentError(f"The output must be a file, and {name!r} is a folder.")
        if existing is not None and not overwrite and not (is_own is not None and is_own(name, existing)):
            raise InvalidArgumentError(f"{existing!r} exists already; {how} replaces it.")
        is_device = os.path.exists(name) and not os.path.isfile(name)
        if not is_device and (folder := os.path.dirname(real_path)) not in writable_folders:
            _check_folder(name, folder, makes_folders)
            writable_folders.add(folder)


def _real_path(name: str) -> str:
    try:
        return os.path.realpath(name)
    except ValueError as error:  # a zero within the path, which no file has
        raise WriteError(f"{name!r} cannot be written: it is not the name of a file ({error}).") from None


def _paths_of(source: str | os.PathLike[str]) -> list[str | int]:
    """Return the paths that ``source`` may stand for, and also descriptor 0 (standard input) if it is ``"-"``."""
    text = os.fsdecode(source)
    if text == "-":
        return [text, 0]
    if text[:5].lower() == "file:":  # FFmpeg takes the rest as it is
        return [text, text[5:], unquote(text[5:])]
    return [text]


def _check_folder(name: str, folder: str, makes_folders: bool) -> None:
    """Raise `WriteError` if the folder of an output is missing, is a file or cannot be written."""
    while makes_folders and not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.lexists(folder):
        raise WriteError(f"{name!r} cannot be written: there is no folder {folder!r}. Make it first.")
    if not os.path.isdir(folder):
        raise WriteError(f"{name!r} cannot be written: {folder!r} is a file, not a folder.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise WriteError(f"{name!r} cannot be written: you may not write in the folder {folder!r}.")


def _identify_file(path: str | os.PathLike[str] | int) -> frozenset[object]:
    """Return the real path of a file, and its device and inode numbers if it exists."""
    try:
        if isinstance(path, int):
            status = os.fstat(path)
            return frozenset(((status.st_dev, status.st_ino),)) if stat.S_ISREG(status.st_mode) else frozenset()
        text = os.path.realpath(os.fsdecode(path))
        status = os.stat(text)
    except OSError:
        return frozenset() if isinstance(path, int) else frozenset((text,))
    except ValueError:  # a zero within the path, which no file has
        return frozenset()
    return frozenset((text, (status.st_dev, status.st_ino)))


def _find_existing(path: str, folders: dict[str, dict[str, str]]) -> str | None:
    """Return the existing file whose name equals ``path`` except for case, or ``None``; ``folders`` is a cache."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        folder, name = os.path.split(path)
        if folder not in folders:
            try:
                folders[folder] = {entry.casefold(): entry for entry in os.listdir(folder or os.curdir)}
            except OSError:
                folders[folder] = {}
        existing = folders[folder].get(name.casefold())
        return None if existing is None else os.path.join(folder, existing)
    except ValueError:
        return None
    if stat.S_ISLNK(mode) and os.path.exists(path):
        mode = os.stat(path).st_mode
    return path if stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode) else None
