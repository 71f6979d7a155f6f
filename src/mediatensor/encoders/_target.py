"""Destinations of encoded bytes: files that appear only when complete, URLs, and file objects of the user."""

from __future__ import annotations

import io
import os
import weakref
from pathlib import Path
from typing import Any

from .._engine.common.checks import is_integer
from .._engine.sources.output_files import AtomicFile, write_error
from .._engine.sources.source import FFMPEG_SCHEMES, url_scheme
from ..errors import InvalidArgumentError, SourceTypeError, WriteError

_FAILED = -5  # FFmpeg's code for an input/output error


class Sink:
    """The file object that a muxer writes to, with the ``name`` that FFmpeg sees.

    FFmpeg calls the methods of a sink. They never raise, because the exception could then surface in an unrelated call
    to FFmpeg. Instead they store the first exception in `error`, and return an error code from then on.

    When a muxer is freed, it writes the trailer of the file, even after a failure. To prevent this, call `abandon`
    first. From then on, the sink ignores all bytes.
    """

    def __init__(self, file: Any, name: str) -> None:
        self.file = file
        self.name = name
        self.error: BaseException | None = None
        #: Checked by PyAV, which does not write a trailer to a closed file.
        self.closed = False
        self._can_seek = _can_seek(file)
        # The file object may already contain data, so writing starts at its current position.
        self._begin = _position(file) if self._can_seek else 0
        self._at = 0

    def seekable(self) -> bool:
        return self._can_seek

    def write(self, data: bytes) -> int:
        if self.closed:
            return len(data)
        if self.error is not None:
            return _FAILED
        try:
            _write_all(self.file, data)
        except BaseException as error:
            self.error = error
            return _FAILED
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if self.closed:
            return 0
        if self.error is not None:
            return _FAILED
        try:
            self._at = self._seek(offset, whence)
        except BaseException as error:
            self.error = error
            return _FAILED
        return self._at

    def _seek(self, offset: int, whence: int) -> int:
        if whence == os.SEEK_END:
            self.file.seek(offset, os.SEEK_END)
            return _position(self.file) - self._begin
        place = offset if whence == os.SEEK_SET else self._at + offset
        self.file.seek(self._begin + place, os.SEEK_SET)
        return place

    def tell(self) -> int:
        return self._at

    def reader(self) -> Rereader:
        """Return a reader of the bytes written so far, for muxers that move them (``movflags=faststart``)."""
        return Rereader(self)

    def abandon(self) -> None:
        self.closed = True
        self.error = None  # the traceback refers to this object and to the encoders


class Rereader:
    """Reads the bytes that a `Sink` has written, and leaves its write position unchanged."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._at = 0

    def read(self, size: int) -> bytes:
        writes_at = self._sink.tell()
        self._sink.seek(self._at)
        data: bytes = self._sink.file.read(size) or b""
        self._at += len(data)
        self._sink.seek(writes_at)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            raise OSError("seeking from the end is not supported")
        self._at = offset if whence == os.SEEK_SET else self._at + offset
        return self._at

    def tell(self) -> int:
        return self._at


class Target:
    """A destination of encoded bytes, open until `commit` or `discard`.

    Call `commit` when all bytes have been written, or `discard` after a failure. This base class is for URLs, which
    FFmpeg opens, and whose bytes cannot be withdrawn.

    Attributes:
        opened: The output to pass to the muxer: a `Sink`, or a URL.
    """

    def __init__(self, opened: Sink | str) -> None:
        self.opened = opened

    def appear(self) -> None:
        """Make the file appear at its path now, instead of when it is complete."""

    def commit(self) -> None:
        pass

    def discard(self) -> None:
        pass

    def describe(self) -> str:
        return str(self.opened)


class FileTarget(Target):
    """A file that appears at its path, and replaces any older file, only when it is complete; or a device."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = AtomicFile(path)
        self._sink = Sink(self._file.file, self._file.name)
        # `AtomicFile` removes the file by its own finalizer. A muxer that is freed later must not write to it.
        self._finalizer = weakref.finalize(self, self._sink.abandon)
        super().__init__(self._sink)

    @property
    def name(self) -> str:
        """Path of the unfinished file."""
        return self._file.name

    def appear(self) -> None:
        self._file.appear()

    def commit(self) -> None:
        self._file.commit()
        self._sink.abandon()
        self._finalizer.detach()

    def discard(self) -> None:
        self._sink.abandon()
        self._file.discard()
        self._finalizer.detach()

    def describe(self) -> str:
        return repr(self._path)


class FileLikeTarget(Target):
    """A binary file object of the user, which stays open. After a failure, it keeps the bytes written so far."""

    def __init__(self, file: Any) -> None:
        if isinstance(file, io.TextIOBase) or not callable(getattr(file, "write", None)):
            raise SourceTypeError(
                f"The destination must be a binary file object with write(data: bytes) -> int (got {type(file)})."
            )
        name = type(file).__name__
        try:
            sink = None if getattr(file, "closed", False) else Sink(file, name)
        except Exception as error:  # of the file object
            raise write_error(f"{name} object", error) from error
        if sink is None:
            raise WriteError("The destination is a closed file object.")
        self._sink = sink
        super().__init__(sink)

    def commit(self) -> None:
        flush = getattr(self._sink.file, "flush", None)
        self._sink.abandon()
        try:
            if callable(flush):
                flush()
        except Exception as error:
            raise write_error(self.describe(), error) from error

    def discard(self) -> None:
        self._sink.abandon()

    def describe(self) -> str:
        return f"{type(self._sink.file).__name__} object"


def make_target(destination: object) -> Target:
    """Return the target for a path or URL.

    Raises:
        WriteError: if the file cannot be created.
        SourceTypeError: if the destination has another type.
        InvalidArgumentError: if FFmpeg cannot write to the protocol of the URL.
    """
    if isinstance(destination, os.PathLike):
        destination = os.fspath(destination)
    if not isinstance(destination, str):
        raise SourceTypeError(
            f"The destination must be a path, a str or a pathlib.Path (got {type(destination)}). Pass a file object to "
            "to_file_like() or open_file_like()."
        )
    scheme = url_scheme(destination)
    if scheme == "file":
        return FileTarget(destination[len("file:") :].removeprefix("//"))
    if scheme is None or Path(destination).parent.is_dir():
        return FileTarget(destination)
    if scheme in FFMPEG_SCHEMES:
        return Target(destination)
    if "://" in destination:
        raise InvalidArgumentError(
            f"FFmpeg cannot write to {destination}. Open it yourself, for example with fsspec.open(url, 'wb'), and "
            "pass the file object to to_file_like() or open_file_like()."
        )
    return FileTarget(destination)


def _can_seek(file: Any) -> bool:
    if not callable(getattr(file, "seek", None)):
        return False
    seekable = getattr(file, "seekable", None)
    return bool(seekable()) if callable(seekable) else True


def _position(file: Any) -> int:
    """Return a file's position, from ``tell`` if it exists, otherwise from ``seek``; 0 if ``seek`` returns ``None``."""
    if callable(getattr(file, "tell", None)):
        return int(file.tell())
    place = file.seek(0, os.SEEK_CUR)
    return int(place) if is_integer(place) else 0


def _write_all(file: Any, data: bytes) -> None:
    """Write all of ``data``. Raw files can accept only a part of it at a time.

    If ``write`` returns something other than a number, such as ``None``, assume that it has accepted everything.
    """
    while data:
        written = file.write(data)
        if not is_integer(written):
            return
        if not 0 < written <= len(data):
            raise OSError(f"write() of {len(data)} bytes returned {written}")
        data = data[written:]
