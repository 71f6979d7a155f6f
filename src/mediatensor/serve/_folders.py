"""The folder of a running server: its uploads and results. It is deleted with the server, or by the next one."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from ..errors import WriteError

__all__ = ["RunFolder"]

_LOCK = "lock"


class RunFolder:
    """A folder that only this user can enter, and that is this server's as long as it runs.

    A server that was killed leaves its folder; whoever starts next deletes it, since nobody holds its lock any more.

    Args:
        parent: Where the folders of all servers of this user are; ``None`` for the system's folder of temporary files.

    Raises:
        WriteError: if there can be no folder that is this user's alone.
    """

    def __init__(self, parent: Path | None) -> None:
        self._parent = (Path(tempfile.gettempdir()) if parent is None else parent) / f"mediatensor-serve-{os.getuid()}"
        try:
            self._parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_own(self._parent)
            with _locked(self._parent / _LOCK):
                self._delete_stale()
                self.path = Path(tempfile.mkdtemp(prefix="run-", dir=self._parent))
                self._lock = _opened_lock(self.path / _LOCK)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except WriteError:
            raise
        except OSError as error:
            raise WriteError(f"Uploads cannot be kept in {self._parent}: {error.strerror}.") from error

    def _delete_stale(self) -> None:
        for folder in self._parent.glob("run-*"):
            with suppress(OSError), _opened_lock(folder / _LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its server runs
                shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_own(folder: Path) -> None:
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise WriteError(f"{folder} is not a folder that belongs to you alone; delete it, or name another folder.")


def _opened_lock(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+b")


class _locked:
    """Within the block nobody else has the lock."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._file = _opened_lock(self._path)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()
