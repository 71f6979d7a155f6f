"""Write each file so that it appears under its name only when it is complete. Check which files a command can replace.

The library writes to users' paths only through `AtomicFile`, or into a hidden folder that is renamed at the end. A file
is first written under a hidden name in the folder of its destination, and renamed when it is complete. Devices and
pipes cannot be renamed, so they are written directly. All commands, the training function `fit` and the dataset reports
call `check_outputs` before they begin their work.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import secrets
import stat
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO
from urllib.parse import unquote

from ...errors import InvalidArgumentError, MediaTensorError, WriteError
from ..common.checks import path_text

# Links in these folders may lead to something that must not be replaced.
_SPECIAL_FOLDERS = ("/dev/fd/", "/proc/")
_SPECIAL_FILES = ("/dev/stdin", "/dev/stdout", "/dev/stderr")

# Number of characters of the destination's name in the hidden name. Names have at most 255 bytes, characters up to 4.
_NUM_KEPT_CHARACTERS = 50
_NUM_RANDOM_BYTES = 6


class AtomicFile:
    """A file that is being written. `commit` gives the file its name; `discard` removes it.

    Before `commit`, the destination is unchanged. The unfinished file is removed after an error, after an interrupt at
    any line, when this object is freed, and when the program ends. Only a killed process leaves a hidden file, whose
    name ends in ``.part``. The new file gets the permissions of the file that it replaces, and its owner if the system
    permits. If the destination is a symbolic link, the link is kept and its target is replaced.

    ``file`` is open for unbuffered writing and, if it is a regular file, for reading. As with every raw file, a call
    of ``write`` can store only a part of the data. ``name`` is the path of the unfinished file.

    Raises `WriteError` if the file cannot be created, and `SourceTypeError` if ``path`` is not a path.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path_text("the destination", path)
        self._final: str | None = None
        try:
            if not _is_special(self._path):
                self._final = os.path.realpath(self._path)
            self.name = self._path if self._final is None else _hidden_name(self._final)
            opened: list[io.FileIO] = []
            # The finalizer is made before the file, so that an interrupt leaves no file. It does not refer to this
            # object, so it runs when the object is dropped. In a forked process, it does not remove the file.
            self._given_up = (opened, None if self._final is None else self.name, os.getpid())
            self._finalizer = weakref.finalize(self, _give_up, *self._given_up)
            opened.append(_open_new_file(self.name, self._final))
        except (OSError, ValueError) as error:
            advice = "It must be a valid path, in a folder in which files can be created."
            raise write_error(repr(self._path), error, advice) from error
        self.file = opened[0]

    def appear(self) -> None:
        """Give the file its name before it is complete. From then on, a failure does not remove the file.

        On Windows, an open file cannot be renamed, so the file gets its name only in `commit`.
        """
        if self._final is None or os.name == "nt":
            return
        try:
            os.replace(self.name, self._final)
        except OSError as error:
            raise write_error(repr(self._path), error) from error
        self._finalizer.detach()
        self._given_up = ([self.file], None, os.getpid())
        self._finalizer = weakref.finalize(self, _give_up, *self._given_up)
        self.name, self._final = self._final, None

    def commit(self) -> None:
        """Close the file, and rename it to its destination. If this raises `WriteError`, call `discard`."""
        try:
            self.file.close()
            if self._final is not None:
                os.replace(self.name, self._final)
        except OSError as error:
            raise write_error(repr(self._path), error) from error
        self._finalizer.detach()

    def discard(self) -> None:
        if self._finalizer.alive:
            # An interrupted finalizer counts as having run, so call its function instead.
            _give_up(*self._given_up)
            self._finalizer.detach()


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file for a ``with`` block. The file appears at the end of the block; see `AtomicFile`.

    If the block raises an error, the file does not appear, and an OSError becomes `WriteError`. The file's ``name`` is
    the path of the unfinished file, for libraries that can only write to a path.
    """
    new = AtomicFile(path)
    try:
        # If the block fails, the file is not closed here, because closing would write its buffer.
        file = io.BufferedWriter(new.file)
        yield file
        file.flush()
        new.commit()
    except MediaTensorError:
        raise
    except OSError as error:
        raise write_error(repr(os.fsdecode(path)), error) from error
    finally:
        new.discard()


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    with writing(path) as file:
        file.write(data)


def write_error(destination: str, error: BaseException, advice: str = "") -> WriteError:
    """Return the error that ``destination``, such as ``"'video.mp4'"``, cannot be written. ``advice`` ends it."""
    # The full message of a system error would name the hidden file.
    reason = getattr(error, "strerror", None) or str(error).rstrip(".") or type(error).__name__
    return WriteError(f"Could not write to {destination}: {reason}. {advice}".rstrip())


def _is_special(path: str) -> bool:
    """Return whether a path is a device, a pipe or a folder. A regular file must not replace these."""
    if path in _SPECIAL_FILES or path.startswith(_SPECIAL_FOLDERS):
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return not path or path.endswith(os.sep)  # not a file name: opening it raises the system's error
    except OSError:
        return True


def _hidden_name(path: str) -> str:
    """Return an unused name in the folder of ``path`` that patterns such as ``*.mp4`` do not match."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name[:_NUM_KEPT_CHARACTERS]}.{secrets.token_hex(_NUM_RANDOM_BYTES)}.part")


def remove_unfinished(path: str) -> None:
    """Remove the hidden files that killed processes have left for a destination, which nobody else may be writing."""
    folder, name = os.path.split(os.path.realpath(path))
    if len(name) > _NUM_KEPT_CHARACTERS:  # the hidden file of another destination can have the same name
        return
    hidden = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{{2 * _NUM_RANDOM_BYTES}}}\.part")
    with contextlib.suppress(OSError):
        for other in filter(hidden.fullmatch, os.listdir(folder)):
            os.unlink(os.path.join(folder, other))


def _open_new_file(name: str, final: str | None) -> io.FileIO:
    """Open the file ``name`` for writing.

    If ``final`` is ``None``, ``name`` is a device or a pipe. Otherwise ``name`` must not exist; the new file will be
    renamed to ``final`` later. If ``final`` exists, copy its permissions and, if possible, its owner to the new file.
    """
    if final is None:
        return open(name, "wb", buffering=0)
    file = open(name, "x+b", buffering=0)  # noqa: SIM115
    if os.path.exists(final):
        with contextlib.suppress(OSError, AttributeError):
            replaced = os.stat(final)
            with contextlib.suppress(PermissionError):
                os.fchown(file.fileno(), replaced.st_uid, replaced.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(replaced.st_mode))
    return file


def _give_up(opened: list[io.FileIO], hidden: str | None, process: int) -> None:
    try:
        for file in opened:
            with contextlib.suppress(OSError):
                file.close()
    finally:
        if hidden is not None and os.getpid() == process:
            with contextlib.suppress(OSError):
                os.unlink(hidden)


def check_outputs(
    outputs: Iterable[str | os.PathLike[str]],
    sources: Iterable[Any] = (),
    *,
    overwrite: bool = True,
    is_own: Callable[[str, str], bool] | None = None,
    how: str = "--overwrite",
    makes_folders: bool = False,
) -> None:
    """Check output paths before a command begins, so that the command does not destroy a file.

    An output must not be an input, another output, or a folder. An existing file is accepted only if ``overwrite`` or
    ``is_own`` permits replacing it. Paths are compared after following symbolic and hard links. Outputs whose names
    differ only in case count as one file, because they are one file on some systems. Devices and pipes are always
    accepted. Raises `InvalidArgumentError` for a rejected output, and `WriteError` if the folder of an output is
    missing or cannot be written.

    Args:
        outputs: Paths to be written.
        sources: Inputs: paths, ``file:`` URLs, descriptors of open files, and ``"-"`` for standard input. Remote
            sources are ignored.
        overwrite: Whether the command is allowed to replace existing files.
        is_own: Function that returns whether the command is allowed to replace an existing file even without
            ``overwrite``. It is called with the path of the output and the path of the existing file. These paths can
            differ in upper and lower case. By default, no file is replaced in this way.
        how: The option that allows overwriting, as named in the error message.
        makes_folders: Whether the caller creates the folders of its outputs.
    """
    names = list(map(os.fsdecode, outputs))
    paths = [path for source in sources if isinstance(source, (str, int, os.PathLike)) for path in _paths_of(source)]
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


def _paths_of(source: str | int | os.PathLike[str]) -> list[str | int]:
    """Return all paths that ``source`` could mean. For ``"-"``, this includes the descriptor 0 (standard input)."""
    if isinstance(source, int):
        return [source]
    text = os.fsdecode(source)
    if text == "-":
        return [text, 0]
    if text[:5].lower() == "file:":  # FFmpeg takes the rest as it is
        return [text, text[5:], unquote(text[5:])]
    return [text]


def _check_folder(name: str, folder: str, makes_folders: bool) -> None:
    while makes_folders and not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.lexists(folder):
        raise WriteError(f"{name!r} cannot be written: there is no folder {folder!r}. Make it first.")
    if not os.path.isdir(folder):
        raise WriteError(f"{name!r} cannot be written: {folder!r} is a file, not a folder.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise WriteError(f"{name!r} cannot be written: you may not write in the folder {folder!r}.")


def _identify_file(path: str | os.PathLike[str] | int) -> frozenset[object]:
    """Return the set of a file's identifiers: its real path and, if the file exists, its device and inode numbers.

    If the sets of two paths have a common element, both paths lead to the same file.
    """
    try:
        if isinstance(path, int):
            status = os.fstat(path)
            return frozenset(((status.st_dev, status.st_ino),)) if stat.S_ISREG(status.st_mode) else frozenset()
        text = os.path.realpath(os.fsdecode(path))
        status = os.stat(text)
    except (OSError, OverflowError):
        return frozenset() if isinstance(path, int) else frozenset((text,))
    except ValueError:  # a zero within the path, which no file has
        return frozenset()
    return frozenset((text, (status.st_dev, status.st_ino)))


def _find_existing(path: str, folders: dict[str, dict[str, str]]) -> str | None:
    """Return the existing file whose name equals ``path`` except for case. ``folders`` caches the names in folders."""
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
