"""Sources of media. A `Source` describes where media comes from, such as a path, a URL or bytes.

A `Source` can be pickled, because it never holds an open file. Each handle calls `Source.open`, which returns the input
for the demuxer: a new `Reader`, or a string that FFmpeg opens.
"""

from __future__ import annotations

import io
import os
import re
import stat
from abc import ABC, abstractmethod
from contextlib import closing
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import (
    InvalidArgumentError,
    MediaTensorError,
    MissingDependencyError,
    OpenError,
    ReadError,
    SourceNotFoundError,
    SourceTypeError,
)
from ..common.checks import is_tensor
from .http import (
    NOT_THERE,
    FileChangedError,
    FsspecRanges,
    HttpError,
    HttpRanges,
    NotAFileError,
    facts_of_version,
    has_ranges,
    is_plain_http,
)
from .readers import (
    MIN_REQUEST_BYTES,
    DescriptorReader,
    FileReader,
    MemoryReader,
    RangeReader,
    Reader,
    SharedFile,
    SpanReader,
    regular_file_descriptor,
)

if TYPE_CHECKING:
    from torch import Tensor

# A scheme has at least two characters, to distinguish it from the letter of a Windows drive.
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")
# fmt: off
FFMPEG_SCHEMES = frozenset((
    "async", "cache", "concat", "concatf", "crypto", "data", "fd", "file", "ftp", "gopher", "gophers", "hls", "http",
    "httpproxy", "https", "icecast", "ipfs", "ipns", "mmsh", "mmst", "pipe", "rtmp", "rtmpe", "rtmps", "rtmpt",
    "rtmpte", "rtmpts", "rtp", "rtsp", "sftp", "srt", "srtp", "subfile", "tcp", "tls", "udp", "udplite", "unix",
))
# fmt: on

# What changes if a file is replaced or written to. The first two values identify the file.
_state_of = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns")
_NUM_TEXT_BYTES = 1024

# Pipes with such names are already open at the other end, so opening them does not wait.
_OPEN_ALREADY = ("/dev/stdin", "/dev/fd/", "/proc/")
# Number of first bytes that identify a file. Most formats have a header or their first frame there.
_NUM_IDENTITY_BYTES = 4096
_NUM_MAGIC_BYTES = 64

# In the path of an image, FFmpeg treats these characters as a pattern that matches many files.
_PATTERN_CHARACTERS = frozenset("%*?[{")


def url_scheme(text: str) -> str | None:
    """Return the scheme of a URL in lower case; ``None`` if the text is a plain path.

    >>> url_scheme("HTTPS://example.org/clip.mp4"), url_scheme("C:/clip.mp4")
    ('https', None)
    """
    match = _SCHEME.match(text)
    return None if match is None else match[1].lower()


class Source(ABC):
    """A description of where media comes from. It can be pickled."""

    #: Whether FFmpeg may open other files or URLs that this source refers to (playlists).
    may_refer_elsewhere = False

    #: The first bytes of the source when it was last opened; empty if unknown.
    magic = b""

    @abstractmethod
    def open(self) -> str | Reader:
        """Return the demuxer's input: a path or URL that FFmpeg opens, or a `Reader`, which the caller must close."""

    def open_bytes(self) -> Reader | None:
        """Return a `Reader` of the source's bytes, even if `open` returns a path; ``None`` if this is not possible."""
        return None

    def check_unchanged(self) -> None:  # noqa: B027
        """Raise `ReadError` if the source is known to have changed since it was opened."""

    @abstractmethod
    def describe(self) -> str:
        """Return the name of the source for error messages."""

    @property
    def local_file(self) -> str | int | None:
        """The path of a local file, or its descriptor if the caller opened it; ``None`` for all other sources."""
        return None

    @property
    def file_name(self) -> str:
        """The file's name without folders, or a description of a source without a name."""
        return os.path.basename(self.describe())


class PathSource(Source):
    """A local file. It is allowed to grow after it has been opened, but must not change in any other way."""

    def __init__(self, path: str) -> None:
        self.path = path
        # State of the file when it was last opened; number and digest of its first bytes.
        self._state: tuple[int, ...] | None = None
        self._beginning: tuple[int, bytes] = (0, b"")
        # Check now, so that the error is raised where the path was passed and not in a worker.
        self._check()

    def _check(self) -> os.stat_result:
        if not self.path:
            raise SourceNotFoundError("Could not open input file: the name '' is empty; give a path or a URL.")
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            raise SourceNotFoundError(f"Could not open input file: {self.path} does not exist.") from None
        except (OSError, ValueError) as error:
            raise OpenError(f"Could not open input file: {self.path!r} ({error}).") from None
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            raise OpenError(f"Could not open input file: {self.path} is a directory; give the path of a media file.")
        if stat.S_ISREG(mode) and status.st_size == 0:
            raise OpenError(f"Could not open input file: {self.path} is empty.")
        return status

    @property
    def local_file(self) -> str:
        return self.path

    def check_opens_at_once(self) -> os.stat_result:
        """Return the result of `os.stat`. Raise `OpenError` if opening the path could block, as for a pipe."""
        status = self._check()
        is_pipe = stat.S_ISFIFO(status.st_mode)
        if (is_pipe or stat.S_ISSOCK(status.st_mode)) and not self.path.startswith(_OPEN_ALREADY):
            raise OpenError(
                f"Could not open input file: {self.path} is a {'named pipe' if is_pipe else 'socket'}. "
                "Media is read at any position: give a regular file, or the bytes."
            )
        return status

    def open(self) -> str | Reader:
        self._note_or_compare_start(self.check_opens_at_once())
        if not _PATTERN_CHARACTERS.isdisjoint(self.path) and (reader := self.open_bytes()) is not None:
            return reader
        # The explicit scheme keeps FFmpeg from taking a name such as "concat:x" or "a:b.mp4" for a URL.
        return f"file:{self.path}"

    def open_bytes(self) -> Reader | None:
        if not os.path.isfile(self.path):  # the bytes of a pipe can be read only once
            return None
        file = self._open_file()
        descriptor = regular_file_descriptor(file)
        if descriptor is not None:
            return DescriptorReader(file, descriptor, close=True)
        return FileReader(SharedFile(file), close=True)

    def _open_file(self) -> io.FileIO:
        try:
            return open(self.path, "rb", buffering=0)
        except OSError as error:
            raise OpenError(f"Could not open input file: {self.path} ({error}).") from error

    def read_to_end(self, max_bytes: int | None) -> bytes:
        """Return all bytes of the file, or of a pipe that is already open; see `read_whole`."""
        self.check_opens_at_once()
        file = self._open_file()
        parts: list[bytes] = []
        num_bytes = 0
        try:
            with file:
                # Read a regular file in one call, given its size. The size of a pipe is 0.
                size = max(1, os.fstat(file.fileno()).st_size)
                _check_size(self.path, size, max_bytes)
                while part := file.read(size):
                    parts.append(part)
                    num_bytes += len(part)
                    _check_size(self.path, num_bytes, max_bytes)
                    size = 1 << 20
        except OSError as error:
            raise ReadError(f"Reading {self.path} failed: {error}.") from error
        return b"".join(parts)

    def check_unchanged(self) -> None:
        if self._state is None:
            return
        try:
            status = os.stat(self.path)
        except OSError:  # the file was removed, but open handles can still read it
            return
        state = _state_of(status)
        # If another file has replaced it, open handles still read the old file.
        if state != self._state and state[:2] == self._state[:2]:
            self._note_or_compare_start(status)

    def _note_or_compare_start(self, status: os.stat_result) -> None:
        """Check that a regular file still starts with the same bytes as when it was first opened.

        The first call stores a digest of these bytes. Raises `ReadError` if the file has changed, because an index of
        the old file would return wrong frames.
        """
        if not stat.S_ISREG(status.st_mode):
            return
        try:
            with open(self.path, "rb", buffering=0) as file:
                beginning = file.read(_NUM_IDENTITY_BYTES)
        except OSError as error:
            raise OpenError(f"Could not open input file: {self.path} ({error}).") from error
        count, digest = self._beginning
        if self._state is None:
            self._beginning = (len(beginning), _digest(beginning))
        elif status.st_size < self._state[2] or _digest(beginning[:count]) != digest:
            raise ReadError(f"{self.path} has changed since it was opened; make a new decoder.")
        self.magic = beginning[:_NUM_MAGIC_BYTES]
        self._state = _state_of(status)

    def describe(self) -> str:
        return self.path


class SpanSource(Source):
    """Bytes [start, stop) of another source."""

    def __init__(self, whole: Source, start: int, stop: int) -> None:
        self._whole = whole
        self._start = start
        self._stop = stop

    def open(self) -> Reader:
        reader = self.open_bytes()
        if reader is None:
            raise OpenError(f"Could not open {self.describe()}: its bytes cannot be read.")
        return reader

    def open_bytes(self) -> Reader | None:
        whole = self._whole.open_bytes()
        if whole is None:
            target = self._whole.open()
            whole = None if isinstance(target, str) else target
        return None if whole is None else SpanReader(whole, self._start, self._stop)

    def describe(self) -> str:
        return self._whole.describe()


class _RemoteSource(Source):
    def __init__(self, url: str) -> None:
        self.url = url
        # Version of the file when it was first opened. It is pickled, because an index of one version would return
        # wrong frames of another version.
        self._version: Any = None

    def describe(self) -> str:
        return self.url


class UrlSource(_RemoteSource):
    """A URL with a scheme that FFmpeg supports.

    Media files on web servers are read by byte ranges. FFmpeg opens everything else itself: playlists, live streams,
    URLs with passwords or proxies, and all other schemes.
    """

    may_refer_elsewhere = True

    def open(self) -> str | Reader:
        if not is_plain_http(self.url):
            return self.url
        server = HttpRanges(self.url, self._version)
        try:
            beginning = server.fetch(0, MIN_REQUEST_BYTES)
        except NotAFileError:
            return self.url
        except FileChangedError as error:
            raise ReadError(f"{self.url}: {error}; make a new decoder.") from error
        except HttpError as error:
            if error.status in NOT_THERE:
                message = f"Could not open input file: {self.url} does not exist ({error})."
                raise SourceNotFoundError(message) from error
            raise OpenError(f"Could not open input file: {self.url} ({error}).") from error
        # Playlists start with text; media containers have bytes that are not text.
        if not any(byte < 9 for byte in beginning[:_NUM_TEXT_BYTES]):
            server.close()
            return self.url
        self._version = server.version
        return RangeReader(server, server.size, self.url, beginning)


class FsspecSource(_RemoteSource):
    """A URL of any file system that fsspec supports. Each handle opens the URL again.

    If the file system can fetch byte ranges, the file is read by ranges. Otherwise it is read through a file object of
    fsspec.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
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
        fsspec = self._import()
        try:
            file_system, path = fsspec.core.url_to_fs(self.url)
            facts = file_system.info(path)  # a request to the server
            version = facts_of_version(facts)
            if self._version not in (None, version):
                raise ReadError(
                    f"{self.url} has changed since it was opened (from {self._version} to {version}); make a new "
                    "decoder."
                )
            self._version = version
            if facts.get("type") == "directory":
                raise IsADirectoryError("it is a directory; give the URL of a media file")
            if facts.get("size") is not None and has_ranges(file_system):
                return RangeReader(FsspecRanges(file_system, path), int(facts["size"]), self.url)
            return FileReader(SharedFile(file_system.open(path, "rb")), close=True, owner=file_system)
        except ReadError:
            raise
        except FileNotFoundError:
            raise SourceNotFoundError(f"Could not open input file: {self.url} does not exist.") from None
        except ImportError as error:
            raise MissingDependencyError(f"Reading {self.url} needs another package: {error}.") from error
        except Exception as error:  # unknown protocol, access denied: each file system has its own
            raise OpenError(f"Could not open {self.url}: {error or type(error).__name__}") from error


class MemorySource(Source):
    """A whole file in memory: its bytes, or a one-dimensional uint8 tensor with its bytes. The tensor is not copied."""

    def __init__(self, data: bytes | Tensor) -> None:
        self.data = data
        if len(data) == 0:
            raise OpenError(f"Could not open {self.describe()}: the data must not be empty.")

    def view(self) -> memoryview:
        return memoryview(self.data if isinstance(self.data, bytes) else self.data.numpy().data)

    def open(self) -> Reader:
        return MemoryReader(self.view())

    def open_bytes(self) -> Reader:
        return self.open()

    def describe(self) -> str:
        return f"{type(self.data).__name__} of {len(self.data)} bytes"


class FileLikeSource(Source):
    """A binary file object that the user opened and must keep open."""

    def __init__(self, file: Any) -> None:
        self._shared = SharedFile(file)

    def open(self) -> Reader:
        self._shared.check_open()
        descriptor = regular_file_descriptor(self._shared.file)
        if descriptor is not None:
            return DescriptorReader(self._shared.file, descriptor)
        return FileReader(self._shared, close=False)

    def describe(self) -> str:
        name = getattr(self._shared.file, "name", None)
        return f"{type(self._shared.file).__name__} object" + (f" {name!r}" if isinstance(name, str) else "")

    @property
    def local_file(self) -> int | None:
        return regular_file_descriptor(self._shared.file)

    @property
    def file_name(self) -> str:
        name = getattr(self._shared.file, "name", None)
        return os.path.basename(name if isinstance(name, str) and name else self.describe())


def stamp_of(file: str | int) -> tuple[int, int] | None:
    """Return (time of the last change in nanoseconds, size) of a path or descriptor; ``None`` if it is not a file."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def remote_version(url: str) -> str | None:
    """Return a text that changes when a remote file changes; ``None`` if the server does not state a version.

    The text has the size of the file and, if the server states it, its tag or the time of its last change. A URL that
    only FFmpeg can open has no version, and neither has a file that cannot be opened.
    """
    try:
        source = make_source(url)
        if isinstance(source, FsspecSource):
            source.open().close()
            return str(source._version)
    except MediaTensorError:
        return None
    if not isinstance(source, UrlSource) or not is_plain_http(url):
        return None
    server = HttpRanges(url)
    try:
        server.fetch(0, 1)
    except HttpError:
        return None
    server.close()
    return str(server.version)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


_IS_TEXT = "source is for reading text, likely from open(..., 'r'). Try with 'rb' for binary reading?"


def make_source(source: object) -> Source:
    """Make a `Source` from the argument ``source`` of a decoder.

    ``source`` can be a path or URL (``str``), a ``pathlib.Path``, the contents of a file as ``bytes`` or as a 1-D uint8
    tensor on the CPU, or a binary file object with ``read(size)`` and ``seek(offset, whence)``. Raises
    `SourceTypeError` for anything else, `SourceNotFoundError` if a path does not exist, `OpenError` if the source is
    empty or a directory, and `ReadError` if the file object is closed.
    """
    if isinstance(source, Source):
        return source
    if isinstance(source, Path):
        return PathSource(str(source))
    if isinstance(source, str):
        scheme = url_scheme(source)
        if scheme is not None and not os.path.exists(source):
            if scheme in FFMPEG_SCHEMES and "::" not in source:
                return UrlSource(source)
            if "://" in source:
                return FsspecSource(source)
        return PathSource(source)
    if isinstance(source, (bytes, bytearray)):
        return MemorySource(bytes(source))
    if is_tensor(source):
        return _source_of_tensor(source)
    if isinstance(source, io.TextIOBase):
        raise SourceTypeError(_IS_TEXT)
    return _source_of_file_like(source)


def read_to_end(file: Any) -> bytes:
    """Return the remaining bytes of a binary file object."""
    data = file.read()
    if isinstance(data, str):
        raise SourceTypeError(_IS_TEXT)
    return bytes(data)


def make_readable_source(source: object) -> Source:
    """Make a `Source` like `make_source`, but read a ``file:`` URL as a path, and not with FFmpeg."""
    made = make_source(source)
    if isinstance(made, UrlSource) and made.url.startswith("file:"):
        return PathSource(made.url.removeprefix("file:"))
    return made


def read_whole(source: object, max_bytes: int | None = None) -> bytes:
    """Return all bytes of a source, which is anything that `make_source` accepts.

    A pipe that is already open, such as ``/dev/stdin``, is read to its end. A file object is read from its start and
    stays open. ``max_bytes`` does not limit bytes that are in memory already.

    Raises:
        InvalidArgumentError: if the source has more than ``max_bytes`` bytes.
        OpenError: if only FFmpeg can open the source.
    """
    made = make_readable_source(source)
    if isinstance(made, MemorySource):
        return made.data if isinstance(made.data, bytes) else made.data.numpy().tobytes()
    if isinstance(made, PathSource):
        return made.read_to_end(max_bytes)
    reader = made.open_bytes() or made.open()
    if isinstance(reader, str):
        raise OpenError(
            f"Could not read all bytes of {made.describe()}: only FFmpeg can open it. Give bytes, a path, a file "
            "object, or a URL of http(s) or fsspec."
        )
    with closing(reader):
        size = reader.seek(0, os.SEEK_END)
        _check_size(made.describe(), size, max_bytes)
        reader.will_need(0, size)
        return reader.read_at(0, size)


def _check_size(name: str, num_bytes: int, max_bytes: int | None) -> None:
    if max_bytes is not None and num_bytes > max_bytes:
        raise InvalidArgumentError(f"{name} has {num_bytes} bytes, more than the limit of {max_bytes}.")


def _source_of_tensor(tensor: Tensor) -> Source:
    import torch

    if tensor.dtype != torch.uint8:
        raise SourceTypeError(f"A tensor source must be of dtype torch.uint8, kUInt8 (got {tensor.dtype}).")
    if tensor.ndim != 1 or tensor.device.type != "cpu":
        raise SourceTypeError(
            "A tensor source must be 1-dimensional and on the CPU "
            f"(got shape {tuple(tensor.shape)} on {tensor.device})."
        )
    return MemorySource(tensor.detach().contiguous())


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
