"""Write files that appear complete under their name, or not at all.

Everything that the library writes to a path goes through this module. A file is written under a hidden name in the
folder of its destination, and renamed when it is complete. Devices and pipes cannot be renamed and are written
directly.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import stat
import weakref
from collections.abc import Iterator
from typing import BinaryIO

from ...errors import MediaTensorError, WriteError
from ..common.checks import path_text

# Paths that lead, as links, to something that must not be replaced.
_SPECIAL_FOLDERS = ("/dev/fd/", "/proc/")
_SPECIAL_FILES = ("/dev/stdin", "/dev/stdout", "/dev/stderr")

# The hidden name has this many characters of the destination's name. Names have at most 255 bytes, characters up to 4.
_NUM_KEPT_CHARACTERS = 50


class AtomicFile:
    """A file that is being written: `commit` gives it its name, `discard` removes it.

    Before `commit`, the destination is unchanged. Errors, interrupts at any line, the end of the program and dropping
    the object leave no file. A killed process leaves a hidden file whose name ends in ``.part``. The new file gets the
    permissions of the file that it replaces, and its owner if the system permits. A symbolic link is kept, and its
    target is replaced.

    ``file`` is open for writing without a buffer, and for reading if it is a regular file. Like every raw file, it may
    accept only a part of the data. ``name`` is the path of the unfinished file.

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
            # The finalizer exists before the file, so that an interrupt leaves no file. It has no reference to this
            # object, so that dropping the object runs it. A forked process must not remove the file.
            self._given_up = (opened, None if self._final is None else self.name, os.getpid())
            self._finalizer = weakref.finalize(self, _give_up, *self._given_up)
            opened.append(_open_new_file(self.name, self._final))
        except (OSError, ValueError) as error:
            advice = "It must be a valid path, in a folder in which files can be created."
            raise write_error(repr(self._path), error, advice) from error
        self.file = opened[0]

    def appear(self) -> None:
        """Give the file its name before it is complete. After this call, a failure does not remove the file.

        On Windows, an open file cannot be renamed, so it gets its name only with `commit`.
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
        """Close the file and give it its name. If this raises `WriteError`, call `discard`."""
        try:
            self.file.close()
            if self._final is not None:
                os.replace(self.name, self._final)
        except OSError as error:
            raise write_error(repr(self._path), error) from error
        self._finalizer.detach()

    def discard(self) -> None:
        """Remove the file, unless it was committed."""
        if self._finalizer.alive:
            # A finalizer that is interrupted counts as run, so it is not called.
            _give_up(*self._given_up)
            self._finalizer.detach()


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that appears at the end of the ``with`` block, unless the block raises; see `AtomicFile`.

    The file's ``name`` is its path while it is unfinished, for libraries that write only to paths. An OSError that the
    block raises becomes `WriteError`.
    """
    new = AtomicFile(path)
    try:
        # The file is not closed if the block fails, because closing would write its buffer.
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
    """Write a complete file; see `AtomicFile`."""
    with writing(path) as file:
        file.write(data)


def write_error(destination: str, error: BaseException, advice: str = "") -> WriteError:
    """Make the error for a destination that cannot be written.

    ``destination`` is text for the message, such as ``"'video.mp4'"``; ``advice`` is a sentence that ends the message.
    """
    # The full message of a system error would name the hidden file.
    reason = getattr(error, "strerror", None) or str(error).rstrip(".") or type(error).__name__
    return WriteError(f"Could not write to {destination}: {reason}. {advice}".rstrip())


def _is_special(path: str) -> bool:
    """Return whether a path is a device, a pipe or a folder, which a regular file must not replace."""
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
    return os.path.join(folder, f".{name[:_NUM_KEPT_CHARACTERS]}.{secrets.token_hex(6)}.part")


def _open_new_file(name: str, final: str | None) -> io.FileIO:
    """Open a new file with the permissions of the file that it will replace; without ``final``, open a special file."""
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
