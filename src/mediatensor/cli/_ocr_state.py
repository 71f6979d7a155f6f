"""Files that let ``mediatensor ocr`` resume: records of completed outputs, stored pages, and the progress in a video.

State is stored with a key: the source and the options of the run. A run ignores state that has a different key.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from .._engine.common.messages import progress
from .._engine.sources.output_files import check_outputs, write_file
from ..errors import InvalidArgumentError, MediaTensorError, PageError, ReadError, WriteError
from . import _text
from ._console import STANDARD, StopError, StreamName, emit, emit_error, shown_name

if TYPE_CHECKING:
    from ._ocr_files import Task

_KEY_FILE = "key.json"
_VIDEO_STATE_FILE = "video.state"

# Shortest time between two stored states. An interruption loses at most this much work.
_SECONDS_BETWEEN_STATES = 10.0

# Types that a pickled state may contain although they are not classes of this library.
_STATE_TYPES = {
    ("builtins", "range"), ("collections", "deque"), ("numpy", "dtype"), ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"), ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"), ("numpy.core.numeric", "_frombuffer"),
}  # fmt: skip


def source_key(task: Task, path: str) -> dict[str, Any]:
    """Return the part of a key that identifies the source: its name and the state of its file.

    The state is the file's size and time of change; for standard input, it is a hash of the content, which is read from
    ``path``; for a URL, it is the version that the server states, or ``None``.
    """
    source = task.source
    state: list[Any] | None = None
    if source == STANDARD:
        with open(path, "rb") as file:
            state = [hashlib.file_digest(file, "sha256").hexdigest()]
    elif os.path.exists(source):
        source, state = os.path.abspath(source), _file_state(Path(source))
    elif task.remote_version is not None:
        state = [task.remote_version]
    return {"source": source, "state": state}


def source_of(task: Task) -> str:
    """Return the source of a task as `source_key` stores it. If it is an existing file, its path is absolute."""
    is_file = task.source != STANDARD and os.path.exists(task.source)
    return os.path.abspath(task.source) if is_file else task.source


def _seal(data: bytes) -> bytes:
    """Return ``data`` after its digest, so that `_unseal` notices damage and other changes."""
    return hashlib.blake2b(data, digest_size=16).digest() + data


def _unseal(sealed: bytes) -> bytes | None:
    """Return the data that `_seal` got, or ``None`` if it has changed since."""
    data = sealed[16:]
    return data if _seal(data) == sealed else None


class Record:
    """A hidden JSON Lines file. Each line describes a completed item, such as an output file.

    Lines are never changed, only appended. If several lines describe an item, the last one counts. So several programs
    can use the same folder at once.

    ``name`` is the JSON key of the item's name. Two names mean the same item if ``fold`` makes them equal.
    """

    def __init__(self, path: Path, name: str, fold: Callable[[str], str] = str) -> None:
        self.path = path
        self._name, self._fold = name, fold
        self._entries: dict[str, dict[str, Any]] = {}
        if not path.is_file():  # a pipe would be waited for
            return
        try:
            lines = path.read_bytes().splitlines()
        except OSError:
            return
        for line in lines:
            with suppress(ValueError, KeyError, TypeError, RecursionError):  # skip truncated lines, and nonsense
                entry = json.loads(line)
                self._entries[fold(entry[name])] = entry

    def __getitem__(self, name: str) -> dict[str, Any]:
        return self._entries.get(self._fold(name), {})

    def add(self, entry: Mapping[str, Any]) -> None:
        line = json.dumps(entry)
        with self.path.open("a+b") as file:
            # Start a new line if a kill or a full disk has truncated the last one.
            if file.seek(0, os.SEEK_END) and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                line = f"\n{line}"
            file.write(f"{line}\n".encode())
        self._entries[self._fold(entry[self._name])] = json.loads(line)


class WrittenOutputs:
    """The record of all outputs that the command has completed in a folder.

    For each output, it has the source and the options, and the size and time of the file after writing. The names of
    outputs are compared without regard to case.
    """

    def __init__(self, folder: Path) -> None:
        self._record = Record(folder / ".mediatensor-ocr.jsonl", "output", str.casefold)
        self.path = self._record.path

    def __contains__(self, path: object) -> bool:
        """Return whether this command has written a file in the folder, and the file has not changed since."""
        if not isinstance(path, Path) or not path.is_file():
            return False
        return self._is_as_written(str(path))

    def is_of(self, output: str, source: str, is_again: bool) -> bool:
        """Return whether this command has made an output from ``source``, and the file has not changed since.

        ``is_again`` means that an interrupted run is repeated. It may have written an output without recording it.
        """
        is_made = self._is_as_written(output) and self._source_of(output) == source
        return is_made or (is_again and not self._entry(output))

    def is_own(self, output: str, key: Mapping[str, Any], is_again: bool) -> bool:
        """Return whether the command may replace an output: it made the file from the same source and it is unchanged.

        ``is_again`` means that an interrupted run is repeated. It may have written an output without recording it. An
        output of another source raises an error.
        """
        source = self._source_of(output)
        if source is not None and source != key["source"]:
            raise InvalidArgumentError(
                f"{output!r} exists already, and was made from {shown_name(str(source))}; choose another folder with "
                "-o, or replace it with --overwrite."
            )
        return (is_again and not self._entry(output)) or self._is_complete(output, key) or self._is_as_written(output)

    def missing(
        self, task: Task, key: Mapping[str, Any], messages: StreamName, *, is_again: bool = False, overwrite: bool
    ) -> list[str]:
        """Return the formats of a task that have not been written yet; print a message for each that is complete.

        Raise an error if an output exists that this command must not replace.
        """
        outputs = {kind: task.output(kind) for kind in task.formats}
        check_outputs(
            outputs.values(),
            overwrite=overwrite,
            is_own=lambda _, existing: self.is_own(existing, key, is_again),
            makes_folders=True,
        )
        missing_kinds = []
        for kind, output in outputs.items():
            if overwrite or is_again or not output.exists() or not self._is_complete(str(output), key):
                missing_kinds.append(kind)
                continue
            changed = "" if self._is_as_written(str(output)) else ", and was changed since"
            emit(f"kept {output}: it is complete{changed} (--overwrite reads it again)", messages)
        return missing_kinds

    def add(self, output: Path, key: Mapping[str, Any]) -> None:
        self._record.add({"output": output.name, "key": key, "state": _file_state(output)})

    def _is_complete(self, output: str, key: Mapping[str, Any]) -> bool:
        return bool(self._entry(output).get("key") == json.loads(json.dumps(key)))

    def _source_of(self, output: str) -> Any:
        key = self._entry(output).get("key")
        return key.get("source") if isinstance(key, dict) else None

    def _is_as_written(self, output: str) -> bool:
        try:
            return bool(self._entry(output).get("state") == _file_state(Path(output)))
        except FileNotFoundError:  # a symbolic link to a missing file
            return False

    def _entry(self, output: str) -> dict[str, Any]:
        return self._record[os.path.basename(output)]


def _file_state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


class PageStore:
    """Stores each page of a document after it has been read, in a hidden folder with one or two files per page.

    Files are written atomically. The folder is created by the first call of `put` or `claim`. ``key`` has the source
    and the options that affect the pages. If the folder has pages with another key, they are deleted.
    """

    def __init__(self, task: Task, key: Mapping[str, Any]) -> None:
        self._folder = task.work_folder
        # Pages stay in memory, because every output needs them, and another run may finish first and delete the folder.
        self._stored: dict[int, dict[str, Any]] = {}
        self._key = json.dumps({**key, "pages": None, "version": __version__}, sort_keys=True)
        try:
            is_ours = (self._folder / _KEY_FILE).read_text(encoding="utf-8") == self._key
        except (OSError, UnicodeDecodeError):
            is_ours = False
        if not is_ours:
            self.clear()

    def __contains__(self, number: int) -> bool:
        """Return whether the page is stored as it was written. A page whose files have changed is read again."""
        try:
            data = _unseal(self._page(number).read_bytes())
        except OSError:
            return False
        stored = None if data is None else json.loads(data)
        if stored is None or (stored["has_pdf"] and not self._pdf(number).is_file()):
            return False
        self._stored[number] = stored
        return True

    def claim(self) -> None:
        """Create the folder, so that a later run knows which outputs belong to this document, even without pages."""
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True)
        if not (self._folder / _KEY_FILE).exists():
            write_file(self._folder / _KEY_FILE, self._key.encode())

    def put(self, number: int, page: dict[str, Any], pdf: bytes | None = None) -> None:
        self.claim()
        if pdf is not None:
            write_file(self._pdf(number), pdf)
        self._stored[number] = {"page": page, "has_pdf": pdf is not None}
        write_file(self._page(number), _seal(json.dumps(self._stored[number]).encode()))

    def get(self, number: int) -> dict[str, Any]:
        """Return a page that this object has stored, or has found to be stored."""
        page: dict[str, Any] = self._stored[number]["page"]
        return page

    def pdf(self, number: int) -> Path | None:
        """Return the PDF file of a page that `get` returns, or ``None`` if the page was stored without one."""
        if not self._stored[number]["has_pdf"]:
            return None
        if not self._pdf(number).is_file():
            raise ReadError(
                f"Page {number + 1} was stored, and is gone: another run reads this document in the same folder. Run "
                "the command again."
            )
        return self._pdf(number)

    def _pdf(self, number: int) -> Path:
        return self._folder / f"{number:08d}.pdf"

    def _page(self, number: int) -> Path:
        return self._folder / f"{number:08d}.page"

    @staticmethod
    def path(task: Task) -> Path:
        """Return the path of the file with the key. The folder is a page store only if this file exists."""
        return task.work_folder / _KEY_FILE

    @staticmethod
    def has_pages_of(task: Task) -> bool:
        """Return whether an interrupted run has left a page store for the source of this task."""
        try:
            return bool(json.loads(PageStore.path(task).read_bytes())["source"] == source_of(task))
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def clear(self) -> None:
        if self._folder.is_dir():
            number = "[0-9]" * 8
            stored = [*self._folder.glob(f"{number}.page"), *self._folder.glob(f"{number}.pdf")]
            for path in [self._folder / _KEY_FILE, *stored]:
                path.unlink(missing_ok=True)
            with suppress(OSError):  # keep the folder if it has other files
                self._folder.rmdir()


def read_missing(
    task: Task,
    numbers: Sequence[int],
    store: PageStore,
    load: Callable[[], object],
    read: Callable[[int], None],
) -> dict[int, str]:
    """Read the pages that are not stored yet. Print errors, and return them as a dict from page number to message.

    ``load`` loads the models, and is called only if a page is missing. ``read`` reads a page and stores it.
    `StopError` is raised if a page cannot be stored, for example on a full disk.
    """
    missing = [number for number in numbers if number not in store]
    if missing:
        load()
    failures = {}
    for number in progress(missing, _text.shorten(os.path.basename(task.source), 30), unit="page"):
        try:
            read(number)
        except WriteError as error:
            name = shown_name(os.path.basename(task.source))
            raise StopError(
                f"stopped at {name}, page {number + 1}: it was read, but cannot be stored: {error}"
            ) from error
        except (MediaTensorError, OSError) as error:
            is_about_page = isinstance(error, PageError)
            failures[number] = str(error) if is_about_page else f"{shown_name(task.source)}, page {number + 1}: {error}"
    for message in failures.values():
        emit_error(message)
    return failures


class ProgressStore:
    """Stores how far a video has been read, so that a later run can resume.

    The state is one file, written atomically, in a hidden folder. ``key`` has the source and the options that affect
    the result. If the stored state has another key, it is ignored.
    """

    def __init__(self, task: Task, key: Mapping[str, Any]) -> None:
        self._file = self.path(task)
        self._key = json.dumps({**key, "version": __version__}, sort_keys=True).encode() + b"\n"
        self._last_put_time = time.monotonic()

    @staticmethod
    def path(task: Task) -> Path:
        return task.work_folder / _VIDEO_STATE_FILE

    def get(self) -> Any:
        """Return the stored state; ``None`` if there is none, or if it cannot be used."""
        try:
            data = self._file.read_bytes()
            state = _unseal(data.removeprefix(self._key)) if data.startswith(self._key) else None
            return None if state is None else _ProgressUnpickler(io.BytesIO(state)).load()
        except Exception:  # there is no file, or unpickling damaged bytes raises one of many types
            return None

    def put(self, make: Callable[[], Any]) -> None:
        """Store the state that ``make`` returns, unless a state was stored a few seconds ago."""
        if time.monotonic() - self._last_put_time < _SECONDS_BETWEEN_STATES:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_file(self._file, self._key + _seal(pickle.dumps(make(), pickle.HIGHEST_PROTOCOL)))
        self._last_put_time = time.monotonic()

    def clear(self) -> None:
        self._file.unlink(missing_ok=True)
        with suppress(OSError):  # the folder is not empty, or does not exist
            self._file.parent.rmdir()


class _ProgressUnpickler(pickle.Unpickler):
    """Unpickles only plain data and classes of this library, because attackers may have changed the state file."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _STATE_TYPES:
            return super().find_class(module, name)
        is_ours = module.startswith(("mediatensor.ocr.video.", "mediatensor.ocr.models.video_predictor."))
        value = super().find_class(module, name) if is_ours and "." not in name else None
        if isinstance(value, type) and value.__module__ == module:
            return value
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a state")
