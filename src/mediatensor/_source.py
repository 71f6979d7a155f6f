"""Where media comes from: a picklable description, and a fresh reader for every handle.

A `Source` never holds an open handle of its own. `Source.open` gives what the demuxer reads from: a string
that FFmpeg opens itself, or an object with ``read``, ``seek``, ``tell`` and ``close``. Readers of one source keep
their own position, so several handles (threads, a scan beside a decoder) can read it at the same time.
"""

from __future__ import annotations

import io
import os
import re
import stat
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ._locks import ForkSafeLock
from .errors import MissingDependencyError, OpenError, ReadError, SourceNotFoundError, SourceTypeError

# Two characters at least, so that a Windows drive letter is not taken for a scheme.
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
# fmt: off
_FFMPEG_SCHEMES = frozenset((
    "async", "cache", "concat", "concatf", "crypto", "data", "fd", "file", "ftp", "gopher", "gophers", "hls", "http",
    "httpproxy", "https", "icecast", "ipfs", "ipns", "mmsh", "mmst", "pipe", "rtmp", "rtmpe", "rtmps", "rtmpt",
    "rtmpte", "rtmpts", "rtp", "rtsp", "sftp", "srt", "srtp", "subfile", "tcp", "tls", "udp", "udplite", "unix",
))
# fmt: on


class Reader(ABC):
    """A binary file as the demuxer wants it: ``read`` never returns more than asked, ``seek`` returns the position."""

    def __init__(self) -> None:
        self._position = 0

    @abstractmethod
    def _size(self) -> int: ...

    @abstractmethod
    def _read_at(self, position: int, size: int) -> bytes: ...

    def read(self, size: int) -> bytes:
        data = self._read_at(self._position, size)
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position}.get(whence)
        self._position = max(0, (self._size() if base is None else base) + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def will_need(self, start: int, stop: int) -> None:  # noqa: B027
        """Hear that bytes ``start`` to ``stop`` are read next; for readers to which distance matters."""

    def close(self) -> None:  # noqa: B027
        """Release what this reader opened; an object that the user opened stays open."""


class Source(ABC):
    """A picklable description of where media comes from."""

    #: Whether FFmpeg may open further files or URLs that this one refers to (playlists).
    may_refer_elsewhere = False

    @abstractmethod
    def open(self) -> str | Reader:
        """What the demuxer reads from; a `Reader` is closed with the handle."""

    @abstractmethod
    def describe(self) -> str:
        """The source in an error message."""


class PathSource(Source):
    """A file on this machine."""

    def __init__(self, path: str) -> None:
        self.path = path
        # The check comes early, so that a typo shows where it was made and not in a worker.
        self._check()

    def _check(self) -> None:
        try:
            mode = os.stat(self.path).st_mode
        except FileNotFoundError:
            raise SourceNotFoundError(f"Could not open input file: {self.path} does not exist.") from None
        except (OSError, ValueError) as error:
            raise OpenError(f"Could not open input file: {self.path!r} ({error}).") from None
        if stat.S_ISDIR(mode):
            raise OpenError(f"Could not open input file: {self.path} is a directory; give the path of a media file.")
        if stat.S_ISREG(mode) and os.stat(self.path).st_size == 0:
            raise OpenError(f"Could not open input file: {self.path} is empty.")

    def open(self) -> str:
        self._check()
        # The explicit scheme keeps FFmpeg from reading a name such as "concat:x" or "a:b.mp4" as a URL.
        return f"file:{self.path}"

    def describe(self) -> str:
        return self.path


class UrlSource(Source):
    """A URL that FFmpeg opens itself."""

    may_refer_elsewhere = True

    def __init__(self, url: str) -> None:
        self.url = url

    def open(self) -> str:
        return self.url

    def describe(self) -> str:
        return self.url


class FsspecSource(Source):
    """A URL of any file system that fsspec knows; opened anew by every handle."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._import()

    def _import(self) -> Any:
        try:
            import fsspec
        except ImportError:
            raise MissingDependencyError(
                f'Reading {self.url} needs fsspec: pip install "mediatensor[fsspec]" '
                "(and the package of its file system)."
            ) from None
        return fsspec

    def open(self) -> Reader:
        try:
            file = self._import().open(self.url, "rb").open()
        except FileNotFoundError:
            raise SourceNotFoundError(f"Could not open input file: {self.url} does not exist.") from None
        except ValueError as error:  # unknown protocol
            raise OpenError(f"Could not open {self.url}: {error}") from None
        return _FileReader(_SharedFile(file), close=True)

    def describe(self) -> str:
        return self.url


class MemorySource(Source):
    """A whole file in memory: bytes, or a one-dimensional uint8 tensor (not copied)."""

    def __init__(self, data: bytes | Tensor) -> None:
        self.data = data
        if len(data) == 0:
            raise OpenError(f"Could not open {self.describe()}: the data must not be empty.")

    def open(self) -> Reader:
        data = self.data if isinstance(self.data, bytes) else self.data.numpy().data
        return _MemoryReader(memoryview(data))

    def describe(self) -> str:
        return f"{type(self.data).__name__} of {len(self.data)} bytes"


class FileLikeSource(Source):
    """A binary file object that the user opened, and keeps."""

    def __init__(self, file: Any) -> None:
        self._shared = _SharedFile(file)

    def open(self) -> Reader:
        self._shared.check_open()
        descriptor = _regular_file_descriptor(self._shared.file)
        if descriptor is not None:
            return _DescriptorReader(self._shared.file, descriptor)
        return _FileReader(self._shared, close=False)

    def describe(self) -> str:
        name = getattr(self._shared.file, "name", None)
        return f"{type(self._shared.file).__name__} object" + (f" {name!r}" if isinstance(name, str) else "")


class _MemoryReader(Reader):
    def __init__(self, data: memoryview) -> None:
        super().__init__()
        self._data = data

    def _size(self) -> int:
        return len(self._data)

    def _read_at(self, position: int, size: int) -> bytes:
        return bytes(self._data[position : position + size])


class _DescriptorReader(Reader):
    """Reads a regular file by position, so that neither the user's offset nor that of a forked process matters."""

    def __init__(self, file: Any, descriptor: int) -> None:
        super().__init__()
        self._file = file
        self._descriptor = descriptor

    def _size(self) -> int:
        self._check()
        return os.fstat(self._descriptor).st_size

    def _read_at(self, position: int, size: int) -> bytes:
        self._check()
        return os.pread(self._descriptor, size, position)

    def _check(self) -> None:
        if self._file.closed:
            raise ReadError("The source file was closed while the decoder still needs it; keep it open.")


class _SharedFile:
    """A file object with one position, lent to several readers: each finds the position that it left."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.lock = ForkSafeLock()
        self.last_reader: object = None

    def __getstate__(self) -> dict[str, Any]:
        return {"file": self.file}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["file"])  # type: ignore[misc]

    def check_open(self) -> None:
        if getattr(self.file, "closed", False) is True:
            raise ReadError("The source file is closed; pass an open file and keep it open.")


class _FileReader(Reader):
    def __init__(self, shared: _SharedFile, *, close: bool) -> None:
        super().__init__()
        self._shared = shared
        self._close = close
        self._file_position = -1
        self._last_seek: object = None

    def _size(self) -> int:
        with self._shared.lock:
            self._shared.last_reader = None
            self._seek(0, os.SEEK_END)
            tell = getattr(self._shared.file, "tell", None)
            size = self._last_seek if isinstance(self._last_seek, int) else tell() if tell else None
        if size is None:
            raise ReadError(f"seek of {type(self._shared.file).__name__} must return the new position.")
        return int(size)

    def _seek(self, offset: int, whence: int) -> None:
        self._shared.check_open()
        self._last_seek = self._shared.file.seek(offset, whence)

    def _read_at(self, position: int, size: int) -> bytes:
        with self._shared.lock:
            self._shared.check_open()
            # A forked child has a copy of the reader, but the position may be one with the parent's.
            me = (os.getpid(), id(self))
            if self._shared.last_reader != me:
                self._seek(position, os.SEEK_SET)
                self._shared.last_reader = me
            elif position != self._file_position:
                self._seek(position, os.SEEK_SET)
            try:
                data = self._checked(self._shared.file.read(size), size)
            except OSError as error:
                raise ReadError(f"Reading {size} bytes at {position} of the source file failed: {error}.") from error
            self._file_position = position + len(data)
        return data

    def _checked(self, data: object, size: int) -> bytes:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ReadError(f"read of the source file must return bytes (got {type(data).__name__}).")
        if len(data) > size:
            raise ReadError(
                f"read({size}) of the source file returned {len(data)} bytes, more than asked: "
                "it does not conform to the read protocol."
            )
        return bytes(data)

    def close(self) -> None:
        if self._close:
            self._shared.file.close()


def _regular_file_descriptor(file: Any) -> int | None:
    """The descriptor of a plain file that Python's ``open(..., "rb")`` gave, where it can be read by position."""
    if type(file) not in (io.BufferedReader, io.FileIO) or not hasattr(os, "pread"):
        return None
    try:
        descriptor = file.fileno()
    except OSError:
        return None
    return descriptor if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def make_source(source: object) -> Source:
    """The `Source` for whatever a user passes to a decoder.

    Args:
        source: A path or URL (``str``), a ``pathlib.Path``, the ``bytes`` of a file, the same as a 1-D contiguous uint8
            tensor on the CPU, or a binary file object with ``read(size)`` and ``seek(offset, whence)``.

    Raises:
        SourceTypeError: for anything else, naming what is missing.
        SourceNotFoundError: if a path does not exist.
        OpenError: if there is nothing in it (empty data, a directory).
        ReadError: if the file object is closed.
    """
    if isinstance(source, Source):
        return source
    if isinstance(source, Path):
        return PathSource(str(source))
    if isinstance(source, str):
        return _source_of_string(source)
    if isinstance(source, (bytes, bytearray)):
        return MemorySource(bytes(source))
    if isinstance(source, Tensor):
        return _source_of_tensor(source)
    if isinstance(source, io.TextIOBase):
        raise SourceTypeError(
            "source is for reading text, likely from open(..., 'r'). Try with 'rb' for binary reading?"
        )
    return _source_of_file_like(source)


def _source_of_string(text: str) -> Source:
    match = _SCHEME.match(text)
    if match is None or os.path.exists(text):
        return PathSource(text)
    if match[1].lower() in _FFMPEG_SCHEMES and "::" not in text:
        return UrlSource(text)
    if "://" in text:
        return FsspecSource(text)
    return PathSource(text)


def _source_of_tensor(tensor: Tensor) -> Source:
    if tensor.dtype != torch.uint8:
        raise SourceTypeError(f"A tensor source must be of dtype torch.uint8, kUInt8 (got {tensor.dtype}).")
    if tensor.ndim != 1 or tensor.device.type != "cpu":
        raise SourceTypeError(
            "A tensor source must be 1-dimensional and on the CPU "
            f"(got shape {tuple(tensor.shape)} on {tensor.device})."
        )
    if not tensor.is_contiguous():
        raise SourceTypeError("A tensor source must be contiguous; call .contiguous() on it.")
    return MemorySource(tensor.detach())


def _source_of_file_like(source: Any) -> Source:
    missing = [name for name in ("read", "seek") if not callable(getattr(source, name, None))]
    if len(missing) == 2:
        raise SourceTypeError(
            f"Unknown source type: {type(source)}. Supported types are str, Path, bytes, Tensor and file-like objects "
            "with read(self, size: int) -> bytes and seek(self, offset: int, whence: int) -> int methods."
        )
    if missing:
        raise SourceTypeError(
            f"File like object must implement a {missing[0]} method ({type(source).__name__} has none)."
        )
    file_like = FileLikeSource(source)
    file_like._shared.check_open()
    return file_like
